"""Alarms of a job: after each release the newest window is compared with earlier ones.

Only released numbers are compared, so an alarm tells nothing that is not public.
"""

from __future__ import annotations

import json
import math
import urllib.error
import urllib.request
from typing import Any, NamedTuple

import numpy as np

from counton.base.errors import CountonError, InvalidInput
from counton.job.job import Job
from counton.job.jobfile import ALARM, AlarmTerms
from counton.released.alarms import Chart
from counton.released.periods import season_of
from counton.released.release import Release
from counton.released.service_address import NoRedirect
from counton.released.watching import (
    WatchReport,
    alarm_delays,
    design_of_final_windows,
    last_watched,
    rule_of,
    watch,
    windows_to_learn,
)
from counton.run.definition import Definition
from counton.run.new_stream import define, design_of

#: Seconds until a receiver must answer.
_TIME_OUT = 10
#: Most windows before a planned change.
_KNOWN = 200


def alarm_of(released: Release, terms: AlarmTerms) -> WatchReport | None:
    """Return a report of the alarms in a release; None if it has too few windows to learn the usual
    level from.

    Raises:
        InvalidInput: the statistic has no counts or sums of windows, or an option of the alarms is
            out of range.
    """
    numbers = released.numbers
    if last_watched(numbers) <= windows_to_learn(numbers, trend=terms.trend):
        return None
    return watch(
        released, terms.groups, false_alarms=terms.false_alarms, over=terms.over, trend=terms.trend
    )


def rule_of_job(job: Job, terms: AlarmTerms, definition: Definition) -> Chart:
    """Return the rule (control chart) by which a job's alarms are raised in each group; refuse a
    job that can have no alarms.

    It is called before anything is released, also by a dry run, a plan and a service.

    Args:
        job: the job.
        terms: options of the alarms.
        definition: definition of the job's stream: its columns, windows, groups and guarantee.

    Raises:
        InvalidInput: the job releases no counts or sums of windows, its groups are found or have
            epsilons of their own, or an option of the alarms is out of range.

    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           steps=365, by="page", domain=["home", "shop"], epsilon="0.2")
    >>> rule_of_job(job, AlarmTerms(groups="cart"), define(job))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: groups=cart is not a group of 'events'; ...
    """
    known, name = definition.groups, job.keeping.name
    try:
        chart, _ = rule_of(
            definition,
            name,
            known,
            terms.groups,
            false_alarms=terms.false_alarms,
            over=terms.over,
        )
    except InvalidInput as error:
        raise InvalidInput(
            f"{error.template}; or take the job's {ALARM!r} out of the file"
        ) from None
    return chart


class PlannedAlarm(NamedTuple):
    """Planned noise and delay of a job's alarms, for one of the two series that a job can release.

    Attributes:
        release: the series: "windows" or "totals".
        windows: length of the changes to find, in windows; 1 to find lasting changes.
        std: typical standard deviation of the noise in the sum of ``windows`` windows.
        delay: mean number of windows until a lasting change gives an alarm; None: no size of a
            change is stated, or there may be no alarm.
        final_after: number of further windows after which a window is final. Only a final window
            can give an alarm. This time is not part of ``delay``.
        spread: variance of a window's true count that the delay assumes; 0 if only noise varies.
    """

    release: str
    windows: int
    std: float
    delay: float | None
    final_after: int = 0
    spread: float = 0.0


def planned_alarms(
    job: Job, terms: AlarmTerms, definition: Definition, steps: int, size: int | None = None
) -> tuple[PlannedAlarm, ...]:
    """Plan the alarms of a job for both series that it could release, windows and totals. The
    series with less noise comes first.

    For windows that are released again when late rows come, only the series of final numbers is
    planned. If the job also releases totals, the final numbers are computed from windows and totals
    together.

    Args:
        job: the job.
        terms: the job's options for alarms.
        definition: definition of the job's stream: its columns, windows, groups and guarantee.
        steps: number of windows to plan for; with ``revise`` the job's own number is used.
        size: expected number of rows by the last step; None: the number that the job states. With a
            size, true counts are assumed to vary as Poisson counts; without, the delay takes only
            noise into account. The size is ignored for a job with ``revise`` that states no number
            of windows (``steps``, ``around``).

    Returns:
        A plan for each series; none if the changes are longer than the stream.

    Raises:
        InvalidInput: see `rule_of_job`.

    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           steps=365, epsilon="0.2")
    >>> for over in ("1d", "90d"):
    ...     found = planned_alarms(job, AlarmTerms(over=over, change=40), define(job), 365)
    ...     print([(one.release, round(one.std, 1)) for one in found])
    [('windows', 7.1), ('totals', 17.1)]
    [('totals', 48.6), ('windows', 67.0)]
    >>> revised = job.having(revise="14d", steps=None)
    >>> (found,) = planned_alarms(revised, AlarmTerms(change=40), define(revised), 0)
    >>> found.release, round(found.std, 1), round(found.delay, 1), found.final_after
    ('windows', 22.0, 4.1, 14)
    """
    cut = definition.cut
    chart = rule_of_job(job, terms, definition)
    size = job.promise.size if size is None else size
    if cut.lags:
        stated = job.times.steps or job.times.around
        size, steps = (size if stated else None), stated or cut.steps
    groups, length, found = len(definition.groups), chart.over or 1, list[PlannedAlarm]()
    if length > steps - cut.lags:
        return ()
    for release in (definition.release,) if cut.lags else ("windows", "totals"):
        of = definition
        if release != definition.release:
            try:
                of = define(job.having(release=release))
            except CountonError:  # a stream without end has no windows of one error, for example
                continue
        design = design_of(of, of.shape)
        watched = steps - cut.lags
        if cut.lags and not design.strategy.facts.totals:
            watched = length  # all final windows have one noise
        starts = np.arange(watched - length + 1)
        apart = design_of_final_windows(design, watched).errors.window_std(starts, starts + length)
        std = math.sqrt(float(np.mean(apart**2)))
        delay, spread = None, 0.0 if size is None else size / steps / groups
        if terms.change is not None:
            (delay,) = alarm_delays(
                design,
                min(steps // 2, _KNOWN),
                terms.change,
                [spread],
                chart,
                season=season_of(cut.every),
                trend=terms.trend,
            )
        found.append(PlannedAlarm(release, length, std, delay, cut.lags, spread))
    return tuple(sorted(found, key=lambda one: one.std))


def report(found: WatchReport) -> dict[str, Any]:
    """Return the alarms of a report as JSON values."""
    times = ("window_start", "window_end")
    rows = found.table().to_dicts()
    return {
        "name": found.released.numbers.design.name,
        "alarm": found.newest,
        "alarms": [{**row, **{name: row[name].isoformat() for name in times}} for row in rows],
        "false_alarms_a_year": found.false_alarms,
    }


def send(found: WatchReport, webhook: str) -> str | None:
    """Post a report of alarms to a URL as JSON; return the error as text, or None if it was sent.

    The receiver can tell alarms apart by stream, group and window.
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
