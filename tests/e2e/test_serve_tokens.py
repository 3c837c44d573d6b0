"""Connections end with the token that their client has shown."""

import contextlib
import datetime
import signal
from typing import Final

import pytest
from websockets.exceptions import ConnectionClosed

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, Served, Socket, bearer, new_token, served

WS: Final = ("--listen", "ws://127.0.0.1:0")
WHY: Final = "the token of this client has expired or counts no more"


def tokens(rig: Rig) -> tuple[str, str]:
    """The option for the file of `new_token`."""
    return ("--tokens", str(rig.folder / "tokens"))


def withdraw(rig: Rig, server: Served, *names: str, **until: str) -> None:
    """Takes principals out of the file of tokens, or changes until when their tokens count; the
    server reads it again."""
    path = rig.folder / "tokens"
    kept = []
    for line in path.read_text().splitlines():
        name = line.partition('"')[2].partition('"')[0]
        if name not in names:
            end = f' until {until[name]}"]' if name in until else '"]'
            kept.append(line.removesuffix('"]') + end)
    path.write_text("\n".join([*kept, ""]))
    before = server.process.stderr.count("have been read again")
    server.process.process.send_signal(signal.SIGHUP)
    server.process.until(
        lambda: server.process.stderr.count("have been read again") > before, "the reload"
    )


def closed(client: Socket) -> tuple[int, str, list[Json]]:
    """Waits until the server closes a WebSocket: its code, why, and what came before."""
    frames: list[Json] = []
    try:
        while True:
            frames.append(client.receive())
    except ConnectionClosed as end:
        return (end.rcvd.code, end.rcvd.reason, frames) if end.rcvd else (1006, "", frames)


def answers(frames: list[Json], id_: int) -> list[Json]:
    """The answers to a request."""
    return [one for one in frames if one.get("id") == id_ and "method" not in one]


def refused(answer: Json) -> bool:
    """Whether a request was answered with why its client is sent away, and with a hint."""
    error = answer["error"]
    return error["message"] == WHY and "connect again with a token" in error["data"]["hint"]


def test_a_withdrawn_token_ends_a_websocket_and_its_turn(rig: Rig) -> None:
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        mine, idle = (server.socket(headers=bearer(alice)) for _ in range(2))
        other = server.socket(headers=bearer(bob))
        session, others = mine.begin(), other.begin()
        idle.begin()
        turn = mine.start_prompt(session, "/hang")
        rig.until_heard("A", b"/hang")
        withdraw(rig, server, "alice")
        code, why, frames = closed(mine)
        assert (code, why) == (1008, WHY)
        assert [refused(one) for one in answers(frames, turn)] == [True]
        assert closed(idle)[:2] == (1008, WHY)
        assert other.prompt(others, "/echo on") == "on"
        while b"conductor_serve_chains 1\n" not in (  # the turn of the other ends with its chain
            server.http("/metrics", **bearer(bob)).ask("GET").body
        ):
            pass


def test_a_withdrawn_token_ends_a_link_that_would_come_back(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        linked, cut = server.linked(**bearer(alice)), server.linked(**bearer(alice))
        session = linked.begin()
        cut.begin()
        turn = linked.start_prompt(session, "/hang")
        rig.until_heard("A", b"/hang")
        cut.cut()
        bob = new_token(rig, "bob")
        withdraw(rig, server, "alice")
        assert refused(linked.answer(turn))
        assert linked.closing() == (1008, WHY)
        while b"conductor_serve_connections 0\n" not in (  # also the one that was cut
            server.http("/metrics", **bearer(bob)).ask("GET").body
        ):
            pass


def test_a_withdrawn_token_ends_streams(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        client = server.http(**bearer(alice))
        session = client.begin()
        own, stream = client.streams
        turn = client.start_prompt(session, "/hang")
        rig.until_heard("A", b"/hang")
        withdraw(rig, server, "alice")
        frames = []
        with contextlib.suppress(EOFError):
            while True:
                frames.append(stream.receive())
        with pytest.raises(EOFError):
            own.receive()
        assert [refused(one) for one in answers(frames, turn)] == [True]


def test_a_token_that_expires_ends_its_connections(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        client = server.socket(headers=bearer(alice))
        client.begin()
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1)
        withdraw(rig, server, alice=soon.isoformat())
        assert closed(client)[:2] == (1008, WHY)


def test_a_fresh_token_of_the_same_principal_goes_on(rig: Rig) -> None:
    """Over HTTP each request shows one; over a resumable link each WebSocket does."""
    old = new_token(rig, "alice")
    path = rig.folder / "tokens"
    digest = path.read_text().partition('["')[2].partition('"')[0]
    fresh = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        client, linked = server.http(**bearer(old)), server.linked(**bearer(old))
        session, others = client.begin(), linked.begin()
        client.headers.update(bearer(fresh))
        assert client.prompt(session, "/echo with the fresh one") == "with the fresh one"
        linked.cut()
        linked.back(**bearer(fresh))
        path.write_text(path.read_text().replace(f'"{digest}",', ""))
        withdraw(rig, server)
        assert server.http(**bearer(old)).ask("GET").status == 401
        assert client.prompt(session, "/echo on") == "on"
        assert linked.prompt(others, "/echo on") == "on"


def test_tokens_that_are_asked_for_from_now_on(rig: Rig) -> None:
    """Who came in while none was asked for goes, but not who uses a socket of this machine."""
    alice = new_token(rig, "alice")
    config = rig.folder / "config" / "conductor" / "conductor.toml"
    config.parent.mkdir(parents=True)
    listen = f'[serve]\nlisten = ["ws://127.0.0.1:0", "unix:{rig.folder}/s"]\n'
    config.write_text(listen)
    with served(rig, "serve", rig.demo(), XDG_CONFIG_HOME=str(config.parents[1])) as server:
        page = server.socket()
        page.begin()
        server.addresses.reverse()
        lines = server.lines()
        session = lines.begin()
        config.write_text(f'{listen}tokens = "{rig.folder / "tokens"}"\n')
        withdraw(rig, server)
        assert closed(page)[:2] == (1008, WHY)
        assert lines.prompt(session, "/echo on") == "on"
        server.addresses.reverse()
        assert server.socket(headers=bearer(alice)).begin()
