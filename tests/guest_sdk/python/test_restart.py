"""A proxy with tools is started again: sessions go on, and their tools with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from guest_sdk.python import Proxy
from guest_sdk.python.engine import Engine
from tests.e2e.rig import Rig

from .test_cli import agent

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

MODERN = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
SOURCE = """
from guest_sdk.python import Call, Proxy

proxy = Proxy("counting", profile="tools")

@proxy.tool
def whoami(call: Call) -> str:
    return "VERSION " + (call.session.id if call.in_session else "nobody")
"""


def test_tools_go_on_in_open_sessions(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(SOURCE, encoding="utf-8")
    chain = agent(rig, str(path), rig.demo(), options=("--watch",))
    first = chain.begin()
    assert chain.prompt(first, "/tool whoami") == f"VERSION {first}"

    edited = tmp_path / "edited"
    edited.write_text(SOURCE.replace("VERSION", "SECOND"), encoding="utf-8")
    shutil.move(edited, path)
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(first, "/tool whoami") == "SECOND nobody"
    second = chain.new_session()
    assert chain.prompt(second, "/tool whoami") == f"SECOND {second}"
    assert chain.prompt(first, "/tool whoami") == "SECOND nobody"


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


def configure(instance: str) -> str:
    told = {"name": "it", "config": {}, **({"instance": instance} if instance else {})}
    return "c" + json.dumps({"jsonrpc": "2.0", "method": "configure", "params": told})


def message(id_: int, method: str, params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
