"""One private release of all levels of a hierarchy: children add up to their parents exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats
from counton.columns import data_frame
from counton.errors import InvalidInput
from counton.mechanisms.hierarchy.leaves import leaf_counts
from counton.mechanisms.hierarchy.plan import HierarchyPlan, plan_hierarchy
from counton.mechanisms.tables import (
    check_room,
    fraction_bits,
)
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import Contribution, Guarantee
from counton.strategies.trees import Tree, estimates_of, node_sums


@dataclass(frozen=True, eq=False)
class HierarchyRelease:
    """Private counts of all nodes, consistent and unbiased, and the law of their noise.

    Attributes:
        plan: what was measured, with which noise, under which guarantee.
        estimates: for each level ("total" first), every node's private count.

    >>> from counton.privacy import ZCDP
    >>> release = release_hierarchy(
    ...     {"state": ["CA", "DC"], "count": [3, 4]}, domain={"state": ["CA", "DC"]},
    ...     levels=["state"], guarantee=ZCDP(0.5), key=Key.generate(),
    ... )
    >>> bool(release.total == release.table_columns("state")["estimate"].sum())
    True
    """

    plan: HierarchyPlan
    estimates: tuple[Floats, ...] = field(repr=False)

    @property
    def tree(self) -> Tree:
        """The public tree."""
        return self.plan.tree

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.plan.guarantee

    @property
    def contribution(self) -> Contribution:
        """The protected unit and the neighbouring relation."""
        return self.plan.contribution

    @property
    def total(self) -> float:
        """Private count of everything."""
        return float(self.estimates[0][0])

    def table_columns(self, level: str) -> dict[str, NDArray[Any]]:
        """The table of one level as arrays: the level columns, estimate, std.

        Raises:
            InvalidInput: there is no such level.
        """
        depth = self.tree.level(level)
        return {
            **self.tree.path_columns(depth),
            "estimate": self.estimates[depth],
            "std": np.sqrt(self.plan.joint_law.variances[depth]),
        }

    def table(self, level: str) -> Any:
        """The table of one level as a polars data frame: the level columns, estimate, std.

        Raises:
            InvalidInput: there is no such level.
            MissingExtra: polars is not installed; `table_columns` needs none.
        """
        return data_frame(self.table_columns(level))

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

    def sum_of(self, nodes: Sequence[Any]) -> tuple[float, float]:
        """Private count of a set of nodes together, and its standard deviation.

        Raises:
            InvalidInput: a node that is not in the tree, or a bare label instead of a list.
        """
        weights = [np.zeros(size) for size in self.tree.sizes]
        value = 0.0
        for level, place in self._places(nodes):
            weights[level][place] += 1
            value += float(self.estimates[level][place])
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
            f"  {name}: {size:,} node{'s' * (size != 1)}, standard deviation {self.std(name):,.4g}"
            for name, size in zip(self.tree.levels, self.tree.sizes, strict=True)
        )
        kind = "Laplace" if self.plan.family == "laplace" else "Gaussian"
        return (
            f"hierarchy with {kind} noise, children adding up to their parents exactly\n{levels}\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {self.guarantee.meaning}"
        )

    def __str__(self) -> str:
        return self.describe()


def release_hierarchy(
    leaves: Any,
    *,
    guarantee: Guarantee | None = None,
    contribution: Contribution | None = None,
    key: Key,
    name: str = "hierarchy",
    domain: Any,
    levels: Sequence[str] | None = None,
    value: str = "count",
    targets: Mapping[str, float] | None = None,
) -> HierarchyRelease:
    """Release the counts of all nodes of a hierarchy, once, with noise that adds up.

    Everything released is a function of integer measurements with exact discrete noise. Release a
    data set once under a key and name: the same noise on changed data gives the change away.

    Args:
        leaves: a data frame or mapping of columns with one row a leaf; leaves without a row count
            0. Or, with a `Tree`, a sequence of counts in the order of ``Tree.leaves``.
        guarantee, contribution, targets: as in `plan_hierarchy`.
        key: where the noise comes from.
        name: of this release; another name under the same key has other noise.
        domain: which leaves exist, public: a `Tree`, or a table with the level columns.
        levels: names of the level columns, coarsest first; by default those of the `Tree`.
        value: name of the column of counts; another column has other noise.

    Raises:
        InvalidInput: leaves outside the domain or listed twice, counts that are not non-negative
            integers, a domain that is no tree, or as `plan_hierarchy`.
        SumOverflow: counts too large to be measured exactly.

    >>> from counton.privacy import ZCDP
    >>> domain = {"state": ["CA", "CA", "DC"], "county": ["Kings", "Napa", None]}
    >>> leaves = {"state": ["CA"], "county": ["Napa"], "count": [138019]}
    >>> release = release_hierarchy(
    ...     leaves, domain=domain, levels=["state", "county"], guarantee=ZCDP(0.5),
    ...     key=Key.generate(),
    ... )
    >>> round(release.std("state"), 3), round(release.std("county"), 3)
    (1.291, 1.291)
    >>> release.estimate("CA") == release.sum_of([("CA", "Kings"), ("CA", "Napa")])[0]
    True
    """
    tree = _tree(domain, levels)
    plan = plan_hierarchy(tree, guarantee=guarantee, contribution=contribution, targets=targets)
    counts = leaf_counts(tree, leaves, value)
    check_room(np.concatenate(counts), plan.measurement.largest_entry)
    sums = node_sums(tree, counts)
    measured = {
        "tree_sha256": tree.digest,
        "value": str(value),
        "weights": plan.measurement.digest,
    }
    terms = TableTerms(
        released="hierarchy",
        name=name,
        addressed=measured,
        guarantee=plan.guarantee,
        contribution=plan.contribution,
        shape=(sum(map(len, tree.leaves)),),
        law=plan.noise_law,
        facts={"levels": list(tree.levels[1:])},
    )
    noise = terms.noise_field(key)
    std = math.sqrt(min(float(variance.min()) for variance in plan.joint_law.variances))
    bits = fraction_bits(std)
    cells = estimates_of(plan.measurement, sums, noise, bits)
    unit = 2.0**-bits
    return HierarchyRelease(plan, tuple(np.asarray(cell * unit) for cell in cells))


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
