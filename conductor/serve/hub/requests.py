"""The messages of clients: whether they may pass, whose session they are about, and the changes
that their answers make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.dialects import CANCEL
from conductor.core.json_text import (
    elements,
    encode,
    member_at,
    read_members,
    text_of,
    write_members,
)
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Malformed,
    Message,
    canonical_id,
)
from conductor.core.policy.headings import size_of
from conductor.core.policy.key_table import (
    CLOSING,
    LIST,
    MCP_FAMILIES,
    PROMPT,
    SESSION_NAMES,
    SETTINGS,
    STOP,
)
from conductor.errors import counted
from conductor.serve.hub import frames
from conductor.serve.hub.attaching import Attaching
from conductor.serve.hub.effects import Disowned
from conductor.serve.hub.floor import VIEWER, Floor
from conductor.serve.hub.handshake import Handshake
from conductor.serve.hub.params import inner, plain, session_of
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Asked, Chain, Client
from conductor.serve.hub.turns import Turns
from conductor.serve.hub.updates import Updates

_LOADS: Final = ("session/load", "session/resume")
_UNATTACHED: Final = frozenset(
    f"session/{verb}"
    for verb in (
        *("archive", "close", "delete", "fork", "options", "set_title", "status", "unarchive"),
    )
)
"""The requests that a client may make about a session that it is not attached to."""
_SEEING: Final = frozenset(("session/attach", "session/detach", LIST, "session/status"))
"""The requests that a client that only watches may make."""
_NEW: Final = "session/new"
_EDITOR: Final = "_scp/"
_DRIVE: Final = "send `session/attach` with the role `driver` first"


class Requests:
    """The part of a hub that takes the messages of clients, and the answers to their requests."""

    def __init__(
        self,
        floor: Floor,
        handshake: Handshake,
        attaching: Attaching,
        sessions: Sessions,
        questions: Questions,
        turns: Turns,
        updates: Updates,
        servers: Servers,
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._sessions = sessions
        self._questions = questions
        self._turns = turns
        self._methods: dict[str, Callable[[Asked, Client], None]] = {
            "session/load": attaching.load,
            "session/resume": attaching.load,
            "session/attach": attaching.attach,
            "session/detach": attaching.detach,
        }
        self._initialize = handshake.initialize
        self._answers: dict[str, Callable[[Asked, Chain, bytes, Raw], None]] = {
            "initialize": handshake.answered,
            _NEW: sessions.begun,
            "session/fork": sessions.begun,
            "session/load": sessions.loaded,
            "session/resume": sessions.loaded,
            PROMPT: turns.answered,
            LIST: self._listed,
            **dict.fromkeys(CLOSING, self._closed),
            **dict.fromkeys(SETTINGS, updates.chosen),
        }

    # -- from a client -------------------------------------------------------------------------

    def sent(self, sender: Client, message: Message, now: float) -> None:
        """A client has sent a message.

        Raises:
            Malformed: it is neither a request, nor a notification, nor an answer.
        """
        method, id_ = message.method, message.id
        if isinstance(method, UnsetType):
            return self._questions.answered(sender, message)
        if message.answers:
            key = canonical_id(id_) if isinstance(id_, Raw) else None
            raise Malformed(INVALID_REQUEST, "a message is a request or a response", key)
        if isinstance(id_, UnsetType):
            return self._notified(sender, method, message)
        asked = self._floor.accept(sender, id_, method, message.params, now)
        if method == "initialize":
            return self._initialize(asked, sender)
        if sender.ready or sender.chain is None:
            return self.take(asked)
        if not self._hold(sender, asked, message):
            text = "too much was sent before `initialize` has an answer"
            self._floor.refuse(asked, INVALID_REQUEST, text, "wait for it")
        return None

    def _hold(self, sender: Client, one: Asked | Message, message: Message) -> bool:
        """Keeps a message that came behind `initialize`. Returns whether there is room."""
        limits, size = self._floor.limits, size_of(message.params)
        if len(sender.held) >= limits.open_requests:
            return False
        if sender.held_bytes + size > limits.history_bytes:
            return False
        sender.held.append(one)
        sender.held_bytes += size
        return True

    def released(self, sender: Client) -> None:
        """`initialize` is answered: the messages behind it go on, in order."""
        held, sender.held, sender.held_bytes = sender.held, [], 0
        for one in held:
            if isinstance(one, Asked):
                self.take(one)
            else:
                self._notified(sender, str(one.method), one)

    def _notified(self, sender: Client, method: str, message: Message) -> None:
        """A notification goes to the chain of its session if its sender drives the session, else to
        the sender's own chain. A notification that may not pass is dropped: nothing answers a
        notification."""
        if method == CANCEL:
            return self._cancelled(sender, message)
        if not sender.ready and sender.chain is not None:
            self._hold(sender, message, message)
            return None
        if not sender.ready or sender.views:
            return None
        try:
            scope = session_of(message.params)
        except Malformed:
            return None
        chain, params = sender.chain, message.params
        session = None
        if scope is not None:
            session = self._floor.seen(sender, scope)
            if session is None or not session.drives(sender):
                return None
            chain, params = session.chain, plain(params)
            if self._servers.is_others(sender, chain, method, params):
                return None
        elif method.startswith(MCP_FAMILIES):
            chain = self._servers.chain_of(sender, method, params)
        if chain is not None:
            self._floor.send(chain, frames.notification(method, params))
        if session is not None and method == STOP and session.id == scope:
            self._questions.stopped(session, sender)
        return None

    def _cancelled(self, sender: Client, message: Message) -> None:
        about = member_at(message.params, "requestId")
        asked = None if about is None else sender.received.get(canonical_id(about) or b"")
        if asked is None or asked.method == "initialize":
            return
        if asked.to:
            self._floor.cancelled(asked)
        else:
            self._floor.refuse(asked, REQUEST_CANCELLED, "cancelled")

    # -- to the chain --------------------------------------------------------------------------

    def take(self, asked: Asked) -> None:
        """Takes a request of a client: a new request, or a request that has waited long enough."""
        client, floor = asked.client, self._floor
        if client is None:
            return None
        if not client.ready:
            text = "the first message of a connection is `initialize`"
            return floor.refuse(asked, INVALID_REQUEST, text)
        if client.views and asked.method not in _SEEING and asked.method not in _LOADS:
            return floor.views(asked)
        if asked.method == _NEW:
            return self._new(asked, client)
        try:
            asked.scope = session_of(asked.params)
        except Malformed as problem:
            return floor.refuse(asked, problem.code, problem.text)
        method = self._methods.get(asked.method)
        if method is not None:
            return method(asked, client)
        if asked.method == LIST and client.visits:
            return floor.finish(asked, b"result", encode({"sessions": self._live()}))
        if asked.scope is not None and asked.method != LIST:
            return self._about(asked, client, asked.scope)
        own = floor.own(asked, client)
        if own is None:
            return None
        if asked.method.startswith(MCP_FAMILIES):
            return self._of_server(asked, client)
        if asked.method.startswith(_EDITOR) and len(own.clients) > 1:
            return self._of_editor(asked, client, own)
        return floor.forward(asked, own)

    def _of_server(self, asked: Asked, client: Client) -> None:
        """A request of an MCP server that a client offers."""
        chain = self._servers.chain_of(client, asked.method, asked.params)
        if chain is not None:
            return self._floor.forward(asked, chain)
        text, hint = "this client has no such MCP connection", "open it, or name one of its own"
        return self._floor.refuse(asked, INVALID_PARAMS, text, hint)

    def _of_editor(self, asked: Asked, client: Client, own: Chain) -> None:
        """A request about something that an editor shows, for its one session. To the chain all its
        clients are one editor, so the hub names the session."""
        driven = [id_ for id_, one in own.sessions.items() if one.drives(client)]
        if len(driven) != 1:
            sessions = counted(len(driven), "session")
            text = f"`{asked.method}` needs a `sessionId`: this client drives {sessions}"
            return self._floor.refuse(asked, INVALID_PARAMS, text, "name the session")
        asked.scope = driven[0]
        asked.params = write_members({**inner(asked.params), "sessionId": Raw(encode(asked.scope))})
        return self._about(asked, client, driven[0])

    def _new(self, asked: Asked, client: Client) -> None:
        """A session that the agent names: none that is somebody's may stand there."""
        chain, members = self._floor.own(asked, client), inner(asked.params)
        if members.keys() & {*SESSION_NAMES}:
            rest = {name: raw for name, raw in members.items() if name not in SESSION_NAMES}
            asked.params = write_members(rest)
        if chain is not None:
            self._sessions.begin(asked, chain)

    def _about(self, asked: Asked, client: Client, id_: str) -> None:
        """A request about a session."""
        floor, session = self._floor, client.attached.get(id_)
        if session is None:
            session = floor.find(client, id_)
            if asked.method not in _UNATTACHED:
                if session is None:
                    return floor.unknown(asked)
                text, hint = "this client is not attached to the session", _DRIVE
                return floor.refuse(asked, INVALID_REQUEST, text, hint, sessionId=id_)
            if session is None and not floor.owns(id_):
                return floor.unknown(asked)
        elif not session.drives(client) and asked.method not in _SEEING:
            return floor.refuse(asked, INVALID_REQUEST, VIEWER, _DRIVE, sessionId=id_)
        if session is not None and session.loading is not None:
            session.waiting.append(asked)
            return None
        asked.session = session
        chain = floor.own(asked, client) if session is None else session.chain
        if chain is None:
            return None
        if self._servers.is_others(client, chain, asked.method, asked.params):
            return self._of_server(asked, client)
        if asked.method == PROMPT and session is not None:
            return self._turns.prompt(asked, client, session)
        if asked.method == "session/fork":
            return self._sessions.begin(asked, chain)
        return floor.forward(asked, chain, plain(asked.params))

    # -- from the chain ------------------------------------------------------------------------

    def answered(self, asked: Asked, chain: Chain, member: bytes, body: Raw) -> None:
        """A chain has answered."""
        taker = self._answers.get(asked.method)
        if taker is None:
            self._floor.finish(asked, member, body)
        else:
            taker(asked, chain, member, body)
        self._sessions.unneeded(chain)

    def _closed(self, asked: Asked, _: Chain, member: bytes, body: Raw) -> None:
        self._floor.finish(asked, member, body)
        if member == b"error" or asked.scope is None:
            return
        if asked.method == "session/delete":
            self._floor.out.append(Disowned(asked.scope))
        if asked.session is not None:
            self._sessions.forget(asked.session, close=False)

    def _listed(self, asked: Asked, _: Chain, member: bytes, body: Raw) -> None:
        """A list has only sessions of this principal."""
        entries = member_at(body, "sessions") if member == b"result" else None
        if entries is not None and bytes(entries).startswith(b"["):
            own = [self._marked(entry) for entry in elements(entries) if self._own(entry)]
            body = write_members({**inner(body), "sessions": Raw(encode(own))})
        self._floor.finish(asked, member, body)

    def _own(self, entry: Raw) -> bool:
        id_ = text_of(member_at(entry, "sessionId"))
        return id_ in self._floor.live or self._floor.owns(id_)

    def _live(self) -> list[dict[str, object]]:
        """The live sessions, for a client that has no agent to ask."""
        return [
            {
                "sessionId": session.id,
                "cwd": session.cwd,
                **({"title": session.title} if session.title else {}),
                "_meta": {"conductor": session.described()},
            }
            for same in self._floor.live.values()
            for session in same
            if not session.provisional
        ]

    def _marked(self, entry: Raw) -> Raw:
        """An entry of an agent's list; of a session that is live it says who has it."""
        members = read_members(entry) or {}
        live = next(iter(self._floor.live.get(text_of(members.get("sessionId")), ())), None)
        if live is None:
            return entry
        meta = {**inner(entry, "_meta"), "conductor": Raw(encode(live.described()))}
        return write_members({**members, "_meta": write_members(meta)})
