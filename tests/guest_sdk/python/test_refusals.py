"""`request.refuse`: a request that does not go on."""

from typing import Any

import pytest

from guest_sdk.python import Playground, Proxy, ProxyError, Request

YES = {"optionId": "y", "kind": "allow_once"}
NO = {"optionId": "n", "kind": "reject_once"}
NEVER = {"optionId": "never", "kind": "reject_always"}


def refusing() -> Proxy[Any]:
    """A proxy that refuses everything."""
    proxy = Proxy("strict")

    @proxy.request("session/prompt", "session/request_permission", "fs/read_text_file")
    def no(request: Request) -> Any:
        return request.refuse("not here", {"retry": False})

    return proxy


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ([YES, NEVER, NO], "n"),
        ([YES, NEVER], "never"),
        ([YES], None),
        ([YES, NO, NEVER, {"optionId": "n", "kind": "allow_once"}], "never"),
        ([NO, {"optionId": "n", "kind": "reject_always"}], "n"),
        ([NO, {"optionId": "n"}], None),
        ([YES, NO, "n"], None),
        ([{"optionId": 7, "kind": "reject_once"}], None),
        ([{"optionId": "n", "kind": ["reject_once"]}], None),
        ("odd", None),
        (None, None),
    ],
)
async def test_a_permission_is_refused_by_what_can_grant_nothing(
    options: Any, selected: str | None
) -> None:
    async with Playground(refusing()) as p:
        params = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}
        asked = p.agent.request("session/request_permission", params)
        outcome = {"outcome": "cancelled"}
        if selected is not None:
            outcome = {"outcome": "selected", "optionId": selected}
        assert p.result("s", asked) == {"outcome": outcome}
        assert p.heard == []


async def test_any_other_request_is_refused_with_an_error_that_names_the_proxy() -> None:
    async with Playground(refusing()) as p:
        with pytest.raises(ProxyError) as caught:
            await p.prompt("hello")
        assert caught.value.body() == {
            "code": -31900,
            "message": "strict: not here",
            "data": {"retry": False, "component": "strict"},
        }
        assert p.agent.prompts == []
