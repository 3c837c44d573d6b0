"""The tables of the documents that are drawn from the program.

In a document such a table stands between `<!-- table: NAME -->` and `<!-- /table -->`. After a
change of the program, `python -m tests.docs.tables` draws them anew; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from conductor.cli import app as command_line
from conductor.cli import commands, config_schema, manual, topics
from conductor.core.dialects import DIALECTS, Dialect
from conductor.core.guards import GUARDS
from conductor.core.policy import words
from conductor.core.policy.key_table import ROWS, Row
from conductor.core.policy.rules import Rule
from conductor.core.policy.states import MOVES
from conductor.core.service_table import TABLE as CALLS
from conductor.core.service_table import Call
from conductor.http import limits as http
from conductor.mcp import limits as mcp
from conductor.packages import sources as package_kinds
from conductor.record.turns.filter import TERMS, TOGETHER
from conductor.spec import (
    agents,
    catalog,
    component_options,
    option_layers,
    option_table,
    syntax,
    toml_files,
)
from conductor.spec.limits import SHORT, TABLE, Limit
from conductor.spec.manifest import drawn as drawn_manifests
from conductor.spec.options import Options
from conductor.spec.paths import MANIFEST
from conductor.transports import entrance
from tests.places import ROOT

DOCUMENTS: Final = tuple(
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "changelog.d" / "README.md",
        ROOT / "components" / "README.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    if path.is_file()
)

SCHEMA: Final = ROOT / "docs" / "conductor.schema.json"
MAN_PAGE: Final = ROOT / "docs" / "conductor.1"
MANIFESTS: Final = ROOT / "components" / drawn_manifests.FILE
_TABLE: Final = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)
_MOST_LISTED: Final = 16
_UNITS: Final = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def dialects() -> str:
    """How each dialect says the role and wraps the successor's messages."""
    head = ("dialect", "learns its role by", "to its successor", "from its successor", "ids")
    return table(head, [_dialect(one) for one in DIALECTS.values()])


def _dialect(one: Dialect) -> tuple[str, ...]:
    role = f"`{one.role}`"
    if one.offer:
        role += " with the offer in `_meta`"
    if one.launches:
        role += ", then `_scp/proxy`"
    if one.sideband:
        role += "; it is a guest"
        return f"`{one.name}`", role, "side byte `s`", "side byte `s`", "one space a side"
    if one.launches:
        plain = "plain, on a connection the proxy opens"
        return f"`{one.name}`", role, plain, plain, "one space a connection"
    form = ", in `message`" if one.nested else ""
    down = _methods(one.down_request, one.down_notification) + form
    up = _methods(one.up_request, one.up_notification) + form
    return f"`{one.name}`", role, down, up, "one space"


def _methods(request: str | None, notification: str | None) -> str:
    return " ".join(f"`{name}`" for name in dict.fromkeys((request, notification)) if name)


def services() -> str:
    """The methods that proxies may call on side `c`."""
    rows = [
        (f"`{call.name}`", call.summary, _taken(call), call.params, call.result) for call in CALLS
    ]
    return table(("method", "does", "takes", "params", "result"), rows)


def _taken(call: Call) -> str:
    return f"`{call.grant}`" if call.grant else "no right"


def limits() -> str:
    """The limits of one component, with their defaults."""
    short = {name: word for word, name in SHORT.items()}
    rows = [
        (
            f"`{one.name}`" + (f" (`{short[one.name]}=`)" if one.name in short else ""),
            "off" if one.default is None else _default(one),
            one.place,
            one.bounds,
            one.beyond,
        )
        for one in TABLE
    ]
    return table(("limit", "default", "kept by", "bounds", "excess"), rows)


def _default(one: Limit) -> str:
    assert one.default is not None
    return f"{one.default} %" if one.measure == "percent" else amount(one.name, one.default)


def amount(name: str, value: float | None) -> str:
    """A default for people: sizes in the largest unit that divides them."""
    if value is None:
        return "off"
    if name.endswith("_ms"):
        return f"{value} ms"
    if isinstance(value, float):
        return f"{value:g} s"
    if not name.endswith(("_bytes", "_water", "line_limit")):
        return f"{value:,}"
    for size, unit in _UNITS:
        if value % size == 0:
            return f"{value // size} {unit}"
    return f"{value} bytes"


FLOW: Final = {
    "line_limit": "one line from any peer",
    "high_water": "unsent bytes of one peer above which the ends of the chain wait",
    "low_water": "unsent bytes below which they go on",
    "hard_water": "unsent bytes above which a proxy that causes them waits too",
    "stall": "time a peer may take nothing while others wait for it",
    "grace": "before each harder step of ending a process",
    "drain": "after the client's end of file, time in which nobody works at requests still open",
    "drain_total": "after the client's end of file, time for requests still open altogether",
}
"""The bounds of the conductor itself, by the field of `conductor.spec.options.Options`."""


def flow() -> str:
    """The bounds of the conductor itself, with their defaults."""
    rows = [
        (f"`{name}`", amount(name, getattr(Options(), name)), meaning)
        for name, meaning in FLOW.items()
    ]
    return table(("option", "default", "bounds"), rows)


_FOR_TRIALS: Final = ("demo", "passthrough", "tools-demo")
"""The bundled components that show how chains work, and do nothing for a user."""


def components() -> str:
    """The bundled components for users."""
    return _components(name for name in catalog.bundled() if name not in _FOR_TRIALS)


def for_trials() -> str:
    """The components to try chains with."""
    return _components(_FOR_TRIALS)


def _components(names: Iterable[str]) -> str:
    rows = []
    for name in names:
        found = catalog.bundled_manifest(name)
        assert found is not None
        rights = ", ".join(f"`{word}`" for word in found.rights or ())
        if found.rights is None and found.kind != "agent":
            rights = f"`{words.CONTEXT if found.file else words.TRUSTED}`"
        kind = f"sandboxed {found.kind}" if found.file else f"{found.kind}, a Python program"
        does = found.description.rstrip(".")
        rows.append((f"[`{name}`]({name}/README.md)", kind, does, rights))
    return table(("name", "kind", "what it does", "rights"), rows)


def rights() -> str:
    """Every word, the worst first, with the acts that it lets a component do."""
    scoped = [
        (f"`{one.verb}:{one.shown}`", f"may {one.says.format(one.shown)}")
        for one in words.FAMILIES.values()
    ]
    plain = [(f"`{name}`", f"may {one.says}") for name, one in words.TABLE.items()]
    return table(("word", "a component with it"), [*scoped, *plain])


def sets() -> str:
    """Names for several words; the last are for `deny` alone."""
    rows = [(f"`{name}`", says, _listed(words.SETS[name])) for name, says in words.SET_SAYS.items()]
    denied = [
        (f"`{name}`", "for `deny` alone", _listed(of)) for name, of in words.FORBIDDING.items()
    ]
    return table(("set", "a component with it", "stands for"), [*rows, *denied])


def _listed(names: Iterable[str]) -> str:
    few = [f"`{name}`" for name in names]
    return ", ".join(few if len(few) <= _MOST_LISTED else [*few[:_MOST_LISTED], "…"])


def keys() -> str:
    """The table of keys: the words that are about each, and the rule that bounds them."""
    return table(("direction", "keys", "words", "rule"), [_row(row) for row in ROWS])


def _row(row: Row) -> tuple[str, ...]:
    about = [
        one.name for one in words.TABLE.values() if any(_is_about(rule, row) for rule in one.own)
    ]
    about += [
        f"{one.verb}:{one.shown}" for one in words.FAMILIES.values() if one.grant in row.grants
    ]
    names = ", ".join(f"`{key}`" for key in row.keys)
    held = ", ".join(f"`{name}`" for name in about) or "none"
    return row.direction.value, names, held, row.rule


def _is_about(rule: Rule, row: Row) -> bool:
    return rule.direction is row.direction and rule.key in row.keys


def moves() -> str:
    """The moves of a carried request."""
    rows = [(m.state.value, m.event.value, m.to.value, m.effect) for m in MOVES]
    return table(("from", "event", "to", "effect"), rows)


def guards() -> str:
    """Every guard, and the attack it stops."""
    rows = [(f"`{one.name}`", one.protects, one.attack) for one in GUARDS]
    return table(("guard", "protects", "stops"), rows)


def doors() -> str:
    """The most that clients and components get of the bridge."""
    mib, kib = 1 << 20, 1 << 10
    unsent = f"{mcp.UNSENT // mib} MiB"
    oldest = "the one that has waited longest is closed"
    rows = (
        (
            "strangers",
            entrance.STRANGERS,
            "connections at one door without a secret, at most an eighth of all descriptors",
            oldest,
        ),
        (
            "login",
            f"{entrance.LOGIN:g} s",
            "from a connection to its secret (shim, join)",
            "closed",
        ),
        (
            "spare descriptors",
            entrance.SPARE,
            "left to the chain, or a quarter where there are few",
            f"{oldest}, or the new one",
        ),
        (
            "connections",
            http.CONNECTIONS,
            "HTTP, with the secret",
            "the one that is idle longest is closed; if none is, the new one gets 503",
        ),
        ("shims", mcp.STDIO_CLIENTS, "connections of shims", "the new one is closed"),
        (
            "head",
            f"{http.HEAD_BYTES // kib} KiB, {http.HEADERS} headers",
            "the head of a request",
            "400, 431",
        ),
        (
            "head seconds",
            f"{http.PATIENCE.head:g} s",
            "from a connection, or a first byte, to the end of the head",
            "408",
        ),
        ("body seconds", f"{http.PATIENCE.body:g} s", "from the head to the end", "408"),
        ("body", "`line-limit`", "one body", "413, before it is read"),
        (
            "bodies",
            f"{mcp.BODIES // mib} MiB",
            "all bodies that are being read, or wait to be passed on",
            "503",
        ),
        (
            "half lines",
            f"{mcp.PARTIAL_LINES // mib} MiB",
            "lines without an end, of all shims",
            "the one with most is closed",
        ),
        ("unsent", unsent, "what clients do not read, of all", "the one with most is closed"),
        (
            "sessions",
            mcp.SESSIONS,
            "sessions at one URL",
            "the oldest that is idle ends; if none is, 503",
        ),
        ("streams", 1, "a GET of one session", "409"),
        ("open", mcp.UNANSWERED, "requests to one server without an answer", "an error"),
        ("native", mcp.NATIVE_CLIENTS, "connections of an ACP agent to a server", "an error"),
        (
            "subscriptions",
            mcp.SUBSCRIPTIONS,
            "subscriptions to one server, and resources in them",
            "an error",
        ),
        ("inputs", mcp.INPUTS, "inputs wanted at once", "an error"),
        ("rounds", mcp.INPUT_ROUNDS, "times one request may want input", "an error"),
        ("pages", mcp.APPS, "pages of tools that are served", "the oldest is served no more"),
        (
            "page",
            f"{mcp.APP_BYTES // mib} MiB",
            "a page; arguments and result that it shows",
            "it is not shown",
        ),
        ("page requests", mcp.APP_OPEN, "of one page, without an answer", "an error"),
    )
    head = ("limit", "is", "bounds", "beyond")
    return table(head, [(one, str(many), what, then) for one, many, what, then in rows])


def component_options_table() -> str:
    """The keys that may stand behind a component."""
    rows = [
        (f"`{option.name}={option.value}`".replace("|", r"\|"), option.help)
        for option in component_options.OPTIONS
    ]
    return table(("key", "meaning"), rows)


def written() -> str:
    """How a component is written."""
    return table(("written", "is"), syntax.WRITTEN)


def package_sources() -> str:
    """How a source is written."""
    return table(("written", "is"), package_kinds.WRITTEN)


def filters() -> str:
    """The terms of the language that chooses events, and how they are put together."""
    terms = ((f"`~{name} {t.value}`".replace(" `", "`"), t.what) for name, t in TERMS.items())
    return table(("filter", "chooses events"), [*terms, *TOGETHER])


def command_table() -> str:
    """Every command, with its line in help."""
    root = command_line.command()
    rows = [
        (
            "`" + manual.usage(command, f"conductor {row.path}").replace("|", r"\|") + "`",
            topics.briefly(row),
        )
        for row, command in manual.listed(root)
        if not commands.below(row.path) or row.function() is not None
    ]
    return table(("command", "does"), rows)


def exit_codes() -> str:
    """The exit codes."""
    return table(("code", "meaning"), commands.EXIT_CODES)


def config_options() -> str:
    """The options that files, variables and `-c` may set."""
    rows = [(*_key(row), _holds(row)) for row in option_layers.ROWS.values()]
    return table(("key", "value", "meaning", "default", "holds for"), rows)


def serve_options() -> str:
    """The keys of `[serve]`."""
    rows = [(*_key(row), _holds(row)) for row in option_table.SERVE if row.key != "days"]
    return table(("key", "value", "meaning", "default", "holds for"), rows)


def _key(row: option_table.Option) -> tuple[str, ...]:
    what, _, default = row.help.partition(" Default: ")
    value = "a switch" if row.kind.read is None else row.kind.metavar.replace("|", ", ")
    return f"`{row.key}`", value, f"{what} {row.page}".rstrip(), default.removesuffix(".")


def _holds(row: option_table.Option) -> str:
    if not {*row.commands} & {*option_table.ALL}:
        return ", ".join(f"`{name}`" for name in row.commands)
    taking = [name for name in option_table.ALL if row.configures(name)]
    return "all" if len(taking) == len(option_table.ALL) else ", ".join(f"`{n}`" for n in taking)


def known_agents() -> str:
    """The agents that conductor knows by name."""
    rows = [
        (
            f"`{one.id}`" + "".join(f", `{alias}`" for alias in one.aliases),
            one.name,
            f"`{' '.join(one.command)}`",
            f"`{one.install}`".replace("|", "\\|"),
            one.login,
        )
        for one in agents.table()
    ]
    return table(("named", "is", "starts", "to install", "to log in"), rows)


def agent_quirks() -> str:
    """The peculiarities of known agents."""
    rows = [(f"`{one.id}`", quirk) for one in agents.table() for quirk in one.quirks]
    return table(("agent", "quirk"), rows)


TABLES: Final[dict[str, Callable[[], str]]] = {
    "commands": command_table,
    "written": written,
    "sources": package_sources,
    "known_agents": known_agents,
    "agent_quirks": agent_quirks,
    "filters": filters,
    "exit_codes": exit_codes,
    "component_options": component_options_table,
    "serve_options": serve_options,
    "config_options": config_options,
    "dialects": dialects,
    "services": services,
    "limits": limits,
    "doors": doors,
    "flow": flow,
    "components": components,
    "trials": for_trials,
    "rights": rights,
    "sets": sets,
    "keys": keys,
    "moves": moves,
    "guards": guards,
}


def drawn(text: str) -> str:
    """`text` with every table as the program says it. Raises `KeyError` for an unknown one."""
    return _TABLE.sub(lambda match: match[1] + TABLES[match[2]]() + match[3], text)


def man_page() -> str:
    """The man page, as it should be."""
    return f"{manual.man_page(command_line.command())}\n"


def schema() -> str:
    """The JSON Schema of `conductor.toml`, as `conductor config schema` prints it."""
    return msgspec.json.format(msgspec.json.encode(config_schema.schema())).decode() + "\n"


def manifests() -> bytes:
    """The manifests of the bundled components, as a start reads them."""
    texts = {
        name: (ROOT / "components" / name / MANIFEST).read_text(encoding="utf-8")
        for name in catalog.bundled()
    }
    return drawn_manifests.encoded({n: (t, toml_files.loads(t)) for n, t in texts.items()})


def main() -> None:
    """Draws the tables of all documents, the man page, the schema of `conductor.toml` and the
    manifests of the bundled components."""
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        fresh = drawn(text)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
    MAN_PAGE.write_text(man_page(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
    MANIFESTS.write_bytes(manifests())


if __name__ == "__main__":
    main()
