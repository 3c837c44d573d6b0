"""`conductor fleet init`: makes the streams and buckets of a fleet in JetStream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import report
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import option, paragraphs, takes

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

HELP: Final = paragraphs(
    "Make what a fleet keeps in JetStream: leases, sessions, values, what pools run, the journal. "
    "Once, as the administrator of a tenant (deploy/nats); what is there stays as it is.",
    "Without accounts on NATS it is not needed: the parts make what they miss.",
)
_DAYS: Final = 30.0


@takes("fleet")
def init(
    journal_days: Annotated[
        float,
        option("--journal-days", "DAYS", "How long the journal keeps what it has; 0: "
            "for ever.", min=0),
    ] = _DAYS,
    **values: Any,
) -> int:  # fmt: skip
    """Makes what a fleet keeps."""

    async def make(bus: Bus) -> int:
        from conductor.fleet import kv, names, pool_record

        bus.is_admin = True
        for bucket in (names.ROOMS, names.OWNED, kv.BUCKET, pool_record.BUCKET):
            await bus.bucket(bucket)
        await bus.stream(names.JOURNAL, f"{names.JOURNAL}.>", journal_days * 86400.0)
        report.say("the fleet has all that it keeps")
        return 0

    return on_bus(place(values, "fleet init"), make)
