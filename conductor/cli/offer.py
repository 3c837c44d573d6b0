"""Shows a package and asks: shared by `conductor add` and `conductor update`.

Installing and agreeing are two decisions. `--yes` installs; what a component asks for beyond the
default stays a question of its own, and so does a program, which no sandbox holds.
"""

from __future__ import annotations

import enum
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from conductor.cli import consent, inspect_card, report
from conductor.errors import ConductorError, UsageError, one_line, visible_path
from conductor.packages import install, store
from conductor.packages.install import Candidate
from conductor.run import compiled
from conductor.spec import catalog, managed, trust
from conductor.spec.consent.agreements import Agreements
from conductor.spec.consent.question import Question
from conductor.spec.digests import short
from conductor.spec.installed import Receipt
from conductor.spec.model import Spec

EXIT_DECLINED: Final = 1


class Decision(enum.Enum):
    """What the user wants."""

    NO = "no"
    INSTALL = "install"
    """With the default rights; a program is not trusted."""
    ALLOW = "allow"
    """With what it asks for; a program is trusted."""


_YES: Final = {"y": Decision.INSTALL, "yes": Decision.INSTALL}
_PLAIN: Final = "install it? [y/N] "
_ASKING: Final = (
    "install it? [a] and allow this version what it asks for  [y] with the default rights  [N] no: "
)
_PROGRAM: Final = "install it, and let it run with all your rights? [y/N] "
WARNING: Final = (
    "this is a program, not a sandboxed component: it runs with all your rights. It can read and "
    "change your files, use the network and start other programs"
)


def show(made: Candidate, changed: Sequence[str] = ()) -> None:
    """Prints the card of a package, and what it changes. Raises `UsageError` for one that conductor
    would never run."""
    from conductor.cli import inspect_

    receipt, before = made.receipt, made.before
    (spec,) = consent.kept([made.spec])
    facts = inspect_.facts_of(spec, receipt.name)
    if facts.problems:
        raise UsageError(f"`{receipt.name}`: {'; '.join(facts.problems)}", facts.hint)
    state = ""
    if isinstance(before, Receipt) and not made.is_installed:
        state = f"CHANGED since it was installed ({short(before.content)})"
    lines = inspect_card.lines(
        facts,
        shutil.get_terminal_size().columns,
        source=receipt.source,
        signer=str(receipt.signer) if receipt.signer is not None else "",
        state=state,
    )
    report.say(*lines)
    if receipt.signer is not None:  # whole: two identities may begin alike
        report.say(f"signed by {receipt.signer}")
    if changed:
        report.say("", "what changes:", *(f"  {line}" for line in changed))
    if made.is_program:
        runs = one_line(shlex.join(made.spec.command or ()), 1000)
        report.write(f"{WARNING}. It runs: {runs}", word="warning")
    if made.is_older:
        text = f"its version is NOT HIGHER than that of what is installed: {_releases(made)}"
        report.write(text, word="warning")


def decide(made: Candidate, *, yes: bool, trusting: bool, again: str) -> Decision:
    """What the user wants: asks on a terminal, unless options say it.

    Args:
        yes: Install without a question.
        trusting: `--trust`: a program may run.
        again: The command that would do it without a question.

    Raises:
        UsageError: It takes a decision, and nobody can be asked.
    """
    if yes or trusting:
        if made.is_program and not trusting:
            raise UsageError(
                f"`{made.receipt.name}` is a program: it would run with all your rights, and "
                "`--yes` does not allow that",
                f"if you want it: `{again} --trust`",
            )
        if made.is_older:
            raise UsageError(
                f"`{made.receipt.name}` would become older: {_releases(made)}",
                f"if you want it: first `conductor remove {made.receipt.name}`",
            )
        return Decision.ALLOW if made.is_program else Decision.INSTALL
    if not (os.isatty(0) and os.isatty(2)):
        flag = "--trust" if made.is_program else "--yes"
        raise UsageError(
            f"`{made.receipt.name}` needs your yes, and nobody can be asked: nothing was changed",
            f"`{again} {flag}` installs it",
        )
    question = _question(made.spec)
    if question is not None:
        report.write(question.title)
        for line in question.lines():
            report.write(f"  {line}")
    typed = _typed(_PROGRAM if made.is_program else _ASKING if question is not None else _PLAIN)
    if made.is_program:
        return Decision.ALLOW if typed in _YES else Decision.NO
    if question is not None and typed in ("a", "allow"):
        return Decision.ALLOW
    return _YES.get(typed, Decision.NO)


def put(made: Candidate, decision: Decision) -> None:
    """Installs it as the user has decided, and compiles it. Raises `ConductorError`."""
    receipt = made.receipt
    others = (each for each in store.receipts() if isinstance(each, Receipt))
    if not any(each.content == receipt.content for each in others):
        store.forget([receipt.folder])  # what was agreed about it earlier: it was asked anew
    install.commit(made)
    if decision is Decision.ALLOW and made.is_program:
        trust.trust_folder(receipt.folder)
    spec = catalog.resolve(receipt.name)
    if decision is Decision.ALLOW and (question := _question(spec)) is not None:
        trust.agree(question.key, msgspec.structs.replace(question.agreement, since=trust.now()))
    release = f" {receipt.release}" if receipt.release else ""
    report.say(f"installed: {receipt.name}{release}, sha256:{short(receipt.content)}")
    prepare(spec)


def prepare(spec: Spec) -> None:
    """Compiles the module of an installed component, so that its first chain starts at once."""

    def begun(_: Spec) -> None:
        report.write(f"compiling `{spec.name}`, once: chains start faster then", dim=True)

    try:
        compiled.compile_ahead([spec], begun=begun)
    except ConductorError as error:
        report.write(f"`{spec.name}` is not compiled yet: {error.text}", word="warning")


def command(*words: str) -> str:
    """A command of ours, for a user to copy."""
    return visible_path(shlex.join(["conductor", *words]))


def _releases(made: Candidate) -> str:
    before = made.before.release if isinstance(made.before, Receipt) else ""
    return f"{before or 'no version'} → {made.receipt.release or 'no version'}"


def _question(spec: Spec) -> Question | None:
    """What may be asked about a component; None: it has all it asks for, or may not get it."""
    agreements = Agreements(again=False, permit=managed.tried)
    agreements.settled([spec])
    for _, why in agreements.refused:
        report.write(f"{spec.name}: it gets the default rights only: {why}", word="warning")
    return agreements.questions[0] if agreements.questions else None


def _typed(prompt: str) -> str:
    report.ask(prompt)
    typed = sys.stdin.readline()
    if not typed.endswith("\n"):
        report.write("")
    return typed.strip().lower()
