"""Frames of other libraries: columns are read by name, and what cannot be read is named."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.run import Job, run

pd = pytest.importorskip("pandas")
DAYS = ["2024-03-01T10:00", "2024-03-02T10:00"]


def counted(events: Any, folder: Path, **own: Any) -> list[float]:
    """Totals by day, with next to no noise."""
    job = Job(
        "count", events, folder / f"{len(own)}.db", time="time", every="1d", start="2024-03-01",
        windows=3, until="2024-03-03", epsilon=10**6, privacy_unit="event",
        allow_empty_windows=True, **own,
    )  # fmt: skip
    with run(job) as outcome:
        found: list[float] = outcome.read().table()["estimate"].to_list()
        return found


#: Values that neither Arrow nor polars knows, by name.
ODD: dict[str, list[Any]] = {
    "complex": [1j, 2], "large": [2**200, 1], "mixed": ["c", 1], "objects": [object(), {}],
    "period": [pd.Period("2024-03-01"), pd.NaT],
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_unread_column_is_not_converted(odd: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"time": pd.to_datetime(DAYS), "z": pd.Series(ODD[odd])})
    assert counted(frame, tmp_path) == [1, 2]
    match = "column 'z' of the data frame|groups in column 'z'|no group in column 'z'"
    with pytest.raises(InvalidInputError, match=match):
        counted(frame, tmp_path, group_by="z", groups="a,b")


INDEXES: dict[str, tuple[Any, str]] = {
    "times": (pd.to_datetime(DAYS), "index holds times: .* reset_index\\(names='time'\\)"),
    "texts": (pd.Index(DAYS), "if its index holds them, .* reset_index\\(names='time'\\)"),
    "periods": (pd.PeriodIndex(DAYS, freq="D"), "reset_index\\(names='time'\\)"),
    "levels": (pd.MultiIndex.from_product([DAYS, [1]]), "several levels: .* reset_index\\(\\)"),
    "named": (pd.Index(DAYS, name="time"), "'time' is in its index: .* reset_index\\(\\)"),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_refusal_names_index_that_may_hold_times(kind: str, tmp_path: Path) -> None:
    index, match = INDEXES[kind]
    with pytest.raises(InvalidInputError, match=match):
        counted(pd.DataFrame({"z": [1, 2]}, index=index), tmp_path)


@pytest.mark.parametrize("events", [pd.Series(DAYS), pl.Series(DAYS), pd.Index(DAYS)], ids=type)
def test_single_column_in_place_of_a_frame_is_refused(events: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a single column, not a data frame; give"):
        counted(events, tmp_path)


class Picky:
    """A table whose library raises what it likes."""

    column_names = ("time", "z")

    def __init__(self, names: Any = column_names) -> None:
        self.names = list(names)

    def select(self, names: Any) -> Picky:
        return Picky(names)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if "z" in self.names:
            raise NotImplementedError("no Arrow type for z\nand more")
        return pl.DataFrame({"time": DAYS}).select(self.names).__arrow_c_stream__()


def test_unreadable_column_of_data_frame_is_named(tmp_path: Path) -> None:
    assert counted(Picky(), tmp_path) == [1, 2]
    match = r"column 'z' of the data frame cannot be read \(no Arrow type for z\); convert it"
    with pytest.raises(InvalidInputError, match=match):
        counted(Picky(), tmp_path, group_by="z", groups="a,b")


def test_a_stream_without_names_is_read_once(tmp_path: Path) -> None:
    class Stream:
        taken = False

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            assert not self.taken
            self.taken = True
            return pl.DataFrame({"time": DAYS, "page": ["a", "b"]}).__arrow_c_stream__()

    assert counted(Stream(), tmp_path, group_by="page", groups="a,b") == [1, 0, 1, 1]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = pd.DataFrame([[day, day] for day in DAYS], columns=["time", "time"])
    relation = duckdb.sql("select timestamp '2024-03-01' as time, timestamp '2024-03-02' as time")
    for events in (frame, relation):
        with pytest.raises(
            InvalidInputError, match="has two columns 'time', so nobody can tell which"
        ):
            counted(events, tmp_path)


TIMES = pl.Series("time", DAYS).str.to_datetime()


@pytest.mark.parametrize(
    "times",
    [
        pl.Series("time", DAYS, pl.Categorical),
        pl.Series("time", DAYS, pl.Enum(DAYS)),
        pd.Series(DAYS, dtype="category"),
        pd.Series(pd.to_datetime(DAYS).astype("category")),
        pd.Series(pd.to_datetime(DAYS).astype("datetime64[s]")),
        pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("Europe/Paris"),
        pd.to_datetime(pd.Series([f"{day}+05:30" for day in DAYS])),
        pd.Series([*pd.to_datetime(DAYS)], dtype=object),
        pd.Series(TIMES.to_numpy().astype("datetime64[ns]")),
    ],
    ids=lambda times: str(times.dtype),
)
def test_times_of_any_type_are_the_same_times(times: Any, tmp_path: Path) -> None:
    frame = times.to_frame() if isinstance(times, pl.Series) else pd.DataFrame({"time": times})
    assert counted(frame, tmp_path) == [1, 2]


def test_a_fixed_offset_in_parquet_is_a_zone(tmp_path: Path) -> None:
    """As pandas writes it. In a column that nobody reads it hinders nobody."""
    utc = TIMES.dt.replace_time_zone("UTC")
    made = pl.DataFrame({"time": DAYS, "at": utc.dt.convert_time_zone("Israel")})
    made.write_parquet(tmp_path / "made.parquet")
    given = (tmp_path / "made.parquet").read_bytes()
    (schema,) = (
        text
        for text in re.findall(rb"[A-Za-z0-9+/]{80,}={0,2}", given)
        if b"Israel" in base64.b64decode(text)
    )
    other = base64.b64encode(base64.b64decode(schema).replace(b"Israel", b"+05:30"))
    file = tmp_path / "fixed.parquet"
    file.write_bytes(given.replace(schema, other))
    assert counted(file, tmp_path) == [1, 2]
    job = Job(
        "count", file, tmp_path / "at.db", time="at", every="1d", start="2024-03-01", windows=3,
        until="2024-03-03", epsilon=10**6, privacy_unit="event", allow_empty_windows=True,
    )  # fmt: skip
    with run(job) as outcome:
        assert outcome.read().table()["estimate"].to_list() == [1, 2]


def test_columns_of_pandas_are_those_of_polars(tmp_path: Path) -> None:
    """Without pyarrow: whole numbers, missing values, texts, labels."""
    values: dict[str, Any] = {
        "int": ([1, 2], None), "float": ([1.5, None], None), "text": (["a", None], None),
        "object": (["a", None], object), "Int64": ([1, None], "Int64"),
        "bool": ([True, False], None), "label": (["a", None], "category"),
        "stamp": ([datetime(2024, 3, 1), None], "datetime64[us]"),
        "bytes": (np.array([1, 2], np.uint8), None),
    }  # fmt: skip
    from counton.io.sources import open_frame

    frame = pd.DataFrame(
        {name: pd.Series(given, dtype=dtype) for name, (given, dtype) in values.items()}
    )
    found = open_frame(frame).frame().collect()
    assert found.to_dict(as_series=False) == {name: [*given] for name, (given, _) in values.items()}
