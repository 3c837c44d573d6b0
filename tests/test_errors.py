"""Text of other people: nothing of it is obeyed, and no line of it passes for one of ours."""

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.author.check.suite import CheckOutcome
from conductor.cli import inspect_, report, shown_log, test_checks
from conductor.core import DIALECTS, Closure, Component
from conductor.core.effects import Send
from conductor.core.router import Router
from conductor.errors import ConductorError, UsageError, json_text, marked, visible
from conductor.spec import catalog, component_options, programs
from conductor.spec.lock import file as locks
from conductor.spec.manifest import reading
from conductor.spec.model import Spec
from tests.harness.process.command import conductor
from tests.places import ROOT

FORGED: Final = (
    "x\nerror: conductor: your licence has expired\r\nhint: pay at y\u202e\u200b\U000e0041\x1b[2J"
)
"""Text of a stranger who wants it to be taken for conductor's own."""


def assert_harmless(text: str) -> None:
    """No line of it begins as one of ours with what is forged, and nothing of it is unseen."""
    assert "licence" in text
    for line in text.splitlines():
        assert not line.startswith(("error: conductor: your", "hint: pay")), text
    assert not set(text) & set("\u202e\u200b\U000e0041\x1b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc\r\nd", "a\tb\nc\r\nd"),
        ("a\rb\x07\x9b\x7f", "a\\u{d}b\\u{7}\\u{9b}\\u{7f}"),
        ("\u202eabc\u2069\u200b", "\\u{202e}abc\\u{2069}\\u{200b}"),
        ("\u200d\ufeff\xad", "\\u{200d}\\u{feff}\\u{ad}"),
        ("a\u2028b\u2029c", "a\\u{2028}b\\u{2029}c"),
        ("\U000e0041\ue000\U0010ffff\udcff", "\\u{e0041}\\u{e000}\\u{10ffff}\\u{dcff}"),
        ("a\u3164\u115f\u2800\u034f", "a\\u{3164}\\u{115f}\\u{2800}\\u{34f}"),
        ("a\ufe0f \u2764\ufe0f", "a\\u{fe0f} \u2764\ufe0f"),
        ("\u2764\ufe00\U000e0100", "\u2764\\u{fe00}\\u{e0100}"),
        ("grün — 日本 👍 1\u202f000\xa0km агент", "grün — 日本 👍 1\u202f000\xa0km агент"),
        ("e\u0301\u0323 x" + "\u0300" * 6, "e\u0301\u0323 x" + "\u0300" * 4 + "\\u{300}" * 2),
        ("\U00013441", "\\u{13441}"),
    ],
)  # fmt: skip
def test_what_is_not_seen_is_written_out(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown
    assert json.loads(json_text(json.dumps(text, ensure_ascii=False))) == text


def test_further_lines_are_marked_once() -> None:
    once = marked("one\ntwo\n\n  | three")
    assert once == "one\n  | two\n  | \n  | three"
    assert marked(once) == once


def test_errors_hold_what_can_be_shown() -> None:
    error = ConductorError(FORGED, FORGED)
    for text in (str(error), error.text, error.hint):
        assert_harmless(text)


def test_an_editor_is_told_of_a_failed_component_in_one_entry() -> None:
    router = Router([Component("p", "proxy `p`", DIALECTS["channel"])])
    ask = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    router.receive("client", ask)
    sent = [one for one in router.closed("p", Closure(FORGED, FORGED)) if isinstance(one, Send)]
    message = json.loads(sent[-1].frame)["error"]["message"]
    first, _, hint = message.partition("\nhint: x")
    assert_harmless(first)
    assert_harmless(hint)


@pytest.mark.proves("from anybody to your terminal", "texts that look like lines of")
@pytest.mark.parametrize("way", ["error", "write", "logger", "relay", "say"])
def test_the_command_line_marks_what_it_shows(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    match way:
        case "error":
            report.error(FORGED, FORGED)
        case "write":
            report.write(FORGED)
        case "logger":
            shown_log.logger("debug")("warning", "p", FORGED)
        case "relay":
            for line in FORGED.split("\n"):
                relay = shown_log.relay("debug", shown_log.lines("debug", []))
                relay("p", line)
                relay("", line)
        case _:
            report.say(FORGED)
    said = capsys.readouterr()
    assert_harmless(said.out + said.err)


def test_json_is_safe_on_a_terminal_and_means_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report.say_json({"said": FORGED})
    said = capsys.readouterr().out
    assert_harmless(said)
    assert json.loads(said) == {"said": FORGED}


MANIFEST: Final[dict[str, str]] = {
    "description": "description = {text}",
    "unknown key": "{text} = 1",
    "reason": "[rights]\nfull = {text}",
    "right": '[rights]\n{text} = "why"',
    "setting": "[config]\n{text} = 'x'",
    "meaning": "[config]\na = {text}",
}


@pytest.mark.parametrize("place", MANIFEST)
def test_a_manifest_says_nothing_as_if_it_were_us(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.py").write_text("proxy = 1\n")
    text = json.dumps(FORGED)
    text = text.replace("\\ud83c", "").replace("\\udb40\\udc41", "\\U000e0041")
    written = 'name = "p"\nfile = "p.py"\n' + MANIFEST[place].format(text=text)
    (tmp_path / "component.toml").write_text(written)
    try:
        inspect_.show(f"{tmp_path}/", as_json=False)  # the card, then all
        inspect_.show(f"{tmp_path}/", as_json=False, whole=True)
        said = capsys.readouterr()
        shown = said.out + said.err
    except UsageError as error:
        shown = f"{error.text}\n{error.hint}"
    assert_harmless(shown)


@pytest.mark.parametrize("name", ["conductor", "Error", "host", "агент", "a\u200bb", "client", ""])
def test_a_manifest_cannot_take_a_name_that_means_something_else(name: str) -> None:
    text = f"name = {json.dumps(name)}\nfile = 'p.wasm'"
    with pytest.raises(UsageError, match=r"line 1: (a component cannot be called|`name` is up to)"):
        reading.parse(text.encode())


def test_only_agents_are_called_agent() -> None:
    text = "name = 'agent'\ncommand = ['x']\nkind = '{}'"
    assert reading.parse(text.format("agent").encode()).name == "agent"
    with pytest.raises(UsageError, match="cannot be called `agent`"):
        reading.parse(text.format("proxy").encode())


@pytest.mark.proves("texts that look like lines of")
@pytest.mark.parametrize("name", ["\u0430gent", "a b", "a\nb", "x" * 65, "", "é", "a\u200b"])
def test_names_are_plain_ascii(name: str) -> None:
    with pytest.raises(UsageError, match="a name is up to 64"):
        component_options.apply(Spec(name="p"), [("name", name)])
    lock = f'version = 3\n[[component]]\nname = {json.dumps(name)}\nrole = "agent"\n'
    lock += 'kind = "command"\nsource = "x"\n'
    with pytest.raises(UsageError, match="a name is up to 64"):
        locks.parse(lock.encode(), "conductor.lock")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("conductor.wasm", "conductor-2"),
        ("ERROR.wasm", "ERROR-2"),
        ("агент.wasm", "component"),
        ("my агент.wasm", "my"),
        ("agent.wasm", "agent-2"),
        ("x" * 90 + ".wasm", "x" * 60),
        ("a\nerror: b.wasm", "a-error-b"),
    ],
)
def test_a_file_may_be_called_anything_and_its_component_gets_a_name(
    file: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_bytes(b"\0asm\1\0\0\0")
    spec = catalog.resolve(json.dumps({"wasm": str(tmp_path / file)}))
    assert spec.name == name
    assert programs.is_name(spec.name)


def test_the_agent_of_a_chain_may_be_called_so() -> None:
    chain = ["demo,name=agent", "demo,name=agent"]
    assert [one.name for one in catalog.resolve_all(chain)] == ["agent-2", "agent"]
    named = catalog.resolve_all(chain[:1], agent_last=False)
    assert [one.name for one in named] == ["agent-2"]


def test_what_python_source_raises_is_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(f"raise ValueError({FORGED + ' conductor: x'!r})\n")
    ran = conductor("exec", "./p.py,only=context", "demo", "-p", "hi", cwd=tmp_path)
    assert ran.code == 1
    assert_harmless(ran.err)
    assert "error: p: its own words:\n  | " in ran.err


def test_a_hint_in_an_agents_error_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        f"    error = {{'code': -1, 'message': {FORGED!r}}}\n"
        "    said = {'jsonrpc': '2.0', 'id': asked['id'], 'error': error}\n"
        "    print(json.dumps(said), flush=True)\n"
    )
    ran = conductor("exec", "python a.py", "-p", "hi", cwd=tmp_path)
    assert ran.code == 1
    assert_harmless(ran.err)


def test_test_checksshows_what_came_within_its_own_lines() -> None:
    one = CheckOutcome(
        name="alive",
        rule="rule",
        see="see",
        status="fail",
        why=FORGED,
        sent=FORGED,
        came=FORGED,
        traffic=[FORGED],
        stderr=[FORGED],
    )
    assert_harmless("\n".join(test_checks.explained(one)))


# -- nothing goes past it ------------------------------------------------------------------------

_WRITERS: Final = {
    "report.py": "all others write through it",
    "__init__.py": "the refusal on Windows, where `report` cannot poll a pipe",
    "app.py": "flushes what was printed already",
    "exec_output.py": "the agent's answer on standard output",
    "log_replay.py": "protocol, when it plays the agent",
    "log_audit.py": "the lines of an audit, unchanged",
    "join.py": "protocol",
    "json_log.py": "makes what code of this process prints entries of the log",
}


_STREAMS: Final = ("sys.stdout", "sys.stderr", "typer.echo", "typer.secho")


def test_commands_write_through_the_report_only() -> None:
    for path in sorted((ROOT / "conductor" / "cli").glob("*.py")):
        lines = [
            node.lineno
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if (isinstance(node, ast.Name) and node.id == "print")
            or (isinstance(node, ast.Attribute) and ast.unparse(node) in _STREAMS)
        ]
        assert not lines or path.name in _WRITERS, f"{path.name}: {lines}"


def test_whoever_speaks_in_the_log_besides_components_has_a_reserved_name() -> None:
    names: set[str] = set()
    for path in (ROOT / "conductor").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _called(node.func).endswith("log"):
                names |= _subject(node.args)
    assert {"conductor", "trace", "audit"} <= names
    assert all(programs.is_reserved(name) for name in names), names


def _called(node: Any) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _subject(arguments: list[ast.expr]) -> set[str]:
    if len(arguments) != 3 or not isinstance(arguments[1], ast.Constant):
        return set()
    return {name for name in [str(arguments[1].value)] if programs.is_name(name)}
