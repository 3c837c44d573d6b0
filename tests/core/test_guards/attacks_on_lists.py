"""Attacks on lists of sessions."""

import json
from collections.abc import Iterator

from tests.core.test_guards.attack import Attack, answers, makes_up, passes_on
from tests.core.test_guards.samples import Object

ONE, TWO = ({"sessionId": one, "cwd": f"/{one}", "title": one} for one in ("s", "t"))
LIST = {"sessions": [ONE, TWO], "nextCursor": "c", "x": 1}


def lists() -> Iterator[Attack]:
    """Entries forged, added and moved; lists asked for."""
    for method in ("session/list", "session/status"):
        yield makes_up("session-lists", method, method)
        yield makes_up("session-lists", method, method).having(sessions="own")
        yield passes_on("session-lists", method, method, '{"cwd":"/w"}', '{"cwd":"/"}')
        yield passes_on(
            "session-lists", f"{method}, session", method, '{"sessionId":"a"}', '{"sessionId":"b"}'
        )
        yield answers("session-lists", method, method, '{"sessions":[]}')
        changes: dict[str, Object] = {
            "another folder": {"sessions": [{**ONE, "cwd": "/etc"}, TWO]},
            "another title": {"sessions": [ONE, {**TWO, "title": "s"}]},
            "moved": {"sessions": [TWO, ONE]},
            "twice": {"sessions": [ONE, ONE, TWO]},
            "of the next page, elsewhere": {
                "sessions": [ONE, TWO, {"sessionId": "n", "cwd": "/etc"}]
            },
            "one of others": {"sessions": [ONE, TWO, {"sessionId": "in-use", "cwd": "/w"}]},
            "one without an id": {"sessions": [ONE, TWO, {"cwd": "/w"}]},
            "an id that is no text": {"sessions": [ONE, TWO, {"sessionId": 1}]},
            "no list": {"sessions": {}},
            "none": {"sessions": None},
            "another cursor": {"nextCursor": "d"},
            "a member": {"trusted": True},
        }
        for what, change in changes.items():
            forged = json.dumps({**LIST, **change})
            attack = answers("session-lists", f"{method}, {what}", method, forged, json.dumps(LIST))
            yield attack
            yield attack.having(sessions="own")
        fresh = json.dumps({**LIST, "sessions": [ONE, TWO, {"sessionId": "fresh"}]})
        yield answers("session-lists", f"{method}, one more", method, fresh, json.dumps(LIST))
        yield answers("session-lists", f"{method}, no object", method, "[]", json.dumps(LIST))
        yield answers("session-lists", f"{method}, for none", method, "{}", "[]")
    state = '{"status":"open","state":{"state":"idle"}}'
    busy = '{"status":"open","state":{"state":"running"}}'
    yield answers("session-lists", "another state", "session/status", state, busy)
