"""The outputs of a run: its progress, and the files of a job, checked before a row is read and
written from the journal afterwards.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from counton.base.errors import CountonError, InvalidInput, NotDrawnWarning, field
from counton.job.job import Job
from counton.job.stated_options import refuse_stated
from counton.numbers.intervals import LEVEL, check_level
from counton.released.read_options import LOOK, View, check_look, check_shown
from counton.released.released_numbers import ReleasedNumbers
from counton.run.definition import Definition
from counton.run.journal_values import read_released, shown_of
from counton.state import Stream


class Progress(Protocol):
    """A function of the current task's name and the done fraction (0 to 1) of all work."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Receive the task's name and the done fraction (0 to 1) of all work."""


def silent(_stage: str, _share: float) -> None:
    """Do nothing with the progress of a run."""


class WrittenOutputs(NamedTuple):
    """The releases so far, and the files written.

    Attributes:
        released: released numbers of all steps, or of the last step alone if neither a file nor the
            caller needs more; None if no step is released.
        drawn: whether a chart was drawn without an error.
        not_drawn: why the chart could not be drawn; None if it was drawn or not wanted.
    """

    released: ReleasedNumbers | None
    drawn: bool
    not_drawn: str | None = None


def _warn(said: str) -> None:
    warnings.warn(NotDrawnWarning(said), stacklevel=4)


class Outputs(NamedTuple):
    """The output files that a job states, and the numbers that they show: checked.

    Attributes:
        out, plot: files of the table and the chart.
        shown: selection of the statistic's numbers to show.
        level: probability with which each interval holds.
        look: words and width of the chart.
    """

    out: Path | None
    plot: Path | None
    shown: View
    level: float
    look: Mapping[str, Any]

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
        return cls(out, plot, shown, level, {name: job.option(name) for name in LOOK})

    def write(
        self,
        stream: Stream,
        definition: Definition,
        progress: Progress = silent,
        *,
        warn: Callable[[str], object] = _warn,
        all_steps: bool = False,
    ) -> WrittenOutputs:
        """Write the output files of a run, from the released values in its journal, the table of
        releases.

        Args:
            stream, definition: stream that the run has released, and its definition.
            progress: called with the name of the current task, and the fraction (0 to 1) of the run
                that is done.
            warn: function that is called with a message if a chart cannot be drawn.
            all_steps: read all steps, even if no file needs them.
        """
        if not stream.step:
            return WrittenOutputs(None, drawn=False)
        progress("reading the journal", 0.7)
        shows_last = definition.shows_cells and definition.release != "windows"
        last_is_enough = shows_last and definition.cells.named_beforehand and definition.cut.goes_on
        in_files = self.out is not None or self.plot is not None
        if last_is_enough and not (all_steps or in_files):
            last = range(stream.step, stream.step + 1)
            found = read_released(stream, definition, self.level, self.shown, last)
            return WrittenOutputs(found, drawn=False)
        from counton.run.written_files import draw_release, write_release

        released = read_released(stream, definition, self.level, self.shown)
        if self.out is not None:
            progress("writing the table", 0.75)
            write_release(released, self.out)
        drawn, failed = self.plot is not None and released.drawable, None
        if self.plot is not None and drawn:
            progress("drawing", 0.85)
            try:
                draw_release(released, self.plot, **self.look)
            except (CountonError, OSError) as error:  # the numbers are released by now
                failed = str(error)
                warn(failed)
        return WrittenOutputs(released, drawn and failed is None, failed)
