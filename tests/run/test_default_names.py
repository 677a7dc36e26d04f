"""A stream without a stated name is called by its statistic and value, and is found again."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import counton
from counton.base.errors import InvalidInputError
from counton.job.stream_name import usual_name
from counton.run import Job, run
from counton.state import Store

ROWS = pl.DataFrame(
    {"time": ["2024-03-01T09:00", "2024-03-02T09:00"], "paid": [3, 4], "tax": [1, 2]}
)
NEW: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 9}
NEW |= {"epsilon": 1, "until": "2024-03-03"}
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 9, "resolution": 1}


def released(state: Path, what: Any, **more: Any) -> list[Any]:
    return counton.release(what, ROWS, state=state, **more).table()["estimate"].to_list()


def names(state: Path) -> tuple[str, ...]:
    with Store(state) as store:
        return store.streams


def test_later_run_needs_no_stream_name_or_value(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    released(state, "count", **NEW)
    first = released(state, "sum", value="paid", **BOUNDS, **NEW)
    released(state, "sum", value="tax", stream="mine", **BOUNDS, **NEW)
    assert released(state, "sum", until="2024-03-04")[:2] == first
    assert names(state) == ("count", "mine", "sum_of_paid")
    released(state, "sum", value="tax", **BOUNDS, **NEW)
    assert names(state) == ("count", "mine", "sum_of_paid", "sum_of_tax")
    with pytest.raises(InvalidInputError, match="value"):  # of two sums it is neither
        released(state, "sum", until="2024-03-05")


def test_count_of_rows_and_of_counts_have_different_streams(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    first = released(state, "count", count_column="paid", **NEW)
    released(state, "count", **NEW)
    assert names(state) == ("count", "count_of_paid")
    assert released(state, "count", count_column="paid", until="2024-03-04")[:2] == first


def test_a_name_may_name_a_file_or_a_table(tmp_path: Path) -> None:
    rows = ROWS.rename({"paid": 'a/b "c";\n\u200bd'})
    job = Job("sum", rows, tmp_path / "s.db", value=rows.columns[1], **BOUNDS, **NEW)
    assert usual_name(job) == "sum_of_a_b_c_d"
    run(job).close()
    assert len(usual_name(Job("sum", rows, tmp_path / "s.db", value="v" * 999))) == 100
