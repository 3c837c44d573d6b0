"""Secrets by reference, through the command line: components have them, and nothing shows them."""

import json
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.harness.process.command import conductor, environment
from tests.harness.process.processes import SUPPORTED, command_line
from tests.harness.process.rig import DEMO, Rig
from tests.places import DEADLINE

VALUE = "hunter2-is-öld"
REFERENCE = {"secret": "env:TOKEN"}
SHOWN = "[secret env:TOKEN]"


def talkative(*command: str, **more: object) -> str:
    """A program that has the secret in its environment and writes it to its standard error."""
    script = f'echo "I have $T" >&2; {shlex.join(command)}'
    env = {"T": REFERENCE}
    return json.dumps({"command": "sh", "args": ["-c", script], "env": env, "name": "A", **more})


def told(rig: Rig) -> str:
    """The proxy X with the secret among its settings; it notes down all that it receives."""
    return json.dumps({**json.loads(rig.x("X")), "config": {"token": REFERENCE}})


@pytest.mark.parametrize("content", ["all", "redacted", "none"])
def test_components_have_it_and_no_record_does(rig: Rig, content: str) -> None:
    trace, audit = rig.folder / "trace", rig.folder / "audit"
    options = ("--trace", str(trace), "-c", f"trace-content={content}", "--audit", str(audit), "-v")
    datetime = 'datetime,config.template={"secret":"env:TOKEN"}'
    agent = talkative(sys.executable, str(DEMO), "--log", str(rig.folder / "A"))
    chain = rig.agent(datetime, told(rig), agent, options=options, TOKEN=VALUE)
    # The guest writes it into the prompt, and so it comes back from the agent.
    assert VALUE in chain.prompt(chain.begin(), "hi")
    if SUPPORTED:
        assert not any(VALUE in command_line(pid) for pid in rig.kin(chain).pids)
        chain.process.send_signal(signal.SIGUSR1)
    assert chain.finish() == 0
    assert any(VALUE in e.raw.decode() for e in rig.log("X", "in") if b"configure" in e.raw)
    assert any(VALUE in e.raw.decode() for e in rig.log("A", "in"))
    for written in (trace.read_text(), audit.read_text(), chain.stderr):
        assert VALUE not in written
        assert json.dumps(VALUE)[1:-1] not in written
    assert f"[A] I have {SHOWN}" in chain.stderr
    assert (SHOWN in trace.read_text()) is (content != "none")
    assert conductor("log", "verify", str(audit)).code == 0


def test_the_last_words_of_a_program_are_shown_without_it(rig: Rig) -> None:
    chain = rig.agent(talkative("exit", "3"), TOKEN=VALUE)
    answer = chain.request("initialize", {"protocolVersion": 1})
    assert f"I have {SHOWN}" in answer["error"]["message"]
    assert chain.process.wait(DEADLINE) == 1
    assert VALUE not in json.dumps(answer, ensure_ascii=False) + chain.stderr


def test_a_guest_that_fails_with_it_in_its_words(rig: Rig) -> None:
    (rig.folder / "leaky.py").write_text(
        "from guest_sdk.python import Proxy\n"
        'proxy = Proxy("leaky", rights={"full": "to leak"})\n'
        '@proxy.request("session/prompt")\n'
        "async def prompt(request, next):\n"
        '    proxy.log.warn(f"token {proxy.config}")\n'
        '    raise SystemError(f"cannot log in as {proxy.config}")\n'
    )
    trace = rig.folder / "trace"
    component = './leaky.py,config.token={"secret":"env:TOKEN"},only=full'
    options = ("--trace", str(trace), "-c", "trace-content=all", "-v")
    chain = rig.agent(component, "demo", options=options, TOKEN=VALUE)
    # Its own answer is its message, as any other: it may send what it knows.
    assert "error" in chain.answer(chain.start_prompt(chain.begin(), "hi"))
    assert chain.finish() == 0
    for written in (chain.stderr, trace.read_text()):
        assert SHOWN in written
        assert VALUE not in written
        assert json.dumps(VALUE)[1:-1] not in written


def test_what_only_describes_a_component_does_not_read_it(tmp_path: Path) -> None:
    program = talkative("cat", only="none", config={"token": REFERENCE})
    for component in (program, 'passthrough,config.token={"secret":"file:./no-such-file"}'):
        shown = conductor("inspect", component, cwd=tmp_path)
        assert shown.code == 0, shown.err
        as_json = json.loads(conductor("inspect", "--json", component, cwd=tmp_path).out)
        assert as_json["config"]["token"].keys() == {"secret"}
        locked = conductor("lock", component, "demo", cwd=tmp_path, env=environment(TOKEN=VALUE))
        assert locked.code == 0, locked.err
        assert VALUE not in (tmp_path / "conductor.lock").read_text()
    ran = conductor("exec", "--locked", component, "demo", "-p", "hi", cwd=tmp_path)
    ran.assert_error(2, "`passthrough` needs the secret `file:./no-such-file`", "write the secret")


@pytest.mark.parametrize(
    "component", [talkative("cat"), 'datetime,config.template={"secret":"env:TOKEN"}']
)
def test_a_secret_that_is_not_there_is_one_error(component: str) -> None:
    ran = conductor("exec", component, "demo", "-p", "hi")
    ran.assert_error(
        2, "needs the secret `env:TOKEN`: there is no such variable", "set the variable"
    )
    assert ran.out == ""
