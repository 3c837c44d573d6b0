"""Addresses: what is one, what it means, and what is refused in words."""

import os

import pytest

from conductor.errors import UsageError
from conductor.transports.remote.address import Address, is_address, parse
from conductor.transports.remote.dial import check


@pytest.mark.parametrize(
    ("text", "meant", "shown"),
    [
        ("ws://h", Address("ws", "h", 80, "/acp"), "ws://h/acp"),
        ("WSS://H:8443/", Address("wss", "h", 8443, "/acp"), "wss://h:8443/acp"),
        ("http://h/x/y?a=1", Address("http", "h", 80, "/x/y?a=1"), "http://h/x/y?a=1"),
        (
            "http://h/é%20?b=ü",
            Address("http", "h", 80, "/%C3%A9%20?b=%C3%BC"),
            "http://h/%C3%A9%20?b=%C3%BC",
        ),
        ("ws://h/\udcff", Address("ws", "h", 80, "/%FF"), "ws://h/%FF"),
        ("https://[::1]:1/z/", Address("https", "::1", 1, "/z/"), "https://[::1]:1/z/"),
        ("tcp://127.0.0.1:9000", Address("tcp", "127.0.0.1", 9000), "tcp://127.0.0.1:9000"),
        ("ws://127.0.0.1:0", Address("ws", "127.0.0.1", 0, "/acp"), "ws://127.0.0.1:0/acp"),
        ("unix:/run/a.sock", Address("unix", path="/run/a.sock"), "unix:/run/a.sock"),
        ("unix:///run/a.sock", Address("unix", path="/run/a.sock"), "unix:/run/a.sock"),
    ],
)
def test_an_address_is_read_and_shown(text: str, meant: Address, shown: str) -> None:
    assert is_address(text)
    assert parse(text) == meant
    assert str(meant) == shown
    assert parse(shown) == meant


def test_a_relative_socket_starts_from_its_folder() -> None:
    assert parse("unix:run/x", "/srv").path == "/srv/run/x"
    assert parse("unix:x").path == os.path.abspath("x")
    assert parse("unix:~/x").path == os.path.expanduser("~/x")


@pytest.mark.parametrize("word", ["demo", "./ws", "py:ws:x", "proxy.wasm", "wsx://h", "C:/x"])
def test_other_words_are_none(word: str) -> None:
    assert not is_address(word)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ws:h", "is no address"),
        ("ftp://h", "is no address"),
        ("unix:", "without a path"),
        ("unix:/" + "a" * 200, "more than 103 bytes"),
        ("ws://", "names no host"),
        ("ws://h:99999", "its host or its port"),
        ("ws://h:x", "its host or its port"),
        ("ws://h/#x", "behind `#`"),
        ("ws://h/a b", "no blanks"),
        ("ws://h/\u0000", "no blanks"),
        ("ws://hö", "not ASCII"),
        ("tcp://h", "a host and a port"),
        ("tcp://h:1/x", "a host and a port"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        parse(text)
    assert raised.value.hint


@pytest.mark.parametrize(
    "text", ["ws://me:hunter22@h/acp", "ws://hunter22@h", "ws://h/?token=hunter22", "ws://h?sig=hunter22"]
)  # fmt: skip
def test_a_secret_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert "hunter22" not in raised.value.with_hint
    assert "token" in raised.value.hint


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("ws://localhost:1", True),
        ("ws://127.8.9.1:1", True),
        ("ws://[::1]:1", True),
        ("unix:/x", True),
        ("ws://127.evil.example:1", False),
        ("ws://10.0.0.1:1", False),
    ],
)
def test_what_stays_on_this_machine(text: str, local: bool) -> None:
    assert parse(text).is_local is local


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ws://127.0.0.1:0", "has no port"),
        ("tcp://127.0.0.1:1", "no token can be shown"),
        ("unix:/x", "no token can be shown"),
        ("ws://10.0.0.1:1", "not encrypted"),
        ("http://example.org", "not encrypted"),
    ],
)
def test_a_token_is_shown_only_where_nobody_else_reads_it(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check(parse(text), has_token=True)


def test_a_token_goes_over_tls_or_to_this_machine() -> None:
    check(parse("wss://example.org"), has_token=True)
    check(parse("https://example.org"), has_token=True)
    check(parse("ws://127.0.0.1:8790"), has_token=True)
