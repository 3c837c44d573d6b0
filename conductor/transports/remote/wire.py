"""The names on the wire of ACP at an address, for both ends: headers, and subprotocols."""

from __future__ import annotations

from typing import Final

CONNECTION: Final = "Acp-Connection-Id"
SESSION: Final = "Acp-Session-Id"
NUMBER: Final = "Acp-Message-Number"

PLAIN: Final = "acp"
"""The subprotocol of one JSON text in each WebSocket message."""
RESUMED: Final = "conductor.link.1"
"""The subprotocol of `conductor.link`."""
