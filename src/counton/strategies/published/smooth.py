"""The smooth binary mechanism: every release has noise of the same distribution.

The steps are leaves of a binary tree. Only leaves whose index, in binary, has a fixed number of
zeros are used, in increasing order. Item t belongs to the t-th of them, and enters one node for
every 0 bit of the index. The release at t has the noise of one node for every 1 bit in the index of
leaf t + 1. A node is identified by its level (the number of the bit) and by its index among the
nodes of this level that releases use, so the new nodes of a window are consecutive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Stretch, Structure, check_norm
from counton.strategies.strategy import (
    FEWEST_WIDE_COORDINATES,
    Metric,
    Node,
    NodeNoise,
    Norm,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    check_window,
    nodes_per_chunk,
    window_ends,
)

#: A noise table stores the number of a level in one byte.
LARGEST_HEIGHT = 256
#: Lowest bits of a leaf's index whose trees are computed together, and the number of releases from
#: which on this is quicker.
_LOW_BITS = 8
_FEWEST_JOINT_RELEASES = 2**12
#: Number of candidates with the same number of zeros.
_CANDIDATES_PER_ZEROS = 8


class SmoothBinary(StreamStrategy):
    """The smooth binary mechanism: every release has noise of the same variance.

    A step is a leaf of a binary tree, whose index has ``height`` bits, ``zeros`` of them 0. Both
    sensitivities (1-norm, and squared 2-norm) are ``zeros``; every release has a variance of height
    minus zeros. The strategy can serve C(height, zeros) - 1 steps.

    Source: Andersson and Pagh, "A Smooth Binary Mechanism for Efficient Private Continual
    Observation", sec. 3, with any number of zeros (the paper takes half of an even height).
    Erratum: Lemma 3.5's constant is -(k+1), not -(2k+1).

    >>> smooth = SmoothBinary(2**20, height=23, zeros=10)
    >>> smooth.overall_variance("max") * float(smooth.l1_sensitivity())
    130.0

    Args:
        horizon: number of steps.
        height: number of bits of a leaf's index, at most 256.
        zeros: number of these bits that are 0.

    Raises:
        InvalidInputError: too few leaves for the horizon, or an argument out of range.
    """

    sources = ("smooth",)

    horizon: int
    facts = StrategyFacts(causal=True)

    def __init__(self, horizon: int, height: int, zeros: int) -> None:
        self.horizon = check_integer("horizon", horizon, 1)
        self.height = check_integer("height", height, 2, LARGEST_HEIGHT)
        self.zeros = check_integer("zeros", zeros, 1, self.height - 1)
        self._ones = self.height - self.zeros
        leaves = math.comb(self.height, self.zeros)
        if leaves <= self.horizon:
            raise InvalidInputError(
                f"height {self.height} with {self.zeros} zeros gives {leaves} leaves, but a "
                f"horizon of {self.horizon} needs at least {self.horizon + 1}: give a larger "
                f"height, or use SmoothBinary.best({self.horizon})"
            )

    @classmethod
    def best(cls, horizon: int, norm: Norm = 1) -> SmoothBinary:
        """Return the strategy of least error for a horizon, and among equals of least height.

        The error is the variance times D^2, where D is the 1-norm sensitivity for Laplace noise
        (``norm=1``), the 2-norm sensitivity for Gaussian noise (``norm=2``).

        Args:
            horizon: number of steps of the stream, from 1.
            norm: 1 for Laplace noise, 2 for Gaussian noise.

        Raises:
            InvalidInputError: an unknown norm, or a horizon that is not an integer above 0.

        >>> SmoothBinary.best(2**20, norm=2)
        SmoothBinary(horizon=1048576, height=23, zeros=10)
        """
        horizon = check_integer("horizon", horizon, 1)
        norm = check_norm(norm)
        return min(
            cls.candidates(horizon, of_each=1),
            key=lambda tree: (tree._ones * tree.zeros ** (3 - norm), tree.height),
        )

    @classmethod
    def candidates(cls, horizon: int, of_each: int = _CANDIDATES_PER_ZEROS) -> list[SmoothBinary]:
        """Return the trees that are worth trying if a unit counts in many steps.

        For each number of zeros, they are the ``of_each`` trees of least height that serve the
        horizon, but for one that would still serve it with one zero and one bit less. In all cases
        examined, the best tree was among the default.

        Args:
            horizon: number of steps of the stream, from 1.
            of_each: the most trees for each number of zeros, from 1.

        >>> [(tree.height, tree.zeros) for tree in SmoothBinary.candidates(20, of_each=1)]
        [(21, 1), (7, 2), (7, 3), (7, 4), (7, 5), (21, 20)]
        """
        # Of two trees with equally many zeros the higher has more error. But its nodes are longer
        # at the beginning of the horizon and end elsewhere, so a unit may move it less. With one
        # zero more and as many ones, however, all steps lie below one more node: a tree that would
        # serve with one zero less is no candidate. The eight lowest contained the best in all cases
        # examined. For units that act once the lowest suffice: no other tree has both fewer zeros,
        # its sensitivity, and fewer ones, its error.
        horizon = check_integer("horizon", horizon, 1)
        trees: list[SmoothBinary] = []
        fewest = LARGEST_HEIGHT  # ones that make more than ``horizon`` leaves
        for zeros in range(1, LARGEST_HEIGHT):
            below = fewest  # for one zero less; one zero more never needs more ones
            while fewest > 1 and math.comb(zeros + fewest - 1, zeros) > horizon:
                fewest -= 1
            most = min(below - 1, fewest + of_each - 1, LARGEST_HEIGHT - zeros)
            trees += [cls(horizon, zeros + ones, zeros) for ones in range(fewest, most + 1)]
            if fewest == 1:
                break
        return trees

    @classmethod
    def even(cls, horizon: int) -> SmoothBinary:
        """Return the paper's choice: the smallest even height, with half as many zeros.

        Args:
            horizon: number of steps of the stream, from 1.

        >>> SmoothBinary.even(2**20).height
        24
        """
        horizon = check_integer("horizon", horizon, 1)
        zeros = 1
        while math.comb(2 * zeros, zeros) <= horizon:
            zeros += 1
        return cls(horizon, 2 * zeros, zeros)

    @classmethod
    def examples(cls, horizon: int) -> tuple[SmoothBinary, ...]:
        even = cls.even(horizon)
        larger = cls(horizon, even.height + 3, even.zeros + 1)
        return cls.best(horizon, 1), cls.best(horizon, 2), even, larger

    def column(self, step: int) -> tuple[Node, ...]:
        """Return a node for each 0 bit above the lowest 1 bit of the leaf's index.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        leaf = unrank(self.height, self.zeros, check_step(self, step) - 1)
        # A release uses a node only if a one can follow its prefix; for trailing zeros it cannot.
        lowest = (leaf & -leaf).bit_length()
        return self._nodes(leaf, [i for i in range(lowest, self.height) if not leaf >> i & 1])

    def row(self, step: int) -> tuple[Node, ...]:
        """Return a node for each 1 bit in the index of the leaf of ``step + 1``.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        leaf = unrank(self.height, self.zeros, check_step(self, step))
        return self._nodes(leaf, [i for i in range(self.height) if leaf >> i & 1])

    def _nodes(self, leaf: int, levels: list[int]) -> tuple[Node, ...]:
        return tuple(Node(level, self._place(leaf, level), 1) for level in reversed(levels))

    def _place(self, leaf: int, level: int) -> int:
        """Return the least index of a node on a level that ``leaf`` or a later leaf reads."""
        return forks_before(self.height, self.zeros, level, leaf >> level + 1)

    def _bits(self, ranks: NDArray[np.int64]) -> Iterator[NDArray[np.bool_]]:
        """Yield, from the highest bit, a mask of the leaves, given by rank, with a 1 there."""
        ranks, zeros = ranks.copy(), np.full(ranks.shape, self.zeros)
        for bit in reversed(range(self.height)):
            with_zero = _ways_below(bit, self.zeros)[zeros]
            ones = ranks >= with_zero
            ranks -= ones * with_zero
            zeros -= ~ones
            yield ones

    def l1_sensitivity(self) -> Fraction:
        """Return the number of zeros, the 1-norm of the first step's column."""
        return Fraction(self.zeros)

    @property
    @override
    def structure(self) -> Structure:
        """Facts about the tree of leaves; nodes have indices if leaves have at most 62 bits."""
        return Structure(
            self._divisions, self._nodes_by_level, self._overlaps, aligned=lambda: True
        )

    def _divisions(self, part: Stretch | None) -> tuple[tuple[Stretch, int], ...]:
        """Return the halves of a stretch that have leaves, with the number 1; None: all leaves.

        Leaves of a stretch agree in all bits but the lowest ``part.level``, of which ``part.kind``
        are 0. The leaves of the first half have the highest such bit 0 and form a node; those of
        the second have it 1 and form none.
        """
        if part is None:
            part = Stretch(self.height, 0, self.horizon, self.zeros)
        bits = part.level
        zeros = part.kind
        if zeros in (0, bits):
            return ()
        half = math.comb(bits - 1, zeros - 1)
        with_zero = Stretch(bits - 1, 1, min(part.steps, half), zeros - 1)
        if part.steps <= half:
            return ((with_zero, 1),)
        return (with_zero, 1), (Stretch(bits - 1, 0, part.steps - half, zeros), 1)

    def _nodes_by_level(self) -> list[NDArray[np.int64]] | None:
        """Return, by level, the node that each step enters, or -1; None beyond 62 bits."""
        # In binary, a leaf enters a node on a level where it has a 0 with a 1 somewhere below. The
        # index is the number that its higher bits form.
        if self.height > 62:
            return None
        leaves = np.zeros(self.horizon, np.int64)
        for ones in self._bits(np.arange(self.horizon)):
            leaves = leaves << 1 | ones
        lowest = leaves & -leaves
        return [
            np.where((leaves >> level & 1 == 0) & (lowest < 1 << level), leaves >> level + 1, -1)
            for level in range(self.height)
        ]

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        # Leaves with z common zeros are among C(height - z, zeros - z) of one prefix. There are no
        # more of them if the prefix also has ones, so the largest lag is that number of steps minus
        # one.
        overlaps = []
        common = self.zeros
        for j in range(1, schedule.steps):
            while common and math.comb(self.height - common, self.zeros - common) <= (
                j * schedule.apart
            ):
                common -= 1
            overlaps.append(common)
        return overlaps

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        # The number of ones of both leaves from the highest differing bit on; step 0 has no nodes.
        first, last = window_ends(self, steps, since)
        apart = np.zeros(first.shape, bool)
        total = np.zeros(first.shape, np.int64)
        for first_bits, last_bits in zip(self._bits(first), self._bits(last), strict=True):
            apart |= first_bits != last_bits
            total += apart * (first_bits.astype(np.int64) + last_bits)
        total[first == 0] = self._ones
        total[last == 0] = 0
        return total.astype(np.float64)

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        # For totals: height - zeros. For single steps: twice the number of nodes that a release
        # uses and the release before it did not. The first release uses all its nodes. Each later
        # one has as many new nodes as the lowest run of ones of the previous leaf is long. Over all
        # releases these are all nodes that some release uses.
        check_metric(metric)
        if of == "totals":
            return float(self._ones)
        ones = self._ones
        last = self.horizon
        if metric == "max":
            # The leaf 1..1 0, at place ``ones``, is the first with all ones in its lowest run.
            if last == 1:
                return float(ones)
            later = ones if last > ones else ones - 1
            return float(max(ones, 2 * later))
        first, leaf = (unrank(self.height, self.zeros, rank) for rank in (1, last))
        read = sum(
            self._place(leaf, level) + (leaf >> level & 1) - self._place(first, level)
            for level in range(self.height)
        )
        return (2 * read - ones) / last

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of releases; leaves with equal highest bits share partial sums.

        Args:
            field: source of the noise of nodes.
            steps: consecutive steps, from 1 on.
        """
        stop = check_window(self, steps).stop
        ranks = range(steps.start, max(stop, steps.start))
        ranks_type = np.int32 if stop < 2**31 else np.int64  # narrow ones stay in the cache
        prefixes = LeafPrefixes.of_all(ranks, self.zeros, ranks_type)
        sums = np.zeros((len(prefixes.begins), *field.shape), np.int64)
        if (
            len(ranks) < _FEWEST_JOINT_RELEASES
            or math.prod(field.shape) != 1
            or self.height <= _LOW_BITS
        ):
            return self._add_bits(field, ranks.start, prefixes, sums, range(self.height))[1]
        high_bits = range(_LOW_BITS, self.height)
        prefixes, sums = self._add_bits(field, ranks.start, prefixes, sums, high_bits)
        # Some leaves of the first and of the last prefix may be left out.
        inner = slice(1, len(sums) - 1)
        begin = prefixes.leaves_before(1)
        end = prefixes.leaves_before(inner.stop)
        released = np.empty((len(ranks), *field.shape), np.int64)
        for part, leaves in (
            (slice(0, 1), slice(0, begin)),
            (slice(inner.stop, None), slice(end, None)),
        ):
            rank = ranks.start + (leaves.start or 0)
            low_bits = range(_LOW_BITS)
            cut = prefixes.only(part)
            released[leaves] = self._add_bits(field, rank, cut, sums[part], low_bits)[1]
        self._write_leaf_noise(
            field,
            ranks.start + begin,
            prefixes.zeros[inner],
            sums.reshape(-1)[inner],
            released.reshape(-1)[begin:end],
        )
        return released

    def _write_leaf_noise(
        self,
        field: NodeNoise,
        rank: int,
        zeros: NDArray[np.integer[Any]],
        sums: NDArray[np.int64],
        released: NDArray[np.int64],
    ) -> None:
        """Write the noise of all leaves of some prefixes of all but the lowest bits.

        Prefixes with equally many zeros left have equal trees below them, so they are computed
        together.

        Args:
            field: source of the noise of nodes, of one number each.
            rank: rank of the first leaf.
            zeros: the number of zeros among the lowest bits, by prefix.
            sums: the noise of nodes above the lowest bits, by prefix.
            released: the noise of the leaves, which is written.
        """
        trees = _trees_below()
        first_leaf = unrank(self.height, self.zeros, rank)
        leaves_of = np.array([len(tree.ranks) for tree in trees])[zeros]
        starts = np.cumsum(leaves_of) - leaves_of
        groups = [np.flatnonzero(zeros == number) for number in range(len(trees))]
        sums_by_group = [sums[group][None] for group in groups]
        for bit in reversed(range(_LOW_BITS)):
            ones_of = np.array([len(tree.levels[bit].parents_of_ones) for tree in trees])[zeros]
            ends = np.cumsum(ones_of)
            begins = ends - ones_of
            index = self._place(first_leaf, bit)
            drawn = np.empty(int(ends[-1]), np.int64)
            size = nodes_per_chunk(field.shape, 2**16)
            for begin in range(0, len(drawn), size):
                stop = min(begin + size, len(drawn))
                drawn[begin:stop] = field.run(bit, range(index + begin, index + stop)).reshape(-1)
            for number, (tree, group) in enumerate(zip(trees, groups, strict=True)):
                if not len(group):
                    continue
                level = tree.levels[bit]
                above = sums_by_group[number]
                first = len(level.parents_of_zeros)
                count = len(level.parents_of_ones)
                below = np.empty((first + count, len(group)), np.int64)
                above.take(level.parents_of_zeros, axis=0, out=below[:first], mode="clip")
                above.take(level.parents_of_ones, axis=0, out=below[first:], mode="clip")
                below[first:] += drawn.take(begins[group] + np.arange(count)[:, None])
                sums_by_group[number] = below
        for tree, group, below in zip(trees, groups, sums_by_group, strict=True):
            released[starts[group] + tree.ranks[:, None]] = below

    def _add_bits(
        self,
        field: NodeNoise,
        rank: int,
        prefixes: LeafPrefixes,
        sums: NDArray[np.int64],
        bits: range,
    ) -> tuple[LeafPrefixes, NDArray[np.int64]]:
        """Return prefixes of leaves with more bits, and the noise of their nodes.

        Args:
            field: source of the noise of nodes.
            rank: rank of the first leaf.
            prefixes: prefixes of all higher bits.
            sums: their noise.
            bits: the bits that are added.
        """
        for bit in reversed(bits):
            prefixes, parents, ones = prefixes.split(
                _narrow_ways_below(bit, self.zeros, prefixes.begins.dtype)
            )
            if parents is not None:
                sums = sums[parents]
            (read,) = ones.nonzero()
            if len(read):
                leaf = unrank(self.height, self.zeros, rank + prefixes.leaves_before(int(read[0])))
                _add_nodes(sums, read, field, bit, self._place(leaf, bit))
        return prefixes, sums


def _add_nodes(
    sums: NDArray[np.int64], rows: NDArray[np.intp], field: NodeNoise, level: int, index: int
) -> None:
    """Add the noise of consecutive nodes of a level to rows of ``sums``, one node to each.

    Args:
        sums: the sums, which are changed.
        rows: numbers of the rows.
        field: source of the noise.
        level: level of the nodes.
        index: index of the first node on its level.
    """
    size = nodes_per_chunk(field.shape, 2**16)  # what is drawn stays in the cache
    for begin in range(0, len(rows), size):
        chunk = rows[begin : begin + size]
        drawn = field.run(level, range(index + begin, index + begin + len(chunk)))
        if math.prod(field.shape) >= FEWEST_WIDE_COORDINATES:  # one by one, they need no copies
            for row, noise in zip(chunk.tolist(), drawn, strict=True):
                sums[row] += noise
        else:
            sums[chunk] += drawn


class _LevelBelow(NamedTuple):
    """One bit more of all prefixes in a tree below a prefix: first those with a 0, then with a 1.

    Attributes:
        parents_of_zeros: the place of the shorter prefix of each prefix that ends in 0.
        parents_of_ones: likewise for each that ends in 1, in increasing order.
    """

    parents_of_zeros: NDArray[np.int64]
    parents_of_ones: NDArray[np.int64]


class _TreeBelow(NamedTuple):
    """The leaves below a prefix without the lowest bits, of which a number are 0.

    Attributes:
        ranks: rank of each leaf, in the order of the lowest level.
        levels: by bit, from the lowest.
    """

    ranks: NDArray[np.int64]
    levels: tuple[_LevelBelow, ...]


@lru_cache(maxsize=1)
def _trees_below() -> tuple[_TreeBelow, ...]:
    """Return the trees of `_LOW_BITS` bits, by the number of zeros among these.

    >>> [len(tree.ranks) for tree in _trees_below()]
    [1, 8, 28, 56, 70, 56, 28, 8, 1]
    """
    trees = []
    for number in range(_LOW_BITS + 1):
        prefixes = LeafPrefixes.of_all(range(math.comb(_LOW_BITS, number)), number)
        places = np.zeros(1, np.int64)  # of the prefixes in increasing order
        levels = []
        for bit in reversed(range(_LOW_BITS)):
            prefixes, parents, is_one = prefixes.split(_ways_below(bit, number))
            above = places if parents is None else places[parents]
            zeros = np.flatnonzero(~is_one)
            ones = np.flatnonzero(is_one)
            levels.append(_LevelBelow(above[zeros], above[ones]))
            places = np.empty(len(is_one), np.int64)
            places[zeros] = np.arange(len(zeros))
            places[ones] = len(zeros) + np.arange(len(ones))
        trees.append(_TreeBelow(places.argsort(), tuple(reversed(levels))))
    return tuple(trees)


class LeafPrefixes(NamedTuple):
    """The different highest bits of consecutive leaves, in increasing order.

    Attributes:
        begins: how many smaller leaves of its own each prefix has that are left out.
        ends: the same number, and that of its leaves.
        zeros: number of zeros among the bits that follow.
    """

    begins: NDArray[np.integer[Any]]
    ends: NDArray[np.integer[Any]]
    zeros: NDArray[np.integer[Any]]

    @classmethod
    def of_all(cls, ranks: range, zeros: int, dtype: DTypeLike = np.int64) -> LeafPrefixes:
        """Return the empty prefix of leaves with these ranks; none if there are no leaves.

        >>> LeafPrefixes.of_all(range(3, 7), zeros=2)
        LeafPrefixes(begins=array([3]), ends=array([7]), zeros=array([2]))
        """
        number = min(len(ranks), 1)
        return cls(*(np.full(number, value, dtype) for value in (ranks.start, ranks.stop, zeros)))

    def split(
        self, ways: NDArray[np.integer[Any]]
    ) -> tuple[LeafPrefixes, NDArray[np.int64] | None, NDArray[np.bool_]]:
        """Return the prefixes with one bit more.

        Args:
            ways: number of ways to go on after a zero, by the number of zeros with it.

        Returns:
            The longer prefixes; the place of the shorter prefix of each, None if these are as many;
            and whether each ends in 1.

        >>> LeafPrefixes.of_all(range(3, 7), zeros=2).split(np.array([0, 1, 4]))[1:]
        (array([0, 0]), array([False,  True]))
        """
        with_zero = ways[self.zeros]
        has_zero = self.begins < with_zero
        ones = self.ends > with_zero
        has_both = has_zero & ones
        more = int(np.count_nonzero(has_both))
        parents = None
        begins = self.begins
        ends = self.ends
        zeros = self.zeros
        if more:
            # The children of each prefix follow each other; a prefix with both has two.
            parents = np.arange(len(has_both)).repeat(1 + has_both.view(np.int8))
            second = has_both.nonzero()[0] + np.arange(1, more + 1)
            ones = ones[parents]
            ones[second - 1] = False
            with_zero = with_zero[parents]
            begins = begins[parents]
            ends = ends[parents]
            zeros = zeros[parents]
        # After a zero, leaves end where those after a one begin.
        begins = np.maximum(begins - ones * with_zero, 0)
        ends = np.where(ones, ends - with_zero, np.minimum(ends, with_zero))
        return LeafPrefixes(begins, ends, zeros - ~ones), parents, ones

    def only(self, places: slice) -> LeafPrefixes:
        """Return some of the prefixes."""
        return LeafPrefixes(self.begins[places], self.ends[places], self.zeros[places])

    def leaves_before(self, place: int) -> int:
        """Return the number of leaves of the prefixes before one of them."""
        return int((self.ends[:place] - self.begins[:place]).sum(dtype=np.int64))


# Leaves are numbers with a fixed count of zeros among their bits, in increasing order. A *fork* of
# level l is a prefix (the bits above bit l) that some leaf continues with a 1 at bit l.


def unrank(height: int, zeros: int, rank: int) -> int:
    """Return the ``height``-bit number of ``zeros`` zeros with ``rank`` smaller such numbers.

    >>> [f"{unrank(4, 2, rank):04b}" for rank in range(6)]
    ['0011', '0101', '0110', '1001', '1010', '1100']
    """
    number = 0
    for bit in reversed(range(height)):
        with_zero = math.comb(bit, zeros - 1) if zeros > 0 else 0
        if rank < with_zero:
            zeros -= 1
        else:
            rank -= with_zero
            number |= 1 << bit
    return number


def forks_before(height: int, zeros: int, level: int, prefix: int) -> int:
    """Return the index of a node on its level: the number of nodes there of smaller prefix.

    ``prefix`` is formed by the bits of its leaves above bit ``level``.

    >>> [forks_before(4, 2, 1, prefix) for prefix in range(4)]  # 11 is none
    [0, 1, 2, 3]
    """
    count = 0
    seen = 0
    for bit in reversed(range(height - level - 1)):
        if prefix >> bit & 1:
            # A zero here instead, then any bits that leave the total within reach.
            most = zeros - seen - 1
            count += _ways(bit, max(0, most - level), most)
        else:
            seen += 1
    return count


@lru_cache(maxsize=4096)
def _ways_below(bits: int, zeros: int) -> NDArray[np.int64]:
    """Return, for n = 0 .. ``zeros``, the strings of 0 and ``bits`` bits with n zeros, to 2^62."""
    return np.array([0, *(min(math.comb(bits, n), 2**62) for n in range(zeros))])


@lru_cache(maxsize=4096)
def _narrow_ways_below(bits: int, zeros: int, dtype: np.dtype[Any]) -> NDArray[np.integer[Any]]:
    """Return `_ways_below` in an integer type, up to its largest number."""
    return _ways_below(bits, zeros).clip(max=np.iinfo(dtype).max).astype(dtype)


@lru_cache(maxsize=65_536)
def _ways(bits: int, least: int, most: int) -> int:
    """Return the number of strings of ``bits`` bits with ``least`` to ``most`` zeros."""
    return sum(math.comb(bits, zeros) for zeros in range(least, most + 1))
