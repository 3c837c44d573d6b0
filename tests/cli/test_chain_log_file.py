"""The log file of a chain: its content, its place, and that it hurts no chain."""

import fcntl
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.cli import chain_log_file, doctor
from conductor.cli.chain_log_file import LogFile, opened
from conductor.spec import retention
from tests.harness.process.command import COMMAND, NO_BYTECODE, Ran, conductor, environment
from tests.places import DEADLINE

KEPT = retention.LOGS.most

DYING = "import sys; sys.stdin.readline(); sys.stderr.write('out of luck\\n'); sys.exit(7)"
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,'
    b'"clientCapabilities":{}}}\n'
)


@pytest.fixture(name="logs")
def _logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of logs of a user who has none yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "conductor" / "logs"


def run(*arguments: str, typed: bytes = b"", **env: str) -> Ran:
    """Runs `conductor ARGUMENTS` as this user."""
    return conductor(*arguments, stdin=typed, env=environment(**env))


def only(folder: Path) -> str:
    """The one log that is there."""
    (path,) = folder.iterdir()
    return path.read_text()


# -- what it holds ---------------------------------------------------------------------------------


def test_a_run_leaves_its_stages_in_a_private_file(logs: Path) -> None:
    ran = run("exec", "passthrough", "demo", "-p", "a secret plan")
    assert (ran.code, ran.out, ran.err) == (0, "a secret plan\n", "")
    (path,) = logs.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(logs.stat().st_mode) == 0o700
    text = path.read_text()
    lines = text.splitlines()
    assert "`conductor exec` starts as process" in lines[0]
    assert lines[0].endswith(": `passthrough`, `demo`")
    assert lines[-1].endswith("the chain has ended")
    for method in ("initialize", "session/new", "session/prompt"):
        assert f"the chain answered `{method}` after " in text
    assert "plan" not in text, "no message is in it"
    assert all(line[:10].count("-") == 2 and line[23] == "Z" for line in lines)


def test_with_debug_it_lists_messages_and_no_content(logs: Path) -> None:
    ran = run("exec", "demo", "-p", "a secret plan", "--log", "debug")
    text = only(logs)
    for lines in (text, ran.err):
        assert "client -> demo: request session/prompt, id 3, " in lines
        assert "demo -> client: notification session/update, " in lines
        assert "demo -> client: response session/prompt, id 3, " in lines
        assert "plan" not in lines


def test_what_components_write_is_in_it_without_secrets(logs: Path, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import os, sys\n"
        "sys.stderr.write('up\\x1b[2J and ready\\n')\n"
        "sys.stderr.write('Authorization: Bearer abc.def.ghi\\n')\n"
        'sys.stderr.write(\'{"apiKey": "qwertyuiop"}\\n\')\n'
        "sys.stderr.write('mine is ' + os.environ['MINE'] + '\\n')\n"
        "for line in ('-----BEGIN PRIVATE KEY-----', 'MIIEvQ', '-----END PRIVATE KEY-----'):\n"
        "    print(line, file=sys.stderr)\n"
        "sys.stdin.readline()\n"
    )
    secret = tmp_path / "secret"
    secret.write_text("the-real-thing\n")
    secret.chmod(0o600)
    config = tmp_path / "config" / "conductor" / "conductor.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[components.mine]\n"
        f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(agent))}]\n"
        f'env.MINE = {{ secret = "file:{secret}" }}\n'
    )
    ran = run("exec", "mine", "-p", "hi", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert ran.code == 1, ran.err
    text = only(logs)
    assert "[mine] up\\u{1b}[2J and ready" in text
    assert "[mine] Authorization: Bearer [redacted]" in text
    assert "mine is " in text
    for leaked in ("abc.def", "qwertyuiop", "the-real-thing", "MIIEvQ"):
        assert leaked not in text


# -- where it is -----------------------------------------------------------------------------------


def test_a_failure_names_it(logs: Path) -> None:
    ran = run("exec", "-p", "hi", "--", sys.executable, "-c", DYING)
    (path,) = logs.iterdir()
    ran.assert_error(1, "exited with code 7", f"log: {path}")
    assert "out of luck" in path.read_text()
    assert "exited with code 7" in path.read_text()


def test_the_error_that_an_editor_shows_names_it(logs: Path) -> None:
    ran = run("agent", "--", sys.executable, "-c", DYING, typed=INITIALIZE)
    (path,) = logs.iterdir()
    error = json.loads(ran.out)["error"]
    assert error["data"]["log"] == str(path)
    assert error["message"].endswith(f"; log: {path}")
    assert f"log: {path}" in ran.err


def test_a_chain_that_cannot_start_names_it(logs: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    ran = run("agent", str(program), typed=INITIALIZE)
    (path,) = logs.iterdir()
    error = json.loads(ran.out)["error"]
    assert (error["data"]["log"], f"log: {path}" in error["message"]) == (str(path), True)
    assert f"log: {path}" in ran.err
    assert f"cannot start `{program}`" in path.read_text()


@pytest.mark.parametrize(
    ("chain", "why"),
    [(["/no/such/agent"], "/no/such/agent"), (["demo", "passthrough"], "ends with an agent")],
)
def test_what_was_written_wrong_is_no_matter_of_the_log(
    chain: list[str], why: str, logs: Path
) -> None:
    ran = run("agent", *chain, typed=INITIALIZE)
    (path,) = logs.iterdir()
    error = json.loads(ran.out)["error"]
    assert (ran.code, error["data"]["log"]) == (2, str(path))
    assert str(path) not in error["message"]
    assert str(path) not in ran.err
    assert why in path.read_text()


def test_doctor_names_the_folder_and_the_newest(logs: Path) -> None:
    none = doctor.log_files()
    assert (none.ok, none.detail) == (True, f"{logs}: made when a chain is first run")
    log = opened(None, wrong)
    assert log is not None
    log.close()
    there = doctor.log_files()
    assert (there.ok, there.detail) == (True, f"{logs}: 1 of the last runs; newest: {log.path}")
    logs.chmod(0o777)
    bad = doctor.log_files()
    assert (bad.ok, bad.needed) == (False, False)
    assert "can be written by other users" in bad.detail


@pytest.mark.parametrize("how", ["file", "option", "variable"])
def test_it_may_be_elsewhere_or_nowhere(
    how: str, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answered(value: str) -> None:
        config = tmp_path / "config" / "conductor" / "conductor.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f'[options]\nlog-file = "{value}"\n' if how == "file" else "")
        option = ["-c", f"log-file={value}"] if how == "option" else []
        monkeypatch.setenv("CONDUCTOR_LOG_FILE", value if how == "variable" else "")
        ran = run("exec", "demo", "-p", "hi", *option, XDG_CONFIG_HOME=str(tmp_path / "config"))
        assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")

    answered("none")
    assert not logs.exists()
    assert not (tmp_path / "config" / "conductor" / "none").exists()
    file = tmp_path / "mine.log"
    answered(str(file))
    assert not logs.exists()
    assert file.read_text().count("the chain has ended") == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_each_of_many_conductors_has_its_own(logs: Path) -> None:
    running = [
        subprocess.Popen(
            [*COMMAND, "agent", "--", sys.executable, "-c", "input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        for _ in range(10)
    ]
    for process in running:
        process.communicate(timeout=DEADLINE)
    texts = [path.read_text() for path in logs.iterdir()]
    assert len(texts) == 10
    assert {text.count("starts as process") for text in texts} == {1}
    for process in running:
        assert sum(f"process {process.pid}:" in text for text in texts) == 1


# -- what must not hurt ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["device", "folder", "link", "missing", "nul", "pipe"])
def test_a_file_that_cannot_be_the_log_is_reported_and_hurts_nothing(
    kind: str, logs: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o644)
    path = str(tmp_path / "log")
    match kind:
        case "link":
            os.symlink(victim, path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            os.mkdir(path)
        case "device":
            path = "/dev/full"
        case _:
            path = str(tmp_path / "none" / "log")
    ran = run("exec", "demo", "-p", "hi", "-c", f"log-file={path}")
    assert (ran.code, ran.out) == (0, "hi\n")
    assert ran.err.startswith(f"warning: there is no log file: `{path}`: ")
    assert len(ran.err.splitlines()) == 1
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("mine", 0o644)
    assert not logs.exists()


@pytest.mark.parametrize("kind", ["file", "link", "open"])
def test_without_a_folder_of_logs_nothing_is_written_and_nothing_said(
    kind: str, logs: Path, tmp_path: Path
) -> None:
    logs.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    match kind:
        case "file":
            logs.touch()
        case "link":
            logs.symlink_to(elsewhere)
        case _:
            logs.mkdir()
            logs.chmod(0o777)
    ran = run("exec", "demo", "-p", "hi")
    assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")
    assert list(elsewhere.iterdir()) == []
    assert kind != "open" or list(logs.iterdir()) == []


def test_on_a_full_disk_the_chain_goes_on(logs: Path, tmp_path: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))

    for wanted in ([], ["-c", f"log-file={tmp_path / 'log'}"]):
        done = subprocess.run(
            [*COMMAND, "exec", "demo", "-p", "hi", *wanted],
            capture_output=True,
            preexec_fn=small,
            env=environment(**NO_BYTECODE),
            timeout=DEADLINE,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, b"hi\n"), done.stderr
        assert (b"ends here: File too large" in done.stderr) == bool(wanted)
    assert len(only(logs)) <= 200


# -- how much of it there is -----------------------------------------------------------------------


def wrong(text: str) -> None:
    """Nothing may be wrong."""
    raise AssertionError(text)


def test_the_newest_are_kept_and_those_in_use(logs: Path) -> None:
    logs.mkdir(parents=True, mode=0o700)
    names = [f"20200101T0000{at:02d}.000-1.log" for at in range(30)]
    for name in names:
        (logs / name).touch()
    (logs / f"{names[0]}.1").touch()
    (logs / f"{names[1]}.1").touch()
    (logs / "notes.txt").touch()
    with (logs / names[0]).open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        log = opened(None, wrong)
        assert log is not None
        left = sorted(path.name for path in logs.iterdir())
        own = os.path.basename(log.path)
        kept = names[-(KEPT - 1) :]
        assert left == sorted([names[0], f"{names[0]}.1", *kept, own, "notes.txt"])
        log.close()


def test_a_log_that_goes_on_is_never_removed(logs: Path) -> None:
    logs_open = [opened(None, wrong) for _ in range(KEPT + 5)]
    assert len(list(logs.iterdir())) == KEPT + 5
    for log in logs_open:
        assert log is not None
        log.close()
    assert opened(None, wrong) is not None
    assert len(list(logs.iterdir())) == KEPT


@pytest.mark.parametrize("own", [False, True])
def test_a_full_file_begins_anew(
    own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_log_file, "MOST", 1000)
    path = tmp_path / "x.log"
    log = LogFile(str(path), wrong, own=own)
    for number in range(100):
        log.write(f"line {number}")
    log.close()
    sizes = {each.name: each.stat().st_size for each in tmp_path.iterdir()}
    assert set(sizes) == {"x.log", "x.log.1"}
    assert all(size <= 1000 for size in sizes.values())
    assert path.read_text().endswith("line 99\n")
    both = (tmp_path / "x.log.1").read_text() + path.read_text()
    numbers = [int(line.split()[-1]) for line in both.splitlines()]
    assert numbers == list(range(numbers[0], 100))


def test_several_runs_share_a_file_that_fills_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_log_file, "MOST", 2000)
    path = tmp_path / "x.log"
    logs = [LogFile(str(path), wrong, own=False) for _ in range(5)]
    for number in range(200):
        for at, log in enumerate(logs):
            log.write(f"{at} {number}")
    for log in logs:
        log.close()
    assert {each.name for each in tmp_path.iterdir()} == {"x.log", "x.log.1"}
    assert all(each.stat().st_size <= 5 * 2000 for each in tmp_path.iterdir())
    assert path.read_text().endswith("4 199\n")


def test_a_full_file_that_another_run_renames_now_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_log_file, "MOST", 100)
    path, former = tmp_path / "x.log", tmp_path / "x.log.1"
    log = LogFile(str(path), wrong, own=False)
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        for _ in range(5):
            log.write("x" * 40)
        assert not former.exists()
    log.write("x" * 40)
    log.close()
    assert former.exists()


def test_an_entry_is_short_and_its_lines_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    log = LogFile(str(path), wrong, own=False)
    log.write("a\nb \x1b[31m\udcff")
    log.write("x" * 1_000_000)
    log.write("y " * 2040 + "ghp_" + "z" * 36)
    log.close()
    first, further, long, cut = path.read_text().splitlines()
    assert first.endswith("Z a")
    assert further.startswith("  | b \\u{1b}[31m")
    assert len(long) < 5000
    assert cut.endswith("y …"), "a secret is not cut: its beginning would not be known for one"
