"""The start of the child that hosts guests: it loads modules, then gives up its rights.

Everything that needs a file, a program or memory for compilation happens before `harden.seal`; the
first instruction of a guest runs after it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn

import wasm_host
from conductor.core import Closure, json_text, parts
from conductor.run.guest_module import load, memory, optimised_later
from conductor.run.report_lines import failed_line, ready_line
from conductor.run.segment import Segment
from conductor.run.segment_loop import EXIT_GUEST_FAILED, ParentOutput, serve
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from conductor.transports.buffers import CHUNK, library_code
from conductor.transports.guest import explain
from wasm_host.engine import engine_for

if TYPE_CHECKING:
    from conductor.code_cache import CodeCache
    from wasm_host import harden

LOADED_EARLY: Final = (
    *("wasm_host.binary", "wasm_host.carriers.core", "wasm_host.calls.capi"),
    *("_datetime", "_json", "binascii", "unicodedata"),
)
"""Modules that most guests need, and modules that others load at their first use: a host that is
locked up cannot load them. Imported while the parent is still planning the chain."""

_PYTHONS: Final = ("base64", "datetime", "json")
"""Modules of Python's own. The compiled modules that these and others use are loaded early."""

LOADED_LATE: Final = (
    *parts.modules(client=False),
    *("conductor.core.guards.check", "conductor.core.guards.mcp_words"),
    *_PYTHONS,
)
"""Modules that no first message needs. A host that is locked up has their code open."""


def _read_spec() -> tuple[SegmentSpec, bytes]:
    """The first line of the input, and the bytes read with it: messages may follow at once."""
    data = b""
    while b"\n" not in data:
        more = os.read(0, CHUNK)
        if not more:
            raise SystemExit(0)
        data += more
    line, _, begun = data.partition(b"\n")
    return json_text.decode(line, type=SegmentSpec), begun


def main(cache: CodeCache) -> NoReturn:
    """Entry point of the child process.

    Args:
        cache: Has the code of the child's modules.
    """
    for module in LOADED_EARLY:
        importlib.import_module(module)
    # Loads wasmtime's library, and makes the engine of all guests with the default limits.
    with contextlib.suppress(wasm_host.LoadError):  # the first guest reports the error
        engine_for(wasm_host.Limits())
    cache.hold(("conductor.core", *_PYTHONS), LOADED_LATE)
    cache.keep()
    library_code()  # most are loaded by now, and the parent still plans
    code = _run(*_read_spec(), cache)
    sys.stderr.flush()
    os._exit(code)  # nothing is left to be torn down, and an editor is waiting


def _run(spec: SegmentSpec, begun: bytes, cache: CodeCache) -> int:
    """Loads the guests, gives up the rights of the start, and serves; the exit code."""
    from wasm_host import harden
    from wasm_host.ticker import TICKER

    modules: dict[str, wasm_host.Module] = {}
    for guest in spec.guests:
        try:
            modules[guest.name] = load(guest, spec.cache, baseline=not spec.loading_only)
        except wasm_host.GuestError as error:
            return _cannot_start(guest, error)
    if spec.loading_only:
        return 0
    optimised_later(modules.values(), spec.cache)
    _load_further(spec)
    # Files have been used for the last time, and no guest has run yet.
    for module in modules.values():
        module.warm()
    harden.seal(memory=memory(modules.values()))
    sys.meta_path.insert(0, cache)
    if spec.require_hardening and (missing := harden.missing()):
        return _not_hardened(missing)
    output = ParentOutput()
    try:
        segment = Segment(spec, modules, output)
    except wasm_host.GuestError as error:
        failed = next(guest for guest in spec.guests if str(error).startswith(f"{guest.name} "))
        return _cannot_start(failed, error)
    if all(module.carrier != "wasi" for module in modules.values()):
        # No further thread starts, so the kernel may forbid more. WASI programs are
        # excepted: each instance has a thread.
        TICKER.wake()
        harden.settle()
    # Of a Python proxy its source counts: the module is the same for all.
    digests = {name: module.source_digest or module.digest for name, module in modules.items()}
    os.write(1, ready_line(digests))
    os.set_blocking(1, False)
    # Objects of now live as long as the process; to collect them again and again costs latency.
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()
    return serve(segment, output, spec.line_limit, begun)


def _load_further(spec: SegmentSpec) -> None:
    """Loads what nothing can load any more, once it is asked for."""
    refers = any(guest.limits.get("text_bytes") is not None for guest in spec.guests)
    if refers:
        importlib.import_module("conductor.core.payloads")
    if spec.auditing or refers:
        importlib.import_module("hashlib")
    if spec.recording:
        importlib.import_module("conductor.run.host_record")


def _not_hardened(missing: Sequence[harden.Layer]) -> int:
    layers = ", ".join(f"{layer.name} ({layer.detail})" for layer in missing)
    reason = Closure(
        f"the host of sandboxed proxies cannot be hardened as required: {layers}",
        "`conductor doctor` shows the abilities of this machine; or leave out `require-hardening`",
    )
    os.write(1, failed_line(reason))
    return EXIT_GUEST_FAILED


def _cannot_start(spec: GuestSpec, error: wasm_host.GuestError) -> int:
    text, hint = explain(spec.name, error)
    data = {"component": spec.name, "phase": error.phase, "limit": error.limit}
    if spec.script and error.detail:  # the author's own traceback
        words = "\n  ".join(["its own words:", *error.detail.splitlines()])
        sys.stderr.write(f"error: {spec.name}: {words}\n")
    os.write(1, failed_line(Closure(f"{spec.label or spec.name} {text}", hint, data)))
    return EXIT_GUEST_FAILED
