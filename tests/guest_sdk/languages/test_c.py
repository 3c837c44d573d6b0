"""The C library: its examples are built, and pass the transcripts of all languages."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

import wasm_host
from tests.guest_sdk.languages import builds, support
from tests.places import ROOT

SDK = support.SDK / "c"
SOURCES = {name: SDK / "examples" / f"{name}.c" for name in support.EXAMPLES}
SOURCES["probe"] = Path(__file__).parent / "probe.c"
SOURCES["readme"] = Path("readme.c")
BUNDLED = ROOT / "components" / "datetime" / "datetime.wasm"

pytestmark = pytest.mark.timeout(300)
built = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
)


def _make(folder: Path) -> None:
    """Builds everything by the command of the README."""
    (folder / "readme.c").write_text(support.readme(SDK, "c"), "utf-8")
    for name, source in SOURCES.items():
        command = support.readme(SDK, "sh").replace("\\\n", " ").replace("guest_sdk/c", str(SDK))
        command = command.replace("french.c", str(source)).replace("french.wasm", f"{name}.wasm")
        words = shlex.split(command)
        assert words[0] == "python"
        options = ["-Wextra", "-Wno-missing-field-initializers", "-Werror"]
        cache = str(folder / "cache")
        builds.run([sys.executable, *words[1:], *options], folder, ZIG_LOCAL_CACHE_DIR=cache)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.once(tmp_path_factory, "c", _make)


@built
@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(folder: Path, name: str, path: Path) -> None:
    support.play_guest(support.load(folder / f"{name}.wasm"), path)


@pytest.mark.parametrize(
    "path", [path for name, path in support.TRANSCRIPTS if name == "datetime"], ids=support.title
)
def test_transcript_of_the_bundled_one(path: Path) -> None:
    support.play_guest(support.load(BUNDLED), path)


@built
def test_what_a_library_can_do(folder: Path) -> None:
    support.play_guest(support.load(folder / "probe.wasm"), support.PROBE)


@built
def test_small_and_without_imports(folder: Path) -> None:
    for name in SOURCES:
        module = folder / f"{name}.wasm"
        assert list(wasm_host.describe(module).imports) == []
        assert module.stat().st_size < 24 * 1024


@built
def test_example_of_the_readme(folder: Path) -> None:
    guest = support.load(folder / "readme.wasm").instantiate("readme")
    support.check_french(guest.deliver)
    support.check_odd(guest.deliver)


@built
def test_half_an_emoji_is_text(folder: Path) -> None:
    support.check_half(support.load(folder / "shout.wasm").instantiate("shout").deliver)


@built
def test_memory_does_not_grow_by_the_number_of_messages(folder: Path) -> None:
    """Held lines, edited ones and answers are given back: 64 MiB would not do for them all."""
    support.check_memory(support.load(folder / "datetime.wasm").instantiate("datetime").deliver)


@built
def test_a_panic_says_why(folder: Path) -> None:
    support.check_fault(
        support.load(folder / "probe.wasm").instantiate("probe"), b"p" + support.FAULT
    )
