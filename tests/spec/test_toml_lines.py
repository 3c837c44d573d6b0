"""The lines of a file's entries are those where the parser sees them."""

from typing import Any, Final

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from conductor.spec.toml_files import Key, lines, loads

TEXT: Final = '''required-version = ">=0"
[options]
log = "debug" # [no table]
"a b".c.'d]' = """
[no.table]
log = 1
""""
[[choose]]
use = "a"
when = {file="x", dependency="y"}
  [[choose]]
use = "b"
[choose.when]
file = 'q'
[chains.work]
components = [
  "datetime", # ] ,
  {component = "x", y = [1,
   2]},

  """multi
line""",
  ["a",
   "b"],
  "demo"]
options.log = "info"
[chains."a.b"]
components=[]'''

KEYS: Final = st.text("ab.\"'[]#= ,\n\\é", min_size=1, max_size=4)
TEXTS: Final = st.text("ab\"'[]#=,\n\\", max_size=6)
VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    TEXTS | st.integers(-9, 9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def keys(value: Any, at: tuple[Key, ...] = ()) -> list[tuple[Key, ...]]:
    """The keys of nested tables, but not those in lists: these have the line of their member."""
    if not isinstance(value, dict):
        return []
    found = []
    for key, inner in value.items():
        found += [(*at, key), *keys(inner, (*at, key))]
    return found


def test_each_entry_has_its_line() -> None:
    found = lines(TEXT)
    assert found["required-version",] == 1
    assert found["options", "log"] == 3
    assert found["options", "a b", "c", "d]"] == 4
    assert found["choose", 0] == 8
    assert found["choose", 0, "when"] == 10
    assert found["choose", 1] == 11
    assert found["choose", 1, "when", "file"] == 14
    at: tuple[Key, ...] = ("chains", "work", "components")
    assert [found[(*at, number)] for number in range(5)] == [17, 18, 21, 23, 25]
    assert found[(*at, 3, 1)] == 24
    assert found["chains", "work", "options", "log"] == 26
    assert found["chains", "a.b"] == 27


def test_only_what_is_there_has_a_line() -> None:
    tables = loads(TEXT)
    for path in lines(TEXT):
        value: Any = tables
        for key in path:
            value = value[key]


def first_line(source: str, path: tuple[Key, ...]) -> int:
    """Where a key is: behind the longest beginning of the text that is TOML and lacks it."""
    texts = source.split("\n")
    for number in reversed(range(len(texts) + 1)):
        try:
            value_at(loads("\n".join(texts[:number])), path)
        except KeyError:
            return number + 1
        except ValueError:
            continue
    raise AssertionError(path)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_tables_are_at_the_line_where_the_parser_sees_them(tables: dict[str, Any]) -> None:
    source = tomlkit.dumps(tables)
    found = lines(source)
    read = loads(source)
    for path in keys(read):
        if path in found and not isinstance(value_at(read, path), dict):
            assert found[path] == first_line(source, path), (path, source)
    assert read.keys() == {path[0] for path in found}


def value_at(value: Any, path: tuple[Key, ...]) -> Any:
    """The value that keys lead to."""
    for key in path:
        value = value[key]
    return value


def test_lines_may_end_as_on_windows() -> None:
    assert lines(TEXT.replace("\n", "\r\n")) == lines(TEXT)
