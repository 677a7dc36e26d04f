"""Statistics for which the order of events does not matter: each row changes cells by itself.

A row is encoded as one integer; its changes follow from this integer by arithmetic. So rows can be
added up by window in any order, on any number of machines. Late rows and rows of new files are
added like all others, and of two equal rows it does not matter which one counts.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInput, field
from counton.base.exact_sums import refuse_overflow
from counton.numbers.design import Design
from counton.statistics.statistic import Events, Exact, Statistic
from counton.strategies import StreamStrategy, noise_variance
from counton.strategies.strategy import last_served_step

#: An array of integers, or an expression of a data frame: both support arithmetic.
X = TypeVar("X", bound=Any)


class Part(NamedTuple):
    """One part of an event, in one column of a file.

    >>> Part("value").kind
    'number'

    Attributes:
        name: the job's name for the column, such as "value".
        kind: numbers, whole numbers from 0 on, or labels (texts).
        labels: the known labels, each once.
    """

    name: str
    kind: Literal["number", "count", "label"] = "number"
    labels: tuple[str, ...] = ()


class RankDigit(NamedTuple):
    """The digit of a row's code for its rank among the counting rows of its user and group.

    A row with code s is in group ``s // unit % size``. The row of rank ``ranks[i]``, from 1, has
    the code ``s + unit * 2**i``; every other row has s.

    >>> RankDigit(4, 6, (1,))
    RankDigit(unit=4, size=6, ranks=(1,))

    Attributes:
        unit: value of the group's digit in the code.
        size: number of values of that digit.
        ranks: the ranks that are distinguished, ascending.
    """

    unit: int
    size: int
    ranks: tuple[int, ...]


class TallyStatistic(Statistic):
    """A statistic whose cells are sums over rows.

    Attributes:
        places: number of places in which rows are added up, before they are measured.
        ordered: True if the order of rows matters, although cells are sums.
        parts: the parts of an event besides its time, group and user.
        counts_rows: True if every row changes one place by 1, so that totals are numbers of rows.
        asks: its numbers, if they are only the "count", "sum" and "mean" of one column's values;
            then another statistic that `gives` these can replace it.
        counts_units: True if a row counts as often as it says, and the unit is one of these times.
        counted_ranks: the ranks by which it counts users: each user counts once in each group for
            each rank, with the row of that rank; (1,) counts users by their first row.
    """

    ordered: bool = False
    places: int
    parts: tuple[Part, ...] = ()
    counts_rows: bool = False
    asks: ClassVar[tuple[str, ...]] = ()
    counts_units: bool = False
    counted_ranks: tuple[int, ...] = ()

    def gives(self, place: int | None) -> Mapping[str, Any]:
        """Return its names of "count", "sum" and "mean", as far as its reading has them.

        Args:
            place: place of the column among its own; None: the numbers of rows alone.
        """
        return {}

    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction] | None:
        """Return bounds and resolution of a column's values; None if it has none."""
        return None

    @property
    def rank_digits(self) -> Sequence[RankDigit]:
        """Digits for the ranks of rows; none if users are not counted."""
        if not self.counted_ranks:
            return ()
        low, high = self.said_bounds()
        return (RankDigit(1, high - low + 1, self.counted_ranks),)

    @property
    def counts_users(self) -> bool:
        """True if it, or a statistic within it, counts users."""
        return bool(self.rank_digits)

    def said_bounds(self) -> tuple[int, int]:
        """Return the least and the largest code of rows that have a place."""
        return (0, self.places - 1) if self.spans else self.row_bounds()

    @property
    def largest_entry(self) -> int:
        """Bound on a row's change of a measured cell, divided by the larger of `row_bounds`."""
        return 1

    def whole_of(self, sums: Floats) -> float:
        """Return the sum of all places, to be compared with `most_counted`."""
        return float(sums.sum())

    def largest_measured(self, sums: Floats) -> float:
        """Return a bound on every measured cell, from bounds on the sums of its places.

        Args:
            sums: shape ``(places,)``, none below 0.
        """
        return float(sums.sum()) * self.largest_entry

    @abstractmethod
    def encode(self, *parts: Any) -> Integers:
        """Return the codes of rows, one integer each.

        Args:
            parts: an array for each of ``parts``: floats; for labels their places among the known
                ones (int64), -1 if it is missing, -2 if it is unknown.

        Returns:
            int64; below 0 if a row has no known place, for statistics whose code has the place.

        Raises:
            InvalidInput: a part has an impossible value.
        """

    @abstractmethod
    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        """Return the places that rows change, and the amounts in grid units.

        Arithmetic alone computes them, so that data frames can do it too.

        Args:
            said: the codes: an array, or an expression of a data frame.

        Returns:
            Pairs of a place and an amount. Where there are several pairs, each place is a plain
            number.
        """

    @property
    def spans(self) -> tuple[range, ...]:
        """Places that a row may choose: one range for each of `entries` whose place is in the code.

        If there are any, a row may have no known place.
        """
        chosen = [place for place, _ in self.entries(np.zeros(1, np.int64))]
        return tuple(range(self.places) for place in chosen if not isinstance(place, int))

    def row_bounds(self) -> tuple[int, int]:
        """Return the least and the largest amount that one row adds to any place, in grid units."""
        return 1, 1

    def measure(self, sums: Integers) -> Integers:
        """Return cells from sums by place; exact and linear.

        Args:
            sums: shape ``(steps, places)``.

        Returns:
            Shape ``(steps, *cells)``.
        """
        return sums.reshape(len(sums), *self.cells)

    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        """Return cells of evenly spread rows, for half-widths that depend on the rows.

        None if no half-width depends on them (`Card.known_beforehand`). All inputs are public.

        Args:
            rows: number of rows; None: unknown.
            steps: number of steps in which they came.
        """
        return None

    def most_counted(self, first: float, last: float) -> float:
        """Return the largest sum of all places with which every release can be read.

        Args:
            first, last: standard deviations of a released cell at the first and last step.
        """
        return math.inf

    def total(self, cells: Integers) -> Floats:
        """Return the sum of all places, from exact cells: the inverse of `measure`.

        Args:
            cells: shape ``(steps, *cells)``.

        Returns:
            Shape ``(steps,)``; for several groups the largest sum.
        """
        return np.zeros(len(cells))

    @override
    def begin(self) -> Exact:
        return Sums(self)

    def columns_of(self, events: Events) -> tuple[Any, ...]:
        """Return events as one array for each part; by default an event is one number.

        Raises:
            InvalidInput: a value is no event.
        """
        return (events,)

    def check_events(self, each: NDArray[np.int64]) -> None:
        """Refuse impossible numbers of events by step."""


class UsersByRank(TallyStatistic):
    """A count of users by number of rows: a cell for each of ``counted_ranks``.

    A user enters a cell once, with the row of that rank. The code of a row is 1, plus ``2**i`` for
    each cell i that its user enters with it. Ranks are known only if a person's rows are bounded.
    """

    @override
    def encode(self, *parts: Any) -> Integers:
        raise InvalidInput(
            f"a column identifies users, and one row does not show how many rows of its user came "
            f"before it: run a job with {field('user')}"
        )

    @override
    def said_bounds(self) -> tuple[int, int]:
        return 1, 2**self.places

    @override
    def row_bounds(self) -> tuple[int, int]:
        return 0, 1

    @override
    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        return [(place, (said - 1) // 2**place % 2) for place in range(self.places)]


class Sums(Exact):
    """The exact counts of a tally: nothing beyond the counter's sums."""

    def __init__(self, statistic: TallyStatistic) -> None:
        self._statistic = statistic

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        this, steps = self._statistic, len(stops)
        each = np.diff(stops, prepend=0)
        this.check_events(each)
        said = this.encode(*this.columns_of(events))
        if this.spans and (said < 0).any():
            raise InvalidInput(
                f"an event is in no declared cell of {this!r}: give a declared one, or leave the "
                f"event out"
            )
        sums = np.zeros((steps, this.places), np.int64)
        ends = np.concatenate([[0], stops])
        for place, amount in this.entries(said):
            if isinstance(place, int):
                if isinstance(amount, int):
                    sums[:, place] += each * amount
                    continue
                running = np.concatenate([[0], np.cumsum(amount)])  # may wrap; differences do not
                sums[:, place] += running[ends[1:]] - running[ends[:-1]]
            else:
                cell = np.repeat(np.arange(steps), each) * this.places + place
                np.add.at(sums.reshape(-1), cell, amount)
        return this.measure(sums)

    @override
    def undo(self) -> None: ...

    @override
    def save(self) -> bytes:
        return b""

    @override
    def load(self, saved: bytes) -> None: ...

    @override
    def news(self) -> bytes:
        return b""


def most_readable(
    statistic: TallyStatistic, strategy: StreamStrategy, law: NoiseDistribution
) -> float:
    """Return the largest sum over all cells whose releases are exact in float64."""
    last = last_served_step(strategy) or 1
    return statistic.most_counted(*np.sqrt(noise_variance(strategy, law, [1, last])).tolist())


def refuse_unreadable(
    statistic: TallyStatistic, strategy: StreamStrategy, law: NoiseDistribution, whole: float
) -> None:
    """Refuse sums whose releases could not be read.

    Raises:
        SumOverflow: the message has the sum, the bound and the remedy.
    """
    if whole <= statistic.most_counted(0.0, 0.0):
        return
    most = most_readable(statistic, strategy, law)
    refuse_overflow(
        whole,
        most,
        lambda: (
            f"the counts add up to {whole:,.0f}; with this noise all that is released of "
            f"{statistic!r} can be read up to {max(most, 0):,.0f}: count in larger units"
        ),
    )


def refuse_unreadable_cells(
    statistic: TallyStatistic, terms: Design, taken: Integers, changes: Integers
) -> None:
    """Refuse exact cells whose releases could not be read: those so far plus the next steps.

    Args:
        statistic, terms: statistic and design of the stream.
        taken: shape ``cells``; empty if a release is a step's own count.
        changes: shape ``(steps, *cells)``.
    """
    if math.isinf(statistic.most_counted(0.0, 0.0)):
        return
    added = statistic.total(changes)
    whole = float(added.max(initial=0.0))
    if terms.strategy.facts.workload == "totals":
        whole = float(statistic.total(taken[None])[0] + added.sum())
    refuse_unreadable(statistic, terms.strategy, terms.law, whole)


def is_tallied(statistic: Statistic) -> TypeGuard[TallyStatistic]:
    """Return True if rows of a statistic add up in any order."""
    return isinstance(statistic, TallyStatistic) and not statistic.ordered
