"""A chain with a name, from a file, as an editor starts it; the file changes while it runs."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.configurations import Place, place
from tests.harness.process.rig import Chain, Rig

CHANGED = "the chain is now: "
KEPT = "the chain stays as it was"


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def named(components: Sequence[str]) -> str:
    """A file with the chain `work`."""
    return f"[chains.work]\ncomponents = {json.dumps(components)}\n"


def project(here: Place) -> tuple[str, ...]:
    """The options that name the project."""
    return "--project", str(here.project)


def heard(chain: Chain, session: str) -> str:
    """The agent's answer to a prompt."""
    turn = chain.start_prompt(session, "hi")
    assert "result" in chain.answer(turn), chain.story()
    return " ".join(chain.texts(session))


def test_an_editor_starts_a_chain_by_its_name(rig: Rig, here: Place) -> None:
    here.user(named([rig.x("X", "--mark", "x"), "demo"]))
    here.trusted('[options]\nlog = "info"\naudit = "audit.jsonl"')
    chain = rig.agent("work", options=project(here))
    chain.initialize()
    chain.prompt(chain.new_session(), "hi")
    assert chain.finish() == 0
    assert '"event":"end"' in (here.project / "audit.jsonl").read_text()
    assert rig.leftovers(chain) == []


def test_with_watch_it_changes_once_the_file_is_trusted_again(rig: Rig, here: Place) -> None:
    here.trusted(named(["demo"]))
    chain = rig.agent("work", options=(*project(here), "--log", "info", "--reload"))
    chain.initialize()
    session = chain.new_session()
    text = named(['prompt-prefix,config.text="prefixed"', "demo"])
    here.project_file.write_text(text)
    chain.until(lambda: KEPT in chain.stderr, "the refusal")
    assert CHANGED not in chain.stderr
    here.trusted(text)
    chain.until(lambda: CHANGED in chain.stderr, "the chain to change")
    assert "prefixed" in heard(chain, session)
    assert chain.finish() == 0


def test_whoever_writes_the_projects_file_cannot_rid_a_running_chain_of_it(
    rig: Rig, here: Place
) -> None:
    here.trusted('[components.datetime]\ncomponent = "passthrough"\n' + named(["datetime", "demo"]))
    chain = rig.agent("work", options=(*project(here), "--log", "info"))
    chain.initialize()
    session = chain.new_session()
    with here.project_file.open("a") as file:
        file.write("# an agent was here\n")
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until(lambda: KEPT in chain.stderr, "the refusal")
    assert CHANGED not in chain.stderr
    here.project_file.unlink()
    os.kill(chain.process.pid, signal.SIGHUP)
    chain.until(lambda: chain.stderr.count(KEPT) == 2, "the refusal")
    chain.prompt(session, "hi")
    assert CHANGED not in chain.stderr
    assert chain.finish() == 0
