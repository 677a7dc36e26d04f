"""The options of each statistic: its model has them beside the options of every job.

What a statistic cannot do is no option of its model: a table of cells has no ``group_by``,
and a `ReachJob` no ``distinct_users``.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from typing import ClassVar, Literal

from counton.base.errors import InvalidInputError
from counton.job import values as v
from counton.job.common_options import (
    DeclaredGroupOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    Job,
    PeriodSeriesOptions,
    RollingSeriesOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    UserOptions,
    UserPeriodOptions,
    UserRowOptions,
)
from counton.job.model_registry import REGISTRY
from counton.job.option_fields import FILE_ONLY, REMEMBERED, STREAM, Section, option
from counton.job.shown_numbers import IntervalOptions, OverOptions, ShareOptions


class CountColumnOptions(Section):
    """A table of counts: a row stands for several events."""

    heading = "Statistic"
    scope = STREAM
    count_column: v.Column | None = option(
        "Column with the number of events that each row represents."
    )


class ReplaceOptions(Section):
    """Protection of a row's values, where its presence is public."""

    heading = "Privacy"
    scope = STREAM
    replace: bool = option("Protect the values of a row, not its presence.", default=False)


class UpstreamBoundOptions(Section):
    """A bound on one user's share of a table of counts, which its maker vouches for."""

    heading = "Contributions"
    scope = STREAM
    upstream_max_contributions: v.MostEvents | None = option(
        "Largest number of one user's events in a table of counts, which its maker ensured.",
        FILE_ONLY,
    )


class BoundOptions(Section):
    """A column of values, which are clipped to bounds and rounded to a grid."""

    heading = "Statistic"
    scope = STREAM
    value: v.Column | None = option("Column of the values, whose mean or sum is shown.")
    lower: v.Exact | None = option("Smaller values count as this value.")
    upper: v.Exact | None = option("Larger values count as this value.")
    resolution: v.Loss | None = option("Values are rounded to multiples of this number.")


class CountJob(
    CountColumnOptions,
    UpstreamBoundOptions,
    RollingSeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The number of events: of rows, or of what a column of counts adds up to."""

    statistic: Literal["count"] = "count"
    summary: ClassVar = "The number of events: of rows, or of what a column of counts adds up to."
    also_called: ClassVar = ("number", "events", "rows", "histogram")
    example: ClassVar = {"group-by": "page", "groups": "home,shop"}


class SumJob(
    BoundOptions, RollingSeriesOptions, DiscoveredGroupOptions, GroupOptions, UserRowOptions, Job
):
    """The sum of a column, whose values are clipped to bounds and put on a grid."""

    statistic: Literal["sum"] = "sum"
    summary: ClassVar = "The sum of a column, whose values are clipped to bounds and put on a grid."
    also_called: ClassVar = ("total", "totals")
    example: ClassVar = {"value": "seconds", "lower": "0", "upper": "600", "resolution": "1"}
    needs: ClassVar = ("value", "lower", "upper", "resolution")


class AverageJob(
    BoundOptions,
    OverOptions,
    RollingSeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The mean of clipped values, and their sum and number."""

    statistic: Literal["average"] = "average"
    summary: ClassVar = "The mean of clipped values, and their sum and number."
    also_called: ClassVar = ("mean", "avg")
    example: ClassVar = SumJob.example
    needs: ClassVar = SumJob.needs


class QuantilesJob(
    ShareOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """How values are distributed: median and other quantiles."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["quantiles"] = "quantiles"
    value: v.Column | None = option("Column of the values, whose quantiles are shown.")
    lower: v.Exact | None = option("Smaller values count as this value.")
    upper: v.Exact | None = option("Larger values count as this value.")
    cells: v.Positive | None = option("Number of cells of equal width from lower to upper.")
    edges: v.Numbers | None = option("Edges of the cells, in place of cells: 0,15,60,180.")
    line: v.Text | None = option(
        "How cells are measured: auto, identity, haar, hierarchy or optimal. [default: auto]"
    )
    summary: ClassVar = "How values are distributed: median and other quantiles."
    also_called: ClassVar = ("median", "quantile", "percentile", "percentiles")
    example: ClassVar = {"value": "seconds", "lower": "0", "upper": "600", "cells": "60"}
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("value",)


class TopKJob(
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    DiscoveredGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """The largest groups of a histogram, with intervals that hold for all of them at once."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["top-k"] = "top-k"
    top: v.Positive | None = option("Number of groups to show. [default: 10]", REMEMBERED)
    room: v.Positive | None = option(
        "Largest number of undeclared groups, from public knowledge. [default: 1,000,000]",
        REMEMBERED,
    )
    summary: ClassVar = (
        "The largest groups of a histogram, with intervals that hold for all of them at once."
    )
    also_called: ClassVar = ("top", "topk", "top_k", "largest")
    example: ClassVar = {"group-by": "page", "groups": "home,shop", "top": "1"}
    needs: ClassVar = ("group_by",)


class DistinctJob(OverOptions, SeriesOptions, UnlistedGroupOptions, GroupOptions, UserOptions, Job):
    """The number of different users; each counts once in the stream."""

    heading = "Contributions"
    scope = STREAM
    statistic: Literal["distinct"] = "distinct"
    distinct_users: bool = option("Each user counts once, as always here.", default=False)
    summary: ClassVar = "The number of different users."
    also_called: ClassVar = ("unique", "uniques", "users", "visitors")
    example: ClassVar = {"user": "visitor"}
    needs: ClassVar = ("user",)


class ReachJob(
    OverOptions, PeriodSeriesOptions, UnlistedGroupOptions, GroupOptions, UserPeriodOptions, Job
):
    """How many users have at least 1, 5, 100 rows in a period."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["reach"] = "reach"
    at_least: v.WholeNumbers | None = option(
        "Least number of rows of a user: one number, or several as in 1,5,100. [default: 1]"
    )
    summary: ClassVar = "How many users have at least 1, 5, 100 rows in a period."
    also_called: ClassVar = ("frequency", "returning", "active")
    example: ClassVar = {"user": "visitor", "contribution-period": "1mo", "at-least": "1,2"}
    needs: ClassVar = ("user",)


class HierarchyJob(
    CountColumnOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    DeclaredGroupOptions,
    UserRowOptions,
    Job,
):
    """How many rows each place of a hierarchy has, such as region and city; counts add up."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["hierarchy"] = "hierarchy"
    levels: v.Names | None = option("Columns of the levels, coarsest first: A,B,C.")
    target: v.NumbersByName | None = option(
        "Noise standard deviation of each level: LEVEL=STD,... With epsilon or rho, their ratios."
    )
    summary: ClassVar = (
        "How many rows each place of a hierarchy has, such as region and city; counts add up."
    )
    example: ClassVar = {"levels": "page", "groups": "pages.csv"}
    example_file: ClassVar = ("pages.csv", "page\nhome\nshop\n")
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("levels", "groups")


class ContingencyJob(
    CountColumnOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    DeclaredGroupOptions,
    UserRowOptions,
    Job,
):
    """How many rows have each combination of some columns' values, with all margins."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["contingency"] = "contingency"
    columns: v.Names | None = option("Columns that the statistic reads, in this order: A,B.")
    equal: bool = option("Give every margin the same accuracy.", default=False)
    summary: ClassVar = (
        "How many rows have each combination of some columns' values, with all margins."
    )
    also_called: ClassVar = ("crosstab", "table")
    example: ClassVar = {"columns": "page,device", "groups": "page=home,shop;device=phone,desk"}
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("columns", "groups")


class RangesJob(
    IntervalOptions,
    CountColumnOptions,
    ReplaceOptions,
    OverOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    DeclaredGroupOptions,
    UserRowOptions,
    Job,
):
    """A line of counts, accurate in every interval."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["ranges"] = "ranges"
    label: v.Column | None = option("Column that names the cells of a line.")
    workload: v.Text | None = option("What is accurate: ranges or prefixes. [default: ranges]")
    line: v.Text | None = option(
        "How cells are measured: auto, identity, haar, hierarchy or optimal. [default: auto]"
    )
    summary: ClassVar = "A line of counts, accurate in every interval."
    example: ClassVar = {"label": "page", "groups": "home,shop"}
    may_be_single_table: ClassVar = True
    needs: ClassVar = ("label", "groups")


class MomentsJob(
    OverOptions, SeriesOptions, UnlistedGroupOptions, GroupOptions, UserRowOptions, Job
):
    """Means, variances and covariances of columns."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["moments"] = "moments"
    columns: v.Names | None = option("Columns that the statistic reads, in this order: A,B.")
    bounds: v.Names | None = option("Lowest and highest value of each column: 0:100,0:20.")
    grid: v.Positive | None = option(
        "Number of cells between the bounds of a column. [default: 256]"
    )
    summary: ClassVar = "Means, variances and covariances of columns."
    also_called: ClassVar = ("variance", "var", "std", "correlation")
    example: ClassVar = {"columns": "seconds", "bounds": "0:600"}
    needs: ClassVar = ("columns", "bounds")


#: The model of each statistic by its name, but for `counton.job.report`, which is loaded when
#: it is used.
MODELS: dict[str, type[Job]] = {
    "count": CountJob,
    "sum": SumJob,
    "average": AverageJob,
    "quantiles": QuantilesJob,
    "top-k": TopKJob,
    "hierarchy": HierarchyJob,
    "ranges": RangesJob,
    "contingency": ContingencyJob,
    "moments": MomentsJob,
    "distinct": DistinctJob,
    "reach": ReachJob,
}
#: Names of all statistics of jobs.
STATISTIC_NAMES = (*MODELS, "report")
#: Least similarity of another name of a statistic and a word for which it is suggested.
_SIMILAR = 0.8


def model_of(statistic: object) -> type[Job]:
    """Return the model of a statistic's options.

    Args:
        statistic: name of the statistic.

    Raises:
        InvalidInputError: there is no such statistic; the message suggests the nearest name.

    >>> model_of("count").__name__
    'CountJob'
    """
    if statistic == "report":
        from counton.job.report import ReportJob

        return ReportJob
    if statistic == "custom":
        from counton.job.custom_statistic import CustomStatisticJob

        return CustomStatisticJob
    if isinstance(statistic, str) and statistic in MODELS:
        return MODELS[statistic]
    from counton.job.custom_statistic import is_of_package, package_model

    if isinstance(statistic, str) and is_of_package(statistic):
        return package_model(statistic)
    raise InvalidInputError(explain_unknown_statistic(statistic))


def all_models() -> dict[str, type[Job]]:
    """Return the models of all statistics by name, also of those of other packages."""
    from counton.statistics.catalogue import keywords

    models = {name: model_of(name) for name in STATISTIC_NAMES}
    for name in keywords():
        if name not in models:
            with suppress(InvalidInputError):  # who uses a broken package is told
                models[name] = model_of(name)
    return models


def explain_unknown_statistic(statistic: object) -> str:
    """Return the message about an unknown statistic.

    >>> explain_unknown_statistic("mean")
    "there is no statistic 'mean'; did you mean average?"
    """
    word = str(statistic).strip().lower().replace("_", "-")
    near = nearest_statistic(word)
    remedy = f"did you mean {near}?"
    if near is None:
        remedy = f"give one of {', '.join(STATISTIC_NAMES)}"
    return f"there is no statistic {word!r}; {remedy}"


def nearest_statistic(word: str) -> str | None:
    """Return the statistic whose name, or other name, is nearest to a word; None if none is near.

    >>> nearest_statistic("median"), nearest_statistic("quit")
    ('quantiles', None)
    """
    word = word.strip().lower().replace("_", "-")
    if word in STATISTIC_NAMES:
        return word
    name_of = {other: name for name, model in all_models().items() for other in model.also_called}
    for other_name in (word, word.removesuffix("s")):
        if other_name in name_of:
            return name_of[other_name]
    near = get_close_matches(word, STATISTIC_NAMES, 1)
    near_other = get_close_matches(word, name_of, 1, _SIMILAR)
    if near:
        return near[0]
    return name_of[near_other[0]] if near_other else None


REGISTRY.model_of = model_of
REGISTRY.all_models = all_models
