"""Arguments of directives, and the errors of wrong ones."""

import re
from collections.abc import Callable
from typing import Any

from demo_json import loads
from demo_turn import Directive, Turn


class Wrong(Exception):  # noqa: N818 - told to the user, not an error of the agent
    """The argument of a directive is wrong; the text says how."""


def guarded(entry: Directive) -> Callable[[Turn, str], None]:
    """The directive's function, with a Wrong argument told to the user."""

    def run(turn: Turn, argument: str) -> None:
        try:
            entry.run(turn, argument)
        except Wrong as wrong:
            turn.insert()
            turn.say(f"demo: {wrong} (hint: {entry.usage})")

    return run


def words(argument: str, least: int, most: int) -> list[str]:
    """The words of the argument, quoted as in a shell. Raises Wrong unless least ≤ n ≤ most."""
    found = argument.split()
    if "'" in argument or '"' in argument or "\\" in argument:
        import shlex

        try:
            found = shlex.split(argument)
        except ValueError as error:
            raise Wrong(str(error)) from None
    if not least <= len(found) <= most:
        expected = str(least) if least == most else f"at least {least}"
        raise Wrong(f"expected {expected} argument(s), got {len(found)}")
    return found


def head_and_rest(argument: str, what: str) -> tuple[str, str]:
    """The first word, and everything after the one blank behind it. Raises Wrong when empty."""
    match = re.match(r"(\S+)(?:\s(.*))?\Z", argument, re.DOTALL)
    if not match:
        raise Wrong(f"{what} is missing")
    return match.group(1), match.group(2) or ""


def number(text: str) -> int:
    """A count. Raises Wrong unless it is a whole number from 0 to a billion."""
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) > 1_000_000_000:
        raise Wrong(f"{text!r} is no whole number from 0 to 1000000000")
    return int(text)


def json_object(text: str) -> dict[str, Any]:
    """A JSON object; an empty text is an empty one. Raises Wrong."""
    try:
        value = loads(text) if text.strip() else {}
    except ValueError as error:
        raise Wrong(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Wrong("the JSON must be an object")
    return value
