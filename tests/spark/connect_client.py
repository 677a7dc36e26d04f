"""Jobs over frames of Spark Connect, beside the same jobs over rows at hand: tests run it.

Run as ``python connect_client.py FOLDER``; says "ended" when all is as it should be.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from spark_jobs import events, job

import counton
from counton import spark as counton_spark
from counton.base.errors import InvalidInputError
from counton.run import run

#: Modules that ask for the folder of witnesses.
WITNESS = ("keys", "rollback_guard")


def main(folder: Path) -> None:
    """The whole of it."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote("local[2]").getOrCreate()
    rows = events(rows=200)
    frame = session.createDataFrame(rows.to_arrow()).repartition(3)
    assert ".connect." in type(frame).__module__
    # The same key in each state, so that what they release can be compared.
    token_bytes = patch("secrets.token_bytes", lambda size: bytes(range(size)))
    token_hex = patch("secrets.token_hex", lambda size: "5a" * size)
    # States of one identity have no witness in common.
    none = [patch(f"counton.state.{one}.default_folder", lambda: "none") for one in WITNESS]
    with token_bytes, token_hex, none[0], none[1]:
        for name in ("groups", "average", "people", "found of people"):
            with run(job(name, folder, f"{name} here", epsilon=9).derive(events=rows)) as outcome:
                expected = outcome.read().table()
            asked = job(name, folder, f"{name} there", epsilon=9)
            with counton_spark.run(asked, frame) as outcome:
                released = outcome.read()
                assert released.table().equals(expected), name
                assert counton.read(released.to_spark(session)).table().equals(expected), name
    bad = rows.with_columns(page=pl.lit("Mrs Aldous"))
    refused(job("groups", folder, "bad"), session.createDataFrame(bad.to_arrow()), "'Mrs Aldous'")
    (folder / "in").mkdir()
    rows.write_parquet(folder / "in" / "0.parquet")
    stream = session.readStream.schema("at string, page string").parquet(str(folder / "in"))
    asked = job("groups", folder, "stream", until=None)
    refused(asked, stream, "which would then need the state and the key", checkpoint=folder)
    print("ended", flush=True)
    session.stop()


def refused(asked: counton.run.Job, frame: object, words: str, **more: object) -> None:
    """A job that is refused with some words, and leaves no state."""
    with pytest.raises(InvalidInputError, match=words):
        counton_spark.run(asked, frame, **more)  # type: ignore[arg-type]
    assert not Path(str(asked.state)).exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
