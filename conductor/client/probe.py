"""Asks a program whether it is an agent: `initialize`, then `session/new`, and no prompt.

`Exchange` is pure: frames in, frames out, at the end a `Probe`. `probing` runs the program for it,
in an empty private folder of its own, within bounds of time and output, and ends the whole group
of its processes. What a program sends to the back (a daemon) is its caller's to end:
`conductor.transports.process_groups.end_strays`.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import AUTH_REQUIRED, METHOD_NOT_FOUND
from conductor.errors import ComponentError, one_line
from conductor.record.turns.messages import members
from conductor.transports.base import Ended
from conductor.transports.process import ProcessTransport
from conductor.transports.process_groups import Guardian
from conductor.version import version

PROTOCOL_VERSION: Final = 1
"""The version of ACP that a probe speaks."""

TIMEOUT: Final = 20.0
"""Seconds that a program gets by default."""

_GRACE: Final = 1.0
"""Seconds for each step of its end."""

_LINE: Final = 4 << 20
_OUTPUT: Final = 16 << 20
_LINES: Final = 10_000
"""The most that it may write before it has answered: bytes of a line, bytes, lines."""

_METHODS: Final = 20
"""Ways to log in, and lines of a version, that are kept."""

_VERSION: Final = re.compile(r"(?<![\w.])v?\d+\.\d[\w.+-]*")
_EMPTY: Final = re.compile(r"\s+at \S|[\W_]*$|Node\.js v[\d.]+$")
"""Lines around an error of Node that say nothing of it."""


class Login(enum.Enum):
    """Whether somebody is logged in at an agent."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class AuthMethod(msgspec.Struct, frozen=True):
    """A way to log in that an agent names."""

    id: str
    name: str = ""
    description: str = ""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Texts of the agent are on one line, and safe to show."""

    answers: bool = False
    """Whether it answered `initialize` in the version of ACP that conductor speaks."""
    name: str = ""
    version: str = ""
    protocol: int | None = None
    """The version of ACP it answered with."""
    auth_methods: list[AuthMethod] = []
    session: bool = False
    """Whether it opened a session."""
    login: Login = Login.UNKNOWN
    error: str = ""
    """What went wrong: a sentence that follows the agent's name; empty if nothing did."""


class Step(enum.Enum):
    """What an exchange waits for; it moves downwards only."""

    INITIALIZE = "initialize"
    SESSION = "session/new"
    DONE = ""


class Exchange:
    """The messages of one probe.

    Args:
        cwd: The folder of the session.
        session: Whether a session is opened; else `initialize` is all.
        proves_login: Whether the agent opens a session only for somebody who is logged in.
    """

    def __init__(self, cwd: str, *, session: bool = True, proves_login: bool = False) -> None:
        self._cwd = cwd
        self._wants_session = session
        self._proves_login = proves_login
        self._lines = 0
        self._bytes = 0
        self._odd = ""
        """The first line that was no message."""
        self.step = Step.INITIALIZE
        self.probe = Probe()

    def begin(self) -> bytes:
        """The first request."""
        info = {"name": "conductor-probe", "title": "conductor probe", "version": version()}
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        return _message(
            id=0,
            method=Step.INITIALIZE.value,
            params={
                "protocolVersion": PROTOCOL_VERSION,
                "clientInfo": info,
                "clientCapabilities": capabilities,
            },
        )

    def take(self, frame: bytes) -> bytes:
        """Takes a line of the agent; returns what to send, which may be nothing."""
        self._lines += 1
        self._bytes += len(frame)
        if self.step is Step.DONE:
            return b""
        if self._lines > _LINES or self._bytes > _OUTPUT:
            self.fail(f"wrote too much without an answer to `{self.step.value}`")
            return b""
        message = _read(frame)
        if message is None:
            self._odd = self._odd or one_line(frame.decode(errors="replace"), 100)
            return b""
        if message.get("method") == self.step.value:
            self.fail("sends back what it gets, as no agent does")
            return b""
        if isinstance(message.get("method"), str):
            return _declined(message)
        if message.get("id") != (0 if self.step is Step.INITIALIZE else 1):
            return b""
        if message.get("error") is not None:
            self._refused(members(message["error"]))
            return b""
        result = members(message.get("result"))
        if self.step is Step.INITIALIZE:
            return self._initialized(result)
        opened = isinstance(result.get("sessionId"), str)
        login = Login.YES if opened and self._proves_login else Login.UNKNOWN
        self._known(session=opened, login=login)
        if not opened:
            self.fail("answered `session/new` without a sessionId")
        self.step = Step.DONE
        return b""

    def _initialized(self, result: dict[str, Any]) -> bytes:
        info, spoken = members(result.get("agentInfo")), result.get("protocolVersion")
        is_number = isinstance(spoken, int) and not isinstance(spoken, bool)
        self._known(
            answers=is_number and spoken == PROTOCOL_VERSION,
            name=_text(info.get("title") or info.get("name")),
            version=_text(info.get("version")),
            protocol=spoken if is_number else None,
            auth_methods=_auth_methods(result.get("authMethods")),
        )
        if not self.probe.answers:
            other = f"speaks ACP version {spoken}, and conductor {PROTOCOL_VERSION}"
            self.fail(other if is_number else "answered `initialize` without a version of ACP")
            return b""
        if not self._wants_session:
            self.step = Step.DONE
            return b""
        self.step = Step.SESSION
        params = {"cwd": self._cwd, "mcpServers": []}
        return _message(id=1, method=Step.SESSION.value, params=params)

    def _refused(self, error: dict[str, Any]) -> None:
        if error.get("code") == AUTH_REQUIRED:
            self._known(login=Login.NO)
        # A conductor's error has its hint on a line of its own, and in `data` what its text says.
        message, hint, _ = str(error.get("message") or "").partition("\nhint: ")
        reason = _text(message) or "no reason given"
        data = error.get("data")
        if data is not None and data != {} and not hint:
            reason += f" ({one_line(data if isinstance(data, str) else _json(data))})"
        self.fail(f"refused `{self.step.value}`: {reason}")

    def fail(self, text: str) -> None:
        """It has not come as far as it should: `text` says why."""
        if self.step is Step.DONE:
            return
        if self._odd and not self.probe.answers:
            text += f"; it printed `{self._odd}` where messages belong"
        self._known(error=text)
        self.step = Step.DONE

    def _known(self, **fields: Any) -> None:
        self.probe = msgspec.structs.replace(self.probe, **fields)


def probe(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT,
    *,
    session: bool = True,
    proves_login: bool = False,
) -> Probe:
    """`probing`, for a caller without an event loop."""
    return asyncio.run(probing(command, env, seconds, session=session, proves_login=proves_login))


async def probing(
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT,
    *,
    session: bool = True,
    proves_login: bool = False,
) -> Probe:
    """Starts a program, asks it, and ends it with all its group.

    Args:
        command: The program and its arguments.
        env: Its whole environment; None: this process's.
        seconds: For all its answers together.
        session: Whether it is to open a session, too.
        proves_login: Whether it opens one only for somebody who is logged in.
    """
    with _program(command, env) as (transport, folder):
        exchange = Exchange(folder, session=session, proves_login=proves_login)
        await _Conversation(exchange, transport).hold(seconds)
        return exchange.probe


@contextlib.contextmanager
def _program(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> Iterator[tuple[ProcessTransport, str]]:
    """A program that is to run in a new folder, which only this user may enter."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="conductor-probe-"))
    guardian = Guardian()
    try:
        yield (
            ProcessTransport(command, env=env, cwd=folder, guardian=guardian, line_limit=_LINE),
            folder,
        )
    finally:
        guardian.release()
        shutil.rmtree(folder, ignore_errors=True)


class _Conversation:
    """An exchange over a transport; gets its events."""

    def __init__(self, exchange: Exchange, transport: ProcessTransport) -> None:
        self._exchange = exchange
        self._transport = transport
        self._over = asyncio.Event()

    async def hold(self, seconds: float) -> None:
        """Runs it to its end, and the program to its own."""
        try:
            await self._transport.open(self)
            self._transport.write(self._exchange.begin())
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except ComponentError as error:
            self._exchange.fail(error.text)
        except TimeoutError:
            words = _last_words(self._transport.stderr.tail())
            step = self._exchange.step.value
            self._exchange.fail(f"did not answer `{step}` within {seconds:.3g} s{words}")
        finally:
            await self._transport.close(_GRACE)

    def received(self, frames: list[bytes]) -> None:
        """Lines of the agent."""
        for frame in frames:
            answer = self._exchange.take(frame)
            if answer:
                self._transport.write(answer)
        self._look()

    def oversized(self, head: bytes, limit: int) -> None:
        """A line was too long."""
        self._exchange.fail(f"wrote a line of more than {limit >> 20} MiB")
        self._look()

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Nothing to do: its end is reported, too."""

    def drained(self) -> None:
        """Nothing to do: what is sent is small."""

    def ended(self, how: Ended) -> None:
        """The program ended."""
        words = _last_words(how.data.get("stderr") or [])
        self._exchange.fail(f"{how.text} before it answered `{self._exchange.step.value}`{words}")
        self._look()

    def _look(self) -> None:
        if self._exchange.step is Step.DONE:
            self._transport.pause()
            self._over.set()


async def version_of(command: Sequence[str], seconds: float) -> str:
    """What a command prints that shows a version: the first word with a number and a dot.

    Started and ended as `probing` does it; empty if there is none within so many seconds.
    """
    with _program(command) as (transport, _):
        return await _Printed(transport).version(seconds)


class _Printed:
    """The lines that a program prints until it ends; gets the events of its transport."""

    def __init__(self, transport: ProcessTransport) -> None:
        self._transport = transport
        self._over = asyncio.Event()
        self._lines: list[str] = []

    async def version(self, seconds: float) -> str:
        """The version among them."""
        with contextlib.suppress(ComponentError, TimeoutError):
            try:
                await self._transport.open(self)
                self._transport.finish()
                async with asyncio.timeout(seconds):
                    await self._over.wait()
            finally:
                await self._transport.close(_GRACE)
        for line in self._lines:
            if found := _VERSION.search(line):
                return one_line(found[0], 40)
        return ""

    def received(self, frames: list[bytes]) -> None:
        """Lines that it printed."""
        self._lines += [frame.decode(errors="replace") for frame in frames[:_METHODS]]
        if len(self._lines) >= _METHODS:
            self._over.set()

    def oversized(self, head: bytes, limit: int) -> None:
        """A line that is no version."""
        self._over.set()

    def undeliverable(self, frame: bytes, why: str) -> None:
        """Nothing is sent."""

    def drained(self) -> None:
        """Nothing is sent."""

    def ended(self, how: Ended) -> None:
        """It has printed all."""
        self._over.set()


def _last_words(lines: Sequence[str]) -> str:
    shown = [one_line(line) for line in lines if not _EMPTY.match(line)][-3:]
    return f"; its last words: {' | '.join(shown)}" if shown else ""


def _message(**members: object) -> bytes:
    return json_text.encode({"jsonrpc": "2.0", **members}) + b"\n"


def _declined(message: dict[str, Any]) -> bytes:
    """The answer to a request of the agent: nothing is served. A notification gets none."""
    if not isinstance(message.get("id"), (str, int)):
        return b""
    error = {"code": METHOD_NOT_FOUND, "message": "a probe serves no requests"}
    return _message(id=message["id"], error=error)


def _read(frame: bytes) -> dict[str, Any] | None:
    """A message; None for any other line."""
    if not frame.strip():
        return {}
    try:
        message = json_text.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            message = json.loads(frame)  # takes more, such as NaN and a mark of bytes' order
        except (ValueError, RecursionError):
            return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a deep nesting
        return "…"


def _text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""


def _auth_methods(given: object) -> list[AuthMethod]:
    methods = [members(each) for each in given[:_METHODS]] if isinstance(given, list) else []
    return [
        AuthMethod(_text(each.get("id")), _text(each.get("name")), _text(each.get("description")))
        for each in methods
        if isinstance(each.get("id"), str)
    ]
