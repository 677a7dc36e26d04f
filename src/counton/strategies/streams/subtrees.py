"""The trees of `LookAhead`: estimates upwards, and passed down, in integers.

Node v of level l covers the steps v W_l + 1 .. (v + 1) W_l as far as they lie within the horizon,
W_l = k_1 .. k_l; it is measured with weight w_l. Let x_v = z_v / w_l be the noise of its count as
measured. The noise of a release is found in two passes:

- *upwards, one level deep*: N_v is the best combination of x_v and the sum of x_c over the children
  c of v;
- *downwards*: F = N at the highest level; below, what the N of the children of u lack of F_u is
  shared out in proportion to their variances: F_c = N_c + share_c (F_u - sum of their N);
- the release at t is the sum of F over the siblings to the left of the path to step t, and of the F
  of the step itself.

All of that runs in integers, in units of 2^-16. Every intermediate value estimates an integer, the
count of a node, so that a change of the data moves it by an integer; what is rounded is a
difference of two such estimates, which a change of the data does not move at all.

The last node of a level may be cut short by the horizon. What lies beyond is known to be empty: it
has no nodes, and the shares of those that are left are as for a node with fewer children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from counton.base.arrays import Integers
from counton.strategies.strategy import ROWS_CHUNK, NodeNoise, nodes_per_chunk

#: Estimates are multiples of 2^-16.
FRACTION_BITS = 16
#: Of whole nodes, and of the last one of a level.
_Pair = tuple[Fraction, Fraction]
#: An estimate reads nodes of lower levels while there are no more of them, or of one level.
_MOST_READ = 400


class Below(NamedTuple):
    """What was drawn and found below some nodes of a level, for the way down.

    Arrays are flat, ``(nodes, *shape)``, in the order of nodes, with places for children that the
    last node lacks.

    Attributes:
        base: the lowest level that was drawn.
        drawn: z of the levels from ``base`` up to the children.
        sums: what their children say of nodes of the levels from ``base + 1`` up to the nodes.
        found: estimates of nodes of the levels from ``base + 1`` up to the children.
    """

    base: int
    drawn: tuple[Integers, ...]
    sums: tuple[Integers, ...]
    found: tuple[Integers, ...]


class Subtrees:
    """Trees of equal shape side by side, the last one cut short where the steps end.

    Levels count from single steps, 0, to the roots, ``len(radices)``. Roots are measured if there
    is a weight for them; else their totals are estimated elsewhere, from what `totals` says among
    other things, and `prefixes` is told. Noise and estimates are int64, a coordinate of a step
    wherever ``*shape`` stands; estimates are in units of 2^-16.

    Args:
        steps: all steps together.
        radices: children of a node of level 1, 2, ...; at least one, unless roots are measured.
        weights: of nodes of level 0, 1, ... in units of the lattice: one for each level, or one for
            each but the roots.
        own: the part of a node's own measurement in its estimate, which then reads one level below;
            default: the best part, and as many levels as are few nodes. Weights are then all 1.

    Attributes:
        widths: steps of a whole node of each level.
        counts: how many nodes each level has.
        children: of a whole node and of the last node of level 1, 2, ...
        depths: how many levels below it an estimate N of a node reads, by level.
        by_depth: variances of estimates that read this many levels below, 0, 1, ..., in units of
            the variance of z: of a whole node and of the last one of every measured level.
        variances: those of N, by level.
        spreads: sums of ``variances`` over the children of a whole and of the last node of level
            1, 2, ...
        below: variances of what the children of a whole and of the last root say of it (`totals`).

    >>> trees = Subtrees(12, (2, 3), (1, 1))  # two roots of six steps
    >>> trees.counts, [str(variance) for variance in trees.below]
    ([12, 6, 2], ['2', '2'])
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
        if self.radices:
            self.below = self._sums(self.by_depth[self.depths[-1] - 1])[-1]

    @cached_property
    def _factors(self) -> list[list[tuple[float, float]]]:
        return [
            [
                (self._factor(depth, level, False), self._factor(depth, level, True))
                for level in range(len(self.weights))
            ]
            for depth in range(len(self.by_depth))
        ]

    @cached_property
    def shares(self) -> list[tuple[float, float, float]]:
        """Of what the children of a node lack: for each child of a whole node; of the last node,
        for each child and for the last child.
        """
        return [
            (float(own[0] / spread[0]), float(own[0] / spread[1]), float(own[1] / spread[1]))
            for own, spread in zip(self.variances, self.spreads, strict=False)
        ]

    def own(self, depth: int, level: int, last: bool) -> Fraction:
        """The part of a node's own measurement in its estimate from this many levels below."""
        if self._own is not None and depth and level:
            return self._own
        return self.weights[level] ** 2 * self.by_depth[depth][level][last]

    def _factor(self, depth: int, level: int, last: bool) -> float:
        return float(self.own(depth, level, last) / self.weights[level])

    def _sums(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Sums over the children of a whole and of the last node of level 1, 2, ..."""
        return [
            (whole * own, (last - 1) * own + tail)
            for (whole, last), (own, tail) in zip(self.children, variances, strict=False)
        ]

    def _improve(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Of the best combinations of a node's measurement and its children's estimates."""
        improved = [(Fraction(1, self.weights[0] ** 2),) * 2]
        if self._own is not None:
            rest = 1 - self._own
            for _, (whole, last) in zip(self.weights[1:], self._sums(variances), strict=False):
                improved.append((self._own**2 + rest**2 * whole, self._own**2 + rest**2 * last))
            return improved
        for weight, (whole, last) in zip(self.weights[1:], self._sums(variances), strict=False):
            improved.append((whole / (weight**2 * whole + 1), last / (weight**2 * last + 1)))
        return improved

    def roots(self, field: NodeNoise, nodes: range) -> tuple[Integers, Below]:
        """N of measured roots, ``(n, *shape)``, and what was drawn for it."""
        own = field.run(self.top, nodes)
        if self.top == 0:
            return _divide(own, self.weights[0]), Below(0, (), (), ())
        sums, below = self.totals(field, nodes)
        return self._estimates(self.top, self.depths[-1], nodes.start, own, sums), below

    def totals(self, field: NodeNoise, nodes: range) -> tuple[Integers, Below]:
        """What their children say of roots, ``(n, *shape)``, and what was drawn for it."""
        below = self._up(field, self.top, nodes, {})
        return below.sums[-1], below

    def prefixes(
        self,
        field: NodeNoise,
        leaves: range,
        first: int,
        totals: Integers,
        before: Integers,
        below: Below,
        spent: bool = False,
    ) -> Iterator[Integers]:
        """Noise of the running totals at ``leaves`` (steps, from 0 on), in parts, in order.

        Args:
            field: the table of noise; level l of the trees is its level l.
            leaves: a window of steps; those below other roots than the given are left out.
            first: the first root given.
            totals: F of the roots, ``(n, *shape)``.
            before: noise of the running total before each root, ``(n, *shape)``.
            below: of these roots, as `totals` or `roots` gave it.
            spent: what is below may be overwritten, and is of no use afterwards.

        Releases are private with any F that moves with the root's count, times 2^16.
        """
        yield from self._expand(field, self.top, leaves, first, totals, before, below, spent)

    def rows(self, field: NodeNoise, start: int) -> Iterator[Integers]:
        """Noise of the running total at leaves ``start``, ..., one by one: the same numbers.

        For steps of many coordinates, below measured roots. As many rows are held as a family of
        each level has nodes, instead of all that is below them; what is needed again is drawn
        again.
        """
        before = np.zeros(field.shape, np.int64)
        for root in range(self.counts[self.top]):
            total = self._estimate(field, self.top, root, self.depths[self.top])
            if (root + 1) * self.widths[self.top] > start:
                yield from self._walk(field, self.top, root, total, before, start)
            before = before + total

    def _walk(
        self,
        field: NodeNoise,
        level: int,
        node: int,
        total: Integers,
        before: Integers,
        start: int,
    ) -> Iterator[Integers]:
        """See `rows`, for the leaves of one node, given its F and what is before it."""
        if level == 0:
            yield before + total
            return
        radix, width = self.radices[level - 1], self.widths[level - 1]
        first, stop = node * radix, min((node + 1) * radix, self.counts[level - 1])
        if level == 1:
            drawn = field.run(0, range(first, stop))
            groups = _divide(drawn, self.weights[0])
            sums = _divide(drawn.sum(axis=0), self.weights[0])
        else:
            depth = self.depths[level - 1]
            groups = np.stack(
                [self._estimate(field, level - 1, child, depth) for child in range(first, stop)]
            )
            sums = groups.sum(axis=0)
        self._share(level, node, (total - sums)[None], groups[None])
        for child, share in enumerate(groups, start=first):
            if (child + 1) * width > start:
                yield from self._walk(field, level - 1, child, share, before, start)
            before = before + share

    def _estimate(self, field: NodeNoise, level: int, node: int, depth: int) -> Integers:
        """An estimate of one node, that reads this many levels below: ``(*shape,)``."""
        own = field.run(level, range(node, node + 1))
        if depth == 0:
            return _divide(own[0], self.weights[level])
        sums = self._sums_below(field, level, node, depth)
        (found,) = self._estimates(level, depth, node, own, sums[None])
        return np.asarray(found)

    def _sums_below(self, field: NodeNoise, level: int, node: int, depth: int) -> Integers:
        """What the children of one node say of it, of this many levels: ``(*shape,)``."""
        radix = self.radices[level - 1]
        below = range(node * radix, min((node + 1) * radix, self.counts[level - 1]))
        if depth == 1:
            added: Integers = field.run(level - 1, below).sum(axis=0)
            return _divide(added, self.weights[level - 1])
        sums = np.zeros(field.shape, np.int64)
        for child in below:
            sums += self._estimate(field, level - 1, child, depth - 1)
        return sums

    def _up(self, field: NodeNoise, level: int, nodes: range, known: dict[int, Integers]) -> Below:
        """Estimates below nodes, from as many levels as N of these nodes reads.

        ``known`` holds z, by level, as far as it was drawn before.
        """
        base = level - self.depths[level]
        drawn, sums, found = [], [], []
        for at in range(base, level):
            factor = self.widths[level] // self.widths[at]
            first, stop = nodes.start * factor, nodes.stop * factor
            own = known[at] if at in known else self._run(field, at, first, stop)
            drawn.append(own)
            radix = self.radices[at]
            if at == base:
                grouped = own.reshape(-1, radix, *own.shape[1:])
                sums.append(_divide(_sum_children(grouped), self.weights[at]))
                continue
            found.append(self._estimates(at, at - base, first, own, sums[-1]))
            grouped = found[-1].reshape(-1, radix, *own.shape[1:])
            sums.append(_sum_children(grouped))
        return Below(base, tuple(drawn), tuple(sums), tuple(found))

    def _run(self, field: NodeNoise, level: int, first: int, stop: int) -> Integers:
        """z of nodes of a level; 0 for those that do not exist."""
        drawn = field.run(level, range(first, max(min(stop, self.counts[level]), first)))
        if len(drawn) == stop - first:
            return drawn
        padded = np.zeros((stop - first, *field.shape), np.int64)
        padded[: len(drawn)] = drawn
        return padded

    def _estimates(
        self, level: int, depth: int, first: int, own: Integers, sums: Integers
    ) -> Integers:
        """Estimates of nodes ``first``, ... of a level, that read this many levels below.

        From their z and what their children say. The difference of the two does not move with the
        data, so that it may be rounded after being multiplied by a number of float64.
        """
        factor, factor_of_last = self._factors[depth][level]
        lack = (own << FRACTION_BITS) - self.weights[level] * sums
        found: Integers = sums + np.rint(lack * factor).astype(np.int64)
        last = self.counts[level] - 1 - first
        if last < len(found):
            found[last] = sums[last] + np.rint(lack[last] * factor_of_last).astype(np.int64)
        return found

    def _expand(
        self,
        field: NodeNoise,
        level: int,
        leaves: range,
        first: int,
        totals: Integers,
        before: Integers,
        below: Below,
        spent: bool,
    ) -> Iterator[Integers]:
        """See `prefixes`, for nodes ``first``, ... of any level above 0."""
        if level == 1:
            steps = below.drawn[0] if spent else below.drawn[0].copy()
            yield from self._steps(leaves, first, totals, before, steps, below.sums[0])
            return
        radix, width = self.radices[level - 1], self.widths[level - 1]
        base = level - 1 - self.depths[level - 1]
        size = len(totals)
        if base < below.base:
            together = self.widths[level] // self.widths[base]
            size = max(1, nodes_per_chunk(field.shape, ROWS_CHUNK) // together)
        for at in range(0, len(totals), size):
            part = slice(at, at + size)
            count, child = len(totals[part]), (first + at) * radix
            own = self._part(below, level, at, at + count)
            if base == below.base:
                found, inner = (
                    own.found[-1],
                    own._replace(drawn=own.drawn[:-1], sums=own.sums[:-1], found=own.found[:-1]),
                )
            else:
                known = dict(enumerate(own.drawn, start=below.base))
                inner = self._up(field, level - 1, range(child, child + count * radix), known)
                found = self._estimates(
                    level - 1, self.depths[level - 1], child, own.drawn[-1], inner.sums[-1]
                )
            groups = found.reshape(count, radix, *found.shape[1:]).copy()
            self._share(level, first + at, totals[part] - _sum_children(groups), groups)
            starts = np.zeros_like(groups)
            np.cumsum(groups[:, :-1], axis=1, out=starts[:, 1:])
            starts += before[part][:, None]
            low = max(leaves.start // width - child, 0)
            high = min((leaves.stop - 1) // width + 1 - child, len(found))
            if low < high:
                yield from self._expand(
                    field,
                    level - 1,
                    leaves,
                    child + low,
                    groups.reshape(found.shape)[low:high],
                    starts.reshape(found.shape)[low:high],
                    self._part(inner, level - 1, low, high),
                    spent or base < below.base,
                )

    def _part(self, below: Below, level: int, low: int, high: int) -> Below:
        """Of what is below nodes, what is below some of them."""

        def part(arrays: tuple[Integers, ...], lowest: int) -> tuple[Integers, ...]:
            factors = (self.widths[level] // width for width in self.widths[lowest:])
            return tuple(
                array[low * factor : high * factor]
                for array, factor in zip(arrays, factors, strict=False)
            )

        base = below.base
        drawn, sums, found = below.drawn, below.sums, below.found
        return Below(base, part(drawn, base), part(sums, base + 1), part(found, base + 1))

    def _steps(
        self,
        leaves: range,
        first: int,
        totals: Integers,
        before: Integers,
        drawn: Integers,
        sums: Integers,
    ) -> Iterator[Integers]:
        """See `prefixes`, for nodes of level 1: one running sum over all steps, written on z."""
        radix, shape = self.radices[0], drawn.shape[1:]
        size = max(1, nodes_per_chunk(shape, ROWS_CHUNK) // radix)
        for at in range(0, len(totals), size):
            part = slice(at, at + size)
            values = drawn[at * radix : (at + size) * radix]
            bits = self.weights[0].bit_length() - 1
            exact = self.weights[0] == 1 << bits  # a power of two: nothing is rounded
            if exact:
                np.left_shift(values, FRACTION_BITS - bits, out=values)
            else:
                values = _divide(values, self.weights[0])
            groups = values.reshape(-1, radix, *shape)
            counted = sums[part] if exact else _sum_children(groups)
            added = self._share(1, first + at, totals[part] - sums[part], groups)
            # Each family goes on where it should, not where rounding has brought the one before.
            starts = before[part].copy()
            starts[1:] -= (starts + counted + radix * added)[:-1]
            groups[:, 0] += starts
            np.cumsum(values, axis=0, out=values)
            low = (first + at) * radix
            if low < leaves.stop and low + len(values) > leaves.start:
                yield values[max(leaves.start - low, 0) : leaves.stop - low]

    def _share(self, level: int, first: int, lack: Integers, groups: Integers) -> Integers:
        """Add to estimates of children, ``(n, k, *shape)``, their share of what they lack.

        Returns what is added to each child of a whole node.
        """
        whole, to_each, to_last = self.shares[level - 1]
        added: Integers = np.rint(lack * whole).astype(np.int64)
        last = self.counts[level] - 1 - first
        if last >= len(lack):
            groups += added[:, None]
            return added
        groups[:last] += added[:last, None]
        count = self.children[level - 1][1]
        groups[last, : count - 1] += np.rint(lack[last] * to_each).astype(np.int64)
        groups[last, count - 1] += np.rint(lack[last] * to_last).astype(np.int64)
        return added


@lru_cache(maxsize=4096)
def depths_of(radices: tuple[int, ...]) -> tuple[int, ...]:
    """How many levels below it an estimate of a node of each level reads: few nodes, or one level.

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
    """Sums over the children: ``(n, k, *shape)`` to ``(n, *shape)``."""
    added: Integers = np.einsum("ij...->i...", groups)
    return added


def _divide(drawn: Integers, weight: int) -> Integers:
    """z / weight in units of 2^-16, rounded; a change by a multiple of the weight changes only that
    multiple.

    >>> (_divide(np.array([4, 5, 8]), 4) / 2**16).tolist()
    [1.0, 1.25, 2.0]
    """
    bits = weight.bit_length() - 1
    if weight == 1 << bits and bits <= FRACTION_BITS:
        return drawn << (FRACTION_BITS - bits)
    quotients: Integers = ((drawn << FRACTION_BITS) + weight // 2) // weight
    return quotients
