"""The statistics of jobs: the model of the options of each, in a module of its own.

What a statistic cannot do is no option of its model: a table of cells has no ``group_by``,
and a `ReachJob` no ``distinct_users``. A model is imported and built when a job names its
statistic, since this takes milliseconds for each: a run needs one of them. Help, schema and
reference pages take `all_models`.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, cast

from counton.base.errors import InvalidInputError
from counton.job.model_registry import REGISTRY

if TYPE_CHECKING:
    from counton.job.common_options import Job

#: Module and model of each statistic.
MODELS = {
    "count": "counton.job.statistics.count:CountJob",
    "sum": "counton.job.statistics.sum:SumJob",
    "average": "counton.job.statistics.average:AverageJob",
    "quantiles": "counton.job.statistics.quantiles:QuantilesJob",
    "top-k": "counton.job.statistics.top_k:TopKJob",
    "hierarchy": "counton.job.statistics.hierarchy:HierarchyJob",
    "ranges": "counton.job.statistics.ranges:RangesJob",
    "contingency": "counton.job.statistics.contingency:ContingencyJob",
    "moments": "counton.job.statistics.moments:MomentsJob",
    "distinct": "counton.job.statistics.distinct:DistinctJob",
    "reach": "counton.job.statistics.reach:ReachJob",
    "report": "counton.job.report:ReportJob",
}
#: Names of all statistics of jobs.
STATISTIC_NAMES = tuple(MODELS)
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
    if isinstance(statistic, str) and statistic in MODELS:
        module, _, name = MODELS[statistic].partition(":")
        return cast("type[Job]", getattr(import_module(module), name))
    from counton.job.custom_statistic import CustomStatisticJob, is_of_package, package_model

    if statistic == "custom":
        return CustomStatisticJob
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
