"""`conductor inspect COMPONENT`: what a component is and what it can do. Nothing of it is run.

The card a user decides on: what is known of the component, what it may do to the conversation, what
it asks for and was not granted, and what keeps it in.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

import wasm_host
from conductor.author.caged.reader import Judge
from conductor.cli import first_use, inspect_policy, inspect_text, report
from conductor.cli.inspect_facts import Facts, Service, Wants
from conductor.core import SERVICES
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.core.services import granted_names
from conductor.errors import UsageError
from conductor.spec import catalog, component_options, limits, untrusted_files
from conductor.spec.catalog import Spec
from conductor.spec.manifest import grants
from conductor.spec.manifest.values import Manifest, Setting
from wasm_host.harden.probe import probe

if TYPE_CHECKING:
    from conductor.spec.python_guest.settings import Field

EXIT_REFUSED: Final = 1

_HINTS: Final = {
    True: "a guest may import nothing but WASI; whatever else it needs it asks for by a message "
    "(docs/channel-abi.md)",
    False: "docs/channel-abi.md says what a guest exports",
}
"""What to do about a module that is refused; by whether that is for its imports."""


def show(component: str, *, as_json: bool) -> int:
    """Prints the facts; 1 if something is wrong with the component. Raises `UsageError`."""
    facts = gather(component)
    if as_json:
        report.say_json(facts)
    else:
        report.say(*inspect_text.lines(facts, shutil.get_terminal_size().columns))
    if not facts.problems:
        return 0
    report.error(f"`{facts.name}`: {'; '.join(facts.problems)}", facts.hint)
    return EXIT_REFUSED


def gather(component: str) -> Facts:
    """Everything known of what a user typed. Raises `UsageError`."""
    text = component.strip()
    path, given = ("", []) if text.startswith("{") else component_options.split(text)
    with Judge() as judge:
        info = None
        if os.path.isfile(path):
            if path.endswith(".wasm"):
                chosen = component_options.read(path, given).limits
                try:
                    info = judge.module(path, _most({**limits.DEFAULT_LIMITS, **chosen}))
                except wasm_host.LoadError as error:
                    return _no_module(component, Path(path), error)
            elif _is_module(path):
                raise UsageError(
                    f"`{path}` is a WebAssembly module, but would be run as a program",
                    "rename it: the name of a module ends with .wasm",
                )
        spec = catalog.resolve(component)
        if spec.script:
            return _script(component, spec, judge)
        if spec.wasm is None:
            return _unsandboxed(component, spec)
        if info is None:
            try:
                info = judge.module(spec.wasm, _most({**limits.DEFAULT_LIMITS, **spec.limits}))
            except wasm_host.LoadError as error:
                return _no_module(component, Path(spec.wasm), error)
        return _module(component, spec, info)


def _most(held: dict[str, int]) -> int:
    """Bytes that a module may have."""
    return held["module_bytes"]


def _is_module(path: str) -> bool:
    with untrusted_files.ordinary(path) as file:
        return file.read(len(catalog.WASM_MAGIC)) == catalog.WASM_MAGIC


def _facts(component: str, spec: Spec, manifest: Manifest | None, **found: Any) -> Facts:
    """What is told of every component, and what was `found` of this one: fields of `Facts`."""
    wants = _wants(spec, manifest)
    found.setdefault("settings", manifest.settings if manifest is not None else {})
    return Facts(
        component=component,
        name=spec.name,
        version=manifest.version or None if manifest is not None else None,
        description=manifest.description or None if manifest is not None else None,
        services=_services(spec, wants.services),
        config=spec.config,
        wants=wants,
        on_failure=spec.on_failure,
        timeout=spec.timeout,
        **found,
    )


def _sandboxed(spec: Spec) -> dict[str, Any]:
    """What holds for every sandboxed proxy."""
    return {
        "role": "proxy",
        "sandboxed": True,
        "isolation": "process",
        "cage": list(probe()),
        "policy": inspect_policy.facts(spec.policy),
    }


def _unsandboxed(component: str, spec: Spec) -> Facts:
    kind = "command" if spec.command is not None else "in-process code"
    manifest = _manifest(spec)
    agent = manifest is not None and manifest.kind == "agent"
    return _facts(
        component,
        spec,
        manifest,
        kind=kind if spec.bundled is None else "bundled component",
        role="proxy or agent, by its place" if manifest is None else manifest.kind,
        sandboxed=False,
        command=spec.command,
        file=spec.command[0] if spec.command is not None else None,
        dialect=spec.dialect or inspect_text.DETECTED,
        isolation="none",
        policy=None if agent else inspect_policy.facts(spec.policy),
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


def _manifest(spec: Spec) -> Manifest | None:
    """The manifest of a component. Only a claim of its author."""
    return catalog.manifest(spec.bundled) if spec.bundled is not None else spec.asked


def _wants(spec: Spec, manifest: Manifest | None) -> Wants:
    if manifest is None:
        return Wants()
    asked = manifest.wants
    held = frozenset(one.name for one in _services(spec, asked.services) if one.granted)
    return Wants(
        source="source" if spec.script and not (spec.manifest or spec.bundled) else "manifest",
        profile=asked.profile,
        reason=asked.reason,
        services=asked.services,
        rights=asked.rights,
        grants=asked.grants,
        not_granted=[name for name in asked.services if name not in held],
        profile_granted=asked.profile is None or inspect_policy.covers(spec.policy, asked.profile),
        rights_not_granted=[
            rule for rule in asked.rights if not inspect_policy.allows(spec.policy, rule)
        ],
        grants_not_given=[
            one for one in asked.grants if not inspect_policy.gives(spec.policy, one)
        ],
    )


def _module(component: str, spec: Spec, info: wasm_host.ModuleInfo) -> Facts:
    assert spec.wasm is not None
    path = Path(spec.wasm)
    bundled = spec.bundled or path.parent.parent == catalog.components_folder()
    manifest = _manifest(spec)
    limits, problems, hint = _limits(spec)
    if info.problems:
        problems = [f"refused: it {problem}" for problem in info.problems] + problems
        hint = _HINTS[bool(info.forbidden)]
    recorded = manifest.sha256 or None if manifest is not None and not spec.script else None
    if recorded not in (None, info.digest):
        problems.append("the file is not the one its manifest records: its sha256 differs")
        hint = hint or "install conductor again, or build the component anew"
    return _facts(
        component,
        spec,
        manifest,
        kind="bundled component" if bundled else "module",
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
        limits=limits,
        problems=problems,
        hint=hint,
        **_sandboxed(spec),
    )


def _script(component: str, spec: Spec, judge: Judge) -> Facts:
    """Python source: what runs it is the same for all."""
    from conductor.spec.python_guest import scripts

    try:
        script = scripts.read(spec.script)
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}", "check its permissions"
        ) from None
    said = judge.source(script, spec.script)
    limits, problems, hint = _limits(spec)
    manifest = _manifest(spec)
    # What the source declares is for those who give the file alone.
    notes = []
    if spec.hidden and not spec.chosen:
        notes = [f"{first_use.HIDDEN}; so it has `{spec.policy.profile}`"]
    asked = manifest or grants.of_source(spec.name, os.path.basename(spec.script), said)
    return _facts(
        component,
        spec,
        asked,
        notes=notes,
        kind="Python file" if spec.script.endswith(".py") else "Python folder",
        file=spec.script,
        sha256=script.sha256,
        size=sum(len(text.encode()) for text in script.files.values()),
        carrier="python",
        dialect="channel",
        limits=limits,
        problems=problems,
        hint=hint,
        settings=_settings(manifest, said.settings),
        **_sandboxed(spec),
    )


def _settings(manifest: Manifest | None, said: dict[str, Field]) -> dict[str, Setting]:
    """What a manifest says of the settings, with the defaults that the source has; or all that
    the source says."""
    read = {key: Setting(**msgspec.structs.asdict(one)) for key, one in said.items()}
    if manifest is None or not manifest.settings:
        return read
    return {
        key: msgspec.structs.replace(one, default=read[key].default)
        if one.default is None and key in read
        else one
        for key, one in manifest.settings.items()
    }


def _limits(spec: Spec) -> tuple[dict[str, int | None] | None, list[str], str]:
    """The limits it would run under; or None, what is wrong with them, and a hint."""
    try:
        wasm_host.Limits(**limits.of(limits.GUEST, spec.limits))
        held = {**limits.DEFAULT_LIMITS, **spec.limits}
        return {one.name: held.get(one.name) for one in limits.TABLE}, [], ""
    except ValueError as error:
        return None, [str(error)], "give another value: limit.NAME=NUMBER after a comma"


def _dialect(spec: Spec, carrier: str) -> str:
    """Carriers of the channel speak it by their shape; others may speak any dialect."""
    if carrier in ("core", "component"):
        return "channel"
    return spec.dialect or inspect_text.DETECTED


def _services(spec: Spec, reasons: dict[str, str]) -> list[Service]:
    """Every service, whether it may be used, and what for; no grants at all means all.

    One that is granted, or wanted, for something is listed with that: `files:**/AGENTS.md`.
    """
    grants = spec.grants
    named = (grants or frozenset()) | reasons.keys()
    return [
        Service(name, grants is None or name in grants or name in ALWAYS_GRANTED, reasons.get(name))
        for name in sorted((SERVICES - granted_names(named)) | named)
    ]
