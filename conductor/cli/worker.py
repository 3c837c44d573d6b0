"""`conductor fleet worker [COMPONENT…]`: runs chains of a fleet on this machine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final
from weakref import WeakValueDictionary

import msgspec
import typer

from conductor import children
from conductor.cli import report, serve
from conductor.cli.fleet_place import place
from conductor.cli.loop import run_loop
from conductor.cli.serving import Serving
from conductor.cli.typer_options import argument, paragraphs, takes
from conductor.cli.worker_bundles import Bundles
from conductor.errors import UsageError
from conductor.spec import managed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Sequence

    from conductor.cli.serving import Wanted
    from conductor.control.server import About
    from conductor.fleet.bundle_follower import Follower
    from conductor.fleet.journal import Journal
    from conductor.fleet.kv import FleetValues
    from conductor.fleet.place import Place
    from conductor.fleet.worker import Worker
    from conductor.serve.access.gate import Gate
    from conductor.serve.owners import Ownership
    from conductor.serve.server import Server
    from conductor.serve.settings import Settings
    from conductor.spec.parsed import Parsed
    from conductor.transports.base import Transport
    from conductor.transports.remote.address import Address

HELP: Final = paragraphs(
    "Run chains of a fleet on this machine; gateways (`conductor fleet gateway`) bring the "
    "clients.",
    "One worker runs all chains of a principal. When that worker is lost, another worker takes "
    "over. SIGTERM and `conductor fleet drain` let running turns end.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet worker datetime claude --nats nats://10.0.0.5:4222\n"
    "  conductor fleet worker --chain team --pool gpu --listen http://127.0.0.1:9090\n"
    "  conductor fleet worker --bundle-key key.pub\n"
    "  conductor fleet worker --bundle ./pool --bundle-key key.pub",
)

_Components = Annotated[
    list[str] | None,
    argument("COMPONENT", "The proxies from the client's side on, then the agent."),
]


@takes("fleet worker")
def worker(context: typer.Context, components: _Components = None, **values: Any) -> int:
    """Runs chains of a fleet."""
    from conductor.fleet import names
    from conductor.spec.config.model import Written  # the word behind `--`

    where = place(values, "fleet worker")
    children.list_variables()
    if user := values.pop("run_as", ""):
        children.run_as(user)
    else:
        _warn_of_files(where)
    given = {name: values.pop(name) for name in _Member.__struct_fields__ if name in values}
    member = _Member(**given)
    names.word(member.pool, "the pool")
    rest = [Written(context.obj)] if context.obj else []
    typed = [*(components or []), *rest]
    values.setdefault("listen", ())
    bundles = Bundles.of(typed, values)
    wanted = partial(serve.wanted, "fleet worker", typed, values)
    return run_loop(_Worker(wanted, bundles, where, member).run)


def _warn_of_files(where: Place) -> None:
    """Says that agents, who run as this user, can read a login to NATS that is in a file."""
    options = {"--nats-creds": where.creds, "--nats-key": where.key}
    if named := [f"`{option} {file}`" for option, file in options.items() if file]:
        report.write(
            f"agents run as the user of this worker, and can read {' and '.join(named)}\n  hint: "
            "`--run-as USER` starts agents as another user; the worker must run as root",
            word="warning",
        )


class _Member(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a worker in its fleet; by the names of options."""

    pool: str = "main"
    rooms: int = 1000
    project_id: str = ""
    """Empty: the project of the pool."""
    journal: str = "off"
    journal_days: float = 30.0


class _Worker(Serving):
    """A server whose clients are gateways."""

    def __init__(
        self,
        wanted: Callable[[], Wanted],
        bundles: Bundles | None,
        where: Place,
        member: _Member,
    ) -> None:
        self._bundles = bundles
        super().__init__("fleet worker", wanted if bundles is None else bundles.wanted)
        self._where, self._member = where, member
        self._journal: Journal | None = None
        self._values: WeakValueDictionary[str, FleetValues] = WeakValueDictionary()
        """The keepers of the values of components, by principal."""
        self.follower: Follower | None = None
        self._part: Worker | None = None

    @staticmethod
    def check(address: Address, settings: Settings) -> None:
        """Raises `UsageError` for an address that shows no health."""
        del settings
        if address.scheme != "http":
            raise UsageError(
                f"a worker shows its health and its numbers at `--listen`, and not at {address}",
                "write an address as in http://127.0.0.1:9090; gateways have clients",
            )

    async def owners(self, gate: Gate) -> Ownership:
        """All workers know the owners of sessions."""
        from conductor.fleet.bus import Bus
        from conductor.fleet.worker import Worker

        bus = Bus(self._where, "conductor worker", self._complain, self.fail)
        await bus.connect()
        self._part = Worker(bus, self._member.pool, self._member.rooms, self, self._complain)
        if (bundles := self._bundles) is not None and bundles.follows:
            self._follow(self._part, bundles)
        await self._part.prepare()
        if (kind := self._member.journal) != "off":
            from conductor.fleet.journal import Journal

            managed.refuse_journal()
            self._journal = Journal(bus, self._complain, is_required=kind == "required")
            await self._journal.begin(self._member.journal_days)
        return self._part.owners

    def fitted(self, parsed: Parsed, about: About, upstream: Transport) -> tuple[Parsed, Transport]:
        """All workers keep the values of components in one place, and write one journal."""
        from conductor.fleet.kv import FleetValues

        if self._journal is not None:
            managed.refuse_journal()
        assert self._part is not None
        whose, project = about.principal, self._member.project_id or self._member.pool
        values = self._values.get(whose) or FleetValues(self._part.bus, project, whose)
        self._values[whose] = values
        options = msgspec.structs.replace(parsed.options, keeper=values)
        if self._journal is not None:
            epoch = self._part.epoch(whose)
            upstream = self._journal.chain(upstream, whose, about.chain, epoch)
        return msgspec.structs.replace(parsed, options=options), upstream

    def paths(self) -> Container[str]:
        """No client connects here."""
        return ()

    def shown(self) -> Sequence[str]:
        """The pool and the id of this worker."""
        assert self._part is not None
        return (f"the pool `{self._member.pool}` as worker {self._part.id}",)

    async def begin(self, server: Server) -> None:
        """Takes rooms from now on."""
        assert self._part is not None
        part = self._part
        server.is_ready = lambda: part.bus.is_linked and bool(self._wanted.chains)
        if self._journal is not None:
            server.more_numbers = self._journal.metrics
        await part.begin(server)
        if self.follower is not None:
            await self.follower.begin()

    async def leave(self) -> None:
        """Gives the rooms up whose turns end in time."""
        assert self._part is not None
        await self._part.leave()

    async def end(self, owners: Ownership) -> None:
        """Leaves the bus."""
        if self.follower is not None:
            await self.follower.close()
        if self._journal is not None:
            await self._journal.end()
        if self._part is not None:
            await self._part.end()

    # -- for its part of the fleet ----------------------------------------------------------------

    @property
    def chains(self) -> Collection[str]:
        """The names of the chains that run here."""
        return self._wanted.chains

    @property
    def bundle(self) -> str:
        """The bundle that new chains start from, by its digest; empty: none."""
        return self._bundles.name if self._bundles is not None else ""

    async def settle(self) -> None:
        """A room has ended: its frames are written to the journal."""
        if self._journal is not None:
            await self._journal.flush()

    # -- bundles ---------------------------------------------------------------------------------

    def _follow(self, part: Worker, bundles: Bundles) -> None:
        """Follows the bundle of the pool. Raises `UsageError` for a key that cannot be used."""
        from conductor.fleet.bundle_follower import Follower

        async def use(name: str, folder: str) -> None:
            await self._take(bundles.use(folder))
            bundles.name = name
            await part.queue_up()

        self.follower = Follower(part.bus, part.pool, bundles.keys, use, self._noted)

    async def _take(self, wanted: Wanted) -> None:
        try:
            await super()._take(wanted)
        except BaseException:
            if self._bundles is not None:
                self._bundles.undo()
            raise

    @staticmethod
    def _noted(level: str, text: str) -> None:
        report.write(text, word="" if level == "info" else level)
