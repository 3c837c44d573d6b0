"""Values of components in a fleet: many workers, a server that goes and comes back."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.fleet import kv as fleet_kv
from conductor.services import kv
from conductor.services.calls import ServiceError
from tests.e2e.test_services import asking_guest, call
from tests.harness.process.nats import Nats
from tests.harness.process.rig import Rig
from tests.harness.process.serving import bearer, new_token, served
from tests.places import checkout_environment
from tests.services.keepers import Fleet, ask

COUNTER = """
import sys
from conductor.services.calls import ServiceError
from tests.services.keepers import Fleet, ask
fleet, left, conflicts = Fleet(sys.argv[1]), int(sys.argv[2]), 0
store = fleet("/")
held = ask(store, "p", "get", key="n")
print("ready", flush=True)  # both have read the same revision: one of them is refused
sys.stdin.readline()
while left:
    try:
        count = held["value"] if held["found"] else 0
        ask(store, "p", "set", key="n", value=count + 1, ifRevision=held["revision"])
        left -= 1
    except ServiceError as error:
        assert error.reason == "conflict", error
        conflicts += 1
    held = ask(store, "p", "get", key="n")
fleet.close()
print(conflicts)
"""

PROXY = """
from guest_sdk.python import Proxy

proxy = Proxy("counter", rights={"storage": "to count"})


@proxy.request("session/prompt")
async def prompt(request, next):
    command, _, text = request.text.partition(" ")
    if command == "/count":
        for _ in range(int(text)):
            said = await proxy.kv.change("n", lambda n: n + 1, 0)
    else:
        said = await proxy.kv.get("mine", "nothing", scope="user")
        await proxy.kv.set("mine", text, scope="user")
    request.session.say(f"{said}")
    return {"stopReason": "end_turn"}


if __name__ == "__main__":
    proxy.run()
"""


@pytest.fixture
def fleet(nats: Nats) -> Iterator[Fleet]:
    with contextlib.closing(Fleet(nats.url)) as fleet:
        yield fleet


@pytest.mark.parametrize("rounds", [50, 500])
def test_two_workers_that_count_in_one_value_lose_nothing(
    nats: Nats, fleet: Fleet, rounds: int
) -> None:
    command = [sys.executable, "-c", COUNTER, nats.url, f"{rounds}"]
    both = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=checkout_environment(),
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
        one.stdin.flush()
    conflicts = [int(one.communicate()[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sum(conflicts) > 0
    assert ask(fleet("/"), "p", "get", key="n")["value"] == 2 * rounds


def test_values_outlive_the_server(
    nats: Nats, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is away each call fails by name and in bounded time."""
    store = fleet("/")
    kept = ask(store, "p", "set", key="a", value="kept")["revision"]
    nats.kill()
    with monkeypatch.context() as patch:
        patch.setattr(fleet_kv, "_BOUND", 0.2)
        for call, params in (
            ("get", {"key": "a"}),
            ("set", {"key": "a", "value": 1}),
            ("set", {"key": "a", "value": 1, "ifRevision": kept}),
            ("delete", {"key": "a"}),
            ("list", {}),
        ):
            with pytest.raises(ServiceError, match="cannot be reached now") as caught:
                ask(store, "p", call, **params)
            assert caught.value.reason == "storage"
            assert "NATS is away" in caught.value.private
    nats.start()
    assert ask(store, "p", "get", key="a") == {"found": True, "value": "kept", "revision": kept}
    assert ask(store, "p", "set", key="a", value="new", ifRevision=kept)["revision"] > kept
    assert ask(store, "p", "list")["keys"] == ["a"]


def test_a_leader_that_is_killed_loses_no_value(tmp_path: Path) -> None:
    """Of three servers the leader is killed: acknowledged values are read at once."""
    with (
        Nats(tmp_path, nodes=3) as cluster,
        contextlib.closing(Fleet(cluster.urls)) as fleet,
    ):
        one, two = fleet("/"), fleet("/")
        ask(one, "p", "set", key="n", value=0)
        for count in range(1, 301):
            if count == 100:
                cluster.nodes[cluster.leader("KV_kv")].kill()
            while True:
                try:
                    value = ask(one, "p", "set", key="n", value=count)
                    break
                except ServiceError as error:
                    reason = error.reason
                assert reason == "storage"
            held = ask(two, "p", "get", key="n")
            assert held == {"found": True, "value": count, "revision": value["revision"]}
            assert ask(two, "p", "list")["keys"] == ["n"]


def test_a_full_quota_is_counted_over_workers(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv, "QUOTA_KEYS", 3)
    one, two = fleet("/"), fleet("/")
    ask(one, "p", "set", key="a", value=1)
    ask(two, "p", "set", key="b", value=1)
    ask(two, "p", "set", key="c", value=1)
    monkeypatch.setattr(fleet_kv, "_COUNTED", 0.0)  # as after ten seconds
    monkeypatch.setattr(fleet_kv, "_SHARE", 0)
    ask(one, "q", "set", key="a", value=1)
    three = fleet("/")
    with pytest.raises(ServiceError, match="3 keys"):
        ask(three, "p", "set", key="d", value=1)
    ask(two, "p", "delete", key="b")  # three counts again before it refuses
    assert ask(three, "p", "set", key="d", value=1)["used"] == 6
    assert ask(three, "p", "set", key="d", value=22)["used"] == 7


def test_chains_on_two_workers_share_the_values_of_a_project(
    rig: Rig, nats: Nats, tmp_path: Path
) -> None:
    """Through the real command line: two principals, each on a worker of its own."""
    (tmp_path / "counter.py").write_text(PROXY)
    counter = rig.program(sys.executable, str(tmp_path / "counter.py"), name="counter")
    tokens = [new_token(rig, name) for name in ("alice", "bob")]
    guest = asking_guest(rig, call(1, "kv/set", key="a", value=1), call(2, "kv/get", key="a"))
    place = ("--nats", nats.url)
    for _ in tokens:
        served(
            rig,
            "fleet",
            "worker",
            f"{guest},allow=extension:_told+storage",
            counter,
            rig.demo(log=False),
            "--rooms",
            "1",
            *place,
        )
    listen = ("--listen", "ws://127.0.0.1:0", "--tokens", "tokens")
    with served(rig, "fleet", "gateway", *listen, *place) as gateway:
        clients = [gateway.socket(headers=bearer(token)) for token in tokens]
        sessions = [client.begin() for client in clients]
        asked = [
            (client, client.start_prompt(session, "/count 50"))
            for client, session in zip(clients, sessions, strict=True)
        ]
        for client, prompt in asked:
            assert "result" in client.answer(prompt)
        assert clients[0].prompt(sessions[0], "/count 1") == "101"
        for client, session in zip(clients, sessions, strict=True):
            assert client.prompt(session, "/mine something") == "nothing"
            assert client.prompt(session, "/mine something") == "something"
        guarded = clients[1]
        guarded.start_prompt(sessions[1], "@go")
        answers: dict[int, Any] = {}
        while len(answers) < 2:  # the guest is in a cage, and its host has no network
            guarded.frames.append(guarded.receive())
            told = (one["params"] for one in guarded.frames if one.get("method") == "_told")
            answers = {one["id"]: one["result"] for one in told if "id" in one}
        assert answers[2] == {"found": True, "value": 1, "revision": answers[1]["revision"]}
