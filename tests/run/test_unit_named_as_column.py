"""A unit that is called like a column of the rows is refused if single rows are protected."""

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.base.errors import InvalidInputError
from counton.job.statistics.count import CountJob
from counton.run.rows.row_source import refuse_unit_of_users

TIMES = ["2024-03-01T09:00", "2024-03-01T10:00", "2024-03-02T09:00"]
OPTIONS: dict[str, Any] = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "windows": 10,
    "epsilon": 1,
    "until": "2024-03-02",
}


def rows(column: str, *names: str) -> pl.DataFrame:
    return pl.DataFrame({"time": TIMES, column: [*names]})


@pytest.mark.parametrize("column", ["visitor", "Visitor", "visitor_id", "visitorId"])
def test_privacy_unit_named_like_column_is_refused_before_release(
    column: str, tmp_path: Path
) -> None:
    frame = rows(column, "ann", "bob", "ann")
    with pytest.raises(InvalidInputError) as refused:
        release("count", frame, **OPTIONS, privacy_unit="visitor", state=tmp_path / "s.db")
    assert str(refused.value) == (
        "privacy_unit=visitor is only a name: without user, each row is protected alone. The rows "
        f"have a column {column!r}. To protect each visitor, give user={column} and "
        "max_contributions. To protect single rows, use another name, as in privacy_unit=row"
    )
    assert os.listdir(tmp_path) == []


def test_refusal_depends_on_names_of_columns_alone(tmp_path: Path) -> None:
    said = set()
    for number, names in enumerate((("a", "b", "c"), ("a", "a", "a"), (None, None, None))):
        frame = pl.DataFrame({"time": TIMES, "visitor": [*names]})
        state = tmp_path / f"{number}.db"
        with pytest.raises(InvalidInputError) as refused:
            release("count", frame, **OPTIONS, privacy_unit="visitor", state=state)
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"privacy_unit": "visit"},
        {"privacy_unit": "visitor", "user": "visitor", "max_contributions": 2},
        {"privacy_unit": "visitor", "row_id": "visitor"},
    ],
    ids=["another name", "users are protected", "ids of rows"],
)
def test_unit_is_accepted_where_its_name_is_true(more: dict[str, Any], tmp_path: Path) -> None:
    frame = rows("visitor", "ann", "bob", "cy")
    released = release("count", frame, **OPTIONS, **more, state=tmp_path / "s.db")
    assert released.numbers.metadata.privacy_unit == more["privacy_unit"]


def test_column_of_counts_may_name_the_unit() -> None:
    job = CountJob(privacy_unit="passages", count_column="passages")
    refuse_unit_of_users(job, ["hour", "passages"])
    with pytest.raises(InvalidInputError, match="is only a name"):
        refuse_unit_of_users(job.with_options(count_column="n"), ["hour", "n", "passages"])


def test_later_run_of_a_stream_is_not_refused(tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    without = pl.DataFrame({"time": TIMES})
    release("count", without, **OPTIONS, privacy_unit="visitor", state=state)
    later = rows("visitor", "ann", "bob", "ann")
    released = release("count", later, until="2024-03-03", state=state)
    assert released.numbers.metadata.privacy_unit == "visitor"
