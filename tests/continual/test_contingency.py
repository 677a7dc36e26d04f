"""Contingency tables: all margins agree, with the variances of the Kronecker product."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from once import released

from counton import ZCDP, Contingency, PureDP
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.tables.grid import margins_strategies

KEY = chosen_key()
DOMAIN: dict[str, Any] = {
    "age": ["young", "middle", "old"],
    "sex": ["f", "m"],
    "smokes": ["no", "yes"],
}
COLUMNS = [*DOMAIN]


def people(rows: int = 5000) -> list[tuple[str, ...]]:
    rng = np.random.default_rng(0)
    return [tuple(row) for row in zip(*(rng.choice(DOMAIN[n], rows) for n in COLUMNS), strict=True)]


def margins(of: Any) -> list[tuple[str, ...]]:
    every = (itertools.combinations(COLUMNS, count) for count in range(len(COLUMNS) + 1))
    return [*itertools.chain.from_iterable(every)]


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), PureDP(0.5)])
@pytest.mark.parametrize("equal", [False, True])
def test_margins_agree_with_each_other_and_with_the_truth(guarantee: Guarantee, equal: Any) -> None:
    rows = [tuple(map(str, row)) for row in people()]
    counted = Counter(rows)
    reading = released(Contingency(DOMAIN, equal=equal), rows, guarantee, KEY)
    for columns in margins(reading):
        margin = reading.margin(*columns)
        for row, estimate in enumerate(margin["estimate"]):
            named = {name: margin[name][row] for name in columns}
            parts = [
                cell
                for cell in itertools.product(*DOMAIN.values())
                if all(cell[COLUMNS.index(name)] == value for name, value in named.items())
            ]
            assert sum(reading[cell] for cell in parts) == estimate
            truth = sum(counted[cell] for cell in parts)
            assert abs(truth - estimate) < 9 * margin["noise_std"][row]
    stds = {
        tuple(columns): reading.margin(*columns)["noise_std"][0] for columns in margins(reading)
    }
    if equal:
        assert np.ptp(list(stds.values())) == pytest.approx(0, abs=1e-9)
    else:
        assert stds[()] > stds[tuple(COLUMNS)]


def test_other_columns_or_values_never_meet_the_same_noise() -> None:
    """Tables of one shape under one key and name, as somebody with little time would make them."""

    def noise(
        column: str, values: list[str], name: str = "table", **more: Any
    ) -> tuple[float, ...]:
        counts = "counts" in more
        event: Any = ((values[0],), 7) if counts else (values[0],)
        events = [event] * (1 if counts else 7)
        reading = released(Contingency({column: values}, **more), events, ZCDP(0.5), KEY, name)
        return tuple(reading.margin(column)["estimate"])

    base = noise("sex", ["f", "m"])
    assert base == noise("sex", ["f", "m"])
    others = {
        base, noise("smokes", ["f", "m"]), noise("sex", ["f", "other"]), noise("sex", ["m", "f"]),
        noise("sex", ["f", "m"], counts=True), noise("sex", ["f", "m"], neighbours="replace"),
        noise("sex", ["f", "m"], name="second"),
    }  # fmt: skip
    assert len(others) == 7
    assert len({first - second for first, second in others}) == 7


def test_unknown_margins_are_refused() -> None:
    reading = released(Contingency({"sex": ["f", "m"]}), [], ZCDP(1), KEY)
    for columns in (["height"], ["sex", "sex"]):
        with pytest.raises(InvalidInputError, match="give names among sex"):
            reading.margin(*columns)


@pytest.mark.parametrize(("columns", "excess"), [(1, 1e-6), (6, 1e-4), (12, 0.003), (16, 0.03)])
def test_small_weights_lose_little_with_many_columns(columns: Any, excess: Any) -> None:
    """Least error times squared sensitivity of one binary column: 1 + (sqrt 3 - 1) b, norm 2."""
    axes = margins_strategies([2] * columns, 2, equal=False)
    both = np.array([0, 1, 0]), np.array([1, 2, 2])  # either cell, and their sum
    error = math.prod(axis.squared_sensitivity() * axis.variance(*both).sum() for axis in axes)
    least = ((1 + math.sqrt(3)) ** 2 / 2) ** columns  # (trace of the root)^2 over the cells
    assert 1 - 1e-9 <= error / least <= 1 + excess
    assert math.prod(axis.largest_entry for axis in axes) <= 2**28


def test_laplace_margins_of_two_cells_measure_no_sum() -> None:
    assert [axis.weights for axis in margins_strategies([2, 2], 1, equal=False)] == [(1, 0)] * 2
    (wide,) = margins_strategies([50], 1, equal=False)
    assert 0 < wide.weights[1] < wide.weights[0]
