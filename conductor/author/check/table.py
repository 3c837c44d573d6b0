"""The checks there are: a rule each, where it is written, and how it is tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from conductor.author import subject
from conductor.author.check import identity, ids, lines, passing, payloads, robustness, sessions
from conductor.author.check.scripted_chain import Chain

_ABI: Final = "docs/channel-abi.md"

OverChain = Callable[[Chain], Awaitable[None]]
OverLines = Callable[[Callable[[], subject.Target], bytes], None]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One rule and how it is tried."""

    name: str
    rule: str
    """What a component owes, in a sentence."""
    see: str
    """Where that is written."""
    over_chain: OverChain | None = None
    over_lines: OverLines | None = None
    needs: str = ""
    """`guest`, `channel guest` or `program`: others are skipped."""
    limits: dict[str, int] = {}
    loose: dict[str, int] = {}
    """Limits that are widened to this unless the user set them: it is not about those."""
    tight: dict[str, int] = {}
    """Limits under which it is tried first, since that is quicker: it counts only if it passes."""
    services: bool = True
    """Whether it gets the services it was granted."""
    advice: bool = False
    """Whether to break it is only worth a remark."""


def _check(
    name: str, run: OverChain, rule: str, section: str, *, needs: str = "", advice: bool = False,
    limits: dict[str, int] | None = None, tight: dict[str, int] | None = None,
    loose: dict[str, int] | None = None, services: bool = True,
) -> Check:  # fmt: skip
    return Check(
        name=name, rule=rule, see=f"{_ABI}#{section}", over_chain=run, needs=needs, advice=advice,
        limits=limits or {}, tight=tight or {}, loose=loose or {}, services=services,
    )  # fmt: skip


def _lines(name: str, run: OverLines, rule: str, section: str) -> Check:
    return Check(
        name=name, rule=rule, see=f"{_ABI}#{section}", over_lines=run, needs="channel guest"
    )


_KNOWN: Final = "lines"
_NEVER: Final = "what-you-may-never-rely-on"

CHECKS: Final[tuple[Check, ...]] = (
    _check("handshake", sessions.handshake,
           "`initialize` goes on to the successor with all its members, and its answer back",
           "lines"),
    _check("refused-initialize", sessions.refused_initialize,
           "an agent's refusal of `initialize` reaches the client as it is", "lines"),
    _check("requests", passing.requests,
           "requests of methods it does not know pass both ways, and their results back", _KNOWN),
    _check("notifications", passing.notifications,
           "notifications it does not know pass both ways", _KNOWN),
    _check("errors", passing.errors, "errors pass with code, message and data", "ids"),
    _check("unknown-updates", passing.unknown_updates,
           "kinds of updates and methods of later versions pass", _KNOWN),
    _check("meta", passing.meta, "`_meta` of others survives", _NEVER),
    _check("ids", ids.same_ids,
           "each request is answered under its own id, whatever the ids on the other side", "ids"),
    _check("kept-ids", identity.kept_ids,
           "a request is passed on under the id it came with, and answered under that", "ids"),
    _check("own-ids", identity.own_ids,
           "requests of its own have strings for ids, which the conductor's never are", "ids",
           advice=True),
    _check("concurrency", ids.concurrent,
           "many requests may be open at once and be answered in any order", "ids"),
    _check("order", ids.order,
           "what goes one way stays in order; no answer overtakes what was said before", "order"),
    _check("cancellation", ids.cancellation,
           "a cancel goes on to where the request went, under its id there", "cancellation"),
    _check("late-cancels", ids.late_cancels,
           "a cancel for a request that is not open is ignored", "cancellation"),
    _check("numbers", payloads.numbers, "numbers pass as they are written", _NEVER),
    _check("strings", payloads.strings, "strings pass, lone surrogates included", _NEVER),
    _check("repeated-names", payloads.repeated, "names that stand twice pass", _NEVER),
    _check("depth", payloads.deep, "values nested 100 deep pass", "limits"),
    _check("bytes", payloads.bytes_kept,
           "what is not changed is spliced, not written anew: the bytes stay", _NEVER, advice=True),
    _check("1-mb", payloads.large, "messages of one megabyte pass", "limits"),
    _check("10-mb", payloads.very_large, "messages of ten megabytes pass", "limits",
           loose={"cpu_ms": 10_000}),
    _check("memory", payloads.kept_memory,
           "what has passed is not kept: more passes than its memory holds", "limits",
           needs="guest", tight={"memory_bytes": 64 * 1024**2}),
    _check("turn", sessions.turn,
           "a prompt reaches the agent, its updates the client, and the end of the turn last",
           "order"),
    _check("sessions", sessions.side_by_side,
           "sessions side by side do not mix", _NEVER),
    _check("session-cancel", sessions.cancelled_turn,
           "`session/cancel` reaches the agent during a turn", "cancellation"),
    _check("session-load", sessions.replay,
           "a replayed conversation arrives whole, in order, before the answer", "order"),
    _check("permission", sessions.permission,
           "a permission request reaches the user, and the refusal the agent", _KNOWN),
    _check("only-messages", robustness.only_messages,
           "every line it writes is one message: no batches, nothing else", _NEVER),
    _check("answers", robustness.unasked, "every request is answered once", "ids"),
    _check("no-services", robustness.refused_services,
           "a service that is refused is no failure", "errors", services=False),
    _check("message-limit", robustness.too_large,
           "a message beyond its limit is not delivered, and it lives on", "limits",
           needs="guest", limits={"message_bytes": 100_000}),
    _check("depth-limit", robustness.too_deep,
           "a message nested too deeply is not delivered, and it lives on", "limits",
           needs="guest"),
    _check("end-of-input", robustness.end_of_input,
           "it ends by itself, with exit code 0, when its input ends", "carrier-3-wasi-command",
           needs="program"),
    _lines("odd-ids", lines.ids,
           "ids are null, 64-bit integers or strings; the same one may be open on both sides",
           "ids"),
    _lines("side-c", lines.unknown_on_c, "what comes on `c` goes to nobody else",
           "services-side-c"),
    _lines("deliveries", lines.together,
           "how many lines come in one delivery makes no difference", "order"),
)  # fmt: skip
"""Every check, in the order they are run."""
