"""Accuracy and cost of a hierarchy: decided before any data is touched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from counton.errors import InvalidInput
from counton.laws import DiscreteGaussian, Family, Law
from counton.mechanisms.families import NORMS, best_of_families
from counton.mechanisms.tables import shift_of_cells
from counton.privacy import (
    ZCDP,
    ApproxDP,
    Contribution,
    Guarantee,
    Shift,
    calibrate,
)
from counton.strategies.trees import HierarchyLaw, Tree, TreeStrategy, tree_strategy_for

#: Where `HierarchyPlan.epsilon` looks.
_LEAST_EPSILON, _LARGEST_EPSILON = 2.0**-40, 2.0**20
#: Standard deviations that can be had whatever they cost; with a guarantee, their smallest ratio.
_LEAST_STD, _LARGEST_STD = 2.0**-20, 2.0**32


@dataclass(frozen=True)
class HierarchyPlan:
    """Measurement and noise for a tree: accuracy and cost, known before any data.

    Attributes:
        measurement: what is measured.
        noise_law: law of one measurement's noise, in units of the weights' lattice.
        joint_law: variance and covariance of all estimates.
        guarantee, contribution: what is promised, and to whom.

    >>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
    >>> plan = plan_hierarchy(tree, targets={"state": 5.0, "county": 10.0})
    >>> plan.guarantee, round(plan.std("county"), 4)
    (ZCDP(rho=...), 10.0)
    """

    measurement: TreeStrategy
    noise_law: Law
    guarantee: Guarantee
    contribution: Contribution

    @property
    def tree(self) -> Tree:
        """The public tree."""
        return self.measurement.tree

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
        return math.sqrt(self.joint_law.variances[self.tree.level(level)].max())

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
        shift = shift_of_cells(self.measurement.norms(), self.contribution)
        return Fraction(shift.l2_squared) / (2 * self.noise_law.sigma_squared)

    def epsilon(self, delta: float) -> float:
        """Least epsilon, to 6 digits and rounded up, such that (epsilon, delta) holds too.

        Raises:
            InvalidInput: the noise is not Gaussian, delta not within (0, 1), or an epsilon above
                2^20, which protects nobody.
        """
        self.rho  # noqa: B018  (refuses Laplace noise)
        ApproxDP(1, delta)  # refuses what is no delta
        shift = shift_of_cells(self.measurement.norms(), self.contribution)
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
    wanted, one = _wanted(tree, targets, relative=guarantee is not None)
    if guarantee is None:
        measurement, scale = tree_strategy_for(tree, wanted, NORMS["gaussian"])
        noise_law = DiscreteGaussian(Fraction(scale) ** 2)
        shift = shift_of_cells(measurement.norms(), unit)
        promise = ZCDP(Fraction(shift.l2_squared) / (2 * noise_law.sigma_squared))
        return HierarchyPlan(measurement, noise_law, promise, unit)

    def attempt(family: Family) -> HierarchyPlan:
        measurement, _ = tree_strategy_for(tree, wanted, NORMS[family], unit=one)
        shift = shift_of_cells(measurement.norms(), unit)
        noise_law = calibrate(guarantee, shift, family).law
        return HierarchyPlan(measurement, noise_law, guarantee, unit)

    return best_of_families(guarantee, attempt, cost=lambda plan: plan.joint_law.root)


def _wanted(
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
