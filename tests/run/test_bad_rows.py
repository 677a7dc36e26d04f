"""With policies for them, no row decides whether there is a release at all."""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_results import counts_of, releases_of

from counton.base.errors import InvalidInputError
from counton.run import Job, run
from counton.run.dry_run import dry_run
from counton.run.spec.parsing import parse_policies

GOOD = [("2024-03-01T00:10", "a", "ann", "1.5", "1"), ("2024-03-01T01:10", "b", "bob", "2.5", "2")]
#: Rows that no run could count, whatever else is in the file.
BAD = {
    "no time": ("", "a", "ann", "1", "3"),
    "unreadable": ("yesterday", "a", "ann", "1", "3"),
    "skipped": ("2024-03-31T02:30", "a", "ann", "1", "3"),
    "doubled": ("2024-10-27T02:30", "a", "ann", "1", "3"),
    "no group": ("2024-03-01T00:20", "", "ann", "1", "3"),
    "no user": ("2024-03-01T00:20", "a", "", "1", "3"),
    "no value": ("2024-03-01T00:20", "a", "ann", "", "3"),
    "NaN": ("2024-03-01T00:20", "a", "ann", "NaN", "3"),
    "text": ("2024-03-01T00:20", "a", "ann", "many", "3"),
    "no id": ("2024-03-01T00:20", "a", "ann", "1", ""),
}
HEADER = ("time", "group", "user", "value", "id")


def write(path: Path, rows: Sequence[tuple[str, ...]]) -> Path:
    if path.suffix == ".csv":
        path.write_text("".join(",".join(row) + "\n" for row in [HEADER, *rows]))
    else:
        named = [{k: v or None for k, v in zip(HEADER, row, strict=True)} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in named))
    return path


def asked(folder: Path, rows: Sequence[tuple[str, ...]], ending: str = "csv", **more: Any) -> Job:
    given: dict[str, Any] = {
        "what": "sum", "events": write(folder / f"e.{ending}", rows), "state": folder / "s.db",
        "time": "time", "group_by": "group", "groups": "a,b", "value": "value", "lower": 0,
        "upper": 4,
        "resolution": "0.5", "user": "user", "max_contributions": 3, "row_id": "id", "every": "1h",
        "windows": 12,
        "start": "2024-03-01", "timezone": "Europe/Berlin", "until": "2024-03-01T03:00",
        "epsilon": 10**6, "allow_empty_windows": True, "strategy": "binary",
    }  # fmt: skip
    return Job(**{**given, **more})


def released(job: Job) -> tuple[Any, Any]:
    with run(job) as outcome:
        return np.asarray(releases_of(outcome), float).tolist(), counts_of(outcome)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "without",
    [{}, {"user": None, "max_contributions": None, "row_id": None}],
    ids=["users", "rows"],
)
def test_no_row_stops_a_release(without: dict[str, Any], ending: str, tmp_path: Path) -> None:
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
    dropped = {"unlisted_groups": "drop", "missing_values": "drop"}
    alone, _ = released(asked(tmp_path / "good", GOOD, ending, **dropped, **without))
    rows = [*BAD.values(), GOOD[0], ("2024-03-01T00:20", "zoo", "ann", "1", "9"), GOOD[1]]
    counted = sum(name in ("no user", "no id") for name in BAD) if without else 0
    quarantine = tmp_path / "quarantine.csv"
    job = asked(
        tmp_path / "bad", rows, ending, bad_rows=f"quarantine:{quarantine}", **dropped, **without
    )
    found, tally = released(job)
    assert np.abs(np.subtract(found, alone)).max() == counted  # these rows have all that is read
    assert tally.rows == len(rows)
    assert tally.quarantined == 5
    assert tally.skipped == (2 if without else 4)
    with quarantine.open(newline="") as stream:
        said = list(csv.reader(stream))
    assert [int(row[1]) for row in said[1:]] == [2, 3, 4, 8, 9]
    assert "a local time that a clock change skips or repeats" in said[2][2]
    assert quarantine.stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("name", BAD)
def test_without_policies_a_row_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"row 2 of .*e\.csv has "):
        run(asked(tmp_path, [GOOD[0], BAD[name]]))
    assert not (tmp_path / "s.db").exists()


def test_more_rows_than_may_be_set_aside_are_refused(tmp_path: Path) -> None:
    rows = [*GOOD, *[BAD["NaN"]] * 3]
    aside = {"bad_rows": f"quarantine:{tmp_path / 'q.csv'}"}
    with pytest.raises(
        InvalidInputError, match=r"More than 2 rows of .* raise max_bad_rows"
    ) as refused:
        run(asked(tmp_path, rows, max_bad_rows=2, **aside))
    first = "Row 3 of .* has a value that is not .* in column 'value' .'NaN'. .one of 3 such rows"
    assert re.match(first, str(refused.value))
    assert not (tmp_path / "q.csv").exists()
    assert released(asked(tmp_path, rows, max_bad_rows=3, **aside))[1].quarantined == 3


def rows_with(values: Sequence[str]) -> list[tuple[str, ...]]:
    """Rows of one hour and group, with these values."""
    return [
        ("2024-03-01T00:20", "a", "ann", value, str(number)) for number, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("n_bad", "n_good", "stated"), [(12, 12, None), (10, 2, None), (13, 12, 13)]
)
def test_run_sets_aside_half_of_the_rows_or_as_stated(
    n_bad: int, n_good: int, stated: int | None, tmp_path: Path
) -> None:
    rows = rows_with(["many"] * n_bad + ["1"] * n_good)
    bad_rows = f"quarantine:{tmp_path / 'q.csv'}"
    job = asked(tmp_path, rows, bad_rows=bad_rows, max_bad_rows=stated)
    assert released(job)[1].quarantined == n_bad


@pytest.mark.parametrize("rehearses", [True, False])
def test_run_with_more_than_half_of_rows_unreadable_releases_nothing(
    rehearses: bool, tmp_path: Path
) -> None:
    rows = rows_with(["", *["many"] * 12, *["1"] * 11])
    job = asked(tmp_path, rows, bad_rows=f"quarantine:{tmp_path / 'q.csv'}")
    words = (
        r"Row 2 of .*e\.csv has a value that is not a finite number in column 'value' .'many'. "
        r".one of 12 such rows; 1 more has another problem.*13 of 24 rows of .*e\.csv .54\.2%. "
        "cannot be read, so nothing is released"
    )
    with pytest.raises(InvalidInputError, match=words):
        dry_run(job) if rehearses else run(job)
    assert not (tmp_path / "s.db").exists()
    assert (tmp_path / "q.csv").exists() is not rehearses


def test_thousands_separators_are_named_in_file_of_bad_rows(tmp_path: Path) -> None:
    rows = rows_with(["3 424.66", "3'424", "many", "1"])
    released(asked(tmp_path, rows, bad_rows=f"quarantine:{tmp_path / 'q.csv'}"))
    with (tmp_path / "q.csv").open(newline="") as stream:
        problems = [row["problem"] for row in csv.DictReader(stream)]
    grouped = "a number with thousands separators"
    assert problems == [grouped, grouped, "a value that is not a finite number"]


@pytest.mark.parametrize("number", ["1,204", "0,5"])
def test_comma_is_named_in_file_of_bad_rows_and_in_message(tmp_path: Path, number: str) -> None:
    words = "a number with a comma as decimal sign or thousands separator"
    rows = rows_with([f'"{number}"', "3", "1"])
    aside = tmp_path / "bad.csv"
    released(asked(tmp_path, rows, bad_rows=f"quarantine:{aside}"))
    with aside.open(encoding="utf-8") as file:
        assert [row["problem"] for row in csv.DictReader(file)] == [words]
    with pytest.raises(InvalidInputError, match=rf"has {words} in column 'value'"):
        run(asked(tmp_path, rows, state=tmp_path / "other.db"))


def test_message_names_decimal_sign_of_job_for_number_with_point(tmp_path: Path) -> None:
    job = asked(tmp_path, rows_with(["12.0", "1"]), decimal=",", separator=";")
    (tmp_path / "e.csv").write_text((tmp_path / "e.csv").read_text().replace(",", ";"))
    words = (
        r"row 1 of .* has a number with a decimal point in column 'value' \('12\.0'\); write a "
        r"comma, as in 12,0 \(decimal=,\); if all numbers of the file have points, give decimal=\."
    )
    with pytest.raises(InvalidInputError, match=words):
        run(job)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("drop", 1, "drop"), "bad_rows=drop is neither fail nor quarantine:FILE"),
        (("quarantine:", 1, "drop"), "bad_rows=quarantine: is neither"),
        (("fail", -1, "drop"), "max_bad_rows=-1 is below 0"),
        (("fail", 1, "skip"), "missing_values=skip is not possible"),
    ],
)
def test_invalid_bad_row_policies_are_refused(given: tuple[str, int, Any], words: str) -> None:
    bad_rows, most, missing = given
    with pytest.raises(InvalidInputError, match=words):
        parse_policies(
            Job(
                "count",
                "v.csv",
                "s.db",
                bad_rows=bad_rows,
                max_bad_rows=most,
                missing_values=missing,
            )
        )


@pytest.mark.parametrize("there", ["open", "linked", "hard link"])
def test_bad_rows_file_is_readable_by_owner_only(there: str, tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    other = tmp_path / "other.csv"
    other.write_text("of somebody else\n")
    if there == "linked":
        file.symlink_to(other)
    elif there == "hard link":
        file.hardlink_to(other)
    else:
        file.write_text("old\n")
        file.chmod(0o644)
    job = asked(tmp_path, [*GOOD, BAD["NaN"]], bad_rows=f"quarantine:{file}")
    if there == "linked":
        with pytest.raises(InvalidInputError, match=r"cannot be written .it is a symbolic link"):
            run(job)
    else:
        assert released(job)[1].quarantined == 1
        assert file.stat().st_mode & 0o777 == 0o600
        assert "ann" in file.read_text()
    assert other.read_text() == "of somebody else\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


#: Writes a file of bad rows, and waits after the first row has reached the disk.
WRITES_BAD_ROWS = """
import sys
from pathlib import Path
from counton.io.error_policy import set_aside

def rows():
    yield ("e.csv", 1, "no time", "ann" * 10_000)
    print("writing", flush=True)
    sys.stdin.readline()

set_aside(Path(sys.argv[1]), ["user"], rows())
"""


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_bad_rows_left_by_killed_run_are_removed(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    arguments = [sys.executable, "-c", WRITES_BAD_ROWS, str(file)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "writing\n"
        running.kill()
    (leftover,) = (path for path in tmp_path.iterdir() if path.name.startswith("."))
    assert "ann" in leftover.read_text()
    assert leftover.stat().st_mode & 0o777 == 0o600
    job = asked(tmp_path, [*GOOD, BAD["NaN"]], bad_rows=f"quarantine:{file}")
    assert released(job)[1].quarantined == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert file.stat().st_mode & 0o777 == 0o600


def test_columns_may_have_any_names_when_rows_are_set_aside(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    file = tmp_path / "q.csv"
    events.write_text("row,file\n2024-03-01T00:10,a\nyesterday,b\n")
    job = Job(
        *("count", events, tmp_path / "s.db"), time="row", group_by="file", groups="a,b",
        every="1h",
        start="2024-03-01", windows=9, until="2024-03-01T03:00", epsilon=1,
        allow_empty_windows=True,
        bad_rows=f"quarantine:{file}",
    )  # fmt: skip
    assert released(job)[1].quarantined == 1
    with file.open(newline="") as stream:
        said = list(csv.reader(stream))
    assert said[0] == ["counton file", "counton row", "problem", "row", "file"]
    assert said[1][1:] == ["2", "a time that cannot be read", "yesterday", "b"]


@pytest.mark.parametrize("place", ["s.db", "s.db.key", "e.csv", "out.csv"])
def test_no_file_of_the_run_is_overwritten(place: str, tmp_path: Path) -> None:
    files: dict[str, Any] = {"output": tmp_path / "out.csv"}
    files["bad_rows"] = f"quarantine:{tmp_path / place}"
    job = asked(tmp_path, [*GOOD, BAD["NaN"]], **files)
    before = Path(str(job.events)).read_bytes()
    with pytest.raises(InvalidInputError, match=r"which the run reads or keeps|must end in"):
        run(job)
    with pytest.raises(InvalidInputError, match=r"which the run reads or keeps|must end in"):
        dry_run(job)
    assert Path(str(job.events)).read_bytes() == before
    assert not (tmp_path / "s.db").exists()


def test_a_rehearsal_writes_no_file_that_its_stream_remembers(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    released(asked(tmp_path, GOOD, bad_rows=f"quarantine:{file}"))
    file.unlink(missing_ok=True)
    job = asked(tmp_path, [*GOOD, BAD["NaN"]], until="2024-03-01T05:00")
    assert dry_run(job).confidential_counts().rows.quarantined == 1
    assert not file.exists()
