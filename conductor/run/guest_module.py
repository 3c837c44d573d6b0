"""From the spec of a guest to its module, and to the router's view of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

import msgspec

import wasm_host
from conductor.core import CHANNEL, DIALECTS, Component, json_text
from conductor.errors import ConductorError
from conductor.run.segment_spec import NOT_KEPT, GuestSpec
from conductor.spec import digests, limits

_KEPT: Final = ("stored", "hit")
_IGNORED: Final = "ignored: "
_OTHER_CACHE: Final = "`-c cache=FOLDER` names another folder for them"
_told: set[str] = set()

_OWN_MEMORY: Final = 2 * 1024 * 1024 * 1024
"""The bytes that the host itself may use, besides those of its guests."""

WASI_GRANTS: Final = frozenset({"clock", "random"})
"""Services that WASI guests get as system interface calls."""


class _Configure(msgspec.Struct):
    """The params of `configure` that matter here."""

    config: dict[str, msgspec.Raw] = {}


def component(spec: GuestSpec, carrier: str) -> Component:
    """The router's view of a guest.

    The ABI of a channel carrier gives its dialect. A WASI command is configured as other programs
    are: only if it has settings, since a program that knows no `configure` refuses it.
    """
    if carrier == "wasi":
        dialect = DIALECTS.get(spec.dialect) if spec.dialect else None
        params = json_text.decode(spec.configure, type=_Configure | None)
        configure = bytes(spec.configure) if params is not None and params.config else None
    else:
        dialect, configure = CHANNEL, bytes(spec.configure)
    return Component(
        spec.name,
        spec.label,
        dialect,
        spec.services,
        configure,
        spec.policy.policy(),
        spec.instance,
        bytes(spec.kept),
        frozenset(spec.known_as),
        allowance=limits.allowance(spec.limits),
        ports=spec.ports,
        agents=dict.fromkeys(spec.agents, spec.name),
        patience=spec.timeout,
        timed=spec.policed,
        denied=spec.denied,
        judge=spec.policy.judge(),
    )


def load(spec: GuestSpec, cache: str | None, *, baseline: bool = False) -> wasm_host.Module:
    """Loads and checks a guest's module, and runs nothing of it. Raises `wasm_host.GuestError`.

    Args:
        spec: the guest.
        cache: the folder of compiled modules.
        baseline: use code of the baseline compiler for a Python proxy if there is no other; the
            caller then has `optimised_later` make better code.
    """
    assert spec.wasm is not None
    module = wasm_host.load(
        spec.wasm,
        limits=wasm_host.Limits(**limits.of(limits.GUEST, spec.limits)),
        cache_dir=cache or None,
        grants=spec.services & WASI_GRANTS,
        check=lambda info: _as_expected(spec, info.digest),
        # The Python guest came with this program, or was built by it, with its digest beside it:
        # trusting the digest saves reading 24 MB at each start.
        digest=spec.sha256 if spec.script else "",
        compiling=_announce if spec.script else None,
        baseline=baseline and bool(spec.script),
    )
    if spec.script:
        module.preface, module.source_digest = _preface(spec)
    if module.cache_report.startswith(_IGNORED):
        _tell_once(f"{NOT_KEPT}{module.cache_report.removeprefix(_IGNORED)}; {_OTHER_CACHE}")
    return module


def optimised_later(modules: Iterable[wasm_host.Module], cache: str | None) -> None:
    """Has better code made for the next start, of modules with the baseline compiler's code."""
    waiting = {
        module.digest: module
        for module in modules
        if module.baseline and module.cache_report in _KEPT  # else it would be made for nothing
    }
    if not waiting or not cache:
        return
    from wasm_host.cache.later import later
    from wasm_host.module import optimise

    def work() -> None:
        for digest, module in waiting.items():
            optimise(module.label, digest, module.limits, cache)

    later(work)


def _tell_once(line: str) -> None:
    """Writes a line to standard error, unless this process has written it before."""
    if line not in _told:
        _told.add(line)
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _announce() -> None:
    from conductor.spec.python_guest.scripts import COMPILING

    sys.stderr.write(f"{COMPILING}\n")
    sys.stderr.flush()


def _preface(spec: GuestSpec) -> tuple[bytes, str]:
    """The source of a Python proxy with its settings, and the digest of the source. Raises
    `wasm_host.LoadError`."""
    from conductor.spec.python_guest import scripts

    try:
        script = scripts.read(spec.script)
    except OSError as error:
        what = f"could not be loaded: {error.filename}: {error.strerror or error}"
        raise wasm_host.LoadError(what, hint="check its permissions") from None
    except ConductorError as error:
        what = f"could not be loaded: {error.text}"
        raise wasm_host.LoadError(what, hint=error.hint) from None
    if spec.script_sha256 not in ("", script.sha256):
        raise wasm_host.LoadError(
            digests.changed(spec.script, spec.locked, spec.script_sha256, script.sha256),
            hint=digests.hint(spec.locked),
        )
    return script.with_settings(bytes(spec.configure)), script.sha256


def _as_expected(spec: GuestSpec, digest: str) -> None:
    """Raises `wasm_host.LoadError` for a module whose digest is not the expected one."""
    if not spec.sha256 or spec.sha256 == digest:
        return
    assert spec.wasm is not None
    if spec.locked:
        raise wasm_host.LoadError(
            digests.changed(spec.wasm, spec.locked, spec.sha256, digest),
            hint=digests.hint(spec.locked),
        )
    raise wasm_host.LoadError(
        f"{spec.wasm} is not the file its manifest records (sha256 {digest})",
        hint="install conductor again; a bundled module has been changed",
    )


def memory(modules: Iterable[wasm_host.Module]) -> int:
    """The bytes that this process may use: its own, and those of its guests."""
    # A component may have four memories, each as large as the limit.
    guests = sum(m.limits.memory_bytes * (4 if m.carrier == "component" else 1) for m in modules)
    return guests + _OWN_MEMORY
