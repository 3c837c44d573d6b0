"""A fleet whose parts meet what should not be: leases of nobody, bad payloads, clients that leave
at the wrong moment."""

import asyncio
import base64
import contextlib
import json
import re
import signal
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nats
import nats.js.errors
import pytest

from conductor.fleet import messages, names
from conductor.fleet.sealed import Identity
from tests.e2e.test_serve_floods import frames, push, received
from tests.e2e.test_serve_tokens import WHY, answers, closed, refused, withdraw
from tests.harness.process.command import Running, conductor
from tests.harness.process.fleet import Fleet
from tests.harness.process.rig import Rig
from tests.harness.process.serving import INITIALIZE, Socket, bearer, new_token
from tests.places import DEADLINE

Json = dict[str, Any]


def on_nats(fleet: Fleet, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Does something with a connection to NATS."""

    async def run() -> Any:
        client = await nats.connect(fleet.nats)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(run())


def room(pool: str = "main", principal: str = "local") -> str:
    """The key of a room."""
    return f"{pool}.{base64.urlsafe_b64encode(principal.encode()).decode().rstrip('=')}"


def set_lease(fleet: Fleet, holder: bytes) -> None:
    """Says who has the room of the one user."""

    async def put(client: Any) -> None:
        leases = await client.jetstream().key_value("rooms")
        await leases.put(room(), holder)

    on_nats(fleet, put)


@pytest.mark.parametrize("holder", ["a worker that lives", "one of before", "spoilt"])
def test_a_lease_of_nobody_is_taken(fleet: Fleet, holder: str) -> None:
    workers = [fleet.worker(fleet.rig.demo()) for _ in range(2)]
    living = fleet.status("worker")[0]["id"].encode()
    names = {"a worker that lives": living, "one of before": b"gone", "spoilt": b"\xff*"}
    set_lease(fleet, names[holder])
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        assert client.prompt(session, "/echo on") == "on"
    assert not [one.stderr for one in workers if "defect" in one.stderr]


def test_leases_that_nats_loses_are_taken_again_though_nobody_asks(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()

        async def lose(client: Any) -> None:
            await client.jetstream().delete_key_value("rooms")
            async with asyncio.timeout(DEADLINE):
                while not await _leases(client):
                    await asyncio.sleep(0.1)

        on_nats(fleet, lose)
        assert client.prompt(session, "/echo on") == "on"


async def _leases(client: Any) -> bool:
    """Whether NATS has leases."""
    with contextlib.suppress(nats.js.errors.Error):
        return bool(await (await client.jetstream().key_value("rooms")).keys())
    return False


def test_whose_room_is_taken_away_ends_and_its_client_hears_it(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.worker(fleet.rig.lasting())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "one")
        turn = client.start_prompt(session, "hang")
        fleet.rig.until_heard("A", b'"hang"')
        first = fleet.holder()
        other = next(one for one in fleet.status("worker", 2) if one["id"] != first["id"])
        set_lease(fleet, other["id"].encode())

        async def check(client: Any) -> None:
            await client.request(f"worker.{first['id']}.ctl", b'{"do":"check"}', 5)

        on_nats(fleet, check)
        assert client.answer(turn)["error"]["data"]["reason"] == "worker lost"
        client.prompt(session, "two")


def test_bad_payloads_change_nothing(fleet: Fleet) -> None:
    worker = fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        [shown] = fleet.status("worker")
        [other] = fleet.status("gateway")
        us = Identity()  # the id of a gateway is made of its key
        opening: Json = {"principal": "local", "chain": "", "gateway": us.id}
        opening |= {"key": us.public.hex(), "version": messages.VERSION}

        async def attack(bus: Any) -> list[Json]:
            leases = await bus.jetstream().key_value("rooms")
            lease = await leases.get(room())
            epoch = names.epoch(lease.value, lease.revision)
            whole = {**opening, "epoch": epoch, "connection": "c1"}
            asked = []
            for payload in (
                b"",
                b"\xff\xfe",
                b"[" * 100_000,
                b'{"principal":1}',
                json.dumps({**whole, "connection": "a b.*.>"}).encode(),
                json.dumps({**whole, "connection": "x" * 64}).encode(),
                json.dumps({**whole, "gateway": ""}).encode(),
                json.dumps({**whole, "key": "00" * 32}).encode(),
                json.dumps({**whole, "epoch": 10**30}).encode(),
                json.dumps({**whole, "version": 1}).encode(),
                json.dumps(whole).encode(),
                json.dumps(whole).encode(),  # an id is for one connection
            ):
                subject = f"worker.{shown['id']}.open"
                asked.append(json.loads((await bus.request(subject, payload, 5)).data))
            for kind, id_ in (("worker", shown["id"]), ("gateway", other["id"])):
                for text in (b"{", b"hello", b'{"left":5}', b"frame c1.%d 1 0 9 1 x" % epoch):
                    await bus.publish(f"{kind}.{id_}.to.c1", text)
                    await bus.publish(f"{kind}.{id_}.to.none", text)
            for order in (b"", b'{"do":"dance"}', b'{"do":"holds"}', b'{"do":"disown"}'):
                await bus.request(f"worker.{shown['id']}.ctl", order, 5)
            await bus.request("room.place.main", b'{"principal":3}', 5)
            return asked

        told = on_nats(fleet, attack)
        assert [("text" in one) for one in told] == [True] * 10 + [False, True], told
        assert client.prompt(session, "/echo on") == "on"
        assert "defect" not in worker.stderr + gateway.process.stderr


def test_pools_are_apart(fleet: Fleet) -> None:
    fleet.worker("--pool", "one", fleet.rig.demo())
    fleet.worker("--pool", "two", fleet.rig.lasting())
    with fleet.gateway("--pool", "one") as first, fleet.gateway("--pool", "two") as second:
        one, two = first.socket(), second.socket()
        mine, other = one.begin(), two.begin()
        assert one.prompt(mine, "/echo one") == "one"
        assert two.prompt(other, "/echo two") == "/echo two"
        assert [shown["counts"]["rooms"] for shown in fleet.status("worker", 2)] == [1, 1]


def test_many_connections_at_once_come_to_one_worker(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.worker(fleet.rig.demo())
    with fleet.gateway() as first, fleet.gateway() as second, ThreadPoolExecutor(10) as threads:
        clients = [(first, second)[number % 2].socket() for number in range(10)]
        for _ in threads.map(lambda client: client.initialize(), clients):
            pass
        assert fleet.holder("connections")["counts"]["connections"] == 10


def test_a_withdrawn_token_ends_a_turn_through_a_gateway(fleet: Fleet) -> None:
    alice = new_token(fleet.rig, "alice")
    new_token(fleet.rig, "bob")
    fleet.worker(fleet.rig.demo())
    tokens = ("--tokens", str(fleet.rig.folder / "tokens"))
    with fleet.gateway(*tokens) as gateway:
        client = gateway.socket(headers=bearer(alice))
        session = client.begin()
        turn = client.start_prompt(session, "/hang")
        over_http = gateway.http(**bearer(alice))
        other = over_http.begin()
        asked = over_http.start_prompt(other, "/hang")
        while fleet.status("worker")[0]["counts"]["open_turns"] < 2:
            pass
        withdraw(fleet.rig, gateway, "alice")
        code, why, frames = closed(client)
        assert (code, why) == (1008, WHY)
        assert [refused(one) for one in answers(frames, turn)] == [True]
        assert refused(over_http.streams[1].receive())
        assert asked
        while fleet.status("worker")[0]["counts"]["connections"]:
            pass


def text(message: Json) -> bytes:
    """A message as a WebSocket carries it, with a mask that changes nothing."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return b"\x81" + bytes([0x80 | len(data)]) + bytes(4) + data


@pytest.mark.proves("the same through a gateway of")
def test_small_messages_of_one_principal_hold_up_no_other_at_its_worker(fleet: Fleet) -> None:
    """All packets of a gateway come to a worker one after the other."""
    alice, bob = (new_token(fleet.rig, name) for name in ("alice", "bob"))
    fleet.worker(fleet.rig.demo())
    told: Json = {"jsonrpc": "2.0", "method": "x"}
    flood = b"".join(text({**told, "id": number}) + text(told) * 99 for number in range(600))
    tokens = ("--tokens", str(fleet.rig.folder / "tokens"))
    with fleet.gateway(*tokens) as gateway, contextlib.ExitStack() as stack:
        other = gateway.socket(headers=bearer(bob))
        session = other.begin()
        taken = [frames(gateway, alice, stack) for _ in range(8)]
        for one in taken:
            one.sendall(text({"id": -1, **told, "method": "initialize", "params": INITIALIZE}))
            assert one.recv(65536)
        sent = push(taken, flood) * 600 // len(flood)
        for _ in range(25):
            assert other.prompt(session, "/echo on") == "on"
            meanwhile = received(taken).count(b"Method not found")
            assert meanwhile < sent // 40, "it has waited for much of the flood"


def test_an_answer_goes_to_the_stream_of_its_session(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.http()
        session = client.begin()
        stream = client.streams[1]
        turn = client.start_prompt(session, "/echo hi")
        came: list[Json] = []
        while not answers(came, turn):
            came.append(stream.receive())
        assert "result" in came[-1]
        last = stream.last
        again = client.stream(session, Last_Event_ID=str(last - 1))
        assert again.receive() == came[-1]
        assert client.ask("DELETE", Acp_Connection_Id=client.connection).status == 202


def test_a_client_that_sends_no_more_gets_its_answers(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.demo())
    path = f"unix:{fleet.rig.folder}/s"
    with fleet.gateway("--listen", path) as gateway:
        client = gateway.lines()
        asked = client.start("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        client.socket.shutdown(socket.SHUT_WR)
        assert "result" in client.answer(asked)


def test_a_gateway_that_drains_lets_turns_end(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.lasting())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        turn = client.start_prompt(session, "hang")
        fleet.rig.until_heard("A", b'"hang"')
        gateway.process.process.send_signal(signal.SIGTERM)
        while fleet.status("gateway")[0]["state"] != "draining":
            pass
        answer = client.answer(client.start_prompt(session, "more"))
        assert "shutting down" in answer["error"]["message"]
        client.send(
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        )
        assert client.answer(turn)["result"] == {"stopReason": "cancelled"}
        assert gateway.process.exit_code() == 0, gateway.process.story()


def test_a_turn_goes_on_when_its_gateway_ends(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.lasting())
    with fleet.gateway("-c", "serve.wind-down=0.2") as first, fleet.gateway() as second:
        client = first.socket()
        session = client.begin()
        client.start_prompt(session, "hang")
        fleet.rig.until_heard("A", b'"hang"')
        first.end()
        [worker] = fleet.status("worker")
        assert worker["counts"]["open_turns"] == 1
        other = second.socket()
        other.initialize()
        load = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert "result" in other.request("session/load", load)
        shown = [one["params"]["update"] for one in other.frames if "params" in one]
        assert "hanging" in [one["content"]["text"] for one in shown if "content" in one]
        assert fleet.status("worker")[0]["counts"]["open_turns"] == 1


def test_a_worker_whose_turns_take_too_long_ends_all_the_same(fleet: Fleet) -> None:
    workers = [fleet.worker("-c", "serve.wind-down=0.5", fleet.rig.lasting()) for _ in range(2)]
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "one")
        turn = client.start_prompt(session, "hang")
        fleet.rig.until_heard("A", b'"hang"')
        first = fleet.holder()
        fleet.kill(first, signal.SIGTERM)
        assert "moves to another worker" in client.answer(turn)["error"]["message"]
        client.prompt(session, "two")
        [ended] = [worker for worker in workers if worker.process.pid == first["pid"]]
        assert ended.exit_code() == 0, ended.story()


def test_fleet_dev_starts_a_lost_worker_again(rig: Rig) -> None:
    dev = rig.run("fleet", "dev", rig.lasting(), "--listen", "ws://127.0.0.1:0")
    shown = re.compile(r"\(set -a; \. (\S+); conductor fleet status --nats (nats://\S+)\)\n")
    dev.until(lambda: shown.search(dev.stderr) is not None, "the fleet is there")
    file, url = shown.findall(dev.stderr)[0]
    address = re.findall(r"conductor connect (ws://\S+)", dev.stderr)[0]
    login = dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
    fleet = Fleet(rig, url, **login)
    client = Socket(address)
    session = client.begin()
    client.prompt(session, "one")
    Fleet.kill(fleet.holder())
    dev.until(lambda: "has ended by the signal 9; another one starts" in dev.stderr, "the word")
    fleet.status("worker", 2)
    while "error" in client.answer(client.start_prompt(session, "two")):
        pass
    client.close()
    dev.process.send_signal(signal.SIGINT)
    assert dev.exit_code() == 0, dev.story()


def test_what_keeps_a_fleet_dev_from_its_start_is_named(rig: Rig) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    listen = ("--listen", f"ws://127.0.0.1:{taken.getsockname()[1]}")
    refused = rig.run("fleet", "dev", "demo", *listen)
    assert refused.exit_code() == 1
    assert "the gateway of the fleet has ended with the exit code 2" in refused.stderr
    assert "cannot listen at" in refused.stderr
    taken.close()
    wrong = rig.run("fleet", "dev", "no-such-thing")
    assert wrong.exit_code() == 1
    assert "of the fleet has ended" in wrong.stderr
    assert "no-such-thing" in wrong.stderr
    file = rig.folder / "file"
    file.write_text("")
    stored = rig.run("fleet", "dev", "demo", "--store", str(file))
    assert stored.exit_code() == 2
    assert "cannot be used" in stored.stderr


def test_a_permission_is_asked_through_two_gateways(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.lasting())
    with fleet.gateway() as first, fleet.gateway() as second:
        one, two = first.socket(), second.socket()
        session = one.begin()
        two.initialize()
        load = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert "result" in two.request("session/load", load)
        turn = one.start_prompt(session, "ask")
        asked = two.receive()
        while asked.get("method") != "session/request_permission":
            asked = two.receive()
        outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        two.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})
        assert "result" in one.answer(turn)


def test_attach_through_a_gateway(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "/echo before")
        shown = json.loads(conductor("attach", gateway.address, "--list", "--json").out)
        assert session in json.dumps(shown)
        with Running("attach", gateway.address, screen=(100, 40)) as other:
            other.wait_for(other.err, "1 other is attached")
            other.wait_for(other.out, "before")
