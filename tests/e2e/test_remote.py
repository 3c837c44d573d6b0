"""Components, and the agent, at an address."""

import json
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.process.command import conductor, environment
from tests.harness.process.managed import Machine
from tests.harness.process.remote import Authority, behind
from tests.harness.process.rig import Chain, Rig

SCHEMES = ("unix", "tcp", "ws", "http")
TOKEN = "AGENT_TOKEN"  # noqa: S105 - the name of a variable


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """The stack that ends the servers of a test."""
    with ExitStack() as stack:
        yield stack


def words(component: str) -> str:
    """The command of a component of the rig."""
    whole = json.loads(component)
    return shlex.join([whole["command"], *whole["args"]])


def transcript(chain: Chain) -> list[bytes]:
    """All that a client gets of a session with updates, a question, files and a cancelled turn."""
    chain.serves = {
        "session/request_permission": lambda params: {
            "outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
        },
        "fs/read_text_file": lambda _: {"content": "ünïcode\n"},
    }
    session = chain.begin()
    chain.prompt(session, "/updates 3")
    chain.prompt(session, "/echo ünï\u2028code")
    chain.prompt(session, "/permission")
    chain.prompt(session, "/read a.txt")
    chain.prompt(session, "/size 300000")
    turn = chain.start_prompt(session, "/hang")
    chain.request("_x/unknown")
    chain.notify("session/cancel", {"sessionId": session})
    chain.answer(turn)
    assert chain.finish() == 0
    return chain.lines


def logs(rig: Rig, name: str) -> list[tuple[str, bytes]]:
    """The lines that a component has got and sent."""
    return [(each.dir, each.raw) for each in rig.log(name)]


def test_the_same_over_each_transport(rig: Rig, servers: ExitStack) -> None:
    """Stdio, in process, Unix socket, TCP, WebSocket: the client, the proxy and the agent see the
    same bytes."""
    seen: dict[str, tuple[list[bytes], list[tuple[str, bytes]], list[tuple[str, bytes]]]] = {}

    def ran(kind: str, chain: Chain) -> None:
        lines = transcript(chain)
        seen[kind] = lines, logs(rig, "X"), logs(rig, "A")
        for name in ("X", "A"):
            (rig.folder / name).unlink()

    ran("stdio", rig.agent(rig.x("X"), rig.demo()))
    flags = json.dumps(["--name", "X", "--dialect", "acp", "--log", str(rig.folder / "X")])
    inside = "py:tests.e2e.actors.recording_proxy:in_process,name=X,dialect=acp"
    ran("in process", rig.agent(inside, rig.demo(), RECORDING_PROXY=flags))
    for scheme in SCHEMES:
        proxy, agent = (
            servers.enter_context(behind(scheme, words(component), rig.folder))
            for component in (rig.x("X"), rig.demo())
        )
        ran(scheme, rig.agent(f"{proxy},name=X,dialect=acp", f"{agent},name=A"))
    for kind, what in seen.items():
        assert what == seen["stdio"], kind


# -- 112: retries, time-outs, health -------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_component_is_connected_to_at_a_further_try(
    rig: Rig, servers: ExitStack, scheme: str
) -> None:
    came = rig.folder / "came"
    ends = ("--ends", "2", "--upgrades", str(came))
    address = servers.enter_context(behind(scheme, words(rig.x("P")), rig.folder, *ends))
    chain = rig.agent(f"{address},name=P,dialect=acp,retries=3", rig.demo())
    assert chain.prompt(chain.begin(), "/echo hello") == "hello"
    assert "; try 2 of 3 more follows" in chain.stderr
    assert len(came.read_text().splitlines()) == 3
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0


def test_an_agent_that_listens_later_is_reached(rig: Rig) -> None:
    path = rig.folder / "socket"
    chain = rig.agent(f"unix:{path},name=A,retries=20")
    chain.start("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, id=7)
    chain.until_stderr("there is no such socket")
    with behind("unix", words(rig.demo()), rig.folder) as address:
        path.symlink_to(address.removeprefix("unix:"))
        assert "result" in chain.answer(7)
        assert chain.prompt(chain.new_session(), "/echo hello") == "hello"
        assert chain.finish() == 0


def late(rig: Rig, fails: int, **more: object) -> str:
    """A proxy that fails so many times before it starts."""
    program = ("--tries", str(rig.folder / "tries"), "--fails", str(fails), "--mark", "P was here")
    return json.dumps({**json.loads(rig.actor("late_starter", *program, name="P")), **more})


def test_a_program_starts_at_the_second_try(rig: Rig) -> None:
    chain = rig.agent(late(rig, 1, retries=1, dialect="acp"), rig.demo())
    assert "P was here" in chain.prompt(chain.begin(), "hello")
    assert (rig.folder / "tries").read_text() == "xx"
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_the_tries_have_an_end(rig: Rig) -> None:
    chain = rig.agent(late(rig, 99, retries=2, dialect="acp"), rig.demo())
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "exited with code 3; its last words: not yet" in answer["error"]["message"]
    assert chain.exit_code() == 1
    assert (rig.folder / "tries").read_text() == "xxx"
    assert rig.leftovers(chain) == []


def test_one_that_hangs_elsewhere_is_timed_out(rig: Rig, servers: ExitStack) -> None:
    silent = shlex.join([sys.executable, "-c", "import sys; sys.stdin.read()"])
    address = servers.enter_context(behind("ws", silent, rig.folder))
    chain = rig.agent(f"{address},name=P,dialect=acp,timeout=300ms", rig.demo())
    answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "did not answer" in answer["error"]["message"]
    assert "within 0.3 s" in answer["error"]["message"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_connection_that_is_lost_is_made_again(rig: Rig, servers: ExitStack, scheme: str) -> None:
    proxy = words(rig.x("P", "--die-on", "drop dead"))
    address = servers.enter_context(behind(scheme, proxy, rig.folder))
    chain = rig.agent(f"{address},name=P,dialect=acp,on_failure=restart", rig.demo())
    session = chain.begin()
    assert "`P`" in chain.answer(chain.start_prompt(session, "drop dead"))["error"]["message"]
    chain.until_stderr("started again (1 of 3)")
    assert chain.prompt(session, "/echo again") == "again"
    assert rig.methods("A").count("initialize") == 1
    assert chain.finish() == 0


# -- tokens, and what is refused -----------------------------------------------------------------


def test_a_token_is_a_reference_and_stands_nowhere(rig: Rig, servers: ExitStack) -> None:
    door = ("--token", "s3cret-t0ken")
    address = servers.enter_context(behind("ws", words(rig.demo()), rig.folder, *door))
    log, trace = rig.folder / "log", rig.folder / "trace"
    options = ("-c", f"log-file={log}", "--trace", str(trace))
    env = {TOKEN: door[1]}
    chain = rig.run("agent", *options, f"{address},name=A,token=env:{TOKEN}", **env)
    assert chain.prompt(chain.begin(), "/echo in") == "in"
    assert chain.finish() == 0
    for text in (chain.stderr, log.read_text(), trace.read_text()):
        assert door[1] not in text

    env = {TOKEN: "wr0ng-t0ken"}
    refused = rig.run("agent", f"{address},name=A,token=env:{TOKEN}", **env)
    answer = refused.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "HTTP status 401" in answer["error"]["message"]
    assert refused.exit_code() == 1
    assert "wr0ng" not in refused.stderr + json.dumps(answer)


@pytest.mark.parametrize(
    ("component", "words"),
    [
        ("ws://127.0.0.1:9,token=s3cret-t0ken", "a secret is `env:NAME`"),
        ("ws://127.0.0.1:9,token=env:NO_SUCH_VARIABLE", "there is no such variable"),
        ("ws://192.0.2.1:9,token=env:HOME", "not encrypted"),
        ("unix:/run/x,token=env:HOME", "no token can be shown"),
        ("demo,token=env:HOME", "an option of components at an address"),
        ("demo,ca=x.pem", "an option of components at an address"),
        ("wss://127.0.0.1:9,ca=no-such.pem", "has no certificates"),
        ("ws://127.0.0.1:9,retries=many", "is a number"),
        ("ws://a:b@h", "with a user or a password"),
        ("tcp://127.0.0.1", "a host and a port"),
    ],
)
def test_mistakes_are_named(component: str, words: str) -> None:
    ran = conductor("agent", component, env=environment())
    ran.assert_error(2, words)
    assert "s3cret" not in ran.err


def test_a_proxy_elsewhere_is_not_sandboxed() -> None:
    ran = conductor("agent", "--require-sandbox", "ws://127.0.0.1:9", "demo")
    ran.assert_error(
        2, "is not sandboxed, and `require-sandbox` is set (command line)", "ws://127.0.0.1:9/acp"
    )


def test_what_a_component_elsewhere_is() -> None:
    ran = conductor("inspect", "wss://example.org,name=far")
    assert "wss://example.org/acp" in ran.out
    assert "NO: it runs elsewhere" in ran.out
    facts = json.loads(conductor("inspect", "--json", "wss://example.org").out)
    assert facts["kind"] == "address"
    assert facts["address"] == "wss://example.org/acp"
    assert facts["sandboxed"] is False


def test_a_lock_knows_it_by_its_address(tmp_path: Path) -> None:
    assert conductor("lock", "ws://127.0.0.1:9,name=P", "demo", cwd=tmp_path).code == 0
    assert 'kind = "remote"' in (tmp_path / "conductor.lock").read_text()
    assert 'source = "ws://127.0.0.1:9/acp"' in (tmp_path / "conductor.lock").read_text()
    ran = conductor("agent", "--locked", "ws://127.0.0.1:10,name=P", "demo", cwd=tmp_path)
    ran.assert_error(2, "does not allow this chain", "127.0.0.1:10")


def test_a_file_of_the_configuration_names_it(rig: Rig, servers: ExitStack) -> None:
    address = servers.enter_context(behind("unix", words(rig.demo()), rig.folder))
    settings = rig.folder / "conductor"
    settings.mkdir()
    (settings / "socket").symlink_to(address.removeprefix("unix:"))
    text = '[chains.far]\ncomponents = ["unix:socket,name=A"]\n'
    (settings / "conductor.toml").write_text(text)
    chain = rig.agent("@far", XDG_CONFIG_HOME=str(rig.folder))
    assert chain.prompt(chain.begin(), "/echo hello") == "hello"
    assert chain.finish() == 0


def test_an_editor_gets_an_entry_for_it(tmp_path: Path) -> None:
    component = "wss://example.org,token=file:secret,ca=own.pem"
    ran = conductor("setup", "zed", "--print", component, cwd=tmp_path)
    assert f"wss://example.org,token=file:{tmp_path}/secret,ca={tmp_path}/own.pem" in ran.out


def test_nobody_there_is_an_error_that_names_it(rig: Rig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        chain = rig.agent(f"tcp://127.0.0.1:{taken.getsockname()[1]},name=far", rig.demo())
        answer = chain.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert "proxy `far`" in answer["error"]["message"]
    assert "nobody listens there" in answer["error"]["message"]
    assert chain.exit_code() == 1


def test_a_managed_policy_knows_it_by_its_address(
    tmp_path: Path, rig: Rig, servers: ExitStack
) -> None:
    machine = Machine(tmp_path / "machine")
    address = servers.enter_context(behind("tcp", words(rig.demo()), rig.folder))
    machine.allow(f'[[agents]]\nsource = "{address}"')
    assert machine.prompt(address).out == "hi\n"
    machine.refuses(machine.prompt("tcp://127.0.0.1:9"), "agents")
    machine.allow(f'[[agents]]\nsource = "{address}"\nsha256 = "{"0" * 64}"')
    machine.refuses(machine.prompt(address), "agents")
    machine.allow('[[components]]\nsource = "ws://127.0.0.1:9/acp"\n[most]\nonly = ["context"]')
    ran = machine.prompt("ws://127.0.0.1:9,only=trusted", "demo")
    machine.refuses(ran, "most.only")
    machine.allow("require-sandbox = true")
    machine.refuses(machine.prompt("ws://127.0.0.1:9", "demo"), "require-sandbox")
    machine.allow('[[agents]]\nsource = "ws://127.0.0.1:9"')
    machine.conductor("exec", "demo", "-p", "hi").assert_error(2, "not in its full form")


def test_a_package_that_is_missing_is_named(tmp_path: Path) -> None:
    package = "websockets"
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError('', name={package!r})")
    here = environment()
    env = {**here, "PYTHONPATH": f"{tmp_path}:{here['PYTHONPATH']}"}
    for command in ("agent", "connect"):
        ran = conductor(command, "ws://127.0.0.1:9", env=env)
        ran.assert_error(2, f"needs the package `{package}`", "[remote]")


def test_a_certificate_is_trusted_only_where_its_authority_is(rig: Rig) -> None:
    authority, chain = Authority(rig.folder), []
    with authority.serving(words(rig.demo())) as port:
        place = f"wss://localhost:{port}"
        refused = rig.agent(f"{place},name=A")
        answer = refused.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert "is not to be trusted" in answer["error"]["message"]
        chain.append(rig.agent(f"{place},name=A,ca={authority.file}"))
        chain.append(rig.run("connect", place, "--ca", str(authority.file)))
        for each in chain:
            assert each.prompt(each.begin(), "/echo hello") == "hello"
            assert each.finish() == 0
