"""Shows a package and asks: shared by `conductor add` and `conductor update`.

Installing and agreeing are two decisions. `--yes` installs. Rights beyond the default take words of
their own (`Allowed`), and so does a program, which no sandbox holds. The rights that a component
does not get are reported.
"""

from __future__ import annotations

import enum
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from conductor.cli import consent, inspect_card, readiness, report
from conductor.core.policy import words
from conductor.errors import ConductorError, UsageError, hint_of, one_line, visible_path
from conductor.packages import install, signatures, store
from conductor.packages.install import Candidate
from conductor.packages.signatures import Demand
from conductor.run import compiled
from conductor.spec import catalog, lacking, trust
from conductor.spec.component_options import Options
from conductor.spec.consent.question import Question
from conductor.spec.digests import short
from conductor.spec.installed import Receipt
from conductor.spec.model import Spec
from conductor.spec.plan import alone

EXIT_DECLINED: Final = 1


class Decision(enum.Enum):
    """The decision of the user."""

    NO = "no"
    INSTALL = "install"
    """With the default rights; a program is not trusted."""
    ALLOW = "allow"
    """With the rights that it asks for; a program is trusted."""


class Allowed(msgspec.Struct, frozen=True):
    """The part of a wish that the user allows by words of the command line."""

    everything: bool = False
    rights: tuple[str, ...] = ()
    """As behind a component: `context+clock`."""

    def __bool__(self) -> bool:
        return self.everything or bool(self.rights)

    @classmethod
    def of(cls, everything: bool, options: Options) -> Allowed:
        """Raises `UsageError` for words that are no rights."""
        rights: list[str] = []
        for key, value in options:
            if key != "allow":
                raise UsageError(
                    f"`{one_line(key)}` is not `allow`, and a component is installed without "
                    "options",
                    "write it where a chain names the component",
                )
            try:
                rights += words.read(value)
            except ValueError as error:
                raise UsageError(
                    f"`allow={one_line(str(value))}`: {error}", hint_of(error) or words.HINT
                ) from None
        return cls(everything, tuple(rights))

    def check(self, spec: Spec) -> None:
        """Raises `UsageError` for a right that the component does not ask for."""
        if surplus := words.lacking(self.rights, lacking.wanted(spec)):
            asks = "+".join(lacking.wanted(spec)) or "nothing"
            raise UsageError(
                f"`{spec.name}` does not ask for `{one_line(surplus[0])}`",
                f"it asks for {one_line(asks, 1000)}; give it other rights where a chain names it",
            )

    def part(self, wish: Sequence[str]) -> tuple[str, ...]:
        """The part of a wish that the words allow."""
        return tuple(
            name for name in wish if self.everything or not words.lacking([name], self.rights)
        )


_PLAIN: Final = "install it? [y/N] "
_ASKING: Final = (
    "install it? [a] and allow this version all that it asks for  [y] with the default rights  [N] "
    "no: "
)
_PROGRAM: Final = "install it, and let it run with all your rights? [y/N] "
WARNING: Final = (
    "this is a program, not a sandboxed component: it runs with all your rights. It can read and "
    "change your files, use the network and start other programs"
)


def show(made: Candidate, changed: Sequence[str] = ()) -> None:
    """Prints the card of a package, and its changes. Raises `UsageError` for a package that
    conductor would never run."""
    from conductor.cli import inspect_

    receipt, before = made.receipt, made.before
    plan, _ = consent.kept(alone(made.spec))
    facts = inspect_.facts_of(plan, receipt.name)
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
        report.say("", "what changes:", *changed)
    if made.is_program:
        runs = one_line(shlex.join(made.spec.command or ()), 1000)
        report.write(f"{WARNING}. It runs: {runs}", word="warning")
    if made.is_another:
        report.write(f"it may be ANOTHER component: {_names(made)}", word="warning")
    if made.is_older:
        text = f"it is, or may be, OLDER than the installed one: {_releases(made)}"
        report.write(text, word="warning")


_SIGNER: Final = ("signer", "issuer", "key", "trusted_root", "any_signer")
"""The options about who must have signed a package."""


def demand(given: Mapping[str, Any]) -> Demand:
    """The demanded signer of a package, by the options of a command line. Raises `UsageError`."""
    return signatures.demand(**{name: given[name] for name in _SIGNER if name in given})


def signer_words(given: Mapping[str, Any]) -> Iterator[str]:
    """The same options as they were typed."""
    for name in _SIGNER:
        if name in given:
            yield f"--{name.replace('_', '-')}"
            yield from [given[name]] if given[name] is not True else []


def decide(made: Candidate, allowed: Allowed, given: Mapping[str, Any], *, again: str) -> Decision:
    """The user's decision: asks on a terminal, unless options decide.

    Args:
        allowed: The rights that the command line allows, which is a yes to the component too.
        given: The options: `yes` installs without a question, with `trust` a program may run.
        again: The command that would install it without a question.

    Raises:
        UsageError: It takes a decision, and nobody can be asked.
    """
    trusting = "trust" in given
    if "yes" in given or trusting or allowed:
        if made.is_program and not trusting:
            raise UsageError(
                f"`{made.receipt.name}` is a program: it would run with all your rights, and "
                "`--yes` does not allow that",
                f"if you want it: `{again} --trust`",
            )
        _refuse_a_step_back(made)
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
    typed = report.answer(
        _PROGRAM if made.is_program else _ASKING if question is not None else _PLAIN
    )
    if made.is_program:
        return Decision.ALLOW if typed in report.YES else Decision.NO
    if question is not None and typed in ("a", "allow"):
        return Decision.ALLOW
    return Decision.INSTALL if typed in report.YES else Decision.NO


def _refuse_a_step_back(made: Candidate) -> None:
    """Raises `UsageError` unless this is, beyond doubt, a newer version of the component."""
    if made.is_another:
        becomes = f"another component: {_names(made)}"
    elif made.is_older:
        becomes = f"older: {_releases(made)}"
    else:
        return
    name = made.receipt.name
    hint = f"if you want it: first `conductor remove {name}`"
    if isinstance(made.before, Receipt) and made.before.signer is not None:
        hint += "; that forgets who must have signed it: `--signer` or `--key` says it again"
    raise UsageError(f"`{name}` would become {becomes}", hint)


def put(made: Candidate, decision: Decision, allowed: Allowed, again: str) -> None:
    """Installs it as the user has decided, compiles it, and reports the rights that it lacks.

    `again`: the command that has installed it. Raises `ConductorError`.
    """
    receipt = made.receipt
    others = (each for each in store.receipts() if isinstance(each, Receipt))
    if not any(each.content == receipt.content for each in others):
        store.forget([receipt.folder])  # the user was asked anew
    install.commit(made)
    if decision is Decision.ALLOW and made.is_program:
        trust.trust_folder(receipt.folder)
    spec = catalog.resolve(receipt.name)
    release = f" {receipt.release}" if receipt.release else ""
    report.say(f"installed: {receipt.name}{release}, sha256:{short(receipt.content)}")
    agree(spec, Allowed(everything=True) if decision is Decision.ALLOW else allowed, again)
    prepare(spec)


def agree(spec: Spec, allowed: Allowed, again: str) -> None:
    """Keeps the rights that the user has allowed a component, and reports those that it lacks.

    Raises `UsageError`.
    """
    if allowed:
        allowed.check(spec)
    question = _question(spec)
    if question is not None and allowed:
        held = question.agreement
        part = allowed.part(tuple(held.rights))
        rights = {name: held.rights[name] for name in part}
        trust.agree(question.key, msgspec.structs.replace(held, since=trust.now(), rights=rights))
        given = one_line("+".join(part), 1000) or "nothing"
        report.say(f"allowed: {given}")
    consent.say_lacking(alone(spec))
    if question is not None and not allowed.everything:
        report.write(f"`{again} --allow-all` allows this version all that it asks for")


def prepare(spec: Spec) -> None:
    """Compiles the module of an installed component, so that its first chain starts at once."""
    try:
        compiled.compile_ahead([spec], begun=readiness.begun)
    except ConductorError as error:
        report.write(f"`{spec.name}` is not compiled yet: {error.text}", word="warning")


def command(*words: str) -> str:
    """A command of ours, for a user to copy."""
    return visible_path(shlex.join(["conductor", *words]))


def _releases(made: Candidate) -> str:
    before = made.before.release if isinstance(made.before, Receipt) else ""
    return f"{before or 'no version'} → {made.receipt.release or 'no version'}"


def _names(made: Candidate) -> str:
    before = made.before.called if isinstance(made.before, Receipt) else ""
    now = f"`{one_line(made.receipt.called)}`" if made.receipt.called else "nothing"
    return f"it calls itself {now}, and the installed one `{one_line(before)}`"


def _question(spec: Spec) -> Question | None:
    """The question about a component; None: it has all rights it asks for, or may not get them."""
    _, agreements = consent.kept(alone(spec))
    for _, why in agreements.refused:
        report.write(f"{spec.name}: it gets the default rights only: {why}", word="warning")
    return agreements.questions[0] if agreements.questions else None
