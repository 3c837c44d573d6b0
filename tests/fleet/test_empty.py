"""NATS stands still, or comes back without its data; and a worker dies that has just named its
sessions. Nobody starts a part again."""

import shutil

from tests.harness.fleet.site import Site
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.harness.process.netns import stopped
from tests.harness.process.rig import Rig

SESSIONS = 30
NEW = {"cwd": "/", "mcpServers": []}


def emptied(nats: Nats) -> None:
    """NATS loses all that it keeps."""
    nats.kill()
    shutil.rmtree(nats.store)
    nats.start()


def test_who_knows_a_session_finds_it_also_when_its_worker_dies(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.worker(fleet.rig.lasting())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        client.initialize()
        holder = fleet.holder("connections")
        asked = [client.start("session/new", NEW) for _ in range(SESSIONS)]
        told = [client.answer(one)["result"]["sessionId"] for one in asked[: SESSIONS // 2]]
        fleet.kill(holder)
        other = gateway.socket()
        other.initialize()
        loads = [other.start("session/load", {**NEW, "sessionId": one}) for one in told]
        assert [one for one in map(other.answer, loads) if "error" in one] == []


def test_nats_that_stands_still_loses_nobody(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        site.nats.nodes[0].pause()
        for part in (worker, site.gateways["gateway1"].process):
            part.until_stderr("NATS is away")
        site.nats.nodes[0].resume()
        site.goes_on()
        site.end()
        site.prompt()
        assert site.errors == []
        assert site.holder()[0] == name


def test_a_worker_that_stood_still_while_nats_lost_all_has_no_room(
    fleet: Fleet, nats: Nats
) -> None:
    workers = [fleet.worker(fleet.rig.lasting()) for _ in range(2)]
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "one")
        first = fleet.holder()
        with stopped(first["pid"]):
            emptied(nats)
            other = gateway.socket()
            again = other.begin()  # nobody knows the first session any more
            other.prompt(again, "two")
        [zombie] = [one for one in workers if one.process.pid == first["pid"]]
        zombie.until_stderr("another worker has the room")
        rooms = {one["id"]: one["counts"]["rooms"] for one in fleet.status("worker", 2)}
        assert rooms.pop(first["id"]) == 0
        assert [*rooms.values()] == [1]
        other.prompt(again, "three")


def test_nats_that_comes_back_empty_gets_all_again(fleet: Fleet, nats: Nats) -> None:
    workers = [fleet.worker(fleet.rig.lasting()) for _ in range(2)]
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        turn = client.start_prompt(session, "hang")
        fleet.rig.until_heard("A", b'"hang"')
        first = fleet.holder()
        emptied(nats)
        late = gateway.socket()
        late.begin()  # its room is where it was
        cancel = {"method": "session/cancel", "params": {"sessionId": session}}
        client.send({"jsonrpc": "2.0", **cancel})
        assert client.answer(turn)["result"] == {"stopReason": "cancelled"}
        client.prompt(session, "two")
        client.prompt(client.new_session(), "another")
        assert fleet.holder()["id"] == first["id"]
        fleet.kill(first)
        client.answer(client.start_prompt(session, "three"))
        client.prompt(session, "four")
        assert not [one.stderr for one in workers if "defect" in one.stderr]
