"""Attacks by methods that the protocol does not know."""

from collections.abc import Iterator

from msgspec import Raw

from conductor.core.guards import Context, Violation, forwarded, originated
from tests.core.test_guards.attack import Attack, answers, makes_up, passes_on


def extensions() -> Iterator[Attack]:
    """Extension methods that nobody granted."""
    for method in (
        "_goose/extensions/add", "_session/steering", "_session/goal", "_x", "_y/z", "_X/y",
        "_kiro.dev/commands/execute",
    ):  # fmt: skip
        yield makes_up("unknown-methods", method, method, '{"command":"sh"}')
        yield passes_on("unknown-methods", method, method, '{"a":1}', '{"a":2}')
        yield answers("unknown-methods", method, method, "{}")
        yield answers("unknown-methods", f"{method} changed", method, "{}", "[]")


def editor() -> Iterator[Attack]:
    """Methods that reach a user beside the session."""
    for method in (
        "_scp/html_panel", "_scp/file_comment", "_scp/ide_operation", "_zed/open_url",
        "_Zed/Open_Url", "_zed/openUrl", "_zed/open-url", "_scp/htmlPanel", "_scp/Html_Panel",
        "_SCP/fileComment", "_scp/panel/new", "_scp/ideOperation",
    ):  # fmt: skip

        def asks(context: Context, method: str = method) -> Violation | None:
            return originated(context, "up", method, Raw(b"{}"))

        def changes(context: Context, method: str = method) -> Violation | None:
            return forwarded(context, "up", method, Raw(b'{"a":1}'), Raw(b'{"a":2}'))

        for route, what in ((asks, "originated"), (changes, "forwarded")):
            attack = Attack("editor", f"{what}: {method}", route)
            yield attack
            yield attack.having(methods=("_*",))
