"""Tests of the fast bounds in `counton.strategies.participation`, by brute force."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from counton.base.arrays import Integers
from counton.base.distributions import Alternating, BoundedChange, Run, Runs, Sensitivity
from counton.strategies import StreamStrategy
from counton.strategies.participation import (
    largest_alternating,
    pattern_sensitivity,
)
from counton.strategies.strategy import Norm
from counton.testing.rows import columns_in_order, count_steps, names_subject, require

NORMS: tuple[Norm, Norm] = (1, 2)
#: Largest number of columns of C that are computed.
_MOST_COLUMNS = 64
#: Largest horizon on which stated bounds must not be too large, and the largest allowed ratio of a
#: squared bound to the true value.
_LONGEST_CHECKED_HORIZON = 16
_LARGEST_BOUND_RATIO = Fraction(5, 4)
#: Sets of runs to try, with various lengths, offsets, sizes, repetitions and first steps.
_RUNS: tuple[tuple[Run, ...], ...] = (
    (Run(1),),
    (Run(2),),
    (Run(3, size=2),),
    (Run(2), Run(1, 1, 2, 3)),
    (Run(2, since=2), Run(3, 2)),
    (Run(10**6),),
)


def matrix_of(strategy: StreamStrategy) -> Integers:
    """Return the matrix C of at most 64 steps, ``(nodes, steps)``, in units of 2^-lattice_bits."""
    columns = columns_in_order(strategy, count_steps(strategy, None))[:_MOST_COLUMNS]
    nodes = {node: index for index, node in enumerate(sorted(set().union(*columns)))}
    largest = sum(abs(weight) for column in columns for weight in column.values())
    matrix = np.zeros((len(nodes), len(columns)), np.int64 if largest < 2**30 else object)
    for item, column in enumerate(columns):
        for node, weight in column.items():
            matrix[nodes[node], item] = weight
    return matrix


def _norms(moved: Integers) -> tuple[int, int]:
    """Return the largest 1-norm and squared 2-norm of a column."""
    return int(np.abs(moved).sum(axis=0).max()), int((moved**2).sum(axis=0).max())


def _run_norms(matrix: Integers, runs: tuple[Run, ...]) -> tuple[int, int]:
    """Return both norms of the change by a unit with several runs of consecutive steps.

    Different runs change different cells, so their norms are added up. Every first step is tried.
    """
    horizon = matrix.shape[1]
    worst = [0, 0]
    for start in range(1, horizon + 1):
        total = [0, 0]
        for run in runs:
            low = max(start + run.offset, run.since)
            stop = min(start + run.offset + run.length, horizon + 1)
            moved = run.size * matrix[:, low - 1 : max(stop, low) - 1].sum(axis=1)
            total[0] += run.times * int(np.abs(moved).sum())
            total[1] += run.times * int((moved**2).sum())
        worst = [max(pair) for pair in zip(worst, total, strict=True)]
    return worst[0], worst[1]


def _change_norms(matrix: Integers, most: int) -> list[tuple[int, int]]:
    """Return both largest norms for 1 to ``most`` changes by +1 and -1 in turn.

    On short horizons all sets of steps are tried; on long ones, equally spaced steps.
    """
    horizon = matrix.shape[1]
    norms = []
    best = (0, 0)
    for changes in range(1, min(most, horizon) + 1):
        if horizon <= _LONGEST_CHECKED_HORIZON:
            sets = np.array(list(combinations(range(horizon), changes)))
        else:
            gaps = range(1, (horizon - 1) // max(changes - 1, 1) + 1)
            spread = [np.arange(changes) * gap + i for gap in gaps for i in (0, 1, gap - 1)]
            sets = np.array([positions for positions in spread if positions[-1] < horizon])
        signs = (-1) ** np.arange(changes)
        moved = (matrix[:, sets] * signs).sum(axis=2)
        l1, squared = _norms(moved)
        best = max(best[0], l1), max(best[1], squared)
        norms.append(best)
    return norms


@names_subject
def check_pattern_sensitivity(strategy: StreamStrategy, changes: int = 4) -> None:
    """Check that no pattern of changes moves the measurements by more than stated.

    A pattern is runs of consecutive steps (`Runs`), changes by +1 and -1 in turn (`Alternating`,
    also `largest_alternating`), or changes within norms (`BoundedChange`).
    If ``structure.aligned()`` is True, its two conditions on inner products of columns of C must
    hold.

    On horizons of up to 16 steps, the squared 2-norm from `largest_alternating` must be at most
    1.25 times the true value. This must hold for runs too, if C has no negative entry and
    ``structure.aligned()`` returns True.

    Args:
        strategy: a strategy with a horizon.
        changes: the most alternating changes in one pattern.

    Raises:
        PropertyViolationError: a stated sensitivity is too small or far too large, or
            ``structure.aligned()`` is wrong.
        InvalidInputError: the strategy has no horizon.

    >>> from counton.strategies import Binary
    >>> check_pattern_sensitivity(Binary(12))
    """
    matrix = matrix_of(strategy)
    _check_runs(strategy, matrix)
    _check_aligned(strategy, matrix)
    _check_alternating(strategy, matrix, changes)
    _check_bounded_changes(strategy, matrix)


def _check_runs(strategy: StreamStrategy, matrix: Integers) -> None:
    """Try runs of consecutive steps from every first step."""
    horizon = count_steps(strategy, None)
    positive = bool((matrix >= 0).all())
    for runs in _RUNS:
        if horizon > _MOST_COLUMNS:  # runs that end within what is written out
            runs = tuple(run for run in runs if run.length < _MOST_COLUMNS)
        if not runs or max(run.since for run in runs) > horizon:
            continue
        l1, squared = _run_norms(matrix, runs)
        claimed = pattern_sensitivity(strategy, Runs(runs))
        _enough(Runs(runs), claimed, l1, squared)
        may_be_larger = horizon > _LONGEST_CHECKED_HORIZON or not (
            positive and strategy.structure.aligned()
        )
        message = (
            f"{Runs(runs)} changes the measurements by {squared} (squared 2-norm), but "
            f"pattern_sensitivity returns the much larger {claimed}"
        )
        require(may_be_larger or claimed.l2_squared <= _LARGEST_BOUND_RATIO * squared, message)


def _check_aligned(strategy: StreamStrategy, matrix: Integers) -> None:
    """Check both conditions of ``aligned``, which `participation.Structure` defines."""
    products = matrix.T @ matrix
    aligned = bool((products >= 0).all()) and all(
        (products[:q, q + 1 :] <= products[:q, q, None] + products[None, q, q + 1 :]).all()
        for q in range(1, len(products) - 1)
    )
    require(
        aligned or not strategy.structure.aligned(),
        "structure.aligned() returns True, but either two columns of C have a negative product, "
        "or the product of two columns exceeds the sum of their products with a column between "
        "them; return False",
    )


def _check_alternating(strategy: StreamStrategy, matrix: Integers, changes: int) -> None:
    """Try alternating changes in all sets of steps (on long horizons in some), in 1 and 2 cells."""
    horizon = matrix.shape[1]
    for number, (l1, squared) in enumerate(_change_norms(matrix, changes), 1):
        most = [largest_alternating(strategy, norm, number) for norm in NORMS]
        message = (
            f"{number} alternating changes change the measurements by {l1} (1-norm) and {squared} "
            f"(squared 2-norm), but largest_alternating returns {most}; return at least as much, "
            "and not far more"
        )
        require(most[0] >= l1 and most[1] >= squared, message)
        require(
            horizon > _LONGEST_CHECKED_HORIZON or most[1] <= _LARGEST_BOUND_RATIO * squared, message
        )
        for cells, size in ((1, 1), (2, 3)):
            pattern = Alternating(number, cells, size)
            claimed = pattern_sensitivity(strategy, pattern)
            _enough(pattern, claimed, cells * size * l1, cells * size**2 * squared)


def _check_bounded_changes(strategy: StreamStrategy, matrix: Integers) -> None:
    """Try a change within norms as the worst column, and as a move from one step to another."""
    l1, squared = _norms(matrix)
    for bound in (BoundedChange(1, 1), BoundedChange(3, 5), BoundedChange(2, 4, single_step=True)):
        claimed = pattern_sensitivity(strategy, bound)
        _enough(bound, claimed, l1 * bound.l1, squared * bound.l2_squared)
    if matrix.shape[1] > 1:
        bound = BoundedChange(2, 2)
        moved = [_norms(matrix - matrix[:, [item]]) for item in range(matrix.shape[1])]
        l1, squared = (max(norm) for norm in zip(*moved, strict=True))
        _enough(bound, pattern_sensitivity(strategy, bound), l1, squared)


def _enough(pattern: object, claimed: Sensitivity, l1: int, squared: int) -> None:
    # Integer vectors have l1 <= l2_squared, so that a 1-norm above it cannot be.
    enough = claimed.l1 >= min(l1, squared) and claimed.l2_squared >= squared
    message = (
        f"{pattern} changes the measurements by {l1} (1-norm) and {squared} (squared 2-norm), but "
        f"pattern_sensitivity returns {claimed}; return at least as much"
    )
    require(enough, message)
