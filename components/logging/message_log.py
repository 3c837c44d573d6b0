"""Writes every message that passes to the conductor's log, once and in order.

conductor agent --log info logging claude-agent-acp 2>messages.log
"""

import json
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from guest_sdk.python import Answered, Notification, Proxy, Request

MOST = 3000
"""Bytes of a payload at most: the conductor cuts a line that is longer than 4 KiB."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    level: Literal["debug", "info", "warn"] = "info"
    methods: list[str] = field(default_factory=lambda: ["*"])
    payload: bool = True
    most: int = 2000

    def __post_init__(self) -> None:
        if not 0 <= self.most <= MOST:
            raise ValueError(f"`most` is 0 to {MOST} bytes")


@dataclass
class Count:
    """How many messages have been written."""

    written: int = 0


proxy = Proxy(
    "logging",
    description="Writes every message that passes to the conductor's log, once and in order.",
    config=Config,
)
count = Count()


def write(what: str, direction: str, method: str, **more: Any) -> None:
    """Writes one line: a summary for people, and the whole as one JSON object."""
    config = proxy.config
    if any(fnmatchcase(method, pattern) for pattern in config.methods):
        count.written += 1
        data = {"n": count.written, "way": direction, "method": method[:200], **more}
        proxy.log(what, level=config.level, **{k: v for k, v in data.items() if v is not None})


def payload(held: Any) -> Any:
    """The part of params, of a result or of an error that the log holds."""
    text = json.dumps(held, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    if not proxy.config.payload:
        return {"bytes": len(text)}
    # `1e400`, which JSON has and Python does not, is left in the text.
    if len(text) <= proxy.config.most and b"Infinity" not in text:
        return held
    # Half of it, for what is cut is text within text, whose quotes are escaped once more.
    beginning = text[: proxy.config.most // 2].decode("utf-8", "ignore")
    return {"bytes": len(text), "beginning": beginning}


def session(params: Any) -> str | None:
    """The session a message belongs to."""
    found = params.get("sessionId") if isinstance(params, dict) else None
    return found[:200] if isinstance(found, str) else None


@proxy.request()
async def requested(request: Request, following: Any) -> Any:
    about = {"id": request.id[:200], "session": session(request.params)}
    back = "up" if request.direction == "down" else "down"
    write("request", request.direction, request.method, **about, params=payload(request.params))
    try:
        result = await following(request)
    except Answered as error:
        held = {"code": error.code, "message": str(error)}
        write("error", back, request.method, **about, **cancelled(request), error=payload(held))
        raise
    write("result", back, request.method, **about, **cancelled(request), result=payload(result))
    return result


def cancelled(request: Request) -> dict[str, Any]:
    """The mark of a request that was cancelled; a cancellation is no message of its own here."""
    return {"cancelled": True} if request.cancelled else {}


@proxy.notification()
def told(notification: Notification) -> None:
    params = notification.params
    write("notification", notification.direction, notification.method,
          session=session(params), params=payload(params))  # fmt: skip


if __name__ == "__main__":
    proxy.run()
