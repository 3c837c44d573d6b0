"""Sessions and their kept state; prompts of the proxy's own in the client's sessions."""

import contextlib
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from guest_sdk.python import (
    Call,
    Cancelled,
    Opening,
    Playground,
    Proxy,
    ProxyError,
    Record,
    Request,
    Server,
    Session,
    Update,
    gather,
    text,
)
from guest_sdk.python.playground import Agent

Json = dict[str, Any]


@dataclass
class Kept:
    """The state of a session."""

    words: list[str] = field(default_factory=list)


def prompted(p: Playground, at: int) -> Record:
    """The prompt at this place among those that the agent got."""
    return [one for one in p.agent.requests if one.method == "session/prompt"][at]


def holding(*words: str) -> Callable[[Record], Any]:
    """An agent that does not answer prompts with these texts by itself."""

    def answer(request: Record) -> Any:
        blocks = request.raw["params"].get("prompt") or [{}]
        return Agent.HOLD if blocks[0].get("text") in words else None

    return answer


# -- the session of an answer ----------------------------------------------------------------------


async def test_a_setup_belongs_to_the_session_it_opened() -> None:
    proxy = Proxy("p", session=Kept)
    seen: list[Any] = []

    @proxy.request("session/new", "session/load", "session/resume", "session/fork")
    async def set_up(request: Request, following: Any) -> Any:
        before = getattr(request, "session", None)
        result = await following(request)
        session = request.session
        seen.append((request.method, before and before.id, session.id, session.began, session.cwd))
        session.state.words.append(request.method.partition("/")[2])
        assert proxy.sessions[session.id] is session
        return result

    @proxy.request("session/prompt", "session/close")
    async def last(request: Request, following: Any) -> Any:
        result = await following(request)
        seen.append((request.method, list(request.state.words)))
        return result

    async with Playground(proxy) as p:
        one = await p.new_session("/a")
        await p.prompt("hi")
        await p.request("session/load", {"sessionId": "old", "cwd": "/b", "mcpServers": []})
        await p.request("session/resume", {"sessionId": "old", "cwd": "/c"})
        fork = (await p.request("session/fork", {"sessionId": one, "cwd": "/d"}))["sessionId"]
        await p.request("session/close", {"sessionId": one})
        await p.prompt("hi", session=one)
        await p.prompt("hi", session="old")
    assert seen == [
        ("session/new", None, one, "session/new", "/a"),
        ("session/prompt", ["new"]),
        ("session/load", "old", "old", "session/load", "/b"),
        ("session/resume", "old", "old", "session/resume", "/c"),
        ("session/fork", one, fork, "session/fork", "/d"),
        ("session/close", ["new"]),
        ("session/prompt", []),
        ("session/prompt", ["load", "resume"]),
    ]


async def test_a_setup_that_fails_or_says_nothing_opens_no_session() -> None:
    proxy = Proxy("p")
    seen: list[Any] = []

    @proxy.request("session/new")
    async def set_up(request: Request, following: Any) -> Any:
        try:
            return await following(request)
        finally:
            seen.append((getattr(request, "session", None), dict(proxy.sessions)))

    answers = iter([{}, None, "odd", {"sessionId": 7}])

    def answer(_: Record) -> Any:
        try:
            return next(answers) or {}
        except StopIteration:
            raise ProxyError("no") from None

    async with Playground(proxy, answer=answer) as p:
        for _ in range(4):
            await p.request("session/new", {"cwd": "/"})
        with pytest.raises(ProxyError, match="no"):
            await p.request("session/new", {"cwd": "/"})
    assert seen == [(None, {})] * 5


async def test_what_the_proxy_says_has_the_id_that_version_two_demands() -> None:
    proxy = Proxy("p")

    @proxy.request("session/prompt")
    def prompt(request: Request) -> Any:
        request.session.say("a")
        request.session.think("b")
        return {"stopReason": "end_turn"}

    for version, ids in ((1, [None, None]), (2, ["p-1", "p-2"])):
        async with Playground(proxy) as p:
            await p.request("initialize", {"protocolVersion": version})
            turn = await p.prompt("x")
            assert [one.get("messageId") for one in turn.updates] == ids


# -- prompts of its own ----------------------------------------------------------------------------


def asking(show: Any = False) -> tuple[Proxy[Any], list[Any]]:
    """A proxy that asks the agent in the client's session before each prompt; and the answers."""
    proxy, heard = Proxy("asking"), list[Any]()

    @proxy.request("session/prompt")
    async def prompt(request: Request, following: Any) -> Any:
        try:
            turn = await request.session.prompt("first", text("this"), show=show)
        except ProxyError as error:
            heard.append(error.message)
        else:
            kinds = [one.raw["sessionUpdate"] for one in turn.updates]
            heard.append((turn.text, turn.stop_reason, kinds))
        return await following(request)

    @proxy.update()
    def updated(update: Update) -> None:
        update.update["passed"] = True

    return proxy, heard


async def test_a_prompt_in_the_clients_session_is_hidden_or_forwarded() -> None:
    kinds = ["tool_call", "usage_update", "agent_message_chunk"]
    for show, shown in ((False, ["usage_update"]), (True, kinds)):
        proxy, heard = asking(show)
        async with Playground(proxy, answer=holding("first")) as p:
            other = await p.new_session()
            session = await p.new_session()
            turn = await p.start_prompt("a")
            p.agent.update(session, "tool_call", toolCallId="1")
            p.agent.update(session, "usage_update", used=1)
            p.agent.say(session, "well")
            p.agent.say(other, "elsewhere")
            seen = [one.raw["params"]["update"] for one in p.heard]
            assert [one["sessionUpdate"] for one in seen[:-1]] == shown
            assert all(one["passed"] for one in seen)
            p.agent.reply(prompted(p, 0), {"stopReason": "max_tokens"})
            assert p.result("p", turn) == {"stopReason": "end_turn"}
            assert p.agent.prompts == ["first\nthis", "a"]
            assert heard == [("well", "max_tokens", kinds)]


def chunk(said: str, **more: Any) -> Json:
    """An update in which the agent speaks."""
    return {"sessionUpdate": "agent_message_chunk", "content": text(said), **more}


@pytest.mark.parametrize(
    ("first", "then", "seen"),
    [
        ([chunk("one")], chunk("two"), "one|\n\ntwo|three"),
        ([chunk("one\n")], chunk("two"), "one\n|\ntwo|three"),
        ([chunk("one\n\n")], chunk("two"), "one\n\n|two|three"),
        ([chunk("one"), chunk("")], chunk("two"), "one||\n\ntwo|three"),
        ([chunk("")], chunk("two"), "|two|three"),
        ([chunk("one", messageId="1")], chunk("two", messageId="2"), "one|two|three"),
        ([chunk("one")], chunk("two", messageId="2"), "one|two|three"),
        ([chunk("one"), {"sessionUpdate": "usage_update"}], chunk("two"), "one|\n\ntwo|three"),
        ([chunk("one"), {"sessionUpdate": "tool_call"}], chunk("two"), "one|two|three"),
        ([chunk("one")], {"sessionUpdate": "plan"}, "one|three"),
        ([chunk("one")], {"sessionUpdate": "usage_update"}, "one|\n\nthree"),
    ],
)
@pytest.mark.parametrize("handled", [True, False])
async def test_what_is_forwarded_is_parted_from_what_the_agent_says_next(
    first: list[Json], then: Json, seen: str, handled: bool
) -> None:
    proxy, own = Proxy("asking"), list[str]()

    @proxy.request("session/prompt")
    async def prompt(request: Request, following: Any) -> Any:
        if request.text == "a":
            own.append((await request.session.prompt("first", show=True)).text)
        return await following(request)

    if handled:
        proxy.update()(lambda update: None)
    async with Playground(proxy, answer=holding("first", "a")) as p:
        await p.prompt("before")
        heard = len(p.heard)
        await p.start_prompt("a")
        for number, updates in ((1, first), (2, [then, chunk("three")])):
            for one in updates:
                params = {"sessionId": p.session, "update": one}
                p.agent.notify("session/update", params)
            p.agent.reply(prompted(p, number), {"stopReason": "end_turn"})
        shown = [one.raw["params"]["update"] for one in p.heard[heard:]]
        texts = [one["content"]["text"] for one in shown if "content" in one]
        assert "|".join(texts) == seen
        assert own == ["".join(one["content"]["text"] for one in first if "content" in one)]


async def test_an_error_to_it_is_raised_and_how_it_is_shown_is_checked() -> None:
    def answer(request: Record) -> Any:
        if request.raw["params"].get("prompt", [{}])[0].get("text") == "first":
            raise ProxyError("not now")
        return None

    proxy, heard = asking()
    async with Playground(proxy, answer=answer) as p:
        assert (await p.prompt("a")).text == "a"
        assert heard == ["not now"]
    proxy, _ = asking("loud")
    async with Playground(proxy) as p:
        with pytest.raises(ProxyError, match="`show` is True or False, not 'loud'"):
            await p.prompt("a")


async def test_it_stays_hidden_when_nobody_waits_any_more_and_the_next_one_waits() -> None:
    proxy, heard = asking()
    async with Playground(proxy, answer=holding("first")) as p:
        session = await p.new_session()
        first = await p.start_prompt("a")
        p.notify("session/cancel", {"sessionId": session})
        assert p.result("p", first) == {"stopReason": "cancelled"}
        asked = prompted(p, 0).raw["id"]
        assert [one.raw for one in p.agent.notifications] == [
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": asked}},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
        ]
        second = await p.start_prompt("b")
        p.agent.say(session, "still going")
        assert (p.heard, p.agent.prompts) == ([], ["first\nthis"])
        p.agent.reply(prompted(p, 0), {"stopReason": "cancelled"})
        assert p.agent.prompts == ["first\nthis"] * 2
        p.agent.reply(prompted(p, 1), {"stopReason": "end_turn"})
        assert p.turn(second).text == "b"
        assert [one[1] for one in heard] == ["end_turn"]


def version_two(request: Record) -> Any:
    """An agent of version 2 that answers prompts when they are inserted."""
    return {"messageId": "m"} if request.method == "session/prompt" else None


async def test_in_version_two_a_turn_ends_by_a_state() -> None:
    for show in (False, True):
        proxy, heard = asking(show)
        async with Playground(proxy, answer=version_two) as p:
            session = await p.new_session()
            turn = await p.start_prompt("a")
            p.agent.update(session, "state_update", state="running")
            p.agent.update(
                session, "agent_message", messageId="1", content=[text("we"), text("ll")]
            )
            p.agent.update(session, "state_update", state="idle", stopReason="refusal")
            states = [one for one in p.heard if one.raw["params"]["update"].get("state") == "idle"]
            assert states == []  # to the client, its own turn has not ended
            assert heard[0][:2] == ("well", "refusal")
            assert p.result("p", turn) == {"messageId": "m"}
            p.agent.update(session, "state_update", state="idle")
            assert p.heard[-1].raw["params"]["update"]["state"] == "idle"


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_session_that_is_brought_back_is_the_one_asked_for(method: str) -> None:
    proxy = Proxy("p")

    @proxy.request(method)
    async def back(request: Request, following: Any) -> Any:
        before, result = request.session, await following(request)
        assert request.session is before
        return result

    async with Playground(proxy, answer=lambda _: {"sessionId": "other"}) as p:
        assert await p.request(method, {"sessionId": "s", "cwd": "/"}) == {"sessionId": "other"}


@pytest.mark.parametrize("answer", [{}, [], 5, {"messageId": "m"}, {"stopReason": None}])
async def test_in_version_one_any_answer_ends_a_turn(answer: Any) -> None:
    proxy, heard = asking()
    usual = {"initialize": None, "session/new": None}
    async with Playground(proxy, answer=lambda request: usual.get(request.method, answer)) as p:
        await p.initialize()
        prompt = await p.start_prompt("a")
        assert [one[1] for one in heard] == ["end_turn"]
        assert p.result("p", prompt) == answer


async def test_a_session_the_proxy_opened_itself_can_be_prompted_too() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        opened = await proxy.ask_agent("session/new", cwd="/", mcpServers=[])
        turn = await proxy.session(opened["sessionId"]).prompt("x", show=False)
        return [opened["sessionId"], turn.text]

    async with Playground(proxy) as p:
        assert await p.request("_ask", {}) == ["session-1", "x"]
        assert p.heard == []


async def test_an_idle_state_before_it_began_is_of_an_earlier_turn() -> None:
    proxy, heard = asking()
    async with Playground(proxy, answer=holding("first")) as p:
        session = await p.new_session()
        turn = await p.start_prompt("a")
        p.agent.update(session, "state_update", state="idle")
        assert heard == []
        p.agent.reply(prompted(p, 0), {"messageId": "m"})
        p.agent.update(session, "state_update", state="idle")
        assert [one[1] for one in heard] == ["end_turn"]
        assert p.turn(turn).text == "a"


async def test_a_subsession_in_version_two() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.subsession(cwd="/") as sub:
            turn = await sub.prompt("x")
            return [turn.text, turn.stop_reason]

    async with Playground(proxy, answer=version_two) as p:
        asked = p.send("p", {"method": "_ask", "params": {}}, request=True)
        p.agent.say("session-1", "y")
        assert p.heard == []
        p.agent.update("session-1", "state_update", state="idle", stopReason="end_turn")
        assert p.result("p", asked) == ["y", "end_turn"]


async def test_a_subsession_is_closed_when_it_is_left() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.subsession(cwd="/") as sub:
            await sub.prompt("x")
        return sub.id

    async with Playground(proxy) as p:
        assert await p.request("_ask", {}) == "session-1"
        asked = [(one.method, one.params.session_id) for one in p.agent.requests[1:]]
        assert asked == [("session/prompt", "session-1"), ("session/close", "session-1")]
        p.agent.say("session-1", "after that")  # it is nobody's any more, as for other sessions
        assert len(p.heard) == 1


async def test_subsessions_end_with_the_handler_that_is_cancelled() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async def one(word: str) -> None:
            async with proxy.subsession(cwd="/") as sub:
                await sub.prompt(word)

        await gather(one("a"), one("b"))

    async with Playground(proxy, answer=holding("a", "b")) as p:
        asked = p.send("p", {"method": "_ask", "params": {}}, request=True)
        p.send("p", {"method": "$/cancel_request", "params": {"requestId": asked}})
        answer = p.answer_to("p", asked)
        assert answer is not None
        assert answer["error"]["code"] == -32800
        stopped = [
            one.params.session_id for one in p.agent.notifications if one.method == "session/cancel"
        ]
        closed = [
            one.params.session_id for one in p.agent.requests if one.method == "session/close"
        ]
        assert sorted(stopped) == sorted(closed) == ["session-1", "session-2"]


async def test_one_with_a_peer_agent_that_opens_too_late_is_closed_there() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.peer("research").subsession(cwd="/"):
            return None

    async with Playground(proxy, answer=lambda _: Agent.HOLD) as p:
        p.send("c", {"method": "configure", "params": {"config": {}, "peers": ["research"]}})
        asked = p.send("p", {"method": "_ask", "params": {}}, request=True)
        p.send("p", {"method": "$/cancel_request", "params": {"requestId": asked}})
        p.agent.reply(p.agent.requests[-1], {"sessionId": "r1"})
        told = p.agent.requests[-1].params
        assert (told.peer, told.method) == ("research", "session/close")
        assert told.params == {"sessionId": "r1"}


async def test_one_that_opens_too_late_for_its_handler_is_closed_at_once() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.subsession(cwd="/"):
            return None

    async with Playground(proxy, answer=lambda _: Agent.HOLD) as p:
        asked = p.send("p", {"method": "_ask", "params": {}}, request=True)
        p.send("p", {"method": "$/cancel_request", "params": {"requestId": asked}})
        p.agent.reply(p.agent.requests[0], {"sessionId": "late"})
        assert (p.agent.requests[-1].method, p.agent.requests[-1].params.session_id) == (
            "session/close",
            "late",
        )


async def test_a_session_goes_on_as_another_and_as_itself() -> None:
    proxy = Proxy("p")

    @proxy.request("session/prompt")
    async def prompt(request: Request, following: Any) -> Any:
        async with proxy.subsession(cwd="/") as sub:
            await request.session.rebind(sub)
            await following(request)
            await request.session.rebind(None)
        return {"stopReason": "end_turn"}

    async with Playground(proxy) as p:
        session = await p.new_session()
        await p.prompt("x")
        asked = [json.loads(one[one.index("{") :]) for one in p.lines if '"method":"rebind"' in one]
        assert [one["params"] for one in asked] == [
            {"sessionId": session, "to": "session-2"},
            {"sessionId": session, "to": session},
        ]


def recorded(p: Playground) -> list[Json]:
    """The params of the calls about turns, as they come."""
    calls: list[Json] = []

    def record(answer: Callable[[Json], Any], params: Json) -> Any:
        calls.append(params)
        return answer(params)

    for method in ("turn/begin", "turn/end"):
        p.services._answers[method] = functools.partial(record, p.services._answers[method])
    return calls


async def test_a_turn_is_a_block_which_ends_whatever_happens_in_it() -> None:
    proxy, seen = Proxy("p"), list[Any]()

    @proxy.request("_work")
    async def work(request: Request) -> Any:
        session = proxy.session("s")
        with contextlib.suppress(LookupError):
            async with session.turn(show=False) as turn:
                seen.append((await turn.prompt("one")).text)
                seen.append((await turn.prompt("two")).text)
                raise LookupError
        with pytest.raises(Cancelled):
            await turn.prompt("three")
        async with session.turn() as turn:
            seen.append((await turn.prompt("hold")).stop_reason)
            with pytest.raises(Cancelled):
                await turn.prompt("four")
        return True

    async with Playground(proxy, answer=holding("hold")) as p:
        calls = recorded(p)
        asked = p.send("p", {"method": "_work", "params": {}}, request=True)
        p.notify("session/cancel", {"sessionId": "s"})
        p.agent.reply(prompted(p, 2), {"stopReason": "cancelled"})
        assert p.result("p", asked) is True
        assert (seen, p.agent.prompts) == (["one", "two", "cancelled"], ["one", "two", "hold"])
        assert calls == [
            {"sessionId": "s", "show": False},
            {"turn": "turn-1"},
            {"sessionId": "s", "show": True},
            {"turn": "turn-2"},
        ]


async def test_a_turn_that_is_refused_and_a_conductor_that_knows_none() -> None:
    proxy = Proxy("p")

    @proxy.request("_work")
    async def work(_: Request) -> Any:
        return (await proxy.session("s").prompt("x")).text

    def no(_: Json) -> Any:
        raise ProxyError("may not begin turns", -32600)

    async with Playground(proxy) as p:
        p.services._answers["turn/begin"] = no
        with pytest.raises(ProxyError, match="may not begin turns"):
            await p.request("_work", {})
        del p.services._answers["turn/begin"]
        assert await p.request("_work", {}) == "x"


# -- before the first prompt -----------------------------------------------------------------------


async def test_an_opening_is_once_in_each_new_session_and_gives_blocks() -> None:
    proxy = Proxy("p", session=Kept)

    @proxy.opening
    async def begin(opening: Opening) -> Any:
        opening.state.words.append("begun")
        turn = await opening.prompt("who?", show=False)
        assert turn.stop_reason == "end_turn"
        return ["one", text("two")] if opening.session.id == "session-1" else "three"

    @proxy.request("session/prompt")
    async def aside(request: Request, following: Any) -> Any:
        if request.text == "aside":
            return {"stopReason": "end_turn"}
        result = await following(request)
        assert request.state.words in (["begun"], [])
        return result

    async with Playground(proxy) as p:
        one, two = await p.new_session(), await p.new_session()
        for session, said in (
            (one, "aside"),
            (one, "/help me"),
            (one, "a"),
            (one, "b"),
            (two, "c"),
        ):
            await p.prompt(said, session=session)
        await p.request("session/load", {"sessionId": "old", "cwd": "/"})
        await p.prompt("d", session="old")
        assert p.agent.prompts == ["who?", "/help me", "one\ntwo\na", "b", "who?", "three\nc", "d"]
        with pytest.raises(TypeError, match="one opening"):
            proxy.opening(begin)


async def test_what_an_opening_does_wrong_does_not_stop_the_user() -> None:
    proxy = Proxy("p")

    @proxy.opening
    def begin(_: Opening) -> Any:
        raise LookupError("nothing there")

    async with Playground(proxy) as p:
        assert (await p.prompt("a")).text == "a"
        assert (await p.prompt("b")).text == "b"
        (logged,) = p.services.log
        assert logged.startswith("error: the opening failed: LookupError: nothing there")


async def test_an_opening_is_told_that_the_user_has_stopped_it() -> None:
    proxy, ends = Proxy("p"), []

    @proxy.opening
    async def begin(opening: Opening) -> Any:
        try:
            await opening.prompt("x")
            await opening.prompt("y")
        except Cancelled:
            ends.append("stopped")
            raise
        ends.append("done")

    async with Playground(proxy, answer=holding("x")) as p:
        session = await p.new_session()
        turns = [await p.start_prompt(said) for said in ("a", "b")]
        p.notify("session/cancel", {"sessionId": session})
        # Waiting turns end too; otherwise the cancellation would have to wait for them.
        assert [p.result("p", one) for one in turns] == [{"stopReason": "cancelled"}] * 2
        assert [one.method for one in p.agent.notifications] == ["session/cancel"]
        p.agent.reply(prompted(p, 0), {"stopReason": "end_turn"})
        assert (p.agent.prompts, ends) == (["x"], ["stopped"])
        turn = await p.start_prompt("c")
        p.agent.reply(prompted(p, 1), {"stopReason": "end_turn"})
        assert (p.agent.prompts, ends) == (["x", "x", "y", "c"], ["stopped", "done"])
        assert p.turn(turn).text == "y\n\nc"


# -- exchanges that clients may show apart ---------------------------------------------------------

TAG = "conductor.conversation/subconversation"


async def test_the_texts_of_a_nested_exchange_say_so() -> None:
    proxy = Proxy("asking")

    @proxy.request("session/prompt")
    async def prompt(request: Request, following: Any) -> Any:
        review = request.session.nested("Review")
        await review.prompt("first")
        review.say("aside")
        review.think("hm")
        return await following(request)

    async with Playground(proxy) as p:
        await p.prompt("second")
        held = [one.raw["params"]["update"] for one in p.heard]
        texts = [
            (one["content"]["text"].strip(), one.get("_meta", {}).get(TAG))
            for one in held
            if "content" in one
        ]
        tag = texts[0][1]
        assert tag["title"] == "Review"
        assert texts == [("first", tag), ("aside", tag), ("hm", tag), ("second", None)]


def test_an_exchange_has_a_title() -> None:
    with pytest.raises(TypeError, match="the title of an exchange is text, not 5"):
        Session.nested(None, 5)  # type: ignore[arg-type]


def _serving() -> tuple[Proxy[Any], list[Any]]:
    """A proxy that gives a session of its own a server, and the values of `call.session` there."""
    proxy, seen = Proxy("p"), []
    mine = Server("mine")

    @mine.tool(schema={"type": "object", "properties": {"x": {"type": "integer"}}})
    async def look(arguments: dict[str, Any], call: Call) -> str:
        """Looks."""
        seen.append(call.session.id)
        return json.dumps(arguments)

    @proxy.tool
    async def ask(call: Call) -> str:
        async with proxy.subsession(cwd="/", servers=[mine], session=call.session) as sub:
            return (await sub.prompt("go")).text

    return proxy, seen


async def test_a_subsession_has_servers_of_its_own() -> None:
    proxy, seen = _serving()

    def call(p: Playground, server: str) -> Any:
        params = {"name": "look", "arguments": {"x": 1, "y": "2"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}  # fmt: skip
        inner = {"serverId": server, "requestId": "r", "method": "tools/call", "params": params}
        return p.answer_to("s", p.agent.request("mcp/message", inner))

    async with Playground(proxy, answer=holding("go")) as p:
        session = await p.new_session()
        tools = await p.tools()
        assert [one["name"] for one in tools] == ["ask"]
        asked = await p.start_mcp("tools/call", {"name": "ask", "arguments": {}})
        opened = [one.raw["params"] for one in p.agent.requests if one.method == "session/new"]
        (entry,) = opened[1]["mcpServers"]
        assert (entry["type"], entry["name"]) == ("acp", "mine")
        answer = call(p, entry["serverId"])
        assert json.loads(answer["result"]["result"]["content"][0]["text"]) == {"x": 1, "y": "2"}
        assert seen == [session]
        p.agent.say("session-2", "gone")
        p.agent.reply(prompted(p, 0), {"stopReason": "end_turn"})
        assert "gone" in str(p.answer_to("s", asked))
        call(p, entry["serverId"])  # with the session the server has ended
        assert seen == [session]


async def test_a_subsession_that_does_not_open_leaves_no_server() -> None:
    proxy, _ = _serving()

    def answer(request: Record) -> Any:
        if request.method == "session/new" and isinstance(request.raw["id"], str):
            raise ProxyError("no more")
        return None

    async with Playground(proxy, answer=answer) as p:
        await p.new_session()
        with pytest.raises(ProxyError, match="no more"):
            await p.call("ask")


async def test_a_proxy_without_tools_has_no_servers_for_sessions_of_its_own() -> None:
    proxy = Proxy("p")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.subsession(cwd="/", servers=[Server("mine")]):
            return None

    async with Playground(proxy) as p:
        with pytest.raises(ProxyError, match="a proxy that serves no tool"):
            await p.request("_ask", {})


async def test_what_is_done_with_updates_of_a_subsession_ends_nothing() -> None:
    proxy, seen = Proxy("p"), []

    async def heard(update: Update) -> None:
        seen.append(update.text)
        raise ValueError("odd")

    @proxy.request("_ask")
    async def ask(_: Request) -> Any:
        async with proxy.subsession(cwd="/") as sub:
            return (await sub.prompt("x", on_update=heard)).text

    async with Playground(proxy) as p:
        assert await p.request("_ask", {}) == "x"
        assert seen == ["x"]
        assert "`on_update` failed" in p.services.log[0]


def test_a_tool_with_a_schema_takes_all_arguments_at_once() -> None:
    with pytest.raises(TypeError, match="with a `schema` it takes `arguments: dict` alone"):

        @Server("mine").tool(schema={"type": "object"})
        def look(x: int) -> str:
            return str(x)
