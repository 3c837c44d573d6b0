"""The Zig library: its examples are built, and pass the transcripts of all languages."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

import wasm_host
from tests.guest_sdk.languages import builds, support

SDK = support.SDK / "zig"
SOURCES = {name: SDK / "examples" / f"{name}.zig" for name in support.EXAMPLES}
SOURCES["probe"] = Path(__file__).parent / "probe.zig"
SOURCES["readme"] = Path("readme.zig")

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
    ),
    pytest.mark.timeout(300),
]


def _make(folder: Path) -> None:
    """Builds everything by the command of the README."""
    (folder / "readme.zig").write_text(support.readme(SDK, "zig"), "utf-8")
    for name, source in SOURCES.items():
        command = support.readme(SDK, "sh").replace("\\\n", " ").replace("guest_sdk/zig", str(SDK))
        command = command.replace("french.zig", str(source)).replace("french.wasm", f"{name}.wasm")
        words = shlex.split(command)
        assert words[0] == "python"
        builds.run([sys.executable, *words[1:]], folder, ZIG_LOCAL_CACHE_DIR=str(folder / "cache"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.once(tmp_path_factory, "zig", _make)


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(folder: Path, name: str, path: Path) -> None:
    support.play_guest(support.load(folder / f"{name}.wasm"), path)


def test_what_a_library_can_do(folder: Path) -> None:
    support.play_guest(support.load(folder / "probe.wasm"), support.PROBE)


def test_small_and_without_imports(folder: Path) -> None:
    for name in SOURCES:
        module = folder / f"{name}.wasm"
        assert list(wasm_host.describe(module).imports) == []
        assert module.stat().st_size < 32 * 1024


def test_example_of_the_readme(folder: Path) -> None:
    guest = support.load(folder / "readme.wasm").instantiate("readme")
    support.check_french(guest.deliver)
    support.check_odd(guest.deliver)


def test_half_an_emoji_is_text(folder: Path) -> None:
    support.check_half(support.load(folder / "shout.wasm").instantiate("shout").deliver)


def test_memory_does_not_grow_by_the_number_of_messages(folder: Path) -> None:
    """Held lines, edited ones and answers are given back: 64 MiB would not do for them all."""
    guest = support.load(folder / "datetime.wasm").instantiate("datetime")
    support.check_memory(guest.deliver)


def test_a_panic_says_why(folder: Path) -> None:
    support.check_fault(
        support.load(folder / "probe.wasm").instantiate("probe"), b"p" + support.FAULT
    )
