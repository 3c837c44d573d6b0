"""A user with a home folder, who has installed conductor: for tests of `conductor setup`."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conductor.editors import table
from conductor.editors.target import Launch
from tests.harness.process.command import COMMAND, UNDER_TEST, Ran
from tests.places import DEADLINE, ROOT

BARE: Final = "/usr/bin:/bin:/usr/sbin:/sbin"

SETTINGS: Final = {
    "acpx": ".acpx/config.json",
    "devin": ".windsurf/acp/registry.json",
    "jetbrains": ".jetbrains/acp.json",
    "vscode": "Library/Application Support/Code/User/settings.json"
    if sys.platform == "darwin"
    else ".config/Code/User/settings.json",
    "zed": ".config/zed/settings.json",
}
"""Where each editor has its agents, in the home folder."""

_SCRIPT: Final = """#!{python}
import os
import sys

sys.path.insert(0, {root!r})
os.environ["PYTHONPATH"] = {root!r}
if {policy!r}:
    from conductor.spec import managed

    vars(managed).update(PLACE={policy!r}, OWNERS=frozenset({{0, os.getuid()}}))
from conductor.cli import main

sys.exit(main())
"""
"""The program that an installer puts on PATH, for this checkout."""


@dataclass(frozen=True, slots=True)
class Home:
    """The home folder, and where conductor is installed in it."""

    path: Path
    conductor: Path

    @property
    def env(self) -> dict[str, str]:
        """The environment of a terminal."""
        return {
            "HOME": str(self.path),
            "PATH": f"{self.conductor.parent}:{BARE}",
            "NO_COLOR": "1",
            # With the modules that other tests have compiled.
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
        }

    def command(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts `conductor ARGUMENTS`."""
        return subprocess.Popen(
            [self.conductor, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.path,
            env=self.env,
        )

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> Ran:
        """Runs `conductor ARGUMENTS` to its end."""
        done = subprocess.run(
            [self.conductor, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE,
            cwd=cwd or self.path,
            env={**self.env, **variables},
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def settings(self, editor: str, text: str | None = None) -> Path:
        """An editor's file of settings, with this text if there is one."""
        path = self.path / SETTINGS[editor]
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_bytes(text.encode())
        return path

    def launch(self, editor: str, name: str = "Conductor") -> Launch:
        """The entry that an editor reads in its settings."""
        target = table.find(editor)
        found = target.entries(self.settings(editor).read_text())[target.key(name)]
        assert found is not None
        return found

    def program(self, name: str, *lines: str) -> Path:
        """A program of the user's, on the PATH of terminals and of nothing else."""
        path = self.conductor.parent / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)
        return path


def home(tmp_path: Path, policy: Path | None = None) -> Home:
    """A user without settings of any editor, on a machine that may have a managed policy."""
    path = tmp_path / "home"
    program = path / ".local" / "bin" / "conductor"
    program.parent.mkdir(parents=True)
    if UNDER_TEST and policy is None:
        program.symlink_to(COMMAND[0])
    else:
        texts = {"python": sys.executable, "root": str(ROOT), "policy": str(policy or "")}
        program.write_text(_SCRIPT.format(**texts))
        program.chmod(0o755)
    return Home(path, program)
