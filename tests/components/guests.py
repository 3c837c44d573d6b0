"""The bundled guests, and the lines to and from `datetime`, for the tests beside."""

import json

import wasm_host
from tests.places import COMPONENTS


def load(name: str, **limits: int) -> wasm_host.Module:
    """The committed module of a bundled guest."""
    path = COMPONENTS / name / f"{name}.wasm"
    return wasm_host.load(path, limits=wasm_host.Limits(**limits))


def clock_answer(ask: int, time: str = "12:34:56") -> bytes:
    """The conductor's answer to clock request number ``ask``."""
    result = {"date": "2025-10-08", "time": time, "weekday": "Wednesday", "timezone": "UTC"}
    return b"c" + json.dumps({"jsonrpc": "2.0", "id": ask, "result": result}).encode() + b"\n"


def clock_request(ask: int) -> bytes:
    """The ``ask``-th clock request of `datetime`."""
    return b'c{"jsonrpc":"2.0","id":%d,"method":"clock"}\n' % ask


def block(time: str = "12:34:56") -> bytes:
    """The block that `datetime` puts into a prompt at that time."""
    text = f'<current-date date="2025-10-08" time="{time}"/>'
    return json.dumps({"type": "text", "text": text}, separators=(",", ":")).encode()


def prompt_line(number: int) -> bytes:
    """A prompt without blocks, that takes one."""
    return b'{"id":%d,"method":"session/prompt","params":{"prompt":[]}}' % number
