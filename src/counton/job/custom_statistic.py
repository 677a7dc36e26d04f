"""Options of statistics that counton does not name: a user's own, and those of other packages.

A program passes its statistic as an object, which becomes a `CustomStatisticJob`. A statistic of
another package, found by an entry point (`counton.statistics.catalogue`), has a model of its own,
made from the arguments of its class: so it is stated by name like any other.
"""

from __future__ import annotations

from functools import cache
from inspect import Parameter, signature
from typing import Any, ClassVar, Literal

from pydantic import create_model
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.job import values as v
from counton.job.common_options import (
    GroupOptions,
    Job,
    SeriesOptions,
    UnlistedGroupOptions,
    UserRowOptions,
)
from counton.job.option_fields import STREAM, option
from counton.job.shown_numbers import IntervalOptions, OverOptions, ShareOptions
from counton.statistics import AccumulatorStatistic, Statistic
from counton.statistics.catalogue import (
    OWN_STATISTICS,
    is_keyword,
    statistic_named,
    statistic_of_kind,
)

#: Argument of a statistic that is no option: jobs name the protected unit of a stream.
_UNIT = "unit"


class OwnStatisticJob(
    OverOptions,
    ShareOptions,
    IntervalOptions,
    SeriesOptions,
    UnlistedGroupOptions,
    GroupOptions,
    UserRowOptions,
    Job,
):
    """What the jobs of all such statistics have.

    A model names the columns that the statistic reads in ``columns``, or the only one in ``value``.
    """

    def make_statistic(self) -> Statistic:
        """Return the statistic."""
        raise NotImplementedError

    @override
    def own_statistic(self) -> Statistic | None:
        is_whole = all(self.has_stated(name) for name in self.needs)
        return self.make_statistic() if is_whole else None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that the job names for its statistic."""
        columns = self.value_of("columns")
        if columns is not None:
            return tuple(columns)
        value = self.value_of("value")
        return () if value is None else (value,)

    @override
    def name_of_statistic(self) -> str:
        statistic = self.make_statistic()
        return statistic.keyword or type(statistic).__name__

    @override
    def allows_single_table(self) -> bool:
        return self.make_statistic().is_table


class CustomStatisticJob(OwnStatisticJob):
    """A statistic that is stated as an object, or by its class and its parameters in JSON."""

    heading = "Statistic"
    scope = STREAM
    statistic: Literal["custom"] = "custom"
    definition: v.StatisticObject | None = option(
        'The statistic: its class and parameters as JSON: {"statistic": "Average", "lower": 0, ...}'
    )
    columns: v.Names | None = option("Columns that the statistic reads, in its order: A,B.")
    summary: ClassVar[str] = "A statistic that is stated by its class and its parameters."
    needs: ClassVar[tuple[str, ...]] = ("definition",)

    @override
    def make_statistic(self) -> Statistic:
        if self.definition is None:
            raise InvalidInputError(
                "a job of a custom statistic needs definition; give the statistic"
            )
        statistic: Statistic = self.definition
        return statistic


class PackageStatisticJob(OwnStatisticJob):
    """A statistic of another package; its model is made by `package_model`.

    Attributes:
        statistic_class: class of the statistic.
        parameters: names of the arguments of the class that are options.
    """

    statistic_class: ClassVar[type[Statistic]]
    parameters: ClassVar[tuple[str, ...]] = ()

    @override
    def make_statistic(self) -> Statistic:
        options = {name: self.value_of(name) for name in self.parameters if self.has_stated(name)}
        return statistic_of_kind(self.statistic_class, options)

    @override
    def name_of_statistic(self) -> str:
        return self.statistic

    @override
    def allows_single_table(self) -> bool:
        return self.statistic_class.is_table

    @override
    def normal_parameters(self) -> dict[str, object]:
        if any(not self.has_stated(name) for name in self.needs):
            return {}
        parameters = self.make_statistic().parameters
        return {name: parameters[name] for name in self.parameters if name in parameters}


@cache
def package_model(statistic: str) -> type[PackageStatisticJob]:
    """Return the model of a statistic of another package.

    Args:
        statistic: name of the statistic, by which an entry point names its class.

    Raises:
        InvalidInputError: the class cannot be loaded, or is no statistic.
    """
    statistic_class = statistic_named(statistic)
    fields: dict[str, Any] = {"statistic": (Literal[statistic], statistic)}
    needs: list[str] = []
    reads_one_column = (
        issubclass(statistic_class, AccumulatorStatistic) and len(statistic_class.parts) == 1
    )
    if reads_one_column:
        fields["value"] = (v.Column | None, option("Column of the values.", STREAM))
    else:
        help_text = "Columns that the statistic reads, in its order: A,B."
        fields["columns"] = (v.Names | None, option(help_text, STREAM))
    options_of_job = {*OwnStatisticJob.model_fields, *fields}
    for name, argument in signature(statistic_class).parameters.items():
        if name == _UNIT or argument.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        if name in options_of_job:
            raise InvalidInputError(
                f"statistic {statistic!r} has the argument {name!r}, which is an option of its job "
                "already; rename it in the class"
            )
        help_text = f"The argument {name} of {statistic_class.__name__}."
        fields[name] = (v.PlainValue | None, option(help_text, STREAM))
        if argument.default is Parameter.empty:
            needs.append(name)
    model = create_model(
        f"{statistic_class.__name__}Job",
        __base__=PackageStatisticJob,
        __doc__=statistic_class.says,
        **fields,
    )
    model.statistic_class = statistic_class
    model.summary = statistic_class.says
    model.also_called = statistic_class.also_called
    model.parameters = tuple(name for name in fields if name not in options_of_job)
    model.needs = tuple(needs)
    return model


def is_of_package(statistic: object) -> bool:
    """Return whether an entry point of another package names a statistic."""
    return is_keyword(statistic) and statistic not in OWN_STATISTICS
