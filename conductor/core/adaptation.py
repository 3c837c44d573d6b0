"""Words for blocks that an agent does not take, and updates for an agent that does not stream.

An agent's answer to `initialize` names the types of blocks that it takes in prompts, besides text
and links. A block of another type, say from a component that does not look, becomes a text block
that describes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.effects import Adapted
from conductor.core.json_text import elements, member_at, read_members, text_of, write_members
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import heading
from conductor.core.policy.key_table import UPDATE, update
from conductor.core.roles.initialize_params import version_of
from conductor.core.state import Peer
from conductor.errors import counted
from conductor.patterns import lazy_pattern

if TYPE_CHECKING:
    from conductor.core.parts import Parts

_CAPABILITIES: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
"""The prompt capability that each type of block needs; all other types pass."""
_MOST_REPORTED: Final = 1024
"""The most pairs of a session and a type that are remembered of one agent; beyond these, none
counts as the first."""
_WORDS: Final = frozenset(map(update, ("agent_message_chunk", "agent_message")))
_WHY: Final = "this agent takes none in prompts"
_KEPT: Final = ("annotations", "_meta")

# A name that no agent takes for a path, a mention or the end of the words around it.
_uri: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:[!-Z\\^-~]{1,1000}")
_mime: Final = lazy_pattern(r"[\w.+-]{1,80}/[\w.+-]{1,80}", re.ASCII)


class _Block(msgspec.Struct):
    type: str = ""


class _Prompt(msgspec.Struct):
    prompt: list[_Block] = []


_types: Final = json_text.Decoder(_Prompt)


def untaken(result: bytes) -> frozenset[str]:
    """The types of blocks that an agent does not take in prompts, by its answer to `initialize`."""
    if version_of(read_members(result) or {}) == 2:
        taken = read_members(member_at(result, "capabilities", "session", "prompt")) or {}
        has = {name for name, value in taken.items() if bytes(value) not in (b"null", b"false")}
    else:
        taken = read_members(member_at(result, "agentCapabilities", "promptCapabilities")) or {}
        has = {name for name, value in taken.items() if bytes(value) == b"true"}
    return frozenset(type_ for type_, name in _CAPABILITIES.items() if name not in has)


def adapted(params: Raw, untaken: frozenset[str]) -> tuple[Raw, tuple[str, ...]]:
    """The params of a prompt with words for the blocks of the types `untaken`, and the types that
    were replaced. All else in the prompt stays as it is."""
    read = _types.find(params)
    if read is not None and all(block.type not in untaken for block in read.prompt):
        return params, ()  # nearly all
    members = read_members(params) or {}
    blocks = elements(members.get("prompt"))
    replaced: dict[str, None] = {}
    for at, block in enumerate(blocks):
        type_ = text_of(member_at(block, "type"))
        words = in_words(block, type_, _WHY) if type_ in untaken else None
        if words is not None:
            blocks[at] = words
            replaced[type_] = None
    if not replaced:
        return params, ()
    members["prompt"] = Raw(json_text.encode(blocks))
    return write_members(members), tuple(replaced)


def in_words(block: Raw, type_: str, why: str) -> Raw:
    """A text block that stands for `block`. `why`: the reason, told for a block without a text."""
    members = read_members(block) or {}
    held = (read_members(members.get("resource")) or {}) if type_ == "resource" else members
    uri, mime = text_of(held.get("uri")), text_of(held.get("mimeType"))
    facts = [
        fact for fact, fits in ((mime, _mime.fullmatch(mime)), (uri, _uri.fullmatch(uri))) if fits
    ]
    if type_ == "resource" and bytes(held.get("text", b"")).startswith(b'"'):
        head, tail = " ".join((type_, *facts)), bytes(held["text"])[1:]
        text = b'"[%b]\\n%b' % (json_text.utf8(head), tail)
    else:
        data = bytes(held.get("blob" if type_ == "resource" else "data", b""))
        size = max(0, len(data) - 2 - data[-4:].count(b"=")) * 3 // 4
        facts.append(counted(size, "byte"))
        said = f"[{type_}: {', '.join(facts)}; left out, since {why}]"
        text = json_text.encode(said)
    kept: dict[str, Raw] = {name: members[name] for name in _KEPT if name in members}
    return write_members({"type": Raw(b'"text"'), "text": Raw(text), **kept})


def adapt(parts: Parts, peer: Peer, params: Raw, session: str | None) -> Raw:
    """The params of a prompt as the agent gets them. Reports blocks in place of which it gets
    words."""
    params, types = adapted(params, peer.untaken)
    for type_ in types:
        kind = session or "", type_
        again = kind in peer.adapted or len(peer.adapted) >= _MOST_REPORTED
        peer.adapted.add(kind)
        text = f"{peer.label} takes no blocks of the type `{type_}` in prompts: it gets words"
        parts.exchange.emit(Adapted(peer.name, kind[0], text, again))
    return params


# -- agents that do not stream ---------------------------------------------------------------------


def spoke(peer: Peer, params: Params) -> None:
    """An update has come from an agent that has not streamed any words yet."""
    if heading(UPDATE, params).key in _WORDS:
        peer.streams = True


def words_of(session: str, result: Raw) -> list[Raw]:
    """The params of the updates that an agent has not sent for a prompt, but has put into the
    result: `content`, a text, a block or a list of blocks."""
    content = member_at(result, "content")
    if content is None:
        return []  # nearly all
    updates = []
    for block in elements(content) or [content]:
        is_text = bytes(block).startswith(b'"')
        shown = write_members({"type": Raw(b'"text"'), "text": block}) if is_text else block
        if text_of(member_at(shown, "type")):
            chunk = {"sessionUpdate": "agent_message_chunk", "content": shown}
            params = {"sessionId": session, "update": chunk}
            updates.append(Raw(json_text.encode(params)))
    return updates
