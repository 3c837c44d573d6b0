"""The messages of handlers: views of the JSON that passes, to be read and edited in place.

Attributes are members of the message's `params`: `request.prompt` is `params["prompt"]`,
`request.session_id` is `params["sessionId"]`. Assigning an attribute writes the member. Unknown
members are in `params`, too, and go on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from . import checked
from .commands import SKILL, begins_plainly, on_a_line
from .errors import REFUSED, ProxyError
from .jsontext import Place, dumps
from .merging import Snapshot, changed, edited, snapshot
from .records import camel, find, missing, plain, view

if TYPE_CHECKING:
    from .records import Record
    from .sessions import Session


class Drop:
    """The type of `DROP`."""

    def __repr__(self) -> str:
        return "DROP"


DROP: Final = Drop()
"""Returned by the handler of a notification or update: it is not passed on."""


def text(text: str, **more: Any) -> dict[str, Any]:
    """A text block of a prompt or an update; `more` are further members, e.g. `annotations`."""
    return {"type": "text", "text": checked.said(text, "`text(…)`"), **more}


_FIXED: Final = frozenset({"method", "direction", "cancelled"})
_SLOTS: Final = (
    "_before", "_cancelled", "_id", "_id_at", "_params", "_place", "_replayed", "_session", "_text",
    "direction", "method",
)  # fmt: skip


class Message:
    """A request or notification on its way through the proxy.

    `method`: its name. `direction`: `down` towards the agent, `up` towards the client. `params`:
    the decoded parameters, to be edited in place (empty if there were none).
    """

    __slots__ = _SLOTS
    method: str
    direction: str
    _before: Snapshot | None
    """The parameters before somebody could edit them; None: nobody could."""
    _cancelled: bool
    _id: str
    _id_at: int
    _params: Any
    _place: Place | None
    _replayed: bool
    _session: Session | None
    _text: str

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; edit them in place."""
        if self._before is None:
            _set_before(self, snapshot(self._params))
        params: dict[str, Any] = self._params
        return params

    @params.setter
    def params(self, value: dict[str, Any]) -> None:
        if self._before is None:
            _set_before(self, snapshot(self._params))
        put(self, "_params", value)

    @property
    def session(self) -> Session:
        """The session it belongs to. Raises `AttributeError` if it belongs to none.

        Of a request that opens one (`session/new`, `session/fork`) it is that session as soon as
        `await next(request)` has returned.
        """
        if self._session is None:
            raise AttributeError(f"`{self.method}` belongs to no session")
        found: Session = self._session
        return found

    @property
    def state(self) -> Any:
        """The proxy's own data of the session (`Proxy(session=…)`)."""
        return self.session.state

    def __getattr__(self, name: str) -> Any:
        params = self._params
        if type(params) is not dict or name not in params:
            name = self._found(name)
        value = params[name]
        kind = type(value)
        if kind is list:
            if self._before is None:
                _set_before(self, snapshot(params))
            return checked.opened(self.method, name, params)
        return value if kind is str else self._handed(value)

    def _found(self, name: str) -> str:
        """The member of the parameters that an attribute stands for. Raises `AttributeError`."""
        if name.startswith("__"):
            raise AttributeError(name)
        held = self._params if isinstance(self._params, dict) else {}
        key = find(held, name)
        if key is None:
            raise AttributeError(f"`{self.method}`: {missing(name, held)}")
        return key

    def _handed(self, value: Any) -> Any:
        """A value of the parameters, for who may edit it."""
        if self._before is None and isinstance(value, (dict, list)):
            _set_before(self, snapshot(self._params))
        return view(value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "params":
            put(self, name, value)
            return
        if name in _FIXED or isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"`{name}` cannot be changed")
        key = find(self.params, name) or camel(name)
        self.params[key] = checked.assigned(self.method, key, plain(value))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method} {self._params!r}>"

    def render(self, fresh_id: str | None = None) -> str:
        """The JSON text to pass on: as it came, but for what was changed, and a fresh raw id.

        Raises `TypeError` for a value that is no JSON.
        """
        text, place, before = self._text, self._place, self._before
        edits = []
        if before is not None:
            try:
                new = self._edited(before)
            except (TypeError, ValueError, RecursionError):
                what = f"`{self.method}` cannot be passed on"
                raise checked.unwritable(what, self._params) from None
            if new is not None:
                if place is not None and fresh_id is None:
                    return f"{text[: place[1]]}{new}{text[place[2] :]}"
                end = text.rindex("}")
                edits.append((place[1], place[2], new) if place is not None else (end, end, new))
        if fresh_id is not None:
            edits.append((self._id_at, self._id_at + len(self._id), fresh_id))
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _edited(self, before: Snapshot) -> str | None:
        """The text of the parameters, or what is added where there were none; None: unchanged."""
        params, place = self._params, self._place
        if place is not None:
            return edited(self._text, place, before, params) if changed(before, params) else None
        return f',"params":{dumps(params)}' if params else None


put: Final = object.__setattr__
"""Sets what a message itself has; ordinary assignment writes a member of its parameters."""

_set_before: Final[Callable[[Message, Snapshot], None]] = Message.__dict__["_before"].__set__
set_session: Final[Callable[[Message, Session], None]] = Message.__dict__["_session"].__set__
"""Says which session a message belongs to."""


class _Blank:
    """A message before it is one: assignment is ordinary, and quick."""

    __slots__ = _SLOTS


M = TypeVar("M", bound=Message)


def made(
    kind: type[M],
    side: str,
    text: str,
    method: str,
    params: Any,
    place: Place | None,
    id_: str,
    id_at: int,
) -> M:
    """The message of this line, with its parameters and where they stand in it, and its raw id."""
    one: Any = _Blank()
    one._before = None
    one._cancelled = False
    one._id = id_
    one._id_at = id_at
    one._params = params
    one._place = place
    one._replayed = False
    one._session = None
    one._text = text
    one.direction = "down" if side == "p" else "up"
    one.method = method
    one.__class__ = kind
    found: M = one
    return found


class Request(Message):
    """A request; its handler answers it, or passes it on with `await next(request)`."""

    __slots__ = ()

    @property
    def id(self) -> str:
        """The id as raw JSON."""
        return self._id

    @property
    def cancelled(self) -> bool:
        """Whether whoever asked has said since that the answer is not wanted any more."""
        return self._cancelled

    @property
    def text(self) -> str:
        """The text blocks of a prompt, joined by newlines."""
        blocks = self._params.get("prompt")
        held = [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
        return "\n".join(str(b.get("text", "")) for b in held if b.get("type") == "text")

    @property
    def is_command(self) -> bool:
        """Whether an agent may take the prompt for a slash command, which must begin it, or it
        begins with a block that calls a skill.

        The first word of a command is a `/` and a name; a path such as `/etc/hosts` is none, nor is
        a lone `/`.
        """
        blocks = self._params.get("prompt")
        first = blocks[0] if isinstance(blocks, list) and blocks else None
        if isinstance(first, dict) and first.get("type") == SKILL:
            return True
        word = (self.text.split(maxsplit=1) or [""])[0]
        return word.startswith("/") and word.count("/") == 1 and len(word) > 1

    def preface(self, *blocks: str | dict[str, Any] | Record) -> None:
        """Puts text, or content blocks, in front of a prompt; behind one that may be a command.

        A command must begin its prompt, and agents have marks of their own for them. So a prompt
        that does not plainly begin with words takes them at its end, on a line of their own. What
        is no list of blocks stays as it is.
        """
        added, held = checked.blocks(blocks), self.params.get("prompt")
        if isinstance(held, list) and begins_plainly(held):
            held[:0] = added
        else:
            self.append(*added)

    def append(self, *blocks: str | dict[str, Any] | Record) -> None:
        """Puts text, or content blocks, behind a prompt; on a line of its own if that may be a
        command, so that its last word stays what it is."""
        added, held = checked.blocks(blocks), self.params.get("prompt")
        if isinstance(held, list):
            held += added if begins_plainly(held) else map(on_a_line, added)

    def refuse(self, reason: str = "not allowed", data: Any = None) -> dict[str, Any]:
        """Lets a request not go on: `return request.refuse("not on this machine")`.

        A request for permission is answered by an option that does nothing but reject, or else as
        cancelled; that answer has no place for a reason. Any other request is answered with the
        error `REFUSED`, which names the proxy.

        Raises:
            ProxyError: it is no request for permission.
        """
        if self.method != "session/request_permission":
            raise ProxyError(reason, REFUSED, data)
        return {"outcome": _rejected(self._params.get("options"))}


_REJECTS: Final = ("reject_once", "reject_always")


def _rejected(options: Any) -> dict[str, str]:
    """The outcome that refuses a permission. What could be read as a yes, too, is not selected."""
    kinds: dict[str, list[Any]] = {}
    for one in options if isinstance(options, list) else []:
        if not isinstance(one, dict):
            return {"outcome": "cancelled"}
        if isinstance(one.get("optionId"), str):
            kinds.setdefault(one["optionId"], []).append(one.get("kind"))
    for wanted in _REJECTS:
        for id_, meant in kinds.items():
            if wanted in meant and all(kind in _REJECTS for kind in meant):
                return {"outcome": "selected", "optionId": id_}
    return {"outcome": "cancelled"}


class Notification(Message):
    """A notification; it is passed on unless its handler returns `DROP` or something instead."""

    __slots__ = ()


class Update(Notification):
    """A `session/update`: attributes are members of its `update`, e.g. `update.content`."""

    __slots__ = ()

    @property
    def update(self) -> dict[str, Any]:
        """The update itself; edit it in place."""
        return self._update(self.params)

    @staticmethod
    def _update(params: dict[str, Any]) -> dict[str, Any]:
        found = params.get("update")
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """Its kind, e.g. `agent_message_chunk`."""
        return str(self._update(self._params).get("sessionUpdate", ""))

    @property
    def replayed(self) -> bool:
        """Whether it is an old update that the agent repeats while it loads a session."""
        return self._replayed

    @property
    def text(self) -> str:
        """The text of its content, empty if it has none; can be assigned."""
        content = self._update(self._params).get("content")
        return str(content.get("text", "")) if isinstance(content, dict) else ""

    @text.setter
    def text(self, value: str) -> None:
        content = self.update.get("content")
        if not isinstance(content, dict) or "text" not in content:
            raise AttributeError(f"this `{self.kind}` has no text to change")
        content["text"] = checked.said(value, "`update.text`")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            held = self._update(self._params)
            key = find(held, name)
            if key is not None:
                return self._handed(held[key])
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "text":
            put(self, name, value)
            return
        key = find(self.update, name)
        if key is not None or name not in ("params", "session_id"):
            if name in _FIXED or isinstance(getattr(type(self), name, None), property):
                raise AttributeError(f"`{name}` cannot be changed")
            key = key or camel(name)
            if key == "content":
                self.update[key] = checked.content(self.kind, value)
            else:
                self.update[key] = checked.member(key, plain(value))
            return
        super().__setattr__(name, value)


def session_of(message: Message) -> str | None:
    """The session a message says it belongs to."""
    params = message._params
    session = params.get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) else None
