"""A command's end of the control socket; and which chains of this user run."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from conductor.control import places, protocol
from conductor.control.places import Id
from conductor.control.protocol import Answer, ChainState, Request
from conductor.errors import ConductorError, UsageError, one_line

_AT_ONCE: Final = 5.0
"""Seconds in which a chain must answer requests that need no wait."""
_MOST_LINE: Final = 16 * 1024 * 1024
"""Bytes of a line of a chain, at most."""

_START: Final = (
    "start one: `conductor agent …` in an editor; a chain with `-c control=off` is not found"
)


class Control:
    """A connection to one running chain."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""
        self._ids = itertools.count(1)

    @classmethod
    def connected(cls, path: str) -> Control:
        """Connects. Raises `OSError`, where `ConnectionRefusedError` means that nobody is there,
        and `ConductorError` for a program that answers otherwise."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_AT_ONCE)
            connection.connect(path)
            control = cls(connection)
            with contextlib.suppress(BrokenPipeError):  # a busy chain has answered so
                connection.sendall(protocol.encode(protocol.Greeting()))
            protocol.greeted(control._line(_AT_ONCE))
        except BaseException:
            connection.close()
            raise
        return control

    def close(self) -> None:
        """Ends the connection: requests that have not been performed are dropped. Any thread may
        call it: a caller that waits in `ask` gets a `ConductorError`."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def ask(
        self,
        do: str,
        name: str = "",
        *,
        patient: bool = False,
        waits: Callable[[str], None] = lambda text: None,
    ) -> ChainState | str | None:
        """The answer to a request.

        Args:
            do: The request.
            name: The component.
            patient: Wait as long as the chain is there.
            waits: Called with words for the thing that the chain waits for.

        Raises `ConductorError`, also where the chain has gone or does not answer.
        """
        id_ = next(self._ids)
        try:
            self._connection.sendall(protocol.encode(Request(id_, do, name)))
            while True:
                answer = protocol.decode(self._line(None if patient else _AT_ONCE), Answer)
                if answer.id == id_ and answer.error:
                    raise ConductorError(answer.error, answer.hint)
                if answer.id == id_ and not answer.waits:
                    return answer.result
                waits(answer.waits)
        except TimeoutError:
            raise ConductorError(
                f"the chain did not answer within {_AT_ONCE:g} s",
                "it may be stopped (Ctrl-Z), or very busy: try again",
            ) from None
        except OSError:
            raise ConductorError("the chain has ended") from None

    def state(self) -> ChainState:
        """The state of the chain. Raises `ConductorError`."""
        return self._asked("state")

    def figures(self, wanted: str = "") -> ChainState:
        """The state of the chain, with the latest counts of each component.

        `wanted`: a filter; only events that it chooses are counted. Raises `ConductorError`.
        """
        return self._asked("figures", wanted)

    def _asked(self, do: str, wanted: str = "") -> ChainState:
        state = self.ask(do, wanted)
        if not isinstance(state, ChainState):
            raise ConductorError("the chain's answer has no state in it")
        return state

    def _line(self, seconds: float | None) -> bytes:
        """The next line. Raises `OSError`, `TimeoutError` among them."""
        until = None if seconds is None else time.monotonic() + seconds
        while (end := self._read.find(b"\n")) < 0:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            more = self._connection.recv(64 * 1024)
            if not more or len(self._read) > _MOST_LINE:
                raise ConnectionResetError
            self._read += more
        line, self._read = self._read[:end], self._read[end + 1 :]
        return line


class Running(msgspec.Struct):
    """A chain that runs, or a process that has a control socket and does not answer."""

    id: Id
    path: str
    state: ChainState | None
    why: str = ""
    """Why there is no state."""


def running() -> list[Running]:
    """The chains of this user, the oldest first. Sockets of processes that are gone are removed."""
    found = []
    for id_, path in places.listed():
        try:
            control = Control.connected(path)
        except (ConnectionRefusedError, FileNotFoundError):
            if not _lives(id_.process):
                places.remove(path)
            continue
        except (ConductorError, OSError) as error:
            found.append(Running(id_, path, None, _why(error)))
            continue
        with contextlib.closing(control):
            try:
                found.append(Running(id_, path, control.state()))
            except ConductorError as error:
                found.append(Running(id_, path, None, error.text))
    return sorted(found, key=lambda each: -each.state.uptime if each.state else 0.0)


def read_id(text: str | None) -> Id | None:
    """The id of a chain as a person has written it, if at all. Raises `UsageError`."""
    id_ = None if text is None else places.read_id(text)
    if id_ is None and text is not None:
        raise UsageError(
            f"`{one_line(text, 40)}` is no process, and no chain of one",
            "`conductor ps` shows which there are, such as 4711, or 4711-2 of a server",
        )
    return id_


def chosen(
    wanted: Id | None, component: str = "", folder: str | None = None
) -> tuple[Control, Running]:
    """Connects to the chain that is meant.

    Args:
        wanted: The id of the chain; None: the only chain that runs, or the only chain of `folder`.
        component: The component of the command: only chains that have it are meant, if any has.
        folder: A project's folder; None: the current one.

    Raises `ConductorError` where none runs, or several do.
    """
    chains = running()
    alive = [each for each in chains if each.state is not None]
    meant = [each for each in alive if wanted is None or each.id.is_of(wanted)]
    if not meant:
        silent = [each for each in chains if wanted is None or each.id.is_of(wanted)]
        if silent:
            raise ConductorError(
                f"the chain of process {silent[0].id} does not answer: {silent[0].why}"
            )
        if wanted is not None and alive:
            raise UsageError(f"no chain of yours runs as process {wanted}", _listed(alive))
        raise ConductorError("no chain of yours runs", _START)
    for narrower in (_having(meant, component), _below(meant, folder or os.getcwd())):
        if len(meant) > 1 and narrower:
            meant = narrower
    if len(meant) > 1:
        raise UsageError(f"{len(meant)} chains run: which one is meant?", _listed(meant))
    try:
        control = Control.connected(meant[0].path)
    except OSError:
        raise ConductorError(f"the chain of process {meant[0].id} has ended") from None
    return control, meant[0]


def _having(chains: Sequence[Running], component: str) -> list[Running]:
    return [
        each
        for each in chains
        if each.state is not None and component in (one.name for one in each.state.components)
    ]


def _below(chains: Sequence[Running], folder: str) -> list[Running]:
    return [each for each in chains if each.state is not None and each.state.folder == folder]


def _listed(chains: Sequence[Running]) -> str:
    rows = []
    for each in chains[:8]:
        assert each.state is not None
        names = " ".join(one.name for one in each.state.components)
        where = one_line(each.state.folder, 60)
        who = f"for {one_line(each.state.principal, 40)}, " if each.state.principal else ""
        rows.append(f"--pid {each.id} ({one_line(names, 60)}, {who}in {where})")
    return "choose by " + ", or ".join(rows)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it takes no connection"
    if isinstance(error, ConductorError):
        return error.text
    return getattr(error, "strerror", None) or str(error) or "it ends the connection"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
