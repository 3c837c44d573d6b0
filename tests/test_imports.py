"""Who may import whom: the directions of docs/architecture.md, checked on the syntax trees.

Every import counts, also inside functions and under `TYPE_CHECKING`: what a module knows of is what
it depends on, whenever it is loaded.
"""

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.places import ROOT

OURS: Final = ("conductor", "wasm_host", "guest_sdk", "components", "benchmarks", "tests")

BASE: Final = (
    *("conductor.children", "conductor.errors", "conductor.patterns", "conductor.secret_shapes"),
    *("conductor.installation", "conductor.code_cache", "conductor.signals"),
)
"""The modules that any module may import."""


class Rule(NamedTuple):
    """The imports that modules below `scope` may have: of our own packages, and of other people's.

    Names are prefixes of dotted names. Without `external` anything not ours is allowed; the
    standard library always is.
    """

    scope: str
    ours: tuple[str, ...]
    external: tuple[str, ...] | None = None


RULES: Final = (
    # One rule a folder, lower ones first: a folder may import what stands above its row. The most
    # specific scope counts.
    Rule("conductor.patterns", (), ()),
    Rule("conductor.secret_shapes", (), ()),
    Rule("conductor.errors", ("conductor.patterns", "conductor.secret_shapes"), ()),
    Rule("conductor.children", ("conductor.errors",), ()),
    Rule("conductor.tasks", (), ("anyio",)),
    Rule("conductor.signals", (), ()),
    Rule("conductor.version", (), ()),
    Rule("conductor.code_cache", (), ()),
    Rule("conductor.installation", (), ()),
    Rule("conductor.core", ("conductor.core", *BASE), ("msgspec",)),
    # A machine of states, as pure as the core.
    Rule("conductor.link", ("conductor.link", *BASE), ("msgspec",)),
    Rule("conductor.fleet.rollout", BASE, ("msgspec",)),
    Rule(
        "conductor.transports",
        ("conductor.transports", "conductor.core", *BASE, "wasm_host"),
        ("msgspec", "anyio"),
    ),
    # Only what dials an address knows of the network.
    Rule(
        "conductor.transports.remote",
        ("conductor.transports", "conductor.link", "conductor.core", *BASE),
        ("msgspec", "websockets", "httpcore2"),
    ),
    Rule("conductor.transports.remote.address", BASE, ("msgspec",)),
    # All listeners share one server of HTTP.
    Rule(
        "conductor.http",
        ("conductor.http", "conductor.transports", "conductor.core", *BASE),
        ("httptools", "msgspec", "websockets"),
    ),
    Rule(
        "conductor.services",
        ("conductor.services", "conductor.core", *BASE),
        ("anyio", "httpcore2", "msgspec"),
    ),
    Rule(
        "conductor.services.fetch",
        ("conductor.services", "conductor.core", "conductor.transports.remote.in_pieces", *BASE),
        ("anyio", "httpcore2", "msgspec"),
    ),
    # The module makes a folder of its own.
    Rule(
        "conductor.services.kv",
        ("conductor.services", "conductor.core", "conductor.spec.private_files", *BASE),
        ("msgspec",),
    ),
    Rule(
        "conductor.mcp",
        ("conductor.mcp", "conductor.http", "conductor.transports", "conductor.core", *BASE),
        ("msgspec",),
    ),
    Rule(
        "conductor.mcp.streamable",
        ("conductor.mcp", "conductor.transports", "conductor.core", *BASE),
        ("httpcore2",),
    ),
    # The bridge is pure, as the core is. Agents wait for the shim to start.
    Rule(
        "conductor.mcp.bridge",
        ("conductor.mcp.bridge", "conductor.mcp.limits", "conductor.core"),
        ("msgspec",),
    ),
    Rule("conductor.mcp.doors.shim", (), ()),
    Rule(
        "conductor.editor",
        ("conductor.editor", "conductor.transports", "conductor.core", *BASE),
        ("msgspec",),
    ),
    Rule(
        "conductor.spec",
        (
            *("conductor.spec", "conductor.core", *BASE),
            *("conductor.core.policy.scopes", "conductor.mcp", "conductor.version"),
            *("conductor.transports.remote.address", "conductor.transports.framing"),
        ),
        ("msgspec", "packaging", "pydantic", "tomlkit", "cryptography"),
    ),
    Rule(
        "conductor.run",
        (
            *("conductor.run", "conductor.spec", "conductor.mcp", "conductor.services"),
            "conductor.editor",
            *("conductor.transports", "conductor.core", *BASE, "wasm_host"),
        ),
        ("msgspec", "uvloop"),
    ),
    Rule(
        "conductor.record",
        (
            *("conductor.record", "conductor.run", "conductor.spec", "conductor.transports"),
            *("conductor.services.calls", "conductor.core", *BASE),
            *("conductor.tasks", "conductor.version"),
        ),
        ("anyio", "msgspec"),
    ),
    Rule(
        "conductor.client",
        (
            *("conductor.client", "conductor.telemetry", "conductor.record", "conductor.run"),
            *("conductor.spec", "conductor.mcp", "conductor.services", "conductor.transports"),
            *("conductor.editor.messages", "conductor.core", *BASE),
            *("conductor.tasks", "conductor.version"),
        ),
        ("msgspec",),
    ),
    Rule(
        "conductor.control",
        (
            *("conductor.control", "conductor.record", "conductor.run", "conductor.spec"),
            *("conductor.transports", "conductor.core", *BASE, "conductor.version"),
        ),
        ("msgspec",),
    ),
    Rule(
        "conductor.telemetry",
        (
            *("conductor.telemetry", "conductor.record", "conductor.run", "conductor.spec"),
            *(
                "conductor.http",
                "conductor.transports",
                "conductor.core",
                *BASE,
                "conductor.version",
            ),
        ),
        ("msgspec", "opentelemetry", "requests"),
    ),
    Rule(
        "conductor.page",
        (
            *("conductor.page", "conductor.control", "conductor.client", "conductor.record"),
            *(
                "conductor.editor.messages",
                "conductor.editor.urls",
                "conductor.http",
                "conductor.run",
                "conductor.spec",
                "conductor.mcp",
                "conductor.transports",
            ),
            *("conductor.core", *BASE, "conductor.tasks", "conductor.version"),
        ),
        ("anyio", "msgspec"),
    ),
    Rule(
        "conductor.serve",
        (
            *("conductor.serve", "conductor.run", "conductor.spec", "conductor.transports"),
            *("conductor.http", "conductor.link"),
            *("conductor.core", *BASE, "conductor.version"),
        ),
        ("httpcore2", "jwt", "msgspec"),
    ),
    # The hub is pure, as the core is.
    Rule("conductor.serve.hub", ("conductor.serve.hub", "conductor.core", *BASE), ("msgspec",)),
    Rule(
        "conductor.author",
        (
            *("conductor.author", "conductor.record", "conductor.run", "conductor.spec"),
            "guest_sdk",
            *("conductor.transports", "conductor.core", *BASE, "conductor.tasks", "wasm_host"),
        ),
        ("anyio", "msgspec", "uvloop"),
    ),
    Rule(
        "conductor.packages",
        (
            *("conductor.packages", "conductor.spec", *BASE, "conductor.version"),
            *("conductor.core.policy.scopes", "wasm_host"),
        ),
        ("anyio", "cryptography", "httpcore2", "msgspec", "packaging", "sigstore"),
    ),
    # Only the bus knows of NATS.
    Rule(
        "conductor.fleet",
        (
            *("conductor.fleet", "conductor.serve", "conductor.run", "conductor.spec"),
            *("conductor.link", "conductor.transports", "conductor.packages"),
            *("conductor.core", *BASE, "conductor.tasks", "conductor.version"),
        ),
        ("anyio", "msgspec"),
    ),
    *(
        Rule(
            f"conductor.fleet.{name}",
            ("conductor.fleet", "conductor.transports.task_group", *BASE),
            ("anyio", "msgspec", "nats"),
        )
        for name in ("bus", "bucket", "client")
    ),
    Rule("conductor.fleet.sealed", BASE, ("msgspec", "cryptography")),
    Rule("conductor.fleet.kv", ("conductor.fleet", "conductor.services", *BASE), ("msgspec",)),
    # The module of unwritten entries is pure.
    Rule("conductor.fleet.unwritten", BASE, ("msgspec",)),
    Rule(
        "conductor.fleet.journal",
        (
            *("conductor.fleet", "conductor.serve.hub"),
            *("conductor.transports", "conductor.core", *BASE),
        ),
        ("msgspec",),
    ),
    Rule(
        "conductor.fleet.journal_trace",
        ("conductor.fleet", "conductor.record", "conductor.core", *BASE),
        ("msgspec",),
    ),
    # How a room is found is pure.
    Rule("conductor.fleet.placing", BASE, ("msgspec",)),
    Rule(
        "conductor.editors",
        ("conductor.editors", "conductor.spec", *BASE, "conductor.version"),
        ("msgspec",),
    ),
    Rule("wasm_host", ("wasm_host",)),
    Rule("guest_sdk", ("guest_sdk",)),
    Rule("guest_sdk.python.build", (), ()),
    Rule("components", ("components", "guest_sdk")),
    Rule("components.build", ("components",), ("ziglang",)),
)

SEEN_BY: Final = {
    # module: who alone may import it (prefixes)
    "conductor.cli": ("conductor.cli", "conductor.__main__", "tests", "benchmarks"),
    "wasm_host": (
        *("wasm_host", "conductor.transports", "conductor.run", "conductor.author"),
        *("conductor.packages", "conductor.cli", "tests", "benchmarks"),
    ),
    "tests": ("tests",),
    "tests.hostile.costs": ("tests", "benchmarks.chaos"),
    "tests.harness.process.cutter": ("tests", "benchmarks.chaos"),
    "tests.harness.process.netns": ("tests", "benchmarks.fleet"),
    "tests.harness.fleet": ("tests", "benchmarks.fleet"),
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
    """The faults of a module's imports."""
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
        if imported == "conductor" and below(
            name, "conductor"
        ):  # only to learn where it is installed
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


@pytest.mark.parametrize("package", ["conductor.core", "conductor.link", "conductor.mcp"])
def test_no_import_leads_in_a_circle(package: str) -> None:
    """A module can be understood, and changed, knowing only the modules it imports. What a router
    is made of stands in `parts`, by its names alone."""
    graph = {
        name: {imported for imported in imports(name, path) if imported != name}
        for name, path in modules()
        if below(name, package) and name != "conductor.core.parts"
    }
    TopologicalSorter(graph).prepare()


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
        ("conductor.core.x", "from conductor import errors", True),
        ("conductor.core.x", "def f():\n    from conductor.run.outboxes import Outboxes", False),
        ("conductor.core.x", "from ..run import outboxes", False),
        ("conductor.transports.x", "from conductor.core.jsonrpc import parse", True),
        ("conductor.transports.x", "from conductor.run import plan", False),
        ("conductor.transports.x", "import wasm_host", True),
        ("conductor.mcp.bridge.x", "from conductor.transports import base", False),
        ("conductor.link.x", "from conductor.core import jsonrpc", False),
        ("conductor.spec.x", "import wasm_host", False),
        ("conductor.run.x", "from conductor.cli import main", False),
        ("conductor.run.x", "from conductor.record import diff", False),
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
