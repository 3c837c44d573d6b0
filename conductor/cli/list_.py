"""`conductor list`: installed components, bundled components, and the components of catalogues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from conductor.cli import configured, consent, pages, report
from conductor.cli.pages import Entry, Page
from conductor.cli.typer_options import Json, option, paragraphs, switch
from conductor.errors import UsageError, visible_path
from conductor.packages import catalogue, store
from conductor.packages.store import Damaged
from conductor.spec import catalog, catalogues, trust
from conductor.spec.digests import short
from conductor.spec.installed import Receipt
from conductor.spec.origins import COMMAND_LINE, bare
from conductor.spec.plan import Plan, alone

HELP: Final = paragraphs(
    "List installed components: version, source, digest, signer, and whether you agreed to the "
    "rights that they ask for.",
    "`--bundled` lists the components that come with conductor. `--available` lists the components "
    "that catalogues offer.",
)
EPILOG: Final = paragraphs(
    "Examples:", "  conductor list", "  conductor list --bundled", "  conductor list --available"
)
_END: Final = (
    "All are sandboxed proxies, except those that are marked. `conductor inspect NAME` shows the "
    "rights of a component."
)


Index = Annotated[
    list[str] | None,
    option(
        "--index",
        "CATALOGUE",
        "Search this folder, JSON file or URL, instead of `indexes` in conductor.toml.",
    ),
]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One installed component, as `--json` prints it."""

    name: str
    version: str = ""
    kind: str
    """`module`, `python`, `program` or `damaged`."""
    source: str = ""
    sha256: str = ""
    """The digest of its content."""
    signer: str = ""
    since: str = ""
    wants: str = ""
    """Whether it has the rights that it asks for."""
    problem: str = ""
    """Why it cannot be used."""


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """One component of a catalogue."""

    name: str
    version: str
    description: str
    source: str
    catalogue: str
    installed: bool


class Bundled(msgspec.Struct, frozen=True, kw_only=True):
    """One component that comes with conductor."""

    name: str
    kind: str
    version: str
    description: str
    sandboxed: bool


def list_(
    bundled: Annotated[
        bool, switch("--bundled", "List the components that come with conductor instead.")
    ] = False,
    available: Annotated[
        bool, switch("--available", "List the components that catalogues offer instead.")
    ] = False,
    index: Index = None,
    json_: Json = False,
) -> int:
    """Lists components."""
    if bundled and (available or index):
        raise UsageError("bundled components are in no catalogue", "leave out `--bundled`")
    if bundled:
        return _bundled(as_json=json_)
    if available or index:
        return _available(places(index), as_json=json_)
    rows = [_row(each) for each in store.receipts()]
    if json_:
        report.say_json({"installed": rows})
        return 0
    if not rows:
        report.say(
            "nothing is installed: `conductor add SOURCE` installs a component; `conductor list "
            "--bundled` shows the components that come with conductor"
        )
    for row in rows:
        _say(row)
    return 0


def _say(row: Row) -> None:
    version = f" {visible_path(row.version)}" if row.version else ""
    report.say(f"{row.name}{version}  ({row.kind})")
    if row.problem:
        report.say(f"  DAMAGED: {row.problem}")
    if row.source:
        report.say(f"  from {visible_path(row.source)}")
        signer = f"signed by {row.signer}" if row.signer else "not signed"
        report.say(f"  sha256:{short(row.sha256)}, {signer}, since {row.since}")
    if row.wants:
        report.say(f"  {row.wants}")


def _row(each: Receipt | Damaged) -> Row:
    if isinstance(each, Damaged):
        return Row(name=each.name, kind="damaged", problem=each.why)
    kind: str
    kind, wants, problem = "damaged", "", ""
    try:
        plan = alone(each.name)
    except UsageError as error:
        problem = error.with_hint
    else:
        (spec,) = plan.components
        kind = spec.kind
        wants = _wants(plan)
    return Row(
        name=each.name,
        version=each.release,
        kind=kind,
        source=each.source,
        sha256=each.content,
        signer=str(each.signer) if each.signer is not None else "",
        since=pages.moment(each.since),
        wants=wants,
        problem=problem,
    )


def _wants(plan: Plan) -> str:
    """Whether a component has the rights that it asks for, in a few words."""
    (spec,) = plan.components
    if not spec.sandboxed:
        known, _ = trust.known()
        is_trusted = trust.trusts_program(spec, known)
        return "runs with all your rights" if is_trusted else "is a program that you do not trust"
    now, agreements = consent.kept(plan)
    if agreements.questions:
        return "has less than it asks for: you have not agreed to that"
    if agreements.refused:
        return f"has the default rights: {agreements.refused[0][1]}"
    if bare(now.components[0]) != bare(spec):
        return "has all rights that it asks for: you agreed"
    return "asks for nothing beyond the default"


def _bundled(*, as_json: bool) -> int:
    manifests = [
        each for name in catalog.bundled() if (each := catalog.bundled_manifest(name)) is not None
    ]
    rows = [
        Bundled(
            name=each.name,
            kind=each.kind,
            version=each.version,
            description=each.description,
            sandboxed=each.file is not None,
        )
        for each in manifests
    ]
    if as_json:
        report.say_json({"bundled": rows})
        return 0
    listed = pages.Section("", tuple(Entry(row.name, _described(row)) for row in rows))
    report.page(pages.laid_out(Page("", "", (listed,), _END)))
    return 0


def _described(row: Bundled) -> str:
    """The description of a component; its kind too, if it is not sandboxed."""
    text = row.description.rstrip(".")
    return text if row.sandboxed else f"{text} ({row.kind}, not sandboxed)"


def _available(where: Mapping[str, str], *, as_json: bool) -> int:
    if not where:
        raise UsageError(
            "there is no catalogue", '`--index CATALOGUE`, or `indexes = ["…"]` in conductor.toml'
        )
    known = {each.name for each in store.receipts()}
    rows = [
        Offered(
            name=entry.name,
            version=entry.version,
            description=entry.description,
            source=entry.source,
            catalogue=entry.catalogue,
            installed=entry.name in known,
        )
        for entry in catalogue.available(where)
    ]
    if as_json:
        report.say_json({"available": rows})
        return 0
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        version = f"{row.version} " if row.version else ""
        mark = " (installed)" if row.installed else ""
        report.say(f"{row.name:<{width}}  {version}{visible_path(row.description)}{mark}")
    if not rows:
        for each in where:
            report.say(f"the catalogue `{visible_path(each)}` offers nothing for conductor")
        report.say(
            "each component has its own folder with a component.toml, or a NAME.json; `--index`, "
            "or `indexes` in conductor.toml, names another catalogue"
        )
    return 0


def places(index: list[str] | None) -> dict[str, str]:
    """The catalogues to search, each with who names it. Raises `UsageError`."""
    if index:
        return {catalogues.placed(each, ""): COMMAND_LINE for each in index}
    config = configured.here()
    return config.indexes if config is not None else {}
