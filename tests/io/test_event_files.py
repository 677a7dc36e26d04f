from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from adds import Grid
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.base.private import reveal
from counton.io import files
from counton.io.aggregation import Aggregates, sum_rows
from counton.io.declared_groups import read_domain, refuse_long_terms
from counton.io.files import EventFile, open_source
from counton.io.row_assignment import Columns, RowMapping
from counton.io.sources import Source
from counton.statistics import Contingency
from counton.windowing.groups import GroupNames
from counton.windowing.windows import Windows, microseconds

WINDOWS = Windows(datetime(2013, 1, 1, tzinfo=UTC), "1h", 4)
COLUMNS = Columns("time", "group")
ROWS = [
    ("2013-01-01T00:00:00Z", "a"), ("2013-01-01T00:59:59.999999Z", "a"),
    ("2013-01-01T01:00:00Z", "b"), ("2013-01-01T03:30:00Z", "a"), ("2012-12-31T23:59:59Z", "b"),
    ("2013-01-01T04:00:00Z", "b"),
]  # fmt: skip
FRAME = pl.DataFrame(ROWS, schema=["time", "group"], orient="row")

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> str:
        path = tmp_path / "events.csv"
        path.write_text(text)
        return str(path)

    return write


def read(
    events: object,
    columns: Columns = COLUMNS,
    windows: Windows = WINDOWS,
    domain: tuple[str, ...] | None = ("a", "b"),
    **options: Any,
) -> Aggregates:
    source = events if isinstance(events, Source) else open_source(events)
    domain = None if columns.group is None else domain
    return reveal(sum_rows(source, RowMapping(columns, windows, **options), domain))


def dense(found: Aggregates) -> list[list[int]]:
    dense = np.zeros((4, 2), dtype=np.int64)
    for window, cell, total in found.cells.select("window", "cell", "total").rows():
        dense[window - 1, cell] += total
    return dense.tolist()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "jsonl", "typed"])
def test_every_format_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"events.{kind}")
    if kind == "csv":
        FRAME.write_csv(path)
    elif kind == "csv.gz":
        Path(path).write_bytes(gzip.compress(FRAME.write_csv().encode()))
    elif kind == "jsonl":
        FRAME.write_ndjson(path)
    elif kind == "parquet":
        FRAME.write_parquet(path)
    else:
        path = str(tmp_path / "events.parquet")
        times = FRAME.with_columns(pl.col("time").str.to_datetime(time_zone="UTC"))
        times.with_columns(
            pl.col("time").dt.convert_time_zone("Asia/Kolkata"),
            pl.col("group").cast(pl.Categorical),
        ).write_parquet(path)
    found = read(path)
    assert dense(found) == [[2, 0], [0, 1], [0, 0], [1, 0]]
    assert (found.rows, found.before_start, found.after_last_window, found.unlisted) == (6, 1, 1, 0)
    assert found.newest == microseconds(datetime(2013, 1, 1, 4, tzinfo=UTC))


def halves(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray(np.rint(values.clip(-1, 10) * 2), dtype=np.int64)


@pytest.mark.parametrize("adds", [None, Grid(halves)], ids=["counts", "sums"])
@pytest.mark.parametrize("unknown", ["drop", "refuse"])
def test_rows_of_many_groups_are_added_up_by_label_first(
    adds: Any, unknown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    names = tuple(f"group {n}" for n in range(40))
    paths = []
    most = 45 if unknown == "drop" else 40
    for number in range(2):
        rows = 300
        minutes = random.integers(-30, 330, rows)
        groups = [f"group {n}" if n else "" for n in random.integers(1, most, rows)]
        table = pl.DataFrame(
            {
                "time": np.datetime64("2013-01-01T00:00", "us") + minutes * np.timedelta64(1, "m"),
                "group": [*groups[:-1], None] if unknown == "drop" else groups,
                "value": random.uniform(-2, 12, rows),
            }
        )
        paths.append(tmp_path / f"{number}.parquet")
        table.write_parquet(paths[-1])
    columns = COLUMNS if adds is None else Columns("time", "group", "value")

    placed_first = read(paths, columns, domain=names, row_rule=adds, unlisted_groups="drop")
    monkeypatch.setattr("counton.io.aggregation.MOST_TABLED_GROUPS", 5)
    monkeypatch.setattr("counton.windowing.groups.NAMES_PER_BLOCK", 7)
    by_label = read(paths, columns, domain=names, row_rule=adds, unlisted_groups=unknown)
    agree(by_label, placed_first)
    assert by_label.cells.height > 60
    assert (by_label.unlisted > 0) == (unknown == "drop")


def agree(found: Aggregates, other: Aggregates) -> None:
    assert found.cells.equals(other.cells)
    for fact in (
        "newest",
        "rows",
        "before_start",
        "after_last_window",
        "unlisted",
        "missing",
        "quarantined",
    ):
        assert getattr(found, fact) == getattr(other, fact)


@pytest.mark.parametrize("group", [None, "group"])
@pytest.mark.parametrize("files", [1, 2])
def test_rows_aggregated_by_labels_first_equal_row_by_row(
    group: str | None, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    names = ("a", "b", "c")
    adds = Contingency({"page": ["home", "shop"], "kind": ["x", "y", "z"]})
    paths = [tmp_path / f"{number}.parquet" for number in range(files)]

    def some_of(*labels: str | None) -> list[str | None]:
        return [labels[place] for place in random.integers(len(labels), size=1200)]

    for path in paths:
        minutes = random.integers(-30, 330, 1200)
        rows = {
            "time": np.datetime64("2013-01-01T00:00", "us") + minutes * np.timedelta64(1, "m"),
            "group": some_of(*names, "other", "", None),
            "page": some_of("home", "shop", "else", "", None),
            "kind": some_of("x", "y", "z", "?"),
        }
        pl.DataFrame(rows).write_parquet(path)
    columns = Columns("time", group, several=("page", "kind"))

    def found() -> Aggregates:
        return read(paths, columns, domain=names, row_rule=adds, unlisted_groups="drop")

    row_by_row = found()
    monkeypatch.setattr("counton.io.aggregation.MOST_TABLED_GROUPS", -1)
    alike_first = found()
    agree(alike_first, row_by_row)
    assert alike_first.unlisted > 100
    assert alike_first.cells["rows"].sum() > 50


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pipe:
        buffer = io.BytesIO(FRAME.write_csv().encode())

    monkeypatch.setattr(sys, "stdin", Pipe())
    file = open_source("-")
    found = read(file, COLUMNS, WINDOWS, ("a", "b"))
    assert dense(found) == [[2, 0], [0, 1], [0, 0], [1, 0]]
    assert len(file.parts[0].digest([])) == 64


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("epoch", "1357018200"),
        ("epoch", "1357018200.0"),
        ("epoch_ms", "1357018200000"),
        ("epoch_us", "1357018200000000"),
        ("epoch_ns", "1357018200000000000"),
        ("%d/%m/%Y %H.%M", "01/01/2013 05.30"),
        ("%d/%m/%Y %H.%M %z", "01/01/2013 06.30 +0100"),
    ],
)
def test_stated_time_formats(form: str, text: str, write: Write) -> None:
    file = open_source(write(f"time\n{text}\n"))
    found = read(file, Columns("time"), Windows(WINDOWS.start, "1h", 24), time_format=form)
    assert found.newest == microseconds(datetime(2013, 1, 1, 5, 30, tzinfo=UTC))


def test_a_date_is_its_local_midnight(write: Write) -> None:
    windows = Windows(datetime(2013, 1, 1, 5, tzinfo=UTC), "1d", 2, "America/New_York")
    found = read(write("time\n2013-01-02\n"), Columns("time"), windows)
    assert found.cells["window"].to_list() == [2]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("2013-01-01T00:00Z,a\n,b\n", r"row 2 .* no time .*'time'"),
        ("2013-01-01T00:00Z,a\nnoon,b\nlate,b", r"row 2 .*'noon'.*one of 2 such rows"),
        (
            "noon,b\n2013-01-01T00:00Z,\nlate,b",
            "row 1 .*one of 2 such rows; 1 more has another problem",
        ),
        ("1357018200,a\n", r"row 1 .*'1357018200'.*give time_format"),
        ("2013-01-01T00:00Z,\n", "row 1 .* no group.*missing_values=drop"),
        (
            "2013-01-01T00:00Z,c\n2013-01-01T00:00Z,b\n",
            r"not listed: 'c' \(the first such row is row 1\)",
        ),
    ],
)
def test_rows_that_cannot_be_counted_are_refused(rows: str, words: str, write: Write) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read(write("time,group\n" + rows))


def test_clock_changes_are_refused_or_resolved_as_stated(write: Write) -> None:
    windows = Windows(datetime(2013, 1, 1, 5, tzinfo=UTC), "1h", 8760, "America/New_York")
    file = open_source(write("time\n2013-11-03 01:30\n"))
    with pytest.raises(InvalidInputError, match="a clock change skips"):
        read(file, Columns("time"), windows)
    early = read(file, Columns("time"), windows, ambiguous="earliest")
    late = read(file, Columns("time"), windows, ambiguous="latest")
    assert None not in (late.newest, early.newest)
    assert (late.newest or 0) - (early.newest or 0) == 3_600_000_000
    skipped = open_source(write("time\n2013-03-10 02:30\n"))
    with pytest.raises(InvalidInputError, match="a clock change skips"):
        read(skipped, Columns("time"), windows, ambiguous="earliest")


@pytest.mark.parametrize("hour", ["2013-03-10 02:30", "2013-11-03 01:30"])
@pytest.mark.parametrize("start", [5, 6])
def test_local_time_is_assigned_to_its_day(hour: str, start: int, write: Write) -> None:
    begin = datetime(2013, 1, 1, start, tzinfo=UTC)  # midnight, and one o'clock
    windows = Windows(begin, "1d", 365, "America/New_York")
    file = open_source(write(f"time\n{hour}\n"))
    if start == 6:
        with pytest.raises(InvalidInputError, match="a clock change skips"):
            read(file, Columns("time"), windows)
        return
    day = datetime.fromisoformat(hour).timetuple().tm_yday
    assert read(file, Columns("time"), windows).cells["window"].to_list() == [day]


def test_many_undeclared_groups_are_not_all_listed(write: Write) -> None:
    rows = "".join(f"2013-01-01T00:00Z,g{n}\n" for n in range(30))
    with pytest.raises(InvalidInputError, match="and 25 more"):
        read(write("time,group\n" + rows))


VALUED = Columns("time", "group", "value")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_values_are_summed_on_the_grid(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / f"values.{kind}")
    frame = FRAME.head(4).with_columns(value=pl.Series([1.0, 2.5, 100.0, -7.0]))
    frame.write_csv(path) if kind == "csv" else frame.write_ndjson(path)
    found = read(path, VALUED, WINDOWS, ("a", "b"), row_rule=Grid(halves))
    assert dense(found) == [[7, 0], [0, 20], [0, 0], [-2, 0]]
    assert found.cells["rows"].to_list() == [2, 1, 1]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "seven", ""])
def test_values_that_are_no_finite_numbers_are_refused(value: str, write: Write) -> None:
    path = write(f"time,group,value\n2013-01-01T00:00Z,a,1\n2013-01-01T00:00Z,a,{value}\n")
    with pytest.raises(InvalidInputError, match=r"row 2 .* value"):
        read(path, VALUED, WINDOWS, ("a", "b"), row_rule=Grid(halves))


def test_sums_beyond_int64_are_refused(write: Write) -> None:
    def huge(values: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.full(len(values), 2**60, dtype=np.int64)

    rows = "2013-01-01T00:00Z,a,1\n" * 16  # 16 * 2^60 wraps to zero
    with pytest.raises(SumOverflowError, match="2\\^61"):
        read(write("time,group,value\n" + rows), VALUED, WINDOWS, ("a", "b"), row_rule=Grid(huge))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("e.csv", b"", "0 bytes"),
        ("e.parquet", b"not parquet at all", "cannot be read as parquet"),
        ("e.jsonl", b"{broken", "cannot be read as jsonl"),
        ("e.csv", b"when,group\n2013-01-01,a\n", "no column 'time'. Its columns are when, group"),
        ("e.xlsx", b"x", "e.xlsx' is a workbook of a spreadsheet"),
    ],
)
def test_files_that_cannot_be_read_are_refused(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=words):
        read(str(tmp_path / name))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is not a file"):
        EventFile(str(tmp_path / "none.csv"))


def test_groups_are_read_from_table_text_file_or_list(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("carrier,name\nNA,North\n01,One\n")
    (tmp_path / "one.csv").write_text("x\nNA\n01\n")
    (tmp_path / "d.txt").write_text("NA\n\n01\n")
    for source in ("d.csv", "one.csv", "d.txt"):
        assert read_domain(str(tmp_path / source), "carrier") == ("NA", "01")
    assert read_domain("NA,01", "carrier") == ("NA", "01")
    assert read_domain("a/b,c.csv", "carrier") == ("a/b", "c.csv")


@pytest.mark.parametrize(
    ("groups", "column", "number"),
    [
        (range(10**9), "page", "1,000,000,000"),
        ({"page": range(10**5), "country": range(10**4)}, "page,country", "1,000,000,000"),
    ],
)
def test_read_domain_refuses_too_many_groups_before_listing(
    groups: Any, column: str, number: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"{number} groups, .*fewer than 200,000,000"):
        read_domain(groups, column)


def test_names_longer_than_terms_may_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.io.declared_groups._MOST_BYTES", 10**3)
    refuse_long_terms(GroupNames(["x" * 200, "y" * 200]))
    with pytest.raises(
        InvalidInputError, match=r"the names of the 2 groups .* take more than 1,000 b"
    ):
        refuse_long_terms(GroupNames(["x" * 600, "y" * 600]))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("a,b,a", "'a' twice"),
        ("a,,b", "an empty name"),
        ("gone.csv", "groups=gone.csv is not a file"),
        ("", "has no group"),
    ],
)
def test_invalid_groups_are_refused(source: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_domain(source, "carrier")


@pytest.mark.parametrize(
    "source",
    ["sex=f,m;adult=no,yes", " adult = no, yes ; sex=f,m ", "f / no,f / yes,m / no,m / yes"],
)
def test_read_domain_text_of_several_columns_gives_combinations(source: str) -> None:
    assert read_domain(source, "sex,adult") == ("f / no", "f / yes", "m / no", "m / yes")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("sex=f,m", "groups lists sex, and group_by names sex, adult"),
        ("sex=f,m;age=1,2", "groups lists sex, age, and group_by names sex, adult"),
        ("sex=f;sex=m", "lists the values of 'sex' twice"),
    ],
    ids=str,
)
def test_read_domain_without_groups_of_all_columns_is_refused(source: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_domain(source, "sex,adult")


def test_read_domain_text_of_one_column_keeps_equals_signs() -> None:
    assert read_domain("sex=f,m", "sex") == ("sex=f", "m")


def test_a_table_needs_the_column(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("code,name\nUA,United\n")
    with pytest.raises(InvalidInputError, match="no column 'carrier'"):
        read_domain(str(tmp_path / "d.csv"), "carrier")


@pytest.mark.parametrize("length", [255, 256, 5000, 2**17])
def test_read_domain_accepts_list_longer_than_path(length: int) -> None:
    groups = tuple(f"{number:04}" for number in range(length // 5))
    assert read_domain(",".join(groups), "carrier") == groups


@pytest.mark.parametrize(
    ("name", "content"),
    [("d.csv", b"carrier\n\xff\xfe\n"), ("d.jsonl", b'{"carrier": ["NA"]}\n'), ("d.pq", b"PAR1")],
)
def test_a_table_of_groups_that_cannot_be_read_is_refused(
    name: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"cannot be read as .* correct the file"):
        read_domain(str(tmp_path / name), "carrier")


def test_unreadable_file_is_refused_with_advice_on_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "e.csv").write_text("time\n2013-01-01\n")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("counton.io.files.open", denied, raising=False)
    with pytest.raises(InvalidInputError, match=r"Permission denied\); check its permissions"):
        EventFile(str(tmp_path / "e.csv")).columns()


# --------------------------------------------------------------------- frames, and several files


class Lent:
    """A frame of some library: all that is known is that it speaks Arrow."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def test_pandas_frame_with_times_in_index_suggests_reset_index() -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.to_datetime(["2013-01-01"])
    for name, words in (
        ("time", r"It has no columns, and 'time' is in its index: give .* reset_index\(\)$"),
        (None, r"and its index holds times: give .* reset_index\(names='time'\)$"),
        ("other", r"and its index holds times: give .* reset_index\(names='time'\)$"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            read(pandas.DataFrame(index=pandas.Index(times, name=name)))
    with pytest.raises(InvalidInputError, match=r"It has no columns$"):
        read(pandas.DataFrame(index=[0, 1]))


def test_digests_of_frames_are_of_their_rows() -> None:
    names = ["time", "group"]
    one, same = (open_source(rows).parts[0].digest(names) for rows in (FRAME, Lent(FRAME)))
    assert one == same == open_source(FRAME.with_columns(more=1).lazy()).parts[0].digest(names)
    assert one != open_source(FRAME.head(5)).parts[0].digest(names)


def test_a_problem_in_a_frame_names_its_row() -> None:
    times = [datetime(2013, 1, 1, tzinfo=UTC), None]
    with pytest.raises(
        InvalidInputError,
        match=r"row 2 of the data frame has no time in column 'time'; .* leave them out",
    ):
        read(pl.DataFrame({"time": times, "group": ["a", "b"]}))


@pytest.fixture
def three_files(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    FRAME[:2].write_csv(folder / "1.csv")
    times = FRAME[2:4].with_columns(pl.col("time").str.to_datetime(time_zone="UTC"))
    times.write_parquet(folder / "2.parquet")
    (folder / "3.jsonl.gz").write_bytes(gzip.compress(FRAME[4:].write_ndjson().encode()))
    (folder / "notes.md").write_text("no events")
    return folder


@pytest.mark.parametrize("how", ["folder", "pattern", "list", "mixed"])
def test_several_files_are_counted_together(how: str, three_files: Path) -> None:
    paths = [str(path) for path in sorted(three_files.iterdir()) if path.suffix != ".md"]
    events: object = {
        "folder": three_files, "pattern": f"{three_files}/[123].*", "list": paths,
        "mixed": [f"{three_files}/*.csv", *paths[1:]],
    }[how]  # fmt: skip
    found = read(events)
    assert dense(found) == [[2, 0], [0, 1], [0, 0], [1, 0]]
    assert (found.rows, found.before_start, found.after_last_window) == (6, 1, 1)


def test_unreadable_time_in_one_of_several_files_names_row(three_files: Path) -> None:
    (three_files / "2a.csv").write_text("time,group\n2013-01-01T00:00Z,a\nnoon,b\n")
    with pytest.raises(
        InvalidInputError, match=r"row 2 of .*2a\.csv has a time that cannot be read"
    ):
        read(three_files)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "names no file"),
        (["{}/1.csv", "{}/../logs/1.csv"], "is given twice"),
        (["{}", "{}/1.csv"], "is given twice"),
        ("{}/*.tsv", "no file matches"),
        ("{}/none/1.csv", "there is no folder"),
        ("{}/empty", "has no event files"),
        ([3], "of type int"),
    ],
)
def test_files_that_are_none_or_twice_are_refused(
    events: Any, words: str, three_files: Path
) -> None:
    (three_files / "empty").mkdir()
    if isinstance(events, str):
        named: object = events.format(three_files)
    else:
        named = [one.format(three_files) if isinstance(one, str) else one for one in events]
    with pytest.raises(InvalidInputError, match=words):
        open_source(named)


def test_two_columns_of_one_name_are_refused(write: Write) -> None:
    with pytest.raises(InvalidInputError, match="two columns 'group'"):
        read(write("time,group,group\n2013-01-01T00:00Z,a,b\n"))


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("csv", "noon,a,1,2\n", r"line 5 of .* \(it has 4 fields, 1 more than the header\)"),
        ("csv.gz", "noon,a,1,2\n", r"line 5 of .* \(it has 4 fields, 1 more than the header\)"),
        ("csv", "2013-01-01T00:00Z\n", r"line 5 of .* \(it has 1 field, 2 fewer than the header"),
        ("csv", "01.09.2026 09:17,a,1\n", r"row 4 of .*give time_format='%d\.%m\.%Y %H:%M'"),
        ("csv", "\nnoon,a,1\n", r"line 5 of .* \(it is blank\)"),
        ("csv", '"noon,a\n', r"line 5 of .* \(it opens a quotation mark that is not closed"),
        ("csv", b"2013-01-01T00:00Z,caf\xe9,1\n", r"line 5 of .* bytes that are not UTF-8"),
        ("csv", f"{'x' * 9000},a,1\n", r"row 4 of .*time that cannot be read.*x\.\.\.\)"),
        ("jsonl", '{"time": "2013-01-01", \n', r"line 4 of .* \(it is no JSON object\)"),
        ("jsonl", '{"time": 1e400}\n', r"row 4 of .*time that cannot be read .*'1e400'"),
        ("jsonl", "3\n", r"line 4 of .* \(it is no JSON object\)"),
        ("jsonl", b'{"time": "\xe9"}\n', r"line 4 of .* \(it has bytes that are not UTF-8"),
        ("jsonl.gz", "[]\n", r"line 4 of .* \(it is no JSON object\)"),
        ("jsonl", '{"group": "a"}\n', "row 4 of .* has no time"),
        ("jsonl", '{"time": "2013-01-01", "group": ["a"]}\n', "the first such row is row 4"),
    ],
)
def test_a_row_that_is_none_is_named(
    name: str, rows: str | bytes, words: str, tmp_path: Path
) -> None:
    three = FRAME[:3].with_columns(value=1)
    good = three.write_csv() if name.startswith("csv") else three.write_ndjson()
    content = good.encode() + (rows if isinstance(rows, bytes) else rows.encode())
    path = tmp_path / f"events.{name}"
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(InvalidInputError, match=words) as error:
        read(str(path))
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("values", [[["a"]], [{"a": 1}], [b"a"]])
def test_columns_that_are_no_text_are_refused(values: Any) -> None:
    frame = pl.DataFrame({"time": ["2013-01-01T00:00Z"], "group": values})
    with pytest.raises(InvalidInputError, match="and only text, numbers and times can be read"):
        read(frame)


def test_names_of_columns_are_shown_short_and_readable() -> None:
    frame = pl.DataFrame({"\x01": [1], "b" * 500: [1]} | {f"c{n}": [1] for n in range(500)})
    with pytest.raises(
        InvalidInputError, match=r"Its columns are '\\x01', b+\.\.\., c0,.* and 490 more$"
    ):
        read(frame)


def test_watch_callback_receives_number_of_all_rows() -> None:
    seen: list[int] = []
    sum_rows(open_source(FRAME), RowMapping(COLUMNS, WINDOWS), ("a", "b"), watch=seen.append)
    assert sum(seen) == 6


def test_source_without_some_files_has_name_of_the_rest(tmp_path: Path) -> None:
    """Not by how many there were, of which messages then said that they "has been counted"."""
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("time\n2024-03-01\n")
    whole = open_source(tmp_path)
    assert whole.name == f"3 files from {tmp_path / 'a.csv'}"
    assert whole.without(whole.parts[:1]).name == f"2 files from {tmp_path / 'b.csv'}"
    assert whole.without(whole.parts[:2]).name == str(tmp_path / "c.csv")


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.zst"])
def test_begin_of_compressed_file_is_read(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"time": [f"2024-03-01T{hour:02}:00" for hour in range(24)] * 100})
    text = frame.write_csv().encode()
    path = tmp_path / f"events.{kind}"
    if kind == "csv.zst":
        frame.write_csv(path, compression="zstd")
    else:
        path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    file = files.EventFile(path)
    begins, whole, taken = file.beginning(1000)
    assert (whole, taken, begins.frame().collect().height) == (False, 1001, 58)
    begins, whole, taken = file.beginning(len(text))
    assert (whole, taken) == (True, len(text))
    assert begins.frame().collect().equals(frame)
    assert not begins.has_changed()
