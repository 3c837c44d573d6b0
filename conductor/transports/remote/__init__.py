"""The client's side of the transports over which a chain, or a component, is reached at an address.

    address     addresses: `unix:PATH`, `tcp://…`, `ws://…`, `wss://…`, `http://…`, `https://…`
    dial        from an address to its transport
    sockets     a socket to a host, by one of its addresses
    proxies     the proxy on the way, by HTTPS_PROXY and NO_PROXY
    cookies     cookies that a server has set, and gets back
    failures    the errors on the way to an address, in words
    lines       `unix:` and `tcp://`: lines on a socket
    wire        headers and subprotocols by name
    fragments   the frames of a WebSocket, put together to messages
    websocket   one WebSocket: messages, pings, cookies
    websocket_transport  `ws://` and `wss://`: a connection that outlives its WebSockets
    sse         server-sent events (pure)
    http_rules  ACP over HTTP: the order of POSTs, and the streams of answers (pure)
    client      requests of HTTP to one address
    http        `http://` and `https://`

Nothing here is imported unless a chain names an address. `websockets` comes with the extra
`remote`, and only the module that needs it imports it.
"""
