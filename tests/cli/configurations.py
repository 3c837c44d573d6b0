"""A user with a configuration and a project, for the tests of `conductor.toml`."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from conductor.spec import trust
from tests.harness.process.command import Ran, conductor, environment


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conductor is started, and whose files it may find."""

    home: Path
    project: Path

    @property
    def user_file(self) -> Path:
        """The user's file."""
        return self.home / "conductor" / "conductor.toml"

    @property
    def project_file(self) -> Path:
        """The project's file."""
        return self.project / "conductor.toml"

    def user(self, text: str) -> None:
        """Writes the user's file."""
        self.user_file.parent.mkdir(parents=True, exist_ok=True)
        self.user_file.write_text(text)

    def trusted(self, text: str) -> None:
        """Writes the project's file, and trusts it."""
        self.project_file.write_text(text)
        trust.trust_file(str(self.project_file), text.encode())

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Ran:
        """Runs `conductor ARGUMENTS` in the project's folder."""
        return conductor(*arguments, cwd=cwd or self.project, env=environment(**variables))


def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A user without files, in a project without one, in this process and in those it starts."""
    made = Place(tmp_path / "config", tmp_path / "project")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.home))
    for variable in ("XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    for variable in list(os.environ):
        if variable.startswith("CONDUCTOR_"):
            monkeypatch.delenv(variable)
    made.project.mkdir()
    monkeypatch.chdir(made.project)
    return made
