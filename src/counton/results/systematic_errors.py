"""Errors of published numbers other than noise, in words. No other module words them.

Tables, charts, pages, files and methods print these lines unchanged. They follow from the public
description alone: they say which rows may be missing, never whether one is, or how many.
"""

from __future__ import annotations

import math

from counton.base.lengths import PERIODS
from counton.base.systematic_error import SystematicError
from counton.base.wording import counted, plural
from counton.results.metadata import ReleaseMetadata, RowsLeftOut, counted_anew
from counton.statistics.by_group import inner_of
from counton.statistics.clipping import beyond_in_words, clipped_in_words
from counton.windowing.periods import most_windows_in

#: What happens to numbers of users of several periods.
_ADDED_UP = "are added up over all periods"
#: What happens to rows that are left out.
_NOT_COUNTED = "are not counted, which biases numbers by an unknown amount"


def systematic_errors(metadata: ReleaseMetadata) -> list[str]:
    """Return a sentence for each kind of error that no interval covers, such as rows left out.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("sum", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, value="paid", lower=0, upper=60, resolution=1, user="reader",
    ...           max_contributions=3,
    ...           contribution_period="1d", epsilon=1)
    >>> for line in systematic_errors(plan_spec(job).metadata()):
    ...     print(line)
    rows that arrive after their day was released are counted in a later day, or not at all if their
    user's day ended at least 35 days (840 hours) before the end of the last day that earlier runs
    released
    rows beyond 3 of each user's day are not counted, so that numbers are too low by an unknown
    amount
    values outside 0 to 60 are counted as the nearer bound, which biases the sum by an unknown
    amount
    """
    return [error.sentence for error in _errors_of(metadata)]


def what_intervals_leave_out(metadata: ReleaseMetadata) -> list[str]:
    """Return nouns for what no interval covers, such as "rows of undeclared groups"."""
    return [error.brief for error in _errors_of(metadata) if error.is_brief]


def _errors_of(metadata: ReleaseMetadata) -> list[SystematicError]:
    errors = _errors_of_late_rows(metadata)
    left_out = metadata.left_out
    if left_out.skips or left_out.sets_aside:
        errors.append(_unreadable_rows(left_out))
    if metadata.contribution_rule.bounds_users:
        errors += _rows_beyond_a_bound(metadata)
        errors += _users_counted_again(metadata)
        errors += _users_of_several_groups(metadata)
    errors += _errors_of_statistic(metadata)
    if not metadata.cells.named_beforehand:
        errors.append(
            SystematicError(
                "groups that never reached the threshold", "are left out, with all of their rows"
            )
        )
    elif left_out.drops:
        errors.append(SystematicError("rows of undeclared groups", _NOT_COUNTED))
    if metadata.contribution_rule.bounds_users:
        errors += _users_of_periods(metadata)
    return errors


def _errors_of_late_rows(metadata: ReleaseMetadata) -> list[SystematicError]:
    windows = metadata.windows
    if not (windows.timed and windows.is_recurring):
        return []
    window = metadata.window
    contribution_rule = metadata.contribution_rule
    is_snapshot = metadata.max_corrections is not None
    subject = f"rows that arrive after their {window} was released"
    effect = contribution_rule.late_rows(window, metadata.privacy_unit, ids=metadata.has_row_ids)
    remark = _what_becomes_of_late_rows(metadata)
    provisional_time = windows.provisional_time
    if is_snapshot:
        effect = "are not counted"
        remark = ""
    if provisional_time is not None:
        remark = ""
        subject = f"rows that arrive after their {window} became final"
        effect = (
            f"are not counted; earlier late rows are added to their {window}, whose number is "
            f"provisional for {provisional_time}"
        )
    may_change = metadata.max_corrections or not contribution_rule.bounds_users
    if provisional_time is not None and is_snapshot and may_change:
        subject = f"rows that arrive, change or disappear after their {window} became final"
        effect = (
            "do not change its number; earlier ones change it, because it is provisional for "
            f"{provisional_time}"
        )
    errors = [SystematicError(subject, effect, remark=remark)]
    if remark and _may_exceed_limit_by_late_rows(metadata):
        errors.append(
            SystematicError(
                f"{plural(metadata.user_noun)} with late rows",
                f"may be counted {_more_often_than_limit(metadata)} in this later {window}",
                is_brief=False,
            )
        )
    if windows.n_revisions and metadata.series == "both":
        errors.append(
            SystematicError(
                f"the number of a final {window}",
                "may still change a little, by noise alone, because each total equals the sum of "
                f"its {plural(window)}",
                is_brief=False,
            )
        )
    return errors


def _what_becomes_of_late_rows(metadata: ReleaseMetadata) -> str:
    """Return what happens to late rows if they do not revise their windows, for a screen."""
    clause = f"which count in a later {metadata.window}"
    if _may_exceed_limit_by_late_rows(metadata):
        clause += f" (where one {metadata.user_noun} may count {_more_often_than_limit(metadata)})"
    clause += ", or not at all"
    if metadata.contribution_rule.leaves_old_rows_out(ids=metadata.has_row_ids):
        clause += " if they are old"
    return clause


def _counts_rows_of_users(metadata: ReleaseMetadata) -> bool:
    """Return whether numbers are sums of ones, each for a row of a user that counts."""
    rule = metadata.contribution_rule
    is_count = metadata.statistic.additive and metadata.value is None
    return rule.bounds_users and is_count and rule.max_contributions_per_group is None


def _limit_in_one_number(metadata: ReleaseMetadata) -> int:
    """Return how often a user's rows of one period count in one number of a window and group."""
    rule = metadata.rule_in_words
    return 1 if rule.once_per_window else _limit_in_one_window(metadata)


def _limit_in_one_window(metadata: ReleaseMetadata) -> int:
    """Return how often a user's rows of one period count in all groups of a window."""
    rule = metadata.contribution_rule
    most_in_window = rule.max_contributions_per_window or rule.max_contributions
    return min(most_in_window, rule.max_contributions)


def _more_often_than_limit(metadata: ReleaseMetadata) -> str:
    """Return words such as "more than once" for a user beyond the limit of one number."""
    limit = _limit_in_one_number(metadata)
    return "more than once" if limit == 1 else f"more than {limit:,} times"


def _may_exceed_limit_by_late_rows(metadata: ReleaseMetadata) -> bool:
    """Return whether a user may count more often in one number because of late rows.

    A late row belongs to the limit of its own period, whichever later window counts it. Without
    periods, all windows share one limit, but a user may count once in each of them.
    """
    if not _counts_rows_of_users(metadata) or metadata.series == "cumulative":
        return False
    if metadata.contribution_rule.contribution_period is not None:
        return True
    return _limit_in_one_window(metadata) > _limit_in_one_number(metadata)


def _users_counted_again(metadata: ReleaseMetadata) -> list[SystematicError]:
    """Return the error by users who count in several periods of one window, if they may."""
    period = metadata.period_in_window
    if period is None or not _counts_rows_of_users(metadata):
        return []
    limit = _limit_in_one_number(metadata)
    how_often = "once" if limit == 1 else f"up to {limit:,} times"
    return [
        SystematicError(
            f"{plural(metadata.user_noun)} of several {plural(period)} in one {metadata.window}",
            f"are counted {how_often} in each {period}",
            remark=f"who count {how_often} in each {period}",
        )
    ]


def _users_of_several_groups(metadata: ReleaseMetadata) -> list[SystematicError]:
    """Return the error by users who count in several groups, if they may.

    Their numbers by group do not add up to a number of users.
    """
    if metadata.group_by is None:
        return []
    users = plural(metadata.user_noun)
    if metadata.groups_of_user > 1:
        return [
            SystematicError(
                f"{users} of several groups",
                f"are counted once in each of up to {metadata.groups_of_user:,} groups",
                remark=f"who count once in each of up to {metadata.groups_of_user:,}",
            )
        ]
    rule = metadata.contribution_rule
    limit = _limit_in_one_window(metadata)
    if not _counts_rows_of_users(metadata) or rule.once_per_window or limit == 1:
        return []
    place = "in all"
    if limit < rule.max_contributions:
        place = f"in one {metadata.window}"
    elif rule.contribution_period is not None:
        period = PERIODS.get(rule.contribution_period, f"period of {rule.contribution_period}")
        place = f"in each {period}"
    return [
        SystematicError(
            f"{users} with several rows",
            f"are counted up to {limit:,} times {place}, in one group or in several",
            remark=f"who count up to {limit:,} times {place}",
        )
    ]


def _unreadable_rows(left_out: RowsLeftOut) -> SystematicError:
    """Return the error by rows that lack a value or cannot be read."""
    if not left_out.skips:
        return SystematicError("rows that cannot be read", _NOT_COUNTED)
    *others, last = left_out.skips
    columns = f"{', '.join(others)} or {last}" if others else last
    rows = f"rows without {columns}"
    if left_out.sets_aside:
        rows = f"rows that cannot be read or have no {columns}"
    return SystematicError(rows, _NOT_COUNTED)


def late_note(metadata: ReleaseMetadata) -> str | None:
    """Return a note that counts are too low late in a period, where bounds are used up."""
    return metadata.rule_in_words.late_note(
        metadata.windows,
        metadata.privacy_unit,
        metadata.groups_apart,
        most_windows=_most_windows_of_period(metadata),
    )


def _most_windows_of_period(metadata: ReleaseMetadata) -> float:
    """Return the largest number of windows in a period of users; infinite for the whole stream."""
    return most_windows_in(metadata.windows, metadata.contribution_rule.contribution_period)


def uneven_windows_note(metadata: ReleaseMetadata) -> str | None:
    """Return a note, with the remedy, if later windows of a period are counted too low, else None.

    Only the options decide it.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=52, user="reader", max_contributions=20, contribution_period="1mo",
    ...           epsilon=1)
    >>> print(uneven_windows_note(plan_spec(job).metadata()))
    late windows of a period are counted too low: ...; a period of one window avoids it, or
    max-contributions-per-window = 1 with max-contributions = 31, which needs more noise
    """
    late = late_note(metadata)
    if late is None:
        return None
    rule = metadata.contribution_rule
    if rule.max_contributions_per_window is not None:
        return f"{late}; a larger max-contributions leaves more to late windows"
    if rule.once_per_window or metadata.contribution.pattern is not None:
        return f"{late}; a larger max-contributions, or a period of one window, avoids it"
    n_windows = min(metadata.windows.steps, _most_windows_of_period(metadata))
    if rule.max_contributions < n_windows:
        return (
            f"{late}; a period of one window avoids it, or max-contributions-per-window = 1 with "
            f"max-contributions = {n_windows:,}, which needs more noise"
        )
    in_each = int(rule.max_contributions / n_windows)
    return (
        f"{late}; max-contributions-per-window = {in_each} keeps windows from taking what later "
        "ones need"
    )


def left_out_groups_note(metadata: ReleaseMetadata) -> str | None:
    """Return a note that users in several groups count in their first groups alone, if so.

    Only the options decide it, and the number of declared groups.

    >>> from counton.run import Job
    >>> from counton.run.spec.plan_spec import plan_spec
    >>> job = Job("count", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, group_by="page", groups="home,shop", user="reader",
    ...           max_contributions=1, contribution_period="1d", epsilon=1)
    >>> print(left_out_groups_note(plan_spec(job).metadata()))
    at most 1 row of each user's day counts. If a user is in several groups, it is the first row by
    time, then by the group's name, and the numbers of the other groups are too low. To count each
    user in more groups, set once-per-window = true in the job file, and max-contributions to the
    largest number of groups in which one user may count. Each further group makes the margins of
    error larger. With 2, each user counts in every group
    """
    rule = metadata.contribution_rule
    groups = metadata.groups_apart
    if not rule.bounds_users or groups is None:
        return None
    most = rule.max_contributions
    if rule.max_contributions_per_window is not None:
        most = min(most, rule.max_contributions_per_window)
    if 0 < groups <= most:
        return None
    counts_groups = rule.once_per_window or rule.max_contributions_per_group is not None
    thing = "group" if counts_groups else "row"
    counts = "counts" if most == 1 else "count"
    first = f"it is the first {thing}" if most == 1 else f"they are the first {most:,}"
    several = "several groups" if most == 1 else f"more than {most:,} groups"
    place = ""
    if most < rule.max_contributions:  # the limit of one window is the smaller one
        place = f" in one {metadata.window}"
    return (
        f"at most {counted(most, thing)} of each {metadata.privacy_unit} {counts}{place}. If a "
        f"user is in {several}, {first} by time, then by the group's name, and the numbers of the "
        f"other groups are too low. To count each user in more groups, "
        f"{_remedy_of_left_out_groups(metadata, groups)}"
    )


def _remedy_of_left_out_groups(metadata: ReleaseMetadata, groups: int) -> str:
    """Return by which options each user counts in more groups, and what this costs.

    Args:
        metadata: the release.
        groups: number of declared groups; 0: unknown.
    """
    rule = metadata.contribution_rule
    is_distinct = rule.max_contributions_per_group is not None
    of_window = ""
    if rule.max_contributions_per_window is not None:
        of_window = " and a larger max-contributions-per-window"
    if not is_distinct and metadata.statistic_name != "count":
        return (
            f"set a larger max-contributions{of_window} in the job file. The noise is then larger"
        )
    windows = 1 if is_distinct else _most_windows_of_period(metadata)
    once = "set max-contributions in the job file to"
    if not is_distinct and not rule.once_per_window:
        once = f"set once-per-window = true{of_window} in the job file, and max-contributions to"
    span = ""
    if windows > 1:
        part = "the stream" if rule.contribution_period is None else "a period"
        span = f", added up over the {plural(metadata.window)} of {part}"
    remedy = (
        f"{once} the largest number of groups in which one user may count{span}. Each further "
        "group makes the margins of error larger"
    )
    if not groups or windows == math.inf:
        return remedy
    return f"{remedy}. With {int(groups * windows):,}, each user counts in every group"


def adds_users_up(metadata: ReleaseMetadata) -> str | None:
    """Return a note that counts of users by period are added up, if they are."""
    period = metadata.counting_period_in_words()
    return None if period is None or metadata.series != "cumulative" else counted_anew(period)


def _rows_beyond_a_bound(metadata: ReleaseMetadata) -> list[SystematicError]:
    """Return the error by rows or groups beyond a bound for each user, if there is one."""
    contribution_rule = metadata.rule_in_words
    inner = metadata.inner
    beyond_bound = contribution_rule.beyond(
        metadata.windows,
        metadata.privacy_unit,
        metadata.groups_apart,
        most_windows=_most_windows_of_period(metadata),
    )
    if beyond_bound is None:
        return []
    counts = inner.counts_rows and not inner.in_rank
    bounds = metadata.contribution.value_bounds
    positive = metadata.statistic.additive and (bounds is None or bounds[0] >= 0)
    error = beyond_in_words(beyond_bound, low=counts or positive)
    if late_note(metadata) is not None:
        late = f", most of all in late {plural(metadata.window)}, because early rows count first"
        error = error._replace(effect=error.effect + late)
    return [error]


def _errors_of_statistic(metadata: ReleaseMetadata) -> list[SystematicError]:
    """Return the errors of the statistic, or of each in a report, such as by clipping."""
    inner = metadata.inner
    bounds = metadata.contribution.value_bounds
    if inner.statistics:
        return [
            error.of_part(name)
            for name, part in inner.statistics.items()
            for error in inner_of(part).systematic_errors()
        ]
    if metadata.statistic_name == "stream" and bounds is not None:
        lower, upper, _ = bounds
        return [clipped_in_words(lower, upper, "the number")]
    return [*inner.systematic_errors()]


def _users_of_periods(metadata: ReleaseMetadata) -> list[SystematicError]:
    """Return errors of numbers in which one user counts once in each period."""
    parts = metadata.inner.statistics
    if not parts:
        users_note = adds_users_up(metadata)
        if users_note is None:
            return []
        return [SystematicError(f"{plural(metadata.user_noun)}, {users_note},", _ADDED_UP)]
    periods = {
        name: metadata.counting_period_in_words(inner_of(part)) for name, part in parts.items()
    }
    return [
        SystematicError(
            f"{plural(metadata.user_noun)}, {counted_anew(period)},", _ADDED_UP
        ).of_part(name)
        for name, period in periods.items()
        if period is not None
    ]
