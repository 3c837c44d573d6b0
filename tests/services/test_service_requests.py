"""The requests of a chain's runtime to its services."""

from types import SimpleNamespace
from typing import Any

import msgspec

from conductor.core import Component, Effect, Send, Serve
from conductor.core.dialects import CHANNEL
from conductor.core.router import Router
from conductor.core.service_table import RELAYED
from conductor.run.owner import Owner
from conductor.run.planned import Belongings, Planned
from conductor.run.records import Records
from conductor.run.service_requests import ServiceRequests
from conductor.spec.options import Options
from tests.services.support import grantee


def test_what_a_host_relays_is_held_to_the_limits_of_its_guest() -> None:
    sent: list[Effect] = []
    host = Component("a+b", dialect=CHANNEL, services=frozenset({RELAYED}), hosts=True)
    router = Router([host, Component("agent")])
    grantees = tuple(grantee(name, (), service_bytes=100) for name in "ab")
    transport: Any = None
    planned = Planned(
        host, transport, guests=("a", "b"), grantees=grantees, belongings=Belongings()
    )
    runtime: Any = SimpleNamespace(
        router=router, options=Options(), records=Records(lambda *line: None), owner=Owner(),
        apply=sent.extend,
    )  # fmt: skip
    serving = ServiceRequests(runtime, [planned])

    def ask(method: str, params: object) -> Any:
        relayed = {"component": "a", "method": method, "params": params}
        asked = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": 1, "method": RELAYED, "params": relayed}
        )
        (serve,) = router.receive("a+b", b"c" + asked)
        assert isinstance(serve, Serve)
        sent.clear()
        (answer,) = serving.serve(serve) or sent
        assert isinstance(answer, Send)
        return msgspec.json.decode(answer.frame[1:])

    labels = {f"label_{number}": "x" for number in range(100)}
    wrong = ask("metric", {"name": "n", "labels": labels})["error"]["message"]
    assert wrong.startswith("`metric` takes at most 100 bytes of params (limit `service_bytes`)")
    for method in ("nothing", "clock", "service"):  # `clock` a host performs itself
        wrong = ask(method, {})["error"]["message"]
        assert wrong == f"`{method}` is no call that a host relays"
    assert "keep` takes at most" in ask("keep", labels)["error"]["message"]
    assert planned.belongings is not None
    assert not planned.belongings.kept["a"]
