"""`conductor log replay FILE`: the whole chain of a trace again, and the differences."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from conductor.cli import report, shown_log
from conductor.cli.log_rows import DIM, HEAD, PLAIN, WRONG, Line, Rows
from conductor.errors import UsageError, agrees, are, counted, one_line
from conductor.record.turns.model import Op
from conductor.spec import private_files
from conductor.spec.option_table import given_twice

if TYPE_CHECKING:
    from conductor.record.replay.comparison import Difference, TurnComparison
    from conductor.record.replay.player import Replayed
    from conductor.record.replay.recording import Recording
    from conductor.record.replay.specs import Chosen
    from conductor.record.replay.transcript import Transcript
    from conductor.spec.config.model import Config
    from conductor.spec.model import Spec

EXIT_DIFFERENT: Final = 1
_MOST: Final = 12
"""Differences of one end in one turn that are shown."""


class Wanted(NamedTuple):
    """A replay, as the command line orders it."""

    file: str
    swapped: dict[str, str]
    """By name: the component that takes its place."""
    without: tuple[str, ...]
    trace: str | None
    limit: float
    config: Config | None
    alone: str = ""
    """The only component that is replayed; empty: the chain."""
    output: str | None = None
    """The file for the transcript of that component; None: nobody wants a transcript."""


class Run(NamedTuple):
    """A replay, and how it compares with its recording."""

    recording: Recording
    chosen: Chosen
    replayed: Replayed
    compared: list[TurnComparison]

    @property
    def differs(self) -> bool:
        """Whether anything is not as it was."""
        return bool(self.replayed.ended) or not all(turn.same for turn in self.compared)

    def members(self) -> dict[str, object]:
        """All of it, for programs."""
        return _members(*self)

    def lines(self, *, show: bool) -> Iterator[Line]:
        """The chain, notes and turns, for people; with `show` the differences in each turn."""
        rows = Rows(whole=False)
        yield HEAD, rows.fit(_chain(self.chosen))
        for note in _notes(self.recording, self.chosen, self.replayed):
            yield DIM, f"note: {note}"
        for turn in self.compared:
            if turn.turn or not turn.same:  # messages of no turn are shown only if they differ
                yield from _turn(turn, rows, show=show)
        if self.replayed.ended:
            yield WRONG, f"the replay did not come to its end: {self.replayed.ended}"


def run(wanted: Wanted, *, show: bool, as_json: bool) -> int:
    """Replays the chain, and reports; the exit code. Raises `ConductorError`."""
    ran = _ran(wanted)
    if as_json:
        alone = {"component": wanted.alone} if wanted.alone else {}
        report.say_json({**alone, **ran.members()})
    else:
        report.say_styled(*ran.lines(show=show))
        _complain(ran, show=show)
    return EXIT_DIFFERENT if ran.differs else 0


def played(file: str, swapped: dict[str, str], limit: float, config: Config | None) -> Run:
    """Replays the chain of a trace, with those swapped proxies whose names it has. Raises
    `ConductorError`."""
    from conductor.record.replay import recording

    names = recording.load(file)[0].names
    here = {name: by for name, by in swapped.items() if name in names}
    return _ran(Wanted(file, here, (), None, limit, config))


def _ran(wanted: Wanted) -> Run:
    from conductor.record.replay import comparison, player, recording, specs
    from conductor.spec.options import Options

    recorded, then = recording.load(wanted.file, wanted.alone)
    chosen = specs.chosen(
        recorded, wanted.swapped, wanted.without, wanted.config, alone=bool(wanted.alone)
    )
    options = Options(trace=wanted.trace)
    log = shown_log.logger("warning")
    output, written = wanted.output, None
    if output is not None:
        written = _transcript(chosen.specs[0], output)
    replayed = player.replayed(recorded, chosen.specs, options, wanted.limit, log, written)
    if output is not None and written is not None:
        private_files.write_new(output, written.text())
    return Run(recorded, chosen, replayed, comparison.compared(then, replayed.reader))


def _transcript(spec: Spec, path: str) -> Transcript:
    """Writes the lines that a guest gets and returns, to a new file. Raises `UsageError`."""
    from conductor.record.replay.transcript import Transcript

    if not spec.sandboxed:
        raise UsageError(
            f"`{spec.name}` is not sandboxed, and only a guest's lines can become a transcript",
            "leave out --output, and keep the trace itself as a scenario",
        )
    if os.path.exists(path):
        raise UsageError(f"`{path}` is there already", "name another file, or delete it")
    return Transcript(spec.name)


def named(given: list[str]) -> dict[str, str]:
    """By name the components that take a proxy's place. Raises `UsageError`."""
    swapped: dict[str, str] = {}
    for text in given:
        name, equals, component = text.partition("=")
        if not (equals and name and component):
            raise UsageError(
                f"`--with {text}` does not name a proxy and its replacement",
                "as in `--with redact=./new.wasm`: the name in the trace, and its replacement",
            )
        if name in swapped:
            raise given_twice(f"--with {name}=")
        swapped[name] = component
    return swapped


# -- for people ------------------------------------------------------------------------------------


def _complain(ran: Run, *, show: bool) -> None:
    if not ran.differs:
        return
    if ran.replayed.ended:
        report.error(
            f"the replay did not come to its end: {ran.replayed.ended}",
            "--trace FILE records the messages; --timeout allows more time",
        )
        return
    different = sum(not turn.same for turn in ran.compared if turn.turn)
    count = sum(bool(turn.turn) for turn in ran.compared)
    if different:
        verb = agrees(different, "differs", "differ")
        where = f"{different} of {counted(count, 'turn')} {verb}"
    else:
        where = "messages outside of turns differ"
    report.error(
        f"{where} from the recording",
        "if you want the change, record the trace anew" if show else "--diff shows how",
    )


def _chain(chosen: Chosen) -> str:
    names = []
    for spec in chosen.specs:
        by = chosen.swapped.get(spec.name)
        names.append(f"{spec.name}={by}" if by is not None else spec.name)
    return " > ".join(["client", *names, "agent"])


def _notes(recording: Recording, chosen: Chosen, replayed: Replayed) -> Iterator[str]:
    yield from chosen.notes
    if recording.is_redacted and recording.content == "redacted":
        yield (
            "the trace holds no secrets, so conductor does not compare a component's changes of "
            "secrets; record with `-c trace-content=all` to replay secrets"
        )
    if recording.is_cut:
        yield "the trace is cut off: it is replayed up to there"
    if recording.mcp:
        messages, verb = counted(recording.mcp, "message"), are(recording.mcp)
        yield f"{messages} of MCP servers in the trace {verb} not played again"
    if replayed.failure and replayed.failure != replayed.ended:
        yield f"the chain failed: {one_line(replayed.failure)}"
    for name, call in list(dict.fromkeys(replayed.refused))[:_MOST]:
        yield f"`{name}` called `{call}`, which the trace has no answer to: it was refused"


def _turn(turn: TurnComparison, rows: Rows, *, show: bool) -> Iterator[Line]:
    place = f"turn {turn.turn}" if turn.turn else "outside of turns"
    words = f"  “{one_line(turn.prompt, 400)}”" if turn.prompt else ""
    if turn.same:
        yield PLAIN, rows.fit(f"same    {place}{words}")
        return
    yield WRONG, rows.fit(f"DIFFERS {place}{words}")
    if not turn.then:
        yield PLAIN, "    the recording has no such turn"
        return
    if not turn.now:
        yield PLAIN, "    there is no such turn now"
        return
    for says in turn.says:
        yield PLAIN, rows.fit(f"    {says.component}: {says.then} then, {says.now} now")
    for end, differences in (("agent", turn.agent), ("client", turn.client)):
        for difference in differences[:_MOST] if show else ():
            yield from _difference(end, difference, rows)
        if show and len(differences) > _MOST:
            yield DIM, f"    … {len(differences) - _MOST} more to the {end}"
        if differences and not show:
            kinds = ", ".join(dict.fromkeys(difference.what for difference in differences))
            yield PLAIN, rows.fit(f"    to the {end}: {kinds}")


_HOW: Final = {
    Op.ADDED: ("+", ", which it did not get then"),
    Op.REMOVED: ("-", ", which it does not get now"),
    Op.CHANGED: ("~", " differs"),
}


def _difference(end: str, difference: Difference, rows: Rows) -> Iterator[Line]:
    sign, how = _HOW[difference.op]
    what = one_line(difference.what, 200)
    yield PLAIN, rows.fit(f"  {sign} to the {end}: {what}{how}")
    for edit in difference.edits[:_MOST]:
        if edit.what not in ("text", "the whole"):
            yield DIM, rows.fit(f"      {edit.op} {edit.what}")
        yield from rows.values(edit)
    if len(difference.edits) > _MOST:
        yield DIM, f"      … {len(difference.edits) - _MOST} more in it"


# -- for programs ----------------------------------------------------------------------------------


def _members(
    recording: Recording, chosen: Chosen, replayed: Replayed, compared: list[TurnComparison]
) -> dict[str, object]:
    return {
        "same": not replayed.ended and all(turn.same for turn in compared),
        "components": [spec.name for spec in chosen.specs],
        "with": chosen.swapped,
        "without": chosen.without,
        "ended": replayed.ended,
        "notes": list(_notes(recording, chosen, replayed)),
        "turns": compared,
    }
