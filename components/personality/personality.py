"""Prompts the agent before the user's first prompt, so that it answers in a manner of its own.

conductor agent personality,allow=command:symposium:hi,config.prompts=/symposium:hi claude-agent-acp
"""

from dataclasses import dataclass
from typing import Any, Literal

from guest_sdk.python import Opening, Proxy, ProxyError


@dataclass
class Config:
    """The settings; README.md explains each."""

    prompts: str | list[str] = ""
    show: Literal["hidden", "forwarded", "merged"] = "hidden"

    def __post_init__(self) -> None:
        held = [self.prompts] if isinstance(self.prompts, str) else self.prompts
        self.texts = [one for one in held if one]


proxy = Proxy(
    "personality",
    description="Prompts the agent before the user's first prompt.",
    config=Config,
)


@proxy.opening
async def embody(opening: Opening) -> Any:
    """Sends our prompts, one after another, each when the one before is answered."""
    config = proxy.config
    if config.show == "merged":
        return config.texts
    for one in config.texts:
        try:
            await opening.prompt(one, show=config.show == "forwarded")
        except ProxyError as error:
            proxy.log.warn(f"`{one}` came to nothing: {error.message}")
            break
    return None


if __name__ == "__main__":
    proxy.run()
