"""A component that lacks rights that it asks for: it says so at every start; a component that fails
closed keeps the chain from starting."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest

import conductor as library
from conductor.errors import UsageError
from tests.harness.process.command import Ran, Running, conductor
from tests.places import PASSTHROUGH

WANTS: Final = """fails = "{fails}"
[rights]
filter = "I AM A GUARD, TRUST ME"
"answer:prompts" = "to refuse"
"change:tool-calls" = "for the words of tools"
"read:docs/*.md" = "to read"
"""
LACKS: Final = (
    "does not get what it asks for: "
    "`filter`, `answer:prompts`, `change:tool-calls` and `read:docs/*.md`"
)
ALL: Final = "allow=filter+answer:prompts+change:tool-calls+read:docs/*.md"


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a stranger's guard in it, and a user who trusts nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    guard(tmp_path / "guard")
    return tmp_path


def guard(folder: Path, fails: str = "closed", runs: str = 'file = "p.wasm"') -> None:
    """A component that asks for more than the default."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(PASSTHROUGH, folder / "p.wasm")
    text = f'name = "guard"\n{runs}\n{WANTS.format(fails=fails)}'
    (folder / "component.toml").write_text(text)


def program(folder: Path) -> None:
    """The same as a program, which has no right of the machine."""
    guard(folder, runs=f'command = ["{sys.executable}", "-c", "open(\'ran\', \'w\')"]')
    manifest = folder / "component.toml"
    lines = manifest.read_text().splitlines(keepends=True)
    manifest.write_text("".join(one for one in lines if "read:" not in one))


def exec_(here: Path, *components: str) -> Ran:
    """Sends one prompt through a chain; the agent answers with the text that it gets."""
    return conductor("exec", *components, "demo", "-p", "hi", cwd=here)


REFUSED: Final = {
    "a stranger": ("./guard", LACKS, f"`./guard,{ALL}` allows that; `,fails=open` starts"),
    "with a part": (
        "./guard,only=filter+change:tool-calls",
        "asks for: `answer:prompts` and `read:docs/*.md`",
        "",
    ),
    "with another file": (
        f"./guard,{ALL.replace('docs/*.md', 'docs/a.md')}",
        "asks for: `read:docs/*.md`;",
        "`./guard,allow=read:docs/*.md` allows that",
    ),
    "as an object": ('{"wasm": "./guard/p.wasm"}', LACKS, ""),
    "closed by an option": ("./open,fails=closed", LACKS, ""),
    "bundled, denied": (
        "rate-limit,deny=clock",
        "`clock`",
        "leave out `deny=clock` (command line);",
    ),
    "bundled, all denied by one": (
        "permission-guard,deny=see:*",
        "`see:setups`, `see:tool-calls` and `refuse:permissions`",
        "hint: leave out `deny=see:*` (command line);",
    ),
    "bundled, narrowed": ("redact,only=context", "`change:words`", "leave out `only=context`"),
    "a program": ("./program,only=none", "`filter`", ""),
}


@pytest.mark.proves("a component that fails closed")
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("command", ["exec", "proxy"])
def test_what_fails_closed_does_not_start_without_its_rights(
    here: Path, what: str, command: str
) -> None:
    guard(here / "open", "open")
    program(here / "program")
    component, text, hint = REFUSED[what]
    if what == "a program":
        assert conductor("trust", "./program", cwd=here).code == 0
    more = ["demo", "-p", "hi"] if command == "exec" else []
    ran = conductor(command, component, *more, cwd=here)
    ran.assert_error(2, "it fails closed, so no chain starts without that", text, hint)
    assert ran.out == ""
    assert "TRUST ME" not in ran.err
    assert not (here / "ran").exists()


@pytest.mark.proves("a component that fails closed")
def test_the_editor_is_told(here: Path) -> None:
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    ran = conductor("agent", "--ask", "never", "./guard", "demo", stdin=request, cwd=here)
    assert ran.code == 2
    assert LACKS in json.loads(ran.out)["error"]["message"]


@pytest.mark.proves("a component that fails closed")
def test_a_program_that_embeds_a_chain_is_told(here: Path) -> None:
    async def begin() -> None:
        async with library.open(f"{here}/guard", "demo"):
            pass

    with pytest.raises(UsageError, match="it fails closed"):
        asyncio.run(begin())


@pytest.mark.parametrize(
    "component",
    [f"./guard,{ALL}", "./guard,only=trusted+read:**", "./guard,fails=open", "redact"],
)
@pytest.mark.usefixtures("python_guest")
def test_with_its_rights_or_open_it_starts(here: Path, component: str) -> None:
    ran = exec_(here, component)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert ("does not get" in ran.err) == ("open" in component)


def test_what_is_agreed_to_starts_until_it_is_not(here: Path) -> None:
    assert conductor("trust", "./guard/p.wasm", cwd=here).code == 0
    assert exec_(here, "./guard").code == 0
    assert conductor("trust", "--remove", "guard", cwd=here).code == 0
    assert exec_(here, "./guard").code == 2


@pytest.mark.proves("any other component says at")
def test_what_fails_open_says_what_it_lacks_at_every_start(here: Path) -> None:
    guard(here / "guard", "open")
    for _ in range(2):
        ran = exec_(here, "./guard")
        assert (ran.code, ran.out) == (0, "hi\n")
        warning = f"warning: guard: it {LACKS}\n  | hint: `./guard,{ALL}` allows that\n"
        assert ran.err.count(warning) == 1
        assert "TRUST ME" not in ran.err


@pytest.mark.proves("no prompt passes it while its")
@pytest.mark.usefixtures("here")
def test_on_a_terminal_no_is_no_start() -> None:
    with Running("exec", "./guard", "demo", "-p", "hi", terminal=True) as running:
        running.wait_for(running.err, "keep it narrow: ")
        running.type("\n")
        ran = running.end()
    assert ran.code == 2
    assert "it fails closed" in ran.err
