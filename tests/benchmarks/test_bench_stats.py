"""Percentiles, medians, ratios, the line through a row of chains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.stats import fit, median, percentile, ratio

figures = st.lists(st.floats(0, 1e9), min_size=1)


def test_percentile_is_the_nearest_rank() -> None:
    samples = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(samples, share) for share in (0.01, 0.2, 0.21, 0.5, 0.99, 1)] == [
        1.0,
        1.0,
        2.0,
        3.0,
        5.0,
        5.0,
    ]


def test_percentile_of_a_hundred_does_not_slip_a_rank() -> None:
    samples = list(range(1, 101))
    assert [percentile(samples, n / 100) for n in samples] == samples


@given(figures, st.floats(0.001, 1))
def test_percentile_is_a_sample_that_the_share_does_not_exceed(
    samples: list[float], share: float
) -> None:
    found = percentile(samples, share)
    assert found in samples
    assert sum(sample <= found for sample in samples) >= share * len(samples) - 1e-6


@pytest.mark.parametrize("share", [0, -0.1, 1.1])
def test_percentile_refuses_other_shares(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        percentile([1.0], share)


def test_percentile_refuses_nothing() -> None:
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 0.5)


def test_what_is_missing_stays_missing() -> None:
    assert median([]) is None
    assert ratio(None, 1.0) is None
    assert ratio(1.0, None) is None
    assert ratio(1.0, 0.0) is None


def test_median_and_ratio() -> None:
    assert median([9.0, 1.0, 2.0]) == 2.0
    assert ratio(1.0, 4.0) == 0.25


def test_a_straight_row_fits_exactly() -> None:
    line = fit([(0, 10.0), (1, 12.5), (4, 20.0)])
    assert line is not None
    assert (line.base, line.slope, line.r2) == pytest.approx((10.0, 2.5, 1.0))


def test_a_flat_row_fits_too() -> None:
    line = fit([(0, 3.0), (1, 3.0), (2, 3.0)])
    assert line is not None
    assert (line.slope, line.r2) == (0.0, 1.0)


def test_a_bent_row_fits_badly() -> None:
    line = fit([(0, 0.0), (1, 10.0), (2, 0.0), (3, 10.0)])
    assert line is not None
    assert line.r2 < 0.5


@pytest.mark.parametrize("points", [[], [(0, 1.0), (1, 2.0)], [(1, 1.0), (1, 2.0), (1, 3.0)]])
def test_no_line_through_too_little(points: list[tuple[float, float]]) -> None:
    assert fit(points) is None
