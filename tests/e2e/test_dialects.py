"""Each generation's envelopes, told or found out, alone and mixed."""

from typing import Final, NamedTuple

import pytest

from tests.harness.process.rig import PROXIES, Chain, Rig


class Form(NamedTuple):
    """The messages that X must have seen and sent in one dialect."""

    role: str
    down: tuple[str, str]
    up: tuple[str, str]


_OLD: Final = ("_proxy/successor/request", "_proxy/successor/notification")
FORMS: Final = {
    "acp": Form("proxy/initialize", ("proxy/successor",) * 2, ("proxy/successor",) * 2),
    "sdk": Form("_proxy/initialize", ("_proxy/successor",) * 2, ("_proxy/successor",) * 2),
    "sacp": Form("initialize", _OLD, _OLD),
    "pacp": Form(
        "initialize",
        ("_proxy/successor/send/request", "_proxy/successor/send/notification"),
        ("_proxy/successor/receive/request", "_proxy/successor/receive/notification"),
    ),
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("dialect", FORMS)
def test_envelopes_both_ways(rig: Rig, dialect: str, told: bool) -> None:
    """Requests and notifications, down and up; nothing of the envelope comes out of it."""
    chain = rig.agent(rig.x("X", "--meta", dialect=dialect, told=told), rig.demo())
    session = chain.begin()
    chain.serves["_x/up"] = lambda params: {"got": params}
    chain.notify("_x/down", {"a": 1})
    assert chain.request("_x/down", {"a": 2})["error"]["code"] == -32601
    assert chain.prompt(session, '/ext _x/up {"b":1}') == '{"got":{"b":1}}'
    assert chain.prompt(session, '/notify _x/up {"b":2}') == "sent _x/up"
    form = FORMS[dialect]
    received, sent = rig.methods("X", "in"), rig.methods("X", "out")
    assert form.role in received
    assert {m for m in received if "successor" in m} == set(form.up)
    mine = {m for m in sent if "successor" in m}
    assert mine == set(form.down)
    assert [f["params"] for f in chain.seen("_x/up")] == [{"b": 1}, {"b": 2}]
    down = [e.frame["params"] for e in rig.log("A", "in") if e.frame.get("method") == "_x/down"]
    assert down == [{"a": 1}, {"a": 2}]
    for entry in rig.log("A", "in"):
        assert b"hop." not in entry.raw
    assert b"hop." not in b"".join(chain.lines)
    assert chain.finish() == 0


@pytest.mark.parametrize("told", [True, False])
def test_flattened_methods_with_a_nested_message(rig: Rig, told: bool) -> None:
    """The walk-through of the oldest proposal wraps `message` in the later methods."""
    chain = rig.agent(rig.x("X", "--nested", dialect="sacp", told=told), rig.demo())
    session = chain.begin()
    forwarded = [e.frame for e in rig.log("X", "out") if e.frame.get("method") == _OLD[0]]
    assert [list(f["params"]) for f in forwarded] == [["message"]] * 2
    chain.serves["_x/up"] = lambda params: {"got": params}
    assert chain.prompt(session, '/ext _x/up {"b":1}') == '{"got":{"b":1}}'
    assert rig.methods("A", "in")[:3] == ["initialize", "session/new", "session/prompt"]


def _talk(chain: Chain) -> None:
    chain.serves["session/request_permission"] = lambda _: {
        "outcome": {"outcome": "selected", "optionId": "reject-once"}
    }
    chain.serves["_x/up"] = lambda params: {"got": params}
    session = chain.begin()
    for text in ("hello", "/permission p", '/ext _x/up {"a":[1.10]}', "/notify _x/note {}",
                 "/updates 50", "/plan"):  # fmt: skip
        chain.answer(chain.start_prompt(session, text))
    chain.request("_x/unknown", {"n": 1})
    hang = chain.start_prompt(session, "/hang")
    chain.notify("session/cancel", {"sessionId": session})
    chain.answer(hang)
    assert chain.finish() == 0


def _after_initialize(chain: Chain) -> list[object]:
    """C's log without the ids of requests made by others, and without `initialize`'s answer."""
    said = chain.frames[1:]
    return [{**f, "id": "theirs"} if "method" in f and "id" in f else f for f in said]


@pytest.mark.parametrize("told", [True, False])
def test_a_chain_of_all_dialects_gives_the_same_log(rig: Rig, told: bool) -> None:
    plain = rig.agent(rig.demo(log=False))
    _talk(plain)
    mixed = rig.agent(
        rig.x("X1", dialect="scp", told=told),
        "passthrough",
        *(rig.x(f"X{at}", dialect=d, told=told) for at, d in enumerate(PROXIES[:4], 2)),
        rig.x("X6", "--nested", dialect="sacp") if told else rig.x("X6"),
        rig.x("X7", dialect="scp", told=told),
        rig.demo(),
    )
    _talk(mixed)
    assert _after_initialize(mixed) == _after_initialize(plain)
    assert rig.leftovers(mixed) == []


def test_a_cancel_goes_hop_by_hop_through_a_mixed_chain(rig: Rig) -> None:
    """`/hang` ends, its request is answered once; nobody is shown another hop's id."""
    chain = rig.agent(
        rig.x("X1", dialect="acp"),
        rig.x("X2", "--wrap-cancel", dialect="sdk"),
        "passthrough",
        rig.x("X3", dialect="pacp"),
        rig.x("X4", dialect="scp"),
        rig.x("X5", dialect="sacp"),
        rig.demo(),
    )
    session = chain.begin()
    hang = chain.start_prompt(session, "/hang")
    chain.notify("$/cancel_request", {"requestId": 424242})
    chain.notify("$/cancel_request", {"requestId": str(hang)})
    chain.settled()
    assert chain.answers(hang) == []
    assert "$/cancel_request" not in rig.methods("X1")
    chain.notify("$/cancel_request", {"requestId": hang})
    chain.notify("$/cancel_request", {"requestId": hang})
    assert chain.answer(hang)["result"]["stopReason"] == "cancelled"
    chain.settled()
    assert len(chain.answers(hang)) == 1
    (prompt,) = [e.frame for e in rig.log("A", "in") if e.frame.get("method") == "session/prompt"]
    cancels = [e.frame for e in rig.log("A", "in") if e.frame.get("method") == "$/cancel_request"]
    assert [f["params"] for f in cancels] == [{"requestId": prompt["id"]}]
    chain.notify("$/cancel_request", {"requestId": hang})
    assert chain.prompt(session, "/echo on") == "on"


@pytest.mark.parametrize("dialect", [None, *PROXIES])
def test_a_batch_of_the_client_is_served_as_one_array(rig: Rig, dialect: str | None) -> None:
    proxies = [rig.x("X", dialect=dialect)] if dialect else ["passthrough"]
    chain = rig.agent(*proxies, rig.demo())
    session = chain.begin()
    chain.send_bytes(
        b'[{"jsonrpc":"2.0","id":"a","method":"_x/a"},{"jsonrpc":"2.0","method":"_x/n"},'
        b'{"jsonrpc":"2.0","id":"b","method":"session/prompt","params":{"sessionId":"%b",'
        b'"prompt":[{"type":"text","text":"/echo in a batch"}]}}, 7 ]\n' % session.encode()
    )
    chain.until(lambda: [f for f in chain.frames if "batch" in f], "the array")
    (array,) = [f["batch"] for f in chain.frames if "batch" in f]
    assert sorted(str(f["id"]) for f in array) == ["None", "a", "b"]
    by_id = {f["id"]: f for f in array}
    assert by_id["a"]["error"]["code"] == -32601
    assert by_id["b"]["result"]["stopReason"] == "end_turn"
    assert by_id[None]["error"]["code"] == -32600
    assert chain.texts(session) == ["in a batch"]
    assert rig.methods("A")[-3:] == ["_x/a", "_x/n", "session/prompt"]
    chain.send_bytes(b'[{"jsonrpc":"2.0","method":"_x/n"}]\n')
    chain.settled()
    assert len([f for f in chain.frames if "batch" in f]) == 1
