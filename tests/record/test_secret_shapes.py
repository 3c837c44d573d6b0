"""One table of the shapes of secrets: all its readers take out the same text, and nothing else."""

import json
import sys
from pathlib import Path

import pytest

from conductor import secret_shapes
from conductor.errors import MARK, PrivateKeys, UsageError, one_line, without_keys, without_shapes
from conductor.packages.pack import pack
from conductor.secret_shapes import NAMED, SHAPES
from conductor.spec.redaction import may_hold
from conductor.transports.process import _LINES, Stderr
from tests.harness.process.command import conductor
from tests.places import COMPONENTS

KEY = "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn"
SECRETS = {
    "aws-key": ("key {}, please", "AKIA" + "ABCDEFGHIJKLMNOP"),
    "github-token": ("push with {}.", "ghp_" + "a1B2" * 9),
    "gitlab-token": ("or {}!", "glpat-" + "x-Y_z" * 4),
    "slack-token": ("slack: {}", "xoxb-" + "1234567890-abc"),
    "api-key": ("({})", "sk-ant-api03-" + "x1Y2-_" * 5),
    "package-token": ("npm {} ", "npm_" + "Zz09" * 9),
    "jwt": ("<{}>", "eyJhbGciOiJI.eyJzdWIiOiIx." + "SflKxwRJSM"),
    "bearer": ("Bearer {}", "t0k.en~" * 4),
    "url-password": ("git clone https://me:{}@example.org/x", "s3cret-pass"),
    "url-signature": ("see https://example.org/a?sv=1&sig={}&x=1", "abc%2Fdef0123456789"),
    "assignment": ('"password": "{}"', "correct-h0rse"),
    "private-key": ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", KEY),
}  # fmt: skip
HARMLESS = (
    "the token that you gave me is a secret: my password is not in it",
    "class sk-toggleable__content-fitted in a page; task-12345678901234567890 is done",
    "https://example.org/a:b?x=1 and mailto:me@example.org",
    "AKIA, ghp_, xoxb- and eyJ are how tokens begin; inputTokens: 1234",
    "Basic configuration of 2024/installation, basic Internationalization",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
)
LINES = [*HARMLESS, *(text.format(secret) for text, secret in SECRETS.values())]


def check(text: str) -> None:
    """All of the harmless lines are there, and no secret is."""
    assert [kind for kind, (_, secret) in SECRETS.items() if secret in text] == []
    assert [line for line in HARMLESS if line not in text] == []


def test_the_component_has_the_same_table() -> None:
    ours = Path(secret_shapes.__file__).read_bytes()
    copy = COMPONENTS / "redact" / "shapes.py"
    assert copy.read_bytes() == ours, f"cp {secret_shapes.__file__} {copy}"
    assert set(SECRETS) == set(SHAPES)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("before", range(120, 200))
def test_half_a_secret_is_not_left_at_the_end_of_a_cut_line(kind: str, before: int) -> None:
    text, secret = SECRETS[kind]
    shown = one_line(f"{'.' * before} {text.format(secret)} {'and more ' * 20}")
    assert shown.startswith("." * before)
    assert (len(shown), shown[-1]) == (200, "…")
    assert secret[:8] not in shown


@pytest.mark.parametrize("kind", SHAPES)
def test_each_kind_is_found_wherever_it_stands_and_however_json_spells_it(kind: str) -> None:
    text, secret = SECRETS[kind]
    line = text.format(secret)
    for whole in (line, f"x:\n{line}", f"{'no ' * 5000}{line}"):
        assert secret not in without_shapes(whole)
        assert may_hold(json.dumps(whole).encode())
        escaped = json.dumps(whole).replace("e", "\\u0065").replace("/", "\\/")
        assert may_hold(escaped.encode())
    assert without_shapes(line).count(MARK) == 1


def test_in_a_chain_the_component_and_the_trace_take_out_the_same(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    ran = conductor("exec", "redact", "demo", "-p", "\n".join(LINES), "--trace", str(trace))
    assert ran.code == 0, ran.err
    check(ran.out)
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    prompts = [one["params"] for one in events if one.get("method") == "session/prompt"]
    texts = [prompt["prompt"][0]["text"] for prompt in prompts]
    assert [text.count(MARK) for text in texts] == [len(SECRETS), 0]
    check(texts[0])
    assert [line for _, line in SECRETS.values() if line in trace.read_text()] == []


def test_a_log_file_takes_them_out_of_what_components_write(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = "\n".join([*LINES, "behind the key"])
    agent = tmp_path / "agent.py"
    agent.write_text(f"import sys; sys.stderr.write({lines!r}); sys.stderr.flush(); input()")
    ran = conductor("exec", "-c", f"log-file={log}", "-p", "x", "--", sys.executable, str(agent))
    assert ran.code == 1
    check(log.read_text())
    assert "behind the key" in log.read_text()
    assert KEY in ran.err, "standard error is the user's own"


def test_last_words_have_no_line_of_a_key_wherever_their_writer_ends() -> None:
    key = [f"{n:02}{KEY}" for n in range(30)]
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    lines = ["before", f"key: {begin}", *key, end, f"{begin} {key[0]} {end} behind", "at last"]
    shown = ["before", f"key: {MARK}", f"{MARK} behind", "at last"]
    said: list[str] = []
    flooded: list[str] = []
    calm, floods = Stderr(said.append), Stderr(flooded.append)
    floods.take([*[b"line"] * (10 * _LINES), begin.encode()])  # more than is shown
    floods._allowance = 100.0
    for at, line in enumerate(lines):
        calm.take([line.encode()])
        floods.take([line.encode()])
        assert calm.tail() == shown[: min(at + 1, 2) + max(0, at - 32)]
        assert [one for one in floods.tail() if KEY in one] == []
        assert [one for one in without_keys(lines[at:]) if KEY in one] == []
    assert said == lines, "standard error is the user's own"
    assert [line for line in flooded if line in key] == []
    assert flooded[-1] == lines[-1]


def test_a_key_may_begin_on_the_line_on_which_another_ends() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    for first in (
        [begin, KEY, end + begin],
        [f"{begin}{KEY}{end}{begin}"],
        [f"{begin}{KEY}", begin],
    ):
        lines = [*first, KEY, f"{end} {begin}{KEY}{end}", "behind"]
        keys = PrivateKeys()
        said = [shown for line in lines if (shown := keys.without(line)) is not None]
        assert said == [MARK, "behind"]
        for at in range(len(lines) - 1):
            assert without_keys(lines[at:])[-1] == "behind"
            assert [one for one in without_keys(lines[at:]) if KEY in one] == []


@pytest.mark.parametrize("kind", sorted({*SHAPES} - {*NAMED}))
def test_no_package_has_any(kind: str, tmp_path: Path) -> None:
    text, secret = SECRETS[kind]
    (tmp_path / "component.toml").write_text('name = "x"\nkind = "proxy"\nfile = "proxy.py"\n')
    (tmp_path / "proxy.py").write_text("\n".join(HARMLESS))
    (tmp_path / "README.md").write_bytes(b"\xff\x00\n" + text.format(secret).encode())
    with pytest.raises(UsageError, match=r"`README.md`, line 2, looks like a private key"):
        pack(str(tmp_path))
