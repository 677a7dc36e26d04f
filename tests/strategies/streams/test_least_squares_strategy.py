"""Solved strategies: what is refused, correct rounding, one solution for all, long horizons."""

import math
import os
import re
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from calls import calls_of
from keys import chosen_key
from numpy.typing import NDArray
from programs import run_program
from some_cases import long

from counton import Counter, PureDP
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.privacy import ZCDP, Guarantee
from counton.strategies import LeastSquaresStrategy, StreamStrategy, strategy_from_dict
from counton.strategies.lines import least_squares
from counton.strategies.participation import Schedule
from counton.strategies.strategy import window_rounding
from counton.strategies.streams import block_tree, least_squares_strategy
from counton.tables import Dense, Haar, Hats
from counton.testing import HashedNoise
from counton.testing.rows import columns_in_order, largest_entry

HATS = Hats(8, (4,), [[8, 4, 8]], bits=4)


def line(cells: int, norm: Any = 1) -> Hats:
    spacings = (5, 31)
    rows = [0.2 + 0.1 * np.cos(np.arange(-(-cells // s) + 1)) for s in spacings]
    return Hats(cells, spacings, [np.rint(2**12 * row).astype(int) for row in rows], norm, bits=12)


SOLVED = [
    LeastSquaresStrategy(line(90)),
    LeastSquaresStrategy(
        Dense(np.vstack([3 * np.eye(40, dtype=int), np.ones((2, 40), int)]), "mine")
    ),
    LeastSquaresStrategy(
        Dense(np.triu(5 - np.add.outer(np.arange(30), -np.arange(30)) % 4), "no own cells")
    ),
    LeastSquaresStrategy(line(40, 2), (3, 2), norm=2),
    LeastSquaresStrategy(line(25), (4, 3), (5, 3, 2), horizon=297),
]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"line": Haar.cascade(8)}, "give a line strategy such as Hats or Dense"),
        ({"norm": 3}, "norm is 3"),
        ({"line": 10**5000}, "line is a value of type int; give a line strategy"),
        ({"radices": None}, "values of radix are None; give a list"),
        ({"radices": {2, 3}}, "values of radix are a value of type set"),
        ({"radices": b"23"}, "values of radix are b'23'"),
        ({"radices": range(10**30)}, "more than 64 values of radix are given"),
        (
            {"radices": (2,), "shares": iter((1,))},
            "values of share are a value of type tuple_iterator",
        ),
        ({"radices": (1,)}, "radix is 1"),
        ({"radices": (2**12, 2**12)}, "blocks have 16777216 steps"),
        ({"radices": (2,), "shares": (1, 1, 1)}, "shares are [1, 1, 1] and radices [2]"),
        ({"radices": (2,), "shares": (0, 1)}, "give one share above 0 for each of the 1 levels"),
        ({"horizon": 9}, "horizon is 9, but 8 blocks of 1 steps serve more than 7 and at most 8"),
        ({"radices": (3,), "horizon": 21}, "serve more than 21 and at most 24"),
        ({"line": SOLVED[2].line, "radices": (2,)}, "is not measured by itself"),
        (
            {"line": Hats(8, (), (), bits=24), "radices": (2, 2), "shares": (1024, 1024)},
            "too large for exact sums",
        ),
        (
            {"line": Hats(8, (), (), bits=24), "radices": (4, 3), "shares": (5, 3, 2)},
            "too large for exact sums",
        ),
    ],
)
def test_least_squares_refuses_invalid_arguments(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        LeastSquaresStrategy(**{"line": HATS, **changed})


@pytest.mark.parametrize("strategy", SOLVED, ids=repr)
def test_approximate_solutions_never_change_released_values(
    strategy: LeastSquaresStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor's floats, a bound that decides nothing, other numbers at a time."""
    table = HashedNoise((3,), spread=2**20)
    window = range(1, strategy.horizon + 1)
    usual = strategy.noise(table, window)
    solve = type(strategy._system.equations).solve
    solves = []

    def otherwise(self: Any, right: NDArray[np.float64]) -> NDArray[np.float64]:
        found = solve(self, right)
        solves.append(len(right))
        return found * (1 + wrong[-1] * np.cos(np.arange(found.size).reshape(found.shape)))

    wrong: list[float] = []
    monkeypatch.setattr(type(strategy._system.equations), "solve", otherwise)
    for off, reserve, chunk in ((0.0, 2.0**40, 2**18), (1e-7, 1.001, 2**18), (1e-9, 2.0**20, 1)):
        solves.clear()
        wrong.append(off)
        with monkeypatch.context() as patch:
            patch.setattr(least_squares, "_RESERVE", reserve)
            patch.setattr(least_squares_strategy, "_UNKNOWNS_PER_SOLUTION", chunk)
            patch.setattr(least_squares_strategy, "_STEPS_PER_PASS", chunk)
            again = strategy_from_dict(strategy.to_dict())
            assert (again.noise(table, window) == usual).all()
        assert len(solves) > (3 if chunk == 1 else 1), "digits were enough at once"


@pytest.mark.parametrize("coordinates", [1, 3])
@pytest.mark.parametrize(
    ("spread", "smallest"), [(2**12, 1), (2**30, 2**10), (2**30, 2**24), (2**52, 2**20), (2**60, 3)]
)
def test_quotients_are_rounded_as_fractions_are(
    spread: int, smallest: int, coordinates: int
) -> None:
    """Also at halves, and with numbers that float64 does not hold."""
    rng = np.random.default_rng(spread + smallest)
    weights = rng.integers(smallest, 4 * smallest + 1, (20_000, 1))
    drawn = rng.integers(-spread, spread + 1, (len(weights), coordinates))
    # A quarter next to halves of the grid: z = (2 k + 1) w / 2^25, rounded.
    odd = 2 * rng.integers(-(2**22), 2**22, (len(weights) // 4, coordinates)) + 1
    drawn[::4] = [
        [int(a) * int(w) >> 25 for a in row] for row, (w,) in zip(odd, weights[::4], strict=True)
    ]
    expected = [
        [(int(z) * 2**24 + int(w) // 2) // int(w) for z in row]
        for row, (w,) in zip(drawn, weights, strict=True)
    ]
    if spread == 2**60:  # beyond int64 in units of 2^-24 there is nothing to compare
        expected = [[(x + 2**63) % 2**64 - 2**63 for x in row] for row in expected]
    assert block_tree._quotients(drawn, weights).tolist() == expected


@pytest.mark.parametrize(
    "strategy", [SOLVED[1], SOLVED[2], LeastSquaresStrategy(line(33))], ids=repr
)
def test_sums_are_rounded_correctly(strategy: LeastSquaresStrategy) -> None:
    table = HashedNoise((), spread=1000 * largest_entry(strategy, strategy.horizon))
    noise = strategy.noise(table, range(1, strategy.horizon + 1))
    offset = Fraction(1, 2) + Fraction(math.isqrt(2 << 400) - (1 << 200), 1 << 220)
    for step in range(1, strategy.horizon + 1):
        exact = sum(int(table.at(*node[:2])) * Fraction(node.weight) for node in strategy.row(step))
        scaled = exact * Fraction(2) ** (strategy.facts.fraction_bits - strategy.facts.lattice_bits)
        assert noise[step - 1] == math.floor(scaled + offset)


@pytest.mark.parametrize("strategy", [SOLVED[0], *SOLVED[3:]], ids=repr)
def test_wide_noise_is_added_up_by_a_second_modulus(
    strategy: LeastSquaresStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = HashedNoise((2,), spread=1000 * largest_entry(strategy, strategy.horizon))
    noise = strategy.noise(table, range(1, strategy.horizon + 1))
    used = []

    def counted(*given: Any) -> NDArray[np.int64]:
        used.append(given)
        return least_squares.modulo_prime(*given)

    # As if int64 alone had less room than it has.
    monkeypatch.setattr(least_squares, "_RESIDUAL_BITS", 22)
    monkeypatch.setattr(least_squares_strategy, "modulo_prime", counted)
    assert (strategy.noise(table, range(1, strategy.horizon + 1)) == noise).all()
    assert used


def test_a_reader_solves_once_and_strategies_hold_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = SOLVED[4]
    reader = strategy._reader(HashedNoise((2,), seed=1))
    calls = calls_of(monkeypatch, least_squares.IntegerEquations, "rounded_prefixes")
    one = [reader.noise(range(at, at + 11)) for at in range(1, 297, 11)]
    assert len(calls) == 1
    other = strategy.noise(HashedNoise((2,), seed=2), range(1, 298))
    again = np.concatenate(list(reader.parts(range(1, 298))))
    assert (np.concatenate(one) == again).all()
    assert (again == other).mean() < 0.01
    assert strategy.facts.buffer_size == 26


@pytest.mark.parametrize("strategy", SOLVED[:1] + SOLVED[3:], ids=repr)
def test_overlaps_are_bounds_and_close(strategy: LeastSquaresStrategy) -> None:
    columns = columns_in_order(strategy, strategy.horizon)
    nodes = {node: i for i, node in enumerate(sorted(set().union(*columns)))}
    matrix = np.zeros((len(nodes), len(columns)))
    for item, column in enumerate(columns):
        for node, weight in column.items():
            matrix[nodes[node], item] = weight
    gram = matrix.T @ matrix
    for apart in (1, 3, 7):
        claimed = strategy._overlaps(Schedule(9, apart, False))
        assert claimed is not None
        for j, bound in enumerate(claimed, start=1):
            true = max(np.diagonal(gram, lag).max() for lag in range(j * apart, strategy.horizon))
            assert true <= bound <= 2.5 * true + 1
    many = strategy._overlaps(Schedule(strategy.horizon, 1, False))
    assert many is not None
    assert len(many) == strategy.horizon - 1


def test_long_horizons_agree_with_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    strategies = [
        LeastSquaresStrategy(line(50), (12, 10), (3, 2), horizon=5950),
        LeastSquaresStrategy(line(3), (300,)),
        LeastSquaresStrategy(line(70)),
    ]

    def overall(strategy: LeastSquaresStrategy) -> list[float]:
        found = [strategy.overall_variance(m) for m in ("mean", "max")]
        return found + [strategy.overall_variance(m, "windows") for m in ("mean", "max")]

    usual = [overall(strategy) for strategy in strategies]
    monkeypatch.setattr(least_squares_strategy, "_LONGEST_UNSUMMARISED", 10)
    for strategy, expected in zip(strategies, usual, strict=True):
        assert overall(strategy) == pytest.approx(expected, rel=1e-12)


def test_noise_beyond_int64_is_refused_before_it_is_drawn() -> None:
    strategy = SOLVED[0]
    with pytest.raises(InvalidInputError, match="give a larger epsilon"):
        strategy._check_distribution(DiscreteLaplace(Fraction(2**36)))
    with pytest.raises(InvalidInputError, match="raise epsilon"):
        Counter(strategy, PureDP(Fraction(1, 2**30)), key=chosen_key(), name="wide")
    with pytest.raises(SumOverflowError, match="sums of noise reach"):
        strategy.noise(HashedNoise(spread=2**61), range(1, 4))


def test_exact_rows_are_for_short_lines() -> None:
    with pytest.raises(InvalidInputError, match="over 300 cells of a line"):
        LeastSquaresStrategy(line(300)).row(1)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(Fraction(1, 2))], ids=repr)
@pytest.mark.parametrize(
    "strategy",
    [
        LeastSquaresStrategy(line(12)),
        SOLVED[1],
        LeastSquaresStrategy(line(4, 2), (3, 2), (3, 2, 1), 2),
    ],
    ids=repr,
)
def test_neighbour_with_shifted_noise_has_same_releases(
    strategy: StreamStrategy, guarantee: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise shifted by -d C e_i, the neighbour's releases are the same to the last bit."""
    from counton.noise import NoiseField
    from counton.testing import ShiftedNoise
    from counton.testing.rows import lattice_units

    data = np.arange(strategy.horizon or 0) % 5 + 3
    run = NoiseField.run

    def released(counts: NDArray[np.int64]) -> NDArray[Any]:
        counter = Counter(strategy, guarantee, key=chosen_key(), name="neighbours")
        return np.array([counter.release(int(x)).value for x in counts])

    usual = released(data)
    for item in range(len(data)):
        for difference in (1, -3):
            neighbour = data.copy()
            neighbour[item] += difference
            column = lattice_units(strategy, strategy.column(item + 1))
            shifts = {node: -difference * weight for node, weight in column.items()}

            class Plain:
                def __init__(self, field: NoiseField) -> None:
                    self.shape = field.shape
                    self._field = field

                def run(self, level: int, nodes: range) -> NDArray[np.int64]:
                    return run(self._field, level, nodes)

            with monkeypatch.context() as patch:
                patch.setattr(
                    NoiseField,
                    "run",
                    lambda self, level, nodes, by=shifts: ShiftedNoise(Plain(self), by).run(
                        level, nodes
                    ),
                )
                assert (released(neighbour) == usual).all()


def test_noise_is_bound_to_every_amplitude() -> None:
    """Addresses hold a digest of what states hold whole."""
    zeros = np.zeros(8, np.int64)
    other = Hats(8, (4,), [[8, 4, 7]], bits=4)
    values = [
        Counter(LeastSquaresStrategy(each), PureDP(1), key=chosen_key(), name="x")
        .release_many(zeros)
        .values
        for each in (HATS, other)
    ]
    assert (values[0] != values[1]).all()
    described = LeastSquaresStrategy(HATS).to_dict()
    assert "amplitudes" in described["line"]
    assert "amplitudes" not in LeastSquaresStrategy(HATS).parameters["line"]
    assert strategy_from_dict(described) == LeastSquaresStrategy(HATS)
    with pytest.raises(InvalidInputError, match="'Haar', which is not known"):
        strategy_from_dict({**described, "line": {"strategy": "Haar", "cells": 8}})


@pytest.mark.parametrize("plain", [True, long(False)])
def test_the_same_bits_on_other_processors_and_with_more_threads(plain: bool) -> None:
    from numpy._core._multiarray_umath import (  # type: ignore[import-not-found]
        __cpu_dispatch__,
    )

    program = """
import hashlib
import numpy as np
from counton.strategies import LeastSquaresStrategy
from counton.tables import Dense, Hats
from counton.testing import HashedNoise

hats = Hats(2000, (20, 300), [np.full(101, 819), np.full(8, 1229)], bits=12)
upper = np.add.outer(np.arange(300), np.arange(300)) ** 2 % 51
upper = np.triu(upper) + 900 * np.eye(300, dtype=int)
few = Hats(100, (20,), [np.full(6, 1229)], bits=12)
digest = hashlib.sha256()
for arguments in ((hats,), (Dense(upper, "x"),), (few, (12, 3), (3, 2))):
    strategy = LeastSquaresStrategy(*arguments)
    table = HashedNoise((5,), spread=2**16)
    digest.update(strategy.noise(table, range(1, strategy.horizon + 1)).tobytes())
print(digest.hexdigest())
"""

    here: list[str] = []
    exec(program, {"print": here.append})
    names = " ".join(__cpu_dispatch__)
    changed = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    if plain:
        changed = {"NPY_DISABLE_CPU_FEATURES": names, "OPENBLAS_CORETYPE": "Nehalem"}
    done = run_program([sys.executable, "-c", program], env={**os.environ, **changed}, check=True)
    assert done.stdout.split() == here


@pytest.mark.parametrize("radices", [(2, 3), (4,)])
def test_noise_that_is_nearly_all_zero_is_solved_for(radices: tuple[int, ...]) -> None:
    strategy = LeastSquaresStrategy(Hats(2, (), (), bits=2), radices)
    counter = Counter(strategy, PureDP(40), key=chosen_key(bytes(range(32))), name="quiet")
    released = counter.release_many([1] * strategy.horizon)
    assert np.abs(np.array(released.values) - np.arange(1, strategy.horizon + 1)).max() < 3
    # One node has a little noise: the sums are those of the exact rows of B.
    field = HashedNoise(spread=1)
    got = strategy.noise(field, range(1, strategy.horizon + 1)) / 2.0**strategy.facts.fraction_bits
    for step, value in enumerate(got.tolist(), start=1):
        row = strategy.row(step)
        exact = sum(n.weight * int(field.run(n.level, range(n.index, n.index + 1))[0]) for n in row)
        bound = 0.5 + float(window_rounding(strategy, 0, step))
        assert abs(value - float(exact) / 2**strategy.facts.lattice_bits) <= bound / 2**10


@pytest.mark.parametrize(
    "strategy",
    [
        LeastSquaresStrategy(line(6), (4, 3), (5, 3, 2)),
        LeastSquaresStrategy(line(6), (3, 2, 2), (7, 5, 3)),
        LeastSquaresStrategy(line(7, 2), (3, 2), norm=2),
        LeastSquaresStrategy(Hats(5, (), (), bits=4), (2, 2), (3, 2, 5)),
        LeastSquaresStrategy(line(30)),
    ],
    ids=str,
)
def test_variances_and_largest_reads_are_those_of_exact_rows(
    strategy: LeastSquaresStrategy,
) -> None:
    rows = [strategy.row(step) for step in range(1, strategy.horizon + 1)]
    exact = [float(sum(Fraction(node.weight) ** 2 for node in row)) for row in rows]
    found = strategy.variance(range(1, strategy.horizon + 1))
    assert np.allclose(found, exact, rtol=1e-12, atol=0)
    read = max(abs(float(node.weight)) for row in rows for node in row)
    assert read <= strategy._largest_read * (1 + 1e-9) <= 1.6 * read
