"""Contingency tables: all margins agree, with the variances of the Kronecker product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from keys import chosen_key

from counton.errors import InvalidInput, SumOverflow
from counton.privacy import ZCDP, PureDP
from counton.store import release_contingency, release_ranges
from counton.strategies.lines.grid import margins_strategies
from counton.strategies.lines.workloads import Margins

KEY = chosen_key()
DOMAIN: dict[str, Any] = {
    "sex": ["f", "m"],
    "age": ["young", "middle", "old"],
    "smokes": [False, True],
}
COLUMNS = ["age", "sex", "smokes"]


def people(rows: Any = 5000) -> Any:
    rng = np.random.default_rng(0)
    return pl.DataFrame({name: rng.choice(DOMAIN[name], rows).tolist() for name in COLUMNS})


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), PureDP(0.5)])
@pytest.mark.parametrize("equal", [False, True])
def test_margins_agree_with_each_other_and_with_the_truth(guarantee: Any, equal: Any) -> None:
    data = people()
    table = release_contingency(
        data, columns=COLUMNS, domain=DOMAIN, guarantee=guarantee, key=KEY, equal=equal
    )
    for columns in ([], ["sex"], ["sex", "age"], ["smokes", "sex", "age"]):
        margin = table.margin(*columns)
        finer = table.table(*columns, *[name for name in COLUMNS if name not in columns])
        for row, estimate in enumerate(margin["estimate"]):
            wanted = pl.lit(True)
            for name in columns:
                wanted &= pl.col(name) == margin[name][row]
            assert finer.filter(wanted)["estimate"].sum() == estimate
            assert abs(data.filter(wanted).height - estimate) < 9 * margin["std"][row]
    stds = {
        tuple(columns): table.margin(*columns)["std"][0]
        for columns in ([], ["sex"], ["age", "sex"], COLUMNS)
    }
    if equal:
        assert np.ptp(list(stds.values())) == pytest.approx(0, abs=1e-9)
    else:
        assert stds[()] > stds[tuple(COLUMNS)]


def test_default_weights_have_the_least_error_over_all_margins() -> None:
    def error(**changed: Any) -> Any:
        table = release_contingency(
            people(10), columns=COLUMNS, domain=DOMAIN, guarantee=ZCDP(0.5), key=KEY, **changed
        )
        return sum(
            (table.margin(*columns)["std"] ** 2).sum()
            for columns in (
                [],
                ["age"],
                ["sex"],
                ["smokes"],
                ["age", "sex"],
                ["age", "smokes"],
                ["sex", "smokes"],
                COLUMNS,
            )
        ), table.ranges.expected_error

    best, stated = error()
    assert best == pytest.approx(stated)
    assert best < error(equal=True)[0]


def test_counts_in_a_column() -> None:
    data = {"sex": ["f", "m", "f"], "n": [10, 20, 5]}
    table = release_contingency(
        data, columns=["sex"], domain=DOMAIN, value="n", guarantee=ZCDP(50), key=KEY
    )
    assert table.margin("sex")["estimate"] == pytest.approx([15, 20], abs=1)
    assert "columns sex: 2 cells" in str(table)


def test_other_columns_or_values_never_meet_the_same_noise() -> None:
    """Tables of one shape under one key and name, as somebody with little time would make them."""

    def noise(column: str, values: Any, **changed: Any) -> Any:
        data = {column: np.repeat(values[:1], 7), "n": np.ones(7, int), "m": np.ones(7, int)}
        table = release_contingency(
            data,
            columns=[column],
            domain={column: values},
            **{"guarantee": ZCDP(0.5), "key": KEY, **changed},
        )
        return tuple(table.margin(column)["estimate"])

    base = noise("sex", ["f", "m"])
    assert base == noise("sex", ["f", "m"])
    others = {
        base,
        noise("smokes", ["f", "m"]),
        noise("sex", ["f", "other"]),
        noise("sex", [0, 1]),
        noise("sex", ["f", "m"], value="n"),
        noise("sex", ["f", "m"], value="m"),
        noise("sex", ["f", "m"], name="second"),
        tuple(release_ranges([7, 0], guarantee=ZCDP(0.5), key=KEY, name="contingency").cells()),
    }
    assert len(others) == 8
    assert len({first - second for first, second in others}) == 8


def test_counts_that_would_wrap_around_are_noticed() -> None:
    data = {"sex": ["f"] * 16, "n": [2**60] * 16}
    with pytest.raises(SumOverflow, match=str(2**64)):
        release_contingency(
            data, columns=["sex"], domain=DOMAIN, value="n", guarantee=ZCDP(1), key=KEY
        )


@pytest.mark.parametrize(
    ("data", "changed", "message"),
    [
        ({"sex": ["x"]}, {}, "row 1 of the data: sex is 'x', which is not in the domain"),
        ({"sex": ["f", None]}, {}, "row 2 of the data: sex is missing"),
        ({"age": ["old"]}, {}, "no column 'sex'"),
        ({"sex": ["f"], "n": [-1]}, {"value": "n"}, "negative"),
        ({"sex": ["f"]}, {"domain": {}}, "does not list the values of 'sex'"),
        ({"sex": ["f"]}, {"domain": {"sex": []}}, "at least one"),
        ({"sex": ["f"]}, {"domain": {"sex": ["f", "f"]}}, "each once"),
        ({"sex": ["f"]}, {"domain": {"sex": ["f", None]}}, "different and not missing"),
        ({"sex": ["f"]}, {"domain": {"sex": [["f"], ["m"]]}}, "labels must be plain values"),
        ({"std": ["f"]}, {"domain": {"std": ["f"]}, "columns": ["std"]}, "called 'std'"),
        ({"sex": ["f"]}, {"guarantee": ZCDP(1e-30)}, "no gaussian noise is known"),
        ({"sex": ["f"]}, {"columns": []}, r"columns are \[\]; give a list of at least one column"),
        ({"sex": ["f"]}, {"columns": "sex"}, "columns are 'sex'"),
        ({"sex": ["f"]}, {"columns": ["sex", "sex"]}, r"columns \['sex', 'sex'\] repeat a name"),
        ({"sex": ["f"]}, {"value": "sex"}, r"columns \['sex', 'sex'\] repeat a name"),
    ],
)
def test_bad_tables_are_refused(data: Any, changed: Any, message: Any) -> None:
    arguments = {"columns": ["sex"], "domain": DOMAIN, "guarantee": ZCDP(1), "key": KEY, **changed}
    with pytest.raises(InvalidInput, match=message):
        release_contingency(data, **arguments)


def test_unknown_margins_are_refused() -> None:
    table = release_contingency(
        people(5), columns=["sex"], domain=DOMAIN, guarantee=ZCDP(1), key=KEY
    )
    for columns in (["height"], ["sex", "sex"]):
        with pytest.raises(InvalidInput, match="must be one of sex"):
            table.margin(*columns)


def test_tables_too_large_for_memory_are_refused_before_anything_is_counted() -> None:
    names = [f"column {number}" for number in range(20)]
    data = {name: [0, 1] for name in names}
    with pytest.raises(InvalidInput, match=r"1,048,576 cells in 20 columns .* 3,486,784,401 meas"):
        release_contingency(
            data,
            columns=names,
            domain={name: [0, 1] for name in names},
            guarantee=ZCDP(1),
            key=KEY,
        )
    many = [f"column {number}" for number in range(40)]
    with pytest.raises(InvalidInput, match="release fewer columns together"):
        release_contingency(
            {name: [0] for name in many},
            columns=many,
            domain={name: [0, 1, 2, 3] for name in many},
            guarantee=PureDP(1),
            key=KEY,
        )


@pytest.mark.parametrize(("columns", "excess"), [(1, 1e-6), (6, 1e-4), (12, 0.003), (16, 0.03)])
def test_small_weights_lose_little_with_many_columns(columns: Any, excess: Any) -> None:
    """Least error times squared sensitivity of one binary column: 1 + (sqrt 3 - 1) b, norm 2."""
    axes = margins_strategies([2] * columns, 2, equal=False)
    error = math.prod(axis.squared_sensitivity() * Margins(2).total(axis) for axis in axes)
    least = ((1 + math.sqrt(3)) ** 2 / 2) ** columns  # (trace of the root)^2 over the cells
    assert 1 - 1e-9 <= error / least <= 1 + excess
    assert math.prod(axis.largest_entry for axis in axes) <= 2**28


def test_with_laplace_noise_the_sum_of_two_cells_is_not_worth_measuring() -> None:
    assert [axis.weights for axis in margins_strategies([2, 2], 1, equal=False)] == [(1, 0)] * 2
    (wide,) = margins_strategies([50], 1, equal=False)
    assert 0 < wide.weights[1] < wide.weights[0]
