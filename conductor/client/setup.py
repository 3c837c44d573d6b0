"""The program's part in `conductor.open`: its functions, its folder, its options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from conductor.client.connection import Handler
from conductor.client.handlers import Files, asking, capabilities
from conductor.client.handlers import Permissions as AnsweredByMode
from conductor.client.values import ChainOptions, Log, OnUpdate, Permissions
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import UsageError, did_you_mean
from conductor.mcp import KINDS, ON_CHANGE
from conductor.spec.options import ISOLATIONS, TRACE_CONTENTS, Options
from conductor.spec.paths import session_folder

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Setup:
    """The functions, folder and options of the embedding program. Raises `UsageError` for
    impossible ones."""

    def __init__(
        self,
        cwd: str | os.PathLike[str] | None,
        on_update: OnUpdate | None,
        permissions: Permissions,
        files: str,
        handlers: Mapping[str, Handler],
        log: Log | None,
    ) -> None:
        self.cwd = session_folder(cwd if cwd is not None else os.curdir)
        self.on_update = on_update
        self.log: Log = log or _to_logging
        access = Files(self.cwd, _one_of("files", files, ("none", "read", "write")))
        own = {PERMISSION: self._permissions(permissions)}
        self.handlers: dict[str, Handler] = {**own, **access.handlers(), **handlers}
        self.capabilities = capabilities(self.handlers)

    def _permissions(self, permissions: Permissions) -> Handler:
        if callable(permissions):
            return asking(permissions)
        _one_of("permissions", permissions, ("deny", "allow-once"))
        return AnsweredByMode(permissions, self._note, _nobody).request

    def _note(self, text: str) -> None:
        self.log("info", "conductor", text)


async def _nobody(question: str) -> str:
    return ""


_CHOICES: Final = {
    "isolation": ISOLATIONS,
    "trace_content": TRACE_CONTENTS,
    "mcp_bridge": KINDS,
    "changed_tools": ON_CHANGE,
}


def chain_options(given: dict[str, Any]) -> Options:
    """The options of the chain. Raises `UsageError`."""
    known = ChainOptions.__annotations__
    for name, value in given.items():
        if name not in known:
            hint = did_you_mean(name, known, f"options are: {', '.join(known)}")
            raise UsageError(f"`conductor.open` has no option `{name}`", hint)
        if name in _CHOICES:
            _one_of(name, value, _CHOICES[name])
    # drain: a turn that is still open when the block is left is cancelled.
    try:
        return msgspec.convert({**given, "drain": 0.0, "ring": 0, "verbose": True}, Options)
    except msgspec.ValidationError as error:
        raise UsageError(f"`conductor.open`: {error}", "the reference names the types") from None


def _one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"invalid value {value!r} for `{name}`", f"values: {', '.join(known)}")
    return value


def _to_logging(level: str, name: str, text: str) -> None:
    import logging  # most programs bring their own

    logging.getLogger("conductor").log(_LEVELS[level], "%s: %s", name, text)
