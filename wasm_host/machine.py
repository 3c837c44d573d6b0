"""The system and the processor of this machine.

`platform` knows them too, but takes a host of guests 1 ms of its start to import.
"""

from __future__ import annotations

import os
from typing import Final

SYSTEM: Final = os.uname().sysname
"""Such as `Linux` or `Darwin`."""
PROCESSOR: Final = os.uname().machine
"""Such as `x86_64`, `aarch64` or `arm64`."""
