"""Method names: which are known, which family they belong to, and what only looks like them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

CANCEL: Final = "$/cancel_request"
"""Whether a component may send this is for the router to say: it is about one hop's request."""

INITIALIZE: Final = ("initialize", "proxy/initialize", "_proxy/initialize")
SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
PROMPT: Final = "session/prompt"
UPDATE: Final = "session/update"
PERMISSION: Final = "session/request_permission"
SCP_MCP: Final = "_scp/mcp"

STOP: Final = "session/cancel"
LISTS: Final = ("session/list", "session/status")
MODES: Final = ("session/set_mode", "session/set_model", "session/set_config_option")
LIFECYCLE: Final = (
    STOP,
    "session/close",
    "session/delete",
    "session/archive",
    "session/unarchive",
    "session/set_title",
    "tool_call/cancel",
)
CONDUCTORS: Final = (*INITIALIZE, "_scp/proxy")
CONDUCTOR_PREFIXES: Final = ("proxy/", "_proxy/", "_conductor/")

MCP: Final = ("mcp/", "_mcp/")
FAMILIES: Final = ("fs/", "terminal/", "elicitation/", "auth/", "providers/", *MCP)
"""Prefixes whose every method, known or not, falls under one guard."""

_OTHERS: Final = (
    CANCEL,
    *CONDUCTORS,
    *SETUP,
    PROMPT,
    UPDATE,
    PERMISSION,
    SCP_MCP,
    *MODES,
    *LIFECYCLE,
    *LISTS,
    "authenticate",
    "logout",
)
_IN_FAMILIES: Final = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/release",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/cancel",
    "elicitation/create",
    "elicitation/complete",
    "auth/login",
    "auth/logout",
    "auth/status",
    "auth/status_update",
    "providers/list",
    "providers/set",
    "providers/disable",
    "mcp/connect",
    "mcp/message",
    "mcp/disconnect",
    "_mcp/connect",
    "_mcp/message",
    "_mcp/disconnect",
    "_mcp/request",
    "_mcp/notification",
    "_mcp/client_to_server/request",
    "_mcp/client_to_server/notification",
    "_mcp/server_to_client/request",
    "_mcp/server_to_client/notification",
)
KNOWN: Final = frozenset({*_OTHERS, *_IN_FAMILIES})
"""The methods of ACP v1 and v2 (schemas of October 2026) and of every generation of MCP over ACP
that a rule speaks of or lets be."""

_LONGEST: Final = 200
_SHORT: Final = 64
_printable = re.compile(r"[!-~]+").fullmatch
_nothing_but_names = re.compile(r"[^a-z0-9]+")


def squash(name: str) -> str:
    """What is left of a name without case, punctuation, space and compatibility forms."""
    return _squash_short(name) if len(name) <= _SHORT else _squash(name)


def _squash(name: str) -> str:
    return _nothing_but_names.sub("", unicodedata.normalize("NFKC", name).casefold())


_squash_short = lru_cache(maxsize=2048)(_squash)
"""Member names come again with every message; long ones are not worth their memory."""


_SQUASHED: Final = {squash(name): name for name in sorted(KNOWN, reverse=True)}
"""Reversed: `mcp/connect` and `_mcp/connect` are one squashed name, and the former's."""


@lru_cache(maxsize=1024)
def _recognised(method: str) -> str:
    found = _SQUASHED.get(squash(method))
    if found is not None:
        return found
    folded = unicodedata.normalize("NFKC", method).casefold()
    return folded if folded.startswith(FAMILIES) else method


def recognised(method: str) -> str:
    """The method a lenient peer could take `method` for; itself where it is only itself."""
    if method in KNOWN or method.startswith(FAMILIES) or len(method) > _LONGEST:
        return method
    return _recognised(method)


def family(method: str) -> str | None:
    """The prefix of the family a method falls in, if any."""
    return next((prefix for prefix in FAMILIES if method.startswith(prefix)), None)


def is_conductors(method: str) -> bool:
    """Whether only a conductor sends this."""
    return method in CONDUCTORS or method.startswith(CONDUCTOR_PREFIXES)


def is_misspelled(method: str) -> bool:
    """Whether a name is none the protocol could have but may be taken for one.

    Anything but printable ASCII counts: no method needs it, and look-alikes are made of it.
    """
    if len(method) > _LONGEST or _printable(method) is None:
        return True
    if recognised(method) != method:
        return True
    folded = method.casefold()
    return folded != method and is_conductors(folded)


def is_unknown(method: str) -> bool:
    """Whether a method is neither known nor an extension's. MCP over ACP has none of these: what
    another method would do with a server's address, nobody has judged."""
    if method in KNOWN:
        return False
    return method.startswith(MCP) or (family(method) is None and not method.startswith("_"))


def lookalike(holder: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    """A member that a lenient parser could take for one of `names`, though it is spelled otherwise.

    Parsers exist that match names regardless of case, or of underscores.
    """
    squashed = {squash(name) for name in names}
    return next((k for k in holder if k not in names and squash(k) in squashed), None)
