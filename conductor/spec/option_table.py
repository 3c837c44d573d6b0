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
        raise ValueError("write a number of days, such as 90; 0 means for ever")
    return int(text)


def port(text: str) -> int:
    """A port of TCP. Raises `ValueError`."""
    if not text.isascii() or not text.isdigit() or int(text[:6]) > 65535:
        raise ValueError("a port is a number from 0 to 65535")
    return int(text)


def peer(text: str) -> str:
    """A peer agent, `NAME=COMMAND`, or a branch, unchanged. Raises `ValueError`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*=\s*\S.*", text, re.DOTALL):
        raise ValueError('write NAME=COMMAND, such as research="codex-acp"')
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
        raise ValueError("write a whole number above 0")
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
        "An address for clients: ws://HOST:PORT, http://HOST:PORT, wss:// or https:// with TLS, "
        "unix:PATH, tcp://HOST:PORT. May be repeated. With port 0 conductor takes a free port.",
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
        "Let connections of one principal share a chain. Their clients must have the same "
        "abilities. Without this option each connection has a chain of its own.",
        _ROOMS,
    ),
    _who(
        "--tokens",
        FILE,
        "The file of principals, with the digests of their tokens. `conductor serve token NAME` "
        "adds a principal to the file. Without this file and without an issuer, everybody who can "
        "reach the address is the principal `local`.",
        _CLIENTS,
    ),
    _who(
        "oidc-issuer",
        Kind("URL", str),
        "Accept tokens of this issuer of OpenID Connect too. The principal is the token's `sub`.",
        _CLIENTS,
    ),
    _who(
        "oidc-audience",
        Kind("TEXT", str),
        "The audience that tokens of the issuer must name.",
        _CLIENTS,
        needs=("oidc-issuer",),
    ),
    _who(
        "--tls-cert",
        FILE,
        "The certificate of this server, in PEM. The file also has the certificates up to the "
        "authority.",
        _CLIENTS,
    ),
    _who(
        "--tls-key",
        FILE,
        "The private key of the server's certificate.",
        _CLIENTS,
        needs=("tls-cert",),
    ),
    _who(
        "--insecure",
        SWITCH,
        "Allow addresses beyond this machine without TLS, or without tokens.",
        _CLIENTS,
    ),
    _who(
        "--host",
        Kind("NAME", str, many=True),
        "A name by which clients call this server. The name in the server's address counts too. "
        "May be repeated.",
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
        "The file that says which principal owns which session. With `none` the server forgets the "
        "owners when it ends.",
        _SERVE,
        default="in the user's state folder",
    ),
    _limited(
        "linger",
        SECONDS,
        "How long a connection and its turn wait for the client after the network link is cut.",
        _SERVERS,
        default="60",
    ),
    _limited(
        "wind-down",
        SECONDS,
        "How long running turns may go on after the server is told to end.",
        _SERVERS,
        default="30",
    ),
    _limited(
        "login",
        SECONDS,
        "How long the client of a network connection may take to prove who it is.",
        _CLIENTS,
        default="10",
    ),
    _limited(
        "connections",
        NUMBER,
        "The most connections of one principal at the same time.",
        _SERVERS,
        default="64",
    ),
    _limited(
        "sockets",
        NUMBER,
        "The most network connections over HTTP of one principal at the same time. Each WebSocket, "
        "each stream of events and each request counts.",
        _SERVE,
        default="512",
    ),
    _limited(
        "all-connections",
        NUMBER,
        "The most connections of all principals together at the same time.",
        _CLIENTS,
        default="1000",
    ),
    _limited(
        "sessions", NUMBER, "The most live sessions of one principal.", _ROOMS, default="1000"
    ),
    _limited("message", SIZE, "The longest message of a client.", _SERVERS, default="64M"),
    _limited(
        "unread",
        SIZE,
        "How many bytes a client may leave unread. Beyond this size the server disconnects the "
        "client.",
        _SERVERS,
        default="64M",
    ),
    _limited(
        "history",
        SIZE,
        "How many bytes of each live session the server keeps for clients that attach later.",
        _ROOMS,
        default="16M",
    ),
    _limited(
        "prompt-time", SECONDS, "How long a turn may take. 0 sets no limit.", _ROOMS, default="0"
    ),
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
        "Set a key of conductor.toml for this run: `-c audit=a.jsonl`, `-c serve.linger=60`. May "
        "be repeated. `conductor help options` lists the keys.",
        SETTABLE,
        typed=SETTABLE,
    ),
    Option(
        "--prompt -p",
        Kind("TEXT", str),
        "The prompt, or `-` for standard input.",
        ("exec",),
        default="the words after the agent, else standard input",
        typed=ALL,
    ),
    Option(
        "--cwd",
        FOLDER,
        "The working directory of the session.",
        TURNS,
        typed=ALL,
        default="the current one",
    ),
    Option(
        "--permissions",
        Kind("|".join(_ANSWERS), one_of(*_ANSWERS, "none", "once"), _ANSWERS),
        "How to answer the agent's requests for permission. `none` means `deny`, `once` means "
        "`allow-once`. Each answer holds for one request.",
        ("exec",),
        default="ask on a terminal, else deny",
    ),
    Option(
        "--fs",
        choice("none", "read", "write"),
        "The access of the chain to files below the working directory.",
        TURNS,
        default="none",
    ),
    Option("--timeout", SECONDS, "Cancel the turn after this time.", ("exec",), default="no limit"),
    Option(
        "--json",
        SWITCH,
        "Print each message that the client receives, one message a line.",
        ("exec",),
        typed=ALL,
    ),
    Option(
        "--listen",
        Kind("ADDRESS", str),
        "Serve clients at this address of this machine; not at standard input and output. Each "
        "client has a chain of its own.",
        ("agent",),
        typed=ALL,
        page="See [remote.md](remote.md).",
    ),
    Option(
        "--agent-login",
        Kind("AGENT", str, many=True),
        "Start no chain; run the login command of this agent on the terminal, with the rest of the "
        "command line. An editor adds this option for a login by terminal.",
        ("agent",),
        typed=ALL,
        page="See [Logins by terminal](editors.md#logins-by-terminal).",
    ),
    Option(
        "--dialect",
        Kind("NAME", one_of(*DIALECTS), tuple(DIALECTS)),
        f"The dialect of the outer conductor: {', '.join(DIALECTS)}. With `scp` the client names "
        "the components behind this proxy.",
        ("proxy",),
        typed=ALL,
        default="detected",
        page="See [A proxy of SCP](editors.md#a-proxy-of-scp).",
    ),
    Option(
        "--project",
        FOLDER,
        f"The project's folder. Conductor reads its `{CONFIG}`, or the nearest `{CONFIG}` above.",
        (*ALL, "lock", "config"),
        typed=ALL,
        default="the current one",
        page="See [configuration.md](configuration.md).",
    ),
    Option(
        "--isolated",
        SWITCH,
        f"Ignore `{CONFIG}` and variables `CONDUCTOR_…`.",
        (*ALL, "lock", "config"),
        typed=ALL,
    ),
    _sandboxed(
        "--require-sandbox",
        SWITCH,
        "Refuse every proxy that is not sandboxed: commands, and Python code in this process. The "
        "agent is exempt.",
        page="`agent` then never runs as a proxy of another conductor.",
    ),
    _sandboxed(
        "require-hardening",
        SWITCH,
        "Refuse sandboxed proxies unless the operating system locks up their process too. "
        "`conductor doctor` shows whether the system does so.",
        page="See [their process](security.md#the-process-of-sandboxed-proxies).",
    ),
    _sandboxed(
        "--ask",
        choice(*ASKS),
        "Whether to ask before a stranger's component gets more rights. `auto` asks once for each "
        "version, `never` does not ask. `always` asks even where you have agreed.",
        page="See [Consent](security.md#consent).",
    ),
    _sandboxed(
        "--locked",
        SWITCH,
        "Refuse components that the lock file does not allow. A component must not differ, and "
        "must not have more rights.",
        page="`agent` then never runs as a proxy of another conductor. "
        "See [Locks](configuration.md#locks).",
    ),
    _sandboxed(
        "lock-file", FILE, "The lock file to enforce. It implies `--locked`.", default=LOCK_FILE
    ),
    _sandboxed(
        "isolation",
        choice(*ISOLATIONS),
        "Where sandboxed proxies run. With `process` neighbours share one child process. With "
        "`separate` each proxy has a child process of its own. With `inline` all proxies run in "
        "this process.",
    ),
    _sandboxed(
        "cache",
        FOLDER,
        "The folder of compiled modules.",
        ALL,
        default="in the user's cache folder",
    ),
    _sandboxed(
        "clock",
        TIME,
        "The fixed time that the `clock` service tells proxies, such as 2026-03-01T12:00:00+01:00. "
        "With a fixed time a run can be repeated.",
        default="the current time",
    ),
    _limited(
        "line-limit",
        SIZE,
        "The longest message that conductor accepts. Conductor skips a longer message, and answers "
        "a longer request with an error.",
    ),
    _limited(
        "stall",
        SECONDS,
        "How long a component may read nothing while others wait for it. After this time conductor "
        "closes the component's connection.",
        LONG_LIVED,
    ),
    _limited(
        "grace",
        SECONDS,
        "How long a component may take to end before the next harder step. The steps are: end of "
        "its input, SIGTERM, SIGKILL.",
    ),
    _limited(
        "drain",
        SECONDS,
        "How long open requests may go without a message after the editor has closed its "
        "connection.",
        LONG_LIVED,
        page="Only messages of the agent and of other programs count, not those of guests.",
    ),
    _limited(
        "drain-total",
        SECONDS,
        "How long open requests may take in total after the editor has closed its connection.",
        LONG_LIVED,
    ),
    Option(
        "mcp-bridge",
        choice(*MCP_KINDS),
        "How the agent reaches the MCP servers of proxies: as programs (`stdio`), at local "
        "addresses (`http`) or over ACP (`acp`). With `auto` conductor takes a transport that the "
        "agent advertises. Choose another value if the agent advertises a transport that it does "
        "not support.",
        page="See [mcp.md](mcp.md).",
    ),
    Option(
        "pin-mcp",
        SWITCH,
        "Reach the editor's MCP servers (stdio and HTTP) in the agent's place. So conductor "
        "compares the tools of these servers too.",
        (*ALL, "lock"),
        page="See [mcp.md](mcp.md#pinned-tools).",
    ),
    Option(
        "changed-tools",
        choice(*ON_CHANGE),
        "The action when an MCP server changes its tools. `ask` asks the user. `keep` keeps the "
        "tools that the user has agreed to. `drop` leaves out all tools of the server. With a lock "
        "file `ask` means `keep`.",
        page="See [mcp.md](mcp.md#pinned-tools).",
    ),
    Option(
        "peer",
        Kind("NAME=COMMAND", peer, many=True),
        "A peer agent, for the component with `allow=peer:NAME` or `allow=agent:NAME`. A JSON list "
        "is a chain in place of the agent. May be repeated.",
        (*ALL, "lock"),
        page='In a file it is a table: `peer.research = "codex-acp"`. See '
        "[Several agents](conversation.md#several-agents).",
    ),
    Option(
        "branch",
        Kind("NAME=PROXIES", peer, many=True),
        "A second chain beside the chain, for `allow=peer:NAME`. It has these proxies, and an "
        "agent like the chain's agent. May be repeated.",
        (*ALL, "lock"),
        page='In a file it is a table: `branch.a = "p1 p2"`. See '
        "[Branches](conversation.md#branches).",
    ),
    _output(
        "--trace",
        FILE,
        "Write every message between components to this file; one JSON object a line. Conductor "
        "overwrites the file.",
        typed=_ONE_WRITER,
        page="See [Traces](log.md#traces).",
    ),
    _output(
        "trace-content",
        choice(*TRACE_CONTENTS),
        "How much of each message traces, rings and audits hold. `redacted` leaves out text that "
        "looks like a secret. `all` holds the whole message. `none` holds only sender, receiver, "
        "method and size.",
    ),
    _output(
        "trace-size",
        OPTIONAL_SIZE,
        "How large the file of `--trace` may become. A full trace ends with a line that says so, "
        "and the chain goes on. `none` sets no limit.",
    ),
    _output(
        "ring",
        OPTIONAL_SIZE,
        "How much memory the messages of the last five minutes may take. Conductor writes them to "
        "a file when a component or the chain fails, and at the signal SIGUSR2. `none` keeps no "
        "messages.",
        page="See [Rings](log.md#rings).",
    ),
    _output(
        "--audit",
        FILE,
        "Append a record of the run to this file: components with their policies, their changes, "
        "their violations and their failures. `conductor log verify` checks the file.",
        page="See [Audits](log.md#audits).",
    ),
    _output(
        "metrics",
        FILE,
        "Write the numbers of the chain and of its proxies to this file, in the text format of "
        "Prometheus. Conductor replaces the file at most once a second.",
        typed=_ONE_WRITER,
        page="See [Numbers](log.md#numbers).",
    ),
    _output(
        "prometheus",
        Kind("PORT", port),
        "Let a Prometheus on this machine read the numbers of the chain at this port. With 0 "
        "conductor takes a free port.",
        typed=_ONE_WRITER,
        page="See [Numbers](log.md#numbers).",
    ),
    _output(
        "otlp",
        Kind("URL|env|none", collector),
        "Send spans and numbers of the chain to this collector of OpenTelemetry, such as "
        "http://127.0.0.1:4318. With `env` the variables `OTEL_…` name the collector.",
        page="Needs the extra `otel`. Spans hold no words of people and agents unless you ask for "
        "them. See [Telemetry](log.md#telemetry).",
    ),
    _output(
        "propagate",
        SWITCH,
        "Pass the W3C trace context to the agent, as `traceparent` in the `_meta` of requests. "
        "Programs get the variable TRACEPARENT. Needs `otlp`.",
        page="See [Trace context](log.md#trace-context).",
    ),
    _limited(
        "keep-values",
        DAYS,
        "How long conductor keeps values of a component (`storage`) that the component does not "
        "use. 0 means for ever.",
        page="See [kept data](reference.md#kept-data).",
    ),
    Option(
        "--dry-run",
        SWITCH,
        "Start nothing; show the components that would run. Show also who set each option, right, "
        "limit and setting.",
        LONG_LIVED,
        typed=LONG_LIVED,
    ),
    Option(
        "--reload",
        SWITCH,
        "Replace a proxy by its new build when its file changes; between two messages. `conductor "
        "ps reload` and SIGHUP replace proxies once, even if no file has changed.",
        page="Both also [change the chain](configuration.md#a-chain-that-changes) if its "
        "configuration has changed.",
        commands=LONG_LIVED,
    ),
    _output(
        "--log",
        choice(*LEVELS),
        "The lowest level of the log. On standard error `info` lists the stages of the chain. "
        "`debug` lists also every message by method and size.",
        default="warning",
        page="Unless it is `debug` or `info`, the log shows at most 20 lines of each component.",
    ),
    _output(
        "log-format",
        choice("text", "json"),
        "The format of the log on standard error. `text` is for people. `json` is one object a "
        "line, with `ts`, `level`, `component` and `text`.",
        page="See [the log as JSON](log.md#the-log-as-json).",
    ),
    _output(
        "log-file",
        OPTIONAL_FILE,
        "Append the log to this file: the stages of the chain with times, warnings, and the "
        "standard error of components. The log file holds no messages. `none` writes no log file.",
        default="a new file for each run in the user's state folder",
        page="See [Log files](log.md#log-files).",
    ),
    Option(
        "control",
        choice("on", "off"),
        "Whether `conductor ps` can reach this chain, by a socket that only you can open.",
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
    return UsageError(f"`{option}` is given twice", "give the option once: it takes one value")


def is_isolated(values: Mapping[str, Any]) -> bool:
    """Whether neither files nor variables count. `values` are the values of a command line."""
    text = os.environ.get(ISOLATED, "")
    return bool(values.get("isolated")) or bool(text and read(ISOLATED, text, switch))


def is_ours(variable: str) -> bool:
    """Whether a variable is meant for conductor's users to set."""
    return variable.startswith(PREFIX) and not variable.startswith(_OTHERS)
