"""The file with what components added: private, bounded, whole, of several conductors at once."""

import asyncio
import stat
from pathlib import Path

import pytest
from msgspec import Raw

from conductor.core import additions, json_text
from conductor.core.additions import Kept, Prompt, Unread
from conductor.run import kept_prompts
from conductor.run.kept_prompts import KeptPrompts
from conductor.spec import paths, private_files


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is, or would be."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return Path(paths.prompts())


@pytest.fixture
def log() -> list[str]:
    """The lines that were logged."""
    return []


class Recorded(Prompt):
    """A prompt with this record."""

    def __init__(self, record: bytes) -> None:
        super().__init__(None)
        self._record = record

    @property
    def record(self) -> bytes:
        """As it was given."""
        return self._record


def use(log: list[str]) -> KeptPrompts:
    """The file, as another chain uses it."""
    return KeptPrompts(lambda level, name, text: log.append(f"{level}: {text}"))


def keep(kept: KeptPrompts, *prompts: tuple[str, str, bytes]) -> None:
    """Prompts are kept by now."""

    async def kept_now() -> None:
        for prompt in prompts:
            agent, session, record = prompt
            kept.keep(agent, session, Recorded(record))
        await kept.close()

    asyncio.run(kept_now())


@pytest.mark.proves("the file is private, bounded")
def test_records_come_back_by_agent_and_session(place: Path, log: list[str]) -> None:
    first, second = use(log), use(log)
    assert first.recall("a", "s") == []
    keep(first, ("a", "s", b"1"), ("a", 's"', b'{"x": "s"}'), ("b", "s", b"3"))
    keep(second, ("a", "s", b"4"), ("a", "s\ud83d", b"5"), ("a", "s", b"6" * (1 << 16)))
    assert first.recall("a", "s") == [("s", b"1"), ("s", b"4")]
    assert second.recall("a", "s\ud83d") == [("s\ud83d", b"5")]
    keep(
        second, ("a", "s", b'{"first":true}'), ("b", "s", b'{"own":"x"}'), ("a", "t", b'{"own":""}')
    )
    titles = [("s", b'{"first":true}'), ("t", b'{"own":""}')]
    assert use(log).recall("a", None) == titles, "no others make titles"
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    place.unlink()
    assert use(log).recall("a", None) == titles, "a list of sessions reads those alone"
    assert log == []


def test_what_is_kept_is_written_a_little_later(place: Path, log: list[str]) -> None:
    async def later() -> None:
        use(log).keep("a", "s", Recorded(b"1"))
        while not use(log).recall("a", "s"):
            await asyncio.sleep(0.01)

    asyncio.run(later())
    assert log == []


def test_the_memory_of_a_large_one_is_given_back(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[bool] = []
    monkeypatch.setattr(kept_prompts, "give_back", lambda: given.append(True))
    for size in (10, 1_000_000, 10):
        monkeypatch.setattr(Recorded, "unread", size)
        keep(use(log), ("a", "s", b"1"))
    assert len(given) == 1
    assert log == []


def test_messages_go_on_while_another_conductor_holds_the_file(place: Path, log: list[str]) -> None:
    async def kept() -> None:
        chain, all_three = use(log), [("s", b"1"), ("s", b"2"), ("s", b"3")]
        chain.keep("a", "s", Recorded(b"1"))
        await chain.close()
        with private_files.alone(f"{place}.lock"):
            chain.keep("a", "s", Recorded(b"2"))
            closing = asyncio.create_task(chain.close())
            await asyncio.sleep(0)
            chain.keep("a", "s", Recorded(b"3"))
            assert chain.recall("a", "s") == all_three
        await closing
        assert chain.recall("a", "s") == use(log).recall("a", "s") == all_three

    asyncio.run(kept())
    assert log == []


def test_what_comes_while_a_batch_is_written_is_in_the_next(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_prompts, "_LATER", 0.001)

    async def kept() -> None:
        chain = use(log)
        chain.keep("a", "s", Recorded(b"1"))
        await chain.close()
        with private_files.alone(f"{place}.lock"):
            for prompt in (b"2", b"3"):  # the first of them is being written, for so long
                chain.keep("a", "s", Recorded(prompt))
                await asyncio.sleep(0.02)
        while len(use(log).recall("a", "s")) < 3:
            await asyncio.sleep(0.001)

    asyncio.run(kept())
    assert log == []


def test_what_cannot_be_written_as_another_conductor_holds_the_file_comes_with_the_next(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_prompts, "_LATER", 0.001)
    monkeypatch.setattr(private_files, "WAIT_IN_CHAIN", 0.001)

    async def kept() -> None:
        chain = use(log)
        private_files.make_folder(str(place))
        with private_files.alone(f"{place}.lock"):
            for prompt in (b"1", b"2"):
                chain.keep("a", "s", Recorded(prompt))
                await asyncio.sleep(0.02)
            assert use(log).recall("a", "s") == []
        assert len(chain.recall("a", "s")) == 2
        chain.keep("a", "s", Recorded(b"3"))
        await chain.close()
        assert chain.recall("a", "s") == [("s", b"1"), ("s", b"2"), ("s", b"3")]
        with private_files.alone(f"{place}.lock"):
            chain.keep("a", "s", Recorded(b"4"))
            await chain.close()  # nobody comes back to it

    asyncio.run(kept())
    assert [line for line in log if "another conductor holds it" in line]


@pytest.mark.parametrize("shortened", [False, True])
def test_long_prompts_are_read_before_they_are_written(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch, shortened: bool
) -> None:
    monkeypatch.setattr(kept_prompts, "_MOST_UNREAD", 1000)

    async def kept() -> None:
        chain = use(log)
        users = Raw(b'{"prompt":[{"type":"text","text":"hi"}],"_":"%b"}' % (b"x" * 400))
        sent = Raw(b'{"prompt":[{"type":"text","text":"hi"}]}') if shortened else users
        prompts = [Prompt(Unread(users, sent, sent, first=False, worded=False)) for _ in range(4)]
        for prompt in prompts:
            chain.keep("a", "s", prompt)
        assert [one.unread > 0 for one in prompts] == [False, False, False, True]
        await chain.close()
        assert len(chain.recall("a", "s")) == 4

    asyncio.run(kept())


@pytest.mark.proves("the file is private, bounded")
def test_a_line_that_was_cut_off_costs_no_other(place: Path, log: list[str]) -> None:
    keep(use(log), ("a", "s", b"1"))
    with place.open("ab") as file:
        file.write(b'{"agent":"a","session":"s","pro')
    assert use(log).recall("a", "s") == [("s", b"1")]
    keep(use(log), ("a", "s", b"2"))
    assert use(log).recall("a", "s") == [("s", b"1"), ("s", b"2")]


@pytest.mark.proves("the file is private, bounded")
def test_the_oldest_go(place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_prompts, "MOST_BYTES", 1000)
    chains = [use(log), use(log)]
    for number in range(200):
        keep(chains[number % 2], ("a", "s", b"%d" % number))
        assert place.stat().st_size <= 1000
    found = [int(one[1]) for one in chains[0].recall("a", "s")]
    assert found == list(range(found[0], 200))
    assert len(found) > 5
    assert sorted(one.name for one in place.parent.iterdir()) == [place.name, f"{place.name}.lock"]


@pytest.mark.proves("the file is private, bounded")
def test_many_prompts_of_one_session_cost_no_other_its_title(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_prompts, "MOST_TITLES", 5000)

    def prompt(number: int) -> Kept:
        text = f"+prompt{number}"
        return Kept(len(text), "", ((0, 1),), first=not number, whole=text, own=text[1:])

    chain = use(log)
    keep(chain, ("a", "old", json_text.encode(prompt(0))))
    for number in range(100):
        keep(chain, ("a", "new", json_text.encode(prompt(number))))
        assert Path(paths.titles()).stat().st_size <= 5000
    titles = additions.titles(chain.recall("a", None))
    known = {session: each.held() for session, each in titles.items()}
    assert known == {"old": (prompt(0),), "new": (prompt(0), prompt(0), prompt(99))}


@pytest.mark.proves("the file is private, bounded")
def test_the_titles_of_the_oldest_sessions_go(
    place: Path, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_prompts, "MOST_TITLES", 5000)
    record = json_text.encode(Kept(2, "", ((0, 1),), first=True, whole="+a", own="a"))
    keep(use(log), *[("a", f"s{number}", record) for number in range(30)])
    keep(use(log), *[("a", f"s{number}", record) for number in (0, *range(30, 60))])
    found = list(additions.titles(use(log).recall("a", None)))
    assert found[-31:] == ["s0", *[f"s{number}" for number in range(30, 60)]]
    assert "s1" not in found


@pytest.mark.proves("the file is private, bounded")
def test_a_file_that_others_may_write_is_not_believed(place: Path, log: list[str]) -> None:
    keep(use(log), ("a", "s", b"1"))
    place.chmod(0o666)
    kept = use(log)
    for _ in range(2):
        assert kept.recall("a", "s") == []
        keep(kept, ("a", "s", b"2"))
    (line,) = log
    assert str(place) in line
    assert "other users could write it" in line
    assert place.read_bytes().count(b"\n") == 1


def test_a_file_that_cannot_be_written_is_said_once_it_is_missed(
    place: Path, log: list[str]
) -> None:
    place.mkdir(parents=True)
    kept = use(log)
    keep(kept, ("a", "s", b"1"))
    keep(kept, ("a", "s", b"2"))
    assert [one.partition(" ")[0] for one in log] == ["info:"], "nobody misses it yet"
    for _ in range(2):
        assert kept.recall("a", "s") == []
    assert [one.partition(" ")[0] for one in log] == ["info:", "warning:"]
    assert "hint: so sessions" in log[1]
