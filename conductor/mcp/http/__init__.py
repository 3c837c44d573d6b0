"""A Streamable HTTP server on loopback, for agents that reach MCP servers by URL.

    door       one server for all listeners of a conductor, on 127.0.0.1
    listeners  the listeners: the secret of each, and the connections that came in
    app        answers requests of HTTP
    requests   the rules for a request, and its refusals
    session    one connection: the frames that wait for each of its responses

`conductor.http` serves; it is loaded when the first listener opens.

Each listener has a path, and a secret that every request shows in `Authorization`. Frames pass
unchanged: only the bridge reads MCP.

A legacy session is one connection, from `initialize` to `DELETE`. A POST of 2026-07-28 is a
connection by itself, and ends when its client leaves. An answer that comes alone leaves as JSON. If
another message comes first, or none for a while, the response becomes a stream of events.
"""
