"""Copies for observers that may also originate: however large, and whatever becomes of them."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from tests.core.plays import notification, request, result
from tests.core.policed import Json, chain, prompt
from tests.playbook import Hole

LARGE = prompt("x" * 100_000)


def frame(method: str, params: Json, id_: int | None = None) -> bytes:
    """A line."""
    said = notification(method, params) if id_ is None else request(id_, method, params)
    return json.dumps(said).encode()


@pytest.mark.parametrize("verbs", ["observe", "observe+originate"])
@pytest.mark.parametrize("given", [prompt("hi"), LARGE], ids=["small", "large"])
def test_a_copy_that_comes_back_is_not_the_observers_own(verbs: str, given: Json) -> None:
    with chain(f"down:*:{verbs}") as pb:
        pb >> ("client", request(1, "session/prompt", given))
        pb << ("g", "p", request(Hole("copy"), "session/prompt", given))
        pb << ("agent", request(Hole("a"), "session/prompt", given))
        pb >> ("g", "s", request("m", "session/prompt", given))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))
        pb << ("g", "s", result("m", 1))


def test_a_request_without_params_is_no_large_copy() -> None:
    with chain("down:*:observe+originate") as pb:
        pb >> ("client", request(1, "_q", LARGE))
        pb << ("g", "p", request(Hole("copy"), "_q", LARGE))
        pb << ("agent", request(Hole("a"), "_q", LARGE))
        pb >> ("g", "s", request("m", "_q")) << ("agent", request(Hole("b"), "_q"))
        pb >> ("agent", result(Hole("b"), 2)) << ("g", "s", result("m", 2))
        pb >> ("agent", result(Hole("a"), 1)) << ("client", result(1, 1))


def test_copies_of_notifications_that_are_swallowed_are_forgotten() -> None:
    with chain("up:*:observe+originate", kind="acp") as pb:
        peer, large = pb.router.peers["g"], {"text": "x" * 1_000_000}
        for number in range(40_000):
            pb.router.receive("agent", b'{"jsonrpc":"2.0","method":"_n","params":[%d]}' % number)
        assert len(peer.p.way.seen["_n"]) <= 32_768
        for _ in range(80):
            pb.router.receive("agent", frame("_m", large))
        assert (
            sum(memoryview(p).nbytes for p in peer.p.way.seen["_m"] if isinstance(p, Raw)) < 2**26
        )
