"""Components that are watched: the acts that they would do, or that their rights would forbid."""

from typing import Any

import msgspec
import pytest

from conductor.core import CHANNEL, Component, Send
from tests.core import test_ports as ports
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PERMISSION,
    PROMPT,
    Hole,
    Noted,
    Playbook,
    broke,
    came_back,
    chain,
    chain_of,
    given,
    heard,
    notification,
    passed,
    permission,
    policy,
    prompt,
    refused,
    request,
    result,
    settled,
    skip,
    taken,
    tool_call,
    update,
)

GUARD = {"grants": "permission=narrow"}
NO = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}


def would(pb: Playbook, text: str, *, again: bool = False) -> None:
    """The next effect tells the act that the component `g` would do."""
    assert broke(pb, "watch", f"would {text}", again=again).would


def watched(*allow: str, **more: Any) -> Playbook:
    """A chain whose component `g` is only watched."""
    return chain(*allow, watched=True, **more)


# -- a component that is only watched --------------------------------------------------------------


def test_a_changed_prompt_goes_on_as_it_came() -> None:
    with watched("down:session/prompt:carry") as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("more")))
        would(pb, "change `session/prompt`")
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        came_back(pb)
        pb << ("client", result("a", DONE))
        assert settled(pb.router)


def test_a_question_that_it_would_refuse_reaches_the_user() -> None:
    with watched(**GUARD) as pb:
        asked = permission("S", "allow_once", "reject_once")
        pb >> ("agent", request("q", PERMISSION, asked))
        pb << ("g", "s", request(Hole("g-q"), PERMISSION, asked))
        pb >> ("g", "s", result(Hole("g-q"), NO))
        would(pb, "answer `session/request_permission`")
        pb << ("client", request(Hole("c-q"), PERMISSION, asked))
        pb >> ("client", result(Hole("c-q"), {"outcome": {"outcome": "cancelled"}}))
        pb << ("agent", result("q", {"outcome": {"outcome": "cancelled"}}))
        assert settled(pb.router)


def test_an_answer_that_it_would_change_goes_on_as_it_came() -> None:
    with watched("down:session/prompt:carry+amend") as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", result(Hole("g-a"), {"stopReason": "refusal"}))
        would(pb, "change the answer to `session/prompt`")
        pb << ("client", result("a", DONE))


def test_an_answer_that_it_spells_otherwise_goes_on_as_it_came() -> None:
    with watched("down:session/prompt:carry+amend") as pb:
        given(pb)
        passed(pb)
        came_back(pb)
        respelled = b'{"result":{"stopReason":"end\\u005fturn"},"id":%d,"jsonrpc":"2.0"}'
        pb >> ("g", "p", respelled % pb.values["g-a"])
        effect = taken(pb)
        assert isinstance(effect, Send)
        assert b"end_turn" in effect.frame
        assert settled(pb.router)


def test_what_it_would_drop_goes_on() -> None:
    with watched(CARRY_TEXT) as pb:
        pb >> ("agent", update("a secret")) << ("g", "s", update("a secret"))
        pb.effects += heard(pb.router)
        would(pb, "drop `session/update[agent_message_chunk]`")
        pb << ("client", update("a secret"))


def test_what_it_would_send_is_sent_to_nobody() -> None:
    with watched("up:session/update[agent_message_chunk]:originate") as pb:
        pb >> ("g", "p", update("of its own"))
        would(pb, "send `session/update[agent_message_chunk]` of its own")


def test_a_prompt_of_its_own_has_an_error() -> None:
    with watched("down:session/prompt:carry", grants="turns=within") as pb:
        given(pb)
        pb >> ("g", "s", request("own", PROMPT, prompt("do more")))
        would(pb, "send `session/prompt` of its own")
        refused(pb, "own", "would send")


@pytest.mark.parametrize(("call", "level"), [("turn/begin", "warning"), ("rebind", "info")])
def test_it_begins_no_turn_and_no_session_goes_on_as_its_own(call: str, level: str) -> None:
    with watched(grants="turns=unprompted") as pb:
        pb >> ("g", "c", request(7, call, {"sessionId": "S", "to": "T"}))
        pb << Noted(level, "g", "is only watched")
        skip(pb)


def test_its_peer_agent_hears_nothing_of_it() -> None:
    component = ports.owner(policed=True)
    assert component.policy is not None
    policy = msgspec.structs.replace(component.policy, watched=True)
    with ports.chain(msgspec.structs.replace(component, policy=policy)) as pb:
        said = {"connectionId": "k", "method": "tools/list"}
        pb >> ("p", request("a", "proxy/successor", ports.wrap("mcp/message", said)))
        assert broke(pb, "watch", "would send `mcp/message` to its peer agent", name="p").would
        skip(pb)


def test_it_tries_nothing_twice() -> None:
    with watched("down:session/prompt:carry+amend") as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        would(pb, "send `session/prompt` once more")
        skip(pb)


def test_a_right_that_it_lacks_is_a_violation_as_ever() -> None:
    with watched("down:session/prompt:carry") as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        assert not broke(pb, "rights", "may not answer").would
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))


# -- a trusted component that is judged by rights --------------------------------------------------


def judged(*allow: str, **more: Any) -> Playbook:
    """A chain whose component `g` is trusted, and judged by these rights."""
    held = policy(*allow, **more)
    return chain_of(Component("g", "proxy `g`", CHANNEL, judge=held))


def test_a_change_that_its_rights_forbid_happens_and_is_reported() -> None:
    with judged() as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("more")))
        assert broke(pb, "rights", "may not change `session/prompt`").would
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("more")))
        came_back(pb)


def test_a_change_that_a_guard_forbids_too() -> None:
    with judged("up:session/update:carry") as pb:
        call = tool_call("t")
        pb >> ("agent", call) << ("g", "s", call)
        pb >> ("g", "p", tool_call("t", title="another"))
        assert broke(pb, "rights", "may not change").would
        pb << ("client", tool_call("t", title="another"))


def test_an_answer_of_its_own_and_a_message_of_its_own() -> None:
    with judged() as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        assert broke(pb, "rights", "may not answer `session/prompt`").would
        pb << ("client", result("a", DONE))
        pb >> ("g", "p", notification("_note", {"sessionId": "S"}))
        assert broke(pb, "rights", "may not send `_note`").would
        pb << ("client", notification("_note", {"sessionId": "S"}))
