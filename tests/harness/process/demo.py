"""The demo agent as a process, with a client that holds each frame against the official schema."""

from __future__ import annotations

import json
import sys
from collections import deque
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from acp import schema

from tests.harness.process.client import Client, Json
from tests.places import COMPONENTS

if TYPE_CHECKING:
    from pydantic import BaseModel

AGENT = COMPONENTS / "demo" / "agent.py"

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
    """The outcome of one prompt."""

    response: Json
    """The frame that answered the request."""
    updates: list[Json]
    """The update objects of the turn, in order."""
    lines: list[bytes]
    """Every line received meanwhile, raw, junk and requests included."""

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


class DemoProcess(Client):
    """The agent as a child process; a context manager that leaves nothing behind."""

    # The MCP servers it starts share its standard error, and some fail on purpose.
    hopeless = None

    def __init__(
        self, *flags: str, python: tuple[str, ...] = (), stdout: IO[bytes] | None = None
    ) -> None:
        """Starts it with these flags; `python` are options of the interpreter."""
        super().__init__([sys.executable, *python, str(AGENT), *flags], stdout=stdout)
        self.version = 1
        self.on_line = self._unread_line
        self._unread: deque[bytes] = deque()
        self._methods: dict[object, str] = {}

    def line(self) -> bytes | None:
        """The next line of its stdout, or None at the end."""
        self.until(lambda: self._unread or self.output_ended, "a line")
        return self._unread.popleft() if self._unread else None

    def frame(self) -> Json:
        """The next line, which must be a frame that holds against the schema."""
        line = self.line()
        assert line is not None, f"stdout ended{self.story()}"
        frame: Json = json.loads(line)
        self._check(frame)
        return frame

    # -- ACP -----------------------------------------------------------------------------

    def start(self, method: str, params: object = None, id: object = None) -> Any:  # noqa: A002
        """Sends a request; its id."""
        id = super().start(method, params, id)  # noqa: A001
        self._methods[id] = method
        return id

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
        number: int = self.start("session/prompt", {"sessionId": session, "prompt": blocks})
        return number

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
            assert line is not None, f"stdout ended{self.story()}"
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

    def _unread_line(self, line: bytes) -> None:
        self._unread.append(line + b"\n")

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
