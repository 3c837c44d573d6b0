"""`conductor test` on scenarios: a trace in a folder of `test-scenarios`, replayed as a chain.

The trace is the client's script, the agent, the chain and what is expected, all in one.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any, Final

from conductor.cli import replay_chain, report
from conductor.errors import visible_path
from conductor.spec.manifest.reading import load, path_of

FOLDER: Final = "test-scenarios"
TRACE: Final = "trace.jsons"
_LIMIT: Final = 60.0
"""Seconds in which nothing moves, after which a scenario fails."""


def found(path: str) -> list[str]:
    """The traces of the scenarios that a path stands for: a trace, the folder of one scenario or
    of many, or a folder with `test-scenarios` in it."""
    if os.path.isfile(path):
        return [path] if path.endswith(".jsons") else []
    single = os.path.join(path, TRACE)
    if os.path.isfile(single):
        return [single]
    inside = (
        path if os.path.basename(os.path.abspath(path)) == FOLDER else os.path.join(path, FOLDER)
    )
    return sorted(glob.glob(os.path.join(glob.escape(inside), "*", TRACE)))


def play(traces: Sequence[str], component: str, *, as_json: bool) -> list[dict[str, Any]]:
    """Replays scenarios and reports each; a row for each. Raises `ConductorError`.

    Args:
        traces: The traces.
        component: The folder of the component that is tested: it runs in place of the proxy of its
            name. Empty: every proxy is the one that the trace names.
        as_json: Print nothing.
    """
    manifest = path_of(component) if component else None
    name = load(manifest).name if manifest is not None else ""
    swapped = {name: os.path.join(component, "")} if name else {}
    rows = []
    for trace in traces:
        run = replay_chain.played(trace, swapped, _LIMIT)
        rows.append(
            {
                "scenario": trace,
                "outcome": "failed" if run.differs else "passed",
                **run.members(),
            }
        )
        if not as_json:
            word = "FAILED " if run.differs else "passed "
            report.say(f"{word} {visible_path(trace)}")
            if run.differs:
                report.say_styled(*run.lines(show=True))
    return rows
