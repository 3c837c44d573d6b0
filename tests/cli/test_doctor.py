"""`conductor doctor`: it finds faults, says how to mend them, and repairs nothing."""

import hashlib
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

import wasm_host
from conductor.cli import doctor
from conductor.cli.doctor import CheckResult
from conductor.spec import paths
from conductor.spec.python_guest import scripts
from wasm_host.cache.store import Cache
from wasm_host.engine import engine_identity
from wasm_host.harden import ESSENTIAL, Layer


def by_name(found: list[CheckResult]) -> dict[str, CheckResult]:
    """The findings by their names, which differ."""
    named = {check.name: check for check in found}
    assert len(named) == len(found)
    return named


@pytest.fixture
def cage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a perfect cage, whatever this one has."""
    monkeypatch.setattr(doctor, "probe", lambda: [Layer(name, True, "…") for name in ESSENTIAL])


def test_this_installation_is_well(tmp_path: Path) -> None:
    found = doctor.checks(str(tmp_path / "cache"))
    named = by_name(found)
    essential = [f"cage: {name}" for name in ESSENTIAL]
    assert set(essential) | {
        "python", "wasmtime", "uvloop", "compile cache", "guardian shell",
        "node", "python guest", "module datetime", "module passthrough",
    } <= set(named)  # fmt: skip
    for check in doctor.failed(found):
        assert check.name in essential, check
    assert not (tmp_path / "cache").exists(), "nothing is made"


@pytest.mark.skipif(sys.platform != "linux", reason="the cage is made of Linux")
def test_each_fence_of_the_cage_is_shown() -> None:
    named = by_name(doctor.checks())
    for name in ("no-new-privileges", "no-dump", "descriptors", "environment", "limits"):
        assert named[f"cage: {name}"].ok
        assert named[f"cage: {name}"].needed


@pytest.mark.usefixtures("cage")
def test_a_module_that_was_changed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(paths.components_folder(), tmp_path / "components")
    monkeypatch.setattr(paths, "components_folder", lambda: tmp_path / "components")
    assert doctor.failed(doctor.checks(str(tmp_path / "cache"))) == []
    changed = tmp_path / "components/passthrough/passthrough.wasm"
    changed.write_bytes(changed.read_bytes() + b"\0")
    (tmp_path / "components/datetime/datetime.wasm").unlink()
    found = doctor.checks(str(tmp_path / "cache"))
    bad = doctor.failed(found)
    assert [check.name for check in bad] == ["module datetime", "module passthrough"]
    assert bad[0].detail.startswith("No such file")
    assert "expected" in bad[1].detail


@pytest.mark.usefixtures("cage")
def test_the_cache_folder_is_examined(tmp_path: Path) -> None:
    folder = tmp_path / "cache"

    def look() -> CheckResult:
        return by_name(doctor.checks(str(folder)))["compile cache"]

    assert look().detail == f"{folder}: made when first used"
    folder.mkdir(mode=0o700)
    (folder / "a.cwasm").write_bytes(bytes(1_500_000))
    assert look() == CheckResult("compile cache", True, f"{folder}: 1 module, 1.4 MiB")
    folder.chmod(0o755)
    assert not look().ok
    assert look().detail == f"{folder} has mode 0755 instead of 0700"
    assert look().hint.startswith(f"chmod 700 {folder}")
    folder.chmod(0o700)
    shutil.rmtree(folder)
    folder.write_text("a file")
    assert look().detail == f"{folder} is not a folder"


def test_a_missing_fence_is_a_failure_on_linux_only(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [
        Layer("landlock-files", False, "switched off"),
        Layer("landlock-scope", False, "too old"),
        Layer("no-dump", True, "no core files"),
    ]
    monkeypatch.setattr(doctor, "probe", lambda: layers)
    for platform, expected in (("linux", ["cage: landlock-files"]), ("darwin", [])):
        monkeypatch.setattr(sys, "platform", platform)
        found = doctor.checks()
        bad = [check for check in doctor.failed(found) if check.name.startswith("cage")]
        assert [check.name for check in bad] == expected
        shown = by_name(found)
        assert not shown["cage: landlock-scope"].ok
        assert "Linux 6.12" in shown["cage: landlock-scope"].hint


FOUND = [
    CheckResult("python", True, "3.13.0", "not shown"),
    CheckResult("node", False, "not on PATH", "install Node.js", needed=False),
    CheckResult("module x", False, "sha256 differs", "install again"),
]


def test_people_see_marks_and_hints() -> None:
    assert "".join(f"{one}\n" for one in doctor.lines(FOUND, 100)) == (
        "ok       python    3.13.0\n"
        "-        node      not on PATH\n"
        "           hint: install Node.js\n"
        "MISSING  module x  sha256 differs\n"
        "           hint: install again\n"
        "\n"
        "1 of 3 checks failed\n"
    )
    assert doctor.lines(FOUND[:2], 100)[-2:] == ["", "everything needed is there"]


@pytest.mark.parametrize(("found", "code"), [(FOUND, 1), (FOUND[:2], 0)])
def test_machines_see_the_same(
    found: list[CheckResult],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "checks", lambda _: found)
    assert doctor.show(None, as_json=True) == code
    body = msgspec.json.decode(capsys.readouterr().out)
    assert body["ok"] is (code == 0)
    assert [msgspec.convert(check, CheckResult) for check in body["checks"]] == found
    assert doctor.show(None, as_json=False) == code


def test_the_python_guest_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "python_guests", lambda: str(tmp_path))
    monkeypatch.setattr(scripts, "guest_name", lambda: "python-test")
    tools = {"there": "componentize-py 1.2"}
    monkeypatch.setattr(doctor, "_toolchain", lambda: tools["there"])
    cache = tmp_path / "modules"

    def look() -> CheckResult:
        return by_name(doctor.checks(str(cache)))["python guest"]

    assert look() == CheckResult(
        "python guest", True, "built when first used, by componentize-py 1.2; takes some 10 s"
    )
    tools["there"] = ""
    assert (look().ok, look().needed) == (False, True)
    assert "componentize-py`, or install the wheel" in look().hint

    guest = tmp_path / "python-test.wasm"
    guest.write_bytes(b"a guest")
    digest = hashlib.sha256(b"a guest").hexdigest()
    (tmp_path / "python-test.sha256").write_text(digest + "\n", encoding="ascii")
    assert look().ok
    for piece in (
        f"built here: {guest}",
        digest[:16],
        "compiled when first used",
        "cannot be rebuilt: no componentize-py",
    ):
        assert piece in look().detail
    limits = wasm_host.Limits(**scripts.LIMITS)
    identity = engine_identity(limits, baseline=True)
    Cache(cache, identity).store(digest, b"compiled")
    assert ", compiled in haste; " in look().detail
    identity = engine_identity(limits)
    Cache(cache, identity).store(digest, b"compiled")
    assert ", compiled, " in look().detail
    guest.write_bytes(b"another")
    assert "expected " + digest in look().detail
    assert look().hint.startswith("install conductor again: `")
    tools["there"] = "componentize-py 1.2"
    assert look().hint == f"remove {guest}; conductor builds it again"
