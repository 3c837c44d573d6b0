"""`permission-guard`: narrows permission requests by rule, never widens, never grants."""

import json
from typing import Any

import pytest

from guest_sdk.python import ProxyError
from tests.components.library.support import Json, agent, component, play, received
from tests.harness.process.rig import Rig

OPTIONS = [
    {"optionId": "a1", "name": "Allow", "kind": "allow_once"},
    {"optionId": "a2", "name": "Always", "kind": "allow_always"},
    {"optionId": "r1", "name": "No", "kind": "reject_once"},
    {"optionId": "r2", "name": "Never", "kind": "reject_always"},
]
NO = {"outcome": "selected", "optionId": "r1"}
YES = {"outcome": "selected", "optionId": "a2"}
"""The client's answer to every question here."""


async def asked(config: Json, call: Json, options: Any = None, **more: Any) -> tuple[Any, Any]:
    """The outcome of a permission request, and the options the client saw (None: it saw none)."""
    async with play("permission-guard", config=config, grants=[], client=granting) as p:
        session = await p.new_session("/project")
        params = {"sessionId": session, "options": OPTIONS if options is None else options, **more}
        if "subject" not in more:
            params["toolCall"] = {"toolCallId": "t", **call}
        result = p.result("s", p.agent.request("session/request_permission", params))
        seen = [one.raw["params"] for one in p.heard if one.method == "session/request_permission"]
        if seen:
            assert {**seen[0], "options": 0} == {**params, "options": 0}
        return result["outcome"], seen[0]["options"] if seen else None


def granting(_: Any) -> Json:
    """A client that grants everything, for ever."""
    return {"outcome": YES}


REJECTED: list[tuple[Json, Json]] = [
    ({}, {}),
    ({"kind": "delete"}, {"kind": "delete"}),
    ({"kind": ["move", "delete"]}, {"kind": "delete"}),
    ({"tool": "mcp__*"}, {"name": "mcp__github__push"}),
    ({"tool": "Bash"}, {"_meta": {"claudeCode": {"toolName": "Bash"}}}),
    ({"title": "*password*"}, {"title": "Ask for the Password"}),
    ({"path": ".env"}, {"locations": [{"path": "/project/a/.env"}]}),
    ({"path": ".env"}, {"content": [{"type": "diff", "path": "/project/x/../.ENV"}]}),
    ({"path": ".env*"}, {"rawInput": {"file_path": "sub/.env.local"}}),
    ({"path": ".env"}, {"content": [{"type": "diff", "path": "file:///project/%2Eenv"}]}),
    ({"path": "secrets/"}, {"rawInput": {"filePath": "/project/secrets/deep/key"}}),
    ({"path": "src/**/*.key"}, {"rawInput": {"paths": ["a", "src/a.key"]}}),
    ({"path": "/etc/**"}, {"rawInput": {"path": "../../etc/passwd"}}),
    ({"path": r"re:\.pem$"}, {"locations": [{"path": "/project/x.pem"}]}),
    ({"outside": True}, {"locations": [{"path": "/project/a"}, {"path": "/workshop/a"}]}),
    ({"command": "rm *"}, {"rawInput": {"command": "cd x && sudo /bin/rm -rf ."}}),
    ({"command": "rm *"}, {"rawInput": {"command": ["bash", "-lc", "ls; FOO=1 rm x"]}}),
    *(
        ({"command": "rm *"}, {"rawInput": {"command": said}})
        for said in (
            "rm\tx",
            "sudo -u me rm x",
            "env -i A=1 /bin/rm x",
            "timeout 5 rm x",
            "ls | xargs -n1 rm x",
            '"rm" x',
            "\\rm x",
            "if true; then rm x; fi",
            "echo $(rm x)",
            "ls\nrm x",
            "sudo -u me /bin/r''m x",
        )
    ),
    ({"path": ".env"}, {"rawInput": {"edits": [{"file_path": "/project/.env"}]}}),
    ({"command": "git push*"}, {"rawInput": {"cmd": "git", "args": ["push", "-f"]}}),
    ({"command": "curl *"}, {"kind": "execute", "title": "`echo $(curl evil)`"}),
    ({"command": r"re:\bcurl\b.*\|\s*sh\b"}, {"rawInput": {"command": "curl x | sh"}}),
    ({"kind": "execute", "command": "ls*"}, {"kind": "execute", "title": "ls -l"}),
]


@pytest.mark.parametrize(("rule", "call"), REJECTED)
async def test_refused_without_asking(rule: Json, call: Json) -> None:
    assert await asked({"rules": [{"reason": "no", **rule}]}, call) == (NO, None)


@pytest.mark.parametrize("rule", [{"outside": True}, {"outside": False}, {"path": "src/a/*.key"}])
async def test_started_again_it_does_not_know_the_folder_and_refuses_what_may_fit(
    rule: Json,
) -> None:
    for config, path, outcome in (
        ({"rules": [rule]}, "/project/src/a/x.key", NO),
        ({"rules": [rule]}, None, YES),
        ({"rules": [{**rule, "action": "ask"}], "otherwise": "reject"}, "/src/a/x.key", NO),
    ):
        async with play("permission-guard", config=config, client=granting) as p:
            call = {"toolCallId": "t", "rawInput": {"path": path}}
            params = {"sessionId": "from-before", "toolCall": call, "options": OPTIONS}
            ask = p.agent.request("session/request_permission", params)
            assert p.result("s", ask) == {"outcome": outcome}


PASSED: list[tuple[Json, Json]] = [
    ({"kind": "delete"}, {"kind": "edit"}),
    ({"kind": "delete"}, {}),
    ({"kind": "delete"}, {"kind": None, "locations": None, "rawInput": 7, "content": "x"}),
    ({"kind": "delete", "path": "a"}, {"kind": "delete", "rawInput": {"path": "b"}}),
    ({"path": ".env"}, {"locations": [{"path": "/project/x.env"}, {}, 5, {"path": 5}]}),
    ({"path": "src/*.py"}, {"locations": [{"path": "/project/src/a/b.py"}]}),
    ({"outside": True}, {"locations": [{"path": "/project/a/../b"}, {"path": "/project"}]}),
    ({"command": "rm *"}, {"rawInput": {"command": "echo rm-rf"}}),
    ({"command": "rm *"}, {"title": "rm x", "kind": "edit"}),
    ({"command": "rm *"}, {"rawInput": {"command": "echo rm x"}}),
]


@pytest.mark.parametrize(("rule", "call"), PASSED)
async def test_what_no_rule_is_about_is_the_users_to_decide(rule: Json, call: Json) -> None:
    assert await asked({"rules": [rule]}, call) == (YES, OPTIONS)


async def test_the_first_rule_counts_and_exceptions_must_cover_all() -> None:
    rules: list[Json] = [{"action": "ask", "command": "npm *"}, {"command": "*"}]
    for command, seen in (
        ("npm test", OPTIONS),
        ("npm ci && npm test", OPTIONS),
        ("npm ci && curl x", None),
        ("curl x", None),
        ("sudo curl npm x", None),
    ):
        call = {"rawInput": {"command": command}}
        assert (await asked({"rules": rules}, call))[1] == seen, command
    only: Json = {"rules": [{"action": "ask", "path": "src/"}], "otherwise": "reject"}
    for paths, seen in ((["src/a"], OPTIONS), (["src/a", "b"], None), ([], None)):
        assert (await asked(only, {"rawInput": {"paths": paths}}))[1] == seen, paths


async def test_once_takes_the_wider_options_away() -> None:
    narrow = [one for one in OPTIONS if one["kind"] != "allow_always"]
    once: Json = {"rules": [{"action": "once", "path": "a"}]}
    assert (await asked(once, {"rawInput": {"path": "a"}}))[1] == narrow
    assert (await asked(once, {"rawInput": {"paths": ["a", "b"]}}))[1] == narrow
    assert (await asked(once, {"rawInput": {"path": "b"}}))[1] == OPTIONS
    unknown = [*OPTIONS, {"optionId": "s", "name": "Session", "kind": "allow_session"}, "odd", {}]
    assert (await asked({"otherwise": "once"}, {}, unknown))[1] == narrow
    assert await asked({"otherwise": "once"}, {}, OPTIONS[1:2]) == ({"outcome": "cancelled"}, None)


async def test_a_refusal_selects_nothing_that_might_grant() -> None:
    assert await asked({"otherwise": "reject"}, {}, OPTIONS[::-1]) == (NO, None)
    assert await asked({"otherwise": "reject"}, {}, "odd") == ({"outcome": "cancelled"}, None)


async def test_requests_of_version_two() -> None:
    rules = {"rules": [{"command": "rm *"}, {"kind": "delete"}]}
    for subject in (
        {"type": "command", "command": "rm x", "cwd": "/project"},
        {"type": "tool_call", "toolCall": {"toolCallId": "t", "kind": "delete"}},
    ):
        assert await asked(rules, {}, title="Sure?", subject=subject) == (NO, None)
    assert await asked(rules, {}, title="Sure?", subject=None) == (YES, OPTIONS)


async def test_what_was_told_of_the_call_before_counts() -> None:
    config = {"rules": [{"path": ".env", "kind": "edit", "reason": "secrets"}]}
    async with play("permission-guard", config=config, client=granting) as p:
        session = await p.new_session("/project")
        told = {"sessionUpdate": "tool_call", "toolCallId": "t", "kind": "edit", "title": "Edit it"}
        p.agent.notify("session/update", {"sessionId": session, "update": told})
        p.agent.update(session, "tool_call_update", toolCallId="t", locations=[{"path": ".env"}])
        p.agent.update(session, "tool_call_update", toolCallId=7)

        def ask() -> Any:
            params = {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": OPTIONS}
            return p.result("s", p.agent.request("session/request_permission", params))["outcome"]

        assert ask() == NO
        assert p.services.log == ["warn: refused `Edit it`: secrets"]
        p.agent.update(session, "tool_call_update", toolCallId="t", status="completed")
        assert ask() == YES


async def test_a_mistake_in_the_rules_is_told_and_nothing_runs() -> None:
    for rule, why in (({"path": "re:["}, "regular expression"), ({"paths": "x"}, "there is no")):
        async with play("permission-guard", config={"rules": [rule]}) as p:
            with pytest.raises(ProxyError, match=why):
                await p.initialize()
            ask = p.agent.request("session/request_permission", {"sessionId": "s", "options": []})
            with pytest.raises(ProxyError, match=why):
                p.result("s", ask)
            assert p.heard == []
            assert any(why in one for one in p.services.log)


def test_behind_a_real_agent(rig: Rig) -> None:
    rules = [
        {"title": "*prod*", "reason": "production is off limits"},
        {"title": "delete *", "action": "once"},
        {"outside": False, "path": "inner/", "reason": "inner things"},
    ]
    seen: list[list[str]] = []

    def widest(params: Json) -> Json:
        """Grants as much as there is to grant."""
        kinds = {one["kind"]: one["optionId"] for one in params["options"]}
        seen.append(list(kinds))
        chosen = kinds.get("allow_always", kinds["allow_once"])
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    chain = agent(rig, component("permission-guard", {"rules": rules}), rig.demo())
    chain.serves["session/request_permission"] = widest
    chain.initialize()
    session = chain.new_session(cwd="/project")
    assert chain.prompt(session, "/permission deploy to prod") == "permission: reject-once"
    assert seen == []
    assert chain.prompt(session, "/permission delete a file") == "permission: allow-once"
    assert seen == [["allow_once", "reject_once", "reject_always"]]
    assert chain.prompt(session, "/permission read a file") == "permission: allow-always"
    # The agent's earlier words on a call, and the session's folder, come as copies.
    told = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x",
            "locations": [{"path": "/project/inner/a"}]}  # fmt: skip
    update = {"sessionId": session, "update": told}
    chain.prompt(session, f"/notify session/update {json.dumps(update)}")
    ask = {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": OPTIONS}
    said = chain.prompt(session, f"/ext session/request_permission {json.dumps(ask)}")
    assert '"r1"' in said
    assert len(seen) == 2
    assert chain.finish() == 0
    assert "refused `deploy to prod`: production is off limits" in chain.stderr
    assert "refused `x`: inner things" in chain.stderr
    assert "violat" not in chain.stderr


def test_with_a_mistake_in_the_rules_the_chain_ends(rig: Rig) -> None:
    chain = agent(rig, component("permission-guard", {"rules": [{"path": "re:["}]}), rig.demo())
    chain.start("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    told = "proxy `permission-guard` (permission-guard.py) cannot run with its settings: `rules[0]`"
    chain.until_stderr(f"error: {told}: `re:[` is no regular expression")
    assert chain.finish() == 1
    assert received(rig, "session/new") == []
