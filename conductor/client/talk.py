"""The client of a person: sessions, the turns in them, and the questions that wait for the person.

`conductor chat` shows the client on a page, `conductor attach` and `conductor exec` in a terminal:
each overrides the methods that show something. The client outlives its links: its sessions stay
when the next link comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from conductor.client import acp, visit
from conductor.client.connection import CANCELLED, ChainEnded, Connection, Handler, Hearer
from conductor.client.handlers import READ, capabilities, selected
from conductor.client.session import Question, Session, Update, plain
from conductor.core.jsonrpc import INTERNAL_ERROR, RESOURCE_NOT_FOUND
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import ConductorError, RequestError, UsageError
from conductor.record.turns.messages import members
from conductor.transports.memory import Channel

_MOST_QUESTIONS: Final = 100
_MOST_EARLY: Final = 20
_PARTS: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
)
"""The kinds of updates that are parts of an answer."""


class Talk:
    """A person's sessions, turns and questions with a chain.

    Args:
        name: The client's name in `initialize`.
        cwd: The folder in which new sessions work.
        handlers: By method: further requests of the chain that are served, such as those for files.
        hears: By method: functions that take notifications.
        section: The members in the `_meta` of the client's capabilities.
        answers: Called with each part of an answer, before it is shown.
    """

    def __init__(
        self,
        name: str,
        cwd: str,
        handlers: Mapping[str, Handler],
        *,
        hears: Mapping[str, Hearer] | None = None,
        section: Mapping[str, Any] | None = None,
        answers: Callable[[], None] = lambda: None,
    ) -> None:
        self.cwd = cwd
        self.agent_command: Sequence[str] = ()
        """For hints."""
        self._name = name
        self._served = {**handlers, PERMISSION: self._asked}
        self._hears = hears or {}
        self._capabilities = {**capabilities(handlers), **({"_meta": section} if section else {})}
        # In version 2 a client has no files for the agent.
        self._versions = acp.VERSIONS[:1] if READ in handlers else acp.VERSIONS
        self._answers = answers
        self._leaving = asyncio.Event()
        """Set when the person leaves."""
        self.sessions: dict[str, Session] = {}
        self.questions: dict[int, Question] = {}
        self.can = acp.Abilities({}, image=False, loads=False, lists=False, attaches=False)
        """The agent's abilities, as it reports them."""
        self._early: list[tuple[str, Update]] = []
        """Updates of sessions that are not known yet."""
        self._asked_so_far = 0
        self._connection = self._new_connection()
        self._linked = False

    # -- methods for the shown parts -----------------------------------------------------------

    def _changed(self) -> None:
        """Something has changed that is shown."""

    async def _shown(self, session: Session, update: Update) -> None:
        """An update of a session is to be shown."""

    async def _answered(self, question: Question) -> str | None:
        """The option that the person chooses; None: no answer is possible."""
        raise NotImplementedError

    def _overheard(self, question: Question) -> None:
        """Others are asked something."""

    def _prompted(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        """A prompt is on its way."""

    def _lost(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        """The link has ended before a prompt was answered."""

    async def _heard(self, line: bytes) -> None:
        """A frame of the chain, before it is read."""

    def _is_new(self, session: str, update: Update) -> bool:
        """Whether an update is new; False: a new link repeats it."""
        del session, update
        return True

    # -- the connection ------------------------------------------------------------------------

    def _new_connection(self) -> Connection:
        return Connection(
            self._name,
            self._served,
            on_update=self._updated,
            on_frame=self._heard,
            hears=self._hears,
        )

    @asynccontextmanager
    async def over(self, channel: Channel) -> AsyncIterator[None]:
        """Speaks over a link as long as the block lasts."""
        connection = self._connection = self._new_connection()
        connection.agent = self.agent_command
        try:
            async with connection.over(channel):
                yield
        finally:
            self._linked = False
            for session in self.sessions.values():
                session.unlinked()
            self.questions.clear()
            self._changed()

    async def stay(self) -> None:
        """Returns when the person leaves, or nothing more comes. Raises exceptions of the client's
        own functions."""
        async with asyncio.TaskGroup() as group:
            left = group.create_task(self._leaving.wait())
            closed = group.create_task(self._connection.closed())
            # `tasks.first` would import anyio, for which every `exec` would wait.
            await asyncio.wait((left, closed), return_when=asyncio.FIRST_COMPLETED)
            left.cancel()
            closed.cancel()
        if self._connection.defect is not None:
            raise self._connection.defect

    async def introduced(self, place: str = "", *, attaches: bool | str = False) -> None:
        """Sends `initialize`. `attaches`: the client opens no session of its own; an id names the
        only session that it attaches to, at `place`. Raises `UsageError`, `RequestError`,
        `ChainEnded`."""
        meta = {"conductor": {"attaches": attaches}} if attaches else None
        answer = await self._connection.initialize(self._capabilities, meta, self._versions)
        self.can, self._linked = acp.abilities(answer), True
        if attaches and not self.can.attaches:
            raise UsageError(
                f"{place} lets nobody attach to a session",
                "`conductor serve` and `conductor agent --listen` do",
            )

    # -- sessions ------------------------------------------------------------------------------

    async def new_session(self) -> Session:
        """Opens a session. Raises `RequestError`, `ChainEnded`."""
        answer = await self._connection.new_session(self.cwd)
        id_ = answer["sessionId"]
        session = self.sessions.get(id_) or self._session_of(id_)
        session.began(answer)
        early, self._early = self._early, []
        for of, update in early:
            if of == id_:
                await self._take(session, session.take(update))
        self._changed()
        return session

    async def attached(self, id_: str, *, drives: bool, history: str, name: str = "") -> Any:
        """Attaches to a live session of others. Returns its server's answer. Raises `UsageError`,
        `RequestError`, `ChainEnded`."""
        session = self.sessions.get(id_) or self._session_of(id_)
        session.loading, session.viewed = True, not drives
        try:
            asked = visit.request(id_, drives=drives, history=history, name=name)
            answer = await self._connection.request("session/attach", asked)
            session.began(answer)
        except RequestError as error:
            if error.code != RESOURCE_NOT_FOUND:
                raise
            hint = "`conductor attach ADDRESS --list` shows those that are live"
            raise UsageError(f"no session `{id_}` is live there", hint) from None
        finally:
            session.loading = False
            self._changed()
        return answer

    async def live(self) -> list[visit.LiveSession]:
        """The sessions that are live there. Raises `RequestError`, `ChainEnded`."""
        return visit.listed(await self._connection.request("session/list", {}))

    async def listed(self, cursor: str | None) -> dict[str, Any]:
        """The sessions that the agent knows of this folder. Raises `UsageError`, `RequestError`,
        `ChainEnded`."""
        if not self.can.lists:
            raise UsageError("this agent lists no older sessions", "")
        asked = {"cwd": self.cwd} | ({"cursor": cursor} if cursor else {})
        return members(plain(await self._connection.request("session/list", asked)))

    async def load(self, id_: str) -> Session:
        """Goes on with an older session. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        if not self.can.loads:
            raise UsageError("this agent loads no older sessions", "begin a new one")
        known = self.sessions.get(id_)
        if known is not None and (known.running or known.loading):
            raise UsageError("a turn of this session is still running", "wait for it or cancel it")
        session = self._session_of(id_)
        session.loading = True
        self._changed()
        try:
            asked = acp.load(self._connection.version, id_, self.cwd)
            session.began(await self._connection.request(*asked))
        except ConductorError:
            self.sessions.pop(id_)
            if known is not None:
                self.sessions[id_] = known
            raise
        finally:
            session.loading = False
            self._changed()
        return session

    def _session_of(self, id_: str) -> Session:
        session = self.sessions[id_] = Session(id_, self.cwd, self._connection.version)
        return session

    async def set_mode(self, id_: str, mode: str) -> None:
        """Puts a session into a mode. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._driven(id_)
        await self._connection.request("session/set_mode", {"sessionId": id_, "modeId": mode})
        session.mode(mode)
        self._changed()

    async def set_option(self, id_: str, option: str, value: str | bool) -> None:
        """Sets a configuration option. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._driven(id_)
        asked = acp.choice(session.version, id_, option, value)
        answer = await self._connection.request("session/set_config_option", asked)
        if isinstance(answer.get("configOptions"), list):
            session.options = acp.options(answer)
        self._changed()

    def _session(self, id_: str) -> Session:
        session = self.sessions.get(id_)
        if session is None:
            raise UsageError("this session is not open", "open it from the list of sessions")
        return session

    def _driven(self, id_: str) -> Session:
        """A session in which the person takes part. Raises `UsageError`."""
        session = self._session(id_)
        if session.viewed:
            raise UsageError("you only watch this session", "attach without --view to take part")
        return session

    # -- turns ---------------------------------------------------------------------------------

    def prompt(self, id_: str, blocks: list[dict[str, Any]], *, waits: bool = False) -> bool:
        """Begins a turn; whether it has begun: with `waits` the prompt may wait for the end of the
        turn that runs. Raises `UsageError`."""
        session = self._driven(id_)
        is_free = not (session.running or session.loading)
        if is_free and (self._linked or not waits):
            self._begin(session, blocks)
            return True
        if not waits:
            raise UsageError("a turn of this session is still running", "wait for it or cancel it")
        session.waiting.append(blocks)
        return False

    def _begin(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        session.prompted(blocks)
        self._prompted(session, blocks)
        if not self._connection.start(self._turn(session, blocks)):
            self._lost(session, blocks)
        self._changed()

    async def _turn(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        answer, error = None, None
        try:
            answer = await self._connection.prompt(session.id, blocks)
        except ChainEnded:
            self._lost(session, blocks)
            return
        except ConductorError as raised:
            session.error = raised
            error = {"message": raised.text}
        await self._take(session, session.answered(answer, error))
        self._changed()

    def go_on(self, session: Session) -> None:
        """Sends the next prompt that waits, if none runs."""
        if session.waiting and self._linked and not session.running:
            self._begin(session, session.waiting.pop(0))

    def cancel(self, id_: str) -> None:
        """Cancels the turn of a session, which answers its questions. Raises `UsageError`."""
        session = self._driven(id_)
        if session.running:
            session.cancelling = True
            # Behind the prompt: the task that sends it may not have begun.
            asyncio.get_running_loop().call_soon(self._connection.cancel, id_)
            self._changed()

    # -- messages of the chain -----------------------------------------------------------------

    async def _updated(self, id_: str, update: Update) -> None:
        session = self.sessions.get(id_)
        if session is None:
            # The first update of a session may come before we have read the answer that names it.
            self._early = [*self._early[-_MOST_EARLY:], (id_, update)]
        elif self._is_new(id_, update):
            await self._take(session, session.take(update))

    async def _take(self, session: Session, updates: list[Update]) -> None:
        for update in updates:
            kind = update.get("sessionUpdate")
            if kind == "permission_requested" and session.viewed:
                self._sees(update, session)
            elif kind in ("permission_resolved", "turn_complete"):
                self._sees_no_more(session, update.get("requestId"))
            if kind == "turn_complete":
                self._connection.turn_ended(session.id)
            if kind in _PARTS:
                self._answers()
            await self._shown(session, update)
            if kind == "turn_complete":
                self.go_on(session)
        self._changed()

    def _sees(self, update: Update, session: Session) -> None:
        """Others are asked something, and the person sees it."""
        if len(self.questions) < _MOST_QUESTIONS:
            self._asked_so_far += 1
            number, params = self._asked_so_far, members(update.get("request"))
            asked = Question(number, params, session, viewed=True, request=update.get("requestId"))
            self.questions[number] = asked
            self._overheard(asked)

    def _sees_no_more(self, session: Session, request: object) -> None:
        """A question to other clients has its answer; None: their turn has ended."""
        for asked in list(self.questions.values()):
            is_its = asked.viewed and asked.session == session.id
            if is_its and request in (None, asked.request):
                del self.questions[asked.number]

    async def _asked(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `session/request_permission`: waits until the person has answered."""
        if len(self.questions) >= _MOST_QUESTIONS:
            text = f"{_MOST_QUESTIONS} questions wait for an answer already"
            raise RequestError(INTERNAL_ERROR, text)
        id_ = str(params.get("sessionId"))
        session = self.sessions.get(id_) or Session(id_, self.cwd)
        self._asked_so_far += 1
        question = self.questions[self._asked_so_far] = Question(
            self._asked_so_far, params, session
        )
        self._changed()
        try:
            chosen = await self._answered(question)
        finally:
            self.questions.pop(question.number, None)
            self._changed()
        return CANCELLED if chosen is None else selected(chosen)
