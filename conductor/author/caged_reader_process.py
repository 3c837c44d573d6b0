"""The child that reads what a stranger has made: locked up, and bounded in time and memory.

It is asked one thing, the bytes come with the question, and it opens nothing. `judge` is the other
side.
"""

from __future__ import annotations

import os
import warnings
from typing import Final, NoReturn

import msgspec

from conductor.author.caged_wire import MODULE, SOURCE, Question, Verdict
from conductor.spec.python_guest.facts import declared
from conductor.spec.python_guest.scripts import Script
from wasm_host.cache.digest import LARGE, sha256
from wasm_host.errors import LoadError
from wasm_host.info import info_of
from wasm_host.limits import Limits

MEMORY: Final = 1024**3
"""Bytes it may use."""

CPU_SECONDS: Final = 5
"""Seconds of processor time it may use."""

_EMPTY: Final = b"\0asm\1\0\0\0"
_CHUNK: Final = 1024 * 1024


def main() -> NoReturn:
    """Entry point of the child process."""
    from wasm_host import harden

    _warm()
    _limit()
    warnings.simplefilter("ignore")  # about the source of somebody else
    harden.seal(memory=MEMORY)
    line, _, body = _all().partition(b"\n")
    question = msgspec.json.decode(line, type=Question)
    os.set_blocking(1, True)
    said = memoryview(msgspec.json.encode(_judged(question, body)))
    while said:
        said = said[os.write(1, said) :]
    os._exit(0)


def _warm() -> None:
    """Loads what is loaded when it is first used: afterwards files are out of reach."""
    for module in (_EMPTY, b""):
        _judged(Question(MODULE, "empty"), module)
    sha256(bytes(LARGE))
    source = Script(
        {"p.py": "proxy = Proxy(config=C)\nclass C:\n    a: int = 1\n"}, "p.py", folder=False
    )
    _judged(Question(SOURCE, "empty"), msgspec.json.encode(source))


def _limit() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def _judged(question: Question, body: bytes) -> Verdict:
    try:
        if question.what == MODULE:
            return Verdict(module=info_of(body, question.label, Limits()))
        assert question.what == SOURCE
        return Verdict(source=declared(msgspec.json.decode(body, type=Script)))
    except LoadError as error:
        return Verdict(error=str(error), hint=error.hint)
    except (MemoryError, RecursionError):
        return Verdict(error=f"{question.label} needs too much memory to be read")


def _all() -> bytes:
    parts = []
    while some := os.read(0, _CHUNK):
        parts.append(some)
    return b"".join(parts)
