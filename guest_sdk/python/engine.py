"""The work of a proxy on lines: no input, no output, no clock, no event loop.

`Engine.receive` takes lines of `channel/1` (docs/architecture.md) and returns lines. Inside
WebAssembly there is nothing else. Behind standard input `guest_sdk.python.wire` feeds the same
engine, and in tests `guest_sdk.python.playground` does. A message without a handler passes on
undecoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from . import checked, failures
from .cancelling import NOT_WANTED, Cancelling
from .editor import EVENTS
from .errors import (
    AUTH_REQUIRED,
    METHOD_NOT_FOUND,
    REFUSED,
    Answered,
    Cancelled,
    ProxyError,
    Refused,
)
from .handling import Forwarded, Handling, Next, Rest
from .jsontext import dumps
from .lanes import Key, Waiting
from .merging import changed, edited, snapshot
from .messages import Notification, Request, Update, put, session_of, set_session
from .peers import ENVELOPE, PeerSession, opened
from .reading import Answer, Head, head, read
from .records import Record
from .sessions import SubSession
from .speaker import CANCEL, OTHER, settle
from .tasks import current
from .turns import Parting, Running

if TYPE_CHECKING:
    from .proxy import Proxy


class Engine(Cancelling):
    """One running instance of a proxy."""

    def __init__(self, proxy: Proxy[Any]) -> None:
        super().__init__(proxy)
        self.builtin = proxy.builtin(self)
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
        self._methods = frozenset({*self._handlers, CANCEL, ENVELOPE})

    # -- lines in, lines out -------------------------------------------------------------------

    def receive(self, lines: Iterable[str]) -> list[str]:
        """Takes lines, each a side byte and JSON without a newline; returns lines of that kind."""
        for line in lines:
            self._line(line[:1], line[1:])
        out, self._out = self._out, []
        return out

    def exchange(self, lines: str) -> str:
        """The same with lines that all end with a newline."""
        if lines.find("\n") == len(lines) - 1:
            self._line(lines[:1], lines[1:-1])
        else:
            for line in lines.split("\n")[:-1]:
                self._line(line[:1], line[1:])
        out, self._out = self._out, []
        if len(out) == 1:
            return out[0] + "\n"
        if not out:
            return ""
        out.append("")
        return "\n".join(out)

    def _line(self, side: str, said: str) -> None:
        if side == "c":
            self._conductor(said)
        elif side in OTHER:
            found = head(said)
            if found is not None and not found[1] and (side, found[0]) not in self._awaited:
                self._pass_answer(side, said)
            elif found is not None and self._unwanted(side, said, found):
                self._out.append(OTHER[side] + said)
                return
            else:
                self._read(side, said, found)
        loop, lanes = self.loop, self.lanes
        loop.run()
        while lanes.free:
            lanes.advance()
            loop.run()

    def _unwanted(self, side: str, said: str, found: Head) -> bool:
        """Whether a line can be seen to concern nobody here, without decoding it.

        Of repeated members the last one counts, so a second `method`, however it is spelt, leaves
        the line to the decoder.
        """
        _, method, at = found
        if method in self._methods or not method or self._of_all:
            return False
        lanes = self.lanes
        if lanes.holders or lanes.queues or (side == "s" and (self._subsessions or self.turns)):
            return False
        return said.find('"method"', at) < 0 and (
            said.find("\\u00", at) < 0
            or (said.find("\\u006", at) < 0 and said.find("\\u007", at) < 0)
        )

    def _read(self, side: str, said: str, found: Head | None) -> None:
        try:
            one = read(side, said, found)
        except (ValueError, RecursionError) as error:
            self.log("warn", f"a line that cannot be read was not passed on: {error}")
            return
        if isinstance(one, Answer):
            self._answered(side, one)
        else:
            self._message(side, said, one)

    def _message(self, side: str, said: str, message: Request | Notification) -> None:
        session = session_of(message)
        method = message.method
        if side == "s":
            if method == ENVELOPE:
                self._from_peer(message)
                return
            if session in self._subsessions:
                self._in_subsession(self._subsessions[session], message)
                return
            if session in self.turns and isinstance(message, Update):
                if not self._in_own_turn(session, message):
                    return
                said = message.render()
            elif session is not None and message.method == "session/request_permission":
                turn = self.turns.get(session)
                if isinstance(turn, Running):
                    turn.asked = True
        elif method == "session/cancel":
            self._cancel_turn(session)
        if method == CANCEL:
            self._cancel(side, said, message.params)
            return
        lane = (side, session)
        queue = None if side == "p" and method in EVENTS else self.lanes.behind(lane)
        if queue is not None:
            queue.append(Waiting(partial(self._dispatch, lane, said, message), message))
        else:
            self._dispatch(lane, said, message)

    def _dispatch(self, lane: Key, said: str, message: Request | Notification) -> None:
        """Gives a message to its handlers, or passes it on."""
        side, session = lane
        handlers = self._handlers.get(message.method, self._of_all)
        if not handlers:
            self._out.append(OTHER[side] + said)
            return
        if session is not None:
            found = self.session(session)
            set_session(message, found)
            if found.replaying > 0:
                put(message, "_replayed", True)
        handling = Handling(self, side, message)
        if side != "p" or message.method not in EVENTS:
            self.lanes.hold(lane, handling)
        if isinstance(message, Request):
            self._handlings[side, message.id] = handling
            handling.begin(self._request(handling, handlers))
        else:
            handling.begin(self._notification(handling, handlers))

    # -- handlers ------------------------------------------------------------------------------

    async def _request(self, handling: Handling, handlers: list[Any]) -> None:
        request = handling.message
        assert isinstance(request, Request)
        try:
            if self.failure is not None:
                raise self.failure
            answer = await handlers[0](request, _following(handlers, handling.forward))
            line = self._result(handling, request, answer)
        except Answered as error:
            # A login that somebody else wants, whom the proxy has asked, is none of the agent's.
            is_own = error.code == AUTH_REQUIRED and error.own
            body = self._own(request.method, error) if is_own else error.text
            line = self._error(handling, body)
        except ProxyError as error:
            line = self._error(handling, self._own(request.method, error))
            if isinstance(error, Refused):  # with few rights nobody hears the answer
                self.log("warn", f"the handler of `{request.method}` failed: {error.message}")
        except Cancelled:
            if handling.turn_over:
                line = self._turn_over(handling.side, request.id)
            else:
                line = self._error(handling, NOT_WANTED)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # no mistake may end the chain, or leave a request waiting
            line = self._error(handling, dumps(failures.answer(self, request.method, error)))
        self._out.append(line)
        self._handlings.pop((handling.side, request.id), None)
        self.lanes.release(handling)

    @staticmethod
    def _result(handling: Handling, request: Request, answer: Any) -> str:
        """The line that answers a request. Raises `TypeError` for a value that is no JSON."""
        value = answer.raw if type(answer) is Record else answer
        came = handling.came
        try:
            if came is None or value is not came[0].value:
                body = dumps(value)
            else:
                given, before = came
                if changed(before, value):
                    assert given.place is not None
                    body = edited(given.text, given.place, before, value)
                elif given.id == request.id:
                    return handling.side + given.text
                else:
                    body = given.raw()
        except (TypeError, ValueError, RecursionError):
            raise checked.unwritable(f"the answer to `{request.method}`", value) from None
        return f'{handling.side}{{"jsonrpc":"2.0","id":{request.id},"result":{body}}}'

    @staticmethod
    def _error(handling: Handling, body: str) -> str:
        return f'{handling.side}{{"jsonrpc":"2.0","id":{handling.message._id},"error":{body}}}'

    def _own(self, method: str, error: ProxyError) -> str:
        """The object of an error of the proxy's own: a refusal begins with the proxy's name."""
        body = error.body()
        if error.code in (REFUSED, AUTH_REQUIRED):
            said, data = str(error.message), error.data if isinstance(error.data, dict) else {}
            said = said if said.startswith(f"{self.name}: ") else f"{self.name}: {said}"
            body = {"code": REFUSED, "message": said, "data": {**data, "component": self.name}}
        try:
            return dumps(body)
        except (TypeError, ValueError, RecursionError):
            wrong = checked.unwritable(f"the error that answers `{method}`", body)
            told = failures.answer(self, method, wrong.with_traceback(error.__traceback__))
            return dumps(told)

    def forward(self, handling: Handling, message: Any) -> Forwarded:
        """Passes a request on; its answer.

        Under its own id, also when it is asked once more after its answer. While it is not
        answered, another one is a request of the proxy's own.
        """
        side = OTHER[handling.side]
        fresh = self._fresh() if (side, message.id) in self._awaited else None
        key = (side, fresh or message.id)
        waiter = self._awaited[key] = Forwarded(handling)
        handling.sent_as = key
        self._out.append(side + message.render(fresh))
        self.lanes.release(handling)
        return waiter

    def tell(self, handling: Handling, message: Any) -> None:
        """Passes a notification on."""
        self._out.append(OTHER[handling.side] + message.render())
        self.lanes.release(handling)

    async def _notification(self, handling: Handling, handlers: list[Any]) -> None:
        try:
            if self.failure is not None:
                raise self.failure
            await handlers[0](handling.message, _following(handlers, handling.tell))
        except Cancelled:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # fails closed: a message without its handler stays here
            failures.report(self, f"`{handling.message.method}` was not passed on", error)
        self.lanes.release(handling)

    # -- answers -------------------------------------------------------------------------------

    def _answered(self, side: str, given: Answer) -> None:
        awaited = self._awaited.pop((side, given.id), None)
        if awaited is None:
            self._pass_answer(side, given.text)
            return
        if not isinstance(awaited, Forwarded):
            settle(awaited, given)
            return
        handling = awaited.handling
        handling.sent_as = None
        lane = (side, session_of(handling.message))
        queue = self.lanes.behind(lane, handling)
        if queue is None:
            self._returned(awaited, lane, given)
        else:
            queue.append(Waiting(partial(self._returned, awaited, lane, given), None))

    def _returned(self, waiter: Forwarded, lane: Key, given: Answer) -> None:
        """The answer to a request that a handler passed on."""
        handling = waiter.handling
        if handling.done:
            return  # it was cancelled meanwhile, and has been answered
        self.lanes.hold(lane, handling)
        if not given.failed and given.place is not None:
            handling.came = (given, snapshot(given.value))
        settle(waiter, given, own=False)

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

    # -- turns and sessions of the proxy's own --------------------------------------------------

    def _in_own_turn(self, session: str, update: Update) -> bool:
        """Takes an update during or behind a turn of the proxy's own; whether it is shown."""
        turn = self.turns[session]
        shown = turn.heard(update)
        if isinstance(turn, Parting) and not turn.due:
            del self.turns[session]
        return shown

    def _from_peer(self, envelope: Request | Notification) -> None:
        """A message of a peer agent: it concerns a session of the proxy's, or nobody."""
        found = opened(envelope)
        peer, message = found if found is not None else ("", envelope)
        sub = self.peer_sessions.get((peer, session_of(message) or ""))
        if sub is not None:
            self._in_subsession(sub, message)
        elif isinstance(message, Request):
            text = f"`{message.method}` is of no session of this proxy"
            error = dumps(ProxyError(text, METHOD_NOT_FOUND).body())
            self._out.append(f's{{"jsonrpc":"2.0","id":{message.id},"error":{error}}}')

    def _in_subsession(
        self, sub: SubSession | PeerSession, message: Request | Notification
    ) -> None:
        if isinstance(message, Update):
            sub.updated(message)
        elif isinstance(message, Request):

            async def answer(request: Any, _: Next) -> Any:
                return await sub.asked(request)

            handling = Handling(self, "s", message)
            self._handlings["s", message.id] = handling
            handling.begin(self._request(handling, [answer]))


def _following(handlers: list[Any], last: Next) -> Next:
    """The `next` of the first handler."""
    following = last
    for handler in handlers[:0:-1]:
        following = Rest(handler, following)
    return following


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
