"""Streams of every statistic, guarantee, kind of windows and unit, and the truth about each.

What a stream measures is a matrix: its columns are the changes of the measured sums by one row
(columns of M), in each step (columns of C). From these columns alone the largest change by one
protected unit is found here by trying. No norm, contribution or sensitivity of counton is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.continual import Design
from counton.run import Job
from counton.strategies import Expiring, WindowVersions
from counton.strategies.strategy import StreamStrategy, column_until, node_distribution

Floats = NDArray[np.float64]

#: Numbers of the steps of a stream with an end, and of an endless one whose columns are tried.
STEPS = 5
ENDLESS_STEPS = 40
#: Number of runs of each stream; each releases one more day.
RUNS = 3


class Row(NamedTuple):
    """A row of the events: its day in March 2024, groups, values and user."""

    day: int
    page: str
    kind: str
    paid: int
    tip: int
    user: str


ROWS = [
    Row(1, "a", "x", 0, 1, "ann"),
    Row(1, "b", "y", 3, 2, "bob"),
    Row(1, "a", "y", 9, 0, "cyd"),
    Row(1, "c", "x", 2, 4, "ann"),
    Row(2, "a", "x", 4, 1, "dan"),
    Row(2, "b", "x", 6, 3, "bob"),
    Row(2, "c", "y", 1, 2, "eva"),
    Row(3, "b", "y", 8, 0, "fay"),
    Row(3, "a", "x", 5, 4, "dan"),
    Row(3, "c", "x", 7, 1, "cyd"),
]
#: A row that comes a day after its window was released first.
LATE = Row(2, "b", "y", 7, 1, "gus")
PAGES = "abc"
KINDS = "xy"
PAID = range(10)
TIPS = range(5)
PAID_EDGES = (0, 2, 4, 9)
TIP_EDGES = (0, 1, 2, 4)
SHARES = (0.5, 0.75, 0.9)
PAID_BOUNDS = {"lower": 0, "upper": 9, "resolution": 1}
BY_PAGE = {"group_by": "page", "groups": "a,b,c"}

#: Released numbers by the values of the columns that name them.
Numbers = dict[tuple[Any, ...], float]


def _count(rows: Sequence[Row]) -> Numbers:
    return {("all",): len(rows)}


def _sum(rows: Sequence[Row]) -> Numbers:
    return {("all",): sum(row.paid for row in rows)}


def _mean(rows: Sequence[Row]) -> Numbers:
    total = sum(row.paid for row in rows)
    means = {("mean",): total / len(rows)} if rows else {}
    return {("sum",): total, ("count",): len(rows), **means}


def _quantiles(values: Sequence[int], edges: Sequence[int]) -> Numbers:
    """Compute quantiles by linear interpolation within the cell that holds the rank."""
    cells = len(edges) - 1
    counts = [0] * cells
    for value in values:
        cell = max(place for place in range(cells) if edges[place] <= value)
        counts[cell] += 1
    quantiles = {}
    for share in SHARES:
        rank = share * len(values)
        before = 0
        for cell, count in enumerate(counts):
            if count and before + count >= rank - 1e-9:
                width = edges[cell + 1] - edges[cell]
                quantiles[(share,)] = edges[cell] + width * (rank - before) / count
                break
            before += count
    return quantiles


def _paid_quantiles(rows: Sequence[Row]) -> Numbers:
    return _quantiles([row.paid for row in rows], PAID_EDGES)


def _by_page(of: Callable[[Sequence[Row]], Numbers]) -> Callable[[Sequence[Row]], Numbers]:
    def numbers(rows: Sequence[Row]) -> Numbers:
        by_page = {page: of([row for row in rows if row.page == page]) for page in PAGES}
        return {
            (page, *name): value for page, named in by_page.items() for name, value in named.items()
        }

    return numbers


def _pages(rows: Sequence[Row]) -> Numbers:
    return {(page,): sum(row.page == page for row in rows) for page in PAGES}


def _report(rows: Sequence[Row]) -> Numbers:
    tips = _quantiles([row.tip for row in rows], TIP_EDGES)
    return {
        ("rows",): len(rows),
        **{("paid", *name): value for name, value in _mean(rows).items()},
        **{("tips", share): value for (share,), value in tips.items()},
    }


def _largest_page(rows: Sequence[Row]) -> Numbers:
    pages = _pages(rows)
    largest = max(pages, key=lambda page: pages[page])
    return {largest: pages[largest]}


def _users(rows: Sequence[Row]) -> Numbers:
    return {("all",): len({row.user for row in rows})}


def _users_by_page(rows: Sequence[Row]) -> Numbers:
    return {(page,): len({row.user for row in rows if row.page == page}) for page in PAGES}


def _reach(rows: Sequence[Row]) -> Numbers:
    users = [row.user for row in rows]
    return {
        (f"{rank} or more",): sum(users.count(user) >= rank for user in set(users))
        for rank in (1, 2)
    }


def _any_reach(rows: Sequence[Row]) -> Numbers:
    return {("1 or more",): len({row.user for row in rows})}


def _crossed(rows: Sequence[Row]) -> Numbers:
    return {
        (page, kind): sum((row.page, row.kind) == (page, kind) for row in rows)
        for page, kind in product(PAGES, KINDS)
    }


def _tree(rows: Sequence[Row]) -> Numbers:
    leaves = {("kind", *names): number for names, number in _crossed(rows).items()}
    pages = {("page", page, None): number for (page,), number in _pages(rows).items()}
    return {("total", None, None): len(rows), **pages, **leaves}


def _moments(rows: Sequence[Row]) -> Numbers:
    if not rows:
        return {}
    paid = np.array([row.paid for row in rows], float)
    tips = np.array([row.tip for row in rows], float)
    return {
        ("mean paid",): float(paid.mean()),
        ("mean tip",): float(tips.mean()),
        ("variance paid",): float(paid.var()),
        ("variance tip",): float(tips.var()),
        ("covariance paid tip",): float(((paid - paid.mean()) * (tips - tips.mean())).mean()),
    }


@dataclass(frozen=True)
class Measured:
    """A statistic with the truth about its numbers, and the rows that a unit may have.

    Attributes:
        options: options of its job.
        numbers: the true numbers of some rows.
        event: a row as the statistic takes it; None: the cells are counts or sums.
        cells: for counts and sums, the change of each cell by a row of each kind.
        repeats: whether two rows of one user may be of one kind.
        users: True if the statistic itself counts users.
        tolerance: largest error of the numbers by a grid of the statistic.
        mixes: True if one row changes several measured sums.
    """

    options: Mapping[str, Any]
    numbers: Callable[[Sequence[Row]], Numbers]
    event: Callable[[Row], Any] | None = None
    cells: Sequence[Sequence[int]] = ()
    repeats: bool = True
    users: bool = False
    tolerance: float = 1e-6
    mixes: bool = True

    @property
    def what(self) -> str:
        return str(self.options["what"])


def _each(cells: int) -> list[list[int]]:
    return [[int(place == cell) for place in range(cells)] for cell in range(cells)]


LABELS = {"page": [*"aabbcc"], "kind": [*"xyxyxy"]}
MEASURED: dict[str, Measured] = {
    "count": Measured({"what": "count"}, _count, cells=[[1]], mixes=False),
    "count by page": Measured({"what": "count", **BY_PAGE}, _pages, cells=_each(3), mixes=False),
    "sum": Measured(
        {"what": "sum", "value": "paid", **PAID_BOUNDS},
        _sum,
        cells=[[paid] for paid in PAID],
        mixes=False,
    ),
    "average": Measured(
        {"what": "average", "value": "paid", **PAID_BOUNDS}, _mean, lambda row: row.paid
    ),
    "average by page": Measured(
        {"what": "average", "value": "paid", **PAID_BOUNDS, **BY_PAGE},
        _by_page(_mean),
        lambda row: (row.page, row.paid),
    ),
    "quantiles": Measured(
        {"what": "quantiles", "value": "paid", "edges": "0,2,4,9"},
        _paid_quantiles,
        lambda row: row.paid,
    ),
    "quantiles by page": Measured(
        {"what": "quantiles", "value": "paid", "edges": "0,2,4,9", **BY_PAGE},
        _by_page(_paid_quantiles),
        lambda row: (row.page, row.paid),
    ),
    "report": Measured(
        {
            "what": "report",
            "statistics": {
                "rows": {"statistic": "count"},
                "paid": {"statistic": "average", "value": "paid", **PAID_BOUNDS},
                "tips": {"statistic": "quantiles", "value": "tip", "edges": "0,1,2,4"},
            },
        },
        _report,
        lambda row: (row.paid, row.tip),
    ),
    "top-k": Measured(
        {"what": "top-k", **BY_PAGE, "top": 1}, _largest_page, lambda row: row.page, mixes=False
    ),
    "distinct": Measured(
        {"what": "distinct", "user": "user"},
        _users,
        cells=[[1]],
        repeats=False,
        users=True,
        mixes=False,
    ),
    "distinct by page": Measured(
        {"what": "distinct", "user": "user", **BY_PAGE, "max_contributions": 2},
        _users_by_page,
        cells=_each(3),
        repeats=False,
        users=True,
        mixes=False,
    ),
    "reach": Measured(
        {"what": "reach", "user": "user", "at_least": "1,2"},
        _reach,
        cells=_each(2),
        repeats=False,
        users=True,
        mixes=False,
    ),
    "hierarchy": Measured(
        {"what": "hierarchy", "levels": "page,kind", "groups": LABELS},
        _tree,
        lambda row: (row.page, row.kind),
    ),
    "ranges": Measured(
        {"what": "ranges", "label": "page", "groups": "a,b,c"}, _pages, lambda row: row.page
    ),
    "contingency": Measured(
        {"what": "contingency", "columns": "page,kind", "groups": "page=a,b,c;kind=x,y"},
        _crossed,
        lambda row: (row.page, row.kind),
    ),
    "moments": Measured(
        {"what": "moments", "columns": "paid,tip", "bounds": "0:9,0:4"},
        _moments,
        lambda row: (row.paid, row.tip),
        tolerance=0.05,
    ),
}
#: A loss at which noise rounds to nothing, and one at which it is wide.
HUGE: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 10**9},
    "delta": {"epsilon": 10**9, "delta": "1e-9"},
    "rho": {"rho": 10**9},
}
SMALL: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": "1/2"},
    "delta": {"epsilon": "1/2", "delta": "1e-9"},
    "rho": {"rho": "1/8"},
}
_DAYS = {"time": "at", "every": "1d", "start": "2024-03-01"}
WINDOWS: dict[str, dict[str, Any]] = {
    "steps": {**_DAYS, "windows": STEPS},
    "windows": {**_DAYS, "windows": STEPS, "series": "per-window"},
    "both": {**_DAYS, "windows": STEPS, "series": "both"},
    "expected_windows": {**_DAYS, "expected_windows": STEPS},
    "expiring": {**_DAYS, "expiring": True},
    "expire later": {**_DAYS, "expiring": True, "expiration_delay": 1},
    "allowed_lateness": {**_DAYS, "windows": STEPS, "allowed_lateness": "1d"},
    "table": {},
}
#: Rows that are added or removed, all rows of a user, and rows whose content is replaced.
UNITS = ("events", "people", "replaced")
#: Kinds of windows in which a unit may have rows in one step alone.
ONE_STEP = ("expiring", "expire later")


@dataclass(frozen=True)
class Case:
    """One stream: its statistic, the name of its guarantee, its windows and its unit."""

    statistic: str
    guarantee: str
    windows: str
    unit: str

    def __str__(self) -> str:
        return f"{self.statistic}, {self.guarantee}, {self.windows}, {self.unit}"

    @property
    def measured(self) -> Measured:
        return MEASURED[self.statistic]

    @property
    def slack(self) -> float:
        """The largest ratio of calibrated and true norms.

        Of endless streams few steps are tried, and the norms of their columns grow with the steps.
        A replaced row is calibrated as one removed and one added, whose columns may overlap.
        Gaussian noise that expires hides the square of a user's 1-norm over all cells.
        """
        if self.windows in ONE_STEP and self.unit == "people" and self.measured.mixes:
            return 4.1 if self.guarantee == "rho" else 1.0
        if self.unit == "replaced":
            return 4.0
        return 1.5 if self.windows == "expected_windows" else 1.0

    @property
    def most(self) -> int:
        """The largest number of counted rows of one unit."""
        if self.unit != "people" or self.windows in ONE_STEP:
            return 1
        return 1 if self.statistic == "distinct" else 2

    def options(self, losses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the options of the job, with the loss of one of `HUGE` and `SMALL`."""
        options: dict[str, Any] = {
            **losses[self.guarantee],
            **WINDOWS[self.windows],
            **self.measured.options,
        }
        if self.unit == "people" and not self.measured.users:
            options |= {"user": "user", "max_contributions": self.most}
        if self.unit == "replaced":
            options["replace"] = True
        if self.windows in ONE_STEP and "max_contributions" in options:
            options["max_contributions"] = 1
        if self.statistic == "reach" and self.most == 1:
            options["at_least"] = "1"
        if self.statistic == "reach" and self.windows == "allowed_lateness":
            options["contribution_period"] = "1d"
        return options

    def refusal(self) -> str | None:
        """Return a part of the message that refuses such a job, or None if it is allowed."""
        if self.windows == "table" and self.measured.what not in (
            "quantiles", "hierarchy", "ranges", "contingency"
        ):  # fmt: skip
            return "a new stream of .* needs time"
        if self.statistic == "quantiles by page" and self.windows == "table":
            return None
        if self.windows in ONE_STEP:
            if self.guarantee == "delta":
                return "expiring=True cannot be used with delta"
            if self.statistic == "report":
                return "the statistics of a report share a budget that does not expire"
            if self.statistic == "reach" and self.windows == "expire later":
                return "the totals of reach begin again with each period"
        if self.measured.users and self.windows == "allowed_lateness":
            return {
                "distinct": "a user counts once, in the window of the first row",
                "distinct by page": "a user counts once, in the window of the first row",
            }.get(self.statistic)
        return None

    def rows(self, day: int) -> list[Row]:
        """Return the rows that are there on the night after a day."""
        if self.windows == "table":
            return ROWS
        late = [LATE] if self.windows == "allowed_lateness" and day == RUNS else []
        return [row for row in ROWS if row.day <= day] + late

    def job(self, folder: Path, day: int, losses: Mapping[str, Mapping[str, Any]]) -> Job:
        """Write the rows of a night, and return its job."""
        options = self.options(losses)
        alone = self.unit == "people" and self.most == 1 and not self.measured.users
        lines = [
            f"2024-03-0{row.day}T{number:02}:00,{row.page},{row.kind},{row.paid},{row.tip},"
            f"{f'{row.user} {number}' if alone else row.user}"
            for number, row in enumerate(self.rows(day))
        ]
        events = folder / "events.csv"
        events.write_text("\n".join(["at,page,kind,paid,tip,user", *lines, ""]))
        if self.windows != "table":
            options["until"] = f"2024-03-0{day + 1}"
        what = options.pop("what")
        return Job(what, events, folder / "s.db", stream="it", allow_empty_windows=True, **options)

    def true_numbers(self, step: int) -> Numbers:
        """Return the true numbers of a step after all runs."""
        rows = self.rows(RUNS)
        if self.windows == "table":
            return self.measured.numbers(rows)
        if self.measured.users and self.most == 1:  # only the first row of a user counts
            users = [row.user for row in rows]
            rows = [row for place, row in enumerate(rows) if row.user not in users[:place]]
        newest = step - 1 if self.windows == "expire later" else step
        numbers = self.measured.numbers
        if self.statistic == "reach" and self.most == 1:
            numbers = _any_reach
        totals = numbers([row for row in rows if row.day <= newest])
        if self.windows == "windows" and self.measured.users:  # new users of the day
            before = numbers([row for row in rows if row.day < step])
            return {name: number - before[name] for name, number in totals.items()}
        if self.windows in ("windows", "allowed_lateness"):
            return numbers([row for row in rows if row.day == step])
        return totals

    def columns(self, statistic: Any) -> list[Floats]:
        """Return the changes of the measured cells by one row of each kind: columns of M.

        Args:
            statistic: the statistic that a run measures; None for counts and sums.
        """
        measured = self.measured
        if measured.event is None:
            cells = measured.cells
            if self.statistic == "reach" and self.most == 1:
                cells = [[1]]
            return [np.array(one, float) for one in cells]
        events = {
            measured.event(Row(1, page, kind, paid, tip, ""))
            for page, kind, paid, tip in product(PAGES, KINDS, PAID, TIPS)
        }
        listed = sorted(events, key=repr)
        taken = statistic.begin().take(listed, np.arange(1, len(listed) + 1))
        kinds = np.unique(np.asarray(taken).reshape(len(listed), -1), axis=0)
        return [np.array(one, float) for one in kinds]


def steps_of(design: Design) -> Floats:
    """Return the strategy's matrix C, shape (nodes, times): one column for each time of a row.

    A row of it is divided by how much wider the noise of its node is than the calibrated noise: by
    the ratio of scales of Laplace noise, or by the root of the ratio of variances. Weights are in
    units of the lattice. Of an expiring stream only the step of a row counts: its loss is stated
    for the age 0.
    """
    strategy: StreamStrategy = design.strategy
    if isinstance(strategy, Expiring):
        return np.ones((1, 1))
    if isinstance(strategy, WindowVersions):
        inner = _nodes(strategy.inner, strategy.lags + 1, design)
        return np.asarray(
            np.kron(np.eye(2), inner), np.float64
        )  # rows of a unit may be in one window or in two
    return _nodes(strategy, strategy.horizon or ENDLESS_STEPS, design)


def _nodes(strategy: StreamStrategy, steps: int, design: Design) -> Floats:
    columns = [column_until(strategy, step, steps) for step in range(1, steps + 1)]
    nodes = sorted({(node.level, node.index) for column in columns for node in column})
    places = {node: place for place, node in enumerate(nodes)}
    entering = np.zeros((len(nodes), steps))
    for step, column in enumerate(columns):
        for node in column:
            weight = float(node.weight * 2**strategy.facts.lattice_bits)
            entering[places[node.level, node.index], step] += weight
    widths = [_width(strategy, design, level) for level, _ in nodes]
    return np.asarray(entering / np.array(widths)[:, None], np.float64)


def _width(strategy: StreamStrategy, design: Design, level: int) -> float:
    distribution = node_distribution(strategy, design.distribution, level)
    if isinstance(distribution, DiscreteLaplace):
        assert isinstance(design.distribution, DiscreteLaplace)
        return float(distribution.scale / design.distribution.scale)
    assert isinstance(distribution, DiscreteGaussian)
    assert isinstance(design.distribution, DiscreteGaussian)
    return math.sqrt(distribution.sigma_squared / design.distribution.sigma_squared)


@dataclass(frozen=True)
class Moved:
    """The largest change of all nodes by one unit: 1-norm and squared 2-norm.

    Attributes:
        sizes: for the change of largest 1-norm, the sizes of the changes of single nodes.
    """

    l1: float
    l2_squared: float
    sizes: Mapping[float, int] = field(default_factory=dict)


def largest_change(case: Case, steps: Floats, columns: Sequence[Floats]) -> Moved:
    """Try all rows of one unit; return the largest norms of their change of all nodes."""
    times = [steps[:, time] for time in range(steps.shape[1])]
    rows = np.array([np.outer(time, column).ravel() for time in times for column in columns])
    kinds = np.tile(np.arange(len(columns)), len(times))
    changes = [rows]
    if case.unit == "replaced":
        by_time = rows.reshape(len(times), len(columns), -1)
        pairs = by_time[:, :, None] - by_time[:, None]
        changes = [pairs.reshape(-1, rows.shape[1])]
    if case.most == 2:
        for place, row in enumerate(rows):
            others = rows[place:]
            if not case.measured.repeats:
                others = others[kinds[place:] != kinds[place]]
            changes.append(row + others)
    l1 = l2_squared = 0.0
    farthest = np.zeros(rows.shape[1])
    for some in changes:
        if not len(some):
            continue
        norms = np.abs(some).sum(axis=1)
        if norms.max() > l1:
            l1 = float(norms.max())
            farthest = some[norms.argmax()]
        l2_squared = max(l2_squared, float((some**2).sum(axis=1).max()))
    each, counts = np.unique(np.abs(farthest[farthest != 0]).round(9), return_counts=True)
    return Moved(l1, l2_squared, dict(zip(each.tolist(), counts.tolist(), strict=True)))


def calibrated_l1(design: Design) -> Fraction | None:
    """Return the 1-norm that Laplace noise hides under pure epsilon, or None."""
    epsilon = design.guarantee.losses.get("epsilon")
    if epsilon is None or "delta" in design.guarantee.losses:
        return None
    assert isinstance(design.distribution, DiscreteLaplace)
    return design.distribution.scale * epsilon


def calibrated_l2_squared(design: Design) -> Fraction | None:
    """Return the squared 2-norm that Gaussian noise hides under rho, or None."""
    rho = design.guarantee.losses.get("rho")
    if rho is None or not isinstance(design.distribution, DiscreteGaussian):
        return None
    return design.distribution.sigma_squared * 2 * rho


def _units_of(statistic: str) -> tuple[str, ...]:
    if MEASURED[statistic].users:
        return ("people",)
    if statistic in ("quantiles", "top-k", "hierarchy", "ranges", "contingency"):
        return UNITS
    return UNITS[:2]  # nothing is replaced in a statistic without this option


ALL_CASES = [
    Case(statistic, guarantee, windows, unit)
    for statistic, guarantee, windows in product(MEASURED, HUGE, WINDOWS)
    for unit in _units_of(statistic)
]
ALLOWED = [case for case in ALL_CASES if case.refusal() is None]
REFUSED = [case for case in ALL_CASES if case.refusal() is not None]
#: Few cases of many kinds, for a quick test.
SPREAD = [
    Case("count", "epsilon", "steps", "people"),
    Case("sum", "delta", "expected_windows", "events"),
    Case("average by page", "rho", "both", "people"),
    Case("quantiles", "rho", "expiring", "events"),
    Case("quantiles", "rho", "table", "people"),
    Case("report", "rho", "steps", "events"),
    Case("report", "epsilon", "allowed_lateness", "people"),
    Case("top-k", "rho", "expire later", "people"),
    Case("reach", "epsilon", "allowed_lateness", "people"),
    Case("distinct by page", "rho", "windows", "people"),
    Case("hierarchy", "rho", "expiring", "events"),
    Case("hierarchy", "epsilon", "expire later", "replaced"),
    Case("ranges", "rho", "expiring", "replaced"),
    Case("contingency", "rho", "expire later", "events"),
    Case("moments", "delta", "steps", "events"),
]
