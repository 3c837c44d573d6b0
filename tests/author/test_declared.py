"""Declarations of a Python source are held to its manifest, and to the rights that it asks for."""

import inspect
from pathlib import Path
from typing import Final

import msgspec
import pytest
import wasmtime

from conductor.author import project
from conductor.spec import catalog, lacking
from conductor.spec.python_guest import facts, scripts
from guest_sdk.python import Proxy
from tests.harness.process.command import conductor

pytestmark = pytest.mark.usefixtures("_home")

MANIFEST: Final = """
name = "mine"
kind = "proxy"
carrier = "python"
file = "proxy.py"

[rights]
context = "it is what it is for"
"""
SOURCE: Final = """
from guest_sdk.python import Proxy

ASKED = {{"filter": "why"}}
MEANT = "session/request_permission"
proxy = Proxy("mine"{arguments})


@proxy.{decorator}
def handle(message):
    pass
"""


@pytest.fixture
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)


def component(decorator: str, arguments: str = "", manifest: str = MANIFEST) -> str:
    """A component in Python, in a folder of its own."""
    folder = Path("mine")
    folder.mkdir()
    (folder / "proxy.py").write_text(SOURCE.format(arguments=arguments, decorator=decorator))
    if manifest:
        (folder / "component.toml").write_text(manifest)
        (folder / "test-scenarios").mkdir()
        (folder / "test-scenarios" / "none.txt").write_text("# Nothing comes.\n")
    return "./mine" if manifest else "./mine/proxy.py"


FILTER: Final = (', rights={"filter": "why"}', "asks for the right `filter`, and")


@pytest.mark.parametrize(
    ("arguments", "said", "command"),
    [
        *((*FILTER, command) for command in ("inspect", "test", "exec")),
        (", rights=ASKED", *FILTER[1:], "inspect"),
        (", rights=chosen()", "computes its rights, and", "inspect"),
        (', rights={"storage": "to remember"}', "asks for the right `storage`, and", "inspect"),
        (
            ', rights={"context": "", "web:a.example": ""}',
            "asks for the right `web:a.example`, and",
            "inspect",
        ),
    ],
)
def test_a_source_and_its_manifest_ask_for_the_same(
    arguments: str, said: str, command: str
) -> None:
    word = component('request("session/prompt")', arguments)
    ran = conductor(command, word, *(["demo", "-p", "hi"] if command == "exec" else []))
    assert ran.code != 0
    assert said in ran.err
    assert "component.toml decides" in ran.err


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (', profile="observer"', 'rights are written `rights={"clock": "to say the time"}`'),
        (", colour=1", "it takes name, version, description, rights, config, session"),
    ],
)
def test_what_proxies_do_not_take_is_said_before_they_run(arguments: str, hint: str) -> None:
    ran = conductor("inspect", component('request("session/prompt")', arguments, manifest=""))
    name = arguments.removeprefix(", ").partition("=")[0]
    ran.assert_error(1, f"`Proxy(…)` takes no argument `{name}`", hint)


def test_a_proxy_of_its_own_takes_what_it_likes() -> None:
    word = component('request("session/prompt")', ", colour=1", manifest="")
    source = Path("mine/proxy.py")
    source.write_text(source.read_text().replace("guest_sdk.python", "elsewhere"))
    assert conductor("inspect", word).code == 0


def test_what_proxies_take() -> None:
    taken = inspect.signature(Proxy.__init__).parameters
    assert tuple(taken)[1:] == facts.PROXY_TAKES


UNHEARD: Final = {
    'update("agent_message_chunk")': "see:replies",
    "update()": "see:replies",
    'request("session/request_permission")': "see:permissions",
    'request("fs/read_text_file")': "see:files",
    'request("session/set_mode")': "see:modes",
    'notification("session/cancel")': "see:cancels",
    'request("_mine/question")': "[rights]",
    "request(MEANT)": "see:permissions",
}


@pytest.mark.parametrize("decorator", UNHEARD)
def test_a_handler_that_no_message_reaches_is_a_mistake(decorator: str) -> None:
    word = component(decorator)
    for command in ("inspect", "test") if decorator == "update()" else ("inspect",):
        ran = conductor(command, word)
        assert ran.code != 0, command
        shown = decorator.replace("()", "").replace("MEANT", '"session/request_permission"')
        assert f"`@proxy.{shown}` (proxy.py:9) never runs" in ran.err, command
        assert f"`{UNHEARD[decorator]}`" in ran.err


HEARD: Final = (
    'request("initialize")',
    'request("session/new")',
    'request("session/prompt")',
    "request()",
    "tool",
    "opening",
    "on_start",
)


@pytest.mark.parametrize("decorator", HEARD)
def test_handlers_within_the_rights_are_none(decorator: str) -> None:
    ran = conductor("inspect", component(decorator))
    assert (ran.code, ran.err) == (0, "")


RIGHTS: Final = {
    'update("agent_message_chunk")': '"see:updates" = "to read"\n',
    'request("_mine/question")': '"extension:_mine/*" = "to be asked"\n',
    'request("session/request_permission")': '"refuse:permissions" = "to refuse"\n',
}


@pytest.mark.parametrize("decorator", RIGHTS)
def test_nor_those_within_what_the_manifest_asks_for(decorator: str) -> None:
    ran = conductor("inspect", component(decorator, manifest=MANIFEST + RIGHTS[decorator]))
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.usefixtures("python_guest")
def test_a_start_warns_of_such_a_handler() -> None:
    word = component('update("agent_message_chunk")', manifest="")
    ran = conductor("exec", word, "demo", "-p", "hi")
    assert (ran.code, ran.out) == (0, "hi\n")
    assert '`@proxy.update("agent_message_chunk")` (proxy.py:9) never runs' in ran.err
    heard = conductor("exec", f"{word},only=filter", "demo", "-p", "hi")
    assert "never runs" not in heard.err


@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize("line", ["import random", "from random import choice"])
def test_a_start_warns_of_numbers_that_are_the_same_in_every_run(line: str) -> None:
    file = Path("dice.py")
    file.write_text(f"{line}\n{SOURCE.format(arguments='', decorator='tool')}")
    ran = conductor("exec", "./dice.py", "demo", "-p", "hi")
    assert "`random` draws the same numbers in every run (dice.py:1)" in ran.err
    assert "in every run" not in conductor("exec", "./dice.py,allow=random", "demo", "-p", "hi").err


BUNDLED: Final = [name for name in catalog.bundled() if catalog.resolve(name).script]


@pytest.mark.parametrize("name", BUNDLED)
def test_no_bundled_component_has_such_a_handler(name: str) -> None:
    """The sources of bundled components are not read when a chain starts, since this test reads
    them."""
    spec = catalog.resolve(name)
    assert spec.manifest is not None
    declared = facts.declared(scripts.read(spec.script))
    facts.compare(declared, spec.manifest, name)
    assert declared.handlers
    assert lacking.unheard(msgspec.structs.replace(spec, declared=declared)) is None


@pytest.mark.parametrize("lang", project.languages())
def test_nobody_publishes_the_texts_of_a_template(lang: str) -> None:
    for path, text in project.files(lang, "mine"):
        file = Path("mine") / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace('sha256 = ""', ""))
    module = dict(project.files("wat", "mine"))["mine.wat"]
    Path("mine/mine.wasm").write_bytes(wasmtime.wat2wasm(module))
    ran = conductor("publish", "oci://example.org/mine", "mine", "--dry-run")
    assert ran.code != 0
    assert "still has the text of its template: description" in ran.err


def test_nor_in_another_spelling() -> None:
    word = component('request("session/prompt")')
    manifest = Path("mine/component.toml")
    said = (
        'version = "1.0.0"\ndescription = "puts a reminder, in front of every prompt"\n\n[rights]'
    )
    manifest.write_text(manifest.read_text().replace("[rights]", said))
    ran = conductor("publish", "oci://example.org/mine", word, "--dry-run")
    ran.assert_error(2, "still has the text of its template: description")
