"""The project of a chat: the files and finds of its page there."""

from pathlib import Path

import pytest

from conductor.errors import UsageError
from conductor.page.project import Project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a secret beside it."""
    (tmp_path / "secret.txt").write_text("total = 1\n")
    made = tmp_path / "project"
    (made / "src").mkdir(parents=True)
    (made / "out").symlink_to(tmp_path / "secret.txt")
    (made / "up").symlink_to(tmp_path, target_is_directory=True)
    (made / ".git").mkdir()
    (made / ".git" / "config").write_text("total\n")
    (made / "picture").write_bytes(b"total\x00")
    (made / "latin").write_bytes(b"total \xe9")
    (made / "large").write_text("total " * 200_000)
    (made / "src" / "a.py").write_text(
        "total = 0\n\ndef total_of(x):\n    return '😀', total + x\n"
    )
    return made


@pytest.mark.proves("a component gets no file of the")
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("../secret.txt", "outside"),
        ("out", "outside"),
        ("up/secret.txt", "outside"),
        ("/etc/passwd", "outside"),
        ("file:///etc/passwd", "outside"),
        ("file:///%2e%2e/etc/passwd", "outside"),
        ("file://host/etc/passwd", "no file of this machine"),
        ("http://a.b/c", "no file of this machine"),
        ("a\0b", "no file of this machine"),
        ("", "no file of this machine"),
        ("src", "no file `src`"),
        ("no", "no file `no`"),
        ("x" * 5000, "no"),
        ("picture", "no text"),
        ("latin", "no text"),
        ("large", "no text"),
    ],
)
def test_nothing_outside_is_read(folder: Path, url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Project(str(folder)).file(url)


def test_a_file_by_its_url_or_path(folder: Path) -> None:
    file = folder / "src" / "a.py"
    for name in ("src/a.py", str(file), file.as_uri()):
        found = Project(str(folder)).file(name)
        assert found == {"text": file.read_text(), "path": "src/a.py", "url": file.as_uri()}


def test_names_are_found_by_plain_search(folder: Path) -> None:
    project = Project(str(folder))
    found = project.references("total")
    assert [(each["start"], each["end"]) for each in found["found"]] == [
        ({"line": 1, "column": 1}, {"line": 1, "column": 6}),
        ({"line": 4, "column": 17}, {"line": 4, "column": 22}),
    ]
    assert found["cut"] is False
    assert [each["text"] for each in project.definitions("total")["found"]] == ["total = 0"]
    (one,) = project.definitions("total_of")["found"]
    assert one["start"] == {"line": 3, "column": 5}
    with pytest.raises(UsageError, match="no name"):
        project.references("a b")
    (folder / "many.txt").write_text("total\n" * 600)
    found = project.references("total")
    assert (len(found["found"]), found["cut"]) == (500, True)


def test_diagnostics_are_what_no_compiler_is_needed_for(folder: Path) -> None:
    project = Project(str(folder))
    (folder / "a.json").write_text('{"a":\n1,}')
    (folder / "b.toml").write_text('a = 1\nb = "\n')
    (folder / "c.txt").write_text("x\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "long.json").write_text("9" * 5000)
    (folder / "long.toml").write_text("a = " + "9" * 5000)
    found = [
        (Path(each["url"]).name, each["start"]["line"], each["message"].partition(":")[0])
        for each in project.diagnostics("")["found"]
    ]
    conflict = "a conflict that nobody has settled"
    assert found == [
        ("a.json", 2, "JSON"),
        ("b.toml", 2, "TOML"),
        ("c.txt", 2, conflict),
        ("c.txt", 6, conflict),
        ("deep.json", 1, "it nests too deeply"),
        ("long.json", 1, "it has a number that is too long"),
        ("long.toml", 1, "it has a number that is too long"),
    ]
    assert len(project.diagnostics("c.txt")["found"]) == 2
