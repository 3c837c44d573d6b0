"""The answers of the page's server, by request."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.http import limits
from conductor.http.request import Request
from conductor.page import server
from tests.harness.process.command import conductor
from tests.page.viewing import Lines, Viewed
from tests.places import DEADLINE
from tests.record.turns import recorded


@pytest.fixture(scope="module")
def viewed() -> Iterator[Viewed]:
    """The page of a real chain's trace, all of which was read."""
    with Viewed(recorded.trace(), "--turn", "1") as view:
        view.whole()
        yield view


def test_an_address_may_name_the_turn_to_show_first(viewed: Viewed) -> None:
    assert viewed.address.endswith(f"#secret={viewed.secret}&turn=1")


def test_what_it_answers_holds_nothing_of_other_sites(viewed: Viewed) -> None:
    status, page, headers = viewed.ask("/")
    assert status == 200
    assert b'src="trace.js"' in page
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "access-control-allow-origin" not in headers
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.proves("a stranger without the secret")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://localhost:{port}", "Host": "localhost:{port}"}, 200),
    ],
)
def test_who_gets_an_answer(viewed: Viewed, headers: dict[str, str], status: int) -> None:
    filled = {name: value.format(port=viewed.port) for name, value in headers.items()}
    got, answer, _ = viewed.ask("/api/head", **filled)
    assert got == status
    if status == 401:
        assert "open the whole address" in answer["error"]


@pytest.mark.proves("the same at a page and at the")
@pytest.mark.parametrize("more", ["Content-Length: 100000000", "Transfer-Encoding: chunked"])
def test_nobody_reads_the_body_of_a_stranger(viewed: Viewed, more: str) -> None:
    with socket.create_connection(("127.0.0.1", viewed.port), DEADLINE) as stranger:
        head = f"POST /api/head HTTP/1.1\r\nHost: 127.0.0.1:{viewed.port}\r\n{more}\r\n\r\n"
        stranger.sendall(head.encode())
        assert stranger.recv(12).endswith(b" 401")
        with pytest.raises(ConnectionError):
            stranger.sendall(b"1\r\n \r\n" * 10_000_000)


def test_no_path_leads_out_of_the_folder_of_the_page(viewed: Viewed) -> None:
    for path in ("/../server.py", "/..%2fserver.py", "/%2e%2e/server.py", "/static", "/nothing"):
        assert viewed.ask(path)[0] == 404
    # A page that links here by mistake finds nothing to change.
    assert viewed.ask("/api/head/../../server.py")[0] == 404


def test_rows_come_by_place_and_only_those_that_are_wanted(viewed: Viewed) -> None:
    _, head, _ = viewed.ask("/api/head")
    _, whole, _ = viewed.ask("/api/rows?limit=5&after=10")
    _, turn, _ = viewed.ask("/api/rows?turn=1&limit=2000")
    _, redact, _ = viewed.ask("/api/rows?turn=1&component=redact&limit=2000")
    _, changed, _ = viewed.ask("/api/rows?filter=~changed%20~from%20redact&turn=1&event=1000000")
    assert len(whole["rows"]) == 5
    assert whole["count"] <= head["events"]
    assert {row[-1] for row in turn["rows"]} == {1}
    assert len(turn["rows"]) == turn["count"]
    assert {"redact"} <= {end for row in redact["rows"] for end in row[3:5]}
    assert all("redact" in row[3:5] for row in redact["rows"])
    assert 0 < changed["count"] < redact["count"] < turn["count"]
    assert changed["place"] == changed["count"]


def test_a_filter_finds_turns_and_a_wrong_one_is_refused_in_words(viewed: Viewed) -> None:
    _, found, _ = viewed.ask("/api/find?filter=~mcp%20tools/call")
    assert [turn for turn, _ in found["turns"]] == [3]
    status, answer, _ = viewed.ask("/api/find?filter=~nothing")
    assert status == 400
    assert "there is no term `~nothing`" in answer["error"]


def test_a_message_comes_with_the_one_that_it_passes_on(viewed: Viewed) -> None:
    _, rows, _ = viewed.ask("/api/rows?filter=~changed%20~from%20redact%20~method%20session/prompt")
    number = rows["rows"][0][0]
    _, after, _ = viewed.ask(f"/api/event/{number}")
    _, before, _ = viewed.ask(f"/api/event/{after['before']}")
    assert (after["event"]["from"], before["event"]["to"]) == ("redact", "redact")
    assert viewed.ask("/api/event/99999999")[0] == 404
    assert viewed.ask("/api/turn/99999999")[0] == 404


def test_the_head_counts_events_alone(viewed: Viewed) -> None:
    head = viewed.whole()
    assert head["turns"] == 9
    _, rows, _ = viewed.ask("/api/rows?limit=2000")
    assert head["events"] == rows["count"] == len(rows["rows"]) < head["lines"]
    assert None not in rows["rows"]


def test_of_a_very_large_message_the_beginnings_of_its_texts_are_shown(tmp_path: Path) -> None:
    lines = Lines(tmp_path / "large.jsons")
    lines.turn("word " * 1_000_000, "x" * 20_000)
    with Viewed(lines.path) as view:
        view.whole()
        status, answer, _ = view.ask("/api/event/1")
        _, smaller, _ = view.ask("/api/event/2")
        _, detail, _ = view.ask("/api/turn/1")
        _, turns, _ = view.ask("/api/turns?only=1")
    assert status == 200
    text = answer["event"]["params"]["prompt"][0]["text"]
    assert text.startswith("word word")
    assert text.endswith(" … 4,990,000 more characters")
    assert smaller["event"]["params"]["update"]["content"]["text"] == "x" * 20_000
    assert len(json.dumps(detail)) < 1_000_000
    assert turns[0]["tokens_in"] == pytest.approx(1_250_000, rel=0.01)


def test_a_file_that_is_no_trace_or_not_there_is_refused(tmp_path: Path) -> None:
    conductor("log", "view", str(tmp_path / "none")).assert_error(2, "cannot read the trace")
    conductor("log", "view", str(tmp_path)).assert_error(2, "it is a folder")


def test_a_connection_that_sends_no_request_in_time_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "PATIENCE", limits.Patience(head=0.3))

    async def nothing(_request: Request) -> None:
        """Answers nobody."""

    async def ended() -> list[bytes]:
        listening = server.listen()
        port, got = listening.getsockname()[1], []
        async with server.serving(nothing, listening, print):
            for sent in (b"", b"GET / HTTP/1.1\r\nHo"):
                reader, writer = await asyncio.open_connection(server.HOST, port)
                writer.write(sent)
                got.append((await asyncio.wait_for(reader.read(), DEADLINE))[9:12])
                writer.close()
        return got

    assert asyncio.run(ended()) == [b"", b"408"]
