"""Reading of a stream's releases from its journal, which holds public values only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import IntegersOrFloats
from counton.base.private import reveal
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.results.display import DisplaySelection, with_shown_groups
from counton.results.metadata import ReleaseMetadata
from counton.results.release import Release
from counton.results.release_data import ReleaseData
from counton.results.revisions import Revisions
from counton.results.text import WITHDRAWN
from counton.run.spec.stream_spec import StreamSpec
from counton.state.database import reading
from counton.state.stream_reader import JournalReader
from counton.statistics.discovery import first_shown

#: Most values that are read together, for groups that were found in the rows.
_VALUES_AT_A_TIME = 2**22


def read_release(
    stream: JournalReader,
    spec: StreamSpec,
    *,
    display: DisplaySelection | None = None,
    level: float | None = None,
) -> Release:
    """Return what a stream has released, with intervals.

    Args:
        spec: the specification of the stream.
        display: selection of the statistic's numbers to show; None: that of the last job.
        level: confidence level of the intervals; None: that of the last job.
    """
    if display is None:
        display = spec.remembered_display
    if level is None:
        level = spec.remembered_level
    numbers = _read_numbers(
        stream, spec, display, check_confidence_level(level, usual=DEFAULT_CONFIDENCE_LEVEL)
    )
    notes = public_notes(spec)
    if notes:
        numbers = replace(numbers, notes=(*numbers.notes, *notes))
    return Release(numbers)


def public_notes(spec: StreamSpec) -> list[str]:
    """Return why a stream's numbers are withdrawn, if they are, and the notes on single windows."""
    withdrawn = [] if spec.withdrawn is None else [f"{WITHDRAWN}: {spec.withdrawn}"]
    if not spec.notes:
        return withdrawn
    windows = spec.terms.windowing.windows
    widths = spec.terms.widths
    noun = spec.metadata().recent_noun
    return [*withdrawn, *(note.sentence(windows, widths, noun) for note in spec.notes)]


def _read_numbers(
    stream: JournalReader,
    spec: StreamSpec,
    display: DisplaySelection,
    level: float,
) -> ReleaseData:
    metadata = spec.metadata()
    is_additive = spec.accumulator_statistic.additive
    is_revised = spec.terms.windowing.windows.n_revisions > 0 and stream.step > 0
    if spec.discovers_groups:
        return _read_found_groups(stream, metadata, level, display)
    if is_additive and not is_revised:
        stored = stream.releases()
        with reading(f"the releases of stream {stream.name!r}"):
            values = stored.values.reshape(len(stored), len(metadata.groups))
        return ReleaseData.of(metadata, stream.design, values, level, shown=display)
    if not is_additive:
        metadata = with_shown_groups(metadata, display)
    if is_revised:
        return _read_newest_versions(stream, metadata, level, display)
    every_step = range(1, stream.step + 1)
    results = stream.results(1, every_step.stop, metadata.statistic)
    return ReleaseData(metadata, stream.design, every_step, results, level, shown=display)


def _read_newest_versions(
    stream: JournalReader, metadata: ReleaseMetadata, level: float, display: DisplaySelection
) -> ReleaseData:
    """Read revised windows: the newest version of each, and all earlier ones."""
    values = stream.releases().values
    design = cast("Any", stream.design)
    if metadata.statistic.additive:  # cells without a name are left out
        versions = design.strategy.facts.versions
        with reading(f"the releases of stream {stream.name!r}"):
            values = values.reshape(len(values), -1, versions)[:, : len(metadata.groups)]
    return _with_versions(metadata, Revisions(design, values), level, display)


def _with_versions(
    metadata: ReleaseMetadata, revisions: Revisions, level: float, display: DisplaySelection
) -> ReleaseData:
    """Return the versions of windows, the newest of each as the numbers."""
    last_step = len(revisions.values)
    design = revisions.design_at(last_step)
    metadata = replace(metadata, strategy=design.strategy)
    numbers = ReleaseData.of(
        metadata,
        design,
        revisions.newest(last_step),
        level,
        shown=display,
        since=revisions.since,
    )
    return replace(numbers, revisions=revisions)


def _read_found_groups(
    stream: JournalReader, metadata: ReleaseMetadata, level: float, display: DisplaySelection
) -> ReleaseData:
    """Read the groups that may be shown, by the first step that showed them, then by name."""
    names = reveal(stream.labels())
    design = stream.design
    sums_of_group = metadata.cells.compared.n_cells
    steps = range(1, stream.step + 1)
    n_values_of_step = max(1, len(names) * sums_of_group * design.strategy.facts.versions)
    size = max(1, _VALUES_AT_A_TIME // n_values_of_step)
    chunks = [steps[begin : begin + size] for begin in range(0, len(steps), size)]

    @lru_cache(maxsize=1)
    def values_of(chunk: range) -> IntegersOrFloats:
        return np.asarray(stream.releases(chunk.start, chunk.stop).values)

    first_steps = _first_steps_shown(stream, metadata, chunks, values_of, n_groups=len(names))
    shown = sorted(
        _ShownGroup(
            first_step=int(first_steps[position]), name=names[position], position=int(position)
        )
        for position in np.flatnonzero(first_steps > 0)
    )
    positions = np.array([group.position for group in shown], np.intp)
    cells = positions[:, None] * sums_of_group + np.arange(sums_of_group)
    versions = design.step_shape[1:] if steps else ()
    estimates = np.zeros((len(steps), *cells.shape, *versions), np.int64)
    for chunk in chunks:
        values = values_of(chunk)
        is_there = cells[:, 0] < values.shape[1]
        estimates[chunk.start - 1 : chunk.stop - 1, is_there] = values[:, cells[is_there]]
    for column, group in enumerate(shown):
        estimates[: group.first_step - 1, column] = 0  # nothing of earlier steps is shown
    since = {group.name: group.first_step for group in shown}
    if metadata.statistic.additive:
        estimates = estimates[:, :, 0]
    if versions:
        revisions = Revisions(cast("Any", design), estimates, since)
        return _with_versions(metadata, revisions, level, display)
    return ReleaseData.of(metadata, design, estimates, level, since=since, shown=display)


class _ShownGroup(NamedTuple):
    """A group that may be shown. Groups are sorted by these fields, in their order."""

    first_step: int
    name: str
    position: int


def _first_steps_shown(
    stream: JournalReader,
    metadata: ReleaseMetadata,
    chunks: Sequence[range],
    values_of: Callable[[range], IntegersOrFloats],
    *,
    n_groups: int,
) -> NDArray[np.int64]:
    """Return the first step in which each group reached the threshold; -1 if there is none.

    Args:
        chunks: all steps, in the parts in which they are read.
        values_of: function that returns the values of one of the chunks.
    """
    first_steps = np.full(n_groups, -1, np.int64)
    for chunk in chunks:
        values = metadata.cells.compared.of_groups(values_of(chunk))
        thresholds = metadata.cells.thresholds(stream.design, chunk)
        reached = first_shown(values, thresholds)[:n_groups]
        new = np.flatnonzero((reached >= 0) & (first_steps[: len(reached)] < 0))
        first_steps[new] = chunk.start + reached[new]
    return first_steps
