"""`conductor agent --dry-run`, and the names of setters in refusals."""

from pathlib import Path

import pytest

from tests.cli.configurations import Place, place
from tests.harness.process.command import Ran

FILE = """
[options]
require-sandbox = true
lock-file = "x.lock"

[components.clock]
component = "datetime"
allow = ["ask:user"]
memory = "32MiB"
on_failure = "restart+bypass"
"""


@pytest.fixture(name="here")
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = place(tmp_path, monkeypatch)
    made.user(FILE)
    return made


def agent(here: Place, *arguments: str) -> Ran:
    """The result of a dry run."""
    return here.run("agent", "--dry-run", *arguments, CONDUCTOR_RING="none")


def test_a_plan_tells_who_set_what(here: Place) -> None:
    ran = agent(here, "-c", "locked=false", "clock,deny=ask:user", "demo")
    assert (ran.code, ran.err) == (0, "")
    file = str(here.user_file)
    assert ran.out.splitlines() == [
        "proxy clock: datetime",
        "  manifest: rights.change:prompts, rights.clock",
        "  command line: deny.ask:user",
        f"  {file}, line 9: limits.memory_bytes",
        f"  {file}, line 10: on_failure",
        "agent demo: demo",
        "options",
        f"  {file}, line 3: require-sandbox = true",
        "  CONDUCTOR_RING: ring = 0",
        "  command line, -c locked: locked = false",
    ]


def test_nothing_is_started(here: Place) -> None:
    marker = here.project / "started"
    program = f"python -c open('{marker}','w')"
    ran = agent(here, "-c", "locked=false", "-c", "require-sandbox=false", program, "demo")
    assert ran.code == 0
    assert ran.out.startswith("proxy ")
    assert not marker.exists()


def test_refusals_name_the_place(here: Place) -> None:
    ran = agent(here, "-c", "locked=false", "python -c pass", "demo")
    ran.assert_error(
        2, f"is not sandboxed, and `require-sandbox` is set ({here.user_file}, line 3)"
    )
    lock = here.project / "x.lock"
    assert here.run("lock", "-o", str(lock), "clock,deny=ask:user", "demo").code == 0
    ran = agent(here, "-c", f"lock-file={lock}", "clock", "demo")
    ran.assert_error(2, f"rights: + ask:user ({here.user_file}, line 8)")


def test_config_show_lays_options_as_a_run_does(here: Place) -> None:
    """Who switches `locked` off does so whatever is below."""
    shown = here.run("config", "show", "-c", "locked=false")
    assert "lock-file" not in shown.out
    assert "lock-file" in here.run("config", "show").out
