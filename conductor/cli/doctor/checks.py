"""`conductor doctor`: what this machine and this installation offer, and what is missing.

Every check looks at the real thing: the cage is tried out in a throwaway process, the modules are
hashed, the cache folder is examined. Nothing is repaired.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conductor.cli.doctor import guest
from conductor.cli.doctor.finding import Check
from conductor.spec import catalog, paths
from wasm_host.cache import pruning
from wasm_host.harden import ESSENTIAL, Layer
from wasm_host.harden.probe import probe

PYTHON: Final = (3, 11)
"""The oldest Python that will do."""


def checks(cache: str | None = None) -> list[Check]:
    """All findings, in the order they are shown.

    `cache`: the folder of compiled modules to examine; None: the user's.
    """
    found = [_python(), _wasmtime(), _fast_calls(), _uvloop(), _cache(cache), _guardian(), _node()]
    return [*found, guest.check(cache), *_modules(), *_hardening(probe())]


def failed(found: Sequence[Check]) -> list[Check]:
    """Those that are needed and missing."""
    return [check for check in found if check.needed and not check.ok]


def lines(found: Sequence[Check]) -> list[str]:
    """The findings as a person reads them, hints below what they are for."""
    width = max(len(check.name) for check in found)
    told = []
    for check in found:
        mark = "ok" if check.ok else "MISSING" if check.needed else "-"
        told.append(f"{mark:<7}  {check.name:<{width}}  {check.detail}")
        if check.hint and not check.ok:
            told.append(f"{'':<9}{'':<{width}}  hint: {check.hint}")
    bad = failed(found)
    if bad:
        told += ["", f"{len(bad)} of {len(found)} checks failed"]
    else:
        told += ["", "everything needed is there"]
    return told


def as_json(found: Sequence[Check]) -> dict[str, Any]:
    """The findings for machines: an object with `ok` and `checks`."""
    return {"ok": not failed(found), "checks": found}


def exit_code(found: Sequence[Check]) -> int:
    """0 if everything needed is there, else 1."""
    return 1 if failed(found) else 0


def _python() -> Check:
    wanted = ".".join(map(str, PYTHON))
    return Check(
        "python",
        sys.version_info >= PYTHON,
        f"{platform.python_version()} ({platform.python_implementation()}, {platform.machine()})",
        f"install Python {wanted} or newer",
    )


def _wasmtime() -> Check:
    hint = "install it with `pip install --force-reinstall conductor-acp`"
    try:
        import wasmtime

        from wasm_host.engine import wasmtime_version

        # Loads the native library and makes machine code, which is what can go wrong.
        wasmtime.Module(wasmtime.Engine(), "(module)")
        return Check("wasmtime", True, wasmtime_version())
    except (ImportError, OSError, RuntimeError) as error:
        return Check("wasmtime", False, f"does not work: {error}", hint)


def _fast_calls() -> Check:
    hint = "install the wasmtime version that conductor asks for; without it deliveries are slower"
    try:
        from wasm_host.calls.capi import missing_symbols

        missing = missing_symbols()
    except (ImportError, OSError, RuntimeError) as error:
        return Check("fast guest calls", False, f"unknown: {error}", hint, needed=False)
    detail = f"not there: {', '.join(missing)}" if missing else "available"
    return Check("fast guest calls", not missing, detail, hint, needed=False)


def _uvloop() -> Check:
    import importlib.metadata

    hint = "install it with `pip install uvloop`; asyncio's own loop is used meanwhile"
    try:
        importlib.import_module("uvloop")

        detail, ok = importlib.metadata.version("uvloop"), True
    except ImportError as error:
        detail, ok = f"not there: {error}", False
    return Check("uvloop", ok, detail, hint, needed=False)


def _cache(folder: str | None) -> Check:
    """The folder of compiled modules, or the nearest one above it that exists."""
    path = Path(folder or paths.compiled_modules())
    name = "compile cache"
    try:
        found = path.lstat()
    except FileNotFoundError:
        above = next(parent for parent in path.absolute().parents if parent.exists())
        writable = os.access(above, os.W_OK | os.X_OK)
        detail = f"{path}: made when first used" if writable else f"{path}: cannot be made"
        return Check(name, writable, detail, f"make {above} writable, or choose another: --cache")
    except OSError as error:
        return Check(name, False, f"{path}: {error.strerror}", "choose another folder: --cache")
    problem = _unfit(found)
    if problem:
        hint = f"chmod 700 {path}, or choose another folder: --cache; modules are compiled anew"
        return Check(name, False, f"{path} {problem}", hint)
    sizes = [entry.size for entry in pruning.entries(path)]
    return Check(name, True, f"{path}: {len(sizes)} modules, {sum(sizes) / 1e6:.1f} MB")


def _unfit(found: os.stat_result) -> str:
    """Why a folder may not hold compiled modules (docs/architecture.md, "wasm_host"), or ''."""
    if not stat.S_ISDIR(found.st_mode):
        return "is not a folder"
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    mode = stat.S_IMODE(found.st_mode)
    return "" if mode == 0o700 or os.name == "nt" else f"has mode {mode:04o} instead of 0700"


def _guardian() -> Check:
    shell = "/bin/sh"
    ok = os.access(shell, os.X_OK)
    return Check(
        "guardian shell",
        ok,
        shell if ok else f"{shell} cannot be run",
        "without it, processes of a killed conductor may be left behind: install a POSIX shell",
    )


def _node() -> Check:
    path = shutil.which("node")
    hint = "install Node.js for agents that come from npm, e.g. claude-code-acp"
    return Check("node", path is not None, path or "not on PATH", hint, needed=False)


def _modules() -> Iterator[Check]:
    """The bundled modules against the digests in their manifests."""
    for name in catalog.bundled():
        found = catalog.bundled_manifest(name)
        if found is None or found.file is None or not found.sha256:
            continue
        path = paths.components_folder() / name / found.file
        hint = "install conductor again: this is not the module it was released with"
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            yield Check(f"module {name}", False, f"{error.strerror}: {path}", hint)
            continue
        ok = digest == found.sha256
        detail = f"sha256 {digest[:16]}…" if ok else f"sha256 {digest}, expected {found.sha256}"
        yield Check(f"module {name}", ok, detail, hint)


_CURES: Final[dict[str, str]] = {
    "landlock-files": "use Linux 5.13 or newer with landlock in the boot parameter lsm=",
    "landlock-network": "use Linux 6.7 or newer; system-calls refuses it meanwhile",
    "landlock-scope": "use Linux 6.12 or newer; system-calls refuses it meanwhile",
    "cgroup": "start the editor in a session of systemd's, with memory and pids delegated; without "
    "it the other limits hold",
    "system-calls": "use Linux on x86_64 or aarch64 with seccomp filters",
}


def _hardening(layers: Sequence[Layer]) -> Iterator[Check]:
    """What keeps the host of sandboxed proxies in, as tried out in a process of its own."""
    general = "guests run without this fence; --require-hardening refuses to start"
    for layer in layers:
        hint = _CURES.get(layer.name, general)
        # Elsewhere most layers do not exist, which nobody there can repair.
        needed = layer.name in ESSENTIAL and sys.platform == "linux"
        yield Check(f"cage: {layer.name}", layer.in_force, layer.detail, hint, needed)
