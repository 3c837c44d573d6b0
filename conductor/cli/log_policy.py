"""`conductor log replay --policy FILE TRACE`: a managed policy's refusals of a recorded chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from conductor.cli import report
from conductor.cli.log_rows import HEAD, PLAIN, WRONG, Rows
from conductor.errors import ConductorError, UsageError, counted, one_line
from conductor.record.replay import recording
from conductor.record.replay import specs as recorded_specs
from conductor.record.trace.chain import ChainComponent
from conductor.record.turns import reader as turns
from conductor.spec import private_files, untrusted_files
from conductor.spec.managed import chain
from conductor.spec.managed import file as policies
from conductor.spec.model import Spec

EXIT_REFUSED: Final = 1
_MOST: Final = 1024 * 1024


class Refused(msgspec.Struct):
    """A refusal of the policy, and its component."""

    component: str
    text: str


def judge(trace: str, policy: str, *, as_json: bool) -> int:
    """Prints the refusals of a policy for a recorded chain. Nothing of the chain runs.

    Raises `UsageError` for a file that cannot be read, and for a trace that does not tell the
    components of its chain.
    """
    managed = policies.parse(_content(policy), policy)
    reader = turns.opened(trace)
    said = recording.components(reader)
    recorded = [each for each in said if each is not None]
    if not recorded or len(recorded) < len(said):
        raise UsageError(
            f"the trace `{trace}` does not name each of its components",
            "record one with `conductor agent --trace FILE …`",
        )
    found = [
        Refused(spec.name, error.text)
        for spec, error in chain.watched(
            managed, [_spec(each) for each in recorded], agent_last=recorded[-1].role == "agent"
        )
    ]
    if as_json:
        report.say_json({"refused": found})
    else:
        _say(found, policy, len(reader.turns) - 1)
    return EXIT_REFUSED if found else 0


def _content(path: str) -> bytes:
    try:
        return untrusted_files.read(path, _MOST)
    except OSError as error:
        raise UsageError(
            f"cannot read the policy `{path}`: {private_files.reason(error)}", "check the file"
        ) from None


def _spec(then: ChainComponent) -> Spec:
    """A component as the trace tells of it: it is looked up here, and does not run."""
    try:
        return recorded_specs.judged(then)
    except ConductorError as error:
        text = f"`{then.name}` of the trace is not here: {error.text}"
        raise UsageError(text, error.hint) from None


def _say(found: Sequence[Refused], policy: str, count: int) -> None:
    rows = Rows(whole=True)
    chain_ = f"the chain and its {counted(count, 'turn')}"
    if not found:
        report.say_styled((PLAIN, rows.fit(f"`{policy}` would have let {chain_} run")))
        return
    report.say_styled((HEAD, rows.fit(f"`{policy}` would have refused {chain_}:")))
    report.say_styled(*((WRONG, f"  {one_line(each.text, 2_000)}") for each in found))
