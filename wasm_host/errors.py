"""What can go wrong with a guest, as exceptions that name the cause and the next step."""

from __future__ import annotations


class GuestError(Exception):
    """A guest broke a rule, trapped, or ran into a limit.

    Unless it is a `LimitRefused` or a `LoadError`, the instance is dead afterwards.

    Attributes:
        phase: `load`, `instantiate`, `start`, `deliver` or `close`.
        limit: the field of `wasm_host.Limits` that was exceeded, or `None`.
        detail: more than fits a sentence: the trap message, a trimmed backtrace, stderr.
        hint: what the reader can do next; empty when there is nothing to advise.
        outbox: complete lines the guest had written before it failed (WASI carrier only).
    """

    def __init__(
        self,
        phase: str,
        message: str,
        *,
        limit: str | None = None,
        detail: str = "",
        hint: str = "",
        outbox: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.limit = limit
        self.detail = detail
        self.hint = hint
        self.outbox = outbox


class LoadError(GuestError):
    """The file is not a guest this host will run; nothing was executed."""

    def __init__(
        self, message: str, *, limit: str | None = None, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__("load", message, limit=limit, detail=detail, hint=hint)

    def of(self, label: str) -> LoadError:
        """The same, about the module called `label`."""
        return LoadError(f"{label}: {self}", limit=self.limit, detail=self.detail, hint=self.hint)


def over(limit: str, found: str, bound: int) -> LoadError:
    """The error for a module beyond a limit, of which `found` was found."""
    return LoadError(
        f"{found}: the limit {limit} is {bound}",
        limit=limit,
        hint=f"raise the component's {limit} if you trust it",
    )


class LimitRefused(GuestError):  # noqa: N818 - nothing is broken afterwards
    """A delivery was refused before it reached the guest, which is unharmed and still alive."""
