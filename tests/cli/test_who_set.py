"""An error names the setter of a value that a component refuses, whatever the component is made
of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest
import wasmtime

from tests.harness.process.command import conductor, environment
from tests.harness.process.managed import Machine

WAT: Final = Path(__file__).parents[1] / "e2e" / "actors" / "refusing_guest.wat"
SHELL: Final = """#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\\([0-9]*\\).*/\\1/p')
  said='{"code":-32602,"message":"the setting `speed` must be a number"}'
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"error":%s}\\n' "$id" "$said"
done
"""
DIES: Final = "#!/bin/sh\necho 'no such speed' >&2\nexit 3\n"
SDK: Final = """
from dataclasses import dataclass
from guest_sdk.python import Proxy

@dataclass
class Settings:
    speed: int = 3

proxy = Proxy("sdk", config=Settings)

if __name__ == "__main__":
    proxy.run()
"""
TRAPS: Final = """(module (memory (export "memory") 512)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param i32 i32) (result i64) unreachable))"""


@pytest.fixture(name="refusing")
def _refusing(tmp_path: Path) -> Path:
    """A folder with components that refuse their settings."""
    (tmp_path / "guest.wasm").write_bytes(bytes(wasmtime.wat2wasm(WAT.read_text())))
    (tmp_path / "trap.wasm").write_bytes(bytes(wasmtime.wat2wasm(TRAPS)))
    (tmp_path / "sdk.py").write_text(SDK)
    for name, text in (("shell", SHELL), ("dies", DIES)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def configured(
    folder: Path, text: str, *words: str, stderr: tuple[str, ...], command: str = "exec"
) -> None:
    """A run with this file of the user's ends with an error that has these words."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "conductor").mkdir(exist_ok=True)
    (folder / "config" / "conductor" / "conductor.toml").write_text(text, newline="")
    env = environment(XDG_CONFIG_HOME=str(folder / "config"))
    prompt = ("-p", "hi") if command == "exec" else ()
    ran = conductor(command, *words, *prompt, cwd=folder, env=env)
    assert ran.code in (1, 2), ran.err
    for each in stderr:
        assert each.format(file=folder / "config" / "conductor" / "conductor.toml") in ran.err


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ('wasm = "{0}/guest.wasm", only = "trusted"', "guest: the setting `speed` must be"),
        ('wasm = "{0}/guest.wasm"', "refuses to start: the setting `speed` must be a number"),
        ('wasm = "{0}/guest.wasm", only = "change:handshake"', "refuses to start: the setting"),
        ('command = "{0}/shell", only = "change:handshake"', "refuses to start: the setting"),
        ('command = "{0}/shell", dialect = "acp"', "shell: the setting `speed` must be a number"),
        ('command = "{0}/shell"', "shell: the setting `speed` must be a number"),
        (f'command = "{sys.executable}", args = ["{{0}}/sdk.py"]', "must be a whole number"),
        ('command = "{0}/dies"', "exited with code 3; its last words: no such speed"),
        ('wasm = "{0}/trap.wasm", on_failure = "fail"', "trapped: wasm `unreachable`"),
    ],
)
def test_a_refused_setting_of_a_file(refusing: Path, run: str, says: str) -> None:
    table = f"{{ {run.format(refusing)}, config.speed = 'fast' }}"
    text = f"[chains.all]\ncomponents = [\n  {table},\n  'demo',\n]\n"
    configured(refusing, text, "all", stderr=(says, "({file}, line 3)"))


def test_a_setting_that_is_named_and_what_is_not(refusing: Path) -> None:
    text = "[components.shell.config]\r\nother = 1\r\n# it\r\nspeed = 'fast'\r\n"
    component = f"[components.shell]\r\ncommand = '{refusing}/shell'\r\n{text}"
    told = "shell: the setting `speed` must be a number ({file}, line 6)\n"
    configured(refusing, component, "shell", "demo", stderr=(told,))


def test_the_file_of_the_settings(refusing: Path) -> None:
    (refusing / "speed.toml").write_text("speed = 'fast'\n")
    ran = conductor("exec", "./shell,config=speed.toml", "demo", "-p", "hi", cwd=refusing)
    assert f"must be a number ({refusing}/speed.toml)\n" in ran.err


def test_who_has_set_by_c_knows_it(refusing: Path) -> None:
    words = ("-c", "components.x.config.speed=fast", "-c", "components.x.command=./shell")
    ran = conductor("exec", *words, "x", "demo", "-p", "hi", cwd=refusing)
    assert "must be a number\n" in ran.err


def test_who_has_typed_a_setting_knows_it(refusing: Path) -> None:
    ran = conductor("exec", "./shell,config.speed=fast", "demo", "-p", "hi", cwd=refusing)
    assert "shell: the setting `speed` must be a number\n" in ran.err


def test_a_component_without_settings_names_who_has_written_it(refusing: Path) -> None:
    text = f"[chains.all]\ncomponents = ['{refusing}/dies', 'demo']\n"
    configured(refusing, text, "all", stderr=("no such speed ({file}, line 2)\n",))


def test_a_setting_of_the_managed_policy(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    module = machine.opt / "guest.wasm"
    module.write_bytes(bytes(wasmtime.wat2wasm(WAT.read_text())))
    options = "options = {config = {speed = 'fast'}, only = 'trusted'}"
    machine.allow(f"[[required]]\nsource = '{module}'\nplace = 'first'\n{options}\n")
    ran = machine.prompt("demo")
    assert f"must be a number ({machine.policy}, line" in ran.err, ran.err


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["command = 'cat'", "[components.x.env]", "'A=B' = ''"], "line 4: `cat` cannot have a"),
        (["command = 'cat'", "env.A = 3"], "line 3: the variable `A` of `cat`: it is a text or"),
        (
            ["command = 'cat'", "[components.x.env]", "A = ''", "B = { secret = 'env:NO_ONE' }"],
            "in conductor's environment ({file}, line 5)\n",
        ),
        (
            ["command = 'cat'", "config.a = 1", "config.b = { secret = 'file:/none' }"],
            "`x` needs the secret `file:/none`: No such file or directory ({file}, line 4)\n",
        ),
        (
            ["component = 'passthrough'", "limits.memory_bytes = 1024"],
            "64512 too many ({file}, line 3)\n",
        ),
        (["component = 'redact'", "config = '../../file.toml'"], "({folder}/file.toml, line 2)"),
        (["command = 'cat'", "only = 'full'"], "two be told apart ({file}, line 1)\n"),
        (["component = 'py:os:path'"], "is not callable ({file}, line 1)\n"),
        (["command = 'cat'"], "goes to the successor only) ({file}, line 1)\n"),
        (["component = 'wss://h:0'", "ca = 'a.pem'"], "has no port ({file}, line 1)\n"),
        (
            ["component = 'wss://h'", "ca = 'a.pem'"],
            "can be read: No such file or directory ({file}, line 3)\n",
        ),
        (["component = 'ws://127.0.0.1:1/acp'"], "nobody listens there ({file}, line 1)\n"),
        (
            ["component = 'redact'", "config = '../../deep.json'"],
            "{folder}/deep.json: JSON nests too deeply ({file}, line 3)\n",
        ),
        (["command = 3"], "{file}, line 2: `command` is a text\n"),
        (["wasm = 'no.wasm'"], "{file}, line 2: no such module"),
        (["cpu = '1s'", "component = 'nowhere'"], "{file}, line 3: `nowhere` is neither"),
        (["command = 'cat'", "args = 'a'"], "{file}, line 3: `args` is a list of texts\n"),
        (["command = 'cat'", "env = 'a'"], "{file}, line 3: `env` is a table of variables\n"),
        (["component = 'redact'", "limits = 3"], "{file}, line 3: `limits` is a table\n"),
        (["component = 'redact'", "args = ['a']"], "line 3: `args` means nothing without"),
        (["wasm = 'no.wasm'", "env.A = 'a'"], "line 3: `env` means nothing without `command`"),
    ],
)
def test_the_line_of_what_is_refused(refusing: Path, lines: list[str], says: str) -> None:
    (refusing / "file.toml").write_text("# words\nwords = 3\n")
    (refusing / "deep.json").write_text('{"words": ' + "[" * 10_000)
    says = says.replace("{folder}", str(refusing))
    last = [] if "ws:" in lines[0] else ["demo"]
    text = "\n".join(["[components.x]", *lines, ""])
    configured(refusing, text, "x", *last, stderr=(says,))


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        (("serve", "demo"), "[serve]\nlissten = []", "line 2: there is no option `lissten`"),
        (("exec", "last"), "[chains.last]\ncomponents = ['passthrough']", "agent ({file}, line 2)"),
        (("exec", "demo"), "[options.branch]\nb = 'redact'", "reaches `b` ({file}, line 1)"),
        (("serve", "demo"), "[serve]\nlisten = ['foo:bar']", "is no address ({file}, line 2)"),
        (("serve", "demo"), "[serve]\nlisten = ['unix:/no/s']", "directory ({file}, line 2)"),
        (("serve", "demo"), "[serve]\nlinger = true", "{file}, line 2: `linger` cannot be `true`"),
        (("exec", "demo"), "[options]\nring = true", "{file}, line 2: `ring` cannot be `true`"),
        (("exec", "w"), "[chains.w]\noptions = {}", 'hint: add `components = ["…"]`'),
        (
            ("exec", "w"),
            "[chains.w]\ncomponents = [\n{ component = 'demo', when = 3 }]",
            "{file}, line 3: `when` should be a table",
        ),
        (
            ("add", "x"),
            "indexes = [\n'http://127.0.0.1:1/x']",
            "cannot be reached: All connection attempts failed ({file}, line 2)",
        ),
    ],
)
def test_the_line_of_an_option(
    tmp_path: Path, words: tuple[str, ...], text: str, says: str
) -> None:
    configured(tmp_path, text, *words[1:], stderr=(says,), command=words[0])


def test_who_has_set_the_lock(tmp_path: Path) -> None:
    assert conductor("lock", "redact", "demo", cwd=tmp_path).code == 0
    told = "conductor.lock ({file}, line 2) does not allow this chain"
    configured(tmp_path, "[options]\nlocked = true\n", "demo", stderr=(told,))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["source = '{opt}/no.wasm'"], "cannot run: {policy}, line 3: no such module"),
        (["source = 'bundled:redact'", "options = {{ a = 1 }}"], "{policy}, line 4: `a` of `red"),
        (
            ["source = 'bundled:redact'", "[required.options]", "cpu = '1s'", "memory = 'x'"],
            "{policy}, line 6: `memory=x`",
        ),
        (
            ["source = 'bundled:redact'", "[required.options.config]", "words = []", "no = 3"],
            "has no setting `no` ({policy}, line 6)\n",
        ),
    ],
)
def test_the_line_of_what_the_policy_requires(tmp_path: Path, lines: list[str], says: str) -> None:
    machine = Machine(tmp_path)
    machine.allow("\n".join(["[[required]]", *lines]).format(opt=machine.opt))
    machine.prompt("demo").assert_error(2, says.format(policy=machine.policy))


def test_the_line_of_a_right_that_a_manifest_gives(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow("[most]\nonly = ['context']")
    (machine.home / "guest.wasm").write_bytes(bytes(wasmtime.wat2wasm(WAT.read_text())))
    manifest = machine.home / "component.toml"
    head = "name = 'guest'\nversion = '1'\ndescription = 'sees'\nfile = 'guest.wasm'\n"
    manifest.write_text(head + "[rights]\n'see:replies' = 'to count'\n")
    told = f"it has `see:replies` ({manifest}, line 6): not allowed by `most.only`"
    machine.prompt("./guest.wasm", "demo").assert_error(2, told)


def test_a_component_that_a_policy_refuses_names_its_line(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.allow("require-sandbox = true")
    place = machine.home / "XDG_CONFIG_HOME" / "conductor" / "conductor.toml"
    place.parent.mkdir(parents=True)
    place.write_text("[components.x]\ncommand = 'cat'\n")
    machine.prompt("x", "demo").assert_error(2, f"({place}, line 1) is not sandboxed")
