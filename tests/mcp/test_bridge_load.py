"""Many calls at once, large ones, and any order of answers, cancellations and departures."""

import itertools
import json
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.mcp.bridge.effects import ToChain, ToClient
from tests.harness.bridge.rig import DECLARED, MODERN_META, BridgeRig, Json, McpClient

GENERATIONS: Final = tuple(DECLARED)


def slow(text: str, *, modern: bool = False) -> Json:
    """The params of a call that waits."""
    held: Json = {"name": "slow", "arguments": {"text": text}}
    return {**held, "_meta": MODERN_META} if modern else held


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_thousand_calls_of_four_connections_keep_their_answers_apart(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    clients = [rig.client() for _ in range(4)]
    for client in clients[:2]:
        client.initialize()
    ids: dict[str, tuple[McpClient, object]] = {}
    for number, (at, client) in itertools.product(range(250), enumerate(clients)):
        text = f"{at} {number}"
        ids[text] = client, client.start("tools/call", slow(text, modern=at >= 2), id_=number + 5)
    assert len([one for one in rig.component.open if " " in one and one[0].isdigit()]) == 1000
    for text in sorted(ids, key=lambda one: one[::-1]):
        rig.component.open[text]["done"](text)
    for text, (client, id_) in ids.items():
        (answer,) = [one for one in client.frames if one.get("id") == id_]
        assert answer["result"]["content"][0]["text"] == text


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_result_of_20_mb_passes(generation: str) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    client = rig.client()
    client.initialize()
    client.start("tools/call", slow("x"))
    text = "é" * 10_000_000
    rig.component.open["x"]["done"](text)
    assert client.answer(2)["result"]["content"][0]["text"] == text


STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(("call", "answer", "cancel", "leave", "come", "tell", "ask", "junk")),
        st.integers(0, 7),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(generation=st.sampled_from(GENERATIONS), modern=st.booleans(), steps=STEPS)
def test_any_order(generation: str, modern: bool, steps: list[tuple[str, int]]) -> None:
    rig = BridgeRig(generation)
    rig.set_up()
    clients: list[McpClient] = []
    waiting: dict[str, tuple[McpClient, object]] = {}
    done: dict[str, tuple[McpClient, object]] = {}
    names = (f"t{number}" for number in itertools.count())

    def come() -> None:
        client = rig.client()
        client.serves = lambda _: {"result": {"content": {"text": "sampled"}}}
        if not modern:
            client.initialize(sampling={})
        clients.append(client)

    come()
    for step, at in steps:
        if step == "come" or not clients:
            come()
            continue
        client = clients[at % len(clients)]
        mine = [text for text, (whose, _) in waiting.items() if whose is client]
        match step:
            case "call":
                text = next(names)
                waiting[text] = client, client.start("tools/call", slow(text, modern=modern))
            case "answer" if mine:
                text = mine[at % len(mine)]
                rig.component.open[text]["done"](text)
                done[text] = waiting.pop(text)
            case "cancel" if mine:
                text = mine[at % len(mine)]
                _, id_ = waiting.pop(text)
                params = {"requestId": id_}
                client.send({"method": "notifications/cancelled", "params": params})
                rig.component.open[text]["done"]("late")
                assert [one for one in client.frames if one.get("id") == id_] == []
            case "leave":
                clients.remove(client)
                client.close()
                for text in mine:
                    del waiting[text]
                    rig.component.open[text]["done"]("late")
            case "tell" if mine:
                about = rig.component.open[mine[0]]["about"]
                rig.component.tell(about, "notifications/progress", {"progressToken": at})
            case "ask" if mine and generation != "stateless" and not modern:
                about = rig.component.open[mine[0]]["about"]
                answers: list[Json] = []
                rig.component.ask(about, "sampling/createMessage", {}, answers.append)
                assert len(answers) == 1
            case "junk":
                rig.perform(rig.bridge.from_client(client.name, bytes([at]) * at))
            case _:
                pass
    for text, (client, id_) in (done | waiting).items():
        if text in waiting:
            rig.component.open[text]["done"](text)
        assert client.answer(id_)["result"]["content"][0]["text"] == text
    for client in clients:
        client.close()
    rig.perform(rig.bridge.end())
    assert rig.listeners == {}
    assert rig.bridge.servers == {}
    assert all(one.startswith(("B> ", "C> ")) for one in rig.wire)
    assert rig.upstream[1:] == []


FRAGMENTS: Final = st.sampled_from(
    [
        b'{"jsonrpc":"2.0"', b',"id":1', b',"id":"a"', b',"method":"initialize"', b"}", b"{", b"[",
        b',"method":"mcp/message"', b',"params":{"connectionId":"c1"', b',"params":{"message":7}',
        b',"params":{"serverId":"ID","requestId":"r"', b',"method":"session/new"', b"]", b"\xff",
        b',"params":{"mcpServers":[{"type":"acp","name":"n","serverId":"i"}]}', b',"result":{}',
        b',"method":"_mcp/disconnect"', b',"error":{}', b',"method":"$/cancel_request"', b"null",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(FRAGMENTS, max_size=6)), max_size=12))
def test_no_bytes_are_too_much(lines: list[tuple[int, list[bytes]]]) -> None:
    rig = BridgeRig("sdk-2", "acp")
    rig.set_up()
    rig.component.receive = lambda frame: None  # type: ignore[method-assign]
    rig.perform(rig.bridge.client_opened("k", "1-0"))
    for way, parts in lines:
        line = b"".join(parts)
        receive = (
            rig.bridge.to_agent,
            rig.bridge.from_agent,
            lambda one: rig.bridge.from_client("k", one),
        )[way]
        for effect in receive(line):
            assert effect is not None
            if isinstance(effect, ToClient):
                json.loads(effect.frame)
            if isinstance(effect, ToChain) and way != 1:
                json.loads(effect.frame)
    rig.bridge.end()
