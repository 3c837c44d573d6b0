"""Machines for tests of what happens between machines: network namespaces on one bridge.

    with World("editor", "gateway", "worker") as world:
        with world["gateway"].inside():
            server = rig.run("fleet", "gateway", "--listen", f"ws://{world['gateway'].address}:8790")
        world["worker"].cut()

A namespace of ours has no name: a descriptor of this process holds it, and so does each process
inside. The kernel removes it and its cables with the last of them, also after a crash. So the
worlds of two tests never meet, and nobody has to sweep.

Where nobody may make namespaces, all machines are this one: they have the same address, and cannot
be cut off. Tests that cut carry `needs_namespaces`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Final, Self

import pytest

from tests.harness.process.ports import Ports

_NEW_NET: Final = 0x40000000
"""CLONE_NEWNET of <sched.h>."""
_NETWORK: Final = "10.77.0"
"""All worlds have the same addresses: they cannot see each other."""
_NOBODY: Final = "02:00:00:00:00:01"
"""The hardware address of no machine: the bridge floods what goes there, and nobody takes it."""
_IP: Final = ("ip", "-batch", "-")
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@functools.cache
def supported() -> bool:
    """Whether this process may make namespaces and cables."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        World("one").close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Machine:
    """A machine of a world, with an address of its own.

    Attributes:
        name: What the test calls it.
        address: Where the others reach it.
    """

    def __init__(self, name: str, address: str, world: World, namespace: int | None) -> None:
        self.name = name
        self.address = address
        self._world = world
        self._namespace = namespace

    @contextlib.contextmanager
    def inside(self) -> Iterator[Self]:
        """Puts on this machine everything that the thread opens and starts meanwhile."""
        if self._namespace is None:
            yield self
            return
        with _home() as home:
            _enter(self._namespace)
            try:
                yield self
            finally:
                _enter(home)

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words in front of a command that runs on this machine."""
        if self._namespace is None:
            return ()
        return "nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}"

    def port(self) -> int:
        """A port of this machine that stays the test's, also while nothing listens there."""
        with self.inside():
            return self._world.ports.new(self.address)

    def cut(self) -> None:
        """Pulls the machine's cable: its packets, and packets for it, are lost."""
        self._world.plug(self, False)

    def restore(self) -> None:
        """Plugs its cable in again."""
        self._world.plug(self, True)

    def part(self, other: Machine) -> None:
        """Nothing passes between these two any more; others reach both."""
        self._loses(other)
        other._loses(self)

    def join(self, other: Machine) -> None:
        """These two reach each other again."""
        for one, far in ((self, other), (other, self)):
            one._ip(f"neigh del {far.address} dev eth0")

    def _loses(self, other: Machine) -> None:
        self._ip(f"neigh replace {other.address} lladdr {_NOBODY} nud permanent dev eth0")

    def _ip(self, *commands: str) -> None:
        assert self._namespace is not None, "this machine cannot be cut off: `needs_namespaces`"
        with self.inside():
            _ip(*commands)

    def up(self) -> None:
        """Brings the network of the machine up."""
        self._ip("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up")

    def close(self) -> None:
        """Forgets the machine; the processes inside keep its network."""
        if self._namespace is not None:
            os.close(self._namespace)
            self._namespace = None


class World:
    """Machines that reach each other.

    Args:
        names: Of its machines.
        loopback: All machines are this one; by default only where it has to be so.
    """

    def __init__(self, *names: str, loopback: bool = False) -> None:
        self._switch: int | None = None
        self.ports = Ports()
        self.machines: dict[str, Machine] = {}
        if loopback:
            self.machines = {name: Machine(name, "127.0.0.1", self, None) for name in names}
            return
        try:
            self._switch = _new_namespace()
            self._in_switch("link set lo up", "link add name hub type bridge", "link set hub up")
            for number, name in enumerate(names, 2):
                self._add(number, name)
        except BaseException:
            self.close()
            raise

    def _add(self, number: int, name: str) -> None:
        namespace = _new_namespace()
        machine = Machine(name, f"{_NETWORK}.{number}", self, namespace)
        self.machines[name] = machine
        there = f"/proc/{os.getpid()}/fd/{namespace}"
        self._in_switch(
            f"link add port{number} type veth peer name eth0 netns {there}",
            f"link set port{number} master hub",
            f"link set port{number} up",
        )
        machine.up()

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def parts(self) -> bool:
        """Whether its machines can be cut off."""
        return self._switch is not None

    def plug(self, machine: Machine, plugged: bool) -> None:
        """Whether the cable of a machine is in its port."""
        number = machine.address.rpartition(".")[2]
        self._in_switch(f"link set port{number} {'up' if plugged else 'down'}")

    def _in_switch(self, *commands: str) -> None:
        assert self._switch is not None, "this machine cannot be cut off: `needs_namespaces`"
        with _home() as home:
            _enter(self._switch)
            try:
                _ip(*commands)
            finally:
                _enter(home)

    def close(self) -> None:
        """Forgets the world; it is gone once the processes inside are gone."""
        self.ports.close()
        for machine in self.machines.values():
            machine.close()
        if self._switch is not None:
            os.close(self._switch)
            self._switch = None


def world(*names: str) -> World:
    """Machines in namespaces where that is possible, else this machine under several names."""
    return World(*names, loopback=not supported())


@contextlib.contextmanager
def stopped(*pids: int) -> Iterator[None]:
    """These processes stand still meanwhile (SIGSTOP), and then go on (SIGCONT)."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


# -- the kernel ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _home() -> Iterator[int]:
    """The namespace that this thread is in."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield home
    finally:
        os.close(home)


def _new_namespace() -> int:
    """A descriptor of a new namespace; this thread stays where it is."""
    with _home() as home:
        _call(_LIBC.unshare(_NEW_NET))
        try:
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _enter(home)


def _enter(namespace: int) -> None:
    """Moves this thread into a namespace; the process's other threads stay."""
    _call(_LIBC.setns(namespace, _NEW_NET))


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*commands: str) -> None:
    """Runs commands of `ip` where this thread is."""
    lines = "\n".join(commands).encode()
    subprocess.run(_IP, input=lines, capture_output=True, check=True)


needs_namespaces: Final = pytest.mark.skipif(
    not supported(), reason="only root on Linux, with `ip` of iproute2, cuts machines off"
)
