"""`conductor inspect`: the facts and abilities of a component, without running it."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor, environment
from tests.places import ROOT

GUESTS = ROOT / "tests" / "wasm_host" / "guests"
HOSTILE = ROOT / "tests" / "hostile"
CANNOT = "this module cannot call anything; it can only return messages"
SMALLEST_WASI = """(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start") unreachable))"""


def assembled(folder: Path, name: str, text: str) -> Path:
    """A module of this text."""
    path = folder / name
    path.write_bytes(wasmtime.wat2wasm(text))
    return path


def facts(*arguments: str) -> dict[str, Any]:
    """The facts in `--json` of a component without a fault."""
    ran = conductor("inspect", "--json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_a_bundled_proxy() -> None:
    ran = conductor("inspect", "datetime", "--all")
    assert (ran.code, ran.err) == (0, "")
    file = components_folder() / "datetime" / "datetime.wasm"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    for piece in (
        "bundled component, proxy",
        CANNOT,
        str(file),
        f"{file.stat().st_size:,} bytes",
        digest,
        "as its manifest records",
        "channel_deliver (func)",
        "It has: change:prompts, clock",
        "clock, to learn the date",
        "limits     all at their defaults (docs/configuration.md#limits)",
        "process: in a child process",
    ):
        assert piece in ran.out


def test_a_bundled_proxy_as_json() -> None:
    found = facts("datetime,limit.cpu_ms=50,allow=random,config.template=x")
    assert found["kind"] == "bundled component"
    assert (found["sandboxed"], found["carrier"], found["abi"]) == (True, "core", 1)
    assert (found["imports"], found["forbidden"], found["problems"]) == ([], [], [])
    assert found["sha256"] == found["recorded_sha256"]
    assert found["limits"]["cpu_ms"] == 50
    assert found["config"] == {"template": "x"}
    assert [*found["wants"]["rights"], "random"] == found["policy"]["rights"]


@pytest.mark.proves("a manifest is a claim: it gives")
def test_a_module_of_ones_own_gets_nothing_by_itself(tmp_path: Path) -> None:
    own = tmp_path / "own.wasm"
    shutil.copy(components_folder() / "datetime" / "datetime.wasm", own)
    found = facts(str(own))
    assert (found["kind"], found["recorded_sha256"]) == ("module", None)
    assert (found["policy"]["rights"], found["wants"]["rights"]) == (["context"], None)
    assert CANNOT in conductor("inspect", "--all", str(own)).out


def test_wasi_imports_are_listed_as_stubs(tmp_path: Path) -> None:
    module = assembled(tmp_path, "wasi.wasm", SMALLEST_WASI)
    found = facts(str(module))
    assert found["carrier"] == "wasi"
    assert found["dialect"] == "detected when it starts"
    assert found["wasi"] == ["wasi_snapshot_preview1.fd_write", "wasi_snapshot_preview1.random_get"]
    out = conductor("inspect", "--all", f"{module},dialect=sdk").out
    assert "wasi_snapshot_preview1.random_get: stub" in out
    assert "dialect    sdk" in out
    assert "stubs answer its WASI imports and give nothing away" in " ".join(out.split())
    assert CANNOT not in out


def test_forbidden_imports_are_named_and_refused(tmp_path: Path) -> None:
    text = (HOSTILE / "import_host.wat").read_text()
    module = assembled(tmp_path, "greedy.wasm", text)
    ran = conductor("inspect", "--all", str(module))
    ran.assert_error(1, "`greedy`: refused: it has imports that no guest may have", "message")
    assert "functions that no guest gets" in ran.out
    assert "forbidden  " in ran.out
    found = json.loads(conductor("inspect", "--json", str(module)).out)
    assert found["forbidden"]
    assert all(name in ran.err for name in found["forbidden"])


def test_a_module_that_is_no_guest(tmp_path: Path) -> None:
    ran = conductor("inspect", "--all", str(assembled(tmp_path, "idle.wasm", "(module)")))
    ran.assert_error(1, "exports neither channel_deliver nor _start", "docs/architecture.md")
    assert "unknown: nothing can pass messages to it" in ran.out


@pytest.mark.parametrize(
    ("content", "looks"),
    [(b"<html>", "an HTML or XML page"), (b"\x7fELF", "a native ELF file"), (b"", "an empty file")],
)
def test_a_file_that_is_no_module(tmp_path: Path, content: bytes, looks: str) -> None:
    file = tmp_path / "page.wasm"
    file.write_bytes(content)
    ran = conductor("inspect", "--all", str(file))
    ran.assert_error(1, "refused", looks)
    assert "this is not a WebAssembly module" in ran.out


def test_a_module_by_another_name(tmp_path: Path) -> None:
    module = assembled(tmp_path, "module.bin", SMALLEST_WASI)
    ran = conductor("inspect", str(module))
    ran.assert_error(2, "would be run as a program", "ends with .wasm")


@pytest.mark.parametrize("component", ["demo", "python -c pass", "py:tests.cli.agents:silent"])
def test_what_is_not_sandboxed_says_so(component: str) -> None:
    ran = conductor("inspect", "--all", component)
    assert (ran.code, ran.err) == (0, "")
    assert "UNSANDBOXED: it runs with your rights" in ran.out
    found = facts(component)
    assert (found["sandboxed"], found["isolation"], found["limits"]) == (False, "none", None)


def test_a_command_is_found_but_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    command = f"{sys.executable} -c 'open({str(mark)!r})'"
    assert facts(command)["command"][0] == sys.executable
    assert not mark.exists()


def test_a_limit_that_cannot_be(tmp_path: Path) -> None:
    ran = conductor("inspect", "datetime,limit.stack_bytes=999999999", cwd=tmp_path)
    ran.assert_error(
        2, "`limit.stack_bytes=999999999` of `datetime`", "at most 1 MiB", "help component"
    )


def test_a_bundled_file_that_was_changed(tmp_path: Path) -> None:
    """In a copy of the package, so that the manifest stays beside the changed module."""
    shutil.copytree(ROOT / "conductor", tmp_path / "conductor")
    shutil.copytree(ROOT / "wasm_host", tmp_path / "wasm_host")
    shutil.copytree(components_folder(), tmp_path / "components")
    changed = tmp_path / "components" / "passthrough" / "passthrough.wasm"
    changed.write_bytes(changed.read_bytes() + b"\0\x02\x01x")  # a custom section
    env = environment(PYTHONPATH=str(tmp_path))
    ran = conductor("inspect", "--all", "passthrough", cwd=tmp_path, env=env)
    ran.assert_error(1, "not the one its manifest records", "install conductor again")
    assert "NOT as its manifest records" in ran.out


def test_a_source_is_shown_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    source = tmp_path / "ty.py"
    source.write_text("proxy = Proxy('x', rights={'observer': 'why'}, settings={[]: 'x'})")
    ran = conductor("inspect", "--all", str(source))
    assert (ran.code, ran.err) == (0, "")
    assert "It has: observer" in ran.out
    source.write_text("proxy = Proxy('x', rights=chosen('observer'))")
    out = " ".join(conductor("inspect", "--all", str(source)).out.split())
    assert "note: conductor cannot read rights off its source" in out
    source.write_text("proxy = Proxy('x', rights={'bogus': 'why'})")
    conductor("inspect", str(source)).assert_error(2, "asks for a right: no right `bogus`")
