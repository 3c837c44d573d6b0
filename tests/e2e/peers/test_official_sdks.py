"""The official SDKs, Python and TypeScript, at both ends of a chain.

Every test runs over each pair of client and agent, with two sandboxed proxies between
them; the pairs with TypeScript need Node. What is asserted is read off the client's
connection.
"""

import json
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.plan import Plan, Transcript, Turn
from tests.e2e.peers.python_client import run_python_client
from tests.e2e.peers.typescript_client import run_typescript_client

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

CHAIN = ("passthrough", "datetime")
SDKS = ("python", "typescript")
PAIRS = [(client, agent) for client in SDKS for agent in SDKS]


@dataclass(frozen=True, slots=True)
class SdkPair:
    """A pair of SDKs with a chain between them."""

    client: str
    agent: str
    chain: tuple[str, ...]
    launch: Launch
    node: NodePeers | None
    cwd: Path

    def run(
        self,
        *prompts: str,
        permission: str | None = None,
        cancel_on: str | None = None,
        files: dict[str, str] | None = None,
    ) -> Transcript:
        """Send the prompts through the chain with this rig's client."""
        plan = Plan(
            command=self.launch.agent(*self.chain, self._agent_command()),
            prompts=prompts,
            cwd=self.cwd,
            env=self.launch.env,
            permission=permission,
            cancel_on=cancel_on,
            files=files or {},
        )
        if self.client == "python":
            return run_python_client(plan)
        return run_typescript_client(self._node(), plan)

    def _agent_command(self) -> str:
        if self.agent == "python":
            script = Path(__file__).with_name("python_agent.py")
            return shlex.join([sys.executable, str(script)])
        node = self._node()
        return shlex.join([node.node, str(node.scripts / "agent.mjs")])

    def _node(self) -> NodePeers:
        assert self.node is not None
        return self.node


@pytest.fixture(params=PAIRS, ids="-".join)
def rig(request: pytest.FixtureRequest, launch: Launch, tmp_path: Path) -> SdkPair:
    """A pair of SDKs with `CHAIN` between them."""
    client, agent = request.param
    needs_node = "typescript" in (client, agent)
    node: NodePeers | None = request.getfixturevalue("node_peers") if needs_node else None
    return SdkPair(client, agent, CHAIN, launch, node, tmp_path)


def test_session_is_set_up_and_ends_cleanly(rig: SdkPair) -> None:
    seen = rig.run("count 1")

    assert seen.protocol_version == 1
    assert seen.agent_name == f"{rig.agent}-sdk-agent"
    assert seen.session_id == f"{rig.agent}-1"
    assert seen.exit_code == 0


def test_updates_arrive_in_order_before_the_answer_of_their_turn(rig: SdkPair) -> None:
    seen = rig.run("count 300", "count 3")

    expected = tuple(str(n) for n in range(300))
    assert seen.turns == (
        Turn(expected, "end_turn", None),
        Turn(("0", "1", "2"), "end_turn", None),
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [("allow_once", "selected once"), ("reject_once", "selected never"), (None, "cancelled")],
)
def test_permission_goes_to_the_client_and_its_answer_back(
    rig: SdkPair, kind: str | None, told: str
) -> None:
    seen = rig.run("permission", permission=kind)

    [asked] = seen.received("session/request_permission")
    assert asked["sessionId"] == seen.session_id
    assert asked["toolCall"] == {"toolCallId": "call-1", "title": "Launch"}
    assert [option["kind"] for option in asked["options"]] == [
        "allow_always",
        "allow_once",
        "reject_once",
    ]
    assert seen.turns == (Turn((told,), "end_turn", None),)


def test_client_serves_a_file_in_the_middle_of_a_turn(rig: SdkPair) -> None:
    path = str(rig.cwd / "notes.txt")
    text = 'zwölf "Boxkämpfer"\n\u2028\U0001f95a\n'

    seen = rig.run(f"read {path}", files={path: text})

    assert seen.turns == (Turn((text,), "end_turn", None),)


def test_cancel_ends_the_turn_and_leaves_the_session_usable(rig: SdkPair) -> None:
    seen = rig.run("wait", "count 2", cancel_on="waiting")

    assert seen.turns == (
        Turn(("waiting",), "cancelled", None),
        Turn(("0", "1"), "end_turn", None),
    )


def test_error_of_the_agent_reaches_the_client_whole(rig: SdkPair) -> None:
    seen = rig.run("nonsense", "count 1")

    refusal = {"code": -32042, "message": "no such command", "data": {"command": "nonsense"}}
    assert seen.turns == (Turn((), None, refusal), Turn(("0",), "end_turn", None))


@pytest.mark.parametrize(
    "chain",
    [(), ("passthrough",), ("datetime",), CHAIN, ("datetime", "passthrough", "datetime")],
    ids=lambda chain: "+".join(chain) or "bare",
)
def test_prompt_reaches_the_agent_as_the_chain_makes_it(
    rig: SdkPair, chain: tuple[str, ...]
) -> None:
    seen = replace(rig, chain=chain).run("blocks")

    [turn] = seen.turns
    *added, sent = json.loads("".join(turn.texts))
    assert sent == {"type": "text", "text": "blocks"}
    assert len(added) == chain.count("datetime")
    assert all(block["text"].startswith("<current-date date=") for block in added)
