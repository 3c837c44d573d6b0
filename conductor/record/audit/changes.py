"""The record of a change: which component, which message, and how it differs, as a JSON diff.

Digests of the payloads before and after stand in every record. The diff is over the whole texts,
and shown without secrets and without long values (docs/log.md, "Audits").
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import Changed
from conductor.core.json_text import too_many_values
from conductor.core.text_pairs import ends
from conductor.record import diff, exact_json
from conductor.record.diff import NOTHING, Operation
from conductor.record.exact_json import Json, Nothing, Repeated
from conductor.run.report_lines import Sized, sized
from conductor.spec.redaction import REDACTED, clean_id, clean_name, redacted

MOST_TEXT: Final = 4_000
"""Characters of a value that are written out."""

_CUT_TEXT: Final = 1_000
"""Characters that are left of a longer value."""

MOST_OPERATIONS: Final = 64
_MOST_COMPARED: Final = 4 * 1024 * 1024
"""The most bytes of a change that are compared, before and after together."""

_MOST_VALUES: Final = 20_000
"""The most values that are compared, before and after each; of more there are digests only."""

_MARK: Final = exact_json.parse(REDACTED)


def _sized(raw: bytes | None) -> Sized | None:
    return None if raw is None else sized(raw)


def described(
    changed: Changed,
    content: str,
    before: Sized | None = None,
    after: Sized | None = None,
) -> dict[str, Any] | None:
    """The members of the record; None if only the spelling differs.

    `content` is `redacted`, `all`, or `none` for digests only. `before` and `after` are given for
    payloads that `changed` lacks because they were too large to be reported.
    """
    missing = before is not None or after is not None
    comparison = None if missing else _compared(changed)
    differs = comparison is None or comparison.operations or comparison.repeated
    if not differs and changed.change != "reordered":
        return None
    members: dict[str, Any] = {
        "component": changed.peer,
        "change": changed.change,
        "kind": changed.kind,
        "direction": changed.direction,
        "method": _name(changed.method, content),
        "session": None if changed.session is None else _name(changed.session, content),
        "number": changed.number,
        "source": changed.source,
        "source_id": _id(changed.source_id, content),
        "target": changed.target,
        "target_id": _id(changed.target_id, content),
        "before": before or _sized(changed.before),
        "after": after or _sized(changed.after),
    }
    if content != "none":
        members["diff"] = None
        if comparison is not None:
            with contextlib.suppress(MemoryError, RecursionError):
                members |= comparison.shown(changed, content)
    return members


class _Comparison(msgspec.Struct, frozen=True):
    operations: list[Operation]
    repeated: list[diff.Path]

    def shown(self, changed: Changed, content: str) -> dict[str, Any]:
        """The diff as it is written."""
        before = after = None
        if content != "all":
            method = changed.method if changed.kind != "response" else None
            before, after = _clean(changed.before, method), _clean(changed.after, method)
        shown = self.operations[:MOST_OPERATIONS]
        members: dict[str, Any] = {
            "diff": [
                {"op": each.op, "pointer": _pointer(each.path, content)}
                | _operation(each, before, after)
                for each in shown
            ]
        }
        if len(shown) < len(self.operations):
            members["more"] = len(self.operations) - len(shown)
        if self.repeated:
            paths = self.repeated[:MOST_OPERATIONS]
            members["repeated"] = [_pointer(path, content) for path in paths]
        return members


def _compared(changed: Changed) -> _Comparison | None:
    """The differences; None if the payloads are too large, or no JSON that can be compared."""
    texts = (changed.before or b"", changed.after or b"")
    if sum(map(len, texts)) > _MOST_COMPARED:
        return None
    if any(too_many_values(text, _MOST_VALUES) for text in texts):
        return None
    try:
        before, after = _parsed(changed.before), _parsed(changed.after)
        repeated = diff.repeated(before) + diff.repeated(after)
        return _Comparison(diff.diff(before, after), list(dict.fromkeys(repeated)))
    except (ValueError, RecursionError, MemoryError):
        return None


def _parsed(raw: bytes | None) -> Json:
    return NOTHING if raw is None else exact_json.parse(raw)


def _clean(raw: bytes | None, method: str | None) -> Json:
    return NOTHING if raw is None else exact_json.parse(redacted(raw, method))


def _operation(operation: Operation, before: Json, after: Json) -> dict[str, Any]:
    """The values of one operation as they are written; `before` and `after` are the whole texts
    without secrets, or None if secrets may be shown."""
    old, new = operation.before, operation.after
    if before is not None:
        old = _without_secrets(old, before, operation.was)
    if after is not None:
        new = _without_secrets(new, after, operation.now)
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > MOST_TEXT:
        return _within(old, new)
    return _value("before", old) | _value("after", new)


def _without_secrets(value: Json, cleaned: Json, path: diff.Path) -> Json:
    """`value` as it stands in the text without secrets."""
    if isinstance(value, Nothing):
        return value
    shown = diff.at(cleaned, _clean_path(path))
    if isinstance(value, Repeated) and not isinstance(shown, Repeated):
        # Redaction keeps one of several members with the same name: show none of their values.
        return Repeated((name, _MARK) for name, _ in value)
    return shown


def _within(old: str, new: str) -> dict[str, Any]:
    """A change inside a long text: its place, the removed text and the added text."""
    head, tail = ends(old, new)
    return {
        "at": head,
        "before_digest": sized(_encoded(old)),
        "after_digest": sized(_encoded(new)),
        **_value("removed", old[head : len(old) - tail]),
        **_value("added", new[head : len(new) - tail]),
    }


def _value(name: str, value: Json) -> dict[str, Any]:
    """A value under a name. A long value is cut, with its digest and size beside it."""
    if isinstance(value, Nothing):
        return {}
    text = exact_json.encode(value)
    if len(text) <= MOST_TEXT:
        return {name: Raw(text)}
    whole = text
    if isinstance(value, str):
        whole = _encoded(value)
        start: str = value[:_CUT_TEXT]
    else:
        start = text.decode()[:_CUT_TEXT]
    return {f"{name}_cut": Raw(exact_json.encode(start + "…")), f"{name}_digest": sized(whole)}


def _clean_path(path: diff.Path) -> diff.Path:
    """A path in the text without secrets."""
    return tuple(clean_name(step) if isinstance(step, str) else step for step in path)


def _pointer(path: diff.Path, content: str) -> str:
    path = path if content == "all" else _clean_path(path)
    short = [step[:MOST_TEXT] if isinstance(step, str) else step for step in path]
    return _writable(diff.pointer(tuple(short)))


def _id(raw: str | None, content: str) -> Raw | None:
    if raw is None:
        return None
    return Raw(raw.encode() if content == "all" else clean_id(raw.encode()))


def _name(name: str, content: str) -> str:
    return _writable(name if content == "all" else clean_name(name))


def _encoded(text: str) -> bytes:
    return text.encode(errors="backslashreplace")


def _writable(text: str) -> str:
    """`text`, such that it can be written, and not too long."""
    return _encoded(text[:MOST_TEXT]).decode()
