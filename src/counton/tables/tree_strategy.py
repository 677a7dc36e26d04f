"""Measurements of a tree's nodes by which every level has a wanted accuracy, and their sensitivity.

The measurements are integers: w X for the total X, and for every child i, with sum X_i, of a node
with m children and sum S

    y_i = p X_i - q S + z_i,    p = r, q = r / m to the nearest integer  (m >= 3)
    y = r (X_1 - X_2) + z                                               (m = 2, once)

with integer weights w, p, q, r and independent noise z of one distribution. Estimates are computed
from the root down, as post-processing: X_i = S / m + (y_i - mean y) / p. The noises of siblings are
exchangeable: a child's noise is its parent's noise divided by m, plus sqrt(alpha) (g_i - mean g).
Here the g_i are independent with variance 1, and alpha = (variance of z) / p^2, or twice that for m
= 2. Hence the variances v of estimates satisfy

    v_child = v_parent / m^2 + alpha (1 - 1/m),

and every v_parent < m^2 v_child is possible. For m = 2 and equal variances this is cascade sampling
of "Ranges". For equal variances, an ancestor with m children adds (m-1)/(m+1) < 1 to the squared
sensitivity, in units of noise variance / variance of the total. Since q is r / m rounded, the mean
of the y_i contains a little information on S; the sensitivity includes it, and estimates do not use
it.

With Laplace noise q = 0: subtracting S would double the 1-norm without any gain.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers, integers_from_text, integers_to_text
from counton.base.errors import InvalidInputError
from counton.strategies.strategy import Norm, TableStrategy
from counton.tables.tree import TOTAL, Tree

Place = tuple[int, int]

#: Smallest weight p: rounding weights to integers then raises standard deviations by less than a
#: factor of 1 + 2^-20.
_LEAST_WEIGHT = 2**20
#: Largest standard deviation of the noise of measurements, which are integers.
_LARGEST_STD = 2**39
#: Largest weight, so that counts times weights fit int64.
_LARGEST_WEIGHT = 2**28


@dataclass(frozen=True)
class HierarchyDistribution:
    """The joint distribution of the noise in the estimates of all nodes of a tree.

    Let X be the noise of the estimate of a node with m children. Then the noise of child i is X / m
    + sqrt(alpha) (g_i - mean of g), where g_1, .., g_m are independent with variance 1.

    Attributes:
        root: variance of the total's noise.
        spread: for each level, alpha for every node as a parent, shape (nodes,); 0 for fewer than
            two children.

    >>> tree = Tree.from_leaves({"half": [0, 0, 1, 1], "leaf": [0, 1, 2, 3]}, ["half", "leaf"])
    >>> spread = (np.full(1, 1.5), np.full(2, 1.5))  # of the cascade
    >>> distribution = HierarchyDistribution(tree, 1.0, spread)
    >>> [level.tolist() for level in distribution.variances]
    [[1.0], [1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """

    tree: Tree
    root: float
    spread: tuple[Floats, ...]

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """For each level, the variance of every node's estimate: shape (nodes,)."""
        variances = [np.array([self.root])]
        for level, parents in enumerate(self.tree.parents):
            m = np.maximum(self.tree.children[level], 1).astype(np.float64)
            child = variances[-1] / m**2 + self.spread[level] * (1 - 1 / m)
            variances.append(child[parents])
        return tuple(variances)


class TreeStrategy(TableStrategy):
    """A strategy that measures the total of a tree and how the sums of siblings differ.

    With x_i the sum of the counts below child i, and s the sum of the x_i of all siblings, the
    measurement of child i is p x_i - q s. Of two children the first is measured.

    Args:
        total: weight of the total.
        own: for each level an array, shape (nodes,): entry j is p for all children of node j; 0 if
            it has fewer than two.
        shared: likewise q; p / 2 for two children.

    Raises:
        InvalidInputError: weights that do not fit the tree, or are not as stated above.

    >>> tree = Tree.from_leaves({"part": ["a", "b", "c"]}, ["part"])
    >>> strategy = TreeStrategy(tree, 2, (np.array([3]), np.zeros(3, int)),
    ...                         (np.array([1]), np.zeros(3, int)))
    >>> strategy.sensitivities(), strategy.sensitivities("move")
    (Sensitivity(l1=6, l2_squared=10, entries=None), Sensitivity(l1=6, l2_squared=18, entries=None))
    """

    sources = ("ranges",)

    def __init__(
        self, tree: Tree, total: int, own: Sequence[Integers], shared: Sequence[Integers]
    ) -> None:
        self.tree = tree
        self.total = total
        self.own = tuple(own)
        self.shared = tuple(shared)
        self._check()

    def _check(self) -> None:
        """Raise `InvalidInputError` for weights to which the formulas do not apply."""
        sizes = [len(part) for part in self.own], [len(part) for part in self.shared]
        if sizes != (self.tree.sizes, self.tree.sizes):
            raise InvalidInputError(
                f"weights are given for {sizes[0]} and {sizes[1]} nodes, but the levels of the "
                f"tree have {self.tree.sizes} nodes: give a weight for each node"
            )
        if self.total < 1:
            raise InvalidInputError(
                f"the weight of the total is {self.total}; it must be at least 1"
            )
        for level, (p, q, m) in enumerate(
            zip(self.own, self.shared, self.tree.children, strict=True)
        ):
            wrong = (p > 0) != (m > 1)
            wrong |= (q < 0) | (q > p) | ((m == 2) & (p != 2 * q))
            if wrong.any():
                node = int(np.argmax(wrong))
                raise InvalidInputError(
                    f"a node of level {self.tree.levels[level]} with {m[node]} children has "
                    f"weights {p[node]} and {q[node]}; the first must be above 0 where there are "
                    f"several children, the second at most the first, and half of it where there "
                    f"are two"
                )

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: digests of the tree and of all weights."""
        return {"tree_sha256": self.tree.digest, "weights": self.digest}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the name, digests and all weights as JSON values, without the tree."""
        return {
            **super().to_dict(),
            "total": self.total,
            "own": [integers_to_text(part) for part in self.own],
            "shared": [integers_to_text(part) for part in self.shared],
        }

    @classmethod
    def from_dict(cls, description: Mapping[str, Any], tree: Tree) -> Self:
        """Rebuild the strategy from `to_dict` on an equal tree.

        Args:
            description: JSON values that ``to_dict`` returned.
            tree: the tree for which the strategy was made, or an equal one.

        Raises:
            InvalidInputError: another tree, a missing part, or weights that differ from the stated
                ones.
        """
        try:
            own, shared = (
                [
                    integers_from_text(text, (size,))
                    for text, size in zip(description[part], tree.sizes, strict=True)
                ]
                for part in ("own", "shared")
            )
            strategy = cls(tree, total=int(description["total"]), own=own, shared=shared)
            saved_digests = description["tree_sha256"], description["weights"]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"a strategy for a tree cannot be read ({error!r}): give what "
                f"TreeStrategy.to_dict wrote, and the tree it was made for"
            ) from error
        if saved_digests != (tree.digest, strategy.digest):
            raise InvalidInputError(
                f"the strategy was made for the tree {saved_digests[0]!r} with the weights "
                f"{saved_digests[1]!r}, and this tree is another: give the tree it was made for"
            )
        return strategy

    @cached_property
    def largest_entry(self) -> int:
        """Upper bound of the magnitude of any entry: of the total's weight and all of ``own``."""
        return max(self.total, *(int(weights.max(initial=0)) for weights in self.own))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all weights, from which noise is derived."""
        digest = hashlib.sha256(str(self.total).encode())
        for part in (*self.own, *self.shared):
            digest.update(np.ascontiguousarray(part, "<i8").data)
        return digest.hexdigest()

    @override
    def largest_column(self, norm: Norm) -> int:
        return self._norms[norm][0]

    @override
    def largest_move(self, norm: Norm) -> int:
        """Return the largest norm, exactly, of the change if a unit moves to another leaf.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.
        """
        return max(self._norms[norm][1], 1)

    @cached_property
    def _norms(self) -> dict[Norm, tuple[int, int]]:
        """The results of `_largest` for the 1-norm (key 1) and the squared 2-norm (key 2)."""
        return {1: self._largest(1), 2: self._largest(2)}

    def _largest(self, power: int) -> tuple[int, int]:
        """Return how far a unit moves all measurements at most if added, and if moved.

        Both are 1-norms (``power`` 1) or squared 2-norms (``power`` 2): of a leaf's column, and of
        the difference of two, in which the measurement of the total cancels.
        """
        # Computed from the leaves up.
        below = np.zeros(self.tree.sizes[-1], np.int64)
        most_moved = 0
        for level in range(len(self.own) - 2, -1, -1):
            # How far a unit moves the measurements of a node's children at most: if it is added
            # below the node (single), and if it moves from child to child (move).
            weights = self.own[level]
            shared = self.shared[level]
            children = self.tree.children[level]
            starts = self.tree.starts[level]
            pair = children == 2
            single = np.where(pair, shared, weights - shared) ** power
            single += np.where(pair, 0, np.maximum(children - 1, 0) * shared**power)
            move = np.where(pair, weights**power, 2 * weights**power)
            inner = children > 0
            first = np.zeros(len(children), np.int64)
            second = np.zeros(len(children), np.int64)
            if below.any():  # at the lowest level all nodes are leaves
                first[inner] = np.maximum.reduceat(below, starts[inner])
                others = below.copy()
                # Position of one child per parent with the largest value among its siblings.
                parents = self.tree.parents[level]
                hits = np.flatnonzero(below == first[parents])
                others[hits[np.diff(parents[hits], prepend=-1) > 0]] = -1
                second[inner] = np.maximum.reduceat(others, starts[inner])
            several = children > 1
            if several.any():
                moved = (move + first + second)[several]
                most_moved = max(most_moved, int(moved.max()))
            below = np.where(inner, first + single, 0)
        return int(below[0]) + self.total**power, most_moved

    def joint_distribution(self, noise_variance: float) -> HierarchyDistribution:
        """Return the joint distribution of all estimates for a noise variance of measurements.

        Args:
            noise_variance: variance of the noise of one measurement.
        """
        spread = []
        for weights, children in zip(self.own, self.tree.children, strict=True):
            alpha = np.zeros(len(weights))
            measured = weights > 0
            alpha[measured] = noise_variance / weights[measured].astype(np.float64) ** 2
            alpha[children == 2] *= 2
            spread.append(alpha)
        return HierarchyDistribution(self.tree, noise_variance / self.total**2, tuple(spread))


def tree_strategy_for(
    tree: Tree,
    targets: list[float],
    norm: Norm,
    *,
    unit: float = 1.0,
    least_weight: int = _LEAST_WEIGHT,
) -> tuple[TreeStrategy, int]:
    """Return a strategy whose levels have wanted variances, and the std of its noise.

    With it every variance is at most its target.

    Args:
        targets: target variance of each level, beginning with the total.
        norm: 1 for Laplace, 2 for Gaussian noise.
        unit: a standard deviation of 1 in the user's units, for messages.
        least_weight: with larger weights rounding changes variances less, but only smaller counts
            fit int64.

    Raises:
        InvalidInputError: no estimates have these variances, or no integer weights attain them.

    >>> tree = Tree.from_leaves({"part": ["a", "b", "c"]}, ["part"])
    >>> measurement, std = tree_strategy_for(tree, [1.0, 1.0], norm=2)
    >>> joint_distribution = measurement.joint_distribution(std**2)
    >>> [variance.round(5).tolist() for variance in joint_distribution.variances]
    [[1.0], [1.0, 1.0, 1.0]]
    """
    # For each level alpha: how much the differences of siblings add to the variance that children
    # have from their parent (`HierarchyDistribution.variances`), so that all attain their target.
    variance = np.array([targets[0]])
    spreads: list[Floats] = []
    for level, children in enumerate(tree.children[:-1]):
        target = targets[level + 1]
        _refuse_impossible(tree, level, variance, target, unit)
        several = children > 1
        m = np.maximum(children, 2).astype(np.float64)
        alpha = np.where(several, (target - variance / m**2) * m / (m - 1), 0.0)
        spreads.append(alpha)
        passed = np.where(several, target, variance)
        variance = passed[tree.parents[level]]
    # p = scale / sqrt(alpha); for pairs p = 2 r and alpha = 2 (noise variance) / p^2.
    pairs = [np.where(children == 2, 0.5, 1.0) for children in tree.children[:-1]]
    inverse = [
        np.sqrt(1 / np.where(alpha > 0, alpha * pair, np.inf))
        for alpha, pair in zip(spreads, pairs, strict=True)
    ]
    largest = max([1 / math.sqrt(targets[0]), *(float(part.max()) for part in inverse)])
    positive = [float(part[part > 0].min()) for part in inverse if (part > 0).any()]
    least = min([1 / math.sqrt(targets[0]), *positive])
    # Squares of the weights, summed over all ancestors, must fit into int64.
    most = min(_LARGEST_WEIGHT, math.isqrt(2**60 // len(tree.levels)))
    if largest / least > most / 2**10:
        raise InvalidInputError(
            f"the wanted accuracies differ by a factor of {largest / least:.3g} within the tree, "
            f"and at most {most // 2**10:,} can be measured: give targets that are closer to "
            "each other"
        )
    scale = math.floor(min(least_weight / least, most / largest, _LARGEST_STD))
    if scale < 1:
        raise InvalidInputError(
            f"the wanted accuracy is {unit / largest:.3g}, but weights above {most:,} cannot be "
            "measured exactly: give larger targets"
        )
    own_weights = []
    shared = []
    # Weights are integers, rounded towards accuracy.
    for part, children in zip(inverse, tree.children[:-1], strict=True):
        p = np.ceil(scale * part).astype(np.int64)
        p += np.where(children == 2, p & 1, 0)  # a pair is measured as r (X_1 - X_2), p = 2 r
        q = (2 * p + children) // np.maximum(2 * children, 1)
        own_weights.append(p)
        shared.append(np.where((children == 2) | (norm == 2), q, 0))
    for weights in (own_weights, shared):
        weights.append(np.zeros(tree.sizes[-1], np.int64))  # nodes of the lowest level are leaves
    total = math.ceil(scale / math.sqrt(targets[0]))
    return TreeStrategy(tree, total, tuple(own_weights), tuple(shared)), scale


def _refuse_impossible(
    tree: Tree, level: int, variance: Floats, target: float, unit: float
) -> None:
    children = tree.children[level]
    bound = np.where(children > 1, children.astype(np.float64) ** 2 * target * (1 - 1e-9), np.inf)
    bound = np.where(children == 1, target * (1 + 1e-9), bound)
    wrong = (children > 0) & (variance > bound)
    if not wrong.any():
        return
    node = int(np.argmax(wrong))
    m = int(children[node])
    where = f"{tree.levels[level]} {tree.path(level, node)!r}" if level else TOTAL
    raise InvalidInputError(
        f"the wanted accuracy is impossible: {where} has {m} child{'ren' * (m > 1)} and a target "
        f"of {unit * math.sqrt(variance[node]):.6g}, which must be "
        f"{f'below {m} times' if m > 1 else 'at most'} that of {tree.levels[level + 1]}, "
        f"{unit * math.sqrt(target):.6g}, because the children add up to it: give a smaller target "
        f"for {tree.levels[level]}, or a larger one for {tree.levels[level + 1]}"
    )
