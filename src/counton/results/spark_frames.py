"""Conversion of released numbers to Spark data frames that contain their description, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from counton.base.errors import InvalidInputError
from counton.base.lazy import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Key under which a column's metadata has the description, as JSON.
_METADATA: Final = "counton"


def frame_of(table: pl.DataFrame, facts: Mapping[str, object], session: SparkSession) -> DataFrame:
    """Return a table as a Spark frame, with its facts in the metadata of the last column.

    Raises:
        MissingDependencyError: PySpark is not installed.
    """
    require("pyspark")
    require("pyarrow")
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = table.with_columns(pl.col(pl.Datetime).dt.cast_time_unit("us")).to_arrow()
    schema = from_arrow_schema(rows.schema)
    schema.fields[-1].metadata = {_METADATA: json.dumps(facts)}
    return session.createDataFrame(rows, schema)


def rows_of(frame: DataFrame) -> tuple[pl.DataFrame, dict[str, object]]:
    """Return the rows and facts of a frame; `InvalidInputError` if no column has a description."""
    carried = [field.metadata[_METADATA] for field in frame.schema if _METADATA in field.metadata]
    if not carried:
        raise InvalidInputError(
            "the Spark frame has lost the description of its stream, which was in the metadata of "
            "a column: give a frame that to_spark made, or a table that keeps the metadata of "
            "columns, or read a file that the run wrote"
        )
    require("pyarrow")
    rows = pl.from_arrow(frame.toArrow())
    assert isinstance(rows, pl.DataFrame)
    return rows, dict(json.loads(carried[0]))
