"""Which chain fits a project: files, and the packages that manifests list."""

import os
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import UsageError
from conductor.spec.config import choose, dependencies, reading
from conductor.spec.config.model import Choice, Config, NamedChain, When, Written, WrittenChoice
from conductor.spec.config.project import Entries, Project
from conductor.spec.untrusted_files import MOST_ENTRIES

MANIFESTS = {
    "Cargo.toml": """
[dependencies]
serde_json = "1"
rt = { package = "tokio", version = "1" }
[target.'cfg(unix)'.dev-dependencies]
nix.workspace = true
[workspace.dependencies]
clap = "4"
""",
    "pyproject.toml": """
[project]
dependencies = ["Typing_Extensions>=4; python_version < '3.11'", "rich[all] @ https://x/rich"]
optional-dependencies.x = ["pytest"]
[dependency-groups]
dev = ["ruff", {include-group = "x"}]
[tool.poetry.group.docs.dependencies]
mkdocs = "*"
""",
    "package.json": """{"dependencies": {"react": "18", "old": "npm:@scope/new@^1"},
        "devDependencies": {"vite": "5"}, "peerDependencies": null}""",
    "requirements.txt": "-r other.txt\n# comment\nDjango==5 \\\n  --hash=x\nzope.interface\n",
    "go.mod": """module example.com/m
require (
\tgithub.com/gin-gonic/gin v1.9.0
\tgithub.com/x/y/v2 v2.0.0 // indirect
)
require golang.org/x/net/v3 v3.1.0 // pinned
""",
    "Gemfile": """source 'https://rubygems.org'
gem 'rails', '~> 7'
# gem 'sinatra'
gem("puma")
""",
}

LISTED = [
    ("Cargo.toml", ["serde-json", "serde_json", "tokio", "nix", "clap"], ["rt", "serde"]),
    (
        "pyproject.toml",
        ["typing-extensions", "RICH", "pytest", "ruff", "mkdocs"],
        ["x", "https", "include-group"],
    ),
    ("package.json", ["react", "@scope/new", "vite"], ["old", "React"]),
    ("requirements.txt", ["django", "zope-interface"], ["other.txt", "comment", "hash"]),
    (
        "go.mod",
        ["github.com/gin-gonic/gin", "golang.org/x/net"],
        ["github.com/x/y", "example.com/m"],
    ),
    ("Gemfile", ["rails", "puma"], ["sinatra", "https://rubygems.org"]),
]


def config(*whens: When, use: str = "c{}") -> Config:
    """Choices in this order, each with a chain of its own."""
    uses = [use.format(number) for number in range(len(whens))]
    choices = [
        WrittenChoice(Choice(use=name, when=when), f"f.toml, line {number}")
        for number, (name, when) in enumerate(zip(uses, whens, strict=True))
    ]
    chains = {f"c{number}": NamedChain([], {}, "") for number in range(len(whens))}
    return Config(chains=chains, choose=choices)


def chosen(folder: Path | str, *whens: When) -> tuple[str, list[str]]:
    """Why a chain was chosen, empty if none was; and what was warned about."""
    warned: list[str] = []
    found = choose.chosen([], config(*whens), Project(str(folder), warned.append))
    return found.why if found is not None else "", warned


@pytest.mark.parametrize(("name", "listed", "others"), LISTED)
def test_what_a_manifest_lists(
    name: str, listed: list[str], others: list[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(MANIFESTS[name])
    for package in listed:
        assert dependencies.read(str(path)).lists(package), package
    for package in others:
        assert not dependencies.read(str(path)).lists(package), package


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_a_strangers_file(name: str, tmp_path: Path) -> None:
    def warning() -> str:
        why, warned = chosen(tmp_path, When(dependency="x"))
        assert why == ""
        return "".join(warned)

    path = tmp_path / name
    path.write_bytes(b"\xff\xfe")
    assert f"{path} is passed over" in warning()
    path.write_bytes(b"x" * 1_100_000)
    assert "it is larger than 1 MiB" in warning()
    path.unlink()
    os.mkfifo(path)
    assert "it is no ordinary file" in warning()
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert "No such file" in warning()
    path.unlink()
    if name.endswith((".toml", ".json")):
        path.write_text("[[[[" * 10_000)
        assert f"{path} is passed over" in warning()
        path.unlink()
        # Well written, and of another shape than a manifest has.
        path.write_text("dependencies = [1]\n" if name.endswith(".toml") else '["x"]')
        assert warning() == ""


def test_the_first_choice_that_fits_counts(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text(MANIFESTS["Cargo.toml"])
    whens = [When(file="go.mod"), When(dependency="tokio"), When(file="Cargo.toml"), When()]
    cargo = tmp_path / "Cargo.toml"
    assert chosen(tmp_path, *whens) == (
        f"chose the chain `c1` (f.toml, line 1): {cargo} lists `tokio`",
        [],
    )
    assert chosen(tmp_path, whens[2])[0].endswith(f": there is {cargo}")
    assert chosen(tmp_path, whens[0], whens[3])[0].endswith(": it fits every project")
    assert chosen(tmp_path, whens[0]) == ("", [])
    assert chosen("", *whens[:3]) == ("", [])


def test_a_dependency_is_looked_for_in_the_manifest_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "Cargo.toml").write_text(MANIFESTS["Cargo.toml"])
    (tmp_path / "package.json").write_text(MANIFESTS["package.json"])
    (tmp_path / "requirements-dev.txt").write_text("flask\n")
    (tmp_path / "main.tf").write_text("")
    for file, package, fits in [
        ("Cargo.toml", "tokio", True),
        ("Cargo.toml", "react", False),
        ("requirements*.txt", "Flask", True),
        ("*.tf", "react", True),
        ("*.tf", "vue", False),
        ("*.hcl", "react", False),
    ]:
        assert bool(chosen(tmp_path, When(file=file, dependency=package))[0]) is fits, file


def test_patterns_stay_in_the_folder_unless_they_have_a_slash(tmp_path: Path) -> None:
    (tmp_path / "infra" / "deep").mkdir(parents=True)
    (tmp_path / "infra" / "deep" / "x.tf").write_text("")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "y.js").write_text("")
    for pattern, fits in [
        *(("*.tf", False), ("infra/*.tf", False), ("**/*.tf", True), ("infra/deep/x.tf", True)),
        *(("**/*.js", False), ("infr?", True)),
    ]:
        assert bool(chosen(tmp_path, When(file=pattern))[0]) is fits, pattern


def test_a_folder_of_too_many_files_fits_nothing(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES + 1):
        (tmp_path / f"{number}").symlink_to("x")
    for pattern in ("*.tf", "**/*.tf"):
        why, warned = chosen(tmp_path, When(file=pattern))
        assert why == ""
        assert len(warned) == 1
        assert f"cannot look for `{pattern}` in {tmp_path}" in warned[0]


def test_a_choice_of_no_chain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 0: there is no chain `other`"):
        choose.chosen([], config(When(), use="other"), Project(str(tmp_path), list[str]().append))


def test_the_command_behind_two_dashes_is_the_agent_of_the_chosen_chain(tmp_path: Path) -> None:
    command = Written(["sh", "-c", "x"])
    assert choose.is_asked([])
    assert choose.is_asked([command])
    assert not choose.is_asked(["demo"])
    assert not choose.is_asked(["demo", command])
    found = choose.chosen([command], config(When()), Project(str(tmp_path), list[str]().append))
    assert found is not None
    assert found.components == [Written("@c0", origin="f.toml, line 0"), command]


@pytest.mark.parametrize("pattern", ["../x", "/x"])
def test_a_file_that_no_project_can_have_is_a_mistake(pattern: str) -> None:
    text = f"[chains.a]\ncomponents = [{{component = 'b', when.file = '{pattern}'}}]"
    with pytest.raises(UsageError, match="`file` of `when`: "):
        reading.parse(text.encode(), "f.toml")


@pytest.mark.parametrize(
    ("what", "label"),
    [("redact", "redact"), (["npx", "x"], "npx"), ({"command": "npx", "name": "x"}, "x"),
     ({"args": []}, "a component")],
)  # fmt: skip
def test_what_became_of_an_entry_is_said_by_its_name(tmp_path: Path, what: Any, label: str) -> None:
    said: list[str] = []
    judge = Entries(Project(str(tmp_path), said.append), lambda _, text: said.append(text))
    assert not judge(Written(what, origin="f.toml, line 1", when=When(file="*.rs")))
    assert [text.partition(" is ")[0] for text in said] == [f"`{label}` (f.toml, line 1)"]
