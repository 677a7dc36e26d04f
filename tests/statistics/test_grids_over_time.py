"""Lines of cells and contingency tables over time: boxes add up exactly, norms multiply."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, check_exact, check_sensitivity, one_replaced
from keys import chosen_key

from counton import ZCDP, ApproxDP, Contingency, PureDP, Ranges, RunningStatistic
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.privacy import Guarantee
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import KAry, SqrtToeplitz
from counton.strategies.participation import Norm
from counton.tables.grid import Grid

#: A guarantee for each norm that calibrates its noise.
PROMISES = {1: PureDP(1), 2: ZCDP(1)}
HOURS = ["a", "b", "c", "d", "e"]
COLUMNS = {"sex": ["f", "m"], "from": ["n", "s", "e"]}
KINDS: list[tuple[Any, list[Any]]] = [
    (Ranges(HOURS), HOURS),
    (Ranges(HOURS, line="hierarchy", workload="prefixes"), HOURS),
    (Contingency(COLUMNS), list(itertools.product(*COLUMNS.values()))),
    (Contingency(COLUMNS, equal=True), list(itertools.product(*COLUMNS.values()))),
]
NAMES = ["line", "hierarchy", "table", "equal"]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("statistic", "cells"), KINDS, ids=NAMES)
def test_no_event_moves_more_than_claimed(statistic: Any, cells: list[Any], norm: Norm) -> None:
    settled = statistic.resolve_parameters(PROMISES[norm])
    check_sensitivity(settled, 2, one_replaced(cells, 2))
    replaced = type(statistic)(
        **{**statistic.parameters, "neighbours": "replace"}
    ).resolve_parameters(PROMISES[norm])
    check_sensitivity(replaced, 2, one_replaced(cells, 2, cells), slack=2.5)
    assert statistic.allows(settled)
    assert not settled.allows(replaced)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(("statistic", "cells"), KINDS, ids=NAMES)
def test_boxes_are_unbiased_with_stated_variance(
    statistic: Any, cells: list[Any], norm: Norm
) -> None:
    """Each box is a linear function of what is measured: its row, written out."""
    this = statistic.resolve_parameters(PROMISES[norm])
    count = this.n_accumulators
    rows = this.measure(np.eye(count, dtype=np.int64)).reshape(count, -1).astype(float)
    back = np.array(
        [this.grid.estimate(row.reshape(this.cells)).ravel() for row in np.eye(rows.shape[1])]
    )
    assert np.allclose(rows @ back, np.eye(count), atol=1e-9)
    ends = [list(itertools.combinations(range(size + 1), 2)) for size in this.shape]
    for box in itertools.product(*ends):
        low, high = (np.array([[side[end]] for side in box]) for end in (0, 1))
        held = np.zeros(this.shape)
        held[tuple(slice(*side) for side in box)] = 1
        row = back @ held.ravel()
        assert float(row @ row) == pytest.approx(float(this.grid.variance(low, high)[0]))


@pytest.mark.parametrize(("statistic", "cells"), KINDS, ids=NAMES)
@pytest.mark.parametrize(
    ("guarantee", "strategy"),
    [(PureDP(1), KAry(4, 2, True)), (ZCDP("1/2"), SqrtToeplitz(4)), (ApproxDP(1, "1e-6"), None)],
    ids=["laplace", "gaussian", "chosen"],
)
def test_released_boxes_add_up_over_cells_and_time(
    statistic: Any, cells: list[Any], guarantee: Guarantee, strategy: Any
) -> None:
    counter: Any = RunningStatistic.start(
        statistic, 4, guarantee, key=chosen_key(), name="m", strategy=strategy, batched=True
    )
    months = [[cell for k, cell in enumerate(cells) for _ in range(k % 3 + n)] for n in range(4)]
    steps = [counter.release_batch(month) for month in months]
    windows = [steps[0], *(now.since(was) for was, now in itertools.pairwise(steps))]
    for reading in (*steps, *windows, steps[3].since(steps[1])):
        one = sum(Fraction(reading[cell]) for cell in cells)
        assert one == Fraction(reading.total) == Fraction(reading[None])
        assert float(one) == sum(reading.counts.ravel().tolist())
        if isinstance(statistic, Contingency):
            table = reading.table_columns()
            empty = np.array([[one is None for one in table[name]] for name in COLUMNS])
            for margin in set(map(tuple, empty.T.tolist())):
                rows = np.all(np.array(margin) == empty.T, axis=1)
                parts = [Fraction(each) for each in table["estimate"][rows].tolist()]
                assert sum(parts) == one
        else:
            assert Fraction(reading["a", "c"]) + Fraction(reading["c", None]) == one
            assert Fraction(reading.table_columns()["estimate"][-1]) == one
    for cell in cells:
        assert sum(Fraction(window[cell]) for window in windows) == Fraction(steps[3][cell])
    low, high = steps[3].interval(cells[0], 0.99)
    assert low < steps[3][cells[0]] < high
    assert steps[3].std(cells[0]) > 0


def test_a_count_is_as_many_events() -> None:
    for statistic, cells in KINDS[::2]:
        once = statistic.resolve_parameters(PureDP(1))
        often: Any = type(statistic)(**{**statistic.parameters, "counts": True}).resolve_parameters(
            PureDP(1)
        )
        same = [(cells[0], 3), (cells[0], 1), (cells[1], 1), (cells[2], 0)]
        one = changes_of(once, [[cells[0]] * 4 + [cells[1]]])
        assert np.array_equal(one, changes_of(often, [same]))
        assert often.contribution().pattern == once.contribution().pattern
        check_exact(often, [same, [], [(cells[2], 2)]])


def test_rows_are_encoded_by_labels() -> None:
    table = Contingency(COLUMNS)
    assert [part.labels for part in table.parts] == [("f", "m"), ("n", "s", "e")]
    said = table.encode(np.array([0, 1, -1, 0, -2, 1]), np.array([0, 2, 0, -1, 0, 0]))
    assert said.tolist() == [0, 5, -1, -1, -1, 3]
    counted = Ranges(HOURS, counts=True).encode(np.array([2, -2]), np.array([3.0, 3.0]))
    assert counted.tolist() == [17, -1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ranges(["a", "a"]), "list of different texts"),
        (lambda: Ranges([]), "list of different texts"),
        (lambda: Ranges("abc"), "list of different texts"),
        (lambda: Ranges(HOURS, workload="all"), "workload is 'all'"),
        (lambda: Ranges(HOURS, line="squares"), "line is 'squares'"),
        (
            lambda: Ranges(HOURS, line="square_root").resolve_parameters(ZCDP(1), 4),
            "cannot serve 4 steps",
        ),
        (lambda: Ranges(HOURS, grid=Ranges(["x"])._choose(1)), "build it for these"),
        (lambda: Contingency({}), "from each column to its labels"),
        (lambda: Contingency({"noise_std": ["a"]}), "rename the column"),
        (lambda: Contingency({str(n): ["a", "b"] for n in range(13)}), "at most 1,000,000"),
        (lambda: Ranges(HOURS).interval_of("3:9"), "is not within the"),
        (lambda: Ranges(HOURS).interval_of("c"), "is not an interval"),
    ],
)
def test_grids_refuse_invalid_arguments(make: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (("c", "a"), r"the interval \('c', 'a'\) ends before it begins"),
        (
            ("a", "b", "c"),
            r"\('a', 'b', 'c'\) names no interval. Give its two ends, as in \('a', None",
        ),
    ],
    ids=str,
)
def test_ranges_wrong_interval_is_quoted(name: Any, words: str) -> None:
    counter = RunningStatistic.start(Ranges(list("abc")), 2, ZCDP(2), key=chosen_key(), name="line")
    with pytest.raises(InvalidInputError, match=words):
        counter.release_batch(["a"])[name]


def test_events_and_sums_that_cannot_be_are_refused() -> None:
    counter = RunningStatistic.start(
        Contingency(COLUMNS), 4, PureDP(1), key=chosen_key(), name="m", batched=True
    )
    short = ("f",)
    unknown = ("x", "n")
    no_text = (["f"], "n")
    for event, words in (
        (short, "a label for each"),
        (unknown, "not among the labels"),
        (no_text, "not among the labels"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            counter.release_batch([event])
    reading: Any = counter.release_batch([])
    for name, words in (
        ("f", "as in .f/\\*"),
        (("f", "q"), "not among the labels of .from.: give one of"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            reading[name]
    with pytest.raises(InvalidInputError, match="only once"):
        reading.margin("sex", "sex")
    with pytest.raises(SumOverflowError, match="can be measured exactly"):
        Ranges(HOURS, line="hierarchy").resolve_parameters(ZCDP(1)).measure(np.full((1, 5), 2**60))


def test_the_strategy_is_chosen_for_the_guarantee() -> None:
    hours = Ranges([str(hour) for hour in range(24)])
    laplace = hours.resolve_parameters(PureDP(1))
    gaussian = hours.resolve_parameters(ZCDP(1), 99)
    assert laplace.grid == hours._choose(1)
    assert gaussian.grid == hours._choose(2)
    assert isinstance(gaussian.grid, Grid)
    assert laplace != gaussian
    assert hours.resolve_parameters(ApproxDP(1, "1e-5"), 99) == gaussian
    assert "first cells together" in plan_statistic(hours, 9, PureDP(1)).describe()
    assert "any margin" in plan_statistic(Contingency(COLUMNS), 9, PureDP(1)).describe()
