"""`--audit FILE` and `conductor log verify FILE` as a user runs them."""

import hashlib
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor
from tests.places import ROOT
from wasm_host.harden import missing, probe

FLIP = (ROOT / "tests" / "wasm_host" / "guests" / "flip.wat").read_text()
CHATTY = FLIP.replace(
    "(local.set $keep (i32.ne (local.get $byte) (i32.const 99)))",
    "(local.set $keep (i32.const 1))",
).replace(
    "(local.set $byte (i32.sub (i32.const 227) (local.get $byte)))",
    """(local.set $byte (if (result i32) (i32.eq (local.get $byte) (i32.const 99))
      (then (i32.const 112))
      (else (i32.sub (i32.const 227) (local.get $byte)))))""",
)
"""A guest that passes everything on, and tells the client the conductor's message `configure`."""

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@pytest.fixture(name="chatty")
def _chatty(tmp_path: Path) -> Path:
    assert CHATTY.count("(i32.const 112)") == 1
    path = tmp_path / "chatty.wasm"
    path.write_bytes(wasmtime.wat2wasm(CHATTY))
    return path


def audited(file: Path, *arguments: str, prompt: str = "hi", code: int = 0) -> list[dict[str, Any]]:
    """Runs one turn with an audit that is then found unbroken; its records."""
    ran = conductor("exec", "--audit", str(file), "-p", prompt, *arguments)
    assert ran.code == code, ran.err
    checked = conductor("log", "verify", str(file))
    assert (checked.code, checked.err) == (0, "")
    return [json.loads(line) for line in file.read_text().splitlines()]


def events(found: list[dict[str, Any]], *wanted: str) -> list[tuple[str, str]]:
    """Kind and component of the records of some kinds."""
    return [(one["event"], one["component"]) for one in found if one["event"] in wanted]


@pytest.mark.proves("the record holds guests in a")
@pytest.mark.parametrize("isolation", ["process", "separate", "inline"])
def test_a_violation_of_a_guest_is_put_on_record_and_the_turn_goes_on(
    tmp_path: Path, chatty: Path, isolation: str
) -> None:
    file = tmp_path / "audit"
    found = audited(
        file, "-c", f"isolation={isolation}", "passthrough", f"{chatty},name=evil", "demo"
    )
    assert events(found, "component", "violation") == [
        ("component", "passthrough"),
        ("component", "evil"),
        ("component", "demo"),
        ("violation", "evil"),
    ]
    (violation,) = [one for one in found if one["event"] == "violation"]
    assert (violation["rule"], violation["direction"]) == ("rights", "up")
    assert (violation["method"], violation["fatal"]) == ("configure", False)
    assert (found[-1]["event"], found[-1]["failure"], found[-1]["violations"]) == ("end", None, 1)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_guest_alone_is_policed_by_the_parent_and_recorded_as_well(
    tmp_path: Path, chatty: Path
) -> None:
    found = audited(tmp_path / "audit", f"{chatty},only=context", "demo")
    (violation,) = [one for one in found if one["event"] == "violation"]
    assert (violation["component"], violation["rule"]) == ("chatty", "rights")
    (component,) = [one for one in found if one.get("component") == "chatty" and "policy" in one]
    assert component["policy"]["rights"] == ["context"]


@pytest.mark.proves("the recorded digest is that of")
def test_what_runs_is_recorded_with_its_digest_and_its_policy(tmp_path: Path) -> None:
    found = audited(tmp_path / "audit", "datetime", "demo")
    module = components_folder() / "datetime" / "datetime.wasm"
    digest = hashlib.sha256(module.read_bytes()).hexdigest()
    assert found[1]["sha256"] == digest
    assert found[1]["kind"] == "module"
    assert found[1]["policy"]["rights"] == ["change:prompts", "clock"]
    assert (found[2]["role"], found[2]["kind"]) == ("agent", "command")
    (loaded,) = [one for one in found if one["event"] == "loaded"]
    assert (loaded["component"], loaded["sha256"]) == ("datetime", digest)


def test_a_second_run_continues_the_record(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    first = audited(file, "demo")
    both = audited(file, "demo")
    assert both[: len(first)] == first
    assert [one["seq"] for one in both] == list(range(1, 2 * len(first) + 1))
    assert len({one["run"] for one in both}) == 2


def test_how_a_chain_failed_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    found = audited(file, f"{sys.executable} -c raise", code=1)
    assert [one["event"] for one in found] == ["chain", "component", "failure", "end"]
    assert "exited with code 1" in found[-2]["text"]
    assert found[-1]["failure"] == found[-2]["text"]


def test_a_guest_that_is_started_again_is_recorded(tmp_path: Path, chatty: Path) -> None:
    """Neighbours recover in their own process, which reports it."""
    file = tmp_path / "audit"
    evil = f"{chatty},on_violation=fail,on_failure=bypass"
    conductor("exec", "--audit", str(file), "-p", "hi", evil, "passthrough", "demo")
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert events(found, "restart", "bypass") == [("bypass", "chatty")]
    evil = f"{chatty},on_violation=fail,on_failure=restart+bypass"
    conductor("exec", "--audit", str(file), "-p", "hi", evil, "passthrough", "demo")
    more = [json.loads(line) for line in file.read_text().splitlines()][len(found) :]
    violations = sum(one["event"] == "violation" for one in more)
    restarts = events(more, "restart", "bypass")
    assert len(restarts) == violations  # each is answered once
    assert set(restarts) <= {("restart", "chatty"), ("bypass", "chatty")}
    assert conductor("log", "verify", str(file)).code == 0


MORTAL = """
import json, sys
for line in sys.stdin:
    got = json.loads(line)
    if got.get("method") == "session/prompt":
        sys.exit(3)
    if got.get("method") == "proxy/initialize":
        inner = {"method": "initialize", "params": got["params"]}
        got |= {"method": "proxy/successor", "params": inner}
    elif "method" in got:
        inner = {"method": got["method"], "params": got["params"]}
        got |= {"method": "proxy/successor", "params": inner}
    print(json.dumps(got), flush=True)
"""
"""A proxy of dialect `acp` that dies of the first prompt; ids are the same on both sides."""


def test_a_program_that_is_bypassed_is_recorded(tmp_path: Path) -> None:
    file, script = tmp_path / "audit", tmp_path / "mortal.py"
    script.write_text(MORTAL)
    proxy = f"{sys.executable} {script},dialect=acp,on_failure=bypass,name=mortal"
    found = audited(file, proxy, "demo", code=1)
    assert events(found, "bypass", "failure") == [("bypass", "mortal")]
    assert "exited with code 3" in found[-2]["text"]
    assert found[-1]["failure"] is None


def test_agent_and_proxy_audit_too(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    ran = conductor("agent", "--audit", str(file), "datetime", "demo", stdin=INITIALIZE)
    assert (ran.code, ran.err) == (0, "")
    assert conductor("proxy", f"--audit={file}", "datetime").code == 0
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["mode"] for one in found if one["event"] == "chain"] == ["auto", "proxy"]
    assert sum(one["event"] == "end" for one in found) == 2
    assert conductor("log", "verify", str(file)).code == 0


@pytest.mark.proves("conductor does not append to")
@pytest.mark.parametrize("command", ["agent", "exec"])
def test_a_broken_record_is_not_continued(tmp_path: Path, command: str) -> None:
    file = tmp_path / "audit"
    audited(file, "demo")
    file.write_text(file.read_text().replace('"demo"', '"other"'))
    before = file.read_bytes()
    prompt = ["-p", "hi"] if command == "exec" else []
    ran = conductor(command, "--audit", str(file), *prompt, "demo")
    ran.assert_error(2, "cannot continue the audit", "line 2 was altered", "audit to another file")
    assert ran.out == ""
    assert file.read_bytes() == before


def test_tampering_is_found_and_the_first_bad_line_named(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    audited(file, "datetime", "demo")
    lines = file.read_text().splitlines(keepends=True)
    for changed, line, why in (
        ([*lines[:2], *lines[3:]], 3, "does not follow"),
        ([lines[0], lines[1].replace("clock", "log"), *lines[2:]], 2, "was altered"),
        ([*lines, lines[-1]], len(lines) + 1, "does not follow"),
    ):
        file.write_text("".join(changed))
        ran = conductor("log", "verify", str(file))
        ran.assert_error(1, f"line {line} {why}")
        assert "BROKEN" in ran.out
        verdict = json.loads(conductor("log", "verify", "--json", str(file)).out)
        assert (verdict["ok"], verdict["line"], verdict["records"]) == (False, line, line - 1)


@pytest.mark.proves("it finds a cut end by the hash")
def test_a_record_cut_at_its_end_is_found_by_its_head(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    audited(file, "demo")
    head = json.loads(conductor("log", "verify", "--json", str(file)).out)["head"]
    assert head in conductor("log", "verify", str(file)).out
    audited(file, "demo")
    assert conductor("log", "verify", "--head", head, str(file)).code == 0
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:2]))
    assert conductor("log", "verify", str(file)).code == 0
    conductor("log", "verify", "--head", head, str(file)).assert_error(1, head, "cut lines off")
    file.write_text("")
    conductor("log", "verify", str(file)).assert_error(1, "holds no record", "cut lines off")


def test_what_is_no_audit_file(tmp_path: Path) -> None:
    conductor("log", "verify", str(tmp_path / "no")).assert_error(2, "cannot read", "--audit")
    conductor("log", "verify", str(tmp_path)).assert_error(2, "cannot read", "it is a folder")
    ran = conductor("exec", "--audit", str(tmp_path), "-p", "hi", "demo")
    ran.assert_error(2, "cannot write the audit", "give a path")


# -- --require-sandbox ---------------------------------------------------------------------------


@pytest.mark.proves("`--require-sandbox` refuses proxies")
@pytest.mark.parametrize(
    "proxy", ["python p.py", "py:tests.cli.agents:silent", "conductor proxy datetime"]
)
@pytest.mark.parametrize("command", ["agent", "proxy", "exec"])
def test_an_unsandboxed_proxy_is_refused_by_name(command: str, proxy: str) -> None:
    rest = {"agent": ["demo"], "proxy": ["passthrough"], "exec": ["demo", "-p", "hi"]}[command]
    ran = conductor(command, "--require-sandbox", "datetime", f"{proxy},name=mine", *rest)
    ran.assert_error(2, "proxy `mine`", "is not sandboxed", "WebAssembly")
    assert ran.out == ""


def test_the_agent_is_exempt() -> None:
    ran = conductor("exec", "--require-sandbox", "passthrough", "demo", "-p", "hi")
    assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")


@pytest.mark.proves("`--require-sandbox` refuses proxies")
def test_what_would_be_a_proxy_is_no_agent() -> None:
    """Under another conductor `agent` may turn out to be a proxy, its last component too."""
    offer = INITIALIZE.replace(b'"initialize"', b'"proxy/initialize"')
    asked = conductor("agent", "demo", stdin=offer)
    assert "`demo`" in json.loads(asked.out)["error"]["message"]  # it was offered the role
    ran = conductor("agent", "--require-sandbox", "demo", stdin=offer)
    error = json.loads(ran.out)["error"]
    assert error["message"] == "`proxy/initialize` requests are only sent by the conductor"


def test_a_refusal_is_put_on_record(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    found = audited(file, "--require-sandbox", "python p.py", "demo", code=2)
    assert found[-1]["event"] == "end"
    assert "is not sandboxed" in found[-1]["failure"]


# -- require-hardening ---------------------------------------------------------------------------


@pytest.mark.proves("`require-hardening` refuses guests")
def test_hardening_cannot_be_had_in_this_process() -> None:
    options = ("-c", "require-hardening=true", "-c", "isolation=inline")
    ran = conductor("exec", *options, "passthrough", "demo", "-p", "hi")
    ran.assert_error(2, "contradict each other", "leave out `isolation`")


def test_guests_run_where_hardening_is_in_force() -> None:
    """Or are refused with the layers that are missing: which, depends on this machine."""
    ran = conductor("exec", "-c", "require-hardening=true", "passthrough", "demo", "-p", "hi")
    if missing(probe()):
        ran.assert_error(1, "cannot be hardened as required", missing(probe())[0].name)
    else:
        assert (ran.code, ran.out, ran.err) == (0, "hi\n", "")
