"""The Rust library: the modules that are committed, and all of it built where Rust is installed.

The modules are recorded with their digests: the target they take does not come with most compilers.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

import pytest

import wasm_host
from guest_sdk.rust import build
from tests.guest_sdk.languages import builds, support
from tests.places import ROOT

SDK: Final = support.SDK / "rust"
HERE: Final = Path(__file__).parent
RECORD: Final = tomllib.loads(build.RECORD.read_text("utf-8"))
ENVIRONMENT: Final = {"CARGO_NET_OFFLINE": "true", "RUSTUP_AUTO_INSTALL": "0"}
"""Nothing is fetched, not even a missing part of the compiler itself."""
OLDEST: Final = (1, 85)

pytestmark = pytest.mark.timeout(600)


def _absent() -> str | None:
    """Why the library cannot be compiled here; None if it can."""
    for program in ("cargo", "rustc", "cc"):
        if shutil.which(program) is None:
            return f"`{program}` is not on PATH"
    for command in (["cargo", "--version"], ["rustc", "--version"]):
        done = subprocess.run(
            command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, check=False
        )
        found = re.search(r" (\d+)\.(\d+)\.", done.stdout)
        if done.returncode != 0 or found is None:
            return f"`{command[0]}` is on PATH and does not run"
        if (int(found[1]), int(found[2])) < OLDEST:
            return f"`{command[0]}` is older than {OLDEST[0]}.{OLDEST[1]}"
    return None


ABSENT: Final = _absent()
compiled = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))


def _readme() -> str:
    return support.readme(SDK, "rust").replace("fn declare(", "pub fn declare(")


def _make(folder: Path) -> None:
    """A copy of the crate, with the other proxies as examples; the program that plays them."""
    crate = folder / "crate"
    for name in ("src", "tests", "examples"):
        shutil.copytree(SDK / name, crate / name, ignore=shutil.ignore_patterns("*.wasm"))
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copyfile(SDK / name, crate / name)
    for name in ("probe.rs", "native.rs"):
        shutil.copyfile(HERE / name, crate / "examples" / name)
    (crate / "examples" / "readme.rs").write_text(_readme(), "utf-8")
    with (crate / "Cargo.toml").open("a", encoding="utf-8") as manifest:
        for name in ("probe", "readme"):
            manifest.write(f'\n[[example]]\nname = "{name}"\ncrate-type = ["cdylib"]\n')
    _cargo(folder, "build", "--example", "native")


def _cargo(folder: Path, *words: str) -> None:
    environment = {**ENVIRONMENT, "CARGO_TARGET_DIR": str(folder / "target")}
    command = ["cargo", *words, "--quiet", "--offline", "--locked"]
    builds.run(command, folder / "crate", **environment)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.once(tmp_path_factory, "rust", _make)


Exchange = Callable[[bytes], bytes]


@contextlib.contextmanager
def native(folder: Path, name: str) -> Iterator[Exchange]:
    """A proxy compiled for this machine."""
    program = folder / "target" / "debug" / "examples" / "native"
    with subprocess.Popen(
        [str(program), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        given, said = process.stdin, process.stdout
        assert given is not None
        assert said is not None

        def exchange(lines: bytes) -> bytes:
            given.write(len(lines).to_bytes(4, "little") + lines)
            given.flush()
            return _read(said, int.from_bytes(_read(said, 4), "little"))

        yield exchange
        given.close()
        assert process.wait() == 0


def _read(file: IO[bytes], length: int) -> bytes:
    found = file.read(length)
    assert len(found) == length, "it ended"
    return found


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(name: str, path: Path) -> None:
    support.play_guest(support.load(build.EXAMPLES / f"{name}.wasm"), path)


def test_modules_are_those_recorded_and_built_of_these_sources() -> None:
    assert sorted(RECORD["modules"]) == build.names() == ["brief", "datetime", "shout"]
    for name, digest in RECORD["modules"].items():
        assert build.digest(build.EXAMPLES / f"{name}.wasm") == digest, name
    assert RECORD["sources"] == build.sources(), "run guest_sdk/rust/build.py"
    assert re.match(r"rustc 1\.\d+\.\d+ ", RECORD["compiler"])


@pytest.mark.parametrize("name", build.names())
def test_small_without_imports_and_places(name: str) -> None:
    module = build.EXAMPLES / f"{name}.wasm"
    info = wasm_host.describe(module)
    assert (info.carrier, list(info.imports), list(info.problems)) == ("core", [], [])
    assert info.memory_pages == (2, None)
    content = module.read_bytes()
    assert len(content) < 40 * 1024
    assert not re.findall(rb"/(?:tmp|home|root|usr|guest|rust)\b|\.rs\b|\.cargo|rustc", content)


def test_the_template_is_the_example() -> None:
    template = ROOT / "conductor" / "author" / "templates" / "rust"
    example = (build.EXAMPLES / "brief.rs").read_text("utf-8")
    alone = '#![cfg_attr(target_arch = "wasm32", no_std)]\n\n'
    assert alone in example
    source = (template / "src" / "lib.rs.tmpl").read_text("utf-8")
    assert example.replace(alone, "").replace("pub fn", "fn") == source
    copied = tomllib.loads((template / "guest" / "Cargo.toml.tmpl").read_text("utf-8"))
    crate = tomllib.loads((SDK / "Cargo.toml").read_text("utf-8"))
    assert copied == {key: crate[key] for key in ("package", "features")}
    project = tomllib.loads((template / "Cargo.toml.tmpl").read_text("utf-8"))
    assert project["profile"] == crate["profile"]


def test_the_example_of_the_template() -> None:
    guest = support.load(build.EXAMPLES / "brief.wasm").instantiate("brief")
    support.check_french(
        lambda lines: guest.deliver(lines).replace(b"Answer briefly.", b"Answer in French.")
    )


def test_memory_does_not_grow_by_the_number_of_messages() -> None:
    """Held lines, edited ones and answers are given back: 64 MiB would not do for them all."""
    guest = support.load(build.EXAMPLES / "datetime.wasm").instantiate("datetime")
    support.check_memory(guest.deliver)


def test_half_an_emoji_is_text() -> None:
    guest = support.load(build.EXAMPLES / "shout.wasm").instantiate("shout")
    support.check_half(guest.deliver)


@compiled
def test_own_tests(folder: Path) -> None:
    _cargo(folder, "test", "--lib", "--tests")


@compiled
@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript_natively(folder: Path, name: str, path: Path) -> None:
    with native(folder, name) as exchange:
        support.play(exchange, path)


@compiled
def test_what_a_library_can_do(folder: Path) -> None:
    with native(folder, "probe") as exchange:
        support.play(exchange, support.PROBE)


@compiled
def test_example_of_the_readme(folder: Path) -> None:
    with native(folder, "readme") as exchange:
        support.check_french(exchange)
        support.check_odd(exchange)


@compiled
def test_built_where_the_target_is(folder: Path) -> None:
    """Where the compiler can make WebAssembly, all of it is built and played as that."""
    if not build.has_target():
        pytest.skip(f"rustc has no target {build.TARGET}")
    crate = folder / "freestanding"
    shutil.copytree(folder / "crate", crate, ignore=shutil.ignore_patterns("native.rs"))
    text = f'#![cfg_attr(target_arch = "wasm32", no_std)]\n{_readme()}'
    (crate / "examples" / "readme.rs").write_text(text, "utf-8")
    modules = build.build(folder / "wasm", crate=crate)
    for name, path in support.TRANSCRIPTS:
        support.play_guest(support.load(modules[name]), path)
    support.play_guest(support.load(modules["probe"]), support.PROBE)
    support.check_french(support.load(modules["readme"]).instantiate("readme").deliver)
