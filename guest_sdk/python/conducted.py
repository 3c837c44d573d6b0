"""An engine as the conductor knows it: its settings, and timers that fire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import config
from .errors import ProxyError
from .jsontext import members
from .reading import answer_of
from .speaker import Speaker, settle
from .tasks import Waiter

if TYPE_CHECKING:
    from .proxy import Proxy


class Conducted(Speaker):
    """The part of an engine that the conductor speaks to."""

    def __init__(self, proxy: Proxy[Any]) -> None:
        super().__init__(proxy)
        self.grants: list[str] | None = None
        """The rights to services that it has; None: it was not said."""
        self.config: Any = None
        self.instance = ""
        """Which of its lives this is, after it has been started again; empty in the first."""
        self.failure: ProxyError | None = None
        """Why the proxy cannot work: the answer to every request it has a handler for."""
        self.timers: dict[Any, tuple[Callable[[], Any], bool]] = {}
        self._settled = False
        """Whether the conductor has told settings with which the proxy can work."""
        self._configure({})

    def _conductor(self, said: str) -> None:
        try:
            held = {one.name: one for one in members(said)[0]}
        except (ValueError, RecursionError):
            return
        method = held["method"].value if "method" in held else None
        if method is None:
            id_ = held.get("id")
            raw = said[id_.start : id_.end] if id_ else ""
            waiter = self._awaited.pop(("c", raw), None)
            if waiter is not None:
                settle(waiter, answer_of(raw, said, held))
            return
        params = held["params"].value if "params" in held else {}
        if method == "configure" and isinstance(params, dict):
            if not self._configure(params):
                return
            if self.failure is not None:  # with few rights it does not hear it at `initialize`
                self.log("error", self.failure.message)
                return
            doubts, self.proxy.doubts = self.proxy.doubts, []
            for doubt in doubts:
                self.log("warn", doubt)
            for starter in self.proxy.starters:
                self.start(_called(starter), "starting")
        elif method == "timer/fired" and isinstance(params, dict):
            self._fired(params.get("timer"))

    def _configure(self, params: dict[str, Any]) -> bool:
        """Takes settings; False if they are wrong and the former ones stay."""
        self.name = params.get("name") or self.name
        self.instance = params.get("instance") or self.instance
        self.kept = params.get("kept") or self.kept
        self.peers = params.get("peers") or self.peers
        grants = params.get("grants")
        self.grants = grants if isinstance(grants, list) else self.grants
        try:
            self.config = config.read(self.proxy.config_type, params.get("config") or {})
            self.failure = None
        except ValueError as error:
            told = f"the configuration of `{self.name}` is wrong: {error}"
            if self._settled:  # what it keeps out stays out while somebody mistypes
                self.log("error", f"{told}; the former settings stay")
                return False
            self.failure = ProxyError(told)
        self._settled = bool(params) and self.failure is None
        return True

    def keep(self, members: dict[str, Any]) -> None:
        """Has the conductor keep these for the next life, or forget those that are None."""
        self.notify("c", "keep", members)

    def timer_started(self, asked: Waiter[Any], callback: Callable[[], Any], *, once: bool) -> None:
        """Remembers whom to call when a timer fires."""
        try:
            self.timers[asked.result()["timer"]] = (callback, once)
        except (ProxyError, KeyError, TypeError):
            return  # whoever awaits the answer is told

    def _fired(self, timer: Any) -> None:
        callback, once = self.timers.get(timer, (None, False))
        if callback is None:
            return
        if once:
            del self.timers[timer]
        self.start(_called(callback), "a timer's function")


async def _called(function: Callable[[], Any]) -> Any:
    result = function()
    return await result if isinstance(result, Awaitable) else result
