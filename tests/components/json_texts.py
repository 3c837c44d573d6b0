"""Hypothesis strategies for JSON as text: odd numbers, escapes, spaces, repeated names."""

from hypothesis import strategies as st

#: Space between tokens; never a newline, since a frame is one line.
spaces = st.text(" \t\r", max_size=2)

_string_pieces = st.one_of(
    st.text(
        st.characters(exclude_characters='"\\', exclude_categories=("Cc", "Cs")),
        max_size=20,
    ),
    st.sampled_from(
        [
            *(f"\\{name}" for name in '"\\/bfnrt'),
            "\\u00e9",
            "\\uD83D\\ude00",
            "\\ud800",
            "\\u0000",
            "{[",
            "]}",
            "session/prompt",
            "\u2028",
        ]
    ),
)

#: Strings with their quotes.
strings = st.lists(_string_pieces, max_size=6).map(lambda pieces: f'"{"".join(pieces)}"')

_scalars = st.one_of(
    strings,
    st.integers().map(str),
    st.sampled_from(["true", "false", "null", "-0", "1.10", "1e400", "0.5E+07", "1" * 40]),
)


@st.composite
def arrays(draw: st.DrawFn, elements: st.SearchStrategy[str]) -> str:
    """An array of texts."""
    parts = [draw(spaces) + part + draw(spaces) for part in draw(st.lists(elements, max_size=4))]
    return "[" + (",".join(parts) or draw(spaces)) + "]"


@st.composite
def member(draw: st.DrawFn, name: str, value: str) -> str:
    """A member, spaced at random."""
    space = [draw(spaces) for _ in range(4)]
    return f"{space[0]}{name}{space[1]}:{space[2]}{value}{space[3]}"


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    """An object, names possibly repeated."""
    names = st.one_of(strings, st.sampled_from(['"a"', '"prompt"', '"id"']))
    pairs = draw(st.lists(st.tuples(names, values), max_size=4))
    return "{" + (",".join(draw(member(*pair)) for pair in pairs) or draw(spaces)) + "}"


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(arrays(inner), objects(inner))


#: Any JSON value.
values = st.recursive(_scalars, _containers, max_leaves=8)
