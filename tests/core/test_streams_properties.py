"""Streams: what goes on at once is what goes on message by message, whatever is sent."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.core.test_streams import CHAINS, TEXT, UPDATE, made, of, routed
from tests.harness.router.actors import dump
from tests.harness.router.policed import prompt, request

PARAMS: Final = st.sampled_from(
    [
        of("tool_call", ',"toolCallId":"t"'),
        of("tool_call_update", ',"toolCallId":"t"'),
        of("available_commands_update", ',"availableCommands":[{"name":"plan"}]'),
        of("current_mode_update", ',"currentModeId":"code"'),
        of("plan"),
        b'{"sessionId":1,"update":{"sessionUpdate":"plan"}}',
        b'{"sessionId":"S","update":{"sessionUpdate":2}}',
        TEXT,
        b'{"sessionId":"S","update":{"text":"gr\xc3\xbc\xc3\x9fe"}}',
        b'{"a":"a long text, of which some get a reference"}',
        b"{}",
        b"[]",
        b"[{}]",
        b'[{"a":[1]}]',
        b"[[[[[]]]]]",
        b'{"a":{"b":{"c":{"d":{"e":{}}}}}}',
        b" {}",
        b"{} ",
        b"null",
        b"1",
        b'"text"',
        b'"}',
        b'{"a":"\xff}}"}',
        b'{"a":"\\ud83d"}',
        b'{"a":"\\x"}',
        b'{"a":"\x01"}',
        b"{",
        b"{}}",
        b"{},{}",
        b'{},"id":7,"x":{}',
        b'{},"result":{}',
        b'{},"method":"session/other","x":{}',
        b'{"a":01}',
        b"",
    ]
)
OTHERS: Final = st.sampled_from(
    [
        dump(request(5, "session/prompt", prompt("hi"))),
        b'{"jsonrpc":"2.0","id":2,"result":{}}',
        b'{"jsonrpc": "2.0","method":"session/update","params":{}}',
        b'{"method":"session/update","jsonrpc":"2.0","params":{}}',
        b'{"jsonrpc":"2.0","method":"session/update"}',
        b'{"jsonrpc":"1.0","method":"session/update","params":{}}',
        b'{"jsonrpc":"2.0","method":"session/updated","params":{}}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}',
        b"[]",
        b"",
        b"x",
    ]
)
LINES: Final = st.one_of(
    PARAMS.map(lambda params: UPDATE + params + b"}"),
    PARAMS.map(lambda params: UPDATE + params + b"} "),
    OTHERS,
)
CHUNKS: Final = st.lists(
    st.tuples(
        st.sampled_from(["client", "g", "agent"]),
        st.sampled_from([b"", b"p", b"s", b"c", b"x"]),
        st.lists(LINES, min_size=1, max_size=6),
    ),
    max_size=8,
)


@pytest.mark.parametrize("chain", CHAINS)
@settings(max_examples=60, deadline=None)
@given(chunks=CHUNKS)
@example(chunks=[("agent", b"", [UPDATE + TEXT + b"}"] * 3)])
@example(chunks=[("g", b"p", [UPDATE + TEXT + b"}"] * 2 + [b"x"]), ("g", b"s", [UPDATE + b"{}}"])])
def test_whatever_is_sent_a_stream_is_what_its_messages_are(chain: str, chunks: list[Any]) -> None:
    quick, slow = made(chain), made(chain)
    for name, side, lines in chunks:
        if name not in quick.peers:
            continue
        frames = [side + line for line in lines] if name == "g" else lines
        expected = [effect for line in frames for effect in slow.receive(name, line)]
        assert routed(quick, name, frames) == expected
        assert quick.received == slow.received
        assert quick._exchange.number == slow._exchange.number
