"""Ids, order and cancellation: what a proxy owes to the requests it holds."""

from __future__ import annotations

from conductor.author.check.passing import ends, unchanged
from conductor.author.check.scripted_chain import Chain, End, Fault, Heard

_CANCEL = "$/cancel_request"


async def concurrent(chain: Chain) -> None:
    """Many requests are open on both sides at once and are answered in another order."""
    await chain.initialize()
    many = 40
    asked = {
        source.name: [source.ask("_check/open", b'{"n":%d}' % n) for n in range(many)]
        for source, _ in ends(chain)
    }
    for source, target in ends(chain):
        await chain.settled(source)
        heard = target.heard("_check/open")
        if len(heard) != many:
            raise Fault(f"of {many} open requests {len(heard)} reached the {target.name}")
        ids = {one.id for one in heard}
        if len(ids) != many:
            raise Fault("two open requests have the same id", f"{many} requests", f"{len(ids)} ids")
        for waiting in reversed(heard):
            target.reply(waiting, waiting.params or b"null")
    for source, _ in ends(chain):
        for number, one in enumerate(asked[source.name]):
            sent = b'{"n":%d}' % number
            unchanged("the answer to one of many open requests", sent, await one.result())


async def same_ids(chain: Chain) -> None:
    """The client and the agent use the same ids; strings, null and large numbers are ids too."""
    await chain.initialize()
    for number in (b"0", b"-7", b'"7"', b'"\\u00e9\\"x"', b"9007199254740993", b'""', b"null"):
        asked = [
            (
                source,
                target,
                source.ask("_check/id", b'{"from":"%b"}' % source.name.encode(), number),
            )
            for source, target in ends(chain)
        ]
        for source, target, _ in asked:
            heard = await chain.passed(source, target, "_check/id")
            target.reply(heard, b'{"by":"%b"}' % target.name.encode())
        for _, target, one in asked:
            unchanged(
                f"the answer to the request with id {number.decode()}",
                b'{"by":"%b"}' % target.name.encode(),
                await one.result(),
            )


async def order(chain: Chain) -> None:
    """Requests and notifications of one direction stay in order, answers among them."""
    await chain.initialize()
    for source, target in ends(chain):
        many = 200
        for number in range(many):
            params = b'{"n":%d,"pad":"%b"}' % (number, b"x" * (number * 37 % 500))
            source.tell("_check/order", params)
        await chain.settled(source)
        came = [_number(one) for one in target.heard("_check/order")]
        if came != list(range(many)):
            raise Fault(
                f"{many} notifications to the {target.name} arrived in another order, or not all",
                f"0 to {many - 1}",
                f"{len(came)}: {', '.join(map(str, came[:40]))} …",
            )
    await _answer_last(chain, chain.client, chain.agent)
    await _answer_last(chain, chain.agent, chain.client)


async def _answer_last(chain: Chain, source: End, target: End) -> None:
    """What was said before the answer arrives before the answer."""
    del chain
    asked = source.ask("_check/turn")
    heard = await target.next("_check/turn")
    for number in range(50):
        target.tell("_check/update", b'{"n":%d}' % number)
    target.reply(heard, b"{}")
    await asked.answer()
    came = len(source.heard("_check/update"))
    if came != 50:
        raise Fault(
            f"the answer overtook notifications on their way to the {source.name}",
            "50 notifications, then the answer",
            f"{came} of them, then the answer",
        )


def _number(heard: Heard) -> int:
    return int((heard.params or b"").partition(b'"n":')[2].partition(b",")[0])


async def cancellation(chain: Chain) -> None:
    """`$/cancel_request` reaches whoever works on the request, under the id it has there."""
    await chain.initialize()
    for source, target in ends(chain):
        other = source.ask("_check/other")
        asked = source.ask("_check/long")
        held = await chain.passed(source, target, "_check/long")
        source.tell(_CANCEL, b'{"requestId":%b}' % asked.id)
        heard = await chain.passed(source, target, _CANCEL)
        expected = b'{"requestId":%b}' % (held.id or b"")
        unchanged(f"the cancel for the {target.name}", expected, heard.params)
        error = b'{"code":-32800,"message":"Request cancelled"}'
        target.refuse(held, error)
        answer = await asked.answer()
        unchanged("the answer to a cancelled request", error, answer.error)
        if other.done:
            raise Fault("a request that was not cancelled ended with the one that was")
        target.reply(await target.next("_check/other"), b"{}")
        await other.result()


async def late_cancels(chain: Chain) -> None:
    """A cancel for what is over, or never was, changes nothing."""
    await chain.initialize()
    for source, target in ends(chain):
        asked = source.ask("_check/ask")
        target.reply(await chain.passed(source, target, "_check/ask"), b"1")
        await asked.result()
        for number in (asked.id, b"424242", b'"nobody"'):
            source.tell(_CANCEL, b'{"requestId":%b}' % number)
        asked = source.ask("_check/after")
        target.reply(await chain.passed(source, target, "_check/after"), b"2")
        unchanged("a result after a late cancel", b"2", await asked.result())
