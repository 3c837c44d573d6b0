"""How clients come to a session that is live, and go: `session/attach`, `session/detach`, and
`session/load` or `session/resume` of a session that another client has."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import encode, member_at, text_of
from conductor.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from conductor.core.policy.key_table import STATE_KIND
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.history import REPLAYED
from conductor.serve.hub.params import inner
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Asked, Client, Live

_ROLES: Final = {"driver": True, "controller": True, "viewer": False, "observer": False}
_POLICIES: Final = {
    "full": "full",
    "pending_only": "pending_only",
    "none": "none",
    "after_message": "full",
}
"""The history policies that a client may ask for, each with the policy that is applied."""
_NULL: Final = Raw(b"null")


class Attaching:
    """The part of a hub that attaches clients to live sessions."""

    def __init__(
        self, floor: Floor, sessions: Sessions, questions: Questions, servers: Servers
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._sessions = sessions
        self._questions = questions

    # -- load and resume -----------------------------------------------------------------------

    def load(self, asked: Asked, client: Client) -> None:
        """A client opens a session by its id."""
        if not self._names(asked):
            return None
        cursor = inner(asked.params).get("replayFrom", _NULL)
        replays = asked.method == "session/load" or cursor != _NULL
        session = self._floor.find(client, asked.scope or "")
        if session is None:
            return self._open(asked, client, replays=replays)
        if not self._fits(asked, client, session):
            return None
        if replays and not session.history.complete:
            how = session.attached.get(client)
            if client.views or (how is not None and not how.drives):
                return self._floor.views(asked)
            return self._sessions.load(asked, client, session.chain, session, replays=True)
        if replays and cursor != _NULL and text_of(member_at(cursor, "type")) != "start":
            text = "`replayFrom` of a session that is live can only be the start"
            return self._floor.refuse(asked, INVALID_PARAMS, text)
        how = self._sessions.attach(session, client, drives=True)
        self._replay(session, client, full=replays, ends=cursor != _NULL)
        self._floor.finish(asked, b"result", encode(session.members))
        if how.drives:
            self._servers.renewed(asked, session.chain, client)
            self._at_home(session, client)
            self._questions.joined(session, client)
        return None

    def _open(self, asked: Asked, client: Client, *, replays: bool) -> None:
        """A client opens a session that is not live."""
        if client.views:
            return self._floor.views(asked)
        if client.visits or not self._floor.owns(asked.scope or ""):
            return self._floor.unknown(asked)
        chain = self._floor.own(asked, client)
        if chain is not None:
            self._sessions.load(asked, client, chain, None, replays=replays)
        return None

    def _at_home(self, session: Live, client: Client) -> None:
        """An editor that loads a session whose home client is cut takes its place: most likely it
        is the same editor, over a new link."""
        home = session.home
        if home is not None and home.cut and home is not client:
            session.home = client
            self._questions.moved(session, home, client)

    # -- attach and detach ---------------------------------------------------------------------

    def attach(self, asked: Asked, client: Client) -> None:
        """A client that knows `session/attach` comes, or changes its role."""
        if not self._names(asked):
            return None
        session = self._floor.find(client, asked.scope or "")
        if session is None:
            return self._floor.unknown(asked)
        if not self._fits(asked, client, session):
            return None
        members = inner(asked.params)
        drives = _ROLES.get(text_of(members.get("role", Raw(b'"driver"'))))
        policy = _POLICIES.get(text_of(members.get("historyPolicy", Raw(b'"full"'))))
        if drives is None or policy is None:
            text = f"`role` is one of {', '.join(_ROLES)}; `historyPolicy` one of "
            return self._floor.refuse(asked, INVALID_PARAMS, text + ", ".join(_POLICIES))
        if drives and client.views:
            return self._floor.views(asked)
        self._introduced(client, members)
        self._sessions.attach(session, client, drives=drives).speaks = True
        self._sessions.set_role(session, client, drives=drives)
        replayed = self._replay(session, client, full=policy == "full")
        result = _result(session, client, policy, replayed)
        self._floor.finish(asked, b"result", encode(result))
        if policy != "none":
            self._questions.joined(session, client)
        return None

    def detach(self, asked: Asked, client: Client) -> None:
        """A client leaves a session."""
        if not self._names(asked):
            return None
        session = client.attached.get(asked.scope or "")
        if session is None:
            return self._floor.unknown(asked)
        self._floor.finish(asked, b"result", encode({"sessionId": session.id}))
        self._sessions.leave(session, client)
        self._sessions.unneeded(session.chain)
        return None

    # -- parts ---------------------------------------------------------------------------------

    def _names(self, asked: Asked) -> bool:
        """Whether a request names a session; a request without a session is refused."""
        if asked.scope is None:
            self._floor.refuse(asked, INVALID_PARAMS, f"`{asked.method}` needs a `sessionId`")
        return asked.scope is not None

    def _fits(self, asked: Asked, client: Client, session: Live) -> bool:
        """Whether a client can be attached to a session now; otherwise its request is refused, or
        waits for the agent."""
        most, spoken = self._floor.limits.attached, session.chain.version
        if client.version != spoken and not (client.visits and client.version > spoken):
            text = f"this session speaks version {spoken} of ACP"
            hint = f"this client speaks version {client.version}"
            self._floor.refuse(asked, INVALID_REQUEST, text, hint, sessionId=session.id)
        elif client.attached.get(session.id, session) is not session:
            self._floor.unknown(asked)
        elif client not in session.attached and len(session.attached) >= most:
            self._floor.full(asked, f"{most} clients have this session")
        elif session.loading is not None:
            session.waiting.append(asked)
        else:
            return True
        return False

    def _introduced(self, client: Client, members: dict[str, Raw]) -> None:
        """Notes how a client wants to be shown to others."""
        client.introduced(members.get("clientInfo"))
        wanted = text_of(members.get("clientId"))
        if wanted and all(one.client_id != wanted for one in self._floor.clients.values()):
            client.client_id = wanted[:200]

    def _replay(self, session: Live, client: Client, *, full: bool, ends: bool = False) -> int:
        """Sends the history, and with `ends` its end. Returns the number of updates sent."""
        shown = session.history.frames if full else []
        for frame in [*shown, *([frames.update(session.id, REPLAYED)] if ends else [])]:
            self._floor.tell(client, frame, session.id)
        if session.chain.version >= 2:  # the state comes behind all else
            idle = frames.update(session.id, STATE_KIND, state="idle")
            self._floor.tell(client, session.history.state or idle, session.id)
        return len(shown)


def _result(session: Live, client: Client, policy: str, replayed: int) -> dict[str, object]:
    """The answer to a client that has attached."""
    complete = policy != "full" or session.history.complete
    return {
        **session.members,
        "sessionId": session.id,
        "clientId": client.client_id,
        "role": session.role(client),
        "historyPolicy": policy,
        "replayed": replayed,
        "connectedClients": session.clients(),
        "_meta": {"conductor": {"complete": complete, **session.now()}},
    }
