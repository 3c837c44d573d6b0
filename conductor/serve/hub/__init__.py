"""The hub: connects the clients of one principal with its chains.

Pure: frames in, effects out; there is no clock and nothing waits.
"""

from conductor.serve.hub.effects import (
    CloseChain,
    Disowned,
    Effect,
    LogLine,
    OpenChain,
    Owned,
    ToChain,
    ToClient,
)
from conductor.serve.hub.hub import Hub, SessionInfo
from conductor.serve.hub.limits import HubLimits

__all__ = [
    "CloseChain",
    "Disowned",
    "Effect",
    "Hub",
    "HubLimits",
    "LogLine",
    "OpenChain",
    "Owned",
    "SessionInfo",
    "ToChain",
    "ToClient",
]
