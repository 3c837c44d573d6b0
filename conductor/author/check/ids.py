"""The duties of a proxy to requests: their ids, their order, their cancellation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from conductor.author.check.passing import unchanged
from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import (
    BARRIER,
    Fault,
    Received,
    ScriptedEnd,
    Skipped,
    session_of,
)
from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL

_ACROSS: Final = {b"p": b"s", b"s": b"p"}
"""The side to which a proxy passes on the messages of a side."""
_MARK: Final = b'"_meta":{"check.example/kept":%d}'
_MARKED: Final = re.compile(rb'"check\.example/kept"\s*:\s*(\d+)')


async def concurrent(chain: ScriptedChain) -> None:
    """Many requests are open on both sides at once and are answered in another order."""
    await chain.initialize()
    many = 40
    pending = {
        source.name: [source.request("_check/open", b'{"n":%d}' % n) for n in range(many)]
        for source, _ in chain.directions
    }
    for source, target in chain.directions:
        await chain.settled(source)
        arrived = target.received("_check/open")
        if len(arrived) != many:
            raise Fault(f"of {many} open requests {len(arrived)} reached the {target.name}")
        ids = {request.id for request in arrived}
        if len(ids) != many:
            raise Fault("two open requests have the same id", f"{many} requests", f"{len(ids)} ids")
        for request in reversed(arrived):
            target.reply(request, request.params or b"null")
    for source, _ in chain.directions:
        for number, sent in enumerate(pending[source.name]):
            expected = b'{"n":%d}' % number
            unchanged("the answer to one of many open requests", expected, await sent.result())


async def same_ids(chain: ScriptedChain) -> None:
    """The client and the agent use the same ids; strings, null and large numbers are ids too."""
    await chain.initialize()
    for id_ in (b"0", b"-7", b'"7"', b'"\\u00e9\\"x"', b"9007199254740993", b'""', b"null"):
        pending = [
            source.request("_check/id", b'{"from":"%b"}' % source.name.encode(), id_)
            for source, _ in chain.directions
        ]
        results = [b'{"by":"%b"}' % target.name.encode() for _, target in chain.directions]
        for (source, target), result in zip(chain.directions, results, strict=True):
            target.reply(await chain.passed(source, target, "_check/id"), result)
        for sent, result in zip(pending, results, strict=True):
            what = f"the answer to the request with id {id_.decode()}"
            unchanged(what, result, await sent.result())


# -- order and cancellation ------------------------------------------------------------------------


async def order(chain: ScriptedChain) -> None:
    """Notifications of one direction stay in order, and an answer comes after those before it."""
    await chain.initialize()
    many = 200
    for source, target in chain.directions:
        for number in range(many):
            params = b'{"n":%d,"pad":"%b"}' % (number, b"x" * (number * 37 % 500))
            source.notify("_check/order", params)
        await chain.settled(source)
        came = [_number(message) for message in target.received("_check/order")]
        if came != list(range(many)):
            raise Fault(
                f"{many} notifications to the {target.name} arrived in another order, or not all",
                f"0 to {many - 1}",
                f"{len(came)}: {', '.join(map(str, came[:40]))} …",
            )
    for source, target in chain.directions:
        await _answer_last(source, target)


async def _answer_last(source: ScriptedEnd, target: ScriptedEnd) -> None:
    pending = source.request("_check/turn")
    request = await target.next("_check/turn")
    for number in range(50):
        target.notify("_check/update", b'{"n":%d}' % number)
    target.reply(request, b"{}")
    await pending.answer()
    came = len(source.received("_check/update"))
    if came != 50:
        raise Fault(
            f"the answer overtook notifications on their way to the {source.name}",
            "50 notifications, then the answer",
            f"{came} of them, then the answer",
        )


def _number(message: Received) -> int:
    return int((message.params or b"").partition(b'"n":')[2].partition(b",")[0])


async def cancellation(chain: ScriptedChain) -> None:
    """`$/cancel_request` reaches the peer that works on the request, under the id it has there."""
    await chain.initialize()
    for source, target in chain.directions:
        other = source.request("_check/other")
        pending = source.request("_check/long")
        request = await chain.passed(source, target, "_check/long")
        source.notify(CANCEL, b'{"requestId":%b}' % pending.id)
        cancel = await chain.passed(source, target, CANCEL)
        expected = b'{"requestId":%b}' % (request.id or b"")
        unchanged(f"the cancel for the {target.name}", expected, cancel.params)
        error = b'{"code":-32800,"message":"Request cancelled"}'
        target.refuse(request, error)
        unchanged("the answer to a cancelled request", error, (await pending.answer()).error)
        if other.done:
            raise Fault("a request that was not cancelled ended with the one that was")
        target.reply(await target.next("_check/other"), b"{}")
        await other.result()


async def late_cancels(chain: ScriptedChain) -> None:
    """A cancel for a request that is answered, or never was, changes nothing."""
    await chain.initialize()
    for source, target in chain.directions:
        pending = source.request("_check/ask")
        target.reply(await chain.passed(source, target, "_check/ask"), b"1")
        await pending.result()
        for id_ in (pending.id, b"424242", b'"nobody"'):
            source.notify(CANCEL, b'{"requestId":%b}' % id_)
        pending = source.request("_check/after")
        target.reply(await chain.passed(source, target, "_check/after"), b"2")
        unchanged("a result after a late cancel", b"2", await pending.result())


# -- ids on the channel ----------------------------------------------------------------------------


class _Request(NamedTuple):
    """A request on the channel."""

    side: bytes
    id: bytes
    method: str
    mark: bytes
    """Distinguishes it from all others; empty if nothing does."""
    line: bytes


async def kept_ids(chain: ScriptedChain) -> None:
    """Requests of all kinds, both ways: none goes on under another id than it came with."""
    given, made = await _conversation(chain)
    for came, went in _renumbered(given, made):
        raise Fault(
            f"`{came.method}` went on under another id than it came with; "
            "so it counts as a request of the proxy's own",
            came.line,
            went.line,
        )


async def own_ids(chain: ScriptedChain) -> None:
    """The proxy's own requests have strings for ids."""
    given, made = await _conversation(chain)
    # A request that passes under another id is no request of its own: `kept_ids` reports it.
    passed = {(_ACROSS[request.side], request.id, request.method) for request in given}
    renumbered = [went for _, went in _renumbered(given, made)]
    for request in made:
        is_own = request[:3] not in passed and request not in renumbered
        if is_own and request.id[:1] != b'"':
            raise Fault(
                f"`{request.method}`, a request of the proxy's own, has no string for an id; "
                "the conductor may have given that id to a request that passes",
                came=request.line,
            )


async def _conversation(chain: ScriptedChain) -> tuple[list[_Request], list[_Request]]:
    """A conversation with one of everything; the requests the proxy got, and those it made."""
    chain.tap.given = []
    await chain.initialize(b'{"protocolVersion":1,"clientCapabilities":{},%b}' % (_MARK % 0))
    if chain.dialect() != "channel":
        raise Skipped("only over `channel` a request is known by its id")
    setup = b'{"cwd":%b,"mcpServers":[],%b}' % (chain.cwd, _MARK % 1)
    session = session_of(await chain.client.request("session/new", setup).result()) or b"null"
    pending = [
        source.request(f"_check/kept-{number}", b"{%b}" % (_MARK % number))
        for source, _ in chain.directions
        for number in (2, 3)
    ]
    for source, target in chain.directions:
        await chain.settled(source)
        for number in (3, 2):
            for request in target.received(f"_check/kept-{number}"):
                target.reply(request, b"{}")
    for sent in pending:
        await sent.answer()
    text = b'{"type":"text","text":"check"}'
    prompt = b'{"sessionId":%b,"prompt":[%b],%b}' % (session, text, _MARK % 4)
    await chain.client.request("session/prompt", prompt).answer()
    tool = b'"toolCall":{"toolCallId":"t1"},"options":[]'
    permission = b'{"sessionId":%b,%b,%b}' % (session, tool, _MARK % 5)
    await chain.agent.request("session/request_permission", permission).answer()
    return list(_requests(chain.tap.given)), list(_requests(chain.tap.lines))


def _requests(lines: Iterable[bytes]) -> Iterator[_Request]:
    """The requests among lines of the channel, but for the conductor's and the barrier's."""
    for line in lines:
        message = jsonrpc.message_of(line[1:]) if line[:1] in _ACROSS else None
        if message is None or not isinstance(message.method, str):
            continue
        if message.id is msgspec.UNSET or message.method == BARRIER:
            continue
        marked = _MARKED.search(line)
        mark = marked[1] if marked is not None else b""
        if message.method.startswith("_check/"):
            mark = message.method.encode()
        id_ = jsonrpc.canonical_id(message.id) or bytes(message.id)
        yield _Request(line[:1], id_, message.method, mark, line)


def _renumbered(
    given: Iterable[_Request], made: list[_Request]
) -> Iterator[tuple[_Request, _Request]]:
    """Requests that went on, but not under their id: as they came, and as they went."""
    for came in given:
        same = (_ACROSS[came.side], came.method, came.mark)
        went = [sent for sent in made if came.mark and (sent.side, sent.method, sent.mark) == same]
        if went and all(request.id != came.id for request in went):
            yield came, went[0]
