"""Reading of a stream's releases from its journal, which holds public values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from counton.base.private import open_private
from counton.numbers.intervals import LEVEL, check_level
from counton.released.released_numbers import ReleasedNumbers
from counton.released.stream_words import WITHDRAWN
from counton.run.definition import Definition
from counton.state import Stream
from counton.state.database import reading
from counton.statistics.discovery import first_shown as reached_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from counton.released.description import Description
    from counton.released.read_options import View
    from counton.released.revisions import Revisions
    from counton.state.reader import JournalReader

#: Most values that are read together, for groups that were found in the data.
_READ = 2**22


def read_released(
    stream: Stream | JournalReader,
    definition: Definition,
    level: float | None = None,
    shown: View | None = None,
    steps: range | None = None,
) -> ReleasedNumbers:
    """Read releases of a stream from its journal, the stored table of releases, with their notes.

    Args:
        level: probability with which each interval holds; None: the level of the stream's last job.
        shown: selection of the statistic's numbers to show; None: the selection of the last job, so
            that all ways to read a release give equal numbers.
        steps: for counts and sums of declared groups, read only these steps, and the step before
            them, because a window is the difference of two totals; None: all.
    """
    level = level_of(definition) if level is None else level
    shown = shown_of(definition.record.get) if shown is None else shown
    additive = definition.statistic.additive
    if not definition.cells.named_beforehand:
        found = _found_cells(stream, definition, level, shown)
    elif additive and not (definition.cut.lags and stream.step):
        start = 1 if steps is None else max(steps.start - 1, 1)
        stored = stream.releases(start, None if steps is None else steps.stop)
        with reading(f"the releases of stream {stream.name!r}"):
            values = stored.values.reshape(len(stored), len(definition.groups))
        found = ReleasedNumbers.of(definition, stream.design, values, level, start=start)
    else:
        from counton.released.read_options import with_shown_groups

        described = definition if additive else with_shown_groups(definition, shown)
        if definition.cut.lags and stream.step:
            found = _newest_versions(stream, described, level, shown)
        else:
            every = range(1, stream.step + 1)
            readings = stream.readings(1, every.stop, described.statistic)
            found = ReleasedNumbers(described, stream.design, every, readings, level, shown=shown)
    if told := public_notes(definition):
        found = replace(found, notes=(*found.notes, *told))
    return found if steps is None else found.only(steps)


def public_notes(definition: Definition) -> list[str]:
    """Return why a stream's numbers are withdrawn, if they are, and the notes on single numbers."""
    words, windows = definition.withdrawn, definition.cut
    withdrawn = [] if words is None else [f"{WITHDRAWN}: {words}"]
    return [*withdrawn, *(mark.sentence(windows) for mark in definition.marks)]


def level_of(definition: Definition) -> float:
    """Return the level of a stream's intervals by its last job, or 0.95."""
    return check_level(definition.record.get("level"), usual=LEVEL)


def shown_of(told: Callable[[str], Any]) -> View:
    """Return the selection of a statistic's numbers to show, such as certain quantiles, from a
    function that returns the options of a job by name.

    >>> from counton.run import Job
    >>> shown_of(Job("quantiles", "-", "visits.db", shares="0.5").option).ask
    (0.5,)
    """
    from counton.released.read_options import View

    ask: tuple[Any, ...] | None = None  # shares, or intervals of cells
    if (given := told("shares")) is not None:
        from counton.statistics.quantiles import checked_shares

        ask = checked_shares(given)
    elif (given := told("ask")) is not None:
        names = given.split(",") if isinstance(given, str) else given
        ask = tuple(dict.fromkeys(name.strip() for name in names))
    over, top, room = told("over") or None, told("top"), told("room")
    return View(ask, over, top, room)


def _newest_versions(
    stream: Stream | JournalReader, definition: Description, level: float, shown: View
) -> ReleasedNumbers:
    """Read revised windows: the newest version of each, and all earlier ones."""
    from counton.released.revisions import Revisions

    values, terms = stream.releases().values, cast("Any", stream.design)
    if definition.statistic.additive:  # cells without a name are left out
        versions = terms.strategy.facts.versions
        with reading(f"the releases of stream {stream.name!r}"):
            values = values.reshape(len(values), -1, versions)[:, : len(definition.groups)]
    return _read_versions(definition, Revisions(terms, values), level, shown)


def _read_versions(
    definition: Description, revisions: Revisions, level: float, shown: View
) -> ReleasedNumbers:
    """Return the versions of windows, the newest of each as the numbers."""
    night, since = len(revisions.values), revisions.since
    terms, numbers = revisions.design_at(night), revisions.newest(night)
    definition = replace(definition, strategy=terms.strategy)
    found = ReleasedNumbers.of(definition, terms, numbers, level, shown=shown, since=since)
    return replace(found, revisions=revisions)


def _found_cells(
    stream: Stream | JournalReader,
    definition: Definition,
    level: float,
    shown: View,
) -> ReleasedNumbers:
    """Read the groups that may be shown, by the first step that showed them, then name."""
    labels, terms = open_private(stream.labels()), stream.design
    compared, steps = definition.cells.compared, range(1, stream.step + 1)
    each = compared.places
    size = max(1, _READ // max(1, len(labels) * each * terms.strategy.facts.versions))
    chunks = [steps[start : start + size] for start in range(0, len(steps), size)]

    @lru_cache(maxsize=1)
    def values_of(chunk: range) -> NDArray[Any]:
        return np.asarray(stream.releases(chunk.start, chunk.stop).values)

    first = np.full(len(labels), -1, np.int64)
    for chunk in chunks:
        values = compared.of_groups(values_of(chunk))
        reached = reached_at(values, definition.cells.thresholds(terms, chunk))[: len(labels)]
        new = np.flatnonzero((reached >= 0) & (first[: len(reached)] < 0))
        first[new] = chunk.start + reached[new]
    since = sorted((int(first[one]), labels[one], one) for one in np.flatnonzero(first > 0))
    groups = np.array([group for _, _, group in since], np.intp)
    cells = groups[:, None] * each + np.arange(each)
    versions = terms.step_shape[1:] if steps else ()
    estimates = np.zeros((len(steps), *cells.shape, *versions), np.int64)
    for chunk in chunks:
        values = values_of(chunk)
        there = cells[:, 0] < values.shape[1]
        estimates[chunk.start - 1 : chunk.stop - 1, there] = values[:, cells[there]]
    for place, (step, _, _) in enumerate(since):
        estimates[: step - 1, place] = 0  # the zero tells nothing: there was noise before, too
    shown_since = {name: step for step, name, _ in since}
    if definition.statistic.additive:
        estimates = estimates[:, :, 0]
    if versions:
        from counton.released.revisions import Revisions

        revisions = Revisions(cast("Any", terms), estimates, shown_since)
        return _read_versions(definition, revisions, level, shown)
    return ReleasedNumbers.of(definition, terms, estimates, level, since=shown_since, shown=shown)
