"""Arrow schemas with metadata, made by Arrow's C interface, because polars cannot make them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from typing import Any

import polars as pl


class _CSchema(ctypes.Structure):
    """The first fields of struct ArrowSchema: arrow.apache.org/docs/format/CDataInterface.html."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
    )


#: Function that returns the address of the schema in a capsule.
_ADDRESS = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
#: Two text types: that of polars, and one that all readers of Parquet can filter.
_VIEWS = b"vu"
_LARGE = b"U"


class _WithMetadata:
    """A schema for Arrow's C interface, whose metadata stays in memory."""

    def __init__(self, schema: pl.Schema, metadata: Mapping[str, str]) -> None:
        self._schema = schema
        texts = [text.encode() for item in metadata.items() for text in item]
        parts = [struct.pack("=i", len(text)) + text for text in texts]
        self._metadata = ctypes.create_string_buffer(
            struct.pack("=i", len(metadata)) + b"".join(parts)
        )

    def __arrow_c_schema__(self) -> object:
        """Return the polars schema with the metadata, as a capsule."""
        capsule = self._schema.__arrow_c_schema__()
        whole = _CSchema.from_address(_ADDRESS(capsule, b"arrow_schema"))
        whole.metadata = ctypes.addressof(self._metadata)
        for place in range(whole.n_children):
            column = _CSchema.from_address(whole.children[place])
            if column.format == _VIEWS:
                column.format = _LARGE
        return capsule


def with_metadata(schema: pl.Schema, metadata: Mapping[str, str]) -> Any:
    """Return a schema of flat columns with metadata, for `polars.LazyFrame.sink_parquet`.

    It is None without metadata; polars then writes its own schema.

    >>> import polars as pl
    >>> with_metadata(pl.Schema({"window_index": pl.Int64}), {}) is None
    True
    """
    return _WithMetadata(schema, metadata) if metadata else None
