"""`conductor.record.trace.services`: calls of services and their answers in a trace."""

import json
from typing import Any, Final

import pytest

from conductor.record.trace.services import called_service, clean_service
from tests.record.trace.test_tracer import made

Json = dict[str, Any]
KEPT: Final = "kept"
SECRET: Final = "hunter2"  # noqa: S105 - what shall not be found


@pytest.mark.proves("by default neither messages nor")
@pytest.mark.parametrize(
    ("call", "params", "answer"),
    [
        ("kv/set", {"key": "token", "value": SECRET}, {"note": KEPT}),
        ("kv/get", {"key": "password"}, {"found": True, "value": SECRET, "note": KEPT}),
        ("fetch", {"url": f"https://u:{SECRET}@h/?token={SECRET}",
                   "headers": {"authorization": SECRET}},
         {"status": 200, "url": f"https://h/?key={SECRET}", "text": KEPT,
          "headers": {"content-type": KEPT, "set-cookie": SECRET, "x-any": SECRET}}),
    ],
)  # fmt: skip
def test_secrets_are_left_out(call: str, params: Json, answer: Json) -> None:
    texts = [json.dumps(each).encode() for each in (params, answer)]
    known = called_service(made("request", "a", "", "1", call, texts[0], number=1), texts[0])
    assert known is not None
    shown = b"".join(clean_service(text, known) for text in texts)
    assert (SECRET.encode() in shown, KEPT.encode() in shown) == (False, True)


def test_harmless_headers_are_kept_for_the_replay() -> None:
    known = called_service(made("request", "a", "", "1", "fetch", b"{}", number=1), b"{}")
    text = b'{"status":200,"headers":{"content-type":"text/plain","etag":"1"},"text":"x"}'
    assert known is not None
    assert clean_service(text, known) == text
