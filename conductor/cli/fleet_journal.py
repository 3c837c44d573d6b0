"""`conductor fleet journal`: shows the frames at the chains of a principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import report
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import argument, option, paragraphs, takes

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

HELP: Final = paragraphs(
    "Show the journal of a principal as a trace, for `conductor log`. One end of the trace is the "
    "client. The other end is the chain, under the name of the agent.",
    "A line with `gap` names the messages that are missing before it. A `disputed` message "
    "contradicts an earlier message. Either its worker did not know yet that another worker had "
    "the room, or somebody forged one of the two messages.",
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
        argument("PRINCIPAL", "The owner of the chains; `local` where gateways ask for no token."),
    ],
    session: Annotated[
        str,
        option("--session", "ID", "Show only messages of this session."),
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
