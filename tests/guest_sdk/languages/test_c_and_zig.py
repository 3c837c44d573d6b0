"""The C and the Zig library: examples are built, and pass the transcripts of all languages."""

import importlib.util
import shlex
import sys
from pathlib import Path
from typing import Final

import pytest

import wasm_host
from tests.guest_sdk.languages import builds, support
from tests.places import ROOT

NAMES: Final = (*support.EXAMPLES, "probe", "readme")
OPTIONS: Final = {"c": ["-Wextra", "-Wno-missing-field-initializers", "-Werror"], "zig": []}
"""The further options of each build."""
SIZES: Final = {"c": 24, "zig": 32}
"""KiB that each module may have."""

pytestmark = pytest.mark.timeout(300)
built = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed"
)


@pytest.fixture(scope="session", params=["c", "zig"])
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, language: str) -> Path:
    """Everything, built by the command of the README."""
    sdk = support.SDK / language
    sources = {name: sdk / "examples" / f"{name}.{language}" for name in support.EXAMPLES}
    sources["probe"] = Path(__file__).parent / f"probe.{language}"
    sources["readme"] = Path(f"readme.{language}")

    def make(folder: Path) -> None:
        (folder / f"readme.{language}").write_text(support.readme(sdk, language), "utf-8")
        readme = support.readme(sdk, "sh").replace("\\\n", " ")
        for name, source in sources.items():
            command = readme.replace(f"guest_sdk/{language}", str(sdk))
            command = command.replace(f"french.{language}", str(source))
            words = shlex.split(command.replace("french.wasm", f"{name}.wasm"))
            assert words[0] == "python"
            words = [sys.executable, *words[1:], *OPTIONS[language]]
            builds.run(words, folder, ZIG_LOCAL_CACHE_DIR=str(folder / "cache"))

    return builds.once(tmp_path_factory, language, make)


@built
@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(folder: Path, name: str, path: Path) -> None:
    support.play_guest(support.load(folder / f"{name}.wasm"), path)


@pytest.mark.parametrize(
    "path", [path for name, path in support.TRANSCRIPTS if name == "datetime"], ids=support.title
)
def test_transcript_of_the_bundled_one(path: Path) -> None:
    support.play_guest(support.load(ROOT / "components" / "datetime" / "datetime.wasm"), path)


@built
def test_what_a_library_can_do(folder: Path) -> None:
    support.play_guest(support.load(folder / "probe.wasm"), support.PROBE)


@built
def test_small_and_without_imports(folder: Path, language: str) -> None:
    for name in NAMES:
        module = folder / f"{name}.wasm"
        assert list(wasm_host.describe(module).imports) == []
        assert module.stat().st_size < SIZES[language] * 1024


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
    guest = support.load(folder / "probe.wasm").instantiate("probe")
    support.check_fault(guest, b"p" + support.FAULT)
