"""The parts of one router, by name: each of them finds the others here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core.dialects import Dialect
from conductor.core.jsonrpc import MAX_DEPTH

if TYPE_CHECKING:
    import conductor.core.answers
    import conductor.core.early_updates
    import conductor.core.editor
    import conductor.core.endings
    import conductor.core.exchange
    import conductor.core.held_prompts
    import conductor.core.logins
    import conductor.core.moving
    import conductor.core.oversize
    import conductor.core.own_folders
    import conductor.core.own_turns
    import conductor.core.policy.cancellations
    import conductor.core.policy.checks
    import conductor.core.policy.handshake
    import conductor.core.policy.notifications
    import conductor.core.policy.observers
    import conductor.core.policy.ownership
    import conductor.core.policy.requests
    import conductor.core.policy.turns
    import conductor.core.ports
    import conductor.core.questions
    import conductor.core.rearranging
    import conductor.core.rebinding
    import conductor.core.rejections
    import conductor.core.replays
    import conductor.core.requests
    import conductor.core.reviving
    import conductor.core.roles.detection
    import conductor.core.roles.initialize
    import conductor.core.services
    import conductor.core.session_names
    import conductor.core.waits


class RouterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one router works."""

    upstream: Dialect | None = None
    """The dialect spoken with an outer conductor, where it is known beforehand."""
    logging: bool = False
    """Whether `Entry` effects are made."""
    tracing: bool = False
    """Whether `Entry` effects are made that also name the messages which components without a
    policy pass on. These components are watched for it."""
    audited: Collection[str] = ()
    """The components of which `Changed` effects are made."""
    owned: Mapping[str, Collection[str]] = {}
    """Addresses of MCP servers that a former router knew, by the component that owns them."""
    reserved: Collection[str] = ()
    """Names of MCP servers, besides those of the components, that only their owners may use."""
    first_number: int = 0
    """The first number of messages in a host of guests that reports the messages between them
    (`conductor.core.tracing`)."""
    propagating: bool = False
    """Whether requests to the agent are `Propagate` effects."""
    resolving: bool = False
    """Whether the folders of sessions that components open are `Resolve` effects."""
    keeping: bool = False
    """Whether `Keep` and `Recall` effects are made, where there is a client and an agent."""
    max_depth: int = MAX_DEPTH
    """How deep a frame may nest, at most `jsonrpc.MAX_DEPTH`."""


_OF_CLIENTS: Final = ("early", "logins", "moving", "own_folders", "replays", "reviving")
"""The parts that only a client's end needs: a host of guests has none."""

_OF_SESSIONS: Final = (
    *("answers", "cancellations", "checks", "deadlines", "early", "handshake", "held"),
    *("initializer", "logins", "mcp_ownership", "names", "notifications", "own_folders"),
    *("own_turns", "policed", "replays", "requests", "services", "turns", "waits"),
)
"""The parts that each session needs."""

_BESIDE: Final = (
    *(f"conductor.core.guards.{name}" for name in ("capabilities", "modes", "servers")),
    "json",
)
"""The modules that each session needs beside its parts."""


def modules(*, client: bool) -> list[str]:
    """The modules of all parts, and those that each session needs beside them. `client`: with the
    parts of a client's end."""
    return [*_modules(_MADE, client=client), *_BESIDE]


def load(*, client: bool) -> None:
    """Loads the modules that each session needs."""
    for module in (*_modules(_OF_SESSIONS, client=client), *_BESIDE):
        import_module(module)


def _modules(names: Iterable[str], *, client: bool) -> Iterator[str]:
    for name in names:
        if client or name not in _OF_CLIENTS:
            yield _MADE[name].rpartition(".")[0]


class Part:
    """One part of a router, which finds the others by `parts`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange


class Parts:
    """All parts of one router, which makes them."""

    options: RouterOptions
    exchange: conductor.core.exchange.Exchange
    # Policies of components.
    checks: conductor.core.policy.checks.Checks
    deadlines: conductor.core.waits.Deadlines
    observers: conductor.core.policy.observers.Observers
    mcp_ownership: conductor.core.policy.ownership.McpOwnership
    turns: conductor.core.policy.turns.Turns
    cancellations: conductor.core.policy.cancellations.Cancellations
    notifications: conductor.core.policy.notifications.PolicedNotifications
    policed: conductor.core.policy.requests.PolicedRequests
    handshake: conductor.core.policy.handshake.PolicedHandshake
    # Turns of components.
    own_turns: conductor.core.own_turns.OwnTurns
    held: conductor.core.held_prompts.HeldPrompts
    # How components take their roles, and leave.
    initializer: conductor.core.roles.initialize.Initializer
    detection: conductor.core.roles.detection.Detection
    endings: conductor.core.endings.Endings
    rearranging: conductor.core.rearranging.Rearranging
    # Messages that pass.
    requests: conductor.core.requests.Requests
    answers: conductor.core.answers.Answers
    rejections: conductor.core.rejections.Rejections
    names: conductor.core.session_names.SessionNames
    ports: conductor.core.ports.Ports
    services: conductor.core.services.Services
    rebinding: conductor.core.rebinding.Rebinding
    questions: conductor.core.questions.Questions
    editor: conductor.core.editor.EditorMessages
    oversize: conductor.core.oversize.Oversize
    logins: conductor.core.logins.Logins
    moving: conductor.core.moving.Moving
    reviving: conductor.core.reviving.Reviving
    replays: conductor.core.replays.Replays
    # Messages that wait.
    waits: conductor.core.waits.Waits
    early: conductor.core.early_updates.EarlyUpdates
    own_folders: conductor.core.own_folders.OwnFolders

    if not TYPE_CHECKING:  # pragma: no branch - else every name would be that of a part

        def __getattr__(self, name: str) -> object:
            module, _, kind = _MADE[name].rpartition(".")
            part = getattr(import_module(module), kind)(self)
            setattr(self, name, part)
            return part


_MADE: Final = {name: at for name, at in Parts.__annotations__.items() if "." in at}
"""The place of the class of each part. A part is made when somebody first asks for it: the first
message of a chain needs few parts, and an editor waits for its answer."""
