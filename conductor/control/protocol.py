"""The lines of the control socket: JSON objects, one a line, of a bounded size.

Both sides begin with a greeting that names the version. Then each request has an id, which its
answer has too. Before the answer lines may come that name the thing the chain waits for.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from conductor.core import json_text
from conductor.errors import ConductorError, are, counted

VERSION: Final = 1
GREETING: Final = "conductor control"

MOST_LINE: Final = 64 * 1024
"""Bytes of a request; the lines of a chain are its own, and may be longer."""

Shape = TypeVar("Shape")


class Greeting(msgspec.Struct):
    """The first line of each side."""

    greeting: str = GREETING
    version: int = VERSION
    busy: int = 0
    """The number of connections of a chain that takes no more, and ends this one."""


class Request(msgspec.Struct, omit_defaults=True):
    """A command's request: `state`, `figures` (the state, with counts), `pause`, `resume`,
    `reload`."""

    id: int
    do: str
    name: str = ""
    """The component; for `figures` a filter for the counts."""


class Answer(msgspec.Struct, omit_defaults=True):
    """A line for a request; with `waits` the answer is still to come."""

    id: int
    result: ChainState | str | None = None
    error: str = ""
    hint: str = ""
    waits: str = ""


class Figures(msgspec.Struct, kw_only=True):
    """The latest counts of a component; of the process, where guests share a process."""

    messages: int
    """How many messages it sent."""
    changed: int
    """How many of them it made or changed."""
    p50: float | None
    """For how many milliseconds it had each message that it passed on or answered, without the time
    further down the chain: the median; None: there was no such message."""
    p95: float | None
    p99: float | None


class ComponentState(msgspec.Struct, kw_only=True):
    """A component of a running chain."""

    name: str
    state: str
    """`up`, `loading`, `starting`, `restarting`, `paused`, `left out` or `ended`."""
    paused: bool
    process: int | None
    """The id of its process; None: it has none of its own."""
    memory: int | None
    """Bytes of memory that the process has; guests that share a process have one number."""
    open: int
    """Requests that it has not answered; of the process, where guests share a process."""
    waiting: int
    """Bytes that wait to be written to it."""
    restarts: int
    verdicts: int
    """How often it broke a rule of its policy."""
    cpu: float | None = None
    """Seconds of processor time that the process has used."""
    figures: Figures | None = None


class ChainState(msgspec.Struct, kw_only=True):
    """A running chain."""

    pid: int
    version: str
    command: str
    """`agent`, `proxy`, `exec` …"""
    folder: str
    """The folder in which the chain was started."""
    parent: str
    """The program that started it; empty: not known."""
    uptime: float
    """Seconds."""
    turn: bool
    """Whether the client waits for an answer."""
    memory: int | None
    """Bytes of memory that the conductor's own process has."""
    components: list[ComponentState]
    chain: str = ""
    """The chain's name in the configuration of a server; empty: the chain of a command line."""
    principal: str = ""
    """The principal whose connections to a server the chain is for; empty: no server runs the
    chain."""
    trace: str = ""
    """The file of its trace; empty: there is none."""
    counted: float | None = None
    """Seconds before now of which the figures are; None: there are none."""


def encode(line: msgspec.Struct) -> bytes:
    """A line, with its end."""
    return json_text.encode(line) + b"\n"


def decode(line: bytes, shape: type[Shape]) -> Shape:
    """A line as it should be. Raises `ConductorError`."""
    try:
        return json_text.decode(line, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConductorError(f"a line of the control socket is wrong: {error}") from None


def greeted(line: bytes) -> None:
    """Checks the first line of the other side. Raises `ConductorError`."""
    greeting = decode(line, Greeting)
    if greeting.greeting != GREETING:
        raise ConductorError("the program at the control socket is no conductor")
    if greeting.version != VERSION:
        raise ConductorError(
            f"the chain speaks version {greeting.version} of the control socket, and this "
            f"conductor version {VERSION}",
            "use the conductor that runs the chain",
        )
    if greeting.busy:
        others = f"{counted(greeting.busy, 'other command')} {are(greeting.busy)}"
        raise ConductorError(
            f"the chain is busy: {others} connected to it",
            "end one of them, such as a `conductor ps --watch`, and try again",
        )
