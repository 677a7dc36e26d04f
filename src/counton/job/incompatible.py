"""The one table of options that exclude or need each other, each row with its reason.

What a statistic cannot do at all is no option of its model, and is not here. Values that contradict
each other are in `counton.job.contradictions`. No other file refuses a combination of options that
the job alone shows to be impossible. What only the plan of a stream, its rows or its state show is
refused there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from counton.base.errors import InvalidInputError, param
from counton.base.series import WITH_LAST
from counton.job.common_options import Job, is_stated
from counton.job.contradictions import (
    contradictions,
    contradictions_of_form,
    contradictions_of_outputs,
    contradictions_of_source,
)
from counton.job.messages import show_option


class IncompatibleOptionsError(InvalidInputError):
    """Options of a job exclude each other, or one of them needs another."""


@dataclass(frozen=True)
class Condition:
    """A fact about the options of a job.

    Attributes:
        option: name of an option, which is stated.
        values: values of which the option has one; empty: any value.
        excluded: values of which the option has none.
        beside: another condition that holds too.
    """

    option: str
    values: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    beside: Condition | None = None

    def holds(self, job: Job) -> bool:
        """Return whether the condition holds for a job."""
        if self.beside is not None and not self.beside.holds(job):
            return False
        value = job.value_of(self.option)
        if not is_stated(value):
            return False
        text = str(value)
        return text not in self.excluded and (not self.values or text in self.values)

    def show(self, job: Job) -> str:
        """Return the options of the condition with the values that a job states."""
        shown = show_option(self.option, job.value_of(self.option))
        return shown if self.beside is None else f"{shown} with {self.beside.show(job)}"


def stated(option: str) -> Condition:
    """Return the condition that an option is stated."""
    return Condition(option)


def equals(option: str, *values: str) -> Condition:
    """Return the condition that an option has one of some values."""
    return Condition(option, values=values)


def differs(option: str, *values: str) -> Condition:
    """Return the condition that an option is stated, and has none of some values."""
    return Condition(option, excluded=values)


def both(first: Condition, second: Condition) -> Condition:
    """Return the condition that two conditions hold."""
    return Condition(first.option, first.values, first.excluded, beside=second)


@dataclass(frozen=True)
class Exclusion:
    """A condition that excludes each of some others, and the reason."""

    condition: Condition
    others: tuple[Condition, ...]
    reason: str


@dataclass(frozen=True)
class Need:
    """A condition that needs at least one of some others, and the reason."""

    condition: Condition
    others: tuple[Condition, ...]
    reason: str


def _excludes(condition: Condition, *others: Condition, because: str) -> Exclusion:
    return Exclusion(condition, others, because)


def _needs(condition: Condition, *others: Condition, because: str) -> Need:
    return Need(condition, others, because)


_DISCOVERS = equals("unlisted_groups", "discover")
_IS_AVERAGE = equals("statistic", "average")
_IS_DISTINCT = equals("statistic", "distinct")
_IS_REACH = equals("statistic", "reach")
_IS_REPORT = equals("statistic", "report")
_IS_TABLE = equals("statistic", "hierarchy", "contingency", "ranges")
_NOT_TOTALS = equals("series", "per-window", "both", "period-to-date", "rolling", "decayed")
_OF_LAST_WINDOWS = stated("last")
_IS_DECAYED = equals("series", "decayed")
_OF_RECENT_WINDOWS = (_OF_LAST_WINDOWS, equals("series", "rolling"), _IS_DECAYED)
_CHOSEN_STRATEGY = differs("strategy", "auto")
#: Statistics of which one row changes several numbers.
_OF_SEVERAL_NUMBERS = equals(
    "statistic",
    *("average", "quantiles", "moments", "report", "hierarchy", "contingency", "ranges"),
)
#: Options about windows, which a table without times does not have.
_OF_WINDOWS = (
    *map(
        stated,
        ("until", "timezone", "release_delay", "append", "lookback", "contribution_period", "over"),
    ),
    *map(
        stated,
        ("every", "start", "allowed_lateness", "max_corrections", "expected_windows", "expiring"),
    ),
    *map(stated, ("metric", "simple", "max_contributions_per_window")),
    _CHOSEN_STRATEGY,
    _NOT_TOTALS,
    _OF_LAST_WINDOWS,
    stated("half_life"),
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    # Windows
    _excludes(
        stated("expected_windows"),
        stated("windows"),
        because="a stream without an end has no last window",
    ),
    _excludes(
        stated("expected_windows"),
        stated("allowed_lateness"),
        because="each revised window has noise of its own",
    ),
    _excludes(
        stated("expected_windows"),
        equals("series", "per-window", "period-to-date"),
        because="a stream without an end releases totals",
    ),
    _excludes(
        stated("expected_windows"),
        stated("metric"),
        because="a stream without an end has no mean error over all windows",
    ),
    _excludes(
        stated("expected_windows"),
        stated("max_corrections"),
        because="changes are proven for a known number of windows",
    ),
    _excludes(
        stated("expiring"),
        stated("expected_windows"),
        because="an expiring stream has no last window anyway",
    ),
    _excludes(
        stated("expiring"),
        stated("allowed_lateness"),
        stated("max_corrections"),
        because="its loss by age is proven for rows that count once",
    ),
    _excludes(
        stated("expiring"),
        _CHOSEN_STRATEGY,
        stated("metric"),
        stated("simple"),
        because="it has a strategy of its own",
    ),
    _excludes(
        stated("expiring"),
        *_OF_RECENT_WINDOWS,
        because="it has a strategy of its own",
    ),
    _excludes(
        stated("expiring"),
        stated("delta"),
        because="its loss by age is epsilon alone, or rho alone",
    ),
    _excludes(
        stated("expiring"), _IS_REPORT, because="a report shares a budget that does not fade"
    ),
    _excludes(
        stated("expiration_delay"),
        _NOT_TOTALS,
        because="a delayed release counts up to an earlier window",
    ),
    _excludes(
        stated("expiration_delay"), _IS_REACH, because="its releases begin anew with each period"
    ),
    _excludes(
        stated("allowed_lateness"),
        equals("series", "cumulative", "both", "period-to-date"),
        *_OF_RECENT_WINDOWS,
        because="each window is published alone, version by version",
    ),
    _excludes(
        stated("allowed_lateness"),
        stated("distinct_users"),
        _IS_DISTINCT,
        because="a user counts once, in the window of the first row",
    ),
    # Sums of recent windows
    _excludes(
        _OF_LAST_WINDOWS,
        equals("series", "per-window"),
        because="the length of one window is a length of last, with series rolling",
    ),
    _excludes(_OF_LAST_WINDOWS, _IS_DECAYED, because="its noise is planned for one kind of sum"),
    _excludes(
        both(_OF_LAST_WINDOWS, _IS_AVERAGE),
        equals("series", "cumulative", "both"),
        because="averages of the last windows are published alone, with series rolling",
    ),
    *(
        _excludes(
            condition,
            differs("over", "0"),
            because="the numbers are already of recent windows",
        )
        for condition in (_OF_LAST_WINDOWS, _IS_DECAYED)
    ),
    *(
        _excludes(
            condition,
            stated("distinct_users"),
            stated("once_per_window"),
            because="sums of windows are not numbers of different users",
        )
        for condition in (_OF_LAST_WINDOWS, _IS_DECAYED)
    ),
    *(
        _excludes(
            condition,
            _CHOSEN_STRATEGY,
            because="strategies for such sums are compared by the planner",
        )
        for condition in (_OF_LAST_WINDOWS, _IS_DECAYED)
    ),
    _excludes(
        both(_OF_LAST_WINDOWS, equals("series", "cumulative", "both")),
        stated("expected_windows"),
        because="totals and sums of the last windows need a last window",
    ),
    _excludes(
        differs("over", "0"),
        _IS_DISTINCT,
        because="it shows totals and single windows, and a release adds up the last windows",
    ),
    # Privacy loss
    _excludes(
        stated("margin_of_error"),
        stated("epsilon"),
        stated("rho"),
        because="it finds the privacy loss for you",
    ),
    _excludes(
        stated("margin_of_error"), stated("target"), because="both state the wanted accuracy"
    ),
    _excludes(
        stated("margin_of_error"),
        stated("expiring"),
        because="the error of an expiring stream grows without end",
    ),
    _excludes(
        stated("rho"), stated("epsilon"), stated("delta"), because="both state the privacy loss"
    ),
    _excludes(
        stated("delta"),
        equals("solve_for", "rho"),
        because="it belongs to the least epsilon",
    ),
    # Groups
    _excludes(_DISCOVERS, stated("rho"), because="finding groups costs epsilon and delta"),
    _excludes(
        _DISCOVERS,
        stated("groups"),
        stated("other_group"),
        because="its groups have no names beforehand",
    ),
    _excludes(
        _DISCOVERS,
        stated("expected_windows"),
        stated("expiring"),
        because="each window that may show a group costs a part of delta",
    ),
    _excludes(
        _DISCOVERS,
        stated("max_corrections"),
        stated("lookback"),
        because="this is proven for declared groups only",
    ),
    _excludes(_DISCOVERS, stated("count_column"), because="a group is found by its number of rows"),
    _excludes(
        _DISCOVERS,
        stated("over"),
        equals("series", "both", "period-to-date"),
        *_OF_RECENT_WINDOWS,
        because="a group is shown from some window on",
    ),
    _excludes(
        _DISCOVERS,
        differs("strategy", "auto", "binary", "kary", "smooth"),
        because="discovery is proven for binary, kary and smooth only",
    ),
    _excludes(
        both(_DISCOVERS, equals("statistic", "top-k")),
        equals("series", "per-window"),
        stated("allowed_lateness"),
        because="a ranking of undeclared groups is of totals",
    ),
    # Users, and tables of counts
    _excludes(
        stated("count_column"),
        stated("user"),
        stated("row_id"),
        because="a row of counts may stand for many users",
    ),
    _excludes(
        stated("user"),
        stated("replace"),
        because="replace hides the values of rows, not whether a user is in the data",
    ),
    _excludes(
        stated("distinct_users"),
        stated("contribution_period"),
        stated("once_per_window"),
        stated("max_contributions_per_window"),
        stated("event_name"),
        because="a user counts only once, for ever",
    ),
    _excludes(stated("once_per_window"), stated("event_name"), because="it counts users, not rows"),
    _excludes(
        stated("max_corrections"),
        stated("distinct_users"),
        stated("max_contributions_per_window"),
        stated("once_per_window"),
        _IS_DISTINCT,
        because="changes are proven for max-contributions and contribution-period only",
    ),
    _excludes(
        stated("max_corrections"),
        stated("replace"),
        because="with replace a row is replaced, not added",
    ),
    _excludes(
        both(stated("max_corrections"), stated("user")),
        _OF_SEVERAL_NUMBERS,
        _IS_REACH,
        because="changes are proven for rows of users that change one number each",
    ),
    _excludes(
        stated("max_contributions_per_window"),
        _OF_SEVERAL_NUMBERS,
        because="it is only for counts and sums, and here each row changes several numbers",
    ),
    _excludes(
        both(stated("max_contributions_per_window"), _DISCOVERS),
        equals("statistic", "sum"),
        because="each row of a group that is found changes several numbers",
    ),
    # Inputs
    _excludes(
        stated("append"),
        stated("lookback"),
        stated("max_corrections"),
        because="new rows are known only as they come",
    ),
    _excludes(
        stated("row_id"),
        stated("lookback"),
        stated("max_corrections"),
        because="rows with an id are known one by one",
    ),
    _excludes(
        stated("lookback"),
        equals("until", "latest-event"),
        because="one row could move the windows that are covered",
    ),
    # Statistics
    _excludes(
        stated("edges"),
        stated("lower"),
        stated("upper"),
        stated("cells"),
        because="edges say where cells begin and end",
    ),
)

#: Options that exclude a file which a run writes.
EXCLUSIONS_OF_OUTPUTS: tuple[Exclusion, ...] = (
    _excludes(
        stated("chart"),
        differs("statistic", "count", "sum", "distinct"),
        because="it draws counts and sums over time",
    ),
    _excludes(
        both(stated("chart"), _DISCOVERS),
        equals("statistic", "sum"),
        because="it draws sums of declared groups over time",
    ),
)

#: Needs of options that later runs may state, too.
NEEDS_OF_RETENTION: tuple[Need, ...] = (
    _needs(
        stated("retain"),
        stated("contribution_period"),
        because="users are forgotten period by period",
    ),
)

#: Needs of the options about files that a run writes.
NEEDS_OF_OUTPUTS: tuple[Need, ...] = tuple(
    _needs(stated(name), stated("chart"), because="it is about the form of a chart")
    for name in ("title", "axis", "source", "width")
)

NEEDS: tuple[Need, ...] = (
    *(
        _needs(condition, stated("time"), because="a table without times is released once")
        for condition in _OF_WINDOWS
    ),
    _needs(
        stated("expiration_growth"),
        stated("expiring"),
        because="it says how protection fades with age",
    ),
    _needs(
        stated("expiration_delay"),
        stated("expiring"),
        because="only protection that fades gains by a delay",
    ),
    _needs(
        stated("delta"),
        stated("epsilon"),
        stated("margin_of_error"),
        because="it is half of an (epsilon, delta) guarantee",
    ),
    _needs(
        stated("solve_for"),
        stated("margin_of_error"),
        because="it says which loss margin-of-error finds",
    ),
    _needs(
        stated("expected_rows"),
        stated("margin_of_error"),
        _IS_REPORT,
        because="it is the whole of which margin-of-error is a share",
    ),
    _needs(
        stated("groups"),
        stated("group_by"),
        _IS_TABLE,
        because="it lists the groups of that column",
    ),
    _needs(
        stated("group_by"),
        stated("groups"),
        _DISCOVERS,
        because="groups found in the rows would reveal whose rows are there",
    ),
    _needs(
        stated("other_group"), stated("groups"), because="it holds the rows of all other groups"
    ),
    _needs(_DISCOVERS, stated("group_by"), because="it finds the groups of a column"),
    _needs(_DISCOVERS, stated("delta"), because="finding groups costs epsilon and delta"),
    _needs(
        both(_DISCOVERS, stated("allowed_lateness")),
        stated("windows"),
        because="each version of a window may show a group",
    ),
    _needs(
        both(_DISCOVERS, stated("allowed_lateness")),
        stated("append"),
        stated("row_id"),
        because="it is proven for inputs of new rows only",
    ),
    _needs(stated("room"), _DISCOVERS, because="it bounds how many groups may be found"),
    _needs(
        stated("upstream_max_contributions"),
        stated("count_column"),
        because="it bounds a user's share of a table of counts",
    ),
    *(
        _needs(stated(name), stated("user"), because="it bounds the rows of one user")
        for name in ("max_contributions", "contribution_period", "max_contributions_per_window")
    ),
    *(
        _needs(stated(name), stated("user"), because="it counts users")
        for name in ("once_per_window", "distinct_users")
    ),
    _needs(
        stated("event_name"),
        stated("user"),
        stated("upstream_max_contributions"),
        because="it names one row of a user",
    ),
    _needs(
        stated("user"),
        stated("max_contributions"),
        stated("distinct_users"),
        _IS_REACH,
        _IS_DISTINCT,
        because="noise must hide all rows of a user that count",
    ),
    *(
        _needs(
            both(stated("group_by"), condition),
            stated("max_contributions"),
            because="it bounds the groups of a user",
        )
        for condition in (stated("distinct_users"), _IS_REACH, _IS_DISTINCT)
    ),
    _needs(
        both(stated("max_corrections"), stated("user")),
        stated("allowed_lateness"),
        because="changes of users' rows are proven for revised windows",
    ),
    *NEEDS_OF_RETENTION,
    _needs(
        _OF_LAST_WINDOWS,
        *(equals("series", series) for series in WITH_LAST),
        because="series says what else is published",
    ),
    _needs(
        equals("series", "rolling"),
        _OF_LAST_WINDOWS,
        because="it says how many last windows are added up",
    ),
    _needs(
        _IS_DECAYED,
        stated("half_life"),
        because="it says how fast the weight of a window falls",
    ),
    _needs(
        stated("half_life"),
        _IS_DECAYED,
        because="only these sums have weights",
    ),
    _needs(
        equals("series", "period-to-date"),
        stated("contribution_period"),
        because="its totals begin anew with each period of a user",
    ),
)


def refuse_excluded(job: Job) -> None:
    """Refuse options that exclude each other, and values that contradict each other.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.

    Raises:
        IncompatibleOptionsError: two such options are stated.

    >>> from counton.job.statistics import CountJob
    >>> refuse_excluded(CountJob(events="visits.csv", expected_windows=50, windows=9))
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: expected_windows=50 does not go with
    windows=9: a stream ...
    """
    _refuse_pairs(job, EXCLUSIONS)
    _refuse_first(contradictions(job))


def refuse_without_form(job: Job) -> None:
    """Refuse values that are read by another option, and cannot be.

    Args:
        job: a job.

    Raises:
        IncompatibleOptionsError: there are such values.
    """
    _refuse_first(contradictions_of_form(job))


def refuse_outputs(job: Job) -> None:
    """Refuse options about files that a run writes, and files that it cannot write.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.

    Raises:
        IncompatibleOptionsError: there are such options.
    """
    refuse_unmet_needs(job, NEEDS_OF_OUTPUTS)
    _refuse_pairs(job, EXCLUSIONS_OF_OUTPUTS)
    _refuse_first(contradictions_of_outputs(job))


def refuse_source(job: Job, events: object) -> None:
    """Refuse a query of rows that are in no database, and a database without a query.

    Args:
        job: a job.
        events: what it names, or rows that a program passes in place of it.

    Raises:
        IncompatibleOptionsError: the events are not what the query needs.
    """
    _refuse_first(contradictions_of_source(job, events))


def _refuse_pairs(job: Job, exclusions: Sequence[Exclusion]) -> None:
    """Refuse the first two options that exclude each other."""
    for rule in exclusions:
        if not rule.condition.holds(job):
            continue
        for other in rule.others:
            if other.holds(job):
                raise IncompatibleOptionsError(
                    f"{rule.condition.show(job)} does not go with {other.show(job)}: "
                    f"{rule.reason}; leave one of them out"
                )


def _refuse_first(messages: Iterator[str]) -> None:
    """Raise the first of several messages, if there is one."""
    message = next(messages, None)
    if message is not None:
        raise IncompatibleOptionsError(message)


def refuse_unmet_needs(job: Job, needs: Sequence[Need] = NEEDS) -> None:
    """Refuse an option that needs another one, which a job does not state.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.
        needs: the needs that are checked.

    Raises:
        IncompatibleOptionsError: there is such an option.

    >>> from counton.job.statistics import CountJob
    >>> refuse_unmet_needs(CountJob(events="visits.csv", time="at", expiration_growth=2))
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: expiration_growth=2 needs expiring: it ...
    """
    for rule in _unmet_needs(job, needs):
        needed = [
            param(other.option, other.values[0] if other.values else None)
            for other in rule.others
            if other.option != "statistic" and other.option in type(job).model_fields
        ]
        raise IncompatibleOptionsError(
            f"{rule.condition.show(job)} needs {' or '.join(needed)}: {rule.reason}; give it, or "
            f"leave {param(rule.condition.option)} out"
        )


def needed_of_columns(job: Job) -> list[str]:
    """Return the options that the stated columns of groups and of users need, and the job lacks.

    >>> from counton.job.statistics import CountJob
    >>> needed_of_columns(CountJob(events="visits.csv", group_by="page", user="reader"))
    ['groups', 'max_contributions']
    """
    columns = ("group_by", "user")
    return [
        rule.others[0].option
        for rule in _unmet_needs(job, NEEDS)
        if rule.condition.option in columns
    ]


def _unmet_needs(job: Job, needs: Sequence[Need]) -> Iterator[Need]:
    for rule in needs:
        is_met = any(other.holds(job) for other in rule.others)
        if rule.condition.holds(job) and not is_met:
            yield rule
