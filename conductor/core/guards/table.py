"""The table of guards: what each protects, the attack it stops, the grant that widens it, its
rules.

A row is all there is of a guard: `check` finds its rules here, and the tables of `docs/security.md`
and of `conductor inspect` are drawn from here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.guards import (
    capabilities,
    command_lists,
    commands,
    conversations,
    editor,
    every_message,
    extensions,
    links,
    mcp_words,
    modes,
    permissions,
    prompts,
    servers,
    sessions,
    updates,
)
from conductor.core.guards.metas import CALLS, NOTICES
from conductor.core.guards.names import CONVERSATIONS, INITIALIZE, LISTS, SCP_MCP
from conductor.core.guards.rules import (
    EVERY,
    OTHERS,
    Rules,
    not_checked,
    not_originated,
    relayed_only,
    unchanged,
)
from conductor.core.policy.key_table import (
    CLOSING,
    COMMANDS_KIND,
    MODE_KINDS,
    OPTIONS_KIND,
    PERMISSION,
    PROMPT,
    READ,
    SETTINGS,
    SETUP,
    STATE_KINDS,
    STOP,
    SUGGESTIONS_KIND,
    TEXT_KINDS,
    TOOL_KINDS,
    UPDATE,
)

MCP_KEYS: Final = ("mcp/*", "_mcp/*", SCP_MCP)
"""The methods that carry MCP."""


class Guard(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    protects: str
    """The thing that it protects, in a sentence for people."""
    attack: str
    """The attack that it stops, in a sentence for people."""
    lifted_by: str
    """The word that widens it, or its verb; `trusted` where no word does."""
    rules: tuple[Rules, ...]
    """The rules, each with its methods."""


TRUSTED: Final = "trusted"
"""The set that lifts a guard which no grant widens."""

GUARDS: Final[tuple[Guard, ...]] = (
    Guard(
        "duplicate-keys",
        (
            "Every parser reads a component's message in the same way: params are an object, no "
            "object repeats a member name, and member names are text."
        ),
        "Two `command` members in one object: the check reads one, the agent the other.",
        TRUSTED,
        (
            Rules(
                EVERY,
                every_message.readable_params,
                every_message.readable_params,
                every_message.readable,
                every_message.readable_error,
            ),
        ),
    ),
    Guard(
        "method-spelling",
        (
            "A component spells the method of its own message as the protocol does, in printable "
            "ASCII."
        ),
        (
            "`FS/write_text_file` or a look-alike letter: no rule knows the name, but a lenient "
            "peer does."
        ),
        TRUSTED,
        (Rules(EVERY, originated=every_message.method_spelled),),
    ),
    Guard(
        "conductor-methods",
        (
            "No component makes up `initialize`, role requests, successor envelopes or "
            "`_conductor/` messages."
        ),
        "A forged `proxy/initialize`, or an envelope inside an envelope, in conductor's name.",
        TRUSTED,
        (Rules(EVERY, originated=every_message.not_the_conductors),),
    ),
    Guard(
        "unknown-methods",
        (
            "A component sends, changes and answers extension methods only under names that its "
            "rights give. It sends no method of ACP, or of MCP over ACP, that no rule knows."
        ),
        (
            "`_goose/extensions/add` with a command to run, or a method of a newer protocol whose "
            "effects nobody has judged."
        ),
        "extension",
        (
            Rules(EVERY, originated=every_message.method_known),
            extensions.rules(of_editor=False),
        ),
    ),
    Guard(
        "conversations",
        (
            "A component adds to a conversation as data only `_meta` under its own name. It "
            "answers a request for a conversation itself only if nobody behind it knows the "
            "request."
        ),
        "A summary in which the user approved a refused action, or which lacks a turn.",
        TRUSTED,
        (
            Rules(
                CONVERSATIONS,
                unchanged,
                answered=conversations.added,
                denied=conversations.refused,
            ),
        ),
    ),
    Guard(
        "editor",
        (
            "A component reaches the user beside the session only by the panels, comments, "
            "operations or log lines that its rights give. A panel has scripts only with "
            "`web:panel`."
        ),
        (
            "A panel in the agent's name, or `_zed/open_url` with an address of the component's "
            "choice."
        ),
        "show, do, web, log:editor",
        (
            extensions.rules(of_editor=True),
            Rules(("_*",), originated=editor.scripts),
        ),
    ),
    Guard(
        "outcomes",
        "A result stays a result on its way back, and an error an error.",
        "A switched mode that is reported as refused, or a written file reported as failed.",
        TRUSTED,
        (Rules(EVERY, answered=every_message.outcome_kept, denied=every_message.outcome_kept),),
    ),
    Guard(
        "sealed",
        (
            "A message that no other rule opens passes a component by: a component changes, makes "
            "up and answers no such message. With `read:editor` it reads files inside the "
            "session's folders. With `run:commands` it opens terminals of the editor, and uses "
            "those alone."
        ),
        (
            "Reading the user's files, running a command, ending the agent's command, logging in "
            "elsewhere, deleting a conversation, or a false report of this."
        ),
        TRUSTED,
        (
            Rules(OTHERS, unchanged, not_originated, relayed_only),
            Rules((READ,), unchanged, editor.reads, relayed_only),
            Rules(("terminal/*",), unchanged, editor.commands, relayed_only),
            # Whose turns a component may stop, the engine decides.
            Rules((STOP,), originated=not_checked),
            Rules(CLOSING, unchanged, sessions.ended, relayed_only),
        ),
    ),
    Guard(
        "permission-widening",
        (
            "A permission request reaches the user as the agent made it. With "
            "`refuse:permissions`, options may be taken away, but never the last refusal nor the "
            "last option for once. No narrow approval may go while a wider one stays."
        ),
        "A changed title, command or diff under approval, an added or renamed option.",
        "refuse:permissions",
        (Rules((PERMISSION,), permissions.narrowed),),
    ),
    Guard(
        "permission-answers",
        "A component may refuse a permission if a right allows this, and never give it.",
        "A component that approves in the user's place, or turns `allow_once` into `allow_always`.",
        "refuse:permissions",
        (Rules((PERMISSION,), answered=permissions.refused),),
    ),
    Guard(
        "permission-requests",
        "Only the agent asks the user for permission.",
        "A made-up request that gathers an approval, or wears the user down.",
        TRUSTED,
        (Rules((PERMISSION,), originated=not_originated),),
    ),
    Guard(
        "own-sessions",
        (
            "A component opens, loads, resumes, forks and answers no sessions of its own. With "
            "`prompt:unseen` it may, in the folders of the client's sessions. It forks a session "
            "of the user's only while it holds a prompt of this session."
        ),
        (
            "Another conversation that is loaded or forked to be repeated, or a session in a "
            "folder of the component's choice."
        ),
        "prompt:unseen",
        (Rules(SETUP, originated=sessions.opened, answered=sessions.granted),),
    ),
    Guard(
        "mcp-servers",
        (
            "MCP servers that others declare stay. A component may add servers reached over ACP. "
            "Their names and ids are nobody else's, and neither look nor begin like those of "
            "others."
        ),
        (
            '`{"command":"sh"}` as an MCP server, a URL to which the agent connects, or '
            "`tools_demo` beside `tools-demo`."
        ),
        TRUSTED,
        (Rules(SETUP, servers.appended, servers.appended),),
    ),
    Guard(
        "mcp-connections",
        (
            "A component uses and serves only connections to MCP servers that it declared itself. "
            "It opens none under an id that is somebody else's, or begins with somebody else's "
            "name."
        ),
        "Calls to another component's tools, or answers in their place.",
        "change:mcp",
        (Rules(MCP_KEYS, servers.passed_on, servers.used, servers.served),),
    ),
    Guard(
        "mcp-words",
        (
            "The rules for messages, results and errors hold for a component's own MCP servers "
            "too. Links lead into the session's folders, to the web, or to resources of the "
            "server. `_meta` has keys under a domain name, or MCP's own. Prompts and messages for "
            "the model hold no command and no `@` path elsewhere. Nothing looks like another "
            "server's. `sampling/createMessage` takes `prompt:within`. `elicitation/create` takes "
            "`ask:user`, with an address `web:browser` too, and begins with the component's name. "
            "Pages of tools take `show:panel` and `web:panel`. The server sends methods of MCP, "
            "and nothing else."
        ),
        (
            "A form that asks for a password in nobody's name, or a prompt to the agent's model "
            "without the right. Or `file:///home/me/.ssh/id_rsa` in a tool's result."
        ),
        TRUSTED,
        (Rules(MCP_KEYS, mcp_words.passed, mcp_words.sent, mcp_words.said, denied=mcp_words.said),),
    ),
    Guard(
        "session-setup",
        (
            "A set-up of a session stays as the client wrote it: working directory, roots, "
            "additional directories, first options and all else. Its result stays as the agent "
            "wrote it. A set-up of a component's own chooses no options."
        ),
        (
            "`cwd` or `additionalDirectories` in the user's home, or `models` that the agent does "
            "not have."
        ),
        TRUSTED,
        (Rules(SETUP, sessions.settled, sessions.plainly_opened, sessions.result_kept),),
    ),
    Guard(
        "system-prompt",
        "The system prompt of a session is the client's.",
        "An `override` that removes the agent's own instructions.",
        TRUSTED,
        (Rules(SETUP, sessions.prompt_kept, sessions.prompt_kept),),
    ),
    Guard(
        "session-lists",
        (
            "Lists of sessions are the agent's: entries may vanish, and nothing else changes. Only"
            " the client asks for them."
        ),
        (
            "An entry with another folder, in which the editor resumes, or a request for the "
            "folders of all projects."
        ),
        "prompt:unseen",
        (Rules(LISTS, unchanged, not_originated, sessions.shortened),),
    ),
    Guard(
        "commands",
        (
            "A command of the agent, or a skill that a block calls, stays as it is, with its block"
            " first. Nothing else becomes a command. Only the agent lists commands."
        ),
        "`hello` rewritten into `/yolo`, after which the agent asks for no permissions.",
        "command",
        (
            Rules((PROMPT,), commands.kept, commands.kept),
            Rules(SETUP, answered=command_lists.set_up),
            updates.of_kinds(
                (COMMANDS_KIND,), extended=updates.own_commands, announced=command_lists.announced
            ),
        ),
    ),
    Guard(
        "links",
        (
            "Links to files and `@` paths that a component adds to a prompt lie inside the "
            "session's folders."
        ),
        (
            "`file:///home/me/.ssh/id_rsa` or `@~/.ssh/id_rsa` in a prompt: agents read the file "
            "unasked."
        ),
        TRUSTED,
        (Rules((PROMPT,), links.added, links.added),),
    ),
    Guard(
        "prompt-options",
        "Members beside a prompt's blocks stay unchanged.",
        "A member, known to some agent, that changes how the turn runs.",
        TRUSTED,
        (Rules((PROMPT,), prompts.options_kept, prompts.options_kept),),
    ),
    Guard(
        "session-mode",
        (
            "Only the user sets modes, models and options, in every session. The user sees them as"
            " the agent reports them. With `offer:modes` a component adds options of its own, "
            "which look like none of the agent's."
        ),
        (
            "A switch to a mode that asks for no permissions, or an option of a harmless name that"
            " hides this mode."
        ),
        "offer:modes",
        (
            Rules(SETTINGS, unchanged, not_originated, modes.obeyed, modes.denied),
            Rules(SETUP, answered=modes.reported),
            updates.of_kinds((MODE_KINDS[0],)),
            updates.of_kinds(
                (OPTIONS_KIND,), extended=updates.own_options, announced=modes.announced
            ),
        ),
    ),
    Guard(
        "unknown-updates",
        (
            "A session update of a kind that no rule knows passes unchanged, and no component "
            "makes one up."
        ),
        "A new or oddly spelled kind of update whose effect nobody has judged.",
        TRUSTED,
        (
            Rules((UPDATE,), updates.shown, updates.shown),
            updates.of_kinds(("",)),
        ),
    ),
    Guard(
        "update-texts",
        "A component changes the words of the agent's update; kind, ids and all else stay.",
        "A chunk of text turned into `state_update idle`, which ends the turn for the editor.",
        TRUSTED,
        (updates.of_kinds(TEXT_KINDS, updates.words, announced=updates.own_words),),
    ),
    Guard(
        "tool-calls",
        (
            "The user sees tool calls, their diffs and terminals as the agent reports them. With "
            "`change:tool-calls`, the words of a finished call may change."
        ),
        "A harmless title on a harmful call, or an invented call.",
        "change:tool-calls",
        (
            updates.of_kinds(CALLS, updates.call_words),
            updates.of_kinds(TOOL_KINDS),
        ),
    ),
    Guard(
        "notices",
        (
            "Notices, summaries of left-out messages, and suggested prompts are the agent's. With "
            "`change:tool-calls`, words of notices and summaries may change, and suggestions may "
            "vanish."
        ),
        "A warning turned into its contrary, or a suggested `/yolo`, which a click sends.",
        "change:tool-calls",
        (
            updates.of_kinds(NOTICES, updates.notice_words),
            updates.of_kinds((SUGGESTIONS_KIND,), updates.fewer_suggestions),
        ),
    ),
    Guard(
        "agent-state",
        "The user sees the agent's state, use, sub-sessions and cursors as the agent reports them.",
        "A turn that looks ended while the agent works on.",
        TRUSTED,
        (
            Rules((PROMPT,), answered=prompts.ended),
            updates.of_kinds(STATE_KINDS),
        ),
    ),
    Guard(
        "handshake",
        (
            "Identity and login methods in `initialize` stay as both ends wrote them. A component "
            "may choose version 1 where 2 is on offer. Only the agent's errors ask for a login "
            "(-32000, `authMethods`, `auth_required`)."
        ),
        (
            "Another agent's name, a version that was not offered, or a login method with a "
            "command of its own."
        ),
        TRUSTED,
        (
            Rules(INITIALIZE, capabilities.offer_kept, answered=capabilities.answer_kept),
            Rules(EVERY, denied=every_message.no_login),
        ),
    ),
    Guard(
        "capability-claims",
        (
            "`initialize` may promise less than the peer behind a component can do. It may promise"
            " more only if the component itself answers all of it, or a right names it."
        ),
        "A claim of a terminal that the client lacks, or of session loading that the agent lacks.",
        "claim",
        (Rules(INITIALIZE, capabilities.offered, answered=capabilities.promised),),
    ),
    Guard(
        "session-target",
        (
            "A message that a component passes on stays in its session, and an id in use is no "
            "other session's."
        ),
        "A prompt, an update or a new session's id steered into another conversation.",
        TRUSTED,
        (
            Rules(
                EVERY,
                every_message.session_kept,
                every_message.session_named,
                every_message.session_kept,
            ),
            Rules(SETUP, answered=sessions.session_named),
        ),
    ),
    Guard(
        "meta",
        (
            "`_meta` keys of others stay as they are. A component adds only keys under a domain "
            "name (`example.com/key`), neither trace context nor conductor's (`conductor.…`), and "
            "none to a set-up. It may mark a text for the client as part of a `subconversation`. "
            "It may mark its own text as an `event`, but not as `approval` or `plan`. Where it "
            "changes an update, it may also change two texts for people: `terminal_output.data`, "
            "and the `title` of a `subconversation`."
        ),
        (
            "`_meta.claudeCode.options`, from which an agent takes settings, servers and commands."
            " Or an invented approval in the transcript, or another `_meta.permissionMode`."
        ),
        TRUSTED,
        (
            Rules(EVERY, every_message.meta_kept, every_message.meta_kept, every_message.meta_kept),
            Rules(SETUP, sessions.meta_kept),
            Rules(SETUP, servers.metas_namespaced, servers.metas_namespaced),
            Rules((PROMPT,), prompts.metas_kept, prompts.metas_kept),
            Rules((UPDATE,), updates.metas_kept),
            Rules(INITIALIZE, capabilities.metas_kept, answered=capabilities.metas_kept),
        ),
    ),
)
"""Every guard, in the order in which their rules are checked: the first that a message breaks is
reported."""
