"""The facts of `conductor inspect` as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from conductor.cli.client_output import one_line

if TYPE_CHECKING:
    from conductor.cli.inspect_ import Facts

DETECTED: Final = "detected when it starts"

_WIDTH: Final = 11
_CARRIERS: Final = {
    "core": "core module: channel/1 called directly",
    "component": "WebAssembly component: channel/1 as text",
    "wasi": "WASI command: JSON-RPC lines on its standard input and output",
    "unknown": "unknown: it has no way in for messages",
}
_POWERS: Final = {
    "none": "this module cannot call anything; it can only return messages",
    "wasi": "this module can only return messages: its WASI imports are answered by stubs that "
    "give nothing away; clock and random work if granted",
    "forbidden": "this module asks for functions no guest gets, so it is refused",
    "subprocess": "UNSANDBOXED: it runs with your rights, so it can read and write your files, "
    "use the network and start programs",
}
_ISOLATION: Final = (
    "process: in a child process with an empty environment, together with sandboxed neighbours "
    "(--isolation separate|inline: alone, or in the conductor itself)"
)
_BYTES: Final = frozenset({"memory_bytes", "stack_bytes", "message_bytes", "outbox_bytes"})


def lines(facts: Facts) -> Iterator[str]:
    """The facts, one or more lines each."""
    version = f" {facts.version}" if facts.version else ""
    yield f"{one_line(facts.name)}{version}: {facts.kind}, {facts.role}"
    if facts.description:
        yield one_line(facts.description)
    yield ""
    yield from _field("can do", _power(facts))
    if facts.command is not None:
        yield from _field("command", " ".join(map(one_line, facts.command)))
    if facts.file is not None:
        yield from _field("file", one_line(facts.file, 1000))
    if facts.size is not None:
        yield from _field("size", f"{facts.size} bytes")
    if facts.sha256 is not None:
        yield from _field("sha256", facts.sha256, *_verified(facts))
    if facts.carrier is not None:
        yield from _field("carrier", _CARRIERS[facts.carrier])
        yield from _imports(facts)
        yield from _field("exports", *map(one_line, facts.exports or ["none"]))
    if facts.dialect != "none":
        yield from _field("dialect", facts.dialect)
    if facts.services:
        yield from _field("services", *map(one_line, _services(facts)))
    if facts.config:
        yield from _field("config", *(f"{k} = {one_line(v)}" for k, v in facts.config.items()))
    if facts.limits is not None:
        yield from _field("limits", *_limits(facts.limits))
    if facts.isolation != "none":
        yield from _field("isolation", _ISOLATION)


def _field(label: str, *values: str) -> Iterator[str]:
    for at, value in enumerate(values):
        yield f"  {'' if at else label:<{_WIDTH}}{value}"


def _power(facts: Facts) -> str:
    if not facts.sandboxed:
        return _POWERS["subprocess"]
    if facts.carrier is None:
        return "nothing: this is no WebAssembly module"
    if facts.forbidden:
        return _POWERS["forbidden"]
    return _POWERS["wasi" if facts.wasi else "none"]


def _verified(facts: Facts) -> Iterator[str]:
    if facts.recorded_sha256 is None:
        return
    if facts.recorded_sha256 == facts.sha256:
        yield "as its manifest records"
    else:
        yield f"NOT as its manifest records: {one_line(facts.recorded_sha256)}"


def _imports(facts: Facts) -> Iterator[str]:
    if not facts.imports:
        yield from _field("imports", "none")
    if facts.wasi:
        yield from _field("imports", *(f"{one_line(name)}: stub" for name in facts.wasi))
    if facts.forbidden:
        yield from _field("forbidden", *map(one_line, facts.forbidden))


def _services(facts: Facts) -> Iterator[str]:
    for service in facts.services:
        granted = "granted" if service.granted else "not granted"
        reason = f", wanted {service.reason}" if service.reason else ""
        yield f"{service.name}: {granted}{reason}"


def _limits(limits: dict[str, int | None]) -> Iterator[str]:
    for name, value in limits.items():
        if value is not None:
            yield f"{name} = {_sized(value) if name in _BYTES else value}"


def _sized(number: int) -> str:
    for unit, factor in (("MiB", 1024**2), ("KiB", 1024)):
        if number % factor == 0:
            return f"{number // factor} {unit}"
    return str(number)
