"""The documents are true: the program does all that they say."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from conductor.cli import app, commands, exec_, fast, report, usage
from conductor.errors import UsageError
from conductor.spec import catalog, component_options, option_layers
from conductor.spec.config import typed
from conductor.spec.config.model import Config
from tests.docs import pages, tables
from tests.docs.tables import DOCUMENTS
from tests.harness.process.command import conductor
from tests.places import ROOT
from wasm_host import Limits

CLI = ROOT / "docs" / "reference.md"
COMMAND: Any = app.command()
COMPLAINT: type[Exception] = usage.COMPLAINT


def page_id(page: object) -> str | None:
    """A page's path within the project, as the name of a test."""
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else None


each_document = pytest.mark.parametrize("page", DOCUMENTS, ids=page_id)
each_page = pytest.mark.parametrize("page", pages.PAGES, ids=page_id)


@each_document
def test_tables_are_what_the_program_says(page: Path) -> None:
    text = pages.read(page)
    assert tables.drawn(text) == text, "draw them anew: python -m tests.docs.tables"


def test_every_table_is_used() -> None:
    used = {name for page in DOCUMENTS for name in re.findall(r"table: (\w+) ", pages.read(page))}
    assert used == set(tables.TABLES)


@each_document
def test_what_is_named_exists(page: Path) -> None:
    missing = []
    for path, symbol in pages.named(pages.read(page)):
        found = ROOT / path
        if not found.exists() or (symbol and symbol not in pages.symbols(found)):
            missing.append(f"{path}:{symbol}")
    assert not missing


def test_the_walk_names_functions() -> None:
    walked = pages.named(pages.read(ROOT / "docs" / "architecture.md"))
    assert sum("." in symbol for _, symbol in walked) > 20


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in pages.links(pages.read(page)):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in pages.anchors(pages.read(target))):
            broken.append(link)
    assert not broken


def parses(arguments: list[str]) -> bool:
    """Whether the command line would be taken; nothing is run."""
    arguments = fast.unread(arguments)
    words = [word for flag, word in pairwise(arguments) if flag == "-c"]
    for key, option in typed.over(Config(), words).options.items():
        option_layers.value(key, option)
    if arguments[:1] in (["agent"], ["proxy"]) and fast.parse(arguments) is not None:
        return True
    first, *rest = arguments
    command = COMMAND.commands.get(first)
    try:
        if command is None:
            COMMAND.make_context("conductor", list(arguments))
        else:
            command.make_context(first, rest)
    except typer.Exit:
        return True  # --help and --version
    except COMPLAINT:
        return False
    return command is not None


@each_page
def test_commands_parse(page: Path) -> None:
    refused = [line for line in pages.commands(pages.read(page)) if not parses(line)]
    assert not refused


def test_the_check_of_commands_sees_them() -> None:
    text = """
        conductor agent a.wasm demo
    ```sh
    pip install . && conductor exec demo -p "a | b" > out.txt   # remark
    conductor agent … demo
    ```
    """.replace("\n    ", "\n")
    assert pages.commands(text) == [["exec", "demo", "-p", "a | b"], ["agent", "a.wasm", "demo"]]
    assert parses(["exec", "demo", "-p", "a"])
    assert not parses(["report", "demo"])
    assert not parses(["agent", "--no-such-option", "demo"])
    assert not parses(["no-such-command"])


@each_document
def test_json_is_json(page: Path) -> None:
    for block in pages.blocks(pages.read(page), "json"):
        json.loads(block.text)


def test_components_as_json_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p.wasm").write_bytes(catalog.WASM_MAGIC + b"\1\0\0\0")
    monkeypatch.chdir(tmp_path)
    texts = [block.text for block in pages.blocks(pages.read(CLI), "json")]
    specs = [catalog.resolve(text) for text in texts if "agent_servers" not in text]
    assert [spec.name for spec in specs] == ["mine", "filter", "datetime", "datetime"]
    assert specs[1].limits == {"cpu_ms": 50}
    for name in Limits.__struct_fields__:
        assert catalog.resolve(f"./p.wasm,limit.{name}=7").limits == {name: 7}


def test_editors_start_what_parses() -> None:
    page = ROOT / "docs" / "editors.md"
    texts = [block.text for block in pages.blocks(pages.read(page), "json")]
    servers = [json.loads(text)["agent_servers"] for text in texts if "agent_servers" in text]
    assert len(servers) == 2
    for server in servers:
        assert parses(server["Conductor"]["args"])


def test_every_command_has_its_sentence() -> None:
    text = pages.read(CLI)
    for row in commands.TABLE.values():
        assert f"`conductor {row.path}" in text or (row.is_hidden and f"`{row.path}`" in text), row


def test_no_page_names_a_flag_that_is_not_there() -> None:
    flags = {flag for command in each_command(COMMAND) for p in command.params for flag in p.opts}
    named = re.findall(r"^\| `(-.*?)` \|", pages.read(CLI), re.MULTILINE)
    assert {name for row in named for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", row)} <= flags


def each_command(group: Any) -> Iterator[Any]:
    """A command, and those below it."""
    yield group
    for command in getattr(group, "commands", {}).values():
        yield from each_command(command)


def test_component_options_are_described() -> None:
    text = pages.read(CLI)
    for key in (name.removesuffix("KEY").rstrip(".") for name in component_options.NAMES):
        assert re.search(rf"^\| `{key}[=.]", text, re.MULTILINE), key


def test_exit_codes_are_described() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", pages.read(CLI), re.MULTILINE)}
    used = {getattr(exec_, name) for name in vars(exec_) if name.startswith("EXIT_")}
    assert used
    assert codes == used | {0, 2}


def test_the_error_looks_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        catalog.resolve("proxy.wasm")
    report.error(caught.value.text, caught.value.hint)
    shown = [block.text for block in pages.blocks(pages.read(CLI))]
    assert capsys.readouterr().err in shown


_FILES = (".wasm", ".py", ".jsons", ".jsonl", ".pem", ".tar.gz")


def missing(text: str) -> list[str]:
    """Files and folders that commands of a page take, and that its reader has not got: the page has
    not named them before, nor are they in capitals, which stand for something of the reader's."""
    found = []
    for block in re.finditer(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in re.finditer(r"^conductor .*$", block[1], re.MULTILINE):
            before = text[: block.start(1) + line.start()]
            for command in pages.commands(f"```sh\n{line[0]}\n```"):
                words = zip(["", *command], command, strict=False)
                values = [word for option, word in words if not option.startswith("-")]
                found += [word for word in values if _is_missing(word, before)]
    return found


def _is_missing(word: str, before: str) -> bool:
    path = re.split("[,#]", word)[0]
    name = path.removeprefix("./").rstrip("/")
    is_file = (path.startswith("./") or path.endswith(_FILES)) and not {*" :"} & {*path}
    return is_file and not name.partition(".")[0].isupper() and name not in before


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=page_id)
def test_commands_can_be_pasted_or_are_visibly_patterns(page: Path) -> None:
    assert missing(pages.read(page)) == []


def test_the_check_of_what_is_missing_sees_it() -> None:
    text = """
    ```sh
    conductor inspect ./p.wasm,only=context
    conductor exec --trace t.jsons ./PROXY.wasm demo -p hello
    conductor log replay t.jsons ./q/ --output x.txt
    ```
    """.replace("\n    ", "\n")
    assert missing(text) == ["./p.wasm,only=context", "./q/"]


def test_the_first_commands_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    block = next(block.text for block in pages.blocks(pages.read(CLI), "sh"))
    for command in pages.commands(f"```sh\n{block}\n```"):
        ran = conductor(*command, cwd=tmp_path)
        assert (ran.code, "warning" in ran.err) == (0, False), (command, ran.err)
