"""Every statistic of revised windows goes through every door, and comes back as it was."""

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from every_statistic import HEADER, OWN, TABLES

from counton import read
from counton.run import Job, export, publish, run
from counton.state import verify

NIGHTS = (
    ("2024-03-01T00:10,home,ann,3,u,v,1,a,1", "2024-03-01T00:40,shop,bob,5,v,w,1,b,2"),
    ("2024-03-02T02:30,home,ann,4,u,w,1,a,3", "2024-03-01T03:30,home,cy,4,u,w,1,a,4"),
    ("2024-03-03T02:30,shop,bob,4,u,w,1,a,5", "2024-03-02T03:30,shop,bob,6,u,w,1,a,6"),
    ("2024-03-04T02:30,home,cy,4,u,w,1,a,7", "2024-03-01T03:30,shop,bob,6,u,w,1,a,8"),
    ("2024-03-05T02:30,home,cy,4,u,w,1,a,9", "2024-03-04T03:30,shop,bob,6,u,w,1,a,10"),
)
BY = {"group_by": "page", "groups": "home,shop"}
ORDERED = ("substrings", "episodes", "edges", "triangles", "stars", "degrees", "cuts", "forest")
HERE = {name: own for name, own in {**OWN, **TABLES}.items() if name not in (*ORDERED, "distinct")}
GROUPED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("count", "sum", "average", "quantiles"), BY),
    "reach": {**BY, "max_contributions": 2},
}
CASES = [*HERE.items(), *((name, {**HERE[name], **by}) for name, by in GROUPED.items())]


def nights(folder: Path, what: str, **options: Any) -> Path:
    """Five nights of a statistic, published after the third and the last; its state."""
    state = folder / "s.db"
    for night, rows in enumerate(NIGHTS, 1):
        events = folder / f"{night}.csv"
        events.write_text(HEADER + "".join(f"{row}\n" for row in rows))
        job = Job(
            what, events, state, time="at", every="1d", start="2024-03-01", allowed_lateness="2d",
            append=True, allow_empty_windows=True, until=f"2024-03-{night + 1:02}", rho=50,
            **options,
        )  # fmt: skip
        run(job).close()
        if night in (3, len(NIGHTS)):
            publish(state, folder / "public.db")
    return state


@pytest.mark.parametrize(
    ("what", "options"),
    [
        pytest.param(
            *case,
            id="-".join([case[0], *(["groups"] if "group_by" in case[1] else [])]),
            marks=() if case[0] in ("count", "average") else pytest.mark.long,
        )
        for case in CASES
    ],
)
def test_written_revisions_are_read_back(
    what: str, options: dict[str, Any], tmp_path: Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = nights(tmp_path, what, **options)
    found = export(state)
    table = found.table()
    versions = found.versions()
    assert {"as_of", "lag_windows", "is_final"} <= set(table.columns)
    assert versions.height > table.height
    for ending in ("csv", "parquet", "json"):
        file = tmp_path / f"t.{ending}"
        export(state, file)
        back = read(file)
        assert back.table().equals(table), ending
        assert back.versions().equals(versions), ending
    assert all(one.right for one in verify(state))
    assert found.describe()
    methods = found.methods(full=True)
    assert "and again after the next 2 windows" in methods
    assert "provisional for 2 more days" in methods


def test_rows_for_dashboards_are_the_newest(tmp_path: Path) -> None:
    state = nights(tmp_path, "count", **BY)
    table = export(state).table()
    said = 'SELECT window_index, "group", estimate, noise_std FROM counton_releases ORDER BY 1, 2'
    with closing(sqlite3.connect(tmp_path / "public.db")) as connection, connection:
        rows = connection.execute(said).fetchall()
    connection.close()
    assert [row[:3] for row in rows] == table.select("window_index", "group", "estimate").rows()
    assert [row[3] for row in rows] == pytest.approx(table["noise_std"].to_list())
