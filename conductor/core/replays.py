"""The client gets its prompts and titles without the additions of components.

An agent keeps prompts as it got them. When the client loads a session again, the agent shows them
as the user's messages, and many agents make a title of a prompt. So the conductor next to the
client compares each prompt with the one that the agent got, has the shell keep a record of the
difference, and looks for it in later messages of the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, UnsetType

from conductor.core import additions, json_text
from conductor.core.additions import Kept, Prompt, Replay, Span, Titles, Unread
from conductor.core.effects import Keep, Recall
from conductor.core.json_text import (
    elements,
    holds,
    member_at,
    read_members,
    text_of,
    write_members,
)
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import heading, read_message, session_of
from conductor.core.policy.key_table import LIST, PROMPT, SETUP, STATE_KIND, UPDATE, update
from conductor.core.session import Beginning, Session
from conductor.core.state import Flow, Lane, Next, Replayed, Source, Visit, Waiting

_NEW, *_REPLAYING, _FORK = SETUP
_CHUNK: Final = update("user_message_chunk")
_MESSAGE: Final = update("user_message")
_INFO: Final = update("session_info_update")
_INFO_KIND: Final = b"session_info_update"
_STATE: Final = update(STATE_KIND)
_MOST_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of updates that wait for the rest of a message; beyond these, the updates go
on."""


class _Said(NamedTuple):
    """An update with words of the user's, as it came."""

    params: Raw
    source: Source
    blocks: list[Raw]
    texts: list[str]
    """The bare text of each block; empty for a block without a text."""


class _Session(Replayed):
    """The prompts that an agent repeats in one session now."""

    def __init__(self, replay: Replay, *, loads: bool) -> None:
        self.replay = replay
        self.loads = loads
        """Whether the client loads it; else the agent repeats a prompt that it has just got."""
        self.said: list[_Said] = []
        """The updates that wait for the rest of the message."""
        self.bytes = self.size = 0
        """The bytes of their params, and the characters of their bare texts."""


class _Recalled(Replayed, msgspec.Struct):
    """The records of a session that is to be copied, or of all sessions."""

    records: Sequence[tuple[str, bytes]]


class Replays(Part):
    """The part of a router that takes additions of components out of prompts and titles again."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._repeating: dict[str, _Session] = {}
        """The sessions in which prompts are repeated, by the client's ids."""
        self._waiting: dict[int, tuple[Visit, Waiting]] = {}
        """Requests of the client's that wait for records."""
        self._last = 0

    # -- prompts -------------------------------------------------------------------------------

    def client_asks(self, lane: Lane, method: str, params: Params, pending: Visit) -> bool:
        """Whether a request of the client's goes on only once the records are there."""
        session = None if method == LIST else pending.names
        if method == _NEW:
            pending.followers = (*pending.followers, Replayed())
        elif method == PROMPT and session is not None and self.keeps(session):
            self._exchange.sessions.at(session).asked[pending.flow] = params
        elif method == LIST or (method in (*_REPLAYING, _FORK) and session is not None):
            below = None if session is None else self._below(session)
            self._last += 1
            waiting = Waiting(Next.SENT, lane, pending, read_message(method, params))
            self._waiting[self._last] = pending, waiting
            self._exchange.emit(Recall(self._agent, self._last, below))
            return True
        return False

    @property
    def _agent(self) -> str:
        return self._exchange.topology.agent.name

    def keeps(self, session: str | None) -> bool:
        """Whether a record of a prompt is kept: if no component stands before the agent, only the
        beginning of a session has records."""
        alone = len(self._exchange.topology.components) == 1
        return not alone or self._exchange.sessions.get(session).beginning is not Beginning.OVER

    def _below(self, session: str) -> str:
        """The agent's id of a session of the client's."""
        return self._parts.names.innermost(self._exchange.upstream.p, session)

    def answered(self, asked: Replayed, pending: Visit, member: bytes, body: bytes) -> None:
        """The client has a new session, if the agent has granted it."""
        session = session_of(Raw(body)) if member == b"result" else None
        if session is None:
            return
        if isinstance(asked, _Recalled):
            self._forked(session, additions.read(record for _, record in asked.records))
            return
        known = self._exchange.sessions.at(session)
        known.beginning, known.titles = Beginning.NEW, None

    def agent_gets(self, lane: Lane, pending: Visit, sent: Raw, got: Raw) -> None:
        """The agent gets a prompt. `sent`: its params; `got`: the same, with words for blocks that
        the agent does not take."""
        below = pending.session or ""
        if not self.keeps(below):
            return  # alone, the agent has the same id for it as the client
        session, by = self._parts.names.outermost(lane, below), pending.flow.by
        if by and not self._exchange.sessions.get(session).is_clients:
            return
        known = self._exchange.sessions.at(session)
        users = None if by else _users(known, pending.flow, sent)
        if users == sent:
            users = sent
        first, worded = known.beginning is Beginning.NEW, known.beginning is Beginning.WORDED
        if first or worded:
            known.beginning = Beginning.WORDED if by else Beginning.OVER
        prompt = Prompt(Unread(users, sent, got, first, worded))
        self._exchange.emit(Keep(self._agent, below, prompt))
        if users is sent and not worded:
            return  # nothing was added
        self._remember(session, prompt)
        kept = prompt.read() if self._exchange.version == 2 else None
        if kept is not None and kept.added:
            now = self._repeating.setdefault(session, _Session(Replay(), loads=False))
            now.replay.expect(kept)

    def _remember(self, session: str, prompt: Prompt) -> None:
        """Remembers a prompt, since a title may be made of its additions from now on."""
        known = self._exchange.sessions.at(session)
        known.titles = known.titles or Titles()
        known.titles.add(prompt)
        self._exchange.watch(mends=True)

    # -- records -------------------------------------------------------------------------------

    def recalled(self, token: int, records: Sequence[tuple[str, bytes]]) -> None:
        """A `Recall` effect was performed."""
        pending, waiting = self._waiting.pop(token)
        method, session = waiting.message.method, pending.names
        if not pending.wanted:
            pass
        elif method == LIST or session is None:
            pending.rewriters = (*pending.rewriters, _Recalled(records))
        elif method == _FORK:
            pending.followers = (*pending.followers, _Recalled(records))
        elif prompts := additions.read(record for _, record in records):
            self._loads(session, prompts, pending)
        self._parts.waits.go_on(waiting)

    def _forked(self, session: str, prompts: list[Kept]) -> None:
        """The client has a copy of a session."""
        for at, prompt in enumerate(prompts):
            kept = Prompt(None, msgspec.structs.replace(prompt, first=not at))
            self._exchange.emit(Keep(self._agent, self._below(session), kept))
            self._remember(session, kept)

    def _loads(self, session: str, prompts: list[Kept], pending: Visit) -> None:
        """The client loads a session: until that request is answered, its agent repeats prompts."""
        for prompt in prompts:
            self._remember(session, Prompt(None, prompt))
        self.comes(session)
        now = self._repeating[session] = _Session(Replay(prompts), loads=True)
        self._exchange.watch(mends=True)
        pending.rewriters = (*pending.rewriters, now)

    def rewritten(self, asked: Replayed, pending: Visit, member: bytes, body: bytes) -> bytes:
        """An answer, as the client gets it: a list of sessions may have other titles. After the
        answer for a session that is loaded, the agent repeats no more prompts of it."""
        if isinstance(asked, _Recalled):
            return self._listed(additions.titles(asked.records), member, body)
        if self._repeating.get(pending.names or "") is asked:
            del self._repeating[pending.names or ""]
        return body

    def _listed(self, titles: dict[str, Titles], member: bytes, body: bytes) -> bytes:
        """A list of sessions, with their titles as the client is to have them."""
        members = (read_members(body) if member == b"result" else None) or {}
        entries = elements(members.get("sessions", Raw(b"[]")))
        shown: list[Raw] = []
        for entry in entries:
            session = session_of(entry)
            below = "" if session is None else self._below(session)
            shown.append(_titled(entry, titles.get(below)))
        if shown == entries:
            return body
        members["sessions"] = Raw(json_text.encode(shown))
        return bytes(write_members(members))

    # -- messages of the agent -----------------------------------------------------------------

    def comes(self, session: str | None) -> None:
        """The client gets another message of a session: updates of it that wait go before."""
        now = self._repeating.get(session or "")
        if now is not None:
            self._go_on(now)

    def shown(self, method: str, params: Params, source: Source) -> Params | None:
        """The params that the client gets for a notification now; None: the notification waits."""
        if isinstance(params, UnsetType):
            return params
        if not self._repeating and not holds(bytes(params), _INFO_KIND):
            return params  # nearly all
        key, session, _ = heading(method, params)
        now = self._repeating.get(session or "")
        if now is not None and key in (_CHUNK, _MESSAGE):
            self._takes(now, params, key, source)
            return None
        if now is not None:
            self._go_on(now)
            if not (now.loads or key == _STATE):
                del self._repeating[session or ""]  # the agent is beyond the prompt
        if key != _INFO:
            return params
        members = read_members(params) or {}
        told = _titled(members["update"], self._exchange.sessions.get(session).titles)
        return params if told is members["update"] else write_members({**members, "update": told})

    def _takes(self, now: _Session, params: Raw, key: str, source: Source) -> None:
        """Keeps an update with words of the user's, until the message is whole."""
        told = read_members(member_at(params, "update")) or {}
        content = told.get("content", Raw(b"null"))
        blocks = [content] if key == _CHUNK else elements(content)
        texts = [additions.bare(_text(block)) for block in blocks]
        now.said.append(_Said(params, source, blocks, texts))
        now.bytes += memoryview(params).nbytes
        now.size += sum(map(len, texts))
        ends = not now.loads and (key == _MESSAGE or now.size >= now.replay.most)
        if ends or now.bytes > _MOST_BYTES:
            self._go_on(now)

    def _go_on(self, now: _Session) -> None:
        """The updates that wait go to the client, without the additions of components."""
        waiting, now.said, now.bytes, now.size = now.said, [], 0, 0
        if not waiting:
            return
        added = now.replay.added([text for said in waiting for text in said.texts])
        exchange, at = self._exchange, 0
        may_keep, exchange.may_keep = exchange.may_keep, False  # it does not come back
        for said in waiting:
            params = _left(said, at, added)
            at += sum(map(len, said.texts))
            if params is not None:
                source = said.source.changed(params is not said.params)
                exchange.notify(exchange.upstream.p, UPDATE, params, source)
        exchange.may_keep = may_keep


def _users(session: Session, flow: Flow, sent: Raw) -> Params:
    """The params of the client's prompt that goes to the agent: of `flow`, or of the oldest prompt
    of the session, where a program has passed it on by a request of its own. `sent`: none is
    known."""
    asked = session.asked
    if flow in asked:
        return asked[flow]
    oldest = next(iter(asked), None)
    return sent if oldest is None else asked.pop(oldest)


def _text(block: Raw) -> str:
    """The text of a block; empty: it has none."""
    members = read_members(block) or {}
    return text_of(members.get("text")) if text_of(members.get("type")) == additions.TEXT else ""


def _titled(raw: Raw, titles: Titles | None) -> Raw:
    """An object with the title of a session, where it has the title that the client is to have."""
    if titles is None:
        return raw
    members = read_members(raw) or {}
    title = text_of(members.get("title"))
    shown = titles.shown(title)
    if shown == title:
        return raw
    members["title"] = Raw(json_text.encode(shown))
    if not shown:
        del members["title"]
    return write_members(members)


def _left(said: _Said, at: int, added: Sequence[Span]) -> Raw | None:
    """An update without the additions; None: nothing is left.

    Args:
        at: where its texts begin, among those in which the spans are.
    """
    blocks: list[Raw] = []
    for block, text in zip(said.blocks, said.texts, strict=True):
        start, at = at, at + len(text)
        cuts = [
            (max(start, one) - start, min(at, end) - start)
            for one, end in added
            if (one < at and end > start) or (not text and one <= at <= end)
        ]
        if not cuts:
            blocks.append(block)
        elif text and sum(end - one for one, end in cuts) < len(text):
            members = read_members(block) or {}
            members["text"] = Raw(json_text.encode(additions.without(_text(block), cuts)))
            blocks.append(write_members(members))
        elif not (text or _text(block)):
            blocks.append(block)  # it is no text
    if blocks == said.blocks:
        return said.params
    if not blocks:
        return None
    members = read_members(said.params) or {}
    told = read_members(members["update"]) or {}
    is_list = memoryview(told["content"])[0] == ord("[")
    told["content"] = Raw(json_text.encode(blocks)) if is_list else blocks[0]
    members["update"] = write_members(told)
    return write_members(members)
