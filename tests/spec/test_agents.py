"""The known agents: their table, and what a word of a chain comes to."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from conductor.errors import UsageError
from conductor.spec import agents, catalog
from conductor.spec.config.model import Config, Written
from conductor.spec.programs import is_name, is_reserved

# acpx 0.19.1; the ACP registry in August 2026, but for a marketplace and a lone archive.
ACPX = (
    "pi openclaw codex claude gemini cursor copilot antigravity devin droid factory-droid "
    "factorydroid fast-agent fx grok-build iflow junie kilocode kimi kiro mcode mux opencode "
    "pool qoder qwen trae zeroclaw"
)
REGISTRY = (
    "amp-acp auggie autohand claude-acp cline codebuddy-code codex-acp cortex-code crow-cli "
    "cursor deepagents devin dimcode dirac factory-droid fast-agent gemini github-copilot "
    "github-copilot-cli glm-acp-agent goose grok-build harn junie kilo kimi minion-code "
    "mistral-vibe nova opencode pi-acp poolside qoder qwen-code sigit stakpak vtcode"
)


@pytest.fixture(name="programs")
def _programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def _add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def _refused(word: str) -> UsageError:
    with pytest.raises(UsageError) as error:
        catalog.resolve(word)
    return error.value


# -- the table -------------------------------------------------------------------------------------


def test_each_word_means_one_agent() -> None:
    words = [word for agent in agents.table() for word in (agent.id, *agent.aliases)]
    programs = [program for agent in agents.table() for program in agent.all_programs]
    for all_of_them in (words, programs):
        assert [word for word, number in Counter(all_of_them).items() if number > 1] == []
    assert [agent.id for agent in agents.table()] == sorted(agent.id for agent in agents.table())


@pytest.mark.parametrize("agent", agents.table(), ids=lambda agent: agent.id)
def test_a_row_is_complete_and_in_its_form(agent: agents.KnownAgent) -> None:
    for word in (agent.id, *agent.aliases):
        assert is_name(word)
        assert not is_reserved(word)
        assert catalog.bundled_manifest(word) is None
    assert re.fullmatch("[a-z][a-z0-9-]*", agent.id)
    assert re.match(r"(npm install -g|uv tool install|cargo install|curl) \S", agent.install)
    assert re.match(r"(run `|set |write |follow |nothing )", agent.login)
    for text in (agent.install, agent.login, *agent.quirks):
        assert text.count("`") % 2 == 0
        assert not text.endswith(".")


def test_what_acpx_and_the_registry_list_is_known() -> None:
    listed = f"{ACPX} {REGISTRY}".split()
    assert [word for word in listed if agents.named(word) is None] == []


@pytest.mark.parametrize(
    ("command", "agent"),
    [
        (["/opt/bin/opencode", "acp"], "opencode"),
        (["gemini.cmd", "--acp"], "gemini"),
        (["npx", "-y", "opencode-ai@latest", "acp"], "opencode"),
        (["npx", "@google/gemini-cli@0.61.0", "--acp"], "gemini"),
        (["/usr/bin/npx", "@google/gemini-cli"], "gemini"),
        (["uvx", "fast-agent-acp==0.10.1", "-x"], "fast-agent"),
        (["npx", "somebody/gemini-cli"], None),
        (["node", "gemini"], None),
        (["python", "agent.py"], None),
        ([], None),
    ],
)
def test_a_command_is_recognised_by_its_program_or_package(
    command: list[str], agent: str | None
) -> None:
    known = agents.of_command(command)
    assert (known.id if known else None) == agent


# -- a word of a chain -----------------------------------------------------------------------------


def test_a_word_starts_the_agent_with_its_arguments(programs: Path) -> None:
    _add(programs, "opencode", "droid")
    spec = catalog.resolve("opencode")
    assert (spec.name, spec.source) == ("opencode", "opencode")
    assert spec.command == [f"{programs}/opencode", "acp"]
    spec = catalog.resolve("factory-droid,name=worker")
    assert spec.name == "worker"
    assert spec.command == [f"{programs}/droid", "exec", "--output-format", "acp"]
    assert catalog.resolve("factory-droid").name == "droid"


def test_several_words_stay_as_they_are_typed(programs: Path) -> None:
    _add(programs, "opencode")
    assert catalog.resolve("opencode --x").command == [f"{programs}/opencode", "--x"]
    assert catalog.resolve("path:opencode").command == [f"{programs}/opencode"]
    assert catalog.resolve('{"command": "opencode"}').command == [f"{programs}/opencode"]
    assert catalog.resolve('{"name": "opencode"}').command == [f"{programs}/opencode", "acp"]


def test_a_word_is_an_agent_only_where_the_agent_stands(programs: Path) -> None:
    """A proxy of the user may be called like one."""
    _add(programs, "mux", "opencode")
    proxy, agent = catalog.resolve_all(["mux", "mux"])
    assert (proxy.command, agent.command) == ([f"{programs}/mux"], [f"{programs}/mux", "acp"])
    (proxy,) = catalog.resolve_all(["mux"], agent_last=False)
    assert proxy.command == [f"{programs}/mux"]
    own = Config(components={"other": Written({"component": "mux"}, "", "f.toml, line 1")})
    proxy, agent = catalog.resolve_all(["other", "other"], config=own)
    assert (proxy.command, agent.command) == ([f"{programs}/mux"], [f"{programs}/mux", "acp"])
    with pytest.raises(UsageError) as error:
        catalog.resolve_all(["goose", "opencode"])
    assert error.value.text == "`goose` is an agent, and stands where a proxy does"
    assert "last component" in error.value.hint


def test_either_program_of_claude_is_the_agent(programs: Path) -> None:
    _add(programs, "claude-code-acp")
    for word in ("claude", "claude-agent-acp", "claude-code-acp"):
        spec = catalog.resolve(word)
        assert (spec.name, spec.command) == ("claude", [f"{programs}/claude-code-acp"])
    assert catalog.resolve("claude-agent-acp --x").command == [f"{programs}/claude-code-acp", "--x"]
    _add(programs, "claude-agent-acp")
    assert catalog.resolve("claude").command == [f"{programs}/claude-agent-acp"]
    assert catalog.resolve("claude-code-acp").command == [f"{programs}/claude-code-acp"]


def test_an_agent_that_is_not_there_names_what_installs_it(programs: Path) -> None:
    error = _refused("opencode")
    assert error.text == (
        "the agent `opencode` is not installed: there is no program `opencode` on PATH"
    )
    assert error.hint == "install it with `npm install -g opencode-ai`"
    assert _refused("gemini --acp").hint == "install it with `npm install -g @google/gemini-cli`"
    _add(programs, "claude")
    error = _refused("claude")
    assert "`claude-agent-acp` or `claude-code-acp` on PATH" in error.text
    assert error.hint == (
        "install it with `npm install -g @agentclientprotocol/claude-agent-acp`; "
        "`path:claude` is another program"
    )


def test_a_word_near_an_agents_is_asked_about(programs: Path) -> None:
    assert _refused("opencod").hint == "did you mean `opencode`?"
    assert "`conductor list --bundled` lists" in _refused("xyzzy").hint


def test_what_comes_before_hides_an_agent(programs: Path, tmp_path: Path) -> None:
    """A path is no name; a note says which program an agent hides."""
    _add(programs, "cursor", "cursor-agent")
    (tmp_path / "opencode").mkdir()
    said: list[str] = []
    (spec,) = catalog.resolve_all(["cursor"], note=said.append)
    assert spec.command == [f"{programs}/cursor-agent", "acp"]
    hidden = f"program {programs}/cursor; `path:cursor` means the program"
    assert said == [f"the known agent `cursor` hides the {hidden}"]
    said.clear()
    own = Config(components={"gemini": Written({"command": "cursor"}, "", "f.toml, line 1")})
    assert catalog.resolve_all(["gemini"], config=own, note=said.append)[0].name == "gemini"
    assert said == [
        "the component `gemini` of the configuration (f.toml, line 1) hides the known agent"
    ]
    _add(tmp_path / "opencode", "opencode")
    path = os.fspath(tmp_path / "opencode" / "opencode")
    assert catalog.resolve(path).command == [path]
