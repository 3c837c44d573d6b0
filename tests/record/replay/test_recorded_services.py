"""Services in a replay: what the trace does not hold."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.record.replay.recorded_services import RecordedServices


def test_values_of_a_replay_have_revisions() -> None:
    services = RecordedServices(())

    def ask(call: str, **params: object) -> Any:
        answer = services.perform("p", call, msgspec.json.encode(params), lambda *told: None)
        assert answer is not None
        return msgspec.json.decode(answer[0] or answer[1] or b"")

    assert ask("kv/get", key="a") == {"found": False, "revision": 0}
    first = ask("kv/set", key="a", value=None, ifRevision=0)["revision"]
    assert ask("kv/get", key="a") == {"found": True, "value": None, "revision": first}
    refused = ask("kv/set", key="a", value=2, ifRevision=0)
    assert refused["data"] == {"service": "kv/set", "reason": "conflict", "revision": first}
    assert ask("kv/set", key="a", value=3, ifRevision=first)["revision"] > first
    assert ask("kv/delete", key="a") == {"deleted": True}
    assert ask("kv/set", key="a", value=4)["revision"] > first + 1
