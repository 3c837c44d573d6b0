"""A server of chains, from its start to its end: each chain runs in this process, with a hub in the
editor's place."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor import signals, tasks
from conductor.cli import report
from conductor.cli import serve_entrance as entrance
from conductor.cli.chain_failures import Failures
from conductor.cli.loop import settled_memory
from conductor.cli.started import Started
from conductor.control.server import About
from conductor.errors import ConductorError, UsageError, place_of
from conductor.spec import managed
from conductor.spec.consent import Where
from conductor.spec.origins import blamed
from conductor.spec.parsed import Only, Parsed
from conductor.transports.process_groups import end_strays

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Sequence

    from conductor.serve.access.gate import Gate
    from conductor.serve.chains import Hosted
    from conductor.serve.owners import Ownership
    from conductor.serve.served import Served
    from conductor.serve.server import Server
    from conductor.serve.settings import Settings
    from conductor.transports.base import Transport
    from conductor.transports.remote.address import Address

_MOST_SHOWN: Final = 256
"""Chains that have a control socket at a time."""


class Wanted(msgspec.Struct, frozen=True):
    """The settings and chains of a server."""

    settings: Settings
    chains: dict[str, Parsed]
    """By name; the empty name is the chain of the command line."""
    only: Only | None = None
    """The file that alone configures them; None: the files of the user and the project do."""


def _ready(wanted: Wanted) -> None:
    """Raises `ConductorError` for a chain that could not start."""
    from conductor.cli import readiness

    for name, parsed in wanted.chains.items():
        try:
            readiness.check(as_served(parsed, wanted.settings, 1))
        except ConductorError as error:
            if not name:
                raise
            raise type(error)(f"the chain `{name}`: {error.text}", error.hint) from None


class _Hosted:
    """A chain of a server whose components have started."""

    def __init__(
        self,
        parsed: Parsed,
        about: About,
        upstream: Transport,
        failed: Callable[[str, str], None],
        only: Callable[[], Only | None],
    ) -> None:
        """`about`: the chain as commands show it. `failed` hears why it failed, and a hint. `only`:
        the file that alone configures it by now. Raises `ConductorError`."""
        self._failed = failed
        self._only = only
        self.ended: Callable[[], None] = lambda: None
        """Called when it has ended."""
        # Nobody is asked here: a client may not agree to more.
        self._started = Started(parsed, Where.NOWHERE, about=about)
        self._runtime = self._started.runtime(upstream)
        self._started.follow("nowhere")

    async def run(self) -> tuple[str, str]:
        """See `conductor.serve.chains.Hosted`."""
        try:
            await self._runtime.run()
        except Exception as error:
            self._failed(f"a defect of conductor: {place_of(error)}", "please report it")
            raise
        finally:
            self._started.close(strays=False)
            self.ended()
        failure = self._runtime.failure
        if failure is None:
            return "", ""
        self._failed(failure.text, failure.hint)
        return failure.text, failure.hint

    def stop(self) -> None:
        """Ends it now."""
        self._runtime.stop()

    def reload(self) -> None:
        """Reads its configuration again."""
        self._started.rely_on(self._only())
        self._runtime.reload()


class Serving:
    """A server, from its start to its end."""

    def __init__(self, command: str, wanted: Callable[[], Wanted]) -> None:
        """`command` runs it. `wanted` returns the chains to serve, now and at each reload."""
        self._command = command
        self._read = wanted
        self._wanted = wanted()
        self._addresses = entrance.listens_at(self._wanted.settings)
        self._tls = entrance.tls(self._wanted.settings, self._addresses)
        for address in self._addresses:
            self.check(address, self._wanted.settings)
        _ready(self._wanted)
        self._ending = asyncio.Event()
        self._stopped: list[int] = []
        self._code = 0
        """The exit code."""
        self._started: Counter[str] = Counter()
        """The chains that have begun, by name."""
        self._numbers: set[int] = set()
        """The numbers of the running chains that `conductor ps` shows."""
        self._server: Server | None = None
        self._gate: Gate | None = None
        self._stale = asyncio.Event()
        """Whether all is to be read again."""
        self._failures = Failures()

    @staticmethod
    def check(address: Address, settings: Settings) -> None:
        """Raises `UsageError` for an address that may not be served so."""
        try:
            entrance.check(address, settings)
        except UsageError as error:
            raise blamed(error, settings.set_by.get("listen")) from None

    def start(self, named: str, principal: str, upstream: Transport) -> Hosted:
        """Starts a chain (`conductor.serve.chains.Factory`)."""
        chain = self._wanted.chains.get(named)
        if chain is None:  # lines name none; and a reload may have taken one away
            what = f"the chain `{named}`" if named else "a chain of its command line"
            raise ConductorError(
                f"this server does not serve {what}",
                "a client at ws:// or http:// names a chain, /acp/NAME; over unix: and tcp: there "
                "is only that of `conductor serve COMPONENT…`",
            )
        self._started[named] += 1
        failed = functools.partial(self._failures.heard, named)
        try:
            parsed = as_served(chain, self._wanted.settings, self._started[named])
            if len(self._numbers) >= _MOST_SHOWN:
                quiet = msgspec.structs.replace(parsed.options, control="off")
                parsed = msgspec.structs.replace(parsed, options=quiet)
            number = self._started.total()
            about = About(self._command, number, chain=named, principal=principal)
            parsed, upstream = self.fitted(parsed, about, upstream)
            hosted = _Hosted(parsed, about, upstream, failed, lambda: self._wanted.only)
        except ConductorError as error:
            failed(error.text, error.hint)
            raise
        if parsed.options.control == "on":
            self._numbers.add(number)
            hosted.ended = lambda: self._numbers.discard(number)
        return hosted

    async def run(self) -> int:
        """Serves until a signal ends it; the exit code. Raises `ConductorError`."""
        async with tasks.group() as reading:
            reading.start_soon(self._read_again)
            await self._serve()
            reading.cancel_scope.cancel()
        return self._code

    async def _serve(self) -> None:
        from conductor.serve.server import Server

        _silence()
        settings = self._wanted.settings
        self._gate = gate = entrance.gate(settings, self._addresses, self._begin)
        owners = await self.owners(gate)
        try:
            async with Server(
                settings, gate, self.start, owners, self.paths(), self._complain, self.made
            ) as self._server:
                await self._run(self._server)
        finally:
            await self.end(owners)
            end_strays()

    async def _listen(self, server: Server) -> list[str]:
        """Listens everywhere; the addresses that clients use. Raises `UsageError`."""
        try:
            return [
                await server.listen(address, self._tls if address.has_tls else None)
                for address in self._addresses
            ]
        except UsageError as error:
            raise blamed(error, self._wanted.settings.set_by.get("listen")) from None

    async def _run(self, server: Server) -> None:
        self._watch_signals()
        try:
            served = await self._listen(server)
            await self.begin(server)
        except BaseException:
            self._ending.set()
            await server.run(self._ending)
            raise
        pairs = zip(self._addresses, served, strict=True)
        places = (place for address, one in pairs for place in self._places(address, one))
        report.write(" ".join(("serving", *places, *self.shown())))
        settled_memory()
        await server.run(self._ending, self.leave)

    def _begin(self, work: Coroutine[Any, Any, None]) -> object:
        assert self._server is not None
        return self._server.start(work)

    def _places(self, address: Address, served: str) -> list[str]:
        """The addresses at which clients find the chains that are served at an address."""
        if not address.takes_token:  # lines name no chain
            return [served]
        base = served.rstrip("/")
        return [f"{base}/{name}" if name else base for name in self._wanted.chains or ("",)]

    # -- the differences of parts of a fleet -----------------------------------------------------

    async def owners(self, gate: Gate) -> Ownership:
        """The owners of the sessions. Raises `ConductorError`."""
        from conductor.serve.access.gate import LOCAL
        from conductor.serve.owners import Owners

        path = entrance.owners(self._wanted.settings)
        try:
            return Owners(path, sole=LOCAL if gate.open else "")
        except OSError as error:
            raise UsageError(
                f"the file of owners `{path}` cannot be used: {error.strerror or error}",
                "`serve.owners` names a file of your own, or `none`",
            ) from None

    def fitted(self, parsed: Parsed, about: About, upstream: Transport) -> tuple[Parsed, Transport]:
        """A chain that is about to start, with additions that any server has not, and its client's
        end. Raises `ConductorError`."""
        del about
        return parsed, upstream

    def made(self, principal: str, server: Server) -> Served:
        """The room of a principal."""
        return server.new_room(principal)

    def paths(self) -> Container[str]:
        """The names of chains at paths."""
        return [*self._wanted.chains]

    def shown(self) -> Sequence[str]:
        """The places that are served beside addresses, in words."""
        return ()

    async def begin(self, server: Server) -> None:
        """The server listens."""

    async def leave(self) -> None:
        """The server is to end, and nothing has ended yet."""

    async def end(self, owners: Ownership) -> None:
        """The server has ended."""
        owners.close()

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signals.call(loop, number, self._stop, number)
        signals.call(loop, signal.SIGHUP, self._reload)

    def stop(self) -> None:
        """Drains, as after a signal."""
        if not self._stopped:
            self._stop(signal.SIGTERM)

    def fail(self) -> None:
        """Drains, because it cannot go on."""
        self._code = 1
        self.stop()

    def _stop(self, number: int) -> None:
        """Drains; the second time at once."""
        if self._stopped:
            os._exit(128 + number)  # the guardians end the processes that we started
        self._stopped.append(number)
        self._ending.set()

    def _reload(self) -> None:
        """Reads tokens, certificates, limits and chains again."""
        self._stale.set()

    async def _read_again(self) -> None:
        """Reads all files at each signal; if one cannot be read, the server stays as it was."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self._take(self._read())
            except ConductorError as error:
                text = f"the server stays as it was{managed.former()}: {error.with_hint}"
                report.write(text, word="error")
            except Exception as error:  # clients go on
                self._complain(f"a defect of conductor: {place_of(error)}")
            else:
                report.write("tokens, certificates, limits and chains have been read again")

    async def _take(self, wanted: Wanted) -> None:
        """Serves something else from now on. Raises `ConductorError`: then nothing has changed."""
        assert self._server is not None
        assert self._gate is not None
        for address in self._addresses:
            self.check(address, wanted.settings)
        fresh = entrance.gate(wanted.settings, self._addresses, self._begin)
        await asyncio.to_thread(_ready, wanted)  # that may compile
        if entrance.tls(wanted.settings, self._addresses) is not None and self._tls is not None:
            entrance.load(self._tls, wanted.settings)  # for new connections; a try went before
        self._wanted = wanted
        self._gate.become(fresh)
        self._server.set(wanted.settings, self.paths())
        self._server.reload()

    @staticmethod
    def _complain(text: str) -> None:
        report.write(text, word="warning")


def as_served(parsed: Parsed, settings: Settings, number: int) -> Parsed:
    """A chain as a server runs it; `number` counts the chains of its name. Raises `UsageError`."""
    if parsed.options.prometheus is not None:
        error = UsageError(
            "a chain of a server has no `prometheus` of its own",
            "take the option out of the chain: the server has its numbers at /metrics",
        )
        raise blamed(error, parsed.options.set_by.get("prometheus"))
    chain = msgspec.structs.replace(
        parsed.options,
        trace=_numbered(parsed.options.trace, number),
        metrics=_numbered(parsed.options.metrics, number),
        # A client that is cut takes nothing for a while.
        stall=max(parsed.options.stall, settings.linger + 60.0),
        # It waits for its home before the home would be sent away.
        high_water=(high := min(parsed.options.high_water, settings.unread // 2)),
        low_water=min(parsed.options.low_water, high // 4),
        logins=False,
    )
    mode = "agent" if parsed.mode == "auto" else parsed.mode
    return msgspec.structs.replace(parsed, mode=mode, options=chain)


def _numbered(path: str | None, number: int) -> str | None:
    """The file of a chain, with a number: else it would write over the file of the chain before."""
    if path is None or number == 1:
        return path
    root, kind = os.path.splitext(path)
    return f"{root}-{number}{kind}"


def _silence() -> None:
    """Libraries do not log texts of strangers: the texts may hold anything."""
    for name in ("asyncio", "httpcore2"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
