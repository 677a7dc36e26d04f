"""A file of new events counts once, known by its bytes; files of all events are one input."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest
from run_results import counts_of, releases_of

from counton.base.errors import InvalidInputError
from counton.run import Job, run

HEADER = "time,page,user,paid\n"
ROWS = [f"2024-03-01T{k % 5:02}:{k % 60:02},{'ab'[k % 2]},u{k % 7},{k % 10}\n" for k in range(40)]
LATER = [f"2024-03-01T{k % 3 + 5:02}:{k:02},{'ab'[k % 2]},u{k % 7},{k % 10}\n" for k in range(40)]
WHATS: dict[str, dict[str, Any]] = {
    "count": {"group_by": "page", "groups": "a,b"},
    "sum": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "average": {"value": "paid", "lower": 0, "upper": 9, "resolution": 1},
    "count users": {"user": "user", "max_contributions": 80},
    "distinct": {"user": "user"},
}


def csv_of(rows: list[str]) -> bytes:
    return (HEADER + "".join(rows)).encode()


def reordered(rows: list[str]) -> list[str]:
    return random.Random(1).sample(rows, len(rows))


def parquet_of(rows: list[str]) -> bytes:
    import io

    file = io.BytesIO()
    pl.read_csv(csv_of(rows), try_parse_dates=True).write_parquet(file)
    return file.getvalue()


#: Files of the same rows and other bytes, by the endings of their names.
OTHER_BYTES: dict[str, Callable[[list[str]], bytes]] = {
    "order.csv": lambda rows: csv_of(reordered(rows)),
    "lines.csv": lambda rows: csv_of(rows).replace(b"\n", b"\r\n"),
    "jsonl": lambda rows: pl.read_csv(csv_of(rows)).write_ndjson().encode(),
    "parquet": parquet_of,
}


def asked(events: object, folder: Path, what: str = "count", **more: Any) -> Job:
    given: dict[str, Any] = {
        "time": "time", "every": "1h", "start": "2024-03-01", "windows": 24, "epsilon": 10**6,
        "until": "2024-03-01T05:00", **WHATS[what],
    }  # fmt: skip
    if (folder / "s.db").exists():
        given = {"until": given["until"]}
    word: Any = what.split()[0]
    return Job(word, events, folder / "s.db", **{**given, **more})  # type: ignore[arg-type]


def released(job: Job) -> tuple[list[Any], Any]:
    with run(job) as outcome:
        return np.asarray(releases_of(outcome), float).tolist(), outcome


@pytest.mark.parametrize("what", WHATS)
def test_several_files_are_one_input(what: str, tmp_path: Path) -> None:
    """Whatever is in which file; and equal files are two, or a row would decide about others."""
    values = []
    for name, rows in (("one", [ROWS]), ("two", [ROWS[7:], ROWS[:7]])):
        folder = tmp_path / name / "events"
        folder.mkdir(parents=True)
        for number, some in enumerate(rows):
            (folder / f"{number}.csv").write_bytes(csv_of(some))
        found, outcome = released(asked(folder, tmp_path / name, what))
        assert counts_of(outcome).rows == 40
        values.append(np.rint(found))
    assert np.allclose(values[0], values[1], atol=1)
    (folder / "1.csv").write_bytes(csv_of(ROWS[7:]))
    _, outcome = released(asked(folder, tmp_path, what))
    assert counts_of(outcome).rows == 66


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

    before, _ = released(asked(write("a", first), tmp_path, append=True))
    after, outcome = released(asked(write("b", kind), tmp_path, append=True))
    assert outcome.is_duplicate_input
    assert after == before
    both = [tmp_path / f"a.{first}", tmp_path / f"b.{kind}"]
    (tmp_path / "new").mkdir()
    _, outcome = released(asked(both, tmp_path / "new", append=True))
    assert counts_of(outcome).rows == len(ROWS)


@pytest.mark.parametrize("kind", OTHER_BYTES)
@pytest.mark.parametrize("what", WHATS)
def test_each_row_of_a_file_with_other_bytes_is_new(what: str, kind: str, tmp_path: Path) -> None:
    """Whatever it looks like: a guess would hang on the rows of others."""
    first = tmp_path / "a.csv"
    again = tmp_path / f"b.{kind}"
    first.write_bytes(csv_of(ROWS))
    before, _ = released(asked(first, tmp_path, what, append=True))
    again.write_bytes(OTHER_BYTES[kind](ROWS))
    job = asked(again, tmp_path, what, append=True, until="2024-03-01T06:00")
    after, outcome = released(job)
    assert not outcome.is_duplicate_input
    assert counts_of(outcome).late == (0 if what == "distinct" else len(ROWS))
    last = np.asarray(before[-1])
    then = np.asarray(after[-1])
    assert np.array_equal(np.rint(then), np.rint(last * (1 if what == "distinct" else 2)))


def test_copied_file_in_folder_is_duplicate_input(tmp_path: Path) -> None:
    """With a new file beside it, and where nothing is new."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv_of(ROWS[:20]))
    run(asked(folder, tmp_path, append=True)).close()
    (folder / "b.csv").write_bytes(csv_of(ROWS[20:]))
    (folder / "copy.csv").write_bytes(csv_of(ROWS[:20]))
    later = asked(folder, tmp_path, append=True)
    counts, outcome = released(later)
    assert not outcome.is_duplicate_input
    assert counts_of(outcome).rows == 20
    again, outcome = released(later)
    assert outcome.is_duplicate_input
    assert again == counts


# ---------------------------------------------------- the name of a counted file, and other bytes

LESS = {"fewer rows": ROWS[1:20], "more rows": ROWS[:21], "other rows": LATER[:20]}


@pytest.mark.parametrize("given", ["folder", "pattern", "both"])
@pytest.mark.parametrize("less", LESS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_corrected_file_under_its_name_is_refused_by_name(
    packed: bool, less: str, given: str, tmp_path: Path
) -> None:
    """It counted a second time, whole, without a word."""
    folder = tmp_path / "in"
    folder.mkdir()
    events: dict[str, Any] = {"folder": folder, "pattern": f"{folder}/*.csv*"}
    (folder / "1.csv").write_bytes(csv_of(ROWS[:20]))
    (folder / "2.csv").write_bytes(csv_of(ROWS[20:]))
    before, _ = released(asked(events.get(given, folder), tmp_path, append=True))
    content = csv_of(LESS[less])
    (folder / "1.csv").unlink()
    again = folder / ("1.csv.gz" if packed else "1.csv")
    again.write_bytes(gzip.compress(content) if packed else content)
    (folder / "3.csv").write_bytes(csv_of(LATER))
    both = sorted(folder.iterdir())
    later = asked(events.get(given, both), tmp_path, append=True, until="2024-03-01T08:00")
    state = (tmp_path / "s.db").read_bytes()
    with pytest.raises(InvalidInputError, match=rf"in/{again.name} was counted with other bytes"):
        run(later)
    assert (tmp_path / "s.db").read_bytes() == state
    again.unlink()  # and without it, or as it was, the others count
    (folder / "1.csv").write_bytes(csv_of(ROWS[:20]))
    events["both"] = sorted(folder.iterdir())
    values, outcome = released(later.derive(events=events[given]))
    assert counts_of(outcome).rows == len(LATER)
    assert values[: len(before)] == before


def test_duplicate_in_folder_of_one_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_bytes(csv_of(ROWS))
    released(asked(folder / "1.csv", tmp_path, append=True))
    (folder / "1.csv").write_bytes(csv_of(ROWS[1:]))
    with pytest.raises(InvalidInputError, match=r"1\.csv was counted with other bytes"):
        run(asked(folder, tmp_path, append=True))


def test_a_single_path_may_have_new_rows_every_night(tmp_path: Path) -> None:
    """A path that is written anew each night names no file of a folder; nor do files of one name
    in folders of their own."""
    for rows in (ROWS[:20], ROWS[20:], LATER):
        (tmp_path / "new.csv").write_bytes(csv_of(rows))
        _, outcome = released(asked(tmp_path / "new.csv", tmp_path, append=True))
        assert not outcome.is_duplicate_input
    other = tmp_path / "other"
    other.mkdir()
    for night in ("1", "2"):
        (other / night).mkdir()
        (other / night / "part.csv").write_bytes(csv_of([*LATER, LATER[0] * int(night)]))
        _, outcome = released(asked(other / night, tmp_path, append=True))
        assert counts_of(outcome).rows == len(LATER) + int(night)


# -------------------------------------------------------------------- frames, by values alone


def test_data_frame_is_recognised_by_values_not_types(tmp_path: Path) -> None:
    """Times in ns and in us, in zones; whole numbers as floats: one frame counted twice."""
    frame = pl.read_csv(csv_of(ROWS), try_parse_dates=True)
    types: dict[str, list[pl.Expr]] = {
        "us": [],
        "ns": [pl.col("time").dt.cast_time_unit("ns")],
        "ms": [pl.col("time").dt.cast_time_unit("ms")],
        "floats": [pl.col("paid").cast(pl.Float64)],
        "categories": [pl.col("page").cast(pl.Categorical)],
        "short": [pl.col("paid").cast(pl.Int8)],
    }
    first, *_ = released(asked(frame, tmp_path, "sum", append=True))
    for how, changed in types.items():
        values, outcome = released(asked(frame.with_columns(changed), tmp_path, "sum", append=True))
        assert outcome.is_duplicate_input, how
        assert values == first
    (tmp_path / "zones").mkdir()
    units: tuple[tuple[Literal["us", "ns", "ms"], str], ...] = (
        ("us", "UTC"),
        ("ns", "Asia/Kolkata"),
        ("ms", "Europe/Berlin"),
    )
    for unit, zone in units:
        times = pl.col("time").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
        given = frame.with_columns(times.dt.cast_time_unit(unit))
        _, outcome = released(asked(given, tmp_path / "zones", append=True))
        assert outcome.is_duplicate_input == (zone != "UTC")


# ------------------------------------------------------------------------- nights without news


def test_run_without_new_file_releases_empty_windows_when_allowed(
    tmp_path: Path,
) -> None:
    """Every night's ``--allow-empty-windows``: such a night ended with exit code 8."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_bytes(csv_of(ROWS))
    before, _ = released(asked(folder, tmp_path, append=True))
    quiet = asked(folder, tmp_path, append=True, until="2024-03-01T07:00")
    with pytest.raises(
        InvalidInputError, match=r"2 more windows would be .* allow_empty_windows=True"
    ):
        run(quiet)
    values, outcome = released(quiet.derive(allow_empty_windows=True))
    assert (outcome.before, outcome.after) == (5, 7)
    assert np.array_equal(np.rint(values[5:]), np.rint([before[-1]] * 2))
    (folder / "b.csv").write_bytes(csv_of(LATER[:4]))
    last = asked(folder, tmp_path, append=True, until="2024-03-01T09:00", allow_empty_windows=True)
    assert np.rint(released(last)[0][-1]).sum() == 44


def test_file_without_rows_releases_empty_windows_repeatedly(tmp_path: Path) -> None:
    """The same one, and identical ones in a folder."""
    folder = tmp_path / "in"
    folder.mkdir()
    for night in range(1, 6):
        (folder / f"{night}.csv").write_bytes(csv_of(ROWS if night == 1 else []))
        job = asked(folder, tmp_path, append=True, until=f"2024-03-01T{night + 4:02}:00")
        with run(job) as outcome:
            assert outcome.after == night + 4
    alone = asked(folder / "2.csv", tmp_path, append=True)
    for hour in ("10", "11"):
        with run(alone.derive(until=f"2024-03-01T{hour}:00")) as outcome:
            assert outcome.after == int(hour)
