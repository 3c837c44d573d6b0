"""Only messages leave a proxy, after any input; and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.author import sides
from conductor.author.check.passing import PLAIN, round_trip
from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import Fault
from conductor.author.subject import Subject
from conductor.core import jsonrpc
from conductor.core.jsonrpc import Message
from conductor.errors import ComponentError
from conductor.record import diff, exact_json

_LAST: Final = 3
"""Lines of its standard error that a fault quotes."""


async def only_messages(chain: ScriptedChain) -> None:
    """Every line it writes is one JSON-RPC message: no batches, nothing else."""
    await chain.initialize()
    for source, target in chain.directions:
        for _ in range(25):
            source.notify("_check/tell", PLAIN)
        pending = [source.request("_check/ask", b"{}") for _ in range(25)]
        await chain.settled(source)
        for request in target.received("_check/ask"):
            target.reply(request, b"{}")
        for sent in pending:
            await sent.result()
    line = not_a_message(chain.tap.lines)
    if line is not None:
        raise Fault("it wrote a line that is no message, or a batch of several", came=line)


def not_a_message(lines: Iterable[bytes]) -> bytes | None:
    """The first line that is not one message; None if every line is."""
    return next((line for line in lines if line.strip() and _message(line) is None), None)


def _message(line: bytes) -> Message | None:
    return jsonrpc.message_of(sides.split(line)[1])


async def answered_once(chain: ScriptedChain) -> None:
    """Nobody gets an answer to a request that was not made, or two to one request."""
    await chain.initialize()
    for source, target in chain.directions:
        for _ in range(5):
            await round_trip(chain, source, target, PLAIN, b"{}")
        await chain.settled(target)
    for end in (chain.client, chain.agent):
        if end.unknown:
            raise Fault(f"the {end.name} got an answer to nothing", came=end.unknown[0])
    answered: set[bytes] = set()
    for line in chain.tap.lines:
        message = _message(line)
        if message is None or message.id is msgspec.UNSET or message.method is not msgspec.UNSET:
            continue
        key = sides.split(line)[0] + bytes(message.id)
        if key in answered:
            raise Fault("one request was answered twice", came=line)
        answered.add(key)


async def refused_services(chain: ScriptedChain) -> None:
    """Without any service it still passes on unknown messages, and answers prompts."""
    await chain.initialize()
    session = await chain.session()
    prompt = b'{"sessionId":%b,"prompt":[{"type":"text","text":"check"}]}' % session
    await chain.client.request("session/prompt", prompt).answer()
    await round_trip(chain, chain.client, chain.agent, PLAIN, b"{}")


async def too_large(chain: ScriptedChain) -> None:
    """A message beyond its limit is answered with an error, and it lives on."""
    await _refused(chain, b'{"x":"%b"}' % (b"y" * 200_000))


async def too_deep(chain: ScriptedChain) -> None:
    """A message nested deeper than its limit is answered with an error, and it lives on."""
    await _refused(chain, b'{"x":' + b"[" * 200 + b"]" * 200 + b"}")


async def _refused(chain: ScriptedChain, params: bytes) -> None:
    await chain.initialize()
    for source, target in chain.directions:
        answer = await source.request("_check/beyond", params).answer()
        if answer.error is None:
            raise Fault("a request beyond the limit was not refused", came=answer.result or b"")
        await round_trip(chain, source, target, PLAIN, b"1")


async def end_of_input(chain: ScriptedChain) -> None:
    """It ends by itself, with exit code 0, when its input ends."""
    await chain.initialize()
    chain.tap.finish()
    await chain.tap.ended_itself.wait()
    how = chain.tap.how
    assert how is not None
    code = how.data.get("exitCode", 0)
    if code != 0:
        last = " | ".join(list(chain.stderr)[-_LAST:])
        raise Fault(f"it ended with exit code {code}", "end of input", last or how.text)


# -- lines that a conductor's router would never produce -------------------------------------------

_CONFIGURE: Final = (
    b'c{"jsonrpc":"2.0","method":"configure","params":{"name":"check","config":%b,"grants":[],'
    b'"limits":{},"checkMember":[1]}}\n'
)
_ACROSS: Final = {"p": "s", "s": "p"}


class _Lines:
    """A guest that has been initialized, and its answers to single lines."""

    def __init__(self, subject: Subject, config: bytes) -> None:
        self._subject = subject
        self.deliver(_CONFIGURE % config)
        self.deliver(
            b'p{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
        )

    def deliver(self, lines: bytes) -> list[bytes]:
        """Delivers lines; the returned lines."""
        try:
            return self._subject.exchange(lines).split(b"\n")[:-1]
        except ComponentError as error:
            raise Fault(f"it failed: {error.text}", lines) from None

    def passed(self, line: bytes, side: str) -> bytes:
        """Delivers a line that must go on to `side`; the text that goes on."""
        texts = [came[1:] for came in self.deliver(line + b"\n") if came[:1] == side.encode()]
        if not texts:
            raise Fault(f"a line it does not know did not go on to `{side}`", line)
        return texts[-1]


def odd_ids(make: Callable[[], Subject], config: bytes) -> None:
    """Ids of any kind, the same on both sides."""
    lines = _Lines(make(), config)
    for id_ in (b"7", b"null", b'"7"', b'"a\\u0022\\n"', b"9223372036854775807", b"-1", b'""'):
        request = b'{"jsonrpc":"2.0","id":%b,"method":"_check/id","params":{}}' % id_
        passed = {side: lines.passed(side.encode() + request, _ACROSS[side]) for side in ("p", "s")}
        for side, text in passed.items():
            origin = b'"of":"%b"' % side.encode()
            answer = b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (_id(text), origin)
            came = lines.passed(_ACROSS[side].encode() + answer, side)
            if not diff.same(_id(came), id_, exact_numbers=True):
                raise Fault(f"the answer to request {id_.decode()} has another id", id_, came)
            if origin not in came.replace(b" ", b""):
                raise Fault("answers to the same id on both sides were exchanged", answer, came)


def _id(text: bytes) -> bytes:
    """The id of a message, as JSON."""
    try:
        message = exact_json.parse(text, exact_numbers=True)
    except ValueError:
        raise Fault("a line that is no JSON", came=text) from None
    if not isinstance(message, dict) or "id" not in message:
        raise Fault("a request went on without its id", came=text)
    return exact_json.encode(message["id"])


def unknown_on_c(make: Callable[[], Subject], config: bytes) -> None:
    """Messages of the conductor go on to no other peer."""
    lines = _Lines(make(), config)
    for message in (
        b'c{"jsonrpc":"2.0","method":"_check/notice","params":{}}\n',
        b'c{"jsonrpc":"2.0","id":"check","method":"_check/request","params":{}}\n',
        b'c{"jsonrpc":"2.0","id":"nobody","result":{}}\n',
    ):
        for line in lines.deliver(message):
            if line[:1] != b"c":
                raise Fault("a message of the conductor's went on to another peer", message, line)


def together(make: Callable[[], Subject], config: bytes) -> None:
    """Many lines in one delivery come out as in single deliveries."""
    given = [
        b'%b{"jsonrpc":"2.0","method":"_check/n","params":{"n":%d}}\n' % ((b"p", b"s")[n % 2], n)
        for n in range(300)
    ]
    one_by_one = _Lines(make(), config)
    single = [line for each in given for line in one_by_one.deliver(each)]
    joined = _Lines(make(), config).deliver(b"".join(given))
    for side in (b"p", b"s"):
        alone, batch = ([line for line in came if line[:1] == side] for came in (single, joined))
        if alone != batch:
            raise Fault(
                f"lines for `{side.decode()}` differ when many are delivered together",
                f"{len(alone)} one by one",
                f"{len(batch)} together",
            )
