"""What a proxy does not know passes it: requests, notifications, answers, both ways."""

from __future__ import annotations

from conductor.author.check import values
from conductor.author.check.scripted_chain import Chain, End, Fault, Heard

PLAIN = b'{"a":[1,2,{"b":null}],"c":"x","_meta":{"check.example/k":[true,"v"]}}'


def unchanged(what: str, sent: bytes | None, came: bytes | None) -> None:
    """Raises `Fault` unless both say the same."""
    if sent == came or (sent is not None and came is not None and values.same(sent, came)):
        return
    if sent is None or came is None:
        lost = "was lost" if came is None else "came out of nothing"
        raise Fault(f"{what} {lost}", sent or b"nothing", came or b"nothing")
    raise Fault(f"{what} changed {values.parted(sent, came)}", sent, came)


def ends(chain: Chain) -> tuple[tuple[End, End], tuple[End, End]]:
    """Down and up: who says something, and who hears it."""
    return (chain.client, chain.agent), (chain.agent, chain.client)


async def requests(chain: Chain) -> None:
    """Requests with all kinds of params, and their results."""
    await chain.initialize()
    for source, target in ends(chain):
        for params in (PLAIN, b"{}", b"[1,[2]]", None):
            await request(chain, source, target, params, b'{"r":[0,{"s":"t"}],"_meta":{"m":1}}')
        for result in (b"null", b"7", b'"text"', b"[]"):
            await request(chain, source, target, PLAIN, result)


async def request(
    chain: Chain, source: End, target: End, params: bytes | None, result: bytes
) -> Heard:
    """One request there, its result back; what the target heard."""
    asked = source.ask("_check/ask", params)
    heard = await chain.passed(source, target, "_check/ask")
    unchanged(f"the params of a request to the {target.name}", params, heard.params)
    if heard.id is None:
        raise Fault("a request arrived as a notification", params or b"")
    target.reply(heard, result)
    answer = await asked.answer()
    if answer.error is not None:
        raise Fault("a result arrived as an error", result, answer.error)
    unchanged(f"the result for the {source.name}", result, answer.result)
    return heard


async def notifications(chain: Chain) -> None:
    """Notifications, both ways."""
    await chain.initialize()
    for source, target in ends(chain):
        for params in (PLAIN, b"{}", b"[3]", None):
            source.tell("_check/tell", params)
            heard = await chain.passed(source, target, "_check/tell")
            unchanged(f"the params of a notification to the {target.name}", params, heard.params)
            if heard.id is not None:
                raise Fault("a notification arrived as a request", params or b"")


async def errors(chain: Chain) -> None:
    """Errors, both ways: code, message, data and what else they have."""
    await chain.initialize()
    for source, target in ends(chain):
        for error in (
            b'{"code":-32603,"message":"broken","data":{"a":[1]}}',
            b'{"code":77,"message":"","data":null}',
            b'{"code":-32601,"message":"Method not found"}',
        ):
            asked = source.ask("_check/fail", PLAIN)
            heard = await chain.passed(source, target, "_check/fail")
            target.refuse(heard, error)
            answer = await asked.answer()
            if answer.error is None:
                raise Fault("an error arrived as a result", error, answer.result or b"")
            unchanged("an error", error, answer.error)


async def unknown_updates(chain: Chain) -> None:
    """Kinds of updates, and methods, that no version of ACP has yet."""
    await chain.initialize()
    session = await chain.session()
    update = b'{"sessionId":%b,"update":{"sessionUpdate":"check_kind","x":{"y":[1]}}}' % session
    chain.agent.tell("session/update", update)
    heard = await chain.passed(chain.agent, chain.client, "session/update")
    unchanged("an update of an unknown kind", update, heard.params)
    params = b'{"sessionId":%b,"z":1}' % session
    asked = chain.client.ask("session/check_future", params)
    chain.agent.hold("session/check_future")
    heard = await chain.passed(chain.client, chain.agent, "session/check_future")
    unchanged("the params of an unknown ACP method", params, heard.params)
    chain.agent.reply(heard, b"{}")
    await asked.result()


async def meta(chain: Chain) -> None:
    """`_meta` of others survives, also in messages a proxy may change."""
    await chain.initialize()
    mark = b'"_meta":{"traceparent":"00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01"}'
    setup = b'{"cwd":%b,"mcpServers":[],%b}' % (chain.cwd, mark)
    chain.agent.hold("session/new")
    opening = chain.client.ask("session/new", setup)
    heard = await chain.agent.next("session/new")
    _carries("session/new", mark, setup, heard.params)
    result = b'{"sessionId":"check-meta",%b}' % mark
    chain.agent.reply(heard, result)
    _carries("the answer to session/new", mark, result, await opening.result())
    update = b'{"sessionId":"check-meta","update":{"sessionUpdate":"plan","entries":[]},%b}' % mark
    chain.agent.tell("session/update", update)
    heard = await chain.passed(chain.agent, chain.client, "session/update")
    _carries("session/update", mark, update, heard.params)


def _carries(what: str, mark: bytes, sent: bytes, came: bytes | None) -> None:
    if mark.partition(b'"traceparent":')[2].rstrip(b"}") not in (came or b""):
        raise Fault(f"`_meta` of {what} was lost", sent, came or b"")
