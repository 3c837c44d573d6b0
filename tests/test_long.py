"""The tests that a run without `--long` shortens exist."""

from tests.places import LONG, ROOT


def test_each_name_in_the_table_is_a_test() -> None:
    names = LONG.read_text(encoding="utf-8").split()
    assert names == sorted(set(names))
    for each in names:
        file, _, name = each.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), each
