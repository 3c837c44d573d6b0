"""The JavaScript library: its examples are built, and pass the transcripts of all languages.

They run in an engine of their own, since the host's does not take what componentize-qjs makes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.peers import npm

from . import builds, support

if TYPE_CHECKING:
    from wasmtime.component import Component

SDK = support.SDK / "javascript"
SOURCES = {name: SDK / "examples" / f"{name}.js" for name in support.EXAMPLES}
SOURCES["probe"] = Path(__file__).parent / "probe.js"
TOOLS = npm.node_tools()
MEMORY = 24 << 20
"""Bytes an instance may have."""

pytestmark = [
    pytest.mark.skipif(TOOLS is None, reason="`node` and `npm` are not on PATH"),
    pytest.mark.timeout(600),
]


def _readme(language: str) -> str:
    text = (SDK / "README.md").read_text("utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def _make(folder: Path) -> None:
    """Builds everything by the command of the README."""
    assert TOOLS is not None
    program = npm.install(TOOLS[1], SDK) / ".bin" / "componentize-qjs"
    texts = {name: source.read_text("utf-8") for name, source in SOURCES.items()}
    (folder / "guest.js").write_text((SDK / "guest.js").read_text("utf-8"), "utf-8")
    wit = str(support.ROOT / "wasm_host" / "channel.wit")
    for name, text in {**texts, "readme": _readme("js")}.items():
        source = text.replace('"../guest.js"', '"./guest.js"')
        (folder / f"{name}.js").write_text(source, "utf-8")
        command = _readme("sh").replace("\\\n", " ").replace("french", name)
        words = shlex.split(command.replace("wasm_host/channel.wit", wit))
        assert words[:2] == ["npx", "componentize-qjs"]
        builds.run([str(program), *words[2:]], folder)


Exchange = Callable[[bytes], bytes]
Load = Callable[[str], Exchange]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Makes an instance of what was built; each component is compiled once."""
    import wasmtime
    from wasmtime import component

    folder = builds.once(tmp_path_factory, "javascript", _make)
    config = wasmtime.Config()
    config.wasm_multi_memory = True
    engine = wasmtime.Engine(config)
    linker = component.Linker(engine)
    compiled: dict[str, Component] = {}

    def make(name: str) -> Exchange:
        if name not in compiled:
            compiled[name] = component.Component(engine, (folder / f"{name}.wasm").read_bytes())
        store = wasmtime.Store(engine)
        store.set_limits(memory_size=MEMORY)
        instance = linker.instantiate(store, compiled[name])
        channel = instance.get_export_index(store, "conductor:channel/channel@1.0.0")
        assert channel is not None
        deliver = instance.get_func(
            store, instance.get_export_index(store, "deliver", channel) or channel
        )
        assert deliver is not None

        def exchange(lines: bytes) -> bytes:
            said = deliver(store, lines.decode())
            deliver.post_return(store)
            assert isinstance(said, str)
            return said.encode()

        return exchange

    return make


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(load: Load, name: str, path: Path) -> None:
    support.play(load(name), path)


def test_what_a_library_can_do(load: Load) -> None:
    support.play(load("probe"), support.PROBE)


def test_example_of_the_readme(load: Load) -> None:
    support.check_french(load("readme"))


def test_memory_does_not_grow_by_the_number_of_messages(load: Load) -> None:
    support.check_memory(load("datetime"), MEMORY // 400_000)
