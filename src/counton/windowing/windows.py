"""Assignment of rows to steps: by windows of time, all rows to one step, or steps without times.

`Windows`, `RevisableWindows`, `SingleTableWindow` and `UnwindowedSteps` share one interface.
Window k is step k.

Times are integers, microseconds since 1970-01-01 UTC: no comparison depends on a time zone. Windows
of seconds, minutes and hours have a fixed length in absolute time (an hour is an hour, also on the
day the clocks change); windows of days, weeks and months follow the local calendar.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import ClassVar, overload
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, param
from counton.base.lengths import LATE_DAYS, PERIODS, Length, days_in, windows_in
from counton.base.wording import counted
from counton.windowing.date_text import day_and_time, day_in_words
from counton.windowing.lazy_polars import polars as pl

#: Values at most this stand for the reason why a row has no time (`is_moment`). They are below all
#: valid times.
NO_MOMENT = -(2**62)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_LATEST = datetime(9999, 12, 31, tzinfo=UTC)
_MOST_CALENDAR_WINDOWS = 1_000_000
_MOST_PIECES = 31  # most pieces of a calendar window
#: Steps of a stream without an end, if windows are long: calendar windows have a table of edges.
ENDLESS_STEPS = 40_000
_NOMINAL_DAYS = {"d": 1, "w": 7, "mo": 31}


@overload
def is_moment(us: pl.Expr) -> pl.Expr: ...


@overload
def is_moment(us: pl.Series) -> pl.Series: ...


def is_moment(us: pl.Expr | pl.Series) -> pl.Expr | pl.Series:
    """Return whether microseconds since 1970 are a moment, not a reason why there is none."""
    return us > NO_MOMENT


def load_zone(name: str) -> ZoneInfo:
    """Return the time zone with an IANA name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidInputError(
            f"time zone {name!r} is not known; use an IANA name such as UTC or America/New_York"
        ) from error


def microseconds(time: datetime) -> int:
    """Return the microseconds from 1970-01-01 UTC to an aware datetime, exactly."""
    return (time - EPOCH) // _MICROSECOND


def moment(us: int) -> datetime:
    """Return the UTC datetime that is ``us`` microseconds after 1970-01-01."""
    return EPOCH + timedelta(microseconds=us)


def parse_time(value: str | datetime, timezone: str) -> datetime:
    """Parse ISO 8601 text; a time without an offset is local in ``timezone``.

    Raises:
        InvalidInputError: the text is no time, or a local time that does not exist or comes twice.

    >>> parse_time("2013-01-01T00:00", "America/New_York").astimezone(UTC).isoformat()
    '2013-01-01T05:00:00+00:00'
    """
    text = value.isoformat() if isinstance(value, datetime) else value
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInputError(
            f"{text!r} is not a time that can be read; write ISO 8601, as in 2013-01-01T00:00 or "
            "2013-01-01T05:00Z"
        ) from error
    if time.tzinfo is not None:
        return time
    zone = load_zone(timezone)
    first, second = (time.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        passed_twice = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == time
        raise InvalidInputError(
            f"the local time {time.isoformat()} "
            f"{'comes twice' if passed_twice else 'does not exist'} in {zone.key}, because the "
            "clocks change; add a UTC offset, as in 2013-11-03T01:30-04:00"
        )
    return first


@lru_cache(maxsize=32)  # a run makes equal windows dozens of times
def _calendar_edges(start: datetime, steps: int, timezone: str, every: Length) -> NDArray[np.int64]:
    """Return the edges of days, weeks or months, at local times: ``(steps + 1,)``."""
    zone = load_zone(timezone)
    first = start.astimezone(zone)
    local = first.replace(tzinfo=None)
    begin = microseconds(start)
    length = every.number * _NOMINAL_DAYS[every.unit] * _DAY
    no_changes = every.unit != "mo" and zone.utcoffset(None) is not None  # clocks are never set
    alike = no_changes and begin + steps * length < microseconds(_LATEST)
    edges = begin + length * np.arange(steps + 1) if alike else np.empty(steps + 1, np.int64)
    for k in range(0 if alike else steps + 1):
        try:
            later = _by_calendar(local, every.times(k))
        except (OverflowError, ValueError) as error:
            raise InvalidInputError(
                f"window {k:,} of {every} from {first.isoformat()} ends after the year "
                "9999; lower the number of steps"
            ) from error
        edges[k] = microseconds(first_moment(later, zone))
    edges.setflags(write=False)
    return edges


def _by_calendar(local: datetime, length: Length) -> datetime:
    """Add days, weeks or months to a local time; a day that a month lacks becomes its last."""
    if length.unit != "mo":
        return local + timedelta(days=length.number * (7 if length.unit == "w" else 1))
    months = local.year * 12 + local.month - 1 + length.number
    month = date(months // 12, months % 12 + 1, 1)
    following = date((months + 1) // 12, (months + 1) % 12 + 1, 1)
    day = min(local.day, (following - month).days)
    return local.replace(year=month.year, month=month.month, day=day)


def first_moment(time: datetime, zone: ZoneInfo) -> datetime:
    """Return the first moment, in UTC, at which clocks show this local time or a later one.

    Clocks that are set forward skip some times, in many zones midnight, where a day begins.
    """
    before, after = (zone.utcoffset(time.replace(fold=n)) or timedelta() for n in (0, 1))
    first = time.replace(tzinfo=UTC) - before
    if before >= after:  # the time comes once, or twice
        return first
    # The time is skipped: clocks jump between these two moments. Bisect, to the microsecond.
    low = time.replace(tzinfo=UTC) - after
    high = first
    while high - low > _MICROSECOND:
        middle = low + (high - low) // 2
        skipped = middle.astimezone(zone).utcoffset() == before
        low, high = (middle, high) if skipped else (low, middle)
    return high


@dataclass(frozen=True)
class Windows:
    """Consecutive windows of time, with their beginning and without their end.

    A window of days or longer begins when clocks first show its beginning or, where they skip it, a
    later time. So each moment is in exactly one window.

    Args:
        start: beginning of window 1, an aware datetime.
        every: length: a number of ``s``, ``m``, ``h`` (absolute time), ``d``, ``w``, ``mo``
            (calendar of ``timezone``).
        timezone: an IANA name.

    Raises:
        InvalidInputError: no length, no steps, a naive start, or an end after the year 9999.

    >>> windows = Windows(datetime(2013, 1, 1, tzinfo=UTC), "1h", 24, "UTC")
    >>> windows.ended_by(microseconds(datetime(2013, 1, 1, 3, 30, tzinfo=UTC)))
    3
    """

    start: datetime
    every: str
    steps: int
    timezone: str = "UTC"
    #: Word for one step.
    noun: ClassVar[str] = "window"
    #: Whether later releases follow the first one.
    is_recurring: ClassVar[bool] = True
    #: Whether steps have times.
    timed: ClassVar[bool] = True
    #: Words on the facts about steps that releases reveal whatever the noise.
    unprotected: ClassVar[tuple[str, ...]] = (
        "that a release took place, when, and the time of the newest row where that decided which "
        "windows had ended",
    )

    @classmethod
    def endless(cls, start: datetime, every: str, timezone: str = "UTC") -> Windows:
        """Return windows up to the year 9999; of days or longer at most 40,000."""
        probe = cls(start, every, 1, timezone)
        room = microseconds(_LATEST) - microseconds(start)
        if probe.length is not None:
            return cls(start, every, room // probe.length, timezone)
        length = probe._every
        most = room // (length.number * _NOMINAL_DAYS[length.unit] * _DAY)
        return cls(start, every, min(most, ENDLESS_STEPS), timezone)

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        if Length.parse(self.every) is None:
            raise InvalidInputError(
                f"window length {self.every!r} is not a whole number above 0 and a unit; write "
                f"15m, 1h, 1d, 1w or 1mo"
            )
        if self.steps < 1:
            raise InvalidInputError(f"steps is {self.steps}; it must be at least 1")
        if self.start.tzinfo is None:
            raise InvalidInputError(
                "the start of the windows has no time zone; give a datetime with tzinfo"
            )
        if self.length is None and self.steps > _MOST_CALENDAR_WINDOWS:
            raise InvalidInputError(
                f"{self.steps:,} calendar windows are too many; at most {_MOST_CALENDAR_WINDOWS:,} "
                "are allowed: lower the number of steps, or take windows of hours, which have no "
                "such limit"
            )
        if self.end > microseconds(_LATEST):
            raise InvalidInputError(
                f"{self.steps:,} windows of {self.every} from {self.format_moment(self.start)} "
                f"end after the year 9999; lower the number of steps"
            )

    @property
    def length(self) -> int | None:
        """Length of each window in microseconds; None if it varies with the calendar."""
        return self._every.fixed_us

    @property
    def whole_days(self) -> bool:
        """Whether each window is whole days of the zone, so that a local date decides it."""
        return self.length is None and self.local(self.start).time() == time.min

    @cached_property
    def _every(self) -> Length:
        return Length.of(self.every)

    @cached_property
    def _origin(self) -> int:
        return microseconds(self.start)

    def _edges(self) -> NDArray[np.int64]:
        """The cached edges of calendar windows in microseconds since 1970: ``(steps + 1,)``."""
        return _calendar_edges(self.start, self.steps, self.timezone, self._every)

    def local(self, time: int | datetime) -> datetime:
        """Convert a moment (datetime, or microseconds since 1970 UTC) to the windows' time zone."""
        zone = load_zone(self.timezone)
        return (time if isinstance(time, datetime) else moment(time)).astimezone(zone)

    def local_times(self, us: NDArray[np.int64]) -> pl.Series:
        """Convert microseconds since 1970-01-01 UTC to times in the time zone of the windows.

        Args:
            us: the moments.
        """
        moments = pl.Series(np.asarray(us, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
        return moments.dt.convert_time_zone(self.timezone)

    def format_moment(self, time: int | datetime) -> str:
        """Format a moment as ISO 8601 text with the UTC offset of the windows' time zone."""
        return self.local(time).isoformat()

    def to_the_minute(self, time: int | datetime) -> str:
        """Return a moment as text, without seconds if the windows last whole minutes."""
        seconds = self.length is not None and self.length % 60_000_000
        return self.local(time).isoformat(" ", "auto" if seconds else "minutes")

    def option_text(self, time: int) -> str:
        """Return a moment as the shortest text of an option: the day alone at midnight.

        Args:
            time: the moment in microseconds since 1970.

        >>> windows = Windows(datetime(2024, 10, 26, 22, tzinfo=UTC), "1h", 24, "Europe/Berlin")
        >>> [windows.option_text(end) for end in windows.ends(range(0, 3)).tolist()]
        ['2024-10-27', '2024-10-27T01:00', '2024-10-27T02:00:00+02:00']
        """
        local = self.local(time).replace(tzinfo=None)
        for text in (local.date().isoformat(), local.isoformat(timespec="minutes")):
            with suppress(InvalidInputError):  # the local time occurs twice
                if microseconds(parse_time(text, self.timezone)) == time:
                    return text
        return self.format_moment(time)

    def end_in_words(self, time: int | datetime) -> str:
        """Describe the moment up to which rows count; midnight is the end of the day before.

        >>> windows = Windows(datetime(2024, 3, 1, tzinfo=UTC), "12h", 24)
        >>> [windows.end_in_words(int(end)) for end in windows.ends(range(1, 3))]
        ['up to 1 March 2024, 12:00', 'to the end of 1 March 2024']
        """
        us = microseconds(time) if isinstance(time, datetime) else int(time)
        local = self.local(us)
        before = self.local(us - 1)
        if before.date() < local.date():  # also where clocks skip midnight
            return f"to the end of {day_in_words(before, year=True, long=True)}"
        seconds = f"{local:%H:%M:%S}".removesuffix(":00")
        return f"up to {day_in_words(local, year=True, long=True)}, {seconds}"

    @property
    def end(self) -> int:
        if self.length is not None:
            return self._origin + self.steps * self.length
        return int(self._edges()[self.steps])

    @property
    def pieces(self) -> tuple[int, int] | None:
        """Offset and length, in microseconds, of the largest pieces that make up all windows.

        A database or Spark may count the rows of a piece first. None: a window would have more than
        31.

        >>> Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 90, "Europe/Berlin").pieces
        (0, 3600000000)
        """
        if self.length is not None:
            return self._origin, self.length
        edges = self._edges()
        length = int(np.gcd.reduce(edges))
        most = int(np.diff(edges).max())
        return (0, length) if most <= _MOST_PIECES * length else None

    def starts(self, steps: range) -> NDArray[np.int64]:
        """Return the beginnings of windows in microseconds since 1970: ``(len(steps),)``."""
        return self.ends(range(steps.start - 1, steps.stop - 1))

    def ends(self, steps: range | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ends of windows in microseconds since 1970: the first one after each."""
        if isinstance(steps, range):
            steps = np.arange(steps.start, steps.stop, dtype=np.int64)
        return self._edges()[steps] if self.length is None else self._origin + steps * self.length

    def step(self, us: str) -> pl.Expr:
        """Return a polars expression for the number of the window in which each moment lies.

        Args:
            us: column of microseconds since 1970. A value at or below `NO_MOMENT` stands for a row
                without a valid time, and encodes the reason; the expression then gives the value
                minus `NO_MOMENT`, which is at most 0.
        """
        column = pl.col(us)
        if self._even is not None:
            before, length = self._even
            step = (column - before) // length
        else:
            step = column.map_batches(
                lambda moments: pl.Series(self.step_of(moments.to_numpy())),
                return_dtype=pl.Int64,
                is_elementwise=True,
            )
        inside = step.clip(0, self.steps + 1)
        return pl.when(is_moment(column)).then(inside).otherwise(column - NO_MOMENT)

    @cached_property
    def _even(self) -> tuple[int, int] | None:
        """Start of window 0 and common length, in microseconds; None if lengths differ.

        Windows of days have a common length in a zone that never changes its clocks.
        """
        length = self.length
        if length is None:
            lengths = np.diff(self._edges())
            length = int(lengths[0]) if (lengths == lengths[0]).all() else None
        return None if length is None else (int(self.ends(range(1))[0]) - length, length)

    def step_of(self, us: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each moment's window, in an array of the same shape.

        The number is at most 0 before window 1, and ``steps + 1`` after the last window.
        """
        if self._even is not None:
            before, length = self._even
            steps = (us - before) // length
            return np.minimum(steps, self.steps + 1)
        if len(us):
            # Most windows are as long as their neighbours: rows of some days need one division.
            first, last = np.searchsorted(self._edges(), (us.min(), us.max()), side="right")
            edges = self._edges()[max(first - 1, 0) : last + 1]
            length = int(edges[1] - edges[0]) if first and last <= self.steps else 0
            if length and (np.diff(edges) == length).all():
                return np.asarray((us - edges[0]) // length + first)
        return np.searchsorted(self._edges(), us, side="right").astype(np.int64)

    def ended_by(self, us: int) -> int:
        """Return how many windows have ended at a moment, in microseconds since 1970."""
        return int(np.clip(self.step_of(np.array([us], dtype=np.int64))[0] - 1, 0, self.steps))

    def windows_in_last(self, length: str, last: int) -> range:
        """Return the numbers of the windows that lie wholly within a length of time (``7d``) before
        the end of window ``last``.

        Days, weeks and months are those of the calendar. Where clocks change, windows of hours or
        less must lie within so many times 24 hours, too, because either may be meant.

        >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 24)
        >>> [days.windows_in_last(length, 10) for length in ("7d", "36h", "5h")]
        [range(4, 11), range(10, 11), range(11, 11)]
        """
        span = Length.parse(length)
        if span is None:
            raise InvalidInputError(
                f"{param('lookback', length)} is not a length of time: write a whole number "
                "above 0 and a unit, as in 7d"
            )
        end = int(self.ends(range(last, last + 1))[0])
        begin = self._origin
        zone = load_zone(self.timezone)
        is_fixed = span.fixed_us is not None
        with suppress(OverflowError, ValueError):  # else it is before the year 1
            if not is_fixed:
                local = self.local(end).replace(tzinfo=None)
                moment_then = first_moment(_by_calendar(local, span.times(-1)), zone)
                begin = max(begin, microseconds(moment_then))
            if is_fixed or (self.length is not None and span.unit != "mo"):
                begin = max(begin, end - span.nominal_us)
        first = int(self.step_of(np.array([begin - 1], np.int64))[0]) + 1
        return range(max(first, 1), last + 1)

    @property
    def n_revisions(self) -> int:
        """Number of later windows until a number is final; 0 if each is released once."""
        return 0

    @property
    def remembered_days(self) -> int:
        """Days for which users and row ids are remembered. Older rows are not counted."""
        return LATE_DAYS

    def first_open(self, released: int) -> int:
        """Return the first window not final after ``released`` steps; 1 if released once."""
        return 1

    @property
    def provisional_time(self) -> str | None:
        """How long numbers may change after their first release; None: not at all."""
        return None

    @property
    def period(self) -> str | None:
        """Common name of a window's length, such as "week"; None if it has none."""
        return PERIODS.get(self.every)

    def to_dict(self, *, local: bool = False) -> dict[str, object] | None:
        """Return the windows as JSON values, the start in UTC or in local time."""
        start = self.local(self.start) if local else self.start.astimezone(UTC)
        return {
            "every": self.every,
            "from": start.isoformat(),
            "steps": self.steps,
            "timezone": self.timezone,
        }

    def end_values(self, step: int) -> dict[str, str]:
        """Return a step's ``window_end`` as text; empty if steps have no times."""
        return {"window_end": self.format_moment(int(self.ends(range(step, step + 1))[0]))}

    def length_text(self, steps: int) -> str:
        """Return the length of ``steps`` windows as the text of an option, such as "3d"."""
        return str(self._every.times(steps))

    def count_text(self, steps: int) -> str:
        return f"{counted(steps, 'window')} of {self.every}"

    def progress_text(self, steps: int) -> str:
        """Describe how many windows are released, and up to which moment."""
        edge_end = (
            f", {self.end_in_words(int(self.ends(range(steps, steps + 1))[0]))}" if steps else ""
        )
        return f"{counted(steps, 'window')}{edge_end}"

    def span_text(self, steps: range) -> str:
        """Format the dates or times from the first to the last of some steps.

        >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
        >>> days.span_text(range(1, 8)), UnwindowedSteps().span_text(range(1, 8))
        ('1 March to 7 March 2024', 'steps 1 to 7')
        """
        begin = self.local(int(self.starts(steps)[0]))
        end = self.local(int(self.ends(steps)[-1]))
        if begin.time() == end.time() == time():  # midnight ends the day before
            end -= timedelta(days=1)
            if begin.date() == end.date():
                return day_in_words(end, year=True, long=True)
            first = day_in_words(begin, year=begin.year != end.year, long=True)
            last = day_in_words(end, year=True, long=True)
        else:
            first = day_and_time(begin, long=True)
            last = f"{end:%H:%M}" if begin.date() == end.date() else day_and_time(end, long=True)
        return f"{first} to {last}"


@dataclass(frozen=True)
class RevisableWindows(Windows):
    """Windows whose numbers are released again with late rows, until they are final.

    Step t is the release after window t, of new versions of the windows t - ``n_revisions`` to t. A
    row counts in the window of its own time, in all versions from its arrival on; after the last
    one it is not counted. It arrives at the first step released by the run that reads it, but not
    before the step of its own window.

    ``versions`` is the number of versions: one at the end, and one with each later window.

    >>> days = RevisableWindows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30, versions=15)
    >>> days.n_revisions, days.first_open(20), days.remembered_days
    (14, 7, 35)
    """

    versions: int = 2

    @property
    @override
    def n_revisions(self) -> int:
        return self.versions - 1

    @property
    @override
    def remembered_days(self) -> int:
        """Days for which rows are remembered, so that a row delivered twice counts once."""
        return max(LATE_DAYS, math.ceil((self.versions + 1) * days_in(self.every)))

    @override
    def first_open(self, released: int) -> int:
        return max(released + 1 - self.n_revisions, 1)

    @property
    @override
    def provisional_time(self) -> str | None:
        """How long a number may change after its first release.

        >>> days = RevisableWindows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30, versions=8)
        >>> days.provisional_time
        '7 more days'
        """
        noun = self.period or f"window of {self.every}"
        several = noun if self.n_revisions == 1 else self.period and f"{self.period}s"
        several = several or f"windows of {self.every}"
        return f"{self.n_revisions:,} more {several}"

    @override
    def to_dict(self, *, local: bool = False) -> dict[str, object] | None:
        return {**(super().to_dict(local=local) or {}), "versions": self.versions}


#: Default number of windows of a stream with revised windows.
_MOST_REVISED = 1_000_000


def usual_revised_windows(start: datetime, every: str, timezone: str) -> int:
    """Return the number of windows that a stream with revised windows has if none is stated."""
    return min(Windows.endless(start, every, timezone).steps, _MOST_REVISED)


def revisions_in(revise: str, every: str) -> int:
    """Return how many windows end in ``revise``, the time in which a window is released again.

    Raises:
        InvalidInputError: not a length, less than a window, or not a whole number of windows.

    >>> revisions_in("14d", "1d"), revisions_in("2d", "1h"), revisions_in("6mo", "3mo")
    (14, 48, 2)
    """
    if Length.parse(revise) is None or Length.parse(every) is None:
        raise InvalidInputError(
            f"{param('allowed_lateness', revise)} is not a length of time; it says how long "
            "after its end rows of a window may still come: write a whole number above 0 and a "
            "unit, as in 14d"
        )
    n_windows = windows_in(revise, every)
    if n_windows is None or n_windows.denominator != 1:
        raise InvalidInputError(
            f"{param('allowed_lateness', revise)} is not a multiple of the window length "
            f"{every}: give a multiple of {every}"
        )
    return n_windows.numerator


class SingleTableWindow(Windows):
    """One step and no windows of time: all rows belong to the step."""

    noun = "step"
    is_recurring = False
    timed = False
    unprotected: ClassVar[tuple[str, ...]] = ("that a release took place, and when",)

    def __init__(self) -> None:
        super().__init__(EPOCH, "1s", 1)

    @property
    @override
    def period(self) -> str | None:
        return None

    @override
    def to_dict(self, *, local: bool = False) -> dict[str, object] | None:
        return None

    @override
    def end_values(self, step: int) -> dict[str, str]:
        return {}

    @override
    def progress_text(self, steps: int) -> str:
        return "once"

    @override
    def count_text(self, steps: int) -> str:
        return counted(steps, "step")

    @override
    def span_text(self, steps: range) -> str:
        return "of all rows"

    @override
    def step(self, us: str) -> pl.Expr:
        column = pl.col(us)
        return pl.when(is_moment(column)).then(pl.lit(1, pl.Int64)).otherwise(column - NO_MOMENT)

    @override
    def step_of(self, us: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ones(len(us), np.int64)


class UnwindowedSteps(SingleTableWindow):
    """Steps without times: a program passes the numbers of each step, not rows."""

    is_recurring = True
    unprotected = Windows.unprotected

    @property
    @override
    def period(self) -> str | None:
        return "step"

    @override
    def progress_text(self, steps: int) -> str:
        return counted(steps, "step")

    @override
    def span_text(self, steps: range) -> str:
        first = steps[0]
        last = steps[-1]
        if first == last:
            return f"step {last:,}"
        return f"steps {first:,} to {last:,}"
