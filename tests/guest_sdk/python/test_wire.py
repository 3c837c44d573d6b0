"""The dialect `acp` on one connection: ids kept, envelopes opened and closed."""

import json
from typing import Any

import pytest

from guest_sdk.python import Proxy, ProxyError
from guest_sdk.python.engine import Engine
from guest_sdk.python.wire import Wire


@pytest.fixture(name="wire")
def _wire() -> Wire:
    return Wire(Engine(Proxy("plain")))


def enveloped(id_: Any, method: str, params: str = "") -> str:
    ids = "" if id_ is None else f'"id":{json.dumps(id_)},'
    inner = f'"method":"{method}"' + (f',"params":{params}' if params else "")
    return f'{{"jsonrpc":"2.0",{ids}"method":"proxy/successor","params":{{{inner}}}}}'


@pytest.mark.parametrize(
    "told", [[], ['{"jsonrpc":"2.0","method":"_conductor/configure","params":{"name":"n"}}']]
)
def test_a_program_starts_once_with_settings_and_without(told: list[str]) -> None:
    proxy = Proxy("starts")
    starts: list[dict[str, Any]] = []
    proxy.on_start(lambda: starts.append(proxy.config))
    role = '{"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1}}'
    wire = Wire(Engine(proxy))
    assert wire.receive([*told, role]) == [enveloped(0, "initialize", '{"protocolVersion":1}')]
    assert starts == [{}]


def test_payloads_pass_byte_by_byte_under_the_ids_they_came_with(wire: Wire) -> None:
    odd = '{ "n":[1.10,1e400], "t":"\\ud800" }'
    down = f'{{"jsonrpc":"2.0","id":5,"method":"_x","params":{odd}}}'
    up = enveloped(6, "_y", odd)
    assert wire.receive([down, up]) == [
        enveloped(5, "_x", odd),
        f'{{"jsonrpc":"2.0","id":6,"method":"_y","params":{odd}}}',
    ]
    error = '{"code":-1,"message":"no","more":1.10}'
    assert wire.receive([f'{{"jsonrpc":"2.0","id":6,"error":{error}}}']) == [
        f'{{"jsonrpc":"2.0","id":6,"error":{error}}}'
    ]
    assert wire.receive(['{"jsonrpc":"2.0","id":6,"result":1}']) == []
    assert wire.receive(['{"jsonrpc":"2.0","id":5,"result":1e400}']) == [
        '{"jsonrpc":"2.0","id":5,"result":1e400}'
    ]


def test_notifications_pass_both_ways(wire: Wire) -> None:
    update = '{"jsonrpc":"2.0","method":"session/update","params":{"a":1}}'
    assert wire.receive([enveloped(None, "session/update", '{"a":1}'), update]) == [
        update,
        enveloped(None, "session/update", '{"a":1}'),
    ]


def cancel(id_: str) -> str:
    return f'{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id_}}}}}'


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("not JSON", -32700),
        ("[]", -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{}}', -32600),
    ],
)
def test_what_makes_no_sense_is_refused(wire: Wire, line: str, code: int) -> None:
    (out,) = wire.receive([line])
    assert json.loads(out)["error"]["code"] == code
    assert wire.receive(["", "  "]) == []


def answer(id_: Any, result: str = "{}") -> str:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{result}}}'


def asked(id_: Any, method: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"method":"{method}"}}'


def asking() -> Proxy[Any]:
    """A proxy that asks everybody before it passes `_x` on, and again where the agent refuses."""
    proxy = Proxy("asking")

    @proxy.request("_x")
    async def pass_on(request: Any, following: Any) -> Any:
        await proxy.clock.unix_ms()
        await proxy.ask_agent("_own")
        await proxy.ask_client("_own")
        try:
            return await following(request)
        except ProxyError:
            return await following(request)

    return proxy


def test_own_requests_have_texts_for_ids_and_what_passes_keeps_its_own() -> None:
    wire = Wire(Engine(asking()))
    assert wire.receive([asked(1, "_x")]) == [asked("c-1", "_conductor/clock")]
    assert wire.receive([answer("c-1", '{"unixMs":5}')]) == [enveloped("py-2", "_own")]
    assert wire.receive([answer("py-2")]) == [asked("py-3", "_own")]
    assert wire.receive([answer("py-3")]) == [enveloped(1, "_x")]
    refused = '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'
    # Asked once more, it is the same request still.
    assert wire.receive([refused]) == [enveloped(1, "_x")]
    assert wire.receive([answer(1, "[7]")]) == [answer(1, "[7]")]


def test_one_id_on_both_sides_at_once_does_no_harm(wire: Wire) -> None:
    assert wire.receive([asked(5, "_x"), enveloped(5, "_y")]) == [
        enveloped(5, "_x"),
        asked("w-1", "_y"),
    ]
    assert wire.receive([answer("w-1", "[1]"), answer(5, "[2]")]) == [
        answer(5, "[1]"),
        answer(5, "[2]"),
    ]


def test_one_id_twice_does_no_harm(wire: Wire) -> None:
    assert wire.receive([asked(5, "_x"), asked(5, "_y")]) == [
        enveloped(5, "_x"),
        enveloped("w-1", "_y"),
    ]
    assert wire.receive([answer("w-1", "[1]"), answer(5, "[2]")]) == [
        answer(5, "[1]"),
        answer(5, "[2]"),
    ]


def test_nothing_is_left_of_what_is_answered() -> None:
    wire = Wire(Engine(asking()))
    wire.receive([asked(1, "_x"), asked(2, "_y"), enveloped(3, "_z"), enveloped(4, "_q")])
    for one in (answer("c-1", '{"unixMs":5}'), answer("py-2"), answer("py-3"), answer(2)):
        wire.receive([one])
    assert wire.receive([cancel("1"), cancel("3")]) == [cancel("1"), cancel("3")]
    assert wire.receive([answer(3), cancel("3"), answer(4)]) == [answer(3), answer(4)]
    assert wire.receive([answer(1)]) == [answer(1)]
    # A cancel that comes too late, and a second answer, say nothing to anybody.
    assert wire.receive([cancel("1"), cancel("3"), answer(1), answer(3)]) == []
    held = vars(wire)
    assert [held[name] for name in ("_sent", "_ids", "_from_successor")] == [{}, {}, set()]
