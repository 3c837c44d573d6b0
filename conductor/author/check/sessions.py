"""ACP as far as every proxy meets it: initialize, turns, sessions side by side, replays."""

from __future__ import annotations

import re
from typing import Final

from conductor.author.check.passing import unchanged
from conductor.author.check.scripted_chain import ScriptedChain, first
from conductor.author.check.scripted_end import Fault, Received, ScriptedRequest, Skipped

_MARK: Final = b"check.example/n"
_MARKED: Final = re.compile(_MARK + rb'"\s*:\s*(\d+)')
_HELLO: Final = b"the prompt of the check"
_PROMPT: Final = b'[{"type":"text","text":"%b"}]' % _HELLO


async def handshake(chain: ScriptedChain) -> None:
    """`initialize` goes on to the agent, and its answer comes back."""
    await chain.client.opened()
    chain.agent.hold("initialize")
    params = (
        b'{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true},'
        b'"checkCapability":{"a":1}},"clientInfo":{"name":"check","version":"1"},'
        b'"_meta":{"check.example/m":1}}'
    )
    pending = chain.client.request("initialize", params)
    request = await chain.agent.next("initialize")
    for piece in (b'"protocolVersion":1', b'"checkCapability":{"a":1}', b"check.example/m"):
        _has("`initialize` reached the agent without", piece, params, request.params)
    result = (
        b'{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"checkCapability":[2]},'
        b'"agentInfo":{"name":"checker","version":"1"},"authMethods":[],'
        b'"_meta":{"check.example/r":1}}'
    )
    chain.agent.reply(request, result)
    came = await pending.result()
    if chain.dialect() == "scp":
        raise Skipped("in its dialect a proxy answers `initialize` before its successor does")
    for piece in (b'"protocolVersion":1', b'"checkCapability":[2]', b"check.example/r"):
        _has("the answer to `initialize` reached the client without", piece, result, came)
    await chain.settled(chain.client)


def _has(what: str, piece: bytes, sent: bytes, came: bytes | None) -> None:
    if piece not in (came or b"").replace(b" ", b""):
        raise Fault(f"{what}: {piece.decode()}", sent, came or b"")


async def refused_initialize(chain: ScriptedChain) -> None:
    """An agent's refusal of `initialize` reaches the client as it is."""
    await chain.client.opened()
    chain.agent.hold("initialize")
    params = b'{"protocolVersion":1,"clientCapabilities":{}}'
    pending = chain.client.request("initialize", params)
    request = await chain.agent.next("initialize")
    if chain.dialect() in ("scp", ""):  # of all others it is known by now
        raise Skipped("in its dialect a proxy answers `initialize` before its successor does")
    error = b'{"code":-32000,"message":"not now","data":{"retry":true}}'
    chain.agent.refuse(request, error)
    answer = await pending.answer()
    if answer.error is None:
        raise Fault("the agent's refusal arrived as a result", error, answer.result or b"")
    unchanged("the agent's refusal of `initialize`", error, answer.error)


async def _open_turn(chain: ScriptedChain) -> tuple[bytes, ScriptedRequest, Received]:
    """A turn that the agent holds: its session, the prompt as it was sent, and as it arrived."""
    await chain.initialize()
    session = await chain.session()
    chain.agent.hold("session/prompt", session, _HELLO)
    prompt = b'{"sessionId":%b,"prompt":%b}' % (session, _PROMPT)
    pending = chain.client.request("session/prompt", prompt)
    return session, pending, await at_agent(chain, pending, "session/prompt")


async def turn(chain: ScriptedChain) -> None:
    """A prompt reaches the agent, updates the client, and the answer comes last."""
    session, pending, request = await _open_turn(chain)
    if request.session != session:
        raise Fault(
            "the prompt reached the agent in another session", session, request.session or b""
        )
    for number in range(20):
        chain.agent.notify("session/update", _update(session, number))
    chain.agent.reply(request, b'{"stopReason":"end_turn","usage":{"checkTokens":7}}')
    result = await pending.result()
    _has("the answer to the prompt lost", b'"end_turn"', b'{"stopReason":"end_turn"}', result)
    _complete(chain, session, 20, "before the end of its turn")


def _update(session: bytes, number: int) -> bytes:
    return (
        b'{"sessionId":%b,"update":{"sessionUpdate":"agent_message_chunk",'
        b'"content":{"type":"text","text":"chunk %d "}},"_meta":{"%b":%d}}'
        % (session, number, _MARK, number)
    )


def _complete(chain: ScriptedChain, session: bytes, many: int, when: str) -> None:
    """Raises `Fault` unless these updates are all there, in order; others may be among them."""
    received = chain.client.received("session/update")
    updates = [message.params or b"" for message in received if message.session == session]
    marked = [params for params in updates if _MARK in params]
    came = [int(number[1]) for number in map(_MARKED.search, marked) if number is not None]
    if came == list(range(many)):
        return
    if len(updates) >= many and len(marked) < many:
        raise Skipped("it rewrites text updates, so the check cannot tell them apart")
    raise Fault(
        f"updates did not all arrive {when}, in order",
        f"0 to {many - 1}",
        ", ".join(map(str, came)) or "none",
    )


async def at_agent(chain: ScriptedChain, pending: ScriptedRequest, method: str) -> Received:
    """The request at the agent. Raises `Skipped` if the component answers it by itself."""
    message = await first(chain.agent.next(method), pending.answer())
    if message.method is not None:
        return message
    if message.error is not None and b"is not granted to" in message.error:
        raise Skipped(
            f"it refuses `{method}` without a service it was not granted; "
            "allow it: `conductor test COMPONENT,allow=SERVICE`"
        )
    if message.error is not None:
        raise Fault(f"`{method}` was refused and never reached the agent", came=message.error)
    raise Skipped(f"it answers `{method}` by itself, or asks the agent something else instead")


async def side_by_side(chain: ScriptedChain) -> None:
    """Two sessions at once: the content of one never appears in the other."""
    await chain.initialize()
    sessions = [await chain.session(), await chain.session()]
    if sessions[0] == sessions[1]:
        raise Fault("two sessions were given the same id", came=sessions[0])
    for session in sessions:
        chain.agent.hold("session/prompt", session, _HELLO)
    pending = [
        chain.client.request("session/prompt", b'{"sessionId":%b,"prompt":%b}' % (session, _PROMPT))
        for session in sessions
    ]
    requests = [await at_agent(chain, prompt, "session/prompt") for prompt in pending]
    held = {request.session: request for request in requests}
    if set(held) != set(sessions):
        raise Fault("prompts reached the agent in other sessions")
    for number in range(10):
        for session in sessions:
            chain.agent.notify("session/update", _update(session, number))
    for session, reason in zip(reversed(sessions), (b"refusal", b"end_turn"), strict=True):
        chain.agent.reply(held[session], b'{"stopReason":"%b"}' % reason)
    for prompt, reason in zip(pending, (b'"end_turn"', b'"refusal"'), strict=True):
        _has("a turn ended with another's answer", reason, reason, await prompt.result())
    for session in sessions:
        _complete(chain, session, 10, "in their own session")


async def cancelled_turn(chain: ScriptedChain) -> None:
    """`session/cancel` reaches the agent while a turn is running."""
    session, pending, request = await _open_turn(chain)
    params = b'{"sessionId":%b}' % session
    chain.client.notify("session/cancel", params)
    cancel = await chain.passed(chain.client, chain.agent, "session/cancel")
    if cancel.session != session:
        raise Fault("`session/cancel` is about another session", params, cancel.params or b"")
    chain.agent.reply(request, b'{"stopReason":"cancelled"}')
    _has("the cancelled turn ended otherwise", b'"cancelled"', b"", await pending.result())


async def replay(chain: ScriptedChain) -> None:
    """`session/load`: the agent replays the conversation, then answers."""
    await chain.initialize()
    chain.agent.hold("session/load")
    params = b'{"sessionId":"check-old","cwd":%b,"mcpServers":[]}' % chain.cwd
    pending = chain.client.request("session/load", params)
    request = await at_agent(chain, pending, "session/load")
    if request.session != b'"check-old"':
        raise Fault(
            "`session/load` reached the agent for another session", params, request.params or b""
        )
    for number in range(30):
        chain.agent.notify("session/update", _update(b'"check-old"', number))
    chain.agent.reply(request, b"{}")
    await pending.result()
    _complete(chain, b'"check-old"', 30, "before the answer to `session/load`")


async def permission(chain: ScriptedChain) -> None:
    """A permission request reaches the user as the agent made it, and the answer the agent."""
    await chain.initialize()
    session = await chain.session()
    chain.client.hold("session/request_permission")
    params = (
        b'{"sessionId":%b,"toolCall":{"toolCallId":"t1","title":"check"},"options":['
        b'{"optionId":"y","name":"Allow","kind":"allow_once"},'
        b'{"optionId":"n","name":"Reject","kind":"reject_once"}]}' % session
    )
    pending = chain.agent.request("session/request_permission", params)
    request = await _at_client(chain, pending)
    if not all(piece in (request.params or b"") for piece in (b'"reject_once"', b'"t1"')):
        raise Fault("the user cannot refuse, or not this", params, request.params or b"")
    result = b'{"outcome":{"outcome":"selected","optionId":"n"}}'
    chain.client.reply(request, result)
    unchanged("the user's refusal", result, await pending.result())


async def _at_client(chain: ScriptedChain, pending: ScriptedRequest) -> Received:
    """The permission request at the client. Raises `Skipped` if the component refuses it."""
    message = await first(chain.client.next("session/request_permission"), pending.answer())
    if message.method is not None:
        return message
    answer = message.result or message.error or b""
    if b'"n"' in answer or b"cancelled" in answer or message.error is not None:
        raise Skipped("it refuses permissions by itself")
    raise Fault("it gave a permission that only the user can give", came=answer)
