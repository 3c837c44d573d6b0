"""Tells the agent whom it works with before the user's first prompt; the user sees no word of it.

conductor exec ./introduce.py,config.name=Ada demo -p "hello"
"""

from dataclasses import dataclass

from guest_sdk.python import Proxy


@dataclass
class Config:
    name: str = "somebody"


proxy = Proxy("introduce", config=Config)


@proxy.opening
async def introduce(opening):
    turn = await opening.prompt(f"You work with {proxy.config.name}.", show=False)
    proxy.log(f"the agent said: {turn.text}")


if __name__ == "__main__":
    proxy.run()
