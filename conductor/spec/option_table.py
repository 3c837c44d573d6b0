"""The options of a chain and of a server, which files and variables set too: a row declares all
facts about an option.

`conductor.cli.options` has the options of other commands. Both tables feed both parsers of the
command line (`conductor.cli.fast` and, for help and errors, typer through
`conductor.cli.typer_options`), the help and the tables of the documents. The start path loads this
module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.errors import UsageError, did_you_mean
from conductor.mcp import KINDS as MCP_KINDS
from conductor.mcp import ON_CHANGE
from conductor.spec.options import ASKS, ISOLATIONS, TRACE_CONTENTS, Options
from conductor.spec.paths import CONFIG, LOCK_FILE

Value = TypeVar("Value")

PREFIX: Final = "CONDUCTOR_"
"""The beginning of all variables that set options."""
ISOLATED: Final = "CONDUCTOR_ISOLATED"
NATS: Final = ("CONDUCTOR_NATS_USER", "CONDUCTOR_NATS_PASSWORD")
"""The login of a part of a fleet at NATS (`conductor/cli/fleet_place.py`)."""
PROJECT: Final = "CONDUCTOR_PROJECT"

_OTHERS: Final = (
    # Set by conductor for programs that it starts, by its tests, and for `connect`.
    *("CONDUCTOR_JOIN_TOKEN", "CONDUCTOR_MCP_TOKEN", "CONDUCTOR_TERMINAL", "CONDUCTOR_TOKEN"),
    *("CONDUCTOR_PEERS_", "CONDUCTOR_UNDER_TEST", "CONDUCTOR_E2E_RUN"),
)
"""The beginnings of variables that are no options."""

LEVELS: Final = ("debug", "info", "warning", "error")

_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def size(text: str) -> int:
    """Bytes from `64M`, `64MiB`, `512k` or a plain number. Raises `ValueError`."""
    match = re.fullmatch(r"([0-9]{1,12})([kmg]?)(?:i?b)?", text.lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("a size is a number of bytes above 0, such as 65536, 512k or 64M")
    return int(match[1]) * _UNITS[match[2]]


def size_or_none(text: str) -> int:
    """Bytes as `size` reads them; 0 for `none`. Raises `ValueError`."""
    try:
        return 0 if text.lower() == "none" else size(text)
    except ValueError as error:
        raise ValueError(f"{error}; or none") from None


def collector(text: str) -> str:
    """The address of telemetry, or `env`, or `none`. Raises `ValueError`."""
    if text not in ("env", "none") and not re.match(r"https?://[^/]", text):
        raise ValueError("a collector is an address such as http://127.0.0.1:4318, or env, or none")
    return text


def seconds(text: str) -> float:
    """A time in seconds, not negative. Raises `ValueError`."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("a time is a number of seconds, such as 30 or 0.5")
    return number


def days(text: str) -> int:
    """Whole days, not negative. Raises `ValueError`."""
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise ValueError("it is a number of days, such as 90; 0 is for ever")
    return int(text)


def port(text: str) -> int:
    """A port of TCP. Raises `ValueError`."""
    if not text.isascii() or not text.isdigit() or int(text[:6]) > 65535:
        raise ValueError("a port is a number from 0 to 65535")
    return int(text)


def peer(text: str) -> str:
    """A peer agent, `NAME=COMMAND`, or a branch, unchanged. Raises `ValueError`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*=\s*\S.*", text, re.DOTALL):
        raise ValueError('it is NAME=COMMAND, such as research="codex-acp"')
    return text


def moment(text: str) -> str:
    """A point in time in ISO 8601, unchanged. Raises `ValueError`."""
    import datetime  # only `clock` needs it

    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time is written like 2026-03-01T12:00:00+01:00") from None
    return text


def number(text: str) -> int:
    """A whole number above 0. Raises `ValueError`."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError("it is a whole number above 0")
    return int(text)


def switch(text: str) -> bool:
    """A switch as a variable sets it. Raises `ValueError`."""
    values = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
    if text.lower() not in values:
        raise ValueError("a switch is 1 or 0")
    return values[text.lower()]


def one_of(*values: str) -> Callable[[str], str]:
    """A reader that accepts only these values."""

    def read(text: str) -> str:
        if text not in values:
            listed = f"possible values: {', '.join(values)}"
            near = did_you_mean(text, values)
            raise ValueError(f"{near} {listed}" if near else listed)
        return text

    return read


class Kind(msgspec.Struct, frozen=True):
    """The value of an option: its name in help, and its reader. A switch has no reader."""

    metavar: str = ""
    read: Callable[[str], Any] | None = None
    choices: tuple[str, ...] = ()
    """The possible values, if they can be listed."""
    many: bool = False
    """Whether the option may be repeated; in a file it is a table."""


def choice(*values: str) -> Kind:
    """An option that takes one of these values."""
    return Kind("|".join(values), one_of(*values), values)


SWITCH: Final = Kind()
SIZE: Final = Kind("SIZE", size)
OPTIONAL_SIZE: Final = Kind("SIZE|none", size_or_none)
SECONDS: Final = Kind("SECONDS", seconds)
DAYS: Final = Kind("DAYS", days)
TIME: Final = Kind("TIME", moment)
NUMBER: Final = Kind("NUMBER", number)
FILE: Final = Kind("FILE", str)
FOLDER: Final = Kind("FOLDER", str)
OPTIONAL_FILE: Final = Kind("FILE|none", str)

ALL: Final = ("agent", "proxy", "exec", "chat")
"""The commands that run a chain."""

LISTED: Final = (*ALL, "serve", "fleet gateway", "fleet worker")
"""The commands whose help has one sentence for each option; `conductor help options` has all."""

LONG_LIVED: Final = ("agent", "proxy")

TURNS: Final = ("exec", "chat")
"""The commands that are a chain's client themselves."""


class Option(msgspec.Struct, frozen=True):
    """One option. Its first flag names the thing that it sets: for the commands that run a chain a
    field of `Options` (`line-limit` sets `line_limit`), unless `assemble` or the command's own
    module takes it; for other commands a parameter of the function.
    """

    flags: str
    """As typed, separated by spaces; the first flag is the name. Without a dash in front the option
    is no flag: only a file, a variable and `-c` set it."""
    kind: Kind
    what: str
    """Help: sentences that end with a full stop."""
    commands: tuple[str, ...] = ALL
    panel: str = "Options"
    """Heading of the box in which help shows it."""
    default: str = ""
    """The state without the option, where the default in `Options` does not tell it."""
    page: str = ""
    """Sentences in Markdown that docs/reference.md adds."""
    typed: tuple[str, ...] = ()
    """The commands that take it from the command line alone, and not from files and variables."""
    needs: tuple[str, ...] = ()
    """Keys of options: without any of these it means nothing, and is refused
    (`conductor.spec.option_layers.refuse_alone`)."""

    @property
    def name(self) -> str:
        """Name of the field it sets, and of the command's parameter."""
        return self.key.replace("-", "_")

    @property
    def key(self) -> str:
        """Its name in a file of configuration."""
        return self.flags.split()[0].lstrip("-")

    @property
    def variable(self) -> str:
        """The variable that sets it."""
        return PREFIX + self.name.upper()

    @property
    def is_flag(self) -> bool:
        """Whether it is typed as a flag."""
        return self.flags.startswith("-")

    def configures(self, *commands: str) -> bool:
        """Whether a file or a variable may set it for one of these commands."""
        return bool({*commands} & {*ALL} & {*self.commands} - {*self.typed})

    @property
    def help(self) -> str:
        """Help text with the default."""
        default = self.default or self._default()
        return f"{self.what} Default: {default}." if default else self.what

    def _default(self) -> str:
        value = getattr(Options(), self.name, None)
        if value is None or isinstance(value, bool | tuple):
            return ""
        if self.kind in (SIZE, OPTIONAL_SIZE):
            return f"{value // 1024**2}M"
        return f"{value:g}" if self.kind is SECONDS else str(value)


_ANSWERS: Final = ("deny", "ask", "allow-once")

# Options below one heading of the help.
_who = partial(Option, panel="Who may connect")
_sandboxed = partial(Option, panel="Sandbox")
_limited = partial(Option, panel="Limits")
_output = partial(Option, panel="Output")

_ONE_WRITER: Final = ("proxy",)
"""A conductor within another conductor must not write to the file that the outer one writes."""

_SERVE: Final = ("serve",)
_CLIENTS: Final = ("serve", "fleet gateway")
"""The commands that let clients in."""
_ROOMS: Final = ("serve", "fleet worker")
"""The commands that run chains for others."""
_SERVERS: Final = ("serve", "fleet gateway", "fleet worker")

SERVE: Final = (
    Option(
        "--listen",
        Kind("ADDRESS", str, many=True),
        "Where clients connect: ws://HOST:PORT, http://HOST:PORT, wss:// or https:// with TLS, "
        "unix:PATH, tcp://HOST:PORT. May be repeated; port 0 takes any that is free.",
        _CLIENTS,
        default="ws://127.0.0.1:8790",
    ),
    Option(
        "--chain",
        Kind("NAME", str, many=True),
        "Serve this chain of the configuration at /acp/NAME. May be repeated.",
        _ROOMS,
    ),
    Option(
        "--share",
        SWITCH,
        "Let connections of one principal share a chain: where their clients can do the same. By "
        "default each has a chain of its own.",
        _ROOMS,
    ),
    _who(
        "--tokens",
        FILE,
        "The file of principals and the digests of their tokens; `conductor serve token NAME` adds "
        "to it. Without one, and without an issuer, everybody who can reach the address is the "
        "principal `local`.",
        _CLIENTS,
    ),
    _who(
        "oidc-issuer",
        Kind("URL", str),
        "Take tokens of this issuer of OpenID Connect too; the principal is the token's `sub`.",
        _CLIENTS,
    ),
    _who(
        "oidc-audience",
        Kind("TEXT", str),
        "The audience that tokens of the issuer must be for.",
        _CLIENTS,
        needs=("oidc-issuer",),
    ),
    _who(
        "--tls-cert",
        FILE,
        "The certificate of this server, with those between it and its authority, in PEM.",
        _CLIENTS,
    ),
    _who("--tls-key", FILE, "The key of the certificate.", _CLIENTS, needs=("tls-cert",)),
    _who(
        "--insecure",
        SWITCH,
        "Serve addresses beyond this machine without TLS, or without tokens.",
        _CLIENTS,
    ),
    _who(
        "--host",
        Kind("NAME", str, many=True),
        "A name by which clients call this server; beside that of its address. May be repeated.",
        _SERVERS,
    ),
    _who(
        "origin",
        Kind("ORIGIN", str, many=True),
        "An origin whose web pages may connect, such as https://chat.example.org. May be repeated.",
        _CLIENTS,
        default="none",
    ),
    _who(
        "owners",
        OPTIONAL_FILE,
        "Where the server keeps which principal has which session. `none` forgets it at the end.",
        _SERVE,
        default="in the user's state folder",
    ),
    _limited(
        "linger",
        SECONDS,
        "How long a connection whose link is cut, and its turn, wait for the client.",
        _SERVERS,
        default="60",
    ),
    _limited(
        "wind-down",
        SECONDS,
        "How long running turns may go on once the server is to end.",
        _SERVERS,
        default="30",
    ),
    _limited(
        "login",
        SECONDS,
        "How long a network connection may take to show who it is from.",
        _CLIENTS,
        default="10",
    ),
    _limited(
        "connections", NUMBER, "Connections of one principal at once.", _SERVERS, default="64"
    ),
    _limited(
        "sockets",
        NUMBER,
        "Network connections over HTTP of one principal at once; a WebSocket, a stream of events "
        "and a request each have one.",
        _SERVE,
        default="512",
    ),
    _limited(
        "all-connections",
        NUMBER,
        "Connections of all principals at once.",
        _CLIENTS,
        default="1000",
    ),
    _limited("sessions", NUMBER, "Live sessions of one principal.", _ROOMS, default="1000"),
    _limited("message", SIZE, "The longest message of a client.", _SERVERS, default="64M"),
    _limited(
        "unread",
        SIZE,
        "How much a client may leave unread until the server sends it away.",
        _SERVERS,
        default="64M",
    ),
    _limited(
        "history",
        SIZE,
        "How much of each live session is kept for clients that come later.",
        _ROOMS,
        default="16M",
    ),
    _limited("prompt-time", SECONDS, "How long a turn may take; 0: any time.", _ROOMS, default="0"),
    _who(
        "--days",
        DAYS,
        "How many days a new token is valid, for ever with 0.",
        _SERVE,
        default="0",
    ),
)
"""Options of `conductor serve`; all but the last also in `[serve]`."""

SETTABLE: Final = (
    *ALL,
    "serve",
    "fleet gateway",
    "fleet worker",
    "lock",
    "inspect",
    "doctor",
    "config",
)
"""The commands that take `-c`."""

CHAIN: Final = (
    Option(
        "-c",
        Kind("KEY=VALUE", str, many=True),
        "Set what conductor.toml can set, for this run: `-c audit=a.jsonl`, "
        "`-c serve.linger=60`. May be repeated; `conductor help options` lists the keys.",
        SETTABLE,
        typed=SETTABLE,
    ),
    Option(
        "--prompt -p",
        Kind("TEXT", str),
        "The prompt, or `-` for standard input.",
        ("exec",),
        default="the words behind the agent, else standard input",
        typed=ALL,
    ),
    Option("--cwd", FOLDER, "Folder of the session.", TURNS, typed=ALL, default="the current one"),
    Option(
        "--permissions",
        Kind("|".join(_ANSWERS), one_of(*_ANSWERS, "none", "once"), _ANSWERS),
        "How to answer the agent's requests for permission; `none` means `deny`, `once` means "
        "`allow-once`. No answer holds for longer than once.",
        ("exec",),
        default="ask on a terminal, else deny",
    ),
    Option(
        "--fs",
        choice("none", "read", "write"),
        "Files below the working directory that the chain gets.",
        TURNS,
        default="none",
    ),
    Option("--timeout", SECONDS, "Cancel the turn after this time.", ("exec",), default="no limit"),
    Option("--json", SWITCH, "Print each message received, one a line.", ("exec",), typed=ALL),
    Option(
        "--listen",
        Kind("ADDRESS", str),
        "Serve clients at this address of this machine; not at standard input and output. Each has "
        "a chain of its own.",
        ("agent",),
        typed=ALL,
        page="See [remote.md](remote.md).",
    ),
    Option(
        "--agent-login",
        Kind("AGENT", str, many=True),
        "Start no chain: run the command of this agent on the terminal, with all that follows on "
        "the command line. An editor appends this for a login by terminal.",
        ("agent",),
        typed=ALL,
        page="See [Logins by terminal](editors.md#logins-by-terminal).",
    ),
    Option(
        "--dialect",
        Kind("NAME", one_of(*DIALECTS), tuple(DIALECTS)),
        f"Dialect of the outer conductor: {', '.join(DIALECTS)}. With `scp` the client names "
        "the components behind this proxy.",
        ("proxy",),
        typed=ALL,
        default="detected",
        page="See [A proxy of SCP](editors.md#a-proxy-of-scp).",
    ),
    Option(
        "--project",
        FOLDER,
        f"The project's folder: its `{CONFIG}`, or the nearest one above, is read.",
        (*ALL, "lock", "config"),
        typed=ALL,
        default="the current one",
        page="See [configuration.md](configuration.md).",
    ),
    Option(
        "--isolated",
        SWITCH,
        f"Read no `{CONFIG}`, and no variable: none of `CONDUCTOR_…`.",
        (*ALL, "lock", "config"),
        typed=ALL,
    ),
    _sandboxed(
        "--require-sandbox",
        SWITCH,
        "Refuse every proxy that is not sandboxed: commands and Python code in this process. The "
        "agent is exempt.",
        page="`agent` then never runs as a proxy of another conductor.",
    ),
    _sandboxed(
        "require-hardening",
        SWITCH,
        "Refuse to run sandboxed proxies unless this system also locks up their process; "
        "`conductor doctor` shows whether it does.",
        page="See [their process](security.md#the-process-of-sandboxed-proxies).",
    ),
    _sandboxed(
        "--ask",
        choice(*ASKS),
        "Whether to ask before a stranger's component gets more: `auto`, "
        "once for each version of it; `never`; or `always`, also where you have agreed.",
        page="See [Consent](security.md#consent).",
    ),
    _sandboxed(
        "--locked",
        SWITCH,
        "Refuse what the lock file does not allow: components that differ, or may do more.",
        page="`agent` then never runs as a proxy of another conductor. "
        "See [Locks](configuration.md#locks).",
    ),
    _sandboxed(
        "lock-file", FILE, "The lock file to enforce; implies `--locked`.", default=LOCK_FILE
    ),
    _sandboxed(
        "isolation",
        choice(*ISOLATIONS),
        "Where sandboxed proxies run: `process`, neighbours share one child process; `separate`, "
        "each has a child process of its own; `inline`, all run in this process.",
    ),
    _sandboxed(
        "cache", FOLDER, "Folder of compiled modules.", ALL, default="in the user's cache folder"
    ),
    _sandboxed(
        "clock",
        TIME,
        "Fixed time that the `clock` service tells proxies, such as 2026-03-01T12:00:00+01:00; for "
        "runs that can be repeated.",
        default="the current time",
    ),
    _limited(
        "line-limit",
        SIZE,
        "Longest message accepted. The conductor skips a longer one, and answers it with an error "
        "if it is a request.",
    ),
    _limited(
        "stall",
        SECONDS,
        "How long a component may read nothing while others wait for it. Then the conductor ends "
        "its connection.",
        LONG_LIVED,
    ),
    _limited(
        "grace",
        SECONDS,
        "Time that a component gets to end before each harder step: end of its input, SIGTERM, "
        "SIGKILL.",
    ),
    _limited(
        "drain",
        SECONDS,
        "How long open requests may go without a message after the editor closes its end.",
        LONG_LIVED,
        page="Only messages of the agent and of other programs count, not those of guests.",
    ),
    _limited(
        "drain-total",
        SECONDS,
        "How long open requests may take in total after the editor closes its end.",
        LONG_LIVED,
    ),
    Option(
        "mcp-bridge",
        choice(*MCP_KINDS),
        "How the agent reaches the MCP servers of proxies: as programs (`stdio`), at local "
        "addresses (`http`), over ACP (`acp`), or by what the agent advertises (`auto`). Some "
        "agents advertise transports they do not support; override them here.",
        page="See [mcp.md](mcp.md).",
    ),
    Option(
        "pin-mcp",
        SWITCH,
        "Reach the MCP servers of the editor (stdio and HTTP) in the agent's place, so that their "
        "tools are compared too.",
        (*ALL, "lock"),
        page="See [mcp.md](mcp.md#pinned-tools).",
    ),
    Option(
        "changed-tools",
        choice(*ON_CHANGE),
        "What happens when an MCP server changes its tools: the user is asked (`ask`), the tools "
        "stay as they were agreed to (`keep`), or all tools of the server are left out (`drop`). "
        "With a lock file `ask` is `keep`.",
        page="See [mcp.md](mcp.md#pinned-tools).",
    ),
    Option(
        "peer",
        Kind("NAME=COMMAND", peer, many=True),
        "An agent beside the chain, for the component with `allow=peer:NAME` or "
        "`allow=agent:NAME`; or a chain, a JSON list. May be repeated.",
        (*ALL, "lock"),
        page='In a file it is a table: `peer.research = "codex-acp"`. See '
        "[Several agents](conversation.md#several-agents).",
    ),
    Option(
        "branch",
        Kind("NAME=PROXIES", peer, many=True),
        "A chain beside the chain, for `allow=peer:NAME`: these proxies, and an agent like the "
        "chain's. May be repeated.",
        (*ALL, "lock"),
        page='In a file it is a table: `branch.a = "p1 p2"`. See '
        "[Branches](conversation.md#branches).",
    ),
    _output(
        "--trace",
        FILE,
        "Write every message between components to this file; one JSON object a line. Overwrites "
        "the file.",
        typed=_ONE_WRITER,
        page="See [Traces](log.md#traces).",
    ),
    _output(
        "trace-content",
        choice(*TRACE_CONTENTS),
        "How much of each message traces, rings and audits hold: `redacted`, all but what looks "
        "like a secret; `all`; or `none`, only sender, receiver, method and size.",
    ),
    _output(
        "trace-size",
        OPTIONAL_SIZE,
        "How large the file of `--trace` may become. A trace that is full ends with a line that "
        "says so, and the chain goes on. `none` sets no bound.",
    ),
    _output(
        "ring",
        OPTIONAL_SIZE,
        "How much of the last five minutes of messages the conductor keeps in memory. It writes "
        "them to a file when a component or the chain fails, and at the signal SIGUSR2. `none` "
        "keeps nothing.",
        page="See [Rings](log.md#rings).",
    ),
    _output(
        "--audit",
        FILE,
        "Append a record of the run to this file: its components and their policies, what they "
        "changed, which rules they broke, how they failed. `conductor log verify` checks the "
        "file.",
        page="See [Audits](log.md#audits).",
    ),
    _output(
        "metrics",
        FILE,
        "Keep the numbers of the chain in this file, and those that proxies count, in the text "
        "format of Prometheus. The conductor replaces the file at most once a second.",
        typed=_ONE_WRITER,
        page="See [Numbers](log.md#numbers).",
    ),
    _output(
        "prometheus",
        Kind("PORT", port),
        "Let a Prometheus on this machine read the numbers of the chain at this port; 0 takes any "
        "that is free.",
        typed=_ONE_WRITER,
        page="See [Numbers](log.md#numbers).",
    ),
    _output(
        "otlp",
        Kind("URL|env|none", collector),
        "Send spans and numbers of the chain to this collector of OpenTelemetry, such as "
        "http://127.0.0.1:4318; `env` takes it from the variables `OTEL_…`.",
        page="Needs the extra `otel`. Words of people and agents stay out unless you ask for them. "
        "See [Telemetry](log.md#telemetry).",
    ),
    _output(
        "propagate",
        SWITCH,
        "Write the W3C trace context into what the agent gets, as `traceparent` in the `_meta` of "
        "requests, and as the variable TRACEPARENT of programs. Needs `otlp`.",
        page="See [Trace context](log.md#trace-context).",
    ),
    _limited(
        "keep-values",
        DAYS,
        "How long values that a component keeps (`storage`) stay when it does not use them; 0: for "
        "ever.",
        page="See [what conductor keeps](reference.md#what-conductor-keeps).",
    ),
    Option(
        "--dry-run",
        SWITCH,
        "Start nothing: show what would run, and who set each option, right, limit and setting.",
        LONG_LIVED,
        typed=LONG_LIVED,
    ),
    Option(
        "--reload",
        SWITCH,
        "Replace a proxy by its new build when its file changes; between two messages. `conductor "
        "ps reload` and SIGHUP do it once, even if no file has changed.",
        page="Both also [change the chain](configuration.md#a-chain-that-changes) as its "
        "configuration says.",
        commands=LONG_LIVED,
    ),
    _output(
        "--log",
        choice(*LEVELS),
        "Lowest level of the log: on standard error `info` lists the stages of the chain, "
        "`debug` also every message by method and size.",
        default="warning",
        page="Unless it is `debug` or `info`, the log shows at most 20 lines of each component.",
    ),
    _output(
        "log-format",
        choice("text", "json"),
        "How the log is written to standard error: `text`, for people; or `json`, one object a "
        "line, with `ts`, `level`, `component` and `text`.",
        page="See [the log as JSON](log.md#the-log-as-json).",
    ),
    _output(
        "log-file",
        OPTIONAL_FILE,
        "Append the log to this file: the stages of the chain with times, warnings, and what "
        "components write to standard error; no message. `none` writes no log file.",
        default="a new file for each run in the user's state folder",
        page="See [Log files](log.md#log-files).",
    ),
    Option(
        "control",
        choice("on", "off"),
        "Whether `conductor ps` reaches this chain, by a socket that only you can open.",
        page="See [Running chains](log.md#running-chains).",
    ),
    _output("--verbose -v", SWITCH, "The same as `--log debug`.", typed=ALL),
)
"""The options of the commands that run a chain."""


def of(command: str, rows: Sequence[Option]) -> list[Option]:
    """The rows that are flags of one command."""
    return [row for row in rows if command in row.commands and row.is_flag]


def read(flag: str, text: str, reader: Callable[[str], Value]) -> Value:
    """The value of an option. Raises `UsageError`."""
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(f"invalid value `{text}` for `{flag}`", str(error)) from None


def given_twice(option: str) -> UsageError:
    """The error for an option with one value that is given two."""
    return UsageError(f"`{option}` is given twice", "give it once: it has one value")


def is_isolated(values: Mapping[str, Any]) -> bool:
    """Whether neither files nor variables count. `values` are the values of a command line."""
    text = os.environ.get(ISOLATED, "")
    return bool(values.get("isolated")) or bool(text and read(ISOLATED, text, switch))


def is_ours(variable: str) -> bool:
    """Whether a variable is meant for conductor's users to set."""
    return variable.startswith(PREFIX) and not variable.startswith(_OTHERS)
