"""MCP over ACP: the bridge between components that offer MCP servers and agents that use them.

`docs/mcp.md` says what is bridged to what. The bridge is pure; `transport`
and the doors do its I/O.

Imports nothing: `shim`, which agents wait for, is in this package.
"""

KINDS = ("auto", "stdio", "http", "acp")
"""What the agent gets for a server of ACP transport; `auto`: what it advertises."""
