"""Answers `/whoami` itself; the agent does not see it. Counts the prompts of each session.

conductor exec ./whoami.py,only=full,config.greeting=Hello demo -p "/whoami"
"""

from dataclasses import dataclass, field

from guest_sdk.python import Proxy


@dataclass
class Config:
    greeting: str = "You are"
    names: dict[str, str] = field(default_factory=dict)


@dataclass
class Visit:
    prompts: int = 0


proxy = Proxy("whoami", config=Config, session=Visit)


@proxy.request("session/prompt")
async def prompt(request, next):
    request.state.prompts += 1
    if request.text != "/whoami":
        return await next(request)
    folder = request.session.cwd or "nowhere"
    name = proxy.config.names.get(folder, f"in {folder}")
    request.session.say(f"{proxy.config.greeting} {name}; prompts: {request.state.prompts}.")
    return {"stopReason": "end_turn"}


@proxy.request("_whoami")
def about(request):
    return {"proxy": proxy.name, "greeting": proxy.config.greeting}


if __name__ == "__main__":
    proxy.run()
