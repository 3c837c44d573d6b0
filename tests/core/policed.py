"""Chains with one policed component `g`, initialized, for playbooks."""

from __future__ import annotations

import json
from typing import Any, Final

from conductor.core import DIALECTS, Component, Effect, Router, Send, Violated
from conductor.core.policy import NO_PROFILE, TRUSTED, Policy, parse_rule
from tests.core.actors import FORMS, Actor, Guest, PassThrough, dump
from tests.core.plays import V1, notification, request
from tests.playbook import Playbook

Json = dict[str, Any]

LABEL: Final = "proxy `g`"


def policy(*rules: str, profile: str = NO_PROFILE, unguard: str = "", fail: bool = False) -> Policy:
    """A policy of rules such as `up:session/update:modify`, besides a profile's."""
    return Policy(
        profile,
        tuple(parse_rule(rule) for rule in rules),
        frozenset(unguard.split()),
        "fail" if fail else "pass",
    )


def component(held: Policy | None, kind: str | None = "channel", name: str = "g") -> Component:
    """A policed component of a dialect."""
    dialect = DIALECTS[kind] if kind else None
    return Component(name, f"proxy `{name}`", dialect, policy=held)


def chain(*rules: str, profile: str = NO_PROFILE, kind: str = "channel", **more: Any) -> Playbook:
    """A client, the component `g` with these rules, and an agent; initialized."""
    held = None if profile == TRUSTED else policy(*rules, profile=profile, **more)
    router = Router([component(held, kind), Component("agent", "agent `agent`")])
    actor = Guest("g") if kind == "channel" else PassThrough("g", FORMS[kind])
    initialize(router, {"g": actor})
    return Playbook(router)


def initialize(router: Router, actors: dict[str, Actor]) -> None:
    """Initializes a chain of well-behaved components and an agent."""
    queue = [("client", dump(request("i", "initialize", V1)))]
    while queue:
        name, line = queue.pop(0)
        for effect in router.receive(name, line):
            if not isinstance(effect, Send) or effect.peer == "client":
                continue
            if effect.peer == "agent":
                answer = {"protocolVersion": 1, "agentCapabilities": {}}
                id_ = json.loads(effect.frame)["id"]
                reply = {"jsonrpc": "2.0", "id": id_, "result": answer}
                queue.append(("agent", dump(reply)))
            else:
                queue += actors[effect.peer].hear(effect.peer, effect.frame[:-1])
    assert router.pending() == 0
    assert router.version == 1


def update(text: str, session: str = "S") -> Json:
    """An update that says something."""
    content = {"type": "text", "text": text}
    held = {"sessionUpdate": "agent_message_chunk", "content": content}
    return notification("session/update", {"sessionId": session, "update": held})


def prompt(text: str, session: str = "S") -> Json:
    """The params of a prompt."""
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def permission(session: str = "S", *options: str) -> Json:
    """The params of a permission request."""
    offered = [
        {"optionId": name, "name": name, "kind": name} for name in options or ("allow_once",)
    ]
    return {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": offered}


def cancel(id_: object) -> Json:
    """A cancellation."""
    return notification("$/cancel_request", {"requestId": id_})


def violated(
    rule: str, way: str, method: str, text: str, pointer: str = "", *, fatal: bool = False
) -> Violated:
    """The effect that reports a violation of `g`."""
    return Violated("g", rule, way, method, pointer, text, fatal)


def lacks(verb: str, way: str, method: str, *, fatal: bool = False) -> Violated:
    """The same where a verb is missing."""
    return violated("verbs", way, method, lacking(verb, method), fatal=fatal)


def lacking(verb: str, method: str) -> str:
    """How that is said."""
    phrase = {"modify": "change", "answer": "answer"}.get(verb)
    what = f"may not {phrase} `{method}`" if phrase else f"may not send `{method}` of its own"
    return f"{LABEL} {what}"


def refusal(id_: object, verb: str, method: str) -> Json:
    """The error a request is refused with where a verb is missing."""
    data = {"rule": "verbs", "pointer": "", "component": "g"}
    body = {"code": -32600, "message": lacking(verb, method), "data": data}
    return {"jsonrpc": "2.0", "id": id_, "error": body}


def heard(router: Router) -> list[Effect]:
    """A guest's host says that it has had its say."""
    router.delivering("g")
    return router.delivered("g")


def broke(pb: Playbook, rule: str, pointer: str = "") -> str:
    """Asserts that the next effect is a violation of a guard by `g`; what it says."""
    effect = pb._effects.pop(0)
    assert isinstance(effect, Violated), effect
    assert (effect.peer, effect.rule, effect.pointer) == ("g", rule, pointer), effect
    assert effect.text.startswith(LABEL + ": ")
    return effect.text


def taken(pb: Playbook, count: int) -> list[Effect]:
    """The next so many effects, which the test looks at itself."""
    found, pb._effects = pb._effects[:count], pb._effects[count:]
    assert len(found) == count
    return found


def skip(pb: Playbook) -> None:
    """Passes over the rest of what follows, which is not what the test is about."""
    pb._effects.clear()
