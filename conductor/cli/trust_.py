"""`conductor trust`: the trust store on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from conductor.cli import consent, pages, report
from conductor.cli.typer_options import Json, argument, paragraphs, switch
from conductor.errors import UsageError, did_you_mean, visible_path
from conductor.spec import paths, tools, trust
from conductor.spec.config import reading
from conductor.spec.consent.question import named
from conductor.spec.digests import short
from conductor.spec.plan import alone
from conductor.spec.trust import Trust

HELP: Final = paragraphs(
    "Trust a folder: its components get the rights that they ask for, its programs may run, and "
    f"its present `{paths.CONFIG}` counts. Or trust one component, in this version.",
    "Running chains follow at once, also when you end the trust (`--remove`).",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor trust ./my-project",
    "  conductor trust ./proxy.wasm",
    "  conductor trust --list",
    "  conductor trust --remove ./my-project",
)


def trust_(
    what: Annotated[
        str | None,
        argument(
            "[PATH]",
            "A folder or a file. With `--remove` also the name of a component or of an MCP "
            "server, or the beginning of a component's digest, as `--list` shows them.",
        ),
    ] = None,
    listed: Annotated[
        bool,
        switch(
            "--list",
            "List all that you trust: folders, project files, components with their rights, MCP "
            "servers with their tools.",
        ),
    ] = False,
    removed: Annotated[bool, switch("--remove", "Trust PATH no longer.")] = False,
    json_: Json = False,
) -> int:
    """Trusts something, or no longer, or lists what is trusted. Raises `UsageError`."""
    if listed:
        if what is not None or removed:
            raise UsageError("`--list` shows all that you trust", "leave out the rest")
        return _list(as_json=json_)
    if json_:
        raise UsageError("`--json` is for `conductor trust --list`", "leave it out")
    if what is None:
        raise UsageError(
            "`conductor trust` needs a PATH", "`conductor trust --list` lists all that you trust"
        )
    return _remove(what) if removed else _add(what)


def _add(path: str) -> int:
    """Trusts a folder, a project file or a component."""
    if not os.path.exists(path):
        raise UsageError(f"no such file or folder: `{visible_path(path)}`", "check the path")
    real = trust.storable(os.path.realpath(path))
    if os.path.isdir(real):
        report.say(*_trust_folder(real))
    elif os.path.basename(real) == paths.CONFIG:
        report.say(_trust_file(real))
    else:
        report.say(*_trust_component(path))
    return 0


def _trust_folder(real: str) -> Iterator[str]:
    yield _said(f"the folder {visible_path(real)}", again=trust.trust_folder(real))
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.join(home, "").startswith(os.path.join(real, "")):
        report.write(
            "this folder holds your home: each project and each download there counts as your own; "
            "`conductor trust --remove` ends the trust",
            word="warning",
        )
    project = os.path.join(real, paths.CONFIG)
    if os.path.isfile(project):
        yield _trust_file(project)


def _trust_file(real: str) -> str:
    again = trust.trust_file(real, reading.content(real, links=False))
    return _said(f"the file {visible_path(real)}, as it is now", again=again)


def _trust_component(path: str) -> list[str]:
    # A bare name would mean a bundled component, or a program.
    plan = alone(path if os.path.dirname(path) else os.path.join(".", path))
    (spec,) = plan.components
    label = f"{spec.name} ({visible_path(path)})"
    if not spec.sandboxed:
        raise UsageError(
            f"`{visible_path(path)}` is no sandboxed component, so there is nothing to agree to",
            "a folder can be trusted, with every program in it",
        )
    _, agreements = consent.kept(plan)
    for question in agreements.questions:
        trust.agree(question.key, msgspec.structs.replace(question.agreement, since=trust.now()))
        return [_said(f"this version of {label}"), *(f"  it may {may}" for may in question.may)]
    for _, why in agreements.refused:
        raise UsageError(f"{label} stays as narrow as it is: {why}", "see `conductor inspect`")
    if agreements.problem:
        trust.load()  # raises the error
    return [f"{label} has all that it asks for"]


def _said(what: str, *, again: bool = False) -> str:
    return f"already trusted: {what}" if again else f"trusted: {what}"


def _remove(what: str) -> int:
    """Trusts something no longer."""
    real = os.path.realpath(what)
    taken = [*trust.change(lambda held: _take(held, what, real)), *tools.forget(what)]
    above = trust.load().folder_of(real) if os.path.exists(real) else None
    for each in taken:
        report.say(f"no longer trusted: {each}")
    if above is not None:
        raise UsageError(
            f"`{visible_path(real)}` is still trusted: it lies in {visible_path(above)}",
            f"`conductor trust --remove {visible_path(above)}`",
        )
    if not taken and not os.path.exists(real):
        held = trust.load()
        known = [*held.folders, *held.files, *(each.name for each in held.agreed.values())]
        known += [name for each in tools.STORE.load().kept.values() for name in each.servers]
        other = (
            "`conductor trust --list` lists all that you trust; a right that you allowed until a "
            "conductor ends has ended"
        )
        hint = did_you_mean(what, known, other)
        raise UsageError(f"nothing that you trust is called `{visible_path(what)}`", hint)
    if not taken:
        report.say(f"not trusted: {visible_path(real)}")
    return 0


def _take(held: Trust, what: str, real: str) -> list[str]:
    """Removes the trust in a name or path; returns the removed entries for people."""
    named = trust.untrust(held, visible_path(what), visible_path(real))
    taken = []
    for table in (held.folders, held.files):
        for path in [path for path in table if paths.within(path, real)]:
            del table[path]
            taken.append(visible_path(path))
    for key, agreed in list(held.agreed.items()):
        if named.means(key, agreed):
            del held.agreed[key]
            taken.append(f"{agreed.name} ({agreed.place}, sha256 {short(agreed.sha256)})")
    return taken


_SERVER: Final = "MCP server"


class Shown(msgspec.Struct, frozen=True):
    """One entry of the trust store, as `--json` prints it."""

    kind: str
    path: str
    since: str
    name: str = ""
    sha256: str = ""
    rights: list[str] = []
    offers: dict[str, list[str]] = {}
    """Of an MCP server: the names of its offers, by kind."""
    look: list[str] = []
    """The marks in its offers that a person ought to look at."""


def _list(*, as_json: bool) -> int:
    """Lists the trust store."""
    rows = [*_rows(trust.load()), *_servers()]
    if as_json:
        report.say_json({"trusted": rows})
        return 0
    if not rows:
        report.say("You trust nothing yet: `conductor trust PATH`.")
    for row in rows:
        report.say(f"{row.kind:<10} {visible_path(row.path)}", f"{'':<10} since {row.since}")
        if row.sha256:
            name = f"{row.name}, " if row.name else ""
            report.say(f"{'':<10} {name}sha256 {short(row.sha256)}")
        for each in row.rights:
            report.say(f"{'':<10} may have {each}")
        if row.kind == _SERVER:
            report.say(f"{'':<10} {named(row.name)} offers {tools.numbers(row.offers)}")
        for each in row.look:
            report.say(f"{'':<10} LOOK at {each}")
    return 0


def _rows(held: Trust) -> Iterator[Shown]:
    for path, folder in sorted(held.folders.items()):
        yield Shown("own folder" if folder.own else "folder", path, pages.moment(folder.since))
    for path, file in sorted(held.files.items()):
        yield Shown("file", path, pages.moment(file.since), sha256=file.sha256)
    for agreed in sorted(held.agreed.values(), key=lambda each: (each.place, each.since)):
        yield Shown(
            "component",
            agreed.place,
            pages.moment(agreed.since),
            agreed.name,
            agreed.sha256,
            list(agreed.rights),
        )


def _servers() -> Iterator[Shown]:
    """The MCP servers whose tools are kept."""
    kept = tools.STORE.load().kept.values()
    for each in sorted(kept, key=lambda each: each.place):
        since = pages.moment(each.since)
        place = each.place or each.owner or "the editor"
        for name, offer in sorted(each.servers.items()):
            names, look = {kind: list(held) for kind, held in offer.items()}, tools.look(offer)
            yield Shown(_SERVER, place, since, name, offers=names, look=list(look))
