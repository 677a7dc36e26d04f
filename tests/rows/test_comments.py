"""Lines of CSV that begin as comments do are no rows."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInput
from counton.job.jobfile import load, save
from counton.rows.files import EventFile
from counton.rows.paths import CsvForm
from counton.run import Job, run

TEXT = """# made on "Monday
time,place
2026-09-01,home
#2026-09-01,home
# 5" wide
# a comment
2026-09-02,"shop, #2"
2026-09-02,#3
"""
OPTIONS: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2026-09-01", "steps": 3, "until": "2026-09-03",
    "by": "place", "domain": ["home", "shop, #2", "#3"], "epsilon": 10**9,
}  # fmt: skip


def released(job: Job) -> list[int]:
    with run(job) as outcome:
        totals = outcome.read().numbers.totals
    assert totals is not None
    return [round(float(one)) for one in totals.estimates.reshape(-1)]


def write(file: Path, text: str = TEXT) -> Path:
    file.write_text(text)
    return file


def test_comments_are_no_rows_and_no_header(tmp_path: Path) -> None:
    job = Job("count", write(tmp_path / "e.csv"), tmp_path / "s.db", comment="#", **OPTIONS)
    assert released(job) == [1, 0, 0, 1, 1, 1]
    without = Job("count", write(tmp_path / "e.csv"), tmp_path / "n.db", **OPTIONS)
    with pytest.raises(InvalidInput):
        run(without)


def test_a_job_file_says_it_and_the_stream_remembers_it(tmp_path: Path) -> None:
    job = Job("count", write(tmp_path / "e.csv"), tmp_path / "s.db", comment="#", **OPTIONS)
    save(job, tmp_path / "n.toml")
    saved = load(tmp_path / "n.toml")["count"].having(until="2026-09-02")
    assert released(saved) == [1, 0, 0]
    later = Job("count", tmp_path / "e.csv", tmp_path / "s.db", until="2026-09-03")
    assert released(later) == [1, 0, 0, 1, 1, 1]


def test_rows_are_numbered_and_set_aside_as_if_there_were_no_comments(tmp_path: Path) -> None:
    file = write(tmp_path / "e.csv", f"{TEXT}2026-09-02\n# end\n2026-09-02,home\n")
    job = Job("count", file, tmp_path / "s.db", comment="#", **OPTIONS)
    with pytest.raises(InvalidInput, match=r"line 9 of .* 1 field, 1 fewer than the header"):
        run(job)
    aside = tmp_path / "bad.csv"
    assert released(job.having(bad_rows=f"quarantine:{aside}")) == [1, 0, 0, 2, 1, 1]
    assert pl.read_csv(aside)["row"].to_list() == [4]


def test_many_lines_are_told_alike_wherever_they_stand(tmp_path: Path) -> None:
    lines = [f'# "{number}\n{number},"x # y"\n' for number in range(20_000)]
    file = write(tmp_path / "e.csv", f"# z\na,b\n{''.join(lines)}")
    form = CsvForm.read(comment="#")
    rows = EventFile(file, form=form).frame().collect()
    assert rows["a"].to_list() == [*map(str, range(20_000))]
    assert {*rows["b"]} == {"x # y"}


@pytest.mark.parametrize("wrong", ["", "a", '"', ",", "#####", "# "])
def test_what_a_row_could_begin_with_is_refused(tmp_path: Path, wrong: str) -> None:
    file = write(tmp_path / "e.csv")
    with pytest.raises(InvalidInput, match=r"comment is .*; give the 1 to 4 characters"):
        run(Job("count", file, tmp_path / "s.db", comment=wrong, **OPTIONS))
    assert not (tmp_path / "s.db").exists()
