"""Bounds of a component: the form of its messages, its turns, and how long it may hold."""

import pytest

from conductor.core import Component
from conductor.core.component import HOLD_INITIALIZE
from conductor.core.policy.held_requests import HOLD_SETUP
from conductor.core.policy.states import MOST_RETRIES
from conductor.core.router import Router
from conductor.core.session import MOST_PROMPTS
from tests.harness.router.policed import (
    DONE,
    KINDS,
    PROMPT,
    UPDATE,
    V1,
    Hole,
    Json,
    Playbook,
    broke,
    chain,
    chain_of,
    error,
    given,
    guest,
    lacks,
    notification,
    passed,
    prompt,
    refused,
    request,
    result,
    returned,
    settled,
    skip,
    stop,
    update,
    wrapped,
)

CARRIES = "down:session/prompt:carry+amend"
HERE: Json = {"protocolVersion": 1, "agentCapabilities": {}}

# -- forms -----------------------------------------------------------------------------------------


def test_a_prompt_of_its_own_is_a_request() -> None:
    with chain(profile="full") as pb:
        given(pb)
        pb >> ("g", "s", notification(PROMPT, prompt("mine")))
        broke(pb, "rights", f"may not send `{PROMPT}` as a notification")


def test_an_update_of_its_own_is_a_notification() -> None:
    with chain(profile="full") as pb:
        pb >> ("g", "p", request("own", UPDATE, update("mine")["params"]))
        broke(pb, "rights", f"may not send `{UPDATE}` as a request")
        refused(pb, "own", side="p")


# -- turns -----------------------------------------------------------------------------------------


def both(id_: str, pb: Playbook, sent: Json) -> None:
    """`f` sends a request, and `g` gets it."""
    pb >> ("f", "s", sent) << ("g", "p", request(Hole(id_), PROMPT, sent["params"]))


def test_two_together_have_no_more_turns_than_apart() -> None:
    """The acts of `g` within the turns of `f` count as within the user's."""
    policies = [guest(CARRIES, grants="turns=within", name=name) for name in ("f", "g")]
    with chain_of(*policies) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        for number in range(MOST_PROMPTS):
            both(f"g-{number}", pb, request(f"own-{number}", PROMPT, prompt("mine")))
            pb >> ("g", "s", request(f"g-own-{number}", PROMPT, prompt("too")))
            pb << ("agent", request(Hole("one"), PROMPT, prompt("too")))
            pb >> ("agent", result(pb.values.pop("one"), DONE))
            pb << ("g", "s", result(f"g-own-{number}", DONE))
            pb >> ("g", "s", request(Hole(f"g-{number}"), PROMPT, prompt("mine")))
            pb << ("agent", request(Hole("one"), PROMPT, prompt("mine")))
            pb >> ("agent", result(pb.values.pop("one"), DONE))
            pb << ("g", "s", result(Hole(f"g-{number}"), DONE))
            pb >> ("g", "p", result(Hole(f"g-{number}"), DONE))
            pb << ("f", "s", result(f"own-{number}", DONE))
        both("g-a", pb, request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("g", "s", request("more", PROMPT, prompt("too")))
        broke(pb, "turns", f"it has {MOST_PROMPTS} with each of these")
        refused(pb, "more")
        skip(pb)


def test_asking_again_counts_for_the_whole_turn() -> None:
    policies = [guest(CARRIES, name=name) for name in ("f", "g")]
    with chain_of(*policies) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        for again in range(2):
            both(f"g-{again}", pb, request(Hole("f-a"), PROMPT, prompt("hi")))
            for _ in range(1 + (MOST_RETRIES if not again else 0)):
                pb >> ("g", "s", request(Hole(f"g-{again}"), PROMPT, prompt("hi")))
                pb << ("agent", request(Hole("one"), PROMPT, prompt("hi")))
                pb >> ("agent", result(pb.values.pop("one"), DONE))
                pb << ("g", "s", result(Hole(f"g-{again}"), DONE))
            pb >> ("g", "s", request(Hole(f"g-{again}"), PROMPT, prompt("hi")))
            broke(pb, "identity", "once more", again=bool(again))
            refused(pb, Hole(f"g-{again}"))
            pb >> ("g", "p", result(Hole(f"g-{again}"), DONE))
            pb << ("f", "s", result(Hole("f-a"), DONE))


@pytest.mark.parametrize("grants", ["", "commands=plan"])
def test_a_command_is_not_run_again_but_where_it_failed(grants: str) -> None:
    with chain(CARRIES, grants=grants) as pb:
        asked = prompt("/plan it")
        pb >> ("client", request("a", PROMPT, asked))
        pb << ("g", "p", request(Hole("g"), PROMPT, asked))
        for body in (error(Hole("one"), -32000, "busy"), result(Hole("one"), DONE)):
            pb >> ("g", "s", request(Hole("g"), PROMPT, asked))
            pb << ("agent", request(Hole("one"), PROMPT, asked)) >> ("agent", body)
            pb << ("g", "s", {**body, "id": Hole("g")})
            del pb.values["one"]
        pb >> ("g", "s", request(Hole("g"), PROMPT, asked))
        if not grants:
            broke(pb, "identity", "once more, or too late")
            refused(pb, Hole("g"))
        skip(pb)


@pytest.mark.proves("a turn of a component's own hides")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("turns", ["within", "unprompted"])
def test_a_turn_of_its_own_hides_and_cancels_nothing_of_the_users(turns: str, version: int) -> None:
    """Nobody knows which of two turns a text belongs to: so it is shown."""
    with chain(CARRIES, grants=f"turns={turns}", version=version) as pb:
        given(pb)
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        pb << ("agent", request(Hole("a-own"), PROMPT, prompt("mine")))
        passed(pb)
        pb >> ("agent", update("for the user")) << ("client", update("for the user"))
        pb >> ("g", "s", stop())
        lacks(pb, "originate", "session/cancel")
        if version == 1:
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
            pb >> ("agent", update("its own")) << ("g", "s", update("its own"))


# -- times -----------------------------------------------------------------------------------------


@pytest.mark.proves("a component cannot hold `initialize`")
@pytest.mark.parametrize("method", ["session/new", "session/list", "session/status"])
def test_what_is_no_prompt_is_held_for_a_minute(method: str) -> None:
    with chain(profile="full") as pb:
        pb >> ("client", request("a", method, {"cwd": "/"}))
        pb << ("g", "p", request(Hole("g-a"), method, {"cwd": "/"}))
        pb.wake(HOLD_SETUP)
        broke(pb, "hold", f"held `{method}` for more than 60 s")
        pb << ("agent", request(Hole("a-a"), method, {"cwd": "/"}))


@pytest.mark.proves("a component cannot hold `initialize`")
@pytest.mark.parametrize("kind", ["channel", *KINDS])
def test_the_answer_to_initialize_is_held_for_a_minute(kind: str) -> None:
    held = guest(profile="full", kind=kind, ids="kept")
    router = Router([held, Component("agent", "agent `agent`")])
    role = "initialize" if kind == "channel" else f"{KINDS[kind].split('/')[0]}/initialize"
    inlet, outlet = ("p", "s") if kind == "channel" else ("", "")
    with Playbook(router) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", inlet, request(Hole("role"), role, V1))
        onward = request(Hole("role"), "initialize", V1)
        pb >> ("g", outlet, onward if kind == "channel" else wrapped(kind, onward))
        pb << ("agent", request(Hole("a-i"), "initialize", V1))
        pb >> ("agent", result(Hole("a-i"), HERE))
        pb << ("g", outlet, result(Hole("role"), HERE))
        pb.wake(HOLD_INITIALIZE)
        broke(pb, "hold", "has held the answer to `initialize` for more than 60 s")
        pb << ("client", result("i", HERE))
        late = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
        pb >> ("g", inlet, result(Hole("role"), late))  # nobody's
        pb >> ("client", request("n", "session/new", {"cwd": "/"}))
        pb << ("g", inlet, request(Hole("g-n"), "session/new", {"cwd": "/"}))


# -- a host that answers for its guest ------------------------------------------------------------


@pytest.mark.parametrize("fails", ["open", "closed"])
@pytest.mark.parametrize("goes_on", [True, False])
def test_errors_of_a_host_whose_guest_failed_break_no_rule(goes_on: bool, fails: str) -> None:
    with chain(CARRIES, fails=fails) as pb:
        given(pb)
        pb.router.faltered("g", goes_on=goes_on)
        pb.router.faltered("nobody", goes_on=goes_on)
        pb >> ("g", "p", error(Hole("g-a"), 1, "`g` died"))
        if goes_on and fails == "open":
            pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        else:
            died = {"code": 1, "message": "g: `g` died", "data": {"component": "g"}}
            pb << ("client", {"jsonrpc": "2.0", "id": "a", "error": died})


def test_what_it_had_passed_on_goes_on_without_it() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        passed(pb)
        returned(pb, "back", "b", "T")
        pb.router.faltered("g", goes_on=True)
        pb >> ("g", "p", error(Hole("g-a"), 1, "`g` died"))
        pb >> ("g", "s", notification("$/cancel_request", {"requestId": pb.values["g-a"]}))
        pb >> ("g", "p", error(Hole("g-b"), 1, "`g` died")) << ("client", result("b", DONE))
        pb >> ("agent", result(Hole("a-a"), DONE))
        skip(pb)
        assert settled(pb.router)
