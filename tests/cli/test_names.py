"""Names of the configuration on the command line."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.configurations import Place, place
from tests.harness.process.rig import DEMO, Rig

REWRITER = """
from guest_sdk.python import Proxy
proxy = Proxy("rewriter", rights={"filter": "for its work"})

@proxy.request("session/prompt")
async def prompt(request, next):
    request.params["prompt"] = [{"type": "text", "text": "rewritten"}]
    return await next(request)
"""

ADDS = """
from guest_sdk.python import Proxy
proxy = Proxy("adds", rights={"context": "for its work"})

@proxy.request("session/prompt")
async def prompt(request, next):
    request.preface(proxy.config["word"])
    return await next(request)
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = place(tmp_path, monkeypatch)
    made.user_file.parent.mkdir(parents=True)
    (made.user_file.parent / "adds.py").write_text(ADDS)
    return made


def test_a_stack_of_three_named_components(here: Place) -> None:
    components = "".join(
        f'[components.{name}]\ncomponent = "./adds.py"\nonly = ["context"]\n'
        f'config.word = "{name}"\n'
        for name in ("one", "two", "three")
    )
    stack = '[chains.stack]\ncomponents = ["one", {component = "two"}, "three,name=last"]\n'
    here.user(f"{components}{stack}")
    for word in ("stack", "@stack"):
        ran = here.run("exec", word, "demo", "-p", "hi")
        assert (ran.code, ran.out) == (0, "three\ntwo\none\nhi\n"), ran.err
    here.user(components + stack.replace('{component = "two"}, ', ""))
    assert here.run("exec", "stack", "demo", "-p", "hi").out == "three\none\nhi\n"
    here.user(components.replace("[components.two]", "[components.zwei]") + stack)
    here.run("exec", "stack", "demo", "-p", "hi").assert_error(
        2, "line 14: `two` is neither a component nor a program on PATH", "hint: "
    )


def test_two_projects_two_chains(here: Place) -> None:
    here.user(
        """
[chains.rust]
components = ["redact", "logging"]
options.log = "info"
[chains.python]
components = ["datetime", "demo"]
[[choose]]
use = "rust"
when = {file = "Cargo.toml", dependency = "tokio"}
[[choose]]
use = "python"
when.dependency = "Some_Package"
"""
    )
    rust, python = here.project / "rust", here.project / "python"
    for folder in (rust, python):
        folder.mkdir()
    (rust / "Cargo.toml").write_text('[dependencies]\nrt = {package = "tokio", version = "1"}\n')
    (python / "pyproject.toml").write_text('[project]\ndependencies = ["some.package>=1"]\n')
    turn = ("exec", "-p", "hi", "--log", "info")
    ran = here.run(*turn, "--", "demo", cwd=rust)
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err
    why = f"info: conductor: chose the chain `rust` ({here.user_file}, line 7): "
    assert f"{why}{rust}/Cargo.toml lists `tokio`\n" in ran.err
    # The options of the chosen chain hold; what is chosen is no warning.
    assert why in here.run("exec", "-p", "hi", "--", "demo", cwd=rust).err
    for arguments, cwd in [((), python), (("--project", str(python)), rust)]:
        ran = here.run(*turn, *arguments, cwd=cwd)
        assert ran.out.endswith("hi\n"), ran.err
        assert ran.out.startswith("<current-date"), ran.err
        assert f"chose the chain `python` ({here.user_file}, line 10): {python}/py" in ran.err
    assert "chose" not in here.run(*turn, "demo", cwd=rust).err
    for command in (("agent",), ("exec", "-p", "hi")):
        ran = here.run(*command, cwd=here.project)
        ran.assert_error(2, f"`conductor {command[0]}` needs a COMPONENT", "[[choose]]")
    (python / "pyproject.toml").write_text("[project\n")
    ran = here.run(*turn, cwd=python)
    ran.assert_error(2, f"warning: conductor: {python}/pyproject.toml is passed over", "COMPONENT")


def test_a_choice_of_no_chain_is_told_where_it_is_for_the_project(here: Place) -> None:
    here.user('[chains.team]\ncomponents = ["demo"]\n[[choose]]\nuse = "tem"\nwhen.file = "*.tf"\n')
    told = f"{here.user_file}, line 3: there is no chain `tem`"
    assert told not in here.run("exec", "demo", "-p", "hi").err
    (here.project / "main.tf").touch()
    ran = here.run("exec", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n")
    assert f"warning: conductor: {told}; did you mean `team`?" in ran.err
    here.run("exec", "-p", "hi").assert_error(2, told, "did you mean `team`?")


def test_sessions_in_other_folders_are_reported_once(here: Place, rig: Rig) -> None:
    here.user('[chains.c]\ncomponents = ["demo"]\n[[choose]]\nuse = "c"\nwhen.file = "*.tf"\n')
    project = Path(os.path.realpath(rig.folder))
    (project / "main.tf").write_text("")
    chain = rig.agent()
    chain.initialize()
    for cwd in (project, project / "inner", "/elsewhere", "/elsewhere", "/else", project / ".."):
        chain.new_session(cwd=str(cwd))
    assert chain.finish() == 0
    for folder in ("/elsewhere", "/else", f"{project}/.."):
        said = f"a session is in {folder}, and the chain was chosen for {project}: chose the chain"
        assert chain.stderr.count(said) == 1, chain.stderr
    assert chain.stderr.count("a session is in ") == 3


def test_the_same_proxy_with_and_without_a_right(here: Place) -> None:
    (here.user_file.parent / "rewriter.py").write_text(REWRITER)
    here.user(
        '[components.narrow]\ncomponent = "rewriter.py"\nonly = ["observer"]\n'
        '[components.wide]\ncomponent = "rewriter.py"\nonly = ["full"]\n'
    )
    audit = here.project / "audit"
    for word, heard in (
        *(("narrow", "hi\n"), ("wide", "rewritten\n")),
        *(("wide,only=observer", "hi\n"), ("narrow,only=full", "rewritten\n")),
    ):
        ran = here.run("exec", "--audit", str(audit), word, "demo", "-p", "hi")
        assert (ran.code, ran.out) == (0, heard), ran.err
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        refused = [(r["component"], r["method"]) for r in records if r["event"] == "violation"]
        name = word.partition(",")[0]
        assert refused == ([(name, "session/prompt")] if heard == "hi\n" else []), records
        audit.unlink()


# -- other commands, and what a shell passes -------------------------------------------------------


def test_a_name_means_the_same_to_every_command(here: Place) -> None:
    here.user(
        '[components.adds]\ncomponent = "adds.py"\nconfig = {word = {secret = "file:word"}}\n'
        '[chains.work]\ncomponents = ["adds,only=context", "demo"]\n'
    )
    (here.user_file.parent / "word").write_text("never shown\n")
    assert here.run("exec", "work", "-p", "hi").out == "never shown\nhi\n"
    shown = json.loads(here.run("inspect", "--json", "adds").out)
    assert shown["config"] == {"word": {"secret": f"file:{here.user_file.parent}/word"}}
    assert here.run("lock", "work").code == 0
    assert here.run("exec", "--locked", "@work", "-p", "hi").out == "never shown\nhi\n"
    ran = here.run("exec", "--locked", "adds,only=full", "demo", "-p", "hi")
    ran.assert_error(2, "conductor.lock does not allow this chain", "adds")
    for word in ("work", "@work"):
        refused = here.run("inspect", word)
        refused.assert_error(2, f"`{word}` is a chain, and one component is meant")
        assert "`conductor agent @work --dry-run` shows" in refused.err
    # Another secret is another setting, though the lock shows neither.
    (here.user_file.parent / "other").write_text("another one\n")
    here.user(here.user_file.read_text().replace("file:word", "file:other"))
    ran = here.run("exec", "--locked", "work", "-p", "hi")
    ran.assert_error(2, "conductor.lock does not allow this chain", "file:")
    shown = here.run("config", "show")
    assert "never shown" not in (here.project / "conductor.lock").read_text() + shown.out


def test_what_a_client_puts_behind_a_prefix_is_the_agent(here: Place) -> None:
    """As Emacs' `agent-shell-command-prefix` does, and each client that has command and args."""
    here.user('[chains.review]\ncomponents = ["adds"]\n'
              '[components.adds]\ncomponent = "adds.py"\nonly = ["context"]\n'
              'config.word = "added"\n')  # fmt: skip
    agent = [sys.executable, str(DEMO), "--no-v2"]
    ran = here.run("exec", "-p", "hi", "@review", "--", *agent)
    assert (ran.code, ran.out) == (0, "added\nhi\n"), ran.err
    ran = here.run("exec", "-p", "hi", "@review", "--", "sh", "-c", f"exec {shlex.join(agent)}")
    assert (ran.code, ran.out) == (0, "added\nhi\n"), ran.err


@pytest.mark.parametrize(
    "component",
    ["{conductor} proxy 'passthrough,name=x'", '{conductor} proxy "passthrough,name=x" redact'],
)
def test_options_in_quotes_belong_to_the_conductor_within(here: Place, component: str) -> None:
    conductor = shlex.join([sys.executable, "-m", "conductor"])
    word = component.format(conductor=conductor)
    ran = here.run("exec", word, "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err


def test_a_path_with_a_blank_is_quoted_once(here: Place) -> None:
    folder = here.project / "a b"
    folder.mkdir()
    (folder / "p.py").write_text(ADDS)
    ran = here.run("exec", "./a b/p.py,config.word=added", "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "added\nhi\n"), ran.err


def test_a_chain_without_components_is_one_error(here: Place) -> None:
    here.user("[chains.empty]\ncomponents = []\n")
    ran = here.run("exec", "empty", "-p", "hi")
    ran.assert_error(2, "the chain has no component, and needs an agent", "`demo`")
    assert here.run("exec", "empty", "demo", "-p", "hi").out == "hi\n"
    here.run("lock", "empty").assert_error(2, "the chain has no component, and needs an agent")
