"""Texts of an Arrow file are read as polars reads them, or left to polars."""

from __future__ import annotations

import io
from typing import Literal

import polars as pl
import pytest

from counton.base.plain_arrow import texts_in

TEXTS = ["home", "", "Zürich", "a\nb", "x" * 300, "shop "]


def arrow(
    table: pl.DataFrame,
    compression: Literal["uncompressed", "zstd"] = "uncompressed",
    *,
    old: bool = True,
) -> bytes:
    file = io.BytesIO()
    level = pl.CompatLevel.oldest() if old else pl.CompatLevel.newest()
    table.write_ipc(file, compression=compression, compat_level=level)
    return file.getvalue()


@pytest.mark.parametrize("count", [1, len(TEXTS)])
def test_texts_are_those_that_polars_reads(count: int) -> None:
    file = arrow(pl.DataFrame({"group": TEXTS[:count]}))
    assert texts_in(file) == tuple(pl.read_ipc(io.BytesIO(file))["group"])


def test_other_files_are_left_to_polars() -> None:
    texts = pl.DataFrame({"group": TEXTS})
    others = [
        arrow(texts, "zstd"),
        arrow(texts, old=False),
        arrow(texts.head(0)),
        arrow(texts.with_columns(more=pl.col("group"))),
        arrow(pl.DataFrame({"group": ["home", None]})),
        arrow(pl.DataFrame({"group": [1, 2]})),
        arrow(pl.DataFrame({"group": [b"a"]})),
        b"",
        b"ARROW1",
    ]
    assert [texts_in(file) for file in others] == [None] * len(others)


def test_a_damaged_file_never_fails_otherwise() -> None:
    """Every byte replaced by several others, and every end cut off."""
    file = arrow(pl.DataFrame({"group": TEXTS[:4]}))
    for place in range(len(file)):
        for byte in (0, 1, 255, file[place] ^ 128):
            texts_in(file[:place] + bytes([byte]) + file[place + 1 :])
        assert texts_in(file[:place]) is None
