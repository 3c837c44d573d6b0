"""The history of the figures, and the picture that is drawn from it."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks import history, picture
from benchmarks.chains import Chain, Kind, Runner
from benchmarks.measure import FULL, Cell
from benchmarks.results import Results
from tests.places import ROOT

OURS, THEIRS = Chain(Runner.CONDUCTOR, Kind.NONE), Chain(Runner.REFERENCE, Kind.NONE)
SVG = "{http://www.w3.org/2000/svg}"


def a_run() -> dict[str, object]:
    results = Results()
    results.add(OURS, Cell({"trip_us": [60.0], "ready_ms": [20.0], "stream_per_s": [4000.123]}))
    results.add(THEIRS, Cell({"trip_us": [100.0], "ready_ms": [2.0], "stream_per_s": [100.0]}))
    return history.entry(results, FULL, {"processor": "A & B", "cpus": 2, "python": "3"})


def test_an_entry_has_what_was_measured_and_nothing_else() -> None:
    run = a_run()
    assert list(run) == ["date", "revision", "machine", "rounds", "medians", "ratios"]
    assert run["medians"] == {
        "round trip, no proxy, beside a relay": 60.0,
        "round trip, no proxy": 60.0,
        "ready, no proxy": 20.0,
        "ready, no proxy, in starts of a bare Python": 20.0,
        "streamed, no proxy": 4000.0,
        "streamed with the ring, no proxy": 4000.0,
    }
    assert run["ratios"] == {
        "round trip, no proxy": 0.6,
        "ready, no proxy": 10.0,
        "streamed, no proxy": 40.0,
    }


def test_the_machine_is_described_without_its_name() -> None:
    about = history.machine()
    assert set(about) == {"system", "arch", "processor", "cpus", "python", "load"}
    assert str(ROOT) not in json.dumps(about)


def test_a_run_is_appended_and_the_last_one_is_found(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    first = a_run()
    history.append(file, first)
    history.append(file, first | {"revision": "later"})
    assert len(file.read_text("utf-8").splitlines()) == 2
    assert history.last(file) == first | {"revision": "later"}


def test_what_json_wrote_is_a_run_too(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    file.write_text(json.dumps(a_run(), indent=1) + "\n", "utf-8")
    assert history.last(file)["ratios"] == a_run()["ratios"]


@pytest.mark.parametrize("text", ["", "nothing", "[]", "{}", None])
def test_a_file_without_a_run_is_an_error(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "history.jsonl"
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(history.HistoryError, match=r"history\.jsonl"):
        history.last(file)


def test_a_bar_is_as_long_as_the_ratio_and_a_stream_is_drawn_by_its_time() -> None:
    compared, absolute = picture.bars(a_run())
    assert [(bar.label, bar.filled, bar.mark) for bar in compared] == [
        ("round trip, no proxy", 0.6, 0.5),
        ("streamed, no proxy", 1 / 40, 1 / 12),
    ]
    assert [bar.words for bar in compared] == ["0.60 (≤ 0.5, missed)", "40 x (≥ 12)"]
    (ready,) = absolute
    assert (ready.filled, ready.mark, ready.words) == (0.25, 0.5, "20.0 ms (≤ 40 ms)")


def test_no_bar_leaves_its_track() -> None:
    slow = a_run() | {"ratios": {"round trip, no proxy": 7.0}, "medians": {"ready, no proxy": 9e9}}
    assert [bar.filled for group in picture.bars(slow) for bar in group] == [1.0, 1.0]


def test_the_picture_is_well_formed_says_all_in_words_and_knows_dark_pages() -> None:
    drawn = ET.fromstring(picture.draw(a_run()))  # noqa: S314 - our own
    words = [each.text for each in drawn.iter(f"{SVG}text")]
    assert {"round trip, no proxy", "0.60 (≤ 0.5, missed)", "ready, no proxy"} <= set(words)
    assert any("A & B, 2 cores, Python 3" in (text or "") for text in words)
    told = drawn.find(f"{SVG}desc")
    assert told is not None
    assert "streamed, no proxy: 40 x (≥ 12)" in (told.text or "")
    style = drawn.find(f"{SVG}style")
    assert style is not None
    assert "prefers-color-scheme: dark" in (style.text or "")
    height = float(drawn.attrib["height"])
    assert all(float(each.attrib["y"]) < height for each in drawn.iter(f"{SVG}text"))


def test_nothing_to_draw_is_an_error() -> None:
    with pytest.raises(history.HistoryError, match="none of the goals"):
        picture.draw(a_run() | {"medians": {}, "ratios": {}})
