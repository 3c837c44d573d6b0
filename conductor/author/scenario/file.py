"""A `scenario.toml`: what it may hold, and how it is read. docs/authoring.md is the reference.

The structs are the one declaration (`conductor.spec.toml_files`). Reading is strict: an unknown key
is an error with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from conductor.errors import UsageError, visible_path
from conductor.spec import toml_files, untrusted_files
from conductor.spec.toml_files import Key, Mistake

_MOST: Final = 1024 * 1024
"""Bytes of a scenario."""
_HINT: Final = "docs/authoring.md says what a scenario holds"
_KINDS: Final = ("prompt", "mode", "request", "notify")
_ACTIONS: Final = (
    *("thought", "tool", "plan", "ask", "update", "request", "notify", "cancel", "stop", "error"),
)
_BELONGS: Final = {
    "id": ("tool", "ask"),
    "kind": ("tool",),
    "status": ("tool",),
    "text": ("tool",),
    "options": ("ask",),
    "answer": ("ask",),
    "params": ("request", "notify"),
    "result": ("request",),
    "refused": ("request",),
}
"""To which actions the other keys belong."""
_SELECTS: Final = ("equals", "contains", "matches", "lacks", "at")
_LAST: Final = ("stop", "error")
OPTIONS: Final = ["allow", "reject"]
"""What the agent offers where a question names no options."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a scenario: no key but those it declares."""


class Expectation(_Table, frozen=True, kw_only=True):
    """What one end of the chain must have got, or what a component must have done."""

    client: str | list[str] | None = None
    """What the client got: `answer`, `stop`, `error`, the kind of an update, a method, or `*`. A
    list: in this order."""
    agent: str | list[str] | None = None
    """What the agent got: `prompt`, a method, or `*`."""
    component: str | None = None
    """Whose work it is about: what it did to the prompt, in words."""
    at: str | None = None
    """A JSON pointer into the params, the result or the error: the value there is what counts."""
    equals: str | None = None
    contains: str | list[str] | None = None
    lacks: str | list[str] | None = None
    """What none of them may hold."""
    matches: str | None = None
    """A regular expression that is found in the text."""
    count: int | None = None
    """How many there are."""
    most: int | None = None
    """How many there are at most."""


class Action(_Table, frozen=True, kw_only=True):
    """What the agent does; a text alone is a piece of its answer."""

    thought: str | None = None
    tool: str | None = None
    """The title of a tool call; the second one with the same id is an update of it."""
    id: str | None = None
    """Of the tool call; None: its title."""
    kind: str | None = None
    status: str | None = None
    """None: completed."""
    text: str | None = None
    """What the tool says."""
    plan: list[str] | None = None
    ask: str | None = None
    """Asks for permission to do this."""
    options: list[str] | None = None
    """None: `OPTIONS`."""
    answer: str | None = None
    """The option that the client chooses, or `cancelled`; None: the first."""
    update: dict[str, Any] | None = None
    """Any other update, as ACP has it."""
    request: str | None = None
    """A request to the client …"""
    notify: str | None = None
    """… or a notification …"""
    params: dict[str, Any] | None = None
    result: Any = None
    """… and the client's answer to the request, …"""
    refused: str | None = None
    """… or its error."""
    cancel: Literal[True] | None = None
    """The client cancels the turn here, and the agent waits for it."""
    stop: str | None = None
    """Ends the turn with this stop reason."""
    error: str | None = None
    """Answers with this error."""


class Step(_Table, frozen=True, kw_only=True):
    """Something that the client sends, what the agent does then, and what is expected of it."""

    prompt: str | list[dict[str, Any]] | None = None
    mode: str | None = None
    request: str | None = None
    notify: str | None = None
    params: dict[str, Any] = {}
    session: str | None = None
    """Whose step it is; a session is opened when a step first names it."""
    by: Literal["client", "component"] = "client"
    """With `component`, the agent gets this request from a proxy: only its answer is written."""
    agent: str | list[str | Action] = []
    result: dict[str, Any] | None = None
    """The agent's answer to a request."""
    expect: list[Expectation] = []

    @property
    def what(self) -> str:
        """In words, what it is."""
        if self.prompt is not None:
            return "prompt"
        return f"mode {self.mode}" if self.mode is not None else self.request or self.notify or ""

    @property
    def actions(self) -> list[Action | str]:
        """What the agent does."""
        return [self.agent] if isinstance(self.agent, str) else list(self.agent)


class Scenario(_Table, frozen=True, kw_only=True):
    """A whole scenario."""

    chain: list[str] = msgspec.field(default_factory=lambda: ["."])
    """Its proxies, as on a command line; paths are relative to the folder of the component."""
    clock: str = "2026-01-01T12:00:00+00:00"
    """What the service `clock` says."""
    limit: float = 60.0
    """Seconds without any progress after which it fails …"""
    wait: float = 2.0
    """… and without any message, once everything is answered, for an expected one to come."""
    client_capabilities: dict[str, Any] = {}
    agent_capabilities: dict[str, Any] = {}
    expect: list[Expectation] = []
    """Of the whole run."""
    step: list[Step] = []


def load(path: str) -> Scenario:
    """Reads a scenario. Raises `UsageError` that names the file and the line."""
    shown = visible_path(path)
    try:
        source = untrusted_files.read(path, _MOST, links=False).decode()
        tables = toml_files.loads(source)
    except OSError as error:
        raise UsageError(f"{shown}: {error.strerror}", "check the path") from None
    except ValueError as error:  # of TOML or of UTF-8
        raise UsageError(f"{shown}: {error}", "a scenario is a TOML file in UTF-8") from None
    try:
        return _checked(toml_files.convert(tables, Scenario, "a scenario"))
    except Mistake as mistake:
        raise mistake.placed(source, shown, _HINT) from None


def line(path: str, at: tuple[Key, ...]) -> int:
    """The line of a key in a scenario's file, from 1; 0 if it is not found."""
    try:
        return toml_files.line_of(untrusted_files.read(path, _MOST).decode(), at)
    except (OSError, ValueError):
        return 0


def _checked(scenario: Scenario) -> Scenario:
    """The scenario. Raises `Mistake`."""
    if not scenario.chain:
        raise Mistake("`chain` has no proxy", "chain", hint='`["."]` is this component')
    for key, seconds in (("limit", scenario.limit), ("wait", scenario.wait)):
        if not 0 < seconds <= 600:
            raise Mistake(f"`{key}` is up to 600 seconds", key)
    if not scenario.step:
        raise Mistake("a scenario has a `[[step]]`", "step", hint='`[[step]]`, `prompt = "hello"`')
    for at, expectation in enumerate(scenario.expect):
        _check_expectation(expectation, "expect", at)
    for at, step in enumerate(scenario.step):
        _check_step(step, "step", at)
    return scenario


def _given(table: Step | Action | Expectation, keys: tuple[str, ...]) -> list[str]:
    """Those of the keys that a table has."""
    return [key for key in keys if getattr(table, key) is not None]


def _check_step(step: Step, *at: Key) -> None:
    kinds = _given(step, _KINDS)
    if len(kinds) != 1:
        text = f"a step is one of {', '.join(_KINDS)}" + (f", not {len(kinds)}" if kinds else "")
        raise Mistake(text, *at, *kinds[1:2], hint='the client\'s turn: `prompt = "hello"`')
    kind = kinds[0]
    for key, owners in (("params", ("request", "notify")), ("result", ("request", "mode"))):
        if getattr(step, key) and kind not in owners:
            raise Mistake(f"`{key}` belongs to `{'` or `'.join(owners)}`", *at, key)
    if step.by == "component" and (step.expect or kind == "notify"):
        raise Mistake(
            "a step by a component has only what the agent does",
            *at, "by", hint="put what you expect into the client's step that follows it",
        )  # fmt: skip
    actions = step.actions
    if kind == "notify" and actions:
        raise Mistake("nobody answers a notification", *at, "agent")
    for number, action in enumerate(actions):
        place = (*at, "agent", number) if isinstance(step.agent, list) else (*at, "agent")
        if isinstance(action, Action):
            _check_action(action, step, *place, is_last=number == len(actions) - 1)
    for number, expectation in enumerate(step.expect):
        _check_expectation(expectation, *at, "expect", number)


def _check_action(action: Action, step: Step, *at: Key, is_last: bool) -> None:
    kinds = _given(action, _ACTIONS)
    if len(kinds) != 1:
        text = f"an action is one of {', '.join(_ACTIONS)}"
        raise Mistake(text, *at, hint='as in `{ tool = "Read a.txt" }`')
    kind = kinds[0]
    for key, owners in _BELONGS.items():
        if kind not in owners and getattr(action, key) is not None:
            raise Mistake(f"`{key}` does not belong to `{kind}`", *at, key)
    if kind in _LAST and not is_last:
        raise Mistake(f"nothing follows `{kind}`: it ends the turn", *at, kind)
    if kind in ("stop", "cancel") and step.prompt is None:
        raise Mistake(f"`{kind}` is about a prompt", *at, kind)
    if kind == "cancel" and step.by == "component":
        raise Mistake("the client cancels its own turns only", *at, kind)
    options = OPTIONS if action.options is None else action.options
    if action.answer not in (None, "cancelled", *options):
        raise Mistake(
            f"`{action.answer}` is no option",
            *at, "answer", hint=f"options are: {', '.join(options)}, or `cancelled`",
        )  # fmt: skip
    if not options:
        raise Mistake("a question has options", *at, "options")


def _check_expectation(expectation: Expectation, *at: Key) -> None:
    ends = _given(expectation, ("client", "agent", "component"))
    if len(ends) != 1:
        raise Mistake(
            "an expectation is about one of client, agent, component",
            *at, *ends[1:2], hint='as in `{ agent = "prompt", contains = "hello" }`',
        )  # fmt: skip
    names = getattr(expectation, ends[0])
    tests = _given(expectation, (*_SELECTS, "count", "most"))
    if isinstance(names, list) and (tests or not names):
        hint = "write another expectation for what one of them holds"
        raise Mistake("a list says in which order they come", *at, *tests[:1], hint=hint)
    if ends[0] == "component" and not _given(expectation, (*_SELECTS[:4], "count", "most")):
        hint = '`equals = "changed 1 word"` is about the prompt, `count = 0` about its changes'
        raise Mistake("it says nothing of the component", *at, hint=hint)
    if expectation.matches is not None:
        try:
            re.compile(expectation.matches)
        except re.error as error:
            raise Mistake(f"`matches` is no regular expression: {error}", *at, "matches") from None
    if expectation.at is not None and not re.match(r"(/|$)", expectation.at):
        raise Mistake("`at` is a JSON pointer", *at, "at", hint="as in `/prompt/0/text`")


def texts(given: str | list[str] | None) -> Iterator[str]:
    """One text or several."""
    yield from (given,) if isinstance(given, str) else given or ()
