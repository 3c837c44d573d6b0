"""An hour of trying to pass by the managed policy: each attack, and the rule that stops it.

docs/configuration.md says what is not defended. The attacker is the user of the machine, or
somebody whose files, components or configuration the user takes over.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.spec.paths import compiled_modules, components_folder
from tests.harness.process.client import Client
from tests.harness.process.command import Ran
from tests.harness.process.managed import CONTACT, Machine
from tests.places import DEADLINE

EVIL = "#!/bin/sh\ntouch ran\n"
"""A program of the attacker's."""

STRICT = """
require-sandbox = true
require-hardening = true
trace = false
components = []
[[agents]]
source = "bundled:demo"
[[required]]
source = "bundled:redact"
place = "first"
options = {config = {words = ["Kugelfisch"], replacement = "XXX"}}
"""
"""A policy with one agent, one proxy, and nothing else."""

FIRST = 'place = "first"'
LAST = 'place = "last"'


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with a strict policy; in /opt and at home a module, `p.wasm`; there also `evil`."""
    machine = Machine(tmp_path)
    for place in (machine.opt, machine.home):
        module = components_folder() / "passthrough" / "passthrough.wasm"
        shutil.copyfile(module, place / "p.wasm")
    write(machine.home / "evil")
    machine.allow(STRICT)
    return machine


def write(path: Path, text: str = EVIL) -> Path:
    """A program."""
    path.write_text(text)
    path.chmod(0o755)
    return path


def refused(machine: Machine, ran: Ran, rule: str) -> None:
    """The rule has refused the run, and the attacker's program has not run."""
    machine.refuses(ran, rule)
    assert not (machine.home / "ran").exists()


def secret_kept(ran: Ran) -> None:
    """The chain ran, and the required `redact` did its work."""
    assert (ran.code, ran.out.splitlines()[-1:]) == (0, ["hi XXX"]), ran.err


def tell(machine: Machine, *arguments: str) -> Ran:
    """Plays one turn with a secret in its prompt."""
    return machine.conductor("exec", *arguments, "-p", "hi Kugelfisch")


def test_the_policy_as_it_is_meant(machine: Machine) -> None:
    secret_kept(tell(machine, "demo"))


# -- flags -----------------------------------------------------------------------------------------


@pytest.mark.proves("options (`-c isolation=inline`")
@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        (["-c", "isolation=inline"], "require-hardening"),
        (["--trace", "t.jsons"], "trace"),
    ],
)
def test_flags_that_the_policy_rules_out(machine: Machine, flags: list[str], rule: str) -> None:
    refused(machine, tell(machine, *flags, "demo"), rule)
    assert not (machine.home / "t.jsons").exists()


@pytest.mark.proves("options (`-c isolation=inline`")
@pytest.mark.parametrize(
    "flags",
    [
        ["-c", "isolation=separate"],
        ["-c", "mcp-bridge=stdio"],
        ["-c", "cache=cache"],
        ["-c", "trace-content=all"],
        ["-c", "line-limit=64M"],
        ["-c", "clock=2026-03-01T12:00:00+01:00"],
        ["--log", "debug"],
    ],
)
def test_other_flags_change_nothing_of_it(machine: Machine, flags: list[str]) -> None:
    secret_kept(tell(machine, *flags, "demo"))
    refused(machine, tell(machine, *flags, "./evil"), "agents")


@pytest.mark.proves("options (`-c isolation=inline`")
def test_a_lock_allows_nothing_that_the_policy_does_not(machine: Machine) -> None:
    machine.allow("")
    assert machine.conductor("lock", "./p.wasm", "./evil").code == 0
    machine.allow(STRICT)
    for flags in (["--locked"], ["-c", "lock-file=conductor.lock"]):
        ran = tell(machine, *flags, "./p.wasm", "./evil")
        ran.assert_error(2, "conductor.lock does not allow this chain")
        assert not (machine.home / "ran").exists()
    (machine.home / "conductor.lock").unlink()
    assert machine.conductor("lock", "./p.wasm", "./evil").code == 0
    refused(machine, tell(machine, "--locked", "./p.wasm", "./evil"), "components")


@pytest.mark.proves("options (`-c isolation=inline`")
def test_no_mode_has_an_agent_of_its_own(machine: Machine) -> None:
    for mode in (["agent"], ["proxy"], ["proxy", "--dialect", "acp"]):
        ran = machine.conductor(*mode, "./evil")
        ran.assert_error(2, "of the managed policy", f"ask {CONTACT}")
        assert not (machine.home / "ran").exists()


@pytest.mark.proves("an agent behind another conductor")
def test_it_is_nobodys_proxy(machine: Machine) -> None:
    """As another conductor's proxy, the agent of this one would be a proxy among others."""
    outer = machine.env()
    line = '{"jsonrpc":"2.0","id":1,"method":"_proxy/initialize","params":{"protocolVersion":1}}\n'
    for method in ("_proxy/initialize", "proxy/initialize"):
        done = subprocess.run(
            machine.command("agent", "demo"),
            input=line.replace("_proxy/initialize", method).encode(),
            capture_output=True, timeout=DEADLINE, env=outer, cwd=machine.home, check=False,
        )  # fmt: skip
        assert b'"error"' in done.stdout, done.stdout
        assert b'"result"' not in done.stdout


# -- files: the component --------------------------------------------------------------------------


@pytest.mark.proves("links, `..`, other case, NUL")
def test_a_link_is_what_it_leads_to(machine: Machine) -> None:
    machine.allow(f'[[components]]\nsource = "{machine.opt}/*.wasm"\n')
    (machine.home / "link.wasm").symlink_to(machine.opt / "p.wasm")
    assert tell(machine, "./link.wasm", "demo").code == 0
    (machine.opt / "out.wasm").symlink_to(machine.home / "p.wasm")
    refused(machine, tell(machine, f"{machine.opt}/out.wasm", "demo"), "components")


def test_a_link_of_the_users_is_no_program_of_the_policys(machine: Machine) -> None:
    """The user could change it between the comparison and the start."""
    write(machine.opt / "agent")
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/agent"\n')
    (machine.home / "agent").symlink_to(machine.opt / "agent")
    refused(machine, tell(machine, "./agent"), "agents")


@pytest.mark.proves("a path of the policy that leads")
def test_a_link_of_the_users_within_a_path_of_the_policys(machine: Machine) -> None:
    """A policy that names a path in a user's folder names whatever the user puts there."""
    (machine.home / "bin").symlink_to("/bin")
    machine.allow(f'[[agents]]\nsource = "{machine.home}/bin/sh"\nargs = "any"\n')
    for agent in (f"{machine.home}/bin/sh", "/bin/sh", os.path.realpath("/bin/sh")):
        refused(machine, tell(machine, f"{agent} -c 'touch ran'"), "agents")


def test_the_policy_may_name_a_link_of_the_administrators(machine: Machine) -> None:
    (machine.opt / "v1").mkdir(mode=0o755)
    shutil.move(machine.opt / "p.wasm", machine.opt / "v1" / "p.wasm")
    (machine.opt / "current").symlink_to("v1")
    machine.allow(f'[[components]]\nsource = "{machine.opt}/current/**"\n')
    assert tell(machine, f"{machine.opt}/current/p.wasm", "demo").code == 0


@pytest.mark.proves("links, `..`, other case, NUL")
@pytest.mark.parametrize(
    "path",
    ["OPT/../home/p.wasm", "OPT/./../home/p.wasm", "OPT//../home/p.wasm", "../home/p.wasm"],
)
def test_a_path_that_leaves_the_folder(machine: Machine, path: str) -> None:
    machine.allow(f'[[components]]\nsource = "{machine.opt}/**"\n')
    refused(machine, tell(machine, path.replace("OPT", str(machine.opt)), "demo"), "components")


def test_a_program_whose_path_leaves_the_folder(machine: Machine) -> None:
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/**"\nargs = "any"\n')
    for path in (f"{machine.opt}/../home/evil", f"{machine.opt}/x/../../home/evil"):
        ran = tell(machine, path)
        assert ran.code == 2
        assert not (machine.home / "ran").exists()


@pytest.mark.proves("links, `..`, other case, NUL")
def test_names_in_other_case_and_with_a_nul(machine: Machine) -> None:
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/agent"\n')
    write(machine.opt / "AGENT")
    refused(machine, tell(machine, f"{machine.opt}/AGENT"), "agents")
    ran = tell(machine, json.dumps({"command": f"{machine.opt}/agent\0x"}))
    assert ran.code == 2
    assert "Traceback" not in ran.err


def test_a_hidden_folder_is_not_meant_by_two_stars(machine: Machine) -> None:
    (machine.opt / ".cache").mkdir(mode=0o755)
    shutil.copyfile(machine.opt / "p.wasm", machine.opt / ".cache" / "p.wasm")
    machine.allow(f'[[components]]\nsource = "{machine.opt}/**"\n')
    refused(machine, tell(machine, f"{machine.opt}/.cache/p.wasm", "demo"), "components")


@pytest.mark.proves("links, `..`, other case, NUL")
def test_a_hard_link_is_a_path_of_its_own(machine: Machine) -> None:
    machine.allow(f'[[components]]\nsource = "{machine.opt}/**"\n')
    os.link(machine.opt / "p.wasm", machine.home / "hard.wasm")
    refused(machine, tell(machine, "./hard.wasm", "demo"), "components")


@pytest.mark.proves("a path of the policy that leads")
def test_what_others_may_write_is_of_no_source(machine: Machine) -> None:
    machine.allow(f'[[components]]\nsource = "{machine.opt}/**"\n')
    path = f"{machine.opt}/p.wasm"
    (machine.opt / "p.wasm").chmod(0o666)
    ran = tell(machine, path, "demo")
    refused(machine, ran, "components")
    assert "may be written by others (mode 0666)" in ran.err
    (machine.opt / "p.wasm").chmod(0o644)
    machine.opt.chmod(0o777)
    refused(machine, tell(machine, path, "demo"), "components")


@pytest.mark.proves("a path of the policy that leads")
def test_a_file_of_others_in_a_folder_of_source(machine: Machine) -> None:
    folder = machine.opt / "mine"
    folder.mkdir(mode=0o755)
    (folder / "proxy.py").write_text(
        "import part\nfrom guest_sdk.python import Proxy\nproxy = Proxy('p')\n"
    )
    (folder / "part.py").write_text("")
    (folder / "part.py").chmod(0o666)
    machine.allow(f'[[components]]\nsource = "{machine.opt}/**"\n')
    refused(machine, tell(machine, f"{folder}/", "demo"), "components")
    (folder / "part.py").chmod(0o644)
    assert tell(machine, f"{folder}/", "demo").code == 0


EXCHANGE = """
import sys
from pathlib import Path
from conductor.spec.managed import chain
judge, path = chain.held, Path(sys.argv.pop())
def judged_and_exchanged(*arguments, **options):
    judged = judge(*arguments, **options)
    path.write_bytes(path.read_bytes() + (b"\\0\\2\\1x" if path.suffix == ".wasm" else b"# x"))
    return judged
chain.held = judged_and_exchanged
from tests.harness.process import managed
sys.exit(managed.main())
"""


@pytest.mark.proves("the bytes that run are those")
@pytest.mark.parametrize("name", ["p.wasm", "p.py"])
def test_a_file_that_is_exchanged_after_it_was_judged(machine: Machine, name: str) -> None:
    """The host compares the bytes that it runs."""
    path = machine.home / name
    if name == "p.py":
        path.write_text("from guest_sdk.python import Proxy\nproxy = Proxy('p')\n")
    machine.allow(f'[[components]]\nsha256 = "{hashlib.sha256(path.read_bytes()).hexdigest()}"\n')
    assert tell(machine, f"./{name}", "demo").code == 0
    command = [sys.executable, "-c", EXCHANGE, str(machine.policy), "exec", f"./{name}", "demo"]
    done = subprocess.run(
        [*command, "-p", "hi", str(path)],
        capture_output=True, text=True, timeout=DEADLINE, env=machine.env(), cwd=machine.home,
        check=False,
    )  # fmt: skip
    Ran(done.returncode, done.stdout, done.stderr).assert_error(1, f"the one that {machine.policy}")
    assert done.stdout == ""


@pytest.mark.proves("the bytes that run are those")
def test_another_build_at_sighup(machine: Machine) -> None:
    path = machine.home / "p.wasm"
    machine.allow(f'[[components]]\nsha256 = "{hashlib.sha256(path.read_bytes()).hexdigest()}"\n')
    command = machine.command("agent", "./p.wasm", "demo")
    with Client(command, machine.env(), machine.home) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        client.request("session/new", {"cwd": "/", "mcpServers": []})
        path.write_bytes(path.read_bytes() + b"\0\2\1x")
        client.process.send_signal(signal.SIGHUP)
        client.until_stderr(f"differs from the one that {machine.policy}")
        client.settled()
        assert client.finish() == 0


# -- files: the policy -----------------------------------------------------------------------------


def closed(machine: Machine, words: str) -> None:
    """Nothing runs, and the error has these words."""
    ran = tell(machine, "demo")
    ran.assert_error(2, words, "conductor runs nothing until that is mended")
    assert ran.out == ""


@pytest.mark.proves("a policy that cannot be read")
def test_a_policy_that_others_may_write(machine: Machine) -> None:
    for mode in (0o666, 0o664, 0o646):
        machine.policy.chmod(mode)
        closed(machine, "may be written by others")
    machine.policy.chmod(0o644)
    machine.policy.parent.chmod(0o777)
    closed(machine, "may be written by others")


@pytest.mark.proves("a policy that is a link to nowhere")
@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_policy_of_somebody_else(machine: Machine) -> None:
    os.chown(machine.policy, 1234, 0)
    closed(machine, "belongs to user 1234")
    os.chown(machine.policy, 0, 0)
    os.chown(machine.policy.parent, 1234, 0)
    closed(machine, "belongs to user 1234")


@pytest.mark.proves("a policy that cannot be read")
def test_a_policy_that_is_no_file(machine: Machine) -> None:
    machine.policy.unlink()
    machine.policy.symlink_to("missing.toml")
    closed(machine, "cannot read the managed policy")
    machine.policy.unlink()
    machine.policy.symlink_to("policy.toml")
    closed(machine, "cannot read the managed policy")
    machine.policy.unlink()
    os.mkfifo(machine.policy, 0o644)
    closed(machine, "it is no ordinary file")
    machine.policy.unlink()
    machine.policy.mkdir()
    closed(machine, "it is a folder")
    machine.policy.rmdir()
    with machine.policy.open("wb") as file:
        file.truncate(2 * 1024 * 1024)
    machine.policy.chmod(0o644)
    closed(machine, "it is larger than 1 MiB")
    machine.policy.write_bytes(b"\xff")
    closed(machine, "is no text in UTF-8")
    machine.policy.write_text("contact =")
    closed(machine, "Invalid value")


@pytest.mark.proves("a policy that is a link to nowhere")
def test_a_folder_that_is_a_link_to_nowhere(machine: Machine) -> None:
    shutil.rmtree(machine.policy.parent)
    machine.policy.parent.symlink_to("not-mounted")
    closed(machine, "cannot read the managed policy")


@pytest.mark.proves("a policy that is a link to nowhere")
def test_a_link_that_others_may_change(machine: Machine) -> None:
    (machine.home / "policy.toml").write_text('contact = "me"\n')
    machine.policy.unlink()
    machine.policy.symlink_to(machine.home / "policy.toml")
    closed(machine, "may be written by others")


# -- environment -----------------------------------------------------------------------------------


@pytest.mark.proves("`HOME`, `XDG_*`, `CONDUCTOR_*`")
def test_no_variable_names_another_policy(machine: Machine) -> None:
    mine = machine.home / "conductor" / "policy.toml"
    mine.parent.mkdir()
    mine.write_text('contact = "me"\n')
    variables = {
        "HOME": str(machine.home),
        "XDG_CONFIG_HOME": str(machine.home),
        "XDG_CONFIG_DIRS": str(machine.home),
        # Where compiled modules are names no policy; without them it takes a minute.
        "XDG_CACHE_HOME": str(Path(compiled_modules()).parents[1]),
        "CONDUCTOR_POLICY": str(mine),
        "CONDUCTOR_MANAGED": str(mine),
        "CONDUCTOR_CONFIG": str(mine),
        "TMPDIR": str(machine.home),
        "USER": "root",
        "LOGNAME": "root",
        "SUDO_USER": "root",
    }
    ran = machine.conductor("exec", "./evil", "-p", "hi", env=variables)
    refused(machine, ran, "agents")


@pytest.mark.proves("`HOME`, `XDG_*`, `CONDUCTOR_*`")
def test_a_program_on_path_is_not_what_the_policy_names(machine: Machine) -> None:
    write(machine.opt / "agent")
    machine.allow(f'components = []\n[[agents]]\nsource = "{machine.opt}/agent"\n')
    for name in ("agent", "redact"):
        write(machine.home / name)
    path = f"{machine.home}:{machine.opt}:{os.environ['PATH']}"
    refused(machine, machine.conductor("exec", "agent", "-p", "hi", env={"PATH": path}), "agents")
    refused(
        machine,
        machine.conductor("exec", "redact", "agent", "-p", "hi", env={"PATH": path}),
        "components",
    )
    machine.allow(STRICT)
    ran = machine.conductor("exec", "demo", "-p", "hi Kugelfisch", env={"PATH": path})
    secret_kept(ran)
    assert not (machine.home / "ran").exists()


@pytest.mark.proves("an agent has exactly the arguments", "a variable whose value is a secret")
@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "PYTHONPATH", "NODE_OPTIONS"])
def test_variables_of_a_component(machine: Machine, name: str) -> None:
    write(machine.opt / "agent")
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/agent"\n')
    (machine.home / "value").write_text(str(machine.home))
    for value in (str(machine.home), {"secret": f"file:{machine.home}/value"}):
        agent = {"command": f"{machine.opt}/agent", "env": {name: value}}
        refused(machine, tell(machine, json.dumps(agent)), "agents")


# -- configuration ---------------------------------------------------------------------------------

SHADOWS = """
[components.redact]
command = "sh"
args = ["-c", "touch ran"]
[components.demo]
command = "sh"
args = ["-c", "touch ran"]
[chains.work]
components = ["redact", "path:demo"]
"""


def configure(machine: Machine, text: str) -> None:
    """The user's own `conductor.toml`."""
    file = machine.home / "XDG_CONFIG_HOME" / "conductor" / "conductor.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.proves("`conductor.toml`: components")
def test_names_of_the_configuration_are_not_what_the_policy_names(machine: Machine) -> None:
    configure(machine, SHADOWS)
    write(machine.home / "demo")
    path = {"PATH": f"{machine.home}:{os.environ['PATH']}"}
    refused(machine, machine.conductor("exec", "demo", "-p", "hi", env=path), "agents")
    refused(machine, machine.conductor("exec", "path:demo", "-p", "hi", env=path), "agents")
    refused(machine, machine.conductor("exec", "work", "-p", "hi", env=path), "require-sandbox")
    secret_kept(tell(machine, "--isolated", "demo"))
    refused(machine, machine.conductor("agent", "--", "sh", "-c", "touch ran"), "agents")


@pytest.mark.proves("`conductor.toml`: components")
@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ('trace = "t"', "trace"),
        ('isolation = "inline"', "require-hardening"),
        ('audit = "mine.jsonl"', "audit"),
    ],
)
def test_options_of_the_configuration(machine: Machine, option: str, rule: str) -> None:
    machine.allow(f'audit = "{machine.home}/theirs.jsonl"\n{STRICT}')
    configure(machine, f"[options]\n{option}\n")
    refused(machine, tell(machine, "demo"), rule)
    configure(machine, "")
    name, value = option.replace('"', "").split(" = ")
    variables = {f"CONDUCTOR_{name.upper()}": value}
    refused(machine, machine.conductor("exec", "demo", "-p", "hi", env=variables), rule)


CHAIN = """
[chains.work]
components = [{}"demo"]
"""


@pytest.mark.proves("every chain has the required")
def test_a_chain_that_changes_while_it_runs(machine: Machine) -> None:
    """The new components are judged as the first ones were; those that run stay."""
    configure(machine, CHAIN.format(""))
    command = machine.command("agent", "work")
    with Client(command, machine.env(), machine.home) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = client.request("session/new", {"cwd": "/", "mcpServers": []})
        configure(machine, CHAIN.format(f'"{machine.home}/p.wasm", '))
        client.process.send_signal(signal.SIGHUP)
        client.until_stderr("the chain stays as it was, held to the managed policy as it was: ")
        client.until_stderr(f"ask {CONTACT}")
        configure(machine, CHAIN.format('"datetime", '))
        machine.allow(STRICT.replace("[]", '[{source = "bundled:datetime"}]'))
        client.process.send_signal(signal.SIGHUP)
        prompt = [{"type": "text", "text": "hi Kugelfisch"}]
        params = {"sessionId": session["result"]["sessionId"], "prompt": prompt}
        client.request("session/prompt", params)
        assert b"Kugelfisch" not in b"".join(client.lines)
        assert client.finish() == 0


# -- components ------------------------------------------------------------------------------------


@pytest.mark.proves("a component runs if the policy", "`redact` with other options")
@pytest.mark.parametrize(
    "component",
    [
        "./p.wasm,name=redact",
        '{"wasm": "p.wasm", "name": "redact"}',
        "./evil,name=redact",
        "./redact/",
        "./redact.py",
        "redact,only=none",
        "redact,on_failure=restart+bypass",
        "redact,on_failure=bypass",
        "redact,config.words=[]",
        "redact,config.prompts=false",
        "redact,limit.cpu_ms=1",
        "redact,timeout=1ms",
        "redact,deny=change:prompts,fails=open",
    ],
)
def test_what_is_only_called_redact_does_not_count(machine: Machine, component: str) -> None:
    folder = machine.home / "redact"
    folder.mkdir()
    (folder / "component.toml").write_text('name = "redact"\nfile = "redact.py"\n')
    for place in (folder / "redact.py", machine.home / "redact.py"):
        place.write_text("from guest_sdk.python import Proxy\nproxy = Proxy('p')\n")
    ran = tell(machine, component, "demo")
    ran.assert_error(2, "of the managed policy", f"ask {CONTACT}")
    # With every proxy allowed, the required one runs all the same, before it.
    machine.allow(STRICT.replace("components = []", "").replace("require-sandbox = true", ""))
    if "evil" not in component:
        assert "Kugelfisch" not in tell(machine, component, "demo").out


@pytest.mark.proves("every chain has the required")
def test_nothing_is_put_between_the_ends_and_what_is_required_there(machine: Machine) -> None:
    machine.allow(STRICT.replace("components = []", "").replace(FIRST, LAST))
    audit = machine.home / "a.jsonl"
    ran = tell(machine, "--audit", "a.jsonl", "passthrough", "redact", "passthrough", "demo")
    secret_kept(ran)
    records = map(json.loads, audit.read_text().splitlines())
    names = [record["component"] for record in records if record["event"] == "component"]
    assert names[-2:] == ["redact", "demo"]


@pytest.mark.proves("a nested conductor, a folder")
def test_a_nested_conductor_is_a_program(machine: Machine) -> None:
    nested = f"{sys.executable} -m conductor proxy {machine.home}/p.wasm"
    refused(machine, tell(machine, nested, "demo"), "require-sandbox")
    machine.allow(STRICT.replace("require-sandbox = true", ""))
    refused(machine, tell(machine, nested, "demo"), "components")
    refused(machine, tell(machine, "conductor agent ./evil"), "agents")
    refused(machine, tell(machine, "conductor proxy ./p.wasm", "demo"), "components")
    refused(machine, tell(machine, "conductor log replay t.jsons --agent"), "agents")


@pytest.mark.proves("a nested conductor, a folder")
def test_a_folder_whose_manifest_names_a_program(machine: Machine) -> None:
    folder = machine.home / "stranger"
    folder.mkdir()
    (folder / "component.toml").write_text('name = "redact"\ncommand = ["sh", "-c", "touch ran"]\n')
    refused(machine, tell(machine, "./stranger/", "demo"), "require-sandbox")
    refused(machine, tell(machine, "demo", "./stranger/"), "require-sandbox")
    refused(machine, tell(machine, "./stranger/"), "agents")


@pytest.mark.proves("an agent has exactly the arguments")
def test_more_arguments_for_a_bundled_agent(machine: Machine) -> None:
    refused(machine, tell(machine, "demo --more"), "agents")


@pytest.mark.proves("code in the conductor's own process")
def test_python_code_in_the_conductor(machine: Machine) -> None:
    """Such code could undo the policy, whatever the policy lists."""
    (machine.home / "mine.py").write_text("open('ran', 'w')\n")
    for policy in ("", STRICT):
        machine.allow(policy)
        path = f"{machine.home}{os.pathsep}{machine.env()['PYTHONPATH']}"
        ran = machine.conductor(
            "exec", "py:mine:proxy", "demo", "-p", "hi", env={"PYTHONPATH": path}
        )
        ran.assert_error(2, "no `py:` component runs under the managed policy", f"ask {CONTACT}")
        assert not (machine.home / "ran").exists()


# -- the tools of authors --------------------------------------------------------------------------


@pytest.mark.proves("the tools of authors run nothing")
def test_tools_run_what_the_policy_allows(machine: Machine) -> None:
    machine.allow("")
    folder = machine.home / "mine"
    assert machine.conductor("new", "mine", "--lang", "python").code == 0
    assert folder.is_dir()
    assert machine.conductor("exec", "--trace", "t", "./p.wasm", "demo", "-p", "hi").code == 0
    machine.allow(STRICT)
    for command in (
        ["test", "./p.wasm"],
        ["test", "./mine/"],
        ["test", "./mine"],
        ["test", "--build", "./mine"],
        ["log", "replay", "t", "./p.wasm"],
    ):
        refused(machine, machine.conductor(*command), "components")
    for command in (
        ["test", "--only", "handshake", "./evil"],
        ["log", "replay", "t", "./evil", "--as", "p"],
    ):
        refused(machine, machine.conductor(*command), "require-sandbox")


@pytest.mark.proves("the tools of authors run nothing")
def test_the_command_of_a_build(machine: Machine) -> None:
    folder = machine.home / "mine"
    folder.mkdir()
    (folder / "component.toml").write_text(
        'name = "mine"\nfile = "mine.wasm"\n[build]\ncommand = ["sh", "-c", "touch ../ran"]\n'
    )
    refused(machine, machine.conductor("test", "--build", "mine"), "build-commands")
    machine.allow("build-commands = true")
    machine.conductor("test", "--build", "mine")
    assert (machine.home / "ran").exists()
