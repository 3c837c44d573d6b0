"""What handlers get: a view of the JSON that passes, to be read and edited in place.

Attributes are members of the message's `params`: `request.prompt` is `params["prompt"]`,
`request.session_id` is `params["sessionId"]`. Assigning one writes it there. Whatever the proxy
does not know of is simply there too, in `params`, and goes on as it came.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from .jsontext import Member, changed, dumps, edited, snapshot

if TYPE_CHECKING:
    from .sessions import Session


class Drop:
    """The type of `DROP`."""

    def __repr__(self) -> str:
        return "DROP"


DROP: Final = Drop()
"""Returned by the handler of a notification or update: it is not passed on."""


def text(text: str, **more: Any) -> dict[str, Any]:
    """A text block of a prompt or an update; `more` are further members, e.g. `annotations`."""
    return {"type": "text", "text": text, **more}


def camel(name: str) -> str:
    """`sessionId` for `session_id`."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def find(held: dict[str, Any], name: str) -> str | None:
    """The key of `held` an attribute stands for: as it is, or in camel case."""
    if name in held:
        return name
    other = camel(name)
    return other if other in held else None


class Record:
    """A JSON object whose members are attributes too; `raw` is the dictionary itself.

    It has no other methods than `get`, so that they hide no members: `record.items` is a member.
    """

    __slots__ = ("raw",)
    raw: dict[str, Any]

    def __init__(self, raw: dict[str, Any]) -> None:
        object.__setattr__(self, "raw", raw)

    def __getattr__(self, name: str) -> Any:
        key = find(self.raw, name)
        if key is None:
            raise AttributeError(_missing(name, self.raw))
        return view(self.raw[key])

    def __setattr__(self, name: str, value: Any) -> None:
        self.raw[find(self.raw, name) or camel(name)] = plain(value)

    def __getitem__(self, key: str) -> Any:
        return view(self.raw[key])

    def __setitem__(self, key: str, value: Any) -> None:
        self.raw[key] = plain(value)

    def __delitem__(self, key: str) -> None:
        del self.raw[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, key: object) -> bool:
        return key in self.raw

    def __eq__(self, other: object) -> bool:
        return self.raw == (other.raw if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: str, default: Any = None) -> Any:
        """A member, or `default`."""
        return view(self.raw[key]) if key in self.raw else default

    def __repr__(self) -> str:
        return f"Record({self.raw!r})"


def view(value: Any) -> Any:
    """A `Record` over an object; everything else as it is."""
    return Record(value) if isinstance(value, dict) else value


def plain(value: Any) -> Any:
    """What a value is in JSON: a record's dictionary; everything else as it is."""
    return value.raw if isinstance(value, Record) else value


def _missing(name: str, held: dict[str, Any]) -> str:
    names = ", ".join(map(repr, held)) or "nothing"
    return f"there is no `{name}` (nor `{camel(name)}`) here; there is: {names}"


put: Final = object.__setattr__
"""Sets what a message itself has; ordinary assignment writes a member of its parameters."""

_FIXED: Final = frozenset({"method", "direction", "cancelled"})


class Message:
    """A request or notification on its way through the proxy.

    `method`: its name. `direction`: `down` towards the agent, `up` towards the client. `params`:
    the decoded parameters, to be edited in place (empty if there were none).
    """

    __slots__ = ("_before", "_held", "_params", "_session", "_text", "direction", "method")
    method: str
    direction: str

    def __init__(self, side: str, text: str, held: dict[str, Member]) -> None:
        put(self, "_text", text)
        put(self, "_held", held)
        put(self, "direction", "down" if side == "p" else "up")
        put(self, "method", held["method"].value)
        put(self, "_params", held["params"].value if "params" in held else {})
        put(self, "_before", snapshot(self._params))
        put(self, "_session", None)

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; edit them in place."""
        params: dict[str, Any] = self._params
        return params

    @params.setter
    def params(self, value: dict[str, Any]) -> None:
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
        """What the proxy keeps of the session (`Proxy(session=…)`)."""
        return self.session.state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        params = object.__getattribute__(self, "_params")
        held = params if isinstance(params, dict) else {}
        key = find(held, name)
        if key is None:
            raise AttributeError(f"`{self.method}`: {_missing(name, held)}")
        return view(held[key])

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "params":
            put(self, "_params", value)
            return
        if name in _FIXED or isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"`{name}` cannot be changed")
        self.params[find(self.params, name) or camel(name)] = plain(value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method} {self._params!r}>"

    def render(self, fresh_id: str | None = None) -> str:
        """The JSON text to pass on: as it came, but for what was changed, and a fresh raw id."""
        text, edits = self._text, []
        held = self._held.get("params")
        if held is not None:
            if changed(self._before, self._params):
                after = edited(text, held, self._before, self._params)
                edits.append((held.start, held.end, after))
        elif self._params:
            end = text.rindex("}")
            edits.append((end, end, f',"params":{dumps(self._params)}'))
        if fresh_id is not None:
            edits.append((self._held["id"].start, self._held["id"].end, fresh_id))
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return str(text)


class Request(Message):
    """A request; its handler answers it, or passes it on with `await next(request)`."""

    __slots__ = ("_id", "cancelled")
    cancelled: bool
    """Whether whoever asked has said since that the answer is not wanted any more."""

    def __init__(self, side: str, text: str, held: dict[str, Member]) -> None:
        super().__init__(side, text, held)
        put(self, "_id", text[held["id"].start : held["id"].end])
        put(self, "cancelled", False)

    @property
    def id(self) -> str:
        """The id as raw JSON."""
        return str(self._id)

    @property
    def text(self) -> str:
        """The text blocks of a prompt, joined by newlines."""
        blocks = self.params.get("prompt")
        held = [b for b in blocks if isinstance(b, dict)] if isinstance(blocks, list) else []
        return "\n".join(str(b.get("text", "")) for b in held if b.get("type") == "text")

    @property
    def is_command(self) -> bool:
        """Whether an agent may take the prompt for a slash command, which must begin it."""
        word = self.text.lstrip().partition(" ")[0].partition("\n")[0]
        return word.startswith("/") and word.count("/") == 1 and len(word) > 1


class Notification(Message):
    """A notification; it is passed on unless its handler returns `DROP` or something instead."""

    __slots__ = ()


class Update(Notification):
    """A `session/update`: attributes are members of its `update`, e.g. `update.content`."""

    __slots__ = ("_replayed",)

    def __init__(self, side: str, text: str, held: dict[str, Member]) -> None:
        super().__init__(side, text, held)
        put(self, "_replayed", False)

    @property
    def update(self) -> dict[str, Any]:
        """The update itself; edit it in place."""
        found = self.params.get("update")
        return found if isinstance(found, dict) else {}

    @property
    def kind(self) -> str:
        """What it is, e.g. `agent_message_chunk`."""
        return str(self.update.get("sessionUpdate", ""))

    @property
    def replayed(self) -> bool:
        """Whether it is an old one that the agent tells again while it loads a session."""
        return bool(self._replayed)

    @property
    def text(self) -> str:
        """The text of its content, empty if it has none; can be assigned."""
        content = self.update.get("content")
        return str(content.get("text", "")) if isinstance(content, dict) else ""

    @text.setter
    def text(self, value: str) -> None:
        content = self.update.get("content")
        if not isinstance(content, dict) or "text" not in content:
            raise AttributeError(f"this `{self.kind}` has no text to change")
        content["text"] = value

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            key = find(self.update, name)
            if key is not None:
                return view(self.update[key])
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "text":
            put(self, name, value)
            return
        key = find(self.update, name)
        if key is not None or name not in ("params", "session_id"):
            if name in _FIXED or isinstance(getattr(type(self), name, None), property):
                raise AttributeError(f"`{name}` cannot be changed")
            self.update[key or camel(name)] = plain(value)
            return
        super().__setattr__(name, value)
