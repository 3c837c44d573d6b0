"""The commands that the issue promises, typed as the issue writes them."""

import shutil
import sys

from tests.harness.process.command import COMMAND
from tests.harness.process.rig import Rig


def _modules(rig: Rig, *names: str) -> list[str]:
    for name in names:
        shutil.copy(rig.bundled("passthrough"), rig.folder / f"{name}.wasm")
    return [f"./{name}.wasm" for name in names]


def test_four_sandboxed_proxies_and_the_demo(rig: Rig) -> None:
    chain = rig.agent(*_modules(rig, "a", "b", "c", "d"), "demo")
    assert chain.prompt(chain.begin(), "hi") == "hi"
    assert chain.finish() == 0
    first = "it names no rights, so it gets `context`"
    assert chain.stderr.count("conductor: first use of") == chain.stderr.count(first) == 4
    assert len(chain.stderr.splitlines()) == 8
    assert rig.leftovers(chain) == []


def test_a_module_and_a_command_before_the_demo(rig: Rig) -> None:
    """A command string is split as a shell would, and run without one."""
    (module,) = _modules(rig, "proxy")
    chain = rig.agent(
        module, "python -m tests.e2e.actors.recording_proxy --mark 'a b $HOME'", "demo"
    )
    assert chain.prompt(chain.begin(), "hi") == "a b $HOME\nhi"
    assert chain.finish() == 0


def test_a_conductor_as_a_component_by_its_name(rig: Rig) -> None:
    inner = " ".join(["conductor proxy -c", f"cache={rig.cache}", *_modules(rig, "a", "b")])
    chain = rig.agent(inner, "demo")
    assert chain.prompt(chain.begin(), "hi") == "hi"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_json_objects(rig: Rig) -> None:
    (module,) = _modules(rig, "a")
    command = (
        f'{{"command":"{sys.executable}","args":["-m","tests.e2e.actors.recording_proxy"],'
        '"env":{"ODD_VARIABLE":"1"},"name":"P","dialect":"acp"}'
    )
    chain = rig.agent(f'{{"wasm":"{module}","name":"W"}}', command, "demo")
    assert chain.prompt(chain.begin(), "hi") == "hi"
    assert chain.finish() == 0


def test_one_prompt_in_the_terminal(rig: Rig) -> None:
    k = "2025-10-08T12:34:56+00:00"
    chain = rig.start(
        [*COMMAND, "exec", "-c", f"clock={k}", "-c", f"cache={rig.cache}", "datetime", "demo", "-p",
         "what day is it?"]
    )  # fmt: skip
    chain.on_line = chain.lines.append
    assert chain.finish() == 0
    assert b"\n".join(chain.lines).decode().splitlines()[:2] == [
        '<current-date date="2025-10-08" time="12:34:56"/>',
        "what day is it?",
    ]
    assert chain.stderr == ""
    assert rig.leftovers(chain) == []
