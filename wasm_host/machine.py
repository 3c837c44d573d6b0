"""The system and the processor of this machine.

`platform` knows them too, but takes a host of guests 1 ms of its start to import.
"""

from __future__ import annotations

import os
from typing import Final


def _uname() -> tuple[str, str]:
    if hasattr(os, "uname"):
        names = os.uname()
        return names.sysname, names.machine
    import platform

    return platform.system(), platform.machine()


SYSTEM: Final = _uname()[0]
"""Such as `Linux` or `Darwin`."""
PROCESSOR: Final = _uname()[1]
"""Such as `x86_64`, `aarch64` or `arm64`."""
