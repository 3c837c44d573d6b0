"""`conductor test`: careful proxies pass, and each careless one fails where it is careless."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest
import wasmtime

from conductor.author.check import robustness, suite
from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.suite import CheckOutcome
from conductor.author.check.table import CHECKS, Check
from conductor.spec import catalog
from tests.docs import pages
from tests.harness.process.command import conductor
from tests.places import HOSTILE, ROOT

HERE: Final = Path(__file__).parent
PATIENCE: Final = 110.0
"""Seconds a check of a careful proxy may take: it is over as soon as it has passed."""

IMPATIENCE: Final = 2.0
"""Seconds for a proxy that says nothing: the check fails after any time."""


def run(component: str, *chosen: str, timeout: float = PATIENCE) -> dict[str, CheckOutcome]:
    """The outcome of each check, by its name."""
    spec = catalog.resolve(component)
    return {one.name: one for one in suite.outcomes(spec, chosen, timeout)}


def careless(mode: str) -> str:
    """The command of a careless proxy."""
    script = shlex.join([sys.executable, str(HOSTILE / "careless_proxy.py"), mode])
    return f"{script},dialect=channel"


MODULES: Final = ("passthrough", "datetime", "tools-demo")


@pytest.mark.parametrize("name", MODULES)
def test_bundled_proxies_pass(name: str) -> None:
    found = run(name)
    assert {name: one.why for name, one in found.items() if one.status in ("fail", "note")} == {}
    assert [name for name, one in found.items() if one.status == "skip"] == ["end-of-input"]
    assert list(found) == [one.name for one in CHECKS]


QUICK: Final = (
    "handshake", "requests", "errors", "ids", "concurrency", "order", "cancellation", "numbers",
    "bytes", "turn", "session-load", "only-messages", "answers", "end-of-input",
)  # fmt: skip


def recording(dialect: str) -> str:
    """A program of a dialect that forwards everything."""
    module = "tests.e2e.actors.recording_proxy"
    return shlex.join([sys.executable, "-m", module, "--dialect", dialect, "--name", "X"])


@pytest.mark.parametrize("dialect", ["acp", "sdk", "sacp", "pacp", "scp", "channel"])
def test_programs_of_every_dialect_pass(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = run(careless("forward") if dialect == "channel" else recording(dialect), *QUICK)
    assert {name: one.why for name, one in found.items() if one.status in ("fail", "note")} == {}
    skipped = [name for name, one in found.items() if one.status == "skip"]
    assert skipped == (["handshake"] if dialect == "scp" else [])


@pytest.mark.parametrize(
    ("mode", "check", "said"),
    [
        ("drop_notifications", "notifications", "`_check/tell` never reached the agent"),
        ("refuse_unknown", "requests", "was not passed on"),
        ("rewrite", "repeated-names", "changed from byte"),
        ("rewrite", "numbers", "never reached the agent"),
        ("ascii_only", "strings", "changed from byte"),
        ("strip_meta", "meta", "`_meta` of session/new was lost"),
        ("strip_meta_of_answers", "meta", "`_meta` of the answer to session/new was lost"),
        ("one_id", "concurrency", "was not passed on"),
        ("renumber", "kept-ids", "`initialize` went on under another id"),
        ("renumber_prompts", "kept-ids", "`session/prompt` went on under another id"),
        ("late_updates", "order", "arrived in another order, or not all"),
        ("late_updates", "turn", "updates did not all arrive before the end of its turn"),
        ("late_updates", "session-load", "before the answer to `session/load`"),
        ("swallow_cancels", "cancellation", "`$/cancel_request` never reached the agent"),
        ("swallow_cancels", "session-cancel", "`session/cancel` never reached the agent"),
        ("own_errors", "errors", "an error changed"),
        ("own_errors", "refused-initialize", "the agent's refusal of `initialize` changed"),
        ("chatter", "only-messages", "it wrote a line that is no message"),
        ("small", "1-mb", "exited with code 9"),
        ("always_allow", "permission", "only the user can give"),
        ("one_session", "sessions", "in other sessions"),
        ("twice", "answers", "one request was answered twice"),
        ("known_capabilities", "handshake", '"checkCapability":[2]'),
        ("recursive", "depth", "RecursionError"),
        ("bad_ending", "end-of-input", "exited with code 3"),
    ],
)
def test_a_careless_proxy_fails_where_it_is_careless(mode: str, check: str, said: str) -> None:
    (found,) = run(careless(mode), check).values()
    assert (found.status, found.stuck) in (("fail", False), ("fail", True))
    assert said in found.why
    assert found.see.startswith("docs/architecture.md#")
    assert found.traffic


def test_a_program_that_ends_at_each_first_request_is_told_with_its_code() -> None:
    """The program is started again, since it may know another dialect."""
    (found,) = run("sh -c 'read line; exit 3'", "handshake").values()
    assert found.status == "fail"
    assert "exited with code 3" in found.why


TOOLS: Final = """
from guest_sdk.python import Proxy
proxy = Proxy("kit", rights={{"serve:tools": "for its work"}})
for length in (1, {length}):
    proxy.tool(name="x" * length)(lambda: "done")
proxy.run()
"""


@pytest.mark.parametrize(("length", "status"), [(64, "pass"), (65, "note"), (128, "note")])
def test_a_tool_with_a_long_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, status: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    file = tmp_path / "kit.py"
    file.write_text(TOOLS.format(length=length))
    (found,) = run(shlex.join([sys.executable, str(file)]), "tool-names").values()
    assert found.status == status, found
    said = f"a tool of its MCP server `kit` has a name of {length} characters"
    assert (said in found.why) is (status == "note")


@pytest.mark.parametrize(
    ("mode", "check"), [("drop_requests", "requests"), ("no_ending", "end-of-input")]
)
def test_one_that_says_nothing_fails_in_bounded_time(mode: str, check: str) -> None:
    (found,) = run(careless(mode), check, timeout=IMPATIENCE).values()
    assert (found.status, found.stuck) == ("fail", True)
    assert "nothing more came within 2 s" in found.why


def test_one_that_writes_batches_does_not_get_past_initialize() -> None:
    found = run(careless("batches"), timeout=IMPATIENCE)
    assert found["handshake"].stuck
    assert found["order"].why == "it does not get past `initialize`"
    assert {one.status for one in found.values()} == {"fail", "skip"}


def test_lines_that_are_no_message() -> None:
    good = [b'{"id":1,"result":2}', b's{"method":"x"}', b"", b"  "]
    assert robustness.not_a_message(good) is None
    for line in (b"DEBUG", b"p", b"s[1]", b'[{"method":"x"}]', b'x{"method":"x"}', b"\xff"):
        assert robustness.not_a_message([*good, line, b"more"]) == line


def test_to_write_anew_is_only_advised_against() -> None:
    (found,) = run(careless("rewrite"), "bytes").values()
    assert (found.status, "their bytes are not" in found.why) == ("note", True)


def test_own_requests_under_numbers_are_only_advised_against() -> None:
    (found,) = run(careless("own_numbers"), "own-ids").values()
    assert found.status == "note"
    assert "`_mine/warm`, a request of the proxy's own, has no string for an id" in found.why
    assert '"id": 1' in found.came
    for mode in ("forward", "renumber", "renumber_prompts"):
        (found,) = run(careless(mode), "own-ids").values()
        assert (found.status, found.why) == ("pass", ""), mode


def test_ids_are_looked_at_where_they_tell_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = run(recording("acp"), "kept-ids", "own-ids")
    assert {name: one.status for name, one in found.items()} == {
        "kept-ids": "skip",
        "own-ids": "skip",
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trap_deliver", "trap"),
        ("garbage_side", "side"),
        ("loop_deliver", "cpu_ms"),
        ("wild_outbox", "memory"),
    ],
)
def test_hostile_guests_fail_and_are_named(tmp_path: Path, name: str, said: str) -> None:
    path = tmp_path / f"{name}.wasm"
    path.write_bytes(bytes(wasmtime.wat2wasm((HOSTILE / f"{name}.wat").read_text("utf-8"))))
    found = run(f"{path},cpu=50ms", "handshake", "odd-ids")
    assert [one.status for one in found.values()] == ["fail", "fail"]
    assert said in found["handshake"].why
    assert name in found["handshake"].why


def test_what_is_not_about_time_has_time_enough() -> None:
    (check,) = (one for one in CHECKS if one.name == "10-mb")
    for options, allowed in (("", 10_000), (",cpu=50ms", 50), (",cpu=20s", 20_000)):
        spec = suite.as_checked(check, catalog.resolve(f"passthrough{options}"))
        assert spec.limits["cpu_ms"] == allowed


def test_the_command(tmp_path: Path) -> None:
    del tmp_path
    passed = conductor("test", "--only", "requests", "--only", "end-of-input", "passthrough")
    assert (passed.code, passed.err) == (0, "")
    assert "pass  requests" in passed.out
    assert "skip  end-of-input        a guest has no input that ends" in passed.out
    assert passed.out.endswith("passthrough: 1 passed, 1 skipped\n")
    failed = conductor("test", "--only", "errors", careless("own_errors"))
    failed.assert_error(1, "breaks 1 rule: errors", "docs/proxies.md")
    for piece in ("FAIL  errors", "rule    errors pass with", "sent    {", "came    {", "before  "):
        assert piece in failed.out
    as_json = conductor("test", "--json", "--only", "errors", careless("own_errors"))
    assert as_json.code == 1
    told = json.loads(as_json.out)
    assert told["counts"] == {"passed": 0, "failed": 1, "notes": 0, "skipped": 0}
    assert (told["checks"][0]["name"], told["checks"][0]["status"]) == ("errors", "fail")


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (("--only", "nothing", "passthrough"), ("no check `nothing`", "handshake, ")),
        (("demo",), ("`demo` is an agent", "conductor exec demo")),
        (("./nowhere.wasm",), ("no such module",)),
        (("--timeout", "x", "passthrough"), ("invalid value `x` for `--timeout`",)),
    ],
)
def test_what_cannot_be_checked(arguments: tuple[str, ...], fragments: tuple[str, ...]) -> None:
    conductor("test", *arguments).assert_error(2, *fragments)


def test_every_rule_is_written_where_it_says() -> None:
    for check in CHECKS:
        path, _, section = check.see.partition("#")
        assert section in pages.anchors(pages.read(ROOT / path)), check.name
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.proves("`conductor test` gives a component")
def test_sessions_are_in_an_empty_folder() -> None:
    """A component may read a project's files, not all files of a machine."""
    seen: list[Path] = []

    async def look(chain: ScriptedChain) -> None:
        await chain.initialize()
        await chain.session()
        folder = Path(json.loads(chain.cwd))
        assert os.listdir(folder) == []
        assert any(f'"cwd":{chain.cwd.decode()}' in line for line in chain.traffic)
        seen.append(folder)

    check = Check("look", look, rule="", section="")
    spec = catalog.resolve(careless("forward"))
    (outcome,) = suite.outcomes(spec, (), PATIENCE, checks=(check,))
    assert outcome.why == ""
    assert [folder.exists() for folder in seen] == [False]


KEEPER: Final = """
import sys
asked, held = False, []
for line in sys.stdin:
    if line[0] != "c":
        held.append({"p": "s", "s": "p"}[line[0]] + line[1:])
        if asked is False:
            asked = True
            params = '{"key":"a","value":1}'
            print('c{"jsonrpc":"2.0","id":1,"method":"kv/set","params":%s}' % params, flush=True)
    elif '"id":1,' in line:
        with open(sys.argv[1], "w") as said:
            said.write(line)
        asked = None
    if asked is None:
        sys.stdout.write("".join(held))
        sys.stdout.flush()
        held.clear()
"""
"""A guest that goes on when its value is kept, and has noted the answer."""


@pytest.mark.proves("`conductor test` gives a component")
def test_values_that_are_kept_for_the_user_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "keeper.py").write_text(KEEPER)
    program = shlex.join([sys.executable, str(tmp_path / "keeper.py"), str(tmp_path / "said")])
    assert run(f"{program},dialect=channel", "requests")["requests"].why == ""
    assert '"result":{"used":2,' in (tmp_path / "said").read_text()
    assert not (tmp_path / "data").exists()
