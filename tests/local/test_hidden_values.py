"""The local model: sensitivities over all pairs of values, estimates as the matrices say."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray

from counton import ZCDP, ApproxDP, Key, PureDP
from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.local import LocalMedian, median
from counton.local.protocol import largest_move
from counton.strategies import SqrtToeplitz, sensitivity

EIGHT = LocalMedian(cells=8, guarantee=ZCDP(2), name="eight")


def encoder(cells: int) -> NDArray[np.int64]:
    """C in units of the lattice, from its columns."""
    strategy = SqrtToeplitz(cells)
    matrix = np.zeros((cells, cells), np.int64)
    for step in range(1, cells + 1):
        for _, index, weight in strategy.column(step):
            matrix[index - 1, step - 1] = int(weight * 2**strategy.facts.lattice_bits)
    return matrix


@pytest.mark.parametrize("cells", [2, 3, 5, 17])
def test_largest_move_is_that_of_all_pairs_of_cells(cells: int) -> None:
    """Over all pairs, in exact integers; a client's own vector is what the columns say."""
    columns = encoder(cells).astype(object).T
    moves = [a - b for a, b in combinations(columns, 2)]
    moved = largest_move(SqrtToeplitz(cells))
    assert moved.l2_squared == max(int((move**2).sum()) for move in moves)
    assert moved.l1 >= max(int(np.abs(move).sum()) for move in moves)
    question = LocalMedian(cells=cells, guarantee=ZCDP(0.5), name="apart")
    assert question.distribution.sigma_squared == moved.l2_squared  # l2^2 / (2 rho)
    for cell, column in enumerate(columns):
        assert question.encoded(cell).tolist() == column.tolist()


def test_divergence_of_messages_is_at_most_rho() -> None:
    """The Renyi divergence of order alpha of shifted noise is alpha |move|^2 / (2 variance)."""
    largest = 0.0
    for cell, other in combinations(range(8), 2):
        move = (EIGHT.encoded(cell) - EIGHT.encoded(other)).astype(float)
        rho = float(move @ move) / (2 * float(EIGHT.distribution.sigma_squared))
        largest = max(largest, rho)
    assert largest == pytest.approx(2)


def test_noise_for_column_instead_of_move_loses_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an implementation would draw it for a client who is there or not there."""

    def of_columns(strategy: SqrtToeplitz) -> Sensitivity:
        column = strategy.root.numerators
        return Sensitivity(int(column.sum()), int((column**2).sum()))

    monkeypatch.setattr(median, "largest_move", of_columns)
    wrong = LocalMedian(cells=8, guarantee=ZCDP(2), name="wrong")
    move = (wrong.encoded(0) - wrong.encoded(7)).astype(float)
    assert float(move @ move) / (2 * float(wrong.distribution.sigma_squared)) > 2.5


def test_largest_move_is_below_the_bound_of_the_paper() -> None:
    strategy = SqrtToeplitz(64)
    exact = largest_move(strategy).l2_squared / 4.0**strategy.facts.lattice_bits
    assert exact == pytest.approx(3.6555, abs=5e-5)
    assert exact < 2 * sensitivity(strategy, 2) ** 2


def test_messages_under_one_key_differ_by_what_was_encoded() -> None:
    key = Key.generate()
    first, second = (EIGHT.randomise(value, key) for value in (0.2, 0.9))
    assert (first - second).tolist() == (EIGHT.encoded(1) - EIGHT.encoded(7)).tolist()
    assert (EIGHT.randomise(0.2) != EIGHT.randomise(0.2)).any()
    others = LocalMedian(cells=8, guarantee=ZCDP(2), name="others")
    assert (others.randomise(0.2, key) != first).any()


def test_estimate_and_deviation_are_those_of_the_matrices() -> None:
    """B = A C^-1, written out."""
    columns = encoder(8) / 2.0**EIGHT.strategy.facts.lattice_bits
    counts = np.array([3, 0, 5, 1, 0, 9, 2, 4])
    server = EIGHT.collect()
    server.sum = encoder(8) @ counts
    server.clients = int(counts.sum())
    found = server.estimate()
    assert found.cdf == pytest.approx(np.concatenate([[0], np.cumsum(counts)]) / 24, abs=1e-5)
    decoder = np.tri(8) @ np.linalg.inv(columns)
    one = EIGHT.distribution.std / 2.0**EIGHT.strategy.facts.lattice_bits / math.sqrt(24)
    assert found.std[1:-1] == pytest.approx(one * np.linalg.norm(decoder, axis=1)[:-1], rel=1e-9)
    middles = (np.arange(8) + 0.5) / 8
    distances = [np.average(np.abs(theta - middles), weights=counts) for theta in found.boundaries]
    assert found.distances == pytest.approx(np.array(distances) - distances[0], abs=1e-5)
    assert found.median == 5 / 8  # 9 of 24 below it, 18 below the next


def test_messages_have_the_stated_noise_around_what_was_encoded() -> None:
    key = chosen_key()
    noise = []
    for client in range(400):
        value = (client % 10) / 10
        message = EIGHT.randomise(value, key, client=client)
        noise.append(message - EIGHT.encoded(EIGHT.cell(value)))
    drawn = np.array(noise, float) / EIGHT.distribution.std
    assert abs(drawn.mean()) * math.sqrt(drawn.size) < 4
    assert (drawn**2).mean() == pytest.approx(1, rel=0.1)


def test_bands_and_intervals_hold_as_often_as_stated() -> None:
    """Sums of messages drawn at once; 300 of them."""
    rng = np.random.default_rng(5)
    question = LocalMedian(cells=16, guarantee=ApproxDP(1, 1e-6), upper=160, name="ages")
    counts = rng.multinomial(3000, rng.dirichlet(np.ones(16)))
    entered = encoder(16) @ counts
    truth = np.concatenate([[0], np.cumsum(counts)]) / 3000
    held = np.zeros(3)
    for _ in range(300):
        server = question.collect()
        noise = rng.normal(0, question.distribution.std * math.sqrt(3000), 16)
        server.sum = entered + noise.astype(np.int64)
        server.clients = 3000
        found = server.estimate()
        low, high = found.interval(0.8)
        held += (
            (np.abs(found.cdf - truth) <= found.band(0.8)).all(),
            truth[round(low / 10)] <= 0.5 <= truth[round(high / 10)],
            (np.abs(found.cdf - truth) <= 1.3 * found.std + 1e-12).all(),
        )
    assert (held[:2] >= 0.8 * 300).all()
    assert held[2] < 0.8 * 300  # a band that does not count boundaries does not hold


def test_band_of_a_population_is_wider() -> None:
    server = EIGHT.collect()
    server.add(EIGHT.randomise(0.3))
    found = server.estimate()
    assert (found.band(of="population")[1:-1] > found.band()[1:-1]).all()
    with pytest.raises(InvalidInputError, match="'clients' or 'population'"):
        found.band(of="everybody")  # type: ignore[arg-type]


def test_sum_of_messages_never_wraps() -> None:
    server = EIGHT.collect()
    for entry in (np.int64(-(2**63)), np.uint64(2**63), np.uint64(2**64 - 1), np.int64(2**62 + 1)):
        with pytest.raises(SumOverflowError, match=str(abs(int(entry)) // 10**18)):
            server.add(np.full(8, entry))
    for sign in (1, -1):
        server = EIGHT.collect()
        server.add(np.full(8, sign * 2**62))
        with pytest.raises(SumOverflowError, match="sum of 2 messages"):
            server.add(np.full(8, sign * 2**62))
        assert server.clients == 1
        assert (server.sum == sign * 2**62).all()


def test_number_of_a_client_is_part_of_the_address() -> None:
    key = Key.generate()
    first, second = (EIGHT.randomise(0.2, key, client=client) for client in (0, 1))
    assert (first != second).any()
    assert (first == EIGHT.randomise(0.2, key, client=0)).all()
    with pytest.raises(InvalidInputError, match="client"):
        EIGHT.randomise(0.2, key, client=-1)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"guarantee": PureDP(1)}, "keeps ApproxDP or ZCDP"),
        ({"lower": 1, "upper": 1}, "not below upper"),
        ({"cells": 1}, "cells"),
    ],
)
def test_impossible_question_is_refused(changed: dict[str, Any], words: str) -> None:
    options: dict[str, Any] = {"cells": 8, "guarantee": ZCDP(1), "name": "x", **changed}
    with pytest.raises(InvalidInputError, match=words):
        LocalMedian(**options)


def test_wrong_values_and_messages_are_refused() -> None:
    assert [EIGHT.cell(value) for value in (-math.inf, 0, 0.125, 0.999, 1, 7)] == [0, 0, 1, 7, 7, 7]
    with pytest.raises(InvalidInputError, match="NaN"):
        EIGHT.randomise(math.nan)
    server = EIGHT.collect()
    with pytest.raises(InvalidInputError, match="nothing to estimate"):
        server.estimate()
    for wrong in (np.zeros(7, int), np.zeros(8), None):
        with pytest.raises(InvalidInputError, match="8 integers"):
            server.add(wrong)
    with pytest.raises(InvalidInputError, match="ApproxDP or ZCDP"):
        LocalMedian.for_clients(10, PureDP(1), name="x")  # type: ignore[arg-type]
    assert LocalMedian.for_clients(10**4, ApproxDP(0.5, 1e-9), name="x").cells == 50
