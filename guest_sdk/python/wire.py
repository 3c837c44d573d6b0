"""The dialect `acp` on one connection, put into lines of `channel/1` and back.

A proxy that is a process, or lives in the conductor's, has one connection for both neighbours.
Messages of the successor are wrapped in `proxy/successor`, messages of the conductor are named
`_conductor/…` (docs/architecture.md, "Dialects"). The engine behind it sees sides instead.

Ids go through as the engine writes them: the conductor's requests and the proxy's run in opposite
directions, so their ids cannot clash, and a request that is passed on keeps its id here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .engine import Engine
from .errors import INVALID_REQUEST, PARSE_ERROR
from .jsontext import Member, dumps, members
from .peers import ENVELOPE
from .speaker import CANCEL

ROLE: Final = "proxy/initialize"
CONDUCTOR: Final = "_conductor/"
_CONFIGURE: Final = CONDUCTOR + "configure"
NO_SETTINGS: Final = 'c{"jsonrpc":"2.0","method":"configure","params":{}}'

Held = dict[str, Member]


class Wire:
    """Translates between one connection and an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._count = 0
        self._sent: dict[str, tuple[str, str]] = {}
        """Requests on the wire that are not answered, by id: the engine's side and id of each."""
        self._ids: dict[tuple[str, str], str] = {}
        """The same the other way round."""
        self._from_successor: set[str] = set()
        """Ids of requests that came in an envelope and are not answered."""
        self._out: list[str] = []
        self.has_role = False
        """Whether it has been asked to be a proxy."""
        self._configured = False
        """Whether the conductor has said how the proxy is configured, or that it is not."""

    def receive(self, lines: Iterable[str]) -> list[str]:
        """Takes lines off the wire, returns lines for it; all without newlines."""
        inside: list[str] = []
        for line in lines:
            if line.strip():
                self._read(line, inside)
        return self._through(inside)

    def _through(self, inside: list[str]) -> list[str]:
        """Gives the engine lines; what it says for the wire."""
        for said in self._engine.receive(inside):
            self._write(said[0], said[1:])
        out, self._out = self._out, []
        return out

    # -- in ------------------------------------------------------------------------------------

    def _read(self, line: str, inside: list[str]) -> None:
        try:
            held = {one.name: one for one in members(line)[0]}
        except (ValueError, RecursionError):
            self._refuse("null", PARSE_ERROR, "a line is no JSON object")
            return
        method = held["method"].value if "method" in held else None
        id_ = raw(line, held, "id")
        if not isinstance(method, str):
            self._answered(line, held, id_, inside)
        elif method.startswith(CONDUCTOR):
            name = dumps(method.removeprefix(CONDUCTOR))
            self._configured |= method == _CONFIGURE
            inside.append("c" + message(id_, name, raw(line, held, "params")))
        else:
            self._takes(method, line, held, id_, inside)

    def _takes(
        self, method: str, line: str, held: Held, id_: str | None, inside: list[str]
    ) -> None:
        """Takes a request or a notification of the neighbours."""
        if method == ENVELOPE:
            self._unwrap(line, held, id_, inside)
        elif method == ROLE:
            # A proxy nobody gave settings is not told any here, but what it does when it is, it
            # does in the sandbox as well.
            inside += () if self._configured else (NO_SETTINGS,)
            self.has_role = self._configured = True
            inside.append("p" + message(id_, '"initialize"', raw(line, held, "params")))
        elif method == "initialize":
            text = f"`{self._engine.name}` is a proxy: it is initialized by `{ROLE}`"
            self._refuse(id_ or "null", INVALID_REQUEST, text)
        elif method == CANCEL:
            params = held["params"].value if "params" in held else {}
            asked = dumps(params.get("requestId") if isinstance(params, dict) else None)
            inside.append(("s" if asked in self._from_successor else "p") + line)
        else:
            inside.append("p" + line)

    def _answered(self, line: str, held: Held, id_: str | None, inside: list[str]) -> None:
        known = self._sent.pop(id_ or "", None)
        if known is None:
            return
        self._ids.pop(known, None)
        side, own = known
        member = "error" if "error" in held else "result"
        body = raw(line, held, member) or "null"
        inside.append(f'{side}{{"jsonrpc":"2.0","id":{own},"{member}":{body}}}')

    def _unwrap(self, line: str, held: Held, id_: str | None, inside: list[str]) -> None:
        params = held.get("params")
        inner = members(line, params.start)[0] if params and isinstance(params.value, dict) else []
        names = {one.name: one for one in inner}
        method = raw(line, names, "method")
        if method is None:
            self._refuse(id_ or "null", INVALID_REQUEST, f"`{ENVELOPE}` has no method")
            return
        if id_ is not None:
            self._from_successor.add(id_)
        if "peer" in names:  # of a peer agent: an envelope in the engine as well
            inside.append("s" + message(id_, dumps(ENVELOPE), raw(line, held, "params")))
        else:
            inside.append("s" + message(id_, method, raw(line, names, "params")))

    def _refuse(self, id_: str, code: int, text: str) -> None:
        error = f'{{"code":{code},"message":{dumps(text)}}}'
        self._out.append(f'{{"jsonrpc":"2.0","id":{id_},"error":{error}}}')

    # -- out -----------------------------------------------------------------------------------

    def _write(self, side: str, said: str) -> None:
        held = {one.name: one for one in members(said)[0]}
        method = raw(said, held, "method")
        id_ = raw(said, held, "id")
        if method is None:
            self._from_successor.discard(id_ or "")
            self._out.append(said)
            return
        if held["method"].value == CANCEL:
            params = held["params"].value
            sent = self._ids.get((side, dumps(params.get("requestId"))))
            if sent is not None:
                self._out.append(message(None, dumps(CANCEL), f'{{"requestId":{sent}}}'))
            return
        params = raw(said, held, "params")
        outer = self._sent_as(side, id_) if id_ is not None else None
        if side == "s" and held["method"].value == ENVELOPE:
            self._out.append(message(outer, method, params))
        elif side == "s":
            inner = _message_members(method, params)
            self._out.append(message(outer, dumps(ENVELOPE), "{" + inner + "}"))
        elif side == "c":
            name = dumps(CONDUCTOR + str(held["method"].value))
            self._out.append(message(outer, name, params))
        elif outer is None:
            self._out.append(said)
        else:
            self._out.append(message(outer, method, params))

    def _sent_as(self, side: str, id_: str) -> str:
        """The id of a request on the wire: the engine's own.

        One to the conductor is a number in the engine, and a string here: it stands beside requests
        that are passed on under the conductor's numbers.
        """
        outer = f'"c-{id_}"' if side == "c" else id_
        while outer in self._sent:  # as one that came from both sides at once
            self._count += 1
            outer = f'"w-{self._count}"'
        self._sent[outer] = (side, id_)
        self._ids[side, id_] = outer
        return outer


def raw(line: str, held: Held, name: str) -> str | None:
    """The text of a member; None: there is none."""
    one = held.get(name)
    return line[one.start : one.end] if one is not None else None


def _message_members(method: str, params: str | None) -> str:
    return f'"method":{method}' + (f',"params":{params}' if params is not None else "")


def message(id_: str | None, method: str, params: str | None) -> str:
    """A request or notification from raw JSON."""
    head = f'{{"jsonrpc":"2.0","id":{id_},' if id_ is not None else '{"jsonrpc":"2.0",'
    return head + _message_members(method, params) + "}"
