"""What a proxy says besides, what it does without services, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from conductor.author.check.passing import PLAIN, ends, request
from conductor.author.check.scripted_chain import Chain, Fault
from conductor.core import jsonrpc

_SHOWN = 3


async def only_messages(chain: Chain) -> None:
    """Every line it writes is one JSON-RPC message: no batches, nothing else."""
    await chain.initialize()
    for source, target in ends(chain):
        for _ in range(25):
            source.tell("_check/tell", PLAIN)
        asked = [source.ask("_check/ask", b"{}") for _ in range(25)]
        await chain.settled(source)
        for heard in target.heard("_check/ask"):
            target.reply(heard, b"{}")
        for one in asked:
            await one.result()
    assert chain.tap is not None
    line = odd(chain.tap.lines)
    if line is not None:
        raise Fault("it wrote a line that is no message, or a batch of several", came=line)


def odd(lines: Iterable[bytes]) -> bytes | None:
    """The first line that is not one message; None if there is none."""
    return next((line for line in lines if line.strip() and _message(line)[1] is None), None)


def _message(line: bytes) -> tuple[bytes, jsonrpc.Message | None]:
    """The side byte, if there is one (no JSON-RPC message begins with one), and the message."""
    side = line[:1] if line[:1] in (b"p", b"s", b"c") else b""
    try:
        found = jsonrpc.parse(line[len(side) :])
    except jsonrpc.Malformed:
        return side, None
    return side, found if isinstance(found, jsonrpc.Message) else None


async def refused_services(chain: Chain) -> None:
    """Without any service it still passes on what it does not know, and answers prompts."""
    await chain.initialize()
    session = await chain.session()
    prompt = b'{"sessionId":%b,"prompt":[{"type":"text","text":"check"}]}' % session
    await chain.client.ask("session/prompt", prompt).answer()
    await request(chain, chain.client, chain.agent, PLAIN, b"{}")


async def too_large(chain: Chain) -> None:
    """A message beyond its limit is answered with an error, and it lives on."""
    await chain.initialize()
    for source, target in ends(chain):
        answer = await source.ask("_check/large", b'{"x":"%b"}' % (b"y" * 200_000)).answer()
        if answer.error is None:
            raise Fault("a request beyond the limit was not refused", came=answer.result or b"")
        await request(chain, source, target, PLAIN, b"1")


async def too_deep(chain: Chain) -> None:
    """A message nested deeper than its limit is answered with an error, and it lives on."""
    await chain.initialize()
    deep = b'{"x":' + b"[" * 200 + b"]" * 200 + b"}"
    for source, target in ends(chain):
        answer = await source.ask("_check/deep", deep).answer()
        if answer.error is None:
            raise Fault("a request beyond the limit was not refused", came=answer.result or b"")
        await request(chain, source, target, PLAIN, b"1")


async def end_of_input(chain: Chain) -> None:
    """It ends by itself, with exit code 0, when its input ends."""
    await chain.initialize()
    assert chain.tap is not None
    chain.tap.finish()
    await chain.tap.ended_itself.wait()
    how = chain.tap.how
    assert how is not None
    code = how.data.get("exitCode", 0)
    if code != 0:
        said = " | ".join(list(chain.stderr)[-_SHOWN:])
        raise Fault(f"it ended with exit code {code}", "end of input", said or how.text)


async def unasked(chain: Chain) -> None:
    """Nobody gets an answer to what was never asked, or two to one question."""
    await chain.initialize()
    for source, target in ends(chain):
        for _ in range(5):
            await request(chain, source, target, PLAIN, b"{}")
        await chain.settled(target)
    for end in (chain.client, chain.agent):
        if end.unknown:
            raise Fault(f"the {end.name} got an answer to nothing", came=end.unknown[0])
    assert chain.tap is not None
    seen: set[bytes] = set()
    for line in chain.tap.lines:
        side, message = _message(line)
        if message is None or message.id is msgspec.UNSET or message.method is not msgspec.UNSET:
            continue
        answered = side + bytes(message.id)
        if answered in seen:
            raise Fault("one request was answered twice", came=line)
        seen.add(answered)
