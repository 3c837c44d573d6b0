"""The cost of a tool call, by each way an agent can reach a tool: ``python -m benchmarks.mcp``.

    agent         the end of a chain: tells its MCP servers, or calls tools itself over ACP
    plain_server  the yardstick: the same tool on the official library, over stdio, no conductor
    ways          one connected client for each way
    __main__      rounds, the table, the aim

Clients are as plain as can be (lines, http.client), so that the ways differ in the servers only.
"""
