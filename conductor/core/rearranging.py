"""The components of a running chain change, between two messages.

New components take their role before they join the chain. Each gets the `initialize` that its
predecessor passed on, and the one that it passes on itself is answered as its successor answered
before. So nobody else takes part, and a component that cannot take its role never joins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from conductor.core.component import Component, Role, newcomer
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.policy_state import PolicyState
from conductor.core.roles.initialize import is_waited_for, successor_name
from conductor.core.state import Answer, AnswerTo, Life, Peer, unread

_NOT_USED: Final = Closure("it is not used")


class Rearranging(Part):
    """The part of a router that changes which components its chain has, and their order."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._topology = parts.exchange.topology
        self._peers = parts.exchange.peers
        self._order: Sequence[Component] = ()
        self._new: dict[str, Peer] = {}
        """The components that are to join, by name."""

    # -- before --------------------------------------------------------------------------------

    def prepare(
        self, components: Sequence[Component], fresh: Collection[str], audited: Collection[str]
    ) -> None:
        """See `conductor.core.router.Router.prepare`."""
        self._check(components, fresh)
        self.dismiss()
        self._exchange.audited |= frozenset(audited)
        self._order = components
        watched = self._exchange.audited
        for component in components:
            name = component.name
            former = self._peers.get(name)
            if former is None or name in fresh:
                alias = msgspec.structs.replace(
                    component, name=newcomer(name), label=component.label or f"`{name}`"
                )
                watch = self._exchange.watches_all or name in watched
                peer = Peer(alias, Role.PROXY, watched=watch)
                peer.joined = False
                if former is not None:
                    peer.kept, peer.starts = former.kept, former.starts + 1
                self._peers[peer.name] = self._new[name] = peer
        for name, peer in self._new.items():
            self._parts.services.configure(peer)
            self._give_role(name, peer)

    def _check(self, components: Sequence[Component], fresh: Collection[str]) -> None:
        names = [component.name for component in components]
        if len(set(names)) != len(names):
            raise ValueError("two components have the same name")
        before = self._topology.components
        if self._topology.mode != "proxy" and (
            names[-1:] != [before[-1].name] or before[-1].name in fresh
        ):
            raise ValueError("the agent cannot change")
        former = [one.name for one in before]
        changed = [one for one in (*components, *before) if one.peer_agent]
        if any(one.name in fresh or not {one.name} <= {*names} & {*former} for one in changed):
            raise ValueError("a peer agent cannot change")
        gone = [name for name in former if name not in names or name in fresh]
        for name in gone:
            launched = self._peers.get(successor_name(name))
            if launched is not None and launched.closure is None:
                raise ValueError(f"`{name}` has launched its successor itself")

    def _give_role(self, name: str, peer: Peer) -> None:
        """Initializes a new component, if the chain is initialized."""
        given = self._recorded(name)
        if given is None:
            return
        peer.initialize, peer.recorded_answer = given
        peer.move(Life.RESTARTING)
        self._parts.endings.takes_role(peer, peer.initialize, unread(INITIALIZE))

    def _recorded(self, name: str) -> tuple[Params, Answer] | None:
        """For a place in the new order: the `initialize` that the neighbour before it passed on,
        and the answer of the neighbour behind it; None: there is none yet."""
        names = [component.name for component in self._order if not component.peer_agent]
        place = names.index(name)
        upstream = self._exchange.upstream
        before = [upstream, *(self._former(one) for one in names[:place])]
        after = [*(self._former(one) for one in names[place + 1 :]), upstream]
        passed = [p.initialize if p.passed is None else p.passed for p in before]
        given = [params for params in passed if params is not None]
        answers = [p.answered for p in after if p.answered is not None]
        if not given or not answers or answers[0][0] != b"result":
            return None
        return given[-1], answers[0]

    def _former(self, name: str) -> Peer:
        """The component of a name; a new component has recorded nothing yet."""
        return self._new.get(name) or self._peers[name]

    def prepared(self) -> bool:
        """Whether all new components have taken their role."""
        return not any(peer.restarting for peer in self._new.values())

    def dismiss(self) -> None:
        """Forgets the components that were to join."""
        for name, peer in self._new.items():
            peer.move(Life.GONE, _NOT_USED)
            self._parts.endings.withdraw(peer)
            del self._peers[peer.name]
            self._peers.pop(successor_name(newcomer(name)), None)
        self._new.clear()
        self._exchange.taken()  # nobody waits for the effects of their requests

    def quiet(self) -> bool:
        """Whether no request is open anywhere in the chain, but those held."""
        upstream = self._exchange.upstream
        received = sum(len(requests.received) for requests in upstream.id_spaces)
        return received == self._parts.held.count and all(
            _idle(peer, is_upstream=peer is upstream)
            for peer in self._peers.values()
            if peer.joined and peer.closure is None
        )

    def pause(self, peer: Peer, *, paused: bool) -> None:
        """See `conductor.core.router.Router.pause`."""
        policed = (peer.component.policy or peer.component.judge) is not None
        watched = self._exchange.watches_all or peer.name in self._exchange.audited
        if peer.policy_state is None or (not paused and not policed and not watched):
            # Without a policy state nobody looks at messages to the peer; a state that only
            # watches lets the peer do all that it might do before.
            state = PolicyState(None, peer.name) if paused else None
            peer.policy_state = state
            launched = self._peers.get(successor_name(peer.name))
            if launched is not None:
                launched.policy_state = state
            closed = [one for one in self._peers.values() if one.closure is not None]
            self._topology.join_all(closed)
        if peer.policy_state is not None:
            peer.policy_state.paused = paused
        if paused:
            self._parts.own_turns.gone(peer)

    # -- the step ------------------------------------------------------------------------------

    def rearrange(self, reason: Closure, owned: Mapping[str, Collection[str]]) -> None:
        """See `conductor.core.router.Router.rearrange`."""
        chain = [one.name for one in self._topology.components if not one.peer_agent]
        before = [self._peers[name] for name in chain]
        names = {component.name for component in self._order}
        gone = [p for p in before if p.name in self._new or p.name not in names]
        for peer in gone:
            del self._peers[peer.name]
            self._peers.pop(successor_name(peer.name), None)
        instead = {peer.name: peer for peer in gone}
        for name, peer in self._new.items():
            if name in instead:
                peer.s.aliases = instead[name].p.other.aliases
            self._join(name, peer)
        self._topology.components = self._order
        self._topology.join_all([peer for peer in before if peer.closure is not None])
        self._exchange.reserve_names(self._order)
        joined, self._new = self._new, {}
        for name, peer in joined.items():
            self._parts.mcp_ownership.handed_over(None, peer.policy_state)
            self._parts.mcp_ownership.restored(peer, owned.get(name, ()))
        for peer in gone:
            peer.deaf = True  # messages to its name are for the component in its place from now on
            self._leave(peer, before, gone, joined.get(peer.name))
        for peer in gone:
            self._parts.endings.removed(peer, reason)
        for name, peer in joined.items():
            if peer.initialize is None:  # the client has sent its own meanwhile
                self._give_role(name, peer)

    def _join(self, name: str, peer: Peer) -> None:
        """A new component gets its name."""
        del self._peers[peer.name]
        peer.component = msgspec.structs.replace(peer.component, name=name)
        peer.name, peer.joined = name, True
        if peer.policy_state is not None:
            peer.policy_state.name = name
        self._peers[name] = peer
        if peer.handshake is not None:
            self._parts.initializer.has_time(peer, peer.handshake)
        launched = self._peers.pop(successor_name(newcomer(name)), None)
        if launched is not None:
            launched.name, launched.joined = successor_name(name), True
            self._peers[launched.name] = launched

    def _leave(
        self, peer: Peer, before: Sequence[Peer], gone: Sequence[Peer], instead: Peer | None
    ) -> None:
        """Messages that still leave a component that goes reach the nearest neighbours that
        stay."""
        place = before.index(peer)
        above = [p for p in before[:place] if p not in gone and p.closure is None]
        below = [p for p in before[place + 1 :] if p not in gone and p.closure is None]
        upstream = self._exchange.upstream
        if self._topology.mode != "auto":
            peer.p.across = above[-1].p.other if above else upstream.p
            peer.s.across = below[0].p if below else upstream.s
        after = instead.policy_state if instead is not None else None
        self._parts.mcp_ownership.handed_over(peer.policy_state, after)


def _idle(peer: Peer, *, is_upstream: bool) -> bool:
    """Whether nothing waits for a peer, and it waits for nothing."""
    in_flight = peer.p.in_flight.queue or peer.s.in_flight.queue
    is_starting = peer.handshake is not None and is_waited_for(peer)
    if is_starting or peer.backlog or in_flight:
        return False
    return not any(
        (requests.received and not is_upstream)
        or any(p.wanted and p.answer_to is not AnswerTo.ROLE for p in requests.sent.values())
        for requests in peer.id_spaces
    )
