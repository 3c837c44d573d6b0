"""The core's tests over a compiled core (`scripts/compile`)."""

from __future__ import annotations

from typing import Final

import pytest

from conductor.core import dispatch

COMPILED: Final = not str(dispatch.__file__).endswith(".py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that lower a constant: the compiler puts constants where they are used,
    so that nothing can change them. The sources run those tests."""
    if not COMPILED:
        return
    left_out = [item for item in items if "monkeypatch" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
