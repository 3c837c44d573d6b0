"""The user's editor beside the conversation: panels, comments, operations, log lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from . import checked
from .comments import Comment
from .errors import METHOD_NOT_FOUND, Answered, ProxyError
from .panels import Panel
from .records import plain
from .shown import Shown

if TYPE_CHECKING:
    from .engine import Engine
    from .handling import Next
    from .messages import Request
    from .sessions import Session
    from .setup import Handlers
    from .speaker import Speaker

Level = Literal["error", "warn", "info", "debug"]

_HOLDERS: Final = ("clientCapabilities", "capabilities", "agentCapabilities")
_LEVELS: Final = ("error", "warn", "info", "debug")
_REPLY: Final = f"{Comment.family}/reply"
EVENTS: Final = frozenset({f"{Panel.family}/event", f"{Comment.family}/event", _REPLY})
"""Messages of the editor to the owner of a panel or comment. They wait behind nothing: a handler
that holds the user's prompt may wait for a click."""


@dataclass(frozen=True)
class Capabilities:
    """The abilities that an editor reports; each is false where the editor does not name it."""

    panel: bool = False
    """It shows panels."""
    comment: bool = False
    """It shows comments in files."""
    operation: bool = False
    """It has operations."""
    log: bool = False
    """It has a log."""


@dataclass(frozen=True)
class Operation:
    """Something that an editor can be asked to do."""

    name: str
    """The name by which it is called."""
    category: str = ""
    """The heading under which it is listed."""
    description: str = ""
    """Its effect, in words."""
    input_schema: dict[str, Any] = field(default_factory=dict)
    """JSON Schema of its arguments; empty in a list of operations."""


class NoOperation(ProxyError):  # noqa: N818 - the name of an event
    """The editor does not have the requested operation, or has no operations."""


S = TypeVar("S", bound=Shown)


class Editor:
    """The user's editor, in one session (`session.editor`)."""

    def __init__(self, engine: Speaker, session: Session) -> None:
        self._engine = engine
        self._session = session
        self._panels: dict[str, Panel] = {}
        self._comments: dict[str, Comment] = {}

    @property
    def capabilities(self) -> Capabilities:
        """The abilities that the editor reports. All else reaches the user as text."""
        return self._engine.capabilities or Capabilities()

    def panel(self, id: str) -> Panel:  # noqa: A002 - the wire's name
        """The proxy's panel of this id: the same one whenever it is asked for."""
        return self._one(self._panels, Panel, id)

    def comment(self, id: str) -> Comment:  # noqa: A002 - the wire's name
        """The proxy's comment of this id: the same one whenever it is asked for."""
        return self._one(self._comments, Comment, id)

    def _one(self, known: dict[str, S], kind: type[S], id_: str) -> S:
        if id_ not in known:
            known[id_] = kind(self._engine, self._session, id_)
        return known[id_]

    async def operation(self, name: str, /, **arguments: Any) -> Any:
        """Has the editor do something, as in `operation("get-selection")`; its result, any JSON.

        Raises `NoOperation` where the editor cannot. A tool that needs one is hidden there by
        `@proxy.tool(when=…)`, with a function that looks at `session.editor.capabilities`.
        """
        return await self._operation("run", name=name, arguments=plain(arguments))

    async def operations(self, category: str | None = None) -> list[Operation]:
        """The operations of the editor, or those of one category; empty: it has none."""
        given = {} if category is None else {"category": category}
        try:
            found = await self._operation("list", **given)
        except NoOperation:
            return []
        listed = found.get("operations") if isinstance(found, dict) else None
        several = listed if isinstance(listed, list) else []
        return [_described(one) for one in several if isinstance(one, dict) and "name" in one]

    async def describe(self, name: str) -> Operation:
        """An operation with the schema of its arguments. Raises `NoOperation`."""
        found = await self._operation("describe", name=name)
        return _described({**found, "name": name} if isinstance(found, dict) else {"name": name})

    async def _operation(self, method: str, **params: Any) -> Any:
        known = self._engine.capabilities
        if known is not None and not known.operation:
            raise NoOperation("the editor has no operations", METHOD_NOT_FOUND)
        named = {"sessionId": self._session.id, **params}
        try:
            return await self._engine.request("p", f"_scp/ide_operation/{method}", named)
        except Answered as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            raise NoOperation(error.message, error.code, error.data) from None

    def log(self, level: Level, message: str, data: Any = None) -> None:
        """Writes a line into the editor's log; into the conductor's, where the editor has none.
        `data`: any JSON. Raises `ValueError` for another level."""
        if level not in _LEVELS:
            raise ValueError(f"no level `{level}`; levels are: {', '.join(_LEVELS)}")
        said = checked.said(message, "`log(…)`")
        line = {"sessionId": self._session.id, "level": level, "message": said}
        more = {} if data is None else {"data": plain(data)}
        self._engine.notify("p", "_scp/log", {**line, **more})

    def find(self, method: str, id_: object) -> Panel | Comment | None:
        """The panel or comment of an event; None: it is not of this proxy."""
        known: Any = self._panels if method.startswith(Panel.family) else self._comments
        found: Panel | Comment | None = known.get(id_)
        return found


def capabilities(initialize: dict[str, Any]) -> Capabilities:
    """The abilities that an editor reports in `initialize`: its section `symposium`."""
    said = next(iter(sections(initialize)), {})
    names = ("html_panel", "file_comment", "ide_operation", "log")
    return Capabilities(*(said.get(name) is True for name in names))


def sections(body: Any) -> list[dict[str, Any]]:
    """The `symposium` sections of params or a result of `initialize`, the one that counts most
    first."""
    held = body if isinstance(body, dict) else {}
    places = (*map(held.get, _HOLDERS), held)
    metas = [one.get("_meta") for one in places if isinstance(one, dict)]
    found = [meta.get("symposium") for meta in metas if isinstance(meta, dict)]
    return [section for section in found if isinstance(section, dict)]


def handlers(engine: Engine) -> Handlers:
    """The handlers of what the editor sends an owner, behind those of the author."""

    async def happened(request: Request, following: Next) -> Any:
        if request.direction == "up":  # another component adds to its own comment's thread
            return await following(request)
        params = request.params
        session = engine.sessions.get(str(params.get("sessionId")))
        found = session.editor.find(request.method, params.get("id")) if session else None
        if found is None:
            text = f"`{engine.name}` shows nothing of the id {params.get('id')!r}"
            raise ProxyError(text, METHOD_NOT_FOUND)
        if request.method == _REPLY:
            assert isinstance(found, Comment)
            return await found.replied(str(params.get("text")))
        return await found.happened(str(params.get("name")), params.get("data"))

    return dict.fromkeys(EVENTS, happened)


def _described(held: dict[str, Any]) -> Operation:
    name, category, about = (
        str(held.get(key) or "") for key in ("name", "category", "description")
    )
    schema = held.get("inputSchema")
    return Operation(name, category, about, schema if isinstance(schema, dict) else {})
