"""Puts the date in front of every prompt: agents guess it otherwise.

conductor exec ./datetime_proxy.py,allow=clock demo -p "what day is it?"
"""

from guest_sdk.python import Proxy

proxy = Proxy(
    "datetime",
    rights={
        "change:prompts": "to put the date in front of each prompt",
        "clock": "to say what day it is",
    },
)


@proxy.request("session/prompt")
async def prompt(request, next):
    now = await proxy.clock.now()
    request.preface(f"It is {now:%A %d %B %Y, %H:%M}.")
    return await next(request)


if __name__ == "__main__":
    proxy.run()
