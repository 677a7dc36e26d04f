"""Releases from Python: one call for every statistic, with the same states as the command line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack, cast

from counton.base.arguments import with_keywords
from counton.base.errors import (
    ChartWarning,
    CountonError,
    InvalidInputError,
    MissingOptionError,
    hide_secrets,
    param,
)
from counton.base.exact import quote, text
from counton.io.input_paths import left_in_folders
from counton.job.common_options import Job
from counton.job.incompatible import EXCLUSIONS_OF_GUARANTEE, refuse_of_command
from counton.job.statistic_objects import make_job
from counton.job.typed_kwargs import EventSource, JobOptions, StatisticName
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Guarantee, PureDP
from counton.results.release import Release
from counton.run.input_notes import differing_rows_note, number_missing
from counton.run.new_job.default_paths import default_state, is_named, state_beside
from counton.run.new_job.job_template import look_at, with_examples
from counton.run.progress import Progress, no_progress
from counton.run.run_job import RunResult, run
from counton.run.spec.terms import Revised, SingleTable
from counton.run.stream_notes import job_warnings
from counton.statistics import Statistic


@with_keywords(
    JobOptions, {"allow_empty_windows": False, "expiring": False, "simple": False, "append": False}
)
def release(
    what: StatisticName | Statistic | Job,
    /,
    events: EventSource | None = None,
    *,
    state: str | os.PathLike[str] | None = None,
    guarantee: Guarantee | None = None,
    progress: Progress = no_progress,
    **more: Unpack[JobOptions],
) -> Release:
    """Release a statistic of events after each window that has ended, under one guarantee.

    The statistic is a count, sum, average, quantile, distinct users, a table and others.
    ``group_by`` and ``groups`` split it by group. The function does what the command ``counton
    release`` does, and either can continue a stream that the other began. A later call may leave
    out options that define the stream, and may not contradict them.

    Args:
        what: a statistic, such as ``Average(0, 200, resolution=1)``; or its name in commands:
            "count", "sum", "average", "quantiles", "top-k", "distinct", ...; or a whole job, such
            as ``CountJob(events="visits.csv", every="1d", ...)``.
        events: a file, ``-``, a folder, a pattern, several of these, or a data frame that exports
            Arrow: polars (eager or lazy), pandas, pyarrow, DuckDB. One row per event.
        state: path of a SQLite file, made if missing, or a database URL. As secret as the events.
            None: a file beside the events, ``visits.counton.db`` for ``visits.csv``; for a data
            frame or a database ``counts.counton.db`` in the working folder. The same call again
            continues this state: it shows the same numbers and spends nothing more.
        guarantee: `PureDP`, `ApproxDP`, `ZCDP`, or for a stream without an end `ExpiringDP` or
            `ExpiringZCDP`; or its numbers: ``epsilon=``, ``delta=``, ``rho=``.
        progress: called with the name of the current task, and the fraction (0 to 1) of the run
            that is done.
        more: options of the job: the fields of `CountJob` and its siblings. A new stream needs
            ``time`` (column of the events' times), ``every`` (length of a window: ``"15m"``,
            ``"1h"``, ``"1d"``, ``"1w"``, ``"1mo"``, or a `timedelta`), ``start`` (of the first
            window) and ``windows`` (number of windows of the whole stream). ``value`` or
            ``columns`` name the columns that a statistic reads. ``group_by`` names the column of
            groups, or several. ``groups`` declares the groups, which are public knowledge: a list,
            or for several columns a mapping of lists. With ``user``, ``max_contributions`` and
            ``contribution_period``, at most so many events of a user count in each period, and a
            user is protected.

    Returns:
        All released steps; none if no window has ended. The exact numbers of late or omitted rows
        are not in it: `counton.run.run` returns them to the operator.

    Warns:
        JobWarning: a new stream's numbers may mislead, for example because users in several groups
            count in their first groups alone.

    Raises:
        CountonError: see `counton.run.run`; nothing was released or changed.

    >>> import polars as pl
    >>> from counton import Average, PureDP, release
    >>> visits = pl.DataFrame({
    ...     "time": ["2024-03-01T09:00", "2024-03-01T11:30", "2024-03-03T10:15"],
    ...     "page": ["home", "shop", "home"],
    ...     "paid": [20.5, 3.25, 7.0],
    ... })
    >>> stream = {
    ...     "time": "time", "every": "1d", "start": "2024-03-01", "windows": 365,
    ...     "until": "latest-event",
    ...     "group_by": "page", "groups": ["home", "shop"], "guarantee": PureDP(1),
    ...     "state": "visits.db",
    ... }
    >>> views = release("count", visits, **stream)
    >>> views.table().select("window_index", "group").rows()
    [(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')]
    >>> print(views.describe())
    count: 2 windows of 1d released
    privacy unit: one event more or less, counted in one group of one window by at most 1
      users are not protected: a user with 100 events loses 100 times the epsilon
      for each event that changes K times in later inputs (it disappears, returns, or moves to
      another window or group), the loss is up to (1 + K) times as large
    guarantee: pure differential privacy with epsilon = 1, for all releases of the stream together
    privacy loss: epsilon = 1 for each event, once for the whole stream, which is this series of
    releases: later releases add nothing; the losses of other streams about the same event add up
    mechanism: discrete Laplace noise, correlated over windows
    not in the intervals: rows that arrive after their day was released are not counted
    >>> paid = release(Average(0, 200, resolution=1), visits, value="paid", stream="paid", **stream)
    >>> paid.table().columns[3:]
    ['series', 'group', 'measure', 'estimate', 'noise_std', 'lower', 'upper', 'confidence_level']
    """
    options = cast("dict[str, Any]", more)
    if "what" in options:
        raise InvalidInputError(
            "release has no argument 'what'; give the statistic first, by position"
        )
    if guarantee is not None:
        options |= _options_of_guarantee(guarantee, options)
    job = make_job(what, events, state, **options)
    if job.events is None:
        raise InvalidInputError(f"{param('events')} is missing. Name the files of the rows")
    has_default_state = job.state is None
    if has_default_state:
        job = job.with_options(state=_default_state(job))
    try:
        result = run(job, progress=progress)
    except MissingOptionError as error:
        raise explain_missing(job, error) from None
    notes = [left_in_folders(job.events, job.file_format)]
    notes.append("; ".join(_notes_on_other_rows(result, has_default_state=has_default_state)))
    for note in filter(None, notes):
        warnings.warn(note, stacklevel=2)
    for warning in job_warnings(result):
        warnings.warn(warning, stacklevel=2)
    if result.chart_error is not None:
        warnings.warn(ChartWarning(result.chart_error), stacklevel=2)
    shown_state = hide_secrets(os.fspath(str(job.state)))
    return Release(replace(result.release.numbers, state=shown_state))


def _default_state(job: Job) -> str:
    """Return the path of the state of a job that states none: beside its events, if these are
    files.
    """
    if is_named(job.events):
        return state_beside(job.events, append=job.append)
    return default_state(job.events)


def _notes_on_other_rows(result: RunResult, *, has_default_state: bool) -> Iterator[str]:
    """Yield the parts of a warning if released windows have other rows than their numbers count.

    Args:
        result: the run.
        has_default_state: whether nobody stated the state.
    """
    events = result.job.events
    windowing = result.spec.terms.windowing
    counts = result.confidential_counts().input
    late_ignored = counts.after_final
    has_late = bool(late_ignored) and not result.job.append and result.job.row_id is None
    has_late &= not isinstance(windowing, SingleTable)
    is_missing = bool(number_missing(result))
    if has_late and isinstance(windowing, Revised):
        yield (
            "rows that came for final windows are not counted: release later "
            "(release_delay='6h'), or "
            "begin a stream with a longer time than "
            f"allowed_lateness={windowing.allowed_lateness!r}"
        )
    elif has_late:
        yield (
            "rows that came for windows released before are not counted, because a frame or "
            "file of all events does not tell which rows are new: release later "
            "(release_delay='6h'), or begin a stream with id (each row counts once) and "
            "allowed_lateness='14d' (late rows count in their own window)"
        )
    elif counts.choice.uncounted_late:
        yield (
            "rows of users that came for windows released before are not counted, although their "
            "limits leave room: release later (release_delay='6h')"
        )
    has_named_state = not has_default_state or is_named(events)
    differing = differing_rows_note(result)
    if not has_named_state and (is_missing or late_ignored):
        source = "database" if isinstance(events, str) else "frame"
        yield (
            f"counted rows are missing from this {source}, or it has more of them: does it hold "
            "other data? Then the numbers shown are not of it: give it a state or a name of its own"
        )
    elif differing is not None:
        yield differing
    elif is_missing:
        yield (
            f"rows that stream {result.name!r} has counted are missing from these events; in the "
            "windows released before they stay counted"
        )


def explain_missing(job: Job, error: MissingOptionError) -> MissingOptionError:
    """Extend an error by all options that the first release needs, with examples to edit.

    Unchanged if the events cannot be read, or are standard input, which is read only once.
    """
    if isinstance(job.events, str) and job.events == "-":
        return error
    try:
        look = look_at(job)
    except (CountonError, OSError):
        return error
    examples, _ = with_examples(job, error.names, look)
    columns = f"the columns are {', '.join(look.columns)}"
    return MissingOptionError("\n  ".join([f"{error.template}\n{columns}", *examples]), error.names)


def _options_of_guarantee(guarantee: object, options: Mapping[str, object]) -> dict[str, object]:
    """Return a guarantee as options, such as ``{"epsilon": "1"}``.

    Args:
        guarantee: the guarantee.
        options: options that are stated beside it.

    Raises:
        InvalidInputError: these state the privacy loss, too.
    """
    refuse_of_command({**options, "guarantee": guarantee}, exclusions=EXCLUSIONS_OF_GUARANTEE)
    if isinstance(guarantee, PureDP | ApproxDP | ZCDP):
        return {name: text(loss) for name, loss in guarantee.losses.items()}
    if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        expiry_options = {}
        if guarantee.expiry is not None:
            expiry_options = {
                "expiration_growth": guarantee.expiry.growth,
                "expiration_delay": guarantee.expiry.delay,
            }
        return {"expiring": True, **guarantee.losses, **expiry_options}
    raise InvalidInputError(
        f"{param('guarantee')} is {quote(guarantee)}; give PureDP(epsilon), "
        "ApproxDP(epsilon, delta), ZCDP(rho), ExpiringDP(epsilon) or ExpiringZCDP(rho)"
    )
