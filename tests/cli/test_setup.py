"""`conductor setup` through its command line, for a user with an empty home folder."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import app
from conductor.client.probe_exchange import Probe
from conductor.editors import launcher, table
from conductor.editors.target import Launch
from conductor.errors import UsageError
from tests.editors.home import SETTINGS, Home
from tests.editors.home import home as make_home
from tests.harness.process.command import Ran
from tests.harness.process.managed import Machine
from tests.places import PASSTHROUGH

ZED = """// Zed's settings
{
   "theme": "One Dark", // dark
   "agent_servers": {
      "Agent": {
         "type": "custom",
         "command": "demo", // in front
         "default_mode": "plan",
      },
   },
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user without settings of any editor."""
    return make_home(tmp_path)


def fine(ran: Ran) -> str:
    """The output of a command that succeeded."""
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.parametrize("editor", sorted(SETTINGS))
def test_an_entry_goes_in_and_out(home: Home, editor: str) -> None:
    said = fine(home.run("setup", editor, "demo"))

    path = home.settings(editor)
    assert str(path) in said
    launch = home.launch(editor)
    assert launch == Launch(str(home.conductor), ["agent", "demo"])
    assert "\n  tested     Demo agent " in said
    [undo] = [line.split("undo")[1].split() for line in said.splitlines() if "undo" in line]
    assert undo == ["conductor", "setup", editor, "--remove"]
    fine(home.run(*undo[1:]))
    assert not path.exists()


def test_nobody_else_may_write_in_the_folders_it_makes(home: Home) -> None:
    before = os.umask(0)
    try:
        fine(home.run("setup", "zed", "demo"))
    finally:
        os.umask(before)

    made = [each for each in home.path.rglob("*") if each.name != "conductor" or each.is_dir()]
    assert {each.name for each in made} >= {".config", "zed", "state", "editors", "logs"}
    assert [each for each in made if each.stat().st_mode & 0o022] == []


SHAPES: dict[str, Any] = {
    "jetbrains": {"agent_servers": {"Conductor": {"command": "C", "args": ["agent"], "env": {}}}},
    "vscode": {"acp.agents": {"Conductor": {"command": "C", "args": ["agent"], "env": {}}}},
    "zed": {
        "agent_servers": {
            "Conductor": {"type": "custom", "command": "C", "args": ["agent"], "env": {}}
        }
    },
    "acpx": {"agents": {"conductor": {"command": "C", "args": ["agent"]}}},
}


def test_it_prints_what_it_would_write_and_writes_nothing(home: Home) -> None:
    for editor, shape in SHAPES.items():
        ran = home.run("setup", editor, "--print", "demo")

        printed = json.loads(fine(ran))
        assert str(home.path / SETTINGS[editor]) in ran.err
        text = json.dumps(printed).replace(str(home.conductor), "C").replace(', "demo"', "")
        assert json.loads(text) == shape
        assert not (home.path / SETTINGS[editor]).exists()


def test_what_does_not_do_what_it_is_there_for_is_named(home: Home) -> None:
    ran = home.run("setup", "zed", "budget", "passthrough,only=none", "demo")
    fine(ran)
    assert "warning: budget: it does nothing without the setting `tokens` or `cost`" in ran.err
    assert "warning: passthrough: it does not get what it asks for: `full`" in ran.err


def test_comments_and_all_else_stay_and_a_second_time_nothing_happens(home: Home) -> None:
    path = home.settings("zed", ZED)

    said = fine(home.run("setup", "zed", "datetime", "demo", "--name", "Mit Zeit"))
    written = path.read_text()
    again = fine(home.run("setup", "zed", "datetime", "demo", "--name", "Mit Zeit"))

    assert again.startswith("nothing to be done: ")
    assert path.read_text() == written
    kept = next(line.split("kept in ")[1] for line in said.splitlines() if "kept in" in line)
    assert Path(kept).read_text() == ZED
    start = ZED.index('\n      "Agent"')
    assert written.startswith(ZED[:start])
    assert written.endswith(ZED[start:])
    path.write_text(written.replace("// dark", "// very dark"))
    fine(home.run("setup", "zed", "--remove", "--name", "Mit Zeit"))
    assert path.read_text() == ZED.replace("// dark", "// very dark")


def test_an_entry_is_wrapped_and_given_back(home: Home) -> None:
    path = home.settings("zed", ZED)

    said = fine(home.run("setup", "zed", "datetime", "--wrap", "Agent"))

    assert home.launch("zed", "Agent").args == ["agent", "datetime", "--", "demo"]
    assert '"default_mode": "plan"' in path.read_text()
    assert "undo       conductor setup zed --remove --name Agent" in said
    fine(home.run("setup", "zed", "--remove", "--name", "Agent"))
    assert path.read_text() == ZED


def test_what_a_failing_agent_prints_has_no_secrets_of_its_entry(home: Home) -> None:
    broken = home.program(
        "broken-agent", 'echo "no access with $2 and $MODEL_API_KEY" >&2', "exit 3"
    )
    arguments = ["--api-key", "abc-def-1234567", "--token=ghi-jkl-1234567"]
    env = {"MODEL_API_KEY": "mno-pqr-1234567"}
    entry = {"command": str(broken), "args": arguments, "env": env}
    path = home.settings("zed", json.dumps({"agent_servers": {"Agent": entry}}))
    before = path.read_bytes()

    ran = home.run("setup", "zed", "datetime", "--wrap", "Agent")

    ran.assert_error(1, "Zed could not start this", "broken-agent", "[redacted]")
    assert "1234567" not in ran.err
    assert path.read_bytes() == before


def test_nothing_is_left_of_what_was_added(home: Home) -> None:
    def there() -> list[str]:
        ours = (home.path / ".local" / "state", home.path / ".cache")
        found = [each for each in home.path.rglob("*") if not any(map(each.is_relative_to, ours))]
        return sorted(map(str, found))

    before = there()

    fine(home.run("setup", "vscode", "demo"))
    fine(home.run("setup", "vscode", "--remove"))

    assert there() == before


def test_what_does_not_start_is_not_written(home: Home) -> None:
    broken = home.program("broken-agent", "echo I have no model >&2", "exit 3")
    home.settings("zed", ZED)

    ran = home.run("setup", "zed", str(broken))

    ran.assert_error(1, "Zed could not start this", "I have no model", "nothing was changed")
    assert home.settings("zed").read_text() == ZED


def test_the_path_of_the_terminal_is_written_where_it_is_needed(home: Home) -> None:
    home.program("my-agent", f'exec "{home.conductor}" agent demo')

    said = fine(home.run("setup", "jetbrains", "my-agent"))

    assert "PATH" in said
    assert home.launch("jetbrains").env == {"PATH": home.env["PATH"]}
    assert home.launch("jetbrains").args == ["agent", "my-agent"]


def test_two_at_once_both_get_in(home: Home) -> None:
    path = home.settings("zed", ZED)
    both = [home.command("setup", "zed", "demo", "--name", name) for name in ("One", "Two")]

    assert [each.wait() for each in both] == [0, 0]
    for each in both:
        each.communicate()

    assert home.launch("zed", "One") == home.launch("zed", "Two")
    for name in ("One", "Two"):
        fine(home.run("setup", "zed", "--remove", "--name", name))
    assert path.read_text() == ZED


def test_a_policy_refuses_what_it_refuses_at_any_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow('[[deny]]\nname = "datetime"')
    home = make_home(tmp_path / "user", machine.policy)

    ran = home.run("setup", "zed", "datetime", "demo")

    ran.assert_error(2, "managed policy", "conductor runs nothing until that is mended")
    assert not home.settings("zed").exists()


# -- which chain -----------------------------------------------------------------------------------


@pytest.fixture
def started() -> list[list[str]]:
    """The commands that were started to test an entry."""
    return []


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]) -> Path:
    """The current folder, for a user without files; chains are neither compiled nor started."""

    def probe(words: list[str], *_: object, **__: object) -> Probe:
        started.append(words)
        return Probe(answers=True, name="an agent")

    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("conductor.client.probe.probe", probe)
    monkeypatch.setattr("conductor.run.compiled.compile_ahead", lambda *_, **__: None)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def written(*arguments: str) -> list[str]:
    """The words behind the launcher in the entry that a command line writes."""
    assert app.main(["setup", "acpx", *arguments]) == 0
    path = Path(os.environ["HOME"], SETTINGS["acpx"])
    entry = json.loads(path.read_text())["agents"]["conductor"]
    return list(entry["args"][entry["args"].index("agent") :])


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a command line that writes nothing."""
    assert app.main(["setup", "acpx", *arguments]) == 2
    assert not Path(os.environ["HOME"], SETTINGS["acpx"]).exists()
    return capsys.readouterr().err


def configure(path: Path, text: str) -> None:
    """Writes a file of configuration."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


CHAIN = '[chains.work]\ncomponents = ["datetime", "demo"]\n'


def test_a_chain_of_the_users_configuration(here: Path) -> None:
    configure(here.parent / "xdg_config_home" / "conductor" / "conductor.toml", CHAIN)

    assert written("--chain", "work") == ["agent", "@work"]
    assert written("--chain", "@work") == ["agent", "@work"]
    assert written("work") == ["agent", "work"]


def test_a_chain_that_there_is_not(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(here.parent / "xdg_config_home" / "conductor" / "conductor.toml", CHAIN)

    assert "did you mean `work`?" in refused(capsys, "--chain", "wrok")


def test_a_chain_of_a_project_needs_the_project(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(here / "conductor.toml", CHAIN)
    app.main(["trust", "."])

    for words in (["--chain", "work"], ["work"]):
        said = refused(capsys, *words)
        assert f"--project {here}" in said
        assert str(here / "conductor.toml") in said
    assert written("--chain", "work", "--project", ".") == [
        *("agent", "--project", str(here), "@work"),
    ]


def test_no_chain_at_all_shows_both_ways(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys)

    assert "conductor setup zed datetime" in said
    assert "--chain work" in said


def test_the_chain_that_fits_the_project(here: Path, started: list[list[str]]) -> None:
    choose = CHAIN + '[[choose]]\nuse = "work"\n'
    configure(here.parent / "xdg_config_home" / "conductor" / "conductor.toml", choose)

    assert written() == ["agent"]
    assert started[-1][-3:] == ["agent", "--project", str(here)], "it is tested in this project"


def test_paths_are_absolute_and_names_are_not(here: Path) -> None:
    (here / "my proxy.wasm").write_bytes(PASSTHROUGH.read_bytes())
    (here / "tool").mkdir()
    (here / "tool" / "run").write_text("#!/bin/sh\n")
    (here / "tool" / "run").chmod(0o755)

    assert written("./my proxy.wasm,allow=clock", "demo") == [
        *("agent", f"'{here}/my proxy.wasm',allow=clock", "demo"),
    ]
    assert written("datetime", "tool/run --fast ./x y") == [
        *("agent", "datetime", f"{here}/tool/run --fast {here}/x y"),
    ]
    assert written("datetime", "--", "./tool/run", "-a", "./b") == [
        *("agent", "datetime", "--", f"{here}/tool/run", "-a", f"{here}/b"),
    ]
    assert written("--", "demo") == ["agent", "--", "demo"]
    (here / "agent.py").write_text("")
    assert written("python3 agent.py agent.txt") == ["agent", f"python3 {here}/agent.py agent.txt"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--chain", "work", "demo"], "exclude each other"),
        (["--name", " ", "demo"], "needs a name"),
        (["--remove", "demo"], "takes no components"),
        (["--wrap", "a", "--", "demo"], "takes the command of the entry"),
        (["--wrap", "a", "--name", "b", "demo"], "exclude each other"),
        (["--wrap", "a", "datetime"], "has no entry `a`"),
        (["nosuchagent"], "neither a component nor a program"),
        (["--remove"], "has added no entry `Conductor`"),
    ],
)
def test_what_makes_no_sense_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


def test_an_editor_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["setup", "zedd", "demo"]) == 2
    assert "did you mean `zed`?" in capsys.readouterr().err


def test_the_list_of_editors(home: Home) -> None:
    home.settings("zed", ZED)

    # A row that is wider than the terminal has the path below.
    said = fine(home.run("setup"))
    words = said.split()

    assert {*SETTINGS} <= {*words}
    at = words.index("Zed")
    assert words[at : at + 3] == ["Zed", "zed", str(home.settings("zed"))]
    at = words.index("CodeCompanion")
    assert words[at - 1 : at + 2] == ["Neovim:", "CodeCompanion", "codecompanion"]
    assert said.splitlines()[-2:] == [
        "an entry of ours: conductor setup EDITOR COMPONENT… AGENT",
        "for example:      conductor setup zed datetime demo",
    ]


@pytest.mark.parametrize(
    ("name", "title"), [("code", "VS Code"), ("Code", "VS Code"), ("vs-code", "VS Code"),
                        ("WebStorm", "JetBrains"), ("agent-shell", "Emacs")],
)  # fmt: skip
def test_an_editor_by_the_name_of_its_program(name: str, title: str) -> None:
    assert table.find(name).title == title


@pytest.mark.parametrize("name", ["nvim", "neovim", "Neovim"])
def test_neovim_is_the_plugin_that_its_settings_name(home: Home, name: str) -> None:
    ran = home.run("setup", name, "demo", "--print")
    ran.assert_error(2, "CodeCompanion or avante; your settings name neither", "setup avante …")
    init = home.path / ".config" / "nvim" / "init.lua"
    init.parent.mkdir(parents=True, exist_ok=True)
    init.write_text('require("avante").setup({})\n')
    assert "acp_providers" in fine(home.run("setup", name, "demo", "--print"))
    fine(home.run("setup", "codecompanion", "demo"))  # our own file is no setting of the user's
    assert "acp_providers" in fine(home.run("setup", name, "demo", "--print"))
    init.write_text('require("avante").setup({})\nrequire("codecompanion").setup({})\n')
    home.run("setup", name, "demo", "--print").assert_error(2, "your settings name both")


def test_a_mistake_in_the_file_has_its_place_and_a_way_out(home: Home) -> None:
    path = home.settings("zed", '{\n  "theme": "One Dark\n}\n')

    ran = home.run("setup", "zed", "demo")

    ran.assert_error(2, f"{path}:2:12: ", "nothing was changed", "--print")
    assert '"Conductor"' in fine(home.run("setup", "zed", "demo", "--print"))


# -- the launcher ----------------------------------------------------------------------------------


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of links to programs, as `uv tool` and `pipx` keep them, on PATH."""
    links = tmp_path / "bin"
    links.mkdir()
    monkeypatch.setenv("PATH", f"relative:{links}:/usr/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for variable in ("XDG_CACHE_HOME", "UV_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    return links


def program(folder: Path, first: str = "#!/bin/sh") -> Path:
    """A program called `conductor`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "conductor"
    path.write_text(f"{first}\n")
    path.chmod(0o755)
    return path


def test_the_link_is_written_and_not_what_it_leads_to(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = program(tmp_path / "tools" / "conductor-acp" / "1.2.3" / "bin")
    (tools / "conductor").symlink_to(real)

    for started in (real, tools / "conductor"):
        monkeypatch.setattr(sys, "argv", [str(started), "setup"])
        assert launcher.command() == [str(tools / "conductor")]


def test_the_module_means_the_program_beside_its_python(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = program(tmp_path / "venv" / "bin", f"#!{sys.executable}")
    (tools / "conductor").symlink_to(real)
    monkeypatch.setattr(sys, "argv", ["/x/conductor/__main__.py"])
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(real.parent))

    assert launcher.command() == [str(tools / "conductor")]
    real.write_text("#!/other/python\n")
    assert launcher.command() == [sys.executable, "-P", "-m", "conductor"]


def test_another_conductor_on_path_is_not_ours(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = program(tmp_path / "venv" / "bin")
    program(tools)
    monkeypatch.setattr(sys, "argv", [str(real)])

    assert launcher.command() == [str(real)]


def test_a_program_in_a_cache_is_refused(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = program(tmp_path / "home" / ".cache" / "uv" / "archive-v0" / "x" / "bin")
    monkeypatch.setattr(sys, "argv", [str(real)])

    with pytest.raises(UsageError, match="runs from a cache") as caught:
        launcher.command()

    assert "uv tool install" in caught.value.hint


def test_a_chain_without_an_agent_is_refused_before_anything_starts(home: Home) -> None:
    ran = home.run("setup", "zed", "datetime")
    ran.assert_error(2, "the last component, `datetime`, is a sandboxed proxy", "such as `demo`")
    assert "compiling" not in ran.err
    assert not home.settings("zed").exists()
