"""ACP as far as every proxy meets it: initialize, turns, sessions side by side, replays."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from conductor.author.check.ends import Asked
from conductor.author.check.passing import unchanged
from conductor.author.check.scripted_chain import Chain, Fault, Heard, Skipped

_MARK = b"check.example/n"
_MARKED = re.compile(_MARK + rb'"\s*:\s*(\d+)')
_HELLO = b"the prompt of the check"
_PROMPT = b'[{"type":"text","text":"%b"}]' % _HELLO


async def handshake(chain: Chain) -> None:
    """`initialize` goes on to the agent, and its answer comes back."""
    await chain.client.opened()
    chain.agent.hold("initialize")
    params = (
        b'{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true},'
        b'"checkCapability":{"a":1}},"clientInfo":{"name":"check","version":"1"},'
        b'"_meta":{"check.example/m":1}}'
    )
    asked = chain.client.ask("initialize", params)
    heard = await chain.agent.next("initialize")
    for piece in (b'"protocolVersion":1', b'"checkCapability":{"a":1}', b"check.example/m"):
        _has("the agent was not told in `initialize`", piece, params, heard.params)
    result = (
        b'{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"checkCapability":[2]},'
        b'"agentInfo":{"name":"checker","version":"1"},"authMethods":[],'
        b'"_meta":{"check.example/r":1}}'
    )
    chain.agent.reply(heard, result)
    came = await asked.result()
    if chain.dialect() == "scp":
        raise Skipped("in its dialect a proxy answers `initialize` before its successor does")
    for piece in (b'"protocolVersion":1', b'"checkCapability":[2]', b"check.example/r"):
        _has("the client was not told in the answer to `initialize`", piece, result, came)
    await chain.settled(chain.client)


def _has(what: str, piece: bytes, sent: bytes, came: bytes | None) -> None:
    if piece not in (came or b"").replace(b" ", b""):
        raise Fault(f"{what}: {piece.decode()}", sent, came or b"")


async def refused_initialize(chain: Chain) -> None:
    """An agent that refuses `initialize` is heard, and may be asked again."""
    await chain.client.opened()
    chain.agent.hold("initialize")
    params = b'{"protocolVersion":1,"clientCapabilities":{}}'
    asked = chain.client.ask("initialize", params)
    heard = await chain.agent.next("initialize")
    if chain.dialect() in ("scp", ""):  # of all others it is known by now
        raise Skipped("in its dialect a proxy answers `initialize` before its successor does")
    error = b'{"code":-32000,"message":"not now","data":{"retry":true}}'
    chain.agent.refuse(heard, error)
    answer = await asked.answer()
    if answer.error is None:
        raise Fault("the agent's refusal arrived as a result", error, answer.result or b"")
    unchanged("the agent's refusal of `initialize`", error, answer.error)


async def _begun(chain: Chain) -> tuple[bytes, Asked, Heard]:
    """A turn that the agent holds: its session, the prompt as it was asked, and as it arrived."""
    await chain.initialize()
    session = await chain.session()
    chain.agent.hold("session/prompt", session, _HELLO)
    asked = chain.client.ask("session/prompt", b'{"sessionId":%b,"prompt":%b}' % (session, _PROMPT))
    return session, asked, await _reaches(chain, asked.answer, "session/prompt")


async def turn(chain: Chain) -> None:
    """A prompt reaches the agent, updates the client, and the answer comes last."""
    session, asked, heard = await _begun(chain)
    if heard.session != session:
        raise Fault(
            "the prompt reached the agent in another session", session, heard.session or b""
        )
    for number in range(20):
        chain.agent.tell("session/update", _update(session, number))
    chain.agent.reply(heard, b'{"stopReason":"end_turn","usage":{"checkTokens":7}}')
    result = await asked.result()
    _has("the answer to the prompt lost", b'"end_turn"', b'{"stopReason":"end_turn"}', result)
    _complete(chain, session, 20, "before the end of its turn")


def _update(session: bytes, number: int) -> bytes:
    return (
        b'{"sessionId":%b,"update":{"sessionUpdate":"agent_message_chunk",'
        b'"content":{"type":"text","text":"chunk %d "}},"_meta":{"%b":%d}}'
        % (session, number, _MARK, number)
    )


def _complete(chain: Chain, session: bytes, many: int, when: str) -> None:
    """Raises `Fault` unless these updates are all there, in order; others may be among them."""
    updates = [one for one in chain.client.heard("session/update") if one.session == session]
    marked = [one for one in updates if _MARK in (one.params or b"")]
    found = [_MARKED.search(one.params or b"") for one in marked]
    came = [int(one[1]) for one in found if one is not None]
    if came == list(range(many)):
        return
    if len(updates) >= many and len(marked) < many:
        raise Skipped("it writes text updates anew, so they cannot be told apart")
    raise Fault(
        f"updates did not all arrive {when}, in order",
        f"0 to {many - 1}",
        ", ".join(map(str, came)) or "none",
    )


async def _reaches(chain: Chain, answer: Callable[[], Awaitable[Heard]], method: str) -> Heard:
    """The request at the agent. Raises `Skipped` if the component answers it by itself."""
    arrival = asyncio.get_running_loop().create_task(chain.agent.next(method))
    answered = asyncio.get_running_loop().create_task(_awaited(answer))
    try:
        await asyncio.wait({arrival, answered}, return_when=asyncio.FIRST_COMPLETED)
        if arrival.done():
            return arrival.result()
        heard: Heard = answered.result()
        if heard.error is not None and b"is not granted to" in heard.error:
            raise Skipped(
                f"it refuses `{method}` without a service it was not granted; "
                "grant it: `conductor check COMPONENT,grant=SERVICE`"
            )
        if heard.error is not None:
            raise Fault(f"`{method}` was refused and never reached the agent", came=heard.error)
        raise Skipped(f"it answers `{method}` by itself, or asks the agent something else instead")
    finally:
        for task in (arrival, answered):
            task.cancel()
        await asyncio.gather(arrival, answered, return_exceptions=True)


async def _awaited(answer: Callable[[], Awaitable[Heard]]) -> Heard:
    return await answer()


async def side_by_side(chain: Chain) -> None:
    """Two sessions at once: what belongs to one never appears in the other."""
    await chain.initialize()
    sessions = [await chain.session(), await chain.session()]
    if sessions[0] == sessions[1]:
        raise Fault("two sessions were given the same id", came=sessions[0])
    for session in sessions:
        chain.agent.hold("session/prompt", session, _HELLO)
    asked = [
        chain.client.ask("session/prompt", b'{"sessionId":%b,"prompt":%b}' % (one, _PROMPT))
        for one in sessions
    ]
    first = await _reaches(chain, asked[0].answer, "session/prompt")
    second = await _reaches(chain, asked[1].answer, "session/prompt")
    held = {first.session: first, second.session: second}
    if set(held) != set(sessions):
        raise Fault("prompts reached the agent in other sessions")
    for number in range(10):
        for session in sessions:
            chain.agent.tell("session/update", _update(session, number))
    for session, reason in zip(reversed(sessions), (b"refusal", b"end_turn"), strict=True):
        chain.agent.reply(held[session], b'{"stopReason":"%b"}' % reason)
    for one, reason in zip(asked, (b'"end_turn"', b'"refusal"'), strict=True):
        _has("a turn ended with another's answer", reason, reason, await one.result())
    for session in sessions:
        _complete(chain, session, 10, "in their own session")


async def cancelled_turn(chain: Chain) -> None:
    """`session/cancel` reaches the agent while a turn is running."""
    session, asked, heard = await _begun(chain)
    params = b'{"sessionId":%b}' % session
    chain.client.tell("session/cancel", params)
    told = await chain.passed(chain.client, chain.agent, "session/cancel")
    if told.session != session:
        raise Fault("`session/cancel` is about another session", params, told.params or b"")
    chain.agent.reply(heard, b'{"stopReason":"cancelled"}')
    _has("the cancelled turn ended otherwise", b'"cancelled"', b"", await asked.result())


async def replay(chain: Chain) -> None:
    """`session/load`: the agent tells the conversation again, then answers."""
    await chain.initialize()
    chain.agent.hold("session/load")
    params = b'{"sessionId":"check-old","cwd":%b,"mcpServers":[]}' % chain.cwd
    asked = chain.client.ask("session/load", params)
    heard = await _reaches(chain, asked.answer, "session/load")
    if heard.session != b'"check-old"':
        raise Fault(
            "`session/load` reached the agent for another session", params, heard.params or b""
        )
    for number in range(30):
        chain.agent.tell("session/update", _update(b'"check-old"', number))
    chain.agent.reply(heard, b"{}")
    await asked.result()
    _complete(chain, b'"check-old"', 30, "before the answer to `session/load`")


async def permission(chain: Chain) -> None:
    """A permission request reaches the user as the agent made it, and the answer the agent."""
    await chain.initialize()
    session = await chain.session()
    chain.client.hold("session/request_permission")
    params = (
        b'{"sessionId":%b,"toolCall":{"toolCallId":"t1","title":"check"},"options":['
        b'{"optionId":"y","name":"Allow","kind":"allow_once"},'
        b'{"optionId":"n","name":"Reject","kind":"reject_once"}]}' % session
    )
    asked = chain.agent.ask("session/request_permission", params)
    heard = await _at_client(chain, asked.answer)
    options = [piece in (heard.params or b"") for piece in (b'"reject_once"', b'"t1"')]
    if not all(options):
        raise Fault("the user cannot refuse, or not this", params, heard.params or b"")
    result = b'{"outcome":{"outcome":"selected","optionId":"n"}}'
    chain.client.reply(heard, result)
    unchanged("the user's refusal", result, await asked.result())


async def _at_client(chain: Chain, answer: Callable[[], Awaitable[Heard]]) -> Heard:
    arrival = asyncio.get_running_loop().create_task(
        chain.client.next("session/request_permission")
    )
    answered = asyncio.get_running_loop().create_task(_awaited(answer))
    try:
        await asyncio.wait({arrival, answered}, return_when=asyncio.FIRST_COMPLETED)
        if arrival.done():
            return arrival.result()
        heard: Heard = answered.result()
        said = heard.result or heard.error or b""
        if b'"n"' in said or b"cancelled" in said or heard.error is not None:
            raise Skipped("it refuses permissions by itself")
        raise Fault("it gave a permission that only the user can give", came=said)
    finally:
        for task in (arrival, answered):
            task.cancel()
        await asyncio.gather(arrival, answered, return_exceptions=True)
