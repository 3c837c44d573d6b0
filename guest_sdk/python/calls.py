"""`Call`: the caller of a tool, resource or MCP prompt, with its facts and questions to it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from . import config, schemas
from .content import blocks, jsonable
from .errors import ProxyError
from .records import Record

if TYPE_CHECKING:
    from .sessions import Session
    from .tasks import Waiter

LEVELS: Final = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
"""Levels of MCP log messages, the least first."""

MISSING_CAPABILITY: Final = -32021

_NEEDS: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""The capability that each request to a caller needs."""


class NotOffered(ProxyError):  # noqa: N818 - the name of an event
    """The MCP client that calls lacks a capability for the request; `capability` names it."""

    def __init__(self, method: str, capability: str) -> None:
        super().__init__(
            f"this takes `{method}`, which the agent's MCP client does not offer",
            MISSING_CAPABILITY,
            {"requiredCapabilities": {capability: {}}},
        )
        self.capability = capability


class Link(Protocol):
    """The way back to whoever calls."""

    able: dict[str, Any]
    """Its capabilities."""
    token: Any
    """By which it wants to be told of progress; None: it does not."""
    level: str | None
    """The least level of log messages it wants; None: none at all."""

    @property
    def name(self) -> str:
        """The name of the proxy in its chain."""

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tells it."""

    def ask(self, method: str, params: dict[str, Any]) -> Waiter[Any]:
        """Asks it."""


@dataclass(frozen=True, slots=True)
class Elicited:
    """The answer of a person: `action` is `accept`, `decline` or `cancel`.

    `content`: the filled-in values, of the requested type; None if not accepted.
    """

    action: str
    content: Any = None

    def __bool__(self) -> bool:
        return self.action == "accept"


class Call:
    """One call of a tool, resource or prompt, for a parameter annotated with this class."""

    __slots__ = ("_link", "_session")

    def __init__(self, session: Session | None, link: Link) -> None:
        self._session = session
        self._link = link

    @property
    def session(self) -> Session:
        """The session whose agent calls. Raises `RuntimeError` where that is not known.

        That is before its setup is answered, and where a proxy was started again by somebody who
        keeps nothing for it; conductor does.
        """
        if self._session is None:
            raise RuntimeError(
                "it is not known which session this call belongs to: its agent has not said it "
                "yet, or the proxy was started again since; look at `call.in_session` before"
            )
        return self._session

    @property
    def in_session(self) -> bool:
        """Whether `session` is known: agents may call while a session is still being set up."""
        return self._session is not None

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tells the caller how far it is, if it wants to know."""
        if self._link.token is None:
            return
        params: dict[str, Any] = {"progressToken": self._link.token, "progress": done}
        if total is not None:
            params["total"] = total
        if message:
            params["message"] = message
        self._link.notify("notifications/progress", params)

    def log(self, data: Any, level: str = "info") -> None:
        """Sends the agent's MCP client a log message: text, or any JSON value.

        `level` is one of `LEVELS`; messages below the client's level are not sent. The
        conductor's own log is `proxy.log`. Raises `ValueError` for another level.
        """
        if level not in LEVELS:
            raise ValueError(f"there is no level `{level}`; levels are: {', '.join(LEVELS)}")
        wanted = self._link.level
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            params = {"level": level, "data": jsonable(data)}
            self._link.notify("notifications/message", params)

    def offers(self, capability: str) -> bool:
        """Whether the caller can be asked: `sampling`, `elicitation` or `roots`."""
        return isinstance(self._link.able.get(capability), dict)

    async def ask(self, method: str, **params: Any) -> Record:
        """Asks the caller something, by MCP; its result. Raises `NotOffered`, or `ProxyError`."""
        capability = _NEEDS.get(method, "")
        if not self.offers(capability):
            raise NotOffered(method, capability)
        held = await self._link.ask(method, params)
        if not isinstance(held, dict):
            raise ProxyError(f"`{method}` was answered with {held!r}, which is no object")
        return Record(held)

    async def sample(
        self, *messages: Any, max_tokens: int = 1024, system: str = "", **more: Any
    ) -> Record:
        """Has the agent's model complete something; its answer, e.g. `answer.content.text`.

        `messages`: texts or blocks of the user, or pairs `("assistant", "…")`. `more`: further
        members of `sampling/createMessage`. A sandboxed proxy needs the right `prompt:within`.
        Raises `NotOffered`.
        """
        if system:
            more["systemPrompt"] = system
        params = {"messages": spoken(messages), "maxTokens": max_tokens, **more}
        return await self.ask("sampling/createMessage", **params)

    async def elicit(self, message: str, form: type | None = None) -> Elicited:
        """Asks the person at the client. `form`: a dataclass whose fields the person fills in.

        The message begins with the proxy's name. A sandboxed proxy needs the right `ask:user`.
        Fields are text, numbers, true or false, or one of several texts. None asks for
        consent alone. Raises `NotOffered`; `ProxyError` if the answer does not fit the form.
        """
        wanted = _form(form) if form is not None else {"type": "object", "properties": {}}
        message = f"{self._link.name}: {message}"
        held = await self.ask("elicitation/create", message=message, requestedSchema=wanted)
        action = str(held.get("action", "cancel"))
        if action != "accept" or form is None:
            return Elicited(action)
        try:
            return Elicited(action, config.value(form, held.raw.get("content"), "content"))
        except ValueError as error:
            raise ProxyError(f"the client's answer to `{message}` is wrong: {error}") from None


def spoken(said: Any) -> list[dict[str, Any]]:
    """Messages of MCP: texts and blocks are the user's, pairs say whose they are."""
    found = []
    for one in said if isinstance(said, (list, tuple)) and not _is_pair(said) else [said]:
        held = jsonable(one)
        if isinstance(held, dict) and "role" in held:
            found.append(held)
            continue
        role, content = one if _is_pair(one) else ("user", one)
        found += [{"role": role, "content": each} for each in blocks(content)]
    return found


def _is_pair(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and one[0] in ("user", "assistant")


def _form(form: type) -> dict[str, Any]:
    """The schema of a form. Clients know flat ones only, and enums that say they are text."""
    if not dataclasses.is_dataclass(form):
        raise TypeError(f"{form!r} is no dataclass, which is what a form is")
    held = schemas.schema(form)
    for name, one in held["properties"].items():
        if "enum" in one:
            one.setdefault("type", "string")
        elif one.get("type") not in ("string", "integer", "number", "boolean"):
            raise TypeError(f"a form cannot ask for `{name}`: only text, numbers, true or false")
    defaults = {f.name: f.default for f in dataclasses.fields(form)}
    for name, default in defaults.items():
        if default is not dataclasses.MISSING:
            held["properties"][name]["default"] = jsonable(default)
    del held["additionalProperties"]
    return held


__all__ = ["LEVELS", "Call", "Elicited", "Link", "NotOffered", "spoken"]
