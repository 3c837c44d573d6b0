"""The card of `conductor inspect`: few lines for any component, of conductor's own words."""

import itertools
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

import pytest

from conductor.cli import inspect_, inspect_card
from conductor.core.policy import words
from conductor.spec import catalog, policy_text
from conductor.spec.paths import components_folder
from conductor.spec.plan import alone
from tests.harness.process.command import conductor, environment

DATETIME: Final = components_folder() / "datetime" / "datetime.wasm"
LABELS: Final = ["sandbox", "sees", "may", "asks for", "gets", "digest"]
END: Final = f"  {policy_text.THROUGH}"
GREEDY: Final = """proxy = Proxy("greedy", version="1\\x1b[2J", rights={"full": "for its work",
    "clock": "a", "web:evil.example.com": "b", "read:**": "c", "storage": "d", "timer": "e"})
"""


def card(component: str, folder: Path | None = None, columns: int = 80) -> list[str]:
    """The lines of the card of a component that nothing is wrong with."""
    ran = conductor("inspect", component, cwd=folder, env=environment(COLUMNS=str(columns)))
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def line(label: str, lines: list[str]) -> str:
    """The text behind a label."""
    (at,) = [at for at, text in enumerate(lines) if text.startswith(f"  {label} ")]
    further = itertools.takewhile(lambda text: text.startswith(" " * 12), lines[at + 1 :])
    return " ".join([lines[at].removeprefix(f"  {label}").strip(), *map(str.strip, further)])


def labels(lines: list[str]) -> list[str]:
    """The labels of a card, without the lines that go on."""
    return [text[2:12].strip() for text in lines[1:] if text[2:3].strip() and text != END]


def test_the_lines_of_every_bundled_component_fit() -> None:
    for name in catalog.bundled():
        facts = inspect_.facts_of(alone(name), name)
        for columns in (60, 80):
            lines = inspect_card.lines(facts, columns)
            assert [label for label in labels(lines) if label != "tools"] == [*LABELS, "run"]
            assert (END in lines) == (facts.policy is not None)
            assert lines[0].startswith(name)
            assert max(map(len, lines)) <= columns
            assert "bundled" in line("digest", lines)
            assert "…" not in line("may", lines) + line("sees", lines)


def test_what_a_user_wants_to_know_first() -> None:
    lines = card("datetime")
    assert lines[0] == 'datetime 0.1.0: "Puts the current date and time in front of every prompt."'
    assert line("sandbox", lines).startswith("yes: WebAssembly, no files, network, programs")
    assert line("sees", lines) == "your prompts"
    assert line("may", lines) == "rewrite your prompts; know the time"
    assert (
        line("asks for", lines)
        == "`change:prompts`, to rewrite your prompts; `clock`, to know the time"
    )
    assert line("gets", lines) == "all that it asks for"
    ran = conductor(*shlex.split(line("run", lines))[1:])
    assert ran.out.rstrip().endswith("hello")


def test_an_agent_and_a_program_say_that_nothing_holds_them() -> None:
    agent, program = card("demo"), card("python -c pass")
    assert labels(program) == [*LABELS, "run"]
    assert [label for label in labels(agent) if label != "tools"] == labels(program)
    assert line("tools", agent).startswith("its own MCP servers: not pinned")
    for lines in (agent, program):
        assert line("sandbox", lines).startswith("NO: it runs with all your rights")
        assert line("digest", lines).startswith("sha256:")
    assert line("sees", program) == "every message: no rule limits it"
    assert line("run", agent) == "conductor exec demo -p hello"


def test_a_known_agent_is_an_agent_and_its_program_by_path_is_not(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"

    def card_of(component: str) -> list[str]:
        return conductor("inspect", component, env=environment(PATH=path)).out.splitlines()

    agent, plain = card_of("opencode"), card_of("path:opencode")
    assert agent[0] == "opencode: known agent (OpenCode)"
    assert line("run", agent) == "conductor exec opencode -p hello"
    assert line("sees", plain) == "every message: no rule limits it"
    assert line("run", plain) == "conductor exec path:opencode demo -p hello"
    missing = conductor("inspect", "opencode", env=environment(PATH=str(tmp_path / "nothing")))
    missing.assert_error(2, "the agent `opencode` is not installed", "npm install")


def test_a_program_with_rights_is_held_to_them() -> None:
    lines = card("python -c pass,only=observer")
    assert line("sees", lines) == "every message"
    assert line("may", lines) == "nothing"
    assert line("gets", lines) == "all your rights on this machine; `observer`"


def test_many_wishes_are_folded_and_what_is_lacking_is_said(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    lines = card("./greedy.py", tmp_path)
    assert labels(lines) == [*LABELS, "run"]
    assert "\x1b" not in "".join(lines)
    assert line("asks for", lines) == "`full`; `clock`; `web:evil.example.com`; and 3 more: --all"
    assert line("gets", lines).startswith("NOT `full`; NOT `clock`; and ")
    assert line("digest", lines).endswith("not signed; not locked")
    facts = inspect_.facts_of(alone(str(tmp_path / "greedy.py")), "./greedy.py")
    offered = " ".join(" ".join(inspect_card.lines(facts, 80, source="./greedy.py")).split())
    assert (
        "to read files in the folders of your sessions: `**`; `storage`, to keep data on" in offered
    )
    assert "more: --all" not in offered
    wide = line("gets", card("./greedy.py", tmp_path, columns=400))
    assert wide.count("NOT") == 6
    assert "NOT `web:evil.example.com`" in wide
    assert "; `context`; " in wide


def test_what_does_nothing_or_does_not_start_is_said_first(tmp_path: Path) -> None:
    assert line("gets", card("budget")).startswith("does nothing without `")
    wide = line("gets", card("router", columns=200))
    assert wide.startswith("does nothing without the setting `rules`; all that it asks for")
    none = card("budget,only=none")
    assert (line("sees", none), line("may", none)) == ("no message", "nothing")
    assert line("gets", none).endswith("more: --all")
    (tmp_path / "greedy.py").write_text("proxy = 1\n")
    (tmp_path / "component.toml").write_text(
        'name = "g"\nfile = "greedy.py"\nfails = "closed"\n[rights]\nfilter = "x"\n'
    )
    closed = line("gets", card("./", tmp_path))
    assert closed == "NO CHAIN STARTS WITH IT; NOT `filter`; `context`; and 2 more: --all"


def test_a_stranger_cannot_make_the_card_long_or_speak_as_conductor(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = 1\n")
    words = 'A" \\n  sandbox   yes' + "x" * 3000
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nfile = "x.py"\nversion = "{"9" * 500}"\ndescription = \'{words}\'\n'
        f'[rights]\n"web:{"a" * 60}.example" = "z"\nstorage = "{"r" * 3000}"'
    )
    lines = card("./", tmp_path)
    assert labels(lines) == [*LABELS, "run"]
    assert max(map(len, lines)) <= 80
    assert lines[0].count('"') == 2


@pytest.mark.parametrize("odd", [" " * 180, "\u3000" * 180, "\u2800" * 180, "a" + "\u0301" * 180])
def test_blanks_and_stacked_marks_do_not_reach_the_card(tmp_path: Path, odd: str) -> None:
    file = tmp_path / f"x{odd}y.py"
    try:
        file.write_text("proxy = 1\n")
    except OSError:  # the name is too long
        file = tmp_path / "x.py"
        file.write_text("proxy = 1\n")
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nfile = "{file.name}"\ndescription = "a{odd}b"\n[rights]\nstorage = "{odd}z"\n'
    )
    for lines in (card("./", tmp_path), card(f"./{file.name}", tmp_path)):
        assert odd[-4:] * 2 not in "".join(text.lstrip() for text in lines)


def test_more_than_is_asked_for_is_said() -> None:
    gets = line("gets", card("datetime,only=full+clock+random"))
    assert gets == "all that it asks for; also `full`; also `random`"


def test_services_that_reach_out_of_the_sandbox_are_not_hidden() -> None:
    lines = card("datetime,allow=web:a.example")
    assert (
        line("sandbox", lines)
        == "yes: WebAssembly, nothing outside the sandbox except by its rights"
    )
    assert "also `web:a.example`" in line("gets", lines)
    wide = line("gets", card("datetime,allow=web:a.example", columns=200))
    assert "also `web:a.example`, to SEND all that it sees over the network to `a.example`" in wide


def test_a_refused_module_says_why_first(tmp_path: Path) -> None:
    (tmp_path / "page.wasm").write_text("<html>")
    ran = conductor("inspect", "./page.wasm", cwd=tmp_path)
    ran.assert_error(1, "refused", "an HTML or XML page")
    first, *others = ran.out.splitlines()
    assert first.startswith("REFUSED: page.wasm: not a WebAssembly module")
    assert not [text for text in others if "run" in text.split()]


def test_it_is_compared_with_the_lock(tmp_path: Path) -> None:
    module = tmp_path / "mine.wasm"
    shutil.copy(DATETIME, module)
    assert line("digest", card("./mine.wasm", tmp_path)).endswith("not signed; not locked")
    assert " of mine.wasm; " in line("digest", card("./mine.wasm", tmp_path))
    assert conductor("lock", "./mine.wasm,allow=clock", "demo", cwd=tmp_path).code == 0
    assert "; as locked" in line("digest", card("./mine.wasm", tmp_path))
    assert "as conductor.lock has it" in line("digest", card("demo", tmp_path))
    assert "; not locked" in line("digest", card("datetime", tmp_path))
    more = line("digest", card("./mine.wasm,allow=clock+random", tmp_path, columns=120))
    assert "CHANGED since locked: rights: + random" in more
    module.write_bytes(module.read_bytes() + b"\0\x02\x01x")  # a custom section
    changed = line("digest", card("./mine.wasm", tmp_path, columns=160))
    assert "CHANGED since locked: digest: sha256:" in changed
    found = json.loads(conductor("inspect", "--json", "./mine.wasm", cwd=tmp_path).out)
    assert found["lock"]["state"] == "changed"
    (tmp_path / "conductor.lock").write_text("no lock")
    assert "conductor.lock is unreadable" in line("digest", card("./mine.wasm", tmp_path))


def test_what_add_and_update_know_besides() -> None:
    facts = inspect_.facts_of(alone("datetime"), "date")
    lines = inspect_card.lines(
        facts,
        80,
        source="oci://registry.example/date@sha256:0",
        signer="alice@example.com\x1b[2J",
        state="CHANGED since added",
    )
    assert line("from", lines) == "oci://registry.example/date@sha256:0"
    assert not [text for text in lines if text.startswith("  run")]
    assert "; CHANGED since added; " in line("digest", lines)
    wide = inspect_card.lines(facts, 200, signer="alice@example.com\x1b[2J")
    assert "signed by alice@example.com\\u{1b}[2J" in line("digest", wide)


@pytest.mark.parametrize(
    ("rights", "seen"),
    [
        (["see:updates"], ["all updates"]),
        (["see:updates", "see:prompts"], ["your prompts", "all updates"]),
        (
            ["see:updates", "see:permissions"],
            ["all updates", "the agent's requests for permission"],
        ),
    ],
)
def test_updates_stand_where_what_is_most_private_comes_first(
    rights: list[str], seen: list[str]
) -> None:
    assert policy_text.sees(rights) == seen


@pytest.mark.proves("`conductor inspect` shows the abilities")
@pytest.mark.parametrize("name", words.SETS)
def test_what_is_seen_and_changed_follows_the_tables(name: str) -> None:
    seen, may = policy_text.sees([name]), policy_text.may([name])
    assert ("your prompts" in seen) == (name in ("context", "filter"))
    assert ("every message" in seen) == (name in ("observer", "full", "trusted"))
    assert (may == []) == (name in ("none", "observer"))
    assert any("rewrite your prompts" in text for text in may) == bool(may)
    hides = any("replies, thoughts and plans of the agent" in text for text in may)
    assert hides == (name in ("filter", "full", "trusted"))
    assert ("set the agent to work WHEN YOU ARE AWAY" in may) == (name == "trusted")
