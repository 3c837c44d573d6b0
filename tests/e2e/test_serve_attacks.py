"""Who attacks a server through its own doors: names, tokens, other people's things, and what costs.

`test_serve_bad_input.py` has what is malformed.
"""

import json
import os
import signal
import socket
from typing import Any, Final

import jwt
import pytest
from websockets.exceptions import InvalidStatus

from tests.e2e.test_serve_bad_input import close_code, upgraded
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token, served
from tests.places import DEADLINE

WS: Final = ("--listen", "ws://127.0.0.1:0")
_MIB: Final = 1024 * 1024
_NEW: Final = {"cwd": "/", "mcpServers": []}


def tokens(rig: Rig) -> tuple[str, ...]:
    """The options for the file of `new_token`, and a file of owners of the test's own."""
    return ("--tokens", str(rig.folder / "tokens"), "-c", f"serve.owners={rig.folder / 'owners'}")


def raw(server: Served, data: bytes) -> bytes:
    """Sends bytes to a server; what it answers until it closes, or has answered its head."""
    with socket.create_connection(("127.0.0.1", server.port), DEADLINE) as client:
        client.sendall(data)
        answer = b""
        while b"\r\n\r\n" not in answer and (more := client.recv(65536)):
            answer += more
        return answer


# -- names and tokens ------------------------------------------------------------------------------


def test_tokens_that_are_none(rig: Rig) -> None:
    token = new_token(rig, "alice")
    forged = jwt.encode({"sub": "alice"}, "", "none")
    shared = jwt.encode({"sub": "alice"}, token * 2, "HS256")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        shown: list[dict[str, str]] = [
            {},
            *({"Authorization": text} for text in ("Bearer", "Bearer  ", token, f"Basic {token}")),
            *(bearer(text) for text in (forged, shared, token[:-1], token.upper(), f"{token} x")),
            {"Cookie": f"token={token}"},
            {"X-Forwarded-User": "alice"},
            {"Sec-WebSocket-Protocol": f"acp.bearer.{token}"},  # without an Origin
        ]
        for headers in shown:
            for method in ("GET", "POST", "DELETE", "PUT"):
                assert server.http(**headers).ask(method).status == 401, headers
        for path in (f"/acp?token={token}", f"/acp?access_token={token}", "/metrics", "/acp/x"):
            assert server.http(path).ask("GET").status == 401
        with pytest.raises(InvalidStatus, match="401"):
            server.socket(f"/acp?token={token}")
        assert server.http("/metrics", **bearer(token)).ask("GET").status == 200
        assert token not in server.process.stderr


FOREIGN: Final = {
    "Origin: https://evil.example": 403,
    "Origin: http://127.0.0.1:1": 403,
    "Origin: http://localhost": 403,
    "Origin: https://chat.example.": 403,
    "Origin: https://chat.example:8443": 403,
    "Origin: null": 403,
    "Origin:": 403,
    "Origin: https://chat.example": 0,
    "Host: evil.example": 421,
    "Host: 127.0.0.1.": 421,
    "Host: 127.0.0.1@evil.example": 421,
    "Host: 127.1": 421,
    "Host: evil.example\r\nHost: 127.0.0.1": 400,
    "Host: chains.example": 0,
    "X-Forwarded-Host: evil.example\r\nHost: 127.0.0.1:99": 0,
    "Host: [::1]:99": 0,
    "Authorization: Bearer a\r\nAuthorization: Bearer b": 400,
    "Acp-Connection-Id: a\r\nacp-connection-id: b": 400,
    "Acp-Session-Id: a\r\nAcp-Session-Id: a": 400,
    "X-Other: a\r\nX-Other: b": 0,
}
"""Headers, and what they are answered; 0 where they are as good as none.  More of names:
`test_access.py`."""


def test_names_that_are_not_ours_by_each_method(rig: Rig) -> None:
    names = ("-c", "serve.origin=https://chat.example", "--host", "chains.example")
    with served(rig, "serve", rig.demo(), *WS, *names) as server:
        for lines, status in FOREIGN.items():
            host = "" if "Host:" in lines else "Host: 127.0.0.1\r\n"
            for method, otherwise in (("GET", 400), ("POST", 415), ("DELETE", 400)):
                head = f"{method} /acp HTTP/1.1\r\n{host}{lines}\r\n\r\n".encode()
                assert int(raw(server, head).split()[1]) == (status or otherwise), lines


def test_an_origin_that_is_none_is_not_taken(rig: Rig) -> None:
    chain = rig.run("serve", rig.demo(), *WS, "-c", "serve.origin=chat.example")
    assert chain.exit_code() == 2
    assert "is no origin of a page" in chain.stderr


def test_lines_are_no_way_around_tokens(rig: Rig) -> None:
    new_token(rig, "alice")
    listen = ("--listen", "tcp://127.0.0.1:0")
    chain = rig.run("serve", rig.demo(), *WS, *listen, *tokens(rig))
    assert chain.exit_code() == 2
    assert "shows no token" in chain.stderr


def test_paths_name_chains_and_nothing_else(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server:
        for path in ("/acp/../x", "/acp/%2e%2e/x", "/acp//", "/ACP", "/acp/x%00", "/x"):
            head = f"DELETE {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
            assert int(raw(server, head).split()[1]) in (400, 404), path
        assert server.socket().begin()


# -- what belongs to others ------------------------------------------------------------------------


def test_a_session_of_somebody_else_by_each_method(rig: Rig) -> None:
    """Each answer is the one for a session that does not exist; the owner notices nothing."""
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig), "--share") as server:
        mine = server.socket(headers=bearer(alice))
        session = mine.begin()
        other = server.socket(headers=bearer(bob))
        other.initialize()  # its agent counts from 1 too: a session of its own would be a namesake
        before = len(mine.frames)
        for method in (
            *("load", "resume", "fork", "attach", "detach", "prompt", "close", "delete"),
            *("set_mode", "set_model", "set_config_option", "status", "archive", "set_title"),
        ):
            answers = []
            for id_ in (session, "nobodys"):
                params: dict[str, Any] = {**_NEW, "sessionId": id_, "prompt": [], "modeId": "x"}
                answer = other.request(f"session/{method}", params)
                assert "error" in answer, (method, id_, answer)
                answers.append(json.dumps(answer["error"]).replace(id_, "?"))
            assert answers[0] == answers[1], method
            assert "-32002" in answers[0], method
        other.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        listed = other.request("session/list", {})
        assert session not in json.dumps(listed)
        assert mine.prompt(session, "/echo mine") == "mine"
        assert len(mine.frames) == before + 2  # the update, and the answer
        linked = server.linked(**bearer(alice))
        with pytest.raises(InvalidStatus, match="404"):
            server.socket(
                headers={**bearer(bob), "Acp-Connection-Id": linked.connection},
                subprotocols=["conductor.link.1"],
            )


def test_a_header_that_names_another_session_than_the_message(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server:
        client = server.http()
        session = client.begin()
        frame = {"jsonrpc": "2.0", "id": 9, "method": "session/prompt"}
        params = {"sessionId": session, "prompt": []}
        assert client.post({**frame, "params": params}, Acp_Session_Id="x").status == 400


def test_a_viewer_drives_nothing(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server:
        driver, viewer = server.socket(), server.socket()
        session = driver.begin()
        viewer.initialize(_meta={"conductor": {"attaches": True}})
        viewer.request("session/attach", {"sessionId": session, "role": "viewer"})
        for method in ("prompt", "set_mode", "close", "delete", "fork", "x/_conductor"):
            answer = viewer.request(f"session/{method}", {"sessionId": session, "prompt": []})
            assert "viewer" in answer["error"]["message"], method
        turn = driver.start_prompt(session, "/permission")
        asked = driver.receive()
        while asked.get("method") != "session/request_permission":
            asked = driver.receive()
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        for id_ in (asked["id"], 1, "1"):
            viewer.send({"jsonrpc": "2.0", "id": id_, "result": allowed})
        cancel = {"sessionId": session}
        viewer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": cancel})
        assert "result" in viewer.request("session/list", {})  # all of that has been read
        refused = {"outcome": {"outcome": "cancelled"}}
        driver.send({"jsonrpc": "2.0", "id": asked["id"], "result": refused})
        assert "result" in driver.answer(turn)


def test_methods_that_are_for_local_hands_reach_nothing(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        session = client.begin()
        for method in (
            *("_proxy/initialize", "_proxy/successor/request", "proxy/successor", "_proxy/config"),
            *("conductor/peers", "conductor/reload", "conductor/trust", "conductor/stop"),
        ):
            for params in ({}, {"sessionId": session}, {"method": "session/new", "params": _NEW}):
                assert "error" in client.request(method, params), method
        assert client.prompt(session, "/echo on") == "on"


# -- what costs ------------------------------------------------------------------------------------


def test_compressed_frames_are_refused(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server, upgraded(server) as client:
        client.sendall(b"\xc1\x82\0\0\0\0{}")
        assert close_code(client) == 1002


def test_lines_beyond_the_connections_there_may_be_are_answered(rig: Rig) -> None:
    path = rig.folder / "s"
    few = ("-c", "serve.connections=1")
    with served(rig, "serve", rig.demo(), "--listen", f"unix:{path}", *few) as server:
        assert server.lines().begin()
        late = server.lines()
        answer = late.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "as many as there may be" in answer["error"]["message"]
        assert late.socket.recv(1) == b""


def test_a_client_that_connects_in_a_loop_keeps_itself_in(rig: Rig) -> None:
    """The remains of links that never opened a session do not count against their user."""
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.connections=4") as server:
        for _ in range(12):
            server.socket().cut()
        for _ in range(12):
            client = server.socket()
            client.initialize()
            client.cut()
        assert server.socket().begin()


def test_numbers_of_messages_with_holes_are_not_kept(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server:
        client = server.http()
        client.begin()
        frame = {"jsonrpc": "2.0", "method": "x"}
        codes = [client.post(frame, Acp_Message_Number=str(n)).status for n in range(2, 1030)]
        assert codes[0] == 202
        assert codes[-1] == 400
        assert client.post(frame, Acp_Message_Number="1").status == 202


# -- operation -------------------------------------------------------------------------------------


def test_a_reload_with_broken_tokens_leaves_the_old_ones(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    path = rig.folder / "tokens"
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        process = server.process
        for count, text in enumerate(("alice = 1", "\x1b[31m = [", 'a = "sha256:x"', None), 1):
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
            process.process.send_signal(signal.SIGHUP)
            process.until_stderr("stays as it was", count)
            assert server.http(**bearer(alice)).ask("GET").status == 400, text
            assert server.http().ask("GET").status == 401
        assert "\x1b" not in process.stderr


@pytest.mark.parametrize(
    ("listen", "opened", "complaint"),
    [
        ('"tcp://127.0.0.1:0"', "", "shows no token"),
        ('"ws://0.0.0.0:0"', "", "could read along"),
        ('"ws://0.0.0.0:0"', "no tokens", "could read along"),
    ],
)
def test_a_reload_does_not_open_what_others_reach(
    rig: Rig, listen: str, opened: str, complaint: str
) -> None:
    """A setting that lets strangers in is refused at a reload as at the start, and with it all that
    the same reload would have changed."""
    alice = new_token(rig, "alice")
    config = rig.folder / "config" / "conductor" / "conductor.toml"
    config.parent.mkdir(parents=True)
    places = f'[serve]\nlisten = ["ws://127.0.0.1:0", {listen}]\n'
    asked = f'tokens = "{rig.folder / "tokens"}"\n'
    config.write_text(f"{places}{asked}insecure = true\n")
    with served(rig, "serve", rig.demo(), XDG_CONFIG_HOME=str(rig.folder / "config")) as server:
        client = server.socket(headers=bearer(alice))
        session = client.begin()
        (rig.folder / "tokens").unlink()
        bob = new_token(rig, "bob")
        config.write_text(f"{places}connections = 1\n{'' if opened else asked}")
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("the server stays as it was")
        server.process.until_stderr(complaint)
        assert server.http(**bearer(bob)).ask("GET").status == 401
        assert server.http().ask("GET").status == 401
        assert server.socket(headers=bearer(alice)).begin()  # a second connection
        assert client.prompt(session, "/echo on") == "on"
        config.write_text(f"{places}{asked}insecure = true\n")
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("have been read again")
        assert server.http(**bearer(alice)).ask("GET").status == 401
        assert server.http(**bearer(bob)).ask("GET").status == 400


def test_what_strangers_write_is_not_logged(rig: Rig) -> None:
    with served(rig, "agent", *WS, rig.demo()) as server:
        for path in ("/acp/%1b[31m", "/%0aerror:%20all%20is%20lost"):
            assert server.http(path, Acp_Session_Id="\x9b31m").ask("DELETE").status == 404
        raw(server, b"GET \x1b[31m HTTP/1.1\r\nHost: \x1b\r\n\r\n")
        with upgraded(server) as client:
            client.sendall(b"\x81\x84\0\0\0\0\x1b[3m\x88\x86\0\0\0\0\x03\xe8\x1b[3m")
            assert close_code(client) in (1000, 1007)
        assert server.socket().begin()
        assert len(server.process.stderr.splitlines()) == 1, server.process.stderr


def test_numbers_name_nobody(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        session = server.socket(headers=bearer(alice)).begin()
        for path in ("/a", "/b", "/c"):
            server.http(path, **bearer(alice)).ask("BREW")
        text = server.http("/metrics", **bearer(alice)).ask("GET").body.decode()
        assert session not in text
        assert "alice" not in text
        assert len(text.splitlines()) < 40


def test_a_link_or_a_file_is_no_place_for_a_socket(rig: Rig) -> None:
    aim = rig.folder / "aim"
    aim.write_text("mine")
    link = rig.folder / "link"
    os.symlink(aim, link)
    for path in (aim, link):
        chain = rig.run("serve", rig.demo(), "--listen", f"unix:{path}")
        assert chain.exit_code() == 2
    assert aim.read_text() == "mine"
    chain = rig.run("serve", rig.demo(), *WS, "-c", f"serve.owners={link}")
    assert chain.exit_code() != 0
    assert aim.read_text() == "mine"


def test_the_end_waits_for_no_half_body(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.wind-down=0") as server:
        stranger = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
        stranger.sendall(
            b"POST /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        assert server.socket().begin()
        server.process.process.send_signal(signal.SIGTERM)
        # Only a hang reaches this.
        assert server.process.process.wait(45) == 0
        stranger.close()
