"""The checks of agents and of conductors, on anybody's program.

A conductor is a component between a scripted client and a scripted agent, as a proxy is: it owes
both ends what a proxy owes them, so its checks are those of proxies that look at the two ends.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

import anyio
import msgspec

from conductor.author.check import agents, ids, passing, sessions
from conductor.author.check.program import AGENT, ProgramChain
from conductor.author.check.scripted_chain import Fault, Skipped, first
from conductor.author.check.suite import TIMEOUT, CheckOutcome
from conductor.author.check.table import CHECKS

GRACE: Final = 5.0
"""Seconds that a program may take to end once its input has ended."""

_PROTOCOL: Final = "agentclientprotocol.com/protocol"
_RPC: Final = "jsonrpc.org/specification"


class Case(msgspec.Struct, frozen=True):
    """One rule and how it is tried on a program."""

    name: str
    run: Callable[[ProgramChain], Coroutine[Any, Any, None]]
    rule: str
    """What the program owes, in a sentence."""
    see: str
    """Where that is written."""
    advice: bool = False
    """Whether to break it is only worth a remark."""


def _acp(page: str) -> str:
    return f"{_PROTOCOL}/{page}"


AGENTS: Final = (
    Case("handshake", agents.handshake,
         "`initialize` is answered with the version and the capabilities", _acp("initialization")),
    Case("later-version", agents.later_version,
         "a client of a later version is answered with a version that the agent has",
         _acp("initialization")),
    Case("unknown-request", agents.unknown_request,
         "a request of a method that it does not know is refused with -32601", _RPC),
    Case("notifications", agents.unknown_notification,
         "a notification is never answered", _RPC),
    Case("ids", agents.ids, "an answer has the id of its request, of whatever kind", _RPC),
    Case("at-once", agents.at_once,
         "many requests are open at once, and each is answered once", _RPC),
    Case("stray-answers", agents.stray_answers,
         "an answer that it has not asked for is ignored", _RPC),
    Case("broken-lines", agents.broken_lines,
         "a line that is no message costs it nothing else", _RPC),
    Case("spaced-lines", agents.spaced_lines,
         "spaces around a message change nothing", _acp("transports"), advice=True),
    Case("sessions", agents.sessions, "each session has an id of its own", _acp("session-setup")),
    Case("bad-params", agents.bad_params,
         "params that lack what a method needs are refused", _RPC),
    Case("unknown-session", agents.unknown_session,
         "a prompt in a session that nobody opened is refused", _acp("prompt-turn")),
    Case("unknown-load", agents.unknown_load,
         "a session that is not there cannot be loaded", _acp("session-setup")),
    Case("odd-mode", agents.odd_mode,
         "a mode that the session does not have cannot be set", _acp("session-modes")),
    Case("turn", agents.turn,
         "a prompt has updates of its session, then its answer", _acp("prompt-turn")),
    Case("side-by-side", agents.side_by_side,
         "turns of two sessions do not mix", _acp("prompt-turn")),
    Case("later-turns", agents.later_turns,
         "a session has as many turns as the user likes", _acp("prompt-turn")),
    Case("cancel", agents.cancelled,
         "a cancelled turn ends with a reason, not with an error", _acp("prompt-turn")),
    Case("nothing-to-cancel", agents.nothing_to_cancel,
         "a cancel where no turn is open is ignored", _acp("prompt-turn")),
    Case("version-2", agents.turn_of_version_2,
         "in version 2 a state says when a turn ends", _acp("prompt-turn")),
    Case("only-messages", agents.only_messages,
         "its standard output holds messages and nothing else", _acp("transports")),
    Case("end-of-input", agents.end_of_input,
         "it ends by itself, with exit code 0, when its input ends", _acp("transports"),
         advice=True),
)  # fmt: skip
"""What a client may expect of an agent, in the order in which it is tried."""

_BOTH_ENDS: Final = frozenset(
    {
        *(sessions.refused_initialize, sessions.turn, sessions.side_by_side),
        *(sessions.cancelled_turn, sessions.replay, sessions.permission),
        *(passing.requests, passing.notifications, passing.errors, passing.unknown_updates),
        *(passing.meta, passing.numbers, passing.strings, passing.repeated, passing.deep),
        *(passing.bytes_kept, passing.large, passing.very_large),
        *(ids.same_ids, ids.concurrent, ids.order, ids.cancellation, ids.late_cancels),
    }
)
"""Checks of proxies that look at the two ends of a chain alone."""

CONDUCTORS: Final = (
    Case("handshake", sessions.handshake,
         "`initialize` reaches the agent, and its answer the client", "docs/channel-abi.md#lines"),
    *(Case(check.name, check.over_chain, check.rule, check.see, check.advice)
      for check in CHECKS if check.over_chain in _BOTH_ENDS),
    Case("end-of-input", agents.end_of_input,
         "it ends by itself, with exit code 0, when its input ends", _acp("transports")),
)  # fmt: skip
"""What both ends may expect of a conductor."""


def cases(words: Sequence[str]) -> tuple[Case, ...]:
    """The cases for a program: a conductor names where its agent stands (`AGENT`)."""
    return CONDUCTORS if AGENT in words else AGENTS


def outcomes(
    words: Sequence[str], chosen: Sequence[str] = (), timeout: float = TIMEOUT
) -> Iterator[CheckOutcome]:
    """Runs cases on a program, each with a process of its own.

    Args:
        words: The command line; `AGENT` in it stands for the scripted agent.
        chosen: Names of cases; empty for all.
        timeout: Seconds that one case may take.

    Raises:
        ComponentError: The program cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="conductor-test-") as place:
        folder = os.path.realpath(place)
        stuck = False
        for case in cases(words):
            if chosen and case.name not in chosen:
                continue
            if stuck:
                yield _outcome(case, "skip", why="it does not get past `initialize`")
                continue
            outcome = asyncio.run(_tried(case, list(words), folder, timeout))
            stuck = outcome.stuck and case is cases(words)[0]
            yield outcome


def _outcome(case: Case, status: str, why: str = "") -> CheckOutcome:
    return CheckOutcome(name=case.name, status=status, rule=case.rule, see=case.see, why=why)


async def _tried(case: Case, words: list[str], folder: str, bound: float) -> CheckOutcome:
    chain = ProgramChain(folder, GRACE)
    async with chain.running(words):
        try:
            with anyio.fail_after(bound):
                await chain.client.opened()
                await first(case.run(chain), chain.over())
            return _outcome(case, "pass")
        except Skipped as reason:
            return _outcome(case, "skip", str(reason))
        except Fault as fault:
            return _failed(case, chain, fault)
        except TimeoutError:
            stuck = Fault(f"nothing more came within {bound:g} s", came=chain.last)
            return msgspec.structs.replace(_failed(case, chain, stuck), stuck=True)


def _failed(case: Case, chain: ProgramChain, fault: Fault) -> CheckOutcome:
    return msgspec.structs.replace(
        _outcome(case, "note" if case.advice else "fail", str(fault)),
        sent=fault.sent,
        came=fault.came,
        traffic=chain.traffic,
        stderr=list(chain.stderr),
    )
