"""Folders of sessions that components open: links are followed before the agent hears of them."""

from typing import Any

import pytest

from conductor.core import Component, Resolve, Send
from conductor.core.router import Router, RouterOptions
from tests.core.policy.test_own_sessions import THERE, set_up
from tests.harness.router.policed import (
    Hole,
    Json,
    Playbook,
    broke,
    guest,
    initialize,
    refused,
    request,
    result,
    trusted,
)

NEW_ONE = "session/new"


def chain(*components: Component, **more: Any) -> Playbook:
    """A client, components, and an agent, with a shell that looks where links lead."""
    router = Router(
        [*components, Component("agent", "agent `agent`")],
        options=RouterOptions(resolving=True, **more),
    )
    initialize(router, components)
    return Playbook(router)


def own(cwd: str, *more: str) -> Json:
    """The params of a session of a component's own."""
    return {"cwd": cwd, "mcpServers": [], **({"additionalDirectories": [*more]} if more else {})}


def waits(pb: Playbook) -> Resolve:
    """Takes the one effect: the question where folders lead."""
    (effect,) = pb.effects
    assert isinstance(effect, Resolve)
    pb.effects = []
    return effect


def is_at(pb: Playbook, asked: Resolve, *real: str, theirs: tuple[str, ...] = ("/work",)) -> None:
    """The paths lead to these real folders."""
    pb >> (lambda router: router.resolved(asked.token, real, theirs if real else ()))


def test_a_folder_goes_on_without_links_and_not_out_of_the_users() -> None:
    with chain(guest(profile="full", grants="sessions=own")) as pb:
        set_up(pb, "n", NEW_ONE, THERE, {"sessionId": "S"})
        pb >> ("g", "s", request("a", NEW_ONE, own("/work/link", "/work")))
        asked = waits(pb)
        assert (asked.peer, asked.folders, asked.theirs) == ("agent", ("/work/link",), ("/work",))
        is_at(pb, asked, "/work/sub")
        pb << ("agent", request(Hole("a"), NEW_ONE, own("/work/sub", "/work")))
        for folders in (own("/work/link"), own("/work", "/work/link")):
            pb >> ("g", "s", request("b", NEW_ONE, folders))
            is_at(pb, waits(pb), "/home/me")
            refused(pb, "b", "leads out of the user's folders")
        # The agent is on another machine: nobody here knows its folders.
        pb >> ("g", "s", request("c", NEW_ONE, own("/work/link")))
        is_at(pb, waits(pb))
        pb << ("agent", request(Hole("c"), NEW_ONE, own("/work/link")))


def test_folders_that_the_user_has_named_are_as_the_user_wrote_them() -> None:
    with chain(guest(profile="full", grants="sessions=own")) as pb:
        set_up(pb, "n", NEW_ONE, THERE, {"sessionId": "S"})
        pb >> ("g", "s", request("a", NEW_ONE, THERE))
        pb << ("agent", request(Hole("a"), NEW_ONE, THERE))
        # A session of a component's own names nothing for the user.
        pb >> ("agent", result(Hole("a"), {"sessionId": "mine"}))
        pb << ("g", "s", result("a", {"sessionId": "mine"}))
        pb >> ("g", "s", request("b", NEW_ONE, own("/work/link")))
        is_at(pb, waits(pb), "/work/sub")
        pb << ("agent", request(Hole("b"), NEW_ONE, own("/work/sub")))
        pb >> ("agent", result(Hole("b"), {"sessionId": "more"}))
        pb << ("g", "s", result("b", {"sessionId": "more"}))
        pb >> ("g", "s", request("c", NEW_ONE, own("/work/link")))
        assert waits(pb).folders == ("/work/link",)


def test_a_host_names_the_guest_whose_set_up_it_is() -> None:
    host = Component(
        "a+b",
        "the host",
        trusted("x").dialect,
        hosts=True,
        guests={"a": ""},
        known_as=frozenset("ab"),
    )
    with chain(host) as pb:
        pb >> ("client", request("n", NEW_ONE, THERE))
        pb << ("a+b", "p", request(Hole("h"), NEW_ONE, THERE))
        pb >> ("a+b", "s", request(Hole("h"), NEW_ONE, THERE))
        pb << ("agent", request(Hole("n"), NEW_ONE, THERE))
        pb >> ("agent", result(Hole("n"), {"sessionId": "S"}))
        pb << ("a+b", "s", result(Hole("h"), {"sessionId": "S"}))
        pb >> ("a+b", "p", result(Hole("h"), {"sessionId": "S"}))
        pb << ("client", result("n", {"sessionId": "S"}))
        pb >> ("a+b", "s", request("c1 b", NEW_ONE, own("/elsewhere")))  # it is trusted
        pb << ("agent", request(Hole("b"), NEW_ONE, own("/elsewhere")))
        # A host that has been taken over sends a set-up that no guard has seen.
        for cwd in (b'"/work/\\ud800"', b"1e999"):
            asked = b'{"jsonrpc":"2.0","id":"c3 a","method":"session/new","params":{"cwd":%b}}'
            pb >> ("a+b", "s", asked % cwd)
            is_at(pb, waits(pb), "/")
            assert b"leads out" in pb.effects.pop().frame  # type: ignore[union-attr]
        pb >> ("a+b", "s", request("c2 a", NEW_ONE, own("/work/link")))
        is_at(pb, waits(pb), "/home/me")
        (sent,) = pb.effects
        assert isinstance(sent, Send)
        assert b"leads out of the user's folders" in sent.frame
        pb.effects = []


@pytest.mark.parametrize("folder", ["/work/\ud800", "/work" + "/a" * 2048])
@pytest.mark.parametrize("more", [False, True])
def test_what_no_system_opens_is_refused_before_anybody_looks(folder: str, more: bool) -> None:
    with chain(guest(grants="sessions=own")) as pb:
        set_up(pb, "n", NEW_ONE, THERE, {"sessionId": "S"})
        params = own("/work", folder) if more else own(folder)
        pb >> ("g", "s", request("o", NEW_ONE, params))
        broke(pb, "own-sessions", "works in folders of the client's sessions")
        refused(pb, "o")
