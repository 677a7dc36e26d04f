"""CSV with semicolons between fields and commas before fractions, as half of Europe writes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.io.files import open_source
from counton.job.job_file import load
from counton.job.saved_job import save, stream_name
from counton.run import Job, run

HEADER = ("time", "place", "paid")
ROWS = [
    ("01.09.2026 09:17", "Köln, Dom", "1,5"),
    ("01.09.2026 10:00", "Bonn; Markt", "-2,25"),
    ("02.09.2026 08:00", "Köln, Dom", "1500"),
]
OPTIONS: dict[str, Any] = {
    "time": "time", "time_format": "%d.%m.%Y %H:%M", "every": "1d", "start": "2026-09-01",
    "windows": 2, "until": "2026-09-03", "group_by": "place", "groups": ["Köln, Dom",
    "Bonn; Markt"],
    "value": "paid", "lower": -5, "upper": 1500, "resolution": "0.25", "epsilon": 10**9,
}  # fmt: skip


def write(file: Path, separator: str, rows: Sequence[tuple[str, ...]] = ROWS) -> Path:
    lines = [separator.join(f'"{one}"' if separator in one else one for one in row) for row in rows]
    file.write_text("\n".join([separator.join(HEADER), *lines]) + "\n")
    return file


def released(job: Job) -> list[float]:
    totals = run(job).read().numbers.series.totals
    assert totals is not None
    return [round(float(one), 2) for one in totals.estimates.reshape(-1)]


@pytest.mark.parametrize(
    ("separator", "stated"), [(";", ";"), ("\t", "tab"), ("|", "|"), (",", ",")]
)
def test_numbers_and_fields_are_read_as_they_are_written(
    tmp_path: Path, separator: str, stated: str
) -> None:
    file = write(tmp_path / "e.csv", separator)
    job = Job("sum", file, tmp_path / "s.db", separator=stated, decimal=",", **OPTIONS)
    assert released(job) == [1.5, -2.25, 1501.5, -2.25]


def test_stream_remembers_separator_and_decimal_of_job_file(tmp_path: Path) -> None:
    first = tmp_path / "one"
    second = tmp_path / "two"
    first.mkdir()
    second.mkdir()
    write(first / "e.csv", ";", ROWS[:2])
    job = Job("sum", first / "e.csv", tmp_path / "s.db", separator=";", decimal=",", **OPTIONS)
    save(job, tmp_path / "n.toml")
    saved = load(tmp_path / "n.toml")[stream_name(job)].derive(until="2026-09-02")
    assert released(saved) == [1.5, -2.25]
    write(second / "e.csv", ";")
    later = Job("sum", second / "e.csv", tmp_path / "s.db", until="2026-09-03")
    assert released(later) == [1.5, -2.25, 1501.5, -2.25]


def test_quarantined_rows_use_separator_of_input(tmp_path: Path) -> None:
    rows = [*ROWS, ("02.09.2026 08:00", "Köln, Dom"), ("02.09.2026", "a", "b", "c")]
    file = write(tmp_path / "e.csv", ";", rows)
    job = Job("sum", file, tmp_path / "s.db", separator=";", decimal=",", **OPTIONS)
    with pytest.raises(InvalidInputError, match=r"line 5 of .* 2 fields, 1 fewer than the header"):
        run(job)
    aside = job.derive(bad_rows=f"quarantine:{tmp_path / 'bad.csv'}")
    assert released(aside) == [1.5, -2.25, 1501.5, -2.25]
    assert pl.read_csv(tmp_path / "bad.csv")["row"].to_list() == [4, 5]


def test_point_in_number_with_decimal_comma_is_refused(tmp_path: Path) -> None:
    words = {
        "1.500": "a number with thousands separators",
        "1.500,5": "a number with thousands separators",
        "1,5,5": "a value that is not a finite number",
    }
    for wrong, problem in words.items():
        file = write(tmp_path / "e.csv", ";", [(*ROWS[0][:2], wrong)])
        job = Job("sum", file, tmp_path / "s.db", separator=";", decimal=",", **OPTIONS)
        with pytest.raises(InvalidInputError, match=f"{problem} in column 'paid' .'{wrong}'"):
            run(job)
    assert not (tmp_path / "s.db").exists()


def test_refusal_names_missing_separator_or_decimal(tmp_path: Path) -> None:
    file = write(tmp_path / "e.csv", ";")
    with pytest.raises(
        InvalidInputError, match=r"which character separates columns, separator=';'"
    ):
        open_source(file).parts[0].scan(["time"])
    with pytest.raises(
        InvalidInputError, match=r"separator is 'x'; columns may be separated by , ; \| or tab"
    ):
        run(Job("sum", file, tmp_path / "s.db", separator="x", **OPTIONS))
    wrong: Any = "·"
    with pytest.raises(InvalidInputError, match=r"decimal=· is not possible for sum; give \. or ,"):
        run(Job("sum", file, tmp_path / "s.db", separator=";", decimal=wrong, **OPTIONS))


def test_a_decimal_comma_is_named_where_a_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("time;paid\n2024-03-01T09:00;12,50\n")
    told: dict[str, Any] = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 9}
    bounds: dict[str, Any] = {"value": "paid", "lower": 0, "upper": 100, "resolution": "0.01"}
    job = Job(
        "sum",
        file,
        tmp_path / "s.db",
        separator=";",
        epsilon=1,
        until="latest-event",
        **told,
        **bounds,
    )
    with pytest.raises(InvalidInputError, match=r"comma is the decimal sign, give decimal=,"):
        run(job)
