"""HTTP/1.1 as this machine's programs and browsers speak it to conductor: one server for all.

    limits      every bound of a connection
    headers     the headers of a request: who asks, and by which name
    parser      what comes, as requests
    request     one request, and the answer to it
    connection  one network connection: turns, deadlines, and what leaves
    server      a listening socket, its connections and their end
    routes      which function answers which path

httptools knows the protocol, `conductor.transports.entrance` bounds strangers. HTTP/2 and TLS are
for a proxy in front.
"""
