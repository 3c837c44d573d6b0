"""Options of a component's own, with `options`: those that it has added where everybody saw them,
and no others; modes it has none."""

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
MORE: Json = {**SAID, "configOptions": [EFFORT, TONE]}


def begun(pb: Playbook, said: Json = SAID, sent: Json = MORE, added: Json | None = None) -> None:
    """A session is set up, and the component adds to the agent's result."""
    params = {**THERE, **(added or {})}
    pb >> ("client", request("n", "session/new", THERE))
    pb << ("g", "p", request(Hole("g-n"), "session/new", THERE))
    pb >> ("g", "s", request(Hole("g-n"), "session/new", params))
    if added:
        assert isinstance(taken(pb), OwnedAddresses)
    pb << ("agent", request(Hole("a-n"), "session/new", params))
    pb >> ("agent", result(Hole("a-n"), said)) << ("g", "s", result(Hole("g-n"), said))
    pb >> ("g", "p", result(Hole("g-n"), sent)) << ("client", result("n", sent))


def chooses(pb: Playbook, option: str) -> Json:
    """The user sets an option, and the component has that."""
    params: Json = {"sessionId": "S", "configId": option, "value": "x"}
    pb >> ("client", request("m", "session/set_config_option", params))
    pb << ("g", "p", request(Hole("g-m"), "session/set_config_option", params))
    return params


def update(kind: str, **held: object) -> Json:
    return notification(UPDATE, {"sessionId": "S", "update": {"sessionUpdate": kind, **held}})


def test_its_own_are_answered_by_it_and_shown() -> None:
    with chain(grants="options") as pb:
        begun(pb)
        chooses(pb, "tone")
        listed: Json = {"configOptions": [EFFORT, {**TONE, "currentValue": "x"}]}
        pb >> ("g", "p", result(Hole("g-m"), listed)) << ("client", result("m", listed))
        told = update("config_option_update", configOptions=[EFFORT, {**TONE, "name": "T"}])
        pb >> ("g", "p", told) << ("client", told)


@pytest.mark.parametrize("answer", ["result", "error"])
def test_the_agent_s_reach_the_agent(answer: str) -> None:
    with chain(grants="options") as pb:
        begun(pb)
        params = chooses(pb, "effort")
        body = {} if answer == "result" else {"code": 1, "message": "no"}
        pb >> ("g", "p", {"jsonrpc": "2.0", "id": Hole("g-m"), answer: body})
        broke(pb, "session-mode")
        pb << ("agent", request(Hole("a-m"), "session/set_config_option", params))


@pytest.mark.parametrize("profile", ["none", "full"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/set_mode", {"sessionId": "S", "modeId": "bypass"}),
        ("session/set_mode", {"session_id": "S", "modeId": "ask"}),
        ("session/set_mode", {"modeId": "ask"}),
        ("session/set_model", {"sessionId": "S", "modelId": "big"}),
        ("session/set_config_option", {"sessionId": "S", "configId": "effort", "value": "high"}),
        ("session/set_config_option", {"sessionId": "S", "configId": "tone", "value": "cold"}),
    ],
)
def test_it_sets_nothing(method: str, params: Json, profile: str) -> None:
    with chain(profile=profile, grants="options sessions=own") as pb:
        begun(pb)
        pb >> ("g", "s", request("own", method, params))
        broke(pb, "rights", "may not send")
        refused(pb, "own")


@pytest.mark.proves("a component offers no modes")
def test_a_mode_that_it_adds_nobody_sees_and_the_agent_s_is_shown() -> None:
    """The attack: a second mode has the name of the mode that asks, while the agent asks nobody."""
    posing: Json = {"id": "ask-2", "name": "Ask"}
    more: Json = {**MODES, "currentModeId": "ask-2"}
    more["availableModes"] = [*MODES["availableModes"], posing]
    option: Json = {"id": "x", "name": "Mode", "category": "mode", "currentValue": "Ask"}
    for forged in ({"modes": more}, {"configOptions": [EFFORT, option]}):
        with chain(grants="options") as pb:
            pb >> ("client", request("n", "session/new", THERE))
            pb << ("g", "p", request(Hole("g-n"), "session/new", THERE))
            pb >> ("g", "s", request(Hole("g-n"), "session/new", THERE))
            pb << ("agent", request(Hole("a-n"), "session/new", THERE))
            pb >> ("agent", result(Hole("a-n"), SAID)) << ("g", "s", result(Hole("g-n"), SAID))
            pb >> ("g", "p", result(Hole("g-n"), {**SAID, **forged}))
            broke(pb, "session-mode")
            pb << ("client", result("n", SAID))
            params = {"sessionId": "S", "modeId": "ask-2"}
            pb >> ("client", request("m", "session/set_mode", params))
            pb << ("agent", request(Hole("a-m"), "session/set_mode", params))
            pb >> ("agent", update("current_mode_update", currentModeId="bypass"))
            pb << ("client", update("current_mode_update", currentModeId="bypass"))
            pb >> ("g", "p", update("current_mode_update", currentModeId="ask-2"))
            broke(pb, "rights", "may not send `session/update[current_mode_update]`")


def test_odd_words_hide_nothing() -> None:
    """A list of the agent or of the component has half an emoji, or an entry of a wrong type."""
    odd = {**SAID, "title": "x\ud83d", "availableCommands": [{"name": None}, {"name": "x\ud83d"}]}
    odd["configOptions"] = [{**EFFORT, "name": None}, 7]
    server = {"type": "acp", "name": "mine", "serverId": "m", "_meta": {"a.example/x": "\ud83d"}}
    for added in ({}, {"mcpServers": [server]}):
        with chain(grants="options") as pb:
            begun(pb, odd, odd, added)
            known = pb.router.sessions.find("S")
            assert known.modes == {"ask", "effort"}
            assert "/x\ud83d" in known.commands
            told = update("config_option_update", configOptions=[TONE])
            pb >> ("g", "p", told)
            broke(pb, "session-mode")
            skip(pb)


def test_the_agent_s_options_are_as_it_last_listed_them() -> None:
    with chain(grants="options") as pb:
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
