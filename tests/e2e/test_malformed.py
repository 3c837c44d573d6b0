"""Garbage from C, P and A is answered or logged; the next message works."""

import json
from typing import Final

import pytest

from tests.harness.process.rig import Chain, Rig

PARSE: Final = -32700
INVALID: Final = -32600

FROM_CLIENT: Final = {
    "text": (b"hello\n", PARSE),
    "latin": (b'{"jsonrpc":"2.0","id":5,"method":"_x/\xe9"}\n', PARSE),
    "empty array": (b"[]\n", INVALID),
    "too deep": (b'{"jsonrpc":"2.0","method":"_x","params":' + b"[" * 9999 + b"]" * 9999 + b"}\n",
                 INVALID),
}  # fmt: skip
"""The lines that C writes, and the code of each refusal, with the id null."""


def _chain(rig: Rig) -> tuple[Chain, str]:
    chain = rig.agent(rig.x("X"), "passthrough", rig.demo())
    return chain, chain.begin()


@pytest.mark.parametrize("junk", FROM_CLIENT)
def test_junk_of_the_client(rig: Rig, junk: str) -> None:
    chain, session = _chain(rig)
    data, code = FROM_CLIENT[junk]
    chain.send_bytes(data)
    chain.until(lambda: chain.answers(None), "a refusal")
    assert chain.prompt(session, "/echo next") == "next"
    (refusal,) = chain.answers(None)
    assert refusal["error"]["code"] == code
    assert chain.finish() == 0


def test_a_mark_of_bytes_order_and_a_float_for_an_id(rig: Rig) -> None:
    """Such lines of the client, and of the agent; and the cause beside a result of null."""
    chain = rig.agent("passthrough", rig.actor("odd_agent", name="odd"))
    chain.send_bytes(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1.0,"method":"initialize","params":'
                     b'{"protocolVersion":1,"clientCapabilities":{}}}\n')  # fmt: skip
    assert chain.answer(1.0)["result"]
    session = chain.new_session()
    for move in ("/mark", "/float", "/nulls", "/nullid"):
        assert chain.answer(chain.start_prompt(session, move))["result"]
    error = chain.answer(chain.start_prompt(session, "/cause"))["error"]
    assert (error["code"], error["message"]) == (-32050, "odd")
    assert chain.texts(session) == ["mark", "float", "nulls", "nullid", "cause"]
    assert chain.finish() == 0


def test_line_ends_blank_lines_and_spaces_of_the_client(rig: Rig) -> None:
    chain, session = _chain(rig)
    body = json.dumps({"sessionId": session, "prompt": [{"type": "text", "text": "/echo 1"}]})
    frame = f'{{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{body}}}'.encode()
    chain.send_bytes(b"\n\r\n  \n\t\r\n" + b"  " + frame + b" \r\n\n")
    assert "result" in chain.answer("p")
    assert chain.texts(session) == ["1"]
    assert chain.answers(None) == []


def test_the_last_line_needs_no_newline(rig: Rig) -> None:
    chain, session = _chain(rig)
    body = json.dumps({"sessionId": session, "prompt": [{"type": "text", "text": "/echo last"}]})
    chain.send_bytes(b'{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":%b}'
                     % body.encode())  # fmt: skip
    assert chain.finish() == 0
    assert "result" in chain.answer("p")
    assert chain.texts(session) == ["last"]


@pytest.mark.proves("from anybody to the conductor")
def test_junk_of_a_proxy(rig: Rig) -> None:
    chain = rig.agent(rig.x("X", "--junk"), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/echo one") == "one"
    assert chain.prompt(session, "/echo two") == "two"
    assert chain.answers(None) == []
    assert "warning: X:" in chain.stderr
    assert chain.finish() == 0


@pytest.mark.proves("from anybody to the conductor")
def test_junk_of_the_agent(rig: Rig) -> None:
    chain = rig.agent("passthrough", rig.x("X"), rig.demo("--junk-start", "3"))
    session = chain.begin()
    text = "before the junk\nafter the junk"
    assert chain.prompt(session, "/junk npm WARN") == text
    assert chain.prompt(session, "/junkbytes") == text
    assert "junk line 1 of 3" in chain.stderr
    assert "npm WARN" in chain.stderr
    assert "warning: A:" in chain.stderr
    answered = [e.raw for e in rig.log("A", "in") if b'"id":null' in e.raw]
    assert answered == []  # some agents choke on an answer to their junk
    assert chain.finish() == 0


HARMLESS: Final = (
    "/plain", "/crlf", "/blank", "/spaces", "/twice", "/unasked", "/wrongid", "/array", "/list",
    "/nullid", "/mark", "/float", "/nulls", "/old", "/nothing", "/badid", "/latin", "/cut",
    "/number", "/misplaced",
)  # fmt: skip


@pytest.mark.parametrize("move", HARMLESS)
def test_odd_lines_of_the_agent(rig: Rig, move: str) -> None:
    """Whatever stands beside it, the update arrives once, and before the one answer."""
    chain = rig.agent("passthrough", rig.actor("odd_agent", name="odd"))
    session = chain.begin()
    turn = chain.start_prompt(session, move)
    assert chain.answer(turn)["result"] == {"stopReason": "end_turn"}
    chain.settled()
    assert chain.texts(session) == [move[1:]]
    assert chain.seen("_evil") == []
    assert len(chain.answers(turn)) == 1
    order = [f.get("id", f.get("method")) for f in chain.frames[2:]]
    assert order.index("session/update") < order.index(turn)
    assert chain.finish() == 0


def test_the_agents_last_line_needs_no_newline(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.actor("odd_agent", name="odd"))
    session = chain.begin()
    assert chain.answer(chain.start_prompt(session, "/partial"))["result"]
    assert chain.texts(session) == ["partial"]


LIMIT: Final = ("-c", "line-limit=1M")


def test_a_line_of_the_client_beyond_the_limit(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.demo(), options=LIMIT)
    session = chain.begin()
    refused = chain.answer(chain.start_prompt(session, "x" * 1_100_000))["error"]
    assert "longer than 1048576 bytes" in refused["message"]
    assert chain.prompt(session, "/echo next") == "next"
    assert len(chain.prompt(session, "/size 1000000")) == 1_000_000
    assert chain.finish() == 0


@pytest.mark.parametrize("before", [(), ("passthrough",)])
def test_an_answer_beyond_the_limit(rig: Rig, before: tuple[str, ...]) -> None:
    chain = rig.agent(*before, rig.actor("odd_agent", name="odd"), options=LIMIT)
    session = chain.begin()
    error = chain.answer(chain.start_prompt(session, "/big"))["error"]
    assert "`odd`" in error["message"]
    assert "longer than 1048576 bytes" in error["message"]
    assert chain.answer(chain.start_prompt(session, "/bigupdate"))["result"]
    assert chain.answer(chain.start_prompt(session, "/plain"))["result"]
    assert chain.texts(session) == ["big", "bigupdate", "plain"]
    assert chain.seen("_odd/big") == []
    assert "longer than 1048576 bytes" in chain.stderr
    assert chain.finish() == 0
