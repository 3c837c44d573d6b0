"""An MCP server over stdio with one tool, ``echo``, on the official library."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("plain")


@server.tool()
def echo(text: str) -> str:
    """Answers the text it is given."""
    return text


if __name__ == "__main__":
    server.run()
