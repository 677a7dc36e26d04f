"""A statistic by group in which groups have guarantees of their own.

The cells of a group are multiplied by a whole number, its weight, before noise of one distribution
is added. Released numbers are divided by the weight. Weights are proportional to the groups'
epsilons, so a group with a fifth of the largest epsilon has five times the noise. Groups with equal
epsilon form a tier. If groups state rhos, weights are proportional to their roots, rounded down.
"""

# Let w_g be the weight of group g, w its largest, e_g = e w_g / w the group's epsilon, and C the
# strategy. A row lies in one group g and changes its cells by d. So it moves the noisy nodes by
# w_g C d, whose 1-norm is at most w_g D if D bounds that of C d. The noise is Laplace of scale
# w D / e or more. The density of noise of scale b that is moved by v changes by a factor of at most
# exp(|v|_1 / b), so the row's loss is at most w_g D e / (w D) = e_g. It is exact for noise on
# integers too, since weights are whole. If rows of one user count in several groups, their moves
# add up: the loss is at most e if the bound D is that of all rows together, and at most e_g if all
# lie in groups whose epsilon is at most e_g.
#
# In zero-concentrated privacy let r_g be the rho of group g, r the largest, D a bound on the 2-norm
# of C d, and w_g at most w sqrt(r_g / r). Gaussian noise has the variance (w D)^2 / (2 r) or more.
# If it is moved by v, it loses |v|_2^2 / (2 variance), for noise on integers too (Canonne, Kamath
# and Steinke 2020, Theorem 14): at most (w_g D)^2 r / (w D)^2 <= r_g. Laplace noise may be chosen
# in its place, of scale b = min(w D / sqrt(2 r), w L / r), with a bound L on the 1-norm of C d. A
# node that is moved by m loses m^2 / (2 b^2), so the first scale loses as Gaussian noise does. The
# second scale loses w_g L / b = r w_g / w, which is more than r_g. It is chosen only if it is less,
# so if r > 2 (L / D)^2; and L >= D, as nodes are integers. So r <= 2 is asked for. If the attacker
# has seen noise, the scale is w L / max(sqrt(2 r), r), which for r <= 2 loses (w_g L / b)^2 / 2 <=
# r_g. Rows of one user add up as above: all of them lie in the cells' bound times w_g.
#
# In (epsilon, delta) privacy let the noise lose (e, delta) if nodes move by any w C d, and t = w_g
# / w <= 1. Then it loses (t e, delta) if they move by t w C d = w_g C d:
#   - The noise has the mass exp(-f(z)) / Z on integers, with a convex f, a sum over nodes: |z| / b
#     or z^2 / (2 variance). If y are the nodes and v their move, the loss is l_t(y) = f(y - t v) -
#     f(y). It is convex in t and 0 at t = 0, so l_t <= t l_1.
#   - delta is the mean of max(0, 1 - exp(t e - l_t)) over the nodes of the data that do not move.
#     If l_t > t e, then x = l_1 - e > 0, and 1 - exp(t e - l_t) <= 1 - exp(-t x) <= 1 - exp(-x). So
#     the mean is at most that of t = 1, which is at most delta. Data that move: v changes its sign.
#   - Attackers choose moves by what they have seen, of which y is all. The bounds above hold for
#     each y. If rows of one user lie in groups of several weights, at most w_g, each node's move is
#     at most that of the weight w_g. Noise of a convex f that moves less is a random function of
#     noise that moves more (the loss is monotone in y, so all its deltas are smaller), by which an
#     attacker may himself turn nodes that moved by w_g into these.
#   - If the strategy is not causal, he has seen values A z of which no unit changes any: A C d = 0.
#     The mass is then the same one on the set of z with these values, which whole multiples of C d
#     move onto itself. That is a proof for a unit in one step. Units in several steps need a
#     strategy that is causal, whose nodes he sees whole.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, Self, cast

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
from counton.privacy import ZCDP, ApproxDP, Contribution, Guarantee, PureDP
from counton.statistics.by_group import Grouped, GroupedReading
from counton.statistics.readings import Cells, Reading
from counton.statistics.report_budget import part_design
from counton.statistics.report_members import norms_of
from counton.statistics.statistic import Card, ErrorScale, Statistic
from counton.strategies import StreamStrategy

#: Largest weight of a group.
_HEAVIEST = 2**20
#: Least weight of a group whose weight is rounded down: its noise is at most 0.1% more for it.
_LIGHTEST = 1_000
#: Largest rho for which any noise that is chosen loses what the groups state: see above.
_LARGEST_RHO = 2


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
        """Return the released cells of the groups with these indices, in data units; all these
        groups have equal losses (epsilon or rho).
        """
        terms, chosen = self.statistic.design_of(places, self.cells.design), list(places)

        def own(values: NDArray[Any]) -> NDArray[Any]:
            return np.asarray(terms.errors.in_data_units(values[chosen].astype(np.float64)))

        return Cells(self.release.part(own, terms), groups=len(places))


class TieredGroups(Grouped):
    """A count or a sum in each of several declared groups that have guarantees of their own.

    The privacy loss of a row is at most the epsilon or rho of the row's group. If the guarantee of
    the stream has a delta, this delta holds for the rows of every group. The epsilon or rho in the
    guarantee of the stream is the largest of all groups.

    Args:
        of: the statistic that is computed in each group; its numbers are its cells.
        groups: names of all possible groups.
        losses: the epsilon or rho of each group, in the order of the groups.
        loss: "epsilon" if the losses are epsilons, "rho" if they are rhos.
        stated: for each group, the name of its tier (groups of one accuracy) or the largest loss
            that it may have, as the table of declared groups has it, if the losses were computed
            from wanted half-widths of intervals. None if the losses were given.

    Raises:
        InvalidInput: see `Grouped`; or a loss is not above 0; or there are not as many losses as
            groups; or no whole numbers up to 2^20 have the ratio of the epsilons; or a rho is above
            2, or less than the largest divided by 2^20.

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
    >>> TieredGroups(Count(), ["France", "Malta"], ["0.9", "0.1"], loss="rho").weights.tolist()
    [3, 1]
    """

    card = Card(reading=TieredReading)

    def __init__(
        self,
        of: Statistic | Mapping[str, Any],
        groups: Sequence[str],
        losses: Sequence[Any],
        loss: Literal["epsilon", "rho"] = "epsilon",
        stated: Sequence[str] | None = None,
    ) -> None:
        super().__init__(of, groups)
        if loss not in ("epsilon", "rho"):
            raise InvalidInput(f"loss is {quote(loss)}; give 'epsilon' or 'rho'")
        if len(losses) != len(self.groups):
            raise InvalidInput(
                f"{len(losses):,} {loss}s are given for {len(self.groups):,} groups; give one "
                f"for each"
            )
        self.loss, self.stated = loss, None if stated is None else [*stated]
        self.losses = list[Fraction]()
        for group, given in zip(self.groups, losses, strict=True):
            exactly = exact(given, f"{loss} of the group {quote(group)}")
            if exactly <= 0:
                raise InvalidInput(
                    f"{loss} of the group {quote(group)} is {given}; it must be above 0"
                )
            self.losses.append(exactly)
        least, most = text(min(self.losses)), text(max(self.losses))
        said = f"epsilons of the groups from {least} to {most}"
        weights = _whole(self.losses, said) if loss == "epsilon" else _weights_of_rhos(self.losses)
        self.weights, self.heaviest = np.array(weights, np.int64), max(weights)
        self._places = {one: list[int]() for one in sorted(self.losses, reverse=True)}
        for place, one in enumerate(self.losses):
            self._places[one].append(place)
        self.tiers = {
            text(loss): [self.groups[place] for place in places]
            for loss, places in self._places.items()
        }

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        said: dict[str, Any] = {} if self.loss == "epsilon" else {"loss": self.loss}
        said |= {} if self.stated is None else {"stated": self.stated}
        return {**super().parameters, "losses": [text(one) for one in self.losses], **said}

    @override
    def with_inner(self, inner: Statistic) -> Self:
        return type(self)(inner, self.groups, self.losses, self.loss, self.stated)

    def times(self, factor: Fraction) -> Self:
        """Return this statistic with all losses multiplied by a number."""
        losses = [one * factor for one in self.losses]
        if self.loss == "rho" and max(losses) > _LARGEST_RHO:
            raise InvalidInput(
                f"{field('within')} cannot be reached: with tiers the largest rho of a group is at "
                f"most {_LARGEST_RHO}; allow a larger half-width, or leave {field('least')} out"
            )
        return type(self)(self.inner, self.groups, losses, self.loss, self.stated)

    def refuse_above_stated(self) -> None:
        """Raise an error if a group's loss is above the largest that the table of groups allows."""
        above = {
            name: loss
            for name, loss in self._places_of_tiers
            if (most := stated_number(name)) is not None and loss > most
        }
        if above:
            needs = ", ".join(f"{text(loss)} in place of {name}" for name, loss in above.items())
            raise InvalidInput(
                f"{field('within')} needs more {self.loss} than the table of groups allows: {needs}"
                f"; write these numbers into the table, or allow a larger half-width"
            )

    @property
    def labels(self) -> dict[str, str]:
        """For each tier (groups with one guarantee), by its name, the label that a plan shows.

        >>> from counton.statistics import Count
        >>> TieredGroups(Count(), ["a", "b"], [3, 1], stated=["big", "small"]).labels
        {'big': 'big: epsilon = 3', 'small': 'small: epsilon = 1'}
        """
        return {name: self._label(name, loss) for name, loss in self._places_of_tiers}

    def _label(self, name: str, loss: Fraction) -> str:
        said = f"{self.loss} = {figures(float(loss))}"
        return said if not name or stated_number(name) is not None else f"{name}: {said}"

    @property
    def _places_of_tiers(self) -> dict[tuple[str, Fraction], int]:
        """For each tier (groups with one guarantee), the index of one of its groups.

        Keys are pairs of the tier's name (or "") and its epsilon or rho, the largest first.
        """
        order = sorted(range(len(self.groups)), key=self.losses.__getitem__, reverse=True)
        return {
            ("" if self.stated is None else self.stated[at], self.losses[at]): at for at in order
        }

    @property
    @override
    def error_of(self) -> ErrorScale:
        of = f"a number of a group with the largest {self.loss}"
        return ErrorScale(of, 1 / self.heaviest, 1 / self.heaviest)

    @override
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """Return the bound on how much one row of the group with the largest weight changes the
        weighted cells.

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
        largest, kinds = max(self.losses), ZCDP if self.loss == "rho" else (PureDP, ApproxDP)
        if not isinstance(guarantee, kinds) or getattr(guarantee, self.loss) != largest:
            raise InvalidInput(
                f"the stream promises {guarantee}, and the largest {self.loss} of a group is "
                f"{text(largest)}: give {field(self.loss, text(largest))}"
            )
        return self.with_inner(self.inner.settle(guarantee, horizon))

    def check_noise(
        self, strategy: StreamStrategy, guarantee: Guarantee, contribution: Contribution
    ) -> None:
        """Raise an error unless it is proven that each group loses at most its own epsilon.

        All code that begins a stream must call it first. The proof is missing only if three things
        come together: an (epsilon, delta) guarantee, a strategy that is not causal, and units that
        may change several steps.
        """
        proven = strategy.facts.causal or contribution.in_one_step
        if isinstance(guarantee, ApproxDP) and not proven:
            raise InvalidInput(
                f"{field('delta', text(guarantee.delta))} does not go with groups that have an "
                f"epsilon of their own where a unit has rows in several steps and the strategy is "
                f"{strategy!r}, since what such groups lose is proven only for strategies that are "
                f"causal: give {field('strategy', 'smooth')} or {field('strategy', 'binary')}, or "
                f"leave {field('delta')} out"
            )

    @override
    def allows(self, other: Statistic) -> bool:
        own = self.loss, self.losses, self.stated
        return (
            super().allows(other)
            and isinstance(other, TieredGroups)
            and (other.loss, other.losses, other.stated) == own
        )

    @override
    def weigh(self, cells: Integers) -> Integers:
        largest = int(np.abs(cells).max(initial=0))
        refuse_overflow(
            largest,
            LARGEST_SUM // self.heaviest,
            lambda: (
                f"the sums of a group come to {largest:,} times the resolution, and with groups of "
                f"several {self.loss}s they are exact up to {LARGEST_SUM // self.heaviest:,}: take "
                f"shorter steps, or {self.loss}s with fewer digits"
            ),
        )
        return cells * self.weights

    @override
    def designs_of(self, terms: Design) -> Mapping[str, Design]:
        return {
            self._label(name, loss): self.design_of([place], terms, self.inner.cells)
            for (name, loss), place in self._places_of_tiers.items()
        }

    def design_of(
        self, places: Sequence[int], terms: Design, shape: tuple[int, ...] | None = None
    ) -> Design:
        """Return the design (public parameters of a stream) of some groups with equal losses
        (epsilon or rho).

        Args:
            places: indices of these groups among all groups.
            terms: design of the stream.
            shape: shape of the cells of one step; None: one cell for each group.
        """
        shape = (len(places),) if shape is None else shape
        weight = int(self.weights[places[0]])
        inner: Any = self.inner
        return part_design(terms, inner, weight, shape, places)


def losses_within(
    stated: Sequence[str],
    within: Mapping[str, float] | None,
    loss: Literal["epsilon", "rho"],
) -> Sequence[Fraction | str]:
    """Return the privacy loss (epsilon or rho) of each group, up to a common factor, from wanted
    half-widths.

    A tier is a named set of groups with equal losses. Losses of tiers have the ratios that give the
    wanted half-widths; `TieredGroups.times` later multiplies them by the factor that reaches the
    half-widths. Losses that are stated as numbers are returned unchanged.

    Args:
        stated: for each group the name of its tier, or the largest loss that the group may have.
        within: the half-width of each tier by its name. If losses are stated as numbers: None, or
            one half-width with the name "" for the groups with the least loss, since all others
            have less noise.
        loss: "epsilon" or "rho".

    Raises:
        InvalidInput: the names of half-widths are not the names of the tiers; or names are mixed
            with losses; or no whole numbers up to 2^20 have the ratio of the half-widths.

    >>> losses_within(["big", "small"], {"big": 10, "small": 30}, "epsilon")
    [Fraction(3, 10), Fraction(1, 10)]
    >>> losses_within(["1.1", "0.2"], {"": 30}, "epsilon")
    ['1.1', '0.2']
    """
    names, numbers = (
        [name for name in dict.fromkeys(stated) if (stated_number(name) is None) == named]
        for named in (True, False)
    )
    if numbers and (within is None or (not names and [*within] == [""])):
        return stated
    if numbers and names:
        raise InvalidInput(
            f"the table of groups has the {loss} {numbers[0]} and the tier {quote(names[0])} in "
            f"one column; write only numbers, or only names of tiers"
        )
    within = within or {}
    told = f"{field('within', _pairs(within))} does not state one half-width for " if within else ""
    if numbers:
        raise InvalidInput(
            f"{told}all groups, and the column of tiers has no names but numbers, the largest "
            f"{loss} of each group; give a single half-width, for the groups with the least "
            f"{loss}, or write names of tiers into the column"
        )
    if {*within} != {*names}:
        asked = _pairs({name: within.get(name, within.get("", 20)) for name in names[:4]})
        raise InvalidInput(
            f"{told and f'{told}each tier: '}the tiers are {', '.join(names[:9])}; give "
            f"{field('within', asked)}{' and so on' if len(names) > 4 else ''}, or write the "
            f"{loss} of each group in their place"
        )
    widths = {name: exact(width, "within") for name, width in within.items()}
    least, most = (figures(float(of(widths.values()))) for of in (min, max))
    said = f"half-widths of the tiers from {least} to {most}"
    weights = _whole([1 / widths[name] for name in stated], said)
    ratios = weights if loss == "epsilon" else [one**2 for one in weights]
    return [Fraction(one, 10 ** len(str(max(ratios)))) for one in ratios]


def _pairs(within: Mapping[str, float]) -> str:
    return ",".join(f"{name}={width:g}".removeprefix("=") for name, width in within.items())


def stated_number(stated: str) -> Fraction | None:
    """Parse a group's entry in the column of tiers; None if the entry is the name of a tier.

    An entry that is a number is the largest epsilon or rho that the group may have.

    >>> stated_number("0.2"), stated_number("small")
    (Fraction(1, 5), None)
    """
    try:
        return exact(stated, "")
    except InvalidInput:
        return None


def _whole(numbers: Sequence[Fraction], said: str) -> list[int]:
    """Return the least whole numbers that have the same ratios as ``numbers``.

    ``said`` describes the numbers in the error message.
    """
    unit = Fraction(
        math.gcd(*(one.numerator for one in numbers)),
        math.lcm(*(one.denominator for one in numbers)),
    )
    weights = [int(one / unit) for one in numbers]
    if max(weights) > _HEAVIEST:
        raise InvalidInput(
            f"{said} are in the ratio of whole numbers up to {max(weights):,}, and at most "
            f"{_HEAVIEST:,} is exact: give numbers with fewer digits"
        )
    return weights


def _weights_of_rhos(rhos: Sequence[Fraction]) -> list[int]:
    """Return a weight for each group: whole numbers proportional to the square roots of the rhos.

    They are exactly proportional if the roots of all ratios of rhos are fractions. Otherwise each
    is rounded down, so that a group loses at most its rho.
    """
    largest, least = max(rhos), min(rhos)
    if largest > _LARGEST_RHO:
        raise InvalidInput(
            f"the largest rho of a group is {text(largest)}; with tiers it is at most "
            f"{_LARGEST_RHO}: give less, or leave the tiers out"
        )
    if least * _HEAVIEST < largest:
        raise InvalidInput(
            f"rhos of the groups go from {text(least)} to {text(largest)}, and the largest may be "
            f"at most {_HEAVIEST:,} times the least: raise the least, or lower the largest"
        )
    squares = [one / largest for one in rhos]
    heaviest = math.lcm(*(math.isqrt(one.denominator) for one in squares))
    parts = [part for one in squares for part in (one.numerator, one.denominator)]
    if heaviest > _HEAVIEST or any(math.isqrt(part) ** 2 != part for part in parts):
        heaviest = _LIGHTEST * (math.isqrt(math.ceil(largest / least)) + 1)
    return [math.isqrt(math.floor(one * heaviest**2)) for one in squares]
