"""How clients come to a session that is live, and go: `session/attach`, `session/detach`, and
`session/load` or `session/resume` of a session that another client has."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Malformed
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.history import REPLAYED, STATE
from conductor.serve.hub.opening import Opening
from conductor.serve.hub.params import encode, inner, session_of, text_of
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Call, Connection, Session

_ROLES: Final = {"driver": True, "controller": True, "viewer": False, "observer": False}
_POLICIES: Final = {
    "full": "full",
    "pending_only": "pending_only",
    "none": "none",
    "after_message": "full",
}
"""What may be asked for, and what is applied."""


class Attaching:
    """The part of a hub that attaches clients to live sessions."""

    def __init__(
        self,
        floor: Floor,
        sessions: Sessions,
        questions: Questions,
        opening: Opening,
        servers: Servers,
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._sessions = sessions
        self._questions = questions
        self._opening = opening

    # -- load and resume -----------------------------------------------------------------------

    def load(self, call: Call) -> None:
        """A client opens a session by its id."""
        connection, id_ = call.connection, self._scope(call)
        if connection is None or id_ is None:
            return None
        session = self._floor.find(connection, id_)
        cursor = (read_members(call.params) or {}).get("replayFrom", Raw(b"null"))
        replays = call.method == "session/load" or bytes(cursor) != b"null"
        if session is None:
            if connection.views:
                return self._floor.views(call)
            if connection.visits or not self._floor.owns(id_):
                return self._floor.unknown(call, id_)
            chain = self._floor.own(call)
            if chain is not None:
                self._opening.load(call, chain, None, replays=replays)
            return None
        if not self._fits(call, connection, session):
            return None
        if session.loading is not None:
            session.waiting.append(call)
            return None
        if replays and not session.history.complete:
            how = session.attached.get(connection)
            if connection.views or (how is not None and not how.drives):
                return self._floor.views(call)
            return self._opening.load(call, session.chain, session, replays=True)
        if replays and bytes(cursor) != b"null" and _kind(cursor) != "start":
            text = "`replayFrom` of a session that is live can only be the start"
            return self._floor.refuse(call, INVALID_PARAMS, text)
        how = self._sessions.attach(session, connection, drives=True)
        self._replay(session, connection, full=replays, ends=bytes(cursor) != b"null")
        self._floor.finish(call, b"result", encode(session.members))
        if how.drives:
            self._servers.renewed(call.params, session.chain, connection)
            self._at_home(session, connection)
            self._questions.joined(session, connection)
        return None

    def _at_home(self, session: Session, connection: Connection) -> None:
        """An editor that loads a session whose home connection is cut takes its place: most likely
        it is the same editor, over a new link."""
        home = session.home
        if home is not None and home.cut and home is not connection:
            session.home = connection
            self._questions.moved(session, home, connection)

    # -- attach and detach ---------------------------------------------------------------------

    def attach(self, call: Call) -> None:
        """A client that knows `session/attach` comes, or changes its role."""
        connection, id_ = call.connection, self._scope(call)
        if connection is None or id_ is None:
            return None
        session = self._floor.find(connection, id_)
        if session is None:
            return self._floor.unknown(call, id_)
        if not self._fits(call, connection, session):
            return None
        if session.loading is not None:
            session.waiting.append(call)
            return None
        members = read_members(call.params) or {}
        drives = _ROLES.get(text_of(members.get("role", Raw(b'"driver"'))) or "")
        policy = _POLICIES.get(text_of(members.get("historyPolicy", Raw(b'"full"'))) or "")
        if drives is None or policy is None:
            text = f"`role` is one of {', '.join(_ROLES)}; `historyPolicy` one of "
            return self._floor.refuse(call, INVALID_PARAMS, text + ", ".join(_POLICIES))
        if drives and connection.views:
            return self._floor.views(call)
        self._introduced(connection, members)
        how = self._sessions.attach(session, connection, drives=drives)
        how.speaks = True
        if how.drives and not drives:
            self._sessions.demote(session, connection)
        how.drives = drives
        self._sessions.attach(session, connection, drives=drives)
        replayed = self._replay(session, connection, full=policy == "full")
        self._floor.finish(call, b"result", self._result(session, connection, policy, replayed))
        if policy != "none":
            self._questions.joined(session, connection)
        return None

    def _result(
        self, session: Session, connection: Connection, policy: str, replayed: int
    ) -> bytes:
        complete = policy != "full" or session.history.complete
        return encode(
            {
                **session.members,
                "sessionId": session.id,
                "clientId": connection.client_id,
                "role": _role(session.drives(connection)),
                "historyPolicy": policy,
                "replayed": replayed,
                "connectedClients": _clients(session),
                "_meta": {"conductor": {"complete": complete, **_state(session)}},
            }
        )

    def detach(self, call: Call) -> None:
        """A client leaves a session."""
        connection, id_ = call.connection, self._scope(call)
        if connection is None or id_ is None:
            return None
        session = connection.attached.get(id_)
        if session is None:
            return self._floor.unknown(call, id_)
        self._floor.finish(call, b"result", encode({"sessionId": id_}))
        self._sessions.leave(session, connection, gone=False)
        self._sessions.unneeded(session.chain)
        return None

    # -- parts ---------------------------------------------------------------------------------

    def _scope(self, call: Call) -> str | None:
        """The session of a request; without one it is refused."""
        try:
            call.scope = session_of(call.params)
        except Malformed as problem:
            self._floor.refuse(call, problem.code, problem.text)
            return None
        if call.scope is None:
            self._floor.refuse(call, INVALID_PARAMS, f"`{call.method}` needs a `sessionId`")
        return call.scope

    def _fits(self, call: Call, connection: Connection, session: Session) -> bool:
        """Whether a client can be attached to a session; otherwise its request is refused."""
        spoken = session.chain.version
        if connection.version != spoken and not (connection.visits and connection.version > spoken):
            text = f"this session speaks version {spoken} of ACP"
            hint = f"this client speaks version {connection.version}"
            self._floor.refuse(call, INVALID_REQUEST, text, hint, sessionId=session.id)
        elif connection.attached.get(session.id, session) is not session:
            self._floor.unknown(call, session.id)
        elif (
            connection not in session.attached
            and len(session.attached) >= self._floor.limits.attached
        ):
            self._floor.full(call, f"{self._floor.limits.attached} clients have this session")
        else:
            return True
        return False

    def _introduced(self, connection: Connection, members: dict[str, Raw]) -> None:
        """Notes how a client wants to be shown to others."""
        info = inner(members, "clientInfo")
        given = {name: text_of(info.get(name)) for name in ("name", "version")}
        connection.info |= {name: text[:200] for name, text in given.items() if text}
        wanted = text_of(members.get("clientId"))
        if wanted and all(one.client_id != wanted for one in self._floor.connections.values()):
            connection.client_id = wanted[:200]

    def _replay(
        self, session: Session, connection: Connection, *, full: bool, ends: bool = False
    ) -> int:
        """Sends what has been, and with `ends` that this was all; returns how many updates of the
        history that were."""
        shown = session.history.frames if full else []
        for frame in [*shown, *([frames.update(session.id, REPLAYED)] if ends else [])]:
            self._floor.tell(connection, frame, session.id)
        if session.chain.version >= 2:  # the state comes behind all else
            state = session.history.latest.get(STATE) or frames.update(
                session.id, STATE, state="idle"
            )
            self._floor.tell(connection, state, session.id)
        return len(shown)


def described(session: Session) -> dict[str, object]:
    """What a list of sessions says about one that is live."""
    return {"live": True, **_state(session), "clients": _clients(session)}


def _state(session: Session) -> dict[str, object]:
    return {"turn": session.turn is not None, "version": session.chain.version}


def _clients(session: Session) -> list[dict[str, str]]:
    return [
        {"clientId": one.client_id, **one.info, "role": _role(how.drives)}
        for one, how in session.attached.items()
    ]


def _role(drives: bool) -> str:
    return "driver" if drives else "viewer"


def _kind(cursor: Raw) -> str | None:
    return text_of((read_members(cursor) or {}).get("type"))
