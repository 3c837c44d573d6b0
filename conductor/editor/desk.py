"""The desk: keeps panels and comments, and knows their owners. Pure: messages in, effects out.

The editor gets only messages that it has said it can show: others become text in the session. An
owner's messages come up the chain with its name in them; a message of the editor about a panel or
comment gets the owner's name here, and the router takes it there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Raw

from conductor.core import json_text
from conductor.core.jsonrpc import INVALID_REQUEST, METHOD_NOT_FOUND
from conductor.core.policy.key_table import STAMP, UPDATE
from conductor.editor import messages, texts
from conductor.editor.effects import Answer, Effect, Pass, Say, ToChain, ToClient
from conductor.editor.messages import (
    CLEAR_PANEL,
    CLOSE,
    GET_PANEL,
    LEVELS,
    LOG,
    OPERATIONS,
    PANEL_EVENT,
    REPLY,
    SHOW_COMMENT,
    SHOW_PANEL,
    Any_,
    Capabilities,
    Event,
    Log,
    Named,
    Position,
    Refused,
    Reply,
    ShowComment,
    ShowPanel,
    read,
)
from conductor.editor.shown import (
    TAKEN,
    Comment,
    Key,
    Panel,
    Settle,
    Shown,
    Thread,
    members_of,
    once_heard,
    once_shown,
    once_taken,
    size_of,
)
from conductor.errors import one_line

_encode: Final = json_text.encode
MOST: Final = 64
"""The most panels of one component, and the most comments."""
MOST_BYTES: Final = 1 << 20
"""The most bytes of one panel, or of one comment with its replies."""
MOST_OF_ONE: Final = 8 << 20
"""The most bytes of all panels and comments of one component."""
MOST_WAITING: Final = 2 * MOST
"""The most requests of one component that the client has not answered; their bytes have the bound
`MOST_OF_ONE`, too."""
_LOGGED: Final = 8192
"""Characters of a line that are looked at for the log."""


class Client(Protocol):
    """The client's facts that the desk needs."""

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities that the client has named."""

    @property
    def version(self) -> int | None:
        """The version of ACP."""

    @property
    def sessions(self) -> Collection[str]:
        """The client's open sessions."""

    def folders(self, session: str) -> tuple[str, ...]:
        """Where a session works."""


class _Waiting(msgspec.Struct):
    """A request that the client has not answered."""

    of: str
    size: int
    settle: Settle | None
    """None: the answer goes on as it is."""


class Desk:
    """The panels and comments that are shown to one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._panels: dict[Key, Panel] = {}
        """By session and id."""
        self._comments: dict[Key, Comment] = {}
        self._asked: dict[bytes, _Waiting] = {}
        """Requests that the client has, by their ids."""
        self._owed: dict[bytes, Settle] = {}
        """Requests of the client's that an owner has."""
        self._said = 0
        """How many texts have been shown."""

    @property
    def asks(self) -> bool:
        """Whether the client has a request whose answer the desk waits for."""
        return bool(self._asked)

    @property
    def owes(self) -> bool:
        """Whether an owner has a request of the client's."""
        return bool(self._owed)

    # -- from the chain ------------------------------------------------------------------------

    def from_chain(self, id_: bytes | None, method: str, params: bytes) -> list[Effect]:
        """A message comes up the chain; without an id it is a notification."""
        try:
            return self._from_chain(id_, method, params)
        except Refused as refused:
            if id_ is None:
                return [_say("warning", _owner(params), f"`{method}` dropped: {refused}")]
            return [ToChain(id_, b"error", refused.body)]

    def _from_chain(self, id_: bytes | None, method: str, params: bytes) -> list[Effect]:
        if method == LOG:
            return self._log(id_, params)
        if id_ is None:
            raise Refused("it is a request")
        match method:
            case messages.SHOW_PANEL:
                return self._show_panel(id_, params)
            case messages.SHOW_COMMENT:
                return self._show_comment(id_, params)
            case messages.REPLY:
                return self._owner_replies(id_, params)
            case messages.CLEAR_PANEL | messages.CLEAR_COMMENT:
                return self._clear(id_, method, params)
            case messages.GET_PANEL | messages.GET_COMMENT:
                return self._get(id_, method, params)
            case _ if method in OPERATIONS:
                return self._operation(id_, method, params)
            case _:
                raise Refused(f"no such message of the editor's: `{method:.80}`", METHOD_NOT_FOUND)

    def _show_panel(self, id_: bytes, params: bytes) -> list[Effect]:
        asked = read(SHOW_PANEL, params, ShowPanel)
        key = self._session(asked), asked.id
        old = self._own(self._panels, key, asked.owner)
        label, contents, scripts = asked.label, asked.contents, asked.scripts
        if label is UNSET or contents is UNSET:
            if old is None:
                raise Refused(f"`{SHOW_PANEL}` of a new panel needs `label` and `contents`")
            label = old.label if label is UNSET else label
            contents = old.contents if contents is UNSET else contents
        if scripts is UNSET:
            scripts = old is not None and old.scripts
        panel = Panel(asked.owner, str(label), str(contents), bool(scripts))
        self._room(panel.owner, Panel, panel.size, old)
        self._may_ask(panel.owner, self._client.capabilities.html_panel)
        self._panels.pop(key, None)
        self._panels[key] = panel
        if self._client.capabilities.html_panel:
            whole = {
                "id": asked.id,
                "label": panel.label,
                "contents": panel.contents,
                "scripts": panel.scripts,
            }
            panel.before = old
            settle = once_shown(self._panels, key, panel, b"panel")
            return [self._asking(id_, SHOW_PANEL, asked, key[0], whole, settle)]
        same = old is not None and old.contents == panel.contents
        panel.body = old.body if old is not None and same else texts.of_html(panel.contents)
        shown = ToChain(id_, b"result", b'{"shown":"text"}')
        if old is not None and same and old.label == panel.label:
            return [shown]
        text = texts.of_panel(panel.owner, panel.label, panel.contents, panel.body)
        return [self._text(key[0], panel.owner, text), shown]

    def _show_comment(self, id_: bytes, params: bytes) -> list[Effect]:
        asked = read(SHOW_COMMENT, params, ShowComment)
        key = self._session(asked), asked.id
        old = self._own(self._comments, key, asked.owner)
        assert isinstance(asked.start, Position)
        end = asked.end
        if end is not None and (end.line, end.column or 1 << 60) < (
            asked.start.line,
            asked.start.column or 1,
        ):
            raise Refused(f"`{SHOW_COMMENT}`: `end` is before `start`")
        comment = Comment(
            asked.owner,
            str(asked.url),
            asked.start,
            end,
            asked.can_reply,
            str(asked.text),
            Thread() if old is None else old.thread,
        )
        self._room(comment.owner, Comment, comment.size, old)
        self._may_ask(comment.owner, self._client.capabilities.file_comment)
        self._comments.pop(key, None)
        self._comments[key] = comment
        if self._client.capabilities.file_comment:
            whole = members_of(asked.id, comment, with_replies=False)
            comment.before = old
            settle = once_shown(self._comments, key, comment, b"comment")
            return [self._asking(id_, SHOW_COMMENT, asked, key[0], whole, settle)]
        shown = ToChain(id_, b"result", b'{"shown":"text"}')
        same = comment.text, comment.url, comment.start
        if old is not None and (old.text, old.url, old.start) == same:
            return [shown]
        text = texts.of_comment(comment.owner, self._at(key[0], comment), comment.text)
        return [self._text(key[0], comment.owner, text), shown]

    def _owner_replies(self, id_: bytes, params: bytes) -> list[Effect]:
        asked = read(REPLY, params, Reply)
        session = self._session(asked)
        comment = self._own(self._comments, (session, asked.id), asked.owner)
        if comment is None:
            raise Refused(f"no comment `{asked.id}` in session `{session}`")
        self._may_ask(asked.owner, self._client.capabilities.file_comment)
        self._add_reply(comment, asked.owner, str(asked.text))
        if self._client.capabilities.file_comment:
            members = {"id": asked.id, "text": asked.text}
            return [self._asking(id_, REPLY, asked, session, members, once_taken)]
        text = texts.of_comment(asked.owner, self._at(session, comment), str(asked.text))
        return [self._text(session, asked.owner, text), ToChain(id_, b"result", TAKEN)]

    def _clear(self, id_: bytes, method: str, params: bytes) -> list[Effect]:
        asked = read(method, params, Named)
        key = self._session(asked), asked.id
        panel = method == CLEAR_PANEL
        kept: dict[Key, Any] = self._panels if panel else self._comments
        there = self._own(kept, key, asked.owner)
        capabilities = self._client.capabilities
        shows = capabilities.html_panel if panel else capabilities.file_comment
        self._may_ask(asked.owner, there is not None and shows)
        kept.pop(key, None)
        if there is None or not shows:
            return [ToChain(id_, b"result", TAKEN)]
        return [self._asking(id_, method, asked, key[0], {"id": asked.id}, once_taken)]

    def _get(self, id_: bytes, method: str, params: bytes) -> list[Effect]:
        asked = read(method, params, Named)
        key = self._session(asked), asked.id
        found: object = None
        if method == GET_PANEL:
            panel = self._own(self._panels, key, asked.owner)
            found = None if panel is None else panel.contents
        else:
            comment = self._own(self._comments, key, asked.owner)
            found = None if comment is None else members_of(asked.id, comment, with_replies=True)
        return [ToChain(id_, b"result", _encode(found))]

    def _operation(self, id_: bytes, method: str, params: bytes) -> list[Effect]:
        asked = read(method, params, Any_)
        owner = asked.owner
        if not self._client.capabilities.ide_operation:
            hint = "an editor says that it has some by `ide_operation` in its capabilities"
            raise Refused(f"the editor has no operations\nhint: {hint}", METHOD_NOT_FOUND)
        members = json_text.decode(params, type=dict[str, Raw])
        members.pop("_meta", None)
        self._may_ask(owner, True)
        return [self._asking(id_, method, asked, self._session(asked), members, None)]

    def _log(self, id_: bytes | None, params: bytes) -> list[Effect]:
        asked = read(LOG, params, Log)
        owner = asked.owner
        if asked.level not in LEVELS:
            raise Refused(f"`{LOG}`: `level` is one of {', '.join(LEVELS)}")
        if len(params) > MOST_BYTES:
            raise Refused(f"`{LOG}` of more than {MOST_BYTES} bytes")
        if self._client.capabilities.log:
            members = {"level": asked.level, "message": asked.message}
            if asked.data is not UNSET:
                members["data"] = asked.data
            session = self._session(asked) if asked.sessionId else None
            logged: Effect = ToClient(None, LOG, _params(asked, session, members))
        else:
            level = {"warn": "warning"}.get(str(asked.level), str(asked.level))
            text = one_line(str(asked.message)[:_LOGGED], 2000)
            if asked.data is not UNSET:
                text += f" {one_line(_encode(asked.data).decode()[:_LOGGED])}"
            logged = _say(level, owner, text)
        return [logged] if id_ is None else [logged, ToChain(id_, b"result", TAKEN)]

    def answered_by_client(self, id_: bytes, member: bytes, body: bytes) -> ToChain | None:
        """The client answers a request; None: the answer goes on as it is."""
        waiting = self._asked.pop(id_, None)
        if waiting is None or waiting.settle is None:
            return None
        return ToChain(id_, *waiting.settle(member, body))

    # -- from the client -----------------------------------------------------------------------

    def from_client(self, id_: bytes | None, method: str, params: bytes) -> list[Effect]:
        """The client sends something to the owner of a panel or comment."""
        try:
            if id_ is None:
                raise Refused("it is a request")
            handler = self._user_replies if method == REPLY else self._happened
            return [handler(id_, method, params)]
        except Refused as refused:
            if id_ is None:
                return [Say("warning", "client", f"`{method}` dropped: {refused}")]
            return [Answer(id_, b"error", refused.body)]

    def _user_replies(self, id_: bytes, method: str, params: bytes) -> Pass:
        asked = read(method, params, Reply)
        session = self._session(asked)
        comment = self._comments.get((session, asked.id))
        if comment is None:
            raise Refused(f"no comment `{asked.id}` in session `{session}`")
        if not comment.can_reply:
            raise Refused(f"comment `{asked.id}` of `{comment.owner}` takes no replies")
        text = str(asked.text)
        self._add_reply(comment, "user", text)
        folders = self._client.folders(session)
        said = texts.of_reply(comment.url, comment.start, comment.end, folders, text)
        prompt = [{"type": "text", "text": said}]
        nobody = _encode({"sessionId": session, "prompt": prompt})

        def settle(member: bytes, body: bytes) -> tuple[bytes, bytes]:
            return b"result", TAKEN if member == b"result" else nobody

        self._owed[id_] = settle
        members = {"id": asked.id, "text": text}
        return Pass(id_, method, _params(asked, session, members, comment.owner))

    def _happened(self, id_: bytes, method: str, params: bytes) -> Pass:
        asked = read(method, params, Event)
        session = self._session(asked)
        kept: dict[Key, Any] = self._panels if method == PANEL_EVENT else self._comments
        there = kept.get((session, asked.id))
        if there is None:
            what = "panel" if method == PANEL_EVENT else "comment"
            raise Refused(f"no {what} `{asked.id}` in session `{session}`")
        if asked.name == CLOSE:
            del kept[session, asked.id]
        self._owed[id_] = once_heard
        members: dict[str, object] = {"id": asked.id, "name": asked.name}
        if asked.data is not UNSET:
            members["data"] = asked.data
        return Pass(id_, method, _params(asked, session, members, there.owner))

    def answered_by_owner(self, id_: bytes, member: bytes, body: bytes) -> Answer | None:
        """A request of the client's is answered; None: the desk does not wait for it."""
        settle = self._owed.pop(id_, None)
        return None if settle is None else Answer(id_, *settle(member, body))

    # -- common to panels and comments ---------------------------------------------------------

    def _session(self, asked: Any_) -> str:
        """The session of a message. Raises `Refused`: it is none of the client's."""
        self.forget_closed()
        open_ = self._client.sessions
        if asked.sessionId is None:
            if len(open_) != 1:
                raise Refused(f"name the session: `sessionId` (the client has {len(open_)})")
            return next(iter(open_))
        if asked.sessionId not in open_:
            raise Refused(f"`{asked.sessionId:.80}` is no session of the client's")
        return asked.sessionId

    def forget_closed(self) -> None:
        """Forgets the panels and comments of sessions that are closed."""
        open_ = self._client.sessions
        for kept in (self._panels, self._comments):
            for key in [key for key in kept if key[0] not in open_]:
                del kept[key]

    @staticmethod
    def _own(kept: dict[Key, Shown], key: Key, owner: str) -> Shown | None:
        there = kept.get(key)
        if there is not None and there.owner != owner:
            raise Refused(f"`{key[1]}` is of `{there.owner}`, not of `{owner}`", INVALID_REQUEST)
        return there

    def _of(self, owner: str) -> Iterator[Panel | Comment]:
        first = owner.partition("/")[0]
        for kept in (self._panels, self._comments):
            for one in kept.values():
                if one.owner.partition("/")[0] == first:
                    yield one

    def _room(self, name: str, kind: type, size: int, old: Panel | Comment | None) -> None:
        """Raises `Refused` where a component shows too much."""
        what = kind.__name__.lower()
        if size > MOST_BYTES:
            raise Refused(f"a {what} has at most {MOST_BYTES} bytes; this of `{name}` {size}")
        others = [one for one in self._of(name) if one is not old]
        if sum(isinstance(one, kind) for one in others) >= MOST:
            raise Refused(f"`{name}` shows {MOST} {what}s already\nhint: clear some")
        if sum(one.size for one in others) + size > MOST_OF_ONE:
            raise Refused(f"`{name}` shows {MOST_OF_ONE} bytes already\nhint: clear some")

    def _add_reply(self, comment: Comment, by: str, text: str) -> None:
        self._room(comment.owner, Comment, comment.size + size_of(text) + 64, comment)
        comment.thread.add({"from": by, "text": text})

    def _may_ask(self, owner: str, asks: bool) -> None:
        """Raises `Refused` where the client has too many open requests of a component.

        `asks`: the client is to get another request of the component.
        """
        first = owner.partition("/")[0]
        sizes = [one.size for one in self._asked.values() if one.of == first] if asks else ()
        if len(sizes) >= MOST_WAITING or sum(sizes) >= MOST_OF_ONE:
            raise Refused(
                f"the editor has not answered {len(sizes)} requests of `{owner}`\n"
                "hint: wait for its answers",
                INVALID_REQUEST,
            )

    def _at(self, session: str, comment: Comment) -> str:
        folders = self._client.folders(session)
        return texts.place(comment.url, comment.start, comment.end, folders)

    def _asking(
        self,
        id_: bytes,
        method: str,
        asked: Any_,
        session: str,
        members: dict[str, Any],
        settle: Settle | None,
    ) -> ToClient:
        """A request to the client, whose answer the desk waits for."""
        params = _params(asked, session, members)
        self._asked[id_] = _Waiting(asked.owner.partition("/")[0], len(params), settle)
        return ToClient(id_, method, params)

    def _text(self, session: str, owner: str, text: str) -> ToClient:
        """A text of a component in a session, among the words of the agent."""
        self._said += 1
        update: dict[str, object] = {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": text},
            "_meta": {STAMP: owner},
        }
        if self._client.version == 2:
            update["messageId"] = f"conductor-editor-{self._said}"
        return ToClient(None, UPDATE, _encode({"sessionId": session, "update": update}))


def _owner(params: bytes) -> str:
    """The component that a refused message is of."""
    try:
        return read("", params, Any_).owner
    except Refused:
        return "editor"


def _say(level: str, owner: str, text: str) -> Say:
    """A log line of a component. Lines of components within a proxy count as that proxy's."""
    first, _, inner = owner.partition("/")
    return Say(level, first, f"{one_line(inner)}: {text}" if inner else text)


def _params(
    asked: Any_, session: str | None, members: dict[str, Any], owner: str | None = None
) -> bytes:
    """The params that go on: with the session, and with the name of the component."""
    meta = dict(asked.meta or {})
    if owner is not None:
        meta[STAMP] = owner
    named = {} if session is None else {"sessionId": session}
    return _encode({**named, **members, "_meta": meta})
