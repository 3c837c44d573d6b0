"""Keeps what the MCP servers of one chain offer, and has the user asked about changes.

`conductor.mcp.bridge.pins` decides; this module has what it needs of the machine: which component a
server belongs to, the file of what is kept, the lock, and the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from conductor.errors import ConductorError, UsageError, counted
from conductor.mcp.bridge.effects import Differs, Keep
from conductor.mcp.bridge.offers import PAGE, TOOL, Change, Definition, Offer, Server
from conductor.mcp.bridge.pins import OnChange, Pins
from conductor.spec import tools
from conductor.spec.consent.tools import MOST, ToolsQuestion, shown
from conductor.spec.lock import file

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime
    from conductor.spec.model import Spec

Definitions: TypeAlias = Mapping[str, Definition]


class Pinning:
    """The tools of one chain's MCP servers."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self._session: dict[str, Offer] = {}
        """What was agreed to until this conductor ends, by the keys of servers."""
        self._stored: dict[str, Offer] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._locked, owners = _locked(runtime.options.lock)
        self.pins = Pins(self._server_of, self._on_change())
        self.pins.locked = owners

    def _on_change(self) -> OnChange:
        wanted = OnChange(self._runtime.options.changed_tools)
        # A lock file has the answers already.
        is_late = wanted is OnChange.ASK and self._runtime.options.lock is not None
        return OnChange.KEEP if is_late else wanted

    def _server_of(self, address: str, name: str) -> Server | None:
        spec = self._owner(address)
        if spec is None:
            return Server(name)
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

    # -- what is kept ----------------------------------------------------------------------------

    def known(self) -> Mapping[str, Offer]:
        """What is kept now, by the keys of servers."""
        stamp = tools.STORE.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                found = tools.STORE.load().servers
                self._stored = {key: each.offer for key, each in found.items()}
                self.pins.sealed = False
            except UsageError as error:
                self._stored = {}
                # Nobody may pass off a change as a first list by damaging the file.
                self.pins.sealed = True
                self._log("warning", "mcp", f"{error.text} (hint: {error.hint})")
        kept = dict(self._stored)
        for key, offer in self._session.items():
            kept[key] = _both(kept.get(key, Offer()), offer)
        return {**kept, **self._locked}

    def keep(self, effect: Keep) -> None:
        """Keeps what a server offers first."""
        server = effect.server
        self._mark(server, effect)
        problem = self._keep(server, effect.kind, effect.definitions, agreed=False)
        if problem:
            self._log("warning", server.owner or "mcp", f"its tools are not compared: {problem}")

    def _keep(self, server: Server, kind: str, new: Definitions, *, agreed: bool) -> str:
        """Keeps definitions; why only until this conductor ends, if it does."""
        try:
            tools.keep(server, kind, new, agreed=agreed)
        except UsageError as error:
            self._for_now(server, kind, new)
            return f"{error.text} (hint: {error.hint})"
        return ""

    def _for_now(self, server: Server, kind: str, new: Definitions) -> None:
        held = self._session.get(server.key, Offer())
        self._session[server.key] = held.with_(kind, new)

    def _mark(self, server: Server, effect: Keep) -> None:
        for name, each in effect.definitions.items():
            for mark in each.marks:
                change = Change(effect.kind, name, each)
                text = next(line for line in shown(change) if line.endswith(mark))
                self._log("warning", server.owner or "mcp", f"MCP server `{server.name}`: {text}")

    # -- what differs ----------------------------------------------------------------------------

    def differs(self, effect: Differs) -> None:
        """A server offers what it has not offered before."""
        question = ToolsQuestion(effect.server, effect.changes)
        why = ""
        if effect.last:
            why = "it has changed too often"
        elif len(effect.changes) > MOST:
            why = f"{len(effect.changes)} differ, more than a question can show"
        elif self.pins.on_change is OnChange.ASK and self._runtime.owner.differs(question):
            return
        log, who = self._log, question.component
        drops = self.pins.on_change is OnChange.DROP
        what = "all its tools" if drops else counted(len(effect.changes), "definition")
        since = f", since {why}" if why else ""
        text = f"{question.label} offers what it did not before: left out: {what}{since}"
        log("warning", who, f"{text} (hint: {question.hint})")
        for change in effect.changes[:MOST]:
            for line in shown(change):
                log("warning", who, line)

    def agree(self, question: ToolsQuestion, *, lasting: bool) -> str:
        """The user has agreed to changes; why they cannot be kept, if they cannot."""
        server, problem = question.server, ""
        for kind in dict.fromkeys(each.kind for each in question.changes):
            new = {each.name: each.now for each in question.changes if each.kind == kind}
            if lasting:
                problem = self._keep(server, kind, new, agreed=True)
            else:
                self._for_now(server, kind, new)
        return problem


def _both(first: Offer, second: Offer) -> Offer:
    """All that two offers have; of one name the second's."""
    return first.with_(TOOL, second.tools).with_(PAGE, second.pages)


def _locked(path: str | None) -> tuple[dict[str, Offer], frozenset[str]]:
    """The servers in a lock file, by their keys, and their owners. Raises `UsageError`."""
    servers = [] if path is None else file.read(path).server
    offers = {
        each.key: Offer(
            {name: Definition(sha256) for name, sha256 in each.tools.items()},
            {uri: Definition(sha256) for uri, sha256 in each.pages.items()},
        )
        for each in servers
    }
    return offers, frozenset(each.owner for each in servers)
