"""Errors of published numbers other than noise, in words. No other module words them.

Tables, charts, pages, files and methods print these lines unchanged. They follow from the public
description alone: they say which rows may be missing, never whether one is, or how many.
"""

from __future__ import annotations

from counton.base.lengths import PERIODS
from counton.privacy.guarantees import plural
from counton.results.metadata import ReleaseMetadata, RowsLeftOut, counted_anew
from counton.results.periods import made_of_windows
from counton.statistics.by_group import inner_of
from counton.statistics.clipping import beyond_in_words, clipped_in_words


def systematic_errors(definition: ReleaseMetadata) -> list[str]:
    """Return a line for each kind of error that no interval includes, such as rows left out.

    >>> from counton.run import Job
    >>> from counton.run.planning import plan_stream
    >>> job = Job("sum", "visits.csv", "visits.db", time="at", every="1d", start="2024-03-01",
    ...           windows=31, value="paid", lower=0, upper=60, resolution=1, user="reader",
    ...           max_contributions=3,
    ...           contribution_period="1d", epsilon=1)
    >>> for line in systematic_errors(plan_stream(job).description()):
    ...     print(line)
    counted by arrival: a row that came after its day was published is in a later one, or does not
    count, as one that came more than 35 days (the program's limit) after the end of its user's day
    rows beyond 3 of each user's day do not count, which makes numbers too low (by an unknown
    amount)
    values above 60 count as 60, which makes the sum too low, and values below 0 as 0, which makes
    it too high (by an unknown amount)
    """
    late = list[str]()
    left_out = list[str]()
    if definition.windows.timed and definition.windows.is_recurring:
        window = definition.window
        unit = definition.unit
        rows = definition.contribution_rule.late_rows(window, unit, ids=definition.ids)
        if whole := definition.changes is not None:
            rows = f"a row that came after its {window} was published does not count"
        late = [definition.windows.provisional or rows]
        if whole and (definition.changes or not definition.contribution_rule.bounds_users):
            added = "still come in and are added to it"
            late = [late[0].replace(added, "may still come, go and change")]
    if definition.windows.lags and definition.series == "both":
        window = definition.window
        late.append(
            "all numbers of a table are read together, so that each total is the sum "
            f"of its {plural(window)}; the number of a final {window} still moves a "
            "little, by noise alone, when later totals tell more of it"
        )
    if not definition.cells.named_beforehand:
        left_out = [
            ("groups that were never large enough to be shown are left out, with their rows")
        ]
    elif definition.left_out.drops:
        left_out = [("rows of groups that were not declared do not count (by an unknown amount)")]
    aside = definition.left_out
    lacking = _rows_that_do_not_count(aside) if aside.skips or aside.sets_aside else []
    if not definition.contribution_rule.bounds_users:
        return [*late, *lacking, *_statistic_notes(definition), *left_out]
    beyond = _rows_beyond_a_bound(definition)
    statistic_notes = _statistic_notes(definition)
    again = _users_counted_again(definition)
    return [*late, *lacking, *beyond, *again, *statistic_notes, *left_out, *anew_notes(definition)]


def _users_counted_again(definition: ReleaseMetadata) -> list[str]:
    """Return a line on distinct users who count several times in one window, if they may."""
    per = definition.contribution_rule.contribution_period
    if (
        per is None
        or not definition.contribution_rule.once_per_window
        or made_of_windows(definition.windows, per)
    ):
        return []
    period = PERIODS.get(per, f"period of {per}")
    return [
        f"a user counts again in each {period}, so a {definition.window} in which a {period} "
        "begins may count one user more than once"
    ]


def _rows_that_do_not_count(left_out: RowsLeftOut) -> list[str]:
    """Return a line on rows that do not count because they lack a value or cannot be read."""
    aside = left_out.sets_aside
    if not left_out.skips:
        note = "rows that cannot be read do not count (by an unknown amount)"
        return [note]
    *others, last = left_out.skips
    named = f"{', '.join(others)} or {last}" if others else last
    rows = f"rows that cannot be read, or without {named}," if aside else f"rows without {named}"
    return [f"{rows} do not count (by an unknown amount)"]


def late_note(definition: ReleaseMetadata) -> str | None:
    """Return a note that counts are too low late in a period, where bounds are used up."""
    return definition.contribution_rule.late_note(
        definition.windows, definition.unit, definition.groups_apart
    )


def adds_users_up(definition: ReleaseMetadata) -> str | None:
    """Return a note that counts of users by period are added up, if they are."""
    period = definition.anew()
    return None if period is None or definition.series != "cumulative" else counted_anew(period)


def _rows_beyond_a_bound(definition: ReleaseMetadata) -> list[str]:
    """Return lines on rows or groups beyond a bound for each user."""
    contribution_rule = definition.contribution_rule
    inner = definition.inner
    beyond = contribution_rule.beyond(definition.windows, definition.unit, definition.groups_apart)
    if beyond is None:
        return []
    counts = inner.counts_rows and not inner.in_rank
    positive = definition.statistic.additive and (definition.contribution.lower or 0) >= 0
    note = beyond_in_words(beyond, low=counts or positive)
    if late_note(definition) is not None:
        note += f", those of late {plural(definition.window)} most: earlier rows count first"
    return [note]


def _statistic_notes(definition: ReleaseMetadata) -> list[str]:
    """Return lines on errors of the statistic, or of each in a report, such as by clipping."""
    inner = definition.inner
    contribution = definition.contribution
    if inner.statistics:
        parts = inner.statistics.items()
        return [
            f"{name}: {line}" for name, part in parts for line in inner_of(part).systematic_errors()
        ]
    if (
        definition.what == "stream"
        and contribution.lower is not None
        and contribution.upper is not None
    ):
        return [clipped_in_words(contribution.lower, contribution.upper, "the number")]
    return [*inner.systematic_errors()]


def anew_notes(definition: ReleaseMetadata) -> list[str]:
    """Return notes on numbers in which one user counts once in each period."""
    parts = definition.inner.statistics
    if not parts:
        users_note = adds_users_up(definition)
        if users_note is None:
            return []
        return [f"users: {users_note}, and all periods are added up"]
    periods = {name: definition.anew(inner_of(part)) for name, part in parts.items()}
    return [
        f"{name}: users, {counted_anew(period)}, and all periods are added up"
        for name, period in periods.items()
        if period is not None
    ]
