"""The executor: who may ask, timers, metrics, and what is in flight when it closes."""

import asyncio
import os
import queue
import socket
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.services.calls import ServiceError
from conductor.services.executor import ServiceExecutor
from conductor.services.kv import Store
from conductor.services.metrics import Metrics
from conductor.services.timers import DATA_BYTES, Timers
from conductor.spec.limits import DEFAULT_LIMITS
from tests.services.support import grantee

Params = dict[str, object]
P = grantee()
CALLS = DEFAULT_LIMITS["calls"]


class Office:
    """An executor, what was told and logged, and requests as awaitables."""

    def __init__(
        self,
        folder: Path,
        limits: dict[str, int] | None = None,
        **grants: frozenset[str] | None,
    ) -> None:
        grantees = {name: grantee(name, held, **(limits or {})) for name, held in grants.items()}
        self.held = 0
        self.told: list[tuple[str, str, Any]] = []
        self.logged: list[str] = []
        self.heard = asyncio.Event()
        self.executor = ServiceExecutor(
            grantees,
            self._log,
            start=lambda work: asyncio.get_running_loop().create_task(work),
            timers=Timers(self._tell, lambda name: self.held),
            store=Store(str(folder / "kv.sqlite"), "/"),
            metrics=Metrics(str(folder / "metrics.txt"), self._log),
        )

    def _log(self, *line: str) -> None:
        self.logged.append(" ".join(line))

    def _tell(self, name: str, method: str, params: bytes) -> None:
        self.told.append((name, method, msgspec.json.decode(params)))
        self.heard.set()

    def begin(self, name: str, service: str, /, **params: object) -> asyncio.Future[Any]:
        """Asks; the future holds the result, or the error object as a `RuntimeError`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: bytes | None, error: bytes | None) -> None:
            if result is not None:
                future.set_result(msgspec.json.decode(result))
            else:
                future.set_exception(RuntimeError(msgspec.json.decode(error or b"")))

        self.executor.serve(name, service, msgspec.json.encode(params), done)
        return future

    async def error(self, name: str, service: str, /, **params: object) -> Any:
        """Asks for what is refused; the error object."""
        with pytest.raises(RuntimeError) as caught:
            await self.begin(name, service, **params)
        return caught.value.args[0]


async def test_a_timer_fires_once_or_again_and_again(tmp_path: Path) -> None:
    office = Office(tmp_path, p=frozenset({"timer"}))
    one = await office.begin("p", "timer/start", afterMs=10, data={"x": 1})
    await office.heard.wait()
    fired = {"timer": one["timer"], "count": 1, "data": {"x": 1}}
    assert office.told == [("p", "timer/fired", fired)]
    assert await office.begin("p", "timer/stop", timer=one["timer"]) == {"stopped": False}
    office.told.clear()
    again = await office.begin("p", "timer/start", afterMs=10, everyMs=10)
    while len(office.told) < 3:
        office.heard.clear()
        await office.heard.wait()
    assert [params["count"] for _, _, params in office.told[:3]] == [1, 2, 3]
    assert await office.begin("p", "timer/stop", timer=again["timer"]) == {"stopped": True}
    await office.executor.close()


@pytest.mark.proves("no component delays a service")
async def test_a_name_that_nobody_answers_for_delays_its_component_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing ends a lookup: its thread stays with it, when the request has long been answered."""
    answered = threading.Event()

    def look_up(host: bytes, *_: object, **__: object) -> list[object]:
        if host.startswith(b"h"):
            answered.wait()
        raise OSError("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    office = Office(
        tmp_path, p=frozenset({"web:*.example.org"}), q=frozenset({"web:a.example.org"})
    )
    try:
        for number in range(64):
            url = f"https://h{number}.example.org/"
            wrong = await office.error("p", "fetch", url=url, timeoutMs=1)
            assert wrong["data"]["reason"] == "timeout"
        wrong = await office.error("q", "fetch", url="https://a.example.org/")
        assert wrong["data"]["reason"] == "unreachable"
    finally:
        answered.set()
    await office.executor.close()


@pytest.mark.proves("no component delays a service")
async def test_timers_are_few_and_end_with_their_component(tmp_path: Path) -> None:
    office = Office(tmp_path, p=None, q=None)
    for _ in range(64):
        await office.begin("p", "timer/start", afterMs=10_000)
    wrong = await office.error("p", "timer/start", afterMs=10_000)
    assert wrong["data"] == {"service": "timer/start", "reason": "too-many"}
    other = await office.begin("q", "timer/start", afterMs=10_000)
    office.executor.forget("p")
    await office.begin("p", "timer/start", afterMs=10_000)
    office.executor.forget("q")
    assert await office.begin("q", "timer/stop", timer=other["timer"]) == {"stopped": False}
    for ms in (1, -1, 10**12, 10.5, 1e400, "10"):
        assert (await office.error("p", "timer/start", afterMs=ms))["code"] == -32602
    wrong = await office.error("p", "timer/start", afterMs=10_000, data="x" * DATA_BYTES)
    assert wrong["data"]["reason"] == "too-large"
    await office.executor.close()
    assert office.told == []


async def test_a_timer_does_not_ring_who_has_not_heard_the_last_one(tmp_path: Path) -> None:
    """64 timers of 10 ms with 4 KiB each made the conductor grow by 23 MB a second."""
    office = Office(tmp_path, p=None)
    await office.begin("p", "timer/start", afterMs=10, everyMs=10)
    await office.heard.wait()
    office.held = 1
    before = len(office.told)
    once = await office.begin("p", "timer/start", afterMs=10)
    await asyncio.sleep(0.2)  # both are due, several times
    assert len(office.told) == before
    office.held = 0
    while len({params["timer"] for _, _, params in office.told[before:]}) < 2:
        office.heard.clear()
        await office.heard.wait()
    counts = [one["count"] for _, _, one in office.told if one["timer"] != once["timer"]]
    assert counts[before] > before + 1, "what was left out is counted"
    assert [one["count"] for _, _, one in office.told if one["timer"] == once["timer"]] == [1]
    assert await office.begin("p", "timer/stop", timer=once["timer"]) == {"stopped": False}
    await office.executor.close()


async def test_how_much_a_component_may_ask_for_is_for_the_user_to_say(tmp_path: Path) -> None:
    office = Office(tmp_path, {"timers": 1, "series": 1, "calls": 1}, p=None)
    first = office.begin("p", "kv/get", key="a")
    await office.begin("p", "timer/start", afterMs=10_000)
    await office.begin("p", "metric", name="a")
    for name, wrong in (
        ("calls", await office.error("p", "kv/get", key="b")),
        ("timers", await office.error("p", "timer/start", afterMs=10_000)),
        ("series", await office.error("p", "metric", name="b")),
    ):
        assert wrong["data"]["reason"] == "too-many"
        assert f"(limit `{name}`)\nhint: " in wrong["message"]
    await first
    await office.executor.close()


async def test_what_was_not_granted_is_refused_by_name(tmp_path: Path) -> None:
    office = Office(tmp_path, p=frozenset({"read:*.md"}))
    for service in ("kv/get", "timer/start", "fetch", "nothing"):
        wrong = await office.error("p", service)
        assert (wrong["code"], wrong["data"]["reason"]) == (-32601, "not-granted")
    assert await office.begin("p", "files/roots") == {"roots": []}
    await office.executor.close()


async def test_a_call_without_a_function_here_raises(tmp_path: Path) -> None:
    office = Office(tmp_path, p=None)
    with pytest.raises(KeyError):
        await office.begin("p", "clock")
    await office.executor.close()


async def test_values_are_kept_in_the_order_they_were_given(tmp_path: Path) -> None:
    office = Office(tmp_path, p=frozenset({"storage"}))
    asked = [office.begin("p", "kv/set", key="a", value=n) for n in range(CALLS - 1)]
    last = office.begin("p", "kv/get", key="a")
    too_many = await office.error("p", "kv/get", key="a")
    assert too_many["data"]["reason"] == "too-many"
    await asyncio.gather(*asked)
    assert (await last)["value"] == CALLS - 2
    await office.executor.close()


async def test_a_service_that_breaks_answers_all_the_same(tmp_path: Path) -> None:
    office = Office(tmp_path, p=frozenset({"read:**"}))
    office.executor.functions["files/roots"] = lambda *_: {"x": object()}
    for _ in range(CALLS + 1):
        error = await office.error("p", "files/roots")
        assert error["data"] == {"service": "files/roots", "reason": "internal"}
    assert office.logged[0].startswith("error conductor files/roots for `p` failed: TypeError")
    await office.executor.close()


@pytest.mark.proves("no component delays a service")
async def test_one_component_does_not_take_all_threads(tmp_path: Path) -> None:
    entered: queue.SimpleQueue[str] = queue.SimpleQueue()
    go = threading.Semaphore(0)

    def slow(*asked: object) -> object:
        entered.put(str(asked[-1]))
        go.acquire()
        return None

    office = Office(tmp_path, p=None, q=None)
    office.executor.functions["files/roots"] = slow
    first = [office.begin("p", "files/roots", n=n) for n in range(8)]
    other = office.begin("q", "files/roots")
    begun = sorted([await asyncio.to_thread(entered.get) for _ in range(2)])
    assert begun == ["b'{\"n\":0}'", "b'{}'"]
    assert entered.empty()
    go.release(9)
    await asyncio.gather(other, *first)
    await office.executor.close()


@pytest.mark.proves("a proxy does not learn where")
async def test_where_values_are_kept_is_told_to_the_user_only(tmp_path: Path) -> None:
    (tmp_path / "kv.sqlite").write_bytes(b"no database" * 1000)
    office = Office(tmp_path, p=None)
    wrong = await office.error("p", "kv/get", key="a")
    assert wrong["data"] == {"service": "kv/get", "reason": "storage"}
    assert "not a database" in wrong["message"]
    assert str(tmp_path) not in wrong["message"]
    assert str(tmp_path / "kv.sqlite") in office.logged[0]
    assert "hint: " in office.logged[0]
    await office.executor.close()


async def test_what_is_under_way_ends_with_the_executor(tmp_path: Path) -> None:
    async def silent(reader: Any, writer: Any) -> None:
        reached.set()
        await reader.read()
        writer.close()

    reached = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    office = Office(tmp_path, p=frozenset({f"web:{place}"}))
    waiting = office.begin("p", "fetch", url=place)
    await reached.wait()
    await office.executor.close()
    assert not waiting.done()
    server.close()


async def test_metrics_are_written_for_a_collector(tmp_path: Path) -> None:
    office = Office(tmp_path, p=frozenset(), q=frozenset())
    for _ in range(2):
        await office.begin("p", "metric", name="prompts")
    await office.begin("q", "metric", name="prompts", value=0.5)
    await office.begin("q", "metric", name="size.now", kind="gauge", value=7, labels={"a": '"'})
    await office.begin("q", "metric", name="size.now", kind="gauge", value=3, labels={"a": '"'})
    await office.executor.close()
    assert (tmp_path / "metrics.txt").read_text() == (
        "# TYPE conductor_proxy_prompts counter\n"
        'conductor_proxy_prompts{component="p"} 2\n'
        'conductor_proxy_prompts{component="q"} 0.5\n'
        "# TYPE conductor_proxy_size_now gauge\n"
        'conductor_proxy_size_now{component="q",a="\\""} 3\n'
    )


async def test_metrics_that_cannot_be_written_are_logged_once(tmp_path: Path) -> None:
    (tmp_path / "metrics.txt").mkdir()
    office = Office(tmp_path, p=None)
    await office.begin("p", "metric", name="a")
    await office.executor.close()
    assert [line for line in office.logged if "metrics are not written" in line] != []


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "params"),
        ({"name": "a b"}, "params"),
        ({"name": "a", "value": -1}, "params"),
        ({"name": "a", "kind": "histogram"}, "params"),
        ({"name": "a", "labels": {"component": "other"}}, "params"),
        ({"name": "a", "labels": {"b": "x" * 201}}, "params"),
        ({"name": "taken", "kind": "gauge"}, "kind"),
    ],
)
def test_what_is_no_metric(params: Params, reason: str) -> None:
    metrics = Metrics()
    metrics.add(P, b'{"name":"taken"}')
    with pytest.raises(ServiceError) as caught:
        metrics.add(P, msgspec.json.encode(params))
    assert caught.value.reason == reason


@pytest.mark.proves("no component delays a service")
def test_series_are_bounded() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.add(P, msgspec.json.encode({"name": "a", "labels": {"n": str(number)}}))
    for name in ("a", "b", "c"):
        with pytest.raises(ServiceError, match="1000 series"):
            metrics.add(P, b'{"name":"%b","kind":"counter"}' % name.encode())
    metrics.add(P, b'{"name":"a","labels":{"n":"1"}}')
    assert metrics.text().count("# TYPE") == 1


@pytest.mark.proves("no component delays a service")
def test_nobody_settles_what_another_counts() -> None:
    metrics = Metrics()
    metrics.add(grantee("greedy"), b'{"name":"prompts","kind":"gauge"}')
    metrics.add(P, b'{"name":"prompts"}')
    assert metrics.text() == (
        "# TYPE conductor_proxy_prompts untyped\n"
        'conductor_proxy_prompts{component="greedy"} 1\n'
        'conductor_proxy_prompts{component="p"} 1\n'
    )


def test_metrics_take_no_place_of_a_link_or_a_pipe(tmp_path: Path) -> None:
    said = list[str]()
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "link", tmp_path / "pipe"):
        Metrics(str(path), lambda *entry: said.append(entry[2])).close()
        assert said.pop() == f"metrics are not written to {path}: it is no ordinary file"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "file").read_text() == "mine"
