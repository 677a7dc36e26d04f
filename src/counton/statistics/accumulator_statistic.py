"""Statistics for which the order of events does not matter: each row changes cells by itself.

A row is encoded as one integer. Arithmetic on this code gives the row's changes of cells, so rows
are added up in any order and on any number of machines.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError, param
from counton.base.exact import refuse_overflow
from counton.continual.design import Design
from counton.statistics.statistic import Events, Exact, Statistic
from counton.strategies import StreamStrategy, noise_variance
from counton.strategies.strategy import last_served_step

#: An array of integers, or an expression of a data frame: both support arithmetic.
X = TypeVar("X", bound=Any)


class Part(NamedTuple):
    """One value of an event, read from one column of a file.

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
    """A digit in the code of a row that states which row of its user it is.

    Rows of a user are numbered from 1 in each group, ``code // unit % size`` before this digit. For
    number ``ranks[i]``, ``unit * 2**i`` is added.

    >>> RankDigit(4, 6, (1,))
    RankDigit(unit=4, size=6, ranks=(1,))
    """

    unit: int
    size: int
    ranks: tuple[int, ...]


class AccumulatorStatistic(Statistic):
    """A statistic whose cells are sums over rows, in any order.

    `encode` converts a row to one integer. `entries` computes from it which sums the row changes,
    and by how much. `measure` converts the sums linearly to cells.

    Attributes:
        n_accumulators: number of sums over rows.
        parts: the values of an event.
        counts_rows: True if every row changes one sum by 1.
        asks: its numbers, if they are only the "count", "sum" and "mean" of one column, so that
            another statistic that `gives` them can replace it.
        counts_units: True if a row states a number n and counts n times; the protected unit is one
            of the n.
        counted_ranks: the numbers k such that a user's k-th row in a group counts.
        row_total: the amount by which every row raises the sum of all cells, by which undeclared
            groups are found; None: it depends on the row.
    """

    ordered = False
    n_accumulators: int
    parts: tuple[Part, ...] = ()
    statistics: Mapping[str, AccumulatorStatistic]
    counts_rows: bool = False
    asks: ClassVar[tuple[str, ...]] = ()
    counts_units: bool = False
    counted_ranks: tuple[int, ...] = ()
    row_total: int | None = None

    def gives(self, place: int | None) -> Mapping[str, Any]:
        """Return the names of "count", "sum" and "mean" of a column, or of the rows for None.

        `Moments` gives ``{"count": "count", "mean": ("mean", "age"), ...}`` for "age". Another
        statistic of a report may take these numbers.

        Args:
            place: index of a column that this statistic reads, from 0; None for the rows.

        Returns:
            By "count", "sum" and "mean", this statistic's name for the number, if it has the
            number.
        """
        return {}

    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction] | None:
        """Return (lower, upper, resolution) of a column; None without bounds.

        Args:
            place: index of a column that this statistic reads, from 0.
        """
        return None

    @property
    def rank_digits(self) -> Sequence[RankDigit]:
        """Digits of a code that say which row of its user it is."""
        if not self.counted_ranks:
            return ()
        low, high = self.code_bounds()
        return (RankDigit(1, high - low + 1, self.counted_ranks),)

    @property
    def counts_users(self) -> bool:
        """True if this statistic, or one of this report, counts users."""
        return bool(self.rank_digits)

    def code_bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest code of rows that count."""
        return (0, self.n_accumulators - 1) if self.spans else self.row_bounds()

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry of the matrix from sums to cells; times the largest of
        `row_bounds` it bounds a row's change of a cell.
        """
        return 1

    def total_of_sums(self, sums: Floats) -> float:
        """Return the total of the sums of one step, which must not exceed `most_counted`.

        Args:
            sums: the sums over the rows of one step, shape ``(n_accumulators,)``.
        """
        return float(sums.sum())

    def largest_measured(self, sums: Floats) -> float:
        """Return a bound on the absolute value of every cell.

        Args:
            sums: a bound on the absolute value of each sum over rows, shape ``(n_accumulators,)``.
        """
        return float(sums.sum()) * self.largest_entry

    @abstractmethod
    def encode(self, *parts: Any) -> Integers:
        """Encode each row as one integer, below 0 if its labels name no cell.

        Each of ``parts`` has shape ``(rows,)``: floats; or indices of known labels, -1 for a
        missing label, -2 for an unknown one.

        Raises:
            InvalidInputError: a part has an impossible value.
        """

    @abstractmethod
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        """Return pairs of the index of a sum and an amount in multiples of the resolution.

        Only arithmetic is used, so that expressions of data frames can be passed too. If there are
        several pairs, each index is an int.

        Args:
            code: the codes of rows that `encode` returns: an array, or an expression of a data
                frame.
        """

    @property
    def spans(self) -> tuple[range, ...]:
        """Ranges of sums, such that a row changes at most one in each.

        There is one for each pair of `entries` whose index depends on the row. A row with a
        negative code changes none.
        """
        chosen = [accumulator for accumulator, _ in self.entries(np.zeros(1, np.int64))]
        return tuple(
            range(self.n_accumulators) for accumulator in chosen if not isinstance(accumulator, int)
        )

    def row_bounds(self) -> tuple[int, int]:
        """Return a row's smallest and largest amount in a sum, in multiples of the resolution."""
        return 1, 1

    def measure(self, sums: Integers) -> Integers:
        """Convert sums over rows to cells, exactly and linearly.

        Args:
            sums: a row of sums for each step, shape ``(steps, n_accumulators)``.

        Returns:
            int64, shape ``(steps, *cells)``.
        """
        return sums.reshape(len(sums), *self.cells)

    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        """Return the cells of evenly spread rows, to plan half-widths before there are data.

        Args:
            rows: number of all rows; None: not known.
            steps: number of steps over which they are spread.

        Returns:
            Totals over all steps, of shape ``cells``; None if they cannot be derived from this.
        """
        return None

    @override
    def begin(self) -> Exact:
        return Sums(self)

    def columns_of(self, events: Events) -> tuple[Any, ...]:
        """Convert events to one array for each of ``parts``; by default an event is a number.

        Args:
            events: the events of one or more steps, in order.

        Returns:
            Arrays of equal length, which `encode` takes.
        """
        return (events,)

    def check_events(self, event_counts: NDArray[np.int64]) -> None:
        """Raise an error if a step cannot have this number of events.

        Args:
            event_counts: the number of events in each step.
        """


class UsersByRank(AccumulatorStatistic):
    """Numbers of users who have at least k rows, a cell for each k in ``counted_ranks``.

    A user's k-th row adds 1 to this cell. A row's code is 1, plus ``2**i`` for each cell i to which
    it adds 1. Only a job numbers the rows of each person.
    """

    @override
    def encode(self, *parts: Any) -> Integers:
        raise InvalidInputError(
            "a column names users, and a single row does not tell how many rows of its user came "
            f"before it: run a job with {param('user')}"
        )

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 1, 2**self.n_accumulators

    @override
    def row_bounds(self) -> tuple[int, int]:
        return 0, 1

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        return [
            (accumulator, (code - 1) // 2**accumulator % 2)
            for accumulator in range(self.n_accumulators)
        ]


class Sums(Exact):
    """Exact changes of cells that are sums. It stores none: the stream's `Counter` keeps them."""

    def __init__(self, statistic: AccumulatorStatistic) -> None:
        self._statistic = statistic

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        statistic = self._statistic
        steps = len(stops)
        event_counts = np.diff(stops, prepend=0)
        statistic.check_events(event_counts)
        codes = statistic.encode(*statistic.columns_of(events))
        if statistic.spans and (codes < 0).any():
            raise InvalidInputError(
                f"an event belongs to no cell of {statistic!r}: give it a cell that is listed, or "
                "leave the event out"
            )
        sums = np.zeros((steps, statistic.n_accumulators), np.int64)
        ends = np.concatenate([[0], stops])
        for accumulator, amount in statistic.entries(codes):
            if isinstance(accumulator, int):
                if isinstance(amount, int):
                    sums[:, accumulator] += event_counts * amount
                    continue
                running = np.concatenate([[0], np.cumsum(amount)])  # may wrap; differences do not
                sums[:, accumulator] += running[ends[1:]] - running[ends[:-1]]
            else:
                cell = (
                    np.repeat(np.arange(steps), event_counts) * statistic.n_accumulators
                    + accumulator
                )
                np.add.at(sums.reshape(-1), cell, amount)
        return statistic.measure(sums)

    @override
    def undo(self) -> None: ...

    @override
    def save(self) -> bytes:
        return b""

    @override
    def load(self, saved: bytes) -> None: ...


def most_readable(
    statistic: Statistic, strategy: StreamStrategy, distribution: NoiseDistribution
) -> float:
    """Return the largest total up to which releases are exact in float64."""
    last = last_served_step(strategy) or 1
    return statistic.most_counted(
        *np.sqrt(noise_variance(strategy, distribution, [1, last])).tolist()
    )


def refuse_unreadable(
    statistic: Statistic, strategy: StreamStrategy, distribution: NoiseDistribution, whole: float
) -> None:
    """Raise `SumOverflowError` for a total, ``whole``, with which releases would not be exact."""
    if whole <= statistic.most_counted(0.0, 0.0):
        return
    most = most_readable(statistic, strategy, distribution)
    refuse_overflow(
        whole,
        most,
        lambda: (
            f"the counts add up to {whole:,.0f}, but with this noise the numbers of {statistic!r} "
            f"are exact only up to {max(most, 0):,.0f}: count in larger units"
        ),
    )


def refuse_unreadable_cells(
    statistic: Statistic, design: Design, totals: Integers, changes: Integers
) -> None:
    """Raise `SumOverflowError` if the next steps' changes make releases inexact.

    The cells so far, ``totals``, do not matter if a release counts a single step.
    """
    if math.isinf(statistic.most_counted(0.0, 0.0)):
        return
    added = statistic.total(changes)
    whole = float(added.max(initial=0.0))
    if design.strategy.facts.release == "totals":
        whole = float(statistic.total(totals[None])[0] + added.sum())
    refuse_unreadable(statistic, design.strategy, design.distribution, whole)
