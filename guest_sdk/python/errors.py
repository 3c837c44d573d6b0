"""The failures of a proxy, as exceptions.

ProxyError              answered to whoever asked, with `code`, `message`, `data`
├── Answered            the other side answered a request with an error; passes on untouched
└── Refused             the conductor refused a service, or it failed
Cancelled               whoever asked no longer wants the answer (not an `Exception`, so that
                        `except Exception` does not swallow it)
"""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
REFUSED: Final = -31900
"""The code of a request that a component stops: `request.refuse("not here")`."""
AUTH_REQUIRED: Final = -32000
"""The code that the agent alone answers: editors then show its login."""


class ProxyError(Exception):
    """A JSON-RPC error: raised in a handler, it is the answer to the request."""

    def __init__(self, message: str, code: int = INTERNAL_ERROR, data: Any = None) -> None:
        if not isinstance(message, str) or not isinstance(code, int) or isinstance(code, bool):
            raise TypeError(
                f"a ProxyError takes a text and a whole number, not {message!r} and {code!r}"
            )
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def body(self) -> dict[str, Any]:
        """The error object as it is sent."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return body


class Answered(ProxyError):  # noqa: N818 - the name of an event
    """The error that a neighbour answered. Uncaught, it passes on byte by byte."""

    def __init__(self, text: str, error: Any, *, own: bool = True) -> None:
        held = error if isinstance(error, dict) else {}
        code = held.get("code")
        super().__init__(
            str(held.get("message", "")),
            code if isinstance(code, int) else INTERNAL_ERROR,
            held.get("data"),
        )
        self.text = text
        """The error object as it came, JSON."""
        self.own = own
        """Whether it answers a request of the proxy's own, not a request that was passed on."""


class Refused(ProxyError):  # noqa: N818 - the name of an event
    """The conductor refused a service (not granted), or the service failed.

    `service` is its name; `granted` is False if a right is missing; `reason` is one word for
    programs (`quota`, `timeout`), or empty.
    """

    def __init__(self, service: str, error: Any) -> None:
        held = error if isinstance(error, dict) else {}
        code = held.get("code")
        code = code if isinstance(code, int) else INTERNAL_ERROR
        # To whoever reads it in a log, what the protocol calls it says nothing.
        told = str(held.get("message", "refused")).removeprefix("Method not found: ")
        super().__init__(told, code, held.get("data"))
        self.service = service
        self.granted = code != METHOD_NOT_FOUND
        data = self.data if isinstance(self.data, dict) else {}
        self.reason = str(data.get("reason", ""))


class Cancelled(BaseException):
    """Raised where a handler waits, when its request is cancelled.

    Not caught, the request is answered with error -32800; a prompt cancelled by `session/cancel`
    with the stop reason `cancelled`.
    """
