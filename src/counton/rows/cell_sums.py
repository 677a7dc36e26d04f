"""Sums of marked rows by cell: by window, group and place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from counton.base.groups import GroupNames
from counton.base.windows import NO_MOMENT
from counton.rows.row_reading import Adds, RowReading, by_row, cells_across
from counton.rows.sources import Rows
from counton.rows.window_marks import mark_part, row_number_name, says_labels, with_total

#: So many rows are added up at a time where they are held too.
ROWS_AT_A_TIME = 2**18


#: An odd number without a pattern, by which values are told from times: digits of pi.
_PI = 0x243F6A8885A308D3


#: Of more groups no table is held beside rows that are read; so many names are joined with labels
#: at a time.
MANY_GROUPS, JOINED_AT_A_TIME = 2**22, 2**23


def merge_batches(added: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    """Sums of some rows and of others, in one frame."""
    together = pl.concat(added)
    sums = [name for name in together.columns if name not in (*by, "us")]
    newest = [pl.col("us").max()] if "us" in together.columns else []
    found = together.group_by(by).agg(*newest, pl.col(sums).sum())
    return found.select(together.columns)


def cells_of(
    rows: Rows,
    reading: RowReading,
    domain: Sequence[str] | None,
    alike: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Sums of some of a run's rows by cell: `sum_cells` adds up those of several.

    Args:
        alike: where each row stands for several in its window that say the same: how many
            (``number``), and where their times differ the microsecond of the newest (``newest``).

    Returns:
        Columns ``cell`` (window, group and place), ``group`` (a label where they are discovered,
        else null), ``rows``, ``us`` (the newest), and for each place to which rows add more than
        themselves ``total N`` (int64, modulo 2^64) and ``magnitude N`` (float64).
    """
    marked, number = mark_part(rows, reading), None
    if alike is not None:
        marked, number = marked.collect().hstack(alike).lazy(), pl.col("number")
        if "newest" in alike.columns:
            us = pl.when(pl.col("us") > NO_MOMENT).then("newest").otherwise("us")
            marked = marked.with_columns(us=us)
    return _cells_of(marked, reading, domain, number)


def _cells_of(
    marked: pl.LazyFrame,
    reading: RowReading,
    domain: Sequence[str] | None,
    number: pl.Expr | None = None,
) -> pl.DataFrame:
    if reading.unknown == "discover":
        found = _add(marked, _window(), reading.adds, newest=True, by=["group"], number=number)
    else:
        found = sums_by_cell(marked, domain, reading.adds, newest=True, number=number)
        found = found.with_columns(group=pl.lit(None, pl.String))
    sums = [name for name in found.collect_schema().names() if name not in ("cell", "group")]
    return found.select("cell", "group", *sums).collect()


def sum_cells(cells: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Sums of rows from those of parts of them, in any order: see `cells_of`."""
    together = pl.concat(cells)
    sums = [name for name in together.columns if name not in ("cell", "group", "us")]
    return (
        together.group_by("cell", "group")
        .agg(pl.col("rows", *sums[1:]).sum(), pl.col("us").max())
        .select(together.columns)
    )


def by_place(cells: pl.DataFrame, domain: Sequence[str], adds: Adds | None) -> pl.DataFrame:
    """Sums by label as sums by the label's place in a domain; others are beyond it.

    >>> cells = {"cell": [1, 2], "group": ["b", "?"], "rows": [3, 1], "us": [0, 0]}
    >>> by_place(pl.DataFrame(cells), ["a", "b"], None).sort("cell")["cell"].to_list()
    [4, 8]
    """
    across, width = cells_across(adds), len(domain) + 1
    window, rest = pl.col("cell") // across, pl.col("cell") % across
    cell = (window * width + pl.col("place").cast(pl.Int64).fill_null(len(domain))) * across + rest
    placed = _place(cells.lazy(), domain).collect()
    return sum_cells([placed.with_columns(cell=cell, group=pl.lit(None, pl.String)).drop("place")])


def labels_of(cells: pl.DataFrame, reading: RowReading) -> pl.DataFrame:
    """Labels that are within the windows, and the first window of each, from sums by label."""
    found = cells.select("group", step=pl.col("cell") // cells_across(reading.adds)).filter(
        pl.col("step").is_between(1, reading.windows.steps), pl.col("group").is_not_null()
    )
    return found.group_by("group").agg(pl.col("step").min())


def pick_rows(rows: Rows, reading: RowReading, which: pl.Expr) -> pl.DataFrame:
    """Of some rows, as they are, those of which an expression of marked rows is true."""
    found = (
        mark_part(rows, reading).with_row_index("row").filter(which).select("row").collect()["row"]
    )
    names = rows.of_file(reading.columns.names)
    number = row_number_name(names)
    given = rows.scan(names).with_row_index(number).filter(pl.col(number).is_in(found.implode()))
    return given.select(names).collect()


def candidates(
    rows: Rows, reading: RowReading, domain: Sequence[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of some rows those that could count, marked, and sums of all of them by cell.

    Returns:
        Rows of windows and groups that there are, with a declared group as its place in the
        domain; and sums as of `cells_of`.
    """
    frame = mark_part(rows, reading).collect()
    could = pl.col("step").is_between(1, reading.windows.steps)
    if reading.columns.group is not None:
        could &= pl.col("group").is_not_null()
    if reading.adds is not None and by_row(reading.adds):
        could &= pl.col("total") >= 0
    found = frame
    if reading.columns.group is not None and domain is not None:
        place = pl.col("group").cast(pl.Enum(list(domain)), strict=False).to_physical()
        found = frame.with_columns(group=place.cast(pl.UInt32))
    return found.filter(could), _cells_of(frame.lazy(), reading, domain)


def sums_by_cell(
    rows: pl.LazyFrame, domain: Sequence[str] | None, adds: Adds | None, **more: Any
) -> pl.LazyFrame:
    """Marked rows by window and place of a group: see `_add`."""
    return _add(_place(rows, domain), _cell(domain), adds, **more)


def _place(rows: pl.LazyFrame, domain: Sequence[str] | None) -> pl.LazyFrame:
    """Rows with the ``place`` of their group in the domain; null where it is not declared.

    A join, since categories of a million names take seven times as long.
    """
    if domain is None:
        return rows
    if rows.collect_schema()["group"] != pl.String:  # categories of the domain: of rows of people
        return rows.with_columns(place=pl.col("group").to_physical())
    return rows.join(GroupNames(domain).positions().lazy(), on="group", how="left")


def sums_by_label(
    rows: pl.LazyFrame,
    reading: RowReading,
    domain: Sequence[str] | None,
    collect: Callable[[pl.LazyFrame], pl.DataFrame],
    *,
    by: Sequence[str],
) -> pl.DataFrame:
    """The same with all that a tally asks: rows are added up by label, and labels then placed.

    To place all rows takes longer than to add them up, and of many groups it would hold a table
    that takes more than the names. Where there may be any number of undeclared labels, rows are
    placed nevertheless, since all of these labels would be held.

    Args:
        rows: marked; with raw labels where rows say labels alone.
        reading: of them.
        domain: the groups; None where there are none.
        collect: computes a frame.
        by: other columns whose rows are added up apart.
    """
    adds, by_group = reading.adds, by if domain is None else ["group", *by]
    if says_labels(reading):
        found = _add_alike(rows, reading, collect, by=by_group)
    else:
        found = collect(_add(rows, _window(), adds, newest=True, by=by_group, moments=True))
    if domain is None:
        return found
    across = cells_across(adds)
    window, rest = pl.col("cell") // across, pl.col("cell") % across
    places = _places_of(found["group"], domain)
    cell = (window * (len(domain) + 1) + pl.lit(places)) * across + rest
    cells = found.with_columns(cell=cell).drop("group")
    unknown = places == len(domain)
    if not unknown.any():
        return cells
    together = merge_batches([cells.filter(unknown)], ["cell", *by])
    return pl.concat([cells.filter(~unknown), together])


def _add_alike(
    rows: pl.LazyFrame,
    reading: RowReading,
    collect: Callable[[pl.LazyFrame], pl.DataFrame],
    *,
    by: Sequence[str],
) -> pl.DataFrame:
    """Rows with raw labels by cell: first those that say the same, then what these add."""
    us, said = pl.col("us"), pl.col("total") * _PI
    labels = [name for name in rows.collect_schema().names() if name.startswith("part ")]
    sums = [
        *(pl.len().cast(pl.Int64).alias("rows"), us.max()),
        *(us.sum().alias("moment 1"), (us * us).sum().alias("moment 2")),
    ]
    alike = with_total(
        collect(rows.group_by(_window().alias("cell"), *by, *labels).agg(sums)), reading
    )
    # The sums of `_word`, which is a time and what rows say that are alike in it.
    first, second, number = pl.col("moment 1"), pl.col("moment 2"), pl.col("rows")
    added = alike.with_columns(
        (first + number * said).alias("moment 1"),
        (second + 2 * said * first + number * said * said).alias("moment 2"),
    )
    moments = [pl.col("moment 1", "moment 2").sum()]
    return _add(
        *(added.lazy(), pl.col("cell"), reading.adds),
        newest=True, by=by, number=number, moments=moments,
    ).collect()  # fmt: skip


def _places_of(labels: pl.Series, domain: Sequence[str]) -> pl.Series:
    """Of each label its place in the domain, beyond all where it is not declared."""
    names, places = GroupNames(domain).column, np.full(len(labels), len(domain), np.int64)
    wanted = labels.alias("group").to_frame().with_row_index("row")
    for start in range(0, len(names), JOINED_AT_A_TIME):
        some = names.slice(start, JOINED_AT_A_TIME).to_frame().with_row_index("place")
        found = wanted.join(some, on="group", how="inner")
        places[found["row"].to_numpy()] = found["place"].to_numpy().astype(np.int64) + start
    return pl.Series("place", places)


def _cell(domain: Sequence[str] | None) -> pl.Expr:
    """Number of a placed row's window and group; below 0, by its problem, where it cannot count."""
    groups: pl.Expr = pl.lit(0, pl.Int64)
    if domain is not None:
        groups = pl.col("place").cast(pl.Int64).fill_null(len(domain))
    return _window() * (1 if domain is None else len(domain) + 1) + groups


def _window() -> pl.Expr:
    """The step of a marked row, or its problem less than 0."""
    step = pl.col("step")
    return pl.when(step < NO_MOMENT).then(step - NO_MOMENT).otherwise(step)


def added_up(parts: Iterable[pl.DataFrame], groups: int, adds: Adds | None) -> pl.DataFrame:
    """Rows of declared groups by window and place of a group: as `Tally.cells`.

    Args:
        parts: some rows at a time: ``step``, ``group`` (position in the domain) and ``total`` (what
            each says), all Int64.
    """
    cell = pl.col("step") * groups + pl.col("group")
    none = pl.DataFrame(schema=dict.fromkeys(("step", "group", "total"), pl.Int64))
    added: list[pl.DataFrame] = []
    for rows in chain((none,), parts):
        added.append(_add(rows.lazy(), cell, adds).collect())
        if sum(map(len, added)) > 2 * len(added[0]) + ROWS_AT_A_TIME:
            added = [merge_batches(added, ["cell"])]
    found = merge_batches(added, ["cell"]).sort("cell")
    cells = found["cell"] // cells_across(adds)
    parted = found.with_columns(step=cells // groups, group=cells % groups)
    return _by_place(parted, adds)


def _add(
    rows: pl.LazyFrame,
    cell: pl.Expr,
    adds: Adds | None,
    *,
    newest: bool = False,
    by: Sequence[str] = (),
    number: pl.Expr | None = None,
    moments: bool | Sequence[pl.Expr] = False,
) -> pl.LazyFrame:
    """Rows by cell, windows one after the other: how many, and what they add to each place.

    Args:
        number: how many events each row stands for; None: one.
        moments: whether to sum words of rows (see `_word`), or how.
    """
    each = pl.lit(1, pl.Int64) if number is None else number
    many = pl.len().cast(pl.Int64) if number is None else number.sum()
    sums = [many.alias("rows")]
    if newest:
        sums.append(pl.col("us").max())
    if not isinstance(moments, bool):
        sums += moments
    elif moments:  # modulo 2^64
        word = _word(rows.collect_schema(), adds)
        sums += [word.sum().alias("moment 1"), (word * word).sum().alias("moment 2")]
    if adds is not None:
        entries = adds.entries(pl.col("total"))
        if by_row(adds):
            known, choice = pl.col("total") >= 0, pl.lit(0, pl.Int64)
            places = [place for place, _ in entries if not isinstance(place, int)]
            for place, span in zip(places, adds.spans, strict=True):
                known &= (place >= span.start) & (place < span.stop)
                choice = choice * len(span) + (place - span.start)
            none = cells_across(adds) - 1
            cell = cell * (none + 1) + pl.when(known).then(choice).otherwise(none)
        if not adds.counts_rows:
            for place, (_, amount) in enumerate(entries):
                if isinstance(amount, int):  # of each row as much
                    added, size = many * amount, many * float(abs(amount))
                else:
                    added = (amount * each).sum()
                    size = (amount.cast(pl.Float64) * each).abs().sum()
                sums.append(added.alias(f"total {place}"))
                sums.append(size.alias(f"magnitude {place}"))
    return rows.group_by(cell.alias("cell"), *by).agg(sums)


def _word(types: pl.Schema, adds: Adds | None) -> pl.Expr:
    """What is read of a row besides its group, as a word: its time, its values, and its user.

    In the sum of squares each of these is multiplied by the others too, so that the sums tell which
    stood in one row.
    """
    word = pl.col("us")
    if adds is not None:
        word = word + pl.col("total") * _PI
    if types.get("user") == pl.UInt64:  # a digest under the stream's secret
        word = word + pl.col("user").reinterpret(signed=True)
    return word


def _by_place(found: pl.DataFrame, adds: Adds | None) -> pl.DataFrame:
    """A row for each place, from one for each group and, where rows decide, place."""
    group, names = pl.col("group"), ("step", "group", "rows", "total")
    if adds is None:
        return found.select("step", "group", "rows", total="rows")
    across = cells_across(adds)
    parts, radix, spans = [], across - 1, iter(adds.spans if across > 1 else ())
    for number, (place, _) in enumerate(adds.entries(pl.col("total"))):
        at: Any = place
        if not isinstance(place, int):
            span = next(spans)
            radix //= len(span)
            at = span.start + pl.col("cell") % across // radix % len(span)
        at = (group * adds.places + at).alias("group")
        total = "rows" if adds.counts_rows else f"total {number}"
        parts.append(found.select("step", at, "rows", total=total))
    if len(parts) == 1:
        return parts[0]
    together = pl.concat(parts)
    if by_row(adds):  # rows of one place may have chosen others elsewhere
        together = together.group_by("step", "group").agg(pl.col("rows", "total").sum())
    return together.sort("step", "group").select(names)
