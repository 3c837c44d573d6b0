"""Reports what a stranger's component asks for, once, before the component runs for the first time.

The report goes to standard error and asks no question: an editor has no terminal, and the user
answers on the command line, which grants everything by name. A file in the user's state folder
remembers each report by the component's place; a component that asks for something else is reported
again. So are words of older versions on the command line.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from conductor.cli import report
from conductor.core.policy.rule_syntax import PolicyWords, parse_grant, parse_rule
from conductor.core.policy.rules import SAYS, lacking, permits
from conductor.core.service_table import ALWAYS_GRANTED
from conductor.spec import paths
from conductor.spec.manifest.reading import Manifest
from conductor.spec.model import Spec

_DEFAULT: Final = PolicyWords().profile
HIDDEN: Final = (
    'conductor cannot read a profile off its source, as it could off `Proxy(…, profile="observer")`'
)
"""The report of a source that may name a profile in some other form."""


def announce(specs: Sequence[Spec]) -> None:
    """Reports the components that are new here, or ask for something else than before."""
    for spec in specs:
        if spec.bundled is None:
            _announce(_place(spec), _claims(spec), lines(spec))
        _announce(_text(f"older {spec.source} {spec.name}"), spec.older, older(spec))


def announce_program(spec: Spec) -> None:
    """Does the same before a command only tries a component out, if that runs a program."""
    if spec.command is not None:
        announce([spec])


def allows(words: PolicyWords, rule: str) -> bool:
    """Whether a component may do what a rule (`up:session/update:carry`) says."""
    return permits(words.policy(), parse_rule(rule))


def gives(words: PolicyWords, grant: str) -> bool:
    """Whether a component has a named grant (`turns=within`)."""
    policy = words.policy()
    if policy is None:
        return True
    held = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return not lacking(parse_grant(grant), held).names()


def serves(spec: Spec, service: str) -> bool:
    """Whether a component may use a service."""
    return spec.grants is None or service in spec.grants or service in ALWAYS_GRANTED


def _announce(place: str, what: Any, text: Iterable[str]) -> None:
    if what and _remember(place, what):
        for line in text:
            # The author's words stay on their line: a new one could pass for conductor's own.
            report.write(line.replace("\n", " "))


def _place(spec: Spec) -> str:
    return _text(spec.manifest_path or spec.script or spec.wasm or "")


def _text(name: str) -> str:
    """A file name with bytes that are not text written out, so that it is unique and storable."""
    return name.encode("utf-8", "backslashreplace").decode()


def _claims(spec: Spec) -> Any:
    """What to report of a component and to remember; None if there is nothing to report."""
    manifest = spec.manifest
    if manifest is None or not (manifest.wants or manifest.command):
        if not spec.sandboxed or spec.profile_chosen:
            return None
        return HIDDEN if spec.unreadable_profile else _DEFAULT
    return [manifest.wants, manifest.command] if manifest.command else manifest.wants


def lines(spec: Spec) -> Iterator[str]:
    """What a component asks for and why, and whether it gets it."""
    manifest = spec.manifest or Manifest(name=spec.name)
    version = f" {manifest.version}" if manifest.version else ""
    wants, words = manifest.wants, spec.policy
    asks = ", which asks for" if wants else ""
    yield f"conductor: first use of `{spec.name}`{version} ({spec.source}){asks}"
    if spec.command is not None:
        yield f"  it is a program, not sandboxed, and runs with your rights: {spec.what}"
    if wants.profile is not None:
        why = f", {wants.reason}" if wants.reason else ""
        fate = "granted"
        if words.profile != wants.profile:
            more = f"; add `,profile={wants.profile}` to grant it" if spec.sandboxed else ""
            fate = f"it gets {words.profile}{more}"
        yield f"  profile {wants.profile}{why}: {fate}"
    elif spec.sandboxed and not spec.profile_chosen:
        says = HIDDEN if spec.unreadable_profile else "it names no profile"
        yield (
            f"  {says}, so it gets `{_DEFAULT}`: it {SAYS[_DEFAULT]}; "
            "add `,profile=full` to grant all within the guards"
        )
    yield from _each("right", wants.rights, "allow=", lambda rule: allows(words, rule))
    yield from _each("grant", wants.grants, "", lambda grant: gives(words, grant))
    yield from _each("service", wants.services, "grant=", lambda name: serves(spec, name))


def _each(
    noun: str, wanted: dict[str, str], option: str, granted: Callable[[str], bool]
) -> Iterator[str]:
    for key, reason in wanted.items():
        fate = "granted" if granted(key) else f"not granted; add `,{option}{key}` to grant it"
        yield f"  {noun} {key}, {reason}: {fate}"


def older(spec: Spec) -> Iterator[str]:
    """Today's form of what the command line says in words of older versions."""
    for word in spec.older:
        today = f"is written `{word.today}` today" if word.today else "has no effect today"
        yield f"conductor: `{spec.name}`: `{word.written}` {today}"
        if word.lost:
            yield f"  {word.lost}"
            yield f"  hint: `conductor inspect {spec.source}` shows what it may do"


def _remember(place: str, what: Any) -> bool:
    """Remembers a report; False if an earlier run has made it."""
    reported = msgspec.json.encode([place, what], order="sorted")
    # Checksums, not a digest: an editor would wait for OpenSSL to load. Two reports that share a
    # file do no harm, since `_read` compares the whole content.
    key = place.encode()
    file = os.path.join(paths.first_use(), f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}")
    if _read(file) == reported:
        return False
    try:
        os.makedirs(paths.first_use(), mode=0o700, exist_ok=True)
        with open(file, "wb") as now:
            now.write(reported)
    except OSError:
        return True  # reported again each time: better than never
    return True


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as before:
            return before.read()
    except OSError:
        return b""
