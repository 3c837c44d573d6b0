"""The parts of a router, which are made when somebody first asks for them."""

import sys

from conductor.core import parts


def test_what_a_chain_needs_later_can_be_loaded_before() -> None:
    parts.load(client=False)
    assert set(parts.MODULES) <= sys.modules.keys()
    parts.load(client=True)
    assert set(parts.OF_CLIENTS) <= sys.modules.keys()
