"""The command line of the demo agent.

Parsed by hand from one table: argparse costs a tenth of the agent's start-up time.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any, NamedTuple, NoReturn


class Flags(NamedTuple):
    """The flags of the command line; the defaults are those of a well-behaved agent."""

    http: bool = True
    acp: bool = False
    v2: bool = True
    modes: bool = False
    commands: bool = False
    slow_init: float = 0.0
    """Seconds by which the answer to ``initialize`` is held back."""
    junk_start: int = 0
    """Lines of junk written to stdout before anything else."""
    log: str | None = None
    """Path of the file every frame received and sent is appended to."""
    ignore_eof: bool = False
    ignore_term: bool = False
    exit_at_start: int | None = None
    child: bool = False
    mcp_mode: str = "auto"
    fast: bool = False
    """Whether MCP servers are connected to before ``session/new`` is answered."""


class UsageError(Exception):
    """The command line is wrong; the text names the mistake and the remedy."""


class Help(Exception):  # noqa: N818 - not an error: it asks for the help text
    """``--help`` was given."""


class _Flag(NamedTuple):
    field: str
    meaning: str
    constant: Any = None
    convert: Callable[[str], Any] | None = None
    metavar: str = ""


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _mcp_mode(text: str) -> str:
    if text not in ("auto", "legacy"):
        raise ValueError(text)
    return text


FLAGS: dict[str, _Flag] = {
    "--acp": _Flag("acp", "advertise MCP servers over ACP, and call them natively", True),
    "--http": _Flag(
        "http", "advertise HTTP MCP servers (default; without the library `mcp`, --acp is)", True
    ),
    "--no-http": _Flag("http", "do not advertise HTTP MCP servers", False),
    "--modes": _Flag("modes", "offer the modes ask and code", True),
    "--commands": _Flag(
        "commands", "send available_commands_update in the write that answers session/new", True
    ),
    "--no-v2": _Flag("v2", "speak ACP v1 only", False),
    "--slow-init": _Flag("slow_init", "answer initialize late", None, _seconds, "SECONDS"),
    "--junk-start": _Flag("junk_start", "write N junk lines first", None, _count, "N"),
    "--log": _Flag("log", "append every frame to FILE as JSON lines", None, str, "FILE"),
    "--ignore-eof": _Flag("ignore_eof", "live on after stdin ends", True),
    "--ignore-term": _Flag("ignore_term", "ignore SIGTERM", True),
    "--exit-at-start": _Flag("exit_at_start", "exit at once", None, _count, "CODE"),
    "--child": _Flag("child", "start a sleeping child that shares stdio, log its pid", True),
    "--mcp-mode": _Flag("mcp_mode", "MCP handshake: auto or legacy", None, _mcp_mode, "MODE"),
    "--fast": _Flag("fast", "connect to MCP servers before answering session/new", True),
}


def parse(arguments: list[str]) -> Flags:
    """Flags of the command line (without the program's name); ``--flag=VALUE`` works too.

    Raises UsageError with a hint for an unknown flag or a bad value, and Help for ``--help``.
    """
    values: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("--help", "-h"):
            raise Help
        flag = FLAGS.get(name)
        if flag is None:
            raise UsageError(f"unknown flag {name!r} (hint: --help lists the flags)")
        if flag.convert is None:
            if equals:
                raise UsageError(f"{name} takes no value (hint: write just {name})")
            values[flag.field] = flag.constant
            continue
        if not equals:
            if not rest:
                _bad(name, flag)
            value = rest.pop(0)
        try:
            values[flag.field] = flag.convert(value)
        except ValueError:
            _bad(name, flag, value)
    if values.keys().isdisjoint(("acp", "http")) and PathFinder.find_spec("mcp") is None:
        values |= {"acp": True, "http": False}
    return Flags(**values)


def help_text() -> str:
    """The text that ``--help`` prints."""
    lines = [
        "usage: agent.py [FLAG…]",
        "",
        "Deterministic ACP agent without a model, on stdin and stdout.",
        "Send the prompt /help for its directives. To talk to it: conductor exec demo -p hello",
        "",
    ]
    lines += [f"  {f'{name} {flag.metavar}':24} {flag.meaning}" for name, flag in FLAGS.items()]
    return "\n".join(lines)


def _bad(name: str, flag: _Flag, value: str | None = None) -> NoReturn:
    got = "nothing" if value is None else repr(value)
    raise UsageError(f"{name} got {got} (hint: {name} {flag.metavar}: {flag.meaning})")
