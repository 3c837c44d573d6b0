"""Modules are compiled before they are needed."""

from pathlib import Path

import msgspec
import pytest

from conductor.errors import ComponentError
from conductor.run import compiled
from conductor.spec import catalog
from conductor.spec.model import Spec


def resolved(*words: str) -> list[Spec]:
    return [catalog.resolve(word) for word in words]


def modules(tmp_path: Path) -> str:
    return str(tmp_path / "modules")


def test_what_is_compiled_ahead_needs_no_compiling(tmp_path: Path) -> None:
    specs, begun = resolved("datetime", "demo", "passthrough"), []
    assert [compiled.uncompiled(s, modules(tmp_path)) for s in specs] == [True, False, True]
    for _ in range(2):
        compiled.compile_ahead(specs, modules(tmp_path), begun=lambda spec: begun.append(spec.name))
    assert begun == ["datetime", "passthrough"]
    assert not any(compiled.uncompiled(spec, modules(tmp_path)) for spec in specs)


def test_a_module_that_two_share_is_compiled_once(tmp_path: Path) -> None:
    spec = catalog.resolve("passthrough")
    twice = [spec, msgspec.structs.replace(spec, name="other")]
    begun: list[str] = []
    compiled.compile_ahead(twice, modules(tmp_path), begun=lambda spec: begun.append(spec.name))
    assert begun == ["passthrough"]


def test_other_engine_options_are_another_compile(tmp_path: Path) -> None:
    spec = catalog.resolve("passthrough")
    compiled.compile_ahead([spec], modules(tmp_path))
    with_fuel = msgspec.structs.replace(spec, limits={"fuel": 1_000_000})
    assert compiled.uncompiled(with_fuel, modules(tmp_path))
    with_memory = msgspec.structs.replace(spec, limits={"memory_bytes": 1 << 20})
    assert not compiled.uncompiled(with_memory, modules(tmp_path))


def test_a_module_that_does_not_load_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.wasm"
    path.write_bytes(b"\0asm\1\0\0\0")
    with pytest.raises(ComponentError, match=r"`empty`.*is no guest") as failure:
        compiled.compile_ahead(resolved(str(path)), modules(tmp_path))
    assert failure.value.hint
    assert failure.value.data["component"] == "empty"


def test_a_module_with_another_digest_is_not_compiled(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(catalog.resolve("passthrough"), sha256="0" * 64)
    with pytest.raises(ComponentError, match="is not the file"):
        compiled.compile_ahead([spec], modules(tmp_path))
    assert not list((tmp_path / "modules").glob("*.cwasm"))


def test_a_module_that_is_not_there_is_not_uncompiled(tmp_path: Path) -> None:
    spec = msgspec.structs.replace(
        catalog.resolve("passthrough"), wasm=str(tmp_path / "none.wasm"), sha256=""
    )
    assert not compiled.uncompiled(spec, modules(tmp_path))


def test_without_a_usable_cache_everything_stays_uncompiled(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    spec = catalog.resolve("passthrough")
    compiled.compile_ahead([spec], modules(tmp_path))
    assert compiled.uncompiled(spec, modules(tmp_path))
