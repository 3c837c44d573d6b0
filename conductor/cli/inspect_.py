"""`conductor inspect COMPONENT`: the identity and the rights of a component. Runs nothing of it.

A user decides by this page: the facts about the component, its rights in the conversation, the
rights that it asks for and does not get, and the layers of its cage.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

import wasm_host
from conductor.author.caged import CagedReader
from conductor.cli import (
    configured,
    consent,
    inspect_card,
    inspect_policy,
    inspect_text,
    report,
)
from conductor.cli.inspect_lock import Locked, locked
from conductor.cli.inspect_policy import PolicyFacts
from conductor.cli.typer_options import Json, argument, paragraphs, switch, takes
from conductor.errors import UsageError
from conductor.spec import (
    agents,
    catalog,
    component_options,
    lacking,
    limits,
    managed,
    origins,
    paths,
    settings,
    syntax,
    tools,
    untrusted_files,
)
from conductor.spec.installed import Receipt
from conductor.spec.manifest.reading import Manifest, Setting
from conductor.spec.model import Spec
from conductor.spec.plan import Plan, alone
from conductor.spec.python_guest import facts, scripts
from wasm_host.harden import Layer, probe

EXIT_REFUSED: Final = 1
DETECTED: Final = "detected when it starts"

HELP: Final = paragraphs(
    "Show what a component is and what it may do, without running it: the messages that it may "
    "see, change, answer and send, and acts that are always forbidden.",
    "Exit code 1 when conductor or the managed policy would refuse the component, or a handler can "
    "never run.",
)
EPILOG: Final = "Example:\n\n  conductor inspect ./proxy.wasm,only=context --json"

_IMPORTS_HINT: Final = (
    "a guest may import only WASI; for all else it sends a message "
    "(docs/architecture.md#the-channel)"
)
_EXPORTS_HINT: Final = "docs/architecture.md#the-channel lists the exports of a guest"


class ShownWants(msgspec.Struct, frozen=True, kw_only=True):
    """The rights that it asks for, in its author's words, and the lacking ones."""

    source: str = "manifest"
    """The place of the wish: its `manifest`, or its `source` (Python without a manifest)."""
    rights: dict[str, str] | None = None
    """The words, each with its reason; None: the manifest names no rights."""
    lacking: list[str] = []


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a component, as `--json` prints them."""

    component: str
    name: str
    kind: str
    """`bundled component`, `module`, `Python file`, `command`, `in-process code` …"""
    role: str
    bundled: bool = False
    sandboxed: bool
    version: str | None = None
    description: str | None = None
    command: list[str] | None = None
    address: str | None = None
    """The address where it is reached."""
    file: str | None = None
    sha256: str | None = None
    recorded_sha256: str | None = None
    """The digest in its manifest."""
    size: int | None = None
    """Bytes."""
    carrier: str | None = None
    abi: int | None = None
    memory_pages: tuple[int, int | None] | None = None
    imports: list[str] | None = None
    exports: list[str] | None = None
    wasi: list[str] | None = None
    forbidden: list[str] | None = None
    dialect: str
    """Its name, or `DETECTED`."""
    settings: dict[str, Setting] = {}
    config: dict[str, Any] = {}
    """The settings that the user has given."""
    limits: dict[str, int | None] | None = None
    isolation: str
    cage: list[Layer] = []
    """The layers of the cage of sandboxed components, as tried out on this machine."""
    policy: PolicyFacts | None = None
    """Its rights in the conversation as a proxy; None for an agent."""
    wants: ShownWants = ShownWants()
    peers: tuple[str, ...] = ()
    on_failure: str = "fail"
    timeout: float | None = None
    idle: str = ""
    """A sentence if it does nothing with its settings; empty: it does something."""
    origins: dict[str, str] = {}
    """Who set each value: `rights.WORD`, `limits.NAME`, `config.KEY`, the name of an option."""
    lock: Locked | None = None
    """The comparison with the lock file of this folder; None if this is no component."""
    tools: list[str] = []
    """The facts about the tools of its MCP servers."""
    receipt: Receipt | None = None
    """The receipt of its installation, if it was installed."""
    notes: list[str] = []
    problems: list[str] = []
    """Why conductor refuses it, or why nobody should trust it."""
    mistake: str = ""
    """The mistakes that its author has to mend: a handler can never run."""
    refused: str = ""
    """Why the managed policy of this machine lets it run in no chain."""
    hint: str = ""


@takes("inspect")
def inspect(
    component: Annotated[
        str,
        argument(
            "COMPONENT", "A module's path, a bundled name or a command; options may follow a comma."
        ),
    ],
    all_: Annotated[bool, switch("--all", "Show all that is known, instead of a card.")] = False,
    json_: Json = False,
    **values: Any,
) -> int:
    """Shows what a component is and what it may do."""
    return show(component, values, as_json=json_, whole=all_)


def show(
    component: str,
    values: Mapping[str, Any] | None = None,
    *,
    as_json: bool,
    whole: bool = False,
) -> int:
    """Prints the card, the `whole` page or the facts; 1 if something is wrong with the component.
    Raises `UsageError`."""
    facts = gather(component, values)
    columns = shutil.get_terminal_size().columns
    if as_json:
        report.say_json(facts)
    elif whole:
        report.say(*inspect_text.lines(facts, columns))
    else:
        report.say(*inspect_card.lines(facts, columns))
    wrong = [*facts.problems, *filter(None, (facts.mistake, facts.refused))]
    if not wrong:
        return 0
    report.error(f"`{facts.name}`: {'; '.join(wrong)}", facts.hint)
    return EXIT_REFUSED


def gather(component: str, values: Mapping[str, Any] | None = None) -> Facts:
    """All facts about a component as typed. `values` are the options of the command line. Raises
    `UsageError`."""
    text = component.strip()
    path, given = ("", []) if text.startswith("{") else syntax.split(text)
    with CagedReader() as reader:
        try:
            info = None
            if os.path.isfile(path):
                if path.endswith(".wasm"):
                    # Before `resolve`, whose error for a file that is no module says less.
                    typed = Spec(name=path, wasm=path)
                    chosen = component_options.apply(typed, given).limits
                    info = reader.module(path, _module_bytes(chosen))
                elif _is_module(path):
                    raise UsageError(
                        f"`{path}` is a WebAssembly module, but would be run as a program",
                        "rename it: the name of a module ends with .wasm",
                    )
            plan, _ = consent.kept(alone(component, configured.here(values)))
        except wasm_host.LoadError as error:
            return _no_module(component, Path(path), error)
        return _of(plan, component, reader, info)


def facts_of(plan: Plan, component: str) -> Facts:
    """All facts about a component that is resolved already. Raises `UsageError`.

    Args:
        plan: The component alone, with the rights that the user has agreed to.
        component: How a user writes it.
    """
    with CagedReader() as reader:
        return _of(plan, component, reader)


def _of(
    plan: Plan, component: str, reader: CagedReader, info: wasm_host.ModuleInfo | None = None
) -> Facts:
    (spec,) = plan.components
    refused: UsageError | None = None
    by_place = spec.manifest is None and not spec.sandboxed  # it may be either
    for agent in (True, False) if by_place else (plan.is_agent(spec),):
        try:
            held = managed.tried(spec, agent=agent)
        except UsageError as error:
            refused = refused or error
        else:
            return _described(held, component, reader, info)
    assert refused is not None
    facts = _described(spec, component, reader, info)
    return msgspec.structs.replace(facts, refused=refused.text, hint=facts.hint or refused.hint)


def _described(
    spec: Spec, component: str, reader: CagedReader, info: wasm_host.ModuleInfo | None
) -> Facts:
    if spec.script:
        return _script(component, spec, reader)
    if spec.wasm is None:
        return _unsandboxed(component, spec)
    try:
        info = info or reader.module(spec.wasm, _module_bytes(spec.limits))
    except wasm_host.LoadError as error:
        return _no_module(component, Path(spec.wasm), error)
    return _module(component, spec, spec.wasm, info)


def _module_bytes(chosen: dict[str, int]) -> int:
    """The most bytes that a module may have."""
    return {**limits.DEFAULT_LIMITS, **chosen}["module_bytes"]


def _is_module(path: str) -> bool:
    with untrusted_files.ordinary(path) as file:
        return file.read(len(catalog.WASM_MAGIC)) == catalog.WASM_MAGIC


def _facts(component: str, spec: Spec, manifest: Manifest | None, **own: Any) -> Facts:
    """The facts that every component has, and its `own`."""
    own["notes"] = [
        *own.get("notes", ()),
        *(text.replace("\n", "; ") for text in lacking.notes(spec)),
    ]
    manifest = manifest or Manifest(name=spec.name)
    wants = _wants(spec)
    if spec.sandboxed:
        held = {**limits.DEFAULT_LIMITS, **spec.limits}
        own |= {
            "role": "proxy",
            "limits": {limit.name: held.get(limit.name) for limit in limits.TABLE},
            "isolation": "process",
            "cage": list(probe()),
        }
    return Facts(
        **{
            "component": component,
            "name": spec.name,
            "bundled": spec.bundled is not None,
            "sandboxed": spec.sandboxed,
            "version": manifest.version or None,
            "description": manifest.description or None,
            "settings": manifest.settings,
            "config": spec.config,
            "policy": inspect_policy.facts(spec.policy),
            "wants": wants,
            "peers": (*spec.peers, *spec.agents),
            "on_failure": spec.on_failure,
            "timeout": spec.timeout,
            "idle": settings.idle(spec) or "",
            "origins": origins.of(spec),
            "lock": locked(spec),
            "receipt": spec.receipt,
            "tools": list(tools.says(spec)),
            **own,
        }
    )


def _unsandboxed(component: str, spec: Spec) -> Facts:
    kind = "command" if spec.command is not None else "in-process code"
    kind = "address" if spec.address is not None else kind
    manifest = spec.manifest
    known = agents.named(spec.source) if manifest is None else None
    role = "proxy or agent, by its place" if manifest is None else manifest.kind
    if known is not None and (spec.command or [])[1:] == [*known.command[1:]]:
        kind, role = f"known agent ({known.name})", "agent"
    agent = {"policy": None, "tools": list(tools.NOT_PINNED)} if role == "agent" else {}
    return _facts(
        component,
        spec,
        manifest,
        kind=kind if spec.bundled is None else "bundled component",
        role=role,
        command=spec.command,
        address=spec.address,
        file=spec.command[0] if spec.command is not None else None,
        dialect=spec.dialect or DETECTED,
        isolation="none",
        **agent,
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


def _module(component: str, spec: Spec, path: str, info: wasm_host.ModuleInfo) -> Facts:
    bundled = spec.bundled is not None or Path(path).parent.parent == paths.components_folder()
    manifest = spec.manifest
    problems, hint = [f"refused: it {problem}" for problem in info.problems], ""
    if problems:
        hint = _IMPORTS_HINT if info.forbidden else _EXPORTS_HINT
    recorded = manifest.sha256 or None if manifest is not None else None
    if recorded not in (None, info.digest):
        problems.append("the file is not the one its manifest records: its sha256 differs")
        hint = hint or "install conductor again, or build the component anew"
    # A carrier of the channel speaks it by its shape; a WASI command may speak any dialect.
    channel = info.carrier in ("core", "component")
    return _facts(
        component,
        spec,
        manifest,
        kind="bundled component" if bundled else "module",
        bundled=bundled,
        file=path,
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
        dialect="channel" if channel else spec.dialect or DETECTED,
        problems=problems,
        hint=hint,
    )


def _script(component: str, spec: Spec, reader: CagedReader) -> Facts:
    """The facts of Python source. The module that runs it is the same for all."""
    try:
        script = scripts.read(spec.script)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename}: {error.strerror}", "check its permissions"
        ) from None
    declared = reader.source(script, spec.script)
    manifest = spec.manifest
    notes = []
    if spec.unreadable_rights and not spec.chosen:
        notes = [f"{consent.HIDDEN}; so it has `{'+'.join(spec.policy.rights)}`"]
    told = lacking.mistake(spec)
    declares = declared.settings
    if manifest is not None and manifest.settings:
        declares = {
            # The source alone knows the defaults; a manifest need not repeat them.
            key: msgspec.structs.replace(setting, default=declares[key].default)
            if setting.default is None and key in declares
            else setting
            for key, setting in manifest.settings.items()
        }
    return _facts(
        component,
        spec,
        manifest or facts.manifest(spec.name, os.path.basename(spec.script), declared),
        kind="Python file" if spec.script.endswith(".py") else "Python folder",
        file=spec.script,
        sha256=script.sha256,
        size=sum(len(text.encode()) for text in script.files.values()),
        carrier="python",
        dialect="channel",
        settings=declares,
        notes=notes,
        mistake=told[0] if told is not None else "",
        hint=told[1] if told is not None else "",
    )


def _wants(spec: Spec) -> ShownWants:
    return ShownWants(
        source="source" if spec.script and not (spec.manifest_path or spec.bundled) else "manifest",
        rights=lacking.asked(spec),
        lacking=list(lacking.of(spec)),
    )
