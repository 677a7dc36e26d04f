"""What comes and goes: changes of +1 and -1 in turn, against all sets of their steps."""

import itertools

import numpy as np
import pytest

from counton.base.distributions import Alternating, BoundedChange, Run, Runs
from counton.base.errors import InvalidInputError
from counton.strategies import (
    Binary,
    Expiring,
    HonakerOnline,
    Independent,
    KAry,
    LeastSquaresStrategy,
    NormalisedSqrt,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
    matrices,
    participation,
)
from counton.strategies.participation import (
    largest_alternating,
    pattern_sensitivity,
    sensitivities,
)
from counton.tables import Dense, Hats


def worst(strategy: StreamStrategy, changes: int) -> list[int]:
    """Norms of the most that so many alternating changes add up to, by definition."""
    matrix = participation.written_out(strategy)
    best = [0, 0]
    for size in range(1, changes + 1):
        for chosen in itertools.combinations(range(matrix.shape[1]), size):
            moved = matrix[:, list(chosen)] @ (-1) ** np.arange(size)
            best = [max(best[0], int(np.abs(moved).sum())), max(best[1], int((moved**2).sum()))]
    return best


def test_five_changes_in_fourteen_steps() -> None:
    """In parts of D_2^2: far from the 25 of changes that add up, below the 5 of separate cells."""
    found = {}
    for strategy in (
        Binary(14),
        KAry(14, 4, True),
        HonakerOnline(14),
        SmoothBinary.best(14, norm=2),
        SqrtToeplitz(14),
    ):
        moved = pattern_sensitivity(strategy, Alternating(5))
        one = sensitivities(strategy)
        found[type(strategy).__name__] = round(moved.l2_squared / one.l2_squared, 2)
        assert [moved.l1, moved.l2_squared] == worst(strategy, 5)
    assert found == {
        "Binary": 3.0, "KAry": 3.0, "HonakerOnline": 3.25, "SmoothBinary": 4.0,
        "SqrtToeplitz": 2.45,
    }  # fmt: skip


def test_trees_are_exact() -> None:
    """Also where members may all be in one part, but only up to the parity of its node."""
    for strategy in SmoothBinary(26, 8, 4), SmoothBinary(20, 7, 3), KAry(30, 3), HonakerOnline(27):
        for changes in (1, 2, 3):
            claimed = [largest_alternating(strategy, norm, changes) for norm in (1, 2)]
            assert claimed == worst(strategy, changes)


def test_bounds_hold_where_sets_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.random.default_rng(5).integers(-3, 9, (12, 11))
    for strategy in (
        Binary(13),
        SmoothBinary.best(13),
        KAry(13, 3),
        SqrtToeplitz(11),
        NormalisedSqrt(11),
        LeastSquaresStrategy(Hats.examples(11)[1]),
        LeastSquaresStrategy(Hats.examples(4)[1], (3,)),
        LeastSquaresStrategy(Dense(matrix, "any")),
    ):
        truths = {changes: worst(strategy, changes) for changes in (1, 2, 3, 6)}
        for name in "_MOST_SETS", "_MOST_DISTRIBUTED_STEPS", "_LONGEST_WRITTEN_HORIZON":
            with monkeypatch.context() as patched:
                patched.setattr(participation, "_MOST_SETS", 0)
                patched.setattr(participation, name, 0)
                for changes, truth in truths.items():
                    claimed = [largest_alternating(strategy, norm, changes) for norm in (1, 2)]
                    assert claimed[0] >= truth[0], (strategy, changes)
                    assert claimed[1] >= truth[1], (strategy, changes)
                    if strategy.structure.aligned():
                        assert claimed[1] <= 1.01 * changes * sensitivities(strategy).l2_squared


def test_long_streams_cost_little_for_each_change() -> None:
    for strategy in (Binary(2**20), KAry.best(8760), SqrtToeplitz(2**16), SmoothBinary.best(2**16)):
        for changes in (8, 3000):
            found = pattern_sensitivity(strategy, Alternating(changes, cells=2, size=3))
            assert found.l1 <= 2 * 3 * changes * sensitivities(strategy).l1
            assert found.l2_squared <= 2 * 9 * changes * sensitivities(strategy).l2_squared


def test_opposed_columns_are_not_assumed_to_cancel() -> None:
    """Up and then down moves a node twice where its entries are 1 and -1."""
    strategy = LeastSquaresStrategy(Dense(np.array([[1, -1], [1, 0], [0, 1]]), "opposed"))
    assert not strategy.structure.aligned()
    up_and_down = matrices(strategy)[1] @ [1, -1] * 2**strategy.facts.lattice_bits
    truth = float((up_and_down**2).sum())
    assert (
        pattern_sensitivity(strategy, Alternating(2)).l2_squared
        == truth
        == 3 * sensitivities(strategy).l2_squared
    )
    for pattern in BoundedChange(2, 2), Runs((Run(1), Run(1, 1))):
        assert pattern_sensitivity(strategy, pattern).l2_squared >= truth


def test_alternating_pattern_refuses_endless_stream_and_size_zero() -> None:
    with pytest.raises(InvalidInputError, match="horizon"):
        pattern_sensitivity(Expiring(), Alternating(2))
    with pytest.raises(InvalidInputError, match="size"):
        Alternating(2, size=0)


def test_single_steps_have_nothing_to_cancel() -> None:
    """So many changes cost as many as there are, on long horizons too."""
    for norm in 1, 2:
        for changes in 1, 7, 600, 10**6:
            expected = min(changes, 600)
            assert largest_alternating(Independent(600), norm, changes) == expected
