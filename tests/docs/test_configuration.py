"""docs/configuration.md: its files are right, and do what it says; editors get the same answer."""

import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.cli import inspect_
from conductor.errors import ConductorError, UsageError
from conductor.spec import component_options, limits, option_layers, origins, plan
from conductor.spec.config import reading
from conductor.spec.config.model import ConfigFile
from conductor.spec.option_table import ALL, Option
from conductor.spec.options import Options
from conductor.spec.origins import DEFAULT
from conductor.spec.parsed import assemble, layered
from conductor.spec.syntax import ComponentObject
from tests.cli.configurations import Place, place
from tests.docs import pages, tables
from tests.docs.tables import DOCUMENTS

_TABLES_OF_A_FILE: Final = {*ConfigFile.__struct_encode_fields__} - {"required-version"}
FILES: Final = [
    block.text
    for page in sorted(DOCUMENTS, key=lambda page: page.name != "configuration.md")
    for block in pages.blocks(pages.read(page), "toml")
    if {*tomllib.loads(block.text)} & _TABLES_OF_A_FILE and "contact" not in block.text
]
"""Every `conductor.toml` of the documents, those of configuration.md first."""

_OPTIONS: Final = re.compile(r"[\w./-]+,[a-z]")
WORDS: Final = sorted(
    {
        word
        for page in DOCUMENTS
        for line in pages.commands(pages.read(page))
        if line[0] in ALL
        for word in line[1:]
        if _OPTIONS.match(word)
    }
)
"""Every component with options that a command line of the documents names."""

TABLES: Final = ("name", "config", "limits", "deny")
"""Keys of a component that are tables, or set nothing that is shown by itself."""

# Without types of its own.
VALIDATOR: Any = importlib.import_module("jsonschema").Draft202012Validator(
    json.loads(tables.SCHEMA.read_text(encoding="utf-8"))
)


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place(tmp_path, monkeypatch)


def complaints(text: str) -> list[str]:
    """The complaints against a file by an editor that knows the schema."""
    return [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


@pytest.mark.parametrize("text", FILES)
def test_the_examples_are_right(text: str, here: Place) -> None:
    path = here.project / "example.toml"
    path.write_text(text)
    ran = here.run("config", "check", str(path))
    assert (ran.code, ran.err) == (0, ""), ran
    assert complaints(text) == []


def test_the_first_example_does_what_the_page_says(here: Place) -> None:
    here.user(FILES[0])
    ran = here.run("exec", "work", "-p", "what day is it?", HOME=str(here.project))
    assert (ran.code, ran.err) == (0, "")
    assert "what day is it?" in ran.out
    assert "<current-date" in ran.out
    assert (here.project / "conductor-audit.jsonl").is_file()


@pytest.mark.parametrize("text", FILES)
def test_inspect_and_config_show_name_the_same_places(text: str, here: Place) -> None:
    here.user(text)
    shown = here.run("config", "show", "--json")
    assert (shown.code, shown.err) == (0, "")
    for name, written in json.loads(shown.out)["components"].items():
        places: dict[str, str] = written["origins"]
        ran = here.run("inspect", name, "--json")
        found: dict[str, str] = json.loads(ran.out)["origins"]
        in_file = {who for who in found.values() if who.startswith(str(here.user_file))}
        assert in_file <= {*places.values()}
        for key, origin in places.items():
            base, _, inner = key.partition(".")
            if base in ("only", "allow"):
                assert origin in found.values(), (name, key, found)
            elif base not in ComponentObject.__struct_fields__ and (inner or base not in TABLES):
                named = f"limits.{limits.SHORT[key]}" if key in limits.SHORT else key
                # Who writes the default has set nothing.
                assert found.get(named, DEFAULT) in (origin, DEFAULT), (name, key, found)


@pytest.mark.parametrize("text", FILES)
def test_config_show_and_the_plan_name_the_same_setters(text: str, here: Place) -> None:
    """The setters of each option of the example, and of each option of its chains."""
    here.user(text)
    shown = json.loads(here.run("config", "show", "--json").out)
    of_all = setters(shown["options"])
    of_chains = {name: setters(chain["options"]) for name, chain in shown["chains"].items()}
    for name, own in of_chains.items():
        held = layered(assemble("agent", [f"@{name}"])).options.set_by.items()
        assert own.items() <= held
        # A chain has the options of the chains within it, too.
        assert held <= {pair for each in (of_all, *of_chains.values()) for pair in each.items()}
    # With a proxy no `[[choose]]` adds a chain.
    assert layered(assemble("agent", ["passthrough", "demo"])).options.set_by == of_all


def setters(options: dict[str, dict[str, str]]) -> dict[str, str]:
    """Who set the options of `agent` that are shown, by the names of their fields."""
    rows = {key: option_layers.ROWS[key] for key in options}
    return {
        row.name: options[key]["origin"] for key, row in rows.items() if row.configures("agent")
    }


def test_inspect_and_the_plan_name_the_same_setters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compared = []
    for word in WORDS:
        try:
            made = plan.made([word, "demo"], Options())
        except ConductorError:
            continue  # a file that only a reader has
        compared.append(word)
        assert inspect_.gather(word).origins == origins.of(made.components[0]), word
    assert len(compared) > 5


def test_the_schema_is_the_one_that_conductor_prints(here: Place) -> None:
    text = tables.SCHEMA.read_text(encoding="utf-8")
    assert tables.schema() == text, "write it: python -m tests.docs.tables"
    assert here.run("config", "schema").out == text
    VALIDATOR.check_schema(VALIDATOR.schema)


def test_the_schema_explains_every_key() -> None:
    defs = VALIDATOR.schema["$defs"]
    assert set(defs["Options"]["properties"]) == set(option_layers.ROWS)
    names = {one.name for one in component_options.OPTIONS if not one.name.endswith(".KEY")}
    component = defs["Component"]["properties"]
    assert names < set(component)
    assert set(component["limits"]["properties"]) == {one.name for one in limits.TABLE}
    described = [VALIDATOR.schema, *defs.values()]
    assert not [
        key
        for table in described
        for key, held in table["properties"].items()
        if not held.get("description")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "option = {}",
        "options.lgo = 'debug'",
        "options.log = 'loud'",
        "options.reload = 1",
        "options.stall = true",
        "options.grace = -1",
        "options.prompt = 'hi'",
        "required-version = 1",
        "components.'a b' = {}",
        "components.a.alow = 'clock'",
        "components.a.only = ['no']",
        "components.a.args = 'x'",
        "components.a.limits.memroy = 1",
        "chains.a = {}",
        "chains.a.components = [1]",
        "chains.a = {components = [], option = {}}",
        "chains.a.components = [{wasn = 'x'}]",
        "chains.a.components = [{component = 'demo', when = {fil = 'x'}}]",
        "chains.a.components = [{component = 'demo', when = 1}]",
        "components.a.when = {}",
        "choose = [{when = {}}]",
        "choose = [{use = 'a', when = {fil = 'x'}}]",
    ],
)
def test_conductor_and_editors_refuse_the_same(text: str, here: Place) -> None:
    assert complaints(text), text
    here.user(text)
    config, mistakes = reading.mistakes(text.encode(), "x.toml")
    impossible = []
    for key, written in config.options.items():
        try:
            option_layers.value(key, written)
        except UsageError as error:
            impossible.append(error)
    # These are judged when the component is resolved.
    resolved = any(word in text for word in ("only", "memroy", "args"))
    assert mistakes or impossible or resolved
    assert here.run("config", "check").code == 1


@pytest.mark.parametrize("row", option_layers.ROWS.values(), ids=lambda row: row.key)
def test_editors_accept_what_the_command_line_accepts(row: Option) -> None:
    from tests.cli.test_parsers import samples

    held = VALIDATOR.schema["$defs"]["Options"]["properties"][row.key]
    values: list[Any] = [True, False] if row.kind.read is None else samples(row)
    if row.kind.many:
        values = [dict([text.split("=", 1)]) for text in values]
    for value in values:
        assert VALIDATOR.evolve(schema=held).is_valid(value), (row.key, value)
