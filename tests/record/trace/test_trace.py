"""`--trace FILE` through the real command line: every hop once, in order, and no secret."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.spec.paths import components_folder
from tests.harness.process import forks
from tests.harness.process.command import COMMAND, conductor, environment
from tests.places import ACTORS, DEADLINE
from tests.record.trace import pairs

Event = dict[str, Any]

WHOLE = "datetime,only=trusted"
"""A proxy by which nothing passes unseen."""

FORWARDS = "passthrough,only=trusted"
"""The same."""

DEMO: Final = f"{sys.executable} {components_folder() / 'demo' / 'agent.py'}"
PROMPT: Final = "the quick brown fox"
SECRET: Final = "hunter2-hunter2"  # noqa: S105 - what shall not be found
REFERENCE: Final = shutil.which("agent-client-protocol-conductor")

PROXY: Final = (ACTORS / "forward.py").read_text("utf-8")
"""A proxy of dialect `acp` that forwards everything."""

FIELDS: Final = {
    "request": {"type", "ts", "protocol", "from", "to", "id", "method", "params"},
    "response": {"type", "ts", "from", "to", "id", "is_error", "payload"},
    "notification": {"type", "ts", "protocol", "from", "to", "method", "params"},
}
"""The members that the reference's types require, by kind."""

OPTIONAL: Final = {
    "request": {"session"},
    "response": {"error_domain"},
    "notification": {"session"},
}


def lines(*frames: tuple[str, object] | tuple[str, object, int]) -> bytes:
    """The lines of a client: `(method, params)` is a notification, with an id a request."""
    text = ""
    for method, params, *ids in frames:
        frame = {"jsonrpc": "2.0", "method": method, "params": params}
        text += json.dumps(frame | ({"id": ids[0]} if ids else {})) + "\n"
    return text.encode()


def conversation(prompt: str = PROMPT) -> bytes:
    """A turn with the demo agent, whose first session is `demo-1`, and a request that it
    refuses."""
    env = [{"name": "KEY", "value": SECRET}]
    server = {"name": "x", "command": "/bin/x", "args": ["--token", SECRET], "env": env}
    blocks = [{"type": "text", "text": prompt}]
    return lines(
        ("initialize", {"protocolVersion": 1}, 1),
        ("session/new", {"cwd": "/", "mcpServers": [server]}, 2),
        ("session/prompt", {"sessionId": "demo-1", "prompt": blocks}, 3),
        ("session/cancel", {"sessionId": "demo-1"}),
        ("_unknown", {}, 4),
    )


def events(file: Path) -> list[Event]:
    """The messages of a trace between components, each as the schema has it.

    Those to and from the conductor itself are `services`; what is recorded is of no known type.
    """
    found = [one for one in everything(file) if "conductor" not in (one["from"], one["to"])]
    times = [event["ts"] for event in found]
    assert times == sorted(times)
    return found


def services(file: Path) -> list[Event]:
    """The messages between components and the conductor itself."""
    return [one for one in everything(file) if "conductor" in (one["from"], one["to"])]


def everything(file: Path) -> list[Event]:
    """All events of a trace."""
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert lines[0]["type"] == "_conductor"
    found = [one for one in lines if one["type"] != "_conductor"]
    for event in found:
        kind = event["type"]
        names = set(event) - {"_conductor"}
        assert FIELDS[kind] <= names <= FIELDS[kind] | OPTIONAL[kind], event
        assert type(event["ts"]) is float
        assert event.get("protocol", "acp") in ("acp", "mcp")
    return found


def talk(command: list[str], said: bytes) -> int:
    """Plays a client that waits for each answer before it goes on; the exit code."""
    return _talk(command, said, [])


def heard(command: list[str], said: bytes) -> list[Event]:
    """The events of a command with these lines; the client's messages."""
    got: list[Event] = []
    assert _talk(command, said, got) == 0
    return got


def _talk(command: list[str], said: bytes, got: list[Event], raw: list[bytes] | None = None) -> int:
    streams = (subprocess.PIPE, subprocess.PIPE, 2)
    process = forks.start(command, environment(), streams=streams)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout, open(process.stdout.fileno(), "rb", closefd=False) as out:
        for asked in said.splitlines(keepends=True):
            process.stdin.write(asked)
            wanted = json.loads(asked).get("id")
            while wanted is not None:
                line = out.readline()
                got.append(json.loads(line))
                if raw is not None:
                    raw.append(line)
                if got[-1].get("id") == wanted:
                    break
        process.stdin.close()
        got += map(json.loads, out)
        return process.wait(DEADLINE)


def trace(file: Path, *arguments: str, said: bytes = b"") -> list[Event]:
    """Runs `conductor agent` over a conversation; its trace."""
    command = [*COMMAND, "agent", "--trace", str(file), *arguments]
    assert talk(command, said or conversation()) == 0
    return events(file)


def route(event: Event) -> tuple[str, str, str, str]:
    """The way of an event: its type, its sender, its receiver, its method."""
    method = event.get("method") or event["_conductor"]["method"]
    return event["type"], event["from"], event["to"], method


@pytest.fixture
def proxy() -> str:
    """A proxy in a process of its own; its name is `forward`."""
    return f"{sys.executable} {ACTORS / 'forward.py'}"


def test_every_hop_is_there_once_and_in_order(tmp_path: Path, proxy: str) -> None:
    found = trace(tmp_path / "t", WHOLE, FORWARDS, proxy, DEMO)
    chain = ["client", "datetime", "passthrough", "forward", "agent"]
    down = list(pairwise(chain))
    up = [(to, source) for source, to in reversed(down)]
    for method in ("initialize", "session/new", "session/prompt", "_unknown"):
        asked = [e for e in found if e["type"] == "request" and e["method"].endswith(method)]
        answered = [e for e in found if e["type"] == "response" and route(e)[3].endswith(method)]
        assert [(e["from"], e["to"]) for e in asked] == down
        assert [(e["from"], e["to"]) for e in answered] == up
        assert [e["id"] for e in answered] == [e["id"] for e in reversed(asked)]
        assert all(e["is_error"] == (method == "_unknown") for e in answered)
        assert all(e["_conductor"]["ms"] >= 0 for e in answered)
        # From what the client said to what the agent got, and back.
        numbers = [e["_conductor"]["n"] for e in asked]
        assert [e["_conductor"].get("passes") for e in asked] == [None, *numbers[:-1]]
        numbers = [e["_conductor"]["n"] for e in answered]
        assert [e["_conductor"].get("passes") for e in answered] == [None, *numbers[:-1]]
        assert [e["_conductor"]["of"] for e in answered[::-1]] == [
            e["_conductor"]["n"] for e in asked
        ]
    cancels = [e for e in found if e.get("method") == "session/cancel"]
    assert [(e["from"], e["to"]) for e in cancels] == down
    updates = [e for e in found if e.get("method") == "session/update"]
    assert len(updates) % len(up) == 0
    for hop in up:
        texts = [e["params"]["update"]["content"]["text"] for e in updates if route(e)[1:3] == hop]
        assert "".join(texts).endswith(PROMPT)
        assert len(texts) == len(updates) / len(up)
    assert len(found) == 8 * len(down) + len(cancels) + len(updates)


def test_what_passes_a_guest_unseen_is_not_shown_as_going_to_it(tmp_path: Path) -> None:
    """Neighbours in one process: a proxy with `change:prompts` is given prompts; one with `full`
    set-ups of sessions and what the agent says as well, but nothing that nobody may touch."""
    seen = {"session/prompt"}
    for chain in (("datetime", "passthrough"), ("passthrough", "datetime")):
        for event in trace(tmp_path / "t", *chain, DEMO):
            *_, method = route(event)
            if method not in seen:
                assert "datetime" not in (event["from"], event["to"]), event
        found = [route(one) for one in events(tmp_path / "t")]
        for method in (*seen, "session/new", "initialize", "_unknown"):
            if method == "_unknown":
                way = []
            else:
                way = [one for one in chain if one != "datetime" or method in seen]
            hops = [one[1:3] for one in found if (one[0], one[3]) == ("request", method)]
            assert hops == list(pairwise(["client", *way, "agent"]))
        updates = [one[1:3] for one in found if one[3] == "session/update"]
        assert set(updates) == {("agent", "passthrough"), ("passthrough", "client")}


def test_the_trace_holds_what_the_client_got(tmp_path: Path) -> None:
    """In order, each message once, with all that was in it."""
    file = tmp_path / "t"
    command = [*COMMAND, "agent", "--trace", str(file), "datetime", "passthrough", DEMO]
    got = heard(command, conversation())
    traced = [one for one in events(file) if one["to"] == "client"]
    assert [one.get("method") for one in got] == [one.get("method") for one in traced]
    for message, event in zip(got, traced, strict=True):
        if "method" in message:
            assert event["params"] == message["params"]
        else:
            assert event["_conductor"]["id"] == message["id"]
            assert event["payload"] == message.get("result", message.get("error"))
    assert json.loads(file.read_bytes().splitlines()[-1])["ended"] == ""


def test_roles_sessions_and_sizes(tmp_path: Path, proxy: str) -> None:
    found = trace(tmp_path / "t", WHOLE, proxy, DEMO)
    roles = [e["method"] for e in found if e["type"] == "request"][:3]
    assert roles == ["initialize", "proxy/initialize", "initialize"]
    for event in found:
        kind, _, _, method = route(event)
        own = event["_conductor"]
        session = own.get("session") if kind == "response" else event.get("session")
        known = method.startswith("session/") and (method, kind) != ("session/new", "request")
        assert session == ("demo-1" if known else None), event
        if "mcpServers" not in json.dumps(event):  # else something was taken out
            payload = event["payload" if kind == "response" else "params"]
            shortest = json.dumps(payload, separators=(",", ":"), ensure_ascii=False)
            longest = json.dumps(payload)
            assert len(shortest.encode()) <= own["bytes"] <= len(longest)
    error = found[-1]
    assert (error["is_error"], error["error_domain"]) == (True, "acp")
    assert (error["_conductor"]["code"], error["_conductor"]["id"]) == (-32601, 4)


def test_an_id_stands_for_one_request(tmp_path: Path, proxy: str) -> None:
    """The viewer pairs a request and its response by receiver and id, over the whole file."""
    found = trace(tmp_path / "t", WHOLE, "passthrough", proxy, DEMO)
    numbers = [e["id"] for e in everything(tmp_path / "t") if e["type"] == "request"]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    asked = {e["id"]: (e["from"], e["to"]) for e in found if e["type"] == "request"}
    for event in found:
        if event["type"] == "response":
            assert asked.pop(event["id"]) == (event["to"], event["from"])
    assert asked == {}


@pytest.mark.parametrize("isolation", ["separate", "inline"])
def test_isolation_changes_nothing(tmp_path: Path, isolation: str) -> None:
    chain = ("datetime,only=full", "passthrough", "passthrough", DEMO)
    together = trace(tmp_path / "a", "-c", "clock=2026-03-01", *chain)
    apart = trace(tmp_path / "b", "-c", "clock=2026-03-01", "-c", f"isolation={isolation}", *chain)
    assert Counter(map(route, together)) == Counter(map(route, apart))
    assert {e["to"] for e in apart} == {
        "client", "datetime", "passthrough", "passthrough-2", "agent",
    }  # fmt: skip


CHAINS: Final = (
    ("datetime,only=full",),
    ("datetime", "passthrough,only=observer"),
    ("passthrough,only=filter", "datetime,only=trusted", "passthrough,only=serve:tools"),
    ("datetime", "passthrough,only=full", "PROXY", "passthrough,only=filter", "datetime"),
)


@pytest.mark.parametrize("isolation", ["process", "separate", "inline"])
@pytest.mark.parametrize("chain", CHAINS)
def test_every_request_is_answered_once_and_nobody_is_told_anything_else(
    tmp_path: Path, proxy: str, chain: tuple[str, ...], isolation: str
) -> None:
    file, audit = tmp_path / "t", tmp_path / "audit"
    components = [proxy if one == "PROXY" else one for one in chain]
    command = [*COMMAND, "agent", "-c", "clock=2026-03-01", "-c", f"isolation={isolation}"]
    got = [
        _bytes([*command, *options, *components, f"{DEMO} --log {tmp_path / name}"])
        for name, options in (("a", ()), ("b", ("--trace", str(file), "--audit", str(audit))))
    ]
    assert got[0] == got[1]
    # The agent is told the same, too.
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pairs.wrong(pairs.read(file)) == []


def _bytes(command: list[str]) -> bytes:
    """All that a client is told, as it is written."""
    said: list[bytes] = []
    assert _talk(command, conversation(), [], said) == 0
    return b"".join(said)


def test_a_trace_of_a_conductor_within_another(tmp_path: Path, proxy: str) -> None:
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    nested = f"{sys.executable} -m conductor proxy --trace {inner} datetime passthrough"
    command = [*COMMAND, "agent", "--trace", str(outer), "passthrough", nested, proxy, DEMO]
    assert talk(command, conversation()) == 0
    assert pairs.wrong(pairs.read(inner)) == pairs.wrong(pairs.read(outer)) == []


@pytest.mark.proves("by default neither messages nor")
def test_secrets_are_taken_out_unless_asked_for(tmp_path: Path) -> None:
    found = trace(tmp_path / "t", "passthrough", "passthrough", DEMO)
    assert SECRET not in (tmp_path / "t").read_text()
    servers = [e["params"]["mcpServers"] for e in found if "mcpServers" in str(e)]
    assert len(servers) == 3
    for (server,) in servers:
        assert server["env"] == [{"name": "KEY", "value": "[redacted]"}]
        assert server["args"] == ["--token", "[redacted]"]
        assert server["command"] == "/bin/x"
    trace(tmp_path / "t", "-c", "trace-content=all", "passthrough", "passthrough", DEMO)
    assert (tmp_path / "t").read_text().count(SECRET) == 2 * 3, "two on each hop"


def test_exec_traces_and_overwrites_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "t"
    file.write_text("old\n" * 10_000)
    file.chmod(0o644)
    ran = conductor("exec", "--trace", str(file), "passthrough", "demo", "-p", PROMPT)
    assert (ran.code, ran.out) == (0, f"{PROMPT}\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = events(file)
    assert route(found[0]) == ("request", "client", "passthrough", "initialize")
    fresh = tmp_path / "fresh"
    conductor("exec", f"--trace={fresh}", "demo", "-p", PROMPT)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600
    assert {route(e)[1:3] for e in events(fresh)} == {("client", "agent"), ("agent", "client")}


def test_a_proxy_names_what_is_around_it(tmp_path: Path) -> None:
    file = tmp_path / "t"
    nested = f"{sys.executable} -m conductor proxy --trace {file} datetime passthrough"
    assert talk([*COMMAND, "agent", nested, DEMO], conversation()) == 0
    asked = [e for e in events(file) if e["type"] == "request" and e["method"] == "session/prompt"]
    assert [(e["from"], e["to"]) for e in asked] == [
        ("client", "datetime"),
        ("datetime", "passthrough"),
        ("passthrough", "agent"),
    ]


@pytest.mark.parametrize("command", ["agent", "proxy", "exec"])
@pytest.mark.parametrize("path", ["missing/t", ".", ""])
def test_a_file_that_cannot_be_written(tmp_path: Path, command: str, path: str) -> None:
    started = tmp_path / "started"
    component = f"{sys.executable} -c \"open('{started}', 'w')\""
    prompt = ("-p", "x") if command == "exec" else ()
    target = str(tmp_path / path) if path else ""
    request = lines(("initialize", {"protocolVersion": 1}, 1)) if command != "exec" else b""
    ran = conductor(command, "--trace", target, *prompt, component, stdin=request)
    ran.assert_error(2, f"cannot write the trace `{target}`: ", "hint: give a path")
    assert not started.exists()
    if request:
        assert "cannot write the trace" in json.loads(ran.out)["error"]["message"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device is only on Linux")
def test_a_full_disk_ends_the_trace_only() -> None:
    ran = conductor("exec", "--trace", "/dev/full", "datetime", "demo", "-p", f"/stream 300 {1000}")
    assert ran.code == 0
    assert len(ran.out) > 100_000  # several times what is held back
    assert ran.err.count("the trace `/dev/full` is incomplete") == 1
    assert "hint: " in ran.err


def test_large_messages_are_there_as_a_whole(tmp_path: Path) -> None:
    text = "x" * 3_000_000
    found = trace(tmp_path / "t", "passthrough", "passthrough", DEMO, said=conversation(text))
    prompts = [e for e in found if route(e)[::3] == ("request", "session/prompt")]
    assert [e["params"]["prompt"][0]["text"] == text for e in prompts] == [True] * 3


def test_what_just_fits_in_a_line_is_whole(tmp_path: Path) -> None:
    """Also between the guests of one host."""
    limit = 256 * 1024
    room = len(conversation().splitlines()[2]) - len(PROMPT)
    text = "y" * (limit - room - 60)
    options = ("-c", f"line-limit={limit}", "passthrough", "passthrough", DEMO)
    found = trace(tmp_path / "t", *options, said=conversation(text))
    first, between, last = [e for e in found if route(e)[::3] == ("request", "session/prompt")]
    assert first["params"] == between["params"] == last["params"]
    assert route(between)[1:3] == ("passthrough", "passthrough-2")


@pytest.mark.skipif(REFERENCE is None, reason="the reference conductor is not on PATH")
def test_the_reference_writes_the_same(tmp_path: Path, proxy: str) -> None:
    assert REFERENCE is not None
    theirs = tmp_path / "theirs"
    talk([REFERENCE, "--trace", str(theirs), "agent", proxy, DEMO], conversation())
    names = {"Client": "client", "Proxy(0)": "forward", "Agent": "agent"}
    expected = events(theirs)
    for event in expected:
        event["from"], event["to"] = names[event["from"]], names[event["to"]]
    found = trace(tmp_path / "ours", proxy, DEMO)

    def view(trace: list[Event]) -> Counter[str]:
        """The events without the members that depend on the moment: time, ids and our own."""
        own = ("ts", "id", "session", "_conductor")
        text = json.dumps([{k: v for k, v in e.items() if k not in own} for e in trace])
        text = text.replace("[REDACTED]", "[redacted]").replace(SECRET, "[redacted]")
        return Counter(json.dumps(e, sort_keys=True) for e in json.loads(text))

    assert view(expected) - view(found) == Counter()
    more = [json.loads(text) for text in view(found) - view(expected)]
    # A proxy's notifications of the client are missing in the reference's file.
    assert {route(event) for event in more} == {
        ("notification", "forward", "client", "session/update")
    }
