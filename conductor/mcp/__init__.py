"""MCP over ACP: the bridge between components that offer MCP servers and agents that use them.

`docs/mcp.md` says what is bridged to what. The bridge is pure; `transport`
and the doors do its I/O.

Imports nothing: `shim`, which agents wait for, is in this package.
"""

ON_CHANGE = ("ask", "keep", "drop")
"""What a change of a server's tools does: the user is asked; what has changed is left out; or all
tools of the server are. From the mildest on."""

KINDS = ("auto", "stdio", "http", "acp")
"""What the agent gets for a server of ACP transport; `auto`: what it advertises."""
