"""Statistics for which the order of events does not matter: each row changes cells by itself.

What a row says is one integer; what it changes follows from that integer by arithmetic. So rows can
be added up by window in any order, on any number of machines, late rows and rows of new files are
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

#: An array of integers, or an expression of a data frame: both know arithmetic.
X = TypeVar("X", bound=Any)


class Part(NamedTuple):
    """One part of an event: what a column of a file holds.

    >>> Part("value").kind
    'number'

    Attributes:
        name: by which a job names the column, as "value".
        kind: numbers, whole numbers from 0 on, or labels (texts).
        labels: those that are known, each once.
    """

    name: str
    kind: Literal["number", "count", "label"] = "number"
    labels: tuple[str, ...] = ()


class RankDigit(NamedTuple):
    """A digit for the rank of a row among the rows of its user that count in its group.

    A row that says s is of group ``s // unit % size``. The row of rank ``ranks[i]``, from 1, says
    ``s + unit * 2**i``, and every other row s.

    >>> RankDigit(4, 6, (1,))
    RankDigit(unit=4, size=6, ranks=(1,))

    Attributes:
        unit: of the digit in what a row says.
        size: how many values that digit has.
        ranks: those that are told apart, ascending.
    """

    unit: int
    size: int
    ranks: tuple[int, ...]


class TallyStatistic(Statistic):
    """A statistic whose cells are sums over rows.

    Attributes:
        places: how many places rows are added up in, before they are measured.
        ordered: rows do not add up in any order, although they are added up.
        parts: of what an event consists besides its time, group and user.
        counts_rows: every row changes one place by 1, so that totals are numbers of rows.
        asks: all that it reads, where that is "count", "sum" or "mean" of one column's values; then
            another statistic that `gives` these says it too.
        counts_units: a row counts as often as it says, and what is protected is one of these times.
        counted_ranks: it counts users, each once in each of its groups for each of these: with the
            row of that rank among those of the user that count there; (1,) of the first one.
    """

    ordered: bool = False
    places: int
    parts: tuple[Part, ...] = ()
    counts_rows: bool = False
    asks: ClassVar[tuple[str, ...]] = ()
    counts_units: bool = False
    counted_ranks: tuple[int, ...] = ()

    def gives(self, place: int | None) -> Mapping[str, Any]:
        """What its reading calls "count", "sum" and "mean", of those that it tells.

        Args:
            place: of the column among its own; None: of rows alone.
        """
        return {}

    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction] | None:
        """Lower and upper bound, and resolution, of the values of a column; None: it has none."""
        return None

    @property
    def rank_digits(self) -> Sequence[RankDigit]:
        """Digits for the ranks of rows; none: users are not counted."""
        if not self.counted_ranks:
            return ()
        low, high = self.said_bounds()
        return (RankDigit(1, high - low + 1, self.counted_ranks),)

    @property
    def counts_users(self) -> bool:
        """Whether it, or a statistic that it holds, counts users."""
        return bool(self.rank_digits)

    def said_bounds(self) -> tuple[int, int]:
        """The least and the most that rows say which are of some place."""
        return (0, self.places - 1) if self.spans else self.row_bounds()

    @property
    def largest_entry(self) -> int:
        """No row changes a measured cell by more than this times the larger of `row_bounds`."""
        return 1

    def whole_of(self, sums: Floats) -> float:
        """How much all places have together, to be set against `most_counted`."""
        return float(sums.sum())

    def largest_measured(self, sums: Floats) -> float:
        """A bound on every measured cell, from bounds on the sums of its places.

        Args:
            sums: shape ``(places,)``, none below 0.
        """
        return float(sums.sum()) * self.largest_entry

    @abstractmethod
    def encode(self, *parts: Any) -> Integers:
        """What rows say, one integer each.

        Args:
            parts: an array for each of ``parts``: floats; of labels their places among those known
                (int64), -1 where there is none, -2 where it is another one.

        Returns:
            int64; below 0 where a row is of no place that is known, if it says of which it is.

        Raises:
            InvalidInput: a part that cannot be.
        """

    @abstractmethod
    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        """Places that rows change and by how much, in grid units: arithmetic of what they say.

        Args:
            said: an array, or an expression of a data frame.

        Returns:
            Pairs of a place and an amount: several pairs only of places that are numbers.
        """

    @property
    def spans(self) -> tuple[range, ...]:
        """Places among which a row chooses: one range for each of `entries` whose place it says.

        If there are any, a row may be of none that is known.
        """
        chosen = [place for place, _ in self.entries(np.zeros(1, np.int64))]
        return tuple(range(self.places) for place in chosen if not isinstance(place, int))

    def row_bounds(self) -> tuple[int, int]:
        """The least and the most that one row adds to any place, in grid units."""
        return 1, 1

    def measure(self, sums: Integers) -> Integers:
        """Cells from sums by place: exact and linear.

        Args:
            sums: shape ``(steps, places)``.

        Returns:
            Shape ``(steps, *cells)``.
        """
        return sums.reshape(len(sums), *self.cells)

    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        """Cells of rows that are spread evenly: how far off readings are that depend on the rows.

        None where they do not (`Card.known_beforehand`). Only public numbers are in them.

        Args:
            rows: how many rows there are; None: nobody says.
            steps: in how many steps they came.
        """
        return None

    def most_counted(self, first: float, last: float) -> float:
        """How much all places may have together so that every release of them can be read.

        Args:
            first, last: standard deviations of a released cell at the first and last step.
        """
        return math.inf

    def total(self, cells: Integers) -> Floats:
        """How much all places have together, from exact cells: the inverse of `measure`.

        Args:
            cells: shape ``(steps, *cells)``.

        Returns:
            Shape ``(steps,)``; of several groups that of the largest.
        """
        return np.zeros(len(cells))

    @override
    def begin(self) -> Exact:
        return Sums(self)

    def columns_of(self, events: Events) -> tuple[Any, ...]:
        """Events as one array for each part; a statistic whose events are no numbers says more.

        Raises:
            InvalidInput: what is no event.
        """
        return (events,)

    def check_events(self, each: NDArray[np.int64]) -> None:
        """Refuse numbers of events by step that cannot be."""


class UsersByRank(TallyStatistic):
    """Users who have a number of rows: a cell for each of ``counted_ranks``.

    A user enters a cell once, with the row of that rank. A row says 1, and ``2**i`` more if it is
    that of cell i; its rank is known where a person's rows are bounded.
    """

    @override
    def encode(self, *parts: Any) -> Integers:
        raise InvalidInput(
            f"users are told apart by a column, and no row says by itself how many of its user "
            f"came before it: run a job with {field('user')}"
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
    """Nothing but what the counter has."""

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
                f"an event says no place that {this!r} knows: say one that is declared, or leave "
                f"the event out"
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
    """How much all places may have together so that every release of a stream can be read."""
    last = last_served_step(strategy) or 1
    return statistic.most_counted(*np.sqrt(noise_variance(strategy, law, [1, last])).tolist())


def refuse_unreadable(
    statistic: TallyStatistic, strategy: StreamStrategy, law: NoiseDistribution, whole: float
) -> None:
    """Refuse sums of which releases could not be read.

    Raises:
        SumOverflow: naming the sum, the bound and the remedy.
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
    """The same of exact cells: what was counted so far, and what the next steps add.

    Args:
        statistic, terms: of the stream.
        taken: shape ``cells``; nothing where a release is a step's own count.
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
    """Whether rows of a statistic add up in any order."""
    return isinstance(statistic, TallyStatistic) and not statistic.ordered
