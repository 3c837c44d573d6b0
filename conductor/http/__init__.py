"""HTTP/1.1 as this machine's programs and browsers speak it to conductor: one server for all.

    limits      every bound of a connection
    headers     the headers of a request: who asks, and by which name
    request     one request, and the answer to it
    connection  one network connection: h11 reads and writes, deadlines end it
    server      a listening socket, its connections and their end
    routes      which function answers which path

h11 knows the protocol, `conductor.transports.entrance` bounds strangers. HTTP/2 and TLS are for a
proxy in front.
"""
