"""The two kinds of inputs: all rows of the windows that are covered, or new rows.

A stream has inputs of one kind, which its definition says.
"""

from __future__ import annotations

from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.frame.windows import Windows
from counton.job.job import NEWEST, Job
from counton.rows.paths import moments_named
from counton.run.definition import Definition


def repeats_all_rows(job: Job) -> bool:
    """Return True if a job's events are all rows since the first window, False if they are new rows
    only.

    Files with new events (``append``) have new rows only. So has the result of a query with
    ``{since}``, which leaves out the rows of released windows.
    """
    query = job.rows.query
    return not (job.rows.append or (query is not None and "since" in moments_named(query)))


def covered_windows(covers: str | None, windows: Windows, released: int, ended: int) -> range:
    """Return the numbers of the windows of which an input holds all rows.

    They hang on the job, the clock and the released step, never on the rows: otherwise one row
    alone in a window would wipe out the others.

    Args:
        covers: length of time before the end of the last ended window, such as "7d"; only whole
            windows within it are covered. None: all windows since the first.
        windows: windows of the stream.
        released: number of released steps.
        ended: number of windows that have ended.

    Raises:
        InvalidInput: the first window that is not released yet is not covered, so it would be
            released without its rows.

    >>> from datetime import UTC, datetime
    >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 24)
    >>> covered_windows("7d", days, 9, 10)
    range(4, 11)
    """
    if covers is None:
        return range(1, ended + 1)
    covered = windows.within(covers, max(ended, released))
    if ended <= released or covered.start <= released + 1:
        return covered
    begin, end, until = (
        windows.at(int(windows.ends(range(step, step + 1))[0]))
        for step in (released, covered.start - 1, ended)
    )
    raise InvalidInput(
        f"{field('covers', covers)} covers the windows from {end} to {until}, but the first window "
        f"that is not released yet begins at {begin}, so windows would be released without their "
        f"rows: give also the rows from {begin} to {end}, and for this run a {field('covers')} "
        "that reaches back so far"
    )


def windows_covered_by(job: Job, definition: Definition, released: int, ended: int) -> range | None:
    """Return the numbers of the windows of which a job's rows are all; None if the rows are new, or
    known one by one.
    """
    if not definition.cut.goes_on:
        return range(1, 2)
    if definition.new_rows or definition.counting.users:
        return None
    if job.rows.covers is None and not repeats_all_rows(job):
        return range(max(released + 1 - definition.cut.lags, 1), ended + 1)
    return covered_windows(job.rows.covers, definition.windows, released, ended)


def refuse_other_kind(job: Job, definition: Definition) -> None:
    """Refuse a run whose input is of another kind than those of its stream, and options that do not
    go with that kind.
    """
    new, covers, unit = definition.new_rows, job.rows.covers, field("append", True)
    if not definition.cut.goes_on:
        new = True  # all rows at once
    elif (job.rows.append or definition.ids) != new:
        one, other = f"all rows of windows (without {unit})", f"new rows ({unit})"
        this, was = (one, other) if new else (other, one)
        raise RequestMismatch(
            f"this input is said to hold {this}, but the inputs of stream {job.keeping.name!r} "
            f"hold {was}, and rows would count twice, or not at all: give such an input, or "
            f"another {field('name')} for another stream"
        )
    if covers is not None and new:
        raise InvalidInput(
            f"{field('covers', covers)} says of which windows an input holds all rows, and the "
            f"inputs of stream {job.keeping.name!r} do not: leave it out"
        )
    asked = [field("covers", covers)] * (covers is not None)
    asked += [field("revise", definition.record.get("revise"))] * bool(definition.cut.lags)
    if new or not asked:
        return
    if covers is not None and job.times.until == NEWEST:
        raise InvalidInput(
            f"{asked[0]} counts back from {field('until')}, and with {field('until', NEWEST)} a "
            f"single row would move the windows that are covered: give a time, or leave "
            f"{field('until')} out"
        )
    unproven = definition.counting.users or definition.cells.policy is not None
    if unproven:
        what, remedy = f"people ({field('user')})", f"give files that hold only new rows ({unit})"
        if not definition.counting.users:
            what = f"groups that nobody declared ({field('unknown', 'discover')})"
            remedy = f"list the groups ({field('domain')}), or {remedy}"
        raise InvalidInput(
            f"{asked[0]} does not go with {what} in inputs that hold all rows of windows, because "
            f"that is not proven: {remedy}"
        )
