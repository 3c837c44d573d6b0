"""A proxy program that takes part in SCP: it starts its successor itself.

Its client initializes it with a section `_meta.symposium`, and then names the components behind it
by `_scp/proxy`. Until then each other request is an error. The program starts the first component.
If there are more, the first must be a proxy of SCP too, and gets the rest. Sides are connections
here, so nothing is wrapped. The engine gets the client's `initialize` under the id of `_scp/proxy`,
and makes its answer of the successor's.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from .editor import sections
from .errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, ProxyError
from .jsontext import dumps, members
from .stdio import write
from .wire import NO_SETTINGS, Held, Wire, message, raw

LAUNCH: Final = "_scp/proxy"
_INITIALIZE: Final = "initialize"
_FLAG: Final = {"symposium": {"version": "1.0", "proxy": True}}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_LAUNCHES: Final = '"scp-launch"'
"""The id of the request by which the successor gets the rest of the chain."""
_CHUNK: Final = 256 * 1024
_GRACE: Final = 0.5
"""Seconds that the successor has to end once its input has, before each harder step."""


class Server(NamedTuple):
    """A successor as a client names it."""

    name: str
    command: list[str]
    env: dict[str, str]


def begins(lines: Iterable[str]) -> bool:
    """Whether one of these lines is the `initialize` of a client that takes part in SCP."""
    for line in lines:
        if '"initialize"' in line and '"symposium"' in line:
            try:
                held = {one.name: one.value for one in members(line)[0]}
            except (ValueError, RecursionError):
                continue
            if held.get("method") == _INITIALIZE and sections(held.get("params")):
                return True
    return False


class Scp(Wire):
    """Translates between two connections and an engine.

    `start` starts a successor, and raises `ProxyError` where it cannot.
    """

    def __init__(self, wire: Wire, start: Callable[[Server], None]) -> None:
        """Goes on where `wire` is, which has heard of no role yet."""
        vars(self).update(vars(wire))
        self._start = start
        self._initialize: str | None = None
        """The client's params of `initialize`."""
        self.joined = False
        """Whether there is a successor, which has not failed to take its place."""
        self._onward: list[str] = []
        self._rest: list[Any] = []
        """The servers that the successor is to start."""
        self._asked: str | None = None
        """The id of the successor's `initialize` or `_scp/proxy` that is not answered."""
        self._greeting = ("", "")
        """The successor's answer to `initialize`, and its id, while it starts the rest."""

    def heard(self, lines: Iterable[str]) -> list[str]:
        """Takes lines of the successor, returns lines for the client."""
        inside: list[str] = []
        for line in lines:
            if line.strip():
                known = self._greeted(line) if self._asked is not None else line
                if known is not None:
                    inside.append("s" + known)
        return self._through(inside)

    def onward(self) -> list[str]:
        """The lines for the successor since the last call."""
        lines, self._onward = self._onward, []
        return lines

    # -- the client ----------------------------------------------------------------------------

    def _takes(
        self, method: str, line: str, held: Held, id_: str | None, inside: list[str]
    ) -> None:
        if self.joined and method != LAUNCH:
            inside.append("p" + line)
        elif id_ is None:
            return
        elif self.joined:
            self._refuse(id_, INVALID_REQUEST, f"`{LAUNCH}` comes once: there is a chain")
        elif self._initialize is None and method == _INITIALIZE:
            self._begin(line, held, id_)
        elif self._initialize is not None and method == LAUNCH:
            try:
                self._launch(held, id_, inside)
            except ProxyError as error:
                self._refuse(id_, error.code, error.message)
        else:
            what = f"`{method}` before `{_INITIALIZE if self._initialize is None else LAUNCH}`"
            self._refuse(id_, INVALID_REQUEST, f"{what}: this proxy has no successor yet")

    def _begin(self, line: str, held: Held, id_: str) -> None:
        params = held["params"].value if "params" in held else None
        version = params.get("protocolVersion") if isinstance(params, dict) else None
        if not sections(params) or not isinstance(version, int):
            self._refuse(id_, INVALID_REQUEST, "a client of SCP says `_meta.symposium` here")
            return
        self._initialize = raw(line, held, "params")
        proxy = self._engine.proxy
        answer: dict[str, Any] = {"protocolVersion": min(version, 2)}
        if version >= 2:
            answer["info"] = {"name": proxy.name, "version": proxy.version}
        answer["capabilities" if version >= 2 else "agentCapabilities"] = {"_meta": _FLAG}
        self._out.append(f'{{"jsonrpc":"2.0","id":{id_},"result":{dumps(answer)}}}')

    def _launch(self, held: Held, id_: str, inside: list[str]) -> None:
        params = held["params"].value if "params" in held else None
        servers = params.get("servers") if isinstance(params, dict) else params
        if not isinstance(servers, list) or not servers:
            raise ProxyError(f"`{LAUNCH}` names no successors in `servers`", INVALID_PARAMS)
        read = [_server(one) for one in servers]
        self._start(read[0])
        self.joined, self._rest = True, servers[1:]
        inside += () if self._configured else (NO_SETTINGS,)
        self._configured = True
        inside.append("p" + message(id_, dumps(_INITIALIZE), self._initialize))

    # -- the successor -------------------------------------------------------------------------

    def _write(self, side: str, said: str) -> None:
        if side != "s":
            super()._write(side, said)
            return
        if self._asked is None and not self._greeting[0] and f'"{_INITIALIZE}"' in said:
            held = {one.name: one for one in members(said)[0]}
            if "method" in held and held["method"].value == _INITIALIZE:
                self._asked = raw(said, held, "id")
        self._onward.append(said)

    def _greeted(self, line: str) -> str | None:
        """The engine's part of a line, while the successor takes its role; None: the line waits
        for that."""
        try:
            held = {one.name: one for one in members(line)[0]}
        except (ValueError, RecursionError):
            return line
        if "method" in held or raw(line, held, "id") != self._asked:
            return line
        if self._greeting[0]:
            return self._rest_started(line, held)
        asked, self._asked = str(self._asked), None
        self._greeting = (line, asked)
        if "error" in held:
            return self._failed(
                f'{{"jsonrpc":"2.0","id":{asked},"error":{raw(line, held, "error")}}}'
            )
        is_proxy = any(section.get("proxy") is True for section in sections(held["result"].value))
        if is_proxy and self._rest:
            self._asked = _LAUNCHES
            servers = dumps({"servers": self._rest})
            self._onward.append(message(_LAUNCHES, dumps(LAUNCH), servers))
            return None
        if is_proxy:
            return self._failed(_error(asked, "the last successor is a proxy of SCP, and no agent"))
        if self._rest:
            why = "the successor is no proxy of SCP, and others follow it"
            return self._failed(_error(asked, why))
        return line

    def _rest_started(self, line: str, held: Held) -> str:
        """The successor has started the rest: its answer, as one to `initialize`."""
        self._asked = None
        greeting, asked = self._greeting
        if "error" in held:
            return self._failed(
                f'{{"jsonrpc":"2.0","id":{asked},"error":{raw(line, held, "error")}}}'
            )
        result = held["result"].value if "result" in held else None
        if not isinstance(result, dict) or "protocolVersion" not in result:
            return greeting
        return f'{{"jsonrpc":"2.0","id":{asked},"result":{raw(line, held, "result")}}}'

    def _failed(self, answer: str) -> str:
        """There is no chain: the client may name another."""
        self.joined, self._greeting = False, ("", "")
        return answer


def _error(id_: str, text: str) -> str:
    error = dumps({"code": INTERNAL_ERROR, "message": text})
    return f'{{"jsonrpc":"2.0","id":{id_},"error":{error}}}'


def _server(given: Any) -> Server:
    """A server of `_scp/proxy`. Raises `ProxyError`."""
    held = given if isinstance(given, dict) else {}
    command, args = held.get("command"), held.get("args", [])
    env = held.get("env", [])
    words = [command, *(args if isinstance(args, list) else [None])]
    for one in env if isinstance(env, list) else [None]:
        words += [one.get("name"), one.get("value")] if isinstance(one, dict) else [None]
    if held.get("type", "stdio") != "stdio" or not all(_is_word(word) for word in words):
        raise ProxyError(
            f"`{LAUNCH}` names servers with `command`, `args` and `env`", INVALID_PARAMS
        )
    if not (os.path.isabs(str(command)) or _NAME.fullmatch(str(command))):
        text = f"`{LAUNCH}` names `{command}`, which is neither an absolute path nor a name"
        raise ProxyError(text, INVALID_PARAMS)
    variables = {str(one["name"]): str(one["value"]) for one in env}
    return Server(str(held.get("name", command)), [str(command), *args], variables)


def _is_word(word: Any) -> bool:
    return isinstance(word, str) and "\0" not in word


# -- processes -------------------------------------------------------------------------------------


def serve(wire: Wire, lines: list[str], rest: bytes) -> bool:
    """Serves on standard input and output until the input ends; False if the successor ends before.

    `lines` have been read already, and `rest`, the beginning of another one.
    """
    return _Program(wire).serve(lines, rest)


class _Program:
    """The two connections: standard input and output, and the successor's process.

    A thread reads each, so that neither end waits for the other while both write.
    """

    def __init__(self, wire: Wire) -> None:
        self._scp = Scp(wire, self._start)
        self._inbox: queue.SimpleQueue[tuple[int, list[str] | None]] = queue.SimpleQueue()
        """Lines, and None at the end; by the descriptor they come from."""
        self._child: subprocess.Popen[bytes] | None = None
        self._output = -1
        """The descriptor of the successor's output; -1: there is no successor."""

    def serve(self, lines: list[str], rest: bytes) -> bool:
        threading.Thread(target=self._read, args=(0, rest), daemon=True).start()
        try:
            self._take(0, lines)
            while True:
                fd, read = self._inbox.get()
                if fd not in (0, self._output):
                    continue  # of a successor that is given up
                if read is None:
                    return fd == 0
                self._take(fd, read)
        finally:
            self._end()

    def _take(self, fd: int, lines: list[str]) -> None:
        said = self._scp.receive(lines) if fd == 0 else self._scp.heard(lines)
        onward = self._scp.onward()
        if said:
            write(1, said)
        if not self._scp.joined:
            self._end()
        elif onward and self._child is not None and self._child.stdin is not None:
            try:
                write(self._child.stdin.fileno(), onward)
            except OSError:
                return  # it has ended: its reader tells

    def _start(self, server: Server) -> None:
        program = shutil.which(server.command[0])
        if program is None:
            text = f"`{server.name}`: there is no program `{server.command[0]}`"
            raise ProxyError(text, INVALID_PARAMS)
        try:
            child = subprocess.Popen(
                [program, *server.command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **server.env},
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            raise ProxyError(f"`{server.name}` does not start: {error}", INTERNAL_ERROR) from None
        assert child.stdout is not None
        # A descriptor of our own: that of a successor which is given up is not used again.
        self._child, self._output = child, os.dup(child.stdout.fileno())
        child.stdout.close()
        threading.Thread(target=self._read, args=(self._output, b""), daemon=True).start()

    def _read(self, fd: int, rest: bytes) -> None:
        held = [rest]
        while data := _chunk(fd):
            whole, newline, after = data.rpartition(b"\n")
            if not newline:
                held.append(data)
                continue
            text = b"".join([*held, whole]).decode("utf-8", "surrogateescape")
            held = [after]
            self._inbox.put((fd, text.split("\n")))
        self._inbox.put((fd, None))

    def _end(self) -> None:
        child, self._child, self._output = self._child, None, -1
        if child is None:
            return
        assert child.stdin is not None
        child.stdin.close()
        for harder in (child.terminate, child.kill):
            try:
                child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                harder()
        child.wait()


def _chunk(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:
        return b""
