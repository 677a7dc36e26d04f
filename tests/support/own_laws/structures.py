"""Tests of what a strategy says of the structure of its measurement matrix C."""

import numpy as np

from counton.base.arrays import Integers
from counton.strategies import StreamStrategy
from counton.strategies.participation import Schedule, level_weights
from counton.testing.pattern_checks import matrix_of
from counton.testing.rows import count_steps, names_subject, require


@names_subject
def check_structure(strategy: StreamStrategy) -> None:
    """``overlaps`` are at least the inner products of columns of C that are some steps apart; of a
    tree ``nodes_by_level`` has, for each level, the node that each step enters, and ``divisions``
    divide the horizon into parts that together have as many steps.

    What else a `Structure` says is believed by `sensitivities` and `pattern_sensitivity`, whose
    laws are those of `counton.testing`.
    """
    horizon = count_steps(strategy, None)
    matrix = matrix_of(strategy)
    lengths = np.abs(matrix).sum(axis=0)
    products = np.abs(matrix.T @ matrix)
    _check_tree(strategy, horizon, lengths, products)
    if strategy.structure.overlaps is None:
        return
    for steps, apart in ((1, 1), (2, 1), (3, 2), (4, 5)):
        if (steps - 1) * apart >= len(products):
            continue
        overlaps = strategy.structure.overlaps(Schedule(steps, apart, False))
        require(len(overlaps) == steps - 1, f"there are {len(overlaps)} overlaps of {steps} steps")
        for j, claimed in enumerate(overlaps, 1):
            true = int(np.triu(products, j * apart).max())
            message = f"columns {j * apart} steps apart have the product {true}, not {claimed}"
            require(claimed >= true, message)


def _check_tree(
    strategy: StreamStrategy, horizon: int, lengths: Integers, products: Integers
) -> None:
    levels = strategy.structure.nodes_by_level()
    weights = level_weights(strategy)
    shown = len(lengths)
    if levels is not None:
        sums = np.zeros(shown, object)
        meet = np.zeros((shown, shown), object)
        for level, nodes in enumerate(levels):
            right = np.shape(nodes) == (horizon,)
            require(right, f"nodes_by_level() has no node, or -1, for each of {horizon} steps")
            node = np.asarray(nodes)[:shown]
            weight = weights[level]
            there = node >= 0
            sums = sums + weight * there
            same = (node[:, None] == node[None, :]) & there[:, None]
            meet = meet + weight**2 * same
        right = bool((sums == lengths).all() and (meet == products).all())
        require(right, "nodes_by_level() has other nodes or weights than the columns of C")
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
        require(not inner or total <= part.steps, f"{part} is divided into {total} steps")
        require(bool(inner) or part.steps == 1, f"{part} is not divided")
    total = sum(part.steps * times for part, times in parts)
    require(total == horizon, f"divisions(None) have {total} of {horizon} steps together")
