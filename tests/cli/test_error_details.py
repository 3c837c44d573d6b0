"""An agent's error is printed once, without the JSON that a model's server wrapped it in."""

import json
import sys
from typing import Any, Final

import pytest

from tests.harness.process.command import conductor

DETAIL: Final = {"type": "denied", "message": "invalid x-api-key"}
REFUSED: Final = {"type": "error", "error": DETAIL, "request_id": "req_1"}
RAW: Final = f"401 {json.dumps(REFUSED)}"
AGENT: Final = """
import json, sys
sys.stderr.write(sys.argv[1])
sys.stderr.flush()
for line in sys.stdin:
    message = json.loads(line)
    answer = {"result": {"protocolVersion": 1, "sessionId": "s"}}
    if message["method"] == "session/prompt":
        answer = {"error": json.loads(sys.argv[2])}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
CASES: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "in its text": (
        "",
        {"code": -32603, "message": f"API Error: {RAW}"},
        "error: session/prompt failed: API Error: 401 invalid x-api-key\n\n",
    ),
    "everywhere": (
        f"Error: {RAW}\n",
        {"code": -32603, "message": f"API Error: {RAW}", "data": {"details": RAW}},
        "error: session/prompt failed: API Error: 401 invalid x-api-key\n\n",
    ),
    "in its data": (
        f"Error: {RAW}\n",
        {"code": -32603, "message": "Internal error", "data": {"details": RAW, "kind": "a"}},
        "error: session/prompt failed: Internal error\n  | 401 invalid x-api-key\n  | kind: a\n\n",
    ),
    "as an object": (
        f"{RAW}\n",
        {"code": -32603, "message": "401", "data": {"error": DETAIL}},
        "error: session/prompt failed: 401\n  | type: denied\n  | invalid x-api-key\n\n",
    ),
    "in a list in a text": (
        "",
        {"code": 500, "message": json.dumps([{"error": {"code": 401, "message": "no key"}}])},
        "error: session/prompt failed: no key\n\n",
    ),
    "that is no object": (
        "",
        {"code": -32603, "message": "no {braces} of 1 [2] 401", "data": "no {braces}"},
        "error: session/prompt failed: no {braces} of 1 [2] 401\n\n",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_of_a_models_server_is_told_once(case: str) -> None:
    said, error, shown = CASES[case]
    agent = [sys.executable, "-c", AGENT, said, json.dumps(error)]
    ran = conductor("exec", "-p", "hi", "-c", "log-file=none", "--", *agent)
    hint = "hint: log in with the agent's own command first, then run this again\n"
    assert (ran.code, ran.err) == (1, f"{shown}{hint}")
