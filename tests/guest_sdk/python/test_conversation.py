"""A conversation as data: what is read is written again, what passes is kept, what is added."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guest_sdk.python import Conversation, Playground, Proxy, Record, Recorder, Session
from guest_sdk.python.conversation import DEEPEST, Event, ToolUse
from guest_sdk.python.retelling import in_words, updates

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
METAS = st.dictionaries(st.text(max_size=5), JSON, max_size=2)
BLOCKS = st.lists(st.builds(lambda said: {"type": "text", "text": said}, st.text(max_size=5)))


def parts(required: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Parts of a conversation as JSON, also with members that nobody knows."""
    more = {"_meta": METAS, "example.com/other": JSON, **optional}
    return st.fixed_dictionaries(required, optional=more)


TEXT = st.text(max_size=5)
ITEMS = st.one_of(
    parts({"type": st.just("prompt"), "content": BLOCKS}, {}),
    parts({"type": st.just("response"), "content": BLOCKS}, {"thought": st.booleans()}),
    parts({"type": st.just("toolUse")}, {"toolCallId": TEXT, "title": TEXT, "rawInput": JSON}),
    parts({"type": st.just("event"), "kind": TEXT}, {"text": TEXT, "data": JSON}),
    parts({"type": st.just("newer")}, {"content": JSON}),
)
TURNS = parts({"items": st.lists(ITEMS, max_size=3)}, {"stopReason": TEXT})
CONVERSATIONS = parts(
    {"turns": st.lists(TURNS, max_size=3)},
    {"sessionId": TEXT, "title": TEXT, "leftOut": st.just(0)},
)


@given(CONVERSATIONS)
def test_what_is_read_is_written_again(held: Any) -> None:
    assert Conversation.read(held).json() == held


@given(JSON, CONVERSATIONS, st.integers(0, 300))
def test_whatever_is_no_conversation_is_named(odd: Any, held: Any, most: int) -> None:
    for value in (odd, {"turns": odd}, {"turns": [odd]}, {"turns": [{"items": [odd]}]}):
        with contextlib.suppress(ValueError):
            assert Conversation.read(value).json() == value
    found = Conversation.read(held)
    count = len(found.turns) + found.left_out
    found.trim(most)
    assert len(found.turns) + found.left_out == count
    assert len(in_words(found, most)) <= most + 50


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ([], "`/` is no object"),
        ({"turns": {}}, "`/turns` is no list"),
        ({"turns": [{"items": [{"type": 1}]}]}, "`/turns/0/items/0/type` is no text"),
        ({"turns": [{"items": [{"type": "prompt", "content": "x"}]}]}, "content` is no list"),
        ({"turns": [], "leftOut": True}, "`/leftOut` is no number"),
    ],
)
def test_malformed(held: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Conversation.read(held)


def test_one_that_nests_too_deep_is_refused() -> None:
    held: Any = {}
    for _ in range(100_000):
        held = {"_meta": held}
    with pytest.raises(ValueError, match=f"{DEEPEST} levels"):
        Conversation.read({"turns": [], "_meta": held})


# -- what passes -----------------------------------------------------------------------------------

SAID = st.lists(
    st.tuples(
        st.sampled_from(("agent_message_chunk", "agent_thought_chunk")),
        st.sampled_from((None, "m1", "m2")),
        st.text(max_size=8),
    ),
    max_size=12,
)


def _kinds(said: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Texts by kind; neighbours of one kind joined."""
    found: list[tuple[str, str]] = []
    for update in said:
        kind, text = str(update["sessionUpdate"]), update["content"]["text"]
        if found and found[-1][0] == kind:
            text = found.pop()[1] + text
        found.append((kind, text))
    return found


@given(st.lists(SAID, min_size=1, max_size=4))
def test_what_is_kept_is_what_the_client_saw(turns: list[Any]) -> None:
    recorder, seen = Recorder(), []
    for number, said in enumerate(turns):
        block = {"type": "text", "text": f"p{number}"}
        recorder.prompted([block])
        seen.append({"sessionUpdate": "user_message_chunk", "content": block})
        for kind, id_, text in said:
            update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
            recorder.heard({**update, "messageId": id_} if id_ else update)
            if id_ is None:
                seen.append(update)
        recorder.ended({"stopReason": "end_turn"})
    held = recorder.conversation
    assert [turn.stop_reason for turn in held.turns] == ["end_turn"] * len(turns)
    plain = [one for turn in held.turns for one in turn.items if not one.more.get("messageId")]
    for turn in held.turns:
        turn.items = [one for one in turn.items if any(one is each for each in plain)]
    assert _kinds(list(updates(held))) == _kinds(seen)


def test_tools_events_and_plans() -> None:
    recorder = Recorder()
    recorder.prompted([{"type": "text", "text": "go"}])
    recorder.heard(
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", "kind": "read"}
    )
    options = [{"optionId": "y", "name": "Allow", "kind": "allow_once"}]
    call = {"toolCallId": "t", "title": "Read"}
    recorder.approved(
        {"toolCall": call, "options": options},
        {"outcome": {"outcome": "selected", "optionId": "y"}},
    )
    recorder.heard({"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"})
    recorder.heard({"sessionUpdate": "plan", "entries": [1]})
    recorder.heard({"sessionUpdate": "plan", "entries": [1, 2]})
    recorder.heard({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": {}})
    recorder.heard({"sessionUpdate": "state_update", "state": "idle", "stopReason": "refusal"})
    turn = recorder.conversation.turns[0]
    assert turn.stop_reason == "refusal"
    assert turn.tool_uses == [
        ToolUse("t", "Read", "completed", more={"kind": "read", "content": [{}]})
    ]
    assert [(one.kind, one.text) for one in turn.events] == [
        ("approval", "Read: Allow"), ("plan", "a plan"),
    ]  # fmt: skip
    assert turn.events[1].data == {"entries": [1, 2]}
    assert [one["sessionUpdate"] for one in updates(recorder.conversation, 2)] == [
        "user_message", "tool_call_update", "plan_update",
    ]  # fmt: skip
    assert in_words(recorder.conversation) == (
        "User: go\n(You used: Read)\n(Read: Allow)\n(a plan)"
    )


def test_no_more_is_kept_than_was_said() -> None:
    recorder = Recorder(most=2000)
    for number in range(100):
        recorder.prompted([{"type": "text", "text": f"p{number}"}])
        for _ in range(20):
            content = {"type": "text", "text": "x" * 100}
            recorder.heard({"sessionUpdate": "agent_message_chunk", "content": content})
    held = recorder.conversation
    assert len(str(held.json())) < 5000
    assert held.left_out + len(held.turns) == 100
    assert held.turns[-1].prompts[0].text == "p99"


# -- what is added ---------------------------------------------------------------------------------


def _answers(request: Record) -> Any:
    if request.method == "_conversation/summarize":
        return {"conversation": {"turns": [{"items": []}], "_meta": {"a": 1}, "size": 1}}
    return None


async def test_a_proxy_adds_to_what_is_asked_for_under_its_own_name() -> None:
    proxy = Proxy("adder 2")

    @proxy.summarize
    def about(conversation: Conversation, session: Session) -> dict[str, int]:
        conversation.turns[0].meta[proxy.meta_key] = session.id
        return {"turns": len(conversation.turns)}

    @proxy.augment
    async def more(conversation: Conversation, session: Session) -> None:
        raise ZeroDivisionError

    own = "conductor.component/adder-2"
    client = lambda asked: {"conversation": asked.raw["params"]["conversation"]}  # noqa: E731
    async with Playground(proxy, answer=_answers, client=client) as p:
        session = await p.new_session()
        found = await p.request("_conversation/summarize", {"sessionId": session})
        assert found == {
            "conversation": {
                "turns": [{"items": [], "_meta": {own: session}}],
                "_meta": {"a": 1, own: {"turns": 1}},
                "size": 1,
            }
        }
        held: Any
        for held in ({"turns": []}, {"turns": 1}):
            params = {"sessionId": session, "conversation": held}
            asked = p.agent.request("_conversation/augment", params)
            assert p.result("s", asked) == {"conversation": held}
        warnings = p.services.log
        assert any("ZeroDivisionError" in one for one in warnings)
        assert any("`/conversation/turns` is no list" in one for one in warnings)


async def test_an_event_is_text_for_those_who_do_not_know_it() -> None:
    proxy = Proxy("guide")

    @proxy.request("session/prompt")
    def prompt(request: Any) -> None:
        request.session.event("walkthrough", "Look at main.py.", {"file": "main.py"})

    async with Playground(proxy) as p:
        turn = await p.prompt("show me")
        assert turn.text == "Look at main.py.show me"
        recorder = Recorder()
        for update in turn.updates:
            recorder.heard(update.raw)
        assert recorder.conversation.turns[0].events == [
            Event("walkthrough", "Look at main.py.", {"file": "main.py"})
        ]
        meta = {"conductor.conversation/event": {"kind": "approval"}}
        recorder.heard({**turn.updates[0].raw, "_meta": meta})
        assert len(recorder.conversation.turns[0].events) == 1
