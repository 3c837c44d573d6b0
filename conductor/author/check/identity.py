"""What a proxy passes on keeps its id; its own requests have strings. Over `channel` only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from conductor.author.check.ends import BARRIER, session_of
from conductor.author.check.passing import ends
from conductor.author.check.scripted_chain import Chain, Fault, Skipped
from conductor.core import jsonrpc

_OTHER: Final = {b"p": b"s", b"s": b"p"}
_MARK: Final = b'"_meta":{"check.example/kept":%d}'
_MARKED: Final = re.compile(rb'"check\.example/kept"\s*:\s*(\d+)')


class _Asked(NamedTuple):
    """A request on the channel; `mark`: what tells it from others, b"" where nothing does."""

    side: bytes
    id: bytes
    method: str
    mark: bytes
    line: bytes


async def kept_ids(chain: Chain) -> None:
    """Requests of all kinds, both ways: none goes on under another id than it came with."""
    given, said = await _conversation(chain)
    for asked, other in _moved(given, said):
        raise Fault(
            f"`{asked.method}` went on under another id than it came with; "
            "so it counts as a request of the proxy's own",
            asked.line,
            other.line,
        )


async def own_ids(chain: Chain) -> None:
    """What the proxy asks of its own, it asks under strings."""
    given, said = await _conversation(chain)
    # What passes on under another id is the other check's.
    passed = {(_OTHER[one.side], one.id, one.method) for one in given}
    moved = [other for _, other in _moved(given, said)]
    for one in said:
        if one.id[:1] != b'"' and one[:3] not in passed and one not in moved:
            raise Fault(
                f"`{one.method}`, a request of the proxy's own, has no string for an id; "
                "the conductor may have given that id to a request that passes",
                came=one.line,
            )


async def _conversation(chain: Chain) -> tuple[list[_Asked], list[_Asked]]:
    """One of everything; the requests the proxy was given, and those it made."""
    assert chain.tap is not None
    chain.tap.given = []
    await chain.initialize(b'{"protocolVersion":1,"clientCapabilities":{},%b}' % (_MARK % 0))
    if chain.dialect() != "channel":
        raise Skipped("only over `channel` a request is known by its id")
    setup = b'{"cwd":%b,"mcpServers":[],%b}' % (chain.cwd, _MARK % 1)
    opened = await chain.client.ask("session/new", setup).result()
    session = session_of(opened) or b"null"
    asked = [
        source.ask(f"_check/kept-{number}", b"{%b}" % (_MARK % number))
        for source, _ in ends(chain)
        for number in (2, 3)
    ]
    for source, target in ends(chain):
        await chain.settled(source)
        for number in (3, 2):
            for heard in target.heard(f"_check/kept-{number}"):
                target.reply(heard, b"{}")
    for one in asked:
        await one.answer()
    text = b'{"type":"text","text":"check"}'
    prompt = b'{"sessionId":%b,"prompt":[%b],%b}' % (session, text, _MARK % 4)
    await chain.client.ask("session/prompt", prompt).answer()
    tool = b'"toolCall":{"toolCallId":"t1"},"options":[]'
    permission = b'{"sessionId":%b,%b,%b}' % (session, tool, _MARK % 5)
    await chain.agent.ask("session/request_permission", permission).answer()
    return list(_requests(chain.tap.given)), list(_requests(chain.tap.lines))


def _requests(lines: Iterable[bytes]) -> Iterator[_Asked]:
    """The requests among lines of the channel, but for the conductor's and the barrier's."""
    for line in lines:
        try:
            one = jsonrpc.parse(line[1:]) if line[:1] in _OTHER else None
        except jsonrpc.Malformed:
            continue
        if not isinstance(one, jsonrpc.Message) or not isinstance(one.method, str):
            continue
        if one.id is msgspec.UNSET or one.method == BARRIER:
            continue
        found = _MARKED.search(line)
        mark = one.method.encode() if one.method.startswith("_check/") else b""
        mark = found[1] if found is not None and not mark else mark
        id_ = jsonrpc.canonical_id(one.id) or bytes(one.id)
        yield _Asked(line[:1], id_, one.method, mark, line)


def _moved(given: Iterable[_Asked], said: list[_Asked]) -> Iterator[tuple[_Asked, _Asked]]:
    """Requests that went on, and not under their id: as they came, and as they went."""
    for asked in given:
        same = (_OTHER[asked.side], asked.method, asked.mark)
        went = [one for one in said if asked.mark and (one.side, one.method, one.mark) == same]
        if went and all(one.id != asked.id for one in went):
            yield asked, went[0]
