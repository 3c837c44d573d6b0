"""Reading a file of configuration: whatever it holds, the answer is a configuration or mistakes."""

from typing import Any, Final

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from conductor.errors import UsageError
from conductor.spec.config import reading
from conductor.spec.config.model import Config

WORDS: Final = st.sampled_from(
    ["required-version", "options", "components", "chains", "choose", "use", "when", "file", "a"]
)
LEAVES: Final = st.sampled_from(["", "a", "@a", "{", ">=0", 0, -1, 1.5, float("nan"), True, []])
TABLES: Final[st.SearchStrategy[Any]] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner), max_leaves=12
)


def parses(text: bytes) -> bool:
    """Whether a file can be used. Every mistake that keeps it from that is reported."""
    config, mistakes = reading.mistakes(text, "/x/conductor.toml")
    if not mistakes:
        assert reading.parse(text, "/x/conductor.toml") == config
        return True
    with pytest.raises(UsageError) as refused:
        reading.parse(text, "/x/conductor.toml")
    assert refused.value.text == mistakes[0].text
    return False


@given(st.binary(max_size=60))
def test_bytes(text: bytes) -> None:
    parses(text)


@given(st.dictionaries(WORDS, TABLES, max_size=4))
def test_tables(tables: dict[str, Any]) -> None:
    parses(tomlkit.dumps(tables).encode())


def test_a_whole_file() -> None:
    assert parses(b"options.a = 1\n[chains.x]\ncomponents = ['a', {component = 'b'}]\n")


def test_a_file_of_many_components_takes_time_by_its_size() -> None:
    tables = b"".join(b"[components.a%d]\nname='b'\n" % number for number in range(3000))
    config = reading.parse(tables, "f.toml")
    assert config.components["a2999"].origin_of("name") == "f.toml, line 6000"


def test_what_is_right_is_read_beside_what_is_wrong() -> None:
    text = b"[chains.good]\ncomponents = ['demo']\n[chains.bad]\ncomponents = 1\n[wrong]\n"
    config, mistakes = reading.mistakes(text, "x.toml")
    assert list(config.chains) == ["good"]
    assert sorted(error.text.partition(": ")[0] for error in mistakes) == [
        "x.toml, line 4",  # and not that `bad` lacks components
        "x.toml, line 5",
    ]
    assert reading.mistakes(b"", "x.toml") == (Config(files=["x.toml"]), [])
