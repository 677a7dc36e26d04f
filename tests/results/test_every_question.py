"""Every question about every statistic, alone and in a report: its error is that of the noise.

What is released is a sum of node noise with known weights, so the error of an answer is known to
first order: it is the answer's gradient in the released numbers, times their covariance, which is
written out here from the strategy's nodes and the unit of each cell. No interval is asked about it.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from in_turn import ALL, in_turn
from keys import chosen_key
from numpy.typing import NDArray
from scipy.stats import norm
from simulated import simulate
from some_cases import long

import counton
from counton import ZCDP, Counter, Job, Key, PureDP
from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.continual import Design, Errors, jointly
from counton.continual.comparisons import Answer, answer
from counton.continual.formulas import Formula, Ratio
from counton.privacy import Guarantee
from counton.results import (
    DisplaySelection,
    period_sums,
    questions,
    released_table,
    versions,
)
from counton.results.cell_series import CellSeries
from counton.results.metadata import ReleaseMetadata
from counton.results.questions import number_of, whole_of
from counton.results.release import ChartWords, Comparison, Release
from counton.results.release_data import ReleaseData
from counton.results.released_table import last_rows, table_of_series
from counton.results.table_rows import labels_of
from counton.run.spec.plan_spec import plan_spec
from counton.statistics import AccumulatorStatistic, Report
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import keywords, statistic_named
from counton.statistics.quantiles import QuantilesResult
from counton.statistics.results import StatisticResults
from counton.statistics.statistic import shape_of
from counton.strategies import Binary, SqrtToeplitz, StreamStrategy
from counton.strategies.strategy import node_distribution

STEPS = 2
LEVEL = 0.8
ROWS = 2**30
GROUPS = ["home", "shop"]
BY: dict[str, Any] = {"group_by": "page", "groups": GROUPS}
VALUE: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 8, "resolution": "0.5"}
PARTS: dict[str, dict[str, Any]] = {
    "count": BY,
    "sum": {**BY, **VALUE},
    "average": {**BY, **VALUE},
    "quantiles": {"value": "paid", "edges": "0,2,4,8", "line": "identity"},
    "top-k": {**BY, "top": 1},
    "hierarchy": {"levels": "state,page", "groups": {"state": ["x", "x", "y"], "page": [*"abc"]}},
    "ranges": {"label": "page", "groups": ["a", "b", "c"]},
    "contingency": {"columns": "page,state", "groups": {"page": GROUPS, "state": [*"xy"]}},
    "moments": {"columns": "paid,hours", "bounds": "0:8,0:4", "grid": 8},
}
ALONE: dict[str, dict[str, Any]] = {
    **PARTS,
    "sum": {**PARTS["sum"], "series": "both"},
    "report": {"statistics": {name: {"statistic": name, **own} for name, own in PARTS.items()}},
    "distinct": {"user": "user"},
    "reach": {"user": "user", "at_least": "1,2"},
}
STRATEGIES: dict[str, tuple[StreamStrategy, Guarantee]] = {
    "tree, laplace": (Binary(STEPS), PureDP("0.01")),
    "tree, gaussian": (Binary(STEPS), ZCDP("0.0001")),
    "fractions, laplace": (SqrtToeplitz(STEPS), PureDP("0.01")),
    "fractions, gaussian": (SqrtToeplitz(STEPS), ZCDP("0.0001")),
    "one draw, laplace": (Binary(1), PureDP("0.01")),
    "one draw, gaussian": (Binary(1), ZCDP("0.0001")),
}


# ---------------------------------------------------------------- releases without noise


class Stream(NamedTuple):
    """A stream, and what it would release without noise: ``(steps, cells)``, in data units."""

    definition: ReleaseMetadata
    design: Design
    exact: Floats
    unit: float  # of its exact sums, in data units
    parts: Mapping[str, slice]  # cells of each part of a report; "" of all

    def released(self, part: str, values: Floats) -> Release:
        """What is read of these values."""
        definition = self.definition
        terms = self.design
        statistic = self.definition.statistic
        shaped = values.reshape(len(values), *terms.shape)
        if statistic.additive:
            flat = shaped.reshape(len(values), -1)
            return Release(ReleaseData.of(definition, terms, flat, LEVEL))
        steps = range(1, len(values) + 1)
        readings = StatisticResults.from_values(statistic, terms, shaped)
        found = Release(
            ReleaseData(definition, terms, steps, readings, LEVEL, shown=DisplaySelection())
        )
        return found.part(part) if part else found


@cache
def defined(name: str) -> ReleaseMetadata:
    return plan_spec(Job(
        name, "e.csv", "s.db", time="at", every="1d", start="2024-03-01", windows=STEPS,
        epsilon=1, strategy="binary", simple=False, **ALONE[name],
    )).metadata()  # fmt: skip


@cache
def stream_of(name: str, kind: str) -> Stream:
    strategy, guarantee = STRATEGIES[kind]
    definition = replace(defined(name), strategy=strategy, guarantee=guarantee)
    statistic = definition.statistic
    shape = shape_of(statistic, None if definition.group_by is None else len(definition.groups))
    parts = {"": slice(None)}
    if isinstance(report := inner_of(statistic), Report):
        weights = {one: 2 + 3 * at for at, one in enumerate(report.measured_ones)}
        report = report.with_parameters(weights=weights)
        definition = replace(definition, statistic=report)
        statistic = report
        shape = report.cells
        for one in report.statistics:
            parts[one] = report.cell_ranges[report.derived_from.get(one, one)]
    counter = Counter(
        strategy, guarantee, key=chosen_key(), name="t", shape=shape,
        contribution=statistic.contribution(batched=True),
    )  # fmt: skip
    if isinstance(statistic, Report):
        own = [
            typical(one, one.cells) * statistic.weight(of)
            for of, one in statistic.measured_ones.items()
        ]
        each = np.concatenate(own)
    else:
        each = typical(statistic, shape)
    unit = float(statistic.contribution(batched=True).resolution or 1)
    exact = np.arange(1, (strategy.horizon or 0) + 1)[:, None] * each * unit
    return Stream(definition, counter.design, np.asarray(exact, np.float64), unit, parts)


def typical(statistic: Any, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """What the cells of a statistic change by in a step."""
    typical_cells = getattr(statistic, "typical_cells", None)
    found = None if typical_cells is None else typical_cells(ROWS, 1)
    return different(shape) if found is None else np.ravel(found)


def different(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Cells of which one is the largest."""
    return ROWS + ROWS // 64 * np.arange(math.prod(shape))


class OneNode:
    """Noise of which one node alone is not 0."""

    def __init__(self, at: tuple[int, int] | None, size: int) -> None:
        self.at = at
        self.size = size
        self.shape = ()
        self.read: set[tuple[int, int]] = set()

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        self.read |= {(level, node) for node in nodes}
        return np.array([self.size if (level, node) == self.at else 0 for node in nodes], np.int64)


@cache
def covariance(kind: str, distribution: Any) -> Floats:
    """Of one cell's releases at all steps, in squared units of the exact sums."""
    strategy = STRATEGIES[kind][0]
    size = 2**30
    every = OneNode(None, 0)
    steps = range(1, (strategy.horizon or 0) + 1)
    strategy.noise(every, steps)
    found = np.zeros((len(steps), len(steps)))
    for level, node in sorted(every.read):
        read = strategy.noise(OneNode((level, node), size), steps) / size
        found += np.outer(read, read) * node_distribution(strategy, distribution, level).variance
    return found / 4.0**strategy.facts.fraction_bits


# ---------------------------------------------------------------- questions

#: So many names of a statistic are asked about.
MOST = 2
Rows = tuple[Floats, Floats, Floats]  # values, standard deviations, half-widths at `LEVEL`


def of_answers(*found: Answer) -> Rows:
    return tuple(
        np.array([*each], float)
        for each in zip(*((a.value, a.std, (a.upper - a.lower) / 2) for a in found), strict=True)
    )  # type: ignore[return-value]


def of_table(table: pl.DataFrame) -> Rows:
    if table["noise_std"].is_null().all():
        raise InvalidInputError("a table without errors")
    found = [table[name].cast(pl.Float64).fill_null(math.nan).to_numpy()
             for name in ("estimate", "noise_std", "lower", "upper")]  # fmt: skip
    return found[0], found[1], (found[3] - found[2]) / 2


def of_quantiles(found: Any) -> Rows:
    """How many values lie between two: its quantiles are sets, without a standard deviation."""
    reading = getattr(found, "result", None)
    if not isinstance(reading, QuantilesResult):
        raise InvalidInputError("no quantiles")
    one = reading.between(0, 4, LEVEL)
    return np.array([one.value]), np.array([one.std]), np.array([one.upper - one.lower]) / 2


def of_series(found: Any) -> Rows:
    if found is None:
        raise InvalidInputError("none")
    values = np.asarray(found.estimates, float)
    errors = (np.broadcast_to(np.reshape(one, (-1, 1)), values.shape)
              for one in (found.std, found.half))  # fmt: skip
    std, half = (np.ravel(one) for one in errors)
    return values.ravel(), std, half


class Name(NamedTuple):
    one: str
    other: str
    of: str | None


def names_of(found: Release) -> list[Name]:
    """What may be asked about: groups with each of their numbers, or numbers."""
    last = found.table(found.steps[-1:])
    if found.numbers.metadata.statistic.additive:
        return [Name(found.numbers.groups[0], found.numbers.groups[-1], None)]
    about = [
        name
        for name in labels_of(last)
        if name not in ("window_index", "series", "rank", "first_window", "last_window")
    ]
    names = []
    for row in last.select(about).rows():
        names += ["/".join(map(str, row)), " ".join(map(str, row)), *map(str, row)]
    asked = []
    if found.numbers.groups and "group" in last.columns:
        for of in [None, *names]:
            with suppress(InvalidInputError):
                number_of(found.numbers, found.numbers.groups[0], None, of)
                asked.append(Name(found.numbers.groups[0], found.numbers.groups[1], of))
        return asked
    known = []
    for name in dict.fromkeys([*names, "all"]):
        with suppress(InvalidInputError):
            number_of(found.numbers, name)
            known.append(name)
    return [Name(known[at], known[at - 1], None) for at in range(min(len(known), MOST))]


Names = Sequence[Name]
Question = Callable[[Release, Names], Rows]


def each(question: Callable[[Release, Name], Rows]) -> Question:
    """A question about each name, one below the other."""

    def asked(found: Release, names: Names) -> Rows:
        parts = []
        for name in names:
            with suppress(InvalidInputError):
                parts.append(question(found, name))
        if not parts:
            raise InvalidInputError("no names")
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))  # type: ignore[return-value]

    return asked


def apart(found: Release) -> dict[str, Any]:
    """The last step, and those before it."""
    last = found.steps[-1]
    if last == 1:
        raise InvalidInputError("one step")
    return {"steps": f"{last}:{last}", "other_steps": f"1:{last - 1}"}


#: Every method and function with an error in what it returns, and how to ask it.
QUESTIONS: dict[str, Question] = {
    "table": lambda r, _: of_table(r.table(r.steps[-1:])),
    "last_rows": lambda r, _: of_table(last_rows(r.numbers)),
    "table_of_series": lambda r, _: of_table(table_of_series(r.numbers)),
    "band": lambda r, _: of_table(r.only(r.steps[-1:]).band()),
    "totals": lambda r, _: of_series(r.numbers.series.totals),
    "windows": lambda r, _: of_series(r.numbers.series.windows),
    "released": lambda r, _: of_series(r.numbers.series.released),
    "between": lambda r, _: of_series(
        r.numbers.series.between(np.array([0, 1]), np.array([1, r.steps[-1]]))
    ),
    "sums": lambda r, _: of_table(r.sums("1d")),
    "total": each(lambda r, n: of_answers(r.total(n.one, of=n.of))),
    "number_of": each(
        lambda r, n: of_answers(answer(number_of(r.numbers, n.one, None, n.of), LEVEL))
    ),
    "whole_of": each(lambda r, n: of_answers(answer(whole_of(r.numbers, None, n.of), LEVEL))),
    "difference": each(lambda r, n: of_answers(r.difference(n.one, n.other, of=n.of))),
    "ratio": each(lambda r, n: of_answers(r.ratio(n.one, n.other, of=n.of))),
    "change": each(lambda r, n: of_answers(r.change(n.one, n.one, of=n.of, **apart(r)))),
    "share": each(lambda r, n: of_answers(r.share(n.one, of=n.of))),
    "combine": each(lambda r, n: of_answers(r.combine({n.one: 1, n.other: 0.5}, of=n.of))),
    "between of quantiles": lambda r, _: of_quantiles(r),
}
#: Methods that return numbers and have a test of their own below, or no error of noise alone.
ELSEWHERE = {"lazy_table", "jointly", "versions"}
#: Functions that a method of `Release` only calls.
CALLED = {
    "table_of",
    "published_form",
    "sums_of_periods",
    "compare",
    "total_of",
    "share_of",
    "weighted_sum_of",
    "versions_of",
}
#: Series that other questions, or tests of rolling and decayed sums, read.
OF_SERIES = {"published", "windows_of", "rolling", "decayed"}
#: How much wider than one alone intervals may be that hold for several numbers at once.
SEVERAL = {"band": 2.2}


def _methods_and_functions() -> Iterator[tuple[str, Any]]:
    """Yield what may return released numbers, by name."""
    for owner in (ReleaseData, CellSeries, Release):
        yield from vars(owner).items()
    for module in (released_table, period_sums, questions, versions):
        for name, function in vars(module).items():
            if getattr(function, "__module__", None) == module.__name__:
                yield name, function


def test_cases_cover_every_method_with_an_answer() -> None:
    told = ("Answer", "DataFrame", "LazyFrame", "SeriesNumbers", "Estimate", "list[Self]")
    asked = set()
    for name, method in _methods_and_functions():
        function = method.fget if isinstance(method, property) else method
        function = method.func if isinstance(method, cached_property) else function
        returned = str(getattr(function, "__annotations__", {}).get("return", ""))
        if not name.startswith(("_", "to_")) and any(one in returned for one in told):
            asked.add(name)
    named = {*QUESTIONS, *ELSEWHERE, *CALLED, *OF_SERIES}
    assert asked | {"jointly", "between of quantiles"} == named
    assert set(ALONE) == {*keywords()}, "add it to PARTS, or to ALONE"
    tallied = {
        name for name in keywords() if issubclass(statistic_named(name), AccumulatorStatistic)
    } - {"report"}
    # In a report it needs users with a bound, as tests/statistics/test_reach.py has them.
    assert {*PARTS, "reach", "distinct"} == tallied


class Checked(NamedTuple):
    """How far what is said of errors is from what they are, at the worst: 1 is right.

    Attributes:
        least, most: of standard deviations.
        narrowest, widest: of half-widths, over that of a normal law.
    """

    least: float
    most: float
    narrowest: float
    widest: float


def check(stream: Stream, kind: str, part: str) -> Iterator[tuple[str, Checked]]:
    """Of each question that the statistic answers."""
    distribution = covariance(kind, stream.design.distribution) * stream.unit**2
    found = stream.released(part, stream.exact)
    names = names_of(found)
    numbers = range(stream.exact.shape[1])[stream.parts[part]]
    spread = np.sqrt(np.diag(distribution))
    moved = {}
    for step in range(len(stream.exact)):
        for cell in numbers:
            values = stream.exact.copy()
            values[step, cell] += spread[step] / 16
            moved[step, cell] = stream.released(part, values)
    for question, ask_it in QUESTIONS.items():
        try:
            value, std, half = ask_it(found, names)
        except InvalidInputError:
            continue
        with pytest.MonkeyPatch.context() as patched:  # of what is moved the value is enough
            for number in (Formula, Ratio):
                patched.setattr(number, "interval", lambda _, level: (0.0, 0.0))
                patched.setattr(number, "std", 0.0)
            slopes = np.array([
                [16 * (ask_it(moved[step, cell], names)[0] - value) / spread[step]
                 for cell in numbers]
                for step in range(len(stream.exact))
            ])  # fmt: skip
        errors = np.einsum("scr,st,tcr->r", slopes, distribution, slopes)
        true = np.sqrt(errors)
        known = (true > 0) & np.isfinite(std)
        if not known.any():
            continue
        stds = std[known] / true[known]
        halves = half[known] / true[known] / norm.isf((1 - LEVEL) / 2)
        yield question, Checked(stds.min(), stds.max(), halves.min(), halves.max())


CASES = [*((name, "") for name in ALONE if name != "report"), *(("report", part) for part in PARTS)]


def is_right(name: str, question: str, kind: str, found: Checked) -> bool:
    # A single draw of Laplace noise lies within this more often than a normal one does.
    narrowest = 0.88 if kind.endswith("laplace") else 0.99
    widest = 1.04 * SEVERAL.get(question, 1.35 if name == "top-k" else 1.0)
    right = 0.99 < found.least <= found.most < 1.01
    return right and narrowest < found.narrowest <= found.widest < widest


#: Each strategy has one law above, and here its other one, which statistics have no code for: each
#: of these three meets a ninth of them.
CROSSED = ("tree, gaussian", "fractions, laplace", "one draw, laplace")
KINDS = [pytest.param(one, marks=[pytest.mark.slow] * (one in CROSSED)) for one in STRATEGIES]


def cases_of(kind: str) -> list[tuple[str, str]]:
    """Statistics and parts that are tried with a strategy and a law.

    A part of a report meets two of the three that are not crossed.
    """
    if kind in CROSSED:
        return in_turn(CASES, 9, first=CROSSED.index(kind))
    left = [kind for kind in STRATEGIES if kind not in CROSSED].index(kind)
    parts = [part for place, part in enumerate(PARTS) if ALL or place % 3 != left]
    return [(name, part) for name, part in CASES if not part or part in parts]


def test_cases_combine_strategies_and_both_distributions() -> None:
    for case in CASES:
        met = [kind for kind in STRATEGIES if case in cases_of(kind)]
        if case[0] == "report":  # each statistic meets all of them alone
            assert len(met) >= 2, case
            continue
        for part in ("tree", "fractions", "one draw", "laplace", "gaussian"):
            assert any(part in kind for kind in met), (case, part)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_the_noise(kind: str) -> None:
    assert (STRATEGIES[kind][0].facts.fraction_bits > 0) == kind.startswith("fractions")
    asked: set[str] = set()
    wrong: dict[tuple[str, str, str], Checked] = {}
    for name, part in cases_of(kind):
        found = dict(check(stream_of(name, kind), kind, part))
        assert found, (name, part)
        asked |= {*found}
        wrong |= {
            (name, part, question): one
            for question, one in found.items()
            if not is_right(part or name, question, kind, one)
        }
    assert not wrong, "".join(f"\n{key}: {tuple(map(float, one))}" for key, one in wrong.items())
    if STRATEGIES[kind][0].horizon != 1 and kind not in CROSSED:
        assert asked == {*QUESTIONS}


@pytest.mark.parametrize("wrong", [1.3, long(1 / 1.3)])
def test_every_check_of_errors_detects_wrong_unit(
    wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Errors.in_data_units
    kind = "fractions, gaussian"
    monkeypatch.setattr(Errors, "in_data_units", lambda self, x: wrong * right(self, x))
    stream_of.cache_clear()  # a design keeps half-widths that it has found
    for name, part in [("sum", ""), ("quantiles", "")]:
        for question, found in check(stream_of(name, kind), kind, part):
            assert not is_right(name, question, kind, found), question
    stream_of.cache_clear()


JOINT = [("sum", ""), ("average", ""), ("report", "sum"), ("report", "average")]


@pytest.mark.parametrize("kind", ["tree, laplace", "fractions, gaussian"])
@pytest.mark.parametrize(("name", "part"), JOINT)
def test_bands_and_simulations_have_noise_of_release(
    name: str, part: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count(1)
    monkeypatch.setattr(
        Key, "generate", staticmethod(lambda: chosen_key(next(numbers).to_bytes(32, "big")))
    )
    stream = stream_of(name, kind)
    found = stream.released(part, stream.exact)
    of = "sum" if name == "average" or part == "average" else None
    asked = names_of(found)[-1]._replace(of=of)
    one = answer(number_of(found.numbers, asked.one, None, asked.of), LEVEL)
    assert one.asked is not None
    if one.asked.formula is not None and one.asked.formula.linear:
        # Both miss together, so both hold together as often as one of them does.
        for both in jointly([one, one]):
            share = (both.upper - both.lower) / (one.upper - one.lower)
            assert 0.87 < share < 1.04
    # Nor is a band narrower.
    if found.numbers.metadata.statistic.additive and len(stream.exact) > 1:
        alone = found.only(groups=found.numbers.groups[:1])
        band = alone.band()
        table = table_of_series(alone.numbers)
        wide = [(each["upper"] - each["lower"])[-1] for each in (band, table)]
        assert 0.99 < wide[0] / wide[1] < 1.5
    released = stream.released("", stream.exact)
    drawn = [each.part(part) if part else each for each in simulate(released, n=250)]
    errors = []
    for name in (asked.one, asked.other):
        known = number_of(found.numbers, name, None, asked.of)
        values = [number_of(each.numbers, name, None, asked.of).value for each in drawn]
        errors.append((np.array(values) - known.value) / known.std)
    assert 0.87 < np.sqrt(np.mean(np.square(errors))) < 1.13


def test_one_place_multiplies_errors_by_the_unit() -> None:
    """Others read the resolution for what is no error: a grid of values."""
    source = Path(counton.__file__).parent
    reads = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if re.search(r"\bdesign\.units\.exact\b", file.read_text("utf-8"))
    }
    assert reads == {
        "continual/formulas.py",
        "planning/lower_bounds.py",
        "state/verification.py",
    }


def test_signatures_name_all_options() -> None:
    """An editor completes them, and ``help`` shows them."""
    for name, keys in (("difference", Comparison), ("plot", ChartWords)):
        shown = inspect.signature(getattr(Release, name)).parameters
        assert {*keys.__annotations__} <= {*shown}
        assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in shown.values())
    assert inspect.signature(Release.ratio).parameters["at_once"].default == 1
