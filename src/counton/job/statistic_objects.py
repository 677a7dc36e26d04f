"""Jobs of statistics that a program passes as objects, such as ``Average(0, 200, resolution=1)``.

A statistic whose parameters are options one for one becomes the job of its name, so that a command
can continue its stream. Any other one becomes a `CustomStatisticJob`, which keeps the object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from counton.base.arguments import split_names
from counton.base.errors import InvalidInputError, param
from counton.base.exact import quote
from counton.job.common_options import Job as Job
from counton.job.custom_statistic import is_of_package, package_model
from counton.job.messages import parse_options
from counton.job.model_registry import REGISTRY
from counton.job.statistics import model_of
from counton.statistics import (
    Average,
    Contingency,
    Count,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Reach,
    Statistic,
    Sum,
    TopK,
)
from counton.statistics.catalogue import statistic_named
from counton.tables import Tree

#: Options of a named job by name; None: its statistic has parameters that are no options.
NamedOptions = dict[str, object] | None
#: Function from a statistic's parameters, and the columns that it reads, to the options of a job.
_Converter = Callable[[dict[str, object], Sequence[str]], NamedOptions]


def make_job(
    what: object,
    events: object = None,
    state: object = None,
    **options: object,
) -> Job:
    """Return the job of a statistic, or of its name; an option that is None is not stated.

    Args:
        what: a statistic, its name, or a whole job, to which the options are added.
        events: where the rows are.
        state: where the state is.
        options: the other options by name.

    Raises:
        InvalidInputError: an option is wrong, or ``what`` is none of these.

    >>> make_job("count", "visits.csv", every="1d")
    CountJob(every='1d')
    """
    options |= {"events": events, "state": state}
    options = {name: value for name, value in options.items() if value is not None}
    match what:
        case Job():
            added = _parse(what.statistic, options)
            return what.with_options(**{name: added.value_of(name) for name in options})
        case Statistic():
            return job_of_statistic(what, options)
        case str():
            return _parse(what, options)
        case _:
            raise InvalidInputError(
                f"what is {quote(what)}; give a statistic such as Average(0, 200, resolution=1), "
                'or the name of a statistic such as "count"; the events are the second argument'
            )


def job_of_statistic(statistic: Statistic, options: Mapping[str, object]) -> Job:
    """Return the job of a statistic that is passed as an object.

    Args:
        statistic: the statistic.
        options: options of the job. ``columns`` or ``value`` name the columns that the statistic
            reads, in its order.

    Raises:
        InvalidInputError: an option is wrong.

    >>> job_of_statistic(Average(0, 9, resolution=1), {"value": "paid", "state": "s.db"})
    AverageJob(state='s.db', value='paid', lower=Fraction(0, 1), upper=Fraction(9, 1), ...)
    """
    rest = {name: value for name, value in options.items() if value is not None}
    columns = _take_columns(rest)
    converted = _options_of_named_job(statistic, columns)
    if converted is not None:
        name, named = converted
        _refuse_doubled(named, rest, statistic)
        return _parse(name, {**named, **rest})
    columns_option = {"columns": columns} if columns else {}
    return _parse("custom", {**rest, **columns_option, "definition": statistic})


def _parse(name: str, options: Mapping[str, object]) -> Job:
    job: Job = parse_options(model_of(name), options)
    return job


def _take_columns(options: dict[str, Any]) -> tuple[str, ...]:
    """Remove the options that name the columns of a statistic, and return these columns."""
    columns = options.pop("columns", None)
    value = options.pop("value", None)
    if columns is not None:
        return split_names(columns)
    return () if value is None else (value,)


def _refuse_doubled(
    named: Mapping[str, object], options: Mapping[str, object], statistic: Statistic
) -> None:
    """Refuse an option that says otherwise what the object says."""
    may_state = (*_DISPLAY, "groups") if isinstance(statistic, TopK) else _DISPLAY
    for name in options:
        if name in named and name not in may_state:
            raise InvalidInputError(
                f"{param(name)} is a parameter of {statistic!r}; state it there, and leave "
                "it out here"
            )


def _options_of_named_job(
    statistic: Statistic, columns: Sequence[str]
) -> tuple[str, dict[str, object]] | None:
    """Return the name of a statistic, and the options that state it; None: it has no such job."""
    parameters = dict(statistic.parameters)
    parameters.pop("unit", None)  # jobs name the protected unit of a stream
    named = _CONVERTERS.get(type(statistic))
    if named is not None:
        name, convert = named
        options = convert(parameters, columns)
        return None if options is None or parameters else (name, options)
    name = statistic.keyword
    if not is_of_package(name) or statistic_named(name) is not type(statistic):
        return None
    model = package_model(name)
    if not set(parameters) <= set(model.parameters):
        return None
    if "value" in model.model_fields and len(columns) == 1:
        return name, {**parameters, "value": columns[0]}
    return name, {**parameters, "columns": columns} if columns else parameters


# --------------------------------------------------------------------- one function for each class
# Each removes the parameters that it understands. A statistic that has others is kept as an object.
def _of_count(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    has_counts = parameters.pop("counts", False)
    if len(columns) != int(has_counts):
        return None
    return {"count_column": columns[0]} if has_counts else {}


def _of_clipped_values(parameters: dict[str, object], columns: Sequence[str]) -> NamedOptions:
    names = ("lower", "upper", "resolution")
    bounds = {name: parameters.pop(name) for name in names}
    return _with_value(bounds, columns)


def _of_quantiles(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    line = parameters.pop("line", None)
    if line is not None and not isinstance(line, str):
        return None
    edges = parameters.pop("edges")
    options = _options_of_edges(edges)
    if "shares" in parameters:
        options["shares"] = parameters.pop("shares")
    if line is not None:
        options["line"] = line
    return _with_value({**options, **_protection(parameters)}, columns)


def _options_of_edges(edges: Sequence[float]) -> dict[str, object]:
    """Return the options of cells of equal width, or else their edges."""
    number = len(edges) - 1
    if np.array_equal(Quantiles(lower=edges[0], upper=edges[-1], cells=number).edges, edges):
        return {"lower": edges[0], "upper": edges[-1], "cells": number}
    return {"edges": list(edges)}


def _of_moments(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    bounds = parameters.pop("columns")
    names = [name for name, _, _ in bounds]
    if list(columns or names) != names:
        return None
    return {
        "columns": names,
        "bounds": [f"{lower}:{upper}" for _, lower, upper in bounds],
        "grid": parameters.pop("grid"),
    }


def _of_reach(parameters: dict[str, object], columns: Sequence[str]) -> NamedOptions:
    return None if columns else {"at_least": parameters.pop("at_least")}


def _of_ranking(parameters: dict[str, object], columns: Sequence[str]) -> NamedOptions:
    if columns:
        return None
    options = {"groups": parameters.pop("groups"), "top": parameters.pop("k")}
    return {**options, **_protection(parameters)}


def _of_ranges(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    labels = parameters.pop("labels")
    label = parameters.pop("name")
    others = _count_column(parameters, columns, [label])
    if isinstance(labels, int) or others is None:
        return None
    named = ("workload", "line")
    options = {name: parameters.pop(name) for name in named if name in parameters}
    return {"label": label, "groups": labels, **options, **others, **_protection(parameters)}


def _of_contingency(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    values = parameters.pop("columns")
    names = [name for name, _ in values]
    others = _count_column(parameters, columns, names)
    if others is None:
        return None
    equal = parameters.pop("equal", False)
    domain = {name: list(labels) for name, labels in values}
    return {"columns": names, "groups": domain, "equal": equal, **others, **_protection(parameters)}


def _of_hierarchy(parameters: dict[str, Any], columns: Sequence[str]) -> NamedOptions:
    tree = Tree.from_dict(parameters.pop("tree"))
    levels = list(tree.levels[1:])
    leaves = _leaves_of(tree)
    others = _count_column(parameters, columns, levels)
    if leaves is None or others is None:
        return None
    options = {"levels": levels, "groups": leaves, **others, **_protection(parameters)}
    if "targets" in parameters:
        options["target"] = parameters.pop("targets")
    return options


def _leaves_of(tree: Tree) -> dict[str, list[object]] | None:
    """Return the labels of a tree's leaves by level; None if they are not all on the last level."""
    depth = len(tree.levels) - 1
    paths = [tree.path(depth, node) for node in range(tree.sizes[-1])]
    levels = list(tree.levels[1:])
    leaves = {level: [path[place] for path in paths] for place, level in enumerate(levels)}
    return leaves if Tree.from_leaves(leaves, levels).digest == tree.digest else None


def _with_value(options: dict[str, object], columns: Sequence[str]) -> NamedOptions:
    if len(columns) > 1:
        return None
    return {**options, "value": columns[0]} if columns else options


def _count_column(
    parameters: dict[str, object], columns: Sequence[str], names: Sequence[str]
) -> NamedOptions:
    """Return the option for the column of counts of a table; None if the columns are others.

    Args:
        parameters: parameters of the table.
        columns: the stated columns; empty: those that the table names itself.
        names: columns that the table names itself.
    """
    has_counts = parameters.pop("counts", False)
    if not has_counts:
        return {} if list(columns or names) == list(names) else None
    if list(columns[:-1]) != list(names):
        return None
    return {"count_column": columns[-1]}


def _protection(parameters: dict[str, object]) -> dict[str, object]:
    is_replaced = parameters.pop("neighbours", "add_remove") == "replace"
    return {"replace": True} if is_replaced else {}


#: Options of named jobs that only choose what is shown.
_DISPLAY = ("shares", "top")
_CONVERTERS: Mapping[type[Statistic], tuple[str, _Converter]] = {
    Count: ("count", _of_count),
    Sum: ("sum", _of_clipped_values),
    Average: ("average", _of_clipped_values),
    Quantiles: ("quantiles", _of_quantiles),
    Moments: ("moments", _of_moments),
    Reach: ("reach", _of_reach),
    TopK: ("top-k", _of_ranking),
    Ranges: ("ranges", _of_ranges),
    Contingency: ("contingency", _of_contingency),
    Hierarchy: ("hierarchy", _of_hierarchy),
}


REGISTRY.make_job = make_job
