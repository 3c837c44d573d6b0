"""The component `research`."""

import json
import os
import shlex
import sys
from typing import Any

import pytest

from guest_sdk.python import Playground, Record
from tests.components.library.support import (
    FORMS,
    V2,
    agent,
    component,
    folders,
    in_form,
    load,
    play,
)
from tests.harness.process.rig import Rig

DONE = "<research-complete/>\nYou began this research: "


def text(result: Any) -> str:
    """The text of a tool's result."""
    return str(result["content"][0]["text"])


def holding(p: Playground) -> list[Record]:
    """Has the agent hold the researcher's prompts; the result is those prompts."""
    held: list[Record] = []

    def answer(request: Record) -> Any:
        if request.method != "session/prompt" or "You are a researcher" not in str(request.raw):
            return None
        held.append(request)
        return p.agent.HOLD

    p.agent.answer = answer
    return held


def ends(p: Playground, request: Record, said: str, stop: str = "end_turn") -> None:
    """Ends a researcher's prompt."""
    p.agent.say(request.params.session_id, said)
    p.agent.reply(request, {"stopReason": stop})


def shown(p: Playground) -> str:
    """The text that the user has read."""
    updates = [one.raw["params"] for one in p.heard if one.method == "session/update"]
    assert {one["sessionId"] for one in updates} <= {p.session}
    return "".join(one["update"]["content"]["text"] for one in updates)


async def test_the_tool_returns_at_once_and_the_report_comes_by_itself() -> None:
    async with play("research") as p:
        await p.new_session(cwd="/here")
        held = holding(p)
        assert text(await p.call("begin_research", question="Is Rust fast? See @/etc/x.")) == "ok"
        (asked,) = held
        opened = [one.raw["params"] for one in p.agent.requests if one.method == "session/new"]
        assert opened[1] == {"cwd": "/here", "mcpServers": []}
        (task,) = asked.params.prompt
        assert task["text"].startswith("You are a researcher")
        assert task["text"].endswith("\n\nIs Rust fast? See @ /etc/x.")
        assert (await p.prompt("meanwhile")).text == "meanwhile"
        ends(p, asked, "Rust is **fast**, says @/etc/x.")
        report = f"{DONE}Is Rust fast? See @ /etc/x.\n\nThe report:\n\nRust is **fast**, says "
        assert p.agent.prompts[-1] == f"{report}@ /etc/x."
        assert shown(p) == f"meanwhile{report}@ /etc/x."
        closed = [one for one in p.agent.requests if one.method == "session/close"]
        assert [one.params.session_id for one in closed] == ["session-2"]


async def test_bounds() -> None:
    async with play("research", config={"at_once": 1, "longest": 20}) as p:
        await p.new_session()
        held = holding(p)
        for question, told in (("  ", "has words"), ("x" * 21, "20 characters at most")):
            assert told in text(await p.call("begin_research", question=question))
        await p.call("begin_research", question="one")
        assert "1 are under way already" in text(await p.call("begin_research", question="two"))
        p.agent.say(held[0].params.session_id, "much " * 5)
        assert p.agent.prompts[-1] == (
            f"{DONE}one\n\nIt was ended: the researcher, a session of this agent, wrote more than "
            f"20 characters.\n\nWhat it had written until then:\n\n{('much ' * 4).strip()}"
        )
        assert [one.params.session_id for one in p.agent.notifications] == ["session-2"]
        await p.call("begin_research", question="three")
        for _ in range(9):
            p.agent.update(held[1].params.session_id, "agent_thought_chunk",
                           content={"type": "text", "text": "x" * (1 << 20)})  # fmt: skip
        assert p.agent.prompts[-1].endswith(
            "sent more than 8,388,608 characters.\n\nThere is no report."
        )


async def test_a_researcher_that_never_ends_is_ended_by_name() -> None:
    async with play("research", config={"seconds": 60}) as p:
        await p.new_session()
        held = holding(p)
        await p.call("begin_research", question="Why?")
        p.agent.say(held[0].params.session_id, "so far")
        p.services.advance(59)
        assert not p.agent.notifications
        p.services.advance(1)
        assert p.agent.prompts[-1] == (
            f"{DONE}Why?\n\nIt was ended: the researcher, a session of this agent, did not end "
            "within 60 seconds.\n\nWhat it had written until then:\n\nso far"
        )
        assert [one.method for one in p.agent.notifications] == ["session/cancel"]
        p.agent.reply(held[0], {"stopReason": "cancelled"})  # late
        assert len(p.agent.prompts) == 2


async def test_a_researcher_that_fails() -> None:
    async with play("research") as p:
        await p.new_session()
        held = holding(p)
        for stop, said, told in (
            ("refusal", "no", "ended with refusal.\n\nWhat it had written until then:\n\nno"),
            ("end_turn", "", "wrote nothing.\n\nThere is no report."),
        ):
            await p.call("begin_research", question="Why?")
            ends(p, held[-1], said, stop)
            assert p.agent.prompts[-1].endswith(told)
        await p.call("begin_research", question="Why?")
        error = {"code": -32000, "message": "no tokens"}
        p.send("s", {"id": held[-1].raw["id"], "error": error})
        assert p.agent.prompts[-1].endswith("failed: no tokens.\n\nThere is no report.")


async def test_research_is_stopped_by_the_agent_and_by_the_end_of_the_session() -> None:
    async with play("research") as p:
        session = await p.new_session()
        held = holding(p)
        await p.call("begin_research", question="one")
        await p.call("begin_research", question="two")
        assert text(await p.call("stop_research")) == "stopped: 2"
        await p.call("begin_research", question="three")
        await p.request("session/close", {"sessionId": session})
        stopped = [one.params.session_id for one in p.agent.notifications]
        assert stopped == [one.params.session_id for one in held]
        assert len(p.agent.prompts) == len(held)
        assert "value:researches" not in p.services.kept


async def test_what_a_failure_has_lost_is_reported() -> None:
    async with play("research") as p:
        await p.new_session()
        holding(p)
        await p.call("begin_research", question="Why?")
        p.restart(load("research"))
        assert "was lost when the component `research` was started again" in p.agent.prompts[-1]
        assert "value:researches" not in p.services.kept


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_the_user_works_on_until_the_report_comes(rig: Rig, form: str, version: int) -> None:
    pipe = rig.folder / "pipe"
    os.mkfifo(pipe)
    made = in_form(form, "research", {"task": ""})
    chain = agent(rig, made, rig.actor("researching_agent", str(pipe), name="A"),
                  PYTHONPATH=folders("research"))  # fmt: skip
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session()

    def said() -> str:
        return "".join(chain.texts(session))

    asked = json.dumps({"question": "hold Rust"})
    for prompt, heard in ((f"call research begin_research {asked}", "ok"), ("meanwhile", None)):
        chain.answer(chain.start_prompt(session, prompt))
        wanted = heard or f"ok{prompt}"
        chain.until(lambda wanted=wanted: said() == wanted, "the answer")  # type: ignore[misc]
    pipe.write_text("it is fast", "utf-8")
    wanted = f"okmeanwhile{DONE}hold Rust\n\nThe report:\n\nRust: it is fast"
    chain.until(lambda: said() == wanted, "the turn that nobody asked for")
    chain.answer(chain.start_prompt(session, "behind"))
    chain.until(lambda: said() == f"{wanted}behind", "the turn behind it")
    assert {one["params"]["sessionId"] for one in chain.seen("session/update")} == {session}
    assert chain.finish() == 0


SILENT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    said = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    if asked.get("method") in said:
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": said[asked["method"]]}
        print(json.dumps(answer), flush=True)
"""
"""An agent that answers no prompt, and ignores that it is stopped."""


def test_a_source_that_never_ends(rig: Rig) -> None:
    """A peer agent that hangs, and ignores that it is stopped."""
    (rig.folder / "silent.py").write_text(SILENT)
    options = ("-c", f"peer.library={shlex.join([sys.executable, str(rig.folder / 'silent.py')])}")
    config = {"peer": "library", "seconds": 0.2, "task": ""}
    made = component("research", config, allow="peer:library")
    chain = agent(rig, made, rig.demo("--acp"), options=options)
    session = chain.begin()
    chain.prompt(session, '/call research begin_research {"question":"why?"}')
    ended = (
        f"{DONE}why?\n\nIt was ended: the researcher `library` did not end within 0.2 seconds.\n\n"
        "There is no report."
    )
    chain.until(lambda: "".join(chain.texts(session)) == f"ok{ended}", "its end")
    assert chain.prompt(session, "behind") == "behind"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_a_question_and_a_report_are_no_commands(rig: Rig) -> None:
    chain = agent(rig, component("research", {"task": "Look:"}), rig.demo("--acp"))
    session = chain.begin()
    question = json.dumps({"question": "/src/a.rs? See [x](file:///etc/x) and @/etc/y"})
    chain.prompt(session, f"/call research begin_research {question}")
    asked = "/src/a.rs? See [x](file:///etc/x) and @ /etc/y"
    report = f"{DONE}{asked}\n\nThe report:\n\nLook:\n\n{asked}"
    chain.until(lambda: "".join(chain.texts(session)) == f"ok{report}", "the report")
    assert chain.finish() == 0
    assert chain.stderr == ""
