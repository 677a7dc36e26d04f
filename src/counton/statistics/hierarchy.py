"""Counts at all nodes of a public tree, over time; children add up to their parents.

An integer matrix C_tree (`counton.tables`) is applied to each step's exact counts of leaves, and
the cells are counted over time: the strategy C_time x C_tree. An event is in one leaf of one step,
so the sensitivities multiply.

Estimates are rounded to multiples of one power of 2, so that children add up to their parents
exactly at every step, and between two published steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Column, Floats, Integers, read_only
from counton.base.columns import MISSING, OUTSIDE, list_in_words
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError, param
from counton.base.exact import in_parts, quote
from counton.base.table_schema import refuse_reserved
from counton.continual.formulas import ClosedForm, Estimate, Formula, TableNumbers
from counton.continual.intervals import check_confidence_level, smooth_halfwidth
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ZCDP, ContributionBound
from counton.privacy.contribution import Relation
from counton.statistics.accumulator_statistic import Part
from counton.statistics.measurement_choice import (
    TableStatistic,
    most_read,
    refuse_inexact_measurements,
)
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import ErrorScale, Events
from counton.strategies.strategy import Norm
from counton.tables import HierarchyDistribution, Tree, TreeStrategy
from counton.tables.table_calibration import fraction_bits, sensitivity_of_cells
from counton.tables.tree_measurement import Measuring
from counton.tables.tree_strategy import tree_strategy_for

#: Smallest integer weight of a measured cell: over time, where sums keep growing; for one release.
_LEAST_WEIGHT = 2**8
_LEAST_WEIGHT_OF_ONE_RELEASE = 2**20
#: Smallest and largest wanted standard deviation. If a guarantee is stated, only ratios of wanted
#: standard deviations matter, and the first number is the smallest ratio.
_LEAST_STD = 2.0**-20
_LARGEST_STD = 2.0**32
#: Most leaves: with a count of up to 2^32 their numbers fit into one integer.
_MOST_LEAVES = 2**26


class HierarchyResult(StatisticResult):
    """Released counts of all nodes; children add up to their parents.

    The name of a number is the path of its node: ``("CA", "Napa")``, ``"CA"``, and ``()`` for the
    total.
    """

    statistic: Hierarchy

    @cached_property
    def _bits(self) -> int:
        return self.statistic.bits_read(float(self.release._design.errors.std(range(1, 2))[0]))

    @cached_property
    def nodes(self) -> tuple[Integers, ...]:
        """Released counts by level, in units of a power of two, 2^-16 or larger."""
        nodes, *before = (
            self.statistic.measuring.share_to_nodes(
                np.asarray(release.value, np.float64), self._bits
            )
            for release in self.release.between or (self.release,)
        )
        if before:  # the difference of the published numbers
            nodes = [now - earlier for now, earlier in zip(nodes, before[0], strict=True)]
        return tuple(map(read_only, nodes))

    @property
    def _grain(self) -> float:
        """Largest rounding error: two units at one step, four for a difference of steps."""
        return 2.0 ** (1 - self._bits) * (1 if self.release.between is None else 2)

    @property
    def estimates(self) -> tuple[Floats, ...]:
        """Released counts of all nodes, one array for each level, the total first."""
        return tuple(np.asarray(part * 2.0**-self._bits) for part in self.nodes)

    @property
    def total(self) -> float:
        return float(self.estimates[0][0])

    @override
    def number_of(self, name: Any = None) -> Estimate:
        """Return a node's count, by its path or a text such as "CA/Napa"; None is the total."""
        tree = self.statistic.tree
        path = () if name is None else name
        try:
            level, place = tree.find(path)
        except InvalidInputError:
            if not isinstance(path, str):
                raise
            level, place = tree.find(tuple(path.split("/")))
        numbers = self._node_counts(level, np.array([place]))

        def parts() -> Formula:
            weights = self.statistic.measuring.reads(level, place)
            return self.cells.sum(weights, float(numbers.value[0]), self._grain)

        return numbers.selected(0, parts)

    def _node_counts(self, level: int, places: Integers) -> ClosedForm:
        """Return the counts of some nodes of one level with their intervals."""
        value = self.estimates[level][places]
        std = self.cells.std * np.sqrt(self.statistic.distribution.variances[level][places])
        return ClosedForm.symmetric(value, lambda confidence: self._halves(std, confidence), std)

    @override
    def whole(self) -> Estimate:
        return self.number_of()

    def _halves(self, std: Floats, confidence_level: float) -> Floats:
        if self.cells.one_draw:
            distribution = self.cells.design.distribution
            half = (
                smooth_halfwidth(std, distribution, check_confidence_level(confidence_level))
                + 2.0**-self._bits
            )
            return np.asarray(half, np.float64)
        read = 1 + sum(int(part.max(initial=0)) for part in self.statistic.tree.children)
        return (
            self.cells.halfwidths(std, check_confidence_level(confidence_level), read) + self._grain
        )

    def level_columns(self, nodes: str, confidence_level: float = 0.95) -> dict[str, Column]:
        """Return the names, estimates and intervals of one level.

        Raises:
            InvalidInputError: there is no level of this name, or a probability is outside (0, 1).
        """
        return self._level_numbers(self.statistic.tree.level(nodes)).columns(confidence_level)

    def _level_numbers(self, depth: int) -> TableNumbers:
        tree = self.statistic.tree
        return TableNumbers(tree.path_columns(depth), self._node_counts(depth, tree.order[depth]))

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        tree = self.statistic.tree
        parts = [self._level_numbers(depth) for depth in range(len(tree.levels))]
        about: dict[str, Column] = {"tree_level": np.repeat(np.array(tree.levels), tree.sizes)}
        for column in tree.levels[1:]:
            labels = np.full(sum(tree.sizes), None, dtype=object)
            for part, stop in zip(parts, np.cumsum(tree.sizes), strict=True):
                if column in part.about:
                    labels[stop - len(part.about[column]) : stop] = part.about[column]
            about[column] = labels
        return TableNumbers.stack(parts, about)


class Hierarchy(TableStatistic):
    """Counts at every node of a tree, over time; children add up to their parents.

    An event is the path of a leaf, such as ``("CA", "Napa")``; with ``counts`` a pair such as
    (("CA", "Napa"), 3), which counts 3 times.

    Args:
        tree: the public tree of all leaves, or its `Tree.to_dict`.
        targets: wanted standard deviations by the name of a level; only their ratios matter. A
            level without one takes that of the nearest level above, or else below. None: equal.
        counts: True if an event states how many times it counts; the protected unit is a single
            count.
        measurement: the cells that get noise, as `TreeStrategy.to_dict`; None: those that reach the
            targets at the least cost.
        neighbours: "add_remove", or "replace" within the same step.
        unit: the word for one protected unit.

    Raises:
        InvalidInputError: names of nodes that are not texts, too many leaves, impossible targets,
            or a measurement of another tree.

    Sensitivity: if events are added or removed, it is exactly the sensitivity of the measurement
    times the sensitivity of the strategy over time.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> tree = Tree.from_leaves(
    ...     {"region": ["N", "N", "S"], "city": ["a", "b", "c"]}, ["region", "city"]
    ... )
    >>> visits = Hierarchy(tree)
    >>> counter = RunningStatistic.start(
    ...     visits, 24, ZCDP(2), key=Key.generate(), name="visits", batched=True
    ... )
    >>> month = counter.release_batch([("N", "a")] * 500 + [("S", "c")] * 300)
    >>> month["N"] == month["N", "a"] + month["N", "b"], abs(month["N"] - 500) < 60
    (True, True)
    >>> bool(month.total == month["N"] + month["S"])
    True
    """

    is_table = True
    result_type = HierarchyResult
    keyword = "hierarchy"
    example = "levels=page groups=pages.csv"
    example_file = ("pages.csv", "page\nhome\nshop\n")
    says = "How many rows each place of a hierarchy has, such as region and city; counts add up."
    help = (
        f"With {param('time')} all levels are released after each window, as count releases "
        f"its totals; each row is an event, or with {param('count_column')} several. Without "
        f"{param('time')} the table is released once: the same command again shows the same "
        f"numbers. Without {param('target')} every level is equally accurate; with "
        f"{param('target')} and no guarantee the command computes what the wanted accuracy costs."
    )
    phrase = "table of counts at the levels {levels} of a hierarchy"
    sources = ("ranges",)

    def __init__(
        self,
        tree: Tree | Mapping[str, object],
        *,
        targets: Mapping[str, float] | None = None,
        counts: bool = False,
        measurement: Mapping[str, object] | TreeStrategy | None = None,
        neighbours: Relation = "add_remove",
        unit: str | None = None,
    ) -> None:
        self.tree = tree if isinstance(tree, Tree) else Tree.from_dict(tree)
        self.size = f"{sum(self.tree.sizes):,} nodes"
        self.domain = self.tree
        names = [label.tolist() for label in self.tree.labels]
        if any(type(name) is not str for part in names for name in part):
            wrong = next(name for part in names for name in part if type(name) is not str)
            raise InvalidInputError(
                f"the tree has a node {quote(wrong)} of type {type(wrong).__name__}, but events "
                "name nodes by texts: give all nodes texts as names"
            )
        refuse_reserved(self.tree.levels[1:], "tree_level")
        self.n_accumulators = sum(map(len, self.tree.leaves))
        if self.n_accumulators > _MOST_LEAVES:
            raise InvalidInputError(
                f"the tree has {self.n_accumulators:,} leaves, and at most {_MOST_LEAVES:,} are "
                "possible: release a tree with fewer leaves"
            )
        wanted_variances(self.tree, targets, relative=True)  # refuses invalid targets
        self.targets = None if targets is None else {k: float(std) for k, std in targets.items()}
        self._protect(neighbours, unit, counts=counts)
        if isinstance(measurement, Mapping):
            measurement = TreeStrategy.from_dict(measurement, self.tree)
        self._measurement = measurement
        distinct_labels = tuple(tuple(dict.fromkeys(part)) for part in names)
        self._labels = distinct_labels
        self.parts = tuple(
            Part(level, "label", labels)
            for level, labels in zip(self.tree.levels[1:], distinct_labels, strict=True)
        )
        if self.counts:
            self.parts = (*self.parts, Part("value", "count"))

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, object] = {"tree": self.tree.to_dict()}
        if self.targets is not None:
            parameters["targets"] = self.targets
        if self._measurement is not None:
            parameters["measurement"] = self._measurement.to_dict()
        return {**parameters, **self._parameters_of("counts", "neighbours", "unit")}

    @property
    @override
    def phrase_words(self) -> dict[str, str]:
        return {"levels": list_in_words(self.tree.levels)}

    def __repr__(self) -> str:
        return f"Hierarchy({sum(self.tree.sizes):,} nodes: {', '.join(self.tree.levels)})"

    def __hash__(self) -> int:
        return hash((repr(self), self.tree.digest))

    @cached_property
    def measuring(self) -> Measuring:
        return Measuring(self.measurement)

    _measured_by = "measurement"

    @override
    def _choose(self, norm: Norm, horizon: int | None = None) -> TreeStrategy:
        variances, unit = wanted_variances(self.tree, self.targets, relative=True)
        least = _LEAST_WEIGHT_OF_ONE_RELEASE if horizon == 1 else _LEAST_WEIGHT
        return tree_strategy_for(self.tree, variances, norm, unit=unit, least_weight=least)[0]

    @override
    def _with_measurement(self, measurement: TreeStrategy) -> Self:
        return type(self)(
            self.tree,
            targets=self.targets,
            measurement=measurement,
            **self._parameters_of("counts", "neighbours", "unit"),
        )

    def fitted_to(self, halfwidths: Mapping[str, float]) -> Self:
        """Return the hierarchy with targets in the ratios of wanted half-widths.

        It is the hierarchy itself if it has targets, if a name is no level, or if a unit may move,
        which costs its total nothing.

        A level gets less if its sums cannot be that inaccurate, or if less costs next to nothing:
        of m children with variance v each, the total is measured at about the least cost with the
        variance v / (1 / m^2 + sqrt((m - 1) / m^3)).

        Args:
            halfwidths: the wanted half-width of a sum, by the name of its level. A level without
                one takes that of the nearest level above, or else of the highest level that has
                one.

        >>> tree = Tree.from_leaves({"city": ["a", "b", "c"]}, ["city"])
        >>> Hierarchy(tree).fitted_to({"total": 100, "city": 10}).targets
        {'total': 16.15..., 'city': 10.0}
        """
        levels = self.tree.levels
        moves = self.neighbours == "replace"
        if self.targets is not None or moves or not {*halfwidths} <= {*levels}:
            return self
        targets = dict[str, float]()
        most = 1000 * min(halfwidths.values())
        current = next(halfwidths[level] for level in levels if level in halfwidths)
        for level in levels:
            current = halfwidths.get(level, current)
            targets[level] = min(current, most)
        for place, level in reversed([*enumerate(levels[:-1])]):
            m = min(filter(None, self.tree.children[place].tolist()))
            least = targets[levels[place + 1]] / math.sqrt(1 / m**2 + math.sqrt((m - 1) / m**3))
            targets[level] = min(targets[level], least)
        parameters = self._parameters_of("counts", "neighbours", "unit")
        return type(self)(self.tree, targets=targets, **parameters)

    def as_wanted(self) -> tuple[Self, ZCDP] | None:
        """Return the hierarchy whose standard deviations equal the targets, and the smallest rho
        for it in a single release; None without targets.

        Raises:
            InvalidInputError: no noise meets the targets.
        """
        if self.targets is None:
            return None
        variances, _ = wanted_variances(self.tree, self.targets, relative=False)
        measurement, std = tree_strategy_for(
            self.tree, variances, 2, least_weight=_LEAST_WEIGHT_OF_ONE_RELEASE
        )
        statistic = self._with_measurement(measurement)
        moved = statistic.contribution().pattern
        assert isinstance(moved, BoundedChange)
        return statistic, ZCDP(Fraction(moved.l2_squared) / (2 * Fraction(std) ** 2))

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.measuring.size,)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        # The words are part of the address of the noise: other words would draw other noise.
        return self._contribution_of(
            sensitivity_of_cells(self.measuring.strategy, ContributionBound(self.neighbours)),
            f"which counts in one of {self.n_accumulators:,} leaves, and in all that is above it",
        )

    @cached_property
    def distribution(self) -> HierarchyDistribution:
        """Joint distribution of all nodes' noise, for variance 1 of a measured cell."""
        return self.measuring.strategy.joint_distribution(1.0)

    @property
    @override
    def error_of(self) -> ErrorScale:
        meaning = "how much there is at a node, over all steps and nodes"
        return ErrorScale.from_variances(meaning, np.concatenate(self.distribution.variances))

    @cached_property
    def _codes(self) -> list[dict[str, int]]:
        """For each level, the index of each label."""
        return [{name: code for code, name in enumerate(names)} for names in self._labels]

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        counts = np.zeros(len(events))
        levels = len(self._labels)
        codes = np.full((levels, len(events)), MISSING, np.int64)
        paths = list[Any]()
        for row, event in enumerate(events):
            path, counts[row] = self._count_of(event, "the path of a leaf")
            names = in_parts(path)
            for level, name in enumerate(names[:levels]):
                is_name = isinstance(name, str) and len(names) <= levels
                codes[level, row] = self._codes[level].get(name, OUTSIDE) if is_name else OUTSIDE
            paths.append(path)
        columns = (*codes, counts) if self.counts else tuple(codes)
        wrong = np.flatnonzero(self.encode(*columns) < 0)
        if len(wrong):
            level = next(depth for depth, nodes in enumerate(self.tree.leaves) if len(nodes))
            raise InvalidInputError(
                f"an event is {quote(paths[wrong[0]])}, which is not a leaf of the tree; give the "
                "path of a leaf, such as "
                f"{self.tree.path(level, int(self.tree.leaves[level][0]))!r}"
            )
        return columns

    @cached_property
    def _node_lookups(self) -> list[tuple[Integers, Integers, int]]:
        """For each level: sorted keys (parent * number of labels + label), the node of each key,
        and the number of labels.
        """
        lookups = []
        for parents, labels, place in zip(
            self.tree.parents, self.tree.labels, self._codes, strict=True
        ):
            codes = np.array([place[name] for name in labels.tolist()], np.int64)
            keys = parents * len(place) + codes
            order = np.argsort(keys, kind="stable")
            lookups.append((keys[order], order, len(place)))
        return lookups

    @cached_property
    def _leaf_numbers(self) -> tuple[Integers, Integers]:
        """Each node's index among all leaves, or -1; and where each level's nodes begin."""
        begins = np.cumsum([0, *self.tree.sizes])
        numbers = np.full(begins[-1], -1, np.int64)
        leaves = [begin + leaf for begin, leaf in zip(begins, self.tree.leaves, strict=False)]
        numbers[np.concatenate(leaves)] = np.arange(self.n_accumulators)
        return numbers, begins

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return a row's leaf or, with ``counts``, the leaf plus the times multiplied by the number
        of leaves; -1 if the path names no leaf.
        """
        levels = parts[: len(self._labels)]
        rows = len(levels[0])
        node = np.zeros(rows, np.int64)
        depth = np.zeros(rows, np.int64)
        is_listed = np.ones(rows, dtype=bool)
        for level, (codes, (keys, order, count)) in enumerate(
            zip(levels, self._node_lookups, strict=True), 1
        ):
            named = codes != MISSING
            node_keys = node * count + codes
            place = np.minimum(np.searchsorted(keys, node_keys), len(keys) - 1)
            is_listed &= ~named | (
                (codes != OUTSIDE) & (depth == level - 1) & (keys[place] == node_keys)
            )
            at_level = named & is_listed
            node = np.where(at_level, order[place], node)
            depth = np.where(at_level, level, depth)
        numbers, begins = self._leaf_numbers
        leaf = np.where(is_listed, numbers[begins[depth] + node], -1)
        if not self.counts:
            return leaf
        counted = np.asarray(parts[-1], np.float64).astype(np.int64)
        return np.where(leaf < 0, -1, counted * self.n_accumulators + leaf)

    @override
    def gives(self, place: int | None) -> Mapping[str, Any]:
        return {} if self.counts or place is not None else {"count": ()}

    @override
    def measure(self, sums: Integers) -> Integers:
        refuse_inexact_measurements(sums, self.largest_entry)
        return self.measuring.cells(sums)

    def bits_read(self, first: float) -> int:
        """Return the number of bits after the point of published counts.

        Args:
            first: standard deviation of a cell at the first step.
        """
        # All steps use one grid, so that differences of them add up too.
        least = min(float(part.min()) for part in self.distribution.variances)
        return fraction_bits(first * math.sqrt(least))

    @override
    def most_counted(self, first: float, last: float) -> float:
        """Return the largest number of rows below 2^53 rounding units.

        Args:
            first: standard deviation of a cell at the first step.
            last: the same at the last step.
        """
        most = max(float(part.max()) for part in self.distribution.variances)
        return most_read(self.bits_read(first) + 1, last * math.sqrt(most))

    @override
    def total(self, cells: Integers) -> Floats:
        first = cells.reshape(len(cells), -1)[:, 0]
        return np.asarray(first / self.measuring.strategy.total, np.float64)


def wanted_variances(
    tree: Tree, targets: Mapping[str, float] | None, *, relative: bool
) -> tuple[list[float], float]:
    """Return each level's wanted variance as a multiple of ``unit ** 2``, and ``unit``: the largest
    wanted standard deviation if ``relative``, otherwise 1. Without targets all are 1.
    """
    if targets is None:
        return [1.0] * len(tree.levels), 1.0
    if not isinstance(targets, Mapping):
        raise InvalidInputError(
            f"targets have type {type(targets).__name__}; give a dictionary from levels to "
            f"standard deviations, such as {{{tree.levels[-1]!r}: 10}}"
        )
    if not targets:
        raise InvalidInputError("targets are empty; give at least one level, or None")
    stds = dict[str, float]()
    for name, std in targets.items():
        if name not in tree.levels:
            raise InvalidInputError(
                f"targets name {name!r}, which is not a level; the levels are "
                f"{', '.join(tree.levels)}: give one of these"
            )
        try:
            stds[name] = float(std)
        except (TypeError, ValueError, OverflowError):
            stds[name] = math.nan
        if not 0 < stds[name] < math.inf:  # also refuses NaN
            raise InvalidInputError(
                f"the target of {name!r} is {std!r}; it must be a finite number above 0"
            )
    unit = max(stds.values()) if relative else 1.0
    for name, std in stds.items():
        if not _LEAST_STD <= std / unit <= _LARGEST_STD:
            bound = f"between 2^-20 and {'1 of the largest' if relative else '2^32'}"
            raise InvalidInputError(
                f"the target of {name!r} is {std!r}, and no exact noise has this standard "
                f"deviation; give a number {bound}"
            )
    current = next(stds[name] for name in tree.levels if name in stds)
    variances = []
    for name in tree.levels:
        current = stds.get(name, current)
        variances.append((current / unit) ** 2)
    return variances, unit
