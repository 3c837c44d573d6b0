"""From a user's words to a `Spec`: the only place that knows every kind of component.

Kinds of a component, in the order they are tried:

    {"command": …} / {"wasm": …}      a JSON object, or a table of a file
    py:module:attribute               in this process, trusted
    path:name                         a program on PATH
    ws://host, unix:path …            at an address (`conductor.transports.remote.address`), trusted
    name                              a chain or a component of the configuration
    path/to/proxy.wasm                sandboxed
    path/to/proxy.py, path/to/folder/ sandboxed Python (`conductor.spec.python_guest.scripts`)
    path/to/folder/                   with a `component.toml` in it, which names the file or command
    name                              an installed component (`conductor.spec.installed`), else one
                                      bundled with conductor, else a known agent
                                      (`conductor.spec.agents`), else a program on PATH
    program argument …                a subprocess, split as a shell would, but run without one

Options follow a comma: `proxy.wasm,allow=clock,memory=32MiB` (`conductor.spec.component_options`).
The start path loads this module before the event loop's, so it imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from conductor import children
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.rules import ambiguous_key
from conductor.errors import ConductorError, UsageError, visible_path
from conductor.spec import component_options, paths, syntax, untrusted_files
from conductor.spec.component_options import Options
from conductor.spec.model import Spec
from conductor.spec.origins import COMMAND_LINE, blamed, layered
from conductor.spec.paths import MANIFEST
from conductor.spec.programs import (
    AGENT,
    first_of,
    is_reserved,
    name_of,
    plain,
    runnable,
    stem,
    which,
)

if TYPE_CHECKING:
    from conductor.spec.config.model import Config, Written
    from conductor.spec.manifest.reading import Manifest
    from conductor.spec.python_guest.facts import Declared

WASM_MAGIC: Final = b"\0asm"

Note: TypeAlias = Callable[[str], None]
"""Called with a sentence about another meaning that a name hides."""


class _PlacedError(UsageError):
    """A mistake in a component of a file: its text begins with the file and the line."""


class _Names(msgspec.Struct, frozen=True):
    """The meanings that a word may have here, besides bundled components and programs on PATH."""

    config: Config | None = None
    note: Note | None = None
    inside: tuple[str, ...] = ()
    """The components of the configuration that are being resolved, the outermost first."""
    is_last: bool = True
    """Whether the word stands in the agent's place: only there a word means a known agent."""
    written: Written | None = None
    """The entry in which the word stands; None: the command line."""

    def set_by(self, option: str) -> str:
        """Who has written an option behind the word."""
        return self.written.origin_of(option) if self.written is not None else COMMAND_LINE

    def placed(self, error: UsageError, option: str) -> UsageError:
        """The error with the place of an option behind the word, if that is not the command
        line."""
        written = self.written is not None and self.written.origin
        return _placed_error(error, self.set_by(option)) if written else error

    def known(self, word: str) -> list[str]:
        """Every name that a word in this place may have meant, for the hint about it."""
        import difflib

        from conductor.spec import agents, installed

        config = self.config
        own = [*config.chains, *config.components] if config is not None else []
        # Agents have so many names that one of them is a little like any word.
        alike = difflib.get_close_matches(word, agents.words(), 1, 0.8) if self.is_last else []
        return [*own, *installed.names(), *bundled(), *alike]


_NO_NAMES: Final = _Names()


def resolve_all(
    components: Sequence[str | Written],
    *,
    agent_last: bool = True,
    config: Config | None = None,
    note: Note | None = None,
) -> list[Spec]:
    """Resolves a whole chain; a name that is taken, or reserved, gets a number.

    Args:
        components: Components, and names of chains, which stand for their components.
        agent_last: Whether the last component is the agent.
        config: The configuration; None: none.
        note: Called for each name that hides another meaning.

    Raises:
        UsageError: With a hint. Of a component in a file it names the file and the line.
    """
    known = _names(config, note)
    if known.config is not None:
        from conductor.spec.config import names

        components = names.flat(components, known.config, note)
    specs: list[Spec] = []
    taken: set[str] = set()
    for at, component in enumerate(components, 1):
        is_last = agent_last and at == len(components)
        within = known if is_last else msgspec.structs.replace(known, is_last=False)
        spec = _named(_resolved(component, within), taken, maybe_agent=is_last)
        taken.add(spec.name)
        specs.append(spec)
    return specs


def resolve(component: str | Written, config: Config | None = None) -> Spec:
    """Resolves one component. Raises `UsageError` with a hint."""
    return _named(_resolved(component, _names(config)), (), maybe_agent=True)


def at(path: str) -> Spec:
    """The component that a path leads to; nothing in the path is read as an option.

    Raises `UsageError` with a hint.
    """
    spec = _of_path(path)
    if spec is None:
        raise UsageError(f"`{path}` is no component", "it is a `.wasm`, a `.py` or a folder")
    return _named(_unambiguous(spec), (), maybe_agent=True)


def may_be(word: str) -> bool:
    """Whether a word can be a component: there is a component, or a known agent, of this name."""
    from conductor.spec import agents

    if agents.named(word) is not None:
        return True
    try:
        return bool(resolve(word))
    except UsageError:
        return False


def settings(word: str, here: str = "", names: _Names = _NO_NAMES) -> Collection[str]:
    """The settings that a component without options declares; none if it is unknown."""
    try:
        spec = _of_text(word, here, names)
    except UsageError:
        return ()
    return spec.manifest.config if spec.manifest is not None else ()


def _names(config: Config | None, note: Note | None = None) -> _Names:
    is_empty = config is None or not (config.chains or config.components or config.indexes)
    return _Names(None if is_empty else config, note)


def _named(spec: Spec, taken: Collection[str], *, maybe_agent: bool) -> Spec:
    """The component under a name that no other component has, and that is not reserved."""
    own = spec.name == AGENT and maybe_agent and not spec.sandboxed
    name = free_name(spec.name, lambda name: name in taken or (is_reserved(name) and not own))
    return spec if name == spec.name else msgspec.structs.replace(spec, name=name)


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """The name, or the first of `NAME-2`, `NAME-3` … that is not taken."""
    free, number = name, 1
    while is_taken(free):
        number += 1
        free = f"{name}-{number}"
    return free


def _resolved(component: str | Written, names: _Names) -> Spec:
    if isinstance(component, str):
        return _unambiguous(_of_typed(component, "", names))
    try:
        return _from(component, _unambiguous(_of_written(component, names)))
    except UsageError as error:
        raise _placed_error(error, component.origin) from None


def _from(written: Written, spec: Spec) -> Spec:
    """The component with the place that names it; one within its own table has that already."""
    return spec if spec.written else msgspec.structs.replace(spec, written=written.origin)


def _placed_error(error: UsageError, origin: str) -> UsageError:
    """The error with the place of the component, unless it names an inner component's place."""
    if not origin or isinstance(error, _PlacedError):
        return error
    return _PlacedError(f"{origin}: {error.text}", error.hint)


def _of_written(written: Written, names: _Names) -> Spec:
    names = msgspec.structs.replace(names, written=written)
    if isinstance(written.what, str):
        return _of_typed(written.what, written.here, names)
    if isinstance(written.what, list):
        return _of_rest(written.what, names)
    return _of_object(written.what, written.here, names)


def _of_typed(text: str, here: str, names: _Names) -> Spec:
    """A component as on a command line; its relative paths start from `here`, if that is given."""
    text = text.strip()
    if text.startswith("{"):
        return _of_object(text, here, names)
    base, options = syntax.split(text)
    if not base:
        raise UsageError("an empty component", "give a path, a name or a command")
    try:
        return _with_options(_of_text(base, here, names), options, here, names)
    except UsageError as error:
        raise syntax.misread(base, error, lambda word: settings(word, here, names)) from None


def _of_text(base: str, here: str, names: _Names) -> Spec:
    try:
        words = shlex.split(base)
    except ValueError as error:
        if os.path.exists(os.path.join(here, base)):
            return _of_word(_placed(base, here), names)
        raise UsageError(f"cannot read component `{base}`: {error}", "check its quotes") from None
    if len(words) == 1:
        return _of_word(_placed(words[0], here), names)
    # A path with blanks. A file must not take the place of a command that is called like it.
    if ("/" in words[0] or not which(words[0])) and os.path.exists(os.path.join(here, base)):
        return _of_word(_placed(base, here), names)
    return _of_command(words, here, names)


def _of_command(words: list[str], here: str, names: _Names) -> Spec:
    """A command with arguments: an installed or bundled program, or one on PATH."""
    installed = _of_installed(words[0])
    if installed is not None and installed.command is not None:
        return msgspec.structs.replace(installed, command=[*installed.command, *words[1:]])
    manifest = bundled_manifest(words[0])
    if here:
        from conductor.spec.config import anchors

        words = anchors.command(words, here)
    if manifest is None or not manifest.command:
        return _command([words[0].removeprefix("path:"), *words[1:]], names)
    spec = _bundled(manifest)
    return msgspec.structs.replace(spec, command=[*(spec.command or ()), *words[1:]])


def _of_rest(words: list[str], names: _Names) -> Spec:
    """The component after `--` on a command line: one command, as it was typed."""
    manifest = bundled_manifest(words[0])
    is_component = manifest is not None and not manifest.command
    if is_component or words[0].startswith(("@", "{")) or words[0].endswith(".wasm"):
        raise UsageError(
            f"`{words[0]}` is no command, and one command with its arguments follows `--`",
            "components stand in front of `--`; without a command leave out the `--`",
        )
    return _of_command(words, "", names)


def _of_object(given: str | dict[str, Any], here: str, names: _Names) -> Spec:
    try:
        component, options = syntax.read_object(given)
    except component_options.OptionError as error:
        raise names.placed(error, error.key) from None
    try:
        spec = _of_kind(component, here, names)
    except UsageError as error:
        raise names.placed(error, component.kind) from None
    spec = _with_environment(spec, component.env or {}, here, names)
    return _with_options(spec, options, here, names)


def _of_kind(component: syntax.ComponentObject, here: str, names: _Names) -> Spec:
    """A component of the kind that an object gives."""
    if component.command is not None:
        words = [component.command, *component.args]
        if here:
            from conductor.spec.config import anchors

            words = anchors.command(words, here)
        return _command(words, names)
    if component.wasm is not None:
        return _self_described(_module(_placed(component.wasm, here, is_path=True)))
    return _of_word(_placed(str(component.component), here), names)


def _with_environment(spec: Spec, env: dict[str, Any], here: str, names: _Names) -> Spec:
    """The program with variables added to its environment, each a layer. Raises `UsageError`."""
    for name, value in env.items():
        try:
            changed = _with_variable(spec, name, value, here)
        except UsageError as error:
            raise names.placed(error, f"env.{name}") from None
        spec = layered(spec, changed, names.set_by(f"env.{name}"))
    return spec


def _with_variable(spec: Spec, name: str, value: Any, here: str) -> Spec:
    """The program with a variable. Raises `UsageError`."""
    if not name or "=" in name or "\0" in name:
        hint = "a name is not empty, and has no `=`"
        raise UsageError(f"`{spec.name}` cannot have a variable `{name}`", hint)
    env = spec.env or children.inherited()
    if isinstance(value, str):
        variables = {**spec.variables, name: value}
        return msgspec.structs.replace(spec, env={**env, name: value}, variables=variables)
    from conductor.spec import secrets

    found = secrets.references(secrets.anchored({name: value}, here), spec.name)
    variables = {**spec.variables, name: secrets.shown(found[name])}
    return msgspec.structs.replace(
        spec, env=env, variables=variables, secrets={**spec.secrets, **found}
    )


def _placed(word: str, here: str, *, is_path: bool = False) -> str:
    """A word of a component that is written in the folder `here`: a path is made absolute."""
    if not here:
        return word
    from conductor.spec.config import anchors

    return anchors.path(word, here) if is_path else anchors.word(word, here)


def _with_options(spec: Spec, options: Options, here: str, names: _Names) -> Spec:
    if here:
        from conductor.spec.config import anchors

        options = anchors.options(options, here)
    try:
        return component_options.apply(spec, options, names.set_by)
    except component_options.OptionError as error:
        raise names.placed(error, error.key) from None


def _unambiguous(spec: Spec) -> Spec:
    """The spec. Raises `UsageError` for a program whose own requests nobody could tell from those
    it passes on."""
    policy = None if spec.sandboxed or spec.policy.ids == "kept" else spec.policy.policy()
    key = ambiguous_key(policy) if policy is not None else ""
    if key:
        error = UsageError(
            f"`{spec.name}` is a program that may pass `{key}` on and send some of its own: only "
            "by their ids can the two be told apart",
            "`,ids=kept` says that it passes requests on under the ids they came with; else grant "
            "it less, such as `,only=filter`",
        )
        raise blamed(error, spec.written)
    return spec


def _of_word(word: str, names: _Names) -> Spec:
    if word.startswith("py:"):
        return Spec(name=plain(word.rpartition(":")[2]), attribute=word[3:], source=word)
    if word.startswith("path:"):
        if word == "path:":
            raise UsageError("`path:` without a program", "as in `path:claude-agent-acp`")
        return _command([word[5:]], names)
    if ":" in word and (remote := _remote(word)) is not None:
        return remote
    if names.config is not None and (spec := _of_configured(word, names)) is not None:
        return spec
    if word.startswith("@"):
        raise UsageError(f"there is no chain `{word[1:]}`", "`[chains.NAME]` in conductor.toml")
    return _of_path(word) or _of_name(word, names)


def _of_configured(word: str, names: _Names) -> Spec | None:
    """The component of the configuration that a word names; None if there is none."""
    config = names.config
    assert config is not None
    if word.removeprefix("@") in config.chains and word not in config.components:
        raise UsageError(
            f"`{word}` is a chain, and one component is meant here",
            "the name of a chain stands by itself, in place of its components; "
            f"`conductor agent @{word.removeprefix('@')} --dry-run` shows the chain",
        )
    # Within its own table a name has its hidden meaning: `[components.datetime]` may be `datetime`.
    if word not in config.components or names.inside[-1:] == (word,):
        return None
    from conductor.spec.config import names as configured

    configured.refuse_circle(word, names.inside, config.components[word].origin)
    if names.note is not None and not names.inside:
        configured.note_hidden("component", word, config.components[word].origin, names.note)
    within = msgspec.structs.replace(names, inside=(*names.inside, word))
    written = configured.named_like(word, config.components[word])
    try:
        return _from(written, _of_written(written, within))
    except UsageError as error:
        raise _placed_error(error, written.origin) from None


def _of_path(word: str) -> Spec | None:
    """The component that a path leads to; None if the word is no path of a component."""
    if word.endswith(".wasm"):
        return _self_described(_module(word))
    if word.endswith(".py") and (os.path.exists(word) or not which(word)):
        return _self_declared(_script(word))
    if word.endswith(".wat") and not which(word):
        raise UsageError(
            f"`{word}` is WebAssembly text, and only a module can run",
            f"make it one: `python -m wasm_host.wat {word} {word.removesuffix('.wat')}.wasm`",
        )
    if os.path.basename(word) == MANIFEST and os.path.isfile(word):
        return _described(os.path.dirname(word) or ".", word)
    if (os.path.dirname(word) or word in (".", "..")) and os.path.isdir(word):
        described = os.path.isfile(os.path.join(word, MANIFEST))
        return _described(word, word) if described else _self_declared(_script(word))
    return None


def _of_name(word: str, names: _Names) -> Spec:
    """An installed component, or else a bundled component, a known agent or a program."""
    installed = _of_installed(word)
    if installed is not None:
        if names.note is not None:
            _note_hidden(word, names.note)
        return installed
    manifest = bundled_manifest(word)
    if manifest is None:
        agent = _of_agent(word, names)
        if agent is not None:
            return agent
        try:
            return _command([word], names)
        except UsageError as error:
            raise _or_offered(word, names, error) from None
    if names.note is not None and (program := which(word)):
        names.note(
            f"the bundled component `{word}` hides the program {program}; "
            f"`path:{word}` means the program"
        )
    return _bundled(manifest)


def _of_agent(word: str, names: _Names) -> Spec | None:
    """The known agent that a word means; None if it means none. Raises `UsageError` if the agent is
    not installed, or stands elsewhere than last."""
    if os.path.dirname(word):
        return None
    from conductor.spec import agents

    agent = agents.named(word)
    if agent is None:
        return None
    if not names.is_last:
        # A proxy of the user may be called like an agent: `pi`, `mux`, `pool`.
        if which(word):
            return None
        raise UsageError(
            f"`{word}` is an agent, and stands where a proxy does",
            "the agent is the last component; a proxy of that name is not on PATH",
        )
    # The name of one of its programs means this program, if it is there.
    path = which(word) if word in agent.all_programs else None
    path = path or first_of(agent.all_programs)
    if path is None:
        text, hint = agents.missing(agent, word)
        raise UsageError(
            text, hint + (f"; `path:{word}` is another program" if which(word) else "")
        )
    if names.note is not None and (program := which(word)) and program != path:
        names.note(
            f"the known agent `{word}` hides the program {program}; `path:{word}` means the program"
        )
    return Spec(name=agent.id, command=[path, *agent.command[1:]], source=word)


# -- the sources of a component: a program, a module, Python source --------------------------------


def _command(words: list[str], names: _Names = _NO_NAMES) -> Spec:
    return Spec(name=name_of(words), command=runnable(words, names.known), source=words[0])


def _remote(word: str) -> Spec | None:
    """A component at an address; None: the word is no address."""
    from conductor.transports.remote import address as addresses

    if not addresses.is_address(word):
        return None
    places = addresses.parse_all(word)
    first, source = places[0], ",".join(map(str, places))
    name = stem(first.path) if first.row.is_path else first.host
    return Spec(name=plain(name), address=source, source=source)


def _module(path: str) -> Spec:
    if not os.path.isfile(path):
        relative = "" if os.path.isabs(path) else "; it is relative to the current directory"
        raise UsageError(f"no such module: `{path}`", f"check the path{relative}")
    try:
        with untrusted_files.ordinary(path) as file:
            magic = file.read(4)
    except OSError as error:
        raise UsageError(f"cannot read `{path}`: {error.strerror}", "check the file") from None
    if magic != WASM_MAGIC:
        looks = "text" if magic.isascii() and magic else "something else"
        raise UsageError(
            f"`{path}` is not a WebAssembly module (it starts with {magic!r}, which is {looks})",
            "build the module first; `conductor inspect FILE` tells the kind of a file",
        )
    return Spec(
        name=plain(stem(path)),
        wasm=os.path.realpath(path),
        source=path,
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
        limits=scripts.LIMITS,
        policy=PolicyWords(),
        on_failure="restart",
    )


# -- the descriptions of a component: a manifest, in three places, or its source -------------------


def _self_described(spec: Spec) -> Spec:
    """A module, narrowed by the manifest within it, or else by the manifest beside it."""
    from conductor.spec.manifest import section

    assert spec.wasm is not None
    text = section.find(spec.wasm)
    if text is None:
        return _described_beside(spec, spec.wasm) or spec
    from conductor.spec.manifest.reading import parse

    manifest = parse(text, f"{spec.source}, section `{section.SECTION}`")
    if manifest.file is None:
        raise UsageError(
            f"the manifest within `{spec.source}` is that of a program",
            "`conductor test --build` writes the one of a module",
        )
    return _narrowed(spec, manifest)


def _described_beside(spec: Spec, file: str) -> Spec | None:
    """The component, narrowed by the manifest in its file's folder; None if the folder has none, or
    one about another file."""
    here = os.path.dirname(file)
    path = os.path.join(here, MANIFEST)
    if not os.path.isfile(path):
        return None
    from conductor.spec.manifest.reading import load

    manifest = load(path)
    if manifest.file is None or os.path.realpath(os.path.join(here, manifest.file)) != file:
        return None
    return _agreeing(spec, manifest, path)


def _self_declared(spec: Spec) -> Spec:
    """Sandboxed Python, narrowed by the manifest beside it, or else by its source, which is read
    and not run."""
    described = _described_beside(spec, spec.script)
    if described is not None:
        return described
    declared = _declared(spec)
    if declared is None:
        return spec
    from conductor.spec.python_guest import facts

    manifest = facts.manifest(spec.name, os.path.basename(spec.script), declared)
    spec = msgspec.structs.replace(spec, unreadable_rights=declared.hidden, declared=declared)
    return _narrowed(spec, manifest) if manifest.rights is not None else spec


def _declared(spec: Spec) -> Declared | None:
    """The declarations in the Python source of a component. None: there are none, or the source
    cannot be read; then the start of the guest reports the error."""
    from conductor.spec.python_guest import scripts

    try:
        script = scripts.read(spec.script)
    except (OSError, ConductorError):
        return None
    # Reading a source takes milliseconds; a search in the text finds sources without declarations.
    if not any(w in text for text in script.files.values() for w in ("rights", "**", "@")):
        return None
    from conductor.spec.python_guest import facts

    return facts.declared(script, settings=False)


def _described(place: str, source: str) -> Spec:
    """A component by its folder: a stranger's manifest, which grants nothing."""
    from conductor.spec.manifest.reading import load

    path = os.path.join(os.path.realpath(place), MANIFEST)
    manifest = load(path)
    spec = _of_manifest(manifest, os.path.dirname(path), source)
    return _agreeing(spec, manifest, path)


def _agreeing(spec: Spec, manifest: Manifest, path: str) -> Spec:
    """A component, narrowed by its component.toml. Raises `UsageError` where its Python source
    declares something else: only one of both would hold, and its handlers would miss messages."""
    declared = _declared(spec) if spec.script else None
    if declared is not None:
        from conductor.spec.python_guest import facts

        facts.compare(declared, manifest, visible_path(path))
        spec = msgspec.structs.replace(spec, declared=declared)
    return _narrowed(spec, manifest, manifest_path=path)


def _narrowed(spec: Spec, manifest: Manifest, **fields: str) -> Spec:
    from conductor.spec.manifest import grants

    # The ABI of a module gives its dialect, but for a WASI command.
    dialect = manifest.dialect if manifest.carrier == "wasi" or spec.command else None
    return grants.narrowed(msgspec.structs.replace(spec, dialect=dialect, **fields), manifest)


def _of_manifest(manifest: Manifest, here: str, source: str) -> Spec:
    """The component that a manifest in the folder `here` describes, before it grants anything."""
    if manifest.file is None:
        from conductor.spec.manifest.grants import filled

        places = {"{python}": sys.executable, "{dir}": here}
        spec = _command([filled(word, places) for word in manifest.command])
    else:
        path = os.path.join(here, manifest.file)
        _check_file(manifest, here, path)
        spec = _script(path) if manifest.scripted else _module(path)
    return msgspec.structs.replace(spec, name=manifest.name, source=source)


def _check_file(manifest: Manifest, here: str, path: str) -> None:
    """Raises `UsageError` unless the file is there, and within the component's folder."""
    if not f"{os.path.realpath(path)}/".startswith(f"{here.rstrip('/')}/"):
        raise UsageError(
            f"`file` of `{manifest.name}` is a link that leads out of its folder",
            f"it leads to {os.path.realpath(path)}: put a copy there",
        )
    if os.path.exists(path):
        return
    if manifest.build.command:
        raise UsageError(
            f"`{manifest.name}` is not built: there is no `{manifest.file}`",
            f"`conductor test --build {os.path.relpath(here)}`",
        )
    raise UsageError(
        f"`{manifest.name}` has no file `{manifest.file}`",
        f"`file` in {os.path.relpath(here)}/{MANIFEST} says what runs",
    )


# -- installed components --------------------------------------------------------------------------


def _of_installed(word: str) -> Spec | None:
    """The installed component of a name; None if there is none. Raises `UsageError`."""
    receipts = os.path.join(paths.installed(), "receipts")
    if "/" in word or not os.path.lexists(os.path.join(receipts, f"{word}.json")):
        return None
    from conductor.spec import installed

    receipt = installed.find(word)
    if receipt is None:
        return None
    return msgspec.structs.replace(at(receipt.place), name=word, source=word, receipt=receipt)


def _note_hidden(word: str, note: Note) -> None:
    """Reports the other meaning that the name of an installed component hides."""
    if bundled_manifest(word) is not None:
        note(f"the installed component `{word}` hides the bundled one")
    elif program := which(word):
        note(
            f"the installed component `{word}` hides the program {program}; "
            f"`path:{word}` means the program"
        )


def _or_offered(word: str, names: _Names, error: UsageError) -> UsageError:
    """The error about an unknown name; a catalogue of the configuration gives the hint."""
    if names.config is None or not names.config.indexes:
        return error
    from conductor.spec import catalogues

    entry = catalogues.offer(word, names.config.indexes)
    if entry is None:
        return error
    where = f" (in {entry.catalogue})"
    return UsageError(f"`{word}` is not installed", f"`conductor add {word}` installs it{where}")


# -- bundled components ----------------------------------------------------------------------------


def bundled() -> tuple[str, ...]:
    """Names of the components that come with conductor."""
    root = paths.components()
    names = (entry.name for entry in os.scandir(root) if entry.is_dir())
    return tuple(
        sorted(name for name in names if os.path.isfile(os.path.join(root, name, MANIFEST)))
    )


def bundled_manifest(name: str) -> Manifest | None:
    """The manifest of a bundled component, or None if there is no such component."""
    path = os.path.join(paths.components(), name, MANIFEST)
    if not re.fullmatch(r"[\w-]+", name) or not os.path.isfile(path):
        return None
    from conductor.spec.manifest.reading import load

    return load(path, links=True, bundled=name)


def _bundled(manifest: Manifest) -> Spec:
    from conductor.spec.manifest import grants

    name = manifest.name
    spec = _of_manifest(manifest, os.path.join(paths.components(), name), name)
    dialect = manifest.dialect if manifest.carrier == "wasi" or spec.command else None
    return grants.granted(msgspec.structs.replace(spec, bundled=name, dialect=dialect), manifest)
