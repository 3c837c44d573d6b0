"""The messages of one probe, without a program: the requests, and the facts in the answers."""

from __future__ import annotations

import enum
import json
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import AUTH_REQUIRED, METHOD_NOT_FOUND
from conductor.errors import one_line
from conductor.record.turns.messages import decoded, members
from conductor.version import version

PROTOCOL_VERSION: Final = 1
"""The version of ACP that a probe speaks."""

_OUTPUT: Final = 16 << 20
"""The most bytes that a program may write before it has answered."""
_LINES: Final = 10_000
"""The most lines that a program may write before it has answered."""

METHODS: Final = 20
"""Ways to log in, and lines of a version, that are kept."""


class Login(enum.Enum):
    """Whether somebody is logged in at an agent."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class AuthMethod(msgspec.Struct, frozen=True):
    """A way to log in that an agent names."""

    id: str
    name: str = ""
    description: str = ""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a probe. Texts of the agent are on one line, and safe to show."""

    answers: bool = False
    """Whether it answered `initialize` in the version of ACP that conductor speaks."""
    name: str = ""
    version: str = ""
    protocol: int | None = None
    """The version of ACP it answered with."""
    auth_methods: list[AuthMethod] = []
    session: bool = False
    """Whether it opened a session."""
    login: Login = Login.UNKNOWN
    error: str = ""
    """The failure: a sentence that follows the agent's name; empty: nothing has failed."""


class Step(enum.Enum):
    """The answer that an exchange waits for; it moves downwards only."""

    INITIALIZE = "initialize"
    SESSION = "session/new"
    DONE = ""


class Exchange:
    """The messages of one probe.

    Args:
        cwd: The folder of the session.
        session: Whether a session is opened; else only `initialize` is sent.
        proves_login: Whether the agent opens a session only for somebody who is logged in.
    """

    def __init__(self, cwd: str, *, session: bool = True, proves_login: bool = False) -> None:
        self._cwd = cwd
        self._wants_session = session
        self._proves_login = proves_login
        self._lines = 0
        self._bytes = 0
        self._odd = ""
        """The first line that was no message."""
        self.step = Step.INITIALIZE
        self.probe = Probe()

    def begin(self) -> bytes:
        """The first request."""
        info = {"name": "conductor-probe", "title": "conductor probe", "version": version()}
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        return _message(
            id=0,
            method=Step.INITIALIZE.value,
            params={
                "protocolVersion": PROTOCOL_VERSION,
                "clientInfo": info,
                "clientCapabilities": capabilities,
            },
        )

    def take(self, frame: bytes) -> bytes:
        """Takes a line of the agent. Returns the lines to send, which may be empty."""
        self._lines += 1
        self._bytes += len(frame)
        if self.step is Step.DONE:
            return b""
        if self._lines > _LINES or self._bytes > _OUTPUT:
            self.fail(f"wrote too much without an answer to `{self.step.value}`")
            return b""
        message = _read(frame)
        if message is None:
            self._odd = self._odd or one_line(frame.decode(errors="replace"), 100)
            return b""
        if message.get("method") == self.step.value:
            self.fail("sends its input back, as no agent does")
            return b""
        if isinstance(message.get("method"), str):
            return _declined(message)
        if message.get("id") != (0 if self.step is Step.INITIALIZE else 1):
            return b""
        if message.get("error") is not None:
            self._refused(members(message["error"]))
            return b""
        result = members(message.get("result"))
        if self.step is Step.INITIALIZE:
            return self._initialized(result)
        opened = isinstance(result.get("sessionId"), str)
        login = Login.YES if opened and self._proves_login else Login.UNKNOWN
        self._known(session=opened, login=login)
        if not opened:
            self.fail("answered `session/new` without a sessionId")
        self.step = Step.DONE
        return b""

    def _initialized(self, result: dict[str, Any]) -> bytes:
        info, spoken = members(result.get("agentInfo")), result.get("protocolVersion")
        is_number = isinstance(spoken, int) and not isinstance(spoken, bool)
        self._known(
            answers=is_number and spoken == PROTOCOL_VERSION,
            name=_text(info.get("title") or info.get("name")),
            version=_text(info.get("version")),
            protocol=spoken if is_number else None,
            auth_methods=_auth_methods(result.get("authMethods")),
        )
        if not self.probe.answers:
            other = f"speaks ACP version {spoken}, and conductor {PROTOCOL_VERSION}"
            self.fail(other if is_number else "answered `initialize` without a version of ACP")
            return b""
        if not self._wants_session:
            self.step = Step.DONE
            return b""
        self.step = Step.SESSION
        params = {"cwd": self._cwd, "mcpServers": []}
        return _message(id=1, method=Step.SESSION.value, params=params)

    def _refused(self, error: dict[str, Any]) -> None:
        if error.get("code") == AUTH_REQUIRED:
            self._known(login=Login.NO)
        # A conductor's error has its hint on a line of its own, and repeats its text in `data`.
        message, hint, _ = str(error.get("message") or "").partition("\nhint: ")
        reason = _text(message) or "no reason given"
        data = error.get("data")
        if isinstance(data, dict):  # the text names the component
            data = {key: value for key, value in data.items() if key != "component"}
        if data not in (None, {}) and not hint:
            reason += f" ({one_line(data if isinstance(data, str) else _json(data))})"
        self.fail(f"refused `{self.step.value}`: {reason}")

    def fail(self, text: str) -> None:
        """The program has failed: `text` says why."""
        if self.step is Step.DONE:
            return
        if self._odd and not self.probe.answers:
            text += f"; it printed `{self._odd}` where messages belong"
        self._known(error=text)
        self.step = Step.DONE

    def _known(self, **fields: Any) -> None:
        self.probe = msgspec.structs.replace(self.probe, **fields)


def _message(**members: object) -> bytes:
    return json_text.encode({"jsonrpc": "2.0", **members}) + b"\n"


def _declined(message: dict[str, Any]) -> bytes:
    """The answer to a request of the agent: nothing is served. A notification gets none."""
    if not isinstance(message.get("id"), (str, int)):
        return b""
    error = {"code": METHOD_NOT_FOUND, "message": "a probe serves no requests"}
    return _message(id=message["id"], error=error)


def _read(frame: bytes) -> dict[str, Any] | None:
    """A message; None for any other line."""
    if not frame.strip():
        return {}
    try:
        message = decoded(frame)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("jsonrpc") == "2.0" else None


def _json(value: object) -> str:
    try:
        return json.dumps(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a deep nesting
        return "…"


def _text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""


def _auth_methods(given: object) -> list[AuthMethod]:
    methods = [members(each) for each in given[:METHODS]] if isinstance(given, list) else []
    return [
        AuthMethod(_text(each.get("id")), _text(each.get("name")), _text(each.get("description")))
        for each in methods
        if isinstance(each.get("id"), str)
    ]
