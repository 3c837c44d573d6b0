"""The table of commands: a row declares all about a command but its options (`options.TABLE`).

Three modules read the table. `conductor.cli.fast` starts the commands that an editor, an agent or a
proxy waits for, without typer. `conductor.cli.app` makes typer's commands. `conductor.cli.manual`
makes of both tables the help, the man page, the completion and the list of commands of
docs/reference.md.

An agent waits for `mcp`, and importing typing takes several milliseconds: no row needs it.
"""

from __future__ import annotations

import enum
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

HEADINGS = RUN, SET_UP, LOOK, MAKE = ("Run a chain", "Set up", "Look", "Make components")
"""The headings of conductor's commands, in their order on a page."""
HIDDEN = ""
"""The heading of commands that no page shows."""


class Trait(enum.Flag):
    """A property that some commands share."""

    NONE = 0
    RARE = enum.auto()
    """The first page, which must fit a terminal, only names it."""
    STARTED = enum.auto()
    """Another program starts it and waits: it starts without typer. Its function gets the words
    before `--`, the words behind it (None: there is no `--`), and the options by name."""
    ONE_WORD = enum.auto()
    """Of a `STARTED` command: it takes exactly one word."""
    BARE = enum.auto()
    """Of a `STARTED` command: it takes no option, and its function gets the list of words alone."""
    PATHS = enum.auto()
    """Its paths begin in the current folder, and end up in messages."""
    DASHES = enum.auto()
    """It takes one command behind `--`."""
    LASTING = enum.auto()
    """It shows a state that changes by itself, or runs until somebody ends it."""


NONE, RARE, LASTING, PATHS = Trait.NONE, Trait.RARE, Trait.LASTING, Trait.PATHS
CHAIN = LASTING | PATHS | Trait.DASHES
EDITORS = CHAIN | Trait.STARTED
SHIM = LASTING | Trait.STARTED | Trait.ONE_WORD | Trait.BARE


class Command:
    """A command, or a group of commands."""

    def __init__(
        self, path: str, place: str, heading: str, traits: Trait = NONE, brief: str = ""
    ) -> None:
        """
        Args:
            path: The words to type: `log show`.
            place: `MODULE:FUNCTION`, in `conductor.cli` unless it is a whole name. Of a group the
                function may be missing. The module has the help as `FUNCTION_HELP` or `HELP`, the
                text below it as `…EPILOG`, and of a `STARTED` command the argument as `…WORDS`: its
                name and its help.
            heading: The heading of pages below which it stands.
            traits: The properties that it shares with others.
            brief: Its help in lists; empty: the first sentence of its help.
        """
        self.path = path
        self.place = place
        self.heading = heading
        self.traits = traits
        self.brief = brief

    @property
    def above(self) -> str:
        """The group that it is in; empty: none."""
        return self.path.rpartition(" ")[0]

    @property
    def is_hidden(self) -> bool:
        """Whether no page shows it."""
        return self.heading == HIDDEN

    @property
    def is_group(self) -> bool:
        """Whether commands stand below it."""
        return bool(below(self.path))

    def function(self) -> Callable[..., Any] | None:
        """The function that runs it, with its module loaded; None: only commands below it run."""
        module, _, name = self.place.partition(":")
        return getattr(_module(module), name) if name else None

    def text(self, name: str) -> Any:
        """A text of its module: `HELP`, `EPILOG` or `WORDS`; None: the module has none."""
        module, _, function = self.place.partition(":")
        own = f"{function.strip('_').upper()}_{name}"
        return getattr(_module(module), own, None) or getattr(_module(module), name, None)


def _module(name: str) -> Any:
    return import_module(name if "." in name else f"conductor.cli.{name}")


_ROWS = (
    Command("agent", "chains:agent", RUN, EDITORS),
    Command("proxy", "chains:proxy", RUN, EDITORS | RARE),
    Command("exec", "chains:exec_", RUN, EDITORS),
    Command("chat", "chat:chat", RUN, CHAIN, "Talk to a chain in the browser"),
    Command(
        "connect",
        "chains:connect",
        RUN,
        LASTING | Trait.STARTED | Trait.ONE_WORD | RARE,
        "Connect an editor to a chain at an address",
    ),
    Command("serve", "serve:serve", RUN, CHAIN, "Serve chains to many clients at addresses"),
    Command(
        "attach",
        "attach:attach",
        RUN,
        LASTING | RARE,
        "Attach to a live session of a server",
    ),
    Command("fleet", "fleet", RUN, LASTING | RARE, "Serve chains from many machines"),
    Command("fleet dev", "fleet:dev", RUN),
    Command("fleet status", "fleet:status", RUN),
    Command("fleet drain", "fleet:drain", RUN),
    Command("fleet gateway", "gateway:gateway", RUN),
    Command("fleet worker", "worker:worker", RUN, Trait.DASHES),
    Command("fleet bundle", "fleet_bundle:bundle", RUN),
    Command("fleet check", "fleet_bundle:check", RUN),
    Command("fleet rollout", "fleet_rollout:rollout", RUN),
    Command("fleet init", "fleet_init:init", RUN),
    Command("fleet journal", "fleet_journal:journal", RUN),
    Command("setup", "setup:setup", SET_UP, Trait.DASHES, "Put a chain into an editor"),
    Command("add", "add:add", SET_UP),
    Command("list", "list_:list_", SET_UP),
    Command(
        "update",
        "update:update",
        SET_UP,
        brief="Replace installed components by newer versions, where you agree",
    ),
    Command("remove", "remove:remove", SET_UP, RARE),
    Command("lock", "lock:lock", SET_UP, PATHS),
    Command(
        "agents",
        "agents:agents",
        SET_UP,
        LASTING,
        "Show which agents are installed, and how to get the others",
    ),
    Command("trust", "trust_:trust_", SET_UP),
    Command("config", "config_", SET_UP, brief="Show and check the configuration"),
    Command("config show", "config_:show", SET_UP),
    Command("config check", "config_:check", SET_UP),
    Command("config schema", "config_:schema", SET_UP),
    Command("ps", "ps:ps", LOOK, LASTING | RARE, "Show your running chains"),
    Command("ps pause", "ps_change:pause", LOOK),
    Command("ps resume", "ps_change:resume", LOOK),
    Command("ps reload", "ps_change:reload", LOOK),
    Command("inspect", "inspect_:inspect", LOOK, PATHS),
    Command("doctor", "doctor:doctor", LOOK),
    Command(
        "log",
        "log_kinds",
        LOOK,
        brief=("Show the records of chains: messages, changes, refusals, times"),
    ),
    Command("log show", "log_show:show", LOOK),
    Command("log stats", "log_stats:stats", LOOK),
    Command("log view", "log_view:view", LOOK, LASTING),
    Command("log verify", "log_verify:verify", LOOK),
    Command("log blame", "log_blame:show", LOOK),
    Command("log export", "log_export:export", LOOK),
    Command("log replay", "log_replay:replay", LOOK, LASTING | PATHS),
    Command("help", "manual:help_", LOOK, RARE),
    Command("completion", "manual:completion", LOOK, RARE),
    Command("new", "new_:new", MAKE),
    Command("dev", "dev:dev", MAKE, LASTING),
    Command(
        "test",
        "test_:run_tests",
        MAKE,
        LASTING | PATHS | RARE,
        "Play a component's scenarios, and check its rules",
    ),
    Command(
        "publish",
        "publish:publish",
        MAKE,
        RARE,
        "Send a component to a registry, or make its archive",
    ),
    Command("join", "join:main", HIDDEN, SHIM),
    Command("mcp", "conductor.mcp.doors.shim:main", HIDDEN, SHIM),
)
TABLE = {row.path: row for row in _ROWS}
"""By the words to type, in the order of the pages."""


def row_of(words: Sequence[str]) -> Command | None:
    """The command that a command line begins with; None: there is none."""
    return TABLE.get(" ".join(words[:2])) or TABLE.get(words[0] if words else "")


def below(path: str) -> list[Command]:
    """The commands of a group; of the path "" the commands in no group."""
    return [row for row in _ROWS if row.above == path]


def has(words: Sequence[str], trait: Trait) -> bool:
    """Whether the command of a command line has a trait, or the group that it is in."""
    rows = (TABLE.get(" ".join(words[:count])) for count in (1, 2))
    return any(row is not None and trait in row.traits for row in rows)


EXIT_CODES = (
    ("0", "the client is done; for `exec`: the turn ended"),
    (
        "1",
        (
            "the chain failed. `inspect`: conductor or the managed policy would refuse the "
            "component. `doctor`: a needed part is missing. `log verify` and `log show`: somebody "
            "changed the audit. `lock --check`: the lock file would change. `test` and `log "
            "replay`: the component sent other messages. `test` also: the component broke a rule, "
            "or its build failed"
        ),
    ),
    (
        "2",
        (
            "a mistake in the command line: an unknown name, a missing file, or a file that is no "
            "module. Also a chain that the lock does not allow"
        ),
    ),
    ("3", "`exec`: the turn took longer than `--timeout`"),
    ("4", "`exec`: the agent opened no session"),
    ("5", "`exec`: the agent or a component refused the prompt"),
    (
        "130",
        (
            "interrupted. Other signals end with 128 + the number of the signal. Three signals do "
            "not end a chain: SIGHUP (see `--reload`), SIGUSR1 ([health](log.md#health)) and "
            "SIGUSR2 ([rings](log.md#rings))"
        ),
    ),
)
"""The exit codes of conductor, in Markdown: docs/reference.md has the same table."""
