"""The trees of `LookAhead`: least-squares estimates, upwards and then downwards, in integers.

Node v of level l measures the sum of the steps v W_l + 1 .. (v + 1) W_l within the horizon, with
weight w_l; W_l = k_1 .. k_l is the product of the numbers of children. Let x_v = z_v / w_l be the
noise of the node's measured count. The noise of a release is computed in two passes:

- *upwards*: N_v is the best combination of x_v and the sum of such estimates of v's children, from
  as many levels below as `Subtrees.depths` states;
- *downwards*: at the highest level F = N. Below, for a parent u, F_u minus the sum of its
  children's N is distributed in proportion to the children's variances: F_c = N_c + share_c (F_u -
  sum of their N);
- the noise of the release at step t is F of the single step t, plus the sum of F over the siblings
  to the left of the path from the root to t.

All of this runs in integers, in units of 2^-16. Every intermediate value estimates an integer, the
count of a node, so a change of the data changes it by an integer. Only differences of two estimates
of one count are rounded, which a change of the data leaves alone (`counton.strategies.rounding`).

If the horizon ends inside the last node of a level, its remaining steps are known to be 0. They
have no nodes, and this node's children receive the shares of a node with fewer children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from counton.base.arrays import Integers
from counton.strategies.rounding import PART_BITS, part_of, part_times
from counton.strategies.strategy import NodeNoise, add_up, nodes_per_chunk

#: Estimates are multiples of 2^-16.
FRACTION_BITS = 16
#: A value for complete nodes, and one for the last node of a level.
_Pair = tuple[Fraction, Fraction]
#: An estimate uses as many levels below its node as have at most this many nodes there, and at
#: least one.
_MOST_READ_NODES = 400
#: Noise values drawn together for one estimate. With fewer, some are drawn again, which takes 2.7
#: times as long with 100 coordinates.
_MOST_VALUES = 2**20


class LevelNoise:
    """The noise of nodes of some trees, and of estimates, of which the last arrays are kept.

    ``counts`` is the number of nodes by level. Children beyond the horizon have noise 0.
    """

    def __init__(self, field: NodeNoise, counts: Sequence[int]) -> None:
        self._field = field
        self._counts = counts
        self.shape = field.shape
        self._kept_nodes: dict[tuple[int, int], tuple[range, Integers]] = {}

    def run(self, level: int, nodes: range) -> Integers:
        """Return the noise of nodes of a level, read-only: ``(len(nodes), *shape)``."""
        return self.hold((level, 0), nodes, self._draw)

    def _draw(self, level: int, nodes: range) -> Integers:
        there = range(nodes.start, max(min(nodes.stop, self._counts[level]), nodes.start))
        z = self._field.run(level, there)
        lacking = np.zeros((len(nodes) - len(there), *self.shape), np.int64)
        return np.concatenate([z, lacking]) if len(lacking) else z

    def hold(
        self, kind: tuple[int, int], nodes: range, find: Callable[[int, range], Integers]
    ) -> Integers:
        """Return the numbers of some nodes, by ``find(level, nodes)`` unless they are still kept.

        The last array is kept for each ``kind``: the level, and a number that distinguishes
        several.
        """
        held, values = self._kept_nodes.get(kind, (range(0), np.empty(0, np.int64)))
        if not held.start <= nodes.start <= nodes.stop <= held.stop:
            held = nodes
            values = find(kind[0], nodes)
            self._kept_nodes[kind] = (held, values)
        return values[nodes.start - held.start : nodes.stop - held.start]


class Subtrees:
    """Trees of equal shape side by side; the last tree ends at the last step.

    Levels count from single steps, 0, to the roots, ``len(radices)``. ``*shape`` is that of the
    count of one step. Estimates are int64 in units of 2^-16.

    Args:
        steps: number of steps in all trees together.
        radices: number of children of the nodes of levels 1, 2, ...
        weights: weight of the measurements of levels 0, 1, ..., in units of 2^-lattice_bits.
        own: the weight of a node's own measurement in its estimate, which then uses one level
            below, with all ``weights`` 1. None: the weight of least variance, and several levels if
            these have few nodes.

    Attributes:
        widths, counts: steps in a complete node, and nodes, of each level.
        children: number of children of a complete and of the last node of levels 1, 2, ...
        depths: for each level, the levels below a node that its estimate uses.
        by_depth: by_depth[d][l] has the variances of estimates on level l that use d levels below:
            of a complete node and of the last node, in units of one node's noise variance.
        variances: for each level, those of estimates as deep as ``depths``.
        spreads: sums of ``variances`` over the children of a complete and of the last node.

    >>> trees = Subtrees(12, (2, 3), (1, 1, 1))  # two roots of six steps
    >>> trees.counts, [str(whole) for whole, _ in trees.variances]
    ([12, 6, 2], ['1', '2/3', '2/3'])
    """

    def __init__(
        self,
        steps: int,
        radices: Sequence[int],
        weights: Sequence[int],
        share: Fraction | None = None,
    ) -> None:
        self.radices = tuple(radices)
        self.weights = tuple(weights)
        self._fixed_share = share
        self.top = len(self.radices)
        self.widths = [1]
        for radix in self.radices:
            self.widths.append(self.widths[-1] * radix)
        self.counts = [-(-steps // width) for width in self.widths]
        self.children = [
            (radix, self.counts[level] - (self.counts[level + 1] - 1) * radix)
            for level, radix in enumerate(self.radices)
        ]
        self.depths = depths_of(self.radices)
        if share is not None:
            self.depths = (0, *(1,) * self.top)
        self.by_depth: list[list[_Pair]] = [[(Fraction(1, w**2),) * 2 for w in self.weights]]
        for _ in range(max(self.depths)):
            # The measurement of a node is combined with estimates of its children, with the least
            # variance or with the weight ``own``.
            improved = [self.by_depth[0][0]]
            for weight, sums in zip(self.weights[1:], self._sums(self.by_depth[-1]), strict=True):
                if share is None:
                    whole, last = (both / (weight**2 * both + 1) for both in sums)
                else:
                    whole, last = (share**2 + (1 - share) ** 2 * both for both in sums)
                improved.append((whole, last))
            self.by_depth.append(improved)
        self.variances = [self.by_depth[self.depths[i]][i] for i in range(len(self.weights))]
        self.spreads = self._sums(self.variances)

    @cached_property
    def _factors(self) -> list[list[tuple[int, int]]]:
        """Factors f, in units of 2^-40, by which a measurement corrects the sum of the children.

        With s this sum, y the node's measurement and w its weight, the estimate is s + f (y - w s).
        The first index is the number of levels below that it uses, the second the node's level; a
        pair is for a complete and for the last node.
        """
        return [
            [
                (self._factor(depth, level, last=False), self._factor(depth, level, last=True))
                for level in range(len(self.weights))
            ]
            for depth in range(len(self.by_depth))
        ]

    @cached_property
    def shares(self) -> list[tuple[int, int, int]]:
        """For each level, a node's part of its parent's correction, in units of 2^-40.

        The correction is the parent's final estimate minus the sum of its children's. The three
        parts are for children of a complete parent, of the last one, and for its last child.
        """
        return [
            (
                part_of(own_pair[0] / spread[0]),
                part_of(own_pair[0] / spread[1]),
                part_of(own_pair[1] / spread[1]),
            )
            for own_pair, spread in zip(self.variances, self.spreads, strict=False)
        ]

    def own(self, depth: int, level: int, last: bool) -> Fraction:
        """Return the weight of a node's own measurement in an estimate ``depth`` levels deep."""
        if not depth or not level:
            return Fraction(1)
        return Fraction(self.weights[level] * self._factor(depth, level, last=last), 1 << PART_BITS)

    def _factor(self, depth: int, level: int, *, last: bool) -> int:
        best = self.weights[level] ** 2 * self.by_depth[depth][level][last]
        return part_of((self._fixed_share or best) / self.weights[level])

    def _sums(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Return, for the levels 1, 2, ..., the summed variances of a node's children."""
        return [
            (whole * own_variance, (last - 1) * own_variance + tail)
            for (whole, last), (own_variance, tail) in zip(self.children, variances, strict=False)
        ]

    def estimates(self, drawn: LevelNoise, level: int, nodes: range, depth: int) -> Integers:
        """Return the noise of estimates ``depth`` levels deep, read-only, in units of 2^-16."""
        # The difference between measurement and children's sum does not change with the data, so it
        # may be rounded.
        measured = drawn.run(level, nodes)
        if depth == 0:
            return _divide(measured, self.weights[level])

        def find(level: int, nodes: range) -> Integers:
            sums = self._sums_below(drawn, level, nodes, depth)
            factor, factor_of_last = self._factors[depth][level]
            lack = (measured << FRACTION_BITS) - self.weights[level] * sums
            estimates = sums + part_times(lack, factor)
            last = self.counts[level] - 1 - nodes.start
            if 0 <= last < len(estimates):
                estimates[last] = sums[last] + part_times(lack[last], factor_of_last)
            return estimates

        return drawn.hold((level, depth), nodes, find)

    def _sums_below(self, drawn: LevelNoise, level: int, nodes: range, depth: int) -> Integers:
        """Return the summed estimates of the children of each node, ``depth`` - 1 levels deep."""
        radix = self.radices[level - 1]
        parts = []
        together = self.widths[level - 1] // self.widths[level - depth]
        size = max(1, nodes_per_chunk(drawn.shape, _MOST_VALUES) // (together * radix))
        for start in range(0, len(nodes), size):
            some = nodes[start : start + size]
            children = range(some.start * radix, some.stop * radix)
            if depth == 1:
                estimates = drawn.run(level - 1, children)
            else:
                estimates = self.estimates(drawn, level - 1, children, depth - 1)
            parts.append(_sum_children(estimates.reshape(len(some), radix, *drawn.shape)))
        sums = np.concatenate(parts)
        return _divide(sums, self.weights[level - 1]) if depth == 1 else sums

    def prefixes(
        self,
        drawn: LevelNoise,
        level: int,
        leaves: range,
        first: int,
        totals: Integers,
        before: Integers,
    ) -> Iterator[Integers]:
        """Yield the noise of running totals at ``leaves``, in order, some steps at a time.

        They are computed from final estimates of nodes on one level, and then level by level down.

        Args:
            level: the level of the nodes whose final estimates are given, above 0.
            leaves: consecutive steps from 0; those that are not below the given nodes are left out.
            first: the index of the first node given.
            totals, before: noise of the nodes' final estimates, and of the total before each.
        """
        # Releases are private with any final estimates ``totals`` that change by 2^16 times the
        # change of the node's count.
        radix = self.radices[level - 1]
        width = self.widths[level - 1]
        together = self.widths[level] // self.widths[level - 1 - self.depths[level - 1]]
        size = max(1, nodes_per_chunk(drawn.shape) // together)
        for start in range(0, len(totals), size):
            some = totals[start : start + size]
            starts = before[start : start + size].copy()
            child = (first + start) * radix
            children = range(child, child + len(some) * radix)
            estimates = self.estimates(drawn, level - 1, children, self.depths[level - 1])
            estimates = estimates.copy() if level > 1 else estimates
            groups = estimates.reshape(len(some), radix, *drawn.shape)
            sums = _sum_children(groups)
            if level == 1:
                z = drawn.run(0, children).reshape(groups.shape)
                sums = _divide(_sum_children(z), self.weights[0])
            self._share(level, first + start, some - sums, groups)
            # The children of each node start at its exact total, without rounding errors of the
            # children before.
            starts[1:] -= (starts + _sum_children(groups))[:-1]
            ends = estimates if level == 1 else estimates.copy()
            ends[::radix] += starts
            add_up(ends)
            low = max(leaves.start // width - child, 0)
            high = min((leaves.stop - 1) // width + 1 - child, len(estimates))
            if low < high and level == 1:
                yield ends[low:high]
            elif low < high:
                inner = estimates[low:high]
                starts = ends[low:high] - estimates[low:high]
                yield from self.prefixes(drawn, level - 1, leaves, child + low, inner, starts)

    def _share(self, level: int, first: int, lack: Integers, groups: Integers) -> None:
        """Add to the estimates of children their shares of the parent's correction, in place.

        ``lack`` has the corrections, ``(n, *shape)``; ``groups`` the children, ``(n, k, *shape)``.
        """
        whole, to_each, to_last = self.shares[level - 1]
        added = part_times(lack, whole)
        last = self.counts[level] - 1 - first
        if last >= len(lack):
            groups += added[:, None]
            return
        groups[:last] += added[:last, None]
        count = self.children[level - 1][1]
        groups[last, : count - 1] += part_times(lack[last], to_each)
        groups[last, count - 1] += part_times(lack[last], to_last)


@lru_cache(maxsize=4096)
def depths_of(radices: tuple[int, ...]) -> tuple[int, ...]:
    """Return, for each level, the number of levels below a node that its estimate uses.

    It is 1, or more if these levels have few nodes below each node; for single steps 0.

    >>> depths_of((12, 12, 12, 40, 2))
    (0, 1, 2, 2, 1, 2)
    """
    depths = [0]
    for level in range(1, len(radices) + 1):
        depth = 1
        nodes = radices[level - 1]
        while depth < level and nodes * radices[level - 1 - depth] <= _MOST_READ_NODES:
            nodes *= radices[level - 1 - depth]
            depth += 1
        depths.append(depth)
    return tuple(depths)


def _sum_children(groups: Integers) -> Integers:
    """Return the sum over the children of each node: ``(n, k, *shape)`` to ``(n, *shape)``."""
    added: Integers = np.einsum("ij...->i...", groups)
    return added


def _divide(drawn: Integers, weight: int) -> Integers:
    """Return noise divided by the weight of its nodes, in units of 2^-16, rounded.

    If the noise grows by ``k * weight``, for an integer k, the result grows by exactly k.

    >>> (_divide(np.array([4, 5, 8]), 4) / 2**16).tolist()
    [1.0, 1.25, 2.0]
    """
    bits = weight.bit_length() - 1
    if weight == 1 << bits and bits <= FRACTION_BITS:
        return drawn << (FRACTION_BITS - bits)
    quotients: Integers = ((drawn << FRACTION_BITS) + weight // 2) // weight
    return quotients
