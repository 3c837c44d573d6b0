"""The log of a chain, read back from its trace, against the messages that everybody got and sent.

The client's messages are known from its own pipes. For components their transports have
recorded lines, which nobody derives from entries.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.chaos.ledger import Tally

CLIENT = "client"
_ENVELOPE = "proxy/successor"
_ROLE = "proxy/initialize"
_CANCEL = "$/cancel_request"


class Said(NamedTuple):
    """A message without its id, which changes at each hop: kind, method (not of a response),
    body."""

    kind: str
    method: str
    body: bytes


class _Own(msgspec.Struct):
    n: int = 0
    lost: bool = False
    past: bool = False
    by: str = ""


class _Event(msgspec.Struct):
    type: str
    source: str = msgspec.field(name="from", default="")
    target: str = msgspec.field(name="to", default="")
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"null")
    payload: msgspec.Raw = msgspec.Raw(b"null")
    own: _Own = msgspec.field(name="_conductor", default_factory=_Own)
    records: list[dict[str, msgspec.Raw]] = []


class _Message(msgspec.Struct):
    id: Any = msgspec.UNSET
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw = msgspec.Raw(b"null")


_event = msgspec.json.Decoder(_Event).decode
_message = msgspec.json.Decoder(_Message).decode
_lines = msgspec.json.Decoder(list[list[msgspec.Raw]]).decode
_name = msgspec.json.Decoder(str).decode

Talk = defaultdict[str, list[Said]]
"""By who got or sent it."""


def compare(trace: Path, sent: Sequence[bytes], got: Sequence[bytes], tally: Tally) -> None:
    """Counts in a tally the entries of a trace that differ from the messages. `sent` and `got`: the
    lines of the client, which entries rebuild byte for byte and in their order."""
    told_got, told_sent, real_got, real_sent = _read(trace)
    for way, talk, lines in (("got", told_got, got), ("sent", told_sent, sent)):
        told, real = talk[CLIENT], [_said(line) for line in lines]
        if way == "sent":  # nobody reads an answer to a component that was killed
            told, real = ([one for one in some if one.method] for some in (told, real))
        if told != real:
            pairs = enumerate(zip(told, real, strict=False))
            at = next((at for at, (one, other) in pairs if one != other), "the end")
            text = f"it {way} {len(real)} messages, the log has {len(told)}; other from {at} on"
            _untold(tally, 1, f"the client: {text}")
    for way, talk, found in (("got", told_got, real_got), ("sent", told_sent, real_sent)):
        for name in found:
            made_up = Counter(talk[name]) - Counter(found[name])
            if made_up:
                example = str(next(iter(made_up)))[:200]
                _untold(tally, made_up.total(), f"`{name}`: it never {way} {example}")
            left = Counter(found[name]) - Counter(talk[name])
            roles = sum(count for said, count in left.items() if said.method == "initialize")
            # An instance that takes the place of another gets its role from the conductor alone.
            if way == "got" and name.startswith("process") and left.total() > 2 * roles:
                _untold(tally, left.total(), f"`{name}`: it got more than is told")
            # A request may wait until its sender is killed, a cancellation may concern an ended
            # request.
            asked = sum(
                count
                for said, count in left.items()
                if said.kind == "notification" and said.method != _CANCEL
            )
            if way == "sent" and name.startswith("process") and asked > 0:
                _untold(tally, asked, f"`{name}`: it sent more than is told")


def _untold(tally: Tally, count: int, text: str) -> None:
    tally.untold += count
    tally.trouble(f"the log is wrong about {text}")


def _read(trace: Path) -> tuple[Talk, Talk, Talk, Talk]:
    """The messages that everybody got and sent: by the events of a trace, and by its records of
    components."""
    got, real_got, real_sent = Talk(list), Talk(list), Talk(list)
    sent: defaultdict[str, dict[tuple[int, str], Said]] = defaultdict(dict)
    with trace.open("rb") as file:
        for event in map(_event, file):
            for record in event.records:
                name = _name(record["component"])
                real_got[name] += _recorded(record.get("given"))
                real_sent[name] += _recorded(record.get("said"))
            if not event.source or event.method == "configure":
                continue
            said = _of_event(event)
            if not event.own.lost:
                got[event.target].append(said)
            if not event.own.past and not event.own.by:
                # Once, also where it goes on to another after who got it first was killed.
                sent[event.source][event.own.n, event.type] = said
    by_number = Talk(list)
    for name, numbered in sent.items():
        # By number: the entry of a message to a host of guests comes late, once the host has said
        # which guest has it.
        by_number[name] = [said for _, said in sorted(numbered.items())]
    return got, by_number, real_got, real_sent


def _recorded(lines: msgspec.Raw | None) -> Iterator[Said]:
    for side, *message in _lines(lines) if lines is not None else ():
        if bytes(side) != b'"c"':  # services of the conductor
            yield _said(message[0])


def _of_event(event: _Event) -> Said:
    if event.type == "response":
        return Said("response", "", bytes(event.payload))
    return _asked(event.type, event.method, event.params)


def _said(line: bytes | msgspec.Raw) -> Said:
    message = _message(line)
    kind = "notification" if message.id is msgspec.UNSET else "request"
    if message.method == _ENVELOPE:
        message = _message(message.params)
    if not message.method:
        body = message.error if message.result is msgspec.UNSET else message.result
        return Said("response", "", bytes(body))
    return _asked(kind, message.method, message.params)


def _asked(kind: str, method: str, params: msgspec.Raw) -> Said:
    method = "initialize" if method == _ROLE else method
    # The params name an id, which changes at each hop.
    return Said(kind, method, b"" if method == _CANCEL else bytes(params))
