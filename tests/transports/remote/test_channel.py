"""The channel of a client at an address."""

from __future__ import annotations

from typing import Any, cast

from conductor.transports.remote.channel import RemoteChannel


class _Server:
    """A transport whose server has sent some messages before the client looks."""

    def __init__(self, *frames: bytes) -> None:
        self._frames = [*frames]

    async def open(self, owner: RemoteChannel) -> None:
        owner.received(self._frames)

    async def close(self, grace: float) -> None:
        del grace


async def test_a_message_that_a_server_writes_on_several_lines_is_one_message() -> None:
    frames = [b'{\r\n  "id": 1,\n  "result": {}\n}', b'{"method":"session/update"}']
    channel = RemoteChannel(cast("Any", _Server(*frames)), print)
    await channel.open()
    assert [await channel.receive(), await channel.receive()] == frames
    assert channel.waiting == 0
    await channel.close(0)
