"""Our reader of settings reads what the parser of VS Code's settings reads, in the same way."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.editors import jsonc, table
from conductor.editors.json_editor import JsonEditor
from conductor.editors.record import Settings
from conductor.editors.target import Launch
from tests.e2e.peers.npm import install, link_scripts, node_tools
from tests.editors.documents import FIXTURES, WRONG, documents
from tests.places import DEADLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

SOURCES: Final = Path(__file__).parent / "jsonc"


class Reader:
    """The parser of VS Code's settings."""

    def __init__(self, scripts: Path, node: str) -> None:
        self._command = [node, str(scripts / "read.mjs")]

    def __call__(self, texts: list[str]) -> list[dict[str, Any]]:
        """For each text its value, or that it is refused."""
        done = subprocess.run(
            self._command,
            input=json.dumps([text.removeprefix("\ufeff") for text in texts]).encode(),
            stdout=subprocess.PIPE,
            timeout=DEADLINE,
            check=True,
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """The parser of VS Code's settings, installed once; skips where there is no Node."""
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    modules = install(tools[1], SOURCES)
    scripts = link_scripts(modules, tmp_path_factory.mktemp("jsonc"), SOURCES)
    return Reader(scripts, tools[0])


def ours(text: str) -> dict[str, Any]:
    """The value of a text by our parser, or the refusal."""
    try:
        value = jsonc.parse(text)
    except jsonc.SyntaxMistakeError:
        return {"refused": True}
    assert value is not None
    # JavaScript has one kind of number.
    read: dict[str, Any] = json.loads(json.dumps({"value": value.data}), parse_int=float)
    return read


def theirs(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of theirs."""
    return [json.loads(json.dumps(each), parse_int=float) for each in found]


def test_both_read_the_fixtures_and_refuse_the_same(read: Reader) -> None:
    texts = [text for text in FIXTURES.values() if text and jsonc.parse(text) is not None]
    wrong = [text for text, _ in WRONG.values() if len(text) < 1_000]

    assert [ours(text) for text in texts + wrong] == theirs(read(texts + wrong))


def test_both_read_what_setup_writes(read: Reader) -> None:
    launch = Launch("/opt/conductor", ["agent", "a // b", "ü"])
    texts = [
        target.put(text, Settings(target.name), "Conductor", launch).text or ""
        for target in table.TARGETS.values()
        if isinstance(target, JsonEditor)
        for text in FIXTURES.values()
    ]

    for text, found in zip(texts, theirs(read(texts)), strict=True):
        assert found == ours(text), text


def test_both_read_any_document(read: Reader) -> None:
    texts: list[str] = []

    @settings(max_examples=150)
    @given(documents(), st.data())
    def collect(document: tuple[str, Any], draw: st.DataObject) -> None:
        text, _ = document
        texts.append(text)
        # And what is left of it without one character.
        at = draw.draw(st.integers(0, len(text) - 1))
        shorter = text[:at] + text[at + 1 :]
        if shorter.strip().startswith("{"):
            texts.append(shorter)

    collect()

    for text, found in zip(texts, theirs(read(texts)), strict=True):
        assert found == ours(text), text
