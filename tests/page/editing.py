"""An agent that shows panels and comments, and asks the editor for things. It obeys the first word
of a prompt, and says what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

SESSION: Final = "one"
waiting: list[dict[str, Any]] = []
"""Requests that have come while an answer was waited for."""
count = 0


def send(**members: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": SESSION, "update": update})


def ask(method: str, **params: Any) -> Any:
    """The result of a request, or the text of its error."""
    global count  # noqa: PLW0603 - the one connection
    count += 1
    own = f"own-{count}"
    send(id=own, method=method, params={"sessionId": SESSION, **params})
    while True:
        message = json.loads(sys.stdin.readline())
        if message.get("id") == own and "method" not in message:
            return message.get("result", message.get("error", {}).get("message"))
        waiting.append(message)


def show(id_: str, **more: Any) -> Any:
    return ask("_scp/html_panel/show", id=id_, **more)


def panels(rest: str) -> object:
    """Shows panels, changes and reads them, and clears one."""
    panel = "_scp/html_panel"
    return [
        show("p", label="Research"),
        show("p", label="Research", contents="<h1>One</h1>"),
        show("q", label="Other", contents="<p>Other</p>"),
        show("p", contents="<h1>Two</h1>"),
        ask(f"{panel}/get", id="p"),
        ask(f"{panel}/clear", id="p"),
        ask(f"{panel}/get", id="p"),
    ]


def panel(rest: str) -> object:
    """Shows the HTML of a file: `panel LABEL PATH [scripts]`."""
    label, path, *scripts = rest.split()
    contents = Path(path).read_bytes().decode()
    return show(label, label=label, contents=contents, scripts=bool(scripts))


def comment(rest: str) -> object:
    """Shows the text of each object of a JSON list."""
    return [ask("_scp/file_comment/show", **each) for each in json.loads(rest)]


def operation(rest: str) -> object:
    """Runs an operation: `operation NAME JSON`; without any, lists them."""
    name, _, given = rest.partition(" ")
    if not name:
        return ask("_scp/ide_operation/list")
    return ask("_scp/ide_operation/run", name=name, arguments=json.loads(given or "{}"))


def log(rest: str) -> object:
    for level in ("error", "warn", "info", "debug"):
        line = {"level": level, "message": f"{level}: {rest}", "data": {"n": 1}}
        send(method="_scp/log", params={"sessionId": SESSION, **line})
    return "logged"


def die(rest: str) -> object:
    sys.exit(3)


COMMANDS: Final[dict[str, Callable[[str], object]]] = {
    each.__name__: each for each in (panels, panel, comment, operation, log, die)
}


def prompt(text: str) -> None:
    word, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(word)
    done = f"you said: {text}" if command is None else command(rest)
    say(done if isinstance(done, str) else json.dumps(done, ensure_ascii=False))


def serve(message: dict[str, Any]) -> None:
    id_, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            send(id=id_, result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            send(id=id_, result={"sessionId": SESSION})
        case "session/prompt":
            prompt("\n".join(block.get("text", "") for block in params["prompt"]))
            send(id=id_, result={"stopReason": "end_turn"})
        case "_scp/html_panel/event":
            say(f"{params['id']}: {params['name']} {json.dumps(params.get('data'))}")
            send(id=id_, result={})
        case "_scp/file_comment/reply" if params["text"].startswith("agent"):
            say(f"reply: {params['text']}")
            send(id=id_, result={})
        case method if id_ is not None and method is not None:
            send(id=id_, error={"code": -32601, "message": f"no {method}"})


if __name__ == "__main__":
    while waiting or (line := sys.stdin.readline()):
        serve(waiting.pop(0) if waiting else json.loads(line))
