"""Rows that were counted are erased or corrected where they lie: nothing counts twice or stops."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.base.errors import ReplayMismatch
from counton.run import Job, run
from counton.run.changes import compare
from counton.run.erasure import forget
from tests.run.test_intake import WINDOWS

Row = tuple[str, str, str, str]
HEADER = "time,page,reader,paid\n"
#: Each statistic with the sum of all that counts, of rows.
WHATS: dict[str, dict[str, Any]] = {
    "count": {"by": "page", "domain": "a,b"},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "count users": {"user": "reader", "most": 400},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "quantiles": {"value": "paid", "edges": "0,4,10", "line": "identity"},
}


def day(number: int, rows: int = 300, seed: int = 0) -> list[Row]:
    """What happens on a day: ann is there once an hour, others by chance."""
    rng, begin = random.Random(100 * number + seed), datetime(2024, 3, number)
    times = [begin + timedelta(seconds=rng.randrange(86400)) for _ in range(rows)]
    found = [(rng.choice("ab"), f"u{rng.randrange(80)}", str(rng.randrange(10))) for _ in times]
    ann = [(begin + timedelta(hours=hour, minutes=7), "a", "ann", "1") for hour in range(24)]
    told = [(time, *said) for time, said in zip(times, found, strict=True)]
    return [(time.isoformat(), *said) for time, *said in sorted([*told, *ann])]  # type: ignore[misc]


def without_ann(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row[2] != "ann"]


def write(file: Path, rows: list[Row]) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(HEADER + "".join(",".join(row) + "\n" for row in rows))
    return file


def asked(events: Any, folder: Path, what: str, until: str, **more: Any) -> Job:
    given: dict[str, Any] = {"until": until}
    if not (folder / "s.db").exists():
        given |= {"time": "time", "every": "1d", "start": "2024-03-01", "steps": 28}
        given |= {"epsilon": 10**6, **WHATS[what]}
    word: Any = what.split()[0]
    return Job(word, events, folder / "s.db", **{**given, **more})


def totals(job: Job) -> tuple[list[list[int]], Any]:
    """All that was released, to the nearest whole number, and numbers of rows for the operator."""
    with run(job) as outcome:
        values = np.asarray(outcome.stream.releases().values, float)
        return np.rint(values.reshape(len(values), -1)).astype(int).tolist(), outcome.for_operator()


def of_whole(folder: Path, what: str, nights: list[list[Row]], **more: Any) -> list[list[int]]:
    """The same of a stream to which nothing is ever done."""
    found = []
    for number, rows in enumerate(nights, 1):
        file = write(folder / f"{number}.csv", rows)
        job = asked(file, folder, what, f"2024-03-{number + 1:02}", append=True, **more)
        found = totals(job)[0]
    return found


@pytest.mark.parametrize("what", WHATS)
def test_a_folder_goes_on_where_a_reader_was_erased_from_counted_files(
    what: str, tmp_path: Path
) -> None:
    """Every night a file is added, and one night a reader goes from all that were counted."""
    (tmp_path / "whole").mkdir()
    days = [day(number) for number in range(1, 6)]
    nights = [*days[:2], *map(without_ann, days[2:])]
    expected = of_whole(tmp_path / "whole", what, nights)
    folder = tmp_path / "days"
    for number in (1, 2):
        write(folder / f"{number}.csv", days[number - 1])
        totals(asked(folder, tmp_path, what, f"2024-03-{number + 1:02}", append=True))
    for number in (1, 2):
        write(folder / f"{number}.csv", without_ann(days[number - 1]))
    write(folder / "3.csv", nights[2])
    for more in ({}, {"confirmed": True}):
        with pytest.raises(ReplayMismatch, match=r"300 of the 300 rows of .*1\.csv say what rows"):
            run(asked(folder, tmp_path, what, "2024-03-04", append=True, **more))
    keep = {"append": True, "counted": "keep"}
    _, counts = totals(asked(folder, tmp_path, what, "2024-03-04", **keep))
    assert (counts.rows, counts.late, counts.kept) == (300, 0, 600)
    write(folder / "4.csv", nights[3])  # what was left out is known from now on
    assert totals(asked(folder, tmp_path, what, "2024-03-05", append=True))[1].kept == 0
    write(folder / "5.csv", nights[4])
    assert totals(asked(folder, tmp_path, what, "2024-03-06", **keep))[0] == expected


@pytest.mark.parametrize("every", ["1w", "1d"])
@pytest.mark.parametrize("share", [0.01, 0.4])
def test_a_counted_file_is_known_while_its_windows_go_on(
    share: float, every: str, tmp_path: Path
) -> None:
    """Also a large one, of which a sample alone is kept, and one of many that are new."""
    rows = [day(number, 4000) for number in (1, 2)]
    rng = random.Random(1)
    fewer = [row for row in rows[0] if rng.random() > share]
    job = asked(write(tmp_path / "1.csv", rows[0]), tmp_path, "count", "2024-03-01T12:00")
    run(job.having(every=every, start="2024-02-26")).close()
    files = [write(tmp_path / "again.csv", fewer), write(tmp_path / "2.csv", rows[1])]
    again = asked(files, tmp_path, "count", "2024-03-18", append=True, confirmed=True)
    with pytest.raises(ReplayMismatch, match=r"rows of .*again\.csv say what rows said"):
        run(again)
    assert sum(totals(again.having(counted="keep"))[0][-1]) == 2 * 4024


@pytest.mark.parametrize("length", [10, 13])
@pytest.mark.parametrize(("rows", "gone"), [(2000, 24), (400, 1), (8, 1)])
def test_a_counted_file_of_dates_is_known_while_its_windows_go_on(
    rows: int, gone: int, length: int, tmp_path: Path
) -> None:
    """Or of hours: what an erased reader's rows said, others say too."""
    found = [(row[0][:length], *row[1:]) for row in day(1, rows)]
    others = [row for row in found if row[2] != "ann"]
    readers = [row for row in found if row[2] == "ann"][:gone]
    first, then = [*others, *readers], day(2, 9)
    job = asked(write(tmp_path / "1.csv", first), tmp_path, "count", "2024-03-01T12:00")
    run(job.having(every="1w", start="2024-02-26", append=True)).close()
    files = [write(tmp_path / "1.csv", others), write(tmp_path / "2.csv", then)]
    again = asked(files, tmp_path, "count", "2024-03-18", append=True, confirmed=True)
    with pytest.raises(ReplayMismatch, match=rf"{rows:,} of the {rows:,} rows of .*1\.csv say"):
        run(again)
    assert sum(totals(again.having(counted="keep"))[0][-1]) == len(first) + len(then)


def test_files_of_dates_of_other_shops_are_no_copies_of_each_other(tmp_path: Path) -> None:
    """Each has fewer of some page, and more of another, or far fewer of all."""
    dates = [f"2024-03-0{number}" for number in range(1, 7)]
    for number, (a, b) in enumerate([(40, 60), (60, 40), (20, 30), (9, 50)], 1):
        rows = [(date, *said) for date in dates for said in [("a", "", "1")] * a]
        rows += [(date, *said) for date in dates for said in [("b", "", "1")] * b]
        job = asked(write(tmp_path / f"{number}.csv", rows), tmp_path, "count", "2024-03-01T12:00")
        with run(job.having(append=True)) as outcome:
            assert outcome.for_operator().rows == len(rows)


def test_an_export_of_all_events_is_not_counted_as_new_ones(tmp_path: Path) -> None:
    days = [day(number, 20) for number in (1, 2)]
    run(asked(write(tmp_path / "1.csv", days[0]), tmp_path, "count", "2024-03-02")).close()
    export = write(tmp_path / "all.csv", [*days[0], *days[1]])
    job = asked(export, tmp_path, "count", "2024-03-03", append=True, confirmed=True)
    with pytest.raises(ReplayMismatch, match=r"44 of the 88 rows .*first window, drop append=True"):
        run(job)
    with pytest.raises(ReplayMismatch, match=r"44 of the 88 rows .*would leave out"):
        run(job.having(counted="keep"))
    assert sum(totals(job.having(append=False))[0][-1]) == 88


@pytest.mark.parametrize("grid", [False, True])
def test_files_of_other_places_are_no_copies_of_each_other(grid: bool, tmp_path: Path) -> None:
    """In one window that goes on: at times by chance, or at the same minutes in other groups."""
    for number in range(1, 3):
        rows = day(1, 400, seed=number)
        if grid:
            times = [f"2024-03-01T{minute // 60:02}:{minute % 60:02}" for minute in range(600)]
            rows = [(time, "ab"[number % 2], "", "1") for time in times]
        job = asked(write(tmp_path / f"{number}.csv", rows), tmp_path, "count", "2024-03-01T12:00")
        with run(job.having(append=True)) as outcome:
            assert outcome.for_operator().rows == len(rows)


@pytest.mark.parametrize("what", WHATS)
def test_a_file_of_all_events_goes_on_where_a_reader_was_erased(what: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    days = [day(number) for number in range(1, 6)]
    nights = [*days[:2], *map(without_ann, days[2:])]
    late = [("2024-03-02T05:06:07", "b", "zoe", "3")]
    expected = of_whole(tmp_path / "whole", what, [*nights[:3], nights[3] + late, nights[4]])
    file = write(tmp_path / "all.csv", days[0])
    run(asked(file, tmp_path, what, "2024-03-02")).close()
    write(file, [*days[0], *days[1]])
    run(asked(file, tmp_path, what, "2024-03-03")).close()
    said = [*without_ann(days[0]), *without_ann(days[1]), *nights[2]]
    write(file, said)
    with pytest.raises(ReplayMismatch, match="counted=keep"):
        run(asked(file, tmp_path, what, "2024-03-04", confirmed=True))
    _, counts = totals(asked(file, tmp_path, what, "2024-03-04", counted="keep"))
    if what != "count users":  # of whom only those are looked at who are in the file
        assert counts.gone == 48
    write(file, [*said, *nights[3], *late])
    keep = {"counted": "keep"} if what == "count users" else {}
    assert totals(asked(file, tmp_path, what, "2024-03-05", **keep))[1].gone == 0
    write(file, [*said, *nights[3], *late, *nights[4]])
    assert totals(asked(file, tmp_path, what, "2024-03-06", **keep))[0] == expected


@pytest.mark.parametrize("append", [False, True])
def test_with_ids_nothing_is_asked(append: bool, tmp_path: Path) -> None:
    days = [
        [(*row[:2], f"{row[2]}-{d}-{n}", row[3]) for n, row in enumerate(day(d))] for d in (1, 2)
    ]
    rest = [row for row in days[0] if not row[2].startswith("ann")]
    first, then = write(tmp_path / "1.csv", days[0]), write(tmp_path / "2.csv", rest + days[1])
    run(asked(first, tmp_path, "count", "2024-03-02", id="reader")).close()
    found, _ = totals(asked(then, tmp_path, "count", "2024-03-03", append=append))
    assert sum(found[-1]) == 2 * 324


@pytest.mark.parametrize("append", [False, True])
def test_who_is_forgotten_and_erased_is_asked_for_no_more(append: bool, tmp_path: Path) -> None:
    """The state knows nobody by the rows that are gone, so a file of all events simply goes on."""
    days = [day(number) for number in (1, 2)]
    nights = [days[0], [*([] if append else without_ann(days[0])), *without_ann(days[1])]]
    job = asked(write(tmp_path / "1.csv", nights[0]), tmp_path, "count users", "2024-03-02")
    run(job.having(most=40, append=append)).close()
    forget(tmp_path / "s.db", "ann")
    then = write(tmp_path / "2.csv", nights[1])
    found, counts = totals(asked(then, tmp_path, "count users", "2024-03-03", append=append))
    new = {row[2] for row in days[1]} - {row[2] for row in days[0]}
    assert not new - {"ann"}
    assert (found, counts.gone) == ([[324], [624]], 0)


def in_sqlite(folder: Path, rows: list[Row]) -> str:
    file = folder / "shop.sqlite"
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("CREATE TABLE visits (time TEXT, page TEXT, reader TEXT, paid INT)")
        shop.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    shop.close()
    return f"sqlite:///{file}"


def in_duckdb(folder: Path, rows: list[Row]) -> str:
    duckdb = pytest.importorskip("duckdb")
    file = folder / "shop.duckdb"
    file.unlink(missing_ok=True)
    with duckdb.connect(str(file)) as shop:
        shop.execute("CREATE TABLE visits (time TIMESTAMP, page TEXT, reader TEXT, paid INT)")
        shop.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    return f"duckdb:///{file}"


def in_postgres(url: str, rows: list[Row]) -> str:
    import sqlalchemy as sa

    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as shop:
        shop.exec_driver_sql("DROP TABLE IF EXISTS visits")
        shop.exec_driver_sql("CREATE TABLE visits (time TIMESTAMP, page TEXT, reader TEXT)")
        shop.exec_driver_sql(
            "INSERT INTO visits VALUES (%s, %s, %s)", [tuple(row[:3]) for row in rows]
        )
    engine.dispose()
    return url


@pytest.mark.parametrize(
    "there", [in_sqlite, in_duckdb, pytest.param(in_postgres, marks=[pytest.mark.slow])]
)
@pytest.mark.parametrize("what", ["count", "count users"])
def test_a_database_goes_on_where_a_reader_was_deleted(
    what: str,
    there: Callable[[Any, list[Row]], str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    place = request.getfixturevalue("postgres" if there is in_postgres else "tmp_path")
    days = [day(number) for number in range(1, 4)]
    query = {"query": "SELECT * FROM visits"}
    job = asked(there(place, days[0] + days[1]), tmp_path, what, "2024-03-03", **query)
    run(job).close()
    url = there(place, without_ann([*days[0], *days[1], *days[2]]))
    job = asked(url, tmp_path, what, "2024-03-04", **query)
    with pytest.raises(ReplayMismatch, match="counted=keep"):
        run(job)
    for wrong in ("refuse", "keep"):  # all rows, as if they were new
        with pytest.raises(ReplayMismatch, match="rows of the question to"):
            run(job.having(append=True, counted=wrong, confirmed=True))
    assert sum(totals(job.having(counted="keep"))[0][-1]) == 2 * 324 + 300


def test_a_frame_of_all_events_given_as_new_ones_is_refused(tmp_path: Path) -> None:
    frame = pl.DataFrame(day(1), schema=HEADER.strip().split(","), orient="row")
    run(asked(frame, tmp_path, "count", "2024-03-01T12:00", steps=30)).close()
    fewer = frame.filter(pl.col("reader") != "ann")
    with pytest.raises(ReplayMismatch, match="300 of the 300 rows of the data frame"):
        run(asked(fewer, tmp_path, "count", "2024-03-02", append=True))


def test_what_is_kept_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of the last ones: a file that was counted long ago is late."""
    monkeypatch.setattr("counton.run.redelivery.MOST_FILES", 3)
    days = [day(number, 30) for number in range(1, 26)]
    for number, rows in enumerate(days[:24], 1):
        file = write(tmp_path / f"{number}.csv", rows)
        run(asked(file, tmp_path, "count", f"2024-03-{number + 1:02}", append=True)).close()
    new = write(tmp_path / "new.csv", days[24])
    for number, said in ((24, "say what rows said"), (3, "are late")):
        files = [write(tmp_path / f"{number}.csv", without_ann(days[number - 1])), new]
        with pytest.raises(ReplayMismatch, match=rf"rows of .*/{number}\.csv {said}"):
            run(asked(files, tmp_path, "count", "2024-03-26", append=True))


# --------------------------------------------------------- what one row moves where others vanish


def due(*cells: tuple[list[int], int, list[int]]) -> list[int]:
    """What each released cell has to be given, of values that were seen, counted, and are there."""
    seen = [[len(first), sum(first)] for first, _, _ in cells]
    counted = [[number, sum(first[:number])] for first, number, _ in cells]
    kept = {1: np.array([seen, counted], np.int64).swapaxes(1, 2)}
    rows = {
        "step": [1] * len(cells),
        "group": [*range(len(cells))],
        "rows": [len(then) for _, _, then in cells],
        "total": [sum(then) for _, _, then in cells],
    }
    intake = compare(
        *(kept, pl.DataFrame(rows).filter(pl.col("rows") > 0)),
        released=1, target=2, groups=[*map(str, range(len(cells)))], windows=WINDOWS,
        measures=("rows", "total"), append=False, bounds=(0, 9), keep=True,
    )  # fmt: skip
    (found,) = intake.inputs(range(2, 3)).tolist()
    return [int(one) for one in found]


def test_one_row_moves_as_much_as_one_row_where_others_vanish() -> None:
    """Whatever is erased beside it: without cutting, two others could bring ten times as much."""
    cells = [list(values) for size in range(4) for values in product((0, 5, 9), repeat=size)]
    cases = [
        (first, counted, then)
        for first, then in product(cells, repeat=2)
        for counted in range(len(first) + 1)
    ]
    without = due(*cases)
    for value in (0, 9):
        beside = due(*((first, counted, [*then, value]) for first, counted, then in cases))
        assert all(0 <= one - other <= 9 for one, other in zip(beside, without, strict=True))
    assert due(([0], 1, [9, 9]), ([5, 5], 2, [5]), ([5, 5], 1, [5, 5]), ([5, 5], 1, [5])) == [
        9, 0, 5, 5,
    ]  # fmt: skip
