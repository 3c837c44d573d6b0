"""A proxy that prompts the agent by itself, when a timer fires that a prompt with `remind` starts.

Its turn has two prompts. What of it the client sees is its setting `show`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from guest_sdk.python import Proxy, Request, Session


@dataclass
class Config:
    """The settings."""

    show: bool = True
    says: str = ""
    """The text that the proxy shows by itself; with a text, the proxy prompts nobody."""


proxy = Proxy(
    "reminding", rights={"context": "to read prompts", "timer": "to remind"}, config=Config
)


@proxy.request("session/prompt")
def prompt(request: Request) -> None:
    """Starts the timer, behind the prompt: that is not held."""
    session = request.session
    if "remind" in request.text:
        proxy.start(proxy.timer.after(0.01, lambda: remind(session)))


async def remind(session: Session) -> Any:
    """The turn."""
    proxy.log.warn("the timer has fired")
    async with session.turn(show=proxy.config.show) as turn:
        if proxy.config.says:
            session.event("reminder", proxy.config.says)
            return
        first = await turn.prompt("one")
        second = await turn.prompt("two")
    proxy.log.warn(f"the agent said {first.text}{second.text}")


if __name__ == "__main__":
    proxy.run()
