"""The table of keys: the most that a component may have to do with each kind of message.

A *key* is a method, and for `session/update` a method and a kind: `session/update[tool_call]`.
A component has one of three modes for each key:

    past    the message goes on at once; the component hears nothing
    copy    the message goes on at once; the component gets a copy
    carry   the message goes through the component, which may change it within the row's rule

and beside the mode it holds rights: `answer` (instead of passing on), `amend` (change the result on
its way back), `drop`, `originate`. A row names the rights of the set `full`, those that single
words may add, and those of each named grant. `conductor.core.policy.words` has the words for all of
them.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Direction(Enum):
    """The direction of a message: `down` towards the agent, `up` towards the client."""

    DOWN = "down"
    UP = "up"


COPY: Final = 1
CARRY: Final = 2
ANSWER: Final = 4
AMEND: Final = 8
DROP: Final = 16
ORIGINATE: Final = 32
"""The rights of a component on a key; with neither `copy` nor `carry` the message goes past it.
Plain numbers: arithmetic on flags is slow, and every message needs it."""
RIGHTS: Final = {
    "copy": COPY,
    "carry": CARRY,
    "answer": ANSWER,
    "amend": AMEND,
    "drop": DROP,
    "originate": ORIGINATE,
}
"""The rights by name, in the order in which people read them."""


def names_of(rights: int) -> list[str]:
    """The names of rights."""
    return [name for name, right in RIGHTS.items() if rights & right]


EVERYTHING: Final = COPY | CARRY | ANSWER | AMEND | DROP | ORIGINATE
"""The rights of a component on messages of MCP servers that it declared, and those of a trusted
component on all messages."""
PLACE: Final = 1 << len(RIGHTS)
"""A component that carries texts holds this right on messages with a place among those texts: they
wait for the component's round with its copy, so that texts it held back leave before them."""

COPIES: Final = COPY
"""The modes by which a component gets a message that goes on without it."""
SEEN: Final = COPIES | CARRY
"""The modes by which a component gets a message at all."""

SESSION_NAMES: Final = ("sessionId", "session_id")
"""The members that name a session, in both spellings."""

SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
"""The requests that set a session up, and carry its MCP servers."""

PROMPT: Final = "session/prompt"
STOP: Final = "session/cancel"
CLOSING: Final = ("session/close", "session/delete")
"""These end a session with its turns."""
SETTINGS: Final = ("session/set_mode", "session/set_model", "session/set_config_option")
"""The requests that set a mode, a model or an option. The user alone sends them, and the conductor
in the user's place where a session of a component's becomes the user's. A component sets nothing in
its own sessions, either."""
LIST: Final = "session/list"
AFTER_PROMPTS: Final = frozenset({*SETTINGS, "session/archive", "session/unarchive"})
"""These wait behind a prompt of their session that a component still holds."""

UPDATE: Final = "session/update"
REQUESTS: Final = frozenset({PROMPT, *SETUP, *SETTINGS})
NOTIFICATIONS: Final = frozenset({UPDATE, STOP})
"""The methods that a component may send of its own as a request only (`REQUESTS`), and as a
notification only."""
PERMISSION: Final = "session/request_permission"
MCP_FAMILIES: Final = ("mcp/", "_mcp/", "_scp/mcp")
NO_QUESTIONS: Final = ("fs/", "terminal/", *MCP_FAMILIES)
"""The prefixes of requests of the agent that no user answers."""

TEXT_KINDS: Final = (
    "user_message_chunk",
    "user_message",
    "agent_message_chunk",
    "agent_message",
    "agent_thought_chunk",
    "agent_thought",
    "plan",
    "plan_update",
    "plan_removed",
)
"""Kinds of update that hold words for the user, and nothing depends on."""

WORDED_KINDS: Final = (
    "tool_call",
    "tool_call_update",
    "notice",
    "compaction_summary_chunk",
)
"""Guarded kinds with words in them, which `texts` lets a component change."""

OPTIONS_KIND: Final = "config_option_update"
MODE_KINDS: Final = ("current_mode_update", OPTIONS_KIND)
"""The kinds of update that tell of settings: the mode, and all options."""
COMMANDS_KIND: Final = "available_commands_update"
SUGGESTIONS_KIND: Final = "prompt_suggestions_update"
"""Prompts that the user may send by a click."""
STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)
"""Why a turn may end."""
STATE_KIND: Final = "state_update"
TOOL_KINDS: Final = ("terminal_update", "terminal_output_chunk", "tool_call_content_chunk")
STATE_KINDS: Final = (
    "session_info_update",
    "usage_update",
    "compaction_update",
    "subagent_update",
    "session_message",
    "session_message_chunk",
    "cursor_update",
    "replay_complete",
    STATE_KIND,
)
KINDS: Final = frozenset(
    {
        *(*TEXT_KINDS, *WORDED_KINDS, *MODE_KINDS, COMMANDS_KIND, SUGGESTIONS_KIND),
        *(*TOOL_KINDS, *STATE_KINDS),
    }
)
"""The kinds of update of ACP v1 and v2."""

UNKNOWN_KIND: Final = "*"


def update(kind: str) -> str:
    """The key of an update of a kind; kinds no row knows share one key."""
    return f"{UPDATE}[{kind if kind in KINDS else UNKNOWN_KIND}]"


def matches(name: str, key: str) -> bool:
    """Whether a name is about a key; it may end in `*`."""
    return key.startswith(name[:-1]) if name.endswith("*") else key == name


class Row(msgspec.Struct, frozen=True):
    """One row of the table: keys of one direction (a key may end in `*`) and the rights on them."""

    direction: Direction
    keys: tuple[str, ...]
    full: int
    rule: str
    """The changes that `carry` allows, and the like: a sentence for people."""
    more: int = 0
    """The rights that a word may give besides."""
    grants: dict[str, int] = {}
    """The rights that named grants add, by name."""

    @property
    def most(self) -> int:
        """All rights that can be held on these keys."""
        held = self.full | self.more
        for right in self.grants.values():
            held |= right
        return held

    def covers(self, key: str) -> bool:
        """Whether the row is about this key."""
        return any(matches(own, key) for own in self.keys)


_DOWN, _UP = Direction.DOWN, Direction.UP
_TEXT: Final = tuple(update(kind) for kind in TEXT_KINDS)
BESIDE: Final = {
    "panel": ("_scp/html_panel*", "_scp/panel*"),
    "comment": ("_scp/file_comment*", "_scp/comment*"),
    "operation": ("_scp/ide_operation*", "_scp/ide*"),
    "browser": ("_zed/open_url*",),
    "log": ("_scp/log*",),
}
"""The messages that reach a person beside the session, by the word in `Grants.editor`."""
READ: Final = "fs/read_text_file"
EDITOR: Final = {**BESIDE, "read": (READ,), "terminal": ("terminal/*",), "widget": (), "ask": ()}
"""All messages that `Grants.editor` gives: also requests that an agent may send any client. Guards
look at `widget`, for pages with scripts, and at `ask`, for questions of a component's MCP
servers."""
OF_EDITOR: Final = tuple(
    key.removesuffix("*") for keys in BESIDE.values() for key in keys if key.startswith("_scp/")
)
"""The prefixes of methods for the editor's desk (docs/editors.md): the desk refuses those that it
does not know, and no editor gets them."""
LOG: Final = "_scp/log"
EVENTS: Final = ("_scp/html_panel/event", "_scp/file_comment/reply", "_scp/file_comment/event")
"""The messages that the editor sends to the owner of a panel or comment, and to nobody else."""
STAMP: Final = "conductor.component"
"""The member of `_meta` that names the component of such a message."""

ROWS: Final[tuple[Row, ...]] = (
    Row(
        _DOWN,
        ("initialize",),
        COPIES | CARRY | AMEND,
        "capabilities may be hidden, and added where the component serves them or `claim:POINTER` "
        "names them; identity, versions and login methods stay",
    ),
    Row(
        _DOWN,
        SETUP,
        COPIES | CARRY,
        "MCP servers of its own may be added; folders, system prompt and servers of others stay; "
        "no id in use comes back for another session",
        grants={"sessions": ANSWER | AMEND | ORIGINATE, "options": CARRY | AMEND},
    ),
    Row(
        _DOWN,
        (PROMPT,),
        COPIES | CARRY | ANSWER | AMEND,
        "blocks may be added or changed; a command stays that command, nothing else becomes one; "
        "added links stay inside the session's folders",
        grants={"turns": ORIGINATE, "sessions": ORIGINATE},
    ),
    Row(
        _DOWN,
        (STOP,),
        COPIES,
        "always reaches the agent at once; of a component's own for the turns it opened",
        more=ORIGINATE,
    ),
    Row(
        _UP,
        _TEXT,
        COPIES | CARRY | DROP | ORIGINATE,
        "text only, ids stay",
    ),
    Row(
        _UP,
        tuple(update(kind) for kind in WORDED_KINDS),
        COPIES,
        "with `change:tool-calls`, words may change and nothing else",
        grants={"texts": CARRY},
    ),
    Row(
        _UP,
        (update(OPTIONS_KIND),),
        COPIES,
        "with `offer:modes`, its own may be added behind the agent's",
        grants={"options": CARRY | ORIGINATE},
    ),
    Row(
        _UP,
        (update(COMMANDS_KIND),),
        COPIES,
        "with `command:NAME`, its own may be added",
        grants={"commands": CARRY | ORIGINATE},
    ),
    Row(
        _UP,
        (update(SUGGESTIONS_KIND),),
        COPIES,
        "with `change:tool-calls`, suggestions may vanish, not change or appear",
        grants={"texts": CARRY},
    ),
    Row(
        _UP,
        (
            *(update(kind) for kind in (*TOOL_KINDS, *STATE_KINDS, MODE_KINDS[0])),
            update(UNKNOWN_KIND),
            UPDATE,
        ),
        COPIES,
        "shown as the agent reports it",
    ),
    Row(
        _UP,
        (PERMISSION,),
        COPIES,
        "with `refuse:permissions`, options may vanish and it may be rejected; nothing else",
        grants={"permission": CARRY | ANSWER},
    ),
    Row(
        _UP,
        (READ,),
        COPIES,
        "with `read:editor`, of its own in the session's folders",
        grants={"editor": ORIGINATE},
    ),
    Row(
        _UP,
        ("terminal/*",),
        COPIES,
        "with `run:commands`, of its own and in terminals that it has opened",
        grants={"editor": ORIGINATE},
    ),
    Row(_UP, ("fs/*", "elicitation/*"), COPIES, "between agent and client alone"),
    Row(
        _DOWN,
        ("authenticate", "logout", "auth/*", "providers/*"),
        COPIES,
        "between client and agent alone",
    ),
    Row(_UP, ("auth/*",), COPIES, "between agent and client alone"),
    Row(
        _DOWN,
        SETTINGS[:2],
        COPIES,
        "the user's alone: no component sets, changes or answers them",
    ),
    Row(
        _DOWN,
        SETTINGS[2:],
        COPIES,
        "the user's alone; with `offer:modes`, those of its own options are answered",
        grants={"options": CARRY | ANSWER | AMEND},
    ),
    Row(
        _DOWN,
        CLOSING,
        COPIES,
        "with `prompt:unseen`, of sessions of its own",
        grants={"sessions": ORIGINATE},
    ),
    Row(
        _DOWN,
        (
            *("session/archive", "session/unarchive", "session/set_title", "session/options"),
            *("tool_call/cancel", "terminal/cancel"),
        ),
        COPIES,
        "between client and agent alone",
    ),
    Row(
        _DOWN,
        (LIST, "session/status"),
        COPIES | CARRY | AMEND,
        "entries may vanish, not change or appear",
    ),
    *(
        Row(
            direction,
            ("mcp/*", "_mcp/*", "_scp/mcp"),
            0,
            "of its own servers: the component is their end; of others: past",
            grants={"mcp": COPIES | CARRY | ANSWER | AMEND | DROP},
        )
        for direction in (_UP, _DOWN)
    ),
    Row(
        _UP,
        tuple(key for keys in BESIDE.values() for key in keys),
        0,
        "with `show:panel` and the like, of its own; a panel with scripts also takes `web:panel`",
        grants={"editor": ORIGINATE},
    ),
    Row(_DOWN, EVENTS, 0, "straight to the owner of the panel or comment"),
    *(
        Row(
            direction,
            ("_*",),
            0,
            "with `extension:_NAME`, those it names",
            grants={"methods": COPIES | CARRY | ANSWER | AMEND | DROP | ORIGINATE},
        )
        for direction in (_DOWN, _UP)
    ),
)
"""Every key that has a row; messages of all other keys go past every policed component."""

_NEVER: Final = Row(_DOWN, (), 0, "goes past")
_OF_KEYS: Final = {(row.direction, key): row for row in ROWS for key in row.keys}
"""The rows of whole keys, among others; no key is in two rows."""


def row_of(direction: Direction, key: str) -> Row:
    """The row about a key; an empty row for a key that no row knows."""
    if (row := _OF_KEYS.get((direction, key))) is not None:
        return row
    return next((r for r in ROWS if r.direction is direction and r.covers(key)), _NEVER)
