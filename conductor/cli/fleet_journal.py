"""`conductor fleet journal`: shows the frames at the chains of a principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import report
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import argument, option, paragraphs, takes

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

HELP: Final = paragraphs(
    "Show what the journal has of a principal as a trace, which `conductor log` reads: the client "
    "is one end of it, what stands behind the gateway the agent.",
    "A line with `gap` says what is missing before it. `disputed` is a message that contradicts "
    "one before it: a worker wrote it that did not know yet that another had its room, or somebody "
    "made one of the two up.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet journal alice --session 7f3a > alice.jsons\n"
    "  conductor log show alice.jsons",
)


@takes("fleet")
def journal(
    principal: Annotated[
        str,
        argument("PRINCIPAL", "Whose chains; `local` where gateways ask for no token."),
    ],
    session: Annotated[
        str,
        option("--session", "ID", "Only messages of this session."),
    ] = "",
    **values: Any,
) -> int:
    """Shows the journal."""

    async def show(bus: Bus) -> int:
        from conductor.fleet.journal_reader import read
        from conductor.fleet.journal_trace import Trace

        trace = Trace()
        async for one in read(bus, principal, session):
            for line in trace.lines(one):
                report.say_line(line)
        return 0

    return on_bus(place(values, "fleet journal"), show)
