"""A run's report in words: protection, releases, and rows left out."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counton.base.look_alikes import shown_beside
from counton.base.outside_input import read_plain
from counton.frame.windows import ENDLESS, LATE_DAYS
from counton.job.job import NEWEST
from counton.privacy.guarantees import AgesWithData, plural
from counton.run.clock import length_of

if TYPE_CHECKING:
    from counton.released.description import Description
    from counton.run import Definition, Job, Outcome
    from counton.run.dry_run import DryRun


#: Names of columns that often say how many things a row stands for.
_COUNTED = {"count", "counts", "n", "number", "total"}
#: Heading of exact numbers, which go to standard error.
EXACT = "exact, not to be published"


def distinct_lines(file: Path) -> frozenset[bytes]:
    """Return the distinct lines of the file to which a job writes unreadable rows, if it exists."""
    try:
        return frozenset(read_plain(file).splitlines())
    except OSError:
        return frozenset()


def operator_notes(outcome: Outcome, aside: int, *, waits: bool) -> list[str]:
    """Return exact facts about the rows of a run, in sentences for the operator only.

    Args:
        aside: number of unreadable rows that no earlier run had written to their file.
        waits: True if windows wait for late rows (``watermark``).
    """
    counts, windows = outcome.for_operator(), outcome.definition.cut
    others = counts.quarantined - aside
    beside = f" (beside {others:,} that were there before)" if others > 0 else ""
    of_each = [
        ("rows with a missing value, not counted", counts.skipped),
        (f"rows that cannot be read, set aside{beside}", aside),
        ("rows beyond their user's limit, not counted", counts.beyond_most),
    ]
    gone = ("rows that were counted and are gone, which stay counted", counts.gone)
    if not windows.goes_on:
        undeclared = ("rows of undeclared cells, not counted", counts.unknown)
        came = "rows that came after the table was released, not counted: begin another --name"
        return _as_notes([undeclared, *of_each, (came, counts.shut), gone])
    start = windows.at(windows.start) if counts.before else ""
    end = windows.at(windows.end) if counts.beyond else ""
    if outcome.after > outcome.before:
        counted_at = f"counted at step {outcome.before + 1:,}"
    elif outcome.after < windows.steps:
        counted_at = "to be counted at the next release"
    else:
        counted_at = "not counted: the stream has had its last release"
    if windows.lags and outcome.after < windows.steps:
        counted_at += ", in their own windows"
    closed = (  # their ids and users are forgotten: many may have been counted
        f"rows of windows that were final ({windows.lags:,} more windows had ended), counted "
        f"nowhere; those that came in time were counted then"
        if windows.lags
        else f"rows over {LATE_DAYS} days old, or of a period that was erased, not counted now; "
        f"those that came in time were counted then"
    )
    notes = [
        (f"rows that arrived late for windows released before, {counted_at}", counts.late),
        ("newest windows released without a row (is a file missing?)", counts.empty),
        (f"rows before the first window ({start}), not counted", counts.before),
        (f"rows after the last window ({end}), not counted", counts.beyond),
        *of_each,
        ("rows that an earlier run had counted, not counted again", counts.known),
        (closed, counts.closed),
        ("rows of windows that this input does not cover, left out of this run", counts.outside),
        ("rows that were counted and are gone, taken out of open windows", counts.taken_back),
        (closed if windows.lags else _SHUT, counts.shut),
        gone,
    ]
    lines = _as_notes(notes)
    if counts.differing:
        lines += _differing_windows(outcome)
    if counts.unknown or counts.others:
        lines += notes_on_names(outcome, outcome.definition)
    if counts.late_by and not windows.lags:
        lines.insert(1, _remedy_of_late_rows(outcome.definition, counts.late_by, waits=waits))
    if outcome.again:  # a file without a row is never known again, so that one row shows
        lines.insert(0, "an earlier run has counted these events, which add nothing")
    return lines


def _differing_windows(outcome: Outcome) -> list[str]:
    """Return a sentence for each of the newest windows of which this input says something else than
    the last one. Exact, for the operator only.
    """
    windows, found = outcome.definition.cut, outcome.for_operator().differing
    counted = getattr(outcome.definition.inner, "counts_units", False)
    things = (
        plural(outcome.definition.counting.row or outcome.definition.unit) if counted else "rows"
    )
    lines = [
        f"{windows.span(range(one.step, one.step + 1))}: {one.now:,} {things} for {one.before:,} "
        f"before ({one.more:,} new, {one.fewer:,} gone), {'' if one.counts else 'not '}counted"
        for one in found[: -_TOLD - 1 : -1]
    ]
    rest = len(found) - len(lines)
    return [*lines, *[f"{rest:,} earlier windows differ, too"] * (rest > 0)]


#: Most windows of which is told that they differ.
_TOLD = 7


def notes_on_names(found: Outcome | DryRun, definition: Definition) -> list[str]:
    """Return sentences on rows of undeclared groups, with the commonest of their names, which may
    be misspelt. Exact, for the operator only.
    """
    counts, where = found.for_operator(), f"which belong to group {definition.other!r}"
    lines = _as_notes(
        [
            (f"rows of undeclared groups{definition.cells.unnamed}, not counted", counts.unknown),
            (f"rows seen of undeclared groups, {where}", counts.others),
        ]
    )
    declared = definition.domain or ()
    named = [f"{shown_beside(name, declared)}, {rows:,}" for name, rows in counts.unlisted]
    names = "; ".join(named)
    return [f"{line} (most often {names})" if names else line for line in lines]


def counted_column(columns: Collection[str], job: Job) -> str | None:
    """Return a sentence on a column that seems to say how many things a row stands for, while a job
    counts each row as one; None if there is none.

    Such a column is called ``count`` or the like, ends with ``count``, or has the plural of the
    protected unit or the file's name for its own.

    >>> from counton.run import Job
    >>> job = Job("count", "rides.csv", "p.db", time="at", by="site", unit="car")
    >>> print(counted_column(["at", "site", "count"], job))
    each row is counted as one; if 'count' says how many it stands for, say so: --counts count, ...
    >>> [counted_column(["at", one], job) is None for one in ("rides", "cars", "bus_count", "who")]
    [False, False, False, True]
    >>> counted_column(["at", "count"], job.having(by="count")) is None
    True
    """
    used = {job.times.time, job.people.user, job.rows.id, *(job.groups.by or "").split(",")}
    names = {*_COUNTED, plural(job.promise.unit or "n").lower()}
    if isinstance(job.events, str | Path):
        names.add(Path(job.events).stem.lower())
    found = [
        one
        for one in columns
        if one not in used and (one.lower() in names or one.lower().endswith("_count"))
    ]
    if job.what != "count" or job.option("counts") is not None or not found:
        return None
    return (
        f"each row is counted as one; if {found[0]!r} says how many it stands for, say so: "
        f"--counts {found[0]}, or in a job file counts = {json.dumps(found[0])}"
    )


def _remedy_of_late_rows(definition: Definition, windows: int, *, waits: bool) -> str:
    """Return words on the options that would let late rows count in their own windows.

    Args:
        definition: definition of the stream of these rows: its windows, groups and options.
        windows: number of windows within which 95% of the late rows came.
        waits: True if windows wait for late rows (``watermark``), but not long enough.
    """
    cut = definition.cut
    after, name = cut.long(windows), cut.period or "window"
    longer, revises = f"--watermark {'longer by ' * waits}{after} waits for them", ""
    if not definition.expires and not definition.ranks:
        revises = (
            f", and a new stream with --revise {after} counts them in their own {name}, "
            f"provisional until then"
        )
    return (
        f"nearly all of these came within {after} after the release of their {name}: "
        f"{longer}{revises}"
    )


#: A file of all events does not tell which late rows are new.
_SHUT = (
    "rows that came for windows released before, not counted from a file of all events (release "
    "later, --watermark; or begin a stream with --revise, which counts them in their own window)"
)


def _as_notes(numbers: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{what}: {rows:,}" for what, rows in numbers if rows]


def promise(definition: Description) -> str:
    """Describe the guarantee of a release in one sentence."""
    from counton.released.stream_words import promise_in_words

    loss = None
    if isinstance(definition.guarantee, AgesWithData):
        from counton.cli.privacy_by_age import loss_in_words

        loss = loss_in_words(definition)
    return promise_in_words(definition, loss)


def time_warnings(outcome: Outcome, job: Job) -> list[str]:
    """Return warnings about the times of rows and windows, to print after a run.

    A warning on late rows comes with a stream's first run, if late rows would count in the window
    in which they arrive: it names the options that let them count in their own windows. Another
    warning comes if the time of the newest event decided which windows were released, because this
    time is not protected.
    """
    definition, until, after = outcome.definition, outcome.until, outcome.after
    watermark = job.lateness.watermark
    cut, lines = definition.cut, list[str]()
    by_arrival = cut.goes_on and not cut.lags
    if by_arrival and watermark is None and outcome.before == 0:
        own = f"their {definition.window}"
        revise = f"; a new stream with --revise counts them in {own}, provisional at first"
        lines.append(
            f"if rows come late, --watermark waits for them before {own} is released"
            f"{'' if definition.expires or definition.ranks else revise}"
        )
    if until is None or outcome.job.times.until != NEWEST or after == outcome.before:
        return lines
    if until < (int(cut.ends(range(after, after + 1))[0]) if after else 0):  # its last end
        return lines
    less = "" if watermark is None else f" less the watermark of {watermark}"
    return [
        *lines,
        f"Released windows ended by {cut.to_the_minute(until)}, the time of the newest event"
        f"{less}; this time is not protected; without until = newest the clock decides",
    ]


def next_release(outcome: Outcome, watermark: str | None) -> list[str]:
    """Return a line that says when the next window is released, if there is one.

    Args:
        outcome: result of the run.
        watermark: how long after its end a window is released; None: at its end.
    """
    cut, after = outcome.definition.cut, outcome.after
    if not cut.goes_on or after >= cut.steps:
        return []
    end = int(cut.ends(range(after + 1, after + 2))[0])
    due = cut.at(end + length_of(watermark))
    newest = outcome.job.times.until == NEWEST
    waits = f"for an event of {due} or later" if newest else f"until {due}"
    after_its_end = "its end" if watermark is None else f"{watermark} after its end (the watermark)"
    return [f"The next window waits {waits}, {after_its_end}."]


def progress_line(outcome: Outcome) -> str:
    """Return a line on how many steps are released, and how many of them are new."""
    new = outcome.after - outcome.before
    cut = outcome.definition.cut
    unstated = bool(cut.lags) and cut.steps >= ENDLESS
    forever = outcome.definition.strategy.horizon is None or unstated
    if not cut.goes_on:
        what = getattr(outcome.definition.statistic, "size", outcome.definition.what)
        shown_again = f"Nothing new: these {what} were released before, and are shown again."
        return f"Released {what}." if new else shown_again
    of = "" if forever else f" of {cut.steps:,}"
    if new == 0 and outcome.after == 0:
        return "Nothing released: no window has ended yet."
    if new == 0:
        return f"Nothing new to release: {outcome.after:,}{of} windows are released."
    if new == 1:
        return f"Released 1 new window ({outcome.after:,}{of})."
    return f"Released {new:,} new windows ({outcome.before + 1:,} to {outcome.after:,}{of})."
