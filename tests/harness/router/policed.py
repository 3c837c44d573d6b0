"""Chains with policed components, initialized, and their messages, for playbooks."""

import json
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from conductor.core import DIALECTS, Component, Effect, Entry, Send, Violated, Wake
from conductor.core.policy.key_table import Direction
from conductor.core.policy.rules import Grants, Policy, merged
from conductor.core.policy.states import State
from conductor.core.router import Router, RouterOptions
from conductor.core.state import Visit
from tests.harness.router.actors import FORMS, Actor, Guest, PassThrough, dump
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import V1, Json, error, notification, request, result
from tests.harness.router.rules import parse_grant, policy_of

__all__ = ["V1", "Hole", "Json", "Noted", "Playbook", "error", "notification", "request", "result"]

LABEL: Final = "proxy `g`"
PROMPT: Final = "session/prompt"
PERMISSION: Final = "session/request_permission"
UPDATE: Final = "session/update"
DONE: Final[Json] = {"stopReason": "end_turn"}
CANCELLED: Final[Json] = {"stopReason": "cancelled"}
CARRY_TEXT: Final = "up:session/update[agent_message_chunk]:carry+drop"
V2: Final[Json] = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}}

KINDS: Final = {"acp": "proxy/successor", "sdk": "_proxy/successor"}
"""Two dialects of programs, and their envelopes."""


def policy(*allow: str, profile: str = "none", grants: str = "", **more: Any) -> Policy:
    """A policy of rules such as `down:session/prompt:carry`, beside a profile's, and grants."""
    given = Grants()
    for one in grants.split():
        given = merged(given, parse_grant(one))
    return policy_of(profile, *allow, grants=given, **more)


def guest(*allow: str, name: str = "g", kind: str | None = "channel", **more: Any) -> Component:
    """A policed component of a dialect."""
    dialect = DIALECTS[kind] if kind else None
    return Component(name, f"proxy `{name}`", dialect, policy=policy(*allow, **more))


def trusted(name: str, kind: str = "channel") -> Component:
    """A component without a policy."""
    return Component(name, f"proxy `{name}`", DIALECTS[kind])


def chain(*allow: str, kind: str = "channel", version: int = 1, **more: Any) -> Playbook:
    """A client, the component `g` with these rules, and an agent; initialized."""
    return chain_of(guest(*allow, kind=kind, **more), version=version)


def chain_of(*components: Component, version: int = 1, **more: Any) -> Playbook:
    """A client, these components, and an agent; initialized."""
    router = Router(
        [*components, Component("agent", "agent `agent`")], options=RouterOptions(**more)
    )
    initialize(router, components, version)
    return Playbook(router)


def initialize(router: Router, components: Sequence[Component], version: int = 1) -> list[Effect]:
    """Initializes a chain of well-behaved components and an agent; what peer agents get then."""
    actors: dict[str, Actor] = {}
    beside: list[Effect] = []
    for one in components:
        kind = one.dialect.name if one.dialect else "acp"
        actors[one.name] = (
            Guest(one.name) if kind == "channel" else PassThrough(one.name, FORMS[kind])
        )
    queue = deque([("client", dump(request("i", "initialize", V1 if version == 1 else V2)))])
    while queue:
        name, line = queue.popleft()
        for effect in router.receive(name, line):
            if not isinstance(effect, Send) or effect.peer not in (*actors, "agent"):
                assert isinstance(effect, (Send, Wake, Entry)), effect
                beside.append(effect)
                continue
            if effect.peer == "agent":
                answer = {"protocolVersion": version, "agentCapabilities": {}}
                reply = result(json.loads(effect.frame)["id"], answer)
                queue.append(("agent", dump(reply)))
            else:
                queue += actors[effect.peer].hear(effect.peer, effect.frame[:-1])
    assert router.pending() == 0
    assert router.version == version
    return beside


# -- messages ------------------------------------------------------------------------------------


def update(text: str, session: str | None = "S", kind: str = "agent_message_chunk") -> Json:
    """An update that says something."""
    held = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return notification(UPDATE, {"sessionId": session, "update": held})


def tool_call(id_: str, session: str = "S", title: str = "run") -> Json:
    """An update that tells of a tool call."""
    held = {"sessionUpdate": "tool_call", "toolCallId": id_, "title": title}
    return notification(UPDATE, {"sessionId": session, "update": held})


def state(word: str, session: str = "S") -> Json:
    """Version 2: the state of a session."""
    held = {"sessionUpdate": "state_update", "state": word}
    return notification(UPDATE, {"sessionId": session, "update": held})


def prompt(text: str, session: str = "S") -> Json:
    """The params of a prompt."""
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def permission(session: str = "S", *options: str) -> Json:
    """The params of a permission request."""
    offered = [
        {"optionId": one, "name": one, "kind": one}
        for one in options or ("allow_once", "allow_always", "reject_once")
    ]
    return {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": offered}


def mode(session: str = "S", name: str = "code") -> Json:
    """The params of `session/set_mode`."""
    return {"sessionId": session, "modeId": name}


def cancel(id_: object) -> Json:
    """A `$/cancel_request`."""
    return notification("$/cancel_request", {"requestId": id_})


def stop(session: str = "S") -> Json:
    """A `session/cancel`."""
    return notification("session/cancel", {"sessionId": session})


def wrapped(kind: str, message: Json) -> Json:
    """A program's message from or to its successor."""
    inner = {name: message[name] for name in ("method", "params") if name in message}
    return {**message, "method": KINDS[kind], "params": inner}


# -- what happens --------------------------------------------------------------------------------


def heard(router: Router, name: str = "g") -> list[Effect]:
    """A guest gets the lines for it, and has answered."""
    router.delivering(name)
    return router.delivered(name)


def given(pb: Playbook, text: str = "hi", asked: object = "a", session: str = "S") -> None:
    """The client prompts, and `g` gets the prompt; the hole `g-…` is its id there."""
    pb >> ("client", request(asked, PROMPT, prompt(text, session)))
    pb << ("g", "p", request(Hole(f"g-{asked}"), PROMPT, prompt(text, session)))


def passed(pb: Playbook, text: str = "hi", asked: object = "a", session: str = "S") -> None:
    """`g` passes it on as it is; the hole `a-…` is its id at the agent."""
    pb >> ("g", "s", request(Hole(f"g-{asked}"), PROMPT, prompt(text, session)))
    pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(text, session)))


def came_back(pb: Playbook, answer: object = DONE, asked: object = "a") -> None:
    """The agent answers the prompt, and `g` gets the answer."""
    pb >> ("agent", result(Hole(f"a-{asked}"), answer))
    pb << ("g", "s", result(Hole(f"g-{asked}"), answer))


def returned(pb: Playbook, text: str = "hi", asked: object = "a", session: str = "S") -> None:
    """A prompt on all its way, until `g` has the answer."""
    given(pb, text, asked, session)
    passed(pb, text, asked, session)
    came_back(pb, asked=asked)


def carried(pb: Playbook, direction: Direction = Direction.DOWN, name: str = "g") -> list[Visit]:
    """The requests that a component carries, oldest first."""
    peer = pb.router.peers[name]
    given = (peer.s if direction is Direction.DOWN else peer.p).in_flight
    waits = (one for one in given.queue if isinstance(one, Visit))
    return [*given.requests.values(), *(one for one in waits if one.state is State.QUEUED)]


def settled(router: Router) -> bool:
    """Whether nothing waits anywhere."""
    return not any(
        lane.in_flight.queue or lane.in_flight.waiting
        for peer in router.peers.values()
        for lane in (peer.p, peer.s)
    )


# -- violations ----------------------------------------------------------------------------------


def says(text: str, rule: str = "rights", name: str = "g") -> str:
    """How a violation is said, without its hint."""
    joint = " " if rule in ("rights", "identity", "hold", "watch") else ": "
    return f"proxy `{name}`{joint}{text}"


def broke(
    pb: Playbook, rule: str = "rights", text: str = "", name: str = "g", *, again: bool = False
) -> Violated:
    """Asserts that the next effect is a violation of this rule, and says this among other words."""
    effect = taken(pb)
    assert isinstance(effect, Violated), effect
    assert (effect.peer, effect.rule, effect.again) == (name, rule, again), effect
    assert effect.text.startswith(says("", rule, name)), effect
    assert text in effect.text, effect
    return effect


def lacks(pb: Playbook, right: str, key: str, name: str = "g", *, again: bool = False) -> None:
    """Asserts that the next effect is a violation for want of a right."""
    said = {
        "originate": f"may not send `{key}` of its own",
        "carry": f"may not change `{key}`",
        "amend": f"may not change the answer to `{key}`",
        "answer": f"may not answer `{key}`",
    }[right]
    broke(pb, "rights", said, name, again=again)


def refused(pb: Playbook, id_: object, *texts: str, side: str = "s", name: str = "g") -> Json:
    """Asserts that the next effect answers a request of the component with an error that names it
    and says all this."""
    effect = taken(pb)
    assert isinstance(effect, Send), effect
    assert (effect.peer, effect.frame[:1]) == (name, side.encode()), effect
    answer: Json = json.loads(effect.frame[1:])
    assert answer["id"] == pb.values.get(id_.name) if isinstance(id_, Hole) else id_, answer
    assert answer["error"]["data"]["component"] == name
    for text in texts:
        assert text in answer["error"]["message"], answer
    return answer


def failed(pb: Playbook, id_: object, *texts: str, name: str = "g", peer: str = "client") -> None:
    """Asserts that the next effect answers a request with an error that names the component."""
    effect = taken(pb)
    assert isinstance(effect, Send), effect
    assert effect.peer == peer, effect
    answer = json.loads(effect.frame)
    assert answer["id"] == id_, answer
    assert answer["error"]["data"]["component"] == name, answer
    for text in texts:
        assert text in answer["error"]["message"], answer


def taken(pb: Playbook) -> Effect:
    """The next effect, which the test looks at itself."""
    assert pb.effects, "nothing follows"
    return pb.effects.pop(0)


def skip(pb: Playbook) -> list[Effect]:
    """Passes over the other effects, which the test is not about."""
    rest, pb.effects = pb.effects, []
    return rest
