"""Which rows count, so that one user changes no more than is stated, and no row counts twice.

A unit is a user or, with ``per``, one user's period. At most ``most`` of its rows are taken. A row
that is taken stays taken; of the rows that a run finds anew, the first in the order (time, group,
value, digest of the id) are taken as long as there is room. So the choice depends on the unit's own
rows alone, and on the run that brought them: with or without the unit, the same rows of all others
are taken, of those that the run accepts. Without ids it may refuse a file that comes again, or
count none of it, by the looks of all its rows; with ids it never does.

**What is remembered.** Of each row that is taken: the user's digest, the window, the group, the
value. A file with everything since the first window holds the rows that were taken before; they are
told from new ones by window, group and value, since rows that agree in these do the same. With a
column of ids rows are told by their ids, unit by unit: else one unit's ids would decide which rows
of another count.

**What is forgotten.** Rows from more than `LATE_DAYS` before the end of the last released window
count nowhere: with periods, rows of periods that ended before then; with ids, rows of days before
then. What is remembered of such periods is forgotten, and no room comes back by that, because none
of their rows is looked at again. Users without periods are never forgotten. An id is remembered by
the day on which the window ends with which it is counted, so that it is known for as long after it
was counted, whatever its time says then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.arrays import Integers
from counton.errors import ReplayMismatch, field
from counton.events.files import Source
from counton.events.spread import Spread
from counton.events.tally import PART, added_up, by_row, collected
from counton.jobs.definition import Definition
from counton.jobs.guards import LATE_DAYS
from counton.jobs.intake import KNOWN_SHARE, known_rows
from counton.private import Private, open_private
from counton.results.description import People
from counton.store import Stream, marks

_DAY_US = 86_400_000_000
_LENGTHS = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_CELL = ("step", "group", "total")
#: The purpose of digests of users, and the kind of marks that refuse new ones of a bucket.
USER, REFUSED = 1, "refused"
#: Into so many parts all users fall, of which one is refused for each person who was forgotten.
BUCKETS = 1024
#: Fewer rows of users known in the same windows may be chance.
_FEW = 3


class Held:
    """Rows held in memory until it is known which of them count: what `tally` is ``bound`` by.

    The tally is then that of all rows.
    """

    def __init__(self, source: Source, definition: Definition, secret: marks.Secret) -> None:
        self._source, self._definition, self._secret = source, definition, secret
        self._frame = pl.DataFrame()

    def __call__(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """Marked rows, read once, with digests for names."""
        columns, domain = self._definition.columns, self._definition.domain
        wanted = [pl.col("us"), pl.col("step")]
        if len(self._source.parts) > 1 and not isinstance(self._source, Spread):
            wanted.append(pl.col(PART))
        if domain is not None:
            wanted.append(pl.col("group").cast(pl.Enum(list(domain)), strict=False))
        if columns.parts:
            wanted.append(pl.col("total"))
        for purpose, name in enumerate(("user", "id"), USER):
            if getattr(columns, name) is not None:
                digests = partial(_digests, self._secret, purpose)
                column = pl.col(name).fill_null("")
                wanted.append(
                    column.map_batches(digests, return_dtype=pl.UInt64, is_elementwise=True)
                )
        self._frame = collected(self._source, marked.select(wanted))
        return self._frame.lazy()

    def rows(self) -> pl.DataFrame:
        """Events of declared groups within the windows.

        Columns ``us``, ``step``, ``group``, ``total`` (Int64), and where there are such columns
        ``user`` and ``id`` (UInt64).
        """
        frame = self._frame
        inside = pl.col("step").is_between(1, self._definition.windows.steps)
        group = pl.lit(0, pl.Int64)
        if self._definition.domain is not None:
            inside &= pl.col("group").is_not_null()
            group = pl.col("group").to_physical().cast(pl.Int64)
        total = pl.col("total") if "total" in frame.columns else pl.lit(1, pl.Int64)
        adds = self._definition.adds
        if adds is not None and by_row(adds):
            inside &= total >= 0  # else it is of no cell that is known
        return frame.drop(PART, strict=False).filter(inside).with_columns(group=group, total=total)


def bucket_of(digests: Any) -> Any:
    """Which part of all users a digest, or each of several, falls into."""
    return np.asarray(digests, np.uint64) % np.uint64(BUCKETS)


def _digests(secret: marks.Secret, purpose: int, texts: pl.Series) -> pl.Series:
    text = (texts.str.join("").item() if len(texts) else None) or ""
    lengths = texts.str.len_bytes().cast(pl.Int64).to_numpy()
    return pl.Series(secret.digests(text.encode(), lengths, purpose), dtype=pl.UInt64)


@dataclass(frozen=True)
class Chosen:
    """Rows that count. Exact data: secret.

    Attributes:
        cells: ``step``, ``group``, ``rows``, ``total`` of the rows that are new and count.
        rows: these rows: ``us``, ``step``, ``group``, ``total``, ``user``, ``id``.
        users: what is to be remembered of them by period.
        over: rows that were left out, because their unit had its share.
        known: rows that were counted before.
        closed: rows that came too late to be counted at all.
    """

    cells: pl.DataFrame
    rows: pl.DataFrame
    users: list[marks.MarkSet]
    over: int
    known: int
    closed: int

    def __repr__(self) -> str:
        return "Chosen(secret)"


def period_of(us: pl.Expr, per: str | None, timezone: str) -> pl.Expr:
    """Number of the aligned period of each moment: calendar of the time zone, or whole hours.

    >>> frame = pl.DataFrame({"us": [4 * 3_600_000_000, 5 * 3_600_000_000]})
    >>> frame.select(period_of(pl.col("us"), "1d", "America/New_York"))["us"].to_list()
    [-1, 0]
    """
    if per is None:
        return us * 0
    match = re.fullmatch(r"(\d+)(s|m|h|d|w|mo)", per)
    assert match is not None
    amount, unit = int(match[1]), match[2]
    if unit in _LENGTHS:
        return us // (amount * _LENGTHS[unit])
    local = pl.from_epoch(us, time_unit="us").dt.replace_time_zone("UTC")
    local = local.dt.convert_time_zone(timezone)
    if unit == "mo":
        number = local.dt.year().cast(pl.Int64) * 12 + local.dt.month().cast(pl.Int64) - 1
    else:
        number = local.dt.date().to_physical().cast(pl.Int64)
        if unit == "w":
            number = (number + 3) // 7  # 1970 began on a Thursday, weeks begin on Mondays
    return number // amount


class Bounding:
    """The choice of rows for one run of a stream.

    Args:
        definition: of the stream.
        secret: by which users and ids are known again; None where nobody is known yet.
        append: the rows are new ones only, and not all since the first window.
        confirmed: new rows count even where they look like rows that were counted.
    """

    def __init__(
        self, definition: Definition, secret: marks.Secret | None, append: bool, confirmed: bool
    ) -> None:
        self._definition, self._append, self._confirmed = definition, append, confirmed
        self._people, self._windows = definition.people, definition.windows
        self._by_id, self._groups = definition.columns.id is not None, len(definition.groups)
        self._places = np.empty(self._groups, np.int64)  # of groups, in the order of their names
        self._places[np.argsort(np.array(definition.groups, dtype=object))] = range(self._groups)
        self._secret = marks.Secret.fresh() if secret is None else secret
        self._held: Held | None = None
        self._memory: Stream | None = None
        self._released = 0
        self._kept: list[marks.MarkSet] = []

    def hold(self, source: Source) -> Held:
        """What holds the rows of a source while they are tallied."""
        self._held = Held(source, self._definition, self._secret)
        return self._held

    def choose(self, memory: Stream | None, released: int) -> Private[Chosen]:
        """Of the rows held, those that are new and count.

        Args:
            memory: the stream; None for one that has counted nothing yet.
            released: steps released so far.

        Raises:
            ReplayMismatch: rows that were counted are missing from a file of all rows, or nearly
                all of them are in a file of new rows.
        """
        self._memory, self._released, self._kept = memory, released, []
        assert self._held is not None
        rows = self._held.rows()
        frame, known, over = self._open(self._with_period(rows)), 0, 0
        users: list[marks.MarkSet] = []
        closed = rows.height - frame.height
        if self._by_id:
            frame, known = self._without_known_ids(frame)
        if self._people is not None:
            frame, users, again, over = self._bounded(frame, self._people)
            known += again
        return Private(Chosen(self._cells(frame), frame, users, over, known, closed))

    def change(self, private: Private[Chosen], target: int) -> Private[marks.Change]:
        """What the stream has to remember of chosen rows once ``target`` steps are released."""
        chosen = open_private(private)
        added, forgotten = list[marks.MarkSet](), list[tuple[str, int]]()
        if self._by_id:
            if target:
                forgotten.append(("id", self._first_day(target)))
            # A row counts with its window, or with the next that is released.
            ends = self._windows.ends_of(np.maximum(chosen.rows["step"].to_numpy(), target))
            days = pl.Series(ends, dtype=pl.Int64).to_frame("us").select(_day(pl.col("us")))["us"]
            added += _parts("id", chosen.rows.select(digest="id").with_columns(period=days), ())
        if self._people is not None:
            first = None
            if self._people.per is not None and target:
                first = self._first_open(target)
                forgotten += [("user", first), (REFUSED, first)]
            added += [part for part in chosen.users if first is None or part.period >= first]
        former: dict[tuple[str, int], list[marks.MarkSet]] = {}
        for part in self._kept:
            former.setdefault((part.kind, part.period), []).append(part)
        full = {place for place, parts in former.items() if len(parts) >= marks.MOST_PARTS}
        held, replaced = [], []
        for part in added:
            place = (part.kind, part.period)
            if place in full:
                replaced.append(place)
                part = marks.merge([*former[place], part])
            held.append(part)
        return Private(marks.Change(self._secret, held, replaced, forgotten))

    def _cells(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows and totals by window and group."""
        return added_up(frame.lazy(), self._groups, self._definition.adds)

    def _with_period(self, rows: pl.DataFrame) -> pl.DataFrame:
        """With the number of each row's period; where windows are parts of periods, by window."""
        per = None if self._people is None else self._people.per
        zone = self._windows.timezone
        if per is None:
            return rows.with_columns(period=pl.lit(0, pl.Int64))
        first, last = rows["step"].min(), rows["step"].max()
        if isinstance(first, int) and isinstance(last, int) and last - first < rows.height:
            steps = range(first, last + 1)
            edges = pl.DataFrame({"begin": self._windows.starts(steps)}).with_columns(
                end=pl.Series(self._windows.ends(steps)) - 1
            )
            periods = edges.select(period_of(pl.col(name), per, zone) for name in edges.columns)
            if periods["begin"].equals(periods["end"]):
                place = rows["step"].to_numpy() - first
                return rows.with_columns(period=pl.Series(periods["begin"].to_numpy()[place]))
        return rows.with_columns(period=period_of(pl.col("us"), per, zone))

    def _open(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows that do not come too late."""
        if not self._released:
            return frame
        frame = frame.filter(pl.col("period") >= self._first_open(self._released))
        if self._by_id:
            frame = frame.filter(_day(pl.col("us")) >= self._first_day(self._released))
        return frame

    def _line(self, released: int, late: int) -> pl.DataFrame:
        end = int(self._windows.ends(range(released, released + 1))[0])
        return pl.DataFrame({"us": [end - late * _DAY_US]}, schema={"us": pl.Int64})

    def _first_open(self, released: int) -> int:
        """The first period of which rows are still looked at."""
        per = None if self._people is None else self._people.per
        period = period_of(pl.col("us"), per, self._windows.timezone)
        return int(self._line(released, LATE_DAYS).select(period).item())

    def _first_day(self, released: int, late: int = LATE_DAYS) -> int:
        return int(self._line(released, late).select(_day(pl.col("us"))).item())

    def _parts_of(self, kind: str) -> Iterator[marks.MarkSet]:
        """What is remembered; kept in mind since it may have to be merged."""
        if self._memory is not None:
            for part in open_private(self._memory.marks(kind)):
                self._kept.append(part)
                yield part

    def _without_known_ids(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """One row of each id, the first in order, and none whose id was counted before."""
        before = frame.height
        # Each id with its unit: what one unit writes says nothing of another's rows.
        owner = np.zeros(before, np.uint64)
        if self._people is not None:
            owner = self._secret.pair_digests(frame["user"].to_numpy(), frame["period"].to_numpy())
        digest = self._secret.pair_digests(frame["id"].to_numpy(), owner)
        frame = _first_of_each(frame.with_columns(id=pl.Series(digest)), ["id"], self._places)
        digest = frame["id"].to_numpy()
        seen = np.zeros(len(digest), np.bool_)
        for part in self._parts_of("id"):
            place = np.searchsorted(part.digests, digest)
            place[place == len(part.digests)] = 0
            seen |= part.digests[place] == digest
        frame = frame.filter(pl.Series(~seen, dtype=pl.Boolean))
        return frame, before - frame.height

    def _bounded(
        self, frame: pl.DataFrame, people: People
    ) -> tuple[pl.DataFrame, list[marks.MarkSet], int, int]:
        """The rows that count, their marks, how many were known, and how many were left out.

        Units with no more rows than may count, and none before, are found by sorting digests;
        only the others are looked at row by row.
        """
        before = self._before()
        looked_over = frame.height
        frame = self._not_refused(frame, before)
        refused = looked_over - frame.height
        rows = _Columns(frame)
        alone = 1 if people.distinct or people.first else people.most
        added: dict[int, marks.MarkSet] = {}
        contested, units = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        taken = [pl.DataFrame(schema=_TAKEN)]
        unmarked = np.ones(frame.height, np.bool_)
        count = known = 0
        for period, places in _by_number(frame["period"].to_numpy()):
            part = before.get(period)
            if part is not None and not self._by_id:
                again = rows.known(places, part, self._before_named())
                known += int(again.sum())
                if not self._append:
                    unmarked[places[again]] = False
                    places = places[~again]
            places = places[np.argsort(rows.users[places])]
            digests = rows.users[places]
            begins = np.flatnonzero(np.append(True, digests[1:] != digests[:-1])[: len(digests)])
            sizes = np.diff(np.append(begins, len(digests)))
            contests = sizes > alone
            if part is not None and len(begins):
                unit = np.searchsorted(digests[begins], part.digests)
                unit[unit == len(begins)] = 0
                there = digests[begins][unit] == part.digests
                contests[unit[there]] = True
                cells = dict(zip(_CELL, (fact[there] for fact in part.facts), strict=True))
                taken.append(pl.DataFrame({"unit": count + unit[there], **cells}, schema=_TAKEN))
            if contests.any():
                which = np.repeat(contests, sizes)
                contested.append(places[which])
                units.append(count + np.repeat(np.arange(len(sizes)), sizes)[which])
                places = places[~which]
            if len(places):
                held = tuple(fact[places] for fact in rows.facts)
                added[period] = marks.MarkSet("user", period, rows.users[places], held)
            count += len(sizes)
        if self._append and not self._by_id and not self._confirmed:
            _refuse_known(frame, known, before.values())
        elif not self._append and not self._by_id:
            _refuse_missing(sum(len(part.digests) for part in before.values()) - known)
        places = np.concatenate(contested)
        looked_at = frame[places].with_columns(unit=pl.Series(np.concatenate(units)))
        chosen = _first_rows(looked_at, pl.concat(taken), people, self._places)
        for part in _parts("user", chosen.rename({"user": "digest"}), _CELL):
            plainly = added.get(part.period)
            added[part.period] = part if plainly is None else marks.merge([plainly, part])
        unmarked[places] = False
        counted = frame.filter(pl.Series(unmarked, dtype=pl.Boolean))
        return (
            pl.concat([counted, chosen.select(counted.columns)]),
            list(added.values()),
            0 if self._append else known,
            looked_at.height - chosen.height + refused,
        )

    def _not_refused(self, frame: pl.DataFrame, before: dict[int, marks.MarkSet]) -> pl.DataFrame:
        """Rows without those that might be of a person who was forgotten: see `forgetting`.

        Whether a row stays depends on its own user's rows alone, and on who was asked to be
        forgotten.
        """
        parts = [*self._parts_of(REFUSED)]
        if not parts:
            return frame
        users, periods = frame["user"].to_numpy(), frame["period"].to_numpy()
        refused = np.zeros(frame.height, np.bool_)
        for part in parts:
            refused |= np.isin(bucket_of(users), part.digests) & (periods <= part.period)
        for period, part in before.items():
            refused &= ~((periods == period) & np.isin(users, part.digests))
        return frame.filter(pl.Series(~refused, dtype=pl.Boolean))

    def _before_named(self) -> NDArray[np.int64] | None:
        """In which group each was counted before it was named; None where that is its own."""
        this = self._definition
        if this.other is None or not this.named:
            return None
        before = np.arange(self._groups)
        before[[this.groups.index(group) for group, _ in this.named]] = this.groups.index(
            this.other
        )
        return before

    def _before(self) -> dict[int, marks.MarkSet]:
        """Rows of open periods that were taken before."""
        first = self._first_open(self._released) if self._released else None
        parts: dict[int, list[marks.MarkSet]] = {}
        for part in self._parts_of("user"):
            if first is None or part.period >= first:
                parts.setdefault(part.period, []).append(part)
        return {period: marks.merge(several) for period, several in parts.items()}


class _Columns:
    """Rows as arrays."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.users = frame["user"].to_numpy()
        self.facts = [frame[name].to_numpy() for name in _CELL]
        self._us = frame["us"].to_numpy()

    def known(
        self, places: NDArray[np.int64], part: marks.MarkSet, before: NDArray[np.int64] | None
    ) -> NDArray[np.bool_]:
        """Which rows are those of a part: of equal ones the first, as many as it has.

        Args:
            places: of the rows looked at.
            part: what is remembered.
            before: of groups that were named later, the one in which their rows were counted until
                then: a row of a window that was open may be known by that.
        """
        kinds, times = np.unique(_mixed([part.digests, *part.facts]), return_counts=True)
        step, group, total = (fact[places] for fact in self.facts)
        known = self._among(places, [step, group, total], kinds, times)
        if before is not None:
            was = before[group]
            rest = np.flatnonzero(~known & (was != group))
            if len(rest):
                facts = [step[rest], was[rest], total[rest]]
                known[rest] = self._among(places[rest], facts, kinds, times)
        return known

    def _among(
        self,
        places: NDArray[np.int64],
        facts: Sequence[NDArray[np.int64]],
        kinds: NDArray[np.uint64],
        times: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Which rows are among those of each kind, which are then fewer."""
        mine = _mixed([self.users[places], *facts])
        kind = np.searchsorted(kinds, mine)
        kind[kind == len(kinds)] = 0
        known = kinds[kind] == mine
        found = np.bincount(kind[known], minlength=len(kinds))
        doubtful = np.flatnonzero(known & (found > times)[kind])
        if len(doubtful):
            order = doubtful[np.lexsort((self._us[places[doubtful]], kind[doubtful]))]
            ordered = kind[order]
            begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            sizes = np.diff(np.append(begins, len(ordered)))
            rank = np.arange(len(ordered)) - np.repeat(begins, sizes)
            known[order] = rank < times[ordered]
        np.subtract(times, np.bincount(kind[known], minlength=len(kinds)), out=times)
        return np.asarray(known)


def _mixed(columns: Sequence[NDArray[Any]]) -> NDArray[np.uint64]:
    """One word for each row, for comparisons in memory: rows that differ have others.

    Not by chance in 2^64, and nobody can try: digests are secret.
    """
    word = columns[0].astype(np.uint64)
    for column in columns[1:]:
        word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        word ^= column.astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return word ^ (word >> np.uint64(32))


_TAKEN = dict.fromkeys(("unit", *_CELL), pl.Int64)


def _day(us: pl.Expr) -> pl.Expr:
    return us // _DAY_US


def _by_number(numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each number that occurs, and where."""
    if not len(numbers):
        return
    distinct: NDArray[Any] = numbers - numbers.min()
    if distinct.max() < 2**16:
        distinct = distinct.astype(np.uint16)  # sorted without comparisons
    order = np.argsort(distinct, kind="stable")
    ordered = numbers[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    for begin, end in zip(begins, np.append(begins[1:], len(ordered)), strict=True):
        yield int(ordered[begin]), order[begin:end]


def _in_order(frame: pl.DataFrame, places: Integers) -> pl.DataFrame:
    """Rows in the order in which a unit's are taken: by time, name of the group, value, and id.

    A function of the row alone. Not by the number of the group: where groups are discovered, other
    units' rows decide which number it has. And without ties between rows that differ: how a sort
    leaves these would hang on all rows.
    """
    named = frame.with_columns(place=pl.Series(places[frame["group"].to_numpy()], dtype=pl.Int64))
    ids = [name for name in ("id",) if name in named.columns]
    return named.sort("us", "place", "total", *ids).drop("place")


def _first_of_each(frame: pl.DataFrame, by: Sequence[str], places: Integers) -> pl.DataFrame:
    """Of the rows with equal values ``by``, the first in order."""
    several = pl.struct(by).is_duplicated()
    marked = frame.with_columns(several=several)
    if not marked["several"].any():
        return frame
    ordered = _in_order(marked.filter("several"), places)
    firsts = ordered.unique(by, keep="first", maintain_order=True)
    return pl.concat([marked.filter(~pl.col("several")), firsts]).drop("several")


def _refuse_known(frame: pl.DataFrame, again: int, before: Iterable[marks.MarkSet]) -> None:
    """Refuse new rows among which nearly all are that were counted in the same windows."""
    if again < _FEW:
        return
    windows = frame["step"].unique().to_numpy()
    counted = sum(int(np.isin(part.facts[0], windows).sum()) for part in before)
    if again >= KNOWN_SHARE * counted:
        raise known_rows(again)


def _refuse_missing(missing: int) -> None:
    if missing:
        raise ReplayMismatch(
            f"{missing:,} rows of users that were counted are missing, or have another time, "
            f"group or value: rows must not disappear or change once they are counted; restore "
            f"them, or use {field('append', True)} for a file that holds new events only"
        )


def _first_rows(
    frame: pl.DataFrame, taken: pl.DataFrame, people: People, places: Integers
) -> pl.DataFrame:
    """The first rows of each unit for which there is room."""
    if people.distinct or people.first:
        cell = ["unit", "group"] if people.first else ["unit", "step", "group"]
        frame = _first_of_each(frame.join(taken, on=cell, how="anti"), cell, places)
    room: pl.Expr = pl.lit(people.most, pl.Int64)
    if taken.height:
        used = taken.group_by("unit").agg(used=pl.len().cast(pl.Int64))
        frame = frame.join(used, on="unit", how="left")
        room -= pl.col("used").fill_null(0)
    frame = frame.with_columns(room=room, wanted=pl.len().over("unit"))
    within = frame.filter(pl.col("wanted") <= pl.col("room"))
    beyond = frame.filter(pl.col("wanted") > pl.col("room"), pl.col("room") > 0)
    beyond = _in_order(beyond, places)
    beyond = beyond.filter(pl.int_range(pl.len()).over("unit") < pl.col("room"))
    return pl.concat([within, beyond]).drop("room", "wanted", "used", strict=False)


def _parts(kind: str, taken: pl.DataFrame, facts: Sequence[str]) -> list[marks.MarkSet]:
    """Rows by period; in each the digests ascend."""
    digests = taken["digest"].to_numpy()
    columns = [taken[name].to_numpy() for name in facts]
    made = []
    for period, places in _by_number(taken["period"].to_numpy()):
        order = places[np.argsort(digests[places], kind="stable")]
        held = tuple(column[order] for column in columns)
        made.append(marks.MarkSet(kind, period, digests[order], held))
    return made
