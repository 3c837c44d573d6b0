"""The pure bridge between MCP over ACP and the transports that agents know (docs/mcp.md)."""
