"""The prompt of `conductor exec` without `-p`: the words behind the agent, else standard input.

A word is a component if it can be one. The words that a person writes behind the agent often can be
components, since 'who are you' begins with a program. So the place counts too: behind an agent
there is no component.
"""

from __future__ import annotations

import os
import select
import shlex
import stat
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from conductor.errors import UsageError, one_line
from conductor.spec import catalog, syntax
from conductor.spec.config.model import Config
from conductor.spec.model import Spec
from conductor.spec.parsed import nothing

STDIN: Final = "-"
"""As a prompt: it is read from standard input."""

_PATIENCE: Final = 1.0
"""Seconds in which a program that starts us with an empty input closes it."""

_Kind: TypeAlias = Literal["agent", "proxy", "program", "none"]
"""The kind of a word: an agent, a proxy, either of the two, or no component."""


def found(words: list[str], *, behind: bool, config: Config | None) -> tuple[list[str], str]:
    """The components of a command line without `-p`, and its prompt.

    Args:
        words: The words before `--`.
        behind: Whether a command follows, behind `--`.
        config: The configuration; None: none.

    Raises:
        UsageError: There is no prompt, or a word may be the agent as well.
    """
    at = _begin(words, behind=behind, config=config)
    if at is not None:
        return words[:at], " ".join(words[at:])
    if is_piped(_PATIENCE):
        return words, STDIN
    if not words and not behind:
        raise nothing("exec")
    _refuse_unknown(words, config)
    chain = shlex.join(words) + " -- …" * behind
    raise UsageError(
        "`conductor exec` needs a prompt",
        f'write the prompt after the agent, or after -p: `conductor exec {chain} -p "what day is '
        'it?"`',
    )


def _begin(words: Sequence[str], *, behind: bool, config: Config | None) -> int | None:
    """The index at which the prompt begins among the words; None: it is not there."""
    # The project may choose the chain, or a command stands behind `--`: then any word may begin it.
    chosen = config is not None and bool(config.choose)
    before: _Kind = "program"
    for at, word in enumerate(words):
        kind = _kind(word, config)
        if before == "agent" and not behind:
            _refuse_components(words, at, config)
            return at
        if (at or behind or chosen) and (before != "proxy" or behind):
            if kind == "none":
                return at
            is_last = at == len(words) - 1
            if is_last and kind == "program" and " " in word:
                _refuse_unclear(word, behind=behind)
                return at
        before = kind
    return None


def _refuse_unknown(words: Sequence[str], config: Config | None) -> None:
    """Raises `UsageError` where a word is no component, and no prompt for lack of an agent."""
    for at, word in enumerate(words):
        if " " in word and _kind(word, config) == "none":
            chain = shlex.join([*words[:at], "demo"])
            raise UsageError(
                f"there is no agent before the prompt `{one_line(word, 40)}`",
                f"put one there: `conductor exec {chain} {shlex.quote(word)}`",
            )
    catalog.resolve_all(words, config=config)


def _refuse_components(words: Sequence[str], at: int, config: Config | None) -> None:
    """Raises `UsageError` where all that is behind an agent names components: that is no prompt."""
    if all(_is_name(word, config) for word in words[at:]):
        raise UsageError(
            f"`{words[at]}` stands behind the agent `{words[at - 1]}`",
            f"the agent is the last component; a prompt is written behind -p: `-p {words[at]}`",
        )


def _refuse_unclear(word: str, *, behind: bool) -> None:
    """Raises `UsageError` where standard input may be the prompt, and a command the agent."""
    if not behind and is_piped(_PATIENCE):
        raise UsageError(
            f"`{word}` may be the agent or the prompt",
            f"`-p {shlex.quote(word)}` makes it the prompt; with `-p -` standard input is it",
        )


def _kind(word: str, config: Config | None) -> _Kind:
    from conductor.spec import agents

    base = syntax.split(word)[0]
    if agents.named(base) is not None:
        return "agent"  # also an agent that is not installed
    spec = _last(word, config)
    if spec is None:
        return "none"
    known = agents.of_command(spec.command or ()) is not None
    if known or (spec.manifest is not None and spec.manifest.kind == "agent"):
        return "agent"
    return "proxy" if spec.sandboxed or spec.manifest is not None else "program"


def _last(word: str, config: Config | None) -> Spec | None:
    """The last component that a word stands for; None: it stands for none."""
    try:
        return catalog.resolve_all([word], config=config)[-1]
    except (UsageError, IndexError):
        return None


def _is_name(word: str, config: Config | None) -> bool:
    """Whether a word names a component, rather than a program or nothing."""
    from conductor.spec import agents

    base = syntax.split(word)[0]
    if agents.named(base) is not None:
        return True
    if config is not None and base.removeprefix("@") in {*config.chains, *config.components}:
        return True
    spec = _last(word, config)
    return spec is not None and (spec.bundled is not None or spec.receipt is not None)


def is_piped(patience: float = 0.0) -> bool:
    """Whether standard input is a pipe or a file, and something may come of it. `patience`: seconds
    for which it is waited until that is sure."""
    try:
        found = os.fstat(0)
    except OSError:
        return False
    if stat.S_ISREG(found.st_mode):
        return found.st_size > 0
    # Of a pipe that is closed and empty nothing comes: a program has started us without any input.
    pipe = stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode)
    return pipe and _events(patience) != select.POLLHUP


def is_unread() -> bool:
    """Whether something stands in a pipe that is standard input. A file may be a loop's."""
    return is_piped() and not stat.S_ISREG(os.fstat(0).st_mode) and bool(_events() & select.POLLIN)


def _events(patience: float = 0.0) -> int:
    """The events of standard input, as `poll` returns them, after so many seconds at most."""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    return sum(events for _, events in poll.poll(patience * 1000))
