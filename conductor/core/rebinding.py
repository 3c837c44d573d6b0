"""The service `rebind`: who may have a session go on as another, and when (`docs/conversation.md`).

While a request or a turn is open in one of the two sessions, their ids do not change: a later
cancellation or answer of it would go to the other session.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.aliases import MOST, Aliases
from conductor.core.effects import Changed
from conductor.core.guards.modes import SET_MODE, Refused
from conductor.core.guards.names import folded, head
from conductor.core.guards.reading import written
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params
from conductor.core.parts import Part
from conductor.core.policy.key_table import MODE_KINDS, PROMPT
from conductor.core.policy.sessions import FOLLOWED, places
from conductor.core.service_table import REBIND, TURN_END
from conductor.core.session import Change, Rebind, Said, Session, Standing, Wanted
from conductor.core.state import Lane, Peer, Visit, own_visit
from conductor.core.topology import onward
from conductor.errors import one_line

MARK: Final = "conductor.session"
"""The member of `_meta` that tells the client how its session goes on."""

_CURRENT, _OPTIONS = MODE_KINDS
_SHOWN: Final = 80
"""Characters of an id that an error repeats."""


_wanted: Final = json_text.Decoder(Wanted)


class _Kept(msgspec.Struct):
    turns: list[Raw]
    """The params of `turn/end` for each."""


class Rebinding(Part):
    """The part of the services that binds sessions."""

    def ask(self, peer: Peer, params: Params, pending: Visit | None) -> None:
        """A component calls `rebind`."""
        wanted = self._read(peer, params, pending)
        if wanted is None:
            return
        aliases = peer.p.other.aliases or Aliases()
        if not self._exchange.topology.hosted or _is_so(aliases, wanted):
            self._settle(Rebind(peer, wanted, pending))
            return
        # Only the conductor above knows the requests in front of the host, and behind it.
        ids = (wanted.sessionId, aliases.up.get(wanted.to, wanted.to))
        session, to = (self._parts.names.outermost(peer.p, id_) for id_ in ids)
        call = own_visit(REBIND)
        call.followers = (Rebind(peer, wanted, pending),)
        self._parts.services.perform(peer, REBIND, Raw(json_text.encode(Wanted(session, to))), call)

    def decided(self, asked: Rebind, member: bytes, body: bytes) -> None:
        """The conductor above a host has answered: with its yes nobody begins a turn there, until
        the session is bound."""
        if member == b"result":
            asked.turns = json_text.decode(body, type=_Kept).turns
            self._settle(asked)
        elif asked.pending is not None:
            self._exchange.reply(asked.pending, member, body)

    def relayed(self, host: Peer, guest: str, params: Params, pending: Visit | None) -> None:
        """A host asks whether anything is open in two sessions, by their ids above the host. If
        nothing is, the guest gets a turn in both, and keeps it until they are bound."""
        wanted = self._read(host, params, pending)
        if wanted is None:
            return
        wrong = self._busy(host, wanted.sessionId, wanted.to)
        if wrong is not None:
            self._decline(host, wrong, pending)
        elif pending is not None:
            ids = dict.fromkeys((wanted.sessionId, wanted.to))
            turns = [{"turn": self._parts.own_turns.keep(host, guest, id_)} for id_ in ids]
            self._exchange.reply(pending, b"result", json_text.encode({"turns": turns}))

    def _read(self, peer: Peer, params: Params, pending: Visit | None) -> Wanted | None:
        """The params of a call; None: they cannot be read, and the call is declined."""
        wanted = _wanted.find(params)
        if wanted is None:
            self._decline(peer, "takes two ids of sessions: `sessionId` and `to`", pending)
        return wanted

    def _settle(self, asked: Rebind) -> None:
        """Binds a session, once the other session has the settings that the user has made in this
        one."""
        peer, wanted = asked.peer, asked.wanted
        lane, session, to = peer.p.other, wanted.sessionId, wanted.to
        aliases = lane.aliases or Aliases()
        fits = _is_so(aliases, wanted) or self._unfit(peer, session, to, aliases) is None
        if fits and _is_policed(peer):
            self._parts.policed.settling.bring(lane, aliases.up.get(to, to), asked)
        else:
            self.bind(asked, {})

    def bind(self, asked: Rebind, refused: Refused) -> None:
        """Binds a session. `refused`: the settings that the agent refused."""
        peer, wanted, pending = asked.peer, asked.wanted, asked.pending
        aliases = peer.p.other.aliases or Aliases()
        so = _is_so(aliases, wanted)
        wrong = None if so else self._unfit(peer, wanted.sessionId, wanted.to, aliases)
        if wrong is not None:
            self._decline(peer, wrong, pending)
        else:
            if not so:
                was = self._now(peer, wanted.sessionId)
                bound = aliases.bind(wanted.sessionId, wanted.to)
                self._parts.names.alias(peer, bound)
                self._record(peer, wanted, aliases)
                if _is_policed(peer):
                    names = partial(_called_now, aliases, bound)
                    self._parts.turns.rebound(peer.policed, names)
                    self._tell(peer, wanted.sessionId, was, refused)
            if pending is not None:
                self._exchange.reply(pending, b"result", b"{}")
        for turn in asked.turns:
            self._parts.services.perform(peer, TURN_END, turn, None)

    # -- who learns of it ------------------------------------------------------------------------

    def _now(self, peer: Peer, session: str) -> Session:
        """The record of the agent's session as which a session goes on."""
        exchange = self._exchange
        return exchange.sessions.find(self._parts.names.innermost(peer.p.other, session))

    def _record(self, peer: Peer, wanted: Wanted, before: Aliases) -> None:
        """Tells an audit as which session of the agent the user's went on before, and goes on
        now."""
        session = wanted.sessionId
        if peer.name in self._exchange.audited:
            was = before.down.get(session, session)
            shown = [json_text.encode({"sessionId": one}) for one in (was, wanted.to)]
            number, name = self._exchange.number, peer.name
            self._exchange.emit(
                Changed(
                    peer=name, change="rebound", kind="request", direction="down", method=REBIND,
                    session=session, number=number, before=shown[0], after=shown[1],
                )
            )  # fmt: skip

    def _tell(self, peer: Peer, session: str, was: Session, refused: Refused) -> None:
        """Tells the user's client the settings now, the MCP servers that are missing, and the
        settings that the agent refused."""
        now, known_as = self._now(peer, session), self._parts.names.outermost(peer.p, session)
        declared = self._exchange.sessions.find(known_as).servers
        away = peer.p.other.aliases is not None and session in peer.p.other.aliases.bound
        missing = list(declared) if away else []
        meta = {"component": peer.name, "own": away, "missing": missing}
        shows = self._parts.notifications.shows
        shows(peer, session, "session_info_update", _meta={MARK: meta})
        self.tell_settings(peer, session, was, now)
        facts = [f"without the MCP server `{one_line(name)}`" for name in missing]
        facts += [f"without what you set by `{m}`: {one_line(w)}" for (m, _), w in refused.items()]
        if facts:
            where = f"another session of the agent's, opened by `{peer.name}`" if away else "itself"
            self.say(peer, session, f"The session goes on as {where}: {'; '.join(facts)}")

    def tell_settings(
        self, peer: Peer, session: str, was: Session | Said, now: Session | Said
    ) -> None:
        """Tells the user's client the settings of a session now, in the place of a peer."""
        shows, mode = self._parts.notifications.shows, now.settings.get((SET_MODE, ""))
        if mode is not None and mode != was.settings.get((SET_MODE, "")):
            shows(peer, session, _CURRENT, currentModeId=mode)
        if now.options != was.options:
            options = [Raw(written(option)) for option in now.options]
            shows(peer, session, _OPTIONS, configOptions=options)

    def say(self, peer: Peer, session: str, text: str, level: str = "warning") -> None:
        """Tells the user a sentence, and the log too."""
        self._exchange.log(level, peer, text)
        shows = self._parts.notifications.shows
        if self._exchange.version == 2:
            shows(peer, session, "notice", severity=level, title=text)
        else:
            content = {"type": "text", "text": f"[conductor: {text}]\n\n"}
            shows(peer, session, "agent_message_chunk", content=content)

    def _decline(self, peer: Peer, wrong: str, pending: Visit | None) -> None:
        self._exchange.log("warning", peer, f"{peer.label}: `{REBIND}`: {wrong}")
        if pending is not None:
            error = Malformed(INVALID_PARAMS, f"`{REBIND}`: {wrong}", data={"service": REBIND})
            self._exchange.refuse(pending, error)

    # -- who may ---------------------------------------------------------------------------------

    def _unfit(self, peer: Peer, session: str, to: str, aliases: Aliases) -> str | None:
        """Why a component may not bind `session` to `to` now; None: it may."""
        other = aliases.up.get(to, to)
        if aliases.sets_aside(session):
            return f"`{session[:_SHOWN]}` names nothing while another session goes on as it"
        if session != to:
            if other != session and other in aliases.bound:
                return f"`{other[:_SHOWN]}` goes on as `{to[:_SHOWN]}` already: end that first"
            if len(aliases.bound) >= MOST and session not in aliases.bound:
                return f"at most {MOST} sessions may go on as others"
            if _is_policed(peer):
                wrong = self._of_others(peer, session, to)
                if wrong is not None:
                    return wrong
        return self._busy(peer, session, other)

    def _of_others(self, peer: Peer, session: str, to: str) -> str | None:
        """Why a policed component may not bind these two: `to` is to be its own session, `session`
        the client's."""
        sessions = self._exchange.sessions
        there = sessions.find(to)
        if sessions.client(to) != peer.name or there.standing is Standing.CLOSED:
            return f"`{to[:_SHOWN]}` is no session that {peer.label} has opened itself, and is open"
        known = sessions.get(self._parts.names.outermost(peer.p, session))
        if not known.known:
            return f"`{session[:_SHOWN]}` is no session that the client works in"
        if known.client or known.opened_by not in ("", peer.name):
            return f"`{session[:_SHOWN]}` is a session that a component has opened"
        if there.change is Change.MOVED or places(known) != places(there):
            return (
                f"`{to[:_SHOWN]}` works in other folders than `{session[:_SHOWN]}`\n"
                "hint: open it with the same `cwd` and `additionalDirectories`"
            )
        theirs = frozenset(map(folded, known.servers))
        if any(folded(name) in theirs or head(name) in theirs for name in there.servers):
            return (
                f"`{to[:_SHOWN]}` has an MCP server that is called like one of the user's\n"
                "hint: give yours another name"
            )
        return None

    # -- open requests ---------------------------------------------------------------------------

    def _busy(self, peer: Peer, *sessions: str) -> str | None:
        """Why two sessions, as a component calls them, cannot change places now; None: they can.

        A prompt that the component itself has been given and has not passed on may go either way.
        """
        open_ = self.open_in(peer, {self._parts.names.outermost(peer.p, one) for one in sessions})
        if open_ is None:
            return None
        return f"{open_} is open in one of the two sessions\nhint: wait until both are idle"

    def open_in(self, peer: Peer, known: set[str]) -> str | None:
        """A turn or a request that is open in one of these sessions, but for those that the
        component holds; None: nothing is open."""
        if any(self._exchange.sessions.get(one).busy for one in known):
            return "a turn"
        return self._open(peer, known)

    def _open(self, peer: Peer, known: set[str]) -> str | None:
        """A request that is open beyond the component in one of these sessions."""
        way = [there for _, there in onward(peer.p.other)]
        behind: set[Lane | None] = {each for there in way for each in (there, *there.mates)}
        for other in self._exchange.peers.values():
            for requests in other.id_spaces:
                for request in requests.received.values():
                    origin = request.origin
                    if origin is None or request.names is None:
                        continue
                    target = request.target
                    # A program sends all requests by one lane, so the target tells the direction.
                    if request.method in FOLLOWED:
                        counts = target in behind
                    elif request.method == PROMPT:
                        waits = target is None and bool(self._parts.own_turns.waiting(request))
                        counts = not waits and (target is None or target in behind)
                    else:
                        counts = origin in behind and target not in behind
                    if counts and self._parts.names.known_as(origin, request.names) in known:
                        return f"`{request.method}`"
        return None


def _is_policed(peer: Peer) -> bool:
    return peer.policy_state is not None and peer.policy_state.enforced


def _called_now(before: Aliases, now: Aliases, session: str) -> str:
    """A component's id of a session, by its former id of it."""
    below = before.down.get(session, session)
    return now.up.get(below, below)


def _is_so(aliases: Aliases, wanted: Wanted) -> bool:
    """Whether the session is bound so already."""
    return aliases.down.get(wanted.sessionId, wanted.sessionId) == wanted.to
