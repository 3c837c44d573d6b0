"""The duties of any agent to a client: ACP version 1, and version 2 where the agent has it."""

from __future__ import annotations

import json
from typing import Any, Final

from conductor.author.check.program import ProgramChain
from conductor.author.check.scripted_end import Fault, Received, ScriptedRequest, Skipped
from conductor.core import jsonrpc
from conductor.core.policy.key_table import STOP_REASONS

_UNKNOWN: Final = "_check.example/nobody"
"""A method that no agent has."""

_IDS: Final = (b'"a text"', b"0", b"-7", b"9007199254740991", b'""', b'"1"', b"1")
_WORDS: Final = 'h\u00e9llo \u2028 \U0001f600 \\u0041 "quoted"'

_SAYING: Final = frozenset({"fs/read_text_file", "fs/write_text_file", "terminal/create"})
"""Requests that only a client gets which has said that it takes them."""


# -- helpers ---------------------------------------------------------------------------------------


def _read(text: bytes | None) -> Any:
    return json.loads(text or b"null")


def _code(answer: Received) -> int | None:
    """The code of an error; None for a result."""
    error = _read(answer.error)
    return error.get("code") if isinstance(error, dict) else None


async def _lives(chain: ProgramChain) -> None:
    """Returns once the agent has answered one more request, with any answer."""
    await chain.client.request(_UNKNOWN, b"{}").answer()


async def _initialized(chain: ProgramChain, version: int = 1) -> dict[str, Any]:
    """The agent's answer to `initialize`."""
    hello = b'{"protocolVersion":%d,"clientCapabilities":{}}' % version
    if version > 1:
        hello = b'{"protocolVersion":%d,"capabilities":{},"info":%b}' % (
            version,
            b'{"name":"check","version":"1"}',
        )
    result = _read(await chain.initialize(hello))
    if not isinstance(result, dict):
        raise Fault("the answer to `initialize` is no object", came=json.dumps(result))
    return result


async def _session(chain: ProgramChain) -> bytes:
    """A new session; its raw id. Raises `Skipped` for an agent that wants a login."""
    params = b'{"cwd":%b,"mcpServers":[]}' % chain.cwd
    answer = await chain.client.request("session/new", params).answer()
    if _code(answer) == jsonrpc.AUTH_REQUIRED:
        raise Skipped("the agent wants a login before it opens a session")
    if answer.result is None:
        raise Fault("`session/new` was refused", params, answer.error or b"")
    session = _read(answer.result).get("sessionId")
    if not isinstance(session, str) or not session:
        raise Fault("the answer to `session/new` has no text for `sessionId`", came=answer.result)
    return json.dumps(session).encode()


def _prompt(chain: ProgramChain, session: bytes, text: str) -> ScriptedRequest:
    words = json.dumps([{"type": "text", "text": text}]).encode()
    return chain.client.request(
        "session/prompt", b'{"sessionId":%b,"prompt":%b}' % (session, words)
    )


async def _stopped(pending: ScriptedRequest) -> str:
    """Why a turn ended."""
    result = await pending.result()
    reason = _read(result).get("stopReason")
    if reason not in STOP_REASONS:
        raise Fault(f"a turn ended for a reason that nobody knows: {reason!r}", came=result)
    return str(reason)


# -- JSON-RPC --------------------------------------------------------------------------------------


async def unknown_request(chain: ProgramChain) -> None:
    """A request of a method that the agent does not know is refused as such."""
    await _initialized(chain)
    for method in (_UNKNOWN, "session/check_unknown"):
        answer = await chain.client.request(method, b"{}").answer()
        if _code(answer) != jsonrpc.METHOD_NOT_FOUND:
            came = answer.error or answer.result or b""
            raise Fault(f"`{method}` was not refused with -32601", came=came)


async def unknown_notification(chain: ProgramChain) -> None:
    """A notification is never answered."""
    await _initialized(chain)
    chain.client.notify(_UNKNOWN, b"{}")
    chain.client.notify("session/check_unknown", b'{"sessionId":"none"}')
    await _lives(chain)
    if chain.client.unknown:
        raise Fault("a notification was answered", came=chain.client.unknown[0])


async def ids(chain: ProgramChain) -> None:
    """An answer has the id of its request, of any kind."""
    await _initialized(chain)
    for number in _IDS:
        await chain.client.request(_UNKNOWN, b"{}", number).answer()
    if chain.client.unknown:
        raise Fault("an answer had an id that no request had", came=chain.client.unknown[0])


async def at_once(chain: ProgramChain) -> None:
    """Many requests are open at once, and each is answered once."""
    await _initialized(chain)
    pending = [chain.client.request(_UNKNOWN, b"{}") for _ in range(100)]
    for request in pending:
        await request.answer()
    await _lives(chain)
    if chain.client.unknown:
        raise Fault("a request was answered twice", came=chain.client.unknown[0])


async def stray_answers(chain: ProgramChain) -> None:
    """An answer that nobody waits for is ignored."""
    await _initialized(chain)
    for line in (b'{"jsonrpc":"2.0","id":"nobody","result":{}}',
                 b'{"jsonrpc":"2.0","id":7777,"error":{"code":1,"message":"x"}}'):  # fmt: skip
        chain.client.send(line)
    await _lives(chain)


async def broken_lines(chain: ProgramChain) -> None:
    """A line that is no message costs the agent nothing else."""
    await _initialized(chain)
    for line in (b"no JSON", b"{", b"[]", b"7", b'{"jsonrpc":"2.0"}', b'"text"', b"\xff\xfe", b""):
        chain.client.send(line)
    await _lives(chain)


async def spaced_lines(chain: ProgramChain) -> None:
    """Spaces around a message, and a carriage return behind it, change nothing."""
    await _initialized(chain)
    chain.client.send(b"\r")
    pending = chain.client.request(_UNKNOWN, b"{}  ")
    await pending.answer()
    chain.client.send(b'  {"jsonrpc":"2.0","method":"_check.example/tell","params":{}}  \r')
    await _lives(chain)


async def only_messages(chain: ProgramChain) -> None:
    """The agent's standard output holds messages and nothing else."""
    await _initialized(chain)
    await _stopped(_prompt(chain, await _session(chain), "hello"))
    if chain.odd:
        raise Fault("it wrote a line that is no message, or a batch of several", came=chain.odd[0])


async def end_of_input(chain: ProgramChain) -> None:
    """The agent ends by itself once its input has ended."""
    await _initialized(chain)
    code = await chain.end()
    if code is None:
        raise Fault("it goes on after its input has ended")
    if code != 0:
        raise Fault(f"it ended with code {code} when its input ended")


# -- initialize ------------------------------------------------------------------------------------


async def handshake(chain: ProgramChain) -> None:
    """`initialize` is answered with the version and the capabilities."""
    result = await _initialized(chain)
    if result.get("protocolVersion") != 1:
        raise Fault("a client of version 1 was answered with another", came=json.dumps(result))
    if not isinstance(result.get("agentCapabilities", {}), dict):
        raise Fault("`agentCapabilities` is no object", came=json.dumps(result))


async def later_version(chain: ProgramChain) -> None:
    """A client of a later version is answered with a version that the agent has."""
    hello = b'{"protocolVersion":99,"clientCapabilities":{},"capabilities":{},"info":%b}'
    pending = chain.client.request("initialize", hello % b'{"name":"check","version":"1"}')
    answer = await pending.answer()
    version = _read(answer.result or b"{}").get("protocolVersion")
    if not isinstance(version, int) or not 1 <= version < 99:
        came = answer.error or answer.result or b""
        raise Fault("a client of version 99 was not answered with an earlier version", came=came)


# -- sessions --------------------------------------------------------------------------------------


async def sessions(chain: ProgramChain) -> None:
    """Each session has an id of its own."""
    await _initialized(chain)
    if len({await _session(chain) for _ in range(3)}) != 3:
        raise Fault("two sessions have one id")


async def bad_params(chain: ProgramChain) -> None:
    """Params that lack a member that the method needs are refused."""
    await _initialized(chain)
    await _session(chain)
    for method, params in (
        ("session/new", b"{}"),
        ("session/new", b'{"cwd":7,"mcpServers":[]}'),
        ("session/prompt", b"{}"),
    ):
        answer = await chain.client.request(method, params).answer()
        if answer.error is None:
            raise Fault(
                f"`{method}` took params without a required member", params, answer.result or b""
            )
    await _lives(chain)


async def unknown_session(chain: ProgramChain) -> None:
    """A prompt in a session that nobody opened is refused."""
    await _initialized(chain)
    await _session(chain)
    answer = await _prompt(chain, b'"check-nobody"', "hello").answer()
    if answer.error is None:
        raise Fault("a prompt was taken in a session that nobody opened", came=answer.result or b"")


async def unknown_load(chain: ProgramChain) -> None:
    """A session that is not there cannot be loaded."""
    able = (await _initialized(chain)).get("agentCapabilities") or {}
    await _session(chain)
    params = b'{"sessionId":"check-nobody","cwd":%b,"mcpServers":[]}' % chain.cwd
    answer = await chain.client.request("session/load", params).answer()
    if answer.error is None:
        raise Fault("a session that is not there was loaded", params, answer.result or b"")
    if able.get("loadSession") is not True and _code(answer) != jsonrpc.METHOD_NOT_FOUND:
        raise Fault("it loads no sessions, and does not say -32601", params, answer.error)


# -- turns -----------------------------------------------------------------------------------------


async def turn(chain: ProgramChain) -> None:
    """A prompt has updates of its session, then its answer; nothing of it comes later."""
    await _initialized(chain)
    session = await _session(chain)
    await _stopped(_prompt(chain, session, "Reply with the word ok."))
    updates = chain.client.received("session/update")
    if any(update.session != session for update in updates):
        raise Fault("an update names another session", came=updates[0].params or b"")
    if not any(_says(update) for update in updates):
        raise Fault("a turn ended without a word of the agent")
    for request in _SAYING:
        if (asked := chain.client.take(request)) is not None:
            raise Fault(
                f"`{request}` was asked of a client that has none", came=asked.params or b""
            )


def _says(update: Received) -> bool:
    kind = (_read(update.params).get("update") or {}).get("sessionUpdate", "")
    return str(kind).startswith(("agent_message", "agent_thought"))


async def side_by_side(chain: ProgramChain) -> None:
    """Turns of two sessions do not mix."""
    await _initialized(chain)
    both = [await _session(chain), await _session(chain)]
    pending = [
        _prompt(chain, session, f"Reply with the word {n}.") for n, session in enumerate(both)
    ]
    for each in pending:
        await _stopped(each)
    for update in chain.client.received("session/update"):
        if update.session not in both:
            raise Fault("an update names a session that is not open", came=update.params or b"")


async def later_turns(chain: ProgramChain) -> None:
    """A session has as many turns as the user likes, with any prompt."""
    await _initialized(chain)
    session = await _session(chain)
    for text in ("hello", _WORDS, "word " * 20_000):
        await _stopped(_prompt(chain, session, text))
    await _lives(chain)


async def cancelled(chain: ProgramChain) -> None:
    """A turn that is cancelled ends with a reason, and not with an error."""
    await _initialized(chain)
    session = await _session(chain)
    pending = _prompt(chain, session, "Count slowly to one hundred.")
    chain.client.notify("session/cancel", b'{"sessionId":%b}' % session)
    answer = await pending.answer()
    if answer.error is not None:
        raise Fault("a cancelled turn ended with an error", came=answer.error)
    await _stopped(pending)
    await _stopped(_prompt(chain, session, "hello"))


async def nothing_to_cancel(chain: ProgramChain) -> None:
    """A cancel where no turn is open is ignored."""
    await _initialized(chain)
    session = await _session(chain)
    for each in (session, b'"check-nobody"'):
        chain.client.notify("session/cancel", b'{"sessionId":%b}' % each)
    await _lives(chain)
    await _stopped(_prompt(chain, session, "hello"))


async def odd_mode(chain: ProgramChain) -> None:
    """A mode that the session does not have cannot be set."""
    await _initialized(chain)
    params = b'{"sessionId":%b,"modeId":"check-nobody"}' % await _session(chain)
    answer = await chain.client.request("session/set_mode", params).answer()
    if answer.error is None:
        raise Fault("a mode that the session does not have was set", params, answer.result or b"")


# -- version 2 -------------------------------------------------------------------------------------


async def turn_of_version_2(chain: ProgramChain) -> None:
    """In version 2 a prompt is answered at once, and a state says when its turn ends."""
    if (await _initialized(chain, 2)).get("protocolVersion") != 2:
        raise Skipped("the agent has version 1 only")
    session = await _session(chain)
    await _prompt(chain, session, "Reply with the word ok.").result()
    while True:
        update = await chain.client.next("session/update")
        told = _read(update.params).get("update") or {}
        if told.get("sessionUpdate") == "state_update" and told.get("state") == "idle":
            break
    if told.get("stopReason") not in (*STOP_REASONS, None):
        raise Fault("a turn ended for a reason that nobody knows", came=update.params or b"")
