"""Long texts are references to a component that wants them so, and whole to everybody else."""

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from conductor.core import Component, LogLine, Send, Violated
from conductor.core.accounts import Allowance
from conductor.core.dialects import DIALECTS
from conductor.core.payloads import Payloads
from conductor.core.router import Router
from tests.harness.router import actors
from tests.harness.router.policed import PROMPT, initialize, policy, prompt, request, update

LONGEST = 128
LONG = "a long text, Ω" * 20
MARK = re.compile(r"conductor-payload:sha256:([0-9a-f]{64}):(\d+)")
FORGED = "conductor-payload:sha256:" + "0" * 64 + ":7"
CARRIES = ("down:session/prompt:carry+answer+amend", "up:session/update[agent_message_chunk]:carry")


def wants(name: str = "g", kind: str = "channel", *, trusted: bool = False) -> Component:
    rules = None if trusted else policy(*CARRIES)
    allowance = Allowance(text_bytes=LONGEST)
    return Component(name, f"proxy `{name}`", DIALECTS[kind], policy=rules, allowance=allowance)


def chain(*components: Component, **more: Any) -> Router:
    router = Router([*components, Component("agent", "agent `agent`", **more)])
    initialize(router, components)
    return router


def say(router: Router, peer: str, message: Any, side: bytes = b"") -> list[Any]:
    return router.receive(peer, side + json.dumps(message, ensure_ascii=False).encode())


def sent(effects: list[Any], peer: str) -> list[Any]:
    frames = [effect.frame for effect in effects if isinstance(effect, Send)]
    names = [effect.peer for effect in effects if isinstance(effect, Send)]
    picked = [frame for name, frame in zip(names, frames, strict=True) if name == peer]
    return [json.loads(frame.lstrip(b"psc")) for frame in picked]


def given_prompt(router: Router, text: str = LONG) -> Any:
    (got,) = sent(say(router, "client", request("p", PROMPT, prompt(text))), "g")
    return got


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("kind", ["channel", "acp", "pacp"])
def test_a_prompt_is_a_reference_to_the_component_and_whole_to_the_agent(
    kind: str, trusted: bool
) -> None:
    router = chain(wants(kind=kind, trusted=trusted))
    got = given_prompt(router)
    block = got["params"]["prompt"][0]
    assert MARK.fullmatch(block["text"])
    assert block["text"].endswith(f"{digest(LONG)}:{len(LONG.encode())}")
    block["text"] = "look: " + block["text"]
    got["params"]["prompt"].append({"type": "text", "text": "more"})
    if kind == "channel":
        effects = say(router, "g", got, b"s")
    else:
        inner = {"method": PROMPT, "params": got["params"]}
        method = "proxy/successor" if kind == "acp" else "_proxy/successor/send/request"
        held = inner if kind == "acp" else {"message": inner}
        effects = say(router, "g", request(got["id"], method, held))
    (passed,) = sent(effects, "agent")
    texts = [block["text"] for block in passed["params"]["prompt"]]
    assert texts == ["look: " + LONG, "more"]
    assert not [effect for effect in effects if isinstance(effect, Violated)]


def test_an_update_is_a_reference_and_is_restored_on_its_way_up() -> None:
    router = chain(wants())
    (got,) = sent(say(router, "agent", update(LONG)), "g")
    assert MARK.fullmatch(got["params"]["update"]["content"]["text"])
    (passed,) = sent(say(router, "g", got, b"p"), "client")
    assert passed["params"]["update"]["content"]["text"] == LONG


def test_an_agent_gets_no_references_whatever_its_limits() -> None:
    router = chain(allowance=Allowance(text_bytes=1))
    (got,) = sent(say(router, "client", request("p", PROMPT, prompt(LONG))), "agent")
    assert got["params"]["prompt"][0]["text"] == LONG


@pytest.mark.parametrize("long", [LONG, LONG.replace(",", "\n")])
def test_a_component_reads_a_text_in_parts(long: str) -> None:
    router = chain(wants())
    name = given_prompt(router, long)["params"]["prompt"][0]["text"]
    known = "sha256:" + MARK.fullmatch(name).group(1)  # type: ignore[union-attr]
    whole, offset, more = "", 0, True
    while more:
        params = {"digest": known, "offset": offset, "maxBytes": 14}
        (part,) = sent(say(router, "g", request("r", "payload/read", params), b"c"), "g")
        whole, more = whole + part["result"]["text"], part["result"]["more"]
        offset += part["result"]["bytes"]
    assert whole == long
    say(router, "g", {"jsonrpc": "2.0", "method": "payload/read", "params": params}, b"c")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "has no payload ''"),
        ({"digest": "sha256:" + "0" * 64}, "has no payload '0000"),
        ({"digest": "\u2028é"}, "has no payload"),
        ({"digest": 5}, "`digest` is no str"),
        ({"digest": digest(LONG), "offset": -1}, "`offset` is 0 to 300"),
        ({"digest": digest(LONG), "offset": 301}, "`offset` is 0 to 300"),
        ({"digest": digest(LONG), "maxBytes": 3}, "`maxBytes` is 4 to"),
        ({"digest": digest(LONG), "maxBytes": 2**40}, "`maxBytes` is 4 to"),
        ({"digest": digest(LONG), "offset": 14}, "is within a character"),
    ],
)
def test_what_cannot_be_read(params: object, why: str) -> None:
    router = chain(wants())
    given_prompt(router)
    (answer,) = sent(say(router, "g", request("r", "payload/read", params), b"c"), "g")
    assert why in answer["error"]["message"]


def test_a_component_without_the_limit_reads_nothing() -> None:
    component = Component("g", "proxy `g`", DIALECTS["channel"])
    (answer,) = sent(say(chain(component), "g", request("r", "payload/read", {}), b"c"), "g")
    assert "its limit `text_bytes` is off" in answer["error"]["message"]


def test_a_text_is_forgotten_once_nothing_has_it() -> None:
    router = chain(wants())
    got, payloads = given_prompt(router), router.peers["g"].payloads
    assert payloads is not None
    say(router, "g", {"jsonrpc": "2.0", "id": got["id"], "result": {}}, b"p")
    assert len(payloads) == 0


def test_a_text_is_forgotten_while_it_is_read() -> None:
    payloads = Payloads(LONGEST)
    spaces: dict[bytes, None] = {b"1": None, b"2": None}
    payloads.spaces.append(spaces)
    for id_, letter in (("1", "a"), ("2", "b")):
        payloads.refer(Raw(json.dumps(["\n" + letter * 200]).encode()), id_.encode())
    for letter in "ba":
        params = {"digest": digest("\n" + letter * 200), "maxBytes": 9}
        part = json.loads(payloads.read(Raw(json.dumps(params).encode())))
        assert part == {"text": "\n" + letter * 8, "bytes": 9, "more": True}
    payloads.answered(b"2")
    payloads.answered(b"1")
    with pytest.raises(ValueError, match="has no payload"):
        payloads.read(Raw(json.dumps(params).encode()))


def test_a_text_stays_as_long_as_a_message_has_it() -> None:
    router = chain(wants())
    got, payloads = given_prompt(router), router.peers["g"].payloads
    assert payloads is not None
    say(router, "g", got, b"s")
    assert len(payloads) == 1
    say(router, "agent", update(LONG))
    say(router, "g", {"jsonrpc": "2.0", "id": got["id"], "result": {}}, b"p")
    assert len(payloads) == 1  # the update has it, too


def test_a_forged_reference_is_refused_by_name() -> None:
    router = chain(wants())
    got = given_prompt(router)
    got["params"]["prompt"][0]["text"] = FORGED
    effects = say(router, "g", got, b"s")
    (answer,) = sent(effects, "g")
    assert (
        f"proxy `g`: it names a payload that it does not have: {FORGED}"
        in (answer["error"]["message"])
    )
    assert sent(effects, "agent") == []
    effects = say(router, "g", {"jsonrpc": "2.0", "id": got["id"], "result": {"x": FORGED}}, b"p")
    (answer,) = sent(effects, "client")
    assert answer["error"]["message"].endswith(FORGED)
    (log,) = say(router, "g", update(FORGED), b"p")
    assert isinstance(log, LogLine)
    assert "it names a payload" in log.text


def test_a_forged_reference_in_an_array() -> None:
    router = chain(wants(kind="acp", trusted=True))
    odd = [update(FORGED), request("r", "_x/ask", {"a": FORGED})]
    (answers,) = sent(say(router, "g", odd), "g")
    assert [answer["id"] for answer in answers] == ["r"]


@pytest.mark.parametrize("told", [True, False])
def test_a_conversation_in_references_is_the_same_in_all_dialects(told: bool) -> None:
    kinds = ("acp", "sdk", "sacp", "pacp", "scp", "channel")
    stage = actors.chain(kinds, told=told, allowance=Allowance(text_bytes=1))
    assert actors.conversation(stage) == actors.conversation(actors.chain(()))
    stage.say({**actors.PROMPT, "id": 7, "params": {"text": LONG}})
    agent = stage.actors["agent"]
    assert isinstance(agent, actors.Agent)
    assert agent.seen[-1]["params"] == {"text": LONG}
    told_of = [line for line in stage.log if "session/prompt" in line and MARK.search(line)]
    got = {line.partition("< ")[0] for line in told_of if "< " in line[:14]}
    assert got == {f"p{at}" for at in range(1, 7)}


def test_what_a_user_writes_is_no_reference() -> None:
    router = chain(wants())
    first = given_prompt(router)["params"]["prompt"][0]["text"]
    (got,) = sent(say(router, "client", request("q", PROMPT, prompt(first, "T"))), "g")
    shown = got["params"]["prompt"][0]["text"]
    assert MARK.fullmatch(shown)
    assert shown != first
    (passed,) = sent(say(router, "g", got, b"s"), "agent")
    assert passed["params"]["prompt"][0]["text"] == first


def test_a_call_of_a_service_keeps_its_references() -> None:
    router = chain(wants(kind="acp", trusted=True))
    (got,) = sent(say(router, "client", request("p", PROMPT, prompt(LONG))), "g")
    name = got["params"]["prompt"][0]["text"]
    (served,) = say(router, "g", request("r", "_conductor/log", {"message": name}))
    assert name.encode() in served.params


def test_a_reference_may_not_be_repeated_without_end() -> None:
    payloads = Payloads(LONGEST)
    payloads.spaces.append({b"1": None})
    big = payloads.refer(Raw(json.dumps(["x" * 2**20]).encode()), b"1")
    with pytest.raises(ValueError, match="longer than 67,108,864 bytes"):
        payloads.restore(Raw(b"[" + b",".join([bytes(big)] * 100) + b"]"))


def test_too_much_is_given_whole_and_old_notifications_are_forgotten() -> None:
    payloads = Payloads(LONGEST, 2**14)
    spaces: dict[bytes, None] = {}
    payloads.spaces.append(spaces)
    for at in range(20):
        payloads.refer(Raw(b'["%b"]' % (b"%02d" % at * 2**9)), None)
        assert len(payloads) == min(at + 1, 4)
    for at in range(20):
        spaces[b"%d" % at] = None
        payloads.refer(Raw(b'["%b"]' % (b"%c0" % (65 + at) * 2**9)), b"%d" % at)
    assert len(payloads) == 16
    spaces.clear()
    assert payloads.refer(UNSET, None) is UNSET
    for _ in range(2):  # of many open requests not all are looked at each time
        payloads.refer(Raw(b'["%b"]' % (b"y" * 200)), None)
    assert len(payloads) == 4


TEXTS = st.text(max_size=300) | st.sampled_from([FORGED, "é" * 200, '"\\\n' * 60, "x" * 129])
JSON = st.recursive(
    TEXTS | st.none() | st.floats(allow_nan=False) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)


@settings(max_examples=40)
@given(st.lists(JSON, max_size=4), st.booleans())
def test_what_goes_through_a_component_comes_back_as_it_was(value: Any, ascii_only: bool) -> None:
    payloads = Payloads(LONGEST)
    payloads.spaces.append({b"1": None})
    whole = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if ascii_only:
        whole = whole.replace(b"conductor", b"\\u0063onductor")
    shown = payloads.refer(Raw(whole), b"1")
    assert all(map(short, texts(json.loads(bytes(shown)))))
    respelled = json.dumps(json.loads(bytes(shown)), ensure_ascii=not ascii_only)
    for given_back in (bytes(shown), respelled.encode("utf-8", "surrogatepass")):
        assert json.loads(bytes(payloads.restore(Raw(given_back)))) == value
    assert json.loads(bytes(payloads.restore(shown))) == value


def short(text: str) -> bool:
    """Whether a component may get this as it is: half an emoji has no digest."""
    lone = any("\ud800" <= character <= "\udfff" for character in text)
    return lone or MARK.fullmatch(text) is not None or len(text.encode()) <= LONGEST


def texts(value: Any) -> list[str]:
    """All texts in a value but the names of members."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    if isinstance(value, dict):
        return [text for held in value.values() for text in texts(held)]
    return []


def test_half_an_emoji_is_given_whole() -> None:
    payloads = Payloads(LONGEST)
    odd = Raw(b'["\\ud83d%b"]' % (b"x" * 200))
    assert bytes(payloads.refer(odd, None)) == bytes(odd)
