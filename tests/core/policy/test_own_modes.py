"""Modes and options of a component's own, with `modes`: those that it has added where everybody saw
them, and no others."""

from __future__ import annotations

import pytest

from conductor.core.effects import OwnedAddresses
from tests.harness.router.policed import (
    UPDATE,
    Hole,
    Json,
    Playbook,
    broke,
    chain,
    notification,
    refused,
    request,
    result,
    skip,
    taken,
)

THERE: Json = {"cwd": "/work", "mcpServers": []}
MODES: Json = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
EFFORT: Json = {"id": "effort", "name": "Effort", "currentValue": "low"}
TONE: Json = {"id": "tone", "name": "Tone", "currentValue": "warm"}
SAID: Json = {"sessionId": "S", "modes": MODES, "configOptions": [EFFORT]}
MINE: Json = {"id": "mine", "name": "Mine"}
MORE: Json = {
    **SAID,
    "modes": {**MODES, "availableModes": [*MODES["availableModes"], MINE]},
    "configOptions": [EFFORT, TONE],
}


def begun(pb: Playbook, said: Json = SAID, sent: Json = MORE, added: Json | None = None) -> None:
    """A session is set up, and the component adds to what the agent says of it."""
    params = {**THERE, **(added or {})}
    pb >> ("client", request("n", "session/new", THERE))
    pb << ("g", "p", request(Hole("g-n"), "session/new", THERE))
    pb >> ("g", "s", request(Hole("g-n"), "session/new", params))
    if added:
        assert isinstance(taken(pb), OwnedAddresses)
    pb << ("agent", request(Hole("a-n"), "session/new", params))
    pb >> ("agent", result(Hole("a-n"), said)) << ("g", "s", result(Hole("g-n"), said))
    pb >> ("g", "p", result(Hole("g-n"), sent)) << ("client", result("n", sent))


def chooses(pb: Playbook, mode: str) -> None:
    """The user chooses a mode, and the component has that."""
    params = {"sessionId": "S", "modeId": mode}
    pb >> ("client", request("m", "session/set_mode", params))
    pb << ("g", "p", request(Hole("g-m"), "session/set_mode", params))


def update(kind: str, **held: object) -> Json:
    return notification(UPDATE, {"sessionId": "S", "update": {"sessionUpdate": kind, **held}})


def test_its_own_are_answered_by_it_and_shown() -> None:
    with chain(grants="modes") as pb:
        begun(pb)
        chooses(pb, "mine")
        pb >> ("g", "p", result(Hole("g-m"), {})) << ("client", result("m", {}))
        said = update("current_mode_update", currentModeId="mine")
        pb >> ("g", "p", said) << ("client", said)
        listed = update("config_option_update", configOptions=[EFFORT, {**TONE, "name": "T"}])
        pb >> ("g", "p", listed) << ("client", listed)


@pytest.mark.parametrize("answer", ["result", "error"])
def test_the_agent_s_reach_the_agent(answer: str) -> None:
    with chain(grants="modes") as pb:
        begun(pb)
        chooses(pb, "ask")
        body = {} if answer == "result" else {"code": 1, "message": "no"}
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-m"), answer: body})
        broke(pb, "session-mode")
        params = {"sessionId": "S", "modeId": "ask"}
        pb << ("agent", request(Hole("a-m"), "session/set_mode", params))


@pytest.mark.parametrize(
    "params",
    [
        {"sessionId": "S", "modeId": "bypass"},
        {"session_id": "S", "modeId": "mine"},
        {"sessionId": "T", "modeId": "mine"},
        {"modeId": "mine"},
    ],
)
def test_what_it_did_not_add_it_does_not_set(params: Json) -> None:
    with chain(grants="modes") as pb:
        begun(pb)
        pb >> ("g", "s", request("own", "session/set_mode", params))
        broke(pb, "session-mode")
        refused(pb, "own")


def test_odd_words_hide_nothing() -> None:
    """Half an emoji, or an entry that is none, in what the agent says or the component adds."""
    odd = {**SAID, "title": "x\ud83d", "availableCommands": [{"name": None}, {"name": "x\ud83d"}]}
    odd["configOptions"] = [{**EFFORT, "name": None}, 7]
    server = {"type": "acp", "name": "mine", "serverId": "m", "_meta": {"a.example/x": "\ud83d"}}
    for added in ({}, {"mcpServers": [server]}):
        with chain(grants="modes") as pb:
            begun(pb, odd, odd, added)
            known = pb.router.sessions.find("S")
            assert known.modes == {"ask", "effort"}
            assert "/x\ud83d" in known.commands
            pb >> ("g", "s", request("own", "session/set_mode", {"sessionId": "S", "modeId": "y"}))
            broke(pb, "session-mode")
            skip(pb)


def test_the_agent_s_options_are_as_it_last_listed_them() -> None:
    with chain(grants="modes") as pb:
        begun(pb)
        params = {"sessionId": "S", "configId": "effort", "value": "high"}
        high = {**EFFORT, "currentValue": "high"}
        pb >> ("client", request("o", "session/set_config_option", params))
        pb << ("g", "p", request(Hole("g-o"), "session/set_config_option", params))
        pb >> ("g", "s", request(Hole("g-o"), "session/set_config_option", params))
        pb << ("agent", request(Hole("a-o"), "session/set_config_option", params))
        pb >> ("agent", result(Hole("a-o"), {"configOptions": [high]}))
        pb << ("g", "s", result(Hole("g-o"), {"configOptions": [high]}))
        pb >> ("g", "p", result(Hole("g-o"), {"configOptions": [high, TONE]}))
        pb << ("client", result("o", {"configOptions": [high, TONE]}))
        stale = update("config_option_update", configOptions=[EFFORT, TONE])
        pb >> ("g", "p", stale)
        broke(pb, "session-mode")
        fresh = update("config_option_update", configOptions=[high, TONE])
        pb >> ("g", "p", fresh) << ("client", fresh)
        low = update("config_option_update", configOptions=[EFFORT])
        pb >> ("agent", low) << ("g", "s", low)
        pb >> ("g", "p", stale) << ("client", stale)
