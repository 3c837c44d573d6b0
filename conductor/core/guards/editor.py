"""A component's requests to the editor beside panels and the like: files, terminals, scripts."""

from __future__ import annotations

from typing import Final

from conductor.core.guards.names import lookalike, squash
from conductor.core.guards.paths import inside, is_absolute
from conductor.core.guards.reading import token
from conductor.core.guards.rules import Attempt, Breaches, not_originated

_CREATE: Final = "terminal/create"
_TERMINAL: Final = "terminalId"
_PANEL: Final = squash("_scp/html_panel")


def scripts(attempt: Attempt) -> Breaches:
    """A panel has scripts only with the grant."""
    if "widget" in attempt.context.grants.editor or not squash(attempt.method).startswith(_PANEL):
        return
    for name, value in attempt.new.items():
        if squash(name) == "scripts" and value not in (False, None):
            yield "a panel with scripts needs the right `web:panel`", f"/{name}"


def reads(attempt: Attempt) -> Breaches:
    """A file is read only with the grant, and inside the session's folders."""
    path = attempt.new.get("path")
    folders = attempt.context.folders if attempt.context.known else ()
    if "read" not in attempt.context.grants.editor:
        yield from not_originated(attempt)
    elif not (isinstance(path, str) and is_absolute(path) and inside(path, folders)):
        yield "a file is read only inside the folders of the session", "/path"


def commands(attempt: Attempt) -> Breaches:
    """A terminal is opened only with the grant, in a session of the client's; only the component
    that has opened it uses it."""
    if "terminal" not in attempt.context.grants.editor:
        yield from not_originated(attempt)
    elif not attempt.context.of_client:
        yield "a terminal is used only in a session of the client's", "/sessionId"
    elif attempt.method != _CREATE:
        odd = lookalike(attempt.new, (_TERMINAL,))
        if odd is not None:
            yield f"member {odd!a:.80} could be taken for `{_TERMINAL}`", token(odd)
        terminal = attempt.new.get(_TERMINAL)
        if not isinstance(terminal, str) or terminal not in attempt.context.terminals:
            yield "a component uses only terminals that it has opened itself", f"/{_TERMINAL}"
