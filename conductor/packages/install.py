"""Installing, step by step, without a word to the user.

    source ─▶ fetched ─▶ a candidate, which the user decides on ─▶ the store

`conductor.cli.offer` shows a candidate and asks.
"""

from __future__ import annotations

import os

import msgspec
from packaging.version import InvalidVersion, Version

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.packages import package, signatures, sources, store
from conductor.packages.catalogue import Named
from conductor.packages.package import Package
from conductor.packages.signatures import ANYBODY, Demand
from conductor.packages.sources import Source
from conductor.packages.store import Damaged
from conductor.spec import agents, catalog, installed, trust
from conductor.spec.installed import Receipt, Signer
from conductor.spec.model import Spec
from conductor.spec.programs import NAME_RULE, is_name, is_reserved, looks_like, which

_FILES = (".wasm", ".py", ".wat", ".json")


class Candidate(msgspec.Struct, frozen=True):
    """A package that has been fetched and checked. Nothing is installed yet."""

    package: Package
    receipt: Receipt
    """The receipt after the installation."""
    before: Receipt | Damaged | None
    """The receipt under its name before."""
    spec: Spec
    """The component, under its name."""

    @property
    def is_installed(self) -> bool:
        """Whether the installed component has the same content already."""
        before = self.before
        return isinstance(before, Receipt) and before.content == self.receipt.content

    @property
    def is_program(self) -> bool:
        """Whether it would run with the user's rights."""
        return not self.spec.sandboxed

    @property
    def is_another(self) -> bool:
        """Whether its own name differs from that of the installed component: then its version
        proves nothing, although the same people may have signed both."""
        before = self.before
        return isinstance(before, Receipt) and before.called not in ("", self.receipt.called)

    @property
    def is_older(self) -> bool:
        """Whether its version is lower than the installed one, or nobody can say.

        A file or folder on this machine may change without another version.
        """
        before, new = self.before, self.receipt
        if isinstance(before, Damaged):
            return True
        if before is None or self.is_installed:
            return False
        if before.release == new.release and os.path.isabs(new.source):
            return False
        try:
            return Version(new.release) < Version(before.release)
        except InvalidVersion:
            return True


def candidate(source: Source, folder: str, name: str = "", wanted: Demand = ANYBODY) -> Candidate:
    """Fetches a package into a folder of the store's, and returns the possible installation.

    Args:
        name: Its name; empty: the name in its catalogue, or its own name.
        wanted: Who must have signed it; nobody: the signer of the component from the same source.

    Raises:
        ConductorError: The source, the package or the name is refused.
        OSError: The file system takes nothing.
    """
    entry = source.entry if isinstance(source, Named) else None
    if name or entry is not None:
        check_name(name or source.written)
    there = os.path.join(folder, "fetched")
    os.mkdir(there, 0o700)
    is_named = bool(wanted) or wanted.is_free
    wanted = signatures.as_before(wanted, _signer_before(source, name))
    found = package.read(source.fetch(there, wanted))
    is_chosen = bool(name)
    name = name or (entry.name if entry is not None else found.spec.name)
    check_name(name)
    before = store.receipt(name)
    _check_free(name, before, source, is_chosen=is_chosen)
    signer = found.fetched.signer
    held = before.signer if isinstance(before, Receipt) else None
    if held is not None and held != signer and not is_named:  # its name was not known before
        raise signatures.refused(source.written, str(held), f"it is signed by {signer or 'nobody'}")
    receipt = Receipt(
        name=name,
        asked=source.written,
        catalogue=entry.catalogue if entry is not None else "",
        source=found.fetched.source,
        content=store.seal(found.root),
        file=found.file,
        release=found.release,
        called=found.called,
        signer=signer,
        since=trust.now(),
    )
    spec = msgspec.structs.replace(found.spec, name=name, source=name, receipt=receipt)
    return Candidate(found, receipt, before, spec)


def _check_free(
    name: str, before: Receipt | Damaged | None, source: Source, *, is_chosen: bool
) -> None:
    """Raises `UsageError` for a name of something else: a program, or a component from another
    source."""
    if not is_chosen and before is None and (program := which(name)) is not None:
        raise UsageError(
            f"`{name}` is a program here, {visible_path(program)}, which chains would no longer "
            "find under its name",
            f"give the component another name with `--name`; `--name {name}` takes this one",
        )
    if isinstance(before, Receipt) and origin(before) != source.origin:
        raise UsageError(
            f"`{name}` is installed already, from {visible_path(before.source)}",
            f"give this one another name with `--name`, or first `conductor remove {name}`",
        )


def _signer_before(source: Source, name: str) -> Signer | None:
    """The signer of the component from the same source, of this name first; None: nobody."""
    for each in sorted(store.receipts(), key=lambda each: each.name != name):
        if isinstance(each, Receipt) and each.signer is not None and origin(each) == source.origin:
            return each.signer
    return None


def commit(made: Candidate) -> None:
    """Puts it into the store. Raises `ConductorError`."""
    store.install(made.package.root, made.receipt, made.before)


def source_of(receipt: Receipt) -> Source:
    """The source that an installed component was asked from. Raises `ConductorError`."""
    if not receipt.catalogue:
        return sources.parse(receipt.asked)
    from conductor.packages import catalogue

    return catalogue.find(receipt.asked, {receipt.catalogue: ""})


def origin(receipt: Receipt) -> str:
    """The origin that all versions of an installed component share."""
    if receipt.catalogue:
        return f"{receipt.asked} of {receipt.catalogue}"
    try:
        return sources.parse(receipt.asked).origin
    except ConductorError:
        return receipt.asked


def check_name(name: str, hint: str = "give it another name with `--name NAME`") -> None:
    """Raises `UsageError`, with the hint, for a name that no installed component may have."""
    if not is_name(name) or name.startswith(("-", ".", "@", "+")) or name.endswith(_FILES):
        raise UsageError(
            f"`{visible_path(name)}` cannot be a component's name: it would mean something else in "
            "a chain",
            f"{hint}: {NAME_RULE}, and a letter or digit first",
        )
    if is_reserved(name):
        raise UsageError(f"a component cannot be called `{name}`: logs use that word", hint)
    programs = (program for agent in agents.table() for program in agent.all_programs)
    for other in catalog.bundled():
        if looks_like(name, other):
            text = f"`{other}` is the name of a component that comes with conductor"
            raise UsageError(text, hint)
    for other in (*agents.words(), *programs):
        if looks_like(name, other):
            raise UsageError(f"`{other}` is the name of an agent that conductor knows", hint)
    for other in installed.names():
        if other != name and looks_like(name, other):
            raise UsageError(f"`{name}` looks like `{other}`, which is installed", hint)
