"""When a client is taken for gone: never while something stands before a ping or its answer."""

import asyncio
import socket
import sys
from typing import Final

import pytest

from conductor.serve import pulse
from conductor.serve.pulse import Pulse

_ENOUGH: Final = 40
"""Looks: ten minutes."""


class Link:
    """A link by hand."""

    def __init__(self) -> None:
        self.heard = 0
        self.held = False
        self.pending = 0
        self.reached: bool | None = True
        self.answers = False
        """Whether pings get their answers."""
        self.pings = 0
        self.over = False

    def ping(self) -> None:
        self.pings += 1
        self.heard += self.answers

    def turn_away(self) -> None:
        self.over = True


def looks(link: Link, most: int = _ENOUGH) -> int:
    """How many looks it takes until a link is cut; so many: it is not."""

    async def look() -> int:
        beating = Pulse(link, link.ping, lambda: link.held)
        for number in range(most):
            if not beating.beat():
                return number
        return most

    found = asyncio.run(look())
    assert link.over == (found < most)
    return found


def test_a_client_that_answers_stays() -> None:
    link = Link()
    link.answers = True
    assert looks(link) == _ENOUGH
    assert link.pings == _ENOUGH


def test_a_client_that_answers_no_ping_is_gone_after_a_minute() -> None:
    link = Link()
    assert looks(link) == 4
    assert link.pings == 4


def test_one_that_is_not_read_cannot_answer() -> None:
    link = Link()
    link.held = True
    assert looks(link) == _ENOUGH
    assert link.pings == _ENOUGH  # they keep the way open


def test_one_that_does_not_read_stays_while_its_machine_is_there() -> None:
    link = Link()
    link.pending = 1_000_000
    assert looks(link) == _ENOUGH
    assert link.pings == 0


@pytest.mark.parametrize("held", [False, True])
def test_one_whose_machine_is_not_there_is_gone(held: bool) -> None:
    link = Link()
    link.pending, link.reached, link.held = 1_000_000, False, held
    assert looks(link) == 1


def test_where_the_system_does_not_say_one_that_takes_something_stays() -> None:
    class Slow(Link):
        async def look(self) -> None:
            beating = Pulse(self, self.ping, lambda: self.held)
            for _ in range(_ENOUGH):
                self.pending -= 1
                assert beating.beat()

    slow = Slow()
    slow.pending, slow.reached = 1_000_000, None
    asyncio.run(slow.look())
    still = Link()
    still.pending, still.reached = 1_000_000, None
    assert looks(still) == 4


async def test_signs_in_between_count() -> None:
    link = Link()
    beating = Pulse(link, link.ping, lambda: link.held)
    for number in range(_ENOUGH):
        link.heard += number % 4 == 3
        assert beating.beat()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how far bytes have come")
def test_what_the_system_says_of_a_client_that_does_not_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        server, _ = listening.accept()
    with client, server:
        assert (pulse.unconfirmed(server), pulse.reached(server)) == (0, True)
        server.setblocking(False)
        sent = 0
        try:
            while True:
                sent += server.send(b"x" * 65536)
        except BlockingIOError:
            assert 0 < pulse.unconfirmed(server) <= sent
        assert pulse.reached(server) is True
    assert (pulse.unconfirmed(server), pulse.reached(server)) == (0, None)
