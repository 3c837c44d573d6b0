"""X of the rig: one recording proxy that speaks every dialect. Standard library only.

    python -m tests.e2e.actors.recording_proxy --dialect pacp --log FILE --mark hello

Payloads it has no business with pass through it byte for byte: it cuts them out of the line
instead of decoding and encoding them. Everything it receives and sends is one line of the log,
`{"name":…,"link":"main"|"successor","dir":"in"|"out","frame":…}`. It runs as a program, or in
process as `py:tests.e2e.actors.recording_proxy:in_process` with its arguments as a JSON list in the
environment variable RECORDING_PROXY.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol

from tests.e2e.actors.dialects import DIALECTS, Dialect
from tests.e2e.actors.options import parse
from tests.e2e.actors.rawjson import compose, members

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

REQUEST, NOTIFICATION = 0, 1
ROLES = ("proxy/initialize", "_proxy/initialize")
FLAG = {"symposium": {"version": "1.0", "proxy": True}}


class Sent(NamedTuple):
    """A request passed on: whom it came from under which id, and its method."""

    side: str
    id: str
    method: str


class Proxy:
    """The proxy itself; sides are `p` (predecessor) and `s` (successor)."""

    def __init__(self, options: argparse.Namespace, write: Callable[[bytes], None]) -> None:
        """Writes frames to the conductor by `write`."""
        self.options = options
        self.dialect: Dialect = DIALECTS[options.dialect]
        self.launches = options.dialect == "scp"
        self.nested = self.dialect.nested or options.nested
        older = DIALECTS["pacp"].up if self.nested else self.dialect.up
        self._up = tuple(zip(self.dialect.up, older, strict=True))
        self._write = write
        self._successor: IO[bytes] | None = None
        self._shim: subprocess.Popen[bytes] | None = None
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._log = os.open(options.log, append) if options.log else -1
        self._sent: dict[str, Sent] = {}
        self._passed: dict[tuple[str, str], tuple[str, str]] = {}
        self._count = 0
        self._ready = False
        self._held = ("", "")  # scp: the initialize params, then the id of `_scp/proxy`
        self._lock = threading.Lock()

    # -- in ----------------------------------------------------------------------------------

    def receive(self, line: bytes, link: str = "main") -> None:
        """Handles one line."""
        with self._lock:
            text = line.decode("utf-8", "surrogateescape").strip()
            self._record(link, "in", text)
            if not text.startswith("{"):
                return  # an array answers what --junk wrote
            frame = members(text)
            if "method" not in frame:
                self._response(frame)
                return
            method, params, id_ = json.loads(frame["method"]), frame.get("params"), frame.get("id")
            kind = REQUEST if id_ is not None else NOTIFICATION
            if link == "successor":
                self._from("s", method, params, id_)
            elif method in self._up[kind]:
                inner = members(params or "{}")
                if self.dialect.nested or "message" in inner:
                    inner = members(inner["message"])
                self._from("s", json.loads(inner["method"]), inner.get("params"), id_)
            else:
                self._from("p", method, params, id_)

    def _from(self, side: str, method: str, params: str | None, id_: str | None) -> None:
        options = self.options
        unready = self.launches and not self._ready
        if side == "p" and (unready or method in (*ROLES, "initialize")):
            self._role(method, params, id_)
            return
        if method == "$/cancel_request":
            self._cancel(members(params or "{}")["requestId"], side)
            return
        if options.cut_on and options.cut_on in (params or ""):
            self._cut()
            return
        if options.die_on and options.die_on in (params or ""):
            self._cut()
            os.write(2, f"{options.name}: dying of {options.die_on}\n".encode())
            os._exit(7)
        if method == options.hang_on:
            return
        if method == options.answer and id_ is not None:
            self._respond(side, id_, "result", compose({"answeredBy": json.dumps(options.name)}))
            return
        if method == "session/prompt" and side == "p":
            params = self._prompt(params or "{}")
        self._pass("s" if side == "p" else "p", side, method, params, id_)

    def _prompt(self, params: str) -> str:
        options = self.options
        if options.junk:
            for junk in (b"X is talking\n", b"\n", b"\xff\xfe junk\n", b'{"half": \r\n', b"[1]\n"):
                self._write(junk)
        if options.notify:
            self._send("p", options.notify, compose({"from": json.dumps(options.name)}), None)
        if not options.mark:
            return params
        parts = members(params)
        block = json.dumps({"type": "text", "text": options.mark})
        rest = parts["prompt"].lstrip()[1:].lstrip()
        parts["prompt"] = f"[{block}{'' if rest.startswith(']') else ','}{rest}"
        return compose(parts)

    def _cancel(self, id_: str, side: str) -> None:
        other = "s" if side == "p" and not self.launches else side  # one id space for both
        passed = self._passed.get((side, id_)) or self._passed.get((other, id_))
        if passed is None:
            return
        to, own_id = passed
        params = f'{{"requestId":{own_id}}}'
        if to == "s" and not self.launches and not self.options.wrap_cancel:
            plain = {"jsonrpc": '"2.0"', "method": '"$/cancel_request"', "params": params}
            self._out("main", compose(plain))
        else:
            self._send(to, "$/cancel_request", params, None)

    # -- roles -------------------------------------------------------------------------------

    def _role(self, method: str, params: str | None, id_: str | None) -> None:
        if id_ is None:
            return
        mine = method == self.dialect.role
        flagged = '"proxy":true' in (params or "").replace(" ", "")
        offered = flagged or self.dialect.role != "initialize"
        if self.launches and method == "_scp/proxy" and self._held[0] and not self._held[1]:
            self._held = (self._held[0], id_)
            self._launch(json.loads(params or "{}")["servers"][0])
        elif mine and self.launches and not self._ready and offered:
            self._held = (params or "{}", "")
            version = members(params or "{}")["protocolVersion"]
            result = {"protocolVersion": version, "agentCapabilities": json.dumps({"_meta": FLAG})}
            self._respond("p", id_, "result", compose(result))
        elif mine and offered:
            self._pass("s", "p", "initialize", params, id_)
        elif method in ROLES and self.dialect.role in ROLES:
            self._pass("s", "p", method, params, id_)  # as proxies on the Rust SDK do
        else:
            code = -32601 if method in ROLES else -32600
            error = {"code": code, "message": f"{self.options.name} does not take {method} now"}
            self._respond("p", id_, "error", json.dumps(error))

    def _launch(self, server: dict[str, Any]) -> None:
        env = {**os.environ, **{each["name"]: each["value"] for each in server["env"]}}
        command = [server["command"], *server["args"]]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._shim, self._successor = child, child.stdin
        stdout = child.stdout
        assert stdout is not None

        def read() -> None:
            for line in stdout:
                self.receive(line, "successor")

        threading.Thread(target=read, daemon=True).start()
        self._ready = True
        self._pass("s", "p", "initialize", self._held[0], self._held[1])

    def _cut(self) -> None:
        """Ends the successor connection, if there is one, and returns when that has happened: who
        looks sees it end before its proxy does."""
        if self._shim is not None:
            self._shim.kill()
            self._shim.wait()

    def _initialized(self, text: str) -> str:
        result, options = json.loads(text), self.options
        capabilities = result.setdefault("agentCapabilities", {})
        if options.add_capability:
            capabilities[options.add_capability] = True
        if options.hide_capability:
            capabilities.pop(options.hide_capability, None)
        if self.dialect.role == "initialize":
            if options.echo == "capabilities":
                capabilities["_meta"] = {**capabilities.get("_meta", {}), **FLAG}
            elif options.echo != "none":
                result["_meta"] = FLAG if options.echo == "symposium" else {"proxy": True}
        return json.dumps(result)

    # -- out ---------------------------------------------------------------------------------

    def _response(self, frame: dict[str, str]) -> None:
        sent = self._sent.pop(frame["id"], None)
        if sent is None:
            return
        self._passed.pop((sent.side, sent.id), None)
        kind = "error" if "error" in frame else "result"
        text = frame[kind]
        if sent.method == "initialize" and kind == "result":
            touched = self.options.add_capability or self.options.hide_capability
            if touched or (self.dialect.role == "initialize" and not self.launches):
                text = self._initialized(text)
            elif self.launches and sent.id == self._held[1]:
                text = "{}"  # of its successor it says nothing
        self._respond(sent.side, sent.id, kind, text)

    def _pass(self, to: str, side: str, method: str, params: str | None, id_: str | None) -> None:
        own_id = None
        if id_ is not None:
            self._count += 1
            named = json.dumps(f"{self.options.name}:{self._count}")
            own_id = id_ if self.options.keep_ids else named
            self._sent[own_id] = Sent(side, id_, method)
            self._passed[side, id_] = (to, own_id)
        twice = self.options.dup_on and id_ is not None and self.options.dup_on in (params or "")
        self._send(to, method, params, own_id, times=2 if twice else 1)

    def _send(
        self, to: str, method: str, params: str | None, id_: str | None, times: int = 1
    ) -> None:
        body = {"method": json.dumps(method)}
        if params is not None:
            body["params"] = params
        if to == "s" and not self.launches:
            inner = {"message": compose(body)} if self.nested else body
            if self.options.meta:
                inner = {**inner, "_meta": '{"hop.local":1}', "meta": '{"hop.older":2}'}
            envelope = self.dialect.down[REQUEST if id_ is not None else NOTIFICATION]
            body = {"method": json.dumps(envelope), "params": compose(inner)}
        head = {"jsonrpc": '"2.0"'} if id_ is None else {"jsonrpc": '"2.0"', "id": id_}
        link = "successor" if to == "s" and self.launches else "main"
        self._out(link, compose({**head, **body}), times)

    def _respond(self, side: str, id_: str, kind: str, text: str) -> None:
        link = "successor" if side == "s" and self.launches else "main"
        self._out(link, compose({"jsonrpc": '"2.0"', "id": id_, kind: text}))

    def _out(self, link: str, text: str, times: int = 1) -> None:
        self._record(link, "out", text)
        # In one write: between two, an answer to the first could arrive and free its id.
        data = (text.encode("utf-8", "surrogateescape") + b"\n") * times
        if link == "main":
            self._write(data)
        elif self._successor is not None:
            self._successor.write(data)
            self._successor.flush()

    def _record(self, link: str, way: str, text: str) -> None:
        if self._log >= 0:
            name = json.dumps(self.options.name)
            entry = f'{{"name":{name},"link":"{link}","dir":"{way}","frame":{text}}}\n'
            os.write(self._log, entry.encode("utf-8", "surrogateescape"))

    def end(self) -> None:
        """The conductor will say nothing more: neither does this proxy to its successor."""
        if self._successor is not None:
            self._successor.close()


class Channel(Protocol):
    """The connection that an in-process component is given."""

    async def receive(self) -> bytes | None:
        """The next line, None at the end."""

    def send(self, line: bytes) -> None:
        """Sends one line."""


async def in_process(channel: Channel) -> None:
    """The same proxy as a component in the conductor's process."""
    proxy = Proxy(parse(json.loads(os.environ["RECORDING_PROXY"])), channel.send)
    while (line := await channel.receive()) is not None:
        proxy.receive(line)
    proxy.end()


def main() -> None:
    """Runs on standard input and output until the input ends."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    proxy = Proxy(parse(sys.argv[1:]), write)
    for line in sys.stdin.buffer:
        proxy.receive(line)
    proxy.end()


if __name__ == "__main__":
    main()
