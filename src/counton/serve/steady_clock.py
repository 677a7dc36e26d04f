"""The time of a service: that of its machine's clock, unless the clock has just jumped ahead.

A window that is released before its end is final without its rows. So a clock that is wrong for
some seconds must not end windows. The clock is compared with a steady one, which counts seconds
and is never set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

#: Seconds after which a jump that has lasted is accepted.
LASTING_SECONDS = 600.0
#: Largest difference in seconds that is no jump; corrections by NTP are smaller.
_TOLERANCE_SECONDS = 5.0
#: Longest time in seconds between the two readings of a pair, and most attempts to read one.
_PAIR_SECONDS = 0.1
_ATTEMPTS = 20


def machine_clock() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


def machine_seconds() -> float:
    """Return seconds of a clock that nobody sets; on Linux also those of a suspended machine."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SteadyClock:
    """A clock that does not follow a jump ahead before it has lasted.

    Until then it goes on from the time before the jump. A jump back is followed at once, because
    it ends no window; if the clock returns, that is no jump ahead.

    Args:
        clock: function that returns the time of the machine's clock.
        seconds: function that returns the seconds of a clock that is never set.

    >>> hours, seconds = [9], [0.0]
    >>> clock = SteadyClock(lambda: datetime(2026, 3, 1, hours[0]), lambda: seconds[0])
    >>> hours[0], seconds[0] = 17, 60.0
    >>> clock().isoformat(), clock.is_ahead
    ('2026-03-01T09:01:00', True)
    """

    def __init__(self, clock: Callable[[], datetime], seconds: Callable[[], float]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = Lock()
        now, first_seconds = self._read()
        self._accepted = _Reading(now, first_seconds)
        self._jump: _Reading | None = None
        self.is_ahead = False

    def __call__(self) -> datetime:
        """Return the time."""
        with self._lock:
            now, seconds = self._read()
            expected = self._accepted.later(seconds)
            ahead = (now - expected).total_seconds()
            if abs(ahead) <= _TOLERANCE_SECONDS:
                self._jump = None
                is_accepted = seconds - self._accepted.at >= LASTING_SECONDS
            else:
                is_accepted = self._has_lasted(now, seconds)
            if is_accepted:
                self._accepted = _Reading(now, seconds)
                self._jump = None
            self.is_ahead = self._jump is not None and ahead > 0
            return expected if self.is_ahead else now

    def _has_lasted(self, now: datetime, seconds: float) -> bool:
        """Return whether the clock has differed by the same time for long enough."""
        if self._jump is not None:
            changed = (now - self._jump.later(seconds)).total_seconds()
            if abs(changed) <= _TOLERANCE_SECONDS:
                return seconds - self._jump.at >= LASTING_SECONDS
        self._jump = _Reading(now, seconds)
        return False

    def _read(self) -> tuple[datetime, float]:
        """Read both clocks at nearly the same time, although the process may be paused between."""
        for _ in range(_ATTEMPTS):
            before = self._seconds()
            now = self._clock()
            seconds = self._seconds()
            if seconds - before <= _PAIR_SECONDS:
                break
        return now, seconds


class _Reading:
    """A time of the clock, and the seconds of the steady clock at that time."""

    def __init__(self, now: datetime, at: float) -> None:
        self.now = now
        self.at = at

    def later(self, seconds: float) -> datetime:
        """Return the time when the steady clock shows ``seconds``."""
        return self.now + timedelta(seconds=seconds - self.at)
