"""An author is told each mistake: its place, and the right form."""

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from conductor.core.guards.names import KNOWN
from guest_sdk.python import (
    DROP,
    Opening,
    Playground,
    Proxy,
    ProxyError,
    Record,
    Request,
    text,
)
from guest_sdk.python import names as acp

Json = dict[str, Any]
Code = Callable[[Any], Any]


# -- names -----------------------------------------------------------------------------------------


def test_every_method_that_rules_speak_of_is_known() -> None:
    """The conductor's own table names methods that this SDK must not take for a mistake."""
    own = {one for one in KNOWN if not one.startswith(("_", "proxy/", "$/"))}
    assert own <= acp.REQUESTS | acp.NOTIFICATIONS
    for decorator in ("request", "notification", "update"):
        known = getattr(acp, f"{decorator}s".upper())
        assert acp.doubts(decorator, [*known, "_x", "_session/promt"]) == []


@pytest.mark.parametrize(
    ("decorator", "name", "meant"),
    [
        ("request", "session/promt", 'did you mean "session/prompt"?'),
        ("request", "prompt", 'did you mean "session/prompt"?'),
        ("request", "list", 'did you mean "session/list"?'),
        ("request", "session/requestPermission", 'did you mean "session/request_permission"?'),
        ("request", "session/Prompt", 'did you mean "session/prompt"?'),
        ("request", "session/cancl", 'did you mean `@proxy.notification("session/cancel")`?'),
        ("request", "session/cancel", 'declare it with `@proxy.notification("session/cancel")`'),
        ("request", "session/update", 'declare it with `@proxy.notification("session/update")`'),
        ("request", "plan", 'declare it with `@proxy.update("plan")`'),
        ("request", "$/cancel_request", "look at `request.cancelled`"),
        ("request", "proxy/initialize", "to handlers it is `initialize`"),
        ("notification", "session/updates", 'did you mean "session/update"?'),
        ("notification", "session/prompt", 'declare it with `@proxy.request("session/prompt")`'),
        ("notification", "agent_mesage", 'did you mean `@proxy.update("agent_message")`?'),
        ("update", "agent_mesage_chunk", 'did you mean "agent_message_chunk"?'),
        ("update", "plans", 'did you mean "plan"?'),
        ("update", "session/update", 'declare it with `@proxy.notification("session/update")`'),
    ],
)
async def test_a_name_that_is_misspelt_raises_where_it_is_declared(
    decorator: str, name: str, meant: str
) -> None:
    proxy = Proxy("p")
    declare = getattr(proxy, decorator)
    with pytest.raises(ValueError, match=r".") as caught:
        declare("initialize" if decorator == "request" else "_x", name)
    assert meant in str(caught.value)
    if not name.startswith(("$", "proxy/")):
        assert f'`@proxy.{decorator}("{name}", unknown=True)` means it' in str(caught.value)
    assert declare(name, unknown=True)(ignored) is ignored
    async with Playground(proxy) as p:
        assert p.services.log == []


def ignored(_: Any) -> None:
    """A handler."""


async def test_a_name_that_is_of_another_protocol_is_told_once_in_the_log() -> None:
    proxy = Proxy("p")

    @proxy.request("session/rename", "_mine", "workspace/pause")
    def one(request: Request) -> Json:
        return {"method": request.method}

    async with Playground(proxy) as p:
        assert await p.request("workspace/pause", {}) == {"method": "workspace/pause"}
        assert [said[: said.index(" as far")] for said in p.services.log] == [
            'warn: ACP has no request "session/rename"',
            'warn: ACP has no request "workspace/pause"',
        ]
        p.send("c", {"method": "configure", "params": {"name": "p", "config": {}}})
        assert len(p.services.log) == 2


# -- what is put into messages ---------------------------------------------------------------------


async def prompted(code: Code) -> Playground:
    """A playground after one prompt, whose handler ran `code`. Raises the error that the client
    gets."""
    proxy = Proxy("p")

    @proxy.request("session/prompt")
    async def prompt(request: Any, following: Any) -> Any:
        found = code(request)
        return await following(request) if found is None else found

    p = Playground(proxy)
    async with p:
        await p.prompt("hi", session="s")
    return p


def blocks(p: Playground) -> list[Any]:
    """The prompt the agent got."""
    held: list[Any] = p.agent.requests[-1].raw["params"]["prompt"]
    return held


LOOKS = '{"stopReason": "end_turn"}; what the user is to read is said before'


def swap(request: Any) -> None:
    request.prompt[0] = "a"
    request.prompt[1:1] = ["b", Record(text("c"))]
    request.prompt += ["d"]


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        (lambda r: r.prompt.insert(0, "a"), ["a", "hi"]),
        (lambda r: r.prompt.append("a"), ["hi", "a"]),
        (lambda r: r.prompt.extend(["a", text("b")]), ["hi", "a", "b"]),
        (swap, ["a", "b", "c", "d"]),
        (lambda r: setattr(r, "prompt", "a"), ["a"]),
        (lambda r: setattr(r, "prompt", ["a", *r.prompt]), ["a", "hi"]),
        (lambda r: setattr(r, "prompt", (text("a"), *r.prompt)), ["a", "hi"]),
        (lambda r: r.prompt[0].update(text="a"), ["a"]),
    ],
)
async def test_text_is_a_block_wherever_one_is_meant(code: Code, texts: list[str]) -> None:
    p = await prompted(code)
    assert blocks(p) == [text(one) for one in texts]


async def test_a_prompt_that_was_only_looked_at_goes_on_byte_by_byte() -> None:
    proxy = Proxy("p")

    @proxy.request("session/prompt")
    async def prompt(request: Any, following: Any) -> Any:
        held = request.prompt
        assert isinstance(held, list)
        assert (held, held[0]["n"], len(held)) == ([{"n": 1.1}], 1.1, 1)
        answer = await following(request)
        held.append("again")  # what is held is the prompt itself, also when it goes on once more
        return await following(request) and answer

    async with Playground(proxy) as p:
        said = '"params":{"sessionId":"s","prompt":[{"n" : 1.10}]}}'
        p.feed('p{"jsonrpc":"2.0","id":7,"method":"session/prompt",' + said)
        assert [one for one in p.lines if one.startswith("< s")] == [
            '< s{"jsonrpc":"2.0","id":7,"method":"session/prompt",' + said,
            '< s{"jsonrpc":"2.0","id":7,"method":"session/prompt",'
            + said.replace("]}}", ',{"type":"text","text":"again"}]}}'),
        ]


number: Any = 3
nothing: Any = None
BLOCK = "is no content block: text is, or `text(…)`"
VALUE = "is no JSON value: text, numbers,"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (lambda r: r.prompt.insert(0, 3), f"3 {BLOCK}"),
        (lambda r: r.prompt.append(None), f"None {BLOCK}"),
        (lambda r: r.prompt.append({"text": "a"}), BLOCK),
        (lambda r: r.prompt.extend("abc"), "'abc' is one, where a list of them is meant"),
        (lambda r: r.prompt.__setitem__(0, ["a"]), f"['a'] {BLOCK}"),
        (lambda r: setattr(r, "prompt", [1]), f"1 {BLOCK}"),
        (lambda r: ProxyError(number), "takes a text and a whole number, not 3 and -32603"),
        (lambda r: ProxyError("no", nothing), "a whole number, not 'no' and None"),
        (lambda r: (_ for _ in ()).throw(GeneratorExit), "GeneratorExit"),
        (lambda r: text(number), "`text(…)` takes text, not 3; `str(…)` makes text of a value"),
        (lambda r: r.session.say(None), "`text(…)` takes text, not None"),
        (lambda r: setattr(r, "cwd", PurePosixPath("/a")), f"`cwd`: PurePosixPath('/a') {VALUE}"),
        (lambda r: setattr(r, "_meta", {1, 2}), f"`_meta`: {{1, 2}} {VALUE}"),
        (lambda r: setattr(r, "note", Later()), "`await` it"),
        (lambda r: Record({}).__setitem__("a", b""), f"`a`: b'' {VALUE}"),
        (lambda r: r.session.update("agent_mesage_chunk"), 'did you mean "agent_message_chunk"?'),
        (lambda r: r.session.update("agent_message_chunk", content=3), f"3 {BLOCK}"),
        (lambda r: r.session.update("agent_message", content=["a", 3]), f"3 {BLOCK}"),
    ],
)
async def test_what_is_of_a_wrong_kind_is_told_at_its_line(code: Code, told: str) -> None:
    with pytest.raises(ProxyError) as caught:
        await prompted(code)
    assert told in caught.value.message
    line = code.__code__.co_firstlineno
    assert caught.value.message.endswith(f"(test_mistakes.py, line {line})")


def fail(data: Any) -> None:
    """Answers with an error that has this data."""
    raise ProxyError("no", data=data)


class Later:
    """The value that an author has who forgets `await`."""

    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (lambda r: r.params.update(a=[1, {"b": {2}}]), "passed on at /a/1/b: {2} is no JSON value"),
        (lambda r: r.params.update(a=float("nan")), "at /a: nan is no JSON value"),
        (lambda r: r.params["prompt"][0].update({(1,): 2}), "at /prompt/0: (1,) is no JSON value"),
        (lambda r: r.params.update(a=r.params), "is no JSON value"),
        (lambda r: "hello", "answered `session/prompt` with 'hello'; an answer is " + LOOKS),
        (lambda r: r, "answered `session/prompt` with <Request session/prompt"),
        (lambda r: {"stopReason": {1}}, "the answer to `session/prompt` at /stopReason: {1} is no"),
        (lambda r: fail({"a": {1}}), "the error that answers `session/prompt` at /data/a: {1} is"),
        (lambda r: fail(float("nan")), "the error that answers `session/prompt` at /data: nan is"),
    ],
)  # fmt: skip
async def test_what_cannot_be_sent_is_told_with_its_place(code: Code, told: str) -> None:
    with pytest.raises(ProxyError) as caught:
        await prompted(code)
    assert told in caught.value.message
    if "answered" in told:
        assert "TypeError: handler `prompt` (test_mistakes.py, line " in caught.value.message


@pytest.mark.parametrize(
    ("method", "answer", "looks"),
    [
        ("session/request_permission", "allow", '{"outcome": {"outcome": "selected",'),
        ("session/request_permission", {"outcome": "allow"}, '{"outcome": {"outcome": "selected",'),
        ("session/new", {}, '{"sessionId": "…"}'),
        ("session/set_mode", ["a"], "a dictionary"),
    ],
)
async def test_an_answer_looks_like_one(method: str, answer: Any, looks: str) -> None:
    proxy = Proxy("p")

    @proxy.request(method)
    def asked(_: Request) -> Any:
        return answer

    async with Playground(proxy) as p:
        with pytest.raises(ProxyError) as caught:
            await p.request(method, {"sessionId": "s"})
        assert f"handler `asked` (test_mistakes.py, line {asked.__code__.co_firstlineno})" in str(
            caught.value
        )
        assert f"answered `{method}` with {answer!r}; an answer is {looks}" in str(caught.value)


async def test_answers_of_others_and_of_extensions_are_as_they_are() -> None:
    proxy = Proxy("p")

    @proxy.request("session/prompt", "session/new")
    async def pass_on(request: Any, following: Any) -> Any:
        answer = await following(request)
        assert answer is not None
        return answer

    @proxy.request("_own")
    def own(_: Request) -> Any:
        return ["a", 1]

    answers = {"session/prompt": "odd", "session/new": {"odd": 1}}
    async with Playground(proxy, answer=lambda one: answers[one.method]) as p:
        assert await p.request("session/prompt", {"sessionId": "s"}) == "odd"
        assert await p.request("session/new", {}) == {"odd": 1}
        assert await p.request("_own", {}) == ["a", 1]


async def test_servers_of_a_session_are_servers() -> None:
    proxy, given = Proxy("p"), list[Any]()

    @proxy.request("session/new")
    def opened(request: Any) -> None:
        request.mcp_servers.append(given[-1])

    async with Playground(proxy) as p:
        given.append({"name": "a", "command": "/a"})
        await p.new_session()
        assert p.agent.requests[-1].raw["params"]["mcpServers"] == given
        given.append("npx files")
        with pytest.raises(ProxyError, match="'npx files' is no MCP server; one is"):
            await p.new_session()


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("shown", "returned 'shown'; DROP or a dict with a `sessionUpdate` is meant"),
        ({"content": "a"}, "DROP or a dict with a `sessionUpdate` is meant"),
        ([{"sessionUpdate": "plan"}, 3], "returned 3; DROP or a dict with"),
    ],
)
async def test_what_is_shown_instead_of_an_update_is_one(found: Any, told: str) -> None:
    proxy = Proxy("p")
    proxy.update("plan")(lambda update: found)
    proxy.update("notice")(lambda update, following: {"sessionUpdate": "plan"})
    proxy.update("tool_call")(lambda update, following: DROP)
    async with Playground(proxy) as p:
        session = await p.new_session()
        for kind in ("tool_call", "plan", "notice"):
            p.agent.update(session, kind)
        first, second = p.services.log
        assert told in first
        assert "returned dict, which nobody is sent: what is passed on is given to `next`" in second
        assert "(test_mistakes.py, line " in first
        assert "(test_mistakes.py, line " in second


async def test_the_text_and_content_of_an_update() -> None:
    proxy, failed = Proxy("p"), list[str]()

    @proxy.update("agent_message_chunk", "agent_message")
    def edit(update: Any) -> None:
        try:
            update.text = 3
        except (TypeError, AttributeError) as error:
            failed.append(str(error))
        update.content = "a"

    async with Playground(proxy) as p:
        p.agent.say("s", "b")
        p.agent.update("s", "agent_message", content=[])
        shown = [one.raw["params"]["update"]["content"] for one in p.heard]
        assert shown == [text("a"), [text("a")]]
        assert failed == [
            "`update.text` takes text, not 3; `str(…)` makes text of a value",
            "this `agent_message` has no text to change",
        ]


async def test_an_opening_and_prompts_of_ones_own() -> None:
    proxy = Proxy("p")

    @proxy.opening
    async def begin(opening: Opening) -> Any:
        await opening.prompt(Record(text("who?")), show=False)
        return 3

    async with Playground(proxy) as p:
        assert (await p.prompt("hi")).text == "hi"
        assert p.agent.prompts == ["who?", "hi"]
        line = begin.__code__.co_firstlineno
        (told,) = p.services.log
        assert f"handler `begin` (test_mistakes.py, line {line}) returned 3 {BLOCK}" in told


async def test_the_log_takes_what_has_a_text() -> None:
    proxy = Proxy("p")

    @proxy.on_start
    def begin() -> None:
        proxy.log.warn(ValueError("odd"))  # type: ignore[arg-type]

    async with Playground(proxy) as p:
        assert p.services.log == ["warn: odd"]
        assert json.loads(p.lines[-1][3:])["params"]["message"] == "odd"


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"a": [PurePosixPath("/x")]}, "at /a/0: PurePosixPath('/x') is no JSON value"),
        ({"a": float("inf")}, "at /a: inf is no JSON value"),
        ([b"x"], "at /0: b'x' is no JSON value"),
    ],
)
async def test_what_a_tool_returns_is_json(found: Any, told: str) -> None:
    proxy = Proxy("p")

    @proxy.tool
    def tool() -> Any:
        return found

    @proxy.tool
    def huge() -> float:
        return float("inf")

    async with Playground(proxy) as p:
        failed = await p.call("tool")
        assert failed["isError"]
        assert f"what was returned {told}" in failed["content"][0]["text"]
        assert (await p.call("huge"))["content"] == [text("Infinity")]
