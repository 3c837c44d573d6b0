"""The agent: ACP's requests and notifications, each by a method named in the version's table."""

import threading
from typing import Any

import demo_acp
from demo_acp1 import Acp1
from demo_flags import Flags
from demo_json import dumps, raw_at
from demo_rpc import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    Connection,
    Request,
    RequestId,
    RpcError,
)
from demo_session import Session
from demo_turn import Client, Turn

Json = dict[str, Any]


class Agent:
    """Sessions and the requests in progress; ``handle`` is called by the reader thread only."""

    def __init__(self, connection: Connection, flags: Flags) -> None:
        """An agent that was not initialised yet: it behaves as ACP v1."""
        self._connection = connection
        self._flags = flags
        self._protocol: demo_acp.Protocol = Acp1()
        self._client = Client("null", {})
        self._sessions: dict[str, Session] = {}
        self._count = 0
        self._turns: dict[RequestId, Turn] = {}
        self._running: set[Turn] = set()
        self._late: dict[RequestId, threading.Timer] = {}
        self._idle = threading.Condition()

    def handle(self, request: Request) -> None:
        """Serve a request, or take note of a notification. Raises RpcError to refuse one."""
        name = self._protocol.methods.get(request.method)
        if name is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", {"method": request.method})
        if request.wants_answer and (request.id in self._turns or request.id in self._late):
            # Answering it by its id would answer the first one.
            error = RpcError(
                INVALID_REQUEST, "Invalid request", f"id {request.id!r} is already in use"
            )
            self._connection.outbox.send(self._connection.fail(None, error))
            return
        result = getattr(self, f"do_{name}")(request)
        if result is not None and request.wants_answer:
            self._answer(request, result)

    def close(self) -> None:
        """The client is gone: let every turn end, and wait for it."""
        with self._idle:
            for timer in self._late.values():
                timer.cancel()
            for turn in self._running:
                turn.close()
            while self._running:
                self._idle.wait()

    # -- requests; each returns the result, or None when it is answered otherwise ------------

    def do_initialize(self, request: Request) -> Json | None:
        """Negotiate the version; may be repeated."""
        self._protocol = demo_acp.select(request.params, self._flags)
        self._connection.null_ids = self._protocol.number == 1
        text = raw_at(request.text, "params") or "null"
        self._client = Client(text, self._protocol.client(request.params))
        result = self._protocol.initialized(self._flags)
        if not self._flags.slow_init or not request.wants_answer:
            return result
        timer = threading.Timer(self._flags.slow_init, self._late_answer, (request, result))
        timer.daemon = True
        self._late[request.id] = timer
        timer.start()
        return None

    def do_accept(self, request: Request) -> Json:
        """Authentication: nothing to do."""
        return {}

    def do_auth_status(self, request: Request) -> Json:
        """Nobody needs to log in."""
        return {"state": "not_required"}

    def do_new_session(self, request: Request) -> Json | None:
        """Sessions are demo-1, demo-2, …"""
        _check_setup(request)
        self._count += 1
        session = Session(f"demo-{self._count}", self._protocol)
        session.set_up(self._protocol, request.params, request.text)
        self._sessions[session.id] = session
        if self._flags.fast:
            from demo_early import greet

            session.early = greet(self._connection, session.id, session.cwd, session.mcp_servers)
        result = {"sessionId": session.id, **self._protocol.setup(self._flags, session)}
        if not self._flags.commands:
            return result
        from demo_directives import COMMANDS

        update = session.update_frame(dumps(self._protocol.commands(COMMANDS)))
        frame = self._connection.respond(request.id, dumps(result))
        self._connection.outbox.send(frame + update.encode())
        return None

    def do_load_session(self, request: Request) -> Json:
        """Replay a session of this process, then answer (v1)."""
        session = self._reopen(request)
        self._replay(session)
        return self._protocol.setup(self._flags, session)

    def do_resume_session(self, request: Request) -> Json:
        """Take a session up again; v2 replays when asked to, and tells the state."""
        session = self._reopen(request)
        replay = request.params.get("replayFrom")
        if isinstance(replay, dict) and replay.get("type") == "start":
            self._replay(session)
            complete = session.update_frame(dumps({"sessionUpdate": "replay_complete"}))
            self._connection.outbox.send(complete.encode())
        if self._protocol.number == 2:
            running = bool(self._turns_of(session))
            state = {"sessionUpdate": "state_update", "state": "running" if running else "idle"}
            self._connection.outbox.send(session.update_frame(dumps(state)).encode())
        return self._protocol.setup(self._flags, session)

    def do_list_sessions(self, request: Request) -> Json:
        """All sessions of this process, closed ones too; ``cwd`` filters."""
        cwd = request.params.get("cwd")
        chosen = [each for each in self._sessions.values() if cwd is None or each.cwd == cwd]
        return {"sessions": [{"sessionId": each.id, "cwd": each.cwd} for each in chosen]}

    def do_close_session(self, request: Request) -> Json:
        """Cancel the running turns; the session can still be loaded."""
        session = self._session(request)
        session.open = False
        self._cancel(session)
        for connection in session.early.values():
            connection.close()
        session.early = {}
        return {}

    def do_set_mode(self, request: Request) -> Json:
        """Switch the mode (v1)."""
        session = self._session(request)
        self._mode(session, request.params.get("modeId"))
        return {}

    def do_set_config_option(self, request: Request) -> Json:
        """Switch the mode (v2), the only option there is."""
        session = self._session(request)
        if request.params.get("configId") != "mode" or not self._flags.modes:
            raise RpcError(INVALID_PARAMS, "unknown configId (hint: --modes offers mode)")
        self._mode(session, request.params.get("value"))
        return self._protocol.setup(self._flags, session)

    def do_prompt(self, request: Request) -> None:
        """Start a turn, or queue it behind the session's current one."""
        session = self._session(request)
        prompt = request.params.get("prompt")
        if not isinstance(prompt, list) or not all(isinstance(block, dict) for block in prompt):
            raise RpcError(INVALID_PARAMS, "prompt must be a list of content blocks")
        if not request.wants_answer:
            return
        turn = Turn(self._connection, session, request, self._client, self)
        turn.mcp_mode = self._flags.mcp_mode
        self._turns[request.id] = turn
        with self._idle:
            self._running.add(turn)
        session.submit(turn)

    def do_cancel_session(self, request: Request) -> Json:
        """Notification: cancel every turn of the session, running or queued. Who makes a request of
        it gets an answer."""
        session = self._sessions.get(str(request.params.get("sessionId")))
        if session:
            self._cancel(session)
        return {}

    def do_cancel_request(self, request: Request) -> Json:
        """Notification: cancel one request; ids of nothing in progress are ignored."""
        request_id = request.params.get("requestId")
        if isinstance(request_id, bool) or not isinstance(request_id, int | str | None):
            return {}
        turn = self._turns.get(request_id)
        if turn:
            turn.cancel()
        timer = self._late.pop(request_id, None)
        if timer:
            timer.cancel()
            error = RpcError(CANCELLED, "Request cancelled")
            self._connection.outbox.send(self._connection.fail(request_id, error))
        return {}

    # -- inside ------------------------------------------------------------------------------

    def _answer(self, request: Request, result: Json) -> None:
        self._connection.outbox.send(self._connection.respond(request.id, dumps(result)))

    def _late_answer(self, request: Request, result: Json) -> None:
        if self._late.pop(request.id, None):  # only one of this and a cancel gets it
            self._answer(request, result)

    def _session(self, request: Request, closed: bool = False) -> Session:
        session_id = request.params.get("sessionId")
        session = self._sessions.get(session_id) if isinstance(session_id, str) else None
        if session is None or not (session.open or closed):
            raise RpcError(NOT_FOUND, "Unknown session", {"sessionId": session_id})
        return session

    def _reopen(self, request: Request) -> Session:
        _check_setup(request)
        session = self._session(request, closed=True)
        session.set_up(self._protocol, request.params, request.text)
        return session

    def _replay(self, session: Session) -> None:
        """Send the history. Turns made under the other version of ACP are left out: their
        updates have other shapes."""
        frames: list[str] = []
        for turn in list(session.history):
            if turn.protocol.number != self._protocol.number:
                continue
            frames += [session.update_frame(each) for each in self._protocol.user_updates(turn)]
            frames += turn.recorded
        if frames:
            self._connection.outbox.send("".join(frames).encode())

    def _cancel(self, session: Session) -> None:
        for turn in self._turns_of(session):
            turn.cancel()

    def _turns_of(self, session: Session) -> list[Turn]:
        with self._idle:
            return [turn for turn in self._running if turn.session is session]

    def _mode(self, session: Session, mode: object) -> None:
        modes = demo_acp.MODES if self._flags.modes else {}
        if not isinstance(mode, str) or mode not in modes:
            raise RpcError(
                INVALID_PARAMS, f"unknown mode {mode!r} (hint: --modes offers ask and code)"
            )
        session.mode = mode

    # -- what a turn reports -----------------------------------------------------------------

    def answered(self, turn: Turn) -> None:
        """The turn's request is about to be answered: its id is free again."""
        del self._turns[turn.request.id]

    def ended(self, turn: Turn) -> None:
        """The turn sent its last."""
        with self._idle:
            self._running.discard(turn)
            self._idle.notify_all()


def _check_setup(request: Request) -> None:
    if not isinstance(request.params.get("cwd"), str):
        raise RpcError(INVALID_PARAMS, f"{request.method}: cwd must be a string")
    if not isinstance(request.params.get("mcpServers", []), list | dict | None):
        raise RpcError(INVALID_PARAMS, f"{request.method}: mcpServers must be a list")
