"""Promises of the documents on limits, health, traces, sandbox and rights, by the real command.

Components that fail are in `test_recovery.py`, more hostile guests in `test_hostile_guests.py`,
more attempts to get past a policy in `test_policy_attacks.py`.
"""

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.attacks import KEY
from tests.e2e.test_policy_attacks import Carrier
from tests.harness.process.client import Json, Refusal
from tests.harness.process.command import conductor
from tests.harness.process.rig import Chain, Rig
from tests.places import DEADLINE
from tests.record.trace import pairs

# -- 19: extension messages ------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["guest", "acp", "sdk", "sacp", "pacp"])
def test_extension_messages_between_proxies(rig: Rig, dialect: str) -> None:
    """A component asks up and down: whoever handles a message answers; else the component gets it
    back."""
    asks = Carrier(dialect, "full", granted=("extension:_vendor/*",)).component(rig)
    above = rig.x("above", "--answer", "_vendor/up")
    below = rig.x("below", "--answer", "_vendor/down")
    chain = rig.agent(above, asks, below, rig.demo())
    session = chain.begin()
    said = []
    for side, names in (("p", ("up", "nobody")), ("s", ("down", "nobody"))):
        for name in names:
            frame = f'{{"jsonrpc":"2.0","id":"{side}-{name}","method":"_vendor/{name}"}}'
            said.append(side + frame)
    order = f"@@p{(chr(10).join(said) + chr(10) + chr(2)).encode().hex()}@@"
    prompt = [{"type": "text", "text": "/echo on"}]
    params = {"sessionId": session, "prompt": prompt, "_meta": {KEY: order}}
    assert chain.request("session/prompt", params)["result"] == {"stopReason": "end_turn"}
    assert chain.texts(session) == ["on"]
    assert _answered(rig, "above", "_vendor/up") == {"answeredBy": "above"}
    assert _answered(rig, "below", "_vendor/down") == {"answeredBy": "below"}
    assert len(chain.seen("_vendor/nobody")) == 1
    assert chain.seen("_vendor/up") == chain.seen("_vendor/down") == []
    methods = rig.methods("A")
    assert "_vendor/nobody" in methods
    assert not {"_vendor/up", "_vendor/down"} & set(methods)
    if dialect != "guest":

        def answers() -> dict[str, Any]:
            return {str(one.frame.get("id")): one.frame for one in rig.log("evil", "in")}

        # The answers come by other ways than the end of the turn, perhaps after it.
        wanted = {"p-up", "p-nobody", "s-down", "s-nobody"}
        chain.until(lambda: wanted <= answers().keys(), "all answers")
        heard = answers()
        assert heard["p-up"]["result"] == {"answeredBy": "above"}
        assert heard["s-down"]["result"] == {"answeredBy": "below"}
        for asked_of in ("p-nobody", "s-nobody"):
            assert heard[asked_of]["error"]["code"] == -32601
    # Nobody else has heard of an error: the client got answers to what it asked, and nothing else.
    assert not [frame for frame in chain.frames if "error" in frame]
    assert chain.finish() == 0


def _answered(rig: Rig, name: str, method: str) -> object:
    """The result that a proxy gave to the one request of a method, in whatever envelope."""
    (asked,) = [one.frame for one in rig.log(name, "in") if method.encode() in one.raw]
    (said,) = [
        one.frame["result"]
        for one in rig.log(name, "out")
        if one.frame.get("id") == asked["id"] and "result" in one.frame
    ]
    return said


# -- 112: retries, health ----------------------------------------------------------------------


def late(rig: Rig, fails: int, tries: Path, *flags: str, **more: str) -> str:
    """A proxy that fails so many times before it starts."""
    program = ("--tries", str(tries), "--fails", str(fails), "--mark", "P was here", *flags)
    return json.dumps({**json.loads(rig.actor("late_starter", *program, name="P")), **more})


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("fails", [1, 3])
def test_a_proxy_starts_only_when_it_is_tried_again(
    rig: Rig, tmp_path: Path, fails: int, told: bool
) -> None:
    more = {"dialect": "acp"} if told else {}
    proxy = late(rig, fails, tmp_path / "tries", on_failure="restart", **more)
    chain = rig.agent("passthrough", proxy, rig.demo())
    assert "P was here" in chain.prompt(chain.begin(), "hello")
    assert (tmp_path / "tries").read_text() == "x" * (fails + 1)
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_before_anybody_has_asked_it(rig: Rig, tmp_path: Path) -> None:
    proxy = late(rig, 2, tmp_path / "tries", on_failure="restart", dialect="acp")
    chain = rig.agent(proxy, rig.demo())
    chain.until_stderr("it is started again (2 of 3)")
    assert "P was here" in chain.prompt(chain.begin(), "hello")
    assert chain.finish() == 0


def test_one_that_never_starts_is_named(rig: Rig, tmp_path: Path) -> None:
    proxy = late(rig, 99, tmp_path / "tries", on_failure="restart", dialect="acp")
    chain = rig.agent(rig.x("X"), proxy, rig.demo())
    error = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})["error"]
    assert "proxy `P`" in error["message"]
    assert "exited with code 3; its last words: not yet" in error["message"]
    assert chain.exit_code() == 1
    assert (tmp_path / "tries").read_text() == "xxxx"
    assert rig.leftovers(chain) == []


@pytest.mark.proves("conductor shows the state of")
@pytest.mark.parametrize("isolation", ["process", "separate", "inline"])
def test_health_is_listed(rig: Rig, isolation: str) -> None:
    proxy = json.loads(rig.x("P", "--die-on", "drop dead"))
    proxy = json.dumps({**proxy, "on_failure": "restart"})
    options = ("-c", f"isolation={isolation}")
    chain = rig.agent("passthrough", "datetime", proxy, rig.demo(), options=options)
    session, other = chain.begin(), chain.new_session()
    assert "error" in chain.answer(chain.start_prompt(session, "drop dead"))
    chain.until_stderr("started again (1 of 3)")
    hang = chain.start_prompt(other, "/hang")
    chain.prompt(session, "hello")
    expected = [
        "client: waits for 1 answer",
        "passthrough: running, owes 1 answer",
        "datetime: running, owes 1 answer",
        "P: running, started again 1 time, owes 1 answer",
        "A: running, owes 1 answer",
    ]
    # An answer that `datetime` may not change passes it by: it owes its own for a moment more.
    deadline = time.monotonic() + DEADLINE
    while (health := _health(chain)) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert health == expected
    chain.notify("session/cancel", {"sessionId": other})
    chain.answer(hang)
    assert chain.finish() == 0


def _health(chain: Chain) -> list[str]:
    """The conductor's lines on the health of its components."""
    before = chain.stderr.count("health: ")
    os.kill(chain.process.pid, signal.SIGUSR1)
    chain.until(lambda: chain.stderr.count("health: ") >= before + 5, "the health of all")
    lines = [line for line in chain.stderr.splitlines() if line.startswith("health: ")]
    return [line.removeprefix("health: ") for line in lines][before : before + 5]


# -- 114: traces -----------------------------------------------------------------------------------

MARK: Final = "Kestrel"
TALK: Final = (
    f"say {MARK}", f"/toolcall {MARK}", f"/permission {MARK}", f"/read {MARK}.txt",
    f"/write {MARK}.txt {MARK}", f'/ext _x {{"{MARK}": 1}}', f"/thought {MARK}", "/plan", "/usage",
    f'/meta {{"{MARK}": "{MARK}"}}', f"/ask {MARK}",
)  # fmt: skip
TOOLS: Final = (f'/tool echo {{"text": "{MARK}"}}', f'/tool {MARK} {{"{MARK}": "{MARK}"}}')


def talk(rig: Rig, version: int, trace: Path, content: str, prompts: tuple[str, ...]) -> Chain:
    """A conversation in which whatever can hold a word of the user or of the agent holds `MARK`.
    A component of its own lies in a folder of that name."""
    own = rig.folder / MARK / "own.wasm"
    own.parent.mkdir()
    shutil.copy(rig.bundled("passthrough"), own)
    options = ("--trace", str(trace), "-c", f"trace-content={content}")
    chain = rig.agent("datetime", f"{own},only=filter", "tools-demo", rig.demo(), options=options)

    def refuse(params: Json) -> Json:
        raise Refusal(json.dumps({"code": -32099, "message": MARK, "data": {MARK: MARK}}))

    chain.serves |= {
        "session/request_permission": lambda params: {
            "outcome": {"outcome": "selected", "optionId": "allow-once"}
        },
        "fs/read_text_file": lambda params: {"content": MARK},
        "fs/write_text_file": refuse,
        "elicitation/create": lambda params: {"action": "accept", "content": {MARK: MARK}},
    }
    can = {"fs": {"readTextFile": True, "writeTextFile": True}, "elicitation": {"form": {}}}
    who = {"name": MARK, "version": MARK}
    names = ("capabilities", "info") if version == 2 else ("clientCapabilities", "clientInfo")
    chain.initialize(protocolVersion=version, **dict(zip(names, (can, who), strict=True)))
    server = {"name": MARK, "command": f"/{MARK}", "args": [MARK], "env": []}
    session = chain.new_session(cwd=f"/{MARK}", mcpServers=[server])
    for number, prompt in enumerate(prompts, 1):
        chain.answer(chain.start_prompt(session, prompt))
        if version == 2:
            chain.until(lambda: _ends(chain) == number, f"the end of {prompt}")  # noqa: B023
    params = {"sessionId": MARK.lower(), "cwd": f"/{MARK}", "mcpServers": []}
    assert "error" in chain.request("session/load", params)
    assert chain.finish() == 0
    return chain


def _ends(chain: Chain) -> int:
    """How many turns of ACP v2 have ended."""
    updates = (frame["params"]["update"] for frame in chain.seen("session/update"))
    return sum(update.get("state") == "idle" for update in updates)


def _counts(events: Iterable[Json], *ends: str) -> Counter[str]:
    """Messages by method; of answers only their number."""
    return Counter(event.get("method", "") for event in events if event["to"] in ends)


@pytest.mark.proves("a trace without content has nothing")
@pytest.mark.parametrize("version", [1, 2])
def test_without_content_a_trace_counts_and_has_no_payload(
    rig: Rig, tmp_path: Path, version: int
) -> None:
    file = tmp_path / "t"
    chain = talk(rig, version, file, "none", TALK + TOOLS if version == 1 else TALK)
    text = file.read_text()
    assert MARK in b"".join(chain.lines).decode()
    assert MARK not in text
    events = [json.loads(line) for line in text.splitlines()]
    events = [one for one in events if one["type"] != "_conductor"]
    assert pairs.wrong(pairs.read(file)) == []
    acp = [one for one in events if one.get("protocol", "acp") == "acp"
           and one["_conductor"].get("protocol") != "mcp"]  # fmt: skip
    assert all(one.get("params", one.get("payload")) is None for one in events)
    assert _counts(acp, "client") == Counter(frame.get("method", "") for frame in chain.frames)
    agent = Counter(one.frame.get("method", "") for one in rig.log("A", "in"))
    assert _counts(acp, "agent") == agent


def test_a_trace_replays_to_the_same_log(rig: Rig, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    chain = talk(rig, 1, first, "all", TALK)
    ran = conductor("log", "replay", str(first), "--trace", str(second))
    assert ran.code == 0, ran.out + ran.err
    got = [
        (frame.get("method"), frame.get("params", frame.get("result", frame.get("error"))))
        for frame in chain.frames
    ]
    again = [json.loads(line) for line in second.read_bytes().splitlines()]
    assert got == [
        (one.get("method"), one["params"] if "method" in one else one["payload"])
        for one in again
        if one.get("to") == "client"
    ]


# -- 116: the sandbox ----------------------------------------------------------------------------


@pytest.mark.proves("a guest cannot reach files, sockets")
def test_files_sockets_and_environment_are_out_of_reach(rig: Rig) -> None:
    evil = f"{rig.hostile('wasi_reach')},on_failure=bypass"
    chain = rig.agent("passthrough", evil, rig.demo(), options=("-c", "grace=0.2"))
    chain.initialize()
    chain.until_stderr("the chain goes on without it")
    assert "`wasi_reach`" in chain.stderr
    assert "exited with code 42" in chain.stderr  # 99 is what it would say of any success
    assert chain.prompt(chain.begin(), "/echo on") == "on"
    assert chain.finish() == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [("loop_deliver", "limit cpu_ms of 100 ms"), ("grow_forever", "its limit memory_bytes is")],
)
def test_endless_loop_and_memory(rig: Rig, name: str, says: str) -> None:
    evil = f"{rig.hostile(name)},limit.cpu_ms=100,on_failure=bypass"
    chain = rig.agent("passthrough", evil, rig.demo())
    chain.initialize()
    chain.until_stderr("the chain goes on without it")
    assert says in chain.stderr
    assert f"`{name}`" in chain.stderr
    assert chain.prompt(chain.new_session(), "/echo on") == "on"
    assert chain.finish() == 0


# -- 117: what a proxy may do is the user's choice -------------------------------------------------


@pytest.mark.parametrize("kind", ["guest", "program"])
@pytest.mark.parametrize("granted", [True, False])
def test_the_same_proxy_with_and_without_a_right(
    rig: Rig, kind: str, granted: bool, tmp_path: Path
) -> None:
    rights = f"serve:tools+{'change' if granted else 'see'}:prompts"
    if kind == "guest":
        proxy = f"datetime,only={rights}+clock"
    else:
        program = json.loads(rig.x("datetime", "--mark", "<current-date"))
        proxy = json.dumps({**program, "only": rights})
    audit = tmp_path / "audit"
    chain = rig.agent(proxy, rig.demo(), options=("--audit", str(audit)))
    session = chain.begin()
    answer = chain.prompt(session, "hello")
    assert ("<current-date" in answer) is granted
    assert "hello" in answer
    assert chain.finish() == 0
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    broken = [one for one in records if one["event"] == "violation"]
    found = [(one["component"], one["rule"], one["method"]) for one in broken]
    assert found == ([] if granted else [("datetime", "rights", "session/prompt")])
    assert ("may not change `session/prompt`" in chain.stderr) is not granted
