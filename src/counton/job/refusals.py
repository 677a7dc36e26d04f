"""Options of a job that exclude each other: tables of them with reasons, and checks by the tables.

Each option itself names the option that it needs (`counton.base.options.Option.needs`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from counton.base.errors import InvalidInput, field
from counton.job.job import NEWEST, Job, OptionRecord, options_of

#: Words for options that other options need.
_NEEDED = {
    "domain": ", the list of groups",
    "user": ", the column that says whose an event is",
    "within": ", how far off a number may be",
    "of": ", a statistic",
}

#: Options that an option or a kind of stream (the key) excludes, each with the reason.
EXCLUDED: Mapping[str, Mapping[str, str]] = {
    "within": {
        "epsilon": ", which finds the privacy loss for you",
        "rho": f", which finds rho for you if you give {field('least', 'rho')}",
        "expire": ", whose privacy loss is stated by age",
        "target": ", which itself states how accurate a table is",
    },
    "expire": {"strategy metric simple": ", which has a strategy of its own"},
    "around": {"steps expire release metric": ": a stream without an end releases totals"},
    "revise": {
        "release": ", which publishes each window by itself, version by version",
        "expire around": ", whose noise is made for single windows",
    },
    "first": {"per most_a_window distinct row": ": a user counts only once, ever"},
    "distinct": {"row": ", which counts users, not rows"},
    "found groups": {
        "domain expire rho": ": its groups have no names, and its guarantee is epsilon and delta",
        "release": ", since each group is shown from some window on; publish totals, or windows "
        "alone",
        "around": ", which needs a number of steps, because each release may show a group",
        "counts": ": a table of counts names its groups, so they are public",
    },
    "released once": {
        "per": ", whose rows have no times, so no periods",
        "most_a_window watermark over": ", which has no windows",
        "release": ", which releases totals only",
        "expire around": ", which is planned for one step",
        "strategy": (
            ", because there is only one step, and so no noise to arrange over steps "
            f"({field('line')} says how cells are measured)"
        ),
        "metric": ", which has only one step, so mean and largest error are equal",
        "simple": ", which releases integers",
        "append": ", which counts all its rows at once",
    },
    "counts": {
        "user": (
            ": user bounds the rows of one user, but a row with a count may stand for many users"
        ),
        "id": ": id finds repeated rows, but less than a row is protected here",
    },
    "half-widths of parts": {
        "simple strategy metric release around": (
            " of a statistic of a report, because the half-width holds for the strategy that the "
            "plan chooses"
        ),
    },
    "rows of users": {
        "first most_a_window distinct row": ", which has its own bound for rows of a user",
    },
}


def refuse(
    stated: OptionRecord,
    reasons: Mapping[str, str],
    beside: str,
    remedy: str = "leave one of them out",
    *,
    but: Collection[str] = (),
) -> None:
    """Raise an error if an option is stated that another option excludes.

    Args:
        stated: the job, or the options of a command.
        reasons: names of excluded options (one, or several with spaces between them), each with the
            reason.
        beside: words for the option that excludes them, for the message.
        remedy: end of the message.
        but: names of excluded options that are allowed all the same.

    >>> job = Job("count", "visits.csv", "visits.db", user="who", first=True, per="1d")
    >>> refuse(job, EXCLUDED["first"], field("first", True))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: per=1d does not go with first=True: a user ... once, ever; ...
    """
    for names, why in reasons.items():
        for name in names.split():
            if name not in but and stated.states(name):
                raise InvalidInput(
                    f"{field(name, stated.option(name))} does not go with {beside}{why}; {remedy}"
                )


def refuse_of_service(job: Job) -> None:
    """Refuse a job whose options a service does not support.

    >>> refuse_of_service(Job("count", "-", "visits.db", plot="visits.png"))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: plot=visits.png is for runs over files; a service ...
    """
    for name, item in options_of(Job).items():
        if not item.served and job.option(name) not in (None, False, item.default):
            raise InvalidInput(
                f"{field(name, job.option(name))} is for runs over files; a service decides this "
                "itself: leave it out"
            )
    if job.times.until is not None:
        why = (
            "the newest event belongs to a person" if job.times.until == NEWEST else "time goes on"
        )
        raise InvalidInput(
            f"{field('until', job.times.until)} cannot be used in a service, which releases by its "
            f"clock, because {why}; leave it out"
        )


def refuse_others(stated: OptionRecord, taken: Collection[str], beside: str, why: str) -> None:
    """Raise an error if any option is stated that is not among ``taken``.

    Args:
        taken: names of the allowed options.
        beside: the option that excludes all others, for the message.
        why: reason, for the message.
    """
    reasons = dict.fromkeys(options_of(type(stated)), why)
    refuse(stated, reasons, beside, "leave it out", but=taken)


def refuse_without(stated: OptionRecord, *needed: str, but: Collection[str] = ()) -> None:
    """Raise an error if an option is stated without another option that it needs.

    Args:
        needed: names of the needed options that are checked.
        but: names of options that may be stated all the same.

    >>> refuse_without(Job("count", "visits.csv", "visits.db", growth=2), "expire")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: growth=2 needs expire; give it, or leave growth out
    """
    for name, item in options_of(type(stated)).items():
        needs = item.needs in needed and not stated.has(item.needs)
        if needs and name not in but and stated.states(name):
            raise InvalidInput(
                f"{field(name, stated.option(name))} needs {field(item.needs)}"
                f"{_NEEDED.get(item.needs, '')}; give it, or leave {field(name)} out"
            )
