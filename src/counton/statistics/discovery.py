"""The cells of a stream: declared groups (`Declared`), or groups found in the data (`Discovery`).

An undeclared group has its own counter, with noise from the first step on. A
group is shown from the first release on in which its noisy count reaches a threshold. A group with
rows of one unit only is shown with probability at most delta, summed over all groups of the unit
and over all releases. This delta is added to the guarantee of the counters.

If rows arrive late, a release has a count for each of the last windows: the versions. A group is
shown from the first release on in which one of these counts reaches the threshold of its version.
Then all versions in this release and in later ones are published. Nothing of earlier releases is
published.

Privacy. Compare a dataset without a unit to the dataset with it. A group has a counter from its
first counted row on, and no earlier release depends on it.

- Groups without any row if the unit is removed, or without a row up to some release. With the unit,
  such a release may depend on the group. Its count is then noise plus at most `change`, in any
  window, so it reaches its threshold with at most the probability that noise reaches the margin.
  The sum over all releases, all their versions, and the at most `groups` groups of the unit is at
  most delta.
- All other groups. They are shown by the same rule on the same numbers, which are those of counters
  that exist for every possible label from the first step on. Their guarantee, epsilon, covers all
  counts of a group, also those that are not published.

Windows share no noise, but a group has counters for all windows as soon as it has one row: noise
alone may show it in any later window. So delta is divided among all versions of all windows.

If values are added up or averaged, a group has several cells (`counton.statistics.average`: how far
values lie above the lower bound, and how far below the upper one). Each row raises the sum of these
cells by the same number, the width of the bounds, whatever its value. So this sum, and not a sum of
values, is compared with the threshold: a group is found by its number of rows alone. The noise of
the sum is that of all its cells, and epsilon covers each of them, so that both points above hold as
they stand. The numbers of values need no noise, and no share of the budget, of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats
from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError, param
from counton.privacy import ApproxDP, ContributionBound, PureDP
from counton.privacy.unit_changes import (
    BoundedEvents,
    EventsInDifferentCells,
    PatternOverSteps,
)
from counton.strategies import StreamStrategy, noise_variance

if TYPE_CHECKING:
    from counton.continual.design import Design

#: Largest number of cells of a stream.
MOST_CELLS = 2**31
#: Thresholds are multiples of this many standard deviations.
_THRESHOLD_UNIT = Fraction(1, 64)
#: Factor that covers the rounding of logarithms and exponentials many times over.
_ROUNDING = 1 + 1e-6
#: Largest number of draws whose sum has its exact tail; for more draws a bound is used.
_MOST_EXACT_DRAWS = 64
#: Largest number of released counts of one group in a stream; each gets its share of delta.
_MOST_RELEASED_COUNTS = 2**24
#: A threshold that no count reaches.
_UNREACHABLE_THRESHOLD = 2**63 - 1


class ComparedCells(NamedTuple):
    """The cells of a group whose sum decides whether the group is shown.

    Attributes:
        n_cells: number of cells of a group.
        row: how much every row adds to their sum.

    >>> ComparedCells(2, 60).of_groups(np.array([[20, 40, 60, 0]])).tolist()
    [[60, 60]]
    """

    n_cells: int = 1
    row: int = 1

    def of_groups(self, values: IntegersOrFloats) -> IntegersOrFloats:
        """Return each group's sum; ``values`` has the shape ``(steps, groups * n_cells, ...)``."""
        steps, _, *versions = values.shape
        return np.asarray(values.reshape(steps, -1, self.n_cells, *versions).sum(axis=2))


#: A group of one cell, which counts its rows.
ONE_CELL = ComparedCells()


@dataclass(frozen=True)
class Declared:
    """Cells whose names are public before any data is read: groups, or one total."""

    #: True if all names of cells are known before data is read.
    named_beforehand: ClassVar[bool] = True
    #: How a job treats rows of undeclared groups; None: an option of the job decides it.
    policy: ClassVar[str | None] = None
    #: Words that follow the number of rows in no group.
    unnamed: ClassVar[str] = ""
    #: The cells of a group that are found with it.
    compared: ClassVar[ComparedCells] = ONE_CELL

    def noise_guarantee(self, guarantee: object) -> PureDP | None:
        """Return None: no delta is spent on finding groups."""
        return None

    def to_dict(self) -> dict[str, Any] | None:
        """Return None: there is no rule to save."""
        return None

    def how(self, groups: int, plural: str) -> str:
        """Return the number of groups in words, such as "12 pages"."""
        return f"{groups:,} {plural}"

    def chance(self, design: Design) -> float | None:
        """Return None: there is no probability to bound."""
        return None

    def in_words(self, unit: str) -> str | None:
        """Return None."""
        return None

    def sizes(self, design: Design) -> tuple[int, int] | None:
        """Return None: there is no threshold."""
        return None

    def thresholds(self, design: Design, steps: range) -> NDArray[np.int64]:
        """Fail, because only groups that are found in rows have thresholds."""
        raise AssertionError("declared groups have no thresholds")


@dataclass(frozen=True)
class Discovery:
    """Groups that nobody declared: each is shown once its released count reaches a threshold.

    The threshold is ``change`` plus ``margin`` standard deviations of the noise.

    Attributes:
        delta: largest probability that any group with rows of one unit only is ever shown, as text.
        margin: number of standard deviations, as text.
        groups: largest number of groups in which one unit counts.
        change: largest number of rows of one unit in one group.
        compared: the cells of a group whose sum is compared with the threshold.

    >>> from counton.strategies import Binary
    >>> bound = ContributionBound.add_remove()
    >>> found = Discovery.with_least_thresholds(Binary(7), DiscreteLaplace(Fraction(3)), 7, bound,
    ...                      Fraction(1, 10**9))
    >>> found.groups, found.change, 14 < float(Fraction(found.margin)) < 16
    (1, 1, True)
    """

    delta: str
    margin: str
    groups: int
    change: int
    compared: ComparedCells = ONE_CELL

    named_beforehand: ClassVar[bool] = False
    policy: ClassVar[str | None] = "discover"
    unnamed: ClassVar[str] = " (no label that can be shown)"

    @classmethod
    def with_least_thresholds(
        cls,
        strategy: StreamStrategy,
        distribution: DiscreteLaplace,
        steps: int,
        contribution: ContributionBound,
        delta: Fraction,
        *,
        rows: int = 1,
        compared: ComparedCells = ONE_CELL,
    ) -> Discovery:
        """Return the rule with the smallest thresholds under which a group with rows of one unit
        only is shown with probability at most ``delta``, for all its groups, ``steps`` and windows
        together.

        Args:
            strategy, distribution: the noise over time, and of a node.
            rows: largest number of rows of one unit; it matters if ``contribution`` is a pattern of
                changes (`ContributionBound.of_pattern`).
            compared: the cells of a group that are compared.
        """
        if distribution.variance == 0:
            raise InvalidInputError(
                f"noise that finds groups has the scale {float(distribution.scale):.3g}; it must "
                f"be above {1 / 700:.3g} to hide which group a unit is in: give a smaller epsilon"
            )
        groups, change = _groups_of_unit(contribution, rows)
        counts = draws(strategy, distribution, steps, compared.n_cells)
        low = 0
        high = 64
        while groups * delta_bound(distribution, counts, high * _THRESHOLD_UNIT) > delta:
            low = high
            high = 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            enough = groups * delta_bound(distribution, counts, middle * _THRESHOLD_UNIT) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return cls(str(delta), str(high * _THRESHOLD_UNIT), groups, change, compared)

    def noise_guarantee(self, guarantee: object) -> PureDP | None:
        """Return the guarantee of the noisy counts alone, without the delta of showing groups."""
        return noise_guarantee_of(guarantee)

    def to_dict(self) -> dict[str, Any] | None:
        """Return the rule as JSON values, from which `cells_from_dict` rebuilds it."""
        saved = asdict(self)
        if self.compared == ONE_CELL:
            del saved["compared"]
        else:
            saved["compared"] = list(self.compared)
        return saved

    def how(self, groups: int, plural: str) -> str:
        """Return words that say when a group is shown; they state no number of groups."""
        return "each group shown once it is large enough"

    def in_words(self, unit: str) -> str | None:
        """Describe the threshold, and the delta for groups with rows of one ``unit`` only."""
        number = "estimate" if self.compared.n_cells == 1 else "estimated number of rows"
        return (
            f"found in the events; a group is shown once its {number} reaches {self.change:,} "
            f"plus {float(Fraction(self.margin)):.2f} standard deviations; a group with only one "
            f"{unit} is ever shown with probability below delta = {float(Fraction(self.delta)):g}"
        )

    def sizes(self, design: Design) -> tuple[int, int] | None:
        """Return the lowest and highest number of rows at which a group is shown."""
        last = design.strategy.horizon or 1
        versions = design.strategy.facts.versions
        thresholds = self.thresholds(design, range(1 if versions == 1 else last, last + 1))
        thresholds = thresholds[thresholds < _UNREACHABLE_THRESHOLD]
        lowest, highest = (
            -(-int(threshold) // self.compared.row)
            for threshold in (thresholds.min(), thresholds.max())
        )
        return lowest, highest

    def chance(self, design: Design) -> float:
        """Bound the probability that any release ever shows a group with rows of one unit only.

        The bound is computed from the `thresholds` of all releases, not from the margin.
        """
        # The unit raises a group's sum by change * row at most, so noise must reach the rest.
        assert isinstance(design.distribution, DiscreteLaplace)
        last = design.strategy.horizon or 1
        n_cells, row = self.compared
        variance = compared_variance(design.strategy, design.distribution, range(1, last + 1))
        number = n_cells * np.rint(variance / float(design.distribution.variance)).astype(np.int64)
        rest = self.thresholds(design, range(1, last + 1)) - self.change * row
        tail = _tail_of(design.distribution)
        total = 0.0
        pairs, releases = np.unique(
            np.stack([number.ravel(), rest.ravel()]), axis=1, return_counts=True
        )
        for (draws_in_one, reached), times in zip(pairs.T.tolist(), releases.tolist(), strict=True):
            if reached < _UNREACHABLE_THRESHOLD // 2:
                total += times * tail(draws_in_one, reached)
        return self.groups * total * _ROUNDING

    def thresholds(self, design: Design, steps: range) -> NDArray[np.int64]:
        """Return the least sum of a group's cells that shows it: int64, ``(len(steps),)``.

        If each step releases several windows, the shape is ``(len(steps), versions)``; for windows
        before the first, no count reaches the threshold.
        """
        assert isinstance(design.distribution, DiscreteLaplace)
        versions = design.strategy.facts.versions
        n_cells, row = self.compared
        variance = n_cells * compared_variance(design.strategy, design.distribution, steps)
        thresholds = np.asarray(
            self.change * row + _above(variance, Fraction(self.margin)), np.int64
        )
        if versions > 1:
            thresholds[np.asarray(steps)[:, None] <= np.arange(versions)] = _UNREACHABLE_THRESHOLD
        return thresholds


def _above(variance: NDArray[np.float64], margin: Fraction) -> NDArray[np.int64]:
    return np.ceil(float(margin) * np.sqrt(variance)).astype(np.int64)


def sums_draws(strategy: StreamStrategy) -> bool:
    """Return True if every release's noise is a sum of draws, so that thresholds can be computed.

    >>> from counton.strategies import Binary, SqrtToeplitz
    >>> sums_draws(Binary(7)), sums_draws(SqrtToeplitz(7))
    (True, False)
    """
    return strategy.facts.fraction_bits == strategy.facts.lattice_bits == 0


def compared_variance(
    strategy: StreamStrategy, distribution: DiscreteLaplace, steps: range
) -> NDArray[np.float64]:
    """Return the noise variance of one cell at each step.

    Returns:
        Shape ``(len(steps),)``, or ``(len(steps), versions)`` for versions of several windows.

    >>> from counton.strategies import WindowVersions, Binary
    >>> noise = DiscreteLaplace(Fraction(3))
    >>> draws = compared_variance(WindowVersions(9, Binary(3)), noise, range(1, 5)) / noise.variance
    >>> draws.shape, draws[0].round().tolist()
    ((4, 3), [1.0, 1.0, 2.0])
    """
    versions = strategy.facts.versions
    if versions == 1:
        return noise_variance(strategy, distribution, steps)
    windows: Any = strategy
    return np.tile(
        noise_variance(windows.inner, distribution, range(1, versions + 1)), (len(steps), 1)
    )


def draws(
    strategy: StreamStrategy, distribution: DiscreteLaplace, steps: int, n_cells: int = 1
) -> Mapping[int, int]:
    """Return how many released counts of a group have noise of n draws, by n.

    A count is the sum of ``n_cells`` cells. Each version of a window's count is one of its own.

    >>> from counton.strategies import Binary, WindowVersions
    >>> draws(Binary(7), DiscreteLaplace(Fraction(3)), 7)
    {1: 3, 2: 3, 3: 1}
    >>> draws(WindowVersions(100, Binary(3)), DiscreteLaplace(Fraction(3)), 100)
    {1: 200, 2: 100}
    """
    versions = strategy.facts.versions
    if steps * versions > _MOST_RELEASED_COUNTS:
        version_note = "" if versions == 1 else f", each with {versions:,} versions of a window,"
        raise InvalidInputError(
            f"{param('windows', steps)}{version_note} is too large; streams that find their groups "
            f"have at most {_MOST_RELEASED_COUNTS // versions:,}: give longer windows, or fewer"
        )
    alike = steps if versions > 1 else 1  # all releases compare the same versions
    variance = compared_variance(strategy, distribution, range(1, steps // alike + 1))
    number, releases = np.unique(
        np.rint(variance / float(distribution.variance)), return_counts=True
    )
    releases = releases * alike
    number = n_cells * number.astype(int)
    return dict(zip(number.tolist(), releases.tolist(), strict=True))


def delta_bound(
    distribution: DiscreteLaplace, counts: Mapping[int, int], margin: Fraction
) -> float:
    """Bound the probability that the noise of any released count of a group reaches the margin
    (union bound).

    ``counts`` is the result of `draws`; the margin is in standard deviations of each count's noise.

    >>> delta_bound(DiscreteLaplace(Fraction(3)), {1: 4, 2: 3}, Fraction(15)) < 1e-7
    True
    """
    tail = _tail_of(distribution)
    total = 0.0
    for number, releases in counts.items():
        variance = np.array([number * float(distribution.variance)])
        reached = int(_above(variance * (1 - 1e-9), margin)[0])
        total += releases * tail(number, reached)
    return total * _ROUNDING


def _tail_of(distribution: DiscreteLaplace) -> Callable[[int, int], float]:
    """Return the function (n, x) -> a bound on P(N >= x), where N is a sum of n draws."""
    # Sums of few draws are exact. Others use Chernoff's bound: P(N >= x) <= exp(-s x) E[exp(s N)]
    # for every s > 0. For a draw of scale b, with q = exp(-1/b), E[exp(s N)] = (1-q)^2 / ((1 - q
    # e^s) (1 - q e^-s)) below s = 1/b.
    from counton.continual.tails import laplace_tail

    rate = 1 / float(distribution.scale)
    s = np.linspace(0, rate, 4098)[1:-1]
    still = 2 * math.log(-math.expm1(-rate))
    moment = still - np.log(-np.expm1(s - rate)) - np.log(-np.expm1(-s - rate))

    def tail(number: int, reached: int) -> float:
        probability = math.exp(min(0.0, float(np.min(number * moment - s * reached))))
        if number <= _MOST_EXACT_DRAWS and reached > 0:
            probability = laplace_tail(distribution, number)(reached - 1) / 2
        return probability

    return tail


def _groups_of_unit(contribution: ContributionBound, rows: int) -> tuple[int, int]:
    """Return in how many groups one unit counts at most, and by how many rows in one of them.

    Args:
        contribution: the change by one unit.
        rows: largest number of rows of one unit.
    """
    occurrences = contribution.occurrences
    if isinstance(occurrences, EventsInDifferentCells):
        return occurrences.most, 1
    if isinstance(occurrences, BoundedEvents):
        return occurrences.most, occurrences.most
    groups = max(occurrences.cells, rows)
    return groups, groups if isinstance(occurrences, PatternOverSteps) else 1


def noise_guarantee_of(guarantee: object) -> PureDP:
    """Return the guarantee of the noisy counts alone: `PureDP` with the epsilon of the stream's.
    Showing a group spends the delta.
    """
    assert isinstance(guarantee, ApproxDP)  # jobs of found groups need epsilon and delta
    return PureDP(guarantee.epsilon)


def first_shown(values: IntegersOrFloats, thresholds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each cell the first release whose count reaches the threshold; -1 if none does.

    Args:
        values: shape ``(steps, cells)``, or ``(steps, cells, versions)``: one of the versions is
            then enough.
        thresholds: shape ``(steps,)``, or ``(steps, versions)``.

    >>> first_shown(np.array([[3, 9], [12, 2], [4, 5]]), np.array([9, 10, 10])).tolist()
    [1, 0]
    """
    reached: NDArray[np.bool_] = values >= thresholds[:, None]
    if reached.ndim > 2:
        reached = np.asarray(reached.any(axis=-1))
    return np.where(reached.any(axis=0), reached.argmax(axis=0), -1)


#: The kinds of cells.
Cells = Declared | Discovery
DECLARED = Declared()


def cells_from_dict(kept: Mapping[str, Any] | None) -> Cells:
    """Rebuild the result of `to_dict`."""
    if kept is None:
        return DECLARED
    return Discovery(**{**kept, "compared": ComparedCells(*kept.get("compared", ()))})
