"""A component that does nothing without a setting says so."""

from pathlib import Path

import pytest

from conductor.errors import UsageError
from conductor.spec import catalog
from conductor.spec.manifest.reading import parse
from tests.harness.process.command import conductor

IDLE = [
    (name, needed)
    for name in catalog.bundled()
    if (manifest := catalog.resolve(name).manifest) is not None
    and (needed := manifest.idle_without)
]


def test_the_bundled_components_that_need_a_setting() -> None:
    assert [name for name, _ in IDLE] == [
        "a2a", "budget", "capability", "decide", "hooks", "mcp-attach", "permission-guard",
        "personality", "prompt-prefix", "router", "system-prompt", "tool-filter",
    ]  # fmt: skip


@pytest.mark.proves("any other component says at")
@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize(("name", "needed"), IDLE)
def test_it_says_so_and_passes_everything_on(name: str, needed: list[str]) -> None:
    ran = conductor("exec", name, "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n")
    said = [line for line in ran.err.splitlines() if "does nothing without" in line]
    names = " or ".join(f"`{key}`" for key in needed)
    what = f"it does nothing without the setting {names}: `,config.{needed[0]}=…`"
    assert said == [f"warning: {name}: {what}"]


@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize("way", ["command line", "file"])
def test_with_a_setting_it_is_silent(tmp_path: Path, way: str) -> None:
    (tmp_path / "settings.toml").write_text('suffix = "end"\n')
    given = "config.suffix=end" if way == "command line" else "config=settings.toml"
    ran = conductor("exec", f"prompt-prefix,{given}", "demo", "-p", "hi", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "hi\nend\n", "")


@pytest.mark.usefixtures("python_guest")
def test_one_that_only_sees_set_ups_knows_the_session_of_the_first_prompt(tmp_path: Path) -> None:
    """`{cwd}` stands for the folder of the session."""
    given = "prompt-prefix,config.text=in {cwd}"
    ran = conductor("exec", given, "demo", "-p", "hi", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, f"in {tmp_path.resolve()}\nhi\n", "")


def test_a_manifest_names_settings_that_it_has() -> None:
    text = b'name = "a"\nfile = "a.py"\nidle_without = ["ruels"]\n[config]\nrules = "the rules"\n'
    with pytest.raises(UsageError, match="line 3") as error:
        parse(text)
    assert "rules" in error.value.hint
