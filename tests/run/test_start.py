"""Before an editor's first answer: the host of guests is started first, and imports are lean."""

import ast
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

import pytest

from conductor.core import json_text
from conductor.run import spawn
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from conductor.spec import catalog
from tests.places import ROOT

SANDBOXED: Final = [name for name in catalog.bundled() if catalog.resolve(name).sandboxed]


def started(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> bool:
    """Whether the host is started for this command line."""
    return imported_early(monkeypatch, arguments) is not None


def imported_early(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> list[str] | None:
    """The modules that the host imports at once; None if it is not started."""
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(spawn, "_spawn", lambda *early: calls.append(early))
    spawn.start(arguments)
    return list(calls[0]) if calls else None


def run(code: str, *arguments: str) -> list[str]:
    """The words that a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return done.stdout.split()


def test_there_are_bundled_sandboxed_components() -> None:
    assert {"passthrough", "datetime"} <= set(SANDBOXED)


AT_THE_HOST: Final = """
import os, sys
def shown(*arguments, **options):
    print(*set(sys.modules) - before)
    os._exit(0 if sys.stdout.flush() is None else 1)
os.posix_spawn = shown
before = set(sys.modules)
from conductor import cli
sys.argv[1:] = ["agent", "datetime", "demo"]
cli.main()
"""


def test_the_host_is_started_before_python_has_its_types() -> None:
    loaded = run(AT_THE_HOST)
    assert "conductor.run.spawn" in loaded
    assert {"typing", "re", "contextlib", "msgspec", "conductor.errors"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    "component",
    [*SANDBOXED, "datetime,only=context", "./proxy.wasm", "../a/b.wasm,memory=1MiB"],
)
def test_the_host_is_started_before_anything_is_imported(
    monkeypatch: pytest.MonkeyPatch, component: str
) -> None:
    assert started(monkeypatch, ["agent", "python proxy.py", component, "demo"])


@pytest.mark.parametrize(
    ("components", "python"),
    [
        (["passthrough", "./a.wasm,memory=1MiB"], False),
        (["passthrough", "./a.py"], True),
        (["passthrough", "context"], True),
        (["logging"], True),
        (["sessions"], True),
        (["passthrough", "--", "context"], False),
    ],
)
def test_what_components_need_is_imported_early_for_python_alone(
    monkeypatch: pytest.MonkeyPatch, components: list[str], python: bool
) -> None:
    early = imported_early(monkeypatch, ["agent", *components, "demo"])
    assert early is not None
    assert ("wasm_host.carriers.component" in early) == python


HOST: Final = """
import sys
from conductor.run import stand_ins
stand_ins.load("msgspec")
before = set(sys.modules)
import conductor.run.segment_start as start
from conductor.code_cache import CodeCache
start._read_spec = lambda: print(*set(sys.modules) - before) or exit()
start.main(CodeCache("host"))
"""


def test_a_host_imports_nothing_slow_before_it_knows_its_guests() -> None:
    loaded = set(run(HOST))
    assert "wasm_host.capi.objects" in loaded
    assert not loaded & {"wasmtime", "pathlib", "platform", "asyncio", "subprocess", "tempfile"}


LOADED: Final = """
import sys
import wasm_host
print(wasm_host.load(sys.argv[1], cache_dir=sys.argv[2]).cache_report)
print(*{"wasm_host.cache.compile_process", "subprocess", "tempfile"} & set(sys.modules))
"""


def test_a_module_that_is_compiled_is_loaded_without_the_compiler(tmp_path: Path) -> None:
    module, cache = str(catalog.resolve("datetime").wasm), str(tmp_path / "cache")
    assert "stored" in run(LOADED, module, cache)
    assert run(LOADED, module, cache) == ["hit"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent", "demo"],
        ["agent", "claude-agent-acp"],
        ["agent", "conductor proxy a.wasm", "demo"],
        ["agent", "./datetime", "demo"],
        ["agent", "-c", "isolation=inline", "datetime", "demo"],
    ],
)
def test_it_is_not_started_for_nothing(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    assert not started(monkeypatch, arguments)


STARTED: Final = """
import sys
from pathlib import Path
from conductor.spec.catalog import resolve_all
import conductor.run.launch, conductor.run.guest_host
resolve_all(["datetime,memory=1MiB", "demo"])
print(*{"tomllib"} & set(sys.modules))
folder = Path(sys.argv[1])
manifest = "name = 'x'\\ncommand = ['cat']\\n[rights]"
(folder / "component.toml").write_text(manifest)
resolve_all(["datetime,memory=1MiB", f"{folder}/", "demo"])
print(*(name for name in ("pydantic", "tomlkit", "typer", "platformdirs") if name in sys.modules))
"""


def test_manifests_are_read_without_what_takes_long_to_import(tmp_path: Path) -> None:
    """pydantic and tomlkit are for files that are wrong, and for those that are written; a bundled
    component needs no reader of TOML."""
    assert run(STARTED, str(tmp_path)) == []


LEAN: Final = """
import sys
before = set(sys.modules)
from conductor.run import stand_ins
{prepare}
stand_ins.load("msgspec")
stand_ins.load("msgspec")
import msgspec
class Point(msgspec.Struct):
    x: int
assert msgspec.json.decode(msgspec.json.encode(Point(1)), type=Point) == Point(1)
names = ("uuid", "decimal", "platform", "typing_extensions", "datetime", "textwrap")
print(*(name for name in names if name in set(sys.modules) - before))
import datetime, decimal, uuid
assert len(str(uuid.uuid4())) == 36
assert decimal.Decimal("1.5") * 2 == 3
day = datetime.datetime(2026, 3, 1)
assert msgspec.json.decode(msgspec.json.encode(day), type=datetime.datetime) == day
assert msgspec.json.schema(int) == dict(type="integer")
assert msgspec.json.schema_components([int])[0] == (dict(type="integer"),)
assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType()
assert not hasattr(msgspec, "nothing")
"""


def test_msgspec_is_imported_without_what_it_merely_asks_about() -> None:
    assert run(LEAN.format(prepare="")) == []


def test_a_msgspec_that_wants_to_know_more_gets_the_real_modules() -> None:
    prepare = 'stand_ins._STAND_INS["msgspec"].update(uuid={}, decimal={})'
    assert {"uuid", "decimal"} <= set(run(LEAN.format(prepare=prepare)))


LOOP: Final = """
import sys
from conductor.run import stand_ins
stand_ins.load("msgspec")
stand_ins.load("subprocess")
{prepare}
stand_ins.load_loop()
import asyncio, signal, uvloop
from conductor import signals
async def nothing():
    signals.call(asyncio.get_running_loop(), signal.SIGINT, print)
    return 1
assert uvloop.run(nothing()) == 1
late = ("ssl", "_ssl", "inspect", "linecache", "logging", "traceback", "locale")
print(*(name for name in late if name in sys.modules))
assert stand_ins.is_without_tls() == ("ssl" not in sys.modules)
import functools, inspect, ssl, subprocess
class Some:
    async def method(self):
        pass
    def __call__(self):
        pass
for one in (nothing, print, Some, Some(), Some().method, functools.partial(nothing), None):
    assert asyncio.iscoroutinefunction(one) == inspect.iscoroutinefunction(one)
assert ssl.create_default_context().check_hostname
assert inspect.signature(nothing).parameters == {{}}
assert subprocess.run(["echo", "words"], capture_output=True, text=True).stdout.split() == ["words"]
async def failing():
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.call_soon(int, "no number")
    await asyncio.sleep(0)
    await loop.run_in_executor(None, int)
uvloop.run(failing())
"""


def test_the_event_loop_is_imported_without_tls_and_what_describes_failures() -> None:
    assert run(LOOP.format(prepare="")) == []


def test_a_uvloop_that_wants_more_of_tls_gets_the_real_module() -> None:
    prepare = 'del stand_ins._STAND_INS["uvloop"]["ssl"]["SSLError"]'
    assert set(run(LOOP.format(prepare=prepare))) == {"ssl", "_ssl"}


def test_what_goes_wrong_in_the_event_loop_is_told() -> None:
    code = LOOP.format(prepare="")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no number" in done.stderr
    assert "Traceback" in done.stderr


CONFIGURED: Final = """
import os, sys
from pathlib import Path
folder = Path(sys.argv[1])
os.chdir(folder)
for name in list(os.environ):
    if name.startswith("CONDUCTOR_"):
        del os.environ[name]
os.environ["XDG_CONFIG_HOME"] = str(folder)
from conductor.cli import configured, fast, run, surroundings
if sys.argv[2:]:
    (folder / "conductor").mkdir()
    (folder / "conductor" / "conductor.toml").write_text(sys.argv[2])
before = set(sys.modules)
parsed = configured.applied(fast.parse(["agent", "work"]))
assert (parsed.config is not None) == bool(sys.argv[2:])
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings.")))
"""


def test_without_a_configuration_nothing_of_it_is_imported(tmp_path: Path) -> None:
    assert run(CONFIGURED, str(tmp_path)) == []


def test_a_configuration_costs_no_heavy_import(tmp_path: Path) -> None:
    file = '[chains.work]\ncomponents = ["demo"]\noptions.reload = true'
    imported = run(CONFIGURED, str(tmp_path), file)
    assert {"conductor.spec.config.layers", "tomllib"} <= set(imported)
    heavy = (
        "pydantic",
        "tomlkit",
        "typer",
        "platformdirs",
        "packaging",
        "hashlib",
        "json",
        "email",
    )
    assert not [name for name in imported if name.split(".")[0] in heavy]


IMPORTED: Final = """
import sys
import conductor
names = ("asyncio", "msgspec", "conductor.client", "conductor.run", "importlib.metadata")
print(*(name for name in names if name in sys.modules))
conductor.open, conductor.Chain
print("conductor.client" in sys.modules)
"""


def test_importing_the_library_loads_nothing_until_it_is_used() -> None:
    assert run(IMPORTED) == ["True"]


QUIET: Final = """
import sys
from conductor.cli import configured, fast, started
import conductor.client.chain, conductor.run.runtime, conductor.transports.stdio
parsed = fast.parse(["agent", "demo"])
assert started._telemetry(started.planned(parsed), None) is None
names = ("conductor.telemetry", "opentelemetry")
print(*(name for name in sys.modules if name.startswith(names)))
"""


def test_telemetry_that_is_not_wanted_is_not_imported() -> None:
    assert run(QUIET) == []


BEFORE_THE_LOOP: Final = """
import re, sys
compile, patterns = re.compile, []
def counted(*arguments, **options):
    if sys._getframe(1).f_globals["__name__"].startswith("conductor"):
        patterns.append(arguments)
    return compile(*arguments, **options)
re.compile = counted
from conductor.run import stand_ins
stand_ins.load("msgspec")
from conductor import cli
from conductor.cli import loop
def shown(work):
    print(len(patterns), *sys.modules)
    return 0
loop.run_loop = shown
cli.main(sys.argv[1:])
"""
"""Prints what has been loaded when the chain begins to take messages."""

AT_THE_SPAWN: Final = """
import subprocess, sys
from conductor.run import stand_ins
stand_ins.load("msgspec")
def shown(*arguments, **options):
    print(*sys.modules)
    raise SystemExit
subprocess.Popen = shown
from conductor import cli
cli.main(sys.argv[1:])
"""
"""Prints what has been loaded when the first program of a chain is started."""


@pytest.mark.parametrize("words", [["agent"], ["exec", "-p", "hi"]])
def test_the_agent_is_started_before_the_engine_and_the_event_loop_are_imported(
    words: list[str],
) -> None:
    """Modules that an agent does not wait for cost nobody time: most agents start more slowly than
    we."""
    loaded = run(AT_THE_SPAWN, *words, "datetime", "cat")
    assert "conductor.transports.process" in loaded
    late = ("asyncio", "uvloop", "conductor.core.router", "conductor.core.guards", "conductor.mcp.")
    assert [name for name in loaded if name.startswith(late)] == []


AT_THE_END: Final = "import atexit, sys; atexit.register(lambda: print(*sys.modules));"


SOON: Final = """
import sys
from conductor.cli import run
import conductor.run.runtime
before = set(sys.modules)
import conductor.cli.status, conductor.control.server
print(*(name for name in set(sys.modules) - before))
"""


def test_what_is_loaded_during_the_first_messages_is_ours_alone() -> None:
    """The metadata of the distribution, for its version, take longer than all of the core."""
    assert [name for name in run(SOON) if not name.startswith("conductor.")] == []


def among(modules: list[str], names: Collection[str]) -> set[str]:
    """The modules of these names, and those in packages of these names."""
    return {name for name in modules if any(f"{name}.".startswith(f"{one}.") for one in names)}


SLOW: Final = {
    *("ast", "base64", "dataclasses", "decimal", "dis", "email", "hashlib", "http", "inspect"),
    *("importlib.metadata", "linecache", "logging", "pathlib", "platform", "random", "ssl"),
    *("tempfile", "textwrap", "tokenize", "tomllib", "traceback", "typing_extensions", "uuid"),
    *("anyio", "h11", "httpcore2", "httptools", "packaging", "pydantic", "rich", "tomlkit"),
    *("typer", "wasmtime", "websockets"),
}
"""Modules that take long to import, and that no first message needs."""
AT_A_CHANGE: Final = {
    f"conductor.core.guards.{name}"
    for name in (
        *("check", "command_lists", "commands", "conversations", "editor", "extensions", "links"),
        *("mcp_words", "permissions", "plain_text", "prompts", "sessions", "table", "updates"),
    )
}
"""Modules that judge: only messages that a component changes or sends of its own need them."""
AT_A_PROMPT: Final = {
    f"conductor.core.{name}"
    for name in (
        *("editor", "guards.capabilities", "guards.every_message", "guards.metas", "guards.modes"),
        *("guards.names", "guards.servers", "held_prompts", "oversize", "own_prompts", "own_turns"),
        *("policy.handshake", "policy.held_requests", "policy.notifications", "policy.observers"),
        *("policy.cancellations", "policy.checks", "policy.requests", "policy.settling"),
        *("policy.turns", "ports", "questions", "rearranging", "rebinding", "roles.detection"),
        "turn_queue",
    )
}
"""Parts of a router, and what judges sessions: no chain needs these before it has one."""
OF_SOME_CHAINS: Final = {
    f"conductor.{name}"
    for name in (
        *("author", "client", "control", "editors", "fleet", "http", "link", "packages", "page"),
        *("cli.app", "cli.consent", "cli.exec_", "cli.scp", "cli.serve", "cli.status", "cli.usage"),
        *("core.agent_sessions", "core.early_updates", "core.logins", "core.own_folders"),
        *("core.replays", "core.reviving", "core.roles.participant", "editor.desk"),
        *("mcp.bridge", "mcp.doors", "mcp.http", "record.audit", "record.trace", "record.turns"),
        *("run.consent", "run.elsewhere", "run.in_process", "run.judged_folder", "run.pauses"),
        *("run.rearrangement", "run.segment", "run.shortcut", "serve", "services.executor"),
        *("spec.config", "spec.consent.agreements", "spec.lock", "spec.peer_agents", "telemetry"),
        *("transports.guest", "transports.remote"),
    )
}
"""Modules that only some chains need, or a chain that runs for longer."""


@pytest.mark.parametrize("proxies", [[], SANDBOXED[:1]])
def test_a_chain_starts_without_what_its_first_message_does_not_need(proxies: list[str]) -> None:
    patterns, *modules = run(BEFORE_THE_LOOP, "agent", *proxies, "demo")
    assert "conductor.run.runtime" in modules
    late = SLOW | AT_A_CHANGE | AT_A_PROMPT | OF_SOME_CHAINS | {"json", "wasm_host"}
    assert among(modules, late) == set()
    assert int(patterns) <= 12 or proxies


def test_a_prompt_of_exec_is_sent_without_what_takes_long_to_import() -> None:
    _, *modules = run(BEFORE_THE_LOOP, "exec", "-p", "hi", "demo")
    assert {"conductor.cli.exec_run", "conductor.run.runtime"} <= set(modules)
    assert among(modules, SLOW | AT_A_CHANGE) == set()


def host_modules(*flags: str) -> list[str]:
    """The modules of a host that waits for its guests' names. `flags`: of Python."""
    python, *options, code = spawn.child_command()
    command = [python, *flags, *options, AT_THE_END + code]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True
    )
    return done.stdout.split()


def loaded_in_functions(module: str) -> set[str]:
    """The modules that the functions of a module import."""
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    functions = [
        node
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    inside = [node for function in functions for node in ast.walk(function)]
    plain = {name.name for node in inside if isinstance(node, ast.Import) for name in node.names}
    return plain | {node.module or "" for node in inside if isinstance(node, ast.ImportFrom)}


PYTHONS: Final = {"base64", "datetime", "json"}
"""Modules of Python's own that some guests need."""
OF_HOSTS: Final = {f"conductor.{name}" for name in ("run.segment", "run.shortcut")} | {
    "conductor.transports.guest"
}


def test_a_host_starts_without_what_no_guest_needs() -> None:
    modules = host_modules()
    late = (SLOW | OF_SOME_CHAINS) - {"base64", *OF_HOSTS}
    ours = {"conductor.cli", "conductor.editor", "conductor.mcp", "conductor.record"}
    assert among(modules, late | ours | {"asyncio", "subprocess"}) == set()


def test_the_second_host_starts_without_what_no_first_message_needs(tmp_path: Path) -> None:
    place = ("-X", f"pycache_prefix={tmp_path}")
    late = AT_A_CHANGE | AT_A_PROMPT
    assert among(host_modules(*place), late) == late
    assert among(host_modules(*place), late | PYTHONS) == set()


INITIALIZE: Final = (
    b'p{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
)


@pytest.mark.parametrize("at", [0, 30, len(INITIALIZE)])
def test_a_host_may_get_messages_with_its_first_line(tmp_path: Path, at: int) -> None:
    guest = GuestSpec(name="passthrough", wasm=str(catalog.resolve("passthrough").wasm))
    spec = json_text.encode(SegmentSpec([guest], cache=str(tmp_path))) + b"\n"
    with subprocess.Popen(
        spawn.child_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    ) as host:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(spec + INITIALIZE[:at])
        host.stdin.flush()
        assert b'"ready"' in host.stdout.readline()
        host.stdin.write(INITIALIZE[at:])
        host.stdin.flush()
        assert host.stdout.readline() == b"s" + INITIALIZE[1:]


SEALED: Final = """
import atexit
def sealed():
    import sys
    from importlib import import_module
    from importlib.machinery import BuiltinImporter, FrozenImporter
    from conductor.run.segment_start import LOADED_LATE
    early = len(sys.modules)
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, cache]
    for name in LOADED_LATE:
        import_module(name)
    print(len(sys.modules) - early)
atexit.register(sealed)
"""
"""As a host that is locked up, loads all that it loads late."""


def test_a_host_that_is_locked_up_can_load_what_it_loads_late(tmp_path: Path) -> None:
    python, *options, code = spawn.child_command()
    command = [python, "-X", f"pycache_prefix={tmp_path}", *options, SEALED + code]
    for _ in range(2):
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True
        )
        assert not done.stderr
    assert int(done.stdout) >= len(AT_A_CHANGE | AT_A_PROMPT)


def test_what_a_host_loads_late_is_there_before_it_is_locked_up() -> None:
    """Once it is locked up it can read nothing. What is in memory then is loaded at once where
    Python may not write."""
    modules = host_modules("-B")
    assert set(modules) >= PYTHONS
    # These modules load their imports before.
    early = {"conductor.run.segment_start", "conductor.run.guest_module", "conductor.run.planned"}
    later = {
        (module, name)
        for module in modules
        if module.startswith(("conductor.core", "conductor.run", "conductor.services"))
        if module not in early
        for name in loaded_in_functions(module)
        if name not in modules
    }
    # The chain of a host has no agent that could be started again.
    of_agents = {
        ("conductor.core.topology", "conductor.core.agent_sessions"),
        ("conductor.core.router", "conductor.core.agent_sessions"),
    }
    # `segment_start` loads these for the guests, audits and traces that need them; what words mean
    # is for agreements.
    assert later - of_agents == {
        ("conductor.core.policy.words", "zlib"),
        ("conductor.core.state", "conductor.core.payloads"),
        ("conductor.run.report_lines", "hashlib"),
        ("conductor.run.segment", "conductor.run.host_record"),
    }
