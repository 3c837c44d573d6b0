"""Lets so many prompts pass in so much time, and refuses or delays the rest.

conductor agent rate-limit,config.prompts=5,config.seconds=60 claude-agent-acp
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Proxy, Refused, Request

A_WEEK = 7 * 24 * 3600
"""Seconds: no timer runs for longer."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    prompts: int = 10
    seconds: float = 60
    per: Literal["session", "all"] = "session"
    over: Literal["refuse", "wait"] = "refuse"

    def __post_init__(self) -> None:
        if self.prompts < 1:
            raise ValueError("`prompts` must be at least 1")
        if not 0 < self.seconds < math.inf:
            raise ValueError("`seconds` must be more than 0")
        if self.over == "wait" and self.seconds > A_WEEK:
            raise ValueError(f"`seconds` is at most {A_WEEK}, a week, where prompts wait")


@dataclass
class Passed:
    """When prompts have passed, and when those that wait will, in milliseconds since 1970; the
    oldest first."""

    at: list[int] = field(default_factory=list)
    due: list[int] = field(default_factory=list)


proxy = Proxy(
    "rate-limit",
    description="Lets so many prompts pass in so much time, and refuses or delays the rest.",
    config=Config,
    session=Passed,
)
everybody = Passed()
ALL = "all"
"""The key under which `everybody` is kept for the next instance of this proxy."""


@proxy.on_start
def started() -> None:
    everybody.at = everybody.at or proxy.kept(ALL) or []


def keep(request: Request, passed: Passed) -> None:
    """Keeps the passed prompts: a restart is no way around the limit. Waiting prompts end with
    us."""
    if passed is everybody:
        proxy.keep(ALL, passed.at)
    else:
        request.session.keep("at")


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    config = proxy.config
    one = isinstance(request.params, dict) and isinstance(request.params.get("sessionId"), str)
    passed = request.state if one and config.per == "session" else everybody
    try:
        now = await proxy.clock.unix_ms()
        window = round(config.seconds * 1000)
        passed.at = [at for at in passed.at if at > now - window]
        # A prompt passes when the one so many before it has left the window.
        before = [*passed.at, *passed.due][-config.prompts :]
        due = max(now, before[0] + window) if len(before) == config.prompts else now
        if due > now and config.over == "refuse":
            return request.refuse(
                f"{config.prompts} prompts in {config.seconds:g} s have passed; "
                f"try again in {math.ceil((due - now) / 1000)} s",
                {"retryAfterMs": due - now},
            )
        if due > now:
            await wait(request, passed, due, due - now)
        passed.at.append(due)
        keep(request, passed)
    except Refused as refused:
        return request.refuse(f"the limit cannot be kept: {refused}")
    return await following(request)


async def wait(request: Request, passed: Passed, due: int, delay: int) -> None:
    """Waits until a prompt is due; if it is given up meanwhile, it does not count."""
    if "sessionId" in request.params:
        request.session.think(f"rate limit: this prompt waits {math.ceil(delay / 1000)} s\n")
    passed.due.append(due)
    try:
        await proxy.timer.sleep(delay / 1000)
    finally:
        passed.due.remove(due)


if __name__ == "__main__":
    proxy.run()
