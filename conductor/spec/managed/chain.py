"""A whole chain, or one component, held to the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from conductor.errors import ConductorError, UsageError
from conductor.spec import catalog, guarded, origins, toml_files
from conductor.spec.config.model import Written
from conductor.spec.managed import bounds, identity, real_path
from conductor.spec.managed.file import BUNDLED, Entry, Managed, Required
from conductor.spec.model import Spec
from conductor.spec.settings import configuration

_replace = msgspec.structs.replace


def completed(managed: Managed, specs: Sequence[Spec], *, agent_last: bool) -> list[Spec]:
    """The chain with each required component in its place. Raises `UsageError`."""
    wanted = _required(managed)
    last = list(specs[-1:]) if agent_last else []
    chain = specs[: len(specs) - len(last)]
    agents = [*(spec for spec in chain if spec.peer_agent), *last]
    proxies = [spec for spec in chain if not spec.peer_agent]
    # From the ends on: a component next to the client or the agent comes last.
    for entry, spec in sorted(wanted, key=lambda pair: pair[0].place != "anywhere"):
        at = _place(entry, spec, proxies)
        if at is not None:
            proxies[at] = spec
        else:
            proxies.insert(len(proxies) if entry.place == "last" else 0, spec)
    return _renamed([*proxies, *agents], [spec for _, spec in wanted])


def held(managed: Managed, specs: Sequence[Spec], *, agent_last: bool) -> list[Spec]:
    """The chain, each component with the digests and limits that the policy sets.

    Raises `UsageError` that names the rule which the chain breaks.
    """
    wanted = _required(managed)
    proxies, agents = _parted(specs, agent_last=agent_last)
    for refusal in _missing(managed, wanted, proxies):
        raise refusal
    judged: list[Spec] = []
    for spec in proxies:
        known = next((e for e, own in wanted if _identity(own) == _identity(spec)), None)
        if known is None:
            judged.append(_judged(managed, spec, agent=False))
        else:
            judged.append(_known(managed, known, spec))
    return [*judged, *(_judged(managed, spec, agent=True) for spec in agents)]


def watched(
    managed: Managed, specs: Sequence[Spec], *, agent_last: bool
) -> Iterator[tuple[Spec, UsageError]]:
    """All refusals of the policy for the chain, each with its component. A refusal that is about
    the whole chain has the last component."""
    proxies, agents = _parted(specs, agent_last=agent_last)
    wanted: list[tuple[Required, Spec]] = []
    try:
        wanted = _required(managed)
    except UsageError as error:
        yield specs[-1], error
    yield from ((specs[-1], refusal) for refusal in _missing(managed, wanted, proxies))
    required = [_identity(own) for _, own in wanted]
    for spec in (*proxies, *agents):
        if _identity(spec) not in required:
            try:
                _judged(managed, spec, agent=spec in agents)
            except UsageError as error:
                yield spec, error


def _parted(specs: Sequence[Spec], *, agent_last: bool) -> tuple[list[Spec], list[Spec]]:
    """The proxies of a chain, and its agents."""
    chain = specs[:-1] if agent_last else specs
    proxies = [spec for spec in chain if not spec.peer_agent]
    return proxies, [*(spec for spec in chain if spec.peer_agent), *specs[len(chain) :]]


def _missing(
    managed: Managed, wanted: Sequence[tuple[Required, Spec]], proxies: Sequence[Spec]
) -> Iterator[UsageError]:
    """Refusals for required components that are not in their place in the chain."""
    for at, (entry, spec) in enumerate(wanted):
        if _place(entry, spec, proxies) is None:
            where = "" if entry.place == "anywhere" else f" {entry.place}"
            text = f"a chain without {spec.label('component')}{where}"
            yield managed.refusal(text, "required", at)


def held_alone(managed: Managed, spec: Spec, *, agent: bool = False) -> Spec:
    """One component, held to the policy outside of any chain. Raises `UsageError`."""
    agent = agent or (spec.manifest is not None and spec.manifest.kind == "agent")
    return _judged(managed, spec, agent=agent)


# -- required components ---------------------------------------------------------------------------


def _required(managed: Managed) -> list[tuple[Required, Spec]]:
    """The entries of the required components, each with its component. Raises `UsageError`."""
    pairs: list[tuple[Required, Spec]] = []
    for at, entry in enumerate(managed.file.required):
        try:
            spec = _resolved(managed, at, entry)
            spec = identity.allowed(entry, spec, managed.path)
            if spec.config_file is not None:
                real_path(spec.config_file)
            configuration(spec)
        except (ConductorError, OSError, identity.OtherError, guarded.UnguardedError) as error:
            why = str(error) or "it differs from the policy"
            text = f"the managed policy requires `{entry.source}`, which cannot run: {why}"
            raise _contradiction(managed, text, at) from None
        if managed.file.require_sandbox and not spec.sandboxed:
            text = f"the managed policy requires `{entry.source}`, and a sandbox that it has not"
            raise _contradiction(managed, text, at)
        taken = [other.name for _, other in pairs]
        name = catalog.free_name(spec.name, taken.__contains__)
        pairs.append((entry, _replace(spec, name=name, required=True)))
    return pairs


def _contradiction(managed: Managed, text: str, at: int) -> UsageError:
    place = "" if managed.path in text else f" ({managed.line('required', at)})"
    hint = f"conductor runs nothing until that is mended: ask {managed.file.contact}"
    return UsageError(f"{text}{place}", hint)


def _resolved(managed: Managed, at: int, entry: Required) -> Spec:
    """The component of an entry, as the policy alone describes it. Raises `UsageError`."""
    source = str(entry.source).removeprefix(f"{BUNDLED}:")
    written: dict[str, Any] = {"component": source, **entry.options}
    if entry.args:
        written = {"command": source, "args": entry.args, **entry.options}
    here = ("required", at)
    known = {
        keys[2:]: f"{managed.path}, line {line}"
        for keys, line in toml_files.lines(managed.text).items()
        if keys[:2] == here
    }
    places = dict.fromkeys(entry.options, known.get(("options",), known[()]))
    places |= dict.fromkeys(("component", "command"), known[("source",)])
    places |= {".".join(map(str, keys[1:])): known[keys] for keys in known if keys[1:]}
    return catalog.resolve(Written(written, origin=known[()], origins=places))


def _place(entry: Required, spec: Spec, proxies: Sequence[Spec]) -> int | None:
    """The index of the component that stands where an entry requires it; None: none does."""
    indices = range(len(proxies))
    places = {"first": indices[:1], "last": indices[-1:]}
    required = _identity(spec)
    right = (at for at in places.get(entry.place, indices) if _identity(proxies[at]) == required)
    return next(right, None)


def _identity(spec: Spec) -> Spec:
    """A component without fields that depend on how the user wrote it, and on locks."""
    mine = {"source": "", "locked": "", "sha256": "", "script_sha256": "", "pins": {}}
    return _replace(origins.bare(spec), required=False, **mine)


def _renamed(specs: Sequence[Spec], wanted: Sequence[Spec]) -> list[Spec]:
    """The chain; the user's components with the name of a required one have other names."""
    own = {id(spec) for spec in wanted}
    taken = [spec.name for spec in specs]
    reserved = {spec.name for spec in wanted}
    chain: list[Spec] = []
    for spec in specs:
        if spec.name in reserved and id(spec) not in own:
            name = catalog.free_name(spec.name, taken.__contains__)
            taken.append(name)
            chain.append(_replace(spec, name=name))
        else:
            chain.append(spec)
    return chain


def _known(managed: Managed, entry: Entry, spec: Spec) -> Spec:
    """A required component, with the digests that the policy knows it by. Raises `UsageError`."""
    try:
        return identity.allowed(entry, spec, managed.path)
    except identity.OtherError as error:
        raise managed.refusal(f"{spec.label('component')}: {error}", "required") from None


# -- permission for components ---------------------------------------------------------------------


def _judged(managed: Managed, spec: Spec, *, agent: bool) -> Spec:
    """A component that the policy does not require. Raises `UsageError`."""
    label = spec.label("agent" if agent else "proxy")
    named = f"{label}{origins.by(spec.written)}"
    if spec.attribute is not None:
        text = f"{named} is code in the conductor's own process, where it could undo the policy"
        raise UsageError(
            f"{text}: no `py:` component runs under the managed policy {managed.path}",
            f"make it sandboxed Python, or ask {managed.file.contact}",
        )
    if not agent and managed.file.require_sandbox and not spec.sandboxed:
        hint = "use a WebAssembly or sandboxed Python build of the component"
        raise managed.refusal(f"{named} is not sandboxed", "require-sandbox", hint=hint)
    entries: Sequence[Entry] | None = managed.file.agents if agent else managed.file.components
    table = "agents" if agent else "components"
    if entries is None:
        return spec if agent else _bounded(managed, spec, label)
    whys: list[str] = []
    beyond: UsageError | None = None
    for at, entry in enumerate(entries):
        try:
            found = identity.allowed(entry, spec, managed.path)
            return found if agent else _bounded(managed, found, label, at)
        except identity.OtherError as error:
            whys += [f"{table}[{at}]: {error}"] if str(error) else []
        except UsageError as error:
            beyond = beyond or error
    if beyond is not None:
        raise beyond
    raise managed.refusal("\n".join([named, *whys]), table)


def _bounded(managed: Managed, spec: Spec, label: str, at: int | None = None) -> Spec:
    """A proxy within the most that its entry allows, or else the policy. Raises `UsageError`."""
    most = managed.file.most
    place: tuple[str | int, ...] = ("most",)
    if at is not None and managed.file.components is not None:
        own = managed.file.components[at].most
        most, place = (most, place) if own is None else (own, ("components", at, "most"))
    try:
        return origins.layered(spec, bounds.bounded(most, spec), managed.line(*place, "limits"))
    except bounds.BeyondError as error:
        raise managed.refusal(f"{label}: {error}", *place, error.key) from None
