"""Running chains are found, paused, resumed and reloaded from the command line."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.cli import main
from conductor.control import client, places, protocol
from conductor.errors import ConductorError, UsageError
from conductor.page import elsewhere
from conductor.record.turns import reader as turns
from conductor.spec.managed import options as held
from conductor.spec.managed.file import parse
from conductor.spec.options import Options
from tests.harness.process.command import COMMAND, Ran, environment
from tests.harness.process.managed import Machine
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import bearer, new_token, served
from tests.page.viewing import Viewed
from tests.places import DEADLINE

CLOCK = ("-c", "clock=2025-10-08T12:34:56+00:00")
DATE = '<current-date date="2025-10-08" time="12:34:56"/>\n'


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The chains of a test are the only ones of its user; the folder of their sockets.

    Others of this machine, such as those of tests beside this one, have theirs in /tmp.
    """
    monkeypatch.setattr(client, "_AT_ONCE", DEADLINE)  # no test is about a chain that stands still
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    # pytest's own folders may be too long for the address of a socket.
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        folder = Path(short) / "conductor"
        monkeypatch.setattr(places, "folders", lambda: [str(folder)])
        yield folder


def found(chain: Chain) -> None:
    """Waits until a chain has its socket."""
    path = Path(os.environ["XDG_RUNTIME_DIR"]) / "conductor" / f"{chain.process.pid}.sock"
    until(path.exists)


def until(done: Any) -> None:
    """Waits for something."""
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def conductor(*arguments: str) -> Ran:
    """Runs a command in this process, where other folders of sockets are not looked at."""
    written = [io.BytesIO(), io.BytesIO()]
    out, err = (io.TextIOWrapper(one, "utf-8", write_through=True) for one in written)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*arguments])
    return Ran(code, *(one.getvalue().decode() for one in written))


def ok(*arguments: str) -> str:
    """The output of a command that succeeds."""
    done = conductor(*arguments)
    assert done.code == 0, done
    return done.out


def ask(chain: Chain, do: str, name: str = "") -> None:
    """Does the same as `conductor ps pause`, `resume` and `reload`, without a process of their
    own."""
    control, _ = client.chosen(places.Id(chain.process.pid), name)
    with contextlib.closing(control):
        assert control.ask(do, name, patient=True) == "done"


def state_of(chain: Chain) -> protocol.ChainState:
    """The state of a chain, as `conductor ps` shows it."""
    (one,) = (one for one in client.running() if one.id.process == chain.process.pid)
    assert one.state is not None
    return one.state


def states(chain: Chain) -> dict[str, str]:
    """The state of each component of a chain."""
    return {each.name: each.state for each in state_of(chain).components}


@contextlib.contextmanager
def connected(chain: Chain) -> Iterator[socket.socket]:
    """A connection that has sent nothing yet."""
    found(chain)
    (path,) = (path for id_, path in places.listed() if id_.process == chain.process.pid)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE)
        connection.connect(path)
        yield connection


def greeted(connection: socket.socket) -> bool:
    """Whether the chain takes a connection: there are not too many."""
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(protocol.encode(protocol.Greeting()))
    with contextlib.suppress(ConnectionResetError):
        return bool(json.loads(connection.recv(1 << 16))["busy"] == 0)
    return False


def closed(connection: socket.socket) -> bool:
    """Whether the other side closes a connection."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 16):
            pass
    return True


# -- paused and resumed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isolation", "components"),
    [
        ("process", ("passthrough", "datetime")),  # which share a process
        ("separate", ("datetime", "passthrough")),
        ("inline", ("passthrough", "datetime")),
    ],
)
def test_a_guest_is_paused_and_resumed(
    rig: Rig, isolation: str, components: tuple[str, ...]
) -> None:
    options = ("-c", f"isolation={isolation}", "--audit", str(rig.folder / "audit"), *CLOCK)
    chain = rig.agent(*components, rig.demo(), options=(*options, "--trace", "trace"))
    session = chain.begin()
    found(chain)
    assert chain.prompt(session, "hi") == f"{DATE}hi"
    if isolation == "process":
        assert "is paused: every message goes past it" in ok("ps", "pause", "datetime")
    else:
        ask(chain, "pause", "datetime")
    assert states(chain) == {"datetime": "paused", "passthrough": "up", "A": "up"}
    if isolation == "process":
        rows = [line.split() for line in ok("ps").splitlines()]
        assert rows[1] == ["component", "state", "memory", "open", "restarts", "verdicts"]
        assert [row[:2] for row in rows[2:]] == [
            ["passthrough", "up"], ["datetime", "paused"], ["A", "up"],
        ]  # fmt: skip
    assert chain.prompt(session, "hi") == "hi"
    if isolation == "process":
        assert "takes part again" in ok("ps", "resume", "datetime")
    else:
        ask(chain, "resume", "datetime")
    assert states(chain)["datetime"] == "up"
    assert chain.prompt(session, "hi") == f"{DATE}hi"
    if isolation == "process":
        paused_from_the_page_of_its_trace(chain, rig)
    assert chain.finish() == 0
    audit = [json.loads(line) for line in (rig.folder / "audit").read_text().splitlines()]
    events = [(one["event"], one["component"]) for one in audit if one["event"] in _SWITCHED]
    times = 2 if isolation == "process" else 1
    assert events == [("pause", "datetime"), ("resume", "datetime")] * times
    trace = turns.opened(str(rig.folder / "trace"))
    notices = filter(None, map(trace.row, range(len(trace))))
    assert [(r.method, r.source) for r in notices if r.kind == "notice"] == events
    assert client.running() == []


_SWITCHED = ("pause", "resume")


def paused_from_the_page_of_its_trace(chain: Chain, rig: Rig) -> None:
    """`conductor log view --live` of a chain switches a component off and on, and says why it
    cannot."""
    with Viewed(rig.folder / "trace", "--live") as view:
        until(lambda: view.ask("/api/head")[1].get("process") == chain.process.pid)
        for paused in (True, False):
            switch = {"name": "datetime", "paused": paused}
            assert view.ask("/api/pause", switch, Authorization="")[0] == 401
            assert view.ask("/api/pause", switch)[0] == 200
            assert states(chain)["datetime"] == ("paused" if paused else "up")
        status, answer, _ = view.ask("/api/pause", {"name": "nobody", "paused": True})
    assert (status, "no component `nobody`" in answer["error"]) == (502, True)


def test_a_program_is_paused_and_resumed(rig: Rig) -> None:
    chain = rig.agent(rig.x("X"), rig.demo())
    session = chain.begin()
    found(chain)
    ask(chain, "pause", "X")
    assert chain.prompt(session, "past") == "past"
    ask(chain, "resume", "X")
    assert chain.prompt(session, "through") == "through"
    heard = b"".join(one.raw for one in rig.log("X", "in"))
    assert b'"past"' not in heard
    assert b'"through"' in heard


def test_a_component_whose_process_somebody_has_stopped_is_shown_so(rig: Rig) -> None:
    chain = rig.agent("passthrough", rig.demo())
    session = chain.begin()
    found(chain)
    process = state_of(chain).components[0].process
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        until(lambda: states(chain)["passthrough"] == "stopped")
    finally:
        os.kill(process, signal.SIGCONT)
    assert chain.prompt(session, "hi") == "hi"


def test_it_stays_paused_when_its_host_is_started_again_or_replaced(rig: Rig) -> None:
    guests = ("passthrough,on_failure=restart", "datetime,on_failure=restart")
    chain = rig.agent(*guests, rig.demo(), options=CLOCK)
    session = chain.begin()
    found(chain)
    ask(chain, "pause", "datetime")

    def process() -> int | None:
        return state_of(chain).components[0].process

    before = process()
    assert before is not None
    os.kill(before, signal.SIGKILL)
    chain.until_stderr("it is started again")
    assert chain.prompt(session, "hi") == "hi"
    assert "reloads" in ok("ps", "reload")
    chain.until_stderr("started anew, from the same files as before")
    assert process() != before
    assert chain.prompt(session, "hi") == "hi"
    ask(chain, "resume", "datetime")
    assert chain.prompt(session, "hi") == f"{DATE}hi"


def test_a_turn_that_runs_is_not_cut(rig: Rig) -> None:
    chain = rig.agent("datetime", rig.demo(), options=CLOCK)
    session = chain.begin()
    found(chain)
    turn = chain.start_prompt(session, "/permission go")
    asked = chain.expect("session/request_permission")
    pause = subprocess.Popen(
        # Its own process looks at all folders: chains of other tests are not meant.
        [*COMMAND, "ps", "pause", "datetime", "--pid", str(chain.process.pid)],
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert pause.stderr is not None
    assert b"the chain waits for the end of" in pause.stderr.readline()
    assert states(chain)["datetime"] == "up"
    outcome = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
    chain.send({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})
    assert chain.answer(turn)["result"] == {"stopReason": "end_turn"}
    assert pause.wait(DEADLINE) == 0
    pause.stderr.close()
    assert chain.prompt(session, "hi") == "hi"


def test_a_command_that_gives_up_has_changed_nothing(rig: Rig) -> None:
    chain = rig.agent("datetime", rig.demo(), options=CLOCK)
    session = chain.begin()
    with connected(chain) as connection:
        turn = chain.start_prompt(session, "/permission go")
        asked = chain.expect("session/request_permission")
        greeting = protocol.encode(protocol.Greeting())
        connection.sendall(greeting + protocol.encode(protocol.Request(1, "pause", "datetime")))
        lines = b""
        while lines.count(b"\n") < 2:
            lines += connection.recv(4096)
        assert b'"waits"' in lines
    chain.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "no"}})
    chain.answer(turn)
    assert states(chain)["datetime"] == "up"
    assert chain.prompt(session, "hi") == f"{DATE}hi"


# -- which chain ---------------------------------------------------------------------------------


def test_what_cannot_be_says_why(rig: Rig) -> None:
    conductor("ps", "pause", "datetime").assert_error(
        1, "no chain of yours runs", "hint: start one"
    )
    first = rig.agent("datetime", rig.demo())
    first.begin()
    found(first)
    conductor("ps", "pause", "datetim").assert_error(1, "no component `datetim`", "`datetime`?")
    with pytest.raises(ConductorError, match="`A` is the agent"):
        ask(first, "pause", "A")
    second = rig.agent("datetime", rig.demo())
    second.begin()
    found(second)
    pids = [f"--pid {chain.process.pid} (datetime A" for chain in (first, second)]
    conductor("ps", "pause", "datetime").assert_error(2, "2 chains run", *pids)
    with pytest.raises(UsageError, match="as process 1"):
        client.chosen(places.Id(1))
    ask(second, "pause", "datetime")
    assert states(first)["datetime"] == "up"
    assert states(second)["datetime"] == "paused"


def chain_at(folder: str, pid: int, *names: str) -> client.Running:
    """A chain as `ps` finds it."""
    components = [
        protocol.ComponentState(
            name=name, state="up", paused=False, process=None, memory=None, open=0, waiting=0,
            restarts=0, verdicts=0,
        )
        for name in names
    ]  # fmt: skip
    state = protocol.ChainState(
        pid=pid, version="", command="agent", folder=folder, parent="", uptime=1.0, turn=False,
        memory=None, components=components,
    )  # fmt: skip
    return client.Running(places.Id(pid), "/nowhere", state)


@pytest.mark.parametrize(
    ("component", "meant"),
    [("redact", 1), ("datetime", 2), ("", 2)],
    ids=["who has it", "of this folder", "of this folder alone"],
)
def test_of_several_chains_one_is_meant(
    monkeypatch: pytest.MonkeyPatch, component: str, meant: int
) -> None:
    chains = [
        chain_at("/a", 1, "redact", "datetime"), chain_at("/b", 2, "datetime"), chain_at("/c", 3)
    ]  # fmt: skip
    monkeypatch.setattr(client, "running", lambda: chains)
    with pytest.raises(ConductorError, match=f"process {meant} has ended"):
        client.chosen(None, component, "/b")
    with pytest.raises(UsageError, match="3 chains run"):
        client.chosen(None, "", "/d")


def test_each_chain_of_a_server_is_shown_and_paused_by_itself(rig: Rig, state: Path) -> None:
    token = new_token(rig, "alice")
    config = rig.folder / "config" / "conductor" / "conductor.toml"
    config.parent.mkdir(parents=True)
    lines = [f"[chains.daily]\ncomponents = ['datetime', {rig.demo()!r}]"]
    lines.append(f"[chains.daily.options]\ntrace = '{rig.folder}/trace.jsons'")
    config.write_text("\n".join(lines))
    home = {"XDG_CONFIG_HOME": str(rig.folder / "config")}
    access = ("--listen", "ws://127.0.0.1:0", "--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", "--chain", "daily", *access, **home) as server:
        pid = server.process.process.pid
        clients = [server.socket("/acp/daily", headers=bearer(token)) for _ in range(2)]
        sessions = [one.begin() for one in clients]
        paths = [state / f"{pid}-{number}.sock" for number in (1, 2)]
        until(lambda: all(path.exists() for path in paths))
        shown = ok("ps")
        for number in (1, 2):
            assert f"{pid}-{number}  conductor serve daily for alice, started" in shown
        two = conductor("ps", "pause", "datetime")
        two.assert_error(2, "2 chains run", f"--pid {pid}-1 (datetime A, for alice, in")
        conductor("ps", "pause", "datetime", "--pid", f"{pid}-3").assert_error(
            2, "no chain of yours"
        )
        conductor("ps", "pause", "datetime", "--pid", "x-3").assert_error(2, "`x-3` is no process")
        assert f"of process {pid}-2 is paused" in ok("ps", "pause", "datetime", "--pid", f"{pid}-2")
        texts = [one.prompt(id_, "hi") for one, id_ in zip(clients, sessions, strict=True)]
        assert texts[0].endswith("/>\nhi")
        assert texts[1] == "hi"
        (first,) = json.loads(ok("ps", "--watch", "--pid", f"{pid}-1", "--json"))
        assert [first[name] for name in ("id", "chain", "principal")] == [
            f"{pid}-1", "daily", "alice",
        ]  # fmt: skip
        assert len(json.loads(ok("ps", "--watch", "--pid", str(pid), "--json"))) == 2
        for name in ("trace", "trace-2"):
            head = turns.opened(f"{rig.folder}/{name}.jsons").head()
            with contextlib.closing(elsewhere.connected(head)) as control:
                assert control.state().trace == f"{rig.folder}/{name}.jsons"
        clients[0].close()
        until(lambda: not paths[0].exists())
        server.end()
        assert list(state.iterdir()) == []


def test_a_chain_of_a_server_that_ends_early_leaves_no_socket(rig: Rig, state: Path) -> None:
    with served(rig, "agent", "--listen", "ws://127.0.0.1:0", rig.demo()) as server:
        pid = server.process.process.pid
        server.socket().begin()
        until((state / f"{pid}-1.sock").exists)
        for _ in range(3):  # they end before they have one
            client = server.socket()
            client.initialize()
            client.close()
        last = server.socket()
        last.begin()
        until((state / f"{pid}-5.sock").exists)
        names = [f"{pid}-1.sock", f"{pid}-5.sock"]
        until(lambda: sorted(one.name for one in state.iterdir()) == names)


# -- who may use it ------------------------------------------------------------------------------


@pytest.mark.proves("a required component cannot be")
def test_what_a_managed_policy_requires_is_not_paused(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow('[[required]]\nsource = "bundled:passthrough"\n')
    chain = Chain(machine.command("agent", "datetime", "demo"), machine.env(), cwd=machine.home)
    try:
        chain.begin()
        found(chain)
        with pytest.raises(ConductorError, match="the managed policy requires it"):
            ask(chain, "pause", "passthrough")
        ask(chain, "pause", "datetime")
    finally:
        chain.kill()


def test_a_managed_policy_and_an_option_switch_it_off(rig: Rig) -> None:
    policy = parse(b'contact = "x"\ncontrol = false\n', "policy.toml")
    assert held.applied(policy, Options()).control == "off"
    off = rig.agent(rig.demo(), options=("-c", "control=off"))
    off.begin()
    on = rig.agent(rig.demo())
    on.begin()
    found(on)  # it came later
    assert [one.id.process for one in client.running()] == [on.process.pid]


CONNECTS = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as one:
    one.settimeout(60)
    try:
        one.connect(sys.argv[1])
        print(one.recv(100))
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.proves("only the same user connects")
def test_another_user_does_not_connect(rig: Rig, state: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    chain = rig.agent(rig.demo())
    chain.begin()
    found(chain)
    path = state / f"{chain.process.pid}.sock"

    def tried() -> str:
        return subprocess.run(
            [sys.executable, "-c", CONNECTS, str(path)], capture_output=True, check=True, text=True
        ).stdout.strip()

    assert tried() == "PermissionError"
    # Also where the folders are open to all, against all rules.
    opened = [one for one in (path, *path.parents) if one.owner() == "root"]
    modes = {one: one.stat().st_mode & 0o7777 for one in opened}
    if sys.platform == "linux":
        try:
            for one in opened:
                one.chmod(modes[one] | 0o777 if one == path else modes[one] | 0o055)
            assert tried() in ("b''", "ConnectionResetError")
        finally:
            for one, mode in modes.items():
                one.chmod(mode)


# -- nonsense ------------------------------------------------------------------------------------


@pytest.mark.proves("a flood does not hold up the")
def test_nonsense_and_floods_do_not_hold_up_the_chain(rig: Rig) -> None:
    chain = rig.agent(rig.demo())
    session = chain.begin()
    greeting = protocol.encode(protocol.Greeting())
    ask = protocol.encode(protocol.Request(1, "state"))
    for nonsense in (
        b"\xff\n",
        b"{}x\n",
        b'{"greeting":"x"}\n',
        greeting + b"[]\n",
        b"x" * 300_000,
    ):
        with connected(chain) as connection:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                connection.sendall(nonsense)
            assert closed(connection)
    with connected(chain) as connection:
        connection.sendall(protocol.encode(protocol.Greeting(version=2)))
        assert closed(connection)
    with contextlib.ExitStack() as stack:
        floods = [stack.enter_context(connected(chain)) for _ in range(6)]

        def flood(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                connection.sendall(greeting + ask * 100_000)  # and reads nothing

        threads = [threading.Thread(target=flood, args=(one,)) for one in floods]
        for thread in threads:
            thread.start()
        for number in range(20):
            assert chain.prompt(session, f"hi {number}") == f"hi {number}"
        assert state_of(chain).turn is False
        for one in floods:
            one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
    with contextlib.ExitStack() as stack:
        # Until the chain has seen that the floods are over, they count as connected.
        for _ in range(8):
            until(lambda: greeted(stack.enter_context(connected(chain))))
        assert closed(stack.enter_context(connected(chain)))
        busy = "busy: 8 other commands are connected"
        assert f"does not answer: the chain is {busy}" in ok("ps")
        assert busy in conductor("ps", "pause", "demo", "--pid", str(chain.process.pid)).err
    until(lambda: "idle" in ok("ps"))
    assert chain.finish() == 0


def test_a_request_it_does_not_know(rig: Rig) -> None:
    chain = rig.agent(rig.demo())
    chain.begin()
    found(chain)
    control, running = client.chosen(None)
    with contextlib.closing(control):
        assert str(running.id) == str(chain.process.pid)
        with pytest.raises(ConductorError, match="no request `paus`"):
            control.ask("paus")
        os.kill(chain.process.pid, signal.SIGKILL)
        with pytest.raises(ConductorError, match="the chain has ended"):
            control.ask("state")


def test_what_a_killed_chain_leaves_is_removed(rig: Rig, state: Path) -> None:
    chain = rig.agent(rig.demo())
    chain.begin()
    found(chain)
    chain.process.kill()
    chain.process.wait()
    (left,) = state.iterdir()
    assert left.name == f"{chain.process.pid}.sock"
    assert ok("ps") == "no chain of yours runs\n"
    assert list(state.iterdir()) == []


def test_what_is_no_chain_is_named(state: Path) -> None:
    """A socket of another program of this user, which says something else."""
    state.mkdir(parents=True, mode=0o700)
    path = state / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            with listening.accept()[0] as one:
                one.sendall(b"\x1b[2Jhello\n")

        thread = threading.Thread(target=answer)
        thread.start()
        done: Ran = conductor("ps")
        thread.join()
    assert done.code == 0
    assert f"{os.getpid()}  does not answer" in done.out
    assert "\x1b" not in done.out


def test_lines_are_versioned() -> None:
    assert msgspec.json.decode(protocol.encode(protocol.Greeting()))["version"] == 1
    with pytest.raises(ConductorError, match="speaks version 7"):
        protocol.greeted(protocol.encode(protocol.Greeting(version=7)))
    with pytest.raises(ConductorError, match="is no conductor"):
        protocol.greeted(b'{"greeting":"http"}')
