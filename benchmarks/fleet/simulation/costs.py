"""The costs in seconds and bytes, and the source of each figure.

NATS: `nats-server` 2.15.1 and `nats-py` 2.16.0. ``python -m benchmarks.fleet.costs`` measures the
processor times anew (28 November 2026, two cores; the highest of three runs); latencies and the
silence of a killed leader were measured on 22 November 2026 on two cores with other work, so they
are upper bounds.
"""

from __future__ import annotations

from typing import Final

US: Final = 1e-6
MS: Final = 1e-3

# Processor time of NATS servers
MESSAGE: Final = 1.0 * US
"""A message of 300 bytes, publisher and subscriber at the same server."""
ROUTED: Final = 0.9 * US
"""The same at another server: the cost at each of the two."""
DELIVERY: Final = 0.6 * US
"""One more subscriber of the same message."""
WATCHED: Final = 1.9 * US
"""A write that is delivered to one watcher of a bucket."""
SUBJECT: Final = 7.6 * US
"""A subscription, at the server that has the client."""
SUBJECT_BYTES: Final = 1_900
"""Memory of one subscription at the client's server."""
SUBJECT_ELSEWHERE_BYTES: Final = 1_000
"""Memory of one subscription at each other server of the cluster."""

# Writes to a stream with three replicas, in a pipeline
_WRITE, _WRITE_BYTE = 12.0 * US, 0.0045 * US
_COPY, _COPY_BYTE = 4.9 * US, 0.0025 * US
_PACE, _PACE_BYTE = 15.0 * US, 0.0065 * US


def write(size: float) -> float:
    """Processor time of the leader for a record of ``size`` bytes."""
    return _WRITE + _WRITE_BYTE * size


def copy(size: float) -> float:
    """Processor time of each of the two others."""
    return _COPY + _COPY_BYTE * size


def pace(size: float) -> float:
    """Time between two writes of a leader that is never idle: 59,000 a second of 300 bytes."""
    return _PACE + _PACE_BYTE * size


# Latencies
HOP: Final = 57.5 * US
"""Core NATS, one way: half of a request with its answer (115 µs)."""
PUT: Final = 457 * US
"""A conditional write with three replicas, until it is acknowledged."""
GET: Final = 206 * US
"""Reading a key."""
ELECTION: Final = 6.7
"""The longest silence of a stream whose leader was killed under load."""

# Gateways and workers (Python)
RECEIVE: Final = 11 * US
"""A message that `nats-py` receives (87,000 to 98,000 a second)."""
REPLAYED: Final = 22 * US
"""An update of a history through a gateway: received in a burst, and 11.1 µs of `conductor serve`
over WebSocket (``python -m benchmarks.remote``, 28 November 2026)."""
PASSED: Final = 50 * US
"""A single update through a gateway. Taken, not measured: between a burst (22 µs) and half of a
round trip of `conductor serve` over WebSocket (98 µs)."""
PUBLISH: Final = 15 * US
"""A packet that `nats-py` sends alone. Taken, not measured."""
ACCEPT: Final = 5 * MS
"""A client that comes: TLS, HTTP, `initialize`. Taken, not measured."""
ASK: Final = 0.2 * MS
"""A request of a gateway, with its answer and all that belongs to it. Assumed, not measured."""
CHAIN: Final = 148 * MS
"""A chain of four sandboxed proxies starts (docs/speed.svg), taken as processor time."""

# Machines (taken)
CORES: Final = 8
"""Cores of a NATS server and of a worker."""
NETWORK: Final = 1.25e9
"""Bytes a second that a server can send: 10 Gbit/s."""
DISK: Final = 4e12
"""Bytes of a NATS server's disk."""
MEMORY: Final = 2e9
"""Bytes of a NATS server that subscriptions may take."""
FRAMING: Final = 120
"""Bytes around a message: subject, headers, TCP."""
