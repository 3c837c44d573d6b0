"""`files/write` through the command line: what it writes, and everything that shows its grant."""

import json
from pathlib import Path

import pytest

from conductor.spec.catalog import resolve
from conductor.spec.consent.agreements import Agreements
from tests.e2e.test_services import ISOLATIONS, asking_guest, call, told
from tests.harness.process.command import conductor
from tests.harness.process.rig import Rig

PROXY = """from guest_sdk.python import Proxy

proxy = Proxy("notes", rights={"context": "to read prompts", "write:notes": "to keep notes"})
"""


@ISOLATIONS
def test_a_guest_writes_where_it_was_granted(rig: Rig, isolation: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "link").symlink_to(tmp_path)
    guest = asking_guest(
        rig,
        call(1, "files/write", path="notes/a.md", text="one"),
        call(2, "files/write", path="other/a.md", text="no"),
        call(3, "files/write", path="notes/../a.md", text="no"),
        call(4, "files/write", path="link/a.md", text="no"),
        call(5, "files/read", path="notes/a.md"),
    )
    grants = f"{guest},allow=extension:_told+write:notes+write:link"
    chain = rig.agent(grants, rig.demo(), options=("-c", f"isolation={isolation}"))
    chain.initialize()
    answers = told(chain, chain.new_session(cwd=str(project)), 5)
    assert answers[1]["result"]["path"] == str(project / "notes/a.md")
    reasons = [answers[number]["error"]["data"].get("reason") for number in (2, 3, 4)]
    assert reasons == ["not-granted", "params", "not-a-folder"]
    refused = answers[5]["error"]  # what it may write it may not read
    assert (refused["code"], refused["data"]) == (-32601, {"service": "read"})
    assert (project / "notes/a.md").read_text() == "one"
    assert sorted(one.name for one in project.iterdir()) == ["link", "notes"]
    assert not (tmp_path / "a.md").exists()
    assert chain.finish() == 0


def test_nothing_is_written_without_the_grant(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    guest = asking_guest(rig, call(1, "files/write", path="notes/a.md", text="one"))
    chain = rig.agent(f"{guest},allow=extension:_told+read:**", rig.demo())
    chain.initialize()
    error = told(chain, chain.new_session(cwd=str(tmp_path / "project")), 1)[1]["error"]
    assert (error["code"], error["data"]) == (-32601, {"service": "write"})
    assert "hint: `,allow=write:FOLDER` lets it" in error["message"]
    assert list((tmp_path / "project").iterdir()) == []
    assert chain.finish() == 0


def test_a_grant_of_no_folder_is_an_error() -> None:
    ran = conductor("inspect", "passthrough,allow=write")
    ran.assert_error(2, "`write` alone is no right: write:FOLDER")
    ran = conductor("inspect", "passthrough,allow=write:../x")
    ran.assert_error(2, "`../x` is no folder below the session's, such as `notes`")


def test_card_question_lock_and_audit_show_the_grant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.py").write_text(PROXY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def ran(*words: str, code: int = 0) -> str:
        done = conductor(*words, cwd=tmp_path)
        assert done.code == code, done
        return done.out + done.err

    words = " ".join(ran("inspect", "--all", "./notes.py,allow=write:notes").split())
    assert "write:notes, to keep notes" in words
    card = " ".join(ran("inspect", "./notes.py").split())
    assert "gets NOT `write:notes`" in card
    asked = Agreements(again=False, permit=lambda _: None)
    asked.settled([resolve("./notes.py")])
    (question,) = asked.questions
    assert "make and REPLACE files in this folder of your sessions: `notes`" in " ".join(
        question.lines()
    )
    ran("lock", "./notes.py,allow=write:notes", "demo")
    assert "write:notes" in (tmp_path / "conductor.lock").read_text()
    wider = ("./notes.py,allow=write:notes+write:docs", "demo", "-p", "x")
    assert "write:docs" in ran("exec", "--locked", *wider, code=2)
    ran("exec", "--audit", "audit.jsons", *wider)
    records = map(json.loads, (tmp_path / "audit.jsons").read_text().splitlines())
    held = [one["policy"]["rights"] for one in records if one.get("component") == "notes"
            and "policy" in one]  # fmt: skip
    assert held == [["context", "write:notes", "write:docs"]]
