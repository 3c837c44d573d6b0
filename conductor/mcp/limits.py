"""Every limit of the MCP bridge and its doors; docs/mcp.md lists them.

`conductor.http.limits` has those of connections over HTTP, and `conductor.transports.entrance` adds
the limits for connections that have not shown a secret.
"""

from __future__ import annotations

from typing import Final

_MIB: Final = 1 << 20

# -- the bridge ------------------------------------------------------------------------------------

UNANSWERED: Final = 4000
"""Requests in flight to one MCP server, cancelled ones included, since a server may work on them
still. Also the messages of one client that wait for the server's connection to open."""

NATIVE_CLIENTS: Final = 1000
"""Connections to one MCP server of an agent that takes ACP transport."""

SUBSCRIPTIONS: Final = 1000
"""Subscriptions to one MCP server, and resources in all of them together."""

INPUTS: Final = 64
"""Inputs that one `input_required` result may want."""

INPUT_ROUNDS: Final = 32
"""How often one request may want input; then it fails."""

SUSPENDED: Final = 64
"""Requests per server that wait for input. Their clients may never bring it, so the oldest is
cancelled for a new one."""

SESSION_ID_SECONDS: Final = 10.0
"""How long a connection waits for its session's id, where its generation sends one."""

APPS: Final = 64
"""Pages of tools that are shown; the oldest is forgotten for a new one."""

APP_BYTES: Final = _MIB
"""Characters of a page; and bytes of the call that it shows, with the answer."""

APP_TOOLS: Final = 1000
"""Tools of one MCP server that have a page, or that pages may call."""

APP_OPEN: Final = 16
"""Requests of one page to its server that are not answered."""

# -- both doors ------------------------------------------------------------------------------------

UNSENT: Final = 256 * _MIB
"""Bytes that clients of one door have not read, in total; then the client with most is closed."""

# -- stdio -----------------------------------------------------------------------------------------

STDIO_CLIENTS: Final = 256
"""Connections of shims; a further one is closed."""

UNREAD: Final = 4 * _MIB
"""Bytes that one client has not read; above, the conductor does not read from it either."""

PARTIAL_LINES: Final = 256 * _MIB
"""Bytes of lines without an end, in total; then the client with most is closed. One line of
`line-limit` bytes always has room."""

LINGER_SECONDS: Final = 10.0
"""How long a closed client has to read its queued messages."""

# -- HTTP ------------------------------------------------------------------------------------------

BODIES: Final = 256 * _MIB
"""Bytes of all bodies that are being read or wait for the bridge. One body of `line-limit` bytes
always has room."""

SESSIONS: Final = 1000
"""Sessions at one URL. A further one ends the oldest idle session; if none is idle, it gets 503."""

UNHEARD: Final = 1000
"""Messages kept for a session without an open GET; then the oldest is dropped."""

SILENCE_SECONDS: Final = 15.0
"""Time without a message after which a response becomes a stream, and a stream shows that it is
alive: many clients give up a response that stays silent for 30 s or 60 s."""

# -- servers of the client that conductor reaches --------------------------------------------------

LINKS: Final = 256
"""Connections to MCP servers of the client, each a process or a session over HTTP."""

# -- pinned tools ----------------------------------------------------------------------------------

TOOLS: Final = 10_000
"""Tools of one MCP server; none of a server with more is used."""

TOOL_PAGES: Final = 1000
"""Pages of one list of tools."""

TOOL_BYTES: Final = 8 * _MIB
"""Bytes of one list of tools."""

TOOL_NAME: Final = 256
"""Characters of the name of a tool, or of the URI of a page; tools and pages with more are left
out."""

PAGES: Final = 256
"""Pages (`ui://`) of one MCP server that are kept."""

KEPT_TEXT: Final = 64 * 1024
"""Bytes of a definition or a page whose text is kept beside its digest."""

KEPT_TEXTS: Final = _MIB
"""Characters of all texts that are kept of one MCP server."""

PINNED: Final = 256
"""MCP servers of one agent whose tools are compared."""

NEW_SERVERS: Final = 64
"""MCP servers that a component may bring first."""

TOLD_CHANGES: Final = 3
"""How often a conductor tells of changes of one MCP server; some answer differently each time."""
