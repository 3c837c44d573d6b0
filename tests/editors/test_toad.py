"""The command line that starts Toad."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editors import toad
from conductor.errors import UsageError

printable = st.text(st.sampled_from("ab \"'\\$`!*#&;|<>()[]{}~%äß漢"))


@given(st.lists(printable, min_size=1), printable)
def test_both_shells_read_the_same_words(command: list[str], title: str) -> None:
    toad_, acp, inner, option, name = shlex.split(toad.command_line(title, command))
    assert (toad_, acp, option, name) == ("toad", "acp", "--title", title)
    assert shlex.split(inner) == command


@pytest.mark.parametrize("odd", sorted(["a\nb", "a\tb", "\x1b[2J", "\u202e", "\udcff", "\x00"]))
def test_what_nobody_can_copy_is_refused(odd: str) -> None:
    with pytest.raises(UsageError, match="command line cannot carry") as refused:
        toad.command_line("Conductor", ["conductor", "agent", odd])
    assert "--chain" in refused.value.hint
    assert refused.value.text.isprintable()
