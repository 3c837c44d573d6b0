"""Chains that do not come up say why, once."""

import json
import shutil
import sys
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.rig import Chain, Rig


def _refused(chain: Chain) -> Json:
    """The error `initialize` is answered with."""
    answer = chain.request("initialize", {"protocolVersion": 1})
    assert "error" in answer, f"{answer}{chain.story()}"
    error: Json = answer["error"]
    return error


def _one_error(chain: Chain, code: int, *parts: str) -> None:
    """The process ended with `code`, and standard error holds one error with a hint."""
    assert chain.exit_code() == code
    assert chain.stderr.count("error: ") == 1, chain.stderr
    assert chain.stderr.count("\nhint: ") == 1, chain.stderr
    for part in parts:
        assert part in chain.stderr


USAGE: Final = {
    "missing file": ("no/such.wasm", "no such module: `no/such.wasm`"),
    "missing program": ("no-such-program", "`no-such-program` is neither a component nor"),
    "missing program with arguments": ("no-such-program --x", "`no-such-program` is neither"),
    "missing path": ("./no/such --x", "`./no/such` is neither"),
    "bad quotes": ("python 'x", "cannot read component `python 'x`"),
    "unknown key": ('{"command":"cat","colour":1}', "colour"),
    "unknown name": ('{"name":"no-such"}', "`no-such` is neither"),
    "no kind": ('{"args":["x"]}', "has exactly one kind"),
    "two kinds": ('{"command":"python","wasm":"x.wasm"}', "has exactly one kind"),
    "a member twice": ('{"name":"demo","name":"datetime"}', "`name` is there twice"),
    "a setting twice": ('passthrough,config.a={"b":1,"b":2}', "`b` is there twice"),
    "unknown dialect": ("passthrough,dialect=klingon", "`dialect=klingon` of `passthrough`"),
    "unknown right": ("datetime,allow=root", "no right `root`"),
    "wrong limit": ("passthrough,memory=much", "`memory=much` of `passthrough`"),
    "empty": ("", "an empty component"),
}
"""A component, and what the error says: the user's mistake, exit code 2."""


@pytest.mark.parametrize("place", ["proxy", "agent"])
@pytest.mark.parametrize("what", USAGE)
def test_what_cannot_be_is_told_to_person_and_editor(rig: Rig, what: str, place: str) -> None:
    component, says = USAGE[what]
    others = (component, rig.demo()) if place == "proxy" else (rig.x("X"), component)
    chain = rig.agent(*others)
    error = _refused(chain)
    assert says in error["message"]
    assert "\nhint: " in error["message"]
    _one_error(chain, 2, says)
    assert rig.leftovers(chain) == []
    assert rig.log("A") == []


def test_text_named_wasm(rig: Rig) -> None:
    (rig.folder / "notes.wasm").write_text("dear diary")
    chain = rig.agent(str(rig.folder / "notes.wasm"), rig.demo())
    assert "is not a WebAssembly module" in _refused(chain)["message"]
    _one_error(chain, 2, "notes.wasm")


def test_nothing_but_the_magic_number(rig: Rig) -> None:
    (rig.folder / "cut.wasm").write_bytes(b"\0asm\1\0\0")
    chain = rig.agent(f"{rig.folder / 'cut.wasm'},only=full", rig.demo())
    assert "`cut`" in _refused(chain)["message"]
    _one_error(chain, 1, "cut.wasm")


def test_an_editor_that_only_closes_its_end(rig: Rig) -> None:
    chain = rig.agent("no/such.wasm", rig.demo())
    chain.eof()
    _one_error(chain, 2, "no/such.wasm")
    assert chain.lines == []


@pytest.mark.parametrize("place", ["proxy", "agent"])
def test_a_program_that_cannot_be_run(rig: Rig, place: str) -> None:
    """The program is there and executable, but its interpreter is not there."""
    path = rig.folder / "broken"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    chain = rig.agent(*((str(path), rig.demo()) if place == "proxy" else (rig.x("X"), str(path))))
    error = _refused(chain)
    assert "cannot start" in error["message"]
    assert str(path) in error["message"]
    _one_error(chain, 1, "`broken`")
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("before", ["nothing", "sandboxed", "subprocess"])
def test_an_agent_that_exits_at_once(rig: Rig, before: str) -> None:
    proxies = {"nothing": [], "sandboxed": ["passthrough"], "subprocess": [rig.x("X")]}[before]
    chain = rig.agent(*proxies, rig.demo("--exit-at-start", "3"))
    error = _refused(chain)
    for part in ("agent `A`", "agent.py", "exited with code 3", "exiting with code 3 at start"):
        assert part in error["message"]
    assert "\nhint: " in error["message"]
    assert error["data"]["component"] == "A"
    assert error["data"]["exitCode"] == 3
    assert error["data"]["stderr"] == ["demo: exiting with code 3 at start as asked"]
    _one_error(chain, 1, "exited with code 3")
    assert rig.leftovers(chain) == []


def test_an_agent_that_exits_at_once_and_cleanly(rig: Rig) -> None:
    true = shutil.which("true")
    assert true
    chain = rig.agent(rig.x("X"), rig.program(true, name="quitter"))
    error = _refused(chain)
    assert "agent `quitter`" in error["message"]
    assert "exited with code 0" in error["message"]
    _one_error(chain, 1)


@pytest.mark.parametrize("told", [True, False])
def test_a_proxy_that_exits_when_it_is_asked(rig: Rig, told: bool) -> None:
    """A proxy whose dialect is to be found out is started once more, not for ever."""
    code = (
        "import os, sys; os.write(os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY), "
        "b's'); sys.stdin.readline(); os.write(2, b'what is that?\\n'); sys.exit(4)"
    )
    starts = rig.folder / "starts"
    more = {"dialect": "acp"} if told else {}
    dying = rig.program(sys.executable, "-c", code, str(starts), name="P", **more)
    chain = rig.agent(dying, rig.demo())
    error = _refused(chain)
    for part in ("proxy `P`", "exited with code 4", "what is that?"):
        assert part in error["message"]
    _one_error(chain, 1)
    assert len(starts.read_text()) == (1 if told else 2)
    assert rig.leftovers(chain) == []


def test_an_agent_that_never_answers(rig: Rig) -> None:
    """The editor gives up: its request is answered with who kept it waiting."""
    chain = rig.agent(
        "passthrough", rig.actor("odd_agent", "--silent", name="mute"), options=("-c", "drain=0.1")
    )
    asked = chain.start("initialize", {"protocolVersion": 1})
    chain.until_stderr("mute: heard")  # who has it, is blamed: it has come as far as the agent
    code = chain.finish()
    error = chain.answer(asked)["error"]
    assert "`mute`" in error["message"]
    assert code != 0
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize(
    "options",
    [None, {}, {"only": "context"}, {"only": "observer"}, {"only": "full", "ids": "kept"}],
)
@pytest.mark.parametrize("dialect", ["", "acp"])
def test_silence_is_an_error(rig: Rig, options: Json | None, dialect: str) -> None:
    """Whoever does not answer `initialize` ends the chain, and is named: an agent (None), and a
    proxy, also one that the answer does not wait for."""
    mute = json.loads(rig.actor("odd_agent", "--silent", name="mute")) | {"timeout": "300ms"}
    if options is None:
        chain = rig.agent("passthrough", json.dumps(mute))
    else:
        mute |= options | ({"dialect": dialect} if dialect else {})
        chain = rig.agent(json.dumps(mute), rig.demo())
    asked = chain.start("initialize", {"protocolVersion": 1})
    assert chain.exit_code() == 1
    what = "agent" if options is None else "proxy"
    assert f"error: {what} `mute`" in chain.stderr
    assert "did not answer `initialize` within 0.3 s\n\nhint: " in chain.stderr
    answer = chain.answer(asked)
    waits = options is None or options.get("only") in (None, "full")
    assert not waits or "`mute`" in answer["error"]["message"]
    assert rig.leftovers(chain) == []


def test_an_agent_that_refuses_is_quoted_byte_for_byte(rig: Rig) -> None:
    error = '{"code":-32000,"message":"not \\u0074oday","data":[1.10]}'
    answer = f'{{"jsonrpc":"2.0","id":%s,"error":{error}}}'
    code = f"import json; id_ = json.loads(input())['id']; print({answer!r} % id_, flush=True)"
    agent = rig.program(sys.executable, "-c", f"{code}; input()", name="refusing")
    chain = rig.agent("passthrough", rig.x("X"), agent)
    _refused(chain)
    assert error in chain.lines[0].decode()


def test_a_proxy_in_the_place_of_the_agent_is_named(rig: Rig) -> None:
    chain = rig.agent("passthrough", rig.x("X"), rig.x("refusing"))
    message = _refused(chain)["message"]
    assert "the last component, `refusing` (" in message
    assert "is not an agent (it answered `initialize`: refusing does not take" in message
    assert "hint: " in message
    assert chain.exit_code() == 1
