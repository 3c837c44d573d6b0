"""Before an editor's first answer: the host of guests is started first, and imports are lean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.run import spawn
from conductor.spec import catalog
from tests.places import ROOT

SANDBOXED: Final = [name for name in catalog.bundled() if catalog.resolve(name).sandboxed]


def started(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> bool:
    """Whether the host is started for this command line."""
    calls: list[bool] = []
    monkeypatch.setattr(spawn, "_spawn", lambda: calls.append(True))
    spawn.start(arguments)
    return bool(calls)


def run(code: str, *arguments: str) -> list[str]:
    """What a fresh interpreter prints."""
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


@pytest.mark.parametrize(
    "component",
    [*SANDBOXED, "datetime,profile=context", "./proxy.wasm", "../a/b.wasm,memory=1MiB"],
)
def test_the_host_is_started_before_anything_is_imported(
    monkeypatch: pytest.MonkeyPatch, component: str
) -> None:
    assert started(monkeypatch, ["agent", "python proxy.py", component, "demo"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["agent", "demo"],
        ["agent", "claude-agent-acp"],
        ["agent", "conductor proxy a.wasm", "demo"],
        ["agent", "./datetime", "demo"],
        ["agent", "--isolation", "inline", "datetime", "demo"],
        ["agent", "--isolation=inline", "datetime", "demo"],
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
folder = Path(sys.argv[1])
manifest = "name = 'x'\\ncommand = ['cat']\\n[wants]\\nprofile = 'none'"
(folder / "component.toml").write_text(manifest)
resolve_all(["datetime,memory=1MiB", f"{folder}/", "demo"])
print(*(name for name in ("pydantic", "tomlkit", "typer", "platformdirs") if name in sys.modules))
"""


def test_manifests_are_read_without_what_takes_long_to_import(tmp_path: Path) -> None:
    """pydantic and tomlkit are for files that are wrong, and for those that are written."""
    assert run(STARTED, str(tmp_path)) == []


LEAN: Final = """
import sys
before = set(sys.modules)
from conductor.run import fast_msgspec
{prepare}
fast_msgspec.load()
fast_msgspec.load()
import msgspec
class Point(msgspec.Struct):
    x: int
assert msgspec.json.decode(msgspec.json.encode(Point(1)), type=Point) == Point(1)
names = ("uuid", "decimal", "platform", "typing_extensions")
print(*(name for name in names if name in set(sys.modules) - before))
import decimal, uuid
assert len(str(uuid.uuid4())) == 36
assert decimal.Decimal("1.5") * 2 == 3
"""


def test_msgspec_is_imported_without_what_it_merely_asks_about() -> None:
    assert run(LEAN.format(prepare="")) == []


def test_a_msgspec_that_wants_to_know_more_gets_the_real_modules() -> None:
    asked = run(LEAN.format(prepare='fast_msgspec._STAND_INS = {"uuid": (), "decimal": ()}'))
    assert {"uuid", "decimal"} <= set(asked)


CONFIGURED: Final = """
import os, sys
from pathlib import Path
folder = Path(sys.argv[1])
os.chdir(folder)
for name in list(os.environ):
    if name.startswith("CONDUCTOR_"):
        del os.environ[name]
os.environ["XDG_CONFIG_HOME"] = str(folder)
from conductor.cli import configured, fast, run
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
    file = '[chains.work]\ncomponents = ["demo"]\noptions.watch = true'
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
from conductor.cli import configured, fast, run
import conductor.client.chain, conductor.run.runtime, conductor.transports.stdio
parsed = fast.parse(["agent", "demo"])
assert run._telemetry(parsed, [], None) is None
names = ("conductor.telemetry", "opentelemetry")
print(*(name for name in sys.modules if name.startswith(names)))
"""


def test_telemetry_that_is_not_wanted_is_not_imported() -> None:
    assert run(QUIET) == []
