"""What a stranger's component asks for, told once, before it is used for the first time.

It is told on standard error and never asked about: an editor has no terminal, and the answer is the
command line, where everything has to be granted by name. What was told is remembered in the user's
state folder by the place of the component, and told again when it asks for something else. So is
what the command line says in words of older versions.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from conductor.cli import report
from conductor.core.policy.rule_syntax import PolicyWords, lacking, parse_grant, parse_rule, permits
from conductor.core.policy.rules import SAYS
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.spec.catalog import Spec
from conductor.spec.manifest.values import Manifest

_DEFAULT: Final = PolicyWords().profile
HIDDEN: Final = (
    'no profile can be read off its source, as it could be off `Proxy(…, profile="observer")`'
)
"""What is said of a source that may name a profile, but not in such words."""


def tell(specs: Sequence[Spec]) -> None:
    """Tells of those components that were not told of, or ask for something else by now."""
    for spec in specs:
        if spec.bundled is None:
            _tell(_place(spec), _asks(spec), lines(spec))
        said = f"older {spec.source} {spec.name}".encode("utf-8", "backslashreplace").decode()
        _tell(said, spec.older, older(spec))


def tell_program(spec: Spec) -> None:
    """The same of a component that is only tried out, if that runs a program of a stranger's."""
    if spec.command is not None:
        tell([spec])


def _tell(place: str, what: Any, said: Iterable[str]) -> None:
    if what and _remember(place, what):
        for line in said:
            # On one line: what follows the first line of an entry is indented, as ours are.
            report.write(line.replace("\n", " "))


def _place(spec: Spec) -> str:
    """Where it is; a name may hold bytes that are no text, which are told apart all the same."""
    place = spec.manifest or spec.script or spec.wasm or ""
    return place.encode("utf-8", "backslashreplace").decode()


def _asks(spec: Spec) -> Any:
    """What is worth telling of it; nothing: it is not told of."""
    found = spec.asked
    if found is None or not (found.wants or found.command):
        if not spec.sandboxed or spec.chosen:
            return None
        return HIDDEN if spec.hidden else _DEFAULT
    return [found.wants, found.command] if found.command else found.wants


def lines(spec: Spec) -> Iterator[str]:
    """What it asks for and why, and whether it gets it; or that it says nothing."""
    found = spec.asked or Manifest(name=spec.name)
    version = f" {found.version}" if found.version else ""
    wants, words = found.wants, spec.policy
    asks = ", which asks for" if wants else ""
    yield f"conductor: first use of `{spec.name}`{version} ({spec.source}){asks}"
    if spec.command is not None:
        yield f"  it is a program, not sandboxed, and runs with your rights: {spec.what}"
    if wants.profile is not None:
        why = f", {wants.reason}" if wants.reason else ""
        fate = "given"
        if words.profile != wants.profile:
            more = f"; `,profile={wants.profile}` behind it gives that"
            fate = f"it is given {words.profile}{more if spec.sandboxed else ''}"
        yield f"  profile {wants.profile}{why}: {fate}"
    elif spec.sandboxed and not spec.chosen:
        says = HIDDEN if spec.hidden else "it names no profile"
        yield (
            f"  {says}, so it has `{_DEFAULT}`: it {SAYS[_DEFAULT]}; "
            "`,profile=full` behind it gives all within the guards"
        )
    policy = words.policy()
    rights = [rule for rule in wants.rights if permits(policy, parse_rule(rule))]
    grants = [
        one
        for one in wants.grants
        if policy is None or not lacking(parse_grant(one), words.grants).names()
    ]
    services = wants.services if spec.grants is None else spec.grants | ALWAYS_GRANTED
    yield from _each("right", wants.rights.items(), rights, "allow=")
    yield from _each("grant", wants.grants.items(), grants, "")
    yield from _each("service", wants.services.items(), services, "grant=")


def older(spec: Spec) -> Iterator[str]:
    """How what was said of it in words of older versions is said today."""
    for one in spec.older:
        said = f"is written `{one.today}` today" if one.today else "is left out today"
        yield f"conductor: `{spec.name}`: `{one.said}` {said}"
        if one.lost:
            yield f"  {one.lost}"
            yield f"  hint: `conductor inspect {spec.source}` shows what it may do"


def _each(
    word: str, asked: Iterable[tuple[str, str]], given: Iterable[str], option: str
) -> Iterator[str]:
    held = frozenset(given)
    for key, reason in asked:
        fate = "given" if key in held else f"not given; `,{option}{key}` behind it gives it"
        yield f"  {word} {key}, {reason}: {fate}"


def _remember(place: str, what: Any) -> bool:
    """Whether this was not told yet."""
    told = msgspec.json.encode([place, what], order="sorted")
    # Not by a digest: the module for those takes its time, and all of it is compared anyway.
    key = place.encode()
    file = os.path.join(folder(), f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}")
    if _read(file) == told:
        return False
    try:
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        with open(file, "wb") as now:
            now.write(told)
    except OSError:
        return True  # it cannot be remembered, so it will be told again: better twice than never
    return True


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as before:
            return before.read()
    except OSError:
        return b""


def folder() -> str:
    """Where it is remembered what was told: in the user's state folder."""
    if sys.platform == "darwin":
        base = "~/Library/Application Support"
    elif sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    else:
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.path.join(os.path.expanduser(base), "conductor", "first-use")
