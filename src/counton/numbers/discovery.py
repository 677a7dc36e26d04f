"""Which cells a stream has: declared ones (`Declared`), or groups that are found (`Discovery`).

Both answer the same questions, so that nobody asks which of them a stream has.

Where nobody declared the groups, each has a counter of its own, whose noise is there from the first
step on. It is shown from the first release at which its estimate reaches a threshold, and then for
ever. A group to which only one unit belongs is ever shown with probability delta at most, over all
groups of the unit and all releases: that is what has to be added to the guarantee of the counters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInput, field
from counton.privacy import ApproxDP, Contribution, PureDP
from counton.strategies import StreamStrategy, noise_variance

if TYPE_CHECKING:
    from counton.numbers.design import Design

#: Cells that a stream can ever have.
ROOM = 2**31
#: Thresholds are multiples of this many standard deviations.
_GRAIN = Fraction(1, 64)
#: What rounding of logarithms and exponentials could take from a bound, many times over.
_ROUNDING = 1 + 1e-6
#: Sums of this many draws have their exact tail, of more a bound.
_FEW = 64
#: Releases of a stream, at most: each has its share of delta.
_LONGEST_STREAM = 2**24


@dataclass(frozen=True)
class Declared:
    """Cells with names that are public before any row is read: groups, or one total."""

    #: Whether all names are known before rows are read.
    named_beforehand: ClassVar[bool] = True
    #: What a job says of rows of groups that nobody declared, where cells decide it.
    policy: ClassVar[str | None] = None
    #: What is said of rows of other groups, besides their number.
    unnamed: ClassVar[str] = ""

    def counters(self, guarantee: Any) -> PureDP | None:
        """Return the guarantee of the cells alone where it is another than the stream's."""
        return None

    def shape(self, own: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """Return the shape of one step.

        Args:
            own: computes the shape of the declared cells.
        """
        return own()

    def to_dict(self) -> dict[str, Any] | None:
        """Return JSON values; None: the cells are declared."""
        return None

    def how(self, groups: int, said: str) -> str:
        """Say how many groups there are, or when one is shown."""
        return f"{groups:,} {said}"

    def found_in(self, groups: str, by: str | None) -> str:
        """Say which groups there are, in a line of their own."""
        return groups

    def in_words(self, unit: str) -> str | None:
        """Say how groups are found; None: they are declared."""
        return None

    def thresholds(self, terms: Design, steps: range) -> NDArray[np.int64]:
        """Refuse: nothing is hidden.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            f"{terms.name!r} shows all of its groups, which were declared: ask for the number of "
            f"one"
        )


@dataclass(frozen=True)
class Discovery:
    """How groups are found that nobody declared.

    Attributes:
        delta: probability that a group to which only one unit belongs is ever shown.
        margin: thresholds lie this many standard deviations above what one unit can count.
        groups: how many groups one unit can bring.
        change: by how much it can change one group's total.

    >>> from counton.strategies import Binary
    >>> found = Discovery.of(Binary(7), DiscreteLaplace(Fraction(3)), 7, Contribution.add_remove(),
    ...                      Fraction(1, 10**9))
    >>> found.groups, found.change, 14 < float(Fraction(found.margin)) < 16
    (1, 1, True)
    """

    delta: str
    margin: str
    groups: int
    change: int

    named_beforehand: ClassVar[bool] = False
    policy: ClassVar[str | None] = "discover"
    unnamed: ClassVar[str] = " (no label that can be shown)"

    @classmethod
    def of(
        cls,
        strategy: StreamStrategy,
        law: DiscreteLaplace,
        steps: int,
        contribution: Contribution,
        delta: Fraction,
    ) -> Discovery:
        """The least margin for which no more than delta is spent."""
        if law.variance == 0:
            raise InvalidInput(
                f"noise of groups that nobody declared has the scale {float(law.scale):.3g}; above "
                f"{1 / 700:.3g} a threshold can be found: give less epsilon"
            )
        groups = contribution.most or contribution.cells
        once = contribution.once == "group" or contribution.most is None
        change = 1 if once else groups
        counts = draws(strategy, law, steps)
        low, high = 0, 64
        while groups * delta_bound(law, counts, high * _GRAIN) > delta:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            enough = groups * delta_bound(law, counts, middle * _GRAIN) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return cls(str(delta), str(high * _GRAIN), groups, change)

    def counters(self, guarantee: Any) -> PureDP | None:
        """Return what the counters give beside the probability that a group is shown."""
        return counters_of(guarantee)

    def shape(self, own: Callable[[], tuple[int, ...]]) -> tuple[int, ...]:
        """Return the shape of one step: room for all groups that may be found."""
        return (ROOM,)

    def to_dict(self) -> dict[str, Any] | None:
        """Return JSON values."""
        return asdict(self)

    def how(self, groups: int, said: str) -> str:
        """Say when a group is shown."""
        return "each group shown once it is large enough"

    def found_in(self, groups: str, by: str | None) -> str:
        """Say where groups are found, in a line of their own."""
        return f"found in {by}, each shown once it is large enough"

    def in_words(self, unit: str) -> str | None:
        """Say how groups are found."""
        return (
            f"found in the events; a group is shown once its estimate reaches {self.change:,} "
            f"plus {float(Fraction(self.margin)):.2f} standard deviations; a group with only one "
            f"{unit} is ever shown with probability below delta = {float(Fraction(self.delta)):g}"
        )

    def thresholds(self, terms: Design, steps: range) -> NDArray[np.int64]:
        """From what estimate on a group is shown at each of some steps, shape ``(len(steps),)``."""
        assert isinstance(terms.law, DiscreteLaplace)
        variance = noise_variance(terms.strategy, terms.law, steps)
        return np.asarray(self.change + _above(variance, Fraction(self.margin)), np.int64)


def _above(variance: NDArray[np.float64], margin: Fraction) -> NDArray[np.int64]:
    return np.ceil(float(margin) * np.sqrt(variance)).astype(np.int64)


def draws(strategy: StreamStrategy, law: DiscreteLaplace, steps: int) -> Mapping[int, int]:
    """Of how many draws of noise releases are sums, and how many releases are of this many.

    >>> from counton.strategies import Binary
    >>> draws(Binary(7), DiscreteLaplace(Fraction(3)), 7)
    {1: 3, 2: 3, 3: 1}
    """
    if steps > _LONGEST_STREAM:
        raise InvalidInput(
            f"{field('steps', steps)} is beyond {_LONGEST_STREAM:,}, the most for groups that "
            f"nobody declared; give longer windows"
        )
    variance = noise_variance(strategy, law, range(1, steps + 1))
    number, releases = np.unique(np.rint(variance / float(law.variance)), return_counts=True)
    return dict(zip(number.astype(int).tolist(), releases.tolist(), strict=True))


def delta_bound(law: DiscreteLaplace, counts: Mapping[int, int], margin: Fraction) -> float:
    """Bound on the sum over all releases of the probability that noise reaches its margin.

    Exact for sums of few draws. Of more it is Chernoff's bound: P(N >= x) <= exp(-s x) E[exp(s N)]
    for every s > 0, and of a draw of scale b, with q = exp(-1/b), E[exp(s N)] =
    (1-q)^2 / ((1 - q e^s) (1 - q e^-s)) below s = 1/b.

    Args:
        margin: in standard deviations of each release.

    >>> delta_bound(DiscreteLaplace(Fraction(3)), {1: 4, 2: 3}, Fraction(15)) < 1e-7
    True
    """
    from counton.numbers.intervals import laplace_tail

    rate = 1 / float(law.scale)
    s = np.linspace(0, rate, 4098)[1:-1]
    still = 2 * math.log(-math.expm1(-rate))
    moment = still - np.log(-np.expm1(s - rate)) - np.log(-np.expm1(-s - rate))
    total = 0.0
    for number, releases in counts.items():
        variance = np.array([number * float(law.variance)])
        reached = int(_above(variance * (1 - 1e-9), margin)[0])
        tail = math.exp(float(np.min(number * moment - s * reached)))
        if number <= _FEW and reached > 0:
            tail = laplace_tail(law, number)(reached - 1) / 2
        total += releases * min(1.0, tail)
    return total * _ROUNDING


def counters_of(guarantee: Any) -> PureDP:
    """What the counters give where groups are found."""
    if not isinstance(guarantee, ApproxDP):
        raise InvalidInput(
            f"{field('unknown', 'discover')} shows groups with a probability of error, so it needs "
            f"{field('epsilon')} and {field('delta')}; give both, such as {field('delta', '1e-9')}"
        )
    return PureDP(guarantee.epsilon)


def first_shown(values: NDArray[np.int64], thresholds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of the first release that reaches its threshold, for each cell; -1 where none does.

    Args:
        values: shape ``(steps, cells)``.
        thresholds: shape ``(steps,)``.

    >>> first_shown(np.array([[3, 9], [12, 2], [4, 5]]), np.array([9, 10, 10])).tolist()
    [1, 0]
    """
    reached = values >= thresholds[:, None]
    return np.where(reached.any(axis=0), reached.argmax(axis=0), -1)


#: The kinds of cells.
Cells = Declared | Discovery
DECLARED = Declared()


def cells_from_dict(kept: Mapping[str, Any] | None) -> Cells:
    """Inverse of `to_dict`."""
    return DECLARED if kept is None else Discovery(**kept)
