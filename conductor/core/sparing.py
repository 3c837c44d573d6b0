"""Records of what passes are no part of the conversation: one that costs too much is left out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import ParamSpec

_Params = ParamSpec("_Params")


def sparing(record: Callable[_Params, None]) -> Callable[_Params, None]:
    """What makes a record, so that one which takes more memory or nests deeper than there is room
    for is lost, and nothing else."""

    @functools.wraps(record)
    def spared(*args: _Params.args, **named: _Params.kwargs) -> None:
        with contextlib.suppress(MemoryError, RecursionError):
            record(*args, **named)

    return spared
