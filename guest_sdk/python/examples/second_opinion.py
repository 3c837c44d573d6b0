"""Asks the agent twice: in a session of its own, behind the client's back, and then for real.

conductor exec ./second_opinion.py,allow=prompt:unseen+add:replies demo -p "hello"
"""

from guest_sdk.python import Proxy, text

proxy = Proxy(
    "second-opinion",
    rights={
        "change:prompts": "to add the first thought to your prompt",
        "prompt:unseen": "to ask in a session of its own",
        "add:replies": "to show you the first thought",
    },
)


@proxy.request("session/prompt")
async def prompt(request, next):
    async with proxy.subsession(cwd=request.session.cwd or "/") as sub:
        opinion = await sub.prompt(f"In one sentence: {request.text}")
    request.session.think(f"First thought: {opinion.text}")
    request.prompt.append(text(f"Your first thought was: {opinion.text}"))
    return await next(request)


if __name__ == "__main__":
    proxy.run()
