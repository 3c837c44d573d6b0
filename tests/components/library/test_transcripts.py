"""The transcripts of the bundled components that are Python, played in this process."""

from pathlib import Path

import pytest

from conductor.spec import catalog
from guest_sdk.python.engine import Engine
from tests.components.library.support import load
from tests.components.transcripts import read_transcript
from tests.places import COMPONENTS


def scripted() -> list[str]:
    """The names of those components."""
    found = {name: catalog.bundled_manifest(name) for name in catalog.bundled()}
    return [name for name, one in found.items() if one is not None and one.scripted]


TRANSCRIPTS = sorted(
    path for name in scripted() for path in (COMPONENTS / name / "test-scenarios").glob("*.txt")
)


def test_each_has_transcripts() -> None:
    assert {path.parents[1].name for path in TRANSCRIPTS} == set(scripted())


@pytest.mark.parametrize(
    "path", TRANSCRIPTS, ids=lambda path: f"{path.parents[1].name}-{path.stem}"
)
def test_transcript(path: Path) -> None:
    engine = Engine(load(path.parents[1].name))
    for delivery in read_transcript(path):
        said = engine.receive(delivery.given.decode().split("\n")[:-1])
        assert said == delivery.expected.decode().split("\n")[:-1], f"{path.name}:{delivery.line}"


def test_the_manifest_of_each_says_what_it_may_and_its_source_does_not() -> None:
    for name in scripted():
        found = catalog.bundled_manifest(name)
        assert found is not None
        assert found.rights, name
        assert load(name).rights is None, name
        assert (COMPONENTS / name / "README.md").is_file(), name
