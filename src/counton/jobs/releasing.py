"""What a run releases: the rows seen, compared with those kept, window by window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import ReplayMismatch, SumOverflow, field
from counton.events.files import EventFile
from counton.events.tally import Tally
from counton.jobs.definition import Definition
from counton.jobs.intake import Intake, compare
from counton.jobs.progress import Report
from counton.jobs.request import Request
from counton.mechanisms.terms import largest_sum
from counton.store import Stream

#: Cells released in one transaction.
_CHUNK = 2**20
#: Floats of the data are exact up to this many grid cells; beyond it, fractions are passed.
_EXACT_FLOATS = 2**45


def sources_of(stream: Stream, file: EventFile, request: Request) -> tuple[str, ...]:
    """The file's digest where it holds new events only, and so must not be counted twice.

    Raises:
        ReplayMismatch: it was counted before.
    """
    if not request.append:
        return ()
    digest = f"sha256:{file.digest()}"
    if stream.has_source(digest):
        raise ReplayMismatch(
            f"{file.name} has been counted already ({digest[:18]}...); leave it out, or drop "
            f"{field('append', True)} if the file holds everything since the first window"
        )
    return (digest,)


def compared(
    kept: dict[int, NDArray[np.int64]],
    found: Tally,
    definition: Definition,
    released: int,
    target: int,
    append: bool,
) -> Intake:
    """What the events add to a stream at step ``released``, as `compare` finds it."""
    return compare(
        kept,
        found.cells,
        released=released,
        target=target,
        groups=definition.groups,
        windows=definition.windows,
        measures=("rows",) if definition.what == "count" else ("rows", "total"),
        append=append,
        bounds=_bounds(definition),
    )


def _bounds(definition: Definition) -> tuple[int, int]:
    """The least and the most one row can add, in grid units."""
    contribution = definition.contribution
    if contribution.lower is None or contribution.upper is None:
        return 1, 1
    low, high = contribution.to_grid([float(contribution.lower), float(contribution.upper)])
    return int(low), int(high)


def refuse_overflow(definition: Definition, intake: Intake) -> None:
    """Refuse values whose sums would not be exact.

    Raises:
        SumOverflow: naming the sum and the bound.
    """
    most = largest_sum(definition.strategy)
    if intake.largest_sum > most:
        raise SumOverflow(
            f"the values add up to {intake.largest_sum:,} times the resolution; the bound is "
            f"{most:,}: use a coarser {field('resolution')} or narrower bounds"
        )


def release(
    stream: Stream,
    definition: Definition,
    intake: Intake,
    sources: tuple[str, ...],
    report: Report,
) -> None:
    """Release the windows that have ended, and keep what was seen of all."""
    if intake.target == intake.released:
        if sources:
            stream.observe(intake.pending(), sources=sources)
        return
    # New events come in one transaction, because their file can be given only once.
    new = intake.target - intake.released
    for steps in [_all(intake)] if sources else _chunks(intake):
        report("releasing", 0.4 + 0.3 * (steps.start - intake.released - 1) / new)
        observed = intake.observed(steps)
        if sources:
            observed |= intake.beyond()
        inputs = _in_data_units(definition, intake.inputs(steps))
        stream.release_many(
            inputs.reshape(len(steps), *definition.shape), observed=observed, sources=sources
        )


def _all(intake: Intake) -> range:
    return range(intake.released + 1, intake.target + 1)


def _chunks(intake: Intake) -> Iterator[range]:
    size = max(1, _CHUNK // intake.groups)
    for start in range(intake.released + 1, intake.target + 1, size):
        yield range(start, min(start + size, intake.target + 1))


def _in_data_units(definition: Definition, cells: NDArray[np.int64]) -> NDArray[Any]:
    contribution = definition.contribution
    if contribution.resolution is None:
        return cells
    if np.abs(cells).max(initial=0) <= _EXACT_FLOATS:
        return contribution.from_grid(cells)
    exact = np.empty(cells.shape, dtype=object)
    for position in np.ndindex(cells.shape):
        exact[position] = int(cells[position]) * contribution.resolution
    return exact
