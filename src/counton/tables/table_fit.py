"""Adjustment of released tables to public facts: known totals, whole numbers, no negative numbers.

Known totals are imposed by least squares with the exact covariance of the noise. Standard
deviations and intervals are those of the adjusted numbers. Whole or non-negative numbers are chosen
afterwards by `whole_numbers`. They still add up; non-negative numbers are biased.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats
from counton.base.errors import InvalidInput
from counton.numbers.fit_request import Fit
from counton.numbers.formulas import ClosedForm, TableNumbers
from counton.tables import HierarchyLaw, Tree
from counton.tables.whole_numbers import Bounds, bounds_of, whole_numbers

#: Largest number of known totals times nodes, unless all totals of one level are known.
_MOST_COVARIANCES = 2**26
#: Function from standard deviations and a level to half-widths of intervals.
Halves = Callable[[Floats, float], Floats]


@dataclass(frozen=True, eq=False)
class AdjustedHierarchy:
    """A released tree of counts after adjustment: counts add up and keep known totals.

    Attributes:
        tree: the public tree.
        estimates: for each level, the count of every node.
        std: for each level, the standard deviations of least-squares estimates, before they were
            made whole or non-negative; 0 for a known total.
        fit: the constraints to which the counts were adjusted.

    >>> from counton import ZCDP, Hierarchy, Key, Running
    >>> states = Hierarchy(Tree.from_leaves({"state": ["CA", "DC", "NY"]}, ["state"]), counts=True)
    >>> counter = Running.start(
    ...     states, 1, ZCDP(0.5), key=Key.generate(), name="states", batched=True
    ... )
    >>> reading = counter.release_batch([(("CA",), 300), (("DC",), 4)])
    >>> fitted = reading.adjust(known={(): 304}, integers=True, nonnegative=True)
    >>> fitted.estimates[0].tolist(), int(fitted.estimates[1].sum()), fitted.std[0].tolist()
    ([304], 304, [0.0])
    """

    tree: Tree
    estimates: tuple[NDArray[Any], ...]
    std: tuple[Floats, ...]
    fit: Fit
    _centres: tuple[Floats, ...]
    _halves: Halves

    def level_columns(self, nodes: str, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """Return the table of one level as columns; see `HierarchyReading.level_columns`.

        Intervals belong to the least-squares estimates and are clipped to possible values, which
        does not reduce the probability with which they hold.
        """
        return self._level_numbers(self.tree.level(nodes)).columns(level)

    def _level_numbers(self, depth: int) -> TableNumbers:
        std, centre = self.std[depth], self._centres[depth]

        def ends(level: float) -> tuple[NDArray[Any], NDArray[Any]]:
            half = np.where(std > 0, self._halves(std, level), 0.0)
            low, high = centre - half, centre + half
            return clip_to_possible(low, high, self.fit)

        found = ClosedForm(self.estimates[depth], ends, std)
        return TableNumbers(self.tree.path_columns(depth), found.at(self.tree.order[depth]))

    def numbers(self) -> TableNumbers:
        """Return the adjusted counts of all levels as one table, the total first."""
        return all_levels(self.tree, [self._level_numbers(depth) for depth in range(len(self.std))])

    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        return self.numbers().columns(level)

    def notes(self) -> list[str]:
        """Return sentences that caution readers of the numbers, such as on bias."""
        return self.fit.notes()


def clip_to_possible(
    low: NDArray[Any], high: NDArray[Any], fit: Fit
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Clip ends of intervals to possible values: whole numbers, none below 0, as ``fit`` says."""
    if fit.nonnegative:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    if fit.integers:
        whole = np.ceil(low - 2.0**-20), np.floor(high + 2.0**-20)
        return whole[0].astype(np.int64), np.maximum(*whole).astype(np.int64)
    return low, high


def all_levels(tree: Tree, parts: Sequence[TableNumbers]) -> TableNumbers:
    """Stack the tables of all levels of a tree below each other, with a column "level" in front."""
    sizes = tree.sizes
    found: dict[str, NDArray[Any]] = {"level": np.repeat(np.array(tree.levels), sizes)}
    for column in tree.levels[1:]:
        labels = np.full(sum(sizes), None, dtype=object)
        for part, stop in zip(parts, np.cumsum(sizes), strict=True):
            if column in part.about:
                labels[stop - len(part.about[column]) : stop] = part.about[column]
        found[column] = labels
    return TableNumbers.below(parts, found)


def adjusted_hierarchy(
    law: HierarchyLaw, released: Sequence[Floats], grain: float, halves: Halves, fit: Fit
) -> AdjustedHierarchy:
    """Adjust a released tree of counts to public constraints; see `HierarchyReading.adjust`."""
    tree = law.tree
    stated, bounds = check_known(tree, fit)
    centres, variances = _condition(law, list(released), stated)
    unit = 1.0 if fit.integers else grain
    if fit:
        scaled = Bounds(bounds.fixed, [low / unit for low in bounds.lowest])
        whole = whole_numbers([part / unit for part in centres], tree.parents, scaled)
        estimates: list[NDArray[Any]] = [
            part if fit.integers else np.asarray(part * unit) for part in whole
        ]
    else:
        estimates = list(released)
    return AdjustedHierarchy(
        tree,
        tuple(estimates),
        tuple(np.sqrt(np.maximum(part, 0.0)) for part in variances),
        fit,
        tuple(centres),
        halves,
    )


def check_known(tree: Tree, fit: Fit) -> tuple[list[Floats], Bounds]:
    """Refuse known totals that contradict each other; no release is needed.

    Returns:
        For each level, the known total of each node, NaN if unknown; and the bounds on all counts
            that follow.
    """
    stated = [np.full(size, np.nan) for size in tree.sizes]
    for path, total in dict(fit.known).items():
        level, place = tree.find(path)
        if isinstance(total, bool) or not isinstance(total, (int, np.integer)):
            raise InvalidInput(
                f"the known total of {path!r} is {total!r}; it must be a whole number: round it, "
                f"or leave it out"
            )
        if abs(int(total)) >= 2**53:
            raise InvalidInput(
                f"the known total of {path!r} is {total}; it must be below 2^53: count in larger "
                f"units"
            )
        stated[level][place] = int(total)
    for part in stated:
        if fit.nonnegative and (part < 0).any():
            raise InvalidInput(
                f"a known total is {part[part < 0][0]:,.0f}, which is below 0: correct it, or do "
                "not ask for numbers of at least 0"
            )
    bounds, wrong = bounds_of(tree.parents, stated, nonnegative=fit.nonnegative)
    if wrong is not None:
        level, place, why = wrong
        name = " / ".join(map(str, tree.path(level, place))) or "everything"
        raise InvalidInput(
            f"the known total of {name} is {stated[level][place]:,.0f}, but {why}: known totals "
            f"must add up; correct them"
        )
    return stated, bounds


def _condition(
    law: HierarchyLaw, estimates: list[Floats], stated: list[Floats]
) -> tuple[list[Floats], list[Floats]]:
    """Return, by level, least-squares estimates that keep the known totals, and their variances.

    A total that is unknown is NaN in ``stated``.
    """
    tree, variances = law.tree, [part.copy() for part in law.variances]
    if all(np.isnan(part).all() for part in stated):
        return estimates, variances
    whole = [level for level in range(len(stated)) if _is_cut(tree, stated, level)]
    if whole and all(np.isnan(part).all() for part in stated[whole[-1] + 1 :]):
        return _below_cut(law, estimates, stated, whole[-1])
    places = [
        (level, int(place))
        for level, part in enumerate(stated)
        for place in np.flatnonzero(~np.isnan(part))
    ]
    if len(places) * sum(tree.sizes) > _MOST_COVARIANCES:
        raise InvalidInput(
            f"{len(places):,} known totals among {sum(tree.sizes):,} nodes are too many to be kept "
            f"one by one; state all of a level, or at most "
            f"{_MOST_COVARIANCES // sum(tree.sizes):,} of them"
        )
    ends = np.cumsum([0, *tree.sizes])
    with_known = np.array([np.concatenate(law.covariances(place)) for place in places])
    index = [ends[level] + place for level, place in places]
    among = with_known[:, index]
    flat = np.concatenate(estimates)
    off = np.array([stated[level][place] for level, place in places]) - flat[index]
    # Known totals may follow from each other, so the matrix may be singular.
    gain = np.linalg.lstsq(among, with_known, rcond=1e-12)[0]
    moved = flat + gain.T @ off
    left = np.concatenate(variances) - np.einsum("kn,kn->n", with_known, gain)
    left[left < 1e-9 * np.concatenate(variances)] = 0.0
    cuts = ends[1:-1]
    return list(np.split(moved, cuts)), list(np.split(left, cuts))


def _is_cut(tree: Tree, stated: list[Floats], level: int) -> bool:
    """Return whether all nodes of a level, and all leaves above it, have known totals.

    Known totals above this level then add no information.
    """
    if np.isnan(stated[level]).any():
        return False
    return not any(np.isnan(stated[above][tree.leaves[above]]).any() for above in range(level))


def _below_cut(
    law: HierarchyLaw, estimates: list[Floats], stated: list[Floats], cut: int
) -> tuple[list[Floats], list[Floats]]:
    """Return estimates and variances by level, if all totals of level ``cut`` are known.

    Counts above it are sums of known totals; those below, all unknown, are adjusted to add up to
    them.
    """
    tree = law.tree
    centres: list[Floats] = [np.zeros(0)] * len(estimates)
    variances: list[Floats] = [np.zeros(size) for size in tree.sizes]
    centres[cut] = stated[cut]
    for level in range(cut - 1, -1, -1):
        added = np.bincount(
            tree.parents[level], weights=centres[level + 1], minlength=tree.sizes[level]
        )
        centres[level] = np.where(tree.children[level] > 0, added, stated[level])
    for level in range(cut, len(estimates) - 1):
        m = np.maximum(tree.children[level], 1).astype(np.float64)
        parents = tree.parents[level]
        off = (centres[level] - estimates[level]) / m
        centres[level + 1] = estimates[level + 1] + off[parents]
        child = variances[level] / m**2 + law.spread[level] * (1 - 1 / m)
        variances[level + 1] = child[parents]
    return centres, variances
