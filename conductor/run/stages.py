"""The stages of a chain: who is waited for, for what, and since when.

Read from the router, by a clock that the caller passes in: nothing here waits or writes. A status
line on a terminal, the log and the log file show the same sentences.
"""

from __future__ import annotations

import itertools
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, json_text, jsonrpc
from conductor.core.dialects import INITIALIZE
from conductor.core.json_text import holds
from conductor.core.jsonrpc import Message
from conductor.core.router import Router
from conductor.core.state import IdSpace, Visit
from conductor.errors import one_line
from conductor.run.planned import Planned

LOADING: Final = "load"
COMPILING: Final = "compile"
"""The work of a host of guests before it answers anything."""

LONG: Final = 30.0
"""Seconds after which something may be wrong."""

CLIENT: Final = "the client"
_PROMPT: Final = "session/prompt"
_NEW: Final = "session/new"

LOGIN: Final = "log in with the agent's own command first"
_SET_UP: Final = (INITIALIZE, "authenticate", _NEW, "session/load", "session/resume")
"""Requests whose errors hold nothing of a conversation."""

_MOST: Final = 100
"""Open requests of one connection, or of one side of it, whose times are kept."""

_ADVICE: Final = {
    INITIALIZE: "it may not speak ACP on its standard input and output, wait for a login, or be "
    "downloading something",
    _NEW: "it may wait for a login, or for an MCP server that does not start",
    _PROMPT: "a model may need this long; `timeout` of `conductor exec` and `quiet=SECONDS` behind "
    "the agent limit a turn",
    LOADING: "its first use compiles it, which takes up to a minute on a busy machine; "
    "`conductor doctor` shows whether compiled modules are kept",
    COMPILING: "this takes up to a minute on a busy machine; `conductor doctor` shows whether "
    "compiled modules are kept",
}


class Stage(msgspec.Struct, frozen=True):
    """The state that the oldest open request of the client waits for."""

    who: str
    """A component, the guests of a host, `the conductor`, or `the client`."""
    what: str
    """The method of the request that has no answer, `LOADING` or `COMPILING`."""
    since: float
    """The begin of the stage."""
    command: tuple[str, ...] = ()
    """The component's command, if it is a program."""

    @property
    def text(self) -> str:
        """The stage in words."""
        match self.what:
            case "compile":
                return "compiling the Python guest (once)"
            case "load":
                return f"loading {self.who} into a sandbox"
            case "session/prompt":
                return f"waiting for the answer of {self.who}"
            case "session/new":
                return f"waiting for {self.who} to open the session"
            case method:
                return f"waiting for {self.who} to answer `{method}`"

    def timed(self, now: float) -> str:
        """The same with the time that it has lasted."""
        return f"{self.text}, {max(0.0, now - self.since):.0f} s"

    def is_long(self, now: float) -> bool:
        """Whether something may be wrong."""
        return now - self.since >= LONG

    @property
    def advice(self) -> str:
        """A possible reason, and advice."""
        advice = _ADVICE.get(self.what, "it may have stopped working")
        if not self.command or self.what not in (INITIALIZE, _NEW):
            return advice
        from conductor.spec import agents  # few chains wait that long

        known = agents.of_command(self.command)
        if known is not None:
            return f"{advice}; `conductor agents {known.id}` tells"
        return f"{advice}; run `{shlex.join(self.command)}` by itself to see its output"

    @property
    def waits_for_client(self) -> bool:
        """Whether the client, or its user, is to answer something."""
        return self.who == CLIENT


_PassedOn = tuple[str, Visit]
"""A request that has no answer, and who is to answer it (`UPSTREAM`: the conductor)."""


class Stages:
    """The stages of one chain so far, as of the last `look`."""

    def __init__(self, router: Router, planned: Mapping[str, Planned]) -> None:
        self._router = router
        self._planned = planned
        self._asked: dict[Visit, float] = {}
        """The open requests of the client, and when each was seen first."""
        self._passed_on: dict[_PassedOn, float] = {}
        """The requests that components are to answer, in the order of the chain."""
        self._reported: set[_PassedOn] = set()
        """The requests that a report has named."""
        self._over: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        """The times until the answers since the last report: by name and method."""
        self._spaces: Sequence[IdSpace] = ()
        self._known = -1
        """The number of open requests of the client; -1: the first include others than prompts."""
        self.now: Stage | None = None
        """None: no request of the client is open."""
        self.compiling = False
        """Whether a host has announced that it compiles; until all have loaded their guests."""

    def passed(self, now: float) -> bool:
        """Messages have passed: whether a look may show something new. Each chunk waits for this.

        While a request other than a prompt is open, any message may bring it forward.
        """
        known = 0
        for requests in self._spaces:
            known += len(requests.received)
        if known == self._known:
            return False
        self._note(now)
        return True

    def _note(self, now: float) -> None:
        """Reads which requests of the client are open: the first of them, with their times."""
        self._spaces = self._router.peers[UPSTREAM].id_spaces
        before, known, others = self._asked, 0, False
        asked: dict[Visit, float] = {}
        for requests in self._spaces:
            known += len(requests.received)
            for pending in itertools.islice(requests.received.values(), _MOST):
                asked[pending] = before.pop(pending, now)
                if pending.method != _PROMPT:
                    others = True
        for pending, since in before.items():
            self._over[UPSTREAM, pending.method].append(now - since)
        self._known, self._asked = -1 if others else known, asked

    def look(self, now: float) -> list[str]:
        """Reads the router; returns the events since the last look, in sentences."""
        before, self._passed_on = self._passed_on, self._with_components(now)
        for each, since in reversed(before.items()):  # the last of the chain answers first
            if each not in self._passed_on:
                name, pending = each
                self._over[name, pending.method].append(now - since)
        self._note(now)
        return self._report(now)

    def _with_components(self, now: float) -> dict[_PassedOn, float]:
        """The requests that components are to answer, and since when each is open."""
        before, open_ = self._passed_on, {}
        for name in self._planned:
            for requests in self._router.peers[name].id_spaces:
                for pending in requests.sent.values():
                    if pending.wanted:
                        each = name, pending
                        open_[each] = before.get(each, now)
        return dict(itertools.islice(open_.items(), _MOST))

    def _report(self, now: float) -> list[str]:
        """The events since the last report, in sentences."""
        open_: list[_PassedOn] = [(UPSTREAM, pending) for pending in self._asked]
        open_ += self._passed_on
        said = [
            f"{self._who(name)} answered `{method}` {_times(spent)}"
            for (name, method), spent in self._over.items()
        ]
        said += [
            f"`{pending.method}` came from the client"
            if name == UPSTREAM
            else f"`{pending.method}` went to {self._who(name)}"
            for name, pending in open_
            if (name, pending) not in self._reported
        ]
        self._over.clear()
        self._reported = set(open_)
        self.compiling = self.compiling and self._router.loading()
        self.now = self._stage(now)
        return said

    def answered(self, data: bytes) -> list[str]:
        """The answers for the client that a log should keep, in sentences: errors, and another
        version of ACP. Call it before the requests are noted as answered."""
        fails = holds(data, b'"error"')
        if self._known >= 0 and not fails:
            return []  # nearly all lines
        methods = {pending.key: pending.method for pending in self._asked}
        if not fails and INITIALIZE not in methods.values():
            return []
        said = []
        for line in data.splitlines():
            message = jsonrpc.message_of(line)
            if message is not None and isinstance(message.id, msgspec.Raw):
                key = jsonrpc.canonical_id(message.id)
                method = methods.get(key) if key is not None else None
                said.append(self._remark(method, message) if method is not None else "")
        return [*filter(None, said)]

    def _remark(self, method: str, message: Message) -> str:
        if isinstance(message.error, msgspec.Raw):
            error = _members(message.error)
            code, text = error.get("code"), error.get("message")
            said = f"the answer to `{method}` is an error: {one_line(str(code), 20)}"
            if method in _SET_UP and isinstance(text, str):
                said += f" ({one_line(text)})"
            return f"{said}; {self._login()}" if code == jsonrpc.AUTH_REQUIRED else said
        if method == INITIALIZE and isinstance(message.result, msgspec.Raw):
            spoken = _members(message.result).get("protocolVersion")
            if isinstance(spoken, bool) or not isinstance(spoken, int):
                return f"the answer to `{method}` names no version of ACP"
            return "" if spoken == 1 else f"the agent speaks ACP version {one_line(spoken, 40)}"
        return ""

    def _login(self) -> str:
        """How to log in at the agent."""
        from conductor.spec import agents  # few chains need it

        specs = [spec for planned in self._planned.values() for spec in planned.specs]
        known = agents.of_command(specs[-1].command or ()) if specs else None
        return LOGIN if known is None else f"to log in, {known.login}"

    def _stage(self, now: float) -> Stage | None:
        first = next(iter(self._asked), None)
        if first is None:
            return None
        mine = first.method
        for _, method in self._router.waiting_on(UPSTREAM):
            return self._lasting(CLIENT, method, now)
        last = self._last(mine)
        if last is None:
            return self._lasting("the conductor", mine, now)
        name, what, since = last
        if self._router.loading(name):
            what = COMPILING if self.compiling else LOADING
            return self._lasting(self._who(name), what, now)
        specs = self._planned[name].specs
        command = tuple(specs[0].command or ()) if len(specs) == 1 else ()
        return Stage(self._who(name), what, since, command)

    def _last(self, mine: str) -> tuple[str, str, float] | None:
        """Who is waited for while the client waits for `mine`, for which method, and since when."""
        others = [(name, one.method, since) for (name, one), since in self._passed_on.items()]
        # Of the components with an open request the last one has not passed it on.
        for name, method, since in reversed(others):
            if mine in (method, INITIALIZE):
                return name, mine, since
        # No component has it yet: it waits for a component that another request waits for too.
        held = [each for each in others if self._router.peers[each[0]].backlog] or others
        return held[-1] if held else None

    def _lasting(self, who: str, what: str, now: float) -> Stage:
        """The stage of the look before if it lasts, or a stage that begins now."""
        if self.now is not None and (self.now.who, self.now.what) == (who, what):
            return self.now
        return Stage(who, what, now)

    def _who(self, name: str) -> str:
        if name == UPSTREAM:
            return "the chain"
        planned = self._planned.get(name)
        names = planned.guests if planned is not None and planned.guests else (name,)
        return ", ".join(f"`{each}`" for each in names)


def _members(value: msgspec.Raw) -> dict[str, object]:
    try:
        members = json_text.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def _times(spent: list[float]) -> str:
    """How often a method was answered, and after which time."""
    if len(spent) == 1:
        return f"after {_spent(spent[0])}"
    return f"{len(spent)} times, after {_spent(min(spent))} to {_spent(max(spent))}"


def _spent(seconds: float) -> str:
    """A time for people: `812 ms`, `12.3 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"
