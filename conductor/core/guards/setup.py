"""Session set-up: what an agent is told to work in and with, and what it says of it."""

from __future__ import annotations

from typing import Final

from conductor.core.guards import commands, modes
from conductor.core.guards.common import SESSION_NAMES
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.methods import SETUP
from conductor.core.guards.paths import inside, is_absolute
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    Unreadable,
    as_object,
    difference,
    member,
    read,
    token,
)
from conductor.core.guards.rules import Answer, Change, Found, Origin, not_originated
from conductor.core.guards.servers import HOLDER, LISTS, appended
from conductor.core.guards.table import (
    META,
    OWN_SESSIONS,
    SESSION_SETUP,
    SESSION_TARGET,
    SYSTEM_PROMPT,
)

_OWNED: Final[dict[str, str]] = {"systemPrompt": SYSTEM_PROMPT, "_meta": META}
"""Members of a set-up that have a guard of their own."""

_ELSEWHERE: Final = frozenset({*SESSION_NAMES, *LISTS})
"""Members that other rules look at."""

_FOLDERS: Final = ("cwd", "additionalDirectories")
_PROPOSED: Final = frozenset({*_ELSEWHERE, *_FOLDERS, "_meta"})
_ENTERS: Final = (SETUP[1], SETUP[2])
"""The set-ups that go on with a session; a fork of anybody's leaves that as it is."""
_MAKES_ONE: Final = (SETUP[0], SETUP[3])
"""The set-ups whose result names a new session."""


def settled(change: Change) -> Found:
    """Rule for a session's set-up on its way: servers may be appended, all else stays."""
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


_not_opened = not_originated(OWN_SESSIONS)


def proposed(origin: Origin) -> Found:
    """Rule for a set-up of a component's own: in the client's folders, with its own servers."""
    context, params = origin.context, origin.params
    if not context.grants.sessions:
        yield from _not_opened(origin)
    named = member(params, SESSION_NAMES[0])
    whose = context.own_sessions if origin.method in _ENTERS else context.sessions
    if origin.method != SETUP[0] and not (isinstance(named, str) and named in whose):
        text = f"`{origin.method}` of a component's own is of a session that it has opened itself"
        yield Violation(OWN_SESSIONS, text, token(SESSION_NAMES[0]))
    yield from appended(context, {}, params)
    if "cwd" not in params:
        text = "a session of a component's own needs a working directory"
        yield Violation(OWN_SESSIONS, text, "/cwd")
    for name in params:
        if name not in _PROPOSED:
            text = f"{name!a:.80} may not be in a session's set-up of a component's own"
            yield Violation(_OWNED.get(name, SESSION_SETUP), text, token(name))
    for name in _FOLDERS:
        held = params.get(name)
        folders = held if isinstance(held, list) else [] if held is None else [held]
        if not all(_is_known(context, one) for one in folders):
            text = "a session of a component's own works in folders of the client's sessions"
            yield Violation(OWN_SESSIONS, text, token(name))


def _is_known(context: Context, folder: Json) -> bool:
    return isinstance(folder, str) and is_absolute(folder) and inside(folder, context.folders)


def reported(answer: Answer) -> Found:
    """Rule for the result of a set-up: the agent's own, with what was granted added to it."""
    context, result = answer.context, answer.result
    if answer.relayed is ABSENT:
        yield from _own(answer)
        return
    if not isinstance(answer.relayed, dict) or not isinstance(result, dict):
        if answer.relayed != result:
            text = f"the result of `{answer.method}` may not be replaced by or for no object"
            yield Violation(SESSION_TARGET, text)
        return
    relayed = answer.relayed
    for name in {**relayed, **result}:
        old, new = member(relayed, name), member(result, name)
        at = difference(old, new, token(name))
        if at is None or name == "_meta":
            continue
        if name == "modes":
            yield from modes.reported(context, old, new)
        elif name == "configOptions":
            yield from modes.extended(context, old, new, token(name))
        elif name == "availableCommands" and isinstance(new, list):
            given = old if isinstance(old, list) else []
            yield from commands.listed(context, given, new, token(name))
        else:
            text = f"{name!a:.80} of a session may not be changed: it is as the agent says"
            yield Violation(SESSION_SETUP, text, at)


def _own(answer: Answer) -> Found:
    """A set-up that a component answers by itself names a session that is nobody else's."""
    context, result = answer.context, as_object(answer.result)
    if not context.grants.sessions:
        text = f"`{answer.method}` may not be answered; hint: `sessions=own` grants it"
        yield Violation(OWN_SESSIONS, text)
    named = member(result, "sessionId")
    if answer.method in _MAKES_ONE:
        if not isinstance(named, str) or named == "" or named in context.sessions:
            text = "a new session needs an id that no session has"
            yield Violation(SESSION_TARGET, text, "/sessionId")
    elif named is not ABSENT and named != _asked(answer):
        yield Violation(SESSION_TARGET, "a session keeps its id", "/sessionId")


def _asked(answer: Answer) -> Json | Absent:
    """The session that a request is about."""
    try:
        return member(as_object(read(answer.request).value), "sessionId")
    except Unreadable:
        return ABSENT
