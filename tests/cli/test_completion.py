"""`conductor completion SHELL`: a shell's use of the script."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from conductor.cli.manual import SHELLS
from conductor.spec import catalog
from tests.harness.process.command import conductor
from tests.places import DEADLINE

CASES: Final = {
    "conductor ex": {"exec"},
    "conductor lo": {"lock", "log"},
    "conductor log ": {"blame", "export", "replay", "show", "stats", "verify", "view"},
    "conductor ps pa": {"pause"},
    "conductor exec --f": {"--fs"},
    "conductor log show --t": {"--turn"},
    "conductor test --match j": {"json"},
    "conductor exec --fs ": {"none", "read", "write"},
    "conductor exec --permissions al": {"allow-once"},
    "conductor exec --timeout 3 --log w": {"warning"},
    "conductor exec -p hello dateti": {"datetime"},
    "conductor exec datetime dem": {"demo"},
    "conductor exec datetime,onl": {"datetime,only="},
    "conductor exec datetime,only=ob": {"datetime,only=observer"},
    "conductor exec datetime,allow=show:p": {"datetime,allow=show:panel"},
    "conductor exec datetime,only=none,allow=clo": {"datetime,only=none,allow=clock"},
    "conductor exec datetime,limit.timer": {"datetime,limit.timers="},
    "conductor completion f": {"fish"},
    "conductor help limi": {"limits"},
    "conductor new --lang ru": {"rust"},
    "conductor test --on": {"--only"},
    "conductor log verify log": {"log.jsonl"},
    "conductor exec --trace=log": {"log.jsonl"},
    "conductor exec --cwd ": {"sub"},
    "conductor exec -c clock=": set(),
}

BASH: Final = r"""
source ./script
compopt() { :; }
while IFS= read -r line; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=() at=0
  # As readline does: words end at spaces, and each run of = or : is a word.
  spaced=$(printf '%s' "$line" | sed 's/[=:]\{1,\}/ & /g')
  for word in $spaced; do COMP_WORDS[at]=$word; at=$((at + 1)); done
  case $line in *' ') COMP_WORDS[at]=; at=$((at + 1)) ;; esac
  COMP_CWORD=$((at - 1))
  _conductor
  printf '%s\n' "${COMPREPLY[@]}" .
done
"""
ZSH: Final = r"""
compdef() { :; }
source ./script
compadd() { [[ $1 == -S ]] && shift 2; shift; print -rl -- ${(M)@:#${words[CURRENT]}*}; }
_files() {
  local start=${words[CURRENT]#*=}
  if [[ $1 == -/ ]]; then print -rl -- $start*(N-/); else print -rl -- $start*(N); fi
}
while IFS= read -r line; do
  words=(${(z)line}); [[ $line == *' ' ]] && words+=('')
  CURRENT=$#words
  _conductor
  print -r .
done
"""
FISH: Final = r"""
source ./script
function __fish_complete_directories; string match -r '.*/$' -- */ | string trim -rc /; end
while read -l line
    complete -C "$line" | string replace -r '\t.*' ''
    echo .
end
"""
PROGRAMS: Final = {"bash": ["bash", "-c", BASH], "zsh": ["zsh", "-fc", ZSH]} | {
    "fish": ["fish", "--no-config", "-c", FISH]
}


def completed(shell: str, folder: Path) -> dict[str, set[str]]:
    """The completions that the shell offers for each of the lines."""
    script = conductor("completion", shell)
    assert (script.code, script.err) == (0, "")
    (folder / "script").write_text(script.out, encoding="utf-8")
    (folder / "sub").mkdir()
    (folder / "log.jsonl").touch()
    ran = subprocess.run(
        PROGRAMS[shell],
        input="\n".join([*CASES, ""]),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env=os.environ | {"HOME": str(folder), "TERM": "dumb"},
        timeout=DEADLINE,
        check=True,
    )
    assert ran.stderr == "", "noise on the line that the user writes"
    offered = re.split(r"^\.\n", ran.stdout, flags=re.MULTILINE)[:-1]
    return {line: set(words.split()) for line, words in zip(CASES, offered, strict=True)}


def test_bash(tmp_path: Path) -> None:
    # bash replaces what follows the last = or : only.
    for line, offered in completed("bash", tmp_path).items():
        assert offered == {re.sub(r".*[=:](?=.)", "", word) for word in CASES[line]}, line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh")
def test_zsh(tmp_path: Path) -> None:
    for line, offered in completed("zsh", tmp_path).items():
        assert offered == CASES[line], line


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish")
def test_fish(tmp_path: Path) -> None:
    # fish replaces the whole word.
    for line, offered in completed("fish", tmp_path).items():
        flag = re.match(r".* (--\w+=)", line)
        wanted = {f"{flag[1] if flag else ''}{word}" for word in CASES[line]}
        assert {word.rstrip("/") for word in offered} == wanted, line


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_has_every_bundled_component(shell: str) -> None:
    script = conductor("completion", shell).out
    assert not [name for name in catalog.bundled() if name not in script]
    assert "join" not in script.split()


def test_another_shell() -> None:
    conductor("completion", "fisch").assert_error(2, "no completion for `fisch`", "`fish`?")
    conductor("completion", "tcsh").assert_error(2, "`tcsh`", "shells are: bash, zsh, fish")
