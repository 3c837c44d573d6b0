"""Ports that stay a test's own while what listens there is down.

They are below those that systems give to outgoing connections. Tests see by a socket for datagrams
at the same port who has one: nothing under test uses datagrams there.
"""

import errno
import random
import socket
from typing import Final

_RANGE: Final = range(10_000, 32_000)


class Ports:
    """The ports that one test holds, until it closes them."""

    def __init__(self) -> None:
        self._held: list[socket.socket] = []
        self._taken: set[tuple[str, int]] = set()

    def new(self, host: str) -> int:
        """A port of an address that nobody has now. No other test takes the port; other programs
        may."""
        while True:
            place = host, random.choice(_RANGE)  # noqa: S311 - no secret
            if place not in self._taken and self._takes(place):
                self._taken.add(place)
                return place[1]

    def _takes(self, place: tuple[str, int]) -> bool:
        held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with socket.socket() as probe:
            try:
                held.bind(place)
                probe.bind(place)
            except OSError as error:
                held.close()
                # An address of another network namespace: there the test has all ports.
                return error.errno == errno.EADDRNOTAVAIL
        self._held.append(held)
        return True

    def close(self) -> None:
        """Leaves them to others."""
        for held in self._held:
            held.close()
        self._held.clear()
        self._taken.clear()
