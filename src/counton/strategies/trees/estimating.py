"""From the leaves to the sums of all nodes, and from noisy measurements to estimates that agree."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from counton.arrays import Floats, Integers
from counton.errors import SumOverflow
from counton.strategies.base import NodeNoise
from counton.strategies.trees.strategy import TreeStrategy
from counton.strategies.trees.tree import Tree

#: Children whose estimates are computed together: what is between two passes stays in the cache.
_CHUNK = 2**15


def node_sums(tree: Tree, counts: list[Integers]) -> list[Integers]:
    """Sums of all nodes, from the leaves up, in int64.

    Args:
        tree: the public tree.
        counts: for each level, the counts of its leaves and 0 at other nodes; their total must fit
            into int64.

    >>> tree = Tree.from_parents({"a": "root", "b": "root", "c": "a", "d": "a"})
    >>> [level.tolist() for level in node_sums(tree, [np.array(n) for n in ([0], [0, 5], [1, 2])])]
    [[8], [3, 5], [1, 2]]
    """
    sums = list(counts)
    for level in range(len(counts) - 2, -1, -1):
        inner = tree.children[level] > 0
        if inner.any():
            added = sums[level].copy()
            added[inner] += np.add.reduceat(sums[level + 1], tree.starts[level][inner])
            sums[level] = added
    return sums


def estimates_of(
    measurement: TreeStrategy, sums: list[Integers], noise: NodeNoise, bits: int
) -> list[Integers]:
    """Measure, then share every node's estimate out among its children.

    Among siblings the running sums of their shares are rounded, so that the sum of any first few
    is within half a unit of theirs, however many there are, and that of all is exact. The noise
    is 2^15 units wide and more, so rounding favours no sibling.

    Args:
        measurement: what is measured.
        sums: exact sums of all nodes by level, as from `node_sums`.
        noise: one draw for the total at level 0, and for every further measurement at the level of
            the children it compares, in units of the weights' lattice.
        bits: estimates are multiples of 2^-bits.

    Returns:
        For each level, every node's estimate in units of 2^-bits; children add up to parents.

    Raises:
        SumOverflow: estimates beyond 2^53 units, where float64 is not exact.

    >>> from counton.strategies.trees.strategy import tree_strategy_for
    >>> from counton.testing import HashedNoise
    >>> tree = Tree.from_parents({"a": "root", "b": "root"})
    >>> measurement, _ = tree_strategy_for(tree, [1.0, 1.0], norm=2)
    >>> total, (a, b) = estimates_of(measurement, [np.array([8]), np.array([3, 5])],
    ...                              HashedNoise(), bits=10)
    >>> bool(total[0] == a + b)
    True
    """
    total = measurement.total * int(sums[0][0]) + int(noise.run(0, range(1))[0])
    estimate = round(total * 2**bits / measurement.total)
    refuse_beyond_exact(abs(estimate), bits)
    found = [np.array([estimate], dtype=np.int64)]
    for level in range(len(measurement.tree.parents)):
        found.append(_children_of(found[-1], measurement, level, sums, noise, bits))
    return found


def _children_of(
    totals: Integers,
    measurement: TreeStrategy,
    level: int,
    sums: list[Integers],
    noise: NodeNoise,
    bits: int,
) -> Integers:
    """Estimates one level below ``totals``, some families at a time: they stay in the cache."""
    tree = measurement.tree
    inner = np.flatnonzero(tree.children[level])
    size = tree.children[level][inner]
    drawn = np.cumsum(np.where(size > 2, size, size - 1))
    ends = np.cumsum(size)
    own, shared = measurement.own[level][inner], measurement.shared[level][inner]
    offset = shared * sums[level][inner]
    totals = totals[inner]
    estimates = np.empty(len(tree.parents[level]), np.int64)
    carried = 0.0
    cuts = np.searchsorted(ends, np.arange(_CHUNK, len(estimates), _CHUNK), side="right")
    for low, high in pairwise(np.unique([0, *cuts, len(inner)]).tolist()):
        family = slice(low, high)
        nodes = slice(int(ends[low] - size[low]), int(ends[high - 1]))
        m, first = size[family], ends[family] - size[family] - nodes.start
        # What was measured of each child; with two children, only their difference was.
        y = np.repeat(own[family], m)
        y *= sums[level + 1][nodes]
        y -= np.repeat(offset[family], m)
        before = int(drawn[low - 1]) if low else 0
        draws = noise.run(level + 1, range(before, int(drawn[high - 1])))
        if len(draws) == len(y):
            y += draws
        else:
            measured = np.repeat(m > 2, m)
            measured[first[m == 2]] = True
            y[measured] += draws
            y[first[m == 2] + 1] = -y[first[m == 2]]
        # How much more than the mean of the siblings each child has, in units of 2^-bits.
        mean: Floats = np.add.reduceat(y, first) / m
        away: Floats = np.subtract(y, np.repeat(mean, m))
        away /= np.repeat(np.maximum(own[family], 1) * 2.0**-bits, m)
        if not own[family].all():
            away[np.repeat(own[family] == 0, m)] = 0
        fair = totals[family] / m
        if max(away.max(), -away.min()) + np.abs(fair).max() >= 2.0**53:
            refuse_beyond_exact(float(np.abs(np.repeat(fair, m) + away).max()), bits)
        estimates[nodes], carried = shared_out(totals[family], away, first, m, carried)
    return estimates


def refuse_beyond_exact(largest: float, bits: int) -> None:
    """Refuse numbers of units of 2^-bits which float64 does not hold.

    Raises:
        SumOverflow: they are 2^53 or more.
    """
    if largest >= 2**53:
        raise SumOverflow(
            f"private counts reach {largest * 2.0**-bits:.3g}; at this noise they are exact up "
            f"to {2.0 ** (53 - bits):.3g}: count in larger units"
        )


def shared_out(
    totals: Integers, away: Floats, first: Integers, size: Integers, carried: float
) -> tuple[Integers, float]:
    """Integer shares of the parents' totals: differences of rounded running sums.

    Args:
        totals: of the parents.
        away: what each child has more than its parent's mean; whole parts are added up as
            integers, so that running sums over many children lose nothing. Overwritten.
        first, size: where each family begins, and how many it has; families stand side by side.
        carried: the running sum of all fractions before these, which is returned for the next.
    """
    whole = np.floor(away)
    away -= whole
    fractions = away[first]
    away[0] += carried
    running = np.cumsum(away, out=away)
    carried = float(running[-1])
    each, left = np.divmod(totals, size)
    fair = np.arange(1, len(away) + 1, dtype=np.float64)  # how many siblings up to each child
    fair -= np.repeat(first.astype(np.float64), size)
    fair *= np.repeat(left / size, size)
    running -= np.repeat(running[first] - fractions, size)
    running += fair
    np.rint(running, out=running)
    shares = whole.astype(np.int64)
    # All siblings together get what is left exactly, not but for rounding.
    running[first + size - 1] = left - np.add.reduceat(shares, first)
    fair[0] = 0
    np.subtract(running[1:], running[:-1], out=fair[1:])
    fair[first] = running[first]
    shares += np.repeat(each, size)
    shares += fair.astype(np.int64)
    return shares, carried
