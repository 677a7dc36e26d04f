"""What a job's outputs are: checked before anything is released, written from the journal after."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from counton.base.errors import InvalidInput, NotDrawnWarning, field
from counton.numbers.intervals import check_level
from counton.released.periods import check_periods, check_sums, parsed_period
from counton.released.read_options import (
    LOOK,
    View,
    check_look,
    check_shown,
)
from counton.released.release import Release
from counton.released.release_facts import facts_of
from counton.rows.paths import event_paths, refuse_among_events
from counton.run.definition import Definition
from counton.run.journal_values import read_cells, shown_by
from counton.run.outputs import check_outputs, is_folder, pictures_of, write_charts, write_table
from counton.run.progress import Progress, silent
from counton.run.release_folder import check_foldable, write_folder
from counton.run.runs import Outcome
from counton.run.settlement import SettledJob
from counton.spec.job import Events, Job
from counton.state.shared import ledger_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class WrittenOutputs:
    """What was released so far, and what was written of it.

    Attributes:
        released: None where nothing is released yet; the last step alone where no file needs the
            others and that was allowed.
        drawn: whether there was anything to draw, and nothing went wrong.
        not_drawn: what went wrong with the chart, a sentence; None: nothing.
    """

    released: Release | None
    drawn: bool
    not_drawn: str | None = None


def _warn(said: str) -> None:
    warnings.warn(NotDrawnWarning(said), stacklevel=4)


@dataclass(frozen=True)
class Outputs:
    """The outputs of a job.

    Attributes:
        job: what is asked.
        out, plot: files of the table and the chart.
        sums: files of sums, by the length of a period.
        shown: what is shown of a statistic's readings.
        level: probability with which each interval holds.

    >>> job = Job("count", "-", "visits.db", out="visits.parquet", sums="1w")
    >>> {every: file.name for every, file in Outputs.of(job).sums.items()}
    {'1w': 'visits.1w.parquet'}
    """

    job: Job
    out: Path | None
    plot: Path | None
    sums: Mapping[str, Path]
    shown: View
    level: float

    @classmethod
    def of_run(cls, settled: SettledJob) -> Outputs:
        """Those of a resolved job, checked beside what defines its stream."""
        found = cls.of(settled.outputs)
        found.approve(settled.definition)
        return found

    @classmethod
    def of(cls, job: Job) -> Outputs:
        """What a job asks for, as far as it can be checked without its events."""
        out, plot = (None if path is None else Path(path) for path in (job.out, job.plot))
        sums = files_of_sums(job.sums, out)
        for file in (out, *sums.values()):
            read = [*_paths(job), job.domain]
            read += () if job.ledger is None else ledger_files(job.ledger)
            check_outputs(file, plot, state=job.state, key=job.key, read=read)
            refuse_among_events(cast("Any", job.events), file)
        check_look(job)
        _check_thresholds(job)
        level = check_level(job.level)
        return cls(job, out, plot, sums, shown_by(job), level)

    def approve(self, definition: Definition) -> None:
        """Refuse what a stream of this definition does not have, before anything is released."""
        check_shown(self.shown, definition.statistic)
        if self.out is not None and is_folder(self.out):
            check_foldable(definition, self.out)
        given = _threshold(self.job)
        chooses = definition.shows_cells and definition.discovery is None
        if given is not None and not (chooses and definition.domain is not None):
            raise InvalidInput(
                f"{given} chooses among declared groups by their counts or sums, and "
                f"{self.job.name!r} has none: leave it out"
            )
        for every in self.sums:
            check_sums(definition, every)
            check_periods(definition.windows, every, definition.strategy.facts.delay)
        if self.job.over is not None and definition.discovery is not None:
            raise InvalidInput(
                f"{field('over', self.job.over)} does not go with {field('unknown', 'discover')}, "
                f"where no group is declared and each is shown from some step on; leave one of "
                f"them out"
            )

    def write(
        self,
        outcome: Outcome,
        progress: Progress = silent,
        *,
        warn: Callable[[str], object] = _warn,
        whole: bool = False,
    ) -> WrittenOutputs:
        """Write the files, from the journal.

        Args:
            outcome: of the run.
            progress: is told where the run is.
            warn: is told what went wrong with a chart.
            whole: read all steps, also where no file needs them.
        """
        written = self._write(outcome, progress, whole=whole)
        if written.not_drawn is not None:
            warn(written.not_drawn)
        return written

    def _write(self, outcome: Outcome, progress: Progress, *, whole: bool) -> WrittenOutputs:
        if not outcome.after:
            return WrittenOutputs(None, drawn=False)
        progress("reading the journal", 0.7)
        definition = outcome.definition
        if self.out is not None and is_folder(self.out):
            progress("writing the table", 0.75)
            self._write_folder(outcome, self.out)
        if not (whole or self._needs_all(definition)):
            last = range(outcome.after, outcome.after + 1)
            found = read_cells(outcome.stream, definition, self.level, self.shown, last)
            return WrittenOutputs(found, drawn=found.drawable)
        released = outcome.read(self.level, self.shown)
        if self.out is not None and not is_folder(self.out):
            progress("writing the table", 0.75)
            by_rows = definition.discovery is not None
            shown = released
            if _threshold(self.job) is not None:
                from counton.released.large_groups import large_only

                shown = large_only(released, self.job.above, self.job.surely_above)
            write_table(shown.lazy(), self.out, facts_of(shown), found=by_rows)
        for every, path in self.sums.items():
            write_table(released.sums(every), path, facts_of(released))
        drawn = released.drawable
        failed = None
        if self.plot is not None and drawn:
            progress("drawing", 0.85)
            failed = write_charts(lambda: self._charts(released), self.plot)
        return WrittenOutputs(released, drawn and failed is None, failed)

    def _needs_all(self, definition: Definition) -> bool:
        """Whether a file, a chart or the screen is of more than the last step."""
        shows_last = definition.shows_cells and definition.release != "windows"
        if not shows_last or definition.discovery is not None or definition.once:
            return True
        in_files = self.out is not None and not is_folder(self.out)
        return in_files or self.plot is not None or bool(self.sums)

    def _write_folder(self, outcome: Outcome, folder: Path) -> None:
        definition, steps = outcome.definition, range(1, outcome.after + 1)

        def read(some: range) -> Release:
            return read_cells(outcome.stream, definition, self.level, self.shown, some)

        thresholds = self.job.above, self.job.surely_above
        write_folder(folder, read, steps, len(definition.groups), *thresholds)

    def _charts(self, released: Release) -> dict[Path, Figure]:
        drawn = released.figures(**self._look)
        pictures = pictures_of("both" if len(drawn) > 1 else next(iter(drawn)), self.plot)
        return {pictures[what]: figure for what, figure in drawn.items()}

    @property
    def _look(self) -> dict[str, Any]:
        return {name: getattr(self.job, name) for name in LOOK}


def _threshold(job: Job) -> str | None:
    """The threshold that a job gives, as messages call it."""
    for name in ("above", "surely_above"):
        if (value := getattr(job, name)) is not None:
            return field(name, value)
    return None


def _check_thresholds(job: Job) -> None:
    if (given := _threshold(job)) is None:
        return
    from counton.released.large_groups import check_thresholds

    check_thresholds(job.above, job.surely_above)
    if job.out is None:
        raise InvalidInput(
            f"{given} says which rows are written to a table; give {field('out')} too"
        )


def _paths(job: Job) -> list[object]:
    events: Events = job.events
    several = events if isinstance(events, list | tuple) else [events]
    if all(isinstance(one, str) or hasattr(one, "__fspath__") for one in several):
        return [*event_paths(cast("Any", events), job.file_format)]
    return []


def files_of_sums(sums: str | None, out: Path | None) -> dict[str, Path]:
    """Where sums over periods are written, by the length of a period."""
    if sums is None:
        return {}
    if out is None:
        raise InvalidInput(
            f"{field('sums', sums)} is written beside the table; give {field('out')} too"
        )
    named = [every.strip() for every in sums.split(",")]
    for every in named:
        parsed_period(every)
    ending = ".parquet" if is_folder(out) else out.suffix
    return {every: out.with_name(f"{out.stem}.{every}{ending}") for every in named}
