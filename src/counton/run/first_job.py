"""A first job for events, made from their header and common defaults, with a list of what is still
to be said.

The values in the rows decide nothing here: `first_look` finds the names of columns and the format
of times, and all other defaults are the same for all events. Whom to protect is never guessed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from counton.base.errors import InvalidInput, field
from counton.base.lengths import days_in
from counton.frame.windows import load_zone
from counton.job.job import NEWEST, NOW, Job
from counton.job.stated_options import kind_of, options_of_job
from counton.run.clock import covered_windows
from counton.run.column_contents import TimeColumn
from counton.run.default_state import default_state, holds_new_events, path_beside, path_of, stem_of
from counton.run.first_look import FirstLook as FirstLook
from counton.run.first_look import look_at as look_at
from counton.run.job_plan import PlannedJob, planned_job
from counton.run.missing_rows import QUIET
from counton.state.database import parse_address, state_file
from counton.state.keys import check_places, file_of
from counton.statistics.statistic import named_values

#: Years of a new stream. If windows are released alone, a longer stream is no less accurate.
_YEARS, _MOST_WINDOWS = 10, 100_000

#: How long windows of a day or more wait for late rows: less than the two and a quarter hours from
#: midnight to the earliest nightly run of the documentation, also if clocks skip an hour. If they
#: waited longer than that, each number would be published a night late.
_WAIT = "2h"

#: Fields of a `Job` that the user stated, by name, including ``events`` and ``state``.
JobValues: TypeAlias = Mapping[str, Any]


def job_of(values: JobValues) -> Job:
    """Build a `Job` that counts events from the fields that the user stated."""
    return Job("count", **values)


def check_job(values: JobValues, look: FirstLook) -> tuple[Job, PlannedJob]:
    """Complete ``values`` to a job and plan it; refuse what `run` refuses before it reads rows."""
    if ("by" in values) != ("domain" in values) and values.get("unknown") != "discover":
        of_groups = ("by", "domain", "other")
        values = {name: value for name, value in values.items() if name not in of_groups}
    job = complete_job(values, look)
    known = job.times.time in {one.name for one in look.times}
    if job.times.time is not None and look.times and not (known or job.format.time_format):
        raise InvalidInput(
            f"column {job.times.time!r} holds no times in a known format; name another column, or "
            f"state how its times are written, as in {field('time_format', '%d.%m.%Y')}"
        )
    address, key = parse_address(job.keeping.state), job.keeping.key
    check_places(address.file, None if key is None else file_of(key, address))
    plan = planned_job(job)
    if job.rows.covers is not None:
        covered_windows(job.rows.covers, plan.definition.cut, 0, 1, 1)  # a window at least
    return job, plan


def complete_job(values: JobValues, look: FirstLook) -> Job:
    """Build a job from ``values`` and defaults: epsilon 1 without loss or accuracy."""
    job, times = job_of(values), {one.name: one for one in look.times}
    path = path_of(job.events)
    found: dict[str, Any] = {"missing": "skip"}
    if look.separator != ",":
        found["separator"] = look.separator
    if look.decimal == ",":
        found["decimal"] = look.decimal
    found["time"] = job.times.time or next(iter(times), None)
    column = times.get(found["time"])
    found["time_format"] = None if column is None else column.time_format
    if (column is None or column.local) and (job.times.timezone or "UTC") != "UTC":
        found["clock_change"] = "earliest"
    found["timezone"] = None if column is None or column.local else "UTC"
    every = found["every"] = job.times.every or "1d"
    # A whole day has a row; else the newest file is missing.
    wait, quiet = (_WAIT, 1) if days_of(every) >= 1 else ("0s", QUIET)
    found |= {"start": usual_start(job), "watermark": wait, "quiet": quiet}
    if not (job.times.around or job.promise.expire or job.lateness.revise):
        found["steps"] = min(_MOST_WINDOWS, math.ceil(_YEARS * 365.25 / days_of(every)))
        only_totals = job.people.first or job.groups.unknown == "discover"
        found["release"] = None if only_totals else "windows"
    if not {"epsilon", "rho", "within"} & {*values}:
        found["epsilon"] = "1"
    if job.people.user is not None and not job.people.first:
        found["most"] = 1
    if job.rows.id is None and holds_new_events(job.events):
        found["append"] = True
    if path is not None:
        found["name"] = stem_of(path)
        found["out"] = os.fspath(path_beside(job.events, ".released.csv"))
        # A file can take unusable rows, if no stated option ends the run at such a row.
        if values.get("missing") != "refuse" and values.get("clock_change") != "raise":
            found["bad_rows"] = f"quarantine:{path_beside(job.events, '.unreadable.csv')}"
    return job_of(found | dict(values))


def unsaid(values: JobValues, look: FirstLook) -> dict[str, str]:
    """Return the options that only the operator can state and did not, each with a remark.

    The job file leaves them empty, and a run refuses them by name.

    >>> import polars as pl
    >>> rows = pl.DataFrame({"at": ["2024-03-01T09:00"], "device": ["a"], "visitor": ["b"]})
    >>> values = {"events": rows, "state": "visits.db", "start": "2024-01-01", "until": "newest"}
    >>> list(unsaid(values, look_at(job_of(values))))
    ['timezone', 'user', 'most', 'per']
    """
    job = job_of(values)
    whole = complete_job(values, look)
    found = _unsaid_times(job, whole, look)
    if look.decimal is None:
        found["decimal"] = (
            'decimal sign of the numbers: "," or "."; the file has numbers that can be read in '
            "both ways, such as 1.234"
        )
    discovers = job.groups.unknown == "discover"
    columns = ", ".join(one for one in look.columns if one != whole.times.time)
    if job.groups.by is None and job.groups.domain is not None:
        found["by"] = f"column of the groups: {columns}"
    if job.groups.by is not None and job.groups.domain is None and not discovers:
        found["domain"] = "names of the groups, from a public list and not from the rows: A,B,C"
    has_groups = job.groups.by is not None or job.groups.domain is not None
    if has_groups and job.groups.unknown is None and job.groups.other is None:
        found["other"] = (
            "name of one more group, which counts the rows of all groups that domain does not "
            "list, also a row of totals; without this line such a row stops the run"
        )
    return found | _unsaid_unit(job, columns)


def _unsaid_times(job: Job, whole: Job, look: FirstLook) -> dict[str, str]:
    """Return the options of times that only the operator can state and did not.

    Args:
        job: job of the options that are stated.
        whole: job that is completed by defaults.
        look: header of the events, and facts about their first rows.
    """
    found: dict[str, str] = {}
    known = [one for one in look.times if job.times.time in (None, one.name)]
    formats = {one.formats or (one.time_format or "",) for one in known}
    is_open = job.times.time is None and len(look.times) != 1
    if is_open:
        named = [_words_of_times(one) for one in look.times]
        found["time"] = f"column of times: {', '.join(named or look.columns)}"
    if job.format.time_format is None and look.has_rows:
        iso = "delete this line for ISO 8601, such as 2024-03-01 08:30"
        if not known:
            found["time_format"] = (
                f"format of the times, such as %m/%d/%Y %H:%M, %Y%m%d or epoch; {iso}"
            )
        elif len(formats) > 1:
            found["time_format"] = f"format of the times, as the line above says; {iso}"
        elif len(several := formats.pop()) > 1:
            found["time_format"] = f"format of the times: {' or '.join(several)}"
    if job.times.timezone is None and (not known or any(one.local for one in known)):
        found["timezone"] = (
            "time zone of the times, which decides when a day begins, as in Europe/Berlin or UTC"
        )
    # Whether rows lie before this year is not known either if their times cannot be read.
    is_unread = "time_format" in found
    if job.times.start is None and (is_unread or fitting_start(whole, look) is not None):
        found["start"] = (
            "day from which rows count, as in 2024-01-01; it is published, so choose one that no "
            "single row decides"
        )
    if job.times.until is None and not job.rows.covers and (is_unread or are_old(whole, look)):
        found["until"] = (
            f"{NOW} if rows come every day; {NEWEST} if the file is of the past: then the newest "
            "row ends the last window, and its time is not protected"
        )
    return found


def _words_of_times(column: TimeColumn) -> str:
    """Return the name of a column of times, with its format if that is not ISO 8601."""
    formats = column.formats or ((column.time_format,) if column.time_format else ())
    return f"{column.name} ({' or '.join(formats)})" if formats else column.name


def _unsaid_unit(job: Job, columns: str) -> dict[str, str]:
    """Return the options on whom to protect that only the operator can state and did not."""
    people = job.people
    if job.option("counts") is not None:
        if job.promise.unit is None and people.moves is None:
            unit = "what the numbers count, in one word, as in passage: it is protected"
            return {"unit": unit}
        return {}
    found: dict[str, str] = {}
    if people.user is None:
        if job.promise.unit is not None:
            return {}
        found["user"] = (
            f"whom to protect: the column that names the person ({columns}), with most and per; or "
            'delete these three lines and write unit = "visit", which protects single rows'
        )
    if people.first:
        return found
    if people.most is None:
        found["most"] = "how many rows of one person count in each period; noise hides all of them"
    if people.per is None:
        found["per"] = (
            "length of the period, as in 1d, 1w or 1mo: what a person does in one period is "
            "protected; without this line a person counts so often in the whole stream, and no more"
        )
    return found


def are_old(job: Job, look: FirstLook) -> bool:
    """Return True if a run up to now would release many empty windows. Exact: operator only."""
    newest = look.for_operator(job).newest
    if newest is None or not look.has_all_rows or job.times.yes:
        return False
    days = (datetime.now(newest.tzinfo) - newest).total_seconds() / 86_400
    return days / days_of(job.times.every or "1d") > max(QUIET, job.times.quiet or 0)


def fitting_start(job: Job, look: FirstLook) -> str | None:
    """Return January 1 of the first row's year if all are older than this year, or the first row's
    day if a file holds some days alone. Operator only.
    """
    facts = look.for_operator(job)
    if facts.first is None or facts.newest is None or str(facts.newest.date()) >= _new_year():
        return None
    if job.rows.covers is not None:
        return str(facts.first.date())
    return f"{facts.first.year:04}-01-01"


def usual_start(job: Job) -> str:
    """Return January 1 of this year, or the first day that a file covers now: the start is
    published, so no row may decide it.
    """
    covers = job.rows.covers
    if covers is None:
        return _new_year()
    days = int(days_of(covers) * (28 / 31 if covers.endswith("mo") else 1))
    now = datetime.now(load_zone(job.times.timezone or "UTC"))
    return str((now - timedelta(days=days)).date())


def _new_year() -> str:
    return f"{datetime.now(UTC).year}-01-01"


def days_of(every: str) -> float:
    """Return the approximate length of a window in days; 1 if the text is not a length."""
    try:
        return days_in(every) or 1
    except (KeyError, ValueError):
        return 1


def refuse_state(job: Job) -> None:
    """Refuse an existing state that the user did not name: it holds other streams."""
    file, state = state_file(job.keeping.state), os.fspath(job.keeping.state)
    if file is not None and file.exists() and state == default_state(job.events):
        raise InvalidInput(
            f"state {state!r} exists already, and options of its streams "
            f"cannot change; give another state ({field('state', 'other.db')}), or a new "
            f"{field('name')} for another stream in this state"
        )


#: Example values for missing options of a new stream.
_USUAL = {"every": "1d", "steps": 365, "epsilon": "1", "most": 3, "domain": "A,B,C"}


def with_examples(job: Job, missing: Collection[str], look: FirstLook) -> tuple[list[str], Job]:
    """Return a line for each option that a job lacks before its first run, with an example; and the
    job with these examples.

    No column is guessed but that of times: others are called COLUMN.

    >>> import polars as pl
    >>> job = Job("count", pl.DataFrame({"at": ["2999-03-01T09:00Z"], "who": ["a"]}), "visits.db")
    >>> with_examples(job, ["time", "user"], look_at(job))[1].option("user")
    'COLUMN'
    """
    counted, time = kind_of(job.what), next((one.name for one in look.times), "COLUMN")
    asked = [one for one in missing if one != "rho" and not job.states(one)]
    form = {"separator": look.separator, "decimal": look.decimal}
    named = job.times.time or time
    form["time_format"] = next((one.time_format for one in look.times if one.name == named), None)
    usual = (",", ".", None)
    asked += [
        name
        for (name, value), default in zip(form.items(), usual, strict=True)
        if value not in (default, None) and not job.states(name)
    ]
    if "time" in asked or job.times.time is not None:
        old = job.having(time=job.times.time or time)
        if job.times.until is None and "start" in asked and are_old(old, look):
            asked.append("until")
        start = fitting_start(old, look) or usual_start(old)
    else:
        start = usual_start(job)
    examples: dict[str, Any] = {**_USUAL, **form, "start": start, "time": time, "until": NEWEST}
    if counted.is_table and (every := job.times.every or job.people.per):  # one table a period
        examples |= {"every": every, "steps": max(1, round(365 / days_of(every)))}
    examples |= dict.fromkeys(("by", "user"), "COLUMN")
    own = named_values(counted.example)
    examples |= {one.name: own.get(one.key, one.name.upper()) for one in counted.options}
    given = {one: examples.get(one, one.upper()) for one in asked}
    known = options_of_job(job)
    lines = [f"{field(one, value)}: {known[one].help}" for one, value in given.items()]
    return lines, job.having(**given)
