"""Rows that cannot count are left out while others are read, and the same rows count.

The rule is written once more, row by row; and each log is counted with rows left out after every
few of them, and with none left out until all are read.
"""

import os
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from databases import rows_in
from run_results import counts_of, releases_of

from counton.base.errors import ConcurrentWriterError
from counton.run import Job, run
from counton.run.counting import contribution_choice
from counton.run.counting.chosen_rows import RowChoice
from counton.run.rows.row_buffer import RowBuffer
from counton.state.dedup import unpack

START = datetime(2024, 3, 1, tzinfo=UTC)
GROUPS = ("z", "a", "m")  # not in the order of their names
#: More logs on request: COUNTON_FUZZ=200 pytest tests/run/test_first_rows.py.
SEEDS = range(int(os.environ.get("COUNTON_FUZZ", "6")))
SCHEMA: dict[str, Any] = {
    "at": pl.Datetime("us", "UTC"), "page": pl.String, "who": pl.String, "paid": pl.Int64,
}  # fmt: skip
WAYS: list[dict[str, Any]] = [
    {"max_contributions": 2},
    {"max_contributions": 3, "contribution_period": "1d"},
    {"max_contributions": 2, "contribution_period": "6h", "once_per_window": True},
    {"max_contributions": 2, "once_per_window": True},
    {"max_contributions": 2, "distinct_users": True},
    {"max_contributions": 1},
]


@pytest.fixture(autouse=True)
def few_at_a_time(one_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.io.aggregation.ROWS_AT_A_TIME", 7)
    monkeypatch.setattr("counton.run.rows.row_buffer._ROWS_OF_PORTION", 4)


def nights(seed: int) -> list[pl.DataFrame]:
    """Rows of few users at few moments, in no order: many are alike, others differ in one thing."""
    chance = random.Random(seed)
    made = []
    for night in range(2):
        rows = []
        for _ in range(chance.randint(20, 60)):
            hour = 24 * chance.choice([night, night, 0]) + chance.choice([0, 0, 0, 1, 5, 23])
            at = START + timedelta(hours=hour, seconds=chance.choice([0, 0, 5]))
            who = chance.choice(["ann", "ann", "bob", f"u{chance.randint(0, 5)}"])
            rows.append((at, chance.choice(GROUPS), who, chance.choice([1, 2])))
        made.append(pl.DataFrame(rows, SCHEMA, orient="row"))
    return made


def job(way: dict[str, Any], state: Path, **more: Any) -> Job:
    asked: dict[str, Any] = {
        "time": "at", "every": "1h", "start": START, "windows": 48, "group_by": "page",
        "user": "who",
        "groups": list(GROUPS), "strategy": "binary", "epsilon": 10**7, "value": "paid",
        "lower": 0, "upper": 2, "resolution": 1, "append": True, "allow_empty_windows": True,
    }  # fmt: skip
    return Job("sum", state=state, **{**asked, **way, **more})


def counted(way: dict[str, Any], rows: list[pl.DataFrame], state: Path) -> tuple[Any, ...]:
    """What runs release, say to the operator, and remember."""
    told = []
    for night, one in enumerate(rows):
        asked = job(way, state, events=one, until=START + timedelta(days=night + 1))
        with run(asked) as outcome:
            told.append((counts_of(outcome), releases_of(outcome).tolist()))
    kept = rows_in(state, "SELECT * FROM counton_marks")
    marks: Counter[Any] = Counter()
    for part in kept:
        if part["kind"] == "user":
            digests, facts = unpack(bytes(part["marks"]))
            assert (np.diff(digests.astype(object)) >= 0).all()
            period = [part["period"]] * len(digests)
            marks.update(
                zip(period, digests.tolist(), *(fact.tolist() for fact in facts), strict=True)
            )
    return told, marks


def by_the_rule(way: dict[str, Any], rows: list[pl.DataFrame]) -> dict[Any, int]:
    """Sums by window and group, in which each row is counted, one row after the other."""
    taken: dict[Any, list[Any]] = defaultdict(list)
    sums: Counter[Any] = Counter()
    lengths = {None: 48, "1d": 24, "6h": 6}
    for night, one in enumerate(rows):
        new = defaultdict(list)
        for at, page, who, paid in one.rows():
            hour = int((at - START).total_seconds()) // 3600
            new[who, hour // lengths[way.get("contribution_period")]].append((at, page, paid, hour))
        for unit, of_unit in new.items():
            for _, page, paid, hour in sorted(of_unit):
                cell = page if way.get("distinct_users") else (page, hour)
                once = way.get("distinct_users") or way.get("once_per_window")
                if len(taken[unit]) < way["max_contributions"] and not (
                    once and cell in taken[unit]
                ):
                    taken[unit].append(cell)
                    sums[max(hour, 24 * night), page] += paid
    return sums


def check(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    way = WAYS[seed % len(WAYS)]
    rows = nights(seed)
    monkeypatch.setattr(RowBuffer, "least", 10**9)
    expected = counted(way, rows, folder / "all.db")
    monkeypatch.setattr(RowBuffer, "least", 0)
    assert counted(way, rows, folder / "few.db") == expected
    last = np.array(expected[0][-1][1]).reshape(48, len(GROUPS))
    sums = by_the_rule(way, rows)
    for place, page in enumerate(GROUPS):
        running = np.cumsum([sums[hour, page] for hour in range(48)])
        assert last[:, place].tolist() == running.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_counted_rows_are_same_when_buffer_is_thinned(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(seed, tmp_path, monkeypatch)


def test_a_thinning_that_drops_a_tie_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = RowChoice.that_may_count

    def by_time_alone(self: RowChoice, rows: pl.DataFrame) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(contribution_choice, "_decide_ties", lambda *_: None)
            return right(self, rows)

    monkeypatch.setattr(RowChoice, "that_may_count", by_time_alone)

    def check_some() -> None:
        for seed in range(6):
            (tmp_path / str(seed)).mkdir()
            check(seed, tmp_path / str(seed), monkeypatch)

    with pytest.raises(AssertionError):
        check_some()


def test_users_counted_by_another_run_stop_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBuffer, "least", 0)
    rows = pl.DataFrame({"at": [START] * 9, "page": "a", "who": "ann", "paid": 1})
    asked = job(
        {"max_contributions": 2}, tmp_path / "s.db", events=rows, until=START + timedelta(hours=12)
    )
    asked = asked.derive(append=False)
    right = RowChoice.choose
    done = list[bool]()

    def meanwhile(self: RowChoice, *arguments: Any) -> Any:
        if not done:
            done.append(True)
            run(asked).close()
        return right(self, *arguments)

    monkeypatch.setattr(RowChoice, "choose", meanwhile)
    with pytest.raises(ConcurrentWriterError, match="another process"):
        run(asked)


def row(day: int, who: str, row_id: str = "") -> dict[str, Any]:
    return {"at": f"2024-03-0{day}T09:00", "who": who, "id": row_id}


def run_until(day: int, rows: list[Any], state: Path, **options: Any) -> tuple[list[int], int]:
    """What a run of daily counts releases, and how many rows it reports as beyond the bound."""
    daily = Job(
        "count", pl.DataFrame(rows), state, time="at", every="1d", start="2024-03-01", windows=9,
        until=f"2024-03-0{day}", user="who", epsilon=10**7, **options,
    )  # fmt: skip
    with run(daily) as outcome:
        estimates = releases_of(outcome).round().astype(int)
        return estimates.tolist(), counts_of(outcome).beyond_bound


def test_row_that_repeats_an_id_drops_no_new_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBuffer, "least", 0)
    ids = {"row_id": "id", "append": True, "max_contributions": 2}
    first, new = row(1, "ann", "1"), row(2, "ann", "2")
    assert run_until(2, [first], tmp_path / "s.db", **ids) == ([1], 0)
    assert run_until(3, [first, first, new], tmp_path / "s.db", **ids) == ([1, 2], 0)


def test_late_row_of_snapshot_drops_no_counted_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the counted row, the run is refused: all counted rows seem to be missing."""
    monkeypatch.setattr(RowBuffer, "least", 0)
    counted_row, others_row = row(2, "ann"), row(3, "bob")
    run_until(3, [counted_row], tmp_path / "s.db", max_contributions=1)
    rows = [row(1, "ann"), counted_row, others_row]
    released, _ = run_until(4, rows, tmp_path / "s.db", max_contributions=1)
    assert released == [0, 1, 2]


def test_counted_row_of_a_late_rows_window_leaves_room_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that its own window excludes takes no room of the step that counts late rows."""
    monkeypatch.setattr(RowBuffer, "least", 0)
    weekly = {"append": True, "max_contributions": 7, "max_contributions_per_window": 1}
    state = tmp_path / "s.db"
    run_until(3, [row(1, "ann"), row(2, "bob")], state, **weekly)
    late_again = {**row(1, "ann"), "at": "2024-03-01T10:00"}
    released, _ = run_until(4, [late_again, row(2, "ann")], state, **weekly)
    assert released == [1, 2, 3]


def test_row_of_later_window_is_not_reported_as_beyond_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBuffer, "least", 0)
    rows = [row(1, "ann"), row(4, "ann")]
    revised = {"allowed_lateness": "1d", "max_contributions": 1}
    _, beyond = run_until(2, rows, tmp_path / "s.db", **revised)
    assert beyond == 0


@pytest.mark.parametrize("least", [0, 2**24])
def test_snapshot_reports_rows_beyond_bound_once(
    least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RowBuffer, "least", least)
    daily = {"max_contributions": 1, "contribution_period": "1d"}
    rows = [row(1, "ann"), row(1, "ann"), row(2, "bob"), row(2, "bob"), row(2, "bob")]
    _, beyond = run_until(2, rows, tmp_path / "s.db", **daily)
    assert beyond == 1
    _, beyond = run_until(3, rows, tmp_path / "s.db", **daily)
    assert beyond == 2
    _, beyond = run_until(3, rows, tmp_path / "s.db", **daily)
    assert beyond == 0


def test_in_order_puts_rows_of_similar_digests_user_by_user() -> None:
    """Digests of different users have equal first bits, so their rows are mixed up at first."""
    random_numbers = np.random.default_rng(1)
    size = 1000
    first_bits = random_numbers.integers(0, 2**64, 20, np.uint64) // 2**20 * 2**20
    digests = random_numbers.choice(first_bits, size) + random_numbers.integers(
        0, 4, size, np.uint64
    )
    rows = pl.DataFrame(
        {
            "user": digests,
            "period": random_numbers.integers(0, 2, size),
            "us": random_numbers.integers(0, 3, size),
            "group": np.zeros(size, np.int64),
            "total": np.zeros(size, np.int64),
            "place": np.arange(size),
        }
    )
    ordered = contribution_choice.in_order(rows, ["all"])
    assert ordered.equals(rows.sort("user", "period", "us", "place"))
