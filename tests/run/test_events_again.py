"""Events that come twice are counted once, or refused by name; what looks so asks first."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.base.errors import InvalidInput, ReplayMismatch
from counton.base.private import open_private
from counton.base.windows import Windows
from counton.rows.files import open_source
from counton.rows.tally import tally
from counton.rows.window_marks import Columns, RowReading
from counton.run import Job, run
from counton.statistics import Average

HEADER = "time,page,user,paid\n"
ROWS = [f"2024-03-01T{k % 5:02}:{k % 60:02},{'ab'[k % 2]},u{k % 7},{k % 10}\n" for k in range(40)]
LATER = [f"2024-03-01T{k % 3 + 5:02}:{k:02},{'ab'[k % 2]},u{k % 7},{k % 10}\n" for k in range(40)]
WHATS: dict[str, dict[str, Any]] = {
    "count": {"by": "page", "domain": "a,b"},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "count users": {"user": "user", "most": 40},
    "distinct": {"user": "user"},
    "edges": {"edge": "user,page"},
}


#: Those to which new events can be added.
ADDED_UP = [what for what in WHATS if what != "edges"]


def csv_of(rows: list[str]) -> bytes:
    return (HEADER + "".join(rows)).encode()


def reordered(rows: list[str]) -> list[str]:
    return random.Random(1).sample(rows, len(rows))


#: Files of the same rows, by the endings of their names.
COPIES: dict[str, Callable[[list[str]], bytes]] = {
    "csv": csv_of,
    "csv.gz": lambda rows: gzip.compress(csv_of(rows)),
    "order.csv": lambda rows: csv_of(reordered(rows)),
    "order.csv.gz": lambda rows: gzip.compress(csv_of(reordered(rows))),
    "lines.csv": lambda rows: csv_of(rows).replace(b"\n", b"\r\n"),
}


def asked(events: object, folder: Path, what: str = "count", **more: Any) -> Job:
    given: dict[str, Any] = {
        "time": "time", "every": "1h", "start": "2024-03-01", "steps": 24, "epsilon": 10**6,
        "until": "2024-03-01T05:00", **WHATS[what],
    }  # fmt: skip
    if (folder / "s.db").exists():
        given = {"until": given["until"]}
    word: Any = what.split()[0]
    return Job(word, events, folder / "s.db", **{**given, **more})  # type: ignore[arg-type]


def released(job: Job) -> tuple[list[Any], Any]:
    with run(job) as outcome:
        return np.asarray(outcome.stream.releases().values, float).tolist(), outcome


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("what", WHATS)
def test_a_copy_among_the_files_of_a_run_is_refused_by_name(
    what: str, kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv_of(ROWS))
    (folder / f"b.{kind}").write_bytes(COPIES[kind](ROWS))
    with pytest.raises(InvalidInput, match=rf"b\.{kind} holds the same rows as .*a\.csv"):
        run(asked(folder, tmp_path, what))
    assert not (tmp_path / "s.db").exists()
    (folder / f"b.{kind}").write_bytes(COPIES[kind](LATER))
    run(asked(folder, tmp_path, what)).close()


@pytest.mark.parametrize("kind", [kind for kind in COPIES if kind not in ("csv", "csv.gz")])
@pytest.mark.parametrize("what", ["count", "sum", "count users"])
def test_a_copy_of_a_counted_file_is_refused_by_name(what: str, kind: str, tmp_path: Path) -> None:
    first, again = tmp_path / "a.csv.gz", tmp_path / f"b.{kind}"
    first.write_bytes(gzip.compress(csv_of(ROWS), mtime=1))
    before, _ = released(asked(first, tmp_path, what))
    again.write_bytes(COPIES[kind](ROWS))
    for counted in ("refuse", "new"):
        with pytest.raises(ReplayMismatch, match=rf"b\.{kind} holds the same rows as events"):
            run(asked(again, tmp_path, what, append=True, counted=counted))
    kept, outcome = released(asked(again, tmp_path, what, append=True, counted="keep"))
    assert outcome.again
    assert kept == released(asked(first, tmp_path, what, append=True))[0] == before


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.zst"])
@pytest.mark.parametrize("first", ["csv", "csv.gz", "csv.zst"])
def test_a_file_is_the_same_by_any_name_and_compression(
    first: str, kind: str, tmp_path: Path
) -> None:
    def write(name: str, ending: str) -> Path:
        file = tmp_path / f"{name}.{ending}"
        if ending == "csv.zst":
            pl.read_csv(csv_of(ROWS), infer_schema=False).write_csv(file, compression="zstd")
        else:
            file.write_bytes(gzip.compress(csv_of(ROWS)) if ending == "csv.gz" else csv_of(ROWS))
        return file

    before, _ = released(asked(write("a", first), tmp_path))
    for counted in ("refuse", "keep", "new"):
        job = asked(write("b", kind), tmp_path, append=True, counted=counted)
        after, outcome = released(job)
        assert outcome.again
        assert after == before


def test_a_copy_in_a_folder_is_no_news_on_any_night(tmp_path: Path) -> None:
    """With a new file beside it, and where nothing is new."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv_of(ROWS[:20]))
    run(asked(folder, tmp_path)).close()
    (folder / "b.csv").write_bytes(csv_of(ROWS[20:]))
    (folder / "copy.csv").write_bytes(csv_of(ROWS[:20]))
    later = asked(folder, tmp_path, append=True, counted="new")
    counts, outcome = released(later)
    assert not outcome.again
    again, outcome = released(later)
    assert outcome.again
    assert again == counts


def test_the_same_file_again_does_nothing_and_releases_nothing(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file, rows in zip(files, (ROWS[:20], ROWS[20:]), strict=True):
        file.write_bytes(csv_of(rows))
    run(asked(files, tmp_path)).close()
    assert released(asked(files, tmp_path, append=True))[1].again
    with pytest.raises(ReplayMismatch, match=r"2 files from .*a\.csv have been counted already"):
        run(asked(files, tmp_path, append=True, until="2024-03-01T07:00"))


def test_a_file_that_was_compressed_meanwhile_is_left_out_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.csv").write_bytes(csv_of(ROWS))
    run(asked(folder, tmp_path)).close()
    (folder / "1.csv").unlink()
    (folder / "1.csv.gz").write_bytes(gzip.compress(csv_of(ROWS)))
    (folder / "2.csv").write_bytes(csv_of(LATER))
    _, outcome = released(asked(folder, tmp_path, append=True, until="2024-03-01T08:00"))
    assert (outcome.for_operator().rows, outcome.for_operator().late) == (len(LATER), 0)


def test_a_frame_in_another_order_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(csv_of(ROWS))
    frame = pl.read_csv(tmp_path / "a.csv")
    run(asked(frame, tmp_path)).close()
    shuffled = frame.sample(fraction=1, shuffle=True, seed=1)
    with pytest.raises(ReplayMismatch, match="holds the same rows as events"):
        run(asked(shuffled, tmp_path, append=True))


@pytest.mark.parametrize("what", ADDED_UP)
def test_a_copy_of_a_counted_table_is_refused_by_name(what: str, tmp_path: Path) -> None:
    first, again = tmp_path / "a.parquet", tmp_path / "b.parquet"
    frame = pl.read_csv(csv_of(ROWS), try_parse_dates=True)
    frame.write_parquet(first)
    frame.reverse().write_parquet(again, compression="gzip", row_group_size=7)
    run(asked(first, tmp_path, what)).close()
    for counted in ("refuse", "new"):
        with pytest.raises(ReplayMismatch, match=r"b\.parquet holds the same rows as events"):
            run(asked(again, tmp_path, what, append=True, counted=counted))
    folder = tmp_path / "events"
    folder.mkdir()
    frame.reverse().write_parquet(folder / "1.parquet")
    pl.read_csv(csv_of(LATER), try_parse_dates=True).write_parquet(folder / "2.parquet")
    until = {"append": True, "until": "2024-03-01T08:00"}
    with pytest.raises(ReplayMismatch, match=r"1\.parquet holds the same rows as events"):
        run(asked(folder, tmp_path, what, **until))
    _, outcome = released(asked(folder, tmp_path, what, counted="keep", **until))
    assert (outcome.for_operator().rows, outcome.for_operator().kept) == (len(LATER), len(ROWS))
    assert released(asked(folder, tmp_path, what, append=True))[1].again  # known by its bytes


#: How the rows of one night are given, and given again: parts that hold them all.
SPLITS = {"whole": [ROWS], "halves": [ROWS[:20], ROWS[20:]], "turns": [ROWS[::2], ROWS[1::2]]}


@pytest.mark.parametrize("second", SPLITS)
@pytest.mark.parametrize("first", SPLITS)
@pytest.mark.parametrize("what", ["count", "count users"])
def test_the_same_rows_in_other_files_are_refused(
    what: str, first: str, second: str, tmp_path: Path
) -> None:
    def files(name: str, parts: list[list[str]]) -> list[Path]:
        there = [tmp_path / f"{name}{number}.jsonl" for number in range(len(parts))]
        for file, rows in zip(there, parts, strict=True):
            file.write_bytes(json_lines_of(reordered(rows)) if name == "b" else json_lines_of(rows))
        return there

    run(asked(files("a", SPLITS[first]), tmp_path, what)).close()
    again = files("b", SPLITS[second])
    for counted in ("refuse", "new"):
        with pytest.raises(ReplayMismatch, match=r"b0\.jsonl.* holds the same rows as events"):
            run(asked(again, tmp_path, what, append=True, counted=counted))
    assert released(asked(again, tmp_path, what, append=True, counted="keep"))[1].again


@pytest.mark.parametrize("what", ["count", "count users"])
@pytest.mark.parametrize("more", [[], LATER[:1], [ROWS[0]], LATER[:4]])
def test_nearly_all_rows_late_asks_first(what: str, more: list[str], tmp_path: Path) -> None:
    first, late = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_bytes(csv_of(ROWS))
    run(asked(first, tmp_path, what)).close()
    rows = [f"2024-03-01T0{k % 5}:59,a,new{k},1\n" for k in range(40)]
    late.write_bytes(csv_of([*rows, *more]))
    job = asked(late, tmp_path, what, append=True)
    with pytest.raises(ReplayMismatch, match=r"rows of .*b\.csv are late: .*give counted=new"):
        run(job)
    assert (
        released(asked(late, tmp_path, what, append=True, counted="new"))[1].for_operator().late
        >= 40
    )


@pytest.mark.parametrize(("late", "new"), [(9, 0), (9, 1), (40, 40), (30, 12)])
def test_a_few_late_rows_are_taken(late: int, new: int, tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_bytes(csv_of(ROWS))
    run(asked(first, tmp_path)).close()
    rows = [f"2024-03-01T0{k % 5}:59,a,new{k},1\n" for k in range(late)]
    second.write_bytes(csv_of(rows + LATER[:new]))
    assert released(asked(second, tmp_path, append=True))[1].for_operator().late == late


def test_rows_with_ids_are_told_one_by_one(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.write_bytes(csv_of([row.replace("u", f"u{k}", 1) for k, row in enumerate(ROWS)]))
    _, outcome = released(asked(files, tmp_path, id="user"))
    assert outcome.for_operator().rows == 2 * len(ROWS)
    _, again = released(asked(files[1], tmp_path, append=True))
    assert again.for_operator().known == len(ROWS)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_without_rows_are_no_copies(ending: str, tmp_path: Path) -> None:
    frame = pl.read_csv(csv_of(ROWS), infer_schema=False)
    for name, rows in (("a", frame), ("b", frame.clear()), ("c", frame.clear())):
        path = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            rows.write_parquet(path)
        elif ending == "jsonl":
            rows.write_ndjson(path)
        else:
            rows.write_csv(path)
    _, outcome = released(asked(f"{tmp_path}/?.{ending}", tmp_path))
    assert outcome.for_operator().rows == len(ROWS)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_copies_in_other_formats_are_known(ending: str, tmp_path: Path) -> None:
    frame = pl.read_csv(csv_of(ROWS)).with_columns(raw=pl.lit(b"\xff"), many=pl.lit([1]))
    for name, rows in (("a", frame), ("b", frame.reverse())):
        if ending == "parquet":
            rows.write_parquet(tmp_path / f"{name}.parquet")
        else:
            rows.drop("raw").write_ndjson(tmp_path / f"{name}.jsonl")
    with pytest.raises(InvalidInput, match=rf"b\.{ending} holds the same rows as .*a\.{ending}"):
        run(asked(f"{tmp_path}/?.{ending}", tmp_path))


def parquet_of(rows: list[str]) -> bytes:
    """The same rows with types of their own, and other digits."""
    file = io.BytesIO()
    frame = pl.read_csv(csv_of(rows), try_parse_dates=True).cast({"paid": pl.Float64})
    frame.with_columns(pl.col("time").cast(pl.Datetime("ms"))).write_parquet(file)
    return file.getvalue()


def in_other_columns(rows: list[str]) -> bytes:
    order = ["paid", "user", "time", "page"]
    return pl.read_csv(csv_of(rows), infer_schema=False).select(order).write_csv().encode()


def json_lines_of(rows: list[str]) -> bytes:
    return pl.read_csv(csv_of(rows)).write_ndjson().encode()


#: Files of the same rows whose lines are others.
FORMATS: dict[str, Callable[[list[str]], bytes]] = {
    "parquet": parquet_of,
    "columns.csv": in_other_columns,
    "columns.csv.gz": lambda rows: gzip.compress(in_other_columns(reordered(rows))),
    "jsonl": json_lines_of,
}


@pytest.mark.parametrize(
    ("what", "kind"),
    [*((what, "parquet") for what in WHATS), *(("count", kind) for kind in FORMATS)],
)
def test_the_same_rows_in_another_format_are_refused_in_one_run(
    what: str, kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv_of(ROWS))
    (folder / f"b.{kind}").write_bytes(FORMATS[kind](ROWS))
    with pytest.raises(InvalidInput, match=rf"b\.{kind} holds the same rows as .*a\.csv"):
        run(asked(folder, tmp_path, what))
    assert not (tmp_path / "s.db").exists()
    (folder / f"b.{kind}").write_bytes(FORMATS[kind](LATER))
    run(asked(folder, tmp_path, what)).close()


@pytest.mark.parametrize(
    ("what", "kind"),
    [*((what, "parquet") for what in ADDED_UP), *(("count users", kind) for kind in FORMATS)],
)
def test_the_same_rows_in_another_format_are_refused_on_a_later_night(
    what: str, kind: str, tmp_path: Path
) -> None:
    first, again = [tmp_path / "a.csv", tmp_path / "c.csv"], tmp_path / f"b.{kind}"
    for file, rows in zip(first, (ROWS[:20], ROWS[20:]), strict=True):
        file.write_bytes(csv_of(rows))  # of one window each has a part
    waiting = {"until": "2024-03-01T01:00"}
    before, _ = released(asked(first, tmp_path, what, **waiting))
    again.write_bytes(FORMATS[kind](ROWS[:20]))
    for counted in ("refuse", "new"):
        job = asked(again, tmp_path, what, append=True, counted=counted, **waiting)
        with pytest.raises(ReplayMismatch, match=rf"b\.{kind} holds the same rows as events"):
            run(job)
    kept, outcome = released(asked(again, tmp_path, what, append=True, counted="keep", **waiting))
    assert outcome.again
    assert kept == before


#: Of a table, the same with one column that says other things of the same windows and groups.
OTHERS: dict[str, tuple[str, Callable[[pl.DataFrame], pl.DataFrame]]] = {
    "times": ("count", lambda rows: with_values(rows, "time", ["03-01T00:01", "03-01T00:09"])),
    "times of values": ("sum", lambda rows: with_values(rows, "paid", [rows["paid"][10], "0"])),
    "times of users": ("count users", lambda rows: with_values(rows, "user", ["u3", "u0"])),
    "users": ("count users", lambda rows: with_values(rows, "user", ["u5", "u5"])),
}


def with_values(rows: pl.DataFrame, column: str, values: list[str]) -> pl.DataFrame:
    """Other values in rows 0 and 10, which are of one window and group."""
    if column == "time":
        values = [f"2024-{value}" for value in values]
    return rows.with_columns(rows[column].scatter([0, 10], values))


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_says_another_thing_of_what_is_read_is_new(other: str, tmp_path: Path) -> None:
    what, change = OTHERS[other]
    frame = pl.read_csv(csv_of(ROWS), infer_schema=False)
    frame = frame.with_columns(paid=pl.int_range(pl.len()).floordiv(5).cast(pl.String))
    changed = change(frame)
    assert not changed.equals(frame)
    assert changed["time"].sort().str.head(13).equals(frame["time"].sort().str.head(13))
    frame.write_csv(tmp_path / "a.csv")
    changed.write_csv(tmp_path / "b.csv")
    frame.reverse().write_csv(tmp_path / "c.csv")
    run(asked(tmp_path / "a.csv", tmp_path, what)).close()
    new: dict[str, Any] = {"append": True, "counted": "new"}
    _, outcome = released(asked(tmp_path / "b.csv", tmp_path, what, **new))
    assert outcome.for_operator().late == len(ROWS)
    with pytest.raises(ReplayMismatch, match=r"c\.csv holds the same rows as events"):
        run(asked(tmp_path / "c.csv", tmp_path, what, **new))


def test_a_file_that_differs_in_what_is_not_read_is_refused_with_the_way_out(
    tmp_path: Path,
) -> None:
    frame = pl.read_csv(csv_of(ROWS), infer_schema=False).with_columns(row=pl.lit("1"))
    frame.write_csv(tmp_path / "a.csv")
    frame.with_columns(row=pl.lit("2")).write_csv(tmp_path / "b.csv")
    before, _ = released(asked(tmp_path / "a.csv", tmp_path))
    with pytest.raises(ReplayMismatch, match=r"b\.csv holds the same rows as .* \(id\)"):
        run(asked(tmp_path / "b.csv", tmp_path, append=True))
    assert released(asked(tmp_path / "a.csv", tmp_path, append=True))[0] == before
    pl.concat([pl.read_csv(tmp_path / "b.csv", infer_schema=False), frame[:1]]).write_csv(
        tmp_path / "more.csv"
    )
    new: dict[str, Any] = {"append": True, "counted": "new"}
    assert released(asked(tmp_path / "more.csv", tmp_path, **new))[1].for_operator().rows == 41
    both = [tmp_path / "a.csv", tmp_path / "b.csv"]
    (tmp_path / "ids").mkdir()
    for number, file in enumerate(both):
        rows = pl.read_csv(file, infer_schema=False).with_row_index("place")
        rows.with_columns(id=pl.format("{} {}", "place", "row")).write_csv(file)
        released(asked(file, tmp_path / "ids", id="id", append=number > 0))
    with run(asked(both[1], tmp_path / "ids", append=True)) as outcome:
        assert outcome.for_operator().known == len(ROWS)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_no_two_of_three_files_of_a_run_hold_the_same_rows(kind: str, tmp_path: Path) -> None:
    """Also where the first comes to the same and holds other rows."""
    frame = pl.read_csv(csv_of(ROWS), infer_schema=False)
    frame.with_columns(user=pl.lit("other")).write_csv(tmp_path / "a.csv")
    frame.write_csv(tmp_path / "b.csv")
    (tmp_path / f"c.{kind}").write_bytes({"csv": csv_of, **FORMATS}[kind](reordered(ROWS)))
    files = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / f"c.{kind}"]
    for what in ("count", "edges"):
        with pytest.raises(InvalidInput, match=rf"c\.{kind} holds the same rows as .*b\.csv"):
            run(asked(files, tmp_path, what))


@pytest.mark.parametrize("other", ["time", "page", "user", "paid"])
@pytest.mark.parametrize("what", ["count", "sum"])
def test_files_that_come_to_the_same_and_say_another_thing_are_counted(
    what: str, other: str, tmp_path: Path
) -> None:
    """Stations that write at the same minutes are told by any column, also one not read."""
    frame = pl.read_csv(csv_of(ROWS), infer_schema=False)
    changed = frame.with_columns(pl.col(other).shift(1, fill_value=frame[other][-1]))
    frame.write_csv(tmp_path / "a.csv")
    changed.write_csv(tmp_path / "b.csv")
    _, outcome = released(asked([tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path, what))
    assert outcome.for_operator().rows == 2 * len(ROWS)


def test_what_rows_come_to_hangs_on_each_time_group_and_value(tmp_path: Path) -> None:
    reading = RowReading(
        Columns("time", "page", several=("paid",)),
        Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 24),
        adds=Average(lower=0, upper=9, resolution=1),
    )

    def come_to(rows: list[str]) -> str:
        (tmp_path / "f.csv").write_bytes(csv_of(rows))
        return open_private(tally(open_source(tmp_path / "f.csv"), reading, ["a", "b"])).sums[0]

    known = come_to(ROWS)
    assert known == come_to(reordered(ROWS)) == come_to(ROWS)
    others = [ROWS[1:], [*ROWS, ROWS[0]]]
    for place in (0, 17, 39):
        time, page, user, paid = ROWS[place].strip().split(",")
        page_else = {"a": "b", "b": "a"}[page]
        for row in (f"{time}:01,{page},{user},{paid}", f"{time},{page_else},{user},{paid}"):
            others.append([*ROWS[:place], f"{row}\n", *ROWS[place + 1 :]])
        row = f"{time},{page},{user},{9 - int(paid)}\n"
        others.append([*ROWS[:place], row, *ROWS[place + 1 :]])
    found = [come_to(rows) for rows in others]
    assert len({known, *found}) == len(found) + 1
    assert come_to([]) == ""
