"""The control group of the process of guests, with folders in the place of the kernel's."""

import os
from pathlib import Path

import pytest

from wasm_host.harden.kernel import LINUX, Unsupported
from wasm_host.harden.layers import enter_cgroup

pytestmark = pytest.mark.skipif(not LINUX, reason="cgroups are Linux's")


def _system(folder: Path, given: str = "cpu memory pids") -> tuple[Path, Path]:
    """A user's slice with one application in it."""
    slice_ = folder / "user" / "app.slice"
    (slice_ / "editor.scope").mkdir(parents=True)
    (slice_ / "cgroup.subtree_control").write_text(given)
    current = folder / "self"
    current.write_text("4:memory:/old\n0::/user/app.slice/editor.scope\n")
    return slice_, current


def test_a_group_of_its_own_beside_the_one_it_was_in(tmp_path: Path) -> None:
    slice_, current = _system(tmp_path)
    said = enter_cgroup(1 << 30, str(tmp_path), str(current))
    assert said == "at most 64 threads and processes, 1024 MiB altogether"
    (group,) = slice_.glob("conductor-host-*")
    assert (group / "pids.max").read_text() == "64"
    assert (group / "memory.max").read_text() == str(1 << 30)
    assert (group / "cgroup.procs").read_text() == str(os.getpid())


def test_memory_may_be_unbounded(tmp_path: Path) -> None:
    slice_, current = _system(tmp_path)
    assert enter_cgroup(None, str(tmp_path), str(current)) == "at most 64 threads and processes"
    assert not list(slice_.glob("conductor-host-*/memory.max"))


def test_groups_that_ended_hosts_left_are_removed(tmp_path: Path) -> None:
    slice_, current = _system(tmp_path)
    (slice_ / "conductor-host-1").mkdir()
    used = slice_ / "conductor-host-2"
    used.mkdir()
    (used / "cgroup.procs").write_text("2")  # a folder that is not empty cannot be removed
    enter_cgroup(None, str(tmp_path), str(current))
    assert {one.name for one in slice_.glob("conductor-host-*")} == {
        "conductor-host-2",
        f"conductor-host-{os.getpid()}",
    }


@pytest.mark.parametrize(
    ("given", "own", "why"),
    [
        ("cpu", "0::/user/app.slice/editor.scope", "delegated"),
        ("memory pids", "4:memory:/old", "no cgroup v2"),
        ("memory pids", "0::/nowhere/else", "can be read"),
        ("memory pids", "0::/", "no cgroup v2"),
    ],
)
def test_where_there_is_none_the_reason_is_given(
    tmp_path: Path, given: str, own: str, why: str
) -> None:
    _, current = _system(tmp_path, given)
    current.write_text(own + "\n")
    with pytest.raises(Unsupported, match=why):
        enter_cgroup(None, str(tmp_path), str(current))
    with pytest.raises(Unsupported):
        enter_cgroup(None, str(tmp_path), str(tmp_path / "missing"))


def test_who_may_make_none_is_told_so(tmp_path: Path) -> None:
    slice_, current = _system(tmp_path)
    (slice_ / f"conductor-host-{os.getpid()}").write_text("in the way")
    with pytest.raises(Unsupported, match="may make no cgroup"):
        enter_cgroup(None, str(tmp_path), str(current))
