"""Directives that need nothing but the turn: text, streams, updates, failures.

``find`` looks a directive up; those that call the client are in ``demo_client``, those that
call MCP servers in ``demo_mcp`` (both imported with this module, the mcp library is not).
"""

import os
import re
import sys
from collections.abc import Iterator

from demo_client import CLIENT_DIRECTIVES
from demo_json import compose, dumps, loads, raw_at
from demo_mcp import MCP_DIRECTIVES
from demo_session import CHUNK_TAIL
from demo_turn import Directive, Turn
from demo_usage import Wrong, guarded, number, words

_BATCH = 1 << 17
"""Bytes a stream writes at once."""

_JUNK_META = (
    '{"conductor.demo/namespaced":{"nested":[1,{"deep":null}]},"claudeCode":{"toolName":"Read"},'
    '"terminal_output":{"data":"\\u0041\\/\\u00e9\\ud83d\\ude00"},'
    '"big":123456789012345678901234567890,"decimal":1.10,"exponent":1E+2,"huge":1e400,'
    '"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
)


def _echo(turn: Turn, argument: str) -> None:
    turn.say(argument)


def _stream(turn: Turn, argument: str) -> None:
    texts = words(argument, 2, 2)
    count, size = number(texts[0]), number(texts[1])
    message_id = turn.message_id("agent")
    head = turn.session.chunk_head("agent_message_chunk", message_id).encode() + b'"'
    digits = max(8, len(str(count - 1)))
    filler = b"." * max(0, size - digits)
    tail = filler + b'"' + CHUNK_TAIL.encode()
    cut = max(0, digits - size)  # a chunk shorter than its number keeps the last digits
    turn.unrecorded += count
    turn.flush()
    per_batch = max(1, _BATCH // (len(head) + len(tail) + digits))
    for batch in _ranges(count, per_batch):
        data = b"".join([head + (b"%0*d" % (digits, at))[cut:] + tail for at in batch])
        if batch.stop == count:  # the last one leaves together with the answer
            turn.hold = True
            turn.gather(data.decode())
            return
        if turn.cancelled:
            return
        turn.send(data)


def _ranges(count: int, step: int) -> Iterator[range]:
    for start in range(0, count, step):
        yield range(start, min(start + step, count))


def _updates(turn: Turn, argument: str) -> None:
    count = number(words(argument, 1, 1)[0])
    turn.hold = True
    for at in range(count):
        turn.say(f"update {at}\n")


def _size(turn: Turn, argument: str) -> None:
    turn.say("x" * number(words(argument, 1, 1)[0]))


def _sleep(turn: Turn, argument: str) -> None:
    text = words(argument, 1, 1)[0]
    try:
        seconds = float(text)
    except ValueError:
        raise Wrong(f"{text!r} is no number of seconds") from None
    if not 0 <= seconds <= 86400:
        raise Wrong("SECONDS is from 0 to 86400")
    turn.pause(seconds)
    turn.say(f"slept {text} s")


def _hang(turn: Turn, argument: str) -> None:
    turn.pause(None)


def _plan(turn: Turn, argument: str) -> None:
    steps = ("Read the prompt", "Think about it", "Answer")
    for done in range(len(steps) + 1):
        entries = [
            {
                "content": step,
                "priority": ("high", "medium", "low")[at],
                "status": "completed" if at < done else "in_progress" if at == done else "pending",
            }
            for at, step in enumerate(steps)
        ]
        turn.update(turn.protocol.plan(entries))
    turn.say("plan completed")


def _thought(turn: Turn, argument: str) -> None:
    turn.say(argument, "agent_thought_chunk")


def _toolcall(turn: Turn, argument: str) -> None:
    call_id = f"call-{turn.number}"
    start = {
        "toolCallId": call_id,
        "title": argument or "Demo tool",
        "kind": "other",
        "status": "in_progress",
        "rawInput": {"title": argument},
    }
    content = [{"type": "content", "content": {"type": "text", "text": "done"}}]
    end = {"toolCallId": call_id, "status": "completed", "content": content}
    turn.update(turn.protocol.tool_call(start, True))
    turn.update(turn.protocol.tool_call(end, False))
    turn.say(f"tool call {call_id} completed")


def _usage(turn: Turn, argument: str) -> None:
    cost = {"amount": 0.25, "currency": "USD"}
    turn.update({"sessionUpdate": "usage_update", "used": 1000, "size": 200000, "cost": cost})
    turn.say("usage: 1000 of 200000 tokens")


def _commands(turn: Turn, argument: str) -> None:
    turn.update(turn.protocol.commands(COMMANDS))
    turn.say(f"{len(COMMANDS)} commands")


def _meta(turn: Turn, argument: str) -> None:
    if argument:
        try:
            loads(argument)
        except ValueError as error:
            raise Wrong(f"not JSON: {error}") from None
    message_id = turn.message_id("agent")
    update = {
        "sessionUpdate": '"agent_message_chunk"',
        **({} if message_id is None else {"messageId": dumps(message_id)}),
        "content": '{"type":"text","text":"odd metadata"}',
        "_meta": argument or _JUNK_META,
    }
    turn.update_text(compose(update))


def _junk(turn: Turn, argument: str) -> None:
    turn.say("before the junk\n")
    turn.flush()
    turn.send(argument.encode("utf-8", "replace").replace(b"\n", b" ") + b"\n")
    turn.say("after the junk")


def _junkbytes(turn: Turn, argument: str) -> None:
    turn.say("before the junk\n")
    turn.flush()
    turn.send(b'{"jsonrpc":"2.0","method":"\xff\xfe\xc3\x28"}\n')
    turn.say("after the junk")


def _stderr(turn: Turn, argument: str) -> None:
    os.write(sys.stderr.fileno(), argument.encode("utf-8", "replace") + b"\n")
    turn.say("written to stderr")


def _exit(turn: Turn, argument: str) -> None:
    code_text, _, text = argument.partition(" ")
    code = number(code_text)
    if text:
        turn.insert()
        turn.say(text)
    turn.flush()
    turn.connection.outbox.drain()
    os.write(sys.stderr.fileno(), f"demo: exiting with code {code} as asked\n".encode())
    os._exit(code & 0xFF)


def _context(turn: Turn, argument: str) -> None:
    session = turn.session
    turn.say(
        compose(
            {
                "protocolVersion": str(turn.protocol.number),
                "initialize": turn.initialize_text,
                "sessionId": session.id_text,
                "session": session.params_text,
                "cwd": dumps(session.cwd),
                "mode": dumps(session.mode),
                "mcpServers": _servers_text(turn),
                "prompt": raw_at(turn.text, "params", "prompt") or "[]",
                "promptMeta": raw_at(turn.text, "params", "_meta") or "null",
            }
        )
    )


def _servers(turn: Turn, argument: str) -> None:
    turn.say(_servers_text(turn))


def _servers_text(turn: Turn) -> str:
    return raw_at(turn.session.params_text, "mcpServers") or "[]"


def _history(turn: Turn, argument: str) -> None:
    turns = [raw_at(past.text, "params", "prompt") or "[]" for past in turn.session.history]
    listed = "[" + ",".join(f'{{"prompt":{blocks}}}' for blocks in turns) + "]"
    turn.say(compose({"turns": listed, "dropped": str(turn.session.dropped)}))


def _help(turn: Turn, argument: str) -> None:
    lines = [f"{entry.usage}: {entry.meaning}" for entry in DIRECTIVES.values()]
    turn.say("Anything else is echoed. Directives:\n" + "\n".join(lines))


def find(text: str) -> tuple[Directive, str] | None:
    """The directive a text starts with, and its argument; None when it only looks like one
    (a path). A name nobody knows finds a directive that says so."""
    match = re.match(r"/([a-z]+)(?:\s(.*))?\Z", text, re.DOTALL)
    if not match:
        return None
    name, argument = match.group(1), match.group(2) or ""
    entry = DIRECTIVES.get(name)
    if entry is None:
        return Directive(_unknown, "", ""), name
    return entry._replace(run=guarded(entry)), argument


def _unknown(turn: Turn, name: str) -> None:
    turn.say(f"demo: no directive /{name} (hint: /help lists them)")


_OWN: dict[str, Directive] = {
    "echo": Directive(_echo, "/echo TEXT", "TEXT, in exactly one chunk"),
    "stream": Directive(_stream, "/stream N S", "N numbered chunks of S bytes each", True),
    "updates": Directive(_updates, "/updates N", "N updates and the end in one write", True),
    "size": Directive(_size, "/size N", "one chunk of N bytes", True),
    "sleep": Directive(_sleep, "/sleep SECONDS", "wait, then say so; can be cancelled", True),
    "hang": Directive(_hang, "/hang", "never end; only cancelling helps", True),
    "plan": Directive(_plan, "/plan", "a plan of three entries, step by step"),
    "thought": Directive(_thought, "/thought TEXT", "TEXT as a thought"),
    "toolcall": Directive(_toolcall, "/toolcall [TITLE]", "a tool call that completes"),
    "usage": Directive(_usage, "/usage", "a usage update"),
    "commands": Directive(_commands, "/commands", "these directives as slash commands"),
    "meta": Directive(_meta, "/meta [JSON]", "an update with odd _meta, or with this one"),
    "junk": Directive(_junk, "/junk TEXT", "TEXT as a line of its own on stdout", True),
    "junkbytes": Directive(_junkbytes, "/junkbytes", "a line of invalid UTF-8", True),
    "stderr": Directive(_stderr, "/stderr TEXT", "TEXT as a line on stderr", True),
    "exit": Directive(_exit, "/exit CODE [TEXT]", "TEXT, then exit unanswered", True, False),
    "context": Directive(_context, "/context", "everything the agent was told, as JSON"),
    "servers": Directive(_servers, "/servers", "the MCP servers it was given, as JSON"),
    "history": Directive(_history, "/history", "the prompts of this session, as JSON"),
    "help": Directive(_help, "/help", "this list"),
}

DIRECTIVES: dict[str, Directive] = {**_OWN, **CLIENT_DIRECTIVES, **MCP_DIRECTIVES}

"""Every directive by its name."""

COMMANDS: list[tuple[str, str, str]] = [
    (name, entry.meaning, entry.usage.partition(" ")[2]) for name, entry in DIRECTIVES.items()
]
"""The arguments of Protocol.commands for every directive."""
