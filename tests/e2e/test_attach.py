"""Several clients on one session, as people see it (docs/remote.md)."""

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from tests.harness.process.command import Running, conductor
from tests.harness.process.remote import behind
from tests.harness.process.rig import DEMO, Chain, Rig
from tests.harness.process.serving import Served, held_port, served
from tests.harness.process.wire import Wire

PERMISSION: Final = "session/request_permission"
V2: Final = {"protocolVersion": 2, "info": {"name": "e", "version": "1"}, "capabilities": {}}
QUESTION: Final = "allow it this once? [y/N] "
MARKER: Final = "\x1b[K> "
"""The end of a client's screen where the user types a prompt: the client knows of no running
turn."""


@pytest.fixture
def server(rig: Rig) -> Iterator[Served]:
    """A chain that listens."""
    with served(rig, "agent", "--listen", "ws://127.0.0.1:0", rig.demo()) as server:
        yield server


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is the test's alone."""
    with held_port() as port:
        yield port


@contextmanager
def attached(server: Served, *options: str, person: bool = True) -> Iterator[Running]:
    """`conductor attach`, at a terminal of its own."""
    screen = (100, 40) if person else None
    with Running("attach", server.address, *options, screen=screen) as client:
        if person and "--list" not in options:
            client.wait_for(client.err, " attached; ")
        yield client


def counted(client: Running, text: str, times: int) -> None:
    """Waits until a text has been shown so many times."""
    client.wait_until(client.err, lambda shown: shown.count(text) == times, f"{times} x {text}")


def idle(client: Running) -> None:
    """Waits until a client has seen the end of the turn: a prompt that is typed now is sent."""
    client.wait_until(client.err, lambda shown: shown.endswith(MARKER), "where one types")


def asked_again(client: Running) -> None:
    """Waits until a question stands behind the last link that came back."""
    client.wait_until(
        client.err, lambda shown: QUESTION in shown.rpartition("linked to")[2], "the question"
    )


def said(chain: Chain) -> str:
    """All updates that an editor has got."""
    return json.dumps(chain.seen("session/update"))


class Editor(NamedTuple):
    """An editor with a session, in a version of ACP."""

    chain: Chain
    session: str
    version: int

    def ended(self, asked: int) -> str:
        """Waits for the end of a turn; why it has ended."""
        result = self.chain.answer(asked)["result"]
        if self.version == 1:
            return str(result["stopReason"])

        def idle_behind() -> list[str]:
            updates = [frame["params"]["update"] for frame in self.chain.seen("session/update")]
            ids = [one.get("messageId") for one in updates]
            behind = updates[ids.index(result["messageId"]) :]
            return [one["stopReason"] for one in behind if one.get("state") == "idle"]

        self.chain.until(idle_behind, "the end of the turn")
        return idle_behind()[0]


def at(server: Served, rig: Rig) -> Chain:
    """An editor at the server's address."""
    editor = rig.run("connect", server.address)
    editor.serves[PERMISSION] = None
    return editor


def begun(server: Served, rig: Rig, version: int) -> Editor:
    """An editor with a session, in a version of ACP."""
    chain = at(server, rig)
    chain.initialize(**({} if version == 1 else V2))
    return Editor(chain, chain.new_session(), version)


@pytest.fixture(params=[1, 2])
def editor(request: pytest.FixtureRequest, server: Served, rig: Rig) -> Editor:
    """An editor with a session, in each version of ACP."""
    return begun(server, rig, request.param)


def test_all_see_a_turn_and_the_first_answer_counts(server: Served, editor: Editor) -> None:
    chain, session, _ = editor
    with attached(server) as driver, attached(server, "--view") as viewer:
        asked = chain.start_prompt(session, "/permission tidy up")
        question = chain.expect(PERMISSION)
        driver.wait_for(driver.err, QUESTION)
        assert "/permission tidy up" in driver.text(driver.err)
        viewer.wait_for(viewer.err, "the agent asks for permission: tidy up\n")
        assert "allow it" not in viewer.text(viewer.err)
        driver.type("y\n")
        assert editor.ended(asked) == "end_turn"
        assert "permission: allow-once" in chain.texts(session)
        cancelled = chain.expect("$/cancel_request")
        assert cancelled["params"]["requestId"] == question["id"]
        viewer.wait_for(viewer.err, "permission for tidy up: conductor-attach (client-2) answered")
        for client in (driver, viewer):
            client.wait_for(client.err, "permission: allow-once")
        idle(driver)
        driver.type("/echo from the terminal\n")
        viewer.wait_for(viewer.err, "> /echo from the terminal")
        driver.wait_for(driver.err, "\x1b[Kfrom the terminal\n")
        viewer.wait_for(viewer.err, "\nfrom the terminal")
        chain.until(lambda: "from the terminal" in chain.texts(session), "the answer")
        assert "> /echo" not in driver.text(driver.err).replace(MARKER, "")


def test_who_attaches_in_the_middle_of_a_turn_sees_all_of_it(
    server: Served, editor: Editor
) -> None:
    chain, session, _ = editor
    editor.ended(chain.start_prompt(session, "/echo the first turn"))
    chain.start_prompt(session, "/permission later")
    question = chain.expect(PERMISSION)
    with attached(server, session) as driver, attached(server, "--view") as viewer:
        shown = driver.text(driver.err)
        for text in ("> /echo the first turn\n", "\nthe first turn\n", "> /permission later\n"):
            assert shown.count(text) == 1
        viewer.wait_for(viewer.err, "the agent asks for permission: later\n")
        driver.wait_for(driver.err, QUESTION)
        driver.type("this is no answer\n")
        driver.wait_for(driver.err, "sent when the turn has ended")
        chosen = {"outcome": "selected", "optionId": "reject-once"}
        chain.send({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": chosen}})
        driver.wait_for(driver.err, "answered reject-once")
        driver.wait_for(driver.err, "this is no answer\n")
        chain.until(lambda: "this is no answer" in said(chain), "the prompt")
    with attached(server, session, "--history", "none") as other:
        assert "the first turn" not in other.text(other.err)


def test_a_viewer_sends_nothing(rig: Rig, server: Served) -> None:
    editor = at(server, rig)
    session = editor.begin()
    with attached(server, "--view") as viewer:
        assert "you watch" in viewer.text(viewer.err)
        viewer.type("hello\n")
        viewer.wait_for(viewer.err, "you only watch this session")
        hung = editor.start_prompt(session, "/hang")
        viewer.wait_for(viewer.err, "> /hang")
        viewer.interrupt()
        assert viewer.end().code == 130
        editor.settled()
        assert not editor.answers(hung)
        editor.notify("session/cancel", {"sessionId": session})
        assert editor.answer(hung)["result"]["stopReason"] == "cancelled"


def test_a_driver_cancels_and_leaves(server: Served, editor: Editor) -> None:
    chain, session, _ = editor
    with attached(server) as driver:
        hung = chain.start_prompt(session, "/hang")
        driver.wait_for(driver.err, "> /hang")
        driver.interrupt()
        assert editor.ended(hung) == "cancelled"
        driver.wait_for(driver.err, "the turn ended: cancelled")
        asked = chain.start_prompt(session, "/permission for the next turn")
        driver.wait_for(driver.err, QUESTION)  # that cancel answered nothing else
        driver.type("y\n")
        assert editor.ended(asked) == "end_turn"
        driver.wait_for(driver.err, "permission: allow-once\n")
        idle(driver)
        driver.type("/hang\n")
        driver.wait_for(driver.err, MARKER + "/hang")
        chain.until(lambda: "/hang" in said(chain), "the prompt of the other")
        driver.interrupt()
        counted(driver, "ended: cancelled", 2)
        driver.type("\x04")
        assert driver.end().code == 0
    editor.ended(chain.start_prompt(session, "/echo still here"))
    assert "still here" in chain.texts(session)


def test_the_session_is_closed(rig: Rig, server: Served) -> None:
    editor = at(server, rig)
    session = editor.begin()
    with attached(server) as driver, attached(server, "--json", person=False) as program:
        program.wait_for(program.out, '"role":"viewer"')
        assert "result" in editor.request("session/close", {"sessionId": session})
        assert driver.end().code == 0
        assert "the session is closed" in driver.text(driver.err)
        assert program.end().code == 0
        frames = [json.loads(line) for line in program.text(program.out).splitlines()]
        assert frames[-1]["params"]["update"]["sessionUpdate"] == "session_closed"


def test_the_chain_dies(rig: Rig, server: Served) -> None:
    editor = at(server, rig)
    session = editor.begin()
    with attached(server) as driver:
        editor.start_prompt(session, "/exit 3")
        ran = driver.end()
    assert ran.code == 1
    assert "the session is closed: " in ran.err


def test_who_is_attached(rig: Rig, server: Served) -> None:
    refused = conductor("attach", server.address)
    refused.assert_error(2, "no session is live")
    editor = at(server, rig)
    first, second = editor.begin(), editor.new_session()
    with attached(server, second, "--view", "--name", "phone"):
        shown = conductor("attach", server.address, "--list")
        assert shown.code == 0
        lines = shown.out.splitlines()
        assert first in lines[1]
        assert " idle " in lines[1]
        assert "phone" in lines[2]
        assert "viewer" in lines[2]
        listed = json.loads(conductor("attach", server.address, "--list", "--json").out)
        assert [one["id"] for one in listed] == [first, second]
        assert [one["role"] for one in listed[1]["clients"]] == ["driver", "viewer"]
    several = conductor("attach", server.address)
    several.assert_error(2, "2 sessions are live", first, second, "conductor attach ws://")
    unknown = conductor("attach", server.address, "none")
    unknown.assert_error(2, "no session `none` is live there", "--list")
    with Running("attach", server.address, screen=(100, 40)) as driver:
        driver.wait_for(driver.err, "which one? 1 to 2:")
        driver.type("2\n")
        driver.wait_for(driver.err, f"session {second}: you take part")


@pytest.mark.parametrize(("scheme", "version"), [("ws", 1), ("http", 1), ("tcp", 1), ("tcp", 2)])
def test_a_link_that_is_cut_comes_back(rig: Rig, server: Served, scheme: str, version: int) -> None:
    if scheme == "tcp":
        words = ("agent", "--listen", "tcp://127.0.0.1:0", rig.demo())
        server = served(rig, *words)
    editor = begun(server, rig, version)
    chain, session, _ = editor
    with Wire(server.port) as wire:
        address = f"{scheme}://127.0.0.1:{wire.port}"
        with Running("attach", address, screen=(100, 40)) as driver:
            driver.wait_for(driver.err, " attached; ")
            for number in range(3):
                asked = chain.start_prompt(session, f"/permission number {number}")
                driver.wait_for(driver.err, f"> /permission number {number}\n")
                wire.cut()
                linked = (number + 1) * (2 if scheme == "http" else 1)  # two streams
                counted(driver, "linked to", linked)
                driver.wait_for(driver.err, f"asks for permission: number {number}")
                asked_again(driver)
                driver.type("y\n")
                assert editor.ended(asked) == "end_turn"
                counted(driver, "permission: allow-once\n", number + 1)
            driver.type("\x04")
            shown = driver.end().err
        assert scheme == "http" or wire.carried == 4
    assert shown.count("permission: allow-once\n") == 3
    # A client of lines is a new one after a cut: what has no answer is asked again.
    assert scheme == "tcp" or shown.count("asks for permission") == 3


def test_the_server_starts_again(rig: Rig, port: int) -> None:
    words = ("serve", rig.lasting(), "--listen", f"ws://127.0.0.1:{port}")
    server = served(rig, *words)
    editor = at(server, rig)
    session = editor.begin()
    editor.prompt(session, "one")
    with attached(server) as driver, attached(server, "--json", person=False) as lines:
        driver.type("two\n")
        counted(driver, "two\n", 2)
        lines.wait_for(lines.out, '"text": "two"')
        driver.type("hang\n")
        lines.wait_for(lines.out, '"text": "hanging"')
        server.process.kill()
        served(rig, *words)
        driver.wait_for(driver.err, f"linked to {server.address} again")
        assert "this may not have arrived: hang\n" in driver.text(driver.err)
        driver.type("three\n")
        counted(driver, "three\n", 2)
        lines.wait_for(lines.out, '"text": "three"')
        assert editor.prompt(session, "history").endswith("one|two|hanging|three")
        driver.type("\x04")
        shown = driver.end().err
        assert shown.count("> one\n") == 1
        assert shown.count("two\n") == 2  # typed, and answered


def test_where_nobody_can_attach(rig: Rig) -> None:
    with behind("ws", shlex.join([sys.executable, str(DEMO)]), rig.folder) as address:
        conductor("attach", address).assert_error(2, "lets nobody attach", "conductor serve")
    with behind("tcp", "sh -c 'read line; echo SSH-2.0; read line'", rig.folder) as address:
        conductor("attach", address).assert_error(1, "no message of ACP", "hint: check the address")
    conductor("attach", "ws://127.0.0.1:1").assert_error(1, "cannot reach")
    wrong = conductor("attach", "ws://127.0.0.1:1", "--history", "some")
    wrong.assert_error(2, "there is no history `some`", "pending")
