"""`--audit FILE`: the events on record, and that the record cannot be changed unnoticed."""

import errno
import fcntl
import hashlib
import json
import os
import stat
import threading
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core import Violated
from conductor.core.policy import words
from conductor.errors import UsageError
from conductor.record.audit import file as audit_file
from conductor.record.audit.auditor import MOST_EACH, Auditor
from conductor.record.audit.file import GENESIS, AuditFile, BrokenChainError, Head, sealed, verified
from conductor.run.log import Ended, Happened, Item, Loaded
from conductor.spec import catalog
from conductor.spec.options import Options
from conductor.spec.plan import Plan
from tests.places import DEADLINE

VIOLATED: Final = Violated("p", "files", "up", "fs/write_text_file", "", "proxy `p` may not", False)


class Said(list[str]):
    """The lines that were logged."""

    def __call__(self, level: str, name: str, text: str) -> None:
        self.append(f"{level} {name}: {text}")


def records(path: Path) -> list[dict[str, Any]]:
    """The records of a file, whose chain is checked."""
    with path.open("rb") as file:
        list(verified(file))
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def filled(path: Path, count: int = 4) -> bytes:
    """An audit of so many records; its bytes."""
    file = AuditFile.open(str(path), Said())
    for number in range(count):
        file.append("note", {"number": number})
    file.close()
    return path.read_bytes()


def problem(data: bytes) -> BrokenChainError:
    """The fault of a chain."""
    with pytest.raises(BrokenChainError) as caught:
        list(verified(BytesIO(data)))
    return caught.value


# -- the chain ---------------------------------------------------------------------------------


def test_each_line_holds_the_digest_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lines = filled(path).splitlines()
    found = records(path)
    assert [one["seq"] for one in found] == [1, 2, 3, 4]
    assert [one["number"] for one in found] == [0, 1, 2, 3]
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [one["prev"] for one in found] == [GENESIS, *digests[:-1]]
    assert len({one["hash"] for one in found}) == 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_continued_and_made_private(tmp_path: Path) -> None:
    path = tmp_path / "a"
    before = filled(path)
    path.chmod(0o644)
    assert filled(path, 2).startswith(before)
    assert [one["seq"] for one in records(path)] == [1, 2, 3, 4, 5, 6]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.proves("`log verify` finds any changed")
def test_every_change_of_any_byte_is_found(tmp_path: Path) -> None:
    data = filled(tmp_path / "a", 3)
    ends = [at for at, byte in enumerate(data) if byte == 10]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        line = problem(bytes(changed)).line
        assert line == sum(end < at for end in ends) + 1, at


@pytest.mark.proves("it finds removed, moved and repeated")
def test_lines_removed_moved_or_repeated_are_found(tmp_path: Path) -> None:
    first, second, third, fourth = filled(tmp_path / "a").splitlines(keepends=True)
    for lines, line in (
        ([second, third, fourth], 1),
        ([first, third, fourth], 2),
        ([first, second, fourth], 3),
        ([first, third, second, fourth], 2),
        ([first, first, second], 2),
        ([first, second, third, fourth, fourth], 5),
        ([first, b"\n", second], 2),
        ([b"{}\n"], 1),
        ([b"\xff\n"], 1),
    ):
        assert problem(b"".join(lines)).line == line


def test_a_record_that_is_sealed_anew_breaks_the_next(tmp_path: Path) -> None:
    lines = filled(tmp_path / "a").splitlines(keepends=True)
    one = json.loads(lines[1])
    members = {"number": 99}
    forged, _ = sealed(Head(1, one["prev"], len(lines[0])), one["ts"], "note", members)
    found = problem(lines[0] + forged + b"".join(lines[2:]))
    assert (found.line, "does not follow" in found.why) == (3, True)


def test_what_is_cut_off_at_the_end_shows_by_the_head_only(tmp_path: Path) -> None:
    data = filled(tmp_path / "a")
    *_, (_, head) = verified(BytesIO(data))
    shorter = b"".join(data.splitlines(keepends=True)[:-1])
    assert all(found.digest != head.digest for _, found in verified(BytesIO(shorter)))
    assert problem(data[:-1]).why == "is incomplete"
    assert problem(data[:-30]).line == 4


def test_numbers_count_on(tmp_path: Path) -> None:
    line, _ = sealed(Head(7, GENESIS, 0), "now", "note", {})
    assert problem(line).why == "has the number 8"


def test_a_line_without_end_is_not_read_whole() -> None:
    assert "too long" in problem(b'{"seq":1' + b" " * (1 << 21)).why


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text(max_size=20)))
def test_any_text_is_recorded_as_it_is(members: dict[str, str]) -> None:
    own = {f"x{name}": value for name, value in members.items()}
    own = {k: v.encode(errors="replace").decode() for k, v in own.items()}
    line, head = sealed(Head(), "now", "note", own)
    ((record, found),) = verified(BytesIO(line))
    assert (found, record.event) == (head, "note")
    assert {k: v for k, v in json.loads(line).items() if k.startswith("x")} == own


# -- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["altered", "cut", "emptied line", "junk behind"])
def test_a_broken_file_is_not_continued(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a"
    data = filled(path)
    path.write_bytes(
        {
            "altered": data.replace(b'"number":2', b'"number":7'),
            "cut": data[:-10],
            "emptied line": data.replace(b"\n", b"\n\n", 1),
            "junk behind": data + b"junk\n",
        }[damage]
    )
    before = path.read_bytes()
    with pytest.raises(UsageError, match="cannot continue the audit") as caught:
        AuditFile.open(str(path), Said())
    assert "line " in caught.value.text
    assert "conductor log verify" in caught.value.hint
    assert path.read_bytes() == before


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "folder", Path("/dev/null"), Path("a\0b")):
        with pytest.raises(UsageError, match="cannot write the audit") as caught:
            AuditFile.open(str(path), Said())
        assert caught.value.hint
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UsageError, match="no ordinary file"):
        AuditFile.open(str(tmp_path / "fifo"), Said())


def test_two_conductors_share_one_chain(tmp_path: Path) -> None:
    path, said = tmp_path / "a", Said()
    one, two = AuditFile.open(str(path), said), AuditFile.open(str(path), said)
    one.append("note", {"by": 1})
    two.append("note", {"by": 2})
    two.append("note", {"by": 2})
    one.append("note", {"by": 1})
    one.close()
    two.close()
    assert [record["by"] for record in records(path)] == [1, 2, 2, 1]
    assert said == []


def test_many_writers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "_LOCK_SECONDS", DEADLINE)  # however busy this machine is
    path, said = tmp_path / "a", Said()

    def write(number: int) -> None:
        file = AuditFile.open(str(path), said)
        for _ in range(25):
            file.append("note", {"by": number})
        file.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == []
    found = [record["by"] for record in records(path)]
    assert sorted(found) == [0] * 25 + [1] * 25 + [2] * 25 + [3] * 25


def test_a_change_while_it_is_written_is_reported_once(tmp_path: Path) -> None:
    path, said = tmp_path / "a", Said()
    file = AuditFile.open(str(path), said)
    file.append("note", {})
    path.write_bytes(b"")
    file.append("note", {})
    file.append("note", {})
    file.close()
    assert len(said) == 1
    assert "error audit: " in said[0]
    assert "somebody else changed it" in said[0]
    assert path.read_bytes() == b""


def test_junk_appended_by_another_is_not_built_on(tmp_path: Path) -> None:
    path, said = tmp_path / "a", Said()
    file = AuditFile.open(str(path), said)
    with path.open("ab") as other:
        other.write(b"junk\n")
    file.append("note", {})
    assert path.read_bytes() == b"junk\n"
    assert "no record of an audit" in said[0]


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, said = tmp_path / "a", Said()
    file = AuditFile.open(str(path), said)
    file.append("note", {})
    whole, write = path.read_bytes(), os.write

    def some(fd: int, data: bytes) -> int:
        if len(data) < 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:10])

    monkeypatch.setattr(os, "write", some)
    file.append("note", {})
    file.append("note", {})
    monkeypatch.undo()
    assert path.read_bytes() == whole
    assert len(said) == 1
    assert "No space left on device" in said[0]
    assert "hint: " in said[0]


def test_a_lock_that_is_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, said = tmp_path / "a", Said()
    file = AuditFile.open(str(path), said)
    monkeypatch.setattr(audit_file, "_LOCK_SECONDS", 0.0)
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        file.append("note", {})
    assert path.read_bytes() == b""
    assert "keeps it locked" in said[0]


# -- the records -------------------------------------------------------------------------------


def tell(auditor: Auditor, item: Item) -> None:
    """An entry of the log."""
    auditor.take(item, 0.0, "agent")


def begun(path: Path, *components: str, agent_last: bool = False) -> Auditor:
    """An auditor of a chain of these components."""
    auditor = Auditor(AuditFile.open(str(path), Said()))
    specs = catalog.resolve_all(components)
    mode = "agent" if agent_last else "proxy"
    auditor.begin("1.2.3", Plan(components=tuple(specs), options=Options(), mode=mode))
    return auditor


@pytest.mark.proves("the record has no secrets of command")
def test_components_are_recorded_with_digest_and_policy(tmp_path: Path) -> None:
    path = tmp_path / "a"
    spec = "datetime,only=context+change:tool-calls,on_violation=fail"
    auditor = begun(path, spec, "python p.py --api-key hunter2", "demo", agent_last=True)
    tell(auditor, Ended(None))
    chain, module, command, agent, end = records(path)
    assert (chain["event"], chain["version"]) == ("chain", "1.2.3")
    assert {one["run"] for one in records(path)} == {chain["run"]}
    digest = hashlib.sha256(Path(module["file"]).read_bytes()).hexdigest()
    assert (module["kind"], module["sha256"], module["sandboxed"]) == ("module", digest, True)
    assert module["policy"] == {
        "rights": ["context", "change:tool-calls"],
        "on_violation": "fail",
        "fails": "open",
        "ids": "",
        "hold": None,
        "watched": False,
        "judged": None,
    }
    assert module["meaning"] == words.meaning("context", "change:tool-calls")
    assert (command["kind"], command["policy"]["rights"]) == ("command", ["trusted"])
    assert command["args"] == ["p.py", "--api-key", "[redacted]"]
    assert "hunter2" not in path.read_text()
    assert (agent["role"], "policy" in agent) == ("agent", False)
    assert (end["event"], end["failure"], end["violations"]) == ("end", None, 0)


def test_a_module_that_is_gone_is_recorded_as_such(tmp_path: Path) -> None:
    module = tmp_path / "m.wasm"
    module.write_bytes(catalog.WASM_MAGIC + b"\1\0\0\0")
    spec = catalog.resolve(str(module))
    module.unlink()
    auditor = Auditor(AuditFile.open(str(tmp_path / "a"), Said()))
    auditor.begin("1", Plan(components=(spec,), options=Options(), mode="proxy"))
    assert records(tmp_path / "a")[1]["sha256"] is None


def test_violations_and_failures_are_recorded_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    auditor = begun(path, "py:a:b")
    tell(auditor, VIOLATED)
    violation = records(path)[-1]
    assert {k: violation[k] for k in ("event", "component", "rule", "direction", "method")} == {
        "event": "violation",
        "component": "p",
        "rule": "files",
        "direction": "up",
        "method": "fs/write_text_file",
    }
    tell(auditor, Happened("restart", "p", "x" * 5000 + "\ud800"))
    assert records(path)[-1]["text"] == "x" * 1999 + "…"
    tell(auditor, Happened("failure", "p", "half an emoji \ud83d"))
    assert records(path)[-1]["text"] == "half an emoji \\ud83d"
    tell(auditor, Loaded("p", "0" * 64))
    assert records(path)[-1]["sha256"] == "0" * 64
    tell(auditor, Ended("why"))
    tell(auditor, Ended("again"))
    assert records(path)[-1]["failure"] == "why"


@pytest.mark.proves("a component that breaks rules")
def test_a_flood_of_violations_does_not_fill_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "a"
    auditor = begun(path, "py:a:b")
    total = 3 * MOST_EACH + 5
    for _ in range(total):
        tell(auditor, VIOLATED)
    tell(auditor, Ended(None))
    found = records(path)
    single = sum(one["event"] == "violation" for one in found)
    gathered = [one["count"] for one in found if one["event"] == "violations"]
    assert (single, gathered) == (MOST_EACH, [MOST_EACH, MOST_EACH, 5])
    assert found[-1]["violations"] == total
