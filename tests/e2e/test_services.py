"""The services that proxies get from the conductor itself, through the real command line."""

import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.harness.process.client import Json
from tests.harness.process.command import conductor, environment
from tests.harness.process.rig import Chain, Rig
from tests.places import ACTORS

ISOLATIONS = pytest.mark.parametrize("isolation", ["process", "inline"])


def asking_guest(rig: Rig, *lines: Json | str, name: str = "asker", first: str = "") -> str:
    """The path of a guest that says these to the conductor when told `@go`; `first`: whole lines
    of any side."""
    wat = (ACTORS / "asking_guest.wat").read_text("utf-8")
    told = (f"c{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    data = "".join([first, *told]).encode()
    text = "".join(f"\\{byte:02x}" for byte in data)
    return rig.module(name, wat.replace('DATA"', f'{text}"').replace("SIZE", str(len(data))))


def call(number: int, method: str, /, **params: object) -> Json:
    """A request on side c."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def told(chain: Chain, session: str, count: int) -> dict[Any, Json]:
    """The answers that the guest got after `@go`, by id; unasked messages under their method."""
    before = len(chain.seen("_told"))
    chain.prompt(session, "@go")
    chain.expect("_told", before + count)
    said = [frame["params"] for frame in chain.seen("_told")[before:]]
    return {one.get("id", one.get("method")): one for one in said}


@ISOLATIONS
def test_a_guest_uses_every_service_it_was_granted(
    rig: Rig, isolation: str, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("read me")
    (tmp_path / "secret.txt").write_text("do not")
    guest = asking_guest(
        rig,
        call(1, "kv/set", key="a", value={"n": 1.5}),
        call(2, "kv/get", key="a"),
        call(3, "timer/start", afterMs=10, data="x"),
        call(4, "files/read", path="notes.md"),
        call(5, "files/read", path="secret.txt"),
        call(6, "files/roots"),
        call(7, "fetch", url="https://example.com/"),
        call(8, "clock"),
        call(9, "random"),
        call(10, "metric", name="asked"),
        call(11, "service", component="asker", method="clock"),
    )
    metrics = tmp_path / "metrics.txt"
    chain = rig.agent(
        f"{guest},allow=extension:_told+storage+timer+read:*.md+clock",
        rig.demo(),
        options=("-c", f"isolation={isolation}", "-c", f"metrics={metrics}"),
        XDG_DATA_HOME=str(tmp_path / "data"),
    )
    chain.initialize()
    first = chain.new_session(cwd=str(tmp_path))
    answers = told(chain, first, 12)
    assert answers[1]["result"]["used"] == 11
    assert answers[2]["result"] == {"found": True, "value": {"n": 1.5}, "revision": 2}
    timer = answers[3]["result"]["timer"]
    assert answers["timer/fired"]["params"] == {"timer": timer, "count": 1, "data": "x"}
    assert answers[4]["result"]["text"] == "read me"
    assert answers[5]["error"]["data"]["reason"] == "not-granted"
    assert answers[6]["result"] == {"roots": [str(tmp_path)]}
    for number, service, grant in ((7, "web", "web:HOST"), (9, "random", "random")):
        error = answers[number]["error"]
        assert error["code"] == -32601
        assert error["data"] == {"service": service}
        assert f"hint: `,allow={grant}` lets it" in error["message"]
    assert "unixMs" in answers[8]["result"]
    assert answers[10]["result"] is None
    assert answers[11]["error"]["code"] == -32601  # only hosts of guests may say this
    second = chain.new_session(cwd=str(tmp_path / "second"))
    assert "result" in chain.request("session/close", {"sessionId": first})
    roots = told(chain, second, 12)[6]["result"]["roots"]
    assert roots == [str(tmp_path / "second")], "those of a session that was closed are dropped"
    assert chain.finish() == 0
    assert 'asked{component="asker"} 2' in metrics.read_text()


@pytest.mark.proves("a session that a proxy may open")
def test_a_session_of_a_proxys_own_opens_no_folder(rig: Rig, tmp_path: Path) -> None:
    """Not even where it may open one: only the client says where files are read."""
    (tmp_path / "notes.md").write_text("read me")
    elsewhere = {"cwd": "/", "additionalDirectories": ["/etc"], "mcpServers": []}
    below = {"cwd": str(tmp_path / "below"), "mcpServers": []}
    opened = [call(8, "session/new", **elsewhere), call(9, "session/new", **below)]
    guest = asking_guest(
        rig,
        call(1, "files/roots"),
        call(2, "files/read", path="/etc/hostname"),
        first="".join(f"s{json.dumps(one)}\n" for one in opened),
    )
    chain = rig.agent(f"{guest},allow=prompt:unseen+extension:_told+read:**", rig.demo())
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))
    answers = told(chain, session, 2)
    assert answers[1]["result"] == {"roots": [str(tmp_path)]}
    assert answers[2]["error"]["data"]["reason"] == "outside"
    assert chain.new_session(cwd=str(tmp_path)) == "demo-3"  # so it did open one
    assert told(chain, session, 2)[1]["result"] == {"roots": [str(tmp_path)]}
    assert chain.finish() == 0


def test_values_are_kept_from_run_to_run_and_apart(rig: Rig, tmp_path: Path) -> None:
    setter = asking_guest(rig, call(1, "kv/set", key="a", value=1), name="one")
    other = asking_guest(rig, call(1, "kv/get", key="a"), name="two")
    data = str(tmp_path / "data")
    for _ in range(2):
        chain = rig.agent(f"{setter},allow=extension:_told+storage", rig.demo(), XDG_DATA_HOME=data)
        assert told(chain, chain.begin(), 1)[1]["result"]["used"] == 2
        assert chain.finish() == 0
    asking_guest(rig, call(1, "kv/get", key="a"), name="one")  # its next version
    mine, nothing = {"found": True, "value": 1, "revision": 3}, {"found": False, "revision": 0}
    for path, found in ((setter, mine), (other, nothing)):
        chain = rig.agent(f"{path},allow=extension:_told+storage", rig.demo(), XDG_DATA_HOME=data)
        assert told(chain, chain.begin(), 1)[1]["result"] == found
        assert chain.finish() == 0


def test_a_replay_answers_with_the_revisions_of_the_recording(rig: Rig, tmp_path: Path) -> None:
    setter = asking_guest(
        rig, call(1, "kv/set", key="a", value=1, ifRevision=0), call(2, "kv/get", key="a")
    )
    trace = tmp_path / "t.jsons"
    answers = []
    for options in ((), ("--trace", str(trace), "-c", "trace-content=all")):
        chain = rig.agent(
            f"{setter},allow=extension:_told+storage",
            rig.demo(log=False),
            options=options,
            XDG_DATA_HOME=str(tmp_path / "data"),
        )
        answers.append(told(chain, chain.begin(), 2))
        assert chain.finish() == 0
    (revision,) = {one[2]["result"]["revision"] for one in answers}
    assert answers[0][1]["result"]["revision"] == revision
    assert answers[1][1]["error"]["data"]["revision"] == revision
    replayed = tmp_path / "replayed.jsons"
    elsewhere = environment(XDG_DATA_HOME=str(tmp_path / "elsewhere"))
    conductor("log", "replay", str(trace), "--trace", str(replayed), env=elsewhere)
    # Not the whole turn: what a guest causes itself may come after what others cause.
    assert [params["id"] for params in _told_in(trace)] == [1, 2]
    assert _told_in(replayed) == _told_in(trace)


def _told_in(trace: Path) -> list[Json]:
    """The messages of the guest to the client, without its configuration."""
    events = map(json.loads, trace.read_text().splitlines())
    found = [event["params"] for event in events if event.get("method") == "_told"]
    return [params for params in found if "id" in params]


def test_neighbours_get_their_own_answers(rig: Rig) -> None:
    one = asking_guest(rig, call(1, "timer/start", afterMs=10, data="one"), name="one")
    two = asking_guest(rig, call(1, "timer/start", afterMs=10, data="two"), name="two")
    granted = "allow=extension:_told+timer"
    chain = rig.agent(f"{one},{granted}", f"{two},{granted}", rig.demo())
    session = chain.begin()
    chain.prompt(session, "@go")

    def fired() -> list[Json]:
        said = [frame["params"] for frame in chain.seen("_told")]
        return [one["params"] for one in said if one.get("method") == "timer/fired"]

    chain.until(lambda: len(fired()) == 2, "both timers")
    assert sorted(one["data"] for one in fired()) == ["one", "two"]
    assert len({one["timer"] for one in fired()}) == 2
    assert chain.finish() == 0


def asking_proxy(rig: Rig, **more: object) -> str:
    """The asking subprocess."""
    return rig.program(sys.executable, "-m", "tests.e2e.actors.asking_proxy", name="P", **more)


def test_proxy_log(rig: Rig) -> None:
    chain = rig.agent(asking_proxy(rig), rig.demo())
    chain.prompt(chain.begin(), '/say _proxy/log {"level":"warn","message":"all well","data":[1]}')
    chain.settled()
    assert "warning: P: all well [1]" in chain.stderr
    assert chain.seen("_proxy/log") == []
    assert chain.finish() == 0


def test_proxy_metric(rig: Rig, tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.txt"
    chain = rig.agent(asking_proxy(rig), rig.demo(), options=("-c", f"metrics={metrics}"))
    session = chain.begin()
    for _ in range(2):
        chain.prompt(session, '/say _proxy/metric {"name":"prompts"}')
    assert chain.finish() == 0
    assert 'conductor_proxy_prompts{component="P"} 2\n' in metrics.read_text()


@pytest.mark.parametrize("how", ["watch", "signal"])
def test_a_proxy_is_configured_anew_while_it_runs(rig: Rig, tmp_path: Path, how: str) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('prefix = "old "')
    proxy = asking_proxy(rig, config=str(settings))
    chain = rig.agent(proxy, rig.demo(), options=("--reload",) if how == "watch" else ())
    session = chain.begin()
    assert chain.prompt(session, "hello") == "old hello"
    settings.write_text('prefix = "new "')
    if how == "signal":
        chain.process.send_signal(signal.SIGHUP)
    chain.until(
        lambda: any(f["params"] == {"configured": {"prefix": "new "}} for f in chain.seen("_told")),
        "the new configuration",
    )
    assert chain.prompt(session, "hello") == "new hello"
    chain.prompt(session, "/ask _proxy/config")
    chain.until(lambda: "result" in chain.seen("_told")[-1]["params"], "the configuration")
    assert chain.seen("_told")[-1]["params"]["result"]["config"] == {"prefix": "new "}
    settings.write_text("prefix = ")
    if how == "signal":
        chain.process.send_signal(signal.SIGHUP)
    chain.until_stderr("its settings stay as they were")
    assert chain.prompt(session, "hello") == "new hello"
    assert chain.finish() == 0


def test_a_guest_is_configured_anew_while_it_runs(rig: Rig, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"template": "A {date}"}')
    chain = rig.agent(
        f"datetime,config={settings}",
        rig.demo(),
        options=("--reload", "-c", "clock=2026-01-02T03:04:05+00:00", "--log", "info"),
    )
    session = chain.begin()
    assert chain.prompt(session, "x") == "A 2026-01-02\nx"
    settings.write_text('{"template": "B {date}"}')
    chain.until_stderr("told its settings")
    chain.settled()
    assert chain.prompt(session, "x") == "B 2026-01-02\nx"
    assert chain.finish() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "settings.toml: No such file"),
        ("x = ", "settings.toml, line 1: Invalid value"),
        ("\xff", ""),
    ],
)
def test_settings_that_cannot_be_read(
    rig: Rig, tmp_path: Path, text: str | None, said: str
) -> None:
    settings = tmp_path / "settings.toml"
    if text is not None:
        settings.write_bytes(text.encode("latin-1"))
    chain = rig.agent(f"datetime,config={settings}", rig.demo())
    assert chain.exit_code() == 2
    assert f"error: {settings}" in chain.stderr
    assert said in chain.stderr
    assert "hint: " in chain.stderr


@pytest.mark.parametrize("isolation", ["process", "inline"])
def test_a_guest_that_is_replaced_keeps_its_settings_while_their_file_is_wrong(
    rig: Rig, tmp_path: Path, isolation: str
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('template = "A {date}"')
    options = (
        "-c",
        f"isolation={isolation}",
        "-c",
        "clock=2026-01-02T03:04:05+00:00",
        "--log",
        "info",
    )
    chain = rig.agent(f"datetime,config={settings}", rig.demo(), options=options)
    session = chain.begin()
    heard = 0
    for wrong in ("tmeplate = 1", "template = "):
        settings.write_text(wrong)
        chain.process.send_signal(signal.SIGHUP)
        chain.until(
            partial(lambda start: "anew, from the same files" in chain.stderr[start:], heard),
            "its new start",
        )
        assert "new build" not in chain.stderr
        assert "its settings stay as they were" in chain.stderr[heard:]
        heard = len(chain.stderr)
        assert chain.prompt(session, "x") == "A 2026-01-02\nx"
    settings.write_text('template = "B {date}"')
    chain.process.send_signal(signal.SIGHUP)
    chain.until_stderr("told its settings")
    chain.settled()
    assert chain.prompt(session, "x") == "B 2026-01-02\nx"
    assert chain.finish() == 0
