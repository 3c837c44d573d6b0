"""The user's editor as proxies see it: panels, comments, operations, log lines."""

from typing import Any, Final

import pytest

from guest_sdk.python import (
    Answered,
    Capabilities,
    CommentReply,
    Editor,
    EditorEvent,
    NoOperation,
    Operation,
    Playground,
    Proxy,
    ProxyError,
    Request,
    Thread,
    played,
)
from guest_sdk.python.engine import Engine
from tests.guest_sdk.python.test_engine import request, result, started

ALL: Final = ("panel", "comment", "operation", "log")
LEVELS: Final = ("error", "warn", "info", "debug")
URL: Final = "file:///project/a.py"


def proxy_of(work: Any) -> Proxy[Any]:
    """A proxy that does this work with the editor of the prompt's session, and says the result."""
    proxy = Proxy("it")

    @proxy.request("session/prompt")
    async def handler(request: Request) -> Any:
        request.session.say(repr(await work(request.session.editor)))
        return {"stopReason": "end_turn"}

    return proxy


async def came(p: Playground, said: str = "go") -> Any:
    """The answer to a prompt."""
    return (await p.prompt(said)).text


async def test_a_panel_is_shown_changed_read_and_cleared() -> None:
    async def work(editor: Editor) -> Any:
        panel = editor.panel("plan")
        assert panel is editor.panel("plan")
        before = await panel.get()
        shown = await panel.show(label="Plan", contents="<b>1</b>")
        again = await panel.show(contents="<b>2</b>", scripts=True)
        return before, shown, again, await panel.get()

    async with Playground(proxy_of(work), editor=ALL) as p:
        assert await came(p) == "(None, True, True, '<b>2</b>')"
        assert p.editor.panels["plan"]["label"] == "Plan"
        assert p.editor.panels["plan"]["scripts"] is True
        named = {"sessionId": p.session, "id": "plan"}
        asked = [one.params.raw for one in p.heard if one.get("method") == "_scp/html_panel/show"]
        assert asked == [
            {**named, "label": "Plan", "contents": "<b>1</b>"},
            {**named, "contents": "<b>2</b>", "scripts": True},
        ]


@pytest.mark.parametrize("can", [(), ALL])
async def test_show_says_whether_the_editor_shows_it(can: tuple[str, ...]) -> None:
    async def work(editor: Editor) -> Any:
        panel = await editor.panel("x").show(label="X", contents="x")
        comment = await editor.comment("x").show(url=URL, start=3, text="Why?")
        return panel, comment, editor.capabilities.panel, editor.capabilities.comment

    async with Playground(proxy_of(work), editor=can) as p:
        assert await came(p) == repr((bool(can),) * 4)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("place", ["clientCapabilities", "capabilities", "top"])
def test_what_the_editor_can_is_taken_from_initialize(version: int, place: str) -> None:
    seen: list[Capabilities] = []

    async def work(editor: Editor) -> Any:
        seen.append(editor.capabilities)

    said = {"_meta": {"symposium": {"html_panel": True, "log": True, "ide_operation": "yes"}}}
    params: dict[str, Any] = said if place == "top" else {place: said}

    @played
    async def play() -> None:
        async with Playground(proxy_of(work)) as p:
            await came(p)
            await p.request("initialize", {"protocolVersion": version, **params})
            await came(p)

    play()
    assert seen == [Capabilities(), Capabilities(panel=True, log=True)]


async def test_events_reach_the_handlers_of_their_panel() -> None:
    heard: list[Any] = []

    async def work(editor: Editor) -> None:
        panel = editor.panel("plan")

        @panel.on("click", "key")
        async def clicked(event: EditorEvent) -> Any:
            heard.append((event.name, event.data, event.session.id))
            return {"n": len(heard)}

        @panel.on()
        def other(event: EditorEvent) -> None:
            heard.append(event.name)

        @panel.on("fails")
        def fails(event: EditorEvent) -> None:
            raise ProxyError("not this one", -32000)

        await panel.show(label="Plan", contents="x")
        await editor.panel("mute").show(label="Mute", contents="x")

    async with Playground(proxy_of(work), editor=ALL) as p:
        await came(p)
        await came(p)  # declared once more, and still called once
        assert await p.editor.event("plan", "click", {"a": [1]}) == {"n": 1}
        assert await p.editor.event("plan", "key") == {"n": 2}
        assert await p.editor.event("plan", "anything") == {}
        with pytest.raises(ProxyError, match="not this one"):
            await p.editor.event("plan", "fails")
        assert await p.editor.event("mute", "click") == {}
        assert await p.editor.event("plan", "close") == {}
        assert heard == [
            ("click", {"a": [1]}, p.session),
            ("key", None, p.session),
            "anything",
            "close",
        ]
        unknown = {"sessionId": p.session, "id": "other", "name": "click"}
        for params in (unknown, {**unknown, "sessionId": "nobody's"}, {}):
            with pytest.raises(ProxyError) as refused:
                await p.request("_scp/html_panel/event", params)
            assert refused.value.code == -32601
        assert not p.agent.notifications
        assert "_scp/html_panel/event" not in {one.method for one in p.agent.requests}


async def test_a_handler_that_holds_the_prompt_may_wait_for_a_click() -> None:
    proxy = Proxy("asks")
    clicks: list[Any] = []

    @proxy.request("session/prompt")
    async def handler(request: Request, following: Any) -> Any:
        panel = request.session.editor.panel("sure")

        @panel.on("answer")
        def answered(event: EditorEvent) -> None:
            clicks.append(event.data)

        await panel.show(label="Sure?", contents="x")
        while not clicks:
            await proxy.timer.sleep(1)
        request.preface(clicks.pop())
        return await following(request)

    async with Playground(proxy, editor=ALL) as p:
        started = await p.start_prompt("do it")
        await p.editor.event("sure", "answer", "yes")
        p.services.advance(1)
        assert p.turn(started).text == "yes\ndo it"


async def test_comments_their_threads_and_replies() -> None:
    taken: list[str] = []

    async def work(editor: Editor) -> Any:
        comment = editor.comment("why")

        @comment.on_reply
        async def replied(text: str) -> bool | None:
            taken.append(text)
            await comment.reply("Noted.")
            return text != "no"

        @comment.on("close")
        def closed(event: EditorEvent) -> None:
            taken.append(event.name)

        held = await comment.get()
        if held is None:
            return await comment.show(url=URL, start=(3, 2), end=5, text="Why?", can_reply=True)
        return held

    async with Playground(proxy_of(work), editor=ALL) as p:
        assert await came(p) == "True"
        assert p.editor.comments["why"]["start"] == {"line": 3, "column": 2}
        assert p.editor.comments["why"]["end"] == {"line": 5}
        assert await p.editor.reply("why", "Because.") is True
        assert await p.editor.reply("why", "no") is False
        replies = [("user", "Because."), ("owner", "Noted."), ("user", "no"), ("owner", "Noted.")]
        thread = Thread(URL, (3, 2), 5, "Why?", True, [CommentReply(*one) for one in replies])  # type: ignore[arg-type]
        assert await came(p) == repr(thread)
        await p.editor.event("why", "close")
        assert taken == ["Because.", "no", "close"]


async def test_a_comment_without_a_handler_takes_no_reply() -> None:
    async def work(editor: Editor) -> Any:
        await editor.comment("why").show(url=URL, start=3, text="Why?", can_reply=True)
        await editor.panel("p").show(label="P", contents="p")
        await editor.panel("p").clear()
        return await editor.comment("why").get()

    async with Playground(proxy_of(work), editor=ALL) as p:
        assert await came(p) == repr(Thread(URL, 3, None, "Why?", True, []))
        assert await p.editor.reply("why", "Because.") is False
        assert p.editor.panels == {}


@pytest.mark.parametrize(
    ("place", "error"), [(0, ValueError), ((1, 0), ValueError), ("3", TypeError), ((), TypeError)]
)
async def test_places_that_are_none(place: Any, error: type[Exception]) -> None:
    async def work(editor: Editor) -> Any:
        with pytest.raises(error):
            await editor.comment("c").show(url=URL, start=place, text="?")
        return "raised"

    async with Playground(proxy_of(work)) as p:
        assert await came(p) == "'raised'"
        assert p.editor.comments == {}


async def test_operations() -> None:
    async def work(editor: Editor) -> Any:
        names = [one.name for one in await editor.operations()]
        found = await editor.operation("find", name="x", deep=True)
        with pytest.raises(NoOperation):
            await editor.operation("fly")
        with pytest.raises(Answered) as refused:
            await editor.operation("fails")
        return names, found, await editor.describe("find"), refused.value.code

    def fails() -> None:
        raise ProxyError("it is read-only", -32000)

    async with Playground(proxy_of(work), editor=ALL) as p:
        p.editor.operations["find"] = lambda name, deep: [name, deep]
        p.editor.operations["fails"] = fails
        assert await came(p) == repr((["find", "fails"], ["x", True], Operation("find"), -32000))


@pytest.mark.parametrize("answer", [None, [], {"operations": 3}, {"operations": [3, {}]}])
async def test_an_editor_that_lists_nonsense_lists_nothing(answer: Any) -> None:
    async def work(editor: Editor) -> Any:
        return await editor.operations(), await editor.describe("x")

    async with Playground(proxy_of(work), editor=ALL) as p:
        p.editor.asked = lambda *_: answer  # type: ignore[method-assign]
        assert await came(p) == repr(([], Operation("x")))


async def test_an_editor_without_operations_is_not_asked() -> None:
    proxy = Proxy("ide")

    @proxy.tool(when=lambda one: one is not None and one.editor.capabilities.operation)
    async def selection() -> Any:
        """What the user has selected."""

    @proxy.request("session/prompt")
    async def handler(request: Request) -> Any:
        editor = request.session.editor
        assert await editor.operations() == []
        with pytest.raises(NoOperation, match="the editor has no operations"):
            await editor.operation("get-selection")
        with pytest.raises(NoOperation):
            await editor.describe("get-selection")
        return {"stopReason": "end_turn"}

    async with Playground(proxy, editor=["panel"]) as p:
        await p.prompt("go")
        assert not [one for one in p.heard if "_scp" in str(one.get("method"))]
        assert await p.tools() == []
    async with Playground(proxy, editor=["operation"]) as p:
        assert [one["name"] for one in await p.tools()] == ["selection"]


async def test_log_lines() -> None:
    async def work(editor: Editor) -> Any:
        for level in LEVELS:
            editor.log(level, level.upper(), {"level": level})
        editor.log("info", "nothing more")
        with pytest.raises(ValueError, match="levels are: error, warn, info, debug"):
            editor.log("loud", "x")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            editor.log("info", 3)  # type: ignore[arg-type]

    async with Playground(proxy_of(work), editor=ALL) as p:
        await came(p)
        seen = [(one["level"], one["message"], one.get("data")) for one in p.editor.logged]
        assert seen == [
            *((level, level.upper(), {"level": level}) for level in LEVELS),
            ("info", "nothing more", None),
        ]
        assert {one["sessionId"] for one in p.editor.logged} == {p.session}


async def test_what_is_refused_is_raised() -> None:
    async def work(editor: Editor) -> Any:
        with pytest.raises(Answered) as refused:
            await editor.panel("new").show(contents="x")
        return refused.value.code

    async with Playground(proxy_of(work), editor=ALL) as p:
        assert await came(p) == "-32602"
    with pytest.raises(ValueError, match="an editor can: panel, comment, operation, log"):
        Playground(Proxy("x"), editor=["fly"])


def test_what_others_send_up_passes_in_order() -> None:
    """A reply of another component's to its own comment is no reply of the user's."""
    proxy = Proxy("slow")

    @proxy.update("agent_message_chunk")
    async def wait(update: Any) -> None:
        await proxy.clock.now()

    engine: Engine = started(proxy)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    update = request("s", 0, "session/update", sessionId="a", update=chunk).replace('"id":0,', "")
    assert [one[0] for one in engine.receive([update])] == ["c"]
    sent = request("s", 1, "_scp/file_comment/reply", sessionId="a", id="c", text="mine")
    assert engine.receive([sent]) == []
    assert engine.receive([result("c", 1, iso="2025-10-08T12:34:56+00:00", unixMs=0)]) == [
        "p" + update[1:],
        "p" + sent[1:],
    ]
