"""When a component fails amid a session: restart, bypass, hot swap, requests that take too long.

The agent must never notice: it sees one `initialize`.
"""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.test_guest_failures import FUSED
from tests.harness.process.rig import Rig


def more(component: str, **options: str) -> str:
    """A component of the rig with further options."""
    return json.dumps({**json.loads(component), **options})


ISOLATIONS = ("process", "inline", "separate")


@pytest.mark.proves("conductor restarts a guest and")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("policy", ["only=context", "fails=closed", "only=trusted"])
@pytest.mark.parametrize("harm", ["unreachable", "(loop $forever (br $forever))"])
def test_a_guest_is_started_again_and_the_session_lives(
    rig: Rig, harm: str, policy: str, isolation: str
) -> None:
    """The message that the guest held goes on as it came, unless the guest is trusted or a
    gatekeeper; a message that a policed guest has passed on goes on without it."""
    module = rig.module("fused", FUSED.replace("HARM", harm))
    component = f"{module},{policy},limit.cpu_ms=100"
    chain = rig.agent(
        "passthrough", component, rig.demo(), options=("-c", f"isolation={isolation}")
    )
    session = chain.begin()
    other = chain.new_session()
    hang = chain.start_prompt(other, "/hang")
    assert chain.prompt(session, "/echo before") == "before"
    for number in (1, 2):
        answer = chain.answer(chain.start_prompt(session, "/echo poison"))
        if policy == "only=context":
            assert answer["result"] == {"stopReason": "end_turn"}
            assert chain.texts(session)[-1] == "poison"
        else:
            assert "`fused`" in answer["error"]["message"]
        chain.until_stderr(f"started again ({number} of 3)")
        assert chain.prompt(session, f"/echo after {number}") == f"after {number}"
    assert "; down `" not in chain.stderr, chain.story()
    assert ("it was poisoned" in chain.stderr) == (harm == "unreachable"), chain.stderr
    if policy == "only=trusted":
        assert "`fused`" in chain.answer(hang)["error"]["message"]
    else:
        assert chain.answers(hang) == []
        chain.notify("session/cancel", {"sessionId": other})
        assert chain.answer(hang)["result"] == {"stopReason": "cancelled"}
    assert len(chain.answers(hang)) == 1
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.proves("restarts have a budget")
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_the_budget_of_restarts_ends_in_the_last_resort(rig: Rig, isolation: str) -> None:
    module = rig.module("fused", FUSED.replace("HARM", "unreachable"))
    options = ("-c", f"isolation={isolation}")
    chain = rig.agent(f"{module},fails=closed,on_failure=restart", rig.demo(), options=options)
    session = chain.begin()
    for number in (1, 2, 3):
        assert "error" in chain.answer(chain.start_prompt(session, "/echo poison"))
        chain.until_stderr(f"({number} of 3)")
        assert chain.prompt(session, "/echo ok") == "ok"
    assert "error" in chain.answer(chain.start_prompt(session, "/echo poison"))
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("fails", ["open", "closed"])
def test_a_guest_is_bypassed(rig: Rig, fails: str, isolation: str) -> None:
    module = rig.module("fused", FUSED.replace("HARM", "unreachable"))
    options = ("-c", f"isolation={isolation}")
    component = f"{module},on_failure=bypass,fails={fails}".removesuffix(",fails=open")
    chain = rig.agent(component, rig.x("X"), rig.demo(), options=options)
    session = chain.begin()
    answer = chain.answer(chain.start_prompt(session, "/echo poison"))
    if fails == "closed":
        assert "`fused`" in answer["error"]["message"]
    else:
        assert chain.texts(session) == ["poison"]
    chain.until_stderr("the chain goes on without it")
    assert chain.prompt(session, "/echo poison no more") == "poison no more"
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0


@pytest.mark.proves("every request gets exactly one")
@pytest.mark.parametrize("dialect", ["acp", "sdk", "sacp", "pacp"])
@pytest.mark.parametrize("choice", ["restart", "bypass", "fail"])
def test_a_process_dies_mid_turn(rig: Rig, dialect: str, choice: str) -> None:
    """Every open request gets one answer; then what the policy says."""
    proxy = rig.x("P", "--die-on", "drop dead", "--mark", "P was here", dialect=dialect)
    chain = rig.agent(rig.x("Q"), more(proxy, on_failure=choice), rig.demo())
    session, other = chain.begin(), chain.new_session()
    hang = chain.start_prompt(other, "/hang")
    assert "P was here" in chain.prompt(session, "hello")
    turn = chain.start_prompt(session, "drop dead")
    for asked in (turn, hang):
        error = chain.answer(asked)["error"]
        assert "P" in error["message"]
        assert error["data"]["component"] == "P"
    if choice == "fail":
        assert chain.exit_code() == 1
        assert "error: " in chain.stderr
    else:
        text = chain.prompt(session, "hello again")
        assert ("P was here" in text) is (choice == "restart")
        assert chain.finish() == 0
    assert [len(chain.answers(asked)) for asked in (turn, hang)] == [1, 1]
    assert rig.methods("A").count("initialize") == 1
    assert rig.leftovers(chain) == []


def test_the_host_of_guests_is_killed(rig: Rig) -> None:
    """The whole child goes, by SIGKILL: it is started again like any component."""
    chain = rig.agent("passthrough", "datetime", rig.demo(),
                      options=("-c", "clock=2025-10-08T12:34:56+00:00"))  # fmt: skip
    session = chain.begin()
    assert "2025-10-08" in chain.prompt(session, "one")
    (host,) = rig.kin(chain).hosts()
    os.kill(host, signal.SIGKILL)
    chain.until_stderr("started again (1 of 3)")
    assert "2025-10-08" in chain.prompt(session, "two")
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("how", ["SIGHUP", "watch"])
def test_a_new_build_takes_over_between_two_messages(
    rig: Rig, how: str, isolation: str, tmp_path: Path
) -> None:
    """Replaced without a new session; the mark changes, the session stays."""
    module = tmp_path / "mine.wasm"
    shutil.copyfile(rig.bundled("passthrough"), module)
    watching = ("--reload",) if how == "watch" else ()
    options = (*watching, "-c", f"isolation={isolation}", "-c", "clock=2025-10-08T12:34:56+00:00")
    chain = rig.agent(f"{module},allow=clock", rig.demo(), options=options)
    session, other = chain.begin(), chain.new_session()
    assert chain.prompt(session, "one") == "one"
    turn = chain.start_prompt(other, "/hang")
    fresh = tmp_path / "fresh"
    shutil.copyfile(rig.bundled("datetime"), fresh)
    fresh.replace(module)
    if how == "SIGHUP":
        os.kill(chain.process.pid, signal.SIGHUP)
    # While a turn runs, nothing is replaced; when it has ended, it is.
    assert chain.prompt(session, "still") == "still"
    chain.notify("session/cancel", {"sessionId": other})
    assert chain.answer(turn)["result"]["stopReason"] == "cancelled"
    chain.until_stderr("replaced by its new build")
    assert "2025-10-08" in chain.prompt(session, "two")
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.proves("a component that keeps a request")
def test_a_request_that_takes_too_long_is_ended(rig: Rig) -> None:
    """A proxy that never answers is bounded by its timeout; prompts are not. It and the
    agent are in the conductor's process: that they start takes no time which counts."""
    flags = json.dumps(["--name", "P", "--dialect", "acp", "--hang-on", "session/new"])
    proxy = "py:tests.e2e.actors.recording_proxy:in_process,name=P,dialect=acp,timeout=1s"
    agent = "py:tests.e2e.actors.odd_agent:in_process"
    chain = rig.agent(proxy, agent, RECORDING_PROXY=flags)
    chain.initialize()
    error = chain.request("session/new", {"cwd": "/", "mcpServers": []})["error"]
    assert "did not answer `session/new` within 1 s" in error["message"]
    assert "hint: " in error["message"]
    assert chain.finish() == 0


def test_an_agent_is_not_started_twice_at_a_reload(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "one") == "one"
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr("X: started anew")
    assert len(rig.kin(chain).named("agent.py")) == 1
    assert chain.prompt(session, "two") == "two"
    assert chain.finish() == 0
