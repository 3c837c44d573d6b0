"""Content filter and safety: `redact`."""

import json
import sys
from typing import Any, Final

import pytest

from conductor.core.policy.key_table import KINDS
from guest_sdk.python import ProxyError, text
from tests.components.library.support import (
    agent,
    component,
    load_module,
    play,
    received,
    says,
)
from tests.harness.process.rig import Rig

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nab+/c=\n-----END RSA PRIVATE KEY-----"
AWS = "AKIA" + "ABCDEFGHIJKLMNOP"
GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM"
TEXTS = [
    ("nothing to hide", "nothing to hide"),
    (f"my key {AWS}.", "my key [aws-key]."),
    (f"X{AWS}", f"X{AWS}"),
    (f"{GITHUB} {GITHUB}", "[github-token] [github-token]"),
    (f"a {JWT}, b", "a [jwt], b"),
    (f"Authorization: Bearer {'t0k.en' * 4}", "Authorization: Bearer [bearer]"),
    ("Basic dXNlcjpwYXNzd29yZDE=, https://h/?sig=abcdefghij1234567&x=1",
     "Basic [bearer], https://h/?sig=[url-signature]&x=1"),
    ("git clone https://me:s3cret@example.org/x", "git clone https://me:[url-password]@example.org/x"),
    ('password = "abcdefg1", "token": "short1"', 'password = "[assignment]", "token": "short1"'),
    (f"k:\n{KEY}\nend", "k:\n[private-key]\nend"),
    ("-----BEGIN PRIVATE KEY-----\nMII and never an end", "[private-key]"),
    ("say hunter2hunter2 or open sesame!", "say [secret][secret] or [secret]!"),
    ("case 4711-0815 is", "case [case] is"),
]  # fmt: skip
CONFIG = {
    "words": ["hunter2", "open sesame"],
    "patterns": {"case": r"case (\d{4}-\d{4})"},
    "replacement": "[{name}]",
}


@pytest.mark.parametrize(("said", "seen"), TEXTS)
async def test_in_prompts_and_streams_however_they_are_split(said: str, seen: str) -> None:
    async with play("redact", config=CONFIG, grants=[], answer=None) as p:
        await p.prompt(said)
        assert p.agent.prompts == [seen]
        for size in (1, 2, 3, 7, 20, 1000):
            p.agent.answer = says(p, *(said[at : at + size] for at in range(0, len(said), size)))
            assert (await p.prompt("x")).text == seen, size


async def test_what_stands_beside_the_text_ends_no_word() -> None:
    async with play("redact", config=CONFIG, grants=[]) as p:

        def answer(request: Any) -> Any:
            if request.method != "session/prompt":
                return None
            session = request.params.session_id
            for said in ("hun", "ter2, hun"):
                p.agent.say(session, said)
                p.agent.update(session, "usage_update", used=1, size=2)
                p.agent.update(session, "plan", entries=[{"content": "hunter2"}])
            p.agent.update(session, "tool_call", toolCallId="t", title="x")
            p.agent.say(session, "ter2")
            return {"stopReason": "end_turn"}

        p.agent.answer = answer
        turn = await p.prompt("x")
        assert turn.text == "[secret], hunter2"  # the tool call stands between
        kinds = [one.raw["params"]["update"]["sessionUpdate"] for one in p.heard]
        assert kinds.count("plan") == kinds.count("usage_update") == 2
        plans = [one.raw["params"]["update"].get("entries") for one in p.heard]
        assert plans.count([{"content": "[secret]"}]) == 2


async def test_a_suggested_prompt_with_a_secret_is_not_shown() -> None:
    """The suggestion may vanish, and nobody may change it: the user sends it by a click."""
    one, two = ({"prompt": [text(said)]} for said in ("go on", "use hunter2"))
    async with play("redact", config=CONFIG, grants=[]) as p:
        session = await p.new_session()
        for held in ([one, two], [one], "x"):
            p.agent.update(session, "prompt_suggestions_update", suggestions=held)
        shown = [each.raw["params"]["update"]["suggestions"] for each in p.heard]
        assert shown == [[one], [one], "x"]


def test_every_kind_of_update_has_its_row() -> None:
    redact = load_module("redact")
    cleaned = {*redact.TEXTS, *redact.NOTICES, *redact.CALLS, redact.SUGGESTIONS}
    assert cleaned.isdisjoint(redact.AS_THEY_ARE)
    assert redact.KINDS == KINDS


async def test_a_kind_of_update_that_nobody_knows_is_told_once() -> None:
    async with play("redact", config=CONFIG, grants=[]) as p:
        session = await p.new_session()
        for kind in ("new_kind", "usage_update", "new_kind", *map(str, range(50))):
            p.agent.update(session, kind, text="use hunter2")
        warned = [line for line in p.services.log if line.startswith("warn")]
        assert "`new_kind` are shown as they are" in warned[0]
        assert len(warned) == 20


async def test_each_chunk_goes_on_with_all_that_it_says_besides() -> None:
    async with play("redact", config=CONFIG, grants=[]) as p:
        meta = {"a": {"n": 1}}

        def answer(request: Any) -> Any:
            if request.method != "session/prompt":
                return None
            for number, said in enumerate(("my key ", AWS[:12], AWS[12:], " or by", "e")):
                content = text(said) | ({"_meta": meta} if number == 1 else {})
                more = {"_meta": meta} if number == 2 else {}
                update = {"sessionUpdate": "agent_message_chunk", "content": content, **more}
                params = {"sessionId": request.params.session_id, "update": update}
                p.agent.notify("session/update", params | ({"_meta": meta} if number == 3 else {}))
            return {"stopReason": "end_turn"}

        p.agent.answer = answer
        assert (await p.prompt("x")).text == "my key [aws-key] or bye"
        sent = [one.raw["params"] for one in p.heard]
        texts = [one["update"]["content"]["text"] for one in sent]
        assert texts == ["my key ", "", "[aws-key]", " or ", "bye"]
        assert [number for number, one in enumerate(sent) if "_meta" in str(one)] == [1, 2, 3]


async def test_everywhere_else_text_may_be() -> None:
    async with play("redact", config={"replacement": "X"}, grants=[]) as p:
        session = await p.new_session()
        say = f"see {AWS}"
        call: dict[str, Any] = {
            "toolCallId": AWS, "title": say, "status": "in_progress",
            "rawInput": {"command": [say]},
            "content": [{"type": "content", "content": text(say)},
                        {"type": "diff", "path": AWS, "oldText": None, "newText": say}],
            "_meta": {"x": AWS},
        }  # fmt: skip
        done = call | {"status": "completed", "rawOutput": {"out": [say]}}
        p.agent.update(session, "tool_call", **call)
        p.agent.update(session, "tool_call_update", **done)
        p.agent.update(session, "brand_new_kind", text=say)
        updates = [one.raw["params"]["update"] for one in p.heard]
        # A call that the user has to approve of stays: the guard `tool-calls`.
        assert updates[0] == {"sessionUpdate": "tool_call", **call}
        assert updates[1] == {
            "sessionUpdate": "tool_call_update", **done, "rawOutput": {"out": ["see X"]},
            "content": [{"type": "content", "content": text("see X")}, call["content"][1]],
        }  # fmt: skip
        assert updates[2]["text"] == say
        meta = {"data": [say, 1], "annotations": say}
        resource = {"uri": "a", "text": say, "_meta": meta}
        await p.prompt({"type": "resource", "resource": resource}, text(say, n=1))
        blocks = p.agent.requests[-1].raw["params"]["prompt"]
        assert blocks[0]["resource"]["text"] == "see X"
        assert blocks[0]["resource"]["_meta"] == meta  # an agent may obey it: the guard `meta`
        assert blocks[1] == text("see X", n=1)
        assert {"name": "redacted", "value": 1, "kind": "counter",
                "labels": {"secret": "aws-key"}} in p.services.metrics  # fmt: skip


async def test_replays_errors_and_switches() -> None:
    async with play("redact", config={"prompts": False, "only": ["jwt"]}, grants=[]) as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            if request.method == "session/load":
                p.agent.update(session, "user_message_chunk", content=text(f"use {JWT}"))
                return {}
            p.agent.say(session, f"no {JWT[:20]}")
            raise ProxyError("busy", 7)

        p.agent.answer = answer
        await p.request("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        with pytest.raises(ProxyError, match="busy"):
            await p.prompt(f"{JWT} {AWS}")
        assert p.agent.prompts == [f"{JWT} {AWS}"]
        shown = [one.raw["params"]["update"]["content"]["text"] for one in p.heard]
        assert shown == ["use [redacted: jwt]", f"no {JWT[:20]}"]
    async with play("redact", config={"updates": False}, grants=[]) as p:
        p.agent.answer = says(p, AWS)
        assert (await p.prompt(AWS)).text == AWS
        assert p.agent.prompts == ["[redacted: aws-key]"]


@pytest.mark.parametrize("version", [1, 2])
async def test_what_ends_beside_a_turn_does_not_cut_its_words(version: int) -> None:
    async with play("redact", config={**CONFIG, "only": []}, grants=[]) as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            blocks = request.raw["params"].get("prompt")
            if request.method == "session/prompt" and blocks == [text("busy")]:
                raise ProxyError("one after the other")
            if request.method == "session/prompt" and version == 1:
                return p.agent.HOLD
            return {"messageId": "m"} if request.method == "session/prompt" else None

        def shown() -> str:
            updates = [one.raw["params"]["update"] for one in p.heard]
            return "".join(one["content"]["text"] for one in updates if "content" in one)

        p.agent.answer = answer
        await p.start_prompt("a")
        if version == 2:
            p.agent.update(session, "state_update", state="running")
        setup = {"sessionId": session, "cwd": "/project", "mcpServers": []}
        for said, beside in (
            ("my hun", p.start_prompt("busy")),
            ("ter2, hun", p.request("session/resume", setup)),
        ):
            p.agent.say(session, said)
            await beside
        if version == 2:
            p.agent.update(session, "state_update", state="requires_action")
        p.agent.say(session, "ter2 and hun")
        assert shown() == "my [secret], [secret]"
        if version == 1:
            p.agent.reply(p.agent.requests[1], {"stopReason": "end_turn"})
        else:
            p.agent.update(session, "state_update", state="idle")
        assert shown() == "my [secret], [secret] and hun"
        p.agent.answer = says(p, "ter2")
        assert (await p.prompt("b")).text == "ter2"


async def test_a_long_run_without_spaces_is_shown_in_parts() -> None:
    async with play("redact", grants=[]) as p:
        p.agent.answer = says(p, *["x" * 1000] * 10)
        turn = await p.prompt("x")
        assert turn.text == "x" * 10_000
        assert 2 < len([one for one in turn.updates if one.content.text]) < 10


async def test_a_long_word_takes_no_longer_than_many_short_ones() -> None:
    async with play("redact", grants=[]) as p:  # it would take hours otherwise
        said = "x" * 1_000_000 + "\n"
        p.agent.answer = says(p, said, said)
        assert (await p.prompt("x")).text == said + said


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"only": ["keys"]}, "no kind of secret `keys`"),
        ({"patterns": {"x": "("}}, "`patterns.x` is no regular expression"),
        ({"words": [""]}, "a secret cannot be empty"),
    ],
)
async def test_settings_that_cannot_be(config: Any, complaint: str) -> None:
    async with play("redact", config=config) as p:
        with pytest.raises(ProxyError, match=complaint):
            await p.initialize()


def test_behind_a_real_agent(rig: Rig) -> None:
    answers = component("redact", {"words": ["open sesame"], "prompts": False})
    prompts = component("redact", {"words": ["hunter2"], "updates": False})
    chain = agent(rig, answers, prompts, rig.demo())
    session = chain.begin()
    shown = chain.prompt(session, f"hunter2 {AWS}")
    assert shown == "[redacted: secret] [redacted: aws-key]"
    assert received(rig, "session/prompt")[-1]["prompt"] == [text(shown)]
    assert chain.prompt(session, "open sesame") == "[redacted: secret]"
    chunks = [
        e.frame["params"]["update"]["content"]["text"]
        for e in rig.log("A", "out")
        if e.frame.get("method") == "session/update"
    ]
    assert "".join(chunks[-2:]) == "open sesame"
    # A command is not changed: the user is told, in words for users, and reaches the agent without.
    for command, sent in (("/echo hunter2", False), ("/echo", True)):
        blocks = [text(command), text(AWS)] if command == "/echo hunter2" else [text(command)]
        asked = chain.start("session/prompt", {"sessionId": session, "prompt": blocks})
        told = chain.answer(asked).get("error", {}).get("message", "")
        assert ("a secret stands in the command `/echo`" in told) is not sent
        assert "hint: send it without the secret" in told or sent
    # A prompt beyond the limits is not looked at, and does not go on.
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    prompt = {"sessionId": session, "prompt": [text(AWS, deep=deep)]}
    assert "depth" in chain.answer(chain.start("session/prompt", prompt))["error"]["message"]
    assert len(received(rig, "session/prompt")) == 3
    assert chain.finish() == 0
    assert [("not delivered" in line) for line in chain.stderr.splitlines()] == [True]


ASKS: Final = """
import json, sys
def tell(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def say(text):
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    tell(method="session/update", params={"sessionId": "S", "update": update})
for asked in map(json.loads, sys.stdin):
    if asked.get("method") == "session/prompt":
        prompted = asked["id"]
        say("I delete it now")
        tell(id=7, method=sys.argv[1], params={"sessionId": "S", "options": []})
        say("Done")
    elif "method" in asked:
        tell(id=asked["id"], result={"protocolVersion": 1, "sessionId": "S"})
    else:
        tell(id=prompted, result={"stopReason": "end_turn"})
"""
"""An agent that asks in the middle of a word, for all that `redact` knows."""


@pytest.mark.parametrize("method", ["session/request_permission", "elicitation/create"])
def test_what_was_said_before_a_question_is_shown_before_it(rig: Rig, method: str) -> None:
    asking = rig.program(sys.executable, "-c", ASKS, method, name="asking")
    chain = agent(rig, component("redact"), asking)
    chain.serves[method] = lambda _: {"outcome": {"outcome": "cancelled"}}
    session = chain.begin()
    chain.answer(chain.start_prompt(session, "hi"))
    asked = [frame.get("method") == method for frame in chain.frames if "method" in frame]
    assert asked == [False, True, False]
    assert chain.texts(session) == ["I delete it now", "Done"]
    assert chain.finish() == 0


@pytest.mark.proves("no word in `_meta` is changed")
def test_in_the_metadata_that_clients_show(rig: Rig) -> None:
    """Two terminals and a message, in pieces: texts for people in `_meta` are changed, and nothing
    else, which does not undo the rest."""

    def shows(call: str, data: str, **more: Any) -> Any:
        meta = {"terminal_output": {"terminal_id": call, "data": data}, **more}
        return {"sessionUpdate": "tool_call_update", "toolCallId": call, "_meta": meta}

    def done(call: str, note: str) -> Any:
        ends = {"terminal_exit": {"terminal_id": call, "exit_code": 0}, "note": note}
        return {"sessionUpdate": "tool_call_update", "toolCallId": call, "status": "completed",
                "_meta": ends}  # fmt: skip

    def says(said: str, note: str) -> Any:
        part = {"conductor.conversation/subconversation": {"id": "r", "title": note}}
        return {"sessionUpdate": "agent_message_chunk", "content": text(said, _meta={"n": [note]}),
                "_meta": part | {"n": note}}  # fmt: skip

    updates = [
        {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "t", "_meta": {"k": AWS}},
        shows("a", f"key {AWS[:7]}"), shows("a", AWS[7:]), shows("a", f"\n{AWS}"),
        done("a", f"is {AWS}"), shows("b", f"{AWS} is"), shows("b", " ok\n", k=AWS),
        says("so ", AWS), says(f"it is {AWS}", f"{AWS} it is"),
    ]  # fmt: skip
    config = {"replacement": "X", "prompts": False}
    chain = agent(rig, component("redact", config), rig.actor("told_agent", name="told"))
    prompted = chain.start_prompt(chain.begin(), json.dumps(updates))
    assert chain.answer(prompted)["result"] == {"stopReason": "end_turn"}
    shown = [one["params"]["update"] for one in chain.seen("session/update")]
    data = [one["_meta"].get("terminal_output", {}).get("data") for one in shown[:7]]
    assert data == [None, "key ", "X", "\nX", None, "X is", " ok\n"]
    assert shown[0] == updates[0]  # the user may still have to approve of it
    assert shown[4]["_meta"]["note"] == f"is {AWS}"
    assert shown[6]["_meta"]["k"] == AWS
    assert [one["content"]["_meta"] for one in shown[7:]] == [
        one["content"]["_meta"] for one in updates[7:]
    ]
    parts = [one["_meta"] for one in shown[7:]]
    assert [list(one.values()) for one in parts] == [
        [{"id": "r", "title": "X"}, AWS],
        [{"id": "r", "title": "X it is"}, f"{AWS} it is"],
    ]
    assert "".join(one["content"]["text"] for one in shown[7:]) == "so it is X"
    assert chain.finish() == 0
    assert chain.stderr == ""
