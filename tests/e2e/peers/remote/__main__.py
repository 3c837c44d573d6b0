"""Measures who interoperates with whom, and writes the table of docs/remote.md.

    python -m tests.e2e.peers.remote

Needs all peers: Node, npm, and what `tests.e2e.peers.remote.build` builds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.peers.npm import install, link_scripts, node_tools
from tests.e2e.peers.remote import table
from tests.e2e.peers.remote.peers import HERE, PAIRS, MissingError, Peers
from tests.e2e.peers.remote.scenario import outcome


def main() -> int:
    """Plays every scenario with every pair; 1 where a peer is missing."""
    tools = node_tools()
    if tools is None:
        sys.exit("error: needs node and npm on PATH")
    cells: table.Cells = {}
    with tempfile.TemporaryDirectory() as folder:
        scripts = link_scripts(install(tools[1], HERE), Path(folder), HERE)
        peers = Peers(tools[0], scripts, Path(folder))
        for client, server in PAIRS:
            for profile, kind in table.COLUMNS:
                try:
                    with peers.server(server, profile) as address:
                        said = outcome(peers.play(client, address, kind), kind)
                except MissingError as error:
                    sys.exit(f"error: {error}")
                except subprocess.TimeoutExpired:
                    said = "hangs"
                print(f"{client} → {server}, {profile} {kind}: {said}", flush=True)
                cells[(client, server), (profile, kind)] = said
    table.write(cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
