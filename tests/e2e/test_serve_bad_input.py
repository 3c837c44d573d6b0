"""Bad input of strangers and broken clients: the server answers with a named error, its memory
stays bounded, and nobody else notices."""

import contextlib
import json
import socket
import struct
import time
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token, served
from tests.places import DEADLINE

WS: Final = ("--listen", "ws://127.0.0.1:0")
_MIB: Final = 1024 * 1024
_NEW: Final = {"cwd": "/", "mcpServers": []}
_BEGINS: Final = (
    ("initialize", {"protocolVersion": 1, "clientCapabilities": {}, "_meta": {"pad": "x" * 126}}),
    ("session/new", {**_NEW, "_meta": {"pad": "x" * 126}}),
)
"""Requests that open a session; each in a frame with a length of two bytes."""


def resident(server: Served) -> int:
    """Bytes of memory that the server has."""
    text = Path(f"/proc/{server.process.process.pid}/statm").read_text()
    return int(text.split()[1]) * 4096


def upgraded(server: Served) -> socket.socket:
    """A WebSocket by hand."""
    raw = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
    raw.sendall(
        b"GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += raw.recv(1)
    assert b" 101 " in head
    return raw


def close_code(raw: socket.socket) -> int:
    """Reads until the server closes a WebSocket; the code."""
    data = b""
    while more := raw.recv(65536):
        data += more
        at = data.find(b"\x88")
        if at >= 0 and len(data) >= at + 4:
            return int(struct.unpack(">H", data[at + 2 : at + 4])[0])
    raise AssertionError(f"no close: {data!r}")


@needs_proc
def test_a_frame_of_a_gigabyte_is_refused_at_its_head(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.message=1M") as server:
        client = server.socket()
        session = client.begin()
        before = resident(server)
        with upgraded(server) as raw:
            raw.sendall(b"\x81\xff" + struct.pack(">Q", 1024**3) + b"\0\0\0\0")
            assert close_code(raw) == 1009
        declared = server.http().ask(
            "POST", None, Content_Type="application/json", Content_Length=str(1024**3)
        )
        assert declared.status == 413
        assert resident(server) - before < 32 * _MIB
        assert client.prompt(session, "/echo on") == "on"


@needs_proc
def test_a_message_that_is_sent_and_too_long_is_not_kept(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.message=1M") as server:
        client = server.socket()
        session = client.begin()
        before = resident(server)
        with upgraded(server) as raw, contextlib.suppress(OSError):  # it is reset, or broken
            piece = b"\x01\xfe" + struct.pack(">H", 60_000) + b"\0\0\0\0" + b"a" * 60_000
            rest = b"\0" + piece[1:]
            raw.sendall(piece)
            for _ in range(4096):
                raw.sendall(rest)
            raise AssertionError("the server takes 240 MB")
        assert resident(server) - before < 32 * _MIB
        assert client.prompt(session, "/echo on") == "on"


def test_a_mark_of_bytes_order_before_a_message(rig: Rig) -> None:
    mark = b"\xef\xbb\xbf"
    first = (
        mark + b'{"jsonrpc":"2.0","id":1.0,"method":"initialize","params":{"protocolVersion":1}}'
    )
    with served(rig, "serve", rig.demo(), *WS) as server:
        opened = server.http().ask("POST", first, Content_Type="application/json")
        assert json.loads(opened.body)["result"]["protocolVersion"] == 1
        with upgraded(server) as raw:
            raw.sendall(b"\x81" + bytes((0x80 | len(first),)) + b"\0\0\0\0" + first)
            head = raw.recv(2)
            assert b'"protocolVersion":1' in raw.recv(1000), head


def test_an_answer_under_the_id_of_no_question_is_logged(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        turn = client.start_prompt(client.begin(), "/permission")
        while (asked := client.receive()).get("method") != "session/request_permission":
            pass
        no = {"jsonrpc": "2.0", "result": {"outcome": {"outcome": "cancelled"}}}
        client.send({**no, "id": f"{asked['id']}"})
        line = (
            "warning: client-1 of `local`: answer dropped: no request is open under its id; "
            "without an answer: `session/request_permission`\n"
        )
        server.process.until(lambda: line in server.process.stderr, "the line in the log")
        client.send({**no, "id": asked["id"]})
        assert "result" in client.answer(turn)


def test_broken_text_ends_one_link_alone(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        session = client.begin()
        with upgraded(server) as raw:
            # The first two of three bytes in one frame, something else in the next.
            raw.sendall(b"\x01\x82\0\0\0\0\xe2\x82" + b"\x80\x81\0\0\0\0A")
            assert close_code(raw) == 1007
        body = server.http().ask("POST", b'{"\xff":1}', Content_Type="application/json")
        assert body.status == 400
        assert client.prompt(session, "/echo on") == "on"


def test_who_is_sent_away_for_broken_text_has_not_left(rig: Rig) -> None:
    """Many clients answer a close with code 1000, whatever it says."""
    with served(rig, "serve", rig.demo(), *WS) as server, upgraded(server) as raw:
        for number, (method, params) in enumerate(_BEGINS):
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            text = json.dumps(asked).encode()
            raw.sendall(b"\x81\xfe" + struct.pack(">H", len(text)) + b"\0\0\0\0" + text)
            come = b""
            while b'"id":%d' % number not in come:
                come += raw.recv(65536)
        raw.sendall(b"\x81\x81\0\0\0\0\xff")
        assert close_code(raw) == 1007
        raw.sendall(b"\x88\x82\0\0\0\0" + struct.pack(">H", 1000))
        while raw.recv(65536):
            pass
        client = server.socket()
        client.initialize()
        loaded = client.request("session/load", {"sessionId": "demo-1", **_NEW})
        assert "result" in loaded, loaded


def test_a_character_between_two_frames_arrives_whole(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        session = client.begin()
        prompt = [{"type": "text", "text": "/echo grüße €"}]
        text = json.dumps(
            {
                "jsonrpc": "2.0",
                "id": 77,
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": prompt},
            },
            ensure_ascii=False,
        ).encode()
        at = text.index("€".encode()) + 1
        client.socket.send([text[:at], text[at:]], text=True)
        assert "result" in client.answer(77)
        assert any("grüße €" in json.dumps(one, ensure_ascii=False) for one in client.frames)


def test_requests_that_mean_nothing(rig: Rig) -> None:
    """`test_http_rules.py` has more of them."""
    with served(rig, "agent", *WS, rig.demo()) as server:
        for method, headers, body, status in (
            ("POST", {}, b"{}", 415),
            ("POST", {"Content_Type": "application/json"}, b"{", 400),
            ("GET", {"Accept": "text/event-stream", "Acp_Connection_Id": "x"}, None, 404),
            ("GET", {"Accept": "image/png"}, None, 406),
            ("GET", {"Connection": "Upgrade", "Upgrade": "websocket"}, None, 400),  # has no key
            ("PUT", {}, b"", 405),
            ("DELETE", {"Acp_Connection_Id": "x"}, None, 404),
        ):
            answer = server.http().ask(method, body, **headers)
            assert answer.status == status, (method, headers, body)


@needs_proc
@pytest.mark.parametrize("many", [300, 10_000])
def test_half_open_connections_keep_nobody_out(rig: Rig, many: int) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.login=60") as server:
        early = server.socket()
        session = early.begin()
        before = resident(server)
        strangers = []
        for number in range(many):
            stranger = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
            if number % 2:
                stranger.sendall(b"GET /acp HTTP/1.1\r\nHost: 127")
            strangers.append(stranger)
        try:
            late = server.socket()
            assert late.prompt(late.begin(), "/echo late") == "late"
            assert early.prompt(session, "/echo early") == "early"
            # The oldest was closed.
            strangers[0].settimeout(DEADLINE)
            assert strangers[0].recv(1) == b""
            assert resident(server) - before < 32 * _MIB
        finally:
            for stranger in strangers:
                stranger.close()


def test_a_stranger_has_little_time(rig: Rig) -> None:
    with (
        served(rig, "serve", rig.demo(), *WS, "-c", "serve.login=0.3") as server,
        socket.create_connection(("127.0.0.1", server.port), DEADLINE) as stranger,
        contextlib.suppress(ConnectionError),  # that time may be over before this is sent
    ):
        stranger.sendall(b"POST /acp HTTP/1.1\r\n")
        assert stranger.recv(1) == b""


def test_a_browser_at_a_port_with_lines_is_turned_away(rig: Rig) -> None:
    with served(rig, "agent", "--listen", "tcp://127.0.0.1:0", rig.demo()) as server:
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as page:
            frame = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            page.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + json.dumps(frame).encode())
            assert page.recv(1) == b""
        assert server.lines().begin()


@needs_proc
def test_a_client_that_never_reads(rig: Rig) -> None:
    """The client's chain waits, memory stays, and the others go on."""
    limits = ("-c", "serve.unread=8M")
    with served(rig, "serve", rig.demo(), *WS, *limits) as server:
        silent, other = server.socket(max_queue=1), server.socket()
        session, others = silent.begin(), other.begin()
        before = resident(server)
        silent.start_prompt(session, "/stream 4000 100000")  # 400 MB
        deadline = time.monotonic() + DEADLINE
        while resident(server) - before < 3 * _MIB and time.monotonic() < deadline:
            assert other.prompt(others, "/echo on") == "on"
        for _ in range(20):
            assert other.prompt(others, "/echo on") == "on"
        assert resident(server) - before < 64 * _MIB
        silent.socket.socket.close()


def test_a_server_that_starts_again_knows_whose_a_session_is(rig: Rig) -> None:
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    owners = ("-c", f"serve.owners={rig.folder / 'owners'}")
    tokens = ("--tokens", str(rig.folder / "tokens"))
    params = {"cwd": "/", "mcpServers": []}
    with served(rig, "serve", rig.demo(), *WS, *tokens, *owners) as server:
        mine = server.socket(headers=bearer(alice))
        session = mine.begin()
        mine.prompt(session, "/echo hi")
        server.end()
    with served(rig, "serve", rig.demo(), *WS, *tokens, *owners) as server:
        other = server.socket(headers=bearer(bob))
        other.initialize()
        foreign = other.request("session/load", {"sessionId": session, **params})
        assert foreign["error"]["code"] == -32002
    assert (rig.folder / "owners").stat().st_mode & 0o777 == 0o600


def test_more_connections_than_one_may_have(rig: Rig) -> None:
    limits = ("-c", "serve.connections=2", "-c", "serve.all-connections=3")
    tokens = ("--tokens", str(rig.folder / "tokens"))
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    with served(rig, "serve", rig.demo(), *WS, *limits, *tokens) as server:
        clients = [server.http(**bearer(alice)) for _ in range(2)]
        for client in clients:
            client.initialize()
        assert server.http(**bearer(alice)).post(initialize).status == 503
        other = server.http(**bearer(bob))
        other.initialize()
        assert server.http(**bearer(bob)).post(initialize).status == 503
        assert clients[0].ask("DELETE", Acp_Connection_Id=clients[0].connection).status == 202
        assert server.http(**bearer(alice)).post(initialize).status == 200


def test_a_turn_that_takes_too_long(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.prompt-time=0.3") as server:
        client = server.socket()
        session = client.begin()
        answer = client.answer(client.start_prompt(session, "/hang"))
        assert answer.get("error") or answer["result"]["stopReason"] == "cancelled"
        while client.prompt(session, "/echo on") != "on":  # on a busy machine this takes too long
            pass


def test_a_page_reads_that_its_body_needs_too_long(rig: Rig) -> None:
    """A POST that does not end is answered 408."""
    here, token = "https://chat.example", new_token(rig, "alice")
    known = ("--tokens", str(rig.folder / "tokens"))
    limits = ("-c", "serve.login=1", "-c", f"serve.origin={here}")
    with (
        served(rig, "serve", rig.demo(), *WS, *known, *limits) as server,
        socket.create_connection(("127.0.0.1", server.port), DEADLINE) as post,
    ):
        post.sendall(
            b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: %b\r\n"
            b"Authorization: Bearer %b\r\nContent-Length: 1000000\r\n\r\n {"
            % (here.encode(), token.encode())
        )
        head = post.recv(65536)
        assert b" 408 " in head
        assert b"Access-Control-Allow-Origin: %b\r\n" % here.encode() in head
