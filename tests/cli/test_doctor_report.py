"""`conductor doctor --report`: facts that help to find a bug, and nobody else's business."""

import json
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process.command import COMMAND, NO_BYTECODE, Ran, Running, conductor, environment
from tests.places import DEADLINE
from tests.record.test_secret_shapes import HARMLESS, LINES, SECRETS

VALUE = "hunter2-is-öld"
PLAN = "my secret plan"
EVENTS = (
    {"type": "_conductor", "format": 1, "content": "all", "components": ["demo"], "ring": {}},
    {"type": "request", "ts": 0.5, "from": "client", "to": "demo", "id": 1,
     "method": "session/prompt", "session": "s", "params": {"prompt": [{"text": PLAN}]},
     "_conductor": {"n": 1, "bytes": 99, "id": PLAN}},
    {"type": "_conductor", "ts": 0.6, "verdict": {"component": "evil", "rule": "rights",
     "direction": "up", "method": "x", "pointer": f"/{PLAN}", "text": PLAN}},
    {"type": "_conductor", "unwatched": {"demo": True}},
    {"type": "_conductor", "records": [{"lines": [PLAN]}]},
)  # fmt: skip


@pytest.fixture(name="alice")
def _alice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has run a chain that did not go well."""
    home = tmp_path / "alice"
    for name, folder in (("STATE", "state"), ("DATA", "data"), ("CONFIG", "config")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / folder))
    monkeypatch.setenv("LOGNAME", "alice")
    config = home / "config" / "conductor" / "conductor.toml"
    config.parent.mkdir(parents=True)
    agent = home / "agent.py"
    agent.write_text(
        f"import os, sys\nsys.stderr.write(os.environ['T'] + ' of alice at {home}/x\\n')\n"
        f"sys.stderr.write({chr(10).join(LINES)!r})\ninput()\n"
    )
    config.write_text(
        f"[components.mine]\ncommand = {json.dumps(sys.executable)}\n"
        f"args = [{json.dumps(str(agent))}]\n"
        'env.T = { secret = "env:TOKEN" }\nenv.API_KEY = "abcd1234"\n'
    )
    ran = conductor("exec", "mine", "-p", PLAN, env=environment(TOKEN=VALUE))
    assert ran.code == 1
    rings = home / "state" / "conductor" / "rings"
    rings.mkdir(mode=0o700)
    lines = [json.dumps(event) for event in EVENTS]
    (rings / "1.jsonl").write_bytes(
        "\n".join([*lines, "[" * 9999, "{cut"]).encode() + b"\xff\x1b[2J"
    )
    (rings / "2.jsonl").symlink_to(agent)
    return home


def run(home: Path, *arguments: str) -> Ran:
    """Runs `conductor doctor --report` as that user, with a token in a variable."""
    env = environment(HOME=str(home), TOKEN=VALUE, OTHER_PASSWORD="pass-in-a-variable")  # noqa: S106 - it is none
    return conductor("doctor", "--report", *arguments, cwd=home, env=env)


@pytest.mark.proves("a report has no secret, no user")
def test_it_is_shown_written_privately_and_holds_what_helps(alice: Path) -> None:
    path = alice / "r.txt"
    ran = run(alice, "--show", "--yes", "-o", str(path))
    assert ran.code == 0, ran.err
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(line in ran.out for line in text.splitlines())
    assert ran.out.endswith("Nothing was sent: read it, then attach it to your bug report.\n")
    for wanted in ("conductor 0", "wasmtime ", "cage: ", "config/conductor/conductor.toml", "mine"):
        assert wanted in text
    assert "\nXDG_STATE_HOME\n" in text
    assert "[mine] [secret env:TOKEN] of [user] at ~/x" in text
    assert '"method": "session/prompt"' in text
    assert '"verdict": {"component": "evil", "rule": "rights", ' in text
    assert '"unwatched": {"demo": true}' in text
    assert [line for line in HARMLESS if line not in text] == []
    for kind, secret in [
        ("plan", PLAN),
        ("value", VALUE),
        *((k, s) for k, (_, s) in SECRETS.items()),
    ]:
        assert secret not in text, kind
        assert json.dumps(secret)[1:-1] not in text, kind
    for leaked in ("pass-in-a-variable", "abcd1234", "alice", "\x1b", "import os"):
        assert leaked not in text
    run(alice, "--yes", "-o", str(path)).assert_error(2, "is there already", "--output")


@pytest.mark.proves("without a yes nothing is written")
def test_content_only_on_request_and_nothing_without_a_yes(alice: Path) -> None:
    ran = run(alice, "--show", "--with-content")
    assert (ran.code, PLAN in ran.out, VALUE in ran.out) == (0, True, False)
    run(alice).assert_error(2, "nothing is written without your yes", "--show")
    assert not list(alice.glob("*.txt"))


def test_who_says_no_has_no_report(alice: Path) -> None:
    path = alice / "r.txt"
    env = {"HOME": str(alice), "TOKEN": VALUE}
    with Running("doctor", "--report", "-o", str(path), terminal=True, env=env) as running:
        running.wait_for(running.err, "[y/N]")
        running.type("n\n")
        assert running.end().code == 1
    assert not path.exists()


def test_a_full_disk_is_one_error_and_leaves_nothing(alice: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    done = subprocess.run(
        [*COMMAND, "doctor", "--report", "--yes", "-o", "r.txt"],
        capture_output=True,
        preexec_fn=small,
        env=environment(HOME=str(alice), **NO_BYTECODE),
        cwd=alice,
        timeout=DEADLINE,
        check=False,
    )
    Ran(done.returncode, "", done.stderr.decode()).assert_error(1, "File too large")
    assert not (alice / "r.txt").exists()
