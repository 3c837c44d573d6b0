"""Starts the commands that another program waits for, without loading typer: the rows of
`conductor.cli.commands` with the trait `STARTED`.

An editor starts most of them and waits, and a person waits for `exec`; importing typer takes 100 to
200 ms. This parser leaves words that it does not understand to typer (`conductor.cli.app`), which
explains the mistake. An agent waits for `mcp`: `mcp` loads nothing that it does not need.
"""

from __future__ import annotations

from conductor.cli import commands
from conductor.cli.commands import Trait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from conductor.spec.option_table import Option
    from conductor.spec.parsed import Parsed

_LOGIN = "--agent-login="
"""The beginning of the argument behind which a client appends the arguments of an agent's login by
terminal (`conductor.core.logins`)."""


class Words:
    """A command line behind the command."""

    def __init__(self) -> None:
        self.typed: list[str] = []
        """The words before `--` that belong to no option."""
        self.rest: list[str] | None = None
        """The words after `--`; None: there is no `--`."""
        self.values: dict[str, Any] = {}
        """The options that are set, by name."""


def bare(given: list[str]) -> int | None:
    """Runs a command that takes one word and no option; None: this is no such line."""
    if len(given) != 2 or given[1].startswith("-") or not commands.has(given[:1], Trait.BARE):
        return None
    run = commands.TABLE[given[0]].function()
    assert run is not None
    code: int = run(given[1:])
    return code


def started(given: list[str]) -> int | None:
    """Runs a command that another program waits for; None: it is no such command, or typer has to
    explain something."""
    if not commands.has(given[:1], Trait.STARTED):
        return None
    # In this order: the host of guests starts first, and loads its engine during our own imports.
    import gc

    from conductor.run import spawn, stand_ins

    if not given[1:2] or not given[1].startswith(_LOGIN):
        spawn.start(given)
    gc.disable()  # start-up makes next to no garbage, and collecting takes time
    try:
        stand_ins.load("msgspec")
        stand_ins.load("subprocess")
        run = commands.TABLE[given[0]].function()
        if run is not None and (found := words(given)) is not None:
            code: int = run(found.typed, found.rest, found.values)
            return code
    finally:
        gc.enable()
    spawn.discard()
    return None


def unread(given: list[str]) -> list[str]:
    """The words of a command line; the words of an agent's login become values of the option, so
    that nothing else reads them."""
    at = next((at for at, word in enumerate(given) if word.startswith(_LOGIN)), 0)
    if not at or given[0] != "agent":
        return given
    login = [given[at], *(_LOGIN + word for word in given[at + 1 :])]
    return ["agent", *login, *given[1:at]]


def parse(arguments: list[str]) -> Parsed | None:
    """The chain that a command line describes, or None where typer has to explain something."""
    from conductor.spec.parsed import assemble

    found = words(arguments)
    if found is None:
        return None
    return assemble(arguments[0], found.typed, found.rest, **found.values)


def _flags(command: str) -> Sequence[Option]:
    """The flags of a command; a chain's start does not load the flags of other commands."""
    from conductor.spec import option_table

    if command in option_table.ALL:
        return option_table.of(command, option_table.CHAIN)
    from conductor.cli import options

    return options.of(command)


def words(arguments: list[str]) -> Words | None:
    """A command line taken apart, or None where typer has to explain something."""
    from conductor.cli import surroundings

    if surroundings.unfit(arguments) is not None:
        return None
    command, *left = arguments
    rows = {flag: row for row in _flags(command) for flag in row.flags.split()}
    found = Words()
    while left and left[0] != "--":
        flag, equals, text = left[0].partition("=")
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            found.typed.append(word)
            continue
        row = rows.get(flag)
        if row is None or (equals and row.kind.read is None):
            return None
        if row.kind.read is None:
            found.values[row.name] = True
            continue
        if not equals:
            if not left or left[0] == "--":
                return None
            text = left.pop(0)
        try:
            value = row.kind.read(text)
        except ValueError:
            return None
        if not row.kind.many and row.name in found.values:
            return None
        many = row.kind.many
        found.values[row.name] = (*found.values.get(row.name, ()), value) if many else value
    found.rest = left[1:] if left else None
    has_one = not commands.has(arguments[:1], Trait.ONE_WORD) or (len(found.typed), left) == (1, [])
    return found if has_one and left != ["--"] else None
