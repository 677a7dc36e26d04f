"""A first job for events, made from their header and common defaults, with a list of what is still
to be said.

The values in the rows decide little here: `input_preview` finds the names of columns, the format of
times, and whether all days are first days of months or one day of the week. All other defaults are
the same for all events. Whom to protect is never guessed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import MINYEAR, UTC, date, datetime, timedelta
from typing import TypeAlias

from counton.base.errors import InvalidInputError, param
from counton.base.lengths import Length
from counton.job.common_options import Job
from counton.job.messages import parse_options
from counton.job.option_fields import section_of
from counton.job.saved_job import date_of_one_run
from counton.job.statistics.count import CountJob
from counton.job.values import LATEST_ROW, NOW, QUARANTINE
from counton.run.new_job.column_contents import TimeColumn
from counton.run.new_job.count_columns import columns_named_as_counts
from counton.run.new_job.default_paths import (
    default_state,
    holds_new_events,
    path_beside,
    path_of,
    stem_of,
)
from counton.run.new_job.input_preview import FirstLook as FirstLook
from counton.run.new_job.input_preview import look_at as look_at
from counton.run.plan_job import PlannedJob, planned_job
from counton.run.spec.parsing import parse_run
from counton.run.spec.terms import MAX_EMPTY_WINDOWS
from counton.run.windows.covered_windows import covered_windows
from counton.run.windows.due_windows import EndedWindows, ReleaseClock, RowTimes
from counton.run.windows.held_back import HeldBackWindows, find_held_back
from counton.state.database import parse_address, state_file
from counton.state.keys import check_places, file_of
from counton.windowing.windows import load_zone, microseconds, parse_time

#: Years of a new stream. If windows are released alone, a longer stream is no less accurate.
_YEARS_OF_STREAM = 10
#: Most windows of a new stream.
_MOST_WINDOWS = 100_000
#: How long windows of a day or more wait for late rows: less than the two and a quarter hours from
#: midnight to the earliest daily run of the documentation, also if clocks skip an hour. If they
#: waited longer than that, each number would be published a day late.
_RELEASE_DELAY = "2h"

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: Options that the user stated, by name, including ``events`` and ``state``.
JobValues: TypeAlias = Mapping[str, object]


def job_of(values: JobValues) -> CountJob:
    """Build a job that counts events from the options that the user stated."""
    job: CountJob = parse_options(CountJob, values)
    return job


def check_job(values: JobValues, look: FirstLook) -> tuple[CountJob, PlannedJob]:
    """Complete ``values`` to a job and plan it; refuse what a run refuses before it reads rows."""
    if ("group_by" in values) != ("groups" in values) and values.get(
        "unlisted_groups"
    ) != "discover":
        group_options = ("group_by", "groups", "other_group")
        values = {name: value for name, value in values.items() if name not in group_options}
    job = complete_job(values, look)
    is_known = job.time in {column.name for column in look.times}
    if job.time is not None and look.times and not (is_known or job.time_format):
        raise InvalidInputError(
            f"column {job.time!r} holds no times in a known format. Name another column, or state "
            f"how its times are written, as in {param('time_format', '%d.%m.%Y')}"
        )
    assert job.state is not None
    address = parse_address(job.state)
    check_places(address.file, None if job.key is None else file_of(job.key, address))
    if "start" in values:
        plan = planned_job(job)
        _refuse_split_weeks(plan, look)
    else:
        plan = planned_job(job.with_options(start=_start_of_plan(job, look)))
    _refuse_until(job, plan, is_start_stated="start" in values)
    if job.lookback is not None:
        terms = plan.spec.terms
        windows = terms.windowing.windows
        first = EndedWindows(1, int(windows.ends(range(1, 2))[0]))
        covered_windows(windows, replace(parse_run(job, terms), release_delay=0), 0, first)
    return job, plan


def _start_of_plan(job: Job, look: FirstLook) -> str:
    """Return the start of a plan for a job whose start is not stated, so that the windows of the
    first rows are known. No file has it.
    """
    first_day = _first_day_of_weeks(job, look)
    start = start_of_old_rows(job, look) if first_day is None else str(first_day)
    until = date_of_one_run(job)
    if start is None or (until is not None and until <= start):
        return str(job.start)
    return start


def _refuse_until(job: Job, plan: PlannedJob, *, is_start_stated: bool) -> None:
    """Refuse a date in ``until`` that each run refuses, or by which no window ends.

    Args:
        job: the job.
        plan: its plan.
        is_start_stated: whether the user stated when the first window begins.

    Raises:
        InvalidInputError: the date is in the future, or before the end of the first window.
        HorizonExceededError: it is after the last window.
    """
    clock = _clock_of(job, plan, newest=None)
    if not isinstance(clock.options.until, datetime):
        return
    has_ended_window = clock.ended_windows(allows_missing_rows=True).last > 0
    if has_ended_window or not is_start_stated:
        return
    windows = clock.windows
    first_end = int(windows.ends(range(1, 2))[0]) + clock.options.release_delay
    raise InvalidInputError(
        f"{param('until', job.until)} releases no window: the first one is "
        f"{windows.span_text(range(1, 2))}. Give {param('until', windows.option_text(first_end))} "
        "or later"
    )


def _clock_of(job: Job, plan: PlannedJob, *, newest: datetime | None) -> ReleaseClock:
    """Return what decides which windows the first run of a job releases.

    Args:
        job: the job.
        plan: its plan.
        newest: time of the newest row; None: unknown.
    """
    terms = plan.spec.terms
    time = None if newest is None else microseconds(newest)
    return ReleaseClock(
        windows=terms.windowing.windows,
        options=parse_run(job, terms),
        times=RowTimes(newest=time, newest_within=time, any_beyond=False, any_rows=True),
        released=0,
        now=datetime.now(UTC),
        is_new_stream=True,
    )


def find_held_back_windows(job: Job, plan: PlannedJob, look: FirstLook) -> HeldBackWindows | None:
    """Return the windows of the newest rows that a first run would not release. Operator only.

    None if there are none, if the first rows are not all rows, or if the run would be refused.

    Args:
        job: the job.
        plan: its plan.
        look: facts about the first rows.
    """
    newest = look.confidential_counts(job).newest
    if newest is None or not look.has_all_rows:
        return None
    clock = _clock_of(job, plan, newest=newest)
    try:
        ended = clock.ended_windows(allows_missing_rows=True)
    except InvalidInputError:
        return None
    return find_held_back(
        clock.windows,
        clock.options,
        newest=microseconds(newest),
        ended=ended,
        now=clock.now,
    )


def _first_weekday(job: Job, look: FirstLook) -> int | None:
    """Return the day of the week of all first rows, 0 for Monday; see `_first_day_of_weeks`."""
    first_day = _first_day_of_weeks(job, look)
    return None if first_day is None else first_day.weekday()


def _first_day_of_weeks(job: Job, look: FirstLook) -> date | None:
    """Return the day of the first row, if each row is of a whole week.

    Return None if the windows are not weeks, or if the first rows are of several days of the week.
    Exact: for the operator only.
    """
    if str(job.every) != "1w" or look.window_by_time.get(str(job.time)) != "1w":
        return None
    first = look.confidential_counts(job).first
    return None if first is None else first.date()


def _refuse_split_weeks(plan: PlannedJob, look: FirstLook) -> None:
    """Refuse windows that begin on another day of the week than the weeks of the file."""
    first_day = _first_day_of_weeks(plan.spec.job, look)
    if first_day is None:
        return
    weekday = first_day.weekday()
    windows = plan.spec.terms.windowing.windows
    start = windows.local(windows.start)
    days_before = (start.weekday() - weekday) % 7
    if days_before:
        proposed = max(start.date() - timedelta(days=days_before), first_day)
        raise InvalidInputError(
            f"{param('start', str(start.date()))} is a {WEEKDAYS[start.weekday()]}, and windows "
            f"of a week begin on the day of the week of start. The first rows are all of a "
            f"{WEEKDAYS[weekday]}: give a {WEEKDAYS[weekday]}, as in "
            f"{param('start', str(proposed))}"
        )


def complete_job(values: JobValues, look: FirstLook) -> CountJob:
    """Build a job from ``values`` and defaults: epsilon 1 without loss or accuracy."""
    job = job_of(values)
    time = job.time or next((column.name for column in look.times), None)
    every = str(job.every or look.window_by_time.get(str(time), "1d"))
    defaults = {
        **_default_format(look),
        **_default_times(job, time, look),
        **_default_windows(job, every),
        **_default_release(job, every),
        **_default_privacy(job, values),
        **_default_files(job, values),
    }
    return job_of(defaults | dict(values))


def _default_format(look: FirstLook) -> JobValues:
    """Return how the text of the events is read."""
    defaults = {"missing_values": "drop"}
    if look.separator != ",":
        defaults["separator"] = look.separator
    if look.decimal == ",":
        defaults["decimal"] = look.decimal
    return defaults


def _default_times(job: CountJob, time: str | None, look: FirstLook) -> JobValues:
    """Return how the times of the events are read.

    Args:
        job: job of the options that are stated.
        time: name of the column of times; None: there is none.
        look: columns of the events, and facts about their first rows.
    """
    column = next((column for column in look.times if column.name == str(time)), None)
    is_local = column is None or column.local
    defaults: dict[str, object] = {
        "time": time,
        "time_format": None if column is None else column.time_format,
        "timezone": None if column is None or column.leaves_zone_open else "UTC",
    }
    if is_local and (job.timezone or "UTC") != "UTC":
        defaults["ambiguous"] = "earliest"
    return defaults


def _default_windows(job: CountJob, every: str) -> JobValues:
    """Return the length, the start and the number of the windows, and the series of totals."""
    defaults: dict[str, object] = {"every": every, "start": usual_start(job)}
    if job.expected_windows or job.expiring or job.allowed_lateness:
        return defaults
    windows = math.ceil(_YEARS_OF_STREAM * 365.25 / days_of(every))
    if every == "1mo":  # of 31 days, they would be fewer
        windows = _YEARS_OF_STREAM * 12
    only_totals = job.distinct_users or job.unlisted_groups == "discover"
    return defaults | {
        "windows": min(_MOST_WINDOWS, windows),
        "series": None if only_totals else "per-window",
    }


def _default_release(job: CountJob, every: str) -> JobValues:
    """Return how long a window waits for rows, and how many windows may have none."""
    if days_of(every) < 1:
        return {"release_delay": "0s", "max_empty_windows": MAX_EMPTY_WINDOWS}
    # In a file of the past, nothing comes late.
    delay = _RELEASE_DELAY if job.until in (None, NOW) else "0s"
    # A whole day has a row; else the newest file is missing.
    return {"release_delay": delay, "max_empty_windows": 0}


def _default_privacy(job: CountJob, values: JobValues) -> JobValues:
    """Return the privacy loss, and what is protected."""
    defaults: dict[str, object] = {}
    if not {"epsilon", "rho", "margin_of_error"} & {*values}:
        defaults["epsilon"] = "1"
    if job.user is None:
        return defaults
    if not job.distinct_users:
        defaults["max_contributions"] = 1
    defaults["privacy_unit"] = "user"
    return defaults


def _default_files(job: CountJob, values: JobValues) -> JobValues:
    """Return whether files have only new rows, the name of the stream, and the files of a run."""
    defaults: dict[str, object] = {}
    if job.row_id is None and holds_new_events(job.events):
        defaults["append"] = True
    path = path_of(job.events)
    if path is None:
        return defaults
    name = stem_of(path)
    defaults["stream"] = name
    # Streams of the same events write different files.
    part = "" if job.stream in (None, name) else "." + re.sub(r"\W+", "_", str(job.stream))
    defaults["output"] = os.fspath(path_beside(job.events, f"{part}.released.csv"))
    # A file can take unusable rows, if no stated option ends the run at such a row.
    if values.get("missing_values") != "fail" and values.get("ambiguous") != "raise":
        unreadable = path_beside(job.events, f"{part}.unreadable.csv")
        defaults["bad_rows"] = f"{QUARANTINE}{unreadable}"
    return defaults


def unsaid(values: JobValues, look: FirstLook) -> dict[str, str]:
    """Return the options that only the operator can state and did not, each with a remark.

    The job file leaves them empty, and a run refuses them by name.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00"], "device": ["a"], "visitor": ["b"]})
    >>> values = {
    ...     "events": rows, "state": "v.db", "start": "2024-01-01", "until": "latest-event"
    ... }
    >>> list(unsaid(values, look_at(job_of(values))))
    ['timezone', 'user', 'max_contributions', 'contribution_period']
    """
    job = job_of(values)
    whole = complete_job(values, look)
    remarks = _unsaid_times(job, whole, look)
    if look.decimal is None:
        remarks["decimal"] = _remark_on_decimal(job)
    columns = ", ".join(name for name in look.columns if name not in ("", whole.time))
    has_by = job.group_by is not None
    has_domain = job.groups is not None
    if has_domain and not has_by:
        remarks["group_by"] = f"column of the groups: {columns}"
    if has_by and not has_domain and job.unlisted_groups != "discover":
        remarks["groups"] = "names of the groups, from a public list and not from the rows: A,B,C"
    if (has_by or has_domain) and job.unlisted_groups is None and job.other_group is None:
        remarks["other_group"] = (
            "name of one more group, for rows of groups that are not listed, also for rows of "
            "totals; without this line, such a row stops the run"
        )
    counts = columns_named_as_counts(look.columns, job)
    no_users = ("", whole.time, *counts, *look.fractions)
    user_columns = ", ".join(name for name in look.columns if name not in no_users)
    return remarks | _unsaid_unit(job, user_columns)


def _remark_on_decimal(job: CountJob) -> str:
    """Return a remark on the decimal sign, if the first rows do not show it."""
    if job.count_column is not None:
        return (
            'decimal sign of the counts: "," if 1.204 means 1204; else ".", and counts such as '
            "4.000 must be written as 4 in the file"
        )
    return (
        'decimal sign of the numbers, some of which can be read in two ways: "," if 1.204 means '
        '1204, and 1,204 means 1.204; "." if 1.204 is less than 2. Only whole counts may have '
        'separators of thousands: points, with ","'
    )


def _unsaid_times(job: CountJob, whole: CountJob, look: FirstLook) -> dict[str, str]:
    """Return the options of times that only the operator can state and did not.

    Args:
        job: job of the options that are stated.
        whole: job that is completed by defaults.
        look: columns of the events, and facts about their first rows.
    """
    remarks: dict[str, str] = {}
    possible = [column for column in look.times if job.time in (None, column.name)]
    if job.time is None and len(look.times) != 1:
        named = [_words_of_times(column) for column in look.times]
        remarks["time"] = f"column of times: {', '.join(named or filter(None, look.columns))}"
    if job.time_format is None and look.has_rows:
        months = [name for name in look.months if job.time in (None, name)]
        remark = _remark_on_format(possible, months)
        if remark is not None:
            remarks["time_format"] = remark
    if job.timezone is None:
        remark = _remark_on_timezone(possible)
        if remark is not None:
            remarks["timezone"] = remark
    # Whether rows lie before this year is not known either if their times cannot be read.
    is_unread = "time_format" in remarks
    # Days before the first row would be released as noise alone, so only the operator may choose. A
    # file of the last days begins with the days that it covers now.
    is_start_known = job.lookback and not is_unread and start_of_old_rows(whole, look) is None
    if job.start is None and not is_start_known:
        weekday = _first_weekday(whole, look)
        example = "as in 2024-01-01"
        if weekday is not None:
            example = f"a {WEEKDAYS[weekday]}, on which weeks begin"
        remarks["start"] = (
            f"day from which rows count, {example}; it is published, so choose one that no single "
            "row decides"
        )
    if job.until is None and not job.lookback and (is_unread or are_old(whole, look)):
        remarks["until"] = (
            "for a complete file, the day after its last day, week or month, as in "
            f'"2024-04-01", and write release-delay = "0s"; "{NOW}" if new rows come regularly; '
            f'"{LATEST_ROW}" if more old rows follow: then the newest row ends the last window, '
            "and its time is not protected"
        )
    return remarks


def _remark_on_timezone(columns: Sequence[TimeColumn]) -> str | None:
    """Return a remark on the time zone, if the first rows do not show in which one days begin."""
    if not columns or any(column.local for column in columns):
        return "time zone of the times, which decides when a day begins, as in Europe/Berlin or UTC"
    offset = next((column.offset for column in columns if column.offset is not None), None)
    if offset is None:
        return None
    return (
        "time zone in which a day begins, as in Europe/Berlin or UTC; the file has times with "
        f"{offset}"
    )


def _remark_on_format(columns: Collection[TimeColumn], months: Sequence[str] = ()) -> str | None:
    """Return a remark on the format of times, if the first rows do not show it.

    Args:
        columns: columns that may have the times of the events.
        months: columns of months without a day.
    """
    iso = "delete this line for ISO 8601, such as 2024-03-01 08:30"
    if not columns and months:
        return (
            f"column {months[0]} has months without a day. Write their first day, as in "
            "2024-03-01, and delete this line"
        )
    if not columns:
        return f"format of the times, such as %m/%d/%Y %H:%M, %Y%m%d or epoch; {iso}"
    formats = {column.formats or (column.time_format or "",) for column in columns}
    if len(formats) > 1:
        return f"format of the times, as the line above says; {iso}"
    several = formats.pop()
    return f"format of the times: {' or '.join(several)}" if len(several) > 1 else None


def _words_of_times(column: TimeColumn) -> str:
    """Return the name of a column of times, with its format if that is not ISO 8601."""
    formats = column.formats or ((column.time_format,) if column.time_format else ())
    return f"{column.name} ({' or '.join(formats)})" if formats else column.name


def _unsaid_unit(job: CountJob, user_columns: str) -> dict[str, str]:
    """Return the options on whom to protect that only the operator can state and did not.

    Args:
        job: job of the options that are stated.
        user_columns: names of the columns that may have users.
    """
    if job.count_column is not None:
        if job.privacy_unit is None and job.upstream_max_contributions is None:
            return {
                "privacy_unit": "what the numbers count, in one word, as in passage: it is "
                "protected"
            }
        return {}
    remarks: dict[str, str] = {}
    if job.user is None:
        if job.privacy_unit is not None:
            return {}
        which = f" ({user_columns})" if user_columns else ""
        remarks["user"] = (
            f"whom to protect: the column that names the user{which}, with "
            "max-contributions and contribution-period; or delete these three lines and write "
            'privacy-unit = "row", or what a row is in one word: it protects single rows'
        )
    if job.distinct_users:
        return remarks
    if job.max_contributions is None:
        remarks["max_contributions"] = (
            "how many rows of one user count in each period; noise hides all of them"
        )
        groups_remark = remark_on_groups(job)
        if groups_remark is not None:
            remarks["max_contributions"] += f"; {groups_remark}"
    if job.contribution_period is None:
        remarks["contribution_period"] = (
            "length of the period, as in 1d, 1w, 1mo, or 12mo for a year: what a user does in "
            "one period is protected; delete this line to protect all that a user does in the "
            "whole stream"
        )
    return remarks


def remark_on_groups(job: CountJob) -> str | None:
    """Return a remark that a limit on rows leaves out groups of a user; None if there is no such
    limit.

    >>> print(remark_on_groups(CountJob(user="reader", group_by="branch")))
    a user in more groups counts only in the first ones; to count each user in more groups, add a
    line once-per-window = true and set max-contributions to the largest number of groups in which
    one user may count
    """
    if job.group_by is None or job.distinct_users or job.count_column is not None:
        return None
    return (
        "a user in more groups counts only in the first ones; to count each user in more groups, "
        "add a line once-per-window = true and set max-contributions to the largest number of "
        "groups in which one user may count"
    )


def remark_on_names(job: CountJob) -> str:
    """Return a remark on the names of users and rows in published texts, for a job of users.

    >>> print(remark_on_names(CountJob(user="id", max_contributions=3)))
    name of a user in published texts, as in visitor; it cannot change after the first run, and
    neither can the name of a row: add a line event-name = "visit" to state it
    """
    remark = (
        "name of a user in published texts, as in visitor; it cannot change after the first run"
    )
    has_one_row = job.max_contributions == 1 and job.contribution_period == job.every
    if job.distinct_users or (has_one_row and job.group_by is None):  # the numbers count users
        return remark
    return (
        f'{remark}, and neither can the name of a row: add a line event-name = "visit" to state it'
    )


def are_old(job: Job, look: FirstLook) -> bool:
    """Return whether a run up to now would release many empty windows. Exact: operator only."""
    newest = look.confidential_counts(job).newest
    if newest is None or not look.has_all_rows or job.allow_empty_windows:
        return False
    days = (datetime.now(newest.tzinfo) - newest).total_seconds() / 86_400
    return days / days_of(str(job.every or "1d")) > 1 + max(
        MAX_EMPTY_WINDOWS, job.max_empty_windows or 0
    )


def start_of_old_rows(job: Job, look: FirstLook) -> str | None:
    """Return a start for rows that are all older than this year; else None. Operator only.

    It is January 1 of the first row's year. If each file holds some days alone (``lookback``), it
    is the day of the first row.
    """
    first_rows = look.confidential_counts(job)
    if first_rows.first is None or first_rows.newest is None:
        return None
    if str(first_rows.newest.date()) >= _new_year():
        return None
    if job.lookback is not None:
        return str(first_rows.first.date())
    return f"{first_rows.first.year:04}-01-01"


def usual_start(job: Job) -> str:
    """Return January 1 of this year, or the first day that a file covers now: the start is
    published, so no row may decide it. If ``until`` states a day of an earlier year, it is January
    1 of that year.

    >>> usual_start(CountJob(events="visits.csv", until="2024-01-01"))
    '2023-01-01'
    """
    if job.lookback is None:
        until = date_of_one_run(job)
        return _new_year() if until is None else min(_new_year(), _new_year_before(until))
    covers = str(job.lookback)
    shortest_month = 28 / 31
    days = int(days_of(covers) * (shortest_month if covers.endswith("mo") else 1))
    now = datetime.now(load_zone(str(job.timezone or "UTC")))
    return str((now - timedelta(days=days)).date())


def _new_year_before(until: str) -> str:
    """Return the last January 1 before the day of a time."""
    time = parse_time(until, "UTC")
    is_new_year = (time.month, time.day) == (1, 1)
    year = time.year - 1 if is_new_year else time.year
    return f"{max(year, MINYEAR):04}-01-01"


def _new_year() -> str:
    return f"{datetime.now(UTC).year}-01-01"


def days_of(every: str) -> float:
    """Return the approximate length of a window in days; 1 if the text is not a length."""
    length = Length.parse(every)
    return 1 if length is None else length.days


def refuse_state(job: Job) -> None:
    """Refuse an existing state of which the user named no stream: it holds other streams."""
    assert job.state is not None
    file = state_file(job.state)
    state = os.fspath(job.state)
    if job.stream is not None or state != default_state(job.events):
        return
    if file is not None and file.exists():
        raise InvalidInputError(
            f"state {state!r} exists already, and options of its streams cannot change. Give "
            f"another state ({param('state', 'other.db')}), or a new {param('stream')} "
            "for another stream in this state"
        )


#: Example values for missing options of a new stream.
_EXAMPLE_VALUES = {
    "every": "1d",
    "windows": 365,
    "epsilon": "1",
    "max_contributions": 3,
    "groups": "A,B,C",
}


def with_examples(job: Job, missing: Collection[str], look: FirstLook) -> tuple[list[str], Job]:
    """Return a line for each option that a job lacks before its first run, with an example; and the
    job with these examples.

    No column is guessed but that of times: others are called COLUMN.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"at": ["2999-03-01T09:00Z"], "who": ["a"]})
    >>> job = CountJob(events=rows, state="visits.db")
    >>> with_examples(job, ["time", "user"], look_at(job))[1].value_of("user")
    'COLUMN'
    """
    model = type(job)
    time = job.time or next((column.name for column in look.times), "COLUMN")
    asked = [name for name in missing if name != "rho" and not job.has_stated(name)]
    form = _unusual_form(look, str(time))
    asked += [name for name in form if not job.has_stated(name)]
    start = usual_start(job)
    if "time" in asked or job.time is not None:
        with_time = job.with_options(time=time)
        if job.until is None and "start" in asked and are_old(with_time, look):
            asked.append("until")
        start = start_of_old_rows(with_time, look) or start
    examples: dict[str, object] = {
        **_EXAMPLE_VALUES,
        **form,
        "start": start,
        "time": time,
        "until": LATEST_ROW,
    }
    if str(time) in look.window_by_time:
        examples["every"] = look.window_by_time[str(time)]
    every = job.every or job.value_of("contribution_period")
    if job.may_be_single_table and every is not None:  # one table a period
        examples |= {"every": every, "windows": max(1, round(365 / days_of(str(every))))}
    examples |= dict.fromkeys(("group_by", "user"), "COLUMN")
    for name, field in model.model_fields.items():
        if section_of(model, name).heading == "Statistic":
            examples[name] = model.example.get(str(field.alias), name.upper())
    chosen = {name: examples.get(name, name.upper()) for name in asked}
    lines = [
        f"{param(name, value)}: {model.model_fields[name].description}"
        for name, value in chosen.items()
    ]
    # Examples are to be edited: they are not parsed, and may name files that do not exist.
    return lines, job.with_options(**chosen)


def _unusual_form(look: FirstLook, time: str) -> dict[str, str]:
    """Return options about the form of the events that are not the usual ones."""
    form: dict[str, str] = {}
    if look.separator != ",":
        form["separator"] = look.separator
    if look.decimal not in (".", None):
        form["decimal"] = look.decimal
    time_format = next((column.time_format for column in look.times if column.name == time), None)
    if time_format is not None:
        form["time_format"] = time_format
    return form
