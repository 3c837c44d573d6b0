"""`conductor.client.probe`: the answers of programs, and that nothing of them is left."""

import json
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from conductor.client.probe import probe
from conductor.client.probe_exchange import Exchange, Login, Probe, Step
from tests.harness.process.processes import wait_gone

PATIENCE = 60.0
"""Seconds that only a hang reaches."""

FOLDER = "/tmp/probe"  # noqa: S108 - a name only


def _answer(id_: int, **members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, **members}).encode()


def _initialized(**more: Any) -> bytes:
    info = {"name": "odd", "title": "Odd agent", "version": "1.2.3"}
    return _answer(0, result={"protocolVersion": 1, "agentInfo": info, **more})


def _played(*frames: bytes, **options: bool) -> Exchange:
    exchange = Exchange(FOLDER, **options)
    exchange.begin()
    for frame in frames:
        exchange.take(frame)
    return exchange


def _script(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "agent.py"
    path.write_text(textwrap.dedent(body))
    return [sys.executable, str(path)]


SERVE = """
import json, sys
def answer(line):
    asked = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result[asked["method"]]}),
          flush=True)
"""


# -- the exchange ----------------------------------------------------------------------------------


def test_it_asks_for_a_session_in_its_folder() -> None:
    exchange = Exchange(FOLDER)
    assert json.loads(exchange.begin())["params"]["protocolVersion"] == 1
    asked = json.loads(exchange.take(_initialized()))
    assert asked["method"] == "session/new"
    assert asked["params"] == {"cwd": FOLDER, "mcpServers": []}
    exchange.take(_answer(1, result={"sessionId": "s"}))
    assert exchange.step is Step.DONE
    assert exchange.probe == Probe(
        answers=True, name="Odd agent", version="1.2.3", protocol=1, session=True
    )


def test_without_a_session_initialize_is_all() -> None:
    exchange = _played(_initialized(), session=False)
    assert exchange.step is Step.DONE
    assert exchange.probe.answers
    assert not exchange.probe.session


@pytest.mark.parametrize(
    ("proves", "login"), [(False, Login.UNKNOWN), (True, Login.YES)], ids=["may", "must"]
)
def test_a_session_proves_a_login_only_where_it_needs_one(proves: bool, login: Login) -> None:
    opened = _answer(1, result={"sessionId": "s"})
    assert _played(_initialized(), opened, proves_login=proves).probe.login is login


@pytest.mark.parametrize("at", ["initialize", "session/new"])
def test_an_agent_that_wants_a_login(at: str) -> None:
    error = {"code": -32000, "message": "Authentication required", "data": {"why": "no key"}}
    before = [] if at == "initialize" else [_initialized()]
    exchange = _played(*before, _answer(len(before), error=error))
    assert exchange.probe.login is Login.NO
    assert exchange.probe.answers is (at != "initialize")
    text = f'refused `{at}`: Authentication required ({{"why": "no key"}})'
    assert exchange.probe.error == text


def test_another_error_says_nothing_about_a_login() -> None:
    refused = _answer(1, error={"code": -32603, "message": "Internal error", "data": "disk full"})
    found = _played(_initialized(), refused).probe
    assert found.login is Login.UNKNOWN
    assert found.error == "refused `session/new`: Internal error (disk full)"


def test_a_component_that_the_text_names_is_not_named_again() -> None:
    error = {"code": -32602, "message": "x: no speed", "data": {"component": "x"}}
    assert _played(_answer(0, error=error)).probe.error == "refused `initialize`: x: no speed"


@pytest.mark.parametrize(
    ("spoken", "shown"),
    [
        ("1", "answered `initialize` without a version of ACP"),
        (2, "speaks ACP version 2, and conductor 1"),
        (99, "speaks ACP version 99, and conductor 1"),
        (True, "answered `initialize` without a version of ACP"),
    ],
)
def test_another_version_of_acp(spoken: object, shown: str) -> None:
    found = _played(_answer(0, result={"protocolVersion": spoken})).probe
    assert not found.answers
    assert found.error == shown


@pytest.mark.parametrize(
    "error",
    [
        b'"no"',
        b'{"code":-32000,"message":"\\ud800","data":"\\ud800"}',
        b'{"code":-32000,"message":7,"data":%s}' % (b"1" * 4000),
        b'{"code":-32000,"message":null,"data":1e999}',
        b'{"code":-32000,"data":%s}' % (b"[" * 900 + b"]" * 900),
    ],
    ids=["text", "surrogates", "long number", "infinite", "deep"],
)
def test_an_error_of_any_form_is_one(error: bytes) -> None:
    found = _played(b'{"jsonrpc":"2.0","id":0,"error":%s}' % error).probe
    assert found.error.startswith("refused `initialize`: ")
    assert found.error.isprintable()
    assert len(found.error) < 500


def test_lines_that_are_no_messages_are_passed_over() -> None:
    odd = [b"Welcome to Odd!", b"", b"\xff\xfe", b"[1]", b'{"log": 1}', b"null"]
    notice = b'{"jsonrpc":"2.0","method":"session/update","params":{}}'
    assert _played(*odd, notice, _initialized(), session=False).probe.error == ""


def test_what_it_printed_explains_why_nothing_came() -> None:
    exchange = _played(b"Please \x1b[31mlog in\x1b[0m", b"second")
    exchange.fail("exited")
    text = "exited; it printed `Please \\u{1b}[31mlog in\\u{1b}[0m` where messages belong"
    assert exchange.probe.error == text


def test_requests_of_the_agent_are_declined_and_others_answers_ignored() -> None:
    exchange = Exchange(FOLDER)
    exchange.begin()
    asked = b'{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{"path":"/etc"}}'
    assert json.loads(exchange.take(asked))["error"]["code"] == -32601
    assert exchange.take(_answer(7, result={})) == b""
    assert exchange.step is Step.INITIALIZE


def test_a_program_that_sends_back_what_it_gets() -> None:
    exchange = Exchange(FOLDER)
    exchange.take(exchange.begin())
    assert exchange.probe.error == "sends its input back, as no agent does"


def test_a_flood_of_lines_ends_it() -> None:
    exchange = Exchange(FOLDER)
    for _ in range(20_000):
        exchange.take(b"x")
    assert "wrote too much" in exchange.probe.error


def test_texts_of_the_agent_are_shown_on_one_line() -> None:
    info = {"name": "a\nb\x1b[2J", "version": 7}
    methods = [{"id": "x", "name": "one\ntwo"}, {"name": "no id"}, 5] + [{"id": "y"}] * 50
    found = _played(_initialized(agentInfo=info, authMethods=methods)).probe
    assert (found.name, found.version) == ("a b\\u{1b}[2J", "")
    assert found.auth_methods[0].name == "one two"
    assert len(found.auth_methods) < 20


# -- the program -----------------------------------------------------------------------------------


def test_a_program_that_answers(tmp_path: Path) -> None:
    """The program starts in an empty folder of its own, which is gone afterwards."""
    place = tmp_path / "place"
    body = f"""
    import os
    {textwrap.indent(SERVE, "    ").strip()}
    seen = [os.getcwd(), os.listdir(), oct(os.stat(".").st_mode)]
    open({str(place)!r}, "w").write(json.dumps(seen))
    for line in sys.stdin:
        answer(line)
    """
    found = probe(_script(tmp_path, body), None, PATIENCE)
    assert (found.answers, found.session, found.error) == (True, True, "")
    folder, listed, mode = json.loads(place.read_text())
    assert listed == []
    assert mode == "0o40700"
    assert not Path(folder).exists()


def test_its_environment_is_the_one_given(tmp_path: Path) -> None:
    body = "import os, sys; sys.exit(int(os.environ['CODE']))"
    found = probe(_script(tmp_path, body), {**os.environ, "CODE": "9"}, PATIENCE)
    assert found.error == "exited with code 9 before it answered `initialize`"


def test_a_program_that_dies_between_the_answers(tmp_path: Path) -> None:
    body = f"""
    {textwrap.indent(SERVE, "    ").strip()}
    answer(sys.stdin.readline())
    sys.stdin.readline()
    sys.exit("no \\x1b[1mmodel\\x1b[0m is configured")
    """
    found = probe(_script(tmp_path, body), None, PATIENCE)
    assert found.answers
    assert not found.session
    assert found.error == (
        "exited with code 1 before it answered `session/new`; its last words: "
        "no \\u{1b}[1mmodel\\u{1b}[0m is configured"
    )


def test_a_silent_program_is_given_up_with_all_its_processes(tmp_path: Path) -> None:
    """Neither its end of input nor SIGTERM ends it, and it has a child."""
    pids = tmp_path / "pids"
    body = f"""
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"])
    open({str(pids)!r} + ".new", "w").write(f"{{os.getpid()}} {{child.pid}}")
    print("waiting for the moon", file=sys.stderr, flush=True)
    os.rename({str(pids)!r} + ".new", {str(pids)!r})  # the last: it has said what it says
    time.sleep(1000)
    """
    found = probe(_script(tmp_path, body), None, 3.0)
    assert found.error.startswith("did not answer `initialize` within 3 s")
    if pids.exists():  # else the machine was too busy to start it in time
        assert "its last words: waiting for the moon" in found.error
        assert all(wait_gone(int(pid), PATIENCE) for pid in pids.read_text().split())


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert "cannot start" in probe([str(path)], None, PATIENCE).error


def test_a_line_without_end(tmp_path: Path) -> None:
    body = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    found = probe(_script(tmp_path, body), None, PATIENCE)
    assert found.error.startswith("wrote a line of more than 4 MiB")
