"""A running chain gets other components at SIGHUP, while a client talks to it.

Neither client nor agent notices: the agent is initialized once, and no message is lost or doubled.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.harness.process.rig import Chain, Rig

NOW = "the chain is now: "
KEPT = "the chain stays as it was: "
CLOCK = ("-c", "clock=2025-10-08T12:34:56+00:00")
DATE = '<current-date date="2025-10-08" time="12:34:56"/>'


class Changing:
    """A chain that is started over a configured list of components, and gets others."""

    def __init__(self, rig: Rig, components: Sequence[str], *options: str) -> None:
        self._file = rig.folder / "home" / "conductor" / "conductor.toml"
        self._file.parent.mkdir(parents=True)
        self.head = ""
        """Stands before all else in the file."""
        self.write(*components)
        self.chain: Chain = rig.agent(
            "@work",
            options=("--log", "info", *CLOCK, *options),
            XDG_CONFIG_HOME=str(self._file.parents[1]),
        )

    @property
    def place(self) -> str:
        """The file."""
        return str(self._file)

    def write(self, *components: str) -> None:
        """Writes another list."""
        listed = ", ".join(map(json.dumps, components))
        text = f"{self.head}[chains.work]\ncomponents = [{listed}]\n"
        self._file.write_text(text, encoding="utf-8")

    def ask(self, *components: str) -> None:
        """Writes another list, and signals the change."""
        self.write(*components)
        os.kill(self.chain.process.pid, signal.SIGHUP)

    def change(self, *components: str, until: str = NOW) -> None:
        """Writes another list, signals the change, and waits for the line with the outcome."""
        before = self.chain.stderr.count(until)
        self.ask(*components)
        self.chain.until(lambda: self.chain.stderr.count(until) > before, f"`{until}`")


def initialize(chain: Chain, version: int = 1) -> str:
    """Initializes; a session."""
    chain.initialize(protocolVersion=version, info={"name": "c", "version": "1"})
    return chain.new_session()


def heard(rig: Rig, chain: Chain, session: str) -> list[str]:
    """Sends a prompt; the texts of it that reach the agent: what the last proxy put in front of it
    comes first, the client's own text last."""
    answer = chain.answer(chain.start_prompt(session, "hi"))
    assert "result" in answer, chain.story()
    prompts = [e.frame for e in rig.log("A", "in") if e.frame.get("method") == "session/prompt"]
    return [block["text"] for block in prompts[-1]["params"]["prompt"]]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("isolation", ["process", "inline", "separate"])
def test_components_are_added_removed_moved_and_replaced(
    rig: Rig, version: int, isolation: str
) -> None:
    """Guests and programs, of dialects that are known and that are found out."""
    x, y = rig.x("X", "--mark", "x"), rig.x("Y", "--mark", "y", dialect="sacp", told=False)
    z, other = rig.x("Z", "--mark", "z", dialect="pacp"), rig.x("Z", "--mark", "Z", dialect="sdk")
    changing = Changing(rig, [x, rig.demo()], "-c", f"isolation={isolation}")
    chain = changing.chain
    session = initialize(chain, version)
    assert heard(rig, chain, session) == ["x", "hi"]
    changing.change(x, y, rig.demo())
    assert heard(rig, chain, session) == ["y", "x", "hi"]
    changing.change(z, y, "datetime", x, "passthrough", rig.demo())
    assert heard(rig, chain, session) == ["x", DATE, "y", "z", "hi"]
    changing.change("passthrough", "datetime", other, y, x, rig.demo())
    assert heard(rig, chain, session) == ["x", "y", "Z", DATE, "hi"]
    changing.change("datetime", rig.demo())
    assert heard(rig, chain, session) == [DATE, "hi"]
    changing.change(rig.demo())
    assert heard(rig, chain, session) == ["hi"]
    assert rig.methods("A").count("initialize") == 1
    assert rig.methods("X").count("proxy/initialize") == 1
    assert "error: " not in chain.stderr
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def echo(chain: Chain, session: str, number: int) -> None:
    """A prompt, its answer, and what the agent says; in version 2 it may say that later."""
    assert "result" in chain.answer(chain.start_prompt(session, f"/echo {number}")), chain.story()
    chain.until(lambda: str(number) in chain.texts(session), f"the echo of {number}")


@pytest.mark.parametrize("version", [1, 2])
def test_no_message_is_lost_while_a_client_talks(rig: Rig, version: int) -> None:
    """Prompts come without a pause while the chain changes again and again."""
    x, y = rig.x("X"), rig.x("Y", dialect="sdk")
    lists = [
        [x, "passthrough", rig.demo()],
        ["passthrough", y, rig.demo()],
        [y, "datetime", "passthrough", x, rig.demo()],
        [x, rig.demo()],
    ]
    changing = Changing(rig, lists[-1])
    chain = changing.chain
    session = initialize(chain, version)
    turns = 0
    for components in lists:
        before = chain.stderr.count(NOW)
        changing.ask(*components)
        while chain.stderr.count(NOW) == before:
            turns += 1
            echo(chain, session, turns)
    for _ in range(3):
        turns += 1
        echo(chain, session, turns)
    assert [text for text in chain.texts(session) if text] == [str(n + 1) for n in range(turns)]
    assert rig.methods("A").count("initialize") == 1
    assert rig.methods("A").count("session/prompt") == turns
    assert chain.finish() == 0


def test_a_turn_is_over_before_the_chain_changes(rig: Rig) -> None:
    x = rig.x("X", "--mark", "x")
    changing = Changing(rig, ["passthrough", rig.demo()])
    chain = changing.chain
    session = initialize(chain)
    other = chain.new_session()
    turn = chain.start_prompt(other, "/hang")
    changing.ask("passthrough", x, rig.demo())
    rig.until_heard("X", b"initialize")
    assert heard(rig, chain, session) == ["hi"]
    chain.notify("session/cancel", {"sessionId": other})
    assert chain.answer(turn)["result"] == {"stopReason": "cancelled"}
    chain.until_stderr(NOW)
    assert heard(rig, chain, session) == ["x", "hi"]
    assert chain.finish() == 0


def test_a_watched_configuration_changes_the_chain(rig: Rig) -> None:
    changing = Changing(rig, [rig.demo()], "--reload")
    chain = changing.chain
    session = initialize(chain)
    changing.write("datetime", rig.demo())
    chain.until_stderr(NOW)
    assert heard(rig, chain, session) == [DATE, "hi"]
    changing.write("nothing-is-called-so", rig.demo())
    chain.until_stderr(KEPT)
    assert heard(rig, chain, session) == [DATE, "hi"]
    assert chain.finish() == 0


@pytest.mark.parametrize("how", ["no such program", "no proxy", "broken", "ends", "unknown name"])
def test_what_cannot_start_changes_nothing(rig: Rig, how: str) -> None:
    broken = rig.folder / "broken.wasm"
    broken.write_bytes(b"\0asm\1\0\0\0 nonsense")
    bad = {
        "no such program": rig.program(str(rig.folder / "none"), name="bad"),
        "no proxy": rig.demo(name="bad"),
        "broken": str(broken),
        "ends": rig.program(sys.executable, "-c", "raise SystemExit(3)", name="bad"),
        "unknown name": "nothing-is-called-so",
    }[how]
    x = rig.x("X", "--mark", "x")
    changing = Changing(rig, [x, "passthrough", rig.demo()])
    chain = changing.chain
    session = initialize(chain)
    changing.change(rig.x("Y"), bad, "passthrough", rig.demo(), until=KEPT)
    assert heard(rig, chain, session) == ["x", "hi"]
    # And what can start is used as ever.
    changing.change("passthrough", rig.demo())
    assert heard(rig, chain, session) == ["hi"]
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_agent_stays_as_it_is(rig: Rig) -> None:
    changing = Changing(rig, ["passthrough", rig.demo()])
    chain = changing.chain
    session = initialize(chain)
    changing.head = "# Everything stands a line lower.\n"
    changing.change(rig.x("X"), rig.demo())
    assert "stays as it is" not in chain.stderr
    chain.until_stderr("the configuration changes the chain\n")
    chain.until_stderr(f"+ X ({sys.executable}), command ({changing.place}, line 3)")
    chain.until_stderr("- passthrough, bundled")
    changing.change(rig.x("X", "--mark", "x"), rig.demo(name="B"))
    chain.until_stderr("the agent `A` stays as it is: it cannot change while it runs")
    assert heard(rig, chain, session) == ["x", "hi"]
    assert chain.finish() == 0


def test_settings_are_sent_and_nothing_is_started_anew(rig: Rig) -> None:
    def proxy(mark: str) -> str:
        return json.dumps({**json.loads(rig.x("X")), "config": {"mark": mark}})

    changing = Changing(rig, [proxy("one"), rig.demo()])
    chain = changing.chain
    initialize(chain)
    rig.until_heard("X", b'"one"')
    changing.change(proxy("two"), rig.demo(), until="told its settings")
    rig.until_heard("X", b'"two"')
    changing.change(proxy("two"), "passthrough", rig.demo())
    assert rig.methods("X").count("_conductor/configure") == 2
    assert rig.methods("X").count("proxy/initialize") == 1
    assert chain.finish() == 0


def test_traces_and_audits_follow(rig: Rig) -> None:
    trace, audit = rig.folder / "trace", rig.folder / "audit"
    options = ("--trace", str(trace), "--audit", str(audit))
    changing = Changing(rig, ["passthrough", rig.demo()], *options)
    chain = changing.chain
    session = initialize(chain)
    changing.change("datetime", "passthrough", rig.x("X", "--mark", "x"), rig.demo())
    assert heard(rig, chain, session) == ["x", DATE, "hi"]
    changing.change("passthrough", rig.demo())
    assert heard(rig, chain, session) == ["hi"]
    assert chain.finish() == 0
    assert "report" not in chain.stderr, chain.stderr
    records = [json.loads(line) for line in audit.read_text().splitlines()]
    happened = [(r["event"], r["component"]) for r in records if r["event"] in ("add", "remove")]
    assert happened == [("add", "datetime"), ("add", "X"), ("remove", "datetime"), ("remove", "X")]
    changes = {(r["component"], r["change"]) for r in records if r["event"] == "change"}
    assert {("datetime", "modified"), ("X", "modified")} <= changes
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    ways = {(e.get("from"), e.get("to")) for e in events}
    assert {("client", "datetime"), ("passthrough", "X"), ("X", "agent")} <= ways, ways


@pytest.mark.parametrize("what", ["manifest", "nothing"])
def test_the_same_words_may_stand_for_something_else(rig: Rig, tmp_path: Path, what: str) -> None:
    """Through the plain command line: a folder whose manifest has changed."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "p.wasm").write_bytes(rig.bundled("datetime").read_bytes())
    manifest = folder / "component.toml"
    text = 'name = "mine"\nfile = "p.wasm"\ndescription = "{}"\n'
    manifest.write_text(text.format("one"), encoding="utf-8")
    chain = rig.agent(str(folder), rig.demo(), options=(*CLOCK, "--log", "info"))
    session = initialize(chain)
    assert heard(rig, chain, session) == ["hi"]
    if what == "manifest":
        manifest.write_text(text.format("two"), encoding="utf-8")
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until_stderr(NOW if what == "manifest" else "started anew, from the same files")
    assert heard(rig, chain, session) == ["hi"]
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0


@pytest.mark.parametrize("again", ["goes on", "killed"])
def test_a_guest_that_stays_cannot_take_the_name_of_what_joins(rig: Rig, again: str) -> None:
    """As the name of an MCP server: the agent would take its tools for those of the new one."""
    (rig.folder / "taker.py").write_text(
        "from guest_sdk.python import Proxy\n"
        'proxy = Proxy("taker", rights={"full": "to take a turn"})\n'
        '@proxy.request("session/new")\n'
        "async def new(request, next):\n"
        '    server = {"type": "acp", "name": "X", "id": "mine"}\n'
        '    request.params["mcpServers"] = [server]\n'
        "    return await next(request)\n",
        encoding="utf-8",
    )
    taker = f"{rig.folder / 'taker.py'},only=full,on_failure=restart"
    hosted = [taker, "passthrough", rig.demo()]
    changing = Changing(rig, hosted)
    chain = changing.chain
    initialize(chain)
    changing.change(rig.x("X"), *hosted)
    if again == "killed":
        (host,) = rig.kin(chain).hosts()
        os.kill(host, signal.SIGKILL)
        chain.until_stderr("started again")
    chain.request("session/new", {"cwd": "/", "mcpServers": []})
    opened = [e.frame for e in rig.log("A", "in") if e.frame.get("method") == "session/new"]
    assert len(opened) == 2, chain.story()
    assert [len(one["params"]["mcpServers"]) for one in opened] == [1, 0], chain.story()
    assert chain.finish() == 0


SILENT = """(module
  (memory (export "memory") 2)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param i32 i32) (result i64) (i64.const 0)))"""
"""A guest that says nothing."""


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_a_guest_that_never_takes_its_role_is_in_nobodys_way(rig: Rig, isolation: str) -> None:
    """The chain goes on past it, and gets other components."""
    mute = f"{rig.module('mute', SILENT)},only=observer,timeout=0.5s"
    changing = Changing(rig, [mute, rig.demo()], "-c", f"isolation={isolation}")
    chain = changing.chain
    session = initialize(chain)
    assert heard(rig, chain, session) == ["hi"]
    changing.change(mute, "datetime", rig.demo())
    assert heard(rig, chain, session) == [DATE, "hi"]
    changing.change("datetime", rig.demo())
    assert heard(rig, chain, session) == [DATE, "hi"]
    assert "error: " not in chain.stderr
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_what_a_silent_guest_holds_is_logged_once(rig: Rig) -> None:
    mute = f"{rig.module('mute', SILENT)},only=context,timeout=0.5s"
    changing = Changing(rig, [mute, rig.demo()])
    chain = changing.chain
    chain.initialize()
    assert "error" in chain.request("session/new", {"cwd": "/", "mcpServers": []})
    changing.change("datetime", rig.demo())
    assert chain.new_session()
    assert chain.stderr.count(": mute: proxy `mute`") == 1, chain.stderr
    assert "has held" not in chain.stderr
    assert chain.finish() == 0


def test_a_storm_of_changes_loses_no_prompt(rig: Rig) -> None:
    """Other components, new builds, and hosts that are killed, while prompts come one by one."""
    module = rig.folder / "mine.wasm"
    module.write_bytes(rig.bundled("passthrough").read_bytes())
    guest, x = f"{module},on_failure=restart", rig.x("X")
    lists = [[x, guest, rig.demo()], [guest, rig.demo()], [guest, x, rig.demo()]]
    changing = Changing(rig, lists[0])
    chain = changing.chain
    session = initialize(chain)
    turns = []
    for number in range(12):
        if number % 4 == 3:
            for host in rig.kin(chain).hosts():
                os.kill(host, signal.SIGKILL)
        turns.append(chain.start_prompt(session, f"/echo {number}"))
        changing.ask(*lists[number % 3])
        answer = chain.answer(turns[-1])
        assert "result" in answer or "SIGKILL" in answer["error"]["message"], chain.story()
    assert heard(rig, chain, session) == ["hi"]
    assert [len(chain.answers(turn)) for turn in turns] == [1] * len(turns)
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []
