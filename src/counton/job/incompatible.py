"""The one table of options that exclude or need each other, each row with its reason.

What a statistic cannot do at all is no option of its model, and is not here. Values that contradict
each other, and options of one statistic of a report, are in `counton.job.contradictions`. No other
file refuses a combination of options that the job alone shows to be impossible.

What only the plan of a stream, its rows or its state show is refused where that is known. Functions
of Python that plan without a job are in a layer below, and check their own arguments.

These functions refuse, each in another place:

- a new job, before its plan: `refuse_excluded`, `refuse_unmet_needs`;
- the normal form of a job: `refuse_without_form`; groups, once they are read: `refuse_groups`;
- each run, once its job is complete: `refuse_excluded`, `refuse_outputs`;
- rows that are opened: `refuse_source`;
- a service: `refuse_of_service`; a streaming frame: `refuse_of_streaming`;
- a command without a job: `refuse_of_command`; one that plans: `refuse_of_plan`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from counton.base.errors import InvalidInputError, param
from counton.base.series import WITH_LAST
from counton.job.common_options import Job, is_stated
from counton.job.contradictions import (
    contradictions,
    contradictions_of_form,
    contradictions_of_groups,
    contradictions_of_outputs,
    contradictions_of_service,
    contradictions_of_source,
    contradictions_of_streaming,
)
from counton.job.messages import show_option


class IncompatibleOptionsError(InvalidInputError):
    """Options of a job exclude each other, or one of them needs another."""


@dataclass(frozen=True)
class CommandOptions:
    """Options of a command that has no job, for the conditions of this file.

    Attributes:
        values: values of all options by name; None, or False, of an option that is not stated.
    """

    values: Mapping[str, Any]

    def value_of(self, option: str) -> Any:
        """Return the value of an option; None if the command has no such option."""
        return self.values.get(option)


@dataclass(frozen=True)
class Condition:
    """A fact about the options of a job, or of a command.

    Attributes:
        option: name of an option, which is stated.
        values: values of which the option has one; empty: any value.
        excluded: values of which the option has none.
        further_condition: another condition that holds too; None: there is none.
    """

    option: str
    values: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    further_condition: Condition | None = None

    def holds(self, options: Job | CommandOptions) -> bool:
        """Return whether the condition holds for some options."""
        if self.further_condition is not None and not self.further_condition.holds(options):
            return False
        value = options.value_of(self.option)
        if not is_stated(value):
            return False
        text = str(value)
        return text not in self.excluded and (not self.values or text in self.values)

    def show(self, options: Job | CommandOptions) -> str:
        """Return the options of the condition with their stated values."""
        shown = show_option(self.option, options.value_of(self.option))
        return (
            shown
            if self.further_condition is None
            else f"{shown} with {self.further_condition.show(options)}"
        )


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
    return Condition(first.option, first.values, first.excluded, further_condition=second)


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
#: Statistics whose contribution bound is a pattern: a row changes several measured numbers.
_OF_SEVERAL_NUMBERS = equals(
    "statistic",
    *("average", "quantiles", "moments", "report", "hierarchy", "contingency", "ranges"),
)
#: Options about windows, which a table without times does not have.
_NEED_TIMES = (
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

#: Options about the number of windows and about sums of recent windows, which plans have too.
_EXCLUSIONS_OF_LENGTH = (
    _excludes(
        stated("expected_windows"),
        stated("windows"),
        because="a stream without an end has no last window",
    ),
    _excludes(
        stated("expected_windows"),
        equals("series", "per-window", "period-to-date"),
        because="a stream without an end releases totals only",
    ),
)
_EXCLUSIONS_OF_LAST = (
    _excludes(
        _OF_LAST_WINDOWS,
        equals("series", "per-window"),
        because="a single window is one of the lengths of rolling sums",
    ),
    _excludes(_OF_LAST_WINDOWS, _IS_DECAYED, because="noise is planned for one kind of sum"),
)
_NEEDS_OF_SERIES = (
    _needs(
        equals("series", "rolling"),
        _OF_LAST_WINDOWS,
        because="the number of windows that are added up must be stated",
    ),
    _needs(
        _IS_DECAYED,
        stated("half_life"),
        because="the speed at which weights of windows fall must be stated",
    ),
    _needs(
        stated("half_life"),
        _IS_DECAYED,
        because="only decayed sums have weights",
    ),
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    # Windows
    *_EXCLUSIONS_OF_LENGTH,
    _excludes(
        stated("expected_windows"),
        stated("allowed_lateness"),
        because="each revised window has its own noise, so its error depends on no length",
    ),
    _excludes(
        stated("expected_windows"),
        stated("metric"),
        because="a stream without an end has no mean error over all windows",
    ),
    _excludes(
        stated("expected_windows"),
        stated("max_corrections"),
        because="corrections are proven for a known number of windows only",
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
        because="the loss of an expiring stream is proven for rows that count once",
    ),
    _excludes(
        stated("expiring"),
        _CHOSEN_STRATEGY,
        stated("metric"),
        stated("simple"),
        because="an expiring stream has its own strategy",
    ),
    _excludes(
        stated("expiring"),
        *_OF_RECENT_WINDOWS,
        because="an expiring stream has its own strategy",
    ),
    _excludes(
        stated("expiring"),
        stated("delta"),
        because="the loss of an expiring stream is epsilon alone, or rho alone",
    ),
    _excludes(
        stated("expiring"),
        _IS_REPORT,
        because="the statistics of a report share a budget that does not expire",
    ),
    _excludes(
        stated("expiration_delay"),
        _NOT_TOTALS,
        because="a delayed release counts up to an earlier window",
    ),
    _excludes(
        stated("expiration_delay"),
        _IS_REACH,
        because="the totals of reach begin again with each period",
    ),
    _excludes(
        stated("allowed_lateness"),
        equals("series", "cumulative", "both", "period-to-date"),
        *_OF_RECENT_WINDOWS,
        because="each revised window is published alone, version by version",
    ),
    _excludes(
        stated("allowed_lateness"),
        stated("distinct_users"),
        _IS_DISTINCT,
        because="a user counts once, in the window of the first row",
    ),
    # Sums of recent windows
    *_EXCLUSIONS_OF_LAST,
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
            because="the planner compares the strategies for such sums",
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
        because="distinct publishes totals and single windows only",
    ),
    # Privacy loss
    _excludes(
        stated("margin_of_error"),
        stated("epsilon"),
        stated("rho"),
        because="the margin of error determines the privacy loss",
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
        because="delta belongs to epsilon",
    ),
    # Groups
    _excludes(_DISCOVERS, stated("rho"), because="finding groups costs epsilon and delta"),
    _excludes(
        _DISCOVERS,
        stated("groups"),
        stated("other_group"),
        because="discovered groups have no names beforehand",
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
        because="the guarantee is proven for declared groups only",
    ),
    _excludes(
        _DISCOVERS, stated("count_column"), because="a group is discovered by its number of rows"
    ),
    _excludes(
        _DISCOVERS,
        stated("over"),
        equals("series", "both", "period-to-date"),
        *_OF_RECENT_WINDOWS,
        because="a discovered group is shown only from some window on",
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
        because="undeclared groups are ranked by their totals",
    ),
    # Users, and tables of counts
    _excludes(
        stated("count_column"),
        stated("user"),
        stated("row_id"),
        because="a row of counts may belong to many users",
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
        because="each user counts only once in the whole stream",
    ),
    _excludes(
        stated("once_per_window"),
        stated("event_name"),
        because="a window then counts users, not their rows",
    ),
    _excludes(
        stated("max_corrections"),
        stated("distinct_users"),
        stated("max_contributions_per_window"),
        stated("once_per_window"),
        _IS_DISTINCT,
        because="corrections are proven only for a bound on rows in all, or in each period",
    ),
    _excludes(
        stated("max_corrections"),
        stated("replace"),
        because="neighbouring inputs then differ in a replaced row, not in an added one",
    ),
    _excludes(
        both(stated("max_corrections"), stated("user")),
        _OF_SEVERAL_NUMBERS,
        _IS_REACH,
        because="corrections of users' rows are proven if each row changes one number",
    ),
    _excludes(
        stated("max_contributions_per_window"),
        _OF_SEVERAL_NUMBERS,
        because="a row of this statistic changes several numbers",
    ),
    _excludes(
        both(stated("max_contributions_per_window"), _DISCOVERS),
        equals("statistic", "sum"),
        because="a row of a discovered group changes several numbers",
    ),
    # Inputs
    _excludes(
        stated("append"),
        stated("lookback"),
        stated("max_corrections"),
        because="files of new rows do not show which counted rows have changed",
    ),
    _excludes(
        stated("row_id"),
        stated("lookback"),
        stated("max_corrections"),
        because="rows with an id are recognised one by one, and never counted again",
    ),
    _excludes(
        stated("lookback"),
        equals("until", "latest-event"),
        because="a single row could change which windows are covered",
    ),
    # Statistics
    _excludes(
        stated("edges"),
        stated("lower"),
        stated("upper"),
        stated("cells"),
        because="edges already state where cells begin and end",
    ),
)

#: Options that exclude a file which a run writes.
EXCLUSIONS_OF_OUTPUTS: tuple[Exclusion, ...] = (
    _excludes(
        stated("chart"),
        differs("statistic", "count", "sum", "distinct"),
        because="a chart draws counts and sums over time",
    ),
    _excludes(
        both(stated("chart"), _DISCOVERS),
        equals("statistic", "sum"),
        because="a chart draws sums of declared groups only",
    ),
)

#: Options of the command that plans a stream without a job; its lengths are numbers of windows.
EXCLUSIONS_OF_PLANS: tuple[Exclusion, ...] = (
    _excludes(stated("asked"), stated("windows"), because="both state the number of windows"),
    _excludes(
        stated("expected_windows"),
        stated("asked"),
        because="a stream without an end has no last window",
    ),
    *_EXCLUSIONS_OF_LENGTH,
    *_EXCLUSIONS_OF_LAST,
)

#: Arguments of `counton.release`, which takes a guarantee as an object, too.
EXCLUSIONS_OF_GUARANTEE: tuple[Exclusion, ...] = (
    _excludes(
        stated("guarantee"),
        stated("epsilon"),
        stated("delta"),
        stated("rho"),
        because="both state the privacy loss",
    ),
)

#: Options of the command that erases users.
EXCLUSIONS_OF_ERASURE: tuple[Exclusion, ...] = (
    _excludes(stated("user"), stated("age"), because="each states whose data are erased"),
)

#: Options of the command that publishes into a database.
EXCLUSIONS_OF_PUBLISHING: tuple[Exclusion, ...] = (
    _excludes(
        stated("confidence_level"),
        stated("remove"),
        because="removing publishes nothing",
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
        for condition in _NEED_TIMES
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
            because="noise must hide all groups in which a user counts",
        )
        for condition in (stated("distinct_users"), _IS_REACH, _IS_DISTINCT)
    ),
    _needs(
        both(stated("max_corrections"), stated("user")),
        stated("allowed_lateness"),
        because="corrections of users' rows are proven for revised windows only",
    ),
    *NEEDS_OF_RETENTION,
    _needs(
        _OF_LAST_WINDOWS,
        *(equals("series", series) for series in WITH_LAST),
        because="series says what else is published",
    ),
    *_NEEDS_OF_SERIES,
    _needs(
        equals("series", "period-to-date"),
        stated("contribution_period"),
        because="its totals begin again with each period of a user",
    ),
)

#: Needs of options of the command that plans a stream without a job.
NEEDS_OF_PLANS: tuple[Need, ...] = (
    *(
        _needs(stated(name), stated("max_contributions"), because="it bounds the rows of one user")
        for name in ("contribution_period", "max_contributions_per_window")
    ),
    _needs(stated("width"), stated("chart"), because="it is about the form of a chart"),
    *_NEEDS_OF_SERIES,
)


#: Needs of the options of a budget, which the command for the ledger sets.
NEEDS_OF_BUDGET: tuple[Need, ...] = tuple(
    _needs(
        stated(name),
        stated("epsilon"),
        stated("rho"),
        because="it describes a budget",
    )
    for name in ("age", "approximate_delta", "relation", "unit")
)

#: Needs of the options of a loss that the same command adds for another program.
NEEDS_OF_ADDED_LOSS: tuple[Need, ...] = (
    *(
        _needs(stated(name), stated("add"), because="it describes a loss to add to the ledger")
        for name in ("epsilon", "delta", "rho", "unit")
    ),
    _needs(
        stated("add"),
        stated("epsilon"),
        stated("rho"),
        because="an entry of the ledger has a privacy loss",
    ),
    _needs(stated("add"), stated("unit"), because="an entry of the ledger has a protected unit"),
)

#: Needs of the options of an export, of which ``output`` is stated if it may hold a chart.
NEEDS_OF_EXPORT: tuple[Need, ...] = tuple(
    _needs(
        stated(name),
        stated("output"),
        because="it is about a chart, in a file .png, .svg, .pdf or .html",
    )
    for name in ("title", "axis", "source", "width")
)


def refuse_excluded(job: Job) -> None:
    """Refuse options that exclude each other, and values that contradict each other.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.

    Raises:
        IncompatibleOptionsError: two such options are stated.

    >>> from counton.job.statistics.count import CountJob
    >>> refuse_excluded(CountJob(events="visits.csv", expected_windows=50, windows=9))
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: expected_windows=50 cannot be used
    with windows=9, because a stream ...
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


def refuse_groups(job: Job, groups: object) -> None:
    """Refuse groups that other options do not allow, once they were read from a file or a text.

    Args:
        job: a job that states groups.
        groups: the groups: names or, of a table of counts, the values of each column.

    Raises:
        IncompatibleOptionsError: another option does not allow these groups.

    >>> from counton.job.statistics.count import CountJob
    >>> refuse_groups(CountJob(group_by="page", groups="pages.csv", other_group="home"), ["home"])
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: other_group is 'home', which ...
    """
    _refuse_first(contradictions_of_groups(job, groups))


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


def refuse_of_service(job: Job, *, is_new: bool = False) -> None:
    """Refuse a job whose options a service does not have, since it decides them itself.

    Args:
        job: a job.
        is_new: whether the job begins a stream, so that it states all options.

    Raises:
        IncompatibleOptionsError: there is such an option.

    >>> from counton.job.statistics.count import CountJob
    >>> refuse_of_service(CountJob(chart="visits.png"))
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: chart=visits.png cannot be used ...
    """
    _refuse_first(contradictions_of_service(job, is_new=is_new))


def refuse_of_streaming(job: Job) -> None:
    """Refuse options of a job that the rows of a streaming frame decide.

    Args:
        job: a job.

    Raises:
        IncompatibleOptionsError: there is such an option.
    """
    _refuse_first(contradictions_of_streaming(job))


def refuse_of_plan(values: Mapping[str, object]) -> None:
    """Refuse options of the command that plans a stream without a job.

    Args:
        values: values of the options of the command by name.

    Raises:
        IncompatibleOptionsError: two options exclude each other, or one needs another.

    >>> refuse_of_plan({"windows": 365, "series": "rolling"})
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: series=rolling needs last, because the ...
    """
    refuse_of_command(values, exclusions=EXCLUSIONS_OF_PLANS, needs=NEEDS_OF_PLANS)


def refuse_of_command(
    values: Mapping[str, object],
    *,
    exclusions: Sequence[Exclusion] = (),
    needs: Sequence[Need] = (),
) -> None:
    """Refuse options of a command that has no job.

    Args:
        values: values of the options of the command by name.
        exclusions: the rows of this table about options of the command that exclude each other.
        needs: its rows about options of the command that need another one.

    Raises:
        IncompatibleOptionsError: two options exclude each other, or one needs another.

    >>> refuse_of_command({"user": "ann", "age": "90d"}, exclusions=EXCLUSIONS_OF_ERASURE)
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: user=ann cannot be used with age=90d, ...
    """
    options = CommandOptions(values)
    _refuse_pairs(options, exclusions)
    refuse_unmet_needs(options, needs)


def refuse_beside_job_file(values: Mapping[str, object], allowed: Collection[str]) -> None:
    """Refuse options of a command that reads a job file, if its jobs state them.

    Args:
        values: values of the options of the command by name; the job file is ``job_file``.
        allowed: names of the options that no job states.

    Raises:
        IncompatibleOptionsError: there is such an option.

    >>> refuse_beside_job_file({"job_file": "nightly.toml", "epsilon": 1}, allowed=())
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: epsilon=1 cannot be used with ...
    """
    exclusions = [
        _excludes(
            stated(name),
            stated("job_file"),
            because="the jobs of a file state their options themselves",
        )
        for name in values
        if name != "job_file" and name not in allowed
    ]
    _refuse_pairs(CommandOptions(values), exclusions)


def _refuse_pairs(options: Job | CommandOptions, exclusions: Sequence[Exclusion]) -> None:
    """Refuse the first two options that exclude each other."""
    for rule, other in _excluded_pairs(options, exclusions):
        remedy = "Leave one of them out"
        if other.option == "statistic":
            remedy = f"Leave {param(rule.condition.option)} out"
        raise IncompatibleOptionsError(
            f"{rule.condition.show(options)} cannot be used with {other.show(options)}, "
            f"because {rule.reason}. {remedy}"
        )


def _excluded_pairs(
    options: Job | CommandOptions, exclusions: Sequence[Exclusion]
) -> Iterator[tuple[Exclusion, Condition]]:
    """Yield the rules whose condition holds, with each other condition that holds, too."""
    for rule in exclusions:
        if rule.condition.holds(options):
            others = [other for other in rule.others if other.holds(options)]
            yield from ((rule, other) for other in others)


def _refuse_first(messages: Iterator[str]) -> None:
    """Raise the first of several messages, if there is one."""
    message = next(messages, None)
    if message is not None:
        raise IncompatibleOptionsError(message)


def refuse_unmet_needs(options: Job | CommandOptions, needs: Sequence[Need] = NEEDS) -> None:
    """Refuse an option that needs another one, which is not stated.

    Args:
        options: a job of a new stream, a later job that was completed from its stream, or the
            options of a command.
        needs: the needs that are checked.

    Raises:
        IncompatibleOptionsError: there is such an option.

    >>> from counton.job.statistics.count import CountJob
    >>> refuse_unmet_needs(CountJob(events="visits.csv", time="at", expiration_growth=2))
    Traceback (most recent call last):
    counton.job.incompatible.IncompatibleOptionsError: expiration_growth=2 needs expiring, because
    it ...
    """
    for rule in _unmet_needs(options, needs):
        needed = [
            param(other.option, other.values[0] if other.values else None)
            for other in rule.others
            if _may_state(options, other.option)
        ]
        raise IncompatibleOptionsError(
            f"{rule.condition.show(options)} needs {' or '.join(needed)}, because {rule.reason}. "
            f"Give it, or leave {param(rule.condition.option)} out"
        )


def needed_of_columns(job: Job) -> list[str]:
    """Return the options that the stated columns of groups and of users need, and the job lacks.

    >>> from counton.job.statistics.count import CountJob
    >>> needed_of_columns(CountJob(events="visits.csv", group_by="page", user="reader"))
    ['groups', 'max_contributions']
    """
    columns = ("group_by", "user")
    return [
        rule.others[0].option
        for rule in _unmet_needs(job, NEEDS)
        if rule.condition.option in columns
    ]


def _may_state(options: Job | CommandOptions, name: str) -> bool:
    """Return whether a message may advise to state an option."""
    if isinstance(options, CommandOptions):
        return True
    return name != "statistic" and name in type(options).model_fields


def _unmet_needs(options: Job | CommandOptions, needs: Sequence[Need]) -> Iterator[Need]:
    for rule in needs:
        is_met = any(other.holds(options) for other in rule.others)
        if rule.condition.holds(options) and not is_met:
            yield rule
