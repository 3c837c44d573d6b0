"""Session setup and prompts: what an agent is told to work in, with, and how."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.common import SESSION_NAMES
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    difference,
    member,
    token,
)
from conductor.core.guards.rules import Answer, Change, Found, Origin
from conductor.core.guards.servers import HOLDER, LISTS, appended
from conductor.core.guards.table import (
    PROMPT_OPTIONS,
    SESSION_MODE,
    SESSION_SETUP,
    SESSION_TARGET,
    SYSTEM_PROMPT,
    Violation,
)

_OWNED: Final[dict[str, str]] = {"systemPrompt": SYSTEM_PROMPT}
"""Members of a setup that have a guard of their own."""

_ELSEWHERE: Final = frozenset({"_meta", *SESSION_NAMES, *LISTS})
"""Members that other rules look at."""

_PROMPTS_OWN: Final = frozenset({"_meta", *SESSION_NAMES, "prompt"})
_SHOWN: Final = ("modes", "configOptions")


def settled(change: Change) -> Found:
    """Rule for a session's setup on its way: servers may be appended, all else stays."""
    before, after = change.before, change.after
    yield from appended(change.context, before, after)
    for name in {**before, **after}:
        if name in _ELSEWHERE:
            continue
        old, new = member(before, name), member(after, name)
        if name == HOLDER:
            old, new = _without_servers(old), _without_servers(new)
        at = difference(old, new, token(name))
        if at is not None:
            text = f"{name!a:.80} of `{change.method}` may not be changed or added"
            yield Violation(_OWNED.get(name, SESSION_SETUP), text, at)


def _without_servers(value: Json | Absent) -> Json | Absent:
    """The oldest generation's `tools` without its servers; without any members it is as absent."""
    if not isinstance(value, dict):
        return value
    rest: Object = {name: held for name, held in value.items() if name not in LISTS}
    return rest or ABSENT


def proposed(origin: Origin) -> Found:
    """Rule for a session setup of a component's own: its servers are such as it may append."""
    yield from appended(origin.context, {}, origin.params)


def reported(answer: Answer) -> Found:
    """Rule for the result of a setup that was passed on: session, modes and options are its own."""
    if not isinstance(answer.relayed, dict):
        return
    if not isinstance(answer.result, dict):
        text = f"the result of `{answer.method}` may not be replaced by what is no object"
        yield Violation(SESSION_TARGET, text)
        return
    for name in _SHOWN:
        at = difference(member(answer.relayed, name), member(answer.result, name), token(name))
        if at is not None:
            text = f"`{name}` of a session may not be changed: they are shown as the agent says"
            yield Violation(SESSION_MODE, text, at)


def blocks_only(change: Change) -> Found:
    """Rule for a prompt on its way: its blocks may change, what stands beside them may not."""
    for name in {**change.before, **change.after}:
        if name not in _PROMPTS_OWN:
            at = difference(member(change.before, name), member(change.after, name), token(name))
            if at is not None:
                text = f"{name!a:.80} of a prompt may not be changed or added"
                yield Violation(PROMPT_OPTIONS, text, at)
