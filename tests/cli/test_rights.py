"""Rights through the real command line: a proxy that changes whatever passes, held to each."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.harness.process.command import conductor

MEDDLER = """
import json, sys
kept = sys.argv[1] == "kept"
there, back = (lambda id: id, lambda id: id) if kept else (json.dumps, json.loads)
for line in sys.stdin:
    got = json.loads(line)
    method, params = got.get("method"), got.get("params")
    sent = {"jsonrpc": "2.0"}
    if method == "proxy/successor":
        sent |= json.loads(json.dumps(params).replace("fox", "FOX"))
    elif method is not None:
        inner = "initialize" if method == "proxy/initialize" else method
        params = json.loads(json.dumps(params).replace("quick", "QUICK"))
        sent |= {"method": "proxy/successor", "params": {"method": inner, "params": params}}
    else:
        sent |= {k: v for k, v in got.items() if k in ("result", "error")}
        sent["id"] = back(got["id"])
    if method is not None and "id" in got:
        sent["id"] = there(got["id"])
    print(json.dumps(sent), flush=True)
"""
"""A proxy of dialect `acp` that changes a word of messages down and a word of messages up. It
chooses the ids of messages that it passes on, unless its argument is `kept`."""

CHANGED = {
    "trusted": "the QUICK brown FOX",
    "full,ids=kept": "the QUICK brown FOX",
    "filter": "the QUICK brown FOX",
    "context": "the QUICK brown fox",
    "serve:tools": "the quick brown fox",
    "observer": "the quick brown fox",
    "none": "the quick brown fox",
    "serve:tools+change:prompts": "the QUICK brown fox",
    "filter+add:words": "the QUICK brown FOX",
}


@pytest.mark.proves("from a policed proxy to client", "a component changes only the")
@pytest.mark.parametrize("rights", CHANGED)
def test_a_component_changes_what_its_rights_allow_and_nothing_else(
    tmp_path: Path, rights: str
) -> None:
    script = tmp_path / "meddler.py"
    script.write_text(MEDDLER)
    ids = "kept" if rights.endswith("ids=kept") else "chosen"
    proxy = f"{shlex.join([sys.executable, str(script), ids])},dialect=acp,only={rights}"
    ran = conductor("exec", proxy, "demo", "-p", "the quick brown fox")
    assert (ran.code, ran.out) == (0, CHANGED[rights] + "\n")
