"""The account of a service's call outside of the chain, in few words, for an audit."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.services import where_of

_FAILED: Final = frozenset(
    {
        "conflict", "internal", "io", "no-root", "not-a-file", "not-a-folder", "not-found",
        "storage", "timeout", "unreachable",
    }
)  # fmt: skip
"""Reasons of errors by which a call that was allowed came to nothing. All others refuse it."""
_READS: Final = frozenset({"files/read", "files/list"})
"""Calls whose results are counted, and not their params."""


class _Data(msgspec.Struct, frozen=True):
    reason: str = ""


class _Error(msgspec.Struct):
    message: str = ""
    data: _Data = _Data()


class _Result(msgspec.Struct):
    url: str = ""


def account(
    call: str, params: bytes | None, result: bytes | None, error: bytes | None
) -> tuple[str, int, str, str]:
    """The target of a call, its bytes, its outcome (`allowed`, `refused` or `failed`), and why."""
    where = where_of(call, Raw(params)) if params is not None else ""
    size = len((result if call in _READS else params) or b"")
    outcome, why = "allowed", ""
    if error is not None:
        wrong = json_text.decode(error, type=_Error)
        outcome = "failed" if wrong.data.reason in _FAILED else "refused"
        why = wrong.message.partition("\n")[0]
    if call == "fetch":
        ended = json_text.decode(result, type=_Result).url if result is not None else ""
        where = where if ended in ("", where) else f"{where}, redirected to {ended}"
    return where, size, outcome, why
