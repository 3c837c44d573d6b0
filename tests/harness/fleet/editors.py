"""Editors that hold sessions through gateways, and prompt numbering agents in them.

`Socket` is an editor that can connect by itself, over a plain WebSocket: when its link is gone, it
connects anew and loads its sessions. `Pipe` is one that starts a program, such as `conductor
connect` or `conductor agent ws://…,on_failure=restart`. A `Crowd` serves many in one thread.
"""

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, Self

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from tests.harness.fleet.ledger import Ledger, Turn
from tests.harness.process.netns import Machine
from tests.harness.process.rig import Chain
from tests.places import DEADLINE

Json = dict[str, Any]
Then = Callable[[Json], None]

_INITIALIZE: Final = {"protocolVersion": 1, "clientCapabilities": {}}
_AGAIN: Final = 0.1
"""Seconds before an editor tries once more to connect."""
_CHUNK: Final = 1 << 16


class Editor:
    """The part that all kinds of editors share.

    Attributes:
        ledger: The messages that passed.
        sessions: The ids of its sessions.
        refusals: Errors of all its requests but prompts.
        held: Whether the editor leaves permission requests without an answer.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sessions: list[str] = []
        self.refusals: list[Json] = []
        self.held = False
        self.asked = 0
        """Permission requests so far."""
        self._id = 0
        self._then: dict[int, Then] = {}

    # -- what it does ----------------------------------------------------------------------------

    def request(self, method: str, params: object, then: Then) -> None:
        """Sends a request; `then` takes the frame that answers it."""
        self._id += 1
        self._then[self._id] = then
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})

    def begin(self, sessions: int = 1) -> None:
        """Initializes, and opens so many sessions."""

        def opened(frame: Json) -> None:
            if "error" in frame:
                self.refusals.append(frame["error"])
                return
            session = frame["result"]["sessionId"]
            self.sessions.append(session)
            self.ledger.opened(session)

        def initialized(frame: Json) -> None:
            if "error" in frame:
                self.refusals.append(frame["error"])
                return
            for _ in range(sessions):
                self.request("session/new", {"cwd": "/", "mcpServers": []}, opened)

        self.request("initialize", _INITIALIZE, initialized)

    def prompt(self, session: str | None = None, **wants: object) -> Turn:
        """Prompts in a session, by default the first session; `wants`: the members for
        `numbering_agent`."""
        session = session or self.sessions[0]
        turn = self.ledger.prompted(session)
        blocks = [{"type": "text", "text": json.dumps({"n": turn.n, **wants})}]
        params = {"sessionId": session, "prompt": blocks}
        self.request("session/prompt", params, lambda frame: self.ledger.answered(turn, frame))
        return turn

    def cancel(self, session: str) -> None:
        """Cancels the turn of a session."""
        params = {"sessionId": session}
        self.send({"jsonrpc": "2.0", "method": "session/cancel", "params": params})

    # -- what it hears ---------------------------------------------------------------------------

    def heard(self, line: bytes) -> None:
        """A frame has come."""
        frame = json.loads(line)
        method = frame.get("method")
        if method == "session/update":
            params = frame["params"]
            if params["update"]["sessionUpdate"] == "agent_message_chunk":
                self.ledger.update(params["sessionId"], params["update"]["content"]["text"])
        elif method == "session/request_permission":
            self.asked += 1
            if not self.held:
                outcome = {"outcome": {"outcome": "selected", "optionId": "yes"}}
                self.send({"jsonrpc": "2.0", "id": frame["id"], "result": outcome})
        elif method is None:
            then = self._then.pop(frame["id"], None)
            if then is None:
                self.ledger.faults.append(f"an answer to nothing, or a second one: {line[:300]!r}")
            else:
                then(frame)

    # -- by kind ---------------------------------------------------------------------------------

    def send(self, frame: Json) -> None:
        """Sends a frame."""
        raise NotImplementedError

    def interests(self) -> dict[int, int]:
        """The descriptors that it waits for, and the events of each."""
        raise NotImplementedError

    def move(self, ready: Iterable[int]) -> None:
        """Moves bytes over descriptors that are ready."""
        raise NotImplementedError

    def story(self) -> str:
        """More about the editor, for a failing test."""
        return ""

    def trouble(self) -> str:
        """Why nothing more can come; empty: it can."""
        return ""

    def close(self) -> None:
        """Leaves."""


class Pipe(Editor):
    """An editor with a program, such as `conductor connect`."""

    def __init__(self, chain: Chain, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.chain = chain
        chain.on_line = self.heard

    def send(self, frame: Json) -> None:
        """Sends a frame."""
        self.chain.send(frame)

    def interests(self) -> dict[int, int]:
        """The descriptors that it waits for, and the events of each."""
        return self.chain.interests()

    def move(self, ready: Iterable[int]) -> None:
        """Moves bytes over descriptors that are ready."""
        self.chain.move(ready)

    def story(self) -> str:
        """The text that the program wrote to standard error."""
        return self.chain.story()

    def trouble(self) -> str:
        """Why nothing more can come; empty: it can."""
        return "" if self.chain.interests() else "the program has ended"

    def close(self) -> None:
        """Ends its program as editors do."""
        if self.trouble():
            return
        assert self.chain.finish() == 0, self.chain.story()


class Socket(Editor):
    """An editor that connects by itself, over a plain WebSocket, and comes back when it was cut.

    Args:
        machine: Where it runs.
        url: `ws://HOST:PORT/acp`.
        ledger: Takes what passes.
        token: What it shows as bearer, if anything.
    """

    def __init__(self, machine: Machine, url: str, ledger: Ledger, token: str = "") -> None:
        super().__init__(ledger)
        self.url = url
        self.machine = machine
        self.token = token
        self.links = 0
        """Connections that it has had."""
        self.reading = True
        self.comes_back = True
        self.last = ""
        """Why the last link ended."""
        self._socket: socket.socket | None = None
        self._wire: ClientProtocol | None = None
        self._unsent = bytearray()
        self._waiting: list[Json] = []
        self._next = 0.0
        self._closed = False

    def begin(self, sessions: int = 1) -> None:
        """Connects, initializes, and opens so many sessions."""
        self._connect()
        super().begin(sessions)

    def _connect(self) -> None:
        uri = parse_uri(self.url)
        self._next = time.monotonic() + _AGAIN
        try:
            with self.machine.inside():
                self._socket = socket.create_connection((uri.host, uri.port), DEADLINE)
        except OSError as error:
            self.last = str(error)
            return
        self._socket.setblocking(False)
        self._wire = ClientProtocol(uri, max_size=None)
        request = self._wire.connect()
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        self._wire.send_request(request)
        self._flush()

    def come_back(self) -> None:
        """Connects anew, initializes, and loads the sessions it had."""
        self._connect()
        if self._socket is None:
            return

        def initialized(frame: Json) -> None:
            if "error" in frame:
                self._refused(frame)
                return
            for session in self.sessions:
                self._load(session)

        super().request("initialize", _INITIALIZE, initialized)

    def _load(self, session: str) -> None:
        def loaded(frame: Json) -> None:
            if "error" in frame:
                self._refused(frame)
                return
            self.ledger.loads(session, False)

        params = {"sessionId": session, "cwd": "/", "mcpServers": []}
        self.request("session/load", params, loaded)

    def _refused(self, frame: Json) -> None:
        """Tries again with another connection, as a request that it needs was refused."""
        self.refusals.append(frame["error"])
        self._cut(str(frame["error"].get("message")))

    @property
    def linked(self) -> bool:
        """Whether the editor has a link, and its sessions."""
        return self._socket is not None and not self._waiting and not self._then

    # -- frames ----------------------------------------------------------------------------------

    def send(self, frame: Json) -> None:
        """Sends a frame, once there is a link."""
        if self._wire is None or self._wire.state.name != "OPEN":
            self._waiting.append(frame)
            return
        self._wire.send_text(json.dumps(frame).encode())
        self._flush()

    def _flush(self) -> None:
        assert self._wire is not None
        for data in self._wire.data_to_send():
            self._unsent += data
        with contextlib.suppress(BlockingIOError):
            while self._unsent and self._socket is not None:
                try:
                    del self._unsent[: self._socket.send(self._unsent)]
                except BlockingIOError:
                    return
                except OSError as error:
                    self._cut(str(error))

    def interests(self) -> dict[int, int]:
        """The descriptors that it waits for, and the events of each."""
        if self._socket is None:
            if self.comes_back and not self._closed and time.monotonic() >= self._next:
                self.come_back()
            if self._socket is None:
                return {}
        events = (select.POLLIN if self.reading else 0) | (select.POLLOUT if self._unsent else 0)
        return {self._socket.fileno(): events} if events else {}

    def move(self, ready: Iterable[int]) -> None:
        """Moves bytes over descriptors that are ready."""
        for _ in ready:
            if self._socket is None or self._wire is None:
                return
            self._flush()
            if self.reading:
                self._read()

    def _read(self) -> None:
        assert self._socket is not None
        assert self._wire is not None
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._cut(str(error))
            return
        if data:
            self._wire.receive_data(data)
        else:
            self._wire.receive_eof()
        wire = self._wire
        for event in wire.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY):
                self.heard(bytes(event.data))
            elif isinstance(event, Response):
                self._opened(event.status_code)
        if wire is self._wire:
            self._flush()
        if wire is self._wire and not data:  # else it was cut meanwhile
            why = wire.close_exc if wire.handshake_exc is None else ""
            self._cut(str(why or wire.handshake_exc))

    def _opened(self, status: int) -> None:
        if status != 101:
            return
        self.links += 1
        wire, waiting, self._waiting = self._wire, self._waiting, []
        for frame in waiting:
            if wire is self._wire:  # else it was cut meanwhile, and what waited is void
                self.send(frame)

    def cut(self) -> None:
        """Has the editor's network fail."""
        self._cut("its network failed")

    def _cut(self, why: str) -> None:
        self.last = why
        if self._socket is not None:
            self._socket.close()
        self._socket = self._wire = None
        self._unsent.clear()
        self._waiting.clear()
        self._then.clear()
        self._next = time.monotonic() + _AGAIN
        for session in self.sessions:
            self.ledger.lost_link(session)
            self.ledger.loads(session, True)

    def story(self) -> str:
        """Where it stands."""
        where = "linked" if self._socket is not None else f"cut: {self.last}"
        return f"\n{self.url}: {self.links} links, {where}, refused: {self.refusals[-3:]}"

    def close(self) -> None:
        """Leaves for good."""
        self._closed = True
        if self._wire is not None and self._wire.state.name == "OPEN":
            self._wire.send_close(1000)
            self._flush()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Crowd:
    """Editors that are served together.

    Args:
        ledger: What passes at all of them.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self.editors: list[Editor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            for editor in self.editors:
                editor.close()

    def pipe(self, chain: Chain) -> Pipe:
        """An editor with a program."""
        editor = Pipe(chain, self.ledger)
        self.editors.append(editor)
        return editor

    def socket(self, machine: Machine, url: str, token: str = "") -> Socket:
        """An editor over a plain WebSocket."""
        editor = Socket(machine, url, self.ledger, token)
        self.editors.append(editor)
        return editor

    def begin(self, sessions: int = 1) -> None:
        """All initialize and open so many sessions."""
        for editor in self.editors:
            editor.begin(sessions)
        self.until(
            lambda: all(len(one.sessions) == sessions for one in self.editors), "the sessions"
        )

    def serve(self, seconds: float) -> None:
        """Waits at most so many seconds for anything to move, and moves it."""
        poll, whose = select.poll(), {}
        for editor in self.editors:
            for fd, events in editor.interests().items():
                poll.register(fd, events)
                whose[fd] = editor
        for fd, _ in poll.poll(1000 * min(seconds, _AGAIN)):
            whose[fd].move([fd])

    def until(self, done: Callable[[], object], what: str) -> None:
        """Serves all until it is so. Fails after the deadline, or when nothing more can come."""
        deadline = time.monotonic() + DEADLINE
        while not done():
            why = next(filter(None, (one.trouble() for one in self.editors)), "")
            if time.monotonic() > deadline or why:
                raise AssertionError(f"waited for {what}: {why or 'too long'}{self.story()}")
            self.serve(_AGAIN)

    def answered(self) -> None:
        """Waits until each prompt has its answer, and each editor its sessions."""
        self.until(lambda: not self.ledger.open and self.linked, "the answers")

    @property
    def linked(self) -> bool:
        """Whether those that came back have loaded their sessions."""
        return all(one.linked for one in self.editors if isinstance(one, Socket))

    def story(self) -> str:
        """The state of all editors, for a failing test."""
        waits = [f"{turn.session} {turn.n}: {turn.updates} updates" for turn in self.ledger.open]
        return "\n".join(
            [
                f"\nopen: {waits[:10]}",
                f"counts: {dict(self.ledger.counts)}",
                f"faults: {self.ledger.faults[:10]}",
                *(one.story() for one in self.editors[:5]),
            ]
        )
