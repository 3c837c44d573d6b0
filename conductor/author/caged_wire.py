"""What passes between a cage and whoever opened it: a head of fixed size, and bytes."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from conductor.run.segment_spec import GuestSpec
from conductor.spec.python_guest.facts import Declared
from wasm_host.info import ModuleInfo

ASK: Final = struct.Struct("<BIQ")
"""What is asked (one of the next four), of which instance, and how many bytes follow."""

MAKE, START, DELIVER, CLOSE = range(4)

ANSWER: Final = struct.Struct("<BQ")
"""How it went (one of the next three), and how many bytes follow: what was said, or a `Failure`."""

ALIVE, ENDED, FAILED = range(3)


class Opening(msgspec.Struct, frozen=True):
    """The first line a cage reads."""

    guest: GuestSpec
    cache: str | None


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A `wasm_host.GuestError`, or `LimitRefused` where the guest has seen nothing."""

    phase: str
    text: str
    limit: str | None = None
    detail: str = ""
    hint: str = ""
    outbox: bytes = b""
    refused: bool = False


# -- what is only read ---------------------------------------------------------------------------

MODULE: Final = "module"
SOURCE: Final = "source"


class Question(msgspec.Struct, frozen=True):
    """The line before the bytes that are to be read. `label`: what they are called in messages."""

    what: str
    label: str


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """What they are: one of the first two; or why they are not that."""

    module: ModuleInfo | None = None
    source: Declared | None = None
    error: str = ""
    hint: str = ""
