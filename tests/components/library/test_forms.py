"""The effects of components on the conversation, in every form that a component can take."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest

from tests.components.library.support import FORMS, V2, agent, folders, in_form
from tests.harness.process.rig import Chain, Rig


def history(*texts: str) -> str:
    """The answer of the demo agent to `/history` after these prompts."""
    turns = [{"prompt": [{"type": "text", "text": text}]} for text in texts]
    return json.dumps({"turns": turns, "dropped": 0}, separators=(",", ":"))


class Row(NamedTuple):
    """A component, and the user's text of each prompt; None: any text."""

    number: str
    component: str
    turns: list[tuple[str, str | None]]
    config: Mapping[str, Any] = MappingProxyType({})
    peers: str = ""
    """The names of its peer agents, with `+` between."""
    commands: str = ""
    """The right to the commands that it may send."""
    at_agent: list[str] | None = None
    """The prompts that the agent got, each by its first text."""
    later: str = ""
    """The end of all that the user reads, once turns that nobody asked for are over."""


CALL: Final = '/call subagents run {"tasks":["x","y"]}'
SECRET: Final = "AKIA" + "ABCDEFGHIJKLMNOP"
HIDDEN: Final = "[redacted: aws-key]"
TOLD: Final = (
    "<preferences>\nHow the user likes to work together:\n- call me Ada\n</preferences>\nhi"
)
CODE: Final = (
    "E0072: A type of endless size. It holds itself directly, so its size would have no end."
)
REPAIR: Final = "How to repair it: Put a pointer in between: `Box<T>`, `Rc<T>` or `Vec<T>`."
THIS: Final = (
    "TS2683: `this` without a type. A `function` has a `this` of its own, which depends on how it "
    "is called."
)
ARROW: Final = (
    "How to repair it: Use an arrow function, or declare it as the first parameter: "
    "`function f(this: Type)`."
)
NO_AGENTS: Final = "none: the user names them by the setting `agents`"
WHEN: Final = "say when: either `at`, or `minutes` from now"
CRITERION: Final = (
    "WCAG 1.4.3 Contrast (Minimum) (AA): text has a contrast of 4.5:1, large text of 3:1"
)
WALK: Final = '/call walkthrough show {"markdown":"# Add\\n*one*"}'
WALKED: Final = (
    "[walkthrough: Add]\n\nwalkthrough:\n\n> **Add**\n>\n> *one*\n\nthe user sees `Add` as text, "
    "since the editor has no panels"
)
RESEARCH: Final = '/call research begin_research {"question":"Is it?"}'
REPORT: Final = (
    "<research-complete/>\nYou began this research: Is it?\n\nThe report:\n\nR\n\nIs it?"
)
RULES: Final = [{"to": "a", "prefix": "a:"}]
TASK: Final = {"research_task": "R", "review_task": "V"}
ROWS: Final = (
    Row("26", "router", [("a: one", "one"), ("two", "two")], {"rules": RULES}, "a",
        at_agent=["two"]),
    Row("30", "coordinator", [("do", "[a] R\n\ndo\n\ndo\nWhat the agent `a` found:\nR\n\ndo")],
        {**TASK, "research": "a", "review": "none"}, "a"),
    Row("73", "personality", [("one", "one"), ("two", "two")], {"prompts": ["/symposium:hi"]},
        commands="command:symposium:hi", at_agent=["/symposium:hi", "one", "two"]),
    Row("74", "sparkle", [("one", "one"), ("two", "two")], {"show": "hidden", "prompt": "be"},
        at_agent=["be", "one", "two"]),
    Row("75", "research", [(RESEARCH, None)], {"task": "R"}, later=REPORT),
    Row("76", "tangent", [("p1", "p1"), ("/tangent", None), ("p2", None), ("/tangent", None),
        ("p3", "p3"), ("/history", history("p1", "p3", "/history"))]),
    Row("64-86", "subagents", [(CALL, "## Task 1\n\nx\n\n## Task 2\n\ny"),
        ("/history", history(CALL, "/history"))]),
    Row("77", "walkthrough", [(WALK, WALKED)]),
    Row("53-79", "ide", [("/tools", "editor: no tools")]),
    Row("80", "identity", [("/remember call me Ada", "[identity: remembered: 1. call me Ada]"),
        ("hi", TOLD), ('/call identity list {}', "1. call me Ada")],
        {"user": "Ada"}, commands="command:remember+command:forget"),
    Row("95", "reminders", [('/call reminders set {"text":"tea","minutes":60}', None),
        ('/call reminders set {"text":"x"}', f"tool error: {WHEN}"),
        ('/call reminders cancel {"number":1}', None), ("/call reminders list {}", "none")]),
    Row("97", "a2a", [("/call a2a agents {}", NO_AGENTS)]),
    Row("118", "rust-errors",
        [('/call rust-errors explain_code {"code":"E0072"}', f"{CODE}\n{REPAIR}")]),
    Row("118", "ts-errors",
        [('/call ts-errors explain_code {"code":"TS2683"}', f"{THIS}\n{ARROW}")]),
    Row("118", "a11y", [('/call a11y explain_rule {"rule":"1.4.3"}', CRITERION)]),
    Row("92", "redact", [(f"a {SECRET} b", f"a {HIDDEN} b")], at_agent=[f"a {HIDDEN} b"]),
    Row("91", "cache", [("one", "one"), ("one", "one"), ("two", "two")],
        at_agent=["one", "two"]),
)  # fmt: skip


def said(chain: Chain, session: str, text: str, version: int) -> str:
    """The text that the user reads in one turn."""
    before = len(chain.seen("session/update"))
    answer = chain.answer(chain.start_prompt(session, text))
    assert "result" in answer, answer

    def updates() -> list[Any]:
        return [one["params"]["update"] for one in chain.seen("session/update")[before:]]

    if version == 2:
        chain.until(lambda: any(one.get("state") == "idle" for one in updates()), "the end")
    chunks = [one for one in updates() if one["sessionUpdate"] == "agent_message_chunk"]
    return "".join(one["content"]["text"] for one in chunks)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.number}-{row.component}")
def test_a_row_in_every_form(rig: Rig, row: Row, form: str, version: int) -> None:
    options = ("-c", f"peer.{row.peers}=demo") if row.peers else ()
    words = [f"peer:{row.peers}"] * bool(row.peers) + [row.commands] * bool(row.commands)
    more = {"allow": "+".join(words)} if words else {}
    made = in_form(form, row.component, dict(row.config), **more)
    path = folders(row.component)
    chain = agent(rig, made, rig.demo("--acp"), options=options, PYTHONPATH=path)
    chain.initialize(**(V2 if version == 2 else {}))
    session = chain.new_session()
    for text, wanted in row.turns:
        heard = said(chain, session, text, version)
        assert wanted is None or heard.strip() == wanted
    if row.later:
        chain.until(lambda: "".join(chain.texts(session)).endswith(row.later), "what comes later")
    if row.at_agent is not None:
        prompts = [one.frame for one in rig.log("A", "in") if one.frame.get("method") == PROMPT]
        assert [one["params"]["prompt"][0]["text"] for one in prompts] == row.at_agent
    # Of the sessions of a component's own the client sees nothing.
    assert {one["params"]["sessionId"] for one in chain.seen("session/update")} == {session}
    assert chain.finish() == 0


PROMPT: Final = "session/prompt"
