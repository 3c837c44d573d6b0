"""Set-ups and lists of sessions: an agent's folders and servers, and its reports about these."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.command_lists import MEMBER as COMMANDS
from conductor.core.guards.paths import inside, is_absolute
from conductor.core.guards.reading import (
    ABSENT,
    Json,
    Object,
    as_object,
    is_subsequence,
    member,
    token,
    value_of,
)
from conductor.core.guards.rules import (
    Attempt,
    Breaches,
    Context,
    not_originated,
    relayed_only,
    stays,
)
from conductor.core.guards.servers import HOLDER, LISTS
from conductor.core.policy.key_table import SESSION_NAMES, SETUP

_ID: Final = SESSION_NAMES[0]
SYSTEM_PROMPT: Final = "systemPrompt"
_ELSEWHERE: Final = frozenset({*SESSION_NAMES, *LISTS, SYSTEM_PROMPT, "_meta"})
"""Members of a set-up that other guards are about."""
_FOLDERS: Final = ("cwd", "additionalDirectories")
_LONGEST: Final = 4096
"""Characters of a folder: to look where a longer path leads takes long."""
_PROPOSED: Final = frozenset({*_ELSEWHERE, *_FOLDERS}) - {"_meta"}
_ENTERS: Final = (SETUP[1], SETUP[2])
"""The set-ups that go on with a session; a fork leaves the forked session as it is."""
_NEW: Final = (SETUP[0], SETUP[3])
"""The set-ups with a result that names a new session."""
_LISTED_ELSEWHERE: Final = frozenset({*SESSION_NAMES, "modes", "models", "configOptions", "_meta"})
"""Members of a set-up's result that other guards are about; commands too, as a list."""


# -- set-ups -------------------------------------------------------------------------------------


def settled(attempt: Attempt) -> Breaches:
    """The client's set-up stays on its way, but for servers that are added."""
    old, new = map(_without_servers, (attempt.old, attempt.new))
    yield from stays(f"`{attempt.method}`", old, new, _ELSEWHERE)


def prompt_kept(attempt: Attempt) -> Breaches:
    """The system prompt of a set-up stays, and a component's own has none."""
    yield from _member_kept(attempt, SYSTEM_PROMPT)


def meta_kept(attempt: Attempt) -> Breaches:
    """`_meta` of a set-up stays."""
    yield from _member_kept(attempt, "_meta")


def _member_kept(attempt: Attempt, name: str) -> Breaches:
    old, new = ({name: held[name]} if name in held else {} for held in (attempt.old, attempt.new))
    yield from stays(f"`{attempt.method}`", old, new)


def _without_servers(params: Object) -> Object:
    """A set-up without the servers in `tools`, where the oldest generation keeps them; without
    `tools` where nothing else is in it."""
    tools = params.get(HOLDER)
    if not isinstance(tools, dict):
        return params
    rest = {name: held for name, held in params.items() if name != HOLDER}
    others: Object = {name: held for name, held in tools.items() if name not in LISTS}
    return {**rest, HOLDER: others} if others else rest


def opened(attempt: Attempt) -> Breaches:
    """A set-up of a component's own is granted, of its own session, and in the client's folders."""
    context, params = attempt.context, attempt.new
    if not context.grants.sessions:
        yield from not_originated(attempt)
    session = member(params, _ID)
    # A fork copies the whole conversation. The component may read the conversation of a user's
    # session only while it holds a prompt there.
    forks = frozenset[str]() if attempt.method in _ENTERS else context.prompted
    may = isinstance(session, str) and (session in context.own_sessions or session in forks)
    if attempt.method != SETUP[0] and not may:
        text = f"`{attempt.method}` of a component's own is of a session that it has opened itself"
        yield f"{text}\nhint: `session/fork` may be of one whose prompt it holds", token(_ID)
    if "cwd" not in params:
        yield "a session of a component's own needs a working directory", "/cwd"
    for name in _FOLDERS:
        held = params.get(name)
        folders = held if isinstance(held, list) else [] if held is None else [held]
        if not all(
            isinstance(folder, str)
            and _opens(folder)
            and is_absolute(folder)
            and inside(folder, context.folders)
            for folder in folders
        ):
            yield (
                "a session of a component's own works in folders of the client's sessions",
                token(name),
            )


def _opens(folder: str) -> bool:
    """Whether a system can open this path: it is not too long, and holds no half of an emoji."""
    return len(folder) <= _LONGEST and not any("\ud800" <= one <= "\udfff" for one in folder)


def ended(attempt: Attempt) -> Breaches:
    """A component ends sessions that it has opened itself."""
    if not attempt.context.own:
        yield from not_originated(attempt)


def plainly_opened(attempt: Attempt) -> Breaches:
    """A set-up of a component's own has no members that some agent may obey."""
    opens = attempt.method == SETUP[0]  # which names no session: an agent may take that for its id
    for name in attempt.new:
        if name not in _PROPOSED or (opens and name in SESSION_NAMES):
            text = f"{name!a:.80} may not be in a session's set-up of a component's own"
            yield text, token(name)


def result_kept(attempt: Attempt) -> Breaches:
    """The result of a set-up stays as the agent gave it, but for additions that other guards
    allow."""
    if attempt.before is ABSENT or not _both_objects(attempt):
        return
    commands = isinstance(attempt.new.get(COMMANDS), list)
    elsewhere = {*_LISTED_ELSEWHERE, COMMANDS} if commands else _LISTED_ELSEWHERE
    yield from stays("a session as the agent tells of it", attempt.old, attempt.new, elsewhere)


def _both_objects(attempt: Attempt) -> bool:
    return isinstance(attempt.before, dict) and isinstance(attempt.after, dict)


def granted(attempt: Attempt) -> Breaches:
    """A component answers a set-up by itself only where it may have sessions of its own."""
    if attempt.before is ABSENT and not attempt.context.grants.sessions:
        yield f"`{attempt.method}` may not be answered; hint: `prompt:unseen` grants it", ""


def session_named(attempt: Attempt) -> Breaches:
    """The result of a set-up stays about that session; a component's own names a new session."""
    if attempt.before is not ABSENT:
        if not _both_objects(attempt) and attempt.before != attempt.after:
            yield f"the result of `{attempt.method}` may not be replaced by or for no object", ""
        return
    session = member(attempt.new, _ID)
    if attempt.method in _NEW:
        if not isinstance(session, str) or session == "" or session in attempt.context.sessions:
            yield "a new session needs an id that no session has", token(_ID)
    elif session is not ABSENT and session != member(as_object(value_of(attempt.request)), _ID):
        yield "a session keeps its id", token(_ID)


# -- lists ---------------------------------------------------------------------------------------

_ENTRIES: Final = "sessions"


def shortened(attempt: Attempt) -> Breaches:
    """Entries of a list of sessions may vanish; with `prompt:unseen` own sessions may be added."""
    if not _both_objects(attempt):
        yield from relayed_only(attempt)
        return
    elsewhere = (_ENTRIES, "_meta", *SESSION_NAMES)
    yield from stays("a list of sessions", attempt.old, attempt.new, elsewhere)
    whole, kept = member(attempt.old, _ENTRIES), member(attempt.new, _ENTRIES)
    if whole == kept:
        return
    if not isinstance(whole, list) or not isinstance(kept, list):
        yield "a list of sessions must stay a list", token(_ENTRIES)
        return
    taken = {id_ for id_ in map(_id, whole) if isinstance(id_, str)}
    rest = [entry for entry in kept if not _is_own(attempt.context, entry, taken)]
    if not is_subsequence(rest, whole):
        text = "entries of a list of sessions may be removed, not added, changed or moved"
        yield text, token(_ENTRIES)


def _id(entry: Json) -> object:
    return as_object(entry).get(_ID, ABSENT)


def _is_own(context: Context, entry: Json, taken: set[str]) -> bool:
    """Whether an entry is one of a component's own sessions."""
    held, session = as_object(entry), _id(entry)
    if not context.grants.sessions or not isinstance(session, str) or session in taken:
        return False
    more = held.get("additionalDirectories")
    shown = [held.get("cwd"), *(more if isinstance(more, list) else [])]
    folders = context.own_sessions.get(session)
    return folders is not None and all(folder is None or folder in folders for folder in shown)
