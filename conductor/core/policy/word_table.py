"""The table of words for rights; `conductor.core.policy.words` reads them.

TABLE      the words that stand as they are, the worst first
FAMILIES   the words with a name, a folder or an address behind the colon
SETS       names for several words; FORBIDDING: those that only `deny` takes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    CLOSING,
    COMMANDS_KIND,
    COPY,
    DROP,
    EDITOR,
    LIST,
    MODE_KINDS,
    OPTIONS_KIND,
    ORIGINATE,
    PERMISSION,
    PROMPT,
    READ,
    ROWS,
    SETTINGS,
    SETUP,
    STATE_KIND,
    STOP,
    SUGGESTIONS_KIND,
    TEXT_KINDS,
    TOOL_KINDS,
    UNKNOWN_KIND,
    UPDATE,
    WORDED_KINDS,
    Direction,
    matches,
    row_of,
    update,
)
from conductor.core.policy.rules import Grants, Rule

TRUSTED: Final = "trusted"
"""The set with which nothing is enforced in the conversation."""
CONTEXT: Final = "context"
"""The set that a stranger's sandboxed component has."""

AGENTS: Final = ("peer", "agent")
"""The verbs of words that name an agent beside the chain."""

_DOWN, _UP = Direction.DOWN, Direction.UP


class Object(msgspec.Struct, frozen=True):
    """A part of a conversation: its keys, and its name for people."""

    says: str
    down: tuple[str, ...] = ()
    up: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[tuple[Direction, str], ...]:
        """Each key with its direction."""
        return (*((_DOWN, key) for key in self.down), *((_UP, key) for key in self.up))


def _kinds(*kinds: str) -> tuple[str, ...]:
    return tuple(map(update, kinds))


_ECHOES: Final = TEXT_KINDS[:2]

OBJECTS: Final = {
    "prompts": Object("your prompts", (PROMPT,)),
    "replies": Object("replies, thoughts and plans of the agent", up=_kinds(*TEXT_KINDS[2:])),
    "echoes": Object("copies of your prompts that the editor shows", up=_kinds(*_ECHOES)),
    "tool-calls": Object(
        "tool calls, terminals' output and notices",
        up=_kinds(*WORDED_KINDS, *TOOL_KINDS, "compaction_update"),
    ),
    "permissions": Object("the agent's requests for permission", up=(PERMISSION,)),
    "files": Object("files that the agent reads and writes through the editor", up=(READ, "fs/*")),
    "terminals": Object("commands that the agent runs through the editor", up=("terminal/*",)),
    "forms": Object("the agent's questions, and your answers", up=("elicitation/*",)),
    "setups": Object(
        "the set-up of sessions: your folders, and your MCP servers with their keys", SETUP
    ),
    "handshake": Object("the handshake", ("initialize",)),
    "cancels": Object(
        "your cancellations", (STOP, "tool_call/cancel", "terminal/cancel")
    ),
    "usage": Object("the agent's usage: tokens and cost", up=_kinds("usage_update")),
    "turns": Object(
        "when turns begin and end", up=_kinds(STATE_KIND, "cursor_update", "replay_complete")
    ),
    "titles": Object("titles of sessions", up=_kinds("session_info_update")),
    "subagents": Object(
        "the work of sub-agents",
        up=_kinds("subagent_update", "session_message", "session_message_chunk"),
    ),
    "suggestions": Object("prompts that the agent suggests", up=_kinds(SUGGESTIONS_KIND)),
    "modes": Object("modes and models, and changes of them", SETTINGS[:2], _kinds(MODE_KINDS[0])),
    "settings": Object("the agent's options, and changes of them", SETTINGS[2:],
                       _kinds(OPTIONS_KIND)),
    "commands": Object("lists of commands", up=_kinds(COMMANDS_KIND)),
    "sessions": Object(
        "your acts on sessions: close, delete, archive, name",
        (*CLOSING, "session/archive", "session/unarchive", "session/set_title", "session/options"),
    ),
    "session-lists": Object("lists of your sessions", (LIST, "session/status")),
    "logins": Object(
        "logins and providers", ("authenticate", "logout", "auth/*", "providers/*"), ("auth/*",)
    ),
    "other": Object(
        "updates of kinds that conductor does not know", up=(update(UNKNOWN_KIND), UPDATE)
    ),
}  # fmt: skip
"""The objects of `see`, `change`, `add` and `answer`, the most private first."""

GROUPS: Final = {
    "words": ("replies", "echoes"),
    "updates": (
        *("replies", "echoes", "tool-calls", "usage", "turns", "titles", "subagents"),
        *("suggestions", "commands", "other"),
        *_kinds(*MODE_KINDS),
    ),
    "*": tuple(name for name in OBJECTS if name != "logins"),
}
"""Names for several objects; `*` is every one but logins, MCP traffic and extension methods."""

VERBS: Final = {
    "change": CARRY | DROP | AMEND,
    "answer": ANSWER,
    "add": ORIGINATE,
    "see": COPY,
}
"""The verbs of the conversation, and the rights that each gives; `change` and `answer` include
`see`."""
SAYS: Final = {
    "change": "rewrite {}",
    "answer": "answer {} in the agent's place",
    "add": "write {} in the agent's name",
    "see": "read {}",
}
_SAID: Final = {
    "add:echoes": "show words as if YOU had written them",
    "add:replies": "write replies, thoughts and plans in the agent's name",
}
"""The sentences of words for which the sentence of the verb would not do."""
_APART: Final = {
    ("change", PROMPT): AMEND,
    **{("change", method): CARRY for method in SETUP},
}
"""Rights of cells that a verb does not give, since another word does: `change:ends` and
`serve:tools`."""


class Word(msgspec.Struct, frozen=True):
    """One right. `own` are the cells that it is there for, `rules` also those it includes."""

    name: str
    says: str
    """The worst act that it allows, to stand after "it may"."""
    own: tuple[Rule, ...] = ()
    grant: tuple[str, Any] | None = None
    """A name of `Grants` and a value there."""
    includes: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The part before the colon."""
        return self.name.partition(":")[0]

    @property
    def scope(self) -> str:
        """The part behind the colon."""
        return self.name.partition(":")[2]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Its cells: a component that may change or answer a message also sees the message."""
        seeing = CARRY | ANSWER | AMEND
        return tuple(
            Rule(r.direction, r.key, r.rights | COPY if r.rights & seeing else r.rights)
            for r in self.own
        )

    @property
    def grants(self) -> Grants:
        """The named grants that it gives."""
        given: dict[str, Any] = {} if self.grant is None else {self.grant[0]: self.grant[1]}
        return Grants(**given)

    @property
    def is_service(self) -> bool:
        """Whether it is a right of the world, outside of the conversation."""
        return not self.own and self.grant is None and self.verb not in AGENTS


# -- the table -------------------------------------------------------------------------------------


def _cells(grant: str, word: str = "") -> tuple[Rule, ...]:
    """The cells that rows give by a named grant; of `editor`, by one word of it."""
    return tuple(
        Rule(row.direction, key, row.grants[grant])
        for row in ROWS
        if grant in row.grants
        for key in row.keys
        if not word or key in EDITOR[word]
    )


def _named(name: str, says: str, grant: str, value: Any, *includes: str) -> Word:
    word = value[0] if grant == "editor" else ""
    own = () if includes else _cells(grant, word)
    return Word(name, says, own, (grant, value), includes)


def _conversation() -> Iterator[Word]:
    for verb in VERBS:
        for name in OBJECTS:
            if own := own_cells(verb, name):
                word = f"{verb}:{name}"
                says = SAYS[verb].format(OBJECTS[name].says)
                yield Word(word, _SAID.get(word, says), own)
        if verb == "change":
            ends = (Rule(_DOWN, PROMPT, AMEND),)
            yield Word("change:ends", "change how a turn ends", ends)


def own_cells(verb: str, name: str) -> tuple[Rule, ...]:
    """The cells of a verb on an object, or on a key."""
    keys = OBJECTS[name].keys if name in OBJECTS else keys_of(name)
    rules = []
    for direction, key in keys:
        row = row_of(direction, key)
        held = VERBS[verb] & row.full & ~_APART.get((verb, key), 0)
        if held:
            rules.append(Rule(direction, key, held))
    return tuple(rules)


def keys_of(name: str) -> tuple[tuple[Direction, str], ...]:
    known = ((d, name) for d in Direction if row_of(d, name).full)
    return tuple(known) if "/" in name or any(name in row.keys for row in ROWS) else ()


_SPECIAL: Final = (
    _named("run:commands", "RUN COMMANDS ON YOUR MACHINE", "editor", ("terminal",)),
    _named("do:operations",
           "have the editor CHANGE YOUR FILES, and do everything else that the editor can do",
           "editor", ("operation",)),
    _named("change:mcp", "READ AND ALTER the calls of all other MCP servers and their results, "
           "also calls that you have allowed", "mcp", "others"),
    _named("prompt:unseen", "set the agent to work in sessions that YOU DO NOT SEE, in your "
           "folders; copy your session; continue your conversation in another session",
           "sessions", "own"),
    _named("prompt:anytime", "set the agent to work WHEN YOU ARE AWAY", "turns", "unprompted",
           "prompt:within"),
    _named("web:browser", "OPEN WEB PAGES in your browser", "editor", ("browser",)),
    _named("web:panel",
           "run scripts in its panels: such a script can send a few words to other machines",
           "editor", ("widget",)),
    _named("prompt:within", "set the agent to work in your turns", "turns", "within"),
    _named("read:editor", "read all files of your sessions' folders, also unsaved changes",
           "editor", ("read",)),
    _named("change:tool-calls", "change words in finished tool calls, plans and notices, so that "
           "you read other words than the tool's; hide suggested prompts", "texts", True),
    Word("serve:tools", "give the agent tools: the agent believes the results of these tools",
         tuple(Rule(_DOWN, method, CARRY) for method in SETUP)),
    _named("refuse:permissions", "refuse the agent's requests for permission in your place",
           "permission", "narrow"),
    Word("stop:turns", "stop your turns", (Rule(_DOWN, STOP, ORIGINATE),)),
    _named("show:comment", "put comments into your files, and set the agent to work with your "
           "replies", "editor", ("comment",)),
    _named("show:panel", "show panels beside the conversation", "editor", ("panel",)),
    _named("ask:user", "ask you questions, in its own name", "editor", ("ask",)),
    _named("offer:modes", "add its own options to the agent's options", "options", True),
    _named("log:editor", "write to the editor's log", "editor", ("log",)),
)  # fmt: skip
_PLAIN: Final = (
    Word("storage", "keep data on this machine for its next runs"),
    Word("timer", "work by itself at any time"),
    Word("clock", "know the time"),
    Word("random", "get random bytes"),
)

TABLE: Final = {word.name: word for word in (*_SPECIAL, *_conversation(), *_PLAIN)}
"""Every word that stands as it is, by name, the worst first."""


class Family(msgspec.Struct, frozen=True):
    """Words with a scope of the user's choice behind the colon."""

    verb: str
    shown: str
    """The placeholder of the scope."""
    says: str
    pattern: str = ""
    """The pattern of the scope; empty: `conductor.core.policy.scopes` reads the scope."""
    grant: str = ""
    """The name in `Grants`; empty: a service, or an agent."""
    says_of_sockets: str = ""
    """The sentence in place of `says`, for a scope that is a socket of this machine."""


_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
FAMILIES: Final = {
    family.verb: family
    for family in (
        Family("web", "HOST", "SEND all that it sees over the network to {}",
               says_of_sockets="SEND all that it sees to the program at the socket {}"),
        Family("write", "FOLDER", "make and REPLACE files in this folder of your sessions: {}"),
        Family("peer", "NAME", "set another agent to work, in sessions that YOU DO NOT SEE: {}",
               _NAME),
        Family("agent", "NAME", "let another agent continue your conversation, when you prompt: "
               "{}", _NAME),
        Family("extension", "_NAME", "send, change and answer extension methods, WHATEVER THEY "
               "DO: {}", r"_[^\s+*]*\*?", "methods"),
        Family("command", "NAME", "add a command to the agent's list, and send this command as if "
               "you had typed the command: {}", r"\*|[^\s/+*]+", "commands"),
        Family("claim", "POINTER",
               "tell the agent and the editor that the other side has an ability: {}",
               r"\*|(/[^\s+*]+)+", "capabilities"),
        Family("read", "GLOB", "read files in the folders of your sessions: {}"),
    )
}  # fmt: skip
"""The families by verb, the worst first."""

SETS: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "observer": ("see:*",),
    CONTEXT: ("change:prompts", "serve:tools"),
    "filter": (CONTEXT, "change:ends", "change:words", "see:updates", "see:permissions"),
    "full": (
        *("filter", "see:*", "see:logins", "change:handshake", "change:session-lists"),
        *("add:words", "answer:prompts", "prompt:within"),
    ),
    TRUSTED: (
        *(word for word in TABLE if not TABLE[word].is_service),
        *("extension:_*", "command:*", "claim:*"),
    ),
}
"""Names for several words."""
SET_SAYS: Final = {
    "none": "may do nothing",
    "observer": "may read every message, and change nothing",
    CONTEXT: "may read and change your prompts, read the set-up of sessions (folders, MCP servers "
    "and their keys), and give the agent tools",
    "filter": "may do the same as `context`, read all updates and requests for permission, and "
    "change and hide the agent's replies",
    "full": "may do everything that the guards allow",
    TRUSTED: "may do everything to the conversation; conductor enforces no rule",
}
"""A sentence about each set, to stand after "it"."""

FORBIDDING: Final[dict[str, tuple[str, ...]]] = {
    "away": ("prompt:anytime", "prompt:unseen", "peer"),
    "voice": (
        *("add", "answer", "change:prompts", "change:words", "change:tool-calls"),
        *("prompt", "command", "peer"),
    ),
    "yours": ("see:prompts", "see:echoes", "prompt:unseen"),
    "outside": ("web", "write", "run:commands", "do:operations"),
}
"""Sets that only `deny` takes; a verb stands for all its words."""
ALL_VERBS: Final = tuple(dict.fromkeys(
    [word.verb for word in TABLE.values() if ":" in word.name] + [*FAMILIES]
))  # fmt: skip


def split(value: Any) -> tuple[str, ...]:
    """The words of `a+b`, or of a list, each once, as they are written."""
    listed = value if isinstance(value, list | tuple) else str(value).split("+")
    return tuple(dict.fromkeys(str(each) for each in listed if each))


def word_for(direction: Direction, key: str, right: int) -> str:
    """The shortest word that gives a right on a key; empty: no word does."""
    found = [one for one in TABLE.values() if _has(one, direction, key, right)]
    if found:
        return min(found, key=lambda one: len(one.own)).name
    given = next((n for n, r in row_of(direction, key).grants.items() if r & right), "")
    family = next((one for one in FAMILIES.values() if one.grant and one.grant == given), None)
    if family is None:
        return ""
    return f"{family.verb}:{key if family.verb == 'extension' else family.shown}"


def _has(one: Word, direction: Direction, key: str, right: int) -> bool:
    return any(
        rule.direction is direction and matches(rule.key, key) and rule.rights & right == right
        for rule in one.own
    )
