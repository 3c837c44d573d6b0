"""`conductor.open`: a chain within this program, with the program in the editor's place."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack

from conductor.client import acp
from conductor.client.connection import ChainEnded, Connection, Handler
from conductor.client.setup import Setup, chain_options
from conductor.client.values import (
    Answer,
    ChainOptions,
    Log,
    OnUpdate,
    Permissions,
    Prompt,
    Update,
)
from conductor.errors import ComponentError, ConductorError, UsageError
from conductor.record import wanted
from conductor.run.owner import Owner
from conductor.run.records import Records
from conductor.run.report_lines import HostLog
from conductor.run.runtime import Runtime
from conductor.services.log_lines import LogLines
from conductor.spec import limits
from conductor.spec import plan as plans
from conductor.spec.options import Options
from conductor.spec.paths import session_folder
from conductor.spec.plan import Plan
from conductor.transports.memory import Channel, MemoryTransport

if TYPE_CHECKING:
    from conductor.telemetry.live import Telemetry

_MESSAGE: Final = "agent_message_chunk"


class Turn:
    """A turn that has begun: iterate over it for its updates, await it for its answer.

    A program that leaves the iteration early leaves the turn running: `Session.cancel` ends it, and
    the next prompt of the session waits for its end.
    """

    def __init__(self, session: Session, prompt: Prompt) -> None:
        self._session = session
        self._blocks = _blocks(prompt)
        self._updates: list[Update] = []
        self._given = 0
        self._changed = asyncio.Event()
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._task = session._chain._begin(self._run())
        if self._task is None:
            self._answer.set_exception(ChainEnded("the chain has ended"))
        else:
            self._task.add_done_callback(self._over)
            session._turns.add(self)

    async def _run(self) -> None:
        try:
            reason = await self._session._prompted(self, self._blocks)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._answer.set_exception(error)
        else:
            text = "".join(update.text for update in self._updates if update.kind == _MESSAGE)
            self._answer.set_result(Answer(text, reason, tuple(self._updates)))

    def _over(self, task: asyncio.Task[None]) -> None:
        self._answer.cancel()  # unless there is an answer
        self._session._turns.discard(self)
        self._changed.set()

    def _abandon(self) -> None:
        """Nobody waits for it any more: it is cancelled, and its failure is nobody's."""
        self._answer.add_done_callback(lambda answer: answer.cancelled() or answer.exception())
        if self._session._turn is self:
            self._session.cancel()
        elif self._task is not None:  # it waits for the turn before it
            self._task.cancel()

    def _take(self, update: Update) -> None:
        self._updates.append(update)
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Update:
        self._session._refuse_in_reader()
        while self._given == len(self._updates):
            if self._answer.done():
                self._answer.result()
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        self._given += 1
        return self._updates[self._given - 1]

    def __await__(self) -> Generator[Any, None, Answer]:
        self._session._refuse_in_reader()
        return asyncio.shield(self._answer).__await__()


class Session:
    """One session with the agent. One turn at a time: a second prompt waits for the first."""

    def __init__(self, chain: Chain, id_: str, cwd: str) -> None:
        self.id = id_
        self.cwd = cwd
        self._chain = chain
        self._turn: Turn | None = None
        """The turn that the agent has."""
        self._turns: set[Turn] = set()
        """The turns, also those that wait for another turn."""
        self._free = asyncio.Lock()

    async def prompt(self, prompt: Prompt) -> Answer:
        """Sends a prompt; the answer, when the turn has ended.

        If the waiting is cancelled (`asyncio.timeout`), the turn is cancelled too.

        Raises:
            RequestError: The agent, a proxy or the conductor answered with an error.
            ComponentError: The chain failed.
        """
        turn = self.stream(prompt)
        try:
            return await turn
        except asyncio.CancelledError:
            turn._abandon()
            raise

    def stream(self, prompt: Prompt) -> Turn:
        """Begins a turn: `async for update in session.stream("hi")`; `await` it for its answer.

        The iteration, and the `await`, raise the errors of `prompt`.
        """
        return Turn(self, prompt)

    def cancel(self) -> bool:
        """Cancels the turn, which then ends with the stop reason `cancelled`; False: no turn."""
        if self._turn is None:
            return False
        self._chain._connection.cancel(self.id)
        return True

    async def _prompted(self, turn: Turn, blocks: list[dict[str, Any]]) -> str:
        async with self._free:
            self._turn = turn
            try:
                with self._chain._explained():
                    answer = await self._chain._connection.prompt(self.id, blocks)
                return acp.stop_reason(answer)
            finally:
                self._chain._connection.turn_ended(self.id)
                self._turn = None

    def _refuse_in_reader(self) -> None:
        self._chain._connection.refuse_in_reader()


def _telemetry(plan: Plan, setup: Setup) -> Telemetry | None:
    """The telemetry that is wanted. Raises `UsageError`."""
    if not plan.options.measures:
        return None
    from conductor.telemetry import live

    return live.wanted(plan, setup.log)


class _Stamping(Owner):
    """Has requests to the agent carry the trace context."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def stamped(self, number: int, params: bytes) -> bytes:
        """See `Owner`."""
        return self._telemetry.stamped(number, params)


class Chain(Session):
    """A running chain, and its first session. `conductor.open` makes it."""

    def __init__(self, plan: Plan, setup: Setup) -> None:
        super().__init__(self, "", setup.cwd)
        self._lines = LogLines(limits.log_lines(plan.components), setup.log)
        telemetry = _telemetry(plan, setup)
        if telemetry is not None:
            plan = plan.with_options(traceparent=telemetry.traceparent)
        opened = wanted.opened(
            plan,
            setup.log,
            on_stderr=_stderr(self._lines),
            sinks=[telemetry] if telemetry is not None else [],
        )
        self._guardian = opened.launcher.guardian
        self._setup = setup
        self._connection = Connection("library", setup.handlers, on_update=self._updated)
        upstream = MemoryTransport(self._serve)
        self._runtime = Runtime(
            opened.planned,
            "agent",
            upstream,
            plan.options,
            Records(self._lines.say, sinks=opened.sinks),
            _Stamping(telemetry) if telemetry is not None else None,
        )
        if telemetry is not None:
            telemetry.attach(self._runtime)
        self._connection.agent = self._runtime.agent_command
        self._sessions: dict[str, Session] = {}
        self._tasks = asyncio.TaskGroup()
        self._is_over = False
        self._is_connected = False
        self._begun = asyncio.Event()
        """Whether it is connected, or has ended before."""
        self._leaving = asyncio.Event()
        self._raised: BaseException | None = None
        """The failure that the program has met already."""
        self._crashed: Exception | None = None
        """A defect of conductor."""
        self._running: asyncio.Task[None]

    async def session(self, cwd: str | os.PathLike[str] | None = None) -> Session:
        """Opens another session, by default in the chain's folder. Raises as `prompt` does."""
        place = self.cwd if cwd is None else session_folder(cwd)
        with self._explained():
            id_ = (await self._connection.new_session(place))["sessionId"]
        opened = self._sessions[id_] = Session(self, id_, place)
        return opened

    def reload(self) -> None:
        """Replaces the proxies by their new builds, all once nothing is open."""
        self._runtime.reload()

    # -- from the first message to the last process gone ---------------------------------------

    async def _enter(self) -> None:
        await self._tasks.__aenter__()
        self._running = self._tasks.create_task(self._run())

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        if not self._is_over:
            return self._tasks.create_task(work)
        work.close()
        return None

    async def _run(self) -> None:
        try:
            await self._runtime.run()
        except Exception as error:
            self._crashed = error
        finally:
            self._begun.set()
            self._guardian.release()
            self._lines.close()

    async def _serve(self, channel: Channel) -> None:
        """The in-process component in the editor's place."""
        async with self._connection.over(channel):
            self._is_connected = True
            self._begun.set()
            await self._leaving.wait()

    async def _start(self) -> None:
        """`initialize` and `session/new`."""
        await self._begun.wait()
        with self._explained():
            if not self._is_connected:
                raise ChainEnded("the chain ended before it began")
            await self._connection.initialize(self._setup.capabilities)
            self.id = (await self._connection.new_session(self.cwd))["sessionId"]
        self._sessions[self.id] = self

    async def _close(self) -> None:
        """Ends the chain; returns when nothing of it is left, however often it is cancelled."""
        turns = [turn for session in self._sessions.values() for turn in session._turns]
        for turn in turns:
            turn._abandon()
        open_ = {self._running, *(turn._task for turn in turns if turn._task is not None)}
        self._leaving.set()
        if not self._is_connected:
            self._runtime.stop()
        cancelled: asyncio.CancelledError | None = None
        while open_:
            try:
                _, open_ = await asyncio.wait(open_)
            except asyncio.CancelledError as error:
                cancelled = error
                self._runtime.stop()
        self._is_over = True
        await self._tasks.__aexit__(None, None, None)
        if cancelled is not None:
            raise cancelled
        if self._crashed is not None:
            raise self._crashed

    def _raise_unmet(self) -> None:
        """Raises a failure that the program has not met."""
        if self._raised is None:
            if self._connection.defect is not None:
                raise self._connection.defect
            if self._runtime.failure is not None:
                raise self._failure()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Raises errors of the connection as those of the chain, where the chain has failed."""
        try:
            yield
        except ConductorError as error:
            if error is self._connection.defect:
                self._raised = error
            elif self._runtime.failure is not None:
                self._raised = self._failure()
                raise self._raised from None
            raise
        except BaseException as error:
            if error is self._connection.defect:
                self._raised = error
            raise

    def _failure(self) -> ComponentError:
        failure = self._runtime.failure
        assert failure is not None
        return ComponentError(failure.text, failure.hint, failure.data)

    async def _updated(self, session: str, members: dict[str, Any]) -> None:
        update = Update(session, str(members.get("sessionUpdate")), members)
        of = self._sessions.get(session)
        if of is not None and of._turn is not None:
            of._turn._take(update)
        if self._setup.on_update is not None:
            waiting = self._setup.on_update(update)
            if waiting is not None:
                await waiting


def open(  # noqa: A001 - read with the module's name
    *components: str,
    cwd: str | os.PathLike[str] | None = None,
    on_update: OnUpdate | None = None,
    permissions: Permissions = "deny",
    files: Literal["none", "read", "write"] = "none",
    handlers: Mapping[str, Handler] | None = None,
    log: Log | None = None,
    **options: Unpack[ChainOptions],
) -> AbstractAsyncContextManager[Chain]:
    """Runs a chain as long as the block lasts, and opens a session.

    Leaving the block ends the chain, and returns when no process of it is left: also after an
    exception, and when the waiting is cancelled.

    Args:
        components: The proxies, then the agent, written as on the command line.
        cwd: The session's working directory; None: the current one.
        on_update: Called with each update of all sessions, in order; the chain waits for it.
        permissions: How the agent's questions are answered: `deny`, `allow-once`, or an async
            function that returns True, False or the id of an option.
        files: Access to text files below `cwd` that the chain gets.
        handlers: Async functions for other requests of the chain, by method: the params in, the
            result out. With `fs/read_text_file`, `fs/write_text_file` or `terminal/create` among
            them, the client says that it has this capability. `RequestError` answers with an error.
        log: Takes the lines of the log; None: the logger `conductor` of `logging`.
        options: Fields of `conductor.spec.options.Options`.

    The beginning of the block raises the errors below. Its end raises the error of the chain, or of
    one of the functions above, if nothing in the block has raised that error yet.

    Raises:
        UsageError: A component, an option or the folder is wrong, or the managed policy forbids it.
        ComponentError: A component could not be started, or has failed.
        RequestError: The agent refused `initialize` or `session/new`.
    """
    setup = Setup(cwd, on_update, permissions, files, handlers or {}, log)
    return _opened(components, setup, chain_options(dict(options)))


@asynccontextmanager
async def _opened(
    components: tuple[str, ...], setup: Setup, options: Options
) -> AsyncIterator[Chain]:
    if not components:
        raise UsageError("a chain needs an agent", 'for example `conductor.open("demo")`')
    chain = Chain(plans.made(components, options), setup)
    await chain._enter()
    try:
        await chain._start()
        yield chain
    except BaseException:
        await chain._close()
        raise
    await chain._close()
    chain._raise_unmet()


def _blocks(prompt: Prompt) -> list[dict[str, Any]]:
    parts = [prompt] if isinstance(prompt, str) else prompt
    return [{"type": "text", "text": p} if isinstance(p, str) else dict(p) for p in parts]


def _stderr(lines: LogLines) -> Callable[[str, str], None]:
    """Puts the lines that components write to standard error into the log."""
    log = HostLog()

    def take(name: str, line: str) -> None:
        if name:
            lines.say("info", name, line)
            return
        text, _ = log.read(line)
        lines.say(*(log.entry or ("info", "host")), text)

    return take
