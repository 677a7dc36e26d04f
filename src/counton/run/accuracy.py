"""How far off what a stream releases will be: from its description, before anything is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from counton.numbers.design import Design, design_for
from counton.numbers.discovery import counters_of
from counton.released.description import Description
from counton.statistics.planned_halfwidths import planned_halfwidths

#: What the number of each window is called beside the totals.
EACH_WINDOW = "in each window"


def last_step(definition: Description, around: int | None = None) -> int | None:
    """The last step of a stream; of one without an end the step that somebody has in mind."""
    return 1 if definition.once else definition.strategy.horizon or around


def design_of(definition: Description, shape: tuple[int, ...], name: str = "planned") -> Design:
    """The design that a stream will have.

    Args:
        definition: of the stream.
        shape: of one step's cells.
        name: of the stream.
    """
    guarantee, statistic = definition.guarantee, definition.statistic
    return design_for(
        definition.strategy,
        guarantee,
        definition.contribution,
        shape,
        counters=None if definition.discovery is None else counters_of(guarantee),
        name=name,
        statistic=None if statistic.additive else statistic.to_dict(),
    )


def halfwidths_at(
    definition: Description,
    shape: tuple[int, ...],
    steps: Sequence[int],
    level: float,
    *,
    rows: int | None = None,
    over: int | None = None,
    ask: Sequence[Any] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Half-widths of what is released at some steps, by what they are of.

    Args:
        definition: of the stream.
        shape: of one step's cells.
        steps: which, from 1; the last one last.
        level: probability with which each interval holds.
        rows: how many rows there will be by the last of them; None: what depends on that is left
            out.
        over, ask: what is shown of a statistic's readings.
    """
    terms = design_of(definition, shape)
    if definition.statistic.additive:
        return _of_cells(definition.release, terms, steps, level)
    found: dict[str, list[float]] = {}
    for step in steps:
        at = planned_halfwidths(
            definition.statistic,
            terms,
            step,
            level,
            rows=None if rows is None else max(rows * step // steps[-1], 1),
            over=over,
            ask=None if definition.inner.on_demand else ask,
        )
        for name, half in at.items():
            found.setdefault(name, []).append(half)
    return {name: tuple(halves) for name, halves in found.items()}


def _of_cells(
    release: str, terms: Design, steps: Sequence[int], level: float
) -> dict[str, tuple[float, ...]]:
    """Of counts and sums: so far, in each window, or both."""

    def halfwidths(starts: Sequence[int]) -> tuple[float, ...]:
        return tuple(terms.window_halfwidths([*starts], [*steps], level).tolist())

    each = halfwidths([step - 1 for step in steps])
    if release == "windows":
        return {EACH_WINDOW: each}
    so_far = {"": halfwidths([0 for _ in steps])}
    return so_far | ({EACH_WINDOW: each} if release == "both" else {})
