"""The accounts of deploy/nats: a fleet works with them, and nothing beyond its part is possible."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any, Final, Self

import nats as client
import pytest

from conductor.fleet import messages
from tests.fleet.test_rollouts import PLAIN, Pool, used
from tests.harness.process.command import Ran, conductor, environment
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.places import DEADLINE, ROOT
from tests.services.keepers import Fleet as KeptValues
from tests.services.keepers import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nats.aio.client import Client

    from tests.harness.process.rig import Rig

FOLDER: Final = ROOT / "deploy" / "nats"
TENANTS: Final = (FOLDER / "tenants.conf").read_text().replace("CHANGE-", "of-")
ACCOUNTS: Final = TENANTS.replace('include "roles.conf"', (FOLDER / "roles.conf").read_text())


@pytest.fixture
def tenants(tmp_path: Path) -> Iterator[Nats]:
    """A server with the accounts as they are written."""
    with Nats(tmp_path, config=ACCOUNTS, store="100GB") as server:
        for tenant in ("acme", "globex"):
            made = command(server, f"{tenant}-admin", "init")
            assert made.code == 0, made.err
        yield server


def user(name: str) -> dict[str, str]:
    """The environment of a part of the fleet."""
    return {"CONDUCTOR_NATS_USER": name, "CONDUCTOR_NATS_PASSWORD": f"of-{name}"}


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
            shown = {"user": name, "pass": password or f"of-{name}", "verbose": False}
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

    def does(self, lines: str) -> bool:
        """Whether the server does all that these lines ask for."""
        return self._until_answered(lines)

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
    return await client.connect(server.url, user=name, password=f"of-{name}")


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
    used(worker, bundle)
    fleet = Fleet(rig, tenants.url)
    with fleet.gateway(**user("acme-gateway")) as gateway:
        editor = gateway.socket()
        session = editor.begin()
        assert editor.prompt(session, "/echo hello") == "hello"
        deadline = time.monotonic() + DEADLINE
        while '"hello"' not in (shown := command(tenants, "acme-auditor", "journal", "local")).out:
            assert time.monotonic() < deadline, shown  # it is written beside what the client hears
        names = command(tenants, "acme-controller", "status")
        drained = command(tenants, "acme-controller", "drain", worker_of(names.out))
        assert drained.code == 0, drained.err
        assert worker.exit_code() == 0
        gateway.end()
        everything = worker.stderr + gateway.process.stderr + drained.err + names.err
    assert "refuses" not in everything
    assert "CONDUCTOR_NATS" not in everything  # no complaint of these variables
    assert "iolation" not in tenants.story()


def test_a_worker_keeps_values_of_components(tenants: Nats) -> None:
    keeper = KeptValues(tenants.url, "acme-worker", "of-acme-worker")
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


def command(server: Nats, name: str, *words: str) -> Ran:
    """`conductor fleet WORDS` as a user."""
    return conductor("fleet", *words, "--nats", server.url, env=environment(**user(name)))


def worker_of(shown: str) -> str:
    """The id of the worker in the output of `fleet status`."""
    found = re.search(r"worker\s+(\S+)", shown)
    assert found, shown
    return found[1]


SUBJECTS: Final = (
    *("room.place.main", "worker.w.open", "worker.w.to.c", "worker.w.beat", "worker.w.ctl"),
    *("gateway.g.to.c", "gateway.g.beat", "fleet.status", "fleet.gateways", "journal.r.c.c2a"),
    *("$KV.rooms.main.r", "$KV.owned.main.r.s", "$KV.kv.s.k", "$KV.config.main"),
    *("$O.bundles.M.d", "_INBOX.x", "_R_.x", "$SYS.REQ.SERVER.PING", "$JS.FC.x"),
    *("$JS.ACK.journal.c.1.1.1.1.1", "other.subject"),
)
"""Every subject and request with a meaning in a fleet, and some without."""
CALLS: Final = (
    *("INFO", "STREAM.NAMES", "STREAM.LIST", "ACCOUNT.PURGE.x", "META.LEADER.STEPDOWN"),
    *(
        f"{call}.{stream}"
        for call in (
            *("STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE"),
            *("STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE"),
            *("DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.LIST"),
        )
        for stream in ("KV_rooms", "KV_owned", "KV_kv", "KV_config", "journal", "x")
    ),
)
"""The requests that JetStream takes."""


def info(*streams: str) -> set[str]:
    """The requests that ask for the state of streams."""
    return {"INFO", *(f"STREAM.INFO.{stream}" for stream in streams)}


def read(*streams: str) -> set[str]:
    """The requests that ask for the state of streams, and read their messages one at a time."""
    return info(*streams) | {f"STREAM.MSG.GET.{stream}" for stream in streams}


STORES: Final = ("KV_rooms", "KV_owned", "KV_kv", "KV_config", "journal")
MAY: Final[dict[str, set[str]]] = {
    "gateway": {"room.place.main", "worker.w.open", "worker.w.to.c", "gateway.g.beat", "_R_.x"},
    "worker": {
        *("gateway.g.to.c", "worker.w.beat", "worker.w.ctl", "journal.r.c.c2a", "_R_.x"),
        *("_INBOX.x", "$KV.rooms.main.r", "$KV.owned.main.r.s", "$KV.kv.s.k"),
    },
    "controller": {
        *("fleet.status", "fleet.gateways", "worker.w.ctl", "$KV.config.main"),
    },
    "auditor": set(),
    "admin": set(),
}
"""The subjects to which each part may publish."""
ASKS: Final[dict[str, set[str]]] = {
    "gateway": read("KV_rooms"),
    "worker": read(*STORES[:-1])
    | info("journal")
    | {"STREAM.PURGE.KV_owned", "STREAM.PURGE.KV_kv", "DIRECT.GET.KV_kv"},
    "controller": read("KV_config"),
    "auditor": info("journal") | {"DIRECT.GET.journal"},
    "admin": info(*STORES) | {f"STREAM.CREATE.{stream}" for stream in STORES},
}
"""The requests of each part to JetStream."""
HEARS: Final[dict[str, set[str]]] = {
    "gateway": {"_INBOX.x", "gateway.g.to.c", "worker.w.beat", "fleet.gateways"},
    "worker": {
        *("_INBOX.x", "worker.w.open", "worker.w.to.c", "worker.w.ctl", "gateway.g.beat"),
        *("fleet.status", "$KV.config.main"),
    },
    "controller": {"_INBOX.x"},
    "auditor": {"_INBOX.x"},
    "admin": {"_INBOX.x"},
}
"""The subjects that each part hears."""


@pytest.mark.proves("a part of a fleet does its own")
@pytest.mark.parametrize("role", MAY)
def test_each_part_can_do_nothing_of_another(tenants: Nats, role: str) -> None:
    """A login tries every subject there is."""
    with Intruder(tenants, f"acme-{role}") as one:
        assert {each for each in SUBJECTS if one.may_publish(each)} == MAY[role]
        assert {each for each in CALLS if one.may_publish(f"JS.fleet.{each}")} == ASKS[role]
        assert [each for each in CALLS if one.may_publish(f"$JS.API.{each}")] == []
        wide = ("room.place.main", "journal.>", "$KV.>", "$O.>", "_R_.>", ">", "JS.fleet.>")
        heard = {each for each in (*SUBJECTS, *wide) if one.may_listen(each)}
        assert heard == HEARS[role]
        assert one.may_listen("room.place.main", "workers") is (role == "worker")
        assert all("Permissions Violation" in each for each in one.refused)


GOOD: Final = '{"good":1}'
"""An entry that is JSON, and no message."""


async def test_entries_that_no_worker_has_written_stop_no_auditor(tenants: Nats) -> None:
    """Malformed subjects, numbers and payloads in the journal."""
    subject = "journal.YWxpY2U.c.c2a"
    forged: list[tuple[dict[str, str], bytes]] = [
        ({"Nats-Msg-Id": "x-c-c2a-1"}, b"{}"),
        ({"Nats-Msg-Id": "1-c-c2a-2.y"}, b"{}"),
        ({"Nats-Msg-Id": "1-c-c2a-3", "Conductor-Number": "one"}, b"{}"),
        ({"Nats-Msg-Id": "1-c-c2a-4", "Conductor-At": "nan", "Conductor-Number": "1"}, b"{}"),
        ({"Nats-Msg-Id": "1-c-c2a-5", "Conductor-Number": "1"}, b"{"),
        ({"Nats-Msg-Id": "1-c-c2a-6", "Conductor-Number": "-1"}, b"{}"),
    ]

    worker = await connected(tenants, "acme-worker")
    js = worker.jetstream(prefix="JS.fleet")
    for headers, payload in forged:
        await js.publish(subject, payload, headers=headers)
    await js.publish(f"{subject}.more.words", b"{}")
    good = {"Nats-Msg-Id": "1-c-c2a-7", "Conductor-Number": "1", "Conductor-At": "1.0"}
    await js.publish(subject, GOOD.encode(), headers=good)
    await worker.close()
    shown = command(tenants, "acme-auditor", "journal", "alice")
    assert shown.code == 0, shown.err
    assert [json.loads(line).get("gap") for line in shown.out.splitlines()] == [None, GOOD]


REPLIES: Final = (
    *("$KV.rooms.main.r", "$KV.config.main", "$KV.kv.s.k", "journal.r.c.c2a", "worker.w.open"),
    *("room.place.main", "$JS.API.STREAM.PURGE.journal", "JS.fleet.STREAM.PURGE.KV_kv"),
)
"""Where an answer must not come, whoever says that it should."""


async def test_answers_come_nowhere_but_to_who_has_asked(tenants: Nats) -> None:
    """JetStream, and a worker that takes places, are told to answer elsewhere."""
    worker = await connected(tenants, "acme-worker")
    js = worker.jetstream(prefix="JS.fleet")
    for bucket in ("rooms", "kv"):
        await js.publish(f"$KV.{bucket}.main.r", b"kept")
    before = [await state(js, stream) for stream in STORES]
    heard: list[str] = []

    async def take(message: Any) -> None:
        heard.append(message.subject)
        await worker.publish(message.reply, b"answer")

    await worker.subscribe("room.place.*", queue="workers", cb=take)
    await worker.subscribe("worker.w.open", cb=take)
    await worker.flush()
    gateway = await connected(tenants, "acme-gateway")
    controller = await connected(tenants, "acme-controller")
    for reply in REPLIES:
        asked = b'{"last_by_subj":"$KV.rooms.main.r"}'
        await gateway.publish("JS.fleet.STREAM.MSG.GET.KV_rooms", asked, reply=reply)
        await controller.publish("JS.fleet.STREAM.INFO.KV_config", b"", reply=reply)
        await gateway.publish("room.place.main", b"{}", reply=reply)
    for one in (gateway, controller, worker):
        await one.flush()
    while heard.count("room.place.main") < len(REPLIES):
        await asyncio.sleep(0.01)
    await worker.flush()
    assert heard == ["room.place.main"] * len(REPLIES)
    assert [await state(js, stream) for stream in STORES] == before
    for one in (gateway, controller, worker):
        await one.close()


async def state(js: Any, stream: str) -> tuple[int, int]:
    """How much a stream has had, and has."""
    found = (await js.stream_info(stream)).state
    return found.last_seq, found.messages


async def test_a_worker_answers_no_request_that_jetstream_was_told_to_bring(
    rig: Rig, tenants: Nats
) -> None:
    """A value that is a request to open a connection, read so that it comes to a worker."""
    fleet = Fleet(rig, tenants.url)
    fleet.worker(rig.demo(), **user("acme-worker"))
    names = command(tenants, "acme-controller", "status").out

    thief = await connected(tenants, "acme-worker")
    order = messages.write(messages.Order(do="drain"))
    await thief.jetstream(prefix="JS.fleet").publish("$KV.kv.s.k", order)
    asked = json.dumps({"last_by_subj": "$KV.kv.s.k"}).encode()
    heard: list[bytes] = []

    async def take(message: Any) -> None:
        heard.append(message.data)

    subject = f"worker.{worker_of(names)}.ctl"
    await thief.subscribe(subject, cb=take)
    await thief.publish("JS.fleet.DIRECT.GET.KV_kv", asked, reply=subject)
    await thief.flush()
    while not heard:
        await asyncio.sleep(0.01)
    await thief.close()
    assert heard == [order]
    assert worker_of(command(tenants, "acme-controller", "status").out) == worker_of(names)


async def test_a_tenant_reaches_nothing_of_another(tenants: Nats) -> None:
    """The same subjects and buckets, in accounts of two tenants: nothing crosses."""
    ours = await connected(tenants, "acme-worker")
    gateway = await connected(tenants, "globex-gateway")
    theirs = await connected(tenants, "globex-worker")
    heard: list[bytes] = []

    async def take(message: Any) -> None:
        heard.append(message.data)

    await ours.subscribe("worker.*.to.*", cb=take)
    await ours.subscribe("room.place.*", queue="workers", cb=take)
    js, other = (one.jetstream(prefix="JS.fleet") for one in (ours, theirs))
    await js.publish("$KV.rooms.room", b"acme")
    await ours.flush()
    await gateway.publish("worker.w.to.c", b"stolen")
    with pytest.raises(client.errors.NoRespondersError):
        await gateway.request("room.place.main", b"{}", 5)
    await gateway.flush()
    await ours.flush()
    assert heard == []
    with pytest.raises(client.js.errors.NotFoundError):
        await other.get_msg("KV_rooms", subject="$KV.rooms.room")
    assert (await js.get_msg("KV_rooms", subject="$KV.rooms.room")).data == b"acme"
    for one in (ours, gateway, theirs):
        await one.close()


def test_a_part_makes_no_stream(rig: Rig, tmp_path: Path) -> None:
    with Nats(tmp_path, config=ACCOUNTS, store="100GB") as server:
        tried = rig.run("fleet", "worker", "--nats", server.url, rig.demo(), **user("acme-worker"))
        assert tried.exit_code() == 1
        assert "hint: an administrator makes all that a fleet keeps" in tried.stderr


def test_stolen_credentials_end_with_a_reload(tenants: Nats) -> None:
    server = tenants.nodes[0]
    with Intruder(tenants, "acme-gateway") as thief, Intruder(tenants, "globex-gateway") as other:
        assert thief.may_publish("room.place.main")
        server.reload(server.configuration.replace("of-acme-gateway", "new-one"))
        assert thief.is_cut()
        assert other.may_publish("room.place.main")  # nothing has cut it
    with pytest.raises(Refused, match="Authorization Violation"):
        Intruder(tenants, "acme-gateway")
    with Intruder(tenants, "acme-gateway", "new-one") as renewed:
        assert renewed.may_publish("room.place.main")


async def test_a_tenant_stores_no_more_than_its_part(tenants: Nats) -> None:
    """Streams and bytes are those of the accounts, so one tenant leaves room to the others."""
    for role, most in (("worker", 3), ("controller", 2), ("auditor", 1)):
        ours = await connected(tenants, f"acme-{role}")
        answer = json.loads((await ours.request("JS.fleet.INFO", b"", 5)).data)
        assert answer["limits"]["max_streams"] == most
        assert answer["limits"]["max_storage"] > 0
        await ours.close()


def test_a_tenant_opens_no_more_connections_than_its_part(tenants: Nats) -> None:
    """Each connection may stay unread, and NATS keeps the messages for it."""
    for role in ("gateway", "worker", "controller", "auditor", "admin"):
        with contextlib.ExitStack() as held:
            for _ in range(32):
                held.enter_context(Intruder(tenants, f"acme-{role}"))
            with pytest.raises(Refused, match="maximum account active connections exceeded"):
                held.enter_context(Intruder(tenants, f"acme-{role}"))
            held.enter_context(Intruder(tenants, f"globex-{role}"))  # others have their part


def test_a_connection_listens_to_no_more_than_its_part(tenants: Nats) -> None:
    with Intruder(tenants, "acme-auditor") as one:
        subscriptions = "\r\n".join(f"SUB _INBOX.{number} {number}" for number in range(2000))
        assert one.does(subscriptions)
        assert not one.may_listen("_INBOX.more")
        assert "maximum subscriptions exceeded" in one.refused[0]
