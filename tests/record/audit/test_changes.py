"""An audit's record of a change, and the report of a change by a host of guests."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conductor.core import CHANNEL, Changed, Component, service_table
from conductor.core.jsonrpc import MAX_DEPTH
from conductor.core.router import Router
from conductor.record.audit.auditor import Auditor
from conductor.record.audit.changes import MOST_OPERATIONS, MOST_TEXT, described
from conductor.record.audit.file import AuditFile, verified
from conductor.run.log import Chain, Change, Ended, Item
from conductor.run.planned import Planned
from conductor.run.report_checks import CHANGES, Reports
from conductor.run.report_checks import change as read
from conductor.run.report_lines import Sized
from conductor.run.report_lines import change_params as params
from conductor.transports.memory import Channel, MemoryTransport

Json = dict[str, Any]

SECRET: Final = {"env": [{"name": "KEY", "value": "hunter2"}]}


def changed(before: object, after: object, **more: Any) -> Changed:
    """A change of a prompt's params by `p`."""
    held: Json = {
        "peer": "p",
        "change": "modified",
        "kind": "request",
        "direction": "down",
        "method": "session/prompt",
        "session": "S",
        "number": 7,
        "source": "client",
        "source_id": "3",
        "target": "agent",
        "target_id": '"x"',
    }
    return Changed(**(held | {"before": raw(before), "after": raw(after)} | more))


def tell(auditor: Auditor, item: Item) -> None:
    """An entry of the log."""
    auditor.take(item, 0.0, "agent")


def reported(
    auditor: Auditor, host: str, line: bytes, guests: tuple[str, ...], around: Router
) -> None:
    """A host reports a change."""
    component = Component(host, f"host `{host}`", CHANNEL)
    planned = {host: Planned(component, MemoryTransport(_silent), guests=guests)}
    reports = Reports(planned, around, lambda item: tell(auditor, item))
    assert reports.take(host, service_table.CHANGED, line) is None


async def _silent(channel: Channel) -> None:
    """A component that says nothing."""


def raw(value: object) -> bytes | None:
    """A payload: bytes as they are, other values as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return json.dumps(value).encode()


def record(change: Changed, content: str = "redacted") -> Json:
    """The record as it is read back."""
    members = described(change, content)
    assert members is not None
    found: Json = json.loads(msgspec.json.encode(members))
    return found


def digest(payload: bytes) -> Json:
    """How a record names a payload."""
    return {"sha256": hashlib.sha256(payload).hexdigest(), "bytes": len(payload)}


# -- records -------------------------------------------------------------------------------------


def test_a_record_says_who_changed_which_message_and_how() -> None:
    before, after = raw({"prompt": ["hi"]}), raw({"prompt": ["now", "hi"]})
    assert before is not None
    assert after is not None
    assert record(changed(before, after)) == {
        "component": "p",
        "change": "modified",
        "kind": "request",
        "direction": "down",
        "method": "session/prompt",
        "session": "S",
        "number": 7,
        "source": "client",
        "source_id": 3,
        "target": "agent",
        "target_id": "x",
        "before": digest(before),
        "after": digest(after),
        "diff": [{"op": "add", "pointer": "/prompt/0", "after": "now"}],
    }


@pytest.mark.parametrize("content", ["redacted", "all", "none"])
def test_other_words_for_the_same_are_no_change(content: str) -> None:
    assert described(changed(b'{"a":1,"b":[1.0]}', b'{ "b": [1.00], "a": 1 }'), content) is None


@pytest.mark.proves("a name that occurs twice does")
@pytest.mark.parametrize("content", ["redacted", "all", "none"])
def test_a_name_that_stands_twice_is_never_the_same(content: str) -> None:
    """Programs differ on which of the two counts."""
    twice, once = b'{"o":{"a":1,"a":2}}', b'{"o":{"a":2}}'
    for before, after in ((twice, once), (once, twice), (twice, b'{"o": {"a":1,"a":2}}')):
        members = described(changed(before, after), content)
        assert members is not None
        assert members.get("repeated") == (None if content == "none" else ["/o"])
    assert b'"after":{"a":1,"a":2}' in msgspec.json.encode(described(changed(once, twice), "all"))


def test_without_content_there_are_digests_only() -> None:
    found = record(changed(["secret words"], ["other words"]), "none")
    assert "diff" not in found
    assert "words" not in json.dumps(found)
    assert found["before"] == digest(b'["secret words"]')


@pytest.mark.proves("the record has no secrets of changed")
def test_secrets_are_not_written_unless_that_is_asked_for() -> None:
    after = {"env": [{"name": "KEY", "value": "swordfish"}], "x": 1}
    found = record(changed(SECRET, after))
    assert found["diff"] == [
        {"op": "add", "pointer": "/x", "after": 1},
        {
            "op": "replace",
            "pointer": "/env/0/value",
            "before": "[redacted]",
            "after": "[redacted]",
        },
    ]
    assert "swordfish" in json.dumps(record(changed(SECRET, after), "all"))
    assert "hunter2" not in json.dumps(record(changed(None, SECRET, change="originated")))
    assert "hunter2" not in json.dumps(record(changed(SECRET, None, change="dropped")))
    login = record(
        changed({"token": "a"}, {"methodId": "hunter2", "word": "hunter2"}, method="authenticate")
    )
    assert login["diff"][1:] == [
        {"op": "add", "pointer": "/methodId", "after": "hunter2"},
        {"op": "add", "pointer": "/word", "after": "[redacted]"},
    ]
    twice = b'{"env":{"KEY":"hunter2","KEY":"hunter3"},"x":1}'
    assert b"hunter" not in msgspec.json.encode(described(changed(twice, {"x": 1}), "redacted"))


def test_a_long_value_is_cut_and_named_by_its_digest() -> None:
    text = "é" * MOST_TEXT
    (operation,) = record(changed({}, {"text": text}))["diff"]
    assert operation["after_cut"] == "é" * 1000 + "…"
    assert operation["after_digest"] == digest(text.encode())
    (operation,) = record(changed({}, {"list": [text]}))["diff"]
    assert operation["after_cut"].startswith('["ééé')
    (operation,) = record(changed(text, [text], change="x"))["diff"]
    assert {"before_cut", "after_cut"} < operation.keys()


def test_of_a_long_text_only_the_part_that_changed_is_written() -> None:
    text = "x" * MOST_TEXT + "\ud800"
    (operation,) = record(changed({"text": text + "end"}, {"text": text + "END" + "end"}))["diff"]
    assert operation == {
        "op": "replace",
        "pointer": "/text",
        "at": MOST_TEXT + 1,
        "before_digest": digest(b"x" * MOST_TEXT + b"\\ud800end"),
        "after_digest": digest(b"x" * MOST_TEXT + b"\\ud800ENDend"),
        "removed": "",
        "added": "END",
    }


def test_not_every_one_of_countless_differences_is_written() -> None:
    found = record(changed(list(range(100)), list(range(100, 220))))
    assert len(found["diff"]) == MOST_OPERATIONS
    assert found["more"] + MOST_OPERATIONS >= 100


def test_what_cannot_be_compared_is_named_by_its_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = record(changed(b"[NaN]", b"[]"))
    assert (broken["diff"], broken["before"]) == (None, digest(b"[NaN]"))
    monkeypatch.setattr("conductor.record.audit.changes._MOST_COMPARED", 3)
    assert record(changed(b"[1]", b"[2]"))["diff"] is None


# -- the auditor ---------------------------------------------------------------------------------


def log(level: str, name: str, text: str) -> None:
    """Nothing is to be said."""
    raise AssertionError(text)


@pytest.fixture(name="auditor")
def _auditor(tmp_path: Path) -> Iterator[Auditor]:
    auditor = Auditor(AuditFile.open(str(tmp_path / "a"), log))
    tell(auditor, Chain([("a+b", ("a", "b"), None), ("c+d", ("c", "d"), None)]))
    yield auditor
    tell(auditor, Ended(None))


def records(folder: Path) -> list[Json]:
    """The records of the audit, its chain checked."""
    with (folder / "a").open("rb") as file:
        list(verified(file))
    return [json.loads(line) for line in (folder / "a").read_bytes().splitlines()]


def test_changes_go_on_record_and_other_words_do_not(tmp_path: Path, auditor: Auditor) -> None:
    tell(auditor, Change(changed([1], [2])))
    tell(auditor, Change(changed(b"[1]", b"[ 1 ]")))
    tell(auditor, Ended(None))
    first, end = records(tmp_path)
    assert (first["event"], first["diff"][0]["pointer"]) == ("change", "/0")
    assert (end["event"], end["changes"]) == ("end", 1)


def test_endless_changes_do_not_fill_the_disk(
    tmp_path: Path, auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.record.audit.auditor.MOST_CHANGES", 2)
    monkeypatch.setattr("conductor.record.audit.auditor._MOST_KINDS", 2)
    for method in ("m", "m", "m", "n", "o", "o", "p"):
        tell(auditor, Change(changed([1], [2], method=method)))
    tell(auditor, Ended(None))
    found = records(tmp_path)
    assert [one["method"] for one in found if one["event"] == "change"] == list("mmnoo")
    rest = [(one["method"], one["count"]) for one in found if one["event"] == "changes"]
    assert rest == [("m", 1), (None, 1)]
    assert found[-1]["changes"] == 7


def test_what_reaches_out_is_on_record_behind_endless_changes(
    tmp_path: Path, auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.record.audit.auditor.MOST_BYTES", 1)
    asked = {"sessionId": "s", "path": "/a"}
    for _ in range(2):
        tell(auditor, Change(changed([1], [2])))
        tell(auditor, Change(changed(None, asked, change="originated", method="fs/read_text_file")))
    tell(auditor, Ended(None))
    found = [one["where"] for one in records(tmp_path) if one["event"] == "effect"]
    assert found == ["/a", "/a"]


def test_methods_that_one_invents_leave_room_for_those_of_another(
    tmp_path: Path, auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.record.audit.auditor._MOST_KINDS", 2)
    monkeypatch.setattr("conductor.record.audit.auditor.MOST_CHANGES", 0)
    for method in "mnopq":
        tell(auditor, Change(changed([1], [2], method=method)))
    tell(auditor, Change(changed([1], [2], peer="other", method="m")))
    tell(auditor, Ended(None))
    rest = [(one["component"], one["method"]) for one in records(tmp_path)[:-1]]
    assert rest == [("p", "m"), ("p", "n"), ("p", None), ("other", "m")]


def test_of_too_many_values_there_are_digests_only() -> None:
    many = b'{"a":[%b1]}' % (b"1," * 20_000)
    found = record(changed(many, b"{}"))
    assert found["diff"] is None
    assert found["before"] == digest(many)


def test_what_takes_too_much_memory_to_compare_has_its_digests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    for name in ("conductor.record.diff.diff", "conductor.record.audit.changes._operation"):
        with monkeypatch.context() as patch:
            patch.setattr(name, full)
            found = record(changed([1], [2]))
            assert found["diff"] is None
            assert found["after"] == digest(b"[2]")


@pytest.mark.parametrize(("direction", "source", "target"), [("down", "b", "c"), ("up", "a", "d")])
def test_of_a_host_the_guest_next_to_it_is_named(
    tmp_path: Path, auditor: Auditor, direction: str, source: str, target: str
) -> None:
    names = {"source": "a+b", "target": "c+d", "direction": direction}
    tell(auditor, Change(changed([1], [2], **names)))
    (found,) = records(tmp_path)
    assert (found["source"], found["target"]) == (source, target)


class Around(Router):
    """The router around the host `a+b`: the host `c+d` has asked as `"q"`."""

    def __init__(self, *, waiting: bool = True) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.waiting = waiting

    def asker(self, name: str, side: str, key: bytes) -> tuple[str, str] | None:
        """Who asked."""
        self.asked.append((name, side, key))
        return ("c+d", '"q"') if self.waiting else None

    def neighbour(self, name: str, side: str) -> str | None:
        """Who is next to it."""
        return f"{side} of {name}"


@pytest.mark.parametrize(
    ("more", "asked", "expected"),
    [
        ({"source": "client"}, ("p", b"3"), ("d", "q", "agent", "x")),
        ({"source": "client", "direction": "up"}, ("s", b"3"), ("c", "q", "agent", "x")),
        ({"source": "client", "target": "client"}, ("p", b"3"), ("d", "q", "s of a+b", "x")),
        (
            {"kind": "response", "direction": "up", "source": None, "target": "client"},
            ("p", b'"x"'),
            (None, 3, "d", "q"),
        ),
        (
            {"kind": "response", "direction": "down", "source": None, "target": "client"},
            ("s", b'"x"'),
            (None, 3, "c", "q"),
        ),
        ({"kind": "response", "source": None}, None, (None, 3, "agent", "x")),
        (
            {"kind": "notification", "source": "client", "source_id": None},
            None,
            ("p of a+b", None, "agent", "x"),
        ),
        (
            {"kind": "notification", "direction": "up", "source": "b", "target": "client"},
            None,
            ("b", 3, "p of a+b", "x"),
        ),
    ],
)
def test_what_a_host_reports_is_told_by_our_own_names_and_ids(
    tmp_path: Path,
    auditor: Auditor,
    more: Json,
    asked: tuple[str, bytes] | None,
    expected: tuple[object, ...],
) -> None:
    around = Around()
    line = msgspec.json.encode(params(changed([1], [2], peer="a", **more), 10_000))
    reported(auditor, "a+b", line, ("a", "b"), around)
    (found,) = records(tmp_path)
    assert around.asked == ([("a+b", *asked)] if asked else [])
    names = ("source", "source_id", "target", "target_id")
    assert tuple(found[name] for name in names) == expected


@pytest.mark.parametrize(("kind", "end"), [("request", "source"), ("response", "target")])
def test_what_is_answered_already_is_told_without_its_id(
    tmp_path: Path, auditor: Auditor, kind: str, end: str
) -> None:
    change = changed([1], [2], peer="a", kind=kind, **{end: "client"})
    line = msgspec.json.encode(params(change, 10_000))
    reported(auditor, "a+b", line, ("a",), Around(waiting=False))
    (found,) = records(tmp_path)
    assert (found[end], found[f"{end}_id"]) == (None, None)


# -- reports of hosts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [([1], [2]), (None, {"a": 1}), ([1], None), (b'{"a":1,"a":2}', b'{ "a":"\\ud800"}')],
)
def test_a_report_is_read_as_it_was_written(before: object, after: object) -> None:
    change = changed(before, after)
    line = msgspec.json.encode(params(change, 100_000))
    assert read(line, {"p"}) == Change(change)


def test_what_does_not_fit_in_a_line_is_reported_by_its_digest(
    tmp_path: Path, auditor: Auditor
) -> None:
    long, deep = raw(["x" * 10_000]), b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert long is not None
    line = msgspec.json.encode(params(changed(long, deep), 20_000))
    told = read(line, {"p"})
    found, before, after = told.changed, told.before, told.after
    assert (found.before, found.after) == (None, None)
    assert before == Sized(**digest(long))
    assert after == Sized(**digest(deep))
    reported(auditor, "p", line, ("p",), Around())
    (held,) = records(tmp_path)
    assert (held["diff"], held["before"], held["after"]) == (None, digest(long), digest(deep))


WRONG: Final = [
    {"peer": "other"},
    {"change": "blessed"},
    {"kind": "letter"},
    {"direction": "sideways"},
    {"number": "seven"},
    {"source_id": "{}"},
    {"source_id": "1\n"},
    {"target_id": "nonsense"},
]


@pytest.mark.proves("a host of guests cannot blame")
@pytest.mark.parametrize("more", WRONG)
def test_a_host_is_not_believed_everything(more: Json) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(msgspec.json.encode(params(changed([1], [2], **more), 10_000)), {"p"})


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"changed":{}}', b'{"changed":1}'])
def test_nonsense_is_no_report(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(line, {"p"})
    assert CHANGES


def test_what_is_only_late_is_put_on_record_without_a_difference() -> None:
    late = changed([1], [1], change="reordered", kind="notification")
    found = described(late, "redacted")
    assert found is not None
    assert (found["change"], found["diff"]) == ("reordered", [])
    assert described(changed([1], [1]), "redacted") is None
