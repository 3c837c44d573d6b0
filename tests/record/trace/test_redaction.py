"""`conductor.spec.redaction`: values that are taken out of a trace, and values that stay."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.spec.redaction import (
    REDACTED,
    clean_id,
    clean_name,
    clean_text,
    clean_url,
    redacted,
)

R = "[redacted]"
S = "s3cr3t-value"

TEXT = st.text(max_size=8) | st.sampled_from(["token", "env", "apiKey", "url", "args", "headers"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def clean(value: object, method: str | None = None) -> Any:
    """The value after redaction."""
    return json.loads(redacted(json.dumps(value).encode(), method))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"env": [{"name": "A", "value": S, "_meta": S}]},
         {"env": [{"name": "A", "value": R, "_meta": R}]}),
        ({"env": {"A": S, "B": 7}}, {"env": {"A": R, "B": R}}),
        ({"headers": [{"name": "X", "value": S}]}, {"headers": [{"name": "X", "value": R}]}),
        ({"headers": {"Cookie": S}}, {"headers": {"Cookie": R}}),
        ({"env": S}, {"env": R}),
        ({"env": [S, None]}, {"env": [R, R]}),
        ({"env": None}, {"env": None}),
        ({"apiKey": S, "api_key": S, "API-KEY": S}, {"apiKey": R, "api_key": R, "API-KEY": R}),
        ({"Authorization": S, "proxy-authorization": [S]},
         {"Authorization": R, "proxy-authorization": R}),
        ({"password": 1234, "clientSecret": {"a": S}}, {"password": R, "clientSecret": R}),
        ({"accessToken": S, "token": [S], "tokens": {"a": S}},
         {"accessToken": R, "token": R, "tokens": R}),
        ({"a": [{"b": {"id_token": S}}, 1.5]}, {"a": [{"b": {"id_token": R}}, 1.5]}),
        ({"url": f"https://u:{S}@h/p?x=1&access_token={S}#f"},
         {"url": f"https://{R}@h/p?x=1&access_token={R}#f"}),
        ({"url": 7, "b": {"url": [S]}}, {"url": R, "b": {"url": R}}),
        ({"args": [f"--token={S}", "--verbose"]}, {"args": [f"--token={R}", "--verbose"]}),
        ({"args": ["--api-key", S, "x"]}, {"args": ["--api-key", R, "x"]}),
        ({"args": ["--header", f"Authorization: Bearer {S}"]},
         {"args": ["--header", f"Authorization:{R}"]}),
        ({"args": ["-H", f"X-Custom: Bearer {S}"]}, {"args": ["-H", f"X-Custom:{R}"]}),
        ({"args": ["-e", f"GITHUB_TOKEN={S}"]}, {"args": ["-e", f"GITHUB_TOKEN={R}"]}),
        ({"args": [f"http://h/?key={S}", 7]}, {"args": [f"http://h/?key={R}", R]}),
        ({"args": [f"curl -H 'authorization: {S}'", "x"]}, {"args": [R, "x"]}),
        ({"args": {"a": S}}, {"args": R}),
        ({"args": ["-u", f"me:{S}", f"--user=me:{S}", "-u", "1000:1000", "-u", "a:/b"]},
         {"args": ["-u", f"me:{R}", f"--user=me:{R}", "-u", "1000:1000", "-u", "a:/b"]}),
        ({"uri": f"https://h/p?sig={S}"}, {"uri": f"https://h/p?sig={R}"}),
    ],
)  # fmt: skip
def test_secrets_go(value: object, expected: object) -> None:
    assert clean(value) == expected


def test_names_and_ids_are_searched_for_what_looks_like_a_secret() -> None:
    key = "ghp_" + "a1B2" * 9
    held = {key: {f"x {key}": 1}, "env": {key: S}, "headers": [{"name": key, key: S}]}
    assert clean(held) == {R: {f"x {R}": 1}, "env": {R: R}, "headers": [{"name": R, R: R}]}
    assert clean({"methodId": key, key: S}, "authenticate") == {"methodId": R, R: R}
    assert clean_name(f"_x/{key}") == f"_x/{R}"
    assert clean({"a://u:p@": 1}) == {f"a://u:{R}@": 1}, "the shortest"
    assert [clean_id(raw) for raw in (f'"{key}"'.encode(), b"7", b'"a"')] == [
        REDACTED,
        b"7",
        b'"a"',
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"prompt": [{"type": "text", "text": "my password is the token in env"}]},
        {"inputTokens": 12, "maxTokens": None, "total_tokens": 1.5, "tokenized": False},
        {"url": "https://h/p?mode=a%20b&count=2#token"},
        {"url": "file:///tmp/a@b"},
        {"args": ["--flag", "value", "a=b"], "command": "/bin/x"},
        {"stopReason": "max_tokens", "key": "k", "name": "env"},
        {"a": ["token", "apiKey", "Authorization"]},
        ["token", "secret"],
        "token",
    ],
)
def test_everything_else_stays(value: object) -> None:
    assert clean(value) == value


def test_what_holds_nothing_suspicious_is_not_touched() -> None:
    raw = b' {"a" : 1.10, "a": 1e400, "b":"\\ud83d"} '
    assert redacted(raw) == raw.strip()


@pytest.mark.parametrize("beside", [b"1", b'"\\ud800"', b'{"a" : 1.10, "a": 2}'])
def test_large_payloads(beside: bytes) -> None:
    text = b'"' + b"{the token " * 20_000 + b'"'
    for raw in (b'{"p":[{"t":%b}],"x":%b}', b'{"p": [{"t": %b}], "x" : %b}'):
        harmless = raw % (text.replace(b"token", b"taken"), beside)
        assert redacted(harmless) == harmless
        assert json.loads(redacted(raw % (text, beside))) == json.loads(raw % (text, beside))
        secret = raw % (text, b'{"clientSecret": "%b", "n": 1.10}' % S.encode())
        assert redacted(secret).endswith(b'"x":{"clientSecret":"[redacted]","n":1.10}}')


def test_numbers_beside_a_secret_keep_their_spelling() -> None:
    raw = b'{"n": 1.10, "big": 1e400, "token": "x", "s": "\\ud800 \\/"}'
    assert redacted(raw) == b'{"n":1.10,"big":1e400,"token":"[redacted]","s":"\\ud800 \\/"}'


def test_a_name_may_be_written_with_escapes() -> None:
    assert json.loads(redacted(b'{"to\\u006ben":"%b"}' % S.encode())) == {"token": R}


def test_slashes_of_an_address_may_be_written_with_escapes() -> None:
    clean = redacted(rb'{"text":"clone https:\/\/me:s3cret-pass@example.org\/x"}')
    assert json.loads(clean) == {"text": "clone https://me:[redacted]@example.org/x"}


@pytest.mark.parametrize("method", ["authenticate", "auth/login"])
def test_a_login_keeps_its_method_only(method: str) -> None:
    value = {"methodId": "m", "code": S, "_meta": {"x": S}}
    assert clean(value, method) == {"methodId": "m", "code": R, "_meta": R}
    assert clean([S], method) == R
    assert clean(value, "other") == value


@pytest.mark.parametrize("method", [None, "auth/status_update"])
def test_who_is_logged_in_stays_out(method: str | None) -> None:
    """The schema asks that nobody logs them, or sends them to telemetry."""
    account = {"label": "Max", "email": "me@example.com", "active": True, "_meta": {"token": S}}
    shown = {"label": R, "email": R, "active": True, "_meta": {"token": R}}
    state = {"state": "signed_in", "accounts": [account, {"label": "Key"}]}
    assert clean(state, method) == {**state, "accounts": [shown, {"label": R}]}
    for other in ([], [account, 1], [{"name": "x"}], {"label": "x"}, "x", [[S, {"token": S}]]):
        assert clean({"accounts": other}, method)["accounts"] == clean(other, method)


def test_what_is_too_deep_or_no_json_goes_as_a_whole() -> None:
    deep = b'{"a":' * 100 + b'{"token":"%b"}' % S.encode() + b"}" * 100
    assert S.encode() not in redacted(deep)
    assert redacted(b'{"token":') == REDACTED
    assert redacted(b'[{"token"') == REDACTED
    deepest = f'{{"token":"{S}","a":{"[" * 5_000}{"]" * 5_000}}}'
    assert redacted(deepest.encode()) == REDACTED
    assert S not in clean_text(f"it failed: {deepest}")


@pytest.mark.parametrize(
    "line",
    [
        f"using token {S}, then", "curl -u me:{S} https://h/", "curl --user 'me:{S}'",
        "mysql -h x -p{S} db", "mysqldump -p{S}", "sshpass -p {S} ssh h",
        "Authorization: Basic {S}", "go to https://h/?sig={S} now",
    ],
)  # fmt: skip
def test_the_words_of_programs_lose_passwords(line: str) -> None:
    assert clean_text(line.replace("{S}", S)) == line.replace("{S}", R).replace(S, R)


@pytest.mark.parametrize(
    "line",
    [
        "the token expired at 2026-12-01T10:00:05", "unexpected token identifier",
        "docker run -u 1000:1000 x", "rsync -u host:/srv/data .", "mysql -p db", "ls -print",
        "mysql is up; mkdir -p /srv/data",
    ],
)  # fmt: skip
def test_other_words_of_programs_stay(line: str) -> None:
    assert clean_text(line) == line


def test_a_long_url_is_no_burden() -> None:
    text = "http://h/" + "?" * 200_000 + "token"
    assert clean_url(text) == text


@given(JSON)
def test_the_shape_stays_and_a_second_time_changes_nothing(value: object) -> None:
    once = clean({"x": value})
    assert clean(once) == once
    if isinstance(value, dict):
        assert set(once["x"]) == set(value)


@given(JSON.map(lambda value: {"deep": [value, {"clientSecret": S, "env": {"N": S}}]}))
def test_a_secret_is_found_wherever_it_is(value: object) -> None:
    assert S not in json.dumps(clean(value))


@pytest.mark.parametrize("levels", [1, 60])
def test_a_large_payload_is_not_copied_at_each_level(levels: int) -> None:
    """60 levels around 16 MiB took 2 GiB, and 15 s with half an emoji in it."""
    inner = rb'{"text":"%b\ud800","api_key":"1","env":{"A":"b"}}' % (b"x" * 1_000_000)
    payload = b'{"a":' * levels + inner + b"}" * levels
    tracemalloc.start()
    found = redacted(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(payload)
    if levels == 1:
        cleaned = rb'\ud800","api_key":"[redacted]","env":{"A":"[redacted]"}}}'
        assert found.endswith(cleaned)
    else:
        assert b"api_key" not in found


def test_urls_and_arguments_are_looked_at_so_far() -> None:
    url = f"http://h/?{'a=b&' * 1000}token=x"
    found = json.loads(redacted(json.dumps([{"url": url}] * 1000).encode()))
    assert found[0]["url"].endswith("token=[redacted]")
    assert found[-1]["url"] == "[redacted]"
    given = ["--token=x", *["plain" * 1000] * 1000]
    shown = json.loads(redacted(json.dumps({"args": given}).encode()))["args"]
    assert shown[:2] == ["--token=[redacted]", "plain" * 1000]
    assert shown[-1] == "[redacted]"


def test_of_a_name_that_stands_twice_no_value_is_left() -> None:
    assert redacted(b'{"a":{"b":1,"b":2},"token":3}') == b'{"a":{"b":2},"token":3}'
    assert b"secret one" not in redacted(b'{"api_key":"secret one","api_key":"two"}')
    assert b"one" not in redacted(b'{"x":{"api_key":"one","api_key":null}}')
