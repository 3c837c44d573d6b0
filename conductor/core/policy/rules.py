"""The table of keys: what a component has to do with each kind of message, at most.

A *key* is a method, and for `session/update` a method and a kind: `session/update[tool_call]`.
What a component has to do with a key is one of three modes:

    past    the message goes on at once; the component hears nothing
    copy    the message goes on at once; the component gets a copy
    carry   the message goes through the component, which may change it within the row's rule

and beside the mode it holds rights: `answer` (instead of passing on), `amend` (change the result on
its way back), `drop`, `originate`. A row says what `full` holds, what `allow=` may add to that, and
what each named grant adds.
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import Final

import msgspec


class Direction(Enum):
    """Which way a message goes: `down` towards the agent, `up` towards the client."""

    DOWN = "down"
    UP = "up"

    @property
    def opposite(self) -> Direction:
        """The other way."""
        return Direction.UP if self is Direction.DOWN else Direction.DOWN


class Right(Flag):
    """What a component holds on a key; with neither `copy` nor `carry` the message goes past it."""

    NONE = 0
    COPY = auto()
    CARRY = auto()
    ANSWER = auto()
    AMEND = auto()
    DROP = auto()
    ORIGINATE = auto()

    @property
    def words(self) -> list[str]:
        """The rights' names, in a fixed order."""
        return [right.name.lower() for right in Right if right in self and right.name]


COPY: Final[int] = Right.COPY.value
CARRY: Final[int] = Right.CARRY.value
ANSWER: Final[int] = Right.ANSWER.value
AMEND: Final[int] = Right.AMEND.value
DROP: Final[int] = Right.DROP.value
ORIGINATE: Final[int] = Right.ORIGINATE.value
"""The same as plain numbers: arithmetic on flags is slow, and every message needs it."""

_COPY, _CARRY, _ANSWER = Right.COPY, Right.CARRY, Right.ANSWER
_AMEND, _DROP, _ORIGINATE = Right.AMEND, Right.DROP, Right.ORIGINATE

SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
"""The requests that set a session up, and carry its MCP servers."""

PROMPT: Final = "session/prompt"
STOP: Final = "session/cancel"
CLOSING: Final = ("session/close", "session/delete")
"""These end a session with its turns."""
SETTINGS: Final = ("session/set_mode", "session/set_model", "session/set_config_option")
AFTER_PROMPTS: Final = frozenset({*SETTINGS, "session/archive", "session/unarchive"})
"""These wait behind a prompt of their session that a component still holds."""

UPDATE: Final = "session/update"
ASKED: Final = frozenset({PROMPT, *SETUP, *SETTINGS})
TOLD: Final = frozenset({UPDATE, STOP})
"""What a component may send of its own as a request only, and as a notification only."""
PERMISSION: Final = "session/request_permission"
MCP_FAMILIES: Final = ("mcp/", "_mcp/", "_scp/mcp")

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

MODE_KINDS: Final = ("current_mode_update", "config_option_update")
COMMANDS_KIND: Final = "available_commands_update"
STATE_KIND: Final = "state_update"
TOOL_KINDS: Final = ("terminal_update", "terminal_output_chunk", "tool_call_content_chunk")
STATE_KINDS: Final = (
    "session_info_update",
    "usage_update",
    "compaction_update",
    "subagent_update",
    "session_message",
    "session_message_chunk",
    STATE_KIND,
)
KINDS: Final = frozenset(
    {*TEXT_KINDS, *WORDED_KINDS, *MODE_KINDS, COMMANDS_KIND, *TOOL_KINDS, *STATE_KINDS}
)
"""The kinds of update of ACP v1 and v2."""

UNKNOWN_KIND: Final = "*"


def update(kind: str) -> str:
    """The key of an update of a kind; kinds no row knows share one key."""
    return f"{UPDATE}[{kind if kind in KINDS else UNKNOWN_KIND}]"


class Row(msgspec.Struct, frozen=True):
    """One row of the table: keys of one direction (a key may end in `*`) and what may be held."""

    direction: Direction
    keys: tuple[str, ...]
    full: Right
    rule: str
    """What `carry` may change, and the like: a sentence for people."""
    more: Right = Right.NONE
    """What `allow=` may give besides."""
    grants: dict[str, Right] = {}
    """What named grants add, by name."""

    @property
    def most(self) -> Right:
        """Everything that can be held on these keys."""
        held = self.full | self.more
        for right in self.grants.values():
            held |= right
        return held

    def covers(self, key: str) -> bool:
        """Whether the row is about this key."""
        return any(
            key.startswith(own[:-1]) if own.endswith("*") else key == own for own in self.keys
        )


_DOWN, _UP = Direction.DOWN, Direction.UP
_TEXT: Final = tuple(update(kind) for kind in TEXT_KINDS)
_EDITOR: Final = {
    "panel": ("_scp/html_panel*", "_scp/panel*"),
    "comment": ("_scp/file_comment*", "_scp/comment*"),
    "operation": ("_scp/ide_operation*", "_scp/ide*", "_zed/open_url*"),
}
"""What reaches a person beside the session, by what `editor=` calls it."""

ROWS: Final[tuple[Row, ...]] = (
    Row(
        _DOWN,
        ("initialize",),
        _COPY | _CARRY | _AMEND,
        "capabilities may be hidden, and added where the component serves them or `capabilities=` "
        "names them; identity, versions and login methods stay",
    ),
    Row(
        _DOWN,
        SETUP,
        _COPY | _CARRY,
        "MCP servers of its own may be added; folders, system prompt and servers of others stay; "
        "an id in use never comes back for another session",
        grants={"sessions": _ANSWER | _AMEND | _ORIGINATE, "modes": _CARRY | _AMEND},
    ),
    Row(
        _DOWN,
        (PROMPT,),
        _COPY | _CARRY | _ANSWER | _AMEND,
        "blocks may be added or changed; a command stays that command, nothing else becomes one; "
        "added links stay inside the session's folders",
        grants={"turns": _ORIGINATE, "sessions": _ORIGINATE},
    ),
    Row(
        _DOWN,
        (STOP,),
        _COPY,
        "always reaches the agent at once; of a component's own for the turns it opened",
        more=_ORIGINATE,
    ),
    Row(
        _UP,
        _TEXT,
        _COPY | _CARRY | _DROP | _ORIGINATE,
        "text only, ids stay",
    ),
    Row(
        _UP,
        tuple(update(kind) for kind in WORDED_KINDS),
        _COPY,
        "with `texts`, words may change and nothing else",
        grants={"texts": _CARRY},
    ),
    Row(
        _UP,
        tuple(update(kind) for kind in MODE_KINDS),
        _COPY,
        "with `modes`, those of its own modes and options",
        grants={"modes": _CARRY | _ORIGINATE},
    ),
    Row(
        _UP,
        (update(COMMANDS_KIND),),
        _COPY,
        "with `commands`, its own may be added",
        grants={"commands": _CARRY | _ORIGINATE},
    ),
    Row(
        _UP,
        (*(update(kind) for kind in (*TOOL_KINDS, *STATE_KINDS)), update(UNKNOWN_KIND), UPDATE),
        _COPY,
        "shown as the agent reports it",
    ),
    Row(
        _UP,
        (PERMISSION,),
        _COPY,
        "with `permission=narrow`, options may vanish and it may be rejected; nothing else",
        grants={"permission": _CARRY | _ANSWER},
    ),
    Row(_UP, ("fs/*", "terminal/*", "elicitation/*"), _COPY, "between agent and client alone"),
    Row(
        _DOWN,
        ("authenticate", "logout", "auth/*", "providers/*"),
        _COPY,
        "between client and agent alone",
    ),
    Row(_UP, ("auth/*",), _COPY, "between agent and client alone"),
    Row(
        _DOWN,
        SETTINGS,
        _COPY,
        "with `modes`, those of its own modes and options",
        grants={"modes": _CARRY | _ANSWER | _AMEND | _ORIGINATE},
    ),
    Row(
        _DOWN,
        (*CLOSING, "session/archive", "session/unarchive", "session/set_title", "tool_call/cancel"),
        _COPY,
        "between client and agent alone",
    ),
    Row(
        _DOWN,
        ("session/list", "session/status"),
        _COPY | _CARRY | _AMEND,
        "entries may vanish, not change or appear",
    ),
    *(
        Row(
            direction,
            ("mcp/*", "_mcp/*", "_scp/mcp"),
            Right.NONE,
            "of its own servers: the component is their end; of others: past",
            grants={"mcp": _COPY | _CARRY | _ANSWER | _AMEND | _DROP},
        )
        for direction in (_UP, _DOWN)
    ),
    Row(
        _UP,
        tuple(key for keys in _EDITOR.values() for key in keys),
        Right.NONE,
        "with `editor=panel+comment+operation`, of its own",
        grants={"editor": _CARRY | _ORIGINATE},
    ),
    *(
        Row(
            direction,
            ("_*",),
            Right.NONE,
            "with `methods=`, those it names",
            grants={"methods": _COPY | _CARRY | _ANSWER | _AMEND | _DROP | _ORIGINATE},
        )
        for direction in (_DOWN, _UP)
    ),
)
"""Every key that a row speaks of; all else goes past every policed component."""

_NEVER: Final = Row(_DOWN, (), Right.NONE, "goes past")


def row_of(direction: Direction, key: str) -> Row:
    """The row about a key; an empty one for what no row knows."""
    return next((r for r in ROWS if r.direction is direction and r.covers(key)), _NEVER)


OWN_MCP: Final[int] = (_COPY | _CARRY | _ANSWER | _AMEND | _DROP | _ORIGINATE).value
"""What a component holds on the traffic of MCP servers it declared."""


class Rule(msgspec.Struct, frozen=True):
    """Rights on the keys of one direction, by `allow=` or a profile; a key may end in `*`."""

    direction: Direction
    key: str
    rights: Right

    def covers(self, direction: Direction, key: str) -> bool:
        """Whether the rule is about this key."""
        if direction is not self.direction:
            return False
        if self.key.endswith("*"):
            return key.startswith(self.key[:-1])
        return key == self.key or (self.key == UPDATE and key.startswith(f"{UPDATE}["))


_CONTEXT: Final = (
    Rule(_DOWN, PROMPT, _CARRY),
    *(Rule(_DOWN, method, _CARRY) for method in SETUP),
)
_EVERYTHING: Final = Right.COPY | _CARRY | _ANSWER | _AMEND | _DROP | _ORIGINATE

PROFILES: Final[dict[str, tuple[Rule, ...]]] = {
    "none": (),
    "observer": (Rule(_DOWN, "*", _COPY), Rule(_UP, "*", _COPY)),
    "context": _CONTEXT,
    "tools": tuple(Rule(_DOWN, method, _CARRY) for method in SETUP),
    "filter": (
        *_CONTEXT,
        Rule(_DOWN, PROMPT, _AMEND),
        *(Rule(_UP, key, _CARRY | _DROP) for key in _TEXT),
        Rule(_UP, UPDATE, _COPY),
        Rule(_UP, PERMISSION, _COPY),
    ),
    "full": (Rule(_DOWN, "*", _EVERYTHING), Rule(_UP, "*", _EVERYTHING)),
}
"""The named tables; each key's row bounds what they give. `trusted` is no policy at all."""

SAYS: Final[dict[str, str]] = {
    "none": "nothing but what is granted by name",
    "observer": "copies of every message; it changes nothing",
    "context": "may add to prompts and to a session's set-up, and serve MCP servers of its own",
    "tools": "may add to a session's set-up, and serve MCP servers of its own",
    "filter": "as `context`, and may change, amend and drop what the agent says",
    "full": "everything but what is guarded",
    "trusted": "everything; nothing is enforced",
}
"""What each profile is, in a sentence."""

NO_PROFILE: Final = "none"
TRUSTED: Final = "trusted"
PROFILE_NAMES: Final = (*PROFILES, TRUSTED)


class Grants(msgspec.Struct, frozen=True, omit_defaults=True):
    """The named grants. Each is asked for by name in a manifest, and given by name."""

    turns: str = ""
    """Prompts of its own: `within` a turn of the user's, or `unprompted`."""
    commands: tuple[str, ...] = ()
    """Commands it may list and send, without their slash."""
    permission: str = ""
    """`narrow`: permission requests may lose options, and be rejected."""
    mcp: str = ""
    """`others`: it carries the MCP traffic of others."""
    sessions: str = ""
    """`own`: it may open sessions and prompt the agent there, and answer set-ups."""
    modes: bool = False
    """It has modes and options of its own."""
    editor: tuple[str, ...] = ()
    """`panel`, `comment`, `operation`: what of the editor's it may reach."""
    methods: tuple[str, ...] = ()
    """Extension methods it may send and carry; one may end in `*`."""
    texts: bool = False
    """It may change words inside tool calls, plans and notices."""
    capabilities: tuple[str, ...] = ()
    """Pointers of capabilities it may claim (`/fs/readTextFile`), or `*`."""

    def names(self) -> list[str]:
        """The grants that are given, by name."""
        return [name for name in self.__struct_fields__ if getattr(self, name)]

    def words(self) -> list[str]:
        """The grants that are given, as they are written behind a component."""
        found = []
        for name in self.names():
            value = getattr(self, name)
            if value is True:
                found.append(name)
            else:
                found.append(f"{name}={'+'.join(value) if isinstance(value, tuple) else value}")
        return found


CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "turns": ("within", "unprompted"),
    "permission": ("narrow",),
    "mcp": ("others",),
    "sessions": ("own",),
    "editor": tuple(_EDITOR),
}
"""What may be given where a grant takes one or more of a few words."""

GRANT_NAMES: Final[tuple[str, ...]] = Grants.__struct_fields__


class Policy(msgspec.Struct, frozen=True):
    """What one component may do. None in its place means trusted: nothing is enforced.

    `on_violation`: `pass` lets the conversation go on as if the component had passed the message
    on unchanged, `fail` ends the component. `fails`: with `closed` a request that it held when it
    failed or broke a rule is answered with an error, else it goes on as it was given. `ids`:
    `kept` says of a program that it passes requests on under the ids they came with. `hold`: how
    many seconds it may hold a prompt; None: as long as it likes.
    """

    profile: str = "full"
    extra: tuple[Rule, ...] = ()
    grants: Grants = Grants()
    on_violation: str = "pass"
    fails: str = "open"
    ids: str = ""
    hold: float | None = None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The profile's rules and those allowed besides."""
        return (*PROFILES.get(self.profile, ()), *self.extra)

    @property
    def turns(self) -> str:
        """Whether it may prompt the agent by itself: `within`, `unprompted`, or empty."""
        return self.grants.turns or ("within" if self.profile == "full" else "")

    @property
    def prompts(self) -> bool:
        """Whether it may prompt the agent by itself, in whatever session."""
        return bool(self.turns or self.grants.sessions)

    @property
    def serves(self) -> bool:
        """Whether it may be the end of MCP servers it declared."""
        return bool(self.rights(Direction.DOWN, "session/new") & CARRY)

    def rights(self, direction: Direction, key: str) -> int:
        """The rights held on a key, as a number."""
        row = row_of(direction, key)
        held = Right.NONE
        for name, right in row.grants.items():
            if self._granted(name, key):
                held |= right
        most = row.full | held
        for rules, bound in ((PROFILES.get(self.profile, ()), most), (self.extra, most | row.more)):
            for rule in rules:
                if rule.covers(direction, key):
                    held |= rule.rights & bound
        if key == PROMPT and self.turns and direction is Direction.DOWN:
            held |= Right.ORIGINATE
        return (held | Right.COPY if held & Right.CARRY else held).value

    def _granted(self, name: str, key: str) -> bool:
        """Whether a named grant holds for a key."""
        value = getattr(self.grants, name)
        if name == "methods":
            return any(key.startswith(m[:-1]) if m.endswith("*") else key == m for m in value)
        if name == "editor":
            return any(Row(_UP, _EDITOR[one], Right.NONE, "").covers(key) for one in value)
        return bool(value)

    @property
    def hears(self) -> bool:
        """Whether it has to do with anything that the agent says to the client, MCP apart, or opens
        turns of its own."""
        return self.prompts or any(
            self.rights(_UP, key)
            for row in ROWS
            if row.direction is _UP
            for key in row.keys
            if not key.startswith(MCP_FAMILIES)
        )

    @property
    def watches_only(self) -> bool:
        """Whether all it ever gets are copies."""
        return not self.grants.names() and all(
            rule.rights in (Right.NONE, Right.COPY) for rule in self.rules
        )
