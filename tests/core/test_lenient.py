"""Frames that both official SDKs take although they are not quite JSON-RPC; answers under wrong
ids."""

from collections.abc import Callable
from typing import Final

import pytest

from conductor.core import CHANNEL, Component, jsonrpc
from conductor.core.effects import Closure, Effects
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import agent_only, begin, error, request, result
from tests.harness.router.rules import held

BOM: Final = b"\xef\xbb\xbf"
PERMISSION: Final = "session/request_permission"
TEXT: Final = b'{"code":-32050,"message":"the cause"}'
ANSWERS: Final[dict[bytes, bytes]] = {
    BOM + b'{"jsonrpc":"2.0","id":2,"result":1}': b'"result":1',
    BOM + b' {"jsonrpc":"2.0","id":2,"result":"\\ud83d"}': b'"result":"\\ud83d"',
    b'{"jsonrpc":"2.0","id":2.0,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":2e0,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":0.2E+1,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":20e-1,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":2,"method":null,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":2,"method":null,"params":null,"result":1,"error":null}': b'"result":1',
    b'{"jsonrpc":"2.0","id":2,"method":null,"error":%b}' % TEXT: b'"error":' + TEXT,
    b'{"jsonrpc":"2.0","id":2,"result":null,"error":%b}' % TEXT: b'"error":' + TEXT,
    b'{"jsonrpc":"2.0","id":2,"result":{},"error":null}': b'"result":{}',
    b'{"jsonrpc":"2.0","id":2,"result":null,"error":null}': b'"result":null',
}
UNKNOWN: Final[dict[bytes, bytes]] = {
    b'{"jsonrpc":"2.0","id":null,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":null,"error":%b}' % TEXT: b'"error":' + TEXT,
    b'{"jsonrpc":"2.0","id":99,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":0,"result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":"2","result":1}': b'"result":1',
    b'{"jsonrpc":"2.0","id":1.5,"result":1}': b'"result":1',
}


@pytest.mark.parametrize("answer", [*ANSWERS, *UNKNOWN])
def test_an_answer_in_its_odd_form(answer: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", answer)
        if answer in UNKNOWN:
            pb << Noted("warning", "agent", "taken for that to `_x`")
        pb << ("client", b'{"jsonrpc":"2.0","id":1,%b}' % {**ANSWERS, **UNKNOWN}[answer])


@pytest.mark.parametrize(
    ("members", "counts"),
    [
        (b'"result":1', (b"result", b"1")),
        (b'"result":null', (b"result", b"null")),
        (b'"result":null,"error":%b' % TEXT, (b"error", TEXT)),
        (b'"result":1,"error":null', (b"result", b"1")),
        (b'"error":null', None),
    ],
)
def test_of_result_and_error_the_member_that_is_not_null_counts(
    members: bytes, counts: tuple[bytes, bytes] | None
) -> None:
    message = jsonrpc.parse(b'{"jsonrpc":"2.0","id":1,%b}' % members)
    assert not isinstance(message, list)
    found = jsonrpc.outcome(message)
    assert (found and (found[0], bytes(found[1]))) == counts


@pytest.mark.parametrize("peer", ["client", "agent"])
@pytest.mark.parametrize(
    ("id_", "same"),
    [(b"1.0", b"1"), (b"1e2", b"100"), (b"-0", b"0"), (b"-0.0", b"0"), (b"-5.00", b"-5"),
     (b"9223372036854775807.0", b"9223372036854775807")],
)  # fmt: skip
def test_a_request_may_have_a_whole_number_for_its_id(peer: str, id_: bytes, same: bytes) -> None:
    """The answer has the id as the request wrote it; every spelling of the id names the same
    request."""
    other = "agent" if peer == "client" else "client"
    with begin(agent_only()) as pb:
        pb >> (peer, BOM + b'{"jsonrpc":"2.0","id":%b,"method":"_x"}' % id_)
        pb << (other, request(Hole("id"), "_x"))
        pb >> (peer, b'{"jsonrpc":"2.0","id":%b,"method":"_x"}' % same)
        pb << Noted("warning", peer, "in use") << (peer, error(None, -32600, Hole("text")))
        cancel = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%b}}'
        pb >> (peer, cancel % same)
        about = {"requestId": Hole("id")}
        pb << (other, {"jsonrpc": "2.0", "method": "$/cancel_request", "params": about})
        pb >> (other, result(Hole("id"), 1))
        pb << (peer, b'{"jsonrpc":"2.0","id":%b,"result":1}' % id_)


@pytest.mark.parametrize("peer", ["client", "agent"])
@pytest.mark.parametrize(
    "nulls", [b'"result":null', b'"error":null', b'"result":null,"error":null']
)
def test_a_message_with_a_method_may_have_the_members_of_answers_as_null(
    peer: str, nulls: bytes
) -> None:
    other = "agent" if peer == "client" else "client"
    with begin(agent_only()) as pb:
        pb >> (peer, b'{"jsonrpc":"2.0","id":7,"method":"_x",%b}' % nulls)
        pb << (other, request(Hole("id"), "_x"))
        pb >> (other, result(Hole("id"), 1)) << (peer, result(7, 1))
        pb >> (peer, b'{"jsonrpc":"2.0","method":"_n",%b}' % nulls)
        pb << (other, {"jsonrpc": "2.0", "method": "_n"})


@pytest.mark.parametrize("peer", ["client", "agent"])
def test_a_mark_alone_is_a_blank_line(peer: str) -> None:
    with begin(agent_only()) as pb:
        pb >> (peer, BOM) >> (peer, BOM + b" \r")


# -- answers under no id of ours -------------------------------------------------------------------

NULL: Final = result(None, 9)


def _stays(pb: Playbook, *methods: str) -> None:
    names = ", ".join(f"`{method}`" for method in methods)
    pb << Noted("warning", "agent", f"without an answer: {names}" if names else "answer dropped")


def test_with_two_open_none_is_meant() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("client", request(2, "_y")) << ("agent", request(3, "_y"))
        pb >> ("agent", NULL)
        _stays(pb, "_x", "_y")
        pb >> ("agent", result(2, 1)) << ("client", result(1, 1))
        pb >> ("agent", NULL) << Noted("warning", "agent", "`_y`") << ("client", result(2, 9))


def test_a_second_answer_is_not_meant_for_the_next_request() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", result(2, 1)) << ("client", result(1, 1))
        pb >> ("client", request(2, "_y")) << ("agent", request(3, "_y"))
        for id_ in (2, 2.0, 1):
            pb >> ("agent", result(id_, 1))
            _stays(pb, "_y")
        pb >> ("agent", result(3, 1)) << ("client", result(2, 1))


def test_no_answer_without_its_id_gives_a_permission() -> None:
    with begin(agent_only()) as pb:
        pb >> ("agent", request(1, PERMISSION)) << ("client", request(1, PERMISSION))
        for id_ in (None, 77, "1"):
            pb >> ("client", result(id_, {"outcome": "allow"}))
            pb << Noted("warning", "client", f"without an answer: `{PERMISSION}`")
        pb >> ("client", result(1, 2)) << ("agent", result(1, 2))
        pb >> ("agent", request(1, "fs/read_text_file"))
        pb << ("client", request(2, "fs/read_text_file"))  # none was lost on the way
        pb >> ("client", NULL) << Noted("warning", "client", "fs/read_text_file")
        pb << ("agent", result(1, 9))


def test_a_question_of_the_conductors_own_has_its_id() -> None:
    with begin(agent_only()) as pb:
        pb >> (lambda r: r.ask("elicitation/create", b"{}", 7))
        pb << ("client", request(1, "elicitation/create", {}))
        pb >> ("client", NULL) << Noted("warning", "client", "answer dropped")


@pytest.mark.parametrize(
    "answer",
    [{"jsonrpc": "2.0", "result": 1}, {"jsonrpc": "1.0", "id": None, "result": 1},
     {"id": 99, "result": 1}],
)  # fmt: skip
def test_an_answer_with_no_id_at_all_or_of_another_json_rpc(answer: object) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", answer)
        _stays(pb, "_x")


def test_many_names_are_few_in_the_log() -> None:
    with begin(agent_only()) as pb:
        for at in range(12):
            pb >> ("client", request(at, f"_x{at}")) << ("agent", request(at + 2, f"_x{at}"))
        pb >> ("agent", NULL) << Noted("warning", "agent", "`_x9` and more")


LOST: Final[dict[str, Callable[[Router], Effects]]] = {
    "no answer in time": lambda r: r.expire("agent", b"0:2", Closure("slow")),
    "a line too long": lambda r: r.skipped("agent", b'{"jsonrpc":"2.0","id":2,"result":"', "long"),
    "a line of nobody": lambda r: r.skipped("agent", b'{"result":"', "long"),
    "not delivered": lambda r: r.undeliverable(
        "agent", b'{"jsonrpc":"2.0","id":2,"method":"_x"}', "long"
    ),
}


@pytest.mark.parametrize("how", LOST)
def test_where_one_was_lost_none_is_meant(how: str) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb.router.expire("agent", b"0:9", Closure("nobody waits"))  # changes nothing
        pb >> LOST[how]
        pb.effects.clear()
        pb >> ("agent", result(2, 1))
        pb.effects.clear()
        pb >> ("client", request(2, "_y")) << ("agent", request(3, "_y"))
        pb >> ("agent", NULL)
        _stays(pb, "_y")


def test_a_component_with_a_policy_answers_by_id() -> None:
    policed = Component("p", "proxy `p`", CHANNEL, policy=held("full"))
    with Playbook(Router([policed, Component("agent")])) as pb:
        pb >> ("client", request(1, "initialize", {"protocolVersion": 1}))
        pb << ("p", "p", request(Hole("i"), "initialize", {"protocolVersion": 1}))
        pb >> ("p", "p", result(None, {"protocolVersion": 1}))
        pb << Noted("warning", "p", "without an answer: `initialize`")
