"""The client of a recorded chain, played without a chain."""

from typing import Any

import msgspec

from conductor.record.replay.client import Client
from conductor.record.turns.line import Line, read_line


def event(**members: Any) -> Line:
    """An event of a trace."""
    line = read_line(msgspec.json.encode(members))
    assert line is not None
    return line


def test_nobody_waits_for_an_answer_that_the_conductor_gave_itself() -> None:
    """The person had left in the middle of a turn, and no agent answered."""
    down, up = {"from": "client", "to": "agent"}, {"from": "agent", "to": "client"}
    asked = event(type="request", **down, id=1, method="session/prompt")
    for by, waits in (("conductor", ""), ("", "session/prompt")):
        answer = event(type="response", **up, id=1, _conductor={"by": by})
        client = Client([asked, answer], [], lambda session: 0)
        assert len(client.send()) == 1
        assert (client.done, client.waits_for) == (by != "", waits)
