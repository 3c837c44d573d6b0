"""Installs the known agents that come from npm or a Python index, and asks each of them.

    python -m tests.e2e.peers.agents [NAME…]

Each lands in a folder of its own below `$CONDUCTOR_PEERS_CACHE/agents` (or `conductor-peers` of the
user's cache), 3 GB for all, and is asked by `conductor agents` in an empty home. What they install
runs code of their authors: that is why no test does this. Prints the rows of docs/editors.md.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from conductor.spec import agents
from conductor.spec.agents import KnownAgent
from tests.e2e.peers.npm import cache_root
from tests.harness.process.command import COMMAND
from tests.harness.process.rig import python_path

SECONDS = 400


def programs(agent: KnownAgent, root: Path) -> Path:
    """The folder of an agent's programs, installed if need be. Raises `RuntimeError`."""
    folder = root / agent.id
    words = shlex.split(agent.install)
    if words[0] == "npm":
        bin_, command = (
            folder / "node_modules" / ".bin",
            ["npm", "install", "--prefix", str(folder)],
        )
        command += ["--no-audit", "--no-fund", "--loglevel=error", *words[3:]]
    else:
        bin_ = folder / "bin"
        command = [str(bin_ / "python"), "-m", "pip", "install", "--quiet", words[3]]
    if any((bin_ / program).exists() for program in agent.all_programs):
        return bin_
    if words[0] == "npm":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
    else:
        venv.create(folder, with_pip=True)
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if " code " not in line]
        raise RuntimeError((said or ["no reason given"])[0])
    return bin_


def asked(agent: KnownAgent, bin_: Path) -> dict[str, Any]:
    """The report of `conductor agents` on an agent, in an empty home."""
    home = tempfile.mkdtemp()
    try:
        done = subprocess.run(
            [*COMMAND, "agents", agent.id, "--json", "--timeout", "120"],
            env={"HOME": home, "PATH": f"{bin_}:{os.defpath}", "PYTHONPATH": python_path()},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout)[0]
        return found
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    """Tries the agents that are named, or all that are installed by npm or uv."""
    root = cache_root() / "agents"
    failed = 0
    print("| agent | version | `initialize` | `session/new` without a login |\n|---|---|---|---|")
    for agent in agents.table():
        chosen = agent.id in sys.argv[1:] if sys.argv[1:] else bool(agent.package)
        if not chosen:
            continue
        try:
            found = asked(agent, programs(agent, root))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"| `{agent.id}` | not installed here: {error} | | |", flush=True)
            continue
        said = "opened" if found["session"] else found["error"]
        answers = "✓" if found["answers"] else "no"
        print(f"| `{agent.id}` | {found['version'] or '-'} | {answers} | {said} |", flush=True)
        failed += not found["answers"]
        if found["session"] and agent.needs_login:
            print(f"`{agent.id}` opens a session without a login: `needs_login` is wrong")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
