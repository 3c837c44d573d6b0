"""The guards as a table: what each protects, what attack it stops, which grant lifts it.

The rules behind the rows are in the modules beside this one; the tables of `docs/security.md` and
of `conductor inspect` are drawn from here.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from conductor.core.policy.rights import Grants


class Violation(msgspec.Struct, frozen=True):
    """What a component attempted: the guard it ran into, one sentence, and where in the message.

    `pointer` is a JSON pointer into the params, result or error the component sent; empty where
    the whole of it is meant.
    """

    guard: str
    text: str
    pointer: str = ""


class Guard(msgspec.Struct, frozen=True):
    """One row: `protects` and `attack` are sentences for people, `lifted_by` is the grant."""

    name: str
    protects: str
    attack: str
    lifted_by: str


class Context(msgspec.Struct, frozen=True):
    """What is known of the component when it sends something.

    `version` is the chain's ACP version; None where it is not settled. No rule trusts it: the names
    of all versions are guarded at all times. `lifted` are names of guards that do not apply.
    `servers` are the addresses (see `declared` and `connected`) of the MCP servers this component
    declared, `foreign` those of everybody else. `answerable` are the methods it may answer.
    """

    version: int | None = None
    grants: Grants = Grants()
    folders: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    sessions: AbstractSet[str] = frozenset()
    lifted: frozenset[str] = frozenset()
    servers: AbstractSet[str] = frozenset()
    foreign: AbstractSet[str] = frozenset()
    answerable: frozenset[str] = frozenset()


DUPLICATE_KEYS: Final = "duplicate-keys"
METHOD_SPELLING: Final = "method-spelling"
CONDUCTOR_METHODS: Final = "conductor-methods"
UNKNOWN_METHODS: Final = "unknown-methods"
SESSION_TARGET: Final = "session-target"
META: Final = "meta"
PERMISSION_WIDENING: Final = "permission-widening"
PERMISSION_ANSWERS: Final = "permission-answers"
PERMISSION_REQUESTS: Final = "permission-requests"
MCP_SERVERS: Final = "mcp-servers"
MCP_CONNECTIONS: Final = "mcp-connections"
SESSION_SETUP: Final = "session-setup"
SYSTEM_PROMPT: Final = "system-prompt"
OWN_SESSIONS: Final = "own-sessions"
PROMPT_OPTIONS: Final = "prompt-options"
FILES: Final = "files"
TERMINALS: Final = "terminals"
ELICITATION: Final = "elicitation"
AUTHENTICATION: Final = "authentication"
PROVIDERS: Final = "providers"
SESSION_MODE: Final = "session-mode"
SESSION_LIFECYCLE: Final = "session-lifecycle"
TOOL_CALLS: Final = "tool-calls"
UNKNOWN_UPDATES: Final = "unknown-updates"
HANDSHAKE: Final = "handshake"
CAPABILITY_CLAIMS: Final = "capability-claims"

_ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        DUPLICATE_KEYS,
        (
            "What a component writes reads the same to every parser: params are an object, no "
            "object repeats a member name, and member names are text."
        ),
        (
            "Two `command` members in one object, of which the check reads one and the agent the "
            "other."
        ),
    ),
    (
        METHOD_SPELLING,
        "A method a component originates is spelled as the protocol spells it, in printable ASCII.",
        "`FS/write_text_file` or a look-alike letter: no rule knows the name, a lenient peer does.",
    ),
    (
        CONDUCTOR_METHODS,
        (
            "`initialize`, role requests, successor envelopes and `_conductor/` messages are the "
            "conductor's own."
        ),
        (
            "A forged `proxy/initialize`, or an envelope inside an envelope, that speaks with the "
            "conductor's voice."
        ),
    ),
    (
        UNKNOWN_METHODS,
        (
            "An ACP method no rule knows is not originated; extension methods start with an "
            "underscore."
        ),
        "A method of a newer protocol with powers that nobody has judged yet.",
    ),
    (
        SESSION_TARGET,
        "What a component passes on stays in its session.",
        "A prompt, an update or a new session's id steered into another conversation.",
    ),
    (
        META,
        (
            "`_meta` keys of others are kept as they are; a component adds only keys under a "
            "domain name (`example.com/key`), none of them trace context."
        ),
        "`_meta.claudeCode.options`, by which an agent takes settings, servers and commands.",
    ),
    (
        PERMISSION_WIDENING,
        (
            "A permission request reaches the user as the agent made it; options may be taken "
            "away, never the last refusal, and no narrow approval while a wider one stays."
        ),
        "A changed title, command or diff under approval, an added or renamed option.",
    ),
    (
        PERMISSION_ANSWERS,
        "A component may refuse a permission, never give it.",
        "A component that approves in the user's place, or turns `allow_once` into `allow_always`.",
    ),
    (
        PERMISSION_REQUESTS,
        "Only the agent asks the user for permission.",
        "A made-up request that gathers an approval, or wears the user down.",
    ),
    (
        MCP_SERVERS,
        (
            "MCP servers declared by others stay; a component may append servers reached over ACP, "
            "under names and ids nobody else has."
        ),
        '`{"command":"sh"}` as an MCP server, or a URL, which the agent starts or connects to.',
    ),
    (
        MCP_CONNECTIONS,
        "A component uses and serves only MCP connections to servers it declared itself.",
        "Calls to another component's tools, or answers in their place.",
    ),
    (
        SESSION_SETUP,
        (
            "The working directory, roots, additional directories and all else in a session's "
            "setup stay as the client wrote them."
        ),
        "`cwd` or `additionalDirectories` pointed at the user's home.",
    ),
    (
        SYSTEM_PROMPT,
        "The system prompt of a session is the client's.",
        "An `override` that removes the agent's own instructions.",
    ),
    (
        OWN_SESSIONS,
        "A component opens, loads, resumes and forks no sessions unprompted.",
        "Loading the history of another conversation, or a session in a directory of its choice.",
    ),
    (
        PROMPT_OPTIONS,
        "What stands beside a prompt's blocks stays as it was.",
        "A member, known to some agent, that changes how the turn is run.",
    ),
    (
        FILES,
        (
            "`fs/*` requests and their results pass unchanged; only the agent makes them, only the "
            "client grants them."
        ),
        "Reading or writing the user's files through the editor.",
    ),
    (
        TERMINALS,
        "`terminal/*` requests and their results pass unchanged; nobody makes them up.",
        "Running a command in the user's terminal, or changing one that was approved.",
    ),
    (
        ELICITATION,
        "`elicitation/*` requests and their answers pass unchanged; nobody makes them up.",
        "A form or a URL that asks the user for a password in the agent's name.",
    ),
    (
        AUTHENTICATION,
        "Logging in and out is between client and agent.",
        "A forged login, or a login method swapped for another.",
    ),
    (
        PROVIDERS,
        "`providers/*` requests and their results pass unchanged; nobody makes them up.",
        "A model provider's base URL pointed at somebody else, keys included.",
    ),
    (
        SESSION_MODE,
        "Modes and configuration options are set by the user and shown as the agent reports them.",
        "Switching to a mode that asks for no permissions, or hiding that it is on.",
    ),
    (
        SESSION_LIFECYCLE,
        "Sessions and turns are cancelled, closed, deleted, archived and named by the user.",
        "Deleting conversations, cancelling turns, or only claiming to have done so.",
    ),
    (
        TOOL_CALLS,
        (
            "Tool calls, their diffs and terminals are shown as the agent reports them; of a "
            "finished call the text and the raw output may be filtered."
        ),
        "A harmless title on a harmful call, or a call that never was.",
    ),
    (
        UNKNOWN_UPDATES,
        "A session update of a kind no rule knows passes unchanged and is never made up.",
        "A new or oddly spelled kind of update with an effect that nobody has judged yet.",
    ),
    (
        HANDSHAKE,
        (
            "Identity and login methods in `initialize` stay as both ends wrote them; of the "
            "version on offer a component may choose the one below, 1 for 2."
        ),
        (
            "Another agent's name, a version that was not offered, a login method with a command "
            "of its own."
        ),
    ),
    (
        CAPABILITY_CLAIMS,
        (
            "`initialize` may promise less than what lies behind a component, and more only where "
            "it may itself answer all that is promised."
        ),
        "A client said to have a terminal it lacks, an agent said to load sessions it cannot.",
    ),
)

GUARDS: Final[tuple[Guard, ...]] = tuple(
    Guard(name, protects, attack, f"unguard={name}") for name, protects, attack in _ROWS
)
"""Every guard, in the order in which they are documented."""
