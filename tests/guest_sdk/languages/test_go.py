"""The Go library: WASI commands that pass the transcripts of all languages."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import wasm_host
from tests.guest_sdk.languages import builds, support
from tests.guest_sdk.languages.wire import Wire, plain

SDK = support.SDK / "go"
SOURCES = {name: SDK / "examples" / name for name in support.EXAMPLES}
SOURCES["probe"] = Path(__file__).parent / "probe_go"
ABSENT = support.missing("go")

pytestmark = [
    pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT)),
    pytest.mark.timeout(600),
]


def _make(folder: Path) -> None:
    """Builds one Go module with all examples, by the command of the README."""
    module = support.readme(SDK, "gomod").replace("guest_sdk/go", str(SDK))
    (folder / "go.mod").write_text(module, "utf-8")
    texts = {name: (source / "main.go").read_text("utf-8") for name, source in SOURCES.items()}
    for name, text in {**texts, "readme": support.readme(SDK, "go")}.items():
        (folder / name).mkdir()
        (folder / name / "main.go").write_text(text, "utf-8")
    (folder / "out").mkdir()
    command = support.readme(SDK, "sh").replace("-o french.wasm .", "-o out ./...")
    environment = {"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    builds.run(["sh", "-c", command], folder, **environment)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return builds.once(tmp_path_factory, "go", _make) / "out"


Load = Callable[[str], wasm_host.Guest]


@pytest.fixture(scope="module")
def load(folder: Path) -> Load:
    """Makes a guest of a built module; each module is compiled once."""
    modules: dict[str, wasm_host.Module] = {}

    def make(name: str) -> wasm_host.Guest:
        if name not in modules:
            modules[name] = support.load(folder / name)
        guest = modules[name].instantiate(name)
        assert guest.start(b"") == b""
        return guest

    return make


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(load: Load, name: str, path: Path) -> None:
    guest = load(name)
    support.play(Wire(guest.deliver).exchange, path, shown=plain)
    guest.close()


def test_what_a_library_can_do(load: Load) -> None:
    support.play(Wire(load("probe").deliver).exchange, support.PROBE, shown=plain)


def test_what_passes_keeps_its_id_and_own_requests_have_strings(load: Load) -> None:
    """In its dialect as on the channel; a handler passes on what it waits for, or does not."""
    guest = load("probe")
    new = b'{"method":"session/new","params":{"cwd":"/"}}'
    for given, said in (
        (b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/"}}',
         b'{"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":%b}' % new),
        (b'{"jsonrpc":"2.0","id":8,"method":"proxy/successor","params":{"method":"_x"}}',
         b'{"jsonrpc":"2.0","id":8,"method":"_x"}'),
        (b'{"jsonrpc":"2.0","id":9,"method":"_probe/ask"}',
         b'{"jsonrpc":"2.0","id":"x1","method":"_conductor/kv/get","params":{"key":"k"}}'),
        (b'{"jsonrpc":"2.0","id":7,"result":{}}',
         b'{"jsonrpc":"2.0","id":7,"result":{"wrapped":{}}}'),
    ):  # fmt: skip
        assert guest.deliver(given + b"\n") == said + b"\n"


def test_example_of_the_readme(load: Load) -> None:
    guest = load("readme")

    def exchange(lines: bytes) -> bytes:
        return Wire(guest.deliver).exchange(lines).replace(b'{"jsonrpc":"2.0","id":1,', b'{"id":1,')

    support.check_french(exchange)


def test_half_an_emoji_is_text(load: Load) -> None:
    exchange = Wire(load("shout").deliver).exchange
    support.check_half(exchange)
    call = rb'p{"jsonrpc":"2.0","method":"_x/\ud83d","params":{}}' + b"\n"
    assert exchange(call) == b"s" + call[1:]


def test_memory_does_not_grow_by_the_number_of_messages(load: Load) -> None:
    wire = Wire(load("datetime").deliver)

    def exchange(lines: bytes) -> bytes:
        """Shows the proxy's own ids, which are texts here, as the numbers that the others use."""
        given = re.sub(rb'"id":(\d+)}$', rb'"id":"x\1"}', lines) if lines[:1] == b"c" else lines
        return re.sub(rb'"id":"x(\d+)"', rb'"id":\1', wire.exchange(given))

    support.check_memory(exchange)


def test_a_panic_says_why(load: Load) -> None:
    support.check_fault(load("probe"), support.FAULT)


def test_formatted() -> None:
    folders = [str(SDK), str(Path(__file__).parent / "probe_go")]
    program = shutil.which("gofmt")
    assert program is not None
    assert subprocess.check_output([program, "-l", *folders], text=True) == ""
