"""Prompts: the content of their blocks, and how a component may add to it and change it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from conductor.core.guards.every_message import is_namespaced, no_meta_key
from conductor.core.guards.names import lookalike
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    as_object,
    canonical,
    changes,
    member,
    pairs,
    token,
)
from conductor.core.guards.rules import Attempt, Breaches, stays
from conductor.core.policy.key_table import SESSION_NAMES
from conductor.patterns import lazy_pattern

_OWN: Final = frozenset({"_meta", *SESSION_NAMES, "prompt"})
_RESULT: Final = ("stopReason", "messageId")
_CANCELLED: Final = "cancelled"
_BLOCKS: Final = ("type", "text", "resource", "uri", "annotations", "_meta")
_RESOURCES: Final = ("text", "blob", "uri", "_meta")
"""Members of a block, and of the resource in it, that no other member may be mistaken for."""
SKILL: Final = "skill"
"""The type of a block by which a user calls a skill of the agent's."""
_SKILL: Final = frozenset({"type", "name", "_meta"})
_TYPES: Final = ("text", "image", "audio", "resource_link", "resource", SKILL)
"""The types of blocks of both versions of ACP; nobody knows the meaning of others to an agent."""

UNSEEN: Final = (
    r"\s\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U000e0000-\U000e0fff\ud800-\udfff"
)
"""Invisible characters, as a regular expression has them between brackets."""

# Both alphabets of base64 as one, without the padding.
_BASE64: Final = str.maketrans("-_", "+/", "\t\n\r =")
_textual = lazy_pattern(r"text|json|xml|ya?ml|script", re.IGNORECASE)


# -- the content of blocks -------------------------------------------------------------------------


def blob_bytes(blob: Json | Absent) -> bytes | None:
    """The bytes of a blob; None: it is no base64, and every program would read it differently."""
    if not isinstance(blob, str):
        return None
    bare = blob.translate(_BASE64)
    if "=" in blob.rstrip("=\t\n\r "):
        return None
    import base64  # only for a block with a blob: an editor waits for the start

    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:  # no base64, no ASCII
        return None


def blob_text(blob: Json, holder: Json) -> str:
    """The text that a member `blob` of `holder` holds; empty if it holds none.

    Bytes that no text has show that it is none, unless its type says that it is one.
    """
    text = (blob_bytes(blob) or b"").decode(errors="replace")
    odd = "\0" in text and "\ufffd" in text
    return "" if odd and _textual.search(str(as_object(holder).get("mimeType"))) is None else text


def blocks(attempt: Attempt) -> tuple[list[Json], list[Json]]:
    """The blocks of a prompt that was received, and of the one that is sent, if they differ."""
    before, after = member(attempt.old, "prompt"), member(attempt.new, "prompt")
    if before == after or not isinstance(after, list):
        return [], []
    return (before if isinstance(before, list) else []), after


# -- blocks that stay in a prompt ------------------------------------------------------------------


def options_kept(attempt: Attempt) -> Breaches:
    """The members beside a prompt's blocks stay; blocks that are not as before have the form of
    ACP."""
    yield from stays("a prompt", attempt.old, attempt.new, _OWN)
    old, new = member(attempt.old, "prompt"), member(attempt.new, "prompt")
    if old != new and not isinstance(new, list):
        yield "a prompt must stay a list of blocks", "/prompt"
    before, after = blocks(attempt)
    odd = [(block, wrong) for at, block in enumerate(after) if (wrong := [*_shape(block, at)])]
    whole = {*map(canonical, before)} if odd else set()
    changed = [(block, wrong) for block, wrong in odd if canonical(block) not in whole]
    frames = Counter(map(_frame, before)) if changed else Counter()
    frames.subtract(_frame(block) for block, _ in odd if canonical(block) in whole)
    for block, wrong in changed:
        frames[frame := _frame(block)] -= 1
        if frames[frame] < 0:
            yield from wrong


def _frame(block: Json) -> str:
    """The members around the text of a block: if only the text changes, it is as odd as it was."""
    held = as_object(block)
    return canonical({**held, "text": ""} if isinstance(held.get("text"), str) else block)


def _shape(block: Json, at: int) -> Breaches:
    """A block that no user made has the form of ACP."""
    if not isinstance(block, dict):
        text = "a block of a prompt must stay an object"
        yield text, f"/prompt/{at}"
        return
    if not isinstance(block.get("text", ""), str):
        yield "the text of a block must stay a text", f"/prompt/{at}/text"
    if block.get("type") not in _TYPES:
        text = "a block of a prompt may only be added, or changed, as one of a type of ACP's"
        yield text, f"/prompt/{at}/type"
    resource = block.get("resource", {})
    held = as_object(resource)
    if not (
        isinstance(resource, dict)
        and isinstance(held.get("text", ""), str)
        and ("blob" not in held or blob_bytes(held["blob"]) is not None)
    ):
        text = "the resource of a block is an object with a text, or with a blob in base64"
        yield text, f"/prompt/{at}/resource"
    if block.get("type") == SKILL and not (
        _SKILL.issuperset(block) and isinstance(block.get("name"), str) and block["name"] != ""
    ):
        yield "a block that calls a skill has its name, and nothing else", f"/prompt/{at}"
    odd = lookalike(block, _BLOCKS) or lookalike(held, _RESOURCES)
    if odd is not None:
        yield f"member {odd!a:.80} of a block could be taken for another", f"/prompt/{at}"


def metas_kept(attempt: Attempt) -> Breaches:
    """Blocks that are not as before get no `_meta` that agents obey, nor other values under keys
    that were there."""
    before, after = blocks(attempt)
    held = [(at, *item) for at, block in enumerate(after) for item in _metas(block)]
    known = {item for block in before for item in _metas(block)} if held else set()
    taken = {name.casefold() for name, _ in known}
    for at, name, value in held:
        if (name, value) in known:
            continue
        if not is_namespaced(name):
            yield no_meta_key(name), f"/prompt/{at}"
        elif name.casefold() in taken:
            yield f"`_meta` key {name!a:.80} of a block is somebody else's", f"/prompt/{at}"


def _metas(block: Json) -> list[tuple[str, str]]:
    """The `_meta` keys of a block, and of the resource in it, with their values."""
    holders = [block, *(value for name, value in pairs(block) if name == "resource")]
    metas = (value for holder in holders for name, value in pairs(holder) if name == "_meta")
    return [(name, canonical(value)) for meta in metas for name, value in pairs(meta)]


def ended(attempt: Attempt) -> Breaches:
    """The result of a prompt has the agent's stop reason or another one, but for cancelled turns. A
    result of a component's own has a stop reason or the id of a message, and no more."""
    own = attempt.before is ABSENT
    for name, was, now in changes(attempt.old, attempt.new):
        stops = name == "stopReason" and _CANCELLED not in (was, now)
        fits = isinstance(now, str) and (stops or (own and name in _RESULT))
        # Other guards keep the session and `_meta` of a result that came back.
        elsewhere = name == "_meta" or (name in SESSION_NAMES and not own)
        if not fits and not elsewhere:
            yield f"{name!a:.80} of a prompt's result may not be changed or made up", token(name)
