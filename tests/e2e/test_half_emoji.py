"""Half an emoji is text for all that writes or reads what a chain says."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.command import conductor
from tests.harness.process.nats import Nats
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import served
from tests.page.talking import Talking, idle
from tests.places import ROOT

HALF: Final = "half \ud83d"
SPELLED: Final = "half \\ud83d"
SESSION: Final = "s\ud83d"
NEW: Final = {"cwd": "/", "mcpServers": []}
KEEPER: Final = ROOT / "tests" / "e2e" / "actors" / "half_keeper.py"
RIGHTS: Final = "allow=storage+read:**+write:notes"


def _chain(rig: Rig, folder: Path, *isolation: str) -> Chain:
    written = [part for name in ("audit", "trace", "metrics")
               for part in ("-c", f"{name}={folder / name}")]  # fmt: skip
    options = (*written, "-c", "trace-content=all", *isolation)
    agent = rig.actor("half_agent", name="A")
    homes = {f"XDG_{name}_HOME": str(folder) for name in ("DATA", "STATE")}
    keeper = f"{KEEPER},{RIGHTS}"
    return rig.agent(PREFIX, keeper, "passthrough,only=trusted", agent, options=options, **homes)


PREFIX: Final = json.dumps({"name": "prompt-prefix", "config": {"text": HALF}})
RING: Final = re.compile(r"ring: the last messages are in (\S+)\n")
READERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "log verify": (("log", "verify", "audit"), "unbroken"),
    "log show of an audit": (("log", "show", "audit"), "half \\u{d83d}"),
    "log show of an audit, JSON": (("log", "show", "--json", "audit"), SPELLED),
    "log show": (("log", "show", "trace"), "half \\u{d83d}"),
    "log stats": (("log", "stats", "trace"), "keeper"),
    "log view": (("log", "view", "trace", "--output", "view.html"), "view.html"),
    "log export": (("log", "export", "trace", "--output", "p.json"), "p.json"),
    "ring": (("log", "show", "ring"), "half \\u{d83d}"),
    "ring, stats": (("log", "stats", "ring"), "session/update"),
    "log replay": (("log", "replay", "trace"), "same"),
    "log replay of one": (("log", "replay", "trace", f"{KEEPER},{RIGHTS}"), "same"),
}


def _ring(chain: Chain) -> str:
    """The file of its ring."""
    chain.process.send_signal(signal.SIGUSR2)
    chain.until(lambda: RING.search(chain.stderr) is not None, "the ring")
    return str(RING.findall(chain.stderr)[-1])


def test_half_an_emoji_is_text_everywhere(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    # The second continues the audit, and its guests have a host with a record.
    for isolation in (("-c", "isolation=inline"), ()):
        chain = _chain(rig, tmp_path, *isolation)
        chain.initialize()
        assert chain.new_session(cwd=str(tmp_path)) == SESSION
        said = chain.prompt(SESSION, "hi")
        assert said == f"{HALF}\ude00{HALF}, half \ufffd{HALF}"
        (tool,) = [f for f in chain.seen("session/update") if "rawInput" in f["params"]["update"]]
        assert tool["params"]["update"]["rawInput"] == {HALF: HALF}
        assert chain.seen(f"_x/{HALF}")[0]["params"] == {HALF: [HALF]}
        failed = chain.answer(chain.start_prompt(SESSION, "fail"))["error"]
        assert (failed["message"], failed["data"]) == (HALF, {HALF: HALF})
        shutil.copy(_ring(chain), "ring")
        assert chain.finish() == 0, chain.stderr
        assert "rror: " not in chain.stderr
    assert (tmp_path / "notes" / "a.txt").read_text(encoding="utf-8") == "half \ufffd"
    assert 'text="half \ufffd"' in (tmp_path / "metrics").read_text(encoding="utf-8")
    for name, (command, expected) in READERS.items():
        ran = conductor(*command)
        assert (ran.code, name) == (0, name), ran.err
        assert expected in ran.out + ran.err, name
    json.loads((tmp_path / "p.json").read_bytes())


def test_half_an_emoji_goes_through_a_fleet_and_its_journal(rig: Rig, nats: Nats) -> None:
    place = ("--nats", nats.url)
    worker = ("fleet", "worker", rig.actor("half_agent", name="A"), "--journal", "on", *place)
    with served(rig, "fleet", "gateway", "--listen", "ws://127.0.0.1:0", *place) as gateway:
        # The second worker knows from the first whose the session is.
        for method, params in (
            ("session/new", NEW),
            ("session/load", {**NEW, "sessionId": SESSION}),
        ):
            running = served(rig, *worker)
            client = gateway.socket()
            client.initialize()
            opened = client.request(method, params)
            assert "result" in opened, opened
            assert HALF in client.prompt(SESSION, "hi")
            client.close()
            running.end()
        assert "defect" not in running.process.stderr
    ran = conductor("fleet", "journal", "local", *place)
    assert SPELLED in ran.out
    assert '"sessionId":"s\\ud83d"' in ran.out


def test_half_an_emoji_goes_through_a_chat(rig: Rig) -> None:
    with Talking(PREFIX, rig.actor("half_agent", name="A")) as talking:
        talking.until(lambda chat: chat["sessions"])
        talking.say(SESSION, HALF)
        (held,) = talking.until(lambda chat: idle(chat) and chat["sessions"][0]["title"])[
            "sessions"
        ]
        assert (held["id"], held["title"], held["error"]) == (SESSION, HALF, ["", ""])
        assert HALF in json.dumps(talking.turn(1), ensure_ascii=False)
        talking.do("load", session=SESSION)
        repeated = talking.do("history", session=SESSION)
        assert HALF in json.dumps(repeated, ensure_ascii=False)
