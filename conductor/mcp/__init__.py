"""MCP over ACP: the bridge between components that offer MCP servers and agents that use them.

`docs/mcp.md` says what is bridged to what. Pure: all but `transport`, `shells` and what these use.

Imports nothing: `shim`, which agents wait for, is in this package.
"""

KINDS = ("auto", "stdio", "http", "acp")
"""How an agent is given servers of ACP transport: as it advertises, or one way whatever it says."""
