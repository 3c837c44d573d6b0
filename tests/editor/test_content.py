"""Content of types that an editor does not show."""

import json
from typing import Any

import pytest
from msgspec import Raw

from conductor.editor.content import TYPES, adapted, session_and_update, untaken

AUDIO = {"type": "audio", "mimeType": "audio/wav", "data": "QUJD"}
WORDS = {
    "type": "text",
    "text": "[audio: audio/wav, 3 bytes; left out, since this editor shows none]",
}


def section(held: object) -> dict[str, Any]:
    return {"_meta": {"symposium": held}}


@pytest.mark.parametrize(
    ("initialize", "lacks"),
    [
        ({"clientCapabilities": section({"content": ["image"]})}, {"audio", "resource"}),
        ({"capabilities": section({"content": []})}, TYPES),
        (section({"content": [*TYPES, "unheard-of", 5]}), set()),
        ({"clientCapabilities": section({"content": "image"})}, set()),
        ({"clientCapabilities": {"_meta": {"symposium": []}}}, set()),
        ({"clientCapabilities": {"content": []}}, set()),
        ([], set()),
    ],
)
def test_what_a_client_says_it_shows(initialize: object, lacks: set[str]) -> None:
    assert untaken(json.dumps(initialize).encode()) == lacks


@pytest.mark.parametrize(
    "content",
    [
        AUDIO,
        [{"type": "text", "text": "a"}, AUDIO],
        [{"type": "content", "content": AUDIO, "more": 1}, {"type": "diff", "path": "/a"}],
    ],
)
def test_wherever_content_stands(content: object) -> None:
    params = json.dumps({"sessionId": "S", "update": {"content": content, "x": 1}})
    after, types = adapted(Raw(params.encode()), TYPES)
    assert types == ("audio",)
    assert json.loads(bytes(after)) == json.loads(
        params.replace(json.dumps(AUDIO), json.dumps(WORDS))
    )


@pytest.mark.parametrize(
    "params",
    [
        b"[]",
        b"{}",
        b'{"update":5}',
        b'{"update":{"content":"audio"}}',
        b'{"update":{"content":[5,{"type":["audio"]},{"type":"content","content":null}]}}',
        b'{"update":{"content":{"type":"text","text":"\\ud800"}}}',
        # Nothing of ACP nests: a stranger's may, as deep as a message can.
        b'{"update":{"content":%b{"type":"audio"}%b}}' % (b"[" * 500, b"]" * 500),
        b'{"update":{"content":%b%b}}' % (b'{"type":"content","content":' * 500, b"1" + b"}" * 500),
    ],
)
def test_what_holds_none_stays_as_it_is(params: bytes) -> None:
    assert adapted(Raw(params), TYPES) == (Raw(params), ())


def test_only_updates_are_looked_at() -> None:
    line = b'{"jsonrpc":"2.0","method":"session/%b","params":{"sessionId":"S"}}\n'
    assert session_and_update(line % b"update") == ("S", Raw(b'{"sessionId":"S"}'))
    assert session_and_update(line % b"updated") is None
