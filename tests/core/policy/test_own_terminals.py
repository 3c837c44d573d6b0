"""Terminals of the editor's, with `editor=terminal`: a component uses those that it has opened."""

from itertools import product

import pytest

from conductor.core import Violated
from tests.core.policy.test_own_sessions import opened
from tests.harness.router.policed import (
    Hole,
    Json,
    Playbook,
    chain,
    chain_of,
    guest,
    notification,
    refused,
    request,
    result,
    skip,
    taken,
)

GRANTED: Json = {"grants": "editor=terminal"}
NO: Json = {"code": -32000, "message": "no"}
USES = ("output", "wait_for_exit", "kill", "release")


def in_sessions(pb: Playbook, *sessions: str) -> None:
    """The user has these sessions."""
    for session in sessions:
        pb >> ("client", request("n", "session/new", {"cwd": "/work", "mcpServers": []}))
        pb << ("agent", Hole("asked"))
        pb >> ("agent", result(pb.values.pop("asked")["id"], {"sessionId": session}))
        pb << ("client", result("n", {"sessionId": session}))


def opens(pb: Playbook, terminal: object, session: str = "S", by: str = "g") -> None:
    """A component, or the agent, opens a terminal."""
    params = {"sessionId": session, "command": "ls"}
    pb >> (*((by, "p") if by != "agent" else (by,)), request("open", "terminal/create", params))
    pb << ("client", request(Hole("open"), "terminal/create", params))
    answer = {"result": {"terminalId": terminal}} if terminal else {"error": NO}
    pb >> ("client", {"jsonrpc": "2.0", "id": Hole("open"), **answer})
    skip(pb)
    del pb.values["open"]


def uses(pb: Playbook, word: str, terminal: object, session: str = "S", by: str = "g") -> None:
    """A component uses a terminal, and the client gets that."""
    params = {"sessionId": session, "terminalId": terminal}
    pb >> (by, "p", request("use", f"terminal/{word}", params))
    pb << ("client", request(Hole("use"), f"terminal/{word}", params))
    pb >> ("client", result(Hole("use"), {})) << (by, "p", result("use", {}))
    del pb.values["use"]


def may_not(pb: Playbook, terminal: object, session: str = "S", by: str = "g") -> None:
    """A component uses a terminal that it may not."""
    for word in USES:
        params = {"sessionId": session, "terminalId": terminal}
        pb >> (by, "p", request("use", f"terminal/{word}", params))
        assert isinstance(taken(pb), Violated)
        refused(pb, "use", "only terminals that it has opened itself", side="p", name=by)


@pytest.mark.proves("with `run:commands` a component")
@pytest.mark.parametrize("version", [1, 2])
def test_a_component_uses_the_terminals_that_it_has_opened(version: int) -> None:
    with chain(version=version, **GRANTED) as pb:
        in_sessions(pb, "S", "T")
        opens(pb, "agents", by="agent")
        may_not(pb, "agents")
        opens(pb, "mine")
        for word in USES[:3]:
            uses(pb, word, "mine")
        may_not(pb, "mine", "T")
        may_not(pb, ["mine"])
        uses(pb, "release", "mine")
        may_not(pb, "mine")
        opens(pb, "mine")
        opens(pb, "mine", by="agent")  # its client gives an id once more
        may_not(pb, "mine")
        opens(pb, "last")
        for by in ("g", "agent"):
            opens(pb, None, by=by)
            opens(pb, 1, by=by)
        may_not(pb, 1)
        uses(pb, "output", "last")
        closing = {"sessionId": "S"}
        pb >> ("client", request("end", "session/close", closing))
        pb << ("agent", request(Hole("end"), "session/close", closing))
        pb >> ("agent", result(Hole("end"), {})) << ("client", result("end", {}))
        may_not(pb, "last")


@pytest.mark.proves("with `run:commands` a component")
def test_nor_those_of_another_component_nor_before_the_answer() -> None:
    with chain_of(guest(name="f", **GRANTED), guest(**GRANTED)) as pb:
        in_sessions(pb, "S")
        opens(pb, "theirs", by="f")
        may_not(pb, "theirs")
        params = {"sessionId": "S", "command": "ls"}
        pb >> ("g", "p", request("open", "terminal/create", params))
        pb << ("client", request(Hole("open"), "terminal/create", params))
        may_not(pb, "t1")
        pb >> ("client", result(Hole("open"), {"terminalId": 1}))
        pb << ("g", "p", result("open", {"terminalId": 1}))
        may_not(pb, 1)
        uses(pb, "kill", "theirs", by="f")


@pytest.mark.proves("with `run:commands` a component")
@pytest.mark.parametrize("version", [1, 2])
def test_only_in_sessions_of_the_client_s(version: int) -> None:
    """The client knows nothing of a session that a component has opened for itself."""
    grants = {"grants": "sessions=own editor=terminal"}
    with chain_of(guest(name="f", **GRANTED), guest(**grants), version=version) as pb:
        opened(pb, "own")
        below = {"sessionUpdate": "subagent_update", "sessionId": "below"}
        pb >> ("agent", notification("session/update", {"sessionId": "own", "update": below}))
        skip(pb)
        for by, session in product("fg", ("own", "below", "nobody's")):
            params = {"sessionId": session, "command": "ls"}
            pb >> (by, "p", request("open", "terminal/create", params))
            assert isinstance(taken(pb), Violated)
            refused(pb, "open", "only in a session of the client's", side="p", name=by)
        opens(pb, "mine")
        uses(pb, "release", "mine")


def test_of_very_many_the_first_is_forgotten() -> None:
    with chain(**GRANTED) as pb:
        in_sessions(pb, "S")
        for number in range(1025):
            opens(pb, f"t{number}")
        may_not(pb, "t0")
        uses(pb, "output", "t1024")
