"""The attributes of the span of one request between two components. Pure functions."""

from __future__ import annotations

from conductor.core.jsonrpc import REQUEST_CANCELLED
from conductor.record.turns.line import AGENT, CLIENT, Error, Line, Own
from conductor.telemetry import names, payloads
from conductor.telemetry.span import Attributes, Kind, Span


def name(line: Line, body: payloads.Params) -> str:
    """The name of the span of a request."""
    method = names.method(line.method, line.protocol)
    if line.protocol == "mcp" and line.method in ("tools/call", "prompts/get"):
        return f"{method} {payloads.name_of(body.name)}".rstrip()
    return method


def kind(line: Line) -> Kind:
    """A request enters the chain as at a server. Towards later components conductor is the client.
    For MCP the agent is the client, and the component the server."""
    if line.protocol == "mcp":
        return Kind.CLIENT if line.source == AGENT else Kind.SERVER
    return Kind.SERVER if line.source in (CLIENT, AGENT) else Kind.CLIENT


def attributes(line: Line, own: Own, body: payloads.Params, *, content: bool) -> Attributes:
    """The attributes of a request itself."""
    found: Attributes = {
        names.RPC_SYSTEM: "jsonrpc",
        names.RPC_METHOD: names.method(line.method, line.protocol),
        names.SOURCE: line.source,
        names.COMPONENT: line.target,
        names.BYTES_IN: own.bytes or len(line.params),
    }
    written = bytes(own.id) if bytes(own.id) != b"null" else bytes(line.id)
    if written != b"null":
        found[names.REQUEST_ID] = written.decode(errors="replace").strip('"')[:200]
    if line.names_session:
        found[names.SESSION] = line.names_session[: payloads.MOST_NAME]
    if line.protocol == "mcp":
        _of_mcp(found, line, body, content=content)
    return found


def _of_mcp(found: Attributes, line: Line, body: payloads.Params, *, content: bool) -> None:
    found[names.MCP_METHOD] = found.pop(names.RPC_METHOD)
    name, uri = payloads.name_of(body.name), payloads.name_of(body.uri)
    if line.method == "tools/call" and name:
        found[names.TOOL_NAME] = name
        found[names.OPERATION] = names.EXECUTE
        if content and (text := payloads.json_text(body.arguments)):
            found[names.TOOL_ARGUMENTS] = text
    elif line.method == "prompts/get" and name:
        found[names.PROMPT_NAME] = name
    if uri:
        found[names.MCP_RESOURCE] = uri
    if body.meta is not None and (version := payloads.name_of(body.meta.mcp_version)):
        found[names.MCP_VERSION] = version


def failed(span: Span, error: Error, own: Own, *, content: bool) -> None:
    """An error as its answer."""
    code = error.code
    found = span.attributes
    if code is not None:
        found[names.RPC_STATUS] = str(code)
    if code == REQUEST_CANCELLED:
        found[names.CANCELLED] = True
        return
    kind = str(code) if code is not None else names.OTHER
    if own.by and isinstance(error.data, dict) and "component" in error.data:
        data = error.data
        died = not {"exit_code", "signal"}.isdisjoint(data)
        kind = "component_died" if died else "policy_denied" if "rule" in data else kind
    found[names.ERROR] = kind
    message = payloads.name_of(error.message) if content else ""
    span.error = message or kind
