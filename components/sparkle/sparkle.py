"""Gives the agent collaborative patterns: by a tool that it uses before the user's first prompt.

conductor agent 'sparkle,config.patterns="We think aloud, together."' claude-agent-acp
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Opening, Proxy, ProxyError, Request

SERVER = "sparkle"
TOOL = "embody_sparkle"


@dataclass
class Config:
    """The settings; README.md explains each."""

    prompt: str = f"Please use the {TOOL} tool to load your collaborative patterns."
    patterns: str | list[str] = ""
    show: Literal["forwarded", "hidden", "merged"] = "forwarded"
    form: Literal["prompt", "block"] = "prompt"
    server: str | list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        patterns = [self.patterns] if isinstance(self.patterns, str) else self.patterns
        self.loaded = "\n\n".join([*filter(None, patterns), "Embodiment complete"])
        self.command = self.server.split() if isinstance(self.server, str) else self.server
        if self.command and not self.command[0]:
            raise ValueError("`server` begins with the command")
        if self.form == "block" and self.show != "forwarded":
            raise ValueError(f"`show={self.show}` is for `form=prompt`: a block has no answer")


proxy = Proxy(
    SERVER,
    description="Collaborative patterns for the agent.",
    config=Config,
)


# -- the tool --------------------------------------------------------------------------------------


def embody() -> str:
    """Loads your collaborative patterns. To be used once, before anything else."""
    loaded: str = proxy.config.loaded
    return loaded


@proxy.on_start
def offer() -> None:
    """Has the tool served from here, unless a command of the settings does."""
    proxy.tools.clear()
    if not proxy.config.command:
        served(embody)


served = proxy.tool(name=TOOL, title="Embody Sparkle")
served(embody)


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
def declare(request: Request) -> None:
    """Adds the command of the settings, if there is one; a server the client has counts more."""
    servers, command = request.params.setdefault("mcpServers", []), proxy.config.command
    if not command or request.direction != "down" or not isinstance(servers, list):
        return
    if SERVER not in {one.get("name") for one in servers if isinstance(one, dict)}:
        env = [{"name": name, "value": value} for name, value in proxy.config.env.items()]
        servers.append({"name": SERVER, "command": command[0], "args": command[1:], "env": env})


# -- before the first prompt -----------------------------------------------------------------------


@proxy.opening
async def begin(opening: Opening) -> Any:
    """Has the agent use the tool."""
    config = proxy.config
    if not config.prompt:
        return None
    if config.form == "block":
        return config.prompt
    try:
        turn = await opening.prompt(config.prompt, show=config.show == "forwarded")
    except ProxyError as error:
        proxy.log.warn(f"the agent did not take it up: {error.message}")
        return None
    if config.show == "merged" and turn.text:
        opening.session.say(turn.text.rstrip() + "\n\n")
    return None


if __name__ == "__main__":
    proxy.run()
