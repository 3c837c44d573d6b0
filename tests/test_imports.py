"""Who may import whom: the directions of docs/architecture.md, checked on the syntax trees.

Every import counts, also inside functions and under `TYPE_CHECKING`: what a module knows of is what
it depends on, whenever it is loaded.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[1]
OURS: Final = ("conductor", "wasm_host", "guest_sdk", "components", "benchmarks", "tests")


class Rule(NamedTuple):
    """What the modules below `scope` may import: of our own packages, and of other people's.

    Names are prefixes of dotted names. Without `external` anything not ours is allowed; the
    standard library always is.
    """

    scope: str
    ours: tuple[str, ...]
    external: tuple[str, ...] | None = None


CORE: Final = ("conductor.core",)
TRANSPORTS: Final = ("conductor.transports", "conductor.errors", "conductor.core.jsonrpc")
RULES: Final = (
    # The most specific scope counts. What has no rule here (the command line, the catalogue, how a
    # chain is put together) may see everything, except where the second table says otherwise.
    Rule("conductor.core", (*CORE, "conductor.foreign"), ("msgspec",)),
    Rule("conductor.foreign", (), ()),
    Rule(
        "conductor.transports",
        # `early` is the start of a process before the event loop: `process` takes it over.
        (*TRANSPORTS, "conductor.early"),
        ("msgspec", "anyio"),
    ),
    Rule("conductor.transports.guest", (*TRANSPORTS, "wasm_host")),
    Rule("conductor.transports.delivery", ("wasm_host",)),
    Rule("conductor.early", (), ()),
    Rule("conductor.lean", (), ("msgspec",)),
    Rule("conductor.opened", (), ()),
    Rule("conductor.toml", (), ("msgspec",)),
    Rule("conductor.errors", ("conductor.foreign",), ()),
    Rule(
        "conductor.scripts",
        ("conductor.errors", "conductor.hosting", "conductor.opened"),
        ("msgspec",),
    ),
    Rule(
        "conductor.script_facts",
        ("conductor.scripts", "conductor.script_settings"),
        ("msgspec",),
    ),
    Rule("conductor.script_settings", (), ("msgspec",)),
    Rule("guest_sdk.python.build", (), ()),
    Rule("conductor.digests", ("conductor.errors", "conductor.opened"), ()),
    Rule(
        "conductor.guest_spec",
        ("conductor.transports.framing", "conductor.core.policy"),
        ("msgspec",),
    ),
    Rule("conductor.hub", CORE),
    Rule("conductor.recovery", (), ("msgspec",)),
    Rule("conductor.json_diff", ("conductor.text_pairs",), ()),
    Rule("conductor.text_pairs", (), ()),
    Rule(
        "conductor.cage",
        (
            "conductor.cage",
            "conductor.early",
            "conductor.errors",
            "conductor.opened",
            "conductor.script_facts",
            "conductor.scripts",
            "conductor.guest_module",
            "conductor.guest_spec",
            "conductor.limits",
            "conductor.transports.pipes",
            "wasm_host",
        ),
        ("msgspec",),
    ),
    Rule("conductor.replay.wire", (*CORE, "conductor.replay.record"), ("msgspec",)),
    Rule("conductor.reports", (*CORE, "conductor.guest_spec", "conductor.planned"), ("msgspec",)),
    Rule("conductor.reports.changes", CORE, ("msgspec",)),
    Rule("conductor.reports.deliveries", CORE, ("msgspec",)),
    Rule("conductor.reports.lines", (*CORE, "conductor.guest_spec"), ("msgspec",)),
    Rule(
        "conductor.services",
        (*CORE, "conductor.limits", "conductor.services"),
        ("anyio", "httpcore2", "msgspec", "platformdirs"),
    ),
    Rule(
        "conductor.serving",
        (*CORE, "conductor.guest_spec", "conductor.planned", "conductor.services"),
        ("msgspec",),
    ),
    Rule(
        "conductor.settings",
        ("conductor.errors", "conductor.opened", "conductor.toml"),
        ("msgspec",),
    ),
    Rule(
        "conductor.runtime",
        (
            *CORE,
            *TRANSPORTS,
            "conductor.guest_spec",
            "conductor.hub",
            "conductor.launch",
            "conductor.mcp.transport",
            "conductor.reports",
            "conductor.runtime",
            "conductor.services",
            "conductor.serving",
        ),
    ),
    Rule(
        "conductor.runtime.connections",
        (*CORE, "conductor.errors", "conductor.runtime.flow", "conductor.transports.base"),
    ),
    Rule(
        "conductor.runtime.supervisor",
        (
            *CORE,
            *TRANSPORTS,
            "conductor.runtime.connections",
            "conductor.planned",
            "conductor.recovery",
        ),
    ),
    Rule("conductor.runtime.flow", ("conductor.launch", "conductor.transports.base")),
    Rule("conductor.runtime.ending", (*CORE, "conductor.transports.base"), ("msgspec",)),
    Rule("conductor.runtime.tasks", CORE, ()),
    Rule("conductor.runtime.health", (*CORE, "conductor.planned")),
    Rule("conductor.rounds", (*CORE, "conductor.hub"), ()),
    Rule(
        "conductor.segment",
        (
            *CORE,
            "conductor.reports.changes",
            "conductor.reports.deliveries",
            "conductor.guest_module",
            "conductor.guest_spec",
            "conductor.hub",
            "conductor.limits",
            "conductor.rounds",
            "conductor.recovery",
            "conductor.reports.lines",
            "conductor.services",
            "conductor.transports.buffers",
            "conductor.transports.delivery",
            "conductor.transports.framing",
            "wasm_host",
        ),
    ),
    Rule(
        "conductor.segment_start",
        (
            *CORE,
            "conductor.guest_module",
            "conductor.guest_spec",
            "conductor.reports.lines",
            "conductor.segment",
            "conductor.transports.delivery",
            "wasm_host",
        ),
    ),
    Rule(
        "conductor.guest_module",
        (
            *CORE,
            "conductor.digests",
            "conductor.limits",
            "conductor.errors",
            "conductor.guest_spec",
            "conductor.scripts",
            "wasm_host",
        ),
    ),
    # Agents wait for the shim to start.
    Rule("conductor.mcp.shim", (), ()),
    Rule(
        "conductor.mcp.shells_stdio",
        (
            "conductor.mcp",
            "conductor.errors",
            "conductor.transports.entrance",
            "conductor.transports.fds",
            "conductor.transports.private",
        ),
        ("msgspec",),
    ),
    Rule("conductor.mcp.shells_socket", ("conductor.transports.private",), ()),
    Rule("conductor.mcp.stdio_clients", ("conductor.mcp", "conductor.transports.fds"), ()),
    Rule(
        "conductor.mcp.http", ("conductor.mcp", "conductor.core", "conductor.errors"), ("msgspec",)
    ),
    Rule("conductor.mcp.http.connections", (), ("h11",)),  # with which uvicorn reads HTTP
    Rule(
        "conductor.mcp.http.server",
        ("conductor.mcp.http", "conductor.transports.entrance"),
        ("uvicorn",),
    ),
    # The bridge is pure, as the core is; its shells and its place before the agent are not.
    Rule("conductor.mcp", (*CORE, "conductor.mcp"), ("msgspec",)),
    Rule(
        "conductor.mcp.transport",
        (*CORE, *TRANSPORTS, "conductor.mcp"),
        ("msgspec",),
    ),
    Rule("wasm_host", ("wasm_host",)),
    Rule("guest_sdk", ("guest_sdk",)),
    Rule("components", ("components", "guest_sdk")),
    Rule("components.build", ("components",), ("ziglang",)),
)

SEEN_BY: Final = {
    # module: who alone may import it (prefixes)
    "conductor.cli": ("conductor.cli", "conductor.__main__", "tests", "benchmarks"),
    "wasm_host": (
        "wasm_host",
        "conductor.transports.guest",
        "conductor.transports.delivery",
        "conductor.cage",
        "conductor.segment",
        "conductor.segment_start",
        "conductor.guest_module",
        "conductor.hosting",
        "conductor.lock.writing",
        "conductor.cached",
        "conductor.doctor",
        "conductor.playback.playing",
        "conductor.catalog",
        "conductor.cli",
        "tests",
        "benchmarks",
    ),
    "tests": ("tests",),
    "tests.hostile.costs": ("tests", "benchmarks.chaos"),
    "benchmarks": ("benchmarks", "tests.benchmarks"),
}


def below(name: str, prefix: str) -> bool:
    """Whether a dotted name is `prefix` or inside it."""
    return name == prefix or name.startswith(prefix + ".")


def modules() -> Iterator[tuple[str, Path]]:
    """Every Python module of the project, with its dotted name."""
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(name: str, path: Path) -> Iterator[str]:
    """The dotted names a module imports; for `from a import b` both `a` and `a.b` are meant."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = node.module or ""
            if node.level:
                package = name.split(".")
                is_package = path.name == "__init__.py"
                package = package[: len(package) - node.level + is_package]
                start = ".".join([*package, start] if start else package)
            yield from (resolve(f"{start}.{alias.name}") for alias in node.names)


def resolve(name: str) -> str:
    """The module a dotted name of ours is, or is in."""
    if name.partition(".")[0] not in OURS:
        return name
    path = ROOT.joinpath(*name.split("."))
    return name if path.is_dir() or path.with_suffix(".py").is_file() else name.rpartition(".")[0]


def rule_for(name: str) -> Rule | None:
    """The most specific rule for a module."""
    found = [rule for rule in RULES if below(name, rule.scope)]
    return max(found, key=lambda rule: len(rule.scope), default=None)


def complaints(name: str, path: Path) -> list[str]:
    """What is wrong with a module's imports."""
    wrong = []
    rule = rule_for(name)
    for imported in imports(name, path):
        top = imported.partition(".")[0]
        seen = max((one for one in SEEN_BY if below(imported, one)), key=len, default=None)
        by = SEEN_BY[seen] if seen is not None else (name,)
        if not any(below(name, prefix) for prefix in by):
            wrong.append(f"{name} imports {imported}: only {', '.join(by)} may")
        if rule is None or top in sys.stdlib_module_names or top == "__future__":
            continue
        if top in OURS or imported in siblings(name, path):
            allowed = top not in OURS or any(below(imported, prefix) for prefix in rule.ours)
        else:
            allowed = rule.external is None or top in rule.external
        if not allowed:
            wrong.append(f"{name} imports {imported}: not allowed below {rule.scope}")
    return wrong


def siblings(name: str, path: Path) -> set[str]:
    """Modules a component's script finds beside itself."""
    return {one.stem for one in path.parent.glob("*.py")} if below(name, "components") else set()


def test_every_import_goes_the_right_way() -> None:
    found = list(modules())
    assert {name.partition(".")[0] for name, _ in found} >= {"conductor", "wasm_host", "tests"}
    assert [line for name, path in found for line in complaints(name, path)] == []


def test_every_rule_is_about_something() -> None:
    names = [name for name, _ in modules()]
    scopes = [rule.scope for rule in RULES] + list(SEEN_BY)
    scopes += [prefix for by in SEEN_BY.values() for prefix in by]
    empty = [scope for scope in scopes if not any(below(name, scope) for name in names)]
    assert empty == []


@pytest.mark.parametrize(
    ("name", "source", "allowed"),
    [
        ("conductor.core.x", "import msgspec, re", True),
        ("conductor.core.x", "from conductor.core import jsonrpc", True),
        ("conductor.core.x", "import anyio", False),
        ("conductor.core.x", "from conductor import errors", False),
        ("conductor.core.x", "def f():\n    from conductor.hub import Hub", False),
        ("conductor.core.x", "from .. import hub", False),
        ("conductor.transports.x", "from conductor.core import jsonrpc", True),
        ("conductor.transports.x", "from conductor.core.jsonrpc import parse", True),
        ("conductor.transports.x", "from conductor.core import Router", False),
        ("conductor.transports.x", "import wasm_host", False),
        ("conductor.transports.guest", "import wasm_host", True),
        ("conductor.runtime", "import wasm_host", False),
        ("conductor.runtime", "from conductor.cli import main", False),
        ("conductor.__main__", "from conductor.cli import main", True),
        ("wasm_host.x", "import conductor", False),
        ("wasm_host.x", "import wasmtime", True),
        ("components.x.y", "import wasm_host", False),
        ("conductor.x", "from tests import playbook", False),
    ],
)
def test_the_check_itself(tmp_path: Path, name: str, source: str, allowed: bool) -> None:
    path = tmp_path / "x.py"
    path.write_text(source)
    assert (complaints(name, path) == []) is allowed
