"""Intervals hold the truth as often as they say: totals, windows, differences and quarters."""

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from numpy.typing import NDArray
from some_cases import long

from counton import Counter, Job, Release, release
from counton.results.charts import totals_curves
from counton.results.metadata import ReleaseMetadata
from counton.results.release_data import ReleaseData
from counton.results.released_table import last_rows
from counton.results.series_numbers import SeriesNumbers
from counton.results.terminal import screen_of
from counton.run.spec.plan_spec import plan_spec

KEYS = 20
CELLS = 2500
STEPS = 365
LOSSES = {"epsilon": Fraction(1, 20)}, {"rho": Fraction(1, 2000)}
#: Laplace noise, whose sums have other tails than its draws; Gaussian noise is long.
LAPLACE = pytest.mark.parametrize(
    "loss",
    [LOSSES[0], long(LOSSES[1])],
    ids=["laplace", "gaussian"],
)


def asked(release: Any, loss: dict[str, Fraction], *, simple: bool = True) -> ReleaseMetadata:
    request = Job(
        what="count",
        events="e.csv",
        state="state.db",
        time="time",
        every="1d",
        group_by="page",
        groups=[f"g{cell}" for cell in range(CELLS)],
        start="2023-01-01",
        windows=STEPS,
        series=release,
        simple=simple,
        **loss,  # type: ignore[arg-type]
    )
    return plan_spec(request).metadata()


def zeros_released(
    definition: ReleaseMetadata, number: int, levels: tuple[float, ...]
) -> list[Release]:
    """A year in which nothing happens, under one of many keys, with intervals of each level."""
    counter = Counter(
        definition.strategy, definition.guarantee, key=chosen_key(number.to_bytes(32, "big")),
        name="coverage", shape=(len(definition.groups),),
    )  # fmt: skip
    releases = counter.release_many(np.zeros((STEPS, CELLS), np.int64))
    return [
        Release(ReleaseData.of(definition, counter.design, releases.values, level))
        for level in levels
    ]


def held(series: SeriesNumbers) -> NDArray[Any]:
    inside: NDArray[np.bool_] = (series.lower <= 0) & (series.upper >= 0)
    return np.asarray(inside.mean(axis=1))


def shares(definition: ReleaseMetadata, released: Release) -> dict[str, float]:
    """The share of intervals that hold 0, of each kind of number."""
    starts = np.arange(10, STEPS - 30, 7)
    quarters = released.sums("3mo")
    kinds = {
        "windows": held(released.numbers.series.between(np.arange(STEPS), np.arange(1, STEPS + 1))),
        "differences": held(released.numbers.series.between(starts, starts + 23)),
        "quarters": ((quarters["lower"] <= 0) & (quarters["upper"] >= 0)).to_numpy(),
    }
    if definition.series != "per-window":
        kinds["totals"] = held(released.numbers.series.released)
    return {kind: float(np.mean(inside)) for kind, inside in kinds.items()}


def coverage(
    definition: ReleaseMetadata, *levels: float, keys: int = KEYS
) -> list[dict[str, float]]:
    """For each level the mean of `shares` over so many keys."""
    found = [
        [shares(definition, released) for released in zeros_released(definition, number, levels)]
        for number in range(keys)
    ]
    return [
        {kind: float(np.mean([each[kind] for each in of_level])) for kind in of_level[0]}
        for of_level in zip(*found, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("release", ["per-window", "both"])
@pytest.mark.parametrize("loss", LOSSES, ids=["laplace", "gaussian"])
def test_intervals_of_releases_have_stated_coverage(
    release: str, loss: dict[str, Fraction]
) -> None:
    # From key to key the shares vary so little that a mean over all keys is within 0.07% (one
    # standard deviation). Strategies which round what they release have intervals that are wider
    # by up to half a unit.
    definition = asked(release, loss)
    rounds = definition.strategy.facts.rounding_variance > 0
    (found,) = coverage(definition, 0.95)
    assert all(0.947 < share < (0.957 if rounds else 0.953) for share in found.values()), found


@pytest.mark.slow
@LAPLACE
def test_intervals_of_totals_alone_are_those_of_both(loss: dict[str, Fraction]) -> None:
    alone = asked("cumulative", loss)
    both = asked("both", loss)
    assert alone.strategy == both.strategy
    (one,), (other,) = (zeros_released(definition, 0, (0.95,)) for definition in (alone, both))
    assert shares(alone, one) == shares(both, other)


@pytest.mark.slow
@LAPLACE
def test_intervals_of_weighted_noise_are_never_too_short(loss: dict[str, Fraction]) -> None:
    # Sums of unequal Laplace draws get the tails of fewer equal ones: up to 1% more than stated.
    # Each release solves equations for all cells; 2 keys give shares within 0.15%.
    found, short = coverage(asked("both", loss, simple=False), 0.95, 0.93, keys=2)
    assert all(0.947 < share < 0.96 for share in found.values()), found
    assert not any(share > 0.947 for share in short.values()), short


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "keys"), [((0.94, 0.96), 5), long((0.945, 0.955), KEYS)])
def test_coverage_detects_intervals_of_wrong_width(levels: tuple[float, float], keys: int) -> None:
    for found in coverage(asked("both", LOSSES[0]), *levels, keys=keys):
        assert not any(0.947 < share < 0.953 for share in found.values()), found


def shown_intervals(released: ReleaseData, kind: str) -> list[tuple[str, float, float]]:
    """The groups with their intervals, as a place shows them that has no room for all."""
    if kind == "screen":
        (table,) = screen_of(released).tables
        rows = []
        for group, _, interval in table.rows:
            low, high = (float(end.replace("−", "-")) for end in interval.split(" to "))
            rows.append((group, low, high))
        return rows
    if kind == "last rows":
        shown = last_rows(released, 20)
        return [*zip(shown["group"], shown["lower"], shown["upper"], strict=True)]
    curves = totals_curves(released).first(20)
    return [*zip(curves.groups, curves.lower[-1], curves.upper[-1], strict=True)]


@pytest.mark.parametrize("kind", ["screen", "last rows", "chart"])
def test_intervals_of_displayed_groups_have_stated_coverage(tmp_path: Path, kind: str) -> None:
    """All groups are alike, so whoever picks the largest estimates picks the largest noise."""
    groups = [f"g{number:02}" for number in range(80)]
    rows = pl.DataFrame({"time": [datetime(2024, 3, 1)] * len(groups), "page": groups})
    held = shown = 0
    for number in range(12):
        found = release(
            "count", rows, state=tmp_path / f"{number}.db", time="time", every="1d", windows=9,
            start="2024-03-01", until="2024-03-02", group_by="page", groups=groups, epsilon="0.1",
            confidence_level=0.9,
        )  # fmt: skip
        intervals = shown_intervals(found.numbers, kind)
        assert [group for group, _, _ in intervals] == groups[:20]
        held += sum(low <= 1 <= high for _, low, high in intervals)
        shown += len(intervals)
    assert shown == 12 * 20
    assert held / shown > 0.86
