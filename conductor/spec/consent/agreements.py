"""The components of one chain, with the rights that the user has agreed to."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from conductor.errors import UsageError
from conductor.spec import trust
from conductor.spec.consent import wishes
from conductor.spec.consent.question import Question
from conductor.spec.consent.wishes import Kept, Permit
from conductor.spec.model import Spec
from conductor.spec.trust import Trust


class Agreements:
    """The user's agreements about the components of one chain.

    Args:
        again: An agreement in the store counts only once the user was asked here.
        permit: Judges a component with all rights that it asks for.
    """

    def __init__(self, *, again: bool, permit: Permit) -> None:
        self._kept = Kept(Trust(), asked=set() if again else None)
        self._permit = permit
        self._stamp = trust.stamp()
        self._components: list[Spec] = []
        self._running: set[str] = set()
        self.asks = False
        """The user is asked before the next prompt goes on. Until then a component that fails
        closed may run without the rights that it asks for."""
        self.questions: list[Question] = []
        """The questions that the user may be asked."""
        self.refused: list[tuple[Spec, str]] = []
        """Components that stay narrow without a question, and why."""
        self.problem = ""
        """Why the store cannot be used."""

    @property
    def concerned(self) -> bool:
        """Whether the running components depend on the store."""
        return any(wishes.missing(spec) or trust.program_of(spec) for spec in self._components)

    def settled(self, specs: Sequence[Spec]) -> list[Spec]:
        """The components with everything that was agreed to.

        `changed` still reports a change of the store: only `renewed` takes rights away at once.
        """
        self._components = list(specs)
        settled, now = self._settled()
        self._running = now if self._stamp == trust.stamp() else self._running | now
        return settled

    def renewed(self) -> tuple[list[Spec], bool]:
        """The same components with the rights agreed to now, without programs of folders that are
        no longer trusted; and whether any component has lost something.

        Raises `UsageError` where the last component is such a program.
        """
        # Before the store is read: a change meanwhile counts as a change. Our own writes do not
        # count.
        self._stamp = trust.stamp()
        specs, now = self._settled()
        less, self._running = not self._running <= now, now
        trusted = self._kept.trust
        gone = [
            spec
            for spec in specs
            if trust.program_of(spec) and not trust.trusts_program(spec, trusted)
        ]
        if specs and specs[-1] in gone:
            trust.check_program(specs[-1])
        return [spec for spec in specs if spec not in gone], less or bool(gone)

    def changed(self) -> bool:
        """Whether the store has changed since `renewed`, which alone ends a change."""
        return self._stamp != trust.stamp()

    def agree(self, question: Question, *, lasting: bool) -> str:
        """The user has agreed; why that cannot be kept, if it cannot. Then it holds until this
        conductor ends."""
        agreement = msgspec.structs.replace(question.agreement, since=trust.now())
        if lasting:
            try:
                trust.agree(question.key, agreement)
            except UsageError as error:
                self._kept.session[question.key] = agreement
                return error.text
            if self._kept.asked is not None:
                self._kept.asked.add(question.key)
        else:
            self._kept.session[question.key] = agreement
        return ""

    def _settled(self) -> tuple[list[Spec], set[str]]:
        """The components, and the names of those that have more than the default rights."""
        self._kept.trust, self.problem = trust.known()
        self._kept.end()
        settled = [wishes.settle(spec, self._kept, self._permit) for spec in self._components]
        self.questions = [each.question for each in settled if each.question is not None]
        self.refused = [(each.spec, each.why) for each in settled if each.why]
        now = {each.spec.name for each in settled if each.agreed}
        return [
            msgspec.structs.replace(each.spec, asked=True)
            if self.asks and each.question is not None
            else each.spec
            for each in settled
        ], now
