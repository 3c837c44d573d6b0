"""The Python library passes the transcripts of all languages with the same two proxies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Proxy, Refused
from guest_sdk.python.engine import Engine
from tests.guest_sdk.languages import support


def _datetime() -> Proxy[Any]:
    proxy = Proxy(
        "datetime", rights={"context": "to change prompts", "clock": "to say what day it is"}
    )
    warned = False

    @proxy.request("session/prompt")
    async def prompt(request: Any, next: Any) -> Any:  # noqa: A002 - as authors write it
        nonlocal warned
        if isinstance(request.params.get("prompt"), list):
            try:
                now = await proxy.clock.now()
            except Refused as error:
                if not warned:
                    said = "no clock, prompts go on without the date"
                    proxy.log.warn(f"datetime: {said}: {error.message}")
                warned = True
            else:
                element = f'<current-date date="{now:%Y-%m-%d}" time="{now:%H:%M:%S}"/>'
                request.preface(element)
        return await next(request)

    return proxy


def _shout() -> Proxy[Any]:
    proxy = Proxy("shout", rights={"filter": "to shout"})

    @proxy.update("agent_message_chunk")
    def shout(update: Any) -> None:
        content = update.params["update"].get("content")
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            update.text = update.text.upper()

    return proxy


PROXIES = {"datetime": _datetime, "shout": _shout}


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(name: str, path: Path) -> None:
    support.play(_exchange(name), path, shown=bytes)


def test_half_an_emoji_is_text() -> None:
    support.check_half(_exchange("shout"), carried=True)


def _exchange(name: str) -> Callable[[bytes], bytes]:
    engine = Engine(PROXIES[name]())

    def exchange(lines: bytes) -> bytes:
        said = engine.receive(lines.decode().split("\n")[:-1])
        return "".join(f"{line}\n" for line in said).encode()

    return exchange
