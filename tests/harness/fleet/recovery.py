"""How long a fleet takes to recover: from a kill to the next prompt that is answered.

    python -m tests.harness.fleet.recovery

Each is killed in a streaming turn, on machines of their own; the editor comes back by itself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.harness.fleet.site import Site, kill
from tests.harness.process.rig import Rig


def _worker(site: Site) -> None:
    kill(site.holder()[1])


def _gateway(site: Site) -> None:
    kill(site.gateways["gateway1"].process)
    for editor in site.crowd.editors:
        vars(editor)["url"] = site.gateways["gateway2"].address  # as a load balancer does


def _nats(site: Site) -> None:
    leads = site.nats.leader("KV_rooms")
    site.nats.nodes[(leads + 1) % 3].kill()


def _leader(site: Site) -> None:
    site.nats.nodes[site.nats.leader("KV_rooms")].kill()


KILLS: Final[dict[str, Callable[[Site], None]]] = {
    "worker": _worker,
    "gateway": _gateway,
    "NATS server": _nats,
    "leader of the leases": _leader,
}


def recovery(what: str, folder: Path) -> float:
    """Seconds from the kill of a part to the answer to the next prompt of its session."""
    rig = Rig.create(folder, folder / "modules")
    try:
        with Site(rig, nodes=3, gateways=2) as site:
            site.socket()
            site.crowd.begin()
            site.stream()
            begun = time.monotonic()
            KILLS[what](site)
            if what in ("NATS server", "leader of the leases"):
                (folder / "gate-1").touch()
            site.crowd.until(lambda: not site.crowd.ledger.open, "the end of the turn")
            if what == "gateway":
                (folder / "gate-1").touch()
            before = site.crowd.ledger.counts["results"]
            while site.crowd.ledger.counts["results"] == before:
                site.crowd.until(lambda: site.crowd.linked, "the editor")
                site.crowd.editors[0].prompt()
                site.crowd.until(lambda: not site.crowd.ledger.open, "the answer")
            return time.monotonic() - begun
    finally:
        rig.close()


def main() -> int:
    """Prints a table."""
    print("| killed | seconds until the next prompt is answered |\n|---|--:|")
    for what in KILLS:
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {what} | {recovery(what, Path(folder)):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
