"""Tables of many groups at once say what each group's own table says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from counton import Counter, CountonError, Key, PureDP
from counton.continual.releases import StepRelease
from counton.continual.table_request import TableRequest
from counton.statistics import Average, Count, Grouped, Moments, Quantiles, Report, Statistic
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.results import StatisticResults
from counton.strategies import Binary

GROUPS = ["north", "south", "west"]
MOMENTS = Moments({"a": (0, 10), "b": (-5, 5)}, grid=16)
KINDS: list[Statistic] = [
    Average(-3, 60, resolution=1),
    MOMENTS,
    Quantiles(lower=0, upper=16, cells=16),
    Report(
        {"paid": Average(0, 9, 1), "rows": Count(), "spread": Quantiles(lower=0, upper=9, cells=9)},
        columns={"paid": "paid", "spread": "paid"},
    ),
]


def readings_of(inner: Statistic) -> StatisticResults:
    """Four steps of three groups; at first so little is counted that a mean is not known."""
    statistic = Grouped(inner, GROUPS).resolve_parameters(PureDP(1), 15)
    counter = Counter(
        Binary(15), PureDP(1), key=Key.generate(), name="groups", shape=statistic.cells,
        contribution=statistic.contribution(batched=True),
        statistic=statistic_to_dict(statistic),
    )  # fmt: skip
    steps = np.random.default_rng(5).integers(0, 60, (4, *statistic.cells)) * [
        [[1]], [[1]], [[90]], [[1]],
    ]  # fmt: skip
    cells = np.cumsum(steps, axis=0)
    cells[0] -= 40
    return StatisticResults.from_values(statistic, counter.design, cells)


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert list(one) == list(other)
    for name, values in one.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, other[name], rtol=1e-12, err_msg=name)
        else:
            assert values.tolist() == other[name].tolist(), name


def one_by_one(reading: Any, groups: Sequence[str]) -> dict[str, Any]:
    """The tables of groups below each other, each read by itself."""
    parts = [reading.of(group).numbers().columns(0.9) for group in groups]
    rows = [len(part["lower"]) for part in parts]
    found = {"group": np.repeat(np.array(groups), rows)}
    return found | {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("inner", KINDS, ids=lambda one: type(one).__name__)
def test_grouped_results_equal_results_of_each_group(inner: Statistic) -> None:
    readings = readings_of(inner)
    first = readings[0]
    last = readings[3]
    for reading in (first, last, last.since(first)):
        grouped: Any = reading
        same(grouped.numbers().columns(0.9), one_by_one(grouped, GROUPS))
        some = ["west", "north"]
        asked = TableRequest(groups=some)
        same(grouped.numbers(asked).columns(0.9), one_by_one(grouped, some))
        if isinstance(inner, Report):
            for name, one in inner.statistics.items():
                part: Any = inner.read_part(name, grouped.cells, Grouped(one, GROUPS))
                same(part.numbers().columns(0.9), one_by_one(part, GROUPS))


def test_groups_together_are_not_those_of_one_group() -> None:
    """A statistic that claims many groups and is of one gives another table, or none."""

    class Wrong(Average):
        many_groups = True

        def number_of(self, cells: Any, name: Any = None) -> Any:
            first = StepRelease(
                cells.release.step, np.ravel(cells.values)[:2], cells.std, cells.design
            )
            return super().number_of(type(cells)(first), name)

    right: Any = readings_of(Average(0, 9, resolution=1))[3]
    wrong = Wrong(0, 9, resolution=1)
    right.statistic = Grouped(wrong, GROUPS)
    with pytest.raises((AssertionError, CountonError)):
        same(right.numbers().columns(0.9), one_by_one(right, GROUPS))
