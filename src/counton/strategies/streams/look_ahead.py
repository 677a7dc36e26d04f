"""The look-ahead tree: least squares over a tree whose later nodes are read before they are full.

The proof of privacy asks that B C = A and nothing else, so a release may read noise of nodes that
are not finished, also of the future: shifting z by d C e_i moves the releases from i on by d and no
other. So what seemed to need the whole table, estimates from below *and above*, runs on a stream.

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

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.exact import check_integer, check_integers, shown
from counton.laws import Law
from counton.strategies.base import (
    CHUNK,
    LARGEST_HORIZON,
    PART,
    ROWS_CHUNK,
    Metric,
    Node,
    NodeNoise,
    Norm,
    Reader,
    ReleaseForm,
    Steps,
    StreamStrategy,
    check_metric,
    check_norm,
    check_release_form,
    nodes_per_chunk,
)
from counton.strategies.participation import Part, schedule_for

#: Estimates are multiples of 2^-16.
FRACTION_BITS = 16
#: Weights that are searched for are multiples of 2^-8 of that of single steps.
WEIGHT_BITS = 8
#: No weight is larger, in units of the lattice: squares and sums of them stay within int64.
LARGEST_WEIGHT = 2**20
#: Of whole nodes, and of the last one of a level.
_Pair = tuple[Fraction, Fraction]
#: An estimate reads nodes of lower levels while there are no more of them, or of one level.
_MOST_READ = 400
#: From so many coordinates on, noise is found row by row; measured. Values never depend on it.
_WIDE = 512
#: Noise reaches so many standard deviations but for one draw in 2^180.
_REACH = 2**7


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

    Attributes:
        widths: steps of a whole node of each level.
        counts: how many nodes each level has.
        children: of a whole node and of the last node of level 1, 2, ...
        depths: how many levels below it an estimate N of a node reads, by level.
        by_depth: variances of estimates that read so many levels below, 0, 1, ..., in units of the
            variance of z: of a whole node and of the last one of every measured level.
        variances: those of N, by level.
        spreads: sums of ``variances`` over the children of a whole and of the last node of level
            1, 2, ...
        below: variances of what the children of a whole and of the last root say of it (`totals`).

    >>> trees = Subtrees(12, (2, 3), (1, 1))  # two roots of six steps
    >>> trees.counts, [str(variance) for variance in trees.below]
    ([12, 6, 2], ['2', '2'])
    """

    def __init__(self, steps: int, radices: Sequence[int], weights: Sequence[int]) -> None:
        self.radices, self.weights = tuple(radices), tuple(weights)
        self.top = len(self.radices)
        self.widths = [1]
        for radix in self.radices:
            self.widths.append(self.widths[-1] * radix)
        self.counts = [-(-steps // width) for width in self.widths]
        self.children = [
            (radix, self.counts[level] - (self.counts[level + 1] - 1) * radix)
            for level, radix in enumerate(self.radices)
        ]
        self.depths = _depths(self.radices)
        self.by_depth: list[list[_Pair]] = [[(Fraction(1, w**2),) * 2 for w in self.weights]]
        for _ in range(max(self.depths)):
            self.by_depth.append(self._improved(self.by_depth[-1]))
        self.variances = [self.by_depth[self.depths[i]][i] for i in range(len(self.weights))]
        self.spreads = self._sums(self.variances)
        if self.radices:
            self.below = self._sums(self.by_depth[self.depths[-1] - 1])[-1]
        self._factors = [
            [
                (float(weight * whole), float(weight * last))
                for weight, (whole, last) in zip(self.weights, variances, strict=True)
            ]
            for variances in self.by_depth
        ]
        #: Of what the children of a node lack: for each child of a whole node; of the last node,
        #: for each child and for the last child.
        self.shares = [
            (float(own[0] / spread[0]), float(own[0] / spread[1]), float(own[1] / spread[1]))
            for own, spread in zip(self.variances, self.spreads, strict=False)
        ]

    def _sums(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Sums over the children of a whole and of the last node of level 1, 2, ..."""
        return [
            (whole * own, (last - 1) * own + tail)
            for (whole, last), (own, tail) in zip(self.children, variances, strict=False)
        ]

    def _improved(self, variances: Sequence[_Pair]) -> list[_Pair]:
        """Of the best combinations of a node's measurement and its children's estimates."""
        improved = [(Fraction(1, self.weights[0] ** 2),) * 2]
        for weight, (whole, last) in zip(self.weights[1:], self._sums(variances), strict=False):
            improved.append((whole / (weight**2 * whole + 1), last / (weight**2 * last + 1)))
        return improved

    def roots(self, field: NodeNoise, nodes: range) -> tuple[Integers, Below]:
        """N of measured roots, ``(n, *shape)``, and what was drawn for it."""
        own = field.run(self.top, nodes)
        if self.top == 0:
            return _divided(own, self.weights[0]), Below(0, (), (), ())
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
            groups = _divided(drawn, self.weights[0])
            sums = _divided(drawn.sum(axis=0), self.weights[0])
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
        """An estimate of one node, that reads so many levels below: ``(*shape,)``."""
        own = field.run(level, range(node, node + 1))
        if depth == 0:
            return _divided(own[0], self.weights[level])
        sums = self._sums_below(field, level, node, depth)
        (found,) = self._estimates(level, depth, node, own, sums[None])
        return np.asarray(found)

    def _sums_below(self, field: NodeNoise, level: int, node: int, depth: int) -> Integers:
        """What the children of one node say of it, of so many levels: ``(*shape,)``."""
        radix = self.radices[level - 1]
        below = range(node * radix, min((node + 1) * radix, self.counts[level - 1]))
        if depth == 1:
            added: Integers = field.run(level - 1, below).sum(axis=0)
            return _divided(added, self.weights[level - 1])
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
                sums.append(_divided(_added(grouped), self.weights[at]))
                continue
            found.append(self._estimates(at, at - base, first, own, sums[-1]))
            grouped = found[-1].reshape(-1, radix, *own.shape[1:])
            sums.append(_added(grouped))
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
        """Estimates of nodes ``first``, ... of a level, that read so many levels below.

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
            self._share(level, first + at, totals[part] - _added(groups), groups)
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
                values = _divided(values, self.weights[0])
            groups = values.reshape(-1, radix, *shape)
            counted = sums[part] if exact else _added(groups)
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
def _depths(radices: tuple[int, ...]) -> tuple[int, ...]:
    """How many levels below it an estimate of a node of each level reads: few nodes, or one level.

    >>> _depths((12, 12, 12, 40, 2))
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


def _by_rows(field: NodeNoise) -> bool:
    """Whether steps have so many coordinates that chunks of them would hold few nodes."""
    return math.prod(field.shape) >= _WIDE


def _added(groups: Integers) -> Integers:
    """Sums over the children: ``(n, k, *shape)`` to ``(n, *shape)``."""
    added: Integers = np.einsum("ij...->i...", groups)
    return added


def _divided(drawn: Integers, weight: int) -> Integers:
    """z / weight in units of 2^-16, rounded; a change by a multiple of the weight changes only that
    multiple.

    >>> (_divided(np.array([4, 5, 8]), 4) / 2**16).tolist()
    [1.0, 1.25, 2.0]
    """
    bits = weight.bit_length() - 1
    if weight == 1 << bits and bits <= FRACTION_BITS:
        return drawn << (FRACTION_BITS - bits)
    quotients: Integers = ((drawn << FRACTION_BITS) + weight // 2) // weight
    return quotients


class _Place(NamedTuple):
    """Where steps lie in one level.

    Attributes:
        node, parent: of the step; parents of the highest level are 0.
        part: of the node that is over by the step, in variances of N.
        own: variance of the node's N; ``whole``: of those to its left.
        read: sum of variances over what is over of the parent.
        spread: of all of the parent; infinite where no estimate is above.
        excess: the spread over the node's children less the variance of its own N.
    """

    node: Integers
    parent: Integers
    part: Floats
    own: Floats
    whole: float
    read: Floats
    spread: float | Floats
    excess: float | Floats

    @property
    def alone(self) -> Floats:
        """Variance of what a release reads of this family."""
        left = self.read - self.part * self.own
        return np.asarray(left + self.own * self.part**2 - self.read**2 / self.spread)


class _Rows(Reader):
    """Windows one after the other, of steps of many coordinates."""

    def __init__(self, strategy: LookAhead, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._trees, self._noise = strategy.trees, field
        self._rows: Iterator[Integers] = iter(())
        self._next = 0

    def noise(self, steps: range) -> NDArray[np.int64]:
        """See `StreamStrategy.noise`."""
        self._strategy.check_window(steps)
        out = np.empty((len(steps), *self._noise.shape), np.int64)
        if len(steps) == 0:
            return out
        if steps.start != self._next:
            self._rows = self._trees.rows(self._noise, steps.start - 1)
        self._next = 0  # until all is there
        for row, noise in zip(out, self._rows, strict=False):
            row[...] = noise
        self._next = steps.stop
        return out

    def parts(self, steps: range) -> Iterator[NDArray[np.int64]]:
        """See `StreamStrategy.noise_parts`."""
        size = nodes_per_chunk(self._noise.shape, PART)
        for at in range(0, len(steps), size):
            yield self.noise(steps[at : at + size])


class LookAhead(StreamStrategy):
    """The look-ahead least-squares tree over ``horizon`` steps.

    D_1 is the sum of the weights, D_2^2 that of their squares. With n_l the variance of N at level
    l, 1 / n_l = w_l^2 + w_{l-1}^2 / k_l, the variance at t is

        n_top t / W_top + sum over the levels l > 0 of (k_l n_{l-1} - n_l) p_l (1 - p_l),

    p_l the part of its node of level l that is over by step t (in full nodes). About 1.1 draws a
    release.

    Source: least squares over trees of counts as in Hay et al., "Boosting the Accuracy of
    Differentially Private Histograms Through Consistency" (2010), and Honaker, "Efficient Use of
    Differentially Private Binary Trees" (2015), which both release a finished table. That the same
    estimates serve a stream is not in the papers.

    >>> tree = LookAhead(1000, radices=(12, 10), weights=(4, 4, 5))
    >>> tree.sensitivity(1), tree.column(15)
    (3.25, (Node(level=0, index=14, weight=1), Node(level=1, index=1, weight=1),
     Node(level=2, index=0, weight=Fraction(5, 4))))
    >>> round(tree.overall_variance("mean"), 3)
    5.733

    Args:
        horizon: steps it serves.
        radices: children of a node of level 1, 2, ...; level 0 are the steps. The highest level
            has as many nodes as the horizon needs.
        weights: of a measurement of level 0, 1, ..., one more than radices: positive integers in
            units of 2^-b, where the first is 2^b. Default: all 1.

    Raises:
        InvalidInput: an argument is out of range, or there is not a weight for every level.
    """

    horizon: int
    fraction_bits = FRACTION_BITS

    def __init__(
        self, horizon: int, radices: Sequence[int] = (), weights: Sequence[int] | None = None
    ) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        self.radices = check_integers("radix", radices, 2, CHUNK)
        given = (1,) * (len(self.radices) + 1) if weights is None else weights
        self.weights = check_integers("weight", given, 1, LARGEST_WEIGHT, most=65)
        if len(self.weights) != len(self.radices) + 1:
            raise InvalidInput(
                f"weights are {list(self.weights)} and radices {list(self.radices)}; there are "
                f"{len(self.radices) + 1} levels, single steps included: give a weight for each"
            )
        if self.weights[0].bit_count() != 1 or self.weights[0] > 1 << FRACTION_BITS:
            raise InvalidInput(
                f"the first of the weights is {self.weights[0]}; it says in which units the others "
                f"are: give a power of two up to 2^{FRACTION_BITS}"
            )
        if math.prod(self.radices) > LARGEST_HORIZON:
            raise InvalidInput(
                f"nodes of the highest level would have {shown(math.prod(self.radices))} steps; at "
                f"most 2^62 are possible: leave out some of the radices {list(self.radices)}"
            )
        #: Number of levels.
        self.height = len(self.weights)
        self.lattice_bits = self.weights[0].bit_length() - 1
        self.unit_columns = len(set(self.weights)) == 1
        #: The passes over its nodes, and what they know of the levels.
        self.trees = Subtrees(self.horizon, self.radices, self.weights)

    @classmethod
    def best(cls, horizon: int, norm: Norm = 1, metric: Metric = "mean") -> LookAhead:
        """The radices and weights with the least error found for one step a unit.

        Minimises error(metric) * D_1^2 for Laplace noise (``norm=1``) or error(metric) * D_2^2 for
        Gaussian noise (``norm=2``), by local search: weights are optimal for the radices, and no
        radix one larger or smaller is better.

        >>> LookAhead.best(8760)
        LookAhead(horizon=8760, radices=[15, 12, 14], weights=[256, 218, 226, 202])

        Raises:
            InvalidInput: an unknown metric or norm, or a horizon that is not an integer above 0.
        """
        horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        norm = check_norm(norm)
        check_metric(metric)
        return cls(horizon, *_search(_Asked(horizon, norm, metric)))

    @classmethod
    def candidates(
        cls,
        horizon: int,
        metric: Metric = "mean",
        release: ReleaseForm = "totals",
        *,
        steps: int | None = 1,
        separation: int = 1,
        every: int | None = None,
    ) -> tuple[LookAhead, ...]:
        """Trees one of which is the best found for any guarantee, for what is asked.

        For Laplace and for Gaussian noise. Long nodes hold more of the steps of a unit that acts
        several times, which weighs on the 2-norm; on the 1-norm every level weighs alike.

        Args:
            horizon: steps they serve.
            metric, release: which error; as `released_variance`.
            steps, separation, every: how often a unit counts, as in `Contribution`.

        Raises:
            InvalidInput: an argument out of range.

        >>> [tree.radices for tree in LookAhead.candidates(1000)]
        [(16, 14), (3, 2, 2, 2, 2, 2, 2, 2, 2)]
        >>> [tree.weights for tree in LookAhead.candidates(1000, steps=30)][-1]
        (256, 136, 30, 37, 1, 18, 38, 36, 35, 40, 28)
        """
        horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        check_metric(metric)
        check_release_form(release)
        schedule = schedule_for(horizon, steps, separation, every)
        asked = [
            _Asked(horizon, norm, metric, release, *often)
            for norm in (1, 2)
            for often in {(1, 1), (schedule.steps, schedule.apart)}
            if norm == 2 or often == (1, 1)
        ]
        found = dict.fromkeys(_search(each) for each in asked)
        return tuple(cls(horizon, *shape) for shape in found)

    @classmethod
    def examples(cls, horizon: int) -> tuple[LookAhead, ...]:
        """One level, levels of few and of many children, uneven weights, and the best ones."""
        return (
            cls(horizon),
            cls(horizon, (2, 2, 2)),
            cls(horizon, (3, 5), (4, 3, 7)),
            cls(horizon, (4, 3), (1, 2, 1)),
            cls(horizon, (7,), (256, 301)),
            cls.best(horizon),
            cls.best(horizon, 2, "max"),
        )

    @property
    def parameters(self) -> dict[str, Any]:
        """Horizon, radices and weights."""
        return {
            "horizon": self.horizon,
            "radices": list(self.radices),
            "weights": list(self.weights),
        }

    def column(self, step: int) -> tuple[Node, ...]:
        """The node of every level that holds the step."""
        leaf = self.check_step(step) - 1
        return tuple(
            Node(level, leaf // width, _plain(Fraction(weight, self.weights[0])))
            for level, (width, weight) in enumerate(
                zip(self.trees.widths, self.weights, strict=True)
            )
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes of all families along the path to the step, and their children."""
        leaf = self.check_step(step) - 1
        trees, top = self.trees, self.height - 1
        weights: dict[tuple[int, int], Fraction] = {}
        part = Fraction(1)  # how much of its node is over by the step
        for level in range(self.height):
            node = leaf // trees.widths[level]
            parent = -1 if level == top else leaf // trees.widths[level + 1]
            first = 0 if level == top else parent * self.radices[level]
            stop = trees.counts[level]
            if level < top:
                stop = min(stop, first + self.radices[level])
            whole, last = trees.variances[level]
            own = last if node == trees.counts[level] - 1 else whole
            read = (node - first) * whole + part * own
            if level < top:
                spread = trees.spreads[level][parent == trees.counts[level + 1] - 1]
                read /= spread
            for sibling in range(first, stop if level < top else node + 1):
                taken = part if sibling == node else Fraction(sibling < node)
                self._read(weights, level, sibling, taken - read if level < top else taken)
            part = read
        unit = self.weights[0]
        return tuple(
            Node(level, index, _plain(weight * unit))
            for (level, index), weight in sorted(weights.items())
            if weight
        )

    def _read(
        self,
        weights: dict[tuple[int, int], Fraction],
        level: int,
        node: int,
        taken: Fraction,
        depth: int | None = None,
    ) -> None:
        """Add the estimate of a node, by default N, to the weights of z, so many times."""
        trees, weight = self.trees, self.weights[level]
        depth = trees.depths[level] if depth is None else depth
        variance = trees.by_depth[depth][level][node == trees.counts[level] - 1]
        weights[level, node] = weights.get((level, node), Fraction(0)) + taken * weight * variance
        if depth == 0:
            return
        rest, radix = taken * (1 - weight**2 * variance), self.radices[level - 1]
        for child in range(node * radix, min((node + 1) * radix, trees.counts[level - 1])):
            self._read(weights, level - 1, child, rest, depth - 1)

    def l1_sensitivity(self) -> Fraction:
        """The sum of the weights: every item enters one node of each level."""
        return Fraction(sum(self.weights), self.weights[0])

    def squared_sensitivity(self) -> Fraction:
        """The sum of the squares of the weights."""
        return Fraction(sum(weight**2 for weight in self.weights), self.weights[0] ** 2)

    @property
    def largest_entry(self) -> int:
        """The largest weight."""
        return max(self.weights)

    def divided(self, part: Part | None) -> tuple[tuple[Part, int], ...]:
        """The nodes of the highest level, and the children of each node."""
        if part is None:
            part = Part(self.height, 0, self.horizon)
        if part.level == 0:
            return ()
        width = self.trees.widths[part.level - 1]
        full, rest = divmod(part.steps, width)
        parts = [(Part(part.level - 1, 1, width), full)] if full else []
        return (*parts, (Part(part.level - 1, 1, rest), 1)) if rest else tuple(parts)

    def level_weight(self, level: int) -> int:
        """The weight of its nodes."""
        return self.weights[level]

    def nodes_by_level(self) -> Iterator[NDArray[np.int64]]:
        """The node of each level that holds each step."""
        leaves = np.arange(self.horizon)
        for width in self.trees.widths:
            yield leaves // width

    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """In variances of one node, from how much of its node of each level is over."""
        total: Floats = np.zeros(())
        for at in self._along(self.check_steps(steps)):
            total = total + at.excess * at.part * (1 - at.part)
        return np.asarray(total + at.read)

    def window_variance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Squared differences of what both ends read of each N, family by family."""
        first, last = self.check_ends(starts, stops)
        total: Floats = np.zeros(first.shape)
        for one, two in zip(self._along(first), self._along(last), strict=True):
            differ = two.node - one.node
            apart = one.whole * ((1 - one.part) ** 2 + differ - 1) + two.own * two.part**2
            total = total + np.where(
                one.parent == two.parent,
                np.where(differ == 0, two.own * (two.part - one.part) ** 2, apart)
                - (two.read - one.read) ** 2 / two.spread,
                one.alone + two.alone,
            )
        return total

    def _along(self, ends: Integers) -> Iterator[_Place]:
        """Where steps lie, level by level from below; 0 is before the first step."""
        trees, unit = self.trees, float(self.weights[0]) ** 2
        node = np.maximum(ends - 1, 0)
        part: Floats = (ends > 0).astype(np.float64)
        excess: float | Floats = 0.0
        for level in range(self.height):
            whole, tail = (unit * float(variance) for variance in trees.variances[level])
            own = np.where(node == trees.counts[level] - 1, tail, whole)
            if level == self.height - 1:
                read = node * whole + part * own
                yield _Place(node, 0 * node, part, own, whole, read, math.inf, excess)
                return
            parent = node // self.radices[level]
            is_last = parent == trees.counts[level + 1] - 1
            spread = np.where(is_last, *(unit * float(s) for s in trees.spreads[level][::-1]))
            read = (node - parent * self.radices[level]) * whole + part * own
            yield _Place(node, parent, part, own, whole, read, spread, excess)
            above = np.where(is_last, *(unit * float(v) for v in trees.variances[level + 1][::-1]))
            node, part, excess = parent, read / spread, spread - above

    def overall_variance(self, metric: Metric) -> float:
        """Mean or maximum variance over the horizon: from moments of parts, or branch and bound."""
        check_metric(metric)
        if metric == "max":
            return _largest(self.trees) * float(self.weights[0]) ** 2
        weights = [weight / self.weights[0] for weight in self.weights]
        return _mean(self.horizon, self.radices, weights)

    def overall_window_variance(self, metric: Metric) -> float:
        """See `StreamStrategy.overall_window_variance`; in closed form, from the variances of F."""
        check_metric(metric)
        trees, unit = self.trees, float(self.weights[0]) ** 2
        most = metric == "max"

        def alone(level: int, last: bool, variance: float) -> float:
            """Mean or maximum over the steps of a node whose F has this variance."""
            if level == 0:
                return variance
            count = trees.children[level - 1][last]
            own, tail = (float(each) for each in trees.variances[level - 1])
            spread = float(trees.spreads[level - 1][last])

            def child(is_last: bool) -> float:
                share = (tail if is_last else own) / spread
                of_child = (tail if is_last else own) * (1 - share) + share**2 * variance
                return alone(level - 1, is_last, of_child)

            if not last:
                return child(False)
            return mixed(count, trees.widths[level - 1], steps[level], child)

        def mixed(count: int, width: int, held: int, child: Callable[[bool], float]) -> float:
            """Over so many children, of which the last is cut short."""
            if count == 1:
                return child(True)
            share = (count - 1) * width / held
            whole, last = child(False), child(True)
            return max(whole, last) if most else share * whole + (1 - share) * last

        #: Of the last node of each level.
        steps = [
            self.horizon - (count - 1) * width
            for count, width in zip(trees.counts, trees.widths, strict=True)
        ]
        top = self.height - 1
        found = mixed(
            trees.counts[top],
            trees.widths[top],
            self.horizon,
            lambda is_last: alone(top, is_last, float(trees.variances[top][is_last])),
        )
        return unit * found

    def window_rounding(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """A unit and a half a node that is read, at most, for each release; see the source."""
        first, last = self.check_ends(starts, stops)
        releases = (first > 0).astype(np.float64) + (last > first)
        return np.asarray(releases * self._rounding, dtype=np.float64)

    @cached_property
    def _rounding(self) -> float:
        """By how many units a release is off B z, at most, times 1.001 for float64.

        Counts of steps are exact, sums of other counts as measured are off by half a unit, and
        so is every product. A release reads at most all of each family.
        """
        trees = self.trees
        found = [0.0]  # by how much N is off, by level
        for level in range(1, self.height):
            base = level - trees.depths[level]
            sums = 0.5 if base else 0.0
            for at in range(base + 1, level + 1):
                own = trees.by_depth[at - base][at]
                rest = float(1 - self.weights[at] ** 2 * min(own))
                error = rest * sums + 0.5
                sums = error * trees.children[at][0] if at < level else sums
            found.append(error)
        error = found[-1]
        total = trees.counts[-1] * error
        for level in reversed(range(self.height - 1)):
            count = self.radices[level]
            error = found[level] + 0.5 + max(trees.shares[level]) * (count * found[level] + error)
            total += count * error
        return total * 1.001

    @property
    def largest_read(self) -> float:
        """See `StreamStrategy.largest_read`.

        The estimates of a node and of those above it read it with weights r_1, r_2, ...; a release
        reads these estimates c_1, c_2, ... times, of which all partial sums lie between -1 and 1.
        So the weights add up to no more than the sum of |r_j - r_{j+1}|.
        """
        trees, most = self.trees, 0.0
        for last in (False, True):
            for level in range(self.height):
                reads = []
                for above in range(level, self.height):
                    depth = trees.depths[above] - (above - level)
                    if depth < 0:
                        break
                    read = float(self.weights[level] * trees.by_depth[depth][level][last])
                    for between in range(level + 1, above + 1):
                        own = trees.by_depth[depth + between - level][between][last]
                        read *= float(1 - self.weights[between] ** 2 * own)
                    reads.append(read)
                most = max(most, sum(abs(a - b) for a, b in pairwise([*reads, 0.0])))
        return most * self.weights[0]

    def node_law(self, base: Law, level: int) -> Law:
        """The same law for all levels, if its sums fit.

        Raises:
            InvalidInput: noise so wide that sums of it would leave int64.
        """
        if base.std > self._largest_std:
            raise InvalidInput(
                f"noise of LookAhead would have standard deviation {base.std:,.4g} lattice cells a "
                f"node; at most {self._largest_std:,.4g} fit its fixed-point sums: raise the "
                f"budget, coarsen the resolution, or use Binary or KAry"
            )
        return base

    @cached_property
    def _largest_std(self) -> float:
        """Of a node's noise, for which every sum stays within int64.

        The widest are a node's own noise, and the sum over its children times its weight.
        """
        widest = 1.0
        for level, radix in enumerate(self.radices):
            ratio = max(self.weights[level + 1] / self.weights[level], 1.0)
            widest = max(widest, math.sqrt(radix) * ratio)
        total = math.sqrt(self.overall_variance("max")) / self.weights[0]
        return 2.0 ** (62 - FRACTION_BITS) / (_REACH * max(widest, total))

    @property
    def held(self) -> int:
        """A family of every level, where steps have many coordinates; else nothing is held."""
        return sum(self.radices) + 2 * self.height

    def reader(self, field: NodeNoise) -> Reader:
        """Steps of many coordinates go on where the last window ended."""
        return _Rows(self, field) if _by_rows(field) else Reader(self, field)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z on a window, in units of 2^-16: top down from the estimates of the highest level."""
        self.check_window(steps)
        out = np.empty((len(steps), *field.shape), np.int64)
        if _by_rows(field):
            return self.reader(field).noise(steps)
        at = 0
        for part in self.noise_parts(field, steps):
            out[at : at + len(part)] = part
            at += len(part)
        return out

    def noise_parts(self, field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        """See `StreamStrategy.noise_parts`: every part ends with a family."""
        self.check_window(steps)
        if len(steps) == 0:
            return
        if _by_rows(field):
            yield from self.reader(field).parts(steps)
            return
        leaves = range(steps.start - 1, steps.stop - 1)
        width = self.trees.widths[-1]
        first, last = leaves.start // width, (leaves.stop - 1) // width
        before = np.zeros(field.shape, np.int64)
        depth = self.trees.depths[-1]
        together = math.prod(self.radices[len(self.radices) - depth :])
        size = max(1, nodes_per_chunk(field.shape, ROWS_CHUNK) // together)
        # Roots to the left of the window count too, those in it are chunks of their own.
        for start in (*range(0, first, size), *range(first, last + 1, size)):
            stop = min(start + size, first if start < first else last + 1)
            found, below = self.trees.roots(field, range(start, stop))
            ends = np.cumsum(found, axis=0) + before
            if start >= first and self.radices:
                starts = ends - found
                yield from self.trees.prefixes(field, leaves, start, found, starts, below, True)
            elif start >= first:
                yield ends
            before = ends[-1]


def _plain(weight: Fraction) -> int | Fraction:
    """An integer where it is one."""
    return weight.numerator if weight.denominator == 1 else weight


# ------------------------------------------------------------------------------------- error


def _mean(horizon: int, radices: Sequence[int], weights: Sequence[float]) -> float:
    """Mean variance over all steps, from the moments of the part of each level's nodes.

    The part p of a node that is over is linear in that of its child, so the means of p and of p^2
    over the steps of a whole node and of the last node follow from those one level down.
    """
    count, width, rest = horizon, 1, 1  # nodes; steps of a whole node, and of the last one
    own = tail = 1 / weights[0] ** 2
    estimates = [(own, tail)]  # by depth
    one, two, gathered = 1.0, 1.0, 0.0  # of the last node: means of p, p^2, and of the sum so far
    whole = 0.0  # of whole nodes, the same sum
    for radix, weight, depth in zip(radices, weights[1:], _depths(radices)[1:], strict=True):
        last = count - (-(-count // radix) - 1) * radix
        count = -(-count // radix)
        share, mean, mean_square = _moments(last, own, tail, width, rest, one, two)
        spread, spread_of_last = radix * own, (last - 1) * own + tail
        square = weight**2
        estimates = [(1 / square, 1 / square)] + [
            (1 / (square + 1 / (radix * a)), 1 / (square + 1 / ((last - 1) * a + b)))
            for a, b in estimates[:depth]
        ]
        own, tail = estimates[depth]
        one, two = mean / spread_of_last, mean_square / spread_of_last**2
        gathered = share * gathered + (1 - share) * whole + (spread_of_last - tail) * (one - two)
        rest, width = rest + (last - 1) * width, width * radix
        whole += (spread - own) * ((width + 1) * (width - 1) / (6 * width * width))
    share, mean, _ = _moments(count, own, tail, width, rest, one, two)
    return mean + share * gathered + (1 - share) * whole


def _moments(
    count: int, own: float, tail: float, width: int, rest: int, one: float, two: float
) -> tuple[float, float, float]:
    """Over ``count`` children, the last with other moments: its share of the steps, and the means
    of what is over of all of them, in variances, and of its square."""
    share = rest / (rest + (count - 1) * width)
    p, pp = (width + 1) / (2 * width), (width + 1) * (2 * width + 1) / (6 * width * width)
    left = (count - 2) / 2
    first = own * (left + p)
    second = own**2 * ((count - 2) * (2 * count - 3) / 6 + 2 * left * p + pp)
    all_left = own * (count - 1)
    first_of_last = all_left + tail * one
    second_of_last = all_left**2 + 2 * all_left * tail * one + tail**2 * two
    return (
        share,
        share * first_of_last + (1 - share) * first,
        share * second_of_last + (1 - share) * second,
    )


def _largest(trees: Subtrees) -> float:
    """Largest variance over all steps, by branch and bound, in variances of z.

    What the levels above a node add is a concave function of the part of it that is over; what
    those below can add at most is known from smaller trees.
    """
    return _Peaks(trees).largest()


#: a, b, c of a + b p + c p^2.
_Parabola = tuple[float, float, float]


class _Peaks:
    """Branch and bound for the largest variance; see `_largest`."""

    def __init__(self, trees: Subtrees) -> None:
        self._trees = trees
        self._own = [tuple(map(float, both)) for both in trees.variances]
        self._spread = [(0.0, 0.0), *(tuple(map(float, both)) for both in trees.spreads)]
        self._excess = [(0.0, 0.0)] + [
            (spread[0] - own[0], spread[1] - own[1])
            for own, spread in zip(self._own[1:], self._spread[1:], strict=True)
        ]
        #: The most that a node's level and those below add, by level: whole nodes and last ones.
        self._most = [(0.0, 0.0)]
        for level in range(1, len(self._own)):
            whole = self._climb(level, False, self._arch((0.0, 0.0, 0.0), level, False), 0.0)
            last = self._excess[level][1] / 4 + max(self._most[-1])
            self._most.append((whole, last))

    def largest(self) -> float:
        """Over whole trees the last of them is worst; then the last tree."""
        top = self._trees.top
        count, (own, tail) = self._trees.counts[top], self._own[top]
        best = 0.0
        if count > 1:
            rises = self._arch((own * (count - 2), own, 0.0), top, False)
            best = self._climb(top, False, rises, best)
        rises = self._arch((own * (count - 1), tail, 0.0), top, True)
        return self._climb(top, True, rises, best)

    def _arch(self, above: _Parabola, level: int, last: bool) -> _Parabola:
        """With what the node itself adds, in the part of it that is over."""
        excess = self._excess[level][last]
        return above[0], above[1] + excess, above[2] - excess

    def _climb(self, level: int, last: bool, arch: _Parabola, best: float) -> float:
        """The larger of ``best`` and the most that is reached within a node."""
        if level == 0:
            return max(best, sum(arch))
        count = self._trees.children[level - 1][last]
        own, tail = self._own[level - 1]
        spread = self._spread[level][last]
        under = self._most[level - 2][0] if level > 1 else 0.0
        a, b, c = arch

        def child(number: int, is_last: bool) -> tuple[_Parabola, float]:
            start, slope = number * own / spread, (tail if is_last else own) / spread
            moved = a + start * (b + start * c), slope * (b + 2 * c * start), c * slope**2
            moved = self._arch(moved, level - 1, is_last)
            most = max(under, self._most[level - 2][1]) if is_last and level > 1 else under
            return moved, _top_of(moved) + most

        wholes = count - last
        middle = 0
        if c < 0:
            middle = int(min(max(-b / (2 * c), 0.0), 1.0) * spread / own)
        elif b > 0:
            middle = wholes - 1
        middle = min(middle, wholes - 1)
        for steps in (range(max(middle, 0), wholes), range(middle - 1, -1, -1)):
            for number in steps:
                moved, bound = child(number, False)
                if bound <= best * (1 + 1e-15):
                    if number != middle:
                        break
                    continue
                best = self._climb(level - 1, False, moved, best)
        if last:
            moved, bound = child(count - 1, True)
            if bound > best * (1 + 1e-15):
                best = self._climb(level - 1, True, moved, best)
        return best


def _top_of(parabola: _Parabola) -> float:
    """Its maximum over 0 <= p <= 1."""
    a, b, c = parabola
    ends = max(a, a + b + c)
    if c < 0 and 0 < b < -2 * c:
        return max(ends, a - b * b / (4 * c))
    return ends


# ------------------------------------------------------------------------------------ search

#: What is minimised, radices and weights.
_Weighed = tuple[float, tuple[int, ...], tuple[float, ...]]
#: Radices to begin with, by norm; for Laplace noise levels cost more.
_FIRST_RADICES: dict[int, tuple[int, ...]] = {1: (11, 12, 13, 14, 16, 18), 2: (2, 3, 4, 6)}
#: Weights for the least maximum are polished up to so many levels above the steps.
_POLISHED = 3
#: What begins so far above the best is not followed.
_HOPELESS = 1.03


class _Asked(NamedTuple):
    """For which error radices and weights are to be the best, and which units they protect."""

    horizon: int
    norm: Norm
    metric: Metric
    release: ReleaseForm = "totals"
    steps: int = 1
    apart: int = 1


@lru_cache(maxsize=256)
def _search(asked: _Asked) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Radices and integer weights with the least error found.

    Sums, products, quotients and square roots are the same on every machine, and so are their
    comparisons; there is nothing else here.
    """
    search = _Search(asked)
    best = search.weighed((), (1.0,), rounds=1)
    begin = []
    for radix in _FIRST_RADICES[asked.norm]:
        levels = 1
        while search.fits((radix,) * levels):
            begin.append(search.weighed((radix,) * levels, (1.0,) * (levels + 1), rounds=6))
            levels += 1
    begin.sort()
    for start in begin:
        if start[0] <= _HOPELESS * best[0] or start is begin[0]:
            best = min(best, search.nearby(start))
    _, radices, weights = best
    unit = 2**WEIGHT_BITS / weights[0]
    return radices, search.polished(
        radices, [max(1, math.floor(weight * unit + 0.5)) for weight in weights]
    )


class _Search:
    """Local search for radices, with the best weights for each."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._horizon, self._norm, self._metric = asked.horizon, asked.norm, asked.metric

    def nearby(self, best: _Weighed) -> _Weighed:
        """The best to be reached by changing the lowest, the highest and the sum of the others.

        Levels in between are alike, so that their radices differ by one at most.
        """
        levels = len(best[1])
        groups = [range(1)] if levels == 1 else [range(1), range(levels - 1, levels)]
        if levels > 2:
            groups.append(range(1, levels - 1))
        singles = [(group, step) for group in range(len(groups)) for step in (1, -1)]
        ways: list[tuple[tuple[int, int], ...]] = [(single,) for single in singles]
        ways += [(a, b) for a in singles for b in singles if a[0] < b[0]]
        moving = True
        while moving:
            moving = False
            for way in ways:
                while True:
                    radices = list(best[1])
                    for group, step in way:
                        _moved(radices, groups[group], step)
                    if min(radices) < 2 or not self.fits(radices):
                        break
                    found = self.weighed(tuple(radices), best[2], rounds=4)
                    if not found[0] < best[0] * (1 - 1e-9):
                        break
                    best, moving = found, True
        return self.weighed(best[1], best[2], rounds=8)

    def fits(self, radices: Sequence[int]) -> bool:
        """Whether a node of the highest level with a child less would not hold all steps."""
        return math.prod(radices[:-1]) * (radices[-1] - 1) < self._horizon

    def polished(self, radices: tuple[int, ...], weights: list[int]) -> tuple[int, ...]:
        """Integer weights of which no single one is better one larger or smaller."""
        if self._metric == "max" and (len(radices) > _POLISHED or self._asked.release == "windows"):
            return tuple(weights)

        def error() -> float:
            if self._metric == "mean":
                return self._error(radices, weights)
            size = self._size(self._costs(radices), weights)
            return size * _largest(Subtrees(self._horizon, radices, weights))

        least = error()
        for step in (16, 4, 1, -16, -4, -1, 1, -1):
            for level in range(1, len(weights)):
                while True:
                    weights[level] += step
                    found = error() if weights[level] > 0 else math.inf
                    if not found < least:
                        break
                    least = found
                weights[level] -= step
        return tuple(weights)

    def weighed(
        self, radices: tuple[int, ...], weights: tuple[float, ...], rounds: int
    ) -> _Weighed:
        """Better weights for these radices, from some to begin with; and their error.

        At the best weights w_l^(2 - norm) and the derivative of the error by w_l^2 have the same
        product at every level; dividing by its fourth root comes closer to that.
        """
        loads, costs = self._loads(radices), self._costs(radices)
        found, depths = list(weights), _depths(radices)
        for _ in range(rounds):
            terms = [
                load * own**2 for load, own in zip(loads, _variances(radices, found), strict=True)
            ]
            gains = list(terms)
            for level, depth in enumerate(depths):
                gain = terms[level]
                for down in range(level - 1, level - 1 - depth, -1):
                    gain /= radices[down]
                    gains[down] += gain
            if self._norm == 1:
                gains = [gain * weight for gain, weight in zip(gains, found, strict=True)]
            gains = [gain / cost for gain, cost in zip(gains, costs, strict=True)]
            found = [
                weight * math.sqrt(math.sqrt(gain / gains[0]))
                for weight, gain in zip(found, gains, strict=True)
            ]
        return self._error(radices, found), radices, tuple(found)

    def _error(self, radices: tuple[int, ...], weights: Sequence[float]) -> float:
        """What is minimised; for the largest error, a bound that is close."""
        size, release = self._size(self._costs(radices), weights), self._asked.release
        if self._metric == "mean" and release == "totals":
            return size * _mean(self._horizon, radices, weights)
        own = _variances(radices, weights)
        alone = sum(load * variance for load, variance in zip(_alone(radices), own, strict=True))
        if release == "windows":
            return size * alone
        if self._metric == "mean":
            return size * (alone + _mean(self._horizon, radices, weights)) / 2
        arches = sum(k * own[i] - own[i + 1] for i, k in enumerate(radices))
        totals = arches / 4 + own[-1] * max(self._horizon / math.prod(radices), 1.0)
        return size * (totals if release == "totals" else max(totals, alone))

    def _size(self, costs: Sequence[float], weights: Sequence[float]) -> float:
        """The squared norm by which a unit moves the nodes, to some factor."""
        norm = self._norm
        moved = sum(cost * weight**norm for cost, weight in zip(costs, weights, strict=True))
        return float(moved ** (3 - norm))

    def _costs(self, radices: Sequence[int]) -> list[float]:
        """How much each level weighs in the norm: in the squared one, what a unit's steps add up
        to in its nodes at most, for each step."""
        steps, width, costs = self._asked.steps, 1, [1.0]
        for radix in radices:
            width *= radix
            together = min(steps, -(-width // self._asked.apart))
            full, rest = divmod(steps, together)
            costs.append((full * together**2 + rest**2) / steps if self._norm == 2 else 1.0)
        return costs

    def _loads(self, radices: tuple[int, ...]) -> list[float]:
        """With which factor the variance of N of each level enters the error."""
        width, over = 1, [0.0]
        largest, release = self._metric == "max", self._asked.release
        for radix in radices:
            width *= radix
            over.append(0.25 if largest else (width + 1) * (width - 1) / (6 * width * width))
        at_top = self._horizon if largest else (self._horizon + 1) / 2
        over.append(max(at_top / width, 1.0 if largest else 0.5))
        totals = [k * over[i + 1] - over[i] for i, k in enumerate((*radices, 1))]
        alone = _alone(radices)
        if release == "windows":
            return alone
        if release == "totals" or largest:
            return totals
        return [(a + b) / 2 for a, b in zip(totals, alone, strict=True)]


def _alone(radices: Sequence[int]) -> list[float]:
    """With which factor the variance of N of each level enters that of a single step's F."""
    loads, left = [], 1.0
    for radix in radices:
        loads.append(left * (1 - 1 / radix))
        left /= radix * radix
    return [*loads, left]


def _moved(radices: list[int], places: range, step: int) -> None:
    """Make one of several radices larger or smaller, and keep them alike."""
    values = [radices[place] for place in places]
    wanted = min(values) if step > 0 else max(values)
    radices[places[values.index(wanted)]] += step


def _variances(radices: Sequence[int], weights: Sequence[float]) -> list[float]:
    """Of N in whole nodes, by level."""
    estimates = [1 / weights[0] ** 2]
    found = [estimates[0]]
    for radix, weight, depth in zip(radices, weights[1:], _depths(radices)[1:], strict=True):
        square = weight**2
        estimates = [1 / square, *(1 / (square + 1 / (radix * a)) for a in estimates[:depth])]
        found.append(estimates[depth])
    return found
