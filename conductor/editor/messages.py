"""The messages of the editor's side, as types, and the texts of their refusals."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from conductor.core import json_text
from conductor.core.jsonrpc import INVALID_PARAMS, error_object
from conductor.core.policy.key_table import STAMP

SHOW_PANEL: Final = "_scp/html_panel/show"
CLEAR_PANEL: Final = "_scp/html_panel/clear"
GET_PANEL: Final = "_scp/html_panel/get"
PANEL_EVENT: Final = "_scp/html_panel/event"
SHOW_COMMENT: Final = "_scp/file_comment/show"
CLEAR_COMMENT: Final = "_scp/file_comment/clear"
GET_COMMENT: Final = "_scp/file_comment/get"
REPLY: Final = "_scp/file_comment/reply"
"""Up: the owner adds to its comment's thread. Down: the user answers."""
COMMENT_EVENT: Final = "_scp/file_comment/event"
OPERATIONS: Final = (
    "_scp/ide_operation/list",
    "_scp/ide_operation/describe",
    "_scp/ide_operation/run",
)
LOG: Final = "_scp/log"
CLOSE: Final = "close"
"""The name of the event that the user has closed a panel, or resolved a comment."""

_LONGEST_NAME: Final = 1024
LEVELS: Final = ("error", "warn", "info", "debug")

Id = Annotated[str, Meta(min_length=1, max_length=256)]
Count = Annotated[int, Meta(ge=1)]


class Refused(Exception):  # noqa: N818 - what happens to the message
    """A message is refused; `text` may have a hint."""

    def __init__(self, text: str, code: int = INVALID_PARAMS) -> None:
        super().__init__(text)
        self.body = error_object(code, text)


class Capabilities(msgspec.Struct, frozen=True):
    """The abilities that an editor names: the section `symposium`."""

    html_panel: bool = False
    file_comment: bool = False
    ide_operation: bool = False
    log: bool = False


class Any_(msgspec.Struct):  # noqa: N801 - the base of all params
    """The common members of all these messages."""

    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)
    sessionId: str | None = None  # noqa: N815 - the wire's name

    @property
    def owner(self) -> str:
        """The component it is of. Raises `Refused`: the router has not found a place for that."""
        name = (self.meta or {}).get(STAMP)
        if not isinstance(name, str):
            raise Refused("params must be an object, with an object as `_meta` if it has one")
        if len(name) > _LONGEST_NAME:
            raise Refused(f"the name of a component is too long: `{name:.80}…`")
        return name


class ShowPanel(Any_):
    """`_scp/html_panel/show`."""

    id: Id = ""
    label: str | UnsetType = UNSET
    contents: str | UnsetType = UNSET
    scripts: bool | UnsetType = UNSET


class Named(Any_):
    """Messages that only name a panel or a comment."""

    id: Id = ""


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in a file; lines and columns (code points) count from 1."""

    line: Count
    column: Count | None = None


class ShowComment(Any_):
    """`_scp/file_comment/show`."""

    id: Id = ""
    url: str | UnsetType = UNSET
    start: Position | UnsetType = UNSET
    end: Position | None = None
    can_reply: bool = False
    text: str | UnsetType = UNSET


class Reply(Any_):
    """`_scp/file_comment/reply`, in both directions."""

    id: Id = ""
    text: str | UnsetType = UNSET


class Event(Any_):
    """An event of a panel or a comment."""

    id: Id = ""
    name: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET


class Log(Any_):
    """`_scp/log`."""

    level: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    data: Any = UNSET


_Kind = TypeVar("_Kind", bound=Any_)


def read(method: str, params: bytes, kind: type[_Kind]) -> _Kind:
    """The params of a message. Raises `Refused` where they are not as they must be."""
    try:
        found = json_text.decode(params or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"`{method}`: {error}") from None
    missing = [n for n in ("id", "url", "start", "text", "name", "message") if _lacks(found, n)]
    if missing:
        raise Refused(f"`{method}` needs `{missing[0]}`")
    return found


def _lacks(found: Any_, name: str) -> bool:
    return getattr(found, name, None) in (UNSET, "") and (name in found.__struct_fields__)


class _Section(msgspec.Struct):
    symposium: Any = None


class _Places(msgspec.Struct):
    meta: _Section | None = msgspec.field(name="_meta", default=None)


class _Initialize(_Places):
    clientCapabilities: _Places | None = None  # noqa: N815
    capabilities: _Places | None = None


def sections(initialize: bytes) -> list[dict[str, Any]]:
    """The sections `symposium` in an `initialize`, the section that counts most first."""
    try:
        read = json_text.decode(initialize, type=_Initialize)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    places = (read.clientCapabilities, read.capabilities, read)
    metas = (place.meta for place in places if place is not None)
    found = (meta.symposium for meta in metas if meta is not None)
    return [section for section in found if isinstance(section, dict)]


def capabilities(initialize: bytes) -> Capabilities:
    """The abilities of an `initialize`'s client; none, where it does not name them."""
    section = next(iter(sections(initialize)), {})
    return Capabilities(**{n: section.get(n) is True for n in Capabilities.__struct_fields__})
