"""`conductor inspect COMPONENT`: what a component is and what it can do. Nothing of it is run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

import wasm_host
from conductor import catalog, component_options
from conductor.catalog import Manifest, Spec
from conductor.cli import inspect_text, report
from conductor.core import SERVICES
from conductor.core.services import ALWAYS_GRANTED
from conductor.errors import UsageError

EXIT_REFUSED: Final = 1

_HINTS: Final = {
    True: "a guest may import nothing but WASI; whatever else it needs it asks for by a message "
    "(docs/channel-abi.md)",
    False: "docs/channel-abi.md says what a guest exports",
}
"""What to do about a module that is refused; by whether that is for its imports."""


class Service(msgspec.Struct, frozen=True):
    """One service of the conductor. `reason`: why the component wants it, as its author says."""

    name: str
    granted: bool
    reason: str | None = None


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a component. `problems`: why it is refused, or should not be trusted."""

    component: str
    name: str
    kind: str
    """`bundled component`, `module`, `command` or `in-process code`."""
    role: str
    sandboxed: bool
    version: str | None = None
    description: str | None = None
    command: list[str] | None = None
    file: str | None = None
    sha256: str | None = None
    recorded_sha256: str | None = None
    size: int | None = None
    carrier: str | None = None
    abi: int | None = None
    memory_pages: tuple[int, int | None] | None = None
    imports: list[str] | None = None
    exports: list[str] | None = None
    wasi: list[str] | None = None
    forbidden: list[str] | None = None
    dialect: str
    services: list[Service] = []
    config: dict[str, Any] = {}
    limits: dict[str, int | None] | None = None
    """Its name, or that it is found out when it starts."""
    isolation: str
    problems: list[str] = []
    hint: str = ""


def show(component: str, *, as_json: bool) -> int:
    """Prints the facts; 1 if something is wrong with the component. Raises `UsageError`."""
    facts = gather(component)
    if as_json:
        text = msgspec.json.format(msgspec.json.encode(facts)).decode()
    else:
        text = "\n".join(inspect_text.lines(facts))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    if not facts.problems:
        return 0
    report.error(f"`{facts.name}`: {'; '.join(facts.problems)}", facts.hint)
    return EXIT_REFUSED


def gather(component: str) -> Facts:
    """Everything known of what a user typed. Raises `UsageError`."""
    text = component.strip()
    path = "" if text.startswith("{") else component_options.split(text)[0]
    if os.path.isfile(path):
        if path.endswith(".wasm"):
            try:
                wasm_host.describe(path)
            except wasm_host.LoadError as error:
                return _no_module(component, Path(path), error)
        elif _is_module(path):
            raise UsageError(
                f"`{path}` is a WebAssembly module, but would be run as a program",
                "rename it: the name of a module ends with .wasm",
            )
    spec = catalog.resolve(component)
    if spec.wasm is None:
        return _unsandboxed(component, spec, catalog.manifest(path))
    folder = Path(spec.wasm).parent
    bundled = folder.parent == catalog.components_folder()
    return _module(component, spec, catalog.manifest(folder.name) if bundled else None)


def _is_module(path: str) -> bool:
    with Path(path).open("rb") as file:
        return file.read(len(catalog.WASM_MAGIC)) == catalog.WASM_MAGIC


def _unsandboxed(component: str, spec: Spec, manifest: Manifest | None) -> Facts:
    kind = "command" if spec.command is not None else "in-process code"
    return Facts(
        component=component,
        name=spec.name,
        kind=kind if manifest is None else "bundled component",
        role="proxy or agent, by its place" if manifest is None else manifest.kind,
        sandboxed=False,
        version=manifest.version if manifest is not None else None,
        description=manifest.description if manifest is not None else None,
        command=spec.command,
        file=spec.command[0] if spec.command is not None else None,
        dialect=spec.dialect or inspect_text.DETECTED,
        services=_services(spec, {}),
        config=spec.config,
        isolation="none",
    )


def _no_module(component: str, path: Path, error: wasm_host.LoadError) -> Facts:
    return Facts(
        component=component,
        name=path.name,
        kind="file",
        role="none",
        sandboxed=True,
        file=str(path.resolve()),
        size=path.stat().st_size,
        dialect="none",
        isolation="none",
        problems=[f"refused: {error}"],
        hint=error.hint,
    )


def _module(component: str, spec: Spec, manifest: Manifest | None) -> Facts:
    assert spec.wasm is not None
    try:
        info = wasm_host.describe(spec.wasm)
    except wasm_host.LoadError as error:
        return _no_module(component, Path(spec.wasm), error)
    limits, problems, hint = _limits(spec)
    if info.problems:
        problems = [f"refused: it {problem}" for problem in info.problems] + problems
        hint = _HINTS[bool(info.forbidden)]
    recorded = manifest.sha256 if manifest is not None and manifest.sha256 else None
    if recorded not in (None, info.digest):
        problems.append("the file is not the one its manifest records: its sha256 differs")
        hint = hint or "install conductor again, or build the component anew"
    return Facts(
        component=component,
        name=spec.name,
        kind="module" if manifest is None else "bundled component",
        role="proxy",
        sandboxed=True,
        version=manifest.version if manifest is not None else None,
        description=manifest.description if manifest is not None else None,
        file=spec.wasm,
        sha256=info.digest,
        recorded_sha256=recorded,
        size=info.size,
        carrier=info.carrier,
        abi=info.abi,
        memory_pages=info.memory_pages,
        imports=[f"{module}.{name}" if name else module for module, name, _ in info.imports],
        exports=[f"{name} ({kind})" for name, kind in info.exports],
        wasi=list(info.wasi),
        forbidden=list(info.forbidden),
        dialect=_dialect(spec, info.carrier),
        services=_services(spec, manifest.wants.get("services", {}) if manifest else {}),
        config=spec.config,
        limits=limits,
        isolation="process",
        problems=problems,
        hint=hint,
    )


def _limits(spec: Spec) -> tuple[dict[str, int | None] | None, list[str], str]:
    """The limits it would run under; or None, what is wrong with them, and a hint."""
    try:
        return msgspec.structs.asdict(wasm_host.Limits(**spec.limits)), [], ""
    except ValueError as error:
        return None, [str(error)], "give another value: limit.NAME=NUMBER after a comma"


def _dialect(spec: Spec, carrier: str) -> str:
    """Carriers of the channel speak it by their shape; others may speak any dialect."""
    if carrier in ("core", "component"):
        return "channel"
    return spec.dialect or inspect_text.DETECTED


def _services(spec: Spec, reasons: dict[str, Any]) -> list[Service]:
    """Every service, whether it may be used, and what for; no grants at all means all."""
    return [
        Service(
            name,
            spec.grants is None or name in spec.grants or name in ALWAYS_GRANTED,
            str(reasons[name]) if name in reasons else None,
        )
        for name in sorted(SERVICES | reasons.keys())
    ]
