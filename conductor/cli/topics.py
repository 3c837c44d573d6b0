"""The topics of `conductor help TOPIC`, each drawn from the table that the program obeys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from conductor.cli import commands, options
from conductor.cli.commands import Command
from conductor.cli.pages import Entry, Page, Section, entries, gist
from conductor.cli.typer_options import paragraphs
from conductor.core.policy import words
from conductor.core.policy.key_table import row_of
from conductor.packages import sources
from conductor.record.turns.filter import TERMS, TOGETHER
from conductor.spec import component_options, limits
from conductor.spec.option_table import ALL, SERVE, Option
from conductor.spec.syntax import WRITTEN

_MOST_LISTED: Final = 12
"""Members of a set that the page names."""


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
        "A chain is a list of components, from the editor's side on. The last component is the "
        "agent.",
        (
            Section("How to write a COMPONENT", _bare(WRITTEN)),
            Section(
                "Options of a component, after a comma",
                entries(options_),
            ),
        ),
        paragraphs(
            "Examples:",
            "  conductor exec ./p.wasm,name=filter,allow=clock,cpu=50ms demo -p hello",
            "  conductor exec ./p.wasm,only=observer,memory=16MiB demo -p hello",
            """  conductor exec 'cache,config.match="^(what|who), "' demo -p hello""",
        ),
    )


def _sources() -> Page:
    return Page(
        "",
        "Where `conductor add` takes a component from. The files at a source may change, so a URL "
        "needs a digest, and a git address needs a commit. For a tag conductor keeps its present "
        "digest.",
        (Section("How to write a SOURCE", _bare(sources.WRITTEN)),),
        paragraphs("Examples:", "  conductor add ./weather.wasm", "  conductor list --available"),
    )


def _options() -> Page:
    # The page explains `-c` at its head.
    runs = [r for r in options.TABLE if {*r.commands} & {*ALL} and r.key != "c"]
    keys = [row for row in runs if row.configures(*ALL)]
    serve = [row for row in SERVE if not row.is_flag]
    served = [row for row in (*SERVE, *options.FLEET) if row.is_flag]
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
        "Options of the commands that run a chain. Flags and `-c` come before the components. Set "
        "a key by `-c KEY=VALUE`, in `[options]` of conductor.toml, or by a variable: `-c "
        'ring=none`, `ring = "none"`, CONDUCTOR_RING=none. Flags are keys too, unless they are '
        "about one run: `-c locked=false`. Keys of other tables have dots: `-c "
        "components.weather.config.city=Rome`.",
        tuple(sections),
        "Examples:\n\n"
        "  conductor exec -c trace=t.jsons -c trace-content=all demo -p hi\n\n"
        "  conductor agent -c peer.research=codex @work",
    )


def _by_panel(title: str, rows: list[Option], word: Callable[[Option], str]) -> Iterator[Section]:
    for panel in dict.fromkeys(row.panel for row in rows):
        named = title if panel == "Options" else f"{title} ({panel.lower()})"
        of_panel = ((word(row), row.help + _only(row)) for row in rows if row.panel == panel)
        yield Section(named, entries(of_panel))


def _flag(row: Option) -> str:
    flags = ", ".join(options.in_order(row.flags.split()))
    return f"{flags} {row.kind.metavar}".rstrip()


def _key(row: Option) -> str:
    metavar = row.kind.metavar or "true|false"
    if row.kind.many:
        name, _, value = metavar.partition("=")
        return f"{row.key}.{name}={value}"
    return f"{row.key}={metavar}"


def _only(row: Option) -> str:
    """For which commands it is, where it is not for all that run a chain."""
    taking = [command for command in ALL if command in row.commands]
    return f" For {' and '.join(taking)}." if len(taking) < len(ALL) else ""


def _rights() -> Page:
    known = entries((name, f"It may {one.says}.") for name, one in words.TABLE.items())
    scoped = entries(
        (f"{one.verb}:{one.shown}", f"It may {one.says.removesuffix(': {}').format(one.shown)}.")
        for one in words.FAMILIES.values()
    )
    sets = entries(
        (name, f"It {text}: {_listed(of)}." if (of := words.SETS[name]) else f"It {text}.")
        for name, text in words.SET_SAYS.items()
    )
    groups = entries((f"see:{name}", f"{_listed(of)}.") for name, of in words.GROUPS.items())
    denied = entries((name, f"{_listed(of)}.") for name, of in words.FORBIDDING.items())
    return Page(
        "",
        "The rights of a component. `only=` is the whole list, `allow=` adds words, and `deny=` "
        "takes words away and wins. `deny=` with a word denies also each word that includes it. "
        "With a verb or a set `deny=` denies all its words. `change` and `answer` include `see`. A "
        "program can use the machine anyway, so it needs no words for the machine. `conductor help "
        "rights WORD` explains a word.",
        (
            Section("Sets", sets),
            Section("Sets for deny=", denied),
            Section("Words with a name, a place or an address", scoped),
            Section("Words, the worst first", known),
            Section("Groups of objects, also of change and add", groups),
        ),
        "Example:\n\n  conductor exec ./proxy.wasm,only=context+clock,deny=serve:tools demo -p hi",
    )


def _listed(names: tuple[str, ...]) -> str:
    few = names if len(names) <= _MOST_LISTED else (*names[:_MOST_LISTED], "…")
    return ", ".join(few) or "nothing"


def right(name: str) -> Page:
    """The page of one word. Raises `ValueError` for a text that is no word of a right."""
    if name in words.FORBIDDING or name in words.SETS or words.members(name) != (name,):
        of = words.FORBIDDING.get(name) or words.members(name)
        lead, rules = f"`{name}` is a name for: {', '.join(of) or 'nothing'}.", []
    else:
        one = words.word(name)
        lead = f"`{name}`: the component may {one.says}."
        rows = {row_of(rule.direction, rule.key).rule: rule.key for rule in one.rules}
        rules = [(key, f"{rule}.") for rule, key in rows.items()]
    return Page(
        "",
        lead,
        (
            *([Section("The rules that bound it", entries(rules))] if rules else []),
            Section("Bundled components that have it", entries(_having(name))),
        ),
    )


def _having(name: str) -> Iterator[tuple[str, str]]:
    from conductor.spec import catalog

    for each in catalog.bundled():
        manifest = catalog.bundled_manifest(each)
        if manifest is None:
            continue
        rights = manifest.rights or ()
        if name not in words.FORBIDDING and rights and not words.lacking([name], rights):
            yield each, gist(manifest.description)


def _limits() -> Page:
    rows = []
    for limit in limits.TABLE:
        word = f"limit.{limit.name}" + (f", {limit.short}" if limit.short else "")
        default = limits.shown(limit.name, limit.default)
        rows.append((word, f"{limit.bounds}; beyond: {limit.beyond}. Default: {default}."))
    return Page(
        "",
        "The most that one component may cost.",
        (Section("limit.NAME=NUMBER", entries(rows)),),
        "Example:\n\n  conductor exec ./proxy.wasm,memory=16MiB,limit.timers=4 demo -p hello",
    )


def _filters() -> Page:
    return Page(
        "",
        "A filter chooses events of a trace or an audit. `log show`, `log stats`, `log export`, "
        "`ps --watch` and the page of `log view` take it.",
        (
            Section(
                "Terms",
                entries((f"~{name} {t.value}".rstrip(), f"{t.what}.") for name, t in TERMS.items()),
            ),
            Section("How to combine terms", _bare(TOGETHER)),
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
    "options": Topic("All options of a chain, for `-c` and conductor.toml.", _options),
    "rights": Topic("The rights of a component.", _rights),
    "limits": Topic("The limits of a component.", _limits),
    "filters": Topic("How to choose events of a trace or an audit.", _filters),
    "commands": Topic("All commands, below their headings.", _commands),
    "exit-codes": Topic("The exit codes.", _exit_codes),
}
OTHER_NAMES: Final = {
    "components": "component",
    "filter": "filters",
    "source": "sources",
    "services": "rights",
    "right": "rights",
    "profile": "rights",
    "profiles": "rights",
    "grant": "rights",
    "grants": "rights",
}
"""Other names of topics that people try. Where a command has the name, the command wins."""
