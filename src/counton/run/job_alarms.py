"""Alarms of a job: after each release its newest window is compared with earlier ones.

The numbers are the released ones, so an alarm tells only public facts.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from counton.job.jobfile import AlarmTerms
from counton.released.release import Release
from counton.released.service_address import NoRedirect
from counton.released.watching import WatchReport, last_watched, watch, windows_to_learn

#: Seconds until a receiver must answer.
_TIME_OUT = 10


def alarm_of(released: Release, terms: AlarmTerms) -> WatchReport | None:
    """Return the alarms of a release; None if too few windows are released to learn from.

    Raises:
        InvalidInput: the statistic has no counts or sums of windows, or a term is out of range.
    """
    if last_watched(released) <= windows_to_learn(released, trend=terms.trend):
        return None
    return watch(
        released, terms.groups, false_alarms=terms.false_alarms, over=terms.over, trend=terms.trend
    )


def report(found: WatchReport) -> dict[str, Any]:
    """Return alarms as JSON values."""
    times = ("window_start", "window_end")
    rows = found.table().to_dicts()
    return {
        "name": found.released.design.name,
        "alarm": found.newest,
        "alarms": [{**row, **{name: row[name].isoformat() for name in times}} for row in rows],
        "false_alarms_a_year": found.false_alarms,
    }


def send(found: WatchReport, webhook: str) -> str | None:
    """Send an alarm to an address as JSON; return the error as text, or None.

    Stream, group and window identify an alarm to its receiver.
    """
    body = json.dumps(report(found)).encode()
    asked = urllib.request.Request(
        webhook, body, {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.build_opener(NoRedirect).open(asked, timeout=_TIME_OUT):
            return None
    except (OSError, ValueError, urllib.error.URLError) as error:
        return f"the webhook did not take the alarm: {error}"
