"""Payloads that a careless proxy damages: numbers, strings, repeated names, depth, size."""

from __future__ import annotations

from typing import Final

from conductor.author.check.passing import ends, request, unchanged
from conductor.author.check.scripted_chain import Chain, Fault

NUMBERS = b'{"n":[1.10,1e400,-0,-0.0,12345678901234567890123,9007199254740993,1E+2,0.1e-7,1.0,100]}'
STRINGS = (
    rb'{"s":["\ud800","\udc00x","\ud83d\ude00","\u0000","\u2028","\/","\u0041","\b\f\n\r\t"],'
    b'"u":"\xc3\xa9 \xf0\x9f\x98\x80 \xe2\x80\xa8","\\ud800":1,"":2}'
)
REPEATED = b'{"a":1,"a":2,"b":{"c":[],"c":{}}}'
SPELLED = b'{ "b" : 1.50,\t"a":[ ] , "\\u0063":"\\u0041\\/" }'


async def numbers(chain: Chain) -> None:
    """Numbers pass as they are written."""
    await _both_ways(chain, NUMBERS)


async def strings(chain: Chain) -> None:
    """Strings pass: lone surrogates, control characters, everything beyond."""
    await _both_ways(chain, STRINGS)


async def repeated(chain: Chain) -> None:
    """Names that stand twice in an object."""
    await _both_ways(chain, REPEATED)


async def deep(chain: Chain) -> None:
    """Arrays and objects within each other, as deep as guests may be given."""
    await _both_ways(chain, b'{"a":' * 50 + b"[" * 50 + b"]" * 50 + b"}" * 50)


async def bytes_kept(chain: Chain) -> None:
    """The very bytes: spacing, escapes, the order of members."""
    await chain.initialize()
    for source, target in ends(chain):
        for text in (SPELLED, NUMBERS, STRINGS):
            source.tell("_check/bytes", text)
            came = (await chain.passed(source, target, "_check/bytes")).params
            if came != text:
                raise Fault("params were written anew: the values are there, the bytes not",
                            text, came or b"")  # fmt: skip


async def large(chain: Chain) -> None:
    """One megabyte, both ways, as params, result and update."""
    text = b'{"text":"%b"}' % (b"0123456789abcdef" * 65536)
    await _both_ways(chain, text)


async def very_large(chain: Chain) -> None:
    """Ten megabytes."""
    text = b'{"text":"%b"}' % (b"0123456789abcdef" * 655360)
    await _both_ways(chain, text)


async def _both_ways(chain: Chain, text: bytes) -> None:
    await chain.initialize()
    for source, target in ends(chain):
        await request(chain, source, target, text, text)
        source.tell("_check/tell", text)
        heard = await chain.passed(source, target, "_check/tell")
        unchanged(f"the params of a notification to the {target.name}", text, heard.params)


_CHUNK: Final = 256 * 1024


async def kept_memory(chain: Chain) -> None:
    """More passes than fits into its memory."""
    await chain.initialize()
    text = b'{"text":"%b"}' % (b"x" * _CHUNK)
    for number in range(chain.memory * 5 // 4 // _CHUNK):
        chain.client.tell("_check/bulk", text)
        if number % 16 == 15:
            await chain.settled(chain.client)
            while chain.agent.take("_check/bulk") is not None:
                pass
    await chain.settled(chain.client)
