"""The guards as a table: what each protects, what attack it stops, which grant widens it.

The rules behind the rows are in the modules beside this one; the tables of `docs/security.md` and
of `conductor inspect` are drawn from here.
"""

from __future__ import annotations

from typing import Final

import msgspec


class Guard(msgspec.Struct, frozen=True):
    """One row: `protects` and `attack` are sentences for people, `lifted_by` is the grant that
    widens it; `profile=trusted` where no grant does."""

    name: str
    protects: str
    attack: str
    lifted_by: str


TRUSTED: Final = "profile=trusted"
"""What lifts a guard that no grant widens."""

DUPLICATE_KEYS: Final = "duplicate-keys"
METHOD_SPELLING: Final = "method-spelling"
CONDUCTOR_METHODS: Final = "conductor-methods"
UNKNOWN_METHODS: Final = "unknown-methods"
EDITOR: Final = "editor"
SEALED: Final = "sealed"
OUTCOMES: Final = "outcomes"
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
SESSION_LISTS: Final = "session-lists"
COMMANDS: Final = "commands"
LINKS: Final = "links"
PROMPT_OPTIONS: Final = "prompt-options"
SESSION_MODE: Final = "session-mode"
UPDATE_TEXTS: Final = "update-texts"
TOOL_CALLS: Final = "tool-calls"
NOTICES: Final = "notices"
AGENT_STATE: Final = "agent-state"
UNKNOWN_UPDATES: Final = "unknown-updates"
HANDSHAKE: Final = "handshake"
CAPABILITY_CLAIMS: Final = "capability-claims"

_ROWS: Final[tuple[tuple[str, str, str, str], ...]] = (
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
        TRUSTED,
    ),
    (
        METHOD_SPELLING,
        "A method a component originates is spelled as the protocol spells it, in printable ASCII.",
        "`FS/write_text_file` or a look-alike letter: no rule knows the name, a lenient peer does.",
        TRUSTED,
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
        TRUSTED,
    ),
    (
        UNKNOWN_METHODS,
        (
            "A component sends, changes and answers extension methods only under names it was "
            "granted; a method of ACP, or of MCP over ACP, that no rule knows it never sends."
        ),
        (
            "`_goose/extensions/add` with a command to run, or a method of a newer protocol with "
            "powers that nobody has judged yet."
        ),
        "methods=NAME",
    ),
    (
        EDITOR,
        (
            "A component reaches the user beside the session only where it was granted to: by "
            "panels, comments or operations."
        ),
        (
            "A panel in the agent's name, or `_zed/open_url` with an address of the component's "
            "choice."
        ),
        "editor=panel+comment+operation",
    ),
    (
        SEALED,
        (
            "What no rule opens passes a component by: it changes, makes up and answers no such "
            "message."
        ),
        (
            "Reading the user's files, running a command, logging in elsewhere, deleting a "
            "conversation, or claiming to have done so."
        ),
        TRUSTED,
    ),
    (
        OUTCOMES,
        "A result stays a result on its way back, and an error an error.",
        "A mode that was switched and is reported as refused, a written file reported as failed.",
        TRUSTED,
    ),
    (
        SESSION_TARGET,
        "What a component passes on stays in its session, and an id in use is no other session's.",
        "A prompt, an update or a new session's id steered into another conversation.",
        TRUSTED,
    ),
    (
        META,
        (
            "`_meta` keys of others are kept as they are; a component adds only keys under a "
            "domain name (`example.com/key`), none of them trace context, and none to a session's "
            "set-up."
        ),
        "`_meta.claudeCode.options`, by which an agent takes settings, servers and commands.",
        TRUSTED,
    ),
    (
        PERMISSION_WIDENING,
        (
            "A permission request reaches the user as the agent made it; with the grant, options "
            "may be taken away, never the last refusal nor the last for once, and no narrow "
            "approval while a wider one stays."
        ),
        "A changed title, command or diff under approval, an added or renamed option.",
        "permission=narrow",
    ),
    (
        PERMISSION_ANSWERS,
        "A component may refuse a permission if it was granted to, never give it.",
        "A component that approves in the user's place, or turns `allow_once` into `allow_always`.",
        "permission=narrow",
    ),
    (
        PERMISSION_REQUESTS,
        "Only the agent asks the user for permission.",
        "A made-up request that gathers an approval, or wears the user down.",
        TRUSTED,
    ),
    (
        MCP_SERVERS,
        (
            "MCP servers declared by others stay; a component may append servers reached over ACP,"
            " under names and ids that nobody else has, nor any that look or begin like them."
        ),
        (
            '`{"command":"sh"}` as an MCP server, a URL which the agent connects to, or '
            "`tools_demo` beside `tools-demo`."
        ),
        TRUSTED,
    ),
    (
        MCP_CONNECTIONS,
        (
            "A component uses and serves only MCP connections to servers it declared itself, and "
            "opens none under an id that is somebody else's or begins with somebody else's name."
        ),
        "Calls to another component's tools, or answers in their place.",
        "mcp=others",
    ),
    (
        SESSION_SETUP,
        (
            "The working directory, roots, additional directories and all else in a session's set-"
            "up stay as the client wrote them, and in its result as the agent did."
        ),
        (
            "`cwd` or `additionalDirectories` pointed at the user's home, or `models` that the "
            "agent does not have."
        ),
        TRUSTED,
    ),
    (
        SYSTEM_PROMPT,
        "The system prompt of a session is the client's.",
        "An `override` that removes the agent's own instructions.",
        TRUSTED,
    ),
    (
        OWN_SESSIONS,
        (
            "A component opens, loads, resumes, forks and answers no sessions of its own; with the"
            " grant, in the folders of the session it works in."
        ),
        "Loading the history of another conversation, or a session in a directory of its choice.",
        "sessions=own",
    ),
    (
        SESSION_LISTS,
        (
            "Lists of sessions are the agent's: entries may vanish; nothing else changes, and "
            "nobody but the client asks for them."
        ),
        (
            "An entry with another folder, in which the editor resumes; all projects' folders, "
            "asked for."
        ),
        "sessions=own",
    ),
    (
        COMMANDS,
        (
            "What an agent would read as a command stays that command, with its block first; "
            "nothing else becomes one, and nobody but the agent lists any."
        ),
        "`hello` rewritten into `/yolo`, after which the agent asks for no permissions.",
        "commands=NAME",
    ),
    (
        LINKS,
        (
            "What a component adds to a prompt of links to files and of `@` paths lies inside the "
            "session's folders."
        ),
        "`file:///home/me/.ssh/id_rsa` or `@~/.ssh/id_rsa` in a prompt, which agents read unasked.",
        TRUSTED,
    ),
    (
        PROMPT_OPTIONS,
        "What stands beside a prompt's blocks stays as it was.",
        "A member, known to some agent, that changes how the turn is run.",
        TRUSTED,
    ),
    (
        SESSION_MODE,
        (
            "Modes and configuration options are set by the user and shown as the agent reports "
            "them; with the grant, a component adds those of its own."
        ),
        "Switching to a mode that asks for no permissions, or hiding that it is on.",
        "modes",
    ),
    (
        UPDATE_TEXTS,
        "Of what the agent says a component changes the words; kind, ids and all else stay.",
        "A chunk of text turned into `state_update idle`, which ends the turn for the editor.",
        TRUSTED,
    ),
    (
        TOOL_CALLS,
        (
            "Tool calls, their diffs and terminals are shown as the agent reports them; with the "
            "grant, the words of a finished call may be changed."
        ),
        "A harmless title on a harmful call, or a call that never was.",
        "texts",
    ),
    (
        NOTICES,
        (
            "Notices, and summaries of what was left out, are the agent's; with the grant, their "
            "words may be changed."
        ),
        "A warning of the agent's that says the contrary, or never was.",
        "texts",
    ),
    (
        AGENT_STATE,
        "The agent's state, use and sub-sessions are shown as it reports them.",
        "A turn that looks ended while the agent works on.",
        TRUSTED,
    ),
    (
        UNKNOWN_UPDATES,
        "A session update of a kind no rule knows passes unchanged and is never made up.",
        "A new or oddly spelled kind of update with an effect that nobody has judged yet.",
        TRUSTED,
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
        TRUSTED,
    ),
    (
        CAPABILITY_CLAIMS,
        (
            "`initialize` may promise less than what lies behind a component, and more only where "
            "it may itself answer all that is promised, or the grant names it."
        ),
        "A client said to have a terminal it lacks, an agent said to load sessions it cannot.",
        "capabilities=POINTER",
    ),
)

GUARDS: Final[tuple[Guard, ...]] = tuple(Guard(*row) for row in _ROWS)
"""Every guard, in the order in which they are documented."""
