"""`conductor proxy --dialect scp`: a conductor that takes part in SCP.

The client of a proxy of SCP names the components behind it by `_scp/proxy`. Until then the
conductor runs nothing and answers by itself (`conductor.core.roles.participant`). Then its chain is
its own components and those: the same rules hold for them as on a command line, so the lock file,
the managed policy and the options of the sandbox decide over the whole chain. From then on this is
`conductor agent`, with the client in the editor's place.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import report
from conductor.cli.loop import settled_memory, until_done
from conductor.cli.started import Started
from conductor.core import jsonrpc
from conductor.core.dialects import LAUNCH
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from conductor.core.oversize import request_id
from conductor.core.roles.participant import Launch, Participant, Server, repeated
from conductor.errors import ConductorError, UsageError
from conductor.run import spawn
from conductor.spec.catalog import resolve_all
from conductor.spec.config.model import Written
from conductor.spec.consent import Where
from conductor.spec.programs import plain
from conductor.transports.base import Ended, Owner, Transport, Wrapper
from conductor.transports.stdio import StdioTransport
from conductor.version import version

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_MOST_UNREAD: Final = 1024 * 1024
"""The most bytes of unread answers before there is a chain; beyond it the client is not read."""
_MOST_TRIES: Final = 8
"""How often a client may name refused successors: each try reads files and keeps logs."""


def checked(parsed: Parsed) -> None:
    """Raises `ConductorError` where a component of the conductor's own cannot be resolved."""
    resolve_all(parsed.components, agent_last=False, config=parsed.config)


async def served(parsed: Parsed, early: list[int], stopped: list[int]) -> int:
    """Answers the client until it names its successors, then runs the chain; the exit code."""
    client = ClientTransport(StdioTransport(line_limit=parsed.options.line_limit))
    await client.listen()
    tries = 0
    while (launch := await client.launch()) is not None:
        tries += 1
        try:
            if tries > _MOST_TRIES:
                raise UsageError(f"{_MOST_TRIES} chains have been refused", "start this proxy anew")
            started = Started(_whole(parsed, launch.servers), Where.NOWHERE)
        except ConductorError as error:
            client.refuse(launch, error)
            continue
        spawn.discard()  # nobody took the host
        runtime = started.runtime(client, says_failure=True)
        started.follow("nowhere")
        settled_memory()
        code = await until_done(runtime, stopped, early)
        started.close()
        return code
    spawn.discard()
    await client.close(parsed.options.grace)
    return 0


def _whole(parsed: Parsed, servers: list[Server]) -> Parsed:
    """The chain to run: the command line's components, and behind them those that the client names.

    Raises `UsageError` for an entry that no component can be.
    """
    named = [Written(_component(server), origin=f"`{LAUNCH}` of the client") for server in servers]
    components = [*parsed.components, *named]
    options = msgspec.structs.replace(parsed.options, logins=False)
    return msgspec.structs.replace(
        parsed, mode="agent", dialect=None, components=components, options=options
    )


def _component(server: Server) -> dict[str, Any]:
    """A server as an object of a command line. Raises `UsageError`.

    A path counts from the root alone: a client's path must not depend on the folder that this
    process happens to be in. Without arguments and variables a word is a name as on a command line.
    """
    command = server.command
    if not os.path.isabs(command) and not _PLAIN_NAME.fullmatch(command):
        raise UsageError(
            f"`{LAUNCH}` names `{command}`, which is neither an absolute path nor a name",
            "`command` is the absolute path of a program, or the name of a component or of a "
            "program on PATH",
        )
    name = {"name": plain(server.name)} if server.name else {}
    if not server.args and not server.env:
        return {"component": command, **name}
    env = {each.name: each.value for each in server.env}
    return {"command": command, "args": server.args, "env": env, **name}


class ClientTransport(Wrapper):
    """The client's transport. Answers for the chain until there is one, and gives it the frames
    that came since."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._participant = Participant(version())
        self._kept: deque[bytes] = deque()
        """Frames that nobody has read."""
        self._launch: Launch | None = None
        self._end: Ended | None = None
        self._changed = asyncio.Event()
        """Set once there is a launch, or the client has ended."""

    # -- before the chain ----------------------------------------------------------------------

    async def listen(self) -> None:
        """Begins to answer."""
        await self._inner.open(self)

    async def launch(self) -> Launch | None:
        """Waits until the client names its successors; None: it has ended before."""
        await self._changed.wait()
        return self._launch

    def refuse(self, launch: Launch, error: ConductorError) -> None:
        """Answers that the chain which the client named is refused; it may name another."""
        report.write(f"`{LAUNCH}` is refused: {error.text}", word="warning")
        code = INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL_ERROR
        body = jsonrpc.error_object(code, error.with_hint, error.data or None)
        self._inner.write(jsonrpc.answer(launch.id, b"error", body))
        self._launch = None
        if self._end is None:
            self._changed.clear()
        self._inner.resume()
        self._look()

    def _look(self) -> None:
        """Reads the kept frames, up to a launch."""
        while self._kept and self._launch is None:
            answer = self._participant.receive(self._kept.popleft())
            if isinstance(answer, Launch):
                self._launch = answer
                self._inner.pause()  # later frames are for the chain
                self._changed.set()
            elif answer is not None:
                self._inner.write(answer)
        if self._inner.buffered > _MOST_UNREAD:
            self._inner.pause()

    # -- the chain's ---------------------------------------------------------------------------

    async def open(self, events: Owner) -> None:
        """The chain is there: the client's words initialize it."""
        self._events = events
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        assert self._launch is not None
        kept, self._kept = [self._launch.initialize, *self._kept], deque()
        self._inner.resume()
        super().received(kept[:1])
        self.received(kept[1:])
        if self._end is not None:
            super().ended(self._end)

    def received(self, frames: list[bytes]) -> None:
        """Lines of the client."""
        if self._events is None or self._kept:
            self._kept.extend(frames)
            self._look()
            return
        passed = []
        for frame in frames:
            refusal = repeated(frame)
            if refusal is None:
                passed.append(frame)
            else:
                self._inner.write(refusal)
        if passed:
            super().received(passed)

    def oversized(self, head: bytes, limit: int) -> None:
        """A line of the client was skipped."""
        if self._events is not None:
            super().oversized(head, limit)
            return
        body = jsonrpc.error_object(INVALID_REQUEST, f"a line over {limit} bytes was skipped")
        self._inner.write(jsonrpc.answer(request_id(head) or b"null", b"error", body))

    def drained(self) -> None:
        """The frames queued for the client have left."""
        if self._events is not None:
            super().drained()
        elif self._launch is None and self._inner.buffered <= _MOST_UNREAD:
            self._inner.resume()

    def ended(self, how: Ended) -> None:
        """The client says nothing more."""
        self._end = how
        self._changed.set()
        if self._events is not None and not self._kept:
            super().ended(how)
