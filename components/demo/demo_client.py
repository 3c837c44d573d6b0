"""Directives that call back into the client: permission, files, terminal, elicitation, ``_``."""

import posixpath
from typing import Any

from demo_json import dumps, loads, raw_at
from demo_rpc import Answer
from demo_turn import Cancelled, Directive, Turn
from demo_usage import Wrong, head_and_rest, number, words


def _permission(turn: Turn, argument: str) -> None:
    title = argument or "Demo action"
    call = {"toolCallId": f"call-{turn.number}", "kind": "execute", "status": "pending"}
    turn.protocol.blocked(turn, True)
    answer = turn.ask("session/request_permission", turn.protocol.permission(title, call))
    turn.protocol.blocked(turn, False)
    outcome = _result(answer).get("outcome")
    if isinstance(outcome, dict) and outcome.get("outcome") == "selected":
        turn.say(f"permission: {outcome.get('optionId')}")
    elif isinstance(outcome, dict) and outcome.get("outcome") == "cancelled":
        turn.say("permission: cancelled")
    else:
        turn.say(f"permission: {_told(answer)}")


def _read(turn: Turn, argument: str) -> None:
    if not _capable(turn, "fs", "readTextFile"):
        return
    path, *limits = words(argument, 1, 3)
    params: dict[str, Any] = {"path": _absolute(turn, path)}
    params |= dict(zip(("line", "limit"), map(number, limits), strict=False))
    answer = turn.ask("fs/read_text_file", params)
    content = _result(answer).get("content")
    turn.say(content if isinstance(content, str) else f"read: {_told(answer)}")


def _write(turn: Turn, argument: str) -> None:
    if not _capable(turn, "fs", "writeTextFile"):
        return
    path, text = head_and_rest(argument, "PATH")
    answer = turn.ask("fs/write_text_file", {"path": _absolute(turn, path), "content": text})
    turn.say(f"wrote {len(text)} characters" if answer.ok else f"write: {_told(answer)}")


def _terminal(turn: Turn, argument: str) -> None:
    if not _capable(turn, "terminal"):
        return
    command, *arguments = words(argument, 1, 1000)
    params = {"command": command, "args": arguments, "cwd": turn.session.cwd}
    created = turn.ask("terminal/create", params)
    terminal = _result(created).get("terminalId")
    if not isinstance(terminal, str):
        turn.say(f"terminal: {_told(created)}")
        return
    which = {"terminalId": terminal}
    try:
        ended = _result(turn.ask("terminal/wait_for_exit", which))
        output = _result(turn.ask("terminal/output", which))
    except Cancelled:
        # Releasing it kills the command; nobody waits for the answer, so any will do.
        params = {"sessionId": turn.session.id, **which}
        turn.connection.request("terminal/release", dumps(params), lambda: None)
        raise
    turn.ask("terminal/release", which)
    turn.say(str(output.get("output", "")))
    signal = ended.get("signal")
    turn.say(f"\nexit code {ended.get('exitCode')}" + (f", signal {signal}" if signal else ""))


def _ask(turn: Turn, argument: str) -> None:
    elicitation = turn.client.get("elicitation")
    if not isinstance(elicitation, dict) or elicitation.get("form") is None:
        turn.say("the client lacks the capability elicitation.form")
        return
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Answer"}},
        "required": ["answer"],
    }
    question = argument or "What should the demo agent say?"
    params = {"mode": "form", "message": question, "requestedSchema": schema}
    turn.protocol.blocked(turn, True)
    answer = turn.ask("elicitation/create", params)
    turn.protocol.blocked(turn, False)
    result = _result(answer)
    if not isinstance(result.get("action"), str):
        turn.say(f"elicitation: {_told(answer)}")
        return
    content = raw_at(answer.text, "content")
    turn.say(f"elicitation: {result['action']}" + (f" {content}" if content else ""))


def _ext(turn: Turn, argument: str) -> None:
    method, params = _method(argument)
    turn.say(_told(turn.ask_text(method, params)))


def _notify(turn: Turn, argument: str) -> None:
    method, params = _method(argument)
    turn.gather(turn.connection.notification(method, params).decode())
    turn.say(f"sent {method}")


def _method(argument: str) -> tuple[str, str]:
    method, params = head_and_rest(argument, "METHOD")
    params = params.strip() or "{}"
    try:
        value = loads(params)
    except ValueError as error:
        raise Wrong(f"not JSON: {error}") from None
    if not isinstance(value, dict | list):
        raise Wrong("the JSON must be an object or an array")
    return method, params.replace("\n", " ").replace("\r", " ")


def _capable(turn: Turn, *path: str) -> bool:
    value: Any = turn.client
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if value is not True:
        turn.say(f"the client lacks the capability {'.'.join(path)}")
    return value is True


def _absolute(turn: Turn, path: str) -> str:
    return posixpath.join(turn.session.cwd, path)


def _result(answer: Answer) -> dict[str, Any]:
    value = loads(answer.text) if answer.ok else None
    return value if isinstance(value, dict) else {}


def _told(answer: Answer) -> str:
    return answer.text if answer.ok else f"error {answer.text}"


CLIENT_DIRECTIVES: dict[str, Directive] = {
    "permission": Directive(_permission, "/permission [TITLE]", "ask for permission", True),
    "read": Directive(_read, "/read PATH [LINE [LIMIT]]", "a file, through the client", True),
    "write": Directive(_write, "/write PATH TEXT", "write a file through the client", True),
    "terminal": Directive(_terminal, "/terminal CMD ARGS…", "run it in the client", True),
    "ask": Directive(_ask, "/ask [QUESTION]", "ask the user (elicitation)", True),
    "ext": Directive(_ext, "/ext METHOD JSON", "a request to the client, and its answer", True),
    "notify": Directive(_notify, "/notify METHOD JSON", "a notification to the client", True),
}
