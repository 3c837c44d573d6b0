"""`conductor publish --archive`: the files that go into a package, and those that never do."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from conductor.errors import ConductorError, UsageError
from conductor.packages import archive, pack
from tests.places import COMPONENTS

MANIFEST = 'name = "p"\nversion = "1.0.0"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A component of Python source, with things beside it."""
    made = tmp_path / "p"
    made.mkdir()
    (made / "component.toml").write_text(f'{MANIFEST}file = "p.py"\n')
    (made / "p.py").write_text("profile = 'observer'\n")
    (made / "README.md").write_text("# p\n")
    (made / "LICENCE").write_text("MIT\n")
    (made / "notes.txt").write_text("mine\n")
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text("secret\n")
    (made / "test-scenarios").mkdir()
    (made / "test-scenarios" / "a.txt").write_text("")
    return made


def test_what_belongs_to_it(folder: Path) -> None:
    package = pack.pack(str(folder))
    names = ["LICENCE", "README.md", "component.toml", "p.py", "test-scenarios/a.txt"]
    assert list(package.files) == names
    assert package.file_name == "p-1.0.0.tar.gz"


def test_the_same_files_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = pack.pack(str(folder))
    other = tmp_path / "elsewhere"
    shutil.copytree(folder, other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    (other / "README.md").chmod(0o600)
    assert pack.pack(str(other)).archive == first.archive
    assert pack.pack(f"{folder}/").archive == first.archive
    (other / "p.py").write_text("profile = 'none'\n")
    assert pack.pack(str(other)).archive != first.archive


def test_nothing_of_this_machine_is_in_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "p.tar.gz").write_bytes(pack.pack(str(folder)).archive)
    with tarfile.open(tmp_path / "p.tar.gz") as tar:
        heads = tar.getmembers()
    assert {(head.mtime, head.uid, head.gid, head.uname, head.gname) for head in heads} == {
        (0, 0, 0, "", "")
    }
    assert {head.mode for head in heads} == {0o644}


@pytest.mark.parametrize("name", ["datetime", "history", "permission-guard"])
def test_bundled_components_can_be_packed(name: str, tmp_path: Path) -> None:
    package = pack.pack(str(COMPONENTS / name))
    archive.unpack(package.archive, str(tmp_path))
    for path, file in package.files.items():
        assert (tmp_path / path).read_bytes() == file.content


def test_a_program_is_all_that_lies_beside_it(folder: Path) -> None:
    (folder / "component.toml").write_text(f'{MANIFEST}command = ["{{python}}", "{{dir}}/p.py"]\n')
    (folder / "p-0.9.0.tar.gz").write_bytes(b"an older package")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    package = pack.pack(str(folder))
    assert "notes.txt" in package.files
    assert package.files["run.sh"].executable
    assert not any(name.startswith((".git", "p-0")) for name in package.files)


# -- what is refused -------------------------------------------------------------------------------


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(ConductorError) as error:
        pack.pack(str(folder))
    for word in words:
        assert word in f"{error.value.text} {error.value.hint}"
    assert error.value.hint


def test_no_manifest(tmp_path: Path) -> None:
    refused(tmp_path, "component.toml", "conductor new")


def test_not_built(folder: Path) -> None:
    (folder / "component.toml").write_text(f'{MANIFEST}file = "p.wasm"\n')
    refused(folder, "p.wasm", "conductor test --build")


def test_built_and_changed(tmp_path: Path) -> None:
    folder = tmp_path / "datetime"
    shutil.copytree(COMPONENTS / "datetime", folder)
    with (folder / "datetime.wasm").open("ab") as file:
        file.write(b"\0\2\1x")
    refused(folder, "is not the file its manifest records", "conductor test --build")


def test_no_module(folder: Path) -> None:
    (folder / "component.toml").write_text(f'{MANIFEST}file = "p.wasm"\n')
    (folder / "p.wasm").write_bytes(b"\0asm\1\0\0\0")
    refused(folder, "p.wasm")


@pytest.mark.proves("`conductor publish` takes nothing")
@pytest.mark.parametrize("name", ["README.md", "test-scenarios/a.txt", "p.py"])
def test_links(folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").write_text("somebody's\n")
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "outside")
    refused(folder, "link")


@pytest.mark.proves("`conductor publish` takes nothing")
def test_a_folder_that_is_a_link(folder: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder / "test-scenarios")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("somebody's\n")
    (folder / "test-scenarios").symlink_to(tmp_path / "outside")
    refused(folder, "outside")


@pytest.mark.proves("`conductor publish` takes nothing")
@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----\n",
        "x = 'ghp_" + "a" * 36 + "'\n",
        "AKIA" + "A" * 16 + "\n",
    ],
)
def test_what_looks_like_a_secret(folder: Path, secret: str) -> None:
    (folder / "test-scenarios" / "a.txt").write_text(f"first line\n{secret}")
    refused(folder, "test-scenarios/a.txt", "line 2", "--include test-scenarios/a.txt")
    assert "test-scenarios/a.txt" in pack.pack(str(folder), ["./test-scenarios/a.txt"]).files


@pytest.mark.parametrize("name", ["server.key", "id_rsa", "credentials.json"])
def test_files_that_are_called_like_secrets(folder: Path, name: str) -> None:
    (folder / "component.toml").write_text(f'{MANIFEST}command = ["{{python}}", "{{dir}}/p.py"]\n')
    (folder / name).write_text("x")
    refused(folder, name, "looks like a secret")


def test_too_much(folder: Path) -> None:
    for number in range(archive.BOUNDS.entries + 1):
        (folder / "test-scenarios" / f"{number}.txt").touch()
    refused(folder, "more than")


def test_two_names_that_some_systems_take_for_one(folder: Path) -> None:
    (folder / "readme.md").write_text("other\n")
    refused(folder, "some file systems")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        pack.write(str(tmp_path / "no" / "p.tar.gz"), b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        pack.write(str(tmp_path / "folder"), b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_file_of_a_tool_is_not_source(folder: Path) -> None:
    made = f'{MANIFEST}file = "p.py"\nsource = ".git/config"\n'
    (folder / "component.toml").write_text(made)
    refused(folder, ".git/config", "looks like a secret")
