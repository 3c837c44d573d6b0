"""The parts of a router, which are made when somebody first asks for them."""

import sys

from conductor.core import parts


def test_what_each_session_needs_can_be_loaded_before() -> None:
    parts.load(client=True)
    assert {"conductor.core.early_updates", "conductor.core.answers", "json"} <= sys.modules.keys()
    assert set(parts.modules(client=False)) < set(parts.modules(client=True))
