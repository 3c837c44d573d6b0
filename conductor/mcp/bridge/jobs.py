"""Requests of clients without sessions that a component with a session is working at.

Such a component may ask its client for something meanwhile. Then the request is answered: input is
required; and the client's next request, which brings it, takes its place.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, error_object
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.json import EMPTY, encode, read, write
from conductor.mcp.bridge.line import OnAnswer
from conductor.mcp.bridge.ports import Port
from conductor.mcp.bridge.revisions import CAPABILITIES, DISCOVER, LOG_LEVEL, MISSING_CAPABILITY

MAY_ASK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests whose result may be that input is required."""
_CACHEABLE: Final = frozenset(
    {
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        DISCOVER,
    }
)


class Job:
    """One request of a client that is being worked at, and whoever waits for its outcome now."""

    def __init__(self, port: Port | None, id_: bytes, method: str, meta: dict[str, Raw]) -> None:
        self.port = port
        """None while nobody waits: input was asked for."""
        self.id = id_
        self.method = method
        self.able = read(meta.get(CAPABILITIES))
        self.token = meta.get("progressToken")
        self.logs = LOG_LEVEL in meta
        self.call: Call | None = None
        self.wanted: dict[str, tuple[OnAnswer, str, bytes | None]] = {}
        """What the component wants to know and the client has not been asked."""
        self.asked: dict[str, OnAnswer] = {}
        """… and has been."""
        self.lacks: dict[str, str] = {}
        """Capabilities its client lacks, to the methods the component has asked for in vain."""
        self.outcome: tuple[bytes, bytes] | None = None
        self.state = ""
        self.rounds = 0
        """How often its client has been asked for input."""

    def deliver(self) -> None:
        """Gives the outcome to whoever waits for it, or keeps it until somebody comes."""
        if self.port is None or self.outcome is None:
            return
        member, body = self.outcome
        if member == b"result":
            body = _complete(body, cacheable=self.method in _CACHEABLE)
        elif self.lacks:
            body = _lacking(self.lacks)
        self.port.answer(self.id, member, body)
        self.port = None
        for reply in (*self.asked.values(), *(one[0] for one in self.wanted.values())):
            reply(b"error", error_object(METHOD_NOT_FOUND, "the request is over"))

    def ask(self, port: Port) -> None:
        """Answers the client that input is required; nobody waits then until it brings that."""
        requests: dict[str, object] = {}
        for name, (reply, method, params) in self.wanted.items():
            requests[name] = {"method": method, "params": Raw(params or EMPTY)}
            self.asked[name] = reply
        self.wanted.clear()
        self.rounds += 1
        self.port = None
        result = {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": self.state,
        }
        port.answer(self.id, b"result", write(result))

    def resume(self, port: Port, id_: bytes, held: dict[str, Raw], meta: dict[str, Raw]) -> None:
        """A client brings input: from now on it waits for the outcome."""
        self.port, self.id = port, id_
        self.token = meta.get("progressToken", self.token)
        self.able = read(meta[CAPABILITIES]) if CAPABILITIES in meta else self.able
        given = read(held.get("inputResponses"))
        for name, reply in list(self.asked.items()):
            if name in given:
                del self.asked[name]
                reply(b"result", bytes(given[name]))
        for name, reply in list(self.asked.items()):
            text_ = f"the MCP client came back without an answer for `{name}`"
            reply(b"error", error_object(INVALID_PARAMS, text_))
        self.asked.clear()

    def withdrawn(self, reply: OnAnswer) -> None:
        """The component does not want an answer any more."""
        self.asked = {name: one for name, one in self.asked.items() if one is not reply}
        self.wanted = {name: one for name, one in self.wanted.items() if one[0] is not reply}


def _complete(body: bytes, *, cacheable: bool) -> bytes:
    """A result with what the revision without sessions demands."""
    held = read(body)
    if not held and body.strip() != EMPTY:
        return body
    new: dict[str, object] = {"resultType": "complete"}
    if cacheable:
        new |= {"ttlMs": 0, "cacheScope": "private"}
    return encode({**new, **held})


def _lacking(lacks: dict[str, str]) -> bytes:
    """The error of a request that failed after its client was found to lack these."""
    asked = ", ".join(f"`{method}`" for method in lacks.values())
    text_ = f"the MCP server asked for {asked}, which this client does not offer"
    required: dict[str, dict[str, object]] = {name: {} for name in lacks}
    return error_object(MISSING_CAPABILITY, text_, {"requiredCapabilities": required})
