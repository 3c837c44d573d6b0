"""`conductor exec COMPONENT… -p PROMPT`: sends one prompt through a chain, from the terminal.

A person waits for the agent: it is started before `conductor.cli.exec_run` is imported, which has
the event loop.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import configured, exec_prompt, report, silence
from conductor.cli.started import Started
from conductor.errors import ConductorError, UsageError
from conductor.run import spawn
from conductor.spec import paths
from conductor.spec.consent import Where
from conductor.spec.parsed import assemble, read

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed

EXIT_FAILED: Final = 1
EXIT_TIMEOUT: Final = 3
EXIT_NO_SESSION: Final = 4
EXIT_REFUSED: Final = 5
EXIT_INTERRUPTED: Final = 130


class Asked(msgspec.Struct, frozen=True):
    """The prompt for the agent, and how it is asked."""

    prompt: str
    """Its text."""
    reads_input: bool
    """Whether it came from standard input."""
    cwd: str
    """The session's folder."""
    permissions: str
    """`deny`, `ask` or `allow-once`."""
    fs: str
    json: bool
    timeout: float | None


def reported(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """As `command`, with its errors reported."""
    try:
        return command(words, rest, values)
    except ConductorError as error:
        report.error(error.text, error.hint)
        return error.exit_code
    except BrokenPipeError:
        report.forget_output()  # its reader has gone
        return EXIT_FAILED
    finally:
        spawn.discard()


def command(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """Sends the prompt of a command line through its chain; the exit code.

    Args:
        words: The words before `--`: components, and the prompt where `values` have none.
        rest: The words after `--`; None: there is no `--`.
        values: The options that are set.

    Raises:
        ConductorError: The command line is wrong, or the chain cannot be started.
    """
    if "prompt" not in values:
        config = read(values)
        with silence.during("reading the chain"):
            found, prompt = exec_prompt.found(words, behind=rest is not None, config=config)
        words, values = found, {**values, "prompt": prompt}
    parsed = configured.applied(assemble("exec", words, rest, **values))
    return execute(parsed, **parsed.values)


def execute(
    parsed: Parsed,
    *,
    prompt: str,
    cwd: str = ".",
    permissions: str | None = None,
    fs: str = "none",
    timeout: float | None = None,
    json: bool = False,
    **_: Any,
) -> int:
    """Runs one turn; the exit code: see `conductor exec --help`. Raises `ConductorError`.

    The parameters behind `parsed` are the options of `conductor exec`; `parsed` holds the options
    that `agent` has too.
    """
    # drain: once the turn is over the chain need not wait for any open request.
    chain = msgspec.structs.replace(parsed.options, drain=0.0)
    parsed = msgspec.structs.replace(parsed, options=chain)
    if timeout == 0:
        raise UsageError("`--timeout 0` leaves no time for an answer", "leave it out for no limit")
    lend_terminal()
    text, answers = _prompt(prompt), _permissions(permissions, prompt)
    reads, folder = prompt == exec_prompt.STDIN, paths.session_folder(cwd, "--cwd")
    asked = Asked(text, reads, folder, answers, fs, json, timeout)
    with silence.during("preparing the chain"):
        started = Started(parsed, Where.TERMINAL if _on_terminal(prompt) else Where.NOWHERE)
    spawn.discard()  # nobody took the host: a word of the prompt looked like a guest
    started.load_loop()
    from conductor.cli import exec_run

    return exec_run.run(started, asked)


def lend_terminal() -> None:
    """Names the user's terminal to programs of the chain: a debugger in one of them may use it."""
    with contextlib.suppress(OSError, AttributeError):
        os.environ.setdefault("CONDUCTOR_TERMINAL", os.ttyname(2))


def _prompt(text: str) -> str:
    """The prompt's text, read from standard input for `-`. Raises `UsageError`."""
    if text == exec_prompt.STDIN:
        text = sys.stdin.buffer.read().decode(errors="replace")
    if not text.strip():
        raise UsageError("the prompt is empty", 'write one: -p "what day is it?"')
    return text


def _permissions(mode: str | None, prompt: str) -> str:
    """`deny`, `ask` or `allow-once`; by default `ask` on a terminal. Raises `UsageError`."""
    terminal = _on_terminal(prompt)
    if mode is None:
        return "ask" if terminal else "deny"
    if mode == "ask" and not terminal:
        raise UsageError(
            "there is no terminal to ask for permission on",
            "use --permissions deny or --permissions allow-once",
        )
    return {"none": "deny", "once": "allow-once"}.get(mode, mode)


def _on_terminal(prompt: str) -> bool:
    """Whether somebody can be asked; a prompt from standard input leaves nobody to answer."""
    return os.isatty(0) and os.isatty(2) and prompt != exec_prompt.STDIN and not report.is_json()
