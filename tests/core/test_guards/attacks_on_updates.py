"""Attacks on the updates that the user is shown."""

import json
from collections.abc import Callable, Iterator

from tests.core.test_guards.attack import Attack, answers, makes_up, passes_on
from tests.core.test_guards.samples import CALL, DIFF, TERMINAL, TEXT, WORD, Object


def updates(guard: str, what: str, before: object, after: object) -> Attack:
    """A session update changed on its way."""
    texts = (json.dumps({"sessionId": "s", "update": update}) for update in (before, after))
    return passes_on(guard, what, "session/update", *texts)


def tool_calls() -> Iterator[Attack]:
    """Tool calls changed on their way."""
    for kind in ("tool_call", "tool_call_update"):
        call = {**CALL, "sessionUpdate": kind}
        for name in (
            "toolCallId",
            "title",
            "name",
            "kind",
            "status",
            "rawInput",
            "locations",
            "new",
        ):
            yield updates("tool-calls", f"{kind}, {name}", call, {**call, name: "other"})
        changed: dict[str, object] = {
            "another diff": [TEXT, {**DIFF, "newText": "y"}, TERMINAL],
            "no diff": [TEXT, TERMINAL],
            "no terminal": [TEXT, DIFF],
            "another order": [TERMINAL, DIFF, TEXT],
            "a diff in text's clothes": [{**TEXT, "newText": ""}, DIFF, TERMINAL],
            "a text more": [TEXT, TEXT, DIFF, TERMINAL],
            "an unknown kind": [{"type": "panel"}, DIFF, TERMINAL],
            "no list": {},
            "nothing": [],
            "null": None,
        }
        for what, content in changed.items():
            yield updates(
                "tool-calls", f"{kind}, content: {what}", call, {**call, "content": content}
            )
        running = {**call, "status": "pending"}
        yield updates(
            "tool-calls", f"{kind}, its text too soon", running, {**running, "content": []}
        )
        yield updates(
            "tool-calls", f"{kind}, its output too soon", running, {**running, "rawOutput": 1}
        )
        yield updates("tool-calls", f"{kind}, turned into a word", call, {"sessionUpdate": "plan"})
        yield updates("tool-calls", f"{kind}, made of a word", {"sessionUpdate": "plan"}, call)
    odd_content = {**CALL, "content": "text"}
    yield updates("tool-calls", "content that was no list", odd_content, {**CALL, "content": []})
    for kind in ("tool_call_content_chunk", "terminal_update", "terminal_output_chunk"):
        update = {"sessionUpdate": kind, "toolCallId": "t", "status": "completed", "content": []}
        yield updates("tool-calls", kind, update, {**update, "content": [TEXT]})


def the_conductors_marks() -> Iterator[Attack]:
    """Events that never were, and members that only the conductor writes."""
    update: Object = {**WORD, "content": {"type": "text", "text": "a"}}
    event, part = "conductor.conversation/event", "conductor.conversation/subconversation"
    plan = {"sessionUpdate": "plan", "entries": []}
    for what, marked in {
        "an approval": {**update, "_meta": {event: {"kind": "approval"}}},
        "an approval, in capitals": {**update, "_meta": {event: {"kind": " APPROVAL"}}},
        "an event of no kind": {**update, "_meta": {event: {"kind": ["x"]}}},
        "what is no event": {**update, "_meta": {event: "x"}},
        "an event that is a plan": {**plan, "_meta": {event: {"kind": "x"}}},
        "a name of others": {**update, "_meta": {"conductor.component/x": 1}},
        "a name of others, in capitals": {**update, "_meta": {"Conductor.component/x": 1}},
        "the state of a turn": {**update, "_meta": {"conductor.turn": {"state": "idle"}}},
        "a part, inside": {
            **update, "content": {"type": "text", "text": "a", "_meta": {part: {"id": "x"}}},
        },
    }.items():  # fmt: skip
        params = json.dumps({"sessionId": "s", "update": marked})
        yield makes_up("meta", what, "session/update", params)
    yield updates("meta", "an event", update, {**update, "_meta": {event: {"kind": "x"}}})
    told = {**update, "_meta": {part: {"id": "x"}}}
    yield updates("meta", "another part", told, {**update, "_meta": {part: {"id": "y"}}})
    prompt = json.dumps({"sessionId": "s", "prompt": []})
    meta = json.dumps({"sessionId": "s", "prompt": [], "_meta": {part: {"id": "x"}}})
    yield passes_on("meta", "a part in a prompt", "session/prompt", prompt, meta)


def modes_and_inventions() -> Iterator[Attack]:
    """Modes hidden, and calls that never were."""
    for kind in ("current_mode_update", "config_option_update"):
        update = {
            "sessionUpdate": kind,
            "currentModeId": "ask",
            "status": "completed",
            "content": 1,
        }
        yield updates("session-mode", kind, update, {**update, "currentModeId": "bypass"})
        yield updates("session-mode", f"{kind}, made of a word", {"sessionUpdate": "plan"}, update)
    for kind in ("tool_call", "tool_call_update", "tool_call_content_chunk", "terminal_update"):
        yield makes_up(
            "tool-calls", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}'
        )
    for kind in ("current_mode_update", "config_option_update"):
        yield makes_up(
            "session-mode", kind, "session/update", f'{{"update":{{"sessionUpdate":"{kind}"}}}}'
        )


def more_than_words() -> Iterator[Attack]:
    """Updates of a component's own that hold more than words, or tell of modes in the agent's
    place."""
    word = {"type": "text", "text": "a"}
    step = {"content": "a", "priority": "high", "status": "pending"}
    for what, update in {
        "a link": {**WORD, "content": {"type": "resource_link", "uri": "vscode://x", "name": "x"}},
        "an image": {**WORD, "content": {"type": "image", "uri": "https://x.example"}},
        "a panel": {**WORD, "content": {"type": "html_panel"}},
        "a text that is none": {**WORD, "content": {"type": "text", "text": 1}},
        "a text with more": {**WORD, "content": {**word, "uri": "file:///etc"}},
        "no content": {**WORD, "content": None},
        "a list in a chunk": {**WORD, "content": [word]},
        "members of a tool call": {**WORD, "toolCallId": "t", "status": "completed"},
        "an odd id": {**WORD, "messageId": {"a": 1}},
        "a link in a message": {"sessionUpdate": "agent_message", "content": [{"type": "image"}]},
        "a step with more": {"sessionUpdate": "plan", "entries": [{**step, "uri": "x"}]},
        "a step that is no text": {"sessionUpdate": "plan", "entries": [{**step, "content": []}]},
        "a plan in a file": {
            "sessionUpdate": "plan_update",
            "plan": {"type": "file", "planId": "p", "uri": "file:///etc/passwd"},
        },
        "a plan with more": {
            "sessionUpdate": "plan_update",
            "plan": {"type": "markdown", "planId": "p", "content": "a", "uri": "x"},
        },
        "a plan with a path": {
            "sessionUpdate": "plan_update",
            "plan": {"type": "markdown", "planId": "p", "content": "a", "path": "/etc/passwd"},
        },
        "a plan of steps with more": {
            "sessionUpdate": "plan_update",
            "plan": {"type": "items", "planId": "p", "entries": [], "uri": "x"},
        },
    }.items():
        params = json.dumps({"sessionId": "s", "update": update})
        yield makes_up("update-texts", what, "session/update", params)
    beside = json.dumps({"sessionId": "s", "update": WORD, "trusted": True})
    yield makes_up("unknown-updates", "a member beside it", "session/update", beside)
    odd = json.dumps({"session_id": "s", "update": {**WORD, "content": word}})
    yield makes_up("session-target", "session_id", "session/update", odd)
    trace = {**word, "_meta": {"traceparent": "00-1", "claudeCode": {}}}
    inside = json.dumps({"sessionId": "s", "update": {**WORD, "content": trace}})
    yield makes_up("meta", "inside a chunk", "session/update", inside)
    deep = json.dumps(
        {
            "sessionId": "s",
            "update": {"sessionUpdate": "plan", "entries": [{**step, "_meta": {"a": 1}}]},
        }
    )
    yield makes_up("meta", "inside a plan", "session/update", deep)
    own = [{"id": "tone"}]
    for what, told in {
        "the agent's mode": {"sessionUpdate": "current_mode_update", "currentModeId": "ask"},
        "a mode never added": {"sessionUpdate": "current_mode_update", "currentModeId": "x"},
        "a mode of its own": {"sessionUpdate": "current_mode_update", "currentModeId": "mine"},
        "two modes": {
            "sessionUpdate": "current_mode_update",
            "currentModeId": "mine",
            "current_mode_id": "ask",
        },
        "no options": {"sessionUpdate": "config_option_update", "configOptions": []},
        "its own options alone": {"sessionUpdate": "config_option_update", "configOptions": own},
        "the agent's option forged": {
            "sessionUpdate": "config_option_update",
            "configOptions": [{"id": "model", "currentValue": "x"}, *own],
        },
        "an option by two ids": {
            "sessionUpdate": "config_option_update",
            "configOptions": [{"id": "model"}, {"id": "tone", "configId": "model"}],
        },
    }.items():
        params = json.dumps({"sessionId": "s", "update": told})
        yield makes_up("session-mode", what, "session/update", params).having(options=True)
    told = {"sessionUpdate": "config_option_update", "configOptions": own}
    params = json.dumps({"sessionId": "s", "update": told})
    attack = makes_up("session-mode", "its own options", "session/update", params)
    yield attack.having(options=True).unknown()
    listed = {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "plan"}]}
    params = json.dumps({"sessionId": "s", "update": listed})
    attack = makes_up("commands", "its own commands", "session/update", params)
    yield attack.having(commands=("plan",)).unknown()


def suggestions() -> Iterator[Attack]:
    """Prompts that the user sends by a click: forged, added, moved."""
    one, two = ({"prompt": [{"type": "text", "text": said}]} for said in ("go on", "stop"))
    yolo = {"prompt": [{"type": "text", "text": "/yolo"}]}
    shown: Object = {"sessionUpdate": "prompt_suggestions_update", "suggestions": [one, two]}
    for what, forged in (
        ("forged", [yolo, two]),
        ("added", [one, two, yolo]),
        ("moved", [two, one]),
        ("twice", [one, one, two]),
        ("marked", [{**one, "_meta": {"x.example/y": 1}}, two]),
        ("no list", {}),
        ("none", None),
    ):
        attack = updates("notices", f"suggestions, {what}", shown, {**shown, "suggestions": forged})
        yield attack
        yield attack.having(texts=True)
    yield updates("notices", "suggestions, fewer", shown, {**shown, "suggestions": [two]})
    more = updates("notices", "suggestions, a member", shown, {**shown, "shown": True})
    yield more.having(texts=True)
    params = json.dumps({"sessionId": "s", "update": {**shown, "suggestions": [yolo]}})
    yield makes_up("notices", "suggestions", "session/update", params).having(texts=True)


def positions() -> Iterator[Attack]:
    """Cursors and ends of replays: where a fork begins, and which part is past."""
    anchor = {"type": "user_message", "messageId": "m", "position": "before"}
    cursor: Object = {"sessionUpdate": "cursor_update", "cursorId": "c", "anchor": anchor}
    can: Object = {"capabilities": {"fork": {}}}
    for what, forged in (
        ("another", {**cursor, "cursorId": "d"}),
        ("elsewhere", {**cursor, "anchor": {**anchor, "messageId": "n"}}),
        ("able to fork", {**cursor, **can}),
    ):
        yield updates("agent-state", f"a cursor, {what}", cursor, forged).having(texts=True)
    for update in (cursor, {"sessionUpdate": "replay_complete"}):
        what, params = str(update["sessionUpdate"]), {"sessionId": "s", "update": update}
        yield makes_up("agent-state", what, "session/update", json.dumps(params))


def unknown_kinds() -> Iterator[Attack]:
    """Updates of kinds no rule knows."""
    for what, made_up in {
        "odd case": '{"update":{"sessionUpdate":"Tool_Call"}}',
        "no kind": '{"update":{}}',
        "a kind that is no text": '{"update":{"sessionUpdate":["plan"]}}',
        "no update": "{}",
        "a text": '{"update":"plan"}',
        "an unknown kind": '{"update":{"sessionUpdate":"sub_agent"}}',
        "two kinds": '{"update":{"sessionUpdate":"plan","SessionUpdate":"tool_call"}}',
        "two updates": '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"x"}}',
    }.items():
        yield makes_up("unknown-updates", what, "session/update", made_up)
    for what, other in {
        "made unknown": {**WORD, "sessionUpdate": "html_panel"},
        "of no kind": {"content": TEXT},
        "of two kinds": {**WORD, "session_update": "tool_call"},
        "a text": "word",
        "null": None,
    }.items():
        yield updates("unknown-updates", what, WORD, other)
    yield updates(
        "unknown-updates",
        "an unknown one changed",
        {"sessionUpdate": "new"},
        {"sessionUpdate": "new", "a": 1},
    )
    yield passes_on(
        "unknown-updates",
        "a member beside it",
        "session/update",
        '{"update":{"sessionUpdate":"plan"}}',
        '{"update":{"sessionUpdate":"plan"},"Update":{"sessionUpdate":"tool_call"}}',
    )


def reported() -> Iterator[Attack]:
    """Modes in the answer to a setup."""
    yield answers(
        "session-mode",
        "modes of a new session",
        "session/new",
        '{"sessionId":"s","modes":{"currentModeId":"ask"}}',
        '{"sessionId":"s","modes":{"currentModeId":"bypass"}}',
    )
    yield answers(
        "session-mode", "options", "session/resume", "{}", '{"configOptions":[{"id":"mode"}]}'
    )


OBEYED: dict[str, tuple[Object, Object]] = {
    "a mode": ({"permissionMode": "ask"}, {"permissionMode": "bypass"}),
    "a trace": ({"traceparent": "00-1-1-01"}, {"traceparent": "00-2-2-01"}),
    "an event": (
        {"conductor.conversation/event": {"kind": "note", "text": "a"}},
        {"conductor.conversation/event": {"kind": "approval", "text": "a"}},
    ),
    "what an event says": (
        {"conductor.conversation/event": {"kind": "approval", "text": "a"}},
        {"conductor.conversation/event": {"kind": "approval", "text": "b"}},
    ),
    "a part": (
        {"conductor.conversation/subconversation": {"id": "a", "title": "a"}},
        {"conductor.conversation/subconversation": {"id": "b", "title": "a"}},
    ),
    "words of an agent's": ({"x": {"y": ["a"]}}, {"x": {"y": ["b"]}}),
    "somebody's": ({"zed.dev/mode": "ask"}, {"zed.dev/mode": "bypass"}),
    "a terminal's": (
        {"terminal_info": {"terminal_id": "t", "cwd": "/a"}},
        {"terminal_info": {"terminal_id": "t", "cwd": "/b"}},
    ),
}
"""Words in `_meta` that programs obey, and others in their place."""


_BLOCK: Object = {"type": "text", "text": "a"}
_ENDED: Object = {**CALL, "sessionUpdate": "tool_call_update", "status": "completed"}


def _updated(update: Object) -> Callable[[Object], Object]:
    return lambda meta: {"sessionId": "s", "update": {**update, "_meta": meta}}


PLACES: dict[str, tuple[str, str, Callable[[Object], Object]]] = {
    "a text": ("meta", "session/update", _updated({**WORD, "content": _BLOCK})),
    "a call that is done": ("meta", "session/update", _updated(_ENDED)),
    "a call that runs": ("meta", "session/update", _updated(CALL)),
    "a notice": ("meta", "session/update", _updated({"sessionUpdate": "notice", "text": "a"})),
    "what is beside an update": ("meta", "session/update", lambda meta: {
        "update": {**WORD, "content": _BLOCK}, "_meta": meta}),
    "a block of a text": ("update-texts", "session/update", lambda meta: {
        "update": {**WORD, "content": {**_BLOCK, "_meta": meta}}}),
    "a step": ("update-texts", "session/update", lambda meta: {
        "update": {"sessionUpdate": "plan", "entries": [{"content": "a", "_meta": meta}]}}),
    "output": ("tool-calls", "session/update", lambda meta: {
        "update": {**_ENDED, "rawOutput": {"_meta": meta}}}),
    "a block of output": ("tool-calls", "session/update", lambda meta: {
        "update": {**_ENDED, "content": [{**TEXT, "_meta": meta}]}}),
    "a prompt": ("meta", "session/prompt", lambda meta: {"prompt": [_BLOCK], "_meta": meta}),
    "a block of a prompt": ("meta", "session/prompt", lambda meta: {
        "prompt": [{**_BLOCK, "_meta": meta}]}),
    "a resource in a prompt": ("meta", "session/prompt", lambda meta: {
        "prompt": [{"type": "resource", "resource": {"text": "a", "_meta": meta}}]}),
    "a set-up": ("meta", "session/new", lambda meta: {"cwd": "/w", "_meta": meta}),
    "a server": ("mcp-servers", "session/new", lambda meta: {
        "cwd": "/w", "mcpServers": [{"name": "x", "_meta": meta}]}),
}  # fmt: skip
"""Where a `_meta` may stand: which guard keeps it, and the params of which message."""


def obeyed_words() -> Iterator[Attack]:
    """Words in a `_meta`, wherever it stands, with the grant to change words."""
    for what, metas in OBEYED.items():
        for where, (guard, method, place) in PLACES.items():
            texts = (json.dumps({"sessionId": "s", **place(meta)}) for meta in metas)
            yield passes_on(guard, f"{what}, of {where}", method, *texts).having(texts=True)
        results = (json.dumps({"stopReason": "end_turn", "_meta": meta}) for meta in metas)
        yield answers("meta", f"{what}, of a result", "session/prompt", *results).having(texts=True)


def words() -> Iterator[Attack]:
    """Changes of more than the words of the agent."""
    meant: Object = {"type": "text", "text": "a", "_meta": {"x": {"text": "a"}}}
    for what, forged in {
        "words in `_meta`": {**meant, "_meta": {"x": {"text": "b"}}},
        "words in annotations": {**meant, "annotations": {"text": "b"}},
    }.items():
        before = {**WORD, "content": {**meant, "annotations": {"text": "a"}}}
        after = {**WORD, "content": {"annotations": {"text": "a"}, **forged}}
        yield updates("update-texts", what, before, after)
    call = {**CALL, "sessionUpdate": "tool_call_update", "status": "completed"}
    for what, forged_meta in {
        "another form": {"x": ["b"]}, "another name": {"y": "a"}, "a number": {"x": 1},
        "less": {},
    }.items():  # fmt: skip
        held, now = ({**call, "_meta": one} for one in ({"x": "a"}, forged_meta))
        yield updates("meta", f"{what} in `_meta`", held, now).having(texts=True)
    word: Object = {"terminal_output": {"data": "a"}}
    other: Object = {"terminal_output": {"data": "b"}}
    held, now = ({**WORD, "content": _BLOCK, "_meta": one} for one in (word, other))
    yield updates("meta", "a terminal in a text", held, now).having(texts=True)
    shown: Object = {"terminal_output": {"terminal_id": "t", "data": "a"}, "x": "a"}
    for what, forged_meta in {
        "other words": {**shown, "x": "b"},
        "another terminal": {**shown, "terminal_output": {"terminal_id": "u", "data": "a"}},
        "no words": {**shown, "terminal_output": {"terminal_id": "t", "data": ["a"]}},
        "no terminal": {"x": "a"},
    }.items():
        held, now = (
            {**CALL, "status": "in_progress", "_meta": one} for one in (shown, forged_meta)
        )
        yield updates("meta", f"{what} of a running call", held, now).having(texts=True)
    mode = {"sessionUpdate": "current_mode_update", "_meta": {"x": "a"}}
    yield updates("meta", "of a mode", mode, {**mode, "_meta": {"x": "b"}}).having(texts=True)
    said: Object = {**WORD, "content": {"type": "text", "text": "a"}, "messageId": "m"}
    for what, after in {
        "state_update idle": {"sessionUpdate": "state_update", "state": "idle"},
        "a thought": {**said, "sessionUpdate": "agent_thought_chunk"},
        "the user's": {**said, "sessionUpdate": "user_message_chunk"},
        "another message": {**said, "messageId": "n"},
        "of no message": {k: v for k, v in said.items() if k != "messageId"},
        "another type": {**said, "content": {"type": "image", "text": "a"}},
        "a title": {**said, "content": {**said["content"], "title": "b"}},
        "a link": {**said, "content": {"type": "resource_link", "uri": "file:///x"}},
        "a text": {**said, "content": "a"},
        "a member": {**said, "content": {**said["content"], "annotations": {}}},
        "a member of it": {**said, "toolCallId": "t"},
    }.items():
        guard = "agent-state" if what == "state_update idle" else "update-texts"
        yield updates(guard, what, said, after)
        yield updates(guard, what, said, after).having(texts=True, options=True)
    plan: Object = {
        "sessionUpdate": "plan_update",
        "plan": {"planId": "p", "entries": [{"content": "a", "status": "pending"}]},
    }
    for what, held in {
        "another plan": {"planId": "q", "entries": plan["plan"]["entries"]},
        "done": {"planId": "p", "entries": [{"content": "a", "status": "completed"}]},
        "an entry fewer": {"planId": "p", "entries": []},
    }.items():
        yield updates("update-texts", f"a plan, {what}", plan, {**plan, "plan": held})
    call = {**CALL, "rawOutput": {"out": ["a"], "exit": 0}}
    changes: dict[str, Object] = {
        "the title": {"title": "x"},
        "the exit": {"rawOutput": {"out": ["a"], "exit": 1}},
        "fewer lines": {"rawOutput": {"out": [], "exit": 0}},
        "another name": {"rawOutput": {"in": ["a"], "exit": 0}},
        "a text gone": {"content": [DIFF, TERMINAL]},
        "a diff": {"content": [TEXT, {**DIFF, "newText": "y"}, TERMINAL]},
        "a diff's path": {"content": [TEXT, {**DIFF, "path": "/etc"}, TERMINAL]},
        "no list": {"content": None},
        "its input": {"rawInput": {"command": "ls"}},
        "locations": {"locations": [{"path": "/w/b"}]},
    }
    for what, change in changes.items():
        yield updates("tool-calls", f"{what} of a call", call, {**call, **change}).having(
            texts=True
        )
    for status in ("pending", "in_progress", None, "unheard-of"):
        running = {**CALL, "status": status}
        other = {**TEXT, "content": {"type": "text", "text": "b"}}
        sent = {**running, "content": [other, DIFF, TERMINAL]}
        yield updates("tool-calls", f"words of a {status} call", running, sent).having(texts=True)
    chunk = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": TEXT}
    worded = {**chunk, "content": {**TEXT, "content": {"type": "text", "text": "b"}}}
    yield updates("tool-calls", "words of a chunk", chunk, worded).having(texts=True)
    ended = ({**held, "status": "completed"} for held in (chunk, worded))
    yield updates("tool-calls", "words of a finished chunk", *ended).having(texts=True)
    finished = {**CALL, "content": [{**TEXT, "content": {"type": "text", "text": "b"}}]}
    yield updates("tool-calls", "words", {**CALL, "content": [TEXT]}, finished)


def states() -> Iterator[Attack]:
    """Forged states of the agent."""
    for kind in (
        "state_update", "usage_update", "session_info_update", "compaction_update",
        "subagent_update",
    ):  # fmt: skip
        held = {"sessionUpdate": kind, "state": "running", "sessionId": "child"}
        for change in ({"state": "idle"}, {"sessionId": "s"}, {"title": "x"}):
            yield updates("agent-state", f"{kind}, {change}", held, {**held, **change}).having(
                texts=True
            )
        yield makes_up("agent-state", kind, "session/update", json.dumps({"update": held})).having(
            texts=True
        )
    for kind in ("notice", "compaction_summary_chunk"):
        notice = {"sessionUpdate": kind, "title": "t", "severity": "warning", "compactionId": "c"}
        yield updates("notices", kind, notice, {**notice, "title": "u"})
        for name in ("severity", "compactionId", "new"):
            change = {name: "other"}
            yield updates("notices", f"{kind}, {change}", notice, {**notice, **change}).having(
                texts=True
            )
        yield makes_up("notices", kind, "session/update", json.dumps({"update": notice})).having(
            texts=True
        )
    mode: Object = {"sessionUpdate": "current_mode_update", "currentModeId": "bypass"}
    ask = {**mode, "currentModeId": "ask"}
    yield updates("session-mode", "a mode shown as another", mode, ask).having(options=True)
    shown: dict[str, Object] = {
        "the agent's": mode,
        "none": {"sessionUpdate": "current_mode_update"},
        "the agent's options": {
            "sessionUpdate": "config_option_update",
            "configOptions": [{"configId": "model"}],
        },
        "no options": {"sessionUpdate": "config_option_update"},
    }
    for what, update in shown.items():
        sent = json.dumps({"update": update})
        yield makes_up("session-mode", f"{what}, shown", "session/update", sent).having(
            options=True
        )
    options = {"sessionUpdate": "config_option_update", "configOptions": [{"id": "model", "v": 1}]}
    for what, entries in {
        "changed": [{"id": "model", "v": 2}],
        "gone": [],
        "twice": [{"id": "model", "v": 1}, {"id": "model"}],
    }.items():
        after = {**options, "configOptions": entries}
        yield updates("session-mode", f"options {what}", options, after).having(options=True)
