"""Warns when a session has used much of its tokens or money, and stops it when all is used.

conductor agent budget,config.cost=2.5,config.tokens=500000 claude-agent-acp
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from guest_sdk.python import Proxy, Request, Session, Update

PARTS = ("inputTokens", "outputTokens", "thoughtTokens", "cachedReadTokens", "cachedWriteTokens")


@dataclass
class Config:
    """The settings; README.md explains each."""

    tokens: int = 0
    cost: float = 0
    currency: str = ""
    warn: float = 0.8
    turns: Literal["sum", "total"] = "sum"
    cancel: bool = True

    def __post_init__(self) -> None:
        if self.tokens < 0 or not 0 <= self.cost < math.inf:
            raise ValueError("`tokens` and `cost` are 0, for no limit, or more")
        if not 0 < self.warn <= 1:
            raise ValueError("`warn` is a part of 1, such as 0.8")


@dataclass
class Spent:
    """The use of a session, as far as the agent reports it."""

    turns: int = 0
    """Tokens, by the ends of turns."""
    context: int = 0
    """The most tokens that have been in the context."""
    cost: float = 0
    currency: str = ""
    asked: int = 0
    """Prompts the agent has not answered."""
    busy: bool = False
    """Whether a turn of ACP v2 runs."""
    warned: bool = False
    stopped: bool = False
    """Whether the user was told that the budget is used up."""


KEPT = ("turns", "context", "cost", "currency", "busy", "warned", "stopped")
"""The members kept for the next instance of this proxy; prompts that were open have failed by
then."""


proxy = Proxy(
    "budget",
    description="Warns when a session has used much of its budget, and stops it when all is used.",
    config=Config,
    session=Spent,
)


# -- what was used ---------------------------------------------------------------------------------


def number(value: Any) -> float:
    """A count or an amount; any other value counts nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 0 <= value < math.inf else 0


def turn_ended(spent: Spent, usage: Any) -> None:
    """Adds the usage that the end of a turn reports."""
    if not isinstance(usage, dict):
        return
    tokens = number(usage.get("totalTokens")) or sum(number(usage.get(part)) for part in PARTS)
    if proxy.config.turns == "sum":
        spent.turns += int(tokens)
    else:
        spent.turns = max(spent.turns, int(tokens))


def reported(spent: Spent, update: dict[str, Any]) -> None:
    """Takes note of a `usage_update`, whose amounts are those of the whole session."""
    spent.context = max(spent.context, int(number(update.get("used"))))
    cost = update.get("cost")
    if not isinstance(cost, dict):
        return
    currency, wanted = str(cost.get("currency", ""))[:40], proxy.config.currency
    if wanted and currency.upper() != wanted.upper():
        if not spent.currency:
            proxy.log.warn(f"the agent reports {currency}, not {wanted}: the cost is not limited")
            spent.currency = currency
        return
    spent.currency = currency
    spent.cost = max(spent.cost, number(cost.get("amount")))


def used(spent: Spent) -> tuple[float, str]:
    """The part of the budget that is used, and how to say so: of its two halves the larger."""
    config = proxy.config
    found = [(0.0, "")]
    if config.tokens:
        tokens = max(spent.turns, spent.context)
        found.append((tokens / config.tokens, f"{tokens:,} of {config.tokens:,} tokens"))
    if config.cost:
        currency = f" {spent.currency}" if spent.currency else ""
        amounts = f"{spent.cost:.4g} of {config.cost:.4g}{currency}"
        found.append((spent.cost / config.cost, amounts))
    return max(found)


def unreported(spent: Spent) -> str:
    """The limits whose use the agent has not reported, joined; they cannot be enforced."""
    config = proxy.config
    silent = []
    if config.tokens and not spent.turns and not spent.context:
        silent.append("tokens")
    if config.cost and not spent.cost and not spent.currency:
        silent.append("cost")
    return " and no ".join(silent)


# -- what becomes of it ----------------------------------------------------------------------------


def look(session: Session) -> None:
    """Warns, or stops the turn that runs, if it is time to."""
    spent = session.state
    part, told = used(spent)
    if part >= 1 and not spent.stopped:
        spent.stopped = spent.warned = True
        stops = (spent.asked > 0 or spent.busy) and proxy.config.cancel
        session.say(f"\n[budget: used up, {told}{'; this turn is stopped' if stops else ''}]\n")
        if stops:
            proxy.tell_agent("session/cancel", sessionId=session.id)
    elif part >= proxy.config.warn and not spent.warned:
        spent.warned = True
        session.say(f"\n[budget: {told} used]\n")


@dataclass
class Told:
    """Whether the user knows that the agent reports nothing."""

    silent: bool = False


told_once = Told()


@proxy.on_start
def started() -> None:
    told_once.silent = told_once.silent or bool(proxy.kept("silent"))


def notice(session: Session, stop: Any) -> None:
    """Says once, behind a turn that went well, which use the agent does not report."""
    silent = unreported(session.state)
    if stop == "end_turn" and silent and not told_once.silent:
        told_once.silent = True
        proxy.keep("silent", True)
        session.say(f"\n[budget: the agent reports no {silent}, so that is not limited]\n")


@proxy.update("usage_update", "state_update")
def updated(update: Update) -> None:
    if update.kind == "usage_update":
        reported(update.state, update.update)
    else:
        update.state.busy = update.update.get("state") != "idle"
        if not update.state.busy:
            turn_ended(update.state, update.update.get("usage"))
            if not update.replayed:
                notice(update.session, update.update.get("stopReason"))
    if not update.replayed:
        look(update.session)
    update.session.keep(*KEPT)


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    if request.direction != "down" or not isinstance(request.params.get("sessionId"), str):
        return await following(request)
    part, told = used(request.state)
    if part >= 1:
        return request.refuse(
            f"used up, {told} in this session; a new session has a budget of its own"
        )
    request.state.asked += 1
    try:
        result = await following(request)
    finally:
        request.state.asked -= 1
    if isinstance(result, dict) and "stopReason" in result:
        turn_ended(request.state, result.get("usage"))
        notice(request.session, result["stopReason"])
        look(request.session)
    else:
        request.state.busy = True  # in ACP v2, whose turns end by an update
    request.session.keep(*KEPT)
    return result


if __name__ == "__main__":
    proxy.run()
