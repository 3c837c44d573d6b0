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
            "What a component writes reads the same to every parser: params are an object, no "
            "object repeats a member name, and member names are text."
        ),
        (
            "Two `command` members in one object, of which the check reads one and the agent "
            "the other."
        ),
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
            "A method a component originates is spelled as the protocol spells it, in printable"
            " ASCII."
        ),
        (
            "`FS/write_text_file` or a look-alike letter: no rule knows the name, a lenient "
            "peer does."
        ),
        TRUSTED,
        (Rules(EVERY, originated=every_message.method_spelled),),
    ),
    Guard(
        "conductor-methods",
        (
            "`initialize`, role requests, successor envelopes and `_conductor/` messages are "
            "the conductor's own."
        ),
        (
            "A forged `proxy/initialize`, or an envelope inside an envelope, that speaks with "
            "the conductor's voice."
        ),
        TRUSTED,
        (Rules(EVERY, originated=every_message.not_the_conductors),),
    ),
    Guard(
        "unknown-methods",
        (
            "A component sends, changes and answers extension methods only under names it was "
            "granted; a method of ACP, or of MCP over ACP, that no rule knows it never sends."
        ),
        (
            "`_goose/extensions/add` with a command to run, or a method of a newer protocol "
            "with effects that nobody has judged yet."
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
            "To a conversation as data a component adds `_meta` under its own name, and answers in "
            "the place of others only where nobody knows the request, as the last that was asked "
            "says."
        ),
        "A summary in which the user approved what they refused, or from which a turn is missing.",
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
            "A component reaches the user beside the session only where it was granted to: by "
            "panels, comments, operations or log lines. A panel has scripts only with `web:panel`."
        ),
        (
            "A panel in the agent's name, or `_zed/open_url` with an address of the component's"
            " choice."
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
        ("A mode that was switched and is reported as refused, a written file reported as failed."),
        TRUSTED,
        (Rules(EVERY, answered=every_message.outcome_kept, denied=every_message.outcome_kept),),
    ),
    Guard(
        "sealed",
        (
            "A message that no other rule opens passes a component by: it changes, makes up and"
            " answers none. With `read:editor` it reads files inside the session's folders; with"
            " `run:commands` it opens terminals of the editor's, and uses those alone."
        ),
        (
            "Reading the user's files, running a command, ending one of the agent's, logging in "
            "elsewhere, deleting a conversation, or claiming to have done so."
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
            "A permission request reaches the user as the agent made it; with the right, "
            "options may be taken away, never the last refusal nor the last for once, and no "
            "narrow approval while a wider one stays."
        ),
        "A changed title, command or diff under approval, an added or renamed option.",
        "refuse:permissions",
        (Rules((PERMISSION,), permissions.narrowed),),
    ),
    Guard(
        "permission-answers",
        "A component may refuse a permission if it was granted to, never give it.",
        (
            "A component that approves in the user's place, or turns `allow_once` into "
            "`allow_always`."
        ),
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
            "A component opens, loads, resumes, forks and answers no sessions of its own; with "
            "the right, in the folders of the session it works in, and it forks a session of the"
            " user's only while it holds a prompt of that."
        ),
        (
            "Loading or forking another conversation, to have it repeated, or a session in a "
            "directory of its choice."
        ),
        "prompt:unseen",
        (Rules(SETUP, originated=sessions.opened, answered=sessions.granted),),
    ),
    Guard(
        "mcp-servers",
        (
            "MCP servers declared by others stay; a component may append servers reached over "
            "ACP, under names and ids that nobody else has, nor any that look or begin like "
            "them."
        ),
        (
            '`{"command":"sh"}` as an MCP server, a URL which the agent connects to, or '
            "`tools_demo` beside `tools-demo`."
        ),
        TRUSTED,
        (Rules(SETUP, servers.appended, servers.appended),),
    ),
    Guard(
        "mcp-connections",
        (
            "A component uses and serves only MCP connections to servers it declared itself, "
            "and opens none under an id that is somebody else's or begins with somebody else's "
            "name."
        ),
        "Calls to another component's tools, or answers in their place.",
        "change:mcp",
        (Rules(MCP_KEYS, servers.passed_on, servers.used, servers.served),),
    ),
    Guard(
        "mcp-words",
        (
            "What a component says by MCP servers of its own is judged like what it says elsewhere,"
            " in messages, results and errors: links lead into the session's folders, to the web or"
            " to what the server has; `_meta` has keys under a domain name, or MCP's own; messages"
            " of prompts and for the model hold no command and no `@` path elsewhere; nothing looks"
            " like another server's. `sampling/createMessage` takes `prompt:within`;"
            " `elicitation/create` takes `ask:user` and begins with the component's name, with an"
            " address `web:browser` too; pages of tools take `show:panel` and `web:panel`. It sends"
            " what MCP knows, and nothing else."
        ),
        (
            "A form that asks for a password in nobody's name, a prompt to the agent's model"
            " without the right to prompt, `file:///home/me/.ssh/id_rsa` in a tool's result."
        ),
        TRUSTED,
        (Rules(MCP_KEYS, mcp_words.passed, mcp_words.sent, mcp_words.said, denied=mcp_words.said),),
    ),
    Guard(
        "session-setup",
        (
            "The working directory, roots, additional directories, options to begin with and all "
            "else in a session's set-up stay as the client wrote them, and in its result as the "
            "agent did; a set-up of a component's own chooses nothing."
        ),
        (
            "`cwd` or `additionalDirectories` pointed at the user's home, or `models` that the "
            "agent does not have."
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
            "Lists of sessions are the agent's: entries may vanish; nothing else changes, and "
            "nobody but the client asks for them."
        ),
        (
            "An entry with another folder, in which the editor resumes; a request for the "
            "folders of all projects."
        ),
        "prompt:unseen",
        (Rules(LISTS, unchanged, not_originated, sessions.shortened),),
    ),
    Guard(
        "commands",
        (
            "What an agent would read as a command, or a skill that a block calls, stays that, "
            "with its block first; nothing else becomes one, and nobody but the agent lists any."
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
            "What a component adds to a prompt of links to files and of `@` paths lies inside "
            "the session's folders."
        ),
        (
            "`file:///home/me/.ssh/id_rsa` or `@~/.ssh/id_rsa` in a prompt, which agents read "
            "unasked."
        ),
        TRUSTED,
        (Rules((PROMPT,), links.added, links.added),),
    ),
    Guard(
        "prompt-options",
        "What stands beside a prompt's blocks stays unchanged.",
        "A member, known to some agent, that changes how the turn is run.",
        TRUSTED,
        (Rules((PROMPT,), prompts.options_kept, prompts.options_kept),),
    ),
    Guard(
        "session-mode",
        (
            "Modes, models and options are set by the user alone, in every session, and shown as "
            "the agent reports them; with the right, a component adds options of its own, which "
            "look like none of the agent's."
        ),
        (
            "Switching to a mode that asks for no permissions, or hiding that it is on behind an "
            "option which is called as the mode that asks."
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
        "A session update of a kind no rule knows passes unchanged and is never made up.",
        ("A new or oddly spelled kind of update with an effect that nobody has judged yet."),
        TRUSTED,
        (
            Rules((UPDATE,), updates.shown, updates.shown),
            updates.of_kinds(("",)),
        ),
    ),
    Guard(
        "update-texts",
        ("Of an update of the agent's a component changes the words; kind, ids and all else stay."),
        ("A chunk of text turned into `state_update idle`, which ends the turn for the editor."),
        TRUSTED,
        (updates.of_kinds(TEXT_KINDS, updates.words, announced=updates.own_words),),
    ),
    Guard(
        "tool-calls",
        (
            "Tool calls, their diffs and terminals are shown as the agent reports them; with "
            "the right, the words of a finished call may be changed."
        ),
        "A harmless title on a harmful call, or a call that never was.",
        "change:tool-calls",
        (
            updates.of_kinds(CALLS, updates.call_words),
            updates.of_kinds(TOOL_KINDS),
        ),
    ),
    Guard(
        "notices",
        (
            "Notices, summaries of what was left out, and prompts that are suggested to the user "
            "are the agent's; with the right, words of the former may be changed, and suggestions "
            "may vanish."
        ),
        "A warning turned into its contrary, or `/yolo` suggested, which is sent by a click.",
        "change:tool-calls",
        (
            updates.of_kinds(NOTICES, updates.notice_words),
            updates.of_kinds((SUGGESTIONS_KIND,), updates.fewer_suggestions),
        ),
    ),
    Guard(
        "agent-state",
        "The agent's state, use, sub-sessions and cursors are shown as the agent reports them.",
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
            "Identity and login methods in `initialize` stay as both ends wrote them; of the "
            "version on offer a component may choose the one below, 1 for 2. Only the agent's "
            "errors ask for a login (-32000, `authMethods`, `auth_required`)."
        ),
        (
            "Another agent's name, a version that was not offered, a login method with a "
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
            "`initialize` may promise less than what lies behind a component, and more only "
            "where it may itself answer all that is promised, or a right names it."
        ),
        ("A claim of a terminal that the client lacks, or of session loading the agent lacks."),
        "claim",
        (Rules(INITIALIZE, capabilities.offered, answered=capabilities.promised),),
    ),
    Guard(
        "session-target",
        (
            "The message that a component passes on stays in its session, and an id in use is "
            "no other session's."
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
            "`_meta` keys of others are kept as they are; a component adds only keys under a "
            "domain name (`example.com/key`), none of them trace context or the conductor's "
            "(`conductor.…`), and none to a session's set-up. A text for the client it may mark "
            "as part of a `subconversation`, and its own as an `event`, but for `approval` and "
            "`plan`. With `texts` it may change those words in the `_meta` of an update that are "
            "for people: what a terminal shows (`terminal_output.data`), and the `title` of a "
            "`subconversation`; no other word of a `_meta`."
        ),
        (
            "`_meta.claudeCode.options`, by which an agent takes settings, servers and commands; "
            "an approval in the transcript that never was; another `_meta.permissionMode`."
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
