"""A chat: the client of a person, whose page may come and go. What it holds outlives every page.

It has the sessions with the agent, the turns that run in them, and the questions of the chain that
wait for the person. A question is answered by the person alone, or by the end of its turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conductor.client import visit
from conductor.client.chat_session import Question, Session, members, plain
from conductor.client.connection import CANCELLED, PERMISSION, ChainEnded, Connection, Handler
from conductor.client.editing import CAPABILITIES, Editing
from conductor.client.handlers import READ, capabilities, clear, selected
from conductor.errors import ConductorError, RequestError, UsageError
from conductor.transports.memory import Channel

_MOST_QUESTIONS: Final = 100
_MOST_EARLY: Final = 20


class Attach(NamedTuple):
    """A live session of others to attach to (docs/remote.md)."""

    session: str
    views: bool
    """Whether the person only watches it."""


class Chat:
    """The client's end of one chain, for one person.

    Args:
        cwd: The folder in which the sessions work.
        handlers: By method: what else is served to the chain, such as files.
        events: How many events the trace of the chain has.
        answers: Called with each part of an answer.
        attach: A live session of others, in place of one of its own.
    """

    def __init__(
        self,
        cwd: str,
        handlers: Mapping[str, Handler],
        *,
        events: Callable[[], int],
        answers: Callable[[], None],
        attach: Attach | None = None,
    ) -> None:
        self.cwd = cwd
        self._attach = attach
        self._events = events
        self._answers = answers
        self.editing = Editing(self._changed, self._request)
        served = {**handlers, PERMISSION: self._asked, **self.editing.handlers}
        self._capabilities = {**capabilities(served), "_meta": CAPABILITIES}
        self._connection = Connection(
            "chat", served, on_update=self._updated, hears=self.editing.hears
        )
        self.reads = READ in handlers
        """Whether the chain gets the files of the folder."""
        self.sessions: dict[str, Session] = {}
        self.questions: dict[int, Question] = {}
        self._early: list[tuple[str, dict[str, Any]]] = []
        """Updates of sessions that are not known yet."""
        self._asked_so_far = 0
        self._agent: dict[str, Any] = {}
        self._can: dict[str, Any] = {}
        """What the agent says that it can do."""
        self._ended = ("", "")
        self.version = 0
        """Another one each time something of the state has changed."""
        self.begun = asyncio.Event()
        """Set when the first session is open, or there is none: `failed` says why."""
        self.failed: ConductorError | None = None
        self._leaving = asyncio.Event()
        self._turns: set[asyncio.Task[None]] = set()

    # -- the connection ------------------------------------------------------------------------

    async def run(self, channel: Channel) -> None:
        """The in-process component in the editor's place; returns after `leave`, and when the
        chain has ended."""
        async with self._connection.over(channel):
            try:
                meta = visit.ATTACHES if self._attach is not None else None
                answer = await self._connection.initialize(self._capabilities, meta)
                info, can = answer.get("agentInfo"), answer.get("agentCapabilities")
                self._agent = info if isinstance(info, dict) else {}
                self._can = can if isinstance(can, dict) else {}
                if self._attach is None:
                    await self.new_session()
                else:
                    await self._attached(self._attach)
            except ConductorError as error:
                self.failed = error
                return
            finally:
                self.begun.set()
            ends: list[asyncio.Task[Any]] = [
                asyncio.create_task(self._leaving.wait()),
                asyncio.create_task(self._connection.closed()),
            ]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for end in ends:
                    end.cancel()

    def knows(self, command: Any) -> None:
        """Takes the agent's command, for hints."""
        self._connection.agent = command

    def leave(self) -> None:
        """The person ends the chat: turns that run are cancelled."""
        for session in self.sessions.values():
            if session.running:
                self._connection.cancel(session.id)
        self._leaving.set()

    def ended(self, text: str, hint: str) -> None:
        """The chain has ended: no prompt can be sent any more."""
        self._ended = text, hint
        for session in self.sessions.values():
            session.running = session.cancelling = session.loading = False
        self._changed()

    def _changed(self) -> None:
        self.version += 1

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        return await self._connection.request(method, params)

    def state(self) -> dict[str, Any]:
        """All that a page shows beside the trace."""
        prompts = members(self._can.get("promptCapabilities"))
        return {
            "agent": plain(self._agent),
            "cwd": self.cwd,
            "can": {
                "image": prompts.get("image") is True,
                "load": self._loads,
                "list": self._lists,
                "new": self._attach is None,
                "search": self.reads,
            },
            "sessions": [session.state() for session in self.sessions.values()],
            "questions": [question.state for question in self.questions.values()],
            "editor": self.editing.state(),
            "ended": self._ended,
        }

    @property
    def _loads(self) -> bool:
        return self._can.get("loadSession") is True

    @property
    def _lists(self) -> bool:
        return isinstance(members(self._can.get("sessionCapabilities")).get("list"), dict)

    # -- what the person does ------------------------------------------------------------------

    async def new_session(self) -> Session:
        """Opens a session. Raises `RequestError`, `ChainEnded`."""
        answer = await self._connection.request("session/new", {"cwd": self.cwd, "mcpServers": []})
        id_ = answer.get("sessionId")
        if not isinstance(id_, str):
            text = "the answer to `session/new` holds no sessionId"
            raise RequestError(-32603, text, method="session/new")
        session = self.sessions.setdefault(id_, Session(id_, self.cwd))
        session.began(answer)
        for of, update in self._early:
            if of == id_:
                session.updated(update)
        self._early = []
        self._changed()
        return session

    async def _attached(self, wanted: Attach) -> None:
        """Attaches to a session of others. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        visit.check(self._can, "the agent of this chain")
        id_ = wanted.session
        session = self.sessions[id_] = Session(id_, self.cwd)
        session.loading, session.viewed = True, wanted.views
        begin = self._events()
        session.history = begin, begin
        answer = await visit.attached(
            self._connection, id_, drives=not wanted.views, history="full"
        )
        session.began(answer)
        about = members(members(answer.get("_meta")).get("conductor"))
        session.running = session.running or about.get("turn") is True
        session.history = begin, self._events()
        session.loading = False
        self._changed()

    async def listed(self, cursor: str | None) -> dict[str, Any]:
        """The sessions that the agent knows of this folder. Raises `UsageError`, `RequestError`,
        `ChainEnded`."""
        if not self._lists:
            raise UsageError("this agent lists no older sessions", "")
        asked = {"cwd": self.cwd} | ({"cursor": cursor} if cursor else {})
        return members(plain(await self._connection.request("session/list", asked)))

    async def load(self, id_: str) -> Session:
        """Goes on with an older session. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        if not self._loads:
            raise UsageError("this agent loads no older sessions", "begin a new one")
        known = self.sessions.get(id_)
        if known is not None and (known.running or known.loading):
            raise UsageError("a turn of this session is still running", "wait for it or cancel it")
        session = self.sessions[id_] = Session(id_, self.cwd)
        session.loading = True
        self._changed()
        begin = self._events()
        session.history = begin, begin
        self._changed()
        try:
            asked = {"sessionId": id_, "cwd": self.cwd, "mcpServers": []}
            session.began(await self._connection.request("session/load", asked))
        except ConductorError:
            self.sessions.pop(id_)
            if known is not None:
                self.sessions[id_] = known
            raise
        finally:
            session.history = begin, self._events()
            session.loading = False
            self._changed()
        return session

    def prompt(self, id_: str, blocks: list[dict[str, Any]]) -> None:
        """Begins a turn. Raises `UsageError` while another one of the session runs."""
        session = self._driven(id_)
        if session.running or session.loading:
            raise UsageError("a turn of this session is still running", "wait for it or cancel it")
        session.running, session.error = True, ("", "")
        turn = asyncio.get_running_loop().create_task(self._turn(session, blocks))
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)
        self._changed()

    async def _turn(self, session: Session, blocks: list[dict[str, Any]]) -> None:
        try:
            await self._connection.prompt(session.id, blocks)
        except ChainEnded:
            pass  # `ended` says why
        except ConductorError as error:
            session.error = error.text, error.hint
        finally:
            session.running = session.cancelling = False
            self._changed()
            if session.waiting and not self._ended[0]:
                self.prompt(session.id, session.waiting.pop(0))

    async def reply(self, id_: str, comment: str, text: str) -> None:
        """Replies to a comment. If nobody takes the reply, it becomes the next prompt. Raises
        `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._session(id_)
        blocks = await self.editing.reply(id_, comment, text)
        if not blocks:
            return
        if session.running or session.loading:
            session.waiting.append(blocks)
        else:
            self.prompt(id_, blocks)

    def cancel(self, id_: str) -> None:
        """Cancels the turn of a session; its questions are answered by that."""
        session = self._driven(id_)
        if session.running:
            session.cancelling = True
            self._connection.cancel(id_)
            self._changed()

    def answer(self, number: int, option: int) -> None:
        """Answers a question by the place of an option. Raises `UsageError`."""
        question = self.questions.get(number)
        if question is None or question.answer.done():
            raise UsageError("this question does not wait for an answer any more", "")
        if not 0 <= option < len(question.options):
            raise UsageError("the question has no such option", "choose one of those it has")
        question.answer.set_result(question.options[option])

    async def set_mode(self, id_: str, mode: str) -> None:
        """Puts a session into a mode. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._driven(id_)
        await self._connection.request("session/set_mode", {"sessionId": id_, "modeId": mode})
        session.mode(mode)
        self._changed()

    async def set_option(self, id_: str, option: str, value: str | bool) -> None:
        """Sets a configuration option. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._driven(id_)
        kind = {"type": "boolean"} if isinstance(value, bool) else {}
        answer = await self._connection.request(
            "session/set_config_option",
            {"sessionId": id_, "configId": option, **kind, "value": value},
        )
        if isinstance(answer.get("configOptions"), list):
            session.options = answer["configOptions"]
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

    # -- what the chain sends ------------------------------------------------------------------

    async def _updated(self, id_: str, update: dict[str, Any]) -> None:
        session = self.sessions.get(id_)
        if session is None:
            # The first update of a session may come before we have read the answer that names it.
            self._early = [*self._early[-_MOST_EARLY:], (id_, update)]
            return
        self._answers()
        kind = update.get("sessionUpdate")
        if kind == "turn_complete":
            self._connection.turn_ended(id_)
        elif kind == "session_closed" and not self._ended[0]:
            self.ended("the session was closed", "its server shows which are live")
        if session.updated(update):
            self._changed()

    async def _asked(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `session/request_permission`: waits until the person has answered."""
        if len(self.questions) == _MOST_QUESTIONS:
            raise RequestError(-32603, f"{_MOST_QUESTIONS} questions wait for an answer already")
        session = self.sessions.get(str(params.get("sessionId")))
        call = members(params.get("toolCall"))
        call = session.call(call) if session is not None else call
        self._asked_so_far += 1
        question = Question(self._asked_so_far, params, call)
        self.questions[question.number] = question
        self._changed()
        try:
            chosen = await question.answer
        finally:
            del self.questions[question.number]
            self._changed()
        return selected(chosen["optionId"]) if chosen in clear(question.options) else CANCELLED
