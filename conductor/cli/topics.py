"""What `conductor help TOPIC` explains, each topic drawn from the table that the program obeys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from conductor.cli import commands, options
from conductor.cli.commands import Command
from conductor.cli.pages import Entry, Page, Section, entries, gist
from conductor.cli.typer_options import paragraphs
from conductor.core.policy.rules import GRANT_NAMES, PROFILE_NAMES, SAYS
from conductor.core.service_table import ALWAYS_GRANTED, CALLS
from conductor.packages import sources
from conductor.record.turns.filter import TERMS, TOGETHER
from conductor.spec import component_options, limits
from conductor.spec.syntax import WRITTEN


class Topic(NamedTuple):
    """A page that is about no single command."""

    what: str
    page: Callable[[], Page]


def _bare(rows: tuple[tuple[str, str], ...]) -> tuple[Entry, ...]:
    return entries((word.replace("`", ""), meaning) for word, meaning in rows)


def _component() -> Page:
    options_ = (
        (f"{option.name}={option.value}", f"{option.help}.") for option in component_options.OPTIONS
    )
    return Page(
        "",
        "A chain is a list of components, from the editor's side on. The last one is the agent.",
        (
            Section("How to write a COMPONENT", _bare(WRITTEN)),
            Section(
                "Options of one component follow it after a comma",
                entries(options_),
            ),
        ),
        paragraphs(
            "Examples:",
            "  conductor exec ./p.wasm,name=filter,grant=clock,cpu=50ms demo -p hello",
            "  conductor exec ./p.wasm,profile=observer,memory=16MiB demo -p hello",
            """  conductor exec 'cache,config.match="^(what|who), "' demo -p hello""",
        ),
    )


def _sources() -> Page:
    return Page(
        "",
        "Where `conductor add` takes a component from. What is behind a source may change, so a "
        "URL has a digest and a git address a commit; of a tag conductor keeps the digest it has "
        "now.",
        (Section("How to write a SOURCE", _bare(sources.WRITTEN)),),
        paragraphs("Examples:", "  conductor add ./weather.wasm", "  conductor list --available"),
    )


def _options() -> Page:
    runs = [row for row in options.TABLE if {*row.commands} & {*options.ALL}]
    keys = [row for row in runs if row.configures(*options.ALL)]
    serve = [row for row in options.SERVE if not row.is_flag]
    served = [row for row in (*options.SERVE, *options.FLEET) if row.is_flag]
    sections = [
        *_by_panel("Flags", [row for row in runs if row.is_flag], _flag),
        *_by_panel("Keys", [row for row in keys if not row.is_flag], _key),
        Section(
            "Flags of serve, fleet gateway and fleet worker",
            entries((_flag(row), row.help) for row in served),
        ),
        Section(
            "Keys of [serve]: serve, fleet gateway and fleet worker",
            entries((f"serve.{row.key}={row.kind.metavar}", row.help) for row in serve),
        ),
    ]
    return Page(
        "",
        "Options of the commands that run a chain; they come before the components. A key is set "
        "by `-c KEY=VALUE`, in `[options]` of conductor.toml, or by a variable: `-c ring=none`, "
        '`ring = "none"`, CONDUCTOR_RING=none. Flags are keys too, unless they are about one run: '
        "`-c locked=false`. Other tables have dots: `-c components.weather.config.city=Rome`.",
        tuple(sections),
        "Examples:\n\n"
        "  conductor exec -c trace=t.jsons -c trace-content=all demo -p hi\n\n"
        "  conductor agent -c peer.research=codex @work",
    )


def _by_panel(
    title: str, rows: list[options.Option], word: Callable[[options.Option], str]
) -> Iterator[Section]:
    for panel in dict.fromkeys(row.panel for row in rows):
        named = title if panel == "Options" else f"{title} ({panel.lower()})"
        of_panel = ((word(row), row.help + _only(row)) for row in rows if row.panel == panel)
        yield Section(named, entries(of_panel))


def _flag(row: options.Option) -> str:
    flags = ", ".join(options.in_order(row.flags.split()))
    return f"{flags} {row.kind.metavar}".rstrip()


def _key(row: options.Option) -> str:
    metavar = row.kind.metavar or "true|false"
    if row.kind.many:
        name, _, value = metavar.partition("=")
        return f"{row.key}.{name}={value}"
    return f"{row.key}={metavar}"


def _only(row: options.Option) -> str:
    """For which commands it is, where it is not for all that run a chain."""
    taking = [command for command in options.ALL if command in row.commands]
    return f" For {' and '.join(taking)}." if len(taking) < len(options.ALL) else ""


def _profiles() -> Page:
    rows = entries((name, f"{SAYS[name]}.") for name in PROFILE_NAMES)
    return Page(
        "",
        "A profile is what a component may do to the conversation. Sandboxed components have "
        "`context`, or what they ask for within that; programs have `trusted`.",
        (Section("profile=NAME", rows),),
        (
            "Example:\n\n  conductor exec ./proxy.wasm,profile=observer demo -p hello\n\n"
            "`conductor inspect COMPONENT` shows what a component may do."
        ),
    )


def _grants() -> Page:
    services: dict[str, list[str]] = {}
    for call in CALLS.values():
        services.setdefault(call.grant or call.service, []).append(call.summary)
    named = (
        (f"{option.name}={option.value}", f"{option.help}.")
        for option in component_options.OPTIONS
        if option.name in GRANT_NAMES
    )
    always = entries((n, f"{'; '.join(t)}.") for n, t in services.items() if n in ALWAYS_GRANTED)
    granted = entries(
        (n, f"{'; '.join(t)}.") for n, t in services.items() if n not in ALWAYS_GRANTED
    )
    return Page(
        "",
        "A sandboxed component may use a service only if you grant it.",
        (
            Section("Services (grant=SERVICE, deny=SERVICE)", granted),
            Section("Services that every component has", always),
            Section("Named grants, beyond its profile", entries(named)),
        ),
        "Example:\n\n  conductor exec ./proxy.wasm,grant=clock,turns=within demo -p hello",
    )


def _limits() -> Page:
    rows = []
    for limit in limits.TABLE:
        word = f"limit.{limit.name}" + (f", {limit.short}" if limit.short else "")
        default = limits.shown(limit.name, limit.default)
        rows.append((word, f"{limit.bounds}; beyond: {limit.beyond}. Default: {default}."))
    return Page(
        "",
        "What one component may cost.",
        (Section("limit.NAME=NUMBER", entries(rows)),),
        "Example:\n\n  conductor exec ./proxy.wasm,memory=16MiB,limit.timers=4 demo -p hello",
    )


def _filters() -> Page:
    return Page(
        "",
        "A filter chooses events of a trace or an audit. `log show`, `log stats`, `log export`, "
        "`top` and the page of `log view` take it.",
        (
            Section(
                "Terms",
                entries((f"~{name} {t.value}".rstrip(), f"{t.what}.") for name, t in TERMS.items()),
            ),
            Section("How they are put together", _bare(TOGETHER)),
        ),
        paragraphs(
            "Examples:",
            "  conductor log show today.jsons '~from redact & ~changed'",
            "  conductor log stats today.jsons '~method session/* & !(~from agent | ~slow 2s)'",
        ),
    )


def briefly(row: Command) -> str:
    """A command in a line."""
    return row.brief or gist(row.text("HELP"))


def headed(rows: Iterable[Command]) -> tuple[Section, ...]:
    """Commands, below their headings."""
    found = [row for row in rows if not row.is_hidden]
    return tuple(
        Section(
            "Commands" if found[0].above else heading,
            tuple(
                Entry(row.path.removeprefix(f"{row.above} "), briefly(row))
                for row in found
                if row.heading == heading
            ),
            commands=True,
        )
        for heading in dict.fromkeys(row.heading for row in found)
    )


def _commands() -> Page:
    return Page("", "All commands.", headed(commands.below("")))


def _exit_codes() -> Page:
    return Page("", "", (Section("Exit codes", _bare(commands.EXIT_CODES)),))


TOPICS: Final[dict[str, Topic]] = {
    "component": Topic("How to write a component, and all its options.", _component),
    "sources": Topic("How to write a source of `conductor add`.", _sources),
    "options": Topic("All that `-c` and conductor.toml can set for a chain.", _options),
    "profiles": Topic("What a component may do to the conversation.", _profiles),
    "grants": Topic("Services and rights that a component may be granted.", _grants),
    "limits": Topic("What a component may cost.", _limits),
    "filters": Topic("How to choose events of a trace or an audit.", _filters),
    "commands": Topic("All commands, below their headings.", _commands),
    "exit-codes": Topic("What conductor exits with.", _exit_codes),
}
OTHER_NAMES: Final = {
    "components": "component",
    "filter": "filters",
    "source": "sources",
    "services": "grants",
    "profile": "profiles",
}
"""Topics under names that people try too. Where a command has the name, the command wins."""
