"""Half an emoji is text for all that writes or reads what a chain says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness.process.command import conductor
from tests.places import ROOT

if TYPE_CHECKING:
    from tests.harness.process.rig import Chain, Rig

HALF: Final = "half \ud83d"
SPELLED: Final = "half \\ud83d"
SESSION: Final = "s\ud83d"
KEEPER: Final = ROOT / "tests" / "e2e" / "actors" / "half_keeper.py"
GRANTS: Final = "grant=kv,grant=metric,grant=files:**,grant=write:notes"


def _chain(rig: Rig, folder: Path) -> Chain:
    written = [part for name in ("audit", "trace", "metrics")
               for part in (f"--{name}", str(folder / name))]  # fmt: skip
    options = (*written, "--trace-content", "all", "--isolation", "inline")
    agent = rig.actor("half_agent", name="A")
    return rig.agent(
        PREFIX, f"{KEEPER},{GRANTS}", agent, options=options, XDG_DATA_HOME=str(folder)
    )


PREFIX: Final = json.dumps({"name": "prompt-prefix", "config": {"text": HALF}})
READERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "audit verify": (("audit", "verify", "audit"), "unbroken"),
    "audit show": (("audit", "show", "audit"), "half \\u{d83d}"),
    "audit show, JSON": (("audit", "show", "--json", "audit"), SPELLED),
    "trace show": (("trace", "show", "trace"), "half \\u{d83d}"),
    "trace stats": (("trace", "stats", "trace"), "keeper"),
    "trace view": (("trace", "view", "trace", "--save", "view.html"), "view.html"),
    "trace export": (("trace", "export", "trace", "--otlp", "o.json"), "o.json"),
    "trace export, a picture": (("trace", "export", "trace", "--perfetto", "p.json"), "p.json"),
    "replay": (("replay", "trace"), "same"),
    "replay of one": (("replay", "trace", f"{KEEPER},{GRANTS}"), "same"),
}


def test_half_an_emoji_is_text_everywhere(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    for _ in range(2):  # the second continues the audit
        chain = _chain(rig, tmp_path)
        chain.initialize()
        assert chain.new_session(cwd=str(tmp_path)) == SESSION
        said = chain.prompt(SESSION, "hi")
        assert said == f"{HALF}\ude00{HALF}, half \ufffd{HALF}"
        (tool,) = [f for f in chain.seen("session/update") if "rawInput" in f["params"]["update"]]
        assert tool["params"]["update"]["rawInput"] == {HALF: HALF}
        assert chain.seen(f"_x/{HALF}")[0]["params"] == {HALF: [HALF]}
        failed = chain.answer(chain.start_prompt(SESSION, "fail"))["error"]
        assert (failed["message"], failed["data"]) == (HALF, {HALF: HALF})
        assert chain.finish() == 0, chain.stderr
        assert "rror: " not in chain.stderr
    assert (tmp_path / "notes" / "a.txt").read_text(encoding="utf-8") == "half \ufffd"
    assert 'text="half \ufffd"' in (tmp_path / "metrics").read_text(encoding="utf-8")
    for name, (command, expected) in READERS.items():
        ran = conductor(*command)
        assert (ran.code, name) == (0, name), ran.err
        assert expected in ran.out + ran.err, name
    json.loads((tmp_path / "o.json").read_bytes())
    json.loads((tmp_path / "p.json").read_bytes())
