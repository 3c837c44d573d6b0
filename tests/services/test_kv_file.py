"""The file of `kv`: private, and no revision comes twice."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.services import kept_values
from conductor.services.calls import ServiceError
from tests.services.keepers import NOTHING, Files, ask
from tests.services.support import grantee


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "kv.sqlite")


@pytest.fixture
def opened(file: str) -> Iterator[Files]:
    with contextlib.closing(Files(file)) as stores:
        yield stores


def test_the_file_and_its_folder_are_private(opened: Files, file: str) -> None:
    ask(opened("/project"), "p", "set", key="a", value=1)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(file)).st_mode) == 0o700


def test_a_file_that_is_none(opened: Files, tmp_path: Path) -> None:
    (tmp_path / "kv.sqlite").write_text("this is no database, but a text of some length" * 10)
    with pytest.raises(ServiceError, match="not a database"):
        opened("/", str(tmp_path / "kv.sqlite")).get(grantee(), b'{"key":"a"}')
    with pytest.raises(ServiceError, match=r"File exists|Not a directory"):
        opened("/", str(tmp_path / "kv.sqlite" / "x")).get(grantee(), b'{"key":"a"}')


def test_no_revision_comes_twice(opened: Files, file: str) -> None:
    """Not for a key that is deleted, nor for a space that goes and comes again."""
    store = opened("/")
    seen = []
    for round_ in range(3):
        seen.append(ask(store, "p", "set", key="a", value=round_)["revision"])
        ask(store, "p", "delete", key="a")
        assert ask(store, "p", "get", key="a") == NOTHING
    seen.append(ask(store, "p", "set", key="a", value="last", ifRevision=0)["revision"])
    kept_values.delete(file, [one.space for one in kept_values.spaces(file)])
    assert ask(store, "p", "get", key="a") == NOTHING
    seen.append(ask(store, "p", "set", key="a", value="anew")["revision"])
    assert len(set(seen)) == 5
    assert ask(store, "q", "set", key="a", value=1)["revision"] not in (0, 1)
