"""Puts a text in front of prompts, behind them, or both.

conductor exec prompt-prefix,config.text="Be brief." demo -p "hello"
"""

from dataclasses import dataclass
from typing import Any, Literal

from guest_sdk.python import Proxy, Request


@dataclass
class Config:
    """The settings; README.md explains each."""

    text: str = ""
    suffix: str = ""
    when: Literal["every", "first"] = "every"
    commands: bool = False


FOLDER = "{cwd}"
RESUMED = ("session/load", "session/resume")
"""Requests that set up a session whose history already holds the prefix."""


@dataclass
class Seen:
    """The state of a session."""

    told: bool = False


proxy = Proxy(
    "prompt-prefix",
    description="Puts a text of your own in front of every prompt.",
    config=Config,
    session=Seen,
)


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    config, session = proxy.config, getattr(request, "session", None)
    if session is not None and (config.when == "first" or FOLDER in config.text + config.suffix):
        session.keep()
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    config = proxy.config
    if request.is_command and not config.commands:
        return await following(request)
    if config.when == "first" and "sessionId" in request.params:
        if request.state.told or request.session.began in RESUMED:
            return await following(request)
        request.state.told = True
        request.session.keep()
    if config.text:
        request.preface(filled(config.text, request))
    if config.suffix:
        request.append(filled(config.suffix, request))
    return await following(request)


def filled(template: str, request: Request) -> str:
    """A text with `{cwd}` replaced by the session's folder, as far as it is known."""
    known = request.session.cwd if "sessionId" in request.params else None
    return template.replace(FOLDER, known or "")


if __name__ == "__main__":
    proxy.run()
