"""Remembers: `/note TEXT` keeps a line, and every prompt begins with what was kept.

A line that is older than an hour is forgotten, while nobody asks.

conductor exec ./notes.py,only=full+storage+timer demo -p "/note the build is broken"
"""

from guest_sdk.python import Proxy, Refused

HOUR = 3600.0

proxy = Proxy(
    "notes",
    rights={
        "change:prompts": "to begin each prompt with your notes",
        "answer:prompts": "to take `/note`",
        "add:replies": "to say that it is noted",
        "storage": "to keep notes between sessions",
        "timer": "to forget old ones",
    },
)


@proxy.request("session/prompt")
async def prompt(request, next):
    if request.text.startswith("/note "):
        await remember(request.text.removeprefix("/note "))
        request.session.say("Noted.")
        return {"stopReason": "end_turn"}
    try:
        keys = await proxy.kv.keys("note/")
    except Refused as refused:
        proxy.log.warn(f"prompts go on without notes: {refused.message}")
        return await next(request)
    for key in reversed(keys):
        request.preface(f"Note: {await proxy.kv.get(key)}")
    return await next(request)


async def remember(note):
    key = f"note/{await proxy.kv.get('count', 0):06}"
    await proxy.kv.set("count", int(key.removeprefix("note/")) + 1)
    await proxy.kv.set(key, note)

    async def forget():
        await proxy.kv.delete(key)
        proxy.log(f"forgotten: {note}")

    await proxy.timer.after(HOUR, forget)


if __name__ == "__main__":
    proxy.run()
