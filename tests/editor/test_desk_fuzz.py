"""Whatever a component or an editor sends, the desk fails at nothing."""

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.policy.key_table import EVENTS, STAMP
from conductor.editor import messages
from conductor.editor.desk import Desk
from conductor.editor.effects import Pass, ToClient
from tests.editor.test_desk_bounds import Client

METHODS: Final = (
    *(messages.SHOW_PANEL, messages.CLEAR_PANEL, messages.GET_PANEL, messages.REPLY, messages.LOG),
    *(messages.SHOW_COMMENT, messages.CLEAR_COMMENT, messages.GET_COMMENT),
    *(*messages.OPERATIONS, *EVENTS, "_scp/panel", "_scp/log\x1b"),
)
ODD: Final[st.SearchStrategy[Any]] = st.sampled_from(
    (
        *(None, True, 0, -1, 1, 2**53, 2**64, 10**40, 1.5, "", "w", "S", "close", "user", "info"),
        *("http://[", "file:///p/a", "<a b='", "&#" + "9" * 5000, "\x1b[2J\u202e", [], {}, [[[]]]),
        *({"line": 1}, {"line": 10**30, "column": 2}, {"line": 0}, {"line": 1, "column": None}),
        *({STAMP: "X"}, {STAMP: "X/y"}, {STAMP: 1}, {STAMP: "X", "a": {"b": 10**40}}),
    )
)
MEMBERS: Final = (
    *("_meta", "sessionId", "id", "label", "contents", "scripts", "url", "start", "end", "text"),
    *("can_reply", "name", "data", "level", "message", "arguments", "category"),
)
GOOD: Final[dict[str, Any]] = {
    "_meta": {STAMP: "X"}, "id": "w", "label": "l", "contents": "<b>", "url": "file:///p/a",
    "start": {"line": 1}, "text": "t", "name": "close", "level": "info", "message": "m",
}  # fmt: skip
PARAMS: Final = st.one_of(
    st.dictionaries(st.sampled_from(MEMBERS), ODD, max_size=3).map(lambda odd: {**GOOD, **odd}),
    ODD,
)
STEP: Final = st.tuples(
    st.sampled_from(("up", "down", "client", "owner")),
    st.sampled_from(METHODS),
    PARAMS,
    st.booleans(),
    st.sampled_from((b'{"shown":1}', b"null", b"[1]", b'{"code":-32601,"message":"no"}', b'"x"')),
)


@given(st.booleans(), st.lists(STEP, max_size=12))
def test_nothing_breaks_the_desk(shows: bool, steps: list[Any]) -> None:
    desk = Desk(Client(html_panel=shows, file_comment=shows, ide_operation=shows, log=shows))
    asked: list[bytes] = []
    owed: list[bytes] = []
    for number, (way, method, params, is_request, body) in enumerate(steps):
        member = b"result" if is_request else b"error"
        if way == "client" and asked:
            desk.answered_by_client(asked.pop(), member, body)
        elif way == "owner" and owed:
            desk.answered_by_owner(owed.pop(), member, body)
        else:
            send = desk.from_chain if way == "up" else desk.from_client
            id_ = b"%d" % number if is_request else None
            for effect in send(id_, method, json.dumps(params).encode()):
                if isinstance(effect, ToClient) and effect.id is not None:
                    assert shows
                    asked.append(effect.id)
                elif isinstance(effect, Pass):
                    owed.append(effect.id)
