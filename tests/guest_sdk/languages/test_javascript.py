"""The JavaScript library: its examples are built, and pass the transcripts of all languages."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

import wasm_host
from tests.e2e.peers import npm
from tests.guest_sdk.languages import builds, support
from tests.places import ROOT

SDK = support.SDK / "javascript"
SOURCES = {name: SDK / "examples" / f"{name}.js" for name in support.EXAMPLES}
SOURCES["probe"] = Path(__file__).parent / "probe.js"
TOOLS = npm.node_tools()

pytestmark = [
    pytest.mark.skipif(TOOLS is None, reason="`node` and `npm` are not on PATH"),
    pytest.mark.timeout(600),
]


def _make(folder: Path) -> None:
    """Builds everything by the command of the README."""
    assert TOOLS is not None
    program = npm.install(TOOLS[1], SDK) / ".bin" / "componentize-qjs"
    texts = {name: source.read_text("utf-8") for name, source in SOURCES.items()}
    (folder / "guest").mkdir()
    for file in SDK.glob("*.js"):
        shutil.copy(file, folder / "guest")
    wit = str(ROOT / "wasm_host" / "channel.wit")
    for name, text in {**texts, "readme": support.readme(SDK, "js")}.items():
        source = text.replace('"../guest.js"', '"./guest/guest.js"')
        (folder / f"{name}.js").write_text(source, "utf-8")
        command = support.readme(SDK, "sh").replace("\\\n", " ").replace("french", name)
        words = shlex.split(command.replace("wasm_host/channel.wit", wit))
        assert words[:2] == ["npx", "componentize-qjs"]
        builds.run([str(program), *words[2:]], folder)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, wasm_host.Module]:
    """The built modules, each compiled once."""
    folder = builds.once(tmp_path_factory, "javascript", _make)
    return {name: support.load(folder / f"{name}.wasm") for name in (*SOURCES, "readme")}


@pytest.mark.parametrize(("name", "path"), support.TRANSCRIPTS, ids=support.title)
def test_transcript(modules: dict[str, wasm_host.Module], name: str, path: Path) -> None:
    support.play_guest(modules[name], path)


def test_what_a_library_can_do(modules: dict[str, wasm_host.Module]) -> None:
    support.play_guest(modules["probe"], support.PROBE)


def test_example_of_the_readme(modules: dict[str, wasm_host.Module]) -> None:
    guest = modules["readme"].instantiate("readme")
    support.check_french(guest.deliver)
    support.check_odd(guest.deliver)


def test_half_an_emoji_is_text(modules: dict[str, wasm_host.Module]) -> None:
    support.check_half(modules["shout"].instantiate("shout").deliver, carried=True)


def test_memory_does_not_grow_by_the_number_of_messages(
    modules: dict[str, wasm_host.Module],
) -> None:
    support.check_memory(modules["datetime"].instantiate("datetime").deliver, 62)


def test_a_mistake_of_a_handler_ends_its_message_only(
    modules: dict[str, wasm_host.Module],
) -> None:
    guest = modules["probe"].instantiate("probe")
    configure = b'c{"jsonrpc":"2.0","method":"configure","params":{"name":"n","config":{}}}\n'
    assert guest.deliver(configure) == b""
    for method, what in (
        ("fault", r"Error: wrong on purpose \(/probe.js, line \d+\)"),
        ("promise", "a handler that waits is a generator"),
        ("nothing", "a handler yields only what it asks for"),
    ):
        line = support.FAULT.replace(b"fault", method.encode())
        log, answer = map(str, guest.deliver(b"p" + line).decode().splitlines())
        assert re.search(what, log)
        assert log.startswith('c{"jsonrpc":"2.0","method":"log","params":{"level":"error",')
        assert answer.startswith('p{"jsonrpc":"2.0","id":1,"error":{"code":-32603,')
        assert f"proxy `n` failed at `_probe/{method}`: " in answer
        assert re.search(what, answer)
        notification = guest.deliver(b"s" + line.replace(b'"id":1,', b"")).decode()
        assert notification.startswith("c")  # in the log, and nowhere else
        assert notification.count("\n") == 1


ODD = r"\"quoted\" \\\" } ] { \\ ," * 200 + r"\\"
BLOCK = '{"type":"text","text":"Answer in French."}'


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            '{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"_meta":"ODD","prompt":[]}}',
            f'"_meta":"ODD","prompt":[{BLOCK}]',
        ),
        (
            '{"id":1,"method":"session/prompt", "params" : {"prompt":["ODD", {"a":"ODD"}]}}',
            f'"params" : {{"prompt":[{BLOCK},"ODD", {{"a":"ODD"}}]}}',
        ),
        (
            (
                '{"jsonrpc":"2.0","method":"_x","params":{"t":"ODD","prompt":[1]},"id":1,'
                '"m\\u0065thod":"session/prompt"}'
            ),
            f'"prompt":[{BLOCK},1]',
        ),
        (
            '{"jsonrpc":"2.0","id":1,"method":"_x","params":{"t":"ODD","method":"session/prompt"}}',
            '"method":"session/prompt"}}',
        ),
    ],
)
def test_a_large_text_is_read_at_the_right_places(
    modules: dict[str, wasm_host.Module], given: str, expected: str
) -> None:
    """An escaped quote does not end a string, however long the string is."""
    line, part = given.replace("ODD", ODD), expected.replace("ODD", ODD)
    said = modules["readme"].instantiate("readme").deliver(f"p{line}\n".encode()).decode()
    assert said[0] == "s"
    assert part in said
    added = f"{BLOCK}," if '"prompt":[]' not in given else BLOCK
    assert said[1:-1].replace(added, "") == line
