"""Keeps the offers of the MCP servers of one chain, and has the user asked about changes.

`conductor.mcp.bridge.pins` decides; this module has the parts that need the machine: the component
that a server belongs to, the file of kept offers, the lock, and the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from conductor.core import Violated
from conductor.errors import ConductorError, UsageError, counted
from conductor.mcp.bridge.effects import Differs
from conductor.mcp.bridge.offers import (
    Change,
    Definition,
    Definitions,
    Offer,
    OnChange,
    Server,
    with_,
)
from conductor.mcp.bridge.pins import Pins
from conductor.spec import tools
from conductor.spec.consent.tools import MOST, ToolsQuestion, shown
from conductor.spec.lock import file

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime
    from conductor.spec.model import Spec


class Pinning:
    """The tools of one chain's MCP servers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self._session: dict[str, dict[str, Offer]] = {}
        """The offers agreed to until this conductor ends, by the keys and the names of servers."""
        self._stored: Mapping[str, Mapping[str, Offer]] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._locked, owners = _locked(runtime.options.lock)
        self.pins = Pins(self._server_of, self._on_change(), self._first)
        self.pins.locked = owners

    def _on_change(self) -> OnChange:
        wanted = OnChange(self._runtime.options.changed_tools)
        # A lock file has the answers already.
        is_late = wanted is OnChange.ASK and self._runtime.options.lock is not None
        return OnChange.KEEP if is_late else wanted

    def _server_of(self, address: str, name: str) -> Server | None:
        spec = self._owner(address)
        if spec is None:
            return Server(name, place=name)  # of the client itself
        try:
            if not tools.is_pinned(spec):
                return None
            return Server(name, spec.name, tools.place_of(spec))
        except (OSError, ConductorError):
            return Server(name, spec.name, spec.what)

    def _owner(self, address: str) -> Spec | None:
        """The component that has declared a server; None: the client."""
        name = self._runtime.router.server_owner(address)
        for planned in self._runtime.planned.values():
            own = planned.belongings.own if planned.belongings is not None else {}
            for spec in planned.specs:
                if spec.name == name or address in own.get(spec.name, ()):
                    return spec
        return None

    # -- kept offers -----------------------------------------------------------------------------

    def known(self) -> Mapping[str, Mapping[str, Offer]]:
        """The offers that are kept now, by the keys and the names of servers."""
        stamp = tools.STORE.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._stored = {key: one.servers for key, one in tools.STORE.load().kept.items()}
                self.pins.sealed = False
            except UsageError as error:
                self._stored = {}
                # Nobody may pass off a change as a first list by damaging the file.
                self.pins.sealed = True
                self._log("warning", "mcp", f"{error.text} (hint: {error.hint})")
        kept = {key: dict(servers) for key, servers in self._stored.items()}
        for key, servers in self._session.items():
            held = kept.setdefault(key, {})
            for name, offer in servers.items():
                for kind, definitions in offer.items():
                    held[name] = with_(held.get(name, {}), kind, definitions)
        locked = {
            key: {name: _with_texts(offer, kept.get(key, {})) for name, offer in servers.items()}
            for key, servers in self._locked.items()
        }
        return {**kept, **locked}

    def _first(self, server: Server, kind: str, new: Definitions, names: Iterable[str]) -> bool:
        """Keeps the first list of a server; whether it is kept."""
        self._mark(server, kind, new)
        try:
            tools.keep(server, kind, new, names)
        except UsageError as error:
            text = f"no tools of servers are used that were not agreed to before: {error.text}"
            self._log("warning", server.owner or "mcp", f"{text} (hint: {error.hint})")
            return False
        return True

    def _mark(self, server: Server, kind: str, new: Definitions) -> None:
        for name, each in new.items():
            for mark in each.marks:
                text = next(line for line in shown(Change(kind, name, each)) if line.endswith(mark))
                self._log("warning", server.owner or "mcp", f"MCP server `{server.name}`: {text}")

    # -- changes ---------------------------------------------------------------------------------

    def differs(self, effect: Differs) -> None:
        """A server offers more than before, or other things."""
        question = ToolsQuestion(effect.server, effect.changes)
        self._would(question)
        on_change, why = self.pins.on_change, ""
        if effect.last:
            why = "it has changed too often"
        elif len(effect.changes) > MOST:
            why = f"{len(effect.changes)} differ, more than a question can show"
        elif on_change is OnChange.ASK and self._runtime.owner.differs(question):
            return
        log, who = self._log, question.component
        number = counted(len(effect.changes), "definition")
        what = {
            OnChange.ASK: f"left out: {number}",
            OnChange.KEEP: f"as they were before, or left out: {number}",
            OnChange.DROP: "left out: all its tools",
        }[on_change]
        since = f", since {why}" if why else ""
        text = f"{question.label} has changed its tools: {what}{since}"
        log("warning", who, f"{text} (hint: {question.hint})")
        for change in effect.changes[:MOST]:
            for line in shown(change):
                log("warning", who, line)

    def _would(self, question: ToolsQuestion) -> None:
        """Records the refusal of a managed policy that only watches."""
        from conductor.spec import managed
        from conductor.spec.managed.options import RULE

        policy = managed.written()
        if policy is None or not policy.only_watches:
            return
        word, words = policy.file.changed_tools, [each.value for each in OnChange]
        if words.index(word) > words.index(self.pins.on_change.value):
            text = f'{question.label} has changed its tools: `changed-tools = "{word}"`'
            said = Violated(question.component, RULE, "", "", "", text, fatal=False, would=True)
            self._runtime.records.violated(said)

    def agree(self, question: ToolsQuestion, *, lasting: bool) -> str:
        """The user has agreed to changes; why they cannot be kept, if they cannot."""
        server, problem = question.server, ""
        for kind in dict.fromkeys(each.kind for each in question.changes):
            new = {each.name: each.now for each in question.changes if each.kind == kind}
            if lasting:
                try:
                    tools.keep(server, kind, new, agreed=True)
                    continue
                except UsageError as error:
                    problem = f"{error.text} (hint: {error.hint})"
            held = self._session.setdefault(server.key, {})
            held[server.name] = with_(held.get(server.name, {}), kind, new)
        return problem


def _with_texts(locked: Offer, kept: Mapping[str, Offer]) -> Offer:
    """The offer of a lock, with the kept texts that have the same digests."""
    found = {
        (kind, name, each.sha256): each
        for offer in kept.values()
        for kind, definitions in offer.items()
        for name, each in definitions.items()
    }
    return {
        kind: {name: found.get((kind, name, each.sha256), each) for name, each in held.items()}
        for kind, held in locked.items()
    }


def _locked(path: str | None) -> tuple[dict[str, dict[str, Offer]], frozenset[str]]:
    """The servers in a lock file, by their keys and names, and their owners. Raises
    `UsageError`."""
    offers: dict[str, dict[str, Offer]] = {}
    servers = [] if path is None else file.read(path).server
    for each in servers:
        offers.setdefault(each.key, {})[each.name] = {
            kind: {name: Definition(sha256) for name, sha256 in held.items()}
            for kind, held in each.offers.items()
        }
    return offers, frozenset(each.owner for each in servers)
