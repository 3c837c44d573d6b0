"""Requests of clients without sessions, in flight at a component that has sessions.

Such a component may ask its client for input while it works on a request. Then the bridge answers
the client that input is required, and the request is suspended: nobody waits for its outcome until
the client's next request brings the input.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, error_object
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.calls import PendingCall, ServerRequest
from conductor.mcp.bridge.endpoints import ClientConnection
from conductor.mcp.bridge.json import EMPTY, read, write

MAY_WANT_INPUT: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may have an `input_required` result."""

_CACHEABLE: Final = frozenset(
    {
        *("tools/list", "prompts/list", "resources/list", "resources/templates/list"),
        *("resources/read", protocol.DISCOVER),
    }
)
"""Requests whose results must say how long a client may keep them."""


class _Input(msgspec.Struct):
    """A request of the component for input."""

    request: ServerRequest
    sent: bool = False
    """Whether the client knows of it."""


class SuspendableRequest:
    """One request of a client, possibly repeated by it with input."""

    def __init__(
        self,
        client: ClientConnection,
        id_: bytes,
        method: str,
        about: dict[str, Raw],
        token: str,
    ) -> None:
        """`about`: the request's `_meta`. `token`: names the request to the component, as progress
        token, and to the client, as `requestState`."""
        self.client: ClientConnection | None = client
        """None while the request is suspended."""
        self.id = id_
        self.method = method
        self.token = token
        self.capabilities = read(about.get(protocol.CAPABILITIES))
        self.progress_token = about.get("progressToken")
        self.wants_logs = protocol.LOG_LEVEL in about
        self.call: PendingCall | None = None
        self.rounds = 0
        self.inputs: dict[str, _Input] = {}
        self.missing: dict[str, str] = {}
        """Capabilities the client lacks, with the methods that the component wanted."""
        self.outcome: tuple[bytes, bytes] | None = None

    @property
    def unsent(self) -> list[_Input]:
        """Inputs that the client does not know of."""
        return [input_ for input_ in self.inputs.values() if not input_.sent]

    def want(self, name: str, request: ServerRequest) -> None:
        """The component wants an input."""
        self.inputs[name] = _Input(request)

    def deliver(self) -> None:
        """Sends the outcome, if there is one, to the client, if one waits."""
        if self.client is None or self.outcome is None:
            return
        member, body = self.outcome
        if member == b"result":
            body = _complete(body, cacheable=self.method in _CACHEABLE)
        elif self.missing:
            body = _missing_capability(self.missing)
        self.client.respond(self.id, member, body)
        self.client = None
        for input_ in self.inputs.values():
            input_.request.reply(b"error", error_object(METHOD_NOT_FOUND, "the request is over"))

    def suspend(self) -> None:
        """Answers the client that input is required."""
        assert self.client is not None
        wanted: dict[str, object] = {}
        for name, input_ in self.inputs.items():
            if not input_.sent:
                params = Raw(input_.request.params or EMPTY)
                wanted[name] = {"method": input_.request.method, "params": params}
                input_.sent = True
        self.rounds += 1
        result = {
            "resultType": "input_required",
            "inputRequests": wanted,
            "requestState": self.token,
        }
        client, self.client = self.client, None
        client.respond(self.id, b"result", write(result))

    def resume(
        self, client: ClientConnection, id_: bytes, fields: dict[str, Raw], about: dict[str, Raw]
    ) -> None:
        """A client's request with input takes the place of the suspended request."""
        self.client, self.id = client, id_
        self.progress_token = about.get("progressToken", self.progress_token)
        if protocol.CAPABILITIES in about:
            self.capabilities = read(about[protocol.CAPABILITIES])
        responses = read(fields.get("inputResponses"))
        sent = {name: input_ for name, input_ in self.inputs.items() if input_.sent}
        for name, input_ in sent.items():
            del self.inputs[name]
            if name in responses:
                input_.request.reply(b"result", bytes(responses[name]))
            else:
                reason = f"the MCP client came back without an answer for `{name}`"
                input_.request.reply(b"error", error_object(INVALID_PARAMS, reason))

    def withdraw(self, request: ServerRequest) -> None:
        """The component does not want an input any more."""
        self.inputs = {
            n: input_ for n, input_ in self.inputs.items() if input_.request is not request
        }


def _complete(body: bytes, *, cacheable: bool) -> bytes:
    """A result with the members that the revision without sessions demands."""
    fields = read(body)
    if not fields and body.strip() != EMPTY:
        return body
    new: dict[str, object] = {"resultType": "complete"}
    if cacheable:
        new |= {"ttlMs": 0, "cacheScope": "private"}
    return write({**new, **fields})


def _missing_capability(missing: dict[str, str]) -> bytes:
    """The error of a request that needs capabilities which its client lacks."""
    methods = ", ".join(f"`{method}`" for method in missing.values())
    reason = f"the MCP server needs {methods}, which this client does not offer"
    required: dict[str, dict[str, object]] = {name: {} for name in missing}
    return error_object(protocol.MISSING_CAPABILITY, reason, {"requiredCapabilities": required})
