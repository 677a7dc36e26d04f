"""Differences, ratios and shares of every statistic: right estimates, right errors, from files."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from numpy.typing import NDArray
from some_cases import long

import counton
from counton import ZCDP, Counter, PureDP
from counton.base.errors import InvalidInputError
from counton.continual import StepRelease
from counton.continual.formulas import Estimate, Formula, PairEstimate, difference, shifted_ratio
from counton.results.questions import n_comparisons, number_of
from counton.results.release import Release as Released
from counton.statistics import (
    Average,
    Contingency,
    Degrees,
    Distinct,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Statistic,
    TopK,
)
from counton.statistics.results import StatisticResult, result_of_release
from counton.strategies import Binary
from counton.tables import Tree

STEPS = 15
LOSS = ZCDP(0.01)


def cells_of(statistic: Statistic, each: NDArray[Any]) -> list[Any]:
    """Readings after each step of cells that change by ``each`` in every step."""
    counter = Counter(
        Binary(STEPS), LOSS, key=chosen_key(), name="t", shape=statistic.cells,
        contribution=statistic.contribution(batched=True),
    )  # fmt: skip
    changes = np.broadcast_to(each, (STEPS, *statistic.cells)).astype(np.int64)
    found = counter.release_many(changes)
    stds = counter.design.errors.std(range(1, STEPS + 1))
    return [
        result_of_release(statistic, StepRelease(step, value, float(std), counter.design))
        for step, (value, std) in enumerate(zip(found.values, stds, strict=True), 1)
    ]


TREE = [("x", "a"), ("x", "b"), ("y", "c"), ("y", "d"), ("y", "e")]
READ: dict[str, tuple[Statistic, dict[str | None, Any]]] = {
    "average": (Average(0, 60, resolution=1), {None: "mean", "sum": "sum", "count": "count"}),
    "moments": (
        Moments({"p": (0, 8), "q": (-2, 2)}),
        {
            "count": "count", "mean p": ("mean", "p"), "variance q": ("variance", "q"),
            "covariance p q": ("covariance", "p", "q"),
        },
    ),
    "hierarchy": (
        Hierarchy(
            Tree.from_leaves(
                {"state": [one for one, _ in TREE], "town": [one for _, one in TREE]},
                ["state", "town"],
            )
        ),
        {None: (), "x": "x", "y": "y", "y/d": ("y", "d"), "x/b": ("x", "b")},
    ),
    "contingency": (
        Contingency({"c": ["r", "g"], "s": ["1", "2", "3"]}),
        {None: None, "r/*": ("r", None), "*/2": (None, "2"), "g/3": ("g", "3")},
    ),
    "ranges": (Ranges(8), {None: (None, None), "2:5": (2, 5), "7:8": (7, None)}),
    "degrees": (Degrees(5), {"3": 3}),
    "top-k": (TopK(["a", "b", "c"], 2), {"b": "b"}),
    "distinct": (Distinct(), {None: "users"}),
}  # fmt: skip


def settled(kind: str) -> tuple[Statistic, dict[str | None, Any]]:
    statistic, names = READ[kind]
    return statistic.resolve_parameters(LOSS, STEPS), names


@pytest.mark.parametrize("kind", READ)
def test_formula_equals_number_of_result(kind: str) -> None:
    statistic, names = settled(kind)
    rng = np.random.default_rng(3)
    each = rng.integers(40_000, 80_000, statistic.cells or None)
    if kind == "moments":  # sums of rows, in units of one over the squared grid
        points = rng.integers(0, 257, (900, 2))
        said = points[:, 0] * 257 + points[:, 1]
        sums = np.zeros((1, statistic.cells[0]), np.int64)
        for place, amount in statistic.entries(said):  # type: ignore[attr-defined]
            sums[0, place] += np.sum(amount) if np.ndim(amount) else amount * len(points)
        each = statistic.measure(sums)[0]  # type: ignore[attr-defined]
    readings = cells_of(statistic, np.asarray(each))
    for reading in (readings[6], readings[13].since(readings[6])):
        assert isinstance(reading, StatisticResult)
        for name, own in names.items():
            number = reading.number_of(name)
            assert number.value == reading[own] == reading.number_of(own).value, name
            low, high = reading.interval(own, 0.95)
            assert number.interval(0.95) == (low, high), name
            # To be added to others, it follows from cells: with the same number and error.
            found = number.formula
            assert found is not None
            assert found.value == pytest.approx(reading[own], rel=1e-9, abs=1e-9), name
            assert found.std == pytest.approx(reading.std(own), rel=1e-6), name
            least, most = found.interval(0.95)
            # As wide as the reading's own, but for what each allows beyond the first order.
            assert most - least == pytest.approx(high - low, rel=0.1), (kind, name)
    with pytest.raises(InvalidInputError):
        readings[0].number_of("nothing")


def test_quantiles_are_sets() -> None:
    statistic = Quantiles(lower=0, upper=16, cells=16).resolve_parameters(LOSS, STEPS)
    readings = cells_of(statistic, statistic.measure(np.arange(1, 17)[None] * 90)[0])
    one = readings[6].number_of("0.9")
    other = readings[6].number_of()
    found = difference(one, other)
    low, high = readings[6].quantile(0.9, 0.975)[2:]
    least, most = readings[6].median(0.975)[2:]
    assert isinstance(found, PairEstimate)
    assert found.interval(0.95) == (low - most, high - least)
    assert found.value == one.value - other.value
    assert math.isnan(found.std)
    assert shifted_ratio(one, other).interval(0.95) == (low / most, high / least)
    nothing = shifted_ratio(one, Formula(0.0)).interval(0.95)
    assert nothing == (-math.inf, math.inf)


def test_formulas_of_groups_have_cells_of_their_own() -> None:
    both = Grouped(Average(0, 60, resolution=1), ["a", "b", "c"])
    reading = cells_of(both, np.array([[30, 30]] * 3) * 1000)[-1]
    parts = [
        {part.cell for quotient, _ in formula.quotients for one, _ in quotient.below.sums
         for part in one.parts}
        for formula in (reading.of(group).number_of().formula for group in "abc")
    ]  # fmt: skip
    assert parts == [{0, 1}, {2, 3}, {4, 5}]


# ---------------------------------------------------------------- intervals hold as often as said

KEYS = 200
LEVEL = 0.9
#: Three standard deviations of how many of so many intervals hold.
BAND = 3 * math.sqrt(LEVEL * (1 - LEVEL) / KEYS)


def held(asked: Estimate, truth: float) -> bool:
    low, high = asked.interval(LEVEL)
    return low <= truth <= high


@pytest.mark.parametrize("kind", ["weeks", *(long(one) for one in ("groups", "ratio"))])
def test_intervals_of_averages_have_stated_coverage(kind: str) -> None:
    # Pairs of groups, whose noise is as independent as that of so many keys.
    names = [f"{side}{key}" for key in range(KEYS) for side in "ab"]
    paid = Grouped(Average(0, 60, resolution=1), names)
    found = cells_of(paid, np.tile(np.array([[20, 40], [40, 20]]) * 900, (KEYS, 1)))
    week = found[13].since(found[6])
    inside: list[bool] = []
    apart: list[bool] = []
    for key in range(KEYS):
        before = found[6].of(f"a{key}")
        after = week.of(f"a{key}")
        now = after.number_of()
        then = before.number_of()
        other = found[6].of(f"b{key}").number_of()
        if kind == "groups":
            inside.append(held(difference(now, other), -20))
        else:
            pair = difference(now, then) if kind == "weeks" else shifted_ratio(now, then)
            inside.append(held(pair, 0 if kind == "weeks" else 1))
        # Wrong: as if both weeks had noise of their own.
        spread = 1.645 * math.hypot(after.std("mean"), before.std("mean"))
        apart.append(abs(now.value - then.value) <= spread)
    assert abs(float(np.mean(inside)) - LEVEL) < BAND
    assert float(np.mean(apart)) < LEVEL - BAND


# ---------------------------------------------------------------- from runs and files

ROWS = {
    "time": [f"2024-03-0{day}T1{hour}:00" for day in (1, 2, 3) for hour in range(8)],
    "page": ["home", "shop"] * 12,
    "paid": [float(number % 7) for number in range(24)],
    "again": [float(number % 5) for number in range(24)],
}


def run_of(what: Any, folder: Path, name: str, **options: Any) -> Released:
    return counton.release(
        what, pl.DataFrame(ROWS), time="time", every="1d", start="2024-03-01", windows=30,
        until="2024-03-04", guarantee=PureDP(1), state=str(folder / f"{name}.db"), stream=name,
        output=str(folder / f"{name}.parquet"), **options,
    )  # fmt: skip


def test_comparisons_from_file_equal_run_and_combine_streams(tmp_path: Path) -> None:
    bounds = {"value": "paid", "lower": 0, "upper": 9, "resolution": 1}
    paid = {**bounds, "group_by": "page", "groups": ["home", "shop"]}
    own, other = (run_of("average", tmp_path, name, **paid) for name in ("one", "two"))
    file = counton.read(tmp_path / "one.parquet")
    day = "2024-03-02"
    days = "2024-03-02:2024-03-03"
    assert file.difference("home", "shop", of="mean", steps=days) == own.difference(
        "home", "shop", of="mean", steps=days
    )
    weeks = file.change("home", "home", of="count", steps=days, other_steps="1:1")
    assert weeks.what == (
        "count of home (2 March to 3 March 2024) against count of home (1 March 2024), in per cent"
    )
    assert file.share("home", of="sum").what == "sum of home, of all groups"
    both = file.combine({"home": 1.0, "shop": -1.0}, of="mean", steps=day)
    assert both.interval() == file.difference("home", "shop", of="mean", steps=day).interval()
    beside = own.difference("home", "home", of="count", other_release=other)
    assert beside.what == "count of home of one minus count of home of two"
    alone = [number_of(one.numbers, "home", None, "count").std for one in (own, other)]
    assert beside.std == pytest.approx(math.hypot(*alone))
    with pytest.raises(InvalidInputError, match="whose noise is the same"):
        own.difference("home", "home", of="count", other_release=file)
    comparisons: Any = (own.difference, own.ratio, own.change)
    for compare in comparisons:
        with pytest.raises(TypeError, match=rf"^Release.{compare.__name__}\(\) .*'step'"):
            compare("home", "shop", step="1:2")  # a mistyped option is not left out
    of_groups = {"lower": 0, "upper": 8, "cells": 8, "group_by": "page", "groups": ["home", "shop"]}
    found = run_of("quantiles", tmp_path, "q", value="paid", **of_groups)
    with pytest.raises(InvalidInputError, match="not the sum of its values"):
        number_of(found.numbers, ["home", "shop"], None, "0.5")
    alike = run_of("average", tmp_path, "plain", **bounds)
    assert alike.difference("mean", "mean", steps="2:2", other_steps="1:1").what == (
        "mean (2 March 2024) minus mean (1 March 2024)"
    )
    with pytest.raises(InvalidInputError, match="has no groups: give 'mean'"):
        alike.difference("home", "all", of="mean")


def test_comparison_in_top_k_holds_for_all_pairs(tmp_path: Path) -> None:
    shown = run_of("top-k", tmp_path, "top", group_by="page", groups=["home", "shop", "far"], top=2)
    assert n_comparisons(shown.numbers) == 3
    found = shown.difference("home", "far")
    asked = difference(number_of(shown.numbers, "home"), number_of(shown.numbers, "far"))
    assert found.interval() == asked.interval(1 - (1 - 0.95) / 3)
    assert shown.share("home").what == "home, of all groups"


def test_report_numbers_with_common_cells_share_noise(tmp_path: Path) -> None:
    paid = {"statistic": "average", "value": "paid", "lower": 0, "upper": 9, "resolution": 1}
    grouped = run_of(
        "report", tmp_path, "grouped", group_by="page", groups=["home", "shop"],
        statistics={"rows": {"statistic": "count"}, "paid": paid},
    )  # fmt: skip
    rows = grouped.part("rows")  # follows from the cells of the average
    home = number_of(rows.numbers, "home")
    shop = number_of(rows.numbers, "shop")
    assert rows.difference("home", "shop").std == pytest.approx(math.hypot(home.std, shop.std))
    same = grouped.difference("home", "home", of="rows", steps="2:3", other_steps="2:3")
    assert (same.std, same.lower, same.upper) == (0, 0, 0)
    window = number_of(grouped.numbers, "home", "2:3", "rows").formula
    assert window is not None
    assert {part.start for one, _ in window.sums for part in one.parts} == {1}
    alike = run_of(
        "report", tmp_path, "alike",
        statistics={"paid": paid, "again": {**paid, "value": "again"}},
    )  # fmt: skip
    both = [number_of(alike.numbers, f"{name} sum").std for name in ("paid", "again")]
    apart = alike.difference("paid sum", "again sum")
    assert apart.std == pytest.approx(math.hypot(*both))
    for beside in (alike.part("paid"), alike.part("again")):  # never taken for another stream
        with pytest.raises(InvalidInputError, match="whose noise is the same"):
            alike.difference("paid sum", "sum", other_release=beside)
        with pytest.raises(InvalidInputError, match="whose noise is the same"):
            alike.part("paid").difference("sum", "sum", other_release=beside)
