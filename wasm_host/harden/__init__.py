"""The cage around the process that hosts guests, should one of them break out of WebAssembly.

Three steps, none of which can be undone (docs/architecture.md, "Isolation")::

    harden.drop_inherited()  # first of all: nothing of the parent's, no debugger
    ...                      # load modules: the last use of files
    harden.seal()            # before guest code runs: no files, network, programs, other processes
    ...                      # instantiate and start guests
    harden.settle()          # optional: no further threads
    harden.report()          # the layers in force, and why the rest is not

Each layer is independent of the others. A layer that this system lacks is reported, not raised.
On systems other than Linux only closed descriptors, an empty environment and limits are left.
`harden.probe()` reports the layers of a throwaway process on this machine.
"""

from __future__ import annotations

import _frozen_importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from wasm_host.harden import kernel, landlock, layers, seccomp
from wasm_host.harden.kernel import Unsupported

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__all__ = [
    "ESSENTIAL", "Layer", "drop_inherited", "missing", "probe", "report", "seal", "settle",
]  # fmt: skip

_FILELESS: Final = (_frozen_importlib.BuiltinImporter, _frozen_importlib.FrozenImporter)
"""Finders of modules that are part of the interpreter."""

ESSENTIAL: Final = (
    "no-new-privileges",
    "no-dump",
    "parent-death",
    "descriptors",
    "environment",
    "capabilities",
    "limits",
    "landlock-files",
    "system-calls",
)
"""Layers without which a process is not called hardened. Of the other layers two come with newer
kernels and repeat refusals of `system-calls`; `threads` is optional, and few users may make a
`cgroup`."""

PROBE_SECONDS: Final = 20.0

PROBE: Final = """
from wasm_host import harden
harden.drop_inherited()
import os, msgspec
encode = msgspec.json.encode
encode([harden.Layer("", True, "")])  # makes the encoder before files are gone
harden.seal()
harden.settle()
os.write(1, encode(harden.report()))
os._exit(0)
"""
"""Applies all layers, then reports from inside."""


class Layer(msgspec.Struct, frozen=True):
    """One fence, and whether it stands.

    Attributes:
        name: stable, for machines too.
        in_force: it holds for every thread of this process.
        detail: the harm that it prevents; or why it is not in force.
    """

    name: str
    in_force: bool
    detail: str


_layers: dict[str, Layer] = {}


def drop_inherited(*, parent: int | None = None, but: int = -1) -> tuple[Layer, ...]:
    """Inherit nothing: to be called first, while the process has one thread.

    No new privileges, no dumps or debuggers, death with the parent, no descriptors beyond 0, 1
    and 2, no environment, no capabilities but those that open files, no core files, umask 077.

    Args:
        parent: number of the process that should be the parent; the process ends at once if it
            has another, since then its parent died before this.
        but: a descriptor that this process has opened itself, and keeps.

    Returns:
        The layers that are in force so far.
    """
    os.umask(0o077)
    # The environment first: the kernel does not tell a process that cannot be dumped where in
    # memory its environment is.
    _apply("environment", layers.no_environment)
    _apply("descriptors", lambda: layers.no_descriptors(but))
    _apply("no-new-privileges", layers.no_new_privileges)
    _apply("no-dump", layers.no_dump)
    _apply("parent-death", lambda: layers.die_with_parent(parent))
    _apply("capabilities", lambda: layers.keep_capabilities(layers.FILE_CAPABILITIES))
    return report()


def seal(*, memory: int | None = None) -> tuple[Layer, ...]:
    """Give up everything but computing and talking on open descriptors.

    Called when all modules are loaded and everything is imported, best before any guest's code
    runs and before other threads exist: the capabilities and Landlock layers hold for the calling
    thread and those it starts, and count as in force only if there are no others. The system call
    filter holds for all threads. A second call changes nothing.

    Args:
        memory: most bytes of writable private memory the process may have, guests' included
            (`RLIMIT_DATA`); `None`: unbounded. Address space cannot be bounded, since each
            guest reserves 4 GiB of it.

    Returns:
        All layers, as `report`.
    """
    if "system-calls" in _layers:
        return report()
    # A cgroup is made of files, so before Landlock.
    _apply("cgroup", lambda: layers.enter_cgroup(memory))
    os.chdir("/")
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder in _FILELESS]
    sys.meta_path.append(_NoMoreImports)
    _apply("capabilities", lambda: layers.keep_capabilities(0))
    _restrict_files()
    # After Landlock, which needs one more descriptor.
    _apply("limits", lambda: layers.limit(memory))
    _apply("system-calls", lambda: _filter(threads=True))
    return report()


def settle() -> tuple[Layer, ...]:
    """Start no further threads: called after `seal`, when all guests run and the ticker ticks.

    A WASI guest can not be instantiated any more.
    """
    _apply("threads", lambda: _filter(threads=False))
    return report()


def report() -> tuple[Layer, ...]:
    """Every layer applied so far, in force or not."""
    return tuple(_layers.values())


def missing(of: tuple[Layer, ...] | None = None) -> tuple[Layer, ...]:
    """The essential layers that are not in force, of a report or of this process's."""
    applied = {layer.name: layer for layer in (report() if of is None else of)}
    essential = (applied.get(name, Layer(name, False, "not applied")) for name in ESSENTIAL)
    return tuple(layer for layer in essential if not layer.in_force)


def probe(code: str = PROBE) -> tuple[Layer, ...]:
    """Every layer, as a sealed process on this machine reports it; the caller is left alone.

    If the process dies or hangs, each essential layer is reported as not in force, with the cause.
    """
    import subprocess

    def none(why: str) -> tuple[Layer, ...]:
        return tuple(Layer(name, False, why) for name in ESSENTIAL)

    try:
        done = subprocess.run(
            isolated_python(code), stdin=subprocess.DEVNULL, capture_output=True, env={},
            timeout=PROBE_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return none(f"cannot be tried out: {error}")
    try:
        return tuple(msgspec.json.decode(done.stdout, type=list[Layer]))
    except msgspec.DecodeError:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        code_ = f"a process that tried it ended with code {done.returncode}"
        return none(f"{code_}: {reason or 'no reason given'}")


def isolated_python(code: str) -> list[str]:
    """The command that runs Python text in a fresh interpreter without site or environment.

    It can import wasm_host and the packages that wasm_host needs.
    """
    import importlib.util

    specs = (importlib.util.find_spec(name) for name in ("wasm_host", "msgspec", "wasmtime"))
    folders = {
        os.path.dirname(os.path.dirname(spec.origin)) for spec in specs if spec and spec.origin
    }
    path = f"import sys; sys.path[:0] = {sorted(folders)!r}\n"
    return [sys.executable, "-I", "-S", "-c", path + code]


def _apply(name: str, step: Callable[[], str]) -> None:
    """Take one step and record its result: its effect, or why it failed."""
    try:
        _layers[name] = Layer(name, True, step())
    except Unsupported as lack:
        _layers[name] = Layer(name, False, str(lack))
    except OSError as error:
        _layers[name] = Layer(name, False, f"refused by the system: {error.strerror or error}")


def _restrict_files() -> None:
    """The three Landlock layers, all by one ruleset."""
    done: list[landlock.Restriction] = []

    def files() -> str:
        landlock.abi()
        # Counted before: afterwards /proc is out of reach.
        others = kernel.thread_count() - 1
        done.append(landlock.restrict())
        if others and not done[0].threads:
            raise Unsupported(f"{others} threads that were started before sealing are not covered")
        return f"no files or folders (Landlock ABI {done[0].abi})"

    def network() -> str:
        if not done:
            raise Unsupported(_layers["landlock-files"].detail)
        if not done[0].network:
            raise Unsupported(f"Landlock ABI {done[0].abi} has no network rights (Linux 6.7 has)")
        return f"no {done[0].network}"

    def scope() -> str:
        if not done:
            raise Unsupported(_layers["landlock-files"].detail)
        if not done[0].scoped:
            raise Unsupported(f"Landlock ABI {done[0].abi} has no scopes (Linux 6.12 has)")
        return "no signals or abstract sockets to other processes"

    _apply("landlock-files", files)
    _apply("landlock-network", network)
    _apply("landlock-scope", scope)


def _filter(*, threads: bool) -> str:
    kernel.require_linux()
    program = seccomp.program(kernel.MACHINE, os.getpid(), threads=threads)
    if not seccomp.install(program):
        layers.require_one_thread("their system calls")
    return "no further threads" if not threads else "may compute and talk, nothing else"


class _NoMoreImports:
    """The last finder of a sealed process: explains why it cannot import a module."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Refuse with `ModuleNotFoundError`; see `importlib.abc.MetaPathFinder`."""
        raise ModuleNotFoundError(
            f"{name} was not imported before the process was sealed, and files are out of reach",
            name=name,
        )
