"""`conductor lock` and `--locked` as a user runs them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conductor.core.policy import words
from conductor.spec.paths import components_folder
from tests.harness.process.command import Ran, conductor, environment

CUSTOM_SECTION = b"\0\2\1x"
"""Appended to a module it changes its digest and nothing else."""

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
AGENT = """#!{python}
import os, sys
os.execv(sys.executable, [sys.executable, {demo!r}, *sys.argv[1:]])
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path) -> Path:
    """A folder with a module, `p.wasm`, and an agent, `agent`."""
    shutil.copyfile(components_folder() / "passthrough" / "passthrough.wasm", tmp_path / "p.wasm")
    demo = str(components_folder() / "demo" / "agent.py")
    agent = tmp_path / "agent"
    agent.write_text(AGENT.format(python=sys.executable, demo=demo))
    agent.chmod(0o755)
    return tmp_path


def lock(folder: Path, *arguments: str) -> Ran:
    """`conductor lock`, which goes well."""
    ran = conductor("lock", *arguments, cwd=folder)
    assert (ran.code, ran.err) == (0, ""), ran
    return ran


def locked(folder: Path, *arguments: str) -> Ran:
    """Plays one turn, held to the lock file."""
    return conductor("exec", "--locked", *arguments, "-p", "hi", cwd=folder)


def written(folder: Path, name: str = "conductor.lock") -> list[dict[str, Any]]:
    """The components in a lock file."""
    held = tomllib.loads((folder / name).read_text())
    assert held["version"] == 3
    found: list[dict[str, Any]] = held["component"]
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def change(module: Path) -> None:
    module.write_bytes(module.read_bytes() + CUSTOM_SECTION)


def test_what_is_written_of_each_kind(here: Path) -> None:
    (here / "mine.py").write_text("async def proxy(channel):\n    pass\n")
    args = ("datetime", "./p.wasm,allow=clock,memory=16MiB", "py:mine:proxy", "./agent --x")
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(here)
    ran = conductor("lock", *args, cwd=here, env=env)
    assert (ran.code, ran.err) == (0, "")
    assert "conductor.lock written: 4 components" in ran.out
    date, module, code, agent = written(here)
    assert (date["kind"], date["source"], date["version"]) == ("bundled", "datetime", "0.1.0")
    assert (date["rights"], date["dialect"]) == (["change:prompts", "clock"], "channel")
    assert (date["meaning"], date["fails"]) == (words.meaning(*date["rights"]), "open")
    assert (module["kind"], module["source"]) == ("module", "./p.wasm")
    assert module["sha256"] == digest(here / "p.wasm")
    assert module["size"] == (here / "p.wasm").stat().st_size
    assert (module["carrier"], module["imports"], module["isolation"]) == ("core", [], "process")
    assert (module["limits"]["memory_bytes"], module["limits"]["cpu_ms"]) == (16 * 1024**2, 1000)
    assert (module["on_failure"], module["on_violation"]) == ("restart", "pass")
    assert module["rights"] == ["context", "clock"]
    assert (code["kind"], code["sha256"]) == ("python", digest(here / "mine.py"))
    assert code["rights"] == ["trusted"]
    assert (agent["role"], agent["pinned"], agent["args"]) == ("agent", False, ["--x"])
    assert (agent["program"], agent["sha256"]) == ("./agent", digest(here / "agent"))
    head = (here / "conductor.lock").read_text().partition("\n\n")[0]
    assert "conductor lock datetime ./p.wasm,allow=clock,memory=16MiB" in head
    assert "conductor agent --locked datetime" in head
    assert all(line.startswith("# ") for line in head.splitlines())
    assert "# Not pinned: what the module imports." in (here / "conductor.lock").read_text()


def test_paths_are_relative_to_the_lock_file_and_it_may_lie_elsewhere(here: Path) -> None:
    folder = here / "locks"
    folder.mkdir()
    lock(here, "--output", "locks/my.lock", "./p.wasm", "demo")
    assert written(folder, "my.lock")[0]["source"] == "../p.wasm"
    ran = conductor("exec", "-c", "lock-file=../locks/my.lock", "../p.wasm", "demo", "-p", "hi",
                    cwd=folder)  # fmt: skip
    assert (ran.code, ran.out) == (0, "hi\n")


def test_the_same_again_changes_nothing_and_check_agrees(here: Path) -> None:
    chain = ("datetime", "./p.wasm", "python ./agent", "demo")
    lock(here, *chain)
    before = (here / "conductor.lock").read_bytes()
    assert lock(here, *chain).out == "conductor.lock is up to date: 4 components\n"
    assert lock(here, "--check", *chain).out == "conductor.lock is up to date: 4 components\n"
    assert (here / "conductor.lock").read_bytes() == before


def test_check_fails_where_the_file_would_change_and_a_new_lock_says_what_did(here: Path) -> None:
    conductor("lock", "--check", "./p.wasm", "demo", cwd=here).assert_error(2, "no lock file")
    lock(here, "./p.wasm", "demo")
    before = (here / "conductor.lock").read_bytes()
    change(here / "p.wasm")
    chain = ("datetime", "./p.wasm,allow=clock,memory=16MiB", "demo")
    ran = conductor("lock", "--check", *chain, cwd=here)
    said = (
        "+ datetime, bundled",
        "digest: sha256:0e00d1e6f68235f8… → sha256:",
        "rights: + clock",
        "limits.memory_bytes: 64 MiB → 16 MiB",
    )
    ran.assert_error(1, "conductor.lock would change", *said)
    assert (here / "conductor.lock").read_bytes() == before
    out = lock(here, *chain).out
    assert "conductor.lock updated: 3 components" in out
    assert all(piece in out for piece in said)


@pytest.mark.proves("conductor refuses a changed module")
def test_a_changed_module_is_refused_with_a_diff_to_people_and_to_the_editor(here: Path) -> None:
    lock(here, "datetime", "./p.wasm", "demo")
    chain = ("datetime", "./p.wasm", "demo")
    assert locked(here, *chain).code == 0
    old = digest(here / "p.wasm")
    change(here / "p.wasm")
    wanted = (
        "conductor.lock does not allow this chain\n  |   p (./p.wasm):\n"
        f"  |     digest: sha256:{old[:16]}… → sha256:{digest(here / 'p.wasm')[:16]}… "
        "(command line)\n"
    )
    locked(here, *chain).assert_error(2, wanted, "`conductor lock COMPONENT…`")
    ran = conductor("agent", "--locked", *chain, stdin=INITIALIZE, cwd=here)
    ran.assert_error(2, wanted)
    assert "p (./p.wasm):\n  |     digest: sha256:" in json.loads(ran.out)["error"]["message"]


def test_a_lock_needs_components(here: Path) -> None:
    conductor("lock", cwd=here).assert_error(2, "nothing to lock", "conductor lock COMPONENT…")


def test_a_command_is_held_to_its_program_and_script_and_arguments(here: Path) -> None:
    script = here / "proxy.py"
    script.write_text("print('never run')\n")
    proxy = f"{sys.executable} proxy.py --key"
    lock(here, f"{proxy} one", "demo")
    (entry, _) = written(here)
    assert (entry["kind"], entry["name"]) == ("command", "proxy")
    assert entry["files"] == [{"path": "./proxy.py", "sha256": digest(script)}]
    assert (entry["program"], entry["sha256"]) == (sys.executable, digest(Path(sys.executable)))
    locked(here, f"{proxy} two", "demo").assert_error(2, 'args: ["proxy.py","--key","one"] →')
    script.write_text("print('evil')\n")
    locked(here, f"{proxy} one", "demo").assert_error(2, "./proxy.py: sha256:")
    script.unlink()
    locked(here, f"{proxy} one", "demo").assert_error(2, "files: - ./proxy.py")


def test_the_agent_may_update_itself_unless_it_is_locked_as_well(here: Path) -> None:
    chain = ("./p.wasm,only=context", "./agent")
    lock(here, *chain)
    assert locked(here, *chain).err == ""
    agent = here / "agent"
    agent.write_text(agent.read_text() + "# updated\n")
    ran = locked(here, *chain)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert "warning: agent: it differs from the locked one: digest: sha256:" in ran.err
    lock(here, "--check", *chain)
    locked(here, "./p.wasm", "./agent --yolo").assert_error(2, 'args: none → ["--yolo"]')
    assert "digest: sha256:" in lock(here, "--lock-agent", "on", *chain).out
    assert locked(here, *chain).code == 0
    assert "up to date" in lock(here, *chain).out  # stays locked
    agent.write_text(agent.read_text() + "# once more\n")
    locked(here, *chain).assert_error(2, "agent (./agent), agent:\n  |     digest: sha256:")
    lock(here, "--lock-agent", "off", *chain)
    assert written(here)[1]["pinned"] is False


def test_code_in_this_process_is_checked_before_it_runs(here: Path) -> None:
    """Nor does code that Python compiled earlier take its place."""
    package = here / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    code = package / "mine.py"
    mark = here / "ran"
    code.write_text("from tests.cli.agents import *  # noqa: F403\n")
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(here)
    chain = ("py:pack.mine:silent",)
    assert conductor("lock", "--lock-agent", "on", *chain, cwd=here, env=env).code == 0
    turn = ("exec", "--locked", *chain, "-p", "hi", "--timeout", "0.1")
    assert conductor(*turn, cwd=here, env=env).code == 3  # it runs, and says nothing
    code.write_text(f"open({str(mark)!r}, 'w')\nfrom tests.cli.agents import *  # noqa: F403\n")
    conductor(*turn, cwd=here, env=env).assert_error(2, "digest: sha256:")
    assert not mark.exists()


def test_proxies_are_locked_without_an_agent(here: Path) -> None:
    lock(here, "./p.wasm", "datetime")
    assert [one["role"] for one in written(here)] == ["proxy", "proxy"]
    proxy = "sh -c true"
    lock(here, "--proxy", proxy)
    assert (written(here)[0]["role"], written(here)[0]["rights"]) == ("proxy", ["trusted"])
    ran = conductor("agent", "--locked", proxy, stdin=INITIALIZE, cwd=here)
    ran.assert_error(2, "- sh, command", "+ sh, agent, command")
    ran = conductor("lock", "--lock-agent", "on", "--proxy", proxy, cwd=here)
    ran.assert_error(2, "no agent in this chain")


@pytest.mark.proves("a lock file holds no secrets")
def test_secrets_are_not_written(here: Path) -> None:
    proxy = json.dumps(
        {"command": "./agent", "args": ["--token", "s3cret-a"], "name": "x",
         "env": {"API_KEY": "s3cret-b", "MODE": "fast"}, "config": {"password": "s3cret-c"}}
    )  # fmt: skip
    lock(here, proxy, "./p.wasm,config.api_key=s3cret-d", "demo")
    text = (here / "conductor.lock").read_text()
    assert "s3cret" not in text
    first, second, _ = written(here)
    assert first["env"] == {"API_KEY": "[redacted]", "MODE": "fast"}
    assert second["config"] == '{"api_key":"[redacted]"}'
    other = proxy.replace("fast", "slow")
    locked(here, other, "./p.wasm,config.api_key=s3cret-d", "demo").assert_error(2, "env: {")


def test_a_file_that_is_no_lock_is_neither_obeyed_nor_overwritten(here: Path) -> None:
    file = here / "conductor.lock"
    file.write_text("# mine\n\nversion = 2\n")
    said = "`conductor.lock`, line 3: its format is version 2; this conductor knows version 3"
    locked(here, "./p.wasm", "demo").assert_error(2, said, "remove it")
    conductor("lock", "./p.wasm", "demo", cwd=here).assert_error(2, said, "--output FILE")
    assert file.read_text() == "# mine\n\nversion = 2\n"


@pytest.mark.proves("a lock allows nothing that it")
def test_without_a_lock_file_nothing_runs(here: Path) -> None:
    locked(here, "./p.wasm", "demo").assert_error(2, "no lock file `conductor.lock`", "make one")
    for word, why in (("no.lock", "no lock file `"), ("", "`lock-file` cannot be ``")):
        option = ("-c", f"lock-file={word}")
        ran = conductor("exec", *option, "./p.wasm", "demo", "-p", "hi", cwd=here)
        ran.assert_error(2, why)
        ran = conductor("agent", *option, "./p.wasm", "demo", cwd=here)
        ran.assert_error(2, why)


def test_a_module_that_would_be_refused_is_not_locked(here: Path) -> None:
    (here / "no.wasm").write_bytes(b"\0asm\1\0\0\0")
    ran = conductor("lock", "./no.wasm", "demo", cwd=here)
    ran.assert_error(2, "would be refused: it exports neither", "conductor inspect")
    assert not (here / "conductor.lock").exists()


def test_a_refused_chain_is_on_record(here: Path) -> None:
    lock(here, "./p.wasm", "demo")
    change(here / "p.wasm")
    locked(here, "--audit", "audit", "./p.wasm", "demo").assert_error(2, "digest")
    last = json.loads((here / "audit").read_text().splitlines()[-1])
    assert last["event"] == "end"
    assert "does not allow this chain" in last["failure"]


HEAVY = ("asyncio", "difflib", "pathlib", "pydantic", "tomlkit", "typer", "wasm_host")


def test_the_check_loads_nothing_that_takes_its_time(here: Path) -> None:
    lock(here, "datetime", "./p.wasm", "demo")
    change(here / "p.wasm")
    code = (
        "import sys; from conductor.cli import main;"
        "code = main(['agent', '--locked', 'datetime', './p.wasm', 'demo']);"
        f"print(code, [name for name in {HEAVY} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=here,
        env=environment(),
        check=False,
    )
    assert (ran.stdout, ran.returncode) == (b"2 []\n", 0), ran.stderr
