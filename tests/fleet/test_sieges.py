"""Strains that a fleet bears: clients that do not read, old epochs, other versions, a NATS that is
full or away for good, an upgrade under load, a thousand idle sessions.
"""

import asyncio
import os
import signal
import sys
import time
from typing import Any, Final

import nats as client
import pytest

from conductor.fleet import messages, names
from tests.harness.fleet.site import SERVES, Site
from tests.harness.process.processes import chars_written, command_line, descendants, pss_mib
from tests.harness.process.rig import Rig
from tests.harness.process.serving import new_token
from tests.places import DEADLINE

_OTHER_VERSION: Final = """
import sys
from conductor.cli import main
from conductor.fleet import messages
messages.VERSION += 1
sys.exit(main(sys.argv[1:]))
"""


def memory(site: Site) -> float:
    """Megabytes of the workers and what they run, agents aside."""
    found = []
    for worker in site.workers.values():
        pids = [worker.process.pid, *descendants(worker.process.pid)]
        found += [pid for pid in pids if "numbering_agent" not in command_line(pid)]
    return pss_mib(found)


def stands_still(pid: int) -> None:
    """Waits until a process writes no more."""
    deadline, before = time.monotonic() + DEADLINE, -1
    while (now := chars_written(pid)) != before:
        assert time.monotonic() < deadline, "it writes on and on"
        before = now
        time.sleep(0.5)


def test_an_editor_that_does_not_read_makes_no_worker_grow(rig: Rig) -> None:
    with Site(rig, workers=1) as site:
        slow, other = site.socket(), site.socket()
        site.crowd.begin()
        site.prompt()
        before = memory(site)
        turn = slow.prompt(updates=6_000, size=20_000)
        site.crowd.until(lambda: turn.updates, "the stream")
        slow.reading = False
        stands_still(int(turn.life.partition("-")[0]))
        assert memory(site) < before + 24
        beside = other.prompt(updates=3)
        site.crowd.until(lambda: beside.answers, "the turn of an editor that reads")
        slow.reading = True
        site.crowd.answered()
        assert turn.updates == 6_000


def test_what_comes_of_an_old_epoch_reaches_nobody(rig: Rig) -> None:
    async def stale(site: Site, worker: str, epoch: int) -> bytes:
        bus = await client.connect(site.nats.url)
        request = messages.Open(
            principal="local", chain="", connection=names.new_id(), gateway=names.new_id(),
            epoch=epoch, version=messages.VERSION,
        )  # fmt: skip
        answer = await bus.request(names.opening(worker), messages.write(request), DEADLINE)
        for _ in range(20):  # packets of a link that is not there
            await bus.publish(names.packets("worker", worker, names.new_id()), b"\x00" * 64)
        await bus.flush()
        await bus.close()
        return bytes(answer.data)

    with Site(rig, workers=1) as site:
        site.editors()
        site.stream()
        [worker] = site.fleet.status("worker")
        answer = asyncio.run(stale(site, worker["id"], 999_999))
        assert b"does not have the room in the epoch 999999" in answer
        site.goes_on()
        site.end()


def test_a_worker_of_another_version_is_passed_by_and_named(rig: Rig) -> None:
    with Site(rig, workers=2) as site:
        first = site.workers.pop("worker1")
        os.kill(first.process.pid, signal.SIGTERM)
        assert first.exit_code() == 0
        words = ["fleet", "worker", "--nats", site.nats.urls, site.agent]
        with site.machine("worker1").inside():
            newer = rig.start([sys.executable, "-c", _OTHER_VERSION, *words])
        newer.until_stderr(SERVES)
        site.editors()
        site.prompt()
        os.kill(site.workers["worker2"].process.pid, signal.SIGTERM)
        assert site.workers["worker2"].exit_code() == 0
        late = site.socket()
        late.begin()
        site.crowd.until(lambda: late.refusals, "the named error")
        assert "another version of the fleet's protocol" in late.refusals[0]["message"]


def test_a_full_disk_refuses_new_rooms_by_name_and_the_others_go_on(rig: Rig) -> None:
    async def fill(url: str, full: bool) -> None:
        bus = await client.connect(url)
        jetstream = bus.jetstream()
        if full:
            await jetstream.add_stream(name="filler", subjects=["filler"])
            for size in (100_000, 10_000, 1_000, 100, 1):
                try:
                    while True:
                        await jetstream.publish("filler", b"x" * size)
                except client.js.errors.APIError:
                    continue
        else:
            await jetstream.delete_stream("filler")
        await bus.close()

    alice, bob = (new_token(rig, name) for name in ("alice", "bob"))
    tokens = ("--tokens", str(rig.folder / "tokens"))
    with Site(rig, workers=1, listens=tokens, store="4MB") as site:
        hers = site.socket(token=alice)
        site.crowd.begin()
        site.stream()
        asyncio.run(fill(site.nats.url, True))
        his = site.socket(token=bob)
        his.begin()
        site.crowd.until(lambda: his.refusals, "the named error")
        assert "NATS does not keep `rooms` now: insufficient" in his.refusals[0]["message"]
        his.comes_back = False
        his.cut()
        told: list[dict[str, Any]] = []
        hers.request("session/new", {"cwd": "/", "mcpServers": []}, told.append)
        site.goes_on()
        site.crowd.until(lambda: told, "the named error for a session that nobody would find")
        assert "the new session is not recorded" in told[0]["error"]["message"]
        site.goes_on()
        (rig.folder / "gate-1").touch()
        site.crowd.until(lambda: not site.crowd.ledger.open, "the end of the turn")
        asyncio.run(fill(site.nats.url, False))
        his.begin()
        site.crowd.until(lambda: his.sessions, "the room of the other one")
        site.prompt()
        assert site.errors == []
        assert hers.links == 1


def test_nats_that_is_away_for_good_costs_no_memory_and_parts_end(rig: Rig) -> None:
    with Site(rig, workers=1) as site:
        editor = site.socket()
        site.crowd.begin()
        site.prompt()
        site.nats.kill()
        _, worker = site.holder()
        worker.until_stderr("NATS is away")
        before = memory(site)
        turn = editor.prompt(updates=6_000, size=20_000)
        site.gateways["gateway1"].process.until_stderr("NATS is away")
        assert memory(site) < before + 24
        assert turn.updates == 0
        late = site.socket()
        late.begin()
        site.crowd.until(lambda: late.refusals, "the named error")
        assert "NATS is away" in late.refusals[0]["message"]
        gateway = site.gateways["gateway1"].process
        for part in (gateway, worker):
            os.kill(part.process.pid, signal.SIGINT)
            os.kill(part.process.pid, signal.SIGTERM)  # two of one kind may come as one
        for part in (gateway, worker):
            part.exit_code()
        editor.comes_back = late.comes_back = False
        editor.cut()


@pytest.mark.parametrize("users", [1, 10])
def test_workers_are_replaced_one_by_one_with_fifty_open_turns(rig: Rig, users: int) -> None:
    tokens = [new_token(rig, f"user-{number}") for number in range(users)]
    listens = ("--tokens", str(rig.folder / "tokens"))
    with Site(rig, workers=3, listens=listens) as site:
        for token in tokens:
            site.socket(token=token)
        site.crowd.begin(sessions=5)
        for name in list(site.workers)[: 3 if users > 1 else 1]:
            site.stream()
            assert len(site.crowd.ledger.open) == 5 * users
            old = site.workers[name]
            os.kill(old.process.pid, signal.SIGTERM)
            site.goes_on()
            site.end()
            assert old.exit_code() == 0, old.story()
            site.worker(name)
        site.prompt()
        assert site.errors == []


@pytest.mark.parametrize(("users", "each"), [(2, 10), (10, 100)])
def test_idle_sessions_cost_little(rig: Rig, users: int, each: int) -> None:
    tokens = [new_token(rig, f"user-{number}") for number in range(users)]
    listens = ("--tokens", str(rig.folder / "tokens"))
    workers = 4 if users > 2 else 1
    with Site(rig, workers=workers, listens=listens, options=("--share",)) as site:
        empty = memory(site)
        for token in tokens:
            site.socket(token=token)
        site.crowd.begin(sessions=each)
        a_session = (memory(site) - empty) / (users * each)
        print(f"{users * each} idle sessions: {a_session:.3f} MB each")
        assert a_session < 3
        for number in range(0, each, 10):
            for editor in site.crowd.editors:
                editor.prompt(editor.sessions[number], updates=3)
            site.crowd.answered()
        assert site.errors == []
