"""Keeps half an emoji with each service that keeps texts, and adds what it reads to the prompt."""

from typing import Any

from guest_sdk.python import Proxy, Request

HALF = "half \ud83d"
proxy = Proxy("keeper", rights={"context": "to change prompts"}, description="Keeps half an emoji.")


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    await proxy.kv.set("kept", {HALF: HALF})
    kept = await proxy.kv.get("kept")
    proxy.metric.count("halves", 1, text=HALF)
    proxy.log.info(HALF, more=HALF)
    await proxy.files.write("notes/a.txt", HALF)
    read = await proxy.files.read("notes/a.txt")
    text = f"{kept[HALF]}, {read}"
    request.params["prompt"].append({"type": "text", "text": text})
    return await following(request)
