"""The client of a recorded chain, played without a chain."""

from typing import Any

import msgspec
import pytest

from conductor.core.dialects import CANCEL
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
    for by in ("conductor", ""):
        answer = event(type="response", **up, id=1, _conductor={"by": by})
        client = Client([asked, answer], [], lambda session: 0)
        assert len(client.send()) == 1
        assert client.done == bool(by)
    assert client.waits == "waits for an answer to `session/prompt`"


@pytest.mark.parametrize("id_", [[1], {}, None, 1.5, "x" * 2000, 1])
def test_requests_have_ids_of_this_run(id_: object) -> None:
    """The ids of a trace may be ones that nobody may use, or that are in use."""
    down = {"from": "client", "to": "agent"}
    asked = [
        event(type="request", **down, id=id_, method=method, _conductor={"id": 7, "n": number})
        for number, method in ((1, "initialize"), (2, "session/prompt"))
    ]
    cancels = [
        event(type="notification", **down, method=CANCEL, _conductor={"of": of}) for of in (2, 3)
    ]
    lines = [
        msgspec.json.decode(line)
        for line in Client([*asked, *cancels], [], lambda session: 0).send()
    ]
    assert [line.get("id") for line in lines] == [1, 2, None]
    assert lines[2]["params"] == {"requestId": 2}
