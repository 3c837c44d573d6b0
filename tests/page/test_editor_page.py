"""The page of a chat as an editor, in a real browser, and the limits of panels."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.page import editing
from tests.page.listening import Listener
from tests.page.looks import look_at
from tests.page.talking import Talking
from tests.page.test_chat_page import ended, say
from tests.page.viewing import EVIL

pytest.importorskip("playwright")
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Page, Route

SOURCE: Final = (
    "// €uro 😀 first\n"
    "fn main() {\n"
    '    let name = "😀 world";\n'
    "    greet(name);\n"
    "}\n"
    "\n"
    "fn greet(name: &str) {\n"
    '    println!("Hello, {name}");\n'
    "}\n"
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chat."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "src").mkdir()
    (folder / "src" / "main.rs").write_text(SOURCE, encoding="utf-8")
    (folder / "data.json").write_text('{"a": }\n')
    return folder


@pytest.fixture(scope="module", autouse=True)
def talking(project: Path) -> Iterator[Talking]:
    """A chat with a component that prompts by itself, and an agent that shows panels."""
    file = Path(__file__).parents[1] / "e2e" / "actors" / "reminding_proxy.py"
    reminding = {"command": sys.executable, "args": [str(file)], "only": "trusted"}
    agent = f"{sys.executable} {editing.__file__}"
    chain = (json.dumps({**reminding, "name": "reminder"}), agent)
    with Talking("--cwd", str(project), "--fs", "read", *chain) as talking:
        yield talking


def does(page: Page, text: str) -> str:
    """The agent's report on a prompt."""
    say(page, text)
    ended(page)
    turn = page.locator("article.turn").last
    expect(turn).to_have_attribute("data-whole", re.compile("."))  # not the beginning alone
    said = turn.locator(".speech.agent .markdown")
    expect(said).to_be_visible()
    return said.inner_text()


def answer(page: Page, text: str) -> Any:
    """The same, read as JSON."""
    return json.loads(does(page, text))


def tab(page: Page, name: str) -> Any:
    """A tab beside the conversation."""
    return page.locator("#beside-tabs button", has_text=name)


def comment(page: Page, id_: str, text: str, **more: Any) -> Any:
    """The agent comments in the file."""
    given = {"id": id_, "url": "src/main.rs", "text": text, **more}
    return answer(page, f"comment {json.dumps(given)}")


@pytest.mark.proves("comments, labels and log lines")
def test_panels_comments_replies_and_what_nobody_asked_for(
    talking: Talking, page: Page, project: Path, pictures: Path | None
) -> None:
    talking.visit(page)
    html = project / "plan.html"
    html.write_text("<h1>Plan</h1><ol><li>Read <code>main.rs</code><li>Greet</ol>")
    assert answer(page, f"panel Plan {html}") == {"shown": "panel"}
    frame = page.frame_locator(".panel iframe")
    expect(frame.locator("h1")).to_have_text("Plan")
    expect(page.locator(".panel:visible .owner")).to_have_text("editing")
    expect(tab(page, "Plan")).to_have_attribute("aria-selected", "true")
    expect(page.locator("article.turn .happened").last).to_have_text("editing shows a panel: Plan")
    look_at(page, "editor-panel", pictures)
    html.write_text("<h1>Plan B</h1>")
    assert answer(page, f"panel Plan {html}") == {"shown": "panel"}
    expect(frame.locator("h1")).to_have_text("Plan B")
    expect(page.locator(".panel")).to_have_count(1)

    four: list[dict[str, Any]] = [
        {"start": {"line": 3, "column": 9}, "end": {"line": 3, "column": 13}, "can_reply": True},
        {"start": {"line": 3, "column": 16}, "can_reply": True},
        {"start": {"line": 7}, "end": {"line": 9}},
        {"start": {"line": 1}, "text": f"**Note 3** {EVIL}"},
    ]
    comments = [
        {"id": f"c{n}", "url": "src/main.rs", "text": f"**Note {n}** Why so?", **place}
        for n, place in enumerate(four)
    ]
    assert answer(page, f"comment {json.dumps(comments)}") == [{"shown": "comment"}] * 4
    expect(tab(page, "Files 4")).to_have_attribute("aria-selected", "false")  # it hides no panel
    tab(page, "Files 4").click()
    for n in range(4):
        expect(page.locator(f".comment[data-id=c{n}] strong")).to_have_text(f"Note {n}")
    marked = page.locator("mark.commented").all_inner_texts()
    exact = ["// €uro 😀 first", "name", '"😀 world";', *SOURCE.splitlines()[6:]]
    assert marked == exact
    expect(page.locator(".comment[data-id=c3]")).to_contain_text("<img src=x onerror")
    assert page.locator(".comment img, .comment script, .comment a").count() == 0
    assert page.locator(".comment textarea").count() == 2

    replies = page.locator(".comment[data-id=c0]")
    replies.locator("textarea").fill("agent, look")
    replies.locator("textarea").press("Enter")  # its owner takes it
    expect(replies.locator(".reply .markdown")).to_have_text("agent, look")
    unasked = page.locator("article.turn").last
    expect(unasked).to_contain_text("reply: agent, look")
    expect(unasked.locator(".by")).to_have_text("unprompted, by agent")
    replies.locator("textarea").fill("what **else**?")
    replies.locator("button", has_text="Reply").click()  # nobody does: it is the next prompt
    turn = page.locator("article.turn").last
    expect(turn.locator(".speech.you")).to_contain_text("what else?")
    expect(turn.locator(".speech.you")).to_contain_text("src/main.rs:3")
    expect(turn.locator(".speech.agent")).to_contain_text(
        "you said: My reply to the comment at src/main.rs:3"
    )
    ended(page)
    expect(replies.locator(".reply strong")).to_have_text("else")
    look_at(page, "editor-comments", pictures)
    page.set_viewport_size({"width": 800, "height": 800})
    given = {"id": "far", "url": "gone.rs", "start": {"line": 2}, "text": "No such file"}
    further = {**given, "id": "further", "start": {"line": 2**60}}
    told = answer(page, f"comment {json.dumps([further, given])}")
    assert told == [f"start: a line or column of at most {2**53 - 1}", {"shown": "comment"}]
    beside = page.locator("#tab-turn")
    expect(beside).to_have_attribute("data-news", "true")
    beside.click()
    expect(page.locator("#files .unread")).to_have_text("there is no file `gone.rs`.")
    expect(page.locator(".comment[data-id=far]")).to_contain_text("No such file")
    page.locator(".comment[data-id=far] button", has_text="Resolve").click()
    expect(page.locator("#files .comment")).to_have_count(4)
    if pictures is not None:
        page.screenshot(path=f"{pictures}/editor-narrow.png")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.reload()
    expect(page.locator("#files .comment")).to_have_count(4)
    tab(page, "Files").click()
    expect(replies.locator(".reply")).to_have_count(2)
    replies.locator("button", has_text="Resolve").click()
    expect(page.locator("#files .comment")).to_have_count(3)
    tab(page, "Plan").click()
    page.locator(".panel:visible button", has_text="Close").click()
    expect(tab(page, "Plan")).to_have_count(0)
    expect(page.locator("article.turn").last).to_contain_text("Plan: close null")

    page.locator("#prompt").fill("remind")
    page.locator("#prompt").press("Enter")
    mine = page.locator("article.turn", has=page.locator(".by", has_text="by reminder"))
    expect(mine.locator(".speech.own .markdown")).to_have_text(["one", "two"])
    expect(mine.locator(".speech.agent .markdown")).to_have_text(["you said: one", "you said: two"])
    ended(page)
    look_at(page, "editor-unprompted", pictures, dark=True)


def test_what_is_written_while_a_reply_is_on_its_way_stays(talking: Talking, page: Page) -> None:
    talking.visit(page)
    given = {"id": "d", "url": "src/main.rs", "start": {"line": 4}, "text": "?", "can_reply": True}
    assert answer(page, f"comment {json.dumps([given])}") == [{"shown": "comment"}]
    tab(page, "Files").click()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**/api/chat/reply", lambda route: late.append((route, route.fetch())))
    replies = page.locator(".comment[data-id=d]")
    replies.locator("textarea").fill("agent, one")
    replies.locator("textarea").press("Enter")
    expect(replies.locator(".reply")).to_have_count(1)  # the news have come before the answer
    replies.locator("textarea").fill("two")
    while not late:
        page.wait_for_timeout(10)
    [(route, response)] = late
    with page.expect_event("requestfinished", lambda asked: "/api/chat/reply" in asked.url):
        route.fulfill(response=response)
    page.unroute("**/api/chat/reply")
    talking.do("reply", session="one", id="d", text="agent, three")
    expect(replies.locator(".reply")).to_have_count(2)  # it is drawn anew
    expect(replies.locator("textarea")).to_have_value("two")
    replies.locator("button", has_text="Resolve").click()
    expect(replies).to_have_count(0)


def test_what_components_ask_of_the_editor(talking: Talking, page: Page, project: Path) -> None:
    talking.visit(page)
    names = [each["name"] for each in answer(page, "operation")["operations"]]
    assert names[:2] == ["get-selection", "open-file"]
    assert len(names) == 5
    assert answer(page, "operation get-selection") == {"text": ""}
    place = {"url": "src/main.rs", "start": {"line": 4, "column": 5}, "end": {"line": 4}}
    assert answer(page, f"operation open-file {json.dumps(place)}") == {}
    expect(page.locator("mark.opened")).to_have_text("greet(name);")
    page.locator(".row[data-line='1'] [data-from]").first.evaluate(
        "one => getSelection().setBaseAndExtent(one.firstChild, 10, one.firstChild, 3)"
    )
    page.locator("#prompt").focus()
    selected = answer(page, "operation get-selection")
    url = (project / "src" / "main.rs").as_uri()
    assert [selected[name] for name in ("url", "path", "text")] == [url, "src/main.rs", "€uro 😀"]
    assert selected["start"] == {"line": 1, "column": 4}
    assert selected["end"] == {"line": 1, "column": 10}
    where = {"url": url, "start": {"line": 4, "column": 7}}
    found = answer(page, f"operation find-all-references {json.dumps(where)}")
    assert [each["start"] for each in found["references"]] == [
        {"line": 4, "column": 5},
        {"line": 7, "column": 4},
    ]
    found = answer(page, 'operation find-definitions {"symbol": "greet"}')
    assert [each["text"] for each in found["definitions"]] == ["fn greet(name: &str) {"]
    (project / "data.json").write_text('{"a": }\n')
    found = answer(page, "operation get-diagnostics")
    assert found["diagnostics"][0]["message"] == "JSON: Expecting value"
    assert found["diagnostics"][0]["start"] == {"line": 1, "column": 7}
    assert "no operation" in does(page, "operation rename")
    assert "outside" in does(page, 'operation open-file {"url": "/etc/passwd"}')
    assert does(page, f"log {EVIL[:30]}") == "logged"
    tab(page, "Log").click()
    levels = page.locator(".log-line .level")
    expect(levels).to_have_text(["error", "warn", "info", "debug"])
    expect(page.locator(".log-line .said").first).to_contain_text('{"n":1}')
    assert page.locator("#log img").count() == 0


STATIC: Final = """
<h1>static</h1><img src="URL/img" srcset="URL/set 2x"><svg><image href="URL/svg"/></svg>
<style>@import url(URL/import); @font-face {font-family: f; src: url(URL/font)}
body {background: url(URL/background); font-family: f} h1::after {content: url(URL/after)}</style>
<meta http-equiv="refresh" content="0; url=URL/refresh"><LINK rel="preconnect" href="URL/connect">
<link rel=stylesheet href="URL/style"><link rel=prefetch href="URL/prefetch"><base href="URL/base/">
<iframe src="URL/frame"></iframe><iframe srcdoc="<img src=URL/srcdoc>"></iframe>
<object data="URL/object"></object><embed src="URL/embed"><video src="URL/v" poster="URL/p"></video>
<script src="URL/script"></script>
<script>top.bitten = parent.bitten = 1; fetch("URL/fetch")</script>
<img src=x onerror="parent.bitten = 1; location = 'URL/onerror'">
<a id="own" target="_self" href="URL/own">own</a> <a id="top" target="_top" href="URL/top">top</a>
<a/id="new"/target="_blank"/href="URL/new">new</a> <a id="ping" href="#h" ping="URL/ping">ping</a>
<svg width=40 height=20><a id="vector" href="URL/vector"><text y=15>vector</text></a></svg>
<form action="URL/form" target="_top"><input name=q value=1><button id="form">form</button></form>
<form><button id="action" formaction="URL/action">action</button></form>
"""
WIDGET: Final = """
<h1>widget</h1><iframe srcdoc="<script>parent.inside = 1</script>"></iframe>
<button id="do">do</button><button id="away">away</button><p id="got"></p><script>
const tries = [
  () => open("URL/open"), () => { top.location = "URL/top"; }, () => fetch("URL/fetch"),
  () => { new Image().src = "URL/img"; }, () => navigator.sendBeacon("URL/beacon"),
  () => new WebSocket("URL/".replace("http", "ws")), () => new EventSource("URL/events"),
  () => new Worker(URL.createObjectURL(new Blob(["fetch('URL/worker')"]))),
  () => { parent.document.title = "bitten"; }, () => { parent.bitten = 1; },
];
function attempt() {
  for (const each of tries) try { each()?.catch?.(() => {}); } catch { }
}
document.getElementById("do").onclick = async () => {
  attempt();
  const within = text => Object.assign(document.createElement("iframe"), {srcdoc: text});
  const texts = [text => { got.innerHTML = text; }, text => document.write(text), within,
    text => new DOMParser().parseFromString(text, "text/html")];
  const refused = texts.filter(each => { try { each("<b>"); } catch { return true; } }).length;
  const nested = `${frames.length} ${refused} ${typeof XSLTProcessor}`;
  const own = await fetch("/api/chat/news").then(() => "read", () => "refused");
  parent.postMessage({name: "clicked", data: {own, nested, rtc: typeof RTCPeerConnection}}, "*");
  parent.postMessage({name: "large", data: "x".repeat(50000)}, "*");
};
document.getElementById("away").onclick = () => { location = "URL/location"; };
const got = document.getElementById("got");
addEventListener("message", ({data}) => got.append(JSON.stringify(data)));
</script>
"""
ABOVE: Final = """
<p id="sent"></p><script>
for (let n = 0; n < parent.length; n++) parent.frames[n].postMessage({name: "forged"}, "*");
sent.textContent = parent.length;
</script>
"""


@pytest.mark.proves("a panel sends and loads nothing", "a widget takes no keys that are")
def test_a_panel_reaches_nothing(talking: Talking, page: Page, project: Path) -> None:
    listener = Listener()
    talking.visit(page)
    address = page.url
    html = project / "static.html"
    html.write_text(STATIC.replace("URL", listener.url))
    assert answer(page, f"panel Static {html}") == {"shown": "panel"}
    frame = page.frame_locator(".panel:not([hidden]) iframe")
    expect(frame.locator("h1")).to_have_text("static")
    for name in ("own", "top", "new", "ping", "vector", "form", "action"):
        frame.locator(f"#{name}").click()
    expect(frame.locator("h1")).to_have_text("static")
    secret = page.locator(".panel:not([hidden]) iframe").get_attribute("src")
    assert secret is not None

    html.write_text(WIDGET.replace("URL/", f"{listener.url}/"))
    assert answer(page, f"panel Widget {html} scripts") == {"shown": "panel"}
    expect(frame.locator("h1")).to_have_text("widget")
    assert (listener.connections, listener.requests) == (0, [])
    frame.locator("#do").click()
    clicked = 'Widget: clicked {"own": "refused", "nested": "0 4 undefined", "rtc": "undefined"}'
    expect(page.locator("article.turn").last).to_contain_text(clicked)
    expect(frame.locator("#got")).to_contain_text('{"name":"clicked","result":{}}')
    expect(frame.locator("#got")).to_contain_text('"error":"an event has at most 48 KiB"')
    html.write_text(ABOVE)
    assert answer(page, f"panel Above {html} scripts") == {"shown": "panel"}
    expect(frame.locator("#sent")).to_have_text("3")
    tab(page, "Widget").click()
    expect(frame.locator("#got")).not_to_contain_text("forged")  # of another panel's frame
    frame.locator("#away").click()
    # The browser says that it is blocked, on a page of its own, which cannot always be read.
    expect(frame.locator("h1", has_text="widget")).to_have_count(0)
    assert listener.requests == []
    assert (page.url, page.title(), len(page.context.pages)) == (address, "conductor chat", 1)
    assert page.evaluate("window.bitten") is None

    large = project / "large.html"
    large.write_text("<h1>large</h1>" + "x" * (1024 * 1024 - 40))
    assert answer(page, f"panel Large {large}") == {"shown": "panel"}
    expect(frame.locator("h1")).to_have_text("large")
    large.write_text("x" * (1024 * 1024 + 1))
    assert "at most 1048576 bytes; this of editing" in does(page, f"panel Larger {large}")
    html.write_text("<p>other")
    assert talking.ask(secret, Authorization="")[0] == 200
    does(page, f"panel Static {html}")
    assert talking.ask(secret, Authorization="")[0] == 404
    listener.close()


TAKES: Final = """
<h1>takes</h1><input id="field"><button id="do">do</button><script>
parent.postMessage("", "*", [new MessageChannel().port2]);
const take = () => setInterval(() => { field.focus(); window.focus(); }, 10);
document.getElementById("do").onclick = () => setTimeout(take, 1000);
</script>
"""


@pytest.mark.proves("a widget takes no keys that are")
def test_a_widget_takes_no_keys_that_are_for_the_page(
    talking: Talking, page: Page, project: Path
) -> None:
    talking.visit(page)
    html = project / "takes.html"
    html.write_text(TAKES)
    assert answer(page, f"panel Takes {html} scripts") == {"shown": "panel"}
    frame = page.frame_locator(".panel:not([hidden]) iframe")
    frame.locator("#field").click()
    page.wait_for_timeout(800)  # longer than a doubt lasts
    page.keyboard.type("given")
    expect(frame.locator("#field")).to_have_value("given")
    frame.locator("#do").click()
    field = page.locator("#prompt")
    field.click()
    expect(page.locator(".panel:not([hidden])")).to_contain_text("and was stopped")
    expect(field).to_be_focused()
    page.keyboard.type("secret")
    expect(field).to_have_value("secret")
    page.locator("button", has_text="Start it again").click()
    expect(frame.locator("h1")).to_have_text("takes")
