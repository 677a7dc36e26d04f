"""The kinds of a job, of which it has one on each axis: how its rows make steps, how its privacy
loss is given, where its groups come from, what its inputs hold, and what it protects.

The options that a job states decide its kinds. An option belongs to some kinds
(`counton.frame.options.Option.of`), and a job of another kind cannot state it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from counton.base.errors import InvalidInput, field
from counton.job.job import NEWEST, Job, OptionRecord, options_of
from counton.job.stated_options import is_once, kind_of, name_of, options_of_job

if TYPE_CHECKING:
    from counton.statistics import Statistic


class Kind(NamedTuple):
    """One kind of job.

    Attributes:
        axis: the question that it answers.
        chosen: option that chooses it; "" if the statistic does, or if no option is needed.
        words: words for it in messages; "": the option that chooses it.
        why: reason for which it does not take options of other kinds.
        remedy: end of messages.
    """

    axis: str
    chosen: str = ""
    words: str = ""
    why: str = ""
    remedy: str = "leave one of them out"


#: All kinds by name. A job that chooses no kind of an axis has the first one of that axis.
KINDS: Mapping[str, Kind] = {
    "windows": Kind("steps"),
    "endless": Kind(
        "steps", "around", why=": a stream without an end has no last step, and releases totals"
    ),
    "expiring": Kind("steps", "expire", why=", which has a strategy and a privacy loss by age"),
    "revised": Kind("steps", "revise", why=", which publishes each window version by version"),
    "once": Kind(
        "steps",
        words="a {} that is released once",
        why=", whose rows have no times: all count in one step",
        remedy="leave it out",
    ),
    "stated": Kind("loss"),
    "wanted": Kind(
        "loss",
        "within",
        why=f", which finds the privacy loss for you (give {field('least', 'rho')} for rho)",
    ),
    "ungrouped": Kind("groups"),
    "declared": Kind("groups", "domain"),
    "found": Kind(
        "groups",
        "unknown",
        why=": its groups have no names, and its guarantee is epsilon and delta",
    ),
    "whole": Kind("input"),
    "new": Kind(
        "input",
        words="inputs of new rows",
        why=f" ({field('append', True)}, or {field('id')}), because it is for inputs that hold all "
        "rows of windows",
        remedy="leave it out",
    ),
    "events": Kind("unit"),
    "counts": Kind(
        "unit",
        words="a {} of counts",
        why=": a row may stand for many users",
        remedy="leave it out",
    ),
    "counts of people": Kind(
        "unit", "counts", why=": a row may stand for many users", remedy="leave it out"
    ),
    "users": Kind("unit", "user"),
    "users once a window": Kind("unit", "distinct", why=", which counts users, not rows"),
    "users once": Kind("unit", "first", why=": a user counts only once, ever"),
    "users by rows": Kind(
        "unit",
        words="{}",
        why=", which has its own bound for rows of a user",
        remedy="leave it out",
    ),
}

#: Words for options that other options need.
_NEEDED = {
    "domain": ", the list of groups",
    "counts": ", the column of a table of counts",
    "user": ", the column that says whose an event is",
    "within": ", how far off a number may be",
}


def kinds_of(job: Job, statistic: Statistic) -> dict[str, str]:
    """Return the kinds of a job of a new stream, by axis.

    >>> from counton.statistics import Count
    >>> job = Job("count", "visits.csv", "visits.db", by="page", domain="home", epsilon=1)
    >>> kinds_of(job, Count())
    {'steps': 'windows', 'loss': 'stated', 'groups': 'declared', 'input': 'whole', 'unit': 'events'}
    """
    steps = "windows" if job.times.around is None else "endless"
    if is_once(job):
        steps = "once"
    elif job.promise.expire:
        steps = "expiring"
    elif job.lateness.revise is not None:
        steps = "revised"
    people = job.people
    groups = "ungrouped" if job.groups.domain is None else "declared"
    unit = "events" if people.user is None else "users"
    if people.user is not None and (people.first or people.distinct):
        unit = "users once" if people.first else "users once a window"
    if getattr(statistic, "counts_units", False):
        of_people = people.moves is not None and statistic.additive
        unit = "counts of people" if of_people else "counts"
    elif getattr(statistic, "counted_ranks", ()):
        unit = "users by rows"
    return {
        "steps": steps,
        "loss": "stated" if job.promise.within is None else "wanted",
        "groups": "found" if job.groups.unknown == "discover" else groups,
        "input": "new" if job.rows.append or job.rows.id is not None else "whole",
        "unit": unit,
    }


def refuse_other_kinds(job: Job, kinds: Mapping[str, str]) -> None:
    """Refuse an option of a job that belongs to other kinds than those that the job has.

    Args:
        kinds: kinds of the job by axis; an axis without a kind is not checked.

    >>> job = Job("count", "visits.csv", "visits.db", user="who", first=True, per="1d")
    >>> refuse_other_kinds(job, {"unit": "users once"})
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: per=1d does not go with first=True: a user ... once, ever; ...
    >>> refuse_other_kinds(job.having(growth=2), {"steps": "windows"})
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: growth=2 needs expire; give it, or leave growth out
    """
    counted = kind_of(job.what)
    for name, option in options_of_job(job).items():
        if not option.of or not job.states(name):
            continue
        for axis, mine in kinds.items():
            of = [one for one in option.of if KINDS[one].axis == axis]
            if not of or mine in of or (name in counted.reads and not counted.finds):
                continue
            kind, needed = KINDS[mine], KINDS[of[0]].chosen
            stated = field(name, job.option(name))
            if kind.chosen or kind.words:
                beside = kind.words.format(name_of(job.what))
                beside = beside or field(kind.chosen, job.option(kind.chosen))
                raise InvalidInput(f"{stated} does not go with {beside}{kind.why}; {kind.remedy}")
            if name not in (needed, *counted.reads):
                raise InvalidInput(
                    f"{stated} needs {field(needed)}{_NEEDED.get(needed, '')}; give it, or leave "
                    f"{field(name)} out"
                )


def refuse_stated(stated: OptionRecord, names: Iterable[str], beside: str, why: str) -> None:
    """Refuse options, by name, that a job or a command states beside something else."""
    for name in names:
        if stated.states(name):
            value = field(name, stated.option(name))
            raise InvalidInput(f"{value} does not go with {beside}{why}; leave it out")


def refuse_of_service(job: Job) -> None:
    """Refuse a job whose options a service does not support.

    >>> refuse_of_service(Job("count", "-", "visits.db", plot="visits.png"))
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: plot=visits.png is for runs over files; a service ...
    """
    for name, item in options_of(Job).items():
        if not item.served and job.option(name) not in (None, False, item.default, item.usual):
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
