"""`conductor.record.trace.records`: what a trace records of a component, and what it leaves out."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from conductor.record.trace.records import Conversation

Json = dict[str, Any]


class Written:
    """A conversation, and what has been written of it."""

    def __init__(self, content: str = "redacted") -> None:
        self.records: list[Json] = []
        self.it = Conversation("it", 1, self._record, content)

    def _record(self, record: bytes) -> None:
        self.records.append(json.loads(record))

    def line(self, text: str, *, sent: bool) -> Any:
        """The message that is written of a line."""
        return json.loads(self.it.line(text, sent=sent) or b"")[1]


def message(**members: object) -> str:
    """A message's text."""
    return json.dumps({"jsonrpc": "2.0", **members}, separators=(",", ":"))


def test_a_record() -> None:
    written = Written()
    asked = "c" + message(id=1, method="clock")
    prompt = "p" + message(id=1, method="session/prompt", params={"sessionId": "a"})
    written.it.write(0.5, [prompt], [asked], delivery=3)
    written.it.write(0.7, ["c" + message(id=1, result={"unixMs": 5})], [], delivery=4, failed="x")
    first, second = written.records
    assert first == {
        "component": "it", "run": 1, "ts": 0.5, "delivery": 3,
        "given": [["p", json.loads(prompt[1:])]], "said": [["c", json.loads(asked[1:])]],
    }  # fmt: skip
    assert (second["delivery"], second["failed"]) == (4, "x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pnonsense", ["p", None, "nonsense"]),
        ("nonsense", ["", None, "nonsense"]),
        ("", ["", None, ""]),
        ('p{"a":', ["p", None, '{"a":']),
        ("p\\xff", ["p", None, "\\xff"]),
        ("c[1]", ["c", [1]]),
    ],
)
def test_what_is_no_message_stands_as_text(text: str, shown: list[Any]) -> None:
    assert json.loads(Written().it.line(text, sent=True) or b"") == shown


KEPT: Final = "kept"
SECRET: Final = "hunter2"  # noqa: S105 - what shall not be found

TOKEN: Final = f"ghp_{SECRET}{'x' * 29}"
LEAKS: Final = json.dumps({"prompt": f"say {TOKEN}"})
HARMLESS: Final = message(method="_x", params={"a": KEPT})[1:]

SECRETS: Final[dict[str, list[tuple[bool, str]]]] = {
    "beside what a message has": [(True, message(method="_x", params={"a": KEPT}, extra=TOKEN))],
    "a member that stands twice": [
        (True, f'{{"params":{LEAKS},{HARMLESS}'),
    ],
    "a member spelt in another way": [
        (True, f'{{"para\\u006ds":{LEAKS},{HARMLESS}'),
    ],
    "a member of an envelope that stands twice": [
        (True, '{"method":"proxy/successor","params":{"params":' + LEAKS
         + ',"method":"session/prompt","params":{"a":"kept"}}}'),
    ],
    "a message": [(True, "s" + message(method="_x", params={"apiKey": SECRET, "a": KEPT}))],
    "a login": [(False, "p" + message(id=1, method="authenticate",
                                      params={"methodId": KEPT, "code": SECRET}))],
    "a login in an envelope": [(False, message(id=1, method="proxy/successor", params={
        "method": "authenticate", "params": {"methodId": KEPT, "code": SECRET}}))],
    "a login in a nested one": [(False, message(id=1, method="_proxy/successor/send/request",
        params={"message": {"method": "authenticate",
                            "params": {"methodId": KEPT, "code": SECRET}}}))],
    "settings": [(False, "c" + message(method="configure", params={
        "name": KEPT, "config": {"api_key": SECRET}}))],
    "a value, by its key": [
        (True, "c" + message(id=1, method="kv/set", params={"key": "token", "value": SECRET})),
        (True, "c" + message(id=2, method="kv/get", params={"key": "token"})),
        (False, "c" + message(id=2, result={"found": True, "value": SECRET, "note": KEPT})),
    ],
    "a value of a program": [
        (True, message(id=2, method="_conductor/kv/get", params={"key": "password"})),
        (False, message(id=2, result={"found": True, "value": SECRET, "note": KEPT})),
    ],
    "what is fetched": [
        (True, "c" + message(id=1, method="fetch", params={
            "url": f"https://u:{SECRET}@h/?token={SECRET}", "headers": {"authorization": SECRET}})),
        (False, "c" + message(id=1, result={
            "status": 200, "url": f"https://h/?key={SECRET}", "text": KEPT,
            "headers": {"content-type": KEPT, "set-cookie": SECRET, "x-any": SECRET}})),
    ],
}  # fmt: skip


@pytest.mark.proves("by default neither messages nor")
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_left_out(name: str) -> None:
    written = Written()
    # As bytes: of a member that stands twice a parser would show the last one only.
    shown = [written.it.line(text, sent=sent) or b"" for sent, text in SECRETS[name]]
    assert SECRET.encode() not in b"".join(shown)
    assert KEPT.encode() in shown[-1]
    whole = Written("all")
    for sent, text in SECRETS[name]:
        assert whole.line(text, sent=sent) == json.loads(text.lstrip("psc"))


def test_harmless_headers_are_kept_for_the_replay() -> None:
    written = Written()
    written.line("c" + message(id=1, method="fetch", params={"url": "https://h"}), sent=True)
    headers = {"content-type": "text/plain", "etag": '"1"'}
    answer = message(id=1, result={"status": 200, "headers": headers, "text": "x"})
    assert written.line("c" + answer, sent=False) == json.loads(answer)


def test_a_line_that_costs_too_much_is_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[bytes] = []
    it = Conversation("p", 1, kept.append, "redacted")
    many = '{"jsonrpc":"2.0","method":"m","params":[%s1]}' % ("1," * 100_000)
    it.write(0.0, [many, '{"jsonrpc":"2.0","method":"n"}'], [many])
    (found,) = map(json.loads, kept)
    assert found["given"] == [["", {"jsonrpc": "2.0", "method": "n"}]]
    assert found["left_out"] == 2
    assert "said" not in found

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("conductor.record.trace.records.redacted", full)
    it.write(0.0, ['{"jsonrpc":"2.0","method":"n","params":{}}'], [])
    assert json.loads(kept[1])["left_out"] == 1
