"""`conductor fleet gateway`: lets clients in to the chains of a fleet (docs/remote.md#a-fleet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from conductor.cli import report
from conductor.cli.fleet_place import place
from conductor.cli.loop import run_loop
from conductor.cli.serve import in_file
from conductor.cli.serving import Serving, Wanted
from conductor.cli.typer_options import paragraphs, takes

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from conductor.fleet.gateway import Gateway
    from conductor.fleet.place import Place
    from conductor.serve.access.gate import Gate
    from conductor.serve.owners import Ownership
    from conductor.serve.served import Served
    from conductor.serve.server import Server

HELP: Final = paragraphs(
    "Let clients in to the chains of a fleet, like `conductor serve`. The chains run on workers, "
    "on this or on other machines. `conductor fleet worker` starts a worker.",
    "A gateway keeps no state: when a gateway ends, its clients connect to another gateway. When a "
    "worker is lost, another worker takes over its rooms. Gateways and workers talk over NATS. "
    "`conductor fleet dev` starts all three.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet gateway --nats nats://10.0.0.5:4222\n"
    "  conductor fleet gateway --listen wss://0.0.0.0:8790 --tokens tokens.toml \\\n"
    "      --tls-cert cert.pem --tls-key key.pem --host chains.example.org",
)

_POOL: Final = "main"


@takes("fleet gateway")
def gateway(context: typer.Context, **values: Any) -> int:
    """Lets clients in."""
    del context
    from conductor.fleet import names

    where = place(values, "fleet gateway")
    pool = names.word(values.pop("pool", _POOL), "the pool")
    return run_loop(_Gateway(values, where, pool).run)


class _Gateway(Serving):
    """A server whose chains run elsewhere."""

    def __init__(self, values: dict[str, Any], where: Place, pool: str) -> None:
        super().__init__(
            "fleet gateway", lambda: Wanted(in_file("fleet gateway", values, None), {})
        )
        self._where, self._pool = where, pool
        self._part: Gateway | None = None

    async def owners(self, gate: Gate) -> Ownership:
        """The rooms know the owners of sessions."""
        from conductor.fleet.bus import Bus
        from conductor.fleet.gateway import Gateway
        from conductor.serve.owners import Owners

        bus = Bus(self._where, "conductor gateway", self._complain, self.fail)
        await bus.connect()
        settings = self._wanted.settings
        patience = max(300.0, settings.linger + 60.0)
        self._part = Gateway(bus, self._pool, settings.message, patience, self._note)
        return Owners()

    def made(self, principal: str, server: Server) -> Served:
        """A lobby in place of a room."""
        from conductor.fleet.lobby import Lobby

        assert self._part is not None
        return Lobby(principal, self._part, server)

    def paths(self) -> Container[str]:
        """Workers know which chains there are."""
        from conductor.fleet.gateway import AnyName

        return AnyName()

    def shown(self) -> Sequence[str]:
        """The pool."""
        return (f"for the pool `{self._pool}`",)

    async def begin(self, server: Server) -> None:
        """The server listens: the gateway is there."""
        assert self._part is not None
        part = self._part
        server.is_ready = lambda: part.bus.is_linked
        await part.begin(server)

    async def end(self, owners: Ownership) -> None:
        """Leaves the bus."""
        owners.close()
        if self._part is not None:
            await self._part.end()

    @staticmethod
    def _note(level: str, name: str, text: str) -> None:
        if level in ("warning", "error"):
            report.write(f"{name}: {text}" if name else text, word=level)
