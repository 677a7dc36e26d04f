"""k-ary trees, with and without subtraction.

Source: Andersson, Pagh, Steiner and Torkamani, "Count on Your Elders", Alg. 1 and 2.

A step t is written in base k. Digit d of level l says how many nodes of that level a release adds;
with subtraction digits may be negative and then say how many it subtracts. Node p of level l covers
the items (p-1) k^l + 1 .. p k^l and is named by p, its right end.

Let Q be q without its lowest digit. The noise at q on level l is that at Q on level l+1, plus the
nodes from kQ+1 to q, or minus those from q+1 to kQ: one run of draws and one cumulative sum a
level.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInput
from counton.base.exact import check_integer
from counton.strategies.participation import Stretch, Structure, check_norm
from counton.strategies.strategy import (
    CHUNK,
    ROWS_CHUNK,
    Metric,
    Node,
    NodeNoise,
    Norm,
    Reader,
    Steps,
    StrategyFacts,
    StreamStrategy,
    Workload,
    check_metric,
    check_step,
    check_window,
    is_wide,
    nodes_per_chunk,
    window_ends,
)

#: All arities up to here are candidates, of the larger ones those that save a level.
_ALL_ARITIES = 128
#: So many of every height, where sensitivities are no function of the height.
_OF_EACH_HEIGHT = 8
#: Groups are computed whole, so they must stay small.
_LARGEST_ARITY = CHUNK


@dataclass(frozen=True, slots=True)
class Digits:
    """One way of writing numbers in base k, with digits from ``-below`` to ``k - 1 - below``.

    Cutting the lowest digit off a number q leaves (q + below) // k, the number whose multiple of k
    is q minus that digit.

    >>> balanced = Digits(base=5, below=2)
    >>> balanced.cut(8), balanced.weight(8)  # 8 = 2 * 5 - 2
    (2, 4)
    """

    base: int
    below: int

    @property
    def above(self) -> int:
        """The largest digit."""
        return self.base - 1 - self.below

    def count(self, number: int) -> int:
        """How many digits it takes to write every number from 0 to ``number``."""
        digits = largest = 0
        while largest < number:
            largest = largest * self.base + self.above
            digits += 1
        return digits

    def cut(self, number: int) -> int:
        """``number`` without its lowest digit."""
        return (number + self.below) // self.base

    def weight(self, number: int) -> int:
        """Sum of the absolute digits of ``number``."""
        total = 0
        while number > 0:
            cut = self.cut(number)
            total += abs(number - cut * self.base)
            number = cut
        return total

    def total_weight(self, last: int) -> int:
        """Sum of ``weight`` over 0..last: whole groups by the number they share, then the rest."""
        cut = self.cut(last)
        if cut == 0:
            return _triangle(last)
        digit = last - cut * self.base
        up, down = _triangle(self.above), _triangle(self.below)
        lowest_digits = up + (cut - 1) * (up + down) + down
        lowest_digits += _triangle(digit) if digit >= 0 else -_triangle(-digit - 1)
        in_last_group = digit + self.below + 1
        return (
            self.base * self.total_weight(cut - 1)
            + in_last_group * self.weight(cut)
            + lowest_digits
        )

    def largest_weight(self, last: int) -> int:
        """Maximum of ``weight`` over 0..last."""
        cut = self.cut(last)
        if cut == 0:
            return last
        digit = last - cut * self.base
        in_last_group = self.weight(cut) + max(self.below, digit)
        return max(in_last_group, self.largest_weight(cut - 1) + self.above)


def _triangle(n: int) -> int:
    """1 + 2 + .. + n."""
    return n * (n + 1) // 2


class NodeRows:
    """Nodes of one level one by one, up or down, drawn ahead in chunks but not beyond ``stop``."""

    def __init__(self, field: NodeNoise, level: int, stop: int) -> None:
        self._field, self._level, self._stop = field, level, stop
        self._size = nodes_per_chunk(field.shape, ROWS_CHUNK)
        self._held = range(0)
        self._noise = np.empty((0, *field.shape), np.int64)

    def read(self, nodes: range) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each node's number and noise, in the order of ``nodes``."""
        for at in range(0, len(nodes), self._size):
            part = nodes[at : at + self._size]
            low, high = min(part), max(part) + 1
            if not (self._held.start <= low and high <= self._held.stop):
                self._held = range(low, max(high, min(low + self._size, self._stop)))
                self._noise = self._field.run(self._level, self._held)
            for node in part:
                yield node, self._noise[node - self._held.start]


class DigitTree(StreamStrategy):
    """A tree of given arity: releases read nodes by the digits of their step.

    Args:
        horizon: steps it serves.
        digits: how steps are written.
    """

    horizon: int

    def __init__(self, horizon: int, digits: Digits) -> None:
        self.horizon, self.arity, self._digits = horizon, digits.base, digits
        #: Number of levels, and of nodes which the first item enters.
        self.height = digits.count(horizon)
        self.facts = StrategyFacts(
            # where two releases differ, one reads a node or the other, or neither
            unit_rows=True,
            # only nodes that are subtracted hold items to come
            causal=digits.below == 0 or self.height == 1,
        )

    def by_right_end(self, field: NodeNoise) -> NodeNoise:
        """Noise of nodes by their right ends: the table itself, where it names them so."""
        return field

    def column(self, step: int) -> tuple[Node, ...]:
        """One node a level, unless that node stands between two groups: no release reads those."""
        check_step(self, step)
        right_ends = (-(-step // self.arity**level) for level in range(self.height))
        return tuple(
            Node(level, p, 1)
            for level, p in enumerate(right_ends)
            if (p + self._digits.below) % self.arity != 0
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes of the digits of ``step``, from the highest level down."""
        ends = [check_step(self, step)]
        for _ in range(self.height):
            ends.append(self._digits.cut(ends[-1]))
        nodes = []
        for level in reversed(range(self.height)):
            q, start = ends[level], ends[level + 1] * self.arity
            nodes += [Node(level, p, 1) for p in range(start + 1, q + 1)]
            nodes += [Node(level, p, -1) for p in range(q + 1, start + 1)]
        return tuple(nodes)

    def l1_sensitivity(self) -> Fraction:
        """The height: item 1 enters the first node of every level."""
        return Fraction(self.height)

    @property
    @override
    def structure(self) -> Structure:
        """How nodes divide."""
        return Structure(self._divisions, self._nodes_by_level)

    def _divisions(self, part: Stretch | None) -> tuple[tuple[Stretch, int], ...]:
        """As many parts as the arity, all nodes but the one that no release reads."""
        if part is None:
            part = Stretch(self.height, 0, self.horizon)
        if part.level == 0:
            return ()
        width = self.arity ** (part.level - 1)
        full, rest = divmod(part.steps, width)
        unread = -self._digits.below % self.arity or self.arity  # its number among its siblings
        counted = full - (unread <= full)
        parts = [(Stretch(part.level - 1, 1, width), counted)] if counted else []
        if unread <= full:
            parts.append((Stretch(part.level - 1, 0, width), 1))
        if rest:
            parts.append((Stretch(part.level - 1, int(unread != full + 1), rest), 1))
        return tuple(parts)

    def _nodes_by_level(self) -> Iterator[NDArray[np.int64]]:
        """The node of each level, unless no release reads it."""
        steps = np.arange(1, self.horizon + 1)
        for level in range(self.height):
            ends = -(-steps // self.arity**level)
            yield np.where((ends + self._digits.below) % self.arity, ends, -1)

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Absolute digits of both ends below the highest in which they differ, and there how much.

        Down to that level both read the same nodes; there the nodes between their digits are left.
        """
        first, last = window_ends(self, steps, since)
        total = np.zeros(first.shape, np.int64)
        for _ in range(self.height):
            cuts = [(end + self._digits.below) // self.arity for end in (first, last)]
            apart = np.abs(first - cuts[0] * self.arity) + np.abs(last - cuts[1] * self.arity)
            total += np.where(cuts[0] == cuts[1], last - first, apart)
            first, last = cuts
        return total.astype(np.float64)

    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """In O(height^2) integer operations.

        Of a step alone it is 1, and k - 1 more for each digit that is carried on.
        """
        check_metric(metric)
        if of == "totals":
            return float(self._error(metric))
        carried, largest = 0, 0
        number = self.horizon  # its cuts say how often each digit was carried on to the next
        while (number := self._digits.cut(number)) > 0:
            carried, largest = carried + number, largest + 1
        return 1.0 + (self.arity - 1) * (largest if metric == "max" else carried / self.horizon)

    def _error(self, metric: Metric) -> Fraction:
        check_metric(metric)
        if metric == "max":
            return Fraction(self._digits.largest_weight(self.horizon))
        return Fraction(self._digits.total_weight(self.horizon), self.horizon)

    @override
    def reader(self, field: NodeNoise) -> Reader:
        """Of few coordinates with higher levels computed once for all steps of a batch."""
        return Reader(self, field, None if is_wide(field.shape) else self._parts)

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z on a window: top down, one level at a time."""
        check_window(self, steps)
        if not is_wide(field.shape):
            return Reader(self, field, self._parts).noise(steps)
        values = np.zeros((min(len(steps), 1), *field.shape), np.int64)
        windows = self._windows(steps) if steps else []
        for level in reversed(range(len(windows[1:]))):
            values = self._expand_rows(field, level, windows[level], values)
        return values

    def _parts(self, field: NodeNoise, steps: range) -> Iterator[NDArray[np.int64]]:
        if len(steps) == 0:
            return
        windows = self._windows(steps)
        values = np.zeros((1, *field.shape), np.int64)
        for level in reversed(range(1, self.height)):
            # What is yielded is overwritten.
            parts = [part.copy() for part in self._expand(field, level, windows[level], values)]
            values = np.concatenate(parts)
        yield from self._expand(field, 0, steps, values)

    def _windows(self, steps: range) -> list[range]:
        """The numbers of every level that those of a window of level 0 are cut to."""
        windows = [steps]
        for _ in range(self.height):
            low, high = windows[-1].start, windows[-1].stop
            windows.append(range(self._digits.cut(low), self._digits.cut(high - 1) + 1))
        return windows

    def _expand(
        self, field: NodeNoise, level: int, window: range, parents: NDArray[np.int64]
    ) -> Iterator[NDArray[np.int64]]:
        """Noise at the numbers of a window of a level; ``parents`` are those they are cut to.

        Groups are computed whole, also where the window begins or ends within one.
        """
        k, below, field = self.arity, self._digits.below, self.by_right_end(field)
        first = self._digits.cut(window.start)
        size = max(1, nodes_per_chunk(field.shape) // k)
        room = np.empty((min(size, len(parents)), k, *field.shape), np.int64)
        for at in range(0, len(parents), size):
            known = parents[at : at + size]
            groups = room[: len(known)]
            numbers = groups.reshape(-1, *field.shape)
            low = (first + at) * k - below
            # The first node stands between two groups, and there is none with a number below 1.
            skipped = max(1, 1 - low)
            numbers[:skipped] = 0
            noise = field.run(level, range(low + skipped, low + len(numbers)))
            np.cumsum(noise, axis=0, out=numbers[skipped:])
            groups += (known - groups[:, below])[:, None]
            yield numbers[max(window.start - low, 0) : window.stop - low]

    def _expand_rows(
        self,
        field: NodeNoise,
        level: int,
        window: range,
        parents: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The same as ``_expand`` for wide nodes: one addition a row, written in place."""
        low, high = window.start, window.stop
        out = np.empty((high - low, *field.shape), np.int64)
        scratch = np.empty(field.shape, np.int64)
        first_group, last_group = self._digits.cut(low), self._digits.cut(high - 1)
        rows = NodeRows(
            self.by_right_end(field), level, stop=max(high, last_group * self.arity + 1)
        )
        for group, parent in enumerate(parents, start=first_group):
            middle = group * self.arity
            start = max(low, middle - self._digits.below)
            stop = min(high, middle + self._digits.above + 1)
            if start <= middle < stop:
                out[middle - low] = parent
            current = parent
            for q, row in rows.read(range(middle, start, -1)):
                target = out[q - 1 - low] if q <= stop else scratch
                current = np.subtract(current, row, out=target)
            current = parent
            for q, row in rows.read(range(middle + 1, stop)):
                target = out[q - low] if q >= start else scratch
                current = np.add(current, row, out=target)
        return out


class KAry(DigitTree):
    """A tree of given arity over ``horizon`` steps.

    The sensitivities are D_1 = D_2^2 = height, the smallest number of digits that can write the
    horizon. The variance at a step is the sum of the absolute digits of that step.

    Source: Andersson et al., "Count on Your Elders", Alg. 1 (no subtraction) and
    Alg. 2 (subtraction, odd arity). Even arity uses the digits -k/2+1 .. k/2.
    Erratum: Alg. 2 line 14 sums x_j where it means the items of one node; Alg. 3 line 15 must
    subtract the interval [p - k^(l-1) + 1, p].

    >>> tree = KAry(1000, 13)
    >>> tree.height, float(tree.l1_sensitivity()), tree.row(20)
    (3, 3.0, (Node(level=1, index=1, weight=1), Node(level=1, index=2, weight=1),
     Node(level=0, index=21, weight=-1), ...Node(level=0, index=26, weight=-1)))

    Args:
        horizon: steps it serves.
        arity: children per node, k >= 2.
        subtraction: allow negative digits, which halves the error.

    Raises:
        InvalidInput: horizon below 1, arity below 2, or either not an integer.
    """

    sources = ("elders",)

    def __init__(self, horizon: int, arity: int, subtraction: bool = True) -> None:
        horizon = check_integer("horizon", horizon, 1)
        arity = check_integer("arity", arity, 2)
        if not isinstance(subtraction, bool):
            raise InvalidInput(f"subtraction is {subtraction!r}; give True or False")
        self.subtraction = subtraction
        super().__init__(horizon, Digits(arity, below=(arity - 1) // 2 if subtraction else 0))

    @classmethod
    def best(
        cls,
        horizon: int,
        metric: Metric = "mean",
        subtraction: bool | None = True,
        norm: Norm = 1,
    ) -> KAry:
        """The arity with the least error at this horizon, by exact computation.

        Minimises error(metric) * D_1^2 for Laplace noise (``norm=1``) or error(metric) * D_2^2 for
        Gaussian noise (``norm=2``). ``subtraction=None`` tries trees with and without it.

        >>> KAry.best(2**20)
        KAry(horizon=1048576, arity=19, subtraction=True)

        Raises:
            InvalidInput: an unknown metric or norm, or a horizon that is not an integer above 0.
        """
        horizon = check_integer("horizon", horizon, 1)
        norm = check_norm(norm)
        forms = (True, False) if subtraction is None else (subtraction,)
        candidates = [
            tree for form in forms for tree in cls.undominated_trees(horizon, metric, form)
        ]
        return min(candidates, key=lambda tree: tree._error(metric) * tree.height ** (3 - norm))

    @classmethod
    def undominated_trees(
        cls, horizon: int, metric: Metric = "mean", subtraction: bool = True
    ) -> list[KAry]:
        """Trees of which no other is both lower and no worse: one of them is best for any noise.

        In order of falling height and rising error. Both sensitivities are functions of the height.

        >>> [tree.arity for tree in KAry.undominated_trees(100)]
        [2, 3, 4, 6, 14, 200]

        Raises:
            InvalidInput: an unknown metric, or a horizon that is not an integer above 0.
        """
        horizon = check_integer("horizon", horizon, 1)
        check_metric(metric)
        best: dict[int, KAry] = {}
        for arity in _useful_arities(horizon, subtraction):
            tree = cls(horizon, arity, subtraction)
            known = best.setdefault(tree.height, tree)
            if tree._error(metric) < known._error(metric):
                best[tree.height] = tree
        front: list[KAry] = []
        for height in sorted(best):
            if not front or best[height]._error(metric) < front[-1]._error(metric):
                front.append(best[height])
        return front[::-1]

    @classmethod
    def candidates(
        cls, horizon: int, subtraction: bool = True, of_each: int = _OF_EACH_HEIGHT
    ) -> list[KAry]:
        """Of every height the trees with the smallest arities, for units that act several times.

        Then sensitivities are no function of the height alone. Of two trees of one height the
        wider has more error, and longer nodes, which hold more of a unit's steps; but where nodes
        end matters too. The eight smallest (``of_each``) contained the best in all cases examined.

        >>> [tree.arity for tree in KAry.candidates(1000)][-4:]
        [51, 52, 2000, 2001]

        Raises:
            InvalidInput: a horizon that is not an integer above 0.
        """
        horizon = check_integer("horizon", horizon, 1)
        trees: list[KAry] = []
        found: Counter[int] = Counter()
        for arity in _useful_arities(horizon, subtraction):
            tree = cls(horizon, arity, subtraction)
            found[tree.height] += 1
            if found[tree.height] <= of_each:
                trees.append(tree)
        return trees

    @classmethod
    def examples(cls, horizon: int) -> tuple[KAry, ...]:
        """Odd and even arities, with and without subtraction, and the best one."""
        forms = [cls(horizon, k, form) for k in (2, 3, 4, 7, 10) for form in (True, False)]
        return (*forms, cls.best(horizon))


def _useful_arities(horizon: int, subtraction: bool) -> list[int]:
    """Arities among which the best of every height is.

    For a given height the smallest arity that reaches the horizon is best, or one of the next few,
    of the other parity.
    """
    largest = min(2 * horizon + 1, _LARGEST_ARITY)
    arities = set(range(2, min(largest, _ALL_ARITIES) + 1))

    def height(arity: int) -> int:
        return Digits(arity, below=(arity - 1) // 2 if subtraction else 0).count(horizon)

    for wanted in range(1, height(min(largest, _ALL_ARITIES))):
        if height(largest) <= wanted:
            least = bisect_left(range(2, largest), -wanted, key=lambda k: -height(k)) + 2
            arities.update(range(least, min(least + 4, largest + 1)))
    return sorted(arities)
