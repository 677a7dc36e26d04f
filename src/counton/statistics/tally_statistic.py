"""Statistics for which the order of events does not matter: each row changes cells by itself.

A row is encoded as one integer, its code. Arithmetic on the code gives the row's changes of cells.
So rows can be added up in any order and on any number of machines, and late rows are added like all
others.
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
    """A description of one value of an event, which is read from one column of a file.

    >>> Part("value").kind
    'number'

    Attributes:
        name: the job's option that names the column, such as "value".
        kind: numbers, counts (whole numbers from 0 on), or labels (texts).
        labels: the possible labels, each once.
        most: the largest count.
    """

    name: str
    kind: Literal["number", "count", "label"] = "number"
    labels: tuple[str, ...] = ()
    most: int = 2**32


class RankDigit(NamedTuple):
    """A digit that is added to the integer code of a row, to state which row of its user the row
    is: the first, the second, or a later row.

    Statistics that count users by their rows need it.

    The rows of a user are numbered from 1 in each group. The number of the group is ``code // unit
    % size``, where ``code`` does not yet have this digit. If the number of the row is ``ranks[i]``,
    ``unit * 2**i`` is added to the code.

    >>> RankDigit(4, 6, (1,))
    RankDigit(unit=4, size=6, ranks=(1,))

    Attributes:
        unit: place value of the group's digit in the code.
        size: number of values of the group's digit.
        ranks: the ranks that matter, ascending.
    """

    unit: int
    size: int
    ranks: tuple[int, ...]


class TallyStatistic(Statistic):
    """A statistic whose cells are sums over rows, in any order.

    `encode` converts a row to one integer, its code. `entries` computes from the code which sums
    the row changes, and by how much. `measure` converts the sums to cells, which are a linear
    function of them.

    Attributes:
        places: number of sums over rows, before they are converted to cells.
        ordered: True if the order of rows matters, although cells are sums.
        parts: the values of an event, besides its time, group and user.
        counts_rows: True if every row changes one sum by 1, so that totals are numbers of rows.
        asks: the names of its numbers, if they are only the "count", "sum" and "mean" of one
            column. Another statistic that `gives` these numbers can then replace it.
        counts_units: True if a column of a row states a number n, and the row counts n times. The
            protected unit is then one of the n, not the whole row.
        counted_ranks: for statistics that count users, the numbers k such that a user's k-th row in
            a group counts. With (1,) each user counts once in each group, by the first row.
        row_total: the amount by which every row raises the sum of all cells, if it is equal for all
            rows. Undeclared groups are then found by this sum. None: the amount depends on the row.
    """

    ordered: bool = False
    places: int
    parts: tuple[Part, ...] = ()
    counts_rows: bool = False
    asks: ClassVar[tuple[str, ...]] = ()
    counts_units: bool = False
    counted_ranks: tuple[int, ...] = ()
    row_total: int | None = None

    def gives(self, place: int | None) -> Mapping[str, Any]:
        """Return this statistic's names for the "count", "sum" and "mean" of one of its columns.

        `Moments` gives ``{"count": "count", "mean": ("mean", "age"), ...}`` for a column "age". A
        number that a statistic does not have is left out. Another statistic of a report may take
        these numbers from this statistic, instead of measuring them again.

        Args:
            place: index of the column among this statistic's columns; None: only the number of
                rows.
        """
        return {}

    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction] | None:
        """Return (lower, upper, resolution) of the values in a column; None if these values have no
        bounds.

        ``place`` is the index of the column among the statistic's columns.
        """
        return None

    @property
    def rank_digits(self) -> Sequence[RankDigit]:
        """Digits of a row's code that say which row of its user it is; empty unless users are
        counted.
        """
        if not self.counted_ranks:
            return ()
        low, high = self.code_bounds()
        return (RankDigit(1, high - low + 1, self.counted_ranks),)

    @property
    def counts_users(self) -> bool:
        """True if this statistic, or a statistic of this report, counts users."""
        return bool(self.rank_digits)

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code of `encode` for rows that count."""
        return (0, self.places - 1) if self.spans else self.row_bounds()

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry of the matrix that converts sums over rows to cells.

        Multiplied by the largest amount in `row_bounds`, it bounds how much a row changes a cell.
        """
        return 1

    def total_of_sums(self, sums: Floats) -> float:
        """Return the total of the sums over rows that this statistic keeps; it must not exceed
        `most_counted`.

        Args:
            sums: the sums, shape ``(places,)``, one for each place.
        """
        return float(sums.sum())

    def largest_measured(self, sums: Floats) -> float:
        """Return an upper bound on every cell, given upper bounds on the sums over rows.

        Args:
            sums: the bounds on the sums, not negative: shape ``(places,)``, one for each sum that
                is kept for a group.
        """
        return float(sums.sum()) * self.largest_entry

    @abstractmethod
    def encode(self, *parts: Any) -> Integers:
        """Encode each row as one integer, its code.

        Args:
            parts: an array for each part of an event, of shape ``(rows,)``: floats; for labels,
                indices among the known labels (int64), -1 for a missing label, -2 for an unknown
                label.

        Returns:
            int64; below 0 for a row whose labels name no cell.

        Raises:
            InvalidInput: a part has an impossible value.
        """

    @abstractmethod
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        """Return which sums a row changes, and by how much, given the row's code from `encode`.

        Only arithmetic is used, so that expressions of data frames can be passed too.

        Args:
            code: the results of `encode`: an array, or an expression of a data frame.

        Returns:
            Pairs of the index of a sum and an amount in multiples of the resolution. If there are
                several pairs, each index is an int.
        """

    @property
    def spans(self) -> tuple[range, ...]:
        """Ranges of indices of sums, such that each row changes at most one sum in every range.

        There is one range for each pair (index, amount) of `entries` whose index depends on the
        row. A row whose code is negative changes no sum in these ranges.
        """
        chosen = [place for place, _ in self.entries(np.zeros(1, np.int64))]
        return tuple(range(self.places) for place in chosen if not isinstance(place, int))

    def row_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest amount that one row adds to any sum, in multiples of
        the resolution.
        """
        return 1, 1

    def measure(self, sums: Integers) -> Integers:
        """Convert sums over rows to the cells that get noise; this is exact and linear.

        Args:
            sums: shape ``(steps, places)``; a place is one of the sums that are kept for a group.

        Returns:
            Shape ``(steps, *cells)``.
        """
        return sums.reshape(len(sums), *self.cells)

    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        """Return the cells that rows with evenly spread values would give, to plan half-widths
        before there are data.

        Args:
            rows: number of rows; None: unknown.
            steps: number of steps in which they came.
        """
        return None

    def most_counted(self, first: float, last: float) -> float:
        """Return how large the total of all sums over rows may become before a published number
        could be inexact in float64.

        Infinite by default: only statistics that publish fractions of 1 have such a limit.

        Args:
            first, last: standard deviations of a released cell at the first and at the last step.
        """
        return math.inf

    def total(self, cells: Integers) -> Floats:
        """Return the total of all sums over rows, computed from exact cells.

        Args:
            cells: shape ``(steps, *cells)``.

        Returns:
            Shape ``(steps,)``. If there are several groups, the largest total of a group.
        """
        return np.zeros(len(cells))

    @override
    def begin(self) -> Exact:
        return Sums(self)

    def columns_of(self, events: Events) -> tuple[Any, ...]:
        """Convert events to one array for each of ``parts``; by default an event is one number.

        Raises:
            InvalidInput: a value is no event.
        """
        return (events,)

    def check_events(self, each: NDArray[np.int64]) -> None:
        """Raise an error if a step cannot have this number of events.

        Args:
            each: number of events of each step, shape ``(steps,)``.
        """


class UsersByRank(TallyStatistic):
    """Numbers of users by their numbers of rows: for each k in ``counted_ranks``, one cell with the
    number of users who have at least k rows.

    A user's k-th row adds 1 to this cell. A row is encoded as 1, plus ``2**i`` for each cell i to
    which the row adds 1. Only a job that bounds the rows of each person can count this statistic,
    because such a job numbers the rows of each person.
    """

    @override
    def encode(self, *parts: Any) -> Integers:
        raise InvalidInput(
            "a column names users, and a single row does not tell how many rows of its user came "
            f"before it: run a job with {field('user')}"
        )

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 1, 2**self.places

    @override
    def row_bounds(self) -> tuple[int, int]:
        return 0, 1

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        return [(place, (code - 1) // 2**place % 2) for place in range(self.places)]


class Sums(Exact):
    """Converter from events to exact changes of cells, for statistics whose cells are sums.

    It stores no sums: the stream's `Counter` keeps them.
    """

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
                f"an event belongs to no cell of {this!r}: give it a cell that is listed, or leave "
                "the event out"
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
    """Return the largest total of all sums over rows up to which releases are exact in float64.

    Args:
        statistic: the statistic.
        strategy: its strategy over time.
        law: distribution of the noise.
    """
    last = last_served_step(strategy) or 1
    return statistic.most_counted(*np.sqrt(noise_variance(strategy, law, [1, last])).tolist())


def refuse_unreadable(
    statistic: TallyStatistic, strategy: StreamStrategy, law: NoiseDistribution, whole: float
) -> None:
    """Raise `SumOverflow` if the total of all sums is so large that releases would not be exact.

    Args:
        statistic: the statistic.
        strategy: its strategy over time.
        law: distribution of the noise.
        whole: the total of all sums.

    Raises:
        SumOverflow: the message has the total, the bound and the remedy.
    """
    if whole <= statistic.most_counted(0.0, 0.0):
        return
    most = most_readable(statistic, strategy, law)
    refuse_overflow(
        whole,
        most,
        lambda: (
            f"the counts add up to {whole:,.0f}, but with this noise the numbers of {statistic!r} "
            f"are exact only up to {max(most, 0):,.0f}: count in larger units"
        ),
    )


def refuse_unreadable_cells(
    statistic: TallyStatistic, terms: Design, taken: Integers, changes: Integers
) -> None:
    """Raise `SumOverflow` if the next steps make cells so large that releases would not be exact.

    Args:
        statistic, terms: the statistic and the design of its stream.
        taken: exact cells so far, shape ``cells``; unused if a release is the count of a single
            step.
        changes: changes of cells in the next steps, shape ``(steps, *cells)``.
    """
    if math.isinf(statistic.most_counted(0.0, 0.0)):
        return
    added = statistic.total(changes)
    whole = float(added.max(initial=0.0))
    if terms.strategy.facts.workload == "totals":
        whole = float(statistic.total(taken[None])[0] + added.sum())
    refuse_unreadable(statistic, terms.strategy, terms.law, whole)


def is_tallied(statistic: Statistic) -> TypeGuard[TallyStatistic]:
    """Return True if a statistic's cells are sums of rows in any order."""
    return isinstance(statistic, TallyStatistic) and not statistic.ordered
