"""One run of a job: read events, release the windows that have ended, keep track."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as attribute
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import (
    CountonError,
    InvalidInput,
    StateError,
    StreamConflict,
    WrongKey,
    field,
)
from counton.events.files import (
    EventFile,
    Source,
    UnreadableRow,
    event_paths,
    is_file,
    joined,
    names_tell_format,
    open_source,
    refuse_among_events,
)
from counton.events.policies import Policies
from counton.events.tally import Reading, Tally, changed, tally
from counton.jobs import clock
from counton.jobs.again import is_counted, marks_of_all, new_marks, refuse_alike, without_counted
from counton.jobs.changes import (
    Counted,
    Counts,
    additions,
    compared,
    counts,
    for_operator,
    only_counted,
    seen,
    sums_of,
)
from counton.jobs.definition import (
    Asked,
    Definition,
    amend,
    ask,
    check,
    define,
    refuse_ended,
    refuse_of_ordered,
)
from counton.jobs.job import Job, checked
from counton.jobs.progress import Progress, silent
from counton.jobs.released import (
    SHOWN,
    fit_of,
    known_totals,
    read_cells,
    read_released,
    refuse_other_fit,
)
from counton.jobs.statements import (
    is_numbered,
    is_once,
    label_columns,
    name_of,
    statistic_class,
)
from counton.options import ROWS, OwnColumns, listed
from counton.privacy import Guarantee
from counton.privacy.contribution import checked_unit
from counton.private import Private
from counton.store import Store, Stream, state_file
from counton.store.database import Closing, Within
from counton.store.keyfile import state_files
from counton.store.store import Found
from counton.store.units import Known, inherited
from counton.windows import microseconds

if TYPE_CHECKING:
    from counton.jobs.people import Bounding
    from counton.results.release import Release
    from counton.results.shown import Shown

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Outcome(Closing):
    """What a run did. Close it, or use it in a ``with`` block: it holds the stream open.

    Attributes:
        definition: of the stream.
        stream: to read the journal from.
        before, after: steps released before and after the run.
        until: microseconds; windows that ended by then are released.
        until_stated: it is not the newest event's time.
        counts: of rows: see `for_operator`.
        again: these new events have been counted by an earlier run, so nothing was done.
    """

    definition: Definition
    stream: Stream
    before: int
    after: int
    until: int | None
    until_stated: bool
    counts: Private[Counts] = attribute(repr=False)
    again: bool = False

    def for_operator(self) -> Counts:
        """Exact numbers of rows, for whoever may see the events: not for what is published."""
        return for_operator(self.counts)

    def released(self, level: float | None = None, shown: Shown | None = None) -> Release:
        """Everything released so far, from the journal, with intervals of confidence ``level``.

        Args:
            level: probability with which each interval holds; None: that of the stream's files.
            shown: of a statistic, what is shown of its readings; None: what was shown before.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9, or what the statistic does
                not have.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from counton.jobs import Job, run
        >>> folder = tempfile.TemporaryDirectory()
        >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
        >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
        >>> request = Job(
        ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
        ...     until="newest",
        ...     epsilon=1
        ... )
        >>> with run(request) as outcome:
        ...     outcome.released(level=0.9).table().select("step", "window_end").rows()[0]
        (1, datetime.datetime(2024, 3, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))
        >>> folder.cleanup()
        """
        return read_released(self.stream, self.definition, level, shown)

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


def run(
    request: Job,
    progress: Progress = silent,
    *,
    approve: Callable[[Definition], None] | None = None,
    commit: Within | None = None,
    now: datetime | None = None,
) -> Outcome:
    """Read, check, release, and keep what was seen.

    Everything that can be wrong with the request or the events is found before the state is
    touched.

    Args:
        request: what is asked.
        progress: told where the run is.
        approve: shown what defines the stream before events are read; what it raises ends the run.
        commit: called in the transaction of a run over new events, in any order, to a stream that
            there is, before anything is committed: what it does is committed with the rest, and
            what it raises undoes all. Called once, also where the rows change nothing.
        now: what the clock says, aware; None: that of this machine.

    Raises:
        InvalidInput: the request or the data is outside what is allowed.
        StateError: the state does not fit what was asked.
        ReplayMismatch: rows have disappeared, or a file was counted before.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-01T11:30\\n2024-03-03T10:15\\n")
    >>> request = Job(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest",
    ...     epsilon=1
    ... )
    >>> with run(request) as outcome:
    ...     outcome.before, outcome.after, outcome.released().own.estimates.shape
    (0, 2, (2, 1))
    >>> with run(Job("count", events, state, until="2024-03-04")) as outcome:
    ...     outcome.before, outcome.after, outcome.for_operator().late
    (2, 3, 0)
    >>> folder.cleanup()
    """
    request = _with_totals(checked(request))
    progress("choosing a strategy", 0.05)
    store, saved = _look(request)
    request = request if saved is None else _as_before(request, saved)
    try:
        return _run(request, store, saved, progress, approve, commit, now)
    except BaseException:
        if store is not None:
            store.close()
        raise


def is_known(request: Job) -> bool:
    """Whether a job's state has its stream.

    Raises:
        StateError: the state cannot be read.

    >>> is_known(Job("count", "visits.csv", "a-state-that-is-new.db"))
    False
    """
    store, saved = _look(request)
    if store is not None:
        store.close()
    return saved is not None


def ended_at(request: Job) -> int | None:
    """The step at which a job's stream was ended; None where it goes on, or is new.

    Raises:
        StateError: the state cannot be read.

    >>> ended_at(Job("count", "visits.csv", "a-state-that-is-new.db"))
    """
    store, saved = _look(request)
    if store is not None:
        store.close()
    return None if saved is None else saved.details.get("ended")


#: What a stream remembers of the jobs that released it, besides what defines it and what is shown
#: of it (`SHOWN`). A later job that leaves a policy out, or what is shown, has it again; one that
#: says nothing of outputs has those of the last job that wrote a file.
POLICIES = (
    *("watermark", "unknown", "bad_rows", "bad_rows_most", "missing", "late"),
    *("clock_change", "time_format", "file_format"),
)
OUTPUTS = ("out", "plot", "sums", "title", "axis", "source", "width", "room")
_PATHS = ("out", "plot", "bad_rows")


def recalled(job: Job) -> Job:
    """A job with what the stream remembers of earlier ones, where it says nothing else.

    Raises:
        StateError: the state cannot be read.

    >>> recalled(Job("count", "visits.csv", "a-state-that-is-new.db")).watermark is None
    True
    """
    job = _with_totals(job)
    store, saved = _look(job)
    if store is None:
        return job
    store.close()
    return job if saved is None else _as_before(job, saved)


def _with_totals(job: Job) -> Job:
    """A job with its known totals themselves, where it names a file of them: that file may change.

    Raises:
        InvalidInput: a file that is no such table, or that of the rows.
    """
    if not isinstance(job.known, str | os.PathLike):
        return job
    files = job.events if isinstance(job.events, list | tuple) else [job.events]
    private = [one for one in files if isinstance(one, str | os.PathLike) and is_file(str(one))]
    if any(EventFile(one).has_bytes_of(job.known) for one in private):
        raise InvalidInput(
            f"{field('known', os.fspath(job.known))} is the file of the private rows; known totals "
            f"are kept as they are, so they must be public"
        )
    levels = job.given("levels")
    named = None if levels is None else listed(levels)
    from counton.jobs.public_tables import totals_of

    totals = totals_of(job.known, named)
    return replace(job, known=[[list(path), total] for path, total in totals.items()])


def _as_before(job: Job, saved: Found) -> Job:
    """See `recalled`."""
    kept = saved.details.get("remembered", {})
    defaults = {item.name: item.default for item in fields(Job)}
    own = any(job.given(name) != defaults.get(name) for name in OUTPUTS)
    told = {
        name: value
        for name, value in kept.items()
        if job.given(name) == defaults.get(name) and not (own and name in OUTPUTS)
    }
    if "file_format" in told and names_tell_format(job.events):
        del told["file_format"]  # of files whose names say nothing
    return job.having(**told) if told else job


def _remembered(job: Job, before: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be remembered of a job, as JSON values; of paths where they are.

    Args:
        job: which.
        before: what is remembered of earlier ones.
    """
    defaults = {item.name: item.default for item in fields(Job)}
    writes = any(getattr(job, name) is not None for name in ("out", "plot", "sums"))
    found = {} if writes else {name: before[name] for name in OUTPUTS if name in before}
    if job.file_format is None and "file_format" in before:
        found["file_format"] = before["file_format"]  # for nights whose files need it again
    for name in (*POLICIES, *SHOWN, *(OUTPUTS if writes else ())):
        value = job.given(name)
        if value == defaults.get(name) or (name == "unknown" and value == "discover"):
            continue
        if name == "known":
            value = [[list(path), total] for path, total in known_totals(value)]
        elif name in _PATHS:
            start, quarantine, path = os.fspath(value).rpartition("quarantine:")
            value = start + quarantine + os.path.abspath(path)
        elif isinstance(value, list | tuple):
            value = [str(one) for one in value]
        found[name] = value
    return found


def _check_quarantine(file: Path, request: Job) -> None:
    """Refuse to set rows aside in a file that the run reads or keeps, or would read the next time.

    Raises:
        InvalidInput: naming it.
    """
    from counton.jobs.outputs import check_output

    read = [Path(path) for path in event_paths(request.events, request.file_format) if path != "-"]
    check_output(file, (".csv",), inputs=[*state_files(request.state, request.key), *read])
    refuse_among_events(request.events, file)


def _look(request: Job) -> tuple[Store | None, Found | None]:
    """The state, if there is one yet, and what it says of the stream; not yet as its writer."""
    place = state_file(request.state)
    if place is not None and not place.exists():
        return None, None
    store = Store(request.state, create=place is None)
    try:
        return store, store.find(request.name)
    except BaseException:
        store.close()
        raise


def _run(
    request: Job,
    store: Store | None,
    saved: Found | None,
    progress: Progress,
    approve: Callable[[Definition], None] | None,
    commit: Within | None,
    now: datetime | None,
) -> Outcome:
    dropped = 0
    if saved is not None:
        definition = Definition.reopen(saved.terms, saved.details)
        definition = amend(definition, request, saved.step)
        refuse_ended(definition, request.name)
        if definition.once:
            refuse_other_fit(request.name, fit_of(definition.remembered), fit_of(vars(request)))
    else:
        definition = None
        if request.continues is not None:
            from counton.jobs import succession

            request, predecessor, end = succession.succeed(request, store)
            dropped = end.dropped
    kept_label = None if definition is None else definition.stated.get("label")
    named_so = definition is not None and name_of(request.what) == definition.what
    its_rows = named_so and kept_label == ROWS
    if its_rows or (definition is None and is_numbered(request)):
        from counton.jobs.public_tables import numbered

        value = None if definition is None else definition.stated.get("value")
        request = numbered(request.having(value=request.given("value") or value))
    policies = Policies.read(request.bad_rows, request.bad_rows_most, request.missing)
    told_apart = isinstance(request.events, Source) and request.events.checked
    if policies.quarantine is not None and not told_apart:
        _check_quarantine(policies.quarantine, request)
    source = None
    if _reads_domain(request):  # whose cells are read from the domain
        source = open_source(request.events, request.file_format)
        _refuse_events_as_domain(request, definition, source)
    asked = ask(request, definition)
    if source is None and not _is_text(asked, definition):
        source = open_source(request.events, request.file_format)
        _refuse_events_as_domain(request, definition, source)
    if definition is None:
        in_any_order = asked.statistic is not None and asked.statistic.tallied
        if in_any_order and (request.time is not None or asked.once):
            named = _named(asked.request, () if store is None else store.units)
            asked = asked._replace(request=named)
        definition = define(asked)
        if request.continues is not None:
            definition = succession.continued(definition, request.continues, predecessor, end.step)
    else:
        check(definition, asked)
    if source is not None:
        source = joined(source if saved is None else source.settled(), definition.columns.group)
    if (fit := fit_of(vars(request))) is not None:
        from counton.results.shown import check_fit

        check_fit(fit, definition.inner)
        if fit.known and not definition.once:
            raise InvalidInput(
                f"{field('known')} is of a table that is released once, and this one grows; leave "
                f"it out, or leave {field('time')} out"
            )
    kept = _remembered(request, definition.remembered)
    if definition.statistic.on_demand:  # what is asked of it is asked anew
        kept = {name: value for name, value in kept.items() if name in POLICIES}
    definition = replace(definition, remembered=kept)
    if approve is not None:
        approve(definition)
    progress("reading events", 0.25)
    if definition.ordered:
        return _run_ordered(
            request, asked, definition, source, store, saved, policies, progress, now
        )
    assert source is not None
    if store is not None and saved is not None and request.append:
        source = without_counted(source, definition, partial(store.has_source, request.name))
    reading = reading_of(request, asked, definition, policies)
    new = store is None or saved is None
    known_labels = Private(()) if store is None or new else store.labels(request.name)
    watch = None if progress is silent else _Counted(progress)

    def read(source: Source) -> tuple[Counted, Bounding | None]:
        labels, by = None, definition
        if definition.discovery is not None:
            from counton.jobs import discovery

            labels = discovery.labels_in(source, reading, known_labels)
            by = discovery.counted_by(definition, labels)
        bounding = _bounding(request, by, store, saved)
        held = None if bounding is None else bounding.hold(source)
        found = tally(source, reading, by.domain, bound=held, watch=watch)
        return Counted(labels, found, None), bounding

    try:
        rows, bounding = read(source)
    except UnreadableRow:
        source = source.sifted(definition.columns.names, policies.unread)
        rows, bounding = read(source)
    marks = marks_of_all(source, request, definition, sums_of(rows.found))
    one_by_one = definition.columns.id is not None
    sums = () if one_by_one or source.comes_once else sums_of(rows.found)
    if (part := source.changed()) is not None:
        raise changed(part)
    released = None if saved is None else saved.step
    until, ended = _ended(request, definition, source, rows.found, released, now)
    if store is None or saved is None:
        chosen = None if bounding is None else bounding.choose(None, 0)
        rows = only_counted(rows._replace(chosen=chosen))
        intake = compared(None, definition, rows, ended=ended, append=request.append)
        if store is not None:
            store.close()
        stream = _create(request, definition)
        if definition.continues is not None:
            succession.end_stream(request.state, definition.continues.name, confirmed=True)
    else:
        if definition.continues is not None:  # a run may have been killed before it did so
            from counton.jobs.succession import end_stream

            end_stream(store, definition.continues.name, confirmed=True)
        stream = Stream.open(store, request.name, key=request.key)
    try:
        if rows.labels is not None:
            from counton.jobs import discovery

            discovery.refuse_others(stream, rows.labels)
        before = stream.step  # another process may have released since the state was read
        again, has = False, stream.has_source
        once = request.append and not one_by_one
        if once and is_counted(source, marks, has, before, ended):
            again, bounding = True, None
        whole = None
        if definition.once and before and bounding is not None:
            # All rows are given again, and those that count are chosen as they were then.
            whole, bounding = bounding.choose(None, 0), None
        if not new:
            chosen = None if bounding is None else bounding.choose(stream, before)
            suspect = once and not again and not request.confirmed
            rows = only_counted(rows._replace(chosen=chosen), again=again, whole=whole)
            intake = compared(
                stream,
                definition,
                rows,
                ended=ended,
                append=request.append,
                suspect=source if suspect else None,
            )
            if suspect:
                refuse_alike(source, marks, sums, has)
        # Whether anything in a file counts must not decide whether it may come again.
        sources: tuple[str, ...] = ()
        if not rows.empty and not again:
            sources = new_marks(source, marks, sums, has, once=once)
        remembered = None
        if bounding is not None and rows.chosen is not None:
            remembered = bounding.change(rows.chosen, max(ended, before))
        if saved is not None and stream.details != definition.details:  # nothing is refused below
            stream.amend(definition.details)
        for done, addition in additions(
            definition,
            intake,
            sources=sources,
            append=request.append,
            labels=rows.labels,
            remembered=remembered,
            empty=commit is not None,
        ):
            progress("releasing", 0.4 + 0.3 * done)
            stream.take(addition, also=commit)
        if saved is not None:
            _publish(stream)
    except BaseException:
        stream.close()
        raise
    told = counts(definition, rows, intake, append=request.append, dropped=dropped)
    stated = clock.is_stated(request.until)
    return Outcome(definition, stream, before, stream.step, until, stated, told, again)


def _refuse_events_as_domain(request: Job, definition: Definition | None, source: Source) -> None:
    """Groups read from the events would say whose events are in them."""
    if request.domain is None:
        return
    from counton.jobs.private_domain import refuse_events_as_domain

    columns: Any = request if definition is None else definition.columns
    by = request.by if definition is None else columns.group
    named = {*listed(by or ()), request.given("value"), *label_columns(request)}
    if definition is not None:
        named |= {*map(definition.called, definition.parts.names)}
    people = [name for name in (columns.user, columns.id) if name is not None]
    refuse_events_as_domain(
        request.domain,
        source,
        columns.time or None,
        request.time_format,
        named=[name for name in named if name is not None],
        people=people,
        once=is_once(request) if definition is None else definition.once,
        same=request.domain is request.events,
    )


def _reads_domain(request: Job) -> bool:
    """Whether the domain is of a statistic's own cells, and not of groups of rows."""
    reads = statistic_class(request.what).reads if isinstance(request.what, str) else ()
    return "domain" in reads and "by" not in reads


def _is_text(asked: Asked, definition: Definition | None) -> bool:
    """Whether the events are the letters of a text, which has no columns."""
    statistic = asked.statistic if definition is None else definition.statistic
    parts = asked.parts if definition is None else definition.parts
    return statistic is not None and statistic.of_letters and parts == OwnColumns()


def _run_ordered(
    request: Job,
    asked: Asked,
    definition: Definition,
    source: Source | None,
    store: Store | None,
    saved: Found | None,
    policies: Policies,
    progress: Progress,
    now: datetime | None,
) -> Outcome:
    """The same where rows are taken one after the other."""
    from counton.jobs.ordered_rows import (
        Taking,
        columns_of,
        fitting,
        numbers_of_rows,
        read_letters,
        read_rows,
    )

    released = None if saved is None else saved.step
    refuse_of_ordered(request, definition.statistic, each_row=definition.each_row)
    if source is None:
        rows = read_letters(request, definition.statistic)
    else:
        try:
            rows = read_rows(request, definition, source, policies)
        except UnreadableRow:
            source = source.sifted(columns_of(definition), policies.unread)
            rows = read_rows(request, definition, source, policies)
    if source is not None and (part := source.changed()) is not None:
        raise changed(part)
    if source is not None and len(source.parts) > 1:
        marks_of_all(source, request, definition, numbers_of_rows(source, definition))
    fitted = fitting(rows, definition, released)
    ended = fitted.steps
    until: int | None = None
    if definition.cut is not None:
        assert source is not None
        until, ended = _ended(request, definition, source, fitted.found, released, now)
    taking = Taking(definition, fitted.events, ended, late=request.late)
    if store is None or saved is None:
        taking.tried()
        if store is not None:
            store.close()
        stream = _create(request, definition)
    else:
        stream = Stream.open(store, request.name, key=request.key)
    try:
        before = stream.step
        if saved is not None and stream.details != definition.details:
            stream.amend(definition.details)
        taking.release(stream, progress)
        if saved is not None:
            _publish(stream)
    except BaseException:
        stream.close()
        raise
    stated = clock.is_stated(request.until)
    steps = before, stream.step
    return Outcome(definition, stream, *steps, until, stated, fitted.counts)


def _bounding(
    request: Job,
    definition: Definition,
    store: Store | None,
    saved: Found | None,
) -> Bounding | None:
    """The choice of rows, where users are bounded or rows have ids."""
    if definition.people is None and definition.columns.id is None:
        return None
    from counton.jobs.people import Bounding

    secret = None
    if store is not None and saved is not None:
        secret = store.secret(request.name, request.key)
    return Bounding(definition, secret, request.append, request.confirmed)


def reading_of(request: Job, asked: Asked, definition: Definition, policies: Policies) -> Reading:
    """How the rows of a job are read.

    Args:
        request: the job.
        asked: what it asks.
        definition: of its stream.
        policies: for rows that cannot be counted.
    """
    return Reading(
        definition.columns,
        definition.windows,
        "discover" if definition.discovery is not None else asked.unknown,
        definition.adds,
        asked.clock_change,
        request.time_format,
        declared=definition.groups,
        other=definition.other,
        since=definition.since,
        policies=policies,
    )


class _Counted:
    """Says how many rows have been read, and how fast, a few times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._start, self._said, self._rows = progress, monotonic(), 0.0, 0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        seconds = monotonic() - self._start
        if seconds > self._said + 0.3:
            self._said = seconds
            rate = self._rows / seconds / 1e6
            self._progress(f"read {self._rows:,} rows, {rate:.1f} million a second", 0.25)


def _named(request: Job, known: Sequence[Known]) -> Job:
    """A new stream's request with the word by which its state counts what it protects.

    Raises:
        InvalidInput: see `units.inherited`.
    """
    kind = "event" if request.user is None else "user"
    unit = None if request.unit is None else checked_unit(request.unit)
    return replace(request, unit=inherited(known, kind, unit, kind))


def _publish(stream: Stream) -> None:
    """Add what is new where the stream is published in the state's own database."""
    from counton.store import published

    place = published.Place(stream.database, None)
    with place.transaction(write=False) as connection:
        known = published.found(connection, stream.name)
    if known is not None:
        from counton.jobs.publishing import publish_new

        publish_new(stream, place, None, read_cells)


def _ended(
    request: Job,
    definition: Definition,
    source: Source,
    found: Private[Tally],
    released: int | None,
    now: datetime | None,
) -> tuple[int | None, int]:
    """Until when windows are released, and how many have ended by then: see `clock.ended`."""
    if definition.once:
        return None, 1
    begin = microseconds(definition.windows.start)
    told = seen(found, source, released)
    if source.live and (told.newest is None or told.newest < begin):
        return begin, 0
    return clock.ended(
        request.until,
        definition.windows,
        told,
        confirmed=request.confirmed,
        watermark=request.watermark,
        now=now,
    )


def _create(request: Job, definition: Definition) -> Stream:
    """A new stream, where the run began without one.

    Raises:
        StreamConflict: another process made it in the meantime.
    """
    try:
        return _created(request, definition)
    except (StateError, WrongKey) as error:
        try:
            with Store(request.state) as store:
                there = store.find(request.name) is not None
        except (CountonError, OSError):
            raise error from None
        if not there:
            raise
        raise StreamConflict(
            f"another process has just created stream {request.name!r} of this state, so nothing "
            f"was released here: run the same command again, and it goes on with that stream"
        ) from error


def _created(request: Job, definition: Definition) -> Stream:
    return Stream.create(
        request.state,
        request.name,
        definition.strategy,
        definition.guarantee,
        key=request.key,
        contribution=definition.contribution,
        shape=() if definition.statistic.in_terms else definition.shape,
        details=definition.details,
        counters=_counters(definition),
        statistic=definition.statistic if definition.statistic.in_terms else None,
        batched=not definition.each_row,
    )


def _counters(definition: Definition) -> Guarantee | None:
    if definition.discovery is None:
        return None
    from counton.mechanisms.discovery import counters_of

    return counters_of(definition.guarantee)
