"""How long a further try waits."""

from conductor.transports import backoff


def test_each_pause_is_twice_as_long_up_to_a_bound() -> None:
    assert [backoff.seconds(tries) for tries in range(8)] == [0, 0.25, 0.5, 1, 2, 4, 8, 8]


def test_there_is_a_pause_after_any_number_of_tries() -> None:
    assert backoff.seconds(1_000_000) == 8
