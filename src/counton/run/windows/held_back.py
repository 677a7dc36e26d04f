"""The newest windows with rows that a first run does not release, and the option that releases
them.

A file of the past may be complete: then nothing follows, and its last window can be released, too.
Only the operator can state that. A wrong end date is noticed in the same way.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np

from counton.base.errors import param
from counton.base.exact import name_alone
from counton.run.spec.terms import RunOptions
from counton.run.windows.due_windows import EndedWindows
from counton.windowing.windows import Windows, microseconds


@name_alone
class HeldBackWindows(NamedTuple):
    """Windows that have ended and have the newest rows, but are not released. Exact.

    Attributes:
        windows: what they are, as dates or times in words.
        reason: why they are not released; it marks options as `counton.base.errors.param` does.
        option: name of the option that releases them.
        value: its value.
    """

    windows: str
    reason: str
    option: str
    value: str

    def note(self) -> str:
        """Return two sentences for the operator, with the option marked by `param`."""
        return (
            f"not released: {self.windows}, because {self.reason}. If the file has all rows of "
            f"this time, set {param(self.option, self.value)}"
        )


def find_held_back(
    windows: Windows, options: RunOptions, newest: int | None, ended: EndedWindows, now: datetime
) -> HeldBackWindows | None:
    """Return the windows of the newest rows that a first run does not release; None if none.

    Windows that have not ended yet are released later in any case. Inputs that have only the last
    rows, or only new rows, are never complete.

    Args:
        windows: the windows of the stream.
        options: what the run releases.
        newest: time of the newest row in microseconds since 1970; None without rows.
        ended: the windows that the run releases.
        now: the current time.
    """
    is_complete = options.input.repeats_rows and options.input.lookback is None
    if newest is None or not is_complete or not windows.is_recurring:
        return None
    last = int(windows.step_of(np.array([newest], np.int64))[0])
    if not ended.last < last <= windows.steps:
        return None
    end = int(windows.ends(range(last, last + 1))[0])
    if end + options.release_delay > microseconds(now):
        return None
    words = windows.span_text(range(ended.last + 1, last + 1))
    if options.until == "latest-event":
        value = windows.option_text(end + options.release_delay)
        return HeldBackWindows(words, "more rows may follow", "until", value)
    if not isinstance(options.until, datetime) or last > ended.last + 1:
        return None
    value = windows.option_text(end + options.release_delay)
    if end <= microseconds(options.until):
        reason = f"it ends less than {param('release_delay')} before {param('until')}"
        if windows.ended_by(microseconds(options.until)) == last:
            return HeldBackWindows(words, reason, "release_delay", "0s")
        # Without the delay, later windows would be released, too, which have no row.
        return HeldBackWindows(words, reason, "until", value)
    return HeldBackWindows(words, f"it ends after {param('until')}", "until", value)
