"""Asks the client whether components may have the rights that they ask for, and obeys its answers.

`conductor.spec.consent.asking` decides which question is asked when; this module asks it. While the
trust store matters to the chain, this module also looks whether the store has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from conductor.core import Closure
from conductor.errors import ConductorError
from conductor.spec import lacking
from conductor.spec.consent.agreements import Agreements
from conductor.spec.consent.asking import Agreed, Ask, Asking, Narrow, Resume, State, Step, Wake
from conductor.spec.consent.question import METHOD, Asked, Question
from conductor.spec.consent.tools import ToolsQuestion
from conductor.spec.model import Spec

if TYPE_CHECKING:
    from conductor.run.runtime import Runtime

_LOOK: Final = 0.5
"""The seconds between looks at the trust store."""

_IN_FORCE: Final = 30.0
"""The seconds that a held prompt waits for agreed rights, once no question is open."""

_AS_PROXY: Final = "an outer conductor cannot be asked"
_NO_SESSION: Final = "the first prompt names no session"


class Consent:
    """The questions and agreements while one chain runs.

    Args:
        agreements: The components of the chain.
        runtime: The chain, on the running event loop.
        asks: Whether the client is asked.
        renewed: The components as they are to run now, and whether any component may do less than
            before. Raises `ConductorError`.
    """

    def __init__(
        self,
        agreements: Agreements,
        runtime: Runtime,
        *,
        asks: bool,
        renewed: Callable[[], tuple[Sequence[Spec], bool]],
    ) -> None:
        self._agreements = agreements
        self._runtime = runtime
        self._log = runtime.records.log
        self._asks = asks
        self._renewed = renewed
        self._asking = Asking(lambda: f"conductor-{os.urandom(16).hex()}")
        self._tools: list[ToolsQuestion] = []
        """The questions about MCP servers."""
        self._session = ""
        self._holds = False
        self._told: set[str] = set()
        """Components whose missing rights the user has been told of."""
        runtime.start(self._look())

    def put(self) -> None:
        """The components are others than before: the next prompt waits if there are questions."""
        if not self._asks:
            return
        self._asking.put([*self._agreements.questions, *self._tools])
        if self._asking.state is State.WAITING and not self._holds:
            self._holds = True
            self._runtime.router.hold()
        self._runtime.start(self._let_go())

    def differs(self, question: ToolsQuestion) -> None:
        """An MCP server offers more than before: a later list counts, and replaces the question
        about earlier ones."""
        self._tools = [each for each in self._tools if each.server != question.server]
        self._tools.append(question)
        self.put()

    def prompted(self, session: str | None) -> None:
        """A prompt waits."""
        # Soon: the router is about to return other effects of the same message.
        asyncio.get_running_loop().call_soon(self._runtime.guarded, self._prompted, session)

    def _prompted(self, session: str | None) -> None:
        runtime = self._runtime
        if not self._holds:
            return
        if runtime.router.mode != "agent" or session is None:
            why = _NO_SESSION if runtime.router.mode == "agent" else _AS_PROXY
            self._perform([*self._asking.unable(why), Resume()])
            return
        self._session = self._session or session
        self._perform(self._asking.prompted(session, runtime.router.version or 1))

    def _perform(self, steps: Sequence[Step]) -> None:
        runtime = self._runtime
        for step in steps:
            match step:
                case Ask(token, params):
                    runtime.ask(METHOD, params, token)
                case Wake(token, seconds):
                    loop = asyncio.get_running_loop()
                    loop.call_later(seconds, runtime.guarded, self._expired, token)
                case Agreed(question, lasting):
                    self._agree(question, lasting=lasting)
                case Narrow(questions, why):
                    self._stays_narrow(questions, why)
                case Resume():
                    self._agreements.asks = False
                    runtime.start(self._renew())
                    runtime.start(self._let_go())

    def replied(self, token: int, member: bytes, body: bytes) -> None:
        """The client has answered a question."""
        self._perform(self._asking.answered(token, member.decode(), body))

    def _expired(self, token: int) -> None:
        self._perform(self._asking.expired(token))

    def _agree(self, question: Asked, *, lasting: bool) -> None:
        if isinstance(question, Question):
            problem = self._agreements.agree(question, lasting=lasting)
        else:
            assert isinstance(question, ToolsQuestion)
            problem = self._runtime.agree_to_tools(question, lasting=lasting)
        if problem:
            text = f"agreed to until this conductor ends only: {problem}"
            self._log("warning", question.component, text)

    def _stays_narrow(self, questions: Sequence[Asked], why: str) -> None:
        runtime = self._runtime
        if not why or not questions:
            return
        rows: dict[tuple[str, str], list[str]] = {}
        for question in questions:
            rows.setdefault((question.narrow, question.hint), []).append(question.label)
        said = (f"{', '.join(names)}: {what}, since {why}; {hint}" for (what, hint), names in
                rows.items())  # fmt: skip
        text = "; ".join(said)
        shown = runtime.router.notice(self._session, text)
        if shown is None:
            self._log("warning", questions[0].component, text)
        else:
            runtime.apply(shown)

    async def _let_go(self) -> None:
        """Prompts go on once the components run with the agreed rights, unless a question waits for
        an answer."""
        # A reload may bring these rights. But an open request holds no prompt back for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_IN_FORCE):
                await self._runtime.rearranging()
        if self._runtime.failure is not None:
            return  # a component that fails closed lacks rights: no prompt goes on
        if self._holds and self._asking.state in (State.LATE, State.DONE):
            self._holds = False
            self._runtime.release()

    async def _renew(self) -> None:
        try:
            specs, less = self._renewed()
        except ConductorError as error:
            self._runtime.fail(Closure(error.text, error.hint))
            return
        if not self._agreements.asks:
            self._tell(specs)
        await self._runtime.rearrange(specs, now=less)

    def _tell(self, specs: Sequence[Spec]) -> None:
        """Logs the rights that components lack after a question: their start did not log them."""
        asked = {question.component for question in self._agreements.questions} - self._told
        self._told |= asked
        for spec in (spec for spec in specs if spec.name in asked):
            for text in lacking.notes(spec):
                self._log("warning", spec.name, text)

    async def _follow(self) -> None:
        """Follows a change of the trust store."""
        await self._renew()
        await self._runtime.rearranging()
        self.put()

    async def _look(self) -> None:
        """Follows the trust store while the chain runs."""
        while True:
            await asyncio.sleep(_LOOK)
            if self._agreements.changed():
                # A task of its own: a change that waits for a turn must not hide the next change.
                self._runtime.start(self._follow())
