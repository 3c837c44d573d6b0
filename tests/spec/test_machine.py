"""Who has the machine: programs of it do, and nobody else."""

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog


def test_a_program_has_every_service() -> None:
    assert catalog.resolve("python3 p.py").grants is None


def test_a_component_elsewhere_has_only_the_services_that_it_is_given() -> None:
    assert catalog.resolve("wss://example.com/p").grants == frozenset()
    assert catalog.resolve("wss://example.com/p,allow=clock").grants == frozenset({"clock"})
    held = catalog.resolve("wss://example.com/p,only=context+read:**").grants
    assert held == frozenset({"read:**"})


def test_a_program_needs_no_word_for_the_machine() -> None:
    with pytest.raises(UsageError, match="a program has the machine anyway"):
        catalog.resolve("python3 p.py,allow=clock")
