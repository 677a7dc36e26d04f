"""A tree of measurements inside every block of steps, whose levels divide the block's weight.

`LeastSquaresStrategy` measures the sums of blocks by a strategy for lines, in which a block is
a cell. This tree is over the steps inside a block. A pass from leaves to root estimates the total
of the block; a pass from root to leaves distributes the final estimate, which comes from the line.
Every estimate is rounded when it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integers
from counton.strategies.strategy import NUMBERS_PER_PART, NodeNoise, Norm

#: Largest number of steps in a block.
LARGEST_BLOCK_STEPS = 2**22
#: Noise inside blocks is rounded to multiples of 2^-24.
INNER_BITS = 24
#: Estimates inside blocks are combined with weights in units of 2^-8.
_WEIGHT_BITS = 8
#: Quotients computed together, few enough to stay in the cache; chosen by measurement.
_QUOTIENTS_IN_CACHE = 2**14


class BlockTree:
    """A tree of measured nodes inside every block of steps, for a line whose cells are blocks.

    Without it the line measures the total of a block with a weight w. The tree measures a node of
    level l with weight ``shares[l] * w`` instead. Nodes of a level have consecutive indices across
    all blocks.

    Args:
        radices: number of children of the nodes of levels 1, 2, ...; the last is the block.
        shares: an integer for each level below the block, and perhaps for the block itself: its
            part of the block's weight; empty: 1 each.
        norm: the norm of the shares (1 or 2) that divides the block's weight.

    Raises:
        InvalidInputError: an argument out of range.

    Attributes:
        unit: the norm of the shares, rounded up, by which the line's weights are multiplied.
        exact_variance: the variance of the tree's estimate of a total, times the square of the
            block's weight, in units of one node's noise variance.
        variance: a simple fraction near it, which least squares use instead.

    >>> tree = BlockTree((4, 3), (5, 3), 1)
    >>> tree.widths, tree.unit
    ([1, 4, 12], 8)
    """

    def __init__(self, radices: Sequence[int], shares: Sequence[int], norm: Norm) -> None:
        self.radices = check_integers("radix", radices, 2, LARGEST_BLOCK_STEPS)
        self.top = len(self.radices)
        self.widths = [1]
        for radix in self.radices:
            self.widths.append(self.widths[-1] * radix)
        if self.widths[-1] > LARGEST_BLOCK_STEPS:
            raise InvalidInputError(
                f"blocks have {self.widths[-1]} steps, but at most 2^22 are possible: leave out "
                f"some of the radices {list(self.radices)}, and give a line with more cells, one "
                "for each block"
            )
        #: The shares that were given, or 1 for each level.
        self.given = check_integers("share", shares, 0, 2**10)
        if not self.given:
            self.given = (1,) * self.top
        if len(self.given) - self.top not in (0, int(self.top > 0)) or not all(
            self.given[: self.top]
        ):
            raise InvalidInputError(
                f"shares are {list(self.given)} and radices {list(self.radices)}; give one share "
                f"above 0 for each of the {self.top} levels below a block, and perhaps one more "
                "for the block itself"
            )
        self.shares = (*self.given, 0)[: self.top + 1] if self.top else (1,)
        squares = sum(share**2 for share in self.shares)
        self.unit = 1
        if self.top:
            self.unit = sum(self.shares) if norm == 1 else math.isqrt(squares - 1) + 1
        # For each level: the weight of the children in a node's estimate, in units of 2^-8, and
        # the variance of this estimate.
        fixed_one = 1 << _WEIGHT_BITS
        own_variances = [Fraction(1, share**2) if share else None for share in self.shares]
        self._of_children = [0]
        self.variances = [own_variances[0] or Fraction(1)]
        for level, radix in enumerate(self.radices, start=1):
            below = own_variances[level - 1] if level < self.top else self.variances[-1]
            children = radix * (below or Fraction(1))
            alone = own_variances[level]
            weight = fixed_one if alone is None else round(fixed_one * alone / (alone + children))
            self._of_children.append(weight)
            part = Fraction(weight, fixed_one)
            self.variances.append(part**2 * children + (1 - part) ** 2 * (alone or 0))
        self.exact_variance = self.variances[-1] if self.top else Fraction(1)
        self.variance = self.exact_variance.limit_denominator(2**22)

    # ---------------------------------------------------------------------------- integers

    def _measured_noise(
        self, field: NodeNoise, cell_weights: Integers, level: int, nodes: range
    ) -> Integers:
        """Return the noise of nodes' measurements over their weights, in units of 2^-24.

        The shape is (nodes, coordinates). ``cell_weights`` has the weight of each block.
        """
        drawn = field.run(1 + level, nodes).reshape(len(nodes), -1)
        per_block = self.widths[-1] // self.widths[level]
        first = nodes.start // per_block
        stop = -(-nodes.stop // per_block)
        weights = np.repeat(self.shares[level] * cell_weights[first:stop], per_block)
        return _quotients(drawn, weights[nodes.start - first * per_block :][: len(nodes), None])

    def _children(
        self, field: NodeNoise, cell_weights: Integers, level: int, nodes: range
    ) -> Integers:
        """Return `_measured_noise` of all children of some nodes of ``level`` > 0."""
        radix = self.radices[level - 1]
        children = range(nodes.start * radix, nodes.stop * radix)
        return self._measured_noise(field, cell_weights, level - 1, children)

    def _estimates(self, level: int, measured: Integers | None, below: Integers) -> Integers:
        """Return the noise of estimates from ``measured`` (overwritten; None: not) and children."""
        sums = _sum_children(below, self.radices[level - 1])
        if measured is None:
            return sums
        weight = self._of_children[level]
        mask = (1 << _WEIGHT_BITS) - 1
        lack = sums - measured
        # The product is computed in two parts, so that none overflows int64.
        measured += (lack >> _WEIGHT_BITS) * weight
        measured += ((lack & mask) * weight + (mask + 1) // 2) >> _WEIGHT_BITS
        return measured

    def roots(self, field: NodeNoise, cell_weights: Integers, blocks: range) -> Integers:
        """Return the noise of the tree's estimate of each total, in units of 2^-24."""
        radix = self.radices[-1]
        size = max(1, math.prod(field.shape))
        children_per_block = radix * (self.radices[-2] if self.top > 1 else 1)
        estimates = np.empty((len(blocks), size), np.int64)
        for start in range(
            0, len(blocks), step := max(1, NUMBERS_PER_PART // (children_per_block * size))
        ):
            some = blocks[start : start + step]
            children = range(some.start * radix, some.stop * radix)
            below = self._measured_noise(field, cell_weights, self.top - 1, children)
            if self.top > 1:
                inner = self._children(field, cell_weights, self.top - 1, children)
                below = self._estimates(self.top - 1, below, inner)
            alone = (
                self._measured_noise(field, cell_weights, self.top, some)
                if self.shares[self.top]
                else None
            )
            estimates[start : start + step] = self._estimates(self.top, alone, below)
        return estimates

    def inside(
        self, field: NodeNoise, cell_weights: Integers, steps: range, sums: Integers
    ) -> Integers:
        """Return the noise of running totals at ``steps``, counted from 0, in units of 2^-24.

        ``sums`` has the noise of totals at the start of the first block of ``steps``, and at the
        end of every one.
        """
        first = steps.start // self.widths[-1]
        starts = sums[:-1]
        totals = np.diff(sums, axis=0)
        measured = self._children(field, cell_weights, self.top, range(first, first + len(totals)))
        for level in range(self.top - 1, -1, -1):
            radix = self.radices[level]
            width = self.widths[level]
            children = range(first * radix, (first + len(totals)) * radix)
            estimates = measured
            if level:
                below = self._children(field, cell_weights, level, children)
                estimates = self._estimates(level, measured, below)
            groups = estimates.reshape(len(totals), radix, -1)
            counted = _sum_children(estimates, radix)
            added = (2 * (totals - counted) + radix) // (2 * radix)
            groups += added[:, None]
            low = steps.start // width - children.start
            high = (steps.stop - 1) // width + 1 - children.start
            first = children.start + low
            totals = estimates[low:high] if level else totals
            # One running sum over all nodes; the children of each node begin at the node's own
            # start.
            ends = estimates.copy() if level else estimates
            ends[::radix] += starts
            ends[radix::radix] -= (starts + counted + radix * added)[:-1]
            np.cumsum(ends, axis=0, out=ends)
            if level:
                starts = ends[low:high] - totals
                inner = self.radices[level - 1]
                measured = below[low * inner : high * inner]
        return ends[low:high]

    @property
    def rounding(self) -> tuple[float, float]:
        """Largest rounding errors of a block's total and of totals inside, in units of 2^-24."""
        errors = [0.5]
        for level, radix in enumerate(self.radices, start=1):
            below = 0.5 if level < self.top else errors[-1]
            errors.append(radix * below + 1.5)
        error = inside = 0.0
        for level in range(self.top - 1, -1, -1):
            error = 2 * errors[level] + error / self.radices[level] + 0.5
            inside += self.radices[level] * error
        return errors[-1], inside

    # ---------------------------------------------------------------------- as real numbers

    @property
    def largest_read(self) -> float:
        """Upper bound of w |f| over all nodes and releases, for blocks of weight w.

        f is the factor of a node's noise in a release that contains the block's total with a factor
        of at most 1.
        """
        # Let r_l be the weight of the siblings' estimates of level l in the release, p_l the weight
        # of children in N (the estimate of a node from those below it), and w_l the node's share of
        # the block's weight. Then the weight of a node's noise is ((1 - p_l) (c - r_l) + p_{l+1}
        # (r_l - r_{l+1})) / w_l, with c = 0 or 1: at most the larger of 1 - p_l and
        # p_{l+1}, over w_l.
        fixed_one = 1 << _WEIGHT_BITS
        parents = [*self._of_children[1 : self.top], 0]  # a block's estimate uses N of its children
        levels = zip(self.shares, self._of_children, parents, strict=False)
        return max(
            max(fixed_one - weight, parent_weight) / fixed_one / share
            for share, weight, parent_weight in levels
        )

    @property
    def largest_of_block(self) -> float:
        """Weight of a block's own measurement in its estimate, times its weight; 0 if none."""
        part = self._of_children[-1] / (1 << _WEIGHT_BITS)
        return (1 - part) / self.shares[-1] if self.top and self.shares[-1] else 0.0

    def _along(self, offset: Integers) -> Iterator[tuple[Integers, Floats, float]]:
        """Yield by level the node among siblings, complete part and variance at ``offset``."""
        part = np.ones(offset.shape)
        for level, radix in enumerate(self.radices):
            child = offset // self.widths[level] % radix
            yield child, part, float(self.variances[level])
            part = (child + part) / radix

    def contrast(self, offset: Integers) -> Floats:
        """Return the variance that nodes inside a block add to the releases at ``offset``.

        It is without the noise of totals, in units of one node's variance for a block of weight 1.
        """
        total = np.zeros(offset.shape)
        for radix, (child, part, variance) in zip(self.radices, self._along(offset), strict=True):
            total += variance * (child + part**2 - (child + part) ** 2 / radix)
        return total

    def contrasts(self, earlier: Integers, later: Integers, inverse: Floats) -> Floats:
        """Return the variance that noise inside blocks adds to differences of releases.

        It is without the noise of totals, in units of one node's variance.

        Args:
            earlier, later: the steps, counted from 0; -1 stands for no release.
            inverse: 1 / weight^2 of each block, with a 0 in front: shape (blocks + 1,).
        """
        block = [steps // self.widths[-1] for steps in (earlier, later)]
        total = np.zeros(earlier.shape)
        pairs = zip(self._along(earlier), self._along(later), strict=True)
        for level, ((a, part, variance), (b, other, _)) in enumerate(pairs):
            radix = self.radices[level]
            width = self.widths[level + 1]
            same = (earlier // width == later // width) & (earlier >= 0)
            apart = (1 - part) ** 2 + (b - a - 1) + other**2
            both = np.where(a == b, (other - part) ** 2, apart)
            both -= (b + other - a - part) ** 2 / radix
            alone = [
                (child + over**2 - (child + over) ** 2 / radix) * inverse[which + 1]
                for child, over, which in ((a, part, block[0]), (b, other, block[1]))
            ]
            total += variance * np.where(same, both * inverse[block[1] + 1], alone[0] + alone[1])
        return total

    # ------------------------------------------------------------------------------ exactly

    def read(
        self, weights: dict[tuple[int, int], Fraction], level: int, node: int, share: Fraction
    ) -> None:
        """Add ``share`` times a node's estimate to the ``weights`` of a release by (level, index).

        Level l of the tree has noise level l + 1; the weight of the block divides ``share``.
        """
        # All weights are multiplied by the weight of the block.
        part = Fraction(self._of_children[level], 1 << _WEIGHT_BITS)
        if self.shares[level]:
            address = (1 + level, node)
            weight_before = weights.get(address, Fraction(0))
            weights[address] = weight_before + (1 - part) * share / self.shares[level]
        if level == 0:
            return
        radix = self.radices[level - 1]
        for child in range(node * radix, (node + 1) * radix):
            if level == self.top:
                self.read(weights, level - 1, child, part * share)
                continue
            weight_before = weights.get((level, child), Fraction(0))
            weights[level, child] = weight_before + part * share / self.shares[level - 1]

    def read_inside(
        self, weights: dict[tuple[int, int], Fraction], step: int, share: Fraction
    ) -> None:
        """Add what nodes inside the step's block contribute to a release, beside the total."""
        part = Fraction(1)
        for level, radix in enumerate(self.radices):
            node = step // self.widths[level]
            first = node // radix * radix
            read = (node - first + part) / radix
            for child in range(first, first + radix):
                over = part if child == node else Fraction(child < node)
                self.read(weights, level, child, share * (over - read))
            part = read


def _sum_children(below: Integers, radix: int) -> Integers:
    """Return the sum over the ``radix`` children of each node."""
    return np.asarray(np.einsum("ijk->ik", below.reshape(-1, radix, below.shape[1])))


def _quotients(drawn: Integers, weights: Integers) -> Integers:
    """Return floor(2^24 drawn / weights + h): rounded to the nearest.

    h is 1/2 for even weights, and 1/2 - 1 / (2 weight) for odd weights.

    >>> (_quotients(np.array([[4], [5], [8]]), np.array([[4], [4], [3]])) / 2**24).round(3).tolist()
    [[1.0], [1.25], [2.667]]
    """
    most = max(int(drawn.max()), -int(drawn.min()))
    if most < 1 << 62 - INNER_BITS and most < int(weights.min()) << 50 - INNER_BITS:
        # Float64 gives the quotient to half a unit, and integers decide between two candidates.
        # This takes a quarter of the time of an integer division.
        quotients = np.empty_like(drawn)
        size = max(1, _QUOTIENTS_IN_CACHE // drawn.shape[1])
        for start in range(0, len(drawn), size):
            part = quotients[start : start + size]
            some = weights[start : start + size]
            rest = drawn[start : start + size] << INNER_BITS
            rest += some >> 1
            real = rest * (1.0 / some)
            part[...] = np.rint(real, out=real)
            rest -= part * some
            rest >>= 63
            part += rest  # subtract one if it was rounded up
        return quotients
    whole, rest = np.divmod(drawn, weights)
    rest <<= INNER_BITS
    rest += weights >> 1
    rest //= weights
    whole <<= INNER_BITS
    whole += rest
    return np.asarray(whole)
