"""What bounds leave out, measured by other streams, as docs/people.md has it.

Rows beyond ``most`` are those from the (most + 1)-th to the last measured one of each user, and one
user's period moves their number by as many as that; the number without a last one moves by any.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from folders import job_folder
from keys import chosen_key

from counton import ZCDP, PureDP, Release, release
from counton.run import Job, run
from counton.state import Store

MOST, LAST, DAYS = 3, 6, 3
BEYOND = [f"{rank} or more" for rank in range(MOST + 1, LAST + 1)]
TOLD: dict[str, Any] = {
    "time": "at", "every": "1d", "start": "2024-03-01", "steps": 9, "user": "user", "per": "1d",
    "until": f"2024-03-{DAYS + 1:02}", "unit": "user",
}  # fmt: skip
#: Noise of so much less than 1 that released numbers are exact.
NONE = PureDP(10**6)
MEASURED: dict[str, Any] = {"at_least": ["1", *map(str, range(MOST + 1, LAST + 1))]}


def rows(numbers: dict[tuple[int, str], int], value: int = 1) -> pl.DataFrame:
    """Rows by day and user, hour by hour."""
    found = [
        (f"2024-03-{day:02}T{hour % 24:02}:{hour // 24:02}", user, value)
        for (day, user), many in numbers.items()
        for hour in range(many)
    ]
    return pl.DataFrame(found, schema=["at", "user", "value"], orient="row")


def drawn(seed: int) -> dict[tuple[int, str], int]:
    rng = np.random.default_rng(seed)
    return {
        (day, f"u{user}"): int(rng.integers(0, 10))
        for day in range(1, DAYS + 1)
        for user in range(30)
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_ranks_add_up_to_the_rows_that_a_bound_leaves_out(tmp_path: Path, seed: int) -> None:
    numbers = drawn(seed)
    given: dict[str, Any] = {"guarantee": NONE, "state": tmp_path / "all.db", **TOLD}
    reached = release("reach", rows(numbers), **MEASURED, name="beyond", **given)
    counts = [
        release("count", rows(numbers), most=most, release="windows", name=f"most {most}", **given)
        for most in (MOST, LAST, 20)
    ]
    within, measured, everything = (
        found.numbers.windows.estimates[:, 0] for found in counts if found.numbers.windows
    )
    by_day = reached.table().pivot("name", index="step", values="estimate").sort("step")
    beyond = by_day.select(pl.sum_horizontal(BEYOND)).to_series().to_numpy()
    assert beyond.tolist() == (measured - within).tolist()
    assert (everything - measured > 0).all()  # these are in no number
    over = Counter(day for (day, _), many in numbers.items() if many > MOST)
    assert by_day[BEYOND[0]].to_list() == [over[day] for day in range(1, DAYS + 1)]
    there = Counter(day for (day, _), many in numbers.items() if many)
    share = reached.share(BEYOND[0], steps=range(2, 3))
    assert share.value == pytest.approx(over[2] / there[2])


def released_with(numbers: dict[tuple[int, str], int], what: str, **more: Any) -> Release:
    """A run with one key for all: the same rows release the same numbers."""
    with job_folder() as folder:
        job = Job(
            what, rows(numbers), f"{folder}/one.db", key=chosen_key(), yes=True, **TOLD, **more
        )
        with run(job) as outcome:
            return outcome.read()


@pytest.mark.parametrize("many", [1, MOST, MOST + 1, LAST, LAST + 1, 60])
def test_a_period_of_a_user_moves_measured_rows_by_no_more_than_their_bound(many: int) -> None:
    """Neighbours through whole jobs under one key, so that noise is the same in both."""
    numbers = drawn(3)
    without, given = numbers | {(2, "eve"): 0}, numbers | {(2, "eve"): many}
    tables = [
        released_with(each, "reach", epsilon="0.1", **MEASURED).table() for each in (without, given)
    ]
    here, there = (each["estimate"].to_numpy() for each in tables)
    moved = dict.fromkeys(tables[0]["name"].to_list(), 0)
    for name, by in zip(tables[0]["name"].to_list(), np.abs(there - here), strict=True):
        moved[name] += int(by)
    thresholds = (1, *range(MOST + 1, LAST + 1))
    assert [moved[f"{least} or more"] for least in thresholds] == [many >= k for k in thresholds]
    assert sum(moved[name] for name in BEYOND) == min(max(many - MOST, 0), LAST - MOST)
    # There is noise, so that the equal numbers of both are no accident of its absence.
    exact = [sum(n >= k for (day, _), n in without.items() if day == 1) for k in thresholds]
    assert here[: len(exact)].tolist() != exact


def test_measuring_costs_its_own_part_of_the_same_unit(tmp_path: Path) -> None:
    given: dict[str, Any] = {"state": tmp_path / "all.db", **TOLD}
    release("count", rows(drawn(1)), most=MOST, name="visits", guarantee=ZCDP(0.45), **given)
    release("reach", rows(drawn(1)), **MEASURED, name="beyond", guarantee=ZCDP(0.05), **given)
    with Store(tmp_path / "all.db") as store:
        ((unit, (_, spent)),) = store.totals.items()
    assert str(spent) == str(ZCDP(0.5))
    assert "user's day" in str(unit)


def test_two_sums_of_a_report_say_what_clipping_keeps(tmp_path: Path) -> None:
    """The narrow sum and the wide one, in one stream, whose ratio has an interval."""
    low, high = {(1, "ann"): 3, (2, "bob"): 1}, {(1, "cid"): 1, (3, "dan"): 2}
    given = pl.concat([rows(low, 20), rows(high, 90)])
    bounds = {"statistic": "sum", "value": "value", "lower": 0, "resolution": 1}
    statistics = {"paid": bounds | {"upper": 60}, "wider": bounds | {"upper": 100, "share": 0.5}}
    found = release(
        "report", given, statistics=statistics, most=MOST, guarantee=NONE,
        state=tmp_path / "paid.db", **TOLD,
    )  # fmt: skip
    assert found.ratio("paid", "wider").value == pytest.approx(
        (4 * 20 + 3 * 60) / (4 * 20 + 3 * 90)
    )
