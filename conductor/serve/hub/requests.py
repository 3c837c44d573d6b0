"""Requests of clients: which session one is about, who may send it, and what its answer changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Malformed
from conductor.errors import counted
from conductor.serve.hub.attaching import Attaching, described
from conductor.serve.hub.effects import Disowned
from conductor.serve.hub.floor import VIEWER, Floor
from conductor.serve.hub.handshake import Handshake
from conductor.serve.hub.opening import Opening
from conductor.serve.hub.params import (
    encode,
    inner,
    list_of,
    plain,
    session_of,
    text_of,
)
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Call, Chain, Connection, Phase, Session
from conductor.serve.hub.turns import Turns
from conductor.serve.hub.updates import Updates

_UNATTACHED: Final = frozenset(
    f"session/{verb}"
    for verb in (
        *("archive", "close", "delete", "fork", "options", "set_title", "status", "unarchive"),
    )
)
"""What a client may ask about a session that it is not attached to."""
_SEEING: Final = frozenset(("session/attach", "session/detach", "session/list", "session/status"))
"""What a client that may only watch may ask for."""
_EDITOR: Final = "_scp/"
_DRIVE: Final = "send `session/attach` with the role `driver` first"


class Requests:
    """The part of a hub that takes requests of clients, and the answers to them."""

    def __init__(
        self,
        floor: Floor,
        handshake: Handshake,
        opening: Opening,
        attaching: Attaching,
        sessions: Sessions,
        turns: Turns,
        updates: Updates,
        servers: Servers,
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._handshake = handshake
        self._opening = opening
        self._sessions = sessions
        self._turns = turns
        self._updates = updates
        self._methods: dict[str, Callable[[Call], None]] = {
            "initialize": handshake.initialize,
            "session/new": self._new,
            "session/load": attaching.load,
            "session/resume": attaching.load,
            "session/attach": attaching.attach,
            "session/detach": attaching.detach,
        }
        self._answers: dict[str, Callable[[Call, Chain, bytes, Raw], None]] = {
            "initialize": handshake.answered,
            "session/new": opening.begun,
            "session/fork": opening.begun,
            "session/load": lambda call, _, member, body: opening.loaded(call, member, body),
            "session/resume": lambda call, _, member, body: opening.loaded(call, member, body),
            "session/prompt": self._prompted,
            "session/list": self._listed,
            "session/close": self._closed,
            "session/delete": self._closed,
            "session/set_mode": self._chosen,
            "session/set_model": self._chosen,
            "session/set_config_option": self._chosen,
        }

    # -- to the chain --------------------------------------------------------------------------

    def take(self, call: Call) -> None:
        """A client asks, or what it has asked has waited for long enough."""
        connection = call.connection
        if connection is None:
            return None
        if call.method == "initialize":
            return self._handshake.initialize(call)
        if connection.phase is not Phase.READY:
            text = "the first message of a connection is `initialize`"
            return self._floor.refuse(call, INVALID_REQUEST, text)
        if connection.views and call.method not in _SEEING and call.method not in _LOADS:
            return self._floor.views(call)
        method = self._methods.get(call.method)
        if method is not None:
            return method(call)
        try:
            call.scope = session_of(call.params)
        except Malformed as problem:
            return self._floor.refuse(call, problem.code, problem.text)
        if call.method == "session/list" and connection.visits:
            return self._floor.finish(call, b"result", encode({"sessions": self._live()}))
        if call.scope is not None and call.method != "session/list":
            return self._about(call, connection, call.scope)
        own = self._floor.own(call)
        if own is None:
            return None
        if self._servers.concerned(call.method):
            return self._of_server(call, connection)
        if call.method.startswith(_EDITOR) and len(own.connections) > 1:
            return self._of_editor(call, connection, own)
        return self._floor.forward(call, own)

    def _of_server(self, call: Call, connection: Connection) -> None:
        """A request of an MCP server that a client offers."""
        chain = self._servers.chain_of(connection, call.method, call.params)
        if chain is not None:
            return self._floor.forward(call, chain)
        text, hint = "this client has no such MCP connection", "open it, or name one of its own"
        return self._floor.refuse(call, INVALID_PARAMS, text, hint)

    def _of_editor(self, call: Call, connection: Connection, own: Chain) -> None:
        """A request about what an editor shows, for its one session: to the chain all its clients
        are one editor, so the hub names the session."""
        driven = [id_ for id_, one in own.sessions.items() if one.drives(connection)]
        if len(driven) != 1:
            sessions = counted(len(driven), "session")
            text = f"`{call.method}` needs a `sessionId`: this client drives {sessions}"
            return self._floor.refuse(call, INVALID_PARAMS, text, "name the session")
        members = read_members(call.params) or {}
        call.scope = driven[0]
        call.params = write_members({**members, "sessionId": Raw(encode(call.scope))})
        return self._about(call, connection, driven[0])

    def _new(self, call: Call) -> None:
        chain = self._floor.own(call)
        if chain is not None:
            self._opening.begin(call, chain)

    def _about(self, call: Call, connection: Connection, id_: str) -> None:
        """A request about a session."""
        floor, session = self._floor, connection.attached.get(id_)
        if session is None:
            session = floor.find(connection, id_)
            if call.method not in _UNATTACHED:
                if session is None:
                    return floor.unknown(call, id_)
                text, hint = "this client is not attached to the session", _DRIVE
                return floor.refuse(call, INVALID_REQUEST, text, hint, sessionId=id_)
            if session is None and not floor.owns(id_):
                return floor.unknown(call, id_)
        elif not session.drives(connection) and call.method not in _SEEING:
            return floor.refuse(call, INVALID_REQUEST, VIEWER, _DRIVE, sessionId=id_)
        if session is not None and session.loading is not None:
            session.waiting.append(call)
            return None
        call.session = session
        chain = self._floor.own(call) if session is None else session.chain
        if chain is None:
            return None
        if call.method == "session/prompt" and session is not None:
            return self._turns.prompt(call, session)
        if call.method == "session/fork":
            return self._opening.begin(call, chain)
        return floor.forward(call, chain, plain(call.params))

    # -- from the chain ------------------------------------------------------------------------

    def answered(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        """A chain has answered."""
        taker = self._answers.get(call.method)
        if taker is None:
            self._floor.finish(call, member, body)
        else:
            taker(call, chain, member, body)
        self._sessions.unneeded(chain)

    def _session(self, call: Call) -> Session | None:
        """The session of a request, if it is still live."""
        session = call.session
        if session is None or session.chain.sessions.get(session.id) is not session:
            return None
        return session

    def _prompted(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        session = self._session(call)
        if session is None:
            self._floor.finish(call, member, body)
        else:
            self._turns.answered(call, session, member, body)

    def _chosen(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        asker, session = call.connection, self._session(call)
        self._floor.finish(call, member, body)
        if session is not None and member == b"result":
            self._updates.set(call, session, asker, body)

    def _closed(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        self._floor.finish(call, member, body)
        if member == b"error" or call.scope is None:
            return
        if call.method == "session/delete":
            self._floor.out.append(Disowned(call.scope))
        session = self._session(call)
        if session is not None:
            self._sessions.forget(session, close=False)

    def _listed(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        """A list has only sessions of this principal."""
        members = read_members(body) if member == b"result" else None
        entries = None if members is None else list_of(members.get("sessions"))
        if members is not None and entries is not None:
            own = [self._marked(entry) for entry in entries if self._own(entry)]
            body = write_members({**members, "sessions": Raw(encode(own))})
        self._floor.finish(call, member, body)

    def _own(self, entry: Raw) -> bool:
        id_ = text_of((read_members(entry) or {}).get("sessionId"))
        return id_ is not None and (id_ in self._floor.live or self._floor.owns(id_))

    def _live(self) -> list[dict[str, object]]:
        """The live sessions, for a client that has no agent to ask."""
        return [
            {
                "sessionId": session.id,
                "cwd": session.cwd,
                **({"title": session.title} if session.title else {}),
                "_meta": {"conductor": described(session)},
            }
            for same in self._floor.live.values()
            for session in same
            if not session.provisional
        ]

    def _marked(self, entry: Raw) -> Raw:
        """An entry of an agent's list; of a session that is live it says who has it."""
        members = read_members(entry) or {}
        live = next(iter(self._floor.live.get(text_of(members.get("sessionId")) or "", ())), None)
        if live is None:
            return entry
        meta = {**inner(members, "_meta"), "conductor": Raw(encode(described(live)))}
        return write_members({**members, "_meta": write_members(meta)})


_LOADS: Final = ("session/load", "session/resume")
