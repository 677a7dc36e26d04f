"""The look-ahead tree: least squares over a tree, in which releases also use incomplete nodes.

The proof of privacy only needs B C = A. So a release may use the noise of incomplete nodes: a
change of the noise z by d C e_i changes the releases from step i on by d, and no other. Thus
estimates of a node from its children *and from its parent*, which seem to need the finished table,
are possible.

The trees and the two passes over them are in `counton.strategies.streams.subtrees`, the search for
radices and weights in `counton.strategies.streams.look_ahead_search`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, check_integers, shorten
from counton.strategies.participation import Structure, check_norm, schedule_for, tree_structure
from counton.strategies.rounding import PART_BITS
from counton.strategies.strategy import (
    FEWEST_WIDE_COORDINATES,
    LARGEST_HORIZON,
    Metric,
    Node,
    NodeNoise,
    Norm,
    Reader,
    ReleaseForm,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    add_up,
    check_ends,
    check_metric,
    check_step,
    check_steps,
    check_width,
    check_window,
    nodes_per_chunk,
)
from counton.strategies.streams.exact_totals import WIDEST_STDS
from counton.strategies.streams.look_ahead_search import (
    ShapeQuestion,
    best_shape,
    largest_variance,
    mean_variance,
)
from counton.strategies.streams.subtrees import FRACTION_BITS, LevelNoise, Subtrees

#: Largest number of children of a node.
LARGEST_RADIX = 2**15
#: Largest weight, so that squares and sums of weights fit int64.
LARGEST_WEIGHT = 2**20


class _LevelNodes(NamedTuple):
    """The nodes of one level, as far as the variances of releases depend on them, by step.

    A family is all children of one node. A subtree estimate combines the measurements of a node and
    of nodes below.

    Attributes:
        node: index of the node that contains the step.
        parent: index of its parent; 0 on the highest level.
        part: the fraction of its estimate that is in the release.
        own_variance: variance of its subtree estimate.
        whole: that of each earlier node of the family.
        read: summed variances of the earlier nodes, plus ``part`` times its own.
        spread: summed variances of the family; infinite on the highest level.
        excess: summed variances of its children, minus its own.
    """

    node: Integers
    parent: Integers
    part: Floats
    own_variance: Floats
    whole: float
    read: Floats
    spread: float | Floats
    excess: float | Floats

    @property
    def alone(self) -> Floats:
        """Variance that the nodes of this level add to the release at each step."""
        read_of_others = self.read - self.part * self.own_variance
        return np.asarray(
            read_of_others + self.own_variance * self.part**2 - self.read**2 / self.spread
        )


class _Rows(Reader):
    """The noise of one running stream with many coordinates, computed step after step."""

    _strategy: LookAhead

    def __init__(self, strategy: LookAhead, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._rows: Iterator[Integers] = iter(())
        self._next = 0

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        check_window(self._strategy, steps)
        out = np.empty((len(steps), *self._field.shape), np.int64)
        if len(steps) == 0:
            return out
        if steps.start != self._next:
            rest = range(steps.start, self._strategy.horizon + 1)
            parts = self._strategy._parts(self._field, rest)
            self._rows = chain.from_iterable(parts)
        self._next = 0  # until all fields are set
        for row, noise in zip(out, self._rows, strict=False):
            row[...] = noise
        self._next = steps.stop
        return out


class LookAhead(StreamStrategy):
    """A tree whose releases are least-squares estimates that also use nodes of steps to come.

    Each step counts in one node of each level, with that level's weight w_l. The 1-norm sensitivity
    is the sum of the weights, the squared 2-norm the sum of their squares. A release takes about
    1.1 draws.

    Source: least squares over trees as in Hay et al., "Boosting the Accuracy of Differentially
    Private Histograms Through Consistency" (2010), and Honaker, "Efficient Use of Differentially
    Private Binary Trees" (2015), which both release a finished table. Their use for a stream is not
    in the papers.

    >>> tree = LookAhead(1000, radices=(12, 10), weights=(4, 4, 5))
    >>> float(tree.l1_sensitivity()), tree.column(15)
    (3.25, (Node(level=0, index=14, weight=1), Node(level=1, index=1, weight=1),
     Node(level=2, index=0, weight=Fraction(5, 4))))
    >>> round(tree.overall_variance("mean"), 3)
    5.733

    Args:
        horizon: number of steps.
        radices: number of children of the nodes of levels 1, 2, ...; the highest level has as many
            nodes as the horizon needs.
        weights: of the measurements of levels 0, 1, ..., one more than radices: positive integers
            in units of 2^-b, where the first is 2^b. Default: all 1.

    Raises:
        InvalidInputError: an argument out of range, or a number of weights other than of levels.
    """

    sources = ("consistency", "trees_estimate_from_below", "families_estimate_from_above")

    horizon: int

    def __init__(
        self, horizon: int, radices: Sequence[int] = (), weights: Sequence[int] | None = None
    ) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        self.radices = check_integers("radix", radices, 2, LARGEST_RADIX)
        weights_asked = (1,) * (len(self.radices) + 1) if weights is None else weights
        self.weights = check_integers("weight", weights_asked, 1, LARGEST_WEIGHT, most=65)
        if len(self.weights) != len(self.radices) + 1:
            raise InvalidInputError(
                f"weights are {list(self.weights)} and radices {list(self.radices)}; give "
                f"{len(self.radices) + 1} weights, one for each level and one for single steps"
            )
        if self.weights[0].bit_count() != 1 or self.weights[0] > 1 << FRACTION_BITS:
            raise InvalidInputError(
                f"the first of the weights is {self.weights[0]}, which is the unit of the others: "
                f"give a power of two up to 2^{FRACTION_BITS}"
            )
        if math.prod(self.radices) > LARGEST_HORIZON:
            raise InvalidInputError(
                f"a node of the highest level would have {shorten(math.prod(self.radices))} steps, "
                f"but at most 2^62 are possible: leave out some of the radices {list(self.radices)}"
            )
        #: Number of levels.
        self.height = len(self.weights)
        self.facts = StrategyFacts(
            lattice_bits=self.weights[0].bit_length() - 1,
            fraction_bits=FRACTION_BITS,
            unit_columns=len(set(self.weights)) == 1,
            causal=not self.radices,  # estimates use measurements of later steps
            # the children of one node on every level, if steps have many coordinates; otherwise no
            # noise is kept
            buffer_size=sum(self.radices) + 2 * self.height,
        )
        #: The two passes of least squares over the nodes, with the constants of each level.
        self._trees = Subtrees(self.horizon, self.radices, self.weights)

    @classmethod
    def best(cls, horizon: int, norm: Norm = 1, metric: Metric = "mean") -> LookAhead:
        """Return the tree of least error that a local search finds, for units in one step.

        The error is the mean or largest variance times D^2, where D is the 1-norm sensitivity for
        Laplace noise (``norm=1``), the 2-norm sensitivity for Gaussian noise (``norm=2``).

        Args:
            horizon: number of steps of the stream, from 1.
            norm: 1 for Laplace noise, 2 for Gaussian noise.
            metric: "mean" over all steps, or "max" for the largest.

        Raises:
            InvalidInputError: an unknown metric or norm, or a horizon that is not an integer above
                0.

        >>> LookAhead.best(8760)
        LookAhead(horizon=8760, radices=[15, 12, 14], weights=[256, 218, 226, 202])
        """
        # Weights are optimal for the radices, and changing a radix by one does not lower the error.
        horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        norm = check_norm(norm)
        check_metric(metric)
        return cls(horizon, *best_shape(ShapeQuestion(horizon, norm, metric)))

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
        """Return the best trees that a search finds for Laplace, and for Gaussian noise.

        Args:
            horizon: number of steps of the stream, from 1.
            metric, release: the error, as in `released_variance`.
            steps, separation, every: the steps in which a unit counts, as in `ContributionBound`.

        >>> [tree.radices for tree in LookAhead.candidates(1000)]
        [(16, 14), (3, 2, 2, 2, 2, 2, 2, 2, 2)]
        """
        # Long nodes contain more steps of a unit that counts in several steps. This increases the
        # 2-norm; to the 1-norm every level adds the same.
        horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        check_metric(metric, release)
        schedule = schedule_for(horizon, steps, separation, every)
        questions = [
            ShapeQuestion(horizon, norm, metric, release, often, apart)
            for norm in (1, 2)
            for often, apart in {(1, 1), (schedule.steps, schedule.apart)}
            if norm == 2 or (often, apart) == (1, 1)
        ]
        shapes = dict.fromkeys(best_shape(question) for question in questions)
        return tuple(cls(horizon, radices, weights) for radices, weights in shapes)

    @classmethod
    def examples(cls, horizon: int) -> tuple[LookAhead, ...]:
        return (
            cls(horizon),
            cls(horizon, (2, 2, 2)),
            cls(horizon, (3, 5), (4, 3, 7)),
            cls(horizon, (4, 3), (1, 2, 1)),
            cls(horizon, (7,), (256, 301)),
            cls.best(horizon),
            cls.best(horizon, 2, "max"),
        )

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the node of each level that contains the step.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        leaf = check_step(self, step) - 1
        return tuple(
            Node(level, leaf // width, _plain(Fraction(weight, self.weights[0])))
            for level, (width, weight) in enumerate(
                zip(self._trees.widths, self.weights, strict=True)
            )
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes that contain the step, their siblings, and all that estimate these.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        leaf = check_step(self, step) - 1
        trees = self._trees
        top = self.height - 1
        weights: dict[tuple[int, int], Fraction] = {}
        part = Fraction(1)  # the fraction of the node's estimate that the release includes
        for level in range(self.height):
            node = leaf // trees.widths[level]
            first = 0
            less = Fraction(0)  # the fraction of the parent's estimate that the release includes
            if level < top:
                parent = leaf // trees.widths[level + 1]
                first = parent * self.radices[level]
                whole, inner, end = trees.shares[level]
                if parent == trees.counts[level + 1] - 1:
                    whole = inner
                    end = end if node == trees.counts[level] - 1 else inner
                else:
                    end = whole
                less = ((node - first) * whole + part * end) / (1 << PART_BITS)
                stop = min(trees.counts[level], first + self.radices[level])
                self._read(weights, level, range(node + 1, stop), -less)
            self._read(weights, level, range(first, node), 1 - less)
            self._read(weights, level, range(node, node + 1), part - less)
            part = less
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
        nodes: range,
        share: Fraction,
        depth: int | None = None,
    ) -> None:
        """Add ``share`` times estimates to the ``weights`` of a release by (level, index).

        Estimates use nodes up to ``depth`` levels below; by default as many as releases do.
        """
        trees = self._trees
        weight = self.weights[level]
        depth = trees.depths[level] if depth is None else depth
        last = trees.counts[level] - 1
        for some in (nodes[:-1], nodes[-1:]) if last in nodes else (nodes,):
            if not some:
                continue
            own_part = trees.own(depth, level, last in some)
            read = share * own_part / weight
            for node in some:
                read_before = weights.get((level, node))
                weights[level, node] = read if read_before is None else read_before + read
            if depth:
                radix = self.radices[level - 1]
                count = trees.counts[level - 1]
                children = range(some.start * radix, min(some.stop * radix, count))
                self._read(weights, level - 1, children, share * (1 - own_part), depth - 1)

    def l1_sensitivity(self) -> Fraction:
        """Return the sum of the weights, the norm of every column."""
        return Fraction(sum(self.weights), self.weights[0])

    def squared_sensitivity(self) -> Fraction:
        """Return the sum of the squared weights, the norm of every column."""
        return Fraction(sum(weight**2 for weight in self.weights), self.weights[0] ** 2)

    @property
    @override
    def structure(self) -> Structure:
        return tree_structure(self.horizon, self._trees.widths)

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        # A node of level l has k_l children; let n_l be the variance of its estimate from its own
        # measurement and theirs, 1 / n_l = w_l^2 + w_{l-1}^2 / k_l, and W_top the number of steps
        # of a top node. The variance at t is
        #
        #     n_top t / W_top + sum over the levels l > 0 of (k_l n_{l-1} - n_l) p_l (1 - p_l),
        #
        # with p_l the part of its node of level l that is completed by step t (in full nodes).
        total: Floats = np.zeros(())
        if since is None:
            for place in self._along(check_steps(self, steps)):
                total = total + place.excess * place.part * (1 - place.part)
            return np.asarray(total + place.read)
        first, last = check_ends(self, since, steps)
        for first_place, last_place in zip(self._along(first), self._along(last), strict=True):
            differ = last_place.node - first_place.node
            apart = (
                first_place.whole * ((1 - first_place.part) ** 2 + differ - 1)
                + last_place.own_variance * last_place.part**2
            )
            total = total + np.where(
                first_place.parent == last_place.parent,
                np.where(
                    differ == 0,
                    last_place.own_variance * (last_place.part - first_place.part) ** 2,
                    apart,
                )
                - (last_place.read - first_place.read) ** 2 / last_place.spread,
                first_place.alone + last_place.alone,
            )
        return total

    def _along(self, ends: Integers) -> Iterator[_LevelNodes]:
        """Yield, from the lowest level, what the variances of the releases at ``ends`` need."""
        trees = self._trees
        unit = float(self.weights[0]) ** 2
        node = np.maximum(ends - 1, 0)
        part: Floats = (ends > 0).astype(np.float64)
        excess: float | Floats = 0.0
        for level in range(self.height):
            whole, tail = (unit * float(variance) for variance in trees.variances[level])
            own_variances = np.where(node == trees.counts[level] - 1, tail, whole)
            if level == self.height - 1:
                read = node * whole + part * own_variances
                yield _LevelNodes(
                    node, 0 * node, part, own_variances, whole, read, math.inf, excess
                )
                return
            parent = node // self.radices[level]
            is_last = parent == trees.counts[level + 1] - 1
            spread = np.where(is_last, *(unit * float(s) for s in trees.spreads[level][::-1]))
            read = (node - parent * self.radices[level]) * whole + part * own_variances
            yield _LevelNodes(node, parent, part, own_variances, whole, read, spread, excess)
            above = np.where(is_last, *(unit * float(v) for v in trees.variances[level + 1][::-1]))
            node = parent
            part = read / spread
            excess = spread - above

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        # The mean of totals is computed from moments, the largest by branch and bound.
        check_metric(metric)
        if of == "windows":
            # Steps that are contained in the last node of the same levels have equal variance, so
            # one step of each kind is computed. From some level up, a step is in the last nodes of
            # all levels, and below it in none.
            trees = zip(self._trees.counts, self._trees.widths, strict=True)
            first = np.array([*((count - 1) * width + 1 for count, width in trees), 1])
            alike = np.diff(first[::-1], append=self.horizon + 1)[::-1]
            some = first[alike > 0]
            alike = alike[alike > 0]
            alone = self.variance(some, some - 1)
            return float(alone.max() if metric == "max" else alone @ alike / self.horizon)
        if metric == "max":
            return largest_variance(self._trees) * float(self.weights[0]) ** 2
        weights = [weight / self.weights[0] for weight in self.weights]
        return mean_variance(self.horizon, self.radices, weights)

    @cached_property
    @override
    def _release_rounding(self) -> float:
        """Bound on the rounding error of a release, in units of 2^-16."""
        # Measured counts of steps are exact. Those of other nodes have an error of at most half a
        # unit, and so has every product. A release includes at most all children of a node. The
        # factor 1.001 covers the rounding of this computation.
        trees = self._trees
        errors = [0.0]  # error bound of N, by level
        for level in range(1, self.height):
            base = level - trees.depths[level]
            sums = 0.5 if base else 0.0
            for lower in range(base + 1, level + 1):
                own_part = min(trees.own(lower - base, lower, last) for last in (False, True))
                rest = float(1 - own_part)
                error = rest * sums + 0.5
                sums = error * trees.children[lower][0] if lower < level else sums
            errors.append(error)
        error = errors[-1]
        total = trees.counts[-1] * error
        for level in reversed(range(self.height - 1)):
            count = self.radices[level]
            share = max(trees.shares[level]) / (1 << PART_BITS)
            error = errors[level] + 0.5 + share * (count * errors[level] + error)
            total += count * error
        return total * 1.001

    @property
    @override
    def _largest_read(self) -> float:
        """Upper bound of the weight of a node's noise in any release."""
        # Let the node's noise have the weights r_1, r_2, ... in the node's own estimate and in
        # those of the nodes above it, and let a release contain these estimates c_1, c_2, ...
        # times. All partial sums of the c_j are between -1 and 1. So the weight of the noise in the
        # release is at most the sum of |r_j - r_{j+1}|.
        most = 0.0
        for last in (False, True):
            for level in range(self.height):
                reads = self._reads_above(level, last=last)
                most = max(most, sum(abs(a - b) for a, b in pairwise([*reads, 0.0])))
        return most * self.weights[0]

    def _reads_above(self, level: int, *, last: bool) -> list[float]:
        """Return the weights of a node's noise in its own estimate and in those above it.

        Args:
            level: level of the node.
            last: whether it and those above it are the last nodes of their levels.
        """
        trees = self._trees
        reads: list[float] = []
        for above in range(level, self.height):
            depth = trees.depths[above] - (above - level)
            if depth < 0:
                break
            read = float(trees.own(depth, level, last) / self.weights[level])
            for between in range(level + 1, above + 1):
                read *= float(1 - trees.own(depth + between - level, between, last))
            reads.append(read)
        return reads

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        check_width(self, distribution, self._largest_std)

    @cached_property
    def _largest_std(self) -> float:
        """Largest standard deviation of a node's noise for which every sum fits int64."""
        # The widest numbers are a node's own noise, and the sum over its children times its weight.
        widest = 1.0
        for level, radix in enumerate(self.radices):
            ratio = max(self.weights[level + 1] / self.weights[level], 1.0)
            widest = max(widest, math.sqrt(radix) * ratio)
        total = math.sqrt(self.overall_variance("max")) / self.weights[0]
        return 2.0 ** (62 - FRACTION_BITS) / (WIDEST_STDS * max(widest, total))

    def _reader(self, field: NodeNoise) -> Reader:
        """Return a reader that, with many coordinates, continues from the end of its last call."""
        # No noise of later steps is kept, and starting a new window takes 40 times as long as
        # continuing (2,000 to 20,000 coordinates, 1,000 steps).
        wide = math.prod(field.shape) >= FEWEST_WIDE_COORDINATES
        return _Rows(self, field) if wide else Reader(self, field, self._parts)

    def _parts(self, field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        """Yield the noise of consecutive releases in parts, which end with a last child."""
        if len(steps) == 0:
            return
        leaves = range(steps.start - 1, steps.stop - 1)
        trees = self._trees
        first, last = (leaf // trees.widths[-1] for leaf in (leaves[0], leaves[-1]))
        before = np.zeros(field.shape, np.int64)
        drawn = LevelNoise(field, trees.counts)
        together = trees.widths[-1] // trees.widths[-1 - trees.depths[-1]]
        size = max(1, nodes_per_chunk(field.shape) // together)
        # Nodes of the highest level before the window are included in running totals.
        for start in (*range(0, first, size), *range(first, last + 1, size)):
            stop = min(start + size, first if start < first else last + 1)
            estimates = trees.estimates(drawn, trees.top, range(start, stop), trees.depths[-1])
            ends = estimates.copy()
            before = add_up(ends, before)
            if start >= first and self.radices:
                yield from trees.prefixes(
                    drawn, trees.top, leaves, start, estimates, ends - estimates
                )
            elif start >= first:
                yield ends


def _plain(weight: Fraction) -> int | Fraction:
    """Return a whole number as int, and any other fraction as it is."""
    return weight.numerator if weight.denominator == 1 else weight
