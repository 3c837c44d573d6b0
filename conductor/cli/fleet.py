"""`conductor fleet`: starts a fleet on this machine, shows one, drains its workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import fleet_bundle, pages, report
from conductor.cli.fleet_place import needs_extra, on_bus, place
from conductor.cli.typer_options import Json, argument, option, paragraphs, switch, takes
from conductor.errors import ConductorError

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus
    from conductor.fleet.messages import Status

HELP: Final = (
    "Run a fleet, show its parts, or drain a worker. Gateways let clients in, workers run the "
    "chains."
)

_SEEN: Final = 0.5
"""The seconds in which the parts of a fleet show their state."""
_LOOK: Final = 0.5

DEV_HELP: Final = paragraphs(
    "Start a fleet on this machine: NATS, one gateway and two workers. Ctrl-C ends it.",
    "COMPONENT… is the chain that the workers run, as `conductor agent` would.",
)
DEV_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet dev demo\n"
    "  conductor fleet dev datetime claude --workers 4\n"
    "  conductor connect ws://127.0.0.1:8790        in an editor's settings",
)


def dev(
    components: Annotated[
        list[str],
        argument("COMPONENT", "The proxies from the client's side on, then the agent."),
    ],
    workers: Annotated[int, option("--workers", "NUMBER", "How many workers.", min=1)] = 2,
    listen: Annotated[
        str, option("--listen", "ADDRESS", "Where clients connect.")
    ] = "ws://127.0.0.1:8790",
    folder: Annotated[
        str | None,
        option(
            "--store",
            "FOLDER",
            "Folder for the data of NATS. Default: a new folder, deleted at the end.",
        ),
    ] = None,
) -> int:
    """Starts a fleet on this machine."""
    from conductor.cli import fleet_dev

    needs_extra("fleet dev")
    return fleet_dev.run(components, workers, listen, folder)


STATUS_HELP: Final = "Show the running gateways and workers."


@takes("fleet")
def status(json: Json = False, **values: Any) -> int:
    """Shows a fleet."""

    async def show(bus: Bus) -> int:
        from conductor.fleet.gateway import statuses

        found = await statuses(bus, _SEEN)
        if json:
            import msgspec

            report.say_json([msgspec.to_builtins(one) for one in found])
        elif not found:
            raise ConductorError(
                "no gateway and no worker is running",
                "`conductor fleet gateway` and `conductor fleet worker` start them; `conductor "
                "fleet dev` starts a whole fleet",
            )
        else:
            report.say(*_table(found))
        return 0

    return on_bus(place(values, "fleet status"), show)


DRAIN_HELP: Final = paragraphs(
    "Drain a worker: the worker gives up its rooms and ends. When no turn runs in a room, another "
    "worker takes the room over.",
)


@takes("fleet")
def drain(
    worker: Annotated[
        str,
        argument(
            "WORKER",
            "The id of the worker, as `conductor fleet status` shows it.",
        ),
    ],
    wait: Annotated[bool, switch("--wait", "Wait until the worker has ended.")] = False,
    **values: Any,
) -> int:
    """Drains a worker."""

    async def order(bus: Bus) -> int:
        from conductor.fleet import names
        from conductor.fleet.bus import ASKED, Unanswered
        from conductor.fleet.gateway import orders
        from conductor.fleet.messages import Order

        one = names.word(worker, "the worker")
        try:
            await orders(bus, one, Order(do="drain"), ASKED)
        except Unanswered:
            raise ConductorError(
                f"there is no worker `{one}`", "`conductor fleet status` shows the running workers"
            ) from None
        report.say(f"worker {one} gives its rooms up")
        while wait:
            await asyncio.sleep(_LOOK)
            try:
                await orders(bus, one, Order(do="alive"), ASKED)
            except Unanswered as gone:
                if gone.absent:
                    report.say(f"worker {one} has ended")
                    break
        return 0

    return on_bus(place(values, "fleet drain"), order)


_COLUMNS: Final = ("rooms", "connections", "chains", "sessions", "open_turns")


def _table(found: list[Status]) -> list[str]:
    heads = ["", "id", "pool", "state", *(one.replace("_", " ") for one in _COLUMNS), "host", "pid"]
    rows = [
        [one.kind, one.id, one.pool, one.state]
        + [str(one.counts.get(name, 0)) for name in _COLUMNS]
        + [one.host, str(one.pid)]
        for one in found
    ]
    if any(one.config for one in found):
        heads.append("bundle")
        for row, one in zip(rows, found, strict=True):
            row.append(fleet_bundle.short(one.config) if one.config else "")
    return pages.aligned([heads, *rows])
