"""Parsing of a job into typed values, which the later steps of a run use in place of options.

Options without typed values are read where they are used: those about the state, the paths of a run
and the opening of its rows, ``retain`` and ``confidence_level``. CONTRIBUTING.md lists them.

The options that define a stream first get one form for each meaning (`normal_form`), so that jobs
can be compared. `counton.job.incompatible` refuses options that exclude or need each other. Here
only values are refused that cannot be parsed: a name or table of groups, a length of a period, and
windows that are impossible.
"""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from counton.base.errors import InvalidInputError, MissingOptionError, param
from counton.base.lengths import length_of_windows, windows_in
from counton.base.series import Series
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.io.error_policy import DEFAULT_MOST_BAD_ROWS as MOST_BAD_ROWS
from counton.io.error_policy import Policies
from counton.io.input_paths import moments_named
from counton.job.common_options import Job
from counton.job.custom_strategies import own_strategy
from counton.job.incompatible import (
    needed_of_columns,
    refuse_excluded,
    refuse_outputs,
    refuse_unmet_needs,
    refuse_without_form,
)
from counton.job.values import LATEST_ROW, NOW, QUARANTINE
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.contribution import unit_without_period
from counton.privacy.guarantees import guarantee_from
from counton.results.metadata import counting_period_of
from counton.results.release import ChartWords
from counton.run.spec.statistic_parsing import (
    normal_domain,
    normal_options,
    parse_display,
    parse_statistic,
)
from counton.run.spec.terms import (
    MAX_EMPTY_WINDOWS,
    MAX_EMPTY_WINDOWS_OF_LOOKBACK,
    CountedEvent,
    DeclaredGroups,
    DiscoveredGroups,
    DistinctUser,
    Endless,
    Event,
    ExpiringWindows,
    FileRecognition,
    FixedHorizon,
    Groups,
    IdRecognition,
    InputKind,
    Loss,
    NewRows,
    OutputFiles,
    PrivacyUnit,
    Recognition,
    Revised,
    RowsWithIds,
    RunOptions,
    SingleTable,
    Snapshot,
    SnapshotRecognition,
    StreamTerms,
    Ungrouped,
    Until,
    User,
    UserOfCounts,
    WantedAccuracy,
    Windowing,
)
from counton.statistics import AccumulatorStatistic
from counton.strategies import Expiring as ExpiringStrategy
from counton.strategies.strategy import StreamStrategy
from counton.windowing.groups import GroupNames
from counton.windowing.periods import made_of_windows
from counton.windowing.windows import (
    Windows,
    load_zone,
    parse_time,
    usual_revised_windows,
)

#: Options without which there are no windows.
_NEEDED_FOR_WINDOWS = ("time", "every", "start")
#: Options about the form of a chart.
_CHART_FORM = ("title", "axis", "source", "width")


# ------------------------------------------------------------------------------------ normal form
def refuse_new_job(job: Job) -> None:
    """Refuse a job that begins a stream, if the job alone shows that it cannot.

    Raises:
        MissingOptionError: an option is missing that a new stream needs.
        IncompatibleOptionsError: an option excludes another, or needs another that is missing.
    """
    refuse_excluded(job)
    _refuse_missing(job)
    refuse_unmet_needs(job)


def normal_form(job: Job) -> Job:
    """Return the job with one form for each meaning of the options that define a stream.

    Times have their zone, groups are read, and defaults are stated.

    Raises:
        InvalidInputError: an option has a wrong value, or one that another option does not allow.
    """
    refuse_without_form(job)
    timezone = job.timezone or "UTC"
    normal: dict[str, object] = {"timezone": timezone}
    if not job.expiring:
        strategy = own_strategy(job.strategy)
        normal["strategy"] = strategy or job.strategy or "auto"
        normal["metric"] = None if job.metric == "mean" else job.metric
    else:
        strategy = _expiring_strategy(job)
        normal["expiration_growth"] = strategy.growth
        normal["expiration_delay"] = strategy.delay or None
    if job.start is not None:
        zone = load_zone(timezone)
        normal["start"] = parse_time(str(job.start), timezone).astimezone(zone).isoformat()
    if job.ambiguous is None:
        normal["ambiguous"] = "raise"
    if job.decimal is None:
        normal["decimal"] = "."
    if job.row_id is not None:  # then each input may say whether it repeats rows
        normal["append"] = False
    if job.statistic == "distinct":
        normal["distinct_users"] = True
    normal["privacy_unit"] = word_of_unit(job) or _usual_word(job)
    normal |= normal_options(job)
    if job.value_of("last") is not None:
        normal["last"] = last_lengths(job)
    half_life = _parse_half_life(job)
    if half_life is not None and half_life.denominator == 1:
        normal["half_life"] = length_of_windows(int(half_life), str(job.every))
    if job.value_of("groups") is not None:
        normal["groups"] = normal_domain(job.with_options(**normal))
    job = job.with_options(**normal)
    return job if job.has_stated("series") else job.with_options(series=_usual_series(job))


def last_lengths(job: Job) -> tuple[str, ...]:
    """Return the lengths of sums of the last windows in one form, ascending; () if there are none.

    Raises:
        IncompatibleOptionsError: a length is not a possible number of windows.
    """
    refuse_without_form(job)
    return tuple(length_of_windows(width, str(job.every)) for width in _parse_widths(job))


def _parse_half_life(job: Job) -> Fraction | None:
    """Return the half-life of decayed sums in windows; None if no such sums are released."""
    length = job.value_of("half_life")
    if length is None or job.every is None:
        return None
    return windows_in(str(length), str(job.every))


def _parse_widths(job: Job) -> tuple[int, ...]:
    """Return how many last windows are added up, ascending; () if no such sums are released."""
    lengths = cast("tuple[str, ...]", job.value_of("last") or ())
    if job.every is None:  # a later job, whose stream has it
        return ()
    widths = {windows_in(length, str(job.every)) for length in lengths}
    return tuple(sorted(int(width) for width in widths if width is not None))


def _expiring_strategy(job: Job) -> ExpiringStrategy:
    return ExpiringStrategy(
        1 if job.expiration_growth is None else job.expiration_growth, job.expiration_delay or 0
    )


def word_of_unit(job: Job) -> str | None:
    """Return the stated name of an event or user, without a period that
    ``contribution_period`` states anyway.
    """
    if job.privacy_unit is None:
        return None
    return unit_without_period(
        str(job.privacy_unit), cast("str | None", job.value_of("contribution_period"))
    )


def _usual_word(job: Job) -> str:
    protects_users = job.has_stated("user") or job.has_stated("upstream_max_contributions")
    return "user" if protects_users else "event"


def _usual_series(job: Job) -> Series:
    """Return the series of a job, in its normal form otherwise, that states none."""
    if job.allowed_lateness is not None:
        return "per-window"
    windowing = _parse_windowing(job)
    if isinstance(windowing, SingleTable) or not job.has_stated("contribution_period"):
        return "cumulative"
    period = period_that_begins_anew(
        parse_statistic(job).of_group, job.value_of("contribution_period"), windowing.windows
    )
    return "cumulative" if period is None else "period-to-date"


def period_that_begins_anew(
    group_statistic: AccumulatorStatistic, per: str | None, windows: Windows
) -> str | None:
    """Return the period in each of which totals begin anew, since users count anew; None: in none.

    Args:
        group_statistic: the statistic of one group.
        per: period of users.
        windows: the windows of the stream.
    """
    period = counting_period_of(group_statistic, per)
    if period is None or not made_of_windows(windows, period):
        return None
    return period


# ------------------------------------------------------------------------------- missing options
def states_loss(job: Job) -> bool:
    """Return whether a job states the privacy loss, or the accuracy from which it follows."""
    return any(job.has_stated(name) for name in ("epsilon", "rho", "margin_of_error"))


def _refuse_missing(job: Job) -> None:
    """Refuse a job that lacks options that a new stream needs: one message names them all."""
    missing = [name for name in job.needs if job.value_of(name) is None]
    if not job.is_single_table():
        missing += [name for name in _NEEDED_FOR_WINDOWS if job.value_of(name) is None]
        has_horizon = any(
            map(job.has_stated, ("windows", "expected_windows", "allowed_lateness", "expiring"))
        )
        if not has_horizon:
            missing.append("windows")
    shown = [param(name) for name in missing]
    has_targets = job.is_single_table() and job.has_stated("target")
    if not (states_loss(job) or has_targets):
        missing.append("epsilon")
        shown.append(f"{param('epsilon')} or {param('rho')}")
    if not missing:
        return
    for name in needed_of_columns(job):
        missing.append(name)
        shown.append(param(name))
    several = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    raise MissingOptionError(
        f"a new stream of {job.statistic} needs {several}. Choose values without looking at the "
        f"data. If the stream exists, correct {param('state')} or {param('stream')}",
        missing,
    )


# ----------------------------------------------------------------------- what defines the stream
def parse_terms(job: Job) -> StreamTerms:
    """Parse the options that define a stream.

    Args:
        job: a job in its normal form.

    Raises:
        InvalidInputError: an option has a wrong value.
    """
    statistic = parse_statistic(job)
    windowing = _parse_windowing(job)
    return StreamTerms(
        statistic=statistic,
        windowing=windowing,
        groups=_parse_groups(job),
        privacy_unit=_parse_privacy_unit(job, statistic.of_group),
        loss=_parse_loss(job),
        series=job.value_of("series"),
        widths=_parse_widths(job),
        half_life=_parse_half_life(job),
        strategy="auto" if job.strategy is None else cast("str | StreamStrategy", job.strategy),
        metric=job.metric or "mean",
        is_simple=job.simple,
        recognition=_parse_recognition(job),
        max_corrections=job.max_corrections or 0,
        time_format=None if job.time_format is None else str(job.time_format),
        ambiguous=job.ambiguous or "raise",
    )


def _parse_recognition(job: Job) -> Recognition:
    if job.row_id is not None:
        return IdRecognition(str(job.row_id))
    return FileRecognition() if job.append else SnapshotRecognition()


def _parse_windowing(job: Job) -> Windowing:
    """Return the windows that a job states; impossible ones are refused."""
    if job.is_single_table():
        return SingleTable()
    every = str(job.every)
    timezone = str(job.timezone)
    start = datetime.fromisoformat(str(job.start)).astimezone(load_zone(timezone))
    calendar: dict[str, Any] = {
        "time": str(job.time),
        "every": every,
        "start": start,
        "timezone": timezone,
    }
    if job.expected_windows is not None:
        return Endless(**calendar, expected_windows=job.expected_windows)
    if job.expiring:
        strategy = _expiring_strategy(job)
        return ExpiringWindows(**calendar, n_windows=job.windows, strategy=strategy)
    if job.allowed_lateness is not None:
        lateness = str(job.allowed_lateness)
        n_windows = job.windows or usual_revised_windows(start, every, timezone)
        return Revised(**calendar, n_windows=n_windows, allowed_lateness=lateness)
    assert job.windows is not None
    return FixedHorizon(**calendar, n_windows=job.windows)


def _parse_groups(job: Job) -> Groups:
    group_by = job.value_of("group_by")
    if group_by is None:
        return Ungrouped()
    column = ",".join(group_by)
    if job.value_of("unlisted_groups") == "discover":
        return DiscoveredGroups(column)
    declared = cast("GroupNames", job.value_of("groups"))
    return DeclaredGroups(column, declared, job.value_of("other_group"))


def _parse_privacy_unit(job: Job, group_statistic: AccumulatorStatistic) -> PrivacyUnit:
    word = str(job.privacy_unit)
    column = job.value_of("user")
    if column is not None:
        return _parse_user(job, word, column, group_statistic)
    counts = job.value_of("count_column")
    if counts is None:
        return Event(word)
    upstream_bound = job.value_of("upstream_max_contributions")
    if upstream_bound is None:
        return CountedEvent(word, counts)
    return UserOfCounts(word, counts, upstream_bound, job.value_of("event_name") or "event")


def _parse_user(
    job: Job, word: str, column: str, group_statistic: AccumulatorStatistic
) -> User | DistinctUser:
    most = job.value_of("max_contributions")
    if job.has_stated("distinct_users"):
        return DistinctUser(word, column, most or 1)
    period = job.value_of("contribution_period")
    ranks = group_statistic.counted_ranks
    if period is not None:
        check_period(period, str(job.timezone))
    return User(
        word,
        column,
        max_contributions=most or 1,
        contribution_period=period,
        max_contributions_per_window=job.value_of("max_contributions_per_window"),
        once_per_window=bool(job.value_of("once_per_window")),
        event_name=job.value_of("event_name") or "event",
        max_contributions_per_group=ranks[-1] if ranks else None,
    )


def check_period(per: str, timezone: str) -> None:
    """Refuse a length that is not that of a user's period, such as 1d.

    Args:
        per: the length.
        timezone: time zone of the periods.

    Raises:
        InvalidInputError: periods cannot have this length.
    """
    try:
        Windows(datetime.fromisoformat("2000-01-01T00:00+00:00"), per, 1, timezone)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{param('contribution_period', per)} is not the length of a period: {error}"
        ) from None


def _parse_loss(job: Job) -> Loss:
    if not job.expiring:
        guarantee = guarantee_from(job.epsilon, job.delta, job.rho)
        assert guarantee is not None
        return cast("Loss", guarantee)
    strategy = _expiring_strategy(job)
    if job.rho is not None:
        return ExpiringZCDP(job.rho).bound_to(strategy)
    assert job.epsilon is not None
    return ExpiringDP(job.epsilon).bound_to(strategy)


def parse_accuracy(job: Job) -> WantedAccuracy | None:
    """Parse the accuracy that a job wants, from which the loss of a new stream follows."""
    if job.margin_of_error is None:
        return None
    from counton.planning.least_privacy import bounds_of, is_share_of_rows

    return WantedAccuracy(
        margins_of_error=bounds_of(job.margin_of_error, job.expected_rows),
        solve_for=job.solve_for or "epsilon",
        delta=cast("Any", job.delta),
        expected_rows=job.expected_rows,
        confidence_level=check_confidence_level(
            job.confidence_level, usual=DEFAULT_CONFIDENCE_LEVEL
        ),
        over=job.value_of("over") or None,
        is_share_of_rows=is_share_of_rows(job.margin_of_error),
    )


# -------------------------------------------------------------------------- how this run is made
def parse_run(job: Job, terms: StreamTerms) -> RunOptions:
    """Parse the options of a run that do not define its stream.

    Args:
        job: a job that was completed from its stream.

    Raises:
        InvalidInputError: an option has a wrong value, or excludes another.
    """
    # A later job was completed from its stream: now remembered options can exclude its own. For a
    # new job `refuse_new_job` has done this before planning, and nothing new is refused here.
    refuse_excluded(job)
    unlisted = job.value_of("unlisted_groups")
    return RunOptions(
        input=_parse_input(job),
        until=_parse_until(job, terms.windowing),
        release_delay=microseconds_of(
            None if job.release_delay is None else str(job.release_delay)
        ),
        max_empty_windows=_parse_max_empty_windows(job),
        allow_empty_windows=job.allow_empty_windows,
        unlisted_groups="drop" if unlisted == "drop" else "error",
        policies=parse_policies(job),
        display=parse_display(job.value_of),
    )


def parse_outputs(job: Job) -> OutputFiles:
    """Parse the files that a run writes.

    Raises:
        IncompatibleOptionsError: the form of a chart is stated, and no chart; or a chart of a
            statistic that has none.
    """
    refuse_outputs(job)
    form = {name: job.value_of(name) for name in _CHART_FORM}
    stated_form = {name: value for name, value in form.items() if value is not None}
    return OutputFiles(
        table=None if job.output is None else Path(job.output),
        chart=None if job.chart is None else Path(job.chart),
        chart_form=cast(ChartWords, stated_form),
    )


def _parse_input(job: Job) -> InputKind:
    begins_at_moment = job.query is not None and "since" in moments_named(str(job.query))
    if job.row_id is not None:
        return RowsWithIds(str(job.row_id), repeats_rows=not (job.append or begins_at_moment))
    if job.append:
        return NewRows()
    lookback = None if job.lookback is None else str(job.lookback)
    return Snapshot(lookback, repeats_rows=not begins_at_moment)


def _parse_max_empty_windows(job: Job) -> int:
    if job.max_empty_windows is not None:
        return job.max_empty_windows
    return MAX_EMPTY_WINDOWS if job.lookback is None else MAX_EMPTY_WINDOWS_OF_LOOKBACK


def _parse_until(job: Job, windowing: Windowing) -> Until:
    if isinstance(windowing, SingleTable):
        return "end"
    if job.until is None:
        return "clock"
    if job.until == NOW:
        return "now"
    if job.until == LATEST_ROW:
        return "latest-event"
    return parse_time(str(job.until), windowing.timezone)


_MICROSECONDS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def microseconds_of(delay: str | None) -> int:
    """Return a delay such as "6h" in microseconds; 0 for None.

    >>> microseconds_of("6h") == 6 * 3_600_000_000
    True
    """
    if delay is None:
        return 0
    return int(delay[:-1]) * _MICROSECONDS[delay[-1]]


def parse_policies(job: Job) -> Policies:
    """Parse what happens to rows that cannot be counted."""
    policy = "fail" if job.bad_rows is None else str(job.bad_rows)
    return Policies(
        quarantine=None if policy == "fail" else Path(policy.removeprefix(QUARANTINE)),
        most=MOST_BAD_ROWS if job.max_bad_rows is None else job.max_bad_rows,
        missing=job.missing_values or "fail",
        is_most_stated=job.max_bad_rows is not None,
    )
