"""A fleet: gateways take clients, workers run rooms, NATS stands between (docs/remote.md)."""

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from nats import connect as client_of

from tests.harness.process.command import COMMAND
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.harness.process.processes import LEFT, command_line, descendants, wait_gone, wait_reaped
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import bearer, new_token
from tests.places import DEADLINE


def test_a_chain_runs_on_a_worker(fleet: Fleet) -> None:
    worker = fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        assert client.prompt(session, "/echo grüße") == "grüße"
        [shown] = fleet.status("worker")
        assert (shown["state"], shown["counts"]["sessions"]) == ("ready", 1)
        over_http = gateway.http()
        other = over_http.begin()
        assert over_http.prompt(other, "/echo http") == "http"
        big = "x" * 3_000_000
        assert client.prompt(session, f"/echo {big}") == big
        client.close()
        gateway.end()
    worker.process.send_signal(signal.SIGTERM)
    assert worker.exit_code() == 0, worker.story()
    assert fleet.rig.leftovers(worker) == []


def test_two_clients_of_one_principal_meet_through_two_gateways(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.worker(fleet.rig.demo())
    with fleet.gateway() as first, fleet.gateway() as second:
        one, two = first.socket(), second.socket()
        session = one.begin()
        assert one.prompt(session, "/echo hello") == "hello"
        two.initialize()
        loaded = two.request("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        assert "result" in loaded
        shown = [
            one["params"]["update"]["content"]["text"] for one in two.frames if "params" in one
        ]
        assert shown == ["/echo hello", "hello"]
        assert one.prompt(session, "/echo more") == "more"
        assert two.prompt(session, "/echo mine") == "moremine"  # it has seen the other turn


def test_a_worker_that_drains_gives_its_rooms_up(fleet: Fleet) -> None:
    workers = [fleet.worker(fleet.rig.lasting()) for _ in range(2)]
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "one")
        first = fleet.holder()
        with ThreadPoolExecutor(1) as beside:
            drain = beside.submit(fleet.command, "drain", first["id"], "--wait")
            while not drain.done():  # each waits where it comes in the moment of the move
                client.prompt(session, "on")
                client.new_session()
        drained = drain.result()
        assert drained.out.splitlines()[-1] == f"worker {first['id']} has ended", drained
        client.prompt(session, "two")
        assert fleet.holder()["id"] != first["id"]
    [ended] = [worker for worker in workers if worker.process.pid == first["pid"]]
    assert ended.exit_code() == 0, ended.story()


def test_an_agent_that_cannot_load_is_told_the_conversation(fleet: Fleet, nats: Nats) -> None:
    """With `sessions` before it: what was said is in the values of the fleet."""

    async def kept() -> None:
        bus = await client_of(nats.url)
        async with asyncio.timeout(DEADLINE):
            while not (await bus.jetstream().stream_info("KV_kv")).state.messages:
                pass
        await bus.close()

    for _ in range(2):
        fleet.worker("sessions", fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket()
        session = client.begin()
        client.prompt(session, "/echo banana")
        asyncio.run(kept())
        fleet.kill(fleet.holder())
        client.answer(client.start_prompt(session, "/echo lost"))
        assert client.prompt(session, "/echo on") == "on"
    told = [
        one.frame["params"]["prompt"]
        for one in fleet.rig.log("A", "in")
        if one.frame.get("method") == "session/prompt"
    ]
    [words] = [text for [block] in told if "conversation-so-far" in (text := block["text"])]
    assert "User: /echo banana\nYou: banana" in words


def test_a_session_of_somebody_else_does_not_exist(fleet: Fleet) -> None:
    alice, bob = (new_token(fleet.rig, name) for name in ("alice", "bob"))
    fleet.worker(fleet.rig.lasting())
    with fleet.gateway("--tokens", str(fleet.rig.folder / "tokens")) as gateway:
        hers = gateway.socket(headers=bearer(alice))
        session = hers.begin()
        hers.prompt(session, "secret")
        his = gateway.socket(headers=bearer(bob))
        his.initialize()
        load = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert his.request("session/load", load)["error"]["code"] == -32002
        again = gateway.socket(headers=bearer(alice))
        again.initialize()
        assert "result" in again.request("session/load", load)


def test_a_chain_that_no_worker_has_is_refused_by_name(fleet: Fleet) -> None:
    fleet.worker(fleet.rig.demo())
    with fleet.gateway() as gateway:
        client = gateway.socket("/acp/team")
        answer = client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "does not serve the chain `team`" in answer["error"]["message"]
        assert "hint: " in answer["error"]["message"]


def test_a_pool_without_workers_says_so(fleet: Fleet) -> None:
    with fleet.gateway("--pool", "gpu") as gateway:
        client = gateway.socket()
        answer = client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "no worker of the pool `gpu` takes another room" in answer["error"]["message"]


def test_a_full_worker_takes_no_more(fleet: Fleet) -> None:
    shown = [new_token(fleet.rig, name) for name in ("alice", "bob")]
    fleet.worker("--rooms", "1", fleet.rig.demo())
    with fleet.gateway("--tokens", str(fleet.rig.folder / "tokens")) as gateway:
        gateway.socket(headers=bearer(shown[0])).begin()
        client = gateway.socket(headers=bearer(shown[1]))
        answer = client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "takes another room" in answer["error"]["message"], answer


@pytest.mark.parametrize("part", ["fleet gateway", "fleet worker", "fleet status"])
def test_nats_that_is_away_at_the_start_is_named(rig: Rig, part: str) -> None:
    chain = [rig.demo()] if part == "fleet worker" else []
    words = [*part.split(), "--nats", "nats://127.0.0.1:1", "--nats-wait", "0.5", *chain]
    tried = rig.run(*words)
    assert tried.exit_code() == 1, tried.story()
    assert tried.stderr.count("NATS at nats://127.0.0.1:1 is not there yet") == 1
    assert "no connection to NATS at nats://127.0.0.1:1" in tried.stderr
    assert "hint: `--nats` says where it is" in tried.stderr


def test_a_wrong_word_is_explained(rig: Rig, fleet: Fleet) -> None:
    assert "there is no worker `nobody`" in fleet.command("drain", "nobody").err
    assert "no gateway and no worker is running" in fleet.command("status").err
    worker = rig.run("fleet", "worker", "--nats", fleet.nats)
    assert worker.exit_code() == 2
    assert "needs a COMPONENT" in worker.stderr
    worker = rig.run(
        "fleet", "worker", "--nats", fleet.nats, "--listen", "ws://127.0.0.1:0", rig.demo()
    )
    assert worker.exit_code() == 2
    assert "a worker shows its health" in worker.stderr


def test_a_gateway_without_nats_is_not_ready(fleet: Fleet, nats: Nats) -> None:
    with fleet.gateway() as gateway:
        client = gateway.http("/ready")
        assert client.ask("GET").status == 200
        nats.kill()
        gateway.process.until(lambda: "NATS is away" in gateway.process.stderr, "NATS is away")
        assert client.ask("GET").status == 503
        nats.start()
        gateway.process.until(lambda: "there again" in gateway.process.stderr, "NATS is back")
        assert client.ask("GET").status == 200


def test_fleet_dev_works_as_pasted(rig: Rig) -> None:
    words = ("fleet", "dev", "demo", "--listen", "ws://127.0.0.1:0")
    dev = rig.start(["sh", "-c", LEFT, "sh", *COMMAND, *words])
    dev.until(lambda: "to look at it" in dev.stderr, "the fleet is there")
    found = re.search(r"conductor connect (ws://\S+)", dev.stderr)
    assert found
    asked = subprocess.run(
        [*COMMAND, "exec", found[1], "-p", "hello"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env={**os.environ},
        check=False,
    )
    assert asked.stdout.strip() == "hello", asked
    _only_who_has_the_login_is_let_in(dev)
    parts = [one for one in descendants(dev.process.pid) if "--nats" in command_line(one)]
    assert [os.getsid(one) for one in parts] == parts  # Ctrl-C reaches none of them by itself
    assert len(parts) == 3
    (rig.folder / "end").touch()
    assert wait_reaped(int((rig.folder / "left").read_text()), DEADLINE)
    dev.process.send_signal(signal.SIGINT)
    assert dev.exit_code() == 0, dev.story()
    assert rig.leftovers(dev) == []


def test_a_fleet_dev_that_is_killed_leaves_nothing(rig: Rig) -> None:
    dev = rig.start([*COMMAND, "fleet", "dev", "demo", "--listen", "ws://127.0.0.1:0"])
    dev.until(lambda: "to look at it" in dev.stderr, "the fleet is there")
    file = re.search(r"\. (\S+/nats\.env);", dev.stderr)
    assert file, dev.stderr
    folder = Path(file[1]).parent
    marks = ("--nats", str(folder))  # the shell that removes the folder names it
    parts = [
        one
        for one in descendants(dev.process.pid)
        if any(mark in command_line(one) for mark in marks)
    ]
    dev.process.kill()
    assert all(wait_gone(one, DEADLINE) for one in parts)
    assert not folder.exists()


def _only_who_has_the_login_is_let_in(dev: Chain) -> None:
    """The line that `fleet dev` prints works; the login is in a private file, in no command
    line."""
    line = re.search(r"\(set -a; \. (\S+/nats\.env); conductor (.*--nats \S+)\)", dev.stderr)
    assert line, dev.stderr
    file, words = Path(line[1]), line[2]
    assert {one.stat().st_mode & 0o777 for one in (file, file.with_name("nats.conf"))} == {0o600}
    password = file.read_text().strip().rpartition("=")[2]
    assert len(password) > 20
    assert password not in dev.stderr
    ours = shlex.join(COMMAND)
    for script, code in ((f"set -a; . {file}; {ours} {words}", 0), (f"{ours} {words}", 1)):
        shown = subprocess.run(
            ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert shown.returncode == code, shown
    dev.until(lambda: "authentication error" in dev.stderr, "who has no login")
    assert dev.stderr.count("authentication error") == 1  # it does not try again
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert password.encode() not in process.read_bytes()
