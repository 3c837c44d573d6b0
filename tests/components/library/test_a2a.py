"""Agents behind A2A as tools: `a2a`."""

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.a2a_server import serving
from tests.components.library.support import (
    FORMS,
    V2,
    agent,
    folders,
    in_form,
    load,
    play,
)
from tests.harness.process.rig import Chain, Rig

Json = dict[str, Any]
HOST: Final = "https://w.example"
CARD_AT: Final = f"{HOST}/.well-known/agent-card.json"
SKILL: Final = {"id": "forecast", "name": "Forecast", "description": "The weather", "tags": []}
CARD: Final[Json] = {
    "name": "Weather",
    "description": "Knows the weather",
    "version": "1",
    "supportedInterfaces": [
        {"url": f"{HOST}/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {"url": f"{HOST}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    ],
    "capabilities": {},
    "skills": [SKILL],
}
OLD: Final[Json] = {
    "name": "Weather",
    "description": "Knows the weather",
    "protocolVersion": "0.3.0",
    "url": f"{HOST}/rpc",
    "skills": [SKILL],
}
CONFIG: Final = {"agents": {"weather": HOST}}


class Servers:
    """A2A servers as the playground's `fetch`: the body of a card, and answers to requests."""

    def __init__(self, card: Any = CARD, *results: Any) -> None:
        self.card = card if isinstance(card, str) else json.dumps(card)
        self.results = list(results)
        self.asked: list[Json] = []
        self.headers: list[Mapping[str, str]] = []
        self.more: Json = {}
        """Members of the answer of `fetch` that are others."""

    def __call__(self, params: Json) -> Any:
        self.headers.append(params["headers"])
        if params.get("method") != "POST":
            text = self.card
        else:
            self.asked.append(json.loads(params["text"]))
            result = self.results.pop(0)
            if callable(result):
                result = result(self.asked[-1])
            whole = {"jsonrpc": "2.0", "id": self.asked[-1]["id"], "result": result}
            text = result if isinstance(result, str) else json.dumps(whole)
        held = {"status": 200, "url": params["url"], "headers": {}, "truncated": False}
        if len(text) > params["maxBytes"]:
            text, held["truncated"] = text[: params["maxBytes"]], True
        return {**held, "text": text, **self.more}


def said(text: str, **more: Any) -> Json:
    """A message of an agent, in version 1.0."""
    return {"message": {"role": "ROLE_AGENT", "messageId": "m", "parts": [{"text": text}], **more}}


def task(state: str, *texts: str, **more: Any) -> Json:
    """A task in version 1.0."""
    artifacts = [{"artifactId": "a", "parts": [{"text": text}]} for text in texts]
    held = {"id": "t1", "contextId": "c1", "status": {"state": state}, "artifacts": artifacts}
    return {**held, **more}


async def begun(p: Playground) -> list[str]:
    """Opens a session; the names of the tools."""
    await p.new_session()
    return [one["name"] for one in await p.tools()]


async def called(p: Playground, tool: str = "weather_forecast", /, **arguments: Any) -> str:
    """The text of a tool's result; an error has a mark in front."""
    result = await p.call(tool, **({"message": "hi"} if tool != "agents" else {}) | arguments)
    return ("!" if result.get("isError") else "") + str(result["content"][0]["text"])


async def test_a_skill_is_a_tool() -> None:
    servers = Servers(CARD, said("sun", contextId="c1"), said("rain"), said("snow"))
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        assert await begun(p) == ["agents", "weather_forecast"]
        (about,) = [one["description"] for one in await p.tools() if one["name"] != "agents"]
        assert "the agent `weather` (Weather)" in about
        assert "It says of this skill: Forecast. The weather" in about
        assert await called(p, message="and today?") == "sun"
        (first,) = servers.asked
        message = first["params"]["message"]
        assert (first["method"], message["role"]) == ("SendMessage", "ROLE_USER")
        assert message["parts"] == [{"text": "and today?"}]
        assert message["metadata"] == {"skillId": "forecast"}
        assert servers.headers[-1]["A2A-Version"] == "1.0"
        assert await called(p) == "rain"
        again = servers.asked[1]["params"]["message"]
        assert again["contextId"] == "c1"
        assert again["messageId"] != message["messageId"]
        assert await called(p, anew=True) == "snow"
        assert "contextId" not in servers.asked[2]["params"]["message"]
        listed = "weather: Weather; tools: weather_forecast"
        assert await called(p, "agents") == listed


async def test_a_task_is_waited_for() -> None:
    working, asks = task("TASK_STATE_WORKING"), task("TASK_STATE_INPUT_REQUIRED")
    asks["status"]["message"] = {"parts": [{"text": "where?"}]}
    done = task("TASK_STATE_COMPLETED", "sun", "and wind")
    servers = Servers(CARD, {"task": working}, working, asks, {"task": done})
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        await begun(p)
        pending = await start(p, "hi")
        p.services.advance(1)
        assert (
            outcome(p, pending)
            == "`weather` needs to know more; call again with the answer:\nwhere?"
        )
        assert [one["method"] for one in servers.asked] == ["SendMessage", "GetTask", "GetTask"]
        assert servers.asked[1]["params"] == {"id": "t1"}
        assert await called(p, message="here") == "sun\n\nand wind"
        message = servers.asked[3]["params"]["message"]
        assert (message["taskId"], message["contextId"]) == ("t1", "c1")


async def start(p: Playground, words: str) -> int:
    """Begins a call of the tool, which goes on."""
    params = {"name": "weather_forecast", "arguments": {"message": words}}
    return await p.start_mcp("tools/call", params)


def outcome(p: Playground, number: int) -> str:
    """The result of a call that was begun."""
    result = p.result("s", number)["result"]
    return ("!" if result.get("isError") else "") + str(result["content"][0]["text"])


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("TASK_STATE_FAILED", "!`weather`: the task is failed: no sun"),
        ("TASK_STATE_REJECTED", "!`weather`: the task is rejected: no sun"),
        ("TASK_STATE_AUTH_REQUIRED", "!`weather`: the task is auth-required: no sun"),
        ("canceled", "!`weather`: the task is canceled: no sun"),
    ],
)
async def test_how_a_task_ends(state: str, text: str) -> None:
    ended = {"id": "t", "status": {"state": state, "message": {"parts": [{"text": "no sun"}]}}}
    async with play("a2a", config=CONFIG, fetch=Servers(CARD, {"task": ended})) as p:
        await begun(p)
        assert await called(p) == text


async def test_a_task_that_never_ends_is_given_up_and_stopped() -> None:
    working = task("TASK_STATE_WORKING")
    servers = Servers(CARD, {"task": working}, *[working] * 100)
    async with play("a2a", config={**CONFIG, "seconds": 30}, fetch=servers) as p:
        await begun(p)
        pending = await start(p, "hi")
        p.services.advance(40)
        assert outcome(p, pending) == "!`weather`: not done within 30 seconds"
        assert servers.asked[-1]["method"] == "CancelTask"
        assert servers.asked[-1]["params"] == {"id": "t1"}
        assert len(servers.asked) < 20


async def test_when_a_call_is_cancelled_so_is_its_task() -> None:
    working = task("TASK_STATE_WORKING")
    servers = Servers(CARD, {"task": working}, working, working, said("sun"))
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        await begun(p)
        pending = await start(p, "hi")
        p.services.advance(0.2)
        p.agent.notify("$/cancel_request", {"requestId": pending})
        p.services.advance(60)
        assert [one["method"] for one in servers.asked] == ["SendMessage", "GetTask", "CancelTask"]
        assert await called(p) == "sun"


async def test_version_0_3() -> None:
    data = {"kind": "data", "data": {"c": 20}}
    file = {"kind": "file", "file": {"name": "a.png", "mimeType": "image/png", "bytes": "AA=="}}
    done: Json = {
        "kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"},
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "sun"}, data, file]}],
    }  # fmt: skip
    servers = Servers(OLD, {**done, "status": {"state": "submitted"}}, done)
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        await begun(p)
        pending = await start(p, "hi")
        p.services.advance(1)
        assert outcome(p, pending) == 'sun\n{"c": 20}\n(a file a.png, image/png)'
        assert [one["method"] for one in servers.asked] == ["message/send", "tasks/get"]
        message = servers.asked[0]["params"]["message"]
        assert (message["kind"], message["role"]) == ("message", "user")
        assert message["parts"] == [{"kind": "text", "text": "hi"}]
        assert "A2A-Version" not in servers.headers[-1]


async def test_several_agents_and_their_headers() -> None:
    config: Json = {
        "agents": {"one": HOST, "two": "https://two.example/card.json"},
        "endpoints": {"two": f"{HOST}/rpc"},
        "headers": {"two": {"Authorization": "Bearer x"}},
    }
    card = {**CARD, "skills": []}
    card["supportedInterfaces"] = [{**CARD["supportedInterfaces"][1], "tenant": "t"}]
    servers = Servers(card, said("yes"))
    async with play("a2a", config=config, fetch=servers) as p:
        assert await begun(p) == ["agents", "one_ask", "two_ask"]
        assert await called(p, "two_ask") == "yes"
        assert [one.get("Authorization") for one in servers.headers] == [
            None,
            "Bearer x",
            "Bearer x",
        ]
        assert servers.asked[0]["params"]["tenant"] == "t"
        assert "metadata" not in servers.asked[0]["params"]["message"]


def skills(*ids: Any) -> Json:
    """A card with skills of these ids."""
    return {**CARD, "skills": [{**SKILL, "id": one} for one in ids]}


def elsewhere(url: str) -> Json:
    """A card whose endpoint is somewhere else."""
    return {**OLD, "url": url}


LIES: Final[dict[str, tuple[Any, str]]] = {
    "no JSON": ("<html>", "its card is no JSON"),
    "a list": ([], "its card is no JSON object"),
    "deep": ("[" * 100_000, "its card is no JSON"),
    "large": (json.dumps({**CARD, "x": "x" * 10_000_000}), "more than 262,144 bytes"),
    "no name": ({**CARD, "name": 7}, "`name` in its card is no text"),
    "skills of a wrong type": ({**CARD, "skills": {"a": 1}}, "`skills` in its card is no list"),
    "skills that are none": ({**CARD, "skills": ["a"]}, "`skills` in its card is no list"),
    "an id that is none": (skills(7), "`id` in its card is no text"),
    "too many skills": (skills(*map(str, range(65))), "has 65 skills; 64 are taken"),
    "interfaces of a wrong type": ({**CARD, "supportedInterfaces": "x"}, "is no list of objects"),
    "an endpoint of a wrong type": (elsewhere(["x"]), "`url` in its card is no text"),  # type: ignore[arg-type]
    "another host": (elsewhere("https://evil.example/rpc"), "on another host than the card's"),
    "another port": (elsewhere(f"{HOST}:8443/rpc"), "on another host than the card's"),
    "another scheme": (elsewhere("http://w.example/rpc"), "on another host than the card's"),
    "a file": (elsewhere("file:///etc/passwd"), "is no http or https address"),
    "a user": (elsewhere("https://w.example@evil.example/"), "names no plain host"),
    "a port that is none": (elsewhere("https://w.example:x/"), "is no http or https address"),
    "no version": ({**OLD, "protocolVersion": "9.0"}, "in no known version of A2A (1.0, 0.3): 9.0"),
    "another transport": (
        {**OLD, "preferredTransport": "GRPC"},
        "known version of A2A (1.0, 0.3): none",
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_card_that_lies_is_refused_by_name(lie: str) -> None:
    card, why = LIES[lie]
    servers = Servers(card)
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        assert await begun(p) == ["agents"]
        (line,) = p.services.log
        assert line.startswith("warn: the A2A agent `weather` has no tools: ")
        assert why in line
        assert line.isprintable()
        assert len(line) < 400
        assert why in await called(p, "agents")
        assert (await p.prompt("hello")).text == "hello"
        # The card is fetched once more, when `agents` is called.
        servers.card = json.dumps(CARD)
        assert "tools: weather_forecast" in await called(p, "agents")
        assert len(await p.tools()) == 2


async def test_skills_that_cannot_be_tools_are_refused_by_name() -> None:
    evil = {**SKILL, "id": "z", "name": "x\n\x1b[2J\u202e", "description": "y" * 5000}
    card = skills("a.b", "a b", "c\x1b[2J", "d/../e", "f" * 65, "\u0430")
    card["skills"].append(evil)
    async with play("a2a", config=CONFIG, fetch=Servers(card)) as p:
        assert await begun(p) == ["agents", "weather_a_b", "weather_d____e", "weather_z"]
        assert p.services.log == [
            f"warn: the A2A agent `weather`: {why}"
            for why in (
                "there are two skills for the tool `a_b`",
                r"the id of a skill is no name for a tool: 'c\x1b[2J'",
                f"the id of a skill is no name for a tool: '{'f' * 65}'",
                r"the id of a skill is no name for a tool: '\u0430'",
            )
        ]
        about = (await p.tools())[-1]["description"]
        assert about.isprintable()
        assert len(about) < 2500
        assert (await called(p, "agents")).count("not taken: ") == 4


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("data: {}\n\n", "its answer is no JSON"),
        ("[]", "its answer is no JSON object"),
        ("[" * 100_000, "its answer is no JSON"),
        ('{"error": {"code": 1, "message": "no\\u001b[2J"}}', "it answers with an error: no [2J"),
        ('{"error": 7}', "it answers with an error: None"),
        ("{}", "its result is no object"),
        ({}, "its result is neither a message nor a task"),
        ({"message": {"parts": 7}}, "its `parts` are no list"),
        ({"message": {"parts": ["x"]}}, "a part of its is no object"),
        (said("x", contextId=7), "its `contextId` is no text of 256 characters"),
        (said("x", contextId="x" * 257), "its `contextId` is no text of 256 characters"),
        ({"task": {"id": "t"}}, "its task has no status"),
        ({"task": task("TASK_STATE_ODD")}, "its task has the state 'odd'"),
        ({"task": {"status": {"state": "working"}}}, "its task has no id"),
        (json.dumps(said("x" * 2_000_000)), "its answer has more than 1,048,576 bytes"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_refused_by_name(result: Any, why: str) -> None:
    servers = Servers(CARD, result, said("sun"))
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        await begun(p)
        refused = await called(p)
        assert refused.startswith("!`weather`: ")
        assert why in refused
        assert refused.isprintable()
        assert await called(p) == "sun"


async def test_redirects_statuses_and_long_answers() -> None:
    servers = Servers(CARD, said("x"), said("x"), said("x" * 50 + "\x1b\u202e\n"))
    async with play("a2a", config={**CONFIG, "longest": 10}, fetch=servers) as p:
        await begun(p)
        servers.more = {"url": "https://evil.example/\x1b"}
        assert await called(p) == (
            "!`weather`: it redirects to https://evil.example/, which is not followed"
        )
        servers.more = {"status": 503}
        assert await called(p) == "!`weather`: its server answers with status 503"
        servers.more = {}
        assert await called(p) == f"{'x' * 10}\n(… 51 characters)"
        for message in (" ", "x" * 100_001):
            assert "1 to 100,000 characters" in await called(p, message=message)


async def test_what_may_be_missing_and_what_a_restart_finds() -> None:
    async with play("a2a", config=CONFIG, grants=[]) as p:
        assert await begun(p) == ["agents"]
        assert "service `fetch` is not granted" in await called(p, "agents")
        assert (await p.prompt("hello")).text == "hello"
    async with play("a2a") as p:
        await p.new_session()
        assert await called(p, "agents") == "none: the user names them by the setting `agents`"
    servers = Servers(CARD, said("one", contextId="c"), said("two"))
    async with play("a2a", config=CONFIG, fetch=servers) as p:
        await begun(p)
        assert await called(p) == "one"
        p.restart(load("a2a"))
        assert await called(p) == "two"
        assert servers.asked[-1]["params"]["message"]["contextId"] == "c"


@pytest.mark.parametrize(
    "config",
    [
        {"agents": {"a_b": HOST}}, {"agents": {"": HOST}}, {"agents": {"a": "w.example"}},
        {"agents": {"a": "ftp://w.example"}}, {"endpoints": {"a": HOST}}, {"headers": {"a": {}}},
        {"seconds": 0}, {"patience": 61}, {"longest": 0},
    ],
)  # fmt: skip
async def test_settings_that_cannot_be(config: Any) -> None:
    async with play("a2a", config=config) as p:
        with pytest.raises(ProxyError):
            await p.initialize()


def begun_chain(
    rig: Rig, form: str, version: int, url: str, *names: str, **more: Any
) -> tuple[Chain, str]:
    """A chain with the agents that the fixture server has below these names, and a session."""
    config = {"agents": {name: f"{url}/{name}" for name in names}, **more}
    rights = {"allow": [f"web:{url}", f"web:POST@{url}"]} if form == "sandboxed" else {}
    made = in_form(form, "a2a", config, **rights)
    chain = agent(rig, made, rig.demo("--acp"), PYTHONPATH=folders("a2a"))
    chain.initialize(**({} if version == 1 else V2))
    return chain, chain.new_session()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_in_every_form(rig: Rig, form: str, version: int) -> None:
    with serving() as url:
        chain, session = begun_chain(rig, form, version, url, "good")
        prompted = chain.start_prompt(session, '/call a2a good_echo {"message":"hi there"}')
        assert "result" in chain.answer(prompted)
        chain.until(lambda: "hi there" in "".join(chain.texts(session)), "the result")
        assert chain.finish() == 0
        assert chain.stderr == ""


def test_servers_that_lie_are_refused_by_name(rig: Rig) -> None:
    lies = {
        "redirect": "it redirects to http://127.0.0.1:",
        "away": "http://localhost:",
        "elsewhere": "the endpoint http://192.0.2.1/rpc, on another host than the card's",
        "large": "its answer has more than 262,144 bytes",
        "endless": "its answer has more than 262,144 bytes",
        "deep": "its card is no JSON",
    }
    with serving() as url:
        chain, session = begun_chain(rig, "sandboxed", 1, url, "good", *lies)
        for name, why in lies.items():
            (line,) = [one for one in chain.stderr.splitlines() if f"agent `{name}` has no" in one]
            assert why in line
        told = chain.prompt(session, "/call a2a agents {}")
        assert told.startswith("good: Echo; tools: good_echo\n")
        assert told.count("cannot be asked: ") == len(lies)

        def asked(message: str) -> str:
            arguments = json.dumps({"message": message})
            return chain.prompt(session, f"/call a2a good_echo {arguments}")

        assert "tool error: `good`: its answer has more than 1,048,576 bytes" in asked("endless")
        assert "tool error: `good`: " in asked("redirect")
        assert "localhost" in asked("redirect")
        assert asked("still here") == "still here"
        assert chain.prompt(session, "hello") == "hello"
        assert chain.finish() == 0


def test_a_server_that_never_answers_is_given_up(rig: Rig) -> None:
    with serving() as url:
        chain, session = begun_chain(rig, "sandboxed", 1, url, "silent", patience=0.2)
        assert "the A2A agent `silent` has no tools: fetch: no answer within 200 ms" in chain.stderr
        assert chain.prompt(session, "hello") == "hello"
        assert chain.finish() == 0
