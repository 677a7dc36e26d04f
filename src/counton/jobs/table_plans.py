"""A dry run of a table: how accurate it would be, by level, before anything is read or released.

What is protected and promised, and which strategy would be used, follow from the request and from
public knowledge alone; of a line without labels also the number of its rows, which is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counton.errors import InvalidInput
from counton.jobs import statements
from counton.jobs.asking import ask
from counton.jobs.defining import define
from counton.jobs.definition import Definition
from counton.jobs.job import Job
from counton.jobs.public_tables import number_rows
from counton.statistics.fitted import TableStatistic


@dataclass(frozen=True)
class TablePlan:
    """What a table would be.

    Attributes:
        words: guarantee, protected unit, and what is measured.
        rows: one for each level, or each set of cells: its standard deviations.
    """

    words: tuple[tuple[str, str], ...]
    rows: tuple[dict[str, Any], ...]


def planned_table(job: Job) -> TablePlan:
    """How accurate a table would be that a job asks for.

    Args:
        job: with times a stream of a number of steps, else a table that is released once.

    Raises:
        InvalidInput: parameters that are missing or contradict each other, or no strategy that
            gives the guarantee.

    >>> job = Job(
    ...     "contingency", "people.csv", "people.db", columns="sex,smokes",
    ...     domain="sex=f,m;smokes=no,yes", rho="0.5",
    ... )
    >>> [(row["margin"], round(row["std"], 2)) for row in planned_table(job).rows]
    [('total', 1.58), ('sex', 1.3), ('smokes', 1.3), ('sex, smokes', 1.08)]
    """
    definition = define(ask(number_rows(job) if statements.is_numbered(job) else job))
    statistic = definition.statistic
    if not isinstance(statistic, TableStatistic):
        raise InvalidInput(f"{job.what!r} is no table; ask the planner of streams")
    words = [
        ("guarantee", str(definition.guarantee)),
        ("protected", definition.contribution.describe(definition.unit)),
    ]
    if definition.once:
        law = _law(definition)
        words.append(("noise", f"{law.family}. {statistic.mechanism}"))
        words += statistic.choices_in_words(definition.guarantee)
        return TablePlan(tuple(words), tuple(statistic.spread(law.std)))
    steps = definition.strategy.horizon
    assert steps is not None
    rows = tuple(statistic.accuracy(definition.guarantee, steps))
    words += [
        ("strategy", f"{definition.strategy!r} over {steps:,} steps"),
        ("errors", "std is typical of all steps, largest_std that of the worst step"),
    ]
    return TablePlan(tuple(words), rows)


def _law(definition: Definition) -> Any:
    from counton.mechanisms.calibration import law_for

    return law_for(
        definition.strategy, definition.guarantee, definition.contribution, definition.shape
    ).law
