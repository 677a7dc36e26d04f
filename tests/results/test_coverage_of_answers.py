"""Intervals of differences, ratios, shares and changes of every statistic hold as often as said.

True numbers are those of a run that is as good as without noise; releases of them are simulated
under keys that everybody knows, and asked what a reader asks.
"""

import math
import os
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from keys import chosen_key
from numpy.typing import NDArray
from scipy.stats import binom
from simulated import simulate

import counton
from counton import ZCDP, Key, PureDP, Release
from counton.continual.comparisons import Answer
from counton.privacy import Guarantee
from counton.results.metadata_codec import cells_of

#: Releases of each statistic: few find what is far off, many how conservative each interval is.
RELEASES = int(os.environ.get("COVERAGE", "20"))
STEPS = 8
LEVEL = 0.8
#: How likely a right interval fails a test, where draws change with the address of the noise.
CHANCE = 1e-7
RNG = np.random.default_rng(11)
ROWS = 6000
PAID = RNG.integers(0, 61, ROWS)
TABLE = pl.DataFrame(
    {
        "time": [f"2024-03-{1 + number % STEPS:02d}T10:00" for number in range(ROWS)],
        "page": RNG.choice(["home", "shop", "far"], ROWS, p=[0.5, 0.3, 0.2]),
        "state": RNG.choice(["x", "y"], ROWS, p=[0.4, 0.6]),
        "paid": PAID.astype(float),
        "hours": (PAID * 0.5 + RNG.normal(10, 4, ROWS)).clip(0, 50),
        "spent": (PAID // 2).astype(float),
        "user": RNG.integers(0, 700, ROWS),
    }
)
BY: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop", "far"]}
VALUE: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 60}


class Case(NamedTuple):
    """A statistic, its options, and two of its numbers.

    Attributes:
        one, other: numbers that are asked for, or groups, of which ``of`` is.
        share: whether it has shares.
        part: of a report, which part answers.
        most: the largest share of intervals that hold, where all were drawn that there are.
    """

    options: dict[str, Any]
    one: str
    other: str
    of: str | None = None
    share: bool = False
    part: str | None = None
    most: float = 0.86


PAGES = ["home", "shop", "far"]
TREE = {
    "state": [state for state in "xy" for _ in PAGES],
    "page": [page for _ in "xy" for page in PAGES],
}
MOMENTS: dict[str, Any] = {"columns": "paid,hours", "bounds": "0:60,0:50", "grid": 64}
MEANS: dict[str, Any] = {**BY, **VALUE, "resolution": 1}
REPORT: dict[str, Any] = {
    **BY,
    "statistics": {
        "rows": {"statistic": "count"},
        "paid": {"statistic": "average", **VALUE, "resolution": 1},
    },
}
#: Two statistics that are described alike.
ALIKE: dict[str, Any] = {
    "statistics": {
        "paid": {"statistic": "average", **VALUE, "resolution": 1},
        "spent": {"statistic": "average", **VALUE, "resolution": 1, "value": "spent"},
    }
}
CASES = {
    "count": Case(BY, "home", "shop", share=True),
    "sum": Case({**BY, **VALUE, "resolution": 1}, "home", "shop", share=True),
    "average": Case(MEANS, "home", "shop", "mean"),
    "average count": Case(MEANS, "home", "shop", "count", share=True),
    "moments mean": Case(MOMENTS, "mean paid", "mean hours"),
    "moments variance": Case(MOMENTS, "variance paid", "variance hours"),
    "quantiles": Case({**VALUE, "cells": 60, "line": "haar"}, "0.5", "0.25"),
    "hierarchy": Case({"levels": "state,page", "groups": TREE}, "x", "y/home", share=True),
    "contingency": Case(
        {"columns": "page,state", "groups": {"page": PAGES, "state": ["x", "y"]}},
        "home/*", "shop/x", share=True,
    ),
    "ranges": Case({"label": "page", "groups": PAGES}, "0:2", "1:3", share=True),
    "top-k": Case({**BY, "top": 2}, "home", "shop"),
    "distinct": Case({"user": "user"}, "all", "all"),
    "report": Case(ALIKE, "paid mean", "spent mean"),
    "report rows": Case(REPORT, "home", "shop", part="rows", share=True),
    "report paid": Case(REPORT, "home", "shop", "mean", part="paid"),
}  # fmt: skip


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Guarantee], Release]:
    """The run of a case; cases with the same options share one."""
    runs: dict[tuple[str, str, Guarantee], Release] = {}

    def run(name: str, guarantee: Guarantee) -> Release:
        what: Any = name.split()[0]
        options = CASES[name].options
        asked = what, repr(options), guarantee
        if asked not in runs:
            runs[asked] = counton.release(
                what, TABLE, time="time", every="1d", start="2024-03-01", windows=STEPS,
                until="2024-03-09", guarantee=guarantee,
                state=str(tmp_path_factory.mktemp("run") / "s.db"), **options,
            )  # fmt: skip
        return runs[asked]

    return run


#: By name a guarantee of some noise, and one of as good as none.
GUARANTEES: dict[str, tuple[Guarantee, Guarantee]] = {
    "laplace": (PureDP("0.2"), PureDP(10**9)),
    "gaussian": (ZCDP("0.01"), ZCDP(10**15)),
}
#: A law of noise enters where a formula is read, a ratio of two, an interval of several cells at
#: once, and a rank: Gaussian noise is tried with one of each, Laplace noise with every statistic.
GAUSSIAN = ("count", "average", "moments variance", "quantiles", "top-k", "report rows")


def numbers_of(name: str, exact: Release) -> NDArray[Any]:
    """What the cells of a statistic changed by in each step."""
    cells: Any = cells_of(exact.numbers)
    if name.split()[0] in ("count", "sum", "distinct"):
        assert exact.numbers.series.totals is not None
        cells = exact.numbers.series.totals.estimates
    return np.diff(np.asarray(cells, float), axis=0, prepend=np.zeros((1, *cells.shape[1:])))


def questions(case: Case) -> dict[str, Callable[[Release], Answer]]:
    """What a reader asks, by what it is called."""
    one = case.one
    other = case.other
    of = case.of
    weeks: dict[str, Any] = {"steps": "5:8", "other_steps": "1:4", "of": of}
    asked: dict[str, Callable[[Release], Answer]] = {
        "moments": lambda found: found.difference(one, one, **weeks),
        "change": lambda found: found.change(one, one, **weeks),
    }
    if one != other:
        asked["numbers"] = lambda found: found.difference(one, other, of=of)
        asked["ratio"] = lambda found: found.ratio(one, other, of=of, steps="3:6")
    if case.share:
        asked["share"] = lambda found: found.share(one, of=of)
    return asked


@pytest.fixture(autouse=True)
def _known_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations under keys that everybody knows."""
    numbers = count(1)
    generate = lambda: chosen_key(next(numbers).to_bytes(32, "big"))  # noqa: E731
    monkeypatch.setattr(Key, "generate", staticmethod(generate))


def shares(name: str, exact: Release, like: Release) -> dict[str, float]:
    """Of each question the share of intervals that hold the truth."""
    case = CASES[name]
    assert exact.numbers.metadata.statistic == like.numbers.metadata.statistic
    drawn = simulate(like.at(LEVEL), numbers_of(name, exact), RELEASES)
    if case.part is not None:
        exact = exact.part(case.part)
        drawn = [one.part(case.part) for one in drawn]
    found = {}
    for what, ask in questions(case).items():
        truth = ask(exact).value
        if math.isnan(truth):  # nothing over nothing
            continue
        found[what] = float(np.mean([one.lower <= truth <= one.upper for one in map(ask, drawn)]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "laplace") for name in CASES),
        *((name, "gaussian") for name in (CASES if "COVERAGE" in os.environ else GAUSSIAN)),
    ],
)
def test_intervals_of_answers_have_stated_coverage(
    name: str, kind: str, run_of: Callable[[str, Guarantee], Release]
) -> None:
    like, exact = (run_of(name, guarantee) for guarantee in GUARANTEES[kind])
    found = shares(name, exact, like)
    fewest = binom.ppf(CHANCE, RELEASES, LEVEL) / RELEASES
    most = binom.isf(CHANCE, RELEASES, CASES[name].most) / RELEASES
    assert min(found.values()) >= fewest, found
    assert max(found.values()) <= most, found
