"""`conductor agent ./my_proxy.py AGENT`: the same file, sandboxed, as a program, in process."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.guest_sdk.python.support import EXAMPLES
from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Chain, Rig
from tests.places import checkout_environment

pytestmark = pytest.mark.timeout(600)  # the first test may have the guest built

CLOCK: Final = ("-c", "clock=2025-10-08T12:34:56+00:00")
DATE: Final = "It is Wednesday 08 October 2025, 12:34."


def agent(rig: Rig, *components: str, options: tuple[str, ...] = CLOCK) -> Chain:
    """A chain that uses the user's cache of compiled modules, and stores nothing of the user's."""
    env = {
        "PYTHONPATH": f"{EXAMPLES}:{rig.folder}:{EXAMPLES.parents[2]}",
        "XDG_DATA_HOME": str(rig.folder / "data"),
        "XDG_STATE_HOME": str(rig.folder / "data"),
    }
    return rig.run("agent", *options, *components, **env)


def ways(rig: Rig, name: str, options: str = "") -> list[str]:
    """The component specs of one file."""
    path = EXAMPLES / f"{name}.py"
    return [
        f"{path}{options},name=it",
        rig.program("python", str(path), name="it"),
        f"py:{name}:proxy,name=it",
    ]


def test_one_file_three_ways(rig: Rig) -> None:
    for spec in ways(rig, "datetime_proxy", ",allow=clock"):
        chain = agent(rig, spec, rig.demo())
        assert chain.prompt(chain.begin(), "one") == f"{DATE}\none"
        assert chain.finish() == 0
        assert "warning" not in chain.stderr


def test_the_other_examples_behind_a_real_agent(rig: Rig) -> None:
    for spec in ways(rig, "shout", ",only=filter"):
        chain = agent(rig, spec, rig.demo())
        assert chain.prompt(chain.begin(), "hello") == "HELLO"
    for spec in ways(rig, "whoami", ",only=full"):
        chain = agent(rig, f"{spec},config.greeting=Moin" if "{" not in spec else spec, rig.demo())
        said = chain.prompt(chain.begin(), "/whoami")
        assert said in ("Moin in /; prompts: 1.", "You are in /; prompts: 1.")
    for spec in ways(rig, "add_tool"):
        chain = agent(rig, spec, rig.demo())
        assert chain.prompt(chain.begin(), '/tool add {"a": 2, "b": 3}') == "5"


def test_a_sub_session_needs_its_guard_lifted(rig: Rig) -> None:
    path = EXAMPLES / "second_opinion.py"
    chain = agent(rig, f"{path},allow=prompt:unseen+add:replies", rig.demo())
    said = chain.prompt(chain.begin(), "hi")
    assert said.endswith("hi\nYour first thought was: In one sentence: hi")
    chain = agent(rig, f"{path},only=full", rig.demo())
    answer = chain.answer(chain.start_prompt(chain.begin(), "hi"))
    assert "may not send `session/new` of its own" in answer["error"]["message"]


SERVICES: Final = """
from guest_sdk.python import Proxy, Refused, gather

proxy = Proxy("services")

@proxy.request("session/prompt")
async def prompt(request, next):
    try:
        said = await gather(files(), timers(), stored(), drawn())
    except Refused as refused:
        said = [refused.service, refused.granted]
    request.session.say(repr(said))
    return {"stopReason": "end_turn"}

async def files():
    found = await proxy.files.list(glob="**/*.md")
    name = found[0].path.rpartition("/")[2]
    return [await proxy.files.read(name), len(found), await proxy.files.exists(name)]

async def timers():
    fired = []
    every = await proxy.timer.every(0.01, lambda: fired.append(1))
    while len(fired) < 3:
        await proxy.timer.sleep(0.01)
    await every.stop()
    return "fired"

async def stored():
    await proxy.kv.set("a", {"b": 1.5})
    return [await proxy.kv.get("a"), await proxy.kv.keys(), await proxy.kv.delete("a")]

async def drawn():
    return [len(await proxy.random.bytes(3)), len(await proxy.random.uuid())]

if __name__ == "__main__":
    proxy.run()
"""


def test_services_are_the_same_in_the_sandbox_and_outside(rig: Rig) -> None:
    path = rig.folder / "services.py"
    path.write_text(SERVICES, encoding="utf-8")
    (rig.folder / "AGENTS.md").write_text("read me", encoding="utf-8")
    rights = "full+read:**/*.md+timer+storage+random"
    expected = "[['read me', 1, True], 'fired', [{'b': 1.5}, ['a'], True], [3, 36]]"
    program = rig.program("python", str(path), name="it")
    for spec in (f"{path},name=it,only={rights}", program):
        chain = agent(rig, spec, rig.demo())
        chain.initialize()
        session = chain.new_session(cwd=str(rig.folder))
        assert chain.prompt(session, "go") == expected
    chain = agent(rig, f"{path},only=full", rig.demo())
    assert chain.prompt(chain.begin(), "go") == "['files/list', False]"


def test_python_beside_other_guests_in_one_process(rig: Rig) -> None:
    path = EXAMPLES / "datetime_proxy.py"
    chain = agent(rig, "passthrough", f"{path},allow=clock", "datetime", rig.demo())
    assert chain.prompt(chain.begin(), "one") == (
        f'<current-date date="2025-10-08" time="12:34:56"/>\n{DATE}\none'
    )


def test_a_file_that_cannot_be_loaded_is_answered_and_shown(rig: Rig) -> None:
    path = rig.folder / "broken.py"
    path.write_text("from guest_sdk.python import Proxy\n\nproxy = Prox('x')\n", encoding="utf-8")
    chain = agent(rig, f"{path},only=full", rig.demo())
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    why = "NameError: name 'Prox' is not defined"
    assert f"proxy `broken` (broken.py) could not be loaded: {why}" in answer["error"]["message"]
    assert chain.finish() == 1
    assert 'File "broken.py", line 3, in <module>' in chain.stderr


def test_a_changed_file_takes_over_and_a_broken_one_does_not(rig: Rig) -> None:
    path = rig.folder / "mine.py"

    def write(word: str) -> None:
        text = (EXAMPLES / "shout.py").read_text(encoding="utf-8")
        new = rig.folder / "new"
        new.write_text(text.replace("update.text.upper()", word), encoding="utf-8")
        new.replace(path)  # at once: nobody sees half of it

    write("'first'")
    watched = ("--reload", "--log", "info")
    chain = agent(rig, f"{path},only=filter", rig.demo(), options=watched)
    session = chain.begin()
    assert chain.prompt(session, "x") == "first"
    write("'broken' +")
    chain.until_stderr("the new build is not used")
    assert chain.prompt(session, "x") == "first"
    write("'second'")
    chain.until_stderr("replaced by its new build")
    assert chain.prompt(session, "x") == "second"


def test_inspect_shows_what_a_file_declares(rig: Rig) -> None:
    path = EXAMPLES / "datetime_proxy.py"
    done = subprocess.run(
        [*COMMAND, "inspect", "--json", str(path)], capture_output=True, check=True, cwd=rig.folder
    )
    card = json.loads(done.stdout)
    assert card["kind"] == "Python file"
    assert card["sandboxed"] is True
    assert card["file"] == str(path)
    assert card["wants"]["rights"]["clock"] == "to say what day it is"
    assert card["wants"]["lacking"] == ["clock"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("./nothing.py", "no such file: `./nothing.py`"),
        ("./empty/", "`./empty/` is a folder without a proxy"),
    ],
)
def test_what_is_no_proxy_is_a_mistake_of_the_command_line(rig: Rig, spec: str, text: str) -> None:
    (rig.folder / "empty").mkdir()
    chain = agent(rig, spec, rig.demo())
    assert chain.finish() == 2
    assert text in chain.stderr


def test_an_agent_in_python_is_a_program(rig: Rig) -> None:
    path = rig.folder / "mine.py"
    path.write_text("", encoding="utf-8")
    chain = agent(rig, "datetime", str(path))
    assert chain.finish() == 2
    assert f'"python {path}"' in chain.stderr


def test_a_lock_holds_the_source(rig: Rig) -> None:
    path = rig.folder / "mine.py"
    path.write_bytes((EXAMPLES / "shout.py").read_bytes())
    run = partial(subprocess.run, capture_output=True, text=True, cwd=rig.folder, check=False)
    mine = "./mine.py,only=filter"
    assert run([*COMMAND, "lock", mine, "demo"]).returncode == 0
    chain = agent(rig, mine, "demo", options=("--locked",))
    assert chain.prompt(chain.begin(), "hello") == "HELLO"
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    refused = run([*COMMAND, "agent", "--locked", mine, "demo"], input="")
    assert refused.returncode == 2
    assert "does not allow this chain" in refused.stderr
    assert "mine" in refused.stderr


def test_a_program_that_never_runs_its_proxy_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "forgot.py"
    text = (EXAMPLES / "shout.py").read_text(encoding="utf-8")
    path.write_text(text.partition("if __name__")[0], encoding="utf-8")
    env = checkout_environment()
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=env, check=True
    )
    assert "proxy `shout` was declared and never run" in done.stderr
    assert "`proxy.run()`" in done.stderr


@pytest.mark.parametrize("instead", ["1 / 0", "Proxy('other').run()"])
def test_one_that_fails_or_runs_another_is_not(tmp_path: Path, instead: str) -> None:
    path = tmp_path / "forgot.py"
    text = (EXAMPLES / "shout.py").read_text(encoding="utf-8")
    path.write_text(text.partition("if __name__")[0] + instead, encoding="utf-8")
    env = checkout_environment()
    done = subprocess.run(
        [sys.executable, str(path)], input="", capture_output=True, text=True, env=env, check=False
    )
    assert "never run" not in done.stderr
