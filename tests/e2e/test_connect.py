"""`conductor connect`: an editor reaches a chain that runs elsewhere, or learns why not."""

import asyncio
import base64
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.cli.connection import TOKEN
from tests.harness.process.command import COMMAND, conductor, environment
from tests.harness.process.cutter import Cutter
from tests.harness.process.proxy import HOST, Proxy
from tests.harness.process.remote import behind
from tests.harness.process.rig import DEMO, Rig
from tests.harness.process.serving import held_port, served
from tests.transports.remote.peers import LinkServer

DEMO_COMMAND = shlex.join([sys.executable, str(DEMO)])
CHAIN = shlex.join([*COMMAND, "agent", "demo"])


def first_request() -> bytes:
    """The request that an editor sends at once."""
    params = {"protocolVersion": 1, "clientCapabilities": {}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}
    return json.dumps(message).encode() + b"\n"


@pytest.mark.parametrize("scheme", ["unix", "tcp", "ws", "http"])
def test_an_editor_talks_to_a_chain_elsewhere(rig: Rig, scheme: str) -> None:
    with behind(scheme, CHAIN, rig.folder) as address:
        chain = rig.run("connect", address)
        session = chain.begin()
        assert "hi ünïcode" in chain.prompt(session, "hi ünïcode")
        assert chain.finish() == 0
        assert not chain.errors


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_the_way_goes_through_the_proxy_that_the_environment_names(rig: Rig, scheme: str) -> None:
    words = ("serve", rig.demo(), "--listen", "ws://127.0.0.1:0", "--host", HOST)
    server = served(rig, *words)
    pair = "Basic " + base64.b64encode(b"me:s3cret").decode()
    with Proxy(server.port, pair, tunnels=scheme == "ws") as proxy:
        address = f"{scheme}://{HOST}:8790"
        env = {"NO_PROXY": "", "HTTP_PROXY": f"http://me:s3cret@{proxy.url}"}
        editor = rig.run("connect", address, **env)
        assert editor.prompt(editor.begin(), "/echo hi") == "hi"
        assert editor.finish() == 0
        asked = f"CONNECT {HOST}:8790" if scheme == "ws" else f"POST {address}/acp"
        assert f"{asked} HTTP/1.1" in proxy.asked

        def refused(**other: str) -> str:
            with_env = environment(**{**env, **other})
            ran = conductor("connect", address, stdin=first_request(), env=with_env)
            ran.assert_error(1, f"{address}/acp")
            assert "s3cret" not in ran.out + ran.err
            return ran.err

        assert "there is no host" in refused(NO_PROXY=HOST)
        assert "wants a login" in refused(HTTP_PROXY=f"http://{proxy.url}")
        assert "proxy 127.0.0.1:9 does not answer" in refused(
            HTTP_PROXY="http://me:s3cret@127.0.0.1:9"
        )


def test_a_token_opens_the_door_and_is_shown_nowhere(rig: Rig) -> None:
    token = rig.folder / "token"
    token.write_text("s3cret-t0ken\n")
    with behind("ws", DEMO_COMMAND, rig.folder, "--token", "s3cret-t0ken") as address:
        for arguments, env in (
            (("--token-file", str(token)), {}),
            ((), {TOKEN: "s3cret-t0ken"}),
        ):
            chain = rig.run("connect", address, *arguments, **env)
            chain.begin()
            assert chain.finish() == 0
        env = environment(**{TOKEN: "wr0ng-t0ken"})
        refused = conductor("connect", address, stdin=first_request(), env=env)
    refused.assert_error(1, "HTTP status 401", "token")
    (answer,) = map(json.loads, refused.out.splitlines())
    assert answer["id"] == 7
    assert "401" in answer["error"]["message"]
    assert answer["error"]["data"]["status"] == 401
    assert "wr0ng" not in refused.out + refused.err


def test_an_editor_learns_that_nobody_is_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"ws://127.0.0.1:{taken.getsockname()[1]}"
        ran = conductor("connect", address, stdin=first_request())
    ran.assert_error(1, f"cannot reach {address}/acp", "nobody listens there")
    (answer,) = map(json.loads, ran.out.splitlines())
    assert answer["id"] == 7
    assert "nobody listens there" in answer["error"]["message"]
    ran = conductor("connect", f"unix:{tmp_path}/none", stdin=first_request())
    ran.assert_error(1, "there is no such socket")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ftp://h",), "is no address"),
        (("ws://h", "--ca", "x.pem"), "has no TLS"),
        (("wss://h", "--ca", "no-such.pem"), "has no certificates"),
        (("ws://127.0.0.1:1", "--token-file", "no-such"), "needs the secret `file:"),
        (("tcp://127.0.0.1:0",), "has no port"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], words: str) -> None:
    conductor("connect", *arguments).assert_error(2, words)


def test_a_token_is_not_sent_where_others_read_it() -> None:
    ran = conductor("connect", "ws://192.0.2.1:9", env=environment(**{TOKEN: "s3cret-t0ken"}))
    ran.assert_error(2, "not encrypted")
    assert "s3cret" not in ran.err


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_a_token_that_is_none_is_named(scheme: str) -> None:
    variables = environment(**{TOKEN: "t\u00f6k\u00e9n of more words"})
    ran = conductor("connect", f"{scheme}://127.0.0.1:9", env=variables)
    ran.assert_error(2, "a token is one word of ASCII", "hint: check the variable")


def test_open_requests_are_answered_when_the_way_is_lost(rig: Rig) -> None:
    with behind("tcp", DEMO_COMMAND, rig.folder) as address:
        chain = rig.run("connect", address)
        session = chain.begin()
        open_request = chain.start_prompt(session, "/hang")
        chain.request("_x/unknown")  # that is answered after the prompt has arrived
    answer = chain.answer(open_request)
    assert "closed the connection" in answer["error"]["message"]
    assert "send the request again" in answer["error"]["message"]
    chain.until_stderr("nobody listens there; try 2 of 12 more follows")
    assert len(chain.answers(open_request)) == 1


class Cutting:
    """A resumable server in a thread, which says what it hears."""

    def __init__(self) -> None:
        self.server = LinkServer()
        self.loop = asyncio.new_event_loop()
        self.address = ""

    def start(self) -> None:
        self.address = self.loop.run_until_complete(self.server.start())
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def cut(self) -> None:
        self.loop.call_soon_threadsafe(self.server.cut)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self.loop).result(30)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def cutting() -> Iterator[Cutting]:
    server = Cutting()
    server.start()
    yield server
    server.end()


def test_a_link_that_is_cut_goes_on_and_says_so(cutting: Cutting) -> None:
    cutting.server.answers = lambda frame: [
        json.dumps({"jsonrpc": "2.0", "id": json.loads(frame)["id"], "result": {}}).encode()
    ]
    with subprocess.Popen(
        [*COMMAND, "connect", cutting.address],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as editor:  # fmt: skip
        assert editor.stdin is not None
        assert editor.stdout is not None
        assert editor.stderr is not None
        for number in range(6):
            line = {**json.loads(first_request()), "id": number}
            if number:
                line["method"] = "x"
            editor.stdin.write(json.dumps(line).encode() + b"\n")
            editor.stdin.flush()
            assert json.loads(editor.stdout.readline())["id"] == number
            cutting.cut()
        editor.stdin.close()
        assert editor.stdout.read() == b""
        assert editor.wait(60) == 0
        said = editor.stderr.read().decode()
    assert "was cut" in said
    assert "again" in said
    assert [json.loads(frame)["id"] for frame in cutting.server.heard["c1"]] == [*range(1, 7)]


@pytest.mark.parametrize("scheme", ["ws", "http", "unix"])
def test_the_server_starts_again_and_the_editor_keeps_its_session(rig: Rig, scheme: str) -> None:
    agent = rig.lasting()
    with held_port() as port:
        place = f"unix:{rig.folder}/s" if scheme == "unix" else f"{scheme}://127.0.0.1:{port}"
        server = served(rig, "serve", agent, "--listen", place)
        editor = rig.run("connect", server.address)
        session = editor.begin()
        assert editor.prompt(session, "one") == "one"
        turn = editor.start_prompt(session, "hang")
        editor.until(lambda: "hanging" in editor.texts(session), "the turn")
        server.process.kill()
        served(rig, "serve", agent, "--listen", place)
        assert "send the request again" in editor.answer(turn)["error"]["message"]
        assert editor.prompt(session, "history") == "one|hanging"
        assert len(editor.answers(turn)) == 1
        assert editor.stderr.count("it is started again") == 1
        assert editor.finish() == 0


@pytest.mark.parametrize(("first", "second"), [("http", "unix"), ("unix", "ws")])
def test_the_session_goes_on_at_another_address(rig: Rig, first: str, second: str) -> None:
    agent = rig.lasting()
    servers = [
        served(rig, "serve", agent, "--listen", place, "-c", "serve.owners=none")
        for scheme in (first, second)
        for place in [f"unix:{rig.folder}/s" if scheme == "unix" else f"{scheme}://127.0.0.1:0"]
    ]
    editor = rig.run("connect", ",".join(server.address for server in servers))
    session = editor.begin()
    assert editor.prompt(session, "one") == "one"
    servers[0].process.kill()
    editor.until_stderr("it is started again (1 of 3)")
    assert editor.prompt(session, "history") == "one"
    assert editor.finish() == 0
    assert "session/load" in rig.methods("A")


def test_the_first_of_several_addresses_that_answers(rig: Rig) -> None:
    with behind("unix", DEMO_COMMAND, rig.folder) as address:
        (rig.folder / "a socket").symlink_to(address.removeprefix("unix:"))
        several = f"unix:{rig.folder}/none,ws://127.0.0.1:9,unix:{rig.folder}/a socket"
        editor = rig.run("connect", several)
        assert editor.prompt(editor.begin(), "/echo hi") == "hi"
        assert editor.finish() == 0
    assert "there is no such socket; try 1 of 2 more follows" in editor.stderr


@pytest.mark.parametrize("scheme", ["ws", "http"])
def test_a_conductor_that_serves_is_reached_through_a_network_that_cuts(
    rig: Rig, scheme: str
) -> None:
    """In each phase: before a session, amid a turn, between two; nothing is lost or doubled."""
    server = rig.agent("demo", options=("--listen", f"{scheme}://127.0.0.1:0"))
    server.until_stderr("/acp")
    port = re.search(r"127\.0\.0\.1:(\d+)", server.stderr)
    assert port is not None
    with Cutter(int(port[1])) as proxy:
        chain = rig.run("connect", f"{scheme}://127.0.0.1:{proxy.port}")
        chain.initialize()
        proxy.cut()
        session = chain.new_session()
        for turn in range(1, 5):
            turn_id = chain.start_prompt(session, "/stream 60 100")
            wanted = (turn - 1) * 60 + 10 * turn
            chain.until(lambda: len(chain.texts(session)) >= wanted, "updates")  # noqa: B023
            proxy.cut()
            assert chain.answer(turn_id)["result"] == {"stopReason": "end_turn"}
            assert len(chain.answers(turn_id)) == 1
            proxy.cut()
        numbers = [int(text[:8]) for text in chain.texts(session)]
        assert numbers == [*range(60)] * 4
        assert chain.finish() == 0
    assert "trying again" in chain.stderr
    assert "again" in chain.stderr
