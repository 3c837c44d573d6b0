"""Tests in the form in which authors write them, and the look of a refusal there."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from guest_sdk.python import Playground, Proxy, ProxyError, played

proxy = Proxy("asks")


@proxy.request("session/prompt")
async def prompt(request: Any, following: Callable[[Any], Awaitable[Any]]) -> Any:
    await proxy.clock.now()
    return await following(request)


@played
async def test_an_async_test_is_run_as_any_other() -> None:
    async with Playground(proxy) as p:
        assert (await p.prompt("hello")).text == "hello"


def test_a_played_test_is_an_ordinary_function_with_its_name_fixtures_and_failures() -> None:
    @played
    async def greeting(monkeypatch: object) -> None:
        """Fails."""
        raise ZeroDivisionError

    assert (greeting.__name__, greeting.__doc__) == ("greeting", "Fails.")
    assert list(inspect.signature(greeting).parameters) == ["monkeypatch"]
    assert not inspect.iscoroutinefunction(greeting)
    with pytest.raises(ZeroDivisionError):
        greeting(None)


@played
async def test_a_refusal_that_is_not_caught_is_answered_and_logged() -> None:
    async with Playground(proxy, grants=[]) as p:
        with pytest.raises(ProxyError, match="`clock` is not granted"):
            await p.prompt("hello")
        (line,) = p.services.log
        assert line.startswith("warn: the handler of `session/prompt` failed: ")
        assert "`clock` is not granted" in line
