"""Rollouts through the command line, over a real NATS: a good bundle reaches every worker and every
chain; a bad bundle changes nothing, and each worker says why."""

import asyncio
import json
import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import pytest

from conductor.cli import fleet_bundle
from conductor.fleet import bundle as bundles
from conductor.fleet import messages, names, pool_record
from conductor.fleet import rollout as rolling
from conductor.fleet.bus import Bus
from conductor.fleet.gateway import workers_of
from conductor.fleet.place import Place as NatsPlace
from conductor.fleet.pool_record import PoolRecords
from conductor.packages import key_signatures
from tests.fleet.bundles import blob, written
from tests.fleet.keys import pair
from tests.harness.process.command import COMMAND, Ran, conductor, environment
from tests.harness.process.nats import Nats
from tests.harness.process.processes import LEFT, wait_reaped
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import Socket, served
from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade
from tests.places import DEADLINE

PLAIN: Final = '[chains.work]\ncomponents = ["demo"]\n'
DATED: Final = '[chains.work]\ncomponents = ["datetime", "demo"]\n'
BROKEN: Final = '[chains.work]\ncomponents = ["./missing.wasm", "demo"]\n'
DATE: Final = "<current-date"


class Pool:
    """A pool of workers under test, and who rolls out to it."""

    def __init__(self, folder: Path, rig: Rig, nats: Nats) -> None:
        self.folder, self.rig, self.nats = folder, rig, nats
        self.home = {
            f"XDG_{what}_HOME": str(folder / "user" / what)
            for what in ("CONFIG", "STATE", "CACHE", "DATA")
        }
        self.key, self.public = pair(folder)

    def bundle(self, text: str, key: str | None = None) -> str:
        """A bundle of this configuration in a folder; its name."""
        folder = self.folder / f"config-{len([*self.folder.glob('config-*')])}"
        return written(folder, text, self.key if key is None else key)

    def published(self, registry: str, tag: str, text: str) -> str:
        """The same in a registry, through the command line; its name."""
        folder = self.folder / f"source-{tag}"
        folder.mkdir()
        (folder / "conductor.toml").write_text(text)
        where = f"oci://{registry}/me/pool:{tag}"
        ran = self.run("bundle", str(folder), "--out", where, "--key", self.key)
        assert ran.code == 0, ran.err
        (name,) = (
            line for line in ran.out.splitlines() if line.startswith("oci://") and "@" in line
        )
        return name

    def run(self, command: str, *arguments: str) -> Ran:
        """Runs `conductor fleet COMMAND`."""
        env = environment(**self.home)
        return conductor("fleet", command, *arguments, cwd=self.folder, env=env)

    def rollout(self, *arguments: str) -> Ran:
        """Runs `conductor fleet rollout`, with the key that the workers trust, or another one."""
        shows = "--status" in arguments
        named = any(each in arguments for each in ("--key", "--bundle-key"))
        keys = () if named else ("--bundle-key", self.public) if shows else ("--key", self.key)
        return self.run("rollout", *arguments, *keys, "--nats", self.nats.url)

    def rolled(self, *arguments: str) -> str:
        """The same, and it succeeds."""
        ran = self.rollout(*arguments)
        assert ran.code == 0, ran.err
        return ran.out

    def status(self) -> dict[str, Any]:
        """The output of `rollout --status`."""
        found: dict[str, Any] = json.loads(self.rolled("--status", "--json"))
        return found

    def worker(self, *arguments: str, **env: str) -> Chain:
        """A worker that follows rollouts, ready."""
        typed = arguments or ("--bundle-key", self.public)
        worker = self.rig.run(
            "fleet", "worker", "--nats", self.nats.url, *typed, **{**self.home, **env}
        )
        worker.until(lambda: "serving the pool" in worker.stderr, "a worker")
        return worker

    def on_bus(self, work: Callable[[Bus], Awaitable[None]]) -> None:
        """Does something with a connection of one's own."""

        async def run() -> None:
            bus = Bus(NatsPlace(nats=(self.nats.url,)), "test", print)
            await bus.connect()
            await work(bus)
            await bus.close()

        asyncio.run(run())

    def offer(self, name: str) -> None:
        """Names a candidate, whatever it is."""

        async def work(bus: Bus) -> None:
            records = PoolRecords(bus, [bundles.key_of(self.key)])
            known = await records.get("main")
            await records.change("main", known, rolling.offered(known.record, name), self.key)

        self.on_bus(work)


@pytest.fixture
def pool(tmp_path: Path, rig: Rig, nats: Nats) -> Pool:
    return Pool(tmp_path, rig, nats)


@pytest.fixture
def registry() -> Iterator[HandMade]:
    with registries.hand_made() as made:
        yield made


def used(worker: Chain, digest: str, times: int = 1) -> None:
    """Waits until a worker has taken a bundle so many times."""
    said = f"new chains start from the bundle {digest}"
    worker.until(lambda: worker.stderr.count(said) >= times, said)


class Busy:
    """A client that prompts all the time: each prompt is answered once, and in order."""

    def __init__(self, client: Socket) -> None:
        self._client = client
        self._session = client.begin()
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        self.turns = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(DEADLINE)
        assert not self._failed, self._failed
        answers = [one["id"] for one in self._client.frames if "id" in one and "method" not in one]
        assert answers == [*range(1, self.turns + 3)]  # `initialize` and `session/new` before

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                text = f"prompt {self.turns}"
                assert self._client.prompt(self._session, text).endswith(text)
                self.turns += 1
        except BaseException as error:
            self._failed.append(error)


def comes_to(client: Socket, session: str, *, dated: bool) -> None:
    """Prompts until a running chain has taken a bundle: it does so when it is idle."""
    deadline = time.monotonic() + DEADLINE
    while (DATE in client.prompt(session, "now?")) != dated:
        assert time.monotonic() < deadline, "the chain stays as it was"


def refused(worker: Chain, digest: str) -> None:
    """Waits until a worker has refused a bundle."""
    said = f"the bundle {digest} is refused"
    worker.until(lambda: said in worker.stderr, said)


def test_new_chains_and_running_ones_take_it_and_the_way_back(
    pool: Pool, registry: HandMade
) -> None:
    plain = pool.published(registry.host, "1", PLAIN)
    dated = pool.published(registry.host, "2", DATED)
    worker = pool.worker()
    said = pool.rolled(plain)
    assert "1 of 1 worker uses it" in said
    with served(
        pool.rig, "fleet", "gateway", "--nats", pool.nats.url, "--listen", "ws://127.0.0.1:0"
    ) as gateway:
        client = gateway.socket("/acp/work")
        session = client.begin()
        assert DATE not in client.prompt(session, "before")
        with Busy(gateway.socket("/acp/work")) as busy:
            pool.rolled(dated)
            used(worker, dated)
            comes_to(client, session, dated=True)
            later = gateway.socket("/acp/work")
            assert DATE in later.prompt(later.begin(), "hi")
            pool.rollout(pool.bundle(BROKEN)).assert_error(1, "nothing was switched")
            registry.odd[" "] = lambda handler: handler.answer(503)  # workers have what they need
            pool.rolled("--back")
            used(worker, plain, times=2)
            comes_to(client, session, dated=False)
        assert busy.turns
    found = pool.status()
    assert found["active"] == plain
    assert found["workers"][0]["bundles"] == {
        plain: "in use",
        dated: "ready",
    }


@pytest.mark.parametrize("bad", ["layer", "manifest", "missing", "signature", "chain"])
def test_a_bad_bundle_changes_nothing_and_the_status_says_why(
    pool: Pool, registry: HandMade, bad: str
) -> None:
    plain, dated = pool.bundle(PLAIN), pool.published(registry.host, "1", DATED)
    worker = pool.worker()
    pool.rolled(plain)
    name, true = dated, dict(registry.blobs)
    if bad == "layer":  # somebody replaces what the registry has
        (layer,) = json.loads(registry.manifests["me/pool", dated.partition("@")[2]][0])["layers"]
        registry.blobs[layer["digest"]] = bytes(layer["size"])
        said = ("failed: damaged: ", "sends something else than sha256:")
    elif bad == "manifest":
        name = f"{dated.partition('@')[0]}@sha256:{'1' * 64}"
        other = registry.manifests["me/pool", dated.partition("@")[2]]
        registry.manifests["me/pool", name.partition("@")[2]] = other
        said = ("failed: damaged: ", "sends something else than sha256:111")
    elif bad == "missing":
        name = f"{dated.partition('@')[0]}@sha256:{'0' * 64}"
        said = ("failed: missing: ", "has no sha256:000")
    else:
        other_key, public = pair(pool.folder, "other")
        is_chain = bad == "chain"
        name = pool.bundle(BROKEN) if is_chain else pool.bundle(DATED, other_key)
        said = ("failed: signature: ", "is not signed by ")
        if is_chain:
            said = ("failed: chain `work`: ", "module: `missing.wasm`")
        keys = ("--key", pool.key, "--bundle-key", public)  # who rolls it out trusts the other one
        ran = pool.rollout(name, *keys)
        ran.assert_error(1, "0 of 1 worker are ready", *said, "nothing was switched")
    if bad not in ("signature", "chain"):
        pool.offer(name)
    refused(worker, name)

    found = pool.status()
    assert (found["active"], found["candidate"]) == (plain, name)
    bundles = found["workers"][0]["bundles"]
    assert bundles[found["active"]] == "in use"
    assert all(text in bundles[name] for text in said)
    assert f"  {name.rpartition(':')[2][:16]}…  failed: " in pool.rolled("--status")
    if bad == "layer":  # the true one under the same name mends it
        registry.blobs.update(true)
        pool.rolled(dated)
        used(worker, dated)


def test_a_registry_that_is_away_is_asked_again(pool: Pool, registry: HandMade) -> None:
    plain = pool.published(registry.host, "1", PLAIN)
    worker = pool.worker()
    registry.odd["GET .*/blobs/"] = lambda handler: handler.answer(503)
    pool.offer(plain)
    worker.until(lambda: "cannot be fetched now" in worker.stderr, "it is said")
    assert [*pool.status()["workers"][0]["bundles"].values()] == ["preparing"]
    registry.odd.clear()
    pool.rolled(plain)
    used(worker, plain)


def test_out_of_the_registry_of_debian(
    pool: Pool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = registries.program(tmp_path_factory.mktemp("debian"))
    if not program:
        pytest.skip("there is neither docker-registry nor apt")
    folder = tmp_path_factory.mktemp("registry")
    with registries.debian(program, folder, password=True) as host:
        pool.home["DOCKER_CONFIG"] = str(pool.folder / "login")
        with pytest.MonkeyPatch.context() as patch:
            registries.log_in(patch, pool.folder / "login", host)
        plain = pool.published(host, "1", PLAIN)
        worker = pool.worker()
        assert "1 of 1 worker uses it" in pool.rolled(f"oci://{host}/me/pool:1")
        used(worker, plain)
        assert pool.status()["active"] == plain


def test_a_worker_that_starts_later_takes_the_active_one(pool: Pool) -> None:
    plain, dated = pool.bundle(PLAIN), pool.bundle(DATED)
    pool.rollout(plain, "--wait", "0").assert_error(1, "no worker of the pool `main` answers")
    pool.rolled(plain, "--at", "0")
    pool.rolled(dated, "--at", "0")
    options = ("--nats", pool.nats.url, "--bundle-key", pool.public)
    worker = pool.rig.start(
        ["sh", "-c", LEFT, "sh", *COMMAND, "fleet", "worker", *options], **pool.home
    )
    used(worker, dated)
    ready = f"the bundle {plain} is ready"
    worker.until(lambda: ready in worker.stderr, "the way back")
    assert [*pool.status()["workers"][0]["bundles"].values()] == ["in use", "ready"]
    # The worker has started programs of its own to prepare bundles, and still reaps orphans.
    (pool.rig.folder / "end").touch()
    left = (pool.rig.folder / "left").read_text().strip()
    assert wait_reaped(int(left), DEADLINE)


def test_a_share_of_the_workers_is_enough_if_that_is_asked(pool: Pool) -> None:
    """The user configuration of a worker does not matter; a policy of its machine would."""
    plain, dated = pool.bundle(PLAIN), pool.bundle(DATED)
    other, public = pair(pool.folder, "other")
    first = pool.worker("--bundle-key", pool.public)
    second = pool.worker("--bundle-key", public, "--bundle-key", pool.public)
    pool.rolled(plain)
    used(second, plain)
    foreign = pool.bundle(DATED, other)
    keys = ("--key", pool.key, "--bundle-key", public)
    ran = pool.rollout(foreign, *keys)
    ran.assert_error(1, " of 2 workers ", "failed: signature")
    assert "1 of 2 workers uses it" in pool.rolled(foreign, "--at", "50", *keys)
    used(second, foreign)
    refused(first, foreign)
    pool.rolled(dated)  # what both take ends the difference
    used(first, dated)


def test_a_worker_that_follows_nothing_is_named(pool: Pool) -> None:
    plain = pool.bundle(PLAIN)
    pool.worker("demo")
    pool.rollout(plain, "--wait", "0").assert_error(
        1, "follows no rollouts (it runs without `--bundle-key`)", "nothing was switched"
    )


def test_nats_may_be_away_in_between(pool: Pool) -> None:
    plain, dated = pool.bundle(PLAIN), pool.bundle(DATED)
    worker = pool.worker()
    pool.rolled(plain)
    pool.nats.kill()
    worker.until(lambda: "NATS is away" in worker.stderr, "NATS is away")
    pool.nats.start()
    pool.rolled(dated)
    used(worker, dated)


def test_a_bundle_in_a_folder(pool: Pool) -> None:
    """A worker of its own: no rollout. SIGHUP reads the folder again."""
    place = pool.folder / "here"
    written(place, PLAIN, pool.key)
    worker = pool.worker("--bundle", str(place), "--bundle-key", pool.public)
    with served(
        pool.rig, "fleet", "gateway", "--nats", pool.nats.url, "--listen", "ws://127.0.0.1:0"
    ) as gateway:
        client = gateway.socket("/acp/work")
        session = client.begin()
        assert client.prompt(session, "hi") == "hi"
        layer = max((place / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
        whole = {path: path.read_bytes() for path in layer.parent.iterdir()}
        for path in whole:
            path.write_bytes(path.read_bytes()[:-1])
        worker.process.send_signal(signal.SIGHUP)
        worker.until(lambda: "stays as it was" in worker.stderr, "a refusal")
        assert client.prompt(session, "as before") == "as before"
        shutil.rmtree(place)
        written(place, DATED, pool.key)
        worker.process.send_signal(signal.SIGHUP)
        worker.until(lambda: "have been read again" in worker.stderr, "the other bundle")
        comes_to(client, session, dated=True)


def test_a_bundle_by_its_digest_alone(pool: Pool, registry: HandMade) -> None:
    """As a Deployment has it: no rollout, and SIGHUP asks nobody."""
    plain = pool.published(registry.host, "1", PLAIN)
    worker = pool.worker("--bundle", plain, "--bundle-key", pool.public)
    registry.odd[" "] = lambda handler: handler.answer(503)
    worker.process.send_signal(signal.SIGHUP)
    worker.until(lambda: "have been read again" in worker.stderr, "the same bundle")
    (shown,) = json.loads(pool.run("status", "--json", "--nats", pool.nats.url).out)
    heads, row = pool.run("status", "--nats", pool.nats.url).out.splitlines()
    assert heads.split()[-2:] == ["pid", "bundle"]
    assert row.split()[-2:] == [str(shown["pid"]), fleet_bundle.short(shown["config"])]
    assert (shown["config"], shown["state"]) == (plain, "ready")
    again = pool.worker("--bundle", plain, "--bundle-key", pool.public)  # it is in the cache
    assert again.process.poll() is None


def test_a_bundle_that_cannot_be_used(pool: Pool) -> None:
    plain, broken = pool.bundle(PLAIN), pool.bundle(BROKEN)
    _, other = pair(pool.folder, "other")

    def start(*arguments: str) -> Ran:
        env = environment(**pool.home)
        return conductor(
            "fleet", "worker", *arguments, "--nats", pool.nats.url, cwd=pool.folder, env=env
        )

    start("--bundle", plain).assert_error(2, "means nothing without `--bundle-key`")
    start("--bundle", plain, "--bundle-key", other).assert_error(1, "is not signed by ")
    start("--bundle", broken, "--bundle-key", pool.public).assert_error(2, "no such module")
    start("--bundle-key", pool.public, "demo").assert_error(2, "not from both")
    start("--bundle-key", str(blob(plain))).assert_error(2, "the public key")
    tag = "oci://registry.example/pool:1"
    start("--bundle", tag, "--bundle-key", pool.public).assert_error(2, "a tag may move")


def test_what_cannot_be_rolled_out(pool: Pool) -> None:
    plain = pool.bundle(PLAIN)
    pool.rollout("--back").assert_error(2, "there is nothing to go back to")
    pool.rollout().assert_error(2, "takes a BUNDLE, or `--back`, or `--status`")
    pool.rollout(plain, "--pool", "a.b").assert_error(2, "the pool `a.b` is no name")
    unsigned = pool.bundle(PLAIN, key="")
    pool.rollout(unsigned).assert_error(1, "comes with no signature")
    other, _ = pair(pool.folder, "other")
    for keys in ((), ("--key", pool.key, "--bundle-key", pool.public)):
        ran = pool.rollout(pool.bundle(DATED, other), "--at", "0", *keys)
        ran.assert_error(1, "is not signed by the key sha256:", "`--bundle-key` names")
        assert ran.out == ""
    assert pool.status()["revision"] == 0
    blob(unsigned).write_bytes(b"x" * 1000)
    pool.rollout(unsigned).assert_error(1, "sends something else than")


def test_a_worker_that_stands_still_is_not_taken_for_ready(pool: Pool) -> None:
    """The worker has answered once, and NATS still has it: too few are ready, however long it is
    silent."""
    pool.worker()
    plain = pool.bundle(PLAIN)
    pool.rolled(plain)

    async def work(bus: Bus) -> None:
        asked = 0

        async def status(_: bytes) -> bytes:
            nonlocal asked
            asked += 1
            if asked > 1:
                await asyncio.Event().wait()
            return messages.write(
                messages.Status(
                    kind="worker", id="still", host="h", pid=1, version="1", pool="main",
                    state="ready", bundles={},
                )
            )  # fmt: skip

        await bus.answer(names.STATUS, status)
        await bus.listen(names.control("still"), lambda _subject, _payload: None)
        await bus.settled()
        ran = await asyncio.to_thread(pool.rollout, plain, "--wait", "4")
        ran.assert_error(1, "1 of 2 workers is ready within 4 s", "nothing was switched")

    pool.on_bus(work)


class Attacker:
    """Who may write the records, and has no key."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def value(self, name: str = "main") -> bytes:
        """The record of a pool, as it is kept."""
        found = bytearray()

        async def get(bus: Bus) -> None:
            found.extend((await (await bus.jetstream.key_value("config")).get(name)).value or b"")

        self._pool.on_bus(get)
        return bytes(found)

    def put(self, value: bytes) -> None:
        """Puts a value in the place of the record."""

        async def put(bus: Bus) -> None:
            await (await bus.jetstream.key_value("config")).put("main", value)

        self._pool.on_bus(put)

    def refused(self, value: bytes, why: str) -> str:
        """Puts it there, and waits until the worker says why it refuses it; what the record counts
        for at who rolls out."""
        found: list[str] = []

        async def work(bus: Bus) -> None:
            await (await bus.jetstream.key_value("config")).put("main", value)
            async with asyncio.timeout(DEADLINE):
                while why not in (await workers_of(bus, 0.1))[0].refused:
                    pass
            records = PoolRecords(bus, [bundles.key_of(self._pool.key)])
            found.append((await records.get("main")).problem)

        self._pool.on_bus(work)
        return found[0]


@pytest.mark.proves("a worker takes no older record")
def test_a_record_of_before_is_refused_and_said(pool: Pool) -> None:
    """Who may write the record puts an old one back: what runs stays, after a restart too, and a
    rollout goes on from the newest record that a worker has."""
    first, second = pool.bundle(PLAIN), pool.bundle(DATED)
    worker, attacker = pool.worker(), Attacker(pool)
    pool.rolled(first)
    old = attacker.value()
    pool.rolled(second)
    used(worker, second)
    attacker.put(old)
    worker.until(lambda: "has put an old record back" in worker.stderr, "it is said")
    assert worker.stderr.count(f"start from the bundle {first}") == 1
    worker.process.kill()
    worker.exit_code()
    worker = pool.worker()
    used(worker, second)
    worker.until(lambda: "has put an old record back" in worker.stderr, "it is said again")
    shown = pool.rollout("--status")
    assert "has put an old record back" in shown.out
    assert "Workers ignore this record" in shown.err
    third = pool.bundle(PLAIN + "# again\n")
    ran = pool.rollout(third)
    assert ran.code == 0, ran.err
    assert "Workers ignore this record" in ran.err
    used(worker, third)
    assert f"start from the bundle {first}" not in worker.stderr
    assert pool.status()["previous"] == second


@pytest.mark.proves("the record of a pool")
def test_a_record_that_no_key_of_the_workers_has_signed_changes_nothing(pool: Pool) -> None:
    """The record has no signature, or one of another key, pool or thing; a worker that starts then
    keeps the old bundle too."""
    first, second = pool.bundle(PLAIN), pool.bundle(DATED)
    other, other_public = pair(pool.folder, "other")
    worker, attacker = pool.worker(), Attacker(pool)
    pool.rolled(first)
    used(worker, first)
    pool.rolled(second, "--pool", "canary", "--at", "0")
    of_canary = json.loads(attacker.value("canary"))
    mine = json.loads(attacker.value())
    record = of_canary["statement"]["record"]
    again = {**mine["statement"], "record": record}
    manifest = blob(second).read_bytes()
    keys = ("--key", other, "--bundle-key", pool.public)
    forged = pool.rollout(second, "--at", "0", *keys)
    assert forged.code == 0, forged.err  # NATS takes it; the worker does not
    of_other = attacker.value()
    table: list[tuple[bytes, str]] = [
        (of_other, "is not signed by "),
        (json.dumps(record).encode(), "cannot be read, or is not signed"),
        (json.dumps({"statement": again}).encode(), "is not signed"),
        (json.dumps({**mine, "statement": again}).encode(), "is not signed by "),
        (json.dumps(of_canary, separators=(",", ":")).encode(), "for another pool"),
        (
            b'{"statement":%s,"signature":%s}'
            % (manifest, key_signatures.bundle(manifest, pool.key)),
            "cannot be read, or is not signed",
        ),
        (b"\xff", "cannot be read, or is not signed"),
        (b" " * 100_000, "is larger than"),
    ]
    for value, said in table:
        assert said in attacker.refused(value, said)
    shown = pool.rollout("--status")
    assert "refuses the pool's bundle as NATS names it" in shown.out
    assert said in shown.out
    assert said in shown.err
    assert worker.stderr.count("new chains start from the bundle") == 1
    worker.process.kill()
    worker.exit_code()
    worker = pool.worker()
    used(worker, first)
    assert second not in worker.stderr
    stranger = pool.worker("--bundle-key", other_public, XDG_CACHE_HOME=str(pool.folder / "new"))
    stranger.until(lambda: "is larger than" in stranger.stderr, "a record that is refused")
    pool.rolled(second, "--at", "50")
    used(worker, second)
    assert pool.status()["previous"] == first
    ran = pool.run("rollout", "--status", "--nats", pool.nats.url)
    assert "the signature of the pool's record was not checked" in ran.err


@pytest.mark.proves("the record of a pool")
def test_a_worker_that_is_made_up_pushes_no_record(pool: Pool) -> None:
    """Who may answer as a worker shows a record of the highest revision, signed by a stranger."""
    first, second = pool.bundle(PLAIN), pool.bundle(DATED)
    worker = pool.worker()
    pool.rolled(first)
    other, _ = pair(pool.folder, "other")
    far = pool_record.written("main", rolling.Record(revision=2**62), other).decode()

    async def work(bus: Bus) -> None:
        async def status(_: bytes) -> bytes:
            return messages.write(
                messages.Status(
                    kind="worker", id="false", host="h", pid=1, version="1", pool="main",
                    state="ready", bundles={second: "ready"}, record=far,
                )
            )  # fmt: skip

        await bus.answer(names.STATUS, status)
        await bus.listen(names.control("false"), lambda _subject, _payload: None)
        await bus.settled()
        await asyncio.to_thread(pool.rolled, second, "--at", "50")

    pool.on_bus(work)
    used(worker, second)
    found = pool.status()
    assert found["revision"] < 2**60
    assert found["previous"] == first


def test_what_a_pool_runs_is_not_changed_without_a_key(pool: Pool) -> None:
    for what in (pool.bundle(PLAIN), "--back"):
        ran = pool.run("rollout", what, "--nats", pool.nats.url)
        ran.assert_error(2, "the record of a pool is signed, and no key is given", "--key FILE")
    pool.rollout("--back", "--key", pool.public).assert_error(2, "the private key")
