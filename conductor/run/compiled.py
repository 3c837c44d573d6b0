"""Modules compiled before they are needed: an installed component then starts at once.

A module is compiled where a host would do it, in a child without environment that loads it and runs
nothing of it. So this process, which has the user's rights, reads no bytes that a stranger wrote.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import wasm_host
from conductor.core import json_text
from conductor.errors import ComponentError
from conductor.run import spawn
from conductor.run.report_checks import refusal
from conductor.run.segment_spec import SegmentSpec, guest_spec
from conductor.spec import digests, limits, paths
from conductor.spec.model import Spec

_PATIENCE: Final = 60.0
"""Seconds a compile may take by the clock beyond its limit: the child bounds it by itself."""
_MOST_SAID: Final = 1024 * 1024


def uncompiled(spec: Spec, cache: str = "") -> bool:
    """Whether the first start of a component has to compile its module.

    False for a component without a sandbox, and for a module that cannot be read.
    """
    if not spec.sandboxed or spec.wasm is None:
        return False
    from wasm_host.cache.store import Cache
    from wasm_host.engine import engine_identity

    try:
        digest = spec.sha256 or digests.of(spec.wasm)
    except OSError:
        return False
    bounds = wasm_host.Limits(**limits.of(limits.GUEST, spec.limits))
    return not Cache(Path(cache or paths.compiled_modules()), engine_identity(bounds)).holds(digest)


def compile_ahead(
    specs: Iterable[Spec],
    cache: str = "",
    *,
    begun: Callable[[Spec], None] = lambda spec: None,
) -> None:
    """Compiles the modules of these components, unless they are compiled; one after the other.

    Modules that several components share are compiled once. A conductor that starts such a
    component meanwhile waits for its module.

    Args:
        specs: components; those without a sandbox are left out.
        cache: the folder of compiled modules; empty: the user's.
        begun: called with each component whose module is about to be compiled.

    Raises:
        ComponentError: a module cannot be loaded; those before it are compiled.
    """
    for spec in specs:
        if uncompiled(spec, cache):
            begun(spec)
            _compile(spec, cache or paths.compiled_modules())


def _compile(spec: Spec, cache: str) -> None:
    guest = guest_spec(spec, b"null")
    first_line = SegmentSpec([guest], cache=cache, loading_only=True)
    bounds = wasm_host.Limits(**limits.of(limits.GUEST, spec.limits))
    from wasm_host.cache.compile_process import seconds

    until = time.monotonic() + 2 * seconds(bounds) + _PATIENCE
    # In a session of its own: keys typed at the terminal are for us, and we end the child.
    process = subprocess.Popen(
        spawn.child_command(),
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(
            json_text.encode(first_line) + b"\n", timeout=until - time.monotonic()
        )
    except subprocess.TimeoutExpired:
        raise ComponentError(
            f"{spec.label('proxy')}: its module is not compiled after a long time",
            "another conductor may be compiling it on a busy machine; try again",
        ) from None
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise _failure(spec, output[:_MOST_SAID], process.returncode)


def _failure(spec: Spec, output: bytes, code: int) -> ComponentError:
    """Why a child could not load a module."""
    with contextlib.suppress(ValueError):
        if (words := refusal(output.partition(b"\n")[0])) is not None:
            return ComponentError(words.text, words.hint, words.data)
    return ComponentError(
        f"{spec.label('proxy')}: the process that compiles its module ended with code {code}",
        "see that there is room for temporary files and processes, and try again",
    )
