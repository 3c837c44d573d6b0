"""A loopback Streamable HTTP server for agents that reach MCP servers by URL.

    shell      one server for all listeners of a conductor, on 127.0.0.1
    doors      the listeners: the secret of each, and the connections that came in
    app        from a request of HTTP to the connection it belongs to
    requests   what a request must be, and what it is refused with
    session    one connection: what waits to be sent on which response
    reply      one response: JSON, or a stream of events
    server     uvicorn, which reads and writes HTTP; imported when the first listener opens

Each listener has a path, and a secret that every request presents in `Authorization`. Frames pass
as they are: what MCP means by them is the bridge's.

A legacy session is one connection, from `initialize` to `DELETE`. A POST of 2026-07-28 is one by
itself, and its client's leaving ends it. An answer that comes alone leaves as JSON; when something
comes before it, or nothing for a while, the response becomes a stream of events.
"""
