"""The cases of tests/run/test_every_source.py over Spark: the bits of a frame at hand."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sources import CHOICES, PEOPLE, SOURCES, STATISTICS, case, nights_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

from counton import spark as counton_spark  # noqa: E402 - after the skip

LONG = int(os.environ.get("COUNTON_FUZZ", "0"))


@pytest.mark.usefixtures("one_key")
@pytest.mark.parametrize("statistic", STATISTICS)
def test_spark_and_pandas_have_the_bits_of_a_frame(
    statistic: str, tmp_path: Path, spark: Any
) -> None:
    kinds = [*PEOPLE, *(CHOICES if statistic == "groups" else ())]
    place = list(STATISTICS).index(statistic)
    seeds = [secrets.randbelow(10**9) for _ in range(LONG)] or [place]
    for turn, seed in enumerate(seeds):
        each = case(seed, statistic, kinds[(place + turn) % len(kinds)], append=seed % 3 > 0)
        folder = tmp_path / str(turn)
        folder.mkdir()
        expected = list(nights_of(each, folder / "a frame", SOURCES["a frame"]))

        def counted(job: Any) -> Any:
            rows = job.events
            frame = spark.createDataFrame(rows.to_arrow()).repartition(1 + seed % 5)  # noqa: B023
            return counton_spark.run(job.derive(events="-"), frame)

        assert list(nights_of(each, folder / "Spark", SOURCES["a frame"], counted)) == expected
        assert list(nights_of(each, folder / "pandas", lent_by_pandas)) == expected


def lent_by_pandas(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    """A frame of pandas, which needs pyarrow to lend its columns: it is here with Spark."""
    return {"events": rows.to_pandas()}
