"""HTTP/1.1 as this machine's programs and browsers speak it to conductor: one server for all.

    limits      every bound of a connection
    headers     the headers of a request: its sender, and the name of the server
    parser      makes requests of the bytes that come
    request     one request, and the answer to it
    connection  one network connection: turns, deadlines, and output
    server      a listening socket, its connections and their end
    routes      the function that answers each path

httptools knows the protocol, `conductor.transports.entrance` bounds strangers. HTTP/2 and TLS are
for a proxy in front.
"""
