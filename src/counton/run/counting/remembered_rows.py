"""What a stream remembers of the rows that it has counted: digests of their users and ids.

Of each counted row of a user the state keeps the user's digest, the window, the group and the
value, so that a later snapshot that repeats the row does not count it again; of each row with an id
it keeps the digest of the id. Of an input that always has all rows, it also keeps the number of
rows that are too old to count from then on: if a later input has more, rows arrived too late. Rows
that an input lacks stay in this number, because a later one may have them again.

Rows that are older than `Windows.remembered_days` at the end of the last released window count
nowhere. So their digests are deleted: with periods those of periods that ended before then, with
ids those of days before then. This gives no user room for new rows, since rows of these periods are
never looked at again. Users without periods are never forgotten. An id is kept with the day on
which the window that counts it ends, whatever the time of its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.private import reveal
from counton.run.spec.terms import StreamTerms
from counton.state.dedup import MOST_PARTS, DigestChange, DigestSet, Secret
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.periods import period_of
from counton.windowing.windows import Windows

#: Microseconds of a day.
DAY = 86_400_000_000
#: Number of buckets into which users' digests fall. Each erased user makes one of them refused.
BUCKETS = 1024
#: Kind of digest sets that refuse new users of some buckets, up to a period.
REFUSED = "refused"
#: Kind of digest sets that close all periods up to one: in these everybody was forgotten.
CLOSED = "closed"
#: Kind of the set with the number of rows that are too old to count. Its period is the number of
#: released steps.
PAST = "past"
_EARLIEST = -(2**62)  # no period or day is earlier
_FACTS = ("window", "group", "total", "step_of_bound", "replaced")
_USERS = {"user": pl.UInt64, "period": pl.Int64, **dict.fromkeys(_FACTS, pl.Int64)}
_IDS = {"id": pl.UInt64, "day": pl.Int64}
_REFUSED = {"bucket": pl.UInt64, "last_period": pl.Int64}
_NO_USERS = pl.DataFrame(schema=_USERS)
_NO_IDS = pl.DataFrame(schema=_IDS)
_NO_REFUSED = pl.DataFrame(schema=_REFUSED)


_Digests = TypeVar("_Digests", NDArray[np.uint64], pl.Expr)


def bucket_of(digests: _Digests) -> _Digests:
    """Return the bucket (0 to `BUCKETS` - 1) of each digest of a user."""
    return digests % BUCKETS


class FirstOpen(NamedTuple):
    """The earliest period of users, and the earliest day of ids, of which rows may count."""

    period: int
    day: int

    @classmethod
    def after(
        cls, released: int, windows: Windows, per: str | None, last_closed: int | None = None
    ) -> FirstOpen:
        """Return those after so many released steps.

        This alone decides which rows are considered, and which digests are read and deleted. A row
        that is considered although its digest is deleted would count twice.

        Args:
            released: number of released steps.
            per: length of a period of users.
            last_closed: last period that the operator has closed, since everybody in it was
                forgotten.
        """
        first_not_closed = _EARLIEST if last_closed is None else last_closed + 1
        if not released:
            return cls(first_not_closed, _EARLIEST)
        end = int(windows.ends(range(released, released + 1))[0])
        oldest = end - windows.remembered_days * DAY
        period = period_of(pl.lit(oldest, pl.Int64), per, windows.timezone)
        first = int(pl.select(period).item())
        return cls(max(first, first_not_closed), oldest // DAY)


def kept_columns(terms: StreamTerms) -> Sequence[str]:
    """Return the names of what is kept with the digest of a user, in the order of the state."""
    columns = ["window", "group", "total"]
    if terms.privacy_unit.rule.max_contributions_per_window is not None:
        columns.append("step_of_bound")
    if terms.max_corrections:
        columns.append("replaced")
    return columns


@dataclass(frozen=True, repr=False)
class RememberedRows:
    """The rows that earlier runs have counted, by digests. Secret.

    Attributes:
        users: ``user``, ``period`` and the kept columns of a row.
        ids: ``id`` and ``day``.
        refused_buckets: ``bucket`` of users, in which no new user counts up to ``last_period``.
        first_open: the earliest period and day of which rows may count.
        sets: by kind and period, the number of sets in which the state keeps the digests.
        past_rows: number of rows that were too old to count after the last release; None: unknown,
            or not of the same periods.
    """

    users: pl.DataFrame
    ids: pl.DataFrame
    refused_buckets: pl.DataFrame
    first_open: FirstOpen
    sets: Mapping[tuple[str, int], int]
    past_rows: int | None = None

    @classmethod
    def read(
        cls, stream: JournalReader | None, terms: StreamTerms, released: int
    ) -> RememberedRows:
        """Read what a stream remembers of rows that may still come again; None: a new stream.

        Args:
            released: number of released steps.
        """
        windows = terms.windowing.windows
        period = terms.privacy_unit.rule.contribution_period
        if stream is None:
            first_open = FirstOpen.after(released, windows, period)
            return cls(_NO_USERS, _NO_IDS, _NO_REFUSED, first_open, {})
        closed = [digest_set.period for digest_set in reveal(stream.digest_sets(CLOSED))]
        first_open = FirstOpen.after(released, windows, period, max(closed, default=None))
        refused_buckets = [_NO_REFUSED]
        for digest_set in reveal(stream.digest_sets(REFUSED)):
            last_period = pl.lit(digest_set.period, pl.Int64)
            buckets = pl.DataFrame({"bucket": digest_set.digests})
            refused_buckets.append(buckets.with_columns(last_period=last_period))
        sets: Counter[tuple[str, int]] = Counter()
        users = [_NO_USERS]
        if terms.privacy_unit.user_column is not None:
            for digest_set in reveal(stream.digest_sets("user")):
                sets["user", digest_set.period] += 1
                if digest_set.period >= first_open.period:
                    users.append(_users_of(digest_set, kept_columns(terms)))
        ids = [_NO_IDS]
        if terms.recognition.id_column is not None:
            # None is older than the first open day, since each run that releases steps of a stream
            # with ids deletes those. Users may be older: a run without new files deletes nothing.
            for digest_set in reveal(stream.digest_sets("id")):
                sets["id", digest_set.period] += 1
                day = pl.lit(digest_set.period, pl.Int64)
                ids.append(pl.DataFrame({"id": digest_set.digests}).with_columns(day=day))
        return cls(
            users=pl.concat(users),
            ids=pl.concat(ids),
            refused_buckets=pl.concat(refused_buckets),
            first_open=first_open,
            sets=sets,
            past_rows=_past_rows_of(stream, first_open, released),
        )

    def without_refused(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of users that are not refused because of an erasure.

        Once a user is erased, new users of the same bucket are refused in all periods that had
        begun by then. A user of whom a row was counted before in the period is not new. So whether
        a row stays depends on its user's own rows and on the requests to erase alone.
        """
        if not self.refused_buckets.height:
            return rows
        buckets = self.refused_buckets.group_by("bucket").agg(pl.col("last_period").max())
        compared = rows.with_columns(bucket=bucket_of(pl.col("user")))
        compared = compared.join(buckets, on="bucket", how="left", maintain_order="left")
        known_users = (
            self.users.select("user", "period").unique().with_columns(is_known=pl.lit(value=True))
        )
        compared = compared.join(
            known_users, on=["user", "period"], how="left", maintain_order="left"
        )
        is_refused = (pl.col("period") <= pl.col("last_period")) & pl.col("is_known").is_null()
        return compared.filter(~is_refused.fill_null(value=False)).select(rows.columns)


def change_of_memory(
    before: RememberedRows,
    users: pl.DataFrame,
    ids: pl.DataFrame,
    *,
    secret: Secret,
    terms: StreamTerms,
    target: int,
    past_rows: int | None = None,
) -> DigestChange:
    """Return the digests to add and to delete once ``target`` steps are released.

    Args:
        users: counted rows of users; if slots are replaced, all slots of each period that changes.
        ids: counted rows with ids: ``id`` and ``window``.
        past_rows: number of rows that are too old to count from then on; None: unknown.
    """
    first = FirstOpen.after(
        target, terms.windowing.windows, terms.privacy_unit.rule.contribution_period
    )
    first_period = max(first.period, before.first_open.period)
    changes = []
    if terms.recognition.id_column is not None:
        changes.append(_change_of_ids(before, ids, terms.windowing.windows, target, first.day))
    if terms.privacy_unit.user_column is not None:
        changes.append(_change_of_users(before, users, terms, first_period))
        changes.append(_ChangeOfKind((), (), (REFUSED, first_period)))
        changes.append(_change_of_past(past_rows, first_period, target))
    return DigestChange(
        secret,
        added=[digest_set for change in changes for digest_set in change.added],
        replaced=[place for change in changes for place in change.replaced],
        forgotten=[change.forgotten for change in changes],
    )


class _ChangeOfKind(NamedTuple):
    """The change of the digests of users, or of ids.

    Attributes:
        replaced: places of the sets that are deleted, since ``added`` has their digests.
        forgotten: the first period whose digests are kept.
    """

    added: Sequence[DigestSet]
    replaced: Sequence[tuple[str, int]]
    forgotten: tuple[str, int]


def _change_of_ids(
    before: RememberedRows, ids: pl.DataFrame, windows: Windows, target: int, first_day: int
) -> _ChangeOfKind:
    # A late row counts at the first new step, or in a later run if there is none. Its id is kept as
    # if the last step counted it. That is safe, since it is never deleted before the row itself is
    # too old to count: its own window is no later.
    steps = np.maximum(ids["window"].to_numpy().astype(np.int64), target)
    days = np.asarray(windows.ends(steps), np.int64) // DAY
    new = ids.select("id", day=pl.Series(days))
    full = _full_periods(before, "id", new["day"])
    together = pl.concat([before.ids.filter(pl.col("day").is_in(full)), new])
    return _ChangeOfKind(
        added=list(_digest_sets("id", together, by="day", columns=())),
        replaced=[("id", day) for day in full],
        forgotten=("id", first_day),
    )


def _change_of_users(
    before: RememberedRows, users: pl.DataFrame, terms: StreamTerms, first_period: int
) -> _ChangeOfKind:
    columns = kept_columns(terms)
    rows_of_users = users.select("user", "period", *columns)
    if not (rows_of_users["period"] >= first_period).all():
        rows_of_users = rows_of_users.filter(pl.col("period") >= first_period)
    if terms.max_corrections:  # all slots of a period that changes
        full = rows_of_users["period"].unique().to_list()
    else:
        full = _full_periods(before, "user", rows_of_users["period"])
        if full:
            again = before.users.filter(pl.col("period").is_in(full)).select(rows_of_users.columns)
            rows_of_users = pl.concat([again, rows_of_users], how="vertical_relaxed")
    return _ChangeOfKind(
        added=list(_digest_sets("user", rows_of_users, by="period", columns=columns)),
        replaced=[("user", period) for period in full],
        forgotten=("user", first_period),
    )


def _past_rows_of(stream: JournalReader, first_open: FirstOpen, released: int) -> int | None:
    for past in reveal(stream.digest_sets(PAST)):
        (first_period,) = past.columns
        if past.period == released and first_period[0] == first_open.period:
            return int(past.digests[0])
    return None


def _change_of_past(past_rows: int | None, first_period: int, target: int) -> _ChangeOfKind:
    added = []
    if past_rows is not None:
        number = np.array([past_rows], np.uint64)
        added.append(DigestSet(PAST, target, number, (np.array([first_period], np.int64),)))
    return _ChangeOfKind(added, [(PAST, target)], (PAST, target))


def _users_of(digest_set: DigestSet, columns: Sequence[str]) -> pl.DataFrame:
    named = {"user": digest_set.digests, **dict(zip(columns, digest_set.columns, strict=True))}
    constants = dict.fromkeys(_FACTS, 0) | {"period": digest_set.period}
    absent = [
        pl.lit(constants[name], pl.Int64).alias(name) for name in constants if name not in columns
    ]
    return pl.DataFrame(named).with_columns(absent).select(list(_USERS)).cast(pl.Schema(_USERS))


def _full_periods(before: RememberedRows, kind: str, periods: pl.Series) -> list[int]:
    """Return the periods whose digests are in so many sets that these become one."""
    return [
        period for period in periods.unique() if before.sets.get((kind, period), 0) >= MOST_PARTS
    ]


def _digest_sets(
    kind: str, rows: pl.DataFrame, *, by: str, columns: Sequence[str]
) -> Iterator[DigestSet]:
    digest = "id" if kind == "id" else "user"
    rows_by_period = _sorted(rows, by)
    begin = 0
    for length, period in rows_by_period[by].rle().struct.unnest().iter_rows():
        ordered = _sorted(rows_by_period.slice(begin, length), digest)
        begin += length
        values = tuple(ordered[name].to_numpy() for name in columns)
        yield DigestSet(kind, period, ordered[digest].to_numpy(), values)


def _sorted(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return rows sorted by a column; rows that are equal in it stay in their order."""
    return rows if rows[column].is_sorted() else rows.sort(column, maintain_order=True)
