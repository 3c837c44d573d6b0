"""The bundled sandboxed proxies: transcripts, committed modules, and the C library."""

import hashlib
import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import wasm_host
from tests.components.transcripts import read_transcript
from tests.places import COMPONENTS, ROOT

NAMES = ("datetime", "passthrough", "tools-demo")
LARGEST = {"tools-demo": 32 * 1024}
"""Bytes of the larger ones; the others stay below 12 KiB."""
TRANSCRIPTS = sorted(
    path for name in NAMES for path in (COMPONENTS / name / "test-scenarios").glob("*.txt")
)


def _build_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("components_build", COMPONENTS / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


build = _build_script()
needs_compiler = pytest.mark.skipif(
    build.compiler_missing() is not None, reason=str(build.compiler_missing())
)


def _manifest(name: str) -> dict[str, object]:
    return tomllib.loads((COMPONENTS / name / "component.toml").read_text("utf-8"))


def test_these_are_the_components_built_from_c() -> None:
    assert tuple(component.name for component in build.components()) == NAMES
    assert {path.parents[1].name for path in TRANSCRIPTS} == set(NAMES)


@pytest.mark.parametrize(
    "path", TRANSCRIPTS, ids=lambda path: f"{path.parents[1].name}-{path.stem}"
)
def test_transcript(path: Path) -> None:
    name = path.parents[1].name
    guest = wasm_host.load(COMPONENTS / name / f"{name}.wasm").instantiate(name)
    assert guest.start(b"") == b""
    for delivery in read_transcript(path):
        answer = guest.deliver(delivery.given)
        assert answer.split(b"\n") == delivery.expected.split(b"\n"), f"{path}:{delivery.line}"


@pytest.mark.parametrize(
    "path", TRANSCRIPTS, ids=lambda path: f"{path.parents[1].name}-{path.stem}"
)
def test_transcript_line_by_line_of_one_instance_leaves_others_alone(path: Path) -> None:
    name = path.parents[1].name
    module = wasm_host.load(COMPONENTS / name / f"{name}.wasm")
    one, other = module.instantiate("one"), module.instantiate("other")
    for delivery in read_transcript(path):
        assert one.deliver(delivery.given) == other.deliver(delivery.given) == delivery.expected


@pytest.mark.parametrize("name", NAMES)
def test_binary_is_the_one_recorded(name: str) -> None:
    manifest = _manifest(name)
    module = (COMPONENTS / name / str(manifest["file"])).read_bytes()
    assert hashlib.sha256(module).hexdigest() == manifest["sha256"]
    assert len(module) <= LARGEST.get(name, 12 * 1024)


@pytest.mark.parametrize("name", NAMES)
def test_module_imports_nothing(name: str) -> None:
    info = wasm_host.describe(COMPONENTS / name / f"{name}.wasm")
    assert info.carrier == "core"
    assert list(info.imports) == []


@needs_compiler
@pytest.mark.parametrize("component", build.components(), ids=lambda component: component.name)
def test_binary_is_what_the_source_builds(component: tuple[object, ...]) -> None:
    build.check(component, build.compile_c(component[2]))


def test_check_tells_a_stale_binary_and_a_stale_digest() -> None:
    component = build.components()[0]
    module = component.module.read_bytes()
    with pytest.raises(build.BuildError, match="binary is not what the source builds"):
        build.check(component, module + b"\0\0")
    with pytest.raises(build.BuildError, match="recorded digest"):
        build.check(component._replace(sha256="0" * 64), module)


def test_stripping_leaves_what_runs() -> None:
    code = b"\x01\x04\x01\x60\x00\x00"
    custom = b"\x00\x85\x00\x04name"
    header = b"\0asm\1\0\0\0"
    assert build.strip_custom_sections(header + custom + code + custom) == header + code
    with pytest.raises(build.BuildError, match="no WebAssembly module"):
        build.strip_custom_sections(b"\x7fELF")


@needs_compiler
def test_example_for_authors(tmp_path: Path) -> None:
    """The README's example, built by the README's command, does what the README says."""
    folder = ROOT / "guest_sdk" / "c"
    readme = (folder / "README.md").read_text("utf-8")
    source, command = (
        re.findall(rf"^```{language}\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)[0]
        for language in ("c", "sh")
    )
    assert len(source.splitlines()) <= 30
    (tmp_path / "french.c").write_text(source, "utf-8")
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "python"
    words = [sys.executable, *(word.replace("guest_sdk/c", str(folder)) for word in words[1:])]
    subprocess.run(words, cwd=tmp_path, check=True)
    guest = wasm_host.load(tmp_path / "french.wasm").instantiate("french")
    prompt = b'{"id":1,"method":"session/prompt","params":{"prompt":["x"],"_meta":{}}}\n'
    assert guest.start(b'c{"method":"configure","params":{"config":{}}}\n') == b""
    assert guest.deliver(b's{"id":1}\np{"id":2}\np' + prompt) == (
        b'p{"id":1}\ns{"id":2}\ns'
        + prompt.replace(b"[", b'[{"type":"text","text":"Answer in French."},')
    )


#: Lets a line pass when its `a` is, decoded, the text in the middle.
COMPARING = """
#include "json.h"
static void channel_on_line(char side, channel_span json) {
    (void)side;
    channel_span a = json_get(json, CHANNEL_LITERAL("a"));
    if (json_is(a, CHANNEL_LITERAL("\\"\\n\u00e9\u20ac\U0001f600"))) channel_forward();
}
"""


@needs_compiler
def test_strings_are_compared_decoded(tmp_path: Path) -> None:
    (tmp_path / "comparing.c").write_text(COMPARING, "utf-8")
    guest = wasm_host.load(build.compile_c(tmp_path / "comparing.c")).instantiate("comparing")
    same = [
        r'"\"\né€😀"',
        r'"\u0022\u000a\u00e9\u20AC\ud83d\ude00"',
        r'"\"\u000Aé\u20ac\uD83D\uDE00"',
    ]
    other = [
        r'"\"\né€😀 "',
        r'"\"\né€"',
        r'"\"\né€\ud83d"',
        r'"\"\né€\ude00\ud83d"',
        r'"\"\né€\ud83d\u0000"',
        r'"\"né€😀"',
        '""',
        "7",
        "null",
    ]
    for text in [*same, *other]:
        line = f'p{{"a":{text}}}\n'.encode()
        assert guest.deliver(line) == (b"s" + line[1:] if text in same else b""), text
