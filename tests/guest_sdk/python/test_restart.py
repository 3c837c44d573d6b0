"""A proxy with tools is started again: sessions go on, and their tools with them."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Call, Playground, Proxy, Request
from guest_sdk.python.engine import Engine
from tests.guest_sdk.python.test_cli import agent
from tests.harness.process.rig import Rig
from tests.places import ROOT

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SOURCE = """
from guest_sdk.python import Call, Proxy

proxy = Proxy("counting", rights={"serve:tools": "to count"})

@proxy.tool
def whoami(call: Call) -> str:
    return f"VERSION {call.session.id} {call.session.cwd}" if call.in_session else "nobody"
"""


def test_tools_go_on_in_open_sessions(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(SOURCE, encoding="utf-8")
    chain = agent(rig, str(path), rig.demo(), options=("--reload",))
    chain.initialize()
    first, where = chain.new_session(cwd=str(tmp_path)), f"{tmp_path}"
    assert chain.prompt(first, "/tool whoami") == f"VERSION {first} {where}"

    edited = tmp_path / "edited"
    edited.write_text(SOURCE.replace("VERSION", "SECOND"), encoding="utf-8")
    shutil.move(edited, path)
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(first, "/tool whoami") == f"SECOND {first} {where}"
    second = chain.new_session(cwd="/")
    assert chain.prompt(second, "/tool whoami") == f"SECOND {second} /"
    assert chain.prompt(first, "/tool whoami") == f"SECOND {first} {where}"


DYING = """
import os

@proxy.request("_die")
def die(request):
    os._exit(3)

proxy.run()
"""


def test_tools_of_a_program_go_on_too(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(SOURCE + DYING, encoding="utf-8")
    program = rig.program(sys.executable, str(path), name="counting", on_failure="restart")
    chain = rig.agent(program, rig.demo(), PYTHONPATH=str(ROOT))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))
    expected = f"VERSION {session} {tmp_path}"
    assert chain.prompt(session, "/tool whoami") == expected
    assert "exited with code 3" in chain.request("_die", {})["error"]["message"]
    assert chain.prompt(session, "/tool whoami") == expected
    assert chain.finish() == 0


def test_a_new_life_gives_ids_of_its_own_and_knows_those_of_the_former() -> None:
    """In process: declared once more, an id is another; what others declared stays theirs."""
    proxy = Proxy("it")

    @proxy.tool
    def one() -> str:
        return "1"

    engine = Engine(proxy)
    engine.receive([configure("2.3")])
    engine.receive(["p" + message(1, "session/new", {"cwd": "/", "mcpServers": []})])
    (said,) = engine.receive(["p" + message(2, "session/new", {"cwd": "/", "mcpServers": []})])[-1:]
    assert json.loads(said[1:])["params"]["mcpServers"][0]["serverId"] == "it:2.3.2"
    engine.receive([configure("")])  # changed settings do not say it again

    def listed(**address: str) -> bool:
        params = {**address, "requestId": "1", "method": "tools/list", "params": MODERN}
        answers = engine.receive(["s" + message(9, "mcp/message", params)])
        return "tools" in json.loads(answers[0][1:]).get("result", {}).get("result", {})

    assert listed(serverId="it:1")
    assert listed(serverId="it:2.3.1")
    assert not listed(serverId="it:2.3.7")  # never given
    assert not listed(serverId="it:x")
    assert not listed(serverId="other:1")

    opened = "mcp/connect", {"serverId": "it:1"}
    (said,) = engine.receive(["s" + message(10, *opened)])
    assert json.loads(said[1:])["result"] == {"connectionId": "it:1/2.3.1"}
    old = {"connectionId": "it:1/4", "method": "tools/list", "params": {}}
    (said,) = engine.receive(["s" + message(11, "mcp/message", old)])
    assert json.loads(said[1:])["result"]["tools"][0]["name"] == "one"
    (said,) = engine.receive(["s" + message(12, "mcp/disconnect", {"connectionId": "it:1/4"})])
    assert json.loads(said[1:])["result"] == {}


def test_a_new_life_knows_the_sessions_that_were_kept_for_it() -> None:
    """In process, from life to life: a life is told all that the former kept; closed sessions are
    dropped."""
    proxy = Proxy("it")

    @proxy.tool
    def whose(call: Call) -> str:
        return f"{call.session.id} in {call.session.cwd}" if call.in_session else "nobody"

    kept: dict[str, object] = {}

    def fed(engine: Engine, line: str) -> list[dict[str, object]]:
        said = [(one[0], json.loads(one[1:])) for one in engine.receive([line])]
        for side, one in said:
            if side == "c" and one["method"] == "keep":
                kept.update(one["params"])
        return [one for side, one in said if side != "c"]

    def begun(engine: Engine, session: str) -> str:
        setup = {"cwd": f"/{session}", "mcpServers": []}
        (asked,) = fed(engine, "p" + message(1, "session/new", setup))
        fed(engine, "s" + json.dumps({"id": asked["id"], "result": {"sessionId": session}}))
        return str(asked["params"]["mcpServers"][0]["serverId"])  # type: ignore[index]

    def called(engine: Engine, server: str) -> str:
        inner = {**MODERN, "name": "whose", "arguments": {}}
        params = {"serverId": server, "requestId": "1", "method": "tools/call", "params": inner}
        (answer,) = fed(engine, "s" + message(9, "mcp/message", params))
        return str(answer["result"]["result"]["content"][0]["text"])  # type: ignore[index]

    first = Engine(proxy)
    fed(first, configure(""))
    one, two = begun(first, "one"), begun(first, "two")
    assert kept == {one: {"session": "one", "cwd": "/one"}, two: {"session": "two", "cwd": "/two"}}
    second = Engine(proxy)
    fed(second, configure("2", kept))
    assert called(second, one) == "one in /one"
    assert proxy_sessions(second) == ["one"]
    three = begun(second, "three")
    third = Engine(proxy)
    fed(third, configure("3", kept))
    assert [called(third, one) for one in (two, three)] == ["two in /two", "three in /three"]
    for session in ("one", "two"):
        (asked,) = fed(third, "p" + message(1, "session/close", {"sessionId": session}))
        fed(third, "s" + json.dumps({"id": asked["id"], "result": {}}))
    assert (kept[one], kept[two]) == (None, None)
    assert kept[three] == {"session": "three", "cwd": "/three"}
    assert called(third, one) == "nobody"
    forgetful = Engine(proxy)
    fed(forgetful, configure("4"))
    assert called(forgetful, one) == "nobody"


@dataclass
class Seen:
    """The state of a session in a proxy of the test below."""

    count: int = 0
    words: set[str] = field(default_factory=set)
    inner: list[Config] = field(default_factory=list)
    forgotten: int = 0


@dataclass
class Config:
    """Something within."""

    name: str = ""


def counting() -> Proxy[Any]:
    """A proxy that answers prompts with its state, and keeps all but one member of the state."""
    proxy = Proxy("counting", session=Seen)

    @proxy.request("session/prompt")
    def prompt(request: Request) -> dict[str, object]:
        state, session = request.state, request.session
        state.count, state.forgotten = state.count + 1, state.forgotten + 1
        state.words.add(request.text)
        state.inner.append(Config(request.text))
        session.keep("count", "words", "inner")
        proxy.keep("all", [*(proxy.kept("all") or []), request.text])
        told = [state.count, sorted(state.words), len(state.inner), state.forgotten]
        session.say(f"{told} {session.cwd} {session.began} {proxy.kept('all')}")
        return {"stopReason": "end_turn"}

    return proxy


async def test_what_an_author_has_kept_is_there_in_the_next_life() -> None:
    async with Playground(counting()) as p:
        session = await p.new_session()
        first = await p.prompt("a")
        assert first.text == "[1, ['a'], 1, 1] /project session/new None"
        p.restart(counting())
        assert (await p.prompt("b")).text == "[2, ['a', 'b'], 2, 1] /project session/new ['a']"
        p.restart()
        third = "[3, ['a', 'b', 'c'], 3, 1] /project session/new ['a', 'b']"
        assert (await p.prompt("c")).text == third
        p.services.kept[f"session:{session}"]["state"] |= {"count": "no number", "gone": 1}
        p.restart()
        assert (await p.prompt("d")).text.startswith("[1, ['a', 'b', 'c', 'd'], 4, 1]")
        await p.request("session/close", {"sessionId": session})
        assert list(p.services.kept) == ["value:all"]
        p.restart()
        assert (await p.prompt("e")).text.startswith("[1, ['e'], 1, 1] None None")


async def test_what_is_the_same_is_kept_once_and_what_cannot_be_is_said() -> None:
    proxy = Proxy("keeping", session=Seen)
    failures: list[str] = []

    @proxy.request("session/prompt")
    def prompt(request: Request) -> None:
        request.session.keep()
        request.session.keep()
        try:
            request.session.keep("cuont")
        except TypeError as error:
            failures.append(str(error))
        request.session.state = {}
        try:
            request.session.keep()
        except TypeError as error:
            failures.append(str(error))

    async with Playground(proxy) as p:
        await p.prompt("a")
        assert len([one for one in p.lines if '"method":"keep"' in one]) == 1
    assert failures == [
        "`keep`: there is no `cuont` in the state; there is: count, words, inner, forgotten",
        "`keep`: the state is a dataclass; `dict` is none",
    ]


def proxy_sessions(engine: Engine) -> list[str]:
    """The sessions that a proxy has."""
    return sorted(engine.sessions)


def configure(instance: str, kept: dict[str, object] | None = None) -> str:
    told = {"name": "it", "config": {}, **({"instance": instance} if instance else {})}
    told |= {"kept": kept} if kept else {}
    return "c" + json.dumps({"jsonrpc": "2.0", "method": "configure", "params": told})


def message(id_: int, method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
