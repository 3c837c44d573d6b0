"""The parts of one router, by name: each of them finds the others here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core.dialects import Dialect
from conductor.core.jsonrpc import MAX_DEPTH

if TYPE_CHECKING:
    from conductor.core.answers import Answers
    from conductor.core.early_updates import EarlyUpdates
    from conductor.core.editor import EditorMessages
    from conductor.core.endings import Endings
    from conductor.core.exchange import Exchange
    from conductor.core.held_prompts import HeldPrompts
    from conductor.core.logins import Logins
    from conductor.core.moving import Moving
    from conductor.core.oversize import Oversize
    from conductor.core.own_folders import OwnFolders
    from conductor.core.own_turns import OwnTurns
    from conductor.core.policy.cancellations import Cancellations
    from conductor.core.policy.checks import Checks
    from conductor.core.policy.handshake import PolicedHandshake
    from conductor.core.policy.notifications import PolicedNotifications
    from conductor.core.policy.observers import Observers
    from conductor.core.policy.ownership import McpOwnership
    from conductor.core.policy.requests import PolicedRequests
    from conductor.core.policy.turns import Turns
    from conductor.core.ports import Ports
    from conductor.core.questions import Questions
    from conductor.core.rearranging import Rearranging
    from conductor.core.rebinding import Rebinding
    from conductor.core.rejections import Rejections
    from conductor.core.replays import Replays
    from conductor.core.requests import Requests
    from conductor.core.reviving import Reviving
    from conductor.core.roles.detection import Detection
    from conductor.core.roles.initialize import Initializer
    from conductor.core.services import Services
    from conductor.core.session_names import SessionNames
    from conductor.core.waits import Deadlines, Waits


class RouterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one router works."""

    upstream: Dialect | None = None
    """The dialect spoken with an outer conductor, where it is known beforehand."""
    logging: bool = False
    """Whether `Entry` effects are made."""
    tracing: bool = False
    """The same, and they say what components without a policy pass on, which are watched for it."""
    audited: Collection[str] = ()
    """The components of which `Changed` effects are made."""
    owned: Mapping[str, Collection[str]] = {}
    """Addresses of MCP servers that a former router knew, by the component that owns them."""
    reserved: Collection[str] = ()
    """Names of MCP servers, besides those of the components, that only their owners may use."""
    first_number: int = 0
    """Where the numbers of messages begin in a host of guests that reports what passes between
    them (`conductor.core.tracing`)."""
    propagating: bool = False
    """Whether requests to the agent are `Propagate` effects."""
    resolving: bool = False
    """Whether the folders of sessions that components open are `Resolve` effects."""
    keeping: bool = False
    """Whether `Keep` and `Recall` effects are made, where there is a client and an agent."""
    max_depth: int = MAX_DEPTH
    """How deep a frame may nest, at most `jsonrpc.MAX_DEPTH`."""


_MADE: Final = {
    "answers": "answers:Answers",
    "cancellations": "policy.cancellations:Cancellations",
    "checks": "policy.checks:Checks",
    "deadlines": "waits:Deadlines",
    "detection": "roles.detection:Detection",
    "early": "early_updates:EarlyUpdates",
    "editor": "editor:EditorMessages",
    "endings": "endings:Endings",
    "handshake": "policy.handshake:PolicedHandshake",
    "held": "held_prompts:HeldPrompts",
    "initializer": "roles.initialize:Initializer",
    "logins": "logins:Logins",
    "mcp_ownership": "policy.ownership:McpOwnership",
    "moving": "moving:Moving",
    "names": "session_names:SessionNames",
    "notifications": "policy.notifications:PolicedNotifications",
    "observers": "policy.observers:Observers",
    "oversize": "oversize:Oversize",
    "own_folders": "own_folders:OwnFolders",
    "own_turns": "own_turns:OwnTurns",
    "policed": "policy.requests:PolicedRequests",
    "ports": "ports:Ports",
    "questions": "questions:Questions",
    "rearranging": "rearranging:Rearranging",
    "rebinding": "rebinding:Rebinding",
    "rejections": "rejections:Rejections",
    "replays": "replays:Replays",
    "requests": "requests:Requests",
    "reviving": "reviving:Reviving",
    "services": "services:Services",
    "turns": "policy.turns:Turns",
    "waits": "waits:Waits",
}
"""Where the class of each part is. A part is made when somebody first asks for it: the first
message of a chain needs few parts, and an editor waits for its answer."""

_OF_CLIENTS: Final = ("early", "logins", "moving", "own_folders", "replays", "reviving")
"""Those that only a client's end needs: no host of guests has that."""

_OF_SESSIONS: Final = (
    *("answers", "cancellations", "checks", "deadlines", "early", "handshake", "held"),
    *("initializer", "logins", "mcp_ownership", "names", "notifications", "own_folders"),
    *("own_turns", "policed", "replays", "requests", "services", "turns", "waits"),
)
"""Those that each session needs."""

_BESIDE: Final = (
    *(f"conductor.core.guards.{name}" for name in ("capabilities", "modes", "servers")),
    "json",
)
"""What each session needs beside its parts."""


def modules(*, client: bool) -> list[str]:
    """The modules of all of them, and what else waits for a session. `client`: of a client's
    end."""
    return [*_modules(_MADE, client=client), *_BESIDE]


def load(*, client: bool) -> None:
    """Loads what each session needs."""
    for module in (*_modules(_OF_SESSIONS, client=client), *_BESIDE):
        import_module(module)


def _modules(names: Iterable[str], *, client: bool) -> Iterator[str]:
    for name in names:
        if client or name not in _OF_CLIENTS:
            yield f"conductor.core.{_MADE[name].partition(':')[0]}"


class Part:
    """One part of a router, which finds the others by `parts`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._exchange = parts.exchange


class Parts:
    """All parts of one router, which makes them."""

    options: RouterOptions
    exchange: Exchange
    # What polices components.
    checks: Checks
    deadlines: Deadlines
    observers: Observers
    mcp_ownership: McpOwnership
    turns: Turns
    cancellations: Cancellations
    notifications: PolicedNotifications
    policed: PolicedRequests
    handshake: PolicedHandshake
    # What gives them turns.
    own_turns: OwnTurns
    held: HeldPrompts
    # How components take their roles, and leave.
    initializer: Initializer
    detection: Detection
    endings: Endings
    rearranging: Rearranging
    # What passes.
    requests: Requests
    answers: Answers
    rejections: Rejections
    names: SessionNames
    ports: Ports
    services: Services
    rebinding: Rebinding
    questions: Questions
    editor: EditorMessages
    oversize: Oversize
    logins: Logins
    moving: Moving
    reviving: Reviving
    replays: Replays
    # What waits.
    waits: Waits
    early: EarlyUpdates
    own_folders: OwnFolders

    if not TYPE_CHECKING:  # pragma: no branch - else every name would be that of a part

        def __getattr__(self, name: str) -> object:
            module, _, kind = _MADE[name].partition(":")
            part = getattr(import_module(f"conductor.core.{module}"), kind)(self)
            setattr(self, name, part)
            return part
