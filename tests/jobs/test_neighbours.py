"""Neighbours through whole jobs: one unit's rows move exact sums by what is stated, and no more.

Files of every format with odd types, a unit's rows added to some of them. Noise is 0, so that what
is published is exact; and all else that is published, or refused, must not differ at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counton.errors import CountonError
from counton.jobs import Job, run
from counton.store.marks import Secret

#: Time, group, user, id.
Row = tuple[Any, Any, Any, Any]

EPOCH = 1_709_251_200  # 2024-03-01
#: What a program may write for a name, or by mistake.
NAMES = st.sampled_from([1, 2, "1", "2", 2.0, 1.5, True, None, "", "z", 10**18])
ROW = st.tuples(st.integers(0, 5), NAMES, st.sampled_from(["7", 7, 8, "nine"]), st.integers(0, 6))
USUAL = st.tuples(
    st.integers(0, 5), st.sampled_from([1, 2]), st.sampled_from([7, 8]), st.integers(0, 9)
)
KEYS = ("at", "group", "user", "id")
OPTIONS: tuple[dict[str, Any], ...] = (
    {"unknown": "drop"},
    {"other": "rest"},
    {"unknown": "drop", "id": "id"},
    {"unknown": "drop", "user": "user", "most": 2},
    {"other": "rest", "user": "user", "most": 2, "id": "id"},
    {"unknown": "drop", "user": "user", "most": 2, "first": True, "id": "id"},
)


def write(path: Path, rows: Sequence[Row], night: int) -> Path:
    """Files of other nights hold other bytes, as the names of their columns say."""
    named = [
        dict(zip(KEYS, (EPOCH + 3600 * row[0] + night, *row[1:]), strict=True)) for row in rows
    ]
    if path.suffix == ".jsonl":
        first = dict.fromkeys(KEYS)  # a file always has its columns
        path.write_text("".join(json.dumps(row) + "\n" for row in [*named, first]))
        return path
    text = {key: [None if row[key] is None else str(row[key]) for row in named] for key in KEYS}
    frame = pl.DataFrame(text, schema=dict.fromkeys(KEYS, pl.String))
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.with_columns(pl.col("at").cast(pl.Int64)).write_parquet(path)
    return path


def published(
    nights: Sequence[Sequence[Row]], kind: str, append: bool, options: dict[str, Any]
) -> tuple[list[str], Any]:
    """What each night says for all to see, and the exact change of each step."""
    said, values, so_far = list[str](), np.zeros((0, 0)), list[Row]()
    with TemporaryDirectory() as folder:
        for night, rows in enumerate(nights):
            so_far = [*so_far, *rows]
            path = write(Path(folder, f"{night}.{kind}"), rows if append else so_far, night)
            job = Job(
                "count", path, Path(folder, "s.db"), time="at", by="group", domain="1,2",
                time_format="epoch", every="1h", start="2024-03-01", steps=6, epsilon=10**6,
                strategy="binary", until=f"2024-03-01T0{3 * night + 3}:00", append=append,
                confirmed=True, missing="skip", bad_rows=f"quarantine:{folder}/bad.csv", **options,
            )  # fmt: skip
            try:
                with run(job) as outcome:
                    table = outcome.released().table()
                    values = np.asarray(outcome.stream.releases().values, float)
                    said.append(str(table.select("step", "window_end", "group", "std").rows()))
            except CountonError as error:
                said.append(type(error).__name__)
    return said, np.diff(values, axis=0, prepend=0 * values[:1])


@settings(
    derandomize=True, max_examples=25, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
@given(
    st.lists(st.lists(USUAL, min_size=2, max_size=6), min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), ROW), min_size=1, max_size=3),
    st.sampled_from(["jsonl", "csv", "parquet"]),
    st.booleans(),
    st.sampled_from(OPTIONS),
)
def test_one_unit_moves_what_is_stated_and_nothing_else(
    usual: list[list[Row]],
    more: list[tuple[int, Row]],
    kind: str,
    append: bool,
    options: dict[str, Any],
) -> None:
    people = "user" in options
    if people:  # rows of one user, who is nobody else
        more = [(night, (row[0], row[1], "someone", row[3])) for night, row in more]
    elif "id" in options:
        more = [(night, (*row[:3], "new")) for night, row in more]  # one event
    else:
        more = more[:1]
    nights = [list(rows) for rows in usual]
    for night, row in more:
        nights[night].append(row)
    original = Secret.fresh
    Secret.fresh = classmethod(lambda _: Secret(bytes(range(32))))  # type: ignore[method-assign,assignment]
    try:
        said, values = published(usual, kind, append, options)
        said_more, values_more = published(nights, kind, append, options)
    finally:
        Secret.fresh = original  # type: ignore[method-assign]
    assert said_more == said
    change = values_more - values
    assert np.abs(change).sum() <= (2 if people else 1), (values, values_more)
