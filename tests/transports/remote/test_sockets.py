"""A host with several addresses is reached by any of them."""

import asyncio
import socket

import pytest

from conductor.transports.remote import sockets


def test_a_host_of_several_addresses_is_reached_by_the_one_that_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # bound, but nobody listens
        places = [silent.getsockname(), listening.getsockname()]

        async def found(*_: object, **__: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]

        async def reached() -> object:
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
            with await sockets.connected("gateways.example", 8790) as connection:
                return connection.getpeername()

        assert asyncio.run(reached()) == listening.getsockname()
        places.pop()
        with pytest.raises(ConnectionRefusedError):
            asyncio.run(reached())
