"""`conductor fleet dev`: NATS, a gateway and workers on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from conductor import children, signals, tasks
from conductor.cli import report
from conductor.cli.fleet_place import PASSWORD, USER
from conductor.cli.loop import run_loop
from conductor.errors import ComponentError, UsageError
from conductor.fleet import nats_server
from conductor.transports.process_groups import Guardian

_ENDS: Final = 5.0
"""The seconds in which a part must end, once asked to: nobody reads the answers of turns."""
_WRONG: Final = re.compile(r"\[(FTL|ERR)\]")
_NATS, _GATEWAY = "nats", "gateway"
_PAUSE: Final = 1.0
"""Seconds from one start of a worker to the next."""


class _Part:
    """A process of the fleet. Each line that it writes is shown with its name."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name, self.process = name, process
        self._serves = nats_server.LISTENS if name == _NATS else "serving "
        self.ended = asyncio.Event()
        self.serving = asyncio.Event()
        self.place = ""
        """The address where it serves: the rest of the first line that says so."""
        self._read = asyncio.Event()
        """Set once it writes no more."""

    async def read(self) -> None:
        """Shows the lines that it writes."""
        assert self.process.stderr is not None
        while True:
            try:
                line = await self.process.stderr.readline()
            except ValueError:  # too long to be a line
                continue
            if not line:
                self._read.set()
                return
            text = line.decode(errors="replace").rstrip()
            _, found, shown = text.partition(self._serves)
            if found and not self.serving.is_set():
                self.place = shown
                self.serving.set()
            if self.name != _NATS or _WRONG.search(text):  # NATS logs all that it does
                report.write(f"{self.name}: {text.removeprefix('conductor: ')}")

    @property
    def how(self) -> str:
        """The way it has ended: a signal or an exit code."""
        code = self.process.returncode or 0
        return f"by the signal {-code}" if code < 0 else f"with the exit code {code}"

    def kill(self) -> None:
        """Ends it now."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    async def end(self) -> None:
        """Asks it to end, and sees to it."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(_ENDS) as ending:
            await self.process.wait()
        if ending.cancelled_caught:
            self.kill()
            with anyio.fail_after(_ENDS):
                await self.process.wait()
        with anyio.move_on_after(_ENDS):  # a process that it has started may hold its output open
            await self._read.wait()


def run(components: Sequence[str], workers: int, listen: str, store: str | None) -> int:
    """Starts a fleet, and waits until it is to end; the exit code. Raises `ConductorError`."""
    with contextlib.ExitStack() as stack:
        guardian = Guardian()
        if store is None:
            store = stack.enter_context(tempfile.TemporaryDirectory(prefix="conductor-fleet-"))
            guardian = Guardian(store)
        password = secrets.token_urlsafe(24)
        login = {USER: nats_server.USER, PASSWORD: password}
        try:
            os.makedirs(store, exist_ok=True)
            server = nats_server.command(store, password, login)
        except OSError as error:
            raise UsageError(
                f"the folder `{store}` cannot be used: {error.strerror or error}",
                "`--store` names a folder of your own",
            ) from None
        file = os.path.join(store, nats_server.LOGIN)
        work = partial(_run, components, workers, listen, server, login, file, guardian)
        return run_loop(work, starts_programs=True)


async def _run(
    components: Sequence[str],
    many: int,
    listen: str,
    server: Sequence[str],
    login: Mapping[str, str],
    file: str,
    guardian: Guardian,
) -> int:
    async with tasks.group() as watching:
        fleet = _Fleet(watching, login, guardian)
        for signalled in (signal.SIGINT, signal.SIGTERM):
            signals.call(asyncio.get_running_loop(), signalled, fleet.signalled)
        try:
            await fleet.serve(components, many, listen, server, file)
        finally:
            await fleet.end()
        watching.cancel_scope.cancel()
    return 0


class _Fleet:
    """The parts of a fleet, as processes that end in order."""

    def __init__(self, watching: TaskGroup, login: Mapping[str, str], guardian: Guardian) -> None:
        self._watching, self._login, self._guardian = watching, login, guardian
        self._parts: dict[str, _Part] = {}
        self._ending = asyncio.Event()

    async def serve(
        self, components: Sequence[str], many: int, listen: str, server: Sequence[str], file: str
    ) -> None:
        """Starts all parts, and serves until a signal. Raises `ComponentError` where NATS or the
        gateway ends, or any part at first."""
        nats = await self._start(_NATS, server)
        if not await self._all_serve():
            return
        ours, url = [sys.executable, "-m", "conductor", "fleet"], f"nats://{nats.place}"
        worker = [*ours, "worker", *components, "--nats", url]
        workers = {f"worker {number}": worker for number in range(1, many + 1)}
        for name, command in workers.items():
            await self._start(name, command)
        gateway = await self._start(_GATEWAY, [*ours, "gateway", "--nats", url, "--listen", listen])
        if not await self._all_serve():
            return
        address = gateway.place.split()[0]
        report.write(f"the fleet is there: conductor connect {address}")
        read = f"set -a; . {shlex.quote(file)}"  # the login stays out of command lines
        report.write(f"to look at it: ({read}; conductor fleet status --nats {url})")
        async with tasks.group() as keeping:
            for name, command in workers.items():
                keeping.start_soon(self._keep, name, command)
            await tasks.first(gateway.ended.wait, nats.ended.wait, self._ending.wait)
            keeping.cancel_scope.cancel()
        self._need(gateway, nats)

    async def _start(self, name: str, command: Sequence[str]) -> _Part:
        # A session of its own: Ctrl-C reaches this process alone, and the parts end in order.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=children.inherited() if name == _NATS else {**os.environ, **self._login},
            start_new_session=True,
        )
        self._guardian.add(process.pid)
        self._parts[name] = part = _Part(name, process)
        self._watching.start_soon(part.read)
        self._watching.start_soon(self._wait, part)
        return part

    async def _wait(self, part: _Part) -> None:
        """Sees the end of a part."""
        await part.process.wait()
        self._guardian.remove(part.process.pid)
        part.ended.set()

    async def _keep(self, name: str, command: Sequence[str]) -> None:
        """Starts a worker again when it has ended."""
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            began = loop.time()
            await self._parts[name].ended.wait()
            if self._ending.is_set():
                return
            how = self._parts[name].how
            report.write(f"the {name} has ended {how}; another one starts", word="warning")
            await asyncio.sleep(max(0.0, began + _PAUSE - loop.time()))
            await self._start(name, command)

    async def _all_serve(self) -> bool:
        """Waits until all parts serve; False: a signal has come. Raises `ComponentError`."""
        parts = [*self._parts.values()]

        async def all_serve() -> None:
            for part in parts:
                await part.serving.wait()

        await tasks.first(all_serve, *(part.ended.wait for part in parts), self._ending.wait)
        self._need(*parts)
        return not self._ending.is_set()

    def _need(self, *parts: _Part) -> None:
        """Raises `ComponentError` for a part that has ended by itself."""
        failed = [part for part in parts if part.ended.is_set()]
        if failed and not self._ending.is_set():
            raise ComponentError(
                f"the {failed[0].name} of the fleet has ended {failed[0].how}",
                "the lines above give the reason",
            )

    def signalled(self) -> None:
        """A signal: all ends in order; the second time at once."""
        if self._ending.is_set():
            for part in self._parts.values():
                part.kill()
        self._ending.set()

    async def end(self) -> None:
        """Ends all parts, also while this task is cancelled."""
        self._ending.set()
        with anyio.CancelScope(shield=True):
            # The gateway first: then no client sees its worker go. NATS last: leases are given
            # back.
            for names in ({_GATEWAY}, {*self._parts} - {_GATEWAY, _NATS}, {_NATS}):
                async with anyio.create_task_group() as ending:
                    for name in names & self._parts.keys():
                        ending.start_soon(self._parts[name].end)
        self._guardian.release()
