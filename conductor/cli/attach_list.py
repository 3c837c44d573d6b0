"""The live sessions of a server, and who has each: as `conductor attach --list` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.cli import pages, report
from conductor.errors import one_line

if TYPE_CHECKING:
    from conductor.client.visit import LiveSession


def show(sessions: list[LiveSession], place: str, *, as_json: bool) -> None:
    """Prints them."""
    if as_json:
        report.say_json(
            [
                {**one._asdict(), "clients": [client._asdict() for client in one.clients]}
                for one in sessions
            ]
        )
    elif sessions:
        report.say(*table(sessions))
    else:
        report.say(f"no session is live at {place}")


def table(sessions: list[LiveSession]) -> list[str]:
    """The sessions with their numbers, and who has each."""
    rows = [("", "session", "state", "folder", "clients")]
    for number, one in enumerate(sessions, 1):
        clients = ", ".join(f"{client.shown} {client.role}" for client in one.clients)
        name = f"{one.id} {one.title}" if one.title else one.id
        state = "a turn runs" if one.turn else "idle"
        cells = (one_line(name, 60), state, one_line(one.cwd, 60), one_line(clients, 200))
        rows.append((str(number), *cells))
    return pages.aligned(rows)
