"""Loading and describing: what a file is, and why it is refused."""

import hashlib
import json
import os
from pathlib import Path

import pytest

import wasm_host
from tests.places import HOSTILE
from tests.wasm_host.support import CARRIERS, GUESTS, Carrier, assemble, core, wasm
from wasm_host import GuestError, LoadError


@pytest.mark.parametrize(
    ("content", "seems"),
    [
        (b"", "an empty file"),
        (b"\x7fELF\x02\x01\x01", "a native ELF file or precompiled module"),
        (b"MZ\x90\x00", "a Windows program"),
        (b"\xcf\xfa\xed\xfe\x07", "a macOS program"),
        (b"PK\x03\x04\x14", "a zip archive"),
        (b"\x1f\x8b\x08\x00", "a gzip file"),
        (b"#!/bin/sh\n", "a script"),
        (b"version https://git-lfs.example/spec/v1\n", "a Git LFS pointer"),
        (b"  (module)", "WebAssembly text"),
        (b";; a comment\n;; two\n(component)", "WebAssembly text"),
        (b"<!DOCTYPE html>", "an HTML or XML page"),
        (b'{"a":1}', "JSON text"),
        (b"hello\nworld\n", "a text file"),
        (b"\xff\xfe\x00\x01", "unknown binary data"),
    ],
)
def test_what_is_no_module_is_named(tmp_path: Path, content: bytes, seems: str) -> None:
    path = tmp_path / "proxy.wasm"
    path.write_bytes(content)
    for attempt in (wasm_host.load, wasm_host.describe):
        with pytest.raises(LoadError, match=seems) as caught:
            attempt(path)
        assert str(path) in str(caught.value)
        assert caught.value.phase == "load"
        assert caught.value.hint


def test_a_missing_file_and_a_directory(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"absent\.wasm: no such file"):
        wasm_host.load(tmp_path / "absent.wasm")
    with pytest.raises(LoadError, match="is a directory"):
        wasm_host.load(str(tmp_path))


def test_an_unknown_version() -> None:
    with pytest.raises(LoadError, match="unknown version 02 00 00 00"):
        wasm_host.load(b"\0asm\x02\0\0\0")


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: carrier.name)
def test_a_truncated_file_is_refused_unless_it_ends_between_sections(carrier: Carrier) -> None:
    data = wasm(GUESTS / carrier.file)
    refused = []
    for end in range(4, len(data) - 1):
        try:
            guest = wasm_host.load(data[:end]).instantiate("cut")
        except LoadError as error:
            refused.append(error.hint)
        else:
            # Only names for debuggers were cut off.
            guest.start(b"")
            assert guest.deliver(carrier.line(b"1")) == carrier.answer(carrier.line(b"1"))
            guest.close()
    assert all(refused)
    assert len(refused) > len(data) / 2


def test_code_that_does_not_validate_is_refused() -> None:
    with pytest.raises(LoadError, match="does not compile") as caught:
        wasm_host.load(core("(i32.const 0)"))
    assert "type mismatch" in caught.value.detail


@pytest.mark.proves("around a guest")
def test_all_forbidden_imports_are_listed() -> None:
    with pytest.raises(LoadError) as caught:
        wasm_host.load(wasm(HOSTILE / "import_host.wat"))
    assert caught.value.detail.splitlines() == [
        "env.system",
        "wasi_snapshot_preview1.path_open",
        "env.table",
    ]
    assert "nothing but WASI" in caught.value.hint


def test_grants_are_known() -> None:
    with pytest.raises(ValueError, match=r"unknown grants \['network'\]"):
        wasm_host.load(core(), grants=frozenset({"network"}))


def test_sources_of_every_kind_load_alike(tmp_path: Path) -> None:
    data = core()
    path = tmp_path / "a.wasm"
    path.write_bytes(data)
    for source in (path, str(path), data, bytearray(data)):
        module = wasm_host.load(source)
        assert module.digest == hashlib.sha256(data).hexdigest()
        assert module.size == len(data)
        assert module.carrier == "core"
        assert module.cache_report == "off"


def test_describe_a_core_guest() -> None:
    info = wasm_host.describe(wasm(GUESTS / "flip.wat"))
    assert info.carrier == "core"
    assert info.abi == 1
    assert info.memory_pages == (2, None)
    assert info.imports == ()
    assert info.forbidden == info.wasi == info.problems == ()
    assert ("channel_deliver", "func") in info.exports
    assert info == wasm_host.load(wasm(GUESTS / "flip.wat")).info


def test_describe_a_program() -> None:
    info = wasm_host.describe(wasm(GUESTS / "echo_wasi.wat"))
    assert info.carrier == "wasi"
    assert info.wasi == ("wasi_snapshot_preview1.fd_read", "wasi_snapshot_preview1.fd_write")
    assert info.imports[0] == ("wasi_snapshot_preview1", "fd_read", "func")
    assert info.abi is None
    assert info.problems == ()


def test_describe_a_component() -> None:
    info = wasm_host.describe(wasm(GUESTS / "flip_component.wat"))
    assert info.carrier == "component"
    assert info.exports == (("conductor:channel/channel@1.0.0", "instance"),)
    assert info.memory_pages is None
    assert info.problems == ()


def test_describe_imports_of_every_kind(tmp_path: Path) -> None:
    kinds = {
        "memory": "(memory 1)",
        "global": "(global i32)",
        "table": "(table 1 2 funcref)",
        "func": "(func (param i32))",
        "tag": "(tag (param i32))",
    }
    text = "".join(f'(import "m" "{name}" {kind})' for name, kind in kinds.items())
    (tmp_path / "a.wat").write_text(f"(module {text})")
    info = wasm_host.describe(wasm(tmp_path / "a.wat"))
    assert info.imports == tuple(("m", name, name) for name in kinds)


def test_describe_what_load_refuses() -> None:
    info = wasm_host.describe(wasm(HOSTILE / "import_host.wat"))
    assert info.carrier == "core"
    assert info.forbidden == (
        "env.system",
        "wasi_snapshot_preview1.path_open",
        "env.table",
    )
    assert info.wasi == ("wasi_snapshot_preview1.fd_write",)
    assert len(info.problems) == 1
    unknown = wasm_host.describe(wasm(HOSTILE / "no_guest.wat"))
    assert unknown.carrier == "unknown"
    assert unknown.problems


@pytest.mark.parametrize("path", sorted(HOSTILE.glob("*.wat")), ids=lambda path: path.stem)
def test_describing_never_fails_on_a_module_and_gives_json(path: Path) -> None:
    info = wasm_host.describe(wasm(path))
    assert json.loads(json.dumps(info.to_dict()))["digest"] == info.digest


def test_a_component_needs_the_right_function() -> None:
    text = (GUESTS / "flip_component.wat").read_text(encoding="utf-8")
    with pytest.raises(LoadError, match="no exported interface has deliver") as caught:
        wasm_host.load(assemble(text.replace('(export "deliver" (func', '(export "send" (func')))
    assert "channel.wit" in caught.value.hint
    with pytest.raises(LoadError, match="without an exported interface"):
        wasm_host.load(assemble("(component)"))


def test_a_component_may_import_wasi_and_nothing_else() -> None:
    text = (GUESTS / "flip_component.wat").read_text(encoding="utf-8")
    other = text.replace("(component\n", '(component\n  (import "acme:host/run" (instance))\n', 1)
    with pytest.raises(LoadError, match="no guest may have: acme:host/run"):
        wasm_host.load(assemble(other))
    allowed = text.replace(
        "(component\n",
        '(component\n  (import "wasi:sockets/tcp@0.2.0" (instance (export "go" (func))))\n',
        1,
    )
    module = wasm_host.load(assemble(allowed))
    assert module.info.wasi == ("wasi:sockets/tcp@0.2.0",)
    several = allowed.replace(
        "(component\n",
        """(component
  (import "wasi:cli/exit@0.2.0" (instance (export "exit" (func))))
  (import "acme:host/run" (func (param "a" u32)))
  (import "acme:host/kind" (type (sub resource)))
  (import "acme:host/stop" (instance))
""",
        1,
    )
    with pytest.raises(LoadError, match="acme:host/run, acme:host/kind, acme:host/stop"):
        wasm_host.load(assemble(several))
    guest = module.instantiate("it")
    guest.start(b"")
    assert guest.deliver(b"p1\n") == b"s1\n"


@pytest.mark.parametrize("kind", ["core module", "component"])
def test_an_import_that_no_stub_can_stand_for_is_a_fault_of_the_guest(kind: str) -> None:
    text = (GUESTS / "flip_component.wat").read_text(encoding="utf-8")
    code = f'(component\n  (import "wasi:cli/x@0.2.0" (instance (export "code" ({kind}))))\n'
    module = wasm_host.load(assemble(text.replace("(component\n", code, 1)))
    with pytest.raises(GuestError, match=f"unable to define {kind} imports as traps") as caught:
        module.instantiate("it")
    assert caught.value.phase == "instantiate"


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wasm"
    path.write_bytes(core())
    path.chmod(0)
    with pytest.raises(LoadError, match="cannot be read"):
        wasm_host.load(path)
