"""The options of a job's statistic, and the public files that they name.

A job that names a statistic states its options by name; a job in Python may pass a `Statistic`
instead, and name its columns. Each statistic lists its options in its own file
(`counton.statistics`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInput, field
from counton.frame.options import Kept, Option, OwnColumns, check_value, split_names
from counton.job.job import Job, JobStatement, options_of
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
    if option.file:
        start, quarantine, path = os.fspath(value).rpartition("quarantine:")
        return start + quarantine + os.path.abspath(path)
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
