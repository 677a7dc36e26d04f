"""Moments of bounded columns: what a row moves, what is read, and how often intervals hold."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, check_sensitivity
from numpy.typing import NDArray
from started import started

from counton import ZCDP, Moments, PureDP
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.continual import StepRelease
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.moments import MomentsResult
from counton.statistics.results import result_of_release
from counton.strategies import Binary

Rows = Sequence[tuple[float, ...]]
TWO = Moments({"x": (-1, 3), "y": (0, 8)}, grid=8)


def neighbours(values: list[tuple[float, ...]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """One row, or none, in one of two steps."""
    for row in values:
        for step in range(2):
            empty: list[Any] = [[], []]
            yield [[row] if s == step else [] for s in range(2)], empty


@pytest.mark.parametrize(
    ("columns", "grid"), [(1, 1), (1, 2), (1, 3), (1, 8), (2, 3), (2, 4), (3, 2), (3, 3)]
)
def test_no_row_moves_more_than_claimed(columns: int, grid: int) -> None:
    """All rows there are on the grid; both norms are attained, of one column by some grid."""
    statistic = Moments({f"c{j}": (0, grid) for j in range(columns)}, grid=grid)
    rows = [*itertools.product(range(grid + 1), repeat=columns)]
    ratios = check_sensitivity(
        statistic, 2, neighbours([tuple(map(float, row)) for row in rows]), batched=True, slack=1
    )
    assert len(ratios) == 5
    moved = np.array([changes_of(statistic, [[row], []])[0] for row in rows])
    bounded = statistic.contribution().pattern
    assert bounded is not None
    assert np.abs(moved).sum(axis=1).max() == bounded.l1  # type: ignore[union-attr]
    assert (moved**2).sum(axis=1).max() == bounded.l2_squared  # type: ignore[union-attr]


def truth(statistic: Moments, rows: Rows) -> dict[Any, float]:
    """From the rows themselves."""
    table = np.array(rows, float)
    found: dict[Any, float] = {"count": float(len(rows))}
    spread = np.atleast_2d(np.cov(table.T, bias=True))
    for j, name in enumerate(statistic.names):
        found["mean", name] = float(table[:, j].mean())
        found["variance", name] = float(spread[j, j])
        for k, other in enumerate(statistic.names):
            if j < k:
                found["covariance", name, other] = float(spread[j, k])
    return found


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_moments_equal_those_of_rows_with_little_noise(columns: int) -> None:
    rng = np.random.default_rng(columns)
    names = ("x", "y", "z")[:columns]
    statistic = Moments(dict.fromkeys(names, (-2, 6)), grid=16)
    rows = [tuple(row) for row in (rng.integers(-4, 13, (40, columns)) / 2).tolist()]
    running = started(statistic, 2, PureDP(10**6), batched=True)
    running.release_batch(rows[:15])
    reading = running.release_batch(rows[15:])
    for name, true in truth(statistic, rows).items():
        assert reading[name] == pytest.approx(true, abs=1e-4), name
        low, high = reading.interval(name)
        assert low - 1e-9 <= true <= high + 1e-9
        assert high - low < 0.02
    assert reading.table_columns()["measure"].tolist()[0] == "count"


def test_values_are_clipped_and_put_on_the_grid() -> None:
    inside = changes_of(TWO, [[(3.0, 0.0)], [(0.5, 4.0)], []])
    outside = changes_of(TWO, [[(99.0, -3.0)], [(0.6, 4.4)], []])
    assert (inside == outside).all()
    # In units of 1/64: number, x, y, what squares lack, and the product.
    assert inside.tolist() == [[64, 64, -64, 0, 0, -64], [64, -16, 0, 60, 64, 0], [0] * 6]
    assert (changes_of(TWO, [np.array([[3.0, 0.0]]).tolist()])[0] == inside[0]).all()
    again = statistic_from_dict(statistic_to_dict(Moments({"x": ("0.1", 1)}, unit="sale")))
    assert again.number_names[:2] == ["count", "mean x"]


def test_deviations_are_those_of_the_derivatives() -> None:
    """By differences of the released sums."""
    rng = np.random.default_rng(4)
    rows = [tuple(row) for row in np.column_stack([rng.uniform(-1, 3, 60), rng.uniform(0, 8, 60)])]
    running = started(TWO, 1, ZCDP(10**4), batched=True)
    reading = running.release_batch(rows)
    assert isinstance(reading, MomentsResult)
    exact = np.ravel(reading.release.value).astype(float)
    for name in truth(TWO, rows):
        slopes = []
        for cell in range(6):
            values = []
            for moved in (1e-3, -1e-3):
                sums = exact.copy()
                sums[cell] += moved * TWO.grid**2
                other: Any = result_of_release(
                    TWO,
                    StepRelease(reading.step, sums, reading.release.std, reading.release._design),
                )
                values.append(other[name])
            slopes.append((values[0] - values[1]) / 2e-3)
        expected = reading.release.std / TWO.grid**2 * float(np.linalg.norm(slopes))
        assert reading.std(name) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_moments_with_wide_noise_stay_in_range() -> None:
    running = started(TWO, 2, ZCDP("1/1000"), batched=True)
    reading = running.release_batch([])
    assert isinstance(reading, MomentsResult)
    assert reading.interval(("mean", "x")) == (-1, 3)
    assert reading.interval(("variance", "y")) == (0, 16)
    assert reading.interval(("covariance", "x", "y")) == (-8, 8)
    table = reading.table_columns()
    assert len(table["measure"]) == 1 + 2 + 2 + 1
    assert -1 <= reading["mean", "x"] <= 3
    assert reading.std(("mean", "x")) > 0


def test_moment_intervals_share_their_failure_probability() -> None:
    terms = started(TWO, 1, ZCDP(1), batched=True).design
    released = np.array([50, 1, 2, 30, 20, 4.0]) * TWO.grid**2
    std = 0.05 * TWO.grid**2  # 1,000 of them are 50 rows
    for name, lines in {
        ("mean", "x"): 0, ("variance", "x"): 1, ("covariance", "x", "y"): 2,
    }.items():  # fmt: skip
        reading: Any = result_of_release(TWO, StepRelease(1, released, std, terms))
        asked = list[float]()
        reading._unit_halfwidth = lambda fails, asked=asked: asked.append(fails) or 0.1
        reading.interval(name, 0.9)
        if not lines:
            assert pytest.approx(max(asked)) == 0.1
            continue
        number, means, own = asked
        assert number + lines * means + own == pytest.approx(0.1)
    sharp: Any
    wide: Any
    sharp, wide = (result_of_release(TWO, StepRelease(1, released, std, terms)) for _ in range(2))
    assert wide._unit_halfwidth(1e-11) >= wide._unit_halfwidth(3e-9) > sharp._unit_halfwidth(1e-3)


def weights_where_zero(name: Any, means: dict[str, float], value: float) -> NDArray[Any]:
    """Weights of the sum of cells that is 0 where a number has this value, in units of a row."""
    x = means["x"]
    y = means["y"]
    own = {"x": (x, 1, 3), "y": (y, 2, 4)}
    found = np.zeros(6)
    if name[0] == "mean":
        found[[0, own[name[1]][1]]] = -value, 1
    elif name[0] == "variance":
        mean, line, square = own[name[1]]
        found[[0, line, square]] = 1 + mean**2 - value, -2 * mean, -1
    elif name[0] == "covariance":
        found[:] = x * y - value, -y, -x, 0, 0, 1
    else:
        (of, of_line, _), (on, on_line, on_square) = own[name[1]], own[name[2]]
        found[[0, 5]] = of * on - value * (1 + on**2), 1
        found[[on_line, of_line, on_square]] = 2 * value * on - of, -on, value
    return found


def test_moment_intervals_hold_for_extreme_noise() -> None:
    """Noise that is as large as it may be in each sum that matters, of all signs, to the end."""
    rng = np.random.default_rng(3)
    level = 0.9
    nearest = dict[str, float]()
    terms = started(TWO, 1, ZCDP(1), batched=True).design
    numbers: tuple[Any, ...] = (
        *(("mean", "x"), ("variance", "x"), ("variance", "y"), ("covariance", "x", "y")),
    )
    for number in range(60):
        count = int(rng.integers(2, 40))
        places = np.stack(
            [rng.permutation(9)[rng.integers(0, 2 + number % 7, count)] for _ in "xy"]
        )
        a = places / 4 - 1  # from -1 to 1
        if (a.std(axis=1) == 0).any():
            continue
        sums = np.array([count, *a.sum(axis=1), *(1 - a**2).sum(axis=1), (a[0] * a[1]).sum()])
        means = dict(zip("xy", a.mean(axis=1).tolist(), strict=True))
        spread = np.cov(a, bias=True)
        true: dict[Any, float] = {
            ("mean", "x"): means["x"], ("variance", "x"): spread[0, 0],
            ("variance", "y"): spread[1, 1], ("covariance", "x", "y"): spread[0, 1],
        }  # fmt: skip
        off = count * rng.choice([0.001, 0.05, 0.2])
        far = off * rng.choice([1.0, 1.5, 3.0])
        half = {"x": 2.0, "y": 4.0}
        for name in numbers:
            rows = [weights_where_zero(name, means, true[name])]
            lines = [weights_where_zero(("mean", one), means, means[one]) for one in "xy"]
            if name[0] == "covariance":
                lines = [lines[0] + lines[1], lines[0] - lines[1]]
            rows += lines
            norms = np.linalg.norm(rows, axis=1)
            scale = math.prod(half[one] for one in name[1:])
            if name[0] == "variance":
                scale *= scale
            value = true[name] * scale + (1.0 if name[0] == "mean" else 0.0)
            for signs in itertools.product((-1, 1), repeat=3):
                wanted = np.array([off, far, far]) * norms * signs * (1 - 1e-9)
                if name[0] == "mean":
                    noise = np.array(rows[0]) * signs[0] * off * (1 - 1e-9) / norms[0]
                else:
                    noise = np.linalg.lstsq(np.array(rows), wanted, rcond=None)[0]
                released = (sums + noise) * TWO.grid**2
                reading: Any = result_of_release(TWO, StepRelease(1, released, 1.0, terms))
                reading._unit_halfwidth = lambda fails, o=off, f=far: float(
                    f if fails < 0.03 else o
                )
                low, high = reading.interval(name, level)
                assert low - 1e-9 <= value <= high + 1e-9, (name, signs, low, value, high)
                gap = min(value - low, high - value) / max(high - low, 1e-300)
                nearest[name[0]] = min(gap, nearest.get(name[0], 1.0))
    assert max(nearest.values()) < 1e-2, nearest


@pytest.mark.parametrize(
    ("columns", "more", "why"),
    [
        ({}, {}, "columns are"),
        ({str(j): (0, 1) for j in range(9)}, {}, "1 to 8"),
        ({"x": (1, 1)}, {}, "below the upper"),
        ({"x": (0, 1, 2)}, {}, "give a pair \\(lower, upper\\)"),
        ({"": (0, 1)}, {}, "give it a name"),
        ({"x": (0, math.inf)}, {}, "upper"),
        ({str(j): (0, 1) for j in range(8)}, {}, "62 bits"),
        ({"x": (0, 1)}, {"grid": 0}, "grid"),
    ],
)
def test_bad_columns_are_refused(columns: Any, more: Any, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        Moments(columns, **more)


def test_wrong_rows_change_nothing() -> None:
    running = started(TWO, guarantee=ZCDP(1), strategy=Binary(5), batched=True)
    running.release_batch([(1, 2)])
    saved = running.checkpoint()
    wrong: list[tuple[Any, str]] = [
        ([(1, math.nan)], "finite"),
        ([(1, 2, 3)], "each of the 2 columns"),
        ([1, 2], "each of the 2 columns"),
        (["ab"], "each of the 2 columns"),
        (np.ones((3, 1)), "shape"),
    ]
    for rows, why in wrong:
        with pytest.raises(InvalidInputError, match=why):
            running.release_batch(rows)
    with pytest.raises(SumOverflowError, match="more than can be added"):
        Moments({"x": (0, 1)}, grid=2**16).check_events(np.array([2**30]))
    assert running.checkpoint() == saved
    reading = running.release_batch([(1, 2)])
    for name in (
        "mean",
        ("mean",),
        ("mean", "z"),
        ("covariance", "x", "x"),
        ("slope", "x", "y"),
        3,
        ("count", "x"),
    ):
        with pytest.raises(InvalidInputError):
            reading.interval(name)
