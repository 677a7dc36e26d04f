"""Alarms of revised windows as a plan has them: noise and delay are those of final windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import watch
from counton.job.job import Job
from counton.job.jobfile import AlarmTerms
from counton.numbers import Counter
from counton.released.alarms import mean_delay
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.released.revisions import Revisions
from counton.released.watching import chart_for
from counton.run.job_alarms import planned_alarms
from counton.run.new_stream import define, design_of

#: Windows of ten days have no season, so that few of them tell a level.
TOLD: dict[str, Any] = {"time": "at", "every": "10d", "start": "2024-03-01", "epsilon": 0.5}
#: Shares of a window's rows by the number of windows after which they come.
DELAYS = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
LAGS, STEPS, BEFORE, MEAN, RUNS = len(DELAYS) - 1, 300, 150, 10, 80


def job(**more: Any) -> Job:
    return Job("count", "visits.csv", "visits.db", **{**TOLD, "revise": "40d", **more})


def nights(revised: Job, arrivals: np.ndarray[Any, Any], number: int) -> Release:
    """What a stream released by its last night, with noise of its own.

    Args:
        revised: the job.
        arrivals: rows by night and lag.
        number: of the key.
    """
    definition = define(revised)
    design: Any = design_of(definition, definition.shape, f"visits {number}")
    counter = Counter.of(design, chosen_key())
    found = counter.release_many(arrivals.reshape(len(arrivals), *design.step_shape))
    revisions = Revisions(design, np.asarray(found.values).reshape(len(arrivals), 1, -1))
    terms, last = revisions.design_at(len(arrivals)), len(arrivals)
    described = replace(definition, strategy=terms.strategy)
    made = ReleasedNumbers.of(described, terms, revisions.newest(last), 0.95)
    return Release(replace(made, revisions=revisions))


@pytest.mark.parametrize("over", [None, "30d"])
def test_a_planned_delay_is_that_of_releases_that_are_watched_each_night(over: str | None) -> None:
    """More rows in each window from one on, of which late ones come later.

    Each night's release is watched; what was known then is all that the alarm may know.
    """
    change, after, revised = 12, 60, job(steps=STEPS)
    terms = AlarmTerms(false_alarms=0.5, over=over, change=change)
    (planned,) = planned_alarms(revised, terms, define(revised), 0, STEPS * MEAN)
    assert (planned.spread, planned.final_after) == (MEAN, LAGS)
    assert planned.delay is not None
    rng, delays = np.random.default_rng(3), []
    for number in range(RUNS):
        rows = rng.poisson(MEAN + np.where(np.arange(BEFORE + after) < BEFORE, 0, change))
        by_window = np.array([rng.multinomial(each, DELAYS) for each in rows])
        arrivals = np.zeros_like(by_window)  # by night: of its own window, and of earlier ones
        for lag in range(LAGS + 1):
            arrivals[lag:, lag] = by_window[: len(rows) - lag, lag]
        whole = nights(revised, arrivals, number)
        for night in range(BEFORE + LAGS + 1, BEFORE + after + 1):
            if watch(whole.as_of(night), false_alarms=0.5, over=over).newest:
                delays.append(night - BEFORE)
                break
    assert len(delays) == RUNS
    error = np.std(delays) / np.sqrt(RUNS)
    stated = planned.delay + planned.final_after
    assert stated == pytest.approx(np.mean(delays), abs=4 * error)
    # Neither without the windows until one is final, nor with the noise of its first version.
    assert planned.delay < np.mean(delays) - 8 * error
    design: Any = design_of(define(revised), ())
    first = Revisions(design, np.zeros((1, 1, LAGS + 1))).covariance[0, 0]
    chart = chart_for(0.5, over, "10d", 1)
    sooner = mean_delay(change, np.full(STEPS, first), MEAN, chart, after=BEFORE)
    assert sooner is not None
    assert sooner + LAGS < np.mean(delays) - 4 * error


def test_a_watched_release_states_the_delay_of_final_windows() -> None:
    """The newest windows have other noise, and more windows follow than are released."""
    rng, windows = np.random.default_rng(4), 60
    whole = nights(job(steps=STEPS), np.tile(rng.poisson(20, (windows, 1)), LAGS + 1), 0)
    found = watch(whole, false_alarms=0.5, change=30)
    ((size, delay),) = found.of_change.values()
    (alarms,) = found.alarms.values()
    final = 0.0
    if (revisions := whole.numbers.revisions) is not None:
        final = revisions.covariance[LAGS, LAGS]
    noise, spread = np.full(windows + 200, final), max(alarms.std**2 - final, 0.0)
    expected = mean_delay(30, noise, spread, found.chart, after=windows - LAGS)
    assert size == 30
    assert delay is not None
    assert delay == pytest.approx(expected, rel=0.02)
    said = found.describe()
    assert f"after {delay:.1f} final windows on the average" in said
    assert f"is final 4 windows after its end, so the alarm comes after {delay + 4:.1f}" in said


@pytest.mark.parametrize(
    ("more", "alarm", "found"),
    [
        ({"steps": 18}, {"change": 12}, [None]),  # 14 are final, from which a level is learnt
        ({"steps": 300}, {"over": "2970d"}, []),  # 297 of 296 final windows
        ({"steps": 300}, {"over": "2960d"}, [None]),
    ],
)
def test_windows_that_are_never_final_have_no_alarm(
    more: dict[str, Any], alarm: dict[str, Any], found: list[None]
) -> None:
    revised = job(**more)
    planned = planned_alarms(
        revised, AlarmTerms(**{"false_alarms": 0.5, **alarm}), define(revised), 0
    )
    assert [one.delay for one in planned] == found


def test_sizes_need_a_number_of_windows() -> None:
    terms = AlarmTerms(false_alarms=0.5, change=12)
    spreads = []
    for more in ({}, {"steps": 50}):
        revised = job(**more)
        (one,) = planned_alarms(revised, terms, define(revised), 5, 1000)
        spreads.append(one.spread)
    assert spreads == [0, 20]


def test_more_delay_of_windows_has_more_noise_and_a_later_alarm() -> None:
    found = []
    for revise in ("10d", "40d", "160d"):
        revised = job(revise=revise)
        (one,) = planned_alarms(revised, AlarmTerms(change=40), define(revised), 0)
        assert one.delay is not None
        found.append((one.std, one.delay, one.final_after))
    assert [*map(list, zip(*found, strict=True))] == [
        sorted(each) for each in zip(*found, strict=True)
    ]
    assert [each[2] for each in found] == [1, 4, 16]
