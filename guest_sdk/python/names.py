"""The names of ACP: methods and updates of versions 1 and 2, and what an author may have meant.

A handler of a name that nobody says is never called, and nothing else would tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

REQUESTS: Final = frozenset(
    {
        "initialize", "authenticate", "logout", "auth/login", "auth/logout", "auth/status",
        "session/new", "session/load", "session/resume", "session/fork", "session/list",
        "session/prompt", "session/close", "session/delete", "session/archive",
        "session/unarchive", "session/set_mode", "session/set_model", "session/set_title",
        "session/set_config_option", "session/status", "session/options",
        "session/request_permission",
        "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output",
        "terminal/release", "terminal/wait_for_exit", "terminal/kill", "terminal/cancel",
        "tool_call/cancel", "elicitation/create", "providers/list", "providers/set",
        "providers/disable", "mcp/connect", "mcp/message", "mcp/disconnect",
    }
)  # fmt: skip
NOTIFICATIONS: Final = frozenset(
    {
        "session/cancel", "session/update", "elicitation/complete", "auth/status_update",
        "mcp/message",
    }
)  # fmt: skip
UPDATES: Final = frozenset(
    {
        "user_message_chunk", "user_message", "agent_message_chunk", "agent_message",
        "agent_thought_chunk", "agent_thought", "session_message_chunk", "session_message",
        "tool_call", "tool_call_update", "tool_call_content_chunk", "plan", "plan_update",
        "plan_removed", "available_commands_update", "current_mode_update",
        "config_option_update", "session_info_update", "usage_update", "state_update", "notice",
        "compaction_update", "compaction_summary_chunk", "subagent_update", "terminal_update",
        "terminal_output_chunk", "prompt_suggestions_update", "cursor_update", "replay_complete",
    }
)  # fmt: skip

_OWN: Final = {
    "$/cancel_request": "the SDK takes care of cancelled requests: look at `request.cancelled`",
    "proxy/initialize": "to handlers it is `initialize`",
    "proxy/successor": "handlers are given what is in it",
}
"""Methods with which handlers are never called, and the reasons."""

_DECORATORS: Final = (
    ("request", REQUESTS),
    ("notification", NOTIFICATIONS),
    ("update", UPDATES),
)
_NEAR: Final = 0.87
"""How alike a name must be to be taken for another; `session/rename` is not `session/resume`."""


def near(name: str, known: Collection[str]) -> str | None:
    """The known name that may be meant: almost the same, or the same without what is before `/`."""
    import difflib

    found = difflib.get_close_matches(name, sorted(known), 1, _NEAR)
    if found:
        return found[0]
    ends = [one for one in known if one.endswith("/" + name)]
    return "session/" + name if "session/" + name in known else ends[0] if len(ends) == 1 else None


def doubts(decorator: str, names: Iterable[str]) -> list[str]:
    """Sentences about names that may be of another protocol, or mistakes.

    `decorator`: the one of `@proxy.` that is used. Raises `ValueError` for a mistake.
    """
    known = dict(_DECORATORS)[decorator]
    return [_doubt(decorator, one) for one in names if one not in known and one[:1] != "_"]


def _doubt(decorator: str, name: str) -> str:
    if name in _OWN:
        raise ValueError(f"no handler is called with `{name}`: {_OWN[name]}")
    anyway = f"`@proxy.{decorator}({_quoted(name)}, unknown=True)` means it all the same"
    for other, names in _DECORATORS:
        if name in names:
            what = "an update" if other == "update" else f"a {other}"
            right = f"declare it with `@proxy.{other}({_quoted(name)})`"
            raise ValueError(f"{_quoted(name)} is {what}: {right}; {anyway}")
    for other, names in sorted(_DECORATORS, key=lambda one: one[0] != decorator):
        meant = near(name, names)
        if meant is not None:
            right = _quoted(meant) if other == decorator else f"`@proxy.{other}({_quoted(meant)})`"
            wrong = f"ACP has no {decorator} {_quoted(name)}"
            raise ValueError(f"{wrong}; did you mean {right}? {anyway}")
    return (
        f"ACP has no {decorator} {_quoted(name)} as far as this SDK knows, so its handler may "
        f"never be called; extensions begin with `_`; {anyway}"
    )


def update(kind: str) -> str:
    """The kind of an update that is to be sent. Raises `ValueError` for one that is misspelt."""
    if kind not in UPDATES and kind[:1] != "_":
        meant = near(kind, UPDATES)
        if meant is not None:
            raise ValueError(f"ACP has no update {_quoted(kind)}; did you mean {_quoted(meant)}?")
    return kind


def _quoted(name: str) -> str:
    return f'"{name}"'
