"""A WebSocket whose server resumes: links are cut in any phase, and nothing is lost or doubled."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from conductor.transports.remote import failures
from conductor.transports.remote.address import parse
from conductor.transports.remote.websocket_transport import WebSocketTransport
from tests.transports.ends import Recorder
from tests.transports.remote.peers import LinkServer


@asynccontextmanager
async def connected(
    patience: float = 60.0, logged: list[str] | None = None
) -> AsyncIterator[tuple[LinkServer, WebSocketTransport, Recorder]]:
    """An open connection: the server, the transport and its events. `logged` gets its warnings."""
    server, events = LinkServer(), Recorder()
    address = parse(await server.start())
    log = [] if logged is None else logged
    transport = WebSocketTransport(
        address, token=lambda: "t0ken", log=log.append, patience=patience
    )
    try:
        await transport.open(events)
        yield server, transport, events
    finally:
        await transport.close(1)
        await server.close()


async def test_nothing_is_lost_or_doubled_when_links_are_cut_again_and_again() -> None:
    texts = [b'{"n":%d,"pad":"%s"}' % (n, b"x" * (n % 977)) for n in range(2000)]

    logged: list[str] = []
    async with connected(logged=logged) as (server, transport, events):
        for start in range(0, len(texts), 100):
            transport.write(b"\n".join(texts[start : start + 100]) + b"\n")
            wanted = start // 2
            await events.until(lambda wanted=wanted: len(events.frames) >= wanted)  # type: ignore[misc]
            if start % 300 == 0:
                server.cut()
        await events.until(lambda: len(events.frames) >= len(texts))
        assert events.frames == texts
        assert server.heard["c1"] == texts
        assert not events.ends
    assert "was cut" in logged[0]
    assert "again" in logged[1]


async def test_a_client_comes_back_with_its_connection_its_token_and_its_cookies() -> None:
    async with connected() as (server, transport, events):
        transport.write(b'{"n":1}\n')
        await events.until(lambda: len(events.frames) == 1)
        server.cut()
        transport.write(b'{"n":2}\n')
        await events.until(lambda: len(events.frames) == 2)
        first, second = server.upgrades
        assert "Acp-Connection-Id" not in first
        assert first["Sec-WebSocket-Protocol"] == "acp, conductor.link.1"
        assert second["Acp-Connection-Id"] == "c1"
        assert second["Cookie"] == "pod=7"
        assert first["Authorization"] == second["Authorization"] == "Bearer t0ken"
        assert list(server.links) == ["c1"]


async def test_a_refusal_ends_the_connection_at_once() -> None:
    for status in (401, 403, 404, 410):
        async with connected() as (server, _, events):
            server.refuses = status
            server.cut()
            await events.until(lambda: bool(events.ends))
            assert len(server.upgrades) == 2
            (end,) = events.ends
            assert not end.clean
            words = "has forgotten this connection" if status == 404 else f"HTTP status {status}"
            assert words in end.text


async def test_a_link_that_is_cut_in_its_handshake_is_tried_again() -> None:
    async with connected() as (server, transport, events):
        server.drops = 2
        server.cut()
        transport.write(b'{"n":1}\n')
        await events.until(lambda: bool(events.frames or events.ends))
        assert events.frames == [b'{"n":1}']
        assert not events.ends
        assert len(server.upgrades) == 4


async def test_who_cannot_come_back_gives_up_in_the_end() -> None:
    async with connected(patience=0.3) as (server, _, events):
        server.refuses = 503
        server.cut()
        await events.until(lambda: bool(events.ends))
        (end,) = events.ends
        assert "nobody could come back" in end.text
        assert end.hint
        assert len(server.upgrades) >= 2


async def test_it_is_tried_once_however_late_it_is() -> None:
    async with connected(patience=0.0) as (server, transport, events):
        server.cut()
        transport.write(b'{"n":1}\n')
        await events.until(lambda: bool(events.frames or events.ends))
        assert events.frames == [b'{"n":1}']


async def test_a_server_that_is_another_one_is_not_resumed() -> None:
    async with connected(patience=0.3) as (server, transport, events):
        transport.write(b'{"n":1}\n')
        await events.until(lambda: len(events.frames) == 1)
        server.links.clear()  # it has lost its state
        server.cut()
        await events.until(lambda: bool(events.ends))
        assert not events.ends[0].clean
        assert len(server.upgrades) < 10


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "\u00e9"])
async def test_an_id_that_no_link_can_have_is_named(name: str) -> None:
    server = LinkServer()
    server.name = name
    transport = WebSocketTransport(parse(await server.start()))
    try:
        with pytest.raises(failures.LinkError, match="is no id of a link"):
            await transport.open(Recorder())
    finally:
        await transport.close(1)
        await server.close()


async def test_finish_waits_until_everything_has_arrived() -> None:
    text = b'{"big":"' + b"x" * 3_000_000 + b'"}'
    async with connected() as (server, transport, events):
        server.answers = lambda _: []
        transport.write(text + b"\n")
        transport.finish()
        server.cut()
        await events.until(lambda: bool(events.ends))
        assert events.ends[0].clean
        assert server.heard["c1"] == [text]


async def test_what_no_link_takes_is_named_and_the_rest_goes_on() -> None:
    async with connected() as (_, transport, events):
        transport.write(b'{"broken":"\xff"}\n{"n":2}\n')
        await events.until(lambda: bool(events.frames))
        assert events.frames == [b'{"n":2}']
        assert events.refused == [b'{"broken":"\xff"}']
