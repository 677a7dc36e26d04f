"""Releases from Python: one call for every statistic, with the same states as the command line."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from counton.base.errors import CountonError, InvalidInput, field, hide_secrets
from counton.base.exact import quote, text
from counton.frame.options import MissingOptions, refuse_unknown, with_keywords
from counton.job.job import Events, Job, options_of
from counton.job.keywords import JobFields, StatisticName
from counton.job.stated_options import all_options, own_options
from counton.privacy import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Guarantee, PureDP
from counton.released.release import Release
from counton.rows.paths import left_in_folders
from counton.run.outputs import Progress, silent
from counton.run.runs import Outcome, run

if TYPE_CHECKING:
    from counton.statistics import Statistic


@with_keywords(JobFields, {name: option.default for name, option in options_of(Job).items()})
def release(
    what: StatisticName | Statistic,
    /,
    events: Events,
    *,
    state: str | os.PathLike[str] | None = None,
    guarantee: Guarantee | None = None,
    progress: Progress = silent,
    **more: Unpack[JobFields],
) -> Release:
    """Release a statistic of events after each window that has ended, under one guarantee.

    The statistic is a count, sum, average, quantile, distinct users, a table and others; ``by`` and
    ``domain`` split it by group. The function does what the command ``counton count`` and its
    siblings do, and either can continue a stream that the other began. A later call may leave out
    options that define the stream, and may not contradict them.

    Args:
        what: a statistic, such as ``Average(0, 200, resolution=1)``, or its name in commands:
            "count", "sum", "average", "quantiles", "top-k", "distinct", ...
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
        more: fields of `Job`. A new stream needs ``time`` (column of the events' times), ``every``
            (length of a window: ``"15m"``, ``"1h"``, ``"1d"``, ``"1w"``, ``"1mo"``, or a
            `timedelta`), ``start`` (of the first window) and ``steps`` (number of windows of the
            whole stream). ``value`` or ``columns`` name the columns that a statistic reads. ``by``
            names the column of groups, or several. ``domain`` declares the groups, which are public
            knowledge: a list, or for several columns a mapping of lists. ``user``, ``most``,
            ``per``: at most ``most`` events of a user count in each ``per``, and a user is
            protected.

    Returns:
        All released steps; none if no window has ended. The exact numbers of late or omitted rows
        are not in it: `counton.run.run` returns them to the operator.

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
    ...     "time": "time", "every": "1d", "start": "2024-03-01", "steps": 365, "until": "newest",
    ...     "by": "page", "domain": ["home", "shop"], "guarantee": PureDP(1),
    ...     "state": "visits.db",
    ... }
    >>> views = release("count", visits, **stream)
    >>> views.table().select("step", "group").rows()
    [(1, 'home'), (1, 'shop'), (2, 'home'), (2, 'shop')]
    >>> print(views.describe())
    count: 2 windows of 1d released
    unit of privacy: one event more or less, counted in one group of one window by at most 1
      people are not protected: a person with 100 events loses 100 times the epsilon
      events may change in later inputs (vanish, come back, be in another window or group): one that
      changes K times loses up to (1 + K) times as much as one that stays
    guarantee: pure differential privacy with epsilon = 1, for all releases of the stream together
      one event more or less makes no output more than 2.719 times as likely or as unlikely
    privacy loss: epsilon = 1 for each event, once for the whole stream, which is this series of
    releases: later releases add nothing; another stream about the same event has a privacy loss of
    its own, and losses add up
    paper: ours: theorem a_floor_estimates (proofs/Statements.v of the source code); that B C = A is
    tested, not proved
    besides noise: a row that came after its day was published does not count
    """
    known = {*options_of(Job)} - {"events", "state"}
    known |= {option.name for option in own_options(what)}
    if not known.issuperset(more):
        refuse_unknown("release", more, [*known, *all_options()], "counton.run.Job")
    named = cast("dict[str, Any]", more)
    unnamed = None
    if state is None:
        from counton.run.default_state import default_state, is_named, state_beside

        in_file, append = is_named(events), bool(more.get("append"))
        state = state_beside(events, append=append) if in_file else default_state(events)
        if not in_file:
            unnamed = "database" if isinstance(events, str) else "frame"
    if guarantee is not None:
        named = named | _numbers(guarantee, named)
    job = Job(what, events, state, **named)
    try:
        outcome = run(job, progress)
    except MissingOptions as error:
        raise _with_needs(job, error) from None
    with outcome:
        given = outcome.stream, outcome.definition
        written = outcome.outputs.write(*given, progress, all_steps=True)
        found = written.released or outcome.read().numbers
        if (unread := left_in_folders(events, job.format.file_format)) is not None:
            warnings.warn(unread, stacklevel=2)
        if told := "; ".join(_other_rows(outcome, unnamed)):
            warnings.warn(told, stacklevel=2)
        return Release(replace(found, kept_in=hide_secrets(os.fspath(state))))


def _other_rows(outcome: Outcome, unnamed: str | None) -> Iterator[str]:
    """Yield the parts of a warning if released windows have other rows than their numbers count.

    ``unnamed``: "frame" or "database" of rows whose state nobody stated; else None.
    """
    counts, differing = outcome.for_operator(), outcome.differing_rows
    shut = counts.shut and outcome.definition.cut.timed
    if shut and (revised := outcome.definition.record.get("revise")):
        yield (
            "rows that came for final windows are not counted: release later (watermark='6h'), or "
            f"begin a stream with a longer time than revise={revised!r}"
        )
    elif shut:
        yield (
            "rows that came for windows released before are not counted, because a frame or file "
            "of all events does not tell which rows are new: release later (watermark='6h'), or "
            "begin a stream with id (each row counts once) and revise='14d' (late rows count in "
            "their own window)"
        )
    if unnamed and (counts.gone or shut):
        yield (
            f"counted rows are missing from this {unnamed}, or it has more of them: does it hold "
            "other data? Then the numbers shown are not of it: give it a state or a name of its own"
        )
    elif differing is not None:
        yield differing
    elif counts.gone:
        yield (
            f"rows that stream {outcome.stream.name!r} has counted are missing from these events; "
            "in the windows released before they stay counted"
        )


def _with_needs(job: Job, error: MissingOptions) -> MissingOptions:
    """Extend an error by all options that the first release needs, with examples to edit.

    Unchanged if the events cannot be read, or are standard input, which is read only once.
    """
    from counton.run.first_job import look_at, with_examples

    if isinstance(job.events, str) and job.events == "-":  # can be read only once
        return error
    try:
        look = look_at(job)
    except (CountonError, OSError):
        return error
    lines, _ = with_examples(job, error.names, look)
    columns = f"the columns are {', '.join(look.columns)}"
    told = "\n  ".join([f"{error.template}\n{columns}", *lines])
    return MissingOptions(told, error.names)


def _numbers(guarantee: object, named: dict[str, Any]) -> dict[str, Any]:
    """Split a guarantee into job fields such as ``{"epsilon": 1}``; refuse it beside ``named``
    ones.
    """
    for name in ("epsilon", "delta", "rho"):
        if named.get(name) is not None:
            raise InvalidInput(
                f"{field('guarantee')} and {field(name, named[name])} both state the privacy loss; "
                "give one of them"
            )
    if isinstance(guarantee, PureDP | ApproxDP | ZCDP):
        return {name: text(loss) for name, loss in guarantee.losses.items()}
    if isinstance(guarantee, ExpiringDP | ExpiringZCDP):
        expiry = guarantee.expiry
        how = {} if expiry is None else {"growth": expiry.growth, "delay": expiry.delay}
        return {"expire": True, **guarantee.losses, **how}
    raise InvalidInput(
        f"{field('guarantee')} is {quote(guarantee)}; give PureDP(epsilon), ApproxDP(epsilon, "
        f"delta), ZCDP(rho), ExpiringDP(epsilon) or ExpiringZCDP(rho)"
    )
