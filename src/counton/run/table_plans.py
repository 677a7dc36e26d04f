"""A dry run of a table: how accurate it would be, by level, before anything is read or released.

What is protected and promised, and which strategy would be used, follow from the request and from
public knowledge alone; of a line without labels also the number of its rows, which is published.
"""

from __future__ import annotations

from typing import Any

from counton.base.errors import InvalidInput
from counton.run.accuracy import design_of
from counton.run.new_stream import define
from counton.run.request import ask
from counton.run.settlement import number_rows
from counton.spec import stated_options as statements
from counton.spec.job import Job
from counton.statistics.measurement_choice import TableStatistic


def planned_table(job: Job) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """How accurate a table would be that a job asks for.

    Args:
        job: with times a stream of a number of steps, else a table that is released once.

    Returns:
        Words about guarantee, protected unit and measurements; and a row for each level, or each
        set of cells, with its standard deviations.

    Raises:
        InvalidInput: parameters that are missing or contradict each other, or no strategy that
            gives the guarantee.

    >>> job = Job(
    ...     "contingency", "people.csv", "people.db", columns="sex,smokes",
    ...     domain="sex=f,m;smokes=no,yes", rho="0.5",
    ... )
    >>> words, rows = planned_table(job)
    >>> [(row["margin"], round(row["std"], 2)) for row in rows]
    [('total', 1.58), ('sex', 1.3), ('smokes', 1.3), ('sex, smokes', 1.08)]
    """
    definition = define(ask(number_rows(job) if statements.is_numbered(job) else job))
    statistic = definition.statistic
    if not isinstance(statistic, TableStatistic):
        raise InvalidInput(f"{job.what!r} is no table; ask the planner of streams")
    words = {
        "guarantee": str(definition.guarantee),
        "protected": definition.contribution.describe(definition.unit),
    }
    if definition.once:
        law = design_of(definition, definition.shape).law
        words["noise"] = f"{law.family}. {statistic.mechanism}"
        words |= statistic.choices_in_words(definition.guarantee)
        return words, statistic.spread(law.std)
    steps = definition.strategy.horizon
    assert steps is not None
    words["strategy"] = f"{definition.strategy!r} over {steps:,} steps"
    words["errors"] = "std is typical of all steps, largest_std that of the worst step"
    return words, statistic.accuracy(definition.guarantee, steps)
