"""The answers of an MCP server: its lists, tools, prompts and resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from . import offers
from .calls import Call, Link
from .errors import INTERNAL_ERROR, INVALID_PARAMS, ProxyError, Refused
from .failures import report, sentence
from .links import Declared, unknown

if TYPE_CHECKING:
    from .engine import Engine
    from .servers import Server

NOT_FOUND: Final = -32002
"""The error code for a missing resource, in MCP with sessions."""


class Asked:
    """A request to a server."""

    __slots__ = ("call", "declared", "engine", "missing", "params")

    def __init__(
        self, engine: Engine, declared: Declared, params: dict[str, Any], link: Link, missing: int
    ) -> None:
        self.engine = engine
        self.declared = declared
        self.params = params
        self.missing = missing
        """The error code for a resource that is not there."""
        self.call = Call(declared.session, link)

    async def guarded(self, what: str, work: Awaitable[Any]) -> Any:
        """The work's result; what an author's function raises becomes an error of MCP."""
        try:
            return await work
        except Refused as error:
            raise ProxyError(f"{what}: {error}", INTERNAL_ERROR, error.data) from None
        except ProxyError:
            raise
        except (Exception, SystemExit) as error:
            report(self.engine, f"{what} failed", error)
            raise ProxyError(f"{what} failed: {sentence(error)}") from None


async def _tools(asked: Asked) -> dict[str, Any]:
    found = offers.tools(asked.declared.server, asked.declared.session)
    return {"tools": [one.card() for one in found.values()]}


async def _call(asked: Asked) -> dict[str, Any]:
    found = offers.tools(asked.declared.server, asked.declared.session)
    tool = found[_name(asked, "tool", found)]
    return await tool.call(asked.engine, _arguments(asked), asked.call)


async def _prompts(asked: Asked) -> dict[str, Any]:
    found = offers.prompts(asked.declared.server, asked.declared.session)
    return {"prompts": [one.card() for one in found.values()]}


async def _prompt(asked: Asked) -> Any:
    found = offers.prompts(asked.declared.server, asked.declared.session)
    prompt = found[_name(asked, "prompt", found)]
    return await asked.guarded(f"prompt `{prompt.name}`", prompt.get(_arguments(asked), asked.call))


async def _resources(asked: Asked) -> dict[str, Any]:
    listing = offers.resources(asked.declared.server, asked.call)
    return {"resources": await asked.guarded("the list of resources", listing)}


async def _templates(asked: Asked) -> dict[str, Any]:
    return {"resourceTemplates": offers.templates(asked.declared.server)}


async def _read(asked: Asked) -> dict[str, Any]:
    uri = asked.params.get("uri")
    if not isinstance(uri, str):
        raise ProxyError("resources/read: `uri` must be text", INVALID_PARAMS)

    async def read() -> Any:
        try:
            return await offers.read(asked.declared.server, uri, asked.call)
        except FileNotFoundError as error:
            raise ProxyError(str(error), asked.missing, {"uri": uri}) from None

    return {"contents": await asked.guarded(f"resource {uri[:200]}", read())}


async def _ping(asked: Asked) -> dict[str, Any]:
    return {}


def _name(asked: Asked, what: str, known: Collection[str]) -> str:
    name = asked.params.get("name")
    if not isinstance(name, str) or name not in known:
        names = ", ".join(known) or "none"
        raise ProxyError(f"no {what} `{name}`; {what}s are: {names}", INVALID_PARAMS)
    return name


def _arguments(asked: Asked) -> dict[str, Any]:
    given = asked.params.get("arguments") or {}
    if not isinstance(given, dict):
        raise ProxyError("`arguments` must be an object", INVALID_PARAMS)
    return given


_METHODS: Final[dict[str, Callable[[Asked], Awaitable[Any]]]] = {
    "ping": _ping,
    "tools/list": _tools,
    "tools/call": _call,
    "prompts/list": _prompts,
    "prompts/get": _prompt,
    "resources/list": _resources,
    "resources/templates/list": _templates,
    "resources/read": _read,
}

LISTS: Final = frozenset(
    {
        "tools/list", "prompts/list", "resources/list", "resources/templates/list",
        "resources/read", "server/discover",
    }
)  # fmt: skip
"""Requests whose results a caller may keep; each result says for how long."""

MAY_ASK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests whose result may be that input is required."""


async def serve(
    engine: Engine,
    declared: Declared,
    method: str,
    params: dict[str, Any],
    link: Link,
    missing: int = NOT_FOUND,
) -> Any:
    """The result of a request to a server. Raises `ProxyError`."""
    found = _METHODS.get(method)
    if found is None:
        raise unknown(method)
    return await found(Asked(engine, declared, params, link, missing))


def name_of(engine: Engine, server: Server) -> str:
    """The name of a server; the server of the proxy itself is called like the proxy."""
    return engine.name if server is engine.proxy else server.name


def about(engine: Engine, declared: Declared) -> dict[str, Any]:
    """The facts of a server about itself: `serverInfo`, `capabilities`, perhaps `instructions`."""
    server, proxy = declared.server, engine.proxy
    told = server.instructions or proxy.description
    return {
        "capabilities": offers.capabilities(server),
        "serverInfo": {"name": name_of(engine, server), "version": proxy.version},
        **({"instructions": told} if told else {}),
    }
