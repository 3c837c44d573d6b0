"""Who only has a login at NATS can neither read nor write in a session."""

import asyncio
import json
from typing import Any

import nats as client
import pytest

from conductor.fleet import messages, names
from tests.harness.process.fleet import Fleet
from tests.places import DEADLINE

READ = (
    b'{"jsonrpc":"2.0","id":99,"method":"fs/read_text_file",'
    b'"params":{"sessionId":"%s","path":"/etc/passwd"}}'
)


@pytest.mark.proves("in a fleet, a stranger")
def test_packets_of_a_session_are_of_its_two_ends(fleet: Fleet) -> None:
    """All that is heard is sent again, in both orders, changed, and as made up; nothing of it
    comes to anybody, and the session goes on."""
    fleet.worker(fleet.rig.demo())

    async def attack(gateway: Any) -> None:
        stranger = await client.connect(fleet.nats)
        heard: list[tuple[str, bytes]] = []

        async def take(message: Any) -> None:
            heard.append((message.subject, message.data))

        await stranger.subscribe(">", cb=take)
        await stranger.flush()
        editor = gateway.socket()
        session = await asyncio.to_thread(editor.begin)
        said = await asyncio.to_thread(editor.prompt, session, "/echo my-words")
        assert said == "my-words"
        packets = [each for each in heard if ".to." in each[0] and each[1]]
        assert {subject.partition(".")[0] for subject, _ in packets} == {"gateway", "worker"}
        assert not [data for _, data in heard if b"my-words" in data or session.encode() in data]
        again = [*packets, *reversed(packets)]
        again += [(subject, data[:-1] + bytes([data[-1] ^ 1])) for subject, data in packets]
        again += [(subject, (2**40).to_bytes(8, "big") + data[8:]) for subject, data in packets]
        for subject in {subject for subject, _ in packets}:
            word = subject.rpartition(".")[2]
            read = READ % session.encode()
            frame = f"frame {word}.1 9 0 4194304 {len(read)} ".encode() + read
            closed = messages.write(messages.Closed(text="gone", clean=True))
            left = messages.write(messages.Client(left=True))
            again += [(subject, made_up) for made_up in (frame, closed, left, b"", b"\0" * 7)]
        before = len(editor.frames)
        for subject, data in again:
            await stranger.publish(subject, data)
        await stranger.flush()
        assert await asyncio.to_thread(editor.prompt, session, "/echo go-on") == "go-on"
        after = editor.frames[before:]
        assert not [one for one in after if one.get("method") == "fs/read_text_file"]
        assert str(after).count("go-on") == 1
        await stranger.close()

    with fleet.gateway() as gateway:
        asyncio.run(asyncio.wait_for(attack(gateway), DEADLINE))


@pytest.mark.proves("in a fleet, a stranger")
def test_who_answers_for_a_worker_has_its_key(fleet: Fleet) -> None:
    """A stranger who listens where a worker is asked, and answers first, gets no connection."""
    fleet.worker(fleet.rig.demo())

    async def attack(gateway: Any) -> None:
        stranger = await client.connect(fleet.nats)
        asked: list[str] = []

        async def answer(message: Any) -> None:
            asked.append(message.subject)
            opened = messages.Opened(message=1000, key="00" * 32, number="1")
            await stranger.publish(message.reply, messages.write(opened))

        await stranger.subscribe("worker.*.open", cb=answer)
        await stranger.flush()
        editor = gateway.socket()
        shown = {"protocolVersion": 1, "clientCapabilities": {}}
        answered = await asyncio.to_thread(editor.request, "initialize", shown)
        assert asked
        if "error" in answered:  # the stranger was first
            assert "does not have its key" in answered["error"]["message"]
        await stranger.close()

    with fleet.gateway() as gateway:
        asyncio.run(asyncio.wait_for(attack(gateway), DEADLINE))


LONG = "x" * 5_000


@pytest.mark.proves("a part of a fleet does its own")
def test_names_that_are_too_long_end_no_worker(fleet: Fleet) -> None:
    """A principal, a connection, a gateway, a chain and a session of 5,000 bytes, by every road."""
    worker = fleet.worker(fleet.rig.demo())
    [shown] = fleet.status("worker")
    named = {"connection": "c1", "gateway": "g1", "chain": "", "epoch": 1, "key": "00" * 32}
    asked = {
        names.place("main"): [{"principal": LONG, "lost": 0}, {"principal": LONG, "lost": 7}],
        names.opening(shown["id"]): [
            {**named, "principal": "local", name: LONG}
            for name in ("principal", "connection", "gateway", "chain", "key")
        ],
        names.control(shown["id"]): [
            {"do": do, "principal": LONG, "session": LONG, "epoch": 1}
            for do in ("holds", "disown", "check", "alive", LONG)
        ],
    }

    async def attack() -> None:
        stranger = await client.connect(fleet.nats)
        for subject, orders in asked.items():
            for order in orders:
                data = json.dumps({"version": messages.VERSION, **order}).encode()
                answer = await stranger.request(subject, data, DEADLINE)
                assert len(answer.data) < 1_500
        await stranger.close()

    asyncio.run(asyncio.wait_for(attack(), DEADLINE))
    with fleet.gateway() as gateway:
        editor = gateway.socket()
        assert editor.prompt(editor.begin(), "/echo on") == "on"
    assert "defect" not in worker.stderr


@pytest.mark.proves("a part of a fleet does its own")
def test_a_worker_whose_name_is_too_long_ends_no_gateway(fleet: Fleet) -> None:
    """The name stands in the lease, in the answer of the room's taker, and in the output."""
    with fleet.gateway() as gateway:

        async def attack() -> None:
            stranger = await client.connect(fleet.nats)
            asked: list[str] = []

            async def answer(message: Any) -> None:
                asked.append(message.subject)
                placed = messages.Placed(worker=LONG, epoch=7)
                await stranger.publish(message.reply, messages.write(placed))

            await stranger.subscribe(names.place("main"), "workers", cb=answer)
            await stranger.subscribe(names.STATUS, cb=answer)
            await stranger.flush()
            editor = gateway.socket()
            shown = {"protocolVersion": 1, "clientCapabilities": {}}
            answered = await asyncio.to_thread(editor.request, "initialize", shown)
            assert "error" in answered
            assert asked
            rooms = await stranger.jetstream().key_value("rooms")
            await rooms.put(names.room("main", "local"), LONG.encode())
            await stranger.close()

        asyncio.run(asyncio.wait_for(attack(), DEADLINE))
        fleet.worker(fleet.rig.demo())
        editor = gateway.socket()
        assert editor.prompt(editor.begin(), "/echo on") == "on"
        assert "defect" not in gateway.process.stderr
