"""`conductor publish`, also `--archive`, through the command line."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process.command import Ran, conductor, environment
from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade
from tests.places import COMPONENTS

DATETIME = str(COMPONENTS / "datetime")


@pytest.fixture
def made() -> Iterator[HandMade]:
    with registries.hand_made() as registry:
        yield registry


def ran(home: Path, *arguments: str) -> Ran:
    """A command of somebody with nothing in their home."""
    env = environment(HOME=str(home), DOCKER_CONFIG=str(home / "docker"))
    return conductor(*arguments, cwd=home, env=env)


def test_pack(tmp_path: Path) -> None:
    done = ran(tmp_path, "publish", "--archive", ".", DATETIME)
    assert done.code == 0, done.err
    packed = tmp_path / "datetime-0.1.0.tar.gz"
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    assert f"sha256 {digest}" in done.out
    assert "conductor add ./datetime-0.1.0.tar.gz" in done.out
    assert f"#sha256={digest}" in done.out
    again = ran(tmp_path, "publish", "--archive", "other.tar.gz", DATETIME)
    assert again.code == 0
    assert (tmp_path / "other.tar.gz").read_bytes() == packed.read_bytes()


def test_pack_without_a_component(tmp_path: Path) -> None:
    ran(tmp_path, "publish", "--archive", ".").assert_error(2, "component.toml")
    assert list(tmp_path.iterdir()) == []
    for arguments, text in (
        ((), "takes a REFERENCE and a FOLDER"),
        (("--archive", ".", "oci://x/y", DATETIME), "goes to no REFERENCE"),
        (("--archive", ".", DATETIME, "--sign", "key.pem"), "`--sign` is for a registry"),
    ):
        ran(tmp_path, "publish", *arguments).assert_error(2, text, "--archive .")


def test_publish_reads_the_place_first(tmp_path: Path) -> None:
    ran(tmp_path, "publish", DATETIME).assert_error(2, "is no place to publish to", "oci://")


def test_a_dry_run_asks_nobody(made: HandMade, tmp_path: Path) -> None:
    where = f"oci://{made.host}/me/p"
    done = ran(tmp_path, "publish", where, DATETIME, "--dry-run")
    assert done.code == 0, done.err
    assert made.asked == []
    assert list(tmp_path.iterdir()) == []
    done = ran(tmp_path, "publish", where, DATETIME, "--dry-run", "-o", "out")
    assert made.asked == []
    assert (tmp_path / "out" / "oci-layout").exists()
    published = ran(tmp_path, "publish", where, DATETIME)
    pinned = next(line for line in published.out.splitlines() if line.startswith("published: "))
    assert pinned.removeprefix("published: ") in done.out


def test_publish(made: HandMade, tmp_path: Path) -> None:
    where = f"oci://{made.host}/me/p:1"
    done = ran(tmp_path, "publish", where, DATETIME)
    assert done.code == 0, done.err
    manifest, _ = made.manifests["me/p", "1"]
    pinned = f"oci://{made.host}/me/p@sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert f"published: {pinned}" in done.out
    assert f"conductor add {pinned}" in done.out
    entry = json.loads(done.out[done.out.index("{") :])
    assert entry["distribution"] == {"uvx": {"package": "conductor-acp", "args": ["proxy", pinned]}}
    again = ran(tmp_path, "publish", where, DATETIME)
    assert f"was there already: {pinned}" in again.out
    other = ran(tmp_path, "publish", where, str(COMPONENTS / "passthrough"))
    other.assert_error(2, "is something else", "--replace")
    replaced = ran(tmp_path, "publish", where, str(COMPONENTS / "passthrough"), "--replace")
    assert replaced.code == 0, replaced.err


def test_a_registry_that_refuses(made: HandMade, tmp_path: Path) -> None:
    made.auth = "basic"
    done = ran(tmp_path, "publish", f"oci://{made.host}/me/p:1", DATETIME)
    done.assert_error(1, "does not let us at", "docker login")


def test_no_registry_at_all(tmp_path: Path) -> None:
    done = ran(tmp_path, "publish", "oci://127.0.0.1:1/me/p:1", DATETIME)
    done.assert_error(1, "cannot be reached")


@pytest.mark.parametrize("where", ["me/p:1", "https://r.example/me/p:1", "oci://r.example"])
def test_no_place_to_publish_to(tmp_path: Path, where: str) -> None:
    ran(tmp_path, "publish", where, DATETIME).assert_error(2, "oci://")
