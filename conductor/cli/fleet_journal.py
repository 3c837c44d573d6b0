"""`conductor fleet journal`: shows what has passed at the chains of a principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from conductor.cli import report
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import paragraphs, takes
from conductor.core import json_text

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

HELP: Final = paragraphs(
    "Show what the journal has of a principal: one JSON object a line, in order. `way` is `c2a` "
    "for a frame of the client, `a2c` for one to it, `mark` where a chain begins and ends.",
    "`gap` counts the frames that are missing before an entry. `disputed` is an entry that "
    "contradicts one before it: a worker wrote it that did not know yet that another had its room, "
    "or somebody made one of the two up.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet journal alice --session 7f3a\n"
    "  conductor fleet journal local | jq -c .frame",
)


@takes("fleet")
def journal(
    principal: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL", help="Whose chains; `local` where gateways ask for no token."
        ),
    ],
    session: Annotated[
        str,
        typer.Option(
            "--session", metavar="ID", help="Only what belongs to this session.", show_default=False
        ),
    ] = "",
    **values: Any,
) -> int:
    """Shows the journal."""

    async def show(bus: Bus) -> int:
        from conductor.fleet.journal_reader import read

        async for one in read(bus, principal, session):
            shown: dict[str, Any] = {
                "at": one.at,
                "epoch": one.epoch,
                "chain": one.chain,
                "number": one.number,
                "way": one.way,
            }
            if one.gap:
                shown["gap"] = one.gap
            if one.disputed:
                shown["disputed"] = True
            if one.left_out:
                shown["left_out"] = one.left_out
            elif one.fragment:
                shown["fragment"] = one.frame.decode(errors="replace")
            else:  # an entry is one line
                shown["frame"] = msgspec.Raw(json_text.formatted(one.frame, indent=-1))
            report.say_line(json_text.encode(shown) + b"\n")
        return 0

    return on_bus(place(values, "fleet journal"), show)
