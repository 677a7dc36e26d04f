"""Marked rows, counted or summed by window and group in one pass: what a file holds, exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import SumOverflow
from counton.base.groups import GroupNames
from counton.base.private import Private, open_private
from counton.rows.bad_rows import set_bad_rows_aside, set_bad_rows_aside_elsewhere, unknown_groups
from counton.rows.cell_sums import (
    MANY_GROUPS,
    ROWS_AT_A_TIME,
    _by_place,
    merge_batches,
    sums_by_cell,
    sums_by_label,
)
from counton.rows.remote_rows import Spread
from counton.rows.row_reading import RowReading, cells_across
from counton.rows.samples import FactSampler, Sample
from counton.rows.sources import UNREADABLE, Source
from counton.rows.window_marks import (
    PART,
    collect,
    mark_rows,
    says_labels,
    unreadable_part,
)


class RowHolder(Protocol):
    """What holds marked rows, until it is known which of them count."""

    def select(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """What is looked at of rows (see `mark_rows`), also of those that cannot be counted."""

    def take(self, rows: pl.DataFrame) -> None:
        """Hold some of these, which come in order."""


@dataclass(frozen=True, repr=False)
class FileLook:
    """A file as it looks, to know it again when not all of its rows come. Exact data: secret.

    Attributes:
        sample: some of what its rows say; None of rows that lie elsewhere, and of none.
        windows: ``step`` and ``rows``: how many rows it has in each window, of groups that count.
    """

    sample: Sample | None
    windows: pl.DataFrame

    def __repr__(self) -> str:
        return "FileLook(secret)"

    @property
    def rows(self) -> int:
        """How many rows it has within the windows."""
        return int(self.windows["rows"].sum())

    @property
    def steps(self) -> NDArray[np.int64]:
        """The windows that have a row of it."""
        return self.windows["step"].to_numpy()

    def late(self, released: int) -> int:
        """How many of them are in windows up to a step."""
        return int(self.windows.filter(pl.col("step") <= released)["rows"].sum())


#: Sums of one cell stay below this, so that a total over cells is still exact in int64.
_LARGEST_CELL = 2.0**61


@dataclass(frozen=True)
class Tally:
    """What a file holds, exactly. Secret: rooms hand it on as `Private`.

    Attributes:
        cells: one row per window and place of a group that has events: ``step``, ``group``
            (position in the domain, times the places of a group, and the place), ``rows``,
            ``total`` (events, or what they add); all int64.
        newest: microseconds of the newest event, None where there is no event.
        rows: all rows read.
        before: rows before the first window, counted nowhere.
        beyond: rows after the last window.
        unknown: rows of undeclared groups, counted nowhere.
        skipped: rows that lack something, counted nowhere.
        quarantined: rows that cannot be read, set aside.
        sums: of each part what its rows come to, as they are read, in any order and format: a
            digest of how many there are in each window, group and place, of what they add, and of
            two sums over all that is read of them (times, values, users). Empty for a part without
            rows; none where the rows lie elsewhere.
        whole: the same of all parts together, where there are several.
        looks: of each part, where this was asked for.
    """

    cells: pl.DataFrame
    newest: int | None
    rows: int
    before: int
    beyond: int
    unknown: int
    skipped: int = 0
    quarantined: int = 0
    sums: tuple[str, ...] = ()
    whole: str = ""
    looks: tuple[FileLook, ...] = ()

    def __repr__(self) -> str:
        return "Tally(secret)"


def tally(
    source: Source,
    reading: RowReading,
    domain: Sequence[str] | None = None,
    *,
    bound: RowHolder | None = None,
    watch: Callable[[int], None] | None = None,
    looks: bool = False,
) -> Private[Tally]:
    """Count events by window and group.

    Args:
        bound: what holds the rows.
        looks: whether to find how each part looks.

    Raises:
        InvalidInput: a missing column, a missing or unreadable time, a time that the
            clocks skip or pass twice, a missing or unknown group, a value that is missing, NaN or
            infinite, a missing user or id.
        SumOverflow: the sum of one cell is too large.
    """
    width = 1 if domain is None else len(domain) + 1
    across = cells_across(reading.adds)
    samplers = [
        FactSampler(reading.windows.steps, labels=says_labels(reading))
        for _ in source.parts
        if looks
    ]
    each = _by_cell(source, reading, domain, bound, watch, samplers)
    sums, whole = tuple[str, ...](), ""
    if reading.columns.id is None and not isinstance(source, Spread):
        sums, whole = _sums_of_parts(each, len(source.parts), domain, across)
    found = _together(each).sort("cell")
    rows_read, skipped, quarantined = int(found["rows"].sum()), 0, 0
    if found.height and found["cell"][0] < 0:
        if isinstance(source, Spread):
            bad = found.filter(pl.col("cell") < 0)
            problem = bad.select(problem=-(pl.col("cell") // (width * across)), rows="rows")
            skipped, quarantined = set_bad_rows_aside_elsewhere(source, reading, problem)
        else:
            skipped, quarantined = set_bad_rows_aside(source, reading)
        found = found.filter(pl.col("cell") >= 0)
    cells, counts = found["cell"] // across, found["rows"]
    steps, groups_of = cells // width, cells % width
    outside = found["cell"] % across == (across - 1 if across > 1 else -1)
    if domain is not None:
        outside = outside | (groups_of == len(domain))
    unknown = int(counts.filter(outside).sum())
    if unknown and reading.unknown == "refuse":
        raise unknown_groups(source, reading, domain or ())
    counts = counts.set(outside, 0)
    early, late = steps < 1, steps > reading.windows.steps
    inside = (counts > 0) & ~(early | late)
    _check_sums(found.filter(counts > 0))
    parted = found.with_columns(step=steps, group=groups_of).filter(inside)
    return Private(
        Tally(
            cells=_by_place(parted, reading.adds),
            newest=None if not found.height else int(found["us"].max()),  # type: ignore[arg-type]
            rows=rows_read,
            before=int(counts.filter(early).sum()),
            beyond=int(counts.filter(late).sum()),
            unknown=unknown,
            skipped=skipped,
            quarantined=quarantined,
            sums=sums,
            whole=whole,
            looks=_looks(each, samplers, width, across, reading.windows.steps),
        )
    )


def _by_cell(
    source: Source,
    reading: RowReading,
    domain: Sequence[str] | None,
    bound: RowHolder | None,
    watch: Callable[[int], None] | None,
    samplers: Sequence[FactSampler],
) -> pl.DataFrame:
    """Sums of rows by cell and part, of a source here or elsewhere."""
    if isinstance(source, Spread):
        if bound is not None:
            for some in open_private(source.mark_rows(reading, domain)):
                bound.take(bound.select(some.lazy()).collect())
        return open_private(source.cells(reading, domain))
    few_labels = reading.unknown != "drop" or len(domain or ()) > MANY_GROUPS
    labels = says_labels(reading)
    by_label = bound is None and few_labels and (domain is not None or labels)
    rows = mark_rows(
        *(source, reading, watch),
        numbered=True, samplers=samplers, raw_labels=by_label and labels,
    )  # fmt: skip
    by = [PART] if len(source.parts) > 1 else []
    if by_label:
        return sums_by_label(rows, reading, domain, partial(collect, source), by=by)
    adding = partial(
        sums_by_cell, domain=domain, adds=reading.adds, newest=True, by=by, moments=True
    )
    if bound is None:
        return collect(source, adding(rows))
    return _hold(source, bound.select(rows), bound, adding, ["cell", *by])


def _looks(
    each: pl.DataFrame, samplers: Sequence[FactSampler], width: int, across: int, steps: int
) -> tuple[FileLook, ...]:
    """How each part looks, in groups that are declared or found."""
    if not samplers:
        return ()
    cell = pl.col("cell")
    group = cell // across % width
    inside = (cell >= 0) & (cell // across // width).is_between(1, steps)
    inside &= (group < width - 1) if width > 1 else pl.lit(True)
    if across > 1:
        inside &= cell % across < across - 1
    part = pl.col(PART) if PART in each.columns else pl.lit(0, pl.UInt32).alias(PART)
    by = each.filter(inside).group_by(part, step=cell // across // width).agg(pl.col("rows").sum())
    by = by.sort("step")
    return tuple(
        FileLook(sampler.sample(), by.filter(pl.col(PART) == place).select("step", "rows"))
        for place, sampler in enumerate(samplers)
    )


def _hold(
    source: Source,
    rows: pl.LazyFrame,
    bound: RowHolder,
    adding: Callable[[pl.LazyFrame], pl.LazyFrame],
    by: Sequence[str],
) -> pl.DataFrame:
    """Rows added up, and held, some at a time."""
    added = [adding(rows.collect_schema().to_frame().lazy()).collect()]
    batches = rows.collect_batches(chunk_size=ROWS_AT_A_TIME, engine="streaming")
    try:
        for batch in batches:
            bound.take(batch)
            added.append(adding(batch.lazy()).collect())
            if sum(map(len, added)) > 2 * len(added[0]) + ROWS_AT_A_TIME:
                added = [merge_batches(added, by)]
    except UNREADABLE as error:
        raise unreadable_part(source, error) from error
    return merge_batches(added, by)


def _sums_of_parts(
    each: pl.DataFrame, parts: int, domain: Sequence[str] | None, across: int
) -> tuple[tuple[str, ...], str]:
    """What the rows of each part come to, and those of all: see `Tally.sums`."""
    width = 1 if domain is None else len(domain) + 1
    window, group = pl.col("cell") // across // width, pl.col("cell") // across % width
    cells = each.with_columns(window=window, place=pl.col("cell") % across)
    if domain is not None:  # groups by name: a later night may declare more of them
        names = GroupNames(domain).plus([""]).column
        cells = cells.with_columns(name=pl.lit(names).gather(group))
    by = [name for name in ("window", "name", "place") if name in cells.columns]
    numbers = [name for name in each.columns if name.startswith(("rows", "total", "moment"))]

    def digest(rows: pl.DataFrame) -> str:
        hashed, rows = hashlib.sha256(b"counton/sums"), rows.sort(by)
        for name in [*by, *numbers]:
            hashed.update(f"/{name} {rows.height}/".encode())
            if name == "name":
                hashed.update("\n".join(rows[name]).encode())
            else:
                hashed.update(rows[name].to_numpy().astype("<i8").tobytes())
        return hashed.hexdigest() if rows.height else ""

    if PART not in cells.columns:
        return (digest(cells),), ""
    by_part = cells.partition_by(PART, as_dict=True)
    of_parts = tuple(digest(by_part.get((part,), cells.head(0))) for part in range(parts))
    return of_parts, digest(cells.group_by(by).agg(pl.col(numbers).sum()))


def _together(each: pl.DataFrame) -> pl.DataFrame:
    sums = [name for name in each.columns if name not in (PART, "cell", "us")]
    sums = [name for name in sums if not name.startswith("moment")]
    if PART not in each.columns:
        return each.select("cell", "us", *sums)
    return each.group_by("cell").agg(pl.col("us").max(), pl.col(sums).sum())


def _check_sums(known: pl.DataFrame) -> None:
    for name in known.columns:
        if not name.startswith("magnitude"):
            continue
        large = known.filter(pl.col(name) >= _LARGEST_CELL)
        if large.height:
            raise SumOverflow(
                f"the values of one window and group add up to {large[name][0]:.3g} times the "
                f"resolution; the bound is 2^61: use a coarser resolution or narrower bounds"
            )
