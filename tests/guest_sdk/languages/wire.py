"""The dialect `acp` shown as lines of the channel, to play transcripts against WASI commands.

Ids of requests are made different on either side, as a conductor does that has one connection only;
`_conductor/config` is answered here, and `configure` passed on if there is anything to tell.
"""

from collections.abc import Callable, Iterator
from typing import Final

from guest_sdk.python.jsontext import dumps, loads, members

ENVELOPE: Final = "proxy/successor"
SERVICE: Final = "_conductor/"
CANCEL: Final = "$/cancel_request"
_VERSION: Final = {"jsonrpc": '"2.0"'}

Raw = dict[str, str]
"""Members of a message, as they are written."""


def read(text: str) -> Raw:
    """The members of an object, raw; the last of repeated ones."""
    return {one.name: text[one.start : one.end] for one in members(text)[0]}


def message(said: Raw) -> str:
    """A message of JSON-RPC, its members in the usual order, and no others."""
    names = ("id", "method", "params", "result", "error")
    return "{" + ",".join(f'"{n}":{said[n]}' for n in ("jsonrpc", *names) if n in said) + "}"


def plain(lines: bytes) -> bytes:
    """Lines of the channel as an envelope keeps them: the members of JSON-RPC, compact."""
    shown = (line[0] + message({**_VERSION, **_said(line[1:])}) for line in _lines(lines))
    return "".join(f"{line}\n" for line in shown).encode()


def _said(text: str) -> Raw:
    """The same as `read`, a method without needless escapes."""
    said = read(text)
    name = _name(said)
    return {**said, "method": dumps(name)} if name is not None else said


def _name(said: Raw) -> str | None:
    return str(loads(said["method"])) if "method" in said else None


def _lines(data: bytes) -> list[str]:
    return data.decode().split("\n")[:-1]


class Wire:
    """A guest of the dialect, on the channel."""

    def __init__(self, deliver: Callable[[bytes], bytes]) -> None:
        self._deliver = deliver
        self._settings = "{}"
        self._given: dict[str, tuple[str, str]] = {}
        """Side and id, on the channel, of each request to the guest."""
        self._asked: dict[tuple[str, str], str] = {}
        """The ids of its own requests, by side and the id shown."""

    def exchange(self, lines: bytes) -> bytes:
        """Delivers lines of the channel; returns the answers as such lines."""
        outer = [one for line in _lines(lines) for one in self._outer(line[0], _said(line[1:]))]
        said: list[str] = []
        while outer:
            answer = self._deliver("".join(f"{one}\n" for one in outer).encode())
            outer = []
            for line in _lines(answer):
                inner = read(line)
                if _name(inner) == f"{SERVICE}config":
                    result = {"id": inner["id"], "result": self._settings}
                    outer.append(message({**_VERSION, **result}))
                else:
                    said.append(self._inner(inner))
        return "".join(f"{line}\n" for line in said).encode()

    def _outer(self, side: str, said: Raw) -> Iterator[str]:
        name = _name(said)
        if name == "configure":
            self._settings = said["params"]
            told = read(said["params"])
            if told["config"] != "{}" or "kept" in told:
                yield message({**_VERSION, **said, "method": dumps(f"{SERVICE}configure")})
            return
        said = {**_VERSION, **said}
        if name is None:
            asked = self._asked.pop((side, said["id"]), None)
            if asked is not None:
                yield message({**said, "id": asked})
            return
        if name == CANCEL:
            wanted = (side, read(said["params"])["requestId"])
            for outer, known in self._given.items():
                if known == wanted:
                    yield message({**said, "params": f'{{"requestId":{outer}}}'})
            return
        if "id" in said:
            outer = dumps(f"{side}{said['id']}")
            self._given[outer] = (side, said["id"])
            said["id"] = outer
        if side == "c":
            said["method"] = dumps(SERVICE + name)
        elif side == "s":
            held: Raw = {key: said[key] for key in ("method", "params") if key in said}
            said = {**said, "method": dumps(ENVELOPE), "params": message(held)}
        elif name == "initialize":
            said["method"] = dumps("proxy/initialize")
        yield message(said)

    def _inner(self, said: Raw) -> str:
        name = _name(said)
        if name is None:
            side, shown = self._given[said["id"]]
            return side + message({**said, "id": shown})
        if name == CANCEL:
            asked = read(said["params"])["requestId"]
            for (side, shown), outer in self._asked.items():
                if outer == asked:
                    return side + message({**said, "params": f'{{"requestId":{shown}}}'})
            # The cancellation comes too late for a request that was, or may have been, passed on.
            assert asked in self._given, f"cancelled what was not asked: {asked}"
            side, shown = self._given[asked]
            other = {"p": "s", "s": "p"}[side]
            return other + message({**said, "params": f'{{"requestId":{shown}}}'})
        side = "p"
        if name == ENVELOPE:
            side = "s"
            inner = read(said.pop("params"))
            said = {**said, **inner}
        elif name.startswith(SERVICE):
            side, said["method"] = "c", dumps(name.removeprefix(SERVICE))
        if "id" in said:
            outer = said["id"]
            # A request that is passed on may keep its id, and is then shown with that.
            said["id"] = self._given.get(outer, ("", outer))[1]
            self._asked[side, said["id"]] = outer
        return side + message(said)
