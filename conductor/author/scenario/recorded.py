"""A trace written as a scenario that a person can read and change.

Of each turn it has the prompt, what the agent did, and as expectations what both ends got.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.author.scenario.expectations import called
from conductor.author.scenario.file import OPTIONS
from conductor.author.scenario.script import FIRST_SESSION
from conductor.core import json_text
from conductor.errors import UsageError
from conductor.record.replay import comparison, recording
from conductor.record.replay.recording import Recording
from conductor.record.turns import edits
from conductor.record.turns.line import AGENT, CLIENT, Line, read_line
from conductor.record.turns.model import Turn
from conductor.record.turns.reader import Reader

_PROMPT: Final = "session/prompt"
_CHUNKS: Final = ("agent_message_chunk", "agent_thought_chunk")
_MODE: Final = "session/set_mode"
_IMPLIED: Final = ("initialize", "session/new", _PROMPT)
_PERMISSION: Final = "session/request_permission"
_MOST_EXPECTED: Final = 8
"""Texts of the answer of one step that are expected word by word."""

Table = dict[str, Any]


def text(trace: str, name: str) -> str:
    """A trace as the text of a `scenario.toml`. Raises `UsageError` for one that has no turn.

    Args:
        trace: The file.
        name: Which of its proxies is the component under test; empty: none.
    """
    recorded, read = recording.load(trace)
    chain = [_component(recorded, each, name) for each in recorded.names]
    lines = ["# What was recorded once; change what you like.", f"chain = {toml(chain)}"]
    times = (recording.members(event.payload).get("iso") for event in recorded.services)
    if time := next((time for time in times if isinstance(time, str)), ""):
        lines.append(f"clock = {toml(time)}")
    turns = {turn.events[0]: turn for turn in read.turns[1:] if not turn.by}
    if not turns:
        raise UsageError(f"the trace `{trace}` has no prompt", "record a turn: `conductor exec`")
    first = next(iter(turns.values())).session
    for number in range(len(read)):
        line = read_line(read.line(number))
        if number in turns:
            steps = list(_steps(read, turns[number], first))
        else:
            steps = [] if line is None else list(_other(read, number, line, first))
        for step in steps:
            lines += ["", "[[step]]", *_written(step)]
    return "\n".join(lines) + "\n"


def _component(recorded: Recording, name: str, own: str) -> str:
    if name == own:
        return "."
    then = recorded.chain.get(name)
    return then.source if then is not None and then.source else name


# -- steps -----------------------------------------------------------------------------------------


def _other(read: Reader, number: int, line: Line, first: str) -> Iterator[Table]:
    """The step of a request that the client sends besides prompts."""
    if line.source != CLIENT or line.type != "request" or line.method in _IMPLIED:
        return
    answer = _answer(read, number)
    if answer is None or answer.is_error:
        return
    params = _object(line.params)
    session = params.pop("sessionId", None)
    named = {"session": session} if session not in (None, first) else {}
    if line.method == _MODE and session is not None and set(params) == {"modeId"}:
        yield {**named, "mode": params["modeId"], "result": _object(answer.payload)}
        return
    if session == first:
        named = {"session": FIRST_SESSION}
    yield {**named, "request": line.method, "params": params, "result": _object(answer.payload)}


def _steps(read: Reader, turn: Turn, first: str) -> Iterator[Table]:
    """The steps of a turn: prompts that a proxy has sent to the agent, then the client's."""
    events = [(number, line) for number, line in read.of_turn(turn) if line.protocol != "mcp"]
    prompt = next(line for _, line in events if line.method == _PROMPT and line.source == CLIENT)
    named = {"session": turn.session} if turn.session != first else {}
    asked = [
        at
        for at, (_, line) in enumerate(events)
        if line.target == AGENT and line.method == _PROMPT and line.type == "request"
    ]
    pieces = [events[i:j] for i, j in zip(asked, [*asked[1:], len(events)], strict=True)]
    for piece in pieces[:-1]:
        sent = _prompt(piece[0][1])
        yield {**named, "prompt": sent, "by": "component", "agent": _actions(read, piece)}
    actions = _actions(read, pieces[-1]) if pieces else []
    yield {
        **named,
        "prompt": _prompt(prompt),
        "agent": actions[0] if len(actions) == 1 and isinstance(actions[0], str) else actions,
        "expect": list(_expected(read, events)),
    }


def _prompt(line: Line) -> str | list[Any]:
    blocks = _object(line.params).get("prompt")
    if not isinstance(blocks, list):
        return ""
    if len(blocks) == 1 and isinstance(blocks[0], dict) and set(blocks[0]) == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks


def _expected(read: Reader, events: list[tuple[int, Line]]) -> Iterator[Table]:
    for _, line in events:
        if line.target == AGENT and line.method == _PROMPT and line.type == "request":
            yield {"agent": "prompt", "equals": edits.text_of(bytes(line.params))}
    came = list(comparison.messages(read, iter(events), CLIENT))
    answers = [each.body.decode("utf-8", "replace") for each in came if each.what == "the answer"]
    for answer in answers[:_MOST_EXPECTED]:
        yield {"client": "answer", "equals": answer}
    order = [list(called(each))[-1] for each in came]
    if len(order) > 1:
        yield {"client": order}


# -- what the agent did ----------------------------------------------------------------------------


def _actions(read: Reader, events: list[tuple[int, Line]]) -> list[Any]:
    """What the agent did upon the first of these events, a prompt.

    An event stands where the message was delivered, its number says when it came.
    """
    answer = read.pair(events[0][0])
    actions: list[Any] = []
    end: list[Any] = []
    for at, line in sorted(events[1:], key=lambda event: event[1].own.n if event[1].own else 0):
        if line.method == "session/cancel" and line.source == CLIENT:
            actions.append({"cancel": True})
        if line.source != AGENT:
            continue
        if at == answer:
            end = _end(line)
            continue
        action = _action(read, at, line)
        is_more = isinstance(action, str) and actions and isinstance(actions[-1], str)
        if is_more:
            actions[-1] += action
        elif action is not None:
            actions.append(action)
    return actions + end


def _end(line: Line) -> list[Any]:
    body = _object(line.payload)
    if line.is_error:
        return [{"error": str(body.get("message", ""))}]
    stop = body.get("stopReason", "end_turn")
    return [] if stop == "end_turn" else [{"stop": str(stop)}]


def _action(read: Reader, number: int, line: Line) -> Any:
    params = {key: value for key, value in _object(line.params).items() if key != "sessionId"}
    if line.method == "session/update":
        update = params.get("update")
        return _updated(update) if isinstance(update, dict) else None
    if line.type == "notification":
        return {"notify": line.method, "params": params}
    if line.type != "request":
        return None
    answer = _answer(read, number)
    body = _object(answer.payload) if answer is not None else {}
    if answer is not None and answer.is_error:
        return {"request": line.method, "params": params, "refused": str(body.get("message", ""))}
    if line.method == _PERMISSION:
        return _question(params, body) or {"request": line.method, "params": params, "result": body}
    return {"request": line.method, "params": params, "result": body}


def _updated(update: Table) -> Any:
    kind, content = update.get("sessionUpdate"), update.get("content")
    if kind not in _CHUNKS or set(update) != {"sessionUpdate", "content"}:
        return {"update": update}
    if not isinstance(content, dict) or set(content) != {"type", "text"}:
        return {"update": update}
    words = str(content["text"])
    return {"thought": words} if kind == "agent_thought_chunk" else words


def _question(params: Table, answer: Table) -> Table | None:
    """A question in short; None: it has more than that."""
    call, options, outcome = params.get("toolCall"), params.get("options"), answer.get("outcome")
    if not (isinstance(call, dict) and isinstance(options, list) and isinstance(outcome, dict)):
        return None
    if set(call) != {"toolCallId", "title"} or not all(isinstance(each, dict) for each in options):
        return None
    ids = [str(each.get("optionId")) for each in options]
    if ids != [each.get("name") for each in options]:
        return None
    action: Table = {"ask": call["title"]}
    if call["toolCallId"] != call["title"]:
        action["id"] = call["toolCallId"]
    if ids != OPTIONS:
        action["options"] = ids
    chosen = str(outcome.get("optionId", "cancelled"))
    return action if chosen == ids[0] else {**action, "answer": chosen}


def _answer(read: Reader, number: int) -> Line | None:
    """The answer to a request, if it has one."""
    pair = read.pair(number)
    return read_line(read.line(pair)) if pair >= 0 else None


def _object(raw: msgspec.Raw) -> Table:
    return recording.members(raw)


# -- TOML ------------------------------------------------------------------------------------------


def _written(step: Table) -> Iterator[str]:
    """The lines of a step; of a longer list an entry a line."""
    for key, value in step.items():
        if value in ([], {}):
            continue
        if isinstance(value, list) and key in ("agent", "expect"):
            yield f"{key} = ["
            yield from (f"  {toml(each)}," for each in value)
            yield "]"
        else:
            yield f"{key} = {toml(value)}"


def toml(value: Any) -> str:
    """A JSON value in TOML, on one line. TOML has no null: members that are null are left out."""
    if isinstance(value, dict):
        members = (f"{_key(k)} = {toml(v)}" for k, v in value.items() if v is not None)
        inside = ", ".join(members)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list):
        return f"[{', '.join(toml(each) for each in value if each is not None)}]"
    if isinstance(value, float):
        return repr(value)  # JSON has no infinity
    # The strings of JSON are strings of TOML, but for one character.
    return json_text.encode(value).decode().replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    is_bare = key.isascii() and key and all(c.isalnum() or c in "-_" for c in key)
    return key if is_bare else toml(key)
