"""The native programs: the agent and the proxy line by line, the client over chains."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import native, proctree
from benchmarks.chains import ALONE, RELAY, Cast, Chain, Kind, Runner, command
from benchmarks.measure import Workload, measure, warm_up
from benchmarks.metrics import METRICS, Step
from benchmarks.native import BuildError, Programs
from benchmarks.run import run
from benchmarks.session import ChainError, Session

pytestmark = pytest.mark.skipif(
    native.compiler() is None, reason="needs a C compiler: cc, or the ziglang package"
)

TINY = Workload(
    rounds=1,
    spawns=2,
    turns=5,
    turns_each=2,
    stream_count=300,
    paced_count=5,
    big_count=1,
    unread_count=300,
    prompts=5,
)


class Peer:
    """A program spoken to in lines, with a deadline on every answer.

    What is sent in one go, and what comes of it, must fit a pipe: nobody reads meanwhile.
    """

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._waiting = b""

    def send(self, data: bytes) -> None:
        self._in.write(data)
        self._in.flush()

    def line(self) -> bytes:
        while b"\n" not in self._waiting:
            ready, _, _ = select.select([self._out], [], [], 30)
            assert ready, f"no line within 30 s; so far {self._waiting[:200]!r}"
            chunk = os.read(self._out.fileno(), 1 << 20)
            assert chunk, f"ended after {self._waiting[:200]!r}"
            self._waiting += chunk
        line, self._waiting = self._waiting.split(b"\n", 1)
        return line

    def end(self) -> bytes:
        """Closes its input; all it still says. It must end with 0."""
        rest, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0
        return self._waiting + rest


@pytest.fixture(scope="module")
def programs(built: Path) -> Programs:
    return native.build_c(built)


@pytest.fixture
def agent(programs: Programs) -> Iterator[Peer]:
    peer = Peer([str(programs.agent)])
    yield peer
    peer.end()


@pytest.fixture
def proxy(programs: Programs) -> Iterator[Peer]:
    peer = Peer([str(programs.proxy)])
    yield peer
    peer.end()


def prompt(text: str, request_id: str = "1", session: str = '"s"') -> bytes:
    return (
        f'{{"jsonrpc":"2.0","id":{request_id},"method":"session/prompt","params":{{"sessionId":'
        f'{session},"prompt":[{{"type":"text","text":"{text}"}}]}}}}\n'
    ).encode()


def update_text(line: bytes) -> str:
    message = json.loads(line)
    assert message["method"] == "session/update"
    update = message["params"]["update"]
    assert update["sessionUpdate"] == "agent_message_chunk"
    text = update["content"]["text"]
    assert isinstance(text, str)
    return text


# --- building


def test_a_second_build_finds_the_first(built: Path, programs: Programs) -> None:
    made = {path: path.stat().st_mtime_ns for path in built.iterdir()}
    assert native.build_c(built) == programs
    assert {path: path.stat().st_mtime_ns for path in built.iterdir()} == made
    assert set(made) >= {programs.agent, programs.proxy, programs.client}


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the ziglang package")
def test_the_guest_that_changes_prompts_is_built_once(tmp_path: Path) -> None:
    guest = native.build_changing(tmp_path)
    assert guest.read_bytes().startswith(b"\0asm")
    made = guest.stat().st_mtime_ns
    assert native.build_changing(tmp_path) == guest
    assert guest.stat().st_mtime_ns == made


def test_without_its_compiler_the_guest_is_named_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.build.PACKAGE", "no_such_package")
    with pytest.raises(BuildError, match=r"changing\.c: no_such_package exited") as error:
        native.build_changing(tmp_path)
    assert error.value.hint.startswith("pip install ")
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_fails_is_named_with_what_it_said(tmp_path: Path) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no such flag')"]
    with pytest.raises(BuildError, match=r"agent\.c was not built(.|\n)*no such flag") as error:
        native.build_c(tmp_path, broken)
    assert error.value.hint.startswith("run `")
    with pytest.raises(BuildError, match="was not built"):
        native.build_c(tmp_path, [str(tmp_path / "nowhere")])
    assert list(tmp_path.iterdir()) == []


def test_no_compiler_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "compiler", lambda: None)
    with pytest.raises(BuildError, match="no C compiler") as error:
        native.build_c(tmp_path)
    assert "ziglang" in error.value.hint


def test_no_cargo_no_sdk_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="cargo"):
        native.build_sdk_proxy(tmp_path)


# --- the agent


@pytest.mark.parametrize("request_id", ["7", '"x\\"y"', "-9223372036854775808", "null", '""'])
def test_agent_returns_ids_as_they_came(agent: Peer, request_id: str) -> None:
    agent.send(f'{{"jsonrpc":"2.0","id":{request_id},"method":"session/new"}}\n'.encode())
    assert agent.line() == (
        f'{{"jsonrpc":"2.0","id":{request_id},"result":{{"sessionId":"bench-1"}}}}'.encode()
    )


def test_agent_initializes_and_gives_each_session_an_id(agent: Peer) -> None:
    agent.send(b'{"id":0,"method":"initialize","params":{"protocolVersion":1},"jsonrpc":"2.0"}\n')
    assert json.loads(agent.line())["result"]["protocolVersion"] == 1
    agent.send(b'{"jsonrpc":"2.0","id":1,"method":"session/new"}\n' * 2)
    ids = [json.loads(agent.line())["result"]["sessionId"] for _ in range(2)]
    assert ids == ["bench-1", "bench-2"]


def test_agent_looks_at_the_top_level_only(agent: Peer) -> None:
    agent.send(
        b'{"params":{"method":"initialize","id":99,"a":["\\"}]",{"id":5}],"error":{}},'
        b' "note" : "\\\\", "method" : "session/new" , "jsonrpc":"2.0","id" : "top" }\r\n'
    )
    assert json.loads(agent.line()) == {
        "jsonrpc": "2.0",
        "id": "top",
        "result": {"sessionId": "bench-1"},
    }


def test_agent_echoes_text_with_its_escapes(agent: Peer) -> None:
    agent.send(prompt(r"say \"hi\" é \u00e9 \\", '"p"', '"s\\"1"'))
    line = agent.line()
    assert rb"say \"hi\" " + "é".encode() + rb" \u00e9 \\" in line
    assert json.loads(line)["params"]["sessionId"] == 's"1'
    assert json.loads(agent.line())["result"] == {"stopReason": "end_turn"}


def test_agent_answers_a_quiet_prompt_without_an_update(agent: Peer) -> None:
    agent.send(prompt("quiet eee", "7"))
    assert json.loads(agent.line())["id"] == 7


def test_agent_obeys_the_last_block_and_counts_them(agent: Peer) -> None:
    before = prompt("quiet one").replace(b'"prompt":[', b'"prompt": [ {"a":[1,{}]} , [] ,')
    agent.send(before.replace(b"quiet one", b"blocks"))
    assert update_text(agent.line()) == "3"
    agent.line()
    agent.send(before)
    assert b"end_turn" in agent.line()


def test_agent_streams_numbered_updates_and_then_answers(agent: Peer) -> None:
    agent.send(prompt("stream 1200 200"))
    texts = [update_text(agent.line()) for _ in range(1200)]
    assert [int(text[:8]) for text in texts] == list(range(1200))
    assert {len(text) for text in texts} == {200}
    assert json.loads(agent.line()) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"stopReason": "end_turn"},
    }


def test_agent_takes_a_line_of_megabytes(agent: Peer) -> None:
    text = "0123456789abcdef" * (5 << 16)
    agent.send(prompt(text))
    assert update_text(agent.line()) == text
    assert b"end_turn" in agent.line()


def test_agent_takes_a_line_in_crumbs_and_many_in_one_piece(agent: Peer) -> None:
    for byte in prompt("crumbs"):
        agent.send(bytes([byte]))
    assert update_text(agent.line()) == "crumbs"
    agent.line()
    agent.send(b"".join(prompt(f"t{n}", str(n)) for n in range(150)))
    for n in range(150):
        assert update_text(agent.line()) == f"t{n}"
        assert json.loads(agent.line())["id"] == n


def test_agent_is_silent_where_it_must_and_goes_on(agent: Peer) -> None:
    agent.send(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n')
    agent.send(b'{"jsonrpc":"2.0","id":3,"result":{}}\n\n[]\nnot json\n{"method":\n')
    agent.send(b'{"jsonrpc":"2.0","id":4,"method":"session/nothing"}\n')
    assert json.loads(agent.line())["error"]["code"] == -32601
    agent.send(b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"prompt":[]}}\n')
    answer = json.loads(agent.line())
    assert (answer["id"], answer["error"]["code"]) == (5, -32602)


# --- the proxy


def envelope(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    assert message["method"] == "proxy/successor"
    assert isinstance(message, dict)
    return message


def test_proxy_forwards_initialize_before_it_answers(proxy: Peer) -> None:
    proxy.send(
        b'{"jsonrpc":"2.0","id":"i","method":"proxy/initialize","params":{"protocolVersion":1}}\n'
    )
    asked = envelope(proxy.line())
    assert asked["params"] == {"method": "initialize", "params": {"protocolVersion": 1}}
    proxy.send(b'{"jsonrpc":"2.0","id":%d,"result":{"big":1e400,"a":1.10}}\n' % asked["id"])
    assert proxy.line() == b'{"jsonrpc":"2.0","id":"i","result":{"big":1e400,"a":1.10}}'


def test_proxy_wraps_what_comes_from_above(proxy: Peer) -> None:
    proxy.send(b'{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{ "n": 1.0 }}\n')
    line = proxy.line()
    assert b'"params":{"method":"session/prompt","params":{ "n": 1.0 }}}' in line
    assert envelope(line)["id"] is not None
    proxy.send(b'{"jsonrpc":"2.0","method":"session/cancel"}\n')
    assert proxy.line() == (
        b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/cancel"}}'
    )


def test_proxy_unwraps_what_comes_from_below(proxy: Peer) -> None:
    proxy.send(
        b'{"jsonrpc":"2.0","method":"proxy/successor","params":{"_meta":{"method":"no"},'
        b'"method":"session/update","params":{"x":[1,2]}}}\n'
    )
    assert proxy.line() == b'{"jsonrpc":"2.0","method":"session/update","params":{"x":[1,2]}}'
    proxy.send(
        b'{"jsonrpc":"2.0","id":"q","method":"proxy/successor",'
        b'"params":{"method":"fs/read_text_file","params":{"path":"a"}}}\n'
    )
    asked = json.loads(proxy.line())
    assert (asked["method"], asked["params"]) == ("fs/read_text_file", {"path": "a"})
    proxy.send(b'{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"message":"m","x":2}}\n' % asked["id"])
    assert proxy.line() == b'{"jsonrpc":"2.0","id":"q","error":{"code":-1,"message":"m","x":2}}'


def test_proxy_gives_both_sides_ids_of_its_own(proxy: Peer) -> None:
    proxy.send(b'{"jsonrpc":"2.0","id":1,"method":"session/prompt"}\n')
    proxy.send(b'{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"up"}}\n')
    down, up = json.loads(proxy.line()), json.loads(proxy.line())
    assert down["id"] != up["id"]
    for asked, name in ((up, "u"), (down, "d")):
        proxy.send(b'{"jsonrpc":"2.0","id":%d,"result":"%s"}\n' % (asked["id"], name.encode()))
        assert json.loads(proxy.line()) == {"jsonrpc": "2.0", "id": 1, "result": name}


def test_proxy_keeps_many_requests_apart(proxy: Peer) -> None:
    proxy.send(b"".join(b'{"jsonrpc":"2.0","id":"n%d","method":"m"}\n' % n for n in range(150)))
    ids = [json.loads(proxy.line())["id"] for _ in range(150)]
    assert len(set(ids)) == 150
    for n in reversed(range(150)):
        proxy.send(b'{"jsonrpc":"2.0","id":%d,"result":%d}\n' % (ids[n], n))
        assert json.loads(proxy.line()) == {"jsonrpc": "2.0", "id": f"n{n}", "result": n}


def test_proxy_reissues_a_cancel_with_the_next_hops_id(proxy: Peer) -> None:
    proxy.send(b'{"jsonrpc":"2.0","id":"c","method":"session/prompt"}\n')
    asked = json.loads(proxy.line())
    proxy.send(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"zzz"}}\n')
    proxy.send(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"c"}}\n')
    assert json.loads(proxy.line()) == {
        "jsonrpc": "2.0",
        "method": "$/cancel_request",
        "params": {"requestId": asked["id"]},
    }


def test_proxy_ignores_strays_and_refuses_an_empty_envelope(proxy: Peer) -> None:
    proxy.send(b'{"jsonrpc":"2.0","id":77,"result":{}}\n{"jsonrpc":"2.0","id":"a","error":{}}\n')
    proxy.send(b'junk\n{"jsonrpc":"2.0","id":9,"method":"proxy/successor","params":{}}\n')
    answer = json.loads(proxy.line())
    assert (answer["id"], answer["error"]["code"]) == (9, -32602)


# --- the client


def session(programs: Programs, command: list[str], limit_s: int = 30) -> Session:
    return Session(programs.client, command, os.environ, limit_s)


def test_client_over_the_agent_alone(programs: Programs) -> None:
    with session(programs, [str(programs.agent)]) as alone:
        assert alone.ready_ns > 0
        alone.open()
        assert alone.blocks() == 1
        assert len(alone.trips(7, 100)) == 7
        assert len(alone.turns(7, 100)) == 7
        assert min(alone.turns(2, 3_000_000)) > 0
        assert alone.many(8, 5, 100) > 0
        assert alone.other() > 0
        assert alone.stream(5000, 200) > 0
        assert alone.stream(5, 200, pace=200) > 0
        alone.hold(5000, 200)
        assert alone.drain() > 0
        assert alone.stop() == 0
    assert not alone.leftovers
    assert alone.late == 0


def test_client_tells_why_a_chain_did_not_start(programs: Programs) -> None:
    with (
        pytest.raises(ChainError, match=r"during initialize \(exit code 7\)\noops"),
        session(programs, ["sh", "-c", "echo oops >&2; exit 7"]),
    ):
        pytest.fail("entered a chain that does not exist")
    with (
        pytest.raises(ChainError, match=r"exit code 127\)\nclient: cannot run .*nowhere"),
        session(programs, ["/nowhere"]),
    ):
        pytest.fail("entered a chain that does not exist")


def test_client_does_not_wait_for_ever(programs: Programs) -> None:
    with (
        pytest.raises(ChainError, match="no answer in time during initialize"),
        session(programs, ["sh", "-c", "exec 3>&1; exec cat > /dev/null"], limit_s=1),
    ):
        pytest.fail("entered a chain that never answered")


BAD_AGENT = """
import json, sys

def say(**members):
    print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)

sessions = 0
for line in sys.stdin:
    asked = json.loads(line)
    session = asked["params"].get("sessionId")
    for text in sys.argv[1:] if asked["method"] == "session/prompt" else ():
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        if text == "answer":
            say(id=asked["id"], result={})
        elif text == "error":
            say(id=asked["id"], error={"code": -1, "message": "for a reason"})
        else:
            say(method="session/update", params={"sessionId": session, "update": update})
    if asked["method"] != "session/prompt":
        sessions += 1
        say(id=asked["id"], result={"sessionId": f"s{sessions}"})
"""


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["00000000", "00000002", "answer"], "lost or out of order"),
        (["00000000", "00000000", "answer"], "lost or out of order"),
        (["00000000", "error"], "error answer during a stream(.|\n)*for a reason"),
    ],
)
def test_client_takes_no_figure_from_a_faulty_stream(
    programs: Programs, texts: list[str], complaint: str
) -> None:
    with session(programs, [sys.executable, "-c", BAD_AGENT, *texts]) as chain:
        chain.open()
        with pytest.raises(ChainError, match=complaint):
            chain.stream(3, 8)


def test_client_counts_updates_that_come_late(programs: Programs) -> None:
    texts = ["00000000", "answer", "00000001", "00000002"]
    with session(programs, [sys.executable, "-c", BAD_AGENT, *texts]) as chain:
        chain.open()
        chain.stream(3, 8)
        assert chain.late == 2


@pytest.mark.parametrize("texts", [["eeef", "answer"], ["eeee", "eeee", "answer"]])
def test_client_takes_no_figure_from_an_altered_echo(programs: Programs, texts: list[str]) -> None:
    with session(programs, [sys.executable, "-c", BAD_AGENT, *texts]) as chain:
        chain.open()
        with pytest.raises(ChainError, match="altered or doubled"):
            chain.turns(1, 4)


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["aaab", "answer"], "an altered or doubled update"),
        (["aaaa", "answer", "answer"], "a doubled answer"),
        (["aaaa", "error"], "an error answer"),
    ],
)
def test_client_takes_no_figure_from_sessions_that_are_mixed_up(
    programs: Programs, texts: list[str], complaint: str
) -> None:
    with (
        session(programs, [sys.executable, "-c", BAD_AGENT, *texts]) as chain,
        pytest.raises(ChainError, match=complaint),
    ):
        chain.many(2, 1, 4)


def test_client_takes_no_round_trip_with_an_update_in_it(programs: Programs) -> None:
    with session(programs, [sys.executable, "-c", BAD_AGENT, "hello", "answer"]) as chain:
        chain.open()
        with pytest.raises(ChainError, match="an update nobody asked for"):
            chain.trips(1, 4)


def test_a_chain_that_changes_what_it_should_not_is_no_chain_to_measure(
    programs: Programs,
) -> None:
    chain = Chain(Runner.CONDUCTOR, Kind.CHANGING, 4)
    agent_only = ("sh", "-c", f"exec '{programs.agent}'", "sh")
    cast = Cast(replace(programs, changing=Path("x")), conductor=agent_only)
    with pytest.raises(ChainError, match="a prompt of 1 blocks, not 5"):
        warm_up(chain, cast, TINY, os.environ)


@pytest.mark.skipif(not proctree.SUPPORTED, reason="finding leftovers needs Linux's /proc")
def test_what_a_chain_leaves_behind_is_told_and_ended(programs: Programs) -> None:
    shell = f'sleep 1000 & echo $! >&2; exec "{programs.agent}"'
    with session(programs, ["sh", "-c", shell]) as chain:
        client = chain.client_pid
        assert len(proctree.descendants(client)) == 2
        chain.stop()
        assert chain.leftovers
        (sleeper,) = proctree.descendants(client)
        handle = os.pidfd_open(sleeper)
    with pytest.raises(ProcessLookupError):
        os.kill(client, 0)
    assert select.select([handle], [], [], 30)[0], "still running"
    os.close(handle)


# --- cells and runs


def test_a_cell_has_every_metric(programs: Programs) -> None:
    cell = measure(ALONE, Cast(programs), TINY, frozenset(Step), os.environ)
    elsewhere = {"turn_cpu_us", "stream_cpu_us", "paced_cpu", "pss_mb", "unread_mb"}
    expected = {metric.key for metric in METRICS} - (set() if proctree.SUPPORTED else elsewhere)
    assert set(cell.samples) == expected
    assert len(cell.samples["ready_ms"]) == TINY.spawns
    assert cell.remarks == []
    if proctree.SUPPORTED:
        assert all(cell.samples[key] == [0.0] for key in elsewhere)  # there is the agent alone


def test_a_relay_passes_all_that_is_measured(programs: Programs) -> None:
    warm_up(RELAY, Cast(programs), TINY, os.environ)
    cell = measure(RELAY, Cast(programs), TINY, frozenset(Step), os.environ)
    assert {"trip_us", "other_ms", "big_ms"} <= cell.samples.keys()
    assert cell.remarks == []


def test_a_relay_ends_as_its_agent_does(programs: Programs) -> None:
    relay = command(RELAY, Cast(programs))[:-1]
    peer = Peer([*relay, "cat"])
    peer.send(b"\xff\0 no JSON\n")
    assert peer.line() == b"\xff\0 no JSON"
    peer.send(b"half a line")
    assert peer.end() == b"half a line"
    ends = [*relay, "sh", "-c", "echo so; exit 7"]
    done = subprocess.run(ends, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    assert (done.stdout, done.returncode, done.stderr) == (b"so\n", 7, b"")


def test_a_chain_that_fails_leaves_the_others_their_figures(programs: Programs) -> None:
    broken = (sys.executable, "-c", "import sys; sys.exit('no conductor today')")
    chains = [Chain(Runner.CONDUCTOR, Kind.NONE), ALONE]
    said: list[str] = []
    results = run(
        dict.fromkeys(chains, frozenset({Step.TRIP})),
        Cast(programs, conductor=broken),
        TINY,
        env=os.environ,
        say=said.append,
    )
    assert "no conductor today" in results.failures[chains[0]]
    assert results.median(chains[0], "trip_us") is None
    assert results.median(ALONE, "trip_us") is not None
    assert any("conductor 0 failed" in line for line in said)
