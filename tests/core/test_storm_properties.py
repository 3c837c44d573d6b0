"""After a storm (`tests/harness/world/storm.py`) all are honest, and nobody waits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.world.storm import Storm, Weather
from tests.harness.world.storm_events import calms, step

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(SEEDS, max_size=3),
    st.lists(SEEDS, min_size=20, max_size=80),
    st.sampled_from([1, 1, 1, 2]),
    SEEDS,
    st.booleans(),
)
def test_after_a_storm_nobody_waits_and_each_request_had_one_answer(
    cast: list[int], steps: list[int], version: int, salt: int, moves: bool
) -> None:
    storm = Storm(cast, Weather(version, moves=moves), salt)
    for seed in steps:
        step(storm, seed)
    calms(storm)
    for node in storm.nodes.values():
        if storm.router.peers[node.name].closure is not None:
            continue  # a further agent that has ended
        assert node.asked == {}, (node.name, node.asked)
        assert node.given == {}, (node.name, node.given)
        assert storm.router.waiting_on(node.name) == []
        assert storm.router.pending(node.name) == 0
