"""The checks there are: a rule each, where it is written, and how it is tried."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from conductor.author.check import ids, passing, robustness, sessions, tools
from conductor.author.subject import Subject

OverChain = Callable[..., Coroutine[Any, Any, None]]
"""Takes a `ScriptedChain`; of a check of agents, a `ProgramChain`."""
OverLines = Callable[[Callable[[], Subject], bytes], None]
"""Takes a maker of instances, and the `config` for their `configure`."""


class Check(msgspec.Struct, frozen=True):
    """One rule and how it is tried: over a chain, or by lines to a guest without a chain."""

    name: str
    over_chain: OverChain | None
    rule: str
    """The duty of a component, in a sentence."""
    section: str
    """The place of the rule: a heading of docs/architecture.md, unless it names another page or an
    address."""
    over_lines: OverLines | None = None
    needs: str = ""
    """`guest`, `channel guest` or `program`: other kinds are skipped."""
    limits: dict[str, int] = {}
    """The limits of the component in this check, unless the user set lower ones."""
    loose: dict[str, int] = {}
    """Limits that are widened to this unless the user set them: the check is not about those."""
    tight: dict[str, int] = {}
    """Limits to try first, since that is quicker; only a pass counts."""
    services: bool = True
    """Whether it gets the services it was granted."""
    bridge: str = "acp"
    """How the agent gets MCP servers (`conductor.mcp.KINDS`)."""
    advice: bool = False
    """Whether breaking the rule is only worth a remark."""

    @property
    def see(self) -> str:
        """The place where the rule is written."""
        if self.section.startswith("https://"):
            return self.section
        page = "" if "#" in self.section else "architecture.md#"
        return f"docs/{page}{self.section}"


_KNOWN: Final = "lines"
_NEVER: Final = "never-rely-on"

CHECKS: Final[tuple[Check, ...]] = (
    Check("handshake", sessions.handshake,
          "`initialize` goes on to the successor with all its members, and its answer back",
          "lines"),
    Check("refused-initialize", sessions.refused_initialize,
          "an agent's refusal of `initialize` reaches the client as it is", "lines"),
    Check("requests", passing.requests,
          "requests of methods it does not know pass both ways, and their results back", _KNOWN),
    Check("notifications", passing.notifications,
          "notifications it does not know pass both ways", _KNOWN),
    Check("errors", passing.errors, "errors pass with code, message and data", "ids"),
    Check("unknown-updates", passing.unknown_updates,
          "kinds of updates and methods of later versions pass", _KNOWN),
    Check("meta", passing.meta, "`_meta` of others survives", _NEVER),
    Check("ids", ids.same_ids,
          "each request is answered under its own id, whatever the ids on the other side", "ids"),
    Check("kept-ids", ids.kept_ids,
          "a request is passed on under the id it came with, and answered under that", "ids"),
    Check("own-ids", ids.own_ids,
          "requests of its own have strings for ids, which the conductor's never are", "ids",
          advice=True),
    Check("concurrency", ids.concurrent,
          "many requests may be open at once and be answered in any order", "ids"),
    Check("order", ids.order,
          "lines of one direction stay in order; no answer overtakes a line before it", "order"),
    Check("cancellation", ids.cancellation,
          "a cancel goes on to where the request went, under its id there", "cancellation"),
    Check("late-cancels", ids.late_cancels,
          "a cancel for a request that is not open is ignored", "cancellation"),
    Check("numbers", passing.numbers, "numbers pass as they are written", _NEVER),
    Check("strings", passing.strings, "strings pass, lone surrogates included", _NEVER),
    Check("repeated-names", passing.repeated, "names that stand twice pass", _NEVER),
    Check("depth", passing.deep, "values nested 100 deep pass", "limits-of-the-channel"),
    Check("bytes", passing.bytes_kept,
          "unchanged parts are spliced, not written anew: their bytes stay", _NEVER, advice=True),
    Check("1-mb", passing.large, "messages of one megabyte pass", "limits-of-the-channel"),
    Check("10-mb", passing.very_large, "messages of ten megabytes pass", "limits-of-the-channel",
          loose={"cpu_ms": 10_000}),
    Check("memory", passing.kept_memory,
          "passed messages are not kept: more pass than its memory holds", "limits-of-the-channel",
          needs="guest", tight={"memory_bytes": 64 * 1024**2}),
    Check("turn", sessions.turn,
          "a prompt reaches the agent, its updates the client, and the end of the turn last",
          "order"),
    Check("sessions", sessions.side_by_side,
          "sessions side by side do not mix", _NEVER),
    Check("session-cancel", sessions.cancelled_turn,
          "`session/cancel` reaches the agent during a turn", "cancellation"),
    Check("session-load", sessions.replay,
          "a replayed conversation arrives whole, in order, before the answer", "order"),
    Check("permission", sessions.permission,
          "a permission request reaches the user, and the refusal the agent", _KNOWN),
    Check("tool-names", tools.tool_names,
          f"names of tools have at most {tools.LONGEST} characters: models take no longer ones",
          "mcp.md#messages-of-servers", bridge="stdio", advice=True),
    Check("only-messages", robustness.only_messages,
          "every line it writes is one message: no batches, nothing else", _NEVER),
    Check("answers", robustness.answered_once, "every request is answered once", "ids"),
    Check("no-services", robustness.refused_services,
          "a service that is refused is no failure", "errors", services=False),
    Check("message-limit", robustness.too_large,
          "a message beyond its limit is not delivered, and it lives on", "limits-of-the-channel",
          needs="guest", limits={"message_bytes": 100_000}),
    Check("depth-limit", robustness.too_deep,
          "a message nested too deeply is not delivered, and it lives on", "limits-of-the-channel",
          needs="guest"),
    Check("end-of-input", robustness.end_of_input,
          "it ends by itself, with exit code 0, when its input ends", "carrier-3-wasi-command",
          needs="program"),
    Check("odd-ids", None,
          "ids are null, 64-bit integers or strings; the same one may be open on both sides",
          "ids", over_lines=robustness.odd_ids, needs="channel guest"),
    Check("side-c", None, "messages on `c` go to nobody else", "services-side-c",
          over_lines=robustness.unknown_on_c, needs="channel guest"),
    Check("deliveries", None,
          "how many lines come in one delivery makes no difference", "order",
          over_lines=robustness.together, needs="channel guest"),
)  # fmt: skip
"""Every check, in the order they are run."""
