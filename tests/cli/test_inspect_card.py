"""The card of `conductor inspect`: eight lines for any component, of conductor's own words."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Final

import pytest

from conductor.cli import inspect_, inspect_card
from conductor.core.policy.rules import PROFILES, Policy
from conductor.spec import catalog, policy_text
from conductor.spec.paths import components_folder
from tests.harness.process.command import conductor, environment

DATETIME: Final = components_folder() / "datetime" / "datetime.wasm"
LABELS: Final = ["sandbox", "sees", "changes", "asks for", "gets", "digest", "run"]
GREEDY: Final = """proxy = Proxy("greedy", profile="full", version="1\\x1b[2J", wants={
    "clock": "a", "fetch:evil.example.com": "b", "files:**": "c", "kv": "d", "timer": "e"})
"""


def card(component: str, folder: Path | None = None, columns: int = 80) -> list[str]:
    """The lines of the card of a component that nothing is wrong with."""
    ran = conductor("inspect", component, cwd=folder, env=environment(COLUMNS=str(columns)))
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


def line(label: str, lines: list[str]) -> str:
    """What stands behind a label."""
    (found,) = [text for text in lines if text.startswith(f"  {label} ")]
    return found.removeprefix(f"  {label}").strip()


def test_every_bundled_component_has_eight_lines_that_fit() -> None:
    for name in catalog.bundled():
        facts = inspect_.facts_of(catalog.resolve(name), name)
        for columns in (60, 80):
            lines = inspect_card.lines(facts, columns)
            assert [text[2:12].strip() for text in lines[1:]] == LABELS
            assert lines[0].startswith(name)
            assert max(map(len, lines)) <= columns
            assert "bundled" in line("digest", lines)


def test_what_a_user_wants_to_know_first() -> None:
    lines = card("datetime")
    assert lines[0] == 'datetime 0.1.0: "Puts the current date and time in front of every prompt."'
    assert line("sandbox", lines).startswith("yes: WebAssembly, no files, network, programs")
    assert line("sees", lines) == "your prompts; session set-ups; not answers, tool calls or files"
    assert line("changes", lines) == "your prompts; session set-ups; may serve tools of its own"
    assert line("asks for", lines) == "profile context; to know the time"
    assert line("gets", lines) == "all that it asks for"
    ran = conductor(*shlex.split(line("run", lines))[1:])
    assert ran.out.rstrip().endswith("hello")


def test_an_agent_and_a_program_say_that_nothing_holds_them() -> None:
    agent, program = card("demo"), card("python -c pass")
    assert len(agent) == len(program) == 8
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


def test_a_program_with_a_profile_is_held_to_it() -> None:
    lines = card("python -c pass,profile=observer")
    assert line("sees", lines) == "every message; not others' tools"
    assert line("changes", lines) == "nothing"
    assert line("gets", lines) == "all your rights on this machine; profile observer"


def test_many_wishes_are_folded_and_what_is_lacking_is_said(tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(GREEDY)
    lines = card("./greedy.py", tmp_path)
    assert len(lines) == 8
    assert "\x1b" not in "".join(lines)
    assert line("asks for", lines) == "profile full; `fetch:evil.example.com`; and 4 more: --all"
    assert line("gets", lines).startswith("profile context; NOT profile full; and 5 more")
    assert line("digest", lines).endswith("not signed; not locked")
    facts = inspect_.facts_of(catalog.resolve(str(tmp_path / "greedy.py")), "./greedy.py")
    offered = " ".join(" ".join(inspect_card.lines(facts, 80, source="./greedy.py")).split())
    assert "to read files in the folders of your sessions: `**`; to keep on" in offered
    assert "more: --all" not in offered
    wide = line("gets", card("./greedy.py", tmp_path, columns=400))
    assert wide.count("NOT") == 6
    assert "may NOT SEND what it sees over the network to `evil.example.com`" in wide


def test_what_does_nothing_or_does_not_start_is_said_first(tmp_path: Path) -> None:
    assert line("gets", card("budget")).startswith("does nothing without a setting")
    wide = line("gets", card("router", columns=200))
    assert wide.startswith("does nothing without the setting `rules`; all that it asks for")
    assert line("gets", card("budget,profile=none")).endswith("more: --all")
    (tmp_path / "greedy.py").write_text("proxy = 1\n")
    (tmp_path / "component.toml").write_text(
        'name = "g"\nfile = "greedy.py"\n[wants]\nprofile = "filter"\nfails = "closed"\n'
    )
    closed = line("gets", card("./", tmp_path))
    assert closed == "NO CHAIN STARTS WITH IT; profile context; NOT profile filter"


def test_a_stranger_cannot_make_the_card_long_or_speak_as_conductor(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("proxy = 1\n")
    words = 'A" \\n  sandbox   yes' + "x" * 3000
    (tmp_path / "component.toml").write_text(
        f'name = "x"\nfile = "x.py"\nversion = "{"9" * 500}"\ndescription = \'{words}\'\n'
        f'[wants.services]\n"fetch:{"a" * 60}.example" = "z"\n"kv" = "{"r" * 3000}"'
    )
    lines = card("./", tmp_path)
    assert len(lines) == 8
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
        f'name = "x"\nfile = "{file.name}"\ndescription = "a{odd}b"\n'
        f'[wants.services]\n"kv" = "{odd}z"\n'
    )
    for lines in (card("./", tmp_path), card(f"./{file.name}", tmp_path)):
        assert odd[-4:] * 2 not in "".join(text.lstrip() for text in lines)


def test_more_than_is_asked_for_is_said() -> None:
    gets = line("gets", card("datetime,profile=full,grant=random"))
    assert gets == "all that it asks for; also profile full; also to get random bytes"


def test_services_that_reach_out_of_the_sandbox_are_not_hidden() -> None:
    lines = card("datetime,grant=fetch:a.example")
    assert line("sandbox", lines) == "yes: WebAssembly, nothing outside it but what it gets"
    assert "also `fetch:a.example`" in line("gets", lines)
    wide = line("gets", card("datetime,grant=fetch:a.example", columns=200))
    assert "also to SEND what it sees over the network to `a.example`" in wide


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
    assert conductor("lock", "./mine.wasm,grant=clock", "demo", cwd=tmp_path).code == 0
    assert "; as conductor.lock has it" in line("digest", card("./mine.wasm", tmp_path))
    assert "as conductor.lock has it" in line("digest", card("demo", tmp_path))
    assert "not in conductor.lock" in line("digest", card("datetime", tmp_path))
    more = line("digest", card("./mine.wasm,grant=clock+random", tmp_path, columns=120))
    assert "CHANGED since locked: services: + random" in more
    module.write_bytes(module.read_bytes() + b"\0\x02\x01x")  # a custom section
    changed = line("digest", card("./mine.wasm", tmp_path, columns=160))
    assert "CHANGED since locked: digest: sha256:" in changed
    found = json.loads(conductor("inspect", "--json", "./mine.wasm", cwd=tmp_path).out)
    assert found["lock"]["state"] == "changed"
    (tmp_path / "conductor.lock").write_text("no lock")
    assert "conductor.lock is unreadable" in line("digest", card("./mine.wasm", tmp_path))


def test_what_add_and_update_know_besides() -> None:
    facts = inspect_.facts_of(catalog.resolve("datetime"), "date")
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


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_what_is_seen_and_changed_follows_the_tables(profile: str) -> None:
    policy = Policy(profile)
    seen, unseen = policy_text.sees(policy)
    changes = policy_text.changes(policy)
    assert not set(seen) & set(unseen)
    assert ("your prompts" in unseen) == (profile in ("none", "tools"))
    assert ("every message" in seen) == (profile in ("observer", "full"))
    assert (changes == []) == (profile in ("none", "observer"))
    assert ("your prompts" in changes) == (profile in ("context", "filter"))
    assert ("answers (may drop them)" in changes) == (profile == "filter")
