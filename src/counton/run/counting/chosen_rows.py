"""The rows of a run that count, where users' rows are bounded or rows have ids.

Whatever the input, these are new rows: of a snapshot, those that have not counted before. If the
guarantee covers changes, rows that a snapshot lacks are subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import NamedTuple

import numpy as np

from counton.base.exact import name_alone
from counton.io.aggregation import ROWS_AT_A_TIME, sum_indexed_rows
from counton.io.row_assignment import RowRule
from counton.run.counting.contribution_choice import (
    ChoiceCounts,
    first_of_each_id,
    not_counted_before,
    of_other_ids,
    with_ranks,
    within_bound,
)
from counton.run.counting.contribution_slots import ContributionSlots, compare_slots
from counton.run.counting.late_rows import counting_step
from counton.run.counting.missing_rows import KeptRows, MissingRows
from counton.run.counting.remembered_rows import (
    DAY,
    FirstOpen,
    RememberedRows,
    change_of_memory,
    kept_columns,
)
from counton.run.counting.seen_rows import NewRowsOfRun
from counton.run.rows.discovered_groups import GroupNamesOfRun
from counton.run.rows.row_buffer import RowBuffer, types_of_columns
from counton.run.spec.terms import FileRecognition, IdRecognition, SnapshotRecognition, StreamTerms
from counton.state.dedup import Secret
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.periods import period_of

#: Numbers of rows of a window, beside those that were counted before.
_NUMBERS = ("kept", "retracted", "added")


@dataclass(frozen=True, repr=False)
class ComparedRows:
    """Rows beside those that were counted before and that the input should have. Secret.

    Attributes:
        counted: number of the counted rows.
        repeated: number of rows that repeat a counted one.
        new: number of new rows that count.
        by_window: ``window``, and numbers of rows that are ``kept``, ``retracted`` and ``added``.
    """

    counted: int
    repeated: int
    new: int
    by_window: pl.DataFrame

    def plus(self, other: ComparedRows) -> ComparedRows:
        """Return the sums of both."""
        return ComparedRows(
            self.counted + other.counted,
            self.repeated + other.repeated,
            self.new + other.new,
            pl.concat([self.by_window, other.by_window]),
        )

    def missing(self) -> MissingRows:
        """Return what the input lacks."""
        windows = (
            self.by_window.group_by("window").sum().filter(pl.col("retracted") > 0).sort("window")
        )
        return MissingRows(
            are_all=self.counted > 0 and self.repeated == 0 and self.new > 0,
            open_windows=[
                KeptRows(window, before=still_there + retracted, now=still_there + added)
                for window, still_there, retracted, added in windows.iter_rows()
            ],
        )


@name_alone
class PastRows(NamedTuple):
    """Numbers of the rows of closed windows and periods, whether they counted or not. Secret.

    Attributes:
        before: those that were closed before the run.
        after: those that are closed once the run has released its windows.
    """

    before: int
    after: int

    def plus(self, other: PastRows) -> PastRows:
        """Return the sums of both."""
        return PastRows(self.before + other.before, self.after + other.after)


@dataclass(frozen=True, repr=False)
class ChosenRows:
    """The rows of a run that count. Secret.

    Attributes:
        rows: new rows that count, with what the state keeps of them. The column ``code`` is the
            value with the row's rank.
        retracted: earlier rows that count no more.
        slots: if the guarantee covers changes, all rows of users that count now, and free slots.
        counts: numbers of the rows that do not count.
        compared: the rows beside those that were counted before.
        past: numbers of rows that are too old to count.
    """

    rows: pl.DataFrame
    retracted: pl.DataFrame
    slots: pl.DataFrame
    counts: ChoiceCounts
    compared: ComparedRows
    past: PastRows

    def plus(self, other: ChosenRows) -> ChosenRows:
        """Return the rows of both."""
        return ChosenRows(
            pl.concat([self.rows, other.rows]),
            pl.concat([self.retracted, other.retracted]),
            pl.concat([self.slots, other.slots]),
            self.counts.plus(other.counts),
            self.compared.plus(other.compared),
            self.past.plus(other.past),
        )

    def sums(self, groups: int, row_rule: RowRule | None) -> pl.DataFrame:
        """Return the sums of these rows by window and cell; retracted rows are subtracted.

        Args:
            groups: number of groups.
            row_rule: how a row changes the sums of its group; None: it adds 1 to a single one.
        """
        signed = chain(_signed(self.rows, "code", 1), _signed(self.retracted, "total", -1))
        return sum_indexed_rows(signed, groups, row_rule, pl.col("number"))

    def users_to_keep(self, max_corrections: int) -> pl.DataFrame:
        """Return what the state keeps of users: new rows or, by period, all slots that changed."""
        if not max_corrections:
            return self.rows
        changed = pl.concat([self.rows["period"], self.retracted["period"]]).unique()
        return self.slots.filter(pl.col("period").is_in(changed.implode()))


def _signed(rows: pl.DataFrame, total: str, number: int) -> Iterator[pl.DataFrame]:
    """Yield rows, some at a time, as they are added up.

    Args:
        total: name of the column of values.
        number: 1 if the rows are added, -1 if they are subtracted.
    """
    for some in rows.iter_slices(ROWS_AT_A_TIME):
        columns = some.select("window", "group", total=total).cast(pl.Int64)
        yield columns.with_columns(number=pl.lit(number, pl.Int64))


class _RecognisedRows(NamedTuple):
    """The rows of some users beside those that were counted before. Secret.

    Attributes:
        new: rows that were not counted before.
        slots: slots of the counted rows, as this input leaves them.
        counted: number of counted rows that the input should have.
        repeated: number of rows that repeat a counted one.
    """

    new: pl.DataFrame
    slots: ContributionSlots
    counted: int = 0
    repeated: int = 0


@dataclass(frozen=True, repr=False)
class RowChoice:
    """The choice of the rows of one run.

    Attributes:
        terms: what defines the stream.
        groups: names of all groups, by their places.
        released: number of steps released before.
        choosable: windows of which rows may count (`PreparedRun.choosable_windows`).
        target: number of steps released after the run; None: not known yet.
        closed: windows that a snapshot covers, of which no row may count any more.
    """

    terms: StreamTerms
    groups: Sequence[str]
    released: int
    choosable: range
    target: int | None = None
    closed: range = range(0)

    def choose(self, buffer: RowBuffer, remembered: RememberedRows) -> ChosenRows:
        """Choose the rows that count, some users after others."""
        parts = []
        for portion, rows in buffer.portions():
            counted = portion.of(remembered.users, "user")
            parts.append(self._choose_of_users(rows, counted, remembered, buffer.secret))
        chosen = reduce(ChosenRows.plus, parts)
        if not isinstance(self.terms.recognition, IdRecognition):
            return chosen
        # Ids of counted rows belong to no portion, since the state keeps no user with them.
        compared = replace(chosen.compared, counted=remembered.ids.height)
        return replace(chosen, compared=compared)

    def number_late(self, buffer: RowBuffer, remembered: RememberedRows) -> int:
        """Return the number of late rows of a run that counts no row."""
        n_late = 0
        for portion, rows in buffer.portions():
            with_periods = self._with_periods(rows)
            counted_before = portion.of(remembered.users, "user")
            n_late += self._number_late(with_periods, counted_before, remembered)
        return n_late

    def that_may_count(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, ChoiceCounts]:
        """Return the rows that may count, whatever rows follow, and the numbers of the others.

        Rows of periods that an erasure closed, and of users whom one refuses, are dropped only when
        all are read. Until then they take no room of rows that count: rows compete with rows of the
        same user and period alone, and of these either all are dropped or none.
        """
        period = self.terms.privacy_unit.rule.contribution_period
        first_open = FirstOpen.after(self.released, self.terms.windowing.windows, period)
        open_rows = self._of_open_windows(self._with_periods(rows), first_open)
        first = within_bound(open_rows, open_rows.clear(), self.terms.privacy_unit, self.groups)
        counts = ChoiceCounts(
            after_final=rows.height - open_rows.height,
            dropped_early=_rows_by_window(open_rows) - _rows_by_window(first),
        )
        return first.select(rows.columns), counts

    def counts_with_dropped(self, counts: ChoiceCounts, dropped: ChoiceCounts) -> ChoiceCounts:
        """Return the numbers of rows that do not count, with those that were dropped early.

        Args:
            counts: numbers of the rows that were held until all were read.
            dropped: numbers of the rows that `that_may_count` dropped.
        """
        by_window = dropped.dropped_early
        is_snapshot = isinstance(self.terms.recognition, SnapshotRecognition)
        reported = self._reported_windows() if is_snapshot else by_window
        n_beyond = sum(number for window, number in by_window.items() if window in reported)
        return counts.plus(replace(dropped, beyond_bound=n_beyond, dropped_early=Counter()))

    def _reported_windows(self) -> range:
        """Return the windows of a snapshot whose rows beyond a bound the run reports.

        A snapshot repeats rows of released windows that did not count, as if they were new. The
        next snapshot has the rows of later windows again.
        """
        assert self.target is not None, "all rows are read"
        return range(self.released + 1, self.target + 1)

    def _choose_of_users(
        self,
        rows: pl.DataFrame,
        counted: pl.DataFrame,
        remembered: RememberedRows,
        secret: Secret,
    ) -> ChosenRows:
        """Choose from all rows of some users.

        Args:
            rows: the rows.
            counted: rows of these users that earlier runs have counted.
            remembered: what the state remembers of all users.
            secret: key of digests.
        """
        with_periods = self._with_periods(rows)
        open_rows = self._of_open_windows(with_periods, remembered.first_open)
        recognised = self._recognise(open_rows, counted, remembered, secret)
        slots = recognised.slots
        chosen = self._within_bound(recognised.new, slots.kept, remembered)
        slots_afterwards = self._slots_afterwards(slots, chosen)
        n_late = 0
        if self.closed:
            counted_now = slots_afterwards
            if not self.terms.max_corrections:
                counted_now = pl.concat([counted, chosen.select(counted.columns)])
            n_late = self._number_late(with_periods, counted_now, remembered)
        counts = ChoiceCounts(
            beyond_bound=self._number_beyond(recognised.new, chosen),
            duplicates=open_rows.height - recognised.new.height,
            after_final=rows.height - open_rows.height,
            missing=slots.missing,
            retracted=slots.retracted.height,
            uncounted_late=n_late,
        )
        compared = ComparedRows(
            counted=recognised.counted,
            repeated=recognised.repeated,
            new=chosen.height,
            by_window=self._numbers_by_window(slots, chosen),
        )
        return ChosenRows(
            self._kept(chosen),
            slots.retracted,
            slots_afterwards,
            counts,
            compared,
            self._number_past(with_periods, remembered),
        )

    def _number_late(
        self, with_periods: pl.DataFrame, counted: pl.DataFrame, remembered: RememberedRows
    ) -> int:
        """Return how many rows of closed windows no run has counted, though their users have room.

        Args:
            with_periods: rows with their periods.
            counted: rows of these users that count once the run has counted its rows. A free slot
                takes up room, since it had a row when another one was left out.
            remembered: what the state remembers of all users.
        """
        is_closed = pl.col("window").is_between(self.closed.start, self.closed.stop, closed="left")
        # The state has forgotten which rows of earlier periods counted.
        is_remembered = pl.col("period") >= remembered.first_open.period
        closed_rows = with_periods.filter(is_closed & is_remembered)
        # In time, such a row would have taken up room of its own window.
        in_own_windows = closed_rows.with_columns(step_of_bound=pl.col("window"))
        new = not_counted_before(in_own_windows, counted, self.groups)
        return self._within_bound(new, counted, remembered).height

    def _number_past(self, with_periods: pl.DataFrame, remembered: RememberedRows) -> PastRows:
        """Return how many rows are too old to count, before and after the run."""
        assert self.target is not None, "all rows are read"
        period = self.terms.privacy_unit.rule.contribution_period
        first_period = remembered.first_open.period
        first_after = FirstOpen.after(self.target, self.terms.windowing.windows, period).period
        numbers = with_periods.select(
            before=self._is_past(first_period, self.released).sum(),
            after=self._is_past(max(first_after, first_period), self.target).sum(),
        )
        return PastRows(*numbers.row(0))

    def _kept(self, chosen: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of chosen rows that are needed later, in narrow types."""
        statistic = self.terms.group_statistic
        types = types_of_columns(
            self.terms.windowing.windows.steps,
            len(self.groups),
            has_values=bool(statistic.parts or statistic.rank_digits),
        )
        types["code"] = types["total"]
        names = ("user", "period", *kept_columns(self.terms), "code", "id")
        return chosen.select(name for name in names if name in chosen.columns).cast(types)

    def _recognise(
        self,
        open_rows: pl.DataFrame,
        counted: pl.DataFrame,
        remembered: RememberedRows,
        secret: Secret,
    ) -> _RecognisedRows:
        """Separate new rows from those that repeat counted ones."""
        match self.terms.recognition:
            case IdRecognition():
                rows_with_ids = _with_ids_of_units(open_rows, secret)
                rows_with_new_ids = of_other_ids(rows_with_ids, remembered.ids["id"])
                return _RecognisedRows(
                    new=first_of_each_id(rows_with_new_ids, self.groups),
                    slots=ContributionSlots.all_kept(counted),
                    repeated=open_rows.height - rows_with_new_ids.height,
                )
            case FileRecognition():  # files that were counted are not read
                return _RecognisedRows(open_rows, ContributionSlots.all_kept(counted))
            case SnapshotRecognition():
                corrections = self.terms.max_corrections
                slots = compare_slots(counted, open_rows, self.choosable, corrections)
                should_be_there = counted.filter(self._is_choosable()).height
                return _RecognisedRows(
                    new=not_counted_before(open_rows, slots.kept, self.groups),
                    slots=slots,
                    counted=should_be_there,
                    repeated=should_be_there - slots.missing - slots.retracted.height,
                )

    def _within_bound(
        self, new: pl.DataFrame, counted: pl.DataFrame, remembered: RememberedRows
    ) -> pl.DataFrame:
        """Return the new rows for which their users have room, with their ranks.

        Args:
            new: new rows.
            counted: counted rows of the same users, which take up room.
            remembered: users that an erasure refuses.
        """
        unit = self.terms.privacy_unit
        allowed = new if unit.user_column is None else remembered.without_refused(new)
        chosen = within_bound(allowed, counted, unit, self.groups)
        return with_ranks(chosen, counted, self.terms.group_statistic.rank_digits, self.groups)

    def _number_beyond(self, new: pl.DataFrame, chosen: pl.DataFrame) -> int:
        """Return for how many new rows their users have no room."""
        if isinstance(self.terms.recognition, SnapshotRecognition):
            reported = self._reported_windows()
            is_news = pl.col("window").is_between(reported.start, reported.stop, closed="left")
            return int(new.select(is_news.sum()).item() - chosen.select(is_news.sum()).item())
        return new.height - chosen.height

    def _slots_afterwards(self, slots: ContributionSlots, chosen: pl.DataFrame) -> pl.DataFrame:
        """Return all slots once the chosen rows fill them; none unless slots are replaced."""
        if not self.terms.max_corrections:
            return slots.kept.clear()
        return slots.filled(chosen.drop("code"))

    def _numbers_by_window(self, slots: ContributionSlots, added: pl.DataFrame) -> pl.DataFrame:
        """Return how many rows of each window are kept, retracted and added."""
        numbers = pl.DataFrame(schema=dict.fromkeys(("window", *_NUMBERS), pl.Int64))
        if not self.terms.max_corrections:  # no row is retracted
            return numbers
        parts = [numbers]
        for name, rows in zip(_NUMBERS, (slots.kept, slots.retracted, added), strict=True):
            counted = rows.group_by("window").agg(pl.len().cast(pl.Int64).alias(name))
            parts.append(counted)
        return pl.concat(parts, how="diagonal").fill_null(0)

    def _is_choosable(self) -> pl.Expr:
        return pl.col("window").is_between(self.choosable.start, self.choosable.stop, closed="left")

    def _of_open_windows(self, rows: pl.DataFrame, first_open: FirstOpen) -> pl.DataFrame:
        """Return the rows that may still count, of rows with periods."""
        is_open = self._is_choosable()
        is_open &= ~self._is_past(first_open.period, self.released)
        if isinstance(self.terms.recognition, IdRecognition):
            is_open &= pl.col("us") // DAY >= first_open.day
        return rows.filter(is_open)

    def _with_periods(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with their periods, and the steps in whose bound they take up room."""
        windows = self.terms.windowing.windows
        period = period_of(
            pl.col("us"), self.terms.privacy_unit.rule.contribution_period, windows.timezone
        )
        step_of_bound = pl.col("window")
        if not windows.n_revisions:  # a revised window keeps its late rows within its own bound
            step_of_bound = counting_step(pl.col("window"), self.released)
        return rows.with_columns(
            period=period, step_of_bound=step_of_bound, replaced=pl.lit(0, pl.Int64)
        )

    def _is_past(self, first_period: int, released: int) -> pl.Expr:
        """Return whether the window or the period of a row is closed.

        Args:
            first_period: first open period.
            released: number of released steps.
        """
        first_window = self.terms.windowing.windows.first_open(released)
        return (pl.col("window") < first_window) | (pl.col("period") < first_period)


def _rows_by_window(rows: pl.DataFrame) -> Counter[int]:
    return Counter(dict(rows.group_by("window").len().iter_rows()))


def _with_ids_of_units(rows: pl.DataFrame, secret: Secret) -> pl.DataFrame:
    """Return rows with an id for each unit: so one unit's ids tell nothing of another's rows."""
    ids = rows["id"].to_numpy()
    owners = np.zeros(len(ids), np.uint64)
    if "user" in rows.columns:
        owners = secret.pair_digests(rows["user"].to_numpy(), rows["period"].to_numpy())
    return rows.with_columns(id=pl.Series(secret.pair_digests(ids, owners), dtype=pl.UInt64))


def no_chosen_rows(names: GroupNamesOfRun | None) -> NewRowsOfRun:
    """Return the rows of a run that change nothing."""
    nothing = pl.DataFrame(schema=dict.fromkeys(("window", "cell", "rows", "total"), pl.Int64))
    return NewRowsOfRun(nothing, (), None if names is None else GroupNamesOfRun(names.kept, ()))


def choose_rows(
    choice: RowChoice,
    buffer: RowBuffer,
    remembered: RememberedRows,
    names: GroupNamesOfRun | None,
    digests: Sequence[str],
    *,
    has_all_rows: bool = False,
) -> NewRowsOfRun:
    """Choose the rows that count, and say what the state remembers of them.

    Args:
        choice: the choice, whose ``target`` is known.
        names: names of groups that are found in the rows; None if groups are declared.
        digests: digests of the files.
        has_all_rows: whether each input has all rows since the first window.
    """
    assert choice.target is not None, "all rows are read"
    terms = choice.terms
    chosen = choice.choose(buffer, remembered)
    counts = choice.counts_with_dropped(chosen.counts, buffer.dropped)
    if names is not None:
        rows, names = names.of_counted_rows(chosen.rows, pl.lit(value=True), column="group")
        chosen = replace(chosen, rows=rows)
    groups = len(buffer.groups if names is None else names.all)
    past_rows = None
    if has_all_rows and not buffer.dropped.dropped_early:
        past_rows = chosen.past.after
        if remembered.past_rows is not None:
            new_past = chosen.past.before - remembered.past_rows
            counts = replace(counts, new_past=max(0, new_past))
            past_rows += max(0, -new_past)  # rows that this input lacks may come back
    change = change_of_memory(
        remembered,
        chosen.users_to_keep(terms.max_corrections),
        chosen.rows,
        secret=buffer.secret,
        terms=terms,
        target=choice.target,
        past_rows=past_rows,
    )
    return NewRowsOfRun(
        chosen.sums(max(1, groups), buffer.row_rule),
        digests,
        names,
        change,
        counts,
        missing=chosen.compared.missing(),
        if_repeated=None if past_rows is None else _counts_if_repeated(choice, chosen, remembered),
    )


def _counts_if_repeated(
    choice: RowChoice, chosen: ChosenRows, remembered: RememberedRows
) -> ChoiceCounts | None:
    """Return which rows do not count in a run with the same rows and the state of this run.

    Such a run counts none, if a unit's bound is about all of its rows: the unit has no room, or no
    row that is not counted. A bound on windows leaves room for late rows in later steps.

    Args:
        choice: the choice of a run whose input has all rows since the first window.
        chosen: the rows that it has chosen.
        remembered: the rows that earlier runs have counted.

    Returns:
        None if the run might count some, or if the input lacks counted rows.
    """
    terms = choice.terms
    rule = terms.privacy_unit.rule
    has_other_bounds = (
        rule.max_contributions_per_window is not None
        or rule.max_contributions_per_group is not None
    )
    is_snapshot = isinstance(terms.recognition, SnapshotRecognition)
    if not is_snapshot or terms.max_corrections or has_other_bounds or chosen.counts.missing:
        return None
    assert choice.target is not None, "all rows are read"
    first_after = FirstOpen.after(
        choice.target, terms.windowing.windows, rule.contribution_period
    ).period
    first_period = max(first_after, remembered.first_open.period)
    counted = (
        int((rows["period"] >= first_period).sum()) for rows in (remembered.users, chosen.rows)
    )
    return ChoiceCounts(duplicates=sum(counted), after_final=chosen.past.after)
