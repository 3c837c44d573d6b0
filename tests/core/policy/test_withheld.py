"""Updates of tools in hidden turns: the user sees them before the agent asks anything."""

import json
from collections.abc import Sequence
from typing import Final

import pytest

from conductor.core import Closure, Send
from conductor.core.policy.withheld import MOST_BYTES, MOST_CALLS
from tests.core.policy.test_hosts import ABOVE, host, turn_given
from tests.harness.router.playbook import Noted
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PERMISSION,
    PROMPT,
    UPDATE,
    Hole,
    Json,
    Playbook,
    chain,
    error,
    given,
    guest,
    notification,
    passed,
    permission,
    prompt,
    request,
    result,
    skip,
    tool_call,
    update,
)

CARRIES: Final = "down:session/prompt:carry+amend"
WITHIN: Final[Json] = {"grants": "turns=within"}
NOBODY: Final[Json] = {"outcome": {"outcome": "cancelled"}}
ELICIT: Final = "elicitation/create"
COMMAND: Final[Json] = {"rawInput": {"command": "rm -rf ~"}}


def told(kind: str, id_: str | None = "t", session: str = "S", **more: object) -> Json:
    """An update about a tool call, or about a terminal."""
    held = {"sessionUpdate": kind, **({"toolCallId": id_} if id_ else {}), **more}
    return notification(UPDATE, {"sessionId": session, "update": held})


def own(pb: Playbook, id_: str = "own", name: str = "g") -> None:
    """The component sends a prompt of its own, and the agent gets it."""
    pb >> (name, "s", request(id_, PROMPT, prompt("mine")))
    pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, prompt("mine")))


def over(pb: Playbook, id_: str = "own") -> None:
    """The agent has answered the prompt."""
    pb >> ("agent", result(Hole(f"a-{id_}"), DONE)) << ("g", "s", result(id_, DONE))


def hidden(pb: Playbook, *updates: Json, name: str = "g") -> None:
    """The component alone hears of these."""
    for one in updates:
        pb >> ("agent", one) << (name, "s", one)


def asks(pb: Playbook, id_: str = "t", session: str = "S", method: str = PERMISSION) -> Json:
    """The agent asks about a tool call that it names by its id alone."""
    asked = f"q{len(pb.values)}"
    pb.values["asked"] = asked
    params = {**permission(session), "toolCall": {"toolCallId": id_}}
    pb >> ("agent", request(asked, method, params))
    return request(Hole(f"of-{asked}"), method, params)


def refused(pb: Playbook, id_: str = "t", session: str = "S") -> None:
    """The agent is told that nobody permits the call."""
    asks(pb, id_, session)
    pb << Noted("warning", "g", "about a tool call that proxy `g` hid")
    pb << ("agent", result(Hole("asked"), NOBODY))


V1: Final = (tool_call("t"), told("tool_call_update", **COMMAND), tool_call("u"))
V2: Final = (
    told("tool_call_update", title="run", status="pending"),
    told("tool_call_content_chunk", content={"type": "terminal", "terminalId": "x"}),
    told("terminal_update", None, terminalId="x", command="rm"),
    told("terminal_output_chunk", None, terminalId="x", data="gone"),
)


@pytest.mark.proves("nothing of a hidden turn reaches", "turns of its own")
@pytest.mark.parametrize(("version", "updates"), [(1, V1), (2, V2)])
@pytest.mark.parametrize("method", [PERMISSION, ELICIT, "_agent/confirm"])
def test_it_goes_before_the_question(version: int, updates: Sequence[Json], method: str) -> None:
    with chain(CARRIES, version=version, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, *updates)
        question = asks(pb, method=method)
        for one in updates:
            pb << ("client", one)
        pb << ("client", question)
        later = told("tool_call_update", status="in_progress")
        pb >> ("agent", later) << ("client", later)


def test_it_keeps_its_place_behind_what_the_component_still_holds() -> None:
    with chain(CARRIES, CARRY_TEXT, **WITHIN) as pb:
        given(pb)
        pb >> ("agent", update("before")) << ("g", "s", update("before"))
        own(pb)
        hidden(pb, tool_call("t"))
        asks(pb)
        assert [one.peer for one in skip(pb) if isinstance(one, Send)] == ["g"]
        pb >> ("g", "p", update("before")) << ("client", update("before"))
        pb << ("client", tool_call("t"))
        skip(pb)


def test_what_the_editor_does_is_no_question() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, tool_call("t"))
        read = {"sessionId": "S", "path": "/p"}
        pb >> ("agent", request("r", "fs/read_text_file", read))
        pb << ("client", request(Hole("r"), "fs/read_text_file", read))
        hidden(pb, told("tool_call_update"))


def test_in_a_host_too() -> None:
    """The host shows the withheld call to its other guests, too."""
    front = guest(profile="full", grants="permission=narrow", name="f")
    with host(front, guest(grants="turns=unprompted")) as pb:
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        turn_given(pb, "g")
        pb << (ABOVE, "s", request(Hole("own"), PROMPT, prompt("mine")))
        pb >> (ABOVE, "s", tool_call("t")) << ("g", "s", tool_call("t"))
        asked = request(7, PERMISSION, permission())
        pb >> (ABOVE, "s", asked) << ("f", "s", tool_call("t"))
        pb << (ABOVE, "p", tool_call("t")) << ("f", "s", asked)


def test_what_follows_a_hidden_part_is_hidden_or_behind_that_part() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, tool_call("t"))
        pb >> ("g", "c", request(1, "turn/begin", {"sessionId": "S", "show": True}))
        pb << ("g", "c", result(1, {"turn": Hole("turn")}))
        more = told("tool_call_update", **COMMAND)
        hidden(pb, more)  # although the turn within is one that the client sees
        passed(pb)
        last = told("tool_call_update", status="pending")
        pb >> ("agent", last)
        pb << ("client", tool_call("t")) << ("client", more) << ("client", last)
        question = asks(pb)
        pb << ("client", question)


@pytest.mark.proves("nothing of a hidden turn reaches")
@pytest.mark.parametrize("of", ["calls", "bytes", "terminals"])
def test_what_is_beyond_the_bounds_is_not_asked_about(of: str) -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, tool_call("t"))
        lost = "t" if of == "bytes" else "u"
        if of == "calls":
            hidden(pb, *(tool_call(f"t-{number}") for number in range(1, MOST_CALLS)))
            hidden(pb, tool_call("u"))
        else:
            long = "x" * MOST_BYTES
            which = "t" if of == "bytes" else None
            kind = "tool_call_update" if which else "terminal_update"
            hidden(pb, told(kind, which, title=long))
            hidden(pb, tool_call("v"))
        refused(pb, lost)
        hidden(pb, told("tool_call_update", lost))
        if of == "bytes":
            question = asks(pb, "v")
            pb << ("client", tool_call("v")) << ("client", question)
        elif of == "terminals":
            refused(pb, "v")  # that may have been its command
            pb >> ("agent", request("q", ELICIT, {"sessionId": "S"}))
            pb << Noted("warning", "g", "about a tool call")
            pb << ("agent", error("q", -32600, Hole("why")))
        else:
            pb >> ("agent", request("q", PERMISSION, permission()))
            for id_ in ("t", *(f"t-{number}" for number in range(1, MOST_CALLS))):
                pb << ("client", tool_call(id_))
            pb << ("client", request(Hole("q"), PERMISSION, permission()))
            refused(pb, lost)


def test_once_the_turn_is_over_nothing_is_kept_and_what_goes_on_is_not_asked_about() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, tool_call("t"), told("tool_call_update", "t", status=1))
        hidden(pb, tool_call("u"), told("tool_call_update", "u", status="failed"))
        over(pb)
        passed(pb)
        refused(pb, "t")
        later = told("tool_call_update", "t", title="list files")
        pb >> ("agent", later) << ("client", later)
        refused(pb, "t")  # the user has seen a part of the call, not all
        question = asks(pb, "u")
        pb << ("client", question)
        pb >> ("agent", tool_call("t")) << ("client", tool_call("t"))  # another, of the same id
        question = asks(pb, "t")
        pb << ("client", question)


def test_in_version_2_a_title_alone_does_not_begin_a_call() -> None:
    with chain(CARRIES, version=2, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, told("tool_call_update", title="clean", **COMMAND))
        pb >> ("agent", result(Hole("a-own"), {})) << ("g", "s", result("own", {}))
        idle = told("state_update", None, state="idle")
        pb >> ("agent", idle) << ("g", "s", idle)
        passed(pb)
        for more in ({"title": "list files"}, {"title": "list files", "status": "pending"}):
            later = told("tool_call_update", **more)
            pb >> ("agent", later) << ("client", later)
            refused(pb)
        for more in ({"status": "completed"}, {"title": "list files", "status": "pending"}):
            later = told("tool_call_update", **more)
            pb >> ("agent", later) << ("client", later)
        question = asks(pb)
        pb << ("client", question)


def test_who_is_gone_hides_nothing() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        hidden(pb, tool_call("t"))
        pb >> (lambda router: router.bypassed("g", Closure("gone")))
        frames = [one.frame for one in skip(pb) if isinstance(one, Send) and one.peer == "client"]
        assert [json.loads(frame) for frame in frames] == [tool_call("t")]
        question = asks(pb)
        pb << ("client", question)
