"""A report of people: all rows of one together move all statistics by what is stated, exactly."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from run_results import design_of, releases_of

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.results.release import Release
from counton.run import Job, run
from counton.statistics import Average, Count, Distinct, Grouped, Report, Sum, TopK

REGIONS = ["N", "S", "W"]
STREAM: dict[str, Any] = {
    "time": "at", "every": "1d", "start": "2024-03-01", "windows": 6, "user": "who",
    "strategy": "binary", "epsilon": 10**7,
}  # fmt: skip
MIXED = Report(
    {
        "n": Count(),
        "users": Distinct(),
        "users by region": Distinct(),
        "paid": Grouped(Average(0, 10, resolution=1), REGIONS),
        "total": Sum(-3, 7, resolution=1),
        "largest": TopK(["c", "a", "b"], 2),
    },
    columns={
        "users by region": "region", "paid": ["region", "paid"], "total": "paid", "largest": "city",
    },
    groups={"users by region": REGIONS},
)  # fmt: skip
USERS = Report(
    {"users": Distinct(), "by region": Distinct()},
    columns={"by region": "region"},
    groups={"by region": REGIONS},
)
ONLY_USERS = Report({"n": Count(), "users": Distinct()})


def row(day: int, who: str, region: str, paid: float = 10, city: str = "a") -> dict[str, Any]:
    return {
        "at": f"2024-03-0{day}T10:00", "who": who, "region": region, "paid": paid, "city": city,
    }  # fmt: skip


def changes(
    report: Report, nights: list[list[dict[str, Any]]], folder: Path, **more: Any
) -> tuple[NDArray[np.int64], BoundedChange, Any]:
    """What each step added to each cell, what one person may move, and what was released."""
    state = str(folder / f"{len(list(folder.iterdir()))}.db")
    schema = ["at", "who", "region", "paid", "city"]
    for night, rows in enumerate(nights):
        frame = pl.DataFrame(rows, schema=dict.fromkeys(schema) if not rows else None)
        until = f"2024-03-0{3 * (night + 1)}"
        job = Job(report, frame, state, **{**STREAM, "append": True, "until": until, **more})
        with run(job) as outcome:
            pattern = outcome.spec.contribution.pattern
            values = np.asarray(releases_of(outcome), float)
            values = np.rint(values / float(design_of(outcome).units.exact)).astype(np.int64)
            released = Release(outcome.read().numbers)
    assert isinstance(pattern, BoundedChange)
    return np.diff(values, axis=0, prepend=0), pattern, released


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("report", [MIXED, USERS], ids=["mixed", "users"])
def test_worst_user_attains_stated_change_of_report(
    report: Report, most: int, tmp_path: Path
) -> None:
    """Rows of the largest values, all in one region or each in another, and on both nights."""
    others = [[row(1, "ann", "N", 3), row(2, "bob", "S", 4)], [row(4, "ann", "W", 5)]]
    without, stated, _ = changes(report, others, tmp_path, max_contributions=most)
    l1 = []
    l2_squared = []
    for apart in (True, False):
        own = [row(1, "x", REGIONS[place if apart else 0]) for place in range(5) if place < 3]
        nights = [[*others[0], *own], [*others[1], row(5, "x", "N"), row(5, "x", "S")]]
        moved = np.abs(changes(report, nights, tmp_path, max_contributions=most)[0] - without).sum(
            axis=0
        )
        l1.append(int(moved.sum()))
        l2_squared.append(sum(int(one) ** 2 for one in moved))
    assert max(l1) == stated.l1
    assert max(l2_squared) <= stated.l2_squared
    if report is USERS:
        assert max(l2_squared) == stated.l2_squared


def test_users_and_groups_of_report_count_once(tmp_path: Path) -> None:
    """Late rows, rows of several nights, and rows beyond the bound."""
    rng = np.random.default_rng(5)
    rows = [
        row(int(rng.integers(1, 6)), f"u{rng.integers(12)}", REGIONS[rng.integers(3)], int(paid))
        for paid in rng.integers(0, 10, 60)
    ]
    nights = [rows[:30], rows[30:]]
    found, _, released = changes(MIXED, nights, tmp_path, max_contributions=100)
    assert found.sum() > 0
    people = len({one["who"] for one in rows})
    last = {name: one.table() for name, one in ((n, released.part(n)) for n in MIXED.statistics)}
    assert last["users"]["estimate"][-1] == pytest.approx(people, abs=0.1)
    pairs = {(one["who"], one["region"]) for one in rows}
    by_region = last["users by region"].filter(pl.col("window_index") == 5)
    for region, number in by_region.select("group", "estimate").rows():
        assert number == pytest.approx(sum(pair[1] == region for pair in pairs), abs=0.1)
    all_rows, _, whole = changes(
        MIXED, [rows], tmp_path, max_contributions=100, append=False, until="2024-03-06"
    )
    assert np.array_equal(all_rows.sum(axis=0), found.sum(axis=0))
    assert whole.part("users").numbers.metadata.subject == "number of distinct users"


def test_a_user_counts_once_in_each_period(tmp_path: Path) -> None:
    rows = [row(day, who, "N") for day, who in itertools.product((1, 1, 2), ("ann", "bob"))]
    found, stated, _ = changes(
        ONLY_USERS,
        [rows],
        tmp_path,
        max_contributions=2,
        contribution_period="1d",
        until="2024-03-04",
    )
    stream_exists = found[:, 1] // np.gcd.reduce(found[:, 1])
    assert stream_exists.tolist() == [1, 1, 0]
    assert stated.l1 < stated.l2_squared


def test_users_in_a_report_need_a_column_of_users(tmp_path: Path) -> None:
    frame = pl.DataFrame([row(1, "ann", "N")])
    stream = {key: value for key, value in STREAM.items() if key != "user"}
    with pytest.raises(InvalidInputError, match="counts users, and no column names them"):
        run(Job(ONLY_USERS, frame, str(tmp_path / "s.db"), **stream))
    job = Job(
        MIXED,
        frame,
        str(tmp_path / "s.db"),
        **STREAM,
        max_contributions=2,
        group_by="city",
        groups="a,b",
    )
    with pytest.raises(InvalidInputError, match="give group_by and groups inside the statistics"):
        run(job)
