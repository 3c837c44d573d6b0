"""A server of chains under test, and clients that reach it over HTTP and WebSockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from multidict import CIMultiDict
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from conductor.link import Link
from tests.harness.process.command import conductor
from tests.harness.process.ports import Ports
from tests.places import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from websockets.sync.client import ClientConnection

    from tests.harness.process.rig import Chain, Rig

Json = dict[str, Any]
INITIALIZE: Final = {"protocolVersion": 1, "clientCapabilities": {}}
_SERVING: Final = "serving "


class Served:
    """A conductor that listens, and its address."""

    def __init__(self, process: Chain) -> None:
        self.process = process
        self._clients: list[_Client] = []
        process.until(self._is_ready, "the address of the server")
        line = next(one for one in process.stderr.splitlines() if one.startswith(_SERVING))
        self.addresses = line.removeprefix(_SERVING).split()

    def _is_ready(self) -> bool:
        *whole, _ = self.process.stderr.split("\n")
        return any(line.startswith(_SERVING) for line in whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()

    def end(self) -> None:
        """Ends the server, as a service manager does."""
        self.process.process.send_signal(signal.SIGTERM)
        assert self.process.exit_code() == 0, self.process.story()

    @property
    def address(self) -> str:
        """The first address."""
        return self.addresses[0]

    @property
    def port(self) -> int:
        """The port of the server."""
        port = urlsplit(self.address).port
        assert port is not None
        return port

    def socket(self, path: str = "", **options: Any) -> Socket:
        """A client over a WebSocket."""
        client = Socket(f"ws://127.0.0.1:{self.port}{path or '/acp'}", **options)
        self._clients.append(client)
        return client

    def linked(self, **headers: str) -> Linked:
        """A client that comes back after a cut."""
        client = Linked(f"ws://127.0.0.1:{self.port}/acp", headers)
        self._clients.append(client)
        return client

    def http(self, path: str = "/acp", **headers: str) -> Http:
        """A client over HTTP."""
        client = Http(self.port, path, headers)
        self._clients.append(client)
        return client

    def lines(self) -> Lines:
        """A client over a socket with lines."""
        client = Lines(self.address)
        self._clients.append(client)
        return client


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port of this machine for a server that a test starts twice: nobody else gets it between."""
    with contextlib.closing(Ports()) as ports:
        yield ports.new("127.0.0.1")


def served(rig: Rig, *arguments: str, **env: str) -> Served:
    """Starts `conductor ARGUMENTS…`, and waits until it listens."""
    return Served(rig.run(*arguments, **env))


class _Client:
    """The part that all clients share: one message at a time, answers by id."""

    def __init__(self) -> None:
        self.frames: list[Json] = []
        self._id = 0

    def send(self, frame: Json) -> None:
        """Sends a frame."""
        raise NotImplementedError

    def receive(self) -> Json:
        """The next frame."""
        raise NotImplementedError

    def close(self) -> None:
        """Leaves."""
        raise NotImplementedError

    def start(self, method: str, params: object) -> int:
        """Sends a request; its id."""
        self._id += 1
        self.send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        return self._id

    def answer(self, id_: int) -> Json:
        """Waits for the answer to a request."""
        found = [one for one in self.frames if one.get("id") == id_ and "method" not in one]
        while not found:
            frame = self.receive()
            self.frames.append(frame)
            if frame.get("id") == id_ and "method" not in frame:
                found.append(frame)
        return found[0]

    def request(self, method: str, params: object) -> Json:
        """Sends a request, and waits for its answer."""
        return self.answer(self.start(method, params))

    def initialize(self, **more: object) -> Json:
        """Initializes."""
        answer = self.request("initialize", {**INITIALIZE, **more})
        assert "result" in answer, answer
        return answer

    def new_session(self) -> str:
        """Opens a session; its id."""
        answer = self.request("session/new", {"cwd": "/", "mcpServers": []})
        assert "result" in answer, answer
        return str(answer["result"]["sessionId"])

    def start_prompt(self, session: str, text: str) -> int:
        """Sends a prompt; its id."""
        prompt = [{"type": "text", "text": text}]
        return self.start("session/prompt", {"sessionId": session, "prompt": prompt})

    def prompt(self, session: str, text: str) -> str:
        """Sends a prompt; the text of the turn."""
        before = len(self.frames)
        answer = self.answer(self.start_prompt(session, text))
        assert "result" in answer, answer
        updates = [one["params"] for one in self.frames[before:] if "params" in one]
        return "".join(
            one["update"]["content"].get("text", "")
            for one in updates
            if one.get("sessionId") == session
            and one.get("update", {}).get("sessionUpdate") == "agent_message_chunk"
        )

    def begin(self) -> str:
        """`initialize` and `session/new`; the session's id."""
        self.initialize()
        return self.new_session()


class Socket(_Client):
    """A client over a WebSocket."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        subprotocols: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        opening = connect(
            url,
            additional_headers=headers,
            subprotocols=subprotocols,  # type: ignore[arg-type]
            compression=None,
            max_size=None,
            proxy=None,
            open_timeout=DEADLINE,
            **options,
        )
        self.socket: ClientConnection = opening.__enter__()
        assert self.socket.response is not None
        self.connection = self.socket.response.headers.get("Acp-Connection-Id", "")

    def send(self, frame: Json) -> None:
        """Sends a frame."""
        self.socket.send(json.dumps(frame))

    def receive(self) -> Json:
        """The next frame."""
        frame: Json = json.loads(self.socket.recv(DEADLINE))
        return frame

    def close(self) -> None:
        """Leaves."""
        self.socket.close()

    def cut(self) -> None:
        """The network fails."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Linked(_Client):
    """A client that numbers its frames, and comes back after a cut (`conductor.link.1`)."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._url = url
        self._headers = headers
        self._came: list[Json] = []
        self._socket = Socket(url, headers, ["acp", "conductor.link.1"])
        assert self._socket.socket.subprotocol == "conductor.link.1"
        self.connection = self._socket.connection
        self.link = Link(self.connection)
        self.link.linked()
        self._write()

    def _write(self) -> None:
        while (packet := self.link.take()) is not None:
            self._socket.socket.send(packet.decode())

    def send(self, frame: Json) -> None:
        """Sends a frame."""
        self.link.send(json.dumps(frame).encode())
        self._write()

    def receive(self) -> Json:
        """The next frame."""
        while not self._came:
            packet = self._socket.socket.recv(DEADLINE, decode=False)
            self._came += map(json.loads, self.link.received(packet))
            self._write()
        return self._came.pop(0)

    def cut(self) -> None:
        """The network fails."""
        self._socket.cut()
        self.link.cut()

    def send_packet(self, packet: str) -> None:
        """Sends a packet of which the link knows nothing."""
        self._socket.socket.send(packet)

    def closing(self) -> tuple[int, str]:
        """Waits until the server closes the WebSocket: its code, and why."""
        try:
            while True:
                self._socket.socket.recv(DEADLINE)
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")

    def back(self, **headers: str) -> None:
        """The network is there again."""
        self._headers = {**self._headers, **headers}
        marked = {**self._headers, "Acp-Connection-Id": self.connection}
        self._socket = Socket(self._url, marked, ["conductor.link.1"])
        self.link.linked()
        self._write()

    def close(self) -> None:
        """Leaves."""
        self._socket.close()


class Http(_Client):
    """A client over HTTP; it reads the connection's stream, and one of a session."""

    def __init__(self, port: int, path: str, headers: Mapping[str, str]) -> None:
        super().__init__()
        self._port = port
        self._path = path
        self.headers = dict(headers)
        self.connection = ""
        self.streams: list[Stream] = []
        self._came = threading.Event()

    def ask(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        """Sends a request; the result is the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        asking = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE)
        asking.request(method, self._path, body, {**self.headers, **named})
        answer = asking.getresponse()
        found = Answer(answer.status, CIMultiDict(answer.getheaders()), answer.read())
        asking.close()
        return found

    def post(self, frame: object, **headers: str) -> Answer:
        """Posts a frame."""
        body = json.dumps(frame).encode()
        marked = {"Acp_Connection_Id": self.connection} if self.connection else {}
        return self.ask("POST", body, Content_Type="application/json", **marked, **headers)

    def send(self, frame: Json) -> None:
        """Posts a frame; the answer to `initialize` comes at once."""
        answer = self.post(frame)
        if frame.get("method") == "initialize":
            assert answer.status == 200, answer
            self.frames.append(json.loads(answer.body))
            self.connection = answer.headers.get("Acp-Connection-Id", "")
            if self.connection:
                self.stream()
        else:
            assert answer.status == 202, answer

    def stream(self, session: str | None = None, **headers: str) -> Stream:
        """Reads a stream."""
        stream = Stream(
            self._port, self._path, self.headers, self.connection, session, headers, self._came
        )
        self.streams.append(stream)
        return stream

    def receive(self) -> Json:
        """The next frame of any stream."""
        while True:
            self._came.clear()
            for one in self.streams:
                frame = one.take()
                if frame is not None:
                    return frame
            assert self._came.wait(DEADLINE), "nothing comes"

    def close(self) -> None:
        """Reads nothing more."""
        for stream in self.streams:
            stream.close()

    def new_session(self) -> str:
        """Opens a session and reads its stream; its id."""
        session = super().new_session()
        self.stream(session)
        return session


class Answer:
    """The answer to one HTTP request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"{self.status} {self.headers} {self.body[:500]!r}"


class Stream:
    """A stream of events that is read."""

    def __init__(
        self,
        port: int,
        path: str,
        own: Mapping[str, str],
        connection: str,
        session: str | None,
        headers: Mapping[str, str],
        came: threading.Event,
    ) -> None:
        """`came` is set when something has come."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        marked = {"Acp-Session-Id": session} if session is not None else {}
        self._asking = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
        whole = {
            "Accept": "text/event-stream",
            "Acp-Connection-Id": connection,
            **own,
            **marked,
            **named,
        }
        self._asking.request("GET", path, headers=whole)
        self.answer = self._asking.getresponse()
        self.last = 0
        """The number of the last event."""
        self._events: queue.Queue[tuple[int, Json] | None] = queue.Queue()
        self._came = came
        if self.answer.status == 200:
            threading.Thread(target=self._read, daemon=True).start()

    def receive(self) -> Json:
        """The next event's frame."""
        event = self._events.get(timeout=DEADLINE)
        if event is None:
            raise EOFError("the stream has ended")
        self.last, frame = event
        return frame

    def take(self) -> Json | None:
        """The next event's frame, if it is there."""
        return None if self._events.empty() else self.receive()

    def _read(self) -> None:
        """Reads events, in a thread."""
        rest = b""
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException, AttributeError):
            while more := self.answer.read1(65536):
                *events, rest = (rest + more).split(b"\n\n")
                for event in events:
                    self._heard(event)
        self._events.put(None)
        self._came.set()

    def _heard(self, event: bytes) -> None:
        fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        if b"data" in fields:
            self._events.put((int(fields[b"id"]), json.loads(fields[b"data"])))
            self._came.set()

    def close(self) -> None:
        """Reads no more."""
        with contextlib.suppress(OSError, AttributeError):
            self._asking.sock.shutdown(socket.SHUT_RDWR)
        self._asking.close()


class Lines(_Client):
    """A client over a socket with lines."""

    def __init__(self, address: str) -> None:
        super().__init__()
        if address.startswith("unix:"):
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(address.removeprefix("unix:"))
        else:
            split = urlsplit(address)
            assert split.hostname is not None
            assert split.port is not None
            self.socket = socket.create_connection((split.hostname, split.port))
        self.socket.settimeout(DEADLINE)
        self._file = self.socket.makefile("rb")

    def send(self, frame: Json) -> None:
        """Sends a line."""
        self.socket.sendall(json.dumps(frame).encode() + b"\n")

    def receive(self) -> Json:
        """The next line."""
        line = self._file.readline()
        assert line, "the link has ended"
        frame: Json = json.loads(line)
        return frame

    def close(self) -> None:
        """Leaves."""
        self._file.close()
        self.socket.close()


def new_token(rig: Rig, name: str, *more: str) -> str:
    """Makes a token in the file `tokens` of the rig's folder."""
    made = conductor("serve", "token", name, "--tokens", str(rig.folder / "tokens"), *more)
    assert made.code == 0, made.err
    return made.out.strip()


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"}
