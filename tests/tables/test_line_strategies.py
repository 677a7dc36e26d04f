"""Strategies for a line: the paper's figures, least weights, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest
from own_laws.lines import check_line_strategy

from counton.base.errors import InvalidInputError
from counton.strategies.lines.dense import exact_product
from counton.tables import (
    AllRanges,
    Dense,
    Grid,
    Haar,
    Nodes,
    Queries,
    SquareRoot,
    line_strategy_from_dict,
    optimal_gaussian,
    optimal_laplace,
    workload,
)
from counton.tables import line_catalogue as catalogue
from counton.tables.workloads import Prefixes
from papers.ranges.workloads import TreeNodes

SIZES = [1, 2, 3, 4, 5, 8, 11, 16, 27, 33]


@pytest.mark.parametrize("cells", SIZES[1:])
def test_haar_states_exact_cost_of_move(cells: Any) -> None:
    """The laws allow bounds; these are the values themselves."""
    for strategy in Haar.examples(cells):
        matrix = strategy.matrix()
        inner = (matrix.T @ matrix)[~np.eye(cells, dtype=bool)]
        assert strategy.least_inner == inner.min()
        if cells & (cells - 1) == 0:
            moves = matrix[:, :, None] - matrix[:, None, :]
            assert strategy.largest_move(2) == (moves**2).sum(axis=0).max()
            assert strategy.largest_move(1) == np.abs(moves).sum(axis=0).max()


@pytest.mark.parametrize(
    ("cells", "largest", "mean"), [(4, 7 / 4, 47 / 40), (16, 199 / 64, 1017 / 544)]
)
def test_cascade_has_these_fractions(cells: Any, largest: Any, mean: Any) -> None:
    strategy = Haar.cascade(cells)
    low, high = np.triu_indices(cells + 1, 1)
    variance = strategy.variance(low, high) * strategy.weights[0] ** 2
    assert variance.max() == pytest.approx(largest, rel=1e-11)
    assert variance.mean() == pytest.approx(mean, rel=1e-11)


def test_cascade_over_1024_cells_has_the_published_variances_and_sensitivities() -> None:
    strategy = Haar.cascade(1024)
    unit = strategy.weights[0] ** 2
    low, high = np.triu_indices(1025, 1)
    variance = strategy.variance(low, high) * unit
    assert f"{variance.max():.7f}" == "7.1111107"
    assert f"{variance.mean():.7f}" == "4.7519517"
    assert strategy.squared_sensitivity() / unit == pytest.approx(1 + 10 / 3, rel=1e-11)
    assert strategy.largest_move(2) / unit == pytest.approx(2 * 11 / 3, rel=1e-11)
    nodes = strategy.variance(*TreeNodes(1024).intervals()) * unit
    assert nodes == pytest.approx(np.ones(2047), rel=1e-11)  # equal variance at every node


@pytest.mark.parametrize("cells", [5, 6, 7, 100])
def test_nodes_of_an_incomplete_tree_have_equal_variance_too(cells: Any) -> None:
    strategy = Haar.cascade(cells)
    variance = strategy.variance(*TreeNodes(cells).intervals()) * strategy.weights[0] ** 2
    assert variance == pytest.approx(np.ones(len(variance)), rel=1e-11)


def test_the_wavelet_is_privelets() -> None:
    """Xiao, Wang and Gehrke (2010), section IV: each coefficient times its own weight.

    The base coefficient is the mean of all n, weight n; that of a node over s cells is half of the
    difference of its halves' means, weight s. Generalised sensitivity: 1 + log2 n.
    """
    for cells in (2, 8, 64):
        rows = [cells * np.full(cells, 1 / cells)]
        size = cells
        while size > 1:
            half = size // 2
            for start in range(0, cells, size):
                coefficient = np.zeros(cells)
                coefficient[start : start + half] = 1 / half / 2
                coefficient[start + half : start + size] = -1 / half / 2
                rows.append(size * coefficient)
            size = half
        strategy = Haar.wavelet(cells)
        assert sorted(strategy.matrix().tolist()) == sorted(np.array(rows).tolist())
        assert strategy.l1_sensitivity() == cells.bit_length()


def test_haar_weights_are_a_minimum() -> None:
    cases: list[Any] = [
        (1, lambda s: s.l1_sensitivity() ** 2),
        (2, lambda s: s.squared_sensitivity()),
    ]
    for norm, sensitivity in cases:
        asked = AllRanges(100)
        best = Haar.best(asked, norm)
        least = asked.total(best) * sensitivity(best)
        for level in range(len(best.weights)):
            for factor in (0.95, 1.05):
                weights = list(best.weights)
                weights[level] = int(weights[level] * factor)
                other = Haar(100, tuple(weights))
                assert asked.total(other) * sensitivity(other) > least


def test_cell_outside_workload_has_finite_variance() -> None:
    strategy = Haar.best(Queries([[1, 1, 1, 1]]), 2)
    assert np.isfinite(strategy.variance(np.array([0]), np.array([1])))[0]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Haar(4, (1, 1)), "needs 3 integers"),
        (lambda: Haar(4, (1, 0, 1)), "at least 1"),
        (lambda: Haar.cascade(0), "between 1 and 2"),
        (lambda: Nodes(10, (3, 3), (1, 1, 1)), "their product at least 10"),
        (lambda: Nodes(4, (2, 2), (0, 1, 1)), "the first at least 1"),
        (lambda: Nodes(4, (2, 2), (1, 1)), "give 3 integers"),
        (lambda: Dense(np.array([[1.0]]), "mine"), "matrix of integers"),
        (lambda: Dense(np.array([[2**32]]), "mine"), "divide the matrix"),
        (lambda: Dense(np.array([[3037000500]]), "mine"), "divide the matrix"),
        (lambda: Dense(np.full((2, 1), 2**62), "mine"), "divide the matrix"),
        (lambda: Dense(np.array([[-(2**63)]]), "mine"), "divide the matrix"),
        (lambda: Dense(np.array([[2**63 + 5]], np.uint64), "mine"), "divide the matrix"),
        (lambda: Dense(np.array([[1, 1], [2, 2]]), "mine"), "linearly dependent"),
        (lambda: optimal_gaussian(AllRanges(5000)), "at most 4096"),
        (lambda: optimal_laplace(AllRanges(5000)), "at most 1024"),
        (lambda: AllRanges(5000).gram(), "at most 4096"),
        (lambda: workload("all", 4), "give one of ranges, prefixes"),
        (lambda: workload([[1, 1]], 4), "has 2 columns, but there are 4"),
        (lambda: Queries([[np.nan]]), "give a finite matrix"),
        (lambda: Queries([["a"]]), "not a matrix of numbers"),
        (lambda: Queries([[0, 0]]), "all zeros"),
        (lambda: Queries(np.ma.array([[1.0, 2.0]], mask=[[False, True]])), "masked value"),
        (lambda: Dense(np.ma.array([[1, 2]], mask=[[True, False]]), "mine"), "masked value"),
        (lambda: Dense([[1.5]], "mine"), "matrix of integers"),  # type: ignore[arg-type]
        (lambda: Nodes(2, (2,), (1, 1), 7), "is 7; give a text"),  # type: ignore[arg-type]
        (lambda: Haar(2, (1, 1), "a\0"), "give a text"),
    ],
)
def test_bad_input_is_refused_with_a_reason(build: Any, message: Any) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build()


def test_a_name_changes_no_number_and_equal_strategies_are_equal() -> None:
    low, high = np.triu_indices(9, 1)
    tree = Nodes(8, (2, 2, 2), (1, 1, 1, 1))
    named = Nodes(8, (2, 2, 2), (1, 1, 1, 1), name="identity")
    assert named.variance(low, high).tolist() == tree.variance(low, high).tolist()
    assert named.ranges_variance() == tree.ranges_variance()
    assert named == tree
    assert hash(named) == hash(tree)
    assert tree != Nodes(8, (2, 2, 2), (1, 1, 1, 2))
    assert tree != Haar(8, (1, 1, 1, 1))


def test_leaves_of_any_weight_are_independent() -> None:
    low, high = np.triu_indices(9, 1)
    leaves = Nodes(8, (2, 4), (5, 0, 0))
    assert leaves.variance(low, high) == pytest.approx((high - low) / 25)
    assert leaves.ranges_variance() == pytest.approx(((high - low) / 25).sum())


def test_strategies_are_rebuilt_from_json() -> None:
    asked = AllRanges(12)
    dense = [optimal_gaussian(asked), optimal_laplace(asked), Dense(np.array([[-(2**29)]]), "one")]
    for strategy in (*dense, Haar.cascade(12), Nodes.best(asked, 1), SquareRoot(12)):
        rebuilt = line_strategy_from_dict(json.loads(json.dumps(strategy.to_dict())))
        assert rebuilt == strategy
        assert rebuilt.name == strategy.name
        assert rebuilt.matrix().tolist() == strategy.matrix().tolist()
        assert rebuilt.matrix().dtype == np.int64
    grid = Grid((dense[0], Haar.cascade(3)))
    rebuilt_grid = Grid.from_dict(json.loads(json.dumps(grid.to_dict())))
    assert rebuilt_grid == grid
    assert rebuilt_grid.name == grid.name


def test_stored_matrix_is_small_and_compressed_once() -> None:
    """Half of the entries are zeros, the others have 16 bits: 2 bytes, and a third for text."""
    strategy = optimal_gaussian(AllRanges(200))
    assert len(json.dumps(strategy.to_dict())) < 1.5 * 200 * 201 / 2 * 2
    assert strategy.to_dict()["matrix"] is strategy.to_dict()["matrix"]  # compressed only once


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strategy": "Binary"}, "known for lines are Dense, Haar, Hats, Nodes, Sq"),
        ({"matrix": "x"}, "stored integers of shape"),
        ({"matrix": 3}, "stored integers of shape"),
        ({"matrix": "2:eJwDAAAAAAE="}, "stored integers of shape"),
        ({"matrix": "1:!"}, "stored integers of shape"),
        ({"measurements": 3}, "stored integers of shape"),
        ({"measurements": -2}, "measurements is -2"),
        ({"measurements": None}, "measurements is None"),
        ({"matrix_sha256": "0"}, "does not have the digest"),
        ({"strategy": "Haar"}, "parameters of Haar are"),
        ({"strategy": "SquareRoot", "cells": "two"}, "parameters of SquareRoot are"),
    ],
)
def test_line_strategy_from_dict_refuses_invalid_description(change: Any, message: Any) -> None:
    described = Dense(np.array([[2, 1], [0, 2]]), "mine").to_dict()
    with pytest.raises(InvalidInputError, match=message):
        line_strategy_from_dict({**described, **change})
    with pytest.raises(InvalidInputError, match=message):
        Grid.from_dict({"strategy": "Grid", "axes": [{**described, **change}]})


def test_a_table_has_two_relations() -> None:
    strategy = Haar.cascade(4)
    relation: Any = "replace"
    with pytest.raises(
        InvalidInputError, match=r"relation is 'replace'; .*give 'add_remove' or 'move'"
    ):
        strategy.sensitivities(relation)


def test_columns_that_nearly_agree_have_a_shift_all_the_same() -> None:
    """Bounds of a move's norms must still be those of some integer vector."""
    strategy = Dense(np.array([[5, 5], [1, 0]]), "mine")
    moved = strategy.sensitivities("move")
    assert moved.l1 <= moved.l2_squared
    check_line_strategy(strategy)


def test_products_of_dense_matrices_are_exact() -> None:
    """Digits in float64 give the same as integers, to the last bit, for entries of any size."""
    generator = np.random.default_rng(3)
    for _ in range(200):
        rows, cells, columns = generator.integers(1, 40, size=3)
        left_bits = int(generator.integers(1, 50))
        right_bits = int(generator.integers(1, 62 - 6 - left_bits))
        left = generator.integers(-(2**left_bits), 2**left_bits + 1, (rows, cells))
        right = generator.integers(-(2**right_bits), 2**right_bits + 1, (cells, columns))
        assert (exact_product(left, right) == left @ right).all()
    full = np.full((2, 4096), 2**24)
    assert exact_product(full, np.full((4096, 3), 2**25)).tolist() == [[2**61] * 3] * 2


@pytest.mark.parametrize("cells", range(1, 257))
def test_line_chosen_for_totals_over_time_has_least_error(cells: int) -> None:
    asked = Prefixes(cells), 1, 8

    def error(name: str) -> float:
        moved = catalogue.build(name, *asked).sensitivities("add_remove").l1
        return catalogue.total_variance(name, *asked) * float(moved) ** 2

    best = min(catalogue._STRATEGIES_OVER_TIME, key=error)
    assert catalogue.line_over_time(Prefixes(cells), 1) is catalogue.build(best, *asked)
    assert best == catalogue._best_known(Prefixes(cells), 1, "add_remove")
