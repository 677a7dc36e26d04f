"""A Spark data frame as the source of rows for a run.

Executors assign rows to windows and groups and add them up; the driver gets sums.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.base.private import Private
from counton.io.aggregation import (
    candidates,
    group_names_of,
    merge_sums,
    pick_rows,
    sums_of_part,
    with_group_index,
)
from counton.io.bad_rows import change_error
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import RowMapping
from counton.io.sources import EventFrame, InputPart

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Number of 64-bit hashes of a row. Their sums over all rows, modulo 2^64, distinguish frames.
_HASHES_OF_ROW: Final = 2
#: Cells with numbers below this are halves of the sums of hashes.
_LARGEST_HALF_CELL: Final = -(2**62)
#: Number of rows, and of bytes, that an executor processes at a time.
_ROWS_AT_A_TIME = 2**18
_BYTES_AT_A_TIME = 2**26
#: Number of cells from which the sums of several chunks are added up.
_FEWEST_MERGED_CELLS = 2**20
_BLOB = pl.Schema({"kind": pl.String, "packed": pl.Binary})
_SUM_COLUMNS = pl.Schema(
    {"code": pl.Int64, "group_name": pl.String, "rows": pl.Int64, "us": pl.Int64}
)


class SparkRows(InputPart):
    """All rows of a frame; the driver holds only names and types of columns, and a hash."""

    name = "the data frame"
    kind = "a data frame"
    numbered = False
    remedy_if_changed = (
        "it gives other rows each time it is read: cache() it, or write it to a table first"
    )

    def __init__(self, frame: DataFrame, salt: str = "") -> None:
        self.spark = frame
        self._salt = salt
        self._empty = EventFrame(_empty(frame))
        self._digest: str | None = None
        self._columns: tuple[str, ...] = ()
        self.by_group_name: pl.DataFrame | None = None
        #: Sums of rows that `SparkSource.assign_rows` has found in its pass.
        self.beside: pl.DataFrame | None = None

    @property
    def empty(self) -> EventFrame:
        """The frame's columns without rows, for their types."""
        empty = copy(self._empty)
        empty.together = self.together
        return empty

    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Return the frame's columns without rows, because only executors read rows."""
        return self._empty.frame(columns)

    @override
    def scan(
        self, columns: Sequence[str], names: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> pl.LazyFrame:
        return self.empty.scan(columns, names, kinds)

    def digest(self, columns: Sequence[str] = ()) -> str:
        """Return the SHA-256 of names and types, the number of rows, and sums of row hashes.

        It does not depend on their order or distribution, and is known after they were counted.
        """
        if self._digest is None or tuple(columns) != self._columns:
            self.scan(columns)  # raises for a missing column
            raise RuntimeError("the rows of the frame have not been read yet: read them first")
        return self._digest

    def grain(self, mapping: RowMapping) -> tuple[int, int] | None:
        """Return offset and length, in microseconds, of pieces of time, each within one window.

        Rows that differ only in their times within a piece may be counted together before windows
        are known. None if rows have no stored UTC times, or values that are not only labels.
        """
        if not mapping.columns.time:
            return None
        parts = () if mapping.row_rule is None else mapping.row_rule.parts
        dtype = self.frame().collect_schema()[mapping.columns.time]
        windows = mapping.windows
        absolute = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
        if not absolute or mapping.time_format or any(part.kind != "label" for part in parts):
            return None
        return windows.pieces

    def read(self, columns: Sequence[str], halves: pl.DataFrame) -> None:
        """Compute the digest from sums of row hashes of one pass.

        ``halves`` has the sums of the upper and lower 32 bits, in ``code`` and ``rows``.

        Raises:
            InvalidInputError: an earlier pass has found other sums.
        """
        names = tuple(columns)
        types = [str(self.frame().collect_schema()[name]) for name in self.of_file(names)]
        rows_by_code = dict(halves.group_by("code").agg(pl.col("rows").sum()).rows())
        hashed = hashlib.sha256(b"counton/spark rows")
        for text in (self._salt, *names, *types):
            hashed.update(len(text.encode()).to_bytes(8, "little") + text.encode())
        for word in range(_HASHES_OF_ROW + 1):
            low, high = (
                rows_by_code.get(_LARGEST_HALF_CELL - 2 * word - half, 0) for half in (1, 2)
            )
            hashed.update(((low + (high << 32)) % 2**64).to_bytes(8, "little"))
        digest = hashed.hexdigest()
        if self._digest is not None and self._columns == names and self._digest != digest:
            raise change_error(self)
        self._columns = names
        self._digest = digest


class MicroBatch(InputPart):
    """Stand-in for a micro-batch: only its number, by which later runs recognise it."""

    kind = "a data frame"
    numbered = False
    remedy_if_counted = (
        "and it had other rows then: its source gives other rows when Spark runs a batch again; "
        "read from a source that repeats its rows, as files and Kafka do"
    )

    def __init__(self, query: str, number: int) -> None:
        self.name = f"batch {number:,} of the query"
        self._query = query
        self._number = number

    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Return no rows and columns."""
        return pl.LazyFrame()

    def digest(self, columns: Sequence[str] = ()) -> str:
        """Return the SHA-256 of the query's identifier and the batch's number."""
        text = f"counton/spark batch {self._query} {self._number}"
        return hashlib.sha256(text.encode()).hexdigest()


class SparkSource(RemoteRows):
    """The rows of a Spark frame, which executors read.

    Args:
        frame: the rows.
        batch: the batch of a streaming query that the rows are; None: a table.
    """

    def __init__(self, frame: DataFrame, batch: MicroBatch | None = None) -> None:
        rows = SparkRows(frame, "" if batch is None else batch.digest())
        super().__init__((rows,) if batch is None else (rows, batch), rows.name)

    @property
    def _rows(self) -> SparkRows:
        rows = self.parts[0]
        assert isinstance(rows, SparkRows)
        return rows

    @property
    @override
    def may_grow(self) -> bool:
        return len(self.parts) > 1

    @override
    def cells(self, mapping: RowMapping, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        if mapping.unlisted_groups == "discover":
            return Private(
                with_group_index(self._sums_by_group_name(mapping), domain or (), mapping.row_rule)
            )
        sums = self._rows.beside
        self._rows.beside = None
        return Private(self._sum_rows(mapping, domain) if sums is None else sums)

    @override
    def group_names(self, mapping: RowMapping) -> Private[pl.DataFrame]:
        return Private(group_names_of(self._sums_by_group_name(mapping), mapping))

    @override
    def assign_rows(
        self, mapping: RowMapping, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Return the rows that could count, with windows and groups.

        The same pass adds up all rows for `cells`, unless groups are found in the data.

        Args:
            mapping: the columns of the input, and how they become windows, groups and values.
            domain: the declared groups; None: there are none.

        Raises:
            InvalidInputError: a column is missing.
        """
        declared = None if mapping.unlisted_groups == "discover" else domain
        columns = mapping.columns.names
        self._rows.scan(columns)  # raises for a missing column
        make_batches = partial(_candidates, _Work(mapping, declared, self._rows))
        hashed = with_hashes(self._rows.spark, self._rows.of_file(columns))
        collected = _collect(hashed, make_batches, _BLOB)
        self._rows.read(columns, pl.concat(_frames_of(collected, "halves")))
        if mapping.unlisted_groups != "discover":
            none = sums_of_part(self._rows.empty, mapping, declared)
            self._rows.beside = merge_sums([none, *_frames_of(collected, "cells")])
        return Private(_frames_of(collected, "rows"))

    @override
    def some(self, mapping: RowMapping, condition: pl.Expr, most: int) -> Private[pl.DataFrame]:
        columns = self._rows.of_file(mapping.columns.names)
        schema = self._rows.frame().select(columns).collect_schema()
        make_batches = partial(_pick, _Work(mapping, None, self._rows), condition)
        frame = select(self._rows.spark, columns)
        return Private(_collect(frame, make_batches, schema, most=most))

    def _sums_by_group_name(self, mapping: RowMapping) -> pl.DataFrame:
        """Return sums by window and group name, once: a second pass over the frame could differ."""
        if self._rows.by_group_name is None:
            self._rows.by_group_name = self._sum_rows(mapping, None)
        return self._rows.by_group_name

    def _sum_rows(self, mapping: RowMapping, domain: Sequence[str] | None) -> pl.DataFrame:
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        columns = mapping.columns.names
        self._rows.scan(columns)  # raises for a missing column
        selected = self._rows.of_file(columns)
        grain = self._rows.grain(mapping)
        hashed = with_hashes(self._rows.spark, selected)
        if grain is not None:
            begin, length = grain
            hashed = alike(hashed, selected.index(mapping.columns.time), begin, length)
        work = _Work(mapping, domain, self._rows, alike=grain is not None)
        schema = sums_of_part(self._rows.empty, work.mapping, domain).schema
        sums = [F.sum("rows").alias("rows"), F.max("us").alias("us")]
        for name in list(schema)[len(_SUM_COLUMNS) :]:
            added = F.try_sum if name.startswith("total") else F.sum
            sums.append(added(f"`{name}`").alias(name))
        collected = _collect(
            hashed,
            partial(_cells, work, schema),
            schema,
            lambda parts: parts.groupBy("code", "group_name").agg(*sums),
        )
        self._rows.read(
            columns, collected.filter(pl.col("code") < _LARGEST_HALF_CELL).select("code", "rows")
        )
        # A total that is null exceeds int64; its magnitude shows this too.
        return collected.filter(pl.col("code") > _LARGEST_HALF_CELL).with_columns(
            pl.col("^total .*$").fill_null(0)
        )


class _Work:
    """What executors need: how rows are read, and the declared groups. It has no secret."""

    def __init__(
        self,
        mapping: RowMapping,
        domain: Sequence[str] | None,
        rows: SparkRows,
        *,
        alike: bool = False,
    ) -> None:
        # Executors read rows as the driver does: whether bad rows are set aside decides how much a
        # count above the largest one adds.
        self.mapping = mapping
        self.domain = domain
        self.alike = alike
        self._names = rows.of_file(mapping.columns.names)
        self._together = dict(rows.together)

    def rows(self, chunk: pl.DataFrame) -> EventFrame:
        """Return rows whose groups of several columns are joined into one."""
        frame = EventFrame(chunk)
        frame.together = self._together
        return frame

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield rows with the job's column names; small batches are joined.

        Further columns, such as hashes, come last. Times are in UTC, whatever the session's zone.
        """
        pending: list[pa.RecordBatch] = []
        for batch in batches:
            pending.append(batch)
            rows = sum(batch.num_rows for batch in pending)
            if (
                rows >= _ROWS_AT_A_TIME
                or sum(batch.nbytes for batch in pending) >= _BYTES_AT_A_TIME
            ):
                yield self._in_polars(pending)
                pending = []
        if pending:
            yield self._in_polars(pending)

    def _in_polars(self, batches: Sequence[pa.RecordBatch]) -> pl.DataFrame:
        import pyarrow as pa

        table = pa.Table.from_batches(batches)
        kinds = [
            field.with_type(pa.timestamp("us", "UTC"))
            if pa.types.is_timestamp(field.type) and field.type.tz is not None
            else field
            for field in table.schema
        ]
        frame = pl.from_arrow(table.cast(pa.schema(kinds)))
        assert isinstance(frame, pl.DataFrame)
        return frame.rename(dict(zip(frame.columns, self._names, strict=False)))


def _empty(frame: DataFrame) -> pl.DataFrame:
    """Return a frame's columns without rows, with executors' types and unique names."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    names = list[str]()
    fields = []
    for field in frame.schema.fields:
        number = names.count(field.name)
        names.append(field.name)
        name = f"{field.name}_duplicated_{number - 1}" if number else field.name
        fields.append(pa.field(name, to_arrow_type(field.dataType, timezone="UTC")))
    table = pl.from_arrow(pa.schema(fields).empty_table())
    assert isinstance(table, pl.DataFrame)
    return table


def is_remote(frame: DataFrame) -> bool:
    """Return whether a frame is of Spark Connect, where the driver is another program."""
    return ".connect." in type(frame).__module__


def select(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns and name them by numbers, because their names may contain any character.

    Texts are compared by their bytes, whatever collation Spark uses.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType

    numbered = frame.toDF(*[f"c{place}" for place in range(len(frame.columns))])
    selected = []
    for place in map(frame.columns.index, columns):
        column = numbered[f"c{place}"]
        if type(numbered.schema[place].dataType) is StringType:
            column = F.collate(column, "UTF8_BINARY").alias(f"c{place}")
        selected.append(column)
    return numbered.select(*selected)


def with_hashes(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Select columns, followed by ``xxhash64`` of the values and of which are null, by seed."""
    from pyspark.sql import functions as F  # noqa: N812

    selected = select(frame, columns)
    values = [selected[name] for name in selected.columns]
    inputs = [*values, *(value.isNull() for value in values)]
    words = [
        F.xxhash64(F.lit(word), *inputs).alias(f"counton {word}") for word in range(_HASHES_OF_ROW)
    ]
    return selected.select(*values, *words)


def alike(hashed: DataFrame, time: int, begin: int, length: int) -> DataFrame:
    """Count rows that are equal except for their times within one piece, from `SparkRows.grain`.

    The result has the columns of ``hashed``, the number of equal rows, their newest time in
    microseconds since 1970, and the sums of the upper and lower 32 bits of each hash.
    """
    from pyspark.sql import functions as F  # noqa: N812

    columns = hashed.columns[:-_HASHES_OF_ROW]
    words = hashed.columns[-_HASHES_OF_ROW:]
    us = F.unix_micros(hashed[columns[time]])
    piece = us - F.pmod(us - F.lit(begin), F.lit(length))
    keys = [hashed[name] for name in columns]
    keys[time] = F.timestamp_micros(piece).alias(columns[time])
    sums = []
    for word in words:
        low = hashed[word].bitwiseAND(F.lit(2**32 - 1))
        high = F.shiftrightunsigned(hashed[word], 32)
        sums += [F.sum(low).alias(f"{word} low"), F.sum(high).alias(f"{word} high")]
    counts = [F.count(F.lit(1)).alias("number"), F.max(us).alias("newest")]
    return hashed.groupBy(*keys).agg(*counts, *sums)


def _collect(
    frame: DataFrame,
    make_batches: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pl.Schema,
    then: Callable[[DataFrame], DataFrame] | None = None,
    most: int | None = None,
) -> pl.DataFrame:
    """Let executors process a frame by ``make_batches``; return all or ``most`` results."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema

    make_batches = partial(_guard, make_batches)
    parts = frame.mapInArrow(
        make_batches, from_arrow_schema(_arrow(schema), prefer_timestamp_ntz=True)
    )
    parts = parts if then is None else then(parts)
    parts = parts if most is None else parts.limit(most)
    try:
        table = pl.from_arrow(parts.toArrow())
    except PySparkException as error:  # its text has the error of an executor
        mark = "counton.base.errors.InvalidInputError: "
        for line in reversed(str(error).splitlines()):
            if mark in line:
                raise InvalidInputError(line.partition(mark)[2]) from error
            if line.startswith("ModuleNotFoundError: "):
                raise InvalidInputError(
                    f"the Python of an executor lacks a package ({line.partition(': ')[2]}); "
                    "install counton's extra 'spark' there, or give another Python in "
                    "PYSPARK_PYTHON"
                ) from error
        raise
    assert isinstance(table, pl.DataFrame)
    return table.select(list(schema)).cast(schema)


def _guard(
    make_batches: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Process batches on an executor; errors become such as cannot quote a row.

    Spark writes a task's error to its event log, shows it on its web page, and logs it.
    """
    try:
        yield from make_batches(batches)
    except ImportError:
        raise  # it names packages
    except Exception as error:
        raise InvalidInputError(
            f"rows cannot be counted on an executor ({type(error).__name__}); the full message is "
            "left out, because it may quote a row and Spark writes it to logs: count some of these "
            "rows with counton.run.run to see it"
        ) from None


def _arrow(schema: pl.Schema) -> pa.Schema:
    """Convert the types of columns to Arrow, for Spark."""
    import pyarrow as pa

    table = schema.to_frame().to_arrow().schema
    kinds = {pa.large_string(): pa.string(), pa.string_view(): pa.string()}
    kinds |= {pa.large_binary(): pa.binary(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(kinds.get(field.type, field.type)) for field in table])


def _batches(frame: pl.DataFrame, schema: pl.Schema) -> Iterator[pa.RecordBatch]:
    table = frame.select(list(schema)).cast(schema).to_arrow().cast(_arrow(schema))
    yield from table.to_batches(max_chunksize=_ROWS_AT_A_TIME)


class _Hashes:
    """Running sums of row hashes, each of the upper and of the lower 32 bits."""

    def __init__(self) -> None:
        self._halves = np.zeros(2 * (_HASHES_OF_ROW + 1), np.int64)

    def add(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """Add some rows' hashes; return the rows without them."""
        words = chunk.columns[-_HASHES_OF_ROW:]
        sums = [chunk[word].to_numpy().view(np.uint64).sum(dtype=np.uint64) for word in words]
        self._halves += np.array([chunk.height, *sums], "<u8").view("<u4")
        return chunk.drop(words)

    def add_alike(self, chunk: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Add the hashes of rows that each stand for several equal ones.

        Return the rows without them, and their ``number`` and ``newest`` time.
        """
        halves = chunk.columns[-2 * _HASHES_OF_ROW :]
        number = int(chunk["number"].sum())
        sums = [int(chunk[half].sum()) for half in halves]
        self._halves += np.array([number % 2**32, number >> 32, *sums], np.int64)
        counts = ["number", "newest"]
        return chunk.drop(halves).drop(counts), chunk.select(counts)

    def halves(self) -> pl.DataFrame:
        """Return the sums by ``code``, which can be added up without overflow."""
        codes = _LARGEST_HALF_CELL - 1 - np.arange(len(self._halves), dtype=np.int64)
        return pl.DataFrame({"code": codes, "rows": self._halves})


def _cells(
    work: _Work, schema: pl.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Count rows by window and group, and add up their hashes, on an executor."""
    hashes = _Hashes()
    frames = [schema.to_frame()]
    for chunk in work.chunks(batches):
        if work.alike:
            rows, counts = hashes.add_alike(chunk)
            frames.append(sums_of_part(work.rows(rows), work.mapping, work.domain, counts))
        else:
            frames.append(sums_of_part(work.rows(hashes.add(chunk)), work.mapping, work.domain))
        if sum(len(frame) for frame in frames) > max(_FEWEST_MERGED_CELLS, 2 * len(frames[0])):
            frames = [merge_sums(frames)]
    halves = pl.concat([schema.to_frame(), hashes.halves()], how="diagonal")
    yield from _batches(pl.concat([merge_sums(frames), halves]), schema)


def _candidates(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield, on an executor, the rows that could count, and then sums of all rows."""
    hashes = _Hashes()
    frames = list[pl.DataFrame]()
    for chunk in work.chunks(batches):
        rows, cells = candidates(work.rows(hashes.add(chunk)), work.mapping, work.domain)
        frames.append(cells)
        yield from _packing("rows", rows)
        if sum(len(frame) for frame in frames) > max(_FEWEST_MERGED_CELLS, 2 * len(frames[0])):
            frames = [merge_sums(frames)]
    if frames:
        yield from _packing("cells", merge_sums(frames))
    yield from _packing("halves", hashes.halves())


def _packing(kind: str, frame: pl.DataFrame) -> Iterator[pa.RecordBatch]:
    """Pack a table into one value, because Spark takes longer for more; ``kind`` is its name."""
    packed = io.BytesIO()
    frame.write_ipc(packed, compression="lz4")
    yield from _batches(pl.DataFrame({"kind": [kind], "packed": [packed.getvalue()]}), _BLOB)


def _frames_of(collected: pl.DataFrame, kind: str) -> Iterable[pl.DataFrame]:
    packed = collected.filter(pl.col("kind") == kind)["packed"]
    return (pl.read_ipc(io.BytesIO(content)) for content in packed)


def _pick(
    work: _Work, condition: pl.Expr, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield, on an executor, the rows that an expression selects."""
    for chunk in work.chunks(batches):
        yield from _batches(pick_rows(work.rows(chunk), work.mapping, condition), chunk.schema)
