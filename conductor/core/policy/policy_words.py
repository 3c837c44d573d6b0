"""What one component may do, in words."""

from __future__ import annotations

import msgspec

from conductor.core.policy.rules import Policy
from conductor.core.policy.words import CONTEXT, TRUSTED, policy


class PolicyWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one component may do, as plain data."""

    rights: tuple[str, ...] = (CONTEXT,)
    on_violation: str = "pass"
    fails: str = "open"
    ids: str = ""
    hold: float | None = None
    watched: bool = False
    """Whether nothing of what it would do to the conversation happens."""
    judged: tuple[str, ...] | None = None
    """Of a trusted one: the rights by which it is judged; they stop nothing."""

    @property
    def enforced(self) -> bool:
        """Whether rules bound what it does to the conversation."""
        return TRUSTED not in self.rights

    @property
    def enforce(self) -> str:
        """As users write it: `watch`, `watch-rights`; `all`: nothing is only watched."""
        return "watch" if self.watched else "all" if self.judged is None else "watch-rights"

    def policy(self) -> Policy | None:
        """The engine's policy, or None for `trusted`. Raises `ValueError`."""
        return policy(
            *self.rights,
            on_violation=self.on_violation,
            fails=self.fails,
            ids=self.ids,
            hold=self.hold,
            watched=self.watched,
        )

    def judge(self) -> Policy | None:
        """The rights by which a trusted one is judged, as the engine's policy; None: by none."""
        return None if self.judged is None else policy(*self.judged)
