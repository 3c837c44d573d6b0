"""A guest that must be compiled first: `initialize` is answered meanwhile, and nothing is lost.

A compile that takes long is one whose lock somebody else holds: here it is the test, which says
when it is over. So nothing depends on how fast this machine is.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conductor.spec.python_guest import scripts
from tests.e2e.test_guest_failures import FUSED
from tests.e2e.test_rearranged import NOW, Changing
from tests.harness.process.rig import Chain, Rig
from wasm_host import Limits
from wasm_host.cache.digest import sha256
from wasm_host.cache.store import Cache
from wasm_host.engine import engine_identity, has_baseline

HEARS: Final = "allow=change:replies+add:replies"
"""A guest with this right gets what the agent says: its host keeps the order of all messages."""

GREETER: Final = """
from guest_sdk.python import Next, Proxy, Request

proxy = Proxy("greeter", rights={"context": "to greet"})


@proxy.request("session/prompt")
async def prompt(request: Request, next: Next) -> object:
    request.preface("hello")
    return await next(request)
"""

KINDS: Final = ("", HEARS, "observer")
ISOLATIONS: Final = ("process", "separate")

LIMIT: Final = 2.0
"""Seconds of a guest's `timeout` and `hold`: a busy machine must not need as long for an answer."""
LOOKED_AT: Final = LIMIT * 1.25
"""Seconds after which a limit has ended what was open: it is looked at four times in its time."""


@pytest.fixture
def rig(rig: Rig, tmp_path: Path) -> Rig:
    """A rig without compiled modules."""
    return Rig(rig.folder, tmp_path / "modules", rig.token, rig.chains)


def guest(rig: Rig, name: str, kind: str = "", harm: str = "unreachable") -> str:
    """A guest that passes everything on and fails at `poison`, with a module of its own."""
    own = f'(data (i32.const 100) "{name}")'
    wat = FUSED.replace("HARM", harm).replace("(memory (export", f"{own} (memory (export", 1)
    path = rig.module(name, wat)
    if kind == "observer":
        return f"{path},only=observer"
    return f"{path},only=context,{kind}".rstrip(",")


@contextlib.contextmanager
def compiling(rig: Rig, component: str) -> Iterator[None]:
    """The module of a component is not compiled before this is over."""
    data = Path(component.partition(",")[0]).read_bytes()
    with Cache(rig.cache, engine_identity(Limits())).lock(sha256(data), 10):
        yield


def meanwhile(rig: Rig, seconds: float = 0.0) -> None:
    """Other conversations, from beginning to end, for so many seconds at least."""
    until = time.monotonic() + seconds
    while True:
        chain = rig.agent(rig.demo(log=False))
        chain.begin()
        assert chain.finish() == 0
        if time.monotonic() >= until:
            return


def end(rig: Rig, chain: Chain) -> None:
    """The conversation ends without an error, and nothing is left."""
    assert chain.finish() == 0, chain.story()
    assert "; down `" not in chain.stderr, chain.story()
    assert rig.leftovers(chain) == []


@pytest.mark.proves("a module that compiles for as")
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_initialize_does_not_wait_and_what_follows_does(
    rig: Rig, kind: str, isolation: str
) -> None:
    """Four guests, of which one is slow: all that comes meanwhile arrives once, in order."""
    slow = guest(rig, "slow", kind)
    others = [guest(rig, name) for name in ("a", "b", "c")]
    chain_of = (others[0], slow, *others[1:], rig.demo())
    with compiling(rig, slow):
        chain = rig.agent(*chain_of, options=("-c", f"isolation={isolation}"))
        chain.initialize()
        opened = [chain.start("session/new", {"cwd": f"/{n}", "mcpServers": []}) for n in range(3)]
        if kind != "observer":
            assert not any(chain.answers(one) for one in opened)
    sessions = [chain.answer(one)["result"]["sessionId"] for one in opened]
    for number, session in enumerate(sessions):
        assert chain.prompt(session, f"/echo {number}") == str(number)
    heard = [entry.frame for entry in rig.log("A", "in")]
    new = [f["params"]["cwd"] for f in heard if f.get("method") == "session/new"]
    assert new == ["/0", "/1", "/2"]
    assert rig.methods("A").count("initialize") == 1
    end(rig, chain)


def test_in_proxy_mode_too(rig: Rig) -> None:
    slow = guest(rig, "slow")
    with compiling(rig, slow):
        chain = rig.agent(rig.nested(slow), rig.demo())
        chain.initialize()
        opened = chain.start("session/new", {"cwd": "/0", "mcpServers": []})
        assert not chain.answers(opened)
    assert chain.prompt(chain.answer(opened)["result"]["sessionId"], "/echo 1") == "1"
    assert rig.methods("A").count("initialize") == rig.methods("A").count("session/new") == 1
    end(rig, chain)


def test_prompts_and_notifications_keep_their_order(rig: Rig) -> None:
    """The slow guest hears only what the agent says: so the client may prompt before it is there,
    and what the agent answers waits for it."""
    path = guest(rig, "slow").partition(",")[0]
    slow = f"{path},only=none,{HEARS}"
    with compiling(rig, slow):
        chain = rig.agent(slow, rig.demo())
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
        chain.notify("_test/first", {"n": 1})
    session = chain.answer(new)["result"]["sessionId"]
    turns = [chain.start_prompt(session, f"/echo {n}") for n in range(2)]
    for turn in turns:
        assert "result" in chain.answer(turn)
    assert chain.texts(session) == ["0", "1"]
    assert rig.methods("A").count("_test/first") == 1
    end(rig, chain)


def test_a_request_that_is_cancelled_meanwhile_has_one_answer(rig: Rig) -> None:
    slow = guest(rig, "slow")
    with compiling(rig, slow):
        chain = rig.agent(slow, rig.demo())
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
        chain.notify("$/cancel_request", {"requestId": new})
        kept = chain.start("session/new", {"cwd": "/kept", "mcpServers": []})
    session = chain.answer(kept)["result"]["sessionId"]
    assert chain.prompt(session, "/echo on") == "on"
    assert len(chain.answers(new)) == 1
    end(rig, chain)


@pytest.mark.proves("a module that compiles for as")
@pytest.mark.parametrize("fails", ["closed", "open"])
def test_a_guest_that_does_not_compile_in_the_end_fails_the_chain(rig: Rig, fails: str) -> None:
    """As if it had failed at once: nothing passes without it, and who waits hears which it is."""
    slow = f"{guest(rig, 'slow')},fails={fails},limit.locals=1"
    with compiling(rig, slow):
        chain = rig.agent(slow, guest(rig, "b"), rig.demo())
        chain.initialize()
        opened = [chain.start("session/new", {"cwd": "/", "mcpServers": []}) for _ in range(2)]
    for new in opened:
        error = chain.answer(new)["error"]
        assert "`slow`" in error["message"]
        why = [error["data"][key] for key in ("component", "phase", "limit")]
        assert why == ["slow", "load", "locals"]
    assert chain.exit_code() == 1
    assert rig.methods("A").count("session/new") == 0
    assert rig.leftovers(chain) == []


def test_the_time_while_it_compiles_is_not_counted(rig: Rig) -> None:
    """Neither `timeout=` nor `hold=` runs before the guest can see anything."""
    slow = f"{guest(rig, 'slow')},timeout={LIMIT},hold={LIMIT}"
    with compiling(rig, slow):
        chain = rig.agent(slow, rig.demo())
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
        meanwhile(rig, LOOKED_AT)
        assert not chain.answers(new), chain.story()
    session = chain.answer(new)["result"]["sessionId"]
    assert chain.prompt(session, "/echo on") == "on"
    assert "within" not in chain.stderr
    end(rig, chain)


def test_the_client_may_close_its_end_meanwhile(rig: Rig) -> None:
    """The client's requests are answered all the same, as with a guest that is there."""
    slow = guest(rig, "slow")
    with compiling(rig, slow):
        chain = rig.agent(slow, rig.demo(), options=("-c", f"drain={LIMIT}"))
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
        chain.eof()
        meanwhile(rig, LOOKED_AT)
        assert chain.process.poll() is None
    assert chain.answer(new)["result"]["sessionId"]
    assert chain.exit_code() == 0
    assert rig.leftovers(chain) == []


@pytest.mark.proves("a module that compiles for as")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(rig: Rig, number: signal.Signals) -> None:
    slow = guest(rig, "slow")
    with compiling(rig, slow):
        chain = rig.agent(slow, rig.demo())
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
        chain.process.send_signal(number)
        assert "error" in chain.answer(new)
        assert chain.exit_code() == 128 + number
        assert rig.leftovers(chain) == []


def test_a_guest_that_may_take_part_is_waited_for(rig: Rig) -> None:
    path = guest(rig, "slow").partition(",")[0]
    with compiling(rig, path):
        chain = rig.agent(f"{path},only=full", rig.demo())
        asked = chain.start("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        meanwhile(rig)
        assert not chain.answers(asked)
        assert rig.methods("A") == []
    assert "result" in chain.answer(asked)
    assert chain.prompt(chain.new_session(), "/echo on") == "on"
    end(rig, chain)


def test_a_host_that_is_started_again_compiles_anew(rig: Rig) -> None:
    """The module has left the cache meanwhile: messages wait until the module is compiled."""
    slow = f"{guest(rig, 'slow')},timeout={LIMIT}"
    chain = rig.agent(slow, rig.demo())
    session = chain.begin()
    for entry in rig.cache.iterdir():
        entry.unlink(missing_ok=True)
    kin = rig.kin(chain)
    (host,) = kin.named("segment_start")
    with compiling(rig, slow):
        signal.pidfd_send_signal(kin.handle(host), signal.SIGKILL)
        chain.until_stderr("started again (1 of 3)")
        turn = chain.start_prompt(session, "/echo later")
        meanwhile(rig, LOOKED_AT)
        assert not chain.answers(turn)
    assert "result" in chain.answer(turn)
    assert chain.texts(session) == ["later"]
    end(rig, chain)


def test_a_new_build_takes_over_when_it_is_compiled(rig: Rig) -> None:
    """The old one goes on until then."""
    running, fresh = guest(rig, "running"), guest(rig, "fresh").partition(",")[0]
    chain = rig.agent(running, rig.demo())
    session = chain.begin()
    with compiling(rig, fresh):
        Path(fresh).replace(running.partition(",")[0])
        os.kill(chain.process.pid, signal.SIGHUP)
        for number in range(2):
            meanwhile(rig)
            assert chain.prompt(session, f"/echo {number}") == str(number)
        assert "new build" not in chain.stderr
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(session, "/echo on") == "on"
    end(rig, chain)


def test_a_component_that_must_be_compiled_joins_a_running_chain_later(rig: Rig) -> None:
    first, second = guest(rig, "first"), guest(rig, "second")
    changing = Changing(rig, [first, rig.demo()], "-c", "isolation=separate")
    chain = changing.chain
    session = chain.begin()
    with compiling(rig, second):
        changing.ask(first, second, rig.demo())
        for number in range(2):
            meanwhile(rig)
            assert chain.prompt(session, f"/echo {number}") == str(number)
        assert NOW not in chain.stderr
    chain.until_stderr(NOW)
    assert chain.prompt(session, "/echo on") == "on"
    end(rig, chain)


def test_trace_and_audit_have_all_of_it_once(rig: Rig) -> None:
    slow = guest(rig, "slow", HEARS)
    trace, audit = rig.folder / "trace.jsonl", rig.folder / "audit.jsonl"
    options = ("--trace", str(trace), "-c", "trace-content=all", "--audit", str(audit))
    with compiling(rig, slow):
        chain = rig.agent(slow, guest(rig, "b"), rig.demo(), options=options)
        chain.initialize()
        new = chain.start("session/new", {"cwd": "/", "mcpServers": []})
    session = chain.answer(new)["result"]["sessionId"]
    assert chain.prompt(session, "/echo on") == "on"
    end(rig, chain)
    entries = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    asked = [e["method"] for e in entries if (e["type"], e.get("to")) == ("request", "agent")]
    assert asked == ["initialize", "session/new", "session/prompt"]
    events = [json.loads(line)["event"] for line in audit.read_text("utf-8").splitlines()]
    assert "violation" not in events


def test_conductors_that_start_at_once_compile_it_once(rig: Rig) -> None:
    slow = guest(rig, "slow")
    with compiling(rig, slow):
        chains = [rig.agent(slow, rig.demo(name=f"A{n}")) for n in range(3)]
        for chain in chains:
            chain.initialize()
    for chain in chains:
        assert chain.prompt(chain.new_session(), "/echo on") == "on"
    assert len(list(rig.cache.glob("*.cwasm"))) == 1
    assert not list(rig.cache.glob(".new-*"))
    for chain in chains:
        assert chain.finish() == 0


@pytest.mark.skipif(not has_baseline(Limits()), reason="there is no baseline compiler")
def test_a_python_proxy_starts_with_the_baseline_compilers_code(
    rig: Rig, python_guest: Path
) -> None:
    """The first start waits for a fifth of the time; better code is made beside later starts."""
    del python_guest  # built, and compiled elsewhere
    path = rig.folder / "greeter.py"
    path.write_text(GREETER, encoding="utf-8")
    for number in (1, 2):
        chain = rig.agent(str(path), rig.demo(name=f"A{number}"))
        assert chain.prompt(chain.begin(), "hi") == "hello\nhi"
        assert ("compiling the Python guest" in chain.stderr) == (number == 1)
        end(rig, chain)
    identity = engine_identity(Limits(**scripts.LIMITS), baseline=True)
    assert Cache(rig.cache, identity).holds(scripts.guest()[1])
