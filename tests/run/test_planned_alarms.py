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
from counton.numbers import Counter, Design
from counton.released import watching
from counton.released.alarms import least_windows, mean_delay
from counton.released.release import Release
from counton.released.released_numbers import ReleasedNumbers
from counton.released.revisions import Revisions
from counton.released.watching import alarm_delays, chart_for
from counton.run.job_alarms import planned_alarms
from counton.run.new_stream import define, design_of
from counton.strategies.lines.one_thread import on_one_thread

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
    revisions = Revisions.of(design, np.asarray(found.values).reshape(len(arrivals), 1, -1))
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
    first = Revisions.of(design, np.zeros((1, 1, LAGS + 1))).covariance[0, 0]
    chart = chart_for(0.5, over, "10d", 1)
    sooner = mean_delay(change, np.full(STEPS, first), MEAN, chart, after=BEFORE)
    assert sooner is not None
    assert sooner + LAGS < np.mean(delays) - 4 * error


# ------------------------------------------------------------------------- totals beside windows

#: Most of the budget is for totals; each series is one trial.
SERIES, STEPS_BESIDE = 30, 420
BESIDE: dict[str, Any] = {
    "also_totals": "3/4", "by": "group", "domain": [f"g{one}" for one in range(SERIES)],
}  # fmt: skip


def beside(nights: int, changed: int, change: int) -> tuple[Job, Release]:
    """Return a job with totals beside windows, and what its first nights released.

    Args:
        nights: number of released nights; all rows come on that of their window.
        changed: number of windows before the change.
        change: how many rows each window has more after it.
    """
    made = job(steps=STEPS_BESIDE, **BESIDE)
    rows = np.where(np.arange(nights) < changed, MEAN, MEAN + change)
    arrivals = np.zeros((nights, SERIES, LAGS + 2), np.int64)
    arrivals[..., 0] = np.random.default_rng(5).poisson(rows[:, None], (nights, SERIES))
    arrivals[..., -1] = arrivals[..., 0]
    definition = define(made)
    design: Any = design_of(definition, definition.shape, "beside")
    values = np.asarray(Counter.of(design, chosen_key()).release_many(arrivals).values)
    revisions = Revisions.of(design, values)
    terms, numbers = revisions.read(nights)
    described = replace(definition, strategy=terms.strategy)
    found = ReleasedNumbers.of(described, terms, numbers, 0.95)
    return made, Release(replace(found, revisions=revisions))


def as_if_independent(design: Design, steps: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A mistake: windows have the right variances, and nothing in common."""
    return np.diag(np.asarray(design.errors.window_std(steps - 1, steps) ** 2))


@on_one_thread
def test_numbers_beside_totals_give_as_many_false_alarms_as_stated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    windows, in_a_window = 80, 0.04
    _, found = beside(windows + LAGS, 0, 0)
    expected = in_a_window * SERIES * (windows - least_windows(1))

    def alarms() -> int:
        report = watch(found, false_alarms=in_a_window * SERIES * 36.525)
        return sum(len(one.windows) for one in report.alarms.values())

    error = expected**0.5
    assert alarms() == pytest.approx(expected, abs=3 * error)
    monkeypatch.setattr(watching, "_noise_of_windows", as_if_independent)
    assert alarms() < expected - 3 * error  # of noise that later windows take back


@on_one_thread
def test_a_planned_delay_beside_totals_is_that_of_numbers_read_from_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change, changed, most = 20, 60, 16
    revised, whole = beside(changed + most + LAGS, changed, change)
    delays = dict.fromkeys(BESIDE["domain"], most)
    for after in range(1, most):
        left = [name for name, delay in delays.items() if delay == most]
        if left:
            night = whole.as_of(changed + after + LAGS)
            found = watch(night, left, false_alarms=0.5 * len(left)).alarms
            delays |= {name: after for name in left if changed + after in found[name].windows}

    def planned() -> float:
        chart, definition = chart_for(0.5, None, "10d", 1), define(revised)
        design = design_of(definition, definition.shape)
        (found,) = alarm_delays(design, changed, change, [MEAN], chart, season=1)
        return found or np.inf

    simulated = [*delays.values()]
    error = np.std(simulated) / np.sqrt(SERIES)
    assert planned() == pytest.approx(np.mean(simulated), abs=3 * error)
    monkeypatch.setattr(watching, "_noise_of_windows", as_if_independent)
    assert planned() > np.mean(simulated) + 6 * error


def test_a_plan_has_the_noise_of_numbers_read_from_both() -> None:
    found = []
    for share in (None, "1/2"):
        revised = job(steps=80, also_totals=share)
        (one,) = planned_alarms(revised, AlarmTerms(over="500d"), define(revised), 0)
        found.append(one.std)
    _, whole = beside(80, 0, 0)
    assert found[1] < 0.9 * found[0]
    both: Any = design_of(define(revised), ())
    starts = np.arange(27)
    read = whole.numbers.revisions
    assert read is not None
    terms, _ = replace(read, design=both).read(80)
    of = terms.errors.window_std(starts, starts + 50)
    assert found[1] == pytest.approx(float(np.mean(of**2)) ** 0.5)


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
