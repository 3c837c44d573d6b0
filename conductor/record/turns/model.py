"""The objects that are shown of a trace. The terminal prints them, the page draws them from JSON,
exports convert them.

Times are seconds since the trace began, durations milliseconds. A number of an event is its place
in the trace, from 0; lines that are no events count too. Text of strangers is kept as it is: the
code that shows a text makes it safe.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Change(StrEnum):
    """How a component treated a message."""

    SAME = "same"
    """The component passed the message on unchanged."""
    CHANGED = "changed"
    ANSWERED = "answered"
    """The component answered a request itself."""
    ORIGINATED = "originated"
    """The component sent a message of its own."""
    DROPPED = "dropped"
    """The component did not pass the message on."""
    PAST = "past"
    """The message went past it."""
    OPEN = "open"
    """The component still has the message, or the trace ended before it went on."""


class Op(StrEnum):
    """The kind of an edit."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Edit(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One difference between a message that a component got and the message that it passed on."""

    op: Op
    what: str
    """In words: `text block`, `MCP server`, `field cwd`."""
    pointer: str
    """A JSON pointer to the place, in the message that has it."""
    before: str = ""
    after: str = ""
    """Text as it is; any other value as JSON. Long values are cut (`cut`)."""
    cut: bool = False


class Visit(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A component had a message: from the moment it got it until it passed it on or answered."""

    component: str
    method: str
    """For a response the method of its request."""
    kind: str
    """`request`, `notification` or `response`."""
    direction: str
    """`down`, to the agent, or `up`."""
    at: float
    ms: float = 0.0
    """How long it had it, without the time further down the chain and on the way; of several
    together, moments that overlap counted once."""
    change: Change = Change.SAME
    got: int | None = None
    """Number of the event with which it got the message; None: it is the component's own."""
    sent: int | None = None
    """Number of the event with which it passed it on; None: it did not."""
    times: int = 1
    """The number of equal visits that this visit stands for. Neighbours are shown as one visit:
    chunks of an answer that the component let through unchanged."""
    edits: tuple[Edit, ...] = ()
    """The component's changes, at most 100."""
    tokens: int = 0
    """Tokens that it added (or with a minus removed), estimated."""


class Verdict(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Conductor refused or undid an act of a component, or only watched the act."""

    component: str
    rule: str
    direction: str
    method: str
    pointer: str = ""
    text: str = ""
    at: float = 0.0
    event: int | None = None
    """Number of the line in the trace that says so."""
    would: bool = False
    """Whether somebody only watches: nothing was refused."""


class Item(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing of a turn as a person reads it, in order."""

    kind: str
    """`prompt`, `text`, `thought`, `plan`, `tool`, `question`, `answer` and `refusal` (a component
    answered a question, so that nobody saw it), `mode`, `mcp`, `verdict`, `would`,
    `error`, `refused` (the error is a component's refusal), `notice`."""
    at: float
    ms: float = 0.0
    text: str = ""
    """The words; for a tool call its title, for a question the question."""
    status: str = ""
    """Of a tool call its last status, of a question the answer in words, of MCP `ok` or the error.
    """
    component: str = ""
    """The component that made the item, if neither client nor agent did; of a prompt always."""
    id: str = ""
    """Of a tool call its id."""
    nested: str = ""
    """For a text or a thought: the title of its exchange (`subconversation`)."""
    exchange: str = ""
    """The id of that exchange."""
    blocks: msgspec.Raw = msgspec.Raw(b"[]")
    """Content blocks, plan entries, options, diffs, as ACP has them (a JSON array)."""
    events: tuple[int, int] = (0, 0)
    """Numbers of the first and the last event it is made of."""


class Usage(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The cost of a turn, as far as the agent reports it."""

    input: int = 0
    output: int = 0
    cached: int = 0
    thought: int = 0
    cost: float | None = None
    currency: str = ""


class Share(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A component's share of a turn."""

    component: str
    ms: float = 0.0
    """The component's own time: the sum of its visits, moments that overlap counted once. The
    agent's time is the time it worked, without the time it waited for an answer."""
    messages: int = 0
    changed: int = 0
    """How many messages it changed, answered, dropped or originated."""
    tokens: int = 0
    verdicts: int = 0
    says: str = ""
    """The component's acts in words, first on the prompt: `added 1 block, changed the answer, sent
    1 message of its own`; `unchanged`: nothing."""


OTHER_CLIENT: Final = "another client"
"""In place of a component, in `Turn.by`: a client of the same session has prompted."""


class Turn(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A prompt and all until its answer, or text that the client got to read without a prompt. Turn
    0 holds all before the first prompt, and all that belongs to no turn."""

    number: int
    session: str = ""
    at: float = 0.0
    ms: float | None = None
    """None: it has not ended."""
    by: str = ""
    """The component or the agent that began the turn unasked. Empty: the client began it."""
    prompt: str = ""
    """The words of the client, or of the component, the first 500 characters."""
    answer: str = ""
    """The words of the agent as the client got them, the first 500 characters."""
    stop: str = ""
    """The stop reason, or the error in words; empty: it has not ended."""
    failed: bool = False
    person_ms: float = 0.0
    """How long it waited for a person to answer questions."""
    way_ms: float = 0.0
    """The rest: how long it was on its way between components, or waited in conductor."""
    shares: tuple[Share, ...] = ()
    """In the order of the chain, the client first, the agent last."""
    usage: Usage | None = None
    """None: the agent does not report any."""
    tokens_in: int = 0
    tokens_out: int = 0
    """Estimated from the words, where `usage` is None."""
    tools: int = 0
    verdicts: int = 0
    events: tuple[int, int] = (0, 0)
    """Numbers of the first event and behind the last."""


class TurnDetail(msgspec.Struct, omit_defaults=True, kw_only=True):
    """All of a turn that is shown when a person opens it."""

    turn: Turn
    items: tuple[Item, ...] = ()
    visits: tuple[Visit, ...] = ()
    """The visits, by the order of components: first those with a change, then by time."""
    verdicts: tuple[Verdict, ...] = ()


class Row(msgspec.Struct, array_like=True, kw_only=True):
    """One event in short, for a list of very many and for filters. An array in JSON."""

    n: int
    at: float
    kind: str
    source: str
    target: str
    method: str
    """Of a response that of its request."""
    session: str
    bytes: int
    ms: float
    """Of a response: after how long."""
    ms_in: float
    """For a response: how long its sender itself had the request and the answer. For another
    message: how long its sender had the message that it passes on."""
    change: str
    """A `Change` of its sender; empty for messages of the client and the agent."""
    protocol: str
    """`acp` or `mcp`."""
    error: str
    """Of a response its error: code and text; of a verdict its rule; else empty."""
    pair: int
    """Number of the request's or the response's event; -1: none."""
    turn: int


class Head(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The origin of a trace, and its chain."""

    source: str = ""
    """The source of the trace: a file's name, or the chain that runs."""
    components: tuple[str, ...] = ()
    """In the order of the chain: `client`, the proxies, `agent`."""
    content: str = "redacted"
    """`all`, `redacted` or `none`; `unknown` for another program's."""
    by: str = "conductor"
    """The program that wrote it: `conductor`, or `reference`."""
    events: int = 0
    live: bool = False
    """Whether more may come."""
    ended: bool = False
    """Whether the trace says that the chain has ended."""
    ring: str = ""
    """In words, the content of the file of a ring; empty: the file is no ring's."""
    process: int | None = None
    """The process of the chain, where its header names it."""
    began: float | None = None
    """When the trace began, in seconds of Unix time."""
    paused: tuple[str, ...] = ()
    """The components that are paused at its end."""
    gaps: tuple[str, ...] = ()
    """The missing part, in words: a line that was cut, a line that is no event."""
