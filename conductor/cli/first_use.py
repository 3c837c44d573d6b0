"""What a stranger's component asks for, told once, before it is used for the first time.

It is told on standard error and never asked about: an editor has no terminal, and the answer is the
command line, where everything has to be granted by name. What was told is remembered in the user's
state folder by the place of the manifest, and told again when it asks for something else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from conductor.catalog import Spec
from conductor.cli import report
from conductor.core.services import ALWAYS_GRANTED
from conductor.manifest.reading import load
from conductor.manifest.values import Manifest


def tell(specs: Sequence[Spec]) -> None:
    """Tells of those components that were not told of, or ask for something else by now."""
    for spec in specs:
        if not spec.manifest:
            continue
        found = load(spec.manifest)
        if (found.wants or found.command) and _remember(spec.manifest, found):
            for line in lines(spec, found):
                # On one line: none of what a stranger wrote passes for a line of ours.
                report.write(report.visible(line.replace("\n", " ")))


def tell_program(spec: Spec) -> None:
    """The same of a component that is only tried out, if that runs a program of a stranger's."""
    if spec.command is not None:
        tell([spec])


def lines(spec: Spec, found: Manifest) -> Iterator[str]:
    """What it asks for and why, and whether it gets it."""
    version = f" {found.version}" if found.version else ""
    wants = found.wants
    asks = ", which asks for" if wants else ""
    yield f"conductor: first use of `{found.name}`{version} ({spec.source}){asks}"
    if spec.command is not None:
        yield f"  it is a program, not sandboxed, and runs with your rights: {spec.what}"
    if wants.profile is not None:
        why = f", {wants.reason}" if wants.reason else ""
        given = spec.policy.profile
        fate = "given" if given == wants.profile else f"it is given {given}"
        yield f"  profile {wants.profile}{why}: {fate}"
    yield from _each("rule", wants.verbs.items(), spec.policy.allow, "allow")
    yield from _each("guard lifted:", wants.guards.items(), spec.policy.unguard, "unguard")
    grants = wants.services if spec.grants is None else spec.grants | ALWAYS_GRANTED
    yield from _each("service", wants.services.items(), grants, "grant")


def _each(
    word: str, asked: Iterable[tuple[str, str]], given: Iterable[str], option: str
) -> Iterator[str]:
    held = frozenset(given)
    for key, reason in asked:
        fate = "given" if key in held else f"not given; `,{option}={key}` behind it gives it"
        yield f"  {word} {key}, {reason}: {fate}"


def _remember(path: str, found: Manifest) -> bool:
    """Whether this was not told yet."""
    name = hashlib.sha256(path.encode()).hexdigest()[:32]
    asked = [found.wants, found.command] if found.command else found.wants
    told = hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()
    file = os.path.join(folder(), name)
    if _read(file) == told.encode():
        return False
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        with open(file, "w", encoding="ascii") as now:
            now.write(told)
    except OSError:
        return True  # it cannot be remembered, so it will be told again: better twice than never
    return True


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as before:
            return before.read(128)
    except OSError:
        return b""


def folder() -> str:
    """Where it is remembered what was told."""
    import platformdirs

    return os.path.join(platformdirs.user_state_dir("conductor", appauthor=False), "first-use")
