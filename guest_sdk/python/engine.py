"""What a proxy does with the lines it is given: no input, no output, no clock, no event loop.

`Engine.receive` takes lines of `channel/1` (docs/channel-abi.md) and returns lines. Inside
WebAssembly that is all there is; behind standard input and in tests the same engine is fed by
`guest_sdk.python.wire` and `guest_sdk.python.playground`. What the proxy has no handler for is
passed on without being decoded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from . import failures
from .conducted import Conducted
from .errors import CANCELLED, Answered, Cancelled, ProxyError, Refused
from .handling import Handling, Key, Waiting
from .jsontext import Member, dumps, merged, snapshot
from .messages import Message, Notification, Request, Update, plain, put
from .reading import answer_head, head, read
from .sessions import SubSession
from .speaker import CANCEL, OTHER, settle
from .tasks import Waiter, current

if TYPE_CHECKING:
    from .proxy import Proxy

_TURN_OVER: Final = '{"stopReason":"cancelled"}'

Next = Callable[[Any], Awaitable[Any]]
"""Passes a message on to the next handler, or out of the proxy; a request's answer."""


class Engine(Conducted):
    """One running instance of a proxy."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(proxy)
        self.builtin = proxy.builtin(self)
        self._returning: dict[tuple[str, str], Waiter[Any]] = {}
        self._handlings: dict[tuple[str, str], Handling] = {}
        self._of_all = proxy.handlers.get("*", [])
        last = proxy.innermost(self)
        self._handlers = {
            method: [
                *([self.builtin[method]] if method in self.builtin else ()),
                *proxy.handlers.get(method, ()),
                *self._of_all,
                *([last[method]] if method in last else ()),
            ]
            for method in {*self.builtin, *proxy.handlers, *last} - {"*"}
        }
        self._methods = frozenset({*self._handlers, CANCEL})

    # -- lines in, lines out -------------------------------------------------------------------

    def receive(self, lines: Iterable[str]) -> list[str]:
        """Takes lines, each a side byte and JSON without a newline; returns lines of that kind."""
        for line in lines:
            side, said = line[:1], line[1:]
            if side == "c":
                self._conductor(said)
            elif side not in OTHER:
                continue
            elif self._unwanted(side, said):
                self._out.append(OTHER[side] + said)
                continue
            else:
                self._read(side, said)
            self._run()
        out, self._out = self._out, []
        return out

    def _run(self) -> None:
        self._loop.run()
        while self.lanes.free:
            self.lanes.advance()
            self._loop.run()

    def _unwanted(self, side: str, said: str) -> bool:
        """Whether a line can be seen to concern nobody here, without decoding it.

        Of repeated members the last one counts, so a second `method`, however it is spelt, leaves
        the line to the decoder.
        """
        if self._of_all or self.lanes or (side == "s" and (self._subsessions or self.turns)):
            return False
        found = head(said)
        if found is not None:
            after = found.end()
            return (
                found[2] not in self._methods
                and said.find('"method"', after) < 0
                and said.find("\\u006", after) < 0
                and said.find("\\u007", after) < 0
            )
        answer = answer_head(said)
        return answer is not None and (side, answer[1]) not in self._awaited

    def _read(self, side: str, said: str) -> None:
        try:
            message = read(side, said)
        except (ValueError, RecursionError) as error:
            self.log("warn", f"a line that cannot be read was not passed on: {error}")
            return
        if isinstance(message, dict):
            self._answered(side, said, message)
        else:
            self._message(side, said, message)

    def _message(self, side: str, said: str, message: Request | Notification) -> None:
        params = message.params
        session = params.get("sessionId") if isinstance(params, dict) else None
        session = session if isinstance(session, str) else None
        if side == "s" and session in self._subsessions:
            self._in_subsession(self._subsessions[session], message)
            return
        if side == "s" and session in self.turns and isinstance(message, Update):
            shown = self.turns[session].heard(message)
            if not shown:
                return
        if message.method == CANCEL:
            self._cancel(side, said, params)
            return
        if message.method == "session/cancel" and side == "p":
            self._cancel_turn(session)
        queue = self.lanes.behind((side, session))
        if queue is not None:
            queue.append(Waiting(partial(self._dispatch, side, session, said, message), message))
        else:
            self._dispatch(side, session, said, message)

    def _dispatch(
        self, side: str, session: str | None, said: str, message: Request | Notification
    ) -> None:
        """Gives a message to its handlers, or passes it on."""
        handlers = self._handlers.get(message.method, self._of_all)
        if not handlers:
            self._out.append(OTHER[side] + said)
            return
        if session is not None:
            found = self.session(session)
            put(message, "_session", found)
            if isinstance(message, Update):
                put(message, "_replayed", found.replaying > 0)
        handling = Handling(self, side, message)
        self.lanes.hold((side, session), handling)
        if isinstance(message, Request):
            self._handlings[side, message.id] = handling
            work = self._request(handling, handlers)
        else:
            work = self._notification(handling, handlers)
        handling.task = self._loop.start(work, handling)

    # -- handlers ------------------------------------------------------------------------------

    async def _request(self, handling: Handling, handlers: list[Any]) -> None:
        request = handling.message
        assert isinstance(request, Request)
        try:
            if self.failure is not None:
                raise self.failure
            answer = await _chain(handlers, lambda m: self._forward(handling, m))(request)
            member, body = "result", self._result(handling, plain(answer))
        except Answered as error:
            member, body = "error", error.text
        except ProxyError as error:
            member, body = "error", dumps(error.body())
            if isinstance(error, Refused):  # under a narrow profile nobody hears the answer
                self.log("warn", f"the handler of `{request.method}` failed: {error.message}")
        except Cancelled:
            if handling.turn_over:
                member, body = "result", _TURN_OVER
            else:
                member, body = "error", f'{{"code":{CANCELLED},"message":"Request cancelled"}}'
        except (Exception, SystemExit) as error:  # no mistake may end the chain
            member, body = "error", dumps(failures.answer(self, request.method, error))
        self._out.append(f'{handling.side}{{"jsonrpc":"2.0","id":{request.id},"{member}":{body}}}')
        self._handlings.pop((handling.side, request.id), None)
        self.lanes.release(handling)

    @staticmethod
    def _result(handling: Handling, answer: Any) -> str:
        if handling.result is not None and answer is handling.result[1].value:
            return merged(*handling.result, answer)
        return dumps(answer)

    async def _forward(self, handling: Handling, message: Any) -> Any:
        """Passes a request on; its result. Raises `Answered`."""
        side = OTHER[handling.side]
        fresh = self._fresh() if handling.forwarded else None
        key = (side, fresh or message.id)
        waiter: Waiter[Any] = Waiter()
        self._awaited[key] = handling
        self._returning[key] = waiter
        handling.forwarded = True
        handling.sent_as = key
        self._out.append(side + message.render(fresh))
        self.lanes.release(handling)
        return await waiter

    async def _notification(self, handling: Handling, handlers: list[Any]) -> None:
        async def forward(message: Any) -> None:
            self._out.append(OTHER[handling.side] + message.render())
            self.lanes.release(handling)

        try:
            if self.failure is not None:
                raise self.failure
            await _chain(handlers, forward)(handling.message)
        except Cancelled:
            pass
        except (Exception, SystemExit) as error:  # fails closed: what was not handled stays here
            failures.report(self, f"`{handling.message.method}` was not passed on", error)
        self.lanes.release(handling)

    # -- answers -------------------------------------------------------------------------------

    def _answered(self, side: str, said: str, held: dict[str, Member]) -> None:
        id_ = held.get("id")
        key = (side, said[id_.start : id_.end] if id_ is not None else "")
        awaited = self._awaited.get(key)
        if awaited is None:
            self._pass_answer(side, said)
        elif isinstance(awaited, Waiter):
            del self._awaited[key]
            settle(awaited, said, held)
        else:
            del self._awaited[key]
            awaited.sent_as = None
            lane = (side, _session_of(awaited.message))
            queue = self.lanes.behind(lane, awaited)
            go = partial(self._returned, self._returning.pop(key), awaited, lane, said, held)
            if queue is not None:
                queue.append(Waiting(go, None))
            else:
                go()

    def _returned(
        self,
        waiter: Waiter[Any],
        handling: Handling,
        lane: Key,
        said: str,
        held: dict[str, Member],
    ) -> None:
        """The answer to a request that a handler passed on."""
        if handling.task is None or handling.task.done:
            return  # it was cancelled meanwhile, and has been answered
        self.lanes.hold(lane, handling)
        result = held.get("result")
        if "error" not in held and result is not None:
            handling.result = (said, result, snapshot(result.value))
        settle(waiter, said, held)

    def _pass_answer(self, side: str, said: str) -> None:
        """Passes on an answer nobody here waits for.

        It ends a turn, so it does not overtake updates that are held. The client's answers are
        never held: what a handler waits for may depend on them.
        """
        queue = self.lanes.held_from(side) if side == "s" else None
        if queue is not None:
            queue.append(Waiting(partial(self._pass_answer, side, said), None))
        else:
            self._out.append(OTHER[side] + said)

    # -- cancellation --------------------------------------------------------------------------

    def _cancel(self, side: str, said: str, params: dict[str, Any]) -> None:
        id_ = dumps(params.get("requestId"))
        handling = self._handlings.get((side, id_))
        if handling is None:
            if self.lanes.take(side, id_) is not None:
                error = f'{{"code":{CANCELLED},"message":"Request cancelled"}}'
                self._out.append(f'{side}{{"jsonrpc":"2.0","id":{id_},"error":{error}}}')
            else:
                self._out.append(OTHER[side] + said)
            return
        put(handling.message, "cancelled", True)
        if handling.sent_as is not None:
            self._send_cancel(*handling.sent_as)
        else:
            self._interrupt(handling)

    def _cancel_turn(self, session: str | None) -> None:
        """Turns that have not reached the agent yet end here."""
        for waiting in self.lanes.requests(("p", session), "session/prompt"):
            self.lanes.take("p", waiting.id)
            self._out.append(f'p{{"jsonrpc":"2.0","id":{waiting.id},"result":{_TURN_OVER}}}')
        for handling in list(self._handlings.values()):
            message = handling.message
            if (
                handling.side == "p"
                and message.method == "session/prompt"
                and message.params.get("sessionId") == session
            ):
                put(message, "cancelled", True)
                if handling.sent_as is None:
                    handling.turn_over = True
                    self._interrupt(handling)

    def _interrupt(self, handling: Handling) -> None:
        for key in handling.own & self._awaited.keys():
            self._send_cancel(*key)
        if handling.task is not None:
            handling.task.cancel()

    def _in_subsession(self, sub: SubSession, message: Request | Notification) -> None:
        if isinstance(message, Update):
            sub.updated(message)
        elif isinstance(message, Request):

            async def answer(request: Any, _: Next) -> Any:
                return await sub.asked(request)

            handling = Handling(self, "s", message)
            self._handlings["s", message.id] = handling
            handling.task = self._loop.start(self._request(handling, [answer]), handling)


def _chain(handlers: list[Any], last: Next) -> Next:
    """The handlers as one, each with the next as its `next`."""
    call = last
    for handler in reversed(handlers):
        call = _link(handler, call)
    return call


def _link(handler: Any, following: Next) -> Next:
    return lambda message: handler(message, following)


def _session_of(message: Message) -> str | None:
    session = message.params.get("sessionId") if isinstance(message.params, dict) else None
    return session if isinstance(session, str) else None


def engine() -> Engine:
    """The engine of the handler that runs. Raises `RuntimeError` outside of handlers."""
    task = current()
    if task is None:
        raise RuntimeError(
            "services, sessions and messages of a proxy are there inside its handlers only "
            "(or in functions they call)"
        )
    found: Engine = task.owner
    return found
