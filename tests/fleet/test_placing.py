"""How a gateway finds the worker that has a room: the steps, and that each search ends; and when
a room may move."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conductor.fleet import messages
from conductor.fleet.held import Held
from conductor.fleet.placing import MOST, MOVES, Event, Lease, Placing, Step
from conductor.fleet.room_outlet import RoomOutlet
from conductor.fleet.sealed import Seal
from conductor.serve.settings import Settings


def test_a_room_that_runs_is_opened_where_it_is() -> None:
    placing = Placing()
    placing.found(Lease("w", 7))
    assert (placing.step, placing.lease) == (Step.OPEN, Lease("w", 7))
    placing.opened()
    assert placing.step is Step.DONE


def test_a_room_that_nobody_has_is_placed() -> None:
    placing = Placing()
    placing.found(None)
    assert (placing.step, placing.lost) == (Step.PLACE, 0)
    placing.placed(Lease("w", 1))
    assert placing.step is Step.OPEN


def test_a_lease_whose_worker_is_silent_is_taken_over() -> None:
    placing = Placing()
    placing.found(Lease("dead", 7))
    placing.silent()
    assert placing.step is Step.LOOK
    placing.found(Lease("dead", 7))
    assert (placing.step, placing.lost) == (Step.PLACE, 7)
    placing.placed(Lease("w", 9))
    placing.opened()
    assert placing.lease == Lease("w", 9)


def test_a_gateway_that_has_lost_a_worker_does_not_ask_it_again() -> None:
    placing = Placing(lost=7)
    placing.found(Lease("dead", 7))
    assert placing.step is Step.PLACE
    placing = Placing(lost=7)
    placing.found(Lease("w", 8))  # another gateway was faster
    assert placing.step is Step.OPEN


def test_what_cannot_be_helped_ends_the_search() -> None:
    looks, places, opens = Placing(), Placing(), Placing()
    places.found(None)
    opens.found(Lease("w", 1))
    for placing in (looks, places, opens):
        placing.refused()
        assert placing.step is Step.FAILED


def _happens(placing: Placing, event: Event) -> None:
    if event is Event.OPENED:
        placing.opened()
    elif event is Event.GONE:
        placing.gone()
    elif event is Event.SILENT:
        placing.silent()
    elif event is Event.REFUSED:
        placing.refused()


@given(st.lists(st.sampled_from([*Event]), max_size=80))
def test_each_search_ends(events: list[Event]) -> None:
    placing = Placing()
    for event in events:
        before = placing.step
        if event in (Event.HELD, Event.FREE) and before is Step.LOOK:
            placing.found(Lease("w", 5) if event is Event.HELD else None)
        elif event is Event.HELD:
            placing.placed(Lease("w", 6))
        else:
            _happens(placing, event)
        assert placing.rounds <= MOST
        assert (placing.rounds == MOST) <= placing.is_over
        if (before, event) not in MOVES:
            assert placing.step is before


def test_an_end_is_an_end() -> None:
    assert not [step for step, _ in MOVES if step in (Step.DONE, Step.FAILED)]


async def test_who_may_send_again_is_not_quiet_when_the_room_is_to_move_once_more() -> None:
    """Otherwise the room would move while messages of the client are on their way."""
    bus = SimpleNamespace(cut=[], linked=[], publish=lambda *_: None)
    worker: Any = SimpleNamespace(bus=bus, settings=Settings())
    request: Any = SimpleNamespace(gateway="g", connection="c")
    keys = b"1" * 32, b"2" * 32
    gateway = Seal(*reversed(keys))
    outlet = RoomOutlet(worker, Held("ann", b"{}", 1, 0.0), request, Seal(*keys))
    for _ in range(2):
        outlet.ask()
        assert not outlet.is_quiet
        outlet.packet(gateway.closed(messages.write(messages.Client(waits=True))))
        assert outlet.is_quiet
        outlet.say(messages.Closed(when="later"))
    outlet.carried.close()
