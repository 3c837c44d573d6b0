"""The cost of one message does not depend on how many sessions and requests are open beside it.

Work is counted in instructions of the core: time would depend on the machine.
"""

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from conductor.core import Component
from conductor.core.router import Router
from tests.harness.router.actors import (
    FORMS,
    INITIALIZE,
    Actor,
    Guest,
    Json,
    PassThrough,
    Stage,
    dump,
)
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PERMISSION,
    PROMPT,
    cancel,
    guest,
    mode,
    permission,
    prompt,
    request,
    result,
    stop,
    tool_call,
    trusted,
    update,
)

FEW, MANY = 20, 120
SLACK: Final = 1.1
"""A table that grows, or a longer number, costs a little."""

CARRIES: Final = (f"down:{PROMPT}:carry+amend", f"up:{PERMISSION}:carry", CARRY_TEXT)
CHAINS: Final[dict[str, Callable[[], list[Component]]]] = {
    "nobody": list,
    "trusted guest": lambda: [trusted("g")],
    "trusted program": lambda: [trusted("g", "acp")],
    "guest": lambda: [guest(*CARRIES)],
    "context": lambda: [guest(profile="context")],
    "observer": lambda: [guest(profile="observer")],
    "program": lambda: [guest(*CARRIES, kind="acp", ids="kept")],
    "own turns": lambda: [guest(*CARRIES, grants="turns=unprompted")],
}


class Silent(Actor):
    """An agent that answers `initialize` and leaves all else open."""

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        message = json.loads(line)
        if message.get("method") != "initialize":
            return []
        answer = {"protocolVersion": 1, "agentCapabilities": {}}
        return [(peer, dump(result(message["id"], answer)))]


class Keeping(PassThrough):
    """A program that passes requests on under the ids that it was given."""

    def _with_id(self, heard: Json, said: Json, *, role: bool) -> Json:
        if "id" in heard:
            said = {"id": heard["id"], **said}
            self.waiting[said["id"]] = (heard["id"], role)
        return {"jsonrpc": "2.0", **said}


def stage_of(name: str, sessions: int, *, asks: bool) -> Stage:
    """A chain with a prompt open in so many sessions. `asks`: the agent asks the user in each."""
    components = CHAINS[name]()
    actors: list[Actor] = [
        Guest(one.name)
        if one.dialect and one.dialect.sideband
        else (PassThrough if one.policy is None else Keeping)(one.name, FORMS["acp"])
        for one in components
    ]
    router = Router([*components, Component("agent", "agent `agent`")])
    stage = Stage(router, [*actors, Silent("agent")])
    stage.say(INITIALIZE)
    for number in range(1000, 1000 + sessions):
        stage.say(request(number, PROMPT, prompt("hi", f"s{number}")))
        if asks:
            stage.say(request(number, PERMISSION, permission(f"s{number}")), "agent")
    return stage


def instructions(call: Callable[[], object]) -> int:
    """How many instructions the core executes."""
    count = 0

    def step(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return step

    def begin(frame: FrameType, event: str, arg: Any) -> Any:
        if "/conductor/core/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    before = sys.gettrace()
    sys.settrace(begin)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


ABOUT: Final = "s1005"
MESSAGES: Final[dict[str, tuple[str, Json]]] = {
    "an update": ("agent", update("more", ABOUT)),
    "a tool call": ("agent", tool_call("t", ABOUT)),
    "a request of the agent": (
        "agent",
        request("r", "fs/read_text_file", {"sessionId": ABOUT, "path": "/x"}),
    ),
    "a question": ("agent", request("q", PERMISSION, permission(ABOUT))),
    "a prompt": ("client", request("p", PROMPT, prompt("hi", "new"))),
    "a list": ("client", request("l", "session/list", {})),
    "a setting": ("client", request("m", "session/set_mode", mode(ABOUT))),
    "a cancellation": ("client", cancel(1005)),
    "a stop": ("client", stop("s1006")),
    "an end": ("client", request("e", "session/close", {"sessionId": "s1007"})),
}


@pytest.mark.parametrize("asks", [False, True], ids=["prompts", "questions"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_message_costs_the_same_however_much_is_open(name: str, asks: bool) -> None:
    costs = []
    for sessions in (FEW, MANY):
        stage = stage_of(name, sessions, asks=asks)
        cost = {
            what: instructions(lambda: stage.say(message, who))  # noqa: B023 - called at once
            for what, (who, message) in MESSAGES.items()
        }
        done = result(10, DONE)
        cost["an answer"] = instructions(lambda: stage.say(done, "agent"))  # noqa: B023
        own = dump(request("own", PROMPT, prompt("mine", "free")))
        if name == "trusted guest":
            cost["its own prompt"] = instructions(lambda: stage.say(b"s" + own, "g"))  # noqa: B023
        costs.append(cost)
    few, many = costs
    assert {what: (few[what], many[what]) for what in few if many[what] > SLACK * few[what]} == {}
