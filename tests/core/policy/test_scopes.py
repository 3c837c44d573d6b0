"""Grants with scopes, and the globs in them."""

import pytest

from conductor.core.policy.scopes import (
    Destination,
    check,
    covers,
    destination,
    destinations,
    folders,
    matches,
    patterns,
)

READING = frozenset({"GET", "HEAD"})


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("api.example.com", Destination("https", "api.example.com", 443, READING)),
        ("API.Example.com:8443", Destination("https", "api.example.com", 8443, READING)),
        ("http://localhost:80", Destination("http", "localhost", 80, READING)),
        ("POST@http://10.0.0.1", Destination("http", "10.0.0.1", 80, frozenset({"POST"}))),
        ("*.example.org", Destination("https", "*.example.org", 443, READING)),
        ("[::1]:99", Destination("https", "::1", 99, READING)),
        ("unix:/run/a.sock", Destination("unix", "/run/a.sock", 0, READING)),
        ("POST@unix:/a", Destination("unix", "/a", 0, frozenset({"POST"}))),
    ],
)
def test_destinations(scope: str, found: Destination) -> None:
    assert destination(scope) == found


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "*",
        "a/b",
        "ftp://a",
        "a:0",
        "a:70000",
        "LOOK@a",
        "a b",
        "user@a",
        "https://",
        "unix:",
        "unix:a",
        "unix:/a/",
        "unix:/a/../b",
        "unix://a",
        "unix:/a*",
        "LOOK@unix:/a",
        "unix:/a\n",
    ],
)
def test_what_is_no_destination(scope: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        destination(scope)


@pytest.mark.parametrize(
    ("scope", "private"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("[fe80::1]", True),
        ("192.168.1.1", True),
        ("8.8.8.8", False),
        ("example.com", False),
        ("[::127.0.0.1]", True),
        ("[::ffff:127.0.0.1]", True),
        ("[::ffff:0:127.0.0.1]", True),
        ("[2002:7f00:1::]", True),
        ("[2002:808:808::]", False),
        ("[64:ff9b::10.0.0.1]", True),
        ("[64:ff9b::8.8.8.8]", False),
        ("[64:ff9b:1::1]", True),
        ("[fec0::1]", True),
        ("[ff02::1]", True),
        ("[2606:4700::1111]", False),
        ("192.0.0.8", True),
        ("192.31.196.1", True),
        ("192.52.193.1", True),
        ("192.175.48.1", True),
        ("[2001:20::1]", True),
        ("[2620:4f:8000::1]", True),
        ("192.88.99.1", True),
        ("[2002:c058:6301::]", True),
        ("[3fff::1]", True),
        ("[3fff:1000::1]", False),
        ("100.64.0.1", True),
        ("224.0.0.1", True),
    ],
)
def test_a_private_address_is_granted_by_naming_it(scope: str, private: bool) -> None:
    assert destination(scope).private is private


def test_a_socket_is_one_place() -> None:
    place = destination("unix:/run/a.sock")
    assert place.covers("unix", "/run/a.sock", 0)
    assert not place.covers("unix", "/run/b.sock", 0)
    assert not place.covers("http", "/run/a.sock", 80)


def test_scopes_by_service() -> None:
    held = ["clock", "web:a.org", "write:notes", "read:*.md"]
    assert destinations(held) == (destination("a.org"),)
    assert folders(held) == ("notes",)
    assert patterns(held) == ("*.md",)
    for grant in held:
        check(grant)


@pytest.mark.parametrize(
    ("grant", "held", "is_covered"),
    [
        ("clock", "clock", True),
        ("clock", "random", False),
        ("read:a.md", "write:a.md", False),
        ("read:docs/a.md", "read:docs/**", True),
        ("read:docs/.a", "read:docs/**", False),
        ("read:docs", "read:docs/**", False),
        ("read:docs/a.md", "read:**/a.md", True),
        ("read:.docs/a.md", "read:**/a.md", False),
        ("read:docs/a.md", "read:docs/*.md", False),
        ("write:docs/a", "write:docs", True),
        ("write:more", "write:docs", False),
        ("web:a.org", "web:*.org", True),
        ("web:POST@a.org", "web:a.org", False),
        ("clock:x", "clock:y", False),
    ],
)
def test_what_one_scope_has_of_another(grant: str, held: str, is_covered: bool) -> None:
    assert covers(grant, held) is is_covered


def test_a_wildcard_stands_for_names_below_it_only() -> None:
    place = destination("*.example.org")
    assert place.covers("https", "a.b.example.org", 443)
    assert not place.covers("https", "example.org", 443)
    assert not place.covers("https", "badexample.org", 443)
    assert not place.covers("http", "a.example.org", 80)


@pytest.mark.proves("no component delays a service")
@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("AGENTS.md", "AGENTS.md", True),
        ("AGENTS.md", "a/AGENTS.md", False),
        ("**/AGENTS.md", "AGENTS.md", True),
        ("**/AGENTS.md", "a/b/AGENTS.md", True),
        ("**/AGENTS.md", "a/.git/AGENTS.md", False),
        ("**", "a/b", True),
        ("**", ".env", False),
        ("**", "a/.env", False),
        ("*", ".env", False),
        ("?env", ".env", False),
        (".env", ".env", True),
        (".claude/**", ".claude/a/b", True),
        ("a.c", "abc", False),
        ("[ab]", "a", False),
        ("docs/*.md", "docs/x/y.md", False),
        ("docs/*.md", "docs/y.md", True),
        ("a/**/b", "a/b", True),
        ("*.md", "x\n.md", True),
        ("a/**/**/b", "a/x/b", True),
        ("**/**", "a", True),
        ("**/a/*/**", "b/a/x/y", True),
        ("**/a/*/**", "b/a/x", False),
        ("**/a/b/**/b", "a/a/b/x/a/b", True),
        ("*ab*a?", "xabcabab", True),
        ("*ab*ba", "xaba", False),
        ("**/?*", "a/.b", False),
        # These end at once, however many ways there are to share a name out among the stars.
        ("*a" * 300 + "b", "a" * 255, False),
        ("*?" * 200 + "b", "a" * 255, False),
        ("**/a/" * 100 + "b", "a/" * 1000 + "c", False),
        ("**/" * 300 + "x", "a/" * 1000 + "y", False),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert matches((glob,), path) is fits


@pytest.mark.parametrize(
    "grant",
    [
        *("fetch", "files", "clock:x", "read:/etc/*", "read:../*", "read:a//b", "read:a**"),
        *("write", "write:.", "write:/a", "write:a/..", "write:a//b", "write:a*", "write:a\n"),
        *("read:" + "*a" * 513, "shell"),
    ],
)
def test_grants_that_are_none(grant: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check(grant)
