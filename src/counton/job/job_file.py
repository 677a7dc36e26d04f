"""Job files: several jobs in TOML, for ``counton run``.

The keys of a job are the options of its command without dashes. Values for all jobs stand once,
under ``[defaults]``. Paths are relative to the folder of the file.

    [defaults]
    state = "visits.db"
    epsilon = 1

    [jobs.visits]
    events = "events/*.csv"
    time = "time"
    every = "1h"
    start = "2024-03-01"
    windows = 8760
    output = "visits.parquet"

A table ``[report.NAME]`` is a job of several statistics, each a table below.
`counton.job.job_file_tables` reads the tables, and `counton.job.saved_job` writes a job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from counton.base.errors import CountonError, InvalidInputError, param
from counton.job import values as v
from counton.job.common_options import Job
from counton.job.incompatible import refuse_of_service
from counton.job.job_file_tables import read_table, read_tables
from counton.job.messages import (
    RefusedValueError,
    explain_unknown_option,
    keys_of,
    parse_options,
)
from counton.job.option_fields import Section, option
from counton.job.statistics import all_models, model_of

_T = TypeVar("_T")

#: Keys that ``counton init`` leaves empty where only the operator can say their values.
KEYS_LEFT_EMPTY = (
    "time",
    "time-format",
    "timezone",
    "start",
    "until",
    "group-by",
    "groups",
    "other-group",
    "user",
    "max-contributions",
    "contribution-period",
    "privacy-unit",
    "decimal",
)
#: Options of a report whose value may be a table, which is then no statistic of the report.
_TABLES_OF_REPORT = ("groups", "margin-of-error")
#: Stands for the rows of a job that reads none.
_NO_ROWS = "-"


class PublishTable(Section):
    """The table ``[publish]``: the database where all jobs publish."""

    heading = "[publish]"
    to: v.State | None = option("SQLite file or URL in which all streams are published.")


# ------------------------------------------------------------------------------------------- jobs
def load(path: str | os.PathLike[str], *, without_rows: bool = False) -> dict[str, Job]:
    """Read the jobs of a file, by name, in their order.

    Args:
        path: the job file.
        without_rows: True if no row will be read, so that a job need not name events.

    Raises:
        InvalidInputError: the file is no job file, or an option is wrong; the message names both.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[defaults]\\nstate = "v.db"\\n[jobs.visits]\\nevents = "v.csv"\\n')
    >>> load(file)["visits"].statistic
    'count'
    """
    jobs: dict[str, Job] = {}
    for name, job in load_each(path, without_rows=without_rows).items():
        if isinstance(job, CountonError):
            raise job
        jobs[name] = job
    return jobs


def load_usable(
    path: str | os.PathLike[str], *, without_rows: bool = False
) -> dict[str, Job | RefusedValueError]:
    """Read the jobs of a file; a job with a wrong value has its error in place of the job.

    A wrong value concerns one job, and the others can be run. An unknown key may be the misspelt
    name of any option.

    Args:
        path: the job file.
        without_rows: True if no row will be read, so that a job need not name events.

    Raises:
        InvalidInputError: the file is no job file, or a key is unknown, missing or left empty.
    """
    jobs: dict[str, Job | RefusedValueError] = {}
    for name, job in load_each(path, without_rows=without_rows).items():
        if isinstance(job, CountonError) and not isinstance(job, RefusedValueError):
            raise job
        jobs[name] = job
    return jobs


def load_each(
    path: str | os.PathLike[str], events: object = None, *, without_rows: bool = False
) -> dict[str, Job | CountonError]:
    """Read the jobs of a file; a job that cannot be read has its error in place of the job.

    Args:
        path: the job file.
        events: source of all jobs' events, if the caller has it; then the file must not name any.
        without_rows: True if no row will be read, so that a job need not name events.

    Raises:
        InvalidInputError: the file is no job file.
    """
    file = Path(path)
    tables = read_tables(file)
    job_tables = tables.get("jobs", {})
    report_tables = tables.get("report", {})
    if not job_tables and not report_tables:
        raise InvalidInputError(
            f"job file {str(file)!r} has no jobs; write [jobs.NAME] for a job, [report.NAME] for a "
            "report, and shared options under [defaults]"
        )
    for name in job_tables:
        if name in report_tables:
            raise InvalidInputError(
                f"job file {str(file)!r} has a job and a report called {name!r}; give each its own "
                "name"
            )
    defaults = tables.get("defaults", {})
    jobs: dict[str, Job | CountonError] = {}
    for name, table in {**job_tables, **report_tables}.items():
        try:
            options = _report_options(name, table) if name in report_tables else table
            options = _with_defaults(name, options, defaults)
            jobs[name] = _parse_job(name, options, file.parent, events, without_rows=without_rows)
        except CountonError as error:
            message = error.translate(file_keys())
            refusal = (
                RefusedValueError if isinstance(error, RefusedValueError) else InvalidInputError
            )
            jobs[name] = refusal(f"job {name!r} of {str(file)!r}: {message}")
    return jobs


def select_jobs(jobs: Mapping[str, _T], only: str | Sequence[str] | None) -> dict[str, _T]:
    """Return the named jobs of a file, in its order; all jobs if none is named.

    Args:
        jobs: the jobs of a file, by name.
        only: names of jobs, or a text such as A,B.

    Raises:
        InvalidInputError: a name is not that of a job.

    >>> select_jobs({"visits": 1, "paid": 2}, "paid")
    {'paid': 2}
    """
    names = only.split(",") if isinstance(only, str) else (only or ())
    selected = {name.strip() for name in names}
    if not selected:
        return dict(jobs)
    for name in names:
        if name.strip() not in jobs:
            raise InvalidInputError(
                f"{param('only', name)} is not a job of this file; its jobs are {', '.join(jobs)}"
            )
    return {name: job for name, job in jobs.items() if name in selected}


def file_keys(models: Iterable[type[Job]] | None = None) -> dict[str, str]:
    """Return what job files call options, by the names that messages have for them.

    Args:
        models: models that have the options; None: those of all statistics.

    >>> file_keys()["bad_rows"]
    'bad-rows'
    """
    models = all_models().values() if models is None else models
    keys = {name: str(item.alias) for model in models for name, item in model.model_fields.items()}
    return {"what": "statistic", **keys}


def _report_options(name: str, table: object) -> dict[str, object]:
    """Return the options of a report, whose statistics are tables within its own."""
    if not isinstance(table, dict):
        raise InvalidInputError(
            f"it is no section; write the line [report.{name}], and its options below"
        )
    members = {
        key: value
        for key, value in table.items()
        if isinstance(value, dict) and key not in _TABLES_OF_REPORT
    }
    if not members:
        raise InvalidInputError(
            f"it contains no statistic; write the line [report.{name}.visits], for example, and "
            "the options of that statistic below"
        )
    options = {key: value for key, value in table.items() if key not in members}
    return {**options, "statistic": "report", "statistics": members}


def _with_defaults(name: str, options: object, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a job, and those defaults that its statistic has.

    A default that no statistic has stays, so that it is refused.
    """
    if not isinstance(options, dict):
        raise InvalidInputError(
            f"it is no section; write the line [jobs.{name}], and its options below"
        )
    statistic = options.get("statistic", defaults.get("statistic", "count"))
    keys_of_statistic = keys_of(model_of(statistic))
    keys_of_others = defaults.keys() - keys_of_statistic.keys()
    if keys_of_others:
        keys_of_others &= {key for model in all_models().values() for key in keys_of(model)}
    shared = {key: value for key, value in defaults.items() if key not in keys_of_others}
    return {**shared, **options, "statistic": statistic}


def _parse_job(
    name: str, options: Mapping[str, object], folder: Path, events: object, *, without_rows: bool
) -> Job:
    """Return the job that one table of a job file describes.

    Args:
        name: name of the table.
        options: its options, with those of ``[defaults]``.
        folder: folder of the job file.
        events: source of the events; None: the table names it.
        without_rows: True if no row will be read.
    """
    _refuse_unknown_keys(options)
    _refuse_empty_lines(options)
    options = {"stream": name, **options}
    if events is not None:
        if "events" in options:
            raise InvalidInputError(
                f"{param('events')} is stated, but here the rows are passed in from outside; leave "
                "the key out"
            )
        options["events"] = events
    is_for_service = without_rows and "events" not in options
    if is_for_service:
        options["events"] = _NO_ROWS
    for needed in ("events", "state"):
        if needed not in options:
            raise InvalidInputError(
                f"the key {needed!r} is missing. Add it there, or under [defaults]"
            )
    job: Job = parse_options(model_of(options["statistic"]), options, folder)
    if is_for_service:
        refuse_of_service(job)
    return job


def _refuse_unknown_keys(options: Mapping[str, object]) -> None:
    """Refuse a key that the statistic does not have, before missing keys: it may be misspelt."""
    model = model_of(options["statistic"])
    if model.model_config.get("extra") != "forbid":
        return
    aliases = {str(item.alias) for item in model.model_fields.values()}
    for key in options:
        if key not in aliases:
            raise InvalidInputError(explain_unknown_option(key, model))


def _refuse_empty_lines(options: Mapping[str, object]) -> None:
    empty = [key for key in KEYS_LEFT_EMPTY if options.get(key) == ""]
    if not empty:
        return
    about_users = ""
    if "user" in empty:
        about_users = (
            ". To protect single rows instead of users, replace user, max-contributions and "
            'contribution-period with privacy-unit = "visit"'
        )
    raise InvalidInputError(
        f"these keys are empty: {', '.join(empty)}. Fill them in; the comment above each line "
        f"explains it{about_users}"
    )


# ---------------------------------------------------------------------------------- other sections
def published_to(path: str | os.PathLike[str]) -> str | None:
    """Return the database in which a job file publishes all its streams; None if it names none.

    Raises:
        InvalidInputError: the database cannot be one; nothing was released.

    >>> file = Path("nightly.toml")
    >>> _ = file.write_text('[publish]\\nto = "sqlite:///public.db"\\n')
    >>> published_to(file)
    'sqlite:///public.db'
    """
    file = Path(path)
    tables = read_tables(file)
    if "publish" not in tables:
        return None
    to = read_table(file, tables, "publish", PublishTable).to
    if to is None:
        raise InvalidInputError(
            f"[publish] of {str(file)!r} does not name the database; add a line such as to = "
            '"public.db"'
        )
    _refuse_impossible_file(str(to), f"'to' in [publish] of {str(file)!r}")
    return str(to)


def _refuse_impossible_file(address: str, called: str) -> None:
    from counton.state.database import state_file

    file = state_file(address, called)
    if file is None:
        return
    reason = ""
    if file.is_dir():
        reason = "is a folder"
    elif not file.parent.is_dir():
        reason = "lies in a folder that does not exist"
    if reason:
        raise InvalidInputError(
            f"{called} is {address!r}, which {reason}; give a database file or URL"
        )
