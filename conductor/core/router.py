"""The router: the calls of the shells to the core. Bytes of one peer go in, effects come out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text, jsonrpc
from conductor.core.aliases import of_json
from conductor.core.component import UPSTREAM, Component, Side
from conductor.core.dispatch import Dispatcher
from conductor.core.effects import Closure, Effects
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import Params
from conductor.core.parts import Parts, RouterOptions
from conductor.core.policy.headings import Message
from conductor.core.policy.key_table import CARRY, UPDATE
from conductor.core.policy.sessions import Sessions
from conductor.core.service_table import LAST_WORDS
from conductor.core.session import Work
from conductor.core.state import Peer

DEFAULTS: Final = RouterOptions()

_TURN: Final = b"turn:"
"""The prefix of the key of a turn."""

__all__ = ["LAST_WORDS", "Router", "RouterOptions"]


class Router:
    """Routes one chain.

    Args:
        components: the proxies, in any place the peer agents, and, in agent mode, the agent last.
        mode: `agent`, `proxy`, or `auto`: then the first request from upstream decides
            (`initialize`, or a role request).

    Raises:
        ValueError: two components have one name, or there is no agent.
    """

    def __init__(
        self,
        components: Sequence[Component],
        mode: str = "agent",
        options: RouterOptions = DEFAULTS,
    ) -> None:
        if mode != "proxy" and not components:
            raise ValueError("agent mode needs an agent")
        self._parts = parts = Parts()
        parts.options = options
        parts.exchange = self._exchange = exchange = Exchange(parts, list(components))
        depth = min(options.max_depth, jsonrpc.MAX_DEPTH)
        self._dispatcher = Dispatcher(parts, depth)
        self.peers = exchange.peers
        self.upstream = exchange.upstream
        for name, addresses in options.owned.items():
            parts.mcp_ownership.restored(self.peers.get(name), addresses)
        for peer in self.peers.values():
            if peer.s.aliases is not None:  # it had them before its host was started again
                exchange.sessions.adopted(peer.name, peer.s.aliases)
        if mode != "auto":
            exchange.topology.settle_mode(mode)

    # -- the chain -----------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """`agent`, `proxy`, or `auto` as long as the mode is open."""
        return self._exchange.topology.mode

    @property
    def version(self) -> int | None:
        """The ACP version the chain settled on, once `initialize` has been answered."""
        return self._exchange.version

    @property
    def initialized(self) -> bytes:
        """The params of the client's `initialize`, as JSON; empty: it has sent none."""
        params = self._exchange.upstream.initialize
        return bytes(params) if isinstance(params, Raw) else b""

    @property
    def addresses(self) -> AbstractSet[str]:
        """The addresses of all MCP servers and connections of the chain."""
        return self._parts.mcp_ownership.addresses

    def server_owner(self, address: str) -> str:
        """The name of the component that has declared an MCP server; empty: the client, or nobody
        that is known."""
        return self._parts.mcp_ownership.owner(address)

    @property
    def sessions(self) -> Sessions:
        """The records of all sessions, as the conversation tells them."""
        return self._exchange.sessions

    @property
    def received(self) -> int:
        """A count that each message of a peer raises."""
        return self._exchange.count

    def start(self) -> Effects:
        """Configures each component. Its effects are performed before any frame is received."""
        peers = [self.peers[component.name] for component in self._exchange.topology.components]
        for peer in peers:
            self._parts.services.configure(peer)
        return self._exchange.taken()

    def receive(self, name: str, frame: bytes) -> Effects:
        """Routes one frame (no newline needed) of the peer of a name. Never raises, whatever the
        bytes."""
        peer, exchange = self.peers[name], self._exchange
        # A closed peer is settled: its requests are withdrawn, and those it had are answered.
        if peer.closure is None:
            self._dispatcher.read(peer, frame)
        effects, exchange.effects = exchange.effects, []  # as `taken`, for each message
        return effects

    def pending(self, name: str = UPSTREAM) -> int:
        """How many requests of this peer have not been answered."""
        return sum(len(requests.received) for requests in self.peers[name].id_spaces)

    def observers(self) -> list[Peer]:
        """The peers that get copies and change nothing."""
        return [
            peer
            for peer in self.peers.values()
            if peer.closure is None and peer.policy_state and peer.policy_state.watches_only
        ]

    def observed(self) -> bool:
        """Whether all observers have taken their copies of all requests that have been answered."""
        unseen = self._parts.observers.unseen
        return all(peer.ready and not unseen(peer) for peer in self.observers())

    # -- the conductor and the client ----------------------------------------------------------

    def hold(self) -> None:
        """From now on prompts of the client wait until `release`, in order, and with them messages
        that must not overtake a prompt of their session. A cancellation answers a held prompt.
        There may be several reasons to hold: each needs its `release`."""
        self._parts.held.on += 1

    def release(self) -> Effects:
        """Takes one `hold` back; the last `release` sends on the messages that were held."""
        self._parts.held.release()
        return self._exchange.taken()

    def ask(self, method: str, params: bytes, token: int) -> Effects:
        """Sends the client a request of the conductor's own, past every proxy.

        Its answer is an `Answered` effect: an error if the client has not sent `initialize` or is
        gone, if the chain ends, and in proxy mode, which has no client.

        Args:
            params: raw JSON.
            token: the caller's own; of no other open request of this kind.
        """
        self._parts.questions.ask(method, params, token)
        return self._exchange.taken()

    def notice(self, session: str, text: str) -> Effects | None:
        """Shows the user a warning in a session, past every proxy; None: this client shows none."""
        if not self._parts.questions.shows_notices():
            return None
        update = {"sessionUpdate": "notice", "severity": "warning", "title": text}
        params = json_text.encode({"sessionId": session, "update": update})
        self._parts.questions.tell(UPDATE, params)
        return self._exchange.taken()

    def upstream_ended(self, reason: Closure) -> Effects:
        """Upstream sends nothing more; the messages that it sent go on."""
        self._parts.questions.ended(reason)
        return self._exchange.taken()

    # -- other components ----------------------------------------------------------------------

    def prepare(
        self,
        components: Sequence[Component],
        fresh: Collection[str] = (),
        audited: Collection[str] = (),
    ) -> Effects:
        """Prepares the chain that `rearrange` puts in place of this one. New components are
        configured and take their role, each under the name that `newcomer` gives; their other
        messages are refused. A `Fail` effect of such a name says that the component cannot join. A
        former preparation is forgotten.

        Args:
            components: all components of the chain from then on, in order.
            fresh: names of those that are started anew although the chain has them.
            audited: as for the router.

        Raises:
            ValueError: two components have one name; or the agent (without proxy mode, the last
            component), a peer agent, or a proxy that has launched its successor would change.
        """
        self._parts.rearranging.prepare(components, fresh, audited)
        return self._exchange.taken()

    def prepared(self) -> bool:
        """Whether all components that are to join have taken their role."""
        return self._parts.rearranging.prepared()

    def dismiss(self) -> None:
        """Forgets the chain that was prepared."""
        self._parts.rearranging.dismiss()

    def quiet(self) -> bool:
        """Whether the chain is between two messages: no request is open but those held, and nobody
        is being initialized."""
        return self._parts.rearranging.quiet()

    def at_rest(self) -> bool:
        """Whether all components are there, none holds back anything that others wait for, and none
        has or wants a turn. A message that all of them then pass on as it came goes through
        unchanged."""
        guests = [peer for peer in self.peers.values() if peer is not self.upstream]
        if self.version is None or not all(map(_is_at_rest, guests)):
            return False
        return not self._parts.own_turns.queue.any

    def knows_all_about(self, session: str | None, key: bytes) -> bool:
        """Whether a prompt of the client in this session, under the id `key`, tells the router
        nothing new, and can have that id on its whole way."""
        used = any(key in peer.p.requests.sent for peer in self.peers.values())
        used = used or key in self.upstream.s.requests.sent
        return not used and self.sessions.is_client_in(session)

    def allows_prompt(self, name: str, given: Message, sent: Params) -> bool:
        """Whether a component with a policy, which carries prompts, may pass one on with the params
        `sent`."""
        lane = self.peers[name].s
        known = lane.peer.policy_state is not None
        return known and self._parts.checks.forwards(lane, given, sent, CARRY) is None

    def pause(self, name: str, *, paused: bool) -> Effects:
        """Lets all new messages go past a proxy, or through it again.

        To be called while `quiet`: else new messages could overtake those that the proxy has. The
        proxy may finish its requests as before. It gets messages about MCP servers of its own (a
        trusted proxy: about all). A proxy with a policy may send no messages of its own. It takes
        its role as ever: `initialize` does not go past it. A proxy that is paused loses its turns.
        """
        self._parts.rearranging.pause(self.peers[name], paused=paused)
        return self._exchange.taken()

    def rearrange(
        self, reason: Closure, owned: Mapping[str, Collection[str]] | None = None
    ) -> Effects:
        """Puts the prepared chain in place of the present chain.

        Components that stay keep their state. The unfinished requests of components that go are
        settled as for a proxy that is `bypassed`. New components get their own names.

        Args:
            reason: for the requests that the components which go have not answered.
            owned: addresses of MCP servers that new hosts of guests own, by host.
        """
        self._parts.rearranging.rearrange(reason, owned or {})
        return self._exchange.taken()

    # -- peers -----------------------------------------------------------------------------------

    def closed(self, name: str, reason: Closure) -> Effects:
        """A peer is gone: the requests that wait for it are answered, and its own are withdrawn."""
        self._parts.endings.closed(self.peers[name], reason)
        return self._exchange.taken()

    def bypassed(self, name: str, reason: Closure) -> Effects:
        """A proxy is gone and the chain goes on without it."""
        self._parts.endings.bypassed(self.peers[name], reason)
        return self._exchange.taken()

    def leaving(self, name: str, reason: Closure) -> Effects:
        """A component is gone and will be started again: messages for it wait until `returned`,
        messages for an agent until the agent is where it was."""
        peer = self.peers[name]
        if peer.agent_sessions is not None:
            self._parts.reviving.leaving(peer, reason)
        else:
            self._parts.endings.leaving(peer, reason)
        return self._exchange.taken()

    def refuses_return(self, name: str) -> str | None:
        """Why this agent could not go on where it was, were it started again; None: it could, or it
        is no agent that may be started again."""
        peer = self.peers[name]
        if peer.agent_sessions is not None:
            return peer.agent_sessions.unable
        if not peer.component.revived:
            return None
        from conductor.core.agent_sessions import NOT_BEGUN  # few chains need it

        return NOT_BEGUN  # not even the client has said that this is the agent

    def loaded(self, name: str) -> Effects:
        """A host reports that it has loaded its guests: from now on they can be too slow."""
        self._parts.deadlines.loaded(self.peers[name])
        return self._exchange.taken()

    def loading(self, name: str | None = None) -> bool:
        """Whether this host still loads its guests; None: whether any does."""
        peers = self.peers.values() if name is None else (self.peers[name],)
        return any(peer.loading and peer.closure is None for peer in peers)

    def faltered(self, name: str, *, goes_on: bool) -> None:
        """A host reports that its only guest has failed; the host's answers in the guest's stead
        break no rule.

        Args:
            goes_on: the chain goes on.
        """
        if name in self.peers:
            self._parts.endings.faltered(self.peers[name], goes_on=goes_on)

    def returned(self, name: str) -> Effects:
        """A component that was `leaving` is up again; it is configured and initialized anew."""
        peer = self.peers[name]
        peer.starts += 1
        self._parts.services.configure(peer)
        if peer.agent_sessions is not None:
            self._parts.reviving.returned(peer)
        else:
            self._parts.endings.returned(peer)
        return self._exchange.taken()

    def has_role(self, name: str) -> bool:
        """Whether this peer has taken its role, or nobody waits until it has; else its end would
        fail the initialization."""
        peer = self.peers[name]
        awaited = peer.handshake is not None and not peer.restarting and peer.shadow is None
        return peer.initialize is not None and not awaited

    def may_retry(self, name: str) -> bool:
        """Whether a proxy without its role could still take it, if it were started again."""
        return self._parts.endings.may_retry(self.peers[name])

    def waiting_on(self, name: str) -> list[tuple[bytes, str]]:
        """The requests that this peer has not answered and somebody waits for.

        Returns:
            For each its key (for `expire` and `end_turn`) and its method.
        """
        return [
            (b"%d:%b" % (at, key), pending.method)
            for at, requests in enumerate(self.peers[name].id_spaces)
            for key, pending in requests.sent.items()
            if pending.wanted
        ]

    def expire(self, name: str, key: bytes, reason: Closure) -> Effects:
        """A request has waited too long: it is failed and cancelled. `key`: from `waiting_on`."""
        self._parts.endings.expire(self.peers[name], key, reason)
        return self._exchange.taken()

    def heard(self, name: str) -> int | None:
        """The number of the last message from an agent with limited turns; None while it waits
        for an answer itself, say of the user."""
        peer = self.peers[name]
        return None if any(requests.received for requests in peer.id_spaces) else peer.last_number

    def turns(self, name: str) -> list[bytes]:
        """Version 2: keys of the turns that run in an agent with limited turns."""
        peer = self.peers[name]
        known = self._parts.names.sessions_of(peer) if peer.component.limited else ()
        works = (one for one in known if one.work in (Work.RUNS, Work.STOPS))
        runs = (one.name for one in works if self._parts.names.is_at(peer, one))
        return [_TURN + name.encode(errors="surrogatepass") for name in runs]

    def end_turn(self, name: str, key: bytes, reason: Closure) -> Effects:
        """Nothing moves in a turn of an agent: the turn is cancelled, and its prompt is failed.

        In version 2 the prompt has its answer: the client gets a notice instead. If the agent does
        not end the turn then, the next call does.

        Args:
            key: from `waiting_on` or `turns`.
        """
        if key.startswith(_TURN):
            session = key.removeprefix(_TURN).decode(errors="surrogatepass")
            self._parts.endings.end_turn(self.peers[name], session, reason)
        else:
            self._parts.endings.end_prompt(self.peers[name], key, reason)
        return self._exchange.taken()

    def abandon(self, reason: Closure) -> Effects:
        """Answers each request that upstream waits for, and each question to upstream: the chain is
        over."""
        self._parts.endings.abandon(reason)
        self._parts.questions.ended(reason)
        return self._exchange.taken()

    def overdue(self, why: str, hint: str) -> tuple[Closure | None, Effects]:
        """Like `abandon`, but each error names the peer that has not answered. Also returns the
        first reason."""
        return self._parts.endings.overdue(why, hint), self._exchange.taken()

    def skipped(self, name: str, head: bytes, why: str) -> Effects:
        """A line of `name` was too long to be taken. `head`: its first bytes."""
        self._parts.oversize.skipped(self.peers[name], head, why)
        return self._exchange.taken()

    def undeliverable(self, name: str, frame: bytes, why: str) -> Effects:
        """A frame sent to `name` was refused by its transport; never raises."""
        self._parts.oversize.undeliverable(self.peers[name], frame, why)
        return self._exchange.taken()

    def delivering(self, name: str) -> None:
        """A guest is about to get everything that was sent to it: its round begins."""
        policy_state = self.peers[name].policy_state
        if policy_state is not None:
            policy_state.round += 1
            policy_state.rounds = True

    def delivered(self, name: str) -> Effects:
        """The round of a guest is over: it has returned all that it had to."""
        peer = self.peers[name]
        if peer.policy_state is not None:
            self._parts.notifications.round_over(peer)
        return self._exchange.taken()

    def settled(self, name: str) -> Effects:
        """A peer that ends with its chain returns nothing more: an audit reports the messages that
        it has not passed on as dropped."""
        self._parts.notifications.settled(self.peers[name])
        return self._exchange.taken()

    def resolved(self, token: int, folders: tuple[str, ...], theirs: tuple[str, ...]) -> Effects:
        """A `Resolve` effect was performed. Both lists name the real folders; they are empty where
        the agent is on another machine."""
        self._parts.own_folders.resolved(token, folders, theirs)
        return self._exchange.taken()

    def recalled(self, token: int, records: Sequence[tuple[str, bytes]]) -> Effects:
        """A `Recall` effect was performed: each record with its session, the oldest first."""
        self._parts.replays.recalled(token, records)
        return self._exchange.taken()

    def woken(self, token: int) -> Effects:
        """The time of a `Wake` effect is over."""
        self._parts.deadlines.woken(token)
        return self._exchange.taken()

    def asker(self, name: str, side: str, key: bytes) -> tuple[str, str] | None:
        """The asker's name and its id of a request that a peer got on a side under the id `key`;
        None if that request is not open."""
        lane = self.peers[name].lane(Side(side))
        pending = lane.requests.sent.get(key)
        if pending is None or pending.origin is None:
            return None
        return pending.origin.peer.name, pending.raw_id.decode()

    def neighbour(self, name: str, side: str) -> str | None:
        """The neighbour of a peer on a side; None: there is none, or messages may go past it."""
        across = self.peers[name].lane(Side(side)).across
        return None if across is None or across.peer.policy_state is not None else across.peer.name

    def forget_lost(self, name: str) -> int:
        """How many copies an observer missed since the last call, because it was not ready; 0 for a
        peer that is no observer."""
        peer = self.peers.get(name)
        if peer is None or peer.policy_state is None:
            return 0
        lost, peer.policy_state.lost = peer.policy_state.lost, 0
        return lost

    def aliased(self, name: str, aliases: Sequence[bytes]) -> None:
        """The guests of a host have these aliases from now on, each as it keeps them, in order."""
        found = (of_json(Raw(one)) for one in aliases)
        self.peers[name].inside = tuple(one for one in found if one is not None)

    def served(self, token: int, result: bytes | None, error: bytes | None = None) -> Effects:
        """A `Serve` effect was performed: raw JSON of the result, or of an error object."""
        self._parts.services.served(token, result, error)
        return self._exchange.taken()

    def relayed(
        self, name: str, guest: str, call: str, params: bytes, token: int | None
    ) -> Effects:
        """A host relays a call of one of its guests about a turn, or `rebind`, by a `Serve` effect
        with this token."""
        self._parts.services.relayed(self.peers[name], guest, call, params, token)
        return self._exchange.taken()

    def tell(self, name: str, method: str, params: bytes) -> Effects:
        """Sends a proxy a notification of the conductor's own, if the proxy is ready."""
        peer = self.peers[name]
        if peer.ready:
            self._parts.services.tell(peer, method, params)
        return self._exchange.taken()

    def reserve(self, names: Collection[str]) -> None:
        """More names of MCP servers, as `reserved` at the start, that only their owners may use."""
        self._exchange.reserve(names)

    def reconfigure(self, name: str, params: bytes) -> Effects:
        """A proxy's configuration has changed: it gets it now, and whenever it is started again."""
        peer = self.peers[name]
        peer.component = msgspec.structs.replace(peer.component, configure=params)
        if peer.ready:
            self._parts.services.configure(peer)
        return self._exchange.taken()

    def written(self, name: str, set_by: dict[str, dict[str, str]]) -> None:
        """The settings of a component are written at other places by now, which `set_by` names."""
        peer = self.peers[name]
        peer.component = msgspec.structs.replace(peer.component, set_by=set_by)

    def reopened(self, name: str) -> Effects:
        """The peer named by a `Reopen` effect is up again (or has failed, and is closed)."""
        peer = self.peers[name]
        if peer.closure is not None:
            return []
        self._parts.services.configure(peer)
        assert peer.handshake is not None
        self._parts.initializer.attempt(peer, peer.handshake)
        return self._exchange.taken()

    def listening(self, name: str, server: bytes) -> Effects:
        """A `Listen` effect was performed: raw JSON of a stdio server entry."""
        self._parts.detection.listening(self.peers[name], server)
        return self._exchange.taken()

    def not_launching(self, name: str) -> Effects:
        """Some time has passed since a `Listen` effect: a peer that launches its successor would
        have begun to."""
        self._parts.detection.not_launching(self.peers[name])
        return self._exchange.taken()


def _is_at_rest(peer: Peer) -> bool:
    """Whether a component is there, holds back nothing that others wait for, and has no turn."""
    policy_state, lanes = peer.policy_state, (peer.p, peer.s)
    if not peer.ready or peer.closure is not None or peer.backlog:
        return False
    if policy_state is not None and (policy_state.paused or policy_state.own_turns):
        return False
    return not any(
        lane.in_flight.queue or lane.in_flight.unforwarded.items or lane.renames for lane in lanes
    )
