"""The MCP bridge between scripted ends, and the doors behind a bridge that answers by itself."""
