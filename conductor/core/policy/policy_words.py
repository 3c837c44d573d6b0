"""The policy of one component, in words."""

from __future__ import annotations

import msgspec

from conductor.core.policy.rules import Policy
from conductor.core.policy.words import CONTEXT, TRUSTED, policy


class PolicyWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """The policy of one component, as plain data."""

    rights: tuple[str, ...] = (CONTEXT,)
    on_violation: str = "pass"
    fails: str = "open"
    ids: str = ""
    hold: float | None = None
    watched: bool = False
    """Whether none of its acts on the conversation happens."""
    judged: tuple[str, ...] | None = None
    """Of a trusted component: the rights by which it is judged; they stop nothing."""

    @property
    def enforced(self) -> bool:
        """Whether rules bound its acts on the conversation."""
        return TRUSTED not in self.rights

    @property
    def enforce(self) -> str:
        """The enforcement as users write it: `watch`, `watch-rights`; `all`: nothing is only
        watched."""
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
        """The rights by which a trusted component is judged, as the engine's policy; None: by
        none."""
        return None if self.judged is None else policy(*self.judged)
