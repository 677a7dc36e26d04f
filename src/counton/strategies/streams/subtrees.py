"""The trees of `LookAhead`: estimates go upwards and then downwards, in integers.

Node v of level l covers the steps v W_l + 1 .. (v + 1) W_l within the horizon, W_l = k_1 .. k_l; it
is measured with weight w_l. Let x_v = z_v / w_l be the noise of its measured count. The noise of a
release is computed in two passes:

- *upwards, one level deep*: N_v is the best combination of x_v and the sum of x_c over the children
  c of v;
- *downwards*: F = N at the highest level. Below, F_u minus the sum of the children's N is shared
  out in proportion to their variances: F_c = N_c + share_c (F_u - sum of their N);
- the release at t is the sum of F over the siblings to the left of the path to step t, plus F of
  the step itself.

All of that runs in integers, in units of 2^-16. Every intermediate value estimates an integer, the
count of a node, so a change of the data moves it by an integer. Only differences of two estimates
of one count are rounded, which a change of the data does not move at all
(`counton.strategies.rounding`).

The horizon may cut the last node of a level short. The part beyond is known to be empty: it has no
nodes, and the shares of the remaining children are those of a node with fewer children.
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
#: A value for whole nodes, and one for the last node of a level.
_Pair = tuple[Fraction, Fraction]
#: An estimate reads nodes of all lower levels with at most this many, or of one level.
_MOST_READ = 400
#: Numbers drawn together for one estimate. With fewer, some are drawn again, which takes 2.7 times
#: as long with 100 coordinates.
_HELD = 2**20


class LevelNoise:
    """The noise of the nodes of some trees, and their estimates; the arrays last computed are
    cached.

    The last node of a level has room for as many children as any other; missing children have noise
    0.
    """

    def __init__(self, field: NodeNoise, counts: Sequence[int]) -> None:
        self._field, self._counts, self.shape = field, counts, field.shape
        self._held: dict[tuple[int, int], tuple[range, Integers]] = {}

    def run(self, level: int, nodes: range) -> Integers:
        """Return the noise of consecutive nodes of a level, read-only: ``(len(nodes), *shape)``."""
        return self.hold((level, 0), nodes, self._draw)

    def _draw(self, level: int, nodes: range) -> Integers:
        there = range(nodes.start, max(min(nodes.stop, self._counts[level]), nodes.start))
        z = self._field.run(level, there)
        lacking = np.zeros((len(nodes) - len(there), *self.shape), np.int64)
        return np.concatenate([z, lacking]) if len(lacking) else z

    def hold(
        self, kind: tuple[int, int], nodes: range, find: Callable[[int, range], Integers]
    ) -> Integers:
        """Return the result of ``find(level, nodes)``, or part of its last result if that covers
        the nodes.

        ``kind`` is the level, and a number that distinguishes several values of one level.
        """
        held, values = self._held.get(kind, (range(0), np.empty(0, np.int64)))
        if not held.start <= nodes.start <= nodes.stop <= held.stop:
            held, values = self._held[kind] = nodes, find(kind[0], nodes)
        return values[nodes.start - held.start : nodes.stop - held.start]


class Subtrees:
    """Trees of equal shape side by side; the last one is cut short at the last step.

    Levels count from single steps, 0, to the roots, ``len(radices)``. Noise and estimates are
    int64; ``*shape`` are the coordinates of a step. Estimates are in units of 2^-16.

    Args:
        steps: the number of all steps together.
        radices: numbers of children of nodes of level 1, 2, ...
        weights: weights of nodes of level 0, 1, ... in units of the lattice.
        own: the part of a node's own measurement in its estimate, which then reads one level below;
            weights must be 1. Default: the best part, and as many levels below as have few nodes.

    Attributes:
        widths: number of steps of a whole node of each level.
        counts: number of nodes of each level.
        children: number of children of a whole node and of the last node of level 1, 2, ...
        depths: for each level, the number of levels below a node that its estimate reads.
        by_depth: variances of estimates that read 0, 1, ... levels below, in units of the variance
            of a node's noise: for a whole node and for the last one of every level.
        variances: for each level, the variances of estimates that read as many levels as ``depths``
            states.
        spreads: sums of ``variances`` over the children of a whole and of the last node of level
            1, 2, ...

    >>> trees = Subtrees(12, (2, 3), (1, 1, 1))  # two roots of six steps
    >>> trees.counts, [str(whole) for whole, _ in trees.variances]
    ([12, 6, 2], ['1', '2/3', '2/3'])
    """

    def __init__(
        self,
        steps: int,
        radices: Sequence[int],
        weights: Sequence[int],
        own: Fraction | None = None,
    ) -> None:
        self.radices, self.weights, self._own = tuple(radices), tuple(weights), own
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
        if own is not None:
            self.depths = (0, *(1,) * self.top)
        self.by_depth: list[list[_Pair]] = [[(Fraction(1, w**2),) * 2 for w in self.weights]]
        for _ in range(max(self.depths)):
            self.by_depth.append(self._improve(self.by_depth[-1]))
        self.variances = [self.by_depth[self.depths[i]][i] for i in range(len(self.weights))]
        self.spreads = self._sums(self.variances)

    @cached_property
    def _factors(self) -> list[list[tuple[int, int]]]:
        """For each depth and level, the part of a difference that a node's estimate takes, in units
        of 2^-40.

        The difference is that of the node's measurement and its children's sum. The depth is the
        number of levels below that the estimate reads. A pair is for a whole node, and for the last
        node of the level.
        """
        # The factor of the difference between the node's measurement and its children's sum.
        return [
            [
                (self._factor(depth, level, False), self._factor(depth, level, True))
                for level in range(len(self.weights))
            ]
            for depth in range(len(self.by_depth))
        ]

    @cached_property
    def shares(self) -> list[tuple[int, int, int]]:
        """For each level, the part of a parent's correction that each child receives, in units of
        2^-40.

        The correction is the parent's final estimate less the sum of its children's estimates.
        Three parts are stated: for each child of a whole node, for each child of the last node, and
        for the last child of the last node.
        """
        return [
            (part_of(own[0] / spread[0]), part_of(own[0] / spread[1]), part_of(own[1] / spread[1]))
            for own, spread in zip(self.variances, self.spreads, strict=False)
        ]

    def own(self, depth: int, level: int, last: bool) -> Fraction:
        """Return the weight of a node's own measurement in an estimate that reads ``depth`` levels
        below.

        ``last`` is True for the last node of a level.
        """
        if not depth or not level:
            return Fraction(1)
        return Fraction(self.weights[level] * self._factor(depth, level, last), 1 << PART_BITS)

    def _factor(self, depth: int, level: int, last: bool) -> int:
        best = self.weights[level] ** 2 * self.by_depth[depth][level][last]
        return part_of((self._own or best) / self.weights[level])

    def _sums(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Return, for levels 1, 2, .., the sums of ``variances`` over the children of a node.

        Each pair is for a whole node and for the last node of the level.
        """
        return [
            (whole * own, (last - 1) * own + tail)
            for (whole, last), (own, tail) in zip(self.children, variances, strict=False)
        ]

    def _improve(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Return the variances of estimates that read one more level below than those of
        ``variances``.
        """
        # They combine a node's measurement with its children's estimates in the best way, or as
        # stated by ``own``.
        improved = [(Fraction(1, self.weights[0] ** 2),) * 2]
        for weight, sums in zip(self.weights[1:], self._sums(variances), strict=True):
            if self._own is None:
                whole, last = (both / (weight**2 * both + 1) for both in sums)
            else:
                whole, last = (self._own**2 + (1 - self._own) ** 2 * both for both in sums)
            improved.append((whole, last))
        return improved

    def estimates(self, drawn: LevelNoise, level: int, nodes: range, depth: int) -> Integers:
        """Return the noise of estimates of nodes of a level, read-only: ``(len(nodes), *shape)``.

        An estimate combines the node's measurement with those of ``depth`` levels below.
        """
        # The difference of the two does not change with the data, so a part of it may be rounded.
        own = drawn.run(level, nodes)
        if depth == 0:
            return _divide(own, self.weights[level])

        def find(level: int, nodes: range) -> Integers:
            sums = self._said_below(drawn, level, nodes, depth)
            factor, factor_of_last = self._factors[depth][level]
            lack = (own << FRACTION_BITS) - self.weights[level] * sums
            found = sums + part_times(lack, factor)
            last = self.counts[level] - 1 - nodes.start
            if 0 <= last < len(found):
                found[last] = sums[last] + part_times(lack[last], factor_of_last)
            return found

        return drawn.hold((level, depth), nodes, find)

    def _said_below(self, drawn: LevelNoise, level: int, nodes: range, depth: int) -> Integers:
        """Return, for each node, the sum of the estimates of its children, computed for some nodes
        at a time.
        """
        radix, parts = self.radices[level - 1], []
        together = self.widths[level - 1] // self.widths[level - depth]
        size = max(1, nodes_per_chunk(drawn.shape, _HELD) // (together * radix))
        for at in range(0, len(nodes), size):
            some = nodes[at : at + size]
            children = range(some.start * radix, some.stop * radix)
            if depth == 1:
                found = drawn.run(level - 1, children)
            else:
                found = self.estimates(drawn, level - 1, children, depth - 1)
            parts.append(_sum_children(found.reshape(len(some), radix, *drawn.shape)))
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
        """Yield the noise of running totals at ``leaves``, steps counted from 0, in parts and in
        order.

        The parts follow from final estimates of nodes of ``level``.

        Args:
            drawn: the noise of the nodes.
            level: the level of the nodes whose final estimates are given, above 0.
            leaves: a window of steps; those below other nodes are left out.
            first: the first node given.
            totals: noise of the final estimates of the given nodes, ``(n, *shape)``.
            before: noise of the running total before each of these nodes, ``(n, *shape)``.
        """
        # Releases are private with any final estimates ``totals`` that change by 2^16 times the
        # change of the node's count.
        radix, width = self.radices[level - 1], self.widths[level - 1]
        together = self.widths[level] // self.widths[level - 1 - self.depths[level - 1]]
        size = max(1, nodes_per_chunk(drawn.shape) // together)
        for at in range(0, len(totals), size):
            some, starts = totals[at : at + size], before[at : at + size].copy()
            child = (first + at) * radix
            children = range(child, child + len(some) * radix)
            found = self.estimates(drawn, level - 1, children, self.depths[level - 1])
            found = found.copy() if level > 1 else found
            groups = found.reshape(len(some), radix, *drawn.shape)
            sums = _sum_children(groups)
            if level == 1:
                z = drawn.run(0, children).reshape(groups.shape)
                sums = _divide(_sum_children(z), self.weights[0])
            self._share(level, first + at, some - sums, groups)
            # Each family starts at its exact total, without the rounding error of the family
            # before.
            starts[1:] -= (starts + _sum_children(groups))[:-1]
            ends = found if level == 1 else found.copy()
            ends[::radix] += starts
            add_up(ends)
            low = max(leaves.start // width - child, 0)
            high = min((leaves.stop - 1) // width + 1 - child, len(found))
            if low < high and level == 1:
                yield ends[low:high]
            elif low < high:
                inner, starts = found[low:high], ends[low:high] - found[low:high]
                yield from self.prefixes(drawn, level - 1, leaves, child + low, inner, starts)

    def _share(self, level: int, first: int, lack: Integers, groups: Integers) -> None:
        """Add to the estimates of children their parts of the parent's correction.

        ``groups`` has the estimates, ``(n, k, *shape)``. ``lack`` is the correction: the parent's
        final estimate less the sum of its children's.
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
    """Return, for each level, how many levels below the estimate of a node reads.

    It is one level, or more as long as they have few nodes.

    >>> depths_of((12, 12, 12, 40, 2))
    (0, 1, 2, 2, 1, 2)
    """
    depths = [0]
    for level in range(1, len(radices) + 1):
        depth, nodes = 1, radices[level - 1]
        while depth < level and nodes * radices[level - 1 - depth] <= _MOST_READ:
            nodes *= radices[level - 1 - depth]
            depth += 1
        depths.append(depth)
    return tuple(depths)


def _sum_children(groups: Integers) -> Integers:
    """Return the sum over the children of each node: ``(n, k, *shape)`` to ``(n, *shape)``."""
    added: Integers = np.einsum("ij...->i...", groups)
    return added


def _divide(drawn: Integers, weight: int) -> Integers:
    """Return noise divided by a node's weight, in units of 2^-16, rounded.

    A change of the noise by a multiple of the weight changes the result by exactly that multiple.

    >>> (_divide(np.array([4, 5, 8]), 4) / 2**16).tolist()
    [1.0, 1.25, 2.0]
    """
    bits = weight.bit_length() - 1
    if weight == 1 << bits and bits <= FRACTION_BITS:
        return drawn << (FRACTION_BITS - bits)
    quotients: Integers = ((drawn << FRACTION_BITS) + weight // 2) // weight
    return quotients
