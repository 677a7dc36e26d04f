"""Columns of pandas, converted by their declared types; objects one by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from counton.base.errors import InvalidInputError
from counton.io.object_cells import ObjectColumn, convert_objects
from counton.windowing.lazy_polars import polars as pl

#: Kinds of numpy's types that become the same type of polars: integers, floats, truth values, times
#: and durations.
_TYPED_KINDS = "iufbMm"
#: Units of times and durations that polars has.
_UNITS = ("ms", "us", "ns")


class ArrowStream:
    """A frame that exports Arrow. Polars keeps all types that it meets, so this hides the type."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__()


def convert_series(name: str, series: Any) -> ObjectColumn:
    """Convert a column of pandas without guessing a type from its cells.

    Args:
        name: the name of the column.
        series: a Series of pandas, or of a library with the same interface.

    Returns:
        A typed column if the type is declared, else texts and the kinds of cells.

    Raises:
        InvalidInputError: The type holds no texts, numbers or times.
    """
    dtype = series.dtype
    zone = getattr(dtype, "tz", None)
    if zone is not None:
        return ObjectColumn(_zoned_times(name, series, zone))
    if isinstance(dtype, np.dtype):
        if dtype.kind in _TYPED_KINDS:
            return ObjectColumn(_typed_values(name, series.to_numpy()))
        if dtype.kind != "O":
            raise _refusal(name, dtype)
        return _objects(name, series)
    declared = str(dtype)
    if hasattr(dtype, "pyarrow_dtype"):
        return ObjectColumn(_arrow_values(name, series))
    if hasattr(dtype, "categories"):
        return _categories(name, series)
    if declared.startswith("Sparse"):
        return convert_series(name, series.sparse.to_dense())
    if declared.startswith(("period", "interval")):
        raise _refusal(name, dtype)
    values = getattr(dtype, "numpy_dtype", None)
    if isinstance(values, np.dtype) and values.kind in _TYPED_KINDS:  # such as Int64 and boolean
        plain = pl.Series(np.empty(0, values)).dtype
        cells = [None if cell != cell else cell for cell in series.to_numpy(object, na_value=None)]
        return ObjectColumn(pl.Series(name, cells, dtype=plain))
    return _objects(name, series)


def _refusal(name: str, dtype: object) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r} of the data frame holds {dtype}, and only text, numbers and times can be "
        "read; convert the column"
    )


def _zoned_times(name: str, series: Any, zone: object) -> pl.Series:
    plain = series.dt.tz_convert("UTC").dt.tz_localize(None)
    times = _typed_values(name, plain.to_numpy())
    # A fixed offset has no name.
    zone_name = getattr(zone, "key", "UTC")
    return times.dt.replace_time_zone("UTC").dt.convert_time_zone(zone_name)


def _typed_values(name: str, values: Any) -> pl.Series:
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] not in _UNITS:
        values = values.astype(f"{values.dtype.kind}8[ms]")  # pandas has seconds, polars has none
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype(np.float64)
    return pl.Series(name, values, nan_to_null=True)


def _objects(name: str, series: Any) -> ObjectColumn:
    cells = series.astype(object)
    return convert_objects(name, cells.where(cells.notna(), None).tolist())


def _categories(name: str, series: Any) -> ObjectColumn:
    """Convert each category once, and give each row its category's text or value."""
    column = convert_series(name, series.cat.categories.to_series())
    codes = pl.Series(series.cat.codes.to_numpy()).cast(pl.Int64)
    places = codes.set(codes < 0, None).cast(pl.UInt32)
    texts = column.texts.gather(places).alias(name)
    if column.kinds is None:
        return ObjectColumn(texts)
    return ObjectColumn(texts, column.kinds.gather(places).fill_null(0))


def _arrow_values(name: str, series: Any) -> pl.Series:
    import pyarrow as pa

    table = pa.table({"values": series.array.__arrow_array__()})
    return pl.DataFrame(ArrowStream(table))["values"].alias(name)
