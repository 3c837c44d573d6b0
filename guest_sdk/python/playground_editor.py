"""The editor of a playground: the panels and comments of a proxy, and a user who reacts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from .comments import Comment
from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProxyError
from .panels import Panel

if TYPE_CHECKING:
    from .playground import Playground

_FLAGS: Final = {
    "panel": "html_panel",
    "comment": "file_comment",
    "operation": "ide_operation",
    "log": "log",
}
FAMILIES: Final = tuple(f"_scp/{flag}" for flag in _FLAGS.values())
"""How the methods begin that this editor answers."""


class PretendEditor:
    """The editor of a playground, with the conductor's desk before it."""

    def __init__(self, playground: Playground, can: Iterable[str]) -> None:
        self._playground = playground
        self.can = frozenset(can)
        """The abilities that it reports, of `panel`, `comment`, `operation`, `log`."""
        if not self.can <= _FLAGS.keys():
            raise ValueError(f"an editor can: {', '.join(_FLAGS)}; not {', '.join(self.can)}")
        self.panels: dict[str, dict[str, Any]] = {}
        """The shown panels, by id: `label`, `contents`, `scripts`."""
        self.comments: dict[str, dict[str, Any]] = {}
        """The comments, by id: `url`, `start`, `end`, `text`, `can_reply`, `replies`."""
        self.operations: dict[str, Callable[..., Any]] = {}
        """Its operations, by name: functions of their arguments."""
        self.logged: list[dict[str, Any]] = []
        """Log lines: `level`, `message`, `data`."""

    def section(self) -> dict[str, Any]:
        """Its section in `initialize`."""
        return {"version": "1.0", **{flag: word in self.can for word, flag in _FLAGS.items()}}

    async def event(self, id: str, name: str, data: Any = None) -> Any:  # noqa: A002 - the wire's name
        """The user does something with the panel, or else the comment, of this id; the answer."""
        family, known = (
            (Panel.family, self.panels) if id in self.panels else (Comment.family, self.comments)
        )
        assert id in known, f"nothing is shown under the id {id!r}"
        session = known[id]["sessionId"]
        if name == "close":
            del known[id]
        params = {"sessionId": session, "id": id, "name": name, "data": data}
        try:
            return await self._playground.request(f"{family}/event", params)
        except ProxyError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            return {}

    async def reply(self, id: str, text: str) -> bool:  # noqa: A002 - the wire's name
        """The user replies to a comment. False: nobody takes it, so it becomes a prompt."""
        comment = self.comments[id]
        assert comment["can_reply"], f"comment {id!r} takes no replies"
        comment["replies"].append({"from": "user", "text": text})
        params = {"sessionId": comment["sessionId"], "id": id, "text": text}
        try:
            await self._playground.request(f"{Comment.family}/reply", params)
        except ProxyError:
            return False
        return True

    def asked(self, method: str, params: dict[str, Any]) -> Any:
        """The answer to a request of the proxy. Raises `ProxyError`."""
        family, _, what = method.rpartition("/")
        if method == "_scp/log":
            self.logged.append(params)
            return {}
        if family == "_scp/ide_operation":
            return self._operation(what, params)
        kept = self.panels if family == Panel.family else self.comments
        if what == "get":
            held = kept.get(params["id"])
            return held["contents"] if held and family == Panel.family else held
        if what == "clear":
            kept.pop(params["id"], None)
        elif what == "reply":
            said = {"from": "owner", "text": params["text"]}
            self.comments[params["id"]]["replies"].append(said)
        else:
            return self._show(family, kept, params)
        return {}

    def _show(
        self, family: str, kept: dict[str, dict[str, Any]], params: dict[str, Any]
    ) -> dict[str, str]:
        word = "panel" if family == Panel.family else "comment"
        fresh: dict[str, Any] = {"scripts": False} if word == "panel" else {"replies": []}
        shown = {**kept.get(params["id"], fresh), **params}
        missing = {"label", "contents"} - shown.keys() if word == "panel" else ()
        if missing:
            raise ProxyError("a new panel needs `label` and `contents`", INVALID_PARAMS)
        kept[params["id"]] = shown
        return {"shown": word if word in self.can else "text"}

    def _operation(self, what: str, params: dict[str, Any]) -> Any:
        if what == "list":
            return {"operations": [{"name": name} for name in self.operations]}
        name = params["name"]
        if name not in self.operations:
            raise ProxyError(f"no operation `{name}`", METHOD_NOT_FOUND)
        if what == "describe":
            return {"name": name}
        return self.operations[name](**params["arguments"])
