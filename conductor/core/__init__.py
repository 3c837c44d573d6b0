"""The pure core: bytes of one peer go in, effects come out. No waiting, no clock, no logging.

docs/architecture.md lists its modules. They import each other in no circle, and `parts` alone names
all parts of a router.

The package itself gives names for the values that go in and out. A program that runs a router
imports `conductor.core.router`: the engine is the larger part, and a chain loads it once its agent
starts.
"""

from conductor.core.component import UPSTREAM, Component
from conductor.core.dialects import CHANNEL, DIALECTS, Dialect
from conductor.core.effects import (
    Adapted,
    Answered,
    Changed,
    Closure,
    Effect,
    Entry,
    Fail,
    Held,
    Keep,
    Listen,
    LogLine,
    OwnedAddresses,
    Propagate,
    Reached,
    Recall,
    Reopen,
    Resolve,
    Send,
    Serve,
    Silent,
    Violated,
    Wake,
)
from conductor.core.service_table import SERVICES

__all__ = [
    "CHANNEL",
    "DIALECTS",
    "SERVICES",
    "UPSTREAM",
    "Adapted",
    "Answered",
    "Changed",
    "Closure",
    "Component",
    "Dialect",
    "Effect",
    "Entry",
    "Fail",
    "Held",
    "Keep",
    "Listen",
    "LogLine",
    "OwnedAddresses",
    "Propagate",
    "Reached",
    "Recall",
    "Reopen",
    "Resolve",
    "Send",
    "Serve",
    "Silent",
    "Violated",
    "Wake",
]
