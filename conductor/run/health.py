"""The state of each component of a running chain, in a line (SIGUSR1; docs/log.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from conductor.core import UPSTREAM
from conductor.core.router import Router
from conductor.errors import agrees, counted
from conductor.run.planned import Planned

HAPPENED: Final = {
    "violation": "{} broken",
    "restart": "started again {}",
    "swap": "replaced by a new build {}",
}
"""The events that are counted for each component, and their words."""

_WORDS: Final = {
    "up": "running",
    "starting": "being initialized",
    "loading": "loading its modules",
    "restarting": "being started again",
    "ended": "ended",
}
"""The states of a component, and their words."""


def listed(
    router: Router,
    planned: Mapping[str, Planned],
    happened: Mapping[tuple[str, str], int],
    held: Callable[[str], int],
    paused: Collection[str],
) -> Iterator[tuple[str, str]]:
    """A line about each component, in the order of the chain, and the client first.

    `happened` counts events by kind (`HAPPENED`, `bypass`) and component. `held` returns how many
    bytes wait to be written to a component. `paused` names the paused components. Guests
    of one child are listed each by itself.
    """
    yield UPSTREAM, _busy(UPSTREAM, "", router.pending(), held)
    for name, component in planned.items():
        waiting = len(router.waiting_on(name))
        for guest in component.names:
            left_out = happened.get(("bypass", guest), 0)
            words = "paused" if guest in paused else _WORDS[state(router, name)]
            words = "left out of the chain" if left_out else words
            yield guest, _busy(name, words + _counts(guest, happened), waiting, held)


def state(router: Router, name: str) -> str:
    """The state of a peer: a word of `_WORDS`."""
    peer = router.peers[name]
    if peer.closure is not None:
        return "ended"
    if peer.restarting:
        return "restarting"
    if peer.loading:
        return "loading"
    return "up" if peer.handshake is None else "starting"


def _counts(name: str, happened: Mapping[tuple[str, str], int]) -> str:
    text = ""
    for kind, words in HAPPENED.items():
        count = happened.get((kind, name), 0)
        noun = "rule" if kind == "violation" else "time"
        if count:
            text += ", " + words.format(counted(count, noun))
    return text


def _busy(name: str, state: str, waiting: int, held: Callable[[str], int]) -> str:
    verb = "waits for" if name == UPSTREAM else "owes"
    parts = [state] if state else []
    parts.append(f"{verb} {counted(waiting, 'answer') if waiting else 'no answers'}")
    if (size := held(name)) > 0:
        parts.append(f"{counted(size, 'byte')} {agrees(size, 'waits', 'wait')} to be written to it")
    return ", ".join(parts)
