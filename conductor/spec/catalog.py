"""From what a user typed to what is started: the only place that knows every kind of component.

Kinds of a component spec, in the order they are tried:

    {"command": …} / {"wasm": …}      a JSON object
    py:module:attribute               in this process, trusted
    path/to/proxy.wasm                sandboxed
    path/to/proxy.py, path/to/folder/ sandboxed Python (`conductor.spec.python_guest.scripts`)
    path/to/folder/                   with a `component.toml` in it: what that says
    name                              a component bundled with conductor, else a program on PATH
    program argument …                a subprocess, split like a shell would, but run without one

Options follow a comma: `proxy.wasm,grant=clock,memory=32MiB` (`conductor.spec.component_options`).
Loaded before the event loop's modules: imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

import conductor
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import TRUSTED, ambiguous_key, merged
from conductor.errors import ConductorError, UsageError
from conductor.spec import component_options, untrusted_files
from conductor.spec.programs import AGENT, is_reserved, name_of, plain, runnable, stem, which

if TYPE_CHECKING:
    import pathlib

    from conductor.spec.component_options import Older
    from conductor.spec.manifest.values import Manifest

WASM_MAGIC: Final = b"\0asm"
MANIFEST: Final = "component.toml"
_DENY_HINT: Final = "`deny` is for components that were granted single services"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """One component, resolved.

    Exactly one of `command` (subprocess), `wasm` (path of a module, sandboxed) and `attribute`
    (`module:attribute`, in process) is set. `grants`: services it may use (None: all).
    """

    name: str
    command: list[str] | None = None
    env: dict[str, str] | None = None
    variables: dict[str, str] = {}
    """What of `env` the user wrote."""
    wasm: str | None = None
    attribute: str | None = None
    source: str = ""
    """What the user wrote in place of the three: a path, a name, a program."""
    bundled: str | None = None
    """Its name among the components that come with conductor, if it is one of those."""
    manifest: str = ""
    """Its `component.toml`, if it has one and is not bundled."""
    asked: Manifest | None = None
    """What it says of itself, if it is not bundled: by a manifest, or in its source."""
    hidden: bool = False
    """Whether its source may name a profile in a way that cannot be read off it."""
    older: tuple[Older, ...] = ()
    """What was said of its policy in words of older versions."""
    schema: dict[str, Any] = {}
    """What its manifest says of its settings (`conductor.spec.manifest.values.Setting`)."""
    script: str = ""
    """Python source that the guest in `wasm` runs: a `.py` file or a folder."""
    script_sha256: str = ""
    """What that must be, where a lock says so."""
    sha256: str = ""
    """What the module's file must be, where that is known."""
    pins: dict[str, str] = {}
    """Files and folders that must have these digests whenever it is started (a lock says so)."""
    locked: str = ""
    """The lock file that `sha256` and `pins` come from; empty: none."""
    dialect: str | None = None
    grants: frozenset[str] | None = None
    config: dict[str, Any] = {}
    config_file: str | None = None
    """Where more of its settings are (`conductor.spec.settings`)."""
    limits: dict[str, int] = {}
    policy: PolicyWords = PolicyWords(TRUSTED)
    """What it may do to the conversation. Unless told otherwise, sandboxed ones are `context`, or
    less if they ask for less, and bundled ones what their manifest asks for."""
    chosen: bool = False
    """Whether it is the user who named the profile of that."""
    on_failure: str = "fail"
    """What happens when it fails (`conductor.core.restart_state.CHOICES`)."""
    timeout: float | None = None
    """Seconds it may take to answer a request other than a prompt; None: as long as it likes."""
    quiet: float | None = None
    """Of an agent: see `conductor.run.plan.Planned`."""
    mcp_bridge: str | None = None
    """For an agent: how it is given MCP servers of proxies (`conductor.mcp.KINDS`)."""

    @property
    def sandboxed(self) -> bool:
        """Whether it runs as a WASM guest."""
        return self.wasm is not None

    @property
    def what(self) -> str:
        """What is run, as a person would type it."""
        if self.command is not None:
            return shlex.join(self.command)
        return self.script or self.wasm or f"py:{self.attribute}"

    def label(self, role: str) -> str:
        """How errors name it, e.g. "proxy `date` (python date.py)"."""
        what = self.what if self.wasm is None else os.path.basename(self.what)
        return f"{role} `{self.name}`" + ("" if what == self.name else f" ({what})")


def components_folder() -> pathlib.Path:
    """Where the bundled components are: in the installed package, or beside it in a checkout."""
    from pathlib import Path  # 4 ms to import, which an editor need not wait for

    return Path(os.path.realpath(folder()))


def folder() -> str:
    """The same, as a text, which takes no import."""
    here = os.path.dirname(conductor.__file__)
    installed = os.path.join(here, "_components")
    return installed if os.path.isdir(installed) else os.path.join(here, "..", "components")


def bundled() -> tuple[str, ...]:
    """Names of the components that come with conductor."""
    root = folder()
    names = (one.name for one in os.scandir(root) if one.is_dir())
    return tuple(
        sorted(name for name in names if os.path.isfile(os.path.join(root, name, MANIFEST)))
    )


def manifest(name: str) -> Manifest | None:
    """The manifest of a bundled component, or None if there is no such component."""
    path = os.path.join(folder(), name, MANIFEST)
    if not re.fullmatch(r"[\w-]+", name) or not os.path.isfile(path):
        return None
    from conductor.spec.manifest.reading import load

    return load(path, links=True)


def resolve_all(specs: Sequence[str], *, agent_last: bool = True) -> list[Spec]:
    """Resolves a whole chain; a name that is taken, or reserved, gets a number."""
    found: list[Spec] = []
    taken: set[str] = set()
    for at, text in enumerate(specs, 1):
        spec = _named(_resolved(text), taken, maybe_agent=agent_last and at == len(specs))
        taken.add(spec.name)
        found.append(spec)
    return found


def resolve(text: str) -> Spec:
    """Resolves one component spec. Raises `UsageError` with a hint."""
    return _named(_resolved(text), (), maybe_agent=True)


def _named(spec: Spec, taken: Collection[str], *, maybe_agent: bool) -> Spec:
    """The component under a name that nobody else has, and that means nothing else."""
    name, number = spec.name, 1
    own = name == AGENT and maybe_agent and not spec.sandboxed
    while name in taken or (is_reserved(name) and not own):
        number += 1
        name = f"{spec.name}-{number}"
    return spec if number == 1 else msgspec.structs.replace(spec, name=name)


def _resolved(text: str) -> Spec:
    text = text.strip()
    if text.startswith("{"):
        return _from_json(text)
    base, options = component_options.split(text)
    if not base:
        raise UsageError("an empty component", "give a path, a name or a command")
    try:
        return _resolve(base, options)
    except UsageError as error:
        odd = component_options.unread(base)
        if odd is None:
            wrong = component_options.misspelt(base)
            if wrong is None:
                raise
            raise UsageError(*wrong) from None
        key = odd.partition("=")[0]
        raise UsageError(
            error.text,
            f"`{odd}` is not read as an option: a value with commas is written in quotes, "
            f"""as in '…,{key}="a,b"'""",
        ) from None


def _resolve(base: str, options: list[tuple[str, str]]) -> Spec:
    if base.startswith("py:"):
        spec = Spec(name=plain(base.rpartition(":")[2]), attribute=base[3:], source=base)
        return _apply(spec, options)
    try:
        words = shlex.split(base)
    except ValueError as error:
        hint = _as_one_word(base) or "check its quotes"
        raise UsageError(f"cannot read component `{base}`: {error}", hint) from None
    found = manifest(words[0]) if len(words) > 1 else None
    if found is not None and found.command:
        start = _bundled(found)
        command = [*(start.command or ()), *words[1:]]
        return _apply(msgspec.structs.replace(start, command=command), options)
    try:
        return _apply(_single(words[0]) if len(words) == 1 else _command(words), options)
    except UsageError as error:
        hint = _as_one_word(base) if words != [base] else ""
        if not hint:
            raise
        raise UsageError(error.text, hint) from None


def _as_one_word(base: str) -> str:
    """How a path is written that a shell would take for several words; empty if it is none."""
    if not os.path.exists(base):
        return ""
    return (
        f"`{base}` is a path whose characters part words: put quotes around it within the "
        f"component, as in `{shlex.quote(base)}`"
    )


def _single(word: str) -> Spec:
    if word.endswith(".wasm"):
        return _self_described(_module(word))
    if word.endswith(".py") and (os.path.exists(word) or not which(word)):
        return _self_declared(_script(word))
    if word.endswith(".wat") and not which(word):
        raise UsageError(
            f"`{word}` is WebAssembly text, and what runs is a module",
            f"make it one: `python -m wasm_host.wat {word} {word.removesuffix('.wat')}.wasm`",
        )
    if os.path.basename(word) == MANIFEST and os.path.isfile(word):
        return _described(os.path.dirname(word) or ".", word)
    if (os.path.dirname(word) or word in (".", "..")) and os.path.isdir(word):
        described = os.path.isfile(os.path.join(word, MANIFEST))
        return _described(word, word) if described else _self_declared(_script(word))
    if word.startswith(("ws://", "wss://", "tcp://")):
        raise UsageError(f"remote component `{word}` is not supported yet", "run it as a command")
    found = manifest(word)
    if found is not None:
        return _bundled(found)
    return _command([word])


def _command(words: list[str]) -> Spec:
    return Spec(name=name_of(words), command=runnable(words, bundled), source=words[0])


def _module(path: str) -> Spec:
    if not os.path.isfile(path):
        raise UsageError(
            f"no such module: `{path}`",
            "check the path; it is relative to the current directory"
            if not os.path.isabs(path)
            else "check the path",
        )
    try:
        with untrusted_files.ordinary(path) as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}", "check the file") from None
    if magic != WASM_MAGIC:
        looks = "text" if magic.isascii() and magic else "something else"
        raise UsageError(
            f"`{path}` is not a WebAssembly module (it starts with {magic!r}, which is {looks})",
            "build the module first; `conductor inspect FILE` shows what a file is",
        )
    return Spec(
        name=plain(stem(path)),
        wasm=os.path.realpath(path),
        source=path,
        grants=frozenset(),
        policy=PolicyWords(),
        on_failure="restart",
    )


def _script(path: str) -> Spec:
    """Sandboxed Python."""
    from conductor.spec.python_guest import scripts

    scripts.check(path)
    wasm, digest = scripts.guest()
    whole = os.path.realpath(path)
    return Spec(
        name=plain(stem(whole)),
        wasm=wasm,
        sha256=digest,
        script=whole,
        source=path,
        grants=frozenset(),
        limits=scripts.LIMITS,
        policy=PolicyWords(),
        on_failure="restart",
    )


def _self_described(spec: Spec) -> Spec:
    """A module, narrowed by the manifest within it, or else beside it."""
    from conductor.spec.manifest import section

    assert spec.wasm is not None
    text = section.find(spec.wasm)
    if text is None:
        return _described_beside(spec, spec.wasm) or spec
    from conductor.spec.manifest import grants
    from conductor.spec.manifest.reading import parse

    found = parse(text, f"{spec.source}, section `{section.SECTION}`")
    if found.file is None:
        raise UsageError(
            f"the manifest within `{spec.source}` is that of a program",
            "`conductor build` writes the one of a module",
        )
    dialect = found.dialect if found.carrier == "wasi" else None
    return grants.narrowed(msgspec.structs.replace(spec, dialect=dialect), found)


def _described_beside(spec: Spec, file: str) -> Spec | None:
    """The component, narrowed by the manifest in its file's folder; None if there is none that is
    about the file."""
    here = os.path.dirname(file)
    path = os.path.join(here, MANIFEST)
    if not os.path.isfile(path):
        return None
    from conductor.spec.manifest import grants
    from conductor.spec.manifest.reading import load

    found = load(path)
    if found.file is None or os.path.realpath(os.path.join(here, found.file)) != file:
        return None
    dialect = found.dialect if found.carrier == "wasi" else None
    return grants.narrowed(msgspec.structs.replace(spec, manifest=path, dialect=dialect), found)


def _self_declared(spec: Spec) -> Spec:
    """Sandboxed Python, narrowed by the manifest beside it, or else by what its source says; none
    of it is run."""
    from conductor.spec.python_guest import scripts

    described = _described_beside(spec, spec.script)
    if described is not None:
        return described
    try:
        script = scripts.read(spec.script)
    except (OSError, ConductorError):
        return spec  # whoever starts it says what is wrong
    words = ("profile", "wants", "**")
    if not any(word in text for text in script.files.values() for word in words):
        return spec
    from conductor.spec.manifest import grants
    from conductor.spec.python_guest.facts import declared

    said = declared(script, settings=False)
    found = grants.of_source(spec.name, os.path.basename(spec.script), said)
    spec = msgspec.structs.replace(spec, hidden=said.hidden)
    return grants.narrowed(spec, found) if found.wants else spec


def _bundled(found: Manifest) -> Spec:
    from conductor.spec.manifest import grants

    here = os.path.join(os.path.realpath(folder()), found.name)
    spec = _of_manifest(found, here, found.name)
    return grants.granted(msgspec.structs.replace(spec, bundled=found.name), found)


def _described(place: str, source: str) -> Spec:
    """A component by its folder: a stranger's manifest, which grants nothing."""
    from conductor.spec.manifest import grants
    from conductor.spec.manifest.reading import load

    path = os.path.join(os.path.realpath(place), MANIFEST)
    found = load(path)
    spec = _of_manifest(found, os.path.dirname(path), source)
    return grants.narrowed(msgspec.structs.replace(spec, manifest=path), found)


def _of_manifest(found: Manifest, here: str, source: str) -> Spec:
    """What a manifest says is run, with no more powers than others of its kind."""
    from conductor.spec.manifest import grants

    if found.file is None:
        places = {"{python}": sys.executable, "{dir}": here}
        command = [grants.filled(word, places) for word in found.command]
        spec = _command(command)
        return msgspec.structs.replace(spec, name=found.name, source=source, dialect=found.dialect)
    path = os.path.join(here, found.file)
    if not f"{os.path.realpath(path)}/".startswith(f"{here.rstrip('/')}/"):
        raise UsageError(
            f"`file` of `{found.name}` is a link that leads out of its folder",
            f"it leads to {os.path.realpath(path)}: put a copy there",
        )
    if found.build.command and not os.path.exists(path):
        raise UsageError(
            f"`{found.name}` is not built: there is no `{found.file}`",
            f"`conductor build {os.path.relpath(here)}`",
        )
    if not os.path.exists(path):
        raise UsageError(
            f"`{found.name}` has no file `{found.file}`",
            f"`file` in {os.path.relpath(here)}/{MANIFEST} says what runs",
        )
    spec = _script(path) if found.scripted else _module(path)
    dialect = found.dialect if found.carrier == "wasi" else None
    return msgspec.structs.replace(spec, name=found.name, source=source, dialect=dialect)


def _apply(spec: Spec, given: list[tuple[str, Any]]) -> Spec:
    """The spec with its options."""
    options = component_options.read(spec.name, given)
    both = [
        one
        for one in sorted(options.grants or ())
        if not component_options.granted(frozenset([one]), None, options.denied)
    ]
    if both:
        raise UsageError(
            f"`{spec.name}` is granted `{both[0]}` and denied it",
            f"leave out `grant={both[0]}`, or the `deny` that takes it away",
        )
    try:
        grants = component_options.granted(spec.grants, options.grants, options.denied)
    except ValueError as error:
        raise UsageError(f"`deny` of `{spec.name}`: {error}", _DENY_HINT) from None
    before = spec.policy
    policy = PolicyWords(
        options.profile or before.profile,
        # What a manifest asks for besides its profile belongs to that profile.
        (*(() if options.profile else before.allow), *options.allow),
        options.named if options.profile else merged(before.grants, options.named),
        on_violation=options.on_violation or before.on_violation,
        fails=options.fails or before.fails,
        ids=options.ids or before.ids,
        hold=options.hold or before.hold,
    )
    if not spec.sandboxed and policy.ids != "kept":
        _tellable(options.name or spec.name, policy)
    return msgspec.structs.replace(
        spec,
        name=options.name or spec.name,
        dialect=options.dialect or spec.dialect,
        grants=grants,
        config={**spec.config, **options.config},
        config_file=os.path.abspath(options.config_file) if options.config_file else None,
        limits={**spec.limits, **options.limits},
        policy=policy,
        chosen=options.profile is not None,
        older=(*spec.older, *options.older),
        on_failure=options.on_failure or spec.on_failure,
        timeout=options.timeout or spec.timeout,
        quiet=options.quiet or spec.quiet,
        mcp_bridge=options.mcp_bridge or spec.mcp_bridge,
    )


def _tellable(name: str, words: PolicyWords) -> None:
    """Raises `UsageError` for a program whose requests nobody could tell from those of others."""
    policy = words.policy()
    key = ambiguous_key(policy) if policy is not None else ""
    if key:
        raise UsageError(
            f"`{name}` is a program that may pass `{key}` on and send some of its own: only by "
            "their ids can the two be told apart",
            "`,ids=kept` says that it passes requests on under the ids they came with; else grant "
            "it less, such as `,profile=filter`",
        )


def _from_json(text: str) -> Spec:
    from conductor.spec import json_form

    given = json_form.read(text)
    if given.command is not None:
        spec = _command([given.command, *given.args])
        if given.env is not None:
            env = {**os.environ, **given.env}
            spec = msgspec.structs.replace(spec, env=env, variables=given.env)
    elif given.wasm is not None:
        spec = _self_described(_module(given.wasm))
    else:
        spec = _single(str(given.component))
    return _apply(spec, given.options)
