"""Reading of rows whose order does not matter, and the changes that they make to a stream.

If groups are not declared, the names (labels) of groups are secret until a group is shown.

**Repeated files.** Inputs that hold all rows of the windows they cover say each row anew, so
nothing is recognised: several files of a run are one input. A file of new events is recognised by
SHA-256 of its unpacked bytes. A data frame, and rows that a database or Spark counts in place, are
recognised by the columns that are read. A file counts once, and each row in it is new: no row's
content decides whether another row counts. A file of a folder or pattern that has the name of a
counted file and other bytes is refused, because it may be a corrected copy, whose rows would count
twice. Rows with ids are recognised one by one, and rows in the state itself are removed when they
are counted, so for these the state records no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from counton.base.errors import InvalidInput, ReplayMismatch, StreamConflict, field
from counton.base.exact import name_alone
from counton.base.private import Private, open_private
from counton.frame.groups import GroupNames
from counton.frame.lazy_polars import polars as pl
from counton.job.job import Job
from counton.rows.bad_rows import change_error, unlisted_names
from counton.rows.paths import are_several
from counton.rows.remote_rows import Spread
from counton.rows.row_reading import RowReading, Unknown, collect, mark_rows
from counton.rows.sources import Rows, Source, UnreadableRow
from counton.rows.tally import Tally, tally
from counton.rows.timestamps import ClockChange
from counton.run.changes import (
    Changes,
    Counts,
    Intake,
    Observed,
    WindowRows,
    compare,
    ended_steps,
    refuse_inexact_rows,
)
from counton.run.clock import repeats_all_rows, windows_covered_by
from counton.run.definition import Definition
from counton.run.missing_rows import (
    KeptRows,
    refuse_other_names,
    refuse_other_rows,
    refuse_shrunk_windows,
)
from counton.run.outputs import Progress, silent
from counton.run.settlement import SettledJob
from counton.state import Stream
from counton.state.addition import Addition, Arrivals

if TYPE_CHECKING:
    from counton.run.contribution_bounds import ChosenRows, ContributionBounder


@name_alone
class FoundLabels(NamedTuple):
    """Names (labels) of the groups that the rows of a run have. Secret.

    Attributes:
        known: labels that the state (database) has already, in the order of their cells.
        new: other labels, ordered by first window and name. Some may come only with rows that a
            user's bound leaves out.
    """

    known: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """All labels: the known labels first, then the new labels."""
        return (*self.known, *self.new)


def labels_in(
    source: Source, reading: RowReading, known: Private[tuple[str, ...]]
) -> Private[FoundLabels]:
    """Return the labels (group names) of the rows within the stream's windows; ``known`` are those
    that the state (database) has already.
    """
    before = open_private(known)
    if isinstance(source, Spread):
        found = open_private(source.labels(reading))
    else:
        rows = mark_rows(source, reading).filter(
            pl.col("step").is_between(1, reading.windows.steps), pl.col("group").is_not_null()
        )
        found = collect(source, rows.group_by("group").agg(pl.col("step").min()))
    there = set(before)
    new = sorted(row for row in found.select("step", "group").rows() if row[1] not in there)
    return Private(FoundLabels(before, tuple(name for _, name in new)))


#: Largest number of values released in one transaction.
_CHUNK = 2**20
#: Each file of a run after the digest by which later runs recognise it.
Marks = Sequence[tuple[str, Rows]]


class AddedRows(NamedTuple):
    """Rows of one run, read and added up, but not yet compared with the rows that the stream has
    counted.

    Attributes:
        settled: the complete job with its open state (database).
        tally: sums and numbers of all rows, by window and group.
        labels: labels of groups that are found in the data; None if groups are declared.
        bounder: object that chooses the rows that count; None if users' contributions are not
            bounded and rows have no ids.
        marks: digest of each file, by which later runs recognise it; empty if files of the stream
            are not recognised.
        counts: exact numbers of the rows as read.
        until: time up to which windows are released, in microseconds since 1970; None for a table
            released once.
        ended: number of windows that have ended by then; for a table released once, 1.
        columns: names of the columns of the events of a new stream; else empty.
    """

    settled: SettledJob
    tally: Private[Tally]
    labels: Private[FoundLabels] | None
    bounder: ContributionBounder | None
    marks: Private[Marks]
    counts: Private[Counts]
    until: int | None
    ended: int
    columns: tuple[str, ...] = ()

    def beside(self, stream: Stream | None) -> Changes:
        """Compare the rows with those that a stream has counted, and return the changes that the
        run makes; None: a new stream.

        Raises:
            ReplayMismatch: a file was counted before.
            SumOverflow: sums would not be exact.
        """
        job, definition = self.settled.job, self.settled.definition
        # Another process may have run since the state was read.
        before = 0 if stream is None else stream.step
        again, marks = self._new_marks(stream)
        tallied = open_private(self.tally)
        cells, chosen, over = tallied.cells, None, 0
        # Of users the state knows which rows have counted, so late rows are new ones in any file.
        covered, inside = windows_covered_by(job, definition, before, self.ended, self.until), None
        outside = 0
        if covered is not None and job.rows.covers is not None:
            # Later windows are not due yet, and a later run counts them.
            outside = int(cells.filter(pl.col("step") < covered.start)["rows"].sum())
        if covered is not None and self.bounder is not None and definition.cut.goes_on:
            # Known rows and slots say what changes; a run without a new step keeps nothing.
            inside = range(max(covered.start, before + 1 - definition.cut.lags), covered.stop)
            covered = None
        if again or (inside is not None and self.ended <= before):
            cells = cells.head(0)
        elif self.bounder is not None and before and not definition.cut.goes_on:
            # All rows are given again, and the choice of counted rows is the earlier one.
            whole = open_private(self.bounder.choose(None, 0))
            cells, over = whole.cells, whole.over
        elif self.bounder is not None:
            chosen = open_private(self.bounder.choose(stream, before, inside))
            cells = chosen.cells
        labels = None
        if self.labels is not None:
            cells, chosen, labels = self._counted_labels(stream, cells, chosen)
        only_new = covered is None
        groups = len(definition.groups) * definition.sums.places
        if labels is not None:
            groups = max(1, labels[0] + len(labels[1])) * definition.sums.places
        intake = self._intake(stream, cells, groups, covered)
        source_name = open_private(self.settled.source).name
        self._refuse_missing_rows(source_name, before, intake, chosen, inside)
        change = None
        if self.bounder is not None and chosen is not None:
            change = open_private(self.bounder.change(Private(chosen), max(self.ended, before)))
        adds = definition.sums.rule  # a row of a statistic may add to several places
        each = 1 if adds is None else len(adds.entries(pl.col("total")))
        known = chosen if job.rows.append else None  # of all events nearly all are known
        read = open_private(self.counts)
        gone = intake.gone // each if chosen is None else chosen.gone
        counts = replace(
            read,
            outside=outside // each,
            late=intake.waiting // each,
            gone=gone if repeats_all_rows(job) else 0,
            taken_back=0 if chosen is None else chosen.taken_back,
            shut=intake.shut // each,
            differing=[
                WindowRows._make((one.step, *(many // each for many in one[1:-1]), one.counts))
                for one in intake.differing
            ],
            beyond_most=over if chosen is None else chosen.over,
            known=0 if known is None else known.known,
            closed=intake.closed // each if known is None else known.closed,
            late_by=intake.late_by,
            empty=max(min(read.empty, self.ended - max(before, intake.newest)), 0),
        )
        arrivals = None
        if definition.cut.goes_on and (only_new or intake.target > intake.released):
            kept = Arrivals() if stream is None or not only_new else open_private(stream.arrivals)
            found = intake.arrived // each, intake.late // each
            arrivals = Arrivals(kept.arrived + found[0], kept.late + found[1])

        def additions(empty: bool) -> Iterator[tuple[float, Private[Addition]]]:
            """Yield a pair for each transaction to write: the progress before it, as the fraction
            (0 to 1) of new steps already written, and the content of the transaction.

            The content has sums of ended windows, and numbers of rows read in all changed windows.
            If ``empty``, a transaction is yielded even if nothing has changed.

            There is a single transaction in two cases. If a file has only the events that are new
            since the last run, it can be given only once. If users' rows are bounded or rows have
            ids, the digests of counted users or ids are written once.
            """
            new = range(intake.released + 1, intake.target + 1)
            size = max(1, len(new) if only_new else _CHUNK // max(1, intake.groups))
            for steps in [new[at : at + size] for at in range(0, len(new), size)] or [new]:
                if not (new or marks or empty or intake.changed.any()):
                    return
                first, inputs = steps.start == new.start, None
                if new:
                    inputs = definition.measure(intake.inputs(steps))
                # A file is recorded in the first transaction, since part of it is counted then.
                once = (marks, change, labels) if first else ((), None, None)
                observed = intake.observations(steps, first=first, last=steps.stop == new.stop)
                done = (steps.start - new.start) / max(len(new), 1)
                yield done, Private(Addition(inputs, observed, *once, arrivals=arrivals))

        if not (marks or intake.changed.any() or intake.target > intake.released):
            counts = replace(counts, unlisted=())  # an earlier run has named them
        return Changes(Private(counts), additions, again)

    def _refuse_missing_rows(
        self,
        source_name: str,
        released: int,
        intake: Intake,
        chosen: ChosenRows | None,
        inside: range | None,
    ) -> None:
        """Refuse rows from which those that were counted before are missing.

        Args:
            source_name: name of the input, for messages.
            released: number of steps released before this run.
            intake: the comparison with the sums that the stream has kept.
            chosen: the rows that count within the bounds of their users, or by their ids.
            inside: the open windows of which the input holds all rows of users; else None.

        Raises:
            InvalidInput: an open window keeps less than half of its rows, or all rows that were
                counted before are missing.
        """
        job, definition = self.settled.job, self.settled.definition
        open_windows: Sequence[KeptRows] = ()
        if chosen is not None:
            if chosen.all_missing and (inside is not None or repeats_all_rows(job)):
                refuse_other_names(job, source_name, definition.columns)
            open_windows = chosen.open_windows
        elif self.ended > released:  # else the run keeps nothing of its input
            if intake.lacks_all and job.rows.covers is None:
                refuse_other_rows(job, source_name)
            open_windows = [
                KeptRows(window.step, window.before, window.now)
                for window in intake.differing
                if window.counts
            ]
        refuse_shrunk_windows(job, definition.cut, source_name, open_windows)

    def _new_marks(self, stream: Stream | None) -> tuple[bool, tuple[str, ...]]:
        """Return whether earlier runs have counted all files of new events, and the digests (hashes
        of contents) of the files that are not counted yet.

        Raises:
            InvalidInput: windows would be released although all files were counted before, and the
                job does not permit that (``yes``).
            ReplayMismatch: another run has counted a file of new events meanwhile.
        """
        job, given = self.settled.job, open_private(self.marks)
        has: Counted = (lambda _: False) if stream is None else cache(stream.has_source)
        once = self.settled.definition.by_bytes  # else rows have ids, and count once
        known = [mark for mark, _ in given if has(mark)]
        again = once and bool(given) and len(known) == len(given)
        windows = self.ended - (0 if stream is None else stream.step)
        if again and windows > 0 and not job.times.yes:
            have = "has" if len(given) == 1 else "have"
            would = "window would" if windows == 1 else "windows would"
            raise InvalidInput(
                f"{open_private(self.settled.source).name} {have} been counted already, and "
                f"{windows:,} more {would} be released without any new event; give the file of the "
                f"new events, or {field('yes', True)} if nothing happened"
            )
        if once:
            refuse_other_bytes(job, given, has)
        nothing = again or not open_private(self.tally).rows
        for mark, part in given if once and not nothing else ():
            if mark in known:
                raise ReplayMismatch(
                    f"{part.name} has been counted already ({mark[:18]}...); {part.again}"
                )
        # The content of a file must not decide whether the file may come again.
        new = [] if nothing else [(mark, part) for mark, part in given if mark not in known]
        named = (_name_mark(part) for _, part in new if part.place is not None)
        marks = (*(mark for mark, _ in new), *(name for name in named if not has(name)))
        return again, tuple(dict.fromkeys(marks))

    def _counted_labels(
        self, stream: Stream | None, cells: pl.DataFrame, chosen: ChosenRows | None
    ) -> tuple[pl.DataFrame, ChosenRows | None, tuple[int, tuple[str, ...]]]:
        """Leave out new labels (names of groups found in the data) under which no row counts, and
        renumber the cells of the remaining groups.

        Return the sums, the chosen rows, the number of labels that the state (database) has
        already, and the remaining new labels.

        Raises:
            StreamConflict: the state has other labels than at the beginning of this run.
        """
        assert self.labels is not None
        known, new = open_private(self.labels)
        if stream is not None and open_private(stream.labels()) != known:
            raise StreamConflict(
                f"another process has counted in stream {stream.name!r} in the meantime, so "
                "nothing was released here: run the same command again"
            )
        # Rows of final windows count nowhere, and a user may have any number of them. Of an input
        # of whole windows, only those count that this run releases.
        definition, released = self.settled.definition, 0 if stream is None else stream.step
        counts = pl.col("step") >= definition.cut.first_open(released)
        if definition.changes is not None:
            counts = pl.col("step").is_between(released + 1, self.ended)
        counted, each = cells.filter(counts), definition.sums.places
        used = np.unique(counted["group"].to_numpy() // each)
        used = used[used >= len(known)]
        places = np.full(len(known) + len(new), -1, np.int64)
        places[: len(known)] = range(len(known))
        places[used] = len(known) + np.arange(len(used))
        group, place = np.divmod(cells["group"].to_numpy(), each)
        cells = cells.with_columns(pl.Series("group", places[group] * each + place))
        if chosen is not None:
            users = [
                part._replace(facts=(part.facts[0], places[part.facts[1]], *part.facts[2:]))
                for part in chosen.users
            ]
            chosen = replace(chosen, cells=cells, users=users)
        return cells, chosen, (len(known), tuple(new[place - len(known)] for place in used))

    def _intake(
        self, stream: Stream | None, cells: pl.DataFrame, groups: int, covered: range | None
    ) -> Intake:
        """Compare the sums of the rows (``cells``, by window and group) with those that the stream
        has kept, and check that new sums stay exact.

        Args:
            covered: windows of which the rows are all; None if the rows are new.

        Raises:
            SumOverflow: sums would not be exact.
        """
        definition, kept = self.settled.definition, cast("Observed", {})
        if stream is not None:
            # New rows are compared with the totals of their own windows, and of waiting windows.
            touched = cells["step"].unique().sort().to_numpy()
            if covered is not None:
                touched = np.arange(covered.start, covered.stop)
            kept = open_private(stream.observed_blocks(Private(touched)))
        intake = compare(
            kept,
            cells,
            released=0 if stream is None else stream.step,
            target=self.ended,
            groups=groups,
            measures=definition.sums.measures,
            covered=covered,
            cut=definition.cut,
            told="total" if getattr(definition.inner, "counts_units", False) else "rows",
        )
        if intake.cells["step"].any():  # sums without these were exact before
            taken = (0, 0.0) if stream is None else open_private(stream.amounts)
            alone = definition.strategy.facts.workload != "totals"
            refuse_inexact_rows(
                definition, *intake.largest_sums(definition.sums.places, alone=alone), *taken
            )
        return intake


def read_rows(
    settled: SettledJob, progress: Progress = silent, now: datetime | None = None
) -> AddedRows:
    """Read the rows of a completed job, and add them up. Nothing is written but the
    file of bad rows that are set aside.

    Args:
        settled: the completed job, from `resolve`.
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.
        now: current time with a zone; None: the time at which a query with ``{since}`` or
            ``{until}`` was asked, else this machine's clock.

    Raises:
        InvalidInput: a column is missing, a row is refused, or the wanted windows have not ended.

    >>> import polars as pl
    >>> from counton.run.settlement import resolve
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T11:30"]})
    >>> job = Job(
    ...     "count", rows, "a-state-that-is-new.db", time="at", every="1d", start="2024-03-01",
    ...     steps=365, until="2024-03-03", epsilon=1
    ... )
    >>> with resolve(job) as settled:
    ...     found = read_rows(settled)
    >>> found.ended, found.tally
    (2, Private[Tally])
    """
    progress("reading events", 0.25)
    now = settled.asked_at if now is None else now
    job, definition, saved = settled.job, settled.definition, settled.saved
    source = open_private(settled.source)
    if definition.by_bytes:
        counted = (lambda _: False) if saved is None else saved.has_source
        if are_several(job.events) and not isinstance(source, Spread):
            given = [(_mark(part, definition), part) for part in source.parts]
            refuse_other_bytes(job, given, counted)
        if len(source.parts) > 1:
            source = new_files(source, definition, counted)
    try:
        labels, bounder, found, marks = _read(settled, progress, source)
    except UnreadableRow:  # the others are read again, if the job sets such rows aside
        source = source.sift(definition.columns.names, job.format.policies().unread)
        labels, bounder, found, marks = _read(settled, progress, source)
    for part in source.parts:
        if part.has_changed():
            raise change_error(part)
    released = None if saved is None else saved.step
    until, ended, empty = ended_steps(job, definition, source, found, released, now)
    tallied = open_private(found)
    counts = Counts(
        *(tallied.rows, tallied.before, tallied.beyond, tallied.unknown),
        *(tallied.skipped, tallied.quarantined),
        empty=empty,
    )
    if definition.columns.group is not None and definition.cells.named_beforehand:
        others = 0
        if definition.other is not None:
            cells = tallied.cells["group"] // definition.sums.places
            others = int((cells == (definition.domain or ()).index(definition.other)).any())
        if counts.unknown or others:
            rows, names = unlisted_names(source, reading_of(job, definition))
            counts = replace(counts, others=others * rows, unlisted=names)
    columns = () if saved is not None else tuple(source.columns())
    counted_rows = Private(counts)
    return AddedRows(settled, found, labels, bounder, marks, counted_rows, until, ended, columns)


#: Function that returns whether a stream has counted the file with a digest.
Counted = Callable[[str], bool]


def _mark(part: Rows, definition: Definition) -> str:
    return f"sha256:{part.digest(definition.columns.names)}"


def _name_mark(part: Rows) -> str:
    place = str(part.place).encode("utf-8", "backslashreplace").decode()
    return f"name:{place}"


def refuse_other_bytes(job: Job, marks: Marks, counted: Counted) -> None:
    """Refuse a file of a folder or pattern that has the name of a counted file and other bytes.

    Args:
        marks: digest of each file.
        counted: function that returns whether the stream has counted a file with a digest, or under
            a name.
    """
    for mark, part in marks if are_several(job.events) else ():
        if part.place is not None and not counted(mark) and counted(_name_mark(part)):
            raise InvalidInput(
                f"{part.name} was counted with other bytes, and its rows would count a second "
                "time: put the file back as it was counted, or leave it out; if all its rows are "
                "new, give it a name that no counted file has. Wrong rows that were counted are "
                f"mended by a new stream ({field('name')}) over all corrected files"
            )


def new_files(source: Source, definition: Definition, counted: Counted) -> Source:
    """Return a source without files that repeat another file, and without files that are counted
    already. If all files are counted, only the repeats are left out.

    So if a folder gets a new file every night, only that file is read.
    """
    if isinstance(source, Spread) or source.accepted:
        return source
    one_of: dict[str, Rows] = {}
    for part in source.parts:
        one_of.setdefault(_mark(part, definition), part)
    new = [part for mark, part in one_of.items() if not counted(mark)] or [*one_of.values()]
    return source.without([part for part in source.parts if part not in new])


def _read(
    settled: SettledJob, progress: Progress, source: Source
) -> tuple[Private[FoundLabels] | None, ContributionBounder | None, Private[Tally], Private[Marks]]:
    """Read the rows of a run, and return four things: labels (group names), the object that chooses
    the rows that count, the sums of all rows, and digests of the files.

    The labels are None if groups are declared. The object that chooses rows is None if users'
    contributions are not bounded and rows have no ids.
    """
    job, definition, saved = settled.job, settled.definition, settled.saved
    reading = reading_of(job, definition)
    by, labels, bounder = definition, None, None
    if not definition.cells.named_beforehand:
        labels = labels_in(source, reading, Private(()) if saved is None else saved.labels())
        # The stream's memory names none of them.
        by = replace(definition, domain=GroupNames(open_private(labels).all))
    if definition.counting.users or definition.columns.id is not None:
        from counton.run.contribution_bounds import ContributionBounder

        secret = None if saved is None else saved.secret()
        released = 0 if saved is None else saved.step
        parted = definition.counting.users and definition.changes is not None
        bounder = ContributionBounder(by, secret, job.rows.append, released, parted)
    start, said, read = monotonic(), 0.0, 0

    def watch(rows: int) -> None:
        """Report the number of rows read so far and the speed of reading, at most three times a
        second.
        """
        nonlocal said, read
        seconds, read = monotonic() - start, read + rows
        if seconds > said + 0.3:
            said = seconds
            progress(f"read {read:,} rows, {read / seconds / 1e6:.1f} million a second", 0.25)

    held = None if bounder is None else bounder.held
    told = None if progress is silent else watch
    found = tally(source, reading, by.domain, bound=held, watch=told)
    # Bytes are hashed here, so that the digest is that of the counted bytes.
    recognised = source.live or (definition.by_bytes and not source.accepted)
    marks = Private([(_mark(part, definition), part) for part in source.parts if recognised])
    return labels, bounder, found, marks


def reading_of(job: Job, definition: Definition) -> RowReading:
    """Return the options by which `tally`, the function that adds rows up, reads a job's rows."""
    return RowReading(
        definition.columns,
        definition.cut,
        cast(Unknown, definition.cells.policy or job.groups.unknown or "refuse"),
        definition.sums.rule,
        cast(ClockChange, job.format.clock_change or "raise"),
        job.format.time_format,
        declared=definition.groups,
        other=definition.other,
        policies=job.format.policies(),
    )
