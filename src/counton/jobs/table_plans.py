"""A dry run of a table: how accurate it would be, by level, before anything is read or released.

What is protected and promised, and which strategy would be used, follow from the request and from
public knowledge alone; of a line without labels also the number of its rows, which is published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from counton.errors import InvalidInput, field
from counton.jobs import statements
from counton.jobs.definition import unit_of
from counton.jobs.job import Job, guarantee_from, needed_guarantee
from counton.mechanisms.contingency import plan_margins
from counton.mechanisms.hierarchy import plan_hierarchy
from counton.mechanisms.ranges import plan_ranges
from counton.privacy import Contribution
from counton.statistics import Contingency, Hierarchy, Ranges, Statistic


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
        job: with a number of steps a stream, else a table that is released once.

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
    if not isinstance(job.what, str) or job.what not in ("hierarchy", "ranges", "contingency"):
        raise InvalidInput(f"{job.what!r} is no table; ask the planner of streams")
    if job.what == "ranges" and job.given("label") is None:
        return _line(job)
    statistic = statements.settled(job)[0]
    assert isinstance(statistic, Hierarchy | Ranges | Contingency)
    if job.time is None and job.steps is None:
        return _once(job, statistic)
    if job.steps is None:
        raise InvalidInput(f"a stream needs {field('steps')}, how many windows it has; give it")
    guarantee = needed_guarantee(job.epsilon, job.delta, job.rho)
    settled: Any = statistic.settled(guarantee, job.steps)
    best = settled.plan(job.steps, guarantee).best
    unit = settled.error_of
    rows = tuple(
        {**row, "std": row["std"] * best.mean_std / unit.mean,
         "largest_std": row["std"] * best.max_std / unit.largest}
        for row in _spread(settled, 1.0)
    )  # fmt: skip
    words = (
        ("guarantee", str(guarantee)),
        ("protected", f"one {unit_of(job)}, {settled.contribution(batched=True).words}"),
        ("strategy", f"{best.strategy!r} over {job.steps:,} steps"),
        ("errors", "std is typical of all steps, largest_std that of the worst step"),
    )
    return TablePlan(words, rows)


def _spread(statistic: Statistic, std: float) -> list[dict[str, Any]]:
    """Largest standard deviations by level, where each measured cell has this one."""
    if isinstance(statistic, Hierarchy):
        parts = zip(
            statistic.tree.levels, statistic.tree.sizes, statistic.law.variances, strict=True
        )
        return [
            {"level": name, "nodes": size, "std": std * math.sqrt(float(part.max()))}
            for name, size, part in parts
        ]
    assert isinstance(statistic, Ranges | Contingency)
    axes = statistic.grid.axes
    ends = [(np.array([0, 0]), np.array([1, axis.cells])) for axis in axes]
    each = [axis.variance(*end) for axis, end in zip(axes, ends, strict=True)]
    if isinstance(statistic, Ranges):
        places = np.arange(axes[0].cells)
        cells = math.sqrt(float(axes[0].variance(places, places + 1).max()))
        whole = math.sqrt(float(each[0][1]))
        return [{"interval": "a cell", "std": std * cells}, {"interval": "all", "std": std * whole}]
    found = []
    names = list(statistic.columns)
    for bits in sorted(range(1 << len(names)), key=lambda b: (b.bit_count(), -_reversed(b, names))):
        kept = [bits >> axis & 1 for axis in range(len(names))]
        called = ", ".join(name for name, here in zip(names, kept, strict=True) if here) or "total"
        variance = math.prod(
            float(part[0 if here else 1]) for part, here in zip(each, kept, strict=True)
        )
        found.append({"margin": called, "std": std * math.sqrt(variance)})
    return found


def _reversed(bits: int, names: list[str]) -> int:
    """Bits with those of the first columns the highest."""
    return sum((bits >> axis & 1) << (len(names) - axis) for axis in range(len(names)))


def _contribution(job: Job) -> Contribution:
    unit = "unit" if job.unit is None else job.unit
    if job.given("replace"):
        return Contribution.replace(unit=unit)
    return Contribution.add_remove(unit=unit)


def _once(job: Job, statistic: Hierarchy | Ranges | Contingency) -> TablePlan:
    """A table that is released once."""
    unit = _contribution(job)
    if isinstance(statistic, Hierarchy):
        guarantee = guarantee_from(job.epsilon, job.delta, job.rho)
        if guarantee is None and statistic.targets is None:
            raise InvalidInput(
                f"neither a guarantee nor targets are stated; give {field('rho', 0.5)} for "
                f"example, or {field('target', 'LEVEL=STD,...')} to compute the cost"
            )
        plan = plan_hierarchy(
            statistic.tree, guarantee=guarantee, contribution=unit, targets=statistic.targets
        )
        rows: list[dict[str, Any]] = [
            {"level": name, "nodes": size, "std": plan.std(name)}
            for name, size in zip(statistic.tree.levels, statistic.tree.sizes, strict=True)
        ]
        return TablePlan(_words(plan.guarantee, unit, f"{plan.family} noise"), tuple(rows))
    promised = needed_guarantee(job.epsilon, job.delta, job.rho)
    if isinstance(statistic, Ranges):
        return _ranked(job, len(statistic.labels))
    margins = plan_margins(
        statistic.shape, guarantee=promised, contribution=unit, equal=statistic.equal
    )
    held = Contingency(statistic.columns, equal=statistic.equal, grid=margins.best.grid)
    std = math.sqrt(margins.best.noise_law.variance)
    words = _words(promised, unit, f"{margins.best.family} noise")
    return TablePlan(words, tuple(_spread(held, std)))


def _line(job: Job) -> TablePlan:
    """Of a line without labels, whose number of rows is published."""
    from counton.events.files import open_source

    value = job.given("value")
    if value is None or job.time is not None:
        raise InvalidInput(f"a line of cells needs {field('label')}, or {field('value')}; give it")
    rows = open_source(job.events, job.file_format).parts[0].scan((value,)).collect().height
    return _ranked(job, rows)


def _ranked(job: Job, cells: int) -> TablePlan:
    promised = needed_guarantee(job.epsilon, job.delta, job.rho)
    unit = _contribution(job)
    plan = plan_ranges(
        cells,
        guarantee=promised,
        contribution=unit,
        strategy=str(job.given("line") or job.strategy or "auto"),
        workload=job.given("workload") or "ranges",
    )
    words = _words(promised, unit, f"{plan.best.name} with {plan.best.family} noise")
    return TablePlan(words, tuple(plan.rows()))


def _words(guarantee: Any, unit: Contribution, noise: str) -> tuple[tuple[str, str], ...]:
    return (
        ("guarantee", str(guarantee)),
        ("protected", unit.describe(steps=False)),
        ("noise", noise),
    )
