"""A small ACP client that drives the demo agent as a process, over its real pipes."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

from acp import schema

from tests.places import COMPONENTS, DEADLINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pydantic import BaseModel

AGENT = COMPONENTS / "demo" / "agent.py"

Json = dict[str, Any]

# What the official SDK of ACP v1 accepts: every frame the agent sends is held against it.
_RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/close": schema.CloseSessionResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/prompt": schema.PromptResponse,
}
_SENT: dict[str, type[BaseModel]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/output": schema.TerminalOutputRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
    "$/cancel_request": schema.CancelRequestNotification,
}


class Outcome(NamedTuple):
    """What one prompt brought."""

    response: Json
    """The frame that answered the request."""
    updates: list[Json]
    """The update objects of the turn, in order."""
    lines: list[bytes]
    """Every line received meanwhile, as it was, junk and requests included."""

    @property
    def text(self) -> str:
        """All message chunks joined."""
        return "".join(self.chunks)

    @property
    def chunks(self) -> list[str]:
        """The text of each message chunk."""
        kind = "agent_message_chunk"
        return [each["content"]["text"] for each in self.kind(kind)]

    @property
    def stop_reason(self) -> str:
        """Why the turn ended, in either version of ACP."""
        if "stopReason" in self.response.get("result", {}):
            return str(self.response["result"]["stopReason"])
        return str(self.kind("state_update")[-1]["stopReason"])

    def kind(self, kind: str) -> list[Json]:
        """The updates of this kind."""
        return [each for each in self.updates if each["sessionUpdate"] == kind]


class DemoProcess:
    """The agent as a child process; a context manager that leaves nothing behind."""

    def __init__(
        self, *flags: str, python: tuple[str, ...] = (), stdout: IO[bytes] | None = None
    ) -> None:
        """Start it with these flags; ``python`` are options of the interpreter, and ``stdout``
        is what it writes to when that is not to be read here."""
        self.process = subprocess.Popen(
            [sys.executable, *python, str(AGENT), *flags],
            stdin=subprocess.PIPE,
            stdout=stdout or subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.version = 1
        self.serves: dict[str, Callable[[Json], Json]] = {}
        """Answers to the agent's requests: method -> function of the params to the result."""
        self._methods: dict[int | str, str] = {}
        self._ids = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._more_errors = threading.Condition()
        self._may_read = threading.Event()
        self._may_read.set()
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        """The process itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        assert self.process.stdin
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                # Unflushed bytes to a process that is gone, as some tests mean it to be.
                assert self.process.returncode is not None
        for thread in self._threads:
            thread.join(DEADLINE)

    # -- raw -----------------------------------------------------------------------------

    def send_raw(self, data: bytes) -> None:
        """Write bytes to its stdin."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, frame: Json) -> None:
        """Write one frame."""
        self.send_raw(json.dumps(frame).encode() + b"\n")

    def line(self) -> bytes | None:
        """The next line of its stdout, or None at the end. Raises queue.Empty too late."""
        return self._lines.get(timeout=DEADLINE)

    def frame(self) -> Json:
        """The next line, which must be a frame that holds against the schema."""
        line = self.line()
        assert line is not None, f"stdout ended; stderr: {self.stderr}"
        frame: Json = json.loads(line)
        self._check(frame)
        return frame

    def close_stdin(self) -> None:
        """Let it read the end of its input."""
        assert self.process.stdin
        self.process.stdin.close()

    def wait(self) -> int:
        """Its exit code; negative for a signal."""
        code = self.process.wait(DEADLINE)
        for thread in self._threads:
            thread.join(DEADLINE)
        return code

    @property
    def stderr(self) -> str:
        """What it wrote to stderr so far."""
        return b"".join(self._errors).decode()

    def until_stderr(self, text: str) -> None:
        """Wait until its stderr holds this text."""
        with self._more_errors:
            assert self._more_errors.wait_for(lambda: text in self.stderr, DEADLINE)

    def pause_reading(self) -> None:
        """Stop reading its stdout, after the line that comes next."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Read its stdout again."""
        self._may_read.set()

    # -- ACP -----------------------------------------------------------------------------

    def start(self, method: str, params: Json) -> int:
        """Send a request; its id."""
        self._ids += 1
        self._methods[self._ids] = method
        frame = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params}
        self.send(frame)
        return self._ids

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def call(self, method: str, params: Json) -> Json:
        """Send a request; the frame that answers it, which must be the next one."""
        request_id = self.start(method, params)
        frame = self.frame()
        assert frame.get("id") == request_id, frame
        return frame

    def initialize(self, version: int = 1, capabilities: Json | None = None) -> Json:
        """Initialize with client capabilities; the result."""
        params: Json = {"protocolVersion": version}
        if version == 1:
            params["clientCapabilities"] = capabilities or {}
        else:
            params |= {"capabilities": capabilities or {}, "info": {"name": "t", "version": "1"}}
        self.version = version
        result: Json = self.call("initialize", params)["result"]
        return result

    def new_session(self, servers: list[Json] | None = None, cwd: str = "/tmp") -> str:  # noqa: S108
        """A new session; its id."""
        answer = self.call("session/new", {"cwd": cwd, "mcpServers": servers or []})
        return str(answer["result"]["sessionId"])

    def start_prompt(self, session: str, prompt: str | list[Json]) -> int:
        """Send a prompt; the id of its request."""
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        return self.start("session/prompt", {"sessionId": session, "prompt": blocks})

    def prompt(self, session: str, prompt: str | list[Json]) -> Outcome:
        """Send a prompt and see the turn through, serving the agent's requests."""
        return self.outcome(self.start_prompt(session, prompt))

    def outcome(self, request_id: int) -> Outcome:
        """See a turn through to its end."""
        lines: list[bytes] = []
        updates: list[Json] = []
        response: Json | None = None
        while True:
            line = self.line()
            assert line is not None, f"stdout ended; stderr: {self.stderr}"
            lines.append(line)
            try:
                frame = json.loads(line)
            except ValueError:
                continue
            self._check(frame)
            if frame.get("method") == "session/update":
                updates.append(frame["params"]["update"])
            elif "method" in frame and "id" in frame:
                self._serve(frame)
            elif frame.get("id") == request_id and "method" not in frame:
                response = frame
            idle = bool(updates) and updates[-1].get("state") == "idle"
            if response and (self.version == 1 or idle or "error" in response):
                return Outcome(response, updates, lines)

    # -- inside --------------------------------------------------------------------------

    def _serve(self, frame: Json) -> None:
        answer: Json = {"jsonrpc": "2.0", "id": frame["id"]}
        serve = self.serves.get(frame["method"])
        if serve is None:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = serve(frame["params"])
        self.send(answer)

    def _check(self, frame: Json) -> None:
        assert frame["jsonrpc"] == "2.0"
        if self.version != 1:
            return
        if "method" in frame:
            model = _SENT.get(frame["method"])
            if model:
                model.model_validate(frame["params"])
        elif "result" in frame and frame["id"] in self._methods:
            result_model = _RESULTS.get(self._methods[frame["id"]])
            if result_model:
                result_model.model_validate(frame["result"])
        elif "error" in frame:
            schema.Error.model_validate(frame["error"])

    def _read(self) -> None:
        if self.process.stdout:
            with self.process.stdout as stream:
                for line in stream:
                    self._lines.put(line)
                    self._may_read.wait(DEADLINE)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr
        with self.process.stderr as stream:
            for line in stream:
                with self._more_errors:
                    self._errors.append(line)
                    self._more_errors.notify_all()
