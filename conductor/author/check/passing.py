"""Unknown things pass a proxy unchanged: messages, errors, payloads of any shape."""

from __future__ import annotations

from typing import Final

from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import Fault, Received, ScriptedEnd, shown
from conductor.record import diff

PLAIN: Final = b'{"a":[1,2,{"b":null}],"c":"x","_meta":{"check.example/k":[true,"v"]}}'
NUMBERS: Final = (
    b'{"n":[1.10,1e400,-0,-0.0,12345678901234567890123,9007199254740993,1E+2,0.1e-7,1.0,100]}'
)
STRINGS: Final = (
    rb'{"s":["\ud800","\udc00x","\ud83d\ude00","\u0000","\u2028","\/","\u0041","\b\f\n\r\t"],'
    b'"u":"\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8","\\ud800":1,"":2}'
)
REPEATED: Final = b'{"a":1,"a":2,"b":{"c":[],"c":{}}}'
SPELLED: Final = b'{ "b" : 1.50,\t"a":[ ] , "\\u0063":"\\u0041\\/" }'
_BULK: Final = 256 * 1024


def unchanged(what: str, sent: bytes | None, came: bytes | None) -> None:
    """Raises `Fault` unless both texts hold the same value."""
    if sent is None or came is None:
        if sent is came:
            return
        lost = "was lost" if came is None else "came out of nothing"
        raise Fault(f"{what} {lost}", sent or b"nothing", came or b"nothing")
    if not diff.same(sent, came, exact_numbers=True):
        pairs = enumerate(zip(sent, came, strict=False))
        at = next((at for at, (a, b) in pairs if a != b), min(len(sent), len(came)))
        near = slice(max(0, at - 30), at + 40)
        why = f"{what} changed from byte {at}: {shown(sent[near])} became {shown(came[near])}"
        raise Fault(why, sent, came)


# -- messages --------------------------------------------------------------------------------------


async def round_trip(
    chain: ScriptedChain,
    source: ScriptedEnd,
    target: ScriptedEnd,
    params: bytes | None,
    result: bytes,
) -> Received:
    """One request to the target, its result back; returns the request as the target received it."""
    pending = source.request("_check/ask", params)
    request = await chain.passed(source, target, "_check/ask")
    unchanged(f"the params of a request to the {target.name}", params, request.params)
    if request.id is None:
        raise Fault("a request arrived as a notification", params or b"")
    target.reply(request, result)
    answer = await pending.answer()
    if answer.error is not None:
        raise Fault("a result arrived as an error", result, answer.error)
    unchanged(f"the result for the {source.name}", result, answer.result)
    return request


async def _notification(
    chain: ScriptedChain, source: ScriptedEnd, target: ScriptedEnd, params: bytes | None
) -> None:
    source.notify("_check/tell", params)
    message = await chain.passed(source, target, "_check/tell")
    unchanged(f"the params of a notification to the {target.name}", params, message.params)
    if message.id is not None:
        raise Fault("a notification arrived as a request", params or b"")


async def requests(chain: ScriptedChain) -> None:
    """Requests with all kinds of params, and their results."""
    await chain.initialize()
    for source, target in chain.directions:
        for params in (PLAIN, b"{}", b"[1,[2]]", None):
            result = b'{"r":[0,{"s":"t"}],"_meta":{"m":1}}'
            await round_trip(chain, source, target, params, result)
        for result in (b"null", b"7", b'"text"', b"[]"):
            await round_trip(chain, source, target, PLAIN, result)


async def notifications(chain: ScriptedChain) -> None:
    """Notifications with all kinds of params."""
    await chain.initialize()
    for source, target in chain.directions:
        for params in (PLAIN, b"{}", b"[3]", None):
            await _notification(chain, source, target, params)


async def errors(chain: ScriptedChain) -> None:
    """Errors: code, message, data and whatever else they have."""
    await chain.initialize()
    for source, target in chain.directions:
        for error in (
            b'{"code":-32603,"message":"broken","data":{"a":[1]}}',
            b'{"code":77,"message":"","data":null}',
            b'{"code":-32601,"message":"Method not found"}',
        ):
            pending = source.request("_check/fail", PLAIN)
            target.refuse(await chain.passed(source, target, "_check/fail"), error)
            answer = await pending.answer()
            if answer.error is None:
                raise Fault("an error arrived as a result", error, answer.result or b"")
            unchanged("an error", error, answer.error)


async def unknown_updates(chain: ScriptedChain) -> None:
    """Kinds of updates, and methods, that no version of ACP has yet."""
    await chain.initialize()
    session = await chain.session()
    update = b'{"sessionId":%b,"update":{"sessionUpdate":"check_kind","x":{"y":[1]}}}' % session
    chain.agent.notify("session/update", update)
    message = await chain.passed(chain.agent, chain.client, "session/update")
    unchanged("an update of an unknown kind", update, message.params)
    params = b'{"sessionId":%b,"z":1}' % session
    pending = chain.client.request("session/check_future", params)
    chain.agent.hold("session/check_future")
    request = await chain.passed(chain.client, chain.agent, "session/check_future")
    unchanged("the params of an unknown ACP method", params, request.params)
    chain.agent.reply(request, b"{}")
    await pending.result()


async def meta(chain: ScriptedChain) -> None:
    """`_meta` of others survives, also in messages that a proxy may change."""
    await chain.initialize()
    mark = b'"_meta":{"traceparent":"00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01"}'
    setup = b'{"cwd":%b,"mcpServers":[],%b}' % (chain.cwd, mark)
    chain.agent.hold("session/new")
    pending = chain.client.request("session/new", setup)
    request = await chain.agent.next("session/new")
    _has_meta("session/new", mark, setup, request.params)
    result = b'{"sessionId":"check-meta",%b}' % mark
    chain.agent.reply(request, result)
    _has_meta("the answer to session/new", mark, result, await pending.result())
    update = b'{"sessionId":"check-meta","update":{"sessionUpdate":"plan","entries":[]},%b}' % mark
    chain.agent.notify("session/update", update)
    message = await chain.passed(chain.agent, chain.client, "session/update")
    _has_meta("session/update", mark, update, message.params)


def _has_meta(what: str, mark: bytes, sent: bytes, came: bytes | None) -> None:
    # Only the value: a proxy may add members of its own to `_meta`, and space.
    if mark.partition(b'"traceparent":')[2].rstrip(b"}") not in (came or b""):
        raise Fault(f"`_meta` of {what} was lost", sent, came or b"")


# -- payloads --------------------------------------------------------------------------------------


async def numbers(chain: ScriptedChain) -> None:
    """Numbers pass as they are written."""
    await _both_ways(chain, NUMBERS)


async def strings(chain: ScriptedChain) -> None:
    """Strings pass: lone surrogates, control characters, everything beyond."""
    await _both_ways(chain, STRINGS)


async def repeated(chain: ScriptedChain) -> None:
    """Names that stand twice in an object."""
    await _both_ways(chain, REPEATED)


async def deep(chain: ScriptedChain) -> None:
    """Arrays and objects within each other, as deep as guests may be given."""
    await _both_ways(chain, b'{"a":' * 50 + b"[" * 50 + b"]" * 50 + b"}" * 50)


async def large(chain: ScriptedChain) -> None:
    """One megabyte."""
    await _both_ways(chain, b'{"text":"%b"}' % (b"0123456789abcdef" * 65536))


async def very_large(chain: ScriptedChain) -> None:
    """Ten megabytes."""
    await _both_ways(chain, b'{"text":"%b"}' % (b"0123456789abcdef" * 655360))


async def _both_ways(chain: ScriptedChain, text: bytes) -> None:
    await chain.initialize()
    for source, target in chain.directions:
        await round_trip(chain, source, target, text, text)
        await _notification(chain, source, target, text)


async def bytes_kept(chain: ScriptedChain) -> None:
    """The very bytes: spacing, escapes, the order of members."""
    await chain.initialize()
    for source, target in chain.directions:
        for text in (SPELLED, NUMBERS, STRINGS):
            source.notify("_check/bytes", text)
            came = (await chain.passed(source, target, "_check/bytes")).params
            if came != text:
                why = "params were rewritten: their values are the same, their bytes are not"
                raise Fault(why, text, came or b"")


async def kept_memory(chain: ScriptedChain) -> None:
    """More passes than fits into its memory."""
    await chain.initialize()
    text = b'{"text":"%b"}' % (b"x" * _BULK)
    for number in range(chain.memory * 5 // 4 // _BULK):
        chain.client.notify("_check/bulk", text)
        if number % 16 == 15:  # else all of it would be in our own memory at once
            await chain.settled(chain.client)
            while chain.agent.take("_check/bulk") is not None:
                pass
    await chain.settled(chain.client)
