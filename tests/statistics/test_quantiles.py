"""Distributions over time: norms multiply, ranges and quantiles hold as often as stated."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, check_sensitivity, one_replaced, simulated
from started import started

from counton import ZCDP, ApproxDP, Average, ExpiringDP, PureDP, Quantiles
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.run import Job, run
from counton.statistics import unit_sensitivity
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.strategies import Binary, Expiring, KAry
from counton.tables import Haar, Nodes

HORIZON = 3
VALUES = (-3, 1, 2, 9)
EDGES = [0, 1, 2, 3, 5]
LINES = [Nodes.independent(4), Nodes(4, (2, 2), (3, 1, 2)), Haar(4, (2, 3, 1))]


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_no_value_moves_more_than_claimed(line: Any) -> None:
    """Sensitivities multiply; of two columns in the same step the distance is what counts."""
    statistic = Quantiles(EDGES, line=line)
    check_sensitivity(statistic, HORIZON, one_replaced(VALUES, HORIZON))
    replaced = Quantiles(EDGES, line=line, neighbours="replace")
    check_sensitivity(replaced, HORIZON, one_replaced(VALUES, HORIZON, VALUES))


CELLS = Quantiles(lower=0, upper=1, cells=40)


def test_quantiles_choose_line_by_norm_of_guarantee() -> None:
    laplace = CELLS.resolve_parameters(PureDP(1))
    gaussian = CELLS.resolve_parameters(ZCDP(1), 99)
    assert (laplace.line, gaussian.line) == (CELLS._choose(1), CELLS._choose(2))
    assert laplace.line != gaussian.line
    assert CELLS.resolve_parameters(ApproxDP(1, "1e-5"), 99).line == gaussian.line
    assert CELLS.resolve_parameters(ApproxDP(1, "1e-30"), 2).line == laplace.line
    assert laplace.resolve_parameters(ZCDP(1)) is laplace


def test_unresolved_quantiles_have_sensitivity_of_chosen_line() -> None:
    laplace = CELLS.resolve_parameters(PureDP(1))
    gaussian = CELLS.resolve_parameters(ZCDP(1), 99)
    assert unit_sensitivity(CELLS, Binary(7), 1) == unit_sensitivity(laplace, Binary(7), 1)
    assert unit_sensitivity(CELLS, Binary(7), 2) == unit_sensitivity(gaussian, Binary(7), 2)


def test_quantiles_allow_only_their_own_cells_and_line() -> None:
    laplace = CELLS.resolve_parameters(PureDP(1))
    assert CELLS.allows(laplace)
    assert not laplace.allows(CELLS.resolve_parameters(ZCDP(1), 99))
    assert not Quantiles(lower=0, upper=2, cells=40).allows(laplace)


def test_quantiles_keep_line_that_is_named() -> None:
    named = Quantiles(EDGES, line="haar")
    assert isinstance(named.resolve_parameters(ZCDP(1)).line, Haar)
    assert named.allows(named.resolve_parameters(ZCDP(1)))
    assert not named.allows(Quantiles(EDGES, line="hierarchy").resolve_parameters(ZCDP(1)))
    assert statistic_from_dict(statistic_to_dict(named)) == named


def test_running_quantiles_measure_the_chosen_line() -> None:
    laplace = CELLS.resolve_parameters(PureDP(1))
    running = started(CELLS, 9, PureDP(1))
    assert running.design.shape == (laplace.line.measurements,)
    assert running.statistic == laplace


def test_wrong_values_change_nothing() -> None:
    running = started(Quantiles(EDGES), guarantee=ZCDP(1), strategy=Binary(5), batched=True)
    reading: Any = running.release_batch([3, 4])
    saved = running.checkpoint()
    for wrong, why in (([3, np.nan], "nan at position 1"), (["x"], "numbers"), ([[3]], "one")):
        with pytest.raises(InvalidInputError, match=why):
            running.release_batch(wrong)
    assert running.checkpoint() == saved
    for low, high, why in ((0, 4, "ask for 3 or 5"), (2, 1, "below high")):
        with pytest.raises(InvalidInputError, match=why):
            reading.between(low, high)
    with pytest.raises(InvalidInputError, match="above 0 and below 1"):
        reading.quantile(1)
    many: list[Any] = [[1, 1], [1], [0, np.inf], "ab"]
    for edges in many:
        with pytest.raises(InvalidInputError, match=f"edges are {re.escape(repr(edges))}"):
            Quantiles(edges)
    with pytest.raises(InvalidInputError, match="build it for that number"):
        Quantiles([0, 1], line=LINES[0])
    with pytest.raises(InvalidInputError, match="one of identity"):
        Quantiles(EDGES, line="trees")


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_quantile_statistic_has_stated_variance(line: Any) -> None:
    edge = np.arange(5)[:, None]
    cell = np.arange(4)
    weights = (cell < edge) - 0.3
    found = [line.functional_variance(row[None]) for row in weights]
    np.testing.assert_allclose(Quantiles(EDGES, line=line).excess_variance(0.3), found)


@pytest.mark.parametrize(
    ("guarantee", "strategy", "most"),
    [(ZCDP("1/1000"), Binary(7), 0.97), (PureDP("1/20"), KAry(7, 3, True), 0.99)],
)
def test_intervals_of_quantiles_have_stated_coverage(
    guarantee: Guarantee, strategy: Any, most: float
) -> None:
    """Of quantiles, neither too seldom nor always."""
    statistic = Quantiles(lower=0, upper=64, cells=64)
    level = 0.9
    values = np.random.default_rng(3).gamma(4, 6, 5000)
    running = started(statistic, guarantee=guarantee, strategy=strategy, batched=True)
    exact = changes_of(running.statistic, [values.tolist()])[0]
    shares = (0.1, 0.5, 0.9)
    runs = 250
    truth = np.sort(np.clip(values, 0, 64))[[int(np.ceil(s * len(values))) - 1 for s in shares]]
    held, near = np.zeros((2, len(shares)))
    for reading in simulated(running, exact, 3, runs):
        columns = reading.table_columns(level, shares)
        held += (columns["lower"] <= truth) & (truth < columns["upper"])
        near += np.abs(columns["estimate"] - truth) < 15
    spread = 4 * np.sqrt(level * (1 - level) / runs)
    assert held.min() / runs >= level - spread
    assert held.min() / runs <= most
    assert near.min() > 0.8 * runs


def test_windows_and_old_values_that_expire() -> None:
    statistic = Quantiles(EDGES)
    running = started(statistic, guarantee=ExpiringDP(epsilon=10**4), strategy=Expiring(1))
    readings: Any = running.release_many([0.5, 0.5, 4, 2.5, 1e9])
    assert [readings[4].between(*ends).value for ends in ((0, 1), (3, 5), (None, 3))] == [2, 2, 3]
    window = readings[4].since(readings[1])
    assert [window.between(*ends).value for ends in ((0, 1), (3, 5), (None, 3))] == [0, 2, 1]
    median = window.median()
    assert (median.lower, median.upper) == (3, 5)
    assert 3 < median.value < 5
    assert readings[1].median()[1:] == (0.5, 0, 1)
    nobody = readings[4].since(readings[4])
    assert nobody.median()[1:] == (2.5, 0, 5)


_NO_NUMBERS = {
    "masked": np.ma.array([0.5, 1.5], mask=[False, True]), "complex": np.array([1 + 2j]),
    "date": np.array(["1970-01-02"], "M8[D]"), "duration": np.array([1], "m8[D]"),
    "bytes": [b"1.5"], "text": ["1.5"], "object": np.array(["1.5"], object),
    "booleans": [True, False], "boolean": np.array([True], object), "huge": [10**400],
}  # fmt: skip


@pytest.mark.parametrize("wrong", _NO_NUMBERS.values(), ids=_NO_NUMBERS)
def test_quantiles_and_average_refuse_other_types(wrong: Any) -> None:
    for statistic in Quantiles(EDGES, line="identity"), Average(0, 5, 1):
        with pytest.raises(InvalidInputError):
            statistic.begin().take(wrong, np.array([len(wrong)]))


def test_replaced_value_changes_rows_by_largest_distance_of_columns() -> None:
    for cells, line in (2, "square_root"), (3, "haar"), (5, "cascade"), (5, "hierarchy"):
        statistic = Quantiles(lower=0, upper=cells, cells=cells, line=line, neighbours="replace")
        columns = statistic.line.matrix().T
        apart = np.abs(columns[:, None] - columns[None, :])
        pattern: Any = statistic.contribution().pattern
        assert pattern.l1 == apart.sum(axis=2).max()
        assert pattern.l2_squared == (apart**2).sum(axis=2).max()


def test_zero_has_one_sign() -> None:
    assert hash(Quantiles([-0.0, 1])) == hash(Quantiles([0.0, 1]))
    with pytest.raises(InvalidInputError, match="give a list of numbers"):
        Quantiles([0, 10**400])


def test_intervals_of_values_between_have_normal_width() -> None:
    statistic = Quantiles([0, 1, 2, 3], line="identity")
    reading: Any = started(statistic, guarantee=ZCDP("1/900"), strategy=Binary(3)).release(1)
    found = reading.between(0, 2)
    assert 1.9599 <= (found.upper - found.lower) / 2 / found.std <= 2.1


def test_the_cells_strategy_is_chosen_by_the_first_run(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    statistic = Quantiles(lower=0, upper=5, cells=20)
    for last in (2, 3):
        rows = "".join(f"2024-03-0{1 + value},{value}.5\n" for value in range(last))
        events.write_text("day,delay\n" + rows)
        when: Any = {"time": "day", "every": "1d", "start": "2024-03-01", "windows": 9}
        when["until"] = f"2024-03-0{1 + last}"
        state = tmp_path / "s.db"
        with run(Job(statistic, events, state, value="delay", epsilon=50, **when)) as outcome:
            assert outcome.after == last
            assert outcome.spec.metadata().statistic == statistic.resolve_parameters(PureDP(50))
