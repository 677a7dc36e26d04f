"""Private hierarchies: counts of all nodes of a tree, consistent, with chosen accuracy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers, integers_from_text, integers_to_text
from counton.columns import columns_of, data_frame, html
from counton.errors import InvalidInput, StateError
from counton.exact import figures
from counton.laws import DiscreteGaussian, Family, Law
from counton.mechanisms.intervals import smooth_halfwidth
from counton.mechanisms.tables import (
    NORMS,
    TableDraft,
    TableRelease,
    check_room,
    checked_counts,
    fraction_bits,
    noise_kinds,
    ranked,
    shift_of_cells,
    stated,
)
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import (
    ZCDP,
    ApproxDP,
    Contribution,
    Guarantee,
    Shift,
    calibrate,
)
from counton.strategies.trees import HierarchyLaw, Tree, TreeStrategy
from counton.strategies.trees.estimating import estimates_of, node_sums
from counton.strategies.trees.strategy import tree_strategy_for

if TYPE_CHECKING:
    from counton.mechanisms.adjusted import AdjustedHierarchy


def leaf_counts(tree: Tree, leaves: Any, value: str) -> list[Integers]:
    """Counts of the leaves at every level, 0 at other nodes.

    Args:
        tree: the public tree.
        leaves: a sequence of counts in the order of ``Tree.leaves``, or a table of leaves.
        value: name of the table's column of counts.

    Raises:
        InvalidInput: leaves outside the tree or listed twice, counts that are not non-negative
            integers.
        SumOverflow: a count beyond int64.
    """
    counts = [np.zeros(size, np.int64) for size in tree.sizes]
    if not (isinstance(leaves, Mapping) or hasattr(leaves, "columns")):
        given = checked_counts(leaves)
        expected = sum(len(nodes) for nodes in tree.leaves)
        if given.shape != (expected,):
            raise InvalidInput(
                f"the counts have shape {given.shape}; the tree has {expected} leaves: give one "
                f"count for each, in the order of Tree.leaves"
            )
        ends = np.cumsum([len(nodes) for nodes in tree.leaves])
        for level, (nodes, part) in enumerate(
            zip(tree.leaves, np.split(given, ends[:-1]), strict=True)
        ):
            counts[level][nodes] = part
        return counts
    *columns, values = columns_of(leaves, [*tree.levels[1:], value], "table of leaves")
    given = checked_counts(values, "the leaves")
    depth, node = tree.locate(columns)
    for level in range(len(counts)):
        rows = np.flatnonzero(depth == level)
        listed = np.bincount(node[rows], minlength=len(counts[level]))
        if listed.max(initial=0) > 1:
            double = int(rows[np.flatnonzero(node[rows] == listed.argmax())[1]])
            raise InvalidInput(
                f"row {double + 1:,} of the leaves repeats a leaf: add its counts up first, one "
                f"row a leaf"
            )
        counts[level][node[rows]] = given[rows]
    return counts


#: Where `HierarchyPlan.epsilon` looks.
_LEAST_EPSILON, _LARGEST_EPSILON = 2.0**-40, 2.0**20
#: Standard deviations that can be had whatever they cost; with a guarantee, their smallest ratio.
_LEAST_STD, _LARGEST_STD = 2.0**-20, 2.0**32


@dataclass(frozen=True)
class HierarchyChoice:
    """What is measured on a tree, with one kind of noise.

    Attributes:
        measurement: what is measured.
        noise_law: law of one measurement's noise, in units of the weights' lattice.
        joint_law: variance and covariance of all estimates.

    >>> from counton.privacy import ApproxDP
    >>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
    >>> plan = plan_hierarchy(tree, guarantee=ApproxDP(1, 1e-6))
    >>> [(choice.family, round(choice.std("county"), 1)) for choice in plan.choices]
    [('laplace', 3.0), ('gaussian', 5.5)]
    """

    measurement: TreeStrategy
    noise_law: Law

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.noise_law.family

    @cached_property
    def joint_law(self) -> HierarchyLaw:
        """Variance and covariance of the noise of all estimates."""
        return self.measurement.joint_law(self.noise_law.variance)

    def std(self, level: str) -> float:
        """Largest standard deviation of the noise of any node of a level."""
        depth = self.measurement.tree.level(level)
        return math.sqrt(self.joint_law.variances[depth].max())


@dataclass(frozen=True)
class HierarchyPlan:
    """Measurements and noise for a tree, the most accurate first: known before any data.

    Attributes:
        choices: one for each kind of noise that can give the guarantee.
        guarantee, contribution: what is promised, and to whom.

    ``measurement``, ``noise_law``, ``joint_law`` and ``std`` are those of the best choice.

    >>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
    >>> plan = plan_hierarchy(tree, targets={"state": 5.0, "county": 10.0})
    >>> plan.guarantee, round(plan.std("county"), 4)
    (ZCDP(rho=...), 10.0)
    """

    choices: tuple[HierarchyChoice, ...]
    guarantee: Guarantee
    contribution: Contribution

    @property
    def best(self) -> HierarchyChoice:
        """The choice with the least noise."""
        return self.choices[0]

    @property
    def measurement(self) -> TreeStrategy:
        """What is measured."""
        return self.best.measurement

    @property
    def noise_law(self) -> Law:
        """Law of one measurement's noise, in units of the weights' lattice."""
        return self.best.noise_law

    @property
    def tree(self) -> Tree:
        """The public tree."""
        return self.measurement.tree

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.best.family

    @property
    def joint_law(self) -> HierarchyLaw:
        """Variance and covariance of the noise of all estimates."""
        return self.best.joint_law

    def std(self, level: str) -> float:
        """Largest standard deviation of the noise of any node of a level."""
        return self.best.std(level)

    def table(self) -> Any:
        """The same rows as `rows`, as a polars data frame.

        Raises:
            MissingExtra: polars is not installed; `rows` needs none.
        """
        from counton.columns import data_frame_of_rows

        return data_frame_of_rows(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One row a choice: rank, noise, and the standard deviation of every level."""
        return [
            {
                "rank": rank,
                "noise": choice.family,
                **{f"{level}_std": choice.std(level) for level in self.tree.levels},
            }
            for rank, choice in enumerate(self.choices, 1)
        ]

    def describe(self) -> str:
        """How accurate each level will be and what is protected, in words.

        >>> from counton.privacy import ZCDP
        >>> tree = Tree.from_leaves({"state": ["CA", "NY"]}, ["state"])
        >>> print(plan_hierarchy(tree, guarantee=ZCDP(0.5)).describe().splitlines()[-1])
          1  gaussian: total 1.155, state 1.155
        """
        head = (
            f"{sum(self.tree.sizes):,} nodes, standard deviations by level, least noise first\n"
            f"guarantee: {self.guarantee}\n"
            f"protected: {self.contribution.describe(steps=False)}"
        )
        rows = [
            f"  {rank}  {choice.family}: "
            + ", ".join(f"{level} {figures(choice.std(level))}" for level in self.tree.levels)
            for rank, choice in enumerate(self.choices, 1)
        ]
        return "\n".join([head, *rows])

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html(
            f"guarantee: {self.guarantee}\nprotected: {self.contribution.describe(steps=False)}",
            {name: np.array([row[name] for row in rows]) for name in rows[0]},
        )

    @property
    def rho(self) -> Fraction:
        """Exact cost in zero-concentrated differential privacy.

        Raises:
            InvalidInput: the noise is not Gaussian.
        """
        if not isinstance(self.noise_law, DiscreteGaussian):
            raise InvalidInput(
                "the noise is discrete Laplace; rho is stated for Gaussian noise only: see "
                "guarantee"
            )
        shift = shift_of_cells(self.measurement, self.contribution)
        return Fraction(shift.l2_squared) / (2 * self.noise_law.sigma_squared)

    def epsilon(self, delta: float) -> float:
        """Least epsilon, to 6 digits and rounded up, such that (epsilon, delta) holds too.

        Raises:
            InvalidInput: the noise is not Gaussian, delta not within (0, 1), or an epsilon above
                2^20, which protects nobody.
        """
        self.rho  # noqa: B018  (refuses Laplace noise)
        ApproxDP(1, delta)  # refuses what is no delta
        shift = shift_of_cells(self.measurement, self.contribution)
        low, high = _LEAST_EPSILON, _LARGEST_EPSILON
        if not self._gives(ApproxDP(high, delta), shift):
            raise InvalidInput(
                f"rho = {float(self.rho):.3g} does not give an epsilon up to {high:,.0f} at delta "
                f"= {delta}: raise the targets"
            )
        while high / low > 1 + 1e-6:
            middle = math.sqrt(low * high)
            if self._gives(ApproxDP(middle, delta), shift):
                high = middle
            else:
                low = middle
        return high

    def _gives(self, guarantee: ApproxDP, shift: Shift) -> bool:
        """Whether the Gaussian noise is known to be enough."""
        assert isinstance(self.noise_law, DiscreteGaussian)
        try:
            needed = calibrate(guarantee, shift, "gaussian").law
        except InvalidInput:  # none that can be drawn is enough
            return False
        assert isinstance(needed, DiscreteGaussian)
        return needed.sigma_squared <= self.noise_law.sigma_squared


def plan_hierarchy(
    tree: Tree,
    *,
    guarantee: Guarantee | None = None,
    contribution: Contribution | None = None,
    targets: Mapping[str, float] | None = None,
) -> HierarchyPlan:
    """Accuracy of every level from a guarantee, or the guarantee from wanted accuracies.

    Args:
        tree: the public tree.
        guarantee: what is promised; ``targets`` are then scaled to it. None: the targets are kept
            and the cost is computed, as a ZCDP.
        contribution: the protected unit; default one unit in one leaf, added or removed.
        targets: wanted standard deviation by level (relative ones if there is a guarantee). A level
            left out takes that of the nearest coarser level, the coarsest that of the nearest
            finer one. None: equal at every level. A node with one child passes its noise on, and so
            may be more accurate than wanted.

    Raises:
        InvalidInput: neither guarantee nor targets, unknown levels, targets not above 0, or targets
            no estimate can have (v_parent >= m^2 v_child for a node with m children).

    >>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
    >>> plan = plan_hierarchy(tree, targets={"state": 5.0, "county": 10.0})
    >>> round(plan.std("state"), 4), round(plan.std("county"), 4), round(float(plan.rho), 6)
    (5.0, 10.0, 0.028)
    """
    unit = Contribution.add_remove() if contribution is None else contribution
    if guarantee is None and targets is None:
        raise InvalidInput("neither a guarantee nor targets are given: give at least one of them")
    wanted, one = wanted_variances(tree, targets, relative=guarantee is not None)
    if guarantee is None:
        measurement, scale = tree_strategy_for(tree, wanted, NORMS["gaussian"])
        noise_law = DiscreteGaussian(Fraction(scale) ** 2)
        shift = shift_of_cells(measurement, unit)
        promise = ZCDP(Fraction(shift.l2_squared) / (2 * noise_law.sigma_squared))
        return HierarchyPlan((HierarchyChoice(measurement, noise_law),), promise, unit)

    def attempt(family: Family) -> HierarchyChoice:
        measurement, _ = tree_strategy_for(tree, wanted, NORMS[family], unit=one)
        shift = shift_of_cells(measurement, unit)
        return HierarchyChoice(measurement, calibrate(guarantee, shift, family).law)

    attempts = (partial(attempt, family) for family in noise_kinds(guarantee))
    choices = ranked(attempts, cost=lambda choice: choice.joint_law.root)
    return HierarchyPlan(tuple(choices), guarantee, unit)


def wanted_variances(
    tree: Tree, targets: Mapping[str, float] | None, *, relative: bool
) -> tuple[list[float], float]:
    """Target variance of each level, relative ones with the largest at 1; and the target of 1."""
    if targets is None:
        return [1.0] * len(tree.levels), 1.0
    if not isinstance(targets, Mapping):
        raise InvalidInput(
            f"targets have type {type(targets).__name__}; give a mapping from levels to standard "
            f"deviations such as {{{tree.levels[-1]!r}: 10}}"
        )
    if not targets:
        raise InvalidInput("targets are empty; name at least one level, or pass None")
    stds = {name: _target(tree, name, std) for name, std in targets.items()}
    unit = max(stds.values()) if relative else 1.0
    for name, std in stds.items():
        if not _LEAST_STD <= std / unit <= _LARGEST_STD:
            bound = f"between 2^-20 and {'1 of the largest' if relative else '2^32'}"
            raise InvalidInput(
                f"the target of {name!r} is {std!r}, which cannot be measured exactly; it must be "
                f"{bound}: bring it closer"
            )
    current = next(stds[name] for name in tree.levels if name in stds)
    variances = []
    for name in tree.levels:
        current = stds.get(name, current)
        variances.append((current / unit) ** 2)
    return variances, unit


def _target(tree: Tree, name: str, std: float) -> float:
    if name not in tree.levels:
        raise InvalidInput(
            f"targets name {name!r}, which is not a level; the levels are {', '.join(tree.levels)}"
        )
    try:
        value = float(std)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 < value < math.inf:  # refuses NaN too
        raise InvalidInput(f"the target of {name!r} is {std!r}; it must be a finite number above 0")
    return value


@dataclass(frozen=True, eq=False, repr=False)
class HierarchyRelease(TableRelease):
    """Private counts of all nodes, consistent and unbiased, and the law of their noise.

    Attributes:
        plan: what was measured, with which noise, under which guarantee.
        estimates: for each level ("total" first), every node's private count.

    See `TableRelease` for ``terms``, ``guarantee``, ``contribution``, ``input_digest`` and
    ``repeated``.

    >>> from counton import Key, ZCDP, release_hierarchy
    >>> release = release_hierarchy(
    ...     {"state": ["CA", "DC"], "count": [3, 4]}, domain={"state": ["CA", "DC"]},
    ...     levels=["state"], guarantee=ZCDP(0.5), key=Key.generate(),
    ... )
    >>> bool(release.total == release.table_columns("state")["estimate"].sum())
    True
    """

    plan: HierarchyPlan
    estimates: tuple[Floats, ...] = field(repr=False)
    _bits: int = field(repr=False)

    @property
    def tree(self) -> Tree:
        """The public tree."""
        return self.plan.tree

    @property
    def total(self) -> float:
        """Private count of everything."""
        return float(self.estimates[0][0])

    def table_columns(self, nodes: str, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """The table of one level of the tree as arrays.

        Args:
            nodes: name of the tree's level.
            level: probability with which each interval holds.

        Returns:
            The level columns, estimate, std, lower and upper, in the order in which the domain
            names the nodes. The intervals are those of single nodes, not of all together.

        Raises:
            InvalidInput: there is no such level, or a probability outside (0, 1).
        """
        depth = self.tree.level(nodes)
        order = self.tree.order[depth]
        estimate = self.estimates[depth][order]
        std = np.sqrt(self.plan.joint_law.variances[depth])[order]
        half = smooth_halfwidth(std, self.plan.noise_law, level) + 2.0**-self._bits
        return {
            **self.tree.path_columns(depth),
            "estimate": estimate,
            "std": std,
            "lower": estimate - half,
            "upper": estimate + half,
        }

    def table(self, nodes: str | None = None, *, level: float = 0.95) -> Any:
        """The table of one level of the tree as a polars data frame, or of all levels.

        Args:
            nodes: name of the tree's level; None: all, with a column "level" in front.
            level: probability with which each interval holds.

        Raises:
            InvalidInput: as `table_columns`.
            MissingExtra: polars is not installed; `table_columns` needs none.
        """
        if nodes is not None:
            return data_frame(self.table_columns(nodes, level))
        return data_frame(self._all_levels(level))

    def adjusted(
        self,
        *,
        known: Mapping[Any, int] | None = None,
        integers: bool = False,
        nonnegative: bool = False,
    ) -> AdjustedHierarchy:
        """The table made to fit: known totals kept, whole numbers, none below 0; they add up.

        All of it is a function of the release and of what is public, and costs no privacy. Known
        totals enter by least squares with the exact covariance, which makes other numbers more
        accurate. Non-negative numbers are biased where little is counted: see
        `AdjustedHierarchy.notes`.

        Args:
            known: public totals by the node's path (``()`` is everything): what is known besides
                the release, never the exact counts that it protects.
            integers: whole numbers.
            nonnegative: none below 0.

        Raises:
            InvalidInput: a node that is not in the tree, known totals that contradict each other
                or are no whole numbers, or too many of them.
            SumOverflow: estimates beyond 2^53.
        """
        from counton.mechanisms.adjusted import adjusted_hierarchy

        return adjusted_hierarchy(self, known=known, integers=integers, nonnegative=nonnegative)

    def _all_levels(self, level: float) -> dict[str, NDArray[Any]]:
        from counton.mechanisms.adjusted import all_levels

        tree = self.tree
        return all_levels(tree, [self.table_columns(name, level) for name in tree.levels])

    def _rows(self) -> dict[str, NDArray[Any]]:
        return self.table_columns(self.tree.levels[min(1, len(self.tree.levels) - 1)])

    def _measured(self) -> str:
        return (
            "Measured were the total and, in every family of the hierarchy, contrasts of its "
            "children; estimates are linear in them, and children add up to their parents exactly."
        )

    def _errors(self) -> list[str]:
        levels = ", ".join(f"{name} {figures(self.std(name))}" for name in self.tree.levels)
        return [f"The noise has these standard deviations by level: {levels}."]

    def _sources(self) -> tuple[str, ...]:
        return self.plan.measurement.sources

    def saved_strategy(self) -> dict[str, Any]:
        """See `TableRelease.saved_strategy`: all weights, and the public tree."""
        return {**self.plan.measurement.to_dict(), "tree": self.tree.to_dict()}

    def saved_values(self) -> dict[str, Any]:
        """See `TableRelease.saved_values`: nodes as integers, and the bits behind their point."""
        nodes = np.concatenate(self.estimates) * 2.0**self._bits
        return {"nodes": integers_to_text(nodes.astype(np.int64)), "bits": self._bits}

    def estimate(self, node: Any) -> float:
        """Private count of one node, given by its path (``()`` is the total).

        Raises:
            InvalidInput: there is no such node.
        """
        level, place = self.tree.find(node)
        return float(self.estimates[level][place])

    def std(self, level: str) -> float:
        """Standard deviation of the noise at a level; the largest, should nodes differ.

        Nodes differ where one has a single child: that child has its parent's noise.

        Raises:
            InvalidInput: there is no such level.
        """
        return self.plan.std(level)

    def covariance(self, nodes_a: Sequence[Any], nodes_b: Sequence[Any]) -> Floats:
        """Covariance of the noise of nodes given by their paths: shape (nodes_a, nodes_b).

        Raises:
            InvalidInput: a node that is not in the tree, or a bare label instead of a list.
        """
        first = self._places(nodes_a)
        second = self._places(nodes_b)
        joint_law = self.plan.joint_law
        return np.array([[joint_law.covariance(a, b) for b in second] for a in first]).reshape(
            len(first), len(second)
        )

    def sum_of(self, nodes: Sequence[Any] | Mapping[Any, float]) -> tuple[float, float]:
        """Private count of a set of nodes together, and its standard deviation.

        Args:
            nodes: paths of nodes; or a mapping from them to weights: ``{"CA": 1, "NY": -1}`` is
                the difference of two states.

        Raises:
            InvalidInput: a node that is not in the tree, a bare label instead of a list, or a
                weight that is no finite number.
        """
        nodes, times = weighted(nodes)
        weights = [np.zeros(size) for size in self.tree.sizes]
        value = 0.0
        for (level, place), weight in zip(self._places(nodes), times, strict=True):
            weights[level][place] += weight
            value += weight * float(self.estimates[level][place])
        return value, math.sqrt(self.plan.joint_law.functional(weights))

    def _places(self, nodes: Sequence[Any]) -> list[tuple[int, int]]:
        if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable):
            raise InvalidInput(
                f"nodes are {nodes!r}, which is no list; give a list of nodes such as [{nodes!r}]"
            )
        return [self.tree.find(node) for node in nodes]

    def describe(self) -> str:
        """What was released and what is protected, in words."""
        levels = "\n".join(
            f"  {name}: {size:,} node{'s' * (size != 1)}, "
            f"standard deviation {figures(self.std(name))}"
            for name, size in zip(self.tree.levels, self.tree.sizes, strict=True)
        )
        kind = "Laplace" if self.plan.family == "laplace" else "Gaussian"
        unit = self.contribution
        meaning = self.guarantee.meaning_for(unit.unit, unit.relation)
        return (
            f"hierarchy with {kind} noise, children adding up to their parents exactly\n{levels}\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {meaning}"
        )


class HierarchyDraft(TableDraft[HierarchyRelease]):
    """A hierarchy that is to be released; arguments as in `counton.release_hierarchy`."""

    kind = "hierarchy"

    def __init__(
        self,
        leaves: Any,
        *,
        guarantee: Guarantee | None = None,
        contribution: Contribution | None = None,
        name: str = "hierarchy",
        domain: Any,
        levels: Sequence[str] | None = None,
        value: str = "count",
        targets: Mapping[str, float] | None = None,
    ) -> None:
        self._tree, self._value = _tree(domain, levels), str(value)
        self._guarantee, self._targets = guarantee, targets
        promised = stated(guarantee, contribution)
        if targets is not None:
            wanted_variances(self._tree, targets, relative=guarantee is not None)
        asked = {
            **promised,
            **self._addressed(),
            "levels": list(self._tree.levels[1:]),
            "targets": None
            if targets is None
            else {level: float(std) for level, std in targets.items()},
        }
        self._by_level = leaf_counts(self._tree, leaves, value)
        super().__init__(name, asked, np.concatenate(self._by_level))

    def _addressed(self) -> dict[str, Any]:
        return {"tree_sha256": self._tree.digest, "value": self._value}

    @cached_property
    def plan(self) -> HierarchyPlan:
        """Weights and noise, chosen once."""
        return plan_hierarchy(
            self._tree,
            guarantee=self._guarantee,
            contribution=self.contribution,
            targets=self._targets,
        )

    def prepare(self) -> None:
        """See `TableDraft.prepare`."""
        check_room(self._counts, self.plan.measurement.largest_entry)

    def release(self, key: Key) -> HierarchyRelease:
        """See `TableDraft.release`."""
        self.prepare()
        plan = self.plan
        terms = TableTerms(
            released=self.kind,
            name=self.name,
            addressed={**self._addressed(), "weights": plan.measurement.digest},
            guarantee=plan.guarantee,
            contribution=plan.contribution,
            shape=(sum(map(len, self._tree.leaves)),),
            law=plan.noise_law,
            facts={"levels": list(self._tree.levels[1:]), "nodes": list(self._tree.sizes)},
        )
        std = math.sqrt(min(float(variance.min()) for variance in plan.joint_law.variances))
        bits = fraction_bits(std)
        sums = node_sums(self._tree, self._by_level)
        cells = estimates_of(plan.measurement, sums, terms.noise_field(key), bits)
        return _of(plan, cells, bits, terms, self.input_digest(key), repeated=False)

    def shown(
        self,
        terms: TableTerms,
        strategy: Mapping[str, Any],
        values: Mapping[str, Any],
        input_digest: str,
    ) -> HierarchyRelease:
        """See `TableDraft.shown`."""
        return saved_hierarchy(self._tree, terms, strategy, values, input_digest)


def saved_hierarchy(
    tree: Tree,
    terms: TableTerms,
    strategy: Mapping[str, Any],
    values: Mapping[str, Any],
    input_digest: str,
) -> HierarchyRelease:
    """A release from what was saved of it: no plan and no noise.

    Raises:
        StateError: weights that are not those of the terms.
        InvalidInput: values that do not fit the tree.
    """
    measurement = TreeStrategy.from_dict(strategy, tree)
    if measurement.digest != terms.measured["weights"]:
        raise StateError(
            "the weights kept with the release are not those that its terms name: restore the "
            "state from a copy"
        )
    plan = HierarchyPlan(
        (HierarchyChoice(measurement, terms.law),), terms.guarantee, terms.contribution
    )
    nodes = integers_from_text(values["nodes"], (sum(tree.sizes),))
    cells = np.split(nodes, np.cumsum(tree.sizes)[:-1])
    return _of(plan, cells, int(values["bits"]), terms, input_digest, repeated=True)


def _of(
    plan: HierarchyPlan,
    cells: Sequence[Integers],
    bits: int,
    terms: TableTerms,
    input_digest: str,
    *,
    repeated: bool,
) -> HierarchyRelease:
    return HierarchyRelease(
        plan,
        tuple(np.asarray(cell * 2.0**-bits) for cell in cells),
        bits,
        terms=terms,
        input_digest=input_digest,
        repeated=repeated,
    )


def recomputed_hierarchy(release: HierarchyRelease, key: Key) -> tuple[Integers, int]:
    """The exact counts behind a release, found with its key, and how far what they give lies off.

    Estimates are the exact counts plus a function of the noise, so the key gives the counts, and
    these give every node again.

    Returns:
        Counts of all leaves by level, 0 at other nodes; and the largest difference between what is
        computed from them and what was released, in units of the released grid.
    """
    tree, bits = release.tree, release._bits
    measurement, noise = release.plan.measurement, release.terms.noise_field(key)
    nothing = [np.zeros(size, np.int64) for size in tree.sizes]
    drawn = estimates_of(measurement, nothing, noise, bits)
    counts = []
    for level, size in enumerate(tree.sizes):
        exact = np.zeros(size, np.int64)
        leaves = tree.leaves[level]
        own = release.estimates[level][leaves] - drawn[level][leaves] * 2.0**-bits
        exact[leaves] = np.rint(own).astype(np.int64)
        counts.append(exact)
    again = estimates_of(measurement, node_sums(tree, counts), noise, bits)
    off = max(
        float(np.abs(cells - shown * 2.0**bits).max())
        for cells, shown in zip(again, release.estimates, strict=True)
    )
    return np.concatenate(counts), round(off)


def weighted(nodes: Sequence[Any] | Mapping[Any, float]) -> tuple[list[Any], list[float]]:
    """Nodes, and how often each counts: once, unless a mapping says it.

    Raises:
        InvalidInput: a bare label instead of a list, or a weight that is no finite number.

    >>> weighted({"CA": 1, "NY": -1})
    (['CA', 'NY'], [1.0, -1.0])
    """
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable):
        raise InvalidInput(
            f"nodes are {nodes!r}, which is no list; give a list of nodes such as [{nodes!r}]"
        )
    listed = list(nodes)
    if not isinstance(nodes, Mapping):
        return listed, [1.0] * len(listed)
    for node, weight in nodes.items():
        given: Any = weight
        number = isinstance(given, Real) and not isinstance(given, bool)
        if not number or not math.isfinite(given):
            raise InvalidInput(
                f"the weight of {node!r} is {weight!r}; give a finite number, as in "
                f"{{{node!r}: -1}}"
            )
    return listed, [float(weight) for weight in nodes.values()]


def _tree(domain: Any, levels: Sequence[str] | None) -> Tree:
    if domain is None:
        raise InvalidInput(
            "domain is None; the nodes must be known beforehand, because the nodes observed in "
            "the data would give it away: pass the public list of leaves"
        )
    if isinstance(domain, Tree):
        if levels is not None and tuple(levels) != domain.levels[1:]:
            raise InvalidInput(
                f"levels are {list(levels)}, but the tree has {list(domain.levels[1:])}: leave "
                f"levels out"
            )
        return domain
    if levels is None:
        raise InvalidInput("levels is None; name the level columns of the domain, coarsest first")
    return Tree.from_leaves(domain, levels)
