"""How many prompts of its own a component may send: one account for all, wherever they go.

Each component has one account with each session of the user's: for prompts there, in sessions of
the component's own that were opened for that session, and to peer agents. A prompt of the user's
fills the account, a cancellation empties it. The conductor above a host of guests keeps the
accounts: the host writes the name of the guest into the id of each prompt.
"""

from __future__ import annotations

from typing import Final

from conductor.core.effects import Violated
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Params
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import MCP_FAMILIES, PROMPT, Direction
from conductor.core.policy.sessions import guest_of
from conductor.core.policy.turns import TURNS
from conductor.core.session import MOST_PROMPTS
from conductor.core.state import Lane, Peer, Visit
from conductor.core.waits import FreePrompt

FREE_PROMPTS: Final = 4
"""The further prompts of a component that may prompt unprompted."""
ANOTHER_AFTER: Final = 600.0
"""Seconds after which the component has one of these prompts back."""


class OwnPrompts(Part):
    """The accounts of one chain."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._refused: set[str] = set()
        """The components that have been refused a prompt."""

    def user_stops(self, session: str | None) -> None:
        """The user cancels the turns of a session, or ends it."""
        if session is not None:
            self._exchange.sessions.at(session).most_prompts = 0

    def refuses(
        self, lane: Lane, session: str | None, request: Visit, *, here: bool = False
    ) -> Malformed | None:
        """Why a component's own prompt in a session does not go on by `lane`; None: it does, and
        counts.

        Args:
            here: in a host of guests, the host itself keeps the account: the conductor above cannot
            know the guest.
        """
        name, kind = self._whose(lane.peer, request, here=here)
        if not name:
            return None
        payer = self._exchange.sessions.at(self._payer(lane, session))
        sent = payer.sent.get(name, 0)
        if sent < payer.most_prompts:
            payer.sent[name] = sent + 1
            return None
        if kind == "unprompted" and self._spends_free(FreePrompt(name, payer)):
            return None
        label = lane.peer.label if name == lane.peer.name else f"`{name}`"
        text = (
            f"{label}: may send no more prompts of its own before the user's next one: it has "
            f"{MOST_PROMPTS} with each of these, and none once the user has cancelled"
        )
        policy_state = lane.peer.policy_state
        fatal = policy_state is not None and policy_state.policy.on_violation == "fail"
        again, down = name in self._refused, Direction.DOWN.value
        self._refused.add(name)
        self._exchange.emit(Violated(name, TURNS, down, PROMPT, "", text, fatal, again, session))
        data = {"rule": TURNS, "pointer": "", "component": name}
        return Malformed(INVALID_REQUEST, text, data=data)

    def samples(
        self, lane: Lane, text: Params, request: Visit, *, here: bool = False
    ) -> Malformed | None:
        """Why a message or an answer of a component's own MCP server that asks the agent's model
        does not go on; None: it does, and counts. `here`: it is an answer."""
        from conductor.core.guards.mcp_words import samplings  # few components have MCP servers

        for _ in range(samplings(text)):
            wrong = self.refuses(lane, None, request, here=here)
            if wrong is not None:
                return wrong
        return None

    def _whose(self, peer: Peer, request: Visit, *, here: bool) -> tuple[str, str]:
        """The component whose prompt this is, and the turns it may have; empty: it has no account,
        since it is trusted or kept elsewhere."""
        if self._exchange.topology.hosted and not here:
            return "", ""
        component, policy_state = peer.component, peer.policy_state
        guest = guest_of(request.key) if component.hosts else ""
        if guest:
            return (guest, component.guests[guest]) if guest in component.guests else ("", "")
        if component.hosts and component.guests:
            return component.name, ""
        if policy_state is None or not policy_state.enforced:
            return "", ""
        return (peer.launched_by or peer).name, policy_state.policy.grants.turns

    def _payer(self, lane: Lane, session: str | None) -> str:
        """The session of the user's that pays for a prompt in a session."""
        sessions = self._exchange.sessions
        if session is None:
            return sessions.latest
        if lane.port:
            return self._parts.ports.sessions(lane).payer(session) or sessions.latest
        return sessions.payer(self._parts.names.known_as(lane, session))

    def _spends_free(self, prompt: FreePrompt) -> bool:
        spent = prompt.session.spent.get(prompt.component, 0)
        if spent >= FREE_PROMPTS:
            return False
        prompt.session.spent[prompt.component] = spent + 1
        if not spent:
            self._parts.deadlines.after(ANOTHER_AFTER, prompt)
        return True

    def another(self, prompt: FreePrompt) -> None:
        """A component has one more free prompt in a session."""
        prompt.session.spent[prompt.component] -= 1
        if prompt.session.spent[prompt.component]:
            self._parts.deadlines.after(ANOTHER_AFTER, prompt)

    # -- peer agents -------------------------------------------------------------------------------

    def at_port(self, lane: Lane, params: Params, request: Visit) -> None:
        """A component asks its peer agent something; raises `Malformed` for a prompt too many."""
        wrong = None
        if request.method == PROMPT:
            wrong = self.refuses(lane, session_of(params), request)
        elif request.method.startswith(MCP_FAMILIES):
            wrong = self.samples(lane, params, request)
        if wrong is not None:
            raise wrong
