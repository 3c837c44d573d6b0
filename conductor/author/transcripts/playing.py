"""Plays transcripts (`transcript`) against components: guests, and programs on channel/1.

Each transcript gets an instance of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Final, NamedTuple, Protocol

import msgspec

import wasm_host
from conductor.author.caged.guests import Cages
from conductor.author.transcripts import transcript
from conductor.author.transcripts.line_program import LineProgram
from conductor.author.transcripts.transcript import Difference
from conductor.author.transcripts.wire import Wire
from conductor.errors import ComponentError, UsageError
from conductor.run.guest_host import cache_folder, guest_spec
from conductor.run.segment_spec import GuestSpec
from conductor.spec.catalog import Spec
from conductor.transports.guest import deliver

DEADLINE: Final = 60.0
"""Seconds a program may take for one delivery."""


class Target(Protocol):
    """A running component."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines; what comes back. Raises `ComponentError` if it fails of it."""

    def close(self) -> None:
        """Ends it; may be called again."""


class Played(NamedTuple):
    """What came of one transcript: what differs, how it failed, and what it should say."""

    deliveries: int
    differences: list[Difference]
    failure: ComponentError | None
    text: bytes
    """The transcript with what really came."""


def play(make: Callable[[], Target], text: bytes, name: str, *, loose: bool) -> Played:
    """Plays one transcript. Raises `ValueError` for one that cannot be read."""
    deliveries = transcript.read(text, name)
    player = transcript.Player(loose=loose)
    found: list[Difference] = []
    outboxes: list[bytes] = []
    with closing(make()) as target:
        for delivery in deliveries:
            try:
                said = target.exchange(player.given(delivery))
            except ComponentError as error:
                where = f"{name}:{delivery.line}: {error.text}"
                return Played(len(outboxes), found, ComponentError(where, error.hint), text)
            difference, outbox = player.compare(delivery, said)
            outboxes.append(outbox)
            if difference is not None:
                found.append(difference)
    return Played(len(deliveries), found, None, transcript.updated(text, outboxes))


@contextmanager
def targets(spec: Spec) -> Iterator[Callable[[], Target]]:
    """Makes instances of a component, and ends them. Raises `UsageError` for one without a channel
    of its own, `ComponentError` for one that cannot be loaded."""
    if spec.sandboxed:
        with guests(spec) as load:
            yield load
        return
    if spec.command is None or spec.dialect != "channel":
        raise UsageError(
            f"{spec.label('component')} is no sandboxed proxy and does not speak `channel`, so "
            "there are no deliveries to play",
            "`conductor check` tries out components of every kind",
        )
    made: list[Program] = []
    command = spec.command

    def make() -> Target:
        made.append(Program(command, spec))
        return made[-1]

    try:
        yield make
    finally:
        for one in made:
            one.close()


@contextmanager
def guests(spec: Spec, cages: Cages | None = None) -> Iterator[Callable[[], Guest]]:
    """Makes instances of a sandboxed component, locked up in a process of their own, and ends them,
    unless they are those of `cages`. Raises `ComponentError`."""
    told = guest_spec(spec, b"null", policed=False)
    with nullcontext(cages) if cages is not None else Cages(cache_folder()) as held:
        try:
            held.carrier(told)
        except wasm_host.GuestError as error:
            raise ComponentError(f"{told.label}: {error}", error.hint) from None
        yield lambda: Guest(held, told, spec)


class Guest:
    """A guest."""

    def __init__(self, cages: Cages, told: GuestSpec, spec: Spec) -> None:
        with _failures():
            self._guest = cages.instantiate(told, spec.name)
            self._said = self._guest.start(b"")
        wrapped = self._guest.carrier == "wasi" and spec.dialect == "acp"
        self._wire = Wire(self.deliver) if wrapped else None

    @property
    def carrier(self) -> str:
        """How it carries the channel: core, component or wasi."""
        return self._guest.carrier

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel."""
        return self.deliver(lines) if self._wire is None else self._wire.exchange(lines)

    def deliver(self, lines: bytes) -> bytes:
        """Delivers lines as the component takes them."""
        said, self._said = self._said, b""
        with _failures():
            return said + self._guest.deliver(lines)

    def deliver_as_in_a_chain(self, lines: bytes) -> bytes:
        """The same, but lines beyond its limits are left out, as a conductor does."""
        said, self._said = self._said, b""
        with _failures():
            return said + deliver(self._guest, lines, lambda line, why: None)

    def close(self) -> None:
        """Frees it."""
        self._guest.close()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except wasm_host.GuestError as error:
        raise ComponentError(str(error), error.hint or "correct its source") from None


class Program:
    """A program that speaks `channel` on its standard input and output.

    A delivery is over when a request that only conductors make is answered: a program answers in
    order, and one it does not know with an error.
    """

    def __init__(self, command: list[str], spec: Spec) -> None:
        self._name = spec.label("component")
        self._asked = 0
        self._program = LineProgram(command, spec.env)

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines."""
        self._asked += 1
        number = f"conductor-test:{self._asked}"
        asked = {"jsonrpc": "2.0", "id": number, "method": "_conductor-test/barrier"}
        if not self._program.send(lines + b"c" + msgspec.json.encode(asked) + b"\n"):
            raise ComponentError(f"{self._name} has ended", "run it by itself")
        said: list[bytes] = []
        while True:
            line = self._next()
            if _answers(line, number):
                return b"".join(said)
            said.append(line)

    def _next(self) -> bytes:
        line = self._program.next(DEADLINE)
        if line is None:
            raise ComponentError(
                f"{self._name} does not answer a request on `c` that it does not know",
                "answer with error -32601 (docs/channel-abi.md)",
            )
        if not line:
            code = self._program.exit_code()
            raise ComponentError(f"{self._name} has ended with exit code {code}", "")
        return line

    def close(self) -> None:
        """Ends its input, and itself where that is not enough."""
        self._program.close(DEADLINE)


def _answers(line: bytes, number: str) -> bool:
    if not line.startswith(b"c") or number.encode() not in line:
        return False
    try:
        found = msgspec.json.decode(line[1:])
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and found.get("id") == number and "method" not in found
