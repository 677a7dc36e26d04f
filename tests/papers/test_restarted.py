"""The restarted counter: its loss by age and its error, against enumeration."""

import math

import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from papers.expiration.restarts import RestartedCounter


def loss_of(place: int, age: int, habit: RestartedCounter) -> float:
    """Add up the nodes and the sums of the past that hold an item and that were released."""
    used = set()
    later = 0
    for step in range(place, place + age + 1):
        within = (step - 1) % habit.window + 1
        if within == 1 and step > place:
            later += 1  # the round begins with one release of all earlier items
        if (step - 1) // habit.window == (place - 1) // habit.window:
            start = 0
            for level in reversed(range(habit.height)):
                if within >> level & 1:  # the release reads items start + 1 .. start + 2^level
                    if start < (place - 1) % habit.window + 1 <= start + (1 << level):
                        used.add((level, start))
                    start += 1 << level
    return len(used) * habit.current / habit.height + later * habit.past


@pytest.mark.parametrize("window", [1, 3, 7, 10, 15, 24])
def test_loss_by_age_is_the_worst_over_all_places(window: int) -> None:
    habit = RestartedCounter(window, current=0.7, past=0.09)
    ages = range(60)
    worst = [max(loss_of(p, age, habit) for p in range(1, window + 1)) for age in ages]
    assert habit.loss(ages) == pytest.approx(worst)


@pytest.mark.parametrize(("window", "steps"), [(7, 50), (24, 100), (127, 90), (1, 5)])
def test_mean_variance_is_that_of_the_enumerated_releases(window: int, steps: int) -> None:
    habit = RestartedCounter(window, current=0.7, past=0.09)
    scale = habit.height / 0.7
    variances = [
        2 * scale**2 * ((t - 1) % window + 1).bit_count() + (2 / 0.09**2 if t > window else 0)
        for t in range(1, steps + 1)
    ]
    assert habit.mean_variance(steps) == pytest.approx(np.mean(variances))


def test_loss_becomes_linear_in_age() -> None:
    habit = RestartedCounter(127, current=0.7387, past=0.07387)
    last = habit.loss([10**6, 10**6 + 127 * 1000])
    assert last[1] - last[0] == pytest.approx(1000 * 0.07387)


def test_best_restarted_counter_meets_targets_with_least_variance() -> None:
    targets = {24: 1.0, 8760: 3.0}
    best = RestartedCounter.best(targets, 8760)
    assert (best.loss([24, 8760]) <= np.array([1, 3]) * (1 + 1e-12)).all()
    for window in (31, 255, 2047, 8760):
        for share in (0.01, 0.1, 1.0):
            other = RestartedCounter(window, 1.0, share)
            factor = min(1 / other.loss([24])[0], 3 / other.loss([8760])[0])
            scaled = RestartedCounter(window, factor, share * factor)
            assert scaled.mean_variance(8760) >= best.mean_variance(8760) * 0.98


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((0, 1, 1), "window is 0"), ((7, 0, 1), "current is 0"), ((7, 1, math.nan), "past is nan")],
)
def test_bad_input_is_refused(arguments: tuple[int, float, float], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        RestartedCounter(*arguments)
