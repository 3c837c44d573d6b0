"""The checks of a server before a client comes, and the log of chains that fail."""

import signal
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.rig import Rig
from tests.harness.process.serving import bearer, new_token, served

WS: Final = ("--listen", "ws://127.0.0.1:0")


def configured(rig: Rig, text: str) -> Path:
    """The user's `conductor.toml`."""
    file = rig.folder / "config" / "conductor" / "conductor.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


WRONG: Final = {
    "missing module": (("missing.wasm", "A"), 2, "no such module: `missing.wasm`"),
    "unknown component": (("nosuch", "A"), 2, "`nosuch` is neither a component nor a program"),
    "broken module": (("cut.wasm,only=full", "A"), 1, "WebAssembly of unknown version"),
    "no guest": (("empty.wasm,only=full", "A"), 1, "is no guest this host runs"),
    "no agent": (("datetime", "passthrough"), 2, "a chain ends with an agent"),
    "wrong limit": (("passthrough,memory=much", "A"), 2, "`memory=much` of `passthrough`"),
    "no rights": (("budget,only=none", "A"), 2, "`budget` does not get what it asks for"),
    "no such code": (("py:no.such:thing", "A"), 2, "cannot load `py:no.such:thing`"),
}


@pytest.mark.proves("a component that fails closed")
@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("command", ["serve", "agent"])
def test_a_chain_that_cannot_start_is_not_served(rig: Rig, what: str, command: str) -> None:
    (rig.folder / "cut.wasm").write_bytes(b"\0asm\1\0\0")
    (rig.folder / "empty.wasm").write_bytes(b"\0asm\1\0\0\0")
    components, code, text = WRONG[what]
    chain = [rig.demo() if one == "A" else one for one in components]
    process = rig.run(command, *WS, *chain)
    process.eof()  # no editor waits for the reason
    assert process.exit_code() == code
    assert text in process.stderr
    assert process.stderr.count("error: ") == 1, process.stderr
    assert process.stderr.count("\nhint: ") == 1, process.stderr
    assert "serving" not in process.stderr


def test_a_named_chain_that_cannot_start_is_named(rig: Rig) -> None:
    configured(rig, '[chains.one]\ncomponents = ["demo"]\n[chains.two]\ncomponents = ["nosuch"]\n')
    words = ("--chain", "one", "--chain", "two")
    process = rig.run("serve", *WS, *words, XDG_CONFIG_HOME=str(rig.folder / "config"))
    assert process.exit_code() == 2
    assert "error: the chain `two`: " in process.stderr
    assert "line 4: `nosuch` is neither a component" in process.stderr
    assert "\nhint: " in process.stderr


def test_a_reload_with_a_chain_that_cannot_start_keeps_what_was(rig: Rig) -> None:
    """Tokens, chains and limits are those of before, also those that could be read."""
    alice = new_token(rig, "alice")
    serve = f'[serve]\nchain = ["one"]\ntokens = "{rig.folder / "tokens"}"\n'
    file = configured(rig, f'{serve}[chains.one]\ncomponents = ["demo"]\n')
    with served(rig, "serve", *WS, XDG_CONFIG_HOME=str(rig.folder / "config")) as server:
        client = server.socket("/acp/one", headers=bearer(alice))
        session = client.begin()
        (rig.folder / "tokens").unlink()
        bob = new_token(rig, "bob")
        file.write_text(f'{serve}[chains.one]\ncomponents = ["nosuch", "demo"]\n')
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("the server stays as it was: the chain `one`: ")
        assert server.http("/acp/one", **bearer(bob)).ask("GET").status == 401
        assert client.prompt(session, "/echo on") == "on"
        assert server.socket("/acp/one", headers=bearer(alice)).begin()
        file.write_text(f'{serve}[chains.one]\ncomponents = ["passthrough", "demo"]\n')
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("have been read again")
        assert server.socket("/acp/one", headers=bearer(bob)).begin()


def test_a_chain_that_fails_while_it_runs_is_reported_once(rig: Rig) -> None:
    """On one line: which chain, who, what to do; and nothing of who the client is."""
    alice = new_token(rig, "alice")
    tokens = ("--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", rig.demo(), *WS, *tokens) as server:
        for _ in range(2):
            client = server.socket(headers=bearer(alice))
            session = client.begin()
            assert "error" in client.answer(client.start_prompt(session, "/exit 3"))
        server.process.until_stderr("the chain at /acp has failed: ")
        other = server.socket(headers=bearer(alice))
        assert other.prompt(other.begin(), "/echo on") == "on"
        server.end()
    lines = [one for one in server.process.stderr.splitlines() if "has failed" in one]
    assert len(lines) == 1, server.process.stderr
    assert "agent `A`" in lines[0]
    assert "exited with code 3" in lines[0]
    assert "; hint: " in lines[0]
    assert alice not in server.process.stderr
    assert "alice" not in server.process.stderr
    assert session not in lines[0]


def test_a_program_that_cannot_be_run_is_reported(rig: Rig) -> None:
    """Only the program's start shows the fault."""
    path = rig.folder / "broken"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with served(rig, "serve", str(path), *WS) as server:
        answer = server.socket().request("initialize", {"protocolVersion": 1})
        assert "cannot start" in answer["error"]["message"]
        server.process.until_stderr("the chain at /acp has failed: agent `broken`")
        server.process.until_stderr("; hint: ")
