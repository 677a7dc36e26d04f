"""Tests of the short ways in which the strategies of this library bound norms."""

import numpy as np

from counton.base.arrays import Integers
from counton.laws.pattern_laws import NORMS, matrix_of
from counton.laws.rows import count_steps, names_subject, require
from counton.strategies import StreamStrategy
from counton.strategies.participation import Schedule, largest_sum, level_weights, sums_of_runs


@names_subject
def check_short_ways(strategy: StreamStrategy) -> None:
    """Check the bounds that a strategy states without computing its measurement matrix C: each must
    be at least the true value, computed from C.

    `sums_of_runs` bounds the norms of sums of consecutive columns of C. ``largest_sum`` bounds the
    norms of sums of columns that are some distance apart. ``overlaps`` bounds inner products of two
    columns. If the strategy is a tree, ``nodes_by_level`` must state, for each level, the node
    (noisy measurement) that each step enters. ``divisions`` must divide the horizon into parts that
    together have as many steps as the horizon.

    >>> from counton.strategies import Binary
    >>> check_short_ways(Binary(12))
    """
    horizon = count_steps(strategy, None)
    matrix = matrix_of(strategy)
    shown = matrix.shape[1]
    lengths, products = np.abs(matrix).sum(axis=0), np.abs(matrix.T @ matrix)
    for length in (1, 2, 5, horizon):
        inner = shown - length + 1 if shown < horizon else shown
        if inner < 1:
            continue
        # Sums of so many consecutive columns, or of those that are left, from every one on.
        zeros = np.zeros((len(matrix), 1), matrix.dtype)
        running = np.concatenate([zeros, np.cumsum(matrix, axis=1)], axis=1)
        last = np.minimum(np.arange(matrix.shape[1]) + length, matrix.shape[1])
        moved = np.asarray(running[:, last] - running[:, :-1])[:, :inner]
        for norm in NORMS:
            found = sums_of_runs(strategy, norm, length)
            if found is None:
                continue
            require(
                np.shape(found) == (horizon,),
                f"sums_of_runs must return the shape {(horizon,)}, but returns {np.shape(found)}",
            )
            true = (np.abs(moved) ** norm).sum(axis=0)
            enough = bool((np.asarray(found)[:inner] >= true).all())
            message = (
                f"sums_of_runs({norm}, {length}) returns less than the norm of the sum of "
                f"{length} columns in a row; return an upper bound for each first step, or None"
            )
            require(enough, message)
    for steps, apart in ((1, 1), (2, 1), (3, 2), (4, 5)):
        if (steps - 1) * apart >= shown:
            continue
        row = [np.arange(i, i + steps * apart, apart) for i in range(shown - (steps - 1) * apart)]
        sums = [int(lengths[one].sum()) for one in row]
        squares = [int(products[np.ix_(one, one)].sum()) for one in row]
        for fixed in (False, True) if steps > 1 else (False,):
            schedule = Schedule(steps, apart, fixed)
            for norm, true in zip(NORMS, (max(sums), max(squares)), strict=True):
                claimed = largest_sum(strategy, norm, schedule)
                message = (
                    f"largest_sum({norm}, {schedule}) returns {claimed}, but the columns of such "
                    f"steps add up to {true}; return an upper bound"
                )
                require(claimed >= true, message)
        if strategy.structure.overlaps is None:
            continue
        overlaps = strategy.structure.overlaps(Schedule(steps, apart, False))
        require(
            len(overlaps) == steps - 1,
            f"structure.overlaps must return {steps - 1} bounds for a schedule of {steps} steps, "
            f"but returns {len(overlaps)}",
        )
        for j, claimed in enumerate(overlaps, 1):
            beyond = np.triu(products, j * apart)
            message = (
                f"two columns at least {j * apart} steps apart have the product {beyond.max()}, "
                f"but structure.overlaps returns {claimed} for them; return an upper bound"
            )
            require(claimed >= int(beyond.max()), message)
    _check_tree(strategy, horizon, lengths, products)


def _check_tree(
    strategy: StreamStrategy, horizon: int, lengths: Integers, products: Integers
) -> None:
    levels, weights = strategy.structure.nodes_by_level(), level_weights(strategy)
    shown = len(lengths)
    if levels is not None:
        sums, meet = np.zeros(shown, object), np.zeros((shown, shown), object)
        for level, nodes in enumerate(levels):
            require(
                np.shape(nodes) == (horizon,),
                "structure.nodes_by_level() must return a node, or -1, for each of the "
                f"{horizon} steps",
            )
            node, weight = np.asarray(nodes)[:shown], weights[level]
            there = node >= 0
            sums = sums + weight * there
            same = (node[:, None] == node[None, :]) & there[:, None]
            meet = meet + weight**2 * same
        message = "structure.nodes_by_level() gives other nodes or weights than the columns of C"
        require(bool((sums == lengths).all()), message)
        require(bool((meet == products).all()), message)
    parts = list(strategy.structure.divisions(None))
    if not parts:
        return
    known: set[object] = set()
    waiting = [part for part, _ in parts]
    while waiting:
        part = waiting.pop()
        if part in known:
            continue
        known.add(part)
        inner = strategy.structure.divisions(part)
        waiting += [each for each, _ in inner]
        total = sum(each.steps * times for each, times in inner)
        message = (
            f"structure.divisions({part}) returns parts of {total} steps together, more than the "
            "part has"
        )
        require(not inner or total <= part.steps, message)
        require(
            bool(inner) or part.steps == 1,
            f"structure.divisions() does not divide {part}, which has several steps",
        )
    total = sum(part.steps * times for part, times in parts)
    require(
        total == horizon,
        f"structure.divisions(None) must return parts of {horizon} steps together, but they "
        f"have {total}",
    )
