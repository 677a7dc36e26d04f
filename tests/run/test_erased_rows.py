"""Rows that were counted are erased or corrected where they lie: each moves what it alone may."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_results import counts_of, releases_of

from counton.run import Job, run
from counton.run.erasure import erase_user

Row = tuple[str, str, str, str]
HEADER = "time,page,reader,paid\n"
#: Each statistic with the sum of all that counts, of rows.
WHATS: dict[str, dict[str, Any]] = {
    "count": {"group_by": "page", "groups": "a,b"},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "count users": {"user": "reader", "max_contributions": 400},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "quantiles": {"value": "paid", "edges": "0,4,10", "line": "identity"},
}
#: By how much one row moves all sums together, at most.
CLAIMS = {"count": 1, "sum": 9, "count users": 1, "average": 10, "quantiles": 1}


def day(number: int, rows: int = 300, seed: int = 0) -> list[Row]:
    """What happens on a day: ann is there once an hour, others by chance."""
    rng = random.Random(100 * number + seed)
    begin = datetime(2024, 3, number)
    times = [begin + timedelta(seconds=rng.randrange(86400)) for _ in range(rows)]
    found = [(rng.choice("ab"), f"u{rng.randrange(80)}", str(rng.randrange(10))) for _ in times]
    ann = [(begin + timedelta(hours=hour, minutes=7), "a", "ann", "1") for hour in range(24)]
    told = [(time, *said) for time, said in zip(times, found, strict=True)]
    return [(time.isoformat(), *said) for time, *said in sorted([*told, *ann])]  # type: ignore[misc]


def without_ann(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[2] != "ann"]


def write(file: Path, rows: Sequence[Row]) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(HEADER + "".join(",".join(row) + "\n" for row in rows))
    return file


def asked(events: Any, folder: Path, what: str, until: str, **more: Any) -> Job:
    given: dict[str, Any] = {"until": until}
    if not (folder / "s.db").exists():
        given |= {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 28}
        given |= {"epsilon": 10**6, **WHATS[what]}
    word: Any = what.split()[0]
    return Job(word, events, folder / "s.db", **{**given, **more})


def totals(job: Job) -> tuple[list[list[int]], Any]:
    """All that was released, to the nearest whole number, and numbers of rows for the operator."""
    with run(job) as outcome:
        values = np.asarray(releases_of(outcome), float)
        return np.rint(values.reshape(len(values), -1)).astype(int).tolist(), counts_of(outcome)


def steps_of(folder: Path, what: str, nights: Sequence[Sequence[Row]], **more: Any) -> Any:
    """What each step adds, of a stream with a file each night."""
    folder.mkdir(exist_ok=True)
    found: Any = []
    for number, rows in enumerate(nights, 1):
        file = write(folder / f"{number}.csv", rows)
        found, _ = totals(asked(file, folder, what, f"2024-03-{number + 1:02}", **more))
    return np.diff(np.array(found), axis=0, prepend=0)


def moved(folder: Path, what: str, without: Any, with_it: Any, **more: Any) -> int:
    """By how much all steps of all nights differ between two worlds, together."""
    worlds = [steps_of(folder / name, what, nights, **more) for name, nights in (
        ("without", without), ("with", with_it))]  # fmt: skip
    return int(np.abs(worlds[1] - worlds[0]).sum())


# --------------------------------------------------------------------- what one row's coming moves


@pytest.mark.parametrize("what", WHATS)
def test_erased_row_and_late_row_change_at_most_one(what: str, tmp_path: Path) -> None:
    """The late row was taken for the erased one, and did not count: twice what is promised."""
    hers: Row = ("2024-03-01T12:00:00", "a", "zoe", "9")
    late: Row = ("2024-03-01T13:00:00", "a", "bob", "9")
    first = day(1, 20)
    then = day(2, 20)
    without = [first, [*first, late, *then]]
    with_it = [[*first, hers], [*first, late, *then]]
    assert 0 < moved(tmp_path, what, without, with_it) <= CLAIMS[what]


def test_row_present_every_other_run_changes_at_most_one(tmp_path: Path) -> None:
    hers: Row = ("2024-03-01T12:00:00", "a", "", "1")
    days = [day(number, 5) for number in range(1, 7)]
    without = list[list[Row]]()
    with_it = list[list[Row]]()
    for night in range(6):
        so_far = [row for rows in days[: night + 1] for row in rows]
        late = [(f"2024-03-01T13:0{n}:00", "a", "", "1") for n in range((night + 1) // 2)]
        without.append([*so_far, *late])
        with_it.append([*so_far, *late, *[hers] * (night % 2 == 0)])
    assert moved(tmp_path, "count", without, with_it) == 1


@pytest.mark.parametrize("users", [{}, {"user": "reader", "max_contributions": 2}])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_one_missing_row_does_not_reject_large_file(
    share: float, users: dict[str, Any], tmp_path: Path
) -> None:
    """Each was delivered once; nearly all of the second say what rows of the first said."""
    times = [f"2024-03-01T{n // 60:02}:{n % 60:02}:00" for n in range(400)]
    first = [(time, "a", f"u{n % 300}", "1") for n, time in enumerate(times)]
    same = [(*row[:2], f"v{n}", "1") for n, row in enumerate(first[: round(400 * share) - 1])]
    rest = [(f"2024-03-02T{n // 60:02}:{n % 60:02}:00", "b", f"w{n}", "1") for n in range(170)]
    hers: Row = (first[round(400 * share)][0], "a", "zoe", "1")
    nights = [[first, [*same, *rest]], [first, [*same, *rest, hers]]]
    more = {"append": True, "allow_empty_windows": True, **users}
    assert moved(tmp_path, "count", *nights, **more) == 1


# --------------------------------------------------------------------------- what the operator does


@pytest.mark.parametrize("what", WHATS)
def test_complete_file_continues_after_user_was_erased(what: str, tmp_path: Path) -> None:
    """What was counted stays so, what is late and of nobody known stays out; both are told."""
    days = [day(number) for number in range(1, 5)]
    nights = [*days[:2], *map(without_ann, days[2:])]
    late = [("2024-03-02T05:06:07", "b", "zoe", "3")]
    known = what == "count users"  # zoe's row is known to be new
    expected = steps_of(
        tmp_path / "new", what,
        [*nights[:3], [*nights[3], *late * known]], append=True,
    )  # fmt: skip
    erased = [without_ann(rows) for rows in nights]
    so_far = [
        days[0],
        [*days[0], *days[1]],
        [row for rows in erased[:3] for row in rows],
        [*(row for rows in erased for row in rows), *late],
    ]
    found = steps_of(tmp_path / "all", what, so_far)
    assert found.tolist() == expected.tolist()
    job = asked(tmp_path / "all" / "4.csv", tmp_path / "all", what, "2024-03-05")
    counts = totals(job)[1]
    # A cell that lost one row and got another looks as if nothing had happened.
    if known:
        assert (counts.missing, counts.late_ignored) == (48, 0)
    elif what == "count":
        assert (counts.missing, counts.late_ignored) == (48, 1)
    else:
        assert counts.missing in (47, 48)


def test_folder_without_counted_files_continues(tmp_path: Path) -> None:
    days = [day(number) for number in range(1, 4)]
    folder = tmp_path / "days"
    for number, rows in enumerate(days, 1):
        file = write(folder / f"{number}.csv", rows)
        until = f"2024-03-{number + 1:02}"
        found, counts = totals(asked(folder, tmp_path, "count", until, append=True))
        assert (counts.rows, counts.late) == (324, 0)
        file.unlink()
    assert sum(found[-1]) == 3 * 324


@pytest.mark.parametrize("append", [False, True])
def test_with_ids_an_erased_reader_leaves_and_nothing_else_moves(
    append: bool, tmp_path: Path
) -> None:
    days = [
        [(*row[:2], f"{row[2]}-{d}-{n}", row[3]) for n, row in enumerate(day(d))] for d in (1, 2)
    ]
    rest = [row for row in days[0] if not row[2].startswith("ann")]
    first = write(tmp_path / "1.csv", days[0])
    then = write(tmp_path / "2.csv", rest + days[1])
    run(asked(first, tmp_path, "count", "2024-03-02", row_id="reader")).close()
    found, _ = totals(asked(then, tmp_path, "count", "2024-03-03", append=append))
    assert sum(found[-1]) == 2 * 324


@pytest.mark.parametrize("append", [False, True])
def test_rows_of_erased_user_are_not_reported_missing(append: bool, tmp_path: Path) -> None:
    """The state knows nobody by the rows that are gone."""
    days = [day(number) for number in (1, 2)]
    nights = [days[0], [*([] if append else without_ann(days[0])), *without_ann(days[1])]]
    job = asked(write(tmp_path / "1.csv", nights[0]), tmp_path, "count users", "2024-03-02")
    run(job.derive(max_contributions=40, append=append)).close()
    erase_user(tmp_path / "s.db", "ann")
    then = write(tmp_path / "2.csv", nights[1])
    found, counts = totals(asked(then, tmp_path, "count users", "2024-03-03", append=append))
    new = {row[2] for row in days[1]} - {row[2] for row in days[0]}
    assert not new - {"ann"}
    assert (found, counts.missing) == ([[324], [624]], 0)
