"""Messages of A2A, in the words of its versions 1.0 and 0.3."""

import json
from typing import Any, NamedTuple

METHODS = {
    "1.0": {"send": "SendMessage", "get": "GetTask", "cancel": "CancelTask"},
    "0.3": {"send": "message/send", "get": "tasks/get", "cancel": "tasks/cancel"},
}
STATES = {
    "submitted": "works",
    "working": "works",
    "completed": "done",
    "input-required": "asks",
    "auth-required": "fails",
    "failed": "fails",
    "rejected": "fails",
    "canceled": "fails",
}
"""The outcome here of each state of a task."""
ID = 256
"""Characters of an id that a server gives."""


class AnswerError(Exception):
    """An answer that makes no sense; says why."""


class Answer(NamedTuple):
    """The answer of an agent. `outcome`: `works`, `done`, `asks` or `fails`."""

    outcome: str
    said: str
    context: str = ""
    task: str = ""
    state: str = ""


def message(
    version: str, words: str, id_: str, skill: str, context: str, task: str
) -> dict[str, Any]:
    """The params of a message to an agent. `context`, `task`: those that go on, or empty."""
    goes_on = {"contextId": context} if context else {}
    goes_on |= {"taskId": task} if task else {}
    more = {**goes_on, "messageId": id_}
    more |= {"metadata": {"skillId": skill}} if skill else {}
    modes = ["text/plain", "application/json"]
    if version == "1.0":
        said = {"role": "ROLE_USER", "parts": [{"text": words}], **more}
        return {
            "message": said,
            "configuration": {"acceptedOutputModes": modes, "returnImmediately": True},
        }
    said = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": words}], **more}
    return {"message": said, "configuration": {"acceptedOutputModes": modes, "blocking": False}}


def read(result: Any) -> Answer:
    """The answer in the result of a message or of a question for a task. Raises `AnswerError`."""
    if not isinstance(result, dict):
        raise AnswerError("its result is no object")
    for name in ("task", "message"):  # version 1.0 says so by the member
        if isinstance(result.get(name), dict):
            return of_task(result[name]) if name == "task" else of_message(result[name])
    if "status" in result:
        return of_task(result)
    if "parts" in result:
        return of_message(result)
    raise AnswerError("its result is neither a message nor a task")


def of_message(held: dict[str, Any]) -> Answer:
    return Answer("done", words(held), id_of(held, "contextId"))


def of_task(held: dict[str, Any]) -> Answer:
    status, artifacts = held.get("status"), held.get("artifacts") or []
    if not isinstance(status, dict) or not isinstance(artifacts, list):
        raise AnswerError("its task has no status, or no list of artifacts")
    state = str(status.get("state")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    if state not in STATES:
        raise AnswerError(f"its task has the state {state[:40]!r}, which A2A does not have")
    said = [words(one) for one in artifacts]
    if isinstance(status.get("message"), dict) and (not any(said) or STATES[state] != "done"):
        said.append(words(status["message"]))
    ids = id_of(held, "contextId"), id_of(held, "id")
    return Answer(STATES[state], "\n\n".join(filter(None, said)), *ids, state)


def id_of(held: dict[str, Any], name: str) -> str:
    """An id that a server has given, which is sent to that server alone."""
    value = held.get(name) or ""
    if not isinstance(value, str) or len(value) > ID:
        raise AnswerError(f"its `{name}` is no text of {ID} characters at most")
    return value


def words(held: Any) -> str:
    """The parts of a message or an artifact, in words."""
    parts = held.get("parts") if isinstance(held, dict) else None
    if not isinstance(parts, list):
        raise AnswerError("its `parts` are no list")
    return "\n".join(filter(None, map(part, parts)))


def part(one: Any) -> str:
    if not isinstance(one, dict):
        raise AnswerError("a part of its is no object")
    if isinstance(one.get("text"), str):
        return seen(one["text"])
    if "data" in one:
        return json.dumps(one["data"], ensure_ascii=False)
    file = one.get("file") if isinstance(one.get("file"), dict) else one
    where = file.get("url") or file.get("uri") or ""
    name = file.get("filename") or file.get("name") or "without a name"
    kind = file.get("mediaType") or file.get("mimeType") or "of no type"
    return seen(f"(a file {name}, {kind}{f', at {where}' if where else ''})")


def seen(said: str) -> str:
    """Words without characters that cannot be seen."""
    return "".join(one for one in said if one.isprintable() or one in "\n\t")
