"""Options of a job whose values contradict each other: messages that the job alone decides.

`counton.job.incompatible` has the table of options that exclude or need each other whatever their
values are. It raises what the functions of this file yield.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError, param
from counton.base.lengths import has_same_length, length_of_windows, windows_in
from counton.base.series import RELEASE_FORMS
from counton.base.strategy_names import FAMILIES, PAPERS, PUBLISHED, StrategyFamily
from counton.io.input_paths import is_database, moments_named
from counton.job.common_options import Job
from counton.job.messages import show_option
from counton.job.model_registry import REGISTRY
from counton.job.option_fields import RUN_ONLY, has_mark
from counton.job.values import LATEST_ROW, NOW
from counton.privacy.contribution import base_unit, names_other_period

if TYPE_CHECKING:
    from counton.job.option_fields import Section
    from counton.statistics import AccumulatorStatistic
    from counton.strategies import StreamStrategy
    from counton.windowing.groups import GroupNames
    from counton.windowing.windows import Windows

#: Statistics of a report that count users.
_STATISTICS_OF_USERS = ("distinct", "reach")
#: Statistics of a report that have groups of their own.
_STATISTICS_WITH_OWN_GROUPS = ("top-k", "hierarchy", "contingency", "ranges")
#: Statistics whose cells are the published numbers.
_ADDITIVE_STATISTICS = ("count", "sum", "distinct")
#: Statistics of a report whose margin of error is one of values or ranks, not of numbers of rows.
_STATISTICS_WITH_OTHER_MARGINS = ("sum", "average", "moments", "quantiles")
#: Values of options for runs alone that mean the same as leaving the option out.
_USUAL_VALUES: Mapping[str, object] = {
    "separator": ",",
    "decimal": ".",
    "bad_rows": "fail",
    "max_bad_rows": 1000,
}
#: Most characters of a query in a message.
_MOST_SHOWN_CHARACTERS = 40


def contradictions(job: Job) -> Iterator[str]:
    """Yield what is wrong with values that are compared with each other.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.
    """
    yield from _problems_of_user_columns(job)
    yield from _problems_of_value_columns(job)
    yield from contradictions_of_source(job, job.events)
    yield from _problems_of_query(job)
    yield from _problems_of_strategy_name(job)
    yield from _problems_of_strategy_object(job)
    yield from _problems_of_bounds(job)
    yield from contradictions_of_form(job)
    yield from _problems_of_windows(job)
    yield from _problems_of_options_in_report(job)
    yield from _problems_of_report(job)
    yield from _problems_of_own_statistic(job)
    yield from _problems_of_accuracy(job)


def contradictions_of_form(job: Job) -> Iterator[str]:
    """Yield what keeps a job from having a normal form: values that are read by another option.

    Args:
        job: a job.
    """
    unit = job.privacy_unit
    period = job.value_of("contribution_period")
    if unit is not None and period is not None:
        yield from _problems_of_unit(str(unit), str(period))
    if job.every is None:  # a later job, whose stream has it
        return
    every = str(job.every)
    yield from _problems_of_last_lengths(job, every)
    yield from _problems_of_half_life(job, every)
    if job.allowed_lateness is not None:
        yield from _problems_of_versions(str(job.allowed_lateness), every)


def contradictions_of_groups(job: Job, groups: object) -> Iterator[str]:
    """Yield what is wrong with groups that were read, beside other options.

    Args:
        job: a job that states groups.
        groups: the groups: names or, of a table of counts, the values of each column.
    """
    other = job.value_of("other_group")
    if other is not None and job.has_stated("group_by"):
        declared = cast("GroupNames", groups)
        if not other.strip() or other in declared:
            yield (
                f"{param('other_group')} is {other!r}, which is empty or one of "
                f"{param('groups')}; give another name"
            )
    if job.statistic == "contingency":
        yield from _problems_of_listed_columns(job, cast("Mapping[str, object]", groups))


def contradictions_of_outputs(job: Job) -> Iterator[str]:
    """Yield what is wrong with the files that a run writes, beside the statistic.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.
    """
    own_statistic = _own_statistic(job)
    if own_statistic is not None and not own_statistic.additive and job.chart is not None:
        yield (
            f"{param('chart', str(job.chart))} draws counts and sums over time, and this is "
            f"{job.name_of_statistic()}: leave it out, and draw the table"
        )


def contradictions_of_service(job: Job, *, is_new: bool) -> Iterator[str]:
    """Yield what is wrong with options that a service decides itself.

    Args:
        job: a job.
        is_new: whether the job begins a stream, so that it states all options.
    """
    fields = type(job).model_fields
    for name, value in job.stated_options().items():
        if name == "events" or value == _USUAL_VALUES.get(name):
            continue
        if has_mark(fields[name], RUN_ONLY):
            yield (
                f"{show_option(name, value)} cannot be used in a service, because it is for runs "
                "over files. Leave it out"
            )
    if job.until is not None:
        reason = "time goes on"
        if job.until == LATEST_ROW:
            reason = "the newest event belongs to a user"
        yield (
            f"{param('until', job.until)} cannot be used in a service, which releases by its "
            f"clock, because {reason}. Leave it out"
        )
    if is_new and job.time is None:
        yield (
            "A job without a column of times cannot be used in a service, because a service "
            f"releases at the end of each window. Give {param('time')}, or use counton run"
        )


def contradictions_of_streaming(job: Job) -> Iterator[str]:
    """Yield what is wrong with options that the rows of a streaming frame decide.

    Args:
        job: a job.
    """
    if job.until not in (None, LATEST_ROW):
        yield (
            f"{param('until', job.until)} cannot be used with a streaming frame, because its "
            "newest event determines which windows have ended. Leave it out, or give "
            f"{param('until', LATEST_ROW)}"
        )


# -------------------------------------------------------------------------- values read by another
def _problems_of_unit(unit: str, period: str) -> Iterator[str]:
    """Yield what is wrong with the name of a unit that states a period."""
    if not names_other_period(unit, period):
        return
    yield (
        f"{param('privacy_unit', unit)} names another period than "
        f"{param('contribution_period', period)}; give {param('privacy_unit', base_unit(unit))}, "
        "because the contribution period decides"
    )


def _problems_of_last_lengths(job: Job, every: str) -> Iterator[str]:
    """Yield what is wrong with the lengths of sums of the last windows."""
    lengths = job.value_of("last")
    if lengths is None:
        return
    from counton.strategies.workloads import LARGEST_WIDTH

    shown = show_option("last", lengths)
    most = LARGEST_WIDTH if job.windows is None else min(job.windows, LARGEST_WIDTH)
    for length in lengths:
        width = windows_in(length, every)
        if width is None or width.denominator != 1:
            yield (
                f"{shown}: {length} is not a whole number of windows of {every}. Give multiples of "
                f"{every}"
            )
        elif width > most:
            yield (
                f"{shown}: {length} has {int(width):,} windows, and at most {most:,} are possible "
                "here. Give a shorter length"
            )


def _problems_of_half_life(job: Job, every: str) -> Iterator[str]:
    """Yield what is wrong with the half-life of decayed sums."""
    length = job.value_of("half_life")
    if length is None:
        return
    from counton.strategies.workloads import LARGEST_HALF_LIFE, LEAST_HALF_LIFE

    half_life = windows_in(str(length), every)
    if half_life is None:
        yield (
            f"{param('half_life', length)} is not a number of windows of {every}, because "
            "lengths of months differ. Give another length"
        )
    elif not LEAST_HALF_LIFE <= half_life <= LARGEST_HALF_LIFE:
        yield (
            f"{param('half_life', length)} is not from {float(LEAST_HALF_LIFE):g} to "
            f"{LARGEST_HALF_LIFE:,} windows of {every}. Give another length"
        )


def _problems_of_versions(lateness: str, every: str) -> Iterator[str]:
    """Yield what is wrong with the time in which windows are revised."""
    from counton.strategies.streams.window_versions import MOST_VERSIONS
    from counton.windowing.windows import revisions_in

    try:
        lags = revisions_in(lateness, every)
    except InvalidInputError as error:
        yield error.template
        return
    most = MOST_VERSIONS - 1
    if lags > most:
        yield (
            f"{param('allowed_lateness', lateness)} publishes a window anew after each of "
            f"{lags:,} further windows of {every}, and at most {most:,} are possible: give at "
            f"most {length_of_windows(most, every)}, or a longer {param('every')}"
        )


# ----------------------------------------------------------------------------- columns and bounds
def _problems_of_user_columns(job: Job) -> Iterator[str]:
    """Yield what is wrong with the column of users."""
    user = job.value_of("user")
    if user is not None and user == job.time:
        yield (
            f"{param('user', user)} and {param('time', user)} name the same column, and a time "
            "names nobody. Give the column of users"
        )
    if user is not None and user == job.row_id:
        yield (
            f"{param('user', user)} and {param('row_id', user)} name the same column, so only "
            f"one row of each user would count. Give another column as {param('row_id')}, or "
            f"leave it out. To count each user once, give {param('distinct_users', True)}"
        )
    members = job.value_of("statistics") or {}
    counts_users = [
        name
        for name, member in members.items()
        if member.value_of("statistic") in _STATISTICS_OF_USERS
    ]
    if counts_users and user is None:
        yield (
            f"{counts_users[0]!r} of {param('statistics')} counts users, and no column names them. "
            f"Give {param('user')}, and {param('max_contributions')}, how many rows of one user "
            "count"
        )


def _problems_of_listed_columns(job: Job, groups: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with the columns whose values a contingency table has."""
    columns = job.value_of("columns") or ()
    further = [column for column in groups if column not in columns]
    # A dictionary of Python may serve several tables, but a text is written for this one.
    if further and isinstance(job.value_of("groups"), str):
        yield (
            f"{param('groups')} lists values of {further[0]!r}, which is not among "
            f"{param('columns')}: correct one of them"
        )
    lacking = [column for column in columns if column not in groups]
    if lacking:
        example = ";".join(f"{column}=A,B" for column in columns)
        yield (
            f"{param('groups')} does not list the values of {lacking[0]!r}, which must be "
            f"public: list those of all columns, as in {param('groups', example)}"
        )


def _problems_of_value_columns(job: Job) -> Iterator[str]:
    """Yield what is wrong with a column of values that is named twice."""
    option_of_column: dict[str, str] = {}
    for option in ("columns", "levels", "label", "count_column"):
        value = job.value_of(option)
        for column in [value] if isinstance(value, str) else value or ():
            other = option_of_column.get(column)
            option_of_column[column] = option
            if other == option:
                yield (
                    f"{show_option(option, value)} names the column {column!r} twice. Name each "
                    "column only once"
                )
            elif other is not None:
                yield (
                    f"{show_option(option, value)} cannot be used with "
                    f"{show_option(other, job.value_of(other))}, because a column has one meaning. "
                    "Name another column"
                )


def contradictions_of_source(job: Job, events: object) -> Iterator[str]:
    """Yield what is wrong with the events, beside the query of a database.

    Args:
        job: a job.
        events: what it names, or rows that a program passes in place of it.
    """
    query = "" if job.query is None else str(job.query)
    if not is_database(events):
        if job.query is not None and events is not None and not _names_unread_address(events):
            yield (
                f"{param('query', query[:_MOST_SHOWN_CHARACTERS])} is for a database, and "
                f"{param('events')} name no database. Give sqlite:///FILE or "
                f"postgresql://USER@HOST/DATABASE, or leave {param('query')} out"
            )
        return
    if isinstance(events, list | tuple) and len(events) > 1:
        yield (
            f"{param('events')} names {len(events)} sources, and one of them is a database, "
            "whose rows cannot be joined with others; count the others in a run of their own "
            f"({param('append', True)}), or select all rows in one query"
        )
    if not query.strip().rstrip(";").strip():
        yield (
            f"{param('events')} is a database, and the query that selects its rows is missing; "
            f"give {param('query', 'select ...')}"
        )


def _names_unread_address(events: object) -> bool:
    """Return whether events are an address that nothing reads, which is refused by itself."""
    from counton.io.other_formats import refuse_address

    try:
        for path in events if isinstance(events, list | tuple) else [events]:
            if isinstance(path, str):
                refuse_address(path)
    except InvalidInputError:
        return True
    return False


def _problems_of_query(job: Job) -> Iterator[str]:
    """Yield what is wrong with the moments that a query names, ``{since}`` and ``{until}``."""
    query = "" if job.query is None else str(job.query)
    shown = param("query", query[:_MOST_SHOWN_CHARACTERS])
    moments = moments_named(query)
    if not moments:
        return
    if job.is_single_table():
        yield (
            f"{shown} uses {{{min(moments)}}}, a time between windows, and a table without times "
            "has no windows. Leave it out"
        )
    if job.append and job.row_id is None and len(moments) == 1:
        yield (
            f"{shown} uses only {{{min(moments)}}}, so the next run would select some of these new "
            "rows again, and count them twice. Use both {since} and {until}"
        )
    if "until" in moments and job.until == LATEST_ROW:
        yield (
            f"{shown} uses {{until}}, but {param('until', LATEST_ROW)} is known only "
            "after the rows are read. Leave one of them out"
        )


def _problems_of_bounds(job: Job) -> Iterator[str]:
    """Yield what is wrong with bounds on users and on values."""
    most = job.value_of("max_contributions")
    most_a_window = job.value_of("max_contributions_per_window")
    lower = job.value_of("lower")
    upper = job.value_of("upper")
    if most is not None and most_a_window is not None and most_a_window > most:
        yield (
            f"{param('max_contributions_per_window', most_a_window)} is above "
            f"{param('max_contributions', most)}; give less"
        )
    if lower is not None and upper is not None and lower >= upper:
        yield (
            f"{show_option('lower', lower)} is not below {show_option('upper', upper)}; "
            "swap or widen them"
        )
    counts_user_once = job.has_stated("distinct_users") or job.statistic in _STATISTICS_OF_USERS
    if counts_user_once and most is not None and most > 1 and not job.has_stated("group_by"):
        yield (
            f"{param('max_contributions', most)} bounds the groups of a user, and there are none; "
            "leave it out"
        )
    columns = job.value_of("columns")
    bounds = job.value_of("bounds")
    if columns is None or bounds is None:
        return
    if len(bounds) != len(columns) or any(len(pair.split(":")) != 2 for pair in bounds):
        yield (
            f"{param('bounds', ','.join(bounds))} must be two numbers for each of "
            f"{param('columns', ','.join(columns))}: write 0:100,0:20"
        )


# --------------------------------------------------------------------------------------- strategy
def _problems_of_strategy_name(job: Job) -> Iterator[str]:
    """Yield what is wrong with a kind of strategy, beside series, windows and privacy loss."""
    name = job.strategy if isinstance(job.strategy, str) else ""
    shown = param("strategy", name)
    # The versions of a revised window are running totals.
    are_windows_alone = job.allowed_lateness is None and job.value_of("series") == "per-window"
    families = (PAPERS[name],) if name in PAPERS else FAMILIES.get(name, ())
    for family in families:
        if family.windows == are_windows_alone:
            continue
        made_for = "single windows" if family.windows else "totals"
        yield (
            f"{shown} cannot be used with {_series_option(job)}, because this strategy is made for "
            f"{made_for}. Leave one of them out"
        )
    if not families and name != PUBLISHED:
        return
    is_endless = any(family.is_endless for family in families)
    if job.expected_windows is not None and not is_endless:
        yield (
            f"{shown} cannot be used with {param('expected_windows', job.expected_windows)}, "
            "because this strategy has a last window. Leave one of them out"
        )
    length = _length_option(job)
    if is_endless and length is not None:
        yield (
            f"{shown} cannot be used with {length}, because this strategy has no last window. "
            "Leave one of them out"
        )
    if name in FAMILIES:
        yield from _problems_of_family(job, name, FAMILIES[name])


def _problems_of_family(job: Job, name: str, families: tuple[StrategyFamily, ...]) -> Iterator[str]:
    """Yield what is wrong with the strategies of a name, beside loss and number of windows."""
    shown = param("strategy", name)
    norms = _norms_of_loss(job)
    if norms and not any({*norms} & {*family.norms} for family in families):
        yield (
            f"{shown} has Gaussian noise, which {_loss_option(job)} alone does not allow. Give "
            f"{param('delta')} too, or {param('rho')}, or leave {param('strategy')} out"
        )
    if job.simple:
        families = tuple(family for family in families if family.is_simple)
        if not families:
            yield (
                f"{shown} cannot be used with {param('simple', True)}, because this strategy "
                "publishes fractions. Leave one of them out"
            )
        return
    families = tuple(family for family in families if not family.only_simple)
    n_steps = _n_steps(job)
    fewest = min(family.fewest_steps for family in families)
    if n_steps is not None and n_steps < fewest:
        yield (
            f"{shown} cannot be used with {_length_option(job)}, because this strategy is made for "
            f"at least {fewest:,} windows. Give {param('simple', True)}, or leave "
            f"{param('strategy')} out"
        )


def _problems_of_strategy_object(job: Job) -> Iterator[str]:
    """Yield what is wrong with a strategy of the user's own, an object or a file."""
    strategy = _own_strategy(job)
    if strategy is None:
        return
    horizon = None if job.expected_windows is not None else _n_steps(job)
    if horizon != strategy.horizon and (horizon or job.expected_windows):
        yield (
            f"{param('strategy')} is {strategy!r}, made for {_horizon_text(strategy.horizon)}, "
            f"and the stream has {_horizon_text(horizon)}: build it for that number"
        )
    release = "totals"
    if job.allowed_lateness is None:
        release = RELEASE_FORMS.get(job.value_of("series") or "cumulative", release)
    if strategy.facts.release != release:
        yield (
            f"{param('strategy', repr(strategy))} cannot be used with {_series_option(job)}, "
            f"because this strategy is made for {strategy.facts.release}. Leave one of them out"
        )


def _own_strategy(job: Job) -> StreamStrategy | None:
    """Return the strategy of the user's own; None if a kind of strategy, or none, is stated."""
    from counton.job.custom_strategies import is_file_of, own_strategy

    if job.strategy is None or (isinstance(job.strategy, str) and not is_file_of(job.strategy)):
        return None
    return own_strategy(job.strategy)


def _series_option(job: Job) -> str:
    """Return the option that decides what a strategy releases."""
    if job.allowed_lateness is not None:
        return param("allowed_lateness", job.allowed_lateness)
    return param("series", job.value_of("series") or "cumulative")


def _length_option(job: Job) -> str | None:
    """Return the option that states the number of steps; None if the stream has no last one."""
    if job.allowed_lateness is not None:
        return param("allowed_lateness", job.allowed_lateness)
    return None if job.windows is None else param("windows", job.windows)


def _n_steps(job: Job) -> int | None:
    """Return the number of windows or, of revised windows, of versions; None if none is stated."""
    if job.allowed_lateness is None:
        return job.windows
    from counton.windowing.windows import revisions_in

    with suppress(InvalidInputError):
        return revisions_in(str(job.allowed_lateness), str(job.every)) + 1
    return None


def _horizon_text(horizon: int | None) -> str:
    return "no last step" if horizon is None else f"{horizon:,} steps"


def _norms_of_loss(job: Job) -> tuple[int, ...]:
    """Return 1 if a loss allows Laplace, 2 if it allows Gaussian noise; () if none is stated."""
    if job.rho is not None or (job.margin_of_error is not None and job.solve_for == "rho"):
        return (2,)
    if job.epsilon is None and job.margin_of_error is None:
        return ()
    return (1,) if job.delta is None else (1, 2)


def _loss_option(job: Job) -> str:
    if job.epsilon is not None:
        return show_option("epsilon", job.epsilon)
    return show_option("margin_of_error", job.margin_of_error)


# ---------------------------------------------------------------------------------------- windows
def _problems_of_windows(job: Job) -> Iterator[str]:
    """Yield what is wrong with windows, beside users' periods and the time of the release."""
    windows = _windows_of(job)
    if windows is None:
        return
    from counton.windowing.periods import first_split_window

    period = job.value_of("contribution_period")
    split = None
    if period is not None:
        with suppress(InvalidInputError):  # a length of no period is refused where it is parsed
            split = first_split_window(windows, str(period))
    if split is not None and has_same_length(str(period), windows.every):
        yield (
            f"{param('contribution_period', period)}: a period begins at "
            f"{windows.format_moment(split.period_begin)}, inside the window of {windows.every} "
            f"that begins at {windows.format_moment(split.window_begin)}. One user would count "
            f"twice in that window. Let windows begin where periods begin ({param('start')}), or "
            f"give another {param('contribution_period')}"
        )
    if job.allowed_lateness is not None and period != windows.every and _counts_users(job):
        longer = "for ever" if period is None else f"in each {period}"
        yield (
            f"{param('allowed_lateness', job.allowed_lateness)} revises the users of each window "
            f"of {windows.every}, but here a user counts once {longer}, in the first window with "
            f"a row of that user: give {param('contribution_period', windows.every)}, and let "
            "windows begin where these periods begin"
        )
    if job.value_of("series") == "period-to-date" and split is not None:
        yield (
            f"{param('series', 'period-to-date')} is for users who count anew in each period "
            f"({param('contribution_period')}) of whole windows, as reach does, and here no "
            "user does; leave it out"
        )
    yield from _problems_of_time_of_release(job, windows)


def _windows_of(job: Job) -> Windows | None:
    """Return the windows that a job states; None if it has none, or impossible ones."""
    if job.every is None or job.start is None:
        return None
    from counton.windowing.windows import Windows, load_zone, parse_time, usual_revised_windows

    every = str(job.every)
    timezone = job.timezone or "UTC"
    with suppress(InvalidInputError):  # impossible windows are refused where they are parsed
        start = parse_time(str(job.start), timezone).astimezone(load_zone(timezone))
        if job.windows is not None:
            return Windows(start, every, job.windows, timezone)
        if job.allowed_lateness is not None:
            n_windows = usual_revised_windows(start, every, timezone)
            return Windows(start, every, n_windows, timezone)
        return Windows.endless(start, every, timezone)
    return None


def _problems_of_time_of_release(job: Job, windows: Windows) -> Iterator[str]:
    """Yield what is wrong with a stated time up to which windows are released.

    A scheduled run may come before its first window begins, by less than a window.
    """
    if job.until in (None, NOW, LATEST_ROW):
        return
    from counton.windowing.windows import microseconds, parse_time

    try:
        until = parse_time(str(job.until), windows.timezone)
    except InvalidInputError:  # refused where it is parsed
        return
    begin = microseconds(windows.start)
    first_end = int(windows.ends(range(1, 2))[0])
    if microseconds(until) <= begin - (first_end - begin):
        yield (
            f"{param('until', windows.format_moment(microseconds(until)))} is not after "
            f"{windows.format_moment(begin)}, when the first window begins. Give a later time, or "
            f"correct {param('start')}"
        )


# ------------------------------------------------------------------------------------- statistics
class _Member(NamedTuple):
    """One statistic of a report.

    Attributes:
        highest_rank: largest k such that the k-th row of a user counts; 0 if rows count.
        has_groups: whether it has groups of its own.
        counts_rows: whether its numbers are numbers of rows or of users.
    """

    highest_rank: int
    has_groups: bool
    counts_rows: bool


def _members_of(job: Job) -> dict[str, _Member]:
    """Return the statistics of a report by name; none if the job is of another statistic."""
    options_by_name = job.value_of("statistics") or {}
    members = {name: _member_of(options) for name, options in options_by_name.items()}
    own_statistic = _own_statistic(job)
    if own_statistic is None:
        return members
    from counton.statistics.by_group import inner_of

    for name, statistic in own_statistic.statistics.items():
        inner = inner_of(statistic)
        counts_rows = inner.counts_rows or inner.counts_users or inner.is_table
        members[name] = _Member(
            highest_rank=max(statistic.counted_ranks, default=0),
            has_groups=statistic.declares is not None or inner is not statistic,
            counts_rows=(counts_rows or inner.keyword == "count") and not inner.in_rank,
        )
    return members


def _member_of(options: Section) -> _Member:
    """Return one statistic of a report, of which the job states options."""
    statistic = options.value_of("statistic")
    ranks = options.value_of("at_least") or (1,)
    return _Member(
        highest_rank=max(ranks) if statistic in _STATISTICS_OF_USERS else 0,
        has_groups=statistic in _STATISTICS_WITH_OWN_GROUPS
        or options.value_of("group_by") is not None,
        counts_rows=statistic not in _STATISTICS_WITH_OTHER_MARGINS,
    )


def _counts_users(job: Job) -> bool:
    """Return whether numbers count users, each in the window of a first row."""
    own_statistic = _own_statistic(job)
    if job.statistic == "reach" or (own_statistic is not None and own_statistic.counts_users):
        return True
    return any(member.highest_rank for member in _members_of(job).values())


def _problems_of_options_in_report(job: Job) -> Iterator[str]:
    """Yield what is wrong with the options of one statistic of a report, beside each other."""
    for name, options in (job.value_of("statistics") or {}).items():
        missing = _missing_options(options)
        if missing:
            yield (
                f"{name!r} of {param('statistics')} needs {' and '.join(missing)}, because each "
                "statistic of a report states its own options. Give them in its table, or leave "
                f"{name!r} out"
            )
        columns = options.value_of("group_by") or ()
        if len(columns) > 1:
            yield (
                f"{param('group_by', ','.join(columns))} of {name!r} names several columns, and a "
                "statistic of a report has groups of one column. Join them into one column"
            )


def _missing_options(options: Section) -> list[str]:
    """Return the options that one statistic of a report needs and does not state."""
    needed = [*REGISTRY.model_of(options.value_of("statistic")).needs]
    if options.value_of("group_by") is not None:
        needed.append("groups")
    fields = type(options).model_fields
    return [name for name in needed if name in fields and options.value_of(name) is None]


def _problems_of_report(job: Job) -> Iterator[str]:
    """Yield what is wrong with the statistics of a report, beside its own options."""
    most = job.value_of("max_contributions") or 1
    for name, member in _members_of(job).items():
        if job.has_stated("group_by") and (member.highest_rank or member.has_groups):
            reason = "counts users" if member.highest_rank else "has groups of its own"
            yield (
                f"{param('group_by')} would group the whole report, but {name!r} {reason}: give "
                f"{param('group_by')} and {param('groups')} inside the statistics that need "
                "groups, and not to the report"
            )
        if job.has_stated("user") and member.highest_rank > most:
            yield (
                f"{name!r} of the report counts users with {member.highest_rank:,} rows, but only "
                f"{param('max_contributions', most)} rows of a user count; give a larger "
                f"{param('max_contributions')}"
            )


def _own_statistic(job: Job) -> AccumulatorStatistic | None:
    """Return a statistic that counton does not name; None if its parsing refuses it."""
    from counton.statistics import AccumulatorStatistic

    statistic = job.own_statistic()
    is_usable = isinstance(statistic, AccumulatorStatistic) and not statistic.ordered
    return cast("AccumulatorStatistic", statistic) if is_usable else None


def _problems_of_own_statistic(job: Job) -> Iterator[str]:
    """Yield what is wrong with options beside a statistic that counton does not name."""
    statistic = _own_statistic(job)
    if statistic is None:
        return
    yield from _problems_of_users_of_statistic(job, statistic)
    yield from _problems_of_columns_of_statistic(job, statistic)
    yield from _problems_of_corrections(job, statistic)
    yield from _problems_of_shown_numbers(job, statistic)
    yield from _problems_of_released_numbers(job, statistic)


def _problems_of_users_of_statistic(job: Job, statistic: AccumulatorStatistic) -> Iterator[str]:
    """Yield what is wrong with options of users, beside a statistic of the user's own."""
    if statistic.counts_users and not job.has_stated("user"):
        yield (
            f"{statistic!r} counts users, and no column names them. Give {param('user')}, the "
            "column that names the user of a row"
        )
    if statistic.counts_units:
        for name in ("user", "row_id"):
            if job.has_stated(name):
                yield (
                    f"{param(name, job.value_of(name))} cannot be used with {statistic!r} of "
                    "counts, because a row may belong to many users. Leave one of them out"
                )
    row = statistic.contribution(batched=True)
    most_a_window = job.value_of("max_contributions_per_window")
    if job.has_stated("user") and row.relation == "replace":
        yield (
            f"{param('user')} cannot be used with {statistic!r}, because this statistic hides the "
            "values of rows, not whether a user is in the data. Leave one of them out"
        )
    if row.pattern is not None and most_a_window is not None:
        yield (
            f"{param('max_contributions_per_window', most_a_window)} cannot be used with "
            f"{statistic!r}, because a row of this statistic changes several numbers. Leave "
            f"{param('max_contributions_per_window')} out"
        )


def _problems_of_columns_of_statistic(job: Job, statistic: AccumulatorStatistic) -> Iterator[str]:
    """Yield what is wrong with the columns that a statistic of the user's own reads."""
    from counton.job.custom_statistic import OwnStatisticJob
    from counton.statistics import Grouped

    assert isinstance(job, OwnStatisticJob)
    if isinstance(statistic, Grouped):
        yield (
            f"{statistic!r} keeps groups inside it, and a job reads groups from a column instead: "
            f"give {statistic.inner!r}, with {param('group_by')} and {param('groups')}"
        )
    columns = job.column_names
    if statistic.own_columns is not None:
        columns = statistic.own_columns.names
    if len(columns) != len(statistic.parts):
        names_of_parts = ", ".join(part.name for part in statistic.parts) or "none"
        yield (
            f"{param('columns')} are {', '.join(columns) or 'none'}, but {statistic!r} reads "
            f"{len(statistic.parts)} columns besides time, group and user: {names_of_parts}. Name "
            "one column for each"
        )


def _problems_of_released_numbers(job: Job, statistic: AccumulatorStatistic) -> Iterator[str]:
    """Yield what is wrong with options of releases, beside a statistic of the user's own."""
    if job.expiring and statistic.statistics:
        yield (
            f"{param('expiring', True)} cannot be used with {statistic!r}, because the statistics "
            "of a report share a budget that does not expire. Leave one of them out"
        )
    if statistic.additive and job.value_of("over"):
        yield (
            f"{param('over', job.value_of('over'))} cannot be used with {statistic!r}, because "
            "this statistic publishes totals and single windows only. Leave it out, and ask the "
            "release for the sum of some windows"
        )


def _problems_of_corrections(job: Job, statistic: AccumulatorStatistic) -> Iterator[str]:
    """Yield what is wrong with covered changes of rows, beside a statistic of the user's own."""
    if job.max_corrections is None:
        return
    row = statistic.contribution(batched=True)
    is_proven = isinstance(row.pattern, BoundedChange | None) and row.every is None
    is_proven &= row.relation != "replace"
    if job.has_stated("user"):
        is_proven &= row.pattern is None and not statistic.counted_ranks
    if not is_proven:
        yield (
            f"{param('max_corrections', job.max_corrections)} cannot be used with {statistic!r}, "
            "because corrections are proven for rows that change one cell each. Leave it out"
        )


def _problems_of_shown_numbers(job: Job, statistic: AccumulatorStatistic) -> Iterator[str]:
    """Yield what is wrong with the numbers to show of a statistic of the user's own."""
    shares = job.value_of("shares")
    names = job.value_of("ask") or () if shares is None else map(float, shares)
    try:
        for name in names:
            statistic.check_asked(name)
    except InvalidInputError as error:
        yield error.template


# --------------------------------------------------------------------------------------- accuracy
def _problems_of_accuracy(job: Job) -> Iterator[str]:
    """Yield what is wrong with a wanted accuracy, beside the statistic."""
    if job.margin_of_error is None:
        return
    own_statistic = _own_statistic(job)
    is_additive = (
        job.statistic in _ADDITIVE_STATISTICS if own_statistic is None else own_statistic.additive
    )
    has_last = job.allowed_lateness is None or job.windows is not None or is_additive
    if job.expected_rows is not None and not has_last:
        yield (
            f"{param('expected_rows', job.expected_rows)} is the number of rows by the last "
            f"window, and this stream has no last window. Give {param('windows')}, or leave "
            f"{param('expected_rows')} out"
        )
    from counton.planning.least_privacy import is_share_of_rows

    if not is_share_of_rows(job.margin_of_error):
        return
    members = _members_of(job)
    without_rows = [repr(name) for name, member in members.items() if not member.counts_rows]
    if job.statistic == "sum":
        without_rows = [job.statistic]
    for shown in without_rows:
        yield (
            f"{param('margin_of_error')} is a percentage of the rows, but {shown} does not count "
            f"rows. Give a number, as in {param('margin_of_error', 'NAME=20' if members else '20')}"
        )
