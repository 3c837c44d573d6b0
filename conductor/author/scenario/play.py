"""Runs a scenario: its proxies between its client and its agent, as a replay runs a trace."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.author.scenario import file
from conductor.author.scenario.expectations import Failure, failures
from conductor.author.scenario.file import Scenario
from conductor.author.scenario.script import Script
from conductor.errors import UsageError, one_line, visible_path
from conductor.record.replay.player import Player, Replayed
from conductor.record.replay.recorded_services import PERFORMED
from conductor.record.turns.reader import Reader
from conductor.run.plan import Options
from conductor.spec import catalog, managed, trust
from conductor.spec.config.model import Config, Written
from conductor.spec.consent import wishes
from conductor.spec.model import Spec

_PERFORMED: Final = PERFORMED | {
    *("timer/start", "timer/stop", "files/roots", "files/read", "files/list"),
}
"""Values are kept for the run alone, and nothing reaches the network."""
_MOST_STDERR: Final = 20

Log = Callable[[str, str, str], None]


class Played(msgspec.Struct, frozen=True):
    """A run of a scenario."""

    chain: tuple[str, ...]
    """The names of its proxies."""
    steps: int
    failures: tuple[Failure, ...]
    ended: str
    """Why it did not come to its end; empty: it did."""
    notes: tuple[str, ...]
    """What an author should know, for people."""
    stderr: tuple[str, ...]
    """The last lines that programs wrote."""


def play(path: str, folder: str, config: Config | None, log: Log) -> Played:
    """Plays a scenario. Raises `ConductorError`.

    Args:
        path: The file.
        folder: Where the paths in it start from, and the sessions are; absolute.
        config: What is configured; None: nothing.
        log: Takes level, component and text.
    """
    scenario = file.load(path)
    specs = _specs(scenario, path, folder, config)
    script = Script(scenario, path, folder)
    stderr: deque[str] = deque(maxlen=_MOST_STDERR)

    def on_stderr(name: str, line: str) -> None:
        stderr.append(f"{name}: {line}")

    def is_due(reader: Reader) -> bool:
        return any(failure.may_come for failure in failures(scenario, script, reader))

    async def replayed() -> Replayed:
        player = Player(
            script.recording, specs, Options(), scenario.limit, log,
            is_due=is_due, patience=scenario.wait, performed=_PERFORMED, on_stderr=on_stderr,
        )  # fmt: skip
        return await player.run()

    run = asyncio.run(replayed())
    refused = dict.fromkeys(run.refused)
    notes = [f"`{name}` called `{call}`: a scenario refuses it" for name, call in refused]
    for turn in run.reader.turns:
        for verdict in run.reader.detail(turn.number).verdicts if turn.verdicts else ():
            why = verdict.text or verdict.rule
            notes.append(f"conductor refused what `{verdict.component}` did: {one_line(why)}")
    return Played(
        tuple(spec.name for spec in specs),
        len(scenario.step),
        tuple(failures(scenario, script, run.reader)),
        run.ended,
        tuple(notes),
        tuple(stderr),
    )


def _specs(scenario: Scenario, path: str, folder: str, config: Config | None) -> list[Spec]:
    """The proxies, each with what it asks for: nothing that a scenario performs leaves this run."""
    line = file.line(path, ("chain",))
    origin = f"{visible_path(path)}, line {line}" if line else visible_path(path)
    written = [Written(text, folder, origin) for text in scenario.chain]
    specs: list[Spec] = []
    for spec in catalog.resolve_all(written, agent_last=False, config=config):
        trust.check_program(spec)
        _check_program(spec, path, folder)
        specs.append(managed.tried(wishes.granted(spec, wishes.missing(spec))))
    return specs


def _check_program(spec: Spec, path: str, folder: str) -> None:
    """Raises `UsageError` for a program that a scenario names in a folder that nobody trusts: it
    would run with the user's rights."""
    if spec.sandboxed or spec.bundled is not None or spec.receipt is not None or spec.manifest_path:
        return
    if trust.known()[0].folder_of(folder) is None:
        raise UsageError(
            f"{visible_path(path)} runs the program `{spec.name}` ({spec.source}), and its folder "
            "is not trusted",
            "it would run with your rights, outside any sandbox; if you want that: "
            f"`conductor trust {shlex.quote(os.path.relpath(folder))}`",
        )
