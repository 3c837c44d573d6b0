"""`conductor replay FILE`: the whole chain of a trace again, and what is different now."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from conductor.cli import configured, report
from conductor.cli.trace_show import ADDED, DIM, HEAD, PLAIN, REMOVED, WRONG, Line
from conductor.errors import UsageError, one_line
from conductor.record.turns.model import Op

if TYPE_CHECKING:
    from conductor.record.replay.chain_player import Replayed
    from conductor.record.replay.chain_recording import ChainRecording
    from conductor.record.replay.chain_specs import Chosen
    from conductor.record.replay.comparison import Difference, TurnComparison
    from conductor.record.turns.model import Edit

EXIT_DIFFERENT: Final = 1
_WIDEST: Final = 120
_MOST: Final = 12
"""Differences of one end in one turn that are shown."""


class Wanted(NamedTuple):
    """What the command line wants replayed."""

    file: str
    swapped: list[str]
    without: list[str]
    trace: str | None
    limit: float


def run(wanted: Wanted, *, show: bool, as_json: bool) -> int:
    """Replays the chain, and reports; the exit code. Raises `ConductorError`."""
    from conductor.record.replay import chain_player, chain_recording, chain_specs, comparison
    from conductor.record.turns import reader as turns
    from conductor.run.plan import Options

    recording = chain_recording.load(wanted.file)
    swapped = _swapped(wanted.swapped)
    chosen = chain_specs.chosen(recording, swapped, wanted.without, configured.here())
    options = Options(trace=wanted.trace)
    log = report.logger("warning")
    replayed = chain_player.replayed(recording, chosen.specs, options, wanted.limit, log)
    then = turns.opened(wanted.file)
    compared = comparison.compared(then, replayed.reader)
    if as_json:
        report.say_json(_members(recording, chosen, replayed, compared))
    else:
        _tell(recording, chosen, replayed, compared, show=show)
    return EXIT_DIFFERENT if _differs(replayed, compared) else 0


def _swapped(given: list[str]) -> dict[str, str]:
    """By name the components that take a proxy's place. Raises `UsageError`."""
    swapped: dict[str, str] = {}
    for text in given:
        name, equals, component = text.partition("=")
        if not (equals and name and component):
            raise UsageError(
                f"`--with {text}` names no proxy of the trace",
                "as in `--with redact=./new.wasm`: the name in the trace, and what runs instead",
            )
        if name in swapped:
            raise UsageError(f"`--with {name}=` is given twice", "give one of them")
        swapped[name] = component
    return swapped


def _differs(replayed: Replayed, compared: list[TurnComparison]) -> bool:
    return bool(replayed.ended) or not all(turn.same for turn in compared)


# -- for people ------------------------------------------------------------------------------------


def _tell(
    recording: ChainRecording,
    chosen: Chosen,
    replayed: Replayed,
    compared: list[TurnComparison],
    *,
    show: bool,
) -> None:
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    report.say_styled((HEAD, _cut(_chain(chosen), width)))
    for note in _notes(recording, chosen, replayed):
        report.say_styled((DIM, f"note: {note}"))
    for turn in compared:
        if turn.same and not turn.turn:
            continue  # what belongs to no turn is worth a line only if it differs
        report.say_styled(*_turn(turn, width, show=show))
    if not _differs(replayed, compared):
        return
    if replayed.ended:
        report.error(
            f"the replay did not come to its end: {replayed.ended}",
            "--trace FILE writes down what happened; --timeout allows more time",
        )
        return
    different = sum(not turn.same for turn in compared if turn.turn)
    count = sum(bool(turn.turn) for turn in compared)
    turns = f"{different} of {count} turn{'s' * (count != 1)}"
    where = turns if different else "what belongs to no turn"
    report.error(
        f"{where} differ{'s' * (different <= 1)} from the recording",
        "if you want the change, record the trace anew" if show else "--diff shows how",
    )


def _chain(chosen: Chosen) -> str:
    names = []
    for spec in chosen.specs:
        by = chosen.swapped.get(spec.name)
        names.append(f"{spec.name}={by}" if by is not None else spec.name)
    return " > ".join(["client", *names, "agent"])


def _notes(recording: ChainRecording, chosen: Chosen, replayed: Replayed) -> Iterator[str]:
    yield from chosen.notes
    if recording.is_redacted and recording.content == "redacted":
        yield (
            "secrets were taken out of the trace, and stay out; record with --trace-content all to "
            "replay them"
        )
    if recording.is_cut:
        yield "the trace is cut off: it is replayed up to there"
    if recording.mcp:
        plural = "s" * (recording.mcp != 1)
        yield f"{recording.mcp} message{plural} of MCP servers in the trace are not played again"
    for name, call in list(dict.fromkeys(replayed.refused))[:_MOST]:
        yield f"`{name}` called `{call}`, which the trace has no answer to: it was refused"


def _turn(turn: TurnComparison, width: int, *, show: bool) -> Iterator[Line]:
    place = f"turn {turn.turn}" if turn.turn else "outside of turns"
    words = f"  “{one_line(turn.prompt, 400)}”" if turn.prompt else ""
    if turn.same:
        yield PLAIN, _cut(f"same    {place}{words}", width)
        return
    yield WRONG, _cut(f"DIFFERS {place}{words}", width)
    if not turn.then:
        yield PLAIN, "    the recording has no such turn"
        return
    if not turn.now:
        yield PLAIN, "    there is no such turn now"
        return
    for says in turn.says:
        told = f"    {says.component}: {says.then} then, {says.now} now"
        yield PLAIN, _cut(told, width)
    for end, differences in (("agent", turn.agent), ("client", turn.client)):
        for difference in differences[:_MOST] if show else ():
            yield from _difference(end, difference, width)
        if show and len(differences) > _MOST:
            yield DIM, f"    … {len(differences) - _MOST} more to the {end}"
        if differences and not show:
            kinds = ", ".join(dict.fromkeys(difference.what for difference in differences))
            yield PLAIN, _cut(f"    to the {end}: {kinds}", width)


_HOW: Final = {
    Op.ADDED: ("+", ", which it did not get then"),
    Op.REMOVED: ("-", ", which it does not get now"),
    Op.CHANGED: ("~", " differs"),
}


def _difference(end: str, difference: Difference, width: int) -> Iterator[Line]:
    sign, how = _HOW[difference.op]
    what = one_line(difference.what, 200)
    yield PLAIN, _cut(f"  {sign} to the {end}: {what}{how}", width)
    for edit in difference.edits[:_MOST]:
        yield from _edit(edit, width)
    if len(difference.edits) > _MOST:
        yield DIM, f"      … {len(difference.edits) - _MOST} more in it"


def _edit(edit: Edit, width: int) -> Iterator[Line]:
    if edit.what not in ("text", "the whole"):
        yield DIM, _cut(f"      {edit.op} {edit.what}", width)
    if edit.before:
        yield REMOVED, _cut(f"      - {one_line(edit.before, 2_000)}", width)
    if edit.after:
        yield ADDED, _cut(f"      + {one_line(edit.after, 2_000)}", width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


# -- for programs ----------------------------------------------------------------------------------


def _members(
    recording: ChainRecording, chosen: Chosen, replayed: Replayed, compared: list[TurnComparison]
) -> dict[str, object]:
    return {
        "same": not _differs(replayed, compared),
        "components": [spec.name for spec in chosen.specs],
        "with": chosen.swapped,
        "without": chosen.without,
        "ended": replayed.ended,
        "notes": list(_notes(recording, chosen, replayed)),
        "turns": compared,
    }
