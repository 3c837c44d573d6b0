"""Runs the command line on a machine that has a managed policy.

As a program it is `conductor` with another place for the policy: no option of `conductor` has that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.harness.process.command import Ran, conductor, environment

CONTACT: Final = "policy@example.com"


class Machine:
    """A machine with a policy, and a folder of its user's.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.policy = folder / "etc" / "conductor" / "policy.toml"
        self.opt = folder / "opt"
        """The folder of the programs that the administrator installs."""
        self.home = folder / "home"
        """The home of the user, who works there; others may write in it."""
        for each in (self.policy.parent, self.opt, self.home):
            each.mkdir(parents=True)
            each.chmod(0o755)
        self.home.chmod(0o777)

    def allow(self, text: str) -> None:
        """Sets the policy: its contact, and these lines."""
        self.policy.write_text(f'contact = "{CONTACT}"\n{text}\n')
        self.policy.chmod(0o644)

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs `conductor ARGUMENTS` here."""
        return [sys.executable, "-m", "tests.harness.process.managed", str(self.policy), *arguments]

    def env(self, **extra: str) -> dict[str, str]:
        """The user's environment."""
        base = {name: str(self.home / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        return environment(**(base | extra))

    def conductor(
        self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
    ) -> Ran:
        """Runs `conductor ARGUMENTS` in the user's folder, to its end; `env` adds variables."""
        command = self.command(*arguments)
        return conductor(stdin=stdin, cwd=self.home, env=self.env(**(env or {})), command=command)

    def prompt(self, *components: str) -> Ran:
        """Runs one turn with the prompt `hi`."""
        return self.conductor("exec", *components, "-p", "hi")

    def refuses(self, ran: Ran, rule: str) -> None:
        """The run was refused by this rule, with the person to ask, and nothing has run."""
        ran.assert_error(2, f"`{rule}` of the managed policy", f"ask {CONTACT}")
        assert ran.out == ""


def main() -> int:
    """Runs `conductor` with the policy at the first argument."""
    from conductor.spec import managed

    place, arguments = sys.argv[1], sys.argv[2:]
    vars(managed).update(PLACE=place, OWNERS=frozenset({0, os.getuid()}))
    from conductor.cli import main as conductor

    return conductor(arguments)


if __name__ == "__main__":
    sys.exit(main())
