"""`conductor update [NAME…]`: newer versions in the sources of installed components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from conductor.cli import offer, report
from conductor.cli.offer import Allowed, Decision
from conductor.cli.typer_options import argument, paragraphs, switch, takes
from conductor.errors import ConductorError, UsageError, visible_path
from conductor.packages import install, store
from conductor.packages.catalogue import Named
from conductor.packages.install import Candidate
from conductor.packages.signatures import Demand
from conductor.packages.store import Damaged
from conductor.spec import installed
from conductor.spec.consent import wishes
from conductor.spec.installed import Receipt
from conductor.spec.lock import compare
from conductor.spec.plan import alone

HELP: Final = paragraphs(
    "Look for newer versions of installed components at their sources: a tag, a catalogue, a "
    "package, or a changed file or folder. Show the changes of each newer version, and ask.",
    "A source with a digest, a commit or an exact version has no newer version: `conductor add` "
    "with another source replaces the component.",
    "Exit code 1 if something could not be updated; with --check, if there is something newer.",
)
EPILOG: Final = "Examples:\n\n  conductor update --check\n\n  conductor update weather"


@takes("update")
def update(
    names: Annotated[
        list[str] | None,
        argument("NAME", "Which to update. Default: all that is installed."),
    ] = None,
    check: Annotated[bool, switch("--check", "Show newer versions, and install nothing.")] = False,
    **given: Any,
) -> int:
    """Updates components."""
    wanted = offer.demand(given)
    if (wanted or wanted.is_free) and len(names or ()) != 1:
        raise UsageError("one component has one signer", "name the component that you update")
    found = {each.name: each for each in store.receipts()}
    for name in names or ():
        if name not in found:
            raise store.unknown(name, found)
    if not found:
        report.say("nothing is installed: `conductor add SOURCE`")
    code = 0
    for name in dict.fromkeys(names or found):
        try:
            done = _update(found[name], wanted, given, check=check)
            code = max(code, done)
        except ConductorError as error:
            report.error(f"{name}: {error.text}", error.hint)
            code = 1
    return code


def _update(
    receipt: Receipt | Damaged, wanted: Demand, given: Mapping[str, Any], *, check: bool
) -> int:
    """Updates one component; the exit code. Raises `ConductorError`."""
    if isinstance(receipt, Damaged):
        raise UsageError(receipt.why, f"`conductor remove {receipt.name}`, then add it again")
    name = receipt.name
    source = install.source_of(receipt)
    if source.is_pinned and not wanted:
        installed.check(receipt)
        report.say(f"{name}: pinned to {visible_path(receipt.source)}")
        return 0
    if isinstance(source, Named) and source.stands_for(receipt.source) and not wanted:
        installed.check(receipt)
        report.say(f"{name}: up to date{_release(receipt)}")
        return 0
    with store.incoming() as folder:
        made = install.candidate(source, folder, name, wanted)
        if made.is_installed:
            if not check:
                install.commit(made)
            report.say(f"{name}: up to date{_release(receipt)}")
            return 0
        is_same = receipt.release and receipt.release == made.receipt.release
        news = "its files have changed" if is_same else "there is another version"
        report.say(f"{name}{_release(receipt)}: {news}{'' if is_same else _release(made.receipt)}")
        offer.show(made, _changes(receipt, made))
        if check:
            return 1
        return _decide(made, given)


def _decide(made: Candidate, given: Mapping[str, Any]) -> int:
    allowed = Allowed.of("allow_all" in given, [])
    again = offer.command("update", made.receipt.name, *offer.signer_words(given))
    decision = offer.decide(made, allowed, given, again=again)
    if decision is Decision.NO:
        report.say(f"{made.receipt.name}: left as it is")
        return offer.EXIT_DECLINED
    offer.put(made, decision, allowed, again)
    return 0


def _changes(receipt: Receipt, made: Candidate) -> list[str]:
    """The differences of another version; none if the installed one cannot be used any more."""
    try:
        before = wishes.everything(alone(receipt.name))
        return compare.diff(before, wishes.everything(alone(made.spec)))
    except UsageError:
        return []


def _release(receipt: Receipt) -> str:
    return f" ({visible_path(receipt.release)})" if receipt.release else ""
