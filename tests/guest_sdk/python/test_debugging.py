"""`print()` and `breakpoint()` of a proxy: as a program, and in the sandbox."""

import os
from pathlib import Path

import pytest

from tests.harness.process.command import Running, conductor, environment

SOURCE = """
from guest_sdk.python import Proxy

print("it is loaded")
proxy = Proxy("mine")
print("it is declared")

@proxy.request("session/prompt")
def prompt(request):
    seen = request.text.upper()
    print("it sees", seen)
    {then}

if __name__ == "__main__":
    proxy.run()
"""

ODD = "invalid character (byte 0)"

pytestmark = pytest.mark.usefixtures("python_guest")


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def source(folder: Path, then: str) -> str:
    """The path of a proxy."""
    path = folder / "mine.py"
    path.write_text(SOURCE.format(then=then))
    return str(path)


def test_what_a_program_prints_is_not_taken_for_protocol(homes: Path) -> None:
    ran = conductor("exec", f"python {source(homes, 'pass')}", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err
    assert "[mine] it sees HI" in ran.err
    for line in ("it is loaded", "it is declared"):  # before it runs nobody knows what it is
        assert f"warning: mine: message is not JSON: JSON is malformed: {ODD}: b'{line}'" in ran.err


def test_what_a_sandboxed_proxy_prints_is_in_the_log(homes: Path) -> None:
    path = source(homes, "pass")
    ran = conductor("exec", "--log", "info", f"{path},only=full", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err
    assert "info: mine: it sees HI" in ran.err


def test_a_debugger_of_a_program_has_the_terminal(homes: Path) -> None:
    path = source(homes, "breakpoint()")
    with Running("exec", f"python {path}", "demo", "-p", "hi", terminal=True) as running:
        running.wait_for(running.err, "(Pdb) ")
        running.type("p seen\n")
        running.wait_for(running.err, "'HI'")
        running.type("c\n")
        ran = running.end()
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err


def test_a_debugger_without_a_terminal_is_refused(homes: Path) -> None:
    env = environment(CONDUCTOR_TERMINAL=os.devnull + "/none")
    path = source(homes, "breakpoint()")
    ran = conductor("exec", f"python {path}", "demo", "-p", "hi", env=env)
    assert ran.code == 1
    assert "`breakpoint()`: there is no terminal here" in ran.err
    assert "`conductor exec`" in ran.err


@pytest.mark.parametrize("then", ["breakpoint()", "import pdb; pdb.set_trace()"])
def test_a_debugger_in_the_sandbox_is_refused(homes: Path, then: str) -> None:
    path = source(homes, then)
    ran = conductor("exec", f"{path},only=full", "demo", "-p", "hi")
    assert ran.code == 1
    assert "in the sandbox there is no terminal; run the proxy as a program" in ran.err
