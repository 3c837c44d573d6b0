"""What holds for every test: how Hypothesis chooses its examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The same examples each time, however busy the machine: what fails once fails always. For others,
# `pytest --hypothesis-profile wild`, or FUZZ_EXAMPLES with a number.
_NO_CLOCK = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("wild", _NO_CLOCK)
settings.register_profile("steady", _NO_CLOCK, derandomize=True, database=None)
settings.load_profile("wild" if os.environ.get("FUZZ_EXAMPLES") else "steady")
