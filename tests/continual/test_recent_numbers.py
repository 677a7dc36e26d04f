"""Sums over recent steps, computed from releases: values, noise and coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, Counter, Decayed, PureDP, Rolling, Stack, plan
from counton.base.errors import InvalidInputError
from counton.continual import Releases
from counton.privacy import Guarantee
from counton.strategies import Binary, Independent, StreamStrategy, WindowVersions
from counton.strategies.workloads import RecentWorkload

STEPS = 40
GAUSSIAN = ZCDP(0.5)


def _released(
    strategy: StreamStrategy, cells: int = 3, guarantee: Guarantee = GAUSSIAN
) -> tuple[Releases, np.ndarray[Any, np.dtype[np.int64]]]:
    counts = np.random.default_rng(5).integers(0, 50, (STEPS, cells))
    counter = Counter(strategy, guarantee, key=chosen_key(), name="visits", shape=(cells,))
    return counter.release_many(counts), counts


def _exact(counts: np.ndarray[Any, Any], workload: RecentWorkload, name: str) -> Any:
    part = next(part for part in workload.parts if part.name == name)
    ages = np.subtract.outer(np.arange(len(counts)), np.arange(len(counts)))
    weights = np.where(ages >= 0, part.factor ** np.maximum(ages, 0), 0.0)
    if part.width is not None:
        weights[ages >= part.width] = 0.0
    return weights @ counts


@pytest.mark.parametrize("strategy", [Rolling(7).root(STEPS), Binary(STEPS), Independent(STEPS)],
                         ids=lambda strategy: type(strategy).__name__)  # fmt: skip
def test_rolling_numbers_are_sums_of_released_steps(strategy: StreamStrategy) -> None:
    releases, _ = _released(strategy)
    own = releases.values
    if strategy.facts.release == "totals":
        own = np.diff(own, axis=0, prepend=0)
    stack = Stack([1, 7], totals=1)
    recent = releases.recent(stack)
    assert [*recent.values] == ["last 1", "last 7", "total"]
    for name, values in recent.values.items():
        assert values == pytest.approx(_exact(own, stack, name))
    decayed = releases.recent(Decayed(3))
    assert decayed.values[""] == pytest.approx(_exact(own, Decayed(3), ""))


@pytest.mark.slow
@pytest.mark.parametrize("workload", [Rolling(7), Decayed(4), Stack([1, 7], totals=0.5)], ids=repr)
def test_intervals_cover_as_often_as_stated(workload: RecentWorkload) -> None:
    cells = 4000
    releases, counts = _released(workload.root(STEPS), cells)
    recent = releases.recent(workload)
    for part in workload.parts:
        exact = _exact(counts, workload, part.name)
        errors = recent.values[part.name] - exact
        measured = np.sqrt((errors**2).mean(axis=1))
        # 6 standard errors.
        assert np.abs(measured / recent.std(part.name) - 1).max() < 6 / np.sqrt(2 * cells)
        low, high = recent.interval(0.9, part.name)
        covered = ((low <= exact) & (exact <= high)).mean()
        assert 0.89 <= covered <= 0.93


@pytest.mark.slow
def test_covariances_of_windows_are_those_of_the_noise() -> None:
    cells = 20_000
    workload = Rolling(7)
    releases, counts = _released(workload.root(STEPS), cells)
    errors = releases.values - counts.cumsum(axis=0)
    padded = np.vstack([np.zeros(cells), errors])
    # Overlapping sums, disjoint sums, sums of sums.
    starts, stops = np.array([20, 27, 33, 0, 33]), np.array([27, 34, 40, 40, 34])
    noise = padded[stops] - padded[starts]
    measured = noise @ noise.T / cells
    stated = releases._design.errors.window_covariance(starts, stops)
    scale = np.sqrt(np.outer(np.diagonal(stated), np.diagonal(stated)))
    assert np.abs(measured - stated).max() < (6 * np.sqrt(2 / cells) * scale).max()
    assert np.diagonal(stated) == pytest.approx(
        releases._design.errors.window_std(starts, stops) ** 2
    )
    assert stated == pytest.approx(stated.T)


def test_first_windows_are_incomplete() -> None:
    recent = _released(Rolling(7).root(STEPS))[0].recent(Stack([1, 7], totals=1))
    assert recent.is_complete("last 1").all()
    assert recent.is_complete("total").all()
    assert recent.is_complete("last 7").tolist() == [step >= 7 for step in range(1, STEPS + 1)]


def test_table_has_a_row_for_each_number_step_and_cell() -> None:
    recent = _released(Rolling(7).root(STEPS))[0].recent(Stack([1, 7], totals=1))
    table = recent.table()
    assert table.columns == [
        "window_index", "last_windows", "cell", "estimate", "noise_std", "lower", "upper",
        "confidence_level", "is_complete",
    ]  # fmt: skip
    assert len(table) == 3 * STEPS * 3
    assert table["last_windows"].unique().sort().to_list() == [0, 1, 7]
    row = table.row(3 * STEPS + 3 * 9 + 2, named=True)
    assert (row["window_index"], row["last_windows"], row["cell"]) == (10, 7, 2)
    assert row["estimate"] == recent.values["last 7"][9, 2]
    assert row["lower"] < row["estimate"] < row["upper"]
    assert row["noise_std"] == recent.std("last 7")[9]


def test_intervals_of_single_steps_are_whole_numbers() -> None:
    releases, _ = _released(Independent(STEPS), guarantee=PureDP(1))
    recent = releases.recent(Rolling(2))
    low, high = recent.interval()
    # Of one draw with epsilon = 1, and of the sum of two, at least 95% lie within 3 and 4.
    assert ((high - low)[[0, 1], 0] == [6, 8]).all()
    assert recent.std()[5] == pytest.approx(np.sqrt(2) * recent.std()[0])


def test_refusals_name_the_remedy() -> None:
    counter = Counter(Rolling(3).root(9), ZCDP(0.5), key=chosen_key(), name="visits")
    counter.release(1)
    later = counter.release_many([1, 2])
    with pytest.raises(InvalidInputError, match="from step 1 on"):
        later.recent(Rolling(3))
    with pytest.raises(InvalidInputError, match="give Rolling"):
        later.recent(7)  # type: ignore[arg-type]
    recent = _released(Rolling(3).root(STEPS))[0].recent(Rolling(3))
    for ask in (recent.std, recent.is_complete):
        with pytest.raises(InvalidInputError, match="there is no number 'last 9'"):
            ask("last 9")
    versions = WindowVersions(9, Binary(3))
    several = Counter(versions, ZCDP(0.5), key=chosen_key(), name="late")
    with pytest.raises(InvalidInputError, match="use another strategy"):
        several.release_many(np.zeros((2, 3), np.int64)).recent(Rolling(3))


def test_interval_of_several_decayed_cells_allows_for_rounding_in_each() -> None:
    """Squares of weights add up to 1: rounding errors of 4 cells are at most twice those of 1."""
    workload = Decayed(7)
    errors = plan(60, ZCDP(0.5), workload=workload).best.errors
    factor = workload.parts[0].factor
    assert errors.strategy.facts.fraction_bits
    without_noise = np.zeros(1)
    rounding = errors.decayed_halfwidths(without_noise, factor)
    assert rounding > 0
    assert errors.decayed_halfwidths(without_noise, factor, cells=4) == pytest.approx(2 * rounding)
