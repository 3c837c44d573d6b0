"""Bundled Python components for the tests beside: loaded for a playground, or run in a chain."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from conductor.spec import catalog
from guest_sdk.python import Playground, Proxy, Record
from tests.places import COMPONENTS

if TYPE_CHECKING:
    from tests.harness.process.rig import Chain, Rig

Json = dict[str, Any]


def plays(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a test of an async function; nothing in it ever waits for time."""

    @functools.wraps(test)
    def run(*arguments: Any, **more: Any) -> None:
        asyncio.run(test(*arguments, **more))

    return run


def load(name: str) -> Proxy[Any]:
    """The proxy of a bundled component, loaded anew."""
    found = catalog.bundled_manifest(name)
    assert found is not None
    path = COMPONENTS / name / str(found.file)
    if path.is_dir():
        path /= "proxy.py"
    spec = importlib.util.spec_from_file_location(f"library_{name.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # for the files beside it, if there are any
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    proxy = module.proxy
    assert isinstance(proxy, Proxy)
    assert proxy.name == name
    return proxy


def play(name: str, **options: Any) -> Playground:
    """A playground around a bundled component; `config` and the rest as `Playground` has them."""
    return Playground(load(name), **options)


def says(playground: Playground, *chunks: str) -> Callable[[Record], Any]:
    """How an agent answers that says these chunks of text to every prompt."""

    def answer(request: Record) -> Any:
        if request.method != "session/prompt":
            return None
        for chunk in chunks:
            playground.agent.say(request.params.session_id, chunk)
        return {"stopReason": "end_turn"}

    return answer


def component(name: str, config: Json | None = None, /, **options: Any) -> str:
    """A bundled component, as a command line names it with settings."""
    return json.dumps({"component": name, "config": config or {}, **options})


def agent(rig: Rig, *components: str, options: tuple[str, ...] = ()) -> Chain:
    """A chain that uses the user's cache of compiled modules."""
    return rig.run("agent", *options, *components)


def received(rig: Rig, method: str) -> list[Json]:
    """The parameters of what the rig's agent got by this method, in order."""
    frames = [entry.frame for entry in rig.log("A", "in")]
    return [frame.get("params", {}) for frame in frames if frame.get("method") == method]
