"""The machines of the tests: they reach each other, can be cut off, and are gone afterwards."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nats
import pytest

from tests.harness.process.delay import Delay, Weather
from tests.harness.process.nats import Nats
from tests.harness.process.netns import Machine, World, needs_namespaces, stopped, world
from tests.harness.process.processes import MARKER, marked
from tests.places import DEADLINE, checkout_environment

_ECHO: Final = """
import contextlib, socket, sys
with socket.create_server((sys.argv[1], 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    while True:
        link, _ = listening.accept()
        with link, contextlib.suppress(ConnectionError):
            while data := link.recv(65536):
                link.sendall(data)
"""


@contextmanager
def echo(machine: Machine) -> Iterator[tuple[str, int, subprocess.Popen[str]]]:
    """A program on a machine that sends back all that it hears."""
    command = [sys.executable, "-c", _ECHO, machine.address]
    with machine.inside():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield machine.address, int(process.stdout.readline()), process
        finally:
            process.kill()


def link(machine: Machine, address: str, port: int) -> socket.socket:
    """A connection from a machine."""
    with machine.inside():
        return socket.create_connection((address, port), DEADLINE)


def says(link: socket.socket, text: bytes) -> bytes:
    """The text that comes back."""
    link.sendall(text)
    found = b""
    while len(found) < len(text):
        found += link.recv(65536)
    return found


def silent(link: socket.socket, text: bytes) -> bool:
    """Whether no answer comes to a text; the link stays open."""
    link.sendall(text)
    link.settimeout(0.3)
    try:
        return not link.recv(1)
    except TimeoutError:
        return True
    finally:
        link.settimeout(DEADLINE)


@pytest.mark.parametrize("loopback", [True, False])
def test_programs_on_two_machines_reach_each_other(loopback: bool) -> None:
    with (
        World("one", "two", loopback=True) if loopback else world("one", "two") as here,
        echo(here["one"]) as (address, port, process),
        link(here["two"], address, port) as there,
    ):
        assert says(there, b"hello") == b"hello"
        with stopped(process.pid):
            assert silent(there, b"nobody is at home")
        assert there.recv(64) == b"nobody is at home"


@needs_namespaces
def test_a_machine_is_cut_off_and_comes_back() -> None:
    with (
        World("one", "two") as here,
        echo(here["one"]) as (address, port, _),
        link(here["two"], address, port) as there,
    ):
        assert says(there, b"1") == b"1"
        here["one"].cut()
        assert silent(there, b"2")
        here["one"].restore()
        assert there.recv(1) == b"2"
        here["one"].part(here["two"])
        assert silent(there, b"3")
        here["one"].join(here["two"])
        assert there.recv(1) == b"3"


@needs_namespaces
def test_two_machines_are_parted_and_a_third_reaches_both() -> None:
    with World("one", "two", "three") as here, echo(here["one"]) as (address, port, _):
        here["one"].part(here["two"])
        with link(here["three"], address, port) as there:
            assert says(there, b"hello") == b"hello"
        with pytest.raises(OSError), here["two"].inside():  # noqa: PT011 - its text is the kernel's
            socket.create_connection((address, port), 0.2)


@needs_namespaces
def test_worlds_do_not_meet_and_leave_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()  # what earlier tests have left open is closed now, and not in between
    before = os.listdir("/sys/class/net"), len(os.listdir("/proc/self/fd"))
    with World("one") as here, World("one") as other:
        assert here["one"].address == other["one"].address
        with echo(here["one"]) as (address, port, _):
            with pytest.raises(ConnectionRefusedError):
                link(other["one"], address, port)
            with pytest.raises(OSError):  # noqa: PT011 - its text is the kernel's
                socket.create_connection((address, port), 0.2)
    assert (os.listdir("/sys/class/net"), len(os.listdir("/proc/self/fd"))) == before


_DIES: Final = """
import os
from tests.harness.process.netns import World
here = World("one", "two")
for machine in here.machines.values():
    with machine.inside():
        print(os.stat("/proc/thread-self/ns/net").st_ino, flush=True)
os.kill(os.getpid(), 9)
"""


@needs_namespaces
def test_a_test_that_crashes_leaves_nothing() -> None:
    token = uuid.uuid4().hex
    environment = checkout_environment(**{MARKER: token})
    command = [sys.executable, "-c", _DIES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(set(done.stdout.split())) == 2
    # A namespace lives as long as a process in it. Its number tells nothing: a world of another
    # test may have it by now.
    assert marked(token) == []


def test_a_slow_network_keeps_the_order_and_bounds_what_is_on_its_way() -> None:
    weather = Weather(latency=0.01, stalls=0.1, stall=0.05, holds=1 << 16)
    text = bytes(range(256)) * 4096
    with (
        world("one", "two") as here,
        echo(here["one"]) as (address, port, _),
        Delay(here["two"], (address, port), weather) as slow,
        link(here["two"], slow.address, slow.port) as there,
    ):
        start = time.monotonic()
        assert says(there, b"hello") == b"hello"
        assert time.monotonic() - start >= 2 * weather.latency
        sender = threading.Thread(target=there.sendall, args=(text,))
        sender.start()
        found = b""
        while len(found) < len(text):
            found += there.recv(65536)
        sender.join()
        assert found == text
        assert slow.most <= weather.holds + (1 << 14)
        there.shutdown(socket.SHUT_WR)
        assert there.recv(1) == b""


def test_a_link_is_frozen_reset_and_refused() -> None:
    with (
        world("one", "two") as here,
        echo(here["one"]) as (address, port, _),
        Delay(here["two"], (address, port)) as proxy,
    ):
        with link(here["two"], proxy.address, proxy.port) as there:
            assert says(there, b"1") == b"1"
            proxy.freeze(True)
            assert silent(there, b"2")
            proxy.freeze(False)
            assert there.recv(1) == b"2"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                there.recv(1)
        proxy.refuse(True)
        with (
            pytest.raises(ConnectionResetError),
            link(here["two"], proxy.address, proxy.port) as there,
        ):
            there.recv(1)


def cluster(here: World, folder: Path) -> Nats:
    """Three servers, each on its machine."""
    machines = [here[name] for name in ("nats1", "nats2", "nats3")]
    hosts = [one.address for one in machines]
    return Nats(folder, nodes=3, hosts=hosts, prefix=[one.prefix for one in machines])


def test_a_subscriber_hears_on_when_its_server_is_killed(tmp_path: Path) -> None:
    async def hears(servers: Nats) -> list[int]:
        heard: list[int] = []
        far = await nats.connect(servers.nodes[0].url)
        near = await nats.connect(
            [servers.nodes[1].url, servers.nodes[2].url], dont_randomize=True, reconnect_time_wait=0
        )
        subscription = await near.subscribe("numbers")
        number = 0

        async def until(last: int) -> None:
            """Numbers come, up to one: those before the servers know of the subscriber do not."""
            nonlocal number
            while not heard or heard[-1] < last:
                number += 1
                await far.publish("numbers", str(number).encode())
                await far.flush()
                with contextlib.suppress(TimeoutError):
                    heard.append(int((await subscription.next_msg(0.05)).data))

        async with asyncio.timeout(DEADLINE):
            await until(3)
            servers.nodes[1].kill()
            await until(number + 3)
        await near.close()
        await far.close()
        return heard

    names = ("desk", "nats1", "nats2", "nats3")
    with world(*names) as here, here["desk"].inside(), cluster(here, tmp_path) as servers:
        heard = asyncio.run(hears(servers))
    assert heard == sorted(set(heard)), "doubled or out of order"


@needs_namespaces
def test_a_leader_that_is_cut_off_is_replaced(tmp_path: Path) -> None:
    async def acknowledged(servers: Nats, here: World) -> tuple[int, int]:
        urls = [one.url for one in servers.nodes]
        client = await nats.connect(urls, reconnect_time_wait=0.05, ping_interval=0.2)
        patient, jetstream = client.jetstream(timeout=DEADLINE), client.jetstream(timeout=1)
        await patient.add_stream(name="journal", subjects=["journal.>"], num_replicas=3)
        leader = servers.leader("journal")
        here[f"nats{leader + 1}"].cut()
        number, deadline = 0, time.monotonic() + DEADLINE
        while number < 5 and time.monotonic() < deadline:
            try:
                headers = {"Nats-Msg-Id": str(number)}
                await jetstream.publish("journal.x", b"", headers=headers)
                number += 1
            except (TimeoutError, nats.errors.Error):
                await asyncio.sleep(0.05)
        found = await patient.stream_info("journal")
        await client.close()
        return number, found.state.messages

    names = ("desk", "nats1", "nats2", "nats3")
    with World(*names) as here, here["desk"].inside(), cluster(here, tmp_path) as servers:
        assert asyncio.run(acknowledged(servers, here)) == (5, 5)
