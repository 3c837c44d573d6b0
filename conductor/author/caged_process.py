"""The child: loads one module, locks itself up, and does with instances of it what it is asked.

Like the child of a chain (`conductor.run.segment_start`) it starts with an empty environment and
opens nothing once the module is loaded. It ends when its input does.
"""

from __future__ import annotations

import gc
import os
from typing import Final, NoReturn

import msgspec

import wasm_host
from conductor.author.caged_wire import (
    ALIVE,
    ANSWER,
    ASK,
    CLOSE,
    DELIVER,
    ENDED,
    FAILED,
    MAKE,
    Failure,
    Opening,
)
from conductor.run.guest_module import load, memory

_CHUNK: Final = 1024 * 1024


class _Over(Exception):  # noqa: N818 - nothing is wrong
    """There is no more input."""


def main() -> NoReturn:
    """Entry point of the child process."""
    try:
        _run()
    except (_Over, BrokenPipeError):
        os._exit(0)  # whoever asked is gone


def _run() -> NoReturn:
    from wasm_host import harden
    from wasm_host.cache.warm import warm

    opening = msgspec.json.decode(_line(), type=Opening)
    try:
        module = load(opening.guest, opening.cache)
    except wasm_host.GuestError as error:
        _answer(FAILED, _failure(error))
        raise _Over from None
    # Files have been used for the last time, and no guest has run yet.
    warm([module])
    harden.seal(memory=memory([module]))
    _answer(ALIVE, module.carrier.encode())
    gc.freeze()
    gc.enable()
    guests: dict[int, wasm_host.Guest] = {}
    while True:
        what, number, size = ASK.unpack(_exactly(ASK.size))
        given = _exactly(size)
        try:
            if what == MAKE:
                guests[number] = module.instantiate(given.decode())
                said = b""
            else:
                said = _asked(guests, what, number, given)
        except wasm_host.GuestError as error:
            _answer(FAILED, _failure(error))
        except Exception as error:  # whatever a guest brings about in its host ends that guest only
            lost = guests.pop(number, None)
            _answer(FAILED, _failure(_of_host(error, lost.name if lost else opening.guest.name)))
        else:
            one = guests.get(number)
            _answer(ENDED if one is None or one.dead else ALIVE, said)


def _asked(guests: dict[int, wasm_host.Guest], what: int, number: int, given: bytes) -> bytes:
    if what == CLOSE:
        one = guests.pop(number, None)
        if one is not None:
            one.close()
        return b""
    guest = guests[number]
    return guest.deliver(given) if what == DELIVER else guest.start(given)


def _of_host(error: Exception, name: str) -> wasm_host.GuestError:
    return wasm_host.GuestError(
        "deliver",
        f"{name} made its host fail: {error!r}",
        hint="a guest within its limits should not be able to: please report this",
    )


def _failure(error: wasm_host.GuestError) -> bytes:
    return msgspec.json.encode(
        Failure(
            error.phase,
            str(error),
            error.limit,
            error.detail,
            error.hint,
            error.outbox,
            isinstance(error, wasm_host.LimitRefused),
        )
    )


# -- input and output ----------------------------------------------------------------------------


def _line() -> bytes:
    """The first line, read without taking a byte beyond it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        line += _exactly(1)
    return bytes(line)


def _exactly(size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        some = os.read(0, min(size - len(found), _CHUNK))
        if not some:
            raise _Over
        found += some
    return bytes(found)


def _answer(how: int, said: bytes) -> None:
    for part in (ANSWER.pack(how, len(said)), said):
        left = memoryview(part)
        while left:
            left = left[os.write(1, left) :]
