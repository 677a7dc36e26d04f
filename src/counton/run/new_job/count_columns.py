"""Columns whose names say that they hold numbers of events."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from counton.base.wording import plural
from counton.job.common_options import Job

#: Names of columns that often say how many events a row has.
_COUNT_NAMES = {"count", "counts", "n", "number", "total"}


def columns_named_as_counts(column_names: Collection[str], job: Job) -> list[str]:
    """Return the columns whose names say that they hold numbers of events.

    Such a column is called ``count`` or the like, ends with ``count``, or has the plural of the
    protected unit or the file's name for its own.

    Args:
        column_names: names of the columns of the rows.
        job: the job; columns that it uses for something else are left out.

    >>> from counton.job.statistics.count import CountJob
    >>> job = CountJob(events="rides.csv", time="at", group_by="site", privacy_unit="car")
    >>> columns_named_as_counts(["at", "site", "rides", "bus_count", "who"], job)
    ['rides', 'bus_count']
    """
    used = {job.time, job.value_of("user"), job.row_id, *(job.value_of("group_by") or ())}
    names = {*_COUNT_NAMES, plural(str(job.privacy_unit or "n")).lower()}
    if isinstance(job.events, str | Path):
        names.add(Path(job.events).stem.lower())
    return [
        name
        for name in column_names
        if name not in used and (name.lower() in names or name.lower().endswith("_count"))
    ]
