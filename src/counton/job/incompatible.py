"""The one table of options that exclude or need each other, each row with its reason.

What a statistic cannot do at all is no option of its model, and is not here. Combinations that only
a planned stream shows to be impossible are refused where it is planned (`counton.run.planning`,
`counton.results.metadata`), and those of a query where it is asked (`counton.run.row_source`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from counton.base.errors import InvalidInputError, field
from counton.job.common_options import Job, is_stated
from counton.job.messages import show_option


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


_DISCOVERS = equals("unknown", "discover")
_IS_DISTINCT = equals("statistic", "distinct")
_IS_REACH = equals("statistic", "reach")
_IS_REPORT = equals("statistic", "report")
_IS_TABLE = equals("statistic", "hierarchy", "contingency", "ranges")
_NOT_TOTALS = equals("release", "windows", "both", "periods")
_CHOSEN_STRATEGY = differs("strategy", "auto")
#: Statistics of a report that count users.
_OF_USERS = ("distinct", "reach")
#: Options about windows, which a table without times does not have.
_OF_WINDOWS = (
    *map(stated, ("until", "timezone", "watermark", "append", "covers", "per", "over")),
    *map(stated, ("every", "start", "revise", "recounts", "around", "expire")),
    *map(stated, ("metric", "simple", "most_a_window")),
    _CHOSEN_STRATEGY,
    _NOT_TOTALS,
)

EXCLUSIONS: tuple[Exclusion, ...] = (
    # Windows
    _excludes(
        stated("around"),
        stated("steps"),
        because="a stream without an end has no last window",
    ),
    _excludes(
        stated("around"), stated("revise"), because="each revised window has noise of its own"
    ),
    _excludes(
        stated("around"),
        equals("release", "windows", "periods"),
        because="a stream without an end releases totals",
    ),
    _excludes(
        stated("around"),
        stated("metric"),
        because="a stream without an end has no mean error over all windows",
    ),
    _excludes(
        stated("around"),
        stated("recounts"),
        because="changes are proven for a known number of windows",
    ),
    _excludes(
        stated("expire"),
        stated("around"),
        because="an expiring stream has no last window anyway",
    ),
    _excludes(
        stated("expire"),
        stated("revise"),
        stated("recounts"),
        because="its loss by age is proven for rows that count once",
    ),
    _excludes(
        stated("expire"),
        _CHOSEN_STRATEGY,
        stated("metric"),
        stated("simple"),
        because="it has a strategy of its own",
    ),
    _excludes(
        stated("expire"), stated("delta"), because="its loss by age is epsilon alone, or rho alone"
    ),
    _excludes(stated("expire"), _IS_REPORT, because="a report shares a budget that does not fade"),
    _excludes(
        stated("delay"), _NOT_TOTALS, because="a delayed release counts up to an earlier window"
    ),
    _excludes(stated("delay"), _IS_REACH, because="its releases begin anew with each period"),
    _excludes(
        stated("revise"),
        equals("release", "totals", "both", "periods"),
        because="each window is published alone, version by version",
    ),
    _excludes(
        stated("revise"),
        stated("first"),
        _IS_DISTINCT,
        because="a user counts once, in the window of the first row",
    ),
    # Privacy loss
    _excludes(
        stated("within"),
        stated("epsilon"),
        stated("rho"),
        because="it finds the privacy loss for you",
    ),
    _excludes(stated("within"), stated("target"), because="both state the wanted accuracy"),
    _excludes(
        stated("within"),
        stated("expire"),
        because="the error of an expiring stream grows without end",
    ),
    _excludes(
        stated("rho"), stated("epsilon"), stated("delta"), because="both state the privacy loss"
    ),
    # Groups
    _excludes(_DISCOVERS, stated("rho"), because="finding groups costs epsilon and delta"),
    _excludes(
        _DISCOVERS,
        stated("domain"),
        stated("other"),
        because="its groups have no names beforehand",
    ),
    _excludes(
        _DISCOVERS,
        stated("around"),
        stated("expire"),
        because="each window that may show a group costs a part of delta",
    ),
    _excludes(
        _DISCOVERS,
        stated("recounts"),
        stated("covers"),
        because="this is proven for declared groups only",
    ),
    _excludes(_DISCOVERS, stated("counts"), because="a group is found by its number of rows"),
    _excludes(
        _DISCOVERS,
        stated("over"),
        equals("release", "both", "periods"),
        because="a group is shown from some window on",
    ),
    _excludes(
        _DISCOVERS,
        differs("strategy", "auto", "binary", "kary", "smooth"),
        because="discovery is proven for binary, kary and smooth only",
    ),
    _excludes(
        both(_DISCOVERS, equals("statistic", "top-k")),
        equals("release", "windows"),
        stated("revise"),
        because="a ranking of undeclared groups is of totals",
    ),
    # Users, and tables of counts
    _excludes(
        stated("counts"),
        stated("user"),
        stated("id"),
        because="a row of counts may stand for many users",
    ),
    _excludes(
        stated("first"),
        stated("per"),
        stated("distinct"),
        stated("most_a_window"),
        stated("row"),
        because="a user counts only once, for ever",
    ),
    _excludes(stated("distinct"), stated("row"), because="it counts users, not rows"),
    _excludes(
        stated("recounts"),
        stated("first"),
        stated("most_a_window"),
        stated("distinct"),
        _IS_DISTINCT,
        because="changes are proven for most and per only",
    ),
    # Inputs
    _excludes(
        stated("append"),
        stated("covers"),
        stated("recounts"),
        because="new rows are known only as they come",
    ),
    _excludes(
        stated("id"),
        stated("covers"),
        stated("recounts"),
        because="rows with an id are known one by one",
    ),
    _excludes(
        stated("covers"),
        equals("until", "newest"),
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

NEEDS: tuple[Need, ...] = (
    *(
        _needs(condition, stated("time"), because="a table without times is released once")
        for condition in _OF_WINDOWS
    ),
    _needs(stated("growth"), stated("expire"), because="it says how protection fades with age"),
    _needs(
        stated("delay"), stated("expire"), because="only protection that fades gains by a delay"
    ),
    _needs(
        stated("delta"),
        stated("epsilon"),
        stated("within"),
        because="it is half of an (epsilon, delta) guarantee",
    ),
    _needs(stated("least"), stated("within"), because="it says which loss within finds"),
    _needs(
        stated("size"),
        stated("within"),
        _IS_REPORT,
        because="it is the whole of which within is a share",
    ),
    _needs(stated("domain"), stated("by"), _IS_TABLE, because="it lists the groups of that column"),
    _needs(
        stated("by"),
        stated("domain"),
        _DISCOVERS,
        because="groups found in the rows would reveal whose rows are there",
    ),
    _needs(stated("other"), stated("domain"), because="it holds the rows of all other groups"),
    _needs(_DISCOVERS, stated("by"), because="it finds the groups of a column"),
    _needs(_DISCOVERS, stated("delta"), because="finding groups costs epsilon and delta"),
    _needs(
        both(_DISCOVERS, stated("revise")),
        stated("steps"),
        because="each version of a window may show a group",
    ),
    _needs(
        both(_DISCOVERS, stated("revise")),
        stated("append"),
        stated("id"),
        because="it is proven for inputs of new rows only",
    ),
    _needs(stated("room"), _DISCOVERS, because="it bounds how many groups may be found"),
    _needs(
        stated("moves"), stated("counts"), because="it bounds a user's share of a table of counts"
    ),
    *(
        _needs(stated(name), stated("user"), because="it bounds the rows of one user")
        for name in ("most", "per", "most_a_window")
    ),
    *(
        _needs(stated(name), stated("user"), because="it counts users")
        for name in ("distinct", "first")
    ),
    _needs(stated("row"), stated("user"), stated("moves"), because="it names one row of a user"),
    _needs(
        stated("user"),
        stated("most"),
        stated("first"),
        _IS_REACH,
        _IS_DISTINCT,
        because="noise must hide all rows of a user that count",
    ),
    *(
        _needs(
            both(stated("by"), condition),
            stated("most"),
            because="it bounds the groups of a user",
        )
        for condition in (stated("first"), _IS_REACH, _IS_DISTINCT)
    ),
    _needs(
        both(stated("recounts"), stated("user")),
        stated("revise"),
        because="changes of users' rows are proven for revised windows",
    ),
    _needs(stated("retain"), stated("per"), because="users are forgotten period by period"),
    _needs(
        equals("release", "periods"),
        stated("per"),
        because="its totals begin anew with each period of a user",
    ),
)


def refuse_excluded(job: Job) -> None:
    """Refuse options that exclude each other.

    Args:
        job: a job of a new stream, or a later job that was completed from its stream.

    Raises:
        InvalidInputError: two such options are stated.

    >>> from counton.job.statistics import CountJob
    >>> refuse_excluded(CountJob(events="visits.csv", around=50, steps=9))
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: around=50 does not go with steps=9: a stream without ...
    """
    for rule in EXCLUSIONS:
        if not rule.condition.holds(job):
            continue
        for other in rule.others:
            if other.holds(job):
                raise InvalidInputError(
                    f"{rule.condition.show(job)} does not go with {other.show(job)}: "
                    f"{rule.reason}; leave one of them out"
                )
    for message in _contradictions(job):
        raise InvalidInputError(message)


def refuse_unmet_needs(job: Job) -> None:
    """Refuse an option that needs another one, which a job does not state.

    Raises:
        InvalidInputError: there is such an option.

    >>> from counton.job.statistics import CountJob
    >>> refuse_unmet_needs(CountJob(events="visits.csv", time="at", growth=2))
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: growth=2 needs expire: it says how protection fades ...
    """
    for rule in _unmet_needs(job):
        needed = [
            field(other.option, other.values[0] if other.values else None)
            for other in rule.others
            if other.option != "statistic" and other.option in type(job).model_fields
        ]
        raise InvalidInputError(
            f"{rule.condition.show(job)} needs {' or '.join(needed)}: {rule.reason}; give it, or "
            f"leave {field(rule.condition.option)} out"
        )


def needed_of_columns(job: Job) -> list[str]:
    """Return the options that the stated columns of groups and of users need, and the job lacks.

    >>> from counton.job.statistics import CountJob
    >>> needed_of_columns(CountJob(events="visits.csv", by="page", user="reader"))
    ['domain', 'most']
    """
    columns = ("by", "user")
    return [rule.others[0].option for rule in _unmet_needs(job) if rule.condition.option in columns]


def _unmet_needs(job: Job) -> Iterator[Need]:
    for rule in NEEDS:
        is_met = any(other.holds(job) for other in rule.others)
        if rule.condition.holds(job) and not is_met:
            yield rule


def _contradictions(job: Job) -> Iterator[str]:
    """Yield what is wrong with values that are compared with each other."""
    yield from _contradictions_of_users(job)
    most = job.value_of("most")
    most_a_window = job.value_of("most_a_window")
    lower = job.value_of("lower")
    upper = job.value_of("upper")
    if most is not None and most_a_window is not None and most_a_window > most:
        yield f"{field('most_a_window', most_a_window)} is above {field('most', most)}; give less"
    if lower is not None and upper is not None and lower >= upper:
        yield (
            f"{show_option('lower', lower)} is not below {show_option('upper', upper)}; "
            "swap or widen them"
        )
    if job.statistic == "reach" and job.revise is not None and job.value_of("per") != job.every:
        yield (f"{field('revise', job.revise)} revises windows; give {field('per', job.every)}")
    counts_user_once = job.states("first") or job.statistic in ("distinct", "reach")
    if counts_user_once and most is not None and most > 1 and not job.states("by"):
        yield (
            f"{field('most', most)} bounds the groups of a user, and there are none; leave it out"
        )


def _contradictions_of_users(job: Job) -> Iterator[str]:
    """Yield what is wrong with the column of users."""
    user = job.value_of("user")
    if user is not None and user == job.time:
        yield (
            f"{field('user', user)} and {field('time', user)} name the same column, and a time "
            "names nobody. Give the column of users"
        )
    if user is not None and user == job.id:
        yield (
            f"{field('user', user)} and {field('id', user)} name the same column, so only one row "
            f"of each user would count. Give another column as {field('id')}, or leave it out. "
            f"To count each user once, give {field('first', True)}"
        )
    members = job.value_of("statistics") or {}
    counts_users = [
        name for name, member in members.items() if member.value_of("statistic") in _OF_USERS
    ]
    if counts_users and user is None:
        yield (
            f"{counts_users[0]!r} of {field('statistics')} counts users, and no column names them. "
            f"Give {field('user')}, and {field('most')}, how many rows of one user count"
        )
