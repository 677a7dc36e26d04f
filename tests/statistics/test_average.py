"""Means of clipped values, with a public or a private number of them."""

from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, check_scores, check_sensitivity, one_replaced, scores
from started import started

from counton import ZCDP, Average, ExpiringDP, PureDP
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.continual.tails import sum_tail
from counton.statistics import unit_sensitivity
from counton.strategies import Binary, Expiring, Independent, SqrtToeplitz

HORIZON = 3
VALUES = (-1, 0, 2)


def test_no_value_moves_more_than_claimed() -> None:
    check_sensitivity(Average(-1, 2, 1), HORIZON, one_replaced(VALUES, HORIZON))
    check_sensitivity(Average(-1, 2, 1, number=1), HORIZON, one_replaced(VALUES, HORIZON, VALUES))
    # A centred sum with as heavy a count would move by twice as much, l1.
    assert unit_sensitivity(Average(-1, 2, 1), Binary(1), 1) == 3


def test_values_are_clipped_and_put_on_the_grid() -> None:
    statistic = Average("0.5", 2, "0.5")
    assert changes_of(statistic, [[9, 1.3], [-4], [], [1.2]]).tolist() == [
        [5, 1], [0, 3], [0, 0], [1, 2],
    ]  # fmt: skip
    assert changes_of(Average("0.5", 2, "0.5", number=2), [[9, 1.3]]).tolist() == [[7]]


def test_wrong_values_change_nothing() -> None:
    running = started(
        Average(0, 9, 1, number=2), guarantee=ZCDP(1), strategy=Binary(5), batched=True
    )
    running.release_batch([3, 4])
    saved = running.checkpoint()
    for wrong, why in (
        ([3, np.nan], "finite"),
        ([3], "number of values is 2"),
        ([[3], [4]], "flat list of numbers"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            running.release_batch(wrong)
    assert running.checkpoint() == saved
    with pytest.raises(InvalidInputError, match="'mean', 'sum' or 'count'"):
        running.release_batch([3, 4]).interval("median")


def test_noise_of_average_has_stated_variance() -> None:
    batches: list[list[float]] = [[3, 4.2], [], [-1]]
    check_scores(scores(Average(-2, 5, "0.1"), SqrtToeplitz(3), PureDP("1/8"), batches, 350))


def test_interval_of_average_is_clipped_range_with_wide_noise() -> None:
    running = started(Average(0, 10, 1), 2, ZCDP("1/1000"))
    assert running.release(3).interval("mean") == (0, 10)
    sure = started(Average(0, 10, 1), 9, ZCDP(10**6))
    readings: Any = sure.release_many([2, 4, 9, 7])
    assert readings[1]["mean"] == pytest.approx(3, abs=0.1)
    window = readings[3].since(readings[1])
    assert (round(window["mean"]), round(window["count"]), round(window["sum"])) == (8, 2, 16)
    assert window.interval("mean")[1] < 8.5
    assert window.std("mean") < 0.1
    public = started(Average(0, 10, 1, number=1), 9, ZCDP(10**6), strategy=Binary(9))
    readings = public.release_many([2, 4, 9, 7])
    window = readings[3].since(readings[1])
    assert window["count"] == 2
    assert window["mean"] == pytest.approx(8, abs=0.1)


def test_old_values_may_expire() -> None:
    for statistic in Average(0, 4, 1), Average(0, 4, 1, number=1):
        running = started(statistic, guarantee=ExpiringDP(epsilon=10**4), strategy=Expiring(1))
        readings: Any = running.release_many([1, 2, 3])
        assert readings[2].table_columns()["estimate"].tolist() == [2, 6, 3]


def test_average_with_public_number_releases_single_steps() -> None:
    running = started(
        Average(0, 10, 1, number=2), guarantee=ZCDP(10**6), strategy=Independent(4), batched=True
    )
    for _ in range(3):
        reading: Any = running.release_batch([8, 8])
        assert (reading["count"], round(reading["mean"])) == (2, 8)


def test_sums_that_int64_cannot_hold_are_refused() -> None:
    for number in None, 2**23 + 1:
        running = started(
            Average(0, 2**40, 1, number=number), guarantee=PureDP(9), strategy=Binary(3),
            batched=True,
        )  # fmt: skip
        with pytest.raises(SumOverflowError, match="8,388,609 values"):
            running.release_batch(np.broadcast_to(np.float64(2**40), 2**23 + 1))
        assert running.step == 0


def test_two_cells_of_laplace_noise_are_covered_at_every_level() -> None:
    """Around 0.907 a sum of two draws has wider intervals than one draw, and than a normal law."""
    running = started(
        Average(0, 100, 1), guarantee=PureDP("1/100"), strategy=Binary(7), batched=True
    )
    for step in 1, 2, 3:
        cells = running.release_batch([50]).cells
        tail = sum_tail({running.design.distribution: 2 * (1 if step < 3 else 2)})
        for level in 0.8, 0.9, 0.905, 0.907, 0.909, 0.95, 0.99:
            half = cells.halfwidths(np.array(np.sqrt(2) * cells.std), level)
            assert tail(int(half)) <= 1 - level
            assert half <= 1.1 * np.sqrt(2) * max(cells.halfwidth(level), 1.6 * cells.std)


def test_errors_follow_from_those_of_the_two_cells() -> None:
    """By distances and slopes, without draws: a tenth less is seen."""
    level = 0.9
    normal = 1.64485
    running = started(
        Average(-2, 6, "1/4"), guarantee=ZCDP("1/50"), strategy=Binary(3), batched=True
    )
    reading: Any = running.release_batch([5] * 300 + [0] * 100)
    one, (above, below) = reading.release.std, reading.release.value.tolist()

    def check_half(half: float, std: float) -> None:
        assert normal * std * (1 - 1e-3) <= half <= 1.05 * normal * std

    for name, of_above, of_below in (("count", 1, 1), ("sum", 6, -2)):
        std = one * np.hypot(of_above, of_below) / 32
        low, high = reading.interval(name, level)
        assert reading.std(name) == pytest.approx(std)
        assert (low + high) / 2 == pytest.approx((of_above * above + of_below * below) / 32)
        check_half((high - low) / 2, std)
    for end in reading.interval("mean", level):
        share = (end + 2) / 8
        away = above * (1 - share) - below * share
        check_half(abs(away) / np.hypot(share, 1 - share), one)
    slopes = [
        (8 * (above + x) / (above + below + x + y) - 8 * above / (above + below)) / 1e-3
        for x, y in ((1e-3, 0), (0, 1e-3))
    ]
    assert reading.std("mean") == pytest.approx(one * np.hypot(*slopes), rel=1e-4)
    public = started(
        Average(-2, 6, "1/4", number=4), guarantee=ZCDP("1/50"), strategy=Binary(3), batched=True
    )
    reading = public.release_batch([2, 2, 2, 2])
    low, high = reading.interval("sum", level)
    check_half((high - low) / 2, reading.release.std)
    assert reading.std("mean") == pytest.approx(reading.std("sum") / 4)
