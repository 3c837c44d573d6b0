"""How the child that hosts guests starts: what is loaded, told, and given up, in this order."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Final, NoReturn

import msgspec

import wasm_host
from conductor.core import Closure
from conductor.run.guest_module import load, memory
from conductor.run.reports.lines import failed_line, ready_line
from conductor.run.segment import EXIT_GUEST_FAILED, Segment
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from conductor.transports.guest import explain

_LOADED_EARLY: Final = ("wasm_host.carriers.core", "wasm_host.calls.capi", "wasm_host.cache.warm")
"""What most guests need, loaded while the parent still finds out what is to be run."""


def _read_spec() -> SegmentSpec:
    """The first line of the input, read without taking a byte beyond it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise SystemExit(0)
        line += byte
    return msgspec.json.decode(bytes(line), type=SegmentSpec)


def main() -> NoReturn:
    """Entry point of the child process."""
    for module in _LOADED_EARLY:
        importlib.import_module(module)
    code = _run(_read_spec())
    sys.stderr.flush()
    os._exit(code)  # nothing is left to be torn down, and an editor is waiting


def _run(spec: SegmentSpec) -> int:
    from wasm_host import harden
    from wasm_host.cache.warm import warm
    from wasm_host.ticker import TICKER

    modules: dict[str, wasm_host.Module] = {}
    for one in spec.guests:
        try:
            modules[one.name] = load(one, spec.cache)
        except wasm_host.GuestError as error:
            return _cannot_start(one, error)
    if spec.auditing:
        importlib.import_module("conductor.run.reports.changes")
    if spec.recording:
        importlib.import_module("conductor.run.reports.deliveries")
    # Files have been used for the last time, and no guest has run yet.
    warm(modules.values())
    harden.seal(memory=memory(modules.values()))
    missing = harden.missing() if spec.require_hardening else []
    if missing:
        what = ", ".join(f"{layer.name} ({layer.detail})" for layer in missing)
        reason = Closure(
            f"the host of sandboxed proxies cannot be hardened as required: {what}",
            "`conductor doctor` shows what this machine has; leave out --require-hardening",
        )
        os.write(1, failed_line(reason))
        return EXIT_GUEST_FAILED
    try:
        segment = Segment(spec, modules)
    except wasm_host.GuestError as error:
        failed = next(one for one in spec.guests if str(error).startswith(f"{one.name} "))
        return _cannot_start(failed, error)
    if all(module.carrier != "wasi" for module in modules.values()):
        # The last thread there will be; a program needs one for each instance.
        TICKER.wake()
        harden.settle()
    os.write(1, ready_line({name: module.digest for name, module in modules.items()}))
    os.set_blocking(1, False)
    # What exists now lives as long as the process; collecting it again and again costs latency.
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()
    return segment.run()


def _cannot_start(spec: GuestSpec, error: wasm_host.GuestError) -> int:
    text, hint = explain(spec.name, error)
    data = {"component": spec.name, "phase": error.phase, "limit": error.limit}
    if spec.script and error.detail:  # the author's own traceback
        told = "\n  ".join(["its own words:", *error.detail.splitlines()])
        sys.stderr.write(f"error: {spec.name}: {told}\n")
    os.write(1, failed_line(Closure(f"{spec.label or spec.name} {text}", hint, data)))
    return EXIT_GUEST_FAILED
