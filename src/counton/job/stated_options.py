"""The options that a job states, and the kinds of job that they decide.

A job that names a statistic states its options by name; a job in Python may pass a `Statistic`
instead, and name its columns. Each statistic lists its options in its own file
(`counton.statistics`).

A job has one kind on each axis: how its rows make steps, how its privacy loss is given, where its
groups come from, what its inputs hold, and what it protects. An option belongs to some kinds
(`counton.frame.options.Option.of`), and a job of another kind cannot state it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counton.base.errors import InvalidInput, field
from counton.frame.options import Kept, Option, OwnColumns, check_value, split_names
from counton.job.job import NEWEST, Job, JobStatement, OptionRecord, options_of
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import keywords, statistic_named

if TYPE_CHECKING:
    from counton.statistics import Statistic


def stated_options(job: Job, columns: OwnColumns | None = None) -> dict[str, Any]:
    """Return the values, as JSON values, of the options of its statistic that a job states.

    The stream's state stores them, so that later runs may omit them. If the statistic is an object,
    they are its parameters, and ``columns`` those that it reads.

    >>> stated_options(Job("average", "visits.csv", "visits.db", value="paid", lower=0, upper="9"))
    {'value': 'paid', 'lower': '0', 'upper': '9'}
    """
    known = kind_of(job.what).options
    if not isinstance(job.what, str):
        own = {one.name: job.what.parameters.get(one.name) for one in known}
        own = {name: one for name, one in own.items() if isinstance(one, str | int | float)}
        return {**own, "value": columns.names[0] if columns and columns.names else None}
    return {
        option.name: kept_value(option, job.options[option.name])
        for option in known
        if job.options.get(option.name) is not None and job.options[option.name] is not False
    }


def kept_value(option: Option, value: Any) -> Any:
    """Convert the value of an option to the JSON value that a stream's state stores; paths become
    absolute.

    >>> kept_value(options_of(Job)["shares"], [0.5, 0.9])
    ['0.5', '0.9']
    """
    if option.nested:
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={one}" for key, one in value.items())
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    if option.file and isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        split = option.split_file(text, Path())
        return text if split is None else split[0] + os.path.abspath(split[1])
    return value if option.kind in ("whole", "flag", "number") else str(value)


def kind_of(what: str | Statistic) -> type[Statistic]:
    """Return the class of a statistic, given by its name or as an object.

    >>> kind_of("count").additive
    True
    """
    return statistic_named(what) if isinstance(what, str) else type(what)


def name_of(what: str | Statistic) -> str:
    """Return the name of a statistic, given by its name or as an object.

    >>> from counton.statistics import TopK
    >>> name_of(TopK(["home", "shop"]))
    'top-k'
    """
    kind = kind_of(what)
    return kind.keyword or kind.__name__


def is_once(job: Job) -> bool:
    """Return whether a job releases a table once, because its rows have no times and it states no
    number of steps.

    This holds for a job with a new stream.

    >>> is_once(Job("ranges", "visits.csv", "visits.db")), is_once(Job("count", "-", "visits.db"))
    (True, False)
    """
    return kind_of(job.what).is_table and job.times.time is None and job.times.steps is None


def declares_nodes(job: Job) -> bool:
    """Return whether the option ``domain`` of a job declares nodes or cells of the statistic, and
    not groups.

    >>> declares_nodes(Job("hierarchy", "visits.csv", "visits.db", levels="region,city"))
    True
    """
    reads = statistic_named(job.what).reads if isinstance(job.what, str) else ()
    return "domain" in reads and "by" not in reads


def label_columns(job: Job) -> tuple[str, ...]:
    """Return the columns of labels that a job names in the options of its statistic.

    >>> label_columns(Job("hierarchy", "visits.csv", "visits.db", levels="region,city"))
    ('region', 'city')
    """
    named = [job.option(one.name) for one in own_options(job.what) if one.column == "label"]
    return tuple(column for given in named if given is not None for column in split_names(given))


def named_columns(job: Job, present: Sequence[str]) -> list[str]:
    """Return all columns of the rows that a job names. A column that is present may have a comma in
    its name, which separates columns otherwise.

    >>> asked = Job("sum", "visits.csv", "visits.db", time="at", by="a,b", value="paid")
    >>> named_columns(asked, ["at"]), named_columns(asked, ["a,b"])
    (['at', 'a', 'b', 'paid'], ['at', 'a,b', 'paid'])
    """
    own = [one.name for one in own_options(job.what) if one.column]
    given = [job.option(name) for name in ("time", "by", "user", "id", *own)]
    if (members := job.option("statistics")) is not None:
        from counton.statistics.report_members import columns_of_members

        given += columns_of_members(members)
    found = list[str]()
    for one in given:
        if one:
            found += [one] if one in present else split_names(one)
    return [name for name in found if name]  # an empty name is refused by who reads the option


def settle_statistic(job: Job) -> tuple[Statistic, OwnColumns]:
    """Return a job's statistic, and the columns that it reads besides time, group and user."""
    check_own_options(job)
    if isinstance(job.what, str):
        found = statistic_named(job.what)
        stated = JobStatement(job)
        made = found.from_spec(stated)
        return made, made.own_columns or found.columns_of_spec(stated)
    from counton.statistics import Grouped, TallyStatistic

    statistic = job.what
    if isinstance(statistic, Grouped):
        raise InvalidInput(
            f"{statistic!r} keeps groups inside it, and a job reads groups from a column instead: "
            f"give {inner_of(statistic)!r}, with {field('by')} and {field('domain')}"
        )
    if statistic.own_columns is not None:
        return statistic, statistic.own_columns
    columns, value = job.options.get("columns"), job.options.get("value")
    named = () if columns is None else split_names(columns)
    if isinstance(statistic, TallyStatistic) and (job.times.time is not None or is_once(job)):
        parts = [part for part in statistic.parts if part.name != "by"]
        named = named or (() if value is None else (value,))
        if len(named) != len(parts):
            wanted = ", ".join(part.name for part in parts) or "none"
            raise InvalidInput(
                f"{field('columns')} are {', '.join(named) or 'none'}, but {statistic!r} reads "
                f"{len(parts)} columns besides time, group and user: {wanted}; name one column for "
                "each"
            )
        numbers = [name for name, part in zip(named, parts, strict=True) if part.kind != "label"]
        return statistic, OwnColumns(named, tuple(numbers))
    if value is not None and not named:
        return statistic, OwnColumns((value,), (value,))
    return statistic, OwnColumns(named)


def own_options(what: str | Statistic) -> tuple[Option, ...]:
    """Return the options of a statistic that a job may state.

    If the statistic is given as an object, they are only the options that name its columns.
    """
    if isinstance(what, str):
        return statistic_named(what).options
    from counton.frame.options import TABLE_COLUMNS, VALUE

    return (VALUE, TABLE_COLUMNS)


def options_of_job(job: Job) -> dict[str, Option]:
    """Return all options that a job may state, by name: the options of every job, and the options
    of its statistic.

    >>> options_of_job(Job("average", "visits.csv", "visits.db"))["lower"].help
    'smaller values count as this'
    """
    return {**options_of(Job), **{option.name: option for option in own_options(job.what)}}


def kept_as(kind: Kept, known: Mapping[str, Option]) -> list[Option]:
    """Return the options that the stream's state stores in the way ``kind``: as part of the
    "stream", as a "policy", as an "output" or as a "view".

    >>> [option.name for option in kept_as("policy", options_of(Job))][:3]
    ['quiet', 'watermark', 'unknown']
    """
    return [option for option in known.values() if option.kept == kind]


def all_options() -> dict[str, Option]:
    """Return the options of all statistics by name.

    If several statistics have an option with one name, the first statistic's option is returned.
    """
    found: dict[str, Option] = {}
    for name in keywords():
        for option in statistic_named(name).options:
            found.setdefault(option.name, option)
    return found


def words_of_files() -> dict[str, str]:
    """Map field names of jobs, and options of all statistics, to their names in job files.

    >>> words_of_files()["bad_rows"]
    'bad-rows'
    """
    words = {name: option.key for name, option in {**all_options(), **options_of(Job)}.items()}
    return {"what": "statistic", **words}


def other_name(name: str, known: Collection[str]) -> list[str]:
    """Return the option that has the meaning of one that other statistics have.

    >>> other_name("value", ["levels", "counts"]), other_name("value", ["value", "lower"])
    (['counts'], [])
    """
    return ["counts"] if name == "value" and "counts" in known else []


def check_own_options(job: Job) -> None:
    """Check the names and types of the options that a job states for its statistic."""
    known = {option.name: option for option in own_options(job.what)}
    for name, value in job.options.items():
        if name in known:
            check_value(known[name], value)
            continue
        having = [
            word
            for word in keywords()
            if any(option.name == name for option in statistic_named(word).options)
        ]
        what = f"is an option of {', '.join(having)}, and this statistic is {job.what}"
        if not having:
            what = "is not an option of jobs"
        near = "".join(f"did you mean {one!r}?" for one in other_name(name, known))
        raise InvalidInput(
            f"{field(name, value if isinstance(value, str | int) else None)} {what}; "
            f"{near or 'leave it out'}"
        )


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
