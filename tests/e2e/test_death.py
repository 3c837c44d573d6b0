"""'Failure manners': whoever dies mid-turn, everyone who waits is told who, how, and why."""

import json
import os
import signal
from typing import Final

import pytest

from tests.harness.process.client import Json
from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import PROXIES, Chain, Rig

BEFORE: Final = ("nothing", "sandboxed", "inline", *PROXIES)


def _behind(rig: Rig, before: str, *agent_flags: str) -> Chain:
    proxies = {"nothing": [], "sandboxed": ["passthrough"], "inline": ["passthrough"]}
    options = ("-c", "isolation=inline") if before == "inline" else ()
    chosen = proxies.get(before) or ([rig.x("X", dialect=before)] if before in PROXIES else [])
    return rig.agent(*chosen, rig.demo(*agent_flags), options=options)


def _told(error: Json, *parts: str) -> None:
    for part in (*parts, "\nhint: "):
        assert part in error["message"], error


@pytest.mark.parametrize("before", BEFORE)
def test_an_agent_that_exits_mid_turn(rig: Rig, before: str) -> None:
    """The agent's last words arrive before the error; the process ends by itself, without EOF."""
    chain = _behind(rig, before)
    session = chain.begin()
    turn = chain.start_prompt(session, "/exit 3 my last words")
    _told(
        error := chain.answer(turn)["error"],
        "agent `A`", "agent.py", "exited with code 3", "demo: exiting with code 3 as asked",
    )  # fmt: skip
    assert error["data"]["component"] == "A"
    assert error["data"]["exitCode"] == 3
    assert "agent.py" in error["data"]["command"]
    assert error["data"]["stderr"][-1] == "demo: exiting with code 3 as asked"
    assert chain.exit_code() == 1
    assert chain.texts(session) == ["my last words"]
    order = [f.get("id", f.get("method")) for f in chain.frames]
    assert order[-2:] == ["session/update", turn]
    assert chain.stderr.count("error: ") == 1
    assert "exited with code 3" in chain.stderr
    assert "\nhint: " in chain.stderr
    assert rig.leftovers(chain) == []


def test_an_agent_that_exits_cleanly_mid_turn(rig: Rig) -> None:
    chain = _behind(rig, "acp")
    session = chain.begin()
    error = chain.answer(chain.start_prompt(session, "/exit 0"))["error"]
    _told(error, "agent `A`", "exited with code 0")
    assert chain.exit_code() == 1


@needs_proc
def test_an_agent_that_is_killed(rig: Rig) -> None:
    chain = _behind(rig, "sandboxed")
    session = chain.begin()
    turn = chain.start_prompt(session, "/hang")
    chain.settled()
    (agent,) = rig.kin(chain).named("--log " + str(rig.folder / "A"))
    signal.pidfd_send_signal(rig.kin(chain).handle(agent), signal.SIGKILL)
    _told(chain.answer(turn)["error"], "agent `A`", "was ended by SIGKILL")
    assert chain.exit_code() == 1


@needs_proc
def test_a_host_of_guests_that_is_killed(rig: Rig) -> None:
    chain = rig.agent("datetime,on_failure=fail", rig.demo())
    session = chain.begin()
    turn = chain.start_prompt(session, "/hang")
    chain.settled()
    (host,) = rig.kin(chain).hosts()
    signal.pidfd_send_signal(rig.kin(chain).handle(host), signal.SIGKILL)
    error = chain.answer(turn)["error"]
    _told(error, "proxy `datetime`", "was ended by SIGKILL", "no guest can end its host")
    assert chain.exit_code() == 1


@pytest.mark.proves("every request gets exactly one")
def test_everything_in_flight_is_answered_once(rig: Rig) -> None:
    chain = _behind(rig, "acp")
    session = chain.begin()
    others = [chain.new_session() for _ in range(20)]
    turns = [chain.start_prompt(other, "/hang") for other in others]
    turns.append(chain.start_prompt(session, "/exit 3"))
    late = chain.start("_x/late")
    assert chain.exit_code() == 1
    for turn in (*turns, late):
        (answer,) = chain.answers(turn)
        assert "error" in answer


@pytest.mark.parametrize("dialect", PROXIES)
def test_a_proxy_that_dies_mid_prompt(rig: Rig, dialect: str) -> None:
    chain = rig.agent(rig.x("W"), rig.x("P", "--die-on", "poison", dialect=dialect), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/echo before") == "before"
    error = chain.answer(chain.start_prompt(session, "poison"))["error"]
    _told(error, "proxy `P`", "recording_proxy", "exited with code 7", "P: dying of poison")
    assert error["data"]["component"] == "P"
    assert error["data"]["exitCode"] == 7
    assert chain.exit_code() == 1
    assert chain.stderr.count("error: ") == 1
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("choice", ["restart", "bypass"])
def test_a_proxy_that_launched_its_successor_is_not_replaced(rig: Rig, choice: str) -> None:
    """The successor ends with the proxy, so the chain ends, whatever `on_failure` says."""
    proxy = {**json.loads(rig.x("P", "--die-on", "poison", dialect="scp")), "on_failure": choice}
    chain = rig.agent(json.dumps(proxy), rig.demo())
    session = chain.begin()
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr("cannot be replaced while it runs")
    assert chain.prompt(session, "/echo before") == "before"
    error = chain.answer(chain.start_prompt(session, "poison"))["error"]
    _told(error, "proxy `P`", "exited with code 7")
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


def test_a_proxy_that_closes_its_successor_connection(rig: Rig) -> None:
    """The proxy lives on, so the error names the connection: once, and as the proxy's own doing."""
    chain = rig.agent(rig.x("P", "--cut-on", "cut", dialect="scp"), rig.demo())
    session = chain.begin()
    error = chain.answer(chain.start_prompt(session, "cut"))["error"]
    _told(error, "proxy `P`", "recording_proxy", ") closed its successor connection")
    assert error["message"].count("successor connection") == 1
    assert error["data"]["component"] == "P"
    assert chain.exit_code() == 1
    assert chain.stderr.count("error: ") == 1


def test_a_proxy_that_dies_of_the_answer(rig: Rig) -> None:
    """The agent has answered; the proxy between dies of an update before that."""
    chain = rig.agent(rig.x("P", "--die-on", "update 7"), rig.demo())
    session = chain.begin()
    turn = chain.start_prompt(session, "/updates 20")
    _told(chain.answer(turn)["error"], "proxy `P`", "exited with code 7")
    assert chain.texts(session) == [f"update {at}\n" for at in range(7)]
    assert chain.exit_code() == 1


def test_a_proxy_that_swallows_a_request_keeps_only_that_one_open(rig: Rig) -> None:
    chain = rig.agent(rig.x("P", "--hang-on", "_x/hole"), rig.demo(), options=("-c", "drain=0.1"))
    session = chain.begin()
    hole = chain.start("_x/hole")
    assert chain.prompt(session, "/echo on") == "on"
    assert chain.answers(hole) == []
    chain.finish()
    assert "error" in chain.answer(hole)


def test_what_waits_on_the_client_is_withdrawn_when_the_agent_dies(rig: Rig) -> None:
    """A permission dialog of a dead agent has nobody left to tell."""
    chain = _behind(rig, "sacp")
    session, other = chain.begin(), chain.new_session()
    chain.serves["session/request_permission"] = None
    chain.start_prompt(session, "/permission may I")
    asked = chain.expect("session/request_permission")
    chain.answer(chain.start_prompt(other, "/exit 5"))
    assert chain.exit_code() == 1
    assert [f["params"] for f in chain.seen("$/cancel_request")] == [{"requestId": asked["id"]}]


def test_a_long_stderr_is_told_by_its_end(rig: Rig) -> None:
    chain = _behind(rig, "nothing")
    session = chain.begin()
    for at in range(30):
        chain.prompt(session, f"/stderr line {at} {'x' * 300}")
    error = chain.answer(chain.start_prompt(session, "/exit 9"))["error"]
    tail = error["data"]["stderr"]
    assert tail[-1] == "demo: exiting with code 9 as asked"
    assert tail[-2].startswith("line 29 x")
    assert 2 < len(tail) <= 20
    assert sum(map(len, tail)) <= 4096
    assert chain.exit_code() == 1
