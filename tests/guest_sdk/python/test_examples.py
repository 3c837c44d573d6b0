"""Three ways to run one source file: the same transcript passes in all of them."""

from typing import Final

import pytest

from tests.guest_sdk.python.conftest import Make
from tests.guest_sdk.python.support import EXAMPLES, HERE, InProcess, Process, Sandboxed, play

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

NAMES: Final = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def test_every_example_has_its_transcript() -> None:
    assert sorted(path.stem for path in (HERE / "transcripts").iterdir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_in_process(name: str) -> None:
    play(InProcess(EXAMPLES / f"{name}.py"), HERE / "transcripts" / f"{name}.txt")


@pytest.mark.parametrize("name", NAMES)
def test_as_a_program(name: str) -> None:
    target = Process(EXAMPLES / f"{name}.py")
    play(target, HERE / "transcripts" / f"{name}.txt")
    target.close()


@pytest.mark.parametrize("name", NAMES)
def test_sandboxed(name: str, make_guest: Make) -> None:
    target = Sandboxed(make_guest(EXAMPLES / f"{name}.py"))
    play(target, HERE / "transcripts" / f"{name}.txt")
    target.close()
