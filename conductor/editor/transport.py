"""Puts the editor's desk between the runtime and the client's transport, where it is needed.

Until a component shows something, a chunk to the client costs one look for the beginning of such a
method, a line from the client another, and nothing else of this package is loaded. Frames keep
their ids: to the router the desk is the client, and to the client it is the chain.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from conductor.core import UPSTREAM, json_text, jsonrpc
from conductor.core.json_text import holds
from conductor.core.jsonrpc import Message
from conductor.core.policy.key_table import EVENTS, OF_EDITOR, UPDATE
from conductor.core.writer import Writer
from conductor.patterns import lazy_pattern
from conductor.transports.base import Transport, Wrapper

if TYPE_CHECKING:
    from conductor.core.router import Router
    from conductor.editor.desk import Desk
    from conductor.editor.effects import Effect
    from conductor.editor.messages import Capabilities

_METHOD: Final = b'"method":"_scp/'
_UP: Final = lazy_pattern(
    rb'\{"jsonrpc":"2\.0",(?:"id":([^,]+),)?'
    rb'"method":("(?:%b)(?:[^"\\]|\\.)*")'
    rb'(?:,"params":(.*))?\}\n?' % "|".join(OF_EDITOR).encode(),
    re.DOTALL,
)
"""Matches a line to the client, as the router writes it, that is for the desk."""
_ANSWER: Final = lazy_pattern(
    rb'\{"jsonrpc":"2\.0","id":(.+?),"(result|error)":(.*)\}\n?', re.DOTALL
)
_DOWN: Final = b"_scp"
"""Stands in each line of the client's for an owner; a slash may be escaped."""
_MOST_ADAPTED: Final = 1024
"""Sessions and types of which the first is known; then nothing is a first any more."""

_WRITER: Final = Writer()


class DeskTransport(Wrapper):
    """The client's transport, with the desk before it."""

    def __init__(
        self,
        inner: Transport,
        router: Router,
        log: Callable[[str, str, str], None],
        adapted: Callable[[str, str, bool], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`log` takes level, component and text. `adapted` hears that the client got words for
        content that it does not take: its name, a sentence, and whether this is a repetition.
        `failed` hears of unexpected errors."""
        super().__init__(inner)
        self._router = router
        self._log = log
        self._adapted = adapted
        self._failed = failed
        self._desk: Desk | None = None
        self._untaken: frozenset[str] | None = None
        """The types of blocks that the client does not take; None: it has not initialized yet."""
        self._said: set[tuple[str, str]] = set()
        """Sessions in which it got words for such, with the type."""
        self._to_router: list[bytes] = []

    # -- to the client -------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues whole lines for the client; lines for the desk go there first."""
        if self._untaken is None and (initialize := self._router.initialized):
            self._untaken = _untaken(initialize)
        owes = self._desk is not None and self._desk.owes
        looks = self._untaken or owes or holds(data, _METHOD)
        if not looks or self._router.mode != "agent":
            self._inner.write(data)  # nearly all
            return
        batch: list[bytes] = []
        for line in _lines(data):
            effects = self._up(line)
            if effects is None:
                batch.append(self._shown(line) if self._untaken else line)
                continue
            if batch:
                self._inner.write(b"".join(batch))
                batch.clear()
            self._perform(effects)
        if batch:
            self._inner.write(b"".join(batch))
        if self._to_router:
            # The router is not reentrant, and it is busy with the write that led here.
            asyncio.get_running_loop().call_soon(self._flush)

    def _shown(self, line: bytes) -> bytes:
        """A line to the client, with words for content that it does not take."""
        from conductor.editor import content

        assert self._untaken is not None
        update = content.session_and_update(line)
        if update is None:
            return line
        session, params = update
        params, types = content.adapted(params, self._untaken)
        for type_ in types:
            again = (session, type_) in self._said or len(self._said) >= _MOST_ADAPTED
            self._said.add((session, type_))
            text = f"the editor shows no content of the type `{type_}`: it gets words"
            self._adapted(UPSTREAM, text, again)
        return _WRITER.notification(UPDATE, params) if types else line

    def _up(self, line: bytes) -> Iterable[Effect] | None:
        """The desk's effects for a line to the client; None: the line goes on."""
        found = _UP.fullmatch(line)
        if found is not None:
            method = json_text.decode(found[2], type=str)
            return self._needed().from_chain(found[1], method, found[3] or b"")
        answer = _ANSWER.fullmatch(line) if self._desk is not None and self._desk.owes else None
        if answer is None:
            return None
        assert self._desk is not None
        settled = self._desk.answered_by_owner(*answer.groups())
        return None if settled is None else [settled]

    # -- from the client -----------------------------------------------------------------------

    def received(self, frames: list[bytes]) -> None:
        """Passes on lines of the client; the desk takes some of them."""
        assert self._events is not None
        if self._desk is not None:  # here: its lines are few, and it may open a session again
            self._desk.forget_closed()
        looks = self._desk is not None and self._desk.asks
        for frame in frames:
            looks = looks or holds(frame, _DOWN)
        if not looks:
            self._events.received(frames)
            return
        try:
            for frame in frames:
                effects = self._down(frame)
                if effects is None:
                    self._to_router.append(frame)
                else:
                    self._perform(effects)
        except Exception as error:
            self._failed(error)
        self._flush()

    def _down(self, frame: bytes) -> Iterable[Effect] | None:
        """The desk's effects for a line of the client; None: the line goes on."""
        asks = self._desk is not None and self._desk.asks
        if (not asks and _DOWN not in frame) or self._router.mode != "agent":
            return None
        try:
            message = jsonrpc.parse(frame)
        except jsonrpc.Malformed:
            return None
        return self._array(message) if isinstance(message, list) else self._taken(message)

    def _array(self, entries: list[Raw]) -> Iterable[Effect] | None:
        """The desk's effects for an array of the client: entries for the desk are taken out, and
        the others go on as one array."""
        effects: list[Effect] = []
        others: list[bytes] = []
        for entry in map(bytes, entries):
            message = jsonrpc.message_of(entry)
            found = None if message is None else self._taken(message)
            if found is None:
                others.append(entry)
            else:
                effects += found
        if len(others) == len(entries):
            return None
        if others:
            self._to_router.append(b"[" + b",".join(others) + b"]")
        return effects

    def _taken(self, message: Message) -> Iterable[Effect] | None:
        id_ = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
        if isinstance(message.method, str):
            if message.method not in EVENTS or (isinstance(message.id, Raw) and id_ is None):
                return None
            params = bytes(message.params) if isinstance(message.params, Raw) else b""
            raw = bytes(message.id) if isinstance(message.id, Raw) else None
            return self._needed().from_client(raw, message.method, params)
        return self._answered(id_, message)

    def _answered(self, id_: bytes | None, message: Message) -> Iterable[Effect] | None:
        if self._desk is None or id_ is None:
            return None
        member, body = jsonrpc.outcome(message) or (b"result", b"null")
        settled = self._desk.answered_by_client(id_, member, bytes(body))
        return None if settled is None else [settled]

    # -- effects -------------------------------------------------------------------------------

    def _needed(self) -> Desk:
        if self._desk is None:
            from conductor.editor.desk import Desk
            from conductor.editor.messages import capabilities

            client = _Client(self._router, capabilities(self._router.initialized))
            self._desk = Desk(client)
        return self._desk

    def _perform(self, effects: Iterable[Effect]) -> None:
        from conductor.editor.effects import Answer, Pass, Say, ToChain, ToClient

        for effect in effects:
            match effect:
                case ToChain(id_, member, body):
                    self._to_router.append(jsonrpc.answer(id_, member, body)[:-1])
                case Pass(id_, method, params):
                    self._to_router.append(_WRITER.request(id_, method, params)[:-1])
                case ToClient(None, method, params):
                    self._inner.write(_WRITER.notification(method, params))
                case ToClient(bytes(id_), method, params):
                    self._inner.write(_WRITER.request(id_, method, params))
                case Answer(id_, member, body):
                    self._inner.write(jsonrpc.answer(id_, member, body))
                case Say(level, name, text):
                    self._log(level, name, text)

    def _flush(self) -> None:
        if self._to_router and self._events is not None:
            frames, self._to_router = self._to_router, []
            self._events.received(frames)


class _Client(msgspec.Struct, frozen=True):
    """The client as the desk knows it."""

    router: Router
    capabilities: Capabilities

    @property
    def version(self) -> int | None:
        return self.router.version

    @property
    def sessions(self) -> Collection[str]:
        return self.router.sessions.of_client

    def folders(self, session: str) -> tuple[str, ...]:
        return self.router.sessions.find(session).folders


def _untaken(initialize: bytes) -> frozenset[str]:
    """The types of blocks that the client of an `initialize` does not take."""
    if b'"content"' not in initialize:
        return frozenset()  # nearly all
    from conductor.editor import content

    return content.untaken(initialize)


def _lines(data: bytes) -> list[bytes]:
    # Not `splitlines`, which also splits at a carriage return.
    return [line + b"\n" for line in data.split(b"\n")[:-1]]
