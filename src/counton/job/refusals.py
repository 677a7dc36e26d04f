"""What does not go together in a job, in tables: messages are worded from them.

What an option needs stands beside it (`counton.base.options.Option.needs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInput, field
from counton.job import stated_options as statements
from counton.job.job import NEWEST, Job, OptionRecord, options_of
from counton.statistics.statistic import protects
from counton.statistics.tally_statistic import is_tallied

if TYPE_CHECKING:
    from counton.base.options import OwnColumns
    from counton.statistics import Statistic

#: What an option is that others need.
_NEEDED = {
    "domain": ", the groups that are declared",
    "user": ", the column that says whose an event is",
    "within": ", how far off a number may be",
    "of": ", a statistic",
}

#: Beside a guarantee that is found from a half-width.
WITHIN = {
    "epsilon": ", which finds it",
    "rho": f", which finds it if you say {field('least', 'rho')}",
    "expire": ", which says by losses what is promised",
    "continues": ", which goes on from totals that have noise of their own",
    "target": ", which says itself how accurate a table is",
}

#: Beside a table that is released once.
ONCE = {
    "per": "has no times that would tell periods apart",
    "most_a_window": "has no windows",
    "release": "has totals alone",
    "continues": "begins with its own rows",
    **dict.fromkeys(("expire", "around", "growth", "delay"), "is planned for one step"),
    "strategy": "arranges no noise over steps ({line} says how cells are measured)",
    "metric": "has one step, whose error is the mean and the largest",
    "simple": "releases integers",
    "watermark": "has no windows",
    "append": "is of all its rows",
    "over": "has no windows",
}

#: Beside a new stream whose rows come in order.
IN_ORDER = {
    "user": "protects what it says itself, and reads no column of users",
    "id": "takes rows as they stand, also those that come twice",
    "release": "has totals alone",
    "continues": "knows its events from the first step on, and begins anew",
    **dict.fromkeys(
        ("most", "per", "most_a_window", "distinct", "first"),
        "bounds what a unit does by its own parameters",
    ),
    **dict.fromkeys(("other", "spare"), "has no groups"),
    "expire": "is planned for a number of steps",
    "revise": "takes no row for a window that is over",
}

#: The same of every run.
RUNS_IN_ORDER = {
    "append": "is compared with all events since the first step, so that order and late rows show",
    **dict.fromkeys(
        ("missing", "bad_rows"),
        "has as many steps as rows, which would tell how many are left out",
    ),
}

#: Beside rows of which each counts as often as it says.
COUNTS = {
    "user": ": it bounds the rows of a user, and rows with counts are of many",
    "id": ": it counts rows once, and what is protected is less than a row",
}

#: Beside groups that nobody declares.
DISCOVER = {
    **dict.fromkeys(
        ("domain", "other", "spare", "also", "continues", "expire", "rho"),
        ": its groups have no names, and its guarantee is epsilon and delta",
    ),
    "release": ", since each group is shown from some window on; publish totals",
}

#: Beside a stream whose protection fades with age.
EXPIRE = dict.fromkeys(("strategy", "metric", "simple"), ", which has a strategy of its own")

#: Beside a stream without a last step.
AROUND = dict.fromkeys(
    ("steps", "expire", "release", "metric"), ": such a stream has no end and releases totals"
)

#: Beside windows that are revised.
REVISE = {
    "release": ", which publishes each window by itself, version by version",
    **dict.fromkeys(("expire", "around", "delay"), ", whose noise is that of one window"),
    "continues": ", which has no totals that could go on",
    "first": ", where each window is counted by itself",
}

#: Beside half-widths of statistics of a report.
WITHIN_OF_PARTS = dict.fromkeys(
    ("simple", "strategy", "metric", "release", "around"),
    " of a statistic of a report, which is kept with the strategy that is chosen by itself",
)

#: Beside users who count once for ever.
FIRST = dict.fromkeys(("per", "most_a_window", "distinct"), ": a user counts once for ever")

#: Beside a statistic that takes some rows of a user alone.
ROWS_OF_USERS = dict.fromkeys(
    ("first", "most_a_window", "distinct"), ", which says itself which rows of a user count"
)


def refuse(
    stated: OptionRecord,
    reasons: Mapping[str, str],
    beside: str,
    remedy: str = "leave one of them out",
    *,
    but: Collection[str] = (),
) -> None:
    """Refuse what a job, or a command, states that does not go with something else.

    >>> job = Job("count", "visits.csv", "visits.db", user="who", first=True, per="1d")
    >>> refuse(job, FIRST, field("first", True))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: per=1d does not go with first=True: a user ... for ever; ...
    """
    for name, why in reasons.items():
        if name not in but and stated.states(name):
            raise InvalidInput(
                f"{field(name, stated.option(name))} does not go with {beside}{why}; {remedy}"
            )


def refuse_of_service(job: Job) -> None:
    """Refuse what a job of a service may not state.

    >>> refuse_of_service(Job("count", "-", "visits.db", plot="visits.png"))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: plot=visits.png is for runs over files, and a service ...
    """
    for name, said in options_of(Job).items():
        if not said.served and job.option(name) not in (None, False, said.default):
            raise InvalidInput(
                f"{field(name, job.option(name))} is for runs over files, and a service decides it "
                f"by itself; leave it out"
            )
    if job.times.until is not None:
        why = "the newest event is somebody's" if job.times.until == NEWEST else "time goes on"
        raise InvalidInput(
            f"{field('until', job.times.until)}: a service releases by its clock, since {why}; "
            "leave it out"
        )


def refuse_others(stated: OptionRecord, taken: Collection[str], beside: str, why: str) -> None:
    """Refuse all options but some."""
    reasons = dict.fromkeys(options_of(type(stated)), why)
    refuse(stated, reasons, beside, "leave it out", but=taken)


def refuse_without(stated: OptionRecord, needed: str, *, but: Collection[str] = ()) -> None:
    """Refuse options that need another one, which is not stated.

    >>> refuse_without(Job("count", "visits.csv", "visits.db", growth=2), "expire")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: growth=2 needs expire; give it, or leave growth out
    """
    for name, said in options_of(type(stated)).items():
        if said.needs == needed and name not in but and stated.states(name):
            raise InvalidInput(
                f"{field(name, stated.option(name))} needs {field(needed)}"
                f"{_NEEDED.get(needed, '')}; give it, or leave {field(name)} out"
            )


def check_within(request: Job) -> None:
    """Refuse what does not go with a guarantee that is found from a half-width, and without one."""
    if request.promise.within is None:
        named = isinstance(request.what, str)
        reads = statements.kind_of(request.what).card.reads if named else ()
        refuse_without(request, "within", but=reads)
    else:
        refuse(request, WITHIN, field("within", request.promise.within))


def refuse_of_tables(request: Job, *, known: bool = False) -> None:
    """Refuse what does not go with a table that is released once."""
    reasons = {name: f", which {why.format(line=field('line'))}" for name, why in ONCE.items()}
    remedy = "leave it out" if known else f"leave it out, or give {field('time')}"
    table = f"a {statements.name_of(request.what)} that is released once"
    refuse(request, reasons, table, remedy)


def refuse_of_ordered(
    request: Job, statistic: Statistic, parts: OwnColumns | None = None, *, each_row: bool
) -> None:
    """Refuse what does not go with rows that are taken in their order."""
    own: tuple[str, ...] = () if each_row else ("missing", "bad_rows")
    if request.noise.release == "periods":
        own = (*own, "release")  # which is looked at where it is settled
    if statistic.card.declares is not None and each_row:
        own = ("most", "first")
    if parts is not None and request.people.user in parts.names and protects(statistic) == "user":
        own = (*own, "user")
    how = "where each row is a step," if is_tallied(statistic) else "whose rows count in order,"
    told = {**(IN_ORDER if parts is not None else {}), **RUNS_IN_ORDER}
    reasons = {name: f", {how} which {why}" for name, why in told.items()}
    refuse(request, reasons, statements.name_of(request.what), "leave it out", but=own)
