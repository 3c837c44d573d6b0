"""The parts of a fleet under test: a gateway and workers beside a NATS server of the test's."""

import json
import os
import signal
import time
from typing import Any

from tests.harness.process.command import Ran, conductor, environment
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import Served, served
from tests.places import DEADLINE

Json = dict[str, Any]


class Fleet:
    """Starts parts, and sees them by `conductor fleet status`."""

    def __init__(self, rig: Rig, nats: str, **login: str) -> None:
        self.rig, self.nats, self._login = rig, nats, login

    def gateway(self, *options: str, **env: str) -> Served:
        """A gateway that listens."""
        listen = () if "--listen" in options else ("--listen", "ws://127.0.0.1:0")
        return served(self.rig, "fleet", "gateway", "--nats", self.nats, *listen, *options, **env)

    def worker(self, *chain: str, **env: str) -> Chain:
        """A worker that takes rooms. Options stand before the components."""
        worker = self.rig.run("fleet", "worker", "--nats", self.nats, *chain, **env)
        worker.until(lambda: "serving the pool" in worker.stderr, "the worker serves")
        return worker

    def command(self, *words: str) -> Ran:
        """`conductor fleet WORDS… --nats …`."""
        return conductor("fleet", *words, "--nats", self.nats, env=environment(**self._login))

    def status(self, kind: str, count: int = 1) -> list[Json]:
        """The parts of a kind that are there: at least so many, once each has answered."""
        deadline = time.monotonic() + DEADLINE
        while True:
            shown: list[Json] = json.loads(self.command("status", "--json").out or "[]")
            found = [one for one in shown if one["kind"] == kind]
            if len(found) >= count:
                return found
            assert time.monotonic() < deadline, f"{len(found)} of {count} parts answer: {shown}"

    def holder(self, what: str = "sessions") -> Json:
        """The worker that has something."""
        deadline = time.monotonic() + DEADLINE
        while not (found := [one for one in self.status("worker") if one["counts"].get(what)]):
            assert time.monotonic() < deadline, f"no worker has {what}"
        assert len(found) == 1, found
        return found[0]

    @staticmethod
    def kill(part: Json, number: int = signal.SIGKILL) -> None:
        """Sends a part a signal."""
        os.kill(part["pid"], number)
