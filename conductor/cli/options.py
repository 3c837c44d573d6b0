"""The options of `agent`, `proxy` and `exec` as typer sees them, and how their texts are read.

The same table as in `conductor.cli.fast` reads the values, so both parsers agree. Commands
take them by `conductor.cli.chain_options`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import typer

from conductor.cli import fast
from conductor.core.dialects import DIALECTS
from conductor.errors import UsageError
from conductor.mcp import KINDS as MCP_KINDS
from conductor.run.plan import ISOLATIONS, TRACE_CONTENTS, Options
from conductor.spec.paths import LOCK_FILE

Value = TypeVar("Value")

_DEFAULTS: Final = Options()
_SANDBOX: Final = "Sandbox"
_LIMITS: Final = "Limits"
_OUTPUT: Final = "Output"


def paragraphs(*texts: str) -> str:
    """Help text; each paragraph is wrapped by itself."""
    return "\n\n".join(texts)


def _option(*names: str, what: str, panel: str, metavar: str | None = None) -> object:
    return typer.Option(
        *names, help=what, metavar=metavar, rich_help_panel=panel, show_default=False
    )


Components = Annotated[
    list[str],
    typer.Argument(
        metavar="COMPONENT",
        help="The proxies from the editor's side on, then the agent; see above for how to "
        "write one.",
        show_default=False,
    ),
]
Lockable = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="The components as `agent`, `proxy` and `exec` take them.",
        show_default=False,
    ),
]
Proxies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="The proxies, from the editor's side on; see above for how to write one. Without "
        "any, all passes as it is.",
        show_default=False,
    ),
]
AsProxy = Annotated[
    bool,
    _option(
        "--proxy",
        what="Run as `conductor proxy` does. Without it the first message received decides.",
        panel="Options",
    ),
]
Watch = Annotated[
    bool,
    _option(
        "--watch",
        what="Replace a proxy by its new build when its file changes, between two messages. "
        "SIGHUP does it once.",
        panel="Options",
    ),
]
Dialect = Annotated[
    str | None,
    _option(
        "--dialect",
        what=f"What the conductor above speaks: {', '.join(DIALECTS)}. Without it, detected.",
        panel="Options",
        metavar="NAME",
    ),
]
RequireSandbox = Annotated[
    bool,
    _option(
        "--require-sandbox",
        what="Refuse any proxy that is not sandboxed: commands and Python code. The agent is "
        "exempt.",
        panel=_SANDBOX,
    ),
]
RequireHardening = Annotated[
    bool,
    _option(
        "--require-hardening",
        what="Refuse to run sandboxed proxies unless this system locks up their process as well; "
        "`conductor doctor` shows whether it does.",
        panel=_SANDBOX,
    ),
]
Locked = Annotated[
    bool,
    _option(
        "--locked",
        what="Refuse components that are not what `conductor lock` wrote down, or may do more.",
        panel=_SANDBOX,
    ),
]
LockFile = Annotated[
    str | None,
    _option(
        "--lock-file",
        what=f"The lock file to hold the chain to, as --locked does. Default: {LOCK_FILE}.",
        panel=_SANDBOX,
        metavar="FILE",
    ),
]
Isolation = Annotated[
    str | None,
    _option(
        "--isolation",
        what="Where sandboxed proxies run: `process`, neighbours together in one child process; "
        "`separate`, each in a child of its own; `inline`, in this process. Default: process.",
        panel=_SANDBOX,
        metavar="|".join(ISOLATIONS),
    ),
]
Cache = Annotated[
    str | None,
    _option(
        "--cache",
        what="Folder for compiled modules. Default: one in the user's cache folder.",
        panel=_SANDBOX,
        metavar="FOLDER",
    ),
]
Clock = Annotated[
    str | None,
    _option(
        "--clock",
        what="What proxies are told when they ask for the time, such as "
        "2026-03-01T12:00:00+01:00; for runs that can be repeated. Default: the time.",
        panel=_SANDBOX,
        metavar="TIME",
    ),
]
LineLimit = Annotated[
    str | None,
    _option(
        "--line-limit",
        what="Longest message taken; a longer one is skipped and its request answered with an "
        f"error. Default: {_DEFAULTS.line_limit // 1024**2}M.",
        panel=_LIMITS,
        metavar="SIZE",
    ),
]
Stall = Annotated[
    str | None,
    _option(
        "--stall",
        what="How long a component may take nothing while others wait for it to. "
        f"Default: {_DEFAULTS.stall:g}.",
        panel=_LIMITS,
        metavar="SECONDS",
    ),
]
Grace = Annotated[
    str | None,
    _option(
        "--grace",
        what="What a component gets to end before each harder step (end of its input, SIGTERM, "
        f"SIGKILL). Default: {_DEFAULTS.grace:g}.",
        panel=_LIMITS,
        metavar="SECONDS",
    ),
]
Drain = Annotated[
    str | None,
    _option(
        "--drain",
        what="When the editor has closed its end: how long requests still open may go without a "
        f"message. Default: {_DEFAULTS.drain:g}.",
        panel=_LIMITS,
        metavar="SECONDS",
    ),
]
DrainTotal = Annotated[
    str | None,
    _option(
        "--drain-total",
        what="When the editor has closed its end: how long requests still open may take "
        f"altogether. Default: {_DEFAULTS.drain_total:g}.",
        panel=_LIMITS,
        metavar="SECONDS",
    ),
]
McpBridge = Annotated[
    str | None,
    _option(
        "--mcp-bridge",
        what="How the agent is given the MCP servers of proxies: as programs (`stdio`), at local "
        "addresses (`http`), over ACP (`acp`), or by what it says it takes (`auto`, the default).",
        panel="Options",
        metavar="|".join(MCP_KINDS),
    ),
]
Trace = Annotated[
    str | None,
    _option(
        "--trace",
        what="File that every message between components is written to, one JSON object a line. "
        "What is in it is overwritten.",
        panel=_OUTPUT,
        metavar="FILE",
    ),
]
TraceContent = Annotated[
    str | None,
    _option(
        "--trace-content",
        what="What of each message is traced: all of it; all but what looks like a secret; or "
        "nothing but who, when, which method and how many bytes. Default: redacted.",
        panel=_OUTPUT,
        metavar="|".join(TRACE_CONTENTS),
    ),
]
Audit = Annotated[
    str | None,
    _option(
        "--audit",
        what="File that goes on record: which components ran under which policy, what they tried "
        "against it, how they failed. What is in it is continued; `conductor audit verify` checks "
        "it.",
        panel=_OUTPUT,
        metavar="FILE",
    ),
]
Metrics = Annotated[
    str | None,
    _option(
        "--metrics",
        what="File that the numbers which proxies count are kept in, as text that Prometheus "
        "understands; it is replaced once a second at most.",
        panel=_OUTPUT,
        metavar="FILE",
    ),
]
Log = Annotated[
    str | None,
    _option(
        "--log",
        what="What is told on standard error. Default: warning.",
        panel=_OUTPUT,
        metavar="|".join(fast.LEVELS),
    ),
]
Verbose = Annotated[bool, _option(*fast.VERBOSE, what="The same as --log debug.", panel=_OUTPUT)]


def read(option: str, text: str, reader: Callable[[str], Value]) -> Value:
    """The value of an option. Raises `UsageError`."""
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(f"invalid value `{text}` for `{option}`", str(error)) from None
