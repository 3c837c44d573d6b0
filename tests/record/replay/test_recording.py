"""`conductor.record.replay.recording`: the messages of a chain's ends, or of one component's."""

import json
from pathlib import Path

import pytest

from conductor.errors import UsageError
from conductor.record.replay.recording import load

HEAD = {"type": "_conductor", "format": 1, "content": "all", "components": ["a", "b", "agent"]}


def request(ts: float, route: str, id_: int, n: int, **own: object) -> dict[str, object]:
    """A request: `client a session/new`."""
    source, target, method = route.split()
    return {
        "type": "request", "ts": ts, "from": source, "to": target, "id": id_, "method": method,
        "params": {"n": id_}, "_conductor": {"n": n, **own},
    }  # fmt: skip


def notification(ts: float, route: str, n: int, **own: object) -> dict[str, object]:
    """A notification."""
    members = request(ts, route, n, n, **own)
    return {**members, "type": "notification", "id": None}


def answer(ts: float, route: str, id_: int, n: int, **own: object) -> dict[str, object]:
    """The answer to a request."""
    source, target = route.split()
    return {
        "type": "response", "ts": ts, "from": source, "to": target, "id": id_, "payload": {},
        "_conductor": {"n": n, **own},
    }  # fmt: skip


def file(folder: Path, *lines: dict[str, object]) -> str:
    """A trace of these lines."""
    path = folder / "t"
    text = (json.dumps(line, separators=(",", ":")) + "\n" for line in (HEAD, *lines))
    path.write_text("".join(text))
    return str(path)


def test_one_component_is_a_chain_of_its_own(tmp_path: Path) -> None:
    """The component's neighbours are the client and the agent; messages between others are left
    out, and messages past the component are not."""
    path = file(
        tmp_path,
        request(0.1, "client a proxy/initialize", 1, 1),
        request(0.2, "a b proxy/initialize", 2, 2, passes=1),
        request(0.3, "b agent initialize", 3, 3, passes=2),
        request(0.4, "client agent session/list", 4, 4),
        request(0.5, "a conductor clock", 5, 0),
        request(0.6, "b conductor random", 6, 0),
    )
    ends = {
        name: [
            [f"{line.source} {line.target} {line.method}" for line in kept]
            for kept in (recording.client, recording.agent, recording.services)
        ]
        for name in ("a", "b")
        for recording, _ in (load(path, name),)
    }
    past = "client agent session/list"
    assert ends == {
        "a": [
            ["client a initialize", past], ["a agent initialize", past], ["a conductor clock"],
        ],
        "b": [
            ["client b initialize", past], ["b agent initialize", past], ["b conductor random"],
        ],
    }  # fmt: skip
    whole, _ = load(path)
    assert whole.names == ["a", "b"]
    assert [line.method for line in whole.agent] == ["initialize", "session/list"]
    with pytest.raises(UsageError, match="has no component `c`") as caught:
        load(path, "c")
    assert caught.value.hint == "--as NAME names a component of it: a, b"


def test_a_component_that_nobody_knows_hides_no_other(tmp_path: Path) -> None:
    chain = [{"name": "a", "role": "proxy", "kind": "later"}, {"name": "b", "role": "proxy",
              "kind": "script", "source": "b.py"}]  # fmt: skip
    path = tmp_path / "t"
    lines = {**HEAD, "chain": chain}, request(0.1, "client agent initialize", 1, 1)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [*load(str(path))[0].chain] == ["b"]


def test_a_message_stands_where_it_was_read(tmp_path: Path) -> None:
    """Whatever it has waited for on its way to its receiver."""
    path = file(
        tmp_path,
        request(0.3, "client agent session/list", 1, 3),
        request(0.4, "client a session/new", 2, 2, way=150.0),
        request(0.5, "a b _second", 3, 12, way=10.0),
        request(0.6, "a b _first", 4, 11, way=300.0),
        request(0.7, "client b _past", 5, 9, way=150.0),
    )
    assert [line.method for line in load(path)[0].client] == [
        "session/new", "session/list", "_past",
    ]  # fmt: skip
    assert [line.method for line in load(path, "b")[0].client] == [
        "session/list", "_first", "_second", "_past",
    ]  # fmt: skip


def test_a_request_that_a_component_could_not_take_was_sent_once(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        request(0.1, "client a session/new", 1, 1),
        answer(0.2, "a client", 1, 2, of=1, lost=True, by="conductor"),
        request(0.3, "client b session/new", 2, 1),
        request(0.4, "b agent session/new", 3, 4, passes=1),
        notification(0.5, "client a _lost", 5, lost=True),
        notification(0.6, "client a _kept", 6),
    )
    assert [(line.method, line.target) for line in load(path)[0].client] == [
        ("session/new", "b"), ("_kept", "a"),
    ]  # fmt: skip


def test_a_request_and_its_answer_count_once(tmp_path: Path) -> None:
    """Lines of a damaged trace may stand there twice, or without the other line."""
    asked, answered = request(0.1, "client a _x", 1, 1), answer(0.3, "a client", 1, 3)
    onward = request(0.2, "a agent _x", 2, 2, passes=1)
    path = file(tmp_path, asked, asked, onward, answered, answered, answer(0.4, "a client", 9, 4))
    assert [line.type for line in load(path)[0].client] == ["request", "response"]
