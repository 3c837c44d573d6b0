"""Numbered frames over network connections that are cut, or lose, double and reorder packets.

Pure: packets go in, frames come out, and the other way round. No event loop, no clock.

    errors   the reasons to refuse a packet, a frame or the other end, by name
    packets  the wire: `conductor.link.1`
    link     one end: the frames that it keeps, may send and has

A `Link` outlives the network connections that it uses. Both ends are equal:

    link = Link("EPOCH")
    link.linked()                     # a network connection is there
    link.send(frame)                  # waits in the link until it may go
    while (packet := link.take()) is not None:
        ...                           # write it; take the next one when there is room to write
    frames = link.received(packet)    # each frame once, and in order
    link.cut()                        # the network connection is gone; `linked` goes on

`full` asks the owner to pause the source of frames; `pause` asks the other end to do so. Call `ack`
when nothing has been taken for a moment, so that the other end can forget the packets that it
keeps. Where packets can be lost, call `overdue` while `waits` is true and nothing has come for a
while.

## The wire: conductor.link.1

A packet is UTF-8 text. Its fields have one space between them; a PAYLOAD is all behind the last:

    hello   EPOCH NUMBER HAVE CREDIT OLDEST
    welcome EPOCH NUMBER HAVE CREDIT OLDEST
    frame   EPOCH SEQUENCE HAVE CREDIT LENGTH PAYLOAD
    part    EPOCH SEQUENCE HAVE CREDIT LENGTH PAYLOAD
    ack     EPOCH HAVE CREDIT

EPOCH     1 to 64 of `A-Z a-z 0-9 _ - .`; the same for both ends, a new one when either starts anew
NUMBER    of a `hello`: 1, and one more after each that was answered, or when the network connection
          was cut; a `welcome` repeats that of the `hello` it answers
SEQUENCE  of a `frame` or `part`: the first that an end sends in an epoch is 1
HAVE      the sender of this packet has all up to that SEQUENCE; 0: nothing
CREDIT    so many bytes may have been sent to it since the epoch began. A `frame` or `part` takes
          LENGTH and 256. It never sinks, and is twice a packet above what has come, or more, unless
          the sender of this packet wants to take no more
OLDEST    the lowest SEQUENCE that the sender of this packet can still send, or would send next
LENGTH    the bytes of PAYLOAD; of a `part` 1 or more

Numbers are decimal, of at most 18 digits, without sign or leading zeros.

Each end says `hello` on each network connection, and answers each `hello` of the other by
`welcome`. It sends frames once its own `hello` is answered, beginning behind HAVE of that answer. A
`part` has the beginning or the middle of a frame, and the `frame` that follows ends it. No packet
splits a character. A packet that came before is ignored, one of another epoch refused.

An example. A client asks, the network connection is cut, and the answer comes on the next one:

    client                                server
    hello c7 1 0 4194304 1                hello c7 1 0 4194304 1
    welcome c7 1 0 4194304 1              welcome c7 1 0 4194304 1
    frame c7 1 0 4194304 8 {"id":1}
                                          frame c7 1 1 4194568 8 {"id":1}      lost: it is cut
    hello c7 2 0 4194304 1                hello c7 2 1 4194568 1
    welcome c7 2 0 4194304 2              welcome c7 2 1 4194568 1
                                          frame c7 1 1 4194568 8 {"id":1}
    ack c7 1 4194568
"""

from conductor.link.errors import LinkError, Reason
from conductor.link.link import Limits, Link, State

__all__ = ["Limits", "Link", "LinkError", "Reason", "State"]
