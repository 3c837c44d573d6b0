"""The Lisp that `conductor setup` writes. `tests/e2e/peers/test_editors.py` runs it in Emacs."""

import os
import re

from hypothesis import given
from hypothesis import strategies as st

from conductor.editors import lisp

words = st.binary().map(os.fsdecode) | st.text(st.characters(exclude_categories=["Cs"]))


def meaning(literal: str) -> bytes:
    """The string that Emacs makes of a literal: its manual, "General Escape Syntax"."""
    assert literal[0] == literal[-1] == '"'
    meant = b""
    rest = literal[1:-1]
    while rest:
        token = re.match(r'\\U([0-9a-f]{8})|\\([0-7]{3})|\\(["\\])|([^"\\])', rest)
        assert token is not None, rest
        number, octal, escaped, plain = token.groups()
        if octal:
            meant += bytes([int(octal, 8)])
        else:
            meant += (chr(int(number, 16)) if number else escaped or plain).encode()
        rest = rest[token.end() :]
    return meant


@given(words)
def test_a_literal_means_the_same_bytes(word: str) -> None:
    literal = lisp.literal(word)
    assert literal.isascii()
    assert literal.isprintable()
    assert meaning(literal) == os.fsencode(word)


def test_the_bytes_of_a_list() -> None:
    assert lisp.values(["a", 'b"\\', "\n]ü\udcff"]) == (
        '"a"\n    "b\\"\\\\"\n    "\\U0000000a]\\U000000fc\\377"'
    )
