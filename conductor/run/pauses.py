"""Components that are paused: every message goes past them until they are resumed.

A component is switched while nothing is open anywhere in the chain, so between two turns
(`Router.quiet`); meanwhile the client's prompts wait, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.errors import ConductorError, UsageError, did_you_mean, one_line

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_WORDS = {True: "paused: every message goes past it", False: "resumed: it takes part again"}


class Pauses:
    """The paused components of one chain."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._log = runtime.records.log
        self.names: set[str] = set()
        """The components that are paused."""

    def refusal(self, name: str, *, paused: bool) -> ConductorError | None:
        """Why a component cannot be paused, or resumed; None: it can be."""
        runtime = self._runtime
        names = [guest for each in runtime.planned.values() for guest in each.names]
        shown = f"`{one_line(name, 80)}`"
        if name not in names:
            listed = f"its components: {', '.join(names)}"
            near = did_you_mean(name, names)
            return UsageError(f"the chain has no component {shown}", near or listed)
        if name == runtime.agent:
            return UsageError(
                f"{shown} is the agent: nobody would answer", "only proxies are paused"
            )
        spec = next((s for p in runtime.planned.values() for s in p.specs if s.name == name), None)
        if paused and spec is not None and spec.required:
            return UsageError(
                f"{shown} may not be paused: the managed policy requires it",
                "`conductor config show` names the policy",
            )
        if runtime.records.left_out(name):
            return ConductorError(f"{shown} has ended, and the chain goes on without it")
        return None

    def switch(self, name: str, *, paused: bool) -> None:
        """Pauses or resumes a component, at a moment at which nothing is open. Raises
        `ConductorError` if that cannot be."""
        refusal = self.refusal(name, paused=paused)
        if refusal is not None:
            raise refusal
        if (name in self.names) is paused:
            return
        self.names ^= {name}
        self.apply()
        self._log("warning", name, _WORDS[paused])
        self._runtime.record("pause" if paused else "resume", name, _WORDS[paused])

    def apply(self) -> None:
        """Tells the router and the hosts of guests; also of a chain with other components."""
        planned = self._runtime.planned
        self.names &= {guest for each in planned.values() for guest in each.names}
        for name, each in planned.items():
            if len(each.guests) > 1:
                self.tell(name)
            elif name != self._runtime.agent:
                effects = self._runtime.router.pause(name, paused=name in self.names)
                self._runtime.apply(effects)

    def tell(self, name: str) -> None:
        """Tells a host of several guests which of them are paused: it may just have started."""
        each = self._runtime.planned[name]
        if len(each.guests) > 1:
            paused = self.names.intersection(each.guests)
            assert each.belongings is not None
            each.belongings.paused = paused
            self._runtime.services.pause(name, paused)
