"""The output files of a job, checked before a row is read; `counton.run.runs.Outcome.write` writes
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counton.base.errors import InvalidInput, field
from counton.job.job import Job
from counton.job.kinds import refuse_stated
from counton.numbers.intervals import LEVEL, check_level
from counton.released.read_options import View, check_look, check_shown
from counton.run.definition import Definition
from counton.run.journal_values import shown_of


@dataclass(frozen=True)
class Outputs:
    """The output files that a job states, and the numbers that they show: checked.

    Attributes:
        out, plot: files of the table and the chart.
        shown: selection of the statistic's numbers to show.
        level: probability with which each interval holds.
    """

    out: Path | None
    plot: Path | None
    shown: View
    level: float

    @classmethod
    def of(cls, job: Job, definition: Definition) -> Outputs:
        """Return the output files of a job that was completed from its state; refuse, before a
        release, files that its stream cannot have.
        """
        out = None if job.output.out is None else Path(job.output.out)
        plot = None if job.output.plot is None else Path(job.output.plot)
        check_look(job.output)
        level, shown = check_level(job.view.level, usual=LEVEL), shown_of(job.option)
        unshown = [name for name in ("shares", "ask") if name not in definition.inner.shows]
        refuse_stated(job, unshown, f"a {definition.what}", "")
        check_shown(shown, definition, level)
        if plot is not None and not definition.shows_cells:
            raise InvalidInput(
                f"{field('plot', str(plot))} draws counts and sums over time, and this is "
                f"{definition.kind}: leave it out, and draw the table"
            )
        return cls(out, plot, shown, level)
