"""Messages of a component's own MCP servers, judged like all its other messages.

MCP over ACP has seven generations, and they carry two kinds of MCP: a request to the client may be
a message, a member of a result (`inputRequests`) or of an error (`elicitations`). So every object
of a message counts, wherever it stands, but for members that are data to everybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import UnsetType

from conductor.core.guards import commands, links
from conductor.core.guards.every_message import is_login, is_namespaced, no_meta_key
from conductor.core.guards.names import folded, head, lookalike, squash
from conductor.core.guards.reading import (
    Absent,
    Document,
    Json,
    Object,
    as_object,
    canonical,
    pairs,
    token,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches, Context
from conductor.core.jsonrpc import AUTH_REQUIRED, Params
from conductor.core.policy.key_table import PROMPT, SESSION_NAMES
from conductor.patterns import lazy_pattern

SAMPLE: Final = "sampling/createMessage"
ELICIT: Final = "elicitation/create"
_SERVERS: Final = frozenset(
    {
        SAMPLE,
        ELICIT,
        "ping",
        "roots/list",
        "tasks/get",
        "tasks/result",
        "tasks/list",
        "tasks/cancel",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/elicitation/complete",
        "notifications/tasks/status",
        "notifications/subscriptions/acknowledged",
    }
)
"""The methods that a server may send its client, in all revisions of MCP."""
_CARRIERS: Final = ("method", "params", "message")
_ASKS: Final = {squash(SAMPLE): SAMPLE, squash(ELICIT): ELICIT}

_DATA: Final = frozenset(
    {"structuredContent", "arguments", "inputSchema", "outputSchema", "requestedSchema"}
)
"""Members that hold data: nobody follows a link in them, nor takes them for a message."""
_BY_ANY_NAME: Final = "inputrequests"
"""A member, squashed, with messages under names that the server chooses: none of these is data."""
_READ: Final = (
    *("method", "params", "message", "messages", "mode", "url", "role", "content", "mimetype"),
    *("systemprompt", "includecontext", "elicitations", _BY_ANY_NAME),
)
"""Members, squashed, that tell the kind of a message."""
_OFFERS: Final = ("tools", "prompts")
_LINKS: Final = ("uri", "url", "uritemplate", "src", "href")
"""The ends of names of members, squashed, that say where something is."""
_METAS: Final = frozenset(
    {
        "progressToken",
        "ui",
        "ui/resourceUri",
        *(
            f"io.modelcontextprotocol/{name}"
            for name in ("protocolVersion", "serverInfo", "subscriptionId", "related-task")
        ),
    }
)
"""Keys of `_meta` that a server has from MCP."""

_host = lazy_pattern(r"(?:acp|mcp|ui):/*([^/?#]*)")
_control = lazy_pattern(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_web = lazy_pattern(r"https?://[\w\[]")
_NAME: Final = 128


def said(attempt: Attempt) -> Breaches:
    """A message, a result or an error that a component sends to an MCP client."""
    known: frozenset[str] | None = None
    for at, held in _objects(attempt.after):
        for breach in _object(attempt.context, held, at):
            if known is None:
                known = frozenset(canonical(was) for _, was in _objects(attempt.before))
            if canonical(held) not in known:
                yield breach


def samplings(raw: Params) -> int:
    """How often a message asks the agent's model."""
    text = b"" if isinstance(raw, UnsetType) else bytes(raw)
    if b"createMessage" not in text and b"\\u" not in text:
        return 0
    methods = (as_object(held).get("method") for _, held in _objects(value_of(raw)))
    return sum(isinstance(one, str) and squash(one) == squash(SAMPLE) for one in methods)


def sent(attempt: Attempt) -> Breaches:
    """A component's own message has a method that servers send, and names no session."""
    outer = attempt.new
    connects = attempt.method.endswith("/connect")  # older generations open one for a session
    for name in SESSION_NAMES:
        if name in outer and not connects:
            yield "a message of an MCP server names no session", token(name)
    odd = lookalike(outer, _CARRIERS)
    if odd is not None:
        yield f"member {odd!a:.80} could be taken for another", token(odd)
    inner = outer.get("message", outer)
    plain = isinstance(inner, dict) and not {"result", "error"} & set(inner)
    if "message" in outer and (not plain or "method" in outer):
        yield "an MCP message is one request or one notification", "/message"
    method = as_object(inner).get("method")
    if isinstance(method, str) and method not in _SERVERS:
        yield f"{method!a:.80} is nothing that an MCP server sends", ""
    yield from said(attempt)


def passed(attempt: Attempt) -> Breaches:
    """A message to an MCP client that a component has changed."""
    if attempt.direction == "down":
        yield from said(attempt)


def _objects(
    value: Json | Absent, at: str = "", data: AbstractSet[str] = _DATA
) -> Iterator[tuple[str, Json]]:
    """Every object in a value that is no data, with the pointer to it."""
    if isinstance(value, list):
        for index, held in enumerate(value):
            if not isinstance(held, str):
                yield from _objects(held, at + token(index))
        return
    members = pairs(value)
    if members and not isinstance(value, str | Absent):
        yield at, value
    for name, held in members:
        if name not in data and not isinstance(held, str):
            messages = squash(name) == _BY_ANY_NAME
            yield from _objects(held, at + token(name), frozenset() if messages else _DATA)


def _object(context: Context, held: Json, at: str) -> Breaches:
    """The breaches of one object."""
    listed = pairs(held)
    members = {squash(name): value for name, value in listed}
    if len(members) < len(listed):
        spelled = [squash(name) for name, _ in listed]
        if any(spelled.count(name) > 1 for name in _READ):
            yield "two members of an MCP message could be taken for each other", at
    for name, value in listed:
        if name == "_meta":
            yield from _meta(value, at + token(name))
        elif name in _OFFERS and isinstance(value, list):
            yield from _offered(context, value, at + token(name))
        elif isinstance(value, str) and squash(name).endswith(_LINKS):
            yield from _link(context, value, at + token(name))
    if is_login(as_object(members.get("error")).get("code")):
        yield f"error {AUTH_REQUIRED} asks the user to log in, which is for the agent", at
    method = members.get("method")
    asked = _ASKS.get(squash(method)) if isinstance(method, str) else None
    if asked is not None and ("method", asked) not in listed:
        yield f"{method!a:.80} is spelled as no method is, but may be taken for one", at
    if asked == SAMPLE:
        yield from _sampled(context, as_object(members.get("params")), at)
    elif asked == ELICIT:
        yield from _elicited(context, as_object(members.get("params")), at)
    for _, wanted in pairs(members.get(_BY_ANY_NAME)):
        asks = as_object(wanted).get("method")
        if not isinstance(asks, str) or asks not in _SERVERS:
            yield f"{asks!a:.80} is nothing that an MCP server sends", at
    elicitations = members.get("elicitations")
    for each in elicitations if isinstance(elicitations, list) else ():
        yield from _elicited(context, as_object(each), at)
    if "role" in members and "content" in members:
        yield from _prompted(context, members["content"], at)
    if _is_script(members.get("mimetype")):
        yield from _page(context, at)


def _meta(value: Json, at: str) -> Breaches:
    for name, _ in pairs(value):
        if name not in _METAS and not is_namespaced(name):
            yield no_meta_key(name), at + token(name)


def _offered(context: Context, offers: list[Json], at: str) -> Breaches:
    """Names of tools and prompts are plain, and none is a name of another server's."""
    others = frozenset(map(folded, context.names)) | {"mcp"}
    for index, offer in enumerate(offers):
        name = as_object(offer).get("name", "")
        if not isinstance(name, str) or not (
            len(name) <= _NAME and name.isprintable() and name.isascii()
        ):
            yield "a name of a tool or prompt is short, of printable ASCII", at + token(index)
        elif head(name) in others and folded(name) != head(name):
            text = f"{name!a:.80} could be taken for a tool or prompt of somebody else's"
            yield text, at + token(index)


def _link(context: Context, uri: str, at: str) -> Breaches:
    """A link leads inside the session's folders, to the web, or to things of the server itself."""
    plain = uri.replace("{", "").replace("}", "") if at.endswith("Template") else uri
    if not links.of_server(plain, context.folders):
        yield f"link {uri!a:.80} may not be made: it is not in the session's folders", at
    match = _host.match(plain.casefold())
    if match is None:
        return
    if head(match[1]) in map(folded, context.names) or not context.foreign.isdisjoint(
        (plain, plain.removeprefix("acp:"))
    ):
        yield f"link {uri!a:.80} is somebody else's", at
    if plain.casefold().startswith("ui:"):
        yield from _page(context, at)


def _page(context: Context, at: str) -> Breaches:
    """A page of a tool becomes a panel with scripts."""
    if not {"panel", "widget"} <= set(context.grants.editor):
        yield "a page of a tool needs the rights `show:panel` and `web:panel`", at


def _is_script(mime_type: Json) -> bool:
    kind = mime_type.casefold() if isinstance(mime_type, str) else ""
    return "html" in kind and ("profile" in kind or "+" in kind)


def _sampled(context: Context, params: Object, at: str) -> Breaches:
    """A prompt of its own to the agent's model takes the right to prompt."""
    if not context.prompts:
        yield f"`{SAMPLE}` prompts the agent's model\nhint: `,allow=prompt:within` lets it", at
    if params.get("includeContext", "none") not in ("none", None):
        yield f"`{SAMPLE}` may not take along the words of others", at
    yield from _prompted(context, params.get("systemPrompt", ""), at)


def _elicited(context: Context, params: Object, at: str) -> Breaches:
    """A question to the user takes the grant, and says from whom it is."""
    granted, message = context.grants.editor, params.get("message")
    if "ask" not in granted:
        yield f"`{ELICIT}` asks the user\nhint: `,allow=ask:user` lets it", at
    start = f"{context.component}: "
    if not isinstance(message, str) or not message.startswith(start) or _control.search(message):
        yield f"a question to the user begins with the component's name: `{start}…`", at
    mode, url = params.get("mode", "form"), params.get("url")
    if mode == "form" and url is None:
        return
    if mode != "url" or "browser" not in granted:
        yield "an address is opened for the user with `ask:user` and `web:browser` alone", at
    if not isinstance(url, str) or _web.match(url) is None:
        yield "an address that is opened for the user begins with https:// or http://", at


def _prompted(context: Context, content: Json, at: str) -> Breaches:
    """Words that reach the agent as a prompt hold no command, and no link to files elsewhere."""
    blocks: list[Json] = [
        {"type": "text", "text": one} if isinstance(one, str) else one
        for one in (content if isinstance(content, list) else [content])
    ]
    # The server may name things that it has itself: `_link` has looked at these.
    bare: list[Json] = [_without_uri(one) for one in blocks]
    for rule, prompt in ((commands.kept, blocks), (links.added, bare)):
        held: Json = {"prompt": prompt}
        attempt = Attempt(context, "down", PROMPT, Document(held))
        for text, _ in rule(attempt):
            yield text, at


def _without_uri(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    held = {name: value for name, value in block.items() if name != "uri"}
    return {**held, "resource": _without_uri(held["resource"])} if "resource" in held else held
