"""Logging and observability: `logging`."""

import json
import sys
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import agent, component, play
from tests.harness.process.rig import Rig
from tests.places import COMPONENTS


def lines(p: Playground) -> list[dict[str, Any]]:
    """The lines that the component logged."""
    said = [json.loads(one[3:])["params"] for one in p.lines if one.startswith("< c")]
    return [{"what": one["message"], **one["data"]} for one in said]


async def test_each_message_once_and_in_order() -> None:
    async with play("logging", grants=[], client=lambda _: {"content": "x"}) as p:
        await p.initialize()
        session = await p.new_session()
        await p.prompt("hi")
        read = {"sessionId": session, "path": "/a"}
        p.result("s", p.agent.request("fs/read_text_file", read))
        p.notify("session/cancel", {"sessionId": session})
        with pytest.raises(ProxyError, match="Method not found"):
            await p.request("_odd", [1])
        found = lines(p)
        assert [one["n"] for one in found] == list(range(1, len(found) + 1))
        assert [(one["what"], one["way"], one["method"]) for one in found] == [
            ("request", "down", "initialize"),
            ("result", "up", "initialize"),
            ("request", "down", "session/new"),
            ("result", "up", "session/new"),
            ("request", "down", "session/prompt"),
            ("notification", "up", "session/update"),
            ("result", "up", "session/prompt"),
            ("request", "up", "fs/read_text_file"),
            ("result", "down", "fs/read_text_file"),
            ("notification", "down", "session/cancel"),
            ("request", "down", "_odd"),
            ("error", "up", "_odd"),
        ]
        assert found[7]["params"] == read
        assert found[7]["id"] == found[8]["id"]
        assert found[4]["session"] == session


async def test_large_payloads_and_chosen_methods() -> None:
    config = {"methods": ["session/p*"], "most": 200, "level": "warn"}
    async with play("logging", config=config) as p:
        await p.prompt('ü"' * 1000)
        sent, ended = lines(p)
        assert sent["params"]["bytes"] > 3000
        assert len(json.dumps(sent["params"], ensure_ascii=False).encode()) < 250
        assert ended["result"] == {"stopReason": "end_turn"}
        assert p.services.log[0].startswith("warn: ")
    async with play("logging") as p:
        p.feed('p{"jsonrpc":"2.0","method":"_odd","params":{"n":1e400}}')
        assert lines(p)[-1]["params"] == {"bytes": 14, "beginning": '{"n":Infinity}'}
        assert p.agent.notifications[-1].method == "_odd"
    async with play("logging", config={"payload": False}) as p:
        await p.prompt("secret")
        assert not any("secret" in json.dumps(one) for one in lines(p))


async def test_that_a_request_was_cancelled_is_told() -> None:
    async with play("logging") as p:
        await p.new_session()
        p.agent.answer = lambda _: p.agent.HOLD
        started = await p.start_prompt("x")
        p.cancel(started)
        p.agent.reply(p.agent.requests[-1], {"stopReason": "cancelled"})
        assert lines(p)[-1]["cancelled"] is True


def test_behind_a_real_agent(rig: Rig) -> None:
    def converse(*components: str) -> tuple[list[Any], str]:
        chain = agent(rig, *components, rig.demo(), options=("--log", "info"))
        session = chain.begin()
        assert chain.prompt(session, "one two three") == "one two three"
        assert chain.prompt(session, "/updates 3") == "update 0\nupdate 1\nupdate 2\n"
        heard = chain.frames
        assert chain.finish() == 0
        return heard, chain.stderr

    logged, stderr = converse(component("logging", {"methods": ["session/*"]}))
    assert logged == converse("passthrough")[0]
    found = [json.loads("{" + line.partition(" {")[2]) for line in stderr.splitlines()
             if line.startswith("info: logging: ")]  # fmt: skip
    assert [one["n"] for one in found] == list(range(1, len(found) + 1))
    told = [one["params"] for one in found if one["method"] == "session/update"]
    assert told == [frame["params"] for frame in logged if frame.get("method") == "session/update"]
    # Nobody waits for it: it has an answer once it has passed its copy of the request on.
    rest = [one for one in found if one["method"] != "session/update"]
    asked, answered = ([one for one in rest if one["way"] == way] for way in ("down", "up"))
    assert [one["method"] for one in asked] == ["session/new", *["session/prompt"] * 2]
    assert [(one["method"], one["id"]) for one in answered] == [
        (one["method"], one["id"]) for one in asked
    ]
    assert all(one["n"] > other["n"] for one, other in zip(answered, asked, strict=True))


@pytest.mark.parametrize("isolation", ["process", "inline", "program"])
def test_every_message_has_its_line_however_it_runs_and_none_unasked(
    rig: Rig, isolation: str
) -> None:
    proxy = component("logging", {"methods": ["session/update"]})
    if isolation == "program":
        program = str(COMPONENTS / "logging" / "message_log.py")
        proxy = json.dumps({"command": sys.executable, "args": [program], "name": "logging"})
    where = () if isolation == "program" else ("-c", f"isolation={isolation}")
    for level, expected in (("info", 40), ("warning", 0)):
        chain = agent(rig, proxy, rig.demo(), options=(*where, "--log", level))
        chain.prompt(chain.begin(), "/updates 40")
        assert chain.finish() == 0
        assert chain.stderr.count("info: logging: notification ") == expected
