"""`python -m papers.intervals`: how often intervals hold, and how wide they are, before and now.

Prints tables in Markdown, at 95%.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton import ZCDP, Key, PureDP, Running
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.numbers import StepRelease, interval_halfwidth
from counton.statistics import Moments, Quantiles, rank_largest, ranking_levels
from counton.statistics.readings import read_release

LEVEL = 0.95
LAWS: dict[str, NoiseDistribution] = {
    "Laplace": DiscreteLaplace(Fraction(20)),
    "Gaussian": DiscreteGaussian(Fraction(800)),
}
#: Releases of one number of noise that are simulated for each row.
RUNS = 2_000
_FEWER = 400


class Row(NamedTuple):
    """One line of a table.

    Attributes:
        what: is asked, of how many.
        law: of the noise.
        held: shares of intervals that held, before and now.
        width: widths, before and now: of rankings in standard deviations, else medians.
    """

    what: str
    law: str
    held: tuple[float, float]
    width: tuple[float, float]


def rankings() -> list[Row]:
    """The k largest of n groups: each interval as of n groups, and as `ranking_levels` says.

    How often they hold is that of the worst of two truths: all groups alike, and all far apart.
    """
    rows = []
    for groups, k in ((10, 3), (100, 5), (10_000, 10), (1_000_000, 10)):
        for name, law in LAWS.items():
            whole = interval_halfwidth(law, 1, LEVEL ** (1 / groups))
            levels = ranking_levels(groups, k, LEVEL)
            down, up = (interval_halfwidth(law, 1, level) for level in levels)
            held = (float("nan"), float("nan"))
            if groups <= 10_000:
                held = _held(law, groups, k, whole, whole), _held(law, groups, k, down, up)
            width = 2 * whole / law.std, (down + up) / law.std
            rows.append(Row(f"the {k} largest of {groups:,} groups", name, held, width))
    return rows


def _held(law: NoiseDistribution, groups: int, k: int, down: int, up: int) -> float:
    """How often all intervals hold together, in the worse of two cases."""
    rng, held = np.random.default_rng(27), []
    for apart in (0, 100 * int(law.std)):
        truth = apart * np.arange(groups)
        right = 0
        for _ in range(RUNS):
            if isinstance(law, DiscreteLaplace):
                noise = np.rint(rng.laplace(0, float(law.scale), groups))
            else:
                noise = np.rint(rng.normal(0, law.std, groups))
            found = rank_largest(range(groups), truth + noise, down, k, upward=up)
            own = truth[list(found.names)]
            right += bool(((found.lower <= own) & (own <= found.upper)).all())
        held.append(right / RUNS)
    return min(held)


def moments() -> list[Row]:
    """Numbers of two columns, by the delta method, widened, and as they are read now."""
    statistic, rows = Moments({"price": (0, 16), "sold": (0, 8)}, grid=64), []
    for count in (60, 200, 1_000, 5_000):
        rng = np.random.default_rng(count)
        price = rng.integers(0, 65, count) / 4
        sold = np.clip(np.rint((6 - price / 4 + rng.normal(0, 1, count)) * 8) / 8, 0, 8)
        spread = np.cov(price, sold, bias=True)
        true = {
            ("mean", "price"): price.mean(),
            ("variance", "price"): spread[0, 0],
            ("covariance", "price", "sold"): spread[0, 1],
            ("slope", "sold", "price"): spread[0, 1] / spread[0, 0],
            ("slope", "price", "sold"): spread[0, 1] / spread[1, 1],
        }
        a, b = price / 8 - 1, sold / 4 - 1
        sums = np.array([count, *(x.sum() for x in (a, b, 1 - a**2, 1 - b**2, a * b))])
        for law, guarantee in {"Laplace": PureDP("1/2"), "Gaussian": ZCDP("1/50")}.items():
            counter = Running.start(
                statistic, 1, guarantee, key=Key.generate(), name="s", batched=True
            )
            std = float(counter.design.errors.std(range(1, 2))[0])
            draws = np.random.default_rng(27)
            held = {name: np.zeros(2) for name in true}
            width: dict[Any, list[Any]] = {name: [] for name in true}
            for _ in range(_FEWER):
                noise = draws.laplace(0, std / math.sqrt(2), 6)
                noise = noise if law == "Laplace" else draws.normal(0, std, 6)
                released = np.rint(sums * statistic.grid**2 + noise)
                reading: Any = read_release(
                    statistic, StepRelease(1, released, std, counter.design)
                )
                for name, value in true.items():
                    delta = reading._interval(reading._function(name), LEVEL)
                    ends = np.array([delta, reading.interval(name, LEVEL)])
                    held[name] += (ends[:, 0] <= value + 1e-9) & (value - 1e-9 <= ends[:, 1])
                    width[name].append(ends[:, 1] - ends[:, 0])
            for name in true:
                before, now = held[name] / _FEWER
                wide = np.median(width[name], axis=0)
                what = f"{' '.join(name)}, {count:,} rows"
                rows.append(Row(what, law, (before, now), (wide[0], wide[1])))
    return rows


def quantiles() -> list[Row]:
    """Medians, by one edge of each cell, and by means of 1, 2 and 4 edges, which was not taken.

    Half-widths of the latter are exact up to a sample. Widths are in cells. Two heaps with one
    value between them are the worst there is: the share lies at both edges of the one cell.
    """
    rows = []
    for what, cells, count in (
        ("evenly", 64, 1_000),
        ("evenly", 256, 1_000),
        ("heaps", 16, 20_001),
    ):
        for law, guarantee in {"Laplace": PureDP("1/10"), "Gaussian": ZCDP("1/1000")}.items():
            if what == "evenly":
                guarantee = PureDP(1) if law == "Laplace" else ZCDP("1/10")
            asked = Quantiles(lower=0, upper=cells, cells=cells)
            counter = Running.start(asked, 1, guarantee, key=Key.generate(), name="q", batched=True)
            statistic, counts = counter.statistic, np.full(cells, count // cells)
            assert isinstance(statistic, Quantiles)
            if what == "heaps":
                counts = np.zeros(cells, np.int64)
                counts[[7, 8, 9]] = count // 2, 1, count // 2
            std = float(counter.design.errors.std(range(1, 2))[0])
            exact = np.asarray(statistic.line.measure(counts[:, None]))[:, 0]
            cell = int(np.argmax(2 * np.cumsum(counts) >= counts.sum()))
            draws = np.random.default_rng(27)

            def noise(runs: int) -> NDArray[np.float64]:
                size = runs, len(exact)  # noqa: B023
                scaled = std / math.sqrt(2)  # noqa: B023
                of_laplace = law == "Laplace"  # noqa: B023
                return draws.laplace(0, scaled, size) if of_laplace else draws.normal(0, std, size)  # noqa: B023

            released = np.rint(exact + noise(RUNS // 4))
            found = []
            for each in released:
                one: Any = read_release(statistic, StepRelease(1, each, std, counter.design))
                found.append(one.quantile(0.5, LEVEL))
            held = np.mean([one.lower <= cell < one.upper for one in found])
            wide = np.mean([one.upper - one.lower for one in found])
            tried = _by_several_edges(statistic, noise(RUNS), released)
            held_tried = np.mean([(low <= cell) & (cell <= high) for low, high in tried])
            wide_tried = np.mean([high - low + 1 for low, high in tried])
            asked_of = f"median of {count:,} values, {what}, {cells} cells"
            both = (float(held), float(held_tried)), (float(wide), float(wide_tried))
            rows.append(Row(asked_of, law, *both))
    return rows


def _by_several_edges(
    statistic: Quantiles, noise: NDArray[np.float64], released: NDArray[np.float64]
) -> list[tuple[int, int]]:
    """First and last cell that no mean of 1, 2 or 4 edges speaks against."""

    def excess(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        below = np.cumsum([statistic.line.estimate(row) for row in rows], axis=1)
        below = np.concatenate([np.zeros((len(rows), 1)), below], axis=1)
        return np.asarray(below - below[:, -1:] / 2)

    def means(values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Over 1, 2 and 4 edges from each on."""
        sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
        first = np.arange(values.shape[1])
        lasts = [np.minimum(first + edges, len(first)) for edges in (1, 2, 4)]
        return np.stack([(sums[:, last] - sums[:, first]) / (last - first) for last in lasts])

    possible = []
    alone, there = excess(noise), excess(released)
    for sides in ((-alone[:, 1:], -there[:, 1:]), (alone[:, -2::-1], there[:, -2::-1])):
        drawn, seen = map(means, sides)
        stds = drawn.std(axis=1, keepdims=True)
        most = np.quantile((drawn / stds).max(axis=0), (1 + LEVEL) / 2, axis=0)
        possible.append(((seen / stds).max(axis=0) <= most).argmax(axis=1))
    last = statistic.places - 1 - possible[1]
    return list(zip(possible[0].tolist(), last.tolist(), strict=True))


#: By what is on the command line.
TABLES: dict[str, Callable[[], list[Row]]] = {
    "rankings": rankings,
    "moments": moments,
    "quantiles": quantiles,
}


def main() -> None:
    """Print the tables."""
    for name, rows in TABLES.items():
        two = ("one edge", "several") if name == "quantiles" else ("before", "now")
        heads = ("asked", "noise", *(f"held, {one}" for one in two), *two, "narrower")
        print(f"| {' | '.join(heads)} |")  # noqa: T201
        print("|---|---|---|---|---|---|---|")  # noqa: T201
        for row in rows():
            held = ("" if one != one else f"{one:.3f}" for one in row.held)
            before, now = row.width
            cells = [row.what, row.law, *held, f"{before:.3g}", f"{now:.3g}"]
            print(f"| {' | '.join(cells)} | {100 * (1 - now / before):.1f}% |")  # noqa: T201
        print()  # noqa: T201


if __name__ == "__main__":
    main()
