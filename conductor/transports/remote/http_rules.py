"""ACP over HTTP, as a strict client speaks it: when POSTs go, and on which streams answers come.
Pure.

Frames and the results of requests go in, actions come out, which `http` performs. Servers
differ, hence the rules:

- The first request opens the connection. Nothing else is posted before the stream of the connection
  has its head, nor a message of a session before the stream of the session has its head.
- Requests and notifications wait in one queue, answers in another: the server may need an answer.
  Of each queue one POST is on its way. No notification passes an answer, nor an answer a
  notification: so a turn ends after its updates.
- Each POST has a number, so that a server that counts them can ignore a repeated POST.
- A message may come on any stream: ids alone say which request it answers.
- A lost stream is opened again: behind its last event, where the server numbers its events;
  where it does not, the session's open requests are answered by an error first.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import jsonrpc
from conductor.errors import ConductorError
from conductor.transports.remote.heading import is_name, key_of, named_in, read_heading, session_of
from conductor.transports.remote.http_actions import (
    Action,
    Deliver,
    Leave,
    Listen,
    Over,
    Post,
    Undelivered,
)

FINAL: Final = frozenset({401, 403, 404, 410})
"""Answers after which the connection is gone for good."""

_ENDS_SESSION: Final = frozenset({"session/close", "session/delete"})
_OPENS_SESSION: Final = frozenset({"session/new", "session/fork"})
_OK: Final = 2
"""The first digit of the status of a success."""
_FAILS: Final = 5
"""The first digit of the status of a server that has failed."""


class _Phase(Enum):
    """The state of a connection; it moves downwards, but for a refused opening."""

    NEW = 0
    OPENING = 1
    OPEN = 2
    OVER = 3


class _Stage(Enum):
    """The state of a stream."""

    NONE = 0
    OPENING = 1
    OPEN = 2
    REFUSED = 3
    """The server opens none: perhaps it knows the session only once it has got the message."""


class _Stream(msgspec.Struct):
    stage: _Stage = _Stage.NONE
    last: str = ""
    tries: int = 0
    reopened: bool = False
    leaves: bool = False
    """Whether its session is being closed."""
    waits: bool = False
    """Whether it is opened once that of the connection is open again."""


class _Asked(msgspec.Struct, frozen=True):
    """A request that nobody has answered."""

    raw: bytes
    method: str
    session: str | None


class HttpRules:
    """One connection.

    Attributes:
        connection_id: The server's name for the connection; empty: there is none yet.
        buffered: Bytes that wait, or are on their way.
    """

    def __init__(self, tries: int) -> None:
        """`tries`: how often in a row a server that numbers its events is tried again."""
        self._tries = tries
        self.connection_id = ""
        self.buffered = 0
        self._phase = _Phase.NEW
        self._queues: tuple[deque[Post], deque[Post]] = (deque(), deque())
        self._flying: list[Post | None] = [None, None]
        self._number = self._order = 0
        self._opening: _Asked | None = None
        self._streams: dict[str | None, _Stream] = {}
        self._ours: dict[bytes, _Asked] = {}
        """Requests of the owner that have not been answered."""
        self._theirs: dict[bytes, str | None] = {}
        """The sessions of requests that the owner has not answered."""
        self._numbers_events = False
        self._finishing = False

    # -- calls of the owner --------------------------------------------------------------------

    def write(self, frame: bytes) -> list[Action]:
        """A frame of the owner."""
        if self._phase is _Phase.OVER:
            return []
        self.buffered += len(frame)
        heading = read_heading(frame)
        key = key_of(heading)
        if heading.method is not None and key is not None:
            asked = _Asked(bytes(heading.id), heading.method, session_of(heading))
            self._ours[key] = asked
            if self._phase is _Phase.NEW:
                self._phase, self._opening = _Phase.OPENING, asked
                return [Post(frame, 0)]
        is_answer = heading.method is None and key is not None
        session = self._theirs.pop(key, None) if is_answer and key else session_of(heading)
        self._order += 1
        is_notification = heading.method is not None and key is None
        post = Post(frame, 0, session, is_answer, 0, is_notification, self._order)
        self._queues[is_answer].append(post)
        return self._pump()

    def finish(self) -> list[Action]:
        """The owner writes nothing more."""
        self._finishing = True
        return self._pump()

    # -- results of requests -------------------------------------------------------------------

    def opened(
        self, post: Post, status: int, connection_id: str, body: bytes, *, counts: bool = False
    ) -> list[Action]:
        """The server has answered the request that opens the connection. `counts`: it says that it
        counts messages; such a server numbers its events too."""
        self.buffered -= len(post.frame)
        asked, self._opening = self._opening, None
        assert asked is not None
        if status == 400 and asked.method != "initialize":
            # Servers take `initialize` alone: a caller that detects dialects sends it next.
            self._phase = _Phase.NEW
            text = f"a server over HTTP is opened by `initialize`, not by `{asked.method}`"
            error = jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, text)
            return self._heard(jsonrpc.answer(asked.raw, b"error", error).rstrip(b"\n"))
        if status != 200:
            return self._over("could not be reached", status)
        heading = read_heading(body)
        refused = bytes(heading.error) not in (b"", b"null")
        # A proxy asks its successor before it answers, so a request may come first.
        is_answer = key_of(heading) == jsonrpc.canonical_id(Raw(asked.raw))
        if heading.method is None and not is_answer:
            return self._over(f"answered `{asked.method}` with a body that is no answer to it")
        if not refused and not is_name(connection_id):
            return self._over("answered without an id of the connection (Acp-Connection-Id)")
        delivered = self._heard(body)
        if refused:
            self._phase = _Phase.NEW
            self.connection_id = connection_id if is_name(connection_id) else ""
            return [*delivered, *([Leave()] if self.connection_id else [])]
        self._phase, self.connection_id = _Phase.OPEN, connection_id
        self._numbers_events = counts
        return [*delivered, *self._listen(None)]

    def posted(self, post: Post, status: int, body: bytes = b"") -> list[Action]:
        """A POST was answered."""
        if self._comes_again(post, status):
            return [msgspec.structs.replace(post, tries=post.tries + 1)]
        self._flying[post.is_answer] = None
        self.buffered -= len(post.frame)
        if status // 100 == _OK:
            return [*(self._heard(body) if body.strip() else []), *self._pump()]
        if status == 404 and post.session is not None:
            # The connection is another thing: where that is gone, its stream ends.
            why = "the server does not know this session"
            return [*self._undelivered(post, why), *self._pump()]
        if status in FINAL:
            return self._over("has ended this connection", status)
        return [*self._undelivered(post, f"the server answered with HTTP status {status}"),
                *self._pump()]  # fmt: skip

    def _comes_again(self, post: Post, status: int) -> bool:
        """Whether a message that did not get through may come again: a server between fails for a
        while, and a server that counts ignores messages that it has already."""
        fails = status // 100 == _FAILS
        return fails and bool(post.number) and self._numbers_events and post.tries < self._tries

    def failed(self, post: Post, why: str) -> list[Action]:
        """A POST got no answer."""
        if not post.number:
            self.buffered -= len(post.frame)
            return self._over(f"could not be reached: {why}")
        if self._numbers_events and post.tries < self._tries:
            return [msgspec.structs.replace(post, tries=post.tries + 1)]
        self._flying[post.is_answer] = None
        self.buffered -= len(post.frame)
        return [*self._undelivered(post, why), *self._pump()]

    def listening(self, session: str | None) -> list[Action]:
        """A stream has its head."""
        stream = self._streams[session]
        stream.stage, stream.tries = _Stage.OPEN, 0
        out: list[Action] = []
        for name, other in self._streams.items():
            if session is None and other.waits:
                other.waits = False
                out += self._listen(name, again=True)
        return [*out, *self._pump()]

    def lost(self, session: str | None, why: str, status: int = 0) -> list[Action]:
        """A stream ended, or could not be opened; `status`: the server's answer to that."""
        stream = self._streams.get(session)
        if stream is None or self._phase is _Phase.OVER:
            return []
        was_open = stream.stage is _Stage.OPEN
        stream.stage = _Stage.NONE
        if self._numbers_events and not stream.last and not status:
            stream.last = "0"  # it numbers this stream too, and none of its events has come
        has_tries = stream.last and not stream.leaves and stream.tries < self._tries
        if status // 100 == _FAILS and has_tries:
            return self._listen(session, again=True)  # a server between fails for a while
        if session is None:
            if stream.last and not status and stream.tries < self._tries:
                return self._listen(None, again=True)
            return self._over(f"is lost: its stream {why}", status)
        if status in (401, 403, 410):
            return self._over("has ended this connection", status)
        if stream.leaves:
            del self._streams[session]
            return self._pump()
        if status == 404 and self._streams[None].stage is _Stage.OPENING:
            stream.waits = True  # perhaps the server has forgotten the connection: its stream shows
            return []
        if status:
            failures = self._fail(session, why) if stream.last else []
            stream.last, stream.stage = "", _Stage.REFUSED
            return [*failures, *self._pump()]
        if stream.last and stream.tries < self._tries:
            return self._listen(session, again=True)
        stream.last = ""
        out = self._fail(session, why)
        if not stream.reopened and (was_open or self._waits(session)):
            stream.reopened = True
            return [*out, *self._listen(session)]
        if not was_open:
            out += self._unsent(session, why)
        return [*out, *self._pump()]

    def goes_on(self, session: str | None) -> bool:
        """Whether a stream that is lost goes on behind its last event."""
        stream = self._streams.get(session)
        return stream is not None and bool(stream.last) and not stream.leaves

    def heard(self, session: str | None, event_id: str, data: bytes) -> list[Action]:
        """An event came on a stream."""
        stream = self._streams[session]
        self.named(session, event_id)
        stream.reopened = False
        return self._heard(data)

    def named(self, session: str | None, event_id: str) -> None:
        """The last event of a stream has this id; empty: the server gives none."""
        if event_id:
            self._streams[session].last = event_id
            self._numbers_events = True

    # -- within --------------------------------------------------------------------------------

    def _heard(self, data: bytes) -> list[Action]:
        heading = read_heading(data)
        key = key_of(heading)
        if heading.method is not None:
            if key is not None:
                self._theirs[key] = session_of(heading)
            return [Deliver(data)]
        if key is None:
            return [Deliver(data)]
        asked = self._ours.pop(key, None)
        if asked is None:
            return []  # it has been answered already
        out: list[Action] = [Deliver(data)]
        if asked.method in _OPENS_SESSION and (session := named_in(heading.result)):
            out += self._listen(session)
        return out

    def _listen(self, session: str | None, *, again: bool = False) -> list[Action]:
        stream = self._streams.setdefault(session, _Stream())
        if stream.stage in (_Stage.OPENING, _Stage.OPEN):
            return []
        stream.stage = _Stage.OPENING
        stream.tries = stream.tries + 1 if again else 0
        return [Listen(session, stream.last, stream.tries)]

    def _pump(self) -> list[Action]:
        """The posts that may go now."""
        out: list[Action] = []
        own = self._streams.get(None)
        if self._phase is not _Phase.OPEN:
            return self._done() if self._phase is _Phase.NEW else out
        if own is None or own.stage is not _Stage.OPEN:
            return out
        for queue in self._queues:
            if not queue or self._flying[queue[0].is_answer] or self._would_pass(queue[0]):
                continue
            session = queue[0].session
            if session is not None:
                stream = self._streams.setdefault(session, _Stream())
                if stream.stage is _Stage.NONE:
                    out += self._listen(session)
                if stream.stage is _Stage.OPENING:
                    continue
                if stream.stage is _Stage.REFUSED:
                    stream.stage = _Stage.NONE  # the next message tries again
                method = read_heading(queue[0].frame).method
                stream.leaves = stream.leaves or method in _ENDS_SESSION
            self._number += 1
            post = msgspec.structs.replace(queue.popleft(), number=self._number)
            self._flying[post.is_answer] = post
            out.append(post)
        return out or self._done()

    def _would_pass(self, post: Post) -> bool:
        """Whether a post of the other queue must go first."""
        flying, queue = self._flying[not post.is_answer], self._queues[not post.is_answer]
        before = [flying, *queue] if flying is not None else queue
        return any(
            each.order < post.order and (each.is_notification or post.is_notification)
            for each in before
        )

    def _done(self) -> list[Action]:
        """The end, once the owner has finished and everything has been sent."""
        if not self._finishing or any(self._flying) or any(self._queues):
            return []
        left: list[Action] = [Leave()] if self.connection_id else []
        return [*left, *self._over("closed the connection")]

    def _waits(self, session: str) -> bool:
        return any(post.session == session for queue in self._queues for post in queue)

    def _fail(self, session: str, why: str) -> list[Action]:
        """Answers the open requests of a session whose answers cannot come any more."""
        out: list[Action] = []
        for key, asked in list(self._ours.items()):
            if asked.session == session and not self._is_queued(asked):
                del self._ours[key]
                text = f"the stream of the session {why}, so the answer to this is lost"
                text = ConductorError(text, "send the request again").with_hint
                error = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text, {"lost": True})
                out.append(Deliver(jsonrpc.answer(asked.raw, b"error", error).rstrip(b"\n")))
        return out

    def _is_queued(self, asked: _Asked) -> bool:
        return any(bytes(read_heading(post.frame).id) == asked.raw for post in self._queues[False])

    def _unsent(self, session: str, why: str) -> list[Action]:
        """Gives back the messages that wait for a stream that does not open."""
        out: list[Action] = []
        for queue in self._queues:
            kept = [post for post in queue if post.session != session]
            for post in queue:
                if post.session == session:
                    self.buffered -= len(post.frame)
                    out += self._undelivered(post, f"the stream of its session {why}")
            queue.clear()
            queue.extend(kept)
        return out

    def _undelivered(self, post: Post, why: str) -> list[Action]:
        key = key_of(read_heading(post.frame))
        if key is not None and not post.is_answer:
            self._ours.pop(key, None)
        return [Undelivered(post.frame, why)]

    def _over(self, text: str, status: int = 0) -> list[Action]:
        self._phase = _Phase.OVER
        self.buffered = 0
        for queue in self._queues:
            queue.clear()
        return [Over(text, status)]
