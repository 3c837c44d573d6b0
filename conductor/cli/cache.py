"""`conductor cache`: what conductor keeps on this machine to save work, and how much of it.

Conductor makes all of it again when it needs it; what it cannot is in `conductor data`. It prunes
compiled modules whenever it adds one (`wasm_host.cache.store`), and Python guests whenever it
builds one (`guest_sdk/python/build.py`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from conductor.cli import report
from conductor.cli.typer_options import Json, takes
from conductor.errors import counted
from conductor.fleet.bundle_cache import BundleCache, Kept
from conductor.spec import paths
from conductor.spec.limits import size_in_words
from conductor.spec.python_guest import scripts
from wasm_host.cache import store

HELP: Final = (
    "Show what conductor keeps on this machine to save work: compiled modules, Python guests that "
    "it has built here, and bundles of a fleet. Conductor prunes them by itself; `conductor cache "
    "prune` does it now. "
    "`conductor data` shows all else that it keeps."
)
PRUNE_HELP: Final = (
    "Remove what was not used for a month, and the oldest beyond 512 MiB; with --all everything. "
    "Running conductors go on, and conductor makes again what it needs."
)

app = typer.Typer(help=HELP, epilog="Example:\n\n  conductor cache")

_NAMES: Final = {
    "modules": "compiled module",
    "guests": "Python guest",
    "bundles": "bundle of a fleet",
}


@app.callback(invoke_without_command=True)
@takes("cache")
def show(context: typer.Context, json_: Json = False, cache: str | None = None) -> int:
    """Shows how much there is."""
    if context.invoked_subcommand is not None:
        return 0
    folders = []
    for kind, folder, entries in (
        ("modules", _folder(cache), store.entries(_folder(cache))),
        ("guests", Path(paths.python_guests()), _guests()),
        ("bundles", Path(paths.bundles()), _bundles()),
    ):
        sizes = [entry.size for entry in entries]
        row = {"kind": kind, "folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}
        folders.append(row)
        if not json_ and (sizes or kind != "bundles"):
            files = counted(len(sizes), _NAMES[kind])
            report.say(f"{files:<24} {size_in_words(sum(sizes)):>11}  {folder}")
    if json_:
        report.say_json({"folders": folders})
    return 0


@app.command(help=PRUNE_HELP, epilog="Example:\n\n  conductor cache prune --all")
@takes("cache")
def prune(
    everything: Annotated[bool, typer.Option("--all", help="Remove everything.")] = False,
    json_: Json = False,
    cache: str | None = None,
) -> int:
    """Removes what was not used for long. Safe while conductors run: they hold it in memory."""
    modules = _folder(cache)
    if everything:
        removed = store.prune(modules, most=0, unused=-1, recent=-1)
    else:
        removed = store.prune(modules)
    removed += [
        guest for guest in _guests() if (everything or _is_old(guest)) and _remove(guest.path)
    ]
    unused = -1.0 if everything else float(store.UNUSED_SECONDS)
    removed += [_entry(one) for one in BundleCache().prune(unused=unused)]
    size = sum(entry.size for entry in removed)
    if json_:
        report.say_json({"removed": {"files": len(removed), "bytes": size}})
    else:
        report.say(f"removed {counted(len(removed), 'file')}, {size_in_words(size)}")
    return 0


def _folder(cache: str | None) -> Path:
    return Path(cache or paths.compiled_modules())


def _guests() -> Iterator[store.Entry]:
    """The Python guests that conductor has built here."""
    for path in sorted(Path(paths.python_guests()).glob("python-*.wasm")):
        # Another conductor may remove it meanwhile.
        with contextlib.suppress(OSError):
            status = path.stat()
            yield store.Entry(path, status.st_size, status.st_mtime)


def _bundles() -> Iterator[store.Entry]:
    """The bundles that are unpacked here."""
    return map(_entry, BundleCache().kept())


def _entry(bundle: Kept) -> store.Entry:
    return store.Entry(Path(paths.bundles(), bundle.name), bundle.size, bundle.used)


def _is_old(guest: store.Entry) -> bool:
    unused = time.time() - guest.used_at > store.UNUSED_SECONDS
    return unused and guest.path.stem != scripts.guest_name()


def _remove(path: Path) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.unlink(path.with_suffix(".sha256"))
    return True
