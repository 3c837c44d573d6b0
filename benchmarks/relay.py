"""A bare relay: ``python -I -S relay.py AGENT [ARG…]``.

One ``poll`` loop in one process passes bytes from the client to the agent and back, and reads
nothing of them: the least cost of a hop in Python. It waits for a slow reader. It ends
when the agent ends, with the agent's exit code.
"""

import os
import select
import subprocess
import sys

_CLIENT_IN, _CLIENT_OUT = 0, 1

_ROOM = 65_536
"""Bytes of one read: the size of a pipe of Linux."""


def main(agent: list[str]) -> int:
    """Passes bytes until the agent has ended: its exit code."""
    down, theirs_in = os.pipe()
    theirs_out, up = os.pipe()
    running = subprocess.Popen(agent, stdin=down, stdout=up)
    os.close(down)
    os.close(up)
    ways = {_CLIENT_IN: theirs_in, theirs_out: _CLIENT_OUT}
    poll = select.poll()
    for source in ways:
        poll.register(source, select.POLLIN)
    while theirs_out in ways:
        for source, _ in poll.poll():
            data = os.read(source, _ROOM)
            if not data:
                poll.unregister(source)
                os.close(ways.pop(source))
            while data:
                data = data[os.write(ways[source], data) :]
    return running.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
