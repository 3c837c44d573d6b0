"""A chat: the client of a person, whose page may come and go. What it holds outlives every page.

It has the sessions with the agent, the turns that run in them, and the questions of the chain that
wait for the person. A question is answered by the person alone, or by the end of its turn.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from conductor.client.connection import PERMISSION, ChainEnded, Connection, Handler
from conductor.client.handlers import capabilities
from conductor.errors import ConductorError, RequestError, UsageError
from conductor.transports.memory import Channel

_MOST: Final = 1024 * 1024
"""Bytes of one thing that the agent says of a session, or asks: more is not kept."""
_MOST_CALLS: Final = 100
"""Tool calls of a session that are remembered, for questions that name no more than their id."""
_MOST_QUESTIONS: Final = 100
_MOST_EARLY: Final = 20
_TOO_MUCH: Final = {"error": "the agent sent too much to show here"}
_CALL: Final = ("title", "kind", "content", "locations", "rawInput")
"""What a person should see of a tool call before allowing it."""

_encode: Final = msgspec.json.Encoder().encode


class Session:
    """A session with the agent, as far as a page shows it."""

    def __init__(self, id_: str, cwd: str) -> None:
        self.id = id_
        self.cwd = cwd
        self.title = ""
        self.modes: dict[str, Any] | None = None
        self.options: list[Any] = []
        """The configuration options of the session."""
        self.commands: list[Any] = []
        self.usage: dict[str, Any] | None = None
        self.running = False
        self.cancelling = False
        self.loading = False
        self.history: tuple[int, int] | None = None
        """The events of the trace between which the agent told an older session again."""
        self.error = ("", "")
        """Why the last turn failed, and a hint."""
        self._calls: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def state(self) -> dict[str, Any]:
        """All that a page shows of it."""
        names = (
            *("id", "cwd", "title", "modes", "options", "commands", "usage"),
            *("running", "cancelling", "loading", "history", "error"),
        )
        return {name: _plain(getattr(self, name)) for name in names}

    def began(self, answer: Mapping[str, Any]) -> None:
        """Takes the answer to `session/new` or `session/load`."""
        modes, options = answer.get("modes"), answer.get("configOptions")
        self.modes = modes if isinstance(modes, dict) else None
        self.options = options if isinstance(options, list) else []

    def updated(self, update: dict[str, Any]) -> bool:
        """Takes an update; whether a page should know."""
        kind = update.get("sessionUpdate")
        if kind in ("tool_call", "tool_call_update"):
            self._called(update)
            return False
        if kind == "current_mode_update":
            self.mode(update.get("currentModeId"))
        elif kind == "config_option_update" and isinstance(update.get("configOptions"), list):
            self.options = update["configOptions"]
        elif kind == "available_commands_update":
            commands = update.get("availableCommands")
            self.commands = commands if isinstance(commands, list) else []
        elif kind == "session_info_update":
            title = update.get("title", self.title)
            self.title = title if isinstance(title, str) else ""
        elif kind == "usage_update":
            self.usage = {name: update.get(name) for name in ("used", "size", "cost")}
        else:
            return False
        return True

    def mode(self, mode: object) -> None:
        """The session is in another mode."""
        if self.modes is not None:
            self.modes = {**self.modes, "currentModeId": mode}

    def _called(self, update: dict[str, Any]) -> None:
        id_ = update.get("toolCallId")
        if not isinstance(id_, str):
            return
        known = self._calls.pop(id_, {})
        new = {name: update[name] for name in _CALL if update.get(name) is not None}
        self._calls[id_] = {**known, **new}
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)

    def call(self, update: Mapping[str, Any]) -> dict[str, Any]:
        """A tool call with what earlier updates said of it."""
        known = self._calls.get(str(update.get("toolCallId")), {})
        return {**known, **{name: update[name] for name in _CALL if update.get(name) is not None}}


class Question:
    """A question of the chain for permission, which waits for the person."""

    def __init__(self, number: int, params: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        self.number = number
        self.session = str(params.get("sessionId"))
        offered = params.get("options")
        self.options = [
            one
            for one in (offered if isinstance(offered, list) else [])
            if isinstance(one, dict) and isinstance(one.get("optionId"), str)
        ]
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The id of the option that the person chose."""
        self.state = {
            "number": number,
            "session": self.session,
            "call": _plain(dict(call)),
            "options": [
                _plain({"name": one.get("name"), "kind": one.get("kind")}) for one in self.options
            ],
        }


class Chat:
    """The client's end of one chain, for one person.

    Args:
        cwd: The folder in which the sessions work.
        handlers: By method: what else is served to the chain, such as files.
        events: How many events the trace of the chain has so far.
        answers: Called with each part of an answer.
    """

    def __init__(
        self,
        cwd: str,
        handlers: Mapping[str, Handler],
        *,
        events: Callable[[], int],
        answers: Callable[[], None],
    ) -> None:
        self.cwd = cwd
        self._events = events
        self._answers = answers
        served = {**handlers, PERMISSION: self._asked}
        self._capabilities = capabilities(served)
        self._connection = Connection("chat", served, on_update=self._updated)
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
                answer = await self._connection.initialize(self._capabilities)
                info, can = answer.get("agentInfo"), answer.get("agentCapabilities")
                self._agent = info if isinstance(info, dict) else {}
                self._can = can if isinstance(can, dict) else {}
                await self.new_session()
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
        """The chain has ended: nothing more can be said."""
        self._ended = text, hint
        for session in self.sessions.values():
            session.running = session.cancelling = session.loading = False
        self._changed()

    def _changed(self) -> None:
        self.version += 1

    def state(self) -> dict[str, Any]:
        """All that a page shows beside the trace."""
        prompts = _members(self._can.get("promptCapabilities"))
        return {
            "agent": _plain(self._agent),
            "cwd": self.cwd,
            "can": {
                "image": prompts.get("image") is True,
                "load": self._loads,
                "list": self._lists,
            },
            "sessions": [session.state() for session in self.sessions.values()],
            "questions": [question.state for question in self.questions.values()],
            "ended": self._ended,
        }

    @property
    def _loads(self) -> bool:
        return self._can.get("loadSession") is True

    @property
    def _lists(self) -> bool:
        return isinstance(_members(self._can.get("sessionCapabilities")).get("list"), dict)

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

    async def listed(self, cursor: str | None) -> dict[str, Any]:
        """The sessions that the agent knows of this folder. Raises `UsageError`, `RequestError`,
        `ChainEnded`."""
        if not self._lists:
            raise UsageError("this agent lists no older sessions", "")
        asked = {"cwd": self.cwd} | ({"cursor": cursor} if cursor else {})
        return _members(_plain(await self._connection.request("session/list", asked)))

    async def load(self, id_: str) -> Session:
        """Goes on with an older session. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        if not self._loads:
            raise UsageError("this agent loads no older sessions", "begin a new one")
        known = self.sessions.get(id_)
        if known is not None and (known.running or known.loading):
            raise UsageError("a turn of this session is still running", "wait for it or cancel it")
        session = self.sessions[id_] = Session(id_, self.cwd)
        session.loading = True
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
            session.loading = False
            session.history = begin, self._events()
            self._changed()
        return session

    def prompt(self, id_: str, blocks: list[dict[str, Any]]) -> None:
        """Begins a turn. Raises `UsageError` while another one of the session runs."""
        session = self._session(id_)
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

    def cancel(self, id_: str) -> None:
        """Cancels the turn of a session; its questions are answered by that."""
        session = self._session(id_)
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
        question.answer.set_result(question.options[option]["optionId"])

    async def set_mode(self, id_: str, mode: str) -> None:
        """Puts a session into a mode. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._session(id_)
        await self._connection.request("session/set_mode", {"sessionId": id_, "modeId": mode})
        session.mode(mode)
        self._changed()

    async def set_option(self, id_: str, option: str, value: str | bool) -> None:
        """Sets a configuration option. Raises `UsageError`, `RequestError`, `ChainEnded`."""
        session = self._session(id_)
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

    # -- what the chain sends ------------------------------------------------------------------

    async def _updated(self, id_: str, update: dict[str, Any]) -> None:
        session = self.sessions.get(id_)
        if session is None:
            # The first update of a session may come before we have read the answer that names it.
            self._early = [*self._early[-_MOST_EARLY:], (id_, update)]
            return
        self._answers()
        if session.updated(update):
            self._changed()

    async def _asked(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `session/request_permission`: waits until the person has answered."""
        if len(self.questions) == _MOST_QUESTIONS:
            raise RequestError(-32603, f"{_MOST_QUESTIONS} questions wait for an answer already")
        session = self.sessions.get(str(params.get("sessionId")))
        call = _members(params.get("toolCall"))
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
        return {"outcome": {"outcome": "selected", "optionId": chosen}}


def _members(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: Any) -> Any:
    """A value of strangers that every page can read: bounded, and without lone surrogates."""
    try:
        return value if len(_encode(value)) <= _MOST else _TOO_MUCH
    except (UnicodeEncodeError, RecursionError):
        pass
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return msgspec.json.decode(text) if len(text) <= _MOST else _TOO_MUCH
    except (ValueError, RecursionError):
        return _TOO_MUCH
