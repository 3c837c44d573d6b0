"""Terminals of the editor's that a component has opened: those it may use, and no others.

A component owns the id that the answer to its own `terminal/create` names, in that session, until
it releases the terminal, somebody else gets that id, or the session ends.
"""

from __future__ import annotations

from typing import Final

from conductor.core.guards.reading import as_object, value_of
from conductor.core.policy.headings import Message
from conductor.core.policy.policy_state import PolicyState
from conductor.core.state import Seen, Visit

CREATE: Final = "terminal/create"
RELEASE: Final = "terminal/release"
FOLLOWED: Final = frozenset((CREATE, RELEASE))
"""The requests that open a terminal, and end it."""
_ID: Final = "terminalId"
_MOST: Final = 1024
"""Terminals of one component in one session; the first one is forgotten first."""


def asked(policy_state: PolicyState, message: Message, pending: Visit) -> None:
    """A component's own request of `FOLLOWED` goes on."""
    session = message.session or ""
    if message.method == CREATE:
        pending.followers = (*pending.followers, Seen(policy_state, session, own=True))
    else:
        _forget(policy_state, session, as_object(value_of(message.params)).get(_ID))


def went_past(policy_state: PolicyState, message: Message, pending: Visit) -> None:
    """A `terminal/create` of somebody else's goes past a component."""
    if policy_state.terminals:
        session = message.session or ""
        pending.followers = (*pending.followers, Seen(policy_state, session, own=False))


def opened(asked: Seen, member: bytes, body: bytes) -> None:
    """A `terminal/create` is answered."""
    terminal = as_object(value_of(body)).get(_ID) if member == b"result" else None
    if not asked.own:
        _forget(asked.policy_state, asked.session, terminal)
    elif isinstance(terminal, str):
        own = asked.policy_state.terminals.setdefault(asked.session, {})
        own[terminal] = None
        if len(own) > _MOST:
            del own[next(iter(own))]


def _forget(policy_state: PolicyState, session: str, terminal: object) -> None:
    own = policy_state.terminals.get(session, {})
    if isinstance(terminal, str):
        own.pop(terminal, None)
