"""A statistic by group in which groups have guarantees of their own.

The cells of a group are multiplied by a whole number, its weight, before noise of one distribution
is added. Released numbers are divided by the weight. Weights are proportional to the groups'
epsilons, so a group with a fifth of the largest epsilon has five times the noise. Groups with equal
epsilon form a tier.
"""

# Let w_g be the weight of group g, w its largest, e_g = e w_g / w the group's epsilon, and C the
# strategy. A row lies in one group g and changes its cells by d. So it moves the noisy nodes by
# w_g C d, whose 1-norm is at most w_g D if D bounds that of C d. The noise is Laplace of scale
# w D / e or more. The density of noise of scale b that is moved by v changes by a factor of at most
# exp(|v|_1 / b), so the row's loss is at most w_g D e / (w D) = e_g. It is exact for noise on
# integers too, since weights are whole. If rows of one user count in several groups, their moves
# add up: the loss is at most e if the bound D is that of all rows together, and at most e_g if all
# lie in groups whose epsilon is at most e_g.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInput, field
from counton.base.exact import exact, figures, quote, text
from counton.base.exact_sums import refuse_overflow
from counton.numbers.design import LARGEST_SUM, Design
from counton.numbers.fit_request import EVERY_ROW, TableRequest
from counton.numbers.formulas import TableNumbers
from counton.privacy import Contribution, Guarantee, PureDP
from counton.statistics.by_group import Grouped, GroupedReading
from counton.statistics.readings import Cells, Reading
from counton.statistics.report_budget import PartDesign
from counton.statistics.report_members import norms_of
from counton.statistics.statistic import Card, ErrorScale, Statistic

#: Largest weight of a group.
_HEAVIEST = 2**20


@dataclass(frozen=True, kw_only=True)
class TierDesign(PartDesign):
    """The design of groups with equal epsilon; their cells are in data units, without the weight.

    Attributes:
        groups: indices of these groups among all groups, ascending.
    """

    groups: tuple[int, ...] = ()

    @override
    def stream_cell(self, cell: int) -> int:
        group, own = divmod(cell, len(self.place))
        return self.groups[group] * len(self.place) + own


class TieredReading(GroupedReading):
    """The released numbers of a statistic in groups with guarantees of their own."""

    statistic: TieredGroups

    @override
    def of(self, group: str) -> Reading:
        found = self._of_groups((self.statistic.group(group),))
        return self._inner(Cells(found.release.part(lambda values: values[0], found.design)))

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        this, parts, order = self.statistic, [], list[int]()
        for places in this._places.values():
            parts.append(self._inner(self._of_groups(places)).numbers(request))
            order += places
        found = TableNumbers.below(parts, {"group": np.array(this.groups)[order]})
        asked = this.groups if request.groups is None else request.groups
        row = {place: row for row, place in enumerate(order)}
        return found.rows(np.array([row[this.group(one)] for one in asked], np.int64))

    def _inner(self, cells: Cells) -> Reading:
        return Reading(self.statistic.inner, cells)

    def _of_groups(self, places: Sequence[int]) -> Cells:
        """Return the released cells of the groups with these indices, which have equal epsilon, in
        data units.
        """
        terms, chosen = self.statistic.design_of(places, self.cells.design), list(places)

        def own(values: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(terms.in_data_units(values[chosen].astype(np.float64)))

        return Cells(self.release.part(own, terms), groups=len(places))


class TieredGroups(Grouped):
    """A count or a sum in each of several declared groups that have guarantees of their own.

    The privacy loss of a row is at most its group's epsilon. The guarantee of the stream has the
    largest of them.

    Args:
        of: the statistic, whose numbers are its cells.
        groups: names of all possible groups.
        losses: the epsilon of each group, in the order of the groups.

    Raises:
        InvalidInput: see `Grouped`; or an epsilon is not above 0; or the number of epsilons is not
            that of the groups; or no whole numbers up to 2^20 have their ratio.

    >>> from counton import Key, PureDP, Running
    >>> from counton.statistics import Count
    >>> visits = TieredGroups(Count(), ["France", "Malta"], ["1.1", "0.2"])
    >>> visits.weights.tolist()
    [11, 2]
    >>> key = Key.generate()
    >>> counter = Running.start(visits, 1, PureDP("1.1"), key=key, name="visits", batched=True)
    >>> reading = counter.release_batch([("France", 1), ("Malta", 1)])
    >>> round(reading.of("Malta").std() / reading.of("France").std(), 9)
    5.5
    """

    card = Card(reading=TieredReading)

    def __init__(
        self,
        of: Statistic | Mapping[str, Any],
        groups: Sequence[str],
        losses: Sequence[Any],
    ) -> None:
        super().__init__(of, groups)
        if len(losses) != len(self.groups):
            raise InvalidInput(
                f"{len(losses):,} epsilons are given for {len(self.groups):,} groups; give one "
                f"for each"
            )
        self.losses = [_loss(name, one) for name, one in zip(self.groups, losses, strict=True)]
        unit = Fraction(
            math.gcd(*(one.numerator for one in self.losses)),
            math.lcm(*(one.denominator for one in self.losses)),
        )
        weights = [int(one / unit) for one in self.losses]
        if max(weights) > _HEAVIEST:
            raise InvalidInput(
                f"epsilons of the groups from {text(min(self.losses))} to "
                f"{text(max(self.losses))} are in the ratio of whole numbers up to "
                f"{max(weights):,}, and at most {_HEAVIEST:,} is exact: give numbers with fewer "
                f"digits"
            )
        self.weights, self.heaviest = np.array(weights, np.int64), max(weights)
        self._places = {one: list[int]() for one in sorted(self.losses, reverse=True)}
        for place, loss in enumerate(self.losses):
            self._places[loss].append(place)
        self.tiers = {
            text(loss): [self.groups[place] for place in places]
            for loss, places in self._places.items()
        }

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "losses": [text(one) for one in self.losses]}

    @override
    def with_inner(self, inner: Statistic) -> Self:
        return type(self)(inner, self.groups, self.losses)

    @property
    @override
    def error_of(self) -> ErrorScale:
        of = "a number of a group with the largest epsilon"
        return ErrorScale(of, 1 / self.heaviest, 1 / self.heaviest)

    @override
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """Return the bound on how much one row changes the weighted cells, in the group with the
        largest weight.

        The comment at the beginning of this file proves that rows of other groups lose less.
        """
        row = super().contribution(batched=batched, horizon=horizon)
        l1, l2_squared = norms_of(cast("Any", self.inner))
        return Contribution.of_pattern(
            BoundedChange(l1, l2_squared, once=True).scaled_by(self.heaviest),
            "which counts in one group",
            unit=row.unit,
        )

    @override
    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        largest = max(self.losses)
        if not isinstance(guarantee, PureDP) or guarantee.epsilon != largest:
            raise InvalidInput(
                f"the stream promises {guarantee}, and the largest epsilon of a group is "
                f"{text(largest)}: give {field('epsilon', text(largest))} alone"
            )
        return self.with_inner(self.inner.settle(guarantee, horizon))

    @override
    def allows(self, other: Statistic) -> bool:
        return super().allows(other) and getattr(other, "losses", None) == self.losses

    @override
    def weigh(self, cells: Integers) -> Integers:
        largest = int(np.abs(cells).max(initial=0))
        refuse_overflow(
            largest,
            LARGEST_SUM // self.heaviest,
            lambda: (
                f"the sums of a group come to {largest:,} times the resolution, and with groups of "
                f"several epsilons they are exact up to {LARGEST_SUM // self.heaviest:,}: take "
                f"shorter steps, or epsilons with fewer digits"
            ),
        )
        return cells * self.weights

    @override
    def designs_of(self, terms: Design) -> Mapping[str, Design]:
        return {
            f"epsilon = {figures(float(loss))}": self.design_of(places[:1], terms, self.inner.cells)
            for loss, places in self._places.items()
        }

    def design_of(
        self, places: Sequence[int], terms: Design, shape: tuple[int, ...] | None = None
    ) -> TierDesign:
        """Return the design of groups with equal epsilon.

        Args:
            places: indices of the groups among all groups.
            terms: design of the stream.
            shape: shape of the cells of one step; None: one cell for each group.
        """
        shape = (len(places),) if shape is None else shape
        weight = int(self.weights[places[0]])
        inner: Any = self.inner
        part = TierDesign.of(terms, inner, weight, shape, range(1))
        return replace(part, groups=tuple(places))


def _loss(group: str, given: object) -> Fraction:
    """Check a group's epsilon, and return it as an exact number above 0."""
    loss = exact(cast("Any", given), f"epsilon of the group {quote(group)}")
    if loss <= 0:
        raise InvalidInput(f"epsilon of the group {quote(group)} is {given}; it must be above 0")
    return loss
