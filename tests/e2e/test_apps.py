"""Pages of tools (MCP Apps) through the real command line, in both versions: what an editor gets
that shows panels, and what the user reads in one without panels."""

import json
from typing import Final

import pytest

from tests.e2e.test_editor import SHOW, degraded, done, run
from tests.harness.process.client import Client, Json
from tests.harness.process.rig import Chain, Rig
from tests.places import ROOT

pytestmark = pytest.mark.usefixtures("python_guest")

EXAMPLE: Final = ROOT / "guest_sdk" / "python" / "examples" / "dice.py"
DICE: Final = f"{EXAMPLE},allow=serve:tools+show:panel+web:panel+random"
PANELS: Final = {"html_panel": True}
WORDS: Final = "This tool has a page, and this editor shows no pages. The answer of the tool says "


def roll(chain: Chain, session: str, count: int) -> list[int]:
    """The agent rolls so many dice; returns the numbers that it says."""
    before = len(chain.texts(session))
    chain.answer(chain.start_prompt(session, f'/tool roll {{"count": {count}}}'))

    def told() -> list[str]:
        return [one for one in chain.texts(session)[before:] if one.startswith('{"dice"')]

    chain.until(told, "the dice")  # the answer to a prompt of version 2 comes before them
    dice: list[int] = json.loads(told()[0])["dice"]
    assert len(dice) == count
    return dice


def page_says(
    client: Client, panel: Json, method: str, params: Json, id_: int | None
) -> list[Json]:
    """A message of the page in a panel; the messages that the page gets for it."""
    head = {} if id_ is None else {"id": id_}
    said = {"jsonrpc": "2.0", **head, "method": method, "params": params}
    about = {"sessionId": panel["sessionId"], "id": panel["id"], "name": "mcp", "data": said}
    answer = client.request("_scp/html_panel/event", about)
    messages: list[Json] = answer["result"]["messages"]
    return messages


def page_rolls(client: Client, panel: Json, count: int) -> tuple[Json, list[int]]:
    """The page in a panel begins, and rolls so many dice by its button; the result that it began
    with, and the dice."""
    page_says(client, panel, "ui/initialize", {}, 1)
    given, result = page_says(client, panel, "ui/notifications/initialized", {}, None)
    assert (given["method"], result["method"]) == (
        "ui/notifications/tool-input",
        "ui/notifications/tool-result",
    )
    call = {"name": "roll", "arguments": {"count": count}}
    (again,) = page_says(client, panel, "tools/call", call, 2)
    began: Json = result["params"]
    dice: list[int] = again["result"]["structuredContent"]["dice"]
    return began, dice


@pytest.mark.parametrize("version", [1, 2])
def test_in_an_editor_without_panels_the_user_reads_words_once(rig: Rig, version: int) -> None:
    chain = run(rig, DICE, rig.demo(), version=version)
    session = chain.new_session()
    for count in (2, 3):
        roll(chain, session, count)
    (update,) = degraded(chain)
    assert update["sessionUpdate"] == "agent_message_chunk"
    text = update["content"]["text"]
    assert text.startswith(f"A/dice:\n\n> **Roll dice**\n>\n> {WORDS}")
    first = next(one for one in chain.texts(session) if one.startswith('{"dice"'))
    assert chain.texts(session).index(text) < chain.texts(session).index(first)
    assert not any("_scp/" in one.get("method", "") for one in chain.frames)
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [2, 1])  # CI runs the first of each test
def test_an_editor_with_panels_gets_the_page_and_serves_it(rig: Rig, version: int) -> None:
    chain = run(rig, DICE, rig.demo(), shows=PANELS, version=version)
    chain.serves[SHOW] = done
    session = chain.new_session()
    dice = roll(chain, session, 3)
    panel = chain.expect(SHOW)["params"]
    assert panel["contents"].startswith("<!doctype html>\n<title>Dice</title>")
    assert (panel["sessionId"], panel["label"], panel["scripts"]) == (session, "Roll dice", True)
    began, rolled = page_rolls(chain, panel, 5)
    assert (began["structuredContent"], len(rolled)) == ({"dice": dice}, 5)
    assert degraded(chain) == []
    assert not any(b"_scp/" in one.raw or b"ui://" in one.raw for one in rig.log("A"))
    assert chain.finish() == 0
