"""The last words of a guest: few lines, and short ones."""

import pytest

from conductor.transports.guest import last_words


@pytest.mark.parametrize(
    ("stderr", "shown"),
    [
        (" \n", []),
        ("why\n  where\n", ["why", "  where"]),
        ("a\n" * 20, ["a"] * 20),
        ("a\n" * 21, [*["a"] * 10, "…", *["a"] * 10]),
        ("x" * 8192, ["x" * 500]),
        ("\0" * 8192, ["\\u{0}" * 100]),  # 41 kB on a terminal, for each of its ends
    ],
)
def test_the_last_words_of_a_guest_are_few(stderr: str, shown: list[str]) -> None:
    assert last_words(stderr) == shown
