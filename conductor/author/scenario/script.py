"""The client and the agent of a scenario, written as the trace of a chain without proxies. Pure.

What passes in such a chain is what both ends would have recorded. A replay plays it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from conductor.author.scenario.file import OPTIONS, Action, Scenario, Step
from conductor.core import json_text
from conductor.core.jsonrpc import INTERNAL_ERROR, error_object
from conductor.record.replay.recording import Recording
from conductor.record.turns.line import AGENT, CLIENT, Line

FIRST_SESSION: Final = "session-1"
_HINT: Final = 'a request that a proxy makes by itself is a step with `by = "component"`'
_COMPONENT: Final = "component"
_PROMPT: Final = "session/prompt"


class Script:
    """A scenario as a recording.

    Attributes:
        recording: What both ends play.
        sent: For each step the first message that the client sends for it (or after it, if it sends
            none), as its place in `messages`.
    """

    def __init__(self, scenario: Scenario, path: str, folder: str) -> None:
        """`path` is shown in errors; `folder` is where the sessions are."""
        self.recording = Recording(path, "scenario", _HINT, began=scenario.clock)
        self.sent: list[int] = []
        self.messages: list[Line] = []
        """All that the client sends but for answers, in order."""
        self._folder = folder
        self._count = 0
        self._opened: set[str] = set()
        initialize = {
            "protocolVersion": 1,
            "clientCapabilities": scenario.client_capabilities,
            "clientInfo": {"name": "scenario", "version": "1"},
        }
        initialized = {
            "protocolVersion": 1,
            "agentCapabilities": scenario.agent_capabilities,
            "agentInfo": {"name": "scripted", "version": "1"},
            "authMethods": [],
        }
        self._request("initialize", initialize, initialized)
        before = [None, *scenario.step]
        for last, step in zip(before, scenario.step, strict=False):
            # What a component asks by itself is a part of the client's step behind it.
            follows = last is None or last.by == _COMPONENT
            begun = self.sent[-1] if self.sent else 0
            self.sent.append(begun if follows else len(self.messages))
            self._step(step)

    # -- steps ---------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        session = step.session
        if session is None and (step.prompt is not None or step.mode is not None):
            session = FIRST_SESSION
        if session is not None and session not in self._opened:
            self._opened.add(session)
            new = {"cwd": self._folder, "mcpServers": []}
            self._request("session/new", new, {"sessionId": session})
        named = {} if session is None else {"sessionId": session}
        if step.notify is not None:
            self._event("notification", CLIENT, AGENT, step.notify, {**named, **step.params})
            return
        if step.prompt is not None:
            method, params, result = _PROMPT, _prompt(step.prompt), {"stopReason": "end_turn"}
        elif step.mode is not None:
            method, params, result = "session/set_mode", {"modeId": step.mode}, step.result or {}
        else:
            method, params, result = step.request or "", step.params, step.result or {}
        source = _COMPONENT if step.by == _COMPONENT else CLIENT
        self._exchange(source, method, {**named, **params}, result, step, session)
        opened = (step.result or {}).get("sessionId")
        if isinstance(opened, str):
            self._opened.add(opened)

    def _exchange(
        self,
        source: str,
        method: str,
        params: dict[str, Any],
        result: dict[str, Any],
        step: Step,
        session: str | None,
    ) -> None:
        """A request to the agent, what the agent does, and its answer."""
        id_ = self._event("request", source, AGENT, method, params)
        tools: set[str] = set()
        for action in step.actions:
            if isinstance(action, str):
                self._update(source, session, _chunk("agent_message_chunk", action))
            elif action.stop is not None:
                result = {"stopReason": action.stop}
            elif action.error is not None:
                self._response(AGENT, source, id_, action.error, is_error=True)
                return
            else:
                self._act(source, session, action, tools)
        self._response(AGENT, source, id_, result)

    def _act(self, source: str, session: str | None, action: Action, tools: set[str]) -> None:
        named = {} if session is None else {"sessionId": session}
        params = {**named, **(action.params or {})}
        if action.cancel:
            self._event("notification", CLIENT, AGENT, "session/cancel", named)
        elif action.ask is not None:
            self._ask(source, named, action)
        elif action.request is not None:
            id_ = self._event("request", AGENT, source, action.request, params)
            answer = action.result if action.refused is None else action.refused
            self._response(source, AGENT, id_, answer, is_error=action.refused is not None)
        elif action.notify is not None:
            self._event("notification", AGENT, source, action.notify, params)
        else:
            self._update(source, session, _updated(action, tools))

    def _ask(self, source: str, named: dict[str, Any], action: Action) -> None:
        choices = OPTIONS if action.options is None else action.options
        options = [{"optionId": each, "name": each, "kind": _kind(each)} for each in choices]
        call = {"toolCallId": action.id or action.ask, "title": action.ask}
        params = {**named, "toolCall": call, "options": options}
        id_ = self._event("request", AGENT, source, "session/request_permission", params)
        chosen = action.answer or choices[0]
        outcome = {"outcome": "selected", "optionId": chosen}
        cancelled = {"outcome": "cancelled"}
        outcome = cancelled if chosen == "cancelled" else outcome
        self._response(source, AGENT, id_, {"outcome": outcome})

    def _update(self, source: str, session: str | None, update: dict[str, Any]) -> None:
        params = {"sessionId": session or FIRST_SESSION, "update": update}
        self._event("notification", AGENT, source, "session/update", params)

    # -- events --------------------------------------------------------------------------------

    def _request(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> None:
        self._response(AGENT, CLIENT, self._event("request", CLIENT, AGENT, method, params), result)

    def _event(
        self, type_: str, source: str, target: str, method: str, params: dict[str, Any]
    ) -> int:
        """Adds a request or a notification; its id."""
        session = params.get("sessionId")
        event = self._added(
            type=type_,
            source=source,
            target=target,
            method=method,
            session=session if isinstance(session, str) else None,
            params=msgspec.Raw(json_text.encode(params)),
        )
        if source == CLIENT:
            self.messages.append(event)
        return self._count

    def _response(
        self, source: str, target: str, id_: int, payload: Any, *, is_error: bool = False
    ) -> None:
        body = error_object(INTERNAL_ERROR, payload) if is_error else json_text.encode(payload)
        self._added(
            type="response",
            source=source,
            target=target,
            number=id_,
            payload=msgspec.Raw(body),
            is_error=is_error,
        )

    def _added(self, *, number: int | None = None, **members: Any) -> Line:
        self._count += 1
        is_event = members["type"] == "notification"
        id_ = msgspec.Raw(b"null" if is_event else b"%d" % (number or self._count))
        event = Line(ts=float(self._count), id=id_, **members)
        ends = (event.source, event.target)
        if CLIENT in ends:
            self.recording.client.append(event)
        self.recording.agent.append(event)
        return event


def _prompt(given: str | list[dict[str, Any]]) -> dict[str, Any]:
    return {"prompt": [{"type": "text", "text": given}] if isinstance(given, str) else given}


def _chunk(kind: str, text: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def _updated(action: Action, tools: set[str]) -> dict[str, Any]:
    """The update of an action that is one."""
    if action.thought is not None:
        return _chunk("agent_thought_chunk", action.thought)
    if action.plan is not None:
        entries = [{"content": e, "priority": "medium", "status": "pending"} for e in action.plan]
        return {"sessionUpdate": "plan", "entries": entries}
    if action.update is not None:
        return action.update
    id_ = action.id or action.tool or ""
    kind = "tool_call_update" if id_ in tools else "tool_call"
    tools.add(id_)
    update = {
        "sessionUpdate": kind,
        "toolCallId": id_,
        "title": action.tool,
        "status": action.status or "completed",
    }
    if action.kind:
        update["kind"] = action.kind
    if not action.text:
        return update
    content = {"type": "content", "content": {"type": "text", "text": action.text}}
    return {**update, "content": [content]}


def _kind(option: str) -> str:
    """The kind of an option, by its name."""
    for verb in ("allow", "reject"):
        if option.startswith(verb):
            return f"{verb}_always" if "always" in option else f"{verb}_once"
    return "allow_once"
