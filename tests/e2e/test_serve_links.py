"""Clients of `conductor serve` that number their frames, and do so wrongly, or twice at once."""

from typing import Final

from tests.harness.process.rig import Rig
from tests.harness.process.serving import served

WRONG: Final = {
    "nonsense": "sent something that is no packet of conductor.link.1",
    "frame other 1 0 0 2 {}": "a packet of the epoch other came",
    "ack {epoch} 99 0": "has packet 99; 0 were sent",
    "frame {epoch} 999999 0 0 2 {}": "where 4194304 are allowed",
    "hello {epoch} 9 0 0 5": "the other end keeps none before 5",
    "frame {epoch} 1 0 0 600000 " + "x" * 600_000: "the limit is 524288",
}


def test_what_breaks_the_rules_of_a_link_is_named_and_ends_that_connection_alone(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), "--listen", "ws://127.0.0.1:0") as server:
        beside = server.linked()
        session = beside.begin()
        for packet, text in WRONG.items():
            client = server.linked()
            client.send_packet(packet.replace("{epoch}", client.connection))
            code, reason = client.closing()
            assert (code, text in reason) == (1002, True), (packet[:60], reason)
        assert beside.prompt(session, "still here")


def test_a_client_that_comes_twice_goes_on_over_the_second_link(rig: Rig) -> None:
    """The first may be half-open: its client knows that it is cut, the server does not yet."""
    with served(rig, "serve", rig.demo(), "--listen", "ws://127.0.0.1:0") as server:
        client = server.linked()
        session = client.begin()
        client.link.cut()
        client.back()
        assert client.prompt(session, "once more")
        server.end()
        assert client.closing()[0] == 1001
