"""The desk under random conversations of several components, a client and its sessions: the owner
and the receiver of each thing are right, and each request has one answer."""

import json
from collections import Counter
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.policy.key_table import STAMP
from conductor.editor.desk import Desk
from conductor.editor.effects import Answer, Effect, Pass, Say, ToChain, ToClient
from conductor.editor.messages import Capabilities
from tests.editor.test_desk import Editor

OWNERS: Final = st.sampled_from(["X", "Y", "inner/X"])
SESSIONS: Final = st.sampled_from(["S", "T"])
KINDS: Final = st.sampled_from(["html_panel", "file_comment"])
IDS: Final = st.sampled_from(["a", "b"])
TEXTS: Final = st.sampled_from(["one", "two"])
FLAGS: Final = {
    "html_panel": "html_panel",
    "file_comment": "file_comment",
    "ide_operation": "ide_operation",
    "log": "log",
}
Key = tuple[str, str, str]
"""The kind of a thing, its session and its id."""


class Conversation(RuleBasedStateMachine):
    """The desk beside a list of the texts that should be shown."""

    def __init__(self) -> None:
        super().__init__()
        self.editor = Editor(sessions=["S", "T"])
        self.desk = Desk(self.editor)
        self.count = 0
        self.shows: dict[Key, list[tuple[bytes, str, str]]] = {}
        """The id of each `show`, its owner and its text, by key; refused ones are taken out."""
        self.at_client: dict[bytes, Key | None] = {}
        """Requests that the client has; a key: of a `show`."""
        self.at_owner: dict[bytes, str] = {}
        self.answers: Counter[tuple[str, bytes]] = Counter()
        self.asked: set[tuple[str, bytes]] = set()

    @initialize(flags=st.tuples(*[st.booleans()] * 4), version=st.sampled_from([1, 2]))
    def client(self, flags: tuple[bool, bool, bool, bool], version: int) -> None:
        self.editor.capabilities = Capabilities(*flags)
        self.editor.version = version

    def id(self, side: str) -> bytes:
        self.count += 1
        id_ = str(self.count).encode()
        self.asked.add((side, id_))
        return id_

    def up(self, method: str, owner: str, **params: Any) -> tuple[bytes, list[Effect]]:
        id_ = self.id("chain")
        body = json.dumps({**params, "_meta": {STAMP: owner}}).encode()
        effects = self.desk.from_chain(id_, f"_scp/{method}", body)
        self.seen(effects)
        return id_, effects

    def seen(self, effects: list[Effect]) -> None:
        """Each effect is one that the client's capabilities allow."""
        can = self.editor.capabilities
        for effect in effects:
            match effect:
                case ToClient(id_, method, params):
                    family = method.removeprefix("_scp/").partition("/")[0]
                    assert getattr(can, FLAGS.get(family, ""), method == "session/update"), method
                    if id_ is not None:
                        assert json.loads(params)["_meta"][STAMP]
                        self.at_client.setdefault(id_, None)
                case ToChain(id_, _, body):
                    json.loads(body)
                    self.answers["chain", id_] += 1
                case Answer(id_, _, body):
                    json.loads(body)
                    self.answers["client", id_] += 1
                case Pass() | Say():
                    pass

    def shown(self, key: Key) -> tuple[bytes, str, str] | None:
        return self.shows.get(key, [None])[-1] if self.shows.get(key) else None

    def refused(self, effects: list[Effect]) -> int:
        (answer,) = effects
        assert isinstance(answer, ToChain | Answer)
        assert answer.member == b"error"
        code: int = json.loads(answer.body)["code"]
        return code

    # -- components ----------------------------------------------------------------------------

    @rule(kind=KINDS, owner=OWNERS, session=SESSIONS, id_=IDS, text=TEXTS)
    def show(self, kind: str, owner: str, session: str, id_: str, text: str) -> None:
        key = (kind, session, id_)
        there = self.shown(key)
        panel = {"label": "L", "contents": text}
        comment = {"url": "a.py", "start": {"line": 1}, "text": text, "can_reply": True}
        params = panel if kind == "html_panel" else comment
        asked, effects = self.up(f"{kind}/show", owner, sessionId=session, id=id_, **params)
        if session not in self.editor.sessions:
            self.refused(effects)
        elif there is not None and there[1] != owner:
            assert self.refused(effects) == INVALID_REQUEST
        else:
            self.shows.setdefault(key, []).append((asked, owner, text))
            if asked in self.at_client:
                self.at_client[asked] = key

    @rule(kind=KINDS, owner=OWNERS, session=SESSIONS, id_=IDS)
    def clear(self, kind: str, owner: str, session: str, id_: str) -> None:
        key = (kind, session, id_)
        there = self.shown(key)
        _, effects = self.up(f"{kind}/clear", owner, sessionId=session, id=id_)
        if session not in self.editor.sessions:
            self.refused(effects)
        elif there is not None and there[1] != owner:
            assert self.refused(effects) == INVALID_REQUEST
        else:
            self.shows.pop(key, None)

    @rule(kind=KINDS, owner=OWNERS, session=SESSIONS, id_=IDS)
    def get(self, kind: str, owner: str, session: str, id_: str) -> None:
        there = self.shown((kind, session, id_))
        _, effects = self.up(f"{kind}/get", owner, sessionId=session, id=id_)
        if session not in self.editor.sessions:
            self.refused(effects)
        elif there is not None and there[1] != owner:
            assert self.refused(effects) == INVALID_REQUEST
        else:
            (answer,) = effects
            assert isinstance(answer, ToChain)
            found = json.loads(answer.body)
            text = found["text"] if isinstance(found, dict) else found
            assert text == (None if there is None else there[2])

    @rule(owner=OWNERS, session=SESSIONS)
    def operate_and_log(self, owner: str, session: str) -> None:
        _, effects = self.up("ide_operation/run", owner, sessionId=session, name="x")
        if not self.editor.capabilities.ide_operation:
            assert self.refused(effects) == -32601
        self.up("log", owner, level="info", message="m", sessionId=session)

    # -- the client ----------------------------------------------------------------------------

    @rule(data=st.data(), good=st.booleans())
    def client_answers(self, data: st.DataObject, good: bool) -> None:
        if not self.at_client:
            return
        id_ = data.draw(st.sampled_from(sorted(self.at_client)))
        key = self.at_client.pop(id_)
        member, body = (b"result", b"3") if good else (b"error", b'{"code":-1}')
        answer = self.desk.answered_by_client(id_, member, body)
        if answer is None:  # an operation: its answer goes to the chain as it came
            answer = ToChain(id_, member, body)
        self.seen([answer])
        if not good and key is not None and key in self.shows:
            left = [one for one in self.shows[key] if one[0] != id_]
            self.shows[key] = left

    @rule(kind=KINDS, session=SESSIONS, id_=IDS, name=st.sampled_from(["click", "close"]))
    def happens(self, kind: str, session: str, id_: str, name: str) -> None:
        params = {"sessionId": session, "id": id_, "name": name, "_meta": {STAMP: "Z"}}
        self.down(f"{kind}/event", (kind, session, id_), params)
        if name == "close" and session in self.editor.sessions:
            self.shows.pop((kind, session, id_), None)

    @rule(session=SESSIONS, id_=IDS)
    def replies(self, session: str, id_: str) -> None:
        params = {"sessionId": session, "id": id_, "text": "r"}
        self.down("file_comment/reply", ("file_comment", session, id_), params)

    def down(self, method: str, key: Key, params: dict[str, Any]) -> None:
        there = self.shown(key)
        id_ = self.id("client")
        effects = self.desk.from_client(id_, f"_scp/{method}", json.dumps(params).encode())
        self.seen(effects)
        if there is None or key[1] not in self.editor.sessions:
            self.refused(effects)
        else:
            (passed,) = effects
            assert isinstance(passed, Pass)
            assert json.loads(passed.params)["_meta"][STAMP] == there[1]
            self.at_owner[id_] = there[1]

    @rule(data=st.data(), good=st.booleans())
    def owner_answers(self, data: st.DataObject, good: bool) -> None:
        if not self.at_owner:
            return
        id_ = data.draw(st.sampled_from(sorted(self.at_owner)))
        del self.at_owner[id_]
        member, body = (b"result", b"1") if good else (b"error", b'{"code":-1}')
        answer = self.desk.answered_by_owner(id_, member, body)
        assert answer is not None
        self.seen([answer])

    @rule(session=SESSIONS)
    def session_ends_or_begins(self, session: str) -> None:
        if session not in self.editor.sessions:
            self.editor.sessions.append(session)
            return
        self.editor.sessions.remove(session)
        # The desk finds out by the next message.
        self.up("html_panel/get", "X", sessionId="T" if session == "S" else "S", id="none")
        self.shows = {key: one for key, one in self.shows.items() if key[1] != session}

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def each_request_is_with_somebody_or_answered_once(self) -> None:
        open_ = {("chain", id_) for id_ in self.at_client}
        open_ |= {("client", id_) for id_ in self.at_owner}
        assert self.asked == open_ | set(self.answers)
        assert not open_ & set(self.answers)
        assert set(self.answers.values()) <= {1}
        assert self.desk.owes == bool(self.at_owner)


TestConversation = Conversation.TestCase
TestConversation.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
