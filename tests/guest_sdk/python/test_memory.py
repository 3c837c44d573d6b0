"""A handled message is freed at once: memory of a sandbox is small, and its collector rare."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from guest_sdk.python import Proxy, text
from guest_sdk.python.engine import Engine


def _shapes() -> Proxy[Any]:
    """A proxy with a handler of every kind."""
    proxy = Proxy("shapes")

    @proxy.request("session/prompt")
    async def prompt(request: Any, next: Any) -> Any:  # noqa: A002
        await proxy.clock.now()
        request.prompt.insert(0, text("more"))
        answer = await next(request)
        answer["_meta"] = {}
        return answer

    @proxy.request("_looked")
    def look(request: Any) -> None:
        request.params["seen"] = True

    @proxy.request("_answered")
    async def answer(request: Any, next: Any) -> Any:  # noqa: A002
        return {}

    @proxy.update("agent_message_chunk")
    def change(update: Any) -> None:
        update.text = update.text.upper()

    @proxy.notification("_told")
    async def pass_on(notification: Any, next: Any) -> Any:  # noqa: A002
        await next(notification)

    return proxy


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector keeps its finds, and looks only at objects that are made from now on."""
    gc.collect()
    gc.disable()
    gc.freeze()  # what other tests have left is none of ours
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.garbage.clear()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.unfreeze()
    gc.enable()


CONVERSATION = """\
p{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
c{"jsonrpc":"2.0","id":1,"result":{"iso":"2025-10-08T12:34:56+00:00"}}
s{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}
p{"jsonrpc":"2.0","id":2,"method":"_looked","params":{}}
s{"jsonrpc":"2.0","id":2,"result":{}}
p{"jsonrpc":"2.0","id":3,"method":"_answered","params":{}}
s{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":\
{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"said"}}}}
s{"jsonrpc":"2.0","method":"_told","params":{}}
"""


@pytest.mark.usefixtures("collector")
def test_what_has_been_handled_is_freed_at_once() -> None:
    engine = Engine(_shapes())
    said = [line for one in CONVERSATION.splitlines() for line in engine.receive([one])]
    assert len(said) == 8
    gc.collect()
    assert [one for one in gc.garbage if type(one).__module__.startswith("guest_sdk")] == []
