"""Events marked with their windows, then counted (or summed) by window and group, in one pass."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, Literal, Protocol, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.columns import MISSING, OUTSIDE
from counton.errors import InvalidInput, SumOverflow, field
from counton.events.files import UNREADABLE, Rows, Source
from counton.events.policies import Policies, set_aside
from counton.events.spread import Fetched, Spread
from counton.events.windows import ClockChange, as_text, moments
from counton.groups import GroupNames
from counton.private import Private, open_private
from counton.windows import NO_MOMENT, Windows

Unknown = Literal["refuse", "drop", "discover"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)

#: So many rows are added up at a time where they are held too.
_AT_A_TIME = 2**18


class RowHolder(Protocol):
    """What holds marked rows, until it is known which of them count."""

    def wanted(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """What is looked at of rows (see `marked`), also of those that cannot be counted."""

    def take(self, rows: pl.DataFrame) -> None:
        """Hold some of these, which come in order."""


class EventPart(Protocol):
    """A part of an event: see `counton.statistics.tallied.Part`."""

    @property
    def name(self) -> str:
        """Of the part."""

    @property
    def kind(self) -> str:
        """Numbers, whole counts, or labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Those that are known."""


class Adds(Protocol):
    """What rows are added up to: see `counton.statistics.Tallied`."""

    @property
    def parts(self) -> Sequence[EventPart]:
        """Of what a row consists."""

    @property
    def places(self) -> int:
        """How many places of a group rows are added up in."""

    @property
    def counts_rows(self) -> bool:
        """Whether every row adds 1 to one place."""

    @property
    def spans(self) -> Sequence[range]:
        """Places among which a row chooses, once for each choice that it makes."""

    def said(self, *parts: Any) -> NDArray[np.int64]:
        """What rows say, one integer each."""

    def entries(self, said: Any) -> Sequence[tuple[Any, Any]]:
        """Places, and what is added to each."""


#: The column of marked rows that says of which part of their source they are.
PART = "part"
#: Sums of one cell stay below this, so that a total over cells is still exact in int64.
_LARGEST_CELL = 2.0**61
_SHOWN = 5
#: A row counts so often at most.
MOST_COUNTED = 2**32
#: Characters of a label at most where no group is declared; longer ones are counted nowhere.
_LONGEST_LABEL = 200
_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


class Problem(IntEnum):
    """What is wrong with a row; of several, the first is named.

    >>> Problem.NO_GROUP.words
    'no group'
    """

    NONE = 0
    NO_TIME = 1
    UNREADABLE_TIME = 2
    CLOCK_CHANGE = 3
    NO_GROUP = 4
    NO_VALUE = 5
    NOT_FINITE = 6
    NO_USER = 7
    NO_ID = 8
    NO_FLAG = 9
    NO_COUNT = 10
    UNREADABLE_ROW = 11

    @property
    def words(self) -> str:
        """What the row has."""
        return _WORDS[self]

    def remedy(self, timezone: str) -> str:
        """What to do.

        Args:
            timezone: in which times without an offset are read.
        """
        return _REMEDIES[self].replace("TIMEZONE", timezone)


_WORDS = {
    Problem.NONE: "no problem",
    Problem.NO_TIME: "no time",
    Problem.UNREADABLE_TIME: "a time that cannot be read",
    Problem.CLOCK_CHANGE: "a local time that the clocks skip or pass twice",
    Problem.NO_GROUP: "no group",
    Problem.NO_VALUE: "no value",
    Problem.NOT_FINITE: "a value that is not a finite number",
    Problem.NO_USER: "no user",
    Problem.NO_ID: "no id",
    Problem.NO_FLAG: "neither true nor false",
    Problem.NO_COUNT: "no whole number from 0 to 2^32",
    Problem.UNREADABLE_ROW: "a line that cannot be read",
}
_REMEDIES = {
    Problem.NONE: "count it",
    Problem.NO_TIME: (
        f"remove such rows, leave them out ({field('missing', 'skip')}), or choose a time column "
        f"that is always filled"
    ),
    Problem.UNREADABLE_TIME: (
        "write ISO 8601, as in 2013-01-01T05:00Z, or state the time format "
        f"({field('time_format')})"
    ),
    Problem.CLOCK_CHANGE: (
        "write times with a UTC offset; of a time that comes twice in TIMEZONE you may also "
        f"choose one ({field('clock_change')})"
    ),
    Problem.NO_GROUP: (
        f"give the row a group, or leave out rows without ({field('unknown', 'drop')})"
    ),
    Problem.NO_VALUE: (
        f"remove such rows, leave them out ({field('missing', 'skip')}), or fill the value"
    ),
    Problem.NOT_FINITE: (
        f"write a finite number, or nothing and leave such rows out ({field('missing', 'skip')})"
    ),
    Problem.NO_USER: (
        f"say whose event it is, remove such rows, or leave them out ({field('missing', 'skip')})"
    ),
    Problem.NO_ID: (
        f"give each row an id of its own, remove those without, or leave them out "
        f"({field('missing', 'skip')})"
    ),
    Problem.NO_FLAG: "write true or false, 1 or 0, yes or no",
    Problem.NO_COUNT: "write how often the row counts, or split the row",
    Problem.UNREADABLE_ROW: "write it anew",
}


def label(given: pl.Expr) -> pl.Expr:
    """The group of which a text is the label; null where it is none that could be shown.

    Labels that differ in spaces around them or in Unicode's form (NFC) alone are one. Those with
    control or formatting characters, empty ones and very long ones are none.
    """
    text = given.cast(pl.String).str.normalize("NFC").str.strip_chars()
    good = text.str.len_chars().is_between(1, _LONGEST_LABEL) & ~text.str.contains(_HIDDEN)
    return pl.when(good).then(text)


@dataclass(frozen=True)
class Columns:
    """Which columns hold what; None: there is none.

    Attributes:
        time, group, value: of the event; where the time is empty, rows have none.
        user: whose event it is.
        id: what no two rows have in common, unless they are the same event.
        several: of the parts of an event, where it is more than one number.
    """

    time: str
    group: str | None = None
    value: str | None = None
    user: str | None = None
    id: str | None = None
    several: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Of the parts of an event, in the order in which a statistic takes them."""
        return self.several if self.value is None else (self.value,)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        named = (self.time, self.group, *self.parts, self.user, self.id)
        return tuple(dict.fromkeys(name for name in named if name))

    def renamed(self, old: str, new: str) -> Columns:
        """The same with another name for one of them."""
        named = {"time": self.time, "group": self.group, "value": self.value}
        named |= {"user": self.user, "id": self.id}
        changed: dict[str, Any] = {each: new for each, name in named.items() if name == old}
        several = tuple(new if name == old else name for name in self.several)
        return replace(self, **changed, several=several)


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
            digest of the sums of their times, and of the squares of these, by window and place.
            Empty for a part without rows; none where the rows lie elsewhere.
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

    def __repr__(self) -> str:
        return "Tally(secret)"


@dataclass(frozen=True)
class RowReading:
    """How rows are read.

    Attributes:
        columns: where time, group, value, user and id stand.
        windows: how time is cut.
        unknown: whether rows of undeclared groups are refused, counted nowhere, or by groups of
            their own.
        adds: what rows are added up to; None: they are counted.
        clock_change: which moment a local time means that comes twice.
        time_format: for times that are not ISO 8601.
        declared: the groups that count by themselves where there is ``other``.
        other: the group of all rows of other groups, or of none; None: there is no such group.
        since: groups among those declared that do so from a step on.
        policies: what happens to rows that cannot be counted.
    """

    columns: Columns
    windows: Windows
    unknown: Unknown = "refuse"
    adds: Adds | None = None
    clock_change: ClockChange = "raise"
    time_format: str | None = None
    declared: Sequence[str] = ()
    other: str | None = None
    since: Mapping[str, int] = attribute(default_factory=dict)
    policies: Policies = attribute(default_factory=Policies)

    def group(self, given: pl.Expr) -> pl.Expr:
        """The group by which a row counts."""
        if self.unknown == "discover":
            return label(given)
        if self.other is None:
            return given
        known = given.is_in(GroupNames(self.declared).column.implode())
        for name, step in self.since.items():
            known &= (given != name) | (self.windows.step("us") >= step)
        return pl.when(known.fill_null(False)).then(given).otherwise(pl.lit(self.other))


def tally(
    source: Source,
    reading: RowReading,
    domain: Sequence[str] | None = None,
    *,
    bound: RowHolder | None = None,
    watch: Callable[[int], None] | None = None,
) -> Private[Tally]:
    """Count events by window and group.

    Args:
        source: the events.
        reading: how they are read.
        domain: the declared groups; None exactly if there is no group column.
        bound: what holds the rows.
        watch: told how many rows have been read, as often as some have.

    Raises:
        InvalidInput: a missing column, a missing or unreadable time, a time that the
            clocks skip or pass twice, a missing or unknown group, a value that is missing, NaN or
            infinite, a missing user or id.
        SumOverflow: the sum of one cell is too large.
    """
    width = 1 if domain is None else len(domain) + 1
    across = _across(reading.adds)
    found, sums = _by_cell(source, reading, domain, bound, watch)
    rows_read, skipped, quarantined = int(found["rows"].sum()), 0, 0
    if found.height and found["cell"][0] < 0:
        if isinstance(source, Spread):
            bad = found.filter(pl.col("cell") < 0)
            problem = bad.select(problem=-(pl.col("cell") // (width * across)), rows="rows")
            skipped, quarantined = _without_bad_rows_of(source, reading, problem)
        else:
            skipped, quarantined = _without_bad_rows(source, reading)
        found = found.filter(pl.col("cell") >= 0)
    cells, counts = found["cell"] // across, found["rows"]
    steps, groups_of = cells // width, cells % width
    outside = found["cell"] % across == (across - 1 if across > 1 else -1)
    if domain is not None:
        outside = outside | (groups_of == len(domain))
    unknown = int(counts.filter(outside).sum())
    if unknown and reading.unknown == "refuse":
        raise _unknown_groups(source, reading, domain or ())
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
        )
    )


def _by_cell(
    source: Source,
    reading: RowReading,
    domain: Sequence[str] | None,
    bound: RowHolder | None,
    watch: Callable[[int], None] | None,
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Sums of rows by cell, of a source here or elsewhere; and see `Tally.sums`."""
    if isinstance(source, Spread):
        if bound is not None:
            for some in open_private(source.marked(reading, domain)):
                bound.take(bound.wanted(some.lazy()).collect())
        return open_private(source.cells(reading, domain)).sort("cell"), ()
    rows = marked(source, reading, watch, numbered=True)
    by = [PART] if len(source.parts) > 1 else []
    adding = partial(
        _sums_by_cell, domain=domain, adds=reading.adds, newest=True, by=by, moments=True
    )
    if bound is None:
        each = collected(source, adding(rows))
    else:
        each = _held(source, bound.wanted(rows), bound, adding, ["cell", *by])
    sums = _sums_of_parts(each, len(source.parts), domain, _across(reading.adds))
    return _together(each).sort("cell"), sums


def _held(
    source: Source,
    rows: pl.LazyFrame,
    bound: RowHolder,
    adding: Callable[[pl.LazyFrame], pl.LazyFrame],
    by: Sequence[str],
) -> pl.DataFrame:
    """Rows added up, and held, some at a time."""
    added = [adding(rows.collect_schema().to_frame().lazy()).collect()]
    batches = rows.collect_batches(chunk_size=_AT_A_TIME, engine="streaming")
    try:
        for batch in batches:
            bound.take(batch)
            added.append(adding(batch.lazy()).collect())
            if sum(map(len, added)) > 2 * len(added[0]) + _AT_A_TIME:
                added = [_of_batches(added, by)]
    except UNREADABLE as error:
        raise _unreadable(source, error) from error
    return _of_batches(added, by)


def _of_batches(added: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
    together = pl.concat(added)
    sums = [name for name in together.columns if name not in (*by, "us")]
    newest = [pl.col("us").max()] if "us" in together.columns else []
    found = together.group_by(by).agg(*newest, pl.col(sums).sum())
    return found.select(together.columns)


def _sums_of_parts(
    each: pl.DataFrame, parts: int, domain: Sequence[str] | None, across: int
) -> tuple[str, ...]:
    """What the rows of each part come to: see `Tally.sums`."""
    width = 1 if domain is None else len(domain) + 1
    window, group = pl.col("cell") // across // width, pl.col("cell") // across % width
    cells = each.with_columns(window=window, place=pl.col("cell") % across)
    if domain is not None:  # groups by name: a later night may declare more of them
        names = GroupNames(domain).plus([""]).column
        cells = cells.with_columns(name=pl.lit(names).gather(group))
    by = [name for name in ("window", "name", "place") if name in cells.columns]
    numbers = [name for name in each.columns if name.startswith(("rows", "total", "moment"))]
    if PART not in cells.columns:
        cells = cells.with_columns(pl.lit(0, pl.UInt32).alias(PART))
    found = [""] * parts
    for (part,), rows in cells.sort(PART, *by).partition_by(PART, as_dict=True).items():
        hashed = hashlib.sha256(b"counton/sums 1")
        for name in [*by, *numbers]:
            hashed.update(f"/{name} {rows.height}/".encode())
            if name == "name":
                hashed.update("\n".join(rows[name]).encode())
            else:
                hashed.update(rows[name].to_numpy().astype("<i8").tobytes())
        found[part] = hashed.hexdigest()
    return tuple(found)


def _together(each: pl.DataFrame) -> pl.DataFrame:
    """Sums of all parts."""
    sums = [name for name in each.columns if name not in (PART, "cell", "us")]
    sums = [name for name in sums if not name.startswith("moment")]
    if PART not in each.columns:
        return each.select("cell", "us", *sums)
    return each.group_by("cell").agg(pl.col("us").max(), pl.col(sums).sum())


def cells_of(
    rows: Rows,
    reading: RowReading,
    domain: Sequence[str] | None,
    alike: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Sums of some of a run's rows by cell: `summed` adds up those of several.

    Args:
        rows: some of them.
        reading: how they are read; where it discovers groups, sums are by label.
        domain: the declared groups.
        alike: where each row stands for several in its window that say the same: how many
            (``number``), and where their times differ the microsecond of the newest (``newest``).

    Returns:
        Columns ``cell`` (window, group and place), ``group`` (a label where they are discovered,
        else null), ``rows``, ``us`` (the newest), and for each place to which rows add more than
        themselves ``total N`` (int64, modulo 2^64) and ``magnitude N`` (float64).
    """
    marked, number = _mark(rows, reading), None
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
    """See `cells_of`, of marked rows."""
    if reading.unknown == "discover":
        found = _added(marked, _window(), reading.adds, newest=True, by=["group"], number=number)
    else:
        found = _sums_by_cell(marked, domain, reading.adds, newest=True, number=number)
        found = found.with_columns(group=pl.lit(None, pl.String))
    sums = [name for name in found.collect_schema().names() if name not in ("cell", "group")]
    return found.select("cell", "group", *sums).collect()


def summed(cells: Sequence[pl.DataFrame]) -> pl.DataFrame:
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
    across, width = _across(adds), len(domain) + 1
    window, rest = pl.col("cell") // across, pl.col("cell") % across
    cell = (window * width + pl.col("place").cast(pl.Int64).fill_null(len(domain))) * across + rest
    placed = _placed(cells.lazy(), domain).collect()
    return summed([placed.with_columns(cell=cell, group=pl.lit(None, pl.String)).drop("place")])


def labels_of(cells: pl.DataFrame, reading: RowReading) -> pl.DataFrame:
    """Labels that are within the windows, and the first window of each, from sums by label."""
    found = cells.select("group", step=pl.col("cell") // _across(reading.adds)).filter(
        pl.col("step").is_between(1, reading.windows.steps), pl.col("group").is_not_null()
    )
    return found.group_by("group").agg(pl.col("step").min())


def picked(rows: Rows, reading: RowReading, which: pl.Expr) -> pl.DataFrame:
    """Of some rows, as they are, those of which an expression of marked rows is true."""
    found = _mark(rows, reading).with_row_index("row").filter(which).select("row").collect()["row"]
    names = rows.of_file(reading.columns.names)
    number = _beside(names)
    given = rows.scan(names).with_row_index(number).filter(pl.col(number).is_in(found.implode()))
    return given.select(names).collect()


def candidates(
    rows: Rows, reading: RowReading, domain: Sequence[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of some rows those that could count, marked, and sums of all of them by cell.

    Args:
        rows: some of a run's rows.
        reading: how they are read.
        domain: the declared groups; None: there are none, or they are discovered.

    Returns:
        Rows of windows and groups that there are, with a declared group as its place in the
        domain; and sums as of `cells_of`.
    """
    frame = _mark(rows, reading).collect()
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


def _sums_by_cell(
    rows: pl.LazyFrame, domain: Sequence[str] | None, adds: Adds | None, **more: Any
) -> pl.LazyFrame:
    """Marked rows by window and place of a group: see `_added`."""
    return _added(_placed(rows, domain), _cell(domain), adds, **more)


def _placed(rows: pl.LazyFrame, domain: Sequence[str] | None) -> pl.LazyFrame:
    """Rows with the ``place`` of their group in the domain; null where it is not declared.

    A join, since categories of a million names take seven times as long.
    """
    if domain is None:
        return rows
    if rows.collect_schema()["group"] != pl.String:  # categories of the domain: of rows of people
        return rows.with_columns(place=pl.col("group").to_physical())
    return rows.join(GroupNames(domain).positions().lazy(), on="group", how="left")


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
        groups: how many there are.
        adds: see `RowReading`.
    """
    cell = pl.col("step") * groups + pl.col("group")
    none = pl.DataFrame(schema=dict.fromkeys(("step", "group", "total"), pl.Int64))
    added: list[pl.DataFrame] = []
    for rows in chain((none,), parts):
        added.append(_added(rows.lazy(), cell, adds).collect())
        if sum(map(len, added)) > 2 * len(added[0]) + _AT_A_TIME:
            added = [_of_batches(added, ["cell"])]
    found = _of_batches(added, ["cell"]).sort("cell")
    cells = found["cell"] // _across(adds)
    parted = found.with_columns(step=cells // groups, group=cells % groups)
    return _by_place(parted, adds)


def _across(adds: Adds | None) -> int:
    """Cells into which a group is cut: its places, and one for rows of none that is known."""
    if adds is None or not by_row(adds):
        return 1
    return math.prod(map(len, adds.spans)) + 1


def by_row(adds: Adds) -> bool:
    """Whether what a row says decides in which place it counts; then it may be of none."""
    return any(not isinstance(place, int) for place, _ in adds.entries(pl.col("total")))


def times_counted(adds: Adds | None) -> int:
    """In how many places each row is counted."""
    return 1 if adds is None else len(adds.entries(pl.col("total")))


def _added(
    rows: pl.LazyFrame,
    cell: pl.Expr,
    adds: Adds | None,
    *,
    newest: bool = False,
    by: Sequence[str] = (),
    number: pl.Expr | None = None,
    moments: bool = False,
) -> pl.LazyFrame:
    """Rows by cell, windows one after the other: how many, and what they add to each place."""
    each = pl.lit(1, pl.Int64) if number is None else number
    many = pl.len().cast(pl.Int64) if number is None else number.sum()
    sums = [many.alias("rows")]
    if newest:
        sums.append(pl.col("us").max())
    if moments:  # modulo 2^64
        us = pl.col("us")
        sums += [us.sum().alias("moment 1"), (us * us).sum().alias("moment 2")]
    if adds is not None:
        entries = adds.entries(pl.col("total"))
        if by_row(adds):
            known, choice = pl.col("total") >= 0, pl.lit(0, pl.Int64)
            places = [place for place, _ in entries if not isinstance(place, int)]
            for place, span in zip(places, adds.spans, strict=True):
                known &= (place >= span.start) & (place < span.stop)
                choice = choice * len(span) + (place - span.start)
            none = _across(adds) - 1
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


def _by_place(found: pl.DataFrame, adds: Adds | None) -> pl.DataFrame:
    """A row for each place, from one for each group and, where rows decide, place."""
    group, names = pl.col("group"), ("step", "group", "rows", "total")
    if adds is None:
        return found.select("step", "group", "rows", total="rows")
    across = _across(adds)
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


def collected(source: Source, frame: pl.LazyFrame) -> pl.DataFrame:
    """A frame of a source's rows, computed.

    Raises:
        InvalidInput: the source cannot be read.
    """
    try:
        return frame.collect(engine="streaming")
    except UNREADABLE as error:
        raise _unreadable(source, error) from error


def _unreadable(source: Source, error: BaseException) -> Exception:
    """The error of the part that cannot be read."""
    for part in source.parts[:-1]:
        try:
            names = part.columns()
            part.frame(names).select(pl.col(names).is_null().any()).collect(engine="streaming")
        except UNREADABLE:
            return part.unreadable(error)
    return source.parts[-1].unreadable(error)


def marked(
    source: Source,
    reading: RowReading,
    watch: Callable[[int], None] | None = None,
    *,
    numbered: bool = False,
) -> pl.LazyFrame:
    """One row an event, in the source's order, whatever it is read from.

    Args:
        source: the events.
        reading: how they are read.
        watch: told how many rows have been read, as often as some have.
        numbered: with a column `PART` where there are several parts: the number of each row's.

    Returns:
        Columns ``us`` (microseconds since 1970), ``step`` (0 before the first window, one more than
        there are after the last; a row that cannot be counted has `NO_MOMENT` less its `Problem`
        instead), ``group`` (text), ``total`` (1, or the value on the grid), and, where
        the columns are stated, ``user`` and ``id`` (text).

    Raises:
        InvalidInput: a column is missing, or cannot hold what it should.
    """
    parts = [_mark(part, reading, watch) for part in source.parts]
    if len(parts) == 1:
        return parts[0]
    if numbered:
        parts = [
            frame.with_columns(pl.lit(place, pl.UInt32).alias(PART))
            for place, frame in enumerate(parts)
        ]
    return pl.concat(parts)


def _mark(
    part: Rows, reading: RowReading, watch: Callable[[int], None] | None = None
) -> pl.LazyFrame:
    columns = reading.columns
    parts = list(zip(columns.parts, _parts(reading), strict=True))
    told = [name for name in (columns.group, columns.user, columns.id) if name is not None]
    told += [name for name, one in parts if one is not None and one.kind == "label"]
    frame = part.scan(columns.names, told)
    types = frame.collect_schema()
    us = pl.col(columns.names[0]).is_null().cast(pl.Int64) * 0  # where rows have no time
    if columns.time:
        us = moments(
            columns.time,
            types[columns.time],
            reading.windows.timezone,
            reading.clock_change,
            reading.time_format,
        )
    if watch is not None:
        us = _watched(us, watch)
    if part.unread:
        frame, us = unread_marked(frame, us, part)
    taken = {"us": us}
    for name, column in (("group", columns.group), ("user", columns.user), ("id", columns.id)):
        if column is not None:
            taken[name] = as_text(pl.col(column), types[column])
    for place, (column, one) in enumerate(parts):
        label = one is not None and one.kind == "label"
        given = pl.col(column)
        taken[f"part {place}"] = as_text(given, types[column]) if label else given
    step, total = reading.windows.step("us"), pl.lit(1, dtype=pl.Int64)
    missing = [("user", Problem.NO_USER), ("id", Problem.NO_ID)]
    if reading.unknown == "refuse" and reading.other is None:
        missing.insert(0, ("group", Problem.NO_GROUP))
    problems = [
        (pl.col(name).is_null() | (pl.col(name) == ""), problem)
        for name, problem in missing
        if name in taken
    ]
    values = []
    for place, (_, one) in enumerate(parts):
        given = pl.col(f"part {place}")
        if one is not None and one.kind == "label":
            values.append(_code(given, one.labels))
            continue
        value = given.cast(pl.Float64, strict=False)
        finite = value.is_finite().fill_null(False)
        problems += [(given.is_null(), Problem.NO_VALUE), (~finite, Problem.NOT_FINITE)]
        if one is not None and one.kind == "count":
            whole = (value == value.floor()) & value.is_between(0, MOST_COUNTED)
            problems.append((finite & ~whole, Problem.NO_COUNT))
            finite &= whole
        values.append(pl.when(finite).then(value).otherwise(0.0))
    if values and reading.adds is not None:
        total = _said(values, reading.adds)
    for wrong, problem in reversed(problems):
        unless = pl.when(wrong & (pl.col("us") > NO_MOMENT))
        step = unless.then(NO_MOMENT - int(problem)).otherwise(step)
    kept: list[pl.Expr] = [pl.col(name) for name in ("user", "id") if name in taken]
    if "group" in taken:
        kept.insert(0, reading.group(pl.col("group")).alias("group"))
    return frame.select(**taken).select("us", *kept, step=step, total=total)


def unread_marked(frame: pl.LazyFrame, us: pl.Expr, part: Rows) -> tuple[pl.LazyFrame, pl.Expr]:
    """Rows and their times where some rows of a part cannot be read, which have this for a time."""
    number = _beside(frame.collect_schema().names())
    unread = pl.Series(list(part.unread), dtype=pl.UInt32)
    problem = NO_MOMENT - int(Problem.UNREADABLE_ROW)
    us = pl.when(pl.col(number).is_in(unread.implode())).then(problem).otherwise(us)
    return frame.with_row_index(number), us


def _parts(reading: RowReading) -> Sequence[EventPart | None]:
    """What is known of the columns of parts; nothing where rows are only read."""
    if reading.adds is None:
        return [None] * len(reading.columns.parts)
    return [part for part in reading.adds.parts if part.name != "by"]


def _code(given: pl.Expr, labels: Sequence[str]) -> pl.Expr:
    """Places of texts among the labels, `MISSING` where there is none, `OUTSIDE` for others."""
    place = given.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    nothing = given.is_null() | (given == "")
    return pl.when(nothing).then(MISSING).otherwise(place.fill_null(OUTSIDE))


def _watched(us: pl.Expr, watch: Callable[[int], None]) -> pl.Expr:
    def passing(rows: pl.Series) -> pl.Series:
        watch(len(rows))
        return rows

    return us.map_batches(passing, return_dtype=pl.Int64, is_elementwise=True)


def _said(values: Sequence[pl.Expr], adds: Adds) -> pl.Expr:
    """What rows say, of their parts; of a row that lacks one whatever it may be."""
    if len(values) == 1:
        return values[0].map_batches(
            lambda given: pl.Series(adds.said(given.to_numpy()), dtype=pl.Int64),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
    names = [f"part {place}" for place in range(len(values))]

    def said(rows: pl.Series) -> pl.Series:
        given = [rows.struct.field(name).to_numpy() for name in names]
        return pl.Series(adds.said(*given), dtype=pl.Int64)

    together = pl.struct([one.alias(name) for name, one in zip(names, values, strict=True)])
    return together.map_batches(said, return_dtype=pl.Int64, is_elementwise=True)


#: Problems of rows that lack something.
_LACKING = (
    *(Problem.NO_TIME, Problem.NO_GROUP, Problem.NO_VALUE),
    *(Problem.NO_USER, Problem.NO_ID),
)


def _bad(part: Rows, reading: RowReading) -> pl.LazyFrame:
    """Numbers of rows that cannot be counted, from 1, and their steps, which say why."""
    steps = _mark(part, reading).select("step").with_row_index("row", offset=1)
    return steps.filter(pl.col("step") < NO_MOMENT)


def _without_bad_rows(source: Source, reading: RowReading) -> tuple[int, int]:
    """How many rows are left out, and how many set aside, by the policies.

    Raises:
        InvalidInput: a row that the policies do not cover, or too many of them.
    """
    policies, columns = reading.policies, reading.columns.names
    lacking = pl.col("step").is_in([NO_MOMENT - int(problem) for problem in _LACKING])
    skipped, kept = 0, list[tuple[object, ...]]()
    for part in source.parts:
        bad = _bad(part, reading)
        if policies.missing == "skip":
            skipped += int(collected(source, bad.filter(lacking).select(pl.len())).item())
            bad = bad.filter(~lacking)
        rows = collected(source, bad.head(policies.most + 1 - len(kept)).sort("row"))
        if policies.quarantine is None and rows.height:
            raise _explain(source, reading)
        if len(kept) + rows.height > policies.most:
            raise InvalidInput(
                f"more than {policies.most:,} rows of {source.name} cannot be counted, which is as "
                f"many as may be set aside; look at them, or raise {field('bad_rows_most')}"
            )
        if rows.height:
            number = _beside(columns)
            texts = texts_of(part, columns).with_row_index(number, offset=1)
            cells = collected(source, texts.filter(pl.col(number).is_in(rows["row"].to_list())))
            for step, (row, *values) in zip(rows["step"], cells.sort(number).rows(), strict=True):
                place = row if part.numbered else ""
                shown = of_unread(part, row - 1, values)
                kept.append((part.name, place, Problem(NO_MOMENT - step).words, *shown))
    if policies.quarantine is not None:
        set_aside(policies.quarantine, columns, kept)
    return skipped, len(kept)


def of_unread(part: Rows, row: int, values: Sequence[object]) -> Sequence[object]:
    """Cells of a row; of one that cannot be read its line, in the first of them."""
    if row not in part.unread:
        return values
    return [part.unread[row], *[None] * (len(values) - 1)]


def texts_of(part: Rows, columns: Sequence[str]) -> pl.LazyFrame:
    """What stands in some columns, as texts."""
    frame = part.scan(columns)
    types = frame.collect_schema()
    return frame.select(as_text(pl.col(name), types[name]) for name in columns)


def _beside(columns: Sequence[str]) -> str:
    """A name for numbers of rows that none of the columns has: longer than each.

    >>> _beside(["time", "row"])
    'row timerow'
    """
    return f"row {''.join(columns)}"


def _without_bad_rows_of(
    source: Spread, reading: RowReading, problems: pl.DataFrame
) -> tuple[int, int]:
    """The same where rows lie elsewhere and have no numbers; ``problems`` says how many are bad."""
    policies = reading.policies
    lacking = pl.col("problem").is_in([int(problem) for problem in _LACKING])
    skipped, which = 0, pl.col("step") < NO_MOMENT
    if policies.missing == "skip":
        skipped = int(problems.filter(lacking)["rows"].sum())
        problems = problems.filter(~lacking)
        which &= ~pl.col("step").is_in([NO_MOMENT - int(problem) for problem in _LACKING])
    number = int(problems["rows"].sum())
    if not number:
        if policies.quarantine is not None:
            set_aside(policies.quarantine, reading.columns.names, ())
        return skipped, 0
    if policies.quarantine is None:
        raise _explain(_fetched(source, _some(source, reading, which, 1)), reading, number)
    rows = _some(source, reading, which, policies.most + 1)
    aside = _without_bad_rows(_fetched(source, rows), reading)[1]
    if aside != number:
        raise changed(source.parts[0])
    return skipped, aside


def _some(source: Spread, reading: RowReading, which: pl.Expr, most: int) -> pl.DataFrame:
    """A few rows of a source that lies elsewhere: for a message, or for the file of those."""
    return open_private(source.some(reading, which, most))


def _fetched(source: Spread, rows: pl.DataFrame) -> Source:
    """A few rows of a source that lies elsewhere.

    Raises:
        InvalidInput: there are none, and there were some.
    """
    if not rows.height:
        raise changed(source.parts[0])
    found = Fetched(rows, source.name)
    found.together = source.parts[0].together
    return Source((found,), source.name)


def changed(part: Rows) -> InvalidInput:
    """The error for rows that were not the same all the time they were read."""
    return InvalidInput(
        f"{part.name} changed while it was read, so it cannot be told what was counted; "
        f"{part.still}"
    )


def _explain(source: Source, reading: RowReading, rows_of_all: int | None = None) -> InvalidInput:
    """The error for the first row that cannot be counted, and how many there are."""
    number, first = 0, None
    for part in source.parts:
        bad = _bad(part, reading)
        if reading.policies.missing == "skip":
            bad = bad.filter(
                ~pl.col("step").is_in([NO_MOMENT - int(problem) for problem in _LACKING])
            )
        found = bad.select(
            pl.len(), pl.col("row").first(), pl.col("step").sort_by("row").first()
        ).collect(engine="streaming")
        rows, row, step = found.row(0)
        if rows and first is None:
            first = part, int(row), Problem(NO_MOMENT - int(step))
        number += rows
    assert first is not None
    number = number if rows_of_all is None else rows_of_all
    part, row, problem = first
    columns = reading.columns
    name = {
        Problem.NO_GROUP: columns.group,
        Problem.NO_USER: columns.user,
        Problem.NO_ID: columns.id,
    }.get(problem, columns.time)
    if problem in _OF_NUMBERS:
        name = _wrong_number(part, reading, row, problem)
    assert name is not None
    text = texts_of(part, (name,)).slice(row - 1, 1).collect()[name].to_list()[0]
    given = "" if text is None else f" ({_short(text)})"
    others = f" ({number:,} rows have such a problem)" if number > 1 else ""
    remedy = problem.remedy(reading.windows.timezone)
    return InvalidInput(
        f"{part.place_of(row)} has {problem.words} in column {name!r}{given}{others}; {remedy}"
    )


_OF_NUMBERS = (Problem.NO_VALUE, Problem.NOT_FINITE, Problem.NO_COUNT)


def _wrong_number(part: Rows, reading: RowReading, row: int, problem: Problem) -> str:
    """The column of numbers in which a row has a problem."""
    parts = zip(reading.columns.parts, _parts(reading), strict=True)
    names = [name for name, one in parts if one is None or one.kind != "label"]
    if len(names) == 1:
        return names[0]
    values = part.scan(names).slice(row - 1, 1).collect()
    numbers = values.select(pl.col(names).cast(pl.Float64, strict=False))
    for name in names:
        number = numbers[name][0]
        if problem == Problem.NO_VALUE:
            wrong = values[name][0] is None
        elif problem == Problem.NOT_FINITE:
            wrong = number is None or not np.isfinite(number)
        else:
            wrong = not (number is not None and 0 <= number <= MOST_COUNTED and number % 1 == 0)
        if wrong:
            return name
    return names[0]


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


_LONGEST = 80
_FEW = 1000  # rows of undeclared groups that are looked at
_APART = 2**40  # between numbers of rows of one file and of the next


def _unknown_groups(source: Source, reading: RowReading, domain: Sequence[str]) -> InvalidInput:
    outside, by_label = pl.lit(False), (pl.col("total") < 0) & (pl.col("step") > NO_MOMENT)
    if reading.columns.group is not None:
        names = GroupNames(domain).column.implode()
        outside = ~pl.col("group").is_in(names).fill_null(False)
    if isinstance(source, Spread):  # enough of them to show
        first = outside
        if reading.columns.group is not None:
            first &= pl.col("group").is_first_distinct()
        rows = _some(source, reading, first, _FEW)
        if not rows.height:
            rows = _some(source, reading, by_label, 1)
        source = _fetched(source, rows)
    of_labels = not collected(source, _numbered(source, reading).filter(outside).head(1)).height
    if of_labels:
        outside = by_label
    found = _numbered(source, reading).filter(outside)
    if of_labels:
        parts = zip(reading.columns.parts, _parts(reading), strict=True)
        labels = [name for name, one in parts if one is not None and one.kind == "label"]
        least = collected(source, found.select(pl.col("row").min())).item()
        number, row = divmod(int(least), _APART)
        given = source.parts[number].scan(labels, labels).slice(row - 1, 1).collect()
        shown = _short(given.row(0) if len(labels) > 1 else given.row(0)[0])
        what = f"rows of {', '.join(map(repr, labels))}"
    else:
        groups = collected(source, found.group_by("group").agg(pl.col("row").min())).sort("group")
        number, row = divmod(int(groups["row"].min()), _APART)  # type: ignore[arg-type]
        found_names = groups["group"].to_list()
        more = f" and {len(found_names) - _SHOWN:,} more" if len(found_names) > _SHOWN else ""
        shown = ", ".join(_short(name) for name in found_names[:_SHOWN]) + more
        what = f"groups in column {reading.columns.group!r}"
    part = source.parts[number]
    where = f" of {part.name}" if len(source.parts) > 1 else ""
    first_in = f" (first in row {row:,}{where})" if part.numbered else ""
    return InvalidInput(
        f"{source.name} has {what} that are not declared: {shown}{first_in}; "
        f"correct the data or {field('domain')}, or drop such rows ({field('unknown', 'drop')})"
    )


def _numbered(source: Source, reading: RowReading) -> pl.LazyFrame:
    """Marked rows with their numbers, which those of the next file follow at a distance."""
    return pl.concat(
        [
            _mark(part, reading)
            .drop("us", "user", "id", strict=False)
            .with_row_index("row", offset=1)
            .with_columns(pl.col("row").cast(pl.Int64) + place * _APART)
            for place, part in enumerate(source.parts)
        ]
    )


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
