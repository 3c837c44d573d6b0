"""The child that holds a stranger's work: guests to try out, or one file to read.

It starts with an empty environment, like the child of a chain (`conductor.run.segment_start`),
locks itself up and then takes requests. It ends when its input does. `conductor.author.caged` is
the parent's side; the messages between the two sides stand here.
"""

from __future__ import annotations

import gc
import os
import struct
import warnings
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from conductor.run.segment_spec import GuestSpec

if TYPE_CHECKING:  # a child imports only what its work takes: the engine, or the readers
    import wasm_host
    from conductor.code_cache import CodeCache

REQUEST: Final = struct.Struct("<BIQ")
"""The kind of a request (one of the next six), its instance, and how many bytes follow."""

MAKE, START, DELIVER, CLOSE, READ_MODULE, READ_SOURCE = range(6)

ANSWER: Final = struct.Struct("<BQ")
"""One of the next three, and how many bytes follow: lines, the facts read, or a `Failure`."""

ALIVE, ENDED, FAILED = range(3)


class Opening(msgspec.Struct, frozen=True):
    """The first line the child reads; without a guest it reads one file instead of hosting."""

    guest: GuestSpec | None = None
    cache: str | None = None
    """The folder of compiled modules."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `wasm_host.GuestError`, or `LimitRefused` if the guest did not see the lines."""

    phase: str
    text: str
    limit: str | None = None
    detail: str = ""
    hint: str = ""
    outbox: bytes = b""
    refused: bool = False


READER_MEMORY: Final = 1024**3
"""Bytes that a child may use to read a file."""

READER_SECONDS: Final = 5
"""Seconds of processor time that it may use."""

_CHUNK: Final = 1024 * 1024
_EMPTY_MODULE: Final = b"\0asm\1\0\0\0"
_SOURCE: Final = "proxy = Proxy(config=C)\nclass C:\n    a: int = 1\n"


def main(cache: CodeCache) -> NoReturn:
    """Entry point of the child process.

    Args:
        cache: Has the code of the child's modules.
    """
    cache.close()
    try:
        opening = msgspec.json.decode(_line(), type=Opening)
        if opening.guest is None:
            _read_file(READER_MEMORY)
        _host(opening.guest, opening.cache)
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent is gone, so there is nobody to report to


# -- guests ----------------------------------------------------------------------------------------


def _host(spec: GuestSpec, cache: str | None) -> NoReturn:
    import wasm_host
    from conductor.run.guest_module import load, memory
    from wasm_host import harden

    try:
        module = load(spec, cache)
    except wasm_host.GuestError as error:
        _answer(FAILED, _failure(error))
        raise EOFError from None
    # After this line no file can be opened, and before it no code of the guest has run.
    module.warm()
    harden.seal(memory=memory([module]))
    _answer(ALIVE, module.carrier.encode())
    gc.freeze()
    gc.enable()
    guests: dict[int, wasm_host.Guest] = {}
    while True:
        kind, number, body = _request()
        try:
            lines = _perform(module, guests, kind, number, body)
        except wasm_host.GuestError as error:
            _answer(FAILED, _failure(error))
        except Exception as error:  # a guest that makes its host fail ends alone
            lost = guests.pop(number, None)
            _answer(FAILED, _failure(_host_failure(error, lost.name if lost else spec.name)))
        else:
            guest = guests.get(number)
            _answer(ENDED if guest is None or guest.dead else ALIVE, lines)


def _perform(
    module: wasm_host.Module,
    guests: dict[int, wasm_host.Guest],
    kind: int,
    number: int,
    body: bytes,
) -> bytes:
    """Performs a request on an instance; the lines the guest returned."""
    if kind == MAKE:
        guests[number] = module.instantiate(body.decode())
        return b""
    if kind == CLOSE:
        guest = guests.pop(number, None)
        if guest is not None:
            guest.close()
        return b""
    guest = guests[number]
    return guest.deliver(body) if kind == DELIVER else guest.start(body)


def _host_failure(error: Exception, name: str) -> wasm_host.GuestError:
    from wasm_host import GuestError

    return GuestError(
        "deliver",
        f"{name} made its host fail: {error!r}",
        hint="a guest within its limits should not be able to: please report this",
    )


def _failure(error: wasm_host.GuestError) -> bytes:
    from wasm_host import LimitRefused

    refused = isinstance(error, LimitRefused)
    return msgspec.json.encode(
        Failure(
            error.phase, str(error), error.limit, error.detail, error.hint, error.outbox, refused
        )
    )


# -- one file --------------------------------------------------------------------------------------


def _read_file(memory: int) -> NoReturn:
    """Answers one request: this process bears the cost of reading the file."""
    import resource

    from wasm_host import harden
    from wasm_host.cache.digest import LARGE, sha256

    # Sealed, the process cannot open files any more: load the modules of a first use now.
    for kind, body in ((READ_MODULE, _EMPTY_MODULE), (READ_MODULE, b""), (READ_SOURCE, _script())):
        _read(kind, "empty", body)
    sha256(bytes(LARGE))
    resource.setrlimit(resource.RLIMIT_CPU, (READER_SECONDS, READER_SECONDS))
    warnings.simplefilter("ignore")  # warnings about a stranger's source help nobody here
    harden.seal(memory=memory)
    kind, _, body = _request()
    label, _, content = body.partition(b"\n")
    _answer(*_read(kind, msgspec.json.decode(label, type=str), content))
    os._exit(0)


def _script() -> bytes:
    from conductor.spec.python_guest.scripts import Script

    return msgspec.json.encode(Script({"p.py": _SOURCE}, "p.py", folder=False))


def _read(kind: int, label: str, content: bytes) -> tuple[int, bytes]:
    """The answer: facts of a module or a script, as JSON, or why there are none."""
    from conductor.spec.python_guest.facts import declared
    from conductor.spec.python_guest.scripts import Script
    from wasm_host.errors import LoadError
    from wasm_host.info import info_of
    from wasm_host.limits import Limits

    try:
        if kind == READ_MODULE:
            return ALIVE, msgspec.json.encode(info_of(content, label, Limits()))
        return ALIVE, msgspec.json.encode(declared(msgspec.json.decode(content, type=Script)))
    except LoadError as error:
        return FAILED, msgspec.json.encode(Failure("load", str(error), hint=error.hint))
    except (MemoryError, RecursionError):
        text = f"{label} needs too much memory to be read"
        return FAILED, msgspec.json.encode(Failure("load", text))


# -- input and output ------------------------------------------------------------------------------


def _line() -> bytes:
    """The first line, read byte by byte: a request follows it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += _exactly(1)
    return bytes(line)


def _request() -> tuple[int, int, bytes]:
    """The kind of the next request, the number of the instance, and the body."""
    kind, number, size = REQUEST.unpack(_exactly(REQUEST.size))
    return kind, number, _exactly(size)


def _exactly(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, min(size - len(data), _CHUNK))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)


def _answer(status: int, body: bytes) -> None:
    for part in (ANSWER.pack(status, len(body)), body):
        left = memoryview(part)
        while left:
            left = left[os.write(1, left) :]
