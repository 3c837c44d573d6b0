"""Lines of channel/1 given to a guest by hand: what a conductor's router would never produce."""

from __future__ import annotations

import json
from collections.abc import Callable

from conductor.author.check import values
from conductor.author.check.scripted_chain import Fault, Skipped
from conductor.author.subject import Target
from conductor.errors import ComponentError

_CONFIGURE = (
    b'c{"jsonrpc":"2.0","method":"configure","params":{"name":"check","config":%b,"grants":[],'
    b'"limits":{},"checkMember":[1]}}\n'
)
_OTHER = {"p": "s", "s": "p"}


class Lines:
    """A guest, and what it says to each line."""

    def __init__(self, target: Target, config: bytes) -> None:
        self._target = target
        self.say(_CONFIGURE % config)
        self.say(
            b'p{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
        )

    def say(self, lines: bytes) -> list[bytes]:
        """Delivers lines; those that come back."""
        try:
            said = self._target.exchange(lines)
        except ComponentError as error:
            raise Fault(f"it failed: {error.text}", lines) from None
        return said.split(b"\n")[:-1]

    def passes(self, line: bytes, side: str) -> bytes:
        """Delivers one line that must go on to `side`; what goes on there."""
        found = [one[1:] for one in self.say(line + b"\n") if one[:1] == side.encode()]
        if not found:
            raise Fault(f"a line it does not know did not go on to `{side}`", line)
        return found[-1]


def ids(make: Callable[[], Target], config: bytes) -> None:
    """Ids of any kind, the same on both sides."""
    lines = Lines(make(), config)
    for number in (b"7", b"null", b'"7"', b'"a\\u0022\\n"', b"9223372036854775807", b"-1", b'""'):
        open_on: list[tuple[str, bytes]] = []
        for side in ("p", "s"):
            asked = b'{"jsonrpc":"2.0","id":%b,"method":"_check/id","params":{}}' % number
            came = lines.passes(side.encode() + asked, _OTHER[side])
            open_on.append((side, _id(came)))
        for side, theirs in open_on:
            answer = b'{"jsonrpc":"2.0","id":%b,"result":{"of":"%b"}}' % (theirs, side.encode())
            came = lines.passes(_OTHER[side].encode() + answer, side)
            if not values.same(_id(came), number):
                raise Fault(f"the answer to request {number.decode()} has another id", number, came)
            if b'"of":"%b"' % side.encode() not in came.replace(b" ", b""):
                raise Fault("answers to the same id on both sides were exchanged", answer, came)


def _id(line: bytes) -> bytes:
    try:
        found = json.loads(line, parse_int=values.Number)
    except ValueError:
        raise Fault("a line that is no JSON", came=line) from None
    if "id" not in found:
        raise Fault("a request went on without its id", came=line)
    number = found["id"]
    return number.encode() if isinstance(number, values.Number) else json.dumps(number).encode()


def unknown_on_c(make: Callable[[], Target], config: bytes) -> None:
    """What the conductor says goes to nobody else."""
    lines = Lines(make(), config)
    for message in (
        b'c{"jsonrpc":"2.0","method":"_check/told","params":{}}\n',
        b'c{"jsonrpc":"2.0","id":"check","method":"_check/asked","params":{}}\n',
        b'c{"jsonrpc":"2.0","id":"nobody","result":{}}\n',
    ):
        for line in lines.say(message):
            if line[:1] != b"c":
                raise Fault("a message of the conductor's went on to somebody else", message, line)


def together(make: Callable[[], Target], config: bytes) -> None:
    """Many lines in one delivery come out as they do one by one."""
    given = [
        b'%b{"jsonrpc":"2.0","method":"_check/n","params":{"n":%d}}' % (b"ps"[n % 2 : n % 2 + 1], n)
        for n in range(300)
    ]
    one_by_one = Lines(make(), config)
    single = [line for each in given for line in one_by_one.say(each + b"\n")]
    joined = Lines(make(), config).say(b"".join(each + b"\n" for each in given))
    for side in (b"p", b"s"):
        one, other = ([line for line in said if line[:1] == side] for said in (single, joined))
        if one != other:
            raise Fault(
                f"lines for `{side.decode()}` differ when many are delivered together",
                f"{len(one)} one by one",
                f"{len(other)} together",
            )


def fresh(make: Callable[[], Target], config: bytes) -> None:
    """Two instances share nothing: both say the same to the same."""
    one, other = Lines(make(), config), Lines(make(), config)
    asked = b'p{"jsonrpc":"2.0","id":5,"method":"_check/id","params":{}}\n'
    if one.say(asked) != other.say(asked):
        raise Skipped("what it says is not the same in two instances, which is allowed")
