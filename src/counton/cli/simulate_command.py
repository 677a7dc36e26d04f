"""The option ``counton plan nightly.toml --simulate true.csv``: simulated releases, whose true
numbers are those of the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import some_of
from counton.cli.plan_options import PlanOptions
from counton.cli.print_forms import Console, print_json
from counton.released.screen import screen_of
from counton.run.exports import checked_file
from counton.run.job_plan import PlannedJob
from counton.run.written_files import write_release

#: Columns of the file of true numbers; groups have their names in released tables.
_STEP, _GROUP, _NUMBER = "step", "group", "number"


def print_simulation(options: PlanOptions, jobs: Mapping[str, PlannedJob]) -> None:
    """Simulate the releases of one job, and print or write them."""
    assert options.simulate is not None
    name, _, file = options.simulate.partition("=")
    if name in jobs and file:
        job, path = jobs[name], Path(file)
    elif len(jobs) == 1 and not file:  # a file alone is enough
        (job,), path = jobs.values(), Path(options.simulate)
    else:
        raise InvalidInput(
            f"{field('simulate', options.simulate)} names no job of the file; write NAME=FILE, "
            f"where NAME is one of {some_of([*jobs])}"
        )
    out = None if options.out is None else checked_file(options.out, job.state)
    (made,) = job.simulate(_numbers(path, job))
    numbers = made.numbers
    if out is not None:
        write_release(numbers, out)
    if options.json:
        print_json({"name": numbers.design.name, "simulated": True, **numbers.last_numbers()})
        return
    console, screen = Console(), screen_of(numbers)
    console.write_line(made.describe().splitlines()[0], bold=True)
    console.write_line(screen.heading)
    for table in screen.tables:
        console.write_table(table)
    if out is not None:
        console.write_line(f"written to {out}")


def _numbers(path: Path, job: PlannedJob) -> NDArray[np.float64]:
    """Read the true number of each step and group from a CSV file; it is 0 where the file has no
    row.

    The shape is ``(steps, groups)``.
    """
    definition = job.definition
    if not definition.statistic.card.additive:
        raise InvalidInput(
            f"job {job.name!r} releases {definition.what}, and a file of true numbers works only "
            "for counts and sums; in Python use planned_job(job).simulate(...)"
        )
    grouped = definition.domain is not None
    wanted = [_STEP, *([_GROUP] if grouped else []), _NUMBER]
    kinds: dict[str, Any] = dict.fromkeys(wanted, pl.String)
    kinds |= {_STEP: pl.Int64, _NUMBER: pl.Float64}
    try:
        rows = pl.read_csv(path, schema_overrides=kinds)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInput(f"{path} cannot be read as CSV: {error}") from None
    if missing := [name for name in wanted if name not in rows.columns]:
        raise InvalidInput(
            f"{path} has no column {missing[0]!r}; it needs the columns {', '.join(wanted)}, and a "
            "row for each step"
        )
    places = {group: place for place, group in enumerate(definition.groups)}
    found: dict[tuple[int, int], float] = {}
    for row in rows.select(wanted).iter_rows(named=True):
        group = str(row[_GROUP]) if grouped else definition.groups[0]
        step, number = row[_STEP], row[_NUMBER]
        if group not in places or step is None or step < 1 or number is None:
            raise InvalidInput(
                f"{path} has the row {row}, which cannot be read; a row needs a step of at least "
                f"1, a number, and one of the groups {some_of(definition.groups)}"
            )
        if (step, places[group]) in found:
            raise InvalidInput(
                f"{path} has two rows of step {step} and group {group!r}; leave one of them out"
            )
        found[step, places[group]] = number
    numbers = np.zeros((max((step for step, _ in found), default=0), len(places)))
    for (step, place), number in found.items():
        numbers[step - 1, place] = number
    return numbers
