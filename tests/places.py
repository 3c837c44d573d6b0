"""Where the tests find what they need, and how long they wait for it."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
"""The checkout. A child process with it on PYTHONPATH can import the product and the tests."""
TESTS: Final = ROOT / "tests"
COMPONENTS: Final = ROOT / "components"
PASSTHROUGH: Final = COMPONENTS / "passthrough" / "passthrough.wasm"
HOSTILE: Final = TESTS / "hostile"
ACTORS: Final = TESTS / "e2e" / "actors"
GOLDEN: Final = TESTS / "golden"
LONG: Final = TESTS / "long.txt"
"""Names the tests of which CI runs the first row, or none: each costs a second and more of one
core, and others try the same kind of thing."""

DEADLINE: Final = 90.0
"""Seconds before a test gives up on another process; a test that passes never comes near."""


def checkout_environment(**extra: str) -> dict[str, str]:
    """The environment of this process with the checkout on PYTHONPATH, and `extra`."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **extra}
