"""ACP over HTTP as the client speaks it: what is posted when, and what happens when things fail."""

import json
from typing import Any

import pytest

from conductor.transports import backoff
from conductor.transports.remote.http_actions import (
    Action,
    Deliver,
    Leave,
    Listen,
    Over,
    Post,
    Undelivered,
)
from conductor.transports.remote.http_rules import HttpRules


def frame(**members: Any) -> bytes:
    """A frame."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def request(id_: object, method: str, session: str | None = None, **params: Any) -> bytes:
    """A request, of a session if it has one."""
    named = {"sessionId": session} if session is not None else {}
    return frame(id=id_, method=method, params={**named, **params})


def result(id_: object, **members: Any) -> bytes:
    """An answer."""
    return frame(id=id_, result=members)


TRIES = 12
INITIALIZE = request(0, "initialize")


def opened() -> HttpRules:
    """A connection whose stream has its head."""
    rules = HttpRules(TRIES)
    (post,) = rules.write(INITIALIZE)
    assert isinstance(post, Post)
    assert rules.opened(post, 200, "c1", result(0)) == [Deliver(result(0)), Listen(None)]
    assert rules.listening(None) == []
    return rules


def only(actions: list[Action]) -> Post:
    """The one action, which is a POST."""
    (post,) = actions
    assert isinstance(post, Post)
    return post


def in_session(rules: HttpRules, session: str = "s1") -> None:
    """The stream of a session has its head."""
    rules.posted(only(rules.write(request("new", "session/new"))), 202)
    answer = result("new", sessionId=session)
    assert rules.heard(None, "", answer) == [Deliver(answer), Listen(session)]
    rules.listening(session)


def errors(actions: list[Action]) -> dict[Any, str]:
    """The errors that are delivered: by the id of the request, in words."""
    frames = [json.loads(one.frame) for one in actions if isinstance(one, Deliver)]
    return {one["id"]: one["error"]["message"] for one in frames if "error" in one}


# -- the opening ---------------------------------------------------------------------------------


def test_nothing_is_posted_before_the_connection_is_open_and_its_stream_has_its_head() -> None:
    rules = HttpRules(TRIES)
    assert rules.write(frame(method="configure")) == []
    post = only(rules.write(INITIALIZE))
    assert post == Post(INITIALIZE, 0)
    assert rules.write(request(1, "authenticate")) == []
    assert rules.opened(post, 200, "c1", result(0)) == [Deliver(result(0)), Listen(None)]
    first = only(rules.listening(None))
    assert (first.frame, first.number) == (frame(method="configure"), 1)
    second = only(rules.posted(first, 202))
    assert (second.frame, second.number) == (request(1, "authenticate"), 2)
    assert rules.posted(second, 202) == []
    assert rules.buffered == 0


def test_an_error_for_an_answer_opens_nothing_and_another_try_may() -> None:
    rules = HttpRules(TRIES)
    refusal = frame(id=0, error={"code": -32000, "message": "no"})
    assert rules.opened(only(rules.write(INITIALIZE)), 200, "", refusal) == [Deliver(refusal)]
    again = only(rules.write(INITIALIZE))
    assert rules.opened(again, 200, "c9", refusal) == [Deliver(refusal), Leave()]
    assert rules.opened(only(rules.write(INITIALIZE)), 200, "c2", result(0))[-1] == Listen(None)


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + result(0),
        b'{"jsonrpc":"2.0","id":0.0,"method":null,"result":{},"error":null}',
        b'{"jsonrpc":"2.0","id":0,"result":{"\\ud83d":"\\ud83d"}}',
    ],
)
def test_an_answer_in_its_odd_form_opens_a_connection(body: bytes) -> None:
    rules = HttpRules(TRIES)
    opened = rules.opened(only(rules.write(INITIALIZE)), 200, "c1", body)
    assert opened == [Deliver(body), Listen(None)]


def test_who_detects_dialects_hears_that_a_server_takes_initialize_alone() -> None:
    rules = HttpRules(TRIES)
    post = only(rules.write(request(0, "proxy/initialize")))
    (answer,) = rules.opened(post, 400, "", b"nope")
    assert isinstance(answer, Deliver)
    assert json.loads(answer.frame)["error"]["code"] == -32601
    assert only(rules.write(INITIALIZE)).number == 0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500, 503])
def test_a_server_that_does_not_open_is_named(status: int) -> None:
    rules = HttpRules(TRIES)
    over = rules.opened(only(rules.write(INITIALIZE)), status, "", b"")
    assert over == [Over("could not be reached", status)]
    assert rules.write(request(1, "x")) == []


@pytest.mark.parametrize("id_", ["", "\udcff", "a\nX: y", "\x1b[31m", "x" * 1025])
def test_a_server_without_an_id_that_a_header_carries_ends_it(id_: str) -> None:
    rules = HttpRules(TRIES)
    (over,) = rules.opened(only(rules.write(INITIALIZE)), 200, id_, result(0))
    assert isinstance(over, Over)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"null", b"[" + result(0) + b"]", result(1), result("0"), result(None)),
        frame(id=None, error={}),
    ],
)
def test_a_server_that_answers_something_else_ends_it(body: bytes) -> None:
    """Else the owner would wait for ever for an answer that cannot come any more."""
    rules = HttpRules(TRIES)
    (over,) = rules.opened(only(rules.write(INITIALIZE)), 200, "c1", body)
    assert over == Over("answered `initialize` with a body that is no answer to it")
    assert rules.write(request(1, "x")) == []


def test_a_proxy_may_ask_its_successor_before_it_answers() -> None:
    rules = HttpRules(TRIES)
    asks = request(7, "proxy/successor")
    delivered, listen = rules.opened(only(rules.write(INITIALIZE)), 200, "c1", asks)
    assert isinstance(delivered, Deliver)
    assert isinstance(listen, Listen)


def test_nobody_at_all_ends_it() -> None:
    rules = HttpRules(TRIES)
    assert rules.failed(only(rules.write(INITIALIZE)), "why") == [Over("could not be reached: why")]


# -- queues and sessions -------------------------------------------------------------------------


def test_one_post_is_on_its_way_and_answers_pass_those_that_wait() -> None:
    rules = opened()
    rules.heard(None, "", request("q", "ask"))
    blocked = only(rules.write(request(1, "a")))
    assert rules.write(request(2, "b")) == []
    answer = only(rules.write(result("q")))
    assert answer.is_answer
    assert (blocked.number, answer.number) == (1, 2)
    assert rules.posted(answer, 202) == []
    assert only(rules.posted(blocked, 202)).frame == request(2, "b")


def test_no_answer_passes_a_notification_and_none_is_passed_by_one() -> None:
    rules = opened()
    for id_ in ("q", "r"):
        rules.heard(None, "", request(id_, "ask"))
    update, later = frame(method="update"), frame(method="later")
    first = only(rules.write(request(1, "a")))
    for message in (update, result("q"), later, result("r")):
        assert rules.write(message) == []
    sent, flying = [], [first]
    while flying:
        post = flying.pop(0)
        sent.append(post.frame)
        flying += [one for one in rules.posted(post, 202) if isinstance(one, Post)]
    assert sent == [request(1, "a"), update, result("q"), later, result("r")]


def test_a_message_of_a_session_waits_for_the_head_of_its_stream() -> None:
    rules = opened()
    assert rules.write(request(1, "session/load", "s1")) == [Listen("s1")]
    assert rules.write(request(2, "other")) == []  # order is kept
    post = only(rules.listening("s1"))
    assert (post.frame, post.session) == (request(1, "session/load", "s1"), "s1")
    assert only(rules.posted(post, 202)).session is None


def test_a_new_session_is_heard_at_once() -> None:
    rules = opened()
    post = only(rules.write(request(1, "session/new")))
    rules.posted(post, 202)
    answer = result(1, sessionId="s7")
    assert rules.heard(None, "", answer) == [Deliver(answer), Listen("s7")]
    rules.listening("s7")
    assert only(rules.write(request(2, "session/prompt", "s7"))).session == "s7"


def test_an_answer_names_the_session_of_its_question() -> None:
    rules = opened()
    in_session(rules)
    rules.heard("s1", "", request(5, "session/request_permission", "s1"))
    assert only(rules.write(result(5))).session == "s1"


@pytest.mark.parametrize(
    "message",
    [
        frame(method="$/cancel_request", params={"sessionId": "s1", "requestId": 1}),
        frame(method="x", params={"sessionId": 7}),
        frame(method="x", params={"sessionId": "a\nb"}),
        frame(method="x", params={"sessionId": "ü"}),
        frame(method="x", params={"sessionId": " s1"}),
        frame(method="x", params=["s1"]),
        b"no JSON",
    ],
)
def test_what_names_no_session_that_a_header_can_name_has_none(message: bytes) -> None:
    rules = opened()
    assert only(rules.write(message)).session is None


def test_messages_come_on_any_stream_and_an_answer_once() -> None:
    rules = opened()
    in_session(rules)
    for stream, id_ in ((None, 1), ("s1", "1")):
        rules.posted(only(rules.write(request(id_, "session/prompt", "s1"))), 202)
        assert rules.heard(stream, "", result(id_)) == [Deliver(result(id_))]
        assert rules.heard(None, "", result(id_)) == []


def test_a_server_that_opens_no_stream_before_it_knows_a_session_still_gets_the_message() -> None:
    rules = opened()
    assert rules.write(request(1, "session/load", "s1")) == [Listen("s1")]
    post = only(rules.lost("s1", "got HTTP status 404", 404))
    rules.posted(post, 202)
    rules.heard(None, "", result(1))
    assert rules.write(request(2, "session/prompt", "s1")) == [Listen("s1")]


# -- what fails ----------------------------------------------------------------------------------


def test_a_post_that_is_refused_is_given_back_and_the_next_goes_on() -> None:
    rules = opened()
    first = only(rules.write(request(1, "a")))
    rules.write(request(2, "b"))
    given_back, after = rules.posted(first, 413)
    assert given_back == Undelivered(first.frame, "the server answered with HTTP status 413")
    assert isinstance(after, Post)
    assert rules.heard(None, "", result(1)) == []  # it has been answered


def test_a_session_that_a_server_does_not_know_costs_its_own_message_alone() -> None:
    rules = opened()
    rules.write(request(1, "session/load", "s1"))
    post = only(rules.lost("s1", "got HTTP status 404", 404))
    why = "the server does not know this session"
    assert rules.posted(post, 404) == [Undelivered(post.frame, why)]
    assert only(rules.write(request(2, "a"))).frame == request(2, "a")


def test_a_stream_without_an_event_begins_anew_where_the_server_counts() -> None:
    rules = opened()
    rules.named(None, "0")
    assert rules.write(request(1, "session/prompt", "s1")) == [Listen("s1")]
    assert rules.lost("s1", "was cut") == [Listen("s1", "0", 1)]
    assert only(rules.listening("s1")).frame == request(1, "session/prompt", "s1")


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_connection_that_the_server_has_ended_is_over(status: int) -> None:
    rules = opened()
    post = only(rules.write(request(1, "a")))
    assert rules.posted(post, status) == [Over("has ended this connection", status)]


def test_a_post_without_an_answer_goes_again_only_where_the_server_counts() -> None:
    rules = opened()
    post = only(rules.write(request(1, "a")))
    assert rules.failed(post, "cut") == [Undelivered(post.frame, "cut")]
    rules.named(None, "0")
    post = only(rules.write(request(2, "b")))
    for tries in range(1, TRIES + 1):
        post = only(rules.failed(post, "cut"))
        assert (post.number, post.tries) == (2, tries)
    assert rules.failed(post, "cut") == [Undelivered(request(2, "b"), "cut")]
    assert rules.buffered == 0


def test_the_stream_of_a_connection_is_opened_behind_its_last_event() -> None:
    rules = opened()
    rules.heard(None, "41", frame(method="x"))
    assert rules.lost(None, "was cut") == [Listen(None, "41", 1)]
    assert rules.write(request(1, "a")) == []  # until it has its head
    assert rules.lost(None, "was cut") == [Listen(None, "41", 2)]
    assert only(rules.listening(None)).frame == request(1, "a")
    assert rules.lost(None, "got HTTP status 409", 409) == [
        Over("is lost: its stream got HTTP status 409", 409)
    ]


def test_the_tries_have_an_end() -> None:
    rules = opened()
    rules.named(None, "1")
    for tries in range(1, TRIES + 1):
        assert rules.lost(None, "was cut") == [Listen(None, "1", tries)]
    assert rules.lost(None, "was cut") == [Over("is lost: its stream was cut")]


def test_a_server_that_counts_messages_is_come_back_to_before_its_first_event() -> None:
    rules = HttpRules(TRIES)
    (post,) = rules.write(INITIALIZE)
    assert isinstance(post, Post)
    rules.opened(post, 200, "c1", result(0), counts=True)
    assert rules.lost(None, "was cut") == [Listen(None, "0", 1)]


def test_without_numbers_a_lost_connection_stream_is_the_end() -> None:
    assert opened().lost(None, "ended") == [Over("is lost: its stream ended")]


def test_without_numbers_a_lost_session_fails_what_is_open_there_and_is_opened_once() -> None:
    rules = opened()
    in_session(rules)
    rules.posted(only(rules.write(request(1, "session/prompt", "s1"))), 202)
    rules.posted(only(rules.write(request(2, "other"))), 202)
    actions = rules.lost("s1", "was cut")
    assert errors(actions) == {
        1: "the stream of the session was cut, so the answer to this is lost\n"
        "hint: send the request again"
    }
    assert actions[-1] == Listen("s1")
    assert rules.lost("s1", "was cut") == []  # once
    assert rules.write(request(3, "session/prompt", "s1")) == [Listen("s1")]
    assert only(rules.listening("s1")).frame == request(3, "session/prompt", "s1")
    assert rules.heard(None, "", result(2)) == [Deliver(result(2))]


def test_a_session_that_is_not_known_waits_for_the_stream_of_the_connection() -> None:
    """A server that was started again knows neither: who waits then hears that from the latter."""
    rules = opened()
    in_session(rules)
    rules.posted(only(rules.write(request(1, "session/prompt", "s1"))), 202)
    rules.named(None, "1")
    rules.named("s1", "2")
    for name, last in ((None, "1"), ("s1", "2")):
        assert rules.lost(name, "was cut") == [Listen(name, last, 1)]
    assert rules.lost("s1", "got HTTP status 404", 404) == []
    assert rules.listening(None) == [Listen("s1", "2", 2)]
    (failed,) = rules.lost("s1", "got HTTP status 404", 404)
    assert isinstance(failed, Deliver)
    assert json.loads(failed.frame)["error"] == {
        "code": -32603,
        "message": "the stream of the session got HTTP status 404, so the answer to this is lost\n"
        "hint: send the request again",
        "data": {"lost": True},
    }


def test_with_numbers_a_lost_session_loses_nothing() -> None:
    rules = opened()
    in_session(rules)
    rules.posted(only(rules.write(request(1, "session/prompt", "s1"))), 202)
    rules.heard("s1", "3", frame(method="session/update"))
    assert rules.lost("s1", "was cut") == [Listen("s1", "3", 1)]
    rules.listening("s1")
    assert rules.heard("s1", "4", result(1)) == [Deliver(result(1))]
    rules.posted(only(rules.write(request(2, "session/prompt", "s1"))), 202)
    assert rules.lost("s1", "was cut") == [Listen("s1", "4", 1)]
    assert list(errors(rules.lost("s1", "got HTTP status 409", 409))) == [2]


def test_what_waits_for_a_stream_that_never_opens_is_given_back() -> None:
    rules = opened()
    rules.write(request(1, "session/prompt", "s1"))
    rules.write(request(2, "other"))
    assert rules.lost("s1", "was cut") == [Listen("s1")]
    given_back, post = rules.lost("s1", "was cut")
    assert isinstance(given_back, Undelivered)
    assert isinstance(post, Post)
    assert post.frame == request(2, "other")


def test_a_session_that_is_closed_is_not_opened_again() -> None:
    rules = opened()
    in_session(rules)
    rules.posted(only(rules.write(request(1, "session/close", "s1"))), 202)
    rules.heard("s1", "", result(1))
    assert rules.lost("s1", "ended") == []


# -- the end -------------------------------------------------------------------------------------


def test_the_end_waits_until_everything_has_been_sent() -> None:
    rules = opened()
    first = only(rules.write(request(1, "a")))
    rules.write(request(2, "b"))
    assert rules.finish() == []
    second = only(rules.posted(first, 202))
    assert rules.posted(second, 202) == [Leave(), Over("closed the connection")]


def test_one_that_never_began_ends_at_once() -> None:
    assert HttpRules(TRIES).finish() == [Over("closed the connection")]


def test_the_tries_of_a_minute() -> None:
    """A server keeps a connection for so long."""
    assert [backoff.tries(each) for each in (0.0, 5.0, backoff.PATIENCE)] == [1, 5, TRIES]


@pytest.mark.parametrize("session", [None, "s1"])
def test_a_server_between_that_fails_for_a_while_ends_nothing(session: str | None) -> None:
    rules = opened()
    in_session(rules)
    rules.named(session, "7")
    assert rules.lost(session, "was cut") == [Listen(session, "7", 1)]
    for tries in range(2, TRIES + 1):
        assert rules.lost(session, "got HTTP status 503", 503) == [Listen(session, "7", tries)]
    assert Listen(session, "7", TRIES + 1) not in rules.lost(session, "got HTTP status 503", 503)


def test_a_message_that_a_server_between_did_not_let_through_comes_again() -> None:
    rules = opened()
    post = only(rules.write(request(1, "other")))
    (refused,) = rules.posted(post, 502)
    assert isinstance(refused, Undelivered)  # a server that does not count might have it
    rules.named(None, "1")
    post = only(rules.write(request(2, "other")))
    again = only(rules.posted(post, 502))
    assert (again.number, again.tries, again.frame) == (post.number, 1, post.frame)
    assert rules.buffered == len(post.frame)
    assert rules.posted(again, 202) == []
    assert rules.buffered == 0
