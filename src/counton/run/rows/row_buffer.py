"""The rows of a run, held in memory until all are read: only then can those that count be chosen.

Names of users and ids are replaced by keyed digests as they are read, and are held nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import narrowest
from counton.base.exact import name_alone
from counton.io.row_assignment import LIKE_MISSING, RowMapping, one_name, values_choose_sum
from counton.run.counting.contribution_choice import ChoiceCounts
from counton.state.dedup import Secret
from counton.windowing.lazy_polars import polars as pl

#: Approximate number of rows that are chosen from together.
_ROWS_OF_PORTION = 2**19
#: Number of buckets, by the first bits of their digests, into which users or ids fall.
_BUCKETS = 64
_DIGESTS_OF_BUCKET = 2**64 // _BUCKETS
#: Number of names that are hashed together, so that they stay in the cache.
_NAMES_AT_A_TIME = 2**14
#: Purposes of digests, by column: those of users and those of ids have nothing in common.
PURPOSES = {"id": 2, "user": 1}

#: Function that returns the rows that may still count, and the numbers of the others.
RowFilter = Callable[[pl.DataFrame], tuple[pl.DataFrame, ChoiceCounts]]


class Portion(NamedTuple):
    """Some of all users or, without users, of all ids: those whose digests lie in some
    consecutive buckets.
    """

    buckets: range

    def of(self, rows: pl.DataFrame, column: str) -> pl.DataFrame:
        """Return the rows of these users or ids."""
        bucket = _bucket(column)
        return rows.filter(bucket.is_between(self.buckets[0], self.buckets[-1]))


def _bucket(column: str) -> pl.Expr:
    """Return the bucket of each digest."""
    return (pl.col(column) // _DIGESTS_OF_BUCKET).cast(pl.UInt8)


def types_of_columns(steps: int, groups: int, *, has_values: bool) -> pl.Schema:
    """Return the narrowest types of a row's window, group and value.

    Args:
        steps: number of windows.
        groups: number of groups.
        has_values: whether rows have values; else each has the value 1.
    """
    integers = {1: pl.Int8, 2: pl.Int16, 4: pl.Int32, 8: pl.Int64}
    return pl.Schema(
        {
            "window": integers[narrowest(0, steps).itemsize],
            "group": integers[narrowest(0, groups).itemsize],
            "total": pl.Int64 if has_values else pl.Int8,
        }
    )


@name_alone
class RowBuffer:
    """Rows with the columns ``us``, ``window``, ``group``, ``total``, ``user`` and ``id``.

    Args:
        mapping: how the rows are read: their columns, and how they change sums (``row_rule``).
        secret: key of the digests.
        groups: names of groups, in the order of their places; None: all rows are of one group.

    Attributes:
        dropped: numbers of rows that were dropped before all were read, since they cannot count.
        height: number of rows that are held.
    """

    #: With fewer rows than this, none are dropped while others are still read.
    least = 2**24

    def __init__(
        self,
        mapping: RowMapping,
        secret: Secret,
        groups: Sequence[str] | None,
    ) -> None:
        self.secret = secret
        self.groups = ("",) if groups is None else groups
        self.row_rule = mapping.row_rule
        self.dropped = ChoiceCounts()
        self._mapping = mapping
        self._has_groups = groups is not None
        self._that_may_count: RowFilter | None = None
        columns = mapping.columns
        self._digest_columns = [name for name in PURPOSES if getattr(columns, name) is not None]
        # Users come first: a user's bound is applied within one portion, so a portion has all rows
        # of a user. It has all rows of an id too, since each user has ids of their own.
        self._bucket_column = "id" if columns.user is None else "user"
        self._types = types_of_columns(
            mapping.windows.steps, len(self.groups), has_values=mapping.row_rule is not None
        )
        self._nothing = pl.DataFrame(
            schema={"us": pl.Int64, **self._types, **dict.fromkeys(self._digest_columns, pl.UInt64)}
        )
        self._rows: dict[int, list[pl.DataFrame]] = {}  # by bucket
        self._unsplit: list[pl.DataFrame] = []  # rows that are in no bucket yet
        self._unsplit_height = 0
        self.height = 0
        self._height_once_dropped = 0
        self._digests_like_missing: NDArray[np.uint64] | None = None
        if columns.user is not None:
            texts = pl.Series(LIKE_MISSING)
            self._digests_like_missing = _digests(secret, PURPOSES["user"], texts).to_numpy()
        self._rows_like_missing = np.zeros(len(LIKE_MISSING), np.int64)

    def drop_by(self, that_may_count: RowFilter) -> None:
        """Drop rows, once they are many, by a function that is given all rows read so far."""
        self._that_may_count = that_may_count

    # These two methods are called by `sum_rows`, which reads the rows.
    def select(self, assigned: pl.LazyFrame) -> pl.LazyFrame:
        """Select the columns to hold of rows with windows and groups; names become digests."""
        columns = [pl.col("us"), pl.col("window")]  # a number of more than 32 bits is possible
        if self._has_groups:
            columns.append(_place_of_group(assigned, self.groups))
        else:
            columns.append(pl.lit(0, pl.Int32).alias("group"))
        value = pl.col("total") if self.row_rule is not None else pl.lit(1, pl.Int64).alias("total")
        columns.append(value)
        for name in self._digest_columns:
            digests = partial(_digests, self.secret, PURPOSES[name])
            names = pl.col(name).fill_null("")
            columns.append(names.map_batches(digests, return_dtype=pl.UInt64, is_elementwise=True))
        return assigned.select(columns)

    def take(self, rows: pl.DataFrame) -> None:
        """Hold the rows that can count, by their windows, groups and values."""
        can_count = pl.col("window").is_between(1, self._mapping.windows.steps)
        can_count &= pl.col("group").is_not_null()
        if self.row_rule is not None and values_choose_sum(self.row_rule):
            can_count &= pl.col("total") >= 0  # otherwise it is of no known cell
        held = rows.filter(can_count).cast(self._types)
        self.height += held.height
        self._count_users_like_missing(held)
        self._unsplit.append(held)
        self._unsplit_height += held.height
        if self._unsplit_height > 2 * _ROWS_OF_PORTION:  # so few rows are chosen from at once
            self._split()
        are_many = self.height > max(self.least, 2 * self._height_once_dropped)
        if self._that_may_count is not None and are_many:
            self._drop(self._that_may_count)

    def _split(self) -> None:
        """Put rows that are in no bucket yet into their buckets."""
        for held in self._unsplit:
            rows_by_bucket = held.with_columns(bucket=_bucket(self._bucket_column)).partition_by(
                "bucket", maintain_order=True, include_key=False, as_dict=True
            )
            for (bucket,), some in rows_by_bucket.items():
                self._rows.setdefault(bucket, []).append(some)
        self._unsplit.clear()
        self._unsplit_height = 0

    def _count_users_like_missing(self, held: pl.DataFrame) -> None:
        if self._digests_like_missing is None:
            return
        users = held["user"].to_numpy()
        for place, digest in enumerate(self._digests_like_missing):
            self._rows_like_missing[place] += np.count_nonzero(users == digest)

    def users_like_missing(self) -> tuple[tuple[str, int], ...]:
        """Return texts that programs write for a missing value and that name users here, each with
        the number of its rows in windows.
        """
        numbers = zip(LIKE_MISSING, self._rows_like_missing.tolist(), strict=True)
        return tuple((text, number) for text, number in numbers if number)

    def _drop(self, that_may_count: RowFilter) -> None:
        self._split()
        for bucket, rows in self._rows.items():
            counting_rows, dropped = that_may_count(self._wide(pl.concat(rows)))
            self._rows[bucket] = [counting_rows.cast(self._types)]
            self.dropped = self.dropped.plus(dropped)
        self.height = sum(rows.height for (rows,) in self._rows.values())
        self._height_once_dropped = self.height

    def portions(self) -> Iterator[tuple[Portion, pl.DataFrame]]:
        """Yield portions of the users, or of the ids without users, with all rows of theirs.

        Portions follow each other by digests. The rows of each are in the order in which they were
        read. They are held no longer.
        """
        buckets = range(_BUCKETS)
        if not self._rows:  # few rows need no buckets
            rows = pl.concat([self._nothing, *self._unsplit])
            self._unsplit.clear()
            yield Portion(buckets), self._wide(rows)
            return
        self._split()
        portions = min(_BUCKETS, 1 + self.height // _ROWS_OF_PORTION)
        width = -(-_BUCKETS // portions)
        for begin in range(0, _BUCKETS, width):
            portion = Portion(buckets[begin : begin + width])
            parts = [self._nothing]
            for bucket in portion.buckets:
                parts += self._rows.pop(bucket, ())
            yield portion, self._wide(pl.concat(parts))

    def _wide(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.cast(dict.fromkeys(self._types, pl.Int64))


def _place_of_group(assigned: pl.LazyFrame, groups: Sequence[str]) -> pl.Expr:
    """Return the place of a row's group among all groups; null if it is none of them."""
    names = pl.Enum(list(groups))
    group = pl.col("group")
    is_text = assigned.collect_schema()["group"] == pl.String
    group_category = group.cast(names, strict=False) if is_text else group.cat.to(names)
    return group_category.to_physical().cast(pl.Int32)


def _digests(secret: Secret, purpose: int, names: pl.Series) -> pl.Series:
    digests = np.empty(len(names), np.uint64)
    for begin in range(0, len(names), _NAMES_AT_A_TIME):
        some = names.slice(begin, _NAMES_AT_A_TIME)
        text = some.str.join("").item()
        if ".0" in text:
            some = one_name(some)
            text = some.str.join("").item()
        lengths = some.str.len_bytes().to_numpy().astype(np.int64)
        digests[begin : begin + len(some)] = secret.digests(text.encode(), lengths, purpose)
    return pl.Series(digests, dtype=pl.UInt64)
