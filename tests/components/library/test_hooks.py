"""Hooks and steering: `hooks`."""

from typing import Any

import pytest

from guest_sdk.python import ProxyError, text
from tests.components.library.support import agent, play, received, says
from tests.harness.process.rig import Rig

Rules = list[dict[str, Any]]
BLOCK = {"on": "prompt", "match": "(?i)drop", "block": "not on this machine"}


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        ([], "a", ["a"]),
        ([{"on": "prompt", "match": r"#(\d+)", "replace": r"issue \1"}], "#1 #22",
         ["issue 1 issue 22"]),
        ([{"on": "prompt", "match": "x", "before": "B"}], "a", ["a"]),
        ([{"on": "prompt", "before": "B", "after": "A"}], "a", ["B", "a", "A"]),
        ([{"on": "prompt", "match": "a", "replace": "b"},
          {"on": "prompt", "match": "b", "after": "c"}], "a", ["b", "c"]),
        ([BLOCK], "DROP it", None),
        ([{"on": "prompt", "match": "a", "replace": "drop"}, BLOCK], "a", None),
    ],
)  # fmt: skip
async def test_prompts(rules: Rules, given: str, expected: list[str] | None) -> None:
    async with play("hooks", config={"rules": rules}, grants=[]) as p:
        await p.new_session()
        odd = {"type": "image", "data": "#1"}
        if expected is None:
            with pytest.raises(ProxyError, match="not on this machine"):
                await p.prompt(given)
            assert p.agent.prompts == []
            return
        await p.prompt(odd, given)
        got = p.agent.requests[-1].raw["params"]["prompt"]
        assert [b["text"] for b in got if b["type"] == "text"] == expected
        assert odd in got


RM = {"kind": "execute", "rawInput": {"command": "rm x"}}
DENY: Rules = [{"on": "tool", "match": "^(execute|add)$", "input": "rm|[79]", "deny": "no"}]


@pytest.mark.parametrize(
    ("call", "options", "outcome"),
    [
        (RM, ["allow_once", "reject_once"], "reject_once"),
        (RM, ["reject_always"], "reject_always"),
        (RM, ["allow_always"], None),
        (RM, ["allow_once=x", "reject_once=x"], None),
        (RM, ["reject_once=x", "allow_always=x", "reject_always"], "reject_always"),
        ({"kind": "execute", "rawInput": {"command": "ls"}}, ["reject_once"], "client"),
        ({"title": "rm x", "rawInput": "rm x"}, ["reject_once"], "client"),
        ({"_meta": {"x": {"toolName": "add"}}, "rawInput": 9}, ["reject_once"], "reject_once"),
        (None, ["reject_once"], "client"),
    ],
)  # fmt: skip
async def test_permissions(call: Any, options: list[str], outcome: str | None) -> None:
    def client(_: Any) -> Any:
        return {"outcome": {"outcome": "selected", "optionId": "client"}}

    async with play("hooks", config={"rules": DENY}, grants=[], client=client) as p:
        session = await p.new_session()
        pairs = [(option.split("=")[-1], option.split("=")[0]) for option in options]
        offered = [{"optionId": id_, "kind": kind, "name": kind} for id_, kind in pairs]
        params = {"sessionId": session, "toolCall": call, "options": offered}
        answer = p.result("s", p.agent.request("session/request_permission", params))
        assert answer["outcome"].get("optionId") == outcome
        assert len(p.services.log) == (outcome != "client")


@pytest.mark.parametrize(
    ("subject", "outcome"),
    [
        ({"type": "tool_call", "toolCall": RM}, "no"),
        ({"type": "tool_call", "toolCall": {"toolCallId": "c1"}}, "no"),
        ({"type": "command", "command": "rm x", "cwd": "/"}, "no"),
        ({"type": "command", "command": "ls", "cwd": "/"}, "client"),
        ({"type": "tool_call", "toolCall": {"toolCallId": "c2"}}, "client"),
        ({"type": "_else"}, "client"),
    ],
)
async def test_permissions_of_acp_v2_and_calls_told_of_before(subject: Any, outcome: str) -> None:
    def client(_: Any) -> Any:
        return {"outcome": {"outcome": "selected", "optionId": "client"}}

    async with play("hooks", config={"rules": DENY}, grants=[], client=client) as p:
        session = await p.new_session()
        for number in range(600):  # no more than so many are kept in mind
            p.agent.update(session, "tool_call", toolCallId=f"old{number}")
        for call in ("c1", "c2"):
            p.agent.update(session, "tool_call", toolCallId=call, title="execute")
            p.agent.update(session, "tool_call_update", toolCallId=call, rawInput=RM["rawInput"])
        p.agent.update(session, "tool_call_update", toolCallId="c2", status="completed")
        p.agent.update(session, "tool_call", toolCallId=7)
        options = [{"optionId": "no", "kind": "reject_once", "name": "No"}]
        params = {"sessionId": session, "title": "?", "subject": subject, "options": options}
        answer = p.result("s", p.agent.request("session/request_permission", params))
        assert answer["outcome"]["optionId"] == outcome


async def test_calls_of_mcp_tools() -> None:
    async with play("hooks", config={"rules": DENY}, client=lambda _: {"ran": True}) as p:
        call: Any = {"method": "tools/call", "params": {"name": "add", "arguments": {"a": 7}}}
        stateless = {"serverId": "s", "requestId": "r", **call}
        answer = p.result("s", p.agent.request("mcp/message", stateless))
        assert answer == {"error": {"code": -31900, "message": "denied: no"}}
        with pytest.raises(ProxyError, match="denied: no"):
            p.result("s", p.agent.request("mcp/message", {"connectionId": "c", **call}))
        for other in ({"name": "add", "arguments": {"a": 1}}, {"name": "sub"}, None):
            said = {**stateless, "params": other}
            assert p.result("s", p.agent.request("mcp/message", said)) == {"ran": True}


async def test_after_a_turn() -> None:
    rules: Rules = [
        {"on": "turn", "match": "fail", "prompt": "Fix it.", "say": "[fixing]", "log": "again"},
        {"on": "turn", "stop": ["cancelled"], "say": "[stopped]"},
        {"on": "turn", "match": "nothing of it", "say": "never"},
    ]
    async with play("hooks", config={"rules": rules}, grants=[]) as p:
        p.agent.answer = says(p, "tests ", "fa", "il")
        turn = await p.prompt("run")
        assert p.agent.prompts == ["run", "Fix it."]
        assert turn.text == "tests fail[fixing]tests fail"
        assert turn.stop_reason == "end_turn"
        assert p.services.log == ["info: again"]
        p.agent.answer = says(p, "fine")
        assert (await p.prompt("run")).text == "fine"
        p.agent.answer = lambda _: {"stopReason": "cancelled"}
        assert (await p.prompt("fail")).text == "[stopped]"


async def test_after_a_turn_of_acp_v2() -> None:
    rules: Rules = [{"on": "turn", "match": "fail", "prompt": "Fix it.", "say": "!"}]
    async with play("hooks", config={"rules": rules}, grants=[]) as p:
        session = await p.new_session()
        p.agent.answer = lambda _: {"messageId": "m"}
        for number in (1, 2):
            if number == 1:
                await p.prompt("run")
            p.agent.say(session, "it fails")
            p.agent.update(session, "state_update", state="idle", stopReason="end_turn")
            assert p.agent.prompts == ["run", "Fix it."], number
        shown = [one.raw["params"]["update"]["sessionUpdate"] for one in p.heard]
        assert len(shown) == 6


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ({"on": "prompt", "deny": "x"}, "a rule on `prompt` cannot have `deny`"),
        ({"on": "turn"}, "a rule on `turn` does nothing; it can have `say`, `prompt`, `log`"),
        ({"on": "prompt", "match": "(", "block": "x"}, "is wrong"),
        ({"on": "prompt", "match": "a", "replace": r"\3"}, "is wrong"),
        ({"on": "prompt", "replace": "x"}, "needs a `match`"),
        ({"on": "prompt", "input": "x", "block": "y"}, "`input` is of rules on `tool`"),
        ({"on": "sunday", "say": "x"}, "must be one of"),
    ],
)
async def test_rules_that_cannot_be(rule: Any, complaint: str) -> None:
    async with play("hooks", config={"rules": [rule]}) as p:
        with pytest.raises(ProxyError, match=complaint):
            await p.initialize()


def test_behind_a_real_agent(rig: Rig) -> None:
    path = rig.folder / "rules.toml"
    path.write_text(
        """
        [[rules]]
        on = "prompt"
        match = "(?i)drop (the )?database"
        block = "not on this machine"

        [[rules]]
        on = "prompt"
        match = 'BUG-(\\d+)'
        replace = 'bug \\1'

        [[rules]]
        on = "tool"
        match = "delete|fail"
        deny = "ask me"

        [[rules]]
        on = "turn"
        match = "bug 7"
        prompt = "is it fixed?"
        """,
        encoding="utf-8",
    )
    chain = agent(rig, "tools-demo", f"hooks,config={path}", rig.demo("--acp"))
    session = chain.begin()
    blocked = chain.answer(chain.start_prompt(session, "please drop the database"))
    assert blocked["error"]["message"] == "hooks: not on this machine"
    assert chain.prompt(session, "BUG-7") == "bug 7is it fixed?"
    # The client of the tests has no answer to a permission: nobody asked it.
    assert chain.prompt(session, "/permission delete x") == "permission: reject-once"
    assert "denied: ask me" in chain.prompt(session, "/call tools-demo fail")
    prompts = [params["prompt"] for params in received(rig, "session/prompt")]
    assert prompts[:2] == [[text("bug 7")], [text("is it fixed?")]]
    assert chain.seen("session/request_permission") == []
    assert chain.finish() == 0
    assert chain.stderr.count("denied:") == 2
