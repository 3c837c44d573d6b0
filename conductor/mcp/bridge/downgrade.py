"""Clients that speak MCP without sessions, and a component that begins with `initialize`.

The bridge holds one session with the component for all such clients of a server, since what they
send may come over any number of connections. What the component asks of its client becomes an
`input_required` result of the request it is working at; the request that brings the answers takes
the first one's place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw

from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge import limits
from conductor.mcp.bridge.adapters import Request
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.consumers import Consumer
from conductor.mcp.bridge.jobs import MAY_ASK, Job
from conductor.mcp.bridge.json import EMPTY, members_of, read, text, write
from conductor.mcp.bridge.line import Line, OnAnswer
from conductor.mcp.bridge.ports import Port
from conductor.mcp.bridge.providers import Provider
from conductor.mcp.bridge.revisions import (
    CLIENT,
    DISCOVER,
    LATEST_SESSION,
    LISTEN,
    LOG_LEVEL,
    MODERN,
    NAMESPACE,
    NEEDS,
    SERVER,
)
from conductor.mcp.bridge.servers import Server
from conductor.mcp.bridge.subscriptions import Subscriptions

_PROGRESS: Final = "notifications/progress"
_LOG: Final = "notifications/message"
_MOST_SUSPENDED: Final = 64
"""Requests that wait for input which their clients may never bring."""


class Downgrade:
    """The session with one component, for every client of a server that has none."""

    def __init__(self, server: Server, line: Line) -> None:
        self._server = server
        self._line = line
        self._provider = Provider(server, line, self)
        self._jobs: dict[str, Job] = {}
        """By the progress token the component knows them by; the last one last."""
        self._suspended: dict[str, Job] = {}
        self._subscriptions = Subscriptions(server.label, self._subscribe)
        self._level: bytes | None = None
        self._state = "new"
        self._waiting: list[Callable[[bytes | None], None]] = []
        self._offered: dict[str, Raw] = {}
        self._able: dict[str, Any] = {}
        self.ports = 0

    @staticmethod
    def of(server: Server, line: Line) -> Downgrade:
        """The session of a server, which is begun when there is none."""
        if server.shared is None:
            server.shared = Downgrade(server, line)
        return server.shared

    def port(self, consumer: Consumer) -> Port:
        """An adapter for one more client."""
        self.ports += 1
        return Port(self, consumer)

    # -- the session with the component ----------------------------------------------------------

    def _begin(self, meta: dict[str, Raw], then: Callable[[bytes | None], None]) -> None:
        """Calls `then` when the session is there, or with the error that it cannot be."""
        if self._state == "open":
            then(None)
            return
        self._waiting.append(then)
        if self._state == "opening":
            return
        self._state = "opening"
        able: dict[str, object] = {name: {} for name in NEEDS.values()}
        info = meta.get(CLIENT) or {"name": "conductor", "version": "0"}
        params = {"protocolVersion": LATEST_SESSION, "capabilities": able, "clientInfo": info}
        self._provider.request(Call("initialize", write(params), self._initialized))

    def _initialized(self, member: bytes, body: bytes) -> None:
        error: bytes | None = None
        if member == b"result":
            self._state = "open"
            self._offered = read(body)
            self._able = {
                name: one
                for name, one in members_of(self._offered.get("capabilities")).items()
                if isinstance(one, dict)
            }
            self._provider.notify("notifications/initialized", None)
        else:
            self._state, error = "new", body
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each(error)

    def leave(self, port: Port) -> None:
        """A client is gone: what it waits for is cancelled, unless input was asked for."""
        for job in [job for job in self._jobs.values() if job.port is port]:
            self.cancel(port, job.id)
        self._subscriptions.leave(port)
        self.ports -= 1

    def close(self) -> None:
        """Ends the session."""
        self._provider.close()

    # -- from clients ----------------------------------------------------------------------------

    def request(self, port: Port, asked: Request) -> None:
        """A client asks."""
        id_, method = asked.id, asked.method
        held = read(asked.params)
        meta = read(held.get("_meta"))

        def begun(error: bytes | None) -> None:
            if not port.open:
                return  # it left while the session was begun
            if error is not None:
                port.answer(id_, b"error", error)
            elif method == DISCOVER:
                port.answer(id_, b"result", self._discovered())
            elif method == LISTEN:
                wanted = members_of(held.get("notifications"))
                self._subscriptions.listen(port, id_, wanted, self._able)
            elif "requestState" in held:
                self._resume(port, id_, held, meta)
            else:
                self._start(port, id_, method, held, meta)

        self._begin(meta, begun)

    def _discovered(self) -> bytes:
        answer: dict[str, object] = {
            "supportedVersions": [MODERN],
            "capabilities": self._able,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
        if "instructions" in self._offered:
            answer["instructions"] = self._offered["instructions"]
        if "serverInfo" in self._offered:
            answer["_meta"] = {SERVER: self._offered["serverInfo"]}
        return write(answer)

    def _start(
        self, port: Port, id_: bytes, method: str, held: dict[str, Raw], meta: dict[str, Raw]
    ) -> None:
        self._set_level(meta.get(LOG_LEVEL))
        job = Job(port, id_, method, meta)
        job.state = f"{self._server.listener}-{self._server.fresh()}"
        rest: dict[str, object] = {
            name: one for name, one in meta.items() if not name.startswith(NAMESPACE)
        }
        if job.token is not None:
            rest["progressToken"] = job.state
        params: dict[str, object] = {**held}
        params.pop("_meta", None)
        if rest:
            params["_meta"] = rest

        def answered(member: bytes, body: bytes) -> None:
            self._jobs.pop(job.state, None)
            job.outcome = (member, body)
            job.deliver()

        self._jobs[job.state] = job
        job.call = Call(method, write(params) if params else None, answered, owner_id=id_)
        self._provider.request(job.call)

    def _set_level(self, level: Raw | None) -> None:
        if level is None or bytes(level) == self._level or "logging" not in self._able:
            return
        self._level = bytes(level)
        params = write({"level": level})
        self._provider.request(Call("logging/setLevel", params, lambda member, body: None))

    def cancel(self, port: Port, id_: bytes) -> bool:
        """A client does not want an answer any more; whether it waited for one."""
        for job in self._jobs.values():
            if job.port is port and canonical_id(job.id) == id_ and job.call is not None:
                job.port = None
                self._jobs.pop(job.state)
                self._drop(job)
                return True
        return self._subscriptions.cancel(port, id_)

    def _drop(self, job: Job) -> None:
        assert job.call is not None
        self._provider.tell_cancelled(job.call, write({"requestId": Raw(job.id)}))
        self._provider.cancel(job.call, forget=True)

    # -- input -----------------------------------------------------------------------------------

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """The component asks its client for something."""
        if method == "ping":
            reply(b"result", EMPTY)
            return
        need = NEEDS.get(method)
        open_ = [job for job in self._jobs.values() if job.method in MAY_ASK]
        able = [job for job in open_ if need in job.able]
        if not able:
            if need is not None and len(open_) == 1:  # else nobody knows whose work it is for
                open_[0].lacks[need] = method
            text_ = f"`{method}`: no open request is of an MCP client that offers it"
            reply(b"error", error_object(METHOD_NOT_FOUND, text_))
            return
        job = able[-1]
        if job.rounds >= limits.ROUNDS or len(job.wanted) >= limits.INPUTS:
            text_ = f"`{method}`: the request has asked for too much input already"
            reply(b"error", error_object(METHOD_NOT_FOUND, text_))
            return
        job.wanted[f"input-{self._server.fresh()}"] = (reply, method, params)
        self._want(job)

    def _want(self, job: Job) -> None:
        """Answers the client that input is required."""
        port = job.port
        if port is None:
            return  # it has been told, and will ask again when it comes back
        self._suspended[job.state] = job
        if len(self._suspended) > _MOST_SUSPENDED:
            oldest = self._suspended.pop(next(iter(self._suspended)))
            if self._jobs.pop(oldest.state, None) is not None:
                self._drop(oldest)
        job.ask(port)

    def _resume(self, port: Port, id_: bytes, held: dict[str, Raw], meta: dict[str, Raw]) -> None:
        """A client brings input: from now on it waits for the outcome."""
        job = self._suspended.pop(text(held["requestState"]) or "", None)
        if job is None:
            error = error_object(INVALID_PARAMS, "no request of this `requestState` is open")
            port.answer(id_, b"error", error)
            return
        job.resume(port, id_, held, meta)
        if job.outcome is not None:
            job.deliver()
        elif job.wanted:
            self._want(job)

    def withdrawn(self, reply: OnAnswer) -> None:
        """The component does not want an answer any more."""
        for job in self._jobs.values():
            job.withdrawn(reply)

    # -- notifications ---------------------------------------------------------------------------

    def _subscribe(self, method: str, uri: str) -> None:
        self._provider.request(Call(method, write({"uri": uri}), lambda member, body: None))

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """The component tells its client something."""
        if method == _PROGRESS:
            held = read(params)
            job = self._jobs.get(text(held.get("progressToken")) or "")
            if job is not None and job.port is not None and job.token is not None:
                job.port.tell(method, write({**held, "progressToken": job.token}), job.id)
        elif method == _LOG:
            for job in [job for job in self._jobs.values() if job.logs and job.port][-1:]:
                assert job.port is not None
                job.port.tell(method, params, job.id)
        else:
            self._subscriptions.told(method, params)

    def gone(self) -> None:
        """The component closed the connection: the next request opens another."""
        self._subscriptions.end()
        self._level = None
        self._provider.close()
        self._provider = Provider(self._server, self._line, self)
        self._state = "new"
