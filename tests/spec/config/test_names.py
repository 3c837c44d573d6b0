"""Names of the configuration: chains, components, and what they hide."""

import os
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog
from conductor.spec.config import names
from conductor.spec.config.model import Config, NamedChain, Written
from conductor.spec.model import Spec

SOURCE = "from conductor_proxy import Proxy\nproxy = Proxy('x')\n"


def config(
    chains: dict[str, list[Any]] | None = None,
    components: dict[str, dict[str, Any]] | None = None,
    here: str = "",
) -> Config:
    """A configuration, as if `f.toml` held it: line 1 is a component, line 2 a chain."""
    made = {}
    for name, held in (chains or {}).items():
        inner = [Written(what, here, "f.toml, line 3") for what in held]
        made[name] = NamedChain(inner, {}, "f.toml, line 2")
    own = {name: Written(what, here, "f.toml, line 1") for name, what in (components or {}).items()}
    return Config(chains=made, components=own)


def named(words: list[str | Written], known: Config) -> list[str]:
    """The names of the components that words stand for."""
    return [spec.name for spec in catalog.resolve_all(words, config=known)]


def one(word: str, known: Config) -> Spec:
    """The component that a word stands for."""
    (spec,) = catalog.resolve_all([word], config=known)
    return spec


def refused(words: list[str], known: Config) -> UsageError:
    """Why words stand for nothing."""
    with pytest.raises(UsageError) as error:
        catalog.resolve_all(words, config=known)
    return error.value


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with the programs `datetime`, `mine` and `tool` in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("datetime", "mine", "tool"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


# -- chains ----------------------------------------------------------------------------------------


def test_a_chain_stands_for_its_components_in_place() -> None:
    known = config({"inner": ["datetime"], "work": ["redact", "inner", "logging"]})
    for word in ("work", "@work"):
        whole = named(["passthrough", word, "demo"], known)
        assert whole == ["passthrough", "redact", "datetime", "logging", "demo"]


def test_a_chain_may_be_there_twice() -> None:
    known = config({"twice": ["passthrough"], "both": ["twice", "@twice"]})
    assert named(["both", "demo"], known) == ["passthrough", "passthrough-2", "demo"]


@pytest.mark.parametrize(
    ("chains", "circle"),
    [
        ({"a": ["datetime", "a"]}, "a → a"),
        ({"a": ["b"], "b": ["@c"], "c": ["a"]}, "a → b → c → a"),
        ({"x": ["a"], "a": ["b"], "b": ["a"]}, "a → b → a"),
    ],
)
def test_a_chain_that_names_itself_is_refused(chains: dict[str, list[Any]], circle: str) -> None:
    known, first = config(chains), next(iter(chains))
    error = refused([first, "demo"], known)
    assert error.text == f"f.toml, line 2: the chain `{circle[0]}` names itself: {circle}"
    with pytest.raises(UsageError, match="names itself"):
        names.named([first], known)


def test_chains_in_chains_cannot_multiply_for_ever() -> None:
    chains: dict[str, list[Any]] = {f"c{n}": [f"c{n + 1}"] * 2 for n in range(30)}
    for last in (["demo"], []):
        error = refused(["c0"], config({**chains, "c30": last}))
        assert "more than 1,000 components" in error.text


def test_chains_in_chains_are_not_deep() -> None:
    chains: dict[str, list[Any]] = {f"c{n}": [f"c{n + 1}"] for n in range(3000)}
    known = config({**chains, "c3000": ["demo"]})
    assert "more than 50 deep" in refused(["c0"], known).text
    with pytest.raises(UsageError, match="more than 50 deep"):
        names.named(["c0"], known)


@pytest.mark.parametrize("word", ["@work,only=full", "work,name=x", "work,colour=red"])
def test_options_belong_to_components_not_to_chains(word: str) -> None:
    error = refused([word, "demo"], config({"work": ["datetime"]}))
    assert "`work` is a chain, and options belong to one component" in error.text
    assert "[chains.work]" in error.hint


def test_an_unknown_chain_has_a_near_one() -> None:
    known = config({"review": ["datetime"]})
    error = refused(["@reviw", "demo"], known)
    assert (error.text, error.hint) == ("there is no chain `reviw`", "did you mean `@review`?")
    assert "there is no chain `review`" in refused(["@review"], Config()).text


def test_a_name_of_both_kinds_is_refused_unless_it_says_which() -> None:
    known = config({"x": ["datetime"]}, {"x": {"component": "redact"}})
    assert "both a chain and a component" in refused(["x", "demo"], known).text
    assert named(["@x", "demo"], known) == ["datetime", "demo"]


def test_the_chains_that_words_name_the_outer_ones_first() -> None:
    chains: dict[str, list[Any]] = {"a": ["b", "datetime"], "b": ["c"], "c": [], "d": ["demo"]}
    known = config(chains)
    assert names.named(["redact", "@a", "c", "demo"], known) == [
        known.chains[name] for name in ("a", "b", "c")
    ]


def test_a_chain_within_a_table_is_refused() -> None:
    known = config({"x": [{"component": "y"}], "y": ["datetime"]})
    assert "`y` is a chain, and one component is meant here" in refused(["x", "demo"], known).text


# -- components ------------------------------------------------------------------------------------


def test_a_component_has_the_name_of_its_table_or_its_own() -> None:
    known = config(
        components={
            "clock": {"component": "datetime"},
            "other": {"name": "own", "command": "cat"},
            "datetime": {"config": {"template": "{date}"}},
            "short": {"name": "datetime"},
        }
    )
    assert named(["clock", "other", "short", "demo"], known) == ["clock", "own", "short", "demo"]
    assert one("clock", known).bundled == "datetime"
    assert one("short", known).config == {"template": "{date}"}
    assert one("datetime", known).bundled == "datetime"


def test_options_on_the_command_line_stand_above_those_of_the_file() -> None:
    known = config(
        components={
            "p": {
                "component": "passthrough",
                "only": ["filter"],
                "allow": ["see:modes", "clock"],
                "config": {"a": 1, "b": 2},
            }
        }
    )
    assert one("p", known).policy.rights == ("filter", "see:modes", "clock")
    spec = one("p,config.b=3,allow=random,name=q", known)
    assert (spec.name, spec.config) == ("q", {"a": 1, "b": 3})
    assert spec.grants == frozenset({"clock", "random"})
    narrow = one("p,only=observer,deny=clock", known)
    assert narrow.policy.rights[0] == "observer"
    assert not narrow.grants


def test_what_makes_a_program_ambiguous_is_judged_with_all_its_options() -> None:
    known = config(components={"p": {"command": "cat", "only": ["full"]}})
    assert "only by their ids" in refused(["p", "demo"], known).text
    assert one("p,ids=kept", known).policy.ids == "kept"


def test_a_component_may_be_made_of_another() -> None:
    own = {"a": {"component": "b", "name": "a"}, "b": {"component": "datetime"}}
    known = config(components=own)
    assert (one("a", known).name, one("a", known).bundled) == ("a", "datetime")
    circle = config(components={"a": {"component": "b"}, "b": {"component": "a"}})
    assert "the component `a` names itself: a → b → a" in refused(["a"], circle).text


def test_errors_name_the_file_the_line_and_the_component() -> None:
    own = {"x": {"component": "datetime", "cpu": "soon"}}
    known = config({"c": ["./no.wasm", "demo"], "d": ["x", "demo"]}, own)
    assert refused(["d"], known).text.startswith("f.toml, line 1: `cpu=soon`")
    assert refused(["x"], known).text.startswith("f.toml, line 1: `cpu=soon` of `datetime`")
    assert refused(["c"], known).text.startswith("f.toml, line 3: no such module: `./no.wasm`")


def test_an_unknown_name_has_a_near_one_of_any_kind() -> None:
    known = config({"review": []}, {"strict": {"component": "redact"}})
    for word, near in (("reviw", "review"), ("strickt", "strict"), ("datetme", "datetime")):
        error = refused([word], known)
        assert error.text == f"`{word}` is neither a component nor a program on PATH"
        assert error.hint == f"did you mean `{near}`?"


def test_a_name_is_not_its_own_near_one() -> None:
    error = refused(["own"], config(components={"own": {"component": "own"}}))
    assert error.text == "f.toml, line 1: `own` is neither a component nor a program on PATH"
    assert "`own`" not in error.hint


# -- what hides what -------------------------------------------------------------------------------


def test_configuration_hides_bundled_and_bundled_hides_programs(on_path: Path) -> None:
    own: dict[str, dict[str, Any]] = {"datetime": {"command": "cat"}, "mine": {"command": "cat"}}
    known, said = config({"tool": ["datetime"]}, own), list[str]()
    words = ["datetime", "mine", "tool", "demo"]
    specs = catalog.resolve_all(words, config=known, note=said.append)
    assert [spec.bundled for spec in specs] == [None, None, None, "demo"]
    hides = "of the configuration (f.toml, line {}) hides the {}"
    program = f"program {on_path}/{{0}}; `path:{{0}}` means the program"
    bundled = f"the component `datetime` {hides.format(1, 'bundled component')}"
    assert said == [
        f"the chain `tool` {hides.format(2, program.format('tool'))}",
        bundled,
        f"the component `mine` {hides.format(1, program.format('mine'))}",
        bundled,
    ]
    said.clear()
    assert catalog.resolve_all(["datetime"], note=said.append)[0].sandboxed
    assert said == [f"the bundled component `datetime` hides the {program.format('datetime')}"]


def test_path_means_the_program(on_path: Path) -> None:
    known = config({"tool": ["datetime"]}, {"mine": {"component": "redact"}})
    for name in ("datetime", "mine", "tool"):
        spec = one(f"path:{name},name=p", known)
        assert (spec.command, spec.name) == ([f"{on_path}/{name}"], "p")
    assert one('"path:mine" --flag', known).command == [f"{on_path}/mine", "--flag"]
    assert "neither a component nor a program" in refused(["path:nothing-here"], known).text
    assert "`path:` without a program" in refused(["path:"], known).text


# -- paths of a file -------------------------------------------------------------------------------


def test_relative_paths_start_from_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    for folder in (here / "a folder", away):
        folder.mkdir(parents=True)
    monkeypatch.chdir(away)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", str(here))
    for name in ("p.py", "a folder/proxy.py"):
        (here / name).write_text(SOURCE)
    (here / "tool").write_text("#!/bin/sh\n")
    (here / "tool").chmod(0o755)
    written: list[Any] = [
        *("p.py", "./p.py", "~/p.py", "./a folder/proxy.py", "'./a folder/proxy.py'", "a folder/"),
        *(
            {"component": "p.py"},
            "./tool ./x ../y --z ./",
            {"command": "./tool", "args": ["~/q", "q/r"]},
        ),
        *("sh ./x", "datetime,config=s.toml", {"component": "datetime", "config": "~/s.toml"}),
    ]
    specs = [catalog.resolve(Written(what, str(here), "f.toml, line 3")) for what in written]
    assert [spec.script for spec in specs[:7]] == [
        *[f"{here}/p.py"] * 3,
        *[f"{here}/a folder/proxy.py"] * 2,
        *(f"{here}/a folder", f"{here}/p.py"),
    ]
    assert specs[7].command == [f"{here}/tool", f"{here}/x", f"{here}/../y", "--z", f"{here}/"]
    assert specs[8].command == [f"{here}/tool", f"{here}/q", "q/r"]
    assert (specs[9].command or [])[1:] == [f"{here}/x"]
    assert [spec.config_file for spec in specs[10:]] == [f"{here}/s.toml"] * 2


# -- quotes ----------------------------------------------------------------------------------------


def test_a_path_with_blanks_needs_no_quotes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    for name in ("p.py", "it's.py"):
        (folder / name).write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    for text in ("./a b/p.py", "'./a b/p.py'", "./a\\ b/p.py"):
        spec = catalog.resolve(f"{text},name=q")
        assert (spec.script, spec.name) == (f"{folder}/p.py", "q")
    assert catalog.resolve("./a b/it's.py").script == f"{folder}/it's.py"


def test_a_file_cannot_take_the_place_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sh x.py").write_text(SOURCE)
    (tmp_path / "no-program x.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    assert (catalog.resolve("sh x.py").command or [])[1:] == ["x.py"]
    assert catalog.resolve("no-program x.py").script == str(tmp_path / "no-program x.py")


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("sh 'p.wasm,allow=clock'", ["p.wasm,allow=clock"]),
        ('sh "p.wasm,allow=clock" x', ["p.wasm,allow=clock", "x"]),
        ("sh 'p.wasm,allow=clock',name=q", ["p.wasm,allow=clock"]),
        ("sh 'a b,name=x' \"c,name=y\",name=q", ["a b,name=x", "c,name=y"]),
    ],
)
def test_options_in_quotes_belong_to_the_command(written: str, arguments: list[str]) -> None:
    spec = catalog.resolve(written)
    assert (spec.command or [])[1:] == arguments
    assert spec.name == ("q" if written.endswith("name=q") else spec.name)
    assert spec.grants is None


# -- the command behind `--` -----------------------------------------------------------------------


def test_what_follows_is_one_command_as_it_was_typed() -> None:
    words = ["sh", "-c", "a b", "x,name=y", "--", "it's"]
    spec = catalog.resolve(Written(words))
    assert (spec.command or [])[1:] == words[1:]
    assert spec.name == "sh"
    assert catalog.resolve(Written(["demo", "--no-v2"])).bundled == "demo"


@pytest.mark.parametrize("words", [["datetime", "demo"], ["@work"], ["./p.wasm", "demo"], ["{}"]])
def test_a_component_is_no_command(words: list[str]) -> None:
    with pytest.raises(UsageError, match="is no command") as error:
        catalog.resolve(Written(words))
    assert "in front of `--`" in error.value.hint
