"""The checks of agents and of conductors, on anybody's program.

A conductor is a component between a scripted client and a scripted agent, as a proxy is. It has the
duties of a proxy at both ends, so its checks are the checks of proxies that look at the two ends.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

import anyio

from conductor.author.check import agents, ids, passing, sessions
from conductor.author.check.program import AGENT, ProgramChain
from conductor.author.check.scripted_chain import first
from conductor.author.check.scripted_end import Fault, Skipped
from conductor.author.check.suite import TIMEOUT, CheckOutcome, outcome_of, outcome_of_fault
from conductor.author.check.table import CHECKS, Check
from conductor.spec import managed
from conductor.spec.model import Spec
from conductor.spec.programs import which

GRACE: Final = 5.0
"""Seconds that a program may take to end once its input has ended."""

_RPC: Final = "https://jsonrpc.org/specification"
_ACP: Final = "https://agentclientprotocol.com/protocol"
_INITIALIZE: Final = f"{_ACP}/initialization"
_TRANSPORTS: Final = f"{_ACP}/transports"
_SESSIONS: Final = f"{_ACP}/session-setup"
_MODES: Final = f"{_ACP}/session-modes"
_TURNS: Final = f"{_ACP}/prompt-turn"

AGENTS: Final = (
    Check("handshake", agents.handshake,
         "`initialize` is answered with the version and the capabilities", _INITIALIZE),
    Check("later-version", agents.later_version,
         "a client of a later version is answered with a version that the agent has",
         _INITIALIZE),
    Check("unknown-request", agents.unknown_request,
         "a request of a method that it does not know is refused with -32601", _RPC),
    Check("notifications", agents.unknown_notification,
         "a notification is never answered", _RPC),
    Check("ids", agents.ids, "an answer has the id of its request, of whatever kind", _RPC),
    Check("at-once", agents.at_once,
         "many requests are open at once, and each is answered once", _RPC),
    Check("stray-answers", agents.stray_answers,
         "an answer that it has not asked for is ignored", _RPC),
    Check("broken-lines", agents.broken_lines,
         "a line that is no message costs it nothing else", _RPC),
    Check("spaced-lines", agents.spaced_lines,
         "spaces around a message change nothing", _TRANSPORTS, advice=True),
    Check("sessions", agents.sessions, "each session has an id of its own", _SESSIONS),
    Check("bad-params", agents.bad_params,
         "params without a required member are refused", _RPC),
    Check("unknown-session", agents.unknown_session,
         "a prompt in a session that nobody opened is refused", _TURNS),
    Check("unknown-load", agents.unknown_load,
         "a session that is not there cannot be loaded", _SESSIONS),
    Check("odd-mode", agents.odd_mode,
         "a mode that the session does not have cannot be set", _MODES),
    Check("turn", agents.turn,
         "a prompt has updates of its session, then its answer", _TURNS),
    Check("side-by-side", agents.side_by_side,
         "turns of two sessions do not mix", _TURNS),
    Check("later-turns", agents.later_turns,
         "a session has as many turns as the user likes", _TURNS),
    Check("cancel", agents.cancelled,
         "a cancelled turn ends with a reason, not with an error", _TURNS),
    Check("nothing-to-cancel", agents.nothing_to_cancel,
         "a cancel where no turn is open is ignored", _TURNS),
    Check("version-2", agents.turn_of_version_2,
         "in version 2 a state says when a turn ends", _TURNS),
    Check("only-messages", agents.only_messages,
         "its standard output holds messages and nothing else", _TRANSPORTS),
    Check("end-of-input", agents.end_of_input,
         "it ends by itself, with exit code 0, when its input ends", _TRANSPORTS,
         advice=True),
)  # fmt: skip
"""The checks of an agent's duties to a client, in the order in which they are tried."""

_BOTH_ENDS: Final = frozenset(
    {
        *(sessions.handshake, sessions.refused_initialize),
        *(sessions.turn, sessions.side_by_side),
        *(sessions.cancelled_turn, sessions.replay, sessions.permission),
        *(passing.requests, passing.notifications, passing.errors, passing.unknown_updates),
        *(passing.meta, passing.numbers, passing.strings, passing.repeated, passing.deep),
        *(passing.bytes_kept, passing.large, passing.very_large),
        *(ids.same_ids, ids.concurrent, ids.order, ids.cancellation, ids.late_cancels),
    }
)
"""Checks of proxies that look at the two ends of a chain alone."""

CONDUCTORS: Final = (
    *(check for check in CHECKS if check.over_chain in _BOTH_ENDS),
    Check("end-of-input", agents.end_of_input,
         "it ends by itself, with exit code 0, when its input ends", _TRANSPORTS),
)  # fmt: skip
"""The checks of a conductor's duties at both ends."""


def checks(words: Sequence[str]) -> tuple[Check, ...]:
    """The checks of a program: a conductor names where its agent stands (`AGENT`)."""
    return CONDUCTORS if AGENT in words else AGENTS


def outcomes(
    words: Sequence[str], chosen: Sequence[str] = (), timeout: float = TIMEOUT
) -> Iterator[CheckOutcome]:
    """Runs checks on a program, each with a process of its own.

    Args:
        words: The command line; `AGENT` in it stands for the scripted agent.
        chosen: Names of checks; empty for all.
        timeout: Seconds that one check may take.

    Raises:
        ConductorError: The program cannot be started, or the managed policy forbids it.
    """
    command = [which(words[0]) or words[0], *words[1:]]
    spec = managed.tried(Spec(name=words[0], source=words[0], command=command), agent=True)
    command, every = spec.command or command, checks(words)
    with tempfile.TemporaryDirectory(prefix="conductor-test-") as place:
        folder = os.path.realpath(place)
        stuck = False
        for check in every:
            if chosen and check.name not in chosen:
                continue
            if stuck:
                yield outcome_of(check, "skip", why="it does not get past `initialize`")
                continue
            outcome = asyncio.run(_tried(check, command, folder, timeout))
            stuck = outcome.stuck and check is every[0]
            yield outcome


async def _tried(check: Check, words: list[str], folder: str, bound: float) -> CheckOutcome:
    assert check.over_chain is not None
    chain = ProgramChain(folder, GRACE)
    async with chain.running(words):
        try:
            with anyio.fail_after(bound):
                await chain.client.opened()
                await first(check.over_chain(chain), chain.over())
            return outcome_of(check, "pass")
        except Skipped as reason:
            return outcome_of(check, "skip", why=str(reason))
        except Fault as fault:
            return outcome_of_fault(check, fault, chain)
        except TimeoutError:
            late = Fault(f"nothing more came within {bound:g} s", came=chain.last)
            return outcome_of_fault(check, late, chain, stuck=True)
