"""`conductor fleet init`: makes the streams and buckets of a fleet in JetStream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from conductor.cli import report
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import option, paragraphs, takes

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus

HELP: Final = paragraphs(
    "Make the stores of a fleet in JetStream: leases, sessions, values, records of pools, the "
    "journal. The administrator of a tenant (deploy/nats) runs this command once. Existing stores "
    "stay unchanged.",
    "Without accounts on NATS this command is not needed: gateways and workers make missing "
    "stores.",
)
_DAYS: Final = 30.0


@takes("fleet")
def init(
    journal_days: Annotated[
        float,
        option("--journal-days", "DAYS", "How long the journal keeps its messages; 0: for "
                                         "ever.", min=0),
    ] = _DAYS,
    **values: Any,
) -> int:  # fmt: skip
    """Makes the buckets and streams of a fleet."""

    async def make(bus: Bus) -> int:
        from conductor.fleet import kv, names, pool_record

        bus.is_admin = True
        for bucket in (names.ROOMS, names.OWNED, kv.BUCKET, pool_record.BUCKET):
            await bus.bucket(bucket)
        await bus.stream(names.JOURNAL, f"{names.JOURNAL}.>", journal_days * 86400.0)
        report.say("the fleet has all its stores")
        return 0

    return on_bus(place(values, "fleet init"), make)
