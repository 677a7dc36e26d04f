"""The rules that decide which windows are released, and of which an input holds all rows.

Unless the job states a time, the clock decides, so that the number of steps does not depend on the
data. The newest event decides only if the job says ``until="newest"``, because that event belongs
to a person.

A stream has inputs of one kind, which its definition says: all rows of the windows that are
covered, or new rows.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from counton.base.errors import HorizonExceeded, InvalidInput, field
from counton.frame.windows import Windows, microseconds, moment, parse_time
from counton.job.job import NEWEST, NOW, Job
from counton.rows.paths import moments_named
from counton.run.missing_rows import quiet_limit

if TYPE_CHECKING:
    from counton.run.definition import Definition

#: A stream that ended longer ago holds data of the past, so the clock does not decide.
_PAST = timedelta(days=31)
#: Latest time that Python can represent.
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)


class ClockFacts(NamedTuple):
    """Facts about a job's events that decide which windows have ended.

    Attributes:
        events: name of the events, for messages.
        newest: time of the newest event in microseconds since 1970; None if there is none.
        beyond: True if an event lies after the last window.
        released: number of steps released before; None for a new stream.
        last: time of the newest event that is neither after the last window nor in the future; None
            if there is none. By it missing nights are noticed.
        all_of_them: True if these are all events since the first window, not only new ones.
        none: True if these are all rows of windows, and there is no row.
    """

    events: str
    newest: int | None
    beyond: bool
    released: int | None
    all_of_them: bool = True
    last: int | None = None
    none: bool = False


def windows_ended(
    job: Job,
    definition: Definition,
    seen: ClockFacts,
    now: datetime | None = None,
    *,
    yes: bool = False,
) -> tuple[int, int]:
    """Return the time up to which windows are released, in microseconds since 1970, and how many
    windows have ended by then.

    Args:
        job: the job, whose ``until`` decides: a time, "now" (the default), or "newest"; a window
            is released ``watermark`` after its end.
        definition: definition of the stream.
        seen: facts about the events.
        now: the current time; None: this machine's clock.
        yes: release even if ``until`` looks like a mistake, because ``quiet`` or more windows since
            the newest event have no event; so does the job's ``yes``.

    Raises:
        InvalidInput: the time has not passed, is before the first window, or is many windows after
            the newest event; ``until`` is None although the last window ended long ago; or
            ``until`` is "newest" and there is no event.
        HorizonExceeded: the time, or the deciding event, is after the last window.
    """
    windows = definition.cut
    now, until, watermark = now or datetime.now(UTC), job.times.until, job.lateness.watermark
    stated, until = until is not None, NOW if until is None else until
    yes = yes or job.times.yes
    quiet = quiet_limit(job)
    late = length_of(watermark)
    whole = windows.end + late  # the time when the last window is released
    end = min(whole, microseconds(_LATEST))
    if (seen.released or 0) >= windows.steps:  # then nothing more can be released
        return windows.end, windows.steps
    if until == NEWEST:
        us = _newest(windows, seen, end, now) - late
        return us, windows.ended_by(us)
    if until == NOW:
        if not stated and now - moment(windows.end) > _PAST and not yes:
            quiet_then = _quiet_windows(windows.steps, windows, seen)[1]
            sure = f" with {field('yes', True)}" if quiet_then > quiet else ""
            raise InvalidInput(
                f"the last window ended at {windows.at(windows.end)}, so the data are of the past, "
                "and the clock does not tell up to which time they are complete. Give that time, "
                f"at most {field('until', windows.at(end))}{sure}; or {field('until', NEWEST)}, "
                "but then readers learn the window of the newest event, and that time is not "
                f"protected. If the stream should still be running, correct {field('start')}, "
                f"{field('every')} or {field('steps')}"
            )
        us = min(microseconds(now), whole)
    else:
        us = microseconds(parse_time(until, windows.timezone))
    if us > microseconds(now):
        raise InvalidInput(
            f"{field('until', until)} lies in the future (it is "
            f"{windows.local(now):%Y-%m-%dT%H:%M%z} now), so windows would be released before they "
            "end, and rows that come later would be missing from them; give a time in the past"
        )
    if us > whole:
        last = windows.at(end)
        last += "" if watermark is None else f" with its watermark of {watermark}"
        raise HorizonExceeded(
            f"{field('until', until)} is after the end of the stream's last step, "
            f"{windows.steps:,}, {last}; give {field('until', windows.at(end))} for the rest of "
            "this stream, and start another stream for later events"
        )
    begin = microseconds(windows.start)
    # A scheduled job may run before its first window begins. A stated time more than a window
    # before that is a mistake.
    first_window = int(windows.ends(range(1, 2))[0]) - begin
    if us - late <= begin and (until == NOW or us > begin - first_window):
        return us - late, 0
    us -= late
    if us <= begin:
        raise InvalidInput(
            f"{field('until', until)} is not after {windows.at(windows.start)}, when the first "
            "window begins, so no window has ended by then; give a later time, or correct "
            f"{field('start')}"
        )
    count = windows.ended_by(us)
    if not yes:
        _refuse_quiet(job, until if stated else None, count, windows, seen)
    return us, count


_UNITS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def length_of(watermark: str | None) -> int:
    """Convert a watermark to microseconds; None is 0.

    >>> length_of("6h") == 6 * 3_600_000_000
    True
    """
    if watermark is None:
        return 0
    found = re.fullmatch(r"(\d{1,6})([smhd])", watermark.strip())
    if found is None:
        raise InvalidInput(
            f"{field('watermark')} is {watermark!r}; it is a length of time, such as 90s, 15m, 6h "
            "or 2d"
        )
    return int(found[1]) * _UNITS[found[2]]


def _refuse_quiet(
    job: Job, until: str | datetime | None, count: int, windows: Windows, seen: ClockFacts
) -> None:
    """Refuse to release up to window ``count`` if too many windows lack events.

    A file may be missing. The newest event's window counts too. Released windows do not, if only
    new events are given.

    Args:
        job: the job, whose ``quiet`` is the largest number.
        until: the stated time up to which windows are released.
        count: number of windows that have ended by then.
        windows: windows of the stream.
        seen: facts about the events.

    Raises:
        InvalidInput: more windows have ended since the newest event.
    """
    most = quiet_limit(job)
    new, since = _quiet_windows(count, windows, seen)
    if new <= 0 or (since <= most and not seen.none):
        return
    last = "there is no event"
    if seen.last is not None:
        ended = (
            f"{since:,} window{'s have' if since > 1 else ' has'} ended since, more than {most:,}"
        )
        last = f"the newest event is of {windows.to_the_minute(seen.last)}: {ended}"
    newest = 0  # the window of the newest event
    if seen.last is not None and seen.last >= microseconds(windows.start):
        newest = windows.ended_by(seen.last) + 1
    empty = range(max(newest, seen.released or 0) + 1, count + 1)
    named = f" {windows.span(empty)} would have no row." if empty else ""
    said = f"without {field('until')}, this run" if until is None else field("until", until)
    past = ""
    if job.rows.covers is None:
        past = (
            f" {field('until', NEWEST)} if the data are of the past (that time is not protected),"
        )
    raise InvalidInput(
        f"{said} would release {new:,} window{'s' * (new > 1)}, but {last}.{named} Add the missing "
        f"file; or give {field('yes', True)} if nothing happened,{past} or a larger "
        f"{field('quiet')} if that is usual"
    )


def _quiet_windows(count: int, windows: Windows, seen: ClockFacts) -> tuple[int, int]:
    """Return how many windows after the newest event would be released now, and have ended.

    If only new events are known, the second number is equal to the first.
    """
    newest = 0 if seen.last is None else windows.ended_by(seen.last)
    new = count - max(newest, seen.released or 0)
    return new, count - newest if seen.all_of_them else new


def _newest(windows: Windows, seen: ClockFacts, end: int, now: datetime) -> int:
    """Return the release time by the newest event; ``end`` of the last window for the message."""
    if seen.newest is None:
        raise InvalidInput(
            f"{seen.events} holds no rows, so no event tells which windows have ended; give "
            f"{field('until')}, or add events"
        )
    newest, shown = windows.local(seen.newest), windows.to_the_minute(seen.newest)
    if seen.beyond:
        raise HorizonExceeded(
            f"the newest event ({shown}) is after the end of the stream's last step, "
            f"{windows.steps:,}, {windows.at(windows.end)}; give {field('until', windows.at(end))} "
            "for the rest of this stream, and start another stream for later events"
        )
    if newest > now:
        raise InvalidInput(
            f"the newest event ({shown}) lies in the future, so windows would be "
            f"released before they end; correct the event or give {field('until')}"
        )
    if seen.released is None and newest < windows.start:
        raise InvalidInput(
            f"the newest event ({shown}) is before {windows.at(windows.start)}, when "
            f"the first window begins, so there is nothing to count; correct {field('start')} or "
            f"the events"
        )
    return seen.newest


def repeats_all_rows(job: Job) -> bool:
    """Return True if a job's events are all rows since the first window, False if they are new rows
    only.

    Files with new events (``append``) have new rows only. So has the result of a query with
    ``{since}``, which leaves out the rows of released windows.
    """
    query = job.rows.query
    return not (job.rows.append or (query is not None and "since" in moments_named(query)))


def covered_windows(covers: str, windows: Windows, released: int, ended: int, last: int) -> range:
    """Return the numbers of the windows of which an input holds all rows.

    They hang on the job, the clock and the released step, never on the rows: otherwise one row
    alone in a window would wipe out the others.

    Args:
        covers: length of time before the end of window ``last``, such as "7d"; only whole windows
            within it are covered.
        windows: windows of the stream.
        released: number of released steps.
        ended: number of windows that a run releases; no later one is covered.
        last: number of windows that have ended: those that a watermark holds back count, too,
            because the file has their rows, and in their place lacks those of earlier windows.

    Raises:
        InvalidInput: the first window that is not released yet is not covered, so it would be
            released without its rows.

    >>> from datetime import UTC, datetime
    >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 24)
    >>> covered_windows("7d", days, 9, 10, 10), covered_windows("7d", days, 9, 10, 11)
    (range(4, 11), range(5, 11))
    """
    covered = windows.within(covers, max(last, released))
    covered = range(covered.start, min(covered.stop, max(ended, released) + 1))
    if ended <= released or covered.start <= released + 1:
        return covered
    begin, end, until = (
        windows.at(int(windows.ends(range(step, step + 1))[0]))
        for step in (released, covered.start - 1, ended)
    )
    whole = f"the windows from {end} to {until}" if covered else f"no whole window up to {until}"
    raise InvalidInput(
        f"{field('covers', covers)} covers {whole}, but the first window "
        f"that is not released yet begins at {begin}, so windows would be released without their "
        f"rows: give also the rows from {begin} to {end}, and for this run a {field('covers')} "
        "that reaches back so far"
    )


def windows_covered_by(
    job: Job, definition: Definition, released: int, ended: int, until: int | None
) -> range | None:
    """Return the numbers of the windows of which a job's rows are all; None if the rows are new, or
    known one by one.

    ``until``: the time up to which windows are released, as in `windows_ended`; None without them.
    """
    if not definition.cut.goes_on:
        return range(1, 2)
    if definition.changes is None:
        return None
    if job.rows.covers is None:
        first = 1 if repeats_all_rows(job) else max(released + 1 - definition.cut.lags, 1)
        return range(first, ended + 1)
    assert until is not None
    last = definition.cut.ended_by(until + length_of(job.lateness.watermark))
    return covered_windows(job.rows.covers, definition.cut, released, ended, last)


def refuse_unproven(job: Job, definition: Definition) -> None:
    """Refuse what is not proven for inputs that hold all rows of windows, if the job states which
    windows they are, or revises windows.
    """
    covers, revise = job.rows.covers, definition.record.get("revise")
    if definition.new_rows or (covers is None and revise is None):
        return
    stated = field("revise", revise) if covers is None else field("covers", covers)
    if covers is not None and job.times.until == NEWEST:
        raise InvalidInput(
            f"{stated} counts back from {field('until')}, and with {field('until', NEWEST)} a "
            f"single row would move the windows that are covered: give a time, or leave "
            f"{field('until')} out"
        )
    if definition.cells.policy is not None:
        raise InvalidInput(
            f"{stated} does not go with groups that nobody declared "
            f"({field('unknown', 'discover')}) in inputs that hold all rows of windows, because "
            f"that is not proven: list the groups ({field('domain')}), or give files that hold "
            f"only new rows ({field('append', True)})"
        )
