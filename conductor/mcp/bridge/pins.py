"""What an MCP server offers, held to what it offered before.

A server may show harmless tools first and others later (a *rug pull*). So each definition of a tool
is kept as a digest, and each page of `ui://`. What differs from what is kept is left out of the
list, and a call of it is refused, until the user has agreed to it.

`Pins` has the servers of one bridge, by their keys; `Pinned` is one server; `Reading` is one list,
which is read to its end whatever pages the server makes of it. Pure.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, error_object
from conductor.mcp import limits
from conductor.mcp.bridge import marks
from conductor.mcp.bridge.calls import PendingCall
from conductor.mcp.bridge.effects import Differs, Effect, Keep, Log
from conductor.mcp.bridge.json import NULL, read, text, write
from conductor.mcp.bridge.offers import PAGE, TOOL, Change, Definition, Offer, Server, digest
from conductor.mcp.bridge.protocol import INITIALIZE

LIST: Final = "tools/list"
CALL: Final = "tools/call"
READ: Final = "resources/read"
_UI: Final = "ui:"

_SHOWN: Final = 400
"""Characters of a text that are kept, to show a difference."""
_PARTS: Final = 12
"""Members of a definition with a digest of their own."""
_DIGITS: Final = 16
"""Of such a digest: it only says what has changed."""


class OnChange(enum.Enum):
    """What a change of a server's tools does; from the mildest on."""

    ASK = "ask"
    """What differs is left out until the user has agreed to it."""
    KEEP = "keep"
    """What differs is left out; nobody is asked."""
    DROP = "drop"
    """All tools of the server are left out; nobody is asked."""


# -- definitions -----------------------------------------------------------------------------------


def definition(value: dict[str, Any], others: AbstractSet[str] = frozenset()) -> Definition:
    """What is kept of a tool. `others`: names of other servers' tools."""
    said = value.get("description")
    says = said if isinstance(said, str) else ""
    parts = {name: digest(value[name])[:_DIGITS] for name in sorted(value)[:_PARTS]}
    return Definition(digest(value), parts, says[:_SHOWN], marks.of(value, others))


def _change(kind: str, name: str, value: Any, now: Definition, before: Definition | None) -> Change:
    if before is None or not isinstance(value, dict):
        return Change(kind, name, now, before)
    differ = [part for part in now.parts if now.parts[part] != before.parts.get(part)]
    if now.says != before.says:
        differ = [part for part in differ if part != "description"]
    shown = tuple((part, _text(part, value[part])) for part in differ)
    return Change(kind, name, now, before, shown)


def _text(part: str, value: Any) -> str:
    """The beginning of a member that differs; of a description, whose beginning does not, what
    follows."""
    if part == "description" and isinstance(value, str):
        return f"\u2026{value[_SHOWN : 2 * _SHOWN]}"
    return json_text.encode(value).decode()[:_SHOWN]


class Reading(msgspec.Struct):
    """One list of tools, as far as it has been read."""

    params: dict[str, Raw]
    """Of the first request."""
    tools: dict[str, dict[str, Any]] = {}
    pages: int = 0
    size: int = 0
    twice: int = 0
    """Definitions that were left out: of a name that is in the list already, or of none."""

    def take(self, body: bytes) -> bytes | None:
        """Takes a page; the params that ask for the next one, None after the last. Raises
        `ValueError` for more than is read."""
        fields = read(body)
        self.pages += 1
        self.size += len(body)
        for raw in json_text.elements(fields.get("tools")):
            value = _value(raw)
            name = value.get("name")
            if not isinstance(name, str) or name in self.tools or len(name) > limits.TOOL_NAME:
                self.twice += 1
            else:
                self.tools[name] = value
        cursor = fields.get("nextCursor")
        if cursor is None or bytes(cursor) == NULL:
            return None
        if len(self.tools) > limits.TOOLS or self.size > limits.TOOL_BYTES:
            raise ValueError(f"offers more than {limits.TOOLS} tools, or {limits.TOOL_BYTES} bytes")
        if self.pages >= limits.TOOL_PAGES:
            raise ValueError(f"has more than {limits.TOOL_PAGES} pages of tools")
        return write({**self.params, "cursor": cursor})


def _value(raw: Raw) -> dict[str, Any]:
    """The value of an object; empty: it is none, or cannot be read."""
    try:
        value = json_text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _shown(body: bytes) -> bytes:
    """The result of `initialize`: the client hears of changes of the tools, for what the user
    agrees to later is one."""
    fields = read(body)
    able = read(fields.get("capabilities"))
    if "tools" not in able:
        return body
    tools = {**read(able["tools"]), "listChanged": True}
    return write({**fields, "capabilities": {**able, "tools": tools}})


# -- one server ------------------------------------------------------------------------------------


class Pinned:
    """One server: what is kept of it, and what differs from that."""

    def __init__(self, server: Server, pins: Pins) -> None:
        self.server = server
        self._pins = pins
        self.left_out: dict[str, Change] = {}
        """Tools and pages that differ, by kind and name; what was last seen of each."""
        self._now: dict[str, str] = {}
        """The digests of the tools in the last list: others mention their names."""
        self._dropped = False
        self._told = 0

    @property
    def offer(self) -> Offer | None:
        """What is kept; None: nothing yet."""
        return self._pins.kept.get(self.server.key)

    @property
    def names(self) -> Iterable[str]:
        """The names of its tools."""
        return self._now

    def refuses(self, method: str, params: bytes | None) -> bytes | None:
        """The error for a request that may not go on; None: it may."""
        if method == LIST and bytes(read(params).get("cursor", NULL)) != NULL:
            return error_object(INVALID_PARAMS, "conductor lists all tools at once: no cursor")
        if method != CALL:
            return None
        known = (self.offer or Offer()).tools
        name = text(read(params).get("name")) or ""
        is_known = name in known or not (known or self.left_out or self._pins.closed(self.server))
        if not self._dropped and is_known and f"{TOOL} {name}" not in self.left_out:
            return None
        return error_object(INVALID_PARAMS, self._refusal(TOOL, name))

    def _refusal(self, kind: str, name: str) -> str:
        shown = name[: limits.TOOL_NAME]
        what = f"{kind} `{shown}` of MCP server `{self.server.name}`"
        hint = f"`conductor trust --remove {self.server.name}` forgets what it offered before"
        if self._dropped:
            return f"{what}: the server has changed its tools, so none may be called (hint: {hint})"
        return f"{what} is not as the user has agreed to (hint: {hint})"

    def shown(self, initialized: bytes) -> bytes:
        """A result of `initialize` as clients of the server get it."""
        return _shown(initialized)

    def begin(self, call: PendingCall) -> None:
        """A request goes to the server."""
        if call.method == LIST:
            call.reading = Reading(read(call.params))

    def answered(self, call: PendingCall, body: bytes) -> tuple[bytes, bytes] | None:
        """The outcome for the client of a request that has a result. None: the call goes out again,
        with its new params."""
        reading = call.reading
        if isinstance(reading, Reading):
            try:
                more = reading.take(body)
                if more is None and len(reading.tools) > limits.TOOLS:
                    raise ValueError(f"offers more than {limits.TOOLS} tools")
            except ValueError as error:
                what = f"MCP server `{self.server.name}` {error}; none of them is used"
                self._pins.emit(Log("warning", what))
                return b"error", error_object(INTERNAL_ERROR, what)
            if more is not None:
                call.params = more
                return None
            return b"result", self._listed(reading, body)
        if call.method == INITIALIZE:
            return b"result", _shown(body)
        if call.method == READ:
            uri = text(read(call.params).get("uri")) or ""
            if uri[: len(_UI)].lower() == _UI:
                return self._read(uri, body)
        return b"result", body

    def _listed(self, reading: Reading, body: bytes) -> bytes:
        others = self._pins.names_beside(self) - reading.tools.keys()
        now = {name: definition(value, others) for name, value in reading.tools.items()}
        self._now = {name: each.sha256 for name, each in now.items()}
        if reading.twice:
            text = f"MCP server `{self.server.name}`: {reading.twice} tools without a name of their"
            self._pins.emit(Log("warning", f"{text} own are left out"))
        left_out = self._compared(TOOL, now, reading.tools)
        shown = [] if self._dropped else [v for n, v in reading.tools.items() if n not in left_out]
        fields: dict[str, object] = {**read(body), "tools": shown}
        fields.pop("nextCursor", None)
        if left_out and "ttlMs" in fields:
            fields["ttlMs"] = 0  # the user may agree to more at any time
        return write(fields)

    def _read(self, uri: str, body: bytes) -> tuple[bytes, bytes]:
        contents = _value(Raw(body)).get("contents")
        value = {"contents": contents}
        now = {uri: Definition(digest(value), {}, "", ())}
        offer = self.offer or Offer()
        if uri not in offer.pages and len(offer.pages) < limits.PAGES:
            self._pins.first(self, PAGE, now)
        if self._compared(PAGE, now, {uri: value}) or self._dropped:
            return b"error", error_object(INVALID_PARAMS, self._refusal(PAGE, uri))
        # Written anew: of a name that stands twice, the client must not take the other.
        return b"result", write({**read(body), "contents": contents})

    def _compared(
        self, kind: str, now: Mapping[str, Definition], values: Mapping[str, Any]
    ) -> set[str]:
        """The names of what differs from what is kept. What comes first is kept."""
        offer = self.offer
        if kind == TOOL and now and (offer is None or not offer.tools):
            self._pins.first(self, kind, now)
        kept = (self.offer or Offer()).of(kind)
        differ = {
            name: _change(kind, name, values[name], each, kept.get(name))
            for name, each in now.items()
            if name not in kept or kept[name].sha256 != each.sha256
        }
        before = {at: each for at, each in self.left_out.items() if at.startswith(f"{kind} ")}
        gone = {at for at in before if at.partition(" ")[2] in now or kind == TOOL}
        self.left_out = {at: each for at, each in self.left_out.items() if at not in gone}
        self.left_out |= {f"{kind} {name}": change for name, change in differ.items()}
        if differ:
            self._tell(tuple(differ.values()), before)
        return set(differ)

    def _tell(self, differ: tuple[Change, ...], before: Mapping[str, Change]) -> None:
        """Reports changes that were not reported before. A list that changes each time is reported
        a few times only."""
        if self._pins.on_change is OnChange.DROP:
            self._dropped = True
        new = [each for each in differ if before.get(f"{each.kind} {each.name}") != each]
        if not new or self._told > limits.TOLD_CHANGES:
            return
        self._told += 1
        last = self._told > limits.TOLD_CHANGES
        self._pins.emit(Differs(self.server, tuple(self.left_out.values()), last))

    def agreed(self) -> None:
        """What is kept is more than before, by the user's word."""
        offer = self.offer or Offer()
        self.left_out = {
            at: each
            for at, each in self.left_out.items()
            if each.now.sha256 != getattr(offer.of(each.kind).get(each.name), "sha256", "")
        }
        self._dropped = self._dropped and bool(self.left_out)


class Pins:
    """The servers of one bridge.

    Args:
        server_of: The server of a declaration, by its address and name; None: it is not pinned.
        on_change: What a change does.
    """

    def __init__(
        self, server_of: Callable[[str, str], Server | None], on_change: OnChange = OnChange.ASK
    ) -> None:
        self.server_of = server_of
        self.on_change = on_change
        self.kept: Mapping[str, Offer] = {}
        """What is kept, by the keys of servers."""
        self.locked: frozenset[str] = frozenset()
        """Owners of whose servers no more than what is kept may be offered."""
        self.sealed = False
        """Whether no server may offer more than what is kept."""
        self.emit: Callable[[Effect], None] = lambda _: None
        self._pinned: dict[str, Pinned] = {}
        self._new: Counter[str] = Counter()
        """How many servers of an owner have come."""

    def pinned(self, server: Server) -> Pinned:
        """The state of a server."""
        known = self._pinned.get(server.key)
        if known is None:
            if len(self._pinned) >= limits.PINNED:
                self._pinned.pop(next(iter(self._pinned)))
            known = self._pinned[server.key] = Pinned(server, self)
        return known

    def first(self, pinned: Pinned, kind: str, now: Mapping[str, Definition]) -> None:
        """A server offers something for the first time: that is kept, unless all there may be is
        known, or its owner has brought too many servers."""
        server, offer = pinned.server, pinned.offer
        if offer is None:
            self._new[server.owner] += 1
        if not self.closed(server) and self._new[server.owner] <= limits.NEW_SERVERS:
            self.kept = {**self.kept, server.key: (offer or Offer()).with_(kind, now)}
            self.emit(Keep(server, kind, dict(now)))

    def closed(self, server: Server) -> bool:
        """Whether the first list of a server is none: all there is was agreed to before."""
        return self.sealed or server.owner in self.locked

    def names_beside(self, pinned: Pinned) -> set[str]:
        """The names of the tools of all other servers."""
        return {name for each in self._pinned.values() if each is not pinned for name in each.names}

    def agreed(self, kept: Mapping[str, Offer]) -> list[str]:
        """This is kept from now on; the keys of the servers with less left out than before."""
        self.kept = kept
        freed = []
        for key, pinned in self._pinned.items():
            before = len(pinned.left_out)
            pinned.agreed()
            if len(pinned.left_out) < before:
                freed.append(key)
        return freed
