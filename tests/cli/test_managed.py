"""The managed policy as a user of the machine meets it (docs/configuration.md#managed-policy)."""

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conductor import installation
from conductor.spec.paths import components_folder
from tests.e2e.actors.mcp_component import tool
from tests.harness.process.client import Client
from tests.harness.process.command import Ran, environment
from tests.harness.process.managed import CONTACT, Machine
from tests.places import DEADLINE, ROOT

INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
PROXY = "import part\nfrom guest_sdk.python import Proxy\nproxy = Proxy('p')\n"
AGENT = """#!{python}
import os, sys
os.execv(sys.executable, [sys.executable, {demo!r}])
"""


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    """A machine with a module, `p.wasm`, and an agent, `agent`, installed in /opt and at home."""
    machine = Machine(tmp_path)
    demo = str(components_folder() / "demo" / "agent.py")
    for place in (machine.opt, machine.home):
        shutil.copyfile(components_folder() / "passthrough" / "passthrough.wasm", place / "p.wasm")
        agent = place / "agent"
        agent.write_text(AGENT.format(python=sys.executable, demo=demo))
        agent.chmod(0o755)
    return machine


def ok(ran: Ran) -> None:
    """The prompt was answered."""
    assert (ran.code, ran.out) == (0, "hi\n"), ran.err
    assert "error:" not in ran.err


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- which components may run ----------------------------------------------------------------------


def test_an_empty_policy_allows_everything(machine: Machine) -> None:
    machine.allow("")
    ok(machine.prompt("./p.wasm", "./agent"))


@pytest.mark.proves("a component runs if the policy")
def test_by_source(machine: Machine) -> None:
    machine.allow(f'[[components]]\nsource = "{machine.opt}/*.wasm"\n')
    ok(machine.prompt(f"{machine.opt}/p.wasm", "demo"))
    machine.refuses(machine.prompt("./p.wasm", "demo"), "components")
    shown = machine.conductor("inspect", "./p.wasm")
    shown.assert_error(1, "`components` of the managed policy", f"ask {CONTACT}")
    assert "sandbox" in shown.out
    machine.refuses(machine.prompt("passthrough", "demo"), "components")
    machine.allow('[[components]]\nsource = "bundled"\n')
    ok(machine.prompt("passthrough", "demo"))
    machine.refuses(machine.prompt(f"{machine.opt}/p.wasm", "demo"), "components")
    machine.allow('[[components]]\nsource = "bundled:passthrough"\n')
    ok(machine.prompt("passthrough", "demo"))
    machine.refuses(machine.prompt("datetime", "demo"), "components")
    machine.allow("components = []")
    ok(machine.prompt("demo"))
    machine.refuses(machine.prompt("passthrough", "demo"), "components")


@pytest.mark.proves("a component runs if the policy")
def test_by_digest(machine: Machine) -> None:
    machine.allow(f'[[components]]\nsha256 = "{digest(machine.home / "p.wasm")}"\n')
    ok(machine.prompt("./p.wasm", "demo"))
    (machine.home / "p.wasm").write_bytes((machine.home / "p.wasm").read_bytes() + b"\0\2\1x")
    machine.refuses(machine.prompt("./p.wasm", "demo"), "components")


def test_python_source_by_its_digest(machine: Machine) -> None:
    folder = machine.home / "mine"
    folder.mkdir()
    (folder / "proxy.py").write_text(PROXY)
    (folder / "part.py").write_text("")
    listing = "".join(f"{digest(folder / name)}  {name}\n" for name in ("part.py", "proxy.py"))
    machine.allow(f'[[components]]\nsha256 = "{hashlib.sha256(listing.encode()).hexdigest()}"\n')
    ok(machine.prompt("./mine/", "demo"))
    (folder / "part.py").write_text("x = 1\n")
    machine.refuses(machine.prompt("./mine/", "demo"), "components")


def test_agents_by_path_and_digest(machine: Machine) -> None:
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/agent"\n')
    ok(machine.prompt(f"{machine.opt}/agent"))
    machine.refuses(machine.prompt("./agent"), "agents")
    machine.refuses(machine.prompt("demo"), "agents")
    machine.allow(f'[[agents]]\nsha256 = "{digest(machine.home / "agent")}"\n')
    ok(machine.prompt("./agent"))
    (machine.home / "agent").write_text("#!/bin/sh\ntouch ran\n")
    machine.refuses(machine.prompt("./agent"), "agents")
    assert not (machine.home / "ran").exists()


@pytest.mark.proves("an agent has exactly the arguments")
def test_arguments_are_exact_unless_any_are_allowed(machine: Machine) -> None:
    agent = f'[[agents]]\nsource = "{machine.opt}/agent"\n'
    machine.allow(agent)
    refused = machine.prompt(f"{machine.opt}/agent --free")
    machine.refuses(refused, "agents")
    assert "agents[0]: its arguments are others" in refused.err
    machine.allow(agent + 'args = ["--one", "two words"]\n')
    ok(machine.prompt(f"{machine.opt}/agent --one 'two words'"))
    machine.refuses(machine.prompt(f"{machine.opt}/agent"), "agents")
    machine.allow(agent + 'args = "any"\n')
    ok(machine.prompt(f"{machine.opt}/agent --free"))


def test_a_login_by_terminal_is_held_to_its_arguments(machine: Machine) -> None:
    program = machine.opt / "agent"
    agent = f'[[agents]]\nsource = "{program}"\n'
    login = ("agent", str(program), "--agent-login=agent", "--help")
    machine.allow(agent)
    machine.refuses(machine.conductor(*login), "agents")
    machine.allow(agent + agent + 'args = ["--help"]\n')
    ran = machine.conductor(*login)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.proves("the tools of authors run nothing else")
@pytest.mark.proves("`conductor test --against` with any program")
def test_a_program_that_is_tested_is_held_to_it(machine: Machine) -> None:
    machine.allow(f'[[agents]]\nsource = "{machine.opt}/agent"\n')
    test = ("test", "--only", "handshake", "--against")
    machine.refuses(machine.conductor(*test, f"{machine.home}/agent"), "agents")
    machine.refuses(machine.conductor(*test, f"{machine.home}/agent {{agent}}"), "agents")
    assert machine.conductor(*test, f"{machine.opt}/agent").code == 0


def test_variables_are_those_that_are_named(machine: Machine) -> None:
    agent = f'[[agents]]\nsource = "{machine.opt}/agent"\n'
    written = json.dumps({"command": f"{machine.opt}/agent", "env": {"MODEL": "x"}})
    machine.allow(agent)
    refused = machine.prompt(written)
    machine.refuses(refused, "agents")
    assert "variables that the policy does not name: MODEL" in refused.err
    machine.allow(agent + 'env = ["MODEL"]\n')
    ok(machine.prompt(written))


# -- signatures ------------------------------------------------------------------------------------


def signed(machine: Machine, *kind: str) -> tuple[Path, Path]:
    """A new pair of keys: the private one, and the public one in the administrator's folder."""
    private, public = machine.home / "key.pem", machine.opt / "key.pub"
    for command in (
        ["openssl", "genpkey", *kind, "-out", str(private)],
        ["openssl", "pkey", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    public.chmod(0o644)
    return private, public


def sign(file: Path, private: Path) -> bytes:
    """Writes the signature of a file beside it, as openssl does; its bytes."""
    beside = file.with_name(f"{file.name}.sig")
    command = ["openssl", "dgst", "-sha256", "-sign", str(private), "-out", str(beside), str(file)]
    subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    return beside.read_bytes()


KINDS = {
    "ec": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "rsa": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
}
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")


@pytest.mark.proves("a component runs if the policy")
@needs_openssl
@pytest.mark.parametrize("kind", KINDS)
def test_by_signer(machine: Machine, kind: str) -> None:
    private, public = signed(machine, *KINDS[kind])
    machine.allow(f'[[components]]\nsigner = "{public}"\n')
    unsigned = machine.prompt("./p.wasm", "demo")
    machine.refuses(unsigned, "components")
    assert "p.wasm.sig" in unsigned.err
    signature = sign(machine.home / "p.wasm", private)
    ok(machine.prompt("./p.wasm", "demo"))
    (machine.home / "p.wasm.sig").write_bytes(base64.b64encode(signature))  # as cosign writes it
    ok(machine.prompt("./p.wasm", "demo"))
    (machine.home / "p.wasm").write_bytes((machine.home / "p.wasm").read_bytes() + b"\0\2\1x")
    changed = machine.prompt("./p.wasm", "demo")
    machine.refuses(changed, "components")
    assert "is not its signature" in changed.err


@needs_openssl
def test_a_key_that_others_may_change_signs_nothing(machine: Machine) -> None:
    private, public = signed(machine, *KINDS["ec"])
    sign(machine.home / "p.wasm", private)
    public.chmod(0o666)
    machine.allow(f'[[components]]\nsigner = "{public}"\n')
    refused = machine.prompt("./p.wasm", "demo")
    machine.refuses(refused, "components")
    assert "may be written by others" in refused.err


@needs_openssl
def test_without_cryptography_a_signature_is_none(machine: Machine) -> None:
    private, public = signed(machine, *KINDS["ec"])
    sign(machine.home / "p.wasm", private)
    machine.allow(f'[[components]]\nsigner = "{public}"\n')
    (machine.home / "cryptography.py").write_text("raise ImportError\n")
    path = f"{machine.home}{os.pathsep}{ROOT}"
    refused = machine.conductor("exec", "./p.wasm", "demo", "-p", "hi", env={"PYTHONPATH": path})
    machine.refuses(refused, "components")
    assert installation.with_extra("signatures") in refused.err


# -- the most that a component may do --------------------------------------------------------------


def test_the_most_of_all_and_of_one(machine: Machine) -> None:
    machine.allow('[most]\nonly = ["observer"]\n')
    refused = machine.prompt("./p.wasm", "demo")
    machine.refuses(refused, "most.only")
    assert "`context`" in refused.err
    ok(machine.prompt("./p.wasm,only=observer", "demo"))
    machine.allow(
        '[most]\nonly = ["none"]\n[[components]]\nsource = "bundled"\n'
        f'[[components]]\nsource = "{machine.opt}/**"\nmost = {{only = ["context"]}}\n'
    )
    ok(machine.prompt(f"{machine.opt}/p.wasm", "demo"))
    machine.refuses(machine.prompt("datetime", "demo"), "most.only")
    refused = machine.prompt(f"{machine.opt}/p.wasm,only=full", "demo")
    machine.refuses(refused, "components[1].most.only")


# -- what is required ------------------------------------------------------------------------------

FIRST_LAST = """
[[required]]
source = "bundled:redact"
place = "first"
options = {config = {words = ["Kugelfisch"], replacement = "XXX"}}
[[required]]
source = "bundled:passthrough"
place = "last"
"""


def chain(machine: Machine, *components: str) -> list[str]:
    """The names of the chain that runs, as its audit has them."""
    audit = machine.home / "chain.jsonl"
    audit.unlink(missing_ok=True)
    ran = machine.conductor("exec", "--audit", "chain.jsonl", *components, "-p", "hi Kugelfisch")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "hi XXX"
    records = map(json.loads, audit.read_text().splitlines())
    return [record["component"] for record in records if record["event"] == "component"]


@pytest.mark.proves("every chain has the required")
def test_what_is_required_is_put_in_its_place(machine: Machine) -> None:
    machine.allow(f"components = []\n{FIRST_LAST}")
    assert chain(machine, "demo") == ["redact", "passthrough", "demo"]
    machine.allow(FIRST_LAST)
    assert chain(machine, "datetime", "demo") == ["redact", "datetime", "passthrough", "demo"]
    # The user's own `redact` has other settings: it is one more.
    assert chain(machine, "redact", "demo") == ["redact", "redact-2", "passthrough", "demo"]
    # The user's own `passthrough` is the required one, where it is in its place.
    assert chain(machine, "passthrough", "demo") == ["redact", "passthrough", "demo"]
    # In another place it is one more.
    assert chain(machine, "passthrough", "datetime", "demo") == [
        "redact", "passthrough-2", "datetime", "passthrough", "demo",
    ]  # fmt: skip
    same = 'redact,config.words=["Kugelfisch"],config.replacement=XXX'
    assert chain(machine, "datetime", same, "demo") == [
        "redact", "datetime", "redact-2", "passthrough", "demo",
    ]  # fmt: skip
    machine.allow(FIRST_LAST.replace('"last"', '"anywhere"'))
    assert chain(machine, "passthrough", "datetime", "demo") == [
        "redact", "passthrough", "datetime", "demo",
    ]  # fmt: skip


def test_a_lock_has_what_is_required(machine: Machine) -> None:
    machine.allow(FIRST_LAST)
    assert machine.conductor("lock", "demo").code == 0
    assert "redact" in (machine.home / "conductor.lock").read_text()
    ok(machine.conductor("exec", "--locked", "demo", "-p", "hi"))


@pytest.mark.proves("every chain has the required")
def test_a_chain_of_proxies_has_what_is_required(machine: Machine) -> None:
    machine.allow(f"components = []\n{FIRST_LAST}")
    outer = [sys.executable, "-m", "conductor", "exec", "-p", "hi Kugelfisch"]
    inner = " ".join(machine.command("proxy"))
    done = subprocess.run(
        [*outer, f"{inner},name=inner", "demo"],
        capture_output=True, text=True, timeout=DEADLINE, env=machine.env(), check=False,
        cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "hi XXX\n"), done.stderr


EMBEDS = """
import asyncio, sys
from conductor.spec import managed
vars(managed).update(PLACE=sys.argv[1], OWNERS=frozenset({0, __import__("os").getuid()}))
import conductor
from conductor.errors import ConductorError

async def main():
    try:
        async with conductor.open(*sys.argv[2:]) as chain:
            print((await chain.prompt("hi Kugelfisch")).text)
    except ConductorError as error:
        print(error.text, error.hint)

asyncio.run(main())
"""


def test_a_program_that_embeds_a_chain_is_held_to_it(machine: Machine) -> None:
    audit = machine.home / "audit.jsonl"
    machine.allow(f'audit = "{audit}"\ncomponents = []\n{FIRST_LAST}')

    def embeds(*components: str) -> str:
        command = [sys.executable, "-c", EMBEDS, str(machine.policy), *components]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE, env=machine.env(),
            cwd=machine.home, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert embeds("demo") == "hi XXX\n"
    assert b'"component":"redact"' in audit.read_bytes()
    refused = embeds("./p.wasm", "demo")
    assert "`components` of the managed policy" in refused
    assert f"ask {CONTACT}" in refused


def test_a_file_may_be_required(machine: Machine) -> None:
    machine.allow(f'[[required]]\nsource = "{machine.opt}/p.wasm"\nplace = "last"\n')
    ok(machine.prompt("demo"))
    (machine.opt / "p.wasm").unlink()
    gone = machine.prompt("demo")
    gone.assert_error(2, "the managed policy requires", "no such module", f"ask {CONTACT}")


@pytest.mark.parametrize(
    ("required", "why"),
    [
        ('source = "/nowhere/p.wasm"', "no such module"),
        ('source = "HOME/p.wasm"', "may be written by others"),
        ('source = "OPT/p.wasm"\nsha256 = "' + "0" * 64 + '"', "its sha256 is"),
        ('source = "bundled:redact"\noptions = {profil = "none"}', "there is no such option"),
        (
            'source = "bundled:redact"\noptions = {config = "HOME/x.toml"}',
            "may be written by others",
        ),
        (
            'source = "bundled:redact"\noptions = {config = {wrds = []}}',
            "`redact` has no setting `wrds`",
        ),
        ('source = "OPT/agent"', "and a sandbox that it has not"),
    ],
)
def test_what_is_required_and_cannot_be_closes(machine: Machine, required: str, why: str) -> None:
    (machine.home / "x.toml").write_text("")
    text = required.replace("HOME", str(machine.home)).replace("OPT", str(machine.opt))
    machine.allow(f"require-sandbox = true\n[[required]]\n{text}\n")
    ran = machine.prompt("demo")
    ran.assert_error(2, "the managed policy requires", why, f"ask {CONTACT}", "policy.toml, line ")
    assert ran.out == ""


# -- records, sandbox and hardening ----------------------------------------------------------------


@pytest.mark.proves("every chain is recorded where")
def test_the_audit_goes_where_the_policy_says(machine: Machine) -> None:
    audit = machine.home / "root.jsonl"
    machine.allow(f'audit = "{machine.home}/{{user}}.jsonl"\naudit-content = "all"')
    ok(machine.prompt("demo"))
    (path,) = machine.home.glob("*.jsonl")
    assert path.name != "{user}.jsonl"
    before = path.read_bytes()
    assert b'"event":"component"' in before
    # Less content than the policy wants cannot be had.
    ran = machine.conductor("exec", "-c", "trace-content=none", "datetime", "demo", "-p", "hi")
    assert ran.code == 0
    assert b"current-date" in path.read_bytes()[len(before) :]
    machine.refuses(machine.conductor("exec", "--audit", "x", "demo", "-p", "hi"), "audit")
    ok(machine.conductor("exec", "--audit", str(path), "demo", "-p", "hi"))
    assert audit.exists() == (os.getuid() == 0)


def test_an_audit_that_cannot_be_written_closes(machine: Machine) -> None:
    machine.allow(f'audit = "{machine.home}/missing/audit.jsonl"')
    ran = machine.prompt("demo")
    ran.assert_error(2, "cannot write the audit", "`audit` of the managed policy", CONTACT)
    assert ran.out == ""


@pytest.mark.proves("every chain is recorded where", "an audit that is cut, or locked")
@pytest.mark.parametrize("how", ["cut", "locked"])
def test_a_chain_ends_with_its_audit(machine: Machine, how: str) -> None:
    audit = machine.home / "audit.jsonl"
    machine.allow(f'audit = "{audit}"')
    with Client(
        machine.command("agent", "datetime", "demo"), machine.env(), machine.home
    ) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = client.request("session/new", {"cwd": "/", "mcpServers": []})
        holder = audit.open("rb")
        if how == "cut":
            os.truncate(audit, 0)
        else:
            fcntl.flock(holder, fcntl.LOCK_EX)
        prompt = [{"type": "text", "text": "hi"}]
        client.start(
            "session/prompt", {"sessionId": session["result"]["sessionId"], "prompt": prompt}
        )
        client.until(lambda: client.output_ended, "the end of the chain")
        assert client.exit_code() == 1
        assert "the chain is not recorded any more" in client.stderr
        assert f"ask {CONTACT}" in client.stderr
        holder.close()


def test_traces_and_what_they_hold(machine: Machine) -> None:
    machine.allow("trace = false")
    machine.refuses(machine.conductor("exec", "--trace", "t", "demo", "-p", "hi"), "trace")
    machine.allow('content = "redacted"')
    ok(machine.conductor("exec", "--trace", "t", "demo", "-p", "hi"))
    full = ("-c", "trace-content=all")
    for kind in ("--trace", "--audit"):
        ran = machine.conductor("exec", kind, "r", *full, "demo", "-p", "hi")
        machine.refuses(ran, "content")
    ok(machine.conductor("exec", *full, "demo", "-p", "hi"))


def shown_tools(machine: Machine, offers: Path, *options: str) -> str:
    """The tools of the editor's server that the agent shows in one turn."""
    words = machine.command("agent", *options, "demo")
    server = {
        "name": "tools",
        "command": sys.executable,
        "args": ["-m", "tests.e2e.actors.mcp_server", str(offers)],
        "env": [],
    }
    # Nobody else may write where agreements are.
    env = machine.env(XDG_STATE_HOME=str(machine.home.parent / "state"))
    with Client(words, env, machine.home) as client:
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = client.request("session/new", {"cwd": str(ROOT), "mcpServers": [server]})
        prompt = [{"type": "text", "text": "/tools"}]
        id_ = session["result"]["sessionId"]
        client.request("session/prompt", {"sessionId": id_, "prompt": prompt})
        texts = [f["params"]["update"].get("content") for f in client.seen("session/update")]
        assert client.seen("session/request_permission") == []
        assert client.finish() == 0
    return "".join(each["text"] for each in texts if isinstance(each, dict) and "text" in each)


@pytest.mark.proves("no tool that has changed")
def test_tools_that_change_are_left_out(machine: Machine) -> None:
    offers = machine.home / "offers.json"
    loose = ("-c", "pin-mcp=false", "-c", "changed-tools=ask")

    def offer(*names: str) -> None:
        offers.write_text(json.dumps({"tools": [*map(tool, names)]}))

    machine.allow('pin-mcp = true\nchanged-tools = "keep"')
    offer("echo", "add")
    assert "tools/add" in shown_tools(machine, offers, *loose)
    offer("echo", "more")
    shown = shown_tools(machine, offers, *loose)
    assert "tools/echo" in shown
    assert "tools/more" not in shown
    # A user may be stricter.
    assert "tools/echo" not in shown_tools(machine, offers, "-c", "changed-tools=drop")
    machine.allow('pin-mcp = true\nchanged-tools = "drop"')
    assert "tools/echo" not in shown_tools(machine, offers, "-c", "changed-tools=keep")
    machine.allow("")
    assert "tools/more" in shown_tools(machine, offers)


@pytest.mark.proves("a refusal names the rule and")
def test_the_editor_is_told_too(machine: Machine) -> None:
    machine.allow("components = []")
    ran = machine.conductor("agent", "./p.wasm", "demo", stdin=INITIALIZE)
    ran_error = json.loads(ran.out)["error"]["message"]
    assert "`components` of the managed policy" in ran_error
    assert f"ask {CONTACT}" in ran_error
    assert ran.code == 2


# -- a policy that cannot be used, and none --------------------------------------------------------


def test_a_policy_that_is_wrong_closes(machine: Machine) -> None:
    machine.allow("audits = 1")
    for command in (["exec", "demo", "-p", "hi"], ["test", "./p.wasm"]):
        ran = machine.conductor(*command)
        ran.assert_error(2, "line 2: the policy has no key `audits`", f"ask {CONTACT}")
        assert ran.out == ""
    ran = machine.conductor("agent", "demo", stdin=INITIALIZE)
    assert "no key `audits`" in json.loads(ran.out)["error"]["message"]


def test_config_show_has_it_first(machine: Machine) -> None:
    machine.allow('require-sandbox = true\n[[agents]]\nsource = "bundled:demo"\n')
    shown = machine.conductor("config", "show", "--origin").out.splitlines()
    assert shown[:4] == [
        "managed policy:",
        f'  contact = "{CONTACT}"  ({machine.policy}, line 1)',
        f"  require-sandbox = true  ({machine.policy}, line 2)",
        f'  agents[0].source = "bundled:demo"  ({machine.policy}, line 4)',
    ]
    held = json.loads(machine.conductor("config", "show", "--json").out)["managed"]
    assert held["require-sandbox"] == {"value": True, "origin": f"{machine.policy}, line 2"}


def test_doctor_has_a_line(machine: Machine) -> None:
    machine.allow("")
    assert f"questions to {CONTACT}" in machine.conductor("doctor").out
    machine.allow("x = 1")
    ran = machine.conductor("doctor")
    assert (ran.code, "has no key `x`" in ran.out) == (1, True)
    machine.policy.unlink()
    assert "none: there is no" in machine.conductor("doctor").out


REAL = """
mount -t tmpfs none /etc/conductor 2>/dev/null || {
    mkdir -p "$1/etc" && cp -a /etc/. "$1/etc" 2>/dev/null; mkdir -p "$1/etc/conductor"
    mount --bind "$1/etc" /etc || exit 77
}
printf 'contact = "x"\\ncomponents = []\\n' > /etc/conductor/policy.toml
exec "$2" -m conductor exec datetime demo -p hi
"""


def test_at_its_real_place(tmp_path: Path) -> None:
    """In a mount namespace of its own, so that the machine's /etc stays as it is."""
    if sys.platform != "linux" or shutil.which("unshare") is None or os.getuid() != 0:
        pytest.skip("needs a mount namespace, and so root on Linux")
    shell = ["unshare", "-m", "sh", "-c", REAL, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(
        shell, capture_output=True, text=True, timeout=DEADLINE, env=environment(), check=False
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespace here")
    Ran(done.returncode, done.stdout, done.stderr).assert_error(
        2, "not allowed by `components` of the managed policy (/etc/conductor/policy.toml, line 2)"
    )


STARTS = """
import sys
from conductor.spec import managed
vars(managed)["PLACE"] = sys.argv[1]
assert managed.policy() is None
print(*(name for name in sys.modules if name.startswith("conductor.spec.managed.")))
"""


def test_without_a_policy_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTS, str(tmp_path / "policy.toml")],
        capture_output=True, text=True, cwd=ROOT, env=environment(), check=True,
    )  # fmt: skip
    assert done.stdout.split() == []
