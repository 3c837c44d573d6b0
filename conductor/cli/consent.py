"""The wishes of components, before a chain starts: the user has agreed to a wish, is asked on the
terminal, or gets a report.

A component says at every start which rights it lacks then (`conductor.spec.lacking`). A component
that asks for nothing is reported once: a file in the user's state folder remembers each report by
the component's place.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from conductor.cli import report
from conductor.core.policy.words import CONTEXT, SET_SAYS
from conductor.spec import lacking, managed, paths, private_files
from conductor.spec.consent import Where
from conductor.spec.consent.agreements import Agreements
from conductor.spec.consent.question import Answer, Question
from conductor.spec.model import Spec
from conductor.spec.plan import Plan

HIDDEN: Final = (
    'conductor cannot read rights off its source, as it could off `Proxy(…, rights={"clock": "…"})`'
)
"""The report of a source that may name rights in some other form."""

_CHOICES: Final = {
    "v": Answer.VERSION,
    "version": Answer.VERSION,
    "r": Answer.SESSION,
    "run": Answer.SESSION,
}
_PROMPT: Final = "allow it? [v] this version, also later  [r] this run only  [N] keep it narrow: "


def agreed(
    plan: Plan, agreements: Agreements | None = None, where: Where = Where.NOWHERE
) -> tuple[Plan, Agreements]:
    """The plan with the rights that the user has agreed to, now or before.

    Args:
        agreements: Those of the same chain before it was prepared again; None: the chain is new.
        where: Where the user is asked; in an editor the questions come later.
    """
    again = plan.options.ask == "always"
    agreements = agreements or Agreements(again=again, permit=managed.tried)
    agreements.asks = where is Where.EDITOR
    now = agreements.settled(plan.components)
    if agreements.problem:
        report.write(agreements.problem, word="warning")
    if where is Where.TERMINAL and agreements.questions:
        answers = [_ask(question, agreements) for question in agreements.questions]
        if any(answers):
            now, _ = agreements.renewed()
    announce(plan.components)
    for spec, why in agreements.refused:
        report.write(f"{spec.name}: it runs with the default rights: {why}", word="warning")
    return plan.of(now), agreements


def kept(plan: Plan) -> tuple[Plan, Agreements]:
    """The plan with the rights agreed to before; nobody is asked, and nothing is reported."""
    agreements = Agreements(again=False, permit=managed.tried)
    return plan.of(agreements.settled(plan.components)), agreements


def say_lacking(plan: Plan) -> None:
    """Warns of rights that components lack after the user's agreements; nobody is asked."""
    for spec in kept(plan)[0].components:
        for text in lacking.notes(spec):
            report.write(f"{spec.name}: {text}", word="warning")


def _ask(question: Question, agreements: Agreements) -> bool:
    """Asks on the terminal; whether the user agrees. The end of the input is no."""
    report.write(question.title)
    for line in question.lines():
        report.write(f"  {line}")
    answer = _CHOICES.get(report.answer(_PROMPT))
    if answer is None:
        return False
    problem = agreements.agree(question, lasting=answer is Answer.VERSION)
    if problem:
        report.write(f"agreed to for this run only: {problem}", word="warning")
    return True


def announce(specs: Sequence[Spec]) -> None:
    """Reports the components that are new here, or ask for something else than before."""
    for spec in specs:
        why = _claims(spec) if spec.bundled is None else None
        if why is not None and _remember(_place(spec), why):
            for line in lines(spec):
                # The author's words stay on their line: a new one could pass for conductor's own.
                report.write(line.replace("\n", " "))


def _place(spec: Spec) -> str:
    """Its file, with bytes that are not text written out, so that it is unique and storable."""
    name = spec.manifest_path or spec.script or spec.wasm or ""
    return name.encode("utf-8", "backslashreplace").decode()


def _claims(spec: Spec) -> str | None:
    """Why a component that asks for nothing has the default; None: it asks, or the user chose."""
    asks = spec.manifest is not None and spec.manifest.rights is not None
    if asks or not spec.sandboxed or spec.chosen:
        return None
    return HIDDEN if spec.unreadable_rights else "it names no rights"


def lines(spec: Spec) -> Iterator[str]:
    """The rights of a component that asks for nothing."""
    version = f" {spec.manifest.version}" if spec.manifest and spec.manifest.version else ""
    yield f"conductor: first use of `{spec.name}`{version} ({spec.source})"
    yield (
        f"  {_claims(spec)}, so it gets `{CONTEXT}`: it {SET_SAYS[CONTEXT]}; "
        "add `,only=full` to allow all within the guards"
    )


def _remember(place: str, what: str) -> bool:
    """Remembers a report; False if an earlier run has made it."""
    reported = msgspec.json.encode([place, what], order="sorted")
    # Checksums, not a digest: an editor would wait for OpenSSL to load. Two reports that share a
    # file do no harm, since `_read` compares the whole content.
    key = place.encode()
    file = os.path.join(paths.first_use(), f"{zlib.crc32(key):08x}{zlib.adler32(key):08x}")
    if _read(file) == reported:
        return False
    try:
        private_files.make_folders(paths.first_use())
        with open(file, "wb") as now:
            now.write(reported)
    except OSError:
        return True  # reported again each time: better than never
    return True


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as before:
            return before.read()
    except OSError:
        return b""
