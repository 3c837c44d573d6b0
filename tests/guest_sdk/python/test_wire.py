"""The dialect `acp` on one connection: ids kept apart, envelopes opened and closed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guest_sdk.python import Proxy
from guest_sdk.python.engine import Engine
from guest_sdk.python.wire import Wire


@pytest.fixture(name="wire")
def _wire() -> Wire:
    return Wire(Engine(Proxy("plain")))


def enveloped(id_: Any, method: str, params: str = "") -> str:
    ids = "" if id_ is None else f'"id":{json.dumps(id_)},'
    inner = f'"method":"{method}"' + (f',"params":{params}' if params else "")
    return f'{{"jsonrpc":"2.0",{ids}"method":"proxy/successor","params":{{{inner}}}}}'


def test_the_role_request_becomes_initialize_for_the_successor(wire: Wire) -> None:
    role = '{"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1}}'
    (out,) = wire.receive([role])
    assert out == enveloped("w1", "initialize", '{"protocolVersion":1}')
    answer = '{"protocolVersion":1,"_meta":{"x":1.10}}'
    assert wire.receive([f'{{"jsonrpc":"2.0","id":"w1","result":{answer}}}']) == [
        f'{{"jsonrpc":"2.0","id":0,"result":{answer}}}'
    ]


@pytest.mark.parametrize(
    "told", [[], ['{"jsonrpc":"2.0","method":"_conductor/configure","params":{"name":"n"}}']]
)
def test_a_program_starts_once_with_settings_and_without(told: list[str]) -> None:
    proxy = Proxy("starts")
    starts: list[dict[str, Any]] = []
    proxy.on_start(lambda: starts.append(proxy.config))
    role = '{"jsonrpc":"2.0","id":0,"method":"proxy/initialize","params":{"protocolVersion":1}}'
    wire = Wire(Engine(proxy))
    assert wire.receive([*told, role]) == [enveloped("w1", "initialize", '{"protocolVersion":1}')]
    assert starts == [{}]


def test_payloads_pass_byte_by_byte_and_ids_do_not_meet(wire: Wire) -> None:
    odd = '{ "n":[1.10,1e400], "t":"\\ud800" }'
    down = f'{{"jsonrpc":"2.0","id":5,"method":"_x","params":{odd}}}'
    up = enveloped(6, "_y", odd)
    assert wire.receive([down, up]) == [
        enveloped("w1", "_x", odd),
        f'{{"jsonrpc":"2.0","id":"w2","method":"_y","params":{odd}}}',
    ]
    error = '{"code":-1,"message":"no","more":1.10}'
    assert wire.receive([f'{{"jsonrpc":"2.0","id":"w2","error":{error}}}']) == [
        f'{{"jsonrpc":"2.0","id":6,"error":{error}}}'
    ]
    assert wire.receive(['{"jsonrpc":"2.0","id":"w2","result":1}']) == []
    assert wire.receive(['{"jsonrpc":"2.0","id":"w1","result":1e400}']) == [
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


def test_a_cancel_follows_its_request_either_way(wire: Wire) -> None:
    wire.receive(['{"jsonrpc":"2.0","id":5,"method":"_x"}', enveloped(6, "_y")])
    assert wire.receive([cancel("5")]) == [cancel('"w1"')]
    assert wire.receive([cancel("6")]) == [cancel('"w2"')]
    assert wire.receive([cancel("7")]) == []
    wrapped = enveloped(None, "$/cancel_request", '{"requestId":6}')
    assert wire.receive([wrapped]) == [cancel('"w2"')]


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


def test_services_are_asked_for_by_their_long_names() -> None:
    proxy = Proxy("timed")

    @proxy.request("_now")
    async def now(request: Any) -> Any:
        return await proxy.clock.unix_ms()

    wire = Wire(Engine(proxy))
    (asked,) = wire.receive(['{"jsonrpc":"2.0","id":1,"method":"_now"}'])
    assert asked == '{"jsonrpc":"2.0","id":"w1","method":"_conductor/clock"}'
    answer = '{"jsonrpc":"2.0","id":"w1","result":{"unixMs":5}}'
    assert wire.receive([answer]) == ['{"jsonrpc":"2.0","id":1,"result":5}']
