"""Routers and messages the playbooks start from."""

from typing import Any, Final

from conductor.core import DIALECTS, Component
from conductor.core.router import Router, RouterOptions
from tests.harness.router.playbook import Hole, Playbook

Json = dict[str, Any]

V1: Final[Json] = {"protocolVersion": 1}
OK: Final[Json] = {"protocolVersion": 1, "agentCapabilities": {}}
MISPLACED: Final = "`{}` is only exchanged between the conductor and the proxies it initialized"


def request(id_: object, method: str, params: object = None) -> Json:
    """A request."""
    return {"jsonrpc": "2.0", "id": id_, **notification(method, params)}


def notification(method: str, params: object = None) -> Json:
    """A notification."""
    rest = {} if params is None else {"params": params}
    return {"jsonrpc": "2.0", "method": method, **rest}


def result(id_: object, value: object = None) -> Json:
    """A successful answer."""
    return {"jsonrpc": "2.0", "id": id_, "result": value}


def error(id_: object, code: int, text: object, data: object = None) -> Json:
    """An error answer."""
    body = {"code": code, "message": text, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": id_, "error": body}


def component(
    name: str,
    kind: str | None,
    services: frozenset[str] | None = None,
    configure: bytes | None = None,
) -> Component:
    """A component of a dialect (None: to be found out)."""
    dialect = DIALECTS[kind] if kind else None
    return Component(name, f"proxy `{name}`", dialect, services, configure)


def agent_only(mode: str = "agent", *, tracing: bool = False) -> Playbook:
    """A client and an agent."""
    return Playbook(
        Router([Component("agent", "agent `agent`")], mode, options=RouterOptions(tracing=tracing))
    )


def agent_mode(kind: str | None) -> Playbook:
    """A client, one proxy `p`, an agent."""
    return Playbook(Router([component("p", kind), Component("agent", "agent `agent`")]))


def proxy_mode(kind: str | None, upstream: str | None = None) -> Playbook:
    """An outer conductor and one proxy `p`."""
    outer = DIALECTS[upstream] if upstream else None
    return Playbook(Router([component("p", kind)], "proxy", options=RouterOptions(upstream=outer)))


def begin(pb: Playbook, version: int = 1) -> Playbook:
    """Initializes a chain of an agent only."""
    params = {"protocolVersion": version, "info": {"name": "n", "version": "1"}}
    pb >> ("client", request("i", "initialize", params))
    pb << ("agent", request(Hole("i"), "initialize", params))
    pb >> ("agent", result(Hole("i"), {"protocolVersion": version}))
    pb << ("client", result("i", {"protocolVersion": version}))
    return pb


def begin_acp(pb: Playbook) -> Playbook:
    """Initializes a chain of one `acp` proxy and an agent."""
    pb >> ("client", request("i", "initialize", V1))
    pb << ("p", request(Hole("i1"), "proxy/initialize", V1))
    wrapped = {"method": "initialize", "params": V1}
    pb >> ("p", request("f", "proxy/successor", wrapped))
    pb << ("agent", request(Hole("i2"), "initialize", V1))
    pb >> ("agent", result(Hole("i2"), OK)) << ("p", result("f", OK))
    pb >> ("p", result(Hole("i1"), OK)) << ("client", result("i", OK))
    return pb
