"""The accounts of deploy/nats: a fleet works with them, and nothing beyond its part is possible."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final, Self

import nats as client
import pytest

from tests.fleet.test_rollouts import PLAIN, Pool, used
from tests.harness.process.command import COMMAND
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.places import DEADLINE, ROOT
from tests.services.keepers import Fleet as KeptValues
from tests.services.keepers import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from nats.aio.client import Client

    from tests.harness.process.rig import Rig

FOLDER: Final = ROOT / "deploy" / "nats"
TENANTS: Final = (FOLDER / "tenants.conf").read_text()
ACCOUNTS: Final = TENANTS.replace('include "roles.conf"', (FOLDER / "roles.conf").read_text())


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Nats]:
    """A server with the accounts as they are written."""
    with Nats(tmp_path, config=ACCOUNTS, store="100GB") as server:
        yield server


def user(name: str) -> dict[str, str]:
    """What a part of the fleet has in its environment."""
    return {"CONDUCTOR_NATS_USER": name, "CONDUCTOR_NATS_PASSWORD": f"CHANGE-{name}"}


class Refused(Exception):  # noqa: N818 - it is no error of the test's
    """The server does not let somebody in."""


class Intruder:
    """A connection that speaks the protocol by hand: the server's answers come in order."""

    def __init__(self, server: Nats, name: str, password: str = "") -> None:
        node = server.nodes[0]
        self._socket = socket.create_connection((node.host, node.port), DEADLINE)
        self._lines = self._socket.makefile("rb")
        self.refused: list[str] = []
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            shown = {"user": name, "pass": password or f"CHANGE-{name}", "verbose": False}
            self._until_answered(f"CONNECT {json.dumps(shown)}")
            failed.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leaves."""
        self._lines.close()
        self._socket.close()

    def may_publish(self, subject: str) -> bool:
        """Whether the server takes a message there."""
        return self._until_answered(f"PUB {subject} 2\r\n{{}}")

    def may_listen(self, subject: str, queue: str = "") -> bool:
        """Whether the server takes a subscription, which ends at once."""
        return self._until_answered(f"SUB {subject} {queue} 1\r\nUNSUB 1")

    def is_cut(self) -> bool:
        """Waits until the server has closed the connection, if it does."""
        return all(not line.startswith(b"PONG") for line in self._lines)

    def _until_answered(self, text: str) -> bool:
        """Sends lines; whether nothing of them is refused. Raises `Refused`."""
        self._socket.sendall(f"{text}\r\nPING\r\n".encode())
        before = len(self.refused)
        for line in self._lines:
            if line.startswith(b"PONG"):
                return len(self.refused) == before
            if line.startswith(b"-ERR"):
                self.refused.append(line.decode())
        raise Refused(self.refused[-1])


async def connected(server: Nats, name: str) -> Client:
    """A client of the library."""
    return await client.connect(server.url, user=name, password=f"CHANGE-{name}")


def play(work: Callable[[], Awaitable[None]]) -> None:
    """Runs it in a loop of its own."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE):
            await work()

    asyncio.run(run())


def test_a_fleet_works_with_no_more_than_its_users_may(
    rig: Rig, tenants: Nats, tmp_path: Path
) -> None:
    """Bundle, rollout, prompt, values, journal, drain: each by its own user, nothing refused."""
    pool = Pool(tmp_path, rig, tenants)
    pool.home |= user("acme-controller")
    bundle = pool.bundle(PLAIN)
    mine = user("acme-worker")
    worker = pool.worker("--bundle-key", pool.public, "--journal", "on", **mine)
    pool.rolled(bundle)
    used(worker, pool.digest(bundle)[:12])
    fleet = Fleet(rig, tenants.url)
    with fleet.gateway(**user("acme-gateway")) as gateway:
        editor = gateway.socket()
        session = editor.begin()
        assert editor.prompt(session, "/echo hello") == "hello"
        deadline = time.monotonic() + DEADLINE
        while (
            '"hello"' not in (shown := command(tenants, "acme-auditor", "journal", "local")).stdout
        ):
            assert time.monotonic() < deadline, shown  # it is written beside what the client hears
        names = command(tenants, "acme-controller", "status")
        drained = command(tenants, "acme-controller", "drain", worker_of(names.stdout))
        assert drained.returncode == 0, drained.stderr
        assert worker.exit_code() == 0
        gateway.end()
        everything = worker.stderr + gateway.process.stderr + drained.stderr + names.stderr
    assert "refuses" not in everything
    assert "CONDUCTOR_NATS" not in everything  # no complaint of these variables
    assert "iolation" not in tenants.story()


def test_a_worker_keeps_values_of_components(tenants: Nats) -> None:
    keeper = KeptValues(tenants.url, "acme-worker", "CHANGE-acme-worker")
    try:
        store = keeper("/")
        ask(store, "p", "set", key="n", value=1)
        assert ask(store, "p", "get", key="n")["value"] == 1
        assert ask(store, "p", "list")["keys"] == ["n"]
        ask(store, "p", "delete", key="n")
        assert not ask(store, "p", "get", key="n")["found"]
    finally:
        keeper.close()
    assert "iolation" not in tenants.story()


def command(server: Nats, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`conductor fleet WORDS` as a user."""
    return subprocess.run(
        [*COMMAND, "fleet", *words, "--nats", server.url],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
        env={**os.environ, **user(name)},
    )


def worker_of(shown: str) -> str:
    """The id of the worker in what `fleet status` shows."""
    found = re.search(r"worker\s+(\S+)", shown)
    assert found, shown
    return found[1]


REFUSED: Final[dict[str, list[str]]] = {
    "gateway": [
        "gateway.other.to.connection",
        "worker.w.beat",
        "worker.w.ctl",
        "fleet.status",
        "journal.room.chain.c2a",
        "$KV.rooms.room",
        "$KV.owned.room.session",
        "$KV.kv.space.key",
        "$KV.config.main",
        "$O.bundles.M.digest",
        "$JS.API.STREAM.DELETE.KV_rooms",
        "$JS.API.STREAM.PURGE.KV_rooms",
        "$JS.API.STREAM.UPDATE.KV_rooms",
        "$JS.API.CONSUMER.CREATE.journal",
        "$SYS.REQ.SERVER.PING",
    ],
    "worker": [
        "room.place.main",
        "worker.other.open",
        "worker.other.to.connection",
        "gateway.g.beat",
        "$KV.config.main",
        "$O.bundles.M.digest",
        "$JS.API.STREAM.DELETE.journal",
        "$JS.API.STREAM.PURGE.journal",
        "$JS.API.CONSUMER.CREATE.journal",
        "$JS.API.STREAM.MSG.GET.journal",
    ],
    "controller": [
        "room.place.main",
        "worker.w.open",
        "worker.w.to.connection",
        "gateway.g.to.connection",
        "$KV.rooms.room",
        "$JS.API.CONSUMER.CREATE.journal",
        "$JS.API.STREAM.DELETE.KV_config",
    ],
    "auditor": ["worker.w.ctl", "journal.room.chain.c2a", "$JS.API.STREAM.PURGE.journal"],
}
"""What each part must not publish."""
UNHEARD: Final[dict[str, list[str]]] = {
    "gateway": ["worker.*.to.*", "worker.*.open", "room.place.main", "journal.>", "$KV.>", ">"],
    "worker": ["room.place.main", "gateway.*.to.*", "journal.>", "$KV.rooms.>", "$O.>", ">"],
    "controller": ["gateway.*.to.*", "worker.*.to.*", "journal.>", "fleet.status", ">"],
    "auditor": ["journal.>", "gateway.*.to.*", ">"],
}
"""… and where it must not listen."""


def test_each_part_can_do_nothing_of_another(tenants: Nats) -> None:
    for role, subjects in REFUSED.items():
        with Intruder(tenants, f"acme-{role}") as one:
            assert [each for each in subjects if one.may_publish(each)] == [], role
            assert [each for each in UNHEARD[role] if one.may_listen(each)] == [], role
            assert all("Permissions Violation" in each for each in one.refused)
    with Intruder(tenants, "acme-worker") as worker:
        assert worker.may_listen("room.place.main", "workers")
        assert worker.may_publish("$KV.rooms.room")
    assert "Publish Violation" in tenants.story()
    assert "Subscription Violation" in tenants.story()


def test_a_tenant_reaches_nothing_of_another(tenants: Nats) -> None:
    """The same subjects and buckets, in two accounts: nothing crosses."""

    async def work() -> None:
        ours = await connected(tenants, "acme-worker")
        gateway = await connected(tenants, "globex-gateway")
        theirs = await connected(tenants, "globex-worker")
        heard: list[bytes] = []

        async def take(message: Any) -> None:
            heard.append(message.data)

        await ours.subscribe("worker.*.to.*", cb=take)
        await ours.subscribe("room.place.*", queue="workers", cb=take)
        bucket = await ours.jetstream().create_key_value(bucket="rooms")
        await bucket.put("room", b"acme")
        await ours.flush()
        await gateway.publish("worker.w.to.c", b"stolen")
        with pytest.raises(client.errors.NoRespondersError):
            await gateway.request("room.place.main", b"{}", 5)
        await gateway.flush()
        await ours.flush()
        assert heard == []
        with pytest.raises(client.js.errors.NotFoundError):
            await theirs.jetstream().key_value("rooms")
        other = await theirs.jetstream().create_key_value(bucket="rooms")
        with pytest.raises(client.js.errors.KeyNotFoundError):
            await other.get("room")
        assert (await bucket.get("room")).value == b"acme"
        for one in (ours, gateway, theirs):
            await one.close()

    play(work)


def test_stolen_credentials_end_with_a_reload(tenants: Nats) -> None:
    server = tenants.nodes[0]
    with Intruder(tenants, "acme-gateway") as thief, Intruder(tenants, "globex-gateway") as other:
        assert thief.may_publish("room.place.main")
        server.reload(server.configuration.replace("CHANGE-acme-gateway", "new-one"))
        assert thief.is_cut()
        assert other.may_publish("room.place.main")  # nothing has cut it
    with pytest.raises(Refused, match="Authorization Violation"):
        Intruder(tenants, "acme-gateway")
    with Intruder(tenants, "acme-gateway", "new-one") as renewed:
        assert renewed.may_publish("room.place.main")


def test_a_tenant_stores_no_more_than_its_part(tenants: Nats) -> None:
    """Streams and bytes are those of the account, so one tenant leaves room to the others."""

    async def work() -> None:
        ours = await connected(tenants, "acme-worker")
        info = await ours.jetstream().account_info()
        assert (info.limits.max_storage, info.limits.max_streams) == (20_000_000_000, 8)
        await ours.close()

    play(work)
