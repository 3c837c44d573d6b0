"""A fleet on machines of its own: NATS, gateways, workers with numbering agents, and editors."""

import signal
from contextlib import ExitStack
from typing import Any, Final, Self

from tests.harness.fleet.editors import Crowd, Editor, Pipe, Socket
from tests.harness.fleet.ledger import records
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.harness.process.netns import Machine, world
from tests.harness.process.processes import descendants
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import Served

Json = dict[str, Any]

SERVES: Final = "serving the pool"
"""The text that a worker writes once it takes rooms."""
DESK: Final = "desk"
"""Where the editors are, and the test itself."""


class Site:
    """A context manager. It compares what editors have seen with what agents have on record, and
    fails at the first fault.

    Args:
        rig: Starts the parts.
        nodes: NATS servers, a machine for each.
        workers: Machines for workers, `worker1` and so on; each has one from the start.
        gateways: The same of gateways.
        options: Of each worker.
        nats: What else the constructor of `Nats` gets.
    """

    def __init__(
        self,
        rig: Rig,
        *,
        nodes: int = 1,
        workers: int = 2,
        gateways: int = 1,
        options: tuple[str, ...] = (),
        listens: tuple[str, ...] = (),
        **nats: Any,
    ) -> None:
        self.rig = rig
        self._nodes = [f"nats{number + 1}" for number in range(nodes)]
        self._workers = [f"worker{number + 1}" for number in range(workers)]
        self._gateways = [f"gateway{number + 1}" for number in range(gateways)]
        self._options, self._listens, self._nats = options, listens, nats
        self.crowd = Crowd()
        self._count = 0
        self.workers: dict[str, Chain] = {}
        """By machine."""
        self.gateways: dict[str, Served] = {}
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as held:
            here = held.enter_context(world(DESK, *self._nodes, *self._workers, *self._gateways))
            self.machines = here.machines
            held.enter_context(here[DESK].inside())
            nodes = [here[name] for name in self._nodes]
            self.nats = held.enter_context(
                Nats(
                    self.rig.folder,
                    nodes=len(nodes),
                    hosts=[one.address for one in nodes],
                    prefix=[one.prefix for one in nodes],
                    **self._nats,
                )
            )
            self.fleet = Fleet(self.rig, self.nats.urls)
            for name in self._workers:
                self.worker(name, waits=False)
            for name in self._gateways:
                self.gateway(name)
            for worker in self.workers.values():
                worker.until_stderr(SERVES)
            held.enter_context(self.crowd)
            self._held = held.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        with self._held:
            if kind is None:
                self.verify()
                for editor in self.crowd.editors:
                    editor.close()

    # -- parts -----------------------------------------------------------------------------------

    @property
    def agent(self) -> str:
        """The numbering agent; its sessions are on storage that all workers share."""
        return self.rig.actor("numbering_agent", str(self.rig.folder), name="A")

    def worker(self, name: str, *, waits: bool = True, **env: str) -> Chain:
        """A worker on a machine."""
        words = ("fleet", "worker", "--nats", self.nats.urls, *self._options, self.agent)
        with self.machines[name].inside():
            self.workers[name] = worker = self.rig.run(*words, **env)
        if waits:
            worker.until_stderr(SERVES)
        return worker

    def gateway(self, name: str) -> Served:
        """A gateway on a machine."""
        machine, before = self.machines[name], self.gateways.get(name)
        port = before.port if before is not None else machine.port()
        with machine.inside():
            listens = ("--listen", f"ws://{machine.address}:{port}", "--insecure", *self._listens)
            self.gateways[name] = self.fleet.gateway(*listens)
        return self.gateways[name]

    def holder(self) -> tuple[str, Chain]:
        """The machine, and the worker, whose agent the last prompt has reached."""
        life = [one["life"] for one in records(self.rig.folder) if one["what"] == "prompt"][-1]
        pid = int(life.partition("-")[0])
        [found] = [
            (name, worker)
            for name, worker in self.workers.items()
            if pid in descendants(worker.process.pid)
        ]
        return found

    def machine(self, name: str) -> Machine:
        """The machine of this name."""
        return self.machines[name]

    # -- editors ---------------------------------------------------------------------------------

    @property
    def addresses(self) -> str:
        """All gateways, as a client may write them."""
        return ",".join(one.address for one in self.gateways.values())

    def socket(self, gateway: str = "gateway1", token: str = "") -> Socket:
        """An editor that connects by itself to a gateway."""
        url = self.gateways[gateway].address
        return self.crowd.socket(self.machines[DESK], url, token)

    def connect(self) -> Pipe:
        """An editor over `conductor connect`, which knows all gateways."""
        return self.crowd.pipe(self.rig.run("connect", self.addresses))

    def editors(self) -> tuple[Editor, Editor]:
        """An editor of each kind, each with two sessions."""
        both = self.socket(), self.connect()
        self.crowd.begin(sessions=2)
        return both

    # -- what passes -----------------------------------------------------------------------------

    def stream(self) -> None:
        """Begins a turn in each session, which ends after `end`; waits until each streams."""
        self._count += 1
        gate = str(self.rig.folder / f"gate-{self._count}")
        turns = [
            editor.prompt(session, until=gate)
            for editor in self.crowd.editors
            for session in editor.sessions
        ]
        self.crowd.until(lambda: all(turn.updates > 2 for turn in turns), "the streams")

    def goes_on(self) -> None:
        """Waits until each open turn has more to say."""
        before = [(turn, turn.updates) for turn in self.crowd.ledger.open]
        assert before, "no turn is open"
        self.crowd.until(
            lambda: all(turn.updates > count or not turn.is_open for turn, count in before),
            "more of the streams",
        )

    def end(self) -> None:
        """Lets the turns end, and waits for their answers."""
        (self.rig.folder / f"gate-{self._count}").touch()
        self.crowd.answered()

    def prompt(self) -> None:
        """A prompt in each session, which has to be answered with a result."""
        before = self.crowd.ledger.counts["results"]
        turns = [
            editor.prompt(session, updates=3)
            for editor in self.crowd.editors
            for session in editor.sessions
        ]
        self.crowd.answered()
        assert self.crowd.ledger.counts["results"] == before + len(turns), self.crowd.story()

    @property
    def errors(self) -> list[Json]:
        """The errors with which prompts were answered."""
        return [turn.error for turn in self.crowd.ledger.turns if turn.error is not None]

    def verify(self) -> None:
        """Fails if anything was lost, doubled, out of order, or of a life that was over."""
        self.crowd.ledger.close(self.rig.folder)
        assert self.crowd.ledger.faults == [], self.crowd.story()


def kill(process: Chain) -> None:
    """Ends a part as a crash does."""
    process.process.send_signal(signal.SIGKILL)
    process.process.wait()
