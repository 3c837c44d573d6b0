"""The work of a proxy on lines: order, cancellation, errors, and lines that pass untouched."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from guest_sdk.python import DROP, Answered, Cancelled, Proxy, gather, text
from guest_sdk.python.engine import Engine


def line(side: str, method: str = "", **more: Any) -> str:
    """A line of the channel; `params` is left out if it is not given."""
    message = {"jsonrpc": "2.0", **({"method": method} if method else {}), **more}
    return side + json.dumps(message, separators=(",", ":"))


def request(side: str, id_: Any, method: str, **params: Any) -> str:
    held = {"params": params} if params else {}
    return side + json.dumps(
        {"jsonrpc": "2.0", "id": id_, "method": method, **held}, separators=(",", ":")
    )


def prompt(id_: Any, said: str, session: str = "a") -> str:
    return request("p", id_, "session/prompt", sessionId=session, prompt=[text(said)])


def update(said: str, session: str = "a", kind: str = "agent_message_chunk") -> str:
    held = {"sessionUpdate": kind, "content": text(said)}
    return line("s", "session/update", params={"sessionId": session, "update": held})


def result(side: str, id_: Any, **held: Any) -> str:
    return line(side, id=id_, result=held)


def flipped(said: str) -> str:
    return {"p": "s", "s": "p"}[said[0]] + said[1:]


def started(proxy: Proxy[Any], **params: Any) -> Engine:
    engine = Engine(proxy)
    assert engine.receive([line("c", "configure", params={"name": "it", **params})]) == []
    return engine


@pytest.fixture(name="waiting")
def _waiting() -> Proxy[Any]:
    """A proxy that asks for the time before it passes a prompt or an update on."""
    proxy = Proxy("waiting")

    @proxy.request("session/prompt")
    async def prompt(request: Any, following: Any) -> Any:
        await proxy.clock.unix_ms()
        request.prompt.insert(0, text("now"))
        return await following(request)

    @proxy.update("agent_message_chunk")
    async def update(update: Any) -> None:
        await proxy.clock.unix_ms()

    return proxy


def asks(number: int) -> str:
    return f'c{{"jsonrpc":"2.0","id":{number},"method":"clock"}}'


def told(number: int) -> str:
    return result("c", number, unixMs=0, iso="2025-10-08T12:34:56+00:00")


# -- what is not handled ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        '{"jsonrpc":"2.0","id":7,"method":"_x/y","params":{"a":1.10,"b":1e400,"c":"\\ud800"}}',
        '{"jsonrpc":"2.0","method":"session/other","params":[1,2]}',
        '{"jsonrpc":"2.0","id":"seven","method":"authenticate"}',
        '{"jsonrpc":"2.0","id":9,"result":{"x":[ 1 ]}}',
        '{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"no","more":1.10}}',
        ' { "id" : 4 , "params":{ } , "method" : "_odd" , "extra" : 1e400 , "jsonrpc":"2.0" } ',
        '{"jsonrpc":"2.0","id":7,"method":"_x","params":{"method":"session/prompt"}}',
        '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}',
        '{"jsonrpc":"2.0","method":"session/prompts"}',
    ],
)
@pytest.mark.parametrize("side", ["p", "s"])
def test_what_nobody_handles_passes_byte_by_byte(waiting: Proxy[Any], side: str, said: str) -> None:
    assert started(waiting).receive([side + said]) == [flipped(side + said)]


@pytest.mark.parametrize(
    "said",
    [
        '{"jsonrpc":"2.0","method":"x","params":{},"method":"_seen"}',
        '{"jsonrpc":"2.0","method":"x","params":{},"m\\u0065thod":"_seen"}',
        '{"jsonrpc":"2.0","\\u006dethod":"_seen"}',
        '{"jsonrpc":"2.0","method":"_see\\u006e"}',
        '{"method":"_seen","jsonrpc":"2.0"}',
    ],
)
def test_no_spelling_gets_past_a_handler(said: str) -> None:
    proxy = Proxy("filter")
    seen = []

    @proxy.notification("_seen")
    def handler(notification: Any) -> Any:
        seen.append(notification.method)
        return DROP

    assert started(proxy).receive(["p" + said]) == []
    assert seen == ["_seen"]


def test_a_line_that_cannot_be_read_does_not_get_past_a_handler(waiting: Proxy[Any]) -> None:
    digits = "1" * 5000
    said = f'p{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"x":{digits}}}}}'
    (out,) = started(waiting).receive([said])
    assert out.startswith('c{"jsonrpc":"2.0","method":"log"')


def test_edits_leave_the_rest_of_a_message_alone(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    said = (
        '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"_meta":{"n":1.10},'
        '"sessionId":"a","prompt":[{"type":"text","text":"\\u00e9","x":1e400}]}}'
    )
    assert engine.receive(["p" + said]) == [asks(1)]
    block = '{"type":"text","text":"now"},{"type":"text","text":"\\u00e9","x":1e400}'
    (out,) = engine.receive([told(1)])
    assert out == (
        's{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"_meta":{"n":1.10},'
        f'"sessionId":"a","prompt":[{block}]}}}}'
    )
    answer = '{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","_meta":{"x":1.10}}}'
    assert engine.receive(["s" + answer]) == ["p" + answer]


# -- order -----------------------------------------------------------------------------------------


def test_what_waits_holds_up_its_session_and_direction_only(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    other = prompt(2, "other", session="b")
    cancel = line("p", "session/other", params={"sessionId": "a"})
    listed = request("p", 3, "session/list")
    assert engine.receive([prompt(1, "one")]) == [asks(1)]
    assert engine.receive([cancel, listed, other]) == [flipped(listed), asks(2)]
    answer = result("p", 9, content="")
    assert engine.receive([answer]) == [flipped(answer)]
    first, second = engine.receive([told(1)])
    assert json.loads(first[1:])["id"] == 1
    assert second == flipped(cancel)


def test_an_answer_does_not_overtake_updates_that_wait(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    unknown = result("s", 77, done=True)
    assert engine.receive([update("one"), update("two"), unknown]) == [asks(1)]
    assert engine.receive([told(1)]) == [flipped(update("one")), asks(2)]
    assert engine.receive([told(2)]) == [flipped(update("two")), flipped(unknown)]


def test_a_turns_own_answer_waits_for_its_updates_too(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    engine.receive([prompt(1, "x")])
    engine.receive([told(1)])
    end = result("s", 1, stopReason="end_turn")
    assert engine.receive([update("one"), end, update("late")]) == [asks(2)]
    assert engine.receive([told(2)]) == [flipped(update("one")), flipped(end), asks(3)]


def test_several_answers_can_be_awaited_at_once() -> None:
    proxy = Proxy("both")

    @proxy.request("session/prompt")
    async def handler(request: Any, following: Any) -> Any:
        first, second = await gather(following(request), following(request))
        return {"stopReason": first["stopReason"], "other": second["stopReason"]}

    engine = started(proxy)
    ids = [json.loads(one[1:])["id"] for one in engine.receive([prompt(1, "x")])]
    assert ids == [1, "py-1"]
    assert engine.receive([result("s", "py-1", stopReason="b")]) == []
    (out,) = engine.receive([result("s", 1, stopReason="a")])
    assert json.loads(out[1:])["result"] == {"stopReason": "a", "other": "b"}


# -- cancellation ----------------------------------------------------------------------------------


def cancel(side: str, id_: Any) -> str:
    return line(side, "$/cancel_request", params={"requestId": id_})


CANCELLED = {"code": -32800, "message": "Request cancelled"}


def test_a_request_cancelled_before_it_was_passed_on_is_answered_here(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    engine.receive([prompt(1, "one"), prompt(2, "two")])
    assert engine.receive([cancel("p", 2)]) == [line("p", id=2, error=CANCELLED)]
    assert engine.receive([cancel("p", 1)]) == [line("p", id=1, error=CANCELLED)]
    assert engine.receive([told(1)]) == []
    assert engine.receive([prompt(3, "three")]) == [asks(2)]


def test_a_turn_cancelled_before_it_began_was_never_taken_in_version_2(waiting: Proxy[Any]) -> None:
    engine = started(waiting)
    asked = request("p", 0, "initialize", protocolVersion=2)
    assert engine.receive([asked]) == [flipped(asked)]
    assert engine.receive([result("s", 0, protocolVersion=2)]) == [
        result("p", 0, protocolVersion=2)
    ]
    engine.receive([prompt(1, "one"), prompt(2, "two")])
    stop = line("p", "session/cancel", params={"sessionId": "a"})
    none = [line("p", id=n, error=CANCELLED) for n in (1, 2)]
    assert sorted(engine.receive([stop])) == sorted([*none, flipped(stop)])


def test_a_handler_may_clean_up_and_its_own_requests_are_cancelled() -> None:
    proxy = Proxy("asking")
    cleaned = []

    @proxy.request("session/prompt")
    async def handler(request: Any, following: Any) -> Any:
        try:
            await proxy.ask_client("_question", sure=True)
        except Cancelled:
            cleaned.append(request.cancelled)
            raise
        return await following(request)

    engine = started(proxy)
    (asked,) = engine.receive([prompt(1, "x")])
    assert asked == request("p", "py-1", "_question", sure=True)
    out = engine.receive([cancel("p", 1)])
    assert out == [cancel("p", "py-1"), line("p", id=1, error=CANCELLED)]
    assert cleaned == [True]
    assert engine.receive([result("p", "py-1", yes=True)]) == []


def test_an_answer_in_the_queue_of_a_cancelled_handler_holds_nothing() -> None:
    proxy = Proxy("slow")

    @proxy.request("session/prompt")
    async def handler(request: Any, following: Any) -> Any:
        return await following(request)

    @proxy.update()
    async def slow(update: Any) -> None:
        await proxy.clock.unix_ms()

    engine = started(proxy)
    engine.receive([prompt(1, "x")])
    assert engine.receive([update("one"), result("s", 1, stopReason="end_turn")]) == [asks(1)]
    assert engine.receive([cancel("p", 1)]) == [line("p", id=1, error=CANCELLED)]
    assert engine.receive([told(1)]) == [flipped(update("one"))]
    assert engine.receive([update("two")]) == [asks(2)]


# -- whom the conductor hears is not for a proxy to know -------------------------------------------


# -- what handlers may do --------------------------------------------------------------------------


def test_handlers_are_called_in_the_order_they_were_declared() -> None:
    proxy = Proxy("two")
    order = []

    def declare(number: int) -> None:
        @proxy.request("_x")
        async def handler(request: Any, following: Any) -> Any:
            order.append(number)
            answer = await following(request)
            order.append(-number)
            return answer

    declare(1)
    declare(2)
    engine = started(proxy)
    engine.receive([request("p", 1, "_x"), result("s", 1)])
    assert order == [1, 2, -2, -1]


def test_a_handler_takes_one_or_two_parameters() -> None:
    proxy = Proxy("odd")
    with pytest.raises(TypeError, match="must take the message"):

        @proxy.request("_x")
        def handler(one: Any, two: Any, three: Any) -> None:
            """Too many."""


def test_a_handler_of_everything_sees_everything_once() -> None:
    proxy = Proxy("all")
    seen = []

    @proxy.request()
    def requests(request: Any) -> None:
        seen.append((request.direction, request.method))

    @proxy.notification()
    def notifications(notification: Any) -> None:
        seen.append((notification.direction, notification.method))

    engine = started(proxy)
    lines = [request("p", 1, "session/new"), line("p", "_x"), request("s", 1, "fs/x"), update("x")]
    assert engine.receive(lines) == [flipped(one) for one in lines]
    assert seen == [
        ("down", "session/new"),
        ("down", "_x"),
        ("up", "fs/x"),
        ("up", "session/update"),
    ]
    assert engine.receive([result("s", 1), result("p", 1)]) == [result("p", 1), result("s", 1)]


def test_a_decorator_without_parentheses_is_a_mistake() -> None:
    proxy = Proxy("forgot")
    for decorator in (proxy.request, proxy.notification, proxy.update):
        with pytest.raises(TypeError, match="declared with parentheses"):
            decorator(len)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declare", "problem"),
    [
        (lambda p: p.tool("name"), r"takes a function, not 'name'; .* `@proxy.tool\(name="),
        (lambda p: p.prompt("name"), r"takes a function, not 'name'; .* `@proxy.prompt\(name="),
        (lambda p: p.resource(len), "`len`: a resource is declared with its address"),
        (lambda p: p.tool(name="t")(lambda: (yield)), "has to return what there is"),
        (lambda p: p.tool(name="a b")(lambda: 1), "tool `a b`: a name has up to 128"),
    ],
)
def test_declarations_that_are_mistakes(declare: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        declare(Proxy("wrong"))


def test_proxies_that_are_mistakes() -> None:
    class Plain:
        """No dataclass."""

    with pytest.raises(TypeError, match="proxy `wrong`: `config` is a dataclass; `Plain` is none"):
        Proxy("wrong", config=Plain)
    proxy = Proxy("wrong")
    proxy.tool(name="one")(lambda: 1)
    with pytest.raises(ValueError, match="there are two tools `one`"):
        proxy.tool(name="one")(lambda: 2)


def test_a_request_handler_that_returns_nothing_is_told_so() -> None:
    proxy = Proxy("forgot")

    @proxy.request("_x")
    async def handler(request: Any, following: Any) -> None:
        """Forgets to pass it on."""

    out = started(proxy).receive([request("p", 1, "_x")])
    error = json.loads(out[-1][1:])["error"]
    assert "return await next(request)" in error["message"]


def test_a_mistake_is_answered_with_the_authors_line_and_logged() -> None:
    proxy = Proxy("wrong")

    @proxy.request("_x")
    def handler(request: Any) -> Any:
        return 1 / 0

    logged, answered = started(proxy).receive([request("p", 1, "_x")])
    error = json.loads(answered[1:])["error"]
    assert error["code"] == -32603
    assert error["message"].startswith("proxy `it` failed at `_x`: ZeroDivisionError")
    assert "(test_engine.py, line " in error["message"]
    assert error["data"]["traceback"][-1].startswith("ZeroDivisionError")
    assert not any("engine.py" in one and "test_" not in one for one in error["data"]["traceback"])
    assert json.loads(logged[1:])["params"]["level"] == "error"


def test_updates_can_be_dropped_replaced_and_multiplied() -> None:
    proxy = Proxy("rewrite")
    answers: list[Any] = []

    @proxy.update("agent_message_chunk")
    def handler(update: Any) -> Any:
        return answers.pop()

    engine = started(proxy)
    one = {"sessionUpdate": "agent_thought_chunk", "content": text("hm")}
    answers[:] = [[one, one], one, DROP]
    assert engine.receive([update("x")]) == []
    assert engine.receive([update("x")]) == [flipped(update("hm", kind="agent_thought_chunk"))]
    assert len(engine.receive([update("x")])) == 2
    assert engine.receive([update("x", kind="plan")]) == [flipped(update("x", kind="plan"))]


def test_an_error_of_the_agent_passes_untouched_or_can_be_caught() -> None:
    proxy = Proxy("errors")

    @proxy.request("_pass")
    async def handler(request: Any, following: Any) -> Any:
        return await following(request)

    @proxy.request("_catch")
    async def catch(request: Any, following: Any) -> Any:
        try:
            return await following(request)
        except Answered as error:
            return {"code": error.code, "data": error.data}

    engine = started(proxy)
    engine.receive([request("p", 1, "_pass"), request("p", 2, "_catch")])
    error = '{"code":-5,"message":"no","data":[1.10],"extra":1e400}'
    assert engine.receive([f's{{"jsonrpc":"2.0","id":1,"error":{error}}}']) == [
        f'p{{"jsonrpc":"2.0","id":1,"error":{error}}}'
    ]
    (out,) = engine.receive([f's{{"jsonrpc":"2.0","id":2,"error":{error}}}'])
    assert json.loads(out[1:])["result"] == {"code": -5, "data": [1.1]}


def test_a_proxy_that_awaits_something_foreign_is_told_so() -> None:
    class Foreign:
        def __await__(self) -> Any:
            yield self

    proxy = Proxy("foreign")

    @proxy.request("_x")
    async def handler(request: Any) -> None:
        await Foreign()

    out = started(proxy).receive([request("p", 1, "_x")])
    message = json.loads(out[-1][1:])["error"]["message"]
    assert "a proxy awaited" in message
    assert "proxy.timer.sleep" in message


def test_state_ends_with_the_session() -> None:
    proxy = Proxy("state")

    @proxy.request("_seen")
    def handler(request: Any) -> Any:
        request.state.n = getattr(request.state, "n", 0) + 1
        return request.state.n

    engine = started(proxy)
    asked = request("p", 1, "_seen", sessionId="a")
    assert '"result":1' in engine.receive([asked])[0]
    assert '"result":2' in engine.receive([asked])[0]
    engine.receive([request("p", 5, "session/close", sessionId="a"), result("s", 5)])
    assert '"result":1' in engine.receive([asked])[0]


def test_wrong_settings_do_not_replace_right_ones() -> None:
    @dataclass
    class Config:
        secret: str

    starts: list[str] = []
    proxy = Proxy("settings", config=Config)
    proxy.on_start(lambda: starts.append(proxy.config.secret))

    @proxy.request("_config")
    def handler(request: Any) -> Any:
        return proxy.config.secret

    engine = Engine(proxy)
    asked = request("p", 1, "_config")
    refused = "the configuration of `settings` is wrong: `secret` must be text"

    def configured(secret: object) -> list[str]:
        return engine.receive([line("c", "configure", params={"config": {"secret": secret}})])

    [said] = configured(1)
    assert refused in said
    assert "stay" not in said
    assert refused in engine.receive([asked])[0]
    assert configured("a") == []
    [said] = configured(2)
    assert f"{refused}; the former settings stay" in said
    assert '"result":"a"' in engine.receive([asked])[0]
    assert configured("b") == []
    assert '"result":"b"' in engine.receive([asked])[0]
    assert starts == ["a", "b"]
