"""Blocks that an agent does not take become words; answers of a silent agent become updates."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from conductor.core import Adapted, Component, Send
from conductor.core.adaptation import adapted, untaken
from conductor.core.router import Router, RouterOptions
from tests.harness.router.policed import PROMPT, V1, V2, guest, initialize, request, update

ALL = frozenset({"image", "audio", "resource"})
PNG = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(b"x" * 100).decode()}
TEXT = {"type": "text", "text": "look"}
LINK = {"type": "resource_link", "name": "a", "uri": "file:///a"}


def v1(takes: object) -> Any:
    return {"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": takes}}


def v2(takes: object) -> Any:
    return {"protocolVersion": 2, "capabilities": {"session": {"prompt": takes}}}


def resource(**held: object) -> dict[str, Any]:
    return {"type": "resource", "resource": held}


def chain(result: object, *components: Component, version: int = 1, **more: Any) -> Router:
    """A chain whose agent answers `initialize` so."""
    router = Router(
        [*components, Component("agent", "agent `agent`")], options=RouterOptions(**more)
    )
    say(router, "client", request(1, "initialize", V1 if version == 1 else V2))
    say(router, "agent", {"jsonrpc": "2.0", "id": 1, "result": result})
    return router


def say(router: Router, peer: str, message: object) -> list[Any]:
    return router.receive(peer, json.dumps(message).encode())


def given_to(effects: list[Any], peer: str = "agent") -> list[Any]:
    return [json.loads(e.frame) for e in effects if isinstance(e, Send) and e.peer == peer]


def prompted(router: Router, *blocks: object, session: str = "S") -> list[Any]:
    params = {"sessionId": session, "prompt": list(blocks)}
    return say(router, "client", request("p", PROMPT, params))


@pytest.mark.parametrize(
    ("result", "lacks"),
    [
        ({"protocolVersion": 1}, ALL),
        (v1({"image": True}), ALL - {"image"}),
        (v1({"embeddedContext": True}), ALL - {"resource"}),
        (v1({"image": {}, "audio": "yes"}), ALL),
        (v1(5), ALL),
        (v2({}), ALL),
        (v2({"image": {}}), ALL - {"image"}),
        (v2({"audio": None}), ALL),
        (7, ALL),
    ],
)  # fmt: skip
def test_an_agent_takes_what_its_capabilities_name(result: object, lacks: frozenset[str]) -> None:
    assert untaken(json.dumps(result).encode()) == lacks


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_gets_words_for_what_it_does_not_take(version: int) -> None:
    router = chain({"protocolVersion": version}, version=version)
    code = resource(uri="file:///a.rs", mimeType="text/x-rust", text='fn "main" é')
    effects = prompted(router, PNG, TEXT, code, LINK, {"type": "hologram", "data": "x"})
    (got,) = given_to(effects)
    image, *rest = got["params"]["prompt"]
    left_out = "left out, since this agent takes none in prompts"
    assert image == {"type": "text", "text": f"[image: image/png, 100 bytes; {left_out}]"}
    words = '[resource text/x-rust file:///a.rs]\nfn "main" é'
    assert rest == [TEXT, {"type": "text", "text": words}, LINK, {"type": "hologram", "data": "x"}]
    reports = [(e.session, e.again, e.text) for e in effects if isinstance(e, Adapted)]
    assert [report[:2] for report in reports] == [("S", False), ("S", False)]
    assert "agent `agent` takes no blocks of the type `image`" in reports[0][2]


def test_each_session_and_type_is_reported_once_as_new() -> None:
    router = chain({"protocolVersion": 1})
    seen = []
    for session in ("S", "S", "T"):
        effects = prompted(router, PNG, session=session)
        (sent,) = given_to(effects)
        say(router, "agent", {"jsonrpc": "2.0", "id": sent["id"], "result": {}})
        seen += [e.again for e in effects if isinstance(e, Adapted)]
    assert seen == [False, True, False]


def test_an_agent_that_takes_all_gets_a_prompt_byte_for_byte() -> None:
    router = chain(v1({"image": True, "audio": True, "embeddedContext": True}))
    params = b'{"sessionId" : "S","prompt":[ {"type":"image","data":"","mimeType":"a/b"}]}'
    line = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":%b}' % params
    (sent,) = router.receive("client", line)
    assert isinstance(sent, Send)
    assert params in sent.frame


def test_a_component_may_add_what_the_agent_does_not_take() -> None:
    component = guest("down:session/prompt:carry", name="g")
    router = Router([component, Component("agent")])
    initialize(router, [component])
    (sent,) = [e for e in prompted(router, TEXT) if isinstance(e, Send)]
    message = json.loads(sent.frame[1:])
    message["params"]["prompt"].append(resource(uri="context://a", text="b"))
    effects = router.receive("g", b"s" + json.dumps(message).encode())
    (got,) = given_to(effects)
    assert got["params"]["prompt"][1]["text"] == "[resource context://a]\nb"


HOLLOW = st.recursive(
    st.none() | st.integers() | st.sampled_from(["image", "a/b", "@/etc/passwd x", "é", "QQ=="]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "data", "mimeType", "resource", "text", "blob", "uri"]), inner
        )
    ),
)


@settings(max_examples=40)
@given(st.lists(HOLLOW, max_size=4), st.sets(st.sampled_from(sorted(ALL))))
def test_whatever_the_blocks_only_those_of_a_type_not_taken_change(
    blocks: list[Any], lacks: set[str]
) -> None:
    params = Raw(json.dumps({"prompt": blocks}).encode())
    after, types = adapted(params, frozenset(lacks))
    assert set(types) <= lacks
    if not types:
        assert after == params
    for before, now in zip(blocks, json.loads(bytes(after))["prompt"], strict=True):
        type_ = before.get("type") if isinstance(before, dict) else None
        if isinstance(type_, str) and type_ in lacks:
            assert now["type"] == "text"
            assert now["text"].startswith("[" + type_)
            assert " @" not in now["text"].partition("\n")[0]
        else:
            assert now == before


@pytest.mark.parametrize("params", [b"{}", b'{"prompt":5}', b"[]", b'{"prompt":["\\ud800",{}]}'])
def test_what_is_no_prompt_passes(params: bytes) -> None:
    assert adapted(Raw(params), ALL) == (Raw(params), ())


def test_an_image_of_50_mb_becomes_a_line() -> None:
    big = {**PNG, "data": "DATA", "annotations": {"priority": 1}}
    line = json.dumps(request("p", PROMPT, {"sessionId": "S", "prompt": [big]})).encode()
    line = line.replace(b"DATA", b"A" * 50_000_000)
    (got,) = given_to(chain({"protocolVersion": 1}).receive("client", line))
    (block,) = got["params"]["prompt"]
    assert "37,500,000 bytes" in block["text"]
    assert block["annotations"] == {"priority": 1}


# -- agents that do not stream ---------------------------------------------------------------------

SAID = {"type": "text", "text": "hi"}


def answer(router: Router, sent: Any, content: object) -> list[Any]:
    result = {"stopReason": "end_turn", "content": content}
    effects = say(router, "agent", {"jsonrpc": "2.0", "id": sent["id"], "result": result})
    got = given_to(effects, "client")
    assert got[-1]["result"] == result
    return [message["params"] for message in got[:-1]]


def chunk(block: object) -> Any:
    return {"sessionId": "S", "update": {"sessionUpdate": "agent_message_chunk", "content": block}}


@pytest.mark.parametrize("tracing", [False, True])
@pytest.mark.parametrize(
    ("content", "blocks"),
    [("hi", [SAID]), (SAID, [SAID]), ([SAID, PNG], [SAID, PNG]), ([5, {}], []), (None, [])],
)
def test_what_an_agent_says_in_its_result_alone_is_an_update(
    content: object, blocks: list[object], tracing: bool
) -> None:
    router = chain({"protocolVersion": 1}, tracing=tracing)
    (sent,) = given_to(prompted(router, TEXT))
    thought = update("hm", kind="agent_thought_chunk")
    say(router, "agent", thought)
    say(router, "agent", update("agent_message", kind="agent_thought_chunk"))
    assert answer(router, sent, content) == [chunk(block) for block in blocks]
