"""Hides or denies tools of MCP servers by rule, and rewrites words of the agent's answers.

conductor agent 'tool-filter,config.deny=["*/delete_*"]' claude-agent-acp
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from guest_sdk.python import DROP, REFUSED, Notification, Proxy, ProxyError, Request, Update

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
CALLS = ("mcp/message", "_mcp/message", "_mcp/request", "_mcp/client_to_server/request", "_scp/mcp")
TOLD = ("mcp/message", "_mcp/message", "_mcp/notification", "_mcp/client_to_server/notification")
CHUNKS = ("agent_message_chunk", "agent_thought_chunk")
BESIDE = (
    "usage_update", "available_commands_update", "current_mode_update", "config_option_update",
    "session_info_update", "plan", "plan_update", "plan_removed",
)  # fmt: skip
"""Updates that are no part of the text: a word may go on after them."""
FINISHED = ("completed", "failed", "cancelled")
REMEMBERED = 512
"""Tool calls of one session that are kept in mind."""
IDS = ("connectionId", "connection_id", "serverId", "acpId", "acp_id", "acp_url", "id", "url")
"""The members that name servers and connections, in all generations of MCP over ACP."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    hide: list[str] = field(default_factory=list)
    rewrite: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if "" in self.rewrite:
            raise ValueError("`rewrite`: a word cannot be empty")


@dataclass
class Held:
    """The end of a session's text, which may be the beginning of a word."""

    text: str = ""
    of: tuple[str, Any] | None = None
    """The kind and the message that it belongs to."""
    chunk: tuple[Update, Any] | None = None
    """The chunk that waits for more text, with the function that passes it on."""
    before: str = ""
    """The character in front of the end, if it is known."""
    calls: dict[str, list[str]] = field(default_factory=dict)
    """The names of tool calls that are not over, by id."""


proxy = Proxy(
    "tool-filter",
    description="Hides or denies tools of MCP servers by rule, and rewrites words of the answers.",
    config=Config,
    session=Held,
)
servers: dict[str, str] = {}
"""Names of MCP servers by whatever a message names them or their connections by."""


# -- tools -----------------------------------------------------------------------------------------


def fits(rules: list[str], server: str | None, tool: str) -> bool:
    """Whether one of the rules, `TOOL` or `SERVER/TOOL`, speaks of a tool."""
    for rule in rules:
        owner, slash, name = rule.rpartition("/")
        if fnmatchcase(tool, name) and (not slash or server is None or fnmatchcase(server, owner)):
            return True
    return False


def denied(server: str | None, tool: str) -> bool:
    """Whether a tool may not be called. Of a server whose name is not known, the rules that deny
    speak, those that allow do not."""
    config = proxy.config
    if fits(config.deny, server, tool):
        return True
    return bool(config.allow) and not fits(config.allow, server or "", tool)


def texts(held: Any, *names: str) -> Iterator[str]:
    """The members with these names that are text."""
    for name in names:
        if isinstance(held, dict) and isinstance(held.get(name), str):
            yield held[name]


def listing(held: Any) -> list[Any]:
    """The list itself; empty for anything else."""
    return held if isinstance(held, list) else []


@proxy.request(*SETUPS)
async def declared(request: Request, following: Any) -> Any:
    params = request.params
    for holder in (params, params.get("tools")):
        found = holder.get("mcpServers") if isinstance(holder, dict) else None
        entries = found.items() if isinstance(found, dict) else enumerate(listing(found))
        for key, entry in entries:
            name = next(texts(entry, "name"), str(key))
            for known in (name, *texts(entry, *IDS)):
                servers[known] = servers[known.removeprefix("acp:")] = name
    result = await following(request)
    if "sessionId" in params:
        await finish(request.session)
    return result


@proxy.request("mcp/connect", "_mcp/connect")
async def connected(request: Request, following: Any) -> Any:
    result = await following(request)
    for server in texts(request.params, *IDS):
        for connection in texts(result, *IDS):
            servers[connection] = servers.get(server, servers.get(server.removeprefix("acp:"), ""))
    return result


def asked(params: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The name of the server, if it is known, and the MCP message, of any generation."""
    inner = params.get("message")
    ids = texts(params, *IDS, "name")
    server = next((servers[one] for one in ids if servers.get(one)), None)
    return server, inner if isinstance(inner, dict) else params


def tool_called(inner: dict[str, Any]) -> str | None:
    """The tool that a message calls; empty: a name that cannot be read; None: the message is no
    call."""
    if inner.get("method") != "tools/call":
        return None
    return next(texts(inner.get("params"), "name"), "")


@proxy.request(*CALLS)
async def called(request: Request, following: Any) -> Any:
    server, inner = asked(request.params)
    tool = tool_called(inner) if request.direction == "up" else None
    if tool is not None and denied(server, tool):
        where = f" of `{server}`" if server else ""
        proxy.log.warn(f"a call of the tool `{tool}`{where} was refused: it is denied")
        return refused(request.params, ProxyError(f"the tool `{tool}`{where} is denied", REFUSED))
    result = await following(request)
    if request.direction == "up" and inner.get("method") == "tools/list":
        narrow(server, result)
    return result


@proxy.notification(*TOLD)
def told(notification: Notification) -> Any:
    server, inner = asked(notification.params)
    tool = tool_called(inner)
    return DROP if tool is not None and denied(server, tool) else None


def refused(params: dict[str, Any], error: ProxyError) -> Any:
    """The answer to a denied call, in the form of the request's generation."""
    if "message" in params:
        number = params["message"].get("id") if isinstance(params["message"], dict) else None
        return {"message": {"jsonrpc": "2.0", "id": number, "error": error.body()}}
    if "serverId" in params:
        return {"error": error.body()}
    raise error


def narrow(server: str | None, result: Any) -> None:
    """Takes tools out of the answer to `tools/list`."""
    for path in ((), ("result",), ("message", "result")):
        holder = result
        for name in path:
            holder = holder.get(name) if isinstance(holder, dict) else None
        tools = holder.get("tools") if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(tools, list):
            holder["tools"] = [tool for tool in tools if listed(server, tool)]


def listed(server: str | None, tool: Any) -> bool:
    """Whether the agent may know of a tool; an entry that cannot be read is hidden."""
    return any(
        not denied(server, name) and not fits(proxy.config.hide, server, name)
        for name in texts(tool, "name")
    )


@proxy.request("session/request_permission")
def permission(request: Request) -> Any:
    """Refuses permissions for denied tools: agents call them `mcp__SERVER__TOOL` there."""
    subject = request.params.get("subject")  # in version 2 of the protocol
    held = subject if isinstance(subject, dict) else {}
    call = request.params.get("toolCall", held.get("toolCall"))
    if request.direction != "up" or not isinstance(call, dict):
        return None
    found = list(names(call))
    if isinstance(request.params.get("sessionId"), str):  # it may name its tool call only
        found += request.state.calls.get(str(call.get("toolCallId")), [])
    if not any(map(denied_as, found)):
        return None
    proxy.log.warn(f"a permission for `{found[0]}` was refused: the tool is denied")
    return request.refuse()


def denied_as(name: str) -> bool:
    """Whether a tool may not be used that is called `mcp__SERVER__TOOL`.

    Where one ends and the other begins cannot be told if either has two underscores: it is denied
    if a rule denies either reading, and allowed if one allows either.
    """
    _, *parts = name.split("__")
    found = [("__".join(parts[:at]), "__".join(parts[at:])) for at in range(1, len(parts))]
    deny, allow = spelt(proxy.config.deny), spelt(proxy.config.allow)
    if any(fits(deny, server, tool) for server, tool in found):
        return True
    return bool(allow) and not any(fits(allow, server, tool) for server, tool in found)


def spelt(rules: list[str]) -> list[str]:
    """Rules, also as agents spell names in which there are other signs than these."""
    return [*rules, *(re.sub(r"[^\w*?/-]", "_", rule, flags=re.ASCII) for rule in rules)]


def names(call: dict[str, Any]) -> Iterator[str]:
    """The names of the tool of a call, as far as it is a tool of MCP."""
    metas = call.get("_meta")
    inner = [metas, *metas.values()] if isinstance(metas, dict) else []
    for held in (call, *inner):
        for name in texts(held, "title", "name", "toolName"):
            if name.startswith("mcp__") and name.count("__") >= 2:
                yield name


@proxy.update("tool_call", "tool_call_update")
def remember(update: Update) -> None:
    """Keeps the name of a tool call, for a permission request without the name."""
    calls, id_ = update.state.calls, update.update.get("toolCallId")
    if update.replayed or not isinstance(id_, str):
        return
    found = [*calls.pop(id_, []), *names(update.update)]
    if found and update.update.get("status") not in FINISHED:
        calls[id_] = list(dict.fromkeys(found))
    while len(calls) > REMEMBERED:
        del calls[next(iter(calls))]


# -- words -----------------------------------------------------------------------------------------


def pattern(word: str) -> str:
    """A word as a pattern: it does not stand inside of another."""
    left = r"(?<!\w)" if re.match(r"\w", word) else ""
    right = r"(?!\w)" if re.search(r"\w\Z", word) else ""
    return left + re.escape(word) + right


def written(text: str, before: str = "", end: int | None = None) -> tuple[str, str]:
    """A text with its words rewritten as far as `end`, and the rest; `before` stands in front."""
    words = sorted(proxy.config.rewrite, key=len, reverse=True)
    whole, at = before + text, len(before)
    end = len(whole) if end is None else end + at
    shown = []
    for found in re.compile("|".join(map(pattern, words))).finditer(whole, at):
        if found.start() >= end:
            break
        shown += [whole[at : found.start()], proxy.config.rewrite[found[0]]]
        at = found.end()
    end = max(at, end)
    return "".join([*shown, whole[at:end]]), whole[end:]


def open_end(text: str) -> int:
    """The place from which on the end of a text may become a word that is rewritten."""
    most = max(map(len, proxy.config.rewrite))
    for at in range(max(0, len(text) - most), len(text)):
        end = text[at:]
        for word in proxy.config.rewrite:
            # A whole word is undecided too, while the next character may go on with it.
            if word.startswith(end) and (end != word or pattern(word).endswith(r"(?!\w)")):
                return at
    return len(text)


@proxy.update()
async def said(update: Update, following: Any) -> None:
    if not proxy.config.rewrite or update.kind in BESIDE:
        await following(update)
        return
    held, content = update.state, update.update.get("content")
    fits_on = (
        update.kind in CHUNKS
        and isinstance(content, dict)
        and isinstance(content.get("text"), str)
        and content.get("type") == "text"
    )
    of = update.kind, update.update.get("messageId")
    if not fits_on or of != held.of:
        await finish(update.session)
    if fits_on:
        update.state.of = of
        await streams(update, following)
    else:
        await following(update)


async def streams(update: Update, following: Any) -> None:
    """Rewrites a chunk as far as it is clear; with an end that may become a word it waits.

    Every chunk goes on, in order, if need be without text. The conductor compares what goes on with
    the oldest that has not: with one that was left out, a later one might break a rule.
    """
    held, content = update.state, update.update["content"]
    whole, clear = held.text + content["text"], open_end(held.text + content["text"])
    first, rest = written(whole, held.before, min(len(held.text), clear))
    taken = len(whole) - len(rest)
    before = (held.before + whole[:taken])[-1:]
    content["text"], held.text = written(rest, before, max(0, clear - taken))
    held.before = (held.before + whole[: len(whole) - len(held.text)])[-1:]
    if held.chunk:
        await goes(held.chunk, first)
    held.chunk = (update, following) if held.text else None
    if not held.text:
        await following(update)


async def goes(chunk: tuple[Update, Any], text: str) -> None:
    """A chunk that has waited goes on, with more text."""
    update, following = chunk
    update.update["content"]["text"] += text
    await following(update)


async def finish(session: Any) -> None:
    """Shows the end that was held back: no text follows that could change it."""
    held = session.state
    session.state = Held(calls=held.calls)
    if held.chunk:
        text, _ = written(held.text, held.before)
        await goes(held.chunk, text)


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    try:
        return await following(request)
    finally:
        if "sessionId" in request.params:
            await finish(request.session)


if __name__ == "__main__":
    proxy.run()
