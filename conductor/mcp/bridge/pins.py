"""Holds the offer of an MCP server to its former offer.

A server may show harmless tools first and others later (a *rug pull*). So all text that tells a
model or a page what to do is kept (`conductor.mcp.bridge.offers.KINDS`): the definitions of tools
and prompts, the instructions, and all of `ui://`. A definition that differs from the kept one is
left out of a list, and a call of it is refused, until the user has agreed to the change.

`Pins` has the servers of one bridge; `Pinned` is one server. No I/O but by the functions of `Pins`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeGuard

from msgspec import Raw

from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, error_object
from conductor.mcp import limits
from conductor.mcp.bridge.calls import PendingCall
from conductor.mcp.bridge.effects import Differs, Effect, Log
from conductor.mcp.bridge.json import NULL, read, text, write
from conductor.mcp.bridge.offers import (
    INSTRUCTIONS,
    LISTED,
    PAGE,
    TOOL,
    USED,
    Change,
    Definitions,
    Kind,
    Offer,
    OnChange,
    Server,
    definition,
    with_,
)
from conductor.mcp.bridge.protocol import DISCOVER, INITIALIZE
from conductor.mcp.bridge.reading import Reading, is_name, value_of

READ: Final = "resources/read"
_SAYS: Final = "instructions"
_UI: Final = re.compile(r"[\x00- ]*u[\t\n\r]*i[\t\n\r]*:", re.IGNORECASE)
"""The scheme of pages. Who opens a URL passes over controls and spaces before it and in it."""


def _is_page(uri: object) -> TypeGuard[str]:
    return isinstance(uri, str) and _UI.match(uri) is not None


def _without(body: bytes, *names: str) -> dict[str, object]:
    """The members of a result but these, in whatever case: some readers mind no case."""
    folded = {name.casefold() for name in names}
    return {name: raw for name, raw in read(body).items() if name.casefold() not in folded}


def _shown(body: bytes) -> bytes:
    """The result of `initialize`, with word that the list of tools may change: it does once the
    user agrees to a change."""
    fields = read(body)
    able = read(fields.get("capabilities"))
    if "tools" not in able:
        return body
    tools = {**read(able["tools"]), "listChanged": True}
    return write({**fields, "capabilities": {**able, "tools": tools}})


# -- one server ------------------------------------------------------------------------------------


class Pinned:
    """One server: its kept offer, and the changes from it."""

    def __init__(self, server: Server, pins: Pins) -> None:
        self.server = server
        self.key = server.key
        self._pins = pins
        self.left_out: dict[tuple[str, str], Change] = {}
        """The changes, by the word of their kind and their name, as they were last seen."""
        self.names: AbstractSet[str] = frozenset()
        """The tools in the last list: others mention their names."""
        self._told = 0

    def refuses(self, method: str, params: bytes | None) -> bytes | None:
        """The error for a request that may not go on; None: it may."""
        listed, used = LISTED.get(method), USED.get(method)
        if listed is not None and listed.is_whole:
            if bytes(read(params).get("cursor", NULL)) == NULL:
                return None
            what = f"conductor lists all {listed.word}s at once: no cursor"
            return error_object(INVALID_PARAMS, what)
        if used is None:
            return None
        name = text(read(params).get("name")) or ""
        if not self._is_dropped and self._is_agreed(used.word, name):
            return None
        return error_object(INVALID_PARAMS, self._refusal(used.word, name))

    @property
    def _is_dropped(self) -> bool:
        return self.key in self._pins.dropped

    def _is_agreed(self, kind: str, name: str) -> bool:
        """Whether something may be used. Before its first list nothing of a server is known."""
        change = self.left_out.get((kind, name))
        if change is not None:
            return bool(self._in_place_of(change))
        offers = self._pins.offers(self)
        if any(name in each.get(kind, ()) for each in offers):
            return True
        lists = offers[:1] if self._pins.may_begin(self) else offers
        is_known = any(kind in each for each in lists) or any(at == kind for at, _ in self.left_out)
        return not is_known and not self._pins.closed(self.server)

    def _in_place_of(self, change: Change) -> str:
        """The JSON that clients get in place of a change; empty: nothing."""
        if self._pins.on_change is OnChange.KEEP and change.before is not None:
            return change.before.text
        return ""

    def _refusal(self, kind: str, name: str) -> str:
        shown = name[: limits.TOOL_NAME]
        what = f"{kind} `{shown}` of MCP server `{self.server.name}`"
        hint = f"`conductor trust --remove {self.server.name}` forgets its former tools"
        if self._is_dropped:
            return f"{what}: the server has changed its tools, so none may be called (hint: {hint})"
        return f"{what} is not as the user has agreed to (hint: {hint})"

    def shown(self, initialized: bytes) -> bytes:
        """A result of `initialize` as clients of the server get it."""
        return _shown(initialized)

    def begin(self, call: PendingCall) -> None:
        """A request goes to the server."""
        kind = LISTED.get(call.method)
        if kind is not None and kind.is_whole:
            call.reading = Reading(kind, read(call.params))

    def answered(self, call: PendingCall, body: bytes) -> tuple[bytes, bytes] | None:
        """The outcome for the client of a request that has a result. None: the call goes out again,
        with its new params."""
        reading, kind = call.reading, LISTED.get(call.method)
        if isinstance(reading, Reading):
            try:
                more = reading.take(body)
            except ValueError as error:
                what = f"MCP server `{self.server.name}` {error}; none of them is used"
                self._pins.emit(Log("warning", what))
                return b"error", error_object(INTERNAL_ERROR, what)
            if more is not None:
                call.params = more
                return None
            return b"result", self._listed(reading, body)
        if kind is not None:
            return b"result", self._with_pages(kind, body)
        if call.method in (INITIALIZE, DISCOVER):
            body = self._instructed(body)
            return b"result", _shown(body) if call.method == INITIALIZE else body
        if call.method == READ:
            uri = text(read(call.params).get("uri"))
            if _is_page(uri):
                return self._read(uri, body)
        return b"result", body

    def _listed(self, reading: Reading, body: bytes) -> bytes:
        kind, entries = reading.kind, reading.entries
        if kind is TOOL:
            self.names = frozenset(entries)
        others = self._pins.names_beside(self) - entries.keys()
        now = {name: definition(value, others) for name, value in entries.items()}
        if reading.twice:
            said = f"MCP server `{self.server.name}`: {reading.twice} {kind.word}s"
            self._pins.emit(Log("warning", f"{said} without a name of their own are left out"))
        shown = self._compared(kind, now, entries)
        fields = _without(body, kind.member, "nextCursor")
        fields[kind.member] = list(shown.values())
        if len(shown) < len(entries) and "ttlMs" in fields:
            fields["ttlMs"] = 0  # the user may agree to more at any time
        return write(fields)

    def _with_pages(self, kind: Kind, body: bytes) -> bytes:
        """A list of resources or templates: entries with `ui://` are compared."""
        # Written anew: of a member that stands twice, the client must not take the other value.
        found = [value_of(raw) for raw in json_text.elements(read(body).get(kind.member))]
        listed = [each for each in found if is_name(each.get(kind.key))]
        pages = {value[kind.key]: value for value in listed if _is_page(value[kind.key])}
        fields = _without(body, kind.member)
        if not pages:
            return body if not _names_pages(body) else write({**fields, kind.member: listed})
        others = self._pins.names_beside(self)
        now = {uri: definition(value, others) for uri, value in pages.items()}
        shown = self._compared(kind, now, pages)
        kept = [
            shown.get(value[kind.key], value)
            for value in listed
            if not _is_page(value[kind.key]) or value[kind.key] in shown
        ]
        return write({**fields, kind.member: kept})

    def _read(self, uri: str, body: bytes) -> tuple[bytes, bytes]:
        if text(read(body).get("resultType")) == "input_required":
            return b"result", write(_without(body, "contents"))  # the page comes later
        value = {"contents": value_of(Raw(body)).get("contents")}
        uri = uri.encode(errors="backslashreplace").decode()
        shown = self._compared(PAGE, {uri: definition(value)}, {uri: value}).get(uri)
        if shown is None:
            return b"error", error_object(INVALID_PARAMS, self._refusal(PAGE.word, uri))
        contents = read(shown)["contents"] if isinstance(shown, Raw) else value["contents"]
        return b"result", write({**read(body), "contents": contents})

    def _instructed(self, body: bytes) -> bytes:
        """A result with the instructions of the server to the model, as they were agreed to."""
        said, fields = read(body), _without(body, _SAYS)
        if len(fields) == len(said):
            return body
        value = value_of(Raw(write({_SAYS: said.get(_SAYS)})))
        now = definition(value, self._pins.names_beside(self))
        shown = self._compared(INSTRUCTIONS, {"": now}, {"": value}).get("")
        if shown is not None:
            fields[_SAYS] = read(shown)[_SAYS] if isinstance(shown, Raw) else value[_SAYS]
        return write(fields)

    def _compared(self, kind: Kind, now: Definitions, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that the client gets, by name: the value itself, or raw JSON that was agreed
        to in place of it."""
        offers = self._first(kind, now)
        differ = {}
        for name, each in now.items():
            kept = [offer[kind.word][name] for offer in offers if name in offer.get(kind.word, ())]
            if all(one.sha256 != each.sha256 for one in kept):
                before = next((one for one in kept if one.text), kept[0] if kept else None)
                differ[name] = Change(kind.word, name, each, before)
        earlier = {at: each for at, each in self.left_out.items() if at[0] == kind.word}
        for at in earlier:
            if kind.is_whole or at[1] in now:
                del self.left_out[at]
        self.left_out |= {(kind.word, name): change for name, change in differ.items()}
        if not kind.is_whole:  # who reads pages without an end fills no memory
            for at in [at for at in self.left_out if at[0] == kind.word][: -limits.PAGES]:
                del self.left_out[at]
        if differ:
            self._tell(tuple(differ.values()), earlier)
        if self._is_dropped:
            return {}
        texts = {name: self._in_place_of(change) for name, change in differ.items()}
        return {
            name: Raw(texts[name].encode()) if name in texts else value
            for name, value in values.items()
            if texts.get(name, "-")
        }

    def _first(self, kind: Kind, now: Definitions) -> list[Offer]:
        """Keeps definitions that come first. Returns the kept offers of this server's program."""
        pins, word = self._pins, kind.word
        offers = pins.offers(self)
        if pins.closed(self.server):
            # A lock has digests alone; the texts are kept for the time when others come.
            held = [each for offer in offers for each in offer.get(word, {}).items()]
            bare = {(name, each.sha256) for name, each in held if not each.text}
            bare -= {(name, each.sha256) for name, each in held if each.text}
            fit = {n: each for n, each in now.items() if each.text and (n, each.sha256) in bare}
            return pins.keeps(self, word, fit) if fit else offers
        own = offers[0].get(word, {})
        new = {n: d for n, d in now.items() if n not in own and len(n) <= limits.TOOL_NAME}
        if kind.is_whole and own:
            new = {}
        elif not kind.is_whole:
            new = dict(list(new.items())[: max(0, limits.PAGES - len(own))])
        return pins.keeps(self, word, new) if new and pins.may_begin(self) else offers

    def _tell(self, differ: tuple[Change, ...], before: Mapping[tuple[str, str], Change]) -> None:
        """Reports changes that were not reported before. A list that changes each time is reported
        a few times only."""
        if self._pins.on_change is OnChange.DROP:
            self._pins.dropped.add(self.key)
        new = [each for each in differ if before.get((each.kind, each.name)) != each]
        if not new or self._told > limits.TOLD_CHANGES:
            return
        self._told += 1
        last = self._told > limits.TOLD_CHANGES
        self._pins.emit(Differs(self.server, tuple(self.left_out.values()), last))

    def agreed(self) -> None:
        """The kept offers have grown, by the user's word."""
        offers = self._pins.offers(self)
        self.left_out = {
            (kind, name): change
            for (kind, name), change in self.left_out.items()
            if all(
                change.now.sha256 != getattr(offer.get(kind, {}).get(name), "sha256", "")
                for offer in offers
            )
        }


def _names_pages(body: bytes) -> bool:
    """Whether raw JSON may have a URI of a page, in a member that stands twice too."""
    return b"ui:" in body.lower() or b"\\" in body


class Pins:
    """The servers of one bridge.

    Args:
        server_of: The server of a declaration, by its address and name; None: it is not pinned.
        on_change: The effect of a change.
        keep: Keeps the first definitions of a kind that a server offers. The names are those of
            all servers that came with it. Returns whether the definitions are kept.
    """

    def __init__(
        self,
        server_of: Callable[[str, str], Server | None],
        on_change: OnChange = OnChange.ASK,
        keep: Callable[[Server, str, Definitions, Iterable[str]], bool] = lambda *_: True,
    ) -> None:
        self.server_of = server_of
        self.on_change = on_change
        self._keep = keep
        self.kept: Mapping[str, Mapping[str, Offer]] = {}
        """The kept offers, by the keys and the names of servers."""
        self.locked: frozenset[str] = frozenset()
        """Owners whose servers may offer no more than their kept offers."""
        self.sealed = False
        """Whether no server may offer more than its kept offer."""
        self.dropped: set[str] = set()
        """Keys of servers of which nothing may be used any more."""
        self.emit: Callable[[Effect], None] = lambda _: None
        self._pinned: dict[tuple[str, str], Pinned] = {}
        self._first: dict[str, frozenset[str]] = {}
        """The names of the servers that came first, by their key."""

    def pinned(self, server: Server) -> Pinned:
        """The state of a server."""
        at = server.key, server.name
        known = self._pinned.get(at)
        if known is None:
            if len(self._pinned) >= limits.PINNED:
                self._pinned.pop(next(iter(self._pinned)))
            known = self._pinned[at] = Pinned(server, self)
        return known

    def begin(self, servers: Iterable[Server]) -> None:
        """A session is set up with these servers. A program that has not served before may bring
        several servers. A known program's server with a new name is held to the kept offers."""
        names: dict[str, list[str]] = {}
        for server in servers:
            names.setdefault(server.key, []).append(server.name)
        for key, those in names.items():
            if key not in self._first:
                new = () if key in self.kept else those[: limits.NEW_SERVERS]
                self._first[key] = frozenset(new)

    def may_begin(self, pinned: Pinned) -> bool:
        """Whether a server may have a first list."""
        name, key = pinned.server.name, pinned.key
        return name in self.kept.get(key, ()) or name in self._first.get(key, ())

    def keeps(self, pinned: Pinned, kind: str, now: Definitions) -> list[Offer]:
        """Keeps definitions. Returns the kept offers of this server's program. Definitions that
        cannot be kept are not agreed to, and no later list is then a first one."""
        server, key = pinned.server, pinned.key
        held = self.kept.get(key, {})
        own = held.get(server.name, {})
        more = with_(own, kind, now)
        if more != own:
            names = self._first.get(key, frozenset()) | {server.name}
            if self._keep(server, kind, now, names):
                self.kept = {**self.kept, key: {**held, server.name: more}}
            else:
                self.sealed = True
        return self.offers(pinned)

    def offers(self, pinned: Pinned) -> list[Offer]:
        """The kept offers of this server's program: first of this server, then of its others."""
        held = self.kept.get(pinned.key, {})
        others = (each for name, each in held.items() if name != pinned.server.name)
        return [held.get(pinned.server.name, {}), *others]

    def closed(self, server: Server) -> bool:
        """Whether the first list of a server is none: all there is was agreed to before."""
        return self.sealed or server.owner in self.locked

    def names_beside(self, pinned: Pinned) -> set[str]:
        """The names of the tools of all other servers."""
        return {name for each in self._pinned.values() if each is not pinned for name in each.names}

    def agreed(self, kept: Mapping[str, Mapping[str, Offer]]) -> list[Pinned]:
        """Takes the kept offers that hold from now on. Returns the servers with fewer changes left
        out than before. The next list of a forgotten server is a first one again."""
        for key in self.kept.keys() - kept.keys():
            self._first[key] = frozenset(self.kept[key])
        self.kept = kept
        freed = []
        for pinned in self._pinned.values():
            before = len(pinned.left_out)
            pinned.agreed()
            if len(pinned.left_out) < before:
                freed.append(pinned)
        return freed
