"""MCP over ACP: the bridge between components that offer MCP servers and agents that use them.

`docs/mcp.md` says which kinds it bridges. The bridge is pure; `transport`
and the doors do its I/O.

Imports nothing: `shim`, which agents wait for, is in this package.
"""

ON_CHANGE = ("ask", "keep", "drop")
"""The effects of a change of a server's tools, the mildest first: the user is asked; the changed
tools are left out; or all tools of the server are."""

KINDS = ("auto", "stdio", "http", "acp")
"""The kinds of declaration that the agent may get for a server of ACP transport; `auto`: a kind
that it advertises."""
