"""`conductor ps --watch`: the work of each component of the running chains, live."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time

import msgspec

from conductor.cli import ps, ps_table, report
from conductor.control import client
from conductor.control.places import Id
from conductor.control.watching import Seen
from conductor.errors import ConductorError
from conductor.record.turns import filter as filters


def watch(only: Id | None, wanted: str, *, as_json: bool) -> int:
    """Shows the chains that run, again and again on a terminal. Raises `UsageError`.

    Args:
        only: Only the chains of this process, or one of them; None: all.
        wanted: A filter: only these messages count.
        as_json: Print them once, for programs.
    """
    filters.parse(wanted)
    chains = ps.chains(only)
    if as_json or not (sys.stdin.isatty() and report.can_draw()):
        seen = [_looked(one, wanted) for one in chains]
        if as_json:
            report.say_json([_as_json(one) for one in seen])
        else:
            width = shutil.get_terminal_size((120, 24)).columns
            report.page("\n".join(row.text for row in ps_table.rows(seen, width)))
        return 0
    from conductor.cli.ps_screen import Screen

    return Screen(only, wanted).run()


def _looked(one: client.Running, wanted: str) -> Seen:
    """A chain, looked at once."""
    if one.state is None:
        return Seen(id=one.id, at=0.0, why=one.why)
    try:
        with contextlib.closing(client.Control.connected(one.path)) as control:
            return Seen(id=one.id, at=time.monotonic(), state=control.figures(wanted))
    except OSError:
        return Seen(id=one.id, at=0.0, why="the chain has ended")
    except ConductorError as error:
        return Seen(id=one.id, at=0.0, why=error.text)


def _as_json(seen: Seen) -> object:
    if seen.state is None:
        return {"id": str(seen.id), "pid": seen.id.process, "error": seen.why}
    return {"id": str(seen.id), **msgspec.to_builtins(seen.state)}
