"""Released tables have the columns of one schema, in one order; the reference lists them."""

from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from counton import PureDP, release
from counton.base.table_schema import COLUMNS, LABELS, RESERVED, ColumnType, in_order
from counton.run import annotate

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "columns.md"
VISITS = pl.DataFrame(
    {
        "time": [f"2024-03-0{day}T09:00" for day in (1, 1, 2, 3)],
        "page": ["home", "shop", "home", "home"],
        "paid": [1, 2, 3, 4],
    }
)
PAGES: dict[str, Any] = {"group_by": "page", "groups": ["home", "shop"]}
STREAMS: dict[str, dict[str, Any]] = {
    "count": {**PAGES, "series": "both"},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1, "allowed_lateness": "1d"},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1, **PAGES},
    "quantiles": {"value": "paid", "edges": "0,2,4,9", "over": 2},
    "top-k": {**PAGES, "top": 1},
    "hierarchy": {"levels": "page", "groups": {"page": ["home", "shop"]}},
    "contingency": {"columns": "page", "groups": {"page": ["home", "shop"]}},
    "ranges": {"label": "page", "groups": ["home", "shop"]},
}
KINDS = {
    ColumnType.INTEGER: pl.selectors.integer(),
    ColumnType.NUMBER: pl.selectors.numeric(),
    ColumnType.BOOLEAN: pl.selectors.boolean(),
    ColumnType.TEXT: pl.selectors.string(),
    ColumnType.TIME: pl.selectors.datetime(),
}


@pytest.mark.parametrize("statistic", STREAMS)
def test_table_has_columns_of_the_schema_in_order(statistic: str, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    found = release(
        cast("Any", statistic), VISITS, time="time", every="1d", start="2024-03-01", windows=9,
        until="2024-03-04", guarantee=PureDP(1), state=state, **STREAMS[statistic],
    )  # fmt: skip
    annotate(state, "2024-03-01", "counter broken")
    types = {column.name: column.type for column in COLUMNS}
    for table in (found.table(), found.band()):
        assert table.columns == in_order(table.columns)
        own = {*table.columns} - {*types}
        assert own <= {"page"}
        for name in table.drop(own).columns:
            assert name in table.select(KINDS[types[name]]).columns, (name, table.schema[name])
        filled = [name for name in table.columns if name.startswith("is_")]
        assert all(table[name].null_count() == 0 for name in filled)
        identifying = [name for name in table.columns if name in LABELS or name in own]
        assert not table.select(identifying).is_duplicated().any()


def test_reference_lists_all_columns() -> None:
    rows = [
        f"| `{column.name}` | {column.type} | {column.meaning} | {column.present} |"
        for column in COLUMNS
    ]
    assert "\n".join(rows) in DOCUMENT.read_text("utf-8")


def test_names_of_columns_are_unique_and_booleans_begin_with_is() -> None:
    names = [column.name for column in COLUMNS]
    assert len({*names}) == len(names)
    assert {*RESERVED} <= {*names}
    for column in COLUMNS:
        assert (column.type is ColumnType.BOOLEAN) == column.name.startswith("is_")
