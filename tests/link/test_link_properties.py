"""Whatever the network and the owners do, each frame comes once and in order, and bounds hold."""

import random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.link import Limits, Link
from tests.link.network import OTHER, Network
from tests.link.support import SMALL, written

ENDS: Final = st.sampled_from(sorted(OTHER))
INDEX: Final = st.integers(0, 50)
LIMITS: Final = st.builds(
    Limits,
    packet=st.just(SMALL.packet),
    window=st.integers(SMALL.window, 9000),
    frame=st.just(SMALL.frame),
    queue=st.integers(1, 6000),
    acked=st.integers(1, 40),
)
SEND: Final = st.tuples(st.just("send"), ENDS, st.sampled_from((0, 5, 200, 900)))
WRITE: Final = st.tuples(st.just("write"), ENDS, st.integers(1, 8))
ARRIVE: Final = st.tuples(st.just("arrive"), INDEX, st.integers(1, 6))
OWNERS: Final = (
    *(SEND, SEND, WRITE, WRITE, ARRIVE, ARRIVE, ARRIVE),
    st.tuples(st.sampled_from(("ack", "pause", "go_on", "go_on", "overdue")), ENDS),
)
FAULTS: Final = (
    st.tuples(st.just("double"), INDEX, st.integers(1, 6)),
    st.tuples(st.just("lose"), INDEX),
)
RARE: Final = st.one_of(
    st.tuples(st.just("split"), INDEX, st.integers(1, 3000)),
    st.tuples(st.just("cut"), ENDS),
    st.tuples(st.just("restart"), ENDS),
    st.tuples(st.just("mend")),
    st.tuples(st.just("mend")),
)


def perform(network: Network, step: tuple[Any, ...]) -> None:
    """Performs one event of a network."""
    match step:
        case ("send" | "write", name, number):
            getattr(network, step[0])(name, number)
        case ("ack" | "pause" | "go_on" | "overdue" | "cut", name):
            getattr(network.links[name], step[0])()
        case ("restart", name):
            network.restart(name)
        case ("mend",):
            network.learn()
            for link in network.links.values():
                link.linked()
        case ("arrive" | "double", index, count):
            for _ in range(count):
                if network.air:
                    network.arrive(index % len(network.air), stays=step[0] == "double")
        case _ if not network.air:
            pass
        case ("lose", index):
            del network.air[index % len(network.air)]
        case ("split", index, at):
            network.split(index % len(network.air), at)


@settings(max_examples=50)
@given(LIMITS, st.lists(st.one_of(*OWNERS, *FAULTS), min_size=40, max_size=120))
def test_each_frame_comes_once_and_in_order_whatever_the_network_does(
    limits: Limits, steps: list[tuple[Any, ...]]
) -> None:
    network = Network(limits)
    for step in [("mend",), *steps]:
        perform(network, step)
    network.settle()


@settings(max_examples=50)
@given(LIMITS, st.lists(st.one_of(*OWNERS, *FAULTS, RARE), min_size=40, max_size=120))
def test_nothing_of_a_dead_epoch_comes_and_what_is_split_is_refused(
    limits: Limits, steps: list[tuple[Any, ...]]
) -> None:
    network = Network(limits)
    for step in [("mend",), *steps]:
        perform(network, step)
    network.settle()


@settings(max_examples=50)
@given(
    LIMITS,
    st.lists(
        st.one_of(SEND, SEND, WRITE, WRITE, ARRIVE, ARRIVE, st.tuples(st.just("cut"))),
        min_size=40,
        max_size=160,
    ),
)
def test_a_network_that_is_only_cut_needs_no_owner_with_a_clock(
    limits: Limits, steps: list[tuple[Any, ...]]
) -> None:
    """As a WebSocket: packets keep their order, or all are lost. Nobody asks for an
    acknowledgement, and nothing is overdue."""
    network = Network(limits)
    for step in [("cut",), *steps, ("cut",)]:
        if step == ("cut",):
            network.air.clear()
            for link in network.links.values():
                link.cut()
                link.linked()
        elif step[0] == "arrive":
            perform(network, ("arrive", 0, step[2]))
        else:
            perform(network, step)
    network.settle(lossy=False)


@pytest.mark.parametrize("patience", [1, 3, 50])
def test_all_comes_over_a_slow_network_that_loses_a_fifth(patience: int) -> None:
    """A packet takes 10 ticks, and owners are impatient: also where no answer can have come yet,
    their links get on."""
    chance = random.Random(patience)  # noqa: S311
    ends = {"a": Link("e", SMALL), "b": Link("e", SMALL)}
    sent = {name: [b"%d" % number * 50 for number in range(40)] for name in ends}
    left = {name: list(reversed(frames)) for name, frames in sent.items()}
    got: dict[str, list[bytes]] = {"a": [], "b": []}
    air: list[tuple[int, str, bytes]] = []
    for end in ends.values():
        end.linked()
    for now in range(6000):
        for name, end in ends.items():
            while left[name] and not end.full:
                end.send(left[name].pop())
            packets = [packet for packet in written(end) if chance.random() > 0.2]
            if now % patience == 0 and end.waits:
                end.overdue()
            if now % 5 == 0:
                end.ack()
            air += [(now + 10 + chance.randrange(3), OTHER[name], one) for one in packets]
        for at, name, packet in [one for one in air if one[0] <= now]:
            got[name] += ends[name].received(packet)
            air.remove((at, name, packet))
        if not any(end.waits for end in ends.values()):
            break
    assert got == {"a": sent["b"], "b": sent["a"]}
