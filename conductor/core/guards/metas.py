"""Words in `_meta`, which some clients show: those of a terminal. `texts` lets them be changed.

Every rule then sees them as they were: so a change of them breaks none, and what else is in a
`_meta` stays as the rules have it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.guards.names import PROMPT
from conductor.core.guards.reading import Absent, Document, Json, Object, as_object, member
from conductor.core.guards.updates import CALLS, FINISHED, NOTICES
from conductor.core.policy.key_table import TEXT_KINDS, UPDATE

_META: Final = "_meta"
_TERMINAL: Final = "terminal_output"
"""What a terminal has written since the last update: an agent runs it, and the client shows it."""
_WORDY: Final = frozenset((*TEXT_KINDS, *NOTICES))


def as_given(method: str, given: Document, sent: Document) -> Document:
    """What a component passes on, with those words as they were that it may change."""
    before, after = given.value, sent.value
    if method == PROMPT:
        return msgspec.structs.replace(sent, value=_restored(before, after))
    if method != UPDATE:
        return sent
    update = as_object(member(as_object(before), "update"))
    kind = update.get("sessionUpdate")
    if kind in _WORDY or (kind in CALLS and update.get("status") in FINISHED):
        return msgspec.structs.replace(sent, value=_restored(before, after))
    if kind in CALLS:
        # The user may still have to approve of the call: of it all stays but what a terminal shows.
        path = ("update", _META, _TERMINAL, "data")
        return msgspec.structs.replace(sent, value=_restored_at(before, after, path))
    return sent


def _restored(before: Json | Absent, after: Json, *, inside: bool = False) -> Json:
    """A value with the words in each `_meta` as they were, where the two are alike in form.

    `inside`: whether it stands in a `_meta` itself.
    """
    if inside and isinstance(before, str) and isinstance(after, str):
        return before
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            name: _restored(member(before, name), held, inside=inside or name == _META)
            for name, held in after.items()
        }
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        both = zip(before, after, strict=True)
        return [_restored(was, now, inside=inside) for was, now in both]
    return after


def _restored_at(before: Json | Absent, after: Json, path: tuple[str, ...]) -> Json:
    """A value with the one text behind these members as it was."""
    if not path:
        return before if isinstance(before, str) and isinstance(after, str) else after
    name, rest = path[0], path[1:]
    if not isinstance(before, dict) or not isinstance(after, dict) or name not in after:
        return after
    changed: Object = {**after, name: _restored_at(member(before, name), after[name], rest)}
    return changed
