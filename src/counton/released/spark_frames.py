"""Released numbers as a frame of Spark, and such a frame read back: it carries its description."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from counton.base.errors import InvalidInput
from counton.base.lazy import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Under which a column's metadata holds the description, as JSON.
_METADATA: Final = "counton"


def frame_of(table: pl.DataFrame, facts: Mapping[str, Any], session: SparkSession) -> DataFrame:
    """A table as a frame of Spark, whose last column holds what the table promises.

    Args:
        table: of a release.
        facts: what a file of it would carry.
        session: of Spark.

    Raises:
        MissingExtra: PySpark is not installed.
    """
    require("pyspark")
    require("pyarrow")
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = table.with_columns(pl.col(pl.Datetime).dt.cast_time_unit("us")).to_arrow()
    schema = from_arrow_schema(rows.schema)
    schema.fields[-1].metadata = {_METADATA: json.dumps(facts)}
    return session.createDataFrame(rows, schema)


def rows_of(frame: DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The rows of a frame that holds released numbers, and what they carry.

    Raises:
        InvalidInput: no column carries a description.
    """
    carried = [one.metadata[_METADATA] for one in frame.schema if _METADATA in one.metadata]
    if not carried:
        raise InvalidInput(
            "the Spark frame carries no description of its stream in the metadata of a column: "
            "give one that to_spark made, or a table that keeps the metadata of its columns, or "
            "read a file that the run wrote"
        )
    require("pyarrow")
    rows = pl.from_arrow(frame.toArrow())
    assert isinstance(rows, pl.DataFrame)
    return rows, dict(json.loads(carried[0]))
