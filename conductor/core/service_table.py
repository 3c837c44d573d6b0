"""The table of services: the calls of proxies, who performs each, and how the user grants it.

Everything that lists services draws from this table or is checked against it: the router's grants,
both performers (`conductor/services/local.py`, `conductor/services/executor.py`), `conductor
inspect`, the Python SDK and the table of docs/architecture.md#the-channel.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

TURN_BEGIN: Final = "turn/begin"
TURN_END: Final = "turn/end"
REBIND: Final = "rebind"
"""Has a session go on as another below the component (`conductor.core.aliases`)."""
USE_AGENT: Final = "agent/use"
"""Has a session go on with another agent (`conductor.core.moving`)."""
PAYLOAD_READ: Final = "payload/read"


class Performer(enum.Enum):
    """Who performs a call, and where."""

    ROUTER = "router"
    """`conductor.core.services.Services` answers it itself."""
    HOST = "host"
    """`LocalServices`, in the process that runs the proxy: nothing outside is needed."""
    LOOP = "loop"
    """`ServiceExecutor`, at once, on the conductor's event loop."""
    THREAD = "thread"
    """`ServiceExecutor`, in a thread, since it blocks."""
    TASK = "task"
    """`ServiceExecutor`, in a task, since it waits for the network."""


class Call(msgspec.Struct, frozen=True):
    """One row: a method that proxies may call on side `c`, or as `_conductor/NAME`."""

    name: str
    performer: Performer
    grant: str
    """How the user grants it: a service, with `:SCOPE` where needed; empty: always granted."""
    params: str
    """The params, as docs/architecture.md#the-channel shows them; so is `result`."""
    result: str
    summary: str
    most: int | None = None
    """Bytes of params; None: the component's limit `service_bytes`."""
    outside: str = ""
    """The member of its params that tells an audit where outside of the chain it has an effect;
    empty: it has none."""

    @property
    def service(self) -> str:
        """The service it is a part of: users grant it under that name."""
        return self.grant.partition(":")[0] or self.name.partition("/")[0]


TABLE: Final = (
    Call(
        "clock",
        Performer.HOST,
        "clock",
        "none",
        "`unixMs`, `iso`, `date`, `time`, `weekday`, `timezone`",
        "the time",
    ),
    Call(
        "random",
        Performer.HOST,
        "random",
        '`{"bytes": N}`, 1 to 4096, 16 if left out',
        '`{"hex": …}`, 2·N digits',
        "random bytes",
    ),
    Call(
        "log",
        Performer.HOST,
        "",
        '`{"level", "message", "data"}`',
        "`null`",
        "writes a line to the log",
    ),
    Call(
        "metric",
        Performer.LOOP,
        "",
        '`{"name", "value", "kind", "labels"}`',
        "`null`",
        "counts, for `metrics`",
    ),
    Call(
        "timer/start",
        Performer.LOOP,
        "timer",
        '`{"afterMs", "everyMs", "data"}`',
        '`{"timer": ID}`',
        "sends `timer/fired` later",
    ),
    Call(
        "timer/stop",
        Performer.LOOP,
        "timer",
        '`{"timer": ID}`',
        '`{"stopped": BOOL}`',
        "stops a timer",
    ),
    Call(
        "kv/get",
        Performer.THREAD,
        "storage",
        '`{"key", "scope"}`',
        '`{"found": true, "value": …, "revision": N}` or `{"found": false, "revision": 0}`',
        "reads a stored value",
    ),
    Call(
        "kv/set",
        Performer.THREAD,
        "storage",
        '`{"key", "value", "scope", "ifRevision"}`',
        '`{"used", "quota", "revision"}`, the first two in bytes',
        "stores a value",
        most=320 * 1024,
        outside="key",
    ),
    Call(
        "kv/delete",
        Performer.THREAD,
        "storage",
        '`{"key", "scope"}`',
        '`{"deleted": BOOL}`',
        "deletes a stored value",
        outside="key",
    ),
    Call(
        "kv/list",
        Performer.THREAD,
        "storage",
        '`{"prefix", "after", "limit", "scope"}`',
        '`{"keys": […], "more": BOOL}`',
        "lists the keys of stored values",
    ),
    Call(
        "files/roots",
        Performer.THREAD,
        "read:GLOB",
        "none",
        '`{"roots": […]}`',
        "the folders of the client's sessions",
    ),
    Call(
        "files/read",
        Performer.THREAD,
        "read:GLOB",
        '`{"path", "offset", "maxBytes"}`',
        '`{"path", "size", "mtimeMs", "more"}` and `text` or `base64`',
        "reads a file",
        outside="path",
    ),
    Call(
        "files/list",
        Performer.THREAD,
        "read:GLOB",
        '`{"path", "glob", "limit"}`',
        '`{"entries": [{"path", "kind", "size", "mtimeMs"}], "more": BOOL}`',
        "lists files",
        outside="path",
    ),
    Call(
        "files/write",
        Performer.THREAD,
        "write:FOLDER",
        '`{"path", "root", "text" or "base64", "ifSha256"}`',
        '`{"path", "size", "used", "quota"}`',
        "writes a file",
        most=2 * 1024 * 1024,
        outside="path",
    ),
    Call(
        "fetch",
        Performer.TASK,
        "web:HOST",
        '`{"url", "method", "headers", "text" or "base64", "maxBytes", "timeoutMs"}`',
        '`{"status", "url", "headers", "truncated"}` and `text` or `base64`',
        "sends an HTTP request",
        most=4 * 1024 * 1024,
        outside="url",
    ),
    Call(
        "config",
        Performer.ROUTER,
        "",
        "none",
        "the params of `configure`",
        "repeats the configuration",
    ),
    Call(
        "keep",
        Performer.ROUTER,
        "",
        "an object: the value to [keep](#started-again)",
        "`{}`",
        "keeps state for the next instance",
    ),
    Call(
        TURN_BEGIN,
        Performer.ROUTER,
        "",
        '`{"sessionId", "show"}`',
        '`{"turn": ID}`, once it has begun',
        "begins a [turn of its own](conversation.md#turns-of-a-components-own)",
    ),
    Call(
        PAYLOAD_READ,
        Performer.ROUTER,
        "",
        '`{"digest", "offset", "maxBytes"}`',
        '`{"text", "bytes", "more"}`',
        "reads a text that it got as a [reference](conversation.md#large-payloads)",
    ),
    Call(TURN_END, Performer.ROUTER, "", '`{"turn": ID}`', "`{}`", "ends it"),
    Call(
        REBIND,
        Performer.ROUTER,
        "prompt:unseen",
        '`{"sessionId", "to"}`, two sessions',
        "`{}`",
        "has a session go on as [another](conversation.md#aliases)",
    ),
    Call(
        USE_AGENT,
        Performer.ROUTER,
        "agent:NAME",
        '`{"sessionId", "agent"}`; without `agent` nothing changes',
        '`{"agent", "agents", "unset"}`',
        "has a session go on with [another agent](conversation.md#moves)",
    ),
)

CALLS: Final = {call.name: call for call in TABLE if call.performer is not Performer.ROUTER}
"""The calls that are performed outside the router, by name."""

SERVICES: Final = frozenset(call.service for call in CALLS.values())

LOCAL: Final = frozenset(call.name for call in TABLE if call.performer is Performer.HOST)
"""The calls that the process which runs the proxy performs itself."""

ALWAYS_GRANTED: Final = frozenset(call.service for call in CALLS.values() if not call.grant)

SHOWN_GRANTS: Final = {call.service: call.grant for call in CALLS.values() if ":" in call.grant}
"""The grants that need a scope, with a placeholder for it, by service."""

ALIASES: Final = {"_proxy/log": "log", "_proxy/metric": "metric", "_proxy/config": "config"}
"""Names by which the oldest generation of proxies calls services (the P/ACP proposal)."""

CONFIG: Final = "config"
"""Asks for the params of `configure` once more; answered here."""

KEEP: Final = "keep"
"""Keeps members for the component's next instance (`KeptMembers`). The router remembers them, and
the shell gets them in an effect, since it starts hosts of guests again with a new router."""

HERE: Final = frozenset({CONFIG, KEEP, TURN_BEGIN, TURN_END, PAYLOAD_READ})
"""The calls that the router takes itself; each proxy may make them."""

OF_SESSIONS: Final = frozenset({TURN_BEGIN, TURN_END, REBIND, USE_AGENT})
"""The calls about sessions that the conductor above a host decides for its guests."""

RELAYED: Final = "service"
"""A child that hosts guests passes on a guest's call: `{component, service, params}`. The guest
itself must have the grant."""

# Reports of a child process that hosts guests to the conductor that started it. The child is
# granted these by name; a proxy never is.
LAST_WORDS: Final = "failed"
"""Why the child ends."""
VIOLATED: Final = "violated"
"""A violation that a guest's policy has stopped."""
CHANGED: Final = "changed"
"""A change that a guest has made, for an audit."""
READY: Final = "ready"
"""The child has loaded its guests."""
RECOVERED: Final = "recovered"
"""The child's action after a failure of a guest."""
OWNED: Final = "owned"
"""Addresses of MCP servers that are a guest's own, for the guest's next instance."""

REACHED: Final = "reached"
"""An act outside of the chain that a guest was kept from, for an audit."""

INTERNAL: Final = frozenset(
    {LAST_WORDS, VIOLATED, CHANGED, READY, RECOVERED, RELAYED, OWNED, REACHED}
)

PREFIX: Final = "_conductor/"


def granted_names(grants: Iterable[str]) -> frozenset[str]:
    """The services that grants are for. The scope behind a colon is for the shell to keep."""
    return frozenset(grant.partition(":")[0] for grant in grants)
