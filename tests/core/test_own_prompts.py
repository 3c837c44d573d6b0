"""All prompts of a component's own are in one account, whatever road they take."""

import json
from itertools import count
from typing import Final

import pytest

from conductor.core import CHANNEL, Component, Send, Violated
from conductor.core.own_prompts import ANOTHER_AFTER, FREE_PROMPTS
from conductor.core.session import MOST_PROMPTS
from tests.core.policy.test_hosts import ABOVE, host, turn_given
from tests.core.test_ports import guests
from tests.harness.router.policed import (
    DONE,
    PROMPT,
    Hole,
    Json,
    Playbook,
    chain_of,
    error,
    guest,
    notification,
    policy,
    prompt,
    request,
    result,
    skip,
    stop,
)

CARRIES: Final = "down:session/prompt:carry+amend"
NEW: Final[Json] = {"cwd": "/work", "mcpServers": []}
IDS: Final = (f"own-{number}" for number in count(1))
KNOWN: Final[set[object]] = set()
"""The ids of the requests that components were given."""
GUESTS: Final = {"one": "within", "two": "unprompted"}


def begun(*components: Component, sessions: tuple[str, ...] = ("S",)) -> Playbook:
    """A chain, with these sessions of the client's."""
    pb = chain_of(*components)
    for session in sessions:
        user_opens(pb, session)
    return pb


def user_opens(pb: Playbook, session: str) -> None:
    """The client opens a session."""
    pb >> ("client", request("n", "session/new", NEW))
    passed_on(pb)
    answered(pb, {"sessionId": session})


def passed_on(pb: Playbook) -> None:
    """Components pass on the messages that they are given, there and back."""
    left = skip(pb)
    while left:
        one = left.pop(0)
        if not isinstance(one, Send) or one.frame[:1] not in (b"p", b"s"):
            continue
        side, message = chr(one.frame[0]), json.loads(one.frame[1:])
        given = one.peer, message.get("id")
        if side == "p" or given in KNOWN:
            KNOWN.add(given)
            pb >> (one.peer, "s" if side == "p" else "p", message)
            left += skip(pb)


def answered(pb: Playbook, body: Json, agent: str = "agent") -> None:
    """The agent answers the request that it got last."""
    ids = [int(one) for one in pb.router.peers[agent].p.requests.sent]
    pb >> (agent, result(max(ids), body))
    passed_on(pb)


def user_prompts(pb: Playbook, session: str = "S") -> None:
    """A prompt of the user's, on all its way through `g` if that carries prompts."""
    asked = next(IDS)
    pb >> ("client", request(asked, PROMPT, prompt("hi", session)))
    passed_on(pb)
    answered(pb, DONE)


def sends(pb: Playbook, session: str = "S", name: str = "g", id_: object = None) -> bool:
    """The component prompts; whether the agent gets that, and answers at once."""
    pb >> (name, "s", request(id_ or next(IDS), PROMPT, prompt("mine", session)))
    if any(isinstance(one, Violated) for one in skip(pb)):
        return False
    answered(pb, DONE)
    return True


def all_that_go(pb: Playbook, session: str = "S", name: str = "g") -> int:
    """How many prompts of its own go on until one does not."""
    return next(number for number in count() if not sends(pb, session, name))


def opened(pb: Playbook, id_: str) -> None:
    """The component opens a session of its own."""
    pb >> ("g", "s", request(next(IDS), "session/new", NEW))
    skip(pb)
    answered(pb, {"sessionId": id_})


FREE: Final = guest(grants="turns=unprompted sessions=own")
OWNS: Final = guest("down:session/prompt:copy", grants="sessions=own")


@pytest.mark.proves("a component has one account for")
def test_own_sessions_pay_from_the_same_account() -> None:
    """Also a new session for each prompt, and a session that nobody knows."""
    with begun(OWNS) as pb:
        user_prompts(pb)
        for number in range(MOST_PROMPTS):
            opened(pb, f"T{number}")
            assert sends(pb, f"T{number}")
            pb >> ("g", "s", request(next(IDS), "session/close", {"sessionId": f"T{number}"}))
            skip(pb)
            answered(pb, {})
        opened(pb, "T")
        assert not sends(pb, "T")
        user_prompts(pb)
        assert sends(pb, "T")
    with begun(FREE) as pb:
        user_prompts(pb)
        most = MOST_PROMPTS + FREE_PROMPTS
        assert sum(sends(pb, f"made-up-{number}") for number in range(100)) == most


def test_an_own_session_pays_from_the_one_it_was_opened_for() -> None:
    with begun(OWNS, sessions=("S", "R")) as pb:
        user_prompts(pb)
        opened(pb, "T")
        user_prompts(pb, "R")
        opened(pb, "U")
        pb >> ("client", stop("S"))
        skip(pb)
        assert not sends(pb, "T")
        assert all_that_go(pb, "U") == MOST_PROMPTS
        pb >> ("g", "s", request(next(IDS), "session/fork", {"sessionId": "T", **NEW}))
        skip(pb)
        answered(pb, {"sessionId": "V"})
        assert not sends(pb, "V")
        user_prompts(pb, "S")
        assert sends(pb, "V")


@pytest.mark.proves("a component has one account for")
@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request", "session/close"])
def test_a_cancellation_empties_it(how: str) -> None:
    with begun(FREE) as pb:
        opened(pb, "T")
        pb >> ("client", request("u", PROMPT, prompt("hi")))
        skip(pb)
        if how == "session/close":
            pb >> ("client", request("c", how, {"sessionId": "S"}))
        elif how == "session/cancel":
            pb >> ("client", stop())
        else:
            pb >> ("client", notification(how, {"requestId": "u"}))
        skip(pb)
        pb >> ("agent", result(pb.router.waiting_on("agent")[0][0].partition(b":")[2].decode(), 0))
        skip(pb)
        assert all_that_go(pb, "T") == FREE_PROMPTS


def test_one_that_may_prompt_unprompted_has_another_after_a_while() -> None:
    with begun(FREE) as pb:
        user_prompts(pb)
        assert all_that_go(pb) == MOST_PROMPTS + FREE_PROMPTS
        for _ in range(FREE_PROMPTS + 1):
            pb.wake(ANOTHER_AFTER)
            assert all_that_go(pb) == 1
        for _ in range(FREE_PROMPTS + 1):
            pb.wake(ANOTHER_AFTER)
        assert all_that_go(pb) == FREE_PROMPTS


@pytest.mark.proves("a component has one account for", "turns of its own")
def test_prompts_to_peer_agents_count_as_well() -> None:
    held = policy(profile="full", grants="turns=unprompted")
    ports = {"research": True, "review": True}
    with guests(Component("p", "proxy `p`", CHANNEL, policy=held, ports=ports)) as pb:
        user_opens(pb, "S")
        user_prompts(pb)
        assert sends(pb, name="p")

        def asks(method: str, params: Json, peer: str = "research", *, ok: bool = True) -> bool:
            wrapped = {"peer": peer, "method": method, "params": params}
            pb >> ("p", "s", request(next(IDS), "proxy/successor", wrapped))
            if any(isinstance(one, Violated) for one in skip(pb)):
                return False
            answered(pb, {"sessionId": f"of {peer}"} if ok else {}, peer)
            return True

        assert asks("session/new", NEW, ok=False)
        for peer in ports:
            assert asks("session/new", NEW, peer)
            assert asks(PROMPT, prompt("mine", f"of {peer}"), peer)
        most = MOST_PROMPTS + FREE_PROMPTS
        assert sum(asks(PROMPT, prompt("mine", "of research")) for _ in range(100)) == most - 3
        assert not sends(pb, name="p")


ASK: Final[Json] = {"method": "sampling/createMessage", "params": {"messages": []}}
SAMPLES: Final[Json] = {"connectionId": "k", **ASK}


@pytest.mark.proves("a component has one account for")
def test_the_model_of_a_peer_agent_is_asked_from_the_same_account() -> None:
    """By a request to the peer agent, and by an answer to its request."""
    held = policy(profile="full", grants="turns=within")
    ports = {"research": True, "review": True}
    with guests(Component("p", "proxy `p`", CHANNEL, policy=held, ports=ports)) as pb:
        user_opens(pb, "S")
        user_prompts(pb)

        def goes(message: Json) -> bool:
            pb >> ("p", "s", message)
            return not any(isinstance(one, Violated) for one in skip(pb))

        def asks() -> bool:
            wrapped = {"peer": "research", "method": "mcp/message", "params": SAMPLES}
            return goes(request(next(IDS), "proxy/successor", wrapped))

        def answers() -> bool:
            call = {"connectionId": "k", "method": "tools/call", "params": {}}
            pb >> ("research", request(next(IDS), "mcp/message", call))
            (asked,) = skip(pb)
            id_ = json.loads(asked.frame[1:])["id"]  # type: ignore[union-attr]
            return goes(result(id_, {"inputRequests": {"a": ASK}}))

        assert sum(asks() + answers() for _ in range(40)) == MOST_PROMPTS
        assert [asks(), answers()] == [False, False]


@pytest.mark.proves("a component has one account for")
def test_the_conductor_above_a_host_counts_how_often_servers_of_its_guests_ask_the_model() -> None:
    """But prompts that the host passes on for others do not count."""
    with begun(Component("h", "the host", CHANNEL, hosts=True, guests=GUESTS)) as pb:
        user_prompts(pb)
        went = dict.fromkeys(("c{} one", "c{} two", "c{} stranger"), 0)
        for id_, number in [(id_, number) for id_ in went for number in range(100)]:
            pb >> ("h", "s", request(id_.format(number), "mcp/message", SAMPLES))
            went[id_] += any(isinstance(one, Send) and one.peer == "agent" for one in skip(pb))
        most = MOST_PROMPTS
        assert [*went.values()] == [most, most + FREE_PROMPTS, 100]
        for _ in range(most + 1):
            pb >> ("client", request(next(IDS), "mcp/message", SAMPLES))
            passed_on(pb)
            answered(pb, {})


@pytest.mark.proves("a component has one account for")
def test_a_host_counts_the_answers_of_its_guests_that_ask_the_model() -> None:
    asks = guest(profile="full", grants="turns=within")
    with host(asks) as pb:
        session = {**NEW, "mcpServers": [{"type": "acp", "name": "m", "serverId": "m"}]}
        pb >> (ABOVE, "p", request(1, "session/new", NEW))
        skip(pb)
        pb >> ("g", "s", request(1, "session/new", session))
        skip(pb)
        went = 0
        for number in range(10, 110):
            call = {"serverId": "m", "method": "tools/call", "params": {}}
            pb >> (ABOVE, "s", request(number, "mcp/message", call))
            skip(pb)
            pb >> ("g", "s", result(number, {"inputRequests": {"a": ASK}}))
            went += not any(isinstance(one, Violated) for one in skip(pb))
        assert went == MOST_PROMPTS


# -- guests --------------------------------------------------------------------------------------


def test_the_conductor_above_a_host_keeps_the_accounts_of_its_guests() -> None:
    """A trusted guest has none, a prompt without a name is the host's."""
    of_guests = Component("h", "the host", CHANNEL, hosts=True, guests=GUESTS)
    with begun(of_guests) as pb:
        user_prompts(pb)
        went = {
            name: sum(sends(pb, name="h", id_=f"c{next(IDS)}{name}") for _ in range(100))
            for name in (" one", " two", " trusted", "")
        }
    most = MOST_PROMPTS
    assert went == {" one": most, " two": most + FREE_PROMPTS, " trusted": 100, "": most}


def test_a_prompt_in_no_session_is_paid_by_the_one_that_was_prompted_last() -> None:
    with begun(Component("h", "the host", CHANNEL, hosts=True, guests=GUESTS)) as pb:
        user_prompts(pb)
        went = 0
        for number in range(100):
            pb >> ("h", "s", request(f"c{number} one", PROMPT, {"prompt": []}))
            if not any(isinstance(one, Violated) for one in skip(pb)):
                went += 1
                answered(pb, DONE)
        assert went == MOST_PROMPTS
        assert not sends(pb, name="h", id_="c200 one")


def test_what_a_host_sends_under_the_id_of_another_request_is_its_own() -> None:
    """Otherwise the user's list would have the host's sessions."""
    with begun(Component("h", "the host", CHANNEL, hosts=True, guests=GUESTS)) as pb:
        pb >> ("client", request("p", PROMPT, prompt("hi")))
        pb << ("h", "p", request(Hole("h"), PROMPT, prompt("hi")))
        pb >> ("h", "s", request(Hole("h"), "session/new", NEW))
        pb << ("agent", request(Hole("a"), "session/new", NEW))
        pb >> ("agent", result(Hole("a"), {"sessionId": "own"}))
        pb << ("h", "s", result(Hole("h"), {"sessionId": "own"}))
        pb >> ("client", request("l", "session/list", {}))
        pb << ("h", "p", request(Hole("l"), "session/list", {}))
        both, users = (
            {"sessions": [{"sessionId": one} for one in ids]} for ids in (("S", "own"), ("S",))
        )
        pb >> ("h", "p", result(Hole("l"), both)) << ("client", result("l", users))


def test_a_host_names_the_guest_whose_prompt_it_is() -> None:
    """Also where another guest passes that prompt on."""
    with host(guest(name="f", grants="turns=unprompted"), guest(CARRIES)) as pb:
        pb >> ("f", "s", request("own", PROMPT, prompt("mine")))
        turn_given(pb, "f")
        pb << ("g", "p", request(Hole("g"), PROMPT, prompt("mine")))
        pb >> ("g", "s", request(Hole("g"), PROMPT, prompt("mine")))
        pb << (ABOVE, "s", request("c1 f", PROMPT, prompt("mine")))
        no = error("c1 f", -32600, "no more")
        pb >> (ABOVE, "s", no) << ("g", "s", {**no, "id": Hole("g")})
        pb >> ("g", "p", {**no, "id": Hole("g")}) << ("f", "s", {**no, "id": "own"})
        skip(pb)
