"""What the cage (`harden`) amounts to on this machine, found by locking up a throwaway process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

import wasm_host
from wasm_host.harden import ESSENTIAL, Layer

SECONDS: Final = 20.0

_CODE: Final = """
import sys
sys.path[:0] = {paths!r}
from wasm_host import harden
harden.early()
import os, msgspec
encode = msgspec.json.encode
encode([harden.Layer("", True, "")])
harden.seal()
harden.settle()
os.write(1, encode(harden.report()))
os._exit(0)
"""
"""Applies everything, then reports from inside. The encoder is made before files are gone."""


def probe() -> tuple[Layer, ...]:
    """Every layer, as a sealed process on this machine reports it; the caller is left alone.

    If the process dies or hangs, each essential layer is reported as not in force, with the cause.
    """
    folders = {
        str(Path(file).parents[1])
        for file in (wasm_host.__file__, msgspec.__file__)
        if file is not None
    }
    command = [sys.executable, "-I", "-S", "-c", _CODE.format(paths=sorted(folders))]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env={}, timeout=SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return _none(f"cannot be tried out: {error}")
    try:
        return tuple(msgspec.json.decode(done.stdout, type=list[Layer]))
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or "no reason given"
        return _none(f"a process that tried it ended with code {done.returncode}: {said}")


def _none(why: str) -> tuple[Layer, ...]:
    return tuple(Layer(name, False, why) for name in ESSENTIAL)
